#!/bin/sh
# A run killed at random moments and resumed gives the bytes of an undisturbed run. KILLS: how many moments.
set -u
. tests/cli/lib.sh
kills=${KILLS:-6}
options="-r awq+gptq --calib-tokens 8192 --seq-len 256 --threads 2 --quiet"

start=$(date +%s%N)
# shellcheck disable=SC2086
"$pith" quantize "$probe" -o "$work/whole" $options || fail "undisturbed run"
took=$((($(date +%s%N) - start) / 1000000))
n=0
while [ $n -lt "$kills" ]; do
    n=$((n + 1))
    rm -rf "$work/out" "$work/out.partial"
    resume=
    times=0
    while [ ! -e "$work/out" ] && [ $times -lt 40 ]; do
        times=$((times + 1))
        after=$(awk -v t=$took -v seed=$((n * 97 + times)) 'BEGIN { srand(seed); printf "%.3f", rand() * t / 1000 }')
        # shellcheck disable=SC2086
        timeout -s KILL "$after" "$pith" quantize "$probe" -o "$work/out" $options $resume 2>"$work/err"
        if [ -e "$work/out.partial/pith.journal" ] || [ -e "$work/out/pith.journal" ]; then resume=--resume; fi
        [ $times -lt 3 ] && continue
        # shellcheck disable=SC2086
        "$pith" quantize "$probe" -o "$work/out" $options $resume 2>"$work/err"
    done
    [ -e "$work/out/pith.journal" ] && "$pith" quantize "$probe" -o "$work/out" $options --resume
    same_model "killed at random moments, resumed ($n)" "$work/whole" "$work/out"
done
refuse "another job is not resumed" 1 'belongs to another run' sh -c "
    mkdir -p '$work/x.partial'; echo '{\"job\":\"other\"}' >'$work/x.partial/pith.journal'
    '$pith' quantize '$probe' -o '$work/x' -r rtn --resume"
refuse "an unfinished run is not overwritten" 1 'continue it with --resume' "$pith" quantize "$probe" -o "$work/x" -r rtn
finish
