/* What goes with each unit, whatever its steps. */
#include "quantize/ranks/foresee_parts.h"

#include "base/keyed.h"
#include "base/mem.h"
#include "quantize/output/journal.h"
#include "quantize/ranks/rank_writers.h"
#include "quantize/site/guide.h"
#include "quantize/site/inputs.h"

/* --- every unit ------------------------------------------------------------------------------- */

/* pith_ranks_meet() */
static void meet(struct pith_crew *c)
{
    for (unsigned k = 0; k < c->ranks; k++) pith_crew_told(c, k, 1);
}

/* pith_ranks_agree() */
static void agree(struct pith_crew *c)
{
    enum { SAID = 256 };
    pith_crew_share(c, 0, SAID);
    meet(c);
}

/* pith_source_note(): the key, what all find by it, and hashes to rank 0. */
static void count_source(struct pith_crew *c, const struct pith_job *job, size_t unit)
{
    const uint64_t bytes = pith_source_tensors(job, unit) * sizeof(pith_hash_text);
    pith_crew_share(c, 0, sizeof(struct pith_keyed_key));
    agree(c);
    for (unsigned k = 1; k < c->ranks; k++) pith_foresee_send(c, k, 0, bytes);
}

static void count_source_outside(struct pith_crew *c, const struct pith_foresee_unit *u)
{
    count_source(c, u->job, 0);
}

static void count_source_of_block(struct pith_crew *c, const struct pith_foresee_unit *u)
{
    count_source(c, u->job, (size_t)u->layer + 1);
}

/* pith_ranks_digest() */
static void count_digest(struct pith_crew *c, const struct pith_foresee_unit *u)
{
    pith_crew_parts(c, u->job->calib.windows, PITH_SHA256_HEX);
}

/* pith_writers_end(): hashes of what each has stored. */
static void count_hashes(struct pith_crew *c, const struct pith_job *job, size_t unit)
{
    const uint64_t bytes = pith_writers_tensors(job, unit) * sizeof(pith_hash_text);
    for (unsigned k = 1; k < c->ranks; k++) pith_foresee_send(c, k, 0, bytes);
}

static void count_hashes_outside(struct pith_crew *c, const struct pith_foresee_unit *u)
{
    count_hashes(c, u->job, 0);
}

static void count_hashes_of_block(struct pith_crew *c, const struct pith_foresee_unit *u)
{
    count_hashes(c, u->job, (size_t)u->layer + 1);
}

/* --- the passes of guided rounding (choose/sense.c, calib/guide.c) ---------------------------- */

/* What is felt of pairs of a linear's outputs, block by block of each group of its rows. */
static void pass_pairs(struct pith_crew *c, const struct pith_guide *g,
                       const struct pith_layer_plan *l)
{
    for (uint32_t i = 0; i < l->linears; i++) {
        const uint32_t rows = l->linear[i].rows;
        size_t blocks = 0;
        for (uint32_t k = 0; k < g->groups; k++) {
            const uint32_t n =
                pith_rows_from(g->groups, k + 1, rows) - pith_rows_from(g->groups, k, rows);
            blocks += (n + g->block - 1) / g->block;
        }
        if (blocks)
            pith_crew_relay(
                c, 0, pith_outputs_of(rows, g->block, g->groups, g->groups) * sizeof(float),
                blocks);
    }
    for (uint32_t i = 0; i < l->linears; i++)
        pith_crew_share(c, c->ranks - 1,
                        pith_outputs_of(l->linear[i].rows, g->block, g->groups, g->groups) *
                            sizeof(float));
}

/* Lists of numbers of each token, those of a rank's windows from it. */
static void share_felt(struct pith_crew *c, const struct pith_job *job, const struct pith_guide *g,
                       const struct pith_layer_plan *l)
{
    const struct pith_node *node = pith_plan_experts(l);
    const uint32_t each = node ? node->u.experts.each : 0,
                   dense = l->linears - each * job->model->plans.experts;
    const uint64_t window = job->calib.length * sizeof(float),
                   taken = each ? job->model->plans.taken : 0;
    for (uint32_t i = 0; i < dense * g->groups; i++)
        pith_crew_parts(c, job->calib.windows, window);
    for (uint32_t i = 0; taken && i < 1 + each * g->groups; i++)
        pith_crew_parts(c, job->calib.windows, window * taken);
    if (g->block) pass_pairs(c, g, l);
}

static void count_guide(struct pith_crew *c, const struct pith_foresee_unit *u)
{
    const struct pith_guide g = pith_guiding_plan(u->job);
    const uint32_t layers = u->job->model->shape.layers;
    agree(c);
    pith_crew_share(c, 0, sizeof(uint64_t)); /* an empty list of what is done */
    pith_crew_share(c, 0, 2);
    pith_crew_share(c, 0, sizeof(bool));
    for (uint32_t i = 0; i < 2 * layers + 1; i++) count_digest(c, u); /* there, the turn, back */
    for (uint32_t l = 0; l < layers; l++) share_felt(c, u->job, &g, pith_job_plan(u->job, l));
    meet(c);
    meet(c);
}

/* --- learned rounding (quantize/site/learn.c)
 * ---------------------------------------------------------- */

/* What windows read and are to give. */
static void count_gathered(struct pith_crew *c, const struct pith_foresee_unit *u)
{
    enum { LISTS = 2 };
    const size_t all = u->job->calib.windows;
    const uint64_t window =
        u->job->calib.length *
        (u->job->model->shape.hidden + pith_plans_carried(&u->job->model->plans)) * sizeof(float);
    unsigned rank = 0;
    for (size_t w = 0; w < all; w++) {
        while (pith_ranks_cut(c->ranks, rank + 1, all) <= w) rank++;
        for (int i = 0; i < LISTS; i++) pith_crew_share(c, rank, window);
    }
}

/* How many tokens took each expert. */
static void count_takers(struct pith_crew *c, const struct pith_foresee_unit *u)
{
    pith_crew_sum(c, 0, u->job->model->shape.moe.experts * sizeof(size_t), 1);
}

/* --- caches and ends -------------------------------------------------------------------------- */

/* The ends of keys and values. */
static void count_kv(struct pith_crew *c, const struct pith_foresee_unit *u)
{
    const struct pith_layer_plan *l = pith_job_plan(u->job, u->layer);
    pith_crew_sums(c, l->site[pith_plan_after_attend(l)].dim, PITH_NEED_RANGE, 1);
    for (unsigned k = 0; k < c->ranks; k++)
        pith_crew_told(c, k, 2ull * l->state.heads * sizeof(float));
}

/* --- the table -------------------------------------------------------------------------------- */

static bool always(const struct pith_foresee_unit *u)
{
    (void)u;
    return true;
}

static bool calibrates(const struct pith_foresee_unit *u)
{
    return pith_job_calibrates(u->job);
}

static bool keeps_float(const struct pith_foresee_unit *u)
{
    return pith_job_calibrates(u->job) && pith_job_keeps_float(u->job);
}

static bool all_write(const struct pith_foresee_unit *u)
{
    return !u->job->options->gather;
}

static bool guided(const struct pith_foresee_unit *u)
{
    return u->job->needs_round & PITH_NEED_GUIDED;
}

static bool learns(const struct pith_foresee_unit *u)
{
    return pith_job_learns(u->job);
}

static bool learns_experts(const struct pith_foresee_unit *u)
{
    return pith_job_learns(u->job) && u->job->model->shape.moe.experts;
}

static bool scales_kv(const struct pith_foresee_unit *u)
{
    return pith_inputs_kv_of(u->job, u->layer);
}

static const struct {
    enum pith_foresee_when when;
    bool (*is)(const struct pith_foresee_unit *u);
    void (*count)(struct pith_crew *c, const struct pith_foresee_unit *u);
} spread[] = {
    {PITH_FORESEE_ONCE, guided, count_guide},
    {PITH_FORESEE_ONCE, all_write, count_hashes_outside},
    {PITH_FORESEE_ONCE, always, count_source_outside},
    {PITH_FORESEE_LAYER, always, count_source_of_block},
    {PITH_FORESEE_LAYER, all_write, count_hashes_of_block},
    {PITH_FORESEE_LAYER, learns_experts, count_takers},
    {PITH_FORESEE_LAYER, learns, count_gathered},
    {PITH_FORESEE_LAYER, scales_kv, count_kv},
    {PITH_FORESEE_BETWEEN, calibrates, count_digest},
    {PITH_FORESEE_BETWEEN, keeps_float, count_digest},
};

void pith_foresee_count(struct pith_crew *c, const struct pith_foresee_unit *u,
                        enum pith_foresee_when when)
{
    for (size_t i = 0; i < PITH_COUNT(spread); i++)
        if (spread[i].when == when && spread[i].is(u)) spread[i].count(c, u);
}
