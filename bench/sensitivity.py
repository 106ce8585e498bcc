#!/usr/bin/env python3
"""What pith sensitivity foretells of single parts, against what changing just this one costs.

    bench/sensitivity.py MODEL [--text FILE]... [--count 20] [--tokens 8192] [--context 512] [--seed 1] [--kinds weights,cache,acts] [--work FOLDER]

text      what KL is measured on (default MODEL/eval.txt), not what is calibrated on
count     so many changes of each kind, drawn at random from those that are foretold to cost 1e-5 nats a token or more

Weights are rounded by GPTQ, one linear, the others as they are. A cache changes on one side of one layer. Inputs are rounded of one
site, whose matrices are on int8:channel, against the same model whose inputs are not. PITH names the program (build/pith).
"""
import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import tempfile

PITH = os.environ.get("PITH", "build/pith")


def pith(*args):
    said = subprocess.run([PITH, *map(str, args), "--quiet"], capture_output=True, text=True)
    if said.returncode:
        raise SystemExit(f"pith {' '.join(map(str, args))}: {said.stderr.strip()}")
    return said.stdout


def ranks(x):
    order = sorted(range(len(x)), key=lambda i: x[i])
    of = [0] * len(x)
    for place, i in enumerate(order):
        of[i] = place
    return of


def spearman(a, b):
    return statistics.correlation(ranks(a), ranks(b)) if len(a) > 2 else float("nan")


class Bench:
    def __init__(self, args, work):
        self.args, self.work = args, work
        self.calib = ["--calib-tokens", 16384, "--seq-len", args.context]
        self.report = json.loads(pith("sensitivity", args.model, *self.calib, "--json", "--work", os.path.join(work, "s")))
        self.linears = sorted({r["part"] for r in self.report["rows"] if r["kind"] == "weights"})

    def kld(self, path, baseline, *more):
        texts = [x for t in self.args.text for x in ("--text", t)]
        out = pith("eval", path, "--baseline", baseline, *texts, "--max-tokens", self.args.tokens, "--context", self.args.context, "--json", *more)
        return [t["kld_mean"] for t in json.loads(out)["texts"]]

    def quantize(self, name, only, *options):
        path = os.path.join(self.work, name)
        shutil.rmtree(path, ignore_errors=True)
        left = [x for p in self.linears if p not in only for x in ("--ignore", p)]
        pith("quantize", self.args.model, "-o", path, "--container", "compressed-tensors", "--allow-error", 2, *self.calib, *options, *left)
        return path

    def weights(self, row):
        return self.kld(self.quantize("w", [row["part"]], "-r", "gptq", "--weights", row["grid"]), self.args.model)

    def cache(self, row):
        layer, _, side = row["part"].rpartition(".")
        grid = row["grid"] if side == "kv" else f"{side}={row['grid']}".replace(",rotate", f",rotate={side}")
        return self.kld(self.args.model, self.args.model, "--kv", "f32", "--kv-layer", f"{layer}={grid}")

    def readers(self, row):
        """The linears that read a site of the Llama family, or of an expert."""
        layer, _, site = row["part"].rpartition(".")
        ends = {"qkv": ("q_proj", "k_proj", "v_proj", "qkv_proj"), "o": ("o_proj",), "gate_up": ("gate_proj", "up_proj"),
                "down": ("down_proj",)}[site]
        return [p for p in self.linears if p.startswith(layer + ".") and p.endswith(ends) and (".experts." in p) == (".experts." in layer)]

    def acts(self, row):
        only = self.readers(row)
        plain = self.quantize("p", only, "-r", "rtn", "--weights", "int8:channel")
        return self.kld(self.quantize("a", only, "-r", "rtn", "--weights", "int8:channel", "--acts", row["grid"].replace(":static", "")), plain)

    def run(self, kind, rng):
        rows = [r for r in self.report["rows"] if r["kind"] == kind and r["kld"] >= 1e-5]
        if kind == "acts":
            rows = [r for r in rows if r["part"].rpartition(".")[2] in ("qkv", "o", "gate_up", "down") and self.readers(r)]
        if not rows:
            return
        rows = rng.sample(rows, min(self.args.count, len(rows)))
        found = []
        for r in rows:
            found.append(getattr(self, kind)(r))
            print(f"# {kind} {r['part']} {r['grid']}: {r['kld']:.6f} {' '.join(f'{x:.6f}' for x in found[-1])}", flush=True)
        for t, text in enumerate(self.args.text):
            ratio = sorted(m[t] / r["kld"] for r, m in zip(rows, found))
            near = sum(1 / 1.3 <= x <= 1.3 for x in ratio)
            rank = spearman([r["kld"] for r in rows], [m[t] for m in found])
            print(f"| {os.path.basename(os.path.normpath(self.args.model))}, {os.path.basename(text)} | {kind} | {len(rows)} | "
                  f"{statistics.median(ratio):.2f} | {ratio[len(ratio) // 10]:.2f} to {ratio[-1 - len(ratio) // 10]:.2f} | {near} | {rank:.3f} |", flush=True)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("model")
    p.add_argument("--text", action="append")
    p.add_argument("--count", type=int, default=20)
    p.add_argument("--tokens", type=int, default=8192)
    p.add_argument("--context", type=int, default=512)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--kinds", default="weights,cache,acts")
    p.add_argument("--work")
    args = p.parse_args()
    args.text = args.text or [os.path.join(args.model, "eval.txt")]
    work = args.work or tempfile.mkdtemp()
    os.makedirs(work, exist_ok=True)
    bench = Bench(args, work)
    print("| model, text | kind | changes | measured / foretold: median | 10% to 90% | within 1.3 | rank correlation |")
    print("|---|---|---:|---:|---|---:|---:|")
    for kind in args.kinds.split(","):
        bench.run(kind, random.Random(args.seed))
    if not args.work:
        shutil.rmtree(work)


if __name__ == "__main__":
    main()
