#include "model/shape.h"

#include "model/arch.h"

#include <string.h>

/* The dtype key of either dialect; NULL when neither says anything. */
static const char *dtype_key(const json_t *config)
{
    static const char *const keys[] = {"dtype", "torch_dtype"};
    for (size_t i = 0; i < 2; i++) {
        const json_t *v = json_object_get(config, keys[i]);
        if (!v || json_is_null(v)) continue;
        const char *name = json_string_value(v);
        if (!name || strcmp(name, "auto") != 0) return keys[i];
    }
    return NULL;
}

bool pith_shape_has_dtype(const json_t *config)
{
    const json_t *text = json_object_get(config, "text_config");
    return dtype_key(config) != NULL || (json_is_object(text) && dtype_key(text) != NULL);
}

static enum pith_status read_dtype(const json_t *config, const char *where, enum pith_dtype *out,
                                   struct pith_error *err)
{
    static const struct {
        const char *name;
        enum pith_dtype dtype;
    } known[] = {{"float32", PITH_F32}, {"float16", PITH_F16}, {"bfloat16", PITH_BF16}};
    const char *key = dtype_key(config);
    if (!key) return PITH_OK;
    const char *name = NULL;
    PITH_TRY(pith_json_get_str(config, key, &name, where, err));
    if (!name) return PITH_OK;
    const char *plain = strncmp(name, "torch.", 6) == 0 ? name + 6 : name;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strcmp(plain, known[i].name) != 0) continue;
        *out = known[i].dtype;
        return PITH_OK;
    }
    return pith_fail(err, PITH_UNSUPPORTED,
                     "%s: \"%s\" \"%s\" is not supported (float32, float16, bfloat16)", where, key,
                     name);
}

/* By the class, and where that is none of the known ones by the model_type, as transformers does:
 * conversions and trainers write classes of their own. */
static const struct pith_arch *find_arch(const char *name, const char *model_type)
{
    size_t count;
    const struct pith_arch *const *rows = pith_archs(&count);
    for (size_t i = 0; name && i < count; i++)
        if (strcmp(name, rows[i]->name) == 0) return rows[i];
    for (size_t i = 0; model_type && i < count; i++)
        if (strcmp(model_type, rows[i]->model_type) == 0) return rows[i];
    return NULL;
}

/* Names those that are known by their model_type, which is the shorter word. */
static enum pith_status fail_unknown(const char *where, const char *name, struct pith_error *err)
{
    struct pith_str known = {0};
    size_t count;
    const struct pith_arch *const *rows = pith_archs(&count);
    for (size_t i = 0; i < count; i++)
        pith_str_printf(&known, "%s%s", i ? ", " : "", rows[i]->model_type);
    const enum pith_status s = pith_fail(err, PITH_UNSUPPORTED,
                                         "%s: architecture \"%.60s\" is not supported; known: %s",
                                         where, name, pith_str_text(&known));
    pith_str_free(&known);
    return s;
}

static enum pith_status pick_arch(const json_t *config, const char *where,
                                  const struct pith_arch **arch, struct pith_error *err)
{
    const json_t *list = json_object_get(config, "architectures");
    const char *name = NULL, *type = NULL;
    if (list && !json_is_null(list) && !json_is_array(list))
        return pith_fail(err, PITH_FORMAT, "%s: \"architectures\" is not a list", where);
    if (json_array_size(list) > 0) {
        name = json_string_value(json_array_get(list, 0));
        if (!name)
            return pith_fail(err, PITH_FORMAT, "%s: \"architectures\"[0] is not a string", where);
    }
    PITH_TRY(pith_json_get_str(config, "model_type", &type, where, err));
    if (!name && !type)
        return pith_fail(err, PITH_FORMAT,
                         "%s: neither \"architectures\" nor \"model_type\" is there", where);
    *arch = find_arch(name, type);
    return *arch ? PITH_OK : fail_unknown(where, name ? name : type, err);
}

enum pith_status pith_shape_read(const json_t *config, const char *where,
                                 const struct pith_arch **arch, struct pith_shape *shape,
                                 struct pith_error *err)
{
    if (!json_is_object(config)) return pith_fail(err, PITH_FORMAT, "%s: not a JSON object", where);
    PITH_TRY(pick_arch(config, where, arch, err));
    const json_t *text = (*arch)->wraps ? json_object_get(config, "text_config") : NULL;
    const bool inner = json_is_object(text);
    PITH_TRY((*arch)->read(inner ? text : config, where, shape, err));
    if ((*arch)->wraps) {
        shape->tied = (*arch)->wraps_tied;
        PITH_TRY(pith_json_get_bool(config, "tie_word_embeddings", &shape->tied, where, err));
    }
    if (inner) PITH_TRY(read_dtype(text, where, &shape->dtype, err));
    return read_dtype(config, where, &shape->dtype, err);
}
