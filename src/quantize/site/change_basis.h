/* quantize/site/change_basis.h: which of a model's tensors a change of basis (quant/basis.h)
 * changes, and how. With R the stream's rotation, P a head's, D that of an input, and g a norm's
 * gain:
 *
 *     embedding   rows R e              norms     1: their gains go into what reads them
 *     q, k        W diag(g) R^T         v         P W diag(g) R^T, bias P b
 *     gate, up    W diag(g) R^T         o         R W P^T, bias R b; or R W D^T, and D x online
 *     head        W diag(g) R^T         down      R W D^T, bias R b, and D x online
 *
 * A mean square does not change under R, so a norm without gain gives the rotated vector. A head
 * tied to the embedding gets a separate tensor. (QuaRot; P stands once for each value head.) */
#ifndef PITH_QUANTIZE_SITE_CHANGE_BASIS_H
#define PITH_QUANTIZE_SITE_CHANGE_BASIS_H

#include "model/model.h"
#include "quant/basis.h"

struct pith_basis_change {
    const struct pith_basis *basis;
    const struct pith_model *model; /* the input, not quantized */
    struct pith_backend *backend;
};

/* One linear's matrix in the new basis, owned float32. With `online` the input of o and down is
 * rotated too. */
enum pith_status pith_rotated_linear(const struct pith_basis_change *t, uint32_t layer,
                                     uint32_t linear, bool online, float **w,
                                     struct pith_error *err);
/* A whole block that was loaded as floats, in place, but for matrices that are not there; online:
 * where a linear's `hadamard` says so. */
enum pith_status pith_rotate_block(const struct pith_basis_change *t, struct pith_block *b,
                                   struct pith_error *err);
/* Whether a linear's matrix, its bias, a layer's vector change. */
bool pith_rotates_weight(const struct pith_basis *b, const struct pith_layer_plan *l,
                         uint32_t linear, bool online);
bool pith_rotates_bias(const struct pith_basis *b, const struct pith_layer_plan *l,
                       uint32_t linear);
bool pith_rotates_vector(const struct pith_basis *b, const struct pith_layer_plan *l,
                         uint32_t vector);
/* The rotation that a linear's input can be multiplied by online. */
const struct pith_rotation *pith_online_rotation(const struct pith_basis *b,
                                                 const struct pith_layer_plan *l, uint32_t linear);
/* The rotation by which a linear's outputs are stored; dim 0: as they are. */
const struct pith_rotation *pith_output_rotation(const struct pith_basis *b,
                                                 const struct pith_layer_plan *l, uint32_t linear);
/* Rows [first, first + n) of the embedding or, with `head`, of the head. */
enum pith_status pith_rotated_rows(const struct pith_basis_change *t, bool head, uint32_t first,
                                   uint32_t n, float *out, struct pith_error *err);
/* The same by the calling thread alone, so also from inside a task. */
enum pith_status pith_rotated_rows_alone(const struct pith_basis_change *t, bool head,
                                         uint32_t first, uint32_t n, float *out,
                                         struct pith_error *err);
/* How far w is from the embedding or the head, as pith_relative_error() would have it. */
enum pith_status pith_rotated_end_error(const struct pith_basis_change *t, bool head,
                                        const struct pith_weight *w, double *error,
                                        struct pith_error *err);
/* The stream itself: x[n][hidden] in place. */
enum pith_status pith_rotate_stream(const struct pith_basis_change *t, float *x, size_t n,
                                    struct pith_error *err);
/* Any tensor of a layer that changes, by its name in the checkpoint: owned float32. PITH_ARG for a
 * name that is none. */
enum pith_status pith_rotated_tensor(const struct pith_basis_change *t, const char *name,
                                     bool online, float **values, struct pith_error *err);
/* The widths of what can be rotated, and whether the stream is fixed; blocks and the seed are 0.
 * The width of what linears like down read divides that of each of them, which may differ where
 * there are experts. */
struct pith_basis_plan pith_basis_widths(const struct pith_model *m);
/* Why a model's stream cannot be rotated, NULL when it can. */
const char *pith_stream_fixed(const struct pith_model *m);
/* PITH_UNSUPPORTED, with the reason, for a model whose stream b would rotate and that would be
 * another then: by the plan, a norm that is no plain root mean square with a gain, a linear without
 * a norm before it, something added that is no linear's result. */
enum pith_status pith_rotate_check(const struct pith_basis *b, const struct pith_model *m,
                                   struct pith_error *err);
/* Bytes of scratch that any of these takes in addition to its result. */
uint64_t pith_rotate_scratch(const struct pith_basis *b, unsigned threads);

#endif
