/* model/same_model.h: whether two models are the same function but for the values of their weights.
 */
#ifndef PITH_MODEL_SAME_MODEL_H
#define PITH_MODEL_SAME_MODEL_H

#include "model/model.h"

/* Called for each difference; `what` is the name in config.json, or words. */
typedef void pith_difference_fn(void *ctx, const char *what, const char *a, const char *b);

/* Whether these two architectures are one, or cannot be distinguished in the checkpoint: a GGUF
 * file does not say whether it is of Mistral or of Llama. */
bool pith_arch_alike(const struct pith_checkpoint *c, const char *a, const char *b);

/* Compares all that a forward pass reads from the configs: sizes, epsilon, rotary frequencies with
 * their scaling, sliding window, which biases and norms there are. A GGUF file states less: no
 * window (then its context is the window's length, where the model is the same), and not which of
 * several architectures of the same shape it is. Whether the head is the embedding shows in the
 * tensors, which are compared elsewhere. Returns false when a tensor's shape differs. */
bool pith_model_same(const struct pith_model *a, const struct pith_model *b, pith_difference_fn *fn,
                     void *ctx);

#endif
