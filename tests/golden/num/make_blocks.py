"""Golden blocks: torchao's microscaling and NVFP4, bitsandbytes' 4-bit formats and double quantization.

Needs torchao and bitsandbytes beside PyTorch. Writes tests/golden/num/blocks.json. Floats are written as hex
words of their bits, codes as two hex digits each.

x          96 blocks of 32 floats of many magnitudes; block 0 is zero, block 1 as small as floats get
mx         format -> codes and scales of each block, the specification's rule for the scale
nvfp4      codes and scales of the 192 blocks of 16 without blocks 0 and 1, for the given global scale
nf4, fp4   codes, absmax and values of the blocks of 64, by bitsandbytes
dynamic    the 256 levels of the second quantization
double     a vector of scales, its mean, codes, scales and restored values. The library looks levels up by a
           table, so a value close to a midpoint may get the other neighbour.
"""
import json
import os
import sys

import bitsandbytes.functional as bnb
import numpy as np
import torch
from torchao.prototype.mx_formats.mx_tensor import DTYPE_FP6_E2M3, DTYPE_FP6_E3M2, ScaleCalculationMode, to_mx
from torchao.prototype.mx_formats.nvfp4_tensor import nvfp4_quantize

f32 = np.float32


def words(x):
    return " ".join("%08x" % w for w in np.asarray(x, f32).reshape(-1).view(np.uint32))


def codes(x):
    return bytes(np.asarray(x, np.uint8).reshape(-1)).hex()


def halves(packed, high_first):
    p = np.asarray(packed, np.uint8).reshape(-1)
    pair = (p >> 4, p & 15) if high_first else (p & 15, p >> 4)
    return np.stack(pair, 1).reshape(-1)


def data():
    rng = np.random.default_rng(7)
    scale = np.exp2(rng.integers(-20, 20, (96, 1))).astype(f32)
    x = (rng.standard_normal((96, 32)).astype(f32) * scale).astype(f32)
    x[40:60] *= np.exp(2 * rng.standard_normal((20, 32))).astype(f32)  # outliers
    x[60:70] = np.where(rng.random((10, 32)) < 0.7, 0, x[60:70])  # sparse
    x[0] = 0
    x[1] = (rng.integers(-100, 100, 32) * 2.0**-149).astype(f32)
    return x


def main():
    x = data()
    t = torch.from_numpy(x)
    golden = {"x": words(x), "mx": {}}
    kinds = {
        "mxfp8": torch.float8_e4m3fn,
        "mxfp8_e5m2": torch.float8_e5m2,
        "mxfp6_e3m2": DTYPE_FP6_E3M2,
        "mxfp6_e2m3": DTYPE_FP6_E2M3,
        "mxfp4": torch.float4_e2m1fn_x2,
    }
    for name, kind in kinds.items():
        scale, q = to_mx(t, kind, 32, ScaleCalculationMode.FLOOR)
        q = q.view(torch.uint8).numpy()
        q = halves(q, False) if name == "mxfp4" else q
        golden["mx"][name] = {"scales": codes(scale.view(torch.uint8).numpy()), "codes": codes(q)}

    rest = t[2:].reshape(-1, 16).contiguous()
    rest = rest / 64  # another range than above
    g = rest.abs().max() / (6 * 448)
    scale, q = nvfp4_quantize(rest, 16, g)
    golden["nvfp4"] = {
        "global": words(g.numpy()),
        "scales": codes(scale.view(torch.uint8).numpy()),
        "codes": codes(halves(q.view(torch.uint8).numpy(), False)),
    }
    for name in ("nf4", "fp4"):
        q, state = bnb.quantize_4bit(t, blocksize=64, quant_type=name)
        back = bnb.dequantize_4bit(q, state)
        h = halves(q.numpy(), True)
        want = state.code.numpy()[h].reshape(-1, 64) * state.absmax.numpy().reshape(-1, 1)
        print(name, "values off by", np.abs(back.numpy().reshape(want.shape) - want).max(), file=sys.stderr)
        golden[name] = {"codes": codes(h), "absmax": words(state.absmax.numpy()), "values": words(want)}
    golden["dynamic"] = words(bnb.create_dynamic_map().numpy())
    rng = np.random.default_rng(8)
    absmax = torch.from_numpy((np.abs(rng.standard_normal(600)) ** 1.5 * 0.05).astype(f32))
    offset = absmax.mean()
    q, state = bnb.quantize_blockwise(absmax - offset, blocksize=256)
    back = bnb.dequantize_blockwise(q, state) + offset
    golden["double"] = {
        "absmax": words(absmax.numpy()),
        "offset": words(offset.numpy()),
        "codes": codes(q.numpy()),
        "nested": words(state.absmax.numpy()),
        "restored": words(back.numpy()),
    }
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "blocks.json")
    with open(path, "w") as f:
        json.dump(golden, f, indent=1)
        f.write("\n")


main()
