/* What goes round while a model is quantized. Names of files tell who sends it. */
#include "plan/time/quantize_parts.h"

#include "backend/backend.h"
#include "base/keyed.h"
#include "base/mem.h"
#include "base/ranks/ranks.h"
#include "num/qmat.h"
#include "plan/time/ranks_stats.h"
#include "quant/round.h"
#include "quant/split.h"
#include "quant/transform.h"

#include <string.h>

/* Bytes: a hash as text; what became of a linear and a matrix' header (quantize/output/output.h,
 * quantize/ranks/ranks.c); a round's and a search's report. */
enum { HASH = 65, RESULT = 1912, HEADER = 120, REPORT = 40, FOUND = 32, SAID = 256 };
/* Tokens: quantize/site/module_output.h, quantize/site/transform.c. */
enum { INSPECTED = 2048, SAMPLES = 512 };

/* --- units ------------------------------------------------------------------------------------ */

/* pith_ranks_meet() */
static void meet(struct pith_crew *c)
{
    for (unsigned k = 0; k < c->ranks; k++) pith_crew_told(c, k, 1);
}

/* pith_ranks_agree() */
static void agree(struct pith_crew *c)
{
    pith_crew_share(c, 0, SAID);
    meet(c);
}

/* pith_source_note(): the key, what all find by it, hashes to rank 0; those of pith_writers_end().
 */
static void hashes(struct pith_crew *c, uint64_t read, uint64_t tensors)
{
    pith_crew_share(c, 0, sizeof(struct pith_keyed_key));
    agree(c);
    for (unsigned k = 1; k < c->ranks; k++) pith_crew_pass(c, 0, read * HASH);
    for (unsigned k = 1; k < c->ranks; k++) pith_crew_pass(c, 0, tensors * HASH);
}

/* pith_ranks_digest() */
static void digest(const struct pith_quantize_task *t, struct pith_crew *c)
{
    pith_crew_parts(c, pith_quantize_windows(t), HASH);
}

/* Tensors that containers have of a linear; others have codes and scales, one more of integers
 * whose inputs stay as they are and of nvfp4, and of zero points and an input's one scale. */
static const struct {
    const char *container;
    uint32_t tensors;
} stored[] = {{"gptq", 4},       {"awq", 3},          {"hqq", 19},
              {"squeezellm", 5}, {"bitsandbytes", 6}, {"gguf", 1}};

static uint32_t tensors_of(const struct pith_quantize_task *t, const struct pith_linear_spec *l)
{
    const struct pith_grid *g = &t->recipe->weights;
    if (!pith_quantize_changes(l) || !g->format) return 1 + l->bias;
    for (size_t i = 0; i < PITH_COUNT(stored); i++)
        if (strcmp(t->recipe->container, stored[i].container) == 0)
            return stored[i].tensors + l->bias;
    const bool packed = g->format->kind == PITH_KIND_INT && !t->recipe->acts.format;
    const bool shares = g->format->kind == PITH_KIND_BLOCK && pith_round_shared(g, 1) > 0;
    return 2u + (packed || shares) + g->asym + t->recipe->acts.is_static + l->bias;
}

static uint32_t linears_and_biases(const struct pith_layer_plan *l)
{
    uint32_t n = l->linears;
    for (uint32_t i = 0; i < l->linears; i++) n += l->linear[i].bias;
    return n;
}

void pith_quantize_tell_unit(const struct pith_quantize_task *t, const struct pith_layer_plan *l,
                             struct pith_crew *c)
{
    uint64_t tensors = l->vectors;
    for (uint32_t i = 0; i < l->linears; i++) tensors += tensors_of(t, &l->linear[i]);
    hashes(c, l->vectors + linears_and_biases(l), tensors);
}

void pith_quantize_tell_behind(const struct pith_quantize_task *t, struct pith_crew *c)
{
    const unsigned k = pith_quantize_kinds(t);
    if (k & CALIBRATES) digest(t, c);
    if (k & (DRIFT | LEARNS)) digest(t, c); /* what the model as it was makes of them */
}

/* calib/guide.c, of lists of numbers for each token; and of pairs. */
static void felt(const struct pith_quantize_task *t, const struct pith_layer_plan *l,
                 struct pith_crew *c)
{
    const struct pith_round_options *o = &t->recipe->round_options;
    const uint32_t groups = o->row_groups, most = pith_output_block(o->output_block);
    for (uint32_t i = 0; i < l->linears; i++) {
        const uint32_t expert = l->linear[i].expert;
        const uint64_t each = expert == PITH_NO_PART ? 1 : expert ? 0 : t->plans->taken;
        for (uint32_t g = 0; each && g < groups; g++)
            pith_crew_parts(c, pith_quantize_windows(t), t->length * each * sizeof(float));
    }
    if (pith_plan_experts(l))
        pith_crew_parts(c, pith_quantize_windows(t), t->length * t->plans->taken * sizeof(float));
    for (uint32_t i = 0; pith_quantize_kinds(t) & OUTPUTS && i < l->linears; i++) {
        const uint32_t rows = l->linear[i].rows;
        const uint64_t pairs = pith_outputs_of(rows, most, groups, groups) * sizeof(float);
        pith_crew_relay(c, 0, pairs, (rows + most - 1) / most);
        pith_crew_share(c, c->ranks - 1, pairs);
    }
}

void pith_quantize_tell_before(const struct pith_quantize_task *t, struct pith_crew *c)
{
    static const uint64_t small[] = {sizeof(uint64_t), 2, 1};
    const uint32_t layers = t->plans->layers;
    hashes(c, 1 + t->ends, 1 + t->ends); /* and the last norm */
    if (!(pith_quantize_kinds(t) & GUIDED)) return;
    agree(c);
    for (size_t i = 0; i < PITH_COUNT(small); i++) pith_crew_share(c, 0, small[i]);
    for (uint32_t i = 0; i < 2 * layers + 1; i++) digest(t, c); /* there, the turn, back */
    for (uint32_t i = 0; i < layers; i++) felt(t, pith_plan(t->plans, i), c);
    meet(c);
    meet(c);
}

/* --- matrices --------------------------------------------------------------------------------- */

static struct pith_qspec spec_of(const struct pith_quantize_task *t,
                                 const struct pith_linear_spec *l)
{
    const struct pith_recipe *r = t->recipe;
    struct pith_grid grid = r->weights;
    if (t->group && pith_quantize_changes(l)) grid.group = t->group(t->group_ctx, l);
    return (struct pith_qspec){
        .rows = l->rows,
        .cols = l->cols,
        .grid = grid,
        .kept = r->split->sparse ? pith_sparse_count(l->rows, l->cols, r->split_value) : 0,
        .ordered = r->round->form == PITH_SWEEP_GPTAQ &&
                   r->round_options.act_order == PITH_ORDER_GROUP};
}

/* Those that come in rows, bytes in all. */
struct parts {
    uint64_t codes, scales, zeros, offsets, levels;
};
static struct parts parts_of(const struct pith_qspec *s)
{
    struct pith_qform f;
    if (!pith_qspec_form(s, &f)) return (struct parts){.codes = pith_qspec_bytes(s)};
    const uint64_t scales = pith_qmat_scale_count(&f.q),
                   outer = f.outer ? (uint64_t)s->rows * (s->cols / PITH_KBLOCK) : 0;
    return (struct parts){.codes = (uint64_t)s->rows * f.q.stride,
                          .scales = scales * sizeof(float),
                          .zeros = f.zeros ? scales : 0,
                          .offsets = f.offsets ? scales * sizeof(float) : 0,
                          .levels = pith_qmat_level_count(&f.q) * sizeof(float) +
                                    outer * sizeof *f.q.outer};
}

/* quantize/ranks/rank_rows.c */
static void tell_rows(const struct pith_linear_spec *l, const struct pith_qspec *s,
                      const uint32_t *first, unsigned before, struct pith_crew *c)
{
    enum { MEASURES = 2 };
    const unsigned at = before * MEASURES; /* who measures takes turns */
    const struct parts p = parts_of(s);
    const uint64_t part[] = {p.codes,
                             p.scales,
                             p.zeros,
                             p.offsets,
                             p.levels,
                             s->rows * sizeof(double),
                             s->rows * sizeof(double)};
    unsigned from = 0;
    while (first[from] == first[from + 1]) from++;
    for (size_t i = 0; i < PITH_COUNT(part); i++)
        for (unsigned k = 0; part[i] && k < c->ranks; k++)
            pith_crew_told(c, k, part[i] * first[k + 1] / s->rows - part[i] * first[k] / s->rows);
    pith_crew_share(c, from, sizeof(bool));
    if (s->ordered) pith_crew_share(c, from, s->cols * sizeof(uint32_t));
    pith_crew_share(c, from, REPORT);
    pith_crew_share(c, from, sizeof(double));
    for (unsigned m = 0; m < MEASURES; m++)
        pith_crew_share(c, (l->site + at + at / c->ranks + m) % c->ranks,
                        m ? sizeof(double) : HASH);
}

/* quantize/site/site.c */
static void tell_whole(const struct pith_quantize_task *t, const struct pith_qspec *s,
                       unsigned from, struct pith_crew *c)
{
    const struct parts p = parts_of(s);
    const uint64_t rest = pith_qspec_bytes(s) - p.codes - p.scales - p.zeros - p.offsets - p.levels;
    const uint64_t kept[] = {s->kept ? (s->rows + (uint64_t)1) * sizeof(uint32_t) : 0,
                             s->kept * sizeof(uint32_t), s->kept * sizeof(float)};
    const uint64_t part[] = {HEADER, p.codes, p.scales, p.zeros, p.offsets, p.levels};
    const uint64_t off = kept[0] + kept[1] + kept[2];
    pith_crew_share(c, from, RESULT);
    if (!t->recipe->weights.format) {
        pith_crew_share(c, from, (uint64_t)s->rows * s->cols * sizeof(float));
        return;
    }
    for (size_t i = 0; i < PITH_COUNT(part); i++) pith_crew_share(c, from, part[i]);
    for (size_t i = 0; i < PITH_COUNT(kept); i++) pith_crew_share(c, from, kept[i]);
    pith_crew_share(c, from, rest > off ? rest - off : 0); /* scales of scales, orders */
    pith_crew_share(c, from, 2 * sizeof(float));
}

void pith_quantize_tell_linear(const struct pith_quantize_task *t, const struct pith_linear_spec *l,
                               const uint32_t *first, unsigned before, struct pith_crew *c)
{
    const struct pith_qspec s = spec_of(t, l);
    const unsigned owner = c->ranks == 1 ? 0 : pith_rows_owner(first, c->ranks);
    if (!s.grid.format && l->expert == PITH_NO_PART) return; /* zeros that all find */
    else if (owner == PITH_TO_ALL) tell_rows(l, &s, first, before, c);
    else tell_whole(t, &s, owner, c);
}

/* quantize/stream.c: who reads a linear looks through it first where its site has one scale. */
void pith_quantize_tell_streamed(const struct pith_quantize_task *t, unsigned owner,
                                 struct pith_crew *c)
{
    if (pith_round_shared(&t->recipe->weights, 1) > 0) pith_crew_share(c, owner, 2 * sizeof(float));
    if (owner) pith_crew_pass(c, 0, RESULT);
}

/* quantize/block.c */
void pith_quantize_tell_learned(unsigned owner, struct pith_crew *c)
{
    pith_crew_share(c, owner, RESULT);
}

/* --- transforms ------------------------------------------------------------------------------- */

/* Samples that were taken before the windows of each rank, then all. */
static void samples(const struct pith_quantize_task *t, const struct pith_site_spec *s,
                    struct pith_crew *c)
{
    const uint64_t bytes = (t->tokens < SAMPLES ? t->tokens : SAMPLES) * s->dim * sizeof(float);
    for (unsigned k = 1; k < c->ranks; k++) pith_crew_pass(c, k, bytes * k / c->ranks);
    pith_crew_share(c, c->ranks - 1, bytes);
}

void pith_quantize_tell_site(const struct pith_quantize_task *t, const struct pith_site_spec *s,
                             struct pith_crew *c)
{
    const struct pith_transform *by = t->recipe->transform;
    const unsigned needs = by->needs | (by->also & pith_quantize_needs(t));
    const struct pith_crew_products of = {s->dim, needs, 1, false, 0};
    pith_crew_sums(c, s->dim, needs, 1);
    pith_crew_products(c, &of);
    if (needs & PITH_NEED_SAMPLES) samples(t, s, c);
}

/* quantize/site/module_output.c: windows at equal distances, each from who has it. */
static void inspected(const struct pith_quantize_task *t, const struct pith_site_spec *s,
                      struct pith_crew *c)
{
    const size_t all = pith_quantize_windows(t),
                 want = INSPECTED / t->length ? INSPECTED / t->length : 1;
    const size_t count = want < all ? want : all;
    for (size_t i = 0; i < count; i++) {
        unsigned rank = 0;
        while (pith_ranks_cut(c->ranks, rank + 1, all) <= i * all / count) rank++;
        pith_crew_share(c, rank, t->length * s->dim * sizeof(float));
    }
}

static uint64_t groups_of(const struct pith_quantize_task *t, const struct pith_linear_spec *l)
{
    const struct pith_qspec s = spec_of(t, l);
    struct pith_qform f;
    return pith_qspec_form(&s, &f) ? f.q.groups : 1;
}

static bool is_clipped(const struct pith_quantize_task *t, const struct pith_linear_spec *l)
{
    const struct pith_grid *g = &t->recipe->weights;
    return pith_quantize_kinds(t) & CLIPS && pith_quantize_changes(l) && !l->scores && g->format &&
           g->granularity != PITH_PER_TENSOR && g->format->kind != PITH_KIND_LEVELS;
}

/* quant/transform/awq_clip.c: rows as they became, and how many. */
static void clipped(const struct pith_linear_spec *l, struct pith_crew *c)
{
    enum { BLOCK = 128 }; /* rows, of which a rank has whole blocks */
    const uint32_t blocks = (l->rows + BLOCK - 1) / BLOCK;
    for (unsigned k = 0; k < c->ranks; k++) {
        const size_t from = pith_ranks_cut(c->ranks, k, blocks) * BLOCK,
                     to = pith_ranks_cut(c->ranks, k + 1, blocks) * BLOCK;
        const size_t rows = (to < l->rows ? to : l->rows) - (from < l->rows ? from : l->rows);
        pith_crew_told(c, k, rows * l->cols * sizeof(float));
    }
    for (unsigned k = 0; k < c->ranks; k++) pith_crew_told(c, k, 2 * sizeof(uint64_t));
}

/* What an expert's owner found. */
static void found(const struct pith_quantize_task *t, const struct pith_layer_plan *l,
                  const struct pith_site_spec *s, struct pith_crew *c)
{
    const unsigned owner = s->expert % c->ranks;
    pith_crew_share(c, owner, sizeof(bool));
    pith_crew_share(c, owner, s->dim * sizeof(float));
    pith_crew_share(c, owner, FOUND);
    for (uint32_t i = s->first; i < s->first + s->count; i++)
        if (is_clipped(t, &l->linear[i]))
            pith_crew_share(c, owner, l->linear[i].rows * groups_of(t, &l->linear[i]));
}

void pith_quantize_tell_search(const struct pith_quantize_task *t, const struct pith_layer_plan *l,
                               uint32_t site, struct pith_crew *c)
{
    enum { TRIES = 20, SMOOTH_TRIES = 2 };
    const struct pith_site_spec *s = &l->site[site];
    if (s->expert != PITH_NO_PART) {
        found(t, l, s, c);
        return;
    }
    if (s->to) inspected(t, s, c);
    pith_crew_parts(c, pith_quantize_kinds(t) & SMOOTHS ? SMOOTH_TRIES : TRIES, sizeof(double));
    for (uint32_t i = 0; i < l->sites; i++) {
        const struct pith_site_spec *other = &l->site[i];
        const bool norm = s->fold.kind == PITH_FOLD_VECTOR && other->fold.kind == s->fold.kind;
        const bool same = i == site || (norm && i > site && other->fold.from == s->fold.from);
        for (uint32_t k = other->first; same && k < other->first + other->count; k++)
            if (is_clipped(t, &l->linear[k])) clipped(&l->linear[k], c);
    }
}

/* --- experts and learning --------------------------------------------------------------------- */

/* calib/sent.c, each expert with as many tokens of each rank. */
void pith_quantize_tell_routes(const struct pith_quantize_task *t, size_t floats, bool shares,
                               struct pith_crew *c)
{
    const size_t pooled = t->tokens < PITH_QUANTIZE_POOLED ? t->tokens : PITH_QUANTIZE_POOLED;
    const uint64_t row = floats * sizeof(float);
    const double taken = (double)t->tokens * t->plans->taken, n = c->ranks;
    const uint64_t choices = t->length * t->plans->taken * sizeof(uint32_t);
    for (int i = 0; i < 1 + shares; i++) pith_crew_parts(c, pith_quantize_windows(t), choices);
    pith_crew_parts(c, pooled, row);
    for (unsigned k = 0; k < c->ranks && c->ranks > 1; k++) {
        const uint32_t experts = t->plans->experts / c->ranks + (k < t->plans->experts % c->ranks);
        const double rows = taken * experts / t->plans->experts;
        c->received[k] += (uint64_t)(rows * (n - 1) / n * (double)row);
    }
    for (unsigned turn = 1; turn < c->ranks; turn++)
        pith_crew_add(c, PITH_CREW_LINK, 2 * pith_crew_message(c, taken / n / n * (double)row));
}

/* quantize/site/learn.c: what windows read and are to give; each step, what they lose, and
 * gradients. */
void pith_quantize_tell_learning(const struct pith_quantize_task *t,
                                 const struct pith_layer_plan *l, struct pith_crew *c)
{
    enum { A_RANK = 6, LISTS = 2, BATCH = 8, MEASURED = 3 };
    const struct pith_round_options *o = &t->recipe->round_options;
    const uint32_t steps = pith_quantize_steps(o), batch = o->batch ? o->batch : BATCH;
    const size_t all = pith_quantize_windows(t);
    unsigned rank = 0;
    for (size_t w = 0; w < all; w++) {
        while (pith_ranks_cut(c->ranks, rank + 1, all) <= w) rank++;
        for (int i = 0; i < LISTS; i++)
            pith_crew_share(c, rank, t->length * t->hidden * sizeof(float));
    }
    if (t->plans->experts) pith_crew_sum(c, 0, t->plans->experts * sizeof(size_t), 1);
    for (int i = 0; i < MEASURED; i++) pith_crew_parts(c, all, sizeof(double)); /* no step */
    for (uint32_t i = 0; i < steps; i++) {
        uint64_t bytes = 0;
        pith_crew_parts(c, batch < all ? batch : all, sizeof(double));
        for (uint32_t k = 0; k < l->linears; k++) {
            const uint64_t one = (uint64_t)l->linear[k].rows * l->linear[k].cols * sizeof(float);
            if (!pith_quantize_changes(&l->linear[k])) continue;
            bytes += one;
            pith_crew_share(c, c->ranks - 1, one);
        }
        pith_crew_relay(c, 0, bytes, (size_t)A_RANK * c->ranks);
    }
}
