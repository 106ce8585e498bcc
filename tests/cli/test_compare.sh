#!/bin/sh
# pith compare says of each model what pith eval says of it against the same baseline, though it reads the
# baseline but once.
set -u
. tests/cli/lib.sh
text=$probe/eval.txt
tasks=$probe/tasks/order.jsonl
for bits in 3 4; do
    check "int$bits" "$pith" quantize "$probe" -o "$work/w$bits" -r rtn --weights int$bits:g128 --quiet
done

# Both texts, both models, by each convention: the numbers of the reports are equal, the times aside.
cat >"$work/equal.py" <<'PY'
import json, sys

def timeless(x):
    if isinstance(x, dict):
        return {k: timeless(v) for k, v in x.items() if k not in ("seconds", "tokens_per_second")}
    return [timeless(v) for v in x] if isinstance(x, list) else x

together, *alone = [timeless(json.load(open(f))) for f in sys.argv[1:]]
assert together["models"] == alone, "reports differ"
assert all("kld_mean" in t for m in alone[1:] for t in m["texts"]), "nothing was compared"
PY
for convention in gptq hf llama.cpp; do
    set -- --text "$text" --text README.md --tasks "$tasks" --task-limit 10 --max-tokens 600 --context 128 \
        --convention "$convention" --json --quiet
    "$pith" compare "$probe" "$work/w3" "$work/w4" "$@" >"$work/all.json"
    "$pith" eval "$probe" "$@" >"$work/base.json"
    for bits in 3 4; do
        "$pith" eval "$work/w$bits" --baseline "$probe" "$@" >"$work/w$bits.json"
    done
    check "$convention: compare equals eval" \
        python3 "$work/equal.py" "$work/all.json" "$work/base.json" "$work/w3.json" "$work/w4.json"
done

set -- "$probe" "$work/w3" --text "$text" --max-tokens 200 --quiet
check "a page and a table" "$pith" compare "$@" -o "$work/page.html" --format csv
grep -q '^model,bits/weight,MiB,perplexity,KL,top-1 %,verdict,s$' "$work/stdout" && pass "columns" || fail "columns"
grep -q '</html>' "$work/page.html" && pass "the page is whole" || fail "the page is whole"
refuse "a page that cannot be written" 1 'cannot write' "$pith" compare "$@" -o "$work/no/page.html"
refuse "one model only" 2 'MODEL' "$pith" compare "$probe" --text "$text"
finish
