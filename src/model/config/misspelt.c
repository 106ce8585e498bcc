/* Keys of config.json that nobody reads, where somebody meant one that is read. */
#include "base/mem.h"
#include "base/names.h"
#include "model/arch.h"
#include "model/config/config.h"

#include <string.h>

static bool is_read(const struct pith_config_log *log, enum pith_config_scope scope,
                    const char *key)
{
    for (size_t i = 0; i < log->read[scope].count; i++)
        if (strcmp(log->read[scope].key[i], key) == 0) return true;
    return false;
}

/* A short name is near to too many with two edits. */
static unsigned most_edits(const char *key)
{
    return strlen(key) < 8 ? 1 : 2;
}

struct search {
    struct pith_config_log log;
    pith_misspelt_fn *fn;
    void *ctx;
};

static void look(const struct search *s, const char *object, const json_t *j,
                 enum pith_config_scope scope)
{
    enum { MOST = 1024 }; /* beyond it is no config that somebody wrote, and takes a minute */
    const char *key;
    json_t *value;
    if (json_object_size(j) > MOST) return;
    json_object_foreach ((json_t *)(uintptr_t)j, key, value) {
        const bool fine = key[0] == '_' || is_read(&s->log, scope, key); /* _: the library's own */
        const char *near =
            fine ? NULL : pith_name_nearest(key, s->log.read[scope].key, s->log.read[scope].count);
        if (near && !json_object_get(j, near) && pith_name_distance(key, near) <= most_edits(key))
            s->fn(s->ctx, object, key, near);
    }
}

/* What is read outside the architectures. */
static void read_others(struct pith_config_log *log)
{
    const struct pith_config none = {.log = log};
    (void)pith_config_get(&none, "quantization_config");
}

void pith_config_misspelt(const json_t *config, pith_misspelt_fn *fn, void *ctx)
{
    static const char *const rope[] = {"rope_scaling", "rope_parameters"};
    struct search s = {.fn = fn, .ctx = ctx};
    struct pith_shape *shape = pith_alloc(1, sizeof *shape);
    const struct pith_arch *arch;
    read_others(&s.log);
    if (shape) (void)pith_shape_read_logged(config, "config.json", &s.log, &arch, shape, NULL);
    if (shape && !s.log.failed) {
        look(&s, "", config, PITH_CONFIG_MODEL);
        look(&s, "text_config", json_object_get(config, "text_config"), PITH_CONFIG_MODEL);
        for (size_t i = 0; i < PITH_COUNT(rope); i++)
            look(&s, rope[i], json_object_get(config, rope[i]), PITH_CONFIG_ROPE);
    }
    pith_free(shape);
    pith_config_log_free(&s.log);
}
