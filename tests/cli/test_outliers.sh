#!/bin/sh
# A model made to have outlier channels computes what it computed, and does to activations what large models do
# to them: eight plain bits break, and what claims to repair that does.
. "$(dirname "$0")/lib.sh"
make_outliers=${BUILD:-build}/tools/make_outliers
[ -x "$make_outliers" ] || {
    echo "$make_outliers: no program there: make build/tools/make_outliers" >&2
    exit 1
}
thorough && scored=2560 calibrated=4096 searched= || scored=1024 calibrated=1024 searched="--calib-tokens 512" # those take longest
eval_json() { # model tokens options
    model=$1
    tokens=$2
    shift 2
    "$pith" eval "$model" --text "$probe/eval.txt" --context 256 --max-tokens "$tokens" --json "$@" 2>/dev/null
}
measure() { # name...: the KL of all against one pass of the model
    for name; do set -- "$@" "$work/$name" && shift; done
    "$pith" compare "$work/model" "$@" --text "$probe/eval.txt" --context 256 --max-tokens "$scored" --json --quiet 2>/dev/null | python3 -c '
import json, sys
for m in json.load(sys.stdin)["models"][1:]: print(m["name"], m["texts"][0]["kld_mean"])' >"$work/measured"
}
kld() { # name
    awk -v name="$1" '$1 == name { print $2 }' "$work/measured"
}
make() { # name options
    name=$1
    shift
    "$pith" quantize "$work/model" -o "$work/$name" --calib-tokens "$calibrated" --seq-len 256 --quiet "$@" >/dev/null 2>"$work/err" ||
        fail "$name: $(cat "$work/err")"
}
less() { # label a b factor: a <= b * factor
    awk -v a="$2" -v b="$3" -v f="$4" 'BEGIN { exit !(a != "" && b != "" && a + 0 <= b * f) }' &&
        pass "$1: $2 against $3" || fail "$1: $2 against $3"
}
nll() {
    eval_json "$1" 768 | sed -n 's/.*"nll": \([0-9.e-]*\).*/\1/p' | head -1
}

check "a model with outliers" "$make_outliers" "$probe" "$work/model"
check "made again" "$make_outliers" "$probe" "$work/again" 1
cmp "$work/model/model.safetensors" "$work/again/model.safetensors" >/dev/null && pass "same seed, same bytes" ||
    fail "same seed, other bytes"
check "by another seed" "$make_outliers" "$probe" "$work/other" 2
cmp "$work/model/model.safetensors" "$work/other/model.safetensors" >/dev/null && fail "another seed, same bytes" ||
    pass "another seed, other bytes"
check "of the stream alone" "$make_outliers" "$probe" "$work/stream" 1 stream
check "the inputs of o and down stay as they are there" python3 - "$probe" "$work/stream" "$work/model" <<'PY'
import json, struct, sys

def tensors(folder):
    with open(folder + "/model.safetensors", "rb") as f:
        n = struct.unpack("<Q", f.read(8))[0]
        head = json.loads(f.read(n))
        data = f.read()
    return {k: data[v["data_offsets"][0]:v["data_offsets"][1]] for k, v in head.items() if k != "__metadata__"}

base, stream, full = (tensors(p) for p in sys.argv[1:])
def same(a, part): return all(a[k] == base[k] for k in base if part in k)
assert same(stream, "down_proj") and same(stream, "o_proj"), "they are not"
assert not same(full, "down_proj") and not same(full, "o_proj"), "nothing is there to compare"
assert not same(stream, "q_proj") and not same(stream, "gate_proj"), "nothing was made"
PY
want=$(nll "$probe")
[ -n "$want" ] && [ "$(nll "$work/model")" = "$want" ] && pass "the function is the same to the last digit" ||
    fail "the function is not the same"
[ "$(nll "$work/stream")" = "$want" ] && pass "and with those of the stream" || fail "not with those of the stream"
make w8a8 -r w8a8
make smooth -r smoothquant
make mxfp4 -r mxfp4-rotated --transform none
make turned -r mxfp4-rotated
# shellcheck disable=SC2086
make searched -r w8a8-g32 $searched
make groups -r w8a8-g32 --transform none
make eight -r quarot-w8a8
# shellcheck disable=SC2086
make both -r smoothrot $searched
make folded -r smoothrot --transform rotate:folded
made="w8a8 smooth mxfp4 turned searched groups eight both folded"
if thorough; then
    make w8a16 -r w8a16
    make int8 -r llm.int8
    make fp8 -r fp8
    make w4a4 -r quarot --transform none
    make quarot -r quarot
    made="$made w8a16 int8 fp8 w4a4 quarot"
fi
# shellcheck disable=SC2086
measure $made
less "eight plain bits lose ten times what smoothquant loses" "$(kld smooth)" "$(kld w8a8)" 0.1
less "scales by column and groups lose a third of what smoothquant loses" "$(kld searched)" "$(kld smooth)" 0.33
less "groups alone do not" "$(kld searched)" "$(kld groups)" 0.1
less "eight bits of both in a rotated basis lose less than smoothquant" "$(kld eight)" "$(kld smooth)" 0.6
less "smoothing takes over where rotations end" "$(kld both)" "$(kld folded)" 0.3
less "rotations in blocks halve at least what mxfp4 of both loses" "$(kld turned)" "$(kld mxfp4)" 0.5
if thorough; then
    less "llm.int8 is within 1.2 of 16-bit activations" "$(kld int8)" "$(kld w8a16)" 1.2
    less "fp8 is within 1.5 of 16-bit activations" "$(kld fp8)" "$(kld w8a16)" 1.5
    less "likewise four bits of both" "$(kld quarot)" "$(kld w4a4)" 0.5
fi
refuse "a model that is quantized" 1 'is quantized' "$make_outliers" "$work/w8a8" "$work/no"
finish
