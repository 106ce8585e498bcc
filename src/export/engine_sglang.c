/* What SGLang loads. */
#include "export/preflight.h"

#include "base/mem.h"

/* srt/layers/quantization/marlin_utils.py: MARLIN_SUPPORTED_GROUP_SIZES. */
static const uint32_t groups[] = {32, 64, 128, 0};
static const uint32_t no_groups[] = {0};

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
     .sym = 1u << 8,
     .tensor = true,
     .channel = true,
     .groups = no_groups,
     .mixed = true,
     .fused = true},
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
     .sym = 1u << 4,
     .asym = 1u << 4,
     .channel = true,
     .groups = NULL,
     .fused = true,
     .whole_words = true},
};

const struct pith_engine pith_engine_sglang = {
    .name = "sglang",
    .summary = "SGLang",
    .ranks = true,
    .rules = rules,
    .count = PITH_COUNT(rules),
    .advice = "compressed-tensors, gptq or awq",
};
