#!/bin/sh
# pith serve, whoever else is there: a request's bits amid 32 others, from the prefix cache and amid preemptions; pages of clients that left.
set -u
. tests/cli/lib.sh
python3 tests/cli/served.py "$pith" "$probe" || failed=1
finish
