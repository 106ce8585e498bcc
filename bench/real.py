#!/usr/bin/env python3
"""What recipes and caches cost published models: KL to the original in bf16, with its 95% interval.

    bench/real.py [-t TEXT] [-m MODEL]... [-p PLACE] [-P PYTHON] [--kind KIND] [ROW...]    measures what is not in PLACE/rows.jsonl yet
    bench/real.py --tables [-p PLACE]    the tables of what is in there

The models are those of tools/real_models.py, their weights as bfloat16 (`pith convert --container dense:bf16`). Calibration is 8,192 tokens of the
text that ships in windows of 512. These only run by their names: ROW 32k, calibrated on 32,768; ROW shrink N, damped by tokens so many times as
much as usual ("qep 32k shrink 0": not); either with "plain ranges" behind it: integer ranges as the grid says, not searched; "awq+gptq PART alone" and
"awq+qep PART in 8 bits", PART as in v_proj.
Judged are the first 4,096 tokens of each of two texts, in windows of 512 (caches: the first 2,048, in one window), each with BOS in front where the
tokenizer adds one (the convention `bos`): TEXT (WikiText-2's test split in the form `wiki.test.raw`, SHA-256 173c87a5...; without -t the beginning
of models/probe/eval.txt), and the last 24,000 bytes of models/probe/eval.txt: tales, talks and sums worked out. Neither is calibrated on.
Seconds are of the processor, for `pith quantize` alone. A row is measured once: a run that was ended goes on, with the rows that lack.
PITH names the program.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import peers
import recipes
from variants import PITH, run

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import real_models  # noqa: E402

EVAL = ROOT / "models/probe/eval.txt"
TAIL = 24000
WINDOWS = {"recipe": 512, "cache": 2048}  # tokens, of which the first is not judged
CALIBRATED = {"smollm2": 8192, "gemma3": 8192}
SHRINK, PLAIN = " shrink ", " plain ranges"
JUDGED = {"recipe": 4096, "cache": 2048}  # tokens of each text
TOGETHER = 7  # models or caches measured beside one pass of the original: what is lost when it is ended

# Recipes, and compositions of bench/recipes.py, in the order of what the docs' tables need most.
RECIPES = ["w8a16", "fp8", "w8a8", "smoothquant", "llm.int8", "rtn", "gptq", "awq+gptq", "nvfp4", "nf4", "hqq", "qep", "q4_k_m", "gptq int3",
           "nvfp4 gptq", "nvfp4-w4a4", "rtn int3", "qep+yaqa", "fp8-block", "fp8-static", "mxfp8", "mxfp6", "q8_0", "w8a8-g32", "smoothrot",
           "smoothrot-online", "quarot-w8a8", "mxfp4", "w4a8", "fp4", "q6_k", "q5_k_m", "q3_k_m", "q2_k", "gguf", "imatrix", "gptq int2", "awq",
           "squeezellm", "quarot", "quarot-w4a16", "mxfp4-w4a4", "mxfp4-rotated", "autoround"]
# Groups of 128 that are named do not fall back where they do not divide rows: SmolLM2's have 576.
GROUPED = {f"{r} {grid}": ["-r", r, "--weights", grid] for grid in ("int3:g64", "int2:g64")
           for r in ("rtn", "gptq", "awq+gptq", "awq+qep", "guided", "qep+yaqa", "awq+qep+yaqa")}
GROUPED |= {f"awq+qep {grid}": ["-r", "awq+qep", "--weights", grid] for grid in ("int3:g64:asym", "int5:g64:asym")}
GUIDED = {"qep guided": ["-r", "qep", "--round", "qep:guided"]}
# Trellis codes, for models whose rows and columns are multiples of 128: not SmolLM2.
CODED = {f"trellis{bits} {how}": ["-r", "exl3", "--weights", f"trellis{bits}", "--round", how] for bits in (4, 3, 2) for how in ("qep:kron", "gptq")}
RECIPES += [*GROUPED, "guided", "yaqa", "awq+qep", "awq+qep+yaqa", *GUIDED, *CODED]
# Others with a limit for tokens of 100 times the median (token_limit), " limited" behind their names.
LIMITED = ["gptq", "qep", "qep+yaqa", "guided", "awq+gptq", "nvfp4 gptq", "yaqa", "w4a8", "gptq int3:g64", "guided int3:g64"]
RECIPES += [f"{row} limited" for row in LIMITED]
# Others calibrated on another number of tokens, in units of 1,024: where the loss no longer falls with it.
COUNTED = [f"{row} {thousands}k" for thousands in (2, 16, 32, 128)
           for row in ("gptq", "awq", "awq+gptq", "awq+qep", "guided", "qep", "qep+yaqa", "awq+qep+yaqa", "qep+yaqa limited", "nvfp4 gptq",
                       "smoothquant", "w4a8", *GROUPED, *CODED)]
RECIPES += COUNTED
# Other tools, in the Python of -P, on the same tokens of the same text.
OTHERS = [f"{tool} {thousands}k" for thousands in (8, 32) for tool in ("llm-compressor GPTQ", "llm-compressor AWQ", "auto-round light")]
# What chooses grids by itself; what it foretold is kept beside what came of it.
CHOSEN = {f"auto {bits}": ["-r", "auto", "--budget", bits] for bits in ("3", "3.3", "4.2", "5")}
CHOSEN["auto 4.2 for pith"] = [*CHOSEN["auto 4.2"], "--for", "pith"]
RECIPES += CHOSEN
# What rounding one part costs alone, and what a run that makes up for drift gains where that part has 8 bits. Also only by their names.
PARTS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
PARTED = {f"awq+gptq {part} alone": ["-r", "awq+gptq", *(x for p in PARTS if p != part for x in ("--override", f"*{p}=bf16"))] for part in PARTS}
PARTED |= {f"awq+qep {part} in 8 bits": ["-r", "awq+qep", "--override", f"*{part}=int8:g64"] for part in PARTS}
RECIPES += PARTED
CACHES = ["bf16", "int8:token", "fp8_e4m3:token", "fp8_e4m3", "q8_0", "kivi4", "kivi2", "int4:g32:asym", "int4:g32", "int4:g32,rotate",
          "q4_0", "turbo4", "k=int8:token,v=int4:g32", "int4:g32,sink=4,recent=128"]
CACHES += ["int4:g32,offset=middle", "int4:g32,rotate,offset=middle", "turbo4,offset=middle", "exllama4", "exllama6", "iq4_nl,rotate,offset=middle",
           "turbo4,offset=middle,recent=32", "k=turbo4,v=turbo3,offset=middle,recent=32", "k=iq4_nl,v=turbo3,rotate=k,offset=middle,recent=32",
           "k=kvquant4,v=kvquant3,recent=32"]
# And those that plans know.
KNOWN = re.findall(r'^PITH_PLAN_CACHE\("([^"]+)"', (ROOT / "src/plan/caches.def").read_text(), re.M)
CACHES += [c for c in KNOWN if c not in CACHES and c != "fp8_e4m3:tensor:static"]  # which --kv fp8_e4m3 is


def pith(*arguments):
    """What the program prints, which must succeed."""
    return json.loads(run(*map(str, arguments), "--json", "--quiet"))


class Kept:
    """The rows measured so far, a line of JSON each."""

    def __init__(self, file):
        self.file = file
        lines = file.read_text().splitlines() if file.exists() else []
        self.rows = [json.loads(line) for line in lines]

    def has(self, model, kind, row, texts):
        return any(r["model"] == model and r["kind"] == kind and r["row"] == row and [t["text"] for t in r["texts"]] == texts for r in self.rows)

    def add(self, row):
        self.rows.append(row)
        with open(self.file, "a") as f:
            f.write(json.dumps(row) + "\n")


def original(name, place):
    """The folder with that model in bfloat16."""
    file, why = real_models.fetch(name, place)
    if why:
        raise SystemExit(why)
    folder = place / (name + "-bf16")
    if not folder.exists():
        pith("convert", file, "-o", folder, "--container", "dense:bf16")
    return folder


def texts_of(options, place):
    tail = place / "eval-tail.txt"
    tail.write_bytes(EVAL.read_bytes()[-TAIL:])
    return [pathlib.Path(options.text or EVAL), tail]


def judged(measured):
    return [{"text": os.path.basename(t["text"]), "tokens": t["tokens"], "kl": t["kld_mean"], "kl_ci95": t["kld_ci95"],
             "nll_delta": t["nll_delta"], "nll_delta_ci95": t["nll_delta_ci95"], "top1": t["top1_agreement"]} for t in measured["texts"]]


def judging(kind, texts):
    """The options that say what is judged."""
    window = WINDOWS[kind]
    most = max(JUDGED[kind] // window, 1) * (window - 1)
    return [*(x for t in texts for x in ("--text", t)), "--convention", "bos", "--context", window, "--max-tokens", most]


def counted(row):
    """"gptq 32k": its name, and 32,768 tokens."""
    name, _, thousands = row.rpartition(" ")
    return name, 1024 * int(thousands[:-1])


def quantized(model, folder, row, out):
    """Processor seconds, or None where the recipe does not take this model: what it says then is printed."""
    shutil.rmtree(out, ignore_errors=True)
    tokens, changed = CALIBRATED[model], {}
    if row.endswith(PLAIN):
        row = row.removesuffix(PLAIN)
        changed["range_search"] = False
    if SHRINK in row:
        row, shrink = row.split(SHRINK)
        changed["shrink"] = float(shrink)
    if row in COUNTED:
        row, tokens = counted(row)
    if row.endswith(" limited"):
        row = row.removesuffix(" limited")
        changed["token_limit"] = 100
    options = {**recipes.compositions(), **GROUPED, **GUIDED, **CODED, **CHOSEN, **PARTED}.get(row, ["-r", row])
    if changed:
        recipe = out.with_suffix(".json")
        recipe.write_text(json.dumps({"base": options[1], **changed}))
        options = ["-r", str(recipe), *options[2:]]
    made, seconds, _ = peers.measured([PITH, "quantize", folder, "-o", out, "--calib-tokens", str(tokens), "--seq-len", "512",
                                       "--quiet", *options])
    return seconds if made else None


def by_other(python, folder, row, out):
    """The same of another tool: its checkpoint, in groups of 128, or of 64 where 128 does not divide the rows."""
    shutil.rmtree(out, ignore_errors=True)
    (tool, tokens), cut = counted(row), str(out) + ".cut"
    width = json.loads((folder / "config.json").read_text())["hidden_size"]
    grid = "int4:g128" if width % 128 == 0 else "int4:g64"
    subprocess.run([python, "-c", peers.CUT, folder, str(ROOT / "src/calib/builtin.txt"), str(tokens // 512), "512", cut], check=True)
    made, seconds, _ = peers.measured([python, peers.__file__, "--make", tool, "--grid", grid, "-m", str(folder), "-o", str(out), "--windows",
                                       cut + ".json", "-j", "2"])
    for end in (".json", ".txt"):
        os.unlink(cut + end)
    return seconds if made else None


def foretold(out):
    """What a model's account says of its forecast: the forecast, and what is measured on held-out and on fitted tokens; {} where there is none."""
    account = out / "pith.json"
    found = json.loads(account.read_text()).get("prediction") if account.exists() else None
    if not found:
        return {}
    return {"foretold": {"kl": found["kld"], "held_out": found["measured"], "held_out_se": found["standard_error"],
                         "fitted": found["fitted"]["measured"]}}


def measure_recipes(model, folder, texts, place, kept, only, python):
    names = [t.name for t in texts]
    wanted = (RECIPES + OTHERS if python else RECIPES) + [r for r in only if SHRINK in r or r.endswith(PLAIN)]
    todo = [r for r in wanted if (r in only if only else r not in [*COUNTED, *OTHERS, *PARTED]) and not kept.has(model, "recipe", r, names)]
    for first in range(0, len(todo), TOGETHER):
        outs = {row: place / ("made-" + row.replace(" ", "-").replace(":", "-")) for row in todo[first : first + TOGETHER]}
        seconds = {row: by_other(python, folder, row, out) if row in OTHERS else quantized(model, folder, row, out) for row, out in outs.items()}
        made = [row for row in outs if seconds[row] is not None]
        if not made:
            continue
        found = pith("compare", folder, *(outs[row] for row in made), *judging("recipe", texts))
        for row, measured in zip(made, found["models"][1:]):
            kept.add({"model": model, "kind": "recipe", "row": row, "bits": measured["bits_per_weight"], "seconds": round(seconds[row], 1),
                      "texts": judged(measured), **foretold(outs[row])})
            shutil.rmtree(outs[row])


def measure_caches(model, folder, texts, kept, only, kind):
    names = [t.name for t in texts]
    wanted = [c for c in CACHES if not only or (c in only and (kind or c not in RECIPES))]
    todo = [c for c in wanted if not kept.has(model, "cache", c, names)]
    for first in range(0, len(todo), TOGETHER):
        caches = [x for c in todo[first : first + TOGETHER] for x in ("--kv", c)]
        found = pith("eval", folder, "--baseline", folder, *caches, *judging("cache", texts))
        for cache, measured in zip(todo[first:], found["models"][1:] if "models" in found else [found]):  # one cache alone is a report of its own
            kept.add({"model": model, "kind": "cache", "row": cache, "bits": measured["kv_bits"], "texts": judged(measured)})


def cell(t):
    low, high = t["kl_ci95"]
    return f"{t['kl']:.3g} ({low:.3g} to {high:.3g})"


def table(kept, kind, model):
    """The rows of one model, by what they lose on the first text."""
    rows = sorted((r for r in kept.rows if r["kind"] == kind and r["model"] == model), key=lambda r: r["texts"][0]["kl"])
    if not rows:
        return
    head = [kind, "bits", *(f"{model}, {t['text']}" for t in rows[0]["texts"]), *(["CPU s"] if kind == "recipe" else [])]
    print("\n| " + " | ".join(head) + " |")
    print("|---|" + "---:|" * (len(head) - 1))
    for r in rows:
        line = [f"`{r['row']}`", f"{r['bits']:.2f}", *map(cell, r["texts"]), *([f"{r['seconds']:.0f}"] if kind == "recipe" else [])]
        print("| " + " | ".join(line) + " |")


def forecasts(kept):
    """What was foretold of one's own choice, what its own check found, and what other texts lose."""
    rows = [r for r in kept.rows if "foretold" in r]
    if not rows:
        return
    print("\n| model, recipe | bits | foretold | held out | fitted | " + " | ".join(f"{t['text']} | / foretold" for t in rows[0]["texts"]) + " |")
    print("|---|" + "---:|" * (4 + 2 * len(rows[0]["texts"])))
    for r in rows:
        f = r["foretold"]
        texts = [f"{cell(t)} | {t['kl'] / f['kl']:.2f}" for t in r["texts"]]
        print(f"| {r['model']}, `{r['row']}` | {r['bits']:.2f} | {f['kl']:.3g} | {f['held_out']:.3g} ± {f['held_out_se']:.1g} | {f['fitted']:.3g} | "
              + " | ".join(texts) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("-t", "--text", help="the first text (the beginning of models/probe/eval.txt)")
    parser.add_argument("-m", "--model", action="append", choices=list(real_models.MODELS))
    parser.add_argument("-P", "--python", help="of other tools (bench/peers.py): their rows too")
    parser.add_argument("-p", "--place", type=pathlib.Path, default=ROOT / "build/real")
    parser.add_argument("--kind", choices=("recipe", "cache"), help="what ROW names, where both have it (recipe)")
    parser.add_argument("--tables", action="store_true", help="print the tables of what was measured, and measure nothing")
    parser.add_argument("row", nargs="*", help="only these")
    options = parser.parse_args()
    if not options.python and set(options.row) & set(OTHERS):
        parser.error("rows of other tools need -P PYTHON")
    options.place.mkdir(parents=True, exist_ok=True)
    kept = Kept(options.place / "rows.jsonl")
    if not options.tables:
        texts = texts_of(options, options.place)
        for model in options.model or real_models.MODELS:
            folder = original(model, options.place)
            if options.kind != "cache":
                measure_recipes(model, folder, texts, options.place, kept, options.row, options.python)
            if options.kind != "recipe":
                measure_caches(model, folder, texts, kept, options.row, options.kind)
    for kind in ("recipe", "cache"):
        for model in real_models.MODELS:
            table(kept, kind, model)
    forecasts(kept)


if __name__ == "__main__":
    main()
