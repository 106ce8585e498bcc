#!/bin/bash
# Runs test programs side by side (PITH_TEST_JOBS, by default one a core), shows the output of those that fail and what
# others skip, shows once more what failed, since that may be far up by then, and closes with a line that counts tests:
# "N passed, N failed". Long ones should be named first.
set -u
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
export logs
# Looked for once, since python3 may be a launcher: tests/cli/lib.sh.
PITH_PYTHON=${PITH_PYTHON:-$(python3 -c 'import sys; print(sys.executable)')}
export PITH_PYTHON

# one PROGRAM: runs it and says how it went; its counts stay in $logs.
one() {
    log=$logs/$(tr / _ <<<"$1")
    TIMEFORMAT='%R s, %U user, %S system'
    { time timeout "${PITH_TEST_TIMEOUT:-900}" "$1" >"$log" 2>&1; } 2>"$log.time"
    rc=$?
    ok=$(grep -c '^\[       OK \]' "$log")
    ko=$(grep -c '^\[  FAILED  \] [^0-9]' "$log")
    [ "$rc" -eq 0 ] || [ "$ko" -gt 0 ] || ko=1
    echo "$ok $ko" >"$log.count"
    {
        printf '%-50s %3d ok %s (%s)\n' "${1##*/tests/}" "$ok" "$([ "$rc" -eq 0 ] || echo "FAILED rc=$rc")" "$(cat "$log.time")"
        if [ "$rc" -eq 0 ]; then grep '^\[  SKIPPED \] [^0-9]' "$log"; else
            grep -A 5 '^\[  FAILED  \] [^0-9]' "$log" | head -n 60
            echo "...the last lines:"
            tail -n 20 "$log"
        fi
    } >"$log.said"
    cat "$log.said" # in one piece: others write too
    [ "$rc" -eq 0 ] || mv "$log.said" "$log.failed"
    return 0
}
export -f one

printf '%s\0' "$@" | xargs -0 -n 1 -P "${PITH_TEST_JOBS:-$(nproc)}" bash -c 'one "$1"' _
cat "$logs"/*.failed 2>/dev/null
cat "$logs"/*.count | awk -v want=$# '{ passed += $1; failed += $2 }
    END { if (NR != want) { print want - NR " tests did not end"; failed++ }
          print passed + 0 " passed, " failed + 0 " failed"; exit !(failed == 0 && passed > 0) }'
