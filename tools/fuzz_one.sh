#!/bin/sh
# Fuzzes one target: fuzz_one.sh PROGRAM SECONDS. Seeds are fuzz/corpus/<name>/; what is found new goes to
# a work folder in the build; a finding ends with status 1 and the input that caused it.
set -eu
program=$1
seconds=$2
name=$(basename "$program" | sed 's/^fuzz_//')
seeds=fuzz/corpus/$name
work=$(dirname "$program")/work-$name
mkdir -p "$work" "$seeds"
echo "fuzzing $name for $seconds s"
"$program" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=3000 -print_final_stats=1 \
    -artifact_prefix="$work/finding-" "$work" "$seeds" >"$work.log" 2>&1 || {
    tail -n 60 "$work.log"
    exit 1
}
grep -E 'stat::number_of_executed_units|stat::new_units_added' "$work.log"
