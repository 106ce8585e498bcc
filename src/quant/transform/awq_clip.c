#include "quant/transform/awq.h"

#include "base/arena.h"
#include "base/file.h"
#include "base/mem.h"
#include "quant/round.h"
#include "quant/scale.h"
#include "quant/transform/fold.h"

#include <math.h>
#include <string.h>

enum { GRID = 20, STEPS = 10, SAMPLES = 512, TILE_FLOATS = 1 << 20, TILE_ROWS = 256 };

/* The error of a candidate is |X d|^2 with d = q - w over the group. For a group no wider than
 * the number of samples it is taken as d (X^T X) d^T, which is less work; otherwise from X d
 * itself. */
struct clip {
    const struct pith_transform_job *job;
    const struct pith_transform_linear *linear;
    const struct pith_gridder *gridder;
    const struct pith_format *format; /* that codes are of: of a block format, its elements' */
    float global;                     /* nvfp4: the scale of the tensor */
    struct pith_pool *pool;
    const float *x; /* [n][dim] samples divided by s */
    size_t n;
    float *gram;      /* [width][width] */
    float *d;         /* [rows of a tile][STEPS][width] */
    float *product;   /* [rows of a tile][STEPS][out] */
    uint32_t *shrunk; /* [rows] groups with a smaller range */
    bool by_gram;
    size_t first, width, out, tile; /* of the present group; first row of the tile */
};

static size_t samples_used(const struct pith_transform_job *job)
{
    const size_t n = job->stats ? job->stats->sample_count : 0;
    return n < SAMPLES ? n : SAMPLES;
}

static size_t group_of(const struct pith_transform_linear *l)
{
    const bool grouped = l->grid.granularity == PITH_PER_GROUP ||
                         l->grid.granularity == PITH_PER_BLOCK;
    return grouped && l->grid.group < l->cols ? l->grid.group : l->cols;
}

static size_t tile_rows(size_t width, size_t n)
{
    const size_t rows = TILE_FLOATS / (STEPS * (width > n ? width : n));
    return rows < 1 ? 1 : rows > TILE_ROWS ? TILE_ROWS : rows;
}

static float largest_weight(const float *w, size_t n)
{
    float most = 0.0f;
    for (size_t i = 0; i < n; i++) most = fabsf(w[i]) > most ? fabsf(w[i]) : most;
    return most;
}

static float bound(float most, int step)
{
    return most * (float)(1.0 - (double)step / GRID);
}

static void clamp(const float *w, size_t n, float limit, float *out)
{
    for (size_t i = 0; i < n; i++) {
        const float x = w[i] < limit ? w[i] : limit;
        out[i] = x > -limit ? x : -limit;
    }
}

/* The range of one group of a row, `step` steps smaller. */
static void shrink(float *w, size_t n, int step)
{
    if (step > 0) clamp(w, n, bound(largest_weight(w, n), step), w);
}

static size_t groups_of(const struct pith_transform_linear *l)
{
    return (l->cols + group_of(l) - 1) / group_of(l);
}

static float *weights_at(const struct clip *c, size_t row)
{
    return c->linear->w + (c->tile + row) * c->linear->cols + c->first;
}

/* The errors that each candidate range would make in one row's group. */
static void make_candidates(void *ctx, size_t row, unsigned thread)
{
    const struct clip *c = ctx;
    (void)thread;
    const struct pith_kern *k = pith_backend_kern(c->job->backend);
    const struct pith_grid_rule rule = {k, &c->linear->grid, c->job->scale_dtype, c->global, NULL};
    const float *w = weights_at(c, row);
    const float most = largest_weight(w, c->width);
    for (int i = 0; i < STEPS; i++) {
        float *d = c->d + (row * STEPS + (size_t)i) * c->width, scale, zero;
        clamp(w, c->width, bound(most, i), d);
        pith_grid_fit(c->gridder, &rule, &(struct pith_weights){d, c->width, 1}, &scale, &zero);
        const struct pith_grid_line line = {
            .kern = k, .n = c->width, .w = d, .scale = &scale, .zero = &zero, .values = d};
        c->gridder->quantize(c->format, &line);
        for (size_t at = 0; at < c->width; at++) d[at] -= w[at];
    }
}

static void choose(void *ctx, size_t row, unsigned thread)
{
    const struct clip *c = ctx;
    (void)thread;
    double best = INFINITY;
    int pick = 0;
    for (int i = 0; i < STEPS; i++) {
        const float *p = c->product + (row * STEPS + (size_t)i) * c->out;
        const float *d = c->by_gram ? c->d + (row * STEPS + (size_t)i) * c->width : p;
        double e = 0.0;
        for (size_t k = 0; k < c->out; k++) e += (double)p[k] * (double)d[k];
        if (e < best) {
            best = e;
            pick = i;
        }
    }
    if (pick == 0) return;
    shrink(weights_at(c, row), c->width, pick);
    c->shrunk[c->tile + row]++;
    if (c->linear->pick)
        c->linear->pick[(c->tile + row) * groups_of(c->linear) + c->first / group_of(c->linear)] =
            (uint8_t)pick;
}

static void clip_group(struct clip *c)
{
    struct pith_gemm g = {.m = c->width, .n = c->width, .k = c->n};
    if (c->by_gram) {
        g.a = g.b = c->x + c->first;
        g.a_rs = 1;
        g.a_cs = c->linear->cols;
        g.b_rs = c->linear->cols;
        g.b_cs = 1;
        g.c = c->gram;
        g.ldc = c->width;
        pith_gemm(c->job->backend, &g);
    }
    const size_t step = tile_rows(c->width, c->n);
    for (c->tile = 0; c->tile < c->linear->rows; c->tile += step) {
        const size_t left = c->linear->rows - c->tile, rows = left < step ? left : step;
        pith_pool_run(c->pool, rows, make_candidates, c);
        g = (struct pith_gemm){.m = rows * STEPS,
                               .n = c->out,
                               .k = c->width,
                               .a = c->d,
                               .a_rs = c->width,
                               .a_cs = 1,
                               .b = c->by_gram ? c->gram : c->x + c->first,
                               .b_rs = c->by_gram ? c->width : 1,
                               .b_cs = c->by_gram ? 1 : c->linear->cols,
                               .c = c->product,
                               .ldc = c->out};
        pith_gemm(c->job->backend, &g);
        pith_pool_run(c->pool, rows, choose, c);
    }
}

/* For one linear. */
static void layout_clip(struct pith_arena *a, struct clip *c)
{
    const size_t group = group_of(c->linear), tile = tile_rows(group, c->n);
    c->by_gram = group <= c->n;
    c->gram = c->by_gram ? pith_arena_take_rows(a, group, group, sizeof *c->gram) : NULL;
    c->d = pith_arena_take_rows(a, tile * STEPS, group, sizeof *c->d);
    c->product =
        pith_arena_take_rows(a, tile * STEPS, group > c->n ? group : c->n, sizeof *c->product);
    c->shrunk = pith_arena_take(a, c->linear->rows, sizeof *c->shrunk);
}

static enum pith_status clip_linear(struct clip *c, uint64_t *shrunk, uint64_t *groups,
                                    struct pith_error *err)
{
    const uint32_t rows = c->linear->rows, cols = c->linear->cols;
    const size_t group = group_of(c->linear);
    struct pith_arena a = {0};
    layout_clip(&a, c);
    if (!pith_arena_open(&a)) return pith_fail_nomem(err, "AWQ's clip search");
    layout_clip(&a, c);
    memset(c->shrunk, 0, rows * sizeof *c->shrunk);
    enum pith_status st = PITH_OK;
    for (c->first = 0; st == PITH_OK && c->first < cols; c->first += group) {
        c->width = cols - c->first < group ? cols - c->first : group;
        c->out = c->by_gram ? c->width : c->n;
        clip_group(c);
        *groups += rows;
    }
    for (uint32_t r = 0; st == PITH_OK && r < rows; r++) *shrunk += c->shrunk[r];
    pith_free(a.base);
    return st;
}

static bool clippable(const struct pith_transform_linear *l)
{
    return l->clip && l->grid.format && l->grid.granularity != PITH_PER_TENSOR &&
           l->grid.format->kind != PITH_KIND_LEVELS; /* their levels follow the weights */
}

size_t pith_transform_picks(const struct pith_transform_linear *l)
{
    return clippable(l) ? l->rows * groups_of(l) : 0;
}

void pith_awq_clip_again(const struct pith_transform_linear *l)
{
    const size_t groups = groups_of(l), width = group_of(l);
    for (size_t r = 0; r < l->rows; r++)
        for (size_t g = 0; g < groups; g++) {
            const size_t first = g * width, left = l->cols - first;
            shrink(l->w + r * l->cols + first, left < width ? left : width,
                   l->pick[r * groups + g]);
        }
}

uint64_t pith_awq_clip_scratch(const struct pith_transform_job *job)
{
    const uint64_t n = samples_used(job);
    uint64_t most = 0;
    for (unsigned i = 0; i < job->count; i++) {
        const struct pith_transform_linear *l = &job->linear[i];
        if (!clippable(l)) continue;
        struct pith_arena a = {0};
        struct clip c = {.linear = l, .n = n};
        layout_clip(&a, &c);
        if (pith_arena_bytes(&a) > most) most = pith_arena_bytes(&a);
    }
    return pith_sum_bytes(most, pith_times_bytes(n, job->linear[0].cols * sizeof(float)));
}

enum { BLOCK = 128 }; /* rows, of which a rank has whole blocks */

/* The rows of a linear that are a rank's, whole blocks of scales. */
static struct pith_transform_linear rows_of_rank(const struct clip *c, unsigned rank)
{
    const struct pith_ranks *ranks = c->job->ranks;
    const struct pith_transform_linear *l = c->linear;
    const size_t blocks = (l->rows + BLOCK - 1) / BLOCK;
    const size_t from = pith_ranks_from(ranks, rank, blocks) * BLOCK;
    size_t to = pith_ranks_from(ranks, rank + 1, blocks) * BLOCK;
    to = to < l->rows ? to : l->rows;
    struct pith_transform_linear own = *l;
    own.rows = from < to ? (uint32_t)(to - from) : 0;
    own.w += from * l->cols;
    if (own.pick) own.pick += from * groups_of(l);
    return own;
}

/* Rows that the ranks made, and how many groups each of them shrunk and had, become everyone's. */
static enum pith_status share_clipped(const struct clip *c, uint64_t (*made)[2],
                                      struct pith_error *err)
{
    struct pith_ranks *ranks = c->job->ranks;
    const struct pith_transform_linear *l = c->linear;
    const size_t count = pith_ranks_count(ranks), bytes = l->cols * sizeof *l->w;
    size_t *edges = pith_zalloc(count + 1, sizeof *edges);
    if (!edges) return pith_fail_nomem(err, "whose rows are whose");
    for (unsigned i = 0; i < count; i++) edges[i + 1] = edges[i] + rows_of_rank(c, i).rows * bytes;
    enum pith_status s = pith_ranks_share_runs(ranks, l->w, edges, err);
    for (unsigned i = 0; i < count; i++) edges[i + 1] = edges[i + 1] / bytes * groups_of(l);
    if (s == PITH_OK && l->pick) s = pith_ranks_share_runs(ranks, l->pick, edges, err);
    pith_free(edges);
    return s == PITH_OK ? pith_ranks_share_parts(ranks, made, count, sizeof *made, err) : s;
}

/* Each rank its own, and then everyone all. */
static enum pith_status clip_rows(struct clip *c, uint64_t count[2], struct pith_error *err)
{
    struct pith_ranks *ranks = c->job->ranks;
    const struct pith_transform_linear own = rows_of_rank(c, pith_ranks_own(ranks));
    struct clip mine = *c;
    uint64_t(*made)[2] = pith_zalloc(pith_ranks_count(ranks), sizeof *made);
    uint64_t *my = made ? made[pith_ranks_own(ranks)] : NULL;
    enum pith_status s = made ? PITH_OK : pith_fail_nomem(err, "what is clipped");
    mine.linear = &own;
    if (s == PITH_OK && own.rows) s = clip_linear(&mine, &my[0], &my[1], err);
    if (s == PITH_OK) s = share_clipped(c, made, err);
    for (unsigned i = 0; s == PITH_OK && i < pith_ranks_count(ranks); i++) {
        count[0] += made[i][0];
        count[1] += made[i][1];
    }
    pith_free(made);
    return s;
}

/* One linear, whose weights are there and multiplied by s; x[n][cols] are the samples. */
static enum pith_status clip_one(const struct pith_transform_job *job, unsigned i, const float *x,
                                 uint64_t count[2], struct pith_error *err)
{
    const struct pith_transform_linear *l = &job->linear[i];
    struct clip c = {
        .job = job,
        .linear = l,
        .gridder = pith_gridder_for(&l->grid),
        .format = pith_grid_elements(&l->grid, NULL).format,
        .global = pith_round_global(&l->grid, largest_weight(l->w, (size_t)l->rows * l->cols)),
        .pool = pith_backend_pool(job->backend),
        .x = x,
        .n = samples_used(job)};
    if (!c.gridder) return pith_fail(err, PITH_UNSUPPORTED, "AWQ cannot clip for this grid");
    if (c.gridder->fit_block) return PITH_OK; /* its scales are of least error already */
    return pith_ranks_alone(job->ranks) ? clip_linear(&c, &count[0], &count[1], err)
                                        : clip_rows(&c, count, err);
}

enum pith_status pith_awq_clip(const struct pith_transform_job *job, const float *s,
                               double *fraction, struct pith_error *err)
{
    const size_t n = samples_used(job), dim = job->linear[0].cols;
    float *x = pith_alloc_aligned(n * dim, sizeof *x);
    if (!x) return pith_fail_nomem(err, "AWQ's clip search");
    for (size_t t = 0; t < n; t++) {
        const float *from = job->stats->samples + t * job->stats->sample_count / n * dim;
        for (size_t c = 0; c < dim; c++) x[t * dim + c] = from[c] / s[c];
    }
    uint64_t count[2] = {0}; /* groups that were shrunk, groups */
    enum pith_status st = PITH_OK;
    for (unsigned i = 0; st == PITH_OK && i < job->count; i++) {
        const struct pith_transform_linear *l = &job->linear[i];
        if (!clippable(l)) continue;
        st = pith_fold_hold(job, i, err);
        if (st != PITH_OK) break;
        if (l->lent) pith_fold_scale_one(pith_backend_pool(job->backend), l, s);
        st = clip_one(job, i, x, count, err);
        pith_fold_drop(job, i);
    }
    *fraction = count[1] ? (double)count[0] / (double)count[1] : 0.0;
    pith_free(x);
    return st;
}
