#!/bin/sh
# --memory: the estimate is an upper bound, and within twice the peak; with just that much a run
# succeeds, with less it is refused before it starts.
set -u
. tests/cli/lib.sh
few="--quiet --calib-tokens 512 --seq-len 512 --threads 2"
if grep -q __asan_init "$pith"; then
    skip "memory" "a sanitizer's own memory would be counted"
    exit 0
fi

# shellcheck disable=SC2086
make() { # RECIPE OPTIONS...
    rm -rf "$work/made" "$work/made.partial"
    recipe=$1
    shift
    "$pith" quantize "$probe" -o "$work/made" -r "$recipe" $few "$@"
}
thorough && recipes="rtn gptq awq sparsegpt wanda squeezellm" || recipes="rtn gptq squeezellm"
for recipe in $recipes; do
    bytes=$(make $recipe --rehearse --json | sed -n 's/.*"memory_expected_bytes": \([0-9]*\).*/\1/p')
    check "$recipe: with $((bytes / 1024)) KiB, as estimated" make $recipe --memory "$bytes"
    refuse "$recipe: with a tenth less" 1 'needs about .* MiB and --memory allows' make $recipe --memory $((bytes * 9 / 10))
    [ -e "$work/made" ] || [ -e "$work/made.partial" ] && fail "$recipe: refused, and something is there"
    # shellcheck disable=SC2086
    peak=$(python3 tests/cli/peak.py "$pith" quantize "$probe" -o "$work/made" -r $recipe $few)
    [ "$peak" -le "$bytes" ] && [ "$bytes" -lt $((peak * 2)) ] &&
        pass "$recipe: the peak of $((peak / 1024)) KiB is near the estimate" ||
        fail "$recipe: estimated $((bytes / 1024)) KiB, the peak was $((peak / 1024)) KiB"
done

# A GGUF file's embedding is one matrix, wider than any other; here wide enough to be most of what is held, and long
# enough in the making to be seen. Of several runs the highest peak.
python3 tests/cli/mini.py "$work/wide" layers=1 hidden=1024 ffn=1024
thorough && grids="int8:g32 q4_k" || grids=q4_k
for grid in $grids; do
    wide="quantize $work/wide -o $work/made.gguf -r rtn --weights $grid --threads 2 --quiet"
    # shellcheck disable=SC2086
    bytes=$("$pith" $wide --rehearse --json | sed -n 's/.*"memory_expected_bytes": \([0-9]*\).*/\1/p')
    peak=0
    for _ in 1 2 3 4; do
        rm -f "$work/made.gguf" "$work/made.gguf.pith.json"
        # shellcheck disable=SC2086
        seen=$(python3 tests/cli/peak.py "$pith" $wide)
        [ "$seen" -gt "$peak" ] && peak=$seen
    done
    [ "$peak" -le "$bytes" ] && [ "$bytes" -lt $((peak * 2)) ] &&
        pass "gguf, $grid: the peak of $((peak / 1024)) KiB is near the estimate" ||
        fail "gguf, $grid: estimated $((bytes / 1024)) KiB, the peak was $((peak / 1024)) KiB"
done
finish
