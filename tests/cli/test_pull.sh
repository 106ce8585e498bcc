#!/bin/sh
# pith pull against a server that behaves, and misbehaves, as a hub does; only 127.0.0.1 is asked.
set -u
. tests/cli/lib.sh
hub=$work/hub
models=$hub/models/acme
mkdir -p "$models/probe/onnx" "$models/probe/additional_chat_templates" "$models/gguf" "$models/bin"
cp "$probe/config.json" "$probe/tokenizer.json" "$probe/model.safetensors" "$models/probe/"
echo '{{ messages }}' >"$models/probe/chat_template.jinja"
echo '{{ tools }}' >"$models/probe/additional_chat_templates/tools.jinja"
for f in pytorch_model.bin onnx/model.onnx README.md consolidated.safetensors; do echo no >"$models/probe/$f"; done
: >"$models/probe/LICENSE"
echo '{}' >"$models/bin/config.json"
echo old >"$models/bin/pytorch_model.bin"
head -c 200000 "$probe/model.safetensors" >"$models/gguf/a-Q4_K_M.gguf"
echo other >"$models/gguf/a-Q8_0.gguf"
cp -r "$models/probe" "$models/gated"
mkdir "$models/terms"

python3 tests/cli/hub_server.py "$hub" 2>"$work/server.log" &
server=$!
trap 'kill $server; rm -rf "$work"' EXIT
until [ -e "$hub/port" ] || ! kill -0 $server; do sleep 0.05; done
export HF_ENDPOINT="http://127.0.0.1:$(cat "$hub/port")/" HF_HOME="$work/home"
export no_proxy='*'
unset HF_TOKEN HUGGING_FACE_HUB_TOKEN HF_TOKEN_PATH HF_HUB_CACHE HUGGINGFACE_HUB_CACHE HF_HUB_OFFLINE \
    TRANSFORMERS_OFFLINE HF_HUB_DISABLE_IMPLICIT_TOKEN

# The server as it should be, or as JSON says; an empty cache; an empty log.
anew() {
    rm -rf "$work/home"
    rm -f "$hub/log"
    misbehave "${1:-{\}}"
}
misbehave() {
    printf '%s\n' "$1" >"$hub/control.new"
    mv "$hub/control.new" "$hub/control.json"
}
# What the server was asked, as an expression over `log`, and `data`, what was asked about the large file.
asked() {
    name=$1
    if python3 - "$hub/log" "$2" <<'PY'; then pass "$name"; else fail "$name"; fi
import json, sys
log = [json.loads(line) for line in open(sys.argv[1])]
data = [x for x in log if x["path"].startswith("/cdn/") and x["path"].endswith("/model.safetensors")]
sys.exit(0 if eval(sys.argv[2]) else 1)
PY
}
snapshot() {
    echo "$work/home/hub/models--acme--$1/snapshots/$(cat "$work/home/hub/models--acme--$1/refs/main")"
}
complete() {
    if cmp -s "$(snapshot probe)/model.safetensors" "$probe/model.safetensors" &&
        cmp -s "$(snapshot probe)/config.json" "$probe/config.json" &&
        [ -z "$(find "$work/home" -name '*.pith.*')" ]; then pass "$1"; else fail "$1"; fi
}

anew
check "pull" "$pith" pull acme/probe
complete "every byte, and nothing left over"
grep -q 'in 6 files' "$work/stdout" && pass "only the files that are needed" || fail "only the files that are needed"
check "it is found by name" "$pith" inspect acme/probe
[ "$(readlink "$(snapshot probe)/additional_chat_templates/tools.jinja" | cut -d/ -f1-4)" = ../../../blobs ] &&
    [ -f "$work/home/hub/CACHEDIR.TAG" ] && [ "$(wc -c <"$work/home/hub/models--acme--probe/refs/main")" -eq 40 ] &&
    pass "relative links, a ref without a line end" || fail "relative links, a ref without a line end"
asked "in pieces, each of its own range" \
    'len({x["range"] for x in data}) == 2 and all(x["range"] for x in data)'
rm "$hub/log"
check "pull again" "$pith" pull acme/probe
grep -q 'all of it here already' "$work/stdout" && pass "nothing is downloaded twice" || fail "nothing is downloaded twice"
asked "nothing but the lists is asked for" 'all(x["path"].startswith("/api/") for x in log)'
check "as JSON" sh -c "'$pith' pull acme/probe@refs/pr/1 --json | python3 -c '
import json, sys
j = json.load(sys.stdin)
assert j[\"downloaded\"] == 0 and len(j[\"files\"]) == 6 and j[\"revision\"] == \"refs/pr/1\", j'"
[ -f "$work/home/hub/models--acme--probe/refs/refs/pr/1" ] && pass "a revision with slashes" || fail "a revision with slashes"
check "by commit" "$pith" pull "acme/probe@$(cat "$work/home/hub/models--acme--probe/refs/main")" --quiet
[ ! -s "$work/stdout" ] && [ ! -s "$work/stderr" ] && pass "quiet" || fail "quiet"
check "a .gguf file by pattern" "$pith" pull acme/gguf --file '*Q4_K_M.gguf'
[ "$(ls "$(snapshot gguf)")" = a-Q4_K_M.gguf ] && pass "that file alone" || fail "that file alone"

# Who may read.
refuse "no such model" 1 'no such model.*check the spelling, or give a token' "$pith" pull --quiet acme/nothing
refuse "no such model, with a token" 1 'no such model.*404' env HF_TOKEN=hf_secret "$pith" pull --quiet acme/nothing
refuse "no such revision" 1 "has no revision 'v9'" "$pith" pull --quiet acme/probe@v9
refuse "gated" 1 'gated .status 401.: accept its terms at http' "$pith" pull --quiet acme/gated
refuse "gated, terms not accepted" 1 'this token.s account has not' env HF_TOKEN=hf_secret "$pith" pull --quiet acme/terms
refuse "a token with a line end" 1 'characters that no token has' env HF_TOKEN="a
b" "$pith" pull --quiet acme/gated
refuse "no weights" 1 'has no .*safetensors' "$pith" pull --quiet acme/bin
refuse "only .gguf files" 1 'name a file with --file: a-Q4_K_M.gguf, a-Q8_0.gguf' "$pith" pull --quiet acme/gguf
refuse "a pattern that matches nothing" 2 'matches none of the' "$pith" pull --quiet acme/probe --file '*.gguf'
refuse "no name" 2 'give org/name' "$pith" pull --quiet probe
refuse "no token file" 2 'none: cannot read: No such file' "$pith" pull --quiet acme/probe --token-file "$work/none"
refuse "no token in the file" 2 'there is no token in it' "$pith" pull --quiet acme/probe --token-file /dev/null
refuse "too many requests at a time" 2 'between 1 and 64' "$pith" pull --quiet acme/probe --jobs 65
refuse "an address that is none" 1 'no address of a hub' env HF_ENDPOINT=ftp://x "$pith" pull --quiet acme/probe
refuse "nobody there" 1 'try again later' env HF_ENDPOINT=http://127.0.0.1:9 "$pith" pull --quiet acme/probe

if command -v openssl >/dev/null; then
    mkdir "$work/tls"
    openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1 \
        -keyout "$work/tls/key" -out "$work/tls/cert" 2>"$work/stderr"
    cat "$work/tls/key" "$work/tls/cert" >"$work/tls/pem"
    python3 tests/cli/hub_server.py "$work/tls" "$work/tls/pem" 2>"$work/tls/log2" &
    secure=$!
    until [ -e "$work/tls/port" ] || ! kill -0 $secure; do sleep 0.1; done
    refuse "a certificate that nobody signed" 1 'certificate' \
        env HF_ENDPOINT="https://127.0.0.1:$(cat "$work/tls/port")" HF_TOKEN=hf_secret "$pith" pull --quiet acme/probe
    [ ! -e "$work/tls/log" ] && pass "nothing is asked there" || fail "nothing is asked there"
    kill $secure
else
    skip "a certificate that nobody signed" "no openssl"
fi

# The token: from its places, to the endpoint, to nobody else.
anew
check "gated, with HF_TOKEN" env HF_TOKEN=hf_secret "$pith" pull acme/gated --quiet
asked "the token goes to the endpoint" \
    'all(x["token"] == "Bearer hf_secret" for x in log if x["host"] == "127.0.0.1") and len(log) > 3'
asked "the token does not follow a redirect" \
    'any(x["host"] == "localhost" for x in log) and not any(x["token"] for x in log if x["host"] == "localhost")'
echo hf_secret >"$work/token"
check "with --token-file" "$pith" pull acme/gated --quiet --token-file "$work/token"
check "with HF_TOKEN_PATH" env HF_TOKEN_PATH="$work/token" "$pith" pull acme/gated --quiet
cp "$work/token" "$work/home/token"
check "with the login of other tools" "$pith" pull acme/gated --quiet
check "a model that was renamed" "$pith" pull acme/old --quiet
refuse "a token that is not to be used unasked" 1 'gated' env HF_HUB_DISABLE_IMPLICIT_TOKEN=1 "$pith" pull --quiet acme/gated
rm "$hub/log"
refuse "offline" 1 'HF_HUB_OFFLINE' env HF_HUB_OFFLINE=1 "$pith" pull --quiet acme/probe
[ ! -e "$hub/log" ] && pass "offline asks nobody" || fail "offline asks nobody"

# Servers that are busy, broken, or cut.
anew '{"busy": 1, "broken": 1, "cut": 2, "page": 2}'
check "429, 503, cut connections, lists in pages" "$pith" pull acme/probe --quiet
complete "every byte after it"
asked "cut pieces go on where they were" \
    'len(data) == 4 and len({x["range"] for x in data}) == 4'
anew '{"noranges": true}'
check "a server without ranges" "$pith" pull acme/probe --quiet
complete "every byte without ranges"
anew '{"cdn_status": 403}'
refuse "a refusal behind the redirect" 1 'answers with status 403' "$pith" pull --quiet acme/probe
for case in 'loop|too many redirects|"redirect": "/acme/probe/resolve/0123456789012345678901234567890123456789/model.safetensors"' \
    'file|no address of http|"redirect": "file:///etc/passwd"' 'user|no address of http|"redirect": "http://u:p@127.0.0.1/"'; do
    rest=${case#*|}
    anew "{${rest#*|}}"
    refuse "redirect: ${case%%|*}" 1 "${rest%%|*}" "$pith" pull --quiet acme/probe
done

# Bytes that are not what the hub says.
anew '{"wrong": ["model.safetensors"]}'
refuse "wrong bytes of a large file" 1 'the hub says [0-9a-f]{64}; it was deleted' "$pith" pull --quiet acme/probe
# Of the other files pieces may stay, which were on their way.
large=$(sha256sum <"$probe/model.safetensors")
[ -z "$(find "$work/home/hub/models--acme--probe/blobs" -name "${large%% *}*")" ] && [ ! -e "$work/home/hub/models--acme--probe/refs/main" ] &&
    pass "nothing of them stays" || fail "nothing of them stays"
misbehave '{}'
check "and good ones after it" "$pith" pull acme/probe --quiet
anew '{"wrong": ["config.json"]}'
refuse "wrong bytes of a small file" 1 'config.json: .*the hub says [0-9a-f]{40}; it was deleted' "$pith" pull --quiet acme/probe
anew '{"long": ["config.json"]}'
refuse "too many bytes" 1 'more came than the hub says' "$pith" pull --quiet acme/probe
anew '{"short": ["model.safetensors"]}'
refuse "a length that the list does not tell" 1 'another length than the hub says' "$pith" pull --quiet acme/probe
anew '{"shift": 1}'
refuse "another range than was asked for" 1 'another range came' "$pith" pull --quiet acme/probe
for path in ../evil /etc/evil a/../../evil 'a\\..\\evil' a//evil .; do
    anew "{\"evil\": [{\"type\": \"file\", \"path\": \"$path\", \"size\": 1, \"oid\": \"0000000000000000000000000000000000000000\"}]}"
    refuse "a file named $path" 1 'would lie outside' "$pith" pull --quiet acme/probe
done
anew '{"evil": [{"type": "file", "path": "x.safetensors", "size": 1, "oid": "../../../../../../../../tmp/evil/00000000"}]}'
refuse "a hash that is a path" 1 'no hash of it' "$pith" pull --quiet acme/probe
anew '{"evil": [{"type": "file", "path": "config.json", "size": 1, "oid": "0000000000000000000000000000000000000000"}]}'
refuse "a file listed twice" 1 'twice' "$pith" pull --quiet acme/probe

# Killed, stopped, two at once, no room. The server holds all but the first two million bytes of each piece back, so that
# it is on its way however long that takes.
blobs=$work/home/hub/models--acme--probe/blobs
recorded() { # how many bytes the record of what has arrived tells of
    cat "$blobs"/*.pith.pieces 2>/dev/null | awk '!/^pieces/ { n += $3 } END { print n + 0 }'
}
has_parts() {
    [ -n "$(find "$blobs" -name '*.pith.incomplete' 2>/dev/null)" ]
}
is_recorded() {
    [ "$(recorded)" -ge 4000000 ]
}
ended_by() { # SIGNAL STATUS STATE: a pull that gets the signal once the state is there ends with that status
    "$pith" pull acme/probe >"$work/stdout" 2>"$work/stderr" &
    job=$!
    awaited 100 "$3"
    kill "-$1" $job
    wait $job 2>/dev/null
    [ $? -eq "$2" ]
}
anew '{"hold": 2000000}'
ended_by KILL 137 has_parts && has_parts && pass "a kill leaves parts" || fail "a kill leaves parts"
ended_by KILL 137 is_recorded && pass "what arrives is recorded" || fail "what arrives is recorded"
kept=$(recorded)
rm "$hub/log"
misbehave '{}'
check "it goes on" "$pith" pull acme/probe --quiet
complete "every byte after kills"
asked "where it was" \
    "sum(int(b) - int(a) + 1 for a, b in (x['range'][6:].split('-') for x in data)) == $(wc -c <"$probe/model.safetensors") - $kept"
anew '{"hold": 2000000}'
ended_by INT 130 is_recorded && grep -q 'the same command goes on' "$work/stderr" && pass "Ctrl-C" || fail "Ctrl-C"
is_recorded && pass "what arrived is recorded" || fail "what arrived is recorded"
rm "$hub/log"
misbehave '{"slow": 1500000}'
"$pith" pull acme/probe --quiet >"$work/a" 2>&1 &
one=$!
check "one of two at the same time" "$pith" pull acme/probe --quiet
wait $one && pass "the other" || fail "the other"
complete "every byte after two at once"
asked "no byte came twice" \
    'sum(int(b) - int(a) + 1 for a, b in (x["range"][6:].split("-") for x in data)) < 11600000'
anew
refuse "no room for a file" 1 'model.safetensors: .*what has arrived is stored' sh -c "ulimit -f 2000; '$pith' pull --quiet acme/probe"
check "room again" "$pith" pull acme/probe --quiet
complete "every byte after it had room"
finish
