#!/bin/sh
# GGUF files from the command line: written, verified, measured, gone on with after a kill, converted, and read as
# models. Their loading by llama.cpp itself is tests/interop/gguf_files.py.
set -u
. tests/cli/lib.sh
mini=$work/mini
python3 tests/cli/mini.py "$mini" layers=2 hidden=128 ffn=256
make() { # what rounds to nearest takes no calibration text
    case "$*" in
    *"-r rtn"*) "$pith" quantize "$@" --quiet ;;
    *) "$pith" quantize "$@" --quiet --calib-tokens 256 --seq-len 64 ;;
    esac
}
same_file() { # NAME A B
    cmp -s "$2" "$3" && pass "$1" || fail "$1"
}

thorough && archs="llama mistral qwen2 qwen3 qwen3_moe mixtral" || archs="llama qwen3_moe"
for arch in $archs; do
    python3 tests/cli/mini.py "$work/$arch" "$arch" layers=2 hidden=64 ffn=96
    check "$arch: as it is" "$pith" convert "$work/$arch" -o "$work/$arch.gguf" --quiet
    check "$arch: verifies" "$pith" verify "$work/$arch.gguf" --against "$work/$arch"
    "$pith" run "$work/$arch" -p "Once upon a" -n 8 >"$work/text" 2>/dev/null
    "$pith" run "$work/$arch.gguf" -p "Once upon a" -n 8 >"$work/text.gguf" 2>/dev/null
    same_file "$arch: says the same" "$work/text" "$work/text.gguf"
done

thorough && grids="int8:g32 int4:g32 int5:g32 mxfp4 nvfp4" || grids="int4:g32 mxfp4"
for grid in $grids; do
    check "$grid" make "$mini" -o "$work/$grid.gguf" -r rtn --weights "$grid"
    check "$grid: verifies" "$pith" verify "$work/$grid.gguf" --against "$mini"
done
# Experts: one tensor of three dimensions in the file, with NVFP4 a vector of scales beside it; and back.
python3 tests/cli/mini.py "$work/experts" qwen3_moe layers=2 hidden=64 ffn=128
thorough && grids="nvfp4 q4_0" || grids=nvfp4
for grid in $grids; do
    moe=$work/moe.$grid
    check "experts in $grid" make "$work/experts" -o "$moe.gguf" -r rtn --weights "$grid"
    check "experts in $grid: verifies" "$pith" verify "$moe.gguf" --against "$work/experts"
    check "experts in $grid, one each" "$pith" convert "$moe.gguf" --container compressed-tensors -o "$moe" --quiet
    check "experts in $grid, one each: verifies" "$pith" verify "$moe" --against "$moe.gguf" --for vllm
    check "experts in $grid, and back" "$pith" convert "$moe" -o "$moe.again.gguf" --quiet
    check "experts in $grid, and back: verifies" "$pith" verify "$moe.again.gguf" --against "$moe"
done
refuse "experts of a layer on several types" 1 "give them one grid" make "$work/experts" -o "$work/no.gguf" \
    -r rtn --weights q4_0 --override "experts.2.up_proj=q8_0"
check "gptq" make "$mini" -o "$work/gptq.gguf" -r gptq --weights int4:g32
check "gptq: verifies" "$pith" verify "$work/gptq.gguf" --against "$mini"
check "awq, which rescales vectors" make "$mini" -o "$work/awq.gguf" -r awq --weights int4:g32
check "awq: verifies" "$pith" verify "$work/awq.gguf" --against "$mini"
make "$mini" -o "$work/threads.gguf" -r gptq --weights int4:g32 --threads 3
same_file "one and three threads give the same bytes" "$work/gptq.gguf" "$work/threads.gguf"
check "in a folder" make "$mini" -o "$work/folder" -r rtn --weights int4:g32 --container gguf
check "in a folder: verifies" "$pith" verify "$work/folder" --against "$mini"
same_file "in a folder: the same file" "$work/int4:g32.gguf" "$work/folder/model.gguf"

# The embedding and the head.
has() { # NAME FILE LINEAR FORMAT
    "$pith" inspect "$2" --json | python3 -c 'import json, sys
names = {t["name"] for t in json.load(sys.stdin)["tensors"]}
sys.exit(sys.argv[1] not in names)' "$3.$4" && pass "$1" || fail "$1"
}
check "the embedding left alone" make "$mini" -o "$work/kept.gguf" -r rtn --weights int4:g32 --ignore '*embed_tokens'
has "the embedding left alone: so it is" "$work/kept.gguf" model.embed_tokens weight
check "the embedding on another grid" \
    make "$mini" -o "$work/four.gguf" -r rtn --weights int8:g32 --override embed_tokens=int4:g32
has "the embedding on another grid: so it is" "$work/four.gguf" model.embed_tokens Q4_0
check "the embedding on another grid: verifies" "$pith" verify "$work/four.gguf" --against "$mini"

# Presets are llama.cpp's mixtures, and rows that are no whole blocks fall back as there.
types() { # FILE: how many tensors of what type
    "$pith" inspect "$1" --json | python3 -c 'import collections, json, sys
names = collections.Counter(t["name"].rsplit(".", 1)[1] for t in json.load(sys.stdin)["tensors"])
print(*(f"{k}={n}" for k, n in sorted(names.items()) if k not in ("weight", "bias")))'
}
is() { # NAME GOT WANT
    [ "$2" = "$3" ] && pass "$1" || fail "$1: $2, not $3"
}
python3 tests/cli/mini.py "$work/whole" llama layers=4 hidden=256 ffn=256
python3 tests/cli/mini.py "$work/narrow" qwen2 layers=3 hidden=224 ffn=512 heads=7 kv_heads=1
check "a preset by its name" make "$work/whole" -o "$work/m.gguf" -r q4_k_m
is "its types" "$(types "$work/m.gguf")" "Q4_K=24 Q6_K=5"
check "its proof" "$pith" verify "$work/m.gguf" --against "$work/whole"
check "a name that ends in .gguf" make "$work/whole" -o "$work/n.gguf"
same_file "is that preset" "$work/m.gguf" "$work/n.gguf"
check "a mixture by another rounder" make "$work/whole" -o "$work/l.gguf" -r rtn --weights q3_k:l
is "its types" "$(types "$work/l.gguf")" "Q3_K=16 Q5_K=12 Q6_K=1"
check "a recipe's integers become a type" "$pith" quantize "$work/narrow" -o "$work/r.gguf" -r rtn
is "or what rows that are no whole blocks fall back to" "$(types "$work/r.gguf")" "Q4_K=3 Q5_0=18 Q8_0=1"
tr -s ' \n' ' ' <"$work/stdout" | grep -q "fallen back 19 of 22 linears.*224 weights.*: int8:g32 instead of q6_k (model.embed_tokens), q5_0 instead of q4_k (18)" && pass "and said" ||
    fail "not said: $(cat "$work/stdout")"
check "its proof" "$pith" verify "$work/r.gguf" --against "$work/narrow"
python3 tests/cli/mini.py "$work/odd" llama layers=1 hidden=144 ffn=256 heads=4 kv_heads=4
check "rows without blocks" "$pith" quantize "$work/odd" -o "$work/odd.gguf" -r q8_0
grep -q "in 16 bits  *6 linears" "$work/stdout" && pass "stay in 16 bits, and said" || fail "not said: $(cat "$work/stdout")"

# What cannot be.
refuse "another container" 2 "names a file of gguf, but the container is gptq" \
    make "$mini" -o "$work/no.gguf" -r gptq --container gptq
refuse "groups that no type has" 1 "gguf has no type for int4:g128; with 4 bits it has q4_k, as in --weights q4_k" \
    make "$mini" -o "$work/no.gguf" -r rtn --weights int4:g128
refuse "floats" 1 "no type for fp8_e4m3:channel; with 8 bits it has q8_0" make "$mini" -o "$work/no.gguf" -r rtn \
    --weights fp8_e4m3:channel
refuse "mixtures that llama.cpp has not" 2 "q6_k:m: llama.cpp has no such mixture; it has q2_k:s and :m" \
    make "$mini" -o "$work/no.gguf" -r rtn --weights q6_k:m
refuse "mixtures elsewhere" 2 "gptq has no mixtures of types" make "$mini" -o "$work/no" -r q4_k_m --container gptq
refuse "mixtures of other grids" 2 "only GGUF's types come in mixtures" make "$mini" -o "$work/no.gguf" -r rtn \
    --weights int4:m
refuse "zero points" 1 "gguf has minimums where" make "$mini" -o "$work/no.gguf" -r rtn --weights int4:g32:asym
refuse "a file that is there" 1 "exists already" make "$mini" -o "$work/gptq.gguf" -r gptq --weights int4:g32
[ -e "$work/no.gguf" ] || [ -e "$work/no.gguf.partial" ] && fail "nothing is left" || pass "nothing is left"

# A kill on the way costs nothing.
faulty && killed_at 2 make "$mini" -o "$work/again.gguf" -r gptq --weights int4:g32 ||
    skip "a kill on the way" "a library cannot be loaded before the program"
check "goes on after a kill" make "$mini" -o "$work/again.gguf" -r gptq --weights int4:g32 --resume
same_file "the same bytes after a kill" "$work/gptq.gguf" "$work/again.gguf"
[ -e "$work/again.gguf.partial" ] && fail "no folder is left" || pass "no folder is left"
check "and again when all is done" make "$mini" -o "$work/again.gguf" -r gptq --weights int4:g32 --resume

# From a GGUF file.
"$pith" convert "$mini" -o "$work/mini.gguf" --quiet
check "quantized from GGUF" make "$work/mini.gguf" -o "$work/from.gguf" -r gptq --weights int4:g32
check "quantized from GGUF: verifies" "$pith" verify "$work/from.gguf" --against "$work/mini.gguf"
same_file "quantized from GGUF: the same file" "$work/gptq.gguf" "$work/from.gguf"
check "to a folder" make "$work/mini.gguf" -o "$work/from" -r gptq --weights int4:g32 --container gptq
check "to a folder: verifies" "$pith" verify "$work/from" --against "$work/mini.gguf"
check "to a folder: speaks" "$pith" run "$work/from" -p The -n 4
check "to compressed-tensors" "$pith" convert "$work/int4:g32.gguf" -o "$work/ct" --container compressed-tensors
check "to compressed-tensors: verifies" "$pith" verify "$work/ct" --against "$work/int4:g32.gguf"
check "and back" "$pith" convert "$work/ct" -o "$work/back.gguf"
check "and back: verifies" "$pith" verify "$work/back.gguf" --against "$work/ct"
make "$mini" -o "$work/g128" -r gptq --weights int4:g128 --container gptq
check "groups of 128 become smaller ones" "$pith" convert "$work/g128" -o "$work/g128.gguf"
check "groups of 128: verifies" "$pith" verify "$work/g128.gguf" --against "$work/g128"
check "from compressed-tensors" sh -c "$pith quantize $mini -o $work/a -r rtn --weights int8:g32 --container compressed-tensors --quiet &&
    $pith convert $work/a -o $work/a.gguf --quiet && $pith verify $work/a.gguf --against $work/a --quiet"

# Damage is found.
python3 - "$work/gptq.gguf" "$work/bad.gguf" <<'PY'
import shutil, sys
data = bytearray(open(sys.argv[1], "rb").read())
data[-5000] ^= 0x10
open(sys.argv[2], "wb").write(data)
shutil.copy(sys.argv[1] + ".pith.json", sys.argv[2] + ".pith.json")
PY
"$pith" verify "$work/bad.gguf" >"$work/verified" 2>&1 && fail "one flipped bit is found" || pass "one flipped bit is found"
grep -q "its bytes are not those that pith wrote" "$work/verified" && pass "and named" || fail "and named"
head -c 500000 "$work/gptq.gguf" >"$work/cut.gguf"
refuse "a cut file" 1 "the file ends before it does" "$pith" inspect "$work/cut.gguf"
printf 'GGUF\003\000\000\000\377\377\377\377\377\377\377\177\377\377\377\377\377\377\377\177' >"$work/lie.gguf"
refuse "a lying header" 1 "more than the file holds" "$pith" inspect "$work/lie.gguf"
"$pith" convert "$mini" -o "$work/whole.gguf" --quiet
python3 tests/cli/gguf_forms.py "$work/whole.gguf" swap "$work/swapped.gguf"
refuse "a big-endian file" 1 "a big-endian file; gguf-convert-endian FILE little" "$pith" run "$work/swapped.gguf" -p x
# --- in parts -------------------------------------------------------------------------------------
"$pith" run "$work/whole.gguf" -p "Once upon a" -n 4 >"$work/text" 2>/dev/null
parts() { # FOLDER: the file in three
    rm -rf "$1"
    mkdir "$1"
    python3 tests/cli/gguf_forms.py "$work/whole.gguf" split 3 "$1/m"
}
parts "$work/parts"
part="$work/parts/m-0000"
for named in "$work/parts" "${part}1-of-00003.gguf" "${part}3-of-00003.gguf"; do
    "$pith" run "$named" -p "Once upon a" -n 4 >"$work/text.parts" 2>/dev/null
    same_file "parts, by $(basename "$named")" "$work/text" "$work/text.parts"
done
check "parts: joined" "$pith" convert "$work/parts" -o "$work/joined.gguf" --quiet
same_file "parts: the same file" "$work/joined.gguf" "$work/whole.gguf"
check "parts: quantized" make "${part}2-of-00003.gguf" -o "$work/joined" -r rtn --weights int4:g32
check "parts: verifies" "$pith" verify "$work/joined" --against "$work/parts"
# Each has its line: one that is missing, is another, is there twice, or holds what it should not.
bad=$work/bad
parts "$bad"
rm "$bad/m-00002-of-00003.gguf"
refuse "a part is missing" 1 "is part 1 of 3 of a model, and m-00002-of-00003.gguf is missing" "$pith" run "$bad/m-00003-of-00003.gguf" -p x
cp "$bad/m-00003-of-00003.gguf" "$bad/m-00002-of-00003.gguf"
refuse "a part is another" 1 "says that it is part 3 of 3, and its name says part 2 of 3" "$pith" run "$bad" -p x
rm "$bad/m-00001-of-00003.gguf"
refuse "the first is missing" 1 "is part 2 of 3 of a model, and m-00001-of-00003.gguf is missing" "$pith" run "$bad" -p x
cp "${part}1-of-00003.gguf" "$bad/renamed.gguf"
refuse "a part under another name" 1 "found by names such as NAME-00001-of-00003.gguf" "$pith" run "$bad/renamed.gguf" -p x
parts "$bad"
edit() { # FILE PATTERN REPLACEMENT, both of Python's bytes
    python3 -c "import sys
d = open(sys.argv[1], 'rb').read()
a, b = (eval('b\"%s\"' % x) for x in sys.argv[2:])
assert d.count(a) == 1
open(sys.argv[1], 'wb').write(d.replace(a, b))" "$@"
}
edit "$bad/m-00001-of-00003.gguf" 'split.no\x02\0\0\0\0\0' 'split.no\x02\0\0\0\x07\0'
refuse "a number beyond their count" 1 "says that it is part 8 of 3" "$pith" run "$bad" -p x
parts "$bad"
edit "$bad/m-00002-of-00003.gguf" 'split.count\x02\0\0\0\x03\0' 'split.count\x02\0\0\0\x04\0'
refuse "parts of how many" 1 "says that it is part 2 of 4, and its name says part 2 of 3" "$pith" run "$bad" -p x
parts "$bad"
edit "$bad/m-00001-of-00003.gguf" 'split.tensors.count\x05\0\0\0\x14' 'split.tensors.count\x05\0\0\0\x15'
refuse "fewer tensors than there were" 1 "3 parts hold 20 tensors, and it says 21" "$pith" run "$bad" -p x
parts "$bad"
edit "$bad/m-00002-of-00003.gguf" 'split.no\x02\0\0\0\x01' 'split.no\x02\0\0\0\x02'
mv "$bad/m-00002-of-00003.gguf" "$bad/m-00003-of-00003.gguf"
parts "$work/again" && cp "$work/again/m-00002-of-00003.gguf" "$bad"
edit "$bad/m-00001-of-00003.gguf" 'split.tensors.count\x05\0\0\0\x14' 'split.tensors.count\x05\0\0\0\0'
refuse "a tensor in two parts" 1 'tensor ".*" is there twice' "$pith" run "$bad" -p x
# As many as can be said, or none: known from the first part, without a look for each.
parts "$bad"
mv "$bad/m-00001-of-00003.gguf" "$bad/m-00001-of-65535.gguf"
edit "$bad/m-00001-of-65535.gguf" 'split.count\x02\0\0\0\x03\0' 'split.count\x02\0\0\0\xff\xff'
refuse "one of 65535 parts" 1 "is part 1 of 65535 of a model, and m-00002-of-65535.gguf is missing" "$pith" run "$bad/m-00001-of-65535.gguf" -p x
parts "$bad"
for no in 1 2 3; do edit "$bad/m-0000$no-of-00003.gguf" 'split.count\x02\0\0\0\x03\0' 'split.count\x02\0\0\0\0\0'; done
refuse "parts of none: the first by itself" 1 "tensor .* is missing" "$pith" run "$bad" -p x
parts "$bad"
for no in 1 2 3; do mv "$bad/m-0000$no-of-00003.gguf" "$bad/m-0000$no-of-99999.gguf"; done
refuse "names of more parts than there can be" 1 "says that it is part . of 3, and its name says part . of 99999" "$pith" run "$bad" -p x
finish
