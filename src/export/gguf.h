/* export/gguf.h: a GGUF file that llama.cpp runs: its keys (what the model is, and its tokenizer)
 * and how its tensors are named and typed.
 *
 * Sources: llama.cpp gguf-py/gguf/constants.py (keys), conversion/base.py and conversion/llama.py
 * (what they hold), src/llama-vocab.cpp (what is read of a tokenizer). */
#ifndef PITH_EXPORT_GGUF_H
#define PITH_EXPORT_GGUF_H

#include "io/gguf/gguf.h"
#include "io/gguf/model.h"
#include "model/model.h"

/* llama.cpp's name of a module's matrix, and what becomes of it there; false when it has none. */
bool pith_gguf_module_name(const struct pith_model *m, const char *module,
                           char name[PITH_GGUF_NAME], struct pith_gguf_place *place);

/* The dtype that a tensor of the model is stored in: vectors and routers are F32 there. */
enum pith_dtype pith_gguf_stored_dtype(const struct pith_model *m, const struct pith_tensor *t);

/* Whether a linear has no quantized form there: what latents expand by, since llama.cpp has the
 * part of the keys transposed. */
bool pith_gguf_keeps(const struct pith_model *m, const char *module);

/* How many of a linear's columns lie side by side there: llama.cpp has heads of the delta rule's
 * values in another order. */
uint32_t pith_gguf_side_by_side(const struct pith_model *m, const char *module, uint32_t cols);

/* Finishes a layout, whose tensors have the names of struct pith_checkpoint's view of such files,
 * as one GGUF file. `source` is the model's folder or file; file_type is what its keys say of the
 * types, 0: what most of its weights are. PITH_UNSUPPORTED for an architecture,
 * a tensor or a tokenizer that llama.cpp has no name for. */
enum pith_status pith_gguf_finish(const struct pith_model *m, const char *source, const char *file,
                                  uint32_t file_type, struct pith_layout *l,
                                  struct pith_error *err);

/* The grid that llama.cpp's quantizer gives the embedding or, with `reads_out`, what the logits are
 * computed from (the head, or an embedding that is both), of a model whose linears are mostly on
 * `linears`: Q6_K or better for the latter, the linears' own for the former (src/llama-quant.cpp,
 * llama_tensor_get_type_impl). Untouched when there is none for these columns. Returns the type
 * that it stands in for where such rows are no whole blocks of it, else NULL. */
const struct pith_format *pith_gguf_end_grid(const struct pith_grid *linears, bool reads_out,
                                             uint32_t cols, struct pith_grid *out);

/* Appends the tokenizer of `source` (a folder, or the GGUF file g): as many tokens as the model has
 * rows of embedding. */
enum pith_status pith_gguf_put_tokenizer(const char *source, const struct pith_gguf *g,
                                         uint32_t vocab, struct pith_gguf_keys *keys,
                                         struct pith_error *err);

#endif
