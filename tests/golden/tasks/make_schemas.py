#!/usr/bin/env python3
"""What the jsonschema library and Python's own JSON make of answers held against schemas: schemas.json.

Usage: make_schemas.py   (run in this folder; needs jsonschema)

Rows of a schema, a text, and whether the value that the text begins with is as the schema says."""
import json
import random

from jsonschema import Draft202012Validator

PERSON = {"type": "object", "properties": {"name": {"type": "string", "minLength": 1, "maxLength": 5}, "age": {"type": "integer", "minimum": 0}},
          "required": ["name"], "additionalProperties": False}
OWN = [(PERSON, t) for t in (
    '{"name": "Ann", "age": 3}', ' \n{"name": "Ann"} and so on', '{"name": "Ann", "age": 3.0}', '{"name": "Ann", "age": 3.5}', '{"age": 3}',
    '{"name": "", "age": 1}', '{"name": "Annett"}', '{"name": "\u00e4\u00f6\u00fc\u00df\u4e2d"}', '{"name": "Ann", "x": 1}', '{"name": "Ann", "age": -1}', '[]', 'null',
    '"Ann"', '', 'Here it is: {"name": "Ann"}', '{"name": "Ann"', '{"name": "Ann",}', "{'name': 'Ann'}", '{"name": "Ann", "name": 3}', '```json\n{"name": "Ann"}\n```')]
OWN += [({"type": ["integer", "null"]}, t) for t in ("1", "1.0", "1.5", "null", "true", "-3e2", "1e-1", "- 1", "nul")]
OWN += [({"enum": [1, "a", [1, {"b": 2.0}], None, False]}, t) for t in ("1.0", "true", "false", "0", '"a"', '[1.0, {"b": 2}]', '[1, {"b": 2, "c": 1}]', "null")]
OWN += [({"const": {"a": [1]}}, t) for t in ('{"a": [1.0]}', '{"a": [true]}', '{"a": []}', '{}')]
OWN += [({"type": "array", "items": {"type": "number", "maximum": 3}, "minItems": 1, "maxItems": 3}, t) for t in ("[]", "[1]", "[1, 2, 3, 4]", "[1, 4]", "[1, true]", "3", "[1],")]
OWN += [({"items": {"type": "string"}, "title": "t", "description": "d"}, t) for t in ('["a"]', "[1]", "{}", "1")]
OWN += [({"additionalProperties": False}, t) for t in ("{}", '{"a": 1}', "[1]", "1")]
OWN += [({}, t) for t in ("1", "x", "{}", "tru", "true")]


def schema(draw, depth=0):
    kind = draw.choice(["object", "array", "string", "integer", "number", "boolean", "null"][2 * (depth > 2):])
    s = {} if draw.random() < 0.1 else {"type": [kind, "null"] if draw.random() < 0.1 else kind}
    if kind == "object":
        s["properties"] = {k: schema(draw, depth + 1) for k in "abc" if draw.random() < 0.6}
        s["required"] = [k for k in "abc" if draw.random() < 0.3]
        if draw.random() < 0.4:
            s["additionalProperties"] = draw.random() < 0.3
    elif kind == "array":
        s["items"] = schema(draw, depth + 1)
        s |= {k: n for k, n in (("minItems", draw.randint(0, 2)), ("maxItems", draw.randint(1, 3))) if draw.random() < 0.4}
    elif kind == "string":
        s |= {k: n for k, n in (("minLength", draw.randint(0, 2)), ("maxLength", draw.randint(1, 3))) if draw.random() < 0.4}
    elif kind in ("integer", "number"):
        s |= {k: n for k, n in (("minimum", draw.choice([0, 1, 0.5])), ("maximum", draw.choice([2, 5, 1.5]))) if draw.random() < 0.4}
    if draw.random() < 0.05:
        s["enum"] = [value(draw, s) for _ in range(2)]
    return s


def value(draw, s):
    """Mostly what the schema wants."""
    kind = s.get("type", "number")
    kind = kind[0] if isinstance(kind, list) else kind
    if draw.random() < 0.08:
        kind = draw.choice(["object", "array", "string", "integer", "number", "boolean", "null"])
    if kind == "object":
        names = set(s.get("required", [])) | {k for k in s.get("properties", {}) if draw.random() < 0.7}
        names |= {"d"} if draw.random() < 0.15 else set()
        return {k: value(draw, s.get("properties", {}).get(k, {})) for k in sorted(names) if draw.random() < 0.95}
    if kind == "array":
        return [value(draw, s.get("items", {})) for _ in range(draw.randint(0, 3))]
    return {"string": "".join(draw.choice("x\u00e9\u4e2d") for _ in range(draw.randint(0, 3))), "integer": draw.randint(-1, 6),
            "number": draw.choice([0, 0.5, 1.0, 1.25, 2, 7]), "boolean": draw.random() < 0.5, "null": None}[kind]


def fits(s, text):
    try:
        got, _ = json.JSONDecoder(parse_constant=lambda x: 1 / 0).raw_decode(text.lstrip(" \t\r\n"))
    except (ValueError, ZeroDivisionError):
        return 0
    return int(Draft202012Validator(s).is_valid(got))


def main():
    draw = random.Random(4)
    rows = list(OWN)
    for _ in range(500):
        s = schema(draw)
        rows.append((s, json.dumps(value(draw, s), ensure_ascii=draw.random() < 0.5) + draw.choice(["", "\n", " and more", "}"])))
    rows = [[s, t, fits(s, t)] for s, t in rows]
    print(len(rows), sum(r[2] for r in rows))
    with open("schemas.json", "w") as f:
        f.write("[" + ",\n".join(json.dumps(r, separators=(",", ":")) for r in rows) + "]\n")


if __name__ == "__main__":
    main()
