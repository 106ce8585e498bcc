#!/usr/bin/env python3
"""Makes the golden files of the modelopt container: a linear of a small model as ModelOpt itself
quantizes and exports it, and its first rows as ModelOpt's own classes read it back.

    modelopt.safetensors  <algorithm>.weight, .weight_scale, ...; .want: the first rows in float32
    cases.json            what config.json and hf_quant_config.json say of each

Run it with a Python that has torch, transformers, safetensors and nvidia-modelopt. Made with
nvidia-modelopt 0.47.0.
"""
import json
import os
import sys
import tempfile
import warnings

import torch
from safetensors.torch import load_file, save_file

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../../interop"))
warnings.filterwarnings("ignore")
import containers  # noqa: E402

ROWS = 8


def export(name, folder):
    from transformers import LlamaConfig, LlamaForCausalLM
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(
        vocab_size=64, hidden_size=128, intermediate_size=256, num_hidden_layers=1,
        num_attention_heads=2, num_key_value_heads=1, architectures=["LlamaForCausalLM"]))
    containers.modelopt_export(model.float().eval(), name, folder)


def main():
    cases, out = [], {}
    for name in containers.MODELOPT:
        with tempfile.TemporaryDirectory() as folder:
            export(name, folder)
            tensors = load_file(os.path.join(folder, "model.safetensors"))
            config = json.load(open(os.path.join(folder, "config.json")))["quantization_config"]
            alone = json.load(open(os.path.join(folder, "hf_quant_config.json")))
        prefix, module = "model.layers.0.mlp.down_proj.", name.lower()
        local = {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
        (_, truth), = containers.load_modelopt(alone["quantization"], local)
        out.update({f"{module}.{k}": v.contiguous() for k, v in local.items()})
        out[module + ".want"] = truth[:ROWS].contiguous()
        cases.append({"module": module, "config": config, "alone": alone})
    with open(os.path.join(HERE, "cases.json"), "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")
    save_file(out, os.path.join(HERE, "modelopt.safetensors"), metadata={"format": "pt"})


if __name__ == "__main__":
    main()
