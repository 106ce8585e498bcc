#include "tok/component.h"

#include "base/file.h"
#include "base/mem.h"

#include <string.h>

#define MAX_FILE ((size_t)256 << 20)

enum pith_status pith_component_file(const char *dir, const char *name, json_t **out,
                                     struct pith_error *err)
{
    char *path = pith_path_join(dir, name);
    if (!path) return pith_fail_nomem(err, "path");
    enum pith_status s = PITH_OK;
    if (pith_path_exists(path)) s = pith_json_load(path, MAX_FILE, out, err);
    pith_free(path);
    return s;
}

enum pith_status pith_component_type(const json_t *json, const char *what, const char **type,
                                     struct pith_error *err)
{
    *type = NULL;
    if (!json_is_object(json)) return pith_fail(err, PITH_FORMAT, "%s: not an object", what);
    PITH_TRY(pith_json_get_str(json, "type", type, what, err));
    if (!*type) return pith_fail(err, PITH_FORMAT, "%s: has no \"type\"", what);
    return PITH_OK;
}

enum pith_status pith_component_text(const json_t *json, const char *key, const char *what,
                                     const char **text, size_t *len, struct pith_error *err)
{
    const json_t *v = json_object_get(json, key);
    if (!json_is_string(v))
        return pith_fail(err, PITH_FORMAT, "%s: \"%s\" is missing or not a string", what, key);
    *text = json_string_value(v);
    *len = json_string_length(v);
    return PITH_OK;
}

enum pith_status pith_component_pattern(const json_t *json, const char *what,
                                        struct pith_regex **out, struct pith_error *err)
{
    const json_t *pattern = json_object_get(json, "pattern");
    const json_t *text = json_object_get(pattern, "String");
    if (json_is_string(text))
        return pith_regex_literal(json_string_value(text), json_string_length(text), out, err);
    text = json_object_get(pattern, "Regex");
    if (!json_is_string(text))
        return pith_fail(err, PITH_FORMAT,
                         "%s: \"pattern\" is neither {\"String\"} nor {\"Regex\"}", what);
    return pith_regex_new(json_string_value(text), json_string_length(text), out, err);
}

const json_t *pith_component_token(const json_t *json)
{
    if (json_is_object(json)) json = json_object_get(json, "content");
    return json_is_string(json) ? json : NULL;
}

enum pith_status pith_component_unsupported(const char *what, const char *type,
                                            struct pith_error *err)
{
    return pith_fail(err, PITH_UNSUPPORTED, "%s \"%.80s\" is not supported", what, type);
}
