#!/usr/bin/env python3
"""Golden rows of KVQuant's non-uniform levels (Hooper et al. 2024, sections 3.3 and 3.4), by the arithmetic of the authors' simulation.

    make_kvquant.py [KVQUANT]     (numpy; with KVQUANT PyTorch too)

With KVQUANT, a checkout of the authors' code (github.com/SqueezeAILab/KVQuant), its get_outliers and quant_fn_nuq_recon are run on the same
numbers and have to give the same.

Keys [tokens][channels]: a channel's thresholds are its percentiles over all tokens, 0.5 and 99.5; middle and range are half of their sum
and of their difference; what lies beyond is kept as it is, the rest is the level nearest to (x - middle) / range, the first of two as near,
times range plus middle. Values: thresholds of a token are the least and the greatest number that is not an outlier. All in float32. The
values' numbers are multiples of 1/64, so that their middles and ranges are halves as pith keeps them. Writes
tests/golden/num/kvquant.json: floats as hex words, masks and codes a digit each."""
import importlib.util
import json
import os
import sys
import types

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
TOKENS, CHANNELS = 64, 64


def words(x):
    return "".join("%08x" % w for w in np.ascontiguousarray(x, np.float32).view(np.uint32).flatten())


def digits(x):
    return "".join("%x" % v for v in np.asarray(x, np.int64).flatten())


def levels(bits, random):
    """Crowded about 0, as k-means leaves them, and nowhere alike."""
    n = 2**bits
    x = np.sort(np.tanh(np.linspace(-1.5, 1.5, n)) / np.tanh(1.6) + random.normal(size=n) * 0.02)
    return x.astype(np.float32)


def quantize(x, mask, low, high, level):
    """x[a][b]; low and high broadcast. Codes, and what they stand for."""
    middle, span = (high + low) / np.float32(2), (high - low) / np.float32(2)
    scaled = (x - middle) / span
    code = np.abs(scaled[..., None] - level).argmin(-1)
    back = level[code] * span + middle
    return np.where(mask, 0, code), np.where(mask, x, back), middle, span


def authors(folder):
    """Their module, for the CPU; what it only needs for calibration is not there."""
    for name in "sklearn", "sklearn.cluster":
        sys.modules.setdefault(name, types.ModuleType(name))
    sys.modules["sklearn.cluster"].KMeans = None
    spec = importlib.util.spec_from_file_location("nuq", os.path.join(folder, "quant", "kvquant", "simquant_module_quantizer.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def check(module, x, mask, back, level, axis, low=None, high=None):
    import torch

    t = torch.tensor(x)
    if low is not None:
        outliers = module.get_outliers(t, channel=axis, outlier_threshold_upper=torch.tensor(high), outlier_threshold_lower=torch.tensor(low))
        assert np.array_equal(outliers.numpy(), mask)
    theirs = module.quant_fn_nuq_recon(t, qchannel=axis, dynamicquantization=low is None, include_sparse=True, outlier_mask=torch.tensor(mask),
                                       maxval=None if high is None else torch.tensor(high), minval=None if low is None else torch.tensor(low),
                                       lut=[level.tolist()]).numpy()
    scale = np.abs(x).max(axis, keepdims=True)
    assert np.array_equal(theirs[~mask], back[~mask]), np.abs(theirs - back)[~mask].max()
    assert np.all(np.abs(theirs - back) <= 1e-6 * scale)


def main():
    random = np.random.default_rng(5)
    module = authors(sys.argv[1]) if len(sys.argv) > 1 else None
    keys = random.normal(size=(TOKENS, CHANNELS))
    keys *= np.exp(random.normal(size=CHANNELS))
    keys[:, 7] = 30 + keys[:, 7]  # channels that are far out, and wide
    keys[:, 40] *= 60
    keys[20] *= 6  # a token in which outliers crowd
    keys = keys.astype(np.float32)
    low, high = (np.percentile(keys.astype(np.float64), q, axis=0).astype(np.float32) for q in (0.5, 99.5))
    mask = (keys < low) | (keys > high)
    values = np.round(random.normal(size=(TOKENS, CHANNELS)) * 64) / 64
    values[:, 9] *= 4
    values = values.astype(np.float32)
    limit = 4 * np.abs(values).mean(1, keepdims=True, dtype=np.float64)
    apart = np.abs(values) > limit
    assert (np.abs(np.abs(values) - limit) > 1e-4).all() and apart.any()
    out = {"tokens": TOKENS, "channels": CHANNELS, "k": words(keys), "v": words(values), "beyond": 4, "k_apart": digits(mask), "v_apart": digits(apart)}
    for bits in 2, 3, 4:
        level = levels(bits, random)
        code, back, middle, span = quantize(keys, mask, low, high, level)
        lo, hi = (f(np.where(apart, w, values), 1, keepdims=True) for f, w in ((np.min, np.inf), (np.max, -np.inf)))
        v_code, v_back, v_middle, v_span = quantize(values, apart, lo.astype(np.float32), hi.astype(np.float32), level)
        assert np.array_equal(v_middle, v_middle.astype(np.float16)) and np.array_equal(v_span, v_span.astype(np.float16))
        if module:
            check(module, keys, mask, back.astype(np.float32), level, 0, low, high)
            check(module, values, apart, v_back.astype(np.float32), level, 1)
        out.update({"middle": words(middle), "range": words(span)})
        out[str(bits)] = {"level": words(level), "k": digits(code), "k_back": words(back), "v": digits(v_code), "v_back": words(v_back)}
    with open(os.path.join(HERE, "kvquant.json"), "w") as f:
        json.dump(out, f, indent=0)
        f.write("\n")


main()
