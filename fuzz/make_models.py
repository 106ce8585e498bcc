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
# One of each architecture, and those that store tensors otherwise.
CASES = """cohere cohere2 cohere_norm deepseek_v2 deepseek_v3 ernie4_5 ernie4_5_moe exaone4 gemma2 gemma3 gemma3_vl
gemma4 gemma4_vl glm4 glm4_moe glm4_moe_lite gpt2 gpt2_old gpt_neox gpt_oss gpt_oss_mxfp4 granite granitemoe
granitemoehybrid granitemoeshared lfm2 lfm2_moe llama llama4 llama4_vl minimax_m2 ministral3 mistral3_vl mixtral olmo2
olmoe opt opt_post phi3 phi3_long qwen2 qwen2_5_vl qwen2_moe qwen3 qwen3_5 qwen3_5_moe_fused qwen3_moe
qwen3_moe_fused qwen3_next qwen3_vl_moe seed_oss smollm3""".split()
# Widths of more than one group of 32.
WIDE = {"config": {"hidden_size": 64, "head_dim": 16, "intermediate_size": 64, "num_key_value_heads": 4},
        "shapes": {"proj.weight": [64, 64], "norm.weight": [64], "tokens.weight": [80, 64], "head.weight": [80, 64]}}
# As tests/cli/test_gguf_archs.sh has them: what llama.cpp has no other value for.
GGUF = {
    "deepseek_v2": {"config": {"rms_norm_eps": 1e-6}},
    "cohere2": {}, "glm4": {}, "glm4_moe": {}, "ernie4_5_moe": {}, "gpt_neox": {}, "granitemoe": {},
    "lfm2": {}, "llama": WIDE, "phi3": {},
    "gpt_oss_mxfp4": {"config": {"rope_scaling": {"rope_type": "default"}, "swiglu_limit": 7.0}},
    "qwen3_next": {"config": {"linear_value_head_dim": 8},
                   "shapes": {"qkvz.weight": [96, 32], "conv1d.weight": [64, 1, 4], "linear_attn.norm.weight": [8],
                              "linear_attn.out_proj.weight": [32, 32]}},
}
CONTAINERS = {
    "gptq": "int4:g32", "awq": "int4:g32:asym", "compressed-tensors": "int8:channel", "bitsandbytes": "nf4:g32",
    "modelopt": "nvfp4",
}


def text(config, lines):
    first = json.dumps(config, separators=(",", ":"))
    return "\n".join([first] + lines).encode() + b"\n\n" + FILL


def seed(case):
    with open(os.path.join(GOLDEN, case + ".json")) as f:
        case = json.load(f)
    return text(case["config"], [f"{byte[0] if byte else 'F32'} {','.join(map(str, shape))} {name}"
                                 for name, shape, _, *byte in case["tensors"]])


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
    seeds = {case: seed(case) for case in CASES}
    with tempfile.TemporaryDirectory() as work:
        for case, patch in GGUF.items():
            path = os.path.join(work, case + ".gguf")
            run(PITH, "convert", make(case, work, patch), "-o", path, "--quiet")
            seeds[case + ".gguf"] = of_gguf(path)
        for container, weights in CONTAINERS.items():
            path = os.path.join(work, container)
            run(PITH, "quantize", make("llama", work, WIDE), "-o", path, "-r", "rtn", "--weights", weights, "--container",
                container, "--quiet")
            seeds["llama_" + container] = of_folder(path)
        run(PITH, "convert", work + "/gptq", "-o", work + "/gptq.gguf", "--quiet")
        seeds["llama_gptq.gguf"] = of_gguf(work + "/gptq.gguf")
    seeds["unknown.gguf"] = seeds["llama.gguf"].replace(b"llama", b"alpac")
    for name, data in seeds.items():
        with open(os.path.join(out, name), "wb") as f:
            f.write(data)


if __name__ == "__main__":
    main()
