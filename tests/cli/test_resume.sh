#!/bin/sh
# A run that is killed at any moment and resumed gives the bytes of an undisturbed run.
# KILLS: how many runs are killed at random moments (several times each); STRIDE: every how many-th
# call that changes a file is one to be killed at (1: all of them).
set -u
. tests/cli/lib.sh
kills=${KILLS:-5}
stride=${STRIDE:-7}
mini=$work/mini
python3 tests/cli/mini.py "$mini" layers=2
base="--quiet --weights int4:g32 --container compressed-tensors --threads 2 --calib-tokens 256 --seq-len 64"

# shellcheck disable=SC2086
make() { # OUT OPTIONS...
    out=$1
    shift
    "$pith" quantize "$mini" -o "$out" $base "$@"
}
same() { # NAME OUT: the same bytes as $whole
    [ -e "$2.partial" ] && fail "$1: the work folder is still there" && return 1
    if [ "$(digest "$2")" = "$whole" ]; then pass "$1"; else fail "$1: other bytes"; fi
}

# --- killed at each call that changes a file ------------------------------------------------------
make "$work/whole" -r gptq || fail "undisturbed run"
whole=$(digest "$work/whole")
if faulty; then
    n=1
    points=0
    wrong=0
    while :; do
        for fault in kill half; do
            rm -rf "$work/out" "$work/out.partial"
            (FAULT=$fault:$n LD_PRELOAD=$faulty make "$work/out" -r gptq) 2>"$work/stderr"
            rc=$?
            [ $rc -eq 0 ] && break 2
            points=$((points + 1))
            make "$work/out" -r gptq --resume 2>"$work/stderr" && [ "$(digest "$work/out")" = "$whole" ] &&
                [ ! -e "$work/out.partial" ] && [ $rc -eq 137 ] && continue
            wrong=$((wrong + 1))
            echo "$fault before call $n (status $rc):" && tail -n 2 "$work/stderr"
        done
        n=$((n + stride))
    done
    [ $wrong -eq 0 ] && [ $points -gt 10 ] && pass "killed at $points calls that change a file, resumed" ||
        fail "killed at $points calls that change a file: $wrong of them not resumed to the same bytes"
else
    skip "killed at each call that changes a file" "a library cannot be loaded before the program"
fi

# --- killed at random moments ---------------------------------------------------------------------
base="--quiet --weights int4:g32 --container compressed-tensors --threads 2 --calib-tokens 512 --seq-len 64"
rm -rf "$work/whole"
start=$(date +%s%N)
make "$work/whole" -r awq+gptq || fail "undisturbed run"
took=$((($(date +%s%N) - start) / 1000000))
whole=$(digest "$work/whole")
n=0
deaths=0
while [ $n -lt "$kills" ]; do
    n=$((n + 1))
    times=0
    rm -rf "$work/out" "$work/out.partial"
    while [ $times -lt 4 ]; do
        times=$((times + 1))
        after=$(awk -v t=$took -v seed=$((n * 97 + times)) 'BEGIN { srand(seed); printf "%.3f", 0.001 + rand() * t / 1000 }')
        # shellcheck disable=SC2086
        "$pith" quantize "$mini" -o "$work/out" $base -r awq+gptq --resume 2>"$work/stderr" &
        pid=$!
        sleep "$after"
        kill -KILL $pid 2>/dev/null
        wait $pid 2>/dev/null # until it is gone, and holds the folder no longer
        [ $? -eq 137 ] && deaths=$((deaths + 1))
    done
    make "$work/out" -r awq+gptq --resume 2>"$work/stderr" || tail -n 1 "$work/stderr"
    same "killed at random moments, resumed ($n)" "$work/out"
done
echo "$deaths deaths in $n runs"

# --- interrupted ----------------------------------------------------------------------------------
rm -rf "$work/out" "$work/whole" "$mini"
python3 tests/cli/mini.py "$mini" layers=5
make "$work/whole" -r awq+gptq || fail "undisturbed run"
whole=$(digest "$work/whole")
# Stopped before the journal's fourth line, until it is told to go on.
is_stopped() {
    grep -q '^State:.*stopped' "/proc/$pid/status"
}
if faulty; then
    # shellcheck disable=SC2086
    FAULT=stop:3 FAULT_AT=pith.journal LD_PRELOAD=$faulty \
        "$pith" quantize "$mini" -o "$work/half" $base -r awq+gptq 2>"$work/interrupted" &
    pid=$!
    awaited 60 is_stopped || fail "not stopped in the middle"
else
    # shellcheck disable=SC2086
    "$pith" quantize "$mini" -o "$work/half" $base -r awq+gptq 2>"$work/interrupted" &
    pid=$!
    until [ "$(cat "$work/half.partial/pith.journal" 2>/dev/null | wc -l)" -ge 3 ] || ! kill -0 $pid 2>/dev/null; do
        sleep 0.01
    done
    kill -STOP $pid
fi
refuse "a folder in which another process is at work" 1 'at work there' make "$work/half" -r awq+gptq --resume
# As from a launcher that hands on what the group was sent: twice, and once for the program. Two of one kind that wait
# until it goes on would be one.
kill -INT $pid
kill -TERM $pid
kill -CONT $pid
wait $pid
[ $? -eq 130 ] && pass "interrupted: status 130" || fail "interrupted: status 130"
[ "$(wc -l <"$work/interrupted")" -eq 1 ] && grep -q -e '--resume' "$work/interrupted" && pass "the message tells how to go on" ||
    fail "the message tells how to go on"
[ -e "$work/half" ] && fail "nothing unfinished has the final name" || pass "nothing unfinished has the final name"

# --- what the unfinished folder may look like -----------------------------------------------------
units() {
    wc -l <"$work/half.partial/pith.journal"
}
again() { # NAME: a copy of the unfinished folder, changed by the caller's commands, is finished
    rm -rf "$work/out"
    make "$work/out" -r awq+gptq --resume 2>"$work/stderr" || tail -n 1 "$work/stderr"
    same "$1" "$work/out"
}
copy() {
    rm -rf "$work/out.partial"
    cp -rp "$work/half.partial" "$work/out.partial"
    journal=$work/out.partial/pith.journal
}
copy && again "interrupted in the middle ($(units) lines), resumed"
copy && printf '{"unit": "block 3", "linears": [' >>"$journal" && again "a torn last line"
copy && truncate -s -5 "$journal" && again "the last unit's line cut short"
copy && sed -i '3s/.*/{"unit": 7}/' "$journal" && again "a line that is not a unit"
copy && sed -i '2s/"outer"/"block 4"/' "$journal" && again "a unit out of order"
copy && head -c 5000 /dev/urandom >"$journal" && again "a journal of garbage"
copy && : >"$journal" && again "an empty journal"
copy && dd if=/dev/urandom of="$work/out.partial/pith.acts.0" bs=1k count=4 conv=notrunc 2>/dev/null &&
    dd if=/dev/urandom of="$work/out.partial/pith.acts.1" bs=1k count=4 conv=notrunc 2>/dev/null &&
    again "damaged activations"
copy && rm "$work/out.partial/pith.acts.0" "$work/out.partial/pith.acts.1" && again "lost activations"
copy && dd if=/dev/zero of="$work/out.partial/model.safetensors" bs=1k seek=540 count=8 conv=notrunc 2>/dev/null &&
    again "damaged tensors"
copy && rm "$work/out.partial/model.safetensors" && again "lost tensors"
copy && rm "$work/out.partial/config.json" && again "a lost config"
copy && echo "{" >"$work/out.partial/config.json.tmp" && again "a file that was being written"
rm -rf "$work/out" && cp -r "$work/whole" "$work/out" && cp "$work/half.partial/pith.journal" "$work/out/" &&
    make "$work/out" -r awq+gptq --resume && same "killed after the last step: only the journal was left" "$work/out"
make "$work/out" -r awq+gptq --resume && same "finished already" "$work/out"

# --- what is refused ------------------------------------------------------------------------------
refuse "a finished folder of another job" 1 'exists already' make "$work/out" -r gptq --resume
rm -rf "$work/out"
copy
for other in "-r gptq" "-r awq+gptq --weights int4:g64" "-r awq+gptq --calib-tokens 256" "-r awq+gptq --seed 3" \
    "-r awq+gptq --ignore o_proj" "-r awq+gptq --max-shard 1M" "-r awq+gptq --calib $root/CHANGELOG.md"; do
    # shellcheck disable=SC2086
    refuse "another job is not resumed ($other)" 1 'belongs to another run' make "$work/out" $other --resume
done
refuse "an unfinished run is not overwritten" 1 'continue it with --resume' make "$work/out" -r awq+gptq
again "and is resumed after all that"
rm -rf "$work/out" && mkdir "$work/out.partial" && echo torn >"$work/out.partial/pith.journal.tmp" &&
    again "killed while the journal's first line was written"
mkdir "$work/x.partial" && echo mine >"$work/x.partial/notes"
refuse "a folder with something else in it" 1 'holds something else' make "$work/x" -r gptq --resume
[ "$(cat "$work/x.partial/notes")" = mine ] && pass "is left alone" || fail "is left alone"
finish
