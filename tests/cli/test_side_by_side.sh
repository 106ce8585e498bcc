#!/bin/sh
# bench/compare.sh, with a program in llama-bench's place that says what it was asked for.
set -u
. tests/cli/lib.sh

cat >"$work/other" <<'SH'
#!/bin/sh
while [ $# -gt 0 ]; do
    case $1 in
    -p) prompt=$2 ;;
    -n) gen=$2 ;;
    -d) depth=$2 ;;
    esac
    shift
done
one() {
    echo "{\"model_size\": 12000000, \"n_prompt\": $1, \"n_gen\": $2, \"n_depth\": $depth, \"samples_ts\": [$3]}"
}
echo "["
[ "$prompt" -eq 0 ] || { one "$prompt" 0 200 && echo ","; }
one 0 "$gen" "$((depth + 50))"
echo "]"
SH
chmod +x "$work/other"
: >"$work/a.gguf"
compare() {
    PITH=$pith ROUNDS=2 PROMPT=8 GEN=4 DEPTHS="0 30" bench/compare.sh "$@"
}
check "side by side" compare "$work/other" "$work/a.gguf=$probe --weights int8:channel"
if [ "$(grep -cE '^  (prefill|decode|decode at 30) ' "$work/stdout")" -eq 3 ] &&
    grep -qE '^  decode at 30 +80\.00 +\(80\.00-80\.00\) +[0-9.]+ ' "$work/stdout" &&
    grep -qE '^  prefill +200\.00 ' "$work/stdout"; then
    pass "the comparison's table"
else
    fail "the comparison's table"
    cat "$work/stdout"
fi
refuse "no such other program" 2 'no such program' compare "$work/nobody" "$work/a.gguf=$probe"
refuse "no such file" 2 'no such file' compare "$work/other" "$work/b.gguf=$probe"
refuse "not a pair" 2 'expected GGUF=MODEL' compare "$work/other" "$probe"
finish
