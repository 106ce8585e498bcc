#!/bin/sh
# What each rule of --experts costs: KL against the original of GPTQ at int4 and int3, by text and seed.
#
#     bench/experts.sh [MODEL] [SEEDS] [CALIB-TOKENS]     (models/probe-moe 3 32768)
set -eu
model=${1:-models/probe-moe}
seeds=${2:-3}
tokens=${3:-32768}
pith=${PITH:-build/pith}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
texts="models/probe/eval.txt models/probe-moe/rare/notation.txt models/probe-moe/rare/knitting.txt models/probe-moe/rare/italian.txt"
printf '| grid | rule | seed |'
for t in $texts; do printf ' %s |' "$(basename "$t" .txt)"; done
printf '\n'
for grid in int4:g128 int3:g128; do
    for rule in pooled routed all; do
        for seed in $(seq "$seeds"); do
            rm -rf "$work/out"
            "$pith" quantize "$model" -o "$work/out" --quiet -r gptq --container compressed-tensors --weights "$grid" \
                --experts "$rule" --seed "$seed" --calib-tokens "$tokens"
            printf '| %s | %s | %s |' "$grid" "$rule" "$seed"
            for t in $texts; do
                "$pith" eval "$work/out" --baseline "$model" --text "$t" --context 256 --json 2>/dev/null |
                    sed -n 's/^ *"kld_mean": \([0-9.e-]*\).*/\1/p' | head -n 1 | xargs printf ' %.5f |'
            done
            printf '\n'
        done
    done
done
