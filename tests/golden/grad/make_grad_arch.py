#!/usr/bin/env python3
"""Gradients that torch's autograd finds for one block of the tiny models of tests/golden/arch.

For each row of CASES: <case>.<layer>.safetensors, float32, with `output` and `d_x` [40][hidden] and for each
matrix of the block by its module's name [rows + cols]: its gradient times c over its columns, then c over its
rows times it. The loss is sum(output * c), c[i] = (37 i mod 101 - 50) / 50; the input is what the blocks
before make of the first prompt of make_arch.py. Matrices of expert e are called gate.e, up.e and down.e.
Computed in float64 from the case's float32 parameters.

Usage: make_grad_arch.py [output folder]
"""
import json, os, re, sys, tempfile
import numpy as np
import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, Mxfp4Config

HERE = os.path.dirname(os.path.abspath(__file__))
ARCH = os.path.join(HERE, "..", "arch")
sys.path.insert(0, ARCH)
import fill  # noqa: E402

OUT = sys.argv[1] if len(sys.argv) > 1 else HERE
PROMPT = [(7 * i * i + 3 * i + 1) % 80 for i in range(40)]
CASES = [("qwen3_moe", 1), ("deepseek_v3", 1), ("deepseek_v2", 1), ("qwen3_next", 0), ("qwen3_next", 3),
         ("granitemoehybrid", 0), ("llama4", 0), ("llama4", 2), ("gpt_oss", 0), ("gpt_oss", 1),
         ("gemma2", 0), ("gemma4", 1), ("gemma4_small", 1), ("gemma4_small", 4), ("gemma4_small", 5), ("gpt2", 0), ("gpt_neox", 1), ("lfm2_moe", 0), ("phi3", 0),
         ("cohere_norm", 0), ("olmoe_clip", 0), ("granitemoe", 0), ("opt", 0)]


def expand(row):
    name, shape, how = row[:3]
    parts = re.split(r"\{([\d,]+)\}", name)
    names = [parts[0]]
    for numbers, tail in zip(parts[1::2], parts[2::2]):
        names = [n + x + tail for n in names for x in numbers.split(",")]
    return [(n, shape, how) for n in names]


def load(case):
    with open(os.path.join(ARCH, case + ".json")) as f:
        golden = json.load(f)
    data = {n: torch.from_numpy(fill.values(n, s, h, golden["salt"]))
            for row in golden["tensors"] for n, s, h in expand(row)}
    with tempfile.TemporaryDirectory() as d:
        save_file(data, os.path.join(d, "model.safetensors"), metadata={"format": "pt"})
        with open(os.path.join(d, "config.json"), "w") as f:
            json.dump(golden["config"], f)
        return AutoModelForCausalLM.from_pretrained(d, dtype=torch.float32, attn_implementation="eager",
                                                    experts_implementation="eager").eval().double()


def pattern(n):
    i = torch.arange(n, dtype=torch.float64)
    return (((37 * i) % 101 - 50).float() / 50).double()


def both_ways(g):
    return torch.cat([g @ pattern(g.shape[1]), pattern(g.shape[0]) @ g])


def matrices(block):
    """(name, gradient [rows][cols]) of every matrix."""
    turned = {n for n, m in block.named_modules() if type(m).__name__ == "Conv1D"}
    for name, p in block.named_parameters():
        if p.dim() == 2 and name.endswith(".weight") and p.grad is not None:
            module = re.sub(r"(block_sparse_moe\.router)$", r"\1.layer", name.removesuffix(".weight"))
            yield module, p.grad.T if module in turned else p.grad
        elif p.dim() == 3 and "experts" in name or "input_linear" in name or "output_linear" in name:
            g, down = p.grad, "down" in name or "output_linear" in name
            if p.shape[1 if down else 2] != block_hidden:  # [experts][in][out]
                g = g.transpose(1, 2)
            for e in range(len(g)):
                if down:
                    yield f"down.{e}", g[e]
                    continue
                half = len(g[e]) // 2
                apart = (g[e][::2], g[e][1::2]) if adjacent else (g[e][:half], g[e][half:])
                yield f"gate.{e}", apart[0]
                yield f"up.{e}", apart[1]


def main():
    global block_hidden, adjacent
    torch.set_num_threads(1)
    for case, layer in CASES:
        model = load(case)
        base = getattr(model, "model", None) or getattr(model, "transformer", None) or model.gpt_neox
        base = getattr(base, "decoder", base)
        block, seen = (base.h if hasattr(base, "h") else base.layers)[layer], {}
        block_hidden, adjacent = model.config.hidden_size, model.config.model_type == "gpt_oss"

        def before(module, args, kwargs):
            x = args[0] if args else kwargs["hidden_states"]
            seen["x"] = x.detach().requires_grad_()
            if args:
                return (seen["x"],) + args[1:], kwargs
            return args, dict(kwargs, hidden_states=seen["x"])

        def after(module, args, out):
            seen["out"] = out[0] if isinstance(out, tuple) else out

        block.register_forward_pre_hook(before, with_kwargs=True)
        block.register_forward_hook(after)
        model(torch.tensor([PROMPT]), use_cache=False)
        out = seen["out"].reshape(len(PROMPT), -1)
        (out * pattern(out.numel()).reshape(out.shape)).sum().backward()
        parts = {"output": out.detach(), "d_x": seen["x"].grad.reshape(out.shape)}
        parts.update((n, both_ways(g)) for n, g in matrices(block))
        parts = {n: t.float().contiguous() for n, t in parts.items()}
        assert all(t.isfinite().all() for t in parts.values())
        save_file(parts, os.path.join(OUT, f"{case}.{layer}.safetensors"))
        print(case, layer, out.dtype, len(parts), flush=True)


main()
