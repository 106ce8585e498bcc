#!/bin/sh
# The tiers of 64-bit Arm on emulated CPUs: the unit tests of the layers up to backend/, built by a
# cross-compiler ("make arm64").
set -eu
. "$(dirname "$0")/lib.sh"
build=${BUILD:-build}/arm64
fails() {
    emulate "$1" >"$work/log" 2>&1 && return 1
    [ "$?" = 1 ] && grep -q 'two is not one' "$work/log"
}

if ! command -v qemu-aarch64 >/dev/null; then
    skip "the tiers of 64-bit Arm" "no qemu-aarch64 (Debian: qemu-user)"
elif [ ! -x "$build/tests/emulated/tier" ]; then
    skip "the tiers of 64-bit Arm" "no cross-compiler (Debian: gcc-aarch64-linux-gnu, libc6-dev-arm64-cross)"
else
    emulate() {
        qemu-aarch64 -cpu "$cpu" "$@"
    }
    cpu=cortex-a53 # the first generation: no more than the architecture demands
    check "$cpu has NEON" tier neon "$build/tests/emulated/tier"
    check "a failing test is seen" fails "$build/tests/emulated/fails"
    # shellcheck disable=SC2046
    units "$build/tests/unit" $(cd "$build/tests/unit" && find backend num -name 'test_*' ! -name '*.*' | sort)
    cpu=max # runs the kernels of both tiers
    check "$cpu has dot products" tier dotprod "$build/tests/emulated/tier"
    units "$build/tests/unit" kern/test_exp kern/test_fenced kern/test_coded kern/test_kernels backend/test_pinned backend/test_roof
    quick_units "$build/tests/unit" kern/test_panels
fi
finish
