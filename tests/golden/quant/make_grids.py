"""Golden grids: what compressed-tensors, ModelOpt, bitsandbytes and HQQ make of one matrix.

Needs these four beside PyTorch; runs on a CPU. Writes tests/golden/quant/grids.json. The matrix is made by
arithmetic that the test repeats: sums of four 16-bit numbers of an xorshift generator, times powers of two.

<grid>     "codes": SHA-256 of one code a byte, row by row; "first": the first row's codes; "scales": hex words
           of floats that multiply an element (NVFP4: the block's E4M3 codes, and "global")
           bitsandbytes' FP4: codes 8, minus zero, as 0
hqq        bits -> sums of |w - q| and (w - q)^2, groups of 64 along the inputs, zero points as they come
"""
import hashlib
import json
import os
import sys

import numpy as np
import torch

ROWS, COLS = 132, 192
E2M1 = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])


def matrix():
    x, w = 2463534242, np.empty((ROWS, COLS), np.float32)
    for r in range(ROWS):
        for c in range(COLS):
            total = 0
            for _ in range(2):
                x ^= (x << 13) & 0xFFFFFFFF
                x ^= x >> 17
                x ^= (x << 5) & 0xFFFFFFFF
                total += (x & 0xFFFF) + (x >> 16)
            w[r, c] = np.float32((total - 131070) * 2.0 ** (-20 - r % 5 + (4 if c % 37 == 5 else 0)))
    return torch.from_numpy(w)


def words(x):
    return " ".join("%08x" % v for v in np.asarray(x, np.float32).reshape(-1).view(np.uint32))


def entry(codes, scales, **more):
    codes = np.asarray(codes, np.uint8).reshape(ROWS, COLS)
    return {
        "codes": hashlib.sha256(codes.tobytes()).hexdigest(),
        "first": codes[0].tobytes().hex(),
        "scales": words(scales),
        **more,
    }


def e2m1_codes(values):
    v = values.float()
    return torch.bucketize(v.abs(), E2M1).to(torch.uint8) | (torch.signbit(v).to(torch.uint8) << 3)


def minifloat_codes(values, exponent, mantissa):
    """Codes of values that the format holds, by its definition."""
    top = 2**exponent * 2**mantissa
    bias = 2 ** (exponent - 1) - 1
    codes = torch.arange(top)
    e, m = codes >> mantissa, codes & (2**mantissa - 1)
    levels = torch.where(
        e == 0, m * 2.0 ** (1 - bias - mantissa), (m + 2**mantissa) * torch.exp2((e - bias - mantissa).float())
    )
    v = values.float()
    found = torch.searchsorted(levels.contiguous(), v.abs().contiguous())
    return found.to(torch.uint8) | (torch.signbit(v).to(torch.uint8) << (exponent + mantissa))


def compressed_tensors(w):
    from compressed_tensors.quantization import QuantizationArgs
    from compressed_tensors.quantization.lifecycle.forward import quantize
    from compressed_tensors.quantization.utils import calculate_qparams, generate_gparam

    def ends(x, dims):
        return torch.amin(x, dim=dims), torch.amax(x, dim=dims)

    def blocks(x, n):
        rows, cols = -(-ROWS // n), -(-COLS // n)
        padded = torch.zeros(rows * n, cols * n)
        padded[:ROWS, :COLS] = x
        return padded.reshape(rows, n, cols, n).transpose(1, 2)

    out = {}

    def add(name, range_of, codes_of, global_scale=None, **args):
        a = QuantizationArgs(type="float", symmetric=True, **args)
        scale, zero = calculate_qparams(*range_of, a, global_scale=global_scale)
        if a.strategy == "channel":
            scale, zero = scale.reshape(-1, 1), zero.reshape(-1, 1)
        x = w.clone()
        if a.strategy == "block":  # ragged ends: padded
            n = a.block_structure[0]
            x = torch.zeros(scale.shape[0] * n, scale.shape[1] * n)
            x[:ROWS, :COLS] = w
        q = quantize(x, scale, None, a, global_scale=global_scale)[:ROWS, :COLS]
        out[name] = entry(codes_of(q), scale.float())
        if global_scale is not None:
            out[name]["global"] = words(global_scale)

    fp8 = lambda q: q.to(torch.float8_e4m3fn).view(torch.uint8)
    add("fp8_e4m3:tensor", (w.min(), w.max()), fp8, num_bits=8, strategy="tensor")
    add("fp8_e4m3:channel", ends(w, 1), fp8, num_bits=8, strategy="channel")
    add("fp8_e4m3:g64", ends(w.reshape(ROWS, -1, 64), 2), fp8, num_bits=8, strategy="group", group_size=64)
    add("fp8_e4m3:block128", ends(blocks(w, 128), (2, 3)), fp8, num_bits=8, strategy="block", block_structure=[128, 128])
    add("fp4_e2m1:g32", ends(w.reshape(ROWS, -1, 32), 2), e2m1_codes, num_bits=4, strategy="group", group_size=32)
    mx = dict(strategy="group", group_size=32, scale_dtype=torch.uint8)
    mx_ends = ends(w.reshape(ROWS, -1, 32), 2)
    add("mxfp4:even", mx_ends, e2m1_codes, num_bits=4, **mx)
    add("mxfp8:even", mx_ends, fp8, num_bits=8, **mx)
    add("mxfp6_e2m3:even", mx_ends, lambda q: minifloat_codes(q, 2, 3), num_bits=6, **mx)
    g = generate_gparam(w.min(), w.max())
    add("nvfp4", ends(w.reshape(ROWS, -1, 16), 2), e2m1_codes, global_scale=g, num_bits=4,
        strategy="tensor_group", group_size=16, scale_dtype=torch.float8_e4m3fn)
    return out


def modelopt(w):
    from modelopt.torch.quantization.qtensor import MXFP4QTensor, MXFP8QTensor, NVFP4QTensor

    def nibbles(packed):
        p = packed.reshape(ROWS, COLS // 2)
        return torch.stack((p & 15, p >> 4), 2).reshape(ROWS, COLS)

    out = {}
    q, scale = MXFP4QTensor.quantize(w.clone(), 32)
    out["mxfp4:ceil"] = entry(nibbles(q._quantized_data), torch.exp2(scale.float() - 127))
    q, scale = MXFP8QTensor.quantize(w.clone())
    out["mxfp8:ceil"] = entry(q._quantized_data.view(torch.uint8), torch.exp2(scale.float() - 127))
    q, scale, scale2 = NVFP4QTensor.quantize(w.clone(), 16)
    out["modelopt nvfp4"] = entry(nibbles(q._quantized_data), scale.float(), **{"global": words(scale2)})
    return out


def bitsandbytes(w):
    import bitsandbytes.functional as bnb

    out = {}
    for kind, name in (("nf4", "nf4:g64"), ("fp4", "bnb_fp4:g64")):
        for nested in (False, True):
            q, state = bnb.quantize_4bit(w.clone(), blocksize=64, quant_type=kind, compress_statistics=nested)
            p = q.reshape(-1)
            codes = torch.stack((p >> 4, p & 15), 1)
            if kind == "fp4":  # the sign of a zero: its kernels for CPUs and GPUs differ in it
                codes = torch.where(codes == 8, 0, codes)
            back = bnb.dequantize_4bit(q, state)
            scale = state.absmax
            more = {"squares": float(((w - back).double() ** 2).sum())}
            if nested:
                scale = bnb.dequantize_blockwise(state.absmax, state.state2) + state.offset
                more["nested"] = state.absmax.numpy().astype(np.uint8).tobytes().hex()
                more["nested_absmax"] = words(state.state2.absmax)
                more["offset"] = words(state.offset)
            out[name + (":dq" if nested else "")] = entry(codes, scale, **more)
    return out


def hqq(w):
    from hqq.core.quantize import Quantizer

    out = {}
    for bits in (2, 3, 4, 8):
        q, meta = Quantizer.quantize(
            w.clone(), nbits=bits, group_size=64, axis=1, optimize=True, round_zero=False,
            compute_dtype=torch.float32, device="cpu", bitpack=False)
        meta["compute_dtype"] = torch.float32
        d = (w - Quantizer.dequantize(q, meta)).double()
        out[str(bits)] = [float(d.abs().sum()), float((d * d).sum())]
    return out


def main():
    w = matrix()
    golden = {"rows": ROWS, "cols": COLS, "sum": words(w.double().sum().float())}
    golden.update(compressed_tensors(w))
    golden.update(modelopt(w))
    golden.update(bitsandbytes(w))
    golden["hqq"] = hqq(w)
    path = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "grids.json")
    with open(path, "w") as f:
        json.dump(golden, f, indent=0)
        f.write("\n")


main()
