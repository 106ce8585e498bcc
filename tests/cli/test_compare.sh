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
assert [m.pop("name") for m in together["models"]] == ["probe", "w3", "w4"], "names"
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

# Names, also of folders that end in a slash or are called alike; what is wrong with any is told before the first is measured.
mkdir "$work/a" "$work/b"
cp -r "$work/w4" "$work/a/w4"
cp -r "$work/w4" "$work/b/w4"
set -- "$probe/" "$work/a/w4/" "$work/b/w4" --max-tokens 100
"$pith" compare "$@" --text "$text" --text README.md >"$work/table" 2>"$work/told"
for row in probe a/w4 b/w4; do
    [ "$(grep -c "^$row  *[0-9]" "$work/table")" -eq 2 ] && pass "a row of $row in each table" || fail "a row of $row in each table"
done
grep -q '^eval.txt (gptq' "$work/table" && grep -q '^README.md (gptq' "$work/table" && pass "the tables have their texts' names" ||
    fail "the tables have their texts' names"
grep -q '2 of 3: a/w4, eval.txt: perplexity' "$work/told" && pass "each model is told of" || fail "each model is told of"
refuse "a model that is none, before the first" 1 'nowhere' "$pith" compare "$@" "$work/nowhere" --text "$text"
refuse "a text that is none, before the first" 1 'nowhere' "$pith" compare "$@" --text "$text" --text "$work/nowhere"
refuse "tasks that are none, before the first" 1 'README.md: line 1' "$pith" compare "$@" --text "$text" --tasks README.md
refuse "a context beyond any model's" 1 "context of .* is 512" "$pith" compare "$@" --text "$text" --context 1k

# Ctrl-C after the first model: what was measured is printed.
"$pith" compare "$probe" "$work/a/w4" "$work/b/w4" --text "$text" --format csv >"$work/part" 2>"$work/told" &
job=$!
for i in $(seq 600); do
    grep -q '1 of 3' "$work/told" && break
    sleep 0.05
done
kill -INT "$job"
wait "$job"
[ $? -eq 130 ] && grep -q '^probe,' "$work/part" && ! grep -q '^b/w4' "$work/part" && pass "interrupted: what is done is kept" ||
    fail "interrupted: what is done is kept"
finish
