#!/bin/sh
# Fuzzes one target: fuzz_one.sh PROGRAM SECONDS. Seeds are fuzz/corpus/<name>/; what is found new goes to a work folder in
# the build, from which the next run goes on; a finding ends with status 1 and the input that caused it.
# FUZZ_SEED makes two runs try the same inputs in the same order (0, the default: others each time), if neither has found
# anything before and both end after as many.
# FUZZ_RUNS ends a run after so many inputs, of a slow target a part of it; SECONDS are then a ceiling, and what earlier
# runs found is not used. With a seed too, and before the ceiling, the same program tries the same inputs however fast the
# machine is, and finds the same: seeds are taken by name, not as a file system lists them; nothing is read again by the
# clock; and memory lies where it did, since libFuzzer takes what is compared into its inputs, addresses too: no random
# layout (where setarch may turn it off; else it is said), no environment. Another compiler or library draws others, and
# so do from run to run http, hub and model, which have sockets or threads.
set -eu
program=$1
seconds=$2
runs=${FUZZ_RUNS:-0}
name=$(basename "$program" | sed 's/^fuzz_//')
seeds=fuzz/corpus/$name
work=$(dirname "$program")/work-$name
mkdir -p "$seeds"
if [ "$runs" -gt 0 ]; then
    work=$work-runs
    rm -rf "$work"
    case $name in # the slow ones: whole models, folders, sockets
    account) runs=$((runs / 100)) ;;
    container) runs=$((runs / 50)) ;;
    corpus | model | tokenizer_dir) runs=$((runs / 5)) ;;
    gguf | grammar | http | hub) runs=$((runs / 2)) ;;
    esac
    find "$seeds" -type f | LC_ALL=C sort | tr '\n' ',' | sed 's/,$//' >"$work.seeds"
    set -- -runs="$runs" -reload=0
    [ ! -s "$work.seeds" ] || set -- "$@" -seed_inputs="@$work.seeds"
    from=$work
    limit=60 # an input takes seconds where the machine is busy: what hangs takes that too
    fixed="env -i PATH=/usr/local/bin:/usr/bin:/bin ASAN_OPTIONS=${ASAN_OPTIONS-}"
    if setarch -R true 2>/dev/null; then fixed="$fixed setarch -R"; else drawn=", with memory laid out at random"; fi
else
    set -- -runs=-1
    from="$work $seeds"
fi
mkdir -p "$work"
# shellcheck disable=SC2086 # words without blanks
${fixed-} "$program" -seed="${FUZZ_SEED:-0}" "$@" -max_total_time="$seconds" -timeout="${limit-20}" -rss_limit_mb=3000 -print_final_stats=1 \
    -artifact_prefix="$work/finding-" $from >"$work.log" 2>&1 || {
    tail -n 60 "$work.log"
    exit 1
}
tried=$(sed -n 's/^stat::number_of_executed_units: *//p' "$work.log")
[ "$tried" -ge "$runs" ] || short=" of $runs: $seconds s were over"
echo "$name: no finding in $tried inputs${short-}${drawn-}"
