#!/usr/bin/env python3
"""What pith plan --for pith says against what pith bench measures here, combination by combination: own memory, the cache's
bytes, tokens a second of a prompt, of one sequence and of several, foretold from what the kernels took just before that run.

  bench/plan.py [--pith build/pith] [--make build/tools/make_synthetic] [--reps 3] [--models FOLDER] [--shapes NAME,...] [--weights GRID,...]
                [--markdown]

One thread, and processor time on both sides, which others at work on the machine disturb less than the clock's.

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
WEIGHTS = ("none", "int8:channel", "int4:g128", "q4_k")
HEADS = {"q4_k": "q6_k"}  # of files of llama.cpp's types
CACHES = (("bf16", 512, 1), ("int8:token", 1024, 4))
PROMPT, GEN = 256, 16


def run(*arguments):
    r = subprocess.run(arguments, capture_output=True, text=True)
    if r.returncode:
        raise SystemExit(" ".join(arguments) + ": " + r.stderr.strip())
    return json.loads(r.stdout)


def tied(model):
    """Whether the head is the embedding."""
    with open(os.path.join(model, "config.json"), encoding="utf-8") as f:
        return json.load(f)["tie_word_embeddings"]


def device(o, folder, weights, kv):
    """The machine as it is just before the run: a file of hardware with what these kernels take."""
    told = [x for g in (weights, HEADS.get(weights, "none")) if g != "none" for x in ("--weights", g)]
    path = os.path.join(folder, "this.json")
    with open(path, "w", encoding="utf-8") as f:
        json.dump(run(o.pith, "hardware", "this", *told, "--kv", kv, "--threads", "1", "--json"), f)
    return path


def plan(pith, model, weights, kv, hardware, users, context, prompt, gen):
    return run(pith, "plan", model, "--for", "pith", "--weights", weights, "--kv", kv, "--hardware", hardware, "--users",
               str(users), "--context", str(context), "--prompt", str(prompt), "--gen", str(gen), "--json")["rows"][0]


def own(row, one):
    """Bytes of its own: without what stays in the checkpoint's file, which is mapped; one: head and embedding are."""
    parts = row["weight_parts"]
    packed = parts["embeddings" if one else "head"] if row["weights"] in HEADS else 0  # with its own grid
    mapped = row["weight_bytes"] if row["recipe"] == "none" else parts["embeddings"] + parts["head"] + parts["norms"] - packed
    return row["total_bytes"] - mapped


def combination(o, folder, model, weights, kv, depth, sequences):
    told = [] if weights == "none" else ["--weights", weights]
    told += ["--head", HEADS[weights]] if weights in HEADS else []
    hardware = device(o, folder, weights, kv)
    b = run(o.pith, "bench", model, *told, "--kv", kv, "--depth", str(depth), "--prompt", str(PROMPT), "--gen", str(GEN),
            "--sequences", str(sequences), "--reps", str(o.reps), "--threads", "1", "--json")
    most = depth + PROMPT
    one = plan(o.pith, model, weights, kv, hardware, 1, most, depth, GEN)
    # Prompts are read behind `depth` positions: as if the last of a longer one.
    long, short = (plan(o.pith, model, weights, kv, hardware, 1, most + 1, n, 1)["first_token_seconds"] for n in (most, depth))
    whole = plan(o.pith, model, weights, kv, hardware, 1, most, PROMPT, GEN)
    memory = own(whole, tied(model)) + (sequences - 1) * one["kv_bytes_per_token"] * (depth + GEN)
    ratios = {"memory": memory / b["memory_own"],
              "cache": one["kv_bytes_per_token"] * (depth + (GEN - 1) / 2) / b["decode"]["kv_bytes"],
              "prefill": b["prefill"]["processor_seconds"]["median"] / (long - short),
              "decode": b["decode"]["processor_seconds"]["median"] / one["token_seconds"]}
    if sequences > 1:
        many = plan(o.pith, model, weights, kv, hardware, sequences, most, depth, GEN)
        ratios["together"] = b["decode_many"]["processor_seconds"]["median"] / many["token_seconds"]
    return ratios, os.getloadavg()[0], b["roof"]["read"] / 1e9


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("--pith", default="build/pith")
    p.add_argument("--make", default="build/tools/make_synthetic")
    p.add_argument("--models")
    p.add_argument("--reps", type=int, default=3)
    p.add_argument("--shapes", default=",".join(s for s, _ in MODELS), help="which of the shapes (default: all)")
    p.add_argument("--weights", default=",".join(WEIGHTS), help="which formats (default: all)")
    p.add_argument("--markdown", action="store_true")
    o = p.parse_args()
    kinds = ("memory", "cache", "prefill", "decode", "together")
    found = {k: [] for k in kinds}
    with tempfile.TemporaryDirectory() as folder:
        for shape, layers in ((s, n) for s, n in MODELS if s in o.shapes.split(",")):
            model = os.path.join(o.models or folder, "%s-%s" % (shape, layers))
            if not os.path.exists(model):
                subprocess.run([o.make, shape, model, layers], check=True)
            for weights in o.weights.split(","):
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
