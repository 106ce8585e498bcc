#!/bin/sh
# The whole loop on architectures that differ from Llama: names, norms, positions, biases. Eight bits change the
# loss little, the account holds, and a rotation of the stream is refused where it would change the model.
set -u
. tests/cli/lib.sh

# loss FOLDER: of the text, in nats.
loss() {
    "$pith" eval "$1" --text "$work/text" --context 64 --max-tokens 512 --json 2>/dev/null | grep -m1 '"nll"' | tr -dc '0-9.'
}
for case in gpt_neox opt opt_post gemma3 olmo2 cohere2 granite qwen3_vl lfm2 granitemoehybrid_bias; do
    rm -rf "$work/m" "$work/o" "$work/g"
    python3 tests/cli/arch_case.py $case "$work/m" "$work/text"
    check "$case: rtn" "$pith" quantize "$work/m" -o "$work/o" -r rtn --weights int8:channel \
        --container compressed-tensors --quiet
    check "$case: gptq" "$pith" quantize "$work/m" -o "$work/g" -r gptq --weights int8:channel --container compressed-tensors \
        --calib "$work/text" --calib-tokens 256 --seq-len 64 --quiet
    for made in o g; do
        check "$case: verify $made" "$pith" verify "$work/$made" --against "$work/m"
        was=$(loss "$work/m") is=$(loss "$work/$made")
        check "$case: loss $was, $is" python3 -c "import sys; a, b = map(float, sys.argv[1:]); assert abs(a - b) < 0.05" \
            "$was" "$is"
    done
    case $case in
    granite | qwen3_vl | lfm2 | granitemoehybrid_bias) check "$case: rotated" "$pith" quantize "$work/m" -o "$work/r$case" -r rtn --weights int8:channel \
        --container compressed-tensors --transform rotate:folded --quiet ;;
    *) refuse "$case: rotated" 1 "cannot be rotated" "$pith" quantize "$work/m" -o "$work/r" -r rtn --weights int8:channel \
        --container compressed-tensors --transform rotate:folded --quiet ;;
    esac
done

# Experts, latents and hybrids by the rounders that look at inputs.
for case in mixtral gpt_oss deepseek_v3 qwen3_next lfm2_moe granitemoehybrid; do
    rm -rf "$work/m" "$work/g"
    python3 tests/cli/arch_case.py $case "$work/m" "$work/text"
    check "$case: gptq" "$pith" quantize "$work/m" -o "$work/g" -r gptq --weights int8:channel --container compressed-tensors \
        --calib "$work/text" --calib-tokens 256 --seq-len 64 --quiet
    check "$case: verify" "$pith" verify "$work/g" --against "$work/m"
    was=$(loss "$work/m") is=$(loss "$work/g")
    check "$case: loss $was, $is" python3 -c "import sys; a, b = map(float, sys.argv[1:]); assert abs(a - b) < 0.05" "$was" "$is"
done

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
finish
