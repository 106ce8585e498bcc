#!/usr/bin/env python3
"""Makes the seeds of fuzz/fuzz_container.c (their form is told there) from the golden files here, and
some of the configs that the hostile tests try. Needs nothing but Python."""
import json
import os
import struct

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.path.join(HERE, "../../../fuzz/corpus/container")
SUFFIXES = [".qweight", ".qzeros", ".scales", ".g_idx", ".weight", ".weight_packed",
            ".weight_scale", ".weight_shape", ".weight_zero_point", ".weight_g_idx", ".bias", ".other",
            ".lookup_table", ".rows", ".cols", ".vals", ".full_rows", ".weight_global_scale",
            ".input_global_scale", ".input_scale", ".input_zero_point", ".weight_scale_2",
            ".weight_scale_inv", ".pre_quant_scale", ".SCB", ".weight_format", ".weight.absmax",
            ".weight.quant_map", ".weight.nested_absmax", ".weight.nested_quant_map",
            ".weight.quant_state.bitsandbytes__nf4", ".weight.quant_state.bitsandbytes__fp4",
            ".W_q", ".scale", ".zero", ".shape", ".nbits", ".group_size", ".axis", ".channel_wise",
            ".view_as_float", ".quant_scale", ".quant_zero"]
DTYPES = {"U8": 4, "I8": 5, "F8_E4M3": 7, "F16": 13, "BF16": 14, "I32": 15, "F32": 17, "I64": 20}  # enum pith_dtype
CT = {"quant_method": "compressed-tensors"}
INT8 = {"num_bits": 8, "type": "int", "strategy": "channel", "symmetric": True}
TURN = {"u": {"type": "hadamard", "requires_grad": False, "head_dim": 32, "apply": [
    {"targets": ["re:.*up_proj$"], "location": "input", "inverse": False, "ignore": []},
    {"targets": ["re:.*up_proj$"], "location": "weight_input", "inverse": True, "ignore": []}]}}
CONFIGS = [
    {"quant_method": "gptq", "bits": 4, "group_size": 32, "dynamic": {"+:.*up": {"bits": 8}}},
    {"quant_method": "gptq", "bits": 4, "group_size": 32, "dynamic": {"-:([a-z.]+)+[A-Z]$": {}}},
    {"quant_method": "fp8", "weight_block_size": [64, 64], "ignored_layers": ["x"]},
    {"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION", "quantized_layers": {
        "model.layers.0.mlp.up_proj": {"quant_algo": "NVFP4"}}, "ignore": ["*.lm*d", "?"]},
    {"quant_method": "awq", "w_bit": 4, "q_group_size": 32, "modules_to_not_convert": ["down"]},
    {"quant_method": "compressed-tensors", "format": "pack-quantized", "ignore": ["re:.*gate$"],
     "config_groups": {"a": {"targets": ["re:.*up_proj"], "weights": {"num_bits": 4}},
                       "b": {"targets": ["Linear"], "weights": {"num_bits": 8}}}},
]


# What bitsandbytes' golden files (module "m", 24 x 128) are told by.
BITSANDBYTES = {
    "int8": {"load_in_8bit": True, "llm_int8_threshold": 6.0},
    "nf4": {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4"},
    "nested": {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": True},
    "fp4": {"load_in_4bit": True, "bnb_4bit_quant_type": "fp4"},
}


def small():
    """Bytes that stay bytes, and rotations that the loader undoes: matrices of 8 x 32."""
    case = {"rows": 8, "cols": 32}
    scale = ("F32", [8, 1], struct.pack("<8f", *[0.01 * (i + 1) for i in range(8)]))
    naive = {".weight": ("I8", [8, 32], bytes(range(256))), ".weight_scale": scale}
    whole = {".weight": ("F32", [8, 32], struct.pack("<256f", *[i / 256 for i in range(256)]))}
    float8 = {".weight": ("F8_E4M3", [8, 32], bytes([i % 120 for i in range(256)])), ".weight_scale": scale}
    group = {"a": {"targets": ["Linear"], "weights": INT8}}
    group8 = {"a": {"targets": ["Linear"], "weights": dict(INT8, type="float")}}
    config = dict(CT, format="naive-quantized", config_groups=group)
    yield "naive.int8", seed(case, config, naive)
    yield "naive.float8", seed(case, dict(config, config_groups=group8), float8)
    yield "naive.whole", seed(case, config, whole)
    yield "turn", seed(case, dict(config, format="int-quantized",
                                  transform_config={"config_groups": TURN}), naive)
    inputs = dict(INT8, strategy="tensor", symmetric=False, dynamic=False)
    group = {"a": {"targets": ["Linear"], "weights": INT8, "input_activations": inputs}}
    yield "static.asym", seed(case, dict(CT, format="int-quantized", config_groups=group), dict(
        naive, **{".input_scale": ("F32", [1], struct.pack("<f", 0.1)),
                  ".input_zero_point": ("I8", [1], b"\3")}))
    blocks = {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic",
              "weight_block_size": [8, 8]}
    yield "fp8.blocks", seed(case, blocks, {
        ".weight": float8[".weight"],
        ".weight_scale_inv": ("F32", [1, 4], struct.pack("<4f", 1, 2, 0.5, 0.1))})
    for bits, codes in (3, ("I32", [1, 32], bytes(range(128)))), (4, ("U8", [4, 32], bytes(range(128)))):
        yield f"hqq.{bits}", seed(case, {"quant_method": "hqq"}, {
            ".W_q": codes, ".scale": ("F16", [8, 1], struct.pack("<8e", *[0.01 * (i + 1) for i in range(8)])),
            ".zero": ("F16", [8, 1], struct.pack("<8e", *[i + 0.3 for i in range(8)])),
            ".shape": ("I64", [2], struct.pack("<2q", 8, 32)), ".nbits": ("I32", [], struct.pack("<i", bits)),
            ".group_size": ("I32", [], struct.pack("<i", 32)), ".axis": ("I32", [], struct.pack("<i", 1)),
            ".channel_wise": ("U8", [], b"\1"), ".view_as_float": ("U8", [], b"\0"),
            ".quant_scale": ("U8", [], b"\0"), ".quant_zero": ("U8", [], b"\0")})
    for name, how in BITSANDBYTES.items():
        file = read(os.path.join(HERE, "../bitsandbytes", name + ".safetensors"))
        tensors = {k[1:]: v for k, v in file.items() if k.startswith("m.")}
        yield "bitsandbytes." + name, seed({"rows": 24, "cols": 128},
                                           dict(how, quant_method="bitsandbytes"), tensors)


def seed(case, config, tensors):
    text = json.dumps(config).encode()
    out = bytes([case["rows"] // 8 - 1, case["cols"] // 8 - 1]) + struct.pack("<H", len(text)) + text
    pool = b""
    for name, (dtype, shape, data) in tensors.items():
        first, second = (shape + [1, 1])[:2]
        out += bytes([SUFFIXES.index(name) + 1, DTYPES[dtype], len(shape)])
        out += struct.pack("<HH", first, second)
        pool += data
    return out + b"\0" + pool


def read(path):
    raw = open(path, "rb").read()
    size = struct.unpack("<Q", raw[:8])[0]
    head = json.loads(raw[8:8 + size])
    head.pop("__metadata__", None)
    return {k: (v["dtype"], v["shape"], raw[8 + size + v["data_offsets"][0]:
                                            8 + size + v["data_offsets"][1]])
            for k, v in head.items()}


def main():
    os.makedirs(OUT, exist_ok=True)
    cases = json.load(open(os.path.join(HERE, "cases.json")))
    first = None
    for i, case in enumerate(cases):
        # Small ones of each kind are enough.
        if case["bits"] not in (3, 4) and i % 5:
            continue
        tensors = {k[len(case["module"]):]: v
                   for k, v in read(os.path.join(HERE, case["file"])).items()
                   if k.startswith(case["module"] + ".")}
        name = case["module"].replace("/", "_")
        first = first or (case, tensors)
        open(os.path.join(OUT, name), "wb").write(seed(case, case["config"], tensors))
    # Layouts of floats, by compressed-tensors and ModelOpt.
    for folder, size in (("ct_layouts", None), ("modelopt", {"rows": 128, "cols": 256})):
        place = os.path.join(HERE, "..", folder)
        file = read(os.path.join(place, {"ct_layouts": "layouts"}.get(folder, folder) + ".safetensors"))
        for case in json.load(open(os.path.join(place, "cases.json"))):
            tensors = {k[len(case["module"]):]: v for k, v in file.items()
                       if k.startswith(case["module"] + ".") and not k.endswith(".want")}
            if max(len(v[1]) for v in tensors.values()) < 3 and case.get("rows", 16) == 16:
                open(os.path.join(OUT, case["module"]), "wb").write(
                    seed(size or case, case["config"], tensors))
    for name, bytes_ in small():
        open(os.path.join(OUT, name), "wb").write(bytes_)
    for i, config in enumerate(CONFIGS):
        open(os.path.join(OUT, f"config{i}"), "wb").write(seed(first[0], config, first[1]))


if __name__ == "__main__":
    main()
