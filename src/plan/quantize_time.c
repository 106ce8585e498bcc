#include "plan/quantize_time.h"

#include "backend/backend.h"
#include "base/ranks.h"
#include "num/qmat.h"
#include "quant/round.h"
#include "quant/transform.h"

/* Shares of float32 operations, and seconds a weight or a byte; see the header. */
static const double products = 0.40, hessian = 0.22, factor = 1.47, rounding = 0.16;
static const double read_weight = 10e-9, compare_weight = 15e-9, write_byte = 5.5e-9;

static unsigned needs_of(const struct pith_quantize_task *t)
{
    return t->recipe->round->needs | t->recipe->split->needs;
}

const char *pith_quantize_untold(const struct pith_quantize_task *t)
{
    const struct pith_transform *turns = t->recipe->transform;
    const struct pith_round_job one = {.grid = t->recipe->weights,
                                       .options = t->recipe->round_options};
    if (t->plans->experts) return "times of mixtures of experts are not foretold";
    if (!t->recipe->weights.format)
        return "times of recipes that leave weights in 16 bits are not foretold";
    if (!(needs_of(t) & PITH_NEED_HESSIAN) || t->recipe->round->block)
        return "times are foretold of recipes that round by Hessians, such as gptq";
    if (needs_of(t) & PITH_NEED_GUIDED) return "times of guided rounding are not foretold";
    if (pith_round_cut(t->recipe->round, &one, t->recipe->split) == 0)
        return "times of what is rounded matrix by matrix are not foretold";
    if (turns->needs && !turns->basis)
        return "times of a transform that is searched for are not foretold";
    return NULL;
}

static void statistics(const struct pith_quantize_task *t, uint32_t dim, struct pith_crew *c)
{
    const uint64_t d = dim;
    const double square = (double)d * (double)d, one = square * (double)t->tokens / t->f32;
    const size_t rows = pith_ranks_panel(c->ranks, d), panels = (d + rows - 1) / rows;
    pith_crew_sum(c, 0, 2 * sizeof(uint64_t), 1);
    pith_crew_sum(c, 0, sizeof(double), 1);
    pith_crew_sum(c, one / hessian, d * (d + 1) / 2 * sizeof(float), panels);
    const double factoring = square * (double)d / factor / t->f32;
    const bool shared = c->ranks > 1 && pith_cholesky_scratch(c->ranks, d) > 0;
    if (shared) pith_cholesky_told(c->ranks, d, pith_crew_told, c);
    pith_crew_add(c, shared || c->ranks == 1 ? PITH_CREW_DIVIDED : PITH_CREW_REPEATED,
                  shared ? factoring / c->ranks : factoring);
}

/* What ranks tell of a linear's rows, each its own, and of the whole. */
static void tell_rows(const struct pith_linear_spec *l, uint64_t codes, struct pith_crew *c)
{
    enum { WHOLE = 5, SMALL = 64 };
    const uint64_t part[] = {codes, l->rows * sizeof(double), l->rows * sizeof(double)};
    for (size_t i = 0; i < sizeof part / sizeof part[0]; i++)
        for (unsigned k = 0; k < c->ranks; k++)
            pith_crew_told(c, k, part[i] * (k + 1) / c->ranks - part[i] * k / c->ranks);
    for (unsigned i = 0; i < WHOLE; i++) pith_crew_share(c, i % c->ranks, SMALL);
}

static void linear(const struct pith_quantize_task *t, const struct pith_linear_spec *l,
                   struct pith_crew *c)
{
    const double weights = (double)l->rows * l->cols, tokens = (double)t->tokens;
    const uint64_t codes = pith_qmat_bytes(l->rows, l->cols, &t->recipe->weights);
    pith_crew_windows(c, 2 * weights * tokens / products / t->f32, t->tokens / t->length);
    pith_crew_add(c, PITH_CREW_REPEATED, weights * read_weight);
    if (l->stays) return;
    pith_crew_add(c, PITH_CREW_DIVIDED,
                  (weights * l->cols / rounding / t->f32 + weights * compare_weight) / c->ranks);
    pith_crew_add(c, PITH_CREW_FIRST, (double)codes * write_byte);
    tell_rows(l, codes, c);
}

void pith_quantize_layer(const struct pith_quantize_task *t, uint32_t layer, struct pith_crew *c)
{
    const struct pith_layer_plan *l = pith_plan(t->plans, layer);
    for (uint32_t i = 0; i < l->sites; i++) {
        const struct pith_site_spec *site = &l->site[i];
        bool rounded = false;
        for (uint32_t k = site->first; k < site->first + site->count; k++) {
            linear(t, &l->linear[k], c);
            rounded |= !l->linear[k].stays;
        }
        if (rounded) statistics(t, site->dim, c);
    }
}

double pith_quantize_outside(const struct pith_quantize_task *t)
{
    return (double)t->outside * write_byte;
}

uint64_t pith_quantize_memory(const struct pith_quantize_task *t)
{
    enum { MATRICES = 3 };
    uint64_t most = 0;
    for (uint32_t k = 0; k < t->plans->kinds; k++) {
        const struct pith_layer_plan *l = &t->plans->kind[k];
        uint64_t floats = 0, largest = 0, widest = 0;
        for (uint32_t i = 0; i < l->linears; i++) {
            const uint64_t n = (uint64_t)l->linear[i].rows * l->linear[i].cols;
            floats += n;
            largest = n > largest ? n : largest;
        }
        for (uint32_t i = 0; i < l->sites; i++)
            widest = l->site[i].dim > widest ? l->site[i].dim : widest;
        floats += MATRICES * largest + widest * widest;
        most = floats > most ? floats : most;
    }
    return most * sizeof(float);
}
