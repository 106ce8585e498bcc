#!/usr/bin/env python3
"""Golden lists of the types that llama-quantize gives the tensors of models of many shapes.

    make_mixtures.py LLAMA_QUANTIZE

The program is only run, on files of zeros made here with the gguf package (0.19). Writes
tests/golden/export/mixtures.json: for each shape and kind of file, the types of each group of tensors in order
of layers, runs of equal ones as "Q6_K*3"."""
import itertools
import json
import os
import subprocess
import sys
import tempfile

import gguf
import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
KINDS = ["Q2_K", "Q3_K_S", "Q3_K_M", "Q3_K_L", "Q4_K_S", "Q4_K_M", "Q5_K_S", "Q5_K_M", "Q6_K", "Q4_0", "Q4_1", "Q5_0",
         "Q5_1", "Q8_0", "IQ4_NL", "IQ4_XS"]
KEYS = ["arch", "layers", "hidden", "ffn", "heads", "kv_heads", "tied"]
SHAPES = [["llama", 1, 256, 512, 4, 4, False], ["llama", 4, 256, 512, 8, 2, True], ["llama", 16, 256, 512, 4, 2, False],
          ["llama", 22, 256, 512, 8, 1, False], ["llama", 32, 256, 512, 4, 2, False], ["llama", 80, 256, 512, 8, 1, False],
          ["llama", 80, 256, 512, 4, 4, False], ["qwen2", 24, 224, 512, 7, 1, True], ["qwen2", 80, 256, 512, 8, 1, False],
          ["qwen3", 28, 256, 768, 4, 2, True], ["llama", 3, 288, 800, 4, 2, False], ["llama", 2, 144, 272, 4, 4, True]]
GROUPS = ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"]


def make(path, s):
    w = gguf.GGUFWriter(path, s["arch"])
    w.add_block_count(s["layers"])
    w.add_context_length(512)
    w.add_embedding_length(s["hidden"])
    w.add_feed_forward_length(s["ffn"])
    w.add_head_count(s["heads"])
    w.add_head_count_kv(s["kv_heads"])
    w.add_layer_norm_rms_eps(1e-5)
    w.add_vocab_size(32)
    kv = s["hidden"] // s["heads"] * s["kv_heads"]
    h, f = s["hidden"], s["ffn"]
    sizes = dict(attn_q=(h, h), attn_k=(kv, h), attn_v=(kv, h), attn_output=(h, h), ffn_gate=(f, h), ffn_up=(f, h),
                 ffn_down=(h, f))
    for name in ["token_embd"] + [] if s["tied"] else ["token_embd", "output"]:
        w.add_tensor(name + ".weight", np.zeros((32, h), np.float32))
    for i in range(s["layers"]):
        for g in GROUPS:
            w.add_tensor(f"blk.{i}.{g}.weight", np.zeros(sizes[g], np.float32))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def runs(types):
    return " ".join(k if n == 1 else f"{k}*{n}" for k, n in ((k, len(list(g))) for k, g in itertools.groupby(types)))


def read(path, s):
    reader = gguf.GGUFReader(path)
    types = {t.name: t.tensor_type.name for t in reader.tensors}
    out = {"file_type": int(reader.fields["general.file_type"].contents())}
    for name in ["token_embd", "output"]:
        if name + ".weight" in types:
            out[name] = types[name + ".weight"]
    for g in GROUPS:
        out[g] = runs(types[f"blk.{i}.{g}.weight"] for i in range(s["layers"]))
    return out


def main():
    golden = []
    with tempfile.TemporaryDirectory() as d:
        src, dst = os.path.join(d, "a.gguf"), os.path.join(d, "b.gguf")
        for row in SHAPES:
            s = dict(zip(KEYS, row))
            make(src, s)
            files = {}
            for kind in KINDS:
                subprocess.run([sys.argv[1], src, dst, kind, "1"], check=True, capture_output=True)
                files[kind] = read(dst, s)
            golden.append(s | {"files": files})
    with open(os.path.join(HERE, "mixtures.json"), "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(g) for g in golden) + "\n]\n")


main()
