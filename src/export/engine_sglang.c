/* What SGLang loads. */
#include "export/preflight.h"

#include "base/mem.h"

/* srt/layers/quantization/marlin_utils.py: MARLIN_SUPPORTED_GROUP_SIZES. */
static const uint32_t groups[] = {32, 64, 128, 0};
static const uint32_t no_groups[] = {0};

#define ANY_FP8 "fp8_e4m3:token fp8_e4m3:tensor fp8_e4m3:tensor:static"

/* srt/layers/quantization/compressed_tensors/compressed_tensors.py, _get_scheme_from_parts(), and
 * schemes/compressed_tensors_w8a8_fp8.py, compressed_tensors_w4a4_nvfp4.py. */
static const struct pith_load_pair ct[] = {
    {"fp8_e4m3:tensor", ANY_FP8},
    {"fp8_e4m3:channel", ANY_FP8},
    {"nvfp4", "nvfp4:static"},
    {NULL, NULL},
};

/* srt/layers/quantization/modelopt_quant.py. */
static const struct pith_load_pair modelopt[] = {
    {"fp8_e4m3:tensor", "fp8_e4m3:tensor:static"},
    {"nvfp4", "nvfp4:static"},
    {NULL, NULL},
};

/* srt/layers/quantization/fp8.py. */
static const struct pith_load_pair fp8[] = {
    {"fp8_e4m3:block128", "fp8_e4m3:g128"},
    {"fp8_e4m3:tensor", "fp8_e4m3:token fp8_e4m3:tensor:static"},
    {NULL, NULL},
};

static const struct pith_load_rule rules[] = {
    /* srt/layers/quantization/compressed_tensors/schemes/compressed_tensors_wNa16.py: its type
     * maps, and Marlin as the only kernel: zero points of 4 bits
     * (query_marlin_supported_quant_types), and tiles of 64 by 128 (verify_marlin_supports_shape).
     */
    {.container = "compressed-tensors",
     .sym = 1u << 4 | 1u << 8,
     .asym = 1u << 4,
     .channel = true,
     .groups = groups,
     .mixed = true,
     .fused = true,
     .whole_words = true,
     .tile_rows = 64,
     .tile_cols = 128},
    /* schemes/compressed_tensors_w8a8_int8.py: tensor or channel, symmetric. */
    {.container = "compressed-tensors",
     .acts = true,
     .inputs = "int8:token int8:token:asym int8:tensor:static int8:tensor:asym:static",
     .sym = 1u << 8,
     .tensor = true,
     .channel = true,
     .groups = no_groups,
     .mixed = true,
     .fused = true},
    {.container = "compressed-tensors", .pairs = ct, .mixed = true, .fused = true},
    {.container = "modelopt", .pairs = modelopt, .fused = true},
    {.container = "fp8", .pairs = fp8, .fused = true},
    /* srt/layers/quantization/gptq/gptq.py: GPTQConfig; it reads both kinds of zero points. */
    {.container = "gptq",
     .sym = 0x11c,
     .asym = 0x11c,
     .channel = true,
     .groups = NULL,
     .act_order = true,
     .fused = true,
     .whole_words = true},
    /* srt/layers/quantization/awq/awq.py: AWQConfig. */
    {.container = "awq",
     .expert_zeros = true,
     .sym = 1u << 4,
     .asym = 1u << 4,
     .channel = true,
     .groups = NULL,
     .fused = true,
     .whole_words = true},
};

/* server_args.py: --kv-cache-dtype. What is stored: layers/quantization/kv_cache.py, one scale for
 * keys and one for values. */
static const struct pith_engine_cache caches[] = {
    {"bf16", {"--kv-cache-dtype bfloat16"}},
    {"fp8_e4m3:tensor:static", {"--kv-cache-dtype fp8_e4m3"}},
    {"fp8_e5m2:tensor:static", {"--kv-cache-dtype fp8_e5m2"}},
    {NULL, {NULL}},
};

const struct pith_target_engine pith_engine_sglang = {
    .name = "sglang",
    .summary = "SGLang",
    .ranks = true,
    .tokens = PITH_TOKENS_HF,
    .rules = rules,
    .count = PITH_COUNT(rules),
    .advice = "compressed-tensors, modelopt, fp8, gptq or awq",
    .caches = caches,
    .stored = "fp8_e4m3:tensor:static",
};
