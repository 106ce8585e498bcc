"""Checkpoints as bitsandbytes writes them, and what its own code dequantizes them to.

    python make_bitsandbytes.py

Needs torch, bitsandbytes and safetensors. Writes, beside itself, nf4.safetensors, fp4.safetensors,
nested.safetensors and int8.safetensors: a linear "m" of 24 x 128 as Linear4bit's and Linear8bitLt's
state dicts hold it, and "want", its values in float32.
"""
import os

import bitsandbytes as bnb
import torch
from bitsandbytes import functional as F
from safetensors.torch import save_file

HERE = os.path.dirname(os.path.abspath(__file__))
ROWS, COLS = 24, 128


def weights():
    g = torch.Generator().manual_seed(7)
    w = torch.randn(ROWS, COLS, generator=g) * 0.05
    w[3, 5] = 1.5
    w[7] = 0
    return w


def four(kind, nested):
    packed, state = F.quantize_4bit(weights(), blocksize=64, quant_type=kind, compress_statistics=nested)
    want = F.dequantize_4bit(packed, state)
    tensors = {"m.weight": packed.contiguous()}
    for key, value in state.as_dict(packed=True).items():
        tensors["m.weight." + key] = value.contiguous()
    tensors["want"] = want.float().contiguous()
    return tensors


def eight():
    codes, absmax, _ = F.int8_vectorwise_quant(weights().half())
    want = codes.float() * absmax.view(-1, 1) / 127
    return {"m.weight": codes.contiguous(), "m.SCB": absmax.float().contiguous(),
            "m.weight_format": torch.tensor(0, dtype=torch.uint8), "want": want.contiguous()}


print("bitsandbytes", bnb.__version__)
for name, tensors in {"nf4": four("nf4", False), "fp4": four("fp4", False),
                      "nested": four("nf4", True), "int8": eight()}.items():
    save_file(tensors, os.path.join(HERE, name + ".safetensors"))
