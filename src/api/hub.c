#include <pith/hub.h>

#include "api/options.h"
#include "api/report.h"
#include "base/file.h"
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

/* What becomes a report when all is there. */
struct pulling {
    double began;
    struct pith_report **report;
};

static void say_pulled(struct pith_report *r, const struct pith_pulled *p, double seconds)
{
    enum { MOST = 12 };
    const struct pith_line subject = {.strong = p->repo}, plain = {.fields = true};
    char all[32], came[32], took[32], size[32];
    pith_bytes_text((double)p->bytes, all, sizeof all);
    pith_bytes_text((double)p->downloaded, came, sizeof came);
    pith_seconds_text(seconds, took, sizeof took);
    if (p->downloaded)
        pith_report_line(r, &subject, ": %s in %zu files, %s of it downloaded in %s", all, p->count,
                         came, took);
    else pith_report_line(r, &subject, ": %s in %zu files, all of it here already", all, p->count);
    for (size_t i = 0; i < p->count && i < MOST; i++) {
        pith_bytes_text((double)p->file[i].bytes, size, sizeof size);
        pith_report_line(r, &(struct pith_line){0}, "  %12s  %s", size, p->file[i].name);
    }
    if (p->count > MOST)
        pith_report_line(r, &plain, "  ... and %zu more (`json` lists all)", p->count - MOST);
    pith_report_line(r, &(struct pith_line){0}, "  commit %s", p->commit);
    pith_report_line(r, &(struct pith_line){0}, "  %s", p->path);
}

static enum pith_status report_pulled(void *ctx, const struct pith_pulled *p,
                                      struct pith_error *err)
{
    const struct pulling *to = ctx;
    struct pith_report *r = pith_report_new();
    if (!r) return pith_fail_nomem(err, "the report");
    say_pulled(r, p, pith_clock() - to->began);
    pith_report_set(r, "model", pith_words(p->repo));
    pith_report_set(r, "revision", pith_words(p->revision));
    pith_report_set(r, "commit", pith_words(p->commit));
    pith_report_set(r, "path", pith_words(p->path));
    pith_report_set(r, "bytes", pith_whole((int64_t)p->bytes));
    pith_report_set(r, "downloaded", pith_whole((int64_t)p->downloaded));
    pith_report_list(r, "files");
    for (size_t i = 0; i < p->count; i++) {
        pith_report_open(r, "");
        pith_report_set(r, "name", pith_words(p->file[i].name));
        pith_report_set(r, "bytes", pith_whole((int64_t)p->file[i].bytes));
        pith_report_set(r, "blob", pith_words(p->file[i].blob));
        pith_report_set(r, "downloaded", pith_yes(p->file[i].downloaded));
        pith_report_close(r);
    }
    pith_report_close(r);
    *to->report = r;
    return PITH_OK;
}

static enum pith_status pull(const struct pith_hub_options *o, const char *endpoint,
                             const struct pith_hub_name *name, struct pith_report **report,
                             struct pith_error *err)
{
    struct pulling to = {pith_clock(), report};
    const struct pith_pull p = {.cache = o->cache,
                                .endpoint = endpoint,
                                .token = o->token,
                                .files = o->files.item,
                                .file_count = o->files.count,
                                .jobs = o->jobs,
                                .progress = &o->progress,
                                .done = report_pulled,
                                .done_ctx = &to};
    return pith_pull_model(&p, name, err);
}

enum pith_status pith_hub_pull_report(const struct pith_hub_options *options, const char *name,
                                      struct pith_report **report, struct pith_error *err)
{
    struct pith_hub_name parsed;
    *report = NULL;
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

enum pith_status pith_hub_pull(const struct pith_hub_options *options, const char *name,
                               char **report, struct pith_error *err)
{
    struct pith_report *r = NULL;
    if (report) *report = NULL;
    return pith_report_give(&r, pith_hub_pull_report(options, name, &r, err), report, err);
}
