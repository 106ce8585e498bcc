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
        if faulty; then
            # shellcheck disable=SC2086
            FAULT=kill:12 LD_PRELOAD=$faulty "$pith" quantize "$model" -o "$work/out" $job 2>/dev/null
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

# Others quantize what stands beside the layers too: bytes by row.
check "all but what is beside the layers in bytes" "$pith" quantize "$work/gemma4_text" -o "$work/q8" -r rtn --weights int8:channel \
    --container compressed-tensors --quiet
python3 - "$work/q8" <<'PY'
import array, json, os, struct, sys
path, name = os.path.join(sys.argv[1], "model.safetensors"), "model.per_layer_model_projection"
data = open(path, "rb").read()
size = struct.unpack("<Q", data[:8])[0]
head, body = json.loads(data[8:8 + size]), bytearray(data[8 + size:])
t = head.pop(name + ".weight")
rows, cols = t["shape"]
a, b = t["data_offsets"]
w = array.array("f", struct.unpack(f"<{rows * cols}f", b"".join(b"\0\0" + body[i:i + 2] for i in range(a, b, 2))))
codes, scales = bytearray(), bytearray()
for r in range(rows):
    row = w[r * cols:(r + 1) * cols]
    scale = struct.pack("<f", max(map(abs, row)) / 127)[2:]
    s = struct.unpack("<f", b"\0\0" + scale)[0]
    codes += bytes(128 + max(-128, min(127, round(x / s))) for x in row)
    scales += scale
for end, dtype, shape, new in ((".weight_packed", "I32", [rows, cols // 4], codes), (".weight_scale", "BF16", [rows, 1], scales),
                               (".weight_shape", "I64", [2], struct.pack("<2q", rows, cols))):
    head[name + end] = {"dtype": dtype, "shape": shape, "data_offsets": [len(body), len(body) + len(new)]}
    body += new
ends = sorted((e["data_offsets"], k) for k, e in head.items() if k != "__metadata__")
packed = bytearray()
for (a, b), k in ends:
    head[k]["data_offsets"] = [len(packed), len(packed) + b - a]
    packed += body[a:b]
text = json.dumps(head).encode()
text += b" " * (-len(text) % 8)
open(path, "wb").write(struct.pack("<Q", len(text)) + text + packed)
path = os.path.join(sys.argv[1], "config.json")
config = json.load(open(path))
config["quantization_config"]["ignore"].remove(name)
json.dump(config, open(path, "w"))
PY
# shellcheck disable=SC2086
"$pith" eval "$work/q8" --baseline "$work/gemma4_text" $score >"$work/json" 2>"$work/stderr"
check "quantized tables beside the layers are read" python3 -c "
import json
kl = json.load(open('$work/json'))['kld_mean']
assert 0 < kl < 0.1, kl"
exit $failed
