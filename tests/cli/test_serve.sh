#!/bin/sh
# pith serve: routes, errors, streams, keys, limits, TLS, clients that leave, the end; by curl, on the probe.
set -u
. tests/cli/lib.sh
command -v curl >/dev/null 2>&1 || {
    skip "pith serve" "no curl"
    finish
}
printf '{{ bos_token }}{%% for m in messages %%}{{ m.role }}: {{ m.content }}\n{%% endfor %%}{%% if tools %%}tools{%% endif %%}assistant:' >"$work/t.jinja"
. tests/cli/server.sh
# asks NAME STATUS PATTERN CURL-ARGUMENTS...: the answer has that status and matches.
asks() {
    name=$1
    want=$2
    pattern=$3
    shift 3
    got=$(curl -sSk -m 20 -o "$work/body" -D "$work/head" -w '%{http_code}' "$@" 2>"$work/stderr")
    if [ "$got" != "$want" ]; then fail "$name: status $got instead of $want: $(head -c 300 "$work/body")"
    elif ! cat "$work/head" "$work/body" | grep -qE -e "$pattern"; then fail "$name: no $pattern in $(head -c 300 "$work/body")"
    else pass "$name"; fi
}
# json NAME EXPRESSION: what Python says of the last body, j.
json() {
    check "$1" python3 -c "import json, sys; j = json.load(open(sys.argv[1])); assert $2, j" "$work/body"
}

serve "$probe" --chat-template "$work/t.jinja" --mode exact
asks "health" 200 '"ok"' "$url/health"
asks "models" 200 '"id":"probe"' "$url/v1/models"
asks "version" 200 '"version"' "$url/version"
asks "load" 200 '"server_load":0' "$url/load"
asks "props" 200 '"n_ctx":512' "$url/props"
asks "tokenizer_info" 200 'begin_of_text' "$url/tokenizer_info"
asks "page" 200 "Content-Security-Policy: default-src 'none'" "$url/"
asks "completion" 200 '"finish_reason":"length"' "$url/v1/completions" -d '{"prompt": "Once upon a time", "max_tokens": 16, "temperature": 0}'
"$pith" run "$probe" -p "Once upon a time" -n 16 --quiet >"$work/said" 2>/dev/null
json "as pith run says" "j['choices'][0]['text'] == open('$work/said').read().rstrip('\n')"
asks "list of prompts" 200 choices "$url/v1/completions" -d '{"prompt": ["Once", [2405, 376]], "n": 2, "max_tokens": 2, "seed": 3}'
json "in order" "[c['index'] for c in j['choices']] == [0, 1, 2, 3]"
asks "scored prompt" 200 token_logprobs "$url/v1/completions" -d '{"prompt": "Once upon", "max_tokens": 0, "echo": true, "logprobs": 2}'
json "its text" "j['choices'][0]['text'] == 'Once upon' and j['choices'][0]['logprobs']['token_logprobs'][0] is None"
json "its tokens" "len(j['choices'][0]['logprobs']['tokens']) == j['usage']['prompt_tokens']"
asks "chat" 200 '"role":"assistant"' "$url/v1/chat/completions" -d '{"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 4}'
asks "chat with tools" 200 '"role":"assistant"' "$url/v1/chat/completions" \
    -d '{"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 4, "tools": [{"type": "function", "function": {"name": "f"}}]}'
asks "template" 200 'user: Hi' "$url/apply-template" -d '{"messages": [{"role": "user", "content": "Hi"}]}'
asks "stream" 200 'text/event-stream' -N "$url/v1/chat/completions" \
    -d '{"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 4, "ignore_eos": true, "stream": true, "stream_options": {"include_usage": true}}'
check "its order" python3 -c '
import json, sys
events = [l[6:] for l in open(sys.argv[1]).read().split("\n\n") if l]
assert events[-1] == "[DONE]"
e = [json.loads(x) for x in events[:-1]]
assert e[0]["choices"][0]["delta"]["role"] == "assistant" and e[-1]["choices"] == [] and e[-1]["usage"]["completion_tokens"] == 4, e
assert e[-2]["choices"][0]["finish_reason"] == "length" and len({(x["id"], x["model"], x["created"]) for x in e}) == 1, e' "$work/body"
asks "embeddings" 200 '"embedding"' "$url/v1/embeddings" -d '{"input": ["a cat", "a dog"]}'
json "of length one" "abs(sum(x * x for x in j['data'][1]['embedding']) - 1) < 1e-4"
asks "tokenize" 200 '"tokens":\[4094,' "$url/tokenize" -d '{"prompt": "Once upon"}'
asks "tokenize as llama-server" 200 '"count":3' "$url/tokenize" -d '{"content": "Once upon"}'
asks "detokenize" 200 'Once' "$url/detokenize" -d '{"tokens": [2405, 376, 834]}'
asks "metrics" 200 'vllm:time_to_first_token_seconds_count' "$url/metrics"
asks "no JSON" 400 invalid_request_error "$url/v1/completions" -d 'prompt=a'
asks "an unknown id" 400 invalid_request_error "$url/v1/completions" -d '{"prompt": [999999]}'
asks "too long" 400 context_length_exceeded "$url/v1/completions" -d '{"prompt": "a", "max_tokens": 4000}'
asks "a wrong model" 404 model_not_found "$url/v1/completions" -d '{"prompt": "a", "model": "b"}'
asks "no such path" 404 not_found_error "$url/v2"
asks "a foreign page" 403 permission_error -H "Origin: http://foe.example" "$url/v1/models"
asks "a deep body" 400 'nests deeper' "$url/v1/completions" -d "$(printf '[%.0s' $(seq 200))"
# A client that leaves frees its place at once.
timeout 0.3 curl -sN "$url/v1/completions" -d '{"prompt": "a", "max_tokens": 400, "ignore_eos": true, "stream": true}' >"$work/cut"
running() { curl -s "$url/metrics" | grep -q '^vllm:num_requests_running{.*} 0$'; }
awaited 5 running && pass "a client that leaves ends its request" || fail "a client that leaves ends its request"
# What was accepted ends.
curl -sN "$url/v1/completions" -d '{"prompt": "a", "max_tokens": 200, "ignore_eos": true, "stream": true}' >"$work/last" &
client=$!
awaited 5 test -s "$work/last"
ends 0
wait $client
grep -q 'DONE' "$work/last" && pass "accepted requests end" || fail "accepted requests end"
grep -q '"path":"/v1/completions"' "$work/log" && ! grep -q 'Once upon' "$work/log" && pass "the log has no prompts" || fail "the log has no prompts"

printf 'secret\n' >"$work/keys"
PITH_API_KEY=other serve "$probe" --chat-template "$work/t.jinja" --api-key-file "$work/keys" --queue 1 --max-sequences 1 --log-prompts --name small
asks "no key" 401 authentication_error "$url/v1/models"
asks "a wrong key" 401 authentication_error -H "Authorization: Bearer secre" "$url/v1/models"
asks "a key" 200 '"id":"small"' -H "Authorization: Bearer secret" "$url/v1/models"
asks "the environment's key" 200 '"id":"small"' -H "Authorization: Bearer other" "$url/v1/models"
asks "health without one" 200 ok "$url/health"
for i in 1 2 3 4 5 6; do
    curl -s -o /dev/null -D "$work/head$i" -H "Authorization: Bearer secret" "$url/v1/completions" -d '{"prompt": "a hidden prompt", "max_tokens": 300, "ignore_eos": true}' &
    [ $i -gt 1 ] || sleep 0.2
done
sleep 1
awaited 20 sh -c "[ \$(cat '$work'/head? | grep -c '^HTTP') -eq 6 ]"
cat "$work"/head? >"$work/heads"
grep -q '^HTTP/1.1 429' "$work/heads" && grep -q '^Retry-After: ' "$work/heads" && grep -q '^HTTP/1.1 200' "$work/heads" &&
    pass "a full queue" || fail "a full queue: $(grep '^HTTP' "$work/heads" | sort | uniq -c)"
ends 0
grep -q 'a hidden prompt' "$work/log" && pass "--log-prompts" || fail "--log-prompts"

if command -v openssl >/dev/null 2>&1; then
    openssl req -x509 -newkey rsa:2048 -nodes -keyout "$work/k.pem" -out "$work/c.pem" -days 1 -subj /CN=localhost >/dev/null 2>&1
    serve "$probe" --chat-template "$work/t.jinja" --tls-cert "$work/c.pem" --tls-key "$work/k.pem" --quiet
    asks "TLS" 200 finish_reason "$url/v1/completions" -d '{"prompt": "a", "max_tokens": 2}'
    ends 0
fi
# systemd: a socket that is handed over, and a word when it is ready.
check "socket activation" python3 - "$pith" "$probe" "$work" <<'PY'
import os, socket, subprocess, sys, urllib.request
pith, model, work = sys.argv[1:]
s = socket.create_server(("127.0.0.1", 0))
n = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
n.bind(work + "/notify")
n.settimeout(20)
def child():
    os.dup2(s.fileno(), 3)
    os.environ["LISTEN_PID"] = str(os.getpid())
code = "import os, sys; os.environ['LISTEN_PID'] = str(os.getpid()); os.dup2(int(sys.argv[1]), 3, inheritable=True); os.execv(sys.argv[2], sys.argv[2:])"
p = subprocess.Popen([sys.executable, "-c", code, str(s.fileno()), pith, "serve", model, "--quiet"], pass_fds=[s.fileno()], stdout=subprocess.PIPE,
                     env=dict(os.environ, LISTEN_FDS="1", NOTIFY_SOCKET=work + "/notify"), text=True)
assert n.recv(100) == b"READY=1"
url = p.stdout.readline().strip()
assert url.endswith(":%d" % s.getsockname()[1]), url
assert b"ok" in urllib.request.urlopen(url + "/health").read()
p.terminate()
assert n.recv(100) == b"STOPPING=1" and p.wait(20) == 0
PY
refuse "a port that is taken" 1 'in use' sh -c "python3 -c 'import socket, subprocess, sys
s = socket.create_server((\"127.0.0.1\", 0))
sys.exit(subprocess.call([\"$pith\", \"serve\", \"$probe\", \"--port\", str(s.getsockname()[1])]))'"
printf '# none\n' >"$work/keys"
refuse "a file without keys" 1 'no API key' "$pith" serve "$probe" --port 0 --api-key-file "$work/keys"
refuse "half of TLS" 2 'go together' "$pith" serve "$probe" --tls-cert x
refuse "no such model" 1 'nowhere' "$pith" serve "$work/nowhere" --port 0
refuse "a port that is none" 2 'from 0 to 65535' "$pith" serve "$probe" --port 70000
finish
