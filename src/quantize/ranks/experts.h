/* quantize/ranks/experts.h: each expert has an owner, the rank that computes its statistics, its
 * transform and its rounding. The results stay there until all experts of the layer are done; then
 * they become everyone's. Alone, all experts are here, and nothing waits. All ranks make the calls
 * that share in the same order. */
#ifndef PITH_QUANTIZE_RANKS_EXPERTS_H
#define PITH_QUANTIZE_RANKS_EXPERTS_H

#include "quant/transform.h"

struct pith_rounded;
struct pith_work;

/* Memory for what waits, [plan->linears] of w->waiting, which pith_work_end() frees. */
enum pith_status pith_experts_begin(struct pith_work *w, struct pith_error *err);
/* Whether the work on an expert is done here; true of PITH_NO_PART, which is all ranks'. */
bool pith_expert_is_here(const struct pith_work *w, uint32_t expert);
/* Whether its results wait for those of the others; false of PITH_NO_PART, and alone. */
bool pith_expert_waits(const struct pith_work *w, uint32_t expert);

/* What the expert's owner has in data becomes everyone's. */
enum pith_status pith_expert_share(const struct pith_work *w, uint32_t expert, void *data,
                                   size_t bytes, struct pith_error *err);
/* Sets job->ranks: all ranks divide the trials of a search among them, unless it is an expert's,
 * which its owner makes alone. */
void pith_expert_divide_search(const struct pith_work *w, uint32_t expert,
                               struct pith_transform_job *job);

/* On the owner: the block computes with the rounded linear from now on, and its result waits. Takes
 * m->q over. */
enum pith_status pith_expert_keep(struct pith_work *w, uint32_t linear, struct pith_rounded *m,
                                  struct pith_error *err);
/* All linears that wait become everyone's, and are stored and accounted for in the order of a run
 * by one rank. */
enum pith_status pith_experts_meet(struct pith_work *w, struct pith_error *err);

#endif
