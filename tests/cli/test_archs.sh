#!/bin/sh
# The whole loop on architectures that differ from Llama: names, norms, positions, biases. Eight bits change the
# loss little, the account holds, and a rotation of the stream is refused where it would change the model.
set -u
. tests/cli/lib.sh

# loss FOLDER: of the text, in nats.
loss() {
    "$pith" eval "$1" --text "$work/text" --context 64 --max-tokens 512 --json 2>/dev/null | grep -m1 '"nll"' | tr -dc '0-9.'
}
for case in gpt_neox opt gemma3 olmo2 cohere2 granite qwen3_vl; do
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
    granite | qwen3_vl) check "$case: rotated" "$pith" quantize "$work/m" -o "$work/r$case" -r rtn --weights int8:channel \
        --container compressed-tensors --transform rotate:folded --quiet ;;
    *) refuse "$case: rotated" 1 "cannot be rotated" "$pith" quantize "$work/m" -o "$work/r" -r rtn --weights int8:channel \
        --container compressed-tensors --transform rotate:folded --quiet ;;
    esac
done
finish
