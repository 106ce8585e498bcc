#include "kern/amx/shapes.h"

void pith_tiles_open_amx(size_t words)
{
    amx_open(words);
}

void pith_tiles_close_amx(void)
{
    _tile_release();
}
