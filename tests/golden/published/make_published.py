#!/usr/bin/env python3
"""A case of a published checkpoint: its config.json, and the names of its tensors as patterns.

    make_published.py SOURCE CONFIG INDEX OUT

SOURCE says where the two files come from, INDEX is model.safetensors.index.json. "{0-2,5}" in a name stands for 0, 1, 2, 5."""
import json
import re
import sys
from collections import defaultdict


def runs(numbers):
    numbers, out = sorted(numbers), []
    for n in numbers:
        if out and out[-1][1] == n - 1:
            out[-1][1] = n
        else:
            out.append([n, n])
    return "{" + ",".join(str(a) if a == b else f"{a}-{b}" for a, b in out) + "}"


def fold(rows):
    """Tuples of numbers as a list of tuples of patterns, the last numbers first."""
    if not rows or not next(iter(rows)):
        return [()]
    by = defaultdict(set)
    for r in rows:
        by[r[1:]].add(r[0])
    groups = defaultdict(set)
    for rest, firsts in by.items():
        groups[frozenset(firsts)].add(rest)
    return [(runs(firsts), *more) for firsts, rest in groups.items() for more in fold(rest)]


def patterns(names):
    shapes = defaultdict(set)
    for name in names:
        shapes[re.sub(r"\d+(?=\.)", "#", name)].add(tuple(int(n) for n in re.findall(r"\d+(?=\.)", name)))
    out = []
    for shape, rows in shapes.items():
        for numbers in fold(rows):
            parts = shape.split("#")
            out.append("".join(p + n for p, n in zip(parts, (*numbers, ""))))
    return sorted(out)


def main():
    source, config, index, out = sys.argv[1:]
    with open(config) as f:
        config = json.load(f)
    with open(index) as f:
        names = list(json.load(f)["weight_map"])
    with open(out, "w") as f:
        f.write('{"source": %s,\n "config": %s,\n "tensors": [\n' % (json.dumps(source), json.dumps(config)))
        f.write(",\n".join("  " + json.dumps(p) for p in patterns(names)) + "]}\n")


main()
