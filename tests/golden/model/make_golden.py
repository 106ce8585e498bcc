#!/usr/bin/env python3
"""Tiny random models of every architecture with the logits that transformers computes for them.

Writes weights/<name>.safetensors (as save_pretrained writes them), and for each case <case>.json (its
config.json) and <case>.logits (float32, [tokens][vocab], the prompts of PROMPTS one after the other).
A case is a config put beside some weights and loaded again by from_pretrained, so transformers' own reading
of both config dialects is what is compared with. Made with torch 2.13 and transformers 5.23 on a CPU.

Usage: make_golden.py [output folder]
"""
import json, math, os, shutil, sys, tempfile
import numpy as np
import torch
from transformers import (AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM, MistralConfig,
                          MistralForCausalLM, Qwen2Config, Qwen2ForCausalLM, Qwen3Config,
                          Qwen3ForCausalLM)

OUT = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
VOCAB = 80
# The unit test holds the same two prompts: id = (a * i * i + b * i + c) % VOCAB.
PROMPTS = [[(7 * i * i + 3 * i + 1) % VOCAB for i in range(40)],
           [(5 * i * i + 11 * i + 62) % VOCAB for i in range(25)]]

BASE = dict(vocab_size=VOCAB, hidden_size=32, intermediate_size=44, num_hidden_layers=2,
            num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
            rms_norm_eps=1e-5, bos_token_id=1, eos_token_id=2, pad_token_id=None)


def randomise(model, seed):
    """Weights large enough that attention is far from uniform and every term matters."""
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in model.named_parameters():
            r = torch.randn(p.shape, generator=g)
            if "norm" in name:
                p.copy_(1 + 0.3 * r)
            elif name.endswith("bias"):
                p.copy_(0.5 * r)
            elif "embed" in name or "lm_head" in name:
                p.copy_(r)
            else:
                gain = 2.0 if "q_proj" in name or "k_proj" in name else 1.2
                p.copy_(r * gain / math.sqrt(p.shape[1]))


def make_weights(name, config, cls, seed, dtype=torch.float32):
    """Saves weights/<name>.safetensors; returns the config.json that save_pretrained wrote."""
    model = cls(config)
    randomise(model, seed)
    model = model.to(dtype)
    model.config.dtype = dtype
    with tempfile.TemporaryDirectory() as d:
        model.save_pretrained(d)
        os.makedirs(os.path.join(OUT, "weights"), exist_ok=True)
        shutil.copy(os.path.join(d, "model.safetensors"),
                    os.path.join(OUT, "weights", name + ".safetensors"))
        with open(os.path.join(d, "config.json")) as f:
            return json.load(f)


def make_case(case, weights, config):
    with tempfile.TemporaryDirectory() as d:
        shutil.copy(os.path.join(OUT, "weights", weights + ".safetensors"),
                    os.path.join(d, "model.safetensors"))
        with open(os.path.join(d, "config.json"), "w") as f:
            json.dump(config, f)
        model, info = AutoModelForCausalLM.from_pretrained(
            d, dtype=torch.float32, attn_implementation="eager", output_loading_info=True)
        assert not info["missing_keys"] and not info["unexpected_keys"], (case, info)
        model.eval()
        with torch.no_grad():
            rows = [model(torch.tensor([p])).logits[0].numpy() for p in PROMPTS]
    logits = np.concatenate(rows).astype("<f4")
    assert np.isfinite(logits).all()
    logits.tofile(os.path.join(OUT, case + ".logits"))
    with open(os.path.join(OUT, case + ".json"), "w") as f:
        json.dump({"weights": weights, "config": config}, f, indent=1)
        f.write("\n")
    print(f"{case:24} range {np.ptp(logits):.3f}")
    return logits


def old_dialect(config, **changes):
    """The keys of transformers 4: rope_theta, rope_scaling, torch_dtype."""
    c = dict(config)
    rope = dict(c.pop("rope_parameters", None) or {})
    c["rope_theta"] = rope.pop("rope_theta", 10000.0)
    kind = rope.pop("rope_type", "default")
    c["rope_scaling"] = None if kind == "default" else {"type": kind, **rope}
    if "dtype" in c:
        c["torch_dtype"] = c.pop("dtype")
    c["transformers_version"] = "4.46.0"
    c.update(changes)
    return c


def main():
    torch.manual_seed(0)
    llama = make_weights("llama_mha", LlamaConfig(**{**BASE, "num_key_value_heads": 4}),
                         LlamaForCausalLM, 1)
    make_case("llama_mha", "llama_mha", llama)
    gqa = make_weights("llama_gqa_tied", LlamaConfig(**BASE, tie_word_embeddings=True),
                       LlamaForCausalLM, 2)
    plain = make_case("llama_gqa_tied", "llama_gqa_tied", gqa)
    bias = make_weights("llama_bias", LlamaConfig(**BASE, attention_bias=True, mlp_bias=True),
                        LlamaForCausalLM, 3)
    make_case("llama_bias", "llama_bias", bias)

    # Absent keys take the defaults of the config class; model_type alone names the architecture.
    bare = {k: gqa[k] for k in ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers",
                                "num_attention_heads", "num_key_value_heads", "tie_word_embeddings",
                                "model_type")}
    make_case("llama_bare", "llama_gqa_tied", bare)

    def rope(case, parameters, old=False, **changes):
        c = {**gqa, "rope_parameters": parameters, **changes}
        logits = make_case(case, "llama_gqa_tied", old_dialect(c) if old else c)
        assert np.abs(logits - plain).max() > 1e-2 * np.ptp(plain), case

    rope("rope_linear_old", {"rope_type": "linear", "factor": 4.0, "rope_theta": 500.0}, old=True)
    rope("rope_linear_new", {"rope_type": "linear", "factor": 2, "rope_theta": 20000})
    llama3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
              "original_max_position_embeddings": 32, "rope_theta": 300.0}
    rope("rope_llama3_new", llama3)
    rope("rope_llama3_old", {**llama3, "factor": 32.0, "low_freq_factor": 0.25}, old=True)
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16,
            "rope_theta": 100.0}
    rope("rope_yarn_new", {**yarn, "beta_fast": 2.0, "beta_slow": 0.25})
    rope("rope_yarn_old", yarn, old=True)
    rope("rope_yarn_ramp", {**yarn, "beta_fast": 4.0, "beta_slow": 0.1, "truncate": False,
                            "attention_factor": 1.3})
    rope("rope_yarn_mscale", {**yarn, "mscale": 1.0, "mscale_all_dim": 0.5})
    rope("rope_yarn_top", {k: v for k, v in yarn.items() if k != "original_max_position_embeddings"},
         original_max_position_embeddings=16)

    mistral = {**gqa, "architectures": ["MistralForCausalLM"], "model_type": "mistral",
               "sliding_window": 7}
    windowed = make_case("mistral_window", "llama_gqa_tied", mistral)
    assert np.abs(windowed - plain).max() > 1e-2 * np.ptp(plain)
    full = make_case("mistral_full", "llama_gqa_tied", old_dialect(mistral, sliding_window=None))
    assert np.abs(full - plain).max() < 1e-4

    q2 = dict(BASE, num_hidden_layers=3)
    qwen2 = make_weights("qwen2", Qwen2Config(**q2), Qwen2ForCausalLM, 4)
    make_case("qwen2", "qwen2", old_dialect(qwen2))
    make_case("qwen2_window_old", "qwen2",
              old_dialect({k: v for k, v in qwen2.items() if k != "layer_types"},
                          use_sliding_window=True, sliding_window=6, max_window_layers=1))
    make_case("qwen2_window_new", "qwen2",
              {**qwen2, "use_sliding_window": True, "sliding_window": 9, "max_window_layers": 28,
               "layer_types": ["full_attention", "full_attention", "sliding_attention"]})
    tied = make_weights("qwen2_tied_f16", Qwen2Config(**BASE, tie_word_embeddings=True),
                        Qwen2ForCausalLM, 5, torch.float16)
    make_case("qwen2_tied_f16", "qwen2_tied_f16", tied)

    qwen3 = make_weights("qwen3", Qwen3Config(**{**BASE, "head_dim": 12}), Qwen3ForCausalLM, 6)
    make_case("qwen3", "qwen3", qwen3)
    q3b = make_weights("qwen3_bias_tied", Qwen3Config(**{**BASE, "head_dim": 6}, attention_bias=True,
                                                      tie_word_embeddings=True), Qwen3ForCausalLM, 7)
    make_case("qwen3_bias_tied", "qwen3_bias_tied", old_dialect(q3b))
    half = make_weights("llama_bf16", LlamaConfig(**BASE), LlamaForCausalLM, 8, torch.bfloat16)
    make_case("llama_bf16", "llama_bf16", half)


main()
