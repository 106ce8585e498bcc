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
thorough && few="--task-limit 10 --max-tokens 600" || few="--task-limit 4 --max-tokens 260"
thorough && conventions="gptq hf llama.cpp" || conventions="gptq llama.cpp"
for convention in $conventions; do
    # shellcheck disable=SC2086
    set -- --text "$text" --text README.md --tasks "$tasks" $few --context 128 \
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
grep -q '^model,bits/weight,MiB,perplexity,KL,top-1 %,harm,s$' "$work/stdout" && pass "columns" || fail "columns"
check "what the page holds" python3 - "$work/page.html" <<'PY'
import re, sys
from html.parser import HTMLParser

page = open(sys.argv[1]).read()
assert page.rstrip().endswith("</html>"), "not whole"
assert not re.search(r"(src|href|url)\s*[=(]|https?:|@import", page), "something is fetched"
seen = []
class Reader(HTMLParser):
    def handle_starttag(self, tag, attrs): seen.append(tag)
Reader().feed(page)
assert seen.count("script") == 1 and seen.count("table") >= 4 and seen.count("svg") >= 3, seen
for part in ("pith compare", "SHA-256", "UTC", "gptq convention", "the best of each size",
             "KL at a token", "differs most", "<mark>", "relative error of the weights", 'data-s="n"', "windows of"):
    assert part in page, part
assert re.search(r"<small>[-+0-9.]+ to [-+0-9.]+</small>", page), "no interval"
PY
"$pith" quantize "$probe" -o "$work/k.gguf" -r rtn --weights q8_0 --quiet
"$pith" compare "$probe" "$work/k.gguf" --text "$probe/eval.txt" --max-tokens 500 --quiet \
    -o "$work/file.html" >"$work/file.txt"
grep -q '<td[^>]*>rtn<' "$work/file.html" && pass "how a file was made" || fail "how a file was made"
check "a page of what is in a checkpoint" "$pith" inspect "$work/w3" -o "$work/inspect.html" --quiet
grep -q 'standard deviations' "$work/inspect.html" && grep -q 'layer 5: ' "$work/inspect.html" &&
    pass "with distributions and outliers" || fail "with distributions and outliers"
grep -q 'o_proj' "$work/inspect.html" && ! grep -q 'o_proj\.[a-z]*_scale' "$work/inspect.html" &&
    pass "and no scales among the weights" || fail "and no scales among the weights"
refuse "nor that one" 1 'cannot write' "$pith" inspect "$work/w3" -o "$work/no/page.html"
refuse "a page that cannot be written" 1 'cannot write' "$pith" compare "$@" -o "$work/no/page.html"
refuse "one model only" 2 'MODEL' "$pith" compare "$probe" --text "$text"

# Names, also of folders that end in a slash or are called alike; what is wrong with any is told before the first is measured.
mkdir "$work/a" "$work/b"
cp -r "$work/w4" "$work/a/w4"
cp -r "$work/w4" "$work/b/w4"
set -- "$probe/" "$work/a/w4/" "$work/b/w4" --max-tokens 100
"$pith" compare "$@" --context 128 --text "$text" --text README.md >"$work/table" 2>"$work/told"
for row in probe a/w4 b/w4; do
    [ "$(grep -c "^$row  *[0-9]" "$work/table")" -eq 2 ] && pass "a row of $row in each table" || fail "a row of $row in each table"
done
grep -q '^eval.txt (gptq' "$work/table" && grep -q '^README.md (gptq' "$work/table" && pass "the tables have their texts' names" ||
    fail "the tables have their texts' names"
grep -q '2 of 3: a/w4, eval.txt: perplexity' "$work/told" && pass "each model is told of" || fail "each model is told of"
refuse "a model that is none, before the first" 1 'nowhere' "$pith" compare "$@" "$work/nowhere" --text "$text"
refuse "a text that is none, before the first" 1 'nowhere' "$pith" compare "$@" --text "$text" --text "$work/nowhere"
refuse "tasks that are none, before the first" 1 'README.md: line 1' "$pith" compare "$@" --text "$text" --tasks README.md
refuse "a context beyond any model's" 2 "context of .* is 512" "$pith" compare "$@" --text "$text" --context 1k

# Ctrl-C after the first model: what was measured is printed. Where the others are done before it arrives: of more text.
first_is_told() {
    grep -q '1 of 3' "$work/told" || ! kill -0 "$job" 2>/dev/null
}
for tokens in 1k 4k 16k; do
    : >"$work/told" # what the last one told would be found before this one is begun
    "$pith" compare "$probe" "$work/a/w4" "$work/b/w4" --text "$text" --context 128 --max-tokens $tokens --format csv \
        >"$work/part" 2>"$work/told" &
    job=$!
    awaited 300 first_is_told
    kill -INT "$job" 2>/dev/null
    wait "$job"
    status=$?
    [ $status -eq 0 ] || break
done
[ $status -eq 130 ] && grep -q '^probe,' "$work/part" && ! grep -q '^b/w4' "$work/part" && pass "interrupted: what is done is kept" ||
    fail "interrupted: what is done is kept"

# Harm: what ruins a model is called so from one short window on, what does nothing is none, and nothing in between is
# called indistinguishable.
judge() { # label, what must stand there, --kv, tokens
    "$pith" eval "$probe" --baseline "$probe" --text "$text" --context 256 --max-tokens "$4" --kv "$3" --quiet \
        >"$work/judged" 2>&1
    grep -q "$2" "$work/judged" && pass "$1" || fail "$1: $(cat "$work/judged")"
    grep -q 'indistinguishable$' "$work/judged" && ! grep -q 'harm  *none' "$work/judged" &&
        fail "$1: indistinguishable beside $(grep harm "$work/judged")" || pass "$1: the lines agree"
}
judge "a ruined cache, one window" 'harm  *severe: KL is above 0.1 and the loss rises' int2:token 200
judge "a ruined cache, two windows" 'harm  *severe' int2:token 500
judge "a good cache" 'harm  *none: KL and the rise of the loss are both below 0.005' int8:token 500
judge "between" 'harm  *unresolved by this text: about [0-9]* more tokens would' int4:token 500
"$pith" eval "$probe" --baseline "$probe" --text "$text" --context 64 --max-tokens 60 --kv int2:token --json --quiet \
    >"$work/short.json"
check "a text too short for intervals" python3 - "$work/short.json" <<'PY'
import json, sys
j = json.load(open(sys.argv[1]))
assert j["harm"] == "unresolved" and j["kld_ci95"] == [None, None] and j["resolvable_delta"] is None, j
assert j["tokens_needed"] > 100 and "too short" in j["harm_reason"], j
PY

# A checkpoint without a tokenizer is read with the baseline's; a tokenizer that is broken is not passed over.
cp -r "$work/w4" "$work/bare"
rm "$work/bare"/tokenizer*
set -- --baseline "$probe" --text "$text" --context 128 --max-tokens 500 --json --quiet
"$pith" eval "$work/w4" "$@" >"$work/with.json"
check "no tokenizer of its own" "$pith" eval "$work/bare" "$@"
cp "$work/stdout" "$work/without.json"
check "the same numbers" python3 -c "
import json, sys
a, b = (json.load(open(f)) for f in sys.argv[1:])
assert a['nll'] == b['nll'] and a['kld_ci95'] == b['kld_ci95']" "$work/with.json" "$work/without.json"
echo '{' >"$work/bare/tokenizer.json"
refuse "a broken tokenizer" 1 'tokenizer.json' "$pith" eval "$work/bare" --baseline "$probe" --text "$text" --quiet
rm "$work/bare/tokenizer.json"
refuse "none, and no baseline" 1 'has no tokenizer' "$pith" eval "$work/bare" --text "$text"
finish
