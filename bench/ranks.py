#!/usr/bin/env python3
"""What a rehearsal estimates for several ranks against what they take and receive, recipe by recipe.

  bench/ranks.py [--pith build/pith] [--ranks 2] [--reps 3] [--recipes NAME,...] [--tokens 4096] [MODEL...]

Ranks of one thread each on this machine, which needs as many free cores: other work makes runs longer than estimated.
The link of one machine is memory (--link 100G,1). Rehearsals and runs alternate; medians are compared. Without MODEL, two
that are made: a dense one and a mixture, of 4 layers.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import tempfile

MADE = {"dense": ("layers=4", "hidden=768", "ffn=2048"), "mixture": ("qwen3_moe", "layers=4", "hidden=768", "ffn=512")}


def run(*arguments):
    r = subprocess.run(arguments, capture_output=True, text=True)
    if r.returncode:
        raise SystemExit(" ".join(arguments) + ": " + r.stderr.strip())
    return r.stdout


def rehearse(o, model, recipe, out):
    """The row of so many ranks."""
    made = run(o.pith, "quantize", model, "-o", out, "-r", recipe, *o.base, "--rehearse", "--link", "100G,1", "--json")
    return next(r for r in json.loads(made)["ranks"]["rows"] if r["ranks"] == o.ranks)


def quantize(o, model, recipe, out, ranks):
    """Seconds, and the bytes that reached the busiest rank."""
    shutil.rmtree(out, ignore_errors=True)
    run(*(("mpirun", "-q", "-n", str(ranks)) if ranks > 1 else ()), o.pith, "quantize", model, "-o", out, "-r", recipe, *o.base, "--quiet")
    with open(os.path.join(out, "pith.json"), encoding="utf-8") as f:
        timing = json.load(f)["timing"]
    return timing["seconds"], max(timing.get("rank_bytes_received", [0]))


def compare(o, model, recipe, folder):
    out = os.path.join(folder, "out")
    rows, one, several = [], [], []
    for _ in range(o.reps):
        rows.append(rehearse(o, model, recipe, os.path.join(folder, "never")))
        one.append(quantize(o, model, recipe, out, 1)[0])
        several.append(quantize(o, model, recipe, out, o.ranks))
    estimate, took = statistics.median(r["seconds_expected"] for r in rows), statistics.median(s for s, _ in several)
    received, came = rows[0]["bytes_received"], several[0][1]
    print(f"| {os.path.basename(model)} | `{recipe}` | {statistics.median(one):.1f} s | {estimate:.1f} s | {took:.1f} s | {estimate / took:.2f} "
          f"| {received / 1e6:.1f} MB | {came / 1e6:.1f} MB | {received / came:.2f} |", flush=True)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("models", nargs="*")
    p.add_argument("--pith", default="build/pith")
    p.add_argument("--ranks", type=int, default=2)
    p.add_argument("--reps", type=int, default=3)
    p.add_argument("--recipes", default="rtn,gptq,awq,smoothquant,qep")
    p.add_argument("--tokens", default="4096")
    o = p.parse_args()
    o.base = ("--calib-tokens", o.tokens, "--seq-len", "256", "--threads", "1")
    print(f"| model | recipe | one rank | estimate, {o.ranks} ranks | took | ratio | estimated bytes | received | ratio |")
    print("|---|---|" + "---:|" * 7)
    with tempfile.TemporaryDirectory() as folder:
        models = o.models
        for name, sizes in () if models else MADE.items():
            run("python3", "tests/cli/mini.py", os.path.join(folder, name), *sizes)
        for model in models or [os.path.join(folder, name) for name in MADE]:
            for recipe in o.recipes.split(","):
                compare(o, model, recipe, folder)


if __name__ == "__main__":
    main()
