#!/bin/sh
# Published models, as others made them: what was installed from Python packages is opened, talked with, served, quantized, converted there
# and back, verified, and where JUDGE names a Python with torch and transformers held against these on the same weights.
#
# Part of `make test-all`: SmolLM2 and some recipes, under a minute. `make real` (PITH_REAL=all): both models, all rows below, 10,000 strings.
set -u
. tests/cli/lib.sh
. tests/cli/server.sh
if ! thorough && [ -z "${PITH_REAL:-}" ]; then
    skip "published models" "a part of make test-all, and make real"
    finish
fi
whole() {
    [ "${PITH_REAL:-}" = all ]
}
place=${BUILD:-build}/real
text=$root/models/probe/eval.txt

# Recipes, and with them containers: name, the most that KL to the original may be on 510 positions of eval.txt for SmolLM2 and for
# Gemma, options. The bounds are half as much again as the model's figure, or more; bench/real.py measures.
rows='rtn 0.7 1.5 -r rtn
q8_0.gguf 0.002 0.006 -r q8_0'
whole && rows="$rows
w8a16 0.006 0.01 -r w8a16
fp8 0.06 0.07 -r fp8
w8a8 0.06 0.13 -r w8a8
llm.int8 0.04 0.07 -r llm.int8
nf4 0.5 0.6 -r nf4
hqq 0.4 0.9 -r hqq
nvfp4 0.4 0.45 -r nvfp4
mxfp4 0.9 1.1 -r mxfp4
gptq 0.6 0.8 -r gptq --calib-tokens 1024
awq 0.6 0.6 -r awq --calib-tokens 1024
q4_k_m.gguf 0.07 0.01 -r q4_k_m --calib-tokens 1024"

perplexity() { # MODEL: of 510 positions
    "$pith" eval "$1" --text "$text" --context 256 --max-tokens 510 --json --quiet |
        python3 -c 'import json, sys; print(json.load(sys.stdin)["perplexity"])'
}

# there_and_back FILE.gguf: a folder of its weights, and a file of the folder's, mean what it means.
there_and_back() {
    check "a folder of its weights" "$pith" convert "$1" -o "$work/folder" --container dense:f32
    check "the folder is whole" "$pith" verify "$work/folder"
    check "a file of the folder's" "$pith" convert "$work/folder" -o "$work/back.gguf" --weights f32
    check "the file is whole" "$pith" verify "$work/back.gguf" --against "$work/folder" --for llama.cpp
    before=$(perplexity "$1") there=$(perplexity "$work/folder") back=$(perplexity "$work/back.gguf")
    python3 -c 'import sys
before, there, back = map(float, sys.argv[1:])
sys.exit(not (there == back and abs(there / before - 1) < 1e-4))' "$before" "$there" "$back" &&
        pass "perplexity $before there and back" || fail "perplexity $before there and back: $there, $back"
    said=$("$pith" run "$1" -p "The capital of France is" -n 12 --quiet)
    for made in "$work/folder" "$work/back.gguf"; do
        [ "$("$pith" run "$made" -p "The capital of France is" -n 12 --quiet)" = "$said" ] && pass "and its answer" || fail "and its answer: $made"
    done
    rm "$work/back.gguf"
}

# talks MODEL: chat and a server give the same answer, and it is the right one.
talks() {
    asked="What is the capital of France?"
    said=$("$pith" chat "$1" -p "$asked" -n 24 --mode exact --kv f32 2>/dev/null)
    case $said in
    *Paris*) pass "chat knows the capital of France" ;;
    *) fail "chat says: $said" ;;
    esac
    serve "$1" --mode exact --kv f32 --context 512 --quiet
    check "a server says the same" python3 -c '
import json, sys, urllib.request
url, asked, said = sys.argv[1:]
body = {"messages": [{"role": "user", "content": asked}], "max_tokens": 24, "temperature": 0}
with urllib.request.urlopen(url.rstrip("/") + "/v1/chat/completions", json.dumps(body).encode(), timeout=120) as reply:
    answer = json.load(reply)["choices"][0]
assert answer["finish_reason"] == "stop", answer
assert answer["message"]["content"].strip() == said.strip(), (answer, said)' "$url" "$asked" "$said"
    ends 0
}

# quantized FOLDER MODEL: each row is made, verified against the original, and loses no more than its bound.
quantized() {
    echo "$rows" | while read -r row most gemma options; do
        [ "$2" = gemma3 ] && most=$gemma
        # shellcheck disable=SC2086
        if ! "$pith" quantize "$1" -o "$work/$row" $options --quiet >"$work/stdout" 2>"$work/stderr"; then
            fail "$row: $(tail -n 1 "$work/stderr")"
            continue
        fi
        check "$row: verified" "$pith" verify "$work/$row" --against "$1"
        kl=$("$pith" eval "$work/$row" --baseline "$1" --text "$text" --context 256 --max-tokens 510 --json --quiet |
            python3 -c 'import json, sys; print(json.load(sys.stdin)["kld_mean"])')
        python3 -c 'import sys; sys.exit(not 0 < float(sys.argv[1]) <= float(sys.argv[2]))' "$kl" "$most" &&
            pass "$row: KL $kl" || fail "$row: KL $kl, above $most"
        rm -rf "$work/$row" "$work/$row.pith.json"
    done >"$work/rows"
    cat "$work/rows"
    ! grep -q FAILED "$work/rows" || failed=1
}

models=smollm2
whole && models="smollm2 gemma3"
for model in $models; do
    file=$(python3 tools/real_models.py "$place" "$model" 2>"$work/stderr") && got=0 || got=$?
    if [ $got -eq 77 ]; then
        skip "$model" "$(head -n 1 "$work/stderr")"
        continue
    elif [ $got -ne 0 ]; then
        fail "$model: $(tail -n 1 "$work/stderr")"
        continue
    fi
    echo "$model: $(basename "$file")"
    [ $model = gemma3 ] || talks "$file" # this one was not taught to talk
    there_and_back "$file"
    if [ -z "${JUDGE:-}" ]; then
        skip "$model beside transformers" "JUDGE names no Python with it"
    else
        "$JUDGE" tests/real/judge.py "$pith" "$work/folder" "$text" "$(whole && echo 10000 || echo 200)" || failed=1
    fi
    rm -rf "$work/folder"
    check "in 16 bits" "$pith" convert "$file" -o "$work/folder" --container dense:bf16
    quantized "$work/folder" "$model"
    rm -rf "$work/folder"
done
finish
