#!/usr/bin/env python3
"""Linears as the hqq package saves them, and the matrices that they stand for.

    pip install hqq torch safetensors && python3 make_hqq.py

(hqq 0.2.8 on a CPU.) Writes hqq.safetensors beside this script: modules "b2", "b3", "b4", "b8" of 24 x 64, of so many
bits in groups of 32 along the inputs, "c4" of 4 bits with one group a row and "f4" like "b4" in float16 (the others in
bfloat16), each as HQQLinear.state_dict() gives it, and "want.b2" and so on: the matrices, in float32, from the stored
codes, scales and zero points.
"""
import os

import torch
from hqq.core.quantize import HQQLinear, Quantizer
from safetensors.torch import save_file

ROWS, COLS = 24, 64


def linear(bits, group, dtype):
    layer = torch.nn.Linear(COLS, ROWS, bias=False)
    layer.weight.data = torch.randn(ROWS, COLS) * 0.05
    layer.weight.data[3] = 0.0  # a row without weights
    config = {"weight_quant_params": {"nbits": bits, "channel_wise": True, "group_size": group, "optimize": True,
                                      "round_zero": False, "axis": 1, "view_as_float": False},
              "scale_quant_params": None, "zero_quant_params": None, "offload_meta": False}
    return HQQLinear(layer, config, compute_dtype=dtype, device="cpu")


def main():
    torch.manual_seed(7)
    out = {}
    for name, bits, group, dtype in (("b2", 2, 32, torch.bfloat16), ("b3", 3, 32, torch.bfloat16),
                                     ("b4", 4, 32, torch.bfloat16), ("b8", 8, 32, torch.bfloat16),
                                     ("c4", 4, COLS, torch.bfloat16), ("f4", 4, 32, torch.float16)):
        layer = linear(bits, group, dtype)
        state = layer.state_dict()
        out.update({f"{name}.{k}": v.data.contiguous() for k, v in state.items()})
        meta = dict(layer.meta, compute_dtype=torch.float32, scale=state["scale"].float(), zero=state["zero"].float())
        out[f"want.{name}"] = Quantizer.dequantize(layer.W_q, meta).contiguous()
    save_file(out, os.path.join(os.path.dirname(os.path.abspath(__file__)), "hqq.safetensors"))


if __name__ == "__main__":
    main()
