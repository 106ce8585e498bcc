#!/bin/sh
# What splits make: checkpoints with zeros, checkpoints with weights beside the grid; their proofs, their order.
set -u
. tests/cli/lib.sh
thorough && tokens=4096 || tokens=512
few="--quiet --calib-tokens $tokens --seq-len 512"

make() { # OUT OPTIONS...
    out=$1
    shift
    # shellcheck disable=SC2086
    "$pith" quantize "$probe" -o "$work/$out" $few "$@"
}
verified() { # OUT PATTERN
    "$pith" verify "$work/$1" --against "$probe" >"$work/report" && grep -qE "$2" "$work/report"
}

check "sparsegpt: a checkpoint of 16 bits with zeros" make sparsegpt -r sparsegpt -t 3
check "sparsegpt: verified" verified sparsegpt '42 linears of 16 bits: two zeros in each four, as close'
grep -q quantization_config "$work/sparsegpt/config.json" && fail "no quantization_config" || pass "no quantization_config"
check "whoever loads the original loads it" "$pith" verify "$work/sparsegpt" --for vllm --for llama.cpp
check "wanda" make wanda -r wanda
check "wanda: verified" verified wanda 'two zeros in each four'
check "by magnitude, without calibration" make magnitude -r wanda --split 2:4:magnitude
check "by magnitude: verified" verified magnitude 'two zeros in each four'
check "sparsegpt on int4" make sparse4 -r sparsegpt --weights int4:g128
check "sparsegpt on int4: verified" verified sparse4 '42 quantized linears: .* two zeros in each four'
check "wanda on int8, the head of a site left alone" make some8 -r wanda --weights int8:channel --ignore o_proj
check "wanda on int8: verified" verified some8 '36 quantized linears: .* two zeros in each four'
if thorough; then
    check "one left alone, the others pruned" make some -r wanda --ignore down_proj
    check "one left alone: verified" verified some '36 linears of 16 bits'
    check "squeezellm" make squeeze -r squeezellm
    check "squeezellm: verified" verified squeeze '42 quantized linears'
fi
check "squeezellm with 3 bits and GPTQ's rounding" make squeeze3 -r squeezellm --weights codebook3 --round gptq
check "squeezellm with 3 bits: verified" verified squeeze3 '42 quantized linears'
check "it speaks" "$pith" run "$work/squeeze3" -p "Once upon a time" -n 4
refuse "no engine loads squeezellm" 1 'no engine loads it since' make x -r squeezellm --for vllm
refuse "weights beside the grid need their container" 2 'no place for weights outside the grid' \
    make x -r rtn --split sparse
refuse "an option that is none" 2 'takes no option' make x -r rtn --split 2:4:best
check "zeros on q3_k, which has one" make sparse3.gguf -r sparsegpt --weights q3_k --container gguf
check "zeros on q3_k: verified" verified sparse3.gguf '43 quantized linears: .* two zeros in each four'
refuse "no zeros on q4_k, which has none" 1 'needs a grid that has a zero' \
    make x -r sparsegpt --weights q4_k --container gguf
python3 tests/cli/mini.py "$work/odd" layers=1 hidden=66 ffn=160
refuse "rows that are no fours" 1 'multiple of 4' \
    "$pith" quantize "$work/odd" -o "$work/x" -r rtn --weights int8:channel --split 2:4:magnitude

# A promise that was not kept is found, whoever wrote the account.
cp -r "$work/sparsegpt" "$work/lie"
python3 - "$work/lie" <<'PY'
import hashlib, json, struct, sys
d = sys.argv[1]
f = d + "/model.safetensors"
b = bytearray(open(f, "rb").read())
n = struct.unpack("<Q", b[:8])[0]
name = "model.layers.1.mlp.up_proj.weight"
begin, end = json.loads(b[8:8 + n])[name]["data_offsets"]
for i in range(8):
    b[8 + n + begin + i] = 0x3c
open(f, "wb").write(b)
a = json.load(open(d + "/pith.json"))
for t in a["tensors"]:
    if t["name"] == name:
        t["stored"][0]["sha256"] = hashlib.sha256(b[8 + n + begin:8 + n + end]).hexdigest()
json.dump(a, open(d + "/pith.json", "w"))
PY
"$pith" verify "$work/lie" >"$work/report" 2>&1 && fail "a weight too many is found" ||
    { grep -q '0 zeros where 2:4 has two' "$work/report" && pass "a weight too many is found" || fail "a weight too many is named"; }

# The same bytes, whatever the machine does.
check "sparsegpt on one thread" make sparsegpt-t1 -r sparsegpt -t 1
same_model "sparsegpt: one and three threads give the same bytes" "$work/sparsegpt-t1" "$work/sparsegpt"
if thorough; then
    check "squeezellm on one thread" make squeeze-t1 -r squeezellm -t 1
    check "squeezellm on three threads" make squeeze-t3 -r squeezellm -t 3
    same_model "squeezellm: one and three threads give the same bytes" "$work/squeeze-t1" "$work/squeeze-t3"
fi

# Killed on the way and gone on with.
python3 tests/cli/mini.py "$work/mini" layers=2
for recipe in sparsegpt wanda squeezellm; do
    check "$recipe, undisturbed" "$pith" quantize "$work/mini" -o "$work/whole-$recipe" --quiet --calib-tokens 256 \
        --seq-len 64 -r $recipe
done
thorough && cuts="15 35 55" || cuts=35
resumed() { # RECIPE: killed before some calls that change a file, resumed, the same as undisturbed
    base="--quiet --calib-tokens 256 --seq-len 64 -r $1"
    for n in $cuts; do
        rm -rf "$work/cut-$1" "$work/cut-$1.partial"
        # shellcheck disable=SC2086
        (FAULT=kill:$n LD_PRELOAD=$faulty "$pith" quantize "$work/mini" -o "$work/cut-$1" $base)
        [ $? -eq 137 ] || { echo "$1: not killed at call $n"; return 1; }
        # shellcheck disable=SC2086
        "$pith" quantize "$work/mini" -o "$work/cut-$1" $base --resume || return 1
        cmp "$work/whole-$1/model.safetensors" "$work/cut-$1/model.safetensors" || return 1
        "$pith" verify "$work/cut-$1" --against "$work/mini" || return 1
    done
}
if faulty; then
    for recipe in sparsegpt wanda squeezellm; do check "$recipe: killed and resumed" resumed $recipe; done
else
    skip "killed and resumed" "a library cannot be loaded before the program"
fi

for recipe in sparsegpt squeezellm; do
    check "$recipe by scalar code" "$pith" quantize "$work/mini" -o "$work/scalar-$recipe" --quiet --calib-tokens 256 \
        --seq-len 64 -r $recipe --cpu scalar -t 1
    check "$recipe: scalar and vector code give the same bytes" \
        cmp "$work/whole-$recipe/model.safetensors" "$work/scalar-$recipe/model.safetensors"
done

thorough || finish
# Less is lost by SparseGPT than by Wanda than by magnitude; by levels than by a grid of as many bits; and the
# kept weights help.
"$pith" quantize "$probe" -o "$work/dense3" $few -r squeezellm --weights codebook3 --split none
"$pith" quantize "$probe" -o "$work/sparse3" $few -r squeezellm --weights codebook3
"$pith" quantize "$probe" -o "$work/rtn3" --quiet -r rtn --weights int3:g32
"$pith" compare "$probe" "$work/sparsegpt" "$work/wanda" "$work/magnitude" "$work/sparse3" "$work/dense3" "$work/rtn3" \
    --text "$probe/eval.txt" --context 512 --max-tokens 6144 --json --quiet >"$work/compare" 2>"$work/stderr" || cat "$work/stderr"
python3 - "$work/compare" <<'PY' && pass "the order of what is lost" || fail "the order of what is lost"
import json, sys
m = json.load(open(sys.argv[1]))["models"]
kl = {x["model"].split("/")[-1]: x["kld_mean"] for x in m[1:]}
print(kl)
assert kl["sparsegpt"] < kl["wanda"] < kl["magnitude"]
assert kl["sparse3"] < kl["dense3"] < kl["rtn3"]
PY
finish
