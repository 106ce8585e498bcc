#!/usr/bin/env python3
"""Gradients that torch's autograd finds for one block of the tiny models of tests/golden/model.

For each case: <case>.grads, float32: the block's output [40][hidden], then the gradient of
sum(output * c) with respect to the block's input [40][hidden] and to its matrices q, k, v, o, gate,
up, down. The input is the first prompt of make_golden.py, embedded, which goes through blocks before
LAYER; c[i] = (37 i mod 101 - 50) / 50. Computed in float64 from float32 parameters.

Usage: make_grad.py [output folder]
"""
import json, os, shutil, sys, tempfile
import numpy as np
import torch
from transformers import AutoModelForCausalLM

HERE = os.path.dirname(os.path.abspath(__file__))
MODELS = os.path.join(HERE, "..", "model")
OUT = sys.argv[1] if len(sys.argv) > 1 else HERE
VOCAB, PROMPT = 80, [(7 * i * i + 3 * i + 1) % 80 for i in range(40)]
CASES = [("llama_gqa_tied", 0), ("mistral_window", 0), ("qwen3", 0), ("llama_bias", 0),
         ("qwen2_window_old", 1), ("rope_yarn_ramp", 0)]


def load(case):
    with open(os.path.join(MODELS, case + ".json")) as f:
        golden = json.load(f)
    with tempfile.TemporaryDirectory() as d:
        shutil.copy(os.path.join(MODELS, "weights", golden["weights"] + ".safetensors"),
                    os.path.join(d, "model.safetensors"))
        with open(os.path.join(d, "config.json"), "w") as f:
            json.dump(golden["config"], f)
        return AutoModelForCausalLM.from_pretrained(d, dtype=torch.float32,
                                                    attn_implementation="eager").double()


def main():
    for case, layer in CASES:
        model = load(case)
        block, seen = model.model.layers[layer], {}

        def before(module, args, kwargs):
            seen["x"] = args[0].detach().requires_grad_()
            return (seen["x"],) + args[1:], kwargs

        def after(module, args, out):
            seen["out"] = out[0] if isinstance(out, tuple) else out

        block.register_forward_pre_hook(before, with_kwargs=True)
        block.register_forward_hook(after)
        model(torch.tensor([PROMPT]))
        out = seen["out"].reshape(len(PROMPT), -1)
        i = torch.arange(out.numel(), dtype=torch.float64).reshape(out.shape)
        c = (((37 * i) % 101 - 50).float() / 50).double()
        (out * c).sum().backward()
        a, m = block.self_attn, block.mlp
        parts = [out.detach(), seen["x"].grad] + [
            l.weight.grad for l in (a.q_proj, a.k_proj, a.v_proj, a.o_proj, m.gate_proj, m.up_proj,
                                    m.down_proj)]
        flat = np.concatenate([p.numpy().ravel() for p in parts]).astype("<f4")
        assert np.isfinite(flat).all()
        flat.tofile(os.path.join(OUT, case + ".grads"))
        print(case, flat.size)


main()
