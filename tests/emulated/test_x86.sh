#!/bin/sh
# Older x86 CPUs, emulated: what the program is built from runs without the instructions of a tier above
# the CPU's own, and gives the same bits. This machine's own tests run every tier that it has, but on a
# CPU where an instruction in the wrong place does no harm.
set -eu
. "$(dirname "$0")/lib.sh"
build=${BUILD:-build}
command -v qemu-x86_64 >/dev/null || {
    skip "older x86 CPUs" "no qemu-x86_64 (Debian: qemu-user)"
    finish
}
emulate() {
    qemu-x86_64 -cpu "$cpu" "$@"
}

# measure COMMAND...: everything that "pith eval MODEL" says, its times and what the process takes aside.
measure() {
    for mode in exact fast; do
        "$@" --text "$work/text" --context 4 --mode $mode -t 1 --json 2>/dev/null | sed '/second/d; /memory_expected/d'
    done
}

program() {
    check "$cpu: quantize" emulate "$pith" quantize "$probe" -o "$work/$cpu" -r rtn -t 1
    same_model "$cpu: the same bytes" "$work/native" "$work/$cpu"
    check "$cpu: inspect" emulate "$pith" inspect "$work/$cpu" --json
    measure emulate "$pith" eval "$work/native" >"$work/eval"
    check "$cpu: the same measurement" cmp "$work/eval" "$work/eval.native"
}

"$pith" quantize "$probe" -o "$work/native" -r rtn --quiet
echo "Once upon a time" >"$work/text"
measure "$pith" eval "$work/native" >"$work/eval.native"
check "both modes measured" test "$(grep -c perplexity\" "$work/eval.native")" = 4

cpu=Nehalem # SSE4.2: the scalar tier
check "$cpu is scalar" tier scalar "$build/tests/emulated/tier"
units "$build/tests/unit" backend/test_pinned backend/test_pack backend/test_rows
program

cpu=Haswell
if tier avx2 "$build/tests/emulated/tier"; then
    # A masked load of qemu 7.2 reads what the mask leaves out, so memory cannot end at a fence.
    PITH_TEST_UNFENCED=1
    export PITH_TEST_UNFENCED
    units "$build/tests/unit" kern/test_kernels kern/test_bf16 backend/test_pinned backend/test_pack
    quick_units "$build/tests/unit" kern/test_panels # this machine's own AVX2 tries every shape
    program
else
    skip "the AVX2 tier" "this qemu does not emulate it (7.2 does)"
fi
finish
