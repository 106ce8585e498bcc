#!/usr/bin/env python3
"""What pith plan --for pith says against what pith bench measures here, combination by combination: own memory, the cache's
bytes, tokens a second of a prompt, of one sequence and of several, each against the roof measured beside that run.

  bench/plan.py [--pith build/pith] [--make build/tools/make_synthetic] [--reps 3] [--models FOLDER] [--markdown]

Models of known shapes with random weights are made in FOLDER (default: a temporary one), of few layers, so that all runs
together take minutes. The load of the machine is told beside each, as bench's roof moves with it.
"""

import argparse
import json
import os
import statistics
import subprocess
import tempfile

# shape and layers; formats of the linears; caches, depths and sequences
MODELS = (("middle", "12"), ("llama-3.2-1b", "3"), ("middle-moe", "8"))
WEIGHTS = ("none", "int8", "int4:g128", "q4_k")
CACHES = (("bf16", 512, 1), ("int8:token", 1024, 4))
PROMPT, GEN = 256, 16


def run(*arguments):
    r = subprocess.run(arguments, capture_output=True, text=True)
    if r.returncode:
        raise SystemExit(" ".join(arguments) + ": " + r.stderr.strip())
    return json.loads(r.stdout)


def device(folder, roof):
    """The machine as bench found it beside the run: a file of hardware."""
    path = os.path.join(folder, "this.json")
    with open(path, "w") as f:
        json.dump({"hardware": "this", "bandwidth": roof["read"], "f32": roof["f32"], "bf16": roof["bf16"],
                   "int8": roof["int8"], "cpu": True}, f)
    return path


def plan(pith, model, weights, kv, hardware, users, prompt, gen):
    return run(pith, "plan", model, "--for", "pith", "--weights", weights, "--kv", kv, "--hardware", hardware, "--users",
               str(users), "--context", str(prompt + gen), "--prompt", str(prompt), "--gen", str(gen), "--json")["rows"][0]


def own(row, depth):
    """Bytes of its own: without what stays in the checkpoint's file, which is mapped."""
    parts = row["weight_parts"]
    mapped = row["weight_bytes"] if row["recipe"] == "none" else parts["embeddings"] + parts["head"] + parts["norms"]
    return row["total_bytes"] - mapped


def combination(o, folder, model, weights, kv, depth, sequences):
    told = [] if weights == "none" else ["--weights", weights]
    b = run(o.pith, "bench", model, *told, "--kv", kv, "--depth", str(depth), "--prompt", str(PROMPT), "--gen", str(GEN),
            "--sequences", str(sequences), "--reps", str(o.reps), "--json")
    hardware = device(folder, b["roof"])
    one = plan(o.pith, model, weights, kv, hardware, 1, depth, GEN)
    prompt = plan(o.pith, model, weights, kv, hardware, 1, PROMPT, 1)
    whole = plan(o.pith, model, weights, kv, hardware, 1, depth + PROMPT - GEN, GEN)
    ratios = {"memory": own(whole, depth) / b["memory_own"],
              "prefill": prompt["first_token_seconds"] and PROMPT / prompt["first_token_seconds"]
              / b["prefill"]["tokens_per_second"]["median"],
              "decode": one["tokens_per_second"] / b["decode"]["tokens_per_second"]["median"],
              "cache": one["kv_bytes_per_token"] * (depth + GEN / 2) / b["decode"]["kv_bytes"]}
    if sequences > 1:
        many = plan(o.pith, model, weights, kv, hardware, sequences, depth, GEN)
        ratios["together"] = many["tokens_per_second"] / b["decode_many"]["tokens_per_second"]["median"]
    return ratios, os.getloadavg()[0], b["roof"]["read"] / 1e9


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("--pith", default="build/pith")
    p.add_argument("--make", default="build/tools/make_synthetic")
    p.add_argument("--models")
    p.add_argument("--reps", type=int, default=3)
    p.add_argument("--markdown", action="store_true")
    o = p.parse_args()
    kinds = ("memory", "cache", "prefill", "decode", "together")
    found = {k: [] for k in kinds}
    with tempfile.TemporaryDirectory() as folder:
        for shape, layers in MODELS:
            model = os.path.join(o.models or folder, "%s-%s" % (shape, layers))
            if not os.path.exists(model):
                subprocess.run([o.make, shape, model, layers], check=True)
            for weights in WEIGHTS:
                for kv, depth, sequences in CACHES:
                    ratios, load, read = combination(o, folder, model, weights, kv, depth, sequences)
                    for k, v in ratios.items():
                        found[k].append(v)
                    cells = [shape, weights, kv, str(depth), str(sequences)]
                    cells += ["%.3f" % ratios[k] if k in ratios else "" for k in kinds] + ["%.1f" % load, "%.1f" % read]
                    print("| " + " | ".join(cells) + " |" if o.markdown else "  ".join(cells), flush=True)
    for k in kinds:
        allowed = 0.02 if k in ("memory", "cache") else 0.15
        print("%s: median predicted / measured %.3f, of %d within %g%%: %d" %
              (k, statistics.median(found[k]), len(found[k]), 100 * allowed,
               sum(abs(v - 1) <= allowed for v in found[k])))


if __name__ == "__main__":
    main()
