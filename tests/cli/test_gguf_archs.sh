#!/bin/sh
# GGUF files of tiny models: what stands in another order there, transposed, or as other numbers, reads as the folder
# it was made of, and llama.cpp gave such a file the loss that stands here (tests/interop/gguf_archs.py asks it anew).
set -u
. tests/cli/lib.sh
cat >"$work/tokens.py" <<'PY'
# A tokenizer of single bytes that llama.cpp has a name for, in place of arch_case.py's.
import json, sys

sys.path.insert(0, "tests/cli")
from arch_case import CHARACTERS

path = sys.argv[1] + "/tokenizer.json"
t = json.load(open(path))
vocab = ["<unk>", "<s>", "</s>"] + [chr(ord(c) + 256) if c <= " " else c for c in CHARACTERS]
size = json.load(open(sys.argv[1] + "/config.json"))
size = size.get("text_config", size)["vocab_size"]
vocab += [f"<x{i}>" for i in range(len(vocab), size)]
t["model"]["vocab"] = {c: i for i, c in enumerate(vocab)}
t["model"]["unk_token"] = None
t["post_processor"] = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
                       "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
                       "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}}
t["pre_tokenizer"] = t["decoder"] = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
json.dump(t, open(path, "w"))
PY
cat >"$work/near.py" <<'PY'
import json, sys

a, b, want = json.load(open(sys.argv[1]))["nll"], json.load(open(sys.argv[2]))["nll"], float(sys.argv[3])
assert abs(a - b) <= 1e-5 * a, f"the folder has {a}, the file {b}"
assert abs(b - want) <= 2e-5 * want, f"the file has {b}, llama.cpp gave it {want}"
PY
loss() {
    nice "$pith" eval "$1" --text "$work/text" --context 64 --convention llama.cpp --json >"$2" 2>"$work/stderr"
}
# case, the loss that llama.cpp gives its file, and what is changed so that it can: the epsilon of a latent's norms is
# the model's there, heads of the delta rule have one size
while read -r case want patch; do
    rm -rf "$work/text"
    python3 tests/cli/arch_case.py "$case" "$work/$case" "$work/text" "${patch:-{\}}" && python3 "$work/tokens.py" "$work/$case"
    check "$case becomes a file" "$pith" convert "$work/$case" -o "$work/$case.gguf" --quiet
    check "$case is verified" "$pith" verify "$work/$case.gguf" --against "$work/$case"
    check "$case is measured" loss "$work/$case" "$work/folder.json"
    check "$case is measured as a file" loss "$work/$case.gguf" "$work/file.json"
    check "$case has the folder's loss, and llama.cpp's" \
        python3 "$work/near.py" "$work/folder.json" "$work/file.json" "$want"
done <<'CASES'
deepseek_v2 16.210711 {"config": {"rms_norm_eps": 1e-6}}
deepseek_v3 16.010854 {"config": {"rms_norm_eps": 1e-6, "rope_parameters": {"rope_type": "yarn", "rope_theta": 100.0, "factor": 4.0, "original_max_position_embeddings": 16, "mscale": 0.8, "mscale_all_dim": 0.8, "beta_fast": 32, "beta_slow": 1}}}
cohere2 5.933165
glm4 15.229239
glm4_moe 15.938065
ernie4_5 17.335971
ernie4_5_moe 19.691251
exaone4_full 16.625625
granite 5.801726
granitemoe 5.748697
minimax_m2 15.734274
lfm2 17.025171
lfm2_moe 16.322922
phi3 17.095565
qwen3_next 16.185475 {"config": {"linear_value_head_dim": 8}, "shapes": {"qkvz.weight": [96, 32], "conv1d.weight": [64, 1, 4], "linear_attn.norm.weight": [8], "linear_attn.out_proj.weight": [32, 32]}}
CASES
# gpt-oss's experts of MXFP4 are llama.cpp's MXFP4, to the bit, and come back. llama.cpp's gate is one of a limit of 7.
set -- gpt_oss_mxfp4 "$work/mx" "$work/mx.text"
python3 tests/cli/arch_case.py "$@" '{"config": {"rope_scaling": {"rope_type": "default"}, "swiglu_limit": 7.0}}'
python3 "$work/tokens.py" "$work/mx"
same_bits() { # MODEL OUT OPTIONS...
    "$pith" convert "$@" >"$work/report" && grep -q '48 of 48 linears stand for the same weights to the bit' "$work/report"
}
check "MXFP4 becomes a file to the bit" same_bits "$work/mx" -o "$work/mx.gguf"
check "MXFP4 is verified" "$pith" verify "$work/mx.gguf" --against "$work/mx"
check "MXFP4 comes back to the bit" same_bits "$work/mx.gguf" -o "$work/mx.back" --container compressed-tensors
cp "$work/mx.text" "$work/text"
check "MXFP4 is measured" loss "$work/mx" "$work/folder.json"
check "MXFP4 is measured as a file" loss "$work/mx.gguf" "$work/file.json"
check "MXFP4 has the folder's loss" python3 -c "
import json
a, b = (json.load(open('$work/' + n + '.json'))['nll'] for n in ('folder', 'file'))
assert a == b, (a, b)"
set -- gpt_oss_mxfp4 "$work/limit" "$work/limit.text"
python3 tests/cli/arch_case.py "$@" '{"config": {"rope_scaling": {"rope_type": "default"}}}'
python3 "$work/tokens.py" "$work/limit"
refuse "another limit of the gate" 1 'does not compute a gate with another limit than 7' \
    "$pith" convert "$work/limit" -o "$work/limit.gguf" --quiet
finish
