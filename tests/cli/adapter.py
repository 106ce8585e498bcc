#!/usr/bin/env python3
"""A LoRA adapter as PEFT saves it, of random numbers, for a small checkpoint; and one merged by plain arithmetic.

    adapter.py make DIR SEED      for tests/cli/mini.py's llama of hidden 64, ffn 128: q_proj and down_proj of both layers, rank 4
    adapter.py compare BASE DIR MERGED    MERGED's numbers are BASE's with DIR's changes, each rounded once to bfloat16"""
import array
import json
import os
import random
import struct
import sys

SHAPES = {"self_attn.q_proj": (64, 64), "mlp.down_proj": (64, 128)}
RANK, ALPHA = 4, 6
MODULES = {f"model.layers.{i}.{name}": shape for i in range(2) for name, shape in SHAPES.items()}


def read(path):
    data = open(path, "rb").read()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    return {k: (v["dtype"], data[8 + size + v["data_offsets"][0]:8 + size + v["data_offsets"][1]]) for k, v in header.items()}


def make(folder, seed):
    rng = random.Random(seed)
    os.makedirs(folder)
    header, data = {}, b""
    for module, (out, cols) in MODULES.items():
        for part, shape in (("lora_A", [RANK, cols]), ("lora_B", [out, RANK])):
            values = array.array("f", (rng.gauss(0, 0.05) for _ in range(shape[0] * shape[1])))
            header[f"base_model.model.{module}.{part}.weight"] = {"dtype": "F32", "shape": shape,
                                                                 "data_offsets": [len(data), len(data) + 4 * len(values)]}
            data += values.tobytes()
    text = json.dumps(header).encode()
    with open(os.path.join(folder, "adapter_model.safetensors"), "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)
    with open(os.path.join(folder, "adapter_config.json"), "w") as f:
        json.dump({"peft_type": "LORA", "r": RANK, "lora_alpha": ALPHA, "target_modules": ["q_proj", "down_proj"], "bias": "none"}, f)


def floats(dtype, data):
    if dtype == "F32":
        return array.array("f", data)
    return [struct.unpack("<f", b"\0\0" + data[i:i + 2])[0] for i in range(0, len(data), 2)]


def bf16(x):
    bits = struct.unpack("<I", struct.pack("<f", x))[0]
    return struct.unpack("<f", struct.pack("<I", (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000))[0]


def compare(base, folder, merged):
    was, is_ = (read(os.path.join(d, "model.safetensors")) for d in (base, merged))
    change = {k: floats(*v) for k, v in read(os.path.join(folder, "adapter_model.safetensors")).items()}
    assert sorted(was) == sorted(is_)
    off = 0
    for name in was:
        module = name.removesuffix(".weight")
        if module not in MODULES:
            assert was[name] == is_[name], name
            continue
        out, cols = MODULES[module]
        a, b = (change[f"base_model.model.{module}.{part}.weight"] for part in ("lora_A", "lora_B"))
        old, new = floats(*was[name]), floats(*is_[name])
        for r in range(out):
            for c in range(cols):
                want = old[r * cols + c] + ALPHA / RANK * sum(b[r * RANK + k] * a[k * cols + c] for k in range(RANK))
                near = bf16(want)
                off += new[r * cols + c] != near
                assert abs(new[r * cols + c] - near) <= abs(near) / 128, (name, r, c)  # halves may fall either way
    assert off <= 4, off
    print("merged")


make(sys.argv[2], int(sys.argv[3])) if sys.argv[1] == "make" else compare(*sys.argv[2:])
