/* quant/tables.h: the rows of the tables of stages, so that a row's type is checked where it is
 * defined. Only those that define or list them include this. */
#ifndef PITH_QUANT_TABLES_H
#define PITH_QUANT_TABLES_H

#include "quant/round.h"
#include "quant/scale.h"
#include "quant/split.h"
#include "quant/transform.h"

/* Listed in quant/tables.c, in this order. */
extern const struct pith_transform pith_transform_none, pith_transform_awq, pith_transform_rotate,
    pith_transform_smooth, pith_transform_smoothrot;
extern const struct pith_split pith_split_none, pith_split_two_four_magnitude,
    pith_split_two_four_wanda, pith_split_two_four, pith_split_sparse, pith_split_columns;
extern const struct pith_gridder pith_gridder_integer, pith_gridder_hqq, pith_gridder_float,
    pith_gridder_fixed, pith_gridder_mx, pith_gridder_nvfp4, pith_gridder_codebook,
    pith_gridder_kquant, pith_gridder_trellis;
/* Of which quant/rounders.c makes rounders. */
extern const struct pith_rounding pith_round_by_nearest, pith_round_by_sweep,
    pith_round_by_learning;

#endif
