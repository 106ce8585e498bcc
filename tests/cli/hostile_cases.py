#!/usr/bin/env python3
"""Truncated, corrupted, lying and hostile files, one case each: the program must end with status 1 and
(2 for a recipe, which is part of the command) one clear line, in no time, and leave nothing behind. Usage: hostile_cases.py PITH WORK_FOLDER [PATTERN]

A case is a function that spoils a copy of a good folder; its decorator says which command is then run
and what the message must name. It may return further arguments."""
import json
import math
import os
import re
import shutil
import struct
import subprocess
import sys

sys.path.insert(0, os.path.dirname(__file__))
import mini  # noqa: E402

CASES = []
COMMANDS = {}
WEIGHT = "model.layers.0.self_attn.q_proj.weight"
MODULE = "model.layers.0.self_attn.q_proj"


def case(kind, name, pattern, status=1):
    def add(function):
        CASES.append((kind, name, pattern, status, function))
        return function
    return add


def bytes_case(kind, name, pattern, file, data):
    """A file replaced by other bytes."""
    def spoil(d):
        path = os.path.join(d, file)
        if os.path.exists(path):
            os.remove(path)
        with open(path, "wb") as f:
            f.write(data)
    CASES.append((kind, name, pattern, 1, spoil))


# --- helpers --------------------------------------------------------------------------------------

def load(d, file):
    with open(os.path.join(d, file)) as f:
        return json.load(f)


def save(d, file, value):
    with open(os.path.join(d, file), "w") as f:
        json.dump(value, f)


def set_config(d, **changes):
    c = load(d, "config.json")
    for key, value in changes.items():
        if value is ...:
            c.pop(key, None)
        else:
            c[key] = value
    save(d, "config.json", c)


def tensors(d, change):
    """Rewrites model.safetensors by change(dict)."""
    path = os.path.join(d, "model.safetensors")
    t = mini.read_safetensors(path)
    change(t)
    mini.write_safetensors(path, t)


def header(d, change):
    """Rewrites the header alone, in place of the old one: change(dict) -> dict or bytes."""
    path = os.path.join(d, "model.safetensors")
    with open(path, "rb") as f:
        blob = f.read()
    (n,) = struct.unpack_from("<Q", blob)
    old = json.loads(blob[8:8 + n])
    new = change(old)
    text = new if isinstance(new, bytes) else json.dumps(new if new is not None else old).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + blob[8 + n:])


def set_values(t, name, at, value):
    """Element `at` of a BF16 tensor (all of them when `at` is None)."""
    dtype, shape, data = t[name]
    assert dtype == "BF16"
    code = struct.pack("<f", value)[2:]
    data = code * (len(data) // 2) if at is None else data[:2 * at] + code + data[2 * at + 2:]
    t[name] = (dtype, shape, data)


def replace(d, file, how):
    path = os.path.join(d, file)
    if os.path.lexists(path):
        os.remove(path)
    how(path)


def write(d, file, data):
    with open(os.path.join(d, file), "wb") as f:
        f.write(data if isinstance(data, bytes) else data.encode())
    return os.path.join(d, file)


# --- safetensors ----------------------------------------------------------------------------------

ST = "model.safetensors"
bytes_case("quantize", "safetensors: empty", ST, ST, b"")
bytes_case("quantize", "safetensors: 7 bytes", ST, ST, b"\x10\0\0\0\0\0\0")
bytes_case("quantize", "safetensors: no header", ST, ST, b"\0" * 8)
bytes_case("quantize", "safetensors: header longer than the file", ST, ST, struct.pack("<Q", 1000) + b"{}")
bytes_case("quantize", "safetensors: header of 2^63 bytes", ST, ST, struct.pack("<Q", 1 << 63) + b"{}")
bytes_case("quantize", "safetensors: header not JSON", ST, ST, struct.pack("<Q", 8) + b"{\"a\": 1,")
bytes_case("quantize", "safetensors: header a list", ST, ST, struct.pack("<Q", 8) + b"[1,2,3] ")
bytes_case("quantize", "safetensors: header not UTF-8", ST, ST, struct.pack("<Q", 16) + b'{"\xff\xfe": 12345 }')
bytes_case("quantize", "safetensors: no tensors", "no tensors", ST, struct.pack("<Q", 8) + b"{}      ")
bytes_case("quantize", "safetensors: a pickle", ST, ST, b"\x80\x02}q\x00X\x06\x00\x00\x00weight" * 9)


@case("quantize", "safetensors: truncated", ST)
def _(d):
    path = os.path.join(d, ST)
    os.truncate(path, os.path.getsize(path) - 1)


@case("quantize", "safetensors: bytes after the end", ST)
def _(d):
    with open(os.path.join(d, ST), "ab") as f:
        f.write(b"\0" * 8)


@case("quantize", "safetensors: a header of a gigabyte (sparse)", ST)
def _(d):
    with open(os.path.join(d, ST), "wb") as f:
        f.write(struct.pack("<Q", 1 << 30))
        f.truncate((1 << 30) + 8)


@case("quantize", "safetensors: unknown dtype", "q_proj")
def _(d):
    header(d, lambda h: h[WEIGHT].update(dtype="BF17"))


@case("quantize", "safetensors: offsets in the wrong order", "q_proj")
def _(d):
    header(d, lambda h: h[WEIGHT]["data_offsets"].reverse())


@case("quantize", "safetensors: offsets behind the end", "q_proj|last tensor|ends")
def _(d):
    header(d, lambda h: h[WEIGHT].update(data_offsets=[1 << 40, (1 << 40) + 2048]))


@case("quantize", "safetensors: negative offset", "q_proj")
def _(d):
    header(d, lambda h: h[WEIGHT].update(data_offsets=[-2048, 0]))


@case("quantize", "safetensors: tensors overlap", ST)
def _(d):
    def change(h):
        h[WEIGHT]["data_offsets"] = h["model.layers.0.self_attn.o_proj.weight"]["data_offsets"]
    header(d, change)


@case("quantize", "safetensors: shape and size disagree", "q_proj")
def _(d):
    header(d, lambda h: h[WEIGHT].update(shape=[32, 31]))


@case("quantize", "safetensors: shape overflows", "q_proj")
def _(d):
    header(d, lambda h: h[WEIGHT].update(shape=[1 << 33, 1 << 33]))


@case("quantize", "safetensors: negative dimension", "q_proj")
def _(d):
    header(d, lambda h: h[WEIGHT].update(shape=[-32, -32]))


@case("quantize", "safetensors: fractional dimension", "q_proj")
def _(d):
    header(d, lambda h: h[WEIGHT].update(shape=[32.5, 32]))


@case("quantize", "safetensors: a tensor twice", ST)
def _(d):
    def change(h):
        text = json.dumps(h)
        return ("{" + f'"{WEIGHT}": ' + json.dumps(h[WEIGHT]) + ", " + text[1:]).encode()
    header(d, change)


@case("quantize", "safetensors: header nested 100,000 deep", ST)
def _(d):
    header(d, lambda h: b'{"a":' * 100000 + b"1" + b"}" * 100000)


@case("quantize", "safetensors: control characters in a name", ST)
def _(d):
    def change(h):
        h["\x1b[31mred\n"] = h.pop(WEIGHT)
    header(d, change)


@case("quantize", "safetensors: metadata that is not text", ST)
def _(d):
    header(d, lambda h: h.update(__metadata__={"format": 5}))


@case("quantize", "safetensors: missing tensor", "q_proj.*missing|missing.*q_proj")
def _(d):
    tensors(d, lambda t: t.pop(WEIGHT))


@case("quantize", "safetensors: missing norm", "model.norm")
def _(d):
    tensors(d, lambda t: t.pop("model.norm.weight"))


@case("quantize", "safetensors: a matrix of another shape", "q_proj")
def _(d):
    def change(t):
        dtype, shape, data = t[WEIGHT]
        t[WEIGHT] = (dtype, [shape[0] // 2, shape[1] * 2], data)
    tensors(d, change)


@case("quantize", "safetensors: a matrix of integers", "q_proj")
def _(d):
    def change(t):
        _, shape, data = t[WEIGHT]
        t[WEIGHT] = ("I16", shape, data)
    tensors(d, change)


@case("quantize", "safetensors: a folder in its place", ST)
def _(d):
    replace(d, ST, os.mkdir)


@case("quantize", "safetensors: a FIFO in its place", ST)
def _(d):
    replace(d, ST, os.mkfifo)


@case("quantize", "safetensors: a link to nowhere", ST + "|safetensors")
def _(d):
    replace(d, ST, lambda p: os.symlink("/nowhere/at/all", p))


@case("quantize", "safetensors: none at all", "safetensors")
def _(d):
    os.remove(os.path.join(d, ST))


# --- numbers --------------------------------------------------------------------------------------

for recipe in ("rtn", "gptq", "awq"):
    for what, value in (("NaN", math.nan), ("Inf", math.inf)):
        @case("quantize", f"numbers: {what} in a weight ({recipe})", "q_proj|finite")
        def _(d, recipe=recipe, value=value):
            tensors(d, lambda t: set_values(t, WEIGHT, 5, value))
            return ["-r", recipe]

    @case("quantize", f"numbers: NaN in a norm ({recipe})", "norm|finite")
    def _(d, recipe=recipe):
        tensors(d, lambda t: set_values(t, "model.layers.0.input_layernorm.weight", 3, math.nan))
        return ["-r", recipe]

    @case("quantize", f"numbers: Inf in the embedding ({recipe})", "embed_tokens.*not finite")
    def _(d, recipe=recipe):
        tensors(d, lambda t: set_values(t, "model.embed_tokens.weight", 1000, -math.inf))
        return ["-r", recipe]

    @case("quantize", f"numbers: NaN in the final norm ({recipe})", "model.norm.*not finite")
    def _(d, recipe=recipe):
        tensors(d, lambda t: set_values(t, "model.norm.weight", 1, math.nan))
        return ["-r", recipe]

    @case("quantize", f"numbers: all weights zero ({recipe})", "", status=0)
    def _(d, recipe=recipe):
        tensors(d, lambda t: [set_values(t, k, None, 0) for k in t if "proj" in k])
        return ["-r", recipe] if recipe != "gptq" else ["-r", "gptq", "--ignore", "o_proj", "--ignore", "down_proj"]

    @case("quantize", f"numbers: constant weights ({recipe})", "", status=0)
    def _(d, recipe=recipe):
        tensors(d, lambda t: [set_values(t, k, None, 0.5) for k in t if "proj" in k])
        return ["-r", recipe]


@case("quantize", "numbers: weights of 3e38 overflow the activations (gptq)", "finite|overflow")
def _(d):
    tensors(d, lambda t: [set_values(t, k, None, 3e38) for k in t if "proj" in k])
    return ["-r", "gptq"]


@case("quantize", "numbers: no input was ever non-zero (gptq)", "o_proj.*zero")
def _(d):
    tensors(d, lambda t: [set_values(t, k, None, 0) for k in t if "proj" in k])
    return ["-r", "gptq"]


@case("quantize", "numbers: scales overflow float16", "scale|float16|f16|F16")
def _(d):
    set_config(d, torch_dtype="float16")
    tensors(d, lambda t: [set_values(t, k, None, 1e30) for k in t if "proj" in k])
    return ["-r", "rtn", "--container", "awq", "--weights", "int4:g32:asym"]


@case("quantize", "numbers: a width that no group divides", "group|multiple")
def _(d):
    return ["-r", "rtn", "--weights", "int4:g24"]


# --- config.json ----------------------------------------------------------------------------------

CF = "config.json"
bytes_case("quantize", "config: empty", CF, CF, b"")
bytes_case("quantize", "config: not JSON", CF, CF, b"model_type = llama")
bytes_case("quantize", "config: a list", CF, CF, b"[]")
bytes_case("quantize", "config: UTF-16", CF, CF, "{}".encode("utf-16"))
bytes_case("quantize", "config: an empty object", CF, CF, b"{}")
bytes_case("quantize", "config: nested 100,000 deep", CF, CF, b"[" * 100000)
bytes_case("quantize", "config: a key twice", CF, CF, b'{"hidden_size": 1, "hidden_size": 2}')

for key, value, pattern in (
        ("hidden_size", ..., "hidden_size"), ("hidden_size", "64", "hidden_size"),
        ("hidden_size", -64, "hidden_size"), ("hidden_size", 0, "hidden_size"),
        ("hidden_size", 1 << 62, "hidden_size"), ("hidden_size", 64.5, "hidden_size"),
        ("num_attention_heads", 0, "num_attention_heads"), ("num_key_value_heads", 3, "num_key_value_heads"),
        ("num_hidden_layers", 10 ** 9, "num_hidden_layers|layers"), ("num_hidden_layers", 2, "layers.1"),
        ("num_hidden_layers", 0, "num_hidden_layers"), ("head_dim", 15, "head dimension 15"),
        ("intermediate_size", -1, "intermediate_size"), ("vocab_size", 5000, "embed_tokens"),
        ("vocab_size", [4096], "vocab_size"), ("model_type", 7, "model_type"),
        ("architectures", [7], "architectures"), ("architectures", "LlamaForCausalLM", "architectures"),
        ("rope_scaling", {"type": "telepathic", "factor": 2}, "telepathic"),
        ("rope_scaling", {"rope_type": "linear", "factor": -1}, "factor"),
        ("rope_scaling", 5, "rope_scaling"), ("rope_theta", 0, "rope_theta"),
        ("rms_norm_eps", "small", "rms_norm_eps"), ("rms_norm_eps", -1, "rms_norm_eps"),
        ("hidden_act", "mish", "mish"), ("max_position_embeddings", 0, "max_position_embeddings"),
        ("tie_word_embeddings", "yes", "tie_word_embeddings"), ("tie_word_embeddings", False, "lm_head"),
        ("quantization_config", {"quant_method": "magic"}, "magic"),
        ("quantization_config", [1], "quantization_config")):
    @case("quantize", f"config: {key} = {'missing' if value is ... else json.dumps(value)[:40]}", pattern)
    def _(d, key=key, value=value):
        set_config(d, **{key: value})


@case("quantize", "config: none at all", CF)
def _(d):
    os.remove(os.path.join(d, CF))


@case("quantize", "config: a FIFO in its place", CF)
def _(d):
    replace(d, CF, os.mkfifo)


# --- the index ------------------------------------------------------------------------------------

IX = "model.safetensors.index.json"


def index_case(name, pattern, make):
    @case("quantize", "index: " + name, pattern)
    def _(d):
        names = list(mini.read_safetensors(os.path.join(d, ST)))
        os.rename(os.path.join(d, ST), os.path.join(d, "a.safetensors"))
        good = {n: "a.safetensors" for n in names}
        value = make(good)
        write(d, IX, value if isinstance(value, (bytes, str)) else json.dumps(value))


index_case("not JSON", "index", lambda g: "{")
index_case("no weight_map", "weight_map", lambda g: {"metadata": {}})
index_case("weight_map a list", "weight_map", lambda g: {"weight_map": list(g)})
index_case("a file that is missing", "b.safetensors", lambda g: {"weight_map": g | {WEIGHT: "b.safetensors"}})
index_case("a path out of the folder", "index|\\.\\./", lambda g: {"weight_map": g | {WEIGHT: "../a.safetensors"}})
index_case("an absolute path", "index|/etc/passwd", lambda g: {"weight_map": g | {WEIGHT: "/etc/passwd"}})
index_case("a number for a file", "index|q_proj", lambda g: {"weight_map": g | {WEIGHT: 7}})

# --- tokenizers -----------------------------------------------------------------------------------

TK = "tokenizer.json"
bytes_case("calibrate", "tokenizer: empty", TK, TK, b"")
bytes_case("calibrate", "tokenizer: not JSON", TK, TK, b"\x0a\x0e\x0a\x05<unk>")
bytes_case("calibrate", "tokenizer: a list", TK, TK, b"[]")
bytes_case("calibrate", "tokenizer: an empty object", TK, TK, b"{}")
bytes_case("calibrate", "tokenizer: nested 100,000 deep", TK, TK, b'{"model":' * 100000)


def tokenizer_case(name, pattern, change):
    @case("calibrate", "tokenizer: " + name, pattern)
    def _(d):
        t = load(d, TK)
        change(t)
        save(d, TK, t)


def first(d):
    return next(iter(d))


tokenizer_case("unknown model", "Telepathy", lambda t: t["model"].update(type="Telepathy"))
tokenizer_case("vocabulary a list", "vocab", lambda t: t["model"].update(vocab=[1, 2]))
tokenizer_case("negative id", "vocab|id", lambda t: t["model"]["vocab"].update({"zzz": -5}))
tokenizer_case("id of 2^40", "vocab|id", lambda t: t["model"]["vocab"].update({"zzz": 1 << 40}))
tokenizer_case("merges a number", "merges", lambda t: t["model"].update(merges=5))
tokenizer_case("a merge of unknown parts", "merge", lambda t: t["model"]["merges"].insert(0, "zz qq"))
tokenizer_case("unknown pretokenizer", "pre_tokenizer|Oracle", lambda t: t.update(pre_tokenizer={"type": "Oracle"}))
tokenizer_case("a pattern that is no pattern", "pattern|regex|missing|parenthes|\\(\\(",
               lambda t: t.update(pre_tokenizer={"type": "Split", "pattern": {"Regex": "((("}, "behavior": "Isolated",
                                                 "invert": False}))
tokenizer_case("unknown normalizer", "normalizer|Launder", lambda t: t.update(normalizer={"type": "Launder"}))
tokenizer_case("added tokens a text", "added_tokens", lambda t: t.update(added_tokens="no"))


@case("calibrate", "tokenizer: more tokens than the model has", "vocab|id")
def _(d):
    t = load(d, TK)
    for i in range(40):
        t["model"]["vocab"][f"<extra {i}>"] = 4096 + i
    t["added_tokens"] = t.get("added_tokens", []) + [
        {"id": 4200, "content": "qqqqq", "single_word": False, "lstrip": False, "rstrip": False,
         "normalized": False, "special": False}]
    save(d, TK, t)
    return ["--calib", write(d, "c.txt", "a qqqqq here, a qqqqq there " * 400)]


@case("calibrate", "tokenizer: none at all", "tokenizer")
def _(d):
    os.remove(os.path.join(d, TK))


for name, data in (("empty", b""), ("garbage", os.urandom(500)), ("a length that lies", b"\x0a\xff\xff\xff\xff\x0f" + b"a" * 20)):
    @case("calibrate", f"tokenizer.model: {name}", "tokenizer.model")
    def _(d, data=data):
        os.remove(os.path.join(d, TK))
        write(d, "tokenizer.model", data)


# --- quantized checkpoints -------------------------------------------------------------------------

PARTS = {"compressed-tensors": (".weight_packed", ".weight_scale", ".weight_zero_point"),
         "gptq": (".qweight", ".scales", ".qzeros"), "awq": (".qweight", ".scales", ".qzeros")}

for container, parts in PARTS.items():
    for part in parts:
        @case(container, f"{container}: {part} missing", "q_proj")
        def _(d, part=part):
            tensors(d, lambda t: t.pop(MODULE + part))

        @case(container, f"{container}: {part} of another shape", "q_proj")
        def _(d, part=part):
            def change(t):
                dtype, shape, data = t[MODULE + part]
                t[MODULE + part] = (dtype, [shape[0] * 2, shape[1] // 2] if shape[1] > 1 else shape[::-1], data)
            tensors(d, change)

        @case(container, f"{container}: {part} of another dtype", "q_proj")
        def _(d, part=part):
            def change(t):
                dtype, shape, data = t[MODULE + part]
                t[MODULE + part] = ("F8_E4M3", [shape[0], shape[1] * (2 if dtype == "BF16" else 4)], data)
            tensors(d, change)

    for what, value in (("NaN", math.nan), ("Inf", math.inf)):
        @case(container, f"{container}: a scale of {what}", "q_proj.*finite")
        def _(d, parts=parts, value=value):
            tensors(d, lambda t: set_values(t, MODULE + parts[1], 3, value))

    @case(container, f"{container}: another group size in the config", "q_proj|group")
    def _(d):
        c = load(d, CF)
        text = json.dumps(c["quantization_config"])
        assert '"group_size": 32' in text
        c["quantization_config"] = json.loads(text.replace('"group_size": 32', '"group_size": 16'))
        save(d, CF, c)

    @case(container, f"{container}: other bits in the config", "q_proj|bits")
    def _(d):
        c = load(d, CF)
        text = re.sub(r'"(num_)?bits": 4', r'"\1bits": 8', json.dumps(c["quantization_config"]))
        c["quantization_config"] = json.loads(text)
        save(d, CF, c)

    for key, value in (("bits", 17), ("bits", "four"), ("quant_method", "magic"), ("quant_method", 4),
                       ("group_size", 0)):
        @case(container, f"{container}: {key} = {value!r} in the config", "quant|bits|group|q_proj")
        def _(d, key=key, value=value, container=container):
            c = load(d, CF)
            q = c["quantization_config"]
            at = q["config_groups"]["group_0"]["weights"] if container == "compressed-tensors" and key != "quant_method" else q
            at["num_bits" if at is not q and key == "bits" else key] = value
            save(d, CF, c)

    @case(container, f"{container}: a linear both quantized and not", "q_proj")
    def _(d):
        tensors(d, lambda t: t.update({WEIGHT: ("BF16", [64, 64], b"\0" * 8192)}))

for name, value in (("out of range", 99), ("negative", -1), ("of 2^31 - 1", 2 ** 31 - 1)):
    @case("gptq", f"gptq: g_idx {name}", "g_idx")
    def _(d, value=value):
        def change(t):
            dtype, shape, data = t[MODULE + ".g_idx"]
            t[MODULE + ".g_idx"] = (dtype, shape, struct.pack("<i", value) + data[4:])
        tensors(d, change)


@case("compressed-tensors", "compressed-tensors: weight_shape lies", "q_proj")
def _(d):
    tensors(d, lambda t: t.update({MODULE + ".weight_shape": ("I64", [2], struct.pack("<qq", 1 << 40, -3))}))


@case("compressed-tensors", "compressed-tensors: config_groups a number", "config_groups")
def _(d):
    c = load(d, CF)
    c["quantization_config"]["config_groups"] = 3
    save(d, CF, c)


@case("compressed-tensors", "compressed-tensors: a pattern that is no pattern", "re:|pattern|\\(\\(")
def _(d):
    c = load(d, CF)
    c["quantization_config"]["config_groups"]["group_0"]["targets"] = ["re:((("]
    save(d, CF, c)


# --- recipes --------------------------------------------------------------------------------------

for name, data, pattern in (
        ("an unknown key", '{"base": "gptq", "colour": "red"}', "colour"),
        ("a number for a stage", '{"round": 5}', "round"), ("a list for a stage", '{"transform": ["awq"]}', "transform"),
        ("nested junk", '{"weights": {"a": {"b": {"c": [[[[]]]]}}}}', "weights"),
        ("nested 100,000 deep", "[" * 100000, "recipe.json"), ("a list", "[]", "object"),
        ("not JSON", "round: gptq", "recipe.json"), ("empty", "", "recipe.json"),
        ("a megabyte", '{"name": "' + "a" * (1 << 20) + '"}', "recipe.json"),
        ("unknown base", '{"base": "magic"}', "magic"), ("unknown rounder", '{"round": "magic"}', "magic"),
        ("a grid that is none", '{"weights": "int4:g0"}', "weights"), ("int99", '{"weights": "int99"}', "int99"),
        ("damping of 2", '{"base": "gptq", "damp": 2}', "damp"), ("damping of 1e999", '{"damp": 1e999}', "recipe.json"),
        ("a NUL in a name", '{"name": "a\\u0000b"}', "recipe.json"), ("an escape sequence in a name", '{"name": "\\u001b[31m"}', "name"),
        ("unknown container", '{"container": "zip"}', "zip"), ("not UTF-8", b'{"name": "\xff\xfe"}', "recipe.json")):
    @case("quantize", "recipe: " + name, pattern, status=2)
    def _(d, data=data):
        return ["-r", write(d, "recipe.json", data)]


@case("quantize", "recipe: a folder", "recipe.json")
def _(d):
    os.mkdir(os.path.join(d, "recipe.json"))
    return ["-r", os.path.join(d, "recipe.json")]


@case("quantize", "recipe: a FIFO", "recipe.json")
def _(d):
    os.mkfifo(os.path.join(d, "recipe.json"))
    return ["-r", os.path.join(d, "recipe.json")]


@case("quantize", "recipe: missing", "nowhere.json")
def _(d):
    return ["-r", os.path.join(d, "nowhere.json")]


# --- calibration ----------------------------------------------------------------------------------

GOOD_LINE = '{"text": "' + "a few words of text to fill a window or two. " * 40 + '"}\n'

for name, file, data, pattern in (
        ("empty", "c.txt", "", "0 tokens"), ("too short", "c.txt", "just this", "fewer than one window"),
        ("empty lines only", "c.jsonl", "\n\n\n", "0 tokens|line"),
        ("a broken line", "c.jsonl", GOOD_LINE + '{"text": "unfinished', "line 2"),
        ("a line that is no object", "c.jsonl", GOOD_LINE + "[1, 2]\n", "line 2"),
        ("a line without text", "c.jsonl", GOOD_LINE + '{"txt": "a"}\n', "line 2"),
        ("text a number", "c.jsonl", '{"text": 5}\n', "line 1"),
        ("messages a text", "c.jsonl", '{"messages": "hello"}\n', "line 1"),
        ("a message without content", "c.jsonl", '{"messages": [{"role": "user"}]}\n', "line 1"),
        ("a message that is a number", "c.jsonl", '{"messages": [3]}\n', "line 1"),
        ("JSON lines not UTF-8", "c.jsonl", b'{"text": "\xff\xfe\xfd"}\n', "line 1"),
        ("a line nested 100,000 deep", "c.jsonl", '{"text":' * 100000, "line 1")):
    @case("calibrate", "calibration: " + name, pattern)
    def _(d, file=file, data=data):
        return ["--calib", write(d, file, data)]

for name, make in (("a folder", os.mkdir), ("a FIFO", os.mkfifo), ("missing", lambda p: None),
                   ("a link to itself", lambda p: os.symlink(p, p))):
    @case("calibrate", "calibration: " + name, "calib.txt")
    def _(d, make=make):
        make(os.path.join(d, "calib.txt"))
        return ["--calib", os.path.join(d, "calib.txt")]


@case("calibrate", "calibration: text that is not UTF-8 is refused", "c.txt: not UTF-8: byte .* is 0x")
def _(d):
    return ["--calib", write(d, "c.txt", bytes(range(256)) * 40 + b"\xc3\x28\xf8\x88\x80\x80\x80" * 20)]


@case("calibrate", "calibration: NUL bytes are refused", "c.txt: ")
def _(d):
    return ["--calib", write(d, "c.txt", b"\0" * 4000)]


# --- texts and tasks for eval ----------------------------------------------------------------------

for name, make, pattern in (("empty", lambda p: open(p, "w").close(), "text.txt|token"), ("a folder", os.mkdir, "text.txt"),
                            ("a FIFO", os.mkfifo, "text.txt")):
    @case("eval", "text: " + name, pattern)
    def _(d, make=make):
        make(os.path.join(d, "text.txt"))
        return ["--text", os.path.join(d, "text.txt")]

for name, data, pattern in (
        ("empty", "", "task"), ("not JSON", "question?\n", "task"), ("no choices", '{"context": "a", "answer": 0}\n', "line 1: not valid JSON with the keys"),
        ("one choice", '{"context": "a", "choices": ["b"], "answer": 0}\n', "choice"),
        ("choices of numbers", '{"context": "a", "choices": [1, 2], "answer": 0}\n', "choice"),
        ("an answer out of range", '{"context": "a", "choices": ["b", "c"], "answer": 2}\n', "answer"),
        ("an answer below", '{"context": "a", "choices": ["b", "c"], "answer": -1}\n', "answer"),
        ("context a number", '{"context": 4, "choices": ["b", "c"], "answer": 0}\n', "context"),
        ("longer than the model's context", json.dumps({"context": "word " * 3000, "choices": ["b", "c"], "answer": 0}), "task")):
    @case("eval", "task: " + name, pattern)
    def _(d, data=data):
        return ["--tasks", write(d, "task.jsonl", data)]


# --- verify ---------------------------------------------------------------------------------------

PJ = "pith.json"
bytes_case("verify", "verify: pith.json empty", PJ, PJ, b"")
bytes_case("verify", "verify: pith.json not JSON", PJ, PJ, b"<html>")
bytes_case("verify", "verify: pith.json a list", "pith.json", PJ, b"[]")
bytes_case("verify", "verify: pith.json an empty object", "linears|accounted", PJ, b"{}")
bytes_case("verify", "verify: pith.json nested 100,000 deep", PJ, PJ, b'{"a":' * 100000)


def account_case(name, pattern, change):
    @case("verify", "verify: " + name, pattern)
    def _(d):
        j = load(d, PJ)
        change(j)
        save(d, PJ, j)


def lie(hexes):
    return ("0" if hexes[0] != "0" else "1") + hexes[1:]


@case("verify", "verify: pith.json truncated", PJ)
def _(d):
    path = os.path.join(d, PJ)
    os.truncate(path, os.path.getsize(path) // 2)


@case("verify", "verify: pith.json missing", "note: no pith.json: what was meant", 0)
def _(d):
    os.remove(os.path.join(d, PJ))


account_case("the hash of a stored tensor lies", "q_proj",
             lambda j: j["linears"][0]["stored"][0].update(sha256=lie(j["linears"][0]["stored"][0]["sha256"])))
account_case("the hash of the weights lies", "q_proj", lambda j: j["linears"][0].update(sha256=lie(j["linears"][0]["sha256"])))
account_case("a hash that is a number", "hash", lambda j: j["linears"][0]["stored"][0].update(sha256=5))
account_case("a name that is a number", "name", lambda j: j["linears"][0]["stored"][0].update(name=[]))
account_case("stored a number", "accounted", lambda j: j["linears"][0].update(stored=5))
account_case("linears a number", "linears", lambda j: j.update(linears=5))
account_case("linears of texts", "accounted|linears", lambda j: j.update(linears=["a", "b"]))
account_case("tensors missing", "tensors", lambda j: j.pop("tensors"))
account_case("a linear left out", "q_proj", lambda j: j["linears"].pop(0))
account_case("a linear twice", "twice|times", lambda j: j["linears"].append(j["linears"][0]))
account_case("a linear that is not in the model", "linears", lambda j: j["linears"].append(
    j["linears"][0] | {"name": "model.layers.9.mlp.up_proj", "stored": []}))
account_case("another grid", "grid", lambda j: j["linears"][0].update(grid="int8:channel"))
account_case("another shape", "q_proj", lambda j: j["linears"][0].update(shape=[1, 2]))
account_case("better bits than there are", "bits_per_weight", lambda j: j.update(bits_per_weight=3.0))
account_case("a linear's bits", "bits", lambda j: j["linears"][0].update(bits_per_weight=2.0))
account_case("another size", "output_bytes", lambda j: j["sizes"].update(output_bytes=1))
account_case("sizes missing", "output_bytes", lambda j: j.pop("sizes"))
account_case("another container", "container", lambda j: j.update(container="awq"))
account_case("a better error than it has", "away from the original", lambda j: j["linears"][0].update(relative_error=0.001))
account_case("an action that is none", "action", lambda j: j["tensors"][0].update(action="improved"))


@case("verify", "verify: a tensor removed", "q_proj.*missing|missing.*q_proj")
def _(d):
    tensors(d, lambda t: t.pop(MODULE + ".weight_scale"))


@case("verify", "verify: a tensor too many", "extra.*not accounted")
def _(d):
    tensors(d, lambda t: t.update({"extra": ("BF16", [2], b"\0" * 4)}))


@case("verify", "verify: a scale changed", "q_proj")
def _(d):
    tensors(d, lambda t: set_values(t, MODULE + ".weight_scale", 1, 0.25))


@case("verify", "verify: a scale changed and its hash too", "dequantizes to other values|q_proj")
def _(d):
    import hashlib
    tensors(d, lambda t: set_values(t, MODULE + ".weight_scale", 1, 0.25))
    t = mini.read_safetensors(os.path.join(d, ST))
    j = load(d, PJ)
    for s in j["linears"][0]["stored"]:
        s["sha256"] = hashlib.sha256(t[s["name"]][2]).hexdigest()
    save(d, PJ, j)


def basis_case(what, value, want):
    @case("verify", "verify: a basis " + what, want)
    def _(d):
        j = load(d, PJ)
        j["basis"] = value
        save(d, PJ, j)


basis_case("that is a list", [], "basis")
basis_case("of words", {"stream": "all"}, "basis")
basis_case("wider than the model", {"stream": 1 << 40}, "basis")
basis_case("narrower than nothing", {"head": -1}, "basis")
basis_case("that does not divide", {"stream": 3}, "basis")
basis_case("without such a matrix", {"down": 6}, "basis")
basis_case("that the files do not have", {"stream": 2, "seed": 1}, "away from the original")


@case("verify", "verify: two layers swapped", "layers.0|layers.1")
def _(d):
    def change(t):
        for k in [k for k in t if ".layers.0." in k]:
            other = k.replace(".layers.0.", ".layers.1.")
            t[k], t[other] = t[other], t[k]
    tensors(d, change)


@case("verify", "verify: two layers swapped and pith.json too", "away from the original")
def _(d):
    def swap(text):
        return text.replace("layers.0.", "layers.#.").replace("layers.1.", "layers.0.").replace("layers.#.", "layers.1.")

    def change(t):
        old = dict(t)
        t.clear()
        t.update({swap(k): v for k, v in old.items()})
    tensors(d, change)
    j = load(d, PJ)
    save(d, PJ, json.loads(swap(json.dumps(j))))


@case("verify", "verify: NaN in a norm, and its hash too", "norm.*finite")
def _(d):
    import hashlib
    tensors(d, lambda t: set_values(t, "model.norm.weight", 0, math.nan))
    t = mini.read_safetensors(os.path.join(d, ST))
    j = load(d, PJ)
    for e in j["tensors"]:
        e["stored"][0]["sha256"] = hashlib.sha256(t[e["name"]][2]).hexdigest()
    save(d, PJ, j)


@case("verify", "verify: the config takes back the quantization", "quantiz|loaded|q_proj")
def _(d):
    set_config(d, quantization_config=...)


@case("verify", "verify: the config loses a layer", "layers.1")
def _(d):
    set_config(d, num_hidden_layers=1)


@case("verify", "verify: the file cut short", ST)
def _(d):
    path = os.path.join(d, ST)
    os.truncate(path, os.path.getsize(path) - 100)


# --- running them ----------------------------------------------------------------------------------

CALIBRATION = ["--calib-tokens", "128", "--seq-len", "64"]


def command(pith, kind, d, out, more):
    # An option given twice: the last one counts, so a case's own come after.
    grid = ["--weights", "int4:g32", "--container", "compressed-tensors"]
    if kind == "quantize":
        plain = [] if any("recipe.json" in a for a in more) else grid
        return [pith, "quantize", d, "-o", out, "-r", "rtn", "--quiet", *plain, *CALIBRATION, *more]
    if kind == "calibrate":
        return [pith, "quantize", d, "-o", out, "-r", "gptq", "--quiet", *grid, *CALIBRATION, *more]
    if kind == "verify":
        return [pith, "verify", d, "--against", os.path.join(os.path.dirname(d), "good"), *more]
    if kind == "eval":
        context = ["--context", "64"] if "--text" in more else []
        return [pith, "eval", d, *context, "--quiet", *more]
    return [pith, "run", d, "-p", "The", "-n", "1", "--quiet", *more]


def judge(kind, pattern, status, result, out):
    """What is wrong with a result, or None."""
    text = result.stderr.decode(errors="replace")
    said = result.stdout.decode(errors="replace")
    if result.returncode != status:
        return f"status {result.returncode} instead of {status}"
    if kind == "verify":
        text = text or said
        if not re.search(pattern, text):
            return f"nothing said about {pattern}"
        return None
    if status == 0:
        return None
    if text.count("\n") != 1 or not re.match(r"pith( \w+)?: ", text):
        return "not one line of message"
    if not re.search(pattern, text):
        return f"nothing said about {pattern}"
    if any(ord(c) < 32 and c != "\n" for c in text):
        return "control characters in the message"
    if said:
        return "something on standard output"
    for left in (out, out + ".partial"):
        if os.path.lexists(left):
            return f"{os.path.basename(left)} is left behind"
    return None


def make_good(pith, work):
    """A good folder for each kind of case."""
    good = os.path.join(work, "good")
    mini.make(good, layers=2, hidden=64, ffn=64)
    least = os.path.join(work, "least")
    mini.make(least, layers=1, hidden=32, ffn=32)
    folders = {"quantize": least, "calibrate": least, "eval": least}
    for kind in (*PARTS, "verify"):
        folders[kind] = os.path.join(work, "good-" + kind)
        container = kind if kind in PARTS else "compressed-tensors"
        subprocess.run([pith, "quantize", good, "-o", folders[kind], "-r", "rtn", "--weights", "int4:g32:asym",
                        "--container", container, "--quiet"], check=True)
    return folders


def main():
    pith, work = os.path.realpath(sys.argv[1]), sys.argv[2]
    only = sys.argv[3] if len(sys.argv) > 3 else ""
    show = bool(only) or "SHOW" in os.environ
    folders = make_good(pith, work)
    failed = 0
    for number, (kind, name, pattern, status, spoil) in enumerate(CASES):
        if only not in name:
            continue
        d, out = os.path.join(work, f"case{number}"), os.path.join(work, f"out{number}")
        shutil.copytree(folders[kind], d)
        more = spoil(d) or []
        try:
            result = subprocess.run(command(pith, kind, d, out, more), capture_output=True, timeout=60,
                                    stdin=subprocess.DEVNULL)
            wrong = judge(kind, pattern, status, result, out)
        except subprocess.TimeoutExpired:
            result, wrong = None, "no end within a minute"
        if show and result:
            print("   ", (result.stderr or result.stdout).decode(errors="replace").strip())
        if wrong:
            failed += 1
            print(f"[  FAILED  ] {name}: {wrong}")
            if result:
                print("   ", result.stderr.decode(errors="replace")[-1500:].strip())
        else:
            print(f"[       OK ] {name}")
        shutil.rmtree(d, ignore_errors=True)
        shutil.rmtree(out, ignore_errors=True)
        shutil.rmtree(out + ".partial", ignore_errors=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
