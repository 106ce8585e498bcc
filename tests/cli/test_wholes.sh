#!/bin/sh
# Experts that stay in 16 bits are stored as the source had them: all of a layer in one tensor, or one by one.
set -u
. tests/cli/lib.sh
cat >"$work/tensors.py" <<'PY'
# tensors.py FOLDER FOLDER: what becomes of the first's experts in the second
import glob, json, struct, sys

def read(folder):
    out = {}
    for path in glob.glob(folder + "/*.safetensors"):
        with open(path, "rb") as f:
            head = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
            data = f.read()
        out.update({k: (v["dtype"], v["shape"], data[slice(*v["data_offsets"])]) for k, v in head.items() if k != "__metadata__"})
    return out

def experts(tensors):
    names = ("experts.", "put_linear.weight", "experts.down_proj_bias", "experts.gate_up_proj_bias")
    return {k: v for k, v in tensors.items() if any(n in k for n in names) and "shared" not in k}

a, b = map(experts, map(read, sys.argv[1:3]))
assert a and a.keys() == b.keys(), sorted(a.keys() ^ b.keys())[:4]
assert all(a[k][:2] == b[k][:2] for k in a), "of another shape or dtype"
print("equal" if a == b else "changed")
PY
make() { # CASE
    python3 tests/cli/arch_case.py "$1" "$work/$1" "$work/$1.text" && python3 tests/cli/byte_tokens.py "$work/$1"
}
quantized() { # CASE OPTION...: all but the experts
    rm -rf "$work/out"
    case=$1
    shift
    "$pith" quantize "$work/$case" -o "$work/out" --container compressed-tensors --ignore '*experts*' --quiet "$@"
}
kept() { # NAME SAID CASE OPTION...
    label=$1 said=$2 case=$3
    shift 3
    check "$label" quantized "$case" "$@"
    check "$label: verify" "$pith" verify "$work/out" --against "$work/$case"
    [ "$(python3 "$work/tensors.py" "$work/$case" "$work/out" 2>"$work/stderr")" = "$said" ] && pass "$label: $said" || fail "$label: $said"
}
few="--calib-tokens 256 --seq-len 32"
for case in gpt_oss llama4 granitemoe gemma4_moe qwen3_vl_moe qwen3_moe_fused qwen3_moe; do
    make $case
    kept "$case" equal $case -r rtn --weights int8:channel
done
# What goes into the gain of a norm goes out of all that read it: of each expert by itself, in its place.
# shellcheck disable=SC2086
kept "llama4 smoothed" changed llama4 -r smoothquant $few
kept "gpt_oss rotated" changed gpt_oss -r rtn --weights int8:channel --transform rotate
mv "$work/out" "$work/undisturbed"
# Killed among them, and resumed.
if faulty; then
    thorough && writes="12 16 20 24 28 32 40" || writes="16 28"
    for write in $writes; do
        (FAULT=kill:$write && export FAULT && LD_PRELOAD=$faulty && export LD_PRELOAD &&
            quantized gpt_oss -r rtn --weights int8:channel --transform rotate) 2>/dev/null
        [ -e "$work/out" ] && fail "killed at write $write"
        check "killed at write $write, and resumed" "$pith" quantize "$work/gpt_oss" -o "$work/out" --quiet --resume \
            --container compressed-tensors --ignore '*experts*' -r rtn --weights int8:channel --transform rotate
        same_model "the same bytes after write $write" "$work/undisturbed" "$work/out"
    done
fi
# Not a number of any expert may lie elsewhere: in another basis the model computes the same.
loss() { # MODEL CASE
    "$pith" eval "$1" --text "$work/$2.text" --context 32 --max-tokens 256 --json 2>/dev/null | sed -n 's/^  "nll": \([0-9.]*\).*/\1/p'
}
rm -rf "$work/turned"
check "rotated alone" "$pith" quantize "$work/gpt_oss" -o "$work/turned" -r rtn --transform rotate --ignore '*' --quiet
echo "$(loss "$work/gpt_oss" gpt_oss) $(loss "$work/turned" gpt_oss)" |
    awk '{ exit !($1 > 0 && ($1 - $2) ^ 2 < 1e-6) }' && pass "it is the same model" || fail "it is the same model"
# A file whose experts have no other published form.
check "to a file" "$pith" convert "$work/granitemoe" -o "$work/f.gguf" --quiet
rm -rf "$work/out"
check "and back" "$pith" quantize "$work/f.gguf" -o "$work/out" -r rtn --ignore '*' --quiet
check "and back: verify" "$pith" verify "$work/out" --against "$work/f.gguf"
[ "$(python3 "$work/tensors.py" "$work/granitemoe" "$work/out" 2>"$work/stderr")" = equal ] && pass "equal" || fail "equal"
# Where an expert is rounded they stand apart.
rm -rf "$work/out"
check "one expert" "$pith" quantize "$work/granitemoe" -o "$work/out" -r rtn --weights int8:channel --ignore '*experts.1.*' \
    --container compressed-tensors --quiet
check "one expert: verify" "$pith" verify "$work/out" --against "$work/granitemoe"
# Damage within one is seen, and named.
quantized gpt_oss -r rtn --weights int8:channel
damage() { # a byte of the last expert of a tensor
    python3 - "$work/out/model.safetensors" "$1" <<'PY'
import json, struct, sys
with open(sys.argv[1], "r+b") as f:
    n = struct.unpack("<Q", f.read(8))[0]
    at = 8 + n + json.loads(f.read(n))[sys.argv[2]]["data_offsets"][1] - 1
    f.seek(at)
    byte = f.read(1)[0]
    f.seek(at)
    f.write(bytes([byte ^ 1]))
PY
}
unlike() { # NAME PATTERN: verify finds that
    "$pith" verify "$work/out" >"$work/stdout" 2>&1
    [ $? -eq 1 ] && grep -q "problem: .*$2" "$work/stdout" && pass "$1" || fail "$1"
}
damage model.layers.1.mlp.experts.down_proj
unlike "a byte of an expert" 'layers.1.mlp.experts.down_proj: its bytes are not those'
quantized gpt_oss -r rtn --weights int8:channel
python3 - "$work/out" <<'PY'
import json, sys
path = sys.argv[1] + "/pith.json"
j = json.load(open(path))
j["tensors"] = [t for t in j["tensors"] if not t["name"].endswith("layers.0.mlp.experts.down_proj_bias")]
json.dump(j, open(path, "w"))
PY
unlike "one left out of the account" 'layers.0.mlp.experts.down_proj_bias: not accounted for'
finish
