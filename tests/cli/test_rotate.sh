#!/bin/sh
# The transform `rotate`: the function stays, every tensor that changed is proved, and the guarantees
# of every run hold (same bytes on any number of threads and after a kill, bounded memory).
set -u
. tests/cli/lib.sh
mini=$work/mini
python3 tests/cli/mini.py "$mini" layers=2
base="--quiet --weights int8:channel --calib-tokens 256 --seq-len 64"

# shellcheck disable=SC2086
make() { # MODEL OUT OPTIONS...
    model=$1
    out=$2
    shift 2
    rm -rf "$out" "$out.partial"
    "$pith" quantize "$model" -o "$out" $base "$@"
}

for option in rotate rotate:32 rotate:folded rotate:32:folded; do
    for container in compressed-tensors gptq; do
        case $option-$container in rotate-gptq | rotate:32-gptq) continue ;; esac
        case $option-$container in rotate-compressed-tensors | rotate:32:folded-gptq) ;; *) thorough || continue ;; esac
        check "$option in $container" make "$probe" "$work/out" -r rtn --transform $option --container $container
        check "is verified against the original" "$pith" verify "$work/out" --against "$probe"
    done
done
check "rotate:folded in gguf, its embedding and head quantized too" make "$probe" "$work/out" -r rtn --weights q4_k --transform rotate:folded --container gguf
check "is verified against the original" "$pith" verify "$work/out" --against "$probe"
check "has a head of its own" sh -c '"$0" inspect "$1" | grep -q "lm_head.Q6_K"' "$pith" "$work/out"
check "with GPTQ" make "$probe" "$work/out" -r gptq --transform rotate --container compressed-tensors --threads 1
check "is verified" "$pith" verify "$work/out" --against "$probe"
check "on two threads" make "$probe" "$work/two" -r gptq --transform rotate --container compressed-tensors --threads 2
same_model "has the same bytes" "$work/out" "$work/two"
# Biases of values, and what stays in floats, are rotated and rescaled by smoothrot.
python3 tests/cli/mini.py "$work/biases" qwen2 layers=2
check "rotated and rescaled" make "$work/biases" "$work/two" -r smoothrot --ignore v_proj
check "is verified" "$pith" verify "$work/two" --against "$work/biases"
check "with some linears left alone" make "$probe" "$work/two" -r rtn --transform rotate --ignore 'model.layers.1.*'
check "is verified" "$pith" verify "$work/two" --against "$probe"

thorough && some='' || some='--max-tokens 1536'
# shellcheck disable=SC2086
"$pith" eval "$work/two" --baseline "$probe" --text models/probe/eval.txt --context 512 $some --json >"$work/json" 2>/dev/null
python3 - "$work/json" <<'PY' && pass "the function stays: the divergence is that of 8 bits" || fail "the function stays"
import json, sys
sys.exit(not 0 <= json.load(open(sys.argv[1]))["kld_mean"] < 0.0005)
PY

# A byte of the rotated embedding, with its hash mended: verify makes the same tensor again.
python3 - "$work/out" <<'PY'
import hashlib, json, struct, sys
path = sys.argv[1] + "/model.safetensors"
data = bytearray(open(path, "rb").read())
n = struct.unpack("<Q", data[:8])[0]
t = json.loads(data[8:8 + n])["model.embed_tokens.weight"]["data_offsets"]
data[8 + n + t[0] + 4000] ^= 1
open(path, "wb").write(data)
j = json.load(open(sys.argv[1] + "/pith.json"))
for e in j["tensors"]:
    if e["name"] == "model.embed_tokens.weight":
        e["stored"][0]["sha256"] = hashlib.sha256(data[8 + n + t[0]:8 + n + t[1]]).hexdigest()
json.dump(j, open(sys.argv[1] + "/pith.json", "w"))
PY
"$pith" verify "$work/out" --against "$probe" >"$work/stdout" && fail "one bit of the rotated embedding"
grep -q 'embed_tokens.weight: is not the original rotated' "$work/stdout" && pass "one bit of the rotated embedding is found" ||
    fail "one bit of the rotated embedding"

refuse "an option that is none" 2 'rotate:folded' make "$probe" "$work/out" -r rtn --transform rotate:sideways
refuse "blocks of 3" 2 'power of two' make "$probe" "$work/out" -r rtn --transform rotate:3
refuse "an online rotation in a container that cannot state it" 1 'rotate:folded' make "$probe" "$work/bad" -r rtn --transform rotate --container gptq
refuse "for an engine that would not do it" 1 'transformers: does not rotate' make "$probe" "$work/bad" -r rtn --transform rotate --for transformers
refuse "on more ranks than one" 1 'single rank' make "$probe" "$work/bad" -r rtn --transform rotate --for vllm:tp=2
refuse "converted to a container that cannot state it" 1 'cannot make an engine rotate' "$pith" convert "$work/two" -o "$work/bad" --container gptq
check "converted to itself" "$pith" convert "$work/two" -o "$work/same" --container compressed-tensors --quiet
cmp -s "$work/two/model.safetensors" "$work/same/model.safetensors" && cmp -s "$work/two/config.json" "$work/same/config.json" &&
    pass "is the same" || fail "converted to itself: other bytes"

# --- killed and resumed ---------------------------------------------------------------------------
make "$mini" "$work/whole" -r gptq --transform rotate --container compressed-tensors
if faulty; then
    thorough && cuts="12 20 40 60" || cuts="20 40"
    for n in $cuts; do
        (FAULT=kill:$n LD_PRELOAD=$faulty make "$mini" "$work/out" -r gptq --transform rotate --container compressed-tensors) 2>/dev/null
        # shellcheck disable=SC2086
        "$pith" quantize "$mini" -o "$work/out" $base -r gptq --transform rotate --container compressed-tensors --resume 2>/dev/null
        same_model "killed before call $n that changes a file, resumed" "$work/whole" "$work/out"
    done
else
    skip "killed and resumed" "a library cannot be loaded before the program"
fi

# --- memory ---------------------------------------------------------------------------------------
if grep -q __asan_init "$pith"; then
    skip "memory" "a sanitizer's own memory would be counted"
else
    few="--calib-tokens 512 --seq-len 512 --threads 2"
    thorough && recipes="rtn gptq" || recipes=gptq
    for recipe in $recipes; do
        # shellcheck disable=SC2086
        bytes=$(make "$probe" "$work/out" -r $recipe --transform rotate:folded $few --rehearse --json |
            sed -n 's/.*"memory_expected_bytes": \([0-9]*\).*/\1/p')
        # shellcheck disable=SC2086
        foretold "$recipe" "$bytes" "$work/out" \
            "$pith" quantize "$probe" -o "$work/out" -r $recipe $base $few --transform rotate:folded
    done
fi
finish
