/* model/fused.h: tensors that stand for the matrices, or the biases, of several linears
 * (struct pith_fused_spec). */
#ifndef PITH_MODEL_FUSED_H
#define PITH_MODEL_FUSED_H

#include "model/model.h"

/* One of numbers, no codes. */
struct pith_fused_whole {
    char name[PITH_PART_NAME + 160];
    struct pith_fused_spec spec; /* `transposed` as the tensor has it */
    bool bias;
    const struct pith_tensor *stored; /* the checkpoint's, or NULL */
    unsigned dims;
    uint64_t shape[4];
};

/* What spec `fused` of a layer is called and how it lies, as the checkpoint has it or would; false
 * where it stands for no biases, or for one matrix alone. */
bool pith_fused_whole(const struct pith_model *m, uint32_t layer, uint32_t fused, bool bias,
                      struct pith_fused_whole *out);
/* The linear of a layer that part `part` of expert e is. */
static inline uint32_t pith_fused_linear(const struct pith_fused_spec *spec, uint32_t e,
                                         uint32_t part)
{
    return spec->first + e * spec->each + part;
}
/* Where a part lies within its expert's elements, which follow each other: its element (r, c) is
 * number first + r * row_step + c * col_step. */
struct pith_fused_place {
    uint64_t first, row_step, col_step;
};
struct pith_fused_place pith_fused_place(const struct pith_fused_whole *w,
                                         const struct pith_linear_spec *l, uint32_t part);

#endif
