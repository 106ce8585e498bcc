#!/usr/bin/env python3
"""A folder made of a case of tests/golden/arch, with a tokenizer of single characters, and a text for it.

    arch_case.py CASE DIR TEXT [PATCH]

PATCH is JSON, {"config": {key: value}, "shapes": {end of a tensor's name: shape}}: what is to be otherwise.

The weights are the formula of fill.py, here by the standard library alone."""
import array
import json
import os
import re
import struct
import sys

GOLDEN = os.path.join(os.path.dirname(__file__), "..", "golden", "arch")
PROBE = os.path.join(os.path.dirname(__file__), "..", "..", "models", "probe")
MASK = (1 << 64) - 1
STEP = 0x9E3779B97F4A7C15
CHARACTERS = " abcdefghijklmnopqrstuvwxyz.,'-\n"


def values(name, salt, fill, count):
    c, m, e = fill
    h = 0xCBF29CE484222325
    for b in name.encode():
        h = (h ^ b) * 0x100000001B3 & MASK
    z = h ^ salt * STEP & MASK
    out = array.array("f", bytes(4 * count))
    for i in range(count):
        z = z + STEP & MASK
        y = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & MASK
        y = (y ^ y >> 27) * 0x94D049BB133111EB & MASK
        out[i] = (c + ((y ^ y >> 31) >> 33) % (2 * m + 1) - m) * 2.0 ** -e
    return out


def expand(name):
    m = re.search(r"\{([^}]*)\}", name)
    if not m:
        return [name]
    return [x for k in m[1].split(",") for x in expand(name[:m.start()] + k + name[m.end():])]


def main():
    case, out, text = sys.argv[1:4]
    patch = json.loads(sys.argv[4]) if len(sys.argv) > 4 else {}
    os.mkdir(out)
    with open(os.path.join(GOLDEN, case + ".json")) as f:
        case = json.load(f)
    case["config"].update(patch.get("config", {}))
    with open(os.path.join(out, "config.json"), "w") as f:
        json.dump(case["config"], f)
    head, body = {}, bytearray()
    for pattern, shape, fill, *byte in case["tensors"]:  # byte: ["U8"], or nothing
        shape = next((s for end, s in patch.get("shapes", {}).items() if pattern.endswith(end)), shape)
        for name in expand(pattern):
            count = 1
            for n in shape:
                count *= n
            data = values(name, case["salt"], fill, count)
            data = bytes(map(int, data)) if byte else data.tobytes()
            head[name] = {"dtype": byte[0] if byte else "F32", "shape": shape, "data_offsets": [len(body), len(body) + len(data)]}
            body += data
    head = json.dumps(head).encode()
    head += b" " * (-len(head) % 8)
    with open(os.path.join(out, "model.safetensors"), "wb") as f:
        f.write(struct.pack("<Q", len(head)) + head + body)
    special = ["<unk>", "<s>", "</s>"]
    vocab = {t: i for i, t in enumerate(special + list(CHARACTERS))}
    for i in range(len(vocab), 80):
        vocab[f"<x{i}>"] = i
    flags = dict(single_word=False, lstrip=False, rstrip=False, normalized=False, special=True)
    with open(os.path.join(out, "tokenizer.json"), "w") as f:
        json.dump({"version": "1.0", "added_tokens": [dict(flags, id=i, content=t) for i, t in enumerate(special)],
                   "normalizer": None, "pre_tokenizer": None, "post_processor": None, "decoder": None,
                   "model": {"type": "BPE", "unk_token": "<unk>", "fuse_unk": False, "byte_fallback": False,
                             "vocab": vocab, "merges": []}}, f)
    with open(os.path.join(PROBE, "eval.txt")) as f:
        plain = "".join(c for c in f.read().lower() if c in CHARACTERS)
    with open(text, "w") as f:
        f.write(plain[:2000])


if __name__ == "__main__":
    main()
