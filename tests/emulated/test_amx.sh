#!/bin/sh
# The matrix unit of x86 (AMX), emulated (tests/emulated/amx.c) unless the CPU has one: its kernels give
# the bits of the scalar ones, and the program those of the program without them.
set -eu
. "$(dirname "$0")/lib.sh"
build=${BUILD:-build}
cpu=amx
emulate() {
    "$@"
}
tier bf16 "$build/tests/emulated/tier" || tier amx "$build/tests/emulated/tier" || {
    skip "the AMX tier" "this CPU has no AVX-512 with VNNI and BF16, which stand below it"
    finish
}
units "$build/amx" kern/test_kernels kern/test_bf16 kern/test_panels backend/test_pinned backend/test_bf16 \
    backend/test_input backend/test_linear backend/test_pack

check "a unit that gives the bits is used" "$build/amx/pith" bench "$probe" --cpu amx --prompt 2 --gen 1 --reps 1
if tier bf16 "$build/tests/emulated/tier"; then
    for wrong in keeps signs none order; do
        PITH_TEST_AMX=$wrong
        export PITH_TEST_AMX
        refuse "a unit with other results is not ($wrong)" 2 "no amx; it has bf16" "$build/amx/pith" bench \
            "$probe" --cpu amx --prompt 2 --gen 1 --reps 1
        unset PITH_TEST_AMX
    done
fi

# both NAME COMMAND...: `pith COMMAND... -o DIR` by the unit and without it, the same bytes.
both() {
    name=$1
    shift
    check "$name, by AMX" "$build/amx/pith" "$@" -o "$work/amx" --cpu amx --quiet
    check "$name, without" "$pith" "$@" -o "$work/plain" --cpu bf16 --quiet
    same_model "$name: the same bytes" "$work/amx" "$work/plain"
    rm -rf "$work/amx" "$work/plain"
}
both "gptq, products of bfloat16" quantize "$probe" -r gptq --mode fast --calib-tokens 256 --seq-len 128

"$pith" quantize "$probe" -o "$work/int4" -r rtn --quiet
"$pith" quantize "$probe" -o "$work/w8a8" -r w8a8 --calib-tokens 256 --seq-len 128 --quiet
head -c 3000 models/probe/eval.txt >"$work/text"
# measure PROGRAM MODEL MODE CPU: everything that eval says, its times and the estimate of its memory aside.
measure() {
    "$1" eval "$work/$2" --text "$work/text" --context 128 --mode "$3" --cpu "$4" --json \
        2>/dev/null | sed '/second/d; /"cpu"/d; /"memory_expected"/d'
}
for model in int4 w8a8; do
    for mode in exact fast; do
        measure "$build/amx/pith" $model $mode amx >"$work/amx"
        measure "$pith" $model $mode bf16 >"$work/plain"
        check "$model, $mode: measured" grep -q perplexity "$work/amx"
        check "$model, $mode: the same measurement" cmp "$work/amx" "$work/plain"
    done
done
finish
