#!/bin/sh
# What pith plan says of bytes is what pith makes: sizes of files and of memory; and what it refuses.
set -u
. tests/cli/lib.sh
probe=models/probe

key() { # FILE.json EXPRESSION of j: its value
    python3 -c 'import json, sys
j = json.load(open(sys.argv[1]))
print(eval(sys.argv[2]))' "$1" "$2"
}

shallow "$work/some"
# The bytes of tensors that pith quantize writes, of several containers, are those foretold to 0.1%.
for recipe in fp8 w8a16 gptq awq mxfp4 nvfp4; do
    "$pith" quantize "$work/some" -o "$work/$recipe" -r $recipe --quiet --calib-tokens 512 >/dev/null
    "$pith" plan "$work/some" --weights $recipe --kv bf16 --for vllm --json >"$work/plan.json"
    made=$(python3 -c 'import json, struct, sys
f = open(sys.argv[1] + "/model.safetensors", "rb")
h = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
print(sum(t["data_offsets"][1] - t["data_offsets"][0] for n, t in h.items() if n != "__metadata__"))' "$work/$recipe")
    told=$(key "$work/plan.json" 'int(j["rows"][0]["weight_bytes"])')
    if python3 -c "import sys; sys.exit(abs($told / $made - 1) > 0.001)"; then pass "$recipe: $told bytes foretold"
    else fail "$recipe: $told bytes foretold, $made made"; fi
done
for recipe in q4_k_m q8_0; do
    "$pith" quantize "$work/some" -o "$work/$recipe.gguf" -r $recipe --quiet --calib-tokens 512 >/dev/null
    "$pith" plan "$work/some" --weights $recipe --kv bf16 --for llama.cpp --json >"$work/plan.json"
    made=$("$pith" inspect "$work/$recipe.gguf" --json | python3 -c 'import json, sys
print(json.load(sys.stdin)["bytes"])')
    told=$(key "$work/plan.json" 'int(j["rows"][0]["weight_bytes"])')
    if python3 -c "import sys; sys.exit(abs($told / $made - 1) > 0.005)"; then pass "$recipe: $told bytes foretold"
    else fail "$recipe: $told bytes foretold, $made made"; fi
done

# Known sizes: 8,030,261,248 parameters; 128 KiB of cache a position in bfloat16 (32 layers, 8 heads of 128).
"$pith" plan llama-3.1-8b --weights none --kv bf16 --context 131072 --json >"$work/plan.json"
[ "$(key "$work/plan.json" 'j["parameters"]["all"]')" = 8030261248 ] && pass "parameters" || fail "parameters"
[ "$(key "$work/plan.json" 'j["rows"][0]["kv_bytes_per_token"]')" = 131072.0 ] && pass "cache" || fail "cache"
check "a config alone" sh -c "python3 -c 'import json; json.dump(json.load(open(\"$probe/config.json\")), open(\"$work/config.json\", \"w\"))' && \
    '$pith' plan '$work/config.json' >/dev/null"
check "the table" "$pith" plan $probe --fit 4G
check "the shapes" "$pith" plan --shapes

# Sizes that llama.cpp prints of these (GiB, the first source of bench/published.json), within 2%.
for of in Llama-3-8B:q4_k_m:4.58 Llama-3-70B:q4_k_m:39.59 Llama-2-7B:q8_0:6.67; do
    of_recipe=${of#*:} size=${of##*:}
    "$pith" plan "${of%%:*}" --weights "${of_recipe%:*}" --kv bf16 --for llama.cpp --json >"$work/plan.json"
    [ "$(key "$work/plan.json" "abs(j['rows'][0]['weight_bytes'] / ($size * 2**30) - 1) < 0.02")" = True ] &&
        pass "weights of $of GiB" || fail "weights of $of GiB"
done
# What is best where: the tables of docs/choosing.md, as far as measured figures bear them out (docs/planning.md).
first() { # what: the recipe of the first row
    "$pith" plan "$@" --json | python3 -c 'import json, sys
r = json.load(sys.stdin)["rows"][0]
print(r["recipe"], r["acts"].split(":")[0])'
}
best() { # NAME PATTERN ARGUMENTS
    name=$1 pattern=$2
    shift 2
    got=$(first "$@")
    if echo "$got" | grep -qE "^($pattern)"; then pass "$name: $got"; else fail "$name: $got, expected $pattern"; fi
}
best "one user on an L4: 4-bit weights" "autoround|awq|gptq" Llama-3.1-8B --hardware l4 --weights awq+gptq --weights fp8 --weights none
best "many users on an A100: integers of 8 bits" "smoothrot int8" Llama-3.1-8B --hardware a100-sxm4-80 --users 64
best "many users on an H100: 8 bits, both" "(smoothrot|fp8).* (int8|fp8)" Llama-3.1-8B --hardware h100-sxm --users 64 --context 8k
best "a B300 has hardly any integer units: FP8" "fp8|mxfp8" Llama-3.1-8B --hardware b300-sxm --users 256 --prompt 3k --gen 64
best "a T4 has integer units" "smoothrot int8" Llama-3.1-8B --hardware t4 --users 8 --prompt 3k --gen 64
best "a small model that fits: nothing" "none" Qwen2.5-1.5B --hardware l4
best "a Mac: llama.cpp's" "q[4-8]_" Llama-3.1-8B --hardware m4-max-40 --weights q5_k_m --weights none --weights q4_k_m
# Rows of the table of first choices in docs/planning.md: what comes first is what stands there, and it is what is advised or a
# reason is given.
python3 tests/cli/decisions.py "$pith" docs/planning.md >"$work/decisions" 2>&1 || echo "fail decisions.py did not end well" >>"$work/decisions"
[ "$(grep -c '^pass' "$work/decisions")" -ge 25 ] && pass "at least 25 first choices" || fail "at least 25 first choices: $(cat "$work/decisions")"
grep -q '^fail' "$work/decisions" && fail "first choices: $(grep '^fail' "$work/decisions")" || pass "first choices"
"$pith" plan Llama-3.1-8B --hardware a100-sxm4-80 --json >"$work/plan.json"
[ "$(key "$work/plan.json" 'sorted(r["recipe"] for r in j["ruled_out"] if "A100" in r["reason"] and "memory is saved" in r["reason"])[0]')" = fp8 ] &&
    pass "an A100 has no FP8" || fail "an A100 has no FP8"
"$pith" plan Llama-3.1-8B --hardware v100-sxm2-16 --context 2k --users 32 >"$work/plan.txt"
grep -q -- '-r w8a16 --container gptq --for vllm' "$work/plan.txt" && pass "a container whose kernels run there" || fail "a container whose kernels run there"

# --- what a GPU computes natively
check "a GPU named beside an engine" "$pith" quantize "$probe" -o "$work/t4" -r fp8 --for vllm:gpu=t4
shown=$(cat "$work/stdout")
case $shown in *"warning"*"Tesla T4"*"Marlin"*) pass "is warned of what saves memory alone" ;; *) fail "no warning: $shown" ;; esac
[ "$(key "$work/t4/pith.json" 'len(j["engines"][0]["notes"])')" = 1 ] && pass "which the account keeps" || fail "which the account keeps"
check "and verify tells" sh -c "'$pith' verify '$work/t4' --for vllm:gpu=t4 | grep -q 'note: Tesla T4'"
check "what does not run there is a problem" sh -c "'$pith' verify '$work/t4' --for trtllm:gpu=t4 | grep -q 'problem: trtllm: Tesla T4'"
refuse "and is not made" 1 'Tesla T4 has compute capability 7.5' "$pith" quantize "$probe" -o "$work/no" -r fp8 --for trtllm:gpu=t4
refuse "nor a GPU that is none" 2 'did you mean "h100-sxm"' "$pith" quantize "$probe" -o "$work/no" -r fp8 --for vllm:gpu=h10
check "two at once" "$pith" quantize "$probe" -o "$work/h" -r fp8 --for vllm:tp=2:gpu=h100 --quiet
"$pith" plan Llama-3.1-70B --hardware h100-sxm --weights none --kv bf16 --json >"$work/plan.json"
[ "$(key "$work/plan.json" 'j["rows"][0]["count"]')" = 2 ] && pass "70B in 16 bits needs two" || fail "70B in 16 bits needs two"
"$pith" plan Llama-3.1-8B --max-cost 0.5 --min-users 8 --context 2k --weights fp8 --json >"$work/plan.json"
[ "$(key "$work/plan.json" 'len(j["rows"]) > 0 and all(r["cost_per_million_tokens"] <= 0.5 and r["max_users"] >= 8 for r in j["rows"])')" = True ] &&
    pass "backwards: cost and users" || fail "backwards: cost and users"
"$pith" plan Llama-3.1-8B --max-latency 10 --max-first 0.5 --json >"$work/plan.json"
[ "$(key "$work/plan.json" 'len(j["rows"]) > 0 and all(r["token_seconds"] <= 0.01 and r["first_token_seconds"] <= 0.5 for r in j["rows"])')" = True ] &&
    pass "backwards: latency" || fail "backwards: latency"
check "a page" "$pith" plan Llama-3.1-8B --hardware l4 -o "$work/plan.html"
for part in "Memory of the first line" "Roofline of L4" "Users at most" "Quality against bytes" "Ruled out" "vllm serve"; do
    grep -q "$part" "$work/plan.html" && pass "the page has: $part" || fail "the page has: $part"
done
# Prompts on devices of their own, and caches in the host's memory.
"$pith" plan Llama-3.1-70B --hardware h100-sxm --users 64 --context 8k --weights fp8 --kv fp8_e4m3 --for vllm --prefill same --prefill none --json >"$work/plan.json"
pools='[r for r in j["rows"] if "pools" in r][0]' alone='[r for r in j["rows"] if "pools" not in r][0]'
[ "$(key "$work/plan.json" 'len(j["rows"])')" = 2 ] && pass "with pools and without" || fail "with pools and without"
[ "$(key "$work/plan.json" "[p['prefill']['groups'] >= p['ratio'] * p['decode']['groups'] and p['busy'] <= 1 for p in [$pools['pools']]][0]")" = True ] &&
    pass "prompts are read as fast as answers end" || fail "prompts are read as fast as answers end"
# 6,144 positions of 80 layers, 8 heads of 128, keys and values in bytes.
[ "$(key "$work/plan.json" "$pools['pools']['sent_bytes'] == 6144 * 80 * 8 * 128 * 2")" = True ] && pass "the cache that is sent" || fail "the cache that is sent"
[ "$(key "$work/plan.json" "$pools['token_seconds'] == $alone['token_seconds'] and $pools['first_token_seconds'] > $pools['pools']['send_seconds'] > 0")" = True ] &&
    pass "the first token waits for it" || fail "the first token waits for it"
[ "$(key "$work/plan.json" "'kv_producer' in $pools['commands']['prefill'] and 'kv_consumer' in $pools['commands']['serve'] and 'proxy' in $pools['commands']['route']")" = True ] &&
    pass "a command for each" || fail "a command for each"
"$pith" plan Llama-3.1-70B --hardware h100-sxm --users 64 --context 8k --weights fp8 --kv fp8_e4m3 --for sglang --prefill h200x2 --pool-link 1G -o "$work/pools.html" --json >"$work/plan.json"
[ "$(key "$work/plan.json" "[(p['prefill']['hardware'], p['prefill']['count'], round(p['send_seconds'] * p['link'] * 0.88 * 2 / p['sent_bytes'], 3)) for p in [$pools['pools']]][0]")" = "('h200-sxm', 2, 1.0)" ] &&
    pass "other devices, a slow link" || fail "other devices, a slow link"
[ "$(key "$work/plan.json" "$pools['commands']['prefill'].count('--disaggregation-mode prefill') + $pools['commands']['serve'].count('--disaggregation-mode decode')")" = 2 ] &&
    pass "as SGLang is told" || fail "as SGLang is told"
grep -q "prompts on" "$work/pools.html" && grep -q "1 x h200-sxm x2" "$work/pools.html" && grep -q "sglang_router" "$work/pools.html" && pass "the page has both pools" || fail "the page has both pools"
check "a table of them" "$pith" plan Llama-3.1-8B --hardware l4 --for trtllm --weights fp8 --prefill same
grep -q 'trtllm-serve disaggregated' "$work/stdout" && pass "and what stands in front" || fail "and what stands in front"
"$pith" plan Llama-3.1-8B --hardware l4 --for transformers --weights none --prefill same --json >"$work/plan.json"
[ "$(key "$work/plan.json" "(len(j['rows']), 'no separate pools' in j['ruled_out'][0]['reason'])")" = "(0, True)" ] && pass "an engine without pools" || fail "an engine without pools"
"$pith" plan Llama-3.1-8B --hardware h100-sxm --for vllm --weights none --prefill t4x1 --json >"$work/plan.json"
[ "$(key "$work/plan.json" "(len(j['rows']), 'reading prompts needs' in j['ruled_out'][0]['reason'])")" = "(0, True)" ] && pass "no room to read in" || fail "no room to read in"
host="$pith plan Llama-3.1-8B --hardware l4x1 --context 32k --users 32 --weights fp8 --kv fp8_e4m3"
$host --for vllm --json >"$work/plan.json"
[ "$(key "$work/plan.json" 'len(j["rows"])')" = 0 ] && pass "32 users do not fit" || fail "32 users do not fit"
$host --for vllm --offload 200G --json >"$work/plan.json"
[ "$(key "$work/plan.json" '[(r["offload"]["users_at_work"] == r["max_users"], r["offload"]["users_at_work"] + r["offload"]["users_in_host"] >= 32, r["offload"]["fetch_seconds"] < r["offload"]["read_seconds"]) for r in j["rows"]][0]')" = "(True, True, True)" ] &&
    pass "the host's memory holds them" || fail "the host's memory holds them"
[ "$(key "$work/plan.json" '"--kv-offloading-backend native --kv-offloading-size 200" in j["rows"][0]["commands"]["serve"]')" = True ] && pass "as vLLM is told" || fail "as vLLM is told"
[ "$(key "$work/plan.json" 'round(j["rows"][0]["offload"]["fetch_seconds"] * 3.2e10 * 0.88 / (24576 * 65536), 6)')" = 1.0 ] && pass "over PCIe" || fail "over PCIe"
$host --for sglang --offload 10G --json >"$work/plan.json"
[ "$(key "$work/plan.json" 'len(j["rows"])')" = 0 ] && pass "a small one does not" || fail "a small one does not"
"$pith" plan Llama-3.1-8B --hardware m4-max-40 --context 128k --users 64 --offload 200G --json >"$work/plan.json"
[ "$(key "$work/plan.json" '(len(j["rows"]), j["ruled_out"][0]["reason"])')" = "(0, \"llama.cpp keeps no caches in the host's memory\")" ] &&
    pass "nor an engine that keeps none there" || fail "nor an engine that keeps none there"
"$pith" hardware l4 --json | python3 -c 'import json, sys
print(json.dumps(dict(json.load(sys.stdin), host=0)))' >"$work/own.json"
"$pith" plan Llama-3.1-8B --hardware "$work/own.json" --for vllm --weights fp8 --offload 200G --json >"$work/plan.json"
[ "$(key "$work/plan.json" '(len(j["rows"]), "is the host" in j["ruled_out"][0]["reason"])')" = "(0, True)" ] && pass "nor a device without one" || fail "nor a device without one"
refuse "both at once" 2 "one of them at a time" "$pith" plan $probe --hardware l4 --prefill same --offload 1G
refuse "pools of nothing" 2 "on which --hardware" "$pith" plan $probe --prefill same
refuse "the host of nothing" 2 "on which --hardware" "$pith" plan $probe --offload 1G
refuse "a pool of nothing" 2 "prefill none-such: there are t4" "$pith" plan $probe --hardware l4 --prefill none-such
# Hardware of others, and the machine at hand.
"$pith" hardware l4 --json >"$work/l4.json"
"$pith" plan $probe --hardware "$work/l4.json" --json >"$work/mine.json"
"$pith" plan $probe --hardware l4 --json >"$work/plan.json"
cmp -s "$work/mine.json" "$work/plan.json" && pass "a file of hardware is as the table's row" || fail "a file of hardware"
# Its own shares of the peaks: half of the bandwidth takes twice as long.
reach() { # SHARE: seconds a token at that share of the bandwidth, and nothing a layer
    python3 -c 'import json, sys
print(json.dumps(dict(json.load(open(sys.argv[1])), memory_reached=float(sys.argv[2]), layer_seconds=1e-12)))' "$work/l4.json" "$1" >"$work/own.json"
    "$pith" plan Llama-3.1-8B --hardware "$work/own.json" --weights none --kv bf16 --json >"$work/plan.json"
    key "$work/plan.json" 'j["rows"][0]["token_seconds"]'
}
python3 -c "import sys; sys.exit(abs($(reach 0.4) / $(reach 0.8) - 2) > 1e-6)" && pass "shares of a file" || fail "shares of a file"
echo '{"hardware": "x", "bandwidth": 1e11, "f32": 1e12, "memory_reached": 1.5}' >"$work/bad.json"
refuse "more than the peak" 1 "cannot be reached" "$pith" plan $probe --hardware "$work/bad.json"
check "the machine at hand" "$pith" plan $probe --hardware this --weights none
check "the machine alone" "$pith" hardware this
"$pith" hardware this --threads 1 --weights int4:g128 --kv int8:token --json >"$work/this.json"
kernels='[k.get("grid") or k.get("cache") or k["rest"] for k in j["kernels"]]'
[ "$(key "$work/this.json" "$kernels")" = "['none', 'int4:g128', 'int8:token', 'layer']" ] && pass "its kernels" || fail "its kernels"
python3 -c 'import json, sys
j = json.load(open(sys.argv[1]))
for k in j["kernels"]:
    k["seconds"] = [2 * s for s in k["seconds"]]
json.dump(j, open(sys.argv[2], "w"))' "$work/this.json" "$work/slow.json"
taken() { # FILE: seconds a token
    "$pith" plan $probe --for pith --hardware "$1" --weights int4:g128 --kv int8:token --context 256 --json >"$work/plan.json"
    key "$work/plan.json" 'j["rows"][0]["token_seconds"]'
}
python3 -c "import sys; sys.exit(abs($(taken "$work/slow.json") / $(taken "$work/this.json") - 2) > 1e-6)" && pass "a plan adds them up" || fail "a plan adds them up"
echo '{"hardware": "x", "bandwidth": 1e11, "f32": 1e12, "kernels": [{"grid": "none", "rows": [1]}]}' >"$work/bad.json"
refuse "kernels without seconds" 1 '"kernels" are objects' "$pith" plan $probe --hardware "$work/bad.json"
refuse "kernels of nothing" 2 "no such format" "$pith" hardware this --weights x9
refuse "kernels of another machine" 2 "of the machine at hand" "$pith" hardware l4 --weights int4:g128
check "the table" "$pith" hardware --format csv
echo '{"hardware": "x", "bandwidth": -1}' >"$work/bad.json"
refuse "a file of nonsense" 1 "no amount" "$pith" plan $probe --hardware "$work/bad.json"
echo '[{"hardware": "x"}]' >"$work/bad.json"
refuse "a file of too little" 1 "are needed" "$pith" plan $probe --hardware "$work/bad.json"
refuse "hardware of nothing" 2 "there are t4" "$pith" plan $probe --hardware none-such
refuse "a name of nothing" 2 "no such folder or file.*--shapes" "$pith" plan no-such-model
refuse "no model" 2 "MODEL" "$pith" plan
refuse "an engine of nothing" 2 "there are vllm" "$pith" plan $probe --for none-such
refuse "a grid of nothing" 2 "int4" "$pith" plan $probe --weights int44
refuse "a context beyond the model's" 2 "context is 512" "$pith" plan $probe --context 4k
refuse "a broken config" 1 "JSON" sh -c "echo '{' >'$work/bad.json'; '$pith' plan '$work/bad.json'"
# --- quantizing -----------------------------------------------------------------------------------
python3 tests/cli/mini.py "$work/mid" layers=2 hidden=320 ffn=512
some="--calib-tokens 2048 --seq-len 64"
"$pith" plan llama-3.1-8b --quantize gptq --hardware xeon-spr-56x3 --json >"$work/plan.json"
check "fewer hours on more machines, up to those there are" python3 -c '
import json, sys
j = json.load(open(sys.argv[1]))
rows = j["ranks"]["rows"]
assert [r["ranks"] for r in rows] == [1, 2, 3] and rows[0]["speedup"] == 1 and rows[0]["bytes_received_per_block"] == 0
assert rows[0]["seconds_expected"] > rows[1]["seconds_expected"] > rows[2]["seconds_expected"] > 0
assert 1e9 < j["memory_bytes"] < 8e9 and j["recipe"] == "gptq" and j["hardware"] == "xeon-spr-56" and j["tokens"] == 131072, j' "$work/plan.json"
"$pith" plan llama-3.1-8b --quantize gptq --hardware xeon-spr-56 | grep -q "a machine" && pass "quantizing is told of" || fail "quantizing is not told of"
refuse "a GPU does not quantize" 1 "pith quantizes on CPUs" "$pith" plan llama-3.1-8b --quantize gptq --hardware l4
cat >"$work/near.py" <<'PYTHON'
import json, sys
rehearsal, plan = (json.load(open(f))["ranks"] for f in sys.argv[1:3])
assert rehearsal["link"] == plan["link"] and [r["ranks"] for r in plan["rows"]] == [1, 2, 4, 8]
for a, b in list(zip(rehearsal["rows"], plan["rows"]))[1:]:
    assert abs(b["bytes_received_per_block"] / a["bytes_received_per_block"] - 1) <= 0.01, (a, b)
    assert abs(b["link"] / a["link"] - 1) < 0.01, (a, b)
PYTHON
near() { # MODEL RECIPE: what machines receive is what a rehearsal says
    # shellcheck disable=SC2086
    "$pith" quantize "$1" -o "$work/never" -r "$2" $some --threads 1 --rehearse --json --link 1G,20 >"$work/rehearsal.json" 2>/dev/null || fail "a rehearsal of $2"
    # shellcheck disable=SC2086
    "$pith" plan "$1/config.json" --quantize "$2" --hardware xeon-spr-56x8 $some --link 1G,20 --json >"$work/plan.json" || fail "--quantize $2"
    check "${1##*/}, ${2##*/}: what machines receive, as a rehearsal says" python3 "$work/near.py" "$work/rehearsal.json" "$work/plan.json"
}
python3 tests/cli/mini.py "$work/experts" qwen3_moe layers=1 hidden=128 ffn=256
for recipe in gptq awq fp8-static; do near "$work/mid" "$recipe"; done
for recipe in rtn gptq; do near "$work/experts" "$recipe"; done
# Times of one machine beside gptq's, as a thread took them (user time; docs/planning.md).
"$pith" hardware xeon-spr-56 --json | python3 -c 'import json, sys; j = json.load(sys.stdin); j.update(hardware="thread", f32=1.65e11); json.dump(j, sys.stdout)' >"$work/thread.json"
python3 tests/cli/mini.py "$work/held" layers=2 hidden=768 ffn=2048
python3 tests/cli/mini.py "$work/heldmoe" qwen3_moe layers=2 hidden=768 ffn=512
cat >"$work/beside.py" <<'PYTHON'
import json, sys
one, other = (json.load(open(f))["ranks"]["rows"][0]["seconds_expected"] for f in sys.argv[1:3])
assert abs(other / one / float(sys.argv[3]) - 1) < 0.13, (one, other)
PYTHON
for row in "held awq 5.81" "heldmoe awq 5.30" "held smoothquant 1.202" "held sparsegpt 1.290" "held wanda 0.554" "heldmoe smoothquant 1.319" "heldmoe sparsegpt 1.352" "heldmoe wanda 0.698"; do
    # shellcheck disable=SC2086
    set -- $row
    for recipe in gptq "$2"; do
        "$pith" plan "$work/$1/config.json" --quantize "$recipe" --hardware "$work/thread.json" --calib-tokens 1024 --seq-len 256 --json >"$work/$recipe.told" || fail "--quantize $recipe"
    done
    check "$1, $2: told beside gptq as it took" python3 "$work/beside.py" "$work/gptq.told" "$work/$2.told" "$3"
done
hours() { "$pith" plan llama-3.1-8b --quantize "$1" --hardware xeon-spr-56x4 --link 100G --json; }
for recipe in rtn gptq awq guided qep autoround squeezellm imatrix; do
    hours $recipe >"$work/plan.json" || fail "--quantize $recipe"
    check "$recipe: hours on 1 to 4 machines" python3 -c '
import json, sys
rows = json.load(open(sys.argv[1]))["ranks"]["rows"]
assert len(rows) == 3 and rows[0]["speedup"] == 1 and 10 < rows[0]["seconds_expected"] < 1e6, rows
assert rows[2]["seconds_expected"] < rows[1]["seconds_expected"] < rows[0]["seconds_expected"], rows' "$work/plan.json"
done
refuse "no estimate of trellis codes" 1 "no estimate" "$pith" plan llama-3.1-8b --quantize exl3 --hardware xeon-spr-56
refuse "more machines than there are ranks" 2 "64 machines" "$pith" plan llama-3.1-8b --quantize gptq --hardware xeon-spr-56x65
refuse "no window" 2 "no window" "$pith" plan llama-3.1-8b --quantize gptq --hardware xeon-spr-56 --calib-tokens 100
refuse "no hardware" 2 "one --hardware" "$pith" plan llama-3.1-8b --quantize gptq
refuse "a link alone" 2 "without --quantize" "$pith" plan llama-3.1-8b --link 10G
refuse "users who quantize" 2 "does nothing with --quantize" "$pith" plan llama-3.1-8b --quantize gptq --hardware xeon-spr-56 --users 4
finish
