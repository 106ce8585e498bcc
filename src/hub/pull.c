#include "hub/pull.h"

#include "base/async.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/tree.h"
#include "hub/cache.h"
#include "hub/listing.h"
#include "hub/arrival.h"
#include "hub/store.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum stage { WAITING, ARRIVING, CHECKING, HERE };

/* A file on its way. */
struct item {
    const struct pith_hub_file *file;
    char *blob; /* path of its bytes; owned */
    enum stage stage;
    int lock;
    double try_lock; /* pith_clock() of the next look at a lock that another holds */
    bool downloaded;
    struct pith_arrival part;
    struct pith_async *check;
    _Atomic(bool) checked;
    const _Atomic(bool) *stop;
};

/* A request at work for a piece of an item. */
struct lane {
    struct pith_http_call call;
    struct item *item; /* NULL: idle */
    struct pith_hub_piece *piece;
    uint64_t began; /* bytes of the piece before this request */
    char *url;
};

struct run {
    const struct pith_pull *pull;
    const struct pith_hub_name *name;
    struct pith_http *http;
    struct pith_hub_listing listing;
    struct item *item;
    struct lane *lane;
    _Atomic(bool) stop;
    double recorded;
    uint64_t total;
};

/* --- a piece ---------------------------------------------------------------------------------- */

static enum pith_status take_bytes(void *ctx, const void *data, size_t size, struct pith_error *err)
{
    struct lane *l = ctx;
    struct pith_hub_piece *p = l->piece;
    if (size > p->to - p->from - p->done)
        return pith_fail(err, PITH_FORMAT,
                         "%s: more came than the hub says it has; what is good "
                         "of it is stored",
                         l->item->file->path);
    PITH_TRY(pith_out_write(&l->item->part.out, p->from + p->done, data, size, err));
    p->done += size;
    l->item->part.changed = true;
    return PITH_OK;
}

static enum pith_status set_out(struct run *r, struct lane *l, struct item *it,
                                struct pith_hub_piece *p, struct pith_error *err)
{
    struct pith_str url = {0};
    pith_str_printf(&url, "%s/%s/resolve/%s/", r->pull->endpoint, r->name->repo, r->listing.commit);
    pith_http_quote(&url, it->file->path, true);
    l->url = pith_str_take(&url);
    if (!l->url) return pith_fail_nomem(err, "a request");
    l->call = (struct pith_http_call){.url = l->url,
                                      .ranged = true,
                                      .from = p->from + p->done,
                                      .to = p->to,
                                      .total = it->part.size,
                                      .take = take_bytes,
                                      .ctx = l};
    l->item = it;
    l->piece = p;
    l->began = p->done;
    p->taken = true;
    return pith_http_start(r->http, &l->call, err);
}

static void idle(struct lane *l)
{
    pith_http_stop(&l->call);
    if (l->item) l->piece->taken = false;
    l->item = NULL;
    pith_free(l->url);
    l->url = NULL;
}

/* The whole file comes whatever the request: one lane takes it from its start. */
static void unite(struct run *r, struct item *it)
{
    for (size_t i = 0; i < r->pull->jobs; i++)
        if (r->lane[i].item == it) idle(&r->lane[i]);
    pith_arrival_unite(&it->part);
}

/* A request is over: the piece is there, is tried again, or all fails. */
static enum pith_status finish_lane(struct run *r, struct lane *l, struct pith_error *err)
{
    struct item *it = l->item;
    struct pith_hub_piece *p = l->piece;
    struct pith_http_call *c = &l->call;
    const uint64_t left = p->to - p->from - p->done;
    enum pith_status s = PITH_OK;
    if (c->end == PITH_HTTP_WHOLE) {
        unite(r, it);
        return PITH_OK;
    }
    if (c->end == PITH_HTTP_DONE && c->linked_etag[0] &&
        strcmp(c->linked_etag, it->file->blob) != 0)
        s = pith_fail(err, PITH_FORMAT, "%s: the hub lists it as %s and sends %s", it->file->path,
                      it->file->blob, c->linked_etag);
    if (c->end == PITH_HTTP_DONE && left > 0) {
        c->end = PITH_HTTP_CUT;
        snprintf(c->message, sizeof c->message, "it ended %llu bytes too soon",
                 (unsigned long long)left);
    }
    if (s == PITH_OK && c->end != PITH_HTTP_DONE &&
        !pith_tries_again(&p->tries, c, p->done > l->began))
        s = pith_hub_refused(c, r->name, it->file->path, r->pull->endpoint,
                             pith_http_has_token(r->http), err);
    idle(l);
    return s;
}

/* --- a file ----------------------------------------------------------------------------------- */

static enum pith_status check(void *ctx, struct pith_error *err)
{
    struct item *it = ctx;
    const enum pith_status s = pith_arrival_check(&it->part, it->file->blob, it->stop, err);
    atomic_store(&it->checked, true);
    return s;
}

static bool has_blob(const struct item *it)
{
    uint64_t size;
    int64_t changed;
    return pith_file_stat(it->blob, &size, &changed, NULL) == PITH_OK && size == it->file->size;
}

/* The lock that Hugging Face's tools take for the same blob. Of two names for the same bytes the
 * second waits for the first. */
static enum pith_status lock(const struct run *r, struct item *it, struct pith_error *err)
{
    struct pith_str path = {0};
    const char *slash = strchr(r->name->repo, '/');
    pith_str_printf(&path, "%s/.locks/models--%.*s--%s/%s.lock", r->pull->cache,
                    (int)(slash - r->name->repo), r->name->repo, slash + 1, it->file->blob);
    if (path.failed) return pith_fail_nomem(err, "a lock");
    enum pith_status s = pith_tree_make_above(path.data, err);
    if (s == PITH_OK) s = pith_file_lock(path.data, &it->lock, err);
    pith_str_free(&path);
    if (it->lock < 0) it->try_lock = pith_clock() + 0.3;
    return s;
}

static void unlock(struct item *it)
{
    pith_file_unlock(it->lock);
    it->lock = -1;
}

/* Begins a file, unless it is here, or another program is at it. */
static enum pith_status begin(struct run *r, struct item *it, struct pith_error *err)
{
    if (pith_clock() < it->try_lock) return PITH_OK;
    if (!has_blob(it)) {
        PITH_TRY(lock(r, it, err));
        if (it->lock < 0) return PITH_OK;
    }
    if (has_blob(it)) {
        it->stage = HERE;
        unlock(it);
        return PITH_OK;
    }
    struct pith_error why = {0};
    const enum pith_status s =
        pith_arrival_open(it->blob, it->file->size, r->pull->jobs, &it->part, &why);
    if (s != PITH_OK)
        return pith_fail(err, s, "%s: %s; what has arrived is stored", it->file->path, why.text);
    it->stage = ARRIVING;
    return PITH_OK;
}

/* Something wrong with a file as a whole: what arrived of it is deleted. */
static enum pith_status finish_check(struct item *it, struct pith_error *err)
{
    enum pith_status s = pith_async_wait(&it->check, err);
    if (s == PITH_MISMATCH) {
        pith_arrival_close(&it->part, true);
        pith_fail_in(err, s, it->file->path);
        return s;
    }
    if (s == PITH_OK) s = pith_rename(it->part.path, it->blob, err);
    if (s != PITH_OK) return s;
    pith_arrival_close(&it->part, true);
    it->stage = HERE;
    it->downloaded = true;
    unlock(it);
    return PITH_OK;
}

static enum pith_status move(struct run *r, struct item *it, struct pith_error *err)
{
    if (it->stage == ARRIVING && pith_arrival_done(&it->part) == it->part.size) {
        for (size_t i = 0; i < r->pull->jobs; i++)
            if (r->lane[i].item == it) return PITH_OK; /* its answer is not over yet */
        pith_arrival_record(&it->part);
        it->stage = CHECKING;
        atomic_store(&it->checked, false);
        return pith_async_start(check, it, &it->check, err);
    }
    if (it->stage == CHECKING && atomic_load(&it->checked)) return finish_check(it, err);
    return PITH_OK;
}

/* --- all of them ------------------------------------------------------------------------------ */

static struct pith_hub_piece *free_piece(struct item *it)
{
    for (size_t i = 0; i < it->part.count; i++) {
        struct pith_hub_piece *p = &it->part.piece[i];
        if (!p->taken && p->done < p->to - p->from && p->tries.again <= pith_clock()) return p;
    }
    return NULL;
}

/* Gives an idle lane the first piece that nobody is at. */
static enum pith_status employ(struct run *r, struct lane *l, struct pith_error *err)
{
    for (size_t i = 0; i < r->listing.count; i++) {
        struct item *it = &r->item[i];
        if (it->stage == WAITING) PITH_TRY(begin(r, it, err));
        if (it->stage != ARRIVING) continue;
        struct pith_hub_piece *p = free_piece(it);
        if (p) return set_out(r, l, it, p, err);
    }
    return PITH_OK;
}

static void record(struct run *r)
{
    if (pith_clock() < r->recorded + 2) return;
    for (size_t i = 0; i < r->listing.count; i++)
        if (r->item[i].stage == ARRIVING) pith_arrival_record(&r->item[i].part);
    r->recorded = pith_clock();
}

/* What is going on, in a few words. */
static enum pith_status report_progress(struct run *r, bool *all, struct pith_error *err)
{
    char what[96];
    uint64_t done = 0;
    size_t here = 0;
    const struct item *at = NULL;
    for (size_t i = 0; i < r->listing.count; i++) {
        const struct item *it = &r->item[i];
        here += it->stage == HERE;
        if (it->stage == HERE || it->stage == CHECKING) done += it->file->size;
        if (it->stage == ARRIVING) done += pith_arrival_done(&it->part);
        if (!at && it->stage != HERE) at = it;
    }
    *all = here == r->listing.count;
    snprintf(what, sizeof what, "%s%.70s",
             at && at->stage == CHECKING                      ? "checking "
             : at && at->stage == WAITING && at->try_lock > 0 ? "another program gets "
                                                              : "",
             at ? at->file->path : "all files");
    return pith_progress_step(r->pull->progress, what, (double)done, (double)r->total, err);
}

static enum pith_status arrive(struct run *r, struct pith_error *err)
{
    bool all = false;
    while (!all) {
        for (size_t i = 0; i < r->pull->jobs; i++)
            if (!r->lane[i].item) PITH_TRY(employ(r, &r->lane[i], err));
        PITH_TRY(pith_http_wait(r->http, 50, err));
        for (size_t i = 0; i < r->pull->jobs; i++)
            if (r->lane[i].item && r->lane[i].call.over) PITH_TRY(finish_lane(r, &r->lane[i], err));
        for (size_t i = 0; i < r->listing.count; i++) PITH_TRY(move(r, &r->item[i], err));
        record(r);
        PITH_TRY(report_progress(r, &all, err));
    }
    return PITH_OK;
}

/* Whether the disk has room for what is missing; known only roughly, and checked again by each
 * file. */
static enum pith_status check_room(struct run *r, struct pith_error *err)
{
    uint64_t missing = 0;
    for (size_t i = 0; i < r->listing.count; i++) {
        r->total += r->item[i].file->size;
        if (!has_blob(&r->item[i])) missing += r->item[i].file->size;
    }
    const uint64_t room = pith_disk_free(r->pull->cache);
    for (size_t i = 0; i < r->listing.count; i++) {
        struct pith_str part = {0};
        struct pith_stamp stamp;
        pith_str_printf(&part, "%s.pith.incomplete", r->item[i].blob);
        if (!part.failed && pith_file_stamp(part.data, &stamp, NULL) == PITH_OK)
            missing -= stamp.size < missing ? stamp.size : missing; /* its space is taken already */
        pith_str_free(&part);
    }
    if (missing <= room) return PITH_OK;
    return pith_fail(err, PITH_IO,
                     "%s: no space for %s: %.1f MiB are missing and %.1f MiB are "
                     "free; nothing was downloaded",
                     r->pull->cache, r->name->repo, (double)missing / (1 << 20),
                     (double)room / (1 << 20));
}

static enum pith_status make_items(struct run *r, struct pith_error *err)
{
    char part[16 + PITH_HUB_BLOB];
    r->item = pith_zalloc(r->listing.count, sizeof *r->item);
    r->lane = pith_zalloc(r->pull->jobs, sizeof *r->lane);
    if (!r->item || !r->lane) return pith_fail_nomem(err, "a list of files");
    for (size_t i = 0; i < r->listing.count; i++) {
        struct item *it = &r->item[i];
        snprintf(part, sizeof part, "blobs/%s", r->listing.file[i].blob);
        it->file = &r->listing.file[i];
        it->blob = pith_hub_folder(r->pull->cache, r->name->repo, part);
        it->lock = -1;
        it->part.out.fd = -1;
        it->stop = &r->stop;
        if (!it->blob) return pith_fail_nomem(err, "a list of files");
    }
    return PITH_OK;
}

static void close_run(struct run *r)
{
    atomic_store(&r->stop, true);
    for (size_t i = 0; r->lane && i < r->pull->jobs; i++) idle(&r->lane[i]);
    for (size_t i = 0; r->item && i < r->listing.count; i++) {
        struct item *it = &r->item[i];
        (void)pith_async_wait(&it->check, NULL);
        pith_arrival_close(&it->part, false);
        unlock(it);
        pith_free(it->blob);
    }
    pith_free(r->item);
    pith_free(r->lane);
    pith_hub_listing_free(&r->listing);
    pith_http_free(r->http);
}

/* --- the end ---------------------------------------------------------------------------------- */

static enum pith_status give_files(const struct run *r, const char *snapshot,
                                   struct pith_error *err)
{
    const size_t count = r->listing.count;
    struct pith_pulled_file *file = pith_alloc(count ? count : 1, sizeof *file);
    struct pith_pulled all = {.repo = r->name->repo,
                              .revision = r->name->revision,
                              .commit = r->listing.commit,
                              .path = snapshot,
                              .file = file,
                              .count = count,
                              .bytes = r->total};
    if (!file) return pith_fail_nomem(err, "a list of files");
    for (size_t i = 0; i < count; i++) {
        const struct item *it = &r->item[i];
        if (it->downloaded) all.downloaded += it->file->size;
        file[i] = (struct pith_pulled_file){it->file->path, it->file->blob, it->file->size,
                                            it->downloaded};
    }
    const enum pith_status s = r->pull->done(r->pull->done_ctx, &all, err);
    pith_free(file);
    return s;
}

static enum pith_status keep_all(const struct run *r, struct pith_error *err)
{
    char *snapshot = NULL;
    enum pith_status s = pith_store_link(r->pull->cache, r->name, &r->listing, &snapshot, err);
    if (s == PITH_OK) s = give_files(r, snapshot, err);
    pith_free(snapshot);
    return s;
}

enum pith_status pith_pull_model(const struct pith_pull *pull, const struct pith_hub_name *name,
                                 struct pith_error *err)
{
    struct run r = {.pull = pull, .name = name};
    enum pith_status s = pith_http_new(pull->endpoint, pull->token, &r.http, err);
    if (s == PITH_OK)
        s = pith_hub_list(r.http, pull->endpoint, name, pull->progress, &r.listing, err);
    if (s == PITH_OK) s = pith_hub_choose(&r.listing, pull->files, pull->file_count, name, err);
    if (s == PITH_OK) s = pith_store_make(pull->cache, name, err);
    if (s == PITH_OK) s = make_items(&r, err);
    if (s == PITH_OK) s = check_room(&r, err);
    if (s == PITH_OK) s = arrive(&r, err);
    if (s == PITH_OK) s = keep_all(&r, err);
    close_run(&r);
    return s;
}
