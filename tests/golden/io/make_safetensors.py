#!/usr/bin/env python3
"""Makes the golden files of the safetensors tests with the reference implementation (the Rust parser
behind the Python package `safetensors`).

safetensors_cases.json      hand-made hostile and legal files: bytes, what the reference says, and what pith must say
safetensors_mutations.json  one small file with every byte replaced by every value: the reference's verdicts
safetensors_written.json    files as the reference serializer writes them, with the tensors that are in them

and, from the first and the last, the seeds of fuzz/corpus/safetensors.

Run it from anywhere. Made with safetensors 0.8.0.
"""
import ctypes
import json
import math
import os
import re
import struct

import safetensors

HERE = os.path.dirname(os.path.abspath(__file__))


def accepts(data):
    try:
        safetensors.deserialize(data)
        return True
    except safetensors.SafetensorError:
        return False


def raw(header, data=b"", length=None):
    if isinstance(header, str):
        header = header.encode()
    return struct.pack("<Q", len(header) if length is None else length) + header + data


def entry(name='"a"', dtype='"U8"', shape="[4]", offsets="[0,4]", extra=""):
    return '%s:{"dtype":%s,"shape":%s,"data_offsets":%s%s}' % (name, dtype, shape, offsets, extra)


def one(data=b"abcd", **kw):
    return raw("{" + entry(**kw) + "}", data)


GOOD = one()
TWO = "{%s,%s}"
BIG = str(2 ** 62)
cases = []


def case(name, data, error=None):
    """error None: pith accepts. Otherwise a part of pith's message."""
    cases.append({"name": name, "hex": data.hex(), "error": error, "reference": accepts(data)})


# Legal files.
case("plain", GOOD)
case("no tensors", raw("{}"))
case("no tensors, padded", raw("{}      "))
case("padding may be any blank", raw('{ "a" :\t{"dtype" : "U8",\n"shape":[4 ],"data_offsets":[0, 4]}\r}\n ', b"abcd"))
case("metadata only", raw('{"__metadata__":{"format":"pt","":""}}'))
case("metadata empty", raw('{"__metadata__":{}}'))
case("metadata null", raw('{"__metadata__":null}'))
case("metadata last", raw("{" + entry() + ',"__metadata__":{"k":"v"}}', b"abcd"))
case("metadata with escapes and zeros", raw('{"__metadata__":{"k":"a\\u0000b\\n\\ud83d\\ude00"}}'))
case("0-d", one(b"abcd", dtype='"F32"', shape="[]"))
case("zero-size", one(b"", shape="[3,0,5]", offsets="[0,0]"))
case("zero-size before, between and after", raw("{" + ",".join([
    entry('"z0"', shape="[0]", offsets="[0,0]"), entry('"a"', shape="[2]", offsets="[0,2]"),
    entry('"z1"', shape="[0]", offsets="[2,2]"), entry('"z2"', shape="[0]", offsets="[2,2]"),
    entry('"b"', shape="[2]", offsets="[2,4]"), entry('"z3"', shape="[1,0]", offsets="[4,4]")]) + "}", b"abcd"))
case("order of entries is free", raw(TWO % (entry('"b"', shape="[3]", offsets="[1,4]"),
                                            entry('"a"', shape="[1]", offsets="[0,1]")), b"abcd"))
case("unaligned", raw(TWO % (entry('"a"', shape="[1]", offsets="[0,1]"),
                             entry('"b"', dtype='"F64"', shape="[1]", offsets="[1,9]")), b"123456789"))
case("eight dimensions", one(b"ab", shape="[1,1,1,1,1,1,1,2]", offsets="[0,2]"))
case("F4 pair", one(b"a", dtype='"F4"', shape="[2]", offsets="[0,1]"))
case("F6 quads", raw(TWO % (entry('"a"', dtype='"F6_E2M3"', shape="[4]", offsets="[0,3]"),
                            entry('"b"', dtype='"F6_E3M2"', shape="[2,2]", offsets="[3,6]")), b"abcdef"))
for dtype, bits in (("BOOL", 8), ("U8", 8), ("I8", 8), ("F8_E5M2", 8), ("F8_E4M3", 8), ("F8_E8M0", 8),
                    ("F8_E4M3FNUZ", 8), ("F8_E5M2FNUZ", 8), ("I16", 16), ("U16", 16), ("F16", 16),
                    ("BF16", 16), ("I32", 32), ("U32", 32), ("F32", 32), ("C64", 64), ("F64", 64),
                    ("I64", 64), ("U64", 64)):
    case("dtype " + dtype, one(bytes(bits // 4), dtype='"%s"' % dtype, shape="[2]", offsets="[0,%d]" % (bits // 4)))
case("empty name", one(name='""'))
case("name with escapes", one(name='"\\u0061\\/\\"\\\\\\u00e9"'))
case("name beyond ASCII", one(name='"模型.é.😀"'))
case("escaped keys in an entry", raw('{"a":{"\\u0064type":"\\u0055\\u0038","shape":[4],"data_offsets":[0,4]}}', b"abcd"))
case("unknown field", one(extra=',"comment":[{"x":1}]'))

# Lengths.
for n in range(8):
    case("%d bytes" % n, bytes(n), "too short")
case("zero header", raw(""), "'{' of an object")
case("header one longer than the file", raw("{}", length=3), "truncated")
case("header 100,000,000, file short", raw("{}", length=100000000), "truncated")
case("header 100,000,001", raw("{}", length=100000001), "claims a header")
case("header 2^63", raw("{}", length=2 ** 63), "claims a header")
case("header 2^64-1", raw("{}", length=2 ** 64 - 1), "claims a header")
case("header 2^64-8", raw("{}", length=2 ** 64 - 8), "claims a header")
case("header one too short", raw("{}", length=1), "quoted name")
case("a zip file", b"PK\x03\x04\0\0\x08\x08" + bytes(60), "claims a header")
case("a GGUF file", b"GGUF" + struct.pack("<IQQ", 3, 1, 1) + bytes(64), "claims a header")
case("a Git LFS pointer", b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n", "claims a header")
case("no data", raw("{" + entry() + "}"), "not inside the 0 bytes")
case("one byte missing", GOOD[:-1], "not inside the 3 bytes")
case("one byte more", GOOD + b"x", "1 bytes after the last tensor")
case("data without tensors", raw("{}", b"x"), "1 bytes after the last tensor")

# JSON.
case("blank before {", raw(" {}"), "'{' of an object")
case("array", raw("[]"), "'{' of an object")
case("null", raw("null"), "'{' of an object")
case("NUL padding", raw("{}\0\0\0"), "blank, though the object has ended")
case("NUL after a number", one(shape="[4\0]"), "not valid JSON")
case("NUL after a comma", one(shape="[2,\0 2]"), "not valid JSON")
case("text after }", raw("{} {}"), "blank, though the object has ended")
case("no }", raw("{"), "quoted name")
case("no } after an entry", raw("{" + entry(), b"abcd"), "JSON ends where")
case("trailing comma", raw("{" + entry() + ",}", b"abcd"), "quoted name")
case("leading comma", raw("{," + entry() + "}", b"abcd"), "quoted name")
case("no comma", raw("{" + entry() + entry('"b"', shape="[0]", offsets="[4,4]") + "}", b"abcd"), "not valid JSON")
case("no colon", raw('{"a" {}}'), "':'")
case("no value", raw('{"a":}'), "a value")
case("unquoted name", raw("{a:{}}"), "quoted name")
case("single quotes", raw("{'a':{}}"), "quoted name")
case("comment", raw("{/**/}"), "quoted name")
case("wrong bracket", raw('{"a":{"dtype":"U8","shape":[4},"data_offsets":[0,4]]}', b"abcd"), "not valid JSON")
case("ends with ]", raw("{" + entry() + "]", b"abcd"), "',' or '}'")
case("name not closed", raw('{"a'), "end of a name")
case("string not closed", raw('{"a":{"dtype":"U8}}'), "end of a value")
case("ends in a backslash", raw('{"a\\'), "end of a name")
case("bad escape", one(name='"\\x"'), "not valid JSON")
case("lone surrogate", one(name='"\\ud800"'), "not valid JSON")
case("raw newline in a name", one(name='"a\nb"'), "not valid JSON")
case("bad UTF-8 in a name", raw(b'{"\xff":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}', b"abcd"), "not valid JSON")
case("overlong UTF-8", raw(b'{"\xc0\xaf":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}', b"abcd"), "not valid JSON")
case("surrogate in UTF-8", raw(b'{"\xed\xa0\x80":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}', b"abcd"), "not valid JSON")
case("bad UTF-8 in a value", raw(b'{"__metadata__":{"k":"\xff"}}'), "not valid JSON")
case("bad UTF-8 in the padding", raw(b"{} \xa0"), "blank, though the object has ended")
case("byte order mark", raw(b"\xef\xbb\xbf{}"), "'{' of an object")
case("infinity", one(shape="[Infinity]"), "not valid JSON")
case("hexadecimal", one(shape="[0x4]"), "not valid JSON")
case("leading zero", one(shape="[04]"), "not valid JSON")
case("leading plus", one(shape="[+4]"), "not valid JSON")
case("nested 63 deep", one(extra=',"x":' + "[" * 63 + "]" * 63))
case("nested 200 deep", one(extra=',"x":' + "[" * 200 + "]" * 200), "nests deeper")
case("nested 2,000 deep and open", raw('{"a":' + "[" * 2000), "nests deeper")

# Names.
case("name twice", raw(TWO % (entry(), entry(shape="[0]", offsets="[4,4]")), b"abcd"), "there twice")
case("name twice, once escaped", raw(TWO % (entry(), entry('"\\u0061"', shape="[0]", offsets="[4,4]")), b"abcd"), "there twice")
case("name twice, same place", raw(TWO % (entry(), entry()), b"abcd"), "overlap")
case("metadata twice", raw('{"__metadata__":{},"__metadata__":{}}'), "there twice")
case("metadata escaped", raw('{"\\u005f_metadata__":{"a":"b"}}'), "reserved")
case("NUL in a name", one(name='"a\\u0000"'), "not valid JSON")
case("escape character in a name", one(name='"\\u001b[31m"'), "control characters")
case("newline in a name", one(name='"a\\nb"'), "control characters")
case("DEL in a name", one(name='"a\\u007f"'), "control characters")
case("C1 control in a name", one(name='"a\\u009b"'), "control characters")
case("name of 1024", one(name='"%s"' % ("n" * 1024)))
case("name of 1025", one(name='"%s"' % ("n" * 1025)), "too long")

# Metadata.
case("metadata list", raw('{"__metadata__":[]}'), "not an object")
case("metadata string", raw('{"__metadata__":"pt"}'), "not an object")
case("metadata number", raw('{"__metadata__":{"a":1}}'), "other than strings")
case("metadata nested", raw('{"__metadata__":{"a":{}}}'), "other than strings")
case("metadata null value", raw('{"__metadata__":{"a":null}}'), "other than strings")
case("metadata key twice", raw('{"__metadata__":{"a":"1","a":"2"}}'), "not valid JSON")
case("metadata is a tensor", raw('{"__metadata__":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}', b"abcd"), "other than strings")

# Entries.
case("entry null", raw('{"a":null}'), "not an object")
case("entry number", raw('{"a":1}'), "not an object")
case("entry list", raw('{"a":["U8",[4],[0,4]]}', b"abcd"), "not an object")
case("no dtype", raw('{"a":{"shape":[4],"data_offsets":[0,4]}}', b"abcd"), "\"dtype\" is missing")
case("no shape", raw('{"a":{"dtype":"U8","data_offsets":[0,4]}}', b"abcd"), "\"shape\" is missing")
case("no offsets", raw('{"a":{"dtype":"U8","shape":[4]}}', b"abcd"), "\"data_offsets\" is not")
case("dtype twice", one(extra=',"dtype":"U8"'), "not valid JSON")
case("dtype unknown", one(dtype='"U9"'), "unknown dtype")
case("dtype lower case", one(dtype='"u8"'), "unknown dtype")
case("dtype of torch", one(dtype='"float32"'), "unknown dtype")
case("dtype empty", one(dtype='""'), "unknown dtype")
case("dtype with a NUL", one(dtype='"U8\\u0000"'), "not a string")
case("dtype null", one(dtype="null"), "not a string")
case("dtype number", one(dtype="8"), "not a string")
case("shape null", one(shape="null"), "not a list")
case("shape number", one(shape="4"), "not a list")
case("shape object", one(shape='{"0":4}'), "not a list")
case("shape of strings", one(shape='["4"]'), "other than a whole number")
case("shape nested", one(shape="[[4]]"), "other than a whole number")
case("shape negative", one(shape="[-4]"), "other than a whole number")
case("shape -0", one(b"", shape="[-0]", offsets="[0,0]"), "a number is negative")
case("shape real", one(shape="[4.0]"), "other than a whole number")
case("shape exponent", one(shape="[4e0]"), "other than a whole number")
case("shape huge", one(shape="[18446744073709551616]"), "not valid JSON")
case("shape 2^63", one(shape="[9223372036854775808]"), "not valid JSON")
case("shape product overflows", one(shape="[%s,%s]" % (BIG, BIG)), "overflows")
case("shape product wraps to 4", one(shape="[%s,4,4]" % (2 ** 62 + 1)), "overflows")
case("shape product overflows before its 0", one(b"", shape="[%s,%s,0]" % (BIG, BIG), offsets="[0,0]"), "overflows")
case("shape product does not overflow after its 0", one(b"", shape="[0,%s,%s]" % (BIG, BIG), offsets="[0,0]"))
case("bits overflow", one(b"", shape="[2305843009213693952]", offsets="[0,0]"), "overflows")
case("size too small", one(shape="[3]"), "need 3 bytes")
case("size too large", one(shape="[5]"), "need 5 bytes")
case("nine dimensions", one(b"a", shape="[1,1,1,1,1,1,1,1,1]", offsets="[0,1]"), "9 dimensions")
case("F4 odd", one(b"ab", dtype='"F4"', shape="[3]", offsets="[0,2]"), "whole number of bytes")
case("F6 of 1", one(b"a", dtype='"F6_E2M3"', shape="[1]", offsets="[0,1]"), "whole number of bytes")
case("F6 of 6", one(b"abcde", dtype='"F6_E3M2"', shape="[6]", offsets="[0,5]"), "whole number of bytes")

# Places.
case("offsets null", one(offsets="null"), "not a pair")
case("offsets of one", one(offsets="[0]"), "not a pair")
case("offsets of three", one(offsets="[0,4,4]"), "not a pair")
case("offsets negative", one(offsets="[-1,3]"), "not a pair")
case("offsets real", one(offsets="[0,4.0]"), "not a pair")
case("offsets strings", one(offsets='["0","4"]'), "not a pair")
case("offsets object", one(offsets='{"0":0,"1":4}'), "not a pair")
case("offsets backwards", one(offsets="[4,0]"), "not inside")
case("offsets huge", one(offsets="[0,9223372036854775807]"), "not inside")
case("offsets wrap", one(offsets="[18446744073709551612,18446744073709551616]"), "not valid JSON")
case("hole at the start", raw("{" + entry(offsets="[1,5]") + "}", b"abcde"), "belong to no tensor")
case("hole between", raw(TWO % (entry('"a"', shape="[1]", offsets="[0,1]"),
                                entry('"b"', shape="[1]", offsets="[2,3]")), b"abc"), "belong to no tensor")
case("overlap", raw(TWO % (entry('"a"', shape="[3]", offsets="[0,3]"),
                           entry('"b"', shape="[2]", offsets="[2,4]")), b"abcd"), "overlap")
case("same bytes twice", raw(TWO % (entry('"a"'), entry('"b"')), b"abcd"), "overlap")
case("inside another", raw(TWO % (entry('"a"'), entry('"b"', shape="[1]", offsets="[1,2]")), b"abcd"), "overlap")
case("zero-size inside another", raw(TWO % (entry('"a"'), entry('"b"', shape="[0]", offsets="[2,2]")), b"abcd"), "overlap")
case("zero-size past the end", raw(TWO % (entry('"a"'), entry('"b"', shape="[0]", offsets="[5,5]")), b"abcd"), "not inside")

with open(os.path.join(HERE, "safetensors_cases.json"), "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")

# Every byte of a file replaced by every value; bit v of row p: accepted with byte p set to v.
base = raw('{"b":{"dtype":"I8","shape":[1,2],"data_offsets":[1,3]},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}} ', b"xyz")
for n in range(len(base)):
    assert not accepts(base[:n])
rows = []
for at in range(len(base)):
    row = sum(1 << v for v in range(256) if accepts(base[:at] + bytes([v]) + base[at + 1:]))
    rows.append(row.to_bytes(32, "little").hex())
with open(os.path.join(HERE, "safetensors_mutations.json"), "w") as f:
    f.write(json.dumps({"base": base.hex(), "accepted": rows}, indent=0) + "\n")

# What the reference serializer writes. It has no name for the F6 types.
NAMES = {"BOOL": ("bool", 8), "F4": ("float4_e2m1fn_x2", 4), "U8": ("uint8", 8), "I8": ("int8", 8),
         "F8_E5M2": ("float8_e5m2", 8), "F8_E4M3": ("float8_e4m3fn", 8), "F8_E8M0": ("float8_e8m0fnu", 8),
         "F8_E4M3FNUZ": ("float8_e4m3fnuz", 8), "F8_E5M2FNUZ": ("float8_e5m2fnuz", 8), "I16": ("int16", 16),
         "U16": ("uint16", 16), "F16": ("float16", 16), "BF16": ("bfloat16", 16), "I32": ("int32", 32),
         "U32": ("uint32", 32), "F32": ("float32", 32), "C64": ("complex64", 64), "F64": ("float64", 64),
         "I64": ("int64", 64), "U64": ("uint64", 64)}


def written(tensors):
    specs, flat, keep, fill = {}, [], [], 0
    for name, (dtype, shape) in tensors.items():
        theirs, bits = NAMES[dtype]
        size = math.prod(shape) * bits // 8
        data = bytes((fill + i) % 251 for i in range(size))
        fill += size
        buffer = ctypes.create_string_buffer(data, max(size, 1))
        keep.append(buffer)
        storage = shape[:-1] + [shape[-1] // 2] if dtype == "F4" else shape
        specs[name] = safetensors.TensorSpec(
            dtype=theirs, shape=storage, data_ptr=ctypes.addressof(buffer), data_len=size)
        flat.append({"name": name, "dtype": dtype, "shape": shape, "hex": data.hex()})
    return {"tensors": flat, "hex": bytes(safetensors.serialize(specs, {"format": "pt"})).hex()}


files = [written(t) for t in (
    {},
    {"w": ("F32", [2, 2])},
    {"b": ("F16", [3]), "a": ("F16", [1]), "c": ("F32", [1]), "d": ("I64", [1]), "e": ("U8", [5])},
    {t.lower(): (t, [4, 2]) for t in NAMES},
    {"scalar": ("BF16", []), "none": ("F32", [0, 7]), 'quote"back\\slash/': ("U8", [1]), "\u00e9": ("U8", [2])},
    {"layers.%d.%s" % (i, n): (t, s) for i in range(11) for n, t, s in
     (("w", "BF16", [2, 3]), ("scale", "F32", [2]), ("packed", "I32", [1, 3]))},
)]
with open(os.path.join(HERE, "safetensors_written.json"), "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(x) for x in files) + "\n]\n")

SEEDS = os.path.join(HERE, "..", "..", "..", "fuzz", "corpus", "safetensors")
os.makedirs(SEEDS, exist_ok=True)
for name, text in [(c["name"], c["hex"]) for c in cases] + [("written %d" % i, x["hex"]) for i, x in enumerate(files)]:
    slug = re.sub("[^a-z0-9]+", "-", name.lower()).strip("-")
    if len(text) < 3000:
        with open(os.path.join(SEEDS, slug), "wb") as f:
            f.write(bytes.fromhex(text))
