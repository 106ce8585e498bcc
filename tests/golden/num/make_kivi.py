#!/usr/bin/env python3
"""Golden codes of KIVI's groups, from the formulas of the paper's section 3 in half precision, as the authors' code computes them.

    make_kivi.py      (PyTorch)

Keys by channel in groups of 32 tokens, values by token in groups of 32 channels: scale = (max - min) / (2^bits - 1), code = the rounded
(x - min) / scale, each step a half; where the range is 0 the code is 0. Values are code * scale + min in float32, as the authors' kernels
have them. The numbers are both halves and bfloat16. Writes tests/golden/num/kivi.json: x[tokens][channels] and values as hex words of float32,
codes a digit each, scales and minimums as hex words of halves, for keys [page][channel], for values [token][group]."""
import json
import os

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
TOKENS, CHANNELS, GROUP = 64, 64, 32


def words(x, kind, mask, digits):
    return "".join(f"%0{digits}x" % (w & mask) for w in x.contiguous().view(kind).flatten().tolist())


def floats(x):
    return words(x.float(), torch.int32, 0xFFFFFFFF, 8)


def halves(x):
    return words(x, torch.int16, 0xFFFF, 4)


def quantize(x, bits):
    """x[..., GROUP] in halves."""
    most = 2**bits - 1
    low, high = x.min(-1, keepdim=True)[0], x.max(-1, keepdim=True)[0]
    scale = (high - low) / most
    code = ((x - low) / scale).nan_to_num(0.0).clamp(0, most).round().to(torch.int32)
    return code, scale, low, code.float() * scale.float() + low.float()


def numbers():
    torch.manual_seed(3)
    x = torch.randn(TOKENS, CHANNELS)
    x[:, 5] *= 40  # outlier channels, of keys before all
    x[:, 17] = 9 + x[:, 17] * 0.1
    x[:, 30] = 0.25  # no range
    x[:, 31] *= 2.0**-14  # steps below the smallest normal half
    x[:, 40] *= 9000
    x[40, :] *= 100  # a token
    x[41, :32] = -3
    return x.clamp(-30000, 30000).bfloat16().half()


def main():
    x = numbers()
    assert (x.bfloat16().half() == x).all()
    out = {"tokens": TOKENS, "channels": CHANNELS, "x": floats(x)}
    for bits in 2, 4:
        keys = x.view(TOKENS // GROUP, GROUP, CHANNELS).transpose(1, 2)
        values = x.view(TOKENS, CHANNELS // GROUP, GROUP)
        for name, groups in ("keys", keys), ("values", values):
            code, scale, low, back = quantize(groups, bits)
            if name == "keys":
                code, back = code.transpose(1, 2), back.transpose(1, 2)
            out[f"{name}{bits}"] = {
                "codes": "".join("%x" % c for c in code.flatten().tolist()),
                "scale": halves(scale),
                "least": halves(low),
                "back": floats(back),
            }
    with open(os.path.join(HERE, "kivi.json"), "w") as f:
        json.dump(out, f, indent=0)
        f.write("\n")


main()
