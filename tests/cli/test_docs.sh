#!/bin/sh
# The sessions that the documentation shows are what the program prints.
set -u
. tests/cli/lib.sh
# The session of README.md takes longer than all others; "make check-docs" has it too.
pages=$(grep -l '^<!-- session -->$' docs/*.md)
thorough && pages="README.md $pages"
for page in $pages; do
    PITH=$pith python3 tools/doc_sessions.py "$page" >"$work/differences" && pass "$page" || {
        fail "$page: 'tools/doc_sessions.py --write $page' renews it"
        cat "$work/differences"
    }
done
[ "$(wc -c <README.md)" -le 8000 ] && pass "the README is short" || fail "the README is short"
finish
