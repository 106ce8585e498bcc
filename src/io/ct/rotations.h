/* io/ct/rotations.h: "transform_config" of compressed-tensors: rotations. Those of weights are
 * folded in already and need nothing; those of inputs are done by the reader. What is read and
 * written of the latter is type "hadamard", Sylvester's matrix over sqrt(size) in blocks of
 * head_dim, stored as a matrix of +1 and -1 next to the weights: <module>.<group>_input.weight.
 * Modules share one, and a writer may leave the copies out. Inside io/ only.
 *
 * Sources: compressed-tensors transform/transform_scheme.py, transform_args.py,
 * factory/hadamard.py, utils/matrix.py; vLLM compressed_tensors/transform/module.py. */
#ifndef PITH_IO_CT_ROTATIONS_H
#define PITH_IO_CT_ROTATIONS_H

#include "io/container/container.h"
#include "io/container/module_match.h"
#include "io/parts.h"

/* One online rotation of inputs. */
struct pith_ct_rotation {
    const char *group; /* its name, borrowed */
    struct pith_patterns targets, ignore;
    uint32_t block; /* 0: the whole input */
};
struct pith_ct_rotations {
    struct pith_ct_rotation *item;
    size_t count;
};

/* Reads "transform_config", which may be missing; it must outlive *out. PITH_UNSUPPORTED for
 * rotations at run time of other kinds or places. On failure *out owns nothing. */
enum pith_status pith_ct_rotations_read(const json_t *config, const char *where,
                                        struct pith_ct_rotations *out, struct pith_error *err);
void pith_ct_rotations_free(struct pith_ct_rotations *rotations);
/* The width of the blocks in which the input of a module of `cols` columns is rotated; 0: it is
 * not. A matrix that the checkpoint holds must be Sylvester's. */
enum pith_status pith_ct_rotations_find(const struct pith_ct_rotations *rotations,
                                        const struct pith_checkpoint *c, const char *module,
                                        uint32_t cols, uint32_t *block, struct pith_error *err);

/* The same as far as the config goes: UINT32_MAX for a rotation of the whole input. *block stays
 * as it is when there is none. */
enum pith_status pith_ct_rotations_claim(const struct pith_ct_rotations *rotations,
                                         const char *module, uint32_t *block,
                                         struct pith_error *err);

/* The object for these linears: a new reference, NULL when memory is out. */
json_t *pith_ct_rotations_make(const struct pith_linear_grid *linears, size_t count,
                               enum pith_dtype model_dtype);
/* Adds the matrix of a block to the tensors of a linear, and fills it; nothing for 0. */
void pith_ct_rotation_shape(uint32_t block, enum pith_dtype model_dtype,
                            struct pith_packed_set *out);
enum pith_status pith_ct_rotation_fill(uint32_t block, const struct pith_packed_set *set,
                                       struct pith_error *err);

#endif
