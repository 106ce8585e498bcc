#!/usr/bin/env python3
"""Golden vectors of keys and values as a cache keeps them: the rows of tests/golden/num/inputs.json's x.

    make_kv.py      (compressed-tensors 0.18 or newer beside PyTorch, which are only run)

Scales of groups in 16 bits are compressed-tensors' scale_dtype; turboN is computed here. Writes tests/golden/num/kv.json: by grid, the
rounded rows as hex words of their bits."""
import json
import math
import os

import numpy as np
import torch
from compressed_tensors.quantization import QuantizationArgs
from compressed_tensors.quantization.lifecycle.forward import fake_quantize
from compressed_tensors.quantization.utils import compute_dynamic_scales_and_zp

HERE = os.path.dirname(os.path.abspath(__file__))
COLS = 256


def words(x):
    return "".join("%08x" % w for w in np.asarray(x, np.float32).reshape(-1).view(np.uint32))


def groups(x, kind, bits, symmetric, group, scale_dtype):
    args = QuantizationArgs(num_bits=bits, type=kind, symmetric=symmetric, strategy="group", group_size=group,
                            dynamic=True, scale_dtype=scale_dtype)
    scale, zero = compute_dynamic_scales_and_zp(value=x, args=args, module=None, global_scale=None)
    return fake_quantize(x=x, scale=scale, zero_point=zero, args=args, global_scale=None)


def lloyd_max(bits):
    """The levels of least squared error for N(0, 1): Lloyd's iteration on the density."""
    phi = lambda t: math.exp(-t * t / 2) / math.sqrt(2 * math.pi)
    below = lambda t: (1 + math.erf(t / math.sqrt(2))) / 2
    level = [3.0 * (i + 0.5) / 2 ** (bits - 1) for i in range(2 ** (bits - 1))]
    for _ in range(5000):
        border = [0.0] + [(a + b) / 2 for a, b in zip(level, level[1:])] + [40.0]
        level = [(phi(a) - phi(b)) / (below(b) - below(a)) for a, b in zip(border, border[1:])]
    return np.array([-v for v in reversed(level)] + level)


def turbo(x, bits):
    """TurboQuant without its rotation: the norm kept, each element on the nearest level for N(0, 1 / n)."""
    x = x.numpy()
    level, y = lloyd_max(bits), np.zeros_like(x)
    for row, out in zip(x, y):
        scale = np.float32(np.float16(np.sqrt(np.mean(row.astype(np.float64) ** 2))))
        if scale > 0:
            code = np.abs(row[:, None] / np.float64(scale) - level).argmin(1)
            out[:] = level[code].astype(np.float32) * scale
    return torch.from_numpy(y)


def main():
    hexes = json.load(open(os.path.join(HERE, "inputs.json")))["x"]
    x = np.frombuffer(bytes.fromhex(hexes), ">u4").astype(np.uint32).view(np.float32).copy()
    x = torch.from_numpy(x.reshape(-1, COLS))
    half, brain = torch.float16, torch.bfloat16
    out = {
        "int8:g64": groups(x, "int", 8, True, 64, half),
        "int4:g32": groups(x, "int", 4, True, 32, half),
        "int4:g32:asym": groups(x, "int", 4, False, 32, half),
        "int2:g16:asym": groups(x, "int", 2, False, 16, half),
        "fp8_e4m3:g32": groups(x, "float", 8, True, 32, brain),
        "turbo2": turbo(x, 2),
        "turbo3": turbo(x, 3),
        "turbo4": turbo(x, 4),
    }
    with open(os.path.join(HERE, "kv.json"), "w") as f:
        json.dump({name: words(y.float().numpy()) for name, y in out.items()}, f, indent=0)
        f.write("\n")


main()
