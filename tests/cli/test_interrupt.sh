#!/bin/sh
# Ctrl-C, SIGTERM: what can be stopped stops, with status 130, and says how it goes on; conversations go on.
set -u
. tests/cli/lib.sh
if ! ldd "$pith" | grep -q libedit; then
    skip "Ctrl-C" "built without libedit"
else
    mkdir "$work/made"
    python3 tests/cli/interrupts.py "$pith" "$probe" "$work/made" || failed=1
fi
finish
