#!/bin/sh
# Names of files and folders that are no UTF-8: read, written, and told as what they are.
set -u
. tests/cli/lib.sh
cafe=$(printf 'caf\351')
mini=$work/$cafe
python3 tests/cli/mini.py "$work/mini" layers=1 hidden=64 ffn=64
mv "$work/mini" "$mini"
printf 'free\n' >"$mini/LICENSE-$cafe.txt"
head -c 3000 "$probe/eval.txt" >"$work/$cafe.txt"
is_json() { # NAME PATTERN: the last output is JSON, and tells the name
    if python3 -c 'import json, sys; json.load(open(sys.argv[1]))' "$work/stdout" && grep -qF -e "$2" "$work/stdout"; then
        pass "$1"
    else
        fail "$1: $(head -c 300 "$work/stdout")"
    fi
}

check "quantize" "$pith" quantize "$mini" -o "$work/out-$cafe" -r gptq --calib "$work/$cafe.txt" --calib-tokens 64 --seq-len 32
[ -f "$work/out-$cafe/LICENSE-$cafe.txt" ] && pass "what goes along" || fail "what goes along"
check "verify" "$pith" verify "$work/out-$cafe" --against "$mini" --json
is_json "verify tells" 'caf\\xE9'
echo more >>"$work/out-$cafe/LICENSE-$cafe.txt"
"$pith" verify "$work/out-$cafe" >"$work/stdout"
grep -qF 'problem: LICENSE-caf\xE9.txt' "$work/stdout" && pass "a file that changed" || fail "a file that changed"
check "eval" "$pith" eval "$mini" --text "$work/$cafe.txt" --context 64 --json
is_json "eval tells" 'caf\\xE9'
check "bench" "$pith" bench "$mini" --json --prompt 8 --gen 4 --reps 1
is_json "bench tells" 'caf\\xE9'
"$pith" diff "$mini" "$work/out-$cafe" --json >"$work/stdout"
is_json "diff tells" 'caf\\xE9'
check "inspect" "$pith" inspect "$mini" -o "$work/page.html"
check "compare" "$pith" compare "$mini" "$work/out-$cafe" --text "$work/$cafe.txt" --context 64 -o "$work/page.html"
finish
