/* quant/tables.c: the tables of transforms, splits and gridders. */
#include "quant/tables.h"

#include "base/mem.h"
#include "base/names.h"

#include <string.h>

static const struct pith_transform *const transforms[] = {
    &pith_transform_none,   &pith_transform_awq,       &pith_transform_rotate,
    &pith_transform_smooth, &pith_transform_smoothrot,
};

/* A name that goes on after a colon stands before the shorter one. */
static const struct pith_split *const splits[] = {
    &pith_split_none,           &pith_split_two_four_magnitude,
    &pith_split_two_four_wanda, &pith_split_two_four,
    &pith_split_sparse,         &pith_split_columns,
};

static const struct pith_gridder *const gridders[] = {
    &pith_gridder_integer,  &pith_gridder_hqq,    &pith_gridder_float,
    &pith_gridder_fixed,    &pith_gridder_mx,     &pith_gridder_nvfp4,
    &pith_gridder_codebook, &pith_gridder_kquant, &pith_gridder_trellis,
};

const struct pith_transform *const *pith_transforms(size_t *count)
{
    *count = PITH_COUNT(transforms);
    return transforms;
}

const struct pith_transform *pith_transform_find(const char *name)
{
    for (size_t i = 0; i < PITH_COUNT(transforms); i++)
        if (pith_name_equal(transforms[i]->name, name)) return transforms[i];
    return NULL;
}

const struct pith_split *const *pith_splits(size_t *count)
{
    *count = PITH_COUNT(splits);
    return splits;
}

const struct pith_split *pith_split_find(const char *name)
{
    for (size_t i = 0; i < PITH_COUNT(splits); i++)
        if (pith_name_equal(splits[i]->name, name)) return splits[i];
    return NULL;
}

const struct pith_gridder *const *pith_gridders(size_t *count)
{
    *count = PITH_COUNT(gridders);
    return gridders;
}

const struct pith_gridder *pith_gridder_for(const struct pith_grid *grid)
{
    if (!grid->format || grid->granularity == PITH_PER_TOKEN || grid->is_static) return NULL;
    for (size_t i = 0; i < PITH_COUNT(gridders); i++)
        if (gridders[i]->takes(grid)) return gridders[i];
    return NULL;
}
