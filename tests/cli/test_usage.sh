#!/bin/sh
# Options, help, exit statuses: what a newcomer types.
set -u
. tests/cli/lib.sh

"$pith" >"$work/stdout" 2>"$work/stderr"
[ $? -eq 2 ] && grep -q '^commands:' "$work/stdout" && pass "no command shows the overview" ||
    fail "no command shows the overview"
check "--help" "$pith" --help
check "--version" "$pith" --version
for c in quantize convert verify diff eval compare run chat bench inspect pull recipes formats features; do
    check "help of $c" "$pith" $c --help
    grep -q 'examples:' "$work/stdout" && awk 'length($0) > 90 { exit 1 }' "$work/stdout" ||
        fail "help of $c: examples, width"
    check "help $c" "$pith" help $c
done
refuse "unknown command, with the nearest" 2 "did you mean 'quantize'" "$pith" quantise x
refuse "unknown option, with the nearest" 2 'did you mean --recipe' "$pith" quantize x -o y --recipie awq
refuse "missing value" 2 '--out needs a value' "$pith" quantize x -o
refuse "missing operand" 2 'an argument is missing' "$pith" quantize -o y
refuse "extra operand" 2 "unexpected argument 'b'" "$pith" inspect a b
refuse "flag with a value" 2 'takes no value' "$pith" inspect a --json=1
# Bounds of the table of options: as soon as a number is read, or when all options are there; both ends, and just within.
while read -r command options says; do
    # shellcheck disable=SC2086
    refuse "bounds of $options" 2 "^pith $command: $says\$" "$pith" $command "$probe" $options
done <<'END'
run --top-p=0 --top-p: above 0, at most 1
run --top-p=1.01 --top-p: above 0, at most 1
chat --frequency=-100.5 --frequency: from -100 to 100
chat --frequency=101 --frequency: from -100 to 100
serve --port=65536 --port: from 0 to 65535
serve --max-batch=0 --max-batch: at least 1
serve --max-body=2G --max-body: from 1K to 1G
serve --grace=86401 --grace: from 0 to 86400 seconds
recover --rate=0 --rate 0: above 0
serve --memory=0 --memory 0: at least 1
END
check "just within" "$pith" run "$probe" -p a -n 1 --temperature 100 --top-p 1
refuse "not a number" 2 'expected a whole number' "$pith" run m -p x -n ten
refuse "no output folder" 2 'give -o DIR' "$pith" quantize "$probe"
refuse "nothing to measure" 2 'give --text' "$pith" eval "$probe"
refuse "unknown KV cache, run" 2 'no such format' "$pith" run "$probe" -p x --kv int9
refuse "unknown KV cache, eval" 2 'bf16, f16 or f32' "$pith" eval "$probe" --text "$probe/eval.txt" --kv none
refuse "a KV cache by channel" 2 'int8:token' "$pith" eval "$probe" --text "$probe/eval.txt" --kv int8:channel
refuse "a KV cache without scales" 2 'no scales for keys' "$pith" eval "$probe" --text "$probe/eval.txt" --kv int8:tensor
refuse "a KV-cache format that a container cannot hold" 2 'has no place' "$pith" quantize "$probe" -o "$work/o" -r gptq --kv fp8
other=neon
[ "$(uname -m)" = x86_64 ] || other=avx2
refuse "an instruction set of other CPUs" 2 'this CPU has no' "$pith" run "$probe" -p a --cpu $other
refuse "unknown instruction set" 2 'unknown instruction set' "$pith" inspect "$probe" --cpu mmx
refuse "missing model" 1 'nowhere' "$pith" inspect "$work/nowhere"
refuse "missing text" 1 'no-such-text' "$pith" eval "$probe" --text "$work/no-such-text"
refuse "unknown recipe" 2 'gptqq' "$pith" quantize "$probe" -o "$work/o" -r gptqq
refuse "bad grid" 2 'int9' "$pith" quantize "$probe" -o "$work/o" -r rtn --weights int9
refuse "bad pattern" 2 'matches no linear' "$pith" quantize "$probe" -o "$work/o" -r rtn --ignore nothing
echo '{"query": "Question: a?", "choices": ["b", "c"], "gold": 0}' >"$work/arc.jsonl"
for word in '--kv Kivi4' '--kv K=int8:token,V=Q8_0' '--kv INT8:token,Sink=32' '--crlf LF' \
    '--tasks Arc:FILE' '--tasks NEEDLE:100'; do
    # shellcheck disable=SC2046
    check "in any case: $word" "$pith" eval "$probe" --text "$probe/eval.txt" --context 64 --max-tokens 64 --task-limit 1 \
        $(echo "$word" | sed "s|FILE|$work/arc.jsonl|") $(case $word in *tasks*) ;; *) echo --tasks copy:100 ;; esac)
done
check "in any case: an engine's tp" "$pith" verify "$probe" --for VLLM:TP=2
refuse "a rule for experts in any case" 2 'is no mixture' "$pith" quantize "$probe" -o "$work/o" -r gptq --experts Routed
refuse "experts of no mixture" 2 'is no mixture' "$pith" quantize "$probe" -o "$work/o" -r gptq --experts all
refuse "unknown container" 2 'unknown container' "$pith" quantize "$probe" -o "$work/o" --container zip
refuse "activations on a grid of weights" 2 'activations cannot be int8:channel' "$pith" quantize "$probe" -o "$work/o" -r rtn \
    --weights int8:channel --acts int8:channel
refuse "outlier columns of nothing" 2 'add --acts int8:token' "$pith" quantize "$probe" -o "$work/o" -r rtn --split columns
refuse "memory too small" 1 '--memory allows 1 MiB' "$pith" quantize "$probe" -o "$work/o" -r rtn --memory 1M
mkdir "$work/taken"
refuse "output exists" 1 'exists already' "$pith" quantize "$probe" -o "$work/taken" -r rtn
[ -e "$work/o" ] || [ -e "$work/o.partial" ] && fail "a refused run wrote something" || pass "refused runs write nothing"
check "recipes as JSON" sh -c "'$pith' recipes --json | python3 -m json.tool"
check "features as JSON" sh -c "'$pith' features --json | python3 -m json.tool"
refuse "unknown table" 2 "no table, engine or container 'engine'; did you mean 'engines'" "$pith" features engine
refuse "unknown table, far from all" 2 "no table, engine or container 'x'; there are containers engines" "$pith" features x
printf '\377\376h\0i\0' >"$work/utf16"
refuse "a text in UTF-16" 1 'byte 0 .line 1.*UTF-16LE.*iconv' "$pith" eval "$probe" --text "$work/utf16"
refuse "calibration in UTF-16" 1 'UTF-16LE' "$pith" quantize "$probe" -o "$work/no" --calib "$work/utf16"
refuse "tasks in UTF-16" 1 'UTF-16LE' "$pith" eval "$probe" --tasks "$work/utf16"
refuse "a prompt in UTF-16" 1 'NUL' sh -c "printf 'h\\0i\\0' | '$pith' run '$probe'"
refuse "a prompt in Latin-1" 1 'the prompt: not UTF-8' "$pith" run "$probe" -p "$(printf 'caf\351')"
refuse "unknown --crlf" 2 'keep or lf' "$pith" eval "$probe" --text "$probe/eval.txt" --crlf crlf
head -n 60 "$probe/eval.txt" >"$work/lf"
{ printf '\357\273\277'; sed 's/$/\r/' "$work/lf"; } >"$work/crlf"
for how in '' '--crlf keep' '--crlf lf'; do
    for text in lf crlf; do
        # shellcheck disable=SC2086
        "$pith" eval "$probe" --text "$work/$text" --context 64 --max-tokens 500 $how --json \
            >"$work/$text.json" 2>"$work/$text.err"
        grep '"perplexity"' "$work/$text.json" >"$work/$text.ppl"
    done
    case $how in
    *lf) cmp -s "$work/lf.ppl" "$work/crlf.ppl" ;;
    *) ! cmp -s "$work/lf.ppl" "$work/crlf.ppl" ;;
    esac && pass "line ends: $how" || fail "line ends: $how"
    [ -n "$how" ] || grep -q 'warning: 60 lines end in CR LF' "$work/crlf.err" || fail "a warning of CR LF"
    grep -q '"crlf_lines": 60' "$work/crlf.json" || fail "the report counts CR LF: $how"
    grep -q warning "$work/lf.err" && fail "no warning without CR LF"
done
# Ctrl-C while a large text is cut into tokens, which takes longer than anybody waits.
yes 'the cat sat on the mat and thought of it' | head -c 60000000 >"$work/large"
"$pith" eval "$probe" --text "$work/large" >"$work/stdout" 2>"$work/stderr" &
child=$!
at_work() { # it has used half a second of the processors
    ! kill -0 $child 2>/dev/null || awk -v hz="$(getconf CLK_TCK)" '{ sub(/.*\) /, ""); exit $12 + $13 < hz / 2 }' "/proc/$child/stat"
}
awaited 60 at_work
kill -INT $child
n=0
while kill -0 $child 2>/dev/null && [ $n -lt 30 ]; do
    sleep 0.1
    n=$((n + 1))
done
if kill -0 $child 2>/dev/null; then
    kill -KILL $child
    fail "an interrupt is heeded within a second"
else
    wait $child
    [ $? -eq 130 ] && pass "an interrupt is heeded within a second" || fail "status of an interrupt"
fi
rm -f "$work/large"
refuse "unknown form of a table" 2 'unknown form' "$pith" compare "$probe" "$probe" --text x --format xml
check "formats as JSON" sh -c "'$pith' formats --json | python3 -m json.tool"
check "inspect as JSON" sh -c "'$pith' inspect '$probe' --json | python3 -m json.tool"
check "inspect with statistics" "$pith" inspect "$probe" --stats
check "run over both KV caches" sh -c "
    '$pith' run '$probe' -p 'Once upon a time' -n 20 --quiet --kv f32 >'$work/f32' &&
    '$pith' run '$probe' -p 'Once upon a time' -n 20 --quiet --kv bf16 >'$work/bf16' && cmp '$work/f32' '$work/bf16' &&
    '$pith' run '$probe' -p 'Once upon a time' -n 20 --quiet --kv f16 >'$work/f16' && cmp '$work/f32' '$work/f16'"
check "eval over a bfloat16 KV cache differs a little" sh -c "
    '$pith' eval '$probe' --baseline '$probe' --text '$probe/eval.txt' --context 128 --max-tokens 500 --kv bf16 \
        --json >'$work/kv.json' && python3 -c \"
import json
j = json.load(open('$work/kv.json'))
assert j['kv'] == 'bf16' and 0 < j['kld_mean'] < 1e-3, j\""
# Names in any case, the nearest one where a name is none, options before everything else.
near() {
    refuse "$1: the nearest" 2 "did you mean .*$2" "$pith" quantize "$probe" -o "$work/o" $3
}
near recipe '"gptq"' '-r gtpq'
near 'grid' 'int4' '-r rtn --weights itn4:g32'
near 'part of a grid' 'channel' '-r rtn --weights int8:chanel'
near 'engine' '"vllm"' '-r rtn --for vlm'
near 'container' '"compressed-tensors"' '-r rtn --container compresed-tensors'
near 'transform' '"smooth"' '-r rtn --transform smoth:0.5'
near 'split' '"sparse"' '-r rtn --split sprase'
near "experts' rule" '"pooled"' '-r gptq --experts poled'
near 'rounder' '"nearest"' '-r rtn --round nearset'
near 'a name typed to its half' '--calib-tokens' '--calib-t 3'
refuse "what llama.cpp calls it" 2 'unknown option --ctx-size; did you mean --context?' "$pith" chat "$probe" --ctx-size 64
refuse "what vLLM calls it" 2 'did you mean --max-sequences?' "$pith" serve "$probe" --max-num-seqs=4
refuse "a letter of another" 2 'unknown option -np; did you mean --max-sequences?' "$pith" serve "$probe" -np 4
refuse "the model stands alone" 2 'unknown option -m; the model stands alone: pith run MODEL' "$pith" run -m "$probe" -p a
refuse "not where the command has none" 2 'unknown option --ctx-size$' "$pith" verify "$probe" --ctx-size 4
refuse "nothing near" 2 'unknown option --bits$' "$pith" quantize "$probe" -o "$work/o" --bits 4
refuse "a grid for a recipe" 2 'grid, no recipe: --weights int4' "$pith" quantize "$probe" -o "$work/o" -r int4
refuse "a recipe for a grid" 2 'recipe, no grid: --recipe awq' "$pith" quantize "$probe" -o "$work/o" --weights awq
refuse "an output without -o" 2 "'o.gguf'; did you mean -o DIR?" "$pith" quantize "$probe" o.gguf
refuse "a prompt without -p" 2 "'Hello'; did you mean -p TEXT?" "$pith" run "$probe" Hello
refuse "a task of no name" 2 'unknown task "mmul"; did you mean "mmlu"' "$pith" eval "$probe" --tasks mmul:nowhere
refuse "a task without its file" 1 'not downloaded: .*mmlu:PATH' "$pith" eval "$probe" --tasks mmlu
refuse "a task file that is none" 1 'no such file or folder' "$pith" eval "$probe" --tasks "$work/none.jsonl"
check "what is not quantized" sh -c "'$pith' inspect '$probe' | grep -q 'LlamaForCausalLM, not quantized'"
refuse "mode: the nearest" 2 'did you mean "exact"' "$pith" run "$probe" -p a --mode exat
refuse "convention: the nearest" 2 'did you mean "llama.cpp"' "$pith" eval "$probe" --text "$probe/eval.txt" --convention llamacpp
refuse "form: the nearest" 2 'did you mean "markdown"' "$pith" formats --format markdwon
refuse "instruction set: the nearest" 2 'did you mean "avx512"' "$pith" inspect "$probe" --cpu avx521
check "names in any case" "$pith" Quantize "$probe" -o "$work/any" --Recipe GPTQ --Weights INT4:G64 --for VLLM \
    --Container GPTQ --calib-tokens 1k --quiet
rm -rf "$work/any"
mkdir "$work/left.partial"
echo x >"$work/left.partial/x"
refuse "a wrong option comes before what is left over" 2 'unknown recipe' "$pith" quantize "$probe" -o "$work/left" -r gtpq
refuse "what is left over" 1 'holds something else' "$pith" quantize "$probe" -o "$work/left" -r rtn
refuse "a wrong option comes before a missing model" 2 'unknown engine' "$pith" quantize "$work/none" -o "$work/o" --for vlm

# Options that would do nothing are refused, and so are values that would not be kept to.
refuse "--calib without calibration" 2 '[-]-calib does nothing' "$pith" quantize "$probe" -o "$work/o" -r rtn --calib x
refuse "--max-shard of a single file" 2 'does nothing' "$pith" quantize "$probe" -o "$work/o.gguf" -r gguf --max-shard 1G
refuse "--crlf without --calib" 2 'crlf does nothing' "$pith" quantize "$probe" -o "$work/o" -r gptq --crlf lf
refuse "--length of tasks that have their own" 2 'length does nothing' "$pith" eval "$probe" --tasks needle:64 --length 128
refuse "an override under a later one" 2 'override q_proj=int8:g128 does nothing' "$pith" quantize "$probe" \
    -o "$work/o" -r rtn --override q_proj=int8:g128 --override '*_proj=int4:g64'
refuse "an override of what is ignored" 2 'override q_proj=int8:g128 does nothing' "$pith" quantize "$probe" \
    -o "$work/o" -r rtn --override q_proj=int8:g128 --ignore self_attn.q_proj
refuse "a ceiling of nothing" 2 'at least 1' "$pith" quantize "$probe" -o "$work/o" -r rtn --memory 0
refuse "files of nothing" 2 'at least 1' "$pith" quantize "$probe" -o "$work/o" -r rtn --max-shard 0
refuse "convert quantizes nothing anew" 2 'is not quantized' "$pith" convert "$probe" -o "$work/o.gguf" --weights q8_0
# says NAME PATTERN COMMAND...: ends with 0, and a line says what does nothing.
says() {
    name=$1
    pattern=$2
    shift 2
    "$@" >"$work/stdout" 2>"$work/stderr" </dev/null && grep -q -e "$pattern" "$work/stderr" && pass "$name" || fail "$name"
}
says "a value that another takes the place of" 'context is given more than once' \
    "$pith" eval "$probe" --text "$probe/eval.txt" --context 32 --max-tokens 64 --context 64
says "a seed without chance" 'seed does nothing' "$pith" diff "$probe" "$probe" --seed 3
says "a seed at temperature 0" 'seed does nothing' "$pith" run "$probe" -p a -n 2 --seed 3
says "fast arithmetic of a model that is not quantized" 'exact mode' "$pith" run "$probe" -p a -n 2 --mode fast
says "more tokens than the context holds" 'context is full' "$pith" run "$probe" -p a -n 100000
check "a value given twice is no other" sh -c "
    '$pith' run '$probe' -p a -n 2 --kv f32 --kv f32 2>'$work/said' >/dev/null && ! grep -q 'more than once' '$work/said'"
check "a rehearsal tells its text" sh -c "
    '$pith' quantize '$probe' -o '$work/o' -r gptq --calib-tokens 600 --rehearse 2>/dev/null | grep -q 'windows of 2048 were wanted'"
check "--resume of nothing says so" sh -c "
    '$pith' quantize '$probe' -o '$work/anew' -r rtn --resume 2>'$work/said' >/dev/null &&
    grep -q 'nothing to resume' '$work/said'"
refuse "--resume of a rehearsal" 2 'does nothing' "$pith" quantize "$probe" -o "$work/o" -r rtn --rehearse --resume
refuse "--stride of disjoint windows" 2 'does nothing' "$pith" eval "$probe" --text "$probe/eval.txt" --stride 3
refuse "--context without a text" 2 'without --text' "$pith" eval "$probe" --tasks x --context 64
refuse "--task-limit without tasks" 2 'without --tasks' "$pith" eval "$probe" --text x --task-limit 3
refuse "--context beyond the model's" 2 "the model's context is 512" "$pith" eval "$probe" --text "$probe/eval.txt" --context 128k
refuse "--top-k at temperature 0" 2 'temperature 0' "$pith" run "$probe" -p a --top-k 3
refuse "--format beside --json" 2 'does nothing with --json' sh -c "'$pith' recipes --json --format csv >/dev/null"
check "a format alone keeps the recipe's groups" sh -c "
    '$pith' quantize '$probe' -o '$work/bare' -r rtn --weights int3 --rehearse 2>'$work/said' >/dev/null &&
    grep -q 'taken as int3:g128' '$work/said'"

# With --json a failure is an object, and nothing else.
fails_as_json() {
    name=$1
    want=$2
    shift 2
    "$@" >"$work/stdout" 2>/dev/null && got=0 || got=$?
    [ "$got" -eq "$want" ] && python3 -c "
import json
e = json.load(open('$work/stdout'))['error']
assert e['status'] and e['what'] and e['where'], e" && pass "$name" || fail "$name (status $got)"
}
fails_as_json "a missing model as JSON" 1 "$pith" inspect "$work/nowhere" --json
fails_as_json "an unknown recipe as JSON" 2 "$pith" quantize "$probe" -o "$work/o" -r gtpq --json
fails_as_json "an unknown option as JSON" 2 "$pith" quantize "$probe" --otu x --json
fails_as_json "a missing operand as JSON" 2 "$pith" eval --json
fails_as_json "an unknown mode as JSON" 2 "$pith" run "$probe" -p a --mode quick --json
check "an engine's rules without an account" "$pith" verify "$probe" --for vllm
refuse "verify without an account or an engine" 1 'no pith.json' "$pith" verify "$probe"

refuse "full standard output" 1 'cannot write' sh -c "'$pith' formats >/dev/full"
finish
