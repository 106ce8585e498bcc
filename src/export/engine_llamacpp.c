/* GGUF files, which llama.cpp runs, and what its converter (convert_hf_to_gguf.py) reads: it
 * dequantizes, then makes a GGUF file; all its rules are in conversion/base.py, dequant_model(). */
#include "export/preflight.h"

#include "base/mem.h"

static const uint32_t no_groups[] = {0};

/* What concerns inputs is omitted: a GGUF file has none of it. */
static const struct pith_load_pair ct[] = {
    {"fp8_e4m3:tensor", "*"},
    {"fp8_e4m3:channel", "*"},
    {"fp8_e4m3:block128", "*"},
    {"nvfp4", "*"},
    {"mxfp4", "*"},
    {NULL, NULL},
};

static const struct pith_load_pair modelopt[] = {
    {"fp8_e4m3:tensor", "*"},
    {"nvfp4", "*"},
    {NULL, NULL},
};

static const struct pith_load_pair fp8[] = {
    {"fp8_e4m3:tensor", "*"},
    {"fp8_e4m3:block128", "*"},
    {NULL, NULL},
};

static const struct pith_load_rule rules[] = {
    /* Every type of a block is a tensor's own (ggml.c, type_traits): what the container accepts. */
    {.container = "gguf", .sym = 0x17c, .groups = NULL, .mixed = true},
    /* pack-quantized: strategy group only; words of floor(32 / bits) codes, which are the dense
     * ones for 2, 4 and 8 bits only; g_idx is not looked at. One config group. */
    {.container = "compressed-tensors", .sym = 0x114, .asym = 0x114, .groups = NULL},
    /* int-quantized: tensor or channel. */
    {.container = "compressed-tensors",
     .acts = true,
     .inputs = "*",
     .sym = 1u << 8,
     .tensor = true,
     .channel = true,
     .groups = no_groups},
    {.container = "compressed-tensors", .pairs = ct},
    {.container = "modelopt", .pairs = modelopt},
    {.container = "fp8", .pairs = fp8},
    /* gptq: 2, 4 and 8 bits, both kinds of zero points, g_idx. One grid. */
    {.container = "gptq",
     .sym = 0x114,
     .asym = 0x114,
     .channel = true,
     .groups = NULL,
     .act_order = true},
};

/* common/arg.cpp: kv_cache_types, those that pith has. src/llama-kv-cache.cpp: heads of a multiple
 * of 64 numbers are rotated where they are stored as codes. */
static const struct pith_engine_cache caches[] = {
    {"f32", {"-ctk f32", "-ctv f32"}},
    {"bf16", {"-ctk bf16", "-ctv bf16"}},
    {"f16", {"-ctk f16", "-ctv f16"}},
    {"q8_0", {"-ctk q8_0", "-ctv q8_0"}},
    {"q5_0", {"-ctk q5_0", "-ctv q5_0"}},
    {"q4_0", {"-ctk q4_0", "-ctv q4_0"}},
    {"iq4_nl", {"-ctk iq4_nl", "-ctv iq4_nl"}},
    {NULL, {NULL, NULL}},
};

const struct pith_target_engine pith_engine_llamacpp = {
    .name = "llama.cpp",
    .summary = "GGUF files, and what its converter to them reads",
    .tokens = PITH_TOKENS_LLAMACPP,
    .rules = rules,
    .count = PITH_COUNT(rules),
    .advice = "gguf; compressed-tensors with groups and gptq through its converter",
    .caches = caches,
    .rotates = 64,
    .unrotated = "LLAMA_ATTN_ROT_DISABLE=1 ",
};
