#include "model/config/config.h"

#include "base/mem.h"

#include <string.h>

void pith_config_log_free(struct pith_config_log *log)
{
    for (size_t i = 0; i < PITH_CONFIG_SCOPES; i++) pith_free(log->read[i].key);
    *log = (struct pith_config_log){0};
}

static void note(struct pith_config_log *log, enum pith_config_scope scope, const char *key)
{
    enum { STEP = 64 };
    size_t *n = &log->read[scope].count;
    const char ***list = &log->read[scope].key;
    for (size_t i = 0; i < *n; i++)
        if (strcmp((*list)[i], key) == 0) return;
    if (*n % STEP == 0) {
        const char **more = pith_alloc(*n + STEP, sizeof *more);
        if (!more) {
            log->failed = true;
            return;
        }
        if (*n > 0) memcpy(more, *list, *n * sizeof *more);
        pith_free(*list);
        *list = more;
    }
    (*list)[(*n)++] = key;
}

const json_t *pith_config_get(const struct pith_config *c, const char *key)
{
    if (c->log) note(c->log, c->scope, key);
    return json_object_get(c->json, key);
}

bool pith_config_is_null(const struct pith_config *c, const char *key)
{
    return json_is_null(pith_config_get(c, key));
}

bool pith_config_has(const struct pith_config *c, const char *key)
{
    const json_t *v = pith_config_get(c, key);
    return v && !json_is_null(v);
}

struct pith_config pith_config_part(const struct pith_config *c, const json_t *part,
                                    enum pith_config_scope scope)
{
    return (struct pith_config){part, c->where, scope, c->log};
}

/* --- values ----------------------------------------------------------------------------------- */

enum pith_status pith_config_int(const struct pith_config *c, const char *key, int64_t lo,
                                 int64_t hi, int64_t *value, struct pith_error *err)
{
    (void)pith_config_get(c, key);
    return pith_json_get_int(c->json, key, lo, hi, value, c->where, err);
}

enum pith_status pith_config_most(const struct pith_config *c, const char *key, int64_t hi,
                                  int64_t *value, struct pith_error *err)
{
    (void)pith_config_get(c, key);
    return pith_json_get_most(c->json, key, hi, value, c->where, err);
}

enum pith_status pith_config_real(const struct pith_config *c, const char *key, double *value,
                                  struct pith_error *err)
{
    (void)pith_config_get(c, key);
    return pith_json_get_real(c->json, key, value, c->where, err);
}

enum pith_status pith_config_bool(const struct pith_config *c, const char *key, bool *value,
                                  struct pith_error *err)
{
    (void)pith_config_get(c, key);
    return pith_json_get_bool(c->json, key, value, c->where, err);
}

enum pith_status pith_config_str(const struct pith_config *c, const char *key, const char **value,
                                 struct pith_error *err)
{
    (void)pith_config_get(c, key);
    return pith_json_get_str(c->json, key, value, c->where, err);
}
