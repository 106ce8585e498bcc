#!/usr/bin/env python3
"""Golden tensors for quantize/site/change_basis: what QuaRot's own code makes of a small model, for pith's rotations.

The repository is only run, never copied. Give its folder with the Python files:

    make_turn.py --quarot PATH/QuaRot/fake_quant

(spcl/QuaRot at 5008669; torch and transformers on CPU). Writes turn.f32 beside this script: float32 values,
the first 16 rows of the embedding and of the head, then of layer 1 the matrices in the order q, k, v, o, gate, up, down.

QuaRot takes the rotation of the stream as a matrix; here it gets pith's, made from the definition
(src/quant/rotation.h) with the signs of seed 5. Its rotation of v has no signs, so v's rows and o's columns are
multiplied by pith's first, which changes nothing; its rotations of the inputs of o and down go over the whole
width, pith's over heads and over blocks of 4, so those two are products with a block-diagonal matrix here.
"""
import argparse
import os
import sys
import types

import numpy as np
import torch
import transformers
from safetensors.torch import load_file

HERE = os.path.dirname(os.path.abspath(__file__))
MODEL = os.path.join(HERE, "..", "model")
MASK = (1 << 64) - 1
SEED, HIDDEN, HEAD, BLOCK = 5, 32, 8, 4


class Rng:
    """xoshiro256++ seeded by SplitMix64, as src/base/rng.h."""

    def __init__(self, seed):
        self.s = []
        for _ in range(4):
            seed = (seed + 0x9E3779B97F4A7C15) & MASK
            z = seed
            z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & MASK
            z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK
            self.s.append(z ^ z >> 31)

    @staticmethod
    def left(x, k):
        return (x << k | x >> (64 - k)) & MASK

    def next(self):
        s = self.s
        result = (self.left((s[0] + s[3]) & MASK, 23) + s[0]) & MASK
        t = s[1] << 17 & MASK
        s[2] ^= s[0]
        s[3] ^= s[1]
        s[1] ^= s[2]
        s[0] ^= s[3]
        s[2] ^= t
        s[3] = self.left(s[3], 45)
        return result

    def signs(self, n):
        return torch.tensor([1.0 if self.next() & 1 else -1.0 for _ in range(n)], dtype=torch.float64)


def sylvester(n):
    h = torch.ones(1, 1, dtype=torch.float64)
    while h.shape[0] < n:
        h = torch.cat((torch.cat((h, h), 1), torch.cat((h, -h), 1)))
    return h


def import_quarot(folder):
    """Its modules, on a machine without a GPU and the packages that only others of its functions need."""
    fast = types.ModuleType("fast_hadamard_transform")
    fast.hadamard_transform = lambda x, scale=1.0: x @ sylvester(x.shape[-1]).to(x.dtype) * scale
    utils = types.ModuleType("utils")
    utils.DEV = torch.device("cpu")
    utils.cleanup_memory = lambda *a, **k: None
    for module in (fast, utils, types.ModuleType("quant_utils")):
        sys.modules[module.__name__] = module
    torch.Tensor.cuda = lambda self, *a, **k: self
    sys.path.insert(0, folder)
    import rotation_utils
    return rotation_utils


def times_blocks(weight, block):
    h = torch.block_diag(*[block] * (weight.shape[1] // block.shape[0]))
    return (weight.double() @ h).float()


@torch.no_grad()
def main():
    p = argparse.ArgumentParser()
    p.add_argument("--quarot", required=True)
    quarot = import_quarot(p.parse_args().quarot)
    import json
    config = json.load(open(os.path.join(MODEL, "llama_gqa_tied.json")))["config"]
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**config)).float()
    tensors = load_file(os.path.join(MODEL, "weights", "llama_gqa_tied.safetensors"))
    model.load_state_dict(tensors, strict=False)
    model.lm_head.weight = torch.nn.Parameter(model.model.embed_tokens.weight.clone())
    rng = Rng(SEED)
    stream, head = rng.signs(HIDDEN), rng.signs(HEAD)
    q = (sylvester(HIDDEN) * stream / HIDDEN ** 0.5).T
    kind = transformers.LlamaForCausalLM
    quarot.fuse_ln_linear(model.model.norm, [model.lm_head])
    quarot.rotate_embeddings(model, q)
    quarot.rotate_head(model, q)
    apply = quarot.apply_exact_had_to_linear
    quarot.apply_exact_had_to_linear = lambda *a, **k: None  # in rotate_mlp_output: over the whole width
    for layer in model.model.layers:
        a, m = layer.self_attn, layer.mlp
        quarot.fuse_ln_linear(layer.input_layernorm, [a.q_proj, a.k_proj, a.v_proj])
        quarot.fuse_ln_linear(layer.post_attention_layernorm, [m.gate_proj, m.up_proj])
        quarot.rotate_attention_inputs(layer, q, kind)
        quarot.rotate_attention_output(layer, q, kind)
        quarot.rotate_mlp_input(layer, q, kind)
        quarot.rotate_mlp_output(layer, q, kind)
        a.v_proj.weight.mul_(head.repeat(a.v_proj.weight.shape[0] // HEAD).float()[:, None])
        apply(a.v_proj, had_dim=HEAD, output=True)
        a.o_proj.weight.copy_(times_blocks(a.o_proj.weight, (sylvester(HEAD) * head).T / HEAD ** 0.5))
        m.down_proj.weight.copy_(times_blocks(m.down_proj.weight, sylvester(BLOCK) / BLOCK ** 0.5))
    layer = model.model.layers[1]
    out = [model.model.embed_tokens.weight[:16], model.lm_head.weight[:16]]
    out += [getattr(layer.self_attn, n + "_proj").weight for n in "qkvo"]
    out += [getattr(layer.mlp, n + "_proj").weight for n in ("gate", "up", "down")]
    np.concatenate([t.detach().float().numpy().ravel() for t in out]).tofile(os.path.join(HERE, "turn.f32"))


main()
