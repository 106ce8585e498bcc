#!/usr/bin/env python3
"""Golden vectors of GGUF's types as llama.cpp rounds values that come one by one (keys and values of a cache):
the blocks that ggml's own functions make of tests/golden/num/inputs.json's x.

    make_rows.py LIBGGML_BASE_SO

The library is only run (built from llama.cpp without FMA: cmake -DGGML_NATIVE=OFF -DGGML_FMA=OFF ...). Where the
gguf package (0.19) is installed, its independent rounding of the same types is compared. Writes
tests/golden/num/rows.json: by type, the blocks in hexadecimal."""
import ctypes
import json
import os
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
BYTES = {"q4_0": 18, "q4_1": 20, "q5_0": 22, "q5_1": 24, "q8_0": 34, "iq4_nl": 18}


def main():
    ggml = ctypes.CDLL(sys.argv[1])
    words = json.load(open(os.path.join(HERE, "inputs.json")))["x"]
    x = np.frombuffer(bytes.fromhex(words), ">u4").astype(np.uint32).view(np.float32).copy()
    out = {}
    for name, size in BYTES.items():
        blocks = np.zeros(x.size // 32 * size, np.uint8)
        run = getattr(ggml, f"quantize_row_{name}_ref")
        run.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64]
        run(x.ctypes.data, blocks.ctypes.data, x.size)
        if name == "iq4_nl":  # codes of zeros are not set; their scale is 0
            rows = blocks.reshape(-1, size)
            rows[(rows[:, 0] == 0) & (rows[:, 1] == 0), 2:] = 0
        else:
            from gguf import GGMLQuantizationType, quants
            theirs = quants.quantize(x.reshape(-1, 256), GGMLQuantizationType[name.upper()])
            assert bytes(theirs.tobytes()) == blocks.tobytes(), name
        out[name] = blocks.tobytes().hex()
    with open(os.path.join(HERE, "rows.json"), "w") as f:
        json.dump(out, f, indent=0)
        f.write("\n")


main()
