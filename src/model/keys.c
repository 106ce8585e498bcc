#include "model/keys.h"

#include "base/mem.h"
#include "base/names.h"

#include <string.h>

static const char *const config_keys[] = {
#define CONFIG_KEY(name) name,
#define ROPE_KEY(name)
#include "model/config_keys.def"
#undef CONFIG_KEY
#undef ROPE_KEY
};

static const char *const rope_keys[] = {
#define CONFIG_KEY(name)
#define ROPE_KEY(name) name,
#include "model/config_keys.def"
#undef CONFIG_KEY
#undef ROPE_KEY
};

static bool is_known(const char *const *known, size_t count, const char *key)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(known[i], key) == 0) return true;
    return false;
}

/* A short name is near to too many with two edits. */
static unsigned most_edits(const char *key)
{
    return strlen(key) < 8 ? 1 : 2;
}

static void look(const char *object, const json_t *j, const char *const *known, size_t count,
                 pith_misspelt_fn *fn, void *ctx)
{
    enum { MOST = 1024 }; /* beyond it is no config that somebody wrote, and takes a minute */
    const char *key;
    json_t *value;
    if (json_object_size(j) > MOST) return;
    json_object_foreach ((json_t *)(uintptr_t)j, key, value) {
        const bool fine = key[0] == '_' || is_known(known, count, key); /* _: the library's own */
        const char *near = fine ? NULL : pith_name_nearest(key, known, count);
        if (near && !json_object_get(j, near) && pith_name_distance(key, near) <= most_edits(key))
            fn(ctx, object, key, near);
    }
}

void pith_config_misspelt(const json_t *config, pith_misspelt_fn *fn, void *ctx)
{
    static const char *const rope[] = {"rope_scaling", "rope_parameters"};
    look("", config, config_keys, PITH_COUNT(config_keys), fn, ctx);
    look("text_config", json_object_get(config, "text_config"), config_keys,
         PITH_COUNT(config_keys), fn, ctx);
    for (size_t i = 0; i < PITH_COUNT(rope); i++)
        look(rope[i], json_object_get(config, rope[i]), rope_keys, PITH_COUNT(rope_keys), fn, ctx);
}
