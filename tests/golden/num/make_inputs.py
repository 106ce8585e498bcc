#!/usr/bin/env python3
"""Golden vectors of activations rounded as the peers do: compressed-tensors' fake quantization, bitsandbytes'
int8 of a CPU, ModelOpt's tensors.

The packages are only run. Needs compressed-tensors (0.20), bitsandbytes (0.50) and nvidia-modelopt (0.47)
beside PyTorch. Writes tests/golden/num/inputs.json. Floats are hex words of their bits.

x      5 rows of 256: outlier columns, one sign, many magnitudes, ties, zeros
cases  grid, rule, scale, zero and threshold as struct pith_input has them, and the rounded rows y; "loose":
       equal to rounding; "without_row": not to be compared
"""
import json
import os

import numpy as np
import torch
from compressed_tensors.quantization import QuantizationArgs
from compressed_tensors.quantization.lifecycle.forward import fake_quantize
from compressed_tensors.quantization.utils import calculate_qparams, compute_dynamic_scales_and_zp

ROWS, COLS = 5, 256


def words(x):
    return "".join("%08x" % w for w in np.asarray(x, np.float32).reshape(-1).view(np.uint32))


def data():
    rng = np.random.default_rng(11)
    x = rng.standard_normal((ROWS, COLS)).astype(np.float32)
    x[0:2, 17] = [9.5, -11.25]
    x[0:2, 130] = [1.0, -7.5]
    x[1] *= np.where(np.arange(COLS) % 3 == 0, 0.01, 1.0)
    x[2, :128] = -np.abs(x[2, :128]) - 1  # one sign, then many magnitudes
    x[2, 128:] *= np.exp(2 * rng.standard_normal(128)).astype(np.float32)
    x[3, :128] = rng.integers(-8, 8, 128) * 0.25  # ties, then many zeros
    x[3, 128:] *= rng.random(128) < 0.1
    x[4] = 0
    return x


def arguments(kind, bits, symmetric, strategy, dynamic, group=None, scale_dtype=None):
    a = dict(num_bits=bits, type=kind, symmetric=symmetric, strategy=strategy, dynamic=dynamic)
    if group:
        a["group_size"] = group
    if scale_dtype:
        a["scale_dtype"] = scale_dtype
    return QuantizationArgs(**a)


def dynamic(x, args, global_scale=None):
    scale, zero = compute_dynamic_scales_and_zp(value=x, args=args, module=None, global_scale=global_scale)
    return fake_quantize(x=x, scale=scale, zero_point=zero, args=args, global_scale=global_scale)


def static(x, args):
    """The scale of two thirds of the range, so that some values are cut off."""
    scale, zero = calculate_qparams(x.min() * 2 / 3, x.max() * 2 / 3, args)
    y = fake_quantize(x=x, scale=scale, zero_point=zero, args=args)
    half = 2.0 ** (args.num_bits - 1) if args.type == "int" else 0.0
    return y, float(scale), float(zero.float()) + half if not args.symmetric else 0.0


def of_compressed_tensors(x):
    fp8, u8 = torch.float8_e4m3fn, torch.uint8
    cases = [
        ("int8:token", ("int", 8, True, "token", True)),
        ("int4:token", ("int", 4, True, "token", True)),
        ("int8:token:asym", ("int", 8, False, "token", True)),
        ("int4:token:asym", ("int", 4, False, "token", True)),
        ("int8:tensor", ("int", 8, True, "tensor", True)),
        ("int8:g128", ("int", 8, True, "group", True, 128)),
        ("int4:g32", ("int", 4, True, "group", True, 32)),
        ("fp8_e4m3:token", ("float", 8, True, "token", True)),
        ("fp8_e4m3:tensor", ("float", 8, True, "tensor", True)),
        ("fp8_e4m3:g128", ("float", 8, True, "group", True, 128)),
        ("mxfp8", ("float", 8, True, "group", True, 32, u8)),
        ("mxfp6_e2m3", ("float", 6, True, "group", True, 32, u8)),
        ("mxfp4", ("float", 4, True, "group", True, 32, u8)),
        ("int8:tensor:static", ("int", 8, True, "tensor", False)),
        ("int8:tensor:asym:static", ("int", 8, False, "tensor", False)),
        ("fp8_e4m3:tensor:static", ("float", 8, True, "tensor", False)),
    ]
    for grid, a in cases:
        args = arguments(*a)
        if args.dynamic:
            # A token's scale is taken over all but the first two axes.
            y = dynamic(x.unsqueeze(0), args).squeeze(0) if args.strategy == "token" else dynamic(x, args)
            yield dict(grid=grid, rule=0, scale=0.0, zero=0.0, threshold=0.0, y=words(y))
        else:
            y, scale, zero = static(x, args)
            yield dict(grid=grid, rule=0, scale=scale, zero=zero, threshold=0.0, y=words(y))
    for factor in (1.0, 0.1):
        g = np.float32(factor * float(x.abs().max()) / (448.0 * 6.0))
        while np.float32(1) / (np.float32(1) / g) != g:
            g = np.nextafter(g, np.float32(1))
        divisor = torch.tensor([np.float32(1) / g])
        y = dynamic(x, arguments("float", 4, True, "tensor_group", "local", 16, fp8), divisor)
        yield dict(grid="nvfp4", rule=0, scale=float(g), zero=0.0, threshold=0.0, y=words(y))


def of_bitsandbytes(x):
    import bitsandbytes  # registers the operators

    for threshold in (0.0, 6.0):
        q, stats, columns = torch.ops.bitsandbytes.int8_vectorwise_quant.default(x.clone(), threshold)
        y = torch.where(stats[:, None] == 0, torch.zeros_like(x), q.float() * (stats[:, None] / 127.0))
        if columns is not None:
            y[:, columns] = x[:, columns]
        yield dict(grid="int8:token", rule=1, scale=0.0, zero=0.0, threshold=threshold, y=words(y))


def of_modelopt(x):
    from modelopt.torch.quantization.qtensor import MXFP4QTensor, MXFP8QTensor, NVFP4QTensor
    from modelopt.torch.quantization.tensor_quant import _tensor_quant, fp8_eager

    quant, scale = MXFP4QTensor.quantize(x, 32)
    y = quant.dequantize(torch.float32, scale=scale.reshape(-1, 1), block_sizes={-1: 32})
    # Its ties go down, where hardware takes the even code: the row of ties is left out.
    yield dict(grid="mxfp4", rule=2, scale=0.0, zero=0.0, threshold=0.0, without_row=3, y=words(y))
    quant, scale = MXFP8QTensor.quantize(x)
    y = quant.dequantize(torch.float32, scale=scale)
    yield dict(grid="mxfp8", rule=2, scale=0.0, zero=0.0, threshold=0.0, y=words(y))
    g = x.abs().max() / (6.0 * 448.0)
    quant, scale, double = NVFP4QTensor.quantize(x.clone(), 16, None, g)
    y = quant.dequantize(torch.float32, scale=scale, double_scale=double, block_sizes={-1: 16})
    yield dict(grid="nvfp4", rule=2, scale=float(g), zero=0.0, threshold=0.0, y=words(y))
    # Their scale is the reciprocal of the one that is exported: equal to rounding only.
    amax = x.abs().max() / 2
    y = _tensor_quant(x, amax, 8, False, True)
    yield dict(grid="int8:tensor:static", rule=2, scale=float(amax / 127), zero=0.0, threshold=0.0, loose=True,
               y=words(y))
    y = fp8_eager(x, amax)
    yield dict(grid="fp8_e4m3:tensor:static", rule=2, scale=float(amax / 448), zero=0.0, threshold=0.0,
               loose=True, y=words(y))


def main():
    x = torch.from_numpy(data())
    cases = [c for source in (of_compressed_tensors, of_bitsandbytes, of_modelopt) for c in source(x)]
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "inputs.json")
    with open(path, "w") as f:
        json.dump({"rows": ROWS, "cols": COLS, "x": words(x), "cases": cases}, f, indent=0)
        f.write("\n")


if __name__ == "__main__":
    main()
