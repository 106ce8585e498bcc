/* io/container/modelopt.h: NVIDIA ModelOpt's unified checkpoint: its algorithms and its config.
 * Inside io/ only.
 *
 * Sources: ModelOpt modelopt/torch/export/quant_utils.py, unified_export_hf.py and
 * convert_hf_config.py; vLLM layers/quantization/modelopt.py; TensorRT-LLM
 * _torch/model_config.py and _torch/modules/linear.py. */
#ifndef PITH_IO_CONTAINER_MODELOPT_H
#define PITH_IO_CONTAINER_MODELOPT_H

#include "io/container/container.h"
#include "io/parts.h"

/* How codes lie. */
enum pith_modelopt_codes {
    PITH_MODELOPT_ROWS,   /* as in memory: F8_E4M3 [N, K], or U8 [N, K / 2], the first code low */
    PITH_MODELOPT_SIGNED, /* I8 [N, K] */
    PITH_MODELOPT_PAIRS   /* U8 [N / 2, K]: row 2i low, row 2i + 1 high, two's complement */
};

/* One algorithm: which grids it is for, and what it stores with the codes:
 *     weight_scale    F32 [] by tensor, [N] by channel, [N, G] by group, [N/128, 1, K/128, 1] by
 *                     block; the codes of block formats, U8 or F8_E4M3 [N, G]
 *     weight_scale_2  F32 []  NVFP4: the factor in every scale; W4A8_AWQ: largest |W| / 448
 *     input_scale     F32 []  static inputs; of NVFP4 the factor in every scale */
struct pith_modelopt_algo {
    const char *name;                  /* as "quant_algo" */
    const char *weights;               /* name of the weights' format */
    enum pith_granularity granularity; /* of a plain format */
    uint32_t group;                    /* 0: any */
    const char *inputs;                /* a grid's text, NULL: not quantized */
    enum pith_modelopt_codes codes;
    bool second; /* weight_scale_2 */
    bool awq;    /* the config says group_size and has_zero_point */
};

/* NULL when unknown; case does not matter, as to vLLM. */
const struct pith_modelopt_algo *pith_modelopt_find(const char *name);
/* The one for weights on that grid with inputs on that one; NULL when there is none. */
const struct pith_modelopt_algo *pith_modelopt_for(const struct pith_grid *weights,
                                                   const struct pith_grid *inputs);
/* The grids that it means; group for those that have any. */
struct pith_grid pith_modelopt_weights(const struct pith_modelopt_algo *a, uint32_t group);
struct pith_grid pith_modelopt_inputs(const struct pith_modelopt_algo *a);

/* --- config ----------------------------------------------------------------------------------- */

struct pith_modelopt_config {
    const json_t *layers;                  /* module -> what it has; NULL: one for all */
    const struct pith_modelopt_algo *algo; /* that one */
    uint32_t group;
    const json_t *excluded; /* patterns with * and ? */
    struct pith_grid kv;    /* format NULL: not quantized */
};

/* Reads the checkpoint's config, in the form of config.json or of hf_quant_config.json, which must
 * outlive *out. */
enum pith_status pith_modelopt_config_read(const struct pith_checkpoint *c,
                                           struct pith_modelopt_config *out,
                                           struct pith_error *err);
/* What a module has; *algo NULL when it is unquantized. */
enum pith_status pith_modelopt_config_module(const struct pith_modelopt_config *config,
                                             const char *module,
                                             const struct pith_modelopt_algo **algo,
                                             uint32_t *group, struct pith_error *err);

/* The container's config() and extra_file(). */
enum pith_status pith_modelopt_config_make(const struct pith_linear_grid *linears, size_t count,
                                           const struct pith_container_opts *opts, json_t **out,
                                           struct pith_error *err);
enum pith_status pith_modelopt_extra_file(const json_t *config, const char **name, json_t **out,
                                          struct pith_error *err);

#endif
