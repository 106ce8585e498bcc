#!/usr/bin/env python3
"""GGUF files against the peers' own code: the gguf package reads what pith writes, to the bit, and pith reads what
llama-quantize writes; llama.cpp runs pith's files and gets pith's perplexity.

    gguf_files.py FOLDER        works in FOLDER; PITH names the program

LLAMA_CPP names a folder with llama-perplexity and llama-quantize; without it those parts are skipped, and it says so.
"""
import hashlib
import json
import os
import re
import subprocess
import sys

import gguf
import numpy as np

PITH = os.environ["PITH"]
LLAMA = os.environ.get("LLAMA_CPP")
PROBE, TEXT = "models/probe", "models/probe/eval.txt"
NAMES = {"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
         "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
         "ffn_down": "mlp.down_proj"}
OUTER = {"token_embd": "model.embed_tokens", "output": "lm_head"}


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(" ".join(command) + "\n" + done.stderr[-2000:])
    return done.stdout + done.stderr


def pith(*args):
    return run(PITH, *args)


def llama(tool, *args):
    os.environ["LD_LIBRARY_PATH"] = LLAMA
    return run(os.path.join(LLAMA, tool), *args)


def module(name):
    layer = re.match(r"blk\.(\d+)\.(\w+)\.weight$", name)
    if layer:
        return f"model.layers.{layer[1]}.{NAMES.get(layer[2])}"
    return OUTER.get(name.rsplit(".", 1)[0])


def straight(x, name, heads):
    """Rows of q and k as Hugging Face has them: the reverse of conversion/llama.py's permute()."""
    n = {"attn_q": heads[0], "attn_k": heads[1]}.get(name.split(".")[-2])
    if not n:
        return x
    return x.reshape(n, x.shape[0] // n // 2, 2, -1).swapaxes(1, 2).reshape(x.shape)


E2M1 = np.array([0, .5, 1, 1.5, 2, 3, 4, 6], np.float32)


def fp4(t, factor):
    """MXFP4 and NVFP4 with the scale of the tensor in the scales, as pith multiplies, and zeros of both signs."""
    nv = t.tensor_type.name == "NVFP4"
    block, first, run = (36, 4, 8) if nv else (17, 1, 16)
    data = t.data.reshape(-1, block)
    codes = data[:, first:].reshape(-1, run)
    codes = np.concatenate([codes & 15, codes >> 4], 1)
    scale = data[:, :first].astype(np.int32).reshape(-1)
    if nv:
        scale = np.where(scale >> 3, (8 + (scale & 7)) * 2.0 ** (np.maximum(scale >> 3, 1) - 10), (scale & 7) * 2.0 ** -9)
    else:
        scale = 2.0 ** (scale - 127.0)
    value = np.where(codes & 8, -1, 1).astype(np.float32) * E2M1[codes & 7]
    theirs = gguf.quants.dequantize(t.data, t.tensor_type)
    assert np.array_equal(theirs, (value * scale.astype(np.float32)[:, None]).reshape(theirs.shape))
    return (value * (scale.astype(np.float32) * np.float32(factor))[:, None]).reshape(theirs.shape)


def field(reader, key):
    return reader.fields[key].contents()


def check_file(path, report=None):
    """Every quantized matrix has the values whose hash pith.json holds."""
    reader = gguf.GGUFReader(path)
    arch = field(reader, "general.architecture")
    heads = [field(reader, f"{arch}.attention.head_count"), field(reader, f"{arch}.attention.head_count_kv")]
    if arch != "llama":
        heads = [0, 0]
    want = {e["name"]: e["sha256"] for e in json.load(open(report or path + ".pith.json"))["linears"]}
    found = 0
    scale = {t.name.replace(".scale", ".weight"): t.data[0] for t in reader.tensors if t.name.endswith(".scale")}
    for t in reader.tensors:
        if t.tensor_type.name in ("F32", "F16", "BF16"):
            continue
        four = t.tensor_type.name in ("MXFP4", "NVFP4")
        x = fp4(t, scale.get(t.name, 1)) if four else gguf.quants.dequantize(t.data, t.tensor_type)
        x = np.ascontiguousarray(straight(x, t.name, heads))
        assert hashlib.sha256(x.tobytes()).hexdigest() == want[module(t.name)], (path, t.name)
        found += 1
    assert found == len(want), (path, found, len(want))
    return reader, found


def check_metadata(reader):
    tokens = json.load(open(PROBE + "/tokenizer.json"))
    vocab = {i: t for t, i in tokens["model"]["vocab"].items()}
    vocab |= {a["id"]: a["content"] for a in tokens["added_tokens"]}
    listed = field(reader, "tokenizer.ggml.tokens")
    assert listed == [vocab[i] for i in range(len(listed))]
    merges = [m if isinstance(m, str) else " ".join(m) for m in tokens["model"]["merges"]]
    assert field(reader, "tokenizer.ggml.merges") == merges
    assert field(reader, "tokenizer.ggml.pre") == "smaug-bpe"
    assert field(reader, "general.quantization_version") == 2
    assert field(reader, "llama.rope.dimension_count") == 64


def perplexity(path):
    """llama.cpp's and pith's."""
    ours = json.loads(subprocess.run(
        [PITH, "eval", path, "--text", TEXT, "--context", "256", "--convention", "llama.cpp", "--json"],
        capture_output=True, text=True, check=True).stdout)
    for _ in range(4):  # its log's last lines may be lost at exit
        out = llama("llama-perplexity", "-m", path, "-f", TEXT, "-c", "256", "-t", "2")
        theirs = re.findall(rf"\[{ours['windows']}\]([\d.]+)|Final estimate: PPL = ([\d.]+)", out)
        if theirs:
            return float(theirs[-1][0] or theirs[-1][1]), ours["perplexity"]
    sys.exit(f"{path}: llama-perplexity says nothing")


def write_and_load(folder):
    made = {}
    for grid in ("int8:g32", "int5:g32", "int4:g32", "mxfp4", "nvfp4", "q4_0", "q4_1", "q5_1", "q2_k", "q3_k", "q4_k",
                 "q5_k", "q6_k", "iq4_nl", "iq4_xs"):
        path = made[grid] = f"{folder}/{grid.replace(':', '-')}.gguf"
        pith("quantize", PROBE, "-o", path, "-r", "rtn", "--weights", grid, "--quiet")
        reader, found = check_file(path)
        check_metadata(reader)
        print(f"{grid:10} {found} matrices, read by the gguf package")
    return made


def read_theirs(folder, plain):
    for kind in ("F16", "Q8_0", "Q5_0", "Q5_1", "Q4_0", "Q4_1", "Q6_K", "Q5_K_M", "Q4_K_M", "Q3_K_M", "Q2_K",
                 "IQ4_NL", "IQ4_XS"):
        theirs, again = f"{folder}/theirs-{kind}.gguf", f"{folder}/again-{kind}.gguf"
        llama("llama-quantize", plain, theirs, kind, "2")
        pith("convert", theirs, "-o", again, "--quiet")
        report = json.load(open(again + ".pith.json"))
        assert all(e["lossless"] for e in report["linears"]), kind
        _, found = check_file(theirs, again + ".pith.json")
        print(f"{kind:10} {found} matrices of llama-quantize, read by pith")


def measure(folder, plain, made):
    paths = {"BF16": plain, "F16": f"{folder}/theirs-F16.gguf", "Q8_0": made["int8:g32"], "Q4_0": made["int4:g32"],
             "MXFP4": made["mxfp4"], "Q4_K": made["q4_k"], "Q2_K": made["q2_k"], "IQ4_XS": made["iq4_xs"],
             "their Q4_K_M": f"{folder}/theirs-Q4_K_M.gguf"}
    for name, path in paths.items():
        theirs, ours = perplexity(path)
        print(f"{name:12} perplexity {theirs:.4f} by llama.cpp, {ours:.4f} by pith")
        # Beside weights of blocks it rounds activations to 8 bits, which pith does not.
        assert abs(theirs / ours - 1) < (5e-5 if name in ("BF16", "F16") else 2e-3), (name, theirs, ours)


def main():
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    plain = f"{folder}/plain.gguf"
    pith("convert", PROBE, "-o", plain, "--quiet")
    made = write_and_load(folder)
    if not LLAMA:
        print("SKIPPED: LLAMA_CPP names no llama.cpp: nothing run by it, nothing read from it")
        return
    read_theirs(folder, plain)
    measure(folder, plain, made)


main()
