"""Golden tables of the element formats, made with ml_dtypes, PyTorch and NumPy: tests/golden/num/formats.json.

decode  the float32 bits of every code, one hex word a code (NaN as 7fc00000); f16 and bf16 as a SHA-256 of
        the 65,536 words, little endian
bf16    SHA-256 of the codes of all 65,536 bf16 values, in order of their bits, a byte each
ties    SHA-256 of the codes of the midpoint of each two neighbouring non-negative finite values, of the
        float below and the float above it, and of the negatives of these three, in order of the values
random  SHA-256 of the codes of 200,000 floats whose bits come from a linear congruential generator

Encoding saturates, so values are clipped to the largest finite one before the cast (f16 and bf16: IEEE, not
clipped). NaN inputs count as code 0. Little-endian 16-bit codes for f16 and bf16.
"""
import hashlib
import json
import os

import ml_dtypes
import numpy as np
import torch

f32 = np.float32
SMALL = {  # name: (dtype, bits, largest finite value)
    "fp8_e4m3": (ml_dtypes.float8_e4m3fn, 8, 448.0),
    "fp8_e5m2": (ml_dtypes.float8_e5m2, 8, 57344.0),
    "fp6_e3m2": (ml_dtypes.float6_e3m2fn, 6, 28.0),
    "fp6_e2m3": (ml_dtypes.float6_e2m3fn, 6, 7.5),
    "fp4_e2m1": (ml_dtypes.float4_e2m1fn, 4, 6.0),
    "e8m0": (ml_dtypes.float8_e8m0fnu, 8, 2.0**127),
}


def sha(a):
    return hashlib.sha256(a.tobytes()).hexdigest()


def random_floats(n=200000):
    out = np.empty(n, np.uint32)
    x = 12345
    for i in range(n):
        x = (x * 1664525 + 1013904223) & 0xFFFFFFFF
        out[i] = x
    return out.view(f32)


def decode_small(name):
    dtype, bits, _ = SMALL[name]
    return np.arange(1 << bits, dtype=np.uint8).view(dtype).astype(f32)


def encode_small(name, x):
    dtype, bits, top = SMALL[name]
    x = np.asarray(x, f32)
    nan = np.isnan(x)
    y = np.where(nan, f32(0), np.clip(x, -top, top))
    if name == "e8m0":  # no sign, and both libraries round below 2^-126 away from the nearest
        y = np.maximum(np.abs(y), f32(2.0**-126))
    code = y.astype(f32).astype(dtype).view(np.uint8) & ((1 << bits) - 1)
    kinds = {"fp8_e4m3": torch.float8_e4m3fn, "fp8_e5m2": torch.float8_e5m2, "e8m0": torch.float8_e8m0fnu}
    if name in kinds:  # a second opinion
        kind = kinds[name]
        other = torch.from_numpy(y.astype(f32)).to(kind).view(torch.uint8).numpy()
        assert np.array_equal(code, other), name
    return np.where(nan, 0, code).astype(np.uint8)


def ties(values):
    v = np.sort(values[np.isfinite(values) & ~np.signbit(values)]).astype(np.float64)
    mid = ((v[:-1] + v[1:]) / 2).astype(f32)
    assert np.array_equal(mid.astype(np.float64), (v[:-1] + v[1:]) / 2)
    three = np.stack([mid, np.nextafter(mid, f32(0)), np.nextafter(mid, f32(np.inf))], 1)
    return np.concatenate([three, -three], 1).reshape(-1)


def hex_words(x):
    bits = np.where(np.isnan(x), np.uint32(0x7FC00000), np.asarray(x, f32).view(np.uint32))
    return bits.astype(np.uint32)


def main():
    golden = {}
    every_bf16 = (np.arange(65536, dtype=np.uint32) << 16).view(f32)
    noise = random_floats()
    for name in SMALL:
        values = decode_small(name)
        golden[name] = {
            "decode": " ".join("%08x" % w for w in hex_words(values)),
            "bf16": sha(encode_small(name, every_bf16)),
            "ties": sha(encode_small(name, ties(values))),
            "random": sha(encode_small(name, noise)),
        }
    for name, kind, other in (("f16", torch.float16, np.float16), ("bf16", torch.bfloat16, ml_dtypes.bfloat16)):
        codes = np.arange(65536, dtype=np.uint16)
        values = torch.from_numpy(codes.view(np.int16)).view(kind).float().numpy()
        assert np.array_equal(hex_words(values), hex_words(codes.view(other).astype(f32)))
        golden[name] = {"decode": sha(hex_words(values))}
        for key, x in (("ties", ties(values)), ("random", noise)):
            x = np.where(np.isnan(x), f32(0), x).astype(f32)
            code = torch.from_numpy(x).to(kind).view(torch.int16).numpy().view(np.uint16)
            with np.errstate(over="ignore"):
                assert np.array_equal(code, x.astype(other).view(np.uint16))
            golden[name][key] = sha(code)
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "formats.json")
    with open(path, "w") as f:
        json.dump(golden, f, indent=1)
        f.write("\n")


main()
