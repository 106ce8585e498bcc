/* plan/time/quantize_kinds.h: what a recipe does, as far as time and traffic depend on it. Inside
 * plan/time only. */
#ifndef PITH_PLAN_TIME_QUANTIZE_KINDS_H
#define PITH_PLAN_TIME_QUANTIZE_KINDS_H

#include "plan/time/quantize_time.h"

enum { PITH_QUANTIZE_INSPECTED = 2048 }; /* tokens: quantize/site/module_output.h */

/* Kinds of recipes that the tables' rows are of. */
enum pith_quantize_kind {
    ALWAYS = 0,
    CALIBRATES = 1,
    STREAMS = 2, /* needs nothing but its weights */
    HESSIAN = 4,
    COLUMNS = 8,
    DRIFT = 16,
    GUIDED = 32,
    OUTPUTS = 64,
    LEARNS = 128,
    SEARCHES = 256, /* awq, judged by the outputs of modules */
    PREDICTS = 512, /* awq, judged by what GPTQ will lose */
    SMOOTHS = 1024,
    ROTATES = 2048,
    PRUNES = 4096,
    SWEEPS = 8192, /* a float of each weight: not streamed */
    CLIPS = 16384, /* awq's search after that for scales */
};
unsigned pith_quantize_kinds(const struct pith_quantize_task *t);
/* Statistics that rounding, its split and inputs of one scale need. */
unsigned pith_quantize_needs(const struct pith_quantize_task *t);
uint32_t pith_quantize_steps(const struct pith_round_options *o); /* of what is learned */

static inline bool pith_quantize_changes(const struct pith_linear_spec *l)
{
    return !l->stays;
}
/* Tokens that an expert is calibrated on. */
static inline double pith_quantize_expert_tokens(const struct pith_quantize_task *t)
{
    const double taken = (double)t->tokens * t->plans->taken / t->plans->experts;
    return (double)t->common + (t->routed ? taken : 0);
}
/* Separate statistics of a site. */
static inline uint32_t pith_quantize_views(const struct pith_quantize_task *t,
                                           const struct pith_site_spec *s)
{
    return pith_quantize_kinds(t) & GUIDED ? s->count * t->recipe->round_options.row_groups : 1;
}
bool pith_quantize_site_changes(const struct pith_layer_plan *l, const struct pith_site_spec *s);

#endif
