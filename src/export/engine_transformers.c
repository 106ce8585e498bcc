/* What Hugging Face transformers loads, with the package of each container installed. */
#include "export/preflight.h"

#include "base/mem.h"

/* GPTQModel nn_modules/qlinear/torch.py and torch_awq.py: SUPPORTS_GROUP_SIZE. */
static const uint32_t groups[] = {16, 32, 64, 128, 256, 512, 1024, 0};

/* compressors/format.py: what the package has a compressor for. Inputs are rounded as they are
 * described, which is emulation. */
static const struct pith_load_pair ct[] = {{"*", "*"}, {NULL, NULL}};

/* utils/quantization_config.py, FineGrainedFP8Config: dynamic, and blocks only. */
static const struct pith_load_pair fp8[] = {
    {"fp8_e4m3:block128", "fp8_e4m3:g128"},
    {NULL, NULL},
};

/* Blocks of any size that bitsandbytes has: a quant_state says its own. */
static const struct pith_load_pair bnb[] = {{"*", "none"}, {NULL, NULL}};
static const uint32_t no_groups[] = {0};

static const struct pith_load_rule rules[] = {
    /* quantizers/quantizer_compressed_tensors.py hands everything to compressed-tensors:
     * compressors/pack_quantized/base.py and naive_quantized/base.py. Permuted groups: refused by
     * quantization/quant_args.py since 0.20. Zero points: versions 0.18 to 0.20 load them only with
     * CompressedTensorsConfig(dequantize=True). */
    {.container = "compressed-tensors",
     .sym = 0x1fc,
     .asym = 0x1fc,
     .tensor = true,
     .channel = true,
     .groups = NULL,
     .mixed = true},
    {.container = "compressed-tensors",
     .acts = true,
     .inputs = "*",
     .sym = 0x1fc,
     .asym = 0x1fc,
     .tensor = true,
     .channel = true,
     .groups = NULL,
     .mixed = true},
    {.container = "compressed-tensors", .pairs = ct, .mixed = true},
    {.container = "fp8", .pairs = fp8},
    /* utils/quantization_config.py, GPTQConfig: bits; its layers are GPTQModel's. One grid: the
     * overrides of single modules are GPTQModel's own loader's. */
    {.container = "gptq",
     .sym = 0x11c,
     .asym = 0x11c,
     .channel = true,
     .groups = groups,
     .act_order = true},
    /* BitsAndBytesConfig; quantizers/quantizer_bnb_8bit.py and quantizer_bnb_4bit.py. */
    {.container = "bitsandbytes",
     .acts = true,
     .inputs = "int8:token",
     .sym = 1u << 8,
     .channel = true,
     .groups = no_groups},
    {.container = "bitsandbytes", .pairs = bnb},
    /* AwqConfig; GPTQModel nn_modules/qlinear/torch_awq.py. */
    {.container = "awq", .sym = 1u << 4, .asym = 1u << 4, .channel = true, .groups = groups},
};

const struct pith_target_engine pith_engine_transformers = {
    .name = "transformers",
    .summary = "Hugging Face transformers",
    .tokens = PITH_TOKENS_HF,
    .rules = rules,
    .count = PITH_COUNT(rules),
    .advice = "compressed-tensors, fp8, bitsandbytes, gptq or awq",
    /* compressed-tensors' own loader: kv_cache_scheme. */
    .stored = "fp8_e4m3:tensor:static fp8_e4m3:head:static",
};
