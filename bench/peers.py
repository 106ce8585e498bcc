#!/usr/bin/env python3
"""pith's roundings beside those of llm-compressor, auto-round and llama.cpp: the same tokens, one table in Markdown.

    bench/peers.py -p PYTHON [-l BIN] [-m MODEL]... [-t TEXT]... [-f CALIB] [-c TOKENS] [-j THREADS] [-n PIECES] [-b BYTES] [-w WHO]...
                   [-k FOLDER] [GRID]...

PYTHON is that of an environment with torch, llmcompressor and auto-round (0.14 and 0.15 for what docs/techniques.md tells), BIN the
folder of llama.cpp's programs (without, its row is left out). GRID is a key of GRIDS (all), WHO one of PEERS or OURS (all); with -k
checkpoints stay in FOLDER/MODEL, and those that are there are not made again. Everybody calibrates on the first TOKENS (32768) tokens
of CALIB (the text that ships), in windows of 512, or of the model's context where that is less, that begin with its first token
(llama-imatrix: of that text). Rows of trellis codes have the grid's bits or fewer. Where GRID is WEIGHTS+ACTS the inputs of linears
are rounded too, as the checkpoint says, and so they are when it is judged. Every checkpoint is judged by pith: KL from the
unquantized model over PIECES (12) pieces of BYTES (5600) of each TEXT, with Student's intervals (95%); differences, to the best peer
of the grid on that text, are paired piece by piece. Seconds are of the processor, all threads together, with loading and writing;
memory is the largest resident set. PITH names the program.
"""
import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile

import variants

WINDOW = 512
ROUTERS = ["re:.*mlp.gate$"]  # of experts, which nobody quantizes
TEXTS = ["models/probe/eval.txt", "models/probe-moe/rare/knitting.txt"]
INTS = {"int4:g128": (4, 128, True), "int3:g128": (3, 128, True), "int2:g64:asym": (2, 64, False),
        "int4:g64": (4, 64, True), "int4:g32": (4, 32, True), "int3:g32": (3, 32, True)}
GRIDS = {  # what holds it, the trellis code that has its bits or fewer (if one stands beside it), and its bits
    "int4:g128": ("compressed-tensors", 4, 4.125),
    "int3:g128": ("compressed-tensors", 3, 3.125),
    "int2:g64:asym": ("compressed-tensors", 2, 2.28),
    "nvfp4": ("compressed-tensors", 4, 4.5),
    "q4_k": ("gguf", 4, 4.5),
    "q3_k": ("gguf", None, 3.4375),
    "int4:g64": ("compressed-tensors", None, 4.25),
    "int4:g32": ("compressed-tensors", None, 4.5),
    "int3:g32": ("compressed-tensors", None, 3.5),
    "int4:g128+int8:token": ("compressed-tensors", None, 4.125),
    "nvfp4+nvfp4": ("compressed-tensors", None, 4.5),
}
SPELLED = {"nvfp4": "nvfp4:mse"}  # as pith's own recipe of that grid has it: scales by least squares
SCHEMES = {"nvfp4": "NVFP4A16", "nvfp4+nvfp4": "NVFP4"}  # what llm-compressor calls a grid; of integers, its inputs
INPUTS = {"int8:token": {"num_bits": 8, "type": "int", "symmetric": True, "strategy": "token", "dynamic": True}}
PEERS = {  # and the grids that they have
    "llm-compressor RTN": ["nvfp4", "nvfp4+nvfp4"],
    "llm-compressor GPTQ": [*INTS, "int4:g128+int8:token", *SCHEMES],
    "llm-compressor AWQ": [*INTS, "int4:g128+int8:token"],
    "auto-round": list(INTS),
    "auto-round light": list(INTS),  # its recipe of that name: a quarter of the steps, larger ones
    "llama-quantize": ["q4_k", "q3_k"],
}
OURS = {
    "gptq": "-r gptq",
    "awq+gptq": "-r awq+gptq",
    "awq+gptq, all experts": "-r awq+gptq --experts all",  # each expert calibrated on every token, as llm-compressor does
    "qep, all experts": "-r qep --experts all",
    "qep:kron, all experts": "-r qep+yaqa --experts all",
    "gptq:guided": "-r gptq --round gptq:guided",
    "qep:guided": "-r qep --round qep:guided",
    "qep:kron": "-r qep+yaqa",
    "awq+qep:kron": "-r awq+gptq --round qep:kron",
    "learned": "-r autoround",
    "trellis, gptq": "-r gptq",
    "trellis, qep:kron": "-r qep+yaqa",
    "trellis, auto": "-r auto --transform none --round qep:kron",  # that code and the next, together of the grid's bits
}


# --- a peer, in a process of its own ------------------------------------------------------------------------------------------


def by_compressor(how, a, windows):
    import torch
    from datasets import Dataset
    from llmcompressor import oneshot
    from llmcompressor.modifiers.gptq import GPTQModifier
    from llmcompressor.modifiers.quantization import QuantizationModifier
    from llmcompressor.modifiers.transform.awq import AWQModifier
    from llmcompressor.pipelines.cache import IntermediatesCache
    from transformers import AutoModelForCausalLM

    IntermediatesCache.pin_memory = lambda *_: None  # which AWQ asks for, and which needs an accelerator
    options = {"ignore": ["lm_head", *ROUTERS]}
    if a.grid in SCHEMES:
        options |= {"scheme": SCHEMES[a.grid], "targets": ["Linear"]}
    else:
        weights, _, acts = a.grid.partition("+")
        bits, group, symmetric = INTS[weights]
        options["config_groups"] = {"group_0": {"targets": ["Linear"], "input_activations": INPUTS.get(acts), "weights": {
            "num_bits": bits, "type": "int", "symmetric": symmetric, "strategy": "group", "group_size": group}}}
    recipe = {"RTN": lambda: [QuantizationModifier(**options)],
              "GPTQ": lambda: [GPTQModifier(**options)],
              "AWQ": lambda: [AWQModifier(), QuantizationModifier(**options)]}[how]()
    data = Dataset.from_dict({"input_ids": windows, "attention_mask": [[1] * len(w) for w in windows]})
    model = AutoModelForCausalLM.from_pretrained(a.m[0], dtype=torch.float32)
    oneshot(model=model, dataset=data, recipe=recipe, max_seq_length=len(windows[0]), num_calibration_samples=len(windows),
            shuffle_calibration_samples=False, output_dir=a.o)


def by_autoround(how, a, windows):
    import torch
    from auto_round import AutoRound
    from transformers import AutoModelForCausalLM, AutoTokenizer

    bits, group, symmetric = INTS[a.grid]
    model = AutoModelForCausalLM.from_pretrained(a.m[0], dtype=torch.float32)
    data = [{"input_ids": torch.tensor([w])} for w in windows]
    recipe = {"": {}, "light": {"iters": 50, "lr": 5e-3}}[how]
    made = AutoRound(model, AutoTokenizer.from_pretrained(a.m[0]), bits=bits, group_size=group, sym=symmetric, dataset=data,
                     seqlen=len(windows[0]), nsamples=len(windows), device_map="cpu", **recipe,
                     amp=False)  # float32: bfloat16 is slow without AMX
    made.quantize()
    made.save_quantized(a.o, format="auto_gptq")
    if not symmetric:
        as_second_version(a.o, bits)


def as_second_version(folder, bits):
    """Zero points as they are: the first version of the format stores them minus one, where 0 is not to be told from 2^bits."""
    import torch
    from safetensors.torch import load_file, save_file

    tensors, mask = load_file(f"{folder}/model.safetensors"), (1 << bits) - 1
    for name in [n for n in tensors if n.endswith(".qzeros")]:
        words = tensors[name].long() & 0xFFFFFFFF
        made = sum((((words >> at) + 1) & mask) << at for at in range(0, 32, bits))
        tensors[name] = torch.where(made < 1 << 31, made, made - (1 << 32)).to(torch.int32)
    save_file(tensors, f"{folder}/model.safetensors", {"format": "pt"})
    with open(f"{folder}/config.json", encoding="utf-8") as f:
        config = json.load(f)
    config["quantization_config"]["checkpoint_format"] = "gptq_v2"
    with open(f"{folder}/config.json", "w", encoding="utf-8") as f:
        json.dump(config, f)
    os.unlink(f"{folder}/quantization_config.json")


def by_llama(_, a, windows):
    whole, matrix = a.o + ".whole.gguf", a.o + ".matrix.gguf"
    for command in ([variants.PITH, "convert", a.m[0], "-o", whole, "--quiet"],
                    [f"{a.l}/llama-imatrix", "-m", whole, "-f", a.windows.removesuffix(".json") + ".txt", "-o", matrix, "-c",
                     str(len(windows[0])), "--chunks", str(len(windows)), "-t", a.j],
                    [f"{a.l}/llama-quantize", "--pure", "--token-embedding-type", "q6_k", "--imatrix", matrix, whole, a.o,
                     a.grid + "_s", a.j]):
        subprocess.run(command, check=True)
    os.unlink(whole)


def make(a):
    """What a peer's process does."""
    with open(a.windows, encoding="utf-8") as f:
        windows = json.load(f)
    tool, _, how = a.make.partition(" ")
    if tool == "llama-quantize":
        return by_llama(how, a, windows)
    import torch

    torch.set_num_threads(int(a.j))
    return {"llm-compressor": by_compressor, "auto-round": by_autoround}[tool](how, a, windows)


# --- all of them --------------------------------------------------------------------------------------------------------------


CUT = """
import json, sys
from transformers import AutoTokenizer
model, text, count, length, out = sys.argv[1:]
count, length = int(count), int(length) - 1
first = json.load(open(model + "/config.json"))["bos_token_id"]
text = open(text, encoding="utf-8").read()
read = AutoTokenizer.from_pretrained(model)(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
ids, at = read["input_ids"], read["offset_mapping"]
if len(ids) < count * length: sys.exit("the text is too short")
json.dump([[first] + ids[i * length : (i + 1) * length] for i in range(count)], open(out + ".json", "w"))
open(out + ".txt", "w", encoding="utf-8").write(text[: at[count * length - 1][1]])
"""


def measured(command):
    """Processor seconds and peak memory of a process: the file of its output is printed where it fails."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        with tempfile.TemporaryFile() as log:
            done = subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, check=False).returncode
            log.seek(0)
            if done:
                sys.stderr.write(log.read().decode("utf-8", "replace")[-3000:])
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        os.write(write, json.dumps([done, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024]).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as f:
        done, seconds, memory = json.load(f)
    os.waitpid(child, 0)
    return done == 0, seconds, memory


def made_once(out, command):
    """measured(), or what it told of a checkpoint that is kept."""
    if os.path.exists(out + ".json"):
        with open(out + ".json", encoding="utf-8") as f:
            return json.load(f)
    told = measured(command)
    if told[0]:
        with open(out + ".json", "w", encoding="utf-8") as f:
            json.dump(told, f)
    return told


def window(model):
    with open(f"{model}/config.json", encoding="utf-8") as f:
        return min(WINDOW, json.load(f)["max_position_embeddings"])


def candidates(a, model, grid, folder):
    """(name, folder, seconds, MiB) of each checkpoint; a peer that fails is said, and left out."""
    cut = os.path.join(folder, "cut")
    container, width, bits = GRIDS[grid]
    trellis = f"trellis{width}"
    end = ".gguf" if container == "gguf" else ""
    weights, plus, acts = grid.partition("+")
    for name in [n for n, has in PEERS.items() if (not a.w or n in a.w) and grid in has and (a.l or n != "llama-quantize")]:
        out = os.path.join(folder, f"{grid}-{name}".replace(" ", "_").replace(":", "_")) + end
        good, seconds, memory = made_once(out, [a.p, os.path.abspath(__file__), "--make", name, "--grid", grid, "-m", model, "-o",
                                                out, "--windows", cut + ".json", "-j", a.j, *(["-l", a.l] if a.l else [])])
        if good:
            yield name, out, seconds, memory
        else:
            print(f"{name}: failed on {grid}", file=sys.stderr)
    weights = SPELLED.get(weights, weights)
    for name, options in OURS.items():
        coded = name.startswith("trellis")
        if (a.w and name not in a.w) or (coded and not width):
            continue
        chosen = name.endswith("auto")
        out = f"{trellis}-{bits}" if chosen else trellis if coded else weights + plus + acts
        out = os.path.join(folder, f"{out}-pith-{name}".replace(":", "_").replace(", ", "-")) + ("" if coded else end)
        grids = ["--weights", trellis if coded else weights, "--acts", acts or "none"]
        if chosen:
            grids = ["--try", f"{trellis},trellis{width + 1}", "--budget", str(bits)]
        command = [variants.PITH, "quantize", model, "-o", out, *options.split(), *grids, "--container", "exl3" if coded else container,
                   "--calib", cut + ".txt", "--calib-tokens", str(a.c), "--seq-len", str(window(model)), "--threads", a.j, "--quiet"]
        good, seconds, memory = made_once(out, command)
        if not good:
            sys.exit(f"pith {name}: failed on {grid}")
        yield f"pith {name.replace('trellis', trellis)}", out, seconds, memory


def table(a, model, grid, folder, texts):
    made = list(candidates(a, model, grid, folder))
    kl, _ = variants.losses(model, [(m[0], "@" + m[1]) for m in made], texts, folder, a.j, str(window(model)))
    best = {}
    for text, names in texts.items():
        peers = [[row[f] for f in names] for m, row in zip(made, kl) if m[0] in PEERS]
        best[text] = min(peers, key=sum) if peers else None
    for (name, _, seconds, memory), row in zip(made, kl):
        cells = []
        for text, names in texts.items():
            value, half = variants.interval([row[f] for f in names])
            cells.append(f"{value:.5f} ± {half:.5f}")
            if best[text]:
                mean = sum(best[text]) / len(names)
                share, half = variants.interval([(row[f] - x) / mean for f, x in zip(names, best[text])])
                cells.append(f"{1 + share:.3f} ± {half:.3f}")
            else:
                cells.append("-")
        what = f"{os.path.basename(os.path.normpath(model))} | {grid} | {name}"
        print(f"| {what} | {' | '.join(cells)} | {seconds:.0f} | {memory:.0f} |", flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    p.add_argument("-p", help="the peers' Python")
    p.add_argument("-l", help="the folder of llama.cpp's programs")
    p.add_argument("-m", action="append")
    p.add_argument("-t", action="append")
    p.add_argument("-f", default="src/calib/builtin.txt")
    p.add_argument("-c", type=int, default=32768)
    p.add_argument("-j", default="1")
    p.add_argument("-n", type=int, default=12)
    p.add_argument("-b", type=int, default=5600)
    p.add_argument("-w", action="append")
    p.add_argument("-k")
    p.add_argument("-o")
    p.add_argument("--make", help="what a process of PYTHON is asked for")
    p.add_argument("--grid")
    p.add_argument("--windows")
    p.add_argument("grids", nargs="*", default=list(GRIDS))
    a = p.parse_args()
    if a.make:
        return make(a)
    if not a.p:
        p.error("-p PYTHON is needed")
    a.t = a.t or TEXTS
    heads = "".join(f" KL, {os.path.basename(t)} | to the best peer |" for t in a.t)
    print(f"| model | grid | by |{heads} seconds | MiB |\n|---|---|---|" + "---:|" * (2 * len(a.t) + 2), flush=True)
    with tempfile.TemporaryDirectory() as own:
        for model in a.m or ["models/probe"]:
            folder = os.path.join(a.k or own, os.path.basename(os.path.normpath(model)))
            os.makedirs(folder, exist_ok=True)
            cut = [CUT, model, a.f, str(a.c // window(model)), str(window(model)), os.path.join(folder, "cut")]
            subprocess.run([a.p, "-c", *cut], check=True)
            texts = {t: list(variants.pieces(t, a.n, a.b, folder)) for t in a.t}
            for grid in a.grids:
                table(a, model, grid, folder, texts)
    return None


if __name__ == "__main__":
    main()
