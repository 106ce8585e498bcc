"""How far ggml's own quantization of GGUF's types is from a matrix, with and without an importance matrix.

Needs the gguf package, numpy and the path of libggml-base as the argument. Writes tests/golden/quant/kfit.json: for
each type the squared error of all weights, and the error weighted by the importance. The matrix and the
importance are not stored: tests/unit/quant/test_kfit.c makes the same ones, bit for bit.
"""
import ctypes
import json
import os
import sys

import gguf
import numpy as np
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType as T

f32 = np.float32
TYPES = ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS"]
ROWS, COLS = 16, 512


def matrix():
    x, w = 2463534242, np.empty((ROWS, COLS), f32)
    for r in range(ROWS):
        for c in range(COLS):
            total = -131070
            for _ in range(2):
                x ^= (x << 13) & 0xFFFFFFFF
                x ^= x >> 17
                x ^= (x << 5) & 0xFFFFFFFF
                total += (x & 0xFFFF) + (x >> 16)
            w[r, c] = f32(np.ldexp(total, -20 - r % 5 + (4 if c % 37 == 5 else 0)))
    return w


def main():
    lib = ctypes.CDLL(sys.argv[1])
    lib.ggml_quantize_chunk.restype = ctypes.c_size_t
    lib.ggml_quantize_chunk.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p] + [ctypes.c_int64] * 3 + [ctypes.c_void_p]
    w = matrix()
    c = np.arange(COLS)
    importance = ((c * 37 % 64 + 1) / 16 * np.where(c % 29 == 3, 30, 1)).astype(f32)
    golden = {}
    for name in TYPES:
        kind = getattr(T, name)
        elements, size = GGML_QUANT_SIZES[kind]
        entry = {}
        for key, h in (("plain", None), ("weighted", importance)):
            blocks = np.empty((ROWS, COLS // elements * size), np.uint8)
            lib.ggml_quantize_chunk(int(kind), w.ctypes.data, blocks.ctypes.data, 0, ROWS, COLS,
                                    h.ctypes.data if h is not None else None)
            q = gguf.quants.dequantize(blocks, kind).reshape(w.shape)
            error = (q.astype(np.float64) - w) ** 2
            entry[key] = float((error * (1 if h is None else h)).sum())
        golden[name.lower()] = entry
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "kfit.json"), "w") as f:
        json.dump(golden, f, indent=1)
        f.write("\n")


main()
