#!/usr/bin/env python3
"""Tiny random models of the architectures that go out as GGUF: pith's file says what the folder says, and llama.cpp
computes from it what transformers and pith compute from the folder.

    gguf_archs.py FOLDER [CASE]...        works in FOLDER; PITH names the program

LLAMA_CPP names a folder with llama-perplexity and llama-quantize; without it the files are held against the folders alone.
LLAMA_SOURCE names llama.cpp's sources: pith then reads what their converter makes of the same folders.
"""
import json
import os
import re
import shutil
import struct
import subprocess
import sys

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.utils import logging

PITH = os.environ["PITH"]
LLAMA = os.environ.get("LLAMA_CPP")
SOURCE = os.environ.get("LLAMA_SOURCE")
# Runs llama.cpp's converter, which does not know the probe's tokenizer by its hash, nor has transformers a class of it.
CONVERT = """
import sys
sys.path.insert(0, sys.argv.pop(1))
sys.path.insert(0, sys.path[0] + "/gguf-py")
import convert_hf_to_gguf as c
import transformers
from conversion.base import TextModel
transformers.AutoTokenizer = transformers.PreTrainedTokenizerFast
TextModel.get_vocab_base_pre = lambda self, tokenizer: "llama-bpe"
TextModel._set_vocab_sentencepiece = lambda self, *args: self._set_vocab_gpt2()
c.main()
"""
PROBE, CONTEXT, CHARACTERS = "models/probe", 128, 2600
COMMON = dict(vocab_size=4096, hidden_size=64, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2,
              max_position_embeddings=512, bos_token_id=4094, eos_token_id=4095, pad_token_id=None,
              intermediate_size=96, tie_word_embeddings=False)
YARN = dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=64, mscale=0.7,
            mscale_all_dim=0.7, beta_fast=32, beta_slow=1)
LATENT = dict(num_key_value_heads=4, kv_lora_rank=64, qk_nope_head_dim=32, qk_rope_head_dim=32, v_head_dim=32,
              moe_intermediate_size=32, n_routed_experts=8, num_experts_per_tok=3, first_k_dense_replace=1)
EXPERTS = dict(moe_intermediate_size=32, num_experts=8, num_experts_per_tok=3)
NEXT = dict(head_dim=32, linear_conv_kernel_dim=4, linear_key_head_dim=32, linear_value_head_dim=32,
            linear_num_key_heads=2, linear_num_value_heads=4, shared_expert_intermediate_size=64)

HYBRID = dict(embedding_multiplier=3.0, attention_multiplier=0.2, residual_multiplier=0.4, logits_scaling=2.0,
              layer_types=["mamba", "mamba", "attention", "mamba"], mamba_n_heads=8, mamba_d_head=16, mamba_n_groups=2,
              mamba_d_state=32, max_position_embeddings=1048576)

CASES = {
    "llama": ("llama", dict(attention_bias=True)),
    "deepseek_v2": ("deepseek_v2", dict(LATENT, q_lora_rank=32, n_shared_experts=2, topk_method="greedy",
                                        routed_scaling_factor=1.7)),
    "deepseek_v2_lite": ("deepseek_v2", dict(LATENT, q_lora_rank=None, n_shared_experts=2, topk_method="greedy",
                                             rope_parameters=YARN)),
    "deepseek_v3": ("deepseek_v3", dict(LATENT, q_lora_rank=32, n_shared_experts=1, n_group=4, topk_group=2,
                                        routed_scaling_factor=2.5, norm_topk_prob=True, rope_parameters=YARN)),
    "gemma2": ("gemma2", dict(head_dim=32, query_pre_attn_scalar=32, sliding_window=32, tie_word_embeddings=True)),
    "cohere": ("cohere", dict(tie_word_embeddings=True, logit_scale=0.3)),
    "cohere2": ("cohere2", dict(head_dim=16, sliding_window=32, tie_word_embeddings=True, logit_scale=0.3)),
    "glm4": ("glm4", dict(head_dim=32, attention_bias=True)),
    "glm4_moe": ("glm4_moe", dict(EXPERTS, head_dim=32, n_routed_experts=8, n_shared_experts=1, attention_bias=True,
                                  first_k_dense_replace=1, n_group=1, topk_group=1, routed_scaling_factor=1.5,
                                  use_qk_norm=True)),
    "seed_oss": ("seed_oss", dict(head_dim=32)),
    "smollm3": ("smollm3", dict()),
    "olmo2": ("olmo2", dict()),
    "gpt_oss": ("gpt_oss", dict(head_dim=32, num_local_experts=8, num_experts_per_tok=3, sliding_window=32,
                                rope_parameters=dict(rope_type="default", rope_theta=10000.0))),
    "ernie4_5": ("ernie4_5", dict(head_dim=16)),
    "ernie4_5_moe": ("ernie4_5_moe", dict(moe_num_experts=8, moe_k=3, moe_intermediate_size=32, moe_num_shared_experts=2,
                                          moe_layer_start_index=1)),
    "lfm2": ("lfm2", dict(layer_types=["conv", "conv", "full_attention", "conv"], block_auto_adjust_ff_dim=False)),
    "lfm2_moe": ("lfm2_moe", dict(EXPERTS, layer_types=["conv", "conv", "full_attention", "conv"], num_dense_layers=1)),
    "llama4": ("llama4_text", dict(head_dim=16, intermediate_size_mlp=96, intermediate_size=32, num_local_experts=8,
                                   num_experts_per_tok=2, interleave_moe_layer_step=2, attention_chunk_size=8192,
                                   max_position_embeddings=16384)),
    "granite": ("granite", dict(embedding_multiplier=3.0, attention_multiplier=0.2, residual_multiplier=0.4,
                                logits_scaling=2.0)),
    "granitemoe": ("granitemoe", dict(embedding_multiplier=3.0, attention_multiplier=0.2, residual_multiplier=0.4,
                                      logits_scaling=2.0, num_local_experts=8, num_experts_per_tok=3)),
    "granitehybrid": ("granitemoehybrid", dict(HYBRID, num_local_experts=0, shared_intermediate_size=96)),
    "granitehybrid_moe": ("granitemoehybrid", dict(HYBRID, num_local_experts=8, num_experts_per_tok=3, shared_intermediate_size=64)),
    "granitehybrid_rope": ("granitemoehybrid", dict(HYBRID, num_local_experts=0, shared_intermediate_size=96,
                                                    position_embedding_type="rope")),
    "exaone4": ("exaone4", dict(sliding_window=None, layer_types=["full_attention"] * 4)),
    "minimax_m2": ("minimax_m2", dict(head_dim=32, num_local_experts=8, num_experts_per_tok=3, rotary_dim=16)),
    "phi3": ("phi3", dict(bos_token_id=4094, eos_token_id=4095)),
    "gemma3": ("gemma3_text", dict(num_hidden_layers=6, head_dim=32, query_pre_attn_scalar=32, sliding_window=32,
                                   tie_word_embeddings=True)),
    "gpt2": ("gpt2", dict(num_key_value_heads=4, n_inner=256, n_ctx=512)),
    "gpt_neox": ("gpt_neox", dict(hidden_act="gelu", num_key_value_heads=4, rotary_pct=0.5)),
    "starcoder2": ("starcoder2", dict()),
    "phi": ("phi", dict(num_key_value_heads=4, intermediate_size=256)),
    "nemotron": ("nemotron", dict(head_dim=16)),
    "nemotron_bias": ("nemotron", dict(head_dim=16, attention_bias=True, mlp_bias=True)),
    "qwen3_next": ("qwen3_next", dict(EXPERTS, **NEXT)),
    "qwen3_5": ("qwen3_5_text", dict(NEXT, linear_num_value_heads=6)),
    "qwen3_5_even": ("qwen3_5_text", dict(NEXT, linear_num_value_heads=2)),
    "qwen3_5_moe": ("qwen3_5_moe_text", dict(EXPERTS, **NEXT)),
}

FUSED = {"experts.gate_up_proj": ("gate_proj up_proj", True), "experts.down_proj": ("down_proj", True),
         "input_linear.weight": ("w1 w3", False), "output_linear.weight": ("w2", False)}


def run(*command, must=True):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode and must:
        sys.exit(" ".join(command) + "\n" + done.stderr[-3000:])
    return done.stdout + done.stderr


def fill(model):
    """Weights that give every part its say: values of bfloat16 of about the size that keeps a stream in range."""
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for name, p in sorted(model.state_dict().items()):
            x = torch.randn(p.shape, generator=generator)
            if name.endswith("A_log"):
                x = x * 0.3
            elif name.endswith(("bias", "sinks", "dt_bias")) or "bias" in name:
                x = x * 0.3
            elif "norm" in name and p.dim() == 1:
                x = x * 0.2 + (0 if p.abs().max() == 0 else 1)
            elif "embed" in name:
                x = x * model.config.__dict__.get("scaled", 1.0)
            elif p.dim() >= 2:
                fan = p.shape[-1] if "conv1d" not in name else 4
                x = x * (1.3 if "lm_head" not in name else 2.0) / fan ** 0.5
            if p.is_floating_point():
                p.copy_(x.to(torch.bfloat16).float())


# What published files say and transformers no longer writes; without it llama.cpp's converter takes another rule, or none.
PUBLISHED = {"deepseek_v3": {"scoring_func": "sigmoid", "topk_method": "noaux_tc"},
             "cohere2": {"rotary_pct": 1.0}}
# Folders that its converter does not take: it wants the published tokenizer's own file or tokens (GLM, Phi), a tied
# head (LFM2's mixtures), or a key that transformers takes out of what it reads (GPT-NeoX).
UNREAD_THERE = {"glm4", "glm4_moe", "phi3", "lfm2_moe", "gpt_neox"}


def make(folder, case):
    kind, options = CASES[case]
    config = AutoConfig.for_model(kind, **{**COMMON, **options})
    torch.manual_seed(1)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager", dtype=torch.float32).eval()
    fill(model)
    for dtype, place in (("float32", folder), ("bfloat16", folder + "-bf16")):
        shutil.rmtree(place, ignore_errors=True)
        model.config.dtype = getattr(torch, dtype)
        model.save_pretrained(place)
        if kind == "granitemoehybrid":  # as published, which llama.cpp's converter reads; transformers writes other words
            with open(place + "/config.json") as f:
                said = f.read().replace("full_attention", "attention").replace("linear_attention", "mamba")
            with open(place + "/config.json", "w") as f:
                f.write(said)
        if kind in PUBLISHED:
            with open(place + "/config.json") as f:
                said = json.load(f) | PUBLISHED[kind]
            with open(place + "/config.json", "w") as f:
                json.dump(said, f)
        path = place + "/model.safetensors"
        save_file({k: v.to(getattr(torch, dtype)) for k, v in load_file(path).items()}, path, {"format": "pt"})
        for name in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(f"{PROBE}/{name}", place)
    return model


def text_of(path):
    return os.path.join(os.path.dirname(path), "text.txt")


def pith_eval(path):
    done = subprocess.run([PITH, "eval", path, "--text", text_of(path), "--context", str(CONTEXT), "--convention",
                           "llama.cpp", "--json"], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"pith eval {path}\n{done.stderr}")
    return json.loads(done.stdout)


def llama_logits(path, base):
    """Tokens, and the logarithms of probabilities that llama.cpp gives the second half of each chunk."""
    os.environ["LD_LIBRARY_PATH"] = LLAMA
    out = run(f"{LLAMA}/llama-perplexity", "-m", path, "-f", text_of(path), "-c", str(CONTEXT), "-b", str(CONTEXT),
              "-t", "2", "-fa", "off", "-ctk", "f32", "-ctv", "f32", "--kl-divergence-base", base)
    if not os.path.exists(base):
        sys.exit(f"llama-perplexity {path}\n{out[-3000:]}")
    data = open(base, "rb").read()
    assert data[:8] == b"_logits_"
    n_ctx, n_vocab, n_chunk = struct.unpack_from("<iii", data, 8)
    tokens = np.frombuffer(data, "<i4", n_ctx * n_chunk, 20).reshape(n_chunk, n_ctx)
    words = 2 * ((n_vocab + 1) // 2) + 4
    rows = np.frombuffer(data, "<u2", -1, 20 + 4 * n_ctx * n_chunk).reshape(n_chunk, -1, words)
    scale = np.ascontiguousarray(rows[..., :2]).view("<f4")
    least = np.ascontiguousarray(rows[..., 2:4]).view("<f4")
    return tokens, rows[..., 4:4 + n_vocab] * scale + least


def judge(model, tokens, theirs):
    """The greatest difference of a logarithm of a probability, over the spread that they have; and the mean KL."""
    worst, kl = 0.0, []
    for ids, logs in zip(tokens, theirs):
        ids = torch.tensor(ids.astype(np.int64))
        ids[0] = COMMON["bos_token_id"]  # as llama-perplexity begins each chunk
        with torch.no_grad():
            ours = torch.log_softmax(model(ids[None]).logits[0].double(), -1).numpy()
        first = len(ids) // 2
        ours = ours[first:first + len(logs)]
        worst = max(worst, np.abs(np.maximum(ours, logs.min(-1, keepdims=True)) - logs).max() / np.ptp(ours))
        kl.append((np.exp(ours) * (ours - logs)).sum(-1).mean())
    return worst, float(np.mean(kl))


def clear(path):
    for name in (path, path + ".pith.json"):
        if os.path.exists(name):
            os.remove(name)


def check(folder, case):
    source, plain = f"{folder}/{case}", f"{folder}/{case}.gguf"
    model = make(source, case)
    for folder_, file in ((source + "-bf16", f"{folder}/{case}-bf16.gguf"), (source, plain)):
        clear(file)
        run(PITH, "convert", folder_, "-o", file, "--quiet")
        run(PITH, "verify", file, "--against", folder_)
    a, b = pith_eval(source), pith_eval(plain)
    assert abs(a["nll"] - b["nll"]) < 1e-5, (case, a["nll"], b["nll"])
    line = f"{case:20} nll {a['nll']:.5f} of the folder, {b['nll']:.5f} of the file"
    if LLAMA:
        base = f"{folder}/{case}.logits"
        tokens, theirs = llama_logits(plain, base)
        worst, kl = judge(model, tokens, theirs)
        line += f"; llama.cpp: logits within {worst:.1e} of their range, KL {kl:.1e}"
        print(line, flush=True)
        assert worst < 1e-3 and kl < 1e-6, case
        for grid in ("q8_0", "q4_0"):
            check_grid(folder, case, grid)
    else:
        print(line, flush=True)
    if SOURCE and case not in UNREAD_THERE and not case.endswith("_rope"):  # the converter says there are no positions, whatever the config says
        check_peer(folder, case, a)


def check_peer(folder, case, ours):
    """What llama.cpp's converter makes of the folder reads as the folder, and comes back to the bit."""
    source, peer, back = f"{folder}/{case}", f"{folder}/{case}-peer.gguf", f"{folder}/{case}-back"
    clear(peer)
    options = ["--no-mtp"] if case.startswith(("qwen3_5", "qwen3_next")) else []
    run(sys.executable, "-c", CONVERT, SOURCE, source, "--outfile", peer, "--outtype", "f32", *options)
    theirs = pith_eval(peer)
    run(PITH, "verify", peer, "--against", source)
    shutil.rmtree(back, ignore_errors=True)
    run(PITH, "quantize", peer, "-o", back, "-r", "rtn", "--ignore", "*", "--quiet")
    want, have = load_file(source + "/model.safetensors"), load_file(back + "/model.safetensors")
    for end, (parts, turned) in FUSED.items():  # all experts in one
        for name in [name for name in want if name.endswith(end) and name not in have]:
            part = [torch.stack([have.pop(f"{name[:-len(end)]}experts.{e}.{p}.weight") for e in range(len(want[name]))])
                    for p in parts.split()]
            have[name] = torch.cat(part, 1).transpose(1, 2 if turned else 1)
    unlike = [name for name in want if name not in have or not torch.equal(want[name], have[name])]
    beyond = [name for name in unlike if name not in have or not name.endswith("A_log") or  # -exp() there
              not torch.allclose(want[name], have[name], rtol=0, atol=2e-7)]
    print(f"{case:20} llama.cpp's file: nll {theirs['nll']:.5f}; {len(want) - len(unlike)} of {len(want)} tensors come "
          "back to the bit", flush=True)
    assert abs(theirs["nll"] - ours["nll"]) < 1e-5, (case, theirs["nll"], ours["nll"])
    assert not beyond, f"{case}: {' '.join(beyond)} differ"


def llama_perplexity(path, windows):
    os.environ["LD_LIBRARY_PATH"] = LLAMA
    for _ in range(8):  # its log's last lines may be lost at exit
        out = run(f"{LLAMA}/llama-perplexity", "-m", path, "-f", text_of(path), "-c", str(CONTEXT), "-t", "2", "-fa",
                  "off", "-ctk", "f32", "-ctv", "f32")
        said = re.findall(rf"\[{windows}\]([\d.]+)|Final estimate: PPL = ([\d.]+)", out)
        if said:
            return float(said[-1][0] or said[-1][1])
    sys.exit(f"{path}: llama-perplexity says nothing\n{out[-2000:]}")


def check_grid(folder, case, grid):
    """A quantized file: llama.cpp makes floats of it whose perplexity is pith's, and runs it. Its products with codes
    take activations of 8 bits, which moves random models by up to some percent: told only."""
    path, floats = f"{folder}/{case}-{grid}.gguf", f"{folder}/{case}-{grid}-floats.gguf"
    clear(path)
    run(PITH, "quantize", f"{folder}/{case}", "-o", path, "-r", "rtn", "--weights", grid, "--quiet")
    run(PITH, "verify", path, "--against", f"{folder}/{case}")
    ours = pith_eval(path)
    os.environ["LD_LIBRARY_PATH"] = LLAMA
    run(f"{LLAMA}/llama-quantize", "--allow-requantize", path, floats, "F32")
    theirs, direct = (llama_perplexity(f, ours["windows"]) for f in (floats, path))
    print(f"{case:20} {grid}: perplexity {ours['perplexity']:.4f} by pith; by llama.cpp {theirs:.4f} as floats, "
          f"{direct / ours['perplexity'] - 1:+.2%} with rounded activations", flush=True)
    assert abs(theirs / ours["perplexity"] - 1) < 1e-4, case


def main():
    logging.set_verbosity_error()
    torch.set_num_threads(2)
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    with open(f"{PROBE}/eval.txt") as f, open(f"{folder}/text.txt", "w") as out:
        out.write(f.read()[:CHARACTERS])
    failed = []
    for case in sys.argv[2:] or CASES:
        try:
            check(folder, case)
        except AssertionError as e:
            failed.append(case)
            print(f"{case:20} FAILED {e}", flush=True)
    if not LLAMA:
        print("SKIPPED: LLAMA_CPP names no llama.cpp: nothing run by it")
    if failed:
        sys.exit("not alike: " + " ".join(failed))


if __name__ == "__main__":
    main()
