/* quant/grid/trellis.c: grids that only a whole matrix is put on, by quant/round/trellis.c. */
#include "num/trellis.h"
#include "quant/tables.h"

static bool takes(const struct pith_grid *grid)
{
    return pith_trellis_is(grid->format) && grid->granularity == PITH_PER_CHANNEL;
}

const struct pith_gridder pith_gridder_trellis = {
    .name = "trellis",
    .summary = "walks through a trellis between two Hadamard matrices: trellis1 to trellis8",
    .takes = takes,
    .whole = true,
};
