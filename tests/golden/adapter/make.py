#!/usr/bin/env python3
"""Golden data for adapters: a very small model, LoRA adapters as PEFT saves them, and what PEFT's own merge_and_unload() makes.

    python3 tests/golden/adapter/make.py      (peft 0.21, transformers 5, torch 2)

Writes beside itself base/ (a Llama in float32, and its config), one folder an adapter, and NAME.safetensors: the tensors that the
merge changed. gpt/ is the same with GPT-2's matrices, which lie by columns."""
import json
import os
import shutil

import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

HERE = os.path.dirname(os.path.abspath(__file__))
LINEARS = ["q_proj", "v_proj", "down_proj"]
CASES = {
    "plain": ("base", dict(r=4, lora_alpha=8, target_modules=LINEARS)),
    "patterns": ("base", dict(r=4, lora_alpha=6, target_modules=LINEARS, use_rslora=True, rank_pattern={"down_proj": 2},
                              alpha_pattern={"layers.1.self_attn.v_proj": 3, "^model.layers.0.*q_proj": 12})),
    "dora": ("base", dict(r=2, lora_alpha=4, target_modules=["k_proj", "up_proj"], use_dora=True)),
    "saved": ("base", dict(r=2, lora_alpha=4, target_modules=["o_proj", "embed_tokens"], modules_to_save=["lm_head", "norm"])),
    "columns": ("gpt", dict(r=2, lora_alpha=4, target_modules=["c_attn", "c_proj"], fan_in_fan_out=True, bias="all", lora_bias=True)),
}


def llama():
    return LlamaForCausalLM(LlamaConfig(hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2,
                                        num_key_value_heads=1, vocab_size=32, tie_word_embeddings=False))


def gpt():
    return GPT2LMHeadModel(GPT2Config(n_embd=16, n_layer=1, n_head=2, vocab_size=32, n_positions=16))


def save(model, name):
    folder = os.path.join(HERE, name)
    model.save_pretrained(folder)
    for extra in ("generation_config.json", "README.md"):
        if os.path.exists(os.path.join(folder, extra)):
            os.remove(os.path.join(folder, extra))


def main():
    makers = {"base": llama, "gpt": gpt}
    for name, make in makers.items():
        torch.manual_seed(1)
        model = make()
        with torch.no_grad():
            for p in model.parameters():
                p.copy_(torch.randn_like(p) * 0.1)
        save(model, name)
    for name, (base, settings) in CASES.items():
        torch.manual_seed(2)
        model = get_peft_model(makers[base].__call__().__class__.from_pretrained(os.path.join(HERE, base)), LoraConfig(**settings))
        with torch.no_grad():
            for p in model.parameters():
                if p.requires_grad:
                    p.add_(torch.randn_like(p) * 0.2)
        shutil.rmtree(os.path.join(HERE, name), ignore_errors=True)
        save(model, name)
        path = os.path.join(HERE, name, "adapter_config.json")
        config = json.load(open(path))
        config["base_model_name_or_path"] = base
        json.dump(config, open(path, "w"), indent=1, sort_keys=True)
        was = load_file(os.path.join(HERE, base, "model.safetensors"))
        is_ = model.merge_and_unload().state_dict()
        prefix = "transformer." if base == "gpt" else ""
        made = {}
        for key, old in was.items():
            new = is_[key if key in is_ else prefix + key]
            if not torch.equal(old, new):
                made[key] = new.clone().contiguous()
        save_file(made, os.path.join(HERE, name + ".safetensors"))
        print(name, len(made), "changed;", sorted(load_file(os.path.join(HERE, name, "adapter_model.safetensors")))[:4])


main()
