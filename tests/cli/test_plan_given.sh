#!/bin/sh
# pith plan knows what it is given: names, quantized checkpoints, rows that groups do not divide; its commands are ones that pith
# takes, its figures this model's, its table fits a line, and where nothing fits it says what would.
set -u
. tests/cli/lib.sh
unset HF_HOME HF_HUB_CACHE HUGGINGFACE_HUB_CACHE XDG_CACHE_HOME
HOME=$work
export HOME

key() { # FILE.json EXPRESSION of j: its value
    python3 -c 'import json, sys
j = json.load(open(sys.argv[1]))
print(eval(sys.argv[2]))' "$1" "$2"
}
is() { # NAME WANTED FOUND
    [ "$3" = "$2" ] && pass "$1" || fail "$1: $3 instead of $2"
}

# --- names
for of in meta-llama/Llama-3.1-70B-Instruct:Llama-3.1-70B llama-70b:Llama-3.1-70B Qwen/Qwen2.5-7B:Qwen2.5-7B llama3.1-8b:Llama-3.1-8B \
    google/gemma-3-27b-it:Gemma-3-27B Llama-3.3-70B-Instruct:Llama-3.1-70B Qwen/Qwen3-30B-A3B-Instruct-2507:Qwen3-30B-A3B \
    mistralai/Mistral-7B-Instruct-v0.3:Mistral-7B-v0.3 TinyLlama/TinyLlama-1.1B-Chat-v1.0:TinyLlama-1.1B gpt2:GPT-2 Llama-2-7b-hf:Llama-2-7B; do
    "$pith" plan "${of%:*}" --weights none --kv bf16 --json >"$work/plan.json" 2>"$work/stderr"
    is "${of%:*}" "${of#*:}" "$(key "$work/plan.json" 'j["shape"]')"
done
refuse "several sizes" 2 "there are Mixtral-8x22B, Mixtral-8x7B" "$pith" plan mixtral
refuse "another size" 2 "there are .*Qwen2.5-7B" "$pith" plan Qwen2-7B-Instruct
refuse "a quantized one is no shape" 2 "no well-known model" "$pith" plan hugging-quants/Meta-Llama-3.1-8B-Instruct-AWQ-INT4
refuse "no family" 2 "no well-known model of that name; pith plan --shapes" "$pith" plan no/such-model

# --- quantized checkpoints are what they are
run_commands() { # FILE.json: each command of pith that stands there, in the work folder, as a rehearsal or in full
    key "$1" '"\n".join(sorted({c for r in j["rows"] for c in r["commands"].values() if c.startswith("pith ")}))' >"$work/commands"
    while read -r line; do
        case $line in
        "pith quantize"*) more="--rehearse --calib-tokens 128 --seq-len 32" ;;
        "pith convert"*) more= ;;
        *) more=--help ;;
        esac
        if (cd "$work" && eval "\"$pith\" ${line#pith } $more") >"$work/stdout" 2>"$work/stderr" </dev/null; then pass "$line"
        else fail "$line: $(tail -n 1 "$work/stderr")"; fi
    done <"$work/commands"
}
shallow "$work/some"
"$pith" quantize "$work/some" -o "$work/ct" -r rtn --quiet
"$pith" quantize "$work/some" -o "$work/an awq's" -r awq --calib-tokens 512 --quiet
"$pith" quantize "$work/some" -o "$work/q.gguf" -r q4_k_m --calib-tokens 512 --quiet
"$pith" quantize "$work/some" -o "$work/auto" -r auto --budget 6 --calib-tokens 512 --quiet
for of in "ct:compressed-tensors:int4:g128" "an awq's:awq:int4:g128:asym" "q.gguf:gguf:q4_k"; do
    name=${of%%:*} rest=${of#*:}
    "$pith" plan "$work/$name" --json >"$work/plan.json"
    is "$name: only as it is" "['stored']" "$(key "$work/plan.json" 'sorted({r["recipe"] for r in j["rows"]})')"
    is "$name: container and grid" "$rest" "$(key "$work/plan.json" 'j["stored"]["container"] + ":" + j["rows"][0]["weights"]')"
    is "$name: its bytes, within 2%" True "$(key "$work/plan.json" 'abs(j["rows"][0]["weight_bytes"] / j["stored"]["bytes"] - 1) < 0.02')"
    "$pith" plan "$work/$name" --for pith --for llama.cpp --for vllm --for trtllm --json >"$work/plan.json"
    (cd "$work" && rm -rf ./*-modelopt ./*-gguf.gguf ./*-compressed-tensors)
    run_commands "$work/plan.json"
done
"$pith" plan "$work/ct" --weights gptq --weights none --json >"$work/plan.json"
is "of few bits it is quantized again where that is asked, and the command says so" "['gptq', 'stored'] {True}" "$(key "$work/plan.json" 'sorted({r["recipe"] for r in j["rows"]}), {"--requantize" in r["commands"]["quantize"] for r in j["rows"] if r["recipe"] == "gptq"}' | sed 's/^(//; s/)$//; s/, {/ {/')"
"$pith" quantize "$work/some" -o "$work/fp8" -r fp8-block --container fp8 --quiet
"$pith" plan "$work/fp8" --for pith --kv bf16 --json >"$work/plan.json"
is "of 8 bits it is as it is, or with fewer" "stored True False" "$(key "$work/plan.json" '" ".join(str(x) for x in (j["rows"][0]["recipe"], "nvfp4" in {r["recipe"] for r in j["rows"]}, any("--requantize" in r["commands"].get("quantize", "") for r in j["rows"])))')"
"$pith" plan "$work/auto" --for pith --kv bf16 --json >"$work/plan.json"
is "what was measured when it was made" "True" "$(key "$work/plan.json" 'j["rows"][0]["quality"]["kld"] > 0 and "measured on this model" in j["rows"][0]["quality"]["source"]')"

# --- rows that groups do not divide
python3 tests/cli/mini.py "$work/narrow" layers=2 hidden=192 ffn=384 >/dev/null
"$pith" plan "$work/narrow" --for vllm --for sglang --for pith --for llama.cpp --kv bf16 --json >"$work/plan.json"
is "4 bits are there" "True" "$(key "$work/plan.json" '{"awq+gptq", "gptq", "autoround"} <= {r["recipe"] for r in j["rows"]}')"
is "and say which groups" "[[64], [64, 128]]" "$(key "$work/plan.json" 'sorted({tuple(r["groups"]) for r in j["rows"] if "groups" in r})' | sed 's/(/[/g; s/)/]/g; s/,\]/]/g')"
run_commands "$work/plan.json"
for recipe in awq rtn; do
    "$pith" quantize "$work/narrow" -o "$work/$recipe" -r $recipe --calib-tokens 512 --quiet
    "$pith" plan "$work/narrow" --weights $recipe --for vllm --kv bf16 --json >"$work/plan.json"
    made=$("$pith" inspect "$work/$recipe" --json | python3 -c 'import json, sys
print(json.load(sys.stdin)["bytes"])')
    is "$recipe: bytes are foretold" True "$(key "$work/plan.json" "abs(j['rows'][0]['weight_bytes'] / $made - 1) < 0.001")"
done
"$pith" plan "$work/narrow" --weights int4:g128 --for vllm --json >"$work/plan.json"
is "a size that is named is ruled out" "(0, True)" "$(key "$work/plan.json" '(len(j["rows"]), "192" in j["ruled_out"][0]["reason"])')"

# --- figures are of this model, or published for its class
"$pith" plan Llama-3.1-70B --json >"$work/plan.json"
is "none of the probe's beside a 70B" "set()" "$(key "$work/plan.json" '{r["recipe"] for r in j["rows"] if r["quality"]["kld"]}')"
"$pith" plan Llama-3.1-8B --for llama.cpp --kv bf16 --json >"$work/plan.json"
is "what is published for 8B, with its source" "(0.0313, True)" "$(key "$work/plan.json" '[(r["quality"]["kld"], "published" in r["quality"]["source"]) for r in j["rows"] if r["recipe"] == "q4_k_m"][0]')"
is "rows are compared by one model's figures, or by what is published" "[True]" "$(key "$work/plan.json" 'sorted({("Llama-3-8B" if r["recipe"] in ("q2_k", "q3_k_m", "q4_k_m", "q5_k_m", "q6_k") else "SmolLM2") in r["quality"]["likened_to"] for r in j["rows"]})')"
"$pith" plan Llama-3.1-8B --hardware xeon-spr-56 --for pith --context 32k --weights w8a16 --kv turbo3 --kv turbo4 --kv int8:token --kv int2:g32:asym --json >"$work/plan.json"
is "a cache that was measured elsewhere alone does not win by that" "['int8:token', 'turbo4', 'turbo3', 'int2:g32:asym']" \
    "$(key "$work/plan.json" '[r["kv"] for r in j["rows"]]')"
"$pith" plan SmolLM2-135M --for vllm --kv bf16 --json >"$work/plan.json"
is "what was measured on a model of that shape, with its name" "(True, True)" "$(key "$work/plan.json" '[(q["kld"] == q["likened"] > 0, "measured on SmolLM2" in q["source"]) for q in [r["quality"] for r in j["rows"] if r["recipe"] == "smoothrot"]][0]')"
is "and what was not measured there has none" "[None]" "$(key "$work/plan.json" '[r["quality"]["kld"] for r in j["rows"] if r["recipe"] == "autoround"]')"
"$pith" plan Llama-3.1-8B --for vllm --kv bf16 --json >"$work/plan.json"
is "autoround has none there, and wins nothing by another's" "(None, True)" "$(key "$work/plan.json" '(lambda n: ([r["quality"]["likened"] for r in j["rows"] if r["recipe"] == "autoround"][0], n.index("autoround") > n.index("awq+gptq")))([r["recipe"] for r in j["rows"]])')"

# --- the table
for what in "Llama-3.1-70B --hardware h100-sxm --hardware l40s --users 16 --users 64 --context 8k" "Llama-3.1-8B --hardware all --context 32k" \
    "Qwen3-32B --fit 80G" "Llama-3.1-8B --for vllm --for sglang --for pith --weights int4:g128:asym --weights int3:g64:asym:mse"; do
    # shellcheck disable=SC2086
    "$pith" plan $what >"$work/table"
    widest=$(sed -n '/^-/,/^$/p' "$work/table" | awk '{ if (length($0) > w) w = length($0) } END { print w + 0 }')
    [ "$widest" -gt 40 ] && [ "$widest" -le 100 ] && pass "$widest columns: $what" || fail "$widest columns: $what"
done
grep -q "^.*sizes are of the one device" "$work/table" && pass "of one device" || fail "of one device: $(sed -n 2,4p "$work/table")"
"$pith" plan Llama-3.1-70B --hardware h100-sxmx4 --weights fp8 --kv bf16 >"$work/table"
grep -q "sizes are of all devices of a row together" "$work/table" && grep -q "GB on each of 4 devices" "$work/table" && pass "of all, and of each" || fail "of all, and of each"

# --- nothing fits
"$pith" plan Qwen3-32B --hardware l4x1 --users 8 --context 32k --json >"$work/plan.json"
is "a shorter context, or more devices" "[(8, True, 1), (8, True, True)]" \
    "$(key "$work/plan.json" '[(w["users"], w["context"] < 32768, w["count"]) if w["count"] == 1 else (w["users"], w["context"] == 32768, w["count"] > 1) for w in j["would_fit"]]')"
"$pith" plan Llama-3.1-8B --fit 24G --users 64 --context 16k --json >"$work/plan.json"
is "fewer users" "[True, False]" "$(key "$work/plan.json" '[w["users"] < 64 for w in j["would_fit"]]')"
"$pith" plan Llama-3.1-8B --fit 24G --users "$(key "$work/plan.json" 'j["would_fit"][0]["users"]')" --context 16k --json >"$work/then.json"
is "so many do" True "$(key "$work/then.json" 'len(j["rows"]) > 0')"
"$pith" plan Llama-3.1-8B --fit 24G --users 64 --context 16k >"$work/table"
grep -q "would fit: *[0-9]* users of a context of 16384" "$work/table" && pass "it is said" || fail "it is said: $(cat "$work/table")"

exit $failed
