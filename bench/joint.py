#!/usr/bin/env python3
"""Weights and KV cache chosen together (-r auto --fit ...,kv=auto), and each of them alone, within the same bytes.

    bench/joint.py MODEL BUDGET... [--context 4096] [--users 16] [--text FILE]... [--tokens 8192]

alone     auto weights with each uniform cache that fits; each uniform recipe with an auto cache of the bits that are left
text      what KL is measured on (default MODEL/eval.txt), not what is calibrated on

PITH names the program (build/pith). Budgets as --fit takes them (24M, 1.5G).
"""
import argparse
import json
import os
import shutil
import subprocess
import tempfile

PITH = os.environ.get("PITH", "build/pith")
CACHES = ("bf16", "int8:token", "int6:token", "int5:token", "kivi4", "int4:token", "int3:token", "kivi2", "int2:token")
RECIPES = (("none", None), ("gptq", "int8:channel"), ("gptq", "int4:g32:asym"),
           ("gptq", "int4:g128:asym"), ("gptq", "int3:g32:asym"))
UNITS = {"k": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def pith(*args):
    said = subprocess.run([PITH, *map(str, args), "--quiet"], capture_output=True, text=True)
    return said.stdout if said.returncode == 0 else None, said.stderr.strip()


class Bench:
    def __init__(self, args, work):
        self.args, self.work, self.made = args, work, 0
        shape = self.inspect(args.model)["shape"]
        self.numbers = 2 * shape["layers"] * shape["kv_heads"] * shape["head_dim"] * args.context * args.users

    def inspect(self, path):
        out, why = pith("inspect", path, "--json")
        if out is None:
            raise SystemExit(why)
        return json.loads(out)

    def measure(self, path, kv):
        texts = [x for t in self.args.text for x in ("--text", t)]
        out, why = pith("eval", path, "--baseline", self.args.model, "--kv", kv, *texts, "--max-tokens", self.args.tokens, "--context", 512, "--json")
        if out is None:
            print(f"# {kv}: {why}")
            return None
        return [t["kld_mean"] for t in json.loads(out)["texts"]]

    def quantize(self, *options):
        self.made += 1
        path = os.path.join(self.work, f"m{self.made}")
        out, why = pith("quantize", self.args.model, "-o", path, "--calib-tokens", self.args.tokens, "--seq-len", 512, "--allow-error", 2, *options)
        if out is None:
            print(f"# {' '.join(map(str, options))}: {why}")
            return None
        return path


def show(kind, what, bits, kl):
    print(f"| {kind} | {what} | {bits:.2f} | {' '.join(f'{1000 * k:.2f}' for k in kl)} |", flush=True)


def together(bench, fit):
    path = bench.quantize("-r", "auto", "--fit", fit + ",kv=auto")
    if not path:
        return []
    cache = json.load(open(os.path.join(path, "recipe.json")))["predicted"]["cache"]
    kl = bench.measure(path, f"auto:{cache['bits']}")
    show("together", f"auto, cache of {cache['bits']} bits", bench.inspect(path)["bits_per_weight"], kl)
    shutil.rmtree(path)
    return [kl]


def auto_weights(bench, fit):
    found = []
    for kv in CACHES:
        path = bench.quantize("-r", "auto", "--fit", f"{fit},kv={kv}")
        kl = bench.measure(path, kv) if path else None
        if kl:
            show("auto weights", f"cache {kv}", bench.inspect(path)["bits_per_weight"], kl)
            found.append(kl)
            shutil.rmtree(path)
    return found


def auto_cache(bench, budget, uniform):
    found = []
    for name, path, has in uniform:
        left = 8 * (budget - has["bytes"]) / bench.numbers
        kl = bench.measure(path, f"auto:{min(left, 16):.4f}") if left >= 1 else None
        if kl:
            show("auto cache", f"{name}, cache of {left:.2f} bits", has["bits_per_weight"], kl)
            found.append(kl)
    return found


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model")
    p.add_argument("budget", nargs="+")
    p.add_argument("--context", default=4096, type=int)
    p.add_argument("--users", default=16, type=int)
    p.add_argument("--text", action="append")
    p.add_argument("--tokens", default=8192, type=int)
    args = p.parse_args()
    args.text = args.text or [os.path.join(args.model, "eval.txt")]
    with tempfile.TemporaryDirectory() as work:
        bench = Bench(args, work)
        uniform = []
        for recipe, grid in RECIPES:
            path = bench.quantize("-r", recipe, "--weights", grid) if grid else args.model
            if path:
                uniform.append((f"{recipe} {grid or ''}".strip(), path, bench.inspect(path)))
        for budget in args.budget:
            fit = f"{budget},context={args.context},users={args.users}"
            print(f"\n{fit}\n\n| chosen | what | weights' bits | KL x1000 |\n|---|---|---:|---:|")
            mine = together(bench, fit)
            others = auto_weights(bench, fit) + auto_cache(bench, float(budget[:-1]) * UNITS[budget[-1]], uniform)
            if mine and others:
                best = min(others, key=lambda kl: kl[0])
                print(f"\ntogether / the best other: {' '.join(f'{a / b:.3f}' for a, b in zip(mine[0], best))}", flush=True)


if __name__ == "__main__":
    main()
