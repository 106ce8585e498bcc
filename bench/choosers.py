#!/usr/bin/env python3
"""-r auto against others that choose a format for each linear, too, on a CPU: auto-round's AutoScheme, ModelOpt's auto_quantize.

    bench/choosers.py MODEL [--who auto-round|modelopt|modelopt-kl] [--bits 4.5,...] [--text FILE]... [--grids int3:g128,int4:g128,int8:g128]
                      [--samples 8] [--tokens 16384] [--work FOLDER]

AutoScheme chooses twice: with what engines hold as one matrix alike, as pith does, and each linear apart; ModelOpt once, with them alike,
by its gradients (modelopt-kl: by the KL of each single change), all samples for calibration and for scores. What it chose is rounded
by pith's GPTQ, and so is what pith finds from the same grids within the bits that this took (--transform none --round gptq); then as
pith does it by default. So the choices are compared, not the rounding. Run by a Python that has torch, transformers and auto-round or
nvidia-modelopt; PITH names the program (build/pith).
"""
import argparse
import itertools
import json
import os
import tempfile

from auto import Bench

CALIB = "src/calib/builtin.txt"
FUSED = [["q_proj", "k_proj", "v_proj"], ["gate_proj", "up_proj"]]


def samples_of(args, tokenizer):
    """So many windows of 256 tokens of the text that ships."""
    with open(CALIB, encoding="utf-8") as f:
        ids = tokenizer(f.read(), return_tensors="pt")["input_ids"][0]
    return [ids[i * 256:(i + 1) * 256] for i in range(args.samples)]


def load(args):
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    return AutoModelForCausalLM.from_pretrained(args.model, dtype=torch.float32), AutoTokenizer.from_pretrained(args.model)


def by_auto_round(args, bits, grids, fused, work):
    """{linear: grid}"""
    import torch
    from auto_round.auto_scheme.gen_auto_scheme import AutoScheme, GenScheme
    model, tokenizer = load(args)
    data = os.path.join(work, "calib.json")
    with open(data, "w", encoding="utf-8") as f:
        json.dump([{"text": tokenizer.decode(ids)} for ids in samples_of(args, tokenizer)], f)
    scheme = AutoScheme(avg_bits=bits, options=[f"W{g[3]}A16" for g in grids], shared_layers=fused, nsamples=args.samples, seqlen=128,
                        dataset=data, batch_size=1, device_map="cpu", low_gpu_mem_usage=False, low_cpu_mem_usage=False)
    linears = [n for n, m in model.named_modules() if isinstance(m, torch.nn.Linear) and "lm_head" not in n]
    found = GenScheme(scheme, model, linears, {}, dataset=data, device_map="cpu", tokenizer=tokenizer,
                      enable_torch_compile=False).get_layer_config()
    return {n: f"int{c['bits']}:g128" if c["bits"] < 16 else "none" for n, c in found.items()}


def by_modelopt(args, bits, grids, method):
    """{linear: grid}; scales (16 bits for 128 numbers) count in a format's bits, and the head, which stays as it is, in ModelOpt's mean."""
    import modelopt.torch.quantization as mtq
    import torch
    model, tokenizer = load(args)
    formats = [{"quant_cfg": [{"quantizer_name": "*", "enable": False},
                              {"quantizer_name": "*weight_quantizer", "cfg": {"num_bits": int(g[3]), "block_sizes": {-1: 128, "type": "static"}}}],
                "algorithm": "max", "effective_bits": int(g[3]) + 0.125} for g in grids]
    sizes = {n: m.weight.numel() for n, m in model.named_modules() if isinstance(m, torch.nn.Linear)}
    head = sum(size for n, size in sizes.items() if "lm_head" in n) / sum(sizes.values())
    data = [ids[None] for ids in samples_of(args, tokenizer)]
    asked = {"gradient": {"forward_step": lambda m, ids: m(input_ids=ids, labels=ids), "loss_func": lambda out, _: out.loss},
             "kl_div": {"forward_step": lambda m, ids: m(input_ids=ids).logits}}[method]
    found = mtq.auto_quantize(model, constraints={"effective_bits": bits * (1 - head) + 16 * head}, quantization_formats=formats, data_loader=data,
                              disabled_layers="*lm_head*", num_calib_steps=args.samples, num_score_steps=args.samples, method=method,
                              **asked)[1]["best"]["recipe"]
    by_bits = {int(g[3]): g for g in grids}
    chosen = {}
    for name, recipe in ((n, r) for n, r in found.items() if "lm_head" not in n):
        linear = name.removesuffix(".quant_recipe")
        chosen[linear] = "none" if recipe.compression == 1 else by_bits[int(16 * recipe.compression)]
    rules = {"q_proj": ("k_proj", "v_proj"), "gate_proj": ("up_proj",)}
    for linear, grid in list(chosen.items()):
        for first, others in rules.items():
            if linear.endswith(first):
                chosen.update({linear.replace(first, o): grid for o in others})
    return chosen


def chosen_by(args, who, bits, grids, work):
    """[(what it is called, {linear: grid}, what is alike)]"""
    if who == "auto-round":
        return [(f"AutoScheme, {name}", by_auto_round(args, bits, grids, fused, work), fused)
                for name, fused in (("alike where fused", FUSED), ("each apart", None))]
    method = "kl_div" if who == "modelopt-kl" else "gradient"
    return [(f"auto_quantize, {method}", by_modelopt(args, bits, grids, method), FUSED)]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model")
    p.add_argument("--who", action="append", choices=("auto-round", "modelopt", "modelopt-kl"))
    p.add_argument("--bits", default="4.5")
    p.add_argument("--text", action="append")
    p.add_argument("--grids", default="int3:g128,int4:g128,int8:g128")
    p.add_argument("--samples", type=int, default=8)
    p.add_argument("--tokens", type=int, default=16384)
    p.add_argument("--measure", type=int)
    p.add_argument("--work")
    args = p.parse_args()
    args.who = args.who or ["auto-round"]
    args.text = args.text or [os.path.join(args.model, "eval.txt")]
    args.container, grids = "compressed-tensors", args.grids.split(",")
    print("| chosen by | asked | bits | its KL x1000 | auto of these bits | ratio | by default | ratio |\n|---|---:|---:|---:|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as made:
        work = args.work or made
        bench = Bench(args, work)
        for who, asked in itertools.product(args.who, args.bits.split(",")):
            for name, linears, fused in chosen_by(args, who, float(asked), grids, work):
                recipe = os.path.join(work, "chosen.json")
                with open(recipe, "w", encoding="utf-8") as f:
                    json.dump({"base": "gptq", "linears": linears}, f)
                bits, kl, _ = bench.quantize("-r", recipe)
                within = ["-r", "auto", "--budget", f"{bits + 1e-6:.6f}", "--try", args.grids, *(() if fused else ("--for", "pith"))]
                plain, usual = bench.quantize(*within, "--transform", "none", "--round", "gptq")[1], bench.quantize(*within)[1]
                columns = [1000 * k for k in kl], [1000 * k for k in plain], [a / b for a, b in zip(plain, kl)], \
                    [1000 * k for k in usual], [a / b for a, b in zip(usual, kl)]
                print(f"| {name} | {asked} | {bits:.3f} | {' | '.join(' '.join(f'{x:.2f}' for x in c) for c in columns)} |", flush=True)


if __name__ == "__main__":
    main()
