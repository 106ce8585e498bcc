#!/usr/bin/env python3
"""Golden vectors for the transform smooth: llm-compressor's own scales on seeded problems.

llm-compressor (0.14) is only run. It states both statistics twice over: the range of an input, max - min, and
2 max|w|. Given 2 max|x| for the range its scales are 2^(2a - 1) times those of the paper's formula, which
pith follows: equal at a strength of 1/2. Inputs are not stored: tests/unit/quant/oracle.h makes the same
ones, bit for bit, from the seed. Writes smooth.json beside this script.
"""
import json
import os
import types

import torch
from llmcompressor.modifiers.transform.smoothquant.base import SmoothQuantModifier
from make_golden import Lcg, make_inputs, make_weights

CASES = [(24, 40, 128, 64, 0.5), (24, 40, 128, 64, 0.8), (16, 8, 96, 32, 0.3)]


def run(rows, more, cols, tokens, strength, seed):
    lcg = Lcg(seed)
    linears = []
    for r in (rows, more):
        layer = torch.nn.Linear(cols, r, bias=False)
        layer.weight = torch.nn.Parameter(torch.from_numpy(make_weights(lcg, r, cols)), requires_grad=False)
        linears.append(layer)
    x = torch.from_numpy(make_inputs(lcg, tokens, cols))
    options = types.SimpleNamespace(algorithm="smoothquant", smoothing_strength=strength)
    scales = SmoothQuantModifier._calculate_smoothing_scales(options, linears, 2.0 * x.abs().max(dim=0)[0])
    return dict(rows=rows, more=more, cols=cols, tokens=tokens, strength=strength,
                scales=[float(s) for s in scales])


def main():
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "smooth.json")
    with open(path, "w") as f:
        json.dump([run(*c, seed=i + 1) for i, c in enumerate(CASES)], f, indent=0)
        f.write("\n")


if __name__ == "__main__":
    main()
