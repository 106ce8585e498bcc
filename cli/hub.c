/* Models by name: what the environment says about the hub, and their paths in its cache. */
#include "cli/hub.h"
#include "cli/command.h"

#include <pith/hub.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

char *hub_path(const struct hub_place *places, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        const char *value = getenv(places[i].variable);
        if (!value || !*value) continue;
        const size_t n = strlen(value) + strlen(places[i].part) + 1;
        char *path = malloc(n);
        if (path) snprintf(path, n, "%s%s", value, places[i].part);
        return path;
    }
    return NULL;
}

char *hub_cache(void)
{
    static const struct hub_place places[] = {{"HF_HUB_CACHE", ""},
                                              {"HUGGINGFACE_HUB_CACHE", ""},
                                              {"HF_HOME", "/hub"},
                                              {"XDG_CACHE_HOME", "/huggingface/hub"},
                                              {"HOME", "/.cache/huggingface/hub"}};
    return hub_path(places, sizeof places / sizeof places[0]);
}

bool hub_flag(const char *variable)
{
    static const char *const yes[] = {"1", "on", "yes", "true"};
    const char *value = getenv(variable);
    for (size_t i = 0; value && i < sizeof yes / sizeof yes[0]; i++)
        if (strcasecmp(value, yes[i]) == 0) return true;
    return false;
}

/* Keeps a path until the command is done. */
static bool keep(struct common *common, const char *path)
{
    const size_t n = common->found.count;
    const char **more = realloc(common->found.item, (n + 1) * sizeof *more);
    if (!more) return false;
    common->found.item = more;
    more[n] = path;
    common->found.count = n + 1;
    return true;
}

/* *model becomes a path when it is a name; what exists under that name comes first. */
static enum pith_status find_one(struct common *common, const struct pith_hub_options *o,
                                 const char **model, struct pith_error *err)
{
    struct stat st;
    char *path;
    if (!*model || !pith_hub_is_name(*model)) return PITH_OK;
    if (stat(*model, &st) == 0 || (errno != ENOENT && errno != ENOTDIR)) return PITH_OK;
    const enum pith_status s = pith_hub_find(o, *model, &path, err);
    if (s != PITH_OK) return s;
    if (!keep(common, path)) {
        pith_text_free(path);
        err->status = PITH_NOMEM;
        return PITH_NOMEM;
    }
    *model = path;
    return PITH_OK;
}

int find_models(const struct command *c, void *settings, struct text_list *operands)
{
    struct common *common = settings;
    struct pith_hub_options o;
    char *cache = hub_cache();
    enum pith_status s = PITH_OK;
    pith_hub_defaults(&o);
    o.cache = cache;
    for (size_t i = 0; cache && c->takes_models && i < operands->count && s == PITH_OK; i++)
        s = find_one(common, &o, &operands->item[i], &common->model_missing);
    for (size_t i = 0; cache && i < c->option_count && s == PITH_OK; i++) {
        char *at = (char *)settings + c->options[i].offset;
        if (c->options[i].row->type == OPTION_MODEL)
            s = find_one(common, &o, (const char **)(void *)at, &common->model_missing);
    }
    free(cache);
    return s == PITH_NOMEM ? report_failure(common, &common->model_missing) : EXIT_DONE;
}

void free_found(struct common *common)
{
    for (size_t i = 0; i < common->found.count; i++)
        pith_text_free((char *)(uintptr_t)common->found.item[i]);
    free(common->found.item);
}
