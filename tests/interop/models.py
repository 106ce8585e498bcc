#!/usr/bin/env python3
"""Whole models: the model that ships is quantized by pith into each container, loaded by the library
whose it is, and run by transformers. Its loss on a text is then what `pith eval` says.

    models.py DIR         DIR is empty; the environment variables PITH and LOGITS name the program and
                          what logits.c makes

The model is copied to float32 first, so that both sides compute with the same numbers to the bit: a
model in bfloat16 would have its dequantized weights rounded by transformers, and not by pith.
"""
import contextlib
import copy
import json
import math
import os
import shutil
import subprocess
import sys

import numpy
import torch
from safetensors.torch import load_file, save_file
from transformers import (AutoConfig, AutoModelForCausalLM, AutoTokenizer,
                          CompressedTensorsConfig, logging)

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import containers  # noqa: E402

PROBE = os.path.join(HERE, "../../models/probe")
PITH = os.environ.get("PITH", "build/pith")
LOGITS = os.environ.get("LOGITS", "logits")
TEXT, CONTEXT = os.path.join(PROBE, "eval.txt"), 256

CASES = [
    ("ct.int4.g128", ["-r", "rtn", "--for", "vllm", "--for", "transformers"]),
    ("ct.int8.channel", ["-r", "w8a16"]),
    ("ct.int4.asym", ["-r", "rtn", "--weights", "int4:g32:asym"]),
    ("ct.int3", ["-r", "rtn", "--weights", "int3:g64:mse"]),
    ("ct.int5.tensor", ["-r", "rtn", "--weights", "int5:tensor"]),
    ("ct.mixed", ["-r", "rtn", "--override", "down_proj=int8:g128", "--override",
                  "layers.0.self_attn.o_proj=int6:channel", "--ignore", "layers.1.mlp.*"]),
    ("ct.rotated.folded", ["-r", "quarot-w4a16", "--for", "vllm", "--for", "transformers"]),
    ("ct.rotated", ["-r", "rtn", "--transform", "rotate", "--for", "vllm"]),
    ("ct.smoothrot.online", ["-r", "rtn", "--transform", "smoothrot:online", "--for", "vllm"]),
    ("ct.awq", ["-r", "awq", "--container", "compressed-tensors"]),
    ("gptq.int4", ["-r", "gptq", "--for", "vllm", "--for", "sglang:tp=2"]),
    ("gptq.int3.asym", ["-r", "gptq", "--weights", "int3:g64:asym"]),
    ("gptq.int8", ["-r", "rtn", "--weights", "int8:channel", "--container", "gptq"]),
    ("awq.int4", ["-r", "awq", "--for", "vllm"]),
    ("bnb.nf4", ["-r", "rtn", "--weights", "nf4:g64", "--container", "bitsandbytes"]),
    ("bnb.nf4.nested", ["-r", "rtn", "--weights", "nf4:g64:dq", "--container", "bitsandbytes"]),
    ("bnb.fp4", ["-r", "rtn", "--weights", "bnb_fp4:g128", "--container", "bitsandbytes",
                 "--ignore", "layers.1.mlp.*"]),
    ("bnb.int8", ["-r", "llm.int8"]),
]

# Weights and inputs: what transformers makes of the inputs is compressed-tensors' fake quantization.
CASES += [(f"ct.{w}.{a}", ["-r", "rtn", "--weights", w, "--acts", a, "--container",
                           "compressed-tensors"]) for w, a in (
    ("fp8_e4m3:channel", "none"), ("fp8_e4m3:block128", "none"), ("mxfp4", "none"),
    ("mxfp6_e2m3", "none"), ("mxfp8", "none"), ("nvfp4", "none"),
    ("fp8_e4m3:channel", "fp8_e4m3:token"), ("fp8_e4m3:tensor", "fp8_e4m3:tensor:static"),
    ("fp8_e4m3:block128", "fp8_e4m3:g128"), ("int8:channel", "int8:token"),
    ("int8:channel", "int8:token:asym"), ("int8:channel", "int8:tensor:static"),
    ("int8:channel", "int8:tensor:asym:static"), ("int4:g128", "int8:token"),
    ("mxfp4", "mxfp4"), ("mxfp6_e2m3", "mxfp8"), ("mxfp8", "mxfp8"), ("nvfp4", "nvfp4"))]
CASES += [("ct.kv", ["-r", "rtn", "--weights", "fp8_e4m3:tensor", "--acts", "fp8_e4m3:tensor:static",
                     "--kv", "fp8"])]
CASES += [("ct.formats", ["-r", "rtn", "--weights", "nvfp4", "--override",
                          "down_proj=fp8_e4m3:channel", "--override",
                          "layers.0.self_attn.o_proj=int4:g128"])]

# bitsandbytes rounds the inputs of LLM.int8() to float16 before it rounds them to integers.
LOOSER = {"bnb.int8": 3e-4}


def run(*args):
    done = subprocess.run([PITH, *args], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"pith {' '.join(args)}: {done.stderr}")
    return done.stdout


def float_copy(folder):
    """The probe in float32."""
    shutil.copytree(PROBE, folder)
    path = os.path.join(folder, "model.safetensors")
    save_file({k: v.float() for k, v in load_file(path).items()}, path, metadata={"format": "pt"})
    config = json.load(open(os.path.join(folder, "config.json")))
    config.pop("dtype", None)
    config["torch_dtype"] = "float32"
    json.dump(config, open(os.path.join(folder, "config.json"), "w"))


def dequantized(folder, config):
    """A dense model with what the containers' own code makes of each module."""
    quantization = config.quantization_config
    tensors, state = load_file(os.path.join(folder, "model.safetensors")), {}
    modules = {k.rsplit(".", 1)[0] for k in tensors if k.endswith(".qweight")}
    for module in modules:
        local = {k.removeprefix(module + "."): v for k, v in tensors.items()
                 if k.startswith(module + ".")}
        local["scales"] = local["scales"].float()  # products in float32, as pith's
        _, w = containers.LOADERS[quantization["quant_method"]](quantization, local)[-1]
        state[module + ".weight"] = w
    state.update({k: v for k, v in tensors.items() if k.rsplit(".", 1)[0] not in modules})
    del config.quantization_config
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert not unexpected and set(missing) <= {"lm_head.weight"}, (missing, unexpected)
    model.tie_weights()
    return model


def widened(folder):
    """bitsandbytes' own layers; those of 4 bits with the weights that its code makes of them, since
    its products on CPUs round them to bfloat16."""
    import bitsandbytes as bnb
    model, info = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32,
                                                       output_loading_info=True)
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys", "error_msgs"):
        assert not info.get(kind), (folder, kind, info[kind])
    for name, module in list(model.named_modules()):
        if not isinstance(module, bnb.nn.Linear4bit):
            continue
        w = bnb.functional.dequantize_4bit(module.weight.data, module.weight.quant_state)
        dense = torch.nn.Linear(w.shape[1], w.shape[0], bias=False)
        dense.weight.data = w.float()
        parent, last = name.rsplit(".", 1)
        setattr(model.get_submodule(parent), last, dense)
    return model


def load(folder):
    config = AutoConfig.from_pretrained(folder)
    if config.quantization_config["quant_method"] == "bitsandbytes":
        return widened(folder)
    if config.quantization_config["quant_method"] != "compressed-tensors":
        return dequantized(folder, config)
    # compressed-tensors 0.18 to 0.20 give packed zero points the shape of unpacked ones while a model
    # is prepared for its weights, so that it refuses every asymmetric checkpoint, its own included;
    # this other way of transformers is not concerned.
    groups = config.quantization_config["config_groups"].values()
    asym = any(not g["weights"]["symmetric"] for g in groups)
    how = {"quantization_config": CompressedTensorsConfig(dequantize=True)} if asym else {}
    model, info = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32,
                                                       output_loading_info=True, **how)
    rotations = config.quantization_config.get("transform_config") or {}
    info["unexpected_keys"] = [k for k in info.get("unexpected_keys", [])
                               if not (rotations and k.endswith("_input.weight"))]
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys", "error_msgs"):
        assert not info.get(kind), (folder, kind, info[kind])
    if rotations:  # transformers leaves them out, which is why --for transformers refuses them
        from compressed_tensors.transform import TransformConfig, apply_transform_config
        apply_transform_config(model, TransformConfig.model_validate(rotations))
        return model
    return widen(model, folder)


def widen(model, folder):
    """compressed-tensors makes bfloat16 of the smallest formats' weights, and of those alone: they get
    what its formulas give in float32. It decompresses in the first call, which may then fail."""
    with contextlib.suppress(RuntimeError), torch.no_grad():
        model(torch.tensor([[1, 2, 3]]))
    quantization = json.load(open(os.path.join(folder, "config.json")))["quantization_config"]
    tensors = load_file(os.path.join(folder, "model.safetensors"))
    for name, module in model.named_modules():
        if not isinstance(module, torch.nn.Linear) or module.weight.dtype == torch.float32:
            continue
        local = {k.removeprefix(name + "."): v for k, v in tensors.items()
                 if k.startswith(name + ".")}
        scheme, compressor = containers.ct_scheme(quantization, name)
        w = containers.in_float32(compressor, scheme, local)
        del module.weight  # assigned to, it would keep its dtype
        module.weight = torch.nn.Parameter(w, requires_grad=False)
    return model


def loss(model, ids):
    """Disjoint windows, all but the first token of each scored."""
    total, count = 0.0, 0
    for at in range(0, len(ids) - CONTEXT + 1, CONTEXT):
        window = torch.tensor([ids[at:at + CONTEXT]])
        with torch.no_grad():
            logits = model(window).logits.double()[0, :-1]
        total += torch.nn.functional.cross_entropy(logits, window[0, 1:], reduction="sum").item()
        count += CONTEXT - 1
    return total / count, count


def logits(model, ids, noise=0.0):
    """Of all whole windows; noise is relative, on every linear's input."""
    out, hooks, generator = [], [], torch.Generator().manual_seed(1)

    def disturb(module, args):
        return (args[0] * (1 + noise * torch.randn(args[0].shape, generator=generator)),)
    for module in model.modules():
        if noise and isinstance(module, torch.nn.Linear):
            hooks.append(module.register_forward_pre_hook(disturb))
    for at in range(0, len(ids) - CONTEXT + 1, CONTEXT):
        with torch.no_grad():
            out.append(model(torch.tensor([ids[at:at + CONTEXT]])).logits[0].float())
    for hook in hooks:
        hook.remove()
    return torch.cat(out)


def divergence(p, q):
    """KL of each position, in nats."""
    p, q = p.double().log_softmax(-1), q.double().log_softmax(-1)
    return (p.exp() * (p - q)).sum(-1)


def check_inputs(name, model, folder, ids, root):
    """Rounding makes steps of inputs, so that the last bits of a sum decide here and there on which
    side one falls, and the two go apart from there on. Before that they are equal: most windows'
    first rows. After it they may differ by what a millionth of noise does to the peer itself."""
    numpy.array(ids, dtype=numpy.int32).tofile(os.path.join(root, "ids"))
    raw = os.path.join(root, "logits")
    subprocess.run([LOGITS, folder, os.path.join(root, "ids"), str(CONTEXT), raw], check=True)
    theirs = logits(model, ids)
    ours = torch.from_numpy(numpy.fromfile(raw, dtype=numpy.float32)).reshape(theirs.shape)
    apart = divergence(theirs, ours)
    noise = divergence(theirs, logits(model, ids, 1e-6)).mean().item()
    first = apart.reshape(-1, CONTEXT)[:, :4].flatten()
    equal = (first < 1e-9).double().mean().item()
    print(f"{name}: {equal:.0%} of first rows equal, KL {apart.mean().item():.1e} where noise makes "
          f"{noise:.1e}")
    assert equal > 0.5, (name, equal)
    assert apart.mean().item() <= 3 * noise + 1e-9, (name, apart.mean().item(), noise)


def check_modelopt(source, ids, root):
    """The other way: ModelOpt quantizes and exports, pith computes what ModelOpt's fake quantization
    does. Of its formats this is the one whose emulation needs no GPU. The weights are the exported
    ones: the emulation multiplies where export divides, so that a few would be others."""
    name, folder = "modelopt.fp8", os.path.join(root, "modelopt")
    model = AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32).eval()
    with contextlib.redirect_stdout(sys.stderr):
        containers.modelopt_export(model, "FP8_DEFAULT_CFG", folder, copy.deepcopy)
    tensors = load_file(os.path.join(folder, "model.safetensors"))
    for key, scale in tensors.items():
        if not key.endswith(".weight_scale"):
            continue
        linear = model.get_submodule(key.removesuffix(".weight_scale"))
        linear.weight.data = tensors[key.removesuffix("_scale")].float() * scale
        linear.weight_quantizer.disable()
    check_inputs(name, model, folder, ids, root)


def main(root):
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    source = os.path.join(root, "probe")
    float_copy(source)
    tokenizer = AutoTokenizer.from_pretrained(source)
    text = open(TEXT, encoding="utf-8").read()[:8000]
    path = os.path.join(root, "text.txt")
    open(path, "w", encoding="utf-8").write(text)
    ids = tokenizer(text)["input_ids"]
    if ids[0] != tokenizer.bos_token_id:
        ids = [tokenizer.bos_token_id] + ids
    for name, options in CASES:
        out = os.path.join(root, name)
        run("quantize", source, "-o", out, "--calib-tokens", "4096", "-q", *options)
        run("verify", out, "--against", source, "-q")
        report = json.loads(run("eval", out, "--text", path, "--context", str(CONTEXT), "--json"))
        report = report.get("texts", [report])[0]
        model = load(out)
        if "--acts" in options and options[options.index("--acts") + 1] != "none":
            check_inputs(name, model, out, ids, root)
            continue
        want, count = loss(model, ids)
        ours, tokens = report["nll"], report["tokens"]
        assert tokens == count, (name, tokens, count)
        if not math.isclose(ours, want, rel_tol=LOOSER.get(name, 2e-6)):
            sys.exit(f"{name}: loss {ours} by pith eval, {want} by transformers")
        print(f"{name}: loss {ours:.6f} by pith eval, {want:.6f} by transformers")

    check_modelopt(source, ids, root)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: models.py DIR")
    main(sys.argv[1])
