#!/bin/sh
# From a checkpoint to a proven checkpoint, in every container, and what must never happen on the way.
set -u
. tests/cli/lib.sh
few="--calib-tokens 512 --seq-len 128"
mini=$work/mini
cp -r "$probe" "$work/probe" && probe=$work/probe
python3 tests/cli/mini.py "$mini" layers=2 hidden=128 ffn=256
digest() {
    (cd "$1" && find . -type f -exec sha256sum {} + | sort | sha256sum)
}
before=$(digest "$probe")$(digest "$mini")

# shellcheck disable=SC2086
make() { # MODEL OUT OPTIONS...
    model=$1
    out=$2
    shift 2
    "$pith" quantize "$model" -o "$out" --quiet $few "$@"
}

for recipe in rtn gptq awq; do
    good "$recipe" "$probe" "$work/$recipe" -r $recipe --calib-tokens 256
    check "$recipe: speaks" "$pith" run "$work/$recipe" -p "The" -n 4
done
good "awq+gptq" "$mini" "$work/both" -r awq+gptq
thorough && archs="mistral qwen2 qwen3" || archs=qwen3
for arch in $archs; do
    python3 tests/cli/mini.py "$work/$arch" $arch layers=2 hidden=64 ffn=96
    good "$arch" "$work/$arch" "$work/out-$arch" -r awq+gptq --weights int4:g32
    check "$arch: speaks" "$pith" run "$work/out-$arch" -p "The" -n 4
done
for c in compressed-tensors gptq awq; do
    good "$c" "$mini" "$work/c-$c" -r rtn --weights int4:g64:asym --container $c
done
grids="int2:g32 int3:g64:mse int4:channel:asym int7:tensor"
thorough && grids="$grids int5:channel int6:g128 int8:channel int8:tensor"
for grid in $grids; do
    good "$grid" "$mini" "$work/$grid" -r rtn --weights $grid --container compressed-tensors
done
thorough && widths="2 3 4 8" || widths="3 8"
for bits in $widths; do
    good "gptq container, $bits bits" "$mini" "$work/g$bits" -r gptq --weights int$bits:g64 --container gptq
done
# Plain runs stream their matrices; one scale for a whole matrix makes a run take the other way.
make "$mini" "$work/stream" -r rtn --weights int4:g32
make "$mini" "$work/whole" -r rtn --weights int4:g32 --override 'layers.1.mlp.up_proj=int4:tensor'
if python3 - "$work/stream/pith.json" "$work/whole/pith.json" <<'PY'
import json, sys
a, b = ({l["name"]: l for l in json.load(open(p))["linears"]} for p in sys.argv[1:])
same = [n for n in a if a[n] == b[n]]
sys.exit(len(same) != len(a) - 1 or "model.layers.1.mlp.up_proj" in same)
PY
then pass "streamed or not, the same account of each matrix"; else fail "streamed or not, the same account of each matrix"; fi
echo '{"base": "gptq", "act_order": "group", "weights": "int4:g64"}' >"$work/order.json"
good "a recipe from a file, groups in the order of importance" "$mini" "$work/order" -r "$work/order.json"
little="--calib-tokens 128" # scalar code takes its time
# shellcheck disable=SC2086
good "calibrated in the fast mode" "$mini" "$work/fast" -r gptq --mode fast $little
grep -q '"mode": "fast"' "$work/fast/pith.json" && pass "the mode is on record" || fail "the mode is on record"
# shellcheck disable=SC2086
make "$mini" "$work/fast-1" -r gptq --mode fast --threads 1 --cpu scalar $little
same_model "fast: scalar and vector code give the same bytes" "$work/fast" "$work/fast-1"
# shellcheck disable=SC2086
make "$mini" "$work/exact" -r gptq $little
cmp -s "$work/fast/model.safetensors" "$work/exact/model.safetensors" && fail "fast is not exact" || pass "fast is not exact"
good "shards" "$mini" "$work/shards" -r rtn --max-shard 100k
[ "$(find "$work/shards" -name '*.safetensors' | wc -l)" -gt 2 ] && pass "several shards" || fail "several shards"
good "ignore and override" "$mini" "$work/mixed" -r rtn --ignore 'layers.0.*' --override 'down_proj=int8:g64'
good "override with 16 bits" "$mini" "$work/kept" -r rtn --override 'o_proj=bf16'
grep -q 'in 16 bits by' "$work/kept/pith.json" && pass "the reason is on record" || fail "the reason is on record"
refuse "override with a grid for other things" 2 'cannot be put on that grid' \
    make "$mini" "$work/o" -r rtn --override o_proj=int8:token
python3 tests/cli/mini.py "$work/odd" layers=1 hidden=96 ffn=160
refuse "a width that is not a multiple of the group that is named" 1 '96|160' make "$work/odd" "$work/o" -r rtn --weights int4:g128
good "a shorter last group, by channel" "$work/odd" "$work/odd-out" -r gptq --weights int4:channel \
    --container compressed-tensors

check "rehearsal" "$pith" quantize "$mini" -o "$work/never" -r gptq --rehearse $few --json
python3 -m json.tool <"$work/stdout" >/dev/null && pass "rehearsal as JSON" || fail "rehearsal as JSON"
[ -e "$work/never" ] || [ -e "$work/never.rehearsal" ] && fail "a rehearsal leaves nothing" || pass "a rehearsal leaves nothing"
mkdir "$work/kept.rehearsal" && echo mine >"$work/kept.rehearsal/notes"
refuse "a rehearsal keeps off what it did not make" 1 'holds something else' \
    make "$mini" "$work/kept" -r rtn --rehearse
[ -e "$work/kept.rehearsal/notes" ] && pass "and leaves it alone" || fail "and leaves it alone"
refuse "quantized twice" 1 'add --requantize' make "$work/rtn" "$work/twice" -r nvfp4
[ "$before" = "$(digest "$probe")$(digest "$mini")" ] && pass "the input is untouched" || fail "the input is untouched"

# Same bytes whatever the threads, whatever the instruction set, and in each run.
python3 tests/cli/mini.py "$work/least" layers=1 hidden=64 ffn=64
for recipe in gptq awq; do
    make "$mini" "$work/t1-$recipe" -r $recipe --threads 1 && make "$mini" "$work/t3-$recipe" -r $recipe --threads 3
    same_model "$recipe: one and three threads give the same bytes" "$work/t1-$recipe" "$work/t3-$recipe"
    for cpu in scalar auto; do
        make "$work/least" "$work/$cpu-$recipe" -r $recipe --weights int4:g32 --cpu $cpu \
            --calib-tokens 128 --seq-len 64
    done
    same_model "$recipe: scalar and vector code give the same bytes" "$work/scalar-$recipe" "$work/auto-$recipe"
done

# Damage is found.
cp -r "$work/both" "$work/damaged"
python3 - "$work/damaged/model.safetensors" <<'PY'
import sys
f = open(sys.argv[1], "r+b")
f.seek(-1000, 2)
b = f.read(1)
f.seek(-1000, 2)
f.write(bytes([b[0] ^ 16]))
PY
"$pith" verify "$work/damaged" >"$work/stdout" 2>&1
[ $? -eq 1 ] && grep -q 'are not those that pith wrote' "$work/stdout" && pass "one flipped bit is found" ||
    fail "one flipped bit is found"
finish
