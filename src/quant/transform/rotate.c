/* quant/transform/rotate.c: the model in a rotated basis, where no channel stands out (QuaRot,
 * Ashkboos et al. 2024, with the two foldable rotations as SpinQuant, Liu et al. 2024, lays them):
 * Hadamard rotations with random signs of the residual stream and of each head's values, folded
 * into the weights on both sides, and of the inputs of o and down, folded into these, whose inputs
 * are rotated online. That of o is over heads and takes the place of that within them.
 *
 * The option names a width for the blocks of all ("32", as MXFP4's blocks want it: a rotation over
 * the whole stream spreads an outlier into every block) and "folded", which leaves out the online
 * ones. */
#include "quant/tables.h"

#include "num/hadamard.h"

#include <stdlib.h>
#include <string.h>

/* An online rotation is stored as a matrix by some containers: its width is limited to this. */
enum { ONLINE = 512, FOLDED = -1 };

/* The width of blocks, 0 for whole vectors; as a negative number, less one, when folded. */
static enum pith_status option(const char *text, double *value, struct pith_error *err)
{
    char *end = NULL;
    const char *rest = text;
    long width = 0;
    if (*text >= '0' && *text <= '9') {
        width = strtol(text, &end, 10);
        if (width < 2 || width > 1 << 20 || (width & (width - 1)) != 0)
            return pith_fail(err, PITH_ARG, "rotate: blocks of %ld; a power of two is needed",
                             width);
        rest = *end == ':' ? end + 1 : end;
        if (*end == ':' && !*rest) rest = end;
    }
    const bool folded = strcmp(rest, "folded") == 0;
    if (*rest && !folded)
        return pith_fail(err, PITH_ARG,
                         "rotate: \"%.40s\" is not known; there are rotate, rotate:folded, "
                         "rotate:WIDTH and rotate:WIDTH:folded",
                         text);
    *value = folded ? (double)(FOLDED - width) : (double)width;
    return PITH_OK;
}

static uint32_t block_of(uint32_t dim, uint32_t width)
{
    return width ? pith_hadamard_power(dim, width) : pith_hadamard_divisor(dim);
}

static void basis(double value, struct pith_basis_plan *p)
{
    const bool folded = value < 0;
    const uint32_t width = (uint32_t)(folded ? FOLDED - (long)value : (long)value);
    p->stream = block_of(p->hidden, width);
    p->head = block_of(p->head_dim, width);
    p->o = folded ? 0 : pith_hadamard_power(p->attention, width ? width : ONLINE);
    if (p->o > p->head) p->head = 0;
    else p->o = 0;
    p->down = folded ? 0 : pith_hadamard_power(p->ffn, width ? width : ONLINE);
}

const struct pith_transform pith_transform_rotate = {
    .name = "rotate",
    .summary = "Hadamard rotations of the whole model, so that no channel stands out",
    .option = option,
    .basis = basis,
    .run = pith_transform_nothing,
    .scratch = pith_transform_no_scratch,
};
