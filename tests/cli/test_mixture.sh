#!/bin/sh
# The mixture that ships: its README tells what transformers measured, and pith measures the same.
set -u
. tests/cli/lib.sh
mixture=$root/models/probe-moe
cat >"$work/same.py" <<'PY'
import json, re, sys

readme, name, measured = open(sys.argv[1]).read(), sys.argv[2], json.load(open(sys.argv[3]))
row = re.search(r"\| `" + re.escape(name) + r"` \| ([\d,]+) \| ([\d.]+) \|", readme)
assert row, f"{name} is not in the table"
tokens, loss = int(row[1].replace(",", "")), float(row[2])
assert measured["tokens"] == tokens, f"{measured['tokens']} tokens instead of {tokens}"
assert abs(measured["nll"] - loss) < 7e-5, f"loss {measured['nll']} instead of {loss}"
PY
for text in rare/italian.txt rare/notation.txt; do
    check "$text is measured" "$pith" eval "$mixture" --text "$mixture/$text" --context 512 --json
    cp "$work/stdout" "$work/json"
    check "$text has the loss that transformers gives it" \
        python3 "$work/same.py" "$mixture/README.md" "$text" "$work/json"
done
check "as many bytes as may ship" test "$(du -sb "$mixture" | cut -f1)" -le 16000000
finish
