#include "export/groups.h"

#include "base/mem.h"

#include <string.h>

static const uint32_t sizes[] = {128, 64, 32};
enum { OWN = 1 << 8 };

bool pith_groups_vary(const struct pith_grid *g)
{
    return g->format && g->granularity == PITH_PER_GROUP && g->format->block <= 1;
}

/* An engine that has a rule for the container, and none that wants one grid for all. */
static bool mixes(const struct pith_target_engine *e, const char *container, bool *known)
{
    bool mixed = true;
    *known = false;
    for (size_t i = 0; i < e->count; i++) {
        if (strcmp(e->rules[i].container, container) != 0) continue;
        *known = true;
        mixed &= e->rules[i].mixed;
    }
    return *known && mixed;
}

bool pith_groups_mix(const struct pith_group_rule *r)
{
    size_t engines;
    bool known, any = false, all = true;
    const struct pith_target_engine *const *engine = pith_engines(&engines);
    for (size_t i = 0; i < r->count; i++) {
        struct pith_target t;
        if (pith_target_parse(r->targets[i], &t, NULL) != PITH_OK) continue;
        const bool mixed = mixes(t.engine, r->container->name, &known);
        all &= mixed || !known;
    }
    for (size_t i = 0; i < engines; i++) any |= mixes(engine[i], r->container->name, &known);
    return any && all;
}

void pith_group_fit_begin(struct pith_group_fit *f, const struct pith_grid *grid)
{
    *f = (struct pith_group_fit){.grid = *grid, .sizes = OWN};
    for (unsigned i = 0; i < PITH_COUNT(sizes); i++)
        if (sizes[i] < grid->group) f->sizes |= 1u << i;
}

/* Whether groups of that size divide a row, and what each rank has of it. */
static bool divides(const struct pith_group_rule *r, const struct pith_linear_spec *l,
                    uint32_t size)
{
    if (l->cols % size) return false;
    for (size_t i = 0; i < r->count && l->by_cols && !l->whole && !l->stays; i++) {
        struct pith_target t;
        if (pith_target_parse(r->targets[i], &t, NULL) != PITH_OK) continue;
        if (l->cols % t.tp == 0 && l->cols / t.tp % size) return false;
    }
    return true;
}

static bool suits(const struct pith_group_rule *r, const struct pith_linear_spec *l,
                  const struct pith_grid *grid, uint32_t size)
{
    struct pith_grid g = *grid;
    struct pith_error ignored = {0};
    g.group = size;
    if (!divides(r, l, size)) return false;
    return size == grid->group ||
           r->container->accepts(&g, l->rows, l->cols, r->opts, &ignored) == PITH_OK;
}

void pith_group_fit_add(const struct pith_group_rule *r, struct pith_group_fit *f,
                        const struct pith_linear_spec *l)
{
    if ((f->sizes & OWN) && !suits(r, l, &f->grid, f->grid.group)) f->sizes &= ~(unsigned)OWN;
    for (unsigned i = 0; i < PITH_COUNT(sizes); i++)
        if ((f->sizes >> i & 1) && !suits(r, l, &f->grid, sizes[i])) f->sizes &= ~(1u << i);
}

uint32_t pith_group_fit_end(const struct pith_group_fit *f)
{
    if (f->sizes & OWN) return f->grid.group;
    for (unsigned i = 0; i < PITH_COUNT(sizes); i++)
        if (f->sizes >> i & 1) return sizes[i];
    return f->grid.group;
}

uint32_t pith_group_size(const struct pith_group_rule *r, const struct pith_grid *grid,
                         const struct pith_layer_plan *l, uint32_t linear)
{
    struct pith_group_fit f;
    pith_group_fit_begin(&f, grid);
    if (l->linear[linear].expert == PITH_NO_PART) pith_group_fit_add(r, &f, &l->linear[linear]);
    else /* all are like the first */
        for (uint32_t i = 0; i < l->linears; i++)
            if (l->linear[i].expert == 0) pith_group_fit_add(r, &f, &l->linear[i]);
    return pith_group_fit_end(&f);
}

uint32_t pith_group_common(const struct pith_group_rule *r, const struct pith_grid *grid)
{
    struct pith_group_fit f;
    pith_group_fit_begin(&f, grid);
    for (uint32_t i = 0; i < r->plans->layers; i++) {
        const struct pith_layer_plan *l = pith_plan(r->plans, i);
        for (uint32_t k = 0; k < l->linears; k++) /* experts are like the first */
            if (!l->linear[k].stays &&
                (l->linear[k].expert == PITH_NO_PART || l->linear[k].expert == 0))
                pith_group_fit_add(r, &f, &l->linear[k]);
    }
    return pith_group_fit_end(&f);
}
