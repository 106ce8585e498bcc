#!/bin/sh
# GGUF files of tiny models: what stands in another order there, transposed, or as other numbers, reads as the folder
# it was made of, and llama.cpp gave such a file the loss that stands here (tests/interop/gguf_archs.py asks it anew).
set -u
. tests/cli/lib.sh
cat >"$work/near.py" <<'PY'
import json, sys

a, b, want = json.load(open(sys.argv[1]))["nll"], json.load(open(sys.argv[2]))["nll"], float(sys.argv[3])
assert abs(a - b) <= 1e-5 * a, f"the folder has {a}, the file {b}"
assert abs(b - want) <= 2e-5 * want, f"the file has {b}, llama.cpp gave it {want}"
PY
loss() {
    nice "$pith" eval "$1" --text "$work/text" --context 64 --convention llama.cpp --json >"$2" 2>"$work/stderr"
}
grep -v '^#' tests/cli/gguf_cases.txt >"$work/cases"
while read -r case want patch; do
    rm -rf "$work/text"
    python3 tests/cli/arch_case.py "$case" "$work/$case" "$work/text" "${patch:-{\}}" && python3 tests/cli/byte_tokens.py "$work/$case"
    check "$case becomes a file" "$pith" convert "$work/$case" -o "$work/$case.gguf" --quiet
    check "$case is verified" "$pith" verify "$work/$case.gguf" --against "$work/$case"
    check "$case is measured" loss "$work/$case" "$work/folder.json"
    check "$case is measured as a file" loss "$work/$case.gguf" "$work/file.json"
    check "$case has the folder's loss, and llama.cpp's" \
        python3 "$work/near.py" "$work/folder.json" "$work/file.json" "$want"
    facts=tests/golden/gguf/$case.json
    [ ! -f "$facts" ] || check "$case is what llama.cpp's converter makes" python3 tests/golden/gguf/facts.py "$work/$case.gguf" "$facts"
done <"$work/cases"
# gpt-oss's experts of MXFP4 are llama.cpp's MXFP4, to the bit, and come back. llama.cpp's gate is one of a limit of 7.
set -- gpt_oss_mxfp4 "$work/mx" "$work/mx.text"
python3 tests/cli/arch_case.py "$@" '{"config": {"rope_scaling": {"rope_type": "default"}, "swiglu_limit": 7.0}}'
python3 tests/cli/byte_tokens.py "$work/mx"
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
python3 tests/cli/byte_tokens.py "$work/limit"
refuse "another limit of the gate" 1 'does not compute a gate with another limit than 7' \
    "$pith" convert "$work/limit" -o "$work/limit.gguf" --quiet
python3 tests/cli/arch_case.py llama4 "$work/chunks" "$work/chunks.text" '{"config": {"attention_chunk_size": 16, "layer_types":
    ["chunked_attention", "chunked_attention", "chunked_attention", "full_attention"], "no_rope_layers": [1, 1, 1, 0]}}'
python3 tests/cli/byte_tokens.py "$work/chunks"
refuse "chunks of another length" 1 'does not compute chunks of another length in a llama4' \
    "$pith" convert "$work/chunks" -o "$work/chunks.gguf" --quiet
python3 tests/cli/arch_case.py granitemoehybrid_dense "$work/alone" "$work/alone.text"
python3 tests/cli/byte_tokens.py "$work/alone"
refuse "a hybrid of attention alone" 1 'does not compute attention in all layers in a granitehybrid' \
    "$pith" convert "$work/alone" -o "$work/alone.gguf" --quiet
for said in 'nemotron_bias:a tied head in a nemotron' 'nemotron_old:heads that are not as wide as the stream together in a nemotron' \
    'starcoder2_plain:linears without biases in a starcoder2'; do
    case=${said%%:*}
    python3 tests/cli/arch_case.py "$case" "$work/$case" "$work/$case.text" && python3 tests/cli/byte_tokens.py "$work/$case"
    refuse "$case has no place there" 1 "does not compute ${said#*:}" "$pith" convert "$work/$case" -o "$work/$case.gguf" --quiet
done
# The bias of a head stays when its matrix is quantized.
check "a head with a bias is quantized" "$pith" quantize "$work/phi" -o "$work/phi-q8_0.gguf" -r rtn --weights q8_0 --quiet
check "its bias is there" "$pith" verify "$work/phi-q8_0.gguf" --against "$work/phi"
finish
