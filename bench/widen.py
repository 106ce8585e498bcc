#!/usr/bin/env python3
"""The same model with longer rows, filled up with zeros: for formats whose blocks do not divide its own.

    bench/widen.py MODEL OUT [MULTIPLE]     (256)

MODEL is a folder of a Llama with one model.safetensors, its matrices in bfloat16; OUT is made. The hidden size becomes a multiple of MULTIPLE, and heads of zeros are
added until they are one, too. Each block of MULTIPLE has equally many of the old columns. A mean of squares over more columns is smaller: the norms'
weights (float32) and epsilon make up for that, so the model says what it said.
"""
import array
import json
import math
import os
import shutil
import struct
import sys

BF16 = 2


def larger(n, multiple):
    return -(-n // multiple) * multiple


class Spread:
    """Old columns to new ones: runs of them, a run for each block of `multiple`."""

    def __init__(self, old, multiple):
        self.old, self.new = old, larger(old, multiple)
        self.run, self.multiple = -(-old // (self.new // multiple)), multiple

    def __call__(self, items, zero):
        """A list or bytes of `old` items, of len(zero) each, with zeros between."""
        size, made = len(zero), zero[:0]
        for at in range(0, self.old, self.run):
            here = min(self.run, self.old - at)
            made += items[at * size : (at + here) * size] + zero * (self.multiple - here)
        return made


def rows_of(data, cols):
    return [data[i : i + cols * BF16] for i in range(0, len(data), cols * BF16)]


def norm(data, hidden):
    """Weights of float32 or bfloat16 as float32, multiplied by the root of old / new."""
    wide = array.array("f")
    if len(data) == hidden.old * BF16:
        data = b"".join(b"\0\0" + data[i : i + BF16] for i in range(0, len(data), BF16))
    wide.frombytes(data)
    scale = math.sqrt(hidden.old / hidden.new)
    return hidden(array.array("f", (x * scale for x in wide)).tobytes(), bytes(4))


def widened(name, data, hidden, heads, keys):
    """The tensor's rows and columns, as what they belong to; heads and keys are (old, new) numbers of rows."""
    zero = bytes(BF16)
    old = len(data) // (heads[0] if "o_proj" in name else hidden.old) // BF16
    if "embed" in name or "lm_head" in name or "gate_proj" in name or "up_proj" in name:
        return [hidden(r, zero) for r in rows_of(data, hidden.old)]
    if "o_proj" in name:
        rows = [r + zero * (heads[1] - heads[0]) for r in rows_of(data, heads[0])]
        return hidden(rows, [zero * heads[1]])
    if "down_proj" in name:
        return hidden(rows_of(data, old), [zero * old])
    rows = [hidden(r, zero) for r in rows_of(data, hidden.old)]
    to = heads if "q_proj" in name else keys
    return rows + [zero * hidden.new] * (to[1] - to[0])


def main():
    source, out = sys.argv[1:3]
    multiple = int(sys.argv[3]) if len(sys.argv) > 3 else 256
    with open(os.path.join(source, "config.json"), encoding="utf-8") as f:
        config = json.load(f)
    if config["model_type"] != "llama":
        sys.exit("not a Llama")
    dim = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    each = config["num_attention_heads"] // config["num_key_value_heads"]
    hidden = Spread(config["hidden_size"], multiple)
    kv = config["num_key_value_heads"]
    while kv * each * dim % multiple or kv * dim % multiple:
        kv += 1
    heads, keys = (config["num_attention_heads"] * dim, kv * each * dim), (config["num_key_value_heads"] * dim, kv * dim)
    with open(os.path.join(source, "model.safetensors"), "rb") as f:
        header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        data = f.read()
    made, whole = {}, []
    at = 0
    for name, tensor in header.items():
        if name == "__metadata__":
            continue
        begin, end = tensor["data_offsets"]
        if "norm" in name:
            what, shape, dtype = norm(data[begin:end], hidden), [hidden.new], "F32"
        else:
            rows = widened(name, data[begin:end], hidden, heads, keys)
            what, shape, dtype = b"".join(rows), [len(rows), len(rows[0]) // BF16], "BF16"
        made[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(what)]}
        whole.append(what)
        at += len(what)
    config.update(hidden_size=hidden.new, num_attention_heads=kv * each, num_key_value_heads=kv, head_dim=dim,
                  rms_norm_eps=config["rms_norm_eps"] * hidden.old / hidden.new)
    os.makedirs(out)
    for name in os.listdir(source):
        if name.startswith(("tokenizer", "generation_config")):
            shutil.copy(os.path.join(source, name), out)
    with open(os.path.join(out, "config.json"), "w", encoding="utf-8") as f:
        json.dump(config, f, indent=2)
    text = json.dumps(made).encode()
    text += b" " * (-len(text) % 8)
    with open(os.path.join(out, "model.safetensors"), "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        f.writelines(whole)


if __name__ == "__main__":
    main()
