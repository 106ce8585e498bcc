#!/bin/sh
# Runs test programs one after the other, shows the output of those that fail and what others skip, and
# closes with a line that counts tests: "N passed, N failed".
set -u
passed=0
failed=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT
for t in "$@"; do
    start=$(date +%s)
    timeout "${PITH_TEST_TIMEOUT:-900}" "$t" >"$log" 2>&1
    rc=$?
    ok=$(grep -c '^\[       OK \]' "$log")
    ko=$(grep -c '^\[  FAILED  \] [^0-9]' "$log")
    [ "$rc" -eq 0 ] || [ "$ko" -gt 0 ] || ko=1
    passed=$((passed + ok))
    failed=$((failed + ko))
    printf '%-50s %3d ok %s (%d s)\n' "${t##*/tests/}" "$ok" "$([ "$rc" -eq 0 ] || echo "FAILED rc=$rc")" "$(($(date +%s) - start))"
    if [ "$rc" -eq 0 ]; then grep '^\[  SKIPPED \] [^0-9]' "$log"; else tail -n 40 "$log"; fi
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
