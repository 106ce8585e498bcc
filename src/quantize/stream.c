/* A block whose linears need nothing but their own weights: for each, a task goes once through its
 * rows, a cacheful at a time, from the mapped input to hash and codes, and another stores the
 * matrix. No float copy of a matrix is ever made. */
#include "quantize/stream.h"

#include "base/arena.h"
#include "base/file.h"
#include "base/mem.h"
#include "kern/ops.h"
#include "quantize/convert.h"
#include "quantize/output/ends.h"
#include "quantize/output/store.h"
#include "quantize/run.h"
#include "quantize/site/closeness.h"
#include "quantize/site/error_limits.h"
#include "quantize/site/inputs.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { PANEL_FLOATS = 1 << 14 };

bool pith_job_streams(const struct pith_job *job)
{
    if (pith_job_calibrates(job) || !job->recipe.round->by->rows) return false;
    if (job->recipe.transform != pith_transform_find("none")) return false;
    if (job->recipe.split != pith_split_find("none")) return false;
    for (size_t i = 0; i < job->choice_count; i++)
        if (job->choices[i].grid.format && pith_fit_scope(&job->choices[i].grid) == PITH_FIT_MATRIX)
            return false;
    return true;
}

/* The storing task may begin while another thread still rounds rows: that thread then stores, so
 * that nobody waits. */
enum state { AT_WORK, ROUNDED, LEFT };

/* One linear. */
struct stream {
    const struct pith_run *r;
    const struct pith_choice *choice;
    const struct pith_rounder *round;
    const struct pith_tensor *tensor;
    uint8_t *straight; /* the tensor's rows in order, when they lie in another; else NULL */
    struct pith_linear_result result;
    struct pith_phases time;
    struct pith_qmat q;
    uint64_t work; /* in an estimate: what a thread takes for it in addition to its codes */
    struct pith_row_squares *squares; /* [rows] */
    struct pith_sha256 *hash;
    void *memory;    /* of the parts that follow, and the squares */
    float *w, *back; /* [panel rows][cols]: weights, then what the codes stand for */
    float *values;   /* [cols], as are the codes */
    uint8_t *codes;
    float *tile; /* for scales by block */
    uint32_t panel;
    uint32_t site;
    unsigned maker; /* that rounds it (makers.h) */
    bool rotated;   /* the embedding or the head (site says which) of a model in another basis */
    float lo, hi;   /* the least and the largest weight, when the grid needs them */
    float global; /* what it shares with others, or 0 */
    double loss;  /* squared error */
    atomic_int state;
    enum pith_status status;
    struct pith_error err;
};

/* A cacheful; whole blocks where scales are by block. */
static uint32_t panel_rows(const struct pith_choice *c)
{
    const uint32_t band = c->grid.granularity == PITH_PER_BLOCK ? c->grid.group : 1;
    const uint32_t n = PANEL_FLOATS / c->cols / band * band;
    return n == 0 ? (band < c->rows ? band : c->rows) : n < c->rows ? n : c->rows;
}

/* Floats of scratch for the scales of a block. */
static size_t tile_floats(const struct pith_choice *c)
{
    const size_t group = c->grid.group;
    if (c->grid.granularity != PITH_PER_BLOCK) return 0;
    return (c->rows < group ? c->rows : group) * (c->cols < group ? c->cols : group);
}

/* What rounding a linear takes in addition to its codes. */
static void layout(struct pith_arena *a, struct stream *s)
{
    const struct pith_choice *c = s->choice;
    s->panel = panel_rows(c);
    s->squares = pith_arena_take(a, c->rows, sizeof *s->squares);
    s->w = pith_arena_take_rows(a, s->panel, c->cols, sizeof *s->w);
    s->back = pith_arena_take_rows(a, s->panel, c->cols, sizeof *s->back);
    s->values = pith_arena_take(a, c->cols, sizeof *s->values);
    s->codes = pith_arena_take(a, c->cols, 1);
    s->tile = pith_arena_take(a, tile_floats(c), sizeof *s->tile);
}

static enum pith_status take_memory(struct stream *s)
{
    struct pith_arena a = {0};
    layout(&a, s);
    if (!pith_arena_open(&a)) return pith_fail_nomem(&s->err, s->choice->module);
    layout(&a, s);
    s->memory = a.base;
    s->hash = pith_sha256_new();
    return s->hash ? PITH_OK : pith_fail_nomem(&s->err, s->choice->module);
}

static void give_memory(struct stream *s)
{
    pith_sha256_finish(s->hash, s->result.sha256);
    pith_free(s->straight);
    pith_free(s->memory);
    s->memory = NULL;
}

static struct pith_weight original_of(const struct stream *s)
{
    return (struct pith_weight){.rows = s->choice->rows,
                                .cols = s->choice->cols,
                                .dtype = s->tensor->dtype,
                                .dense = s->straight ? s->straight : s->tensor->data};
}

/* n rows of the input from `first` on, as floats. */
static enum pith_status decode_panel(struct stream *s, uint32_t first, uint32_t n)
{
    const struct pith_weight original = original_of(s);
    if (s->rotated) {
        const struct pith_basis_change t = pith_job_basis_change(s->r->job);
        return pith_rotated_rows_alone(&t, s->site == PITH_END_HEAD, first, n, s->w, &s->err);
    }
    pith_decode_rows(s->r->job->backend, &original, first, n, s->w);
    return PITH_OK;
}

/* n rows of the input from `first` on, as floats, and their ends; PITH_NUMERIC names a weight that
 * is not finite. */
static enum pith_status read_panel(struct stream *s, uint32_t first, uint32_t n, float *lo,
                                   float *hi)
{
    const size_t cols = s->choice->cols, count = n * cols;
    PITH_TRY(decode_panel(s, first, n));
    pith_backend_kern(s->r->job->backend)->range(count, s->w, lo, hi);
    return isnan(*lo) ? pith_tensor_check_part(s->tensor, first * cols, count, &s->err) : PITH_OK;
}

/* The codes of n rows from `first` on; then, from the codes alone, how far they are off, and the
 * hash of what they stand for. */
static enum pith_status round_panel(struct stream *s, uint32_t first, uint32_t n)
{
    const struct pith_run *r = s->r;
    const struct pith_kern *k = pith_backend_kern(r->job->backend);
    const struct pith_choice *c = s->choice;
    const size_t cols = c->cols, count = n * cols;
    const struct pith_weight made = {.rows = c->rows, .cols = c->cols, .quant = &s->q};
    float lo, hi;
    PITH_TRY(read_panel(s, first, n, &lo, &hi));
    pith_phases_mark(&s->time, PITH_PHASE_READ);
    const struct pith_round_rows part = {.backend = r->job->backend,
                                         .grid = &c->grid,
                                         .first = first,
                                         .rows = n,
                                         .tile = s->tile,
                                         .w = s->w,
                                         .codes = s->codes,
                                         .values = s->values};
    if (!c->keeps) {
        PITH_TRY(s->round->by->rows(&part, &s->q, &s->loss, &s->err));
        pith_container_state(r->job->container, &c->grid, &s->q, (size_t)first * s->q.groups,
                             (size_t)n * s->q.groups);
        pith_phases_mark(&s->time, PITH_PHASE_ROUND);
        PITH_TRY(decode_panel(s, first, n));
    }
    pith_decode_rows(r->job->backend, &made, first, n, s->back);
    for (uint32_t i = 0; i < n; i++) {
        struct pith_row_squares *sq = &s->squares[first + i];
        sq->difference = k->sumsq_diff(cols, s->w + i * cols, s->back + i * cols);
        sq->original = k->sumsq(cols, s->w + i * cols);
        if (!isfinite(sq->difference))
            return pith_fail(&s->err, PITH_NUMERIC, "row %u holds a value that is not finite",
                             first + i);
    }
    pith_sha256_update(s->hash, s->back, count * sizeof *s->back);
    pith_phases_mark(&s->time, PITH_PHASE_ERROR);
    return PITH_OK;
}

/* A pass over the input before the one that rounds: the ends of the whole matrix, and with `fit`
 * the scales of every row. */
static enum pith_status look_through(struct stream *s, bool fit)
{
    const struct pith_choice *c = s->choice;
    const struct pith_grid_rule rule = {pith_backend_kern(s->r->job->backend), &c->grid,
                                        s->q.scale_dtype, s->q.global, NULL};
    s->lo = s->hi = 0.0f;
    for (uint32_t at = 0, n; at < c->rows; at += n) {
        float lo, hi;
        n = c->rows - at < s->panel ? c->rows - at : s->panel;
        PITH_TRY(read_panel(s, at, n, &lo, &hi));
        s->lo = fminf(s->lo, lo);
        s->hi = fmaxf(s->hi, hi);
        for (uint32_t i = 0; fit && i < n; i++)
            pith_fit_row(&rule, s->w + (size_t)i * c->cols, &s->q, at + i);
    }
    pith_phases_mark(&s->time, PITH_PHASE_READ);
    return PITH_OK;
}

/* True of grids whose linears share something where engines fuse them into one: those of a site. */
static bool shares(const struct stream *s)
{
    return pith_round_shared(&s->choice->grid, 1.0f) > 0.0f;
}

/* What the grid needs of the whole matrix before its rows are rounded. */
static enum pith_status fit_before(struct stream *s)
{
    const struct pith_choice *c = s->choice;
    const struct pith_grid_rule rule = {pith_backend_kern(s->r->job->backend), &c->grid,
                                        s->q.scale_dtype, s->q.global, NULL};
    const enum pith_fit_scope scope = pith_fit_scope(&c->grid);
    if (scope == PITH_FIT_ALL) PITH_TRY(look_through(s, true));
    else if (pith_qmat_per_tensor(&s->q) && !shares(s)) PITH_TRY(look_through(s, false));
    else if (!pith_qmat_per_tensor(&s->q)) return PITH_OK;
    if (pith_qmat_per_tensor(&s->q)) pith_fit_range(&rule, s->lo, s->hi, &s->q);
    PITH_TRY(pith_check_scales(&s->q, &s->err));
    return c->grid.double_quant ? pith_qmat_nest_scales(&s->q, &s->err) : PITH_OK;
}

static enum pith_status round_rows(struct stream *s)
{
    const struct pith_choice *c = s->choice;
    const enum pith_status before = c->keeps ? PITH_OK : fit_before(s);
    if (before != PITH_OK) return pith_fail_in(&s->err, before, c->module);
    for (uint32_t at = 0; at < c->rows; at += s->panel) {
        const uint32_t left = c->rows - at;
        const enum pith_status st = round_panel(s, at, left < s->panel ? left : s->panel);
        if (st != PITH_OK) return pith_fail_in(&s->err, st, c->module);
    }
    s->result.relative_error = pith_relative_from_squares(s->squares, c->rows);
    s->result.report.loss = s->result.report.nearest_loss = s->loss / c->rows;
    return pith_judge(s->r->job, c, s->result.relative_error, &s->err);
}

static enum pith_status straighten(struct stream *s)
{
    return pith_tensor_straight(s->tensor, &s->straight)
               ? PITH_OK
               : pith_fail_nomem(&s->err, s->choice->module);
}

static enum pith_status find_tensor(struct stream *s)
{
    const struct pith_choice *c = s->choice;
    const struct pith_checkpoint *in = s->r->job->model->checkpoint;
    char name[320];
    const bool untied = s->rotated && pith_job_unties(s->r->job); /* then both are made of one */
    snprintf(name, sizeof name, "%s.weight",
             untied ? pith_end_module(s->r->job->model, PITH_END_EMBED) : c->module);
    const uint64_t shape[] = {c->rows, c->cols};
    PITH_TRY(pith_checkpoint_get(in, name, 2, shape, &s->tensor, &s->err));
    PITH_TRY(pith_tensor_need(s->tensor, &s->err));
    const enum pith_dtype t = s->tensor->dtype;
    if (t == PITH_F32 || t == PITH_F16 || t == PITH_BF16) return PITH_OK;
    return pith_fail(&s->err, PITH_UNSUPPORTED,
                     "%s: tensor \"%s\" is %s; F32, F16 and BF16 are supported", in->dir, name,
                     pith_dtype_name(t));
}

static enum pith_status round_linear(struct stream *s)
{
    const struct pith_run *r = s->r;
    const struct pith_choice *c = s->choice;
    const enum pith_dtype scales =
        r->job->container->scale_dtype(&c->grid, r->job->container_opts.model_dtype);
    PITH_TRY(find_tensor(s));
    PITH_TRY(straighten(s));
    enum pith_status st = c->keeps ? pith_convert_keep(r->job, c, &s->q, &s->err)
                                   : pith_qmat_init(&s->q, c->rows, c->cols, &c->grid, scales,
                                                    &s->err);
    if (st != PITH_OK) {
        pith_free(s->straight);
        return st;
    }
    if (s->global > 0.0f && !c->keeps) s->q.global = s->global;
    s->q.input = pith_inputs_make(r->job, c, NULL);
    st = take_memory(s);
    if (st == PITH_OK) st = round_rows(s);
    give_memory(s);
    pith_checkpoint_release(r->job->model->checkpoint, s->tensor);
    if (st == PITH_OK && s->result.sha256[0] == '\0') st = pith_fail_nomem(&s->err, c->module);
    return st;
}

static void store_linear(struct stream *s)
{
    pith_phases_begin(&s->time);
    if (s->status == PITH_OK)
        s->status =
            pith_store_linear(s->r, s->choice->module, &s->q, &s->result, &s->time, &s->err);
    pith_qmat_free(&s->q);
}

struct streams {
    struct stream **order; /* [count] */
    unsigned count;
};

/* Codes are in memory from rounding to storing, so that both can run at the same time: those of a
 * batch at most, which is large enough that its threads end at about the same time, and all of a
 * layer without experts. */
static unsigned batch_of(unsigned threads)
{
    enum { LEAST = 16, A_THREAD = 4 };
    return threads * A_THREAD > LEAST ? threads * A_THREAD : LEAST;
}

static bool is_here(const struct stream *s)
{
    return pith_maker_is_here(s->r, s->maker);
}

/* The first `count` tasks round, the others store. */
static void stream_task(void *ctx, size_t task, unsigned thread)
{
    const struct streams *all = ctx;
    struct stream *s = all->order[task % all->count];
    const bool writes = pith_writers_own(s->r);
    (void)thread;
    if (!is_here(s)) return;
    if (task < all->count) {
        pith_phases_begin(&s->time);
        if (s->status == PITH_OK) s->status = round_linear(s);
        if (writes && atomic_exchange(&s->state, ROUNDED) == LEFT) store_linear(s);
    } else if (writes && atomic_exchange(&s->state, LEFT) == ROUNDED) {
        store_linear(s);
    }
}

static void store_task(void *ctx, size_t task, unsigned thread)
{
    const struct streams *all = ctx;
    (void)thread;
    if (!is_here(all->order[task])) store_linear(all->order[task]);
}

/* Sends the results of a batch to where the account is written; the matrices too, if all are stored
 * there. */
static enum pith_status hand_in(const struct streams *batch, struct pith_error *err)
{
    const struct pith_run *r = batch->order[0]->r;
    const bool stores = !pith_writers_share(r) && pith_run_writes(r);
    for (unsigned i = 0; i < batch->count; i++) {
        struct stream *s = batch->order[i];
        if (s->status != PITH_OK) {
            if (err) *err = s->err;
            return s->status;
        }
        PITH_TRY(pith_maker_hand_in(r, s->maker, false, &s->q, err));
        PITH_TRY(pith_maker_result(r, s->maker, s->choice, &s->result, err));
        if (stores && !is_here(s)) s->q.input = pith_inputs_make(r->job, s->choice, NULL);
        if (!stores) pith_qmat_free(&s->q);
    }
    if (stores)
        pith_pool_run(pith_backend_pool(r->job->backend), batch->count, store_task,
                      (void *)(uintptr_t)batch);
    return PITH_OK;
}

static enum pith_status find_ends(struct stream *s)
{
    PITH_TRY(find_tensor(s));
    s->panel = panel_rows(s->choice);
    s->w = pith_alloc_aligned((size_t)s->panel * s->choice->cols, sizeof *s->w);
    const enum pith_status st = s->w ? look_through(s, false)
                                     : pith_fail_nomem(&s->err, s->choice->module);
    pith_free(s->w);
    s->w = NULL;
    return st == PITH_OK ? st : pith_fail_in(&s->err, st, s->choice->module);
}

static void ends_task(void *ctx, size_t task, unsigned thread)
{
    const struct streams *all = ctx;
    struct stream *s = all->order[task];
    (void)thread;
    if (!shares(s) || !is_here(s)) return;
    pith_phases_begin(&s->time);
    s->status = find_ends(s);
}

static float shared_global(const struct streams *all, const struct stream *s)
{
    struct pith_grid widest = s->choice->grid;
    float most = 0.0f;
    for (unsigned i = 0; i < all->count; i++) {
        const struct stream *o = all->order[i];
        if (o->site != s->site || !pith_grid_equal(&o->choice->grid, &s->choice->grid)) continue;
        widest.mse |= o->choice->grid.mse && widest.format->kind == PITH_KIND_BLOCK;
        most = fmaxf(most, fmaxf(-o->lo, o->hi));
    }
    return pith_round_shared(&widest, most);
}

/* The least and the largest weight, from the linear's maker to all. */
static enum pith_status share_ends(struct stream *s, struct pith_error *err)
{
    float ends[2] = {s->lo, s->hi};
    if (!shares(s) || pith_makers(s->r) == 1) return PITH_OK;
    if (s->status != PITH_OK) {
        if (err) *err = s->err;
        return s->status;
    }
    PITH_TRY(pith_maker_share(s->r, s->maker, ends, sizeof ends, err));
    s->lo = ends[0];
    s->hi = ends[1];
    return PITH_OK;
}

/* A linear that fails here is not rounded: its status stays what it is. */
static enum pith_status share_globals(const struct pith_job *job, struct streams *all,
                                      struct pith_error *err)
{
    bool any = false;
    for (unsigned i = 0; i < all->count; i++) any |= shares(all->order[i]);
    if (!any) return PITH_OK;
    pith_pool_run(pith_backend_pool(job->backend), all->count, ends_task, all);
    for (unsigned i = 0; i < all->count; i++) PITH_TRY(share_ends(all->order[i], err));
    for (unsigned i = 0; i < all->count; i++)
        if (shares(all->order[i])) all->order[i]->global = shared_global(all, all->order[i]);
    return PITH_OK;
}

/* A batch after the other. */
static enum pith_status run_streams(const struct pith_job *job, struct streams *all,
                                    struct pith_error *err)
{
    PITH_TRY(share_globals(job, all, err));
    struct pith_pool *pool = pith_backend_pool(job->backend);
    const unsigned most = batch_of(pith_pool_threads(pool));
    for (unsigned first = 0; first < all->count; first += most) {
        const unsigned left = all->count - first;
        struct streams batch = {.order = all->order + first, .count = left < most ? left : most};
        pith_pool_run(pool, (size_t)2 * batch.count, stream_task, &batch);
        if (pith_makers(batch.order[0]->r) > 1) PITH_TRY(hand_in(&batch, err));
    }
    return PITH_OK;
}

/* The linears of a layer that have a grid, in the order of the plan; list is zeroed. r is NULL
 * where only sizes are needed. */
static unsigned list_linears(const struct pith_job *job, const struct pith_run *r, uint32_t layer,
                             struct stream *list)
{
    const struct pith_layer_plan *l = pith_job_plan(job, layer);
    unsigned count = 0;
    for (uint32_t i = 0; i < l->linears; i++) {
        const struct pith_choice *c = pith_job_choice(job, layer, i);
        if (!c->grid.format) continue;
        list[count].r = r;
        list[count].round = job->recipe.round;
        list[count].site = l->linear[i].site;
        list[count++].choice = c;
    }
    return count;
}

static uint64_t weights_of(const struct stream *s)
{
    return (uint64_t)s->choice->rows * s->choice->cols;
}

/* Largest first: then the threads end at about the same time. */
static void sort_by_size(struct stream *list, struct stream **order, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        unsigned at = i;
        for (; at > 0 && weights_of(order[at - 1]) < weights_of(&list[i]); at--)
            order[at] = order[at - 1];
        order[at] = &list[i];
    }
}

static enum pith_status take_result(struct pith_run *r, const struct stream *s, json_t *linears,
                                    struct pith_error *err)
{
    pith_phases_join(&r->phases, &s->time, pith_pool_threads(pith_backend_pool(r->job->backend)));
    if (s->result.memory > r->peak_anonymous) r->peak_anonymous = s->result.memory;
    if (s->result.mapped > r->peak_mapped) r->peak_mapped = s->result.mapped;
    if (s->status != PITH_OK) {
        if (err) *err = s->err;
        return s->status;
    }
    json_t *entry = pith_linear_json(s->choice, &s->result, false);
    if (json_array_append_new(linears, entry) != 0) return pith_fail_nomem(err, s->choice->module);
    return pith_run_step(r, s->round->name, 1, err);
}

enum pith_status pith_stream_ends(struct pith_run *r, json_t *linears, struct pith_error *err)
{
    struct stream list[PITH_END_COUNT] = {{0}};
    struct stream *order[PITH_END_COUNT];
    struct streams all = {.order = order};
    for (int i = 0; i < PITH_END_COUNT; i++) {
        if (!r->job->ends[i].grid.format) continue;
        list[all.count] = (struct stream){.r = r,
                                          .choice = &r->job->ends[i],
                                          .round = pith_rounder_find("nearest"),
                                          .site = (uint32_t)i,
                                          .maker = pith_maker_of(r, (size_t)i),
                                          .rotated = r->job->basis.stream.dim != 0};
        all.order[all.count] = &list[all.count];
        all.count++;
    }
    if (all.count == 0) return PITH_OK;
    enum pith_status s = run_streams(r->job, &all, err);
    for (unsigned i = 0; i < all.count && s == PITH_OK; i++)
        s = take_result(r, &list[i], linears, err);
    for (unsigned i = 0; i < all.count; i++) pith_qmat_free(&list[i].q);
    return s;
}

enum pith_status pith_stream_layer(struct pith_run *r, uint32_t layer, json_t *entries,
                                   struct pith_error *err)
{
    const uint32_t linears = pith_job_plan(r->job, layer)->linears;
    struct stream *list = pith_zalloc(linears, sizeof *list);
    struct streams all = {.order = pith_alloc(linears, sizeof *all.order)};
    unsigned *maker = pith_zalloc(linears, sizeof *maker);
    enum pith_status s = list && all.order && maker ? PITH_OK : pith_fail_nomem(err, "a block");
    if (s == PITH_OK) {
        pith_makers_of_layer(r, layer, maker);
        all.count = list_linears(r->job, r, layer, list);
        for (unsigned i = 0; i < all.count; i++) list[i].maker = maker[list[i].choice->linear];
        sort_by_size(list, all.order, all.count);
        s = run_streams(r->job, &all, err);
    }
    for (unsigned i = 0; i < all.count && s == PITH_OK; i++)
        s = take_result(r, &list[i], entries, err);
    for (unsigned i = 0; i < all.count; i++) pith_qmat_free(&list[i].q);
    pith_free(maker);
    pith_free(all.order);
    pith_free(list);
    return s;
}

/* --- what it takes ---------------------------------------------------------------------------- */

/* What one thread takes for a linear in addition to its codes: to round it, or to store it. */
static uint64_t work_bytes(const struct pith_job *job, const struct pith_choice *c)
{
    struct stream s = {.choice = c};
    struct pith_arena a = {0};
    layout(&a, &s);
    const uint64_t round = pith_sum_bytes(pith_arena_bytes(&a), pith_job_straight_bytes(job, c));
    const uint64_t store = pith_store_linear_bytes(job, c);
    return round > store ? round : store;
}

/* How many of a batch take more work's memory than one of them, or as much and come before it. */
static unsigned before(const struct streams *batch, unsigned one)
{
    unsigned n = 0;
    for (unsigned i = 0; i < batch->count; i++) {
        const uint64_t work = batch->order[i]->work, own = batch->order[one]->work;
        n += work > own || (work == own && i < one);
    }
    return n;
}

/* All codes of a batch, and as many threads at work as there are, on those that take most: where
 * scales are by block these are the widest, not the largest. */
static uint64_t batch_bytes(const struct pith_job *job, const struct streams *batch,
                            unsigned threads)
{
    uint64_t bytes = 0;
    for (unsigned i = 0; i < batch->count; i++) {
        const struct pith_choice *c = batch->order[i]->choice;
        bytes = pith_sum_bytes(bytes, pith_qmat_bytes(c->rows, c->cols, &c->grid));
        batch->order[i]->work = work_bytes(job, c);
    }
    for (unsigned i = 0; i < batch->count; i++)
        if (before(batch, i) < threads) bytes = pith_sum_bytes(bytes, batch->order[i]->work);
    return bytes;
}

static uint64_t streams_bytes(const struct pith_job *job, const struct streams *all,
                              unsigned threads)
{
    const unsigned most = batch_of(threads);
    uint64_t bytes = 0;
    for (unsigned first = 0; first < all->count; first += most) {
        const unsigned left = all->count - first;
        const struct streams batch = {.order = all->order + first,
                                      .count = left < most ? left : most};
        const uint64_t one = batch_bytes(job, &batch, threads);
        if (one > bytes) bytes = one;
    }
    return bytes;
}

uint64_t pith_stream_end_bytes(const struct pith_job *job, unsigned threads)
{
    struct stream list[PITH_END_COUNT] = {{0}};
    struct stream *order[PITH_END_COUNT];
    struct streams all = {.order = order};
    for (int i = 0; i < PITH_END_COUNT; i++)
        if (job->ends[i].grid.format) {
            list[all.count].choice = &job->ends[i];
            order[all.count] = &list[all.count];
            all.count++;
        }
    const uint64_t rotation = job->basis.stream.dim ? pith_rotate_scratch(&job->basis, all.count)
                                                    : 0;
    return pith_sum_bytes(rotation, streams_bytes(job, &all, threads));
}

uint64_t pith_stream_layer_bytes(const struct pith_job *job, uint32_t layer, unsigned threads)
{
    const uint32_t linears = pith_job_plan(job, layer)->linears;
    struct stream *list = pith_zalloc(linears, sizeof *list);
    struct streams all = {.order = pith_alloc(linears, sizeof *all.order)};
    uint64_t bytes = linears * (uint64_t)(sizeof *list + sizeof *all.order);
    if (list && all.order) {
        all.count = list_linears(job, NULL, layer, list);
        sort_by_size(list, all.order, all.count);
        bytes = pith_sum_bytes(bytes, streams_bytes(job, &all, threads));
    } else {
        bytes = UINT64_MAX; /* too much to say how much */
    }
    pith_free(all.order);
    pith_free(list);
    return bytes;
}
