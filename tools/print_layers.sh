#!/bin/sh
# Writes tools/layers.txt as the documentation shows it: `stack` for docs/architecture.md, `table` for CONTRIBUTING.md.
# With `check` the two pages are compared with what is printed.
set -eu
cd "$(dirname "$0")/.."
# Layers from the highest down, the folders of one in a line.
stack() {
    awk '{ if ($2 > most) most = $2; names[$2] = names[$2] sprintf("%-11s", $1) }
        END { for (i = most; i >= 0; i--) { sub(/ +$/, "", names[i]); printf "  %d   %s\n", i, names[i] } }' tools/layers.txt
}
table() {
    awk '{ name = $1; sub(/^[^ ]+ [0-9]+ /, ""); printf "| `%s` | %s |\n", name, $0 }' tools/layers.txt
}
# same PAGE WORD: each line that `WORD` prints stands in the page, one after the other.
same() {
    "$2" >"$printed"
    if ! awk 'NR == FNR { want[++n] = $0; next } at < n && $0 == want[at + 1] { at++; next } at && at < n { exit } END { exit at != n }' \
        "$printed" "$1"; then
        echo "$1: not what tools/print_layers.sh $2 prints"
        return 1
    fi
}
case ${1:-} in
stack | table) "$1" ;;
check)
    printed=$(mktemp)
    trap 'rm -f "$printed"' EXIT
    same docs/architecture.md stack
    same CONTRIBUTING.md table
    ;;
*)
    echo "usage: print_layers.sh stack|table|check" >&2
    exit 2
    ;;
esac
