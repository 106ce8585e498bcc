#!/usr/bin/env python3
"""Seeds of fuzz_hub, fuzz_task_dir, fuzz_corpus and fuzz_checkpoint: answers of a hub, and files as they are published;
and a few of other targets, made of seeds that lie there.

    make_files.py [FOLDER]      FOLDER: fuzz/corpus
"""
import bz2
import gzip
import hashlib
import json
import os
import struct
import sys

ROOT = os.path.dirname(os.path.abspath(__file__))
TASKS = os.path.join(ROOT, "..", "tests", "golden", "tasks")
OUT = sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, "corpus")
COMMIT = "0123456789abcdef0123456789abcdef01234567"
STATUS = [200, 206, 302, 401, 403, 404, 429, 503, 307, 204]
TOKEN, TWO, PATTERN, HTTP, AGAIN = 1, 2, 4, 8, 16


def put(target, name, data):
    folder = os.path.join(OUT, target)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name), "wb") as f:
        f.write(data)


# --- a hub -------------------------------------------------------------------------------------------

def answer(body=b"", status=200, headers="", result=0):
    if isinstance(body, (list, dict)):
        body = json.dumps(body).encode()
    head = headers.replace("\n", "\r\n").encode()
    return struct.pack("<BBHH", STATUS.index(status), result, len(head), len(body)) + head + body


def git_name(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def listed(path, data, large=False):
    if not large:
        return {"type": "file", "path": path, "oid": git_name(data), "size": len(data)}
    sha = hashlib.sha256(data).hexdigest()
    return {"type": "file", "path": path, "oid": "0" * 40, "size": 130, "lfs": {"oid": sha, "size": len(data)}}


CONFIG, WEIGHTS = b'{"model_type": "llama"}', b"weights" * 9
FILES = [listed("config.json", CONFIG), listed("model.safetensors", WEIGHTS, True)]
REVISION = answer({"sha": COMMIT})
GGUF = listed("a-q4.gguf", WEIGHTS, True)
SHA = hashlib.sha256(WEIGHTS).hexdigest()
MOVED = f'X-Linked-Etag: "{SHA}"\nLocation: https://elsewhere.example/blob\n'
LARGE = b"\1" * (20 << 10)


def hub(name, choice, *answers, model="org/name"):
    put("hub", name, bytes([choice]) + model.encode() + b"\n" + b"".join(answers))


def hubs():
    tree, both = answer(FILES), answer(CONFIG) + answer(WEIGHTS)
    hub("whole", 0, REVISION, tree, both)
    hub("token", TOKEN, REVISION, tree, both)
    hub("two", TWO, REVISION, tree, both)
    hub("revision", 0, REVISION, tree, both, model="org/name@v1.0")
    hub("commit", 0, REVISION, tree, both, model="org/name@" + COMMIT)
    hub("no_name", 0, model="org-name")
    hub("redirect", TOKEN, REVISION, tree, answer(CONFIG), answer(b"", 302, MOVED), answer(WEIGHTS))
    hub("to_http", 0, REVISION, tree, answer(b"", 302, "Location: http://elsewhere.example/\n"))
    hub("plain_http", HTTP, REVISION, tree, answer(b"", 302, "Location: http://user@elsewhere/\n"))
    hub("nowhere", 0, REVISION, tree, answer(b"", 302))
    hub("in_circles", 0, REVISION, *[answer(b"", 307, "Location: https://hub:8443/again\n")] * 12)
    hub("pages", 0, REVISION, answer(FILES[:1], headers='Link: <https://hub/p?c=2>; rel="next", <x>; rel="last"\n'),
        answer(FILES[1:]), both)
    hub("again", AGAIN, REVISION, tree, answer(CONFIG), answer(WEIGHTS[:9], result=1), REVISION, tree,
        answer(WEIGHTS[9:], 206, f"Content-Range: bytes 9-62/{len(WEIGHTS)}\n"))
    hub("other_range", AGAIN, REVISION, tree, answer(CONFIG), answer(WEIGHTS[:9], result=1), REVISION, tree,
        answer(WEIGHTS[8:], 206, f"Content-Range: bytes 8-62/{len(WEIGHTS)}\n"))
    hub("no_ranges", AGAIN, REVISION, tree, answer(CONFIG), answer(WEIGHTS[:9], result=1), REVISION, tree,
        answer(WEIGHTS), answer(WEIGHTS))
    hub("here_already", AGAIN, REVISION, tree, both, REVISION, tree)
    hub("changed", 0, REVISION, tree, answer(CONFIG), answer(WEIGHTS[::-1]))
    hub("too_long", 0, REVISION, tree, answer(CONFIG + b" "))
    hub("other_etag", 0, REVISION, tree, answer(CONFIG, headers='X-Linked-Etag: W/"1234"\n'), answer(WEIGHTS))
    hub("pattern", PATTERN, REVISION, answer(FILES + [listed("a/b.txt", b"text")]), answer(b"text"), answer(CONFIG))
    hub("pattern_none", PATTERN, REVISION, tree)
    hub("gguf", PATTERN, REVISION, answer([GGUF, listed("a/x.json", CONFIG)]), answer(WEIGHTS), answer(CONFIG))
    hub("ggufs", 0, REVISION, answer([listed(f"q{i}.gguf", b"%d" % i) for i in range(6)]))
    hub("no_weights", 0, REVISION, answer(FILES[:1]))
    hub("twice", 0, REVISION, answer(FILES + [listed("consolidated.safetensors", WEIGHTS, True)]), both)
    hub("same_path", 0, REVISION, answer(FILES + FILES))
    hub("outside", 0, REVISION, answer([listed("../x.json", b"")]))
    hub("no_hash", 0, REVISION, answer([{"type": "file", "path": "a", "size": 1}]))
    hub("no_list", 0, REVISION, answer({}))
    hub("no_commit", 0, answer({"sha": "x"}))
    hub("no_json", 0, answer(b"<html>"))
    hub("huge", 0, REVISION, answer([FILES[0], dict(GGUF, path="model.safetensors", lfs={"oid": SHA, "size": 1 << 30})]),
        both)
    hub("large", TWO, REVISION, answer([listed("model.safetensors", LARGE, True), FILES[0]]), answer(CONFIG),
        answer(LARGE))
    hub("empty_file", 0, REVISION, answer(FILES + [listed("merges.txt", b"")]), both, answer())
    hub("gated", 0, answer(b"", 403, "X-Error-Code: GatedRepo\nX-Error-Message: ask first\n"))
    hub("gated_token", TOKEN, answer(b"", 401, "X-Error-Code: GatedRepo\n"))
    hub("private", 0, answer(b"", 401))
    hub("wrong_token", TOKEN, answer(b"", 401))
    hub("no_right", TOKEN, answer(b"", 403))
    hub("no_model", 0, answer(b"", 404, "X-Error-Code: RepoNotFound\n"))
    hub("no_revision", 0, answer(b"", 404, "X-Error-Code: RevisionNotFound\n"))
    hub("slow_down", 0, answer(b"", 429, 'RateLimit: "api";r=0;t=900\n'), answer(b"", 429, "Retry-After: 3\n"))
    hub("busy", 0, answer(b"", 503, "Retry-After: 0\n"), REVISION, answer(b"", 503, "Retry-After: 0\n"), tree, both)
    hub("always_busy", 0, *[answer(b"", 503, "Retry-After: 0\n")] * 12)
    hub("nobody", 0, answer(result=2))
    hub("certificate", 0, answer(result=3))
    hub("long_header", 0, answer(b"", headers="X-Error-Message: " + "x" * 5000 + "\n"))


# --- tasks ---------------------------------------------------------------------------------------------

def read(name, lines=None):
    with open(os.path.join(TASKS, name), "rb") as f:
        return b"".join(f.readlines()[:lines]) if lines else f.read()


def task_dir(name, which, wish, files):
    order = ["valid.jsonl", "valid-labels.lst", "train.jsonl", "train-labels.lst", "own.bz2", "test", "dev", "csv", "own.gz"]
    data = bytes([which, wish])
    for f in order:
        data += struct.pack("<H", len(files[f])) + files[f] if f in files else b"\xff\xff"
    put("task_dir", name, data)


def tasks():
    piqa, labels = read("piqa/valid.jsonl", 3), read("piqa/valid-labels.lst", 3)
    beside = {"valid.jsonl": piqa, "valid-labels.lst": labels}
    train = {"train.jsonl": read("piqa/valid.jsonl"), "train-labels.lst": read("piqa/valid-labels.lst")}
    test, dev = b"What?,a,b,c,d,B\n\"One, or\",1,2,3,4,A\n", b"Why?,a,b,c,d,C\nHow?,a,b,c,d,D\n"
    swag = read("hellaswag.txt", 12)
    packed = bz2.compress(swag)
    task_dir("labels", 0, 0, beside)
    task_dir("labels_named", 1, 2, beside)
    task_dir("labels_crlf", 0, 0, dict(beside, **{"valid-labels.lst": labels.replace(b"\n", b"\r\n")}))
    task_dir("labels_wrong", 0, 0, dict(beside, **{"valid-labels.lst": b"0\n2\n"}))
    task_dir("labels_more", 0, 0, dict(beside, **{"valid-labels.lst": labels + b"0\n1\n"}))
    task_dir("train", 0, 4, dict(beside, **train))
    task_dir("train_short", 0, 12, dict(beside, **{"train.jsonl": piqa[:40]}))
    task_dir("packed", 2, 0, {"own.bz2": packed})
    task_dir("packed_streams", 2, 1, {"own.bz2": packed + bz2.compress(swag)})
    task_dir("packed_cut", 2, 0, {"own.bz2": packed[:-9]})
    task_dir("packed_none", 2, 0, {"own.bz2": swag})
    task_dir("packed_empty", 2, 0, {"own.bz2": b""})
    task_dir("packed_other_form", 7, 0, {"own.bz2": packed})
    task_dir("packed_bytes", 2, 0, {"own.bz2": bz2.compress(b"\xff\xfe")})
    zipped = gzip.compress(swag, mtime=0)
    for name, data in (("zipped", zipped), ("zipped_streams", zipped * 2), ("zipped_cut", zipped[:-9]),
                       ("zipped_none", swag)):
        task_dir(name, 13, 0, {"own.gz": data})
    with open(os.path.join(TASKS, "humaneval_own.jsonl"), "rb") as f:
        programs = f.read()
    for name, data in (("programs", programs), ("programs_name", programs.replace(b'"add"', b'"add("')),
                       ("programs_test", programs.replace(b'"test"', b'"tests"'))):
        # A size that asks for no examples, for all items, and for many tokens: see fuzz_task.c.
        put("task", name, data + b"\n" * next(n for n in range(45) if (len(data) + n) % 45 == 0))
    task_dir("subjects", 3, 4, {"test": test, "dev": dev})
    task_dir("subjects_named", 4, 1, {"test": test})
    task_dir("subjects_other", 5, 0, {"test": test})
    task_dir("subjects_empty", 3, 0, {})
    task_dir("subject", 6, 8, {"test": test, "dev": dev})
    task_dir("subject_alone", 6, 4, {"test": test})
    task_dir("subject_unnamed", 8, 0, {"csv": test})
    task_dir("no_task", 9, 0, beside)
    task_dir("no_file_named", 10, 0, {})
    task_dir("no_file", 11, 0, {})
    task_dir("no_form", 12, 0, {})
    one = read("piqa/valid.jsonl", 1)
    task_dir("alike", 0, 8, {"valid.jsonl": one * 4 + piqa, "valid-labels.lst": b"0\n" * 7})
    task_dir("all_alike", 0, 8, {"valid.jsonl": one * 4, "valid-labels.lst": b"0\n" * 4})


def texts():
    plain = b"The first line.\r\nThe second, \xc3\xa4 bit longer than the first one is, so that windows come of it.\n" * 3
    for i, lf in enumerate((b"0", b"3")):
        put("corpus", f"text{i}", lf + plain)
    line = b'{"text": "One document of some length, which makes a window."}\n\n'
    chat = b'{"messages": [{"role": "user", "content": "What is it?"}, {"role": "assistant", "content": "A window."}]}\n'
    put("corpus", "lines", b"1" + line + chat)
    put("corpus", "lines_wrong", b"1" + line + b'{"messages": [{"role": "user"}]}\n')
    put("corpus", "lines_none", b"1" + b'{"prompt": "x"}\n')
    put("corpus", "lines_broken", b"1" + b'{"text": \n')
    put("corpus", "short", b"0x")
    put("corpus", "no_text", b"0\xff\xfe\x00")
    put("corpus", "prompt", b"2One prompt\r\n")
    put("corpus", "prompts", b"2One prompt\n\n" + b'{"prompt": "Another"}\nand one more\n')
    put("corpus", "prompts_wrong", b"2" + b'{"text": "Another"}\n')
    put("corpus", "prompts_long", b"2" + b"a long one, " * 40 + b"\n")
    put("corpus", "prompts_none", b"2\n\n")


# --- folders of tensors ------------------------------------------------------------------------------

def tensors(*names):
    header = {n: {"dtype": "F32", "shape": [2], "data_offsets": [8 * i, 8 * i + 8]} for i, n in enumerate(names)}
    head = json.dumps(header).encode()
    return struct.pack("<Q", len(head)) + head + b"\0" * 8 * len(names)


def folder(name, **files):
    order = ["config", "index", "single", "first", "second", "other"]
    data = b"".join(struct.pack("<H", len(files[f])) + files[f] if f in files else b"\xff\xff" for f in order)
    put("checkpoint", name, data)


def folders():
    config = b'{"model_type": "llama"}'
    both = {"first": tensors("a", "b"), "second": tensors("c")}

    def index(**files):
        return json.dumps({"weight_map": {k: f"model-0000{v}-of-00002.safetensors" for k, v in files.items()}}).encode()

    folder("single", config=config, single=tensors("a", "b"))
    folder("sharded", config=config, index=index(a=1, b=1, c=2), **both)
    folder("sharded_moved", config=config, index=index(a=1, b=2, c=2), **both)
    folder("sharded_lacking", config=config, index=index(a=1, d=2), **both)
    folder("sharded_missing", config=config, index=index(a=1, c=2), first=both["first"])
    folder("sharded_twice", config=config, index=index(a=1, c=2), first=both["first"], second=tensors("a", "c"))
    folder("sharded_beside", config=config, index=index(a=1), single=tensors("a"), **both)
    folder("sharded_wrong", config=config, index=b"{", **both)
    folder("lone", config=config, first=both["first"])
    folder("two", config=config, **both)
    folder("other", config=config, other=b"x")
    folder("nothing", config=config)
    folder("no_config", single=tensors("a"))


# --- of other seeds --------------------------------------------------------------------------------------

def of(target, name):
    with open(os.path.join(ROOT, "corpus", target, name), "rb") as f:
        return f.read()


def container(name, seed, change, extra=b""):
    """A seed of fuzz_container with another configuration, and one more tensor."""
    (size,) = struct.unpack("<H", seed[2:4])
    config = json.loads(seed[4:4 + size])
    change(config)
    text = json.dumps(config).encode()
    put("container", name, seed[:2] + struct.pack("<H", len(text)) + text + extra + seed[4 + size:])


def others():
    turn = of("container", "turn")

    def twice(config):
        config["config_groups"]["b"] = config["config_groups"]["a"]

    def six_bits(config):
        config["config_groups"]["a"]["weights"].update(type="float", num_bits=6)

    container("turn.matrix", turn, lambda config: None, bytes([44, 17, 2, 32, 0, 32, 0]))
    container("two_groups", turn, twice)
    container("no_format", turn, six_bits)
    head, body = of("model", "llama_compressed-tensors").split(b"\n\n", 1)
    bias = b"\nF32 64 model.layers.0.mlp.up_proj.bias ="
    put("model", "llama_zero_bias", head + bias + b"00\n\n" + body)
    put("model", "llama_stray_bias", head + bias + b"00010000\n\n" + body)
    split = {"type": "Split", "pattern": {"Regex": "\\u0061+|[^\\u0061]"}, "behavior": "Isolated", "invert": False}
    grow = {"type": "Replace", "pattern": {"Regex": "."}, "content": "x" * 64}
    for name, change in (("short_escape", {"pre_tokenizer": split}),
                         ("growing", {"normalizer": {"type": "Sequence", "normalizers": [grow] * 5}})):
        tokenizer = {"version": "1.0", "added_tokens": [], "normalizer": None, "pre_tokenizer": None,
                     "post_processor": None, "decoder": None,
                     "model": {"type": "BPE", "unk_token": "?", "vocab": {"?": 0, "a": 1, "x": 2}, "merges": []}}
        put("tokenizer_json", name, json.dumps(tokenizer | change).encode())


hubs()
tasks()
texts()
folders()
others()
