#!/bin/sh
# Every format in every option that takes a grid: used as it was named, or refused with the reason.
set -u
. tests/cli/lib.sh
python3 tests/cli/mini.py "$work/mini" layers=1 hidden=256 ffn=256
check "every format in every option" python3 tests/cli/grid_options.py "$pith" "$work/mini" "$work"
cat "$work/stdout"
finish
