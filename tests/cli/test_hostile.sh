#!/bin/sh
# Truncated, corrupted, lying and hostile files: see hostile_cases.py. SHOW=1 shows each message.
set -u
. tests/cli/lib.sh
python3 tests/cli/hostile_cases.py "$pith" "$work" || failed=1
finish
