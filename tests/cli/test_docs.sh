#!/bin/sh
# The sessions that the documentation shows are what the program prints.
set -u
. tests/cli/lib.sh
# The session of README.md takes longer than all others, and so do commands that only have to succeed: "make test-all" has
# them, and "make check-docs" runs in full what test-all only tries, the blocks marked as long.
pages=$(grep -l '^<!-- session -->$' docs/*.md)
only=--sessions
thorough && pages="README.md $(ls docs/*.md)" && only=--short
for page in $pages; do
    PITH=$pith python3 tools/doc_sessions.py $only "$page" >"$work/differences" 2>"$work/stderr" && pass "$page" || {
        fail "$page: 'tools/doc_sessions.py --write $page' renews it"
        cat "$work/differences"
    }
    [ ! -s "$work/stderr" ] || skip "$page" "$(tail -n 1 "$work/stderr")"
done
# A long block is only tried here, but not without its options being looked at.
long() { # COMMAND: whether a page with that as a long block is right
    printf '<!-- run, long: true -->\n```\n%s\n```\n' "$1" >"$work/page.md"
    PITH=$pith python3 tools/doc_sessions.py --short "$work/page.md" >"$work/stdout" 2>"$work/stderr"
}
long "pith quantize models/probe -o out -r gptq && [ ! -e out ]" && grep -q "1 long blocks were only tried" "$work/stderr" &&
    pass "a long block is tried" || fail "a long block is tried: $(cat "$work/stdout" "$work/stderr")"
long "pith quantize models/probe -o out -r gptq --weights int99" && fail "its options are looked at" || pass "its options are looked at"
# What stands in two places is one number: rows of both tables, which are in the order of loss.
check "README.md and choosing.md agree" python3 -c "
import re
rows = lambda text: re.findall(r'^\| \x60([^\x60]+)\x60[^|]*\| [\d.]+ \| ([\d.]+) ', text, re.M)
table = rows(open('README.md').read())
all = rows(open('docs/choosing.md').read().split('## By loss and by time')[1].split('\n## ')[0])
assert len(table) >= 8 and len(all) >= 20, (table, all)
assert [r for r in table if r not in all] == [], table
for name, list in (('README.md', table), ('choosing.md', all)):
    assert list == sorted(list, key=lambda r: float(r[1])), name"
[ "$(wc -c <README.md)" -le 8000 ] && pass "the README is short" || fail "the README is short"
finish
