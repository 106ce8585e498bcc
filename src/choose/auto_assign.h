/* choose/auto_assign.h: from sensitivities to a recipe: of each group of linears the grid, and on
 * request of each layer the cache, that together lose least within the budget. */
#ifndef PITH_CHOOSE_AUTO_ASSIGN_H
#define PITH_CHOOSE_AUTO_ASSIGN_H

#include "choose/sense.h"
#include "model/kv/kv.h"

enum pith_auto_bound { PITH_AUTO_BITS, PITH_AUTO_BYTES, PITH_AUTO_FIT, PITH_AUTO_MAX_KL };
struct pith_auto_wish {
    enum pith_auto_bound bound;
    double bits, most; /* a weight of the layers' linears; KL */
    uint64_t bytes;
    size_t context, users;
    char kv[PITH_KV_TEXT]; /* "auto": chosen with the weights */
    char text[64];         /* as it was given */
    const char *base;      /* the named recipe that what is found starts from */
};
/* Whether weights and caches compete for the same bytes. */
bool pith_auto_takes_caches(const struct pith_auto_wish *w);

/* Writes the recipe (choose/auto.h says what is in it) to the file `path`. The job has its layout;
 * PITH_LIMIT when even the smallest grids need more. */
enum pith_status pith_auto_choose(const struct pith_job *job, const struct pith_sense *sense,
                                  const struct pith_auto_wish *w, const char *path,
                                  struct pith_error *err);

#endif
