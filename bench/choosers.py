#!/usr/bin/env python3
"""-r auto against auto-round's AutoScheme, which chooses a format for each linear, too, on a CPU.

    bench/choosers.py MODEL [--bits 4.5] [--text FILE]... [--grids int3:g128,int4:g128,int8:g128] [--samples 8] [--tokens 16384] [--work FOLDER]

AutoScheme chooses twice: with what engines hold as one matrix alike, as pith does, and each linear apart. What it chose is rounded by
pith's GPTQ, and so is what pith finds from the same grids within the bits that this took (--transform none --round gptq); then as
pith does it by default. So the choices are compared, not the rounding. Run by a Python that has torch, transformers and auto-round;
PITH names the program (build/pith).
"""
import argparse
import json
import os
import tempfile

from auto import Bench

CALIB = "src/calib/builtin.txt"
FUSED = [["q_proj", "k_proj", "v_proj"], ["gate_proj", "up_proj"]]


def by_auto_round(args, bits, grids, fused, work):
    """{linear: grid}"""
    import torch
    from auto_round.auto_scheme.gen_auto_scheme import AutoScheme, GenScheme
    from transformers import AutoModelForCausalLM, AutoTokenizer
    model, tokenizer = AutoModelForCausalLM.from_pretrained(args.model, dtype=torch.float32), AutoTokenizer.from_pretrained(args.model)
    with open(CALIB, encoding="utf-8") as f:
        ids = tokenizer(f.read(), return_tensors="pt")["input_ids"][0]
    data = os.path.join(work, "calib.json")
    with open(data, "w", encoding="utf-8") as f:
        json.dump([{"text": tokenizer.decode(ids[i * 256:(i + 1) * 256])} for i in range(args.samples)], f)
    scheme = AutoScheme(avg_bits=bits, options=[f"W{g[3]}A16" for g in grids], shared_layers=fused, nsamples=args.samples, seqlen=128,
                        dataset=data, batch_size=1, device_map="cpu", low_gpu_mem_usage=False, low_cpu_mem_usage=False)
    linears = [n for n, m in model.named_modules() if isinstance(m, torch.nn.Linear) and "lm_head" not in n]
    found = GenScheme(scheme, model, linears, {}, dataset=data, device_map="cpu", tokenizer=tokenizer,
                      enable_torch_compile=False).get_layer_config()
    return {n: f"int{c['bits']}:g128" if c["bits"] < 16 else "none" for n, c in found.items()}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model")
    p.add_argument("--bits", default="4.5")
    p.add_argument("--text", action="append")
    p.add_argument("--grids", default="int3:g128,int4:g128,int8:g128")
    p.add_argument("--samples", type=int, default=8)
    p.add_argument("--tokens", type=int, default=16384)
    p.add_argument("--measure", type=int)
    p.add_argument("--work")
    args = p.parse_args()
    args.text = args.text or [os.path.join(args.model, "eval.txt")]
    args.container, grids = "compressed-tensors", args.grids.split(",")
    print("| AutoScheme | asked | bits | its KL x1000 | auto of these bits | ratio | by default | ratio |\n|---|---:|---:|---:|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as made:
        work = args.work or made
        bench = Bench(args, work)
        for asked in args.bits.split(","):
            for name, fused in (("alike where fused", FUSED), ("each apart", None)):
                recipe = os.path.join(work, "chosen.json")
                with open(recipe, "w", encoding="utf-8") as f:
                    json.dump({"base": "gptq", "linears": by_auto_round(args, float(asked), grids, fused, work)}, f)
                bits, kl, _ = bench.quantize("-r", recipe)
                within = ["-r", "auto", "--budget", f"{bits + 1e-6:.6f}", "--try", args.grids, *(() if fused else ("--for", "pith"))]
                plain, usual = bench.quantize(*within, "--transform", "none", "--round", "gptq")[1], bench.quantize(*within)[1]
                columns = [1000 * k for k in kl], [1000 * k for k in plain], [a / b for a, b in zip(plain, kl)], \
                    [1000 * k for k in usual], [a / b for a, b in zip(usual, kl)]
                print(f"| {name} | {asked} | {bits:.3f} | {' | '.join(' '.join(f'{x:.2f}' for x in c) for c in columns)} |", flush=True)


if __name__ == "__main__":
    main()
