#!/bin/sh
# What is not plain attention goes the whole way: a small model with latents (and a layer more, that predicts
# further tokens), one with recurrent states and one whose layers share keys and values and are told of tokens
# are quantized, verified, measured, killed and resumed.
set -u
. tests/cli/lib.sh
calib="--calib $probe/eval.txt --calib-tokens 256 --seq-len 64 --quiet"
echo '{"base": "autoround", "iterations": 10, "batch": 2}' >"$work/learned.json"
score="--text $probe/eval.txt --context 64 --max-tokens 256 --json"

# made NAME MODEL OPTIONS...: the model is quantized, the result is as it was meant, near the model it comes from.
made() {
    way=$1
    model=$2
    shift 2
    rm -rf "$work/out"
    check "$way" "$pith" quantize "$model" -o "$work/out" --quiet "$@"
    check "$way: verify" "$pith" verify "$work/out" --against "$model"
    # shellcheck disable=SC2086
    "$pith" eval "$work/out" --baseline "$model" $score >"$work/json" 2>"$work/stderr"
    check "$way: near the original" python3 -c "
import json
kl = json.load(open('$work/json'))['kld_mean']
assert 0 < kl < 0.3, kl"
}

kinds="deepseek_v3 qwen3_next gemma4_text"
thorough && kinds="$kinds lfm2_moe granitemoehybrid"
thorough && killed="gptq $work/learned.json" || killed=gptq
for kind in $kinds; do
    model=$work/$kind
    python3 tests/cli/kinds_model.py $kind "$probe" "$model" dense
    made "$kind: rtn" "$model" -r rtn
    # shellcheck disable=SC2086
    made "$kind: gptq" "$model" -r gptq --container compressed-tensors $calib
    mv "$work/out" "$work/whole"
    # shellcheck disable=SC2086
    made "$kind: awq" "$model" -r awq $calib
    made "$kind: blocks of FP8" "$model" -r fp8-block --container fp8
    check "$kind: tokens one by one" "$pith" run "$model" -p "Once upon" -n 4
    check "$kind: a task" "$pith" eval "$model" --tasks "$probe/tasks/order.jsonl" --task-limit 8

    # shellcheck disable=SC2086
    made "$kind: learned" "$model" -r "$work/learned.json" $calib

    # Killed half way, then resumed: the same bytes.
    for recipe in $killed; do
        job="--quiet -r $recipe --container compressed-tensors $calib"
        # shellcheck disable=SC2086
        [ -d "$work/whole" ] || "$pith" quantize "$model" -o "$work/whole" $job || fail "$kind: undisturbed"
        rm -rf "$work/out"
        if ${CC:-cc} -O1 -shared -fPIC -o "$work/faulty.so" tests/cli/faulty.c -ldl 2>"$work/stderr"; then
            # shellcheck disable=SC2086
            FAULT=kill:12 LD_PRELOAD=$work/faulty.so "$pith" quantize "$model" -o "$work/out" $job 2>/dev/null
            # shellcheck disable=SC2086
            check "$kind: resumed" "$pith" quantize "$model" -o "$work/out" $job --resume
            check "$kind: the same bytes" cmp "$work/whole/model.safetensors" "$work/out/model.safetensors"
        fi
        rm -rf "$work/whole"
    done
done

# A cache's format is one of keys and values: there are none in a latent, and only in some layers of the other.
# shellcheck disable=SC2086
refuse "no format for latents" 1 "keeps latents" "$pith" quantize "$work/deepseek_v3" -o "$work/kv" -r gptq \
    --container compressed-tensors --kv fp8_e4m3 $calib
# shellcheck disable=SC2086
check "formats of those layers that have keys" "$pith" quantize "$work/qwen3_next" -o "$work/kv" -r gptq \
    --container compressed-tensors --kv fp8_e4m3 $calib
check "scales of layer 1 alone" python3 -c "
import json, struct
d = open('$work/kv/model.safetensors', 'rb').read()
names = [k for k in json.loads(d[8:8 + struct.unpack('<Q', d[:8])[0]]) if k.endswith(('k_scale', 'v_scale'))]
assert sorted(names) == ['model.layers.1.self_attn.k_scale', 'model.layers.1.self_attn.v_scale'], names"
# shellcheck disable=SC2086
check "formats of layers that share none" "$pith" quantize "$work/gemma4_text" -o "$work/kv4" -r gptq \
    --container compressed-tensors --kv fp8_e4m3 $calib
check "scales of two layers; what nobody reads is left out; matrices beside the layers are named" python3 -c "
import json, struct
d = open('$work/kv4/model.safetensors', 'rb').read()
names = list(json.loads(d[8:8 + struct.unpack('<Q', d[:8])[0]]))
assert sorted({n.split('.')[2] for n in names if n.endswith(('k_scale', 'v_scale'))}) == ['0', '1'], names
shared = [n for n in names if n.startswith(('model.layers.2', 'model.layers.3'))]
assert not any('k_' in n.split('self_attn.')[-1] or 'v_proj' in n for n in shared if 'self_attn' in n), shared
account = json.load(open('$work/kv4/pith.json'))
assert account['left_out']['model.layers.3.self_attn.k_proj.weight'] == 'not read', account['left_out']
q = json.load(open('$work/kv4/config.json'))['quantization_config']
assert 'model.per_layer_model_projection' in q['ignore'], q['ignore']
assert 'model.per_layer_model_projection.weight' in names and 'model.layers.3.per_layer_projection.weight_packed' in names"
check "and verified" "$pith" verify "$work/kv4" --against "$work/gemma4_text"
check "and read again" "$pith" eval "$work/kv4" --text "$probe/eval.txt" --context 64 --max-tokens 128
check "they are read again" "$pith" eval "$work/kv" --text "$probe/eval.txt" --context 64 --max-tokens 128
exit $failed
