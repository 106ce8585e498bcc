#!/bin/sh
# What a technique is worth: the KL divergence that each leaves, as a share of what rounding to nearest
# leaves on the same grid. One table in Markdown; docs/measuring.md has the figures of this version.
#
# Usage: bench/quality.sh [options] TEXT...
#   -m MODEL    the checkpoint (models/probe)
#   -g GRIDS    "int3:g128 int4:g128 int4:g128:asym"
#   -r RECIPES  held against rtn: "gptq awq awq+gptq"
#   -c FILE     calibration text (the one that ships)
#   -n TOKENS   calibration tokens (131072)
#   -e TOKENS   scored tokens of each text at most (all)
#   -t THREADS  (all CPUs)
# PITH names the program. Windows are of 512 tokens in the gptq convention.
set -eu
pith=${PITH:-build/pith}
model=models/probe
grids="int3:g128 int4:g128 int4:g128:asym"
recipes="gptq awq awq+gptq"
tokens=131072
calib='' most=0 threads=0
while getopts m:g:r:c:n:e:t: o; do
    case $o in
    m) model=$OPTARG ;;
    g) grids=$OPTARG ;;
    r) recipes=$OPTARG ;;
    c) calib=$OPTARG ;;
    n) tokens=$OPTARG ;;
    e) most=$OPTARG ;;
    t) threads=$OPTARG ;;
    *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || { echo "usage: $0 [options] TEXT..." >&2; exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

make_one() { # recipe, grid; leaves $work/recipe
    name=$1
    set -- -r "$1" --weights "$2" --calib-tokens "$tokens"
    [ -z "$calib" ] || set -- "$@" --calib "$calib"
    "$pith" quantize "$model" -o "$work/$name" "$@" --container compressed-tensors \
        --threads "$threads" --quiet
}

# The table of pith compare has five columns a text, KL the second of them, from the fourth column on.
rows='
NR == 1 { for (i = 4; i <= NF; i++) if ($i ~ /(^|: )KL$/) at[++texts] = i }
$1 == "rtn" { for (t = 1; t <= texts; t++) nearest[t] = $at[t] }
NR > 2 {
    printf "| %s | %s |", grid, $1
    for (t = 1; t <= texts; t++) printf " %s | %.3f |", $at[t], $at[t] / nearest[t]
    printf "\n"
}'

printf '| grid | recipe |'
for text; do printf ' KL, %s | of nearest |' "$(basename "$text")"; done
printf '\n| --- | --- |'
for text; do printf ' ---: | ---: |'; done
printf '\n'
for grid in $grids; do
    models=
    for recipe in rtn $recipes; do
        rm -rf "${work:?}/$recipe"
        make_one "$recipe" "$grid"
        models="$models $work/$recipe"
    done
    texts=
    for text; do texts="$texts --text $text"; done
    # shellcheck disable=SC2086
    "$pith" compare "$model" $models $texts --context 512 --max-tokens "$most" --threads "$threads" \
        --format csv --quiet | awk -F , -v grid="$grid" "$rows"
done
