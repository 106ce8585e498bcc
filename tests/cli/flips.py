#!/usr/bin/env python3
"""Spoils finished checkpoints, a bit or a byte at a time, and asks `pith verify` each time: every change must
end with status 1. Prints a table, a row for each kind of place.

    flips.py PITH WORK_FOLDER [COUNT [SEED]]      COUNT changes over all kinds (default 60)

Only the standard library is used; the checkpoints are made by pith from tests/cli/mini.py."""
import json
import os
import random
import struct
import subprocess
import sys

sys.path.insert(0, os.path.dirname(__file__))
import mini  # noqa: E402


def run(pith, *args):
    return subprocess.run([pith, *args], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace")


def must(pith, *args):
    r = run(pith, *args)
    if r.returncode != 0:
        sys.exit(f"pith {' '.join(args)}: status {r.returncode}\n{r.stdout}")


def make(pith, work, **config):
    """A model with all that a folder may hold; quantized into shards, and as a GGUF file."""
    model, folder = os.path.join(work, "model"), os.path.join(work, "folder")
    c = mini.make(model, layers=2, hidden=64, ffn=96)
    with open(os.path.join(model, "config.json"), "w") as f:
        json.dump(c | config, f, indent=1)
    for name, text in (("generation_config.json", '{\n "bos_token_id": 4094,\n "eos_token_id": [4095]\n}\n'),
                       ("chat_template.jinja", "{% for m in messages %}{{ m.content }}{% endfor %}\n"),
                       ("special_tokens_map.json", '{"bos_token": "<|bos|>"}\n'), ("LICENSE", "Take it.\n")):
        with open(os.path.join(model, name), "w") as f:
            f.write(text)
    must(pith, "quantize", model, "-o", folder, "-r", "rtn", "--weights", "int4:g32:asym", "--container",
         "compressed-tensors", "--max-shard", "300k", "--quiet")
    gguf = os.path.join(work, "model.gguf")
    must(pith, "quantize", model, "-o", gguf, "-r", "rtn", "--weights", "int4:g32", "--quiet")
    return model, folder, gguf


# --- where things lie -----------------------------------------------------------------------------

def safetensors_parts(path):
    with open(path, "rb") as f:
        (n,) = struct.unpack("<Q", f.read(8))
    return (0, 8 + n), (8 + n, os.path.getsize(path))


def gguf_parts(path):
    """Ends of the keys and of the table, and the parts of the data: tensors, and what pads them."""
    with open(path, "rb") as f:
        data = f.read()
    tensors, keys = struct.unpack_from("<QQ", data, 8)
    at, sizes = 24, {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}

    def text(at):
        (n,) = struct.unpack_from("<Q", data, at)
        return at + 8 + n

    def value(at, kind):
        if kind == 8:
            return text(at)
        if kind != 9:
            return at + sizes[kind]
        kind, n = struct.unpack_from("<IQ", data, at)
        at += 12
        for _ in range(n):
            at = value(at, kind)
        return at

    for _ in range(keys):
        at = text(at)
        (kind,) = struct.unpack_from("<I", data, at)
        at = value(at + 4, kind)
    keys_end = at
    for _ in range(tensors):
        at = text(at)
        (dims,) = struct.unpack_from("<I", data, at)
        at += 4 + 8 * dims + 4 + 8
    return (24, keys_end), (0, 24), (keys_end, -(-at // 32) * 32), (-(-at // 32) * 32, len(data))


def places(folder, gguf):
    """[(kind, file, begin, end)]; a kind may have several places, of which one is drawn each time."""
    out = []
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        if name.endswith(".safetensors"):
            for kind, (a, b) in zip(("safetensors: header", "safetensors: data"), safetensors_parts(path)):
                out.append((kind, path, a, b))
        else:
            kind = {"model.safetensors.index.json": "index", "config.json": "config.json",
                    "generation_config.json": "generation_config.json", "tokenizer.json": "tokenizer.json",
                    "pith.json": "pith.json"}.get(name, "other files of a tokenizer, template, licence")
            out.append((kind, path, 0, os.path.getsize(path)))
    for kind, (a, b) in zip(("GGUF: keys", "GGUF: header", "GGUF: table of tensors", "GGUF: data"), gguf_parts(gguf)):
        out.append((kind, gguf, a, b))
    out.append(("pith.json of the GGUF file", gguf + ".pith.json", 0, os.path.getsize(gguf + ".pith.json")))
    return out


# --- changes --------------------------------------------------------------------------------------

def flip_bit(rng, data, a, b):
    at, bit = rng.randrange(a, b), rng.randrange(8)
    data[at] ^= 1 << bit
    return f"bit {bit} of byte {at}"


def other_byte(rng, data, a, b):
    at = rng.randrange(a, b)
    data[at] = (data[at] + rng.randrange(1, 256)) % 256
    return f"byte {at}"


def swap_bytes(rng, data, a, b):
    """Two neighbours that differ change places: sums stay."""
    for _ in range(1000):
        at = rng.randrange(a, b - 1)
        if data[at] != data[at + 1]:
            data[at], data[at + 1] = data[at + 1], data[at]
            return f"bytes {at} and {at + 1} swapped"
    return flip_bit(rng, data, a, b)


def digit(rng, data, a, b):
    """Another digit or letter: still text, still JSON in most places."""
    for _ in range(1000):
        at = rng.randrange(a, b)
        c = data[at]
        if 48 <= c < 58:
            data[at] = 48 + (c - 48 + rng.randrange(1, 10)) % 10
        elif 97 <= c < 123:
            data[at] = 97 + (c - 97 + rng.randrange(1, 26)) % 26
        else:
            continue
        return f"byte {at}: {chr(c)} became {chr(data[at])}"
    return flip_bit(rng, data, a, b)


CHANGES = (flip_bit, flip_bit, other_byte, swap_bytes, digit, digit)


def change(rng, place):
    _, path, a, b = place
    with open(path, "rb") as f:
        data = bytearray(f.read())
    what = rng.choice(CHANGES)(rng, data, a, b)
    os.rename(path, path + "~")
    with open(path, "wb") as f:
        f.write(data)
    return what


def main(pith, work, count=60, seed=1):
    _, folder, gguf = make(pith, work)
    must(pith, "verify", folder)
    must(pith, "verify", gguf)
    rng, kinds, bad = random.Random(seed), {}, 0
    for p in places(folder, gguf):
        kinds.setdefault(p[0], []).append(p)
    total = dict.fromkeys(kinds, 0)
    missed = dict.fromkeys(kinds, 0)
    for i in range(count):
        kind = list(kinds)[i % len(kinds)]
        place = rng.choice(kinds[kind])
        what = change(rng, place)
        r = run(pith, "verify", gguf if "GGUF" in kind else folder)
        total[kind] += 1
        if r.returncode != 1:
            missed[kind] += 1
            bad += 1
            print(f"NOT NOTICED (status {r.returncode}): {kind}: {os.path.basename(place[1])}: {what}")
        os.replace(place[1] + "~", place[1])
    print(f"| {'what was changed':46s} | changes | unnoticed |\n|{'-' * 48}|---|---|")
    for kind in kinds:
        print(f"| {kind:46s} | {total[kind]} | {missed[kind]} |")
    print(f"| {'all':46s} | {sum(total.values())} | {bad} |")
    must(pith, "verify", folder)
    must(pith, "verify", gguf)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])))
