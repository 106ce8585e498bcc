#include "kern/ops.h"

const struct pith_kernel pith_kernels[] = {
#define PITH_KERNEL(op, isa, fn, rows, cols)                                                       \
    {PITH_OP_##op, isa, #op, #fn, (pith_any_fn *)fn, rows, cols},
#include "kern/kernels.def"
#undef PITH_KERNEL
};

const size_t pith_kernel_count = sizeof pith_kernels / sizeof pith_kernels[0];

static void set_tile(struct pith_kern *k, enum pith_op op, size_t rows, size_t cols)
{
    if (op == PITH_OP_gemm_tile) {
        k->tile_rows = rows;
        k->tile_cols = cols;
    } else if (op == PITH_OP_bf16_tile) {
        k->bf16_rows = rows;
        k->bf16_cols = cols;
    } else if (op == PITH_OP_bytes_tile) {
        k->bytes_rows = rows;
        k->bytes_cols = cols;
    } else if (op == PITH_OP_digits_tile) {
        k->digits_rows = rows;
        k->digits_cols = cols;
    }
}

void pith_kern_select(uint32_t mask, struct pith_kern *out)
{
#define PITH_KERNEL(op_, isa, fn, rows, cols)                                                      \
    if ((mask & (uint32_t)(isa)) == (uint32_t)(isa)) {                                             \
        out->op_ = fn;                                                                             \
        set_tile(out, PITH_OP_##op_, rows, cols);                                                  \
    }
#include "kern/kernels.def"
#undef PITH_KERNEL
}
