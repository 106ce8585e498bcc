#!/usr/bin/env python3
"""Holds JSON schemas as pith takes them against Python's jsonschema, in both directions:

    check_constraints.py TOOL suite SUITE [MODEL]     the JSON-Schema-Test-Suite (a checkout)
    check_constraints.py TOOL random COUNT [MODEL]    COUNT random schemas

    (jsonschema[format]; TOOL: build/tools/constraint; MODEL: texts are drawn of the tokens of its tokenizer, and no
    instances are tried; without it tokens are bytes)

A schema is refused with the name of a keyword that it has, or taken. Of one that is taken
  - texts drawn at random from its masks are valid documents, unless they came to no end (by length);
  - an instance is taken, in some order of its properties, if and only if jsonschema says that it is valid. Left out are
    values that are never written (docs/constraints.md).
"""
import collections
import decimal
import itertools
import json
import pathlib
import random
import re
import subprocess
import sys

import jsonschema

from make_schemas import exact, is_written

DRAFTS = {"draft2020-12": jsonschema.Draft202012Validator, "draft2019-09": jsonschema.Draft201909Validator,
          "draft7": jsonschema.Draft7Validator, "draft6": jsonschema.Draft6Validator, "draft4": jsonschema.Draft4Validator}
MOST_ORDERS = 150
TABLE = pathlib.Path(__file__).parents[3] / "src/serve/grammar/formats.def"
KNOWN_FORMATS = re.findall(r'\("([a-z0-9-]+)"', TABLE.read_text())
# Leap seconds and fractions of more than 17 digits, which are never written; UUIDs that jsonschema takes all the same.
STRANGE = re.compile(r":60|\.[0-9]{18}|[0-9A-Fa-f]{4}--|--[0-9A-Fa-f]{12}")
NARROW = ["hostname", "email", "uri", "ipv6", "duration"]  # formats of which less is written than is valid
OK, UNSUPPORTED, LIMIT, FORMAT = "ok", "unsupported", "limit", "format"


class Tool:
    def __init__(self, argv):
        self.draws_only = len(argv) > 1
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8")
        probe = lambda text: self.ask(text, [], 0, 0)["status"]
        self.status = {0: OK, probe({"if": {}}): UNSUPPORTED, probe({"type": 5}): FORMAT}

    def ask(self, schema, texts, walks, seed):
        job = {"kind": "schema", "text": json.dumps(rewritten(schema, opened)), "texts": texts, "walks": walks, "seed": seed}
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


def orders(value):
    """The value with its properties in every order."""
    if isinstance(value, list):
        return [list(v) for v in itertools.islice(itertools.product(*map(orders, value)), MOST_ORDERS)]
    if not isinstance(value, dict):
        return [value]
    out = []
    for keys in itertools.permutations(value):
        for values in itertools.product(*(orders(value[k]) for k in keys)):
            out.append(dict(zip(keys, values)))
            if len(out) == MOST_ORDERS:
                return out
    return out


def text_of(value):
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def rewritten(schema, change):
    """The same, changed from its innermost parts on; values stay."""
    if isinstance(schema, list):
        return [rewritten(part, change) for part in schema]
    if not isinstance(schema, dict):
        return schema
    return change({k: v if k in ("const", "enum") else rewritten(v, change) for k, v in schema.items()})


def opened(schema):
    """The same with its object open, as JSON Schema has them; pith closes those that name properties and do not say."""
    names = isinstance(schema.get("properties"), dict) or isinstance(schema.get("patternProperties"), dict)
    return {**schema, "additionalProperties": schema.get("additionalProperties", True)} if names else schema


def names_keyword(schema, error):
    """Whether a refusal names something that stands in the schema."""
    keys = set()

    def walk(part):
        if isinstance(part, dict):
            keys.update(part)
            for sub in part.values():
                walk(sub)
        elif isinstance(part, list):
            for sub in part:
                walk(sub)
    walk(schema)
    return any(f'"{k}"' in error or f"/{k}\"" in error for k in keys)


class Count:
    def __init__(self):
        self.n = collections.Counter()
        self.refused = collections.Counter()
        self.compile, self.mask, self.most = [], [], []
        self.narrow = False

    def wrong(self, kind, *what):
        self.n["wrong: " + kind] += 1
        if self.n["wrong: " + kind] <= 20:
            print("WRONG", kind, *(w if isinstance(w, str) else json.dumps(w, ensure_ascii=False) for w in what), sep="\n   ", flush=True)


def check(tool, count, schema, instances, validator, walks, seed):
    """instances: (value, verdict). Returns the texts that were drawn."""
    tried = [(v, verdict, orders(v)) for v, verdict in instances 
             if is_written(v) and not STRANGE.search(json.dumps(v))]
    if tool.draws_only:
        tried = []
    walks = min(walks, 2) if tool.draws_only else walks
    texts = [text_of(o) for _, _, some in tried for o in some]
    if any("\\u0000" in t for t in texts):
        return []
    answer = tool.ask(schema, texts, walks, seed)
    count.n["schemas"] += 1
    state = tool.status.get(answer.get("status"), "other")
    count.n[state] += 1
    count.compile.append(answer.get("compile_us", 0))
    if state != OK:
        if state == UNSUPPORTED:
            quoted = re.findall(r'(?:keyword|format|a) "([^"]+)"', answer["error"])
            count.refused[quoted[0] if quoted else answer["error"].split(": ")[-1]] += 1
            if not names_keyword(schema, answer["error"]):
                count.wrong("refused without a name", schema, answer["error"])
        elif "refers to itself" in answer["error"]:
            count.n["refer to themselves and to nothing else"] += 1
        elif state == FORMAT and any(verdict for _, verdict, _ in tried):
            count.wrong("refused as impossible", schema, answer["error"])
        elif state == "other":
            count.wrong("status", schema, answer["error"])
        return []
    if answer["masks"]:
        count.mask.append(answer["mask_us"])
        count.most.append(answer["mask_most_us"])
    at, drawn = 0, []
    for value, verdict, some in tried:
        took = any(answer["took"][at:at + len(some)])
        at += len(some)
        count.n["instances"] += 1
        count.n["instances that hold"] += verdict
        if took != verdict and (took or (len(some) < MOST_ORDERS and not count.narrow)):
            count.wrong("taken" if took else "not taken", schema, value)
    for text, ended in answer["walks"]:
        count.n["texts drawn"] += 1
        if not ended:
            count.n["ended by length"] += 1
            continue
        try:
            value = json.loads(text)
        except ValueError as e:
            count.wrong("no JSON", schema, text, str(e))
            continue
        drawn.append(value)
        error = next(validator.iter_errors(json.loads(text, parse_float=decimal.Decimal)), None)
        if error:
            count.wrong("not valid", schema, text, str(error.message)[:200])
    return drawn


def told(schema):
    """The same without what pith reads over: uniqueItems of more than few values."""
    items = schema.get("items", {})
    few = isinstance(items, dict) and "prefixItems" not in schema and ("enum" in items or items.get("type") == "boolean")
    return {k: v for k, v in schema.items() if k != "uniqueItems" or few or not v}


def suite(tool, count, root):
    for draft, kind in DRAFTS.items():
        folder = pathlib.Path(root) / "tests" / draft
        for path in sorted(folder.glob("*.json")) + sorted(folder.glob("optional/format/*.json")):
            if path.name == "format.json":  # which says that formats constrain nothing: here they do
                continue
            if "format" in path.parts and path.stem not in KNOWN_FORMATS:
                continue
            for case in json.loads(path.read_text()):
                schema = case["schema"]
                if "//localhost" in json.dumps(schema) or "sibling keywords" in case["description"]:
                    continue  # a dialect of its own; before 2019 what stands beside "$ref" said nothing
                count.narrow = path.stem in NARROW
                heard = rewritten(schema, told)
                validator = kind(exact(heard), format_checker=kind.FORMAT_CHECKER)
                try:
                    instances = [(t["data"], t["valid"] if heard == schema else validator.is_valid(exact(t["data"])))
                                 for t in case["tests"]]
                    check(tool, count, schema, instances, validator, 20, 1)
                except Exception as e:  # jsonschema cannot resolve what pith refuses anyway
                    count.n["jsonschema gave up: " + type(e).__name__] += 1


# --- random schemas -------------------------------------------------------------------------------

NAMES = ["a", "b", "id", "na me", "\u00e9", "x\"y"]
PATTERNS = ["^a", "^[a-c]+$", "b$", "[0-9]{2}", "^(?:on|off)$", "^\\d{3}-\\d{2}$", "^[^0]{2,4}$", "\u00fc|z"]
STEPS = [2, 3, 5, 7, 12, 25, 100, 0.5, 0.01, 0.25, 1.5, 0.3]
FEW = [{"type": "boolean"}, {"enum": ["on", "off", 1, None]}, {"enum": [[], {"a": 1}, "b", 2.5, 7]}, {"type": "integer", "minimum": 0, "maximum": 5},
       {"anyOf": [{"type": ["null", "boolean"]}, {"const": "a"}]}, {"enum": list("abcdefghi"), "not": {"const": "c"}}]
FORMATS = ["date", "time", "date-time", "uuid", "ipv4"]


def number(rng, integer):
    return rng.randint(-120, 120) if integer else rng.choice([rng.randint(-50, 50), round(rng.uniform(-20, 20), rng.randint(1, 4))])


def value(rng, depth=2):
    kind = rng.randrange(8 if depth else 6)
    if kind < 6:
        return [None, rng.random() < 0.5, rng.randint(-130, 130), round(rng.uniform(-20, 20), 2) + 0.001,
                "".join(rng.choice("abcz019-\"\\\t\u00fc\U0001f600") for _ in range(rng.randrange(6))), rng.choice(["on", "off", "ab", "123-45", ""])][kind]
    if kind == 6:
        return [value(rng, depth - 1) for _ in range(rng.randrange(3))]
    return {rng.choice(NAMES): value(rng, depth - 1) for _ in range(rng.randrange(3))}


def but(rng):
    """What is not: values, types, or strings."""
    kind = rng.randrange(6)
    if kind < 3:
        return {"enum": [rng.choice([0, 1, -7, 10, 2.5, "", "a", "on", None, True, "ab"]) for _ in range(rng.randint(1, 4))]}
    if kind == 3:
        return {"anyOf": [{"const": rng.choice([0, 5, "b", False])}, {"type": rng.choice(["null", "boolean"])}]}
    return {"type": "string", **rng.choice([{"pattern": rng.choice(PATTERNS)}, {"maxLength": rng.randrange(3)}])}


def scalar(rng):
    kind = rng.randrange(6)
    if kind == 0:
        return {"type": rng.choice(["null", "boolean", ["string", "null"], ["integer", "boolean"]])}
    if kind == 1:
        return {"enum": [value(rng) for _ in range(rng.randint(1, 4))]} if rng.random() < 0.7 else {"const": value(rng)}
    if kind < 4:
        integer = rng.random() < 0.5
        out = {"type": "integer" if integer else "number"}
        if rng.random() < 0.3:
            out["multipleOf"] = rng.choice(STEPS[:6] if integer else STEPS)
        low, high = sorted([number(rng, integer), number(rng, integer)])
        if rng.random() < 0.5:
            out[rng.choice(["minimum", "exclusiveMinimum"])] = low
        if rng.random() < 0.5:
            out[rng.choice(["maximum", "exclusiveMaximum"])] = high
        if rng.random() < 0.2:
            out["not"] = but(rng)
        return out
    out = {"type": "string"}
    if rng.random() < 0.2:
        out["not"] = but(rng)
    if rng.random() < 0.4:
        out["pattern"] = rng.choice(PATTERNS)
    if rng.random() < 0.3:
        out["minLength"] = rng.randrange(4)
    if rng.random() < 0.3:
        out["maxLength"] = rng.randrange(3, 9)
    if len(out) == 1 and rng.random() < 0.4:
        out["format"] = rng.choice(FORMATS)
    return out


def schema(rng, depth, top):
    """A random schema; top: where "$defs" are."""
    kind = rng.randrange(10) if depth else 0
    if kind < 3:
        return scalar(rng)
    if kind < 6:
        names = rng.sample(NAMES, rng.randrange(4))
        out = {"type": "object", "properties": {n: schema(rng, depth - 1, top) for n in names}}
        out["required"] = [n for n in names if rng.random() < 0.5] + (["more"] if rng.random() < 0.1 else [])
        extra = rng.randrange(6)
        if extra < 3:
            out["additionalProperties"] = False if extra < 2 else schema(rng, 0, top)
        if rng.random() < 0.15:
            out["patternProperties"] = {rng.choice(PATTERNS): schema(rng, 0, top) for _ in range(rng.randint(1, 2))}
        if rng.random() < 0.25:
            out["maxProperties"] = rng.randrange(1, 5)
        if rng.random() < 0.25:
            out["minProperties"] = rng.randrange(1, 4)
        if rng.random() < 0.15:
            out["propertyNames"] = rng.choice([{"enum": ["a", "b", "id", "more"]}, {"pattern": "^[a-m]"}, {"maxLength": 2}, {"not": {"const": "a"}}])
        if out.get("additionalProperties") is False and "more" in out["required"]:
            out["required"].remove("more")
        return out
    if kind == 6 or kind == 7:
        out = {"type": "array", "items": schema(rng, depth - 1, top)}
        if rng.random() < 0.2:
            return {"type": "array", "uniqueItems": True, **({"minItems": rng.randrange(4)} if rng.random() < 0.5 else {}),
                    **({"maxItems": rng.randrange(1, 5)} if rng.random() < 0.5 else {}), "items": rng.choice(FEW)}
        if rng.random() < 0.3:
            out["prefixItems"] = [schema(rng, depth - 1, top) for _ in range(rng.randint(1, 2))]
        if rng.random() < 0.4:
            out["minItems"] = rng.randrange(3)
        if rng.random() < 0.4:
            out["maxItems"] = rng.randrange(2, 4)
        return out
    if kind == 8:
        how = rng.choice(["anyOf", "anyOf", "oneOf", "allOf"])
        parts = [schema(rng, depth - 1, top) for _ in range(2)]
        if how == "allOf":
            parts[1] = {k: v for k, v in scalar(rng).items() if k != "type"} or True
        return {how: parts}
    if top is None:
        return scalar(rng)
    name = rng.choice("pq")
    if name not in top:
        top[name] = {}
        top[name].update(schema(rng, depth - 1, top))
    return {"$ref": "#/$defs/" + name}


def changed(rng, given):
    """Something like it."""
    if isinstance(given, dict) and given and rng.random() < 0.8:
        key = rng.choice(list(given))
        out = dict(given)
        how = rng.randrange(4)
        if how == 0:
            del out[key]
        elif how == 1:
            out[rng.choice(NAMES + ["more", "on"])] = value(rng)
        else:
            out[key] = changed(rng, out[key])
        return out
    if isinstance(given, list) and given and rng.random() < 0.8:
        out = list(given)
        how, at = rng.randrange(3), rng.randrange(len(out))
        if how == 0:
            del out[at]
        elif how == 1:
            out.append(out[at])
        else:
            out[at] = changed(rng, out[at])
        return out
    if isinstance(given, str) and given and rng.random() < 0.7:
        at = rng.randrange(len(given))
        return given[:at] + rng.choice(["", "a", "0", given[at] * 2]) + given[at + 1:]
    if isinstance(given, int) and not isinstance(given, bool) and rng.random() < 0.7:
        return given + rng.choice([-1, 1, -10, 10])
    return value(rng)


def small(given):
    """Few enough properties that all orders are tried."""
    return len(orders(given)) < MOST_ORDERS and len(text_of(given)) < 2000


def at_random(tool, count, wanted):
    kind = jsonschema.Draft202012Validator
    for i in range(wanted):
        rng, top = random.Random(i), {}
        s = schema(rng, rng.randint(1, 4), top)
        if top:
            s = {**s, "$defs": top} if "$ref" not in s else {"allOf": [s], "$defs": top}
        validator = kind(exact(s), format_checker=kind.FORMAT_CHECKER)
        judged = lambda values: [(v, validator.is_valid(exact(v))) for v in values if small(v)]
        before = count.n["schemas"]
        try:
            drawn = check(tool, count, s, judged([value(rng) for _ in range(30)]), validator, 20, i)
            count.n["schemas"] = before
            count.n[OK] -= bool(drawn)
            mine = drawn + [changed(rng, d) for d in drawn for _ in range(3)] + [value(rng) for _ in range(20)]
            tries = judged(mine)
        except RecursionError:
            count.n["too deep for jsonschema"] += 1
            continue
        if drawn:
            check(tool, count, s, tries, validator, 0, i)
        else:
            count.n["schemas"] += 1


def quantiles(values):
    values = sorted(values)
    return [round(values[int(q * (len(values) - 1))], 1) for q in (0.5, 0.9, 0.99, 1)] if values else []


def main(program, how, what, *model):
    sys.setrecursionlimit(10000)
    tool, count = Tool([program, *model]), Count()
    suite(tool, count, what) if how == "suite" else at_random(tool, count, int(what))
    for key, n in sorted(count.n.items()):
        print(f"{n:8d}  {key}")
    print("refused:", dict(count.refused.most_common(60)))
    print("microseconds, p50 p90 p99 most: compiling", quantiles(count.compile), "a mask of a schema, mean", quantiles(count.mask),
          "slowest", quantiles(count.most))
    return any(k.startswith("wrong") for k in count.n)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
