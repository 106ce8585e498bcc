#!/usr/bin/env python3
"""A very small checkpoint with random weights, in a few milliseconds: for tests that need many.

    mini.py DIR [ARCH] [KEY=NUMBER...]   llama, mistral, qwen2 or qwen3;
                                         keys: hidden, ffn, layers, heads, kv_heads, vocab, seed,
                                         experts (of qwen3_moe and mixtral)

Its tokenizer is that of models/probe. Only the standard library is used."""
import json
import os
import random
import shutil
import struct
import sys

PROBE = os.path.join(os.path.dirname(__file__), "..", "..", "models", "probe")
SIGNED = bytes((i & 0x80) | 0x3C for i in range(256))


def bf16_weights(rng, count):
    """Random bf16 values with magnitudes from 1/128 to 1/32."""
    data = bytearray(rng.randbytes(2 * count))
    data[1::2] = data[1::2].translate(SIGNED)
    return bytes(data)


def bf16_ones(count):
    return b"\x80\x3f" * count


EXPERTS = 4


def feed_forward(c, p):
    """Names and shapes; p: the layer's prefix. Experts are as wide as a dense layer."""
    h, f, kind = c["hidden_size"], c["intermediate_size"], c["model_type"]
    names = ("gate_proj", "up_proj", "down_proj")
    if kind not in ("qwen3_moe", "mixtral"):
        parts = [p + "mlp."]
    elif kind == "mixtral":
        parts, names = [p + f"block_sparse_moe.experts.{e}." for e in range(EXPERTS)], ("w1", "w3", "w2")
    else:
        parts = [p + f"mlp.experts.{e}." for e in range(EXPERTS)]
    out = {part + name + ".weight": [h, f] if i == 2 else [f, h]
           for part in parts for i, name in enumerate(names)}
    if len(parts) > 1:
        out[parts[0].split("experts")[0] + "gate.weight"] = [EXPERTS, h]
    return out


def shapes(c):
    h, kv = c["hidden_size"], c["num_key_value_heads"] * c["head_dim"]
    out = {"model.embed_tokens.weight": [c["vocab_size"], h], "model.norm.weight": [h]}
    for i in range(c["num_hidden_layers"]):
        p = f"model.layers.{i}."
        out |= {p + "input_layernorm.weight": [h], p + "post_attention_layernorm.weight": [h],
                p + "self_attn.q_proj.weight": [c["num_attention_heads"] * c["head_dim"], h],
                p + "self_attn.k_proj.weight": [kv, h], p + "self_attn.v_proj.weight": [kv, h],
                p + "self_attn.o_proj.weight": [h, c["num_attention_heads"] * c["head_dim"]],
                **feed_forward(c, p)}
        if c["model_type"] == "qwen2":
            out |= {p + "self_attn.q_proj.bias": [c["num_attention_heads"] * c["head_dim"]],
                    p + "self_attn.k_proj.bias": [kv], p + "self_attn.v_proj.bias": [kv]}
        if c["model_type"] in ("qwen3", "qwen3_moe"):
            out |= {p + "self_attn.q_norm.weight": [c["head_dim"]],
                    p + "self_attn.k_norm.weight": [c["head_dim"]]}
    return out


def config(arch="llama", hidden=64, ffn=128, layers=2, heads=4, kv_heads=2, vocab=4096):
    name = {"qwen3_moe": "Qwen3Moe"}.get(arch, arch.capitalize())
    experts = {"num_local_experts": EXPERTS, "num_experts_per_tok": 2, "moe_intermediate_size": ffn,
               "norm_topk_prob": True} if arch in ("qwen3_moe", "mixtral") else {}
    return {**experts, "architectures": [name + "ForCausalLM"], "model_type": arch, "hidden_size": hidden,
            "intermediate_size": ffn, "num_hidden_layers": layers, "num_attention_heads": heads,
            "num_key_value_heads": kv_heads, "head_dim": hidden // heads, "vocab_size": vocab,
            "max_position_embeddings": 512, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
            "tie_word_embeddings": True, "torch_dtype": "bfloat16", "hidden_act": "silu",
            "bos_token_id": 4094, "eos_token_id": 4095}


def write_safetensors(path, tensors):
    """tensors: name -> (dtype, shape, bytes)"""
    header, at = {}, 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for _, _, data in tensors.values():
            f.write(data)


def read_safetensors(path):
    with open(path, "rb") as f:
        blob = f.read()
    (n,) = struct.unpack_from("<Q", blob)
    header = json.loads(blob[8:8 + n])
    header.pop("__metadata__", None)
    return {name: (t["dtype"], t["shape"],
                   blob[8 + n + t["data_offsets"][0]:8 + n + t["data_offsets"][1]])
            for name, t in header.items()}


def make(folder, seed=1, **sizes):
    """Writes the checkpoint; returns its config."""
    c = config(**sizes)
    rng = random.Random(seed)
    tensors = {}
    for name, shape in shapes(c).items():
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        tensors[name] = ("BF16", shape,
                         bf16_weights(rng, count) if len(shape) > 1 or name.endswith("bias")
                         else bf16_ones(count))
    os.makedirs(folder)
    write_safetensors(os.path.join(folder, "model.safetensors"), tensors)
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump(c, f, indent=1)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(os.path.join(PROBE, name), folder)
    return c


if __name__ == "__main__":
    sizes = {k: int(v) for k, v in (a.split("=") for a in sys.argv[2:] if "=" in a)}
    EXPERTS = sizes.pop("experts", EXPERTS)
    archs = [a for a in sys.argv[2:] if "=" not in a] or ["llama"]
    make(sys.argv[1], arch=archs[0], **sizes)
