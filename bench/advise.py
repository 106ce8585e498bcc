#!/usr/bin/env python3
"""Whether `pith advise` names the recipe that an exhaustive run finds: for each target the winner of a usual call (four recipes) beside that
of one which makes and measures every recipe the target loads, on other text.

Usage: advise.py PITH MODEL --text FILE [--text FILE ...] [--for TARGET ...] [--max-tokens N] [--calib-tokens N]   (a few minutes on the model that ships)

A line a target: the winner, the best of all, the worth of the former as a part of the latter's by the exhaustive measurement, and whether
they are one, or as good within the intervals."""
import argparse
import json
import os
import subprocess
import sys
import tempfile

TARGETS = ["vllm:gpu=l4", "vllm:gpu=h100-sxm", "sglang:gpu=a100-sxm4-80", "llama.cpp:gpu=rtx4090", "pith"]


def advise(pith, model, target, folder, *options):
    """The report; folder: where it may work."""
    r = subprocess.run([pith, "advise", model, "--for", target, "--context", "512", "--users", "16", "--work",
                        os.path.join(folder, "advise"), "--json", "--quiet", *options], capture_output=True, text=True)
    if r.returncode:
        sys.exit(f"{target}: {r.stderr}")
    return json.loads(r.stdout)


def name(row):
    return row["recipe"] if row["kv"] == "bf16" else f"{row['recipe']}, {row['kv']}"


def main():
    p = argparse.ArgumentParser()
    p.add_argument("pith")
    p.add_argument("model")
    p.add_argument("--text", action="append", required=True)
    p.add_argument("--for", dest="targets", action="append")
    p.add_argument("--max-tokens", default="16384")
    p.add_argument("--calib-tokens", default="32768")
    a = p.parse_args()
    calib = ["--calib-tokens", a.calib_tokens]
    texts = [x for t in a.text for x in ("--text", t)]
    print("| target | winner | KL x1000 | best of all | its KL x1000 | of | worth | |\n|---|---|---:|---|---:|---:|---:|---|")
    bad = 0
    for target in a.targets or TARGETS:
        with tempfile.TemporaryDirectory() as folder:
            usual = advise(a.pith, a.model, target, folder, "--max-tokens", a.max_tokens, *calib)["rows"][0]
            rows = advise(a.pith, a.model, target, folder, "--candidates", "0", "--max-tokens", a.max_tokens, *calib, *texts)["rows"]
        best = rows[0]
        mine = next(r for r in rows if name(r) == name(usual))
        # The machine at hand is measured anew each time: one call's speeds for both.
        verdict = "the best" if mine is best else "as good" if mine["near"] else "another"
        bad += verdict == "another"
        print(f"| `{target}` | {name(usual)} | {1000 * usual['quality']['kld']:.2f} | {name(best)} | {1000 * best['quality']['kld']:.2f} | "
              f"{len(rows)} | {mine['worth'] / best['worth']:.3f} | {verdict} |", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
