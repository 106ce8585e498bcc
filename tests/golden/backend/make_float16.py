#!/usr/bin/env python3
"""Golden vectors of a cache in float16: numpy's rounding.

    make_float16.py      (numpy)

Writes tests/golden/backend/float16.json: numbers as hex words of their bits, and the codes they are kept in as hex words of
16 bits: np.float16 of what is clipped to its largest number."""
import json
import os

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))


def main():
    r = np.random.default_rng(16)
    size = np.float32(2) ** r.integers(-30, 20, 960).astype(np.float32)
    half = r.integers(0, 0x7bff, 32).astype(np.uint16).view(np.float16).astype(np.float32)
    next_half = (half.astype(np.float16).view(np.uint16) + 1).astype(np.uint16).view(np.float16).astype(np.float32)
    ends = [0, -0.0, 65504, -65504, 65519.996, 65520, -65520, 65536, 1e30, -3.4e38, np.inf, -np.inf,
            2.0 ** -14, 2.0 ** -14 - 2.0 ** -26, 2.0 ** -24, 2.0 ** -25, 2.0 ** -25 * (1 + 2.0 ** -23), 2.0 ** -26,
            -(2.0 ** -25), 1e-45, 1 + 2.0 ** -11, 1 + 3 * 2.0 ** -11, 0.1, -1 / 3, 1e-5, 6e-5, 1e4, -5e4, 2049, 2051, 4098, 7]
    x = np.concatenate([r.standard_normal(960).astype(np.float32) * size, (half + next_half) / 2,
                        np.array(ends, np.float32)]).astype(np.float32)
    code = np.clip(x, -65504, 65504).astype(np.float16)
    with open(os.path.join(HERE, "float16.json"), "w") as f:
        json.dump({"x": "".join("%08x" % w for w in x.view(np.uint32)),
                   "code": "".join("%04x" % w for w in code.view(np.uint16))}, f, indent=0)
        f.write("\n")


main()
