#!/usr/bin/env python3
"""The same model with longer rows, filled up with zeros: for formats whose blocks do not divide its own.

    bench/widen.py MODEL OUT [MULTIPLE [SEED]]     (256, 1)

MODEL is a folder of a Llama with one model.safetensors, its matrices in bfloat16; OUT is made. The hidden size becomes a multiple of MULTIPLE, and heads
of zeros are added until they are one, too. Each block of MULTIPLE has equally many of the old columns. Channels are shuffled, in the stream, in the MLP
and within heads, so that blocks are not those of a quantized source. A mean of squares over more columns is smaller: the norms' weights (float32) and
epsilon make up for that, so the model says what it said.
"""
import array
import math
import operator
import random
import sys

import folders

BF16 = 2


class Order:
    """Old places to new ones: shuffled, then in runs, one for each block of `multiple`, with zeros behind it."""

    def __init__(self, old, multiple, rng):
        self.old, self.new = old, -(-old // multiple) * multiple
        run = -(-old // (self.new // multiple))
        places = rng.sample(range(old), old)
        self.places = []
        for at in range(0, old, run):
            here = places[at : at + run]
            self.places += here + [old] * (multiple - len(here))  # `old` is a zero
        self.pick = operator.itemgetter(*self.places)

    def __call__(self, items, zero):
        """A list or an array of `old` items in the new order."""
        return self.pick([*items, zero])


def rows_of(data, cols):
    numbers = array.array("H")
    numbers.frombytes(data)
    return [numbers[i : i + cols] for i in range(0, len(numbers), cols)]


def floats(data, count):
    """Numbers of float32 or bfloat16."""
    if len(data) == count * BF16:
        data = b"".join(b"\0\0" + data[i : i + BF16] for i in range(0, len(data), BF16))
    wide = array.array("f")
    wide.frombytes(data)
    return wide


class Widened:
    def __init__(self, config, multiple, rng):
        self.dim = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
        self.heads, self.kv = config["num_attention_heads"], config["num_key_value_heads"]
        each, kv = self.heads // self.kv, self.kv
        while kv * each * self.dim % multiple or kv * self.dim % multiple:
            kv += 1
        self.new_heads, self.new_kv = kv * each, kv
        self.hidden = Order(config["hidden_size"], multiple, rng)
        self.ffn = Order(config["intermediate_size"], 1, rng)
        self.value = Order(self.dim, 1, rng)  # of a head, between v and o

    def norm(self, data):
        scale = math.sqrt(self.hidden.old / self.hidden.new)
        return array.array("f", self.hidden([x * scale for x in floats(data, self.hidden.old)], 0.0))

    def by_heads(self, rows, heads, shuffled):
        """Rows of heads, and of those that are added."""
        dim = self.dim
        if shuffled:
            rows = [row for i in range(0, len(rows), dim) for row in self.value(rows[i : i + dim], None)]
        return rows + [[0] * len(rows[0])] * (heads * dim - len(rows))

    def matrix(self, name, data):
        """Its rows."""
        hidden, ffn = self.hidden, self.ffn
        if "o_proj" in name:
            rows, dim, more = rows_of(data, self.heads * self.dim), self.dim, [0] * ((self.new_heads - self.heads) * self.dim)
            rows = [[x for i in range(0, len(r), dim) for x in self.value(r[i : i + dim], 0)] + more for r in rows]
            return hidden(rows, [0] * (self.new_heads * dim))
        if "down_proj" in name:
            return hidden([ffn(r, 0) for r in rows_of(data, ffn.old)], [0] * ffn.new)
        rows = [hidden(r, 0) for r in rows_of(data, hidden.old)]
        if "gate_proj" in name or "up_proj" in name:
            return ffn(rows, None)
        if "q_proj" in name or "k_proj" in name or "v_proj" in name:
            return self.by_heads(rows, self.new_heads if "q_proj" in name else self.new_kv, "v_proj" in name)
        return rows


def main():
    source, out = sys.argv[1:3]
    multiple = int(sys.argv[3]) if len(sys.argv) > 3 else 256
    rng = random.Random(int(sys.argv[4]) if len(sys.argv) > 4 else 1)
    config, header, data = folders.read(source)
    if config["model_type"] != "llama":
        sys.exit("not a Llama")
    wide = Widened(config, multiple, rng)
    made, whole, at = {}, [], 0
    for name, tensor in header.items():
        if name == "__metadata__":
            continue
        part = data[slice(*tensor["data_offsets"])]
        if "norm" in name:
            dtype, shape, numbers = "F32", [wide.hidden.new], [wide.norm(part)]
        else:
            rows = wide.matrix(name, part)
            dtype, shape, numbers = "BF16", [len(rows), len(rows[0])], [array.array("H", r) for r in rows]
        what = b"".join(n.tobytes() for n in numbers)
        made[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(what)]}
        whole.append(what)
        at += len(what)
    config.update(hidden_size=wide.hidden.new, num_attention_heads=wide.new_heads, num_key_value_heads=wide.new_kv, head_dim=wide.dim,
                  rms_norm_eps=config["rms_norm_eps"] * wide.hidden.old / wide.hidden.new)
    folders.write(source, out, config, made, whole)


if __name__ == "__main__":
    main()
