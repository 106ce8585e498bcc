#!/usr/bin/env python3
"""Linears as exllamav3 stores them, and what they stand for.

exllamav3's Python is only run, never copied. Give the root of its checkout:

    make_exl3.py PATH/exllamav3

(turboderp-org/exllamav3 at 1.4.1; torch, numpy and safetensors on a CPU). Its order of a tile's weights, its Hadamard
products and the bits of old sign vectors are its own code's; what its CUDA code alone does, reading windows of the
bit stream and making numbers of them, is written here from its formulas, in numpy's half precision.

Writes golden.safetensors: modules "mul1" of 3 bits, "mcg" of 2 and "3inst" of 4 (with sign bits), 256 inputs and 128
outputs each, "want.NAME" every eighth row and column of W in float32, and "values.NAME" the numbers of all windows,
summed up in groups of 1024.
"""
import os
import sys
import types

import numpy as np
import torch
from safetensors.torch import save_file

HERE = os.path.dirname(os.path.abspath(__file__))
INPUTS, OUTPUTS = 256, 128
CASES = (("mul1", 3), ("mcg", 2), ("3inst", 4))


def number(code, window):
    x = window.astype(np.uint64)
    if code == "mul1":
        x = x * 0x83DCD12D & 0xFFFFFFFF
        total = sum((x >> shift) & 255 for shift in (0, 8, 16, 24))
        scale = np.array([0x1EEE], np.uint16).view(np.float16).astype(np.float64)[0]
        bias = np.array([0xC931], np.uint16).view(np.float16).astype(np.float64)[0]
        return ((total + 1024).astype(np.float64) * scale + bias).astype(np.float16)
    x = x * 0xCBAC1FED if code == "mcg" else x * 89226354 + 64248484
    x = ((x & 0x8FFF8FFF) ^ 0x3B603B60).astype(np.uint32)
    low, high = (x & 0xFFFF).astype(np.uint16), (x >> 16).astype(np.uint16)
    return low.view(np.float16) + high.view(np.float16)


def windows(tile, bits):
    """The 256 windows of a tile of int16, whose pairs are exchanged."""
    words = tile.view(np.uint16).reshape(-1, 2)[:, ::-1].reshape(-1)
    stream = ((words[:, None] >> np.arange(15, -1, -1)) & 1).reshape(-1)
    ends = (np.arange(256) + 1) * bits
    at = (ends[:, None] - 16 + np.arange(16)) % stream.size
    return (stream[at] << np.arange(15, -1, -1)).sum(axis=1)


def main():
    root = sys.argv[1]
    packages = ("exllamav3", "exllamav3.modules", "exllamav3.modules.quant", "exllamav3.modules.quant.exl3_lib",
                "exllamav3.util", "exllamav3.model")
    empty = {"exllamav3.ext": {"exllamav3_ext": types.SimpleNamespace()},
             "exllamav3.model.config": {"Config": object},
             "exllamav3.util.progress": {"ProgressBar": object},
             "exllamav3.util.memory": {"free_mem": None, "list_gpu_tensors": None},
             "exllamav3.util.tensor": {"save_tensor_image": None, "g_tensor_cache": None}}
    for name in packages + tuple(empty):  # what needs its CUDA code, or is not looked at
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__path__ = [os.path.join(root, *name.split("."))] if name in packages else []
        vars(sys.modules[name]).update(empty.get(name, {}))
    vars(sys.modules["exllamav3.util"]).update(cuda_sync_active=None, profile_opt=None)
    from exllamav3.modules.quant.exl3_lib import quantize
    from exllamav3.modules.quant.exl3 import LinearEXL3
    from exllamav3.util import hadamard
    hadamard.load_constants()

    out = {}
    rng = np.random.default_rng(15)
    order = quantize.tensor_core_perm_i("cpu").numpy()
    for name, bits in CASES:
        trellis = rng.integers(-32768, 32768, (INPUTS // 16, OUTPUTS // 16, 16 * bits)).astype(np.int16)
        inner = np.zeros((INPUTS, OUTPUTS), np.float32)
        for k in range(INPUTS // 16):
            for n in range(OUTPUTS // 16):
                tile = number(name, windows(trellis[k, n], bits)).astype(np.float32)[order]
                inner[k * 16:k * 16 + 16, n * 16:n * 16 + 16] = tile.reshape(16, 16)
        out[f"{name}.trellis"] = torch.from_numpy(trellis)
        factors = []
        for count, side in ((INPUTS, "su"), (OUTPUTS, "sv")):
            if name == "3inst":
                signs = torch.from_numpy(rng.integers(-32768, 32768, count // 16).astype(np.int16))
                out[f"{name}.{side}"] = signs
                factors.append(LinearEXL3.unpack_bf(types.SimpleNamespace(transformers_fix=False), signs).half())
            else:
                factors.append(torch.from_numpy(rng.normal(0, 0.02 if side == "su" else 1, count).astype(np.float16)))
                out[f"{name}.{side}h"] = factors[-1]
        w = quantize.preapply_had_l(torch.from_numpy(inner).double(), 128).float()
        w = quantize.preapply_had_r(w * factors[0].float().unsqueeze(1), 128) * factors[1].float().unsqueeze(0)
        out[f"want.{name}"] = w.T[::8, ::8].float().contiguous()
        every = number(name, np.arange(65536)).astype(np.float32).reshape(64, 1024)
        out[f"values.{name}"] = torch.from_numpy(every.astype(np.float64).sum(axis=1).astype(np.float32))
        if name != "3inst":
            multiplier = {"mul1": 0x83DCD12D, "mcg": 0xCBAC1FED}[name]
            out[f"{name}.{name}"] = torch.tensor(multiplier, dtype=torch.uint32).view(torch.int)
    save_file(out, os.path.join(HERE, "golden.safetensors"))


main()
