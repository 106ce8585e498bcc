#!/usr/bin/env python3
"""What AutoRound makes of a block of the tiny models of tests/golden/model: the losses that our learned
rounding is held against, on the same weights, inputs and settings.

Quantizing a linear (WrapperLinear: offsets, ranges, straight-through rounding), the optimizer (SignSGD)
and putting the best parameters back are auto-round's own code; the loop around them is that of its
SignRoundQuantizer.quantize_block: mean squared error against the float block, times 1000, LinearLR from
lr = 1 / iterations to 0, the parameters of the least loss kept. Every step sees all samples, so that no
order of samples makes a difference.

Writes autoround.json: for each case the mean squared error before (offsets 0, ranges whole) and after.
The tiny blocks have so few weights that the last digit of a sum decides between ends some percent apart;
block 0 of the model that ships does not.

Usage: make_autoround.py [output folder]
"""
import json, os, shutil, sys, tempfile
import numpy as np
import torch
from transformers import AutoModelForCausalLM
from auto_round.algorithms.quantization.sign_round.sign_sgd import SignSGD
from auto_round.compressors.utils import collect_best_params
from auto_round.wrapper import unwrapper_block, wrapper_block

HERE = os.path.dirname(os.path.abspath(__file__))
MODELS = os.path.join(HERE, "..", "model")
PROBE = os.path.join(HERE, "..", "..", "..", "models", "probe")
OUT = sys.argv[1] if len(sys.argv) > 1 else HERE
SAMPLES, TOKENS, ITERATIONS = 16, 24, 200
CASES = [("llama_gqa_tied", bits, group, sym) for bits in (2, 3, 4) for group in (16, -1)
         for sym in (True, False)] + [("qwen3", 3, 16, True), ("llama_bias", 3, 16, False),
                                         ("probe", 2, 64, False), ("probe", 3, 128, True),
                                         ("probe", 4, 128, True)]


def load(case):
    if case == "probe":
        return AutoModelForCausalLM.from_pretrained(PROBE, dtype=torch.float32,
                                                    attn_implementation="eager")
    with open(os.path.join(MODELS, case + ".json")) as f:
        golden = json.load(f)
    with tempfile.TemporaryDirectory() as d:
        shutil.copy(os.path.join(MODELS, "weights", golden["weights"] + ".safetensors"),
                    os.path.join(d, "model.safetensors"))
        with open(os.path.join(d, "config.json"), "w") as f:
            json.dump(golden["config"], f)
        return AutoModelForCausalLM.from_pretrained(d, dtype=torch.float32,
                                                    attn_implementation="eager")


def inputs(model):
    """Rows of the probe's embedding; for the others the numbers of tests/unit/quant/oracle.h's lcg_normal() from seed 7."""
    hidden = model.config.hidden_size
    if model.config.vocab_size > 1000:
        ids = [(7 * i * i + 3 * i + 1) % 4000 for i in range(SAMPLES * TOKENS)]
        with torch.no_grad():
            return model.model.embed_tokens(torch.tensor(ids)).reshape(SAMPLES, TOKENS, hidden)
    state, out = 7, np.empty(SAMPLES * TOKENS * hidden, np.float32)
    for i in range(out.size):
        total = -131070
        for _ in range(4):
            state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
            total += state >> 48
        out[i] = np.float32(total) * np.float32(1.0 / 37837.0)
    return torch.from_numpy(out.reshape(SAMPLES, TOKENS, hidden))


def prepare(block, bits, group, sym):
    for m in block.modules():
        if isinstance(m, torch.nn.Linear):
            for key, value in dict(bits=bits, group_size=group, sym=sym, data_type="int",
                                   act_bits=16, act_dynamic=True, act_sym=True, act_group_size=-1,
                                   act_data_type="int", scale_dtype=torch.float16).items():
                setattr(m, key, value)


def run(case, bits, group, sym):
    model = load(case)
    block, x = model.model.layers[0], inputs(model)
    positions = torch.arange(TOKENS)[None]
    rope = model.model.rotary_emb(x, positions)
    mask = torch.full((TOKENS, TOKENS), float("-inf")).triu(1)[None, None]

    def forward():
        y = block(x, attention_mask=mask, position_ids=positions, position_embeddings=rope)
        return y[0] if isinstance(y, tuple) else y

    with torch.no_grad():
        target = forward()
    prepare(block, bits, group, sym)
    wrapper_block(block, True, False, enable_torch_compile=False, device="cpu", iters=ITERATIONS)
    rounds, ranges = [], []
    for m in block.modules():
        if hasattr(m, "orig_layer"):
            for key, p in m.params.items():
                (ranges if "min" in key or "max" in key else rounds).append(p)
    lr = torch.tensor(1.0 / ITERATIONS)
    optimizer = SignSGD([{"params": rounds, "lr": lr.clone()}, {"params": ranges, "lr": lr.clone()}],
                        lr=lr, weight_decay=0, momentum=0.0)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=1.0, end_factor=0.0,
                                                 total_iters=ITERATIONS)
    best, before, params = float("inf"), None, {}
    for _ in range(ITERATIONS):
        loss = torch.nn.functional.mse_loss(forward(), target)
        value = loss.item()
        before = value if before is None else before
        if value < best:
            best, params = value, collect_best_params(block)
        (loss * 1000).backward()
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
    with torch.no_grad():
        unwrapper_block(block, params)
        after = torch.nn.functional.mse_loss(forward(), target).item()
    assert abs(after - best) <= 1e-5 * best, (after, best)
    print(f"{case:16} int{bits} group {group:3} {'sym ' if sym else 'asym'} {before:.6g} -> {after:.6g}")
    return {"model": case, "bits": bits, "group": max(group, 0), "asym": not sym, "before": before,
            "after": after}


def main():
    torch.manual_seed(0)
    torch.set_num_threads(2)
    cases = [run(*c) for c in CASES]
    with open(os.path.join(OUT, "autoround.json"), "w") as f:
        json.dump({"samples": SAMPLES, "tokens": TOKENS, "iterations": ITERATIONS, "cases": cases}, f,
                  indent=1)
        f.write("\n")


main()
