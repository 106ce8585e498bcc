#!/usr/bin/env python3
"""Containers against the libraries whose they are, both ways.

    containers.py load DIR    loads what `containers write DIR` made with each library's own code and
                              compares the weights, in the dtype that the library computes in
    containers.py make DIR    makes checkpoints of random weights with those libraries, for
                              `containers read DIR`
"""
import contextlib
import functools
import json
import os
import sys
import types

import torch
from safetensors.torch import load_file, save_file

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import peers  # noqa: E402

MODULE = "model.layers.0.mlp.up_proj"
DTYPES = {"F16": torch.float16, "BF16": torch.bfloat16, "F32": torch.float32}


# --- compressed-tensors -----------------------------------------------------------------------

def ct_scheme(config, module=MODULE):
    """The scheme that compressed-tensors itself finds for the module, and its compressor."""
    from compressed_tensors.compressors import BaseCompressor
    from compressed_tensors.quantization import QuantizationConfig
    from compressed_tensors.utils import match_targets
    known = {k: v for k, v in config.items() if v is not None}
    parsed = QuantizationConfig.model_validate(known)
    layer = torch.nn.Linear(1, 1)
    assert match_targets("lm_head", layer, parsed.ignore), "lm_head is not ignored"
    found = [s for s in parsed.config_groups.values() if match_targets(module, layer, s.targets)]
    assert len(found) == 1
    format_ = found[0].format or parsed.format
    return found[0], BaseCompressor.get_value_from_registry(getattr(format_, "value", format_))


def in_float32(compressor, scheme, tensors):
    """What a compressor that gives bfloat16 computes, not rounded to it."""
    from compressed_tensors.compressors.mxfp6.helpers import unpack_fp6_from_uint8
    from compressed_tensors.compressors.nvfp4.helpers import unpack_fp4_from_uint8
    from compressed_tensors.quantization.lifecycle.forward import dequantize
    bits = scheme.weights.num_bits
    if "weight_packed" in tensors:
        rows, width = tensors["weight_packed"].shape
        unpack = unpack_fp4_from_uint8 if bits == 4 else unpack_fp6_from_uint8
        codes = unpack(tensors["weight_packed"], rows, width * 8 // bits, dtype=torch.float32)
        scale = compressor._decompress_scale(tensors["weight_scale"], torch.float32)
    else:
        codes = tensors["weight"].float()
        scale = compressor._decompress_scale(tensors["weight_scale"]).float()
    return dequantize(x_q=codes, scale=scale, args=scheme.weights, dtype=torch.float32,
                      global_scale=tensors.get("weight_global_scale"))


def load_ct(config, tensors):
    scheme, compressor = ct_scheme(config)
    want = set(compressor.compression_param_names(scheme))
    if scheme.input_activations and not scheme.input_activations.dynamic:
        want.add("input_scale")
        if not scheme.input_activations.symmetric:
            want.add("input_zero_point")
    if scheme.input_activations and scheme.input_activations.dynamic == "local":
        want.add("input_global_scale")
    assert set(tensors) == want, (set(tensors), want)
    out = [("compressed-tensors", compressor.decompress(tensors, scheme)["weight"])]
    if scheme.weights.type == "float" and scheme.weights.group_size in (16, 32) and \
            tensors["weight_scale"].element_size() == 1:
        out.append(("compressed-tensors in float32", in_float32(compressor, scheme, tensors)))
    return out


# --- gptq -------------------------------------------------------------------------------------

@functools.cache
def gptqmodel_config(text):
    return peers.gptqmodel()[1].QuantizeConfig.from_quant_config(json.loads(text))


@contextlib.contextmanager
def aside():
    """What libraries print goes to standard error."""
    with contextlib.redirect_stdout(sys.stderr):
        yield


@aside()
def load_gptq(config, tensors):
    """By AutoGPTQ, which knows only the older zeros, and by GPTQModel."""
    rows, cols = tensors["qweight"].shape[1], tensors["g_idx"].shape[0]
    bits, group = config["bits"], config["group_size"]
    out = []
    if config["checkpoint_format"] == "gptq":
        layer = peers.autogptq()(bits, group, cols, rows, False,
                                 weight_dtype=tensors["scales"].dtype)
        layer.load_state_dict(tensors)
        out.append(("AutoGPTQ", layer(torch.eye(cols, dtype=tensors["scales"].dtype)).T))
    layer_class, _ = peers.gptqmodel()
    parsed = gptqmodel_config(json.dumps(config))
    assert (parsed.bits, parsed.group_size, parsed.sym) == (bits, group, config["sym"])
    assert str(parsed.format) in (config["checkpoint_format"], f"FORMAT.{parsed.format.name}")
    layer = layer_class(bits=bits, group_size=group, sym=parsed.sym, desc_act=parsed.desc_act,
                        in_features=cols, out_features=rows, bias=False, register_buffers=True,
                        format=parsed.format)
    layer.scales = layer.scales.to(tensors["scales"].dtype)
    layer.load_state_dict(tensors, strict=True)
    if config["checkpoint_format"] == "gptq":
        from gptqmodel.utils.model import convert_gptq_v1_to_v2_format_module
        convert_gptq_v1_to_v2_format_module(layer, bits=bits, pack_dtype=torch.int32)
    layer.eval()
    out.append(("GPTQModel", layer.dequantize_weight().T))
    return out


# --- awq --------------------------------------------------------------------------------------

def load_awq(config, tensors):
    gemm, _, packing = peers.autoawq()
    cols, rows = tensors["qweight"].shape[0], tensors["scales"].shape[1]
    group = config["group_size"] if config["group_size"] > 0 else cols
    layer = gemm.WQLinear_GEMM(4, config["group_size"], cols, rows, False, "cpu")
    layer.scales = layer.scales.to(tensors["scales"].dtype)
    layer.load_state_dict(tensors)
    return [("AutoAWQ", packing.dequantize_gemm(layer.qweight, layer.qzeros, layer.scales, 4, group).T)]


# --- modelopt ---------------------------------------------------------------------------------

def load_modelopt(config, tensors):
    """By the classes that ModelOpt itself unpacks with; it has none for integers by group, nor for
    FP8 by channel and block, whose formulas are those of its export."""
    from modelopt.torch.export import quant_utils
    from modelopt.torch.quantization.qtensor import MXFP4QTensor, MXFP8QTensor, NVFP4QTensor
    algo, w, s = config["quant_algo"], tensors["weight"], tensors["weight_scale"]
    peer = "ModelOpt"
    if algo in ("NVFP4", "W4A16_NVFP4"):
        q = NVFP4QTensor((w.shape[0], w.shape[1] * 2), torch.float32, w)
        out = q.dequantize(torch.float32, scale=s, double_scale=tensors["weight_scale_2"],
                           block_sizes={-1: 16})
    elif algo == "MXFP8":
        out = MXFP8QTensor(w.shape, torch.float32, w).dequantize(torch.float32, scale=s)
    elif algo == "W4A8_MXFP4_FP8":
        q = MXFP4QTensor((w.shape[0], w.shape[1] * 2), torch.float32, w)
        out = q.dequantize(torch.float32, scale=s, block_sizes={-1: 32})
    elif algo == "FP8":
        out = quant_utils.from_quantized_weight(w, s, "fp8", torch.float32)
    elif algo in ("W8A16", "W8A8_SQ_PER_CHANNEL"):
        out = quant_utils.from_quantized_weight(w, s, "int8_wo", torch.float32)
    else:
        # What export makes of the values that the formula gives is the same file.
        peer = "ModelOpt's export, packed again,"
        if algo == "FP8_PER_CHANNEL_PER_TOKEN":
            out = w.float() * s[:, None]
            again = quant_utils.to_quantized_weight(out, s, "fp8_pc_pt")
        elif algo == "fp8_pb_wo":
            wide = s.reshape(s.shape[0], s.shape[2])
            out = w.float() * wide.repeat_interleave(128, 0).repeat_interleave(128, 1)
            again = quant_utils.to_quantized_weight(out, s, "fp8_pb_wo", block_size=128)
        else:
            group = config["group_size"]
            low, high = (w & 15).to(torch.int16), (w >> 4).to(torch.int16)
            codes = torch.stack([low, high], 1).reshape(-1, w.shape[1])
            codes = torch.where(codes > 7, codes - 16, codes).float()
            out = codes * s.repeat_interleave(group, 1)
            again = quant_utils.to_quantized_weight(out, s, "int4_awq", block_size=group)
        assert torch.equal(again.view(torch.uint8), w.view(torch.uint8)), algo
    return [(peer, out)]


# --- fp8 --------------------------------------------------------------------------------------

def fp8_ops(config):
    """transformers' own conversions for a config object."""
    from transformers import FineGrainedFP8Config
    from transformers.integrations import finegrained_fp8
    known = ("activation_scheme", "weight_block_size", "modules_to_not_convert", "scale_fmt")
    parsed = FineGrainedFP8Config(**{k: v for k, v in config.items() if k in known})
    quantizer = types.SimpleNamespace(quantization_config=parsed)
    return finegrained_fp8.Fp8Quantize(quantizer), finegrained_fp8.Fp8Dequantize(quantizer)


def load_fp8(config, tensors):
    _, dequantize = fp8_ops(config)
    w = dequantize._dequantize_one(tensors["weight"], tensors["weight_scale_inv"], torch.float32)
    return [("transformers' FP8", w)]


LOADERS = {"fp8": load_fp8, "compressed-tensors": load_ct, "gptq": load_gptq, "awq": load_awq,
           "modelopt": load_modelopt}


def load(root):
    count = {}
    for name in sorted(os.listdir(root)):
        folder = os.path.join(root, name)
        config = json.load(open(os.path.join(folder, "config.json")))
        tensors = load_file(os.path.join(folder, "model.safetensors"))
        truth = load_file(os.path.join(folder, "truth.safetensors"))["truth"]
        local = {k.removeprefix(MODULE + "."): v for k, v in tensors.items()}
        for peer, w in LOADERS[config["container"]](config["quantization_config"], local):
            own = config["container"] in ("compressed-tensors", "modelopt", "fp8")
            want = truth.to(w.dtype if own else DTYPES[config["dtype"]])
            assert w.shape == want.shape, (name, peer, w.shape)
            if not torch.equal(w.to(want.dtype), want):
                bad = (w.to(want.dtype) != want).sum().item()
                sys.exit(f"{name}: {peer} sees {bad} other weights")
            count[peer] = count.get(peer, 0) + 1
    for peer, n in count.items():
        print(f"written by pith, loaded by {peer}: {n} checkpoints, equal to the bit")


# --- made by the libraries --------------------------------------------------------------------

def grid(w, bits, group, asym, dtype):
    """Scales and zeros for w by its extremes, as [rows, groups]."""
    rows, cols = w.shape
    parts = w.reshape(rows, cols // group, group)
    low, high = parts.amin(-1).clamp(max=0), parts.amax(-1).clamp(min=0)
    top = 2**bits - 1
    if asym:
        s = ((high - low) / top).to(dtype).float()
        return s, torch.clamp(torch.round(-low / s), 1, top)
    s = (torch.maximum(high, -low) * 2 / top).to(dtype).float()
    return s, torch.full_like(s, 2 ** (bits - 1))


def save(root, name, config, tensors, truth):
    folder = os.path.join(root, name)
    os.makedirs(os.path.join(folder, "truth"))
    meta = {"format": "pt"}
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump({"model_type": "llama", "quantization_config": config}, f)
    with open(os.path.join(folder, "truth/config.json"), "w") as f:
        f.write("{}")
    save_file({f"{MODULE}.{k}": v.contiguous() for k, v in tensors.items()},
              os.path.join(folder, "model.safetensors"), metadata=meta)
    save_file({"truth": truth.contiguous()}, os.path.join(folder, "truth/model.safetensors"),
              metadata=meta)


def make_ct(root):
    from compressed_tensors.compressors import BaseCompressor
    from compressed_tensors.quantization import (QuantizationArgs, QuantizationConfig,
                                                 QuantizationScheme, preset_name_to_scheme)
    for preset in ("W4A16", "W4A16_ASYM", "W8A16", "W8A8"):
        for dtype in (torch.bfloat16, torch.float16):
            scheme = preset_name_to_scheme(preset, ["Linear"])
            args = scheme.weights
            w = torch.randn(64, 256)
            group = args.group_size or 256
            s, z = grid(w, args.num_bits, group, not args.symmetric, dtype)
            format_ = "int-quantized" if preset == "W8A8" else "pack-quantized"
            state = {"weight": w, "weight_scale": s.to(dtype)}
            if not args.symmetric:
                state["weight_zero_point"] = (z - 2 ** (args.num_bits - 1)).to(torch.int8)
            compressor = BaseCompressor.get_value_from_registry(format_)
            packed = compressor.compress(state, scheme)
            truth = compressor.decompress(packed, scheme)["weight"]
            config = QuantizationConfig(config_groups={"group_0": scheme}, format=format_,
                                        quantization_status="compressed", ignore=["lm_head"])
            dumped = json.loads(config.model_dump_json())
            save(root, f"ct.{preset}.{dtype}", dumped, packed, truth)
    for bits in (3, 5, 6):
        w = torch.randn(40, 96)
        args = QuantizationArgs(num_bits=bits, symmetric=False, strategy="group", group_size=32)
        scheme = QuantizationScheme(targets=["re:.*mlp.*"], weights=args)
        s, z = grid(w, bits, 32, True, torch.bfloat16)
        state = {"weight": w, "weight_scale": s.to(torch.bfloat16),
                 "weight_zero_point": (z - 2 ** (bits - 1)).to(torch.int8)}
        compressor = BaseCompressor.get_value_from_registry("pack-quantized")
        packed = compressor.compress(state, scheme)
        config = QuantizationConfig(config_groups={"group_0": scheme}, format="pack-quantized",
                                    quantization_status="compressed", ignore=["lm_head"])
        save(root, f"ct.int{bits}", json.loads(config.model_dump_json()), packed,
             compressor.decompress(packed, scheme)["weight"])


def ct_scales(w, args):
    """Scales as llm-compressor's observers find them, in shapes that the compressors want."""
    from compressed_tensors.quantization.utils import calculate_qparams, generate_gparam
    rows, cols = w.shape
    strategy, group = args.strategy, args.group_size
    state = {}
    if strategy == "tensor":
        low, high = w.amin().reshape(1), w.amax().reshape(1)
    elif strategy == "channel":
        low, high = w.amin(1, keepdim=True), w.amax(1, keepdim=True)
    elif strategy == "block":
        n, k = args.block_structure
        padded = torch.nn.functional.pad(w, (0, -cols % k, 0, -rows % n))
        parts = padded.reshape(padded.shape[0] // n, n, padded.shape[1] // k, k)
        low, high = parts.amin((1, 3)), parts.amax((1, 3))
    else:
        parts = w.reshape(rows, cols // group, group)
        low, high = parts.amin(-1), parts.amax(-1)
    if strategy == "tensor_group":
        state["weight_global_scale"] = generate_gparam(w.amin().float(), w.amax().float())
    state["weight_scale"], _ = calculate_qparams(low, high, args,
                                                 global_scale=state.get("weight_global_scale"))
    return state


ROWS, COLS = 64, 256  # of the matrices that are made


def make_ct_layouts(root):
    from compressed_tensors.compressors import BaseCompressor, format as formats
    from compressed_tensors.quantization import QuantizationConfig, preset_name_to_scheme
    for preset in ("FP8", "FP8_DYNAMIC", "FP8_BLOCK", "NVFP4A16", "NVFP4", "MXFP4A16", "MXFP4",
                   "MXFP6A16", "MXFP6A8", "MXFP8A16", "MXFP8", "MXFP4XFP8"):
        for dtype in (torch.bfloat16, torch.float32):
            try:
                scheme = preset_name_to_scheme(preset, ["Linear"])
            except KeyError:
                print("no preset", preset, file=sys.stderr)
                continue
            w = torch.randn((160, 256) if "BLOCK" in preset else (ROWS, COLS)).to(dtype)
            state = dict(ct_scales(w, scheme.weights), weight=w)
            inputs = scheme.input_activations
            if inputs and not inputs.dynamic:
                state["input_scale"] = torch.tensor([0.0123], dtype=dtype)
            if inputs and inputs.dynamic == "local":
                state["input_global_scale"] = torch.tensor([123.4], dtype=torch.float32)
            format_ = formats.infer_module_format(torch.nn.Linear, scheme).value
            compressor = BaseCompressor.get_value_from_registry(format_)
            packed = compressor.compress(state, scheme)
            truth = compressor.decompress(packed, scheme)["weight"]
            config = QuantizationConfig(config_groups={"group_0": scheme}, format=format_,
                                        quantization_status="compressed", ignore=["lm_head"])
            dumped = json.loads(config.model_dump_json())
            save(root, f"ct.{preset}.{dtype}", dumped, packed, truth)
            if "weight_packed" in packed and format_ != "pack-quantized":
                save(root, f"ct.{preset}.{dtype}.float32", dumped, packed,
                     in_float32(compressor, scheme, packed))


MODELOPT = ("FP8_DEFAULT_CFG", "FP8_PER_CHANNEL_PER_TOKEN_CFG", "FP8_2D_BLOCKWISE_WEIGHT_ONLY_CFG",
            "NVFP4_DEFAULT_CFG", "W4A16_NVFP4_CFG", "MXFP8_DEFAULT_CFG", "W4A8_MXFP4_FP8_CFG",
            "INT8_WEIGHT_ONLY_CFG", "INT4_BLOCKWISE_WEIGHT_ONLY_CFG")


def modelopt_export(model, name, folder, copied=lambda model: model):
    """Calibrated on random tokens and exported; of a copy, the model stays one of fake quantization, with
    the scales that export lets q, k, v and gate, up share."""
    import modelopt.torch.quantization as mtq
    from modelopt.torch.export import export_hf_checkpoint, unified_export_hf
    tokens = torch.randint(0, model.config.vocab_size, (4, 64))
    mtq.quantize(model, getattr(mtq, name), lambda m: m(tokens))
    unified_export_hf.requantize_resmooth_fused_llm_layers(model)
    with torch.inference_mode():
        export_hf_checkpoint(copied(model), export_dir=folder)


@aside()
def make_modelopt(root):
    """One linear of a small model that ModelOpt quantizes and exports."""
    import tempfile
    from transformers import LlamaConfig, LlamaForCausalLM
    for name in MODELOPT:
        config = LlamaConfig(vocab_size=512, hidden_size=256, intermediate_size=512,
                             num_hidden_layers=1, num_attention_heads=4, num_key_value_heads=2,
                             architectures=["LlamaForCausalLM"])
        model = LlamaForCausalLM(config).float().eval()
        with tempfile.TemporaryDirectory() as folder:
            modelopt_export(model, name, folder)
            tensors = load_file(os.path.join(folder, "model.safetensors"))
            config = json.load(open(os.path.join(folder, "config.json")))["quantization_config"]
            alone = json.load(open(os.path.join(folder, "hf_quant_config.json")))["quantization"]
        prefix = "model.layers.0.mlp.down_proj."
        local = {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
        (_, truth), = load_modelopt(alone, local)  # fake quantization rounds otherwise, or needs a GPU
        save(root, "modelopt." + name, config, local, truth)


def make_fp8(root):
    for block, scale_fmt in ((128, "float"), (128, "ue8m0"), (64, "float")):
        config = {"quant_method": "fp8", "activation_scheme": "dynamic", "scale_fmt": scale_fmt,
                  "weight_block_size": [block, block], "modules_to_not_convert": ["lm_head"]}
        quantize, _ = fp8_ops(config)
        made = quantize._quantize_one("weight", torch.randn(256, 384))
        tensors = {"weight": made["weight"], "weight_scale_inv": made["weight_scale_inv"]}
        (_, truth), = load_fp8(config, tensors)
        save(root, f"fp8.{block}.{scale_fmt}", config, tensors, truth)


def linear(w):
    layer = torch.nn.Linear(w.shape[1], w.shape[0], bias=False)
    layer.weight.data = w.clone()
    return layer


@aside()
def make_gptq(root):
    gptqmodel, config_module = peers.gptqmodel()
    for bits in (2, 3, 4, 8):
        for asym in (False, True):
            for order in (False, True):
                w = torch.randn(96, 256)
                s, z = grid(w, bits, 64, asym, torch.float16)
                g_idx = (torch.randperm(256) if order else torch.arange(256)) // 64
                config = {"quant_method": "gptq", "bits": bits, "group_size": 64, "sym": not asym,
                          "desc_act": order, "checkpoint_format": "gptq"}
                name = f"{bits}.{asym}.{order}"
                layer = peers.autogptq()(bits, 64, 256, 96, False)
                layer.pack(linear(w), s.clone(), z.clone(), g_idx.to(torch.int32))
                # Codes beyond the grid would spill into their neighbours: AutoGPTQ does not clamp.
                tensors = {k: getattr(layer, k) for k in ("qweight", "qzeros", "scales", "g_idx")}
                tensors["scales"] = tensors["scales"].half()
                if not order:
                    layer.scales = layer.scales.half()
                    truth = layer(torch.eye(256, dtype=torch.float16)).T
                    save(root, "autogptq." + name, config, tensors, truth)
                layer = gptqmodel(bits=bits, group_size=64, sym=not asym, desc_act=order,
                                  in_features=256, out_features=96, bias=False,
                                  register_buffers=True, format=config_module.FORMAT.GPTQ_V2)
                layer.pack_original(linear(w), s.clone(), z.clone(), g_idx.to(torch.int32))
                layer.eval()
                tensors = {k: getattr(layer, k) for k in ("qweight", "qzeros", "scales", "g_idx")}
                save(root, "gptqmodel." + name, dict(config, checkpoint_format="gptq_v2"), tensors,
                     layer.dequantize_weight().T)


def make_awq(root):
    gemm, gemv, packing = peers.autoawq()
    for group in (32, 64, 128):
        w = torch.randn(64, 256)
        s, z = grid(w, 4, group, True, torch.float16)
        # AutoAWQ does not clamp when it packs: what it quantizes lies on its grid already.
        k = torch.arange(256) // group
        q = torch.clamp(torch.round(w / s[:, k]) + z[:, k], 0, 15)
        w = (q - z[:, k]) * s[:, k]
        config = {"quant_method": "awq", "bits": 4, "group_size": group, "zero_point": True}
        layer = gemm.WQLinear_GEMM.from_linear(linear(w), 4, group, scales=s.T.contiguous(),
                                               zeros=z.T.contiguous())
        tensors = {n: getattr(layer, n) for n in ("qweight", "qzeros", "scales")}
        truth = packing.dequantize_gemm(layer.qweight, layer.qzeros, layer.scales, 4, group).T
        save(root, f"autoawq.gemm.{group}", dict(config, version="gemm"), tensors, truth)
        layer = gemv.WQLinear_GEMV.from_linear(linear(w), 4, group, scales=s, zeros=z)
        tensors = {n: getattr(layer, n) for n in ("qweight", "qzeros", "scales")}
        save(root, f"autoawq.gemv.{group}", dict(config, version="gemv"), tensors, w.half())


def main():
    torch.manual_seed(0)
    if sys.argv[1:2] == ["load"] and len(sys.argv) == 3:
        load(sys.argv[2])
    elif sys.argv[1:2] == ["make"] and len(sys.argv) == 3:
        make_ct(sys.argv[2])
        make_ct_layouts(sys.argv[2])
        make_modelopt(sys.argv[2])
        make_fp8(sys.argv[2])
        make_gptq(sys.argv[2])
        make_awq(sys.argv[2])
    else:
        sys.exit("usage: containers.py load|make DIR")


if __name__ == "__main__":
    main()
