"""The grids of GGUF's IQ types, from the gguf package, as src/num/gguf/iq_grids.c.

Each grid is a set of vectors in ascending order, the last element counting most, so that a vector is a number
whose digits say which of a type's levels each element has: 2 bits a digit for vectors of eight, 3 bits for
those of four. Needs the gguf package and numpy.
"""
import os

import numpy as np
from gguf import quants

GRIDS = [("iq1", "IQ1_S", "IQ1_S and IQ1_M: -1, 0, 1"), ("iq2_xxs", "IQ2_XXS", "IQ2_XXS: 8, 25, 43"),
         ("iq2_xs", "IQ2_XS", "IQ2_XS: 8, 25, 43"), ("iq2_s", "IQ2_S", "IQ2_S: 8, 25, 43"),
         ("iq3_xxs", "IQ3_XXS", "IQ3_XXS: 4, 12, 20, 28, 36, 44, 52, 62"), ("iq3_s", "IQ3_S", "IQ3_S: 1, 3 to 15")]


def numbers(grid):
    levels = sorted(set(grid.reshape(-1).tolist()))
    bits = 16 // grid.shape[1] if grid.shape[1] == 8 else 3
    digits = np.searchsorted(levels, grid).astype(int)
    out = [int(sum(d << bits * i for i, d in enumerate(row))) for row in digits]
    assert out == sorted(set(out)) and out[-1] < 1 << 16
    return out


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, "../../../src/num/gguf/iq_grids.c"), "w") as f:
        f.write("/* The grids of GGUF's IQ types. Written by tests/golden/num/make_iq_grids.py. */\n")
        f.write('#include "num/gguf/iq.h"\n\n/* clang-format off */\n')
        for name, kind, levels in GRIDS:
            q = getattr(quants, kind)
            q.init_grid()
            n = numbers(q.grid.reshape(q.grid_shape))
            f.write("/* %s. */\nconst uint16_t pith_%s_grid[%d] = {\n" % (levels, name, len(n)))
            for i in range(0, len(n), 12):
                f.write("    " + " ".join("%d," % x for x in n[i:i + 12]) + "\n")
            f.write("};\n")
        f.write("/* clang-format on */\n")


main()
