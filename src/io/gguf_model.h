/* io/gguf_model.h: a GGUF file seen as a Hugging Face checkpoint: a config, and tensors under the
 * names that Hugging Face gives them. A matrix of blocks is shown as MODULE.TYPE
 * ("model.layers.0.mlp.up_proj.Q8_0"), U8 [rows][bytes a row]; the container gguf reads it. What
 * the file keeps elsewhere (rope_freqs.weight) is in the config.
 *
 * Sources: llama.cpp gguf-py/gguf/constants.py and tensor_mapping.py (names), conversion/base.py
 * and conversion/llama.py (what keys mean, turned rows, rope_freqs). */
#ifndef PITH_IO_GGUF_MODEL_H
#define PITH_IO_GGUF_MODEL_H

#include "io/checkpoint.h"

/* A tensor's name in a layer, here and there. */
struct pith_gguf_pair;

/* One architecture of llama.cpp that is one of Hugging Face's. */
struct pith_gguf_arch {
    const char *name; /* "llama", in general.architecture and before the dot of its keys */
    const char *hf;   /* "LlamaForCausalLM" */
    const char *model_type;
    bool turned; /* rows of q and k are turned (struct pith_tensor) */
    /* Of a mixture: what config.json calls the number of its experts, and the width of one; NULL:
     * it is none. llama.cpp divides the weights of those that a token takes by their sum, or not.
     */
    const char *experts, *expert_width;
    bool renormalised;
    bool all_sparse;                   /* no layer may do without experts */
    const struct pith_gguf_pair *pair; /* names of its own; NULL: none */
    size_t pairs;
};
/* What a model of that Hugging Face name is to llama.cpp; NULL when unknown. */
const struct pith_gguf_arch *pith_gguf_arch_of(const char *hf);

/* Which heads a tensor's rows belong to. */
enum pith_gguf_heads { PITH_GGUF_NO_HEADS, PITH_GGUF_Q_HEADS, PITH_GGUF_K_HEADS };

#define PITH_GGUF_NO_EXPERT UINT32_MAX
/* How a tensor lies in the file. */
struct pith_gguf_place {
    enum pith_gguf_heads heads;
    bool stacked;    /* all experts' in one, of one dimension more */
    uint32_t expert; /* which of these, else PITH_GGUF_NO_EXPERT */
    bool flat;       /* a matrix of one row is a vector there */
    bool exact;      /* what llama.cpp wants in F32: routers */
};

enum { PITH_GGUF_NAME = 64 }; /* bytes of the longest name, with its NUL */
/* "blk.0.attn_q.weight" for "model.layers.0.self_attn.q_proj.weight": the module's name is
 * replaced, what follows the last dot becomes `ending`. False for a tensor that GGUF has no name
 * for in that architecture (NULL: what all have in common). */
bool pith_gguf_name(const struct pith_gguf_arch *arch, const char *hf, const char *ending,
                    char out[PITH_GGUF_NAME], struct pith_gguf_place *place);
/* The reverse, as written by pith_gguf_name() with the ending left out: the module, of expert
 * `expert` where the tensor is stacked. */
bool pith_gguf_module(const struct pith_gguf_arch *arch, const char *name, uint32_t expert,
                      char *out, size_t size, struct pith_gguf_place *place);

/* *file receives the path of the GGUF file that a model's path means: the file itself, or the only
 * one of a folder without config.json; pith_free() it. NULL when it means none. */
enum pith_status pith_gguf_at(const char *path, char **file, struct pith_error *err);

/* Opens a GGUF file as a checkpoint. PITH_UNSUPPORTED for an architecture, tensor or feature that
 * cannot be shown this way. */
enum pith_status pith_gguf_checkpoint(const char *path, struct pith_checkpoint **out,
                                      struct pith_error *err);

/* The config alone; *out is a new reference. `quantized`: some matrix is of blocks. */
enum pith_status pith_gguf_config(const struct pith_gguf *g, const struct pith_gguf_arch *arch,
                                  bool quantized, json_t **out, struct pith_error *err);
/* The architecture that the file names. */
enum pith_status pith_gguf_arch_read(const struct pith_gguf *g, const struct pith_gguf_arch **out,
                                     struct pith_error *err);

/* What llama.cpp divides the frequency of each pair of channels by, for models scaled as Llama 3.1
 * is: count values (conversion/llama.py, generate_extra_tensors()). */
struct pith_llama3_rope {
    double theta, factor, low, high;
    uint64_t original;
};
void pith_gguf_rope_factors(const struct pith_llama3_rope *rope, uint32_t count, float *out);

#endif
