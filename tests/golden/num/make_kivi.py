#!/usr/bin/env python3
"""Golden codes of KIVI's groups, from the formulas of the paper's section 3 in half precision, as the authors' code computes them.

    make_kivi.py [KIVI]     (PyTorch)

With KIVI, a checkout of the authors' code (github.com/jy-yuan/KIVI), its quant_and_pack_kcache and quant_and_pack_vcache are run on the
same numbers and have to give the same codes, scales and least numbers, to the bit.

Keys by channel in groups of 32 tokens, values by token in groups of 32 channels: scale = (max - min) / (2^bits - 1), code = the rounded
(x - min) / scale, each step a half; where the range is 0 the code is 0. Values are code * scale + min in float32, as the authors' kernels
have them. The numbers are both halves and bfloat16. Writes tests/golden/num/kivi.json: x[tokens][channels] and values as hex words of float32,
codes a digit each, scales and minimums as hex words of halves, for keys [page][channel], for values [token][group]."""
import importlib.util
import json
import os
import sys
import types

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


def authors(folder):
    """Their module; its GPU kernels are not called, so Triton need not be there."""
    for name in "triton", "triton.language":
        sys.modules.setdefault(name, types.ModuleType(name))
    sys.modules["triton"].jit = lambda f: f
    sys.modules["triton"].language = sys.modules["triton.language"]
    sys.modules["triton.language"].constexpr = object
    spec = importlib.util.spec_from_file_location("new_pack", os.path.join(folder, "quant", "new_pack.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def check(module, x, bits, name, code, scale, low):
    """Codes, scales and least numbers of [TOKENS][CHANNELS] are theirs to the bit, but where a group has no range: there they divide
    by zero."""
    all_of_it = x.view(1, 1, TOKENS, CHANNELS)
    keys = name == "keys"
    pack = module.quant_and_pack_kcache if keys else module.quant_and_pack_vcache
    packed, their_scale, their_low = pack(all_of_it, GROUP, bits)
    their_code = module.unpack_tensor(packed, bits, pack_dim=2 if keys else 3)[0, 0].to(torch.int32)
    shape = (TOKENS // GROUP, CHANNELS) if keys else (TOKENS, CHANNELS // GROUP)
    assert torch.equal(their_scale.reshape(shape), scale.reshape(shape)), (name, bits)
    assert torch.equal(their_low.reshape(shape), low.reshape(shape)), (name, bits)
    ranged = (scale.reshape(shape) != 0).repeat_interleave(GROUP, 0 if keys else 1)
    assert ranged.float().mean() > 0.9
    same = their_code == code.reshape(TOKENS, CHANNELS)
    assert same[ranged].all(), (name, bits, int((~same[ranged]).sum()))


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
    module = authors(sys.argv[1]) if len(sys.argv) > 1 else None
    assert (x.bfloat16().half() == x).all()
    out = {"tokens": TOKENS, "channels": CHANNELS, "x": floats(x)}
    for bits in 2, 4:
        keys = x.view(TOKENS // GROUP, GROUP, CHANNELS).transpose(1, 2)
        values = x.view(TOKENS, CHANNELS // GROUP, GROUP)
        for name, groups in ("keys", keys), ("values", values):
            code, scale, low, back = quantize(groups, bits)
            if name == "keys":
                code, back = code.transpose(1, 2), back.transpose(1, 2)
            if module:
                check(module, x, bits, name, code, scale, low)
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
