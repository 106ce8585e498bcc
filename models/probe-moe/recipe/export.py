"""A checkpoint of train_moe.py as transformers writes a Qwen3-MoE model: bf16, one tensor an expert.

    export.py CHECKPOINT OUT        needs torch, transformers and safetensors
"""
import json
import pathlib
import shutil
import sys

import torch
from safetensors.torch import save_file

import train_moe as t

HERE = pathlib.Path(__file__).resolve().parent
PROBE = HERE.parent.parent / "probe"
CONFIG = {
    "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe",
    "hidden_size": t.D, "intermediate_size": 2 * t.I, "moe_intermediate_size": t.I, "num_hidden_layers": t.L,
    "num_attention_heads": t.H, "num_key_value_heads": t.KV, "head_dim": t.HD, "vocab_size": t.V,
    "num_experts": t.E, "num_experts_per_tok": t.TOP, "norm_topk_prob": True, "decoder_sparse_step": 1, "mlp_only_layers": [],
    "router_aux_loss_coef": 0.0, "output_router_logits": False, "max_position_embeddings": t.T, "rms_norm_eps": t.EPS,
    "rope_theta": t.THETA, "rope_scaling": None, "hidden_act": "silu", "attention_bias": False, "attention_dropout": 0.0,
    "use_sliding_window": False, "sliding_window": None, "tie_word_embeddings": True, "bos_token_id": 4094,
    "eos_token_id": 4095, "initializer_range": 0.02, "torch_dtype": "bfloat16", "use_cache": True,
}


def published(state):
    """The names under which Qwen3-MoE models are published: gate and up apart, every expert its own."""
    for name, w in state.items():
        name, w = "model." + name, w.to(torch.bfloat16)
        stem, _, last = name.rpartition(".")
        if last == "gate_up_proj":
            for e, both in enumerate(w):
                gate, up = both.chunk(2)
                yield f"{stem}.experts.{e}.gate_proj.weight", gate.contiguous()
                yield f"{stem}.experts.{e}.up_proj.weight", up.contiguous()
        elif last == "down_proj":
            for e, down in enumerate(w):
                yield f"{stem}.experts.{e}.down_proj.weight", down.contiguous()
        else:
            yield name, w.contiguous()


def main():
    state, out = torch.load(sys.argv[1], map_location="cpu"), pathlib.Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    save_file(dict(sorted(published(state["model"]))), out / "model.safetensors", metadata={"format": "pt"})
    (out / "config.json").write_text(json.dumps(CONFIG, indent=2) + "\n")
    for name in ("generation_config.json", "tokenizer.json", "tokenizer_config.json"):
        if (out / name).resolve() != (PROBE / name).resolve():
            shutil.copyfile(PROBE / name, out / name)
    print("step", state["step"], "tokens", state["step"] * t.BATCH * t.T)


if __name__ == "__main__":
    main()
