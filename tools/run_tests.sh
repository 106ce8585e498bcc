#!/bin/bash
# Runs test programs side by side (PITH_TEST_JOBS, by default one a core), shows the output of those that fail and what
# others skip, shows once more what failed, since that may be far up by then, says what time it took, and closes with a
# line that counts tests: "N passed, N failed". What took longest last time, as BUILD/test-times says, is started first;
# what is not in there keeps its place before the others.
# A test is ended when it has used PITH_TEST_TIMEOUT seconds of processor time (900), however long that takes on a busy
# machine; when it has used none for PITH_TEST_IDLE seconds (300); and in any case after eight times the first.
set -u
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
export logs
# Looked for once, since python3 may be a launcher: tests/cli/lib.sh.
PITH_PYTHON=${PITH_PYTHON:-$(python3 -c 'import sys; print(sys.executable)')}
export PITH_PYTHON

# used SESSION: the processor time of its processes and of their children that have ended, in hundredths of a second.
used() {
    cat /proc/[0-9]*/stat 2>/dev/null |
        awk -v session="$1" -v hz="$(getconf CLK_TCK)" '{ sub(/.*\) /, "") } # the name may have blanks
            $4 == session { ticks += $12 + $13 + $14 + $15 } END { printf "%d\n", ticks * 100 / hz }'
}

# signal_all SESSION SIGNAL
signal_all() {
    for stat in /proc/[0-9]*/stat; do
        { read -r line <"$stat"; } 2>/dev/null || continue
        set -- "$1" "$2" ${line##*) }
        [ "$6" = "$1" ] && pid=${stat#/proc/} && kill -s "$2" "${pid%/stat}" 2>/dev/null
    done
}

# watch SESSION LOG: ends it when it has had its time.
watch() {
    limit=${PITH_TEST_TIMEOUT:-900}
    moved=0
    last=0
    for ((at = 0; ; at += 5)); do
        sleep 5
        now=$(used "$1")
        [ "$now" -le "$last" ] || moved=$at
        last=$now
        if [ "$now" -ge $((limit * 100)) ]; then
            why="it used $limit s of processor time"
        elif [ $((at - moved)) -ge "${PITH_TEST_IDLE:-300}" ]; then
            why="it used no processor time for ${PITH_TEST_IDLE:-300} s"
        elif [ $at -ge $((limit * 8)) ]; then
            why="it took $at s"
        else
            continue
        fi
        echo "ended: $why" >>"$2"
        signal_all "$1" TERM
        sleep 2
        signal_all "$1" KILL
        break
    done
}

# limited LOG PROGRAM: runs it in a session of its own, within the limits.
limited() {
    setsid "$2" >"$1" 2>&1 &
    session=$!
    trap 'signal_all $session TERM' INT TERM
    watch $session "$1" >/dev/null 2>&1 &
    watcher=$!
    wait $session
    rc=$?
    kill $watcher
    [ $rc -lt 128 ] || signal_all $session KILL # what it left behind
    return $rc
}

# one PROGRAM: runs it and says how it went; its counts and times stay in $logs.
one() {
    log=$logs/$(tr / _ <<<"$1")
    TIMEFORMAT='%R %U %S'
    { time limited "$log" "$1" 2>/dev/null; } 2>"$log.time"
    rc=$?
    read -r real user system <"$log.time"
    echo "$1 $user $system $rc" >"$log.used"
    ok=$(grep -c '^\[       OK \]' "$log")
    ko=$(grep -c '^\[  FAILED  \] [^0-9]' "$log")
    [ "$rc" -eq 0 ] || [ "$ko" -gt 0 ] || ko=1
    echo "$ok $ko" >"$log.count"
    {
        printf '%-50s %3d ok %s (%s)\n' "${1##*/tests/}" "$ok" "$([ "$rc" -eq 0 ] || echo "FAILED rc=$rc")" \
            "$real s, $user user, $system system"
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
export -f one limited watch signal_all used

# in_order TEST...: the longest first.
times=${BUILD:-build}/test-times
in_order() {
    printf '%s\n' "$@" | awk -v times="$times" '
        BEGIN { while ((getline line <times) > 0) { split(line, part); took[part[1]] = part[2] } }
        { print ($0 in took ? took[$0] : 1e9) "\t" $0 }' | sort -s -k 1,1gr | cut -f 2
}

began=$SECONDS
in_order "$@" | tr '\n' '\0' | xargs -0 -n 1 -P "${PITH_TEST_JOBS:-$(nproc)}" bash -c 'one "$1"' _
cat "$logs"/*.failed 2>/dev/null
cat "$logs"/*.used | awk -v times="$times" -v real="$((SECONDS - began))" '
    BEGIN { while ((getline line <times) > 0) { split(line, part); took[part[1]] = part[2] }; close(times) }
    { if ($4 == 0) took[$1] = $2 + $3; user += $2; system_ += $3 }
    END { for (t in took) print t, took[t] >times
          printf "%d s; of processor time %.0f s: %.0f s in programs, %.0f s in the system\n", real, user + system_, user, system_ }'
cat "$logs"/*.count | awk -v want=$# '{ passed += $1; failed += $2 }
    END { if (NR != want) { print want - NR " tests did not end"; failed++ }
          print passed + 0 " passed, " failed + 0 " failed"; exit !(failed == 0 && passed > 0) }'
