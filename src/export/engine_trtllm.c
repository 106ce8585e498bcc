/* What TensorRT-LLM loads of the containers that are written here: nothing.
 *
 * tensorrt_llm/models/quant_config_utils.py, update_quant_config_from_compressed_tensors(): weights
 * of 8 bits by channel are taken for FP8 whatever their type says, so that int8 gives wrong numbers
 * without a word; every other integer scheme is an error. Checkpoints of gptq and awq are not read
 * by tensorrt_llm/_torch/model_config.py. */
#include "export/preflight.h"

const struct pith_engine pith_engine_trtllm = {
    .name = "trtllm",
    .summary = "TensorRT-LLM",
    .ranks = true,
    .advice = "FP8, NVFP4 and ModelOpt checkpoints, none with integer weights",
};
