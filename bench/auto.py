#!/usr/bin/env python3
"""-r auto against uniform recipes of the same bits, and its predictions against what is measured.

    bench/auto.py MODEL [--budgets 3,3.5,4,4.5,5,6] [--container compressed-tensors|gguf] [--text FILE]... [--random 30]
                  [--llama LLAMA_QUANTIZE LLAMA_IMATRIX F16_GGUF] [--types Q3_K_M,Q4_K_M,Q5_K_M] [--tries GRID,...] [--tokens 16384] [--measure TOKENS] [--for ENGINE]... [--calib FILE] [--work FOLDER]

text      what KL is measured on (default MODEL/eval.txt), not what is calibrated on
random    so many assignments drawn at random, predicted and measured: rank correlation (Spearman), ratios
llama     also Q3_K_M, Q4_K_M and Q5_K_M (types) by llama-quantize with an importance matrix, and auto at their bits
tries     what auto chooses from (default: its own)
tokens    of calibration, and of each text (measure: of these another number)
calib     text to calibrate on (default: the one that ships)
for       a row each: what auto is told that it is for ("none": nothing); pith and transformers let each linear have its own grid

PITH names the program (build/pith). Bits are those of the blocks' linears, scales counted.
"""
import argparse
import itertools
import json
import os
import random
import shutil
import subprocess
import tempfile

PITH = os.environ.get("PITH", "build/pith")
UNIFORM = {
    "compressed-tensors": [("gptq", g) for g in ("int2:g32:asym", "int3:g128:asym", "int3:g64:asym", "int3:g32:asym", "int4:channel:asym",
                                                  "int4:g128:asym", "int4:g64:asym", "int4:g32:asym", "int5:g128:asym", "int6:g128:asym")]
    + [("awq+gptq", g) for g in ("int3:g128:asym", "int3:g64:asym", "int3:g32:asym", "int4:g128:asym", "int4:g64:asym", "int4:g32:asym")],
    "gguf": [("gguf", g) for g in ("q2_k", "q3_k", "q4_k", "q5_k", "q6_k", "iq4_xs")]
    + [(r, None) for r in ("q2_k", "q3_k_s", "q3_k_m", "q3_k_l", "q4_k_s", "q4_k_m", "q5_k_s", "q5_k_m")]
    + [("imatrix", g) for g in ("q3_k", "q4_k", "q5_k")],
}


def pith(*args):
    said = subprocess.run([PITH, *map(str, args), "--quiet"], capture_output=True, text=True)
    return said.stdout if said.returncode == 0 else None, said.stderr.strip()


class Bench:
    def __init__(self, args, work):
        self.args, self.work, self.made, self.bytes = args, work, 0, None
        self.calib = ("--calib", args.calib) if args.calib else ()

    def measure(self, path):
        """(bits a weight, [KL of each text])"""
        texts = [x for t in self.args.text for x in ("--text", t)]
        out, why = pith("eval", path, "--baseline", self.args.model, *texts, "--max-tokens", self.args.measure or self.args.tokens, "--context", 512, "--json")
        if out is None:
            raise SystemExit(why)
        j = json.loads(out)
        self.bytes = os.path.getsize(path) if os.path.isfile(path) else None
        return j["bits_per_weight"], [t["kld_mean"] for t in j["texts"]]

    def quantize(self, *options):
        """(bits, KLs, the recipe found) or None when it cannot be made"""
        self.made += 1
        path = os.path.join(self.work, f"m{self.made}" + (".gguf" if self.args.container == "gguf" else ""))
        out, why = pith("quantize", self.args.model, *self.calib, "-o", path, "--container", self.args.container, "--calib-tokens", self.args.tokens,
                        "--seq-len", 512, "--allow-error", 2, *options)
        if out is None:
            print(f"# {' '.join(map(str, options))}: {why}")
            return None
        recipe = path + ".recipe.json" if self.args.container == "gguf" else os.path.join(path, "recipe.json")
        found = json.load(open(recipe)) if os.path.exists(recipe) else None
        result = *self.measure(path), found
        shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)
        return result

    def auto(self, budget, target="none"):
        tries = ("--try", self.args.tries) if self.args.tries else ()
        return self.quantize("-r", "auto", "--budget", budget, *tries, *(() if target == "none" else ("--for", target)))


def budgets(bench, args):
    uniform = []
    for recipe, grid in UNIFORM[args.container]:
        made = bench.quantize("-r", recipe, *(("--weights", grid) if grid else ()))
        if made:
            uniform.append((made[0], made[1], f"{recipe} {grid or ''}".strip()))
            print(f"# {uniform[-1][2]}: {made[0]:.3f} bits, KL {' '.join(f'{1000 * k:.3f}' for k in made[1])}", flush=True)
    print("| budget | for | auto: bits | predicted KL x1000 | measured | best uniform of no more bits | its bits | its KL | auto / uniform |")
    print("|---:|---|---:|---:|---:|---|---:|---:|---:|")
    for budget, target in itertools.product(args.budgets, args.targets):
        made = bench.auto(budget, target)
        if not made:
            continue
        bits, kl, recipe = made
        said = " ".join(f"{1000 * k:.2f}" for k in kl)
        best = min((u for u in uniform if u[0] <= max(bits, float(budget)) + 1e-9), key=lambda u: u[1][0], default=None)
        line = f"| {budget} | {target} | {bits:.3f} | {1000 * recipe['predicted']['kld']:.2f} | {said} |"
        if best:
            line += f" {best[2]} | {best[0]:.3f} | {' '.join(f'{1000 * k:.2f}' for k in best[1])} | " + \
                " ".join(f"{a / b:.2f}" for a, b in zip(kl, best[1])) + " |"
        print(line, flush=True)


def ranks(values):
    order = sorted(range(len(values)), key=values.__getitem__)
    place = [0] * len(values)
    for i, at in enumerate(order):
        place[at] = i
    return place


def correlation(a, b):
    a, b = ranks(a), ranks(b)
    n = len(a)
    return 1 - 6 * sum((x - y) ** 2 for x, y in zip(a, b)) / (n * (n * n - 1))


def curve_at(router, variance):
    """What a variance of a router's margins costs: straight between the points, from 0 on, level behind the last."""
    before = (0, 0)
    for point in zip(router["variance"], router["kld"]):
        if variance < point[0]:
            return before[1] + (point[1] - before[1]) * (variance - before[0]) / (point[0] - before[0])
        before = point
    return before[1]


def together(rows, routers):
    """What several changes of pith sensitivity cost together: where there are routers, what they cost with all choices of experts as
    they are adds up, and so do the variances that they give each router's margins."""
    if not routers:
        return sum(r["kld"] for r in rows)
    return sum(r["fixed"] for r in rows) + sum(curve_at(c, sum(r["sway"] for r in rows if r["from"] <= i)) for i, c in enumerate(routers))


def at_random(bench, args):
    out, why = pith("sensitivity", args.model, *bench.calib, "--container", args.container, "--calib-tokens", args.tokens, "--seq-len", 512, "--json",
                    "--kv", "none", "--acts", "none", "--work", os.path.join(bench.work, "sense"), *(("--try", args.tries) if args.tries else ()))
    if out is None:
        raise SystemExit(why)
    j = json.loads(out)
    cells = {}
    for r in j["rows"]:
        cells.setdefault(r["part"], {})[r["grid"]] = r
    rng = random.Random(1)
    predicted, measured = [], []
    for i in range(args.random):
        few = rng.sample(j["grids"], min(len(j["grids"]), rng.choice((2, 3))))
        linears = {part: rng.choice([g for g in few if g in row] or list(row)) for part, row in cells.items()}
        recipe = os.path.join(bench.work, f"r{i}.json")
        with open(recipe, "w", encoding="utf-8") as f:
            json.dump({"base": "gguf" if args.container == "gguf" else "gptq", "linears": linears}, f)
        made = bench.quantize("-r", recipe)
        if not made:
            continue
        predicted.append(together([cells[p][g] for p, g in linears.items()], j.get("routers", [])))
        measured.append(made[1])
        print(f"# {predicted[-1]:.5f} {' '.join(f'{k:.5f}' for k in made[1])}", flush=True)
    for t, text in enumerate(args.text):
        kl = [m[t] for m in measured]
        ratio = sorted(k / p for k, p in zip(kl, predicted))
        print(f"{os.path.basename(text)}: {len(kl)} random assignments: rank correlation {correlation(predicted, kl):.3f}, measured / predicted "
              f"{ratio[0]:.2f} to {ratio[-1]:.2f}, median {ratio[len(ratio) // 2]:.2f}")


def beside_llama(bench, args):
    quantize, imatrix, f16 = args.llama
    matrix = os.path.join(bench.work, "imatrix.gguf")
    text = os.path.join(bench.work, "calib.txt")
    shutil.copy("src/calib/builtin.txt", text)
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "check": True}
    subprocess.run([imatrix, "-m", f16, "-f", text, "-o", matrix, "-c", "512", "--chunks", str(args.tokens // 512)], **quiet)
    print("| type | llama-quantize: bits, bytes | KL x1000 | auto: bits, bytes | KL x1000 | ratio |\n|---|---:|---:|---:|---:|---:|")
    for kind in args.types.split(","):
        path = os.path.join(bench.work, kind + ".gguf")
        subprocess.run([quantize, "--imatrix", matrix, f16, path, kind], **quiet)
        bits, kl = bench.measure(path)
        theirs = bench.bytes
        os.remove(path)
        made = bench.auto(int(bits * 1000) / 1000)
        print(f"| {kind} | {bits:.3f}, {theirs} | {' '.join(f'{1000 * k:.2f}' for k in kl)} | {made[0]:.3f}, {bench.bytes} | "
              f"{' '.join(f'{1000 * k:.2f}' for k in made[1])} | {' '.join(f'{a / b:.2f}' for a, b in zip(made[1], kl))} |", flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model")
    p.add_argument("--budgets", default="3,3.5,4,4.5,5,6", type=lambda t: t.split(",") if t else [])
    p.add_argument("--container", default="compressed-tensors", choices=sorted(UNIFORM))
    p.add_argument("--text", action="append")
    p.add_argument("--random", default=0, type=int)
    p.add_argument("--llama", nargs=3, metavar=("LLAMA_QUANTIZE", "LLAMA_IMATRIX", "F16_GGUF"))
    p.add_argument("--types", default="Q3_K_M,Q4_K_M,Q5_K_M")
    p.add_argument("--tokens", default=16384, type=int)
    p.add_argument("--measure", type=int)
    p.add_argument("--tries", default="")
    p.add_argument("--for", action="append", dest="targets")
    p.add_argument("--calib")
    p.add_argument("--work")
    args = p.parse_args()
    args.targets = args.targets or ["none"]
    args.text = args.text or [os.path.join(args.model, "eval.txt")]
    with tempfile.TemporaryDirectory() as made:
        bench = Bench(args, args.work or made)
        if args.budgets:
            budgets(bench, args)
        if args.random:
            at_random(bench, args)
        if args.llama:
            beside_llama(bench, args)


if __name__ == "__main__":
    main()
