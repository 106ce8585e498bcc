#!/bin/sh
# make demo: quantizes the model that ships in several ways, verifies each result, and shows in one table
# what each cost; then lets each continue the same text. Everything it makes is in demo-out/.
set -eu
cd "$(dirname "$0")/.."
pith=${PITH:-build/pith}
probe=models/probe
out=demo-out
rm -rf "$out"
mkdir -p "$out"
start=$(date +%s)

make_one() { # name, options...
    name=$1
    shift
    printf '%-12s pith quantize %s -o %s %s\n' "$name" "$probe" "$out/$name" "$*"
    "$pith" quantize "$probe" -o "$out/$name" --quiet "$@"
    "$pith" verify "$out/$name" --against "$probe" --quiet
}

echo "Quantizing the probe (5.8 million parameters); each result is verified against the original."
echo
make_one w8-rtn -r rtn --weights int8:channel
make_one w4-rtn -r rtn --weights int4:g128
make_one w4-gptq -r gptq --weights int4:g128 --calib-tokens 24576
make_one w4-awq -r awq --weights int4:g128 --calib-tokens 24576
make_one w3-rtn -r rtn --weights int3:g128
make_one w3-gptq -r gptq --weights int3:g128 --calib-tokens 24576
make_one w3-awq -r awq --weights int3:g128 --container compressed-tensors --calib-tokens 24576
models="$probe $out/w8-rtn $out/w4-rtn $out/w4-gptq $out/w4-awq $out/w3-rtn $out/w3-gptq $out/w3-awq"

echo
echo "What each cost, on text that neither training nor calibration has seen:"
echo
# shellcheck disable=SC2086
"$pith" compare $models --text "$probe/eval.txt" --context 512 --max-tokens 8000 --quiet \
    --tasks "$probe/tasks/order.jsonl" --tasks "$probe/tasks/syntax.jsonl" \
    --tasks "$probe/tasks/arithmetic.jsonl" --task-limit 40 -o "$out/report.html"
echo
echo "KL: divergence from the unquantized model, in nats a token. The page with charts: $out/report.html"
echo
prompt="Once upon a time there was a little girl who"
echo "The same text continued by each:"
for m in $models; do
    printf '%-12s ' "$(basename "$m")"
    "$pith" run "$m" -p "$prompt" -n 24 --quiet | tr '\n' ' '
    echo
done
echo
echo "done in $(($(date +%s) - start)) seconds"
