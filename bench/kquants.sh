#!/bin/sh
# GGUF's types: pith's files beside those of llama.cpp's quantizer with an importance matrix from the same
# calibration text, at equal size. One table in Markdown; docs/measuring.md has the figures of this version.
#
# Usage: bench/kquants.sh [options] BIN TEXT...
#   BIN         llama.cpp's programs: llama-imatrix, llama-quantize, and with -p llama-perplexity
#   -m MODEL    the checkpoint (models/probe)
#   -w TYPES    "q4_k q3_k"
#   -r RECIPES  "rtn gptq"
#   -c FILE     calibration text (src/calib/builtin.txt, the one that ships)
#   -n TOKENS   calibration tokens, a multiple of 512 (65536)
#   -t THREADS  (all CPUs)
#   -p          llama.cpp's own figures too: KL against the unquantized file, in its arithmetic
# PITH names the program. Every linear has the one type, the embedding Q6_K on both sides: files differ in
# metadata alone. Windows are of 512 tokens in the gptq convention.
set -eu
pith=${PITH:-build/pith}
model=models/probe
types="q4_k q3_k"
recipes="rtn gptq"
calib=src/calib/builtin.txt
tokens=65536
threads=$(nproc)
peer=no
while getopts m:w:r:c:n:t:p o; do
    case $o in
    m) model=$OPTARG ;;
    w) types=$OPTARG ;;
    r) recipes=$OPTARG ;;
    c) calib=$OPTARG ;;
    n) tokens=$OPTARG ;;
    t) threads=$OPTARG ;;
    p) peer=yes ;;
    *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))
[ $# -gt 1 ] || { echo "usage: $0 [options] BIN TEXT..." >&2; exit 2; }
bin=$1
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

run() { # a program that says why when it fails
    "$@" >"$work/log" 2>&1 || { tail -n 5 "$work/log" >&2; exit 1; }
}

# llama-quantize's name of the mixture whose base type this is.
mixture() {
    case $1 in
    q3_k | q4_k | q5_k) echo "${1}_s" ;;
    *) echo "$1" ;;
    esac | tr a-z A-Z
}

# One row: who made it, the file, and what it lost on each text.
row() { # name, file
    printf '| %s | %s |' "$1" "$(wc -c <"$2")"
    shift 1
    file=$1
    for text in $texts; do
        "$pith" eval "$file" --baseline "$model" --text "$text" --context 512 -t "$threads" --json 2>/dev/null |
            tr -d ' ,"' | awk -F: '$1 == "kld_mean" && !kl { kl = $2 } $1 == "top1_agreement" && !top { top = $2 }
                END { printf " %.6f | %.2f |", kl, 100 * top }'
        [ "$peer" = no ] || printf ' %s |' "$("$bin/llama-perplexity" -m "$file" -c 512 -t "$threads" \
            --kl-divergence --kl-divergence-base "$work/$(basename "$text").base" 2>/dev/null |
            awk '$1 == "Mean" && $2 == "KLD:" { print $3 }')"
    done
    echo
}

texts=$*
run "$pith" convert "$model" -o "$work/whole.gguf"
run "$bin/llama-imatrix" -m "$work/whole.gguf" -f "$calib" -o "$work/imatrix.gguf" -c 512 \
    --chunks $((tokens / 512)) -t "$threads"
head='| type | by | bytes |' rule='| --- | --- | ---: |'
for text in $texts; do
    head="$head KL, $(basename "$text") | same top token, % |" rule="$rule ---: | ---: |"
    [ "$peer" = no ] || {
        run "$bin/llama-perplexity" -m "$work/whole.gguf" -f "$text" -c 512 -t "$threads" \
            --kl-divergence-base "$work/$(basename "$text").base"
        head="$head by llama-perplexity |" rule="$rule ---: |"
    }
done
echo "$head"
echo "$rule"
for type in $types; do
    run "$bin/llama-quantize" --pure --token-embedding-type q6_k "$work/whole.gguf" "$work/peer.gguf" \
        "$(mixture "$type")" "$threads"
    row "$type | llama-quantize" "$work/peer.gguf"
    run "$bin/llama-quantize" --pure --token-embedding-type q6_k --imatrix "$work/imatrix.gguf" \
        "$work/whole.gguf" "$work/peer.gguf" "$(mixture "$type")" "$threads"
    row "$type | llama-quantize, importance matrix" "$work/peer.gguf"
    for recipe in $recipes; do
        name=$recipe
        set -- -r "$recipe"
        [ "$recipe" != weighted ] || set -- -r rtn --round weighted
        [ "$recipe" = rtn ] || set -- "$@" --calib "$calib" --calib-tokens "$tokens"
        run "$pith" quantize "$model" -o "$work/ours.gguf" "$@" --weights "$type" --container gguf -t "$threads"
        row "$type | pith, $name" "$work/ours.gguf"
        rm -rf "$work/ours.gguf"
    done
done
