#!/usr/bin/env python3
"""Changes what a checkpoint means, a config key, a token or a merge at a time, takes its account away, and asks
`pith verify --against`: each must end with status 1 (0 for what is only told) and name the thing. Usage: meanings.py PITH WORK_FOLDER"""
import json
import os
import re
import shutil
import struct
import sys

sys.path.insert(0, os.path.dirname(__file__))
import flips  # noqa: E402

CASES = []
NOTED = ("torch_dtype",)  # what quantizers change on purpose is told, and no fault


def case(kind, name, pattern):
    def add(function):
        CASES.append((kind, name, pattern, function))
        return function
    return add


def edit(folder, file, change):
    path = os.path.join(folder, file)
    with open(path) as f:
        j = json.load(f)
    change(j)
    with open(path, "w") as f:
        json.dump(j, f)


def key(name, value):
    def change(j):
        if value is None:
            del j[name]
        else:
            j[name] = value
    return lambda d: edit(d, "config.json", change)


def renamed(old, new):
    return lambda d: edit(d, "config.json", lambda j: j.__setitem__(new, j.pop(old)))


for what, pattern, spoil in (
        ("rope_theta", "rope_theta is 500000, and 20000 in the original", key("rope_theta", 500000.0)),
        ("rope_theta misspelt", "rope_theta is 10000, and 20000", renamed("rope_theta", "rope_theat")),
        ("rms_norm_eps", "rms_norm_eps is 1e-06, and 1e-05", key("rms_norm_eps", 1e-6)),
        ("rms_norm_eps left out", "rms_norm_eps is 1e-06", key("rms_norm_eps", None)),
        ("rope_scaling added", "rope_scaling", key("rope_scaling", {"rope_type": "linear", "factor": 2.0})),
        ("rope_scaling with a temperature", "rope_scaling",
         key("rope_scaling", {"rope_type": "yarn", "factor": 1.0, "attention_factor": 1.5})),
        ("a longer context", "max_position_embeddings", key("max_position_embeddings", 4096)),
        ("another architecture", "architectures", key("architectures", ["MistralForCausalLM"])),
        ("a window", "architectures|sliding_window", lambda d: edit(d, "config.json", lambda j: j.update(
            {"architectures": ["MistralForCausalLM"], "model_type": "mistral", "sliding_window": 64}))),
        ("other heads", "num_attention_heads", lambda d: edit(d, "config.json", lambda j: j.update(
            {"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 32}))),
        ("eos_token_id", "eos_token_id", key("eos_token_id", 17)),
        ("bos_token_id", "bos_token_id", key("bos_token_id", 17)),
        ("pad_token_id", "pad_token_id", key("pad_token_id", 17)),
        ("torch_dtype", "engines compute in float16, and in bfloat16 with", key("torch_dtype", "float16"))):
    CASES.append(("folder", what, pattern, spoil))


@case("folder", "eos of the generation", "generation_config.json.*eos_token_id")
def _(d):
    edit(d, "generation_config.json", lambda j: j.update(eos_token_id=[3]))


@case("folder", "two tokens change places", "token \\d+ is")
def _(d):
    def swap(j):
        v = j["model"]["vocab"]
        a, b = [t for t, i in v.items() if i in (1000, 1001)]
        v[a], v[b] = v[b], v[a]
    edit(d, "tokenizer.json", swap)


@case("folder", "two merges change places", "merges or scores")
def _(d):
    def swap(j):
        m = j["model"]["merges"]
        m[700], m[701] = m[701], m[700]
    edit(d, "tokenizer.json", swap)


@case("folder", "text cut otherwise", "becomes other ids")
def _(d):
    edit(d, "tokenizer.json", lambda j: j.update(pre_tokenizer={
        "type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}))


@case("folder", "ids decoded otherwise", "become another text")
def _(d):
    edit(d, "tokenizer.json", lambda j: j.update(decoder={"type": "Fuse"}))


@case("folder", "a special token that is plain", "is text, and special in the original")
def _(d):
    edit(d, "tokenizer.json", lambda j: j["added_tokens"][0].update(special=False))


@case("folder", "a token more", "becomes other ids")
def _(d):
    def add(j):
        used = [*j["model"]["vocab"].values(), *(t["id"] for t in j["added_tokens"])]
        j["added_tokens"].append({**j["added_tokens"][0], "id": max(used) + 1, "content": "quick"})
    edit(d, "tokenizer.json", add)


@case("folder", "a special token that takes blanks", "becomes other ids")
def _(d):
    edit(d, "tokenizer.json", lambda j: j["added_tokens"][0].update(lstrip=True))


@case("folder", "a special token that is a word", "becomes other ids")
def _(d):
    edit(d, "tokenizer.json", lambda j: j["added_tokens"][0].update(single_word=True))


@case("folder", "another chat template", "chat template is not the original's")
def _(d):
    with open(os.path.join(d, "chat_template.jinja"), "a") as f:
        f.write("{% if add_generation_prompt %}> {% endif %}\n")


@case("folder", "no chat template", "chat template of the original is missing")
def _(d):
    os.remove(os.path.join(d, "chat_template.jinja"))


@case("folder", "no tokenizer", "tokenizer")
def _(d):
    os.remove(os.path.join(d, "tokenizer.json"))


@case("folder", "another matrix", "q_proj: is .* away from the original")
def _(d):
    for name in os.listdir(d):
        path = os.path.join(d, name)
        if not name.endswith(".safetensors"):
            continue
        t = flips.mini.read_safetensors(path)
        for key in t:
            if key.endswith("layers.1.self_attn.q_proj.weight_packed"):
                t[key] = (t[key][0], t[key][1], bytes(reversed(t[key][2])))
        flips.mini.write_safetensors(path, t)


def gguf_value(data, name):
    at = data.index(struct.pack("<Q", len(name)) + name.encode()) + 8 + len(name)
    return at + 4


def put(name, form, value):
    def spoil(path):
        with open(path, "rb") as f:
            data = bytearray(f.read())
        struct.pack_into(form, data, gguf_value(data, name), value)
        with open(path, "wb") as f:
            f.write(data)
    return spoil


for what, pattern, spoil in (
        ("rope.freq_base", "rope_theta", put("llama.rope.freq_base", "<f", 5e5)),
        ("an epsilon", "rms_norm_eps", put("llama.attention.layer_norm_rms_epsilon", "<f", 1e-6)),
        ("a context", "max_position", put("llama.context_length", "<I", 8192)),
        ("eos", "eos_token_id|EOS", put("tokenizer.ggml.eos_token_id", "<I", 17)),
        ("bos", "bos_token_id|BOS", put("tokenizer.ggml.bos_token_id", "<I", 17)),
        ("add_bos_token", "becomes other ids", put("tokenizer.ggml.add_bos_token", "<B", 0))):
    CASES.append(("gguf", what, pattern, spoil))


def array_of(data, name):
    """Places of the strings of an array: [(begin, end)]."""
    at = gguf_value(data, name)
    _, n = struct.unpack_from("<IQ", data, at)
    at += 12
    out = []
    for _ in range(n):
        (size,) = struct.unpack_from("<Q", data, at)
        out.append((at + 8, at + 8 + size))
        at += 8 + size
    return out


def swap_strings(name):
    def spoil(path):
        with open(path, "rb") as f:
            data = bytearray(f.read())
        list_ = array_of(data, name)
        first = list_[700]
        other = next(p for p in list_[701:] if p[1] - p[0] == first[1] - first[0])
        data[first[0]:first[1]], data[other[0]:other[1]] = data[other[0]:other[1]], data[first[0]:first[1]]
        with open(path, "wb") as f:
            f.write(data)
    return spoil


def retold(path):
    with open(path, "rb") as f:
        data = f.read()
    assert data.count(b"{{ m.content }}") == 1
    with open(path, "wb") as f:
        f.write(data.replace(b"{{ m.content }}", b"{{ m['role'] }}"))


CASES.append(("gguf", "another chat template", "chat template is not the original's", retold))
CASES.append(("gguf", "two tokens", "token \\d+ is", swap_strings("tokenizer.ggml.tokens")))
CASES.append(("gguf", "two merges", "merges or scores", swap_strings("tokenizer.ggml.merges")))


def main(pith, work):
    model, folder, gguf = flips.make(pith, work, rope_theta=20000.0, pad_token_id=4095)
    bad = 0

    def show(good, text, output=""):
        nonlocal bad
        bad += not good
        print(f"[{'       OK ' if good else '  FAILED  '}] {text}")
        if not good:
            print(output)

    for kind, name, pattern, spoil in [("folder", "nothing changed", "", None), ("gguf", "nothing changed", "", None)] \
            + CASES:
        copy = os.path.join(work, "copy" if kind == "folder" else "copy.gguf")
        if kind == "folder":
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(folder, copy)
            os.remove(os.path.join(copy, "pith.json"))
        else:
            shutil.copy(gguf, copy)
        if spoil:
            spoil(copy)
        r = flips.run(pith, "verify", copy, "--against", model)
        good = r.returncode == (1 if spoil and name not in NOTED else 0) and re.search(pattern, r.stdout)
        show(good, f"{kind}: {name}", r.stdout)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
