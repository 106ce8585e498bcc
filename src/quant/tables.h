/* quant/tables.h: declares every row of the four stage tables, so that a member's type is
 * checked where it is defined. Only members and quant/tables.c include this. */
#ifndef PITH_QUANT_TABLES_H
#define PITH_QUANT_TABLES_H

#include "quant/round.h"
#include "quant/scale.h"
#include "quant/split.h"
#include "quant/transform.h"

#define PITH_TRANSFORM(row) extern const struct pith_transform row;
#include "quant/transforms.def"
#undef PITH_TRANSFORM

#define PITH_SPLIT(row) extern const struct pith_split row;
#include "quant/splits.def"
#undef PITH_SPLIT

#define PITH_GRIDDER(row) extern const struct pith_gridder row;
#include "quant/grids.def"
#undef PITH_GRIDDER

#define PITH_ROUNDER(row) extern const struct pith_rounder row;
#include "quant/rounders.def"
#undef PITH_ROUNDER

#endif
