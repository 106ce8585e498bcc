/* What is on the disk against what the journal says was written. */
#include "quantize/run.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "io/digest.h"
#include "quantize/output/layout.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    CHUNK = 1 << 19, /* each thread holds one */
    /* Smaller pieces are read through the page cache, whose reading ahead joins them. */
    DIRECT_LEAST = 1 << 18
};

/* A tensor that a unit says it wrote. */
struct piece {
    const struct pith_tensor_plan *plan;
    const char *want; /* its hash */
    size_t unit;
    bool elsewhere; /* another process reads it */
    enum pith_status status;
};

/* Of the pieces that a thread found wrong, the first one's message. */
struct fault {
    size_t piece; /* in the list; SIZE_MAX: none */
    struct pith_error err;
};

/* All of them. */
struct pieces {
    struct pith_run *r;
    struct pith_out *files; /* [layout.shards] */
    const char *what;       /* for the listener */
    struct piece *list;     /* [layout.count], `count` of them filled */
    size_t count;
    bool *seen;          /* [layout.count]: the plan's tensor is in the list */
    struct fault *fault; /* [threads] */
    atomic_bool stop;
    struct pith_error stopped;
};

/* --- what the journal lists ------------------------------------------------------------------- */

static bool is_hash(const char *text)
{
    return text && strlen(text) == PITH_SHA256_HEX - 1 &&
           strspn(text, "0123456789abcdef") == PITH_SHA256_HEX - 1;
}

/* Adds an entry's stored tensors; false when one is not the plan's for that unit, or is twice. */
static bool add_stored(struct pieces *all, size_t unit, const json_t *entry)
{
    const struct pith_layout *l = &all->r->job->layout;
    const json_t *stored = json_object_get(entry, "stored"), *item;
    size_t i;
    if (json_array_size(stored) == 0) return false;
    json_array_foreach (stored, i, item) {
        const char *name = json_string_value(json_object_get(item, "name"));
        const char *want = json_string_value(json_object_get(item, "sha256"));
        const struct pith_tensor_plan *p = name ? pith_layout_find(l, name) : NULL;
        if (!p || !is_hash(want) || pith_unit_of(&all->r->job->model->plans, name) != unit ||
            all->seen[p - l->tensors] ||
            (uint64_t)json_integer_value(json_object_get(item, "bytes")) != p->bytes)
            return false;
        all->seen[p - l->tensors] = true;
        all->list[all->count++] = (struct piece){.plan = p, .want = want, .unit = unit};
    }
    return true;
}

/* A linear's entry is about one that the job quantizes, in that unit, on that grid. */
static bool is_planned(const struct pith_job *job, size_t unit, const json_t *entry)
{
    const char *name = json_string_value(json_object_get(entry, "name"));
    const char *grid = json_string_value(json_object_get(entry, "grid"));
    char tensor[256], want[PITH_GRID_TEXT];
    if (!name || !grid || !is_hash(json_string_value(json_object_get(entry, "sha256"))))
        return false;
    const int n = snprintf(tensor, sizeof tensor, "%s.weight", name);
    if (n < 0 || (size_t)n >= sizeof tensor || pith_unit_of(&job->model->plans, name) != unit)
        return false;
    const struct pith_choice *c = pith_job_tensor_choice(job, tensor);
    if (!c || !c->grid.format || strcmp(c->module, name) != 0) return false;
    const json_t *shape = json_object_get(entry, "shape");
    pith_grid_format(&c->grid, want);
    return strcmp(grid, want) == 0 && json_integer_value(json_array_get(shape, 0)) == c->rows &&
           json_integer_value(json_array_get(shape, 1)) == c->cols;
}

/* How many linears the job quantizes in a unit. */
static size_t planned_linears(const struct pith_job *job, size_t unit)
{
    const size_t count = unit ? pith_job_plan(job, (uint32_t)unit - 1)->linears : PITH_END_COUNT;
    const struct pith_choice *c = unit ? pith_job_choice(job, (uint32_t)unit - 1, 0) : job->ends;
    size_t n = 0;
    for (size_t i = 0; i < count; i++) n += c[i].grid.format != NULL;
    return n;
}

/* Adds all that a unit lists; false when anything is missing, unknown or twice. `planned`: how many
 * tensors the layout has for it. Names are distinguished by their stored tensors. */
static bool add_unit(struct pieces *all, size_t unit, size_t planned)
{
    const json_t *j = json_array_get(all->r->journal.units, unit), *entry;
    const json_t *linears = json_object_get(j, "linears"), *tensors = json_object_get(j, "tensors");
    const size_t before = all->count;
    size_t i;
    json_array_foreach (linears, i, entry)
        if (!is_planned(all->r->job, unit, entry) || !add_stored(all, unit, entry)) return false;
    json_array_foreach (tensors, i, entry)
        if (!add_stored(all, unit, entry)) return false;
    return json_array_size(linears) == planned_linears(all->r->job, unit) &&
           all->count - before == planned;
}

/* Lists the pieces of the first units that are complete; *units receives how many those are. */
static enum pith_status list_pieces(struct pieces *all, size_t *units, struct pith_error *err)
{
    const struct pith_layout *l = &all->r->job->layout;
    const size_t most = json_array_size(all->r->journal.units),
                 last = all->r->job->model->shape.layers + 1u;
    size_t *planned = pith_zalloc(last, sizeof *planned);
    all->list = pith_zalloc(l->count, sizeof *all->list);
    all->seen = pith_zalloc(l->count, sizeof *all->seen);
    if (!planned || !all->list || !all->seen) {
        pith_free(planned);
        return pith_fail_nomem(err, "the list of tensors");
    }
    for (size_t i = 0; i < l->count; i++) {
        const size_t unit = pith_unit_of(&all->r->job->model->plans, l->tensors[i].name);
        if (unit < last) planned[unit]++;
    }
    size_t n = 0;
    for (size_t before = 0; n < most && n < last; n++, before = all->count)
        if (!add_unit(all, n, planned[n])) {
            all->count = before;
            break;
        }
    pith_free(planned);
    *units = n;
    return PITH_OK;
}

static void free_pieces(struct pieces *all)
{
    pith_free(all->list);
    pith_free(all->seen);
    pith_free(all->fault);
}

/* --- what the files hold ---------------------------------------------------------------------- */

/* Only the caller's thread reports to the listener, which may stop the work within a chunk. */
static void report(struct pieces *all, size_t task, unsigned thread)
{
    struct pith_run *r = all->r;
    if (thread != 0 || atomic_load(&all->stop)) return;
    if (pith_progress_step(&r->job->options->progress, all->what, (double)task, (double)all->count,
                           &all->stopped) != PITH_OK)
        atomic_store(&all->stop, true);
}

static enum pith_status check_piece(struct pieces *all, size_t task, unsigned thread,
                                    struct pith_error *err)
{
    const struct piece *p = &all->list[task];
    const struct pith_out *file = &all->files[p->plan->shard];
    char hex[PITH_SHA256_HEX];
    const bool direct = p->plan->bytes >= DIRECT_LEAST;
    const size_t most = p->plan->bytes < CHUNK ? (size_t)p->plan->bytes : CHUNK;
    uint8_t *memory = pith_alloc(most + 3 * (size_t)PITH_DIRECT_ALIGN, 1);
    uint8_t *buffer = memory ? memory + PITH_DIRECT_ALIGN - (uintptr_t)memory % PITH_DIRECT_ALIGN
                             : NULL;
    struct pith_sha256 *h = pith_tensor_digest_begin(p->plan->dtype, p->plan->dims, p->plan->shape);
    enum pith_status s = buffer && h ? PITH_OK : pith_fail_nomem(err, p->plan->name);
    for (uint64_t at = 0; at < p->plan->bytes && s == PITH_OK; at += CHUNK) {
        const uint64_t left = p->plan->bytes - at;
        const size_t n = left < CHUNK ? (size_t)left : CHUNK;
        const void *bytes = buffer;
        if (at % ((uint64_t)16 * CHUNK) == 0) report(all, task, thread);
        if (atomic_load(&all->stop)) break;
        s = direct ? pith_out_read_direct(file, p->plan->offset + at, buffer, n, &bytes, err)
                   : pith_out_read(file, p->plan->offset + at, buffer, n, err);
        if (s == PITH_OK) pith_sha256_update(h, bytes, n);
    }
    pith_sha256_finish(h, hex);
    pith_free(memory);
    if (s != PITH_OK || atomic_load(&all->stop)) return s;
    if (hex[0] == '\0') return pith_fail_nomem(err, p->plan->name);
    if (strcmp(hex, p->want) == 0) return PITH_OK;
    return pith_fail(err, PITH_MISMATCH, "%s: %s: read back, its bytes are not what was written",
                     file->path, p->plan->name);
}

static void piece_task(void *ctx, size_t task, unsigned thread)
{
    struct pieces *all = ctx;
    struct fault *fault = &all->fault[thread];
    struct pith_error err = {0};
    const enum pith_status s =
        all->list[task].elsewhere ? PITH_OK : check_piece(all, task, thread, &err);
    all->list[task].status = s;
    if (s == PITH_OK || task >= fault->piece) return;
    *fault = (struct fault){task, err};
}

/* The message of the first piece that is wrong, if any is. */
static const struct fault *first_fault(const struct pieces *all)
{
    const unsigned threads = pith_pool_threads(pith_backend_pool(all->r->job->backend));
    const struct fault *first = &all->fault[0];
    for (unsigned i = 1; i < threads; i++)
        if (all->fault[i].piece < first->piece) first = &all->fault[i];
    return first->piece == SIZE_MAX ? NULL : first;
}

static enum pith_status check_pieces(struct pieces *all, struct pith_error *err)
{
    const unsigned threads = pith_pool_threads(pith_backend_pool(all->r->job->backend));
    all->fault = pith_alloc(threads, sizeof *all->fault);
    if (!all->fault) return pith_fail_nomem(err, "reading back");
    for (unsigned i = 0; i < threads; i++) all->fault[i].piece = SIZE_MAX;
    pith_phases_begin(&all->r->phases);
    pith_pool_run(pith_backend_pool(all->r->job->backend), all->count, piece_task, all);
    pith_phases_mark(&all->r->phases, PITH_PHASE_REREAD);
    if (!atomic_load(&all->stop)) return PITH_OK;
    if (err) *err = all->stopped;
    return all->stopped.status;
}

enum pith_status pith_intact_units(struct pith_run *r, size_t *count, struct pith_error *err)
{
    struct pieces all = {.r = r, .files = r->out.shards, .what = "checking what is done"};
    enum pith_status s = list_pieces(&all, count, err);
    if (s == PITH_OK) s = check_pieces(&all, err);
    for (size_t i = 0; i < all.count && s == PITH_OK; i++) {
        const struct piece *p = &all.list[i];
        if (p->status == PITH_OK || p->unit >= *count) continue;
        if (p->status == PITH_NOMEM) s = pith_fail_nomem(err, p->plan->name);
        *count = p->unit;
    }
    free_pieces(&all);
    return s;
}

/* --- the finished files ----------------------------------------------------------------------- */

static int compare_place(const void *a, const void *b)
{
    const struct piece *x = a, *y = b;
    if (x->plan->shard != y->plan->shard) return x->plan->shard < y->plan->shard ? -1 : 1;
    if (x->plan->offset != y->plan->offset) return x->plan->offset > y->plan->offset ? 1 : -1;
    /* One without bytes lies where the next begins. */
    return (x->plan->bytes > y->plan->bytes) - (x->plan->bytes < y->plan->bytes);
}

/* `size` bytes of a file from `at` on are `want`, or zeros when that is NULL. */
static enum pith_status check_bytes(const struct pith_out *file, uint64_t at, const char *want,
                                    uint64_t size, struct pith_error *err)
{
    enum { PART = 4096 };
    static const char zeros[PART];
    char bytes[PART];
    for (uint64_t done = 0; done < size; done += PART) {
        const size_t n = size - done < PART ? (size_t)(size - done) : PART;
        PITH_TRY(pith_out_read(file, at + done, bytes, n, err));
        if (memcmp(bytes, want ? want + done : zeros, n) != 0)
            return pith_fail(err, PITH_MISMATCH, "%s: read back, its %s is not what was written",
                             file->path, want ? "header" : "padding");
    }
    return PITH_OK;
}

/* Headers, and what lies between tensors; `list` is in the order of the files. */
static enum pith_status check_rest(const struct pieces *all, struct pith_error *err)
{
    const struct pith_layout *l = &all->r->job->layout;
    size_t i = 0;
    for (size_t f = 0; f < l->shards; f++) {
        uint64_t at = l->header_bytes[f];
        PITH_TRY(check_bytes(&all->files[f], 0, l->headers[f], at, err));
        for (; i < all->count && all->list[i].plan->shard == f; i++) {
            const struct pith_tensor_plan *p = all->list[i].plan;
            PITH_TRY(check_bytes(&all->files[f], at, NULL, p->offset - at, err));
            at = p->offset + p->bytes;
        }
        PITH_TRY(check_bytes(&all->files[f], at, NULL, l->shard_bytes[f] - at, err));
    }
    return PITH_OK;
}

static enum pith_status reopen(struct pith_run *r, struct pith_out *files, struct pith_error *err)
{
    r->out.reread = pith_zalloc(r->job->layout.shards, sizeof *r->out.reread);
    if (!r->out.reread) return pith_fail_nomem(err, "the list of files");
    for (size_t i = 0; i < r->job->layout.shards; i++) {
        const struct pith_map *map = &r->out.written->files[i].map;
        /* Mapped pages would stay in the page cache. */
        pith_map_release(map, 0, map->size);
        PITH_TRY(pith_file_stamp(r->out.shards[i].path, &r->out.reread[i], err));
        PITH_TRY(
            pith_out_reopen(r->out.shards[i].path, r->job->layout.shard_bytes[i], &files[i], err));
    }
    return PITH_OK;
}

/* All of them, as the journal says. */
static enum pith_status list_all(struct pieces *all, struct pith_error *err)
{
    struct pith_run *r = all->r;
    size_t units;
    PITH_TRY(list_pieces(all, &units, err));
    if (units == r->job->model->shape.layers + 1u && all->count == r->job->layout.count)
        return PITH_OK;
    return pith_fail(err, PITH_MISMATCH, "%s: %zu of %zu tensors are accounted for",
                     r->job->partial, all->count, r->job->layout.count);
}

/* All of them, as the journal says, wherever it is: `want` is what the pieces borrow. */
static enum pith_status list_with_others(struct pieces *all, pith_hash_text *want,
                                         struct pith_error *err)
{
    const struct pith_layout *l = &all->r->job->layout;
    for (size_t i = 0; i < all->count; i++)
        memcpy(want[all->list[i].plan - l->tensors], all->list[i].want, sizeof *want);
    PITH_TRY(pith_writers_want(all->r, want, err));
    if (!all->list) all->list = pith_zalloc(l->count + 1, sizeof *all->list);
    if (!all->list) return pith_fail_nomem(err, "the list of tensors");
    all->count = l->count;
    for (size_t i = 0; i < l->count; i++)
        all->list[i] = (struct piece){.plan = &l->tensors[i], .want = want[i]};
    return PITH_OK;
}

/* Who reads what: each some of every file. */
static void share_out(struct pieces *all)
{
    pith_writers_begin(all->r);
    for (size_t i = 0; i < all->count; i++)
        all->list[i].elsewhere = !pith_writers_take(all->r, all->list[i].plan->bytes);
}

static enum pith_status reread(struct pieces *all, pith_hash_text *want, struct pith_error *err)
{
    struct pith_run *r = all->r;
    PITH_TRY(reopen(r, all->files, err));
    if (pith_run_writes(r)) PITH_TRY(list_all(all, err));
    if (want) PITH_TRY(list_with_others(all, want, err));
    qsort(all->list, all->count, sizeof *all->list, compare_place);
    if (want) share_out(all);
    PITH_TRY(check_pieces(all, err));
    const struct fault *fault = first_fault(all);
    if (!fault) return pith_run_writes(r) ? check_rest(all, err) : PITH_OK;
    if (err) *err = fault->err;
    return all->list[fault->piece].status;
}

/* With others: their part was in order as well. */
static enum pith_status reread_shared(struct pieces *all, struct pith_error *err)
{
    pith_hash_text *want = pith_zalloc(all->r->job->layout.count + 1, sizeof *want);
    enum pith_status s = want ? reread(all, want, err) : pith_fail_nomem(err, "reading back");
    pith_free(want);
    return s == PITH_OK ? pith_writers_meet(all->r, err) : s;
}

enum pith_status pith_reread(struct pith_run *r, struct pith_error *err)
{
    struct pieces all = {.r = r, .what = "reading it back from the disk"};
    all.files = pith_zalloc(r->job->layout.shards, sizeof *all.files);
    if (!all.files) return pith_fail_nomem(err, "the list of files");
    for (size_t i = 0; i < r->job->layout.shards; i++) all.files[i].fd = -1;
    const enum pith_status s = pith_writers_share(r) ? reread_shared(&all, err)
                                                     : reread(&all, NULL, err);
    for (size_t i = 0; i < r->job->layout.shards; i++) pith_out_close(&all.files[i]);
    pith_free(all.files);
    free_pieces(&all);
    return s;
}

/* A file that has another name since has another time of change, too. */
static bool is_same(const struct pith_stamp *is, const struct pith_stamp *was, bool named)
{
    return is->device == was->device && is->node == was->node && is->size == was->size &&
           is->written == was->written && (named || is->changed == was->changed);
}

/* Where a shard is now. A container that is a file may be requested as a folder with it. */
static char *place_of(const struct pith_run *r, size_t shard, const char *where)
{
    if (!where) return pith_strdup(r->out.shards[shard].path);
    return pith_container_of_path(where)
               ? pith_strdup(where)
               : pith_path_join(where, r->job->layout.shard_names[shard]);
}

enum pith_status pith_reread_holds(const struct pith_run *r, const char *where,
                                   struct pith_error *err)
{
    const bool named = where && pith_container_of_path(where);
    enum pith_status s = PITH_OK;
    for (size_t i = 0; i < r->job->layout.shards && s == PITH_OK; i++) {
        struct pith_stamp is;
        char *path = place_of(r, i, where);
        s = path ? pith_file_stamp(path, &is, err) : pith_fail_nomem(err, "names");
        if (s == PITH_OK && !is_same(&is, &r->out.reread[i], named))
            s = pith_fail(err, PITH_MISMATCH, "%s: was changed after it was read back", path);
        pith_free(path);
    }
    return s;
}
