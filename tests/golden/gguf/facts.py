#!/usr/bin/env python3
"""What a GGUF file says, by the standard library alone: its keys, and of each tensor shape, checksum and sum.

    facts.py FILE.gguf FACTS.json     holds the file against what make_gguf.py wrote of llama.cpp's own"""
import array
import json
import math
import struct
import sys
import zlib

SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
STRING, ARRAY, F32 = 8, 9, 0
# Said by the one alone: what is the same for every model there, or follows from other keys.
OWN = {"attention.head_count_kv", "attention.key_length", "attention.value_length", "vocab_size", "rope.dimension_count",
       "rope.freq_base", "expert_shared_count", "expert_feed_forward_length", "expert_shared_feed_forward_length"}


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, form):
        value = struct.unpack_from(form, self.data, self.at)[0]
        self.at += struct.calcsize(form)
        return value

    def text(self):
        n = self.take("<Q")
        self.at += n
        return self.data[self.at - n:self.at].decode(errors="replace")

    def value(self, kind):
        if kind == STRING:
            return self.text()
        if kind != ARRAY:
            return self.take(SCALARS[kind])
        inner, n = self.take("<I"), self.take("<Q")
        return [self.value(inner) for _ in range(n)]


def facts_of(path):
    with open(path, "rb") as f:
        r = Reader(f.read())
    assert r.data[:4] == b"GGUF"
    r.at = 8
    tensors, keys = r.take("<Q"), r.take("<Q")
    said, found, places = {}, {}, []
    for _ in range(keys):
        name = r.text()
        said[name] = r.value(r.take("<I"))
    for _ in range(tensors):
        name = r.text()
        shape = [r.take("<Q") for _ in range(r.take("<I"))][::-1]
        places.append((name, shape, r.take("<I"), r.take("<Q")))
    begin = (r.at + 31) // 32 * 32
    for name, shape, kind, offset in places:
        assert kind == F32, f"{name} is of type {kind}"
        size = 4 * math.prod(shape)
        data = r.data[begin + offset:begin + offset + size]
        while len(shape) > 1 and shape[0] == 1:  # a vector, or a matrix of one row
            shape = shape[1:]
        found[name] = [shape, zlib.crc32(data), math.fsum(array.array("f", data))]
    arch = said["general.architecture"]
    keys = {k[len(arch) + 1:]: v for k, v in said.items() if k.startswith(arch + ".")}
    return {"architecture": arch, "keys": dict(sorted(keys.items())), "tensors": dict(sorted(found.items()))}


def main():
    ours = facts_of(sys.argv[1])
    with open(sys.argv[2]) as f:
        theirs = json.load(f)
    wrong = []
    if ours["architecture"] != theirs["architecture"]:
        wrong.append(f"is a {ours['architecture']}, not a {theirs['architecture']}")
    for key in sorted(set(ours["keys"]) | set(theirs["keys"])):
        a, b = ours["keys"].get(key), theirs["keys"].get(key)
        if a != b and not (key in OWN and None in (a, b)):
            wrong.append(f"key {key}: {a}, not {b}")
    for name in sorted(set(ours["tensors"]) | set(theirs["tensors"])):
        a, b = ours["tensors"].get(name), theirs["tensors"].get(name)
        near = a and b and a[0] == b[0] and name.endswith("ssm_a") and abs(a[2] - b[2]) <= 1e-6 * abs(b[2])
        if not near and (a and a[:2]) != (b and b[:2]):  # -exp() of what stands there may round otherwise
            wrong.append(f"tensor {name}: {a}, not {b}")
    if wrong:
        sys.exit(f"{sys.argv[1]}: " + "; ".join(wrong))


if __name__ == "__main__":
    main()
