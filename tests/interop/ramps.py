"""Matrices that are known by formula, here and in tests/ramp.h: every code at every position, every
zero point, scales that float16 and bfloat16 hold exactly."""
import torch


def codes(rows, cols, bits):
    n, k = torch.arange(rows)[:, None], torch.arange(cols)[None, :]
    return (5 * n + k + 3 * (k // 16)) % 2**bits


def scales(rows, groups):
    n, g = torch.arange(rows)[:, None], torch.arange(groups)[None, :]
    return (1 + ((11 * n + 13 * g) % 128) / 128) * 2.0 ** -(4 + (n + g) % 5).float()


def zeros(rows, groups, bits, kind):
    """kind: "sym", "asym" (0 to 2^bits - 1) or "asym1" (1 to 2^bits - 1)."""
    n, g = torch.arange(rows)[:, None], torch.arange(groups)[None, :]
    if kind == "sym":
        return torch.full((rows, groups), 2 ** (bits - 1))
    if kind == "asym":
        return (3 * n + 7 * g + 1) % 2**bits
    return 1 + (3 * n + 7 * g) % (2**bits - 1)


def g_idx(cols, group, permuted):
    k = torch.arange(cols)
    return (k * 37 + 5) % cols // group if permuted else k // group


def weights(case):
    """(codes, zeros, scales, g_idx, W in float32) of a case: see make_containers.py."""
    rows, cols, bits = case["rows"], case["cols"], case["bits"]
    group = case["group"] or cols
    groups = -(-cols // group)
    one = case["strategy"] == "tensor"
    q, g = codes(rows, cols, bits), g_idx(cols, group, case["permuted"])
    z = zeros(1 if one else rows, groups, bits, case["zeros"])
    s = scales(1 if one else rows, groups)
    return q, z, s, g, ((q - z[:, g]).float() * s[:, g]).float()
