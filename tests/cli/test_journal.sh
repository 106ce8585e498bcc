#!/bin/sh
# Faults in the journal of an interrupted run: none ends with status 0 and another output than an undisturbed
# run's. FAULTS: how many (docs/proof.md has the table of 300), SEED: which.
set -u
. tests/cli/lib.sh
python3 tests/cli/mini.py "$work/mini" layers=4
faulty || {
    skip "faults in the journal" "a library cannot be loaded before the program"
    finish
}
if python3 tests/cli/journal_faults.py "$pith" "$work" "${FAULTS:-38}" "${SEED:-1}" "$faulty" >"$work/table" 2>&1; then
    pass "faults in the journal: each ends with an error or with the right bytes"
else
    fail "faults in the journal: each ends with an error or with the right bytes"
fi
cat "$work/table"
finish
