#!/usr/bin/env python3
"""What pith recover wins back: one table in Markdown.

    bench/recover.py [-m MODEL] [-t TEXT]... [-n TOKENS] [-s STEPS] [-o KEEP] [ROW]...

Each row (a part of its name chooses) is quantized, recovered in each way that there is, verified against the original, and measured on each TEXT, none
of which was trained on (windows of 512 tokens, gptq convention; KL in nats a token with its 95% interval). Seconds are of the processor,
all threads together. PITH names the program. docs/recovering.md has the table of this version.
"""
import argparse
import json
import os
import resource
import subprocess
import tempfile

PITH = os.environ.get("PITH", "build/pith")
ROWS = {
    "int2:g64 autoround": "-r autoround --weights int2:g64:asym",
    "int2:g64 qep:kron": "-r gptq --round qep:kron --weights int2:g64:asym",
    "int3:g128 gptq": "-r gptq --weights int3:g128",
    "int3:g128 qep:kron": "-r gptq --round qep:kron --weights int3:g128",
    "int4:g128": "-r gptq --weights int4:g128",
    "nvfp4": "-r nvfp4 --round gptq",
    "trellis2": "-r exl3 --round qep:kron --weights trellis2",
}
WAYS = {"trellis2": ("scales",)}  # codes of a trellis stay


def run(*args):
    """Runs the program; its output, and processor seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    out = subprocess.run([PITH, *args], check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return out, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measured(a, out):
    cells = []
    for text in a.text:
        j = json.loads(run("eval", out, "--baseline", a.model, "--text", text, "--context", "512", "--max-tokens", str(a.tokens), "--json")[0])
        t = j["texts"][0]
        cells.append(f"{t['kld_mean']:.4f} ({t['kld_ci95'][0]:.4f} to {t['kld_ci95'][1]:.4f})")
    return cells


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("-m", "--model", default="models/probe")
    p.add_argument("-t", "--text", action="append")
    p.add_argument("-n", "--tokens", type=int, default=1 << 20)
    p.add_argument("-c", "--calib", default="32768")
    p.add_argument("-s", "--steps", default="auto")
    p.add_argument("-x", "--more", default="", help="further options of recover")
    p.add_argument("row", nargs="*")
    a = p.parse_args()
    a.text = a.text or ["models/probe/eval.txt", "models/probe-moe/rare/knitting.txt"]
    print("| grid | trained |", *(f"KL, {os.path.basename(t)} |" for t in a.text), "steps | seconds |")
    print("|---|---|" + "---|" * len(a.text) + "---:|---:|", flush=True)
    with tempfile.TemporaryDirectory() as work:
        for name, how in ROWS.items():
            if a.row and not any(r in name for r in a.row):
                continue
            out = f"{work}/{name.replace(':', '_').replace(' ', '_')}"
            _, seconds = run("quantize", a.model, "-o", out, "--calib-tokens", a.calib, *how.split())
            print(f"| {name} | - |", *(c + " |" for c in measured(a, out)), f"- | {seconds:.0f} |", flush=True)
            for train in WAYS.get(name, ("scales", "all")):
                new = f"{out}.{train}"
                report, seconds = run("recover", out, "--against", a.model, "-o", new, "--train", train, "--steps", a.steps, "--json", *a.more.split())
                run("verify", new, "--against", a.model)
                steps = json.loads(report)["steps"]
                print(f"| {name} | {train} |", *(c + " |" for c in measured(a, new)), f"{steps} | {seconds:.0f} |", flush=True)


main()
