#!/bin/sh
# What is shown fits the terminal; what is piped is not cut.
set -u
. tests/cli/lib.sh

at() { # columns, command...
    python3 tests/cli/terminal.py "$@"
}
cp -r "$probe" "$work/a-folder-with-a-rather-long-name-for-a-model"
far=$work/a-workspace-of-some-continuous-integration/that-names-project-and-branch-and-number/of-run-and-attempt-0123456789/models
mkdir -p "$far"
cp -r "$probe" "$far/probe" # longer than two lines
check "recipes" at 40,80,120,200 "$pith" recipes
check "a recipe" at 40,80,120,200 "$pith" recipes AWQ+GPTQ
check "features" at 40,80,120,200 "$pith" features
check "an engine" at 40,80,120,200 "$pith" features vllm
check "formats" at 40,80,120,200 "$pith" formats
check "a difference" at 80,200 "$pith" diff "$probe" "$work/a-folder-with-a-rather-long-name-for-a-model"
check "what engines load" at 80,200 "$pith" features loads
check "statistics" at 80,200 "$pith" inspect "$probe" --stats
"$pith" quantize "$probe" -o "$work/narrow" -r rtn --quiet
check "a measurement at 80" at 80 "$pith" eval "$work/narrow" --baseline "$probe" --text "$probe/eval.txt" --context 64 \
    --max-tokens 500 --depth --tasks needle:64 --task-limit 1
check "a timing at 80" at 80 "$pith" bench "$probe" --prompt 8 --gen 2 --reps 1 --sequences 2 --kv int8:token
check "a proof at 80" at 80 "$pith" verify "$work/narrow" --against "$probe"
check "a refusal at 80" at 80 sh -c "'$pith' verify '$work/narrow' --for trtllm; true"
check "a conversion at 80" at 80 "$pith" convert "$work/narrow" -o "$work/narrow-gptq" --container gptq
check "long names at 80" at 80 "$pith" quantize "$root/models/probe-moe" -o "$work/narrow-moe" -r rtn
check "the overview at 80" at 80 "$pith" --help
check "a difference, far" at 80 "$pith" diff "$probe" "$far/probe"
check "a measurement, far" at 80 "$pith" eval "$far/probe" --text "$far/probe/eval.txt" --context 64 --max-tokens 200
check "caches, far" at 80 "$pith" eval "$far/probe" --text "$far/probe/eval.txt" --context 64 --max-tokens 200 --kv bf16 --kv int8:token
check "a comparison, far" at 80 "$pith" compare "$far/probe" "$work/narrow" --text "$far/probe/eval.txt" --context 64 --max-tokens 200
check "a timing, far" at 80 "$pith" bench "$far/probe" --prompt 8 --gen 2 --reps 1
check "a result, far" at 80 "$pith" quantize "$probe" -o "$far/narrow" -r rtn
check "a proof, far" at 80 "$pith" verify "$far/narrow" --against "$far/probe"
check "a conversion, far" at 80 "$pith" convert "$far/narrow" -o "$far/narrow-gptq" --container gptq
"$pith" verify "$far/narrow" --against "$far/probe" | grep -qF "$far/narrow" && pass "a pipe gets the whole name" ||
    fail "a pipe gets the whole name"
check "an error at 80" at 80 sh -c "'$pith' quantize '$probe' -o '$work/no' --weights 4; true"
for c in $("$pith" --help | sed -n '/^commands:/,/^$/s/^  \([a-z]*\) .*/\1/p'); do
    check "help of $c at 80" at 80 "$pith" $c --help
done
states() { # COLUMNS TOKENS: of as many tokens as take time for several states, on a fast machine more
    for tokens in "$2" $(($2 * 4)) $(($2 * 16)); do
        rm -rf "$work/p$1"
        env -C "$work" python3 "$root/tests/cli/terminal.py" progress "$1" \
            "$pith" quantize "$probe" -o "p$1" -r gptq --calib-tokens "$tokens" --threads 1 && return
        [ $? -eq 3 ] || return
    done
    return 3
}
progress() {
    check "progress at $1" states "$@"
}
progress 45 2048
if thorough; then
    progress 80 24576
    progress 120 24576
fi
if ldd "$pith" | grep -q libedit; then
    check "a conversation" python3 tests/cli/terminal.py converse 80 "$pith" run "$probe" -n 8
else
    skip "a conversation" "built without libedit"
fi
refuse "a prompt beyond the context is not echoed" 1 "the model's context is 512" sh -c "
    head -c 8000 '$probe/eval.txt' | '$pith' run '$probe' -n 4"
"$pith" recipes >"$work/piped"
grep -q 'GPTQ (Frantar\|Egiazarian et al.)$' "$work/piped" && [ "$(wc -l <"$work/piped")" -eq \
    "$(($("$pith" recipes --format csv | wc -l) + 2))" ] && pass "a pipe gets a line a recipe" ||
    fail "a pipe gets a line a recipe"
refuse "a recipe that is none" 2 "no recipe 'awk'; did you mean 'awq'" "$pith" recipes awk
check "a recipe as JSON" sh -c "'$pith' recipes gptq --json | python3 -m json.tool"
check "an engine as JSON" sh -c "'$pith' features vllm --json | python3 -m json.tool"
check "a container's engines" sh -c "'$pith' features gptq | grep -q vllm"

# One ranking of harm, by the loss at the output where calibration gave it.
"$pith" quantize "$probe" -o "$work/ranked" -r gptq --calib-tokens 4k >"$work/summary" 2>/dev/null
"$pith" diff "$probe" "$work/ranked" >"$work/diff"
worst=$(python3 -c "
import json
j = json.load(open('$work/ranked/pith.json'))
print(max(j['linears'], key=lambda l: l['loss'])['name'])")
first() { grep -m 1 -oE 'model\.layers\.[0-9]+\.[a-z_.]+proj' "$1"; }
[ "$(first "$work/summary")" = "$worst" ] && [ "$(first "$work/diff")" = "$worst" ] &&
    pass "the summary and diff name the worst loss" || fail "the summary and diff name the worst loss"
[ "$(grep -c 'proj$' "$work/summary")" -eq 10 ] && grep -q 'and 32 more: --all' "$work/summary" && pass "ten of them" ||
    fail "ten of them"
grep -q '4096 tokens in windows of 512 of the text that ships' "$work/summary" && pass "the calibration is told" ||
    fail "the calibration is told"
[ "$("$pith" diff "$probe" "$work/ranked" --all | grep -c 'proj ')" -eq 42 ] && pass "all of them" || fail "all of them"
for what in inspect bench eval; do
    case $what in
    bench) set -- --prompt 8 --gen 0 --reps 1 ;;
    eval) set -- --text "$probe/eval.txt" --max-tokens 100 ;;
    *) set -- ;;
    esac
    for model in "$probe" "$work/ranked"; do
        "$pith" $what "$model" "$@" --json 2>/dev/null | python3 -c "import json, sys; print(json.load(sys.stdin)['parameters'])"
    done
done >"$work/counts"
python3 -c "import json; print(json.load(open('$work/ranked/pith.json'))['sizes']['parameters'])" >>"$work/counts"
[ "$(sort -u "$work/counts" | wc -l)" -eq 1 ] && [ "$(wc -l <"$work/counts")" -eq 7 ] && pass "one count of parameters" || {
    fail "one count of parameters"
    cat "$work/counts"
}
finish
