#include "model/config/shape.h"

#include "model/arch.h"
#include "model/config/config.h"

#include <string.h>

/* The dtype key of either dialect; NULL when neither says anything. */
static const char *dtype_key(const struct pith_config *c)
{
    static const char *const keys[] = {"dtype", "torch_dtype"};
    for (size_t i = 0; i < 2; i++) {
        const json_t *v = pith_config_get(c, keys[i]);
        if (!v || json_is_null(v)) continue;
        const char *name = json_string_value(v);
        if (!name || strcmp(name, "auto") != 0) return keys[i];
    }
    return NULL;
}

bool pith_shape_has_dtype(const json_t *config)
{
    const struct pith_config c = {.json = config},
                             text = {.json = json_object_get(config, "text_config")};
    return dtype_key(&c) != NULL || dtype_key(&text) != NULL;
}

static enum pith_status read_dtype(const struct pith_config *c, enum pith_dtype *out,
                                   struct pith_error *err)
{
    static const struct {
        const char *name;
        enum pith_dtype dtype;
    } known[] = {{"float32", PITH_F32}, {"float16", PITH_F16}, {"bfloat16", PITH_BF16}};
    const char *key = dtype_key(c);
    if (!key) return PITH_OK;
    const char *name = NULL;
    PITH_TRY(pith_config_str(c, key, &name, err));
    if (!name) return PITH_OK;
    const char *plain = strncmp(name, "torch.", 6) == 0 ? name + 6 : name;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strcmp(plain, known[i].name) != 0) continue;
        *out = known[i].dtype;
        return PITH_OK;
    }
    return pith_fail(err, PITH_UNSUPPORTED,
                     "%s: \"%s\" \"%s\" is not supported (float32, float16, bfloat16)", c->where,
                     key, name);
}

/* By the class, and where that is none of the known ones by the model_type, as transformers does:
 * conversions and trainers write other classes. */
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

static enum pith_status pick_arch(const struct pith_config *c, const struct pith_arch **arch,
                                  struct pith_error *err)
{
    const json_t *list = pith_config_get(c, "architectures");
    const char *name = NULL, *type = NULL;
    if (list && !json_is_null(list) && !json_is_array(list))
        return pith_fail(err, PITH_FORMAT, "%s: \"architectures\" is not a list", c->where);
    if (json_array_size(list) > 0) {
        name = json_string_value(json_array_get(list, 0));
        if (!name)
            return pith_fail(err, PITH_FORMAT, "%s: \"architectures\"[0] is not a string",
                             c->where);
    }
    PITH_TRY(pith_config_str(c, "model_type", &type, err));
    if (!name && !type)
        return pith_fail(err, PITH_FORMAT,
                         "%s: neither \"architectures\" nor \"model_type\" is there", c->where);
    *arch = find_arch(name, type);
    return *arch ? PITH_OK : fail_unknown(c->where, name ? name : type, err);
}

enum pith_status pith_shape_read_logged(const json_t *config, const char *where,
                                        struct pith_config_log *log, const struct pith_arch **arch,
                                        struct pith_shape *shape, struct pith_error *err)
{
    const struct pith_config c = {.json = config, .where = where, .log = log};
    if (!json_is_object(config)) return pith_fail(err, PITH_FORMAT, "%s: not a JSON object", where);
    PITH_TRY(pick_arch(&c, arch, err));
    const json_t *part = (*arch)->wraps ? pith_config_get(&c, "text_config") : NULL;
    const struct pith_config text = pith_config_part(&c, part, PITH_CONFIG_MODEL);
    const bool inner = json_is_object(part);
    PITH_TRY((*arch)->read(inner ? &text : &c, shape, err));
    if ((*arch)->wraps) {
        shape->ends.tied = (*arch)->wraps_tied;
        PITH_TRY(pith_config_bool(&c, "tie_word_embeddings", &shape->ends.tied, err));
    }
    if (inner) PITH_TRY(read_dtype(&text, &shape->dtype, err));
    return read_dtype(&c, &shape->dtype, err);
}

enum pith_status pith_shape_read(const json_t *config, const char *where,
                                 const struct pith_arch **arch, struct pith_shape *shape,
                                 struct pith_error *err)
{
    return pith_shape_read_logged(config, where, NULL, arch, shape, err);
}
