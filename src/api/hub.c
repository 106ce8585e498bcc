#include <pith/hub.h>

#include "api/options.h"
#include "base/mem.h"
#include "hub/cache.h"
#include "hub/pull.h"

#include <string.h>

static const struct pith_hub_options initial = {
    .size = sizeof initial, .endpoint = "https://huggingface.co", .jobs = 8};

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

static enum pith_status pull(const struct pith_hub_options *o, const char *endpoint,
                             const struct pith_hub_name *name, char **report,
                             struct pith_error *err)
{
    const struct pith_pull p = {.cache = o->cache,
                                .endpoint = endpoint,
                                .token = o->token,
                                .files = o->files.item,
                                .file_count = o->files.count,
                                .jobs = o->jobs,
                                .progress = &o->progress};
    json_t *j;
    char *text = NULL;
    size_t size;
    PITH_TRY(pith_pull_model(&p, name, &j, err));
    const enum pith_status s = report ? pith_json_text("the report", j, &text, &size, err)
                                      : PITH_OK;
    json_decref(j);
    if (report) *report = text;
    return s;
}

enum pith_status pith_hub_pull(const struct pith_hub_options *options, const char *name,
                               char **report, struct pith_error *err)
{
    struct pith_hub_name parsed;
    if (report) *report = NULL;
    PITH_OPTIONS(pith_hub_options, o, initial, options, err);
    if (!name) return pith_fail(err, PITH_ARG, "no name of a model was given");
    if (!o->cache) return pith_fail(err, PITH_ARG, "no folder of the cache was given");
    if (o->jobs < 1 || o->jobs > 64)
        return pith_fail(err, PITH_ARG, "%zu requests at a time: between 1 and 64", o->jobs);
    PITH_TRY(pith_hub_name_parse(name, &parsed, err));
    const char *address = o->endpoint ? o->endpoint : initial.endpoint;
    size_t n = strlen(address);
    while (n > 0 && address[n - 1] == '/') n--;
    char *endpoint = pith_strndup(address, n);
    if (!endpoint) return pith_fail_nomem(err, "an address");
    const enum pith_status s = pull(o, endpoint, &parsed, report, err);
    pith_free(endpoint);
    return s;
}
