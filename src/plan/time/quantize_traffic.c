/* What ranks send each other while a model is quantized: the parts that grow with the model. Each
 * comment names the file that sends it. */
#include "plan/time/quantize_kinds.h"

#include "num/qmat.h"
#include "quant/round.h"
#include "quant/split.h"

/* Bytes: a hash as text; a linear's result (quantize/output/output.h). */
enum { HASH = 65, RESULT = 1912 };
/* Messages: a linear's rows, and its measures (quantize/ranks/division.c). */
enum { PARTS = 7, MEASURES = 6 };

/* calib/relay.c: panels go from rank to rank. A long message takes three delays, since MPI asks
 * before it sends it. */
static void sums(struct pith_ranks_cost *c, double bytes, double times)
{
    enum { PANELS = 9, DELAYS = 3, LONG = 64 << 10 };
    const bool large = bytes > PANELS * LONG;
    pith_ranks_traffic(c, PITH_TRAFFIC_SUM, times * bytes, times * (large ? PANELS * DELAYS : 1));
}

static void sum(struct pith_ranks_cost *c, double bytes)
{
    sums(c, bytes, 1);
}

/* --- linears ---------------------------------------------------------------------------------- */

static double matrix_bytes(const struct pith_quantize_task *t, const struct pith_linear_spec *l)
{
    const struct pith_recipe *r = t->recipe;
    struct pith_grid grid = r->weights;
    if (!grid.format) return (double)l->rows * l->cols * sizeof(float);
    if (t->group) grid.group = t->group(t->group_ctx, l);
    const struct pith_qspec s = {
        .rows = l->rows,
        .cols = l->cols,
        .grid = grid,
        .outliers = r->split->sparse ? pith_sparse_count(l->rows, l->cols, r->split_value) : 0};
    return (double)pith_qspec_bytes(&s);
}

/* Rows that each rank rounded (division.c); what an owner made of an expert (experts.c); results
 * alone, to rank 0, where linears stream (stream.c) or have learned (block.c). Zeros of a linear
 * that stays in 16 bits are found by every rank. */
static void linear(const struct pith_quantize_task *t, const struct pith_linear_spec *l,
                   struct pith_ranks_cost *c)
{
    const bool expert = l->expert != PITH_NO_PART;
    if (!pith_quantize_changes(l)) return;
    pith_ranks_traffic(c, PITH_TRAFFIC_SHARE, RESULT, 1);
    if (pith_quantize_kinds(t) & (STREAMS | LEARNS)) return;
    const double bytes = matrix_bytes(t, l) + 2.0 * sizeof(double) * l->rows;
    if (expert) pith_ranks_traffic(c, PITH_TRAFFIC_SHARE, bytes, PARTS);
    else if (t->recipe->weights.format) {
        pith_ranks_traffic(c, PITH_TRAFFIC_GATHER, bytes, PARTS);
        pith_ranks_traffic(c, PITH_TRAFFIC_SHARE, HASH, MEASURES);
    }
}

/* --- statistics ------------------------------------------------------------------------------- */

/* calib/relay.c. */
static void statistics(struct pith_ranks_cost *c, unsigned needs, double d, double views)
{
    sum(c, 2 * sizeof(uint64_t) + sizeof(double));
    if (needs & PITH_NEED_ABSMEAN) sum(c, d * sizeof(double));
    if (needs & PITH_NEED_SQUARES) sum(c, views * d * sizeof(double));
    if (needs & PITH_NEED_RANGE) sum(c, 2 * d * sizeof(float));
    if (needs & PITH_NEED_HESSIAN) sums(c, d * (d + 1) / 2 * sizeof(float), views);
    if (needs & PITH_NEED_DRIFT) sums(c, d * d * sizeof(float), views);
}

/* backend/cholesky.c: 256 columns at once, of the rows that each rank has. */
static void factor(struct pith_ranks_cost *c, double d)
{
    enum { WIDE = 256 };
    pith_ranks_traffic(c, PITH_TRAFFIC_GATHER, d * d / 2 * sizeof(float), 2 * d / WIDE);
}

/* A site that all tokens reach; an expert's statistics are gathered by its owner. */
static void site(const struct pith_quantize_task *t, const struct pith_layer_plan *l,
                 const struct pith_site_spec *s, struct pith_ranks_cost *c)
{
    const unsigned needs = pith_quantize_needs(t);
    if (!needs || s->expert != PITH_NO_PART || !pith_quantize_site_changes(l, s)) return;
    statistics(c, needs, s->dim, pith_quantize_views(t, s));
    if (needs & PITH_NEED_HESSIAN && pith_quantize_shares_factors(t, l)) factor(c, s->dim);
}

/* --- transforms ------------------------------------------------------------------------------- */

/* Clipped rows of all matrices in the site's group, and how many groups of weights each rank's rows
 * have (quant/transform/awq_clip.c). */
static void clipped(const struct pith_quantize_task *t, const struct pith_layer_plan *l,
                    const struct pith_site_spec *s, struct pith_ranks_cost *c)
{
    enum { MESSAGES = 2 };
    const struct pith_grid *g = &t->recipe->weights;
    const uint32_t site = (uint32_t)(s - l->site);
    if (!(pith_quantize_kinds(t) & CLIPS) || !g->format) return;
    if (g->granularity == PITH_PER_TENSOR || g->format->kind == PITH_KIND_LEVELS) return;
    for (uint32_t k = site; k < l->sites; k++) {
        if (!pith_plan_grouped(l, site, k)) continue;
        for (uint32_t i = l->site[k].first; i < l->site[k].first + l->site[k].count; i++)
            if (pith_quantize_changes(&l->linear[i]) && !l->linear[i].scores)
                pith_ranks_traffic(c, PITH_TRAFFIC_GATHER,
                                   (double)l->linear[i].rows * l->linear[i].cols * sizeof(float),
                                   MESSAGES);
    }
}

/* Statistics and samples of its sites, the windows that its search looks at, losses of its tries,
 * and clipped rows (site/transform.c, quant/transform/). Of an expert's site: what its owner found.
 */
static void search(const struct pith_quantize_task *t, const struct pith_layer_plan *l,
                   const struct pith_site_spec *s, struct pith_ranks_cost *c)
{
    enum { SAMPLES = 512, TRIES = 20 };
    const struct pith_transform *by = t->recipe->transform;
    const unsigned needs = by->needs | (by->also & pith_quantize_needs(t));
    const double row = (double)s->dim * sizeof(float), tokens = (double)t->tokens;
    if (s->expert != PITH_NO_PART) {
        pith_ranks_traffic(c, PITH_TRAFFIC_SHARE, row, 3);
        return;
    }
    statistics(c, needs, s->dim, 1);
    if (needs & PITH_NEED_SAMPLES)
        pith_ranks_traffic(c, PITH_TRAFFIC_APPEND, (tokens < SAMPLES ? tokens : SAMPLES) * row, 1);
    if (s->to)
        pith_ranks_traffic(
            c, PITH_TRAFFIC_SHARE,
            (tokens < PITH_QUANTIZE_INSPECTED ? tokens : PITH_QUANTIZE_INSPECTED) * row, 1);
    pith_ranks_traffic(c, PITH_TRAFFIC_GATHER, TRIES * sizeof(double), 1);
    clipped(t, l, s, c);
}

/* --- layers ----------------------------------------------------------------------------------- */

/* calib/sent.c: which experts tokens chose, a common pool of rows, and each expert's rows to its
 * owner. */
static void routes(const struct pith_quantize_task *t, double floats, struct pith_ranks_cost *c)
{
    const double row = floats * sizeof(float), taken = (double)t->tokens * t->plans->taken;
    pith_ranks_traffic(c, PITH_TRAFFIC_GATHER, taken * sizeof(uint32_t) + (double)t->common * row,
                       2);
    if (t->routed) pith_ranks_traffic(c, PITH_TRAFFIC_DEAL, taken * row, 1);
}

/* site/learn.c: what windows read and give; in each step, losses and gradients. */
static void learning(const struct pith_quantize_task *t, const struct pith_layer_plan *l,
                     struct pith_ranks_cost *c)
{
    const double windows = (double)t->tokens / (double)t->length;
    const double steps = pith_quantize_steps(&t->recipe->round_options);
    double weights = 0;
    for (uint32_t i = 0; i < l->linears; i++)
        if (pith_quantize_changes(&l->linear[i]))
            weights += (double)l->linear[i].rows * l->linear[i].cols;
    pith_ranks_traffic(c, PITH_TRAFFIC_SHARE, 2.0 * (double)t->tokens * t->hidden * sizeof(float),
                       2 * windows);
    pith_ranks_traffic(c, PITH_TRAFFIC_GATHER, steps * windows * sizeof(double), steps);
    sums(c, weights * sizeof(float), steps);
}

/* The largest linear where linears are not divided, and an expert, as a part of all rows. */
static double largest_of(const struct pith_quantize_task *t, const struct pith_layer_plan *l)
{
    const bool whole = pith_quantize_kinds(t) & STREAMS;
    double largest = 0, all = 0, expert = 0;
    for (uint32_t i = 0; i < l->linears; i++) {
        const double n = (double)l->linear[i].rows * l->linear[i].cols;
        all += n;
        if (whole && n > largest) largest = n;
        if (l->linear[i].expert == 0) expert += n; /* all experts are alike */
    }
    return all > 0 ? (expert > largest ? expert : largest) / all : 0;
}

void pith_quantize_layer_traffic(const struct pith_quantize_task *t,
                                 const struct pith_layer_plan *l, struct pith_ranks_cost *c)
{
    const unsigned kinds = pith_quantize_kinds(t);
    const bool searched = pith_quantize_shares_search(t), whole = kinds & (STREAMS | LEARNS);
    const double windows = (double)t->tokens / (double)t->length;
    c->largest = largest_of(t, l);
    /* Hashes of the tensors that were read and written, and of the windows behind the layer
     * (ranks/input_hashes.c, writers.c, ranks.c). */
    pith_ranks_traffic(c, PITH_TRAFFIC_SHARE, 4.0 * HASH * l->linears, 6);
    if (kinds & CALIBRATES) pith_ranks_traffic(c, PITH_TRAFFIC_GATHER, windows * HASH, 1);
    for (uint32_t i = 0; searched && i < l->sites; i++)
        if (pith_plan_group(l, i, NULL) > 0) search(t, l, &l->site[i], c);
    for (uint32_t i = 0; !whole && i < l->sites; i++) site(t, l, &l->site[i], c);
    for (uint32_t i = 0; i < l->linears; i++) linear(t, &l->linear[i], c);
    if (pith_plan_experts(l) && searched) routes(t, t->hidden, c);
    if (pith_plan_experts(l) && !whole && pith_quantize_needs(t))
        routes(t, t->hidden * (kinds & DRIFT ? 2.0 : 1.0), c);
    if (kinds & LEARNS) learning(t, l, c);
}

/* calib/guide.c: a number for each token, of groups of rows; pairs of a linear's outputs. */
static void guides(const struct pith_quantize_task *t, const struct pith_layer_plan *l,
                   struct pith_ranks_cost *c)
{
    const struct pith_round_options *o = &t->recipe->round_options;
    const uint32_t groups = o->row_groups, most = pith_output_block(o->output_block);
    for (uint32_t i = 0; i < l->linears; i++) {
        const uint32_t expert = l->linear[i].expert;
        const double each = expert == PITH_NO_PART ? 1 : expert ? 0 : t->plans->taken;
        pith_ranks_traffic(c, PITH_TRAFFIC_GATHER,
                           each * groups * (double)t->tokens * sizeof(float), groups);
        if (pith_quantize_kinds(t) & OUTPUTS)
            sum(c,
                (double)pith_outputs_of(l->linear[i].rows, most, groups, groups) * sizeof(float));
    }
}

void pith_quantize_outside_traffic(const struct pith_quantize_task *t, struct pith_ranks_cost *c)
{
    c->largest = t->ends ? 1.0 / t->ends : 0;
    pith_ranks_traffic(c, PITH_TRAFFIC_SHARE, 4.0 * HASH * t->ends, 6);
    if (!(pith_quantize_kinds(t) & GUIDED)) return;
    for (uint32_t i = 0; i < t->plans->layers; i++) guides(t, pith_plan(t->plans, i), c);
}
