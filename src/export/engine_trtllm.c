/* What TensorRT-LLM loads of the containers that are written here: no integers but ModelOpt's.
 *
 * tensorrt_llm/models/quant_config_utils.py, update_quant_config_from_compressed_tensors(): weights
 * of 8 bits by channel with inputs by token are taken for FP8 whatever their type says, so that
 * int8 gives wrong numbers without a word; every other integer scheme is an error. Checkpoints of
 * gptq and awq are not read by tensorrt_llm/_torch/model_config.py. */
#include "export/preflight.h"

#include "base/mem.h"

static const struct pith_load_pair ct[] = {
    {"fp8_e4m3:channel", "fp8_e4m3:token"},
    {"fp8_e4m3:block128", "fp8_e4m3:g128"},
    {"nvfp4", "nvfp4:static"},
    {"mxfp4", "none"},
    {NULL, NULL},
};

/* _torch/modules/linear.py: its linear methods. */
static const struct pith_load_pair modelopt[] = {
    {"fp8_e4m3:tensor", "fp8_e4m3:tensor:static"},
    {"nvfp4", "nvfp4:static"},
    {"int4:g128", "none fp8_e4m3:tensor:static"},
    {NULL, NULL},
};

static const struct pith_load_pair fp8[] = {
    {"fp8_e4m3:block128", "fp8_e4m3:g128"},
    {NULL, NULL},
};

static const struct pith_load_rule rules[] = {
    {.container = "compressed-tensors", .pairs = ct, .mixed = true, .fused = true},
    {.container = "modelopt", .pairs = modelopt, .mixed = true, .fused = true},
    {.container = "fp8", .pairs = fp8, .fused = true},
};

/* commands/serve.py: --kv_cache_dtype; ModelOpt's scales serve both. */
static const struct pith_engine_cache caches[] = {
    {"fp8_e4m3:tensor:static", {"--kv_cache_dtype fp8"}},
    {"nvfp4:static", {"--kv_cache_dtype nvfp4"}},
    {NULL, {NULL}},
};

const struct pith_target_engine pith_engine_trtllm = {
    .name = "trtllm",
    .summary = "TensorRT-LLM",
    .ranks = true,
    .tokens = PITH_TOKENS_HF,
    .rules = rules,
    .count = PITH_COUNT(rules),
    .advice = "modelopt, fp8, and compressed-tensors with FP8 or NVFP4",
    .caches = caches,
    .stored = "fp8_e4m3:tensor:static nvfp4:static",
};
