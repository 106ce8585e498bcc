#!/bin/sh
# pith serve as clients of other servers ask it: fields, constraints, headers, errors, names of tokens.
set -u
. tests/cli/lib.sh
python3 tests/cli/served_clients.py "$pith" "$probe" || failed=1
finish
