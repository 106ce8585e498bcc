#!/usr/bin/env python3
"""Writes json_cases.json: texts, and what Python's json module makes of them.

    make_json.py >json_cases.json

`text` is the input's bytes in hexadecimal, `dump` what json.dumps() writes of it again without spaces, not in ASCII; null: it is
refused. Half of a surrogate pair is U+FFFD in ours, which is done to Python's value here. Texts with
floats that repr() writes otherwise than "%.17g" are left out.
"""
import json
import math
import random
import re

BIG = "1000000000000000019884624838656"
TEXTS = [
    "{}", "[]", " [ ] ", "[1]", "[-1]", "[0]", "[-0]", "[9223372036854775807]", "[9223372036854775808]", "[-9223372036854775808]",
    "[-9223372036854775809]", "[18446744073709551615]", "[18446744073709551616]", f'{{"model_max_length": {BIG}}}', f"[-{BIG}]",
    "[" + "7" * 4300 + "]", "[" + "7" * 4301 + "]", "[NaN]", "[Infinity]", "[-Infinity]", "[NaN, NaN, {\"a\": NaN}]", "[1e999]",
    "[-1e999]", "[1" + "0" * 400 + ".0]", "[1e-999]", "[0.5]", "[-0.0]", "[1.5e3]", "[1.5E+3]", "[1.5e-3]",
    '{"a": 1, "a": 2}', '{"a": 1, "b": 2, "a": {"c": 3}}', '{"a": 1, "\\u0061": 2}', '{"a": {"b": 1}, "a": []}',
    '["\\ud800"]', '["\\udc00"]', '["\\ud800\\ud800"]', '["\\ud800x"]', '["\\ud83d\\ude00"]', '["\\ud83d\\u0041"]', '["\\udc00\\ud800"]',
    '["\\ud800\\n"]', '{"\\ud800": 1}', '["\\u0000"]', '{"\\u0000": 1}', '{"a\\u0000b": "c\\u0000d", "a": 1, "a\\u0000c": 2}',
    '["\\"\\\\\\/\\b\\f\\n\\r\\t"]', '["\\u00e9\\u4e2d"]', '["\u00e9\u4e2d\U0001F600"]', '["\x7f"]', '"a"', "7", "null", "true", "NaN",
    "\n\t\r [\n1\t,\r2 ]\n", '{"":""}', '{"a":[{"b":[{}]}]}', "[true,false,null]",
    # Refused.
    "", " ", "[", "]", "{", "}", "[1,]", "[,1]", "[1 2]", '{"a"}', '{"a":}', '{"a":1,}', "{a:1}", '{1:2}', '{"a" 1}', '["a]', '["\n"]', '["\t"]',
    '["\\x41"]', '["\\u12"]', '["\\u12g4"]', '["\\', "[01]", "[1.]", "[.5]", "[+1]", "[1e]", "[1e+]", "[-]", "[--1]", "[0x1]", "[1_0]", "[nan]",
    "[inf]", "[+Infinity]", "[-NaN]", "[Nan]", "[tru]", "[nulll]", "[1]]", "[1] x", "[1]{}", "[1}", '{"a":1]', "[1\x002]", "[\x00]", "['a']",
    "// a\n[1]", "[1] // a", '["\\u0000]', "[1\u00a0]", "[\u2028]", "[١]",
]
RAW = [b'["\xff"]', b'["\xc0\xaf"]', b'["\xed\xa0\x80"]', b'["\xf4\x90\x80\x80"]', b'["\xe4\xb8"]', b'["\xf0\x9f\x98\x80"]', b'["\xc3"', b"\xff[1]",
       b'{"\xff": "1"}']


class Skipped(Exception):
    """A float that takes 17 digits, or is written in another form."""


def clean(value):
    if isinstance(value, str):
        return re.sub("[\ud800-\udfff]", "\ufffd", value)
    if isinstance(value, float) and math.isfinite(value) and ("e" in repr(value) or f"{value:.17g}" not in (repr(value), repr(value)[:-2])):
        raise Skipped
    if isinstance(value, list):
        return [clean(v) for v in value]
    if isinstance(value, dict):
        return {clean(k): clean(v) for k, v in value.items()}
    return value


def dump(raw):
    try:
        value = clean(json.loads(raw.decode("utf-8")))
    except (ValueError, RecursionError):
        return None
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def mutated(seed):
    """Bytes of a whole text, some of them others: what is refused is mostly this."""
    r = random.Random(seed)
    raw = bytearray(b'{"a": [1, -2.5e3, "x\\u00e9\\n", NaN, true], "b": {"c": null, "d": 123456789012345678901}, "e": "\xc3\xa9"}')
    for _ in range(r.randint(1, 3)):
        at = r.randrange(len(raw))
        if r.random() < 0.3:
            del raw[at]
        else:
            raw[at] = r.choice(b'{}[]",:\\0123456789.eE+-NIantu \n\x00\xff')
    return bytes(raw)


def cases():
    for raw in [t.encode() for t in TEXTS] + RAW + [mutated(i) for i in range(600)]:
        try:
            yield {"text": raw.hex(), "dump": dump(raw)}
        except Skipped:
            pass


if __name__ == "__main__":
    seen = set()
    rows = [c for c in cases() if not (c["text"] in seen or seen.add(c["text"]))]
    print("[" + ",\n".join(json.dumps(row) for row in rows) + "]")
