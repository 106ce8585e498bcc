/* plan/refine.h: an assignment (plan/assign.h) made better by measuring assignments whole: what
 * parts lose alone does not quite add up, and is measured with noise. Nothing is known here of what
 * the parts are. */
#ifndef PITH_PLAN_REFINE_H
#define PITH_PLAN_REFINE_H

#include "plan/assign.h"

struct pith_refine {
    const struct pith_assign *assign; /* of a part at least; what options cost and lose alone */
    const size_t *start; /* [starts][parts]: to be measured as well as that of the least sum, except
                            those that cost more than the budget and, after one of them, those that
                            are expected to lose half again as much as the best so far */
    size_t starts;
    size_t most; /* assignments that are measured, at most; 0 as 1 */
    /* What the parts lose together, finite; also of assignments beyond the budget. */
    enum pith_status (*measure)(void *ctx, const size_t *chosen, double *loss,
                                struct pith_error *err);
    void *ctx;
    double margin; /* the share of the best's loss that others, starts aside, have to lose less: the
                      least of many measurements is in part the luckiest */
};

struct pith_refined {
    uint64_t cost;
    double sum;   /* what the chosen options lose alone, added up */
    double loss;  /* measured */
    double first; /* measured of the assignment of the least sum */
    double start; /* the least measured of the starts; infinite: of none */
    size_t measured;
};
/* chosen[parts] receives, of all measured assignments within the budget, that of the least measured
 * loss, the margin aside: never more than the assignment of the least sum, nor any start that was
 * measured. Each measurement corrects what the options are expected to lose, those that differ from
 * the best so far by their share, then the assignment that is now expected to lose least is
 * measured; where that is known already, the one change of the best that may be worth most, beyond
 * the budget too. Ends when no change may be worth the margin. Deterministic where measure() is.
 * Errors of pith_assign() and of measure(), PITH_NOMEM. */
enum pith_status pith_refine(const struct pith_refine *r, size_t *chosen, struct pith_refined *out,
                             struct pith_error *err);

#endif
