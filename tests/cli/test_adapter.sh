#!/bin/sh
# LoRA adapters: merged first, the same as merging, saving and quantizing; recorded; a run goes on with its own alone.
set -u
. tests/cli/lib.sh
mini=$work/mini
python3 tests/cli/mini.py "$mini" layers=2
python3 tests/cli/adapter.py make "$work/lora" 1
python3 tests/cli/adapter.py make "$work/other" 2

make() { # OUT OPTIONS...
    out=$1
    shift
    "$pith" quantize "$mini" -o "$out" --quiet -r gptq --weights int4:g32 --container compressed-tensors --calib-tokens 256 \
        --seq-len 64 "$@"
}
check "a model of 16 bits with the adapter" "$pith" convert "$mini" --adapter "$work/lora" -o "$work/merged" --quiet
check "its numbers" python3 tests/cli/adapter.py compare "$mini" "$work/lora" "$work/merged"
check "it verifies" "$pith" verify "$work/merged" --against "$mini" --adapter "$work/lora"
check "quantized" make "$work/out" --adapter "$work/lora" --threads 1
check "by three threads" make "$work/out-3" --adapter "$work/lora" --threads 3
same_model "the same bytes" "$work/out" "$work/out-3"
check "merged, then quantized" "$pith" quantize "$work/merged" -o "$work/two" --quiet -r gptq --weights int4:g32 \
    --container compressed-tensors --calib-tokens 256 --seq-len 64
check "the same weights" cmp "$work/out/model.safetensors" "$work/two/model.safetensors"
check "pith.json tells" python3 -c "
import json, sys
a = json.load(open(sys.argv[1]))['adapter']
assert a['type'] == 'lora' and a['tensors'] == 4 and a['rank'] == 4 and a['alpha'] == 6 and len(a['sha256']) == 64, a" "$work/out/pith.json"
check "verifies against original and adapter" "$pith" verify "$work/out" --against "$mini" --adapter "$work/lora"
check "verifies against the merged model" "$pith" verify "$work/two" --against "$work/merged"
refuse_verify() { # NAME PATTERN OPTIONS...
    name=$1
    pattern=$2
    shift 2
    if "$pith" verify "$@" >"$work/stdout" 2>"$work/stderr"; then fail "$name: verified"
    elif grep -qE -e "$pattern" "$work/stdout"; then pass "$name"
    else fail "$name: $(cat "$work/stdout")"; fi
}
refuse_verify "the original alone is not it" "an adapter was merged" "$work/out" --against "$mini"
refuse_verify "another adapter is not it" "another adapter" "$work/out" --against "$mini" --adapter "$work/other"
refuse_verify "no adapter was merged" "no adapter was merged" "$work/two" --against "$work/merged" --adapter "$work/lora"
[ -z "$(find "$work" -name '.pith-*')" ] && pass "nothing is left" || fail "files are left"

# A file of llama.cpp's, of 16 bits and quantized.
check "a GGUF file" "$pith" convert "$mini" --adapter "$work/lora" -o "$work/m.gguf" --quiet
check "it verifies" "$pith" verify "$work/m.gguf" --against "$mini" --adapter "$work/lora"

if faulty; then
    (FAULT=kill:2 FAULT_AT=journal LD_PRELOAD=$faulty make "$work/again" --adapter "$work/lora") 2>"$work/stderr"
    if [ -d "$work/again.partial" ]; then pass "killed on the way"; else fail "killed on the way"; fi
    refuse "another adapter does not go on" 1 "another|belongs|different" make "$work/again" --adapter "$work/other" --resume
    refuse "none does not go on" 1 "another|belongs|different" make "$work/again" --resume
    check "resumed" make "$work/again" --adapter "$work/lora" --resume
    same_model "resumed to the same bytes" "$work/out" "$work/again"
else
    skip "killed and resumed" "a library cannot be loaded before the program"
fi

# --- what is refused ------------------------------------------------------------------------------
refuse "no such folder" 1 "no adapter_config.json" make "$work/no" --adapter "$work/none"
cp -r "$work/lora" "$work/bad"
sed -i 's/"r": 4/"r": 8/' "$work/bad/adapter_config.json"
refuse "another rank" 1 "has rank 4" make "$work/no" --adapter "$work/bad"
refuse "a quantized model" 1 "quantized already" "$pith" quantize "$work/two" --adapter "$work/lora" -o "$work/no" --quiet
refuse "a file of llama.cpp's" 1 "is a GGUF file" "$pith" convert "$work/m.gguf" --adapter "$work/lora" -o "$work/no" \
    --container gptq --quiet
refuse "of another model" 1 "changes no matrix|not for a matrix" "$pith" quantize "$probe" --adapter "$work/lora" -o "$work/no" --quiet -r rtn
finish
