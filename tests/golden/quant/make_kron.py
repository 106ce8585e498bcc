#!/usr/bin/env python3
"""Golden vectors for the rounders gptq:kron and qep:kron: what YAQA's formulas give in double precision.

    make_kron.py

Written from the paper (Tseng, Sun, De Sa 2025, "Model-preserving adaptive rounding"): with H_O = L_O D_O L_O^T and H_I likewise,
L unit triangular, each weight in turn is rounded from W + L_O' D L_I + L_O' D + D L_I, D = W - Q as far as it is known and L' the
transpose, L without its diagonal. Here H_O lies in blocks along its diagonal, is scaled to a mean diagonal of 1 and damped; and L
are upper triangular, so that the first row and column come first. qep:kron is the same of W + alpha W D H^-1 (make_gptaq.py).
With `by`, the rows have been divided by that since their gradients g were found, which are so many times larger now. Groups of rows
are matrices of their own.
Writes kron.json and kron.codes beside this script.
"""
import json
import os

import numpy as np

from make_gptaq import HERE, Lcg, fit, make_inputs

DAMP = 0.01

CASES = [
    # form, rows, cols, bits, group (0: channel), sym, order, alpha, block of outputs, their damping, by, groups of rows
    ("gptq:kron", 40, 160, 4, 32, True, "none", 0.0, 64, 0.01, False, 1),
    ("gptq:kron", 70, 128, 3, 64, False, "static", 0.0, 64, 0.01, False, 1),
    ("gptq:kron", 150, 128, 2, 64, False, "static", 0.0, 128, 0.1, False, 1),
    ("gptq:kron", 24, 160, 8, 0, True, "static", 0.0, 256, 0.01, False, 1),
    ("qep:kron", 70, 128, 4, 32, True, "none", 0.5, 64, 0.01, False, 1),
    ("qep:kron", 40, 160, 3, 32, False, "static", 1.0, 256, 0.05, False, 1),
    ("gptq:kron", 150, 128, 3, 64, False, "static", 0.0, 64, 0.01, True, 1),
    ("qep:kron", 70, 128, 4, 32, True, "none", 0.5, 256, 0.01, True, 1),
    ("gptq:kron", 151, 128, 3, 32, True, "static", 0.0, 64, 0.01, False, 2),
    ("qep:kron", 100, 128, 3, 64, False, "static", 0.5, 64, 0.01, True, 3),
]


def unit_upper(h):
    """L with h = L D L^T, upper triangular with a diagonal of 1."""
    r = np.linalg.cholesky(h[::-1, ::-1])[::-1, ::-1]
    return r / np.diag(r)


def outputs(g, block, damp):
    """H_O: the mean of g g^T, what lies outside of blocks left out."""
    rows = g.shape[1]
    h = (g.T @ g / len(g)).astype(np.float32).astype(np.float64)
    place = np.arange(rows) // block
    h[place[:, None] != place] = 0
    return h / np.mean(np.diag(h)) + damp * np.eye(rows)


def sweep(w, h, d, ho, case):
    form, rows, cols, bits, group, sym, order, alpha = case[:8]
    perm = np.argsort(-np.diag(h), kind="stable") if order == "static" else np.arange(cols)
    damped = h + DAMP * np.mean(np.diag(h)) * np.eye(cols)
    hp = damped[np.ix_(perm, perm)]
    li, lo = unit_upper(hp), unit_upper(ho)
    whole = w[:, perm] + alpha * w[:, perm] @ d[np.ix_(perm, perm)] @ np.linalg.inv(hp)
    wide = group or cols
    static = [fit(w[:, g : g + wide], bits, sym) for g in range(0, cols, wide)]
    error = np.zeros((rows, cols))  # of what is rounded so far
    codes, values = np.empty((rows, cols), np.uint8), np.empty((rows, cols))
    for k in range(cols):
        if order == "static" or not group:
            scale, zero = static[perm[k] // wide]
        elif k % group == 0:
            # The columns that are left, where they make up best for the errors so far.
            left = whole[:, k:].copy()
            if k:
                left += error[:, :k] @ hp[:k, k:] @ np.linalg.inv(hp[k:, k:])
            scale, zero = fit(left[:, :group], bits, sym)
        asked = error[:, :k] @ li[:k, k]  # by the columns before
        for i in range(rows):
            missed = asked[:i] + error[:i, k]
            want = whole[i, k] + asked[i] + lo[:i, i] @ missed
            code = np.clip(np.rint(want / scale[i] + zero[i]), 0, 2**bits - 1)
            value = (code - zero[i]) * scale[i]
            error[i, k] = whole[i, k] - value
            codes[i, perm[k]], values[i, perm[k]] = code, value
    lost = w - values
    if form == "gptq:kron":
        return codes, np.sum((ho @ lost @ h) * lost) / rows
    asked = alpha * w @ d
    loss = np.sum((ho @ lost @ damped) * lost) + 2 * np.sum((ho @ lost) * asked)
    loss += np.sum((ho @ asked @ np.linalg.inv(damped)) * asked)
    return codes, loss / rows


def main():
    cases, all_codes = [], b""
    for i, case in enumerate(CASES):
        form, rows, cols, bits, group, sym, order, alpha, block, damp, divided, groups = case
        lcg = Lcg(i + 1)
        w = (lcg.normal(rows * cols) * np.float32(0.05)).reshape(rows, cols)
        x = make_inputs(lcg, 2 * cols, cols)
        dx = make_inputs(lcg, 2 * cols, cols) / np.float32(8) + x / np.float32(32)
        g = make_inputs(lcg, 2 * rows, rows).astype(np.float64)
        x, dx = x.astype(np.float64), dx.astype(np.float64)
        h = (2.0 * (x.T @ x) / (2 * cols)).astype(np.float32).astype(np.float64)
        d = (2.0 * (dx.T @ x) / (2 * cols)).astype(np.float32).astype(np.float64)
        if divided:
            g = g * (0.25 + np.arange(rows) * 7 % 5)
        loss = 0
        for k in range(groups):
            own = slice(rows * k // groups, rows * (k + 1) // groups)
            some = (form, own.stop - own.start, *case[2:])
            codes, lost = sweep(w[own].astype(np.float64), h, d, outputs(g[:, own], block, damp), some)
            all_codes += codes.tobytes()
            loss += lost * some[1] / rows
        grid = f"int{bits}:" + (f"g{group}" if group else "channel") + ("" if sym else ":asym")
        cases.append({"seed": i + 1, "form": form, "rows": rows, "cols": cols, "grid": grid, "order": order, "alpha": alpha,
                      "block": block, "damp": damp, "by": divided, "groups": groups, "loss": loss})
    with open(os.path.join(HERE, "kron.codes"), "wb") as f:
        f.write(all_codes)
    with open(os.path.join(HERE, "kron.json"), "w", encoding="utf-8") as f:
        json.dump({"cases": cases}, f, indent=1)
        f.write("\n")


main()
