#!/usr/bin/env python3
"""Which of several ways to quantize loses less: KL of each, and its difference to the first, with intervals.

    bench/variants.py -m MODEL... -t TEXT... [-n PIECES] [-b BYTES] [-c CONTEXT] [-j THREADS] LABEL=OPTIONS...

LABEL is a name for the options of `pith quantize` behind it, or for a checkpoint: LABEL=@FOLDER. Each text is
measured in PIECES (12) pieces of BYTES (5600) bytes spread over it, in windows of CONTEXT (512) tokens, against the
unquantized model; with -b 0 the pieces are the whole text, so that those of a short one do not overlap. An interval is
Student's over the pieces (95%); differences are paired piece by piece, so that what is hard for both does not count. One
table in Markdown. PITH names the program.

Intervals tell how well the texts determine the numbers. That another model of the same kind would come out alike they
do not tell: use several, and with -r SEED... each anew with its channels permuted and its sites rescaled at random,
which is the same function with other groups and other rounding (needs torch and safetensors).
"""
import argparse
import csv
import io
import math
import os
import shutil
import subprocess
import sys
import tempfile

T95 = [0, 12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13, 2.12, 2.11]
PITH = os.environ.get("PITH", "build/pith")


def run(*args):
    r = subprocess.run([PITH, *args], capture_output=True, text=True)
    if r.returncode:
        sys.exit(r.stderr[-600:])
    return r.stdout


def pieces(path, count, size, folder):
    with open(path, encoding="utf-8") as f:
        text = f.read()
    size = size or len(text) // count
    step = max(0, len(text) - size) // max(1, count - 1)
    for i in range(count):
        name = os.path.join(folder, f"{os.path.basename(path)}.{i}.txt")
        with open(name, "w", encoding="utf-8") as f:
            f.write(text[i * step : i * step + size])
        yield name


def interval(values):
    n = len(values)
    mean = sum(values) / n
    spread = math.sqrt(sum((v - mean) ** 2 for v in values) / (n - 1)) if n > 1 else math.nan
    return mean, T95[min(n - 1, len(T95) - 1)] * spread / math.sqrt(n)


def shuffled(model, seed, folder):
    """The same function: hidden and inner channels permuted, each site and its norm rescaled by a factor of 1 to 2."""
    import json
    import random

    import torch
    from safetensors.torch import load_file, save_file

    rng, gen = random.Random(seed), torch.Generator().manual_seed(seed)
    with open(os.path.join(model, "config.json"), encoding="utf-8") as f:
        config = json.load(f)
    t = {k: v.float() for k, v in load_file(os.path.join(model, "model.safetensors")).items()}
    order = torch.randperm(config["hidden_size"], generator=gen)
    for k, v in t.items():
        if v.dim() == 1:
            t[k] = v[order]
        else:
            t[k] = v[order] if "o_proj" in k or "down_proj" in k else v[:, order]
    for layer in range(config["num_hidden_layers"]):
        def scale(names, factor, layer=layer):
            for name in names.split():
                t[f"model.layers.{layer}.{name}.weight"] *= factor
        inner = torch.randperm(config["intermediate_size"], generator=gen)
        at = f"model.layers.{layer}.mlp."
        for name in ("gate_proj", "up_proj"):
            t[f"{at}{name}.weight"] = t[f"{at}{name}.weight"][inner]
        t[f"{at}down_proj.weight"] = t[f"{at}down_proj.weight"][:, inner]
        attn = "self_attn."
        for before, after in (("input_layernorm", f"{attn}q_proj {attn}k_proj {attn}v_proj"),
                              ("post_attention_layernorm", "mlp.gate_proj mlp.up_proj"),
                              (f"{attn}v_proj", f"{attn}o_proj"), ("mlp.up_proj", "mlp.down_proj"),
                              (f"{attn}q_proj", f"{attn}k_proj")):
            factor = 2 ** rng.random()
            scale(before, factor)
            scale(after, 1 / factor)
    out = os.path.join(folder, f"{os.path.basename(os.path.normpath(model))}~{seed}")
    os.makedirs(out)
    for name in os.listdir(model):
        if name.endswith(".json") or name.startswith("tokenizer"):
            shutil.copyfile(os.path.join(model, name), os.path.join(out, name))
    with open(os.path.join(out, "config.json"), "w", encoding="utf-8") as f:
        json.dump(dict(config, dtype="float32", torch_dtype="float32"), f)
    save_file({k: v.contiguous() for k, v in t.items()}, os.path.join(out, "model.safetensors"), {"format": "pt"})
    return out


def losses(model, variants, texts, folder, threads, context="512"):
    """The KL of each variant by piece, and the checkpoints."""
    outs = []
    for i, (label, options) in enumerate(variants):
        out = options[1:] if options.startswith("@") else os.path.join(folder, f"v{i}")
        if not options.startswith("@"):
            shutil.rmtree(out, ignore_errors=True)
            run("quantize", model, "-o", out, *options.split(), "--threads", threads, "--quiet")
        outs.append(out)
    files = [f for names in texts.values() for f in names]
    table = run("compare", model, *outs, *[x for f in files for x in ("--text", f)], "--context", context,
                "--threads", threads, "--format", "csv", "--quiet")
    rows = list(csv.reader(io.StringIO(table)))
    columns = [i for i, name in enumerate(rows[0]) if name == "KL" or name.endswith(": KL")]
    return [dict(zip(files, (float(row[i]) for i in columns))) for row in rows[2:]], outs


def measure(model, variants, texts, a, folder):
    kl, _ = losses(model, variants, texts, folder, a.j, a.c)
    for text, names in texts.items():
        first = [kl[0][f] for f in names]
        mean = sum(first) / len(first)
        for (label, _), row in zip(variants, kl):
            value, half = interval([row[f] for f in names])
            more, more_half = interval([(row[f] - x) / mean for f, x in zip(names, first)])
            where = f"{os.path.basename(os.path.normpath(model))} | {os.path.basename(text)}"
            print(f"| {where} | {label} | {value:.5f} ± {half:.5f} | {100 * more:+.1f}% ± {100 * more_half:.1f} |",
                  flush=True)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("-m", action="append", required=True)
    p.add_argument("-t", action="append", required=True)
    p.add_argument("-r", action="append", type=int, default=[])
    p.add_argument("-n", type=int, default=12)
    p.add_argument("-b", type=int, default=5600)
    p.add_argument("-c", default="512")
    p.add_argument("-j", default="1")
    p.add_argument("variants", nargs="+")
    a = p.parse_args()
    variants = [v.split("=", 1) for v in a.variants]
    print("| model | text | what | KL | to the first |\n| --- | --- | --- | ---: | ---: |")
    with tempfile.TemporaryDirectory() as folder:
        texts = {t: list(pieces(t, a.n, a.b, folder)) for t in a.t}
        for model in a.m:
            for one in [model] + [shuffled(model, seed, folder) for seed in a.r]:
                measure(one, variants, texts, a, folder)


if __name__ == "__main__":
    main()
