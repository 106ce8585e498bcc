/* eval/ranks_agree.h: ranks that measure together are about to measure the same. */
#ifndef PITH_EVAL_RANKS_AGREE_H
#define PITH_EVAL_RANKS_AGREE_H

#include "base/ranks/ranks.h"
#include "eval/eval.h"

/* What the result depends on; all borrowed. */
struct pith_measured {
    const struct pith_model *model, *baseline; /* baseline NULL: none */
    const struct pith_kv_format *kv;
    const int32_t *ids;
    size_t count;
    const void *cut; /* how they are cut, cut_bytes of it */
    size_t cut_bytes;
};

/* Called by all. PITH_MISMATCH names the first rank that has something else. */
enum pith_status pith_eval_agree(struct pith_ranks *ranks, const struct pith_measured *m,
                                 struct pith_error *err);

#endif
