#!/bin/sh
# The whole loop on architectures that differ from Llama: names, norms, positions, biases. Eight bits change the
# loss little, the account holds, and a rotation of the stream is refused where it would change the model; smoothrot then
# smooths.
set -u
. tests/cli/lib.sh

# loss FOLDER: of the text, in nats.
loss() {
    "$pith" eval "$1" --text "$work/text" --context 64 --max-tokens 512 --json 2>/dev/null | grep -m1 '"nll"' | tr -dc '0-9.'
}
near() { # NAME LOSS LOSS MOST
    check "$1: loss $2, $3" awk -v a="$2" -v b="$3" -v most="$4" 'BEGIN { d = a - b; exit !(a > 0 && b > 0 && d < most && -d < most) }'
}
cases="gpt_neox gpt2 opt gemma3 gemma4_small_vl cohere2 qwen3_vl"
thorough && cases="$cases opt_post gemma4_old gemma4_small gemma4_shared olmo2 granite lfm2 granitemoehybrid_bias"
for case in $cases; do
    rm -rf "$work/m" "$work/o" "$work/g"
    python3 tests/cli/arch_case.py $case "$work/m" "$work/text"
    check "$case: rtn" "$pith" quantize "$work/m" -o "$work/o" -r rtn --weights int8:channel \
        --container compressed-tensors --quiet
    check "$case: gptq" "$pith" quantize "$work/m" -o "$work/g" -r gptq --weights int8:channel --container compressed-tensors \
        --calib "$work/text" --calib-tokens 256 --seq-len 64 --quiet
    was=$(loss "$work/m")
    for made in o g; do
        check "$case: verify $made" "$pith" verify "$work/$made" --against "$work/m"
        near "$case" "$was" "$(loss "$work/$made")" 0.05
    done
    case $case in
    granite | qwen3_vl | lfm2 | granitemoehybrid_bias) check "$case: rotated" "$pith" quantize "$work/m" -o "$work/r$case" -r rtn --weights int8:channel \
        --container compressed-tensors --transform rotate:folded --quiet ;;
    *) refuse "$case: rotated" 1 "cannot be rotated" "$pith" quantize "$work/m" -o "$work/r" -r rtn --weights int8:channel \
        --container compressed-tensors --transform rotate:folded --quiet ;;
    esac
    rm -rf "$work/g"
    check "$case: rotated and smoothed" "$pith" quantize "$work/m" -o "$work/g" -r smoothrot-online \
        --calib "$work/text" --calib-tokens 256 --seq-len 64 --quiet
    check "$case: verify what is smoothed" "$pith" verify "$work/g" --against "$work/m"
    near "$case, smoothed" "$was" "$(loss "$work/g")" 0.05
done

# Experts, latents and hybrids by the rounders that look at inputs.
cases="gpt_oss qwen3_next lfm2_moe"
thorough && cases="$cases mixtral deepseek_v3 granitemoehybrid gemma4_moe"
for case in $cases; do
    rm -rf "$work/m" "$work/g"
    python3 tests/cli/arch_case.py $case "$work/m" "$work/text"
    [ $case = gemma4_moe ] && grid=int8:g4 || grid=int8:channel # random experts of random rows: scales of few weights
    check "$case: gptq" "$pith" quantize "$work/m" -o "$work/g" -r gptq --weights $grid --container compressed-tensors \
        --calib "$work/text" --calib-tokens 2048 --seq-len 64 --quiet
    check "$case: verify" "$pith" verify "$work/g" --against "$work/m"
    near "$case" "$(loss "$work/m")" "$(loss "$work/g")" 0.05
    case $case in deepseek_v3 | gemma4_moe) continue ;; esac # other experts are taken
    rm -rf "$work/g"
    check "$case: rotated and smoothed" "$pith" quantize "$work/m" -o "$work/g" -r smoothrot-online \
        --calib "$work/text" --calib-tokens 256 --seq-len 64 --quiet
    check "$case: verify what is smoothed" "$pith" verify "$work/g" --against "$work/m"
    near "$case, smoothed" "$(loss "$work/m")" "$(loss "$work/g")" 0.05
    [ $case = gpt_oss ] && continue # its experts have a clamp that no rotation goes through: nothing is rotated at run time
    refuse "$case: not by vLLM" 1 "does not rotate" "$pith" quantize "$work/m" -o "$work/v" -r smoothrot-online --for vllm \
        --calib "$work/text" --calib-tokens 256 --seq-len 64 --quiet
    check "$case: nor what was made" sh -c '"$0" verify "$1" --for vllm | grep -q "does not rotate"' "$pith" "$work/g"
done

# Matrices that are stored with rows and columns exchanged are written so again: copied, pruned, and old names.
rm -rf "$work/m"
python3 tests/cli/arch_case.py gpt2_old "$work/m" "$work/text"
check "exchanged: one stays" "$pith" quantize "$work/m" -o "$work/e1" -r rtn --weights int8:channel --container compressed-tensors \
    --ignore attn.c_proj --quiet
check "exchanged: pruned" "$pith" quantize "$work/m" -o "$work/e2" -r wanda --calib "$work/text" --calib-tokens 256 --seq-len 64 --quiet
check "exchanged: as FP8" "$pith" quantize "$work/m" -o "$work/e3" -r rtn --weights fp8_e4m3:channel --container compressed-tensors --quiet
for made in e1 e2 e3; do
    check "exchanged: verify $made" "$pith" verify "$work/$made" --against "$work/m"
done
was=$(loss "$work/m")
for made in e1 e3; do
    near "exchanged" "$was" "$(loss "$work/$made")" 0.2
done
check "exchanged: shapes and zeros" python3 - "$work/m" "$work/e1" "$work/e2" <<'PY'
import array, json, os, struct, sys
def tensors(folder):
    data = open(os.path.join(folder, "model.safetensors"), "rb").read()
    size = struct.unpack("<Q", data[:8])[0]
    return {k: (t["shape"], data[8 + size + t["data_offsets"][0]:8 + size + t["data_offsets"][1]])
            for k, t in json.loads(data[8:8 + size]).items() if k != "__metadata__"}
was, kept, pruned = map(tensors, sys.argv[1:])
assert kept["h.0.attn.c_proj.weight"] == was["h.0.attn.c_proj.weight"]
for name in ("h.0.attn.c_attn.weight", "h.1.mlp.c_proj.weight", "h.1.attn.c_proj.weight"):
    (rows, cols), data = pruned[name]
    assert [rows, cols] == was[name][0], name
    v, w = array.array("f", data), array.array("f", was[name][1])
    assert all(x in (0, y) for x, y in zip(v, w)), name
    for c in range(cols):
        column = v[c::cols]
        assert all(sum(x == 0 for x in column[i:i + 4]) >= 2 for i in range(0, rows, 4)), name
PY

# Experts in one tensor, rows and columns exchanged: published files of Qwen3-VL have it so.
rm -rf "$work/m"
python3 tests/cli/arch_case.py qwen3_vl_moe "$work/m" "$work/text"
cp -r "$work/m" "$work/t"
python3 - "$work/t/model.safetensors" <<'PY'
import array, json, struct, sys
data = open(sys.argv[1], "rb").read()
size = struct.unpack("<Q", data[:8])[0]
head, body = json.loads(data[8:8 + size]), bytearray(data[8 + size:])
for name, t in head.items():
    if not name.endswith(("experts.gate_up_proj", "experts.down_proj")):
        continue
    n, r, c = t["shape"]
    a, b = t["data_offsets"]
    v = array.array("f", body[a:b])
    body[a:b] = array.array("f", [v[(e * r + i) * c + j] for e in range(n) for j in range(c) for i in range(r)]).tobytes()
    t["shape"] = [n, c, r]
head = json.dumps(head).encode()
head += b" " * (-len(head) % 8)
open(sys.argv[1], "wb").write(struct.pack("<Q", len(head)) + head + body)
PY
was=$(loss "$work/m") is=$(loss "$work/t")
[ -n "$was" ] && [ "$was" = "$is" ] && pass "experts in either order" || fail "experts in either order: $was, $is"
# LFM2 has a word of its own for a head that is the embedding.
python3 tests/cli/arch_case.py lfm2 "$work/tied" "$work/text" '{"config": {"tie_embedding": true}}' &&
    python3 tests/cli/byte_tokens.py "$work/tied" &&
    "$pith" quantize "$work/tied" -o "$work/untied" -r quarot-w4a16 --round nearest --weights int8:channel --quiet &&
    python3 -c "
import json
c = json.load(open('$work/untied/config.json'))
assert c['tie_embedding'] is False and c['tie_word_embeddings'] is False, c" &&
    pass "a head that is no longer the embedding, in LFM2's word too" || fail "a head that is no longer the embedding, in LFM2's word too"
finish
