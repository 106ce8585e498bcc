#!/bin/sh
# From a checkpoint to a proven checkpoint, in every container, and what must never happen on the way.
set -u
. tests/cli/lib.sh
small="--calib-tokens 4096 --seq-len 256"

# shellcheck disable=SC2086
make() { # OUT OPTIONS...
    out=$1
    shift
    "$pith" quantize "$probe" -o "$out" --quiet "$@"
}

before=$(cd "$probe" && find . -type f -exec sha256sum {} + | sort | sha256sum)
for recipe in rtn gptq awq awq+gptq; do
    # shellcheck disable=SC2086
    check "$recipe" make "$work/$recipe" -r $recipe $small
    check "$recipe verifies" "$pith" verify "$work/$recipe" --against "$probe"
    check "$recipe speaks" "$pith" run "$work/$recipe" -p "The" -n 4
done
for c in compressed-tensors gptq awq; do
    check "$c" make "$work/c-$c" -r rtn --weights int4:g64:asym --container $c
    check "$c verifies" "$pith" verify "$work/c-$c" --against "$probe"
done
for grid in int2:g32 int3:g64:mse int5:channel int6:g128:asym int8:channel int8:tensor int4:channel:asym; do
    case $grid in *:asym) case $grid in int4* | int8*) ;; *) continue ;; esac ;; esac
    check "$grid" make "$work/$grid" -r rtn --weights $grid --container compressed-tensors
    check "$grid verifies" "$pith" verify "$work/$grid" --against "$probe"
done
for bits in 2 3 4 8; do
    # shellcheck disable=SC2086
    check "gptq container, $bits bits" make "$work/g$bits" -r gptq --weights int$bits:g64 --container gptq $small
    check "gptq container, $bits bits, verifies" "$pith" verify "$work/g$bits" --against "$probe"
done
check "shards" make "$work/shards" -r rtn --max-shard 2M
check "shards verify" "$pith" verify "$work/shards" --against "$probe"
[ "$(find "$work/shards" -name '*.safetensors' | wc -l)" -gt 2 ] && pass "several shards" || fail "several shards"
check "ignore and override" make "$work/mixed" -r rtn --ignore 'layers.0.*' --override 'down_proj=int8:g128'
check "ignore and override verify" "$pith" verify "$work/mixed" --against "$probe"
# shellcheck disable=SC2086
check "rehearsal" "$pith" quantize "$probe" -o "$work/never" -r gptq --rehearse $small --json
python3 -m json.tool <"$work/out" >/dev/null && pass "rehearsal as JSON" || fail "rehearsal as JSON"
[ -e "$work/never" ] || [ -e "$work/never.rehearsal" ] && fail "a rehearsal leaves something" || pass "a rehearsal leaves nothing"
refuse "quantized twice" 1 'quantized already' "$pith" quantize "$work/rtn" -o "$work/twice" -r rtn
after=$(cd "$probe" && find . -type f -exec sha256sum {} + | sort | sha256sum)
[ "$before" = "$after" ] && pass "the input is untouched" || fail "the input is untouched"

# Same bytes whatever the threads, and in each run.
for recipe in gptq awq; do
    # shellcheck disable=SC2086
    make "$work/t1-$recipe" -r $recipe $small --threads 1 && make "$work/t3-$recipe" -r $recipe $small --threads 3
    same_model "$recipe: one and three threads give the same bytes" "$work/t1-$recipe" "$work/t3-$recipe"
    # shellcheck disable=SC2086
    make "$work/sc-$recipe" -r $recipe --calib-tokens 512 --seq-len 128 --cpu scalar &&
        make "$work/au-$recipe" -r $recipe --calib-tokens 512 --seq-len 128
    same_model "$recipe: scalar and vector code give the same bytes" "$work/sc-$recipe" "$work/au-$recipe"
done

# Damage is found.
cp -r "$work/rtn" "$work/damaged"
python3 - "$work/damaged/model.safetensors" <<'PY'
import sys
f = open(sys.argv[1], "r+b")
f.seek(-1000, 2)
b = f.read(1)
f.seek(-1000, 2)
f.write(bytes([b[0] ^ 16]))
PY
refuse_damage() {
    "$pith" verify "$work/damaged" >"$work/out" 2>&1 && fail "one flipped bit is found" || pass "one flipped bit is found"
}
refuse_damage
finish
