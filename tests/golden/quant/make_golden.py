#!/usr/bin/env python3
"""Golden vectors for quant/: what the authors' own GPTQ and AWQ code does on seeded problems.

The two repositories are only run, never copied. Give the roots of their checkouts:

    make_golden.py --gptq PATH/gptq --awq PATH/llm-awq

(IST-DASLab/gptq at 2d65066, mit-han-lab/llm-awq at d6e797a; torch and transformers on CPU). Writes gptq.json,
gptq.codes and awq.json beside this script. Inputs are not stored: tests/unit/quant/oracle.h makes the same
ones, bit for bit, from the seed.
"""
import argparse
import importlib
import json
import os
import sys
import types

import numpy as np
import torch

HERE = os.path.dirname(os.path.abspath(__file__))
MASK = (1 << 64) - 1
SD = np.float32(1.0 / 37837.0)


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


def make_weights(lcg, rows, cols):
    return (lcg.normal(rows * cols) * np.float32(0.05)).reshape(rows, cols)


def make_inputs(lcg, tokens, cols):
    """Neighbours are correlated, every 37th input is ten times as large; all multiples of 1/64."""
    x = lcg.normal(tokens * cols).reshape(tokens, cols)
    for c in range(1, cols):
        x[:, c] = np.float32(0.8) * x[:, c - 1] + np.float32(0.6) * x[:, c]
    x[:, 5::37] *= np.float32(10.0)
    return np.rint(x * np.float32(64.0)) / np.float32(64.0)


# ---- GPTQ ----

GPTQ_CASES = [
    # rows, cols, bits, group (-1: channel), sym, mse, order; seed is the index + 1
    (48, 256, 4, 128, True, False, "none"),
    (48, 256, 4, 128, True, False, "static"),
    (48, 256, 4, 128, True, False, "group"),
    (48, 256, 3, 128, True, False, "static"),
    (48, 256, 3, 64, False, False, "none"),
    (48, 256, 3, 64, False, False, "static"),
    (40, 384, 2, 64, False, False, "group"),
    (40, 384, 2, 64, True, False, "static"),
    (40, 384, 4, 64, True, False, "none"),
    (48, 256, 8, -1, True, False, "static"),
    (48, 256, 4, -1, False, False, "none"),
    (96, 256, 4, 128, False, False, "static"),
    (48, 256, 3, 128, True, True, "static"),
    (48, 256, 4, 64, False, True, "none"),
]


def run_gptq(gptq, case, seed):
    rows, cols, bits, group, sym, mse, order = case
    lcg = Lcg(seed)
    w = make_weights(lcg, rows, cols)
    x = make_inputs(lcg, 2 * cols, cols).astype(np.float64)
    h = (2.0 * (x.T @ x) / (2 * cols)).astype(np.float32)

    codes = []
    original = gptq.quantize

    def recording(column, scale, zero, maxq):
        q = original(column, scale, zero, maxq)
        codes.append(torch.round(q / scale + zero).flatten().to(torch.uint8))
        return q

    layer = torch.nn.Linear(cols, rows, bias=False)
    layer.weight.data = torch.from_numpy(w.copy())
    solver = gptq.GPTQ(layer)
    solver.H = torch.from_numpy(h.copy())
    solver.quantizer = gptq.Quantizer()
    solver.quantizer.configure(bits, perchannel=True, sym=sym, mse=mse)
    gptq.quantize = recording
    torch.cuda.synchronize = lambda: None
    # The published code fits a group that begins inside a block on weights that lack the block's
    # updates; a block no wider than a group avoids that.
    block = 128 if group < 0 else min(128, group)
    solver.fasterquant(blocksize=block, groupsize=group, actorder=order != "none",
                       static_groups=order == "static" and group > 0)
    gptq.quantize = original

    perm = np.arange(cols)
    if order != "none":
        perm = torch.argsort(torch.from_numpy(np.diag(h).copy()), descending=True).numpy()
    table = np.empty((rows, cols), np.uint8)
    for step, column in enumerate(codes):
        table[:, perm[step]] = column.numpy()
    q = layer.weight.data.numpy().astype(np.float64)
    d = w.astype(np.float64) - q
    loss = float(np.sum((d @ h.astype(np.float64)) * d) / rows)
    kind = "channel" if group < 0 else f"g{group}"
    grid = f"int{bits}:{kind}" + ("" if sym else ":asym") + (":mse" if mse else "")
    return {"seed": seed, "rows": rows, "cols": cols, "grid": grid, "order": order, "loss": loss}, table


def make_gptq(root):
    sys.path.insert(0, root)
    gptq = importlib.import_module("gptq")
    cases, codes = [], b""
    for i, case in enumerate(GPTQ_CASES):
        info, table = run_gptq(gptq, case, i + 1)
        cases.append(info)
        codes += table.tobytes()
    with open(os.path.join(HERE, "gptq.codes"), "wb") as f:
        f.write(codes)
    save("gptq.json", {"source": "IST-DASLab/gptq 2d65066", "cases": cases})


# ---- AWQ ----

HIDDEN, INNER, HEADS, TOKENS, SHORT = 128, 256, 4, 512, 48


def load_awq(root):
    """The search modules, without the packages' CUDA extension."""
    sys.path.insert(0, root)
    for name in ("awq", "awq.quantize", "awq.utils"):
        package = types.ModuleType(name)
        package.__path__ = [os.path.join(root, *name.split("."))]
        sys.modules[name] = package
    qmodule = types.ModuleType("awq.quantize.qmodule")
    qmodule.ScaledActivation = type("ScaledActivation", (torch.nn.Module,), {})
    sys.modules["awq.quantize.qmodule"] = qmodule
    return (importlib.import_module("awq.quantize.auto_scale"),
            importlib.import_module("awq.quantize.auto_clip"),
            importlib.import_module("awq.quantize.quantizer"))


def make_layer(lcg):
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaDecoderLayer
    config = LlamaConfig(hidden_size=HIDDEN, intermediate_size=INNER, num_attention_heads=HEADS,
                         num_key_value_heads=HEADS, attn_implementation="eager")
    layer = LlamaDecoderLayer(config, 0).float().eval()
    attention, mlp = layer.self_attn, layer.mlp
    for linear in (attention.q_proj, attention.k_proj, attention.v_proj, attention.o_proj,
                   mlp.gate_proj, mlp.up_proj, mlp.down_proj):
        linear.weight.data = torch.from_numpy(make_weights(lcg, *linear.weight.shape))
    return layer


def group_error(quantizer, w, limit, x, bits, config):
    """Sum over rows and groups of the mean squared error of the group's output."""
    shape = (w.shape[0], -1, config["q_group_size"])
    clipped = torch.clamp(w.reshape(shape), -limit, limit).reshape(w.shape)
    d = (quantizer.pseudo_quantize_tensor(clipped, n_bit=bits, **config) - w).double().reshape(shape)
    y = torch.einsum("rgi,tgi->rgt", d, x.double().reshape(x.shape[0], *shape[1:]))
    return float(y.pow(2).mean(-1).sum())


def run_awq(modules, bits, group, seed):
    auto_scale, auto_clip, quantizer = modules
    lcg = Lcg(seed)
    layer = make_layer(lcg)
    features = {
        "self_attn.q_proj": make_inputs(lcg, SHORT, HIDDEN)[None],
        "self_attn.o_proj": make_inputs(lcg, TOKENS, HIDDEN),
        "mlp.gate_proj": make_inputs(lcg, TOKENS, HIDDEN),
        "mlp.down_proj": make_inputs(lcg, TOKENS, INNER),
    }
    features = {k: torch.from_numpy(v) for k, v in features.items()}
    config = {"zero_point": True, "q_group_size": group}
    # No rotation and no mask: attention without position.
    head = HIDDEN // HEADS
    still = (torch.ones(1, SHORT, head), torch.zeros(1, SHORT, head))
    kwargs = {"position_embeddings": still, "attention_mask": None}
    sites = []
    found = auto_scale.auto_scale_block(layer, kwargs, bits, config, features)
    names = {"self_attn.q_proj": "attention", "self_attn.o_proj": "o", "mlp.gate_proj": "mlp",
             "mlp.down_proj": "down"}
    for _, linears, scales in found:
        site = {"site": names[linears[0]], "scales": [float(s) for s in scales]}
        if site["site"] in ("o", "down"):
            w = dict(layer.named_modules())[linears[0]].weight.data * scales
            x = features[linears[0]] / scales
            best = auto_clip.auto_clip_layer(w, x, bits, config)
            full = w.reshape(w.shape[0], -1, group).abs().amax(-1)
            steps = torch.round(20 * (1 - best.squeeze(-1) / full)).int()
            site["clip"] = "".join(str(int(s)) for s in steps.flatten())
            site["clip_error"] = group_error(quantizer, w, best, x, bits, config)
        sites.append(site)
    return {"seed": seed, "grid": f"int{bits}:g{group}:asym", "sites": sites}


def make_awq(root):
    modules = load_awq(root)
    torch.cuda.empty_cache = lambda: None
    cases = [run_awq(modules, bits, group, 100 + i)
             for i, (bits, group) in enumerate([(4, 128), (4, 64), (3, 128), (3, 32)])]
    save("awq.json", {"source": "mit-han-lab/llm-awq d6e797a", "hidden": HIDDEN, "inner": INNER,
                      "heads": HEADS, "tokens": TOKENS, "short": SHORT, "cases": cases})


def save(name, data):
    with open(os.path.join(HERE, name), "w") as f:
        json.dump(data, f, separators=(",", ":"))
        f.write("\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--gptq", help="checkout of IST-DASLab/gptq")
    parser.add_argument("--awq", help="checkout of mit-han-lab/llm-awq")
    args = parser.parse_args()
    torch.set_num_threads(1)
    with torch.no_grad():
        if args.gptq:
            make_gptq(args.gptq)
        if args.awq:
            make_awq(args.awq)


if __name__ == "__main__":
    main()
