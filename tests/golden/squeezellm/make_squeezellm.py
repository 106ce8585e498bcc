#!/usr/bin/env python3
"""Files as SqueezeLLM's own code packs them, and the matrices that they stand for.

Its code is only run, never copied. Give the root of its checkout:

    make_squeezellm.py PATH/SqueezeLLM

(SqueezeAILab/SqueezeLLM at a5fd71f; torch and safetensors on CPU). Writes 3.safetensors and 4.safetensors beside
this script: module "m" of 40 x 96 with kept weights, "d" of the same shape without, and "want.m", "want.d", the
matrices in float32.
"""
import os
import sys
import types

import numpy as np
import torch
from safetensors.torch import save_file

HERE = os.path.dirname(os.path.abspath(__file__))
ROWS, COLS = 40, 96


def pack(quant, bits, rng, kept):
    """One matrix: random levels and codes, and some outliers where the dense part holds 0."""
    levels = np.sort(rng.normal(0, 0.05, (ROWS, 1 << bits)), axis=1).astype(np.float16).astype(np.float32)
    codes = rng.integers(0, 1 << bits, (ROWS, COLS))
    outliers = np.zeros((ROWS, COLS), np.float32)
    if kept:
        chosen = rng.random((ROWS, COLS)) < 0.02
        chosen[3] = False  # a row without
        codes = np.where(chosen, np.abs(levels).argmin(axis=1)[:, None], codes)
        outliers[chosen] = rng.normal(0, 0.5, chosen.sum()).astype(np.float16)
    layer = quant.QuantLinearLUT(bits, COLS, ROWS, False, include_sparse=kept)
    linear = torch.nn.Linear(COLS, ROWS, bias=False)
    table = [[(levels[r], codes[r].astype(np.int8))] for r in range(ROWS)]
    layer.pack2(linear, (table, torch.from_numpy(outliers).to_sparse() if kept else None), kept)
    want = np.take_along_axis(levels, codes, axis=1)
    tensors = {k: v.contiguous() for k, v in layer.state_dict().items()}
    if kept:
        dense = torch.sparse_csr_tensor(layer.rows.long(), layer.cols.long(), layer.vals, (ROWS, COLS)).to_dense()
        want = want + dense.numpy()
        assert np.allclose(want[outliers != 0], outliers[outliers != 0], atol=1e-7)
    return tensors, want.astype(np.float32)


def main():
    sys.path.insert(0, os.path.join(sys.argv[1], "squeezellm"))
    sys.modules["quant_cuda"] = types.ModuleType("quant_cuda")
    import quant
    for bits in (3, 4):
        rng = np.random.default_rng(bits)
        out = {}
        for name, kept in (("m", True), ("d", False)):
            tensors, want = pack(quant, bits, rng, kept)
            out.update({f"{name}.{k}": v for k, v in tensors.items()})
            out[f"want.{name}"] = torch.from_numpy(want)
        save_file(out, os.path.join(HERE, f"{bits}.safetensors"))


if __name__ == "__main__":
    main()
