#!/usr/bin/env python3
"""Makes the golden files of the container tests: matrices known by formula (tests/interop/ramps.py and
tests/ramp.h), packed by the libraries whose containers they are.

    cases.json           what each module is
    <peer>.safetensors   the tensors of all modules that this peer packed

Run it with a Python that has torch, transformers, safetensors and compressed-tensors, and PEERS
naming the folder that `tests/interop/peers.py fetch` made. Made with compressed-tensors 0.20.0 and
0.17.1, AutoGPTQ 0.7.1, GPTQModel 7.7.0, AutoAWQ 0.2.9.
"""
import json
import os
import sys

import torch
from safetensors.torch import save_file

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../../interop"))
import peers  # noqa: E402
import ramps  # noqa: E402

CASES, TENSORS = [], {}


def add(peer, case, tensors):
    """Checks nothing: the caller has made the peer dequantize what it packed."""
    case["file"] = peer + ".safetensors"
    CASES.append(case)
    for name, tensor in tensors.items():
        TENSORS.setdefault(peer, {})[f"{case['module']}.{name}"] = tensor.contiguous()


def case(module, rows, cols, bits, group, zeros, strategy="group", permuted=False, dtype="F16"):
    return {"module": module, "rows": rows, "cols": cols, "bits": bits, "group": group,
            "zeros": zeros, "strategy": strategy, "permuted": permuted, "dtype": dtype}


def linear(w):
    layer = torch.nn.Linear(w.shape[1], w.shape[0], bias=False)
    layer.weight.data = w.clone()
    return layer


# --- compressed-tensors -----------------------------------------------------------------------

def args_of(c):
    args = {"num_bits": c["bits"], "type": "int", "symmetric": c["zeros"] == "sym",
            "strategy": c["strategy"], "dynamic": False}
    if c["strategy"] == "group":
        args["group_size"] = c["group"]
    return args


def ct_config(c, fmt, version):
    group = {"targets": ["Linear"], "weights": args_of(c), "input_activations": None,
             "output_activations": None}
    if c["permuted"]:
        group["weights"]["actorder"] = "group"
    if fmt == "int-quantized":
        group["input_activations"] = {"num_bits": 8, "type": "int", "symmetric": True,
                                      "strategy": "token", "dynamic": True}
    return {"quant_method": "compressed-tensors", "format": fmt, "version": version,
            "quantization_status": "compressed", "ignore": ["lm_head"],
            "config_groups": {"group_0": group}}


def compressed_tensors():
    from compressed_tensors.compressors import BaseCompressor
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
    dtypes = {"F16": torch.float16, "BF16": torch.bfloat16, "F32": torch.float32}
    list_ = [(b, g, z, s) for b in range(2, 9) for g, z, s in (
        (32, "sym", "group"), (0, "sym", "channel"), (16, "asym", "group"))]
    list_ += [(4, 0, "asym", "channel"), (8, 0, "asym", "channel"), (4, 0, "sym", "tensor"),
              (8, 0, "sym", "tensor"), (4, 0, "asym", "tensor")]
    for fmt in ("pack-quantized", "int-quantized"):
        for i, (b, g, z, s) in enumerate(list_):
            if fmt == "int-quantized" and b not in (4, 8):
                continue
            dtype = ("BF16", "F16", "F32")[i % 3]
            module = f"{fmt}.{s}{g}.{z}.{b}"
            c = case(module, 40, 96, b, g, z, s, dtype=dtype)
            q, zero, scale, g_idx, w = ramps.weights(c)
            offset = 2 ** (b - 1)
            state = {"weight": w, "weight_scale": scale.to(dtypes[dtype])}
            if s == "tensor":
                state["weight_scale"] = state["weight_scale"].reshape(1)
            if z != "sym":
                state["weight_zero_point"] = (zero - offset).to(torch.int8).reshape(
                    state["weight_scale"].shape)
            scheme = QuantizationScheme(targets=["Linear"], weights=QuantizationArgs(**args_of(c)))
            compressor = BaseCompressor.get_value_from_registry(fmt)
            packed = compressor.compress(state, scheme)
            back = compressor.decompress(packed, scheme)["weight"]
            assert torch.equal(back.float(), w.to(dtypes[dtype]).float()), module
            c.update(container="compressed-tensors", config=ct_config(c, fmt, "0.20.0"))
            add("compressed_tensors", c, packed)


def compressed_tensors_older():
    """Words that hold floor(32 / bits) codes, and act-order groups; version 0.17."""
    older = peers.ct_older()
    for b in range(2, 9):
        for g, z in ((32, "sym"), (16, "asym")):
            permuted = g == 32
            c = case(f"older.{z}.{b}", 40, 96, b, g, z, permuted=permuted, dtype="BF16")
            q, zero, scale, g_idx, _ = ramps.weights(c)
            offset = 2 ** (b - 1)
            packed = {"weight_packed": older.pack_to_int32((q - offset).to(torch.int8), b),
                      "weight_scale": scale.to(torch.bfloat16),
                      "weight_shape": torch.tensor(q.shape)}
            if z != "sym":
                packed["weight_zero_point"] = older.pack_to_int32(
                    (zero - offset).to(torch.int8), b, packed_dim=0)
            if permuted:
                packed["weight_g_idx"] = g_idx.to(torch.int32)
            c.update(container="compressed-tensors", config=ct_config(c, "pack-quantized", "0.17.1"))
            add("compressed_tensors_older", c, packed)


# --- gptq -------------------------------------------------------------------------------------

def gptq_config(c, v2):
    return {"quant_method": "gptq", "bits": c["bits"], "group_size": c["group"] or -1,
            "desc_act": c["permuted"], "sym": c["zeros"] == "sym",
            "checkpoint_format": "gptq_v2" if v2 else "gptq"}


def autogptq():
    layer_class = peers.autogptq()
    for b in (2, 3, 4, 8):
        for g, z, permuted in ((32, "sym", False), (32, "asym1", True), (0, "sym", False)):
            c = case(f"autogptq.{g}.{z}.{b}", 64, 96, b, g, z, permuted=permuted,
                     strategy="group" if g else "channel")
            q, zero, scale, g_idx, w = ramps.weights(c)
            layer = layer_class(b, g or -1, 96, 64, False, weight_dtype=torch.float32)
            layer.pack(linear(w), scale.clone(), zero.float(), g_idx.to(torch.int32))
            c.update(container="gptq", config=gptq_config(c, False))
            add("autogptq", c, {"qweight": layer.qweight, "qzeros": layer.qzeros,
                                "scales": layer.scales.half(), "g_idx": layer.g_idx})


def gptqmodel():
    """Packs v2; the zeros of v1 are what its own conversion makes of them."""
    layer_class, config = peers.gptqmodel()
    for b in (2, 3, 4, 8):
        for g, z, permuted in ((32, "sym", False), (32, "asym", True), (0, "asym", False)):
            c = case(f"gptqmodel.{g}.{z}.{b}", 64, 96, b, g, z, permuted=permuted,
                     strategy="group" if g else "channel")
            q, zero, scale, g_idx, w = ramps.weights(c)
            layer = layer_class(bits=b, group_size=g or -1, sym=z == "sym", desc_act=permuted,
                                in_features=96, out_features=64, bias=False, register_buffers=True,
                                format=config.FORMAT.GPTQ_V2)
            layer.pack_original(linear(w), scale.clone(), zero.float(), g_idx.to(torch.int32))
            layer.eval()
            back = layer.dequantize_weight().T
            assert torch.equal(back.half().float(), w.half().float()), c["module"]
            c.update(container="gptq", config=gptq_config(c, True))
            add("gptqmodel", c, {"qweight": layer.qweight, "qzeros": layer.qzeros,
                                 "scales": layer.scales, "g_idx": layer.g_idx})


# --- awq --------------------------------------------------------------------------------------

def autoawq():
    gemm, gemv, packing = peers.autoawq()
    for g, cols, z in ((32, 96, "asym"), (64, 192, "asym"), (128, 128, "sym")):
        for kind, layer_class in (("gemm", gemm.WQLinear_GEMM), ("gemv", gemv.WQLinear_GEMV)):
            c = case(f"awq.{kind}.{g}", 64, cols, 4, g, z)
            q, zero, scale, g_idx, w = ramps.weights(c)
            s, zr = scale, zero.float()
            if kind == "gemm":
                s, zr = s.T.contiguous(), zr.T.contiguous()
            layer = layer_class.from_linear(linear(w), 4, g, scales=s, zeros=zr)
            if kind == "gemm":
                back = packing.dequantize_gemm(layer.qweight, layer.qzeros, layer.scales, 4, g).T
                assert torch.equal(back.float(), w.half().float()), c["module"]
            c.update(container="awq", config={
                "quant_method": "awq", "bits": 4, "group_size": g, "zero_point": True,
                "version": kind, "modules_to_not_convert": None})
            add("autoawq", c, {"qweight": layer.qweight, "qzeros": layer.qzeros,
                               "scales": layer.scales})


def main():
    compressed_tensors()
    compressed_tensors_older()
    autogptq()
    gptqmodel()
    autoawq()
    with open(os.path.join(HERE, "cases.json"), "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(c) for c in CASES) + "\n]\n")
    for peer, tensors in TENSORS.items():
        save_file(tensors, os.path.join(HERE, peer + ".safetensors"), metadata={"format": "pt"})


if __name__ == "__main__":
    main()
