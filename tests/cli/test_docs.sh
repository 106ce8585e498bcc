#!/bin/sh
# The sessions that the documentation shows are what the program prints.
set -u
. tests/cli/lib.sh
for page in README.md $(grep -l '^<!-- session -->$' docs/*.md); do
    PITH=$pith python3 tools/doc_sessions.py "$page" >"$work/differences" && pass "$page" || {
        fail "$page: 'tools/doc_sessions.py --write $page' renews it"
        cat "$work/differences"
    }
done
[ "$(wc -c <README.md)" -le 8000 ] && pass "the README is short" || fail "the README is short"
finish
