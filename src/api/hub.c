#include <pith/hub.h>

#include "api/options.h"
#include "hub/cache.h"

static const struct pith_hub_options initial = {.size = sizeof initial};

void pith_hub_defaults_sized(struct pith_hub_options *options, size_t size)
{
    pith_options_give(options, size, &initial, sizeof initial);
}

bool pith_hub_is_name(const char *text)
{
    return text && pith_hub_name_is(text);
}

enum pith_status pith_hub_find(const struct pith_hub_options *options, const char *name,
                               char **path, struct pith_error *err)
{
    struct pith_hub_name parsed;
    *path = NULL;
    PITH_OPTIONS(pith_hub_options, o, initial, options, err);
    if (!name) return pith_fail(err, PITH_ARG, "no name of a model was given");
    if (!o->cache) return pith_fail(err, PITH_ARG, "no folder of the cache was given");
    PITH_TRY(pith_hub_name_parse(name, &parsed, err));
    return pith_hub_find_model(o->cache, &parsed, path, err);
}
