#!/bin/sh
# Roundings that look at the whole model: guided by gradients of its loss, held against what it was before the
# blocks in front were rounded. Proven, the same bytes for any thread count, instructions and after a kill, within
# the memory that was estimated; what they cannot go with is refused by name.
set -u
. tests/cli/lib.sh
mini=$work/mini
python3 tests/cli/mini.py "$mini" layers=3 hidden=64 ffn=128
few="--quiet --calib-tokens 256 --seq-len 32"
grep -q __asan_init "$pith" && sanitized=0 || sanitized=1

# shellcheck disable=SC2086
make() { # OUT OPTIONS...
    out=$1
    shift
    "$pith" quantize "$mini" -o "$out" $few -r gptq --weights int3:g32 --container compressed-tensors "$@"
}
within() { # OUT REHEARSAL: the memory that was used, against what was foretold
    [ "$sanitized" = 0 ] && return 0 # a sanitizer's own memory would be counted
    used=$(sed -n 's/.*"peak_memory_bytes": \([0-9]*\).*/\1/p' "$1/pith.json")
    said=$(sed -n 's/.*"memory_expected_bytes": \([0-9]*\).*/\1/p' "$2")
    echo "used $used, foretold $said" >&2
    [ "$used" -le "$said" ]
}

for round in gptq:guided gptaq qep:guided gptq:kron qep:kron; do
    one=$work/one-$round
    check "$round" make "$one" --round $round --threads 1
    check "$round: verifies" "$pith" verify "$one" --against "$mini"
    check "$round: speaks" "$pith" run "$one" -p "The" -n 4
    check "$round, three threads, scalar code" make "$one-scalar" --round $round --threads 3 --cpu scalar
    same_model "$round: the same bytes" "$one" "$one-scalar"
    # shellcheck disable=SC2086
    "$pith" quantize "$mini" -o "$work/said" $few -r gptq --weights int3:g32 --round $round --rehearse --json \
        >"$work/said.json" 2>"$work/stderr" || fail "$round: a rehearsal"
    check "$round: memory as foretold" within "$one" "$work/said.json"
    [ "$(find "$one" -name 'pith.acts*' -o -name 'pith.guide*' -o -name 'pith.sense*' | wc -l)" -eq 0 ] &&
        pass "$round: nothing is left beside" || fail "$round: nothing is left beside"
done
"$pith" diff "$work/one-gptaq" "$work/one-qep:guided" --quiet >/dev/null 2>&1 &&
    fail "roundings differ" || pass "roundings differ"
python3 - "$work/one-qep:guided/pith.json" <<'PY' && pass "the account tells of the guide" || fail "the account tells of the guide"
import json, sys
j = json.load(open(sys.argv[1]))
assert j["guide"] == {"loss": "divergence", "row_groups": 1, "unguided": []}, j["guide"]
assert j["recipe"]["round"] == "qep:guided" and j["recipe"]["drift"] == 0.5, j["recipe"]
assert all(l["loss"] < l["loss_nearest"] for l in j["linears"]), j["linears"]
PY

# Groups of rows with a Hessian each: another result, all the same from any number of threads.
echo '{"base": "gptq", "weights": "int3:g32", "round": "gptq:guided", "row_groups": 4}' >"$work/four.json"
# shellcheck disable=SC2086
for threads in 1 3; do
    check "four groups of rows, $threads threads" "$pith" quantize "$mini" -o "$work/four-$threads" $few \
        -r "$work/four.json" --container compressed-tensors --threads $threads
done
same_model "four groups of rows: the same bytes" "$work/four-1" "$work/four-3"
check "four groups of rows: verifies" "$pith" verify "$work/four-1" --against "$mini"
for more in "--round qep:kron" "--transform rotate" "--round gptq:kron --transform rotate"; do
    # shellcheck disable=SC2086
    check "four groups of rows, $more" "$pith" quantize "$mini" -o "$work/four" $few -r "$work/four.json" --container compressed-tensors $more
    check "four groups of rows, $more: verifies" "$pith" verify "$work/four" --against "$mini"
    rm -rf "$work/four"
done

# Killed in the pass of the gradients, or behind it: each rounding there and here, with "make test-all" everywhere.
if faulty; then
    for round in gptq:guided qep:guided qep:kron; do
        for fault in "kill:2 pith.guide.journal" "half:4 pith.guide.journal" "kill:6 pith.guide.journal" \
            "kill:2 pith.journal" "half:3 pith.journal"; do
            thorough || case $round-${fault% *}-${fault#* } in
            gptq:guided-kill:2-pith.guide.journal | gptq:guided-half:3-pith.journal | qep:guided-half:4-*) ;;
            qep:guided-kill:2-pith.journal | qep:kron-kill:6-* | qep:kron-half:3-*) ;;
            *) continue ;;
            esac
            rm -rf "$work/out" "$work/out.partial"
            (export FAULT_AT="${fault#* }" && with_fault "${fault% *}" make "$work/out" --round $round --threads 2) 2>"$work/stderr"
            [ $? -eq 137 ] || fail "$fault: not killed"
            make "$work/out" --round $round --resume 2>"$work/stderr" || tail -n 1 "$work/stderr"
            same_model "$round: $fault, resumed" "$work/one-$round" "$work/out"
        done
    done
    # What was felt is part of what is gone on with.
    rm -rf "$work/out" "$work/out.partial"
    (export FAULT_AT=pith.journal && with_fault kill:3 make "$work/out" --round gptq:guided) 2>"$work/stderr"
    printf 'damage' | dd of="$work/out.partial/pith.guide" conv=notrunc bs=1 seek=100 2>/dev/null
    check "a damaged guide" make "$work/out" --round gptq:guided --resume
    same_model "a damaged guide is made anew" "$work/one-gptq:guided" "$work/out"
else
    skip "killed and resumed" "a library cannot be loaded before the program"
fi

# Trellis codes: rows and drift are made up for tile by tile.
python3 tests/cli/mini.py "$work/tiles" layers=1 hidden=128 ffn=128 heads=2
coded="$few -r exl3 --weights trellis2"
for threads in 1 3; do
    # shellcheck disable=SC2086
    check "qep:kron of trellis codes, $threads threads" "$pith" quantize "$work/tiles" -o "$work/coded-$threads" $coded \
        --round qep:kron --threads $threads
done
same_model "trellis codes: the same bytes" "$work/coded-1" "$work/coded-3"
check "trellis codes: verifies" "$pith" verify "$work/coded-1" --against "$work/tiles"
# shellcheck disable=SC2086
"$pith" quantize "$work/tiles" -o "$work/said" $coded --round qep:kron --rehearse --json >"$work/said.json" || fail "trellis codes: a rehearsal"
check "trellis codes: memory as foretold" within "$work/coded-1" "$work/said.json"
# shellcheck disable=SC2086
refuse "gptaq goes column by column" 2 'gptaq does not go with trellis2' "$pith" quantize "$work/tiles" -o "$work/x" $coded --round gptaq

# Other grids and stages.
turn=0
for more in "--weights int4:channel --acts int8:token" "--weights nvfp4" "--weights nf4:g64:dq --container bitsandbytes" \
    "--weights codebook4:channel --split sparse:0.45 --container squeezellm" "--weights none --split 2:4" \
    "--weights int4:g32 --transform awq" "--weights int4:g32 --transform rotate" "--ignore q_proj --weights int4:g32"; do
    rounds="gptq:guided gptaq qep:guided qep:kron" # in turn; with "make test-all" each with each
    turn=$((turn % 4 + 1))
    thorough || rounds=$(echo "$rounds" | cut -d ' ' -f $turn)
    for round in $rounds; do
        # shellcheck disable=SC2086
        check "$round $more" make "$work/more" --round $round $more
        check "$round $more: verifies" "$pith" verify "$work/more" --against "$mini"
        rm -rf "$work/more"
    done
done

# Pairs of outputs that a transform scales or turns: the same bytes, also after a kill, and memory as foretold.
thorough && transforms="awq smooth:0.5 rotate" || transforms="awq rotate" # of a scale and of a turn
for transform in $transforms; do
    rm -rf "$work/out" "$work/out.partial"
    check "kron, $transform" make "$work/scaled" --round qep:kron --transform $transform --threads 1
    check "kron, $transform: verifies" "$pith" verify "$work/scaled" --against "$mini"
    check "kron, $transform, three threads, scalar code" make "$work/scaled-3" --round qep:kron --transform $transform --threads 3 --cpu scalar
    same_model "kron, $transform: the same bytes" "$work/scaled" "$work/scaled-3"
    # shellcheck disable=SC2086
    "$pith" quantize "$mini" -o "$work/said" $few -r gptq --weights int3:g32 --container compressed-tensors --round qep:kron \
        --transform $transform --rehearse --json >"$work/said.json" 2>"$work/stderr" || fail "kron, $transform: a rehearsal"
    check "kron, $transform: memory as foretold" within "$work/scaled" "$work/said.json"
    if faulty; then
        (export FAULT_AT=pith.journal && with_fault kill:3 make "$work/out" --round qep:kron --transform $transform) 2>"$work/stderr"
        make "$work/out" --round qep:kron --transform $transform --resume 2>"$work/stderr" || tail -n 1 "$work/stderr"
        same_model "kron, $transform: killed, resumed" "$work/scaled" "$work/out"
    fi
    rm -rf "$work/scaled" "$work/scaled-3"
done

check "weighted, guided" make "$work/weighted" --round weighted:guided --weights codebook4:channel --container squeezellm
check "weighted, guided: verifies" "$pith" verify "$work/weighted" --against "$mini"

# Experts: each is guided by its own tokens' gradients, and held against what it gave them in the original.
moe=$root/models/probe-moe
for round in gptq:guided qep qep:kron; do
    check "a mixture, $round" "$pith" quantize "$moe" -o "$work/moe" --quiet --calib-tokens 256 --seq-len 32 -r gptq \
        --round $round --weights int4:g128
    check "a mixture, $round: verifies" "$pith" verify "$work/moe" --against "$moe"
    "$pith" quantize "$moe" -o "$work/said" --quiet --calib-tokens 256 --seq-len 32 -r gptq --round $round \
        --weights int4:g128 --rehearse --json >"$work/said.json" 2>"$work/stderr" || fail "a mixture, $round: a rehearsal"
    check "a mixture, $round: memory as foretold" within "$work/moe" "$work/said.json"
    rm -rf "$work/moe"
done
refuse "sensitivities by it" 1 'sensitivities are of one linear' \
    "$pith" sensitivity "$mini" --quiet --round gptq:guided --try int4:g32
finish
