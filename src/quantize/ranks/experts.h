/* quantize/ranks/experts.h: experts, of which each is one rank's, its owner's: statistics, search
 * and rounding. What an owner made of its experts stays there until all experts of the layer are
 * done, and then becomes everyone's. Alone, all experts are here, and nothing waits. All ranks make
 * the calls that share in the same order. */
#ifndef PITH_QUANTIZE_RANKS_EXPERTS_H
#define PITH_QUANTIZE_RANKS_EXPERTS_H

#include "quant/transform.h"

struct pith_rounded;
struct pith_work;

/* Memory for what waits, [plan->linears] of w->waiting, which pith_work_end() frees. */
enum pith_status pith_experts_begin(struct pith_work *w, struct pith_error *err);
/* Whether the work on an expert is done here; true of PITH_NO_PART, which is all ranks'. */
bool pith_expert_is_here(const struct pith_work *w, uint32_t expert);
/* Whether what is made of it waits for the others; false of PITH_NO_PART. */
bool pith_expert_waits(const struct pith_work *w, uint32_t expert);

/* What the expert's owner has in data becomes everyone's. */
enum pith_status pith_expert_share(const struct pith_work *w, uint32_t expert, void *data,
                                   size_t bytes, struct pith_error *err);
/* The trials of a search over a site that all ranks make are divided among them. */
void pith_expert_divide_search(const struct pith_work *w, uint32_t expert,
                               struct pith_transform_job *job);

/* The owner's block goes on with what a linear became; m->q is taken over. */
enum pith_status pith_expert_keep(struct pith_work *w, uint32_t linear, struct pith_rounded *m,
                                  struct pith_error *err);
/* All linears of experts that wait become everyone's, are stored and accounted for, in the order in
 * which one rank alone would have. */
enum pith_status pith_experts_meet(struct pith_work *w, struct pith_error *err);

#endif
