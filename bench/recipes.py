#!/usr/bin/env python3
"""What every recipe costs and takes: one table in Markdown for each model.

    bench/recipes.py [-m MODEL]... [-t TEXT]... [-n TOKENS] [-c TOKENS] [-o FILE] [-r [-x TRANSFORM]] [ROW]...

The rows are those of `pith recipes`, and the compositions below. With ROW (a part of a row's name) only
those. Each is quantized, verified against the original, and measured on each TEXT (windows of 512
tokens, gptq convention; KL with its 95% interval) and on the probe's tasks, against the unquantized
model. PITH names the program.
docs/techniques.md has the table of this version.
"""
import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile

PITH = os.environ.get("PITH", "build/pith")
PROBE = "models/probe"
TASKS = ["order", "syntax", "arithmetic", "recall"]

# Compositions that have no name of their own: what each technique is held against.
MORE = """
rtn int3|-r rtn --weights int3:g128
gptq int3|-r gptq --weights int3:g128
awq int3|-r awq --weights int3:g128 --container compressed-tensors
awq+gptq int3|-r awq+gptq --weights int3:g128
autoround int3|-r autoround --weights int3:g128
hqq int3|-r hqq --weights int3:g64:asym:hqq
rtn int2|-r rtn --weights int2:g64:asym
gptq int2|-r gptq --weights int2:g64:asym --container compressed-tensors
autoround int2|-r autoround --weights int2:g64:asym
rtn int4:channel|-r rtn --weights int4:channel
rtn W4A4|-r rtn --weights int4:channel:mse --acts int4:token
gptq W4A4|-r quarot --transform none
rotated W4A4, nearest|-r quarot --round nearest
nvfp4 gptq|-r nvfp4 --round gptq
nvfp4-w4a4 gptq|-r nvfp4-w4a4 --round gptq
mxfp4 gptq|-r mxfp4 --round gptq
magnitude 2:4|-r rtn --weights none --split 2:4:magnitude
sparsegpt int8|-r sparsegpt --weights int8:channel
sparsegpt fp8|-r sparsegpt --weights fp8_e4m3:channel
sparsegpt int4|-r sparsegpt --weights int4:g128
wanda int4|-r wanda --weights int4:g128
squeezellm gptq|-r squeezellm --round gptq
squeezellm 3 bits|-r squeezellm --weights codebook3:channel
smoothquant auto|-r smoothquant --transform smooth:auto
smoothquant static|-r smoothquant --acts int8:tensor:static
w8a8 static|-r w8a8 --acts int8:tensor:static
"""

# Roundings that look at the whole model, on several grids.
ROUNDINGS = ["gptq", "gptq:guided", "gptaq", "qep", "qep:guided", "gptq:kron", "qep:kron"]
ROUNDED = {"int4:g128": "compressed-tensors", "int3:g128": "compressed-tensors", "int2:g64:asym": "compressed-tensors",
           "q4_k": "gguf", "nvfp4": "compressed-tensors"}


def run(*args):
    return subprocess.run([PITH, *args], capture_output=True, text=True)


def compositions():
    """Those that have no name of their own: the options of each."""
    return {n: o.split() for n, o in (line.split("|") for line in MORE.strip().split("\n"))}


def rows(wanted):
    if ARGS.roundings:
        behind = ARGS.transform.split(",")
        every = [(f"{t}+{g} {r}", ["-r", "gptq", "--transform", t, "--weights", g, "--round", r, "--container", ROUNDED[g]])
                 for g in ROUNDED for t in behind for r in ROUNDINGS]
        every = [(n.removeprefix("none+"), o) for n, o in every]
        return [r for r in every if not wanted or any(w in r[0] for w in wanted)]
    listed = json.loads(run("recipes", "--json").stdout)
    all_rows = [(r["recipe"], ["-r", r["recipe"]]) for r in listed]
    all_rows += compositions().items()
    return [r for r in all_rows if not wanted or any(w in r[0] for w in wanted)]


def measure(model, out, options):
    made = run("quantize", model, "-o", out, "--json", *options)
    if made.returncode:
        return made.stderr.strip().split("\n")[-1]
    account = json.loads(made.stdout)
    proof = run("verify", out, "--against", model, "--quiet")
    if proof.returncode:
        return "does not verify: " + proof.stderr.strip().split("\n")[-1]
    tasks = [x for t in TASKS for x in ("--tasks", f"{PROBE}/tasks/{t}.jsonl")]
    texts = [x for t in TEXTS for x in ("--text", t)]
    got = run("eval", out, "--baseline", model, *texts, "--context", "512", "--json", *tasks, *LIMIT)
    if got.returncode:
        return got.stderr.strip().split("\n")[-1]
    return account, json.loads(got.stdout)


def line(name, account, report):
    t = report["texts"][0]
    accuracy = [f"{100 * k['accuracy']:.1f}" for k in report["tasks"]]
    kl = [f"{t['kld_mean']:.5f} ± {(t['kld_ci95'][1] - t['kld_ci95'][0]) / 2:.5f}" for t in report["texts"]]
    cells = [name, f"{report['bits_per_weight']:.2f}", f"{t['perplexity']:.3f}", *kl,
             f"{100 * t['top1_agreement']:.1f}", *accuracy, f"{account['timing']['seconds']:.1f}"]
    return "| " + " | ".join(cells) + " |"


def table(model, out):
    print(f"\n## {os.path.basename(model.rstrip('/'))}\n", file=out)
    head = ["recipe", "bits per weight", "perplexity", *(f"KL, {os.path.basename(t)}" for t in TEXTS), "top 1",
            *TASKS, "seconds"]
    print("| " + " | ".join(head) + " |", file=out)
    print("| --- |" + " ---: |" * (len(head) - 1), file=out, flush=True)
    failed = 0
    for name, options in rows(ARGS.row):
        work = tempfile.mkdtemp()
        result = measure(model, work + "/out", [*options, "--calib-tokens", str(ARGS.calib)])
        shutil.rmtree(work)
        if isinstance(result, str):
            failed += 1
            print(f"{name}: {result}", file=sys.stderr)
        else:
            print(line(name, *result), file=out, flush=True)
    return failed


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("-m", "--model", action="append")
    parser.add_argument("-t", "--text", action="append")
    parser.add_argument("-n", "--tokens", type=int, default=0, help="scored at most (all)")
    parser.add_argument("-c", "--calib", type=int, default=131072, help="calibration tokens")
    parser.add_argument("-o", "--out")
    parser.add_argument("-r", "--roundings", action="store_true", help="those of the whole model instead, on five grids")
    parser.add_argument("-x", "--transform", default="none", help="in front of the roundings: names, with commas between")
    parser.add_argument("row", nargs="*")
    ARGS = parser.parse_args()
    TEXTS = ARGS.text or [PROBE + "/eval.txt"]
    LIMIT = ["--max-tokens", str(ARGS.tokens)] if ARGS.tokens else []
    with open(ARGS.out, "w") if ARGS.out else sys.stdout as file:
        sys.exit(sum(table(m, file) for m in ARGS.model or [PROBE]) > 0)
