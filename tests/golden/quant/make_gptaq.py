#!/usr/bin/env python3
"""Golden vectors for the rounders gptaq and qep: what their published formulas give in double precision.

    make_gptaq.py

Written from the papers: GPTAQ (Li et al. 2025, "GPTAQ: efficient finetuning-free quantization for
asymmetric calibration"), whose term is P = alpha * striu(D U^T) U for D = dX X^T, U the upper Cholesky factor
of H^-1, each column's own weight, as it has moved by then, times its row of P added to the columns after it;
QEP (Arai, Ichikawa 2025, "Quantization error propagation"), which is GPTQ of W + alpha W D H^-1. Writes
gptaq.json and gptaq.codes beside this script. Inputs are not stored: tests/unit/quant/oracle.h makes the same ones,
bit for bit, from the seed.
"""
import json
import os

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
MASK = (1 << 64) - 1
SD = np.float32(1.0 / 37837.0)
DAMP = 0.01

CASES = [
    # form, rows, cols, bits, group (0: channel), sym, order, alpha; seed is the index + 1
    ("gptaq", 40, 160, 4, 32, True, "none", 1.0),
    ("gptaq", 40, 160, 4, 32, True, "static", 1.0),
    ("gptaq", 24, 192, 3, 64, False, "none", 0.25),
    ("gptaq", 70, 256, 2, 64, False, "static", 1.0),
    ("gptaq", 24, 160, 8, 0, True, "static", 0.5),
    ("qep", 40, 160, 4, 32, True, "none", 1.0),
    ("qep", 40, 160, 4, 32, True, "static", 1.0),
    ("qep", 24, 192, 3, 64, False, "none", 0.5),
    ("qep", 70, 256, 2, 64, False, "static", 1.0),
    ("qep", 24, 160, 8, 0, True, "static", 1.0),
]


class Lcg:
    """Sums of four 16-bit numbers from a 64-bit linear congruential generator: nearly normal, exact."""

    def __init__(self, seed):
        self.state = seed

    def normal(self, n):
        out = np.empty(n, np.float32)
        state = self.state
        for i in range(n):
            total = -131070
            for _ in range(4):
                state = (state * 6364136223846793005 + 1442695040888963407) & MASK
                total += state >> 48
            out[i] = total
        self.state = state
        return out * SD


def make_inputs(lcg, tokens, cols):
    x = lcg.normal(tokens * cols).reshape(tokens, cols)
    for c in range(1, cols):
        x[:, c] = np.float32(0.8) * x[:, c - 1] + np.float32(0.6) * x[:, c]
    x[:, 5::37] *= np.float32(10.0)
    return np.rint(x * np.float32(64.0)) / np.float32(64.0)


def fit(w, bits, sym):
    """Scale and zero point of each row."""
    top = 2.0**bits - 1
    low, high = np.minimum(w.min(1), 0), np.maximum(w.max(1), 0)
    if sym:
        high = np.maximum(np.abs(low), high)
        low = -high
    scale = np.float32(high - low) / np.float32(top)
    zero = np.full(len(w), (top + 1) / 2) if sym else np.rint(-low / scale)
    return scale.astype(np.float64), zero


def sweep(w, h, d, case):
    form, rows, cols, bits, group, sym, order, alpha = case
    perm = np.argsort(-np.diag(h), kind="stable") if order == "static" else np.arange(cols)
    hp = h[np.ix_(perm, perm)].copy()
    hp[np.diag_indices(cols)] += DAMP * np.mean(np.diag(h))
    dp = d[np.ix_(perm, perm)]
    inverse = np.linalg.inv(hp)
    u = np.linalg.cholesky(inverse).T
    work = w[:, perm].copy()
    p = np.zeros_like(hp)
    if form == "gptaq":
        p = alpha * np.triu(dp @ u.T, 1) @ u
    else:
        work += alpha * work @ dp @ inverse
    wide = group or cols
    static = [fit(w[:, g : g + wide], bits, sym) for g in range(0, cols, wide)]
    codes, values = np.empty((rows, cols), np.uint8), np.empty((rows, cols))
    for i in range(cols):
        if order == "static" or not group:
            scale, zero = static[perm[i] // wide]
        elif i % group == 0:
            scale, zero = fit(work[:, i : i + group], bits, sym)
        before = work[:, i].copy()
        code = np.clip(np.rint(before / scale + zero), 0, 2**bits - 1)
        value = (code - zero) * scale
        work[:, i:] -= np.outer((before - value) / u[i, i], u[i, i:]) - np.outer(before, p[i, i:])
        codes[:, perm[i]], values[:, perm[i]] = code, value
    # |(W - Q) R + alpha W D R^-T|^2 with H = R R^T: what any such factor gives.
    error = w - values
    damped = h + DAMP * np.mean(np.diag(h)) * np.eye(cols)
    asked = alpha * w @ d
    loss = np.sum((error @ damped) * error) + 2 * np.sum(error * asked)
    loss += np.sum((asked @ np.linalg.inv(damped)) * asked)
    return codes, loss / rows


def main():
    cases, all_codes = [], b""
    for i, case in enumerate(CASES):
        form, rows, cols, bits, group, sym, order, alpha = case
        lcg = Lcg(i + 1)
        w = (lcg.normal(rows * cols) * np.float32(0.05)).reshape(rows, cols)
        x = make_inputs(lcg, 2 * cols, cols)
        dx = make_inputs(lcg, 2 * cols, cols) / np.float32(8) + x / np.float32(32)
        x, dx = x.astype(np.float64), dx.astype(np.float64)
        h = (2.0 * (x.T @ x) / (2 * cols)).astype(np.float32).astype(np.float64)
        d = (2.0 * (dx.T @ x) / (2 * cols)).astype(np.float32).astype(np.float64)
        codes, loss = sweep(w.astype(np.float64), h, d, case)
        all_codes += codes.tobytes()
        grid = f"int{bits}:" + (f"g{group}" if group else "channel") + ("" if sym else ":asym")
        cases.append({"seed": i + 1, "form": form, "rows": rows, "cols": cols, "grid": grid, "order": order,
                      "alpha": alpha, "loss": loss})
    with open(os.path.join(HERE, "gptaq.codes"), "wb") as f:
        f.write(all_codes)
    with open(os.path.join(HERE, "gptaq.json"), "w") as f:
        json.dump({"cases": cases}, f, indent=1)
        f.write("\n")


if __name__ == "__main__":
    main()
