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

# The bytes of tensors that pith quantize writes, of several containers, are those foretold to 0.1%.
for recipe in fp8 w8a16 gptq awq nvfp4; do
    "$pith" quantize $probe -o "$work/$recipe" -r $recipe --quiet --calib-tokens 512 >/dev/null
    "$pith" plan $probe --weights $recipe --kv bf16 --for vllm --json >"$work/plan.json"
    made=$(python3 -c 'import json, struct, sys
f = open(sys.argv[1] + "/model.safetensors", "rb")
h = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
print(sum(t["data_offsets"][1] - t["data_offsets"][0] for n, t in h.items() if n != "__metadata__"))' "$work/$recipe")
    told=$(key "$work/plan.json" 'int(j["rows"][0]["weight_bytes"])')
    if python3 -c "import sys; sys.exit(abs($told / $made - 1) > 0.001)"; then pass "$recipe: $told bytes foretold"
    else fail "$recipe: $told bytes foretold, $made made"; fi
done
for recipe in q4_k_m q8_0; do
    "$pith" quantize $probe -o "$work/$recipe.gguf" -r $recipe --quiet --calib-tokens 512 >/dev/null
    "$pith" plan $probe --weights $recipe --kv bf16 --for llama.cpp --json >"$work/plan.json"
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
refuse "a name of nothing" 2 "no such folder or file.*--shapes" "$pith" plan no-such-model
refuse "no model" 2 "MODEL" "$pith" plan
refuse "an engine of nothing" 2 "there are vllm" "$pith" plan $probe --for none-such
refuse "a grid of nothing" 2 "int4" "$pith" plan $probe --weights int44
refuse "a context beyond the model's" 2 "context is 512" "$pith" plan $probe --context 4k
refuse "a broken config" 1 "JSON" sh -c "echo '{' >'$work/bad.json'; '$pith' plan '$work/bad.json'"
finish
