#!/usr/bin/env python3
"""Own memory as foretold and as held, by every recipe in every container that takes it.

    bench/memory.py MODEL [-r RECIPE]... [-c CONTAINER]... [-- OPTIONS...]
    bench/memory.py MODEL --convert [-c CONTAINER]... [-- OPTIONS...]
    bench/memory.py MODEL --bench|--eval [-- OPTIONS...]

A line each: what `pith quantize` says it will need at most (what --memory is held against), the most
anonymous memory seen from outside by looking every half millisecond, and their quotient. It is never
below 1 where the estimate holds. Containers that refuse a recipe are left out. With --convert, MODEL is
quantized and goes to each container by `pith convert` (default OPTIONS: --threads 2). With --bench and --eval,
MODEL is loaded and timed, or reads models/probe/eval.txt, and both figures are in MiB. OPTIONS go to every
run (default: --calib-tokens 1024 --seq-len 512 --threads 2). PITH names the program; what is made
goes under TMPDIR and is removed.
"""
import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

PITH = os.environ.get("PITH", "build/pith")
FEW = ["--calib-tokens", "1024", "--seq-len", "512", "--threads", "2"]
LOADED = {
    "bench": ["--prompt", "128", "--gen", "4", "--reps", "1", "--threads", "2"],
    "eval": ["--text", "models/probe/eval.txt", "--context", "512", "--max-tokens", "1024", "--threads", "2"],
}
CONTAINERS = ["compressed-tensors", "gptq", "awq", "bitsandbytes", "gguf", "squeezellm", "hqq", "modelopt", "fp8"]
# What no recipe is named after and takes memory of its own.
MORE = {
    "gptq sparse": ["-r", "gptq", "--split", "sparse:1"],
    "gptq columns": ["-r", "gptq", "--split", "columns:6"],
    "w8a8 static": ["-r", "w8a8", "--acts", "int8:tensor:static"],
    "fp8 kv": ["-r", "fp8", "--kv", "fp8_e4m3"],
    "gptq fast": ["-r", "gptq", "--mode", "fast"],
    "awq fast": ["-r", "awq", "--mode", "fast"],
}


def held(args, said):
    """A run whose standard output goes to the file `said`: the most anonymous memory that it held."""
    with open(said, "w") as f:
        p = subprocess.Popen(args, stdout=f, stderr=subprocess.PIPE, text=True)
    status, peak = open(f"/proc/{p.pid}/status"), 0
    while p.poll() is None:
        try:
            status.seek(0)
            for line in status:
                if line.startswith("RssAnon:"):
                    peak = max(peak, int(line.split()[1]) * 1024)
        except OSError:
            pass
        time.sleep(0.0005)
    return p.returncode, p.communicate()[1], peak


def measure(model, options, few, command="quantize"):
    work = tempfile.mkdtemp(prefix="pith-memory-")
    out = os.path.join(work, "made.gguf" if "gguf" in options else "made")
    args = [PITH, command, model, "-o", out, "--json", "--quiet", *few, *options]
    try:
        if command == "quantize":
            refused = subprocess.run([*args, "--memory", "1K"], capture_output=True, text=True)
            if "--memory allows" not in refused.stderr:
                return None, refused.stderr.strip()
        said = os.path.join(work, "said")
        code, err, peak = held(args, said)
        if code != 0:
            return None, err.strip()
        with open(said) as f:
            timing = json.load(f)["timing"]
    finally:
        shutil.rmtree(work)
    return (timing["memory_expected_bytes"], max(peak, timing["peak_memory_bytes"]), timing["seconds"]), None


def measure_loaded(model, command, options):
    """(foretold, held) of a command that runs the model."""
    with tempfile.TemporaryDirectory(prefix="pith-memory-") as work:
        said = os.path.join(work, "said")
        code, err, peak = held([PITH, command, model, "--json", "--quiet", *LOADED[command], *options], said)
        if code != 0:
            sys.exit(err.strip())
        with open(said) as f:
            return json.load(f)["memory_expected"], peak


def rows(recipes, containers):
    listed = json.loads(subprocess.run([PITH, "recipes", "--json"], capture_output=True, text=True).stdout)
    every = {r["recipe"]: ["-r", r["recipe"]] for r in listed} | MORE
    for name, options in every.items():
        if recipes and name not in recipes:
            continue
        for container in containers or CONTAINERS:
            yield name, container, [*options, "--container", container]


def conversions(containers):
    for container in containers or CONTAINERS:
        yield "convert", container, ["--container", container]


def main():
    p = argparse.ArgumentParser()
    p.add_argument("model")
    p.add_argument("-r", "--recipe", action="append")
    p.add_argument("-c", "--container", action="append")
    p.add_argument("--convert", action="store_true")
    p.add_argument("--bench", action="store_true")
    p.add_argument("--eval", action="store_true")
    p.add_argument("-o", "--only", type=float, default=0, help="tell only quotients outside 1 .. ONLY")
    argv, few = sys.argv[1:], FEW
    if "--" in argv:
        argv, few = argv[: argv.index("--")], argv[argv.index("--") + 1:]
    a = p.parse_args(argv)
    for command in [c for c in LOADED if getattr(a, c)]:
        expected, peak = measure_loaded(a.model, command, few if "--" in sys.argv else [])
        print(f"{command:6} {expected / 2**20:9.1f} MiB {peak / 2**20:9.1f} MiB, estimate over peak "
              f"{expected / peak:.3f} to {expected / peak:.3f}")
    if a.bench or a.eval:
        return
    command = "convert" if a.convert else "quantize"
    if a.convert and "--" not in sys.argv:
        few = ["--threads", "2"]
    worst = []
    for name, container, options in conversions(a.container) if a.convert else rows(a.recipe, a.container):
        got, why = measure(a.model, options, few, command)
        if not got:
            if a.recipe or a.convert:
                print(f"{name:14} {container:18} {why[:90]}", flush=True)
            continue
        expected, peak, seconds = got
        q = expected / peak
        worst.append(q)
        if not 1 <= q <= a.only:
            print(f"{name:14} {container:18} {expected / 2**20:9.1f} MiB {peak / 2**20:9.1f} MiB {q:6.3f} "
                  f"{seconds:6.1f} s", flush=True)
    if worst:
        print(f"{len(worst)} runs, estimate over peak {min(worst):.3f} to {max(worst):.3f}")


if __name__ == "__main__":
    main()
