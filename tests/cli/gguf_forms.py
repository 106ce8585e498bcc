#!/usr/bin/env python3
"""Other forms of a GGUF file that holds plain values (of pith convert), by the standard library alone:

    gguf_forms.py IN.gguf retype TYPE OUT.gguf    its matrices as random blocks of a type
    gguf_forms.py IN.gguf swap OUT.gguf           big-endian
    gguf_forms.py IN.gguf split N PREFIX          PREFIX-00001-of-0000N.gguf and so on, as llama-gguf-split has them
"""
import random
import struct
import sys

ALIGNMENT = 32
SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}  # of the kinds of values
U16, I32, STRING, ARRAY = 2, 5, 8, 9
PLAIN = {0: 4, 1: 2, 30: 2}  # F32, F16, BF16: bytes of a value
# A type's number, elements and bytes of a block, where the half lies that scales it, and its largest value without it.
TYPES = {"iq1_s": (19, 256, 50, 0, 17), "iq1_m": (29, 256, 56, None, 17), "iq2_xxs": (16, 256, 66, 0, 167),
         "iq2_xs": (17, 256, 74, 0, 167), "iq2_s": (22, 256, 82, 0, 167), "iq3_xxs": (18, 256, 98, 0, 480),
         "iq3_s": (21, 256, 110, 0, 465), "tq1_0": (34, 256, 54, 52, 1), "tq2_0": (35, 256, 66, 64, 2),
         "q1_0": (41, 128, 18, 0, 1), "q2_0": (42, 64, 18, 0, 2)}


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, n):
        self.at += n
        return self.data[self.at - n:self.at]

    def number(self, code):
        return struct.unpack("<" + code, self.take(struct.calcsize(code)))[0]

    def string(self):
        return self.take(self.number("Q"))

    def value(self, kind):
        """A list of the bytes of each scalar and string, little-endian."""
        if kind == STRING:
            return [self.string()]
        if kind == ARRAY:
            self.element, count = self.number("I"), self.number("Q")
            return [x for _ in range(count) for x in self.value(self.element)]
        return [self.take(SIZES[kind])]


def read(path):
    """Keys as (name, kind, element, values); tensors as (name, shape, type, data)."""
    r = Reader(open(path, "rb").read())
    assert r.take(4) == b"GGUF" and r.number("I") == 3
    tensors, keys = r.number("Q"), r.number("Q")
    keys = [(r.string(), kind := r.number("I"), r.value(kind), getattr(r, "element", 0)) for _ in range(keys)]
    keys = [(name, kind, element, values) for name, kind, values, element in keys]
    heads = [(r.string(), [r.number("Q") for _ in range(r.number("I"))], r.number("I"), r.number("Q")) for _ in range(tensors)]
    base = -(-r.at // ALIGNMENT) * ALIGNMENT
    out = []
    for name, shape, kind, offset in heads:
        size = PLAIN[kind]
        for n in shape:
            size *= n
        out.append((name, shape, kind, r.data[base + offset:base + offset + size]))
    return keys, out


def pad(b):
    return b + bytes(-len(b) % ALIGNMENT)


def write(path, keys, tensors, order="<"):
    turn = (lambda x: x) if order == "<" else (lambda x: x[::-1])
    number = lambda code, x: struct.pack(order + code, x)
    text = lambda x: number("Q", len(x)) + x
    head = b"GGUF" + number("I", 3) + number("Q", len(tensors)) + number("Q", len(keys))
    for name, kind, element, values in keys:
        head += text(name) + number("I", kind)
        if kind == ARRAY:
            head += number("I", element) + number("Q", len(values))
        put = text if STRING in (kind, element if kind == ARRAY else None) else turn
        head += b"".join(put(v) for v in values)
    body = b""
    for name, shape, kind, data in tensors:
        head += text(name) + number("I", len(shape)) + b"".join(number("Q", n) for n in shape)
        head += number("I", kind) + number("Q", len(body))
        if order == ">":
            n = PLAIN[kind]
            data = b"".join(data[i:i + n][::-1] for i in range(0, len(data), n))
        body += pad(data)
    open(path, "wb").write(pad(head) + body)


def half(x):
    return struct.pack("<e", x)


def blocks(rng, kind, count):
    """Random blocks whose values are at most 1/16."""
    _, _, size, at, most = TYPES[kind]
    scale = half(1 / 16 / most)
    out = []
    for _ in range(count):
        block = bytearray(rng.randbytes(size))
        if at is not None:
            block[at:at + 2] = scale
        else:  # iq1_m: the upper quarters of four words
            for i in range(4):
                block[49 + 2 * i] = block[49 + 2 * i] & 15 | (scale[i // 2] >> i % 2 * 4 & 15) << 4
        out.append(bytes(block))
    return b"".join(out)


def retype(keys, tensors, kind, path):
    rng = random.Random(kind)
    number, elements = TYPES[kind][:2]
    out = []
    for name, shape, old, data in tensors:
        if len(shape) == 2 and b"blk" in name:
            assert shape[0] % elements == 0
            old, data = number, blocks(rng, kind, shape[0] // elements * shape[1])
        out.append((name, shape, old, data))
    write(path, keys, out)


def split(keys, tensors, count, prefix):
    for no in range(count):
        part = tensors[len(tensors) * no // count:len(tensors) * (no + 1) // count]
        own = [(b"split.no", U16, 0, [struct.pack("<H", no)]), (b"split.count", U16, 0, [struct.pack("<H", count)]),
               (b"split.tensors.count", I32, 0, [struct.pack("<i", len(tensors))])]
        write("%s-%05d-of-%05d.gguf" % (prefix, no + 1, count), (keys if no == 0 else []) + own, part)


def main():
    keys, tensors = read(sys.argv[1])
    what, args = sys.argv[2], sys.argv[3:]
    if what == "retype":
        retype(keys, tensors, *args)
    elif what == "swap":
        write(args[0], keys, tensors, ">")
    else:
        split(keys, tensors, int(args[0]), args[1])


if __name__ == "__main__":
    main()
