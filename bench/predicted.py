#!/usr/bin/env python3
"""What `pith sensitivity` predicts of whole assignments on published models, against what they lose on text that nothing was fitted to.

    bench/predicted.py [-t TEXT] [-m MODEL] [-p PLACE] [-n COUNT] [--most KL] [--round nearest|gptq] [--calib-tokens N] [--measure N] [--try GRID,...]
                       [--acts GRID,...] [--kv GRID]... [--convention bos|gptq]
    bench/predicted.py --table [-p PLACE]

MODEL is one of tools/real_models.py, its weights as bfloat16. Sensitivities are taken once, of the text that ships, for each rounding and number of
tokens, and stored in PLACE. Predicted is the sum of what an assignment's linears cost alone. Assignments are those that lose least within 3, 4, 4.2, 5
and 8 bits, by bisection over the price of a bit, and COUNT at random, each of two or three grids, but for those that are predicted to lose more than
KL. With --acts and --kv the inputs of all linears have one of these grids as well, or none, and the keys and values of all layers one of these
formats, or none, alternately. Each is made with the rounding that it was predicted for, and measured on the first tokens of two texts as bench/real.py
has them. A line of PLACE/foretold.jsonl is stored for each: an interrupted run continues. PITH names the program.
"""
import argparse
import itertools
import json
import pathlib
import random
import shutil

import auto
import peers
import real

BUDGETS = [3, 4, 4.2, 5, 8]
TRIED = "int2:g32:asym,int3:g64:asym,int4:g64:asym,int5:g64:asym,int6:g64:asym,int8:g64"
BASE = {"nearest": "rtn", "gptq": "gptq"}
APART = 1.3
KEYS = ("model", "round", "calibrated", "tried", "judged", "names", "acts", "kv", "convention")  # of a kept row: what was looked at, and on what
SMALL = 1  # nats: what comes to more is beyond the second order


def sensitivities(folder, options):
    """The rows of one look at the model."""
    tried = "+".join((options.tried, *options.acts, *options.kv)).translate(str.maketrans(",:", "+_"))
    file = options.place / f"sensitivity-{options.model}-{options.round}-{options.calib_tokens}-{tried}.json"
    if not file.exists():
        found = real.pith("sensitivity", folder, "--round", options.round, "--try", options.tried, "--calib-tokens", options.calib_tokens,
                          "--seq-len", 512, *(x for g in options.kv or ["none"] for x in ("--kv", g)), "--acts", ",".join(options.acts) or "none",
                          "--work", options.place / "sense")
        file.write_text(json.dumps(found))
    return json.loads(file.read_text())["rows"]


def cells_of(rows):
    """The cells of each linear: {part: {grid: row}}."""
    cells = {}
    for row in rows:
        if row["kind"] == "weights":
            cells.setdefault(row["part"], {})[row["grid"]] = row
    return cells


def reads_of(rows, kind):
    """What each grid costs in all inputs, or in all layers' keys and values: {grid: KL}."""
    sums = {None: 0}
    for row in rows:
        if row["kind"] == kind:
            sums[row["grid"]] = sums.get(row["grid"], 0) + row["kld"]
    return sums


def bits_of(cells, linears):
    """Mean bits of a weight."""
    rows = [cells[p][g] for p, g in linears.items()]
    weights = [r["bytes"] * 8 / r["bits"] for r in rows]
    return sum(r["bytes"] * 8 for r in rows) / sum(weights)


def predicted(cells, linears):
    """What an assignment is predicted to lose."""
    return sum(cells[p][g]["kld"] for p, g in linears.items())


def least(cells, budget):
    """The assignment that is predicted to lose least, of those on the lower hull, within so many bits."""
    def at(price):
        return {p: min(row, key=lambda g: row[g]["kld"] + price * row[g]["bytes"]) for p, row in cells.items()}
    low, high = 0.0, 1.0
    for _ in range(100):
        middle = (low * high) ** 0.5 if low else high / 2 ** 10
        if bits_of(cells, at(middle)) > budget:
            low = middle
        else:
            high = middle
        if low and high / low < 1.0001 or high < 1e-30:
            break
    return at(high)


def assignments(cells, options):
    for budget in BUDGETS:
        yield f"least of {budget} bits", least(cells, budget)
    rng = random.Random(1)
    grids = options.tried.split(",")
    left, drawn = options.count, 0
    while left and drawn < 100 * options.count:
        drawn += 1
        few = rng.sample(grids, rng.choice((2, 3)))
        linears = {p: rng.choice([g for g in few if g in row] or list(row)) for p, row in cells.items()}
        if predicted(cells, linears) <= options.most:
            left -= 1
            yield f"random {drawn}", linears


class Reads:
    """What is rounded besides weights, in turn: every grid of inputs beside every cache, with neither among them."""

    def __init__(self, rows, options):
        self.acts, self.kv = reads_of(rows, "acts"), reads_of(rows, "cache")
        self.pairs = list(itertools.product([None, *options.acts], [None, *options.kv]))

    def of(self, i):
        return self.pairs[i % len(self.pairs)]

    def predicted(self, acts, kv):
        return self.acts[acts] + self.kv[kv]


def made(folder, linears, acts, options, out):
    recipe = options.place / "assignment.json"
    recipe.write_text(json.dumps({"base": BASE[options.round], "linears": linears, **({"acts": acts} if acts else {})}))
    shutil.rmtree(out, ignore_errors=True)
    done, _, _ = peers.measured([real.PITH, "quantize", folder, "-o", out, "-r", recipe, "--calib-tokens", str(options.calib_tokens), "--seq-len",
                                 "512", "--allow-error", "2", "--quiet"])
    return done


def compared(folder, outs, kv, texts, options):
    """What each of these models loses, with that cache beside it."""
    found = real.pith("compare", folder, *outs, *(x for t in texts for x in ("--text", t)), "--convention", options.convention, "--context", 512,
                      "--max-tokens", options.measure, *(("--kv", kv) if kv else ()))
    return found["models"][1:]


def measure(options, kept):
    folder = real.original(options.model, options.place)
    texts = real.texts_of(options, options.place)
    rows = sensitivities(folder, options)
    cells, reads = cells_of(rows), Reads(rows, options)
    key = {"model": options.model, "round": options.round, "calibrated": options.calib_tokens, "tried": options.tried,
           "judged": options.measure, "names": [t.name for t in texts], "convention": options.convention}
    if options.acts or options.kv:
        key.update(acts=options.acts, kv=options.kv)
    had = {k["name"] for k in kept.rows if {x: v for x, v in k.items() if x in KEYS} == key}
    todo = [(n, a, *reads.of(i)) for i, (n, a) in enumerate(assignments(cells, options)) if n not in had]
    todo.sort(key=lambda one: one[3] or "")
    for kv, same in ((k, list(g)) for k, g in itertools.groupby(todo, key=lambda one: one[3])):
        for some in (same[i : i + real.TOGETHER] for i in range(0, len(same), real.TOGETHER)):
            outs = [options.place / f"assigned-{options.model}-{i}" for i in range(len(some))]
            if not all(made(folder, linears, acts, options, out) for (_, linears, acts, _), out in zip(some, outs)):
                raise SystemExit("an assignment cannot be made")
            for (name, linears, acts, _), one in zip(some, compared(folder, outs, kv, texts, options)):
                kept.add({**key, "name": name, "inputs": acts, "cache": kv, "bits": one["bits_per_weight"],
                          "foretold": predicted(cells, linears) + reads.predicted(acts, kv), "of_weights": predicted(cells, linears),
                          "texts": real.judged(one)})
            for out in outs:
                shutil.rmtree(out)


def title_of(k):
    """An assignment's name, and what is rounded besides weights."""
    return ", ".join([k["name"], *(f"{what} `{k[what]}`" for what in ("inputs", "cache") if k.get(what))])


def table(kept):
    def run_of(k):
        return k["model"], k["round"], k["calibrated"], "acts" in k, k["convention"]
    for run in dict.fromkeys(map(run_of, kept)):
        rows = sorted((k for k in kept if run_of(k) == run), key=lambda k: k["foretold"])
        texts = [t["text"] for t in rows[0]["texts"]]
        print(f"\n{run[0]}, {run[1]}, {run[2]} tokens of calibration{', inputs and caches' if run[3] else ''}, windows of {run[4]}\n")
        print("| assignment | bits | predicted | " + " | ".join(f"{t} | measured / predicted" for t in texts) + " |")
        print("|---|" + "---:|" * (2 + 2 * len(texts)))
        for k in rows:
            cells = [f"{real.cell(t)} | {t['kl'] / k['foretold']:.2f}" for t in k["texts"]]
            print(f"| {title_of(k)} | {k['bits']:.2f} | {k['foretold']:.3g} | " + " | ".join(cells) + " |")
        for i, text in enumerate(texts):
            for name, some in (("all", rows), (f"predicted below {SMALL}", [k for k in rows if k["foretold"] < SMALL])):
                told(f"{text}, {name}", some, i)


def told(title, rows, i):
    """How many of some assignments lose what was predicted."""
    ratios = sorted(k["texts"][i]["kl"] / k["foretold"] for k in rows)
    near = sum(1 / APART <= r <= APART for r in ratios)
    order = auto.correlation([k["foretold"] for k in rows], [k["texts"][i]["kl"] for k in rows])
    print(f"\n{title}: {near} of {len(ratios)} within {APART}; {ratios[0]:.2f} to {ratios[-1]:.2f}, median {ratios[len(ratios) // 2]:.2f}; "
          f"rank correlation {order:.3f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("-t", "--text", help="the first text (the beginning of models/probe/eval.txt)")
    parser.add_argument("-m", "--model", default="smollm2", choices=list(real.real_models.MODELS))
    parser.add_argument("-p", "--place", type=pathlib.Path, default=real.ROOT / "build/real")
    parser.add_argument("-n", "--count", type=int, default=15)
    parser.add_argument("--most", type=float, default=float("inf"), help="draw none that is predicted to lose more")
    parser.add_argument("--round", default="nearest", choices=list(BASE))
    parser.add_argument("--calib-tokens", type=int, default=8192)
    parser.add_argument("--measure", type=int, default=2044, help="positions of each text, of which the first of 512 is not judged")
    parser.add_argument("--convention", default="bos", choices=["bos", "gptq"], help="whether each window begins with BOS")
    parser.add_argument("--try", dest="tried", default=TRIED)
    parser.add_argument("--acts", default=[], type=lambda t: t.split(","), help="grids of inputs")
    parser.add_argument("--kv", action="append", default=[], help="formats of keys and values")
    parser.add_argument("--table", action="store_true", help="print the table of what was measured, and measure nothing")
    options = parser.parse_args()
    options.place.mkdir(parents=True, exist_ok=True)
    kept = real.Kept(options.place / "foretold.jsonl")
    if not options.table:
        measure(options, kept)
    table(kept.rows)


if __name__ == "__main__":
    main()
