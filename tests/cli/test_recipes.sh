#!/bin/sh
# What holds for one recipe and one container holds for all: whatever the tables list is made, verified, killed and gone
# on with, made again by other threads and instructions to the same bytes, kept within its estimate of memory, damaged
# and found out.
set -u
. tests/cli/lib.sh
mini=$work/mini
python3 tests/cli/mini.py "$mini" layers=2 hidden=128 ffn=256 kv_heads=4 # exl3 holds blocks of 128
few="--calib-tokens 256 --seq-len 64"

# names KEY: of the rows of `pith features`, or of the recipes.
names() {
    if [ "$1" = recipes ]; then "$pith" recipes --json; else "$pith" features --json; fi |
        python3 -c 'import json, sys
j = json.load(sys.stdin)
rows = j if isinstance(j, list) else j[sys.argv[1]]
print("\n".join(r.get("recipe") or r["name"] for r in rows))' "$1"
}

make() { # OUT OPTIONS...
    made=$1
    shift
    # shellcheck disable=SC2086
    "$pith" quantize "$mini" -o "$made" --quiet $few "$@"
}
grep -q __asan_init "$pith" && sanitized=0 || sanitized=1
within_estimate() { # OUT REHEARSAL: the memory that was used, against what was foretold
    [ "$sanitized" = 0 ] && return 0 # a sanitizer's own memory would be counted
    used=$(sed -n 's/.*"peak_memory_bytes": \([0-9]*\).*/\1/p' "$1/pith.json")
    said=$(sed -n 's/.*"memory_expected_bytes": \([0-9]*\).*/\1/p' "$2")
    echo "used $used, foretold $said" >&2
    [ "$used" -le "$said" ]
}
spoil() { # FILE: one byte in the middle of the tensors becomes another
    at=$(($(stat -c %s "$1") * 2 / 3))
    byte=$(od -An -tu1 -j "$at" -N 1 "$1")
    # shellcheck disable=SC2059
    printf "\\$(printf %o $((byte ^ 0x41)))" | dd of="$1" conv=notrunc bs=1 seek="$at" 2>/dev/null
}
damaged() { # NAME OUT: a changed byte and a lost end are found out
    file=$(ls "$2"/*.safetensors "$2"/*.gguf 2>/dev/null | head -n 1)
    cp "$file" "$work/kept"
    spoil "$file"
    "$pith" verify "$2" >"$work/stdout" 2>&1 && fail "$1: a changed byte is found out" || pass "$1: a changed byte is found out"
    head -c "$(($(wc -c <"$work/kept") - 1000))" "$work/kept" >"$file"
    refuse "$1: a lost end is told" 1 "model" "$pith" run "$2" -p a -n 1 --quiet
    cp "$work/kept" "$file"
    return 0
}

same_again() { # LABEL OUT OPTIONS...
    label=$1
    place=$2
    shift 2
    cpu=scalar
    # Each weight of a trellis goes through 65,536 states: scalar code takes minutes, and its unit tests try it.
    case $label-$(uname -m) in exl3-x86_64 | trellis-x86_64) cpu=avx2 ;; esac
    make "$place-1" "$@" --threads 1 --cpu $cpu
    same_model "$label: the same bytes from one thread and $cpu code" "$place" "$place-1"
    faulty && killed_at 2 make "$place-again" "$@" || skip "$label: a kill" "a library cannot be loaded before the program"
    make "$place-again" "$@" --resume
    same_model "$label: the same bytes after a kill" "$place" "$place-again"
    rm -rf "$place-1" "$place-again"
}

every_recipe() { # LABEL OUT OPTIONS...
    label=$1
    place=$2
    shift 2
    check "$label" make "$place" "$@"
    check "$label: verifies" "$pith" verify "$place" --against "$mini"
    thorough && check "$label: speaks" "$pith" run "$place" -p "The" -n 3 # as each container's below does
    # shellcheck disable=SC2086
    "$pith" quantize "$mini" -o "$place-said" --rehearse --json $few "$@" >"$work/said.json" 2>/dev/null
    check "$label: memory as foretold" within_estimate "$place" "$work/said.json"
    thorough && damaged "$label" "$place" && same_again "$label" "$place" "$@"
    rm -rf "$place-said"
}

# A recipe that learns does it in few steps: scalar code has to take them too.
python3 tests/cli/mini.py "$work/wide" layers=2 hidden=256 ffn=256
# Each weight of a trellis goes through 65,536 states: only "make test-all" has two layers of them.
thorough && tiles=$work/mini || tiles=$work/tiles
thorough || python3 tests/cli/mini.py "$tiles" layers=1 hidden=128 ffn=128 heads=2
for r in $(names recipes); do
    mini=$work/mini
    case $r in
    gguf | imatrix) mini=$work/wide ;; # K-quants take 256 weights of a row at a time
    exl3 | trellis) mini=$tiles ;;
    esac
    echo "{\"base\": \"$r\", \"name\": \"$r\", \"iterations\": 5}" >"$work/$r.json"
    every_recipe "$r" "$work/r-$r" -r "$work/$r.json"
done
mini=$work/mini

# Containers by themselves: with the first of these grids that each holds.
grids="int4:g64:asym:hqq int4:g64 int4:g64:asym int8:channel nf4:g64 fp8_e4m3:channel fp8_e4m3:block128 nvfp4 mxfp4 q4_0 q4_k codebook4:channel trellis2 trellis2_mul2"
for c in $(names containers); do
    mini=$work/mini
    case $c in exl3 | pith) mini=$tiles ;; esac # of trellises
    for g in $grids; do
        for a in none fp8_e4m3:g128; do
            make "$work/c-$c" -r rtn --weights "$g" --acts "$a" --container "$c" 2>"$work/stderr" && break 2
        done
    done
    if [ ! -e "$work/c-$c" ] && grep -q "is only read; .* holds" "$work/stderr"; then
        pass "$c is only read, and what can be written instead is told"
        continue
    elif [ ! -e "$work/c-$c" ]; then
        fail "$c holds one of $grids"
        continue
    fi
    check "$c: verifies" "$pith" verify "$work/c-$c" --against "$mini"
    check "$c: speaks" "$pith" run "$work/c-$c" -p "The" -n 3
    check "$c: inspected" "$pith" inspect "$work/c-$c"
    check "$c: converted to itself" "$pith" convert "$work/c-$c" -o "$work/c-$c-2" --container "$c" --quiet
    check "$c: converted to itself, the same weights" "$pith" diff "$work/c-$c" "$work/c-$c-2"
    damaged "$c" "$work/c-$c"
done
finish
