#!/usr/bin/env python3
"""Reference values for eval/stats.c and eval/windows.c: SciPy for the statistics, and the windows that the
loop of Hugging Face's perplexity page visits (begin, length, labels kept by the shifted loss, weight).

Usage: make_stats.py > stats.json   (needs numpy and scipy)"""
import json
import sys

import numpy as np
from scipy import stats


def t_quantiles():
    degrees = [0.5, 1, 1.5, 2, 3, 4, 5, 7, 10, 19.5, 30, 56, 100, 255, 821, 1000, 1001, 5000, 1e5, 1e7]
    return [[d, float(stats.t.ppf(0.975, d))] for d in degrees]


def wilson():
    out = []
    for k, n in [(0, 1), (1, 1), (0, 10), (5, 10), (10, 10), (93, 150), (149, 150), (131, 150), (32, 150),
                 (9126, 14042), (1, 1000000)]:
        ci = stats.binomtest(k, n).proportion_ci(0.95, method="wilson")
        out.append([k, n, float(ci.low), float(ci.high)])
    return out


def mcnemar():
    pairs = [(0, 0), (0, 1), (1, 0), (3, 3), (5, 0), (6, 0), (2, 9), (9, 2), (10, 30), (100, 140), (400, 371),
             (4000, 4321), (0, 60), (7, 600)]
    return [[b, c, float(stats.binomtest(min(b, c), b + c, 0.5).pvalue) if b + c else 1.0] for b, c in pairs]


def means():
    rng = np.random.default_rng(7)
    out = []
    for n in (2, 3, 10, 57, 300):
        v = rng.normal(0.3, 2.0, n).round(6)
        ci = stats.ttest_1samp(v, 0).confidence_interval(0.95)
        out.append({"values": v.tolist(), "mean": float(v.mean()), "lo": float(ci.low), "hi": float(ci.high)})
    return out


def ratios():
    """sum(w v) / sum(w) with its linearised variance, written with SciPy's t and NumPy's covariance: the
    residuals w (v - R) have mean 0, so Var(R) = n var(residuals) / sum(w)^2."""
    rng = np.random.default_rng(8)
    out = []
    for n in (2, 5, 57):
        v, w = rng.normal(2.0, 0.3, n).round(6), rng.integers(1, 512, n).astype(float)
        r = (w * v).sum() / w.sum()
        se = np.sqrt(n * np.var(w * (v - r), ddof=1)) / w.sum()
        half = stats.t.ppf(0.975, n - 1) * se
        out.append({"values": v.tolist(), "weights": w.tolist(), "mean": float(r), "lo": float(r - half),
                    "hi": float(r + half)})
    return out


def hf_windows(seq_len, max_length, stride):
    """What the documented loop feeds, which of its labels the model's loss uses, and how it weights them."""
    out, prev_end = [], 0
    for begin in range(0, seq_len, stride):
        end = min(begin + max_length, seq_len)
        target = np.arange(begin, end)
        target[: len(target) - (end - prev_end)] = -100
        used = (target[1:] != -100).nonzero()[0] + 1  # the loss compares logits[:-1] with labels[1:]
        weight = int((target != -100).sum()) - 1
        if weight > 0:
            out.append([begin, end - begin, int(used[0]), weight])
            assert used[-1] == end - begin - 1
        prev_end = end
        if end == seq_len:
            break
    return out


def windows():
    rng = np.random.default_rng(9)
    cases = [(2, 512, 512), (10, 4, 4), (11, 4, 2), (9, 4, 4), (13, 4, 3), (1000, 64, 16), (1024, 512, 512),
             (1025, 512, 256), (700, 512, 256), (512, 512, 256), (513, 512, 256), (514, 512, 256)]
    for _ in range(40):
        context = int(rng.integers(2, 60))
        cases.append((int(rng.integers(2, 300)), context, int(rng.integers(2, context + 1))))
    return [{"count": n, "context": c, "stride": s, "windows": hf_windows(n, c, s)} for n, c, s in cases]


json.dump({"t975": t_quantiles(), "wilson": wilson(), "mcnemar": mcnemar(), "means": means(),
           "ratios": ratios(), "hf_windows": windows()}, sys.stdout)
print()
