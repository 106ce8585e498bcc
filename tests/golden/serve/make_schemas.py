#!/usr/bin/env python3
"""Writes schemas.json beside this file: schemas, texts, and whether Python's jsonschema takes them.

    make_schemas.py SUITE      (jsonschema 4; SUITE: a checkout of the JSON-Schema-Test-Suite)

Schemas and instances are those of json-schema-org/JSON-Schema-Test-Suite (MIT licence), draft 2020-12,
for the keywords that pith supports, with its verdicts, and some of our own with jsonschema's. A text is the
instance as json.dumps writes it without spaces, in the order of the properties of the schema. Left out
is what docs/constraints.md says is never written: whole numbers as 1.0, numbers of more than 18 digits,
NUL, leap seconds, and names that are not in the schema's order. "refused": the schema has a keyword (named there) that
pith refuses; "read over": it is taken, and says nothing; "oneOf": it may be refused because its parts may hold at once.
"""
import decimal
import json
import pathlib
import re
import sys

import jsonschema

FILES = """type properties required additionalProperties patternProperties items prefixItems minItems maxItems
enum const anyOf oneOf allOf ref defs minLength maxLength pattern minimum maximum exclusiveMinimum exclusiveMaximum
boolean_schema default infinite-loop-detection optional/format/date optional/format/time optional/format/date-time
optional/format/uuid optional/format/ipv4 not if-then-else multipleOf uniqueItems contains minProperties
dependentRequired propertyNames unevaluatedProperties dynamicRef anchor""".split()

OWN = [
    ({"type": "object", "properties": {"name": {"type": "string", "maxLength": 5}, "age": {"type": "integer", "minimum": 0, "maximum": 150}},
      "required": ["name", "age"], "additionalProperties": False},
     [{"name": "Ann", "age": 30}, {"name": "Ann", "age": 151}, {"name": "Annika", "age": 1}, {"name": "Ann"}, {"name": "Ann", "age": 0, "x": 1}]),
    ({"type": "integer", "minimum": -105, "maximum": 42}, [-106, -105, -99, -10, -9, -1, 0, 9, 10, 41, 42, 43, 100, -1000]),
    ({"type": "integer", "exclusiveMinimum": 9, "exclusiveMaximum": 1000}, [9, 10, 99, 100, 999, 1000, -10]),
    ({"type": "integer", "minimum": 2.5}, [2, 3, 10, -3]),
    ({"type": "number", "minimum": -1.25, "exclusiveMaximum": 3.5},
     [-1.25, -1.26, -1.3, -1.2, -2, -1, 0, 0.5, 3, 3.4, 3.49, 3.5, 3.51, 4, -0.001]),
    ({"type": "number", "exclusiveMinimum": 0.1, "maximum": 0.15}, [0.1, 0.11, 0.100001, 0.15, 0.151, 0.2, 0]),
    ({"type": ["string", "null"], "pattern": "^[a-c]+$"}, ["abc", "", "abd", None, 1]),
    ({"pattern": "b+", "minLength": 2, "maxLength": 3}, ["b", "ab", "abc", "abcd", "xx", 7]),
    ({"$ref": "#/$defs/node", "$defs": {"node": {"type": "object", "properties": {"v": {"type": "integer"}, "next": {"anyOf": [
        {"$ref": "#/$defs/node"}, {"type": "null"}]}}, "required": ["v", "next"], "additionalProperties": False}}},
     [{"v": 1, "next": None}, {"v": 1, "next": {"v": 2, "next": None}}, {"v": 1}, {"v": 1, "next": {"v": 2}}]),
    ({"oneOf": [{"type": "object", "properties": {"kind": {"const": "a"}, "x": {"type": "integer"}}, "required": ["kind"]},
                {"type": "object", "properties": {"kind": {"const": "b"}, "y": {"type": "string"}}, "required": ["kind"]}]},
     [{"kind": "a", "x": 1}, {"kind": "a", "x": "1"}, {"kind": "b", "y": "s"}, {"kind": "c"}, {"kind": "b", "x": "q"}]),
    ({"allOf": [{"properties": {"a": {"minimum": 3}}}, {"properties": {"a": {"maximum": 5, "type": "integer"}}, "required": ["a"]}], "type": "object"},
     [{"a": 2}, {"a": 3}, {"a": 5}, {"a": 6}, {"a": "x"}, {}]),
    ({"type": "array", "prefixItems": [{"type": "string"}], "items": {"type": "integer"}, "minItems": 2, "maxItems": 3},
     [["a"], ["a", 1], ["a", 1, 2], ["a", 1, 2, 3], [1, 1], ["a", "b"]]),
    ({"enum": ["a\"b", "\u00e9", 1, 2.5, None, True, {"k": [1, 2]}, []]}, ["a\"b", "\u00e9", 1, 2.5, None, True, False, {"k": [1, 2]}, {"k": [1]}, [], 3]),
    ({"type": "integer", "enum": [1, "a", 2.5, 3]}, [1, "a", 2.5, 3]),
    ({"type": "object", "patternProperties": {"^s_": {"type": "string"}, "_n$": {"minLength": 2}}, "additionalProperties": {"type": "integer"}},
     [{"s_a": "x"}, {"s_a": 1}, {"b": 1}, {"b": "x"}, {"s_n": "ab"}, {"s_n": "a"}, {"x_n": "a"}, {"x_n": 5}]),
    ({"type": "object", "required": ["z"], "additionalProperties": {"type": "boolean"}}, [{"z": True}, {"z": 1}, {}, {"z": True, "y": False}]),
    ({"type": "string", "format": "date"}, ["2024-02-30", "2024-12-31", "2024-13-01", "24-01-01", "2024-1-01"]),
    ({"type": "string", "format": "ipv4"}, ["1.2.3.4", "256.1.1.1", "1.2.3", "01.2.3.4"]),
    ({"type": "integer", "multipleOf": 7, "minimum": -30}, [-35, -28, -7, 0, 7, 8, 14, 70, 71, 100002, 100003]),
    ({"type": "number", "multipleOf": 0.05, "maximum": 9.95}, [0.05, 0.1, 0.07, 9.95, 10, 3.333, -0.15, -0.16, 1.25]),
    ({"allOf": [{"multipleOf": 4}, {"multipleOf": 6}], "type": "integer"}, [4, 6, 12, -24, 36, 38]),
    ({"enum": [3, 4, 4.5, 6, "x"], "multipleOf": 1.5}, [3, 4, 4.5, 6, "x"]),
    ({"type": ["integer", "null", "boolean"], "not": {"enum": [0, 5, None, True]}}, [0, 5, 1, 4, 6, -1, None, True, False]),
    ({"type": "string", "not": {"enum": ["", "ab"]}, "maxLength": 200}, ["", "a", "ab", "abc", "b" * 200, "b" * 201]),
    ({"type": "string", "not": {"pattern": "^x"}}, ["", "x", "ax", "xa"]),
    ({"not": {"type": ["object", "array", "number"]}}, ["a", 1, None, [], {}, 0.5]),
    ({"not": {"anyOf": [{"const": "a"}, {"type": "null"}]}, "type": ["string", "null"]}, ["a", "b", None]),
    ({"enum": [1, 2, 3, "a"], "not": {"const": 2}}, [1, 2, 3, "a"]),
    ({"type": "object", "additionalProperties": {"type": "integer"}, "minProperties": 1, "maxProperties": 3},
     [{}, {"a": 1}, {"a": 1, "b": 2, "c": 3}, {"a": 1, "b": 2, "c": 3, "d": 4}]),
    ({"type": "object", "properties": {"a": {}, "b": {}, "c": {}}, "additionalProperties": False, "minProperties": 2, "maxProperties": 2},
     [{"a": 1}, {"a": 1, "b": 2}, {"b": 1, "c": 2}, {"a": 1, "b": 2, "c": 3}, {}]),
    ({"type": "object", "propertyNames": {"enum": ["x", "y", "z"]}, "minProperties": 2, "additionalProperties": {"type": "null"}},
     [{"x": None}, {"x": None, "y": None}, {"x": None, "y": None, "z": None}, {"x": None, "w": None}]),
    ({"type": "object", "properties": {"ab": {}, "abcd": {}}, "propertyNames": {"maxLength": 3}}, [{"ab": 1}, {"abcd": 1}, {"xyz": 1}, {"wxyz": 1}]),
    ({"type": "array", "items": {"enum": ["r", "g", "b", 1]}, "uniqueItems": True, "minItems": 1},
     [[], ["r"], ["b", "r"], ["r", "r"], ["g", "b", 1, "r"], ["g", "b", 1, "g"]]),
    ({"type": "array", "items": {"type": ["boolean", "null"]}, "uniqueItems": True, "maxItems": 2}, [[True, False], [True, True], [None, True, False]]),
    ({"type": "array", "items": {"type": "integer", "minimum": 1, "maximum": 6}, "uniqueItems": True}, [[1, 6, 3], [1, 1], [7]]),
    ({"enum": [[1, 1], [1, 2], {"a": 1}, {}], "uniqueItems": True, "minProperties": 1}, [[1, 1], [1, 2], {"a": 1}, {}]),
    ({"type": "array", "items": {"$ref": "#"}, "maxItems": 2}, [[], [[]], [[], []], [[], [], []], [[[], [[]]]], [1]]),
]


# Of the suite: what pith refuses all the same, and what of uniqueItems it reads over (values that are not few).
REFUSED = {"not: not": ["integer"], "not: not multiple types": ["integer"], "not: not more complex schema": ["properties"],
           "multipleOf: float division = inf": ["multipleOf"]}
READ_OVER = ["uniqueItems: uniqueItems validation", "uniqueItems: uniqueItems with an array of items",
             "uniqueItems: uniqueItems with an array of items and additionalItems=false"]


def keywords(schema, found):
    """Every keyword of a schema and the schemas in it."""
    if not isinstance(schema, dict):
        return
    for key, value in schema.items():
        if key == "uniqueItems" and value is False:
            continue
        if key in ("properties", "patternProperties", "$defs", "definitions"):
            found.add(key)
            for sub in value.values():
                keywords(sub, found)
        elif key in ("enum", "const", "default", "examples"):
            found.add(key)
        else:
            found.add(key)
            for sub in value if isinstance(value, list) else [value]:
                keywords(sub, found)


def exact(value):
    """The same with decimals in place of floats, so that 0.07 is a multiple of 0.01."""
    return json.loads(json.dumps(value), parse_float=decimal.Decimal)


def is_written(value):
    """Whether pith writes such a value at all."""
    if isinstance(value, dict):
        return all(is_written(k) and is_written(v) for k, v in value.items())
    if isinstance(value, list):
        return all(is_written(v) for v in value)
    if isinstance(value, float):
        text = json.dumps(value)
        return value != int(value) and "e" not in text
    if isinstance(value, int) and not isinstance(value, bool):
        return abs(value) < 10 ** 18
    return not (isinstance(value, str) and "\0" in value)


def names_of(schema):
    """The properties that a schema names, in its order: its own before those of allOf, required ones behind."""
    if not isinstance(schema, dict):
        return [], []
    names, required = list(schema.get("properties", {})), list(schema.get("required", []))
    for part in schema.get("allOf", []):
        a, b = names_of(part)
        names += a
        required += b
    return names, required


def in_order(value, schema):
    """The properties that a schema names first, in its order."""
    if isinstance(value, dict):
        fixed = schema.get("const", {}) if isinstance(schema, dict) else {}
        a, b = names_of(schema)
        names = list(dict.fromkeys((list(fixed) if isinstance(fixed, dict) else []) + a + b))
        keys = [n for n in names if n in value] + [k for k in value if k not in names]
        subs = schema.get("properties", {}) if isinstance(schema, dict) else {}
        return {k: in_order(value[k], subs.get(k, {})) for k in keys}
    return [in_order(v, {}) for v in value] if isinstance(value, list) else value


def entry(schema, instances, where, verdicts=None):
    """verdicts: the suite's own, which stand where jsonschema is laxer (formats)."""
    validator = jsonschema.Draft202012Validator(exact(schema), format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)
    texts = []
    for i, instance in enumerate(instances):
        if is_written(instance):
            value = in_order(instance, schema)
            texts.append([json.dumps(value, separators=(",", ":"), ensure_ascii=False),
                          verdicts[i] if verdicts else validator.is_valid(exact(instance))])
    out = {"where": where, "schema": schema, "texts": texts}
    return {**out, "oneOf": True} if where.startswith("oneOf") else out


def main(suite):
    out = []
    table = pathlib.Path(__file__).parents[3] / "src/serve/grammar/keywords.def"
    known = set(re.findall(r'PITH_KEYWORD\("([^"]+)"', table.read_text()))
    for i, (schema, instances) in enumerate(OWN):
        out.append(entry(schema, instances, f"own {i}"))
    for name in FILES:
        path = pathlib.Path(suite) / "tests/draft2020-12" / f"{name}.json"
        for case in json.loads(path.read_text()):
            schema = case["schema"]
            found = set()
            keywords(schema, found)
            unknown = sorted(found - known)
            where = f"{name}: {case['description']}"
            if "$ref" in json.dumps(schema) and ("http" in json.dumps(schema).replace("json-schema.org/draft", "") or "$id" in json.dumps(schema)):
                continue
            if "$id" in json.dumps(schema) or "$anchor" in json.dumps(schema) or "json-schema.org/draft/2020-12/schema\"}" in json.dumps(schema).replace("\"$schema\": \"https://json-schema.org/draft/2020-12/schema\"", ""):
                continue
            if where in READ_OVER:
                out.append({"where": where, "schema": schema, "read over": True})
                continue
            unknown = unknown or REFUSED.get(where)
            if unknown:
                out.append({"where": where, "schema": schema, "refused": unknown})
                continue
            if "\\p{" in json.dumps(schema).replace("\\\\", "\\"):
                out.append({"where": where, "schema": schema, "refused": ["\\p"]})
                continue
            tests = [t for t in case["tests"] if not isinstance(t["data"], str) or ":60" not in t["data"]]
            out.append(entry(schema, [t["data"] for t in tests], where, [t["valid"] for t in tests]))
    target = pathlib.Path(__file__).with_name("schemas.json")
    target.write_text("[\n" + ",\n".join(json.dumps(e, ensure_ascii=True) for e in out) + "\n]\n")
    print(len(out), sum(len(e.get("texts", [])) for e in out))


if __name__ == "__main__":
    main(sys.argv[1])
