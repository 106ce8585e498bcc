#!/usr/bin/env python3
"""Golden vectors of attention whose queries and weights are rounded to FP8, by PyTorch's own casts.

    make_attention_fp8.py      (PyTorch, which is only run)

Everything else is in float64. A chunk is 512 positions from a multiple of 512 on: its weights, relative to its
largest and 256 times as large, are cast before they are multiplied with values; their sum is of the weights as
they were. Writes attention_fp8.json: for each case what attention gives, as hex words of float32."""
import json
import os

import numpy as np
import torch

HERE = os.path.dirname(os.path.abspath(__file__))
CHUNK = 512
TYPES = {"fp8_e4m3": torch.float8_e4m3fn, "fp8_e5m2": torch.float8_e5m2}


def numbers(n, step):
    """What tests/unit/backend/test_attention.c fills its arrays with."""
    return torch.tensor([((step * i) % 1009 - 504) / 346.0 for i in range(n)], dtype=torch.float32)


def cast(x, kind):
    most = torch.finfo(TYPES[kind]).max
    return x.to(torch.float32).clamp(-most, most).to(TYPES[kind]).to(torch.float64)


def queries(q, grid):
    kind, _, scale = grid.partition(":")
    if scale != "token":
        return cast(q, kind)
    s = q.abs().amax(-1, keepdim=True) / torch.finfo(TYPES[kind]).max  # float32, as pith's formula is
    return cast(q / s, kind) * s.to(torch.float64)


def attend(case):
    n, start, heads, kv_heads, dim = (case[k] for k in ("n", "start", "heads", "kv_heads", "dim"))
    q = queries(numbers(n * heads * dim, 37).view(n, heads, dim), case["grid"])
    k = numbers((start + n) * kv_heads * dim, 41).view(-1, kv_heads, dim).to(torch.float64)
    v = numbers((start + n) * kv_heads * dim, 43).view(-1, kv_heads, dim).to(torch.float64)
    out = torch.zeros(n, heads, dim, dtype=torch.float64)
    for i in range(n):
        for h in range(heads):
            s = k[: start + i + 1, h * kv_heads // heads] @ q[i, h] / dim**0.5
            parts = []
            for at in range(0, len(s), CHUNK):
                some = s[at : at + CHUNK]
                p = torch.exp(some - some.max())
                rounded = cast(p * 256, case["grid"].split(":")[0]) / 256
                parts.append((some.max(), p.sum(), rounded @ v[at : at + len(some), h * kv_heads // heads]))
            top = max(m for m, _, _ in parts)
            total = sum(w * torch.exp(m - top) for m, w, _ in parts)
            out[i, h] = sum(o * torch.exp(m - top) for m, _, o in parts) / total
    return out


def words(x):
    return "".join("%08x" % w for w in np.asarray(x, np.float32).reshape(-1).view(np.uint32))


cases = []
for grid in ("fp8_e4m3", "fp8_e5m2", "fp8_e4m3:token", "fp8_e5m2:token"):
    for n, start, heads, kv_heads, dim in ((21, 0, 4, 2, 16), (5, 1022, 2, 1, 24)):
        case = {"grid": grid, "n": n, "start": start, "heads": heads, "kv_heads": kv_heads, "dim": dim}
        cases.append({**case, "out": words(attend(case))})
with open(os.path.join(HERE, "attention_fp8.json"), "w") as f:
    json.dump(cases, f, indent=0)
    f.write("\n")
