#include "quant/tables.h"

#include "base/mem.h"
#include "base/names.h"

#include <string.h>

static const struct pith_transform *const transforms[] = {
#define PITH_TRANSFORM(row) &row,
#include "quant/transforms.def"
#undef PITH_TRANSFORM
};

static const struct pith_split *const splits[] = {
#define PITH_SPLIT(row) &row,
#include "quant/splits.def"
#undef PITH_SPLIT
};

static const struct pith_gridder *const gridders[] = {
#define PITH_GRIDDER(row) &row,
#include "quant/grids.def"
#undef PITH_GRIDDER
};

static const struct pith_rounder *const rounders[] = {
#define PITH_ROUNDER(row) &row,
#include "quant/rounders.def"
#undef PITH_ROUNDER
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

const struct pith_rounder *const *pith_rounders(size_t *count)
{
    *count = PITH_COUNT(rounders);
    return rounders;
}

const struct pith_rounder *pith_rounder_find(const char *name)
{
    for (size_t i = 0; i < PITH_COUNT(rounders); i++)
        if (pith_name_equal(rounders[i]->name, name)) return rounders[i];
    return NULL;
}
