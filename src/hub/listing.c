#include "hub/listing.h"

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "hub/retry.h"

#include <stdlib.h>
#include <string.h>

enum { ANSWER_MOST = 64 << 20, FILES_MOST = 100000, PAGES_MOST = 2000 };

static const char asking[] = "asking the hub";

static enum pith_status take_text(void *ctx, const void *data, size_t size, struct pith_error *err)
{
    struct pith_str *text = ctx;
    if (size > ANSWER_MOST - text->len)
        return pith_fail(err, PITH_FORMAT, "an answer of the hub is longer than any list of files");
    pith_str_append(text, data, size);
    return text->failed ? pith_fail_nomem(err, "an answer of the hub") : PITH_OK;
}

/* The hub, and what is requested. */
struct source {
    struct pith_http *http;
    const char *endpoint;
    const struct pith_hub_name *name;
    const struct pith_progress *progress;
};

/* Waits for a call, or until it may be started again. */
static enum pith_status wait_for(const struct source *a, const struct pith_http_call *call,
                                 double until, struct pith_error *err)
{
    while (call ? !call->over : pith_clock() < until) {
        PITH_TRY(pith_progress_step(a->progress, asking, 0, 1, err));
        PITH_TRY(pith_http_wait(a->http, 100, err));
    }
    return PITH_OK;
}

static enum pith_status get(const struct source *a, struct pith_http_call *call,
                            struct pith_str *text, struct pith_error *err)
{
    struct pith_tries tries = {0};
    for (;;) {
        pith_str_clear(text);
        PITH_TRY(pith_http_start(a->http, call, err));
        const enum pith_status s = wait_for(a, call, 0, err);
        pith_http_stop(call);
        if (s != PITH_OK) return s;
        if (call->end == PITH_HTTP_DONE) return PITH_OK;
        if (call->end == PITH_HTTP_NOBODY || !pith_tries_again(&tries, call, false))
            return pith_hub_refused(call, a->name, NULL, a->endpoint, pith_http_has_token(a->http),
                                    err);
        PITH_TRY(wait_for(a, NULL, tries.again, err));
    }
}

/* The JSON at an address; `next`, when not NULL, receives the address of what follows. */
static enum pith_status get_json(const struct source *a, const char *url, json_t **out, char **next,
                                 struct pith_error *err)
{
    struct pith_str text = {0};
    struct pith_http_call *call = pith_zalloc(1, sizeof *call);
    if (!call) return pith_fail_nomem(err, "a request");
    call->url = url;
    call->take = take_text;
    call->ctx = &text;
    enum pith_status s = get(a, call, &text, err);
    if (s == PITH_OK) s = pith_json_parse(pith_str_text(&text), text.len, url, out, err);
    if (s == PITH_OK && next && call->next[0]) {
        *next = pith_strdup(call->next);
        if (!*next) s = pith_fail_nomem(err, "a request");
    }
    pith_str_free(&text);
    pith_free(call);
    return s;
}

static enum pith_status add(const struct source *a, const json_t *entry,
                            struct pith_hub_listing *out, struct pith_error *err)
{
    const char *type = "", *path = "", *blob = "";
    const json_t *lfs = json_object_get(entry, "lfs");
    int64_t size = -1;
    struct pith_hub_file f = {0};
    PITH_TRY(pith_json_get_str(entry, "type", &type, a->name->repo, err));
    if (strcmp(type, "file") != 0) return PITH_OK;
    PITH_TRY(pith_json_get_str(entry, "path", &path, a->name->repo, err));
    if (!pith_hub_path_is_safe(path))
        return pith_fail(err, PITH_FORMAT, "%s: the hub names a file '%s', which would lie outside "
                         "its folder; nothing was downloaded", a->name->repo, path);
    const json_t *from = json_is_object(lfs) ? lfs : entry;
    PITH_TRY(pith_json_get_str(from, "oid", &blob, path, err));
    PITH_TRY(pith_json_get_int(from, "size", 0, (int64_t)1 << 48, &size, path, err));
    if (size < 0 || !pith_hub_is_hex(blob, from == lfs ? 64 : 40))
        return pith_fail(err, PITH_FORMAT, "%s/%s: the hub gives no length or no hash of it",
                         a->name->repo, path);
    if (out->count >= FILES_MOST)
        return pith_fail(err, PITH_FORMAT, "%s: too many files", a->name->repo);
    struct pith_hub_file *more = pith_realloc(out->file, out->count + 1, sizeof *more);
    if (!more) return pith_fail_nomem(err, "a list of files");
    out->file = more;
    f.size = (uint64_t)size;
    memcpy(f.blob, blob, strlen(blob) + 1);
    f.path = pith_strdup(path);
    if (!f.path) return pith_fail_nomem(err, "a list of files");
    more[out->count++] = f;
    return PITH_OK;
}

static int by_path(const void *a, const void *b)
{
    const struct pith_hub_file *x = a, *y = b;
    return strcmp(x->path, y->path);
}

static enum pith_status get_commit(const struct source *a, struct pith_hub_listing *out,
                                   struct pith_error *err)
{
    struct pith_str url = {0};
    json_t *j = NULL;
    const char *sha = "";
    pith_str_printf(&url, "%s/api/models/%s/revision/", a->endpoint, a->name->repo);
    pith_http_quote(&url, a->name->revision, false);
    enum pith_status s = url.failed ? pith_fail_nomem(err, "a request")
                                    : get_json(a, url.data, &j, NULL, err);
    if (s == PITH_OK) s = pith_json_get_str(j, "sha", &sha, a->name->repo, err);
    if (s == PITH_OK && !pith_hub_is_commit(sha))
        s = pith_fail(err, PITH_FORMAT, "%s: the answer of %s names no commit: is it a hub?",
                      a->name->repo, a->endpoint);
    if (s == PITH_OK) memcpy(out->commit, sha, sizeof out->commit);
    json_decref(j);
    pith_str_free(&url);
    return s;
}

static enum pith_status get_page(const struct source *a, char **url, struct pith_hub_listing *out,
                                 struct pith_error *err)
{
    json_t *j = NULL, *entry;
    char *next = NULL;
    size_t i;
    enum pith_status s = get_json(a, *url, &j, &next, err);
    if (s == PITH_OK && !json_is_array(j))
        s = pith_fail(err, PITH_FORMAT, "%s: no list of files came", a->name->repo);
    if (s == PITH_OK)
        json_array_foreach (j, i, entry)
            if (s == PITH_OK) s = add(a, entry, out, err);
    json_decref(j);
    pith_free(*url);
    *url = next;
    return s;
}

enum pith_status pith_hub_list(struct pith_http *http, const char *endpoint,
                               const struct pith_hub_name *name,
                               const struct pith_progress *progress, struct pith_hub_listing *out,
                               struct pith_error *err)
{
    const struct source a = {http, endpoint, name, progress};
    struct pith_str first = {0};
    size_t pages = 0;
    *out = (struct pith_hub_listing){0};
    PITH_TRY(get_commit(&a, out, err));
    pith_str_printf(&first, "%s/api/models/%s/tree/%s?recursive=true", endpoint, name->repo,
                    out->commit);
    char *url = pith_str_take(&first);
    if (!url) return pith_fail_nomem(err, "a request");
    enum pith_status s = PITH_OK;
    while (s == PITH_OK && url) {
        s = ++pages > PAGES_MOST ? pith_fail(err, PITH_FORMAT, "%s: a list without end", name->repo)
                                 : get_page(&a, &url, out, err);
    }
    pith_free(url);
    if (s == PITH_OK && out->count > 0) qsort(out->file, out->count, sizeof *out->file, by_path);
    for (size_t i = 1; s == PITH_OK && i < out->count; i++)
        if (strcmp(out->file[i].path, out->file[i - 1].path) == 0)
            s = pith_fail(err, PITH_FORMAT, "%s: the hub lists '%s' twice", name->repo,
                          out->file[i].path);
    return s;
}

void pith_hub_listing_free(struct pith_hub_listing *listing)
{
    for (size_t i = 0; i < listing->count; i++) pith_free(listing->file[i].path);
    pith_free(listing->file);
    *listing = (struct pith_hub_listing){0};
}
