#!/usr/bin/env python3
"""Gradients that torch's autograd finds for the divergence of a quantized model from its original.

recover.grads, float32, for the tiny model llama_gqa_tied of tests/golden/model, rounded by pith to int4:channel (whose codes and scales
are unpacked here, by compressed-tensors' layout): the divergence KL(original || quantized), a mean over tokens; then, layer by layer, the
gradients with respect to a relative change of each scale of q, k, v, o, gate, up, down, and to the gains of the norms in front of
attention and of the MLP; then to the last norm's gain. All in units of test_recover.c: a gain's unit is the root of the mean square of
its vector. The ids are those of test_recover.c's held-out window. Computed in float64; the model is written out here.

Usage: make_recover.py [pith's program]
"""
import json, os, struct, subprocess, sys, tempfile
import numpy as np
import torch

HERE = os.path.dirname(os.path.abspath(__file__))
MODELS = os.path.join(HERE, "..", "model")
PITH = sys.argv[1] if len(sys.argv) > 1 else os.path.join(HERE, "..", "..", "..", "build", "pith")
LENGTH, HELD = 24, 7
TYPES = {"F32": ("<f4", torch.float64), "I32": ("<i4", torch.int64), "I64": ("<i8", torch.int64)}
MATRICES = ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"]
NORMS = ["input_layernorm", "post_attention_layernorm"]


def read(path):
    data = open(path, "rb").read()
    size, = struct.unpack("<Q", data[:8])
    out = {}
    for name, t in json.loads(data[8:8 + size]).items():
        if name == "__metadata__":
            continue
        first, last = (8 + size + o for o in t["data_offsets"])
        kind, dtype = TYPES[t["dtype"]]
        out[name] = torch.tensor(np.frombuffer(data[first:last], kind).reshape(t["shape"]).copy()).to(dtype)
    return out


def forward(c, w, ids):
    heads, kv, hidden, eps = c["num_attention_heads"], c["num_key_value_heads"], c["hidden_size"], c["rms_norm_eps"]
    dim = c.get("head_dim") or hidden // heads
    norm = lambda x, g: x / (x.pow(2).mean(-1, keepdim=True) + eps).sqrt() * g
    angle = torch.arange(len(ids), dtype=torch.float64)[:, None] / c["rope_parameters"]["rope_theta"] ** (torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    cos, sin = (torch.cat([f(angle)] * 2, -1) for f in (torch.cos, torch.sin))
    turn = lambda x: x * cos + torch.cat([-x[..., dim // 2:], x[..., :dim // 2]], -1) * sin
    mask = torch.full((len(ids), len(ids)), -torch.inf, dtype=torch.float64).triu(1)
    x = w["model.embed_tokens.weight"][ids]
    for l in range(c["num_hidden_layers"]):
        at = lambda name: w[f"model.layers.{l}.{name}.weight"]
        h = norm(x, at(NORMS[0]))
        q, k, v = ((h @ at(f"self_attn.{n}_proj").T).reshape(len(ids), -1, dim).transpose(0, 1) for n in "qkv")
        k, v = (t.repeat_interleave(heads // kv, 0) for t in (turn(k), v))
        a = torch.softmax(turn(q) @ k.transpose(1, 2) / dim ** 0.5 + mask, -1) @ v
        x = x + a.transpose(0, 1).reshape(len(ids), -1) @ at("self_attn.o_proj").T
        h = norm(x, at(NORMS[1]))
        x = x + (torch.nn.functional.silu(h @ at("mlp.gate_proj").T) * (h @ at("mlp.up_proj").T)) @ at("mlp.down_proj").T
    return torch.log_softmax(norm(x, w["model.norm.weight"]) @ w["model.embed_tokens.weight"].T, -1)


def unpacked(made, name):
    packed, (rows, cols) = made[name + ".weight_packed"], made[name + ".weight_shape"].tolist()
    codes = torch.stack([packed >> 4 * i & 15 for i in range(8)], -1).reshape(rows, -1)[:, :cols]
    return (codes - 8).double()


def main():
    with open(os.path.join(MODELS, "llama_gqa_tied.json")) as f:
        golden = json.load(f)
    c, ids = golden["config"], [(7 * i * i + 3 * i + 1) % golden["config"]["vocab_size"] for i in range(HELD * LENGTH, (HELD + 1) * LENGTH)]
    with tempfile.TemporaryDirectory() as d:
        weights = os.path.join(MODELS, "weights", golden["weights"] + ".safetensors")
        os.mkdir(d + "/m")
        os.symlink(os.path.abspath(weights), d + "/m/model.safetensors")
        json.dump(c, open(d + "/m/config.json", "w"))
        subprocess.run([PITH, "quantize", d + "/m", "-o", d + "/q", "-r", "rtn", "--weights", "int4:channel", "--container",
                        "compressed-tensors", "--allow-error", "10", "--quiet"], check=True)
        original, made = read(weights), read(d + "/q/model.safetensors")
    is_, parameters = dict(original), []

    def learn(name, count, value):
        p = torch.zeros(count, dtype=torch.float64, requires_grad=True)
        parameters.append(p)
        is_[name + ".weight"] = value(p)

    for l in range(c["num_hidden_layers"]):
        for m in MATRICES:
            name = f"model.layers.{l}.{m}"
            codes, scale = unpacked(made, name), made[name + ".weight_scale"].reshape(-1)
            learn(name, len(scale), lambda p: codes * (scale * (1 + p))[:, None])
        for n in NORMS:
            g = original[f"model.layers.{l}.{n}.weight"]
            learn(f"model.layers.{l}.{n}", len(g), lambda p: g + p * g.pow(2).mean().sqrt())
    g = original["model.norm.weight"]
    learn("model.norm", len(g), lambda p: g + p * g.pow(2).mean().sqrt())
    want, got = forward(c, original, ids), forward(c, is_, ids)
    kl = (want.exp() * (want - got)).sum(-1).mean()
    kl.backward()
    flat = np.concatenate([[kl.item()]] + [p.grad.numpy() for p in parameters]).astype("<f4")
    assert np.isfinite(flat).all()
    flat.tofile(os.path.join(HERE, "recover.grads"))
    print(kl.item(), flat.size)


main()
