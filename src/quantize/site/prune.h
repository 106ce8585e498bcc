/* quantize/site/prune.h: the pattern of zeros that 2:4 promises. */
#ifndef PITH_QUANTIZE_SITE_PRUNE_H
#define PITH_QUANTIZE_SITE_PRUNE_H

#include "backend/backend.h"
#include "num/qmat.h"

/* Two of each four neighbouring weights of every row are 0; those after the last whole four may be
 * anything. PITH_MISMATCH names the first place where it is not so. */
enum pith_status pith_two_four_check(struct pith_backend *be, const struct pith_weight *w,
                                     struct pith_error *err);

#endif
