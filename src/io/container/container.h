/* io/container/container.h: how quantized linears lie in a checkpoint's tensors. One row of
 * io/container/containers.def is one container; io/container_<name>.c knows its byte layout and
 * nothing else does.
 *
 * The order of calls when writing: accepts() for each linear, pith_container_settle() once,
 * config() and plan() (both before any work), pack() as the work goes on. Whatever runs out of one
 * container's possibilities shows before the work starts, except numbers that its dtypes cannot
 * hold. Biases are not a container's business: they stay what they were. */
#ifndef PITH_IO_CONTAINER_CONTAINER_H
#define PITH_IO_CONTAINER_CONTAINER_H

#include "io/checkpoint.h"
#include "num/grid.h"
#include "num/qmat.h"

/* What a writer knows about the whole model. */
struct pith_container_opts {
    enum pith_dtype model_dtype; /* of the model's other weights: F32, F16, BF16 */
    bool act_order_groups;       /* g_idx is stored (GPTQ desc_act with permuted groups) */
    bool gptq_v2;                /* gptq: zeros stored as they are; see pith_container_settle() */
    struct pith_grid acts;       /* of the linears' inputs; format NULL: not quantized */
    struct pith_grid kv;         /* of keys and values; format NULL: not quantized */
    float threshold;             /* LLM.int8(): 0: none */
    uint32_t hadamard;           /* online, in front of some linears: the blocks' width; 0: none */
    bool two_four;               /* of four neighbouring weights two are 0 */
    double sparse; /* percentage of weights off the grid; negative: it is not known */
};

/* One tensor ready to be stored; data is owned. */
struct pith_packed {
    const char *suffix; /* ".weight_packed"; added to the module name */
    enum pith_dtype dtype;
    unsigned dims;
    uint64_t shape[PITH_MAX_DIMS];
    void *data;
    size_t bytes;
};
#define PITH_MAX_PACKED 20
struct pith_packed_set {
    struct pith_packed item[PITH_MAX_PACKED];
    unsigned count;
};
void pith_packed_free(struct pith_packed_set *set);

/* One linear with its grid, for writing the config. */
struct pith_linear_grid {
    const char *module;    /* "model.layers.0.self_attn.q_proj" */
    struct pith_grid grid; /* format NULL: unquantized */
    uint32_t hadamard;     /* online, in front of it: the blocks' width; 0: none */
};

struct pith_container {
    const char *name;                /* "compressed-tensors", as in --container */
    const char *summary;             /* one line */
    const char *method;              /* "quant_method" in config.json */
    unsigned holds;                  /* of enum pith_qmat_part: what a matrix may have */
    const char *unloaded;            /* why no engine loads it, or NULL */
    bool online;                     /* can record that inputs are rotated (opts.hadamard) */
    enum pith_input_rule input_rule; /* of the inputs of linears that load() reads */
    /* Of the scales of keys and of values, F32 [1], within a layer's names ("self_attn.k_scale");
     * NULL: it has no place for a KV-cache format. */
    const char *kv_scale[2];
    /* NULL: a folder of safetensors files and config.json. Else the container is one GGUF file, of
     * this name where it lies in a folder; see export/file.h. */
    const char *file;
    /* PITH_UNSUPPORTED with the reason when this container cannot hold that grid for a matrix of
     * that shape, together with what opts says of the linears' inputs (before any work is done). */
    enum pith_status (*accepts)(const struct pith_grid *grid, uint32_t rows, uint32_t cols,
                                const struct pith_container_opts *opts, struct pith_error *err);
    /* The dtype that a grid's scales are stored in, so that the quantizer rounds them before
     * choosing codes. */
    enum pith_dtype (*scale_dtype)(const struct pith_grid *grid, enum pith_dtype model_dtype);
    /* NULL, or: the scale that comes back when that one (exact in scale_dtype) is stored in a way
     * that moves its last bit. What the quantizer stores went through this once. */
    float (*stated_scale)(const struct pith_grid *grid, float scale);
    /* NULL, or the same of an offset, of a matrix whose scales are of that dtype. */
    float (*stated_offset)(enum pith_dtype dtype, float scale, float offset);
    /* Shapes of the tensors that pack() will give: same items, data NULL. */
    enum pith_status (*plan)(const struct pith_grid *grid, uint32_t rows, uint32_t cols,
                             const struct pith_container_opts *opts, struct pith_packed_set *out,
                             struct pith_error *err);
    /* Packs q, whose parts it holds; on success *out owns its data (pith_packed_free). NULL, with
     * plan() and config(): the container is only read, and accepts() nothing. Called by
     * pith_container_pack(). */
    enum pith_status (*pack)(const struct pith_qmat *q, const struct pith_container_opts *opts,
                             struct pith_packed_set *out, struct pith_error *err);
    /* Options that follow from a grid that some linear has, or NULL when none do. */
    void (*settle)(const struct pith_grid *grid, struct pith_container_opts *opts);
    /* A new reference: the "quantization_config" object for a model whose linears have these grids.
     * PITH_UNSUPPORTED when the config cannot express them together. */
    enum pith_status (*config)(const struct pith_linear_grid *linears, size_t count,
                               const struct pith_container_opts *opts, json_t **out,
                               struct pith_error *err);
    /* Another file that this container's readers expect next to config.json, made from that object:
     * *name is constant, *out a new reference. NULL when there is none. */
    enum pith_status (*extra_file)(const json_t *config, const char **name, json_t **out,
                                   struct pith_error *err);
    /* Reading: prepares what `quantization` says, once a checkpoint. *state is passed to load and
     * freed by close. Refuses what it does not understand. */
    enum pith_status (*open)(const struct pith_checkpoint *c, void **state, struct pith_error *err);
    /* Reads module's matrix of shape rows x cols. *found false (and PITH_OK) when the module is not
     * quantized in this checkpoint; q is then untouched. Everything is checked: shapes, ranges,
     * NaN. On failure q owns nothing. Codes may be borrowed from the checkpoint's mapping. */
    enum pith_status (*load)(void *state, const struct pith_checkpoint *c, const char *module,
                             uint32_t rows, uint32_t cols, struct pith_qmat *q, bool *found,
                             struct pith_error *err);
    /* What a module is stored as, from the config and the names of its tensors: format NULL
     * when it is not quantized; how scales were found is not known. Sets those of the options that
     * the module shows; the others stay unchanged. */
    enum pith_status (*describe)(void *state, const struct pith_checkpoint *c, const char *module,
                                 struct pith_grid *grid, struct pith_container_opts *opts,
                                 struct pith_error *err);
    /* NULL, or: whether the config's lists have a linear of a layer quantized, whatever its tensors
     * say, which decide. For remarks alone. */
    enum pith_status (*listed)(void *state, const char *module, bool *quantized,
                               struct pith_error *err);
    void (*close)(void *state);
};

/* Sets what follows from the grids of a whole model (gptq: zeros are stored as they are as soon as
 * one grid has zero points, since the older way cannot store a zero of 0). Others keep their
 * value. */
void pith_container_settle(const struct pith_container *container,
                           const struct pith_linear_grid *linears, size_t count,
                           struct pith_container_opts *opts);

/* Its pack(); PITH_UNSUPPORTED names a part of q that it does not hold. */
enum pith_status pith_container_pack(const struct pith_container *container,
                                     const struct pith_qmat *q,
                                     const struct pith_container_opts *opts,
                                     struct pith_packed_set *out, struct pith_error *err);

/* Passes scales of a matrix on that grid through stated_scale(). */
void pith_container_state_scales(const struct pith_container *container,
                                 const struct pith_grid *grid, float *scales, size_t count);
/* The same of scales [first, first + count) of q, and of its offsets. */
void pith_container_state(const struct pith_container *container, const struct pith_grid *grid,
                          struct pith_qmat *q, size_t first, size_t count);

/* The container of which a model's path means one file, by its ending ("out/model.gguf"); NULL for
 * a folder's. */
const struct pith_container *pith_container_of_path(const char *path);
/* All rows; *count receives their number. */
const struct pith_container *const *pith_containers(size_t *count);
const struct pith_container *pith_container_find(const char *name);
/* The container that config.json's quantization_config names; PITH_UNSUPPORTED names what it found.
 * *out is NULL and the result PITH_OK for a checkpoint that is not quantized. */
enum pith_status pith_container_detect(const struct pith_checkpoint *c,
                                       const struct pith_container **out, struct pith_error *err);

/* open() and close() of a container whose linears suffice: there is no state, and it is NULL. */
enum pith_status pith_container_open_stateless(const struct pith_checkpoint *c, void **state,
                                               struct pith_error *err);
void pith_container_close_stateless(void *state);

#endif
