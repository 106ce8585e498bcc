/* model/config/config.h: config.json as the readers of architectures see it: an object, the file
 * that messages name, and a log of the keys that were read. A key that was not read is one that
 * this architecture does not have, so that no list of keys is needed. */
#ifndef PITH_MODEL_CONFIG_CONFIG_H
#define PITH_MODEL_CONFIG_CONFIG_H

#include "base/json.h"

/* Which keys are in one object: the model's, and those of rotary parameters. */
enum pith_config_scope { PITH_CONFIG_MODEL, PITH_CONFIG_ROPE, PITH_CONFIG_SCOPES };

/* The keys that were read, each once. The names are string literals. */
struct pith_config_log {
    struct {
        const char **key;
        size_t count;
    } read[PITH_CONFIG_SCOPES];
    bool failed; /* for want of memory; then some are not there */
};
void pith_config_log_free(struct pith_config_log *log);

struct pith_config {
    const json_t *json; /* the object; NULL (or none): every key is missing */
    const char *where;
    enum pith_config_scope scope;
    struct pith_config_log *log; /* NULL: nobody wants to know */
};

/* The value of a key; NULL: it is missing. */
const json_t *pith_config_get(const struct pith_config *c, const char *key);
bool pith_config_is_null(const struct pith_config *c, const char *key);
/* Whether a key is there and says something else than null. */
bool pith_config_has(const struct pith_config *c, const char *key);
/* Another object of the same file: a part of it, with keys of that scope. */
struct pith_config pith_config_part(const struct pith_config *c, const json_t *part,
                                    enum pith_config_scope scope);

/* As pith_json_get_int() and so on. */
enum pith_status pith_config_int(const struct pith_config *c, const char *key, int64_t lo,
                                 int64_t hi, int64_t *value, struct pith_error *err);
enum pith_status pith_config_most(const struct pith_config *c, const char *key, int64_t hi,
                                  int64_t *value, struct pith_error *err);
enum pith_status pith_config_real(const struct pith_config *c, const char *key, double *value,
                                  struct pith_error *err);
enum pith_status pith_config_bool(const struct pith_config *c, const char *key, bool *value,
                                  struct pith_error *err);
enum pith_status pith_config_str(const struct pith_config *c, const char *key, const char **value,
                                 struct pith_error *err);

/* Called for each key that its architecture does not read and that is one or two edits away from
 * `near`, which it reads and which is missing (so that its default is in use). Keys within another
 * object come with its name, "rope_scaling". */
typedef void pith_misspelt_fn(void *ctx, const char *object, const char *key, const char *near);
void pith_config_misspelt(const json_t *config, pith_misspelt_fn *fn, void *ctx);

#endif
