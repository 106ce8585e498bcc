/* plan/assign.h: what each of many parts shall be, when better costs more and there is a budget:
 * the multiple-choice knapsack. Nothing is known here of what the parts are. */
#ifndef PITH_PLAN_ASSIGN_H
#define PITH_PLAN_ASSIGN_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pith_assign_option {
    uint64_t cost;
    double loss; /* finite; losses of the parts add up */
};
struct pith_assign_part {
    const struct pith_assign_option *option;
    size_t options; /* 1 to 65,535 */
};
struct pith_assign {
    const struct pith_assign_part *part;
    size_t parts;
    uint64_t budget;
    size_t cells; /* of the table, parts times steps of the budget, at most; 0: 2^25 */
};

struct pith_assigned {
    uint64_t cost;
    double loss;
    /* No choice within the budget loses less than this: the optimum where the table had a step for
     * each cost that can be reached, else the bound of Lagrange's dual. */
    double bound;
    bool exact;
};
/* chosen[parts] receives the option of each part that together lose least within the budget. Where
 * the table is too small for each cost, costs are rounded up to its steps: what is chosen still
 * fits, and loses at most what is best for a budget smaller by parts times a step. Of equals the
 * first options. PITH_LIMIT when the cheapest options cost more than the budget, PITH_ARG for a
 * part without options or with too many. */
enum pith_status pith_assign(const struct pith_assign *a, size_t *chosen, struct pith_assigned *out,
                             struct pith_error *err);
/* What a unit of cost is worth at a budget that the cheapest options fit: the price at which
 * Lagrange's dual is largest, 0 where the budget does not bind. Each part has options. */
double pith_assign_price(const struct pith_assign *a);

#endif
