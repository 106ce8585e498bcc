/* io/container/gptoss.h: MXFP4 as gpt-oss stores its experts, all of a layer in one tensor:
 *     gate_up_proj_blocks  U8 [E, 2I, H/32, 16]   byte t of a block: element 2t low, 2t + 1 high
 *     gate_up_proj_scales  U8 [E, 2I, H/32]       E8M0
 *     down_proj_blocks     U8 [E, H, I/32, 16]
 *     down_proj_scales     U8 [E, H, I/32]
 * Rows of gate_up alternate: even ones are the gate's, odd ones up's. Only what lies where is known
 * here; models of experts are not read by this version.
 *
 * Sources: transformers integrations/mxfp4.py; llama.cpp conversion/gpt_oss.py. */
#ifndef PITH_IO_CONTAINER_GPTOSS_H
#define PITH_IO_CONTAINER_GPTOSS_H

#include "io/safetensors.h"
#include "num/qmat.h"

/* Rows first, first + step, ... of one expert: {e, 0, 2} is a gate, {e, 1, 2} an up, {e, 0, 1} a
 * down projection. */
struct pith_gptoss_part {
    uint32_t expert, first, step;
};

/* Reads a matrix. PITH_FORMAT when the tensors' dtypes or shapes are not of that kind or do not go
 * together, when there is no such expert, or a scale is NaN. On failure q owns nothing. */
enum pith_status pith_gptoss_load(const struct pith_tensor *blocks,
                                  const struct pith_tensor *scales,
                                  const struct pith_gptoss_part *part, struct pith_qmat *q,
                                  struct pith_error *err);

#endif
