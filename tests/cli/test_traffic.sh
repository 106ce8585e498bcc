#!/bin/sh
# pith bench --serve: against pith serve, and against a server that does what no server should (traffic_server.py).
set -u
. tests/cli/lib.sh
. tests/cli/server.sh
fake=
trap '[ -z "$server" ] || kill -9 $server 2>/dev/null; [ -z "$fake" ] || kill -9 $fake 2>/dev/null; rm -rf "$work"' EXIT
unset PITH_API_KEY

python3 tests/cli/traffic_server.py >"$work/asked" 2>"$work/fake.log" &
fake=$!
awaited 20 test -s "$work/asked" || fail "the fake server does not start: $(tail -n 3 "$work/fake.log")"
url=http://127.0.0.1:$(head -n 1 "$work/asked")

# measure KIND ARGUMENTS...: a report of that kind of server in $work/report. $launch: what starts several of it.
launch=
measure() {
    kind=$1
    shift
    $launch "$pith" bench --serve "$url/$kind" --json --quiet --warmup 0 --prompt 20 --gen 8 "$@" >"$work/report" 2>"$work/stderr"
}
# holds NAME EXPRESSION: what Python says of the report j and its first level l.
holds() {
    check "$1" python3 -c "
import json, sys
j = json.load(open('$work/report'))
l = j['levels'][0]
asked = [json.loads(x) for x in open('$work/asked').read().splitlines()[1:]]
kinds = {f['kind']: f['count'] for f in l['failures']}
assert $2, (kinds, {k: v for k, v in l.items() if k not in ('histograms', 'course')})"
}

# --- what is measured -------------------------------------------------------------------------------------------------
measure slow --clients 2 --requests 4 --limit first=1s,between=20ms
holds "first tokens of 300 ms" "l['answered'] == 4 and all(0.3 <= l['first_token_seconds'][k] < 0.6 for k in ('least', 'mean', 'p50', 'p99'))"
holds "gaps of 40 ms" "l['between_seconds']['n'] == 28 and 0.039 < l['between_seconds']['p50'] < 0.08 and 0.039 < l['token_seconds']['p50'] < 0.08"
holds "in all" "0.58 <= l['total_seconds']['least'] < 1.2 and l['pause_seconds']['least'] >= l['token_seconds']['least']"
holds "rates are of the whole time" "abs(l['output_tokens'] / l['seconds'] - l['output_tokens_per_second']) < 1e-6 and l['output_tokens'] == 32 and l['seconds'] > 1.1"
holds "both at once" "l['at_once_most'] == 2 and 1.8 < l['at_once_mean'] <= 2"
holds "chunks without text" "l['chunks'] == 32 and l['chunks_without_text'] == 16 and l['tokens_per_chunk'] == 1"
holds "no answer is good" "l['goodput']['good'] == 0 and l['goodput']['missed'] == {'first': 0, 'between': 4}"
holds "lengths of prompts" "l['prompt_tokens'] == 4 * 20 and l['prompt_tokens_wanted'] == 80 and j['tokens_per_word'] == 2"
holds "the first model" "j['model'] == 'model-slow' and all(a['model'] == 'model-slow' for a in asked)"
measure pairs --clients 1 --requests 2
holds "two tokens a chunk" "l['tokens_per_chunk'] == 2 and l['output_tokens'] == 16 and l['between_seconds']['n'] == 6"
measure nousage --clients 1 --requests 2
holds "a server that counts nothing" "l['tokens_counted_by'] == 'chunks' and l['output_tokens'] == 16 and j['tokens_per_word'] is None and l['cached_tokens'] is None"
measure cached --clients 1 --requests 4
holds "a server's cache" "l['cached_tokens'] == l['prompt_tokens'] / 2"
measure bytes --clients 1 --requests 2
holds "byte by byte" "l['answered'] == 2 and l['chunks'] == 16 and l['failed'] == 0"
measure good --endpoint chat --clients 1 --requests 2
holds "the role of a chat is no token" "l['chunks'] == 16 and l['first_token_seconds']['least'] > 0.05 and j['endpoint'] == 'chat'"
measure cutdone --clients 1 --requests 2
holds "an end without an end" "l['answered'] == 2"
measure nolist --clients 1 --requests 2
holds "no list of models" "l['answered'] == 2 and 'model' not in j"

# --- what fails -------------------------------------------------------------------------------------------------------
fails() { # KIND FAILURE EXAMPLE
    measure "$1" --clients 2 --requests 4 --timeout 2
    holds "$1: $2" "kinds == {'$2': 4} and l['answered'] == 0 and '$3' in l['failures'][0]['example'] and l['first_token_seconds']['p50'] is None"
}
fails cut cut ""
fails broken "http 500" "out of luck"
fails rubbish rubbish "JSON"
fails html "no stream" "Welcome"
fails error "error in stream" "numbers went wrong"
fails olderror "error in stream" ""
fails unfinished unfinished ""
fails endless rubbish "longer"
fails never timeout ""
fails nohttp cut ""
fails badchunk cut ""
fails redirect "http 307" ""
"$pith" bench --serve "$url/broken" --requests 2 --warmup 0 --quiet >"$work/stdout" 2>"$work/stderr"
[ $? -eq 1 ] && grep -q 'http 500: out of luck' "$work/stdout" && pass "nothing answered: status 1" || fail "nothing answered: status 1"
measure busy --clients 1 --requests 6
holds "told to wait" "kinds == {'http 429': 3} and l['answered'] == 3"
holds "waits" "3 < l['seconds'] < 8"
refuse "nobody there" 1 'http://127.0.0.1:1: no answer to /models' "$pith" bench --serve http://127.0.0.1:1
refuse "no key" 1 'who are you' "$pith" bench --serve "$url/locked"
echo >"$work/key"
echo the-key >>"$work/key"
check "a key of a file" "$pith" bench --serve "$url/locked" --api-key-file "$work/key" --requests 2 --gen 4 --quiet
check "a key of the environment" env PITH_API_KEY=the-key "$pith" bench --serve "$url/locked/v1/" --requests 2 --gen 4 --quiet
refuse "a file without a key" 1 'no key in it' "$pith" bench --serve "$url/locked" --api-key-file /dev/null
refuse "ids without a tokenizer" 1 'no /tokenize' "$pith" bench --serve "$url/nolist" --form ids

"$pith" bench --serve "$url/slow" --requests 1000 --gen 3 --quiet >"$work/stdout" 2>"$work/stderr" &
asking=$!
sleep 1
kill -INT $asking
wait $asking && got=0 || got=$?
[ "$got" -eq 130 ] && pass "interrupted" || fail "interrupted: status $got"

# --- what is asked ----------------------------------------------------------------------------------------------------
# plan NAME ARGUMENTS...: bodies of the requests of a run, without what the server had no part in.
plan() {
    before=$(wc -l <"$work/asked")
    name=$1
    shift
    measure good "$@" || fail "$name: $(tail -n 1 "$work/stderr")"
    tail -n +$((before + 1)) "$work/asked" >"$work/$name"
    python3 -c "
import json
for x in open('$work/$name'):
    a = json.loads(x)
    if a.get('stream'): print(json.dumps({k: v for k, v in a.items() if k != 'at'}, sort_keys=True))" | sort >"$work/$name.bodies"
}
plan a --rate 200 --requests 40 --prompt uniform:10:60 --gen exponential:20 --seed 4
plan b --rate 200 --requests 40 --prompt uniform:10:60 --gen exponential:20 --seed 4
plan c --rate 200 --requests 40 --prompt uniform:10:60 --gen exponential:20 --seed 5
[ "$(sort -u "$work/a.bodies" | wc -l)" -eq 40 ] && cmp -s "$work/a.bodies" "$work/b.bodies" && pass "the same seed asks the same" || fail "the same seed asks the same"
[ -z "$(comm -12 "$work/a.bodies" "$work/c.bodies")" ] && pass "another seed asks something else" || fail "another seed asks something else"
plan d --clients 1,2 --requests 5 --prefix 40
check "a prefix is the same in all" python3 -c "
import json
p = [json.loads(x)['prompt'].split() for x in open('$work/d.bodies')]
assert len(p) == 10 and len({tuple(x[:20]) for x in p}) == 1 and len({tuple(x[20:]) for x in p}) == 10, p"
plan e --clients 1 --requests 3 --form ids --prefix 5 --prompt 7
check "ids" python3 -c "
import json
p = [json.loads(x)['prompt'] for x in open('$work/e.bodies')]
assert all(len(x) == 12 and set(x) <= {5, 6, 7, 8} for x in p), p"
holds "are as many as wanted" "l['prompt_tokens'] == 36 and j['form'] == 'ids'"
plan f --clients 1 --requests 2 --ignore-eos --temperature 0.5 --body '{"cache_prompt": false, "max_tokens": 3}' --name mine
check "fields of requests" python3 -c "
import json
for x in open('$work/f.bodies'):
    a = json.loads(x)
    assert a['ignore_eos'] is True and a['temperature'] == 0.5 and a['cache_prompt'] is False and a['max_tokens'] == 3 and a['model'] == 'mine' and 'seed' in a, a
    assert a['stream_options'] == {'include_usage': True} and a['stream'] is True and a['key'] is None, a"
printf '{"time": 0, "prompt": 10, "answer": 3}\n{"timestamp": 300, "input_length": 30, "output_length": 5}\n' >"$work/trace"
plan g --trace "$work/trace"
check "a trace" python3 -c "
import json
a = [json.loads(x) for x in open('$work/g')]
a = [x for x in a if x.get('stream')]
assert [x['max_tokens'] for x in a] == [3, 5] and [len(x['prompt'].split()) for x in a] == [4, 14] and 0.25 < a[1]['at'] - a[0]['at'] < 2, a"
holds "its times" "l['late_seconds']['n'] == 2 and l['late_seconds']['most'] < 1 and 'trace' in l"
plan h --rate 100 --requests 200 --gen 1
check "the rate of arrivals" python3 -c "
import json
a = sorted(x['at'] for x in map(json.loads, open('$work/h')) if x.get('stream'))
assert len(a) == 200 and 1.4 < a[-1] - a[0] < 5, a[-1] - a[0]"
measure good --clients 2 --duration 1
holds "a duration" "l['answered'] > 2 and 0.9 < l['seconds'] < 5"
measure slow --rate 50 --requests 50 --gen 2
holds "a rate does not wait for answers" "l['at_once_most'] >= 12 and l['answered'] == 50"
(ulimit -Sn 300 && measure slow --clients 600 --requests 600 --gen 3)
holds "many connections" "l['at_once_most'] == 600 and l['answered'] == 600"

# --- wrong usage ------------------------------------------------------------------------------------------------------
wrong() { # PATTERN ARGUMENTS...
    pattern=$1
    shift
    refuse "refused: $*" 2 "$pattern" "$pith" bench --serve "$url/good" "$@"
}
wrong 'one of them' --clients 1 --rate 1
wrong -- '--clients' --clients 1,0
wrong -- '--rate' --rate x
wrong 'did you mean lognormal' --prompt lognorml:5:1
wrong -- '--gen' --gen uniform:5
wrong 'JSON object' --body '[1]'
wrong -- '--body' --body '{'
wrong 'completions or chat' --endpoint both
wrong 'first=1000ms' --limit first=5
wrong 'a chat is text' --endpoint chat --form ids
wrong 'poisson' --arrivals never
wrong 'no MODEL is named' "$probe"
wrong 'does nothing with --serve' --depth 5
refuse "no address" 2 'no address' "$pith" bench --serve ftp://x
refuse "no model, no server" 2 'MODEL, or --serve' "$pith" bench
refuse "no trace" 1 'line 1' "$pith" bench --serve "$url/good" --trace "$probe/config.json"
refuse "no page" 1 'cannot write' "$pith" bench --serve "$url/good" -o /nowhere/page.html

# --- several that ask together ----------------------------------------------------------------------------------------
if ranks_here "ranks that ask"; then
    plan h --clients 4 --requests 30 --seed 4
    launch="timeout 120 mpirun -q -n 3"
    plan i --rate 200 --requests 40 --prompt uniform:10:60 --gen exponential:20 --seed 4
    cmp -s "$work/a.bodies" "$work/i.bodies" && pass "three ranks ask what one asks" || fail "three ranks ask otherwise"
    holds "and all is told" "l['answered'] == 40 and l['failed'] == 0 and len(asked) > 0"
    plan k --clients 4 --requests 30 --seed 4
    cmp -s "$work/h.bodies" "$work/k.bodies" && pass "also as clients" || fail "three ranks' clients ask otherwise"
    holds "who are shared" "l['answered'] == 30 and l['at_once_most'] == 4"
    plan l --clients 2 --requests 6
    holds "fewer than there are ranks" "l['answered'] == 6 and l['at_once_most'] == 2"
    measure broken --clients 3 --requests 6
    holds "failures of all" "l['failed'] == 6"
    $launch "$pith" bench --serve http://127.0.0.1:1 2>"$work/stderr" && fail "ranks ask nobody: it went on"
    [ "$(grep -c '^pith' "$work/stderr")" -eq 1 ] && pass "nobody there is said once" || fail "nobody there: $(cat "$work/stderr")"
    launch=
fi

# --- the table and the page -------------------------------------------------------------------------------------------
check "a table" "$pith" bench --serve "$url/pairs" --clients 1,3 --gen 6 --limit first=5s -o "$work/page.html" --quiet
grep -q 'model-pairs, completions' "$work/stdout" && grep -qE '^3 +16 +0 ' "$work/stdout" && grep -q 'a chunk is 2.00 tokens' "$work/stdout" &&
    grep -q 'good %' "$work/stdout" && pass "its lines" || fail "its lines: $(cat "$work/stdout")"
check "a page" python3 -c "
import re, sys
t = open('$work/page.html').read()
assert t.count('<svg') >= 10 and 'Time to the first token' in t and '3 clients' in t and 'http-equiv' not in t.lower().replace('http-equiv=\"content-security-policy\"', ''), t[:500]
assert not re.search(r'(src|href)=\"?(https?:)?//', t)"

# --- pith serve -------------------------------------------------------------------------------------------------------
serve "$probe" --quiet
"$pith" bench --serve "$url" --clients 1,4 --requests 8 --prompt 48 --gen 12 --ignore-eos --json --quiet >"$work/report" 2>"$work/stderr" ||
    fail "pith serve: $(tail -n 1 "$work/stderr")"
holds "pith serve" "j['model'] == 'probe' and all(x['answered'] == 8 and x['output_tokens'] == 96 and x['chunks'] == 96 and x['failed'] == 0 for x in j['levels'])"
holds "prompts as long as asked" "all(0.8 < x['prompt_tokens'] / x['prompt_tokens_wanted'] < 1.2 for x in j['levels'])"
"$pith" bench --serve "$url/v1" --form ids --rate 20 --requests 8 --prompt 48 --gen 12 --ignore-eos --json --quiet >"$work/report" 2>"$work/stderr"
holds "ids, to the token" "l['prompt_tokens'] == 8 * 48 and l['output_tokens'] == 96"
"$pith" bench --serve "$url" --prefix 256 --clients 1 --requests 4 --warmup 1 --prompt 32 --gen 4 --json --quiet >"$work/report" 2>"$work/stderr"
holds "a prefix is a hit" "l['cached_tokens'] > 0.5 * l['prompt_tokens']"
finish
