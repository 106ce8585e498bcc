#include "kern/ops.h"

const struct pith_kernel pith_kernels[] = {
#define PITH_KERNEL(op, isa, fn, rows, cols)                                                       \
    {PITH_OP_##op, isa, #op, #fn, (pith_any_fn *)fn, rows, cols},
#include "kern/kernels.def"
#undef PITH_KERNEL
};

const size_t pith_kernel_count = sizeof pith_kernels / sizeof pith_kernels[0];

static void set_tile(struct pith_kern *k, size_t rows, size_t cols)
{
    if (rows == 0) return;
    k->tile_rows = rows;
    k->tile_cols = cols;
}

void pith_kern_select(uint32_t mask, struct pith_kern *out)
{
#define PITH_KERNEL(op_, isa, fn, rows, cols)                                                      \
    if ((mask & (uint32_t)(isa)) == (uint32_t)(isa)) {                                             \
        out->op_ = fn;                                                                             \
        set_tile(out, rows, cols);                                                                 \
    }
#include "kern/kernels.def"
#undef PITH_KERNEL
}
