#!/usr/bin/env python3
"""Seeds of fuzz_model, from the cases of tests/golden/arch: config.json on a line, a line for each tensor, bytes that
they are filled with. Of one case what pith makes of it in several containers; of some the GGUF file that pith makes,
cut behind its header.

    make_models.py [FOLDER]      PITH names the program (build/pith); FOLDER: fuzz/corpus/model

Run it with a Python that has gguf and safetensors.
"""
import json
import os
import struct
import subprocess
import sys
import tempfile

from gguf import GGUFReader

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
GOLDEN = os.path.join(ROOT, "tests", "golden", "arch")
PITH = os.environ.get("PITH", os.path.join(ROOT, "build", "pith"))
# As float32, float16 and bfloat16 these are small numbers of both signs.
FILL = bytes([0x31, 0x3C, 0x5A, 0xBB, 0x17, 0x3A, 0x74, 0xBC, 0x2E, 0x3B, 0x0D, 0xBA, 0x66, 0x3D, 0x48, 0xBD])
LARGE = bytes([0x00, 0x62, 0x00, 0xE2])  # as bfloat16 5.9e20 of both signs
# One of each architecture: a config alone, whose tensors the target makes.
CONFIGS = """cohere cohere2 cohere_norm deepseek_v2 deepseek_v3 ernie4_5 ernie4_5_moe exaone4 gemma2 gemma3 gemma4 gemma4_small
glm4 glm4_moe glm4_moe_lite gpt_neox gpt_oss granite granitemoe granitemoehybrid granitemoeshared lfm2 lfm2_moe llama
llama4 minimax_m2 ministral3 mixtral olmo2 olmoe opt opt_post phi3 phi3_long qwen2 qwen2_moe qwen3 qwen3_5 qwen3_moe
qwen3_next seed_oss smollm3""".split()
# Those that store tensors otherwise, and some more, with their lists of tensors.
CASES = """deepseek_v3_old gemma3_vl gpt2_old gpt_neox gpt_oss gpt_oss_mxfp4 granitemoe lfm2 llama llama4_vl mistral3_vl
mixtral_old opt phi3 qwen2_5_vl qwen3_5_moe_fused qwen3_moe_fused qwen3_next_old qwen3_vl_moe""".split()
# Widths of more than one group of 32.
WIDE = {"config": {"hidden_size": 64, "head_dim": 16, "intermediate_size": 64, "num_key_value_heads": 4},
        "shapes": {"proj.weight": [64, 64], "norm.weight": [64], "tokens.weight": [80, 64], "head.weight": [80, 64]}}
# The same of one whose columns lie in another order in a GGUF file, in pieces that blocks reach over.
PIECES = {"config": {"hidden_size": 64, "intermediate_size": 64, "linear_key_head_dim": 24, "linear_value_head_dim": 24},
          "shapes": {"linear_attn.norm.weight": [24], "q_norm.weight": [16], "k_norm.weight": [16], "norm.weight": [64],
                     "tokens.weight": [80, 64], "head.weight": [80, 64], "proj_a.weight": [4, 64], "proj_b.weight": [4, 64],
                     "proj_qkv.weight": [192, 64], "conv1d.weight": [192, 1, 4], "k_proj.weight": [32, 64],
                     "v_proj.weight": [32, 64], "q_proj.weight": [128, 64], "out_proj.weight": [64, 96],
                     "proj.weight": [64, 64], "proj_z.weight": [96, 64]}}
# Beside those of tests/cli/gguf_cases.txt.
GGUF = {
    "gpt_neox": {}, "llama": WIDE,
    "gpt_oss_mxfp4": {"config": {"rope_scaling": {"rope_type": "default"}, "swiglu_limit": 7.0}},
}
CONTAINERS = {
    "gptq": "int4:g32", "awq": "int4:g32:asym", "compressed-tensors": "int8:channel", "bitsandbytes": "nf4:g32",
    "modelopt": "nvfp4",
}


def text(config, lines, fill=FILL):
    first = json.dumps(config, separators=(",", ":"))
    return "\n".join([first] + lines).encode() + b"\n\n" + fill


def seed(case, tensors, fill=FILL):
    with open(os.path.join(GOLDEN, case + ".json")) as f:
        case = json.load(f)
    lines = [f"{byte[0] if byte else 'F32'} {','.join(map(str, shape))} {name}" for name, shape, _, *byte in case["tensors"]]
    return text(case["config"], lines if tensors else [], fill)


def period(data):
    """What is enough to say, for it is repeated."""
    return next(data[:n] for n in range(1, len(data) + 1) if (data[:n] * (len(data) // n + 1))[:len(data)] == data)


def of_folder(folder):
    """A folder's tensors, with the bytes of those that are small: scales, zero points, what describes others."""
    with open(folder + "/model.safetensors", "rb") as f:
        (size,) = struct.unpack("<Q", f.read(8))
        header, body = json.loads(f.read(size)), f.read()
    lines = []
    for name, t in sorted(header.items()):
        if name == "__metadata__":
            continue
        data = body[slice(*t["data_offsets"])]
        small = len(data) <= 128 or name.endswith("g_idx") or "quant_state" in name
        known = " =" + period(data).hex() if small and "norm" not in name else ""
        lines.append(f"{t['dtype']} {','.join(map(str, t['shape']))} {name}{known}")
    with open(folder + "/config.json") as f:
        return text(json.load(f), lines)


def of_gguf(path):
    with open(path, "rb") as f:
        data = f.read()
    head = data[:GGUFReader(path).data_offset]
    return head + FILL * 4 + struct.pack("<I", len(data))


def with_q8_0(path, name):
    """The same with a tensor of float32 in blocks, as llama.cpp has it where they reach over a head."""
    data, shift = bytearray(of_gguf(path)), 0
    for t in GGUFReader(path).tensors:
        at = t.field.offset + 8 + len(t.name) + 4 + 8 * len(t.shape)
        kind, offset = struct.unpack_from("<IQ", data, at)
        struct.pack_into("<IQ", data, at, 8 if t.name == name else kind, offset - shift)
        if t.name == name:
            assert kind == 0
            shift = 4 * t.n_elements - t.n_elements // 32 * 34
            assert shift % 32 == 0
    (size,) = struct.unpack_from("<I", data, len(data) - 4)
    struct.pack_into("<I", data, len(data) - 4, size - shift)
    return bytes(data)


def gguf_cases():
    with open(os.path.join(ROOT, "tests", "cli", "gguf_cases.txt")) as f:
        rows = [line.split(None, 2) for line in f if not line.startswith("#")]
    return GGUF | {case: json.loads(patch[0]) if patch else {} for case, _, *patch in rows}


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(" ".join(command) + "\n" + done.stderr)


def make(case, work, patch):
    folder, tests = os.path.join(work, case), os.path.join(ROOT, "tests", "cli")
    if not os.path.exists(folder):
        run(sys.executable, tests + "/arch_case.py", case, folder, folder + ".txt", json.dumps(patch))
        run(sys.executable, tests + "/byte_tokens.py", folder)
    return folder


def main():
    out = sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, "fuzz", "corpus", "model")
    os.makedirs(out, exist_ok=True)
    seeds = {case + ".config": seed(case, False) for case in CONFIGS} | {case: seed(case, True) for case in CASES}
    for case in ("qwen3_5", "granitemoehybrid"):
        seeds[case + ".large_values"] = seed(case, False, LARGE)
    with tempfile.TemporaryDirectory() as work:
        for case, patch in gguf_cases().items():
            path = os.path.join(work, case + ".gguf")
            run(PITH, "convert", make(case, work, patch), "-o", path, "--quiet")
            seeds[case + ".gguf"] = of_gguf(path)
        for container, weights in CONTAINERS.items():
            path = os.path.join(work, container)
            run(PITH, "quantize", make("llama", work, WIDE), "-o", path, "-r", "rtn", "--weights", weights, "--container",
                container, "--quiet")
            seeds["llama_" + container] = of_folder(path)
        os.rename(work + "/qwen3_5", work + "/narrow")
        run(PITH, "quantize", make("qwen3_5", work, PIECES), "-o", work + "/q8_0.gguf", "-r", "rtn", "--weights", "q8_0",
            "--quiet")
        seeds["qwen3_5_q8_0.gguf"] = of_gguf(work + "/q8_0.gguf")
        seeds["qwen3_5_over.gguf"] = with_q8_0(work + "/q8_0.gguf", "blk.0.ssm_out.weight")
        run(PITH, "convert", work + "/gptq", "-o", work + "/gptq.gguf", "--quiet")
        seeds["llama_gptq.gguf"] = of_gguf(work + "/gptq.gguf")
    seeds["unknown.gguf"] = seeds["llama.gguf"].replace(b"llama", b"alpac")
    for name, data in seeds.items():
        with open(os.path.join(out, name), "wb") as f:
            f.write(data)


if __name__ == "__main__":
    main()
