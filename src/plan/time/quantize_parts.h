/* plan/time/quantize_parts.h: what a task asks for, and what goes round of it, message by message
 * as the pipeline sends it. Inside plan/quantize*.c only. */
#ifndef PITH_PLAN_TIME_QUANTIZE_PARTS_H
#define PITH_PLAN_TIME_QUANTIZE_PARTS_H

#include "plan/time/quantize_time.h"
#include "plan/time/spread.h"

enum { PITH_QUANTIZE_POOLED = 4096 }; /* tokens: calib/routed.h */

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
    SEARCHES = 256,  /* awq, judged by what modules give */
    FORETELLS = 512, /* awq, judged by what GPTQ will lose */
    SMOOTHS = 1024,
    TURNS = 2048,
    PRUNES = 4096,
    SWEEPS = 8192,  /* a float of each weight: not streamed */
    CLIPS = 16384,  /* awq's search behind that for scales */
    STATIC = 32768, /* ranges of inputs */
};
unsigned pith_quantize_kinds(const struct pith_quantize_task *t);
/* Statistics that rounding, its split and inputs of one scale need. */
unsigned pith_quantize_needs(const struct pith_quantize_task *t);
uint32_t pith_quantize_steps(const struct pith_round_options *o); /* of what is learned */

static inline bool pith_quantize_changes(const struct pith_linear_spec *l)
{
    return !l->stays;
}
static inline size_t pith_quantize_windows(const struct pith_quantize_task *t)
{
    return t->tokens / t->length;
}

/* Before the first unit, and of guided rounding what its passes bring. */
void pith_quantize_tell_before(const struct pith_quantize_task *t, struct pith_crew *c);
/* Of a layer, whatever its steps; and behind it. */
void pith_quantize_tell_unit(const struct pith_quantize_task *t, const struct pith_layer_plan *l,
                             struct pith_crew *c);
void pith_quantize_tell_behind(const struct pith_quantize_task *t, struct pith_crew *c);
/* What became of a linear: first[ranks + 1] (plan/time/spread.h), and the linears of its site
 * before it of which several ranks have rows. */
void pith_quantize_tell_linear(const struct pith_quantize_task *t,
                               const struct pith_linear_spec *l, const uint32_t *first,
                               unsigned before, struct pith_crew *c);
/* The same of one that streams, and of one that has learned. */
void pith_quantize_tell_streamed(const struct pith_quantize_task *t, unsigned owner,
                                 struct pith_crew *c);
void pith_quantize_tell_learned(unsigned owner, struct pith_crew *c);
/* A transform's statistics of a site that all tokens reach. */
void pith_quantize_tell_site(const struct pith_quantize_task *t, const struct pith_site_spec *s,
                             struct pith_crew *c);
/* Its search of the linears that are scaled with a site, and what it finds of an expert's. */
void pith_quantize_tell_search(const struct pith_quantize_task *t, const struct pith_layer_plan *l,
                               uint32_t site, struct pith_crew *c);
/* Tokens and their experts, and rows of so many floats, with the experts' shares or without. */
void pith_quantize_tell_routes(const struct pith_quantize_task *t, size_t floats, bool shares,
                               struct pith_crew *c);
void pith_quantize_tell_learning(const struct pith_quantize_task *t,
                                 const struct pith_layer_plan *l, struct pith_crew *c);

#endif
