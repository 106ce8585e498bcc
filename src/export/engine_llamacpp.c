/* What llama.cpp's converter (convert_hf_to_gguf.py) reads. It dequantizes, then makes a GGUF file;
 * all its rules are in conversion/base.py, dequant_model(). */
#include "export/preflight.h"

#include "base/mem.h"

static const uint32_t no_groups[] = {0};

static const struct pith_load_rule rules[] = {
    /* pack-quantized: strategy group only; words of floor(32 / bits) codes, which are the dense
     * ones for 2, 4 and 8 bits only; g_idx is not looked at. One config group. */
    {.container = "compressed-tensors", .sym = 0x114, .asym = 0x114, .groups = NULL},
    /* int-quantized: tensor or channel. */
    {.container = "compressed-tensors",
     .acts = true,
     .sym = 1u << 8,
     .tensor = true,
     .channel = true,
     .groups = no_groups},
    /* gptq: 2, 4 and 8 bits, both kinds of zero points, g_idx. One grid. */
    {.container = "gptq",
     .sym = 0x114,
     .asym = 0x114,
     .channel = true,
     .groups = NULL,
     .act_order = true},
};

const struct pith_engine pith_engine_llamacpp = {
    .name = "llama.cpp",
    .summary = "llama.cpp's converter to GGUF",
    .rules = rules,
    .count = PITH_COUNT(rules),
    .advice = "compressed-tensors with groups, or gptq",
};
