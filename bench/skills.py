#!/usr/bin/env python3
"""Whether quantized checkpoints of models/probe keep its skills: one table in Markdown.

    bench/skills.py [-m MODEL] [-n ITEMS] [-s SEED] OUT...

Items are drawn anew by the generators that made the probe's exercises (models/probe/recipe/skills.py) with a seed of their own, ITEMS of each
skill that the probe has learnt; each OUT is measured with the original on the same ones. Differences are in points with their paired 95%
interval, and "kept" is said where all of it lies within 2 points below the original or above. PITH names the program.
"""
import argparse
import json
import os
import random
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PITH = os.environ.get("PITH", "build/pith")
SKILLS = ["arithmetic", "syntax", "order"]  # recall is at chance in the original
MARGIN = -2.0


def write_items(folder, count, seed):
    sys.path.insert(0, f"{ROOT}/models/probe/recipe")
    import skills

    for k in SKILLS:
        r = random.Random(f"{k} {seed}")
        with open(f"{folder}/{k}.jsonl", "w") as f:
            for _ in range(count):
                question, choices, _ = skills.S[k](r)
                order = list(range(len(choices)))
                r.shuffle(order)
                item = {"context": question, "choices": [choices[j] for j in order], "answer": order.index(0)}
                f.write(json.dumps(item) + "\n")


def measured(model, out, folder):
    tasks = [a for k in SKILLS for a in ("--tasks", f"{folder}/{k}.jsonl")]
    text = ["--text", f"{ROOT}/models/probe/eval.txt", "--max-tokens", "512", "--context", "512"]
    r = subprocess.run([PITH, "eval", out, "--baseline", model, "--json", *text, *tasks], check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return json.loads(r.stdout)["tasks"]


def row(name, task):
    low, high = (100 * x for x in task["delta_ci95"])
    said = "kept" if low >= MARGIN else "lost" if high < MARGIN else "open"
    return (f"| {name} | {task['name']} | {task['n']} | {100 * task['baseline_accuracy']:.1f} | {100 * task['accuracy']:.1f} | "
            f"{100 * task['delta']:+.2f} ({low:+.2f} to {high:+.2f}) | {said} |")


def main():
    if os.environ.get("PYTHONHASHSEED") != "0":  # a generator goes through a set
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, "PYTHONHASHSEED": "0"})
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("-m", "--model", default=f"{ROOT}/models/probe")
    p.add_argument("-n", "--items", type=int, default=2000)
    p.add_argument("-s", "--seed", type=int, default=1)
    p.add_argument("out", nargs="+")
    a = p.parse_args()
    print("| checkpoint | skill | items | original, % | it, % | difference, points | within 2 points |")
    print("|---|---|---:|---:|---:|---:|---|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        write_items(folder, a.items, a.seed)
        for out in a.out:
            for task in measured(a.model, out, folder):
                print(row(os.path.basename(out.rstrip("/")), task), flush=True)


if __name__ == "__main__":
    main()
