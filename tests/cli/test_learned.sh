#!/bin/sh
# Rounding learned by blocks: proven, the same bytes for any thread count and after a kill, within the
# memory that was estimated, and never worse than rounding to nearest by its own measure.
set -u
. tests/cli/lib.sh
mini=$work/mini
python3 tests/cli/mini.py "$mini" layers=3 hidden=64 ffn=128
few="--quiet --calib-tokens 512 --seq-len 64"
recipe=$work/learned.json
echo '{"base": "autoround", "weights": "int3:g32", "iterations": 20, "batch": 3}' >"$recipe"

# shellcheck disable=SC2086
make() { # OUT OPTIONS...
    out=$1
    shift
    "$pith" quantize "$mini" -o "$out" $few -r "$recipe" "$@"
}

check "learned" make "$work/one" --threads 1
check "learned: verifies" "$pith" verify "$work/one" --against "$mini"
check "learned: speaks" "$pith" run "$work/one" -p "The" -n 4
check "learned, three threads" make "$work/three" --threads 3
same_model "the same bytes for one and three threads" "$work/one" "$work/three"
# Scalar code takes its time: fewer steps.
thorough && steps=20 || steps=4
echo "{\"base\": \"autoround\", \"weights\": \"int3:g32\", \"iterations\": $steps, \"batch\": 3}" >"$work/steps.json"
check "learned in $steps steps" make "$work/vector" -r "$work/steps.json"
check "learned, scalar code" make "$work/scalar" -r "$work/steps.json" --cpu scalar
same_model "the same bytes for scalar code" "$work/vector" "$work/scalar"
if python3 - "$work/one/pith.json" <<'PY'
import json, sys
j = json.load(open(sys.argv[1]))
blocks = j["blocks"]
assert [b["layer"] for b in blocks] == [0, 1, 2], blocks
assert all(b["loss"] <= b["loss_nearest"] and b["iterations"] == 20 for b in blocks), blocks
assert any(b["kept"] > 0 for b in blocks), blocks
assert j["recipe"]["iterations"] == 20 and j["recipe"]["batch"] == 3, j["recipe"]
PY
then pass "the account tells what each block lost"; else fail "the account tells what each block lost"; fi
[ "$(find "$work" -name 'pith.acts*' | wc -l)" -eq 0 ] && pass "nothing is left beside" || fail "nothing is left beside"

# Killed when a unit's work is done and its line is not in the journal, or half of it, or before what follows is all written.
killed() { # FAULT FILE: at calls that write to files so named
    rm -rf "$work/out" "$work/out.partial"
    (export FAULT_AT="$2" && with_fault "$1" make "$work/out" --threads 2) 2>"$work/stderr"
    [ $? -eq 137 ] || fail "$1 of $2: not killed"
}
if faulty; then
    thorough && times="1 2 3" || times=2
    for unit in $times; do
        for fault in "kill:$unit pith.journal" "half:$unit pith.journal" "kill:$((unit * 4 + 2)) model.safetensors"; do
            killed "${fault% *}" "${fault#* }"
            make "$work/out" --resume 2>"$work/stderr" || tail -n 1 "$work/stderr"
            same_model "$fault, resumed" "$work/one" "$work/out"
        done
    done
    # The float model's activations are part of what is gone on with.
    killed kill:3 pith.journal
    for f in "$work"/out.partial/pith.acts.float.?; do
        printf 'damage' | dd of="$f" conv=notrunc bs=1 seek=100 2>/dev/null || fail "no activations of the float model"
    done
    check "damaged activations of the float model" make "$work/out" --resume
    same_model "damaged activations are made anew" "$work/one" "$work/out"
else
    skip "killed and resumed" "a library cannot be loaded before the program"
fi

# Other grids and stages.
thorough && grids="int2:g64:asym int4:channel int8:tensor int3:g64:mse" || grids=int2:g64:asym
for grid in $grids; do
    check "$grid" make "$work/g-$grid" --weights $grid --container compressed-tensors
    check "$grid: verifies" "$pith" verify "$work/g-$grid" --against "$mini"
done
check "after AWQ's scaling" make "$work/awq" --transform awq
check "after AWQ's scaling: verifies" "$pith" verify "$work/awq" --against "$mini"
check "some linears left alone" make "$work/some" --ignore q_proj --override 'layers.1.*=int8:channel'
check "some linears left alone: verifies" "$pith" verify "$work/some" --against "$mini"
echo '{"base": "autoround", "iterations": 5, "float_input": true, "learning_rate": 0.01}' >"$work/float.json"
check "from the float model's activations" "$pith" quantize "$mini" -o "$work/float" --quiet -r "$work/float.json" \
    --weights int4:g64 --calib-tokens 256 --seq-len 64
check "in the gptq container" make "$work/gptq" --weights int4:g64 --container gptq
refuse "a split" 2 'does not go with --split' make "$work/o" --split 2:4
check "with rounded activations" make "$work/acts" --weights int4:channel --acts int8:token
check "with rounded activations: verifies" "$pith" verify "$work/acts" --against "$mini"
check "with rounded activations: speaks" "$pith" run "$work/acts" -p "The" -n 4
refuse "activations with a fixed scale" 2 'use scales by token' \
    make "$work/o" --weights int8:channel --acts int8:tensor:static
for bad in '"iterations": 0' '"batch": 0' '"learning_rate": 2' '"iterations": 1e9' '"float_input": 1'; do
    echo "{\"base\": \"autoround\", $bad}" >"$work/bad.json"
    refuse "a recipe with $bad" 2 'iterations|batch|learning_rate|float_input' \
        "$pith" quantize "$mini" -o "$work/o" --quiet -r "$work/bad.json"
done

thorough_loss() {
    # The probe at 2 bits: in a quarter of the steps already far below GPTQ.
    echo '{"base": "autoround", "weights": "int2:g128", "iterations": 50, "batch": 4}' >"$work/two.json"
    divergence() { # OUT
        "$pith" eval "$1" --baseline "$probe" --text "$probe/eval.txt" --context 128 --json --quiet |
            python3 -c 'import json, sys; print(json.load(sys.stdin)["kld_mean"])'
    }
    # Feeding errors on moves weights further than half of themselves at 2 bits.
    small="--quiet --calib-tokens 8192 --seq-len 128"
    # shellcheck disable=SC2086
    check "the probe, learned" "$pith" quantize "$probe" -o "$work/two" -r "$work/two.json" $small
    # shellcheck disable=SC2086
    check "the probe, gptq" "$pith" quantize "$probe" -o "$work/two-gptq" -r gptq --weights int2:g128 $small
    learned=$(divergence "$work/two")
    gptq=$(divergence "$work/two-gptq")
    awk -v a="$learned" -v b="$gptq" 'BEGIN { exit !(a > 0 && a < 0.8 * b) }' &&
        pass "KL divergence at 2 bits: $learned, of gptq $gptq" ||
        fail "KL divergence at 2 bits: $learned, of gptq $gptq"
}
thorough && thorough_loss

# The estimate is kept; that of a small model is in test_recipes.sh.
thorough || finish
if grep -q __asan_init "$pith"; then
    skip "memory" "a sanitizer's own memory would be counted"
else
    rehearse="--quiet --calib-tokens 512 --seq-len 512 --threads 2"
    echo '{"base": "autoround", "iterations": 2, "batch": 1}' >"$recipe"
    # shellcheck disable=SC2086
    bytes=$("$pith" quantize "$probe" -o "$work/never" $rehearse -r "$recipe" --rehearse --json |
        sed -n 's/.*"memory_expected_bytes": \([0-9]*\).*/\1/p')
    # shellcheck disable=SC2086
    foretold learned "$bytes" "$work/probe-out" "$pith" quantize "$probe" -o "$work/probe-out" -r "$recipe" $rehearse
fi
finish
