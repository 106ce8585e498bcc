/* What vLLM loads. */
#include "export/preflight.h"

#include "base/mem.h"

/* Sizes that Marlin, the kernel of most GPUs, has.
 * vLLM layers/quantization/utils/marlin_utils.py: MARLIN_SUPPORTED_GROUP_SIZES. */
static const uint32_t groups[] = {32, 64, 128, 0};

#define ANY_FP8 "fp8_e4m3:token fp8_e4m3:tensor fp8_e4m3:tensor:static"

/* layers/quantization/compressed_tensors/compressed_tensors.py, _get_scheme_from_parts(): its tests
 * for each scheme. Static scales of inputs go with every weight but blocks. Of scales of whole
 * tensors the largest of q, k, v (and of gate, up) is taken, and their weights are rounded again
 * (utils/w8a8_utils.py, requantize_with_max_scale()). */
static const struct pith_load_pair ct[] = {
    {"fp8_e4m3:tensor", "none " ANY_FP8},
    {"fp8_e4m3:channel", "none " ANY_FP8},
    {"fp8_e4m3:block128", "none fp8_e4m3:g128"},
    {"nvfp4", "none nvfp4:static"},
    {"mxfp4", "none mxfp4"},
    {"mxfp8", "mxfp8"},
    /* schemes/compressed_tensors_w4a8_fp8.py */
    {"int4:g128", "fp8_e4m3:token"},
    {"int4:channel", "fp8_e4m3:token"},
    {NULL, NULL},
};

/* layers/quantization/modelopt.py: QUANT_ALGOS. */
static const struct pith_load_pair modelopt[] = {
    {"fp8_e4m3:tensor", "fp8_e4m3:tensor:static"},
    {"fp8_e4m3:channel", "fp8_e4m3:token"},
    {"fp8_e4m3:block128", "none"},
    {"nvfp4", "none nvfp4:static"},
    {"mxfp8", "mxfp8"},
    {NULL, NULL},
};

/* layers/quantization/fp8.py: Fp8Config. */
static const struct pith_load_pair fp8[] = {
    {"fp8_e4m3:block128", "fp8_e4m3:g128"},
    {"fp8_e4m3:tensor", "fp8_e4m3:token fp8_e4m3:tensor:static"},
    {NULL, NULL},
};

static const struct pith_load_rule rules[] = {
    /* layers/quantization/compressed_tensors/schemes/compressed_tensors_wNa16.py: the two type
     * maps, the strategies, the assertion that groups divide a rank's columns. Permuted groups: its
     * configs are compressed-tensors' own classes, which refuse them since 0.20
     * (quantization/quant_args.py). Rotations of inputs: compressed_tensors/transform/module.py,
     * not on several ranks. */
    {.container = "compressed-tensors",
     .sym = 0x1fc,
     .asym = 1u << 4 | 1u << 8,
     .channel = true,
     .groups = groups,
     .mixed = true,
     .online = true,
     .fused = true,
     .whole_words = true},
    /* schemes/compressed_tensors_w8a8_int8.py and compressed_tensors_w4a8_int.py: symmetric weights
     * only. Groups are 4-bit's; see engine checks below for 8 bits. */
    {.container = "compressed-tensors",
     .acts = true,
     .inputs = "int8:token int8:token:asym int8:tensor:static int8:tensor:asym:static",
     .sym = 1u << 4 | 1u << 8,
     .tensor = true,
     .channel = true,
     .groups = groups,
     .mixed = true,
     .online = true,
     .fused = true},
    {.container = "compressed-tensors", .pairs = ct, .mixed = true, .online = true, .fused = true},
    {.container = "modelopt", .pairs = modelopt, .mixed = true, .fused = true},
    {.container = "fp8", .pairs = fp8, .fused = true},
    /* layers/quantization/auto_gptq.py: TYPE_MAP, verify_marlin_supported(); an override of bits
     * leaves the type map's entry as it was. */
    {.container = "gptq",
     .sym = 1u << 4 | 1u << 8,
     .channel = true,
     .groups = groups,
     .act_order = true,
     .fused = true,
     .whole_words = true},
    /* layers/quantization/auto_awq.py: TYPE_MAP; what Marlin does not take runs on AWQ's own
     * kernels. Zero points are always there. */
    {.container = "awq",
     .expert_zeros = true,
     .sym = 1u << 4,
     .asym = 1u << 4,
     .channel = true,
     .groups = NULL,
     .fused = true,
     .whole_words = true},
};

/* config/cache.py: CacheDType. What is stored:
 * quantization/compressed_tensors/compressed_tensors.py, CompressedTensorsKVCacheMethod (by tensor,
 * by head of attention); quantization/modelopt.py. */
static const struct pith_engine_cache caches[] = {
    {"bf16", {"--kv-cache-dtype bfloat16"}},
    {"f16", {"--kv-cache-dtype float16"}},
    {"fp8_e4m3:tensor:static", {"--kv-cache-dtype fp8_e4m3"}},
    {"fp8_e5m2:tensor:static", {"--kv-cache-dtype fp8_e5m2"}},
    {"fp8_e4m3:token", {"--kv-cache-dtype fp8_per_token_head"}},
    {"int8:token", {"--kv-cache-dtype int8_per_token_head"}},
    {"nvfp4:static", {"--kv-cache-dtype nvfp4"}},
    {NULL, {NULL}},
};

const struct pith_target_engine pith_engine_vllm = {
    .name = "vllm",
    .summary = "vLLM",
    .ranks = true,
    .tokens = PITH_TOKENS_HF,
    .rules = rules,
    .count = PITH_COUNT(rules),
    .advice = "compressed-tensors, modelopt, fp8, gptq or awq",
    .caches = caches,
    .stored = "fp8_e4m3:tensor:static fp8_e4m3:head:static nvfp4:static",
};
