/* model/rope.h: rotary position embedding (Su et al. 2021): its parameters in config.json and
 * its angles. */
#ifndef PITH_MODEL_ROPE_H
#define PITH_MODEL_ROPE_H

#include "model/config/config.h"
#include "model/config/shape.h"

/* Reads "rope_scaling" or "rope_parameters" (the first that says something) with "rope_type" or
 * "type", and "rope_theta" there or at the top; rope->theta on entry is what it is where neither
 * does, 0: 10000. Where these are objects by kind of layer, that of `kind` counts. PITH_UNSUPPORTED
 * for another type, and for parameters by kind of layer when `kind` is NULL; PITH_FORMAT for values
 * that make no sense. */
enum pith_status pith_rope_read(const struct pith_config *c, const char *kind, int64_t max_position,
                                struct pith_rope *rope, struct pith_error *err);
/* A number among these parameters, wherever they stand; unchanged where it is missing or null. */
enum pith_status pith_rope_real(const struct pith_config *c, const char *key, double *value,
                                struct pith_error *err);
/* Whether there are parameters for layers of that kind alone. */
bool pith_rope_has_kind(const struct pith_config *c, const char *kind);

/* cos and sin [n][half] of positions start..start+n-1, times factor. The angle is rounded to
 * float32, as in the reference implementation. */
void pith_rope_table(const double *inv_freq, size_t half, double factor, size_t start, size_t n,
                     float *cos_out, float *sin_out);

/* What pith_rope_part() of backend/layer.h does to one head, the other way round: elements of x in
 * pairs as described there, by the cos and sin [dim / 2] of its position, then times `back`: 1 for
 * the transpose of a rotation, 1 / factor^2 for its inverse. */
void pith_rope_back(size_t dim, bool adjacent, const float *cos, const float *sin, float back,
                    float *x);

#endif
