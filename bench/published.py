#!/usr/bin/env python3
"""What pith plan says against what others measured and published (bench/published.json: the address of each, model,
hardware, precision, users, lengths, figure).

  bench/published.py [--pith build/pith] [--fit] [--markdown]

Rows are halved: within each engine every other one in the order of a hash of its text. With --fit the shares of bandwidth
and arithmetic that each engine reaches, and what a layer takes besides, are searched on the first half alone; without, those
of src/plan/capacity.c are used as they are. The errors told are of both halves, the judgement is of the second.
"""

import argparse
import hashlib
import itertools
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))


def run(pith, *arguments):
    r = subprocess.run([pith, *arguments, "--json"], capture_output=True, text=True)
    if r.returncode:
        raise SystemExit(" ".join(arguments) + ": " + r.stderr.strip())
    return json.loads(r.stdout)


class Planner:
    def __init__(self, pith, folder):
        self.pith, self.folder, self.hardware, self.made = pith, folder, {}, {}

    def device(self, name, reached):
        """The row of that name, or a file of it with shares of its own, and memory enough for what was measured."""
        if name not in self.hardware:
            self.hardware[name] = run(self.pith, "hardware", name)
        row = dict(self.hardware[name], memory_bytes=0, most=64)
        if reached:
            row.update(memory_reached=reached[0], arithmetic_reached=reached[1], layer_seconds=reached[2])
        path = os.path.join(self.folder, "%s-%s.json" % (name, hash(reached)))
        with open(path, "w") as f:
            json.dump(row, f)
        return path

    def predict(self, m, reached=None):
        key = (json.dumps(m, sort_keys=True), reached)
        if key not in self.made:
            self.made[key] = self.value(m, reached)
        return self.made[key]

    def value(self, m, reached):
        rows = run(self.pith, "plan", m["model"], "--hardware", "%sx%d" % (self.device(m["hardware"], reached), m["count"]),
                   "--for", m["engine"], "--weights", m["weights"], "--kv", m["kv"], "--users", str(m["users"]),
                   "--context", str(m["prompt"] + m["gen"]), "--prompt", str(m["prompt"]), "--gen", str(m["gen"]),
                   "--all")
        if not rows["rows"]:
            raise SystemExit("nothing planned for %s: %s" % (m, rows["ruled_out"]))
        r = rows["rows"][0]
        if m["what"] == "prompt_tokens_per_second":
            return m["prompt"] / r["first_token_seconds"]
        if m["what"] == "seconds":
            return m["users"] * m["gen"] / r["served_tokens_per_second"]
        return r[m["what"]]


def halves(rows):
    """Marks every other row of each engine, in the order of hashes, for the fit."""
    chosen = []
    for engine in sorted({m["engine"] for m in rows}):
        own = [m for m in rows if m["engine"] == engine]
        own.sort(key=lambda m: hashlib.sha256(json.dumps(m, sort_keys=True).encode()).hexdigest())
        chosen += own[::2]
    return chosen


def off(predicted, measured):
    return abs(math.log(predicted / measured))


def search(planner, rows):
    """The shares that make the mean absolute logarithm of predicted / published least: a grid, then around its best."""
    best = None
    memory, arithmetic = [0.5, 0.6, 0.7, 0.8, 0.9], [0.3, 0.4, 0.5, 0.6, 0.7]
    layer = [1e-5, 2.4e-5, 5e-5, 8e-5]
    for finer in (False, True):
        if finer:
            m, a, t = best[1]
            memory, arithmetic = [m - 0.05, m, min(m + 0.05, 0.95)], [a - 0.05, a, a + 0.05]
            layer = [t * 0.7, t, t * 1.4]
        for reached in itertools.product(memory, arithmetic, layer):
            reached = tuple(float("%.3g" % x) for x in reached)
            error = statistics.mean(off(planner.predict(m, reached), m["value"]) for m in rows)
            if best is None or error < best[0]:
                best = (error, reached)
    return best[1]


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("--pith", default="build/pith")
    p.add_argument("--fit", action="store_true", help="search the shares on the first half; else those of the program")
    p.add_argument("--markdown", action="store_true", help="a table for docs/planning.md")
    o = p.parse_args()
    with open(os.path.join(HERE, "published.json")) as f:
        rows = json.load(f)
    fitting = halves(rows)
    with tempfile.TemporaryDirectory() as folder:
        planner, reached = Planner(o.pith, folder), {}
        if o.fit:
            for engine in sorted({m["engine"] for m in rows}):
                reached[engine] = search(planner, [m for m in fitting if m["engine"] == engine])
                print("%s: %.3g of the bandwidth, %.3g of the arithmetic, %.3g s a layer" % ((engine,) + reached[engine]))
        made = [(m, planner.predict(m, reached.get(m["engine"]))) for m in rows]
    line = "| {} |" if o.markdown else "{}"
    for m, value in made:
        cells = [m["engine"], m["model"], m["hardware"] + ("x%d" % m["count"] if m["count"] > 1 else ""), m["weights"],
                 "%d x %d+%d" % (m["users"], m["prompt"], m["gen"]), m["what"].replace("_", " "), "%.4g" % m["value"],
                 "%.4g" % value, "%.2f" % (value / m["value"]), "fit" if m in fitting else "judged"]
        print(line.format((" | " if o.markdown else "  ").join(cells)))
    for name, half in (("fitted", True), ("judged", False)):
        some = [(m, v) for m, v in made if (m in fitting) == half]
        errors = [abs(v / m["value"] - 1) for m, v in some]
        print("%s: %d, median error %.1f%%, within 25%%: %d, worst %.0f%%" %
              (name, len(some), 100 * statistics.median(errors), sum(e <= 0.25 for e in errors), 100 * max(errors)))
        for engine in sorted({m["engine"] for m in rows}):
            own = [abs(v / m["value"] - 1) for m, v in some if m["engine"] == engine]
            print("  %s: %d, median error %.1f%%" % (engine, len(own), 100 * statistics.median(own)))
    judged = [abs(v / m["value"] - 1) for m, v in made if m not in fitting]
    return statistics.median(judged) >= 0.25


if __name__ == "__main__":
    sys.exit(main())
