#!/bin/sh
# Fuzzes one target: fuzz_one.sh PROGRAM SECONDS. FUZZ_SEED makes two runs try the same inputs in the same order
# (0, the default: others each time). Seeds are fuzz/corpus/<name>/; what is found new goes to
# a work folder in the build; a finding ends with status 1 and the input that caused it.
set -eu
program=$1
seconds=$2
name=$(basename "$program" | sed 's/^fuzz_//')
seeds=fuzz/corpus/$name
work=$(dirname "$program")/work-$name
mkdir -p "$work" "$seeds"
"$program" -seed="${FUZZ_SEED:-0}" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=3000 -print_final_stats=1 \
    -artifact_prefix="$work/finding-" "$work" "$seeds" >"$work.log" 2>&1 || {
    tail -n 60 "$work.log"
    exit 1
}
echo "$name: no finding in $(sed -n 's/^stat::number_of_executed_units: *//p' "$work.log") inputs"
