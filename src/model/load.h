/* model/load.h: getting weights out of a checkpoint; inside model/ only. */
#ifndef PITH_MODEL_LOAD_H
#define PITH_MODEL_LOAD_H

#include "model/model.h"

/* Longest tensor name that the architectures make, with room. */
#define PITH_TENSOR_NAME 192

/* Fails unless the checkpoint's tensors are those that arch and shape need: none missing, none
 * of another shape, none unknown. May clear shape->tied (see pith_model_open). */
enum pith_status pith_model_check_tensors(struct pith_model *m, struct pith_error *err);

/* Takes trainers' wrappers out of the names of tensors. Where the embedding is not called as the
 * architecture has it then, finds the language model by its parts' last names, and calls its
 * tensors as the architecture does. What is not found stays as it is, to be missed later. */
enum pith_status pith_names_settle(struct pith_checkpoint *c, const struct pith_arch_names *names,
                                   struct pith_error *err);

/* Where filters lie as mlx-lm stores them, [rows][length][1], shows them as they are known here;
 * the gains of such a model hold the 1 that is added to others, and LFM2's dense linears have other
 * names. Before anything else is shown. */
enum pith_status pith_model_show_filters(struct pith_model *m, struct pith_error *err);

/* Where the checkpoint holds experts' matrices together (plan.h's fused tensors, or mlx-lm's of one
 * linear of all experts), shows them as the linears' own. */
enum pith_status pith_model_unfuse(struct pith_model *m, struct pith_error *err);

/* Matrix `module`.weight (rows x cols), quantized or dense (with PITH_LOAD_SHARED none), and its
 * bias. On failure *out owns nothing. */
enum pith_status pith_linear_load(const struct pith_model *m, const char *module, uint32_t rows,
                                  uint32_t cols, bool bias, enum pith_load how,
                                  struct pith_linear_weights *out, struct pith_error *err);
/* Frees what w owns and zeroes it. */
void pith_linear_free(struct pith_linear_weights *w);

/* The tables of per-layer vectors (m->per_layer), by shape and names. The model frees what is
 * loaded, also after a failure. */
enum pith_status pith_per_layer_load(struct pith_model *m, struct pith_error *err);
/* Frees what t owns and zeroes it. */
void pith_per_layer_free(struct pith_per_layer *t);

/* Vector `name` as owned float32 (pith_free() it), with what is to be added to it. The spec's name
 * does not count. */
enum pith_status pith_vector_load(const struct pith_model *m, const char *name,
                                  const struct pith_vector_spec *spec, float **out,
                                  struct pith_error *err);

/* Room for what latent attention multiplies with, made by the first pass that needs it; NULL in
 * *out for another layer. `changes` as in struct pith_absorbed. pith_free() it. */
enum pith_status pith_absorbed_make(const struct pith_layer_plan *l, bool changes,
                                    struct pith_absorbed **out, struct pith_error *err);
uint64_t pith_absorbed_bytes(const struct pith_layer_plan *l);

#endif
