#!/usr/bin/env python3
"""A model whose keys have biases, as Qwen 2 and 2.5 have them, from a Llama without: the same tensors and a bias of each key.

    bench/key_biases.py MODEL OUT [SIZE [SEED]]     (40, 1)

MODEL is a folder with one model.safetensors in bfloat16; OUT is made. Channels get normal biases of 0.5, and the four
slowest pairs of each head SIZE, SIZE / 2, SIZE / 4 and SIZE / 8 with signs by lot. A constant in a channel that turns
slowly moves all scores of a query by nearly as much, which softmax does not see: so the model says nearly what it said.
"""
import random
import struct
import sys

import folders


def key_bias(config, size, rng):
    dim = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    half = dim // 2
    bias = []
    for _ in range(config["num_key_value_heads"]):
        head = [rng.gauss(0, 0.5) for _ in range(dim)]
        for k in range(4):
            for e in (half - 1 - k, dim - 1 - k):
                head[e] = rng.choice((-1, 1)) * size / 2**k
        bias += head
    return bias


def bf16(values):
    return b"".join(struct.pack("<f", x)[2:] for x in values)


def main():
    source, out = sys.argv[1:3]
    size = float(sys.argv[3]) if len(sys.argv) > 3 else 40.0
    rng = random.Random(int(sys.argv[4]) if len(sys.argv) > 4 else 1)
    config, header, data = folders.read(source)
    for layer in range(config["num_hidden_layers"]):
        for part in "qkv":
            weight = header[f"model.layers.{layer}.self_attn.{part}_proj.weight"]
            rows = weight["shape"][0]
            added = bf16(key_bias(config, size, rng) if part == "k" else [0.0] * rows)
            header[f"model.layers.{layer}.self_attn.{part}_proj.bias"] = {
                "dtype": "BF16", "shape": [rows], "data_offsets": [len(data), len(data) + len(added)]}
            data += added
    config.update(model_type="qwen2", architectures=["Qwen2ForCausalLM"])
    folders.write(source, out, config, header, [data])


if __name__ == "__main__":
    main()
