"""Golden blocks of GGUF's tensor types: random bytes and what they stand for.

Needs the gguf package and numpy; with the path of libggml-base as an argument its own dequantization is asked
too, and must agree. Writes tests/golden/num/kquants.json: for each type its number in ggml, elements and bytes a
block, the blocks in hex, and their values as hex words of their bits (the sign of a zero left out).
"""
import ctypes
import json
import os
import sys

import gguf
import numpy as np
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType as T

f32 = np.float32
TYPES = ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS", "MXFP4", "NVFP4",
         "IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "TQ1_0", "TQ2_0", "Q1_0", "Q2_0"]
# Where a block has halves: they must be finite.
HALVES = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82], "Q3_K": [108],
          "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "IQ4_NL": [0], "IQ4_XS": [0], "MXFP4": [], "NVFP4": [],
          "IQ1_S": [0], "IQ1_M": [], "IQ2_XXS": [0], "IQ2_XS": [0], "IQ2_S": [0], "IQ3_XXS": [0], "IQ3_S": [0], "TQ1_0": [52],
          "TQ2_0": [64], "Q1_0": [0], "Q2_0": [0]}
# What the package does not dequantize: number, elements, bytes; bits and values.
NEW = {"Q1_0": ((41, 128, 18), (1, (-1, 1))), "Q2_0": ((42, 64, 18), (2, (-1, 0, 1, 2)))}


def by_ggml(lib, number, block, elements, blocks):
    """ggml_get_type_traits gives a struct: name, three sizes, a flag, then the function to_float."""
    class Traits(ctypes.Structure):
        _fields_ = [("name", ctypes.c_char_p), ("blck", ctypes.c_int64), ("interleave", ctypes.c_int64),
                    ("size", ctypes.c_size_t), ("quantized", ctypes.c_bool),
                    ("to_float", ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64))]
    lib.ggml_get_type_traits.restype = ctypes.POINTER(Traits)
    traits = lib.ggml_get_type_traits(number).contents
    assert traits.blck == elements and traits.size == block
    out = np.empty(blocks.shape[0] * elements, f32)
    traits.to_float(blocks.ctypes.data, out.ctypes.data, out.size)
    return out.reshape(blocks.shape[0], elements)


def by_formula(blocks, bits, values):
    """A half, then `bits` a weight, in order, each one of `values` times the half."""
    d = blocks[:, :2].copy().view(np.float16).astype(f32)
    q = (blocks[:, 2:, None] >> np.arange(0, 8, bits, dtype=np.uint8)) & ((1 << bits) - 1)
    return np.array(values, f32)[q.reshape(blocks.shape[0], -1)] * d


def ternary(rng, n, count):
    """Bytes that `count` digits to the base of 3 are written as, the first counting most."""
    number = (rng.integers(0, 3**count, n) * 3**(5 - count)).astype(np.uint32)
    return ((number * 256 + 242) // 243).astype(np.uint8)


def main():
    lib = ctypes.CDLL(sys.argv[1]) if len(sys.argv) > 1 else None
    rng = np.random.default_rng(11)
    golden = {}
    for name in TYPES:
        kind = getattr(T, name, None)
        number, elements, size = NEW[name][0] if name in NEW else (int(kind), *GGML_QUANT_SIZES[kind])
        n = 4 if elements == 256 else 8
        blocks = rng.integers(0, 256, (n, size)).astype(np.uint8)
        for at in HALVES[name]:
            h = rng.standard_normal(n).astype(np.float16)
            h[1] *= np.float16(2.0**-18)  # subnormal
            h[h == 0] = np.float16(2.0**-24)  # which has one form
            blocks[:, at:at + 2] = h.view(np.uint8).reshape(n, 2)
        if name == "MXFP4":
            blocks[:, 0] = [0, 1, 2, 100, 127, 130, 200, 250]
        if name == "NVFP4":
            blocks[:, :4] &= 0x7F
            blocks[0, :4] = [0, 1, 0x7F, 0x7E]
        if name == "IQ1_M":  # the half is in the upper quarters of four words
            h = rng.standard_normal(n).astype(np.float16)
            h[1] *= np.float16(2.0**-18)
            for i in range(4):
                blocks[:, 49 + 2 * i] = blocks[:, 49 + 2 * i] & 15 | ((h.view(np.uint16) >> 4 * i & 15) << 4)
        if name == "TQ1_0":
            blocks[:, :48] = ternary(rng, (n, 48), 5)
            blocks[:, 48:52] = ternary(rng, (n, 4), 4)
        values = by_formula(blocks, *NEW[name][1]) if name in NEW else gguf.quants.dequantize(blocks, kind).astype(f32).reshape(n, elements)
        values = values + f32(0)  # -0 becomes 0
        if lib:
            assert np.array_equal(values, by_ggml(lib, number, size, elements, blocks)), name
        golden[name] = {"id": number, "elements": elements, "bytes": size, "blocks": blocks.tobytes().hex(),
                        "values": " ".join("%08x" % w for w in values.reshape(-1).view(np.uint32))}
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "kquants.json"), "w") as f:
        json.dump(golden, f, indent=0)


main()
