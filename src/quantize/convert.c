/* Converting: linears that the input has quantized go to another container with their codes as they
 * are, or, where that container cannot hold them, rounded anew. */
#include "quantize/convert.h"

#include "base/mem.h"
#include "io/dense.h"
#include "model/kinds.h"
#include "num/recode.h"
#include "quantize/memory_estimate.h"
#include "quantize/output/store.h"
#include "quantize/run.h"
#include "quantize/site/closeness.h"
#include "quantize/site/error_limits.h"
#include "quantize/site/inputs.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* --- what becomes of which linear ------------------------------------------------------------- */

static enum pith_status describe(struct pith_job *job, const char *module, struct pith_grid *grid,
                                 struct pith_error *err)
{
    const struct pith_model *m = job->model;
    *grid = (struct pith_grid){0};
    if (!m->container) return PITH_OK;
    return m->container->describe(m->container_state, m->checkpoint, module, grid,
                                  &job->container_opts, err);
}

enum pith_status pith_convert_describe(struct pith_job *job, struct pith_error *err)
{
    uint32_t widest = 0;
    for (size_t i = 0; i < job->choice_count; i++) {
        struct pith_choice *c = &job->choices[i];
        job->container_opts.hadamard = 0;
        PITH_TRY(describe(job, c->module, &c->stored, err));
        c->hadamard = job->container_opts.hadamard == UINT32_MAX ? c->cols
                                                                 : job->container_opts.hadamard;
        if (c->hadamard > widest) widest = c->hadamard;
    }
    job->container_opts.hadamard = widest;
    return pith_inputs_converts(job, err);
}

/* The grids that a format's codes may come to lie on. */
struct spread {
    enum pith_granularity granularity;
    uint32_t group;
};

static bool try_grid(const struct pith_container *c, const struct pith_convert_case *x,
                     const struct pith_grid *grid, double *least, struct pith_grid *out)
{
    if (!pith_recode_fits(x->from, grid, x->cols)) return false;
    if (x->opts->act_order_groups && !pith_grid_equal(x->from, grid)) return false;
    const struct pith_qspec spec = {x->rows, x->cols, *grid, PITH_F16, 0, false};
    const double bits = pith_qspec_bits(&spec);
    if (!(bits < *least) || c->accepts(grid, x->rows, x->cols, x->opts, NULL) != PITH_OK)
        return false;
    *least = bits;
    *out = *grid;
    return true;
}

bool pith_convert_holds(const struct pith_container *c, const struct pith_convert_case *x,
                        struct pith_grid *out)
{
    const struct pith_grid elements = pith_grid_elements(x->from, NULL);
    const struct spread spreads[] = {{elements.granularity, elements.group},
                                     {PITH_PER_CHANNEL, 0},
                                     {PITH_PER_GROUP, 128},
                                     {PITH_PER_GROUP, 64},
                                     {PITH_PER_GROUP, 32},
                                     {PITH_PER_GROUP, 16}};
    double least = INFINITY;
    size_t count;
    const struct pith_format *f = pith_formats(&count);
    *out = *x->from;
    if (c->accepts(out, x->rows, x->cols, x->opts, NULL) == PITH_OK) return true;
    for (size_t i = 0; i < count; i++) {
        const bool own = pith_format_has_blocks(&f[i]);
        for (size_t k = 0; k < (own ? 1 : PITH_COUNT(spreads)); k++)
            for (int zeros = 0; zeros < (f[i].kind == PITH_KIND_INT ? 3 : 1); zeros++) {
                const struct pith_grid grid = {.format = &f[i],
                                               .granularity = own ? PITH_PER_GROUP
                                                                  : spreads[k].granularity,
                                               .group = own ? f[i].block : spreads[k].group,
                                               .asym = zeros > 0,
                                               .hqq = zeros > 1};
                (void)try_grid(c, x, &grid, &least, out);
            }
    }
    return isfinite(least);
}

enum pith_status pith_convert_choose(const struct pith_job *job, struct pith_choice *c,
                                     struct pith_error *err)
{
    struct pith_error why = {0};
    if (!c->stored.format) {
        c->reason = "not quantized in the input";
        return PITH_OK;
    }
    c->grid = c->stored;
    const struct pith_convert_case x = {&c->stored, c->rows, c->cols, &job->container_opts};
    if (pith_convert_holds(job->container, &x, &c->grid)) return PITH_OK;
    enum pith_status s =
        job->container->accepts(&c->stored, c->rows, c->cols, &job->container_opts, &why);
    if (!job->recipe.weights.format)
        return pith_fail(err, PITH_UNSUPPORTED, "%s: %s; `weights` GRID rounds such linears anew",
                         c->module, why.text);
    c->grid = job->recipe.weights;
    c->anew = true;
    s = job->container->accepts(&c->grid, c->rows, c->cols, &job->container_opts, err);
    return s == PITH_OK ? s : pith_fail_in(err, s, c->module);
}

/* --- the work --------------------------------------------------------------------------------- */

/* Scales as the container stores them: most often another name for the same numbers. */
static enum pith_status restate_scales(struct pith_qmat *q, enum pith_dtype scales,
                                       struct pith_error *err)
{
    q->scale_dtype = scales;
    for (size_t i = 0; i < pith_qmat_scale_count(q); i++) {
        q->scales[i] = pith_round_to(scales, q->scales[i]);
        if (!isfinite(q->scales[i]))
            return pith_fail(err, PITH_NUMERIC, "a scale is too large for %s",
                             pith_dtype_name(scales));
    }
    return PITH_OK;
}

static enum pith_status load(const struct pith_job *job, const struct pith_choice *c,
                             struct pith_qmat *q, struct pith_error *err)
{
    const struct pith_model *m = job->model;
    bool found = false;
    const struct pith_dense_linear linear = {.module = c->module, .rows = c->rows, .cols = c->cols};
    if (m->checkpoint->dense) PITH_TRY(pith_dense_load(m->checkpoint, &linear, q, &found, err));
    else
        PITH_TRY(m->container->load(m->container_state, m->checkpoint, c->module, c->rows, c->cols,
                                    q, &found, err));
    if (found) q->input.rule = job->container->input_rule; /* as its engines will compute */
    return found ? PITH_OK : pith_fail(err, PITH_FORMAT, "%s: is not quantized", c->module);
}

/* A matrix that is on the choice's grid, with scales and zero points as the container has them. On
 * failure *q owns nothing. */
static enum pith_status load_on_grid(const struct pith_job *job, const struct pith_choice *c,
                                     enum pith_dtype scales, struct pith_qmat *q,
                                     struct pith_error *err)
{
    PITH_TRY(load(job, c, q, err));
    if (pith_format_has_blocks(c->grid.format)) return PITH_OK; /* scales are the format's own */
    /* Zero points are stated also where they are alike. */
    enum pith_status s = c->grid.asym ? pith_qmat_state_zeros(q, c->grid.hqq, err) : PITH_OK;
    if (s == PITH_OK) s = restate_scales(q, scales, err);
    if (s != PITH_OK) pith_qmat_free(q);
    return s;
}

/* The same codes on the choice's grid, as the new container stores them. `is`: the grid of the
 * input; `from`: the input's matrix, not read where the grids are equal. On failure *q owns
 * nothing. */
static enum pith_status restate(const struct pith_job *job, const struct pith_choice *c,
                                const struct pith_grid *is, const struct pith_qmat *from,
                                struct pith_qmat *q, struct pith_error *err)
{
    const enum pith_dtype scales =
        job->container->scale_dtype(&c->grid, job->container_opts.model_dtype);
    if (pith_grid_equal(&c->grid, is)) PITH_TRY(load_on_grid(job, c, scales, q, err));
    else PITH_TRY(pith_recode(from, &c->grid, scales, q, err));
    pith_container_state(job->container, &c->grid, q, 0, pith_qmat_scale_count(q));
    return PITH_OK;
}

enum pith_status pith_convert_keep(const struct pith_job *job, const struct pith_choice *c,
                                   struct pith_qmat *q, struct pith_error *err)
{
    struct pith_grid is = c->from;
    struct pith_qmat from = {0};
    is.mse = c->grid.mse; /* however its scales were found */
    if (!pith_grid_equal(&c->grid, &is)) PITH_TRY(load(job, c, &from, err));
    const enum pith_status s = restate(job, c, &is, &from, q, err);
    pith_qmat_free(&from);
    return s;
}

/* Minimums that are nearly whole zero points (of llama.cpp's types, made of such) are taken for
 * these where they lose less than rounding anew; *q is then replaced. */
static enum pith_status try_zeros(const struct pith_job *job, const struct pith_choice *c,
                                  const struct pith_qmat *from, struct pith_qmat *q,
                                  bool *unchanged, struct pith_error *err)
{
    const struct pith_weight b = {.rows = c->rows, .cols = c->cols, .quant = from};
    struct pith_weight a = b;
    struct pith_qmat other;
    double anew, taken;
    const bool may = from->offsets && c->grid.asym && c->grid.format->bits >= from->format->bits &&
                     c->grid.granularity == PITH_PER_GROUP && from->group % c->grid.group == 0;
    *unchanged = false;
    if (!may || c->cols % c->grid.group != 0) return PITH_OK;
    const enum pith_dtype scales =
        job->container->scale_dtype(&c->grid, job->container_opts.model_dtype);
    PITH_TRY(pith_recode(from, &c->grid, scales, &other, err));
    a.quant = q;
    bool good = pith_relative_error(job->backend, &a, &b, false, &anew);
    a.quant = &other;
    good = good && pith_relative_error(job->backend, &a, &b, false, &taken);
    *unchanged = good && taken <= anew;
    if (*unchanged) {
        pith_qmat_free(q);
        *q = other;
    } else {
        pith_qmat_free(&other);
    }
    return good ? PITH_OK : pith_fail_nomem(err, "a comparison");
}

/* Puts the values of the codes on the new grid. *unchanged: their codes could be used after all. */
static enum pith_status round_anew(const struct pith_job *job, const struct pith_choice *c,
                                   const struct pith_qmat *from, struct pith_qmat *q,
                                   bool *unchanged, struct pith_error *err)
{
    const struct pith_weight source = {.rows = c->rows, .cols = c->cols, .quant = from};
    struct pith_round_report report;
    float *w = pith_alloc_aligned((size_t)c->rows * c->cols, sizeof *w);
    if (!w) return pith_fail_nomem(err, c->module);
    pith_decode_rows(job->backend, &source, 0, c->rows, w);
    const struct pith_round_job rounding = {
        .backend = job->backend,
        .grid = c->grid,
        .scale_dtype = job->container->scale_dtype(&c->grid, job->container_opts.model_dtype),
        .rows = c->rows,
        .cols = c->cols,
        .w = w,
    };
    enum pith_status s = pith_rounder_run(job->recipe.round, &rounding, q, &report, err);
    pith_free(w);
    if (s != PITH_OK) return s;
    q->input = from->input;
    s = try_zeros(job, c, from, q, unchanged, err);
    if (s == PITH_OK)
        pith_container_state(job->container, &c->grid, q, 0, pith_qmat_scale_count(q));
    else pith_qmat_free(q);
    return s;
}

/* What became of a linear. */
struct outcome {
    bool unchanged; /* its codes */
    bool lossless;  /* stands for the same weights to the bit */
    double moved;   /* the most that a weight moved, in ranges of its group in the input */
};

/* Largest |a - b| of n weights in units of the range of b's, 0 inside. */
static double moved_in(const float *a, const float *b, uint32_t n)
{
    float lo = 0.0f, hi = 0.0f, most = 0.0f;
    for (uint32_t i = 0; i < n; i++) {
        lo = fminf(lo, b[i]);
        hi = fmaxf(hi, b[i]);
        most = fmaxf(most, fabsf(a[i] - b[i]));
    }
    return hi > lo ? (double)most / ((double)hi - lo) : most > 0.0f ? 1.0 : 0.0;
}

static enum pith_status measure_moves(const struct pith_job *job, const struct pith_weight *made,
                                      const struct pith_weight *from, double *moved,
                                      struct pith_error *err)
{
    const uint32_t cols = from->cols, group = from->quant->group;
    float *a = pith_alloc(cols, 2 * sizeof *a), *b = a ? a + cols : NULL;
    if (!a) return pith_fail_nomem(err, "a comparison");
    *moved = 0;
    for (uint32_t row = 0; row < from->rows; row++) {
        pith_decode_rows(job->backend, made, row, 1, a);
        pith_decode_rows(job->backend, from, row, 1, b);
        for (uint32_t c = 0; c < cols; c += group) {
            const double d = moved_in(a + c, b + c, cols - c < group ? cols - c : group);
            if (d > *moved) *moved = d;
        }
    }
    pith_free(a);
    return PITH_OK;
}

static enum pith_status compare(const struct pith_job *job, const struct pith_choice *c,
                                const struct pith_qmat *from, const struct pith_qmat *made,
                                struct pith_linear_result *out, struct outcome *o,
                                struct pith_error *err)
{
    const struct pith_weight a = {.rows = c->rows, .cols = c->cols, .quant = made},
                             b = {.rows = c->rows, .cols = c->cols, .quant = from};
    char hex[PITH_SHA256_HEX];
    if (!pith_relative_error(job->backend, &a, &b, false, &out->relative_error))
        return pith_fail_nomem(err, "a comparison");
    PITH_TRY(pith_judge(job, c, out->relative_error, err));
    PITH_TRY(pith_weights_digest(job->backend, &b, hex, err));
    PITH_TRY(pith_weights_digest(job->backend, &a, out->sha256, err));
    o->lossless = strcmp(hex, out->sha256) == 0;
    return o->lossless ? PITH_OK : measure_moves(job, &a, &b, &o->moved, err);
}

static enum pith_status add_entry(const struct pith_choice *c,
                                  const struct pith_linear_result *made, const struct outcome *o,
                                  json_t *linears, struct pith_error *err)
{
    char from[PITH_GRID_TEXT];
    pith_grid_format(&c->stored, from);
    json_t *entry = pith_linear_json(c, made, false);
    json_t *more = json_pack("{s:s, s:b, s:s, s:f}", "from", from, "lossless", (int)o->lossless,
                             "conversion",
                             o->lossless    ? "exact"
                             : o->unchanged ? "scales rounded"
                                            : "rounded anew",
                             "largest_change", o->moved);
    const bool good = entry && more && json_object_update(entry, more) == 0 &&
                      json_array_append(linears, entry) == 0;
    json_decref(more);
    json_decref(entry);
    return good ? PITH_OK : pith_fail_nomem(err, c->module);
}

/* A linear in its new form. */
struct converted {
    const struct pith_choice *choice;
    struct pith_qmat q;
    struct pith_linear_result made;
    struct outcome outcome;
};

/* On failure c->q owns nothing. */
static enum pith_status convert_one(struct pith_run *r, struct converted *c, struct pith_error *err)
{
    struct pith_qmat from;
    pith_phases_begin(&r->phases);
    PITH_TRY(load(r->job, c->choice, &from, err));
    pith_phases_mark(&r->phases, PITH_PHASE_READ);
    c->outcome.unchanged = !c->choice->anew;
    enum pith_status s =
        c->choice->anew ? round_anew(r->job, c->choice, &from, &c->q, &c->outcome.unchanged, err)
                        : restate(r->job, c->choice, &c->choice->stored, &from, &c->q, err);
    pith_phases_mark(&r->phases, PITH_PHASE_ROUND);
    if (s == PITH_OK) {
        s = compare(r->job, c->choice, &from, &c->q, &c->made, &c->outcome, err);
        pith_phases_mark(&r->phases, PITH_PHASE_ERROR);
        if (s != PITH_OK) pith_qmat_free(&c->q);
    }
    pith_qmat_free(&from);
    return s == PITH_OK ? s : pith_fail_in(err, s, c->choice->module);
}

static enum pith_status store(struct pith_run *r, struct converted *c, struct pith_error *err)
{
    pith_phases_begin(&r->phases);
    const enum pith_status s =
        pith_store_linear(r, c->choice->module, &c->q, &c->made, &r->phases, err);
    return s == PITH_OK ? s : pith_fail_in(err, s, c->choice->module);
}

/* The maker stores it if all ranks store, else sends it to where it is stored; its result goes to
 * where the account is written. c->q is freed. */
static enum pith_status hand_in(struct pith_run *r, struct converted *c, unsigned maker,
                                json_t *linears, struct pith_error *err)
{
    const bool shared = pith_writers_share(r), here = pith_maker_is_here(r, maker);
    const struct pith_choice *of = c->choice;
    enum pith_status s = shared && here ? store(r, c, err) : PITH_OK;
    if (s == PITH_OK) s = pith_maker_hand_in(r, maker, true, &c->q, err);
    if (s == PITH_OK) s = pith_maker_result(r, maker, of, &c->made, err);
    if (s == PITH_OK) s = pith_maker_report(r, maker, &c->outcome, sizeof c->outcome, err);
    if (s == PITH_OK && !shared && pith_run_writes(r)) s = store(r, c, err);
    if (s == PITH_OK && pith_run_writes(r)) s = add_entry(of, &c->made, &c->outcome, linears, err);
    pith_qmat_free(&c->q);
    return s == PITH_OK ? pith_run_step(r, "converting", 1, err) : s;
}

/* As many at a time as there are makers. */
enum pith_status pith_convert_linears(struct pith_run *r, const struct pith_choice *list,
                                      size_t count, json_t *linears, struct pith_error *err)
{
    const size_t together = pith_makers(r);
    struct converted *c = pith_zalloc(together, sizeof *c);
    enum pith_status s = c ? PITH_OK : pith_fail_nomem(err, "linears");
    for (size_t first = 0; first < count && s == PITH_OK; first += together) {
        const size_t n = count - first < together ? count - first : together;
        for (size_t i = 0; i < n && s == PITH_OK; i++) {
            c[i] = (struct converted){.choice = &list[first + i]};
            if (c[i].choice->grid.format && pith_maker_is_here(r, pith_maker_of(r, i)))
                s = convert_one(r, &c[i], err);
        }
        for (size_t i = 0; i < n && s == PITH_OK; i++)
            if (c[i].choice->grid.format) s = hand_in(r, &c[i], pith_maker_of(r, i), linears, err);
        for (size_t i = 0; i < n; i++) pith_qmat_free(&c[i].q);
    }
    pith_free(c);
    return s;
}

/* --- memory ----------------------------------------------------------------------------------- */

/* What the input's matrix takes when it is loaded. */
static uint64_t loaded_bytes(const struct pith_job *job, const struct pith_choice *c,
                             struct pith_kinds *kinds)
{
    struct pith_kind kind;
    const struct pith_kind_of which = {c->module, c->rows, c->cols};
    if (pith_kind_find(kinds, job->model, &which, &kind, NULL) == PITH_OK) return kind.loaded;
    return pith_qmat_bytes(c->rows, c->cols, &c->stored);
}

/* The floats between, or the two forms that are compared when rounded anew. */
static uint64_t anew_bytes(const struct pith_job *job, const struct pith_choice *c, uint64_t q,
                           uint64_t comparing)
{
    const uint64_t rounding = (uint64_t)c->rows * c->cols * sizeof(float) +
                              pith_job_rounding_bytes(job, c);
    return rounding > q + comparing ? rounding : q + comparing;
}

/* Both forms of a matrix, and what is at work on them at a time. */
uint64_t pith_convert_bytes(const struct pith_job *job)
{
    const unsigned threads = pith_pool_threads(pith_backend_pool(job->backend));
    struct pith_kinds kinds = {.count = 0};
    uint64_t most = 0, handed = 0;
    for (size_t i = 0; i < job->choice_count + PITH_END_COUNT; i++) {
        const struct pith_choice *c = &job->choices[i];
        if (!c->grid.format) continue;
        const uint64_t from = loaded_bytes(job, c, &kinds);
        const bool same = !c->anew && pith_grid_equal(&c->grid, &c->stored);
        const uint64_t q = same ? from : pith_job_made_bytes(job, c);
        const uint64_t comparing = pith_relative_error_bytes(c->rows, c->cols, threads, false);
        const uint64_t storing = pith_store_linear_bytes(job, c);
        const uint64_t work = c->anew ? anew_bytes(job, c, q, comparing) : comparing;
        if (from + q + work > most) most = from + q + work;
        if (q + storing > handed) handed = q + storing;
    }
    /* What it was made of is freed when it is stored. Others' are received while the own one is
     * there. */
    if (pith_job_receives(job)) return most + handed;
    return most > handed ? most : handed;
}
