/* export/groups.h: the size of a recipe's groups where its own does not divide the rows of a
 * linear: the largest of 128, 64 and 32 below it that does, in the shares of the ranks that an
 * engine cuts the linear into, and that the container holds. */
#ifndef PITH_EXPORT_GROUPS_H
#define PITH_EXPORT_GROUPS_H

#include "export/preflight.h"

struct pith_group_rule {
    const struct pith_plans *plans;
    const struct pith_container *container;
    const struct pith_container_opts *opts;
    const char *const *targets; /* [count]: "vllm:tp=2"; those that cannot be read do not count */
    size_t count;
};

/* Whether a grid has groups whose size is the recipe's choice. */
bool pith_groups_vary(const struct pith_grid *g);

/* Whether linears of one model may have several sizes: every engine that is named takes them from
 * this container, or without any the first engines that load it. Where they may not, all take the
 * size that suits all. */
bool pith_groups_mix(const struct pith_group_rule *r);

/* Which of the sizes suit all linears that were added. */
struct pith_group_fit {
    struct pith_grid grid;
    unsigned sizes; /* bits: the grid's own, 128, 64, 32 */
};
void pith_group_fit_begin(struct pith_group_fit *f, const struct pith_grid *grid);
void pith_group_fit_add(const struct pith_group_rule *r, struct pith_group_fit *f,
                        const struct pith_linear_spec *l);
/* The largest possible size; the grid's own where none is. */
uint32_t pith_group_fit_end(const struct pith_group_fit *f);

/* The size for one linear of a layer by itself; its experts, which engines hold as one, share it.
 */
uint32_t pith_group_size(const struct pith_group_rule *r, const struct pith_grid *grid,
                         const struct pith_layer_plan *l, uint32_t linear);
/* The size that suits all linears which a recipe puts on its grid. */
uint32_t pith_group_common(const struct pith_group_rule *r, const struct pith_grid *grid);

#endif
