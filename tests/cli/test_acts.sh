#!/bin/sh
# Quantized activations: every grid that can be told to a container is written, verified, read back and
# measured; integers give the same bytes and logits on any number of threads.
. "$(dirname "$0")/lib.sh"

thorough && calibrated=2048 || calibrated=1024
quantize() { # name options
    name=$1
    shift
    "$pith" quantize "$probe" -o "$work/$name" --calib-tokens $calibrated --seq-len 256 --quiet "$@" >/dev/null 2>"$work/err" ||
        fail "$name: $(cat "$work/err")"
}
thorough && scored=1024 || scored=768
limits="--text $probe/eval.txt --context 128 --max-tokens $scored"
measure() { # name...: the KL of all against one pass of the probe
    for name; do set -- "$@" "$work/$name" && shift; done
    # shellcheck disable=SC2086
    "$pith" compare "$probe" "$@" $limits --json --quiet 2>/dev/null | python3 -c '
import json, sys
for m in json.load(sys.stdin)["models"][1:]: print(m["name"], m["texts"][0]["kld_mean"])' >"$work/measured"
}
kld() { # name, options where it is measured by itself
    name=$1
    shift
    # shellcheck disable=SC2086
    if [ $# -eq 0 ]; then
        awk -v name="$name" '$1 == name { print $2 }' "$work/measured"
    else
        "$pith" eval "$work/$name" --baseline "$probe" $limits --json "$@" 2>/dev/null |
            sed -n 's/.*"kld_mean": \([0-9.e-]*\).*/\1/p' | head -1
    fi
}
less() { # label a b factor: a <= b * factor
    awk -v a="$2" -v b="$3" -v f="$4" 'BEGIN { exit !(a != "" && b != "" && a + 0 <= b * f) }' &&
        pass "$1" || fail "$1: $2 against $3"
}

quantize w8 -r w8a16
quantize w8a8 -r w8a8
quantize smooth -r smoothquant
quantize static -r w8a8 --acts int8:tensor:static
quantize zero -r w8a8 --acts int8:tensor:asym:static
quantize int8 -r llm.int8
made="w8a8 smooth static zero int8"
if thorough; then
    quantize auto -r w8a8 --transform smooth:auto
    quantize groups -r w8a8 --acts int8:g128
    quantize w4a8 -r w4a8
    quantize w4a4 -r w4a8 --acts int4:token
    made="$made auto groups w4a8 w4a4"
fi
# shellcheck disable=SC2086
measure w8 $made
base=$(kld w8)
eight=$(kld w8a8)
static=$(kld static)
for name in $made; do
    "$pith" verify "$work/$name" --against "$probe" --quiet >/dev/null 2>"$work/err" || fail "$name: $(cat "$work/err")"
done
pass "what was written is verified"
less "8-bit activations cost more than none" "$base" "$eight" 1
less "but little" "$eight" 0.01 1
less "a zero point helps one scale a tensor" "$(kld zero)" "$static" 1
less "a scale a token beats one a tensor" "$eight" "$static" 0.5
thorough && less "4 bits cost more than 8" "$(kld w4a8)" "$(kld w4a4)" 0.5
less "outlier columns in 16 bits" "$(kld int8)" "$eight" 1
[ -n "$eight" ] && [ "$(kld w8a8 --threads 1)" = "$eight" ] && [ "$(kld w8a8 --threads 3)" = "$eight" ] &&
    pass "same on any number of threads, alone and beside others" || fail "threads show"
less "the fast mode multiplies the same integers" "$(kld w8a8 --mode fast)" "$eight" 1.25
finish
