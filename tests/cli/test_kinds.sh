#!/bin/sh
# What is not plain attention goes the whole way: a small model with latents (and a layer more, that predicts
# further tokens) and one with recurrent states are quantized, verified, measured, killed and resumed.
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

kinds="deepseek_v3 qwen3_next"
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
check "they are read again" "$pith" eval "$work/kv" --text "$probe/eval.txt" --context 64 --max-tokens 128
exit $failed
