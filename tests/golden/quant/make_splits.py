#!/usr/bin/env python3
"""Golden vectors for splits and codebooks: what the authors' own SparseGPT makes of seeded problems, Wanda's
choice of zeros, and how well scikit-learn's k-means (which SqueezeLLM calls) does.

SparseGPT's code is only run, never copied. Give the root of its checkout:

    make_splits.py --sparsegpt PATH/sparsegpt

(IST-DASLab/sparsegpt at 147d215; torch, transformers and scikit-learn on CPU). Writes splits.json and
splits.masks beside this script. Inputs are not stored: tests/unit/quant/oracle.h makes the same ones, bit for
bit, from the seed.
"""
import argparse
import importlib
import json
import os
import sys

import numpy as np
import torch
from make_golden import HERE, Lcg, make_inputs, make_weights

# rows, cols, bits of the grid (0: 32-bit floats); seed is 100 + the index
PRUNE_CASES = [(48, 256, 0), (40, 384, 0), (48, 256, 8), (48, 256, 4), (40, 384, 3)]
# n, k; seed is 200 + the index
KMEANS_CASES = [(256, 8), (1024, 16), (4096, 8), (4096, 16)]


def problem(rows, cols, seed):
    lcg = Lcg(seed)
    w = make_weights(lcg, rows, cols)
    x = make_inputs(lcg, 2 * cols, cols).astype(np.float64)
    h = (2.0 * (x.T @ x) / (2 * cols)).astype(np.float32)
    return w, h


def loss_of(w, q, h):
    d = w.astype(np.float64) - q.astype(np.float64)
    return float(np.sum((d @ h.astype(np.float64)) * d) / w.shape[0])


def run_sparsegpt(module, case, seed):
    rows, cols, bits = case
    w, h = problem(rows, cols, seed)
    layer = torch.nn.Linear(cols, rows, bias=False)
    layer.weight.data = torch.from_numpy(w.copy())
    solver = module.SparseGPT(layer)
    solver.H = torch.from_numpy(h.copy())
    if bits:
        solver.quantizer = module.Quantizer()
        solver.quantizer.configure(bits, perchannel=True, sym=True, mse=False)
    torch.cuda.synchronize = lambda: None
    # Its mask is lost when zero is also a grid point: it is taken where topk chooses.
    masks = []
    topk = torch.topk

    def recording(x, n, **kwargs):
        out = topk(x, n, **kwargs)
        mask = torch.zeros_like(x, dtype=torch.bool).scatter_(1, out[1], True)
        masks.append(mask.numpy())
        return out

    torch.topk = recording
    solver.fasterprune(0.0, prunen=2, prunem=4)
    torch.topk = topk
    mask = np.concatenate(masks, axis=1)
    q = layer.weight.data.numpy()
    assert not q[mask].any()
    info = {"seed": seed, "rows": rows, "cols": cols, "grid": f"int{bits}:channel" if bits else "f32",
            "loss": loss_of(w, q, h)}
    return info, mask


def run_wanda(case, seed):
    """|w| times the norm of the input, the two smallest of each four (Sun et al. 2023, section 3)."""
    rows, cols, _ = case
    w, h = problem(rows, cols, seed)
    score = torch.abs(torch.from_numpy(w)) * torch.sqrt(torch.from_numpy(np.diag(h) / 2))[None, :]
    fours = score.reshape(rows, cols // 4, 4)
    mask = torch.zeros_like(fours, dtype=torch.bool)
    mask.scatter_(2, torch.topk(fours, 2, dim=2, largest=False)[1], True)
    mask = mask.reshape(rows, cols).numpy()
    return {"seed": seed, "rows": rows, "cols": cols, "loss": loss_of(w, np.where(mask, 0, w), h)}, mask


def run_kmeans(case, seed):
    from sklearn.cluster import KMeans
    n, k = case
    lcg = Lcg(seed)
    x = make_weights(lcg, 1, n)[0].astype(np.float64)
    weight = lcg.normal(n).astype(np.float32) ** 2
    best = KMeans(n_clusters=k, random_state=0, n_init=20, max_iter=300).fit(
        x.reshape(-1, 1), sample_weight=weight.astype(np.float64))
    levels = np.sort(best.cluster_centers_.reshape(-1))
    nearest = np.abs(x[:, None] - levels[None, :]).min(axis=1)
    return {"seed": seed, "n": n, "k": k, "loss": float(np.sum(weight * nearest ** 2))}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--sparsegpt", required=True)
    args = parser.parse_args()
    sys.path.insert(0, args.sparsegpt)
    module = importlib.import_module("sparsegpt")
    prune, wanda, masks = [], [], b""
    for i, case in enumerate(PRUNE_CASES):
        info, mask = run_sparsegpt(module, case, 100 + i)
        prune.append(info)
        masks += np.packbits(mask, axis=1, bitorder="little").tobytes()
    for i, case in enumerate(PRUNE_CASES[:2]):
        info, mask = run_wanda(case, 100 + i)
        wanda.append(info)
        masks += np.packbits(mask, axis=1, bitorder="little").tobytes()
    with open(os.path.join(HERE, "splits.masks"), "wb") as f:
        f.write(masks)
    kmeans = [run_kmeans(case, 200 + i) for i, case in enumerate(KMEANS_CASES)]
    with open(os.path.join(HERE, "splits.json"), "w") as f:
        json.dump({"source": "IST-DASLab/sparsegpt 147d215", "sparsegpt": prune, "wanda": wanda,
                   "kmeans": kmeans}, f, indent=1)
        f.write("\n")


if __name__ == "__main__":
    main()
