#!/bin/sh
# What others do to the files behind pith's back: shards zeroed, cut or replaced while they are written, inputs
# that become shorter while they are read, links where pith expects its own files, limits on the size of files.
# STRIDE: every how many-th call that changes a file is one at which a shard is spoiled (1: all of them; 9, and 24 where
# not all is tested).
set -u
. tests/cli/lib.sh
thorough && stride=${STRIDE:-9} || stride=${STRIDE:-24}
mini=$work/mini
python3 tests/cli/mini.py "$mini" layers=2
base="--quiet --weights int4:g32 --container compressed-tensors --threads 2 --calib-tokens 256 --seq-len 64"

# shellcheck disable=SC2086
make() { # OUT OPTIONS...
    out=$1
    shift
    "$pith" quantize "$mini" -o "$out" $base "$@"
}
faulty || {
    skip "files changed behind pith's back" "a library cannot be loaded before the program"
    finish
}

# --- the shard that is being written --------------------------------------------------------------
make "$work/whole" -r gptq || fail "undisturbed run"
whole=$(digest "$work/whole")
for fault in zero cut; do
    n=1
    found=0
    right=0
    wrong=0
    while [ $n -le 120 ]; do
        rm -rf "$work/out" "$work/out.partial"
        (FAULT=$fault:$n FAULT_FILE=$work/out.partial/model.safetensors LD_PRELOAD=$faulty \
            make "$work/out" -r gptq) 2>"$work/stderr"
        rc=$?
        if [ $rc -eq 0 ] && [ "$(digest "$work/out")" = "$whole" ]; then
            right=$((right + 1))
        elif [ $rc -eq 1 ] && [ ! -e "$work/out" ] && [ "$(wc -l <"$work/stderr")" -eq 1 ]; then
            found=$((found + 1))
            # What is left goes on to the right bytes, once nobody interferes.
            [ $((found % 4)) -eq 1 ] && { make "$work/out" -r gptq --resume 2>"$work/stderr" &&
                [ "$(digest "$work/out")" = "$whole" ] || wrong=$((wrong + 1)); }
        else
            wrong=$((wrong + 1))
            echo "$fault before call $n: status $rc" && tail -n 2 "$work/stderr"
        fi
        n=$((n + stride))
    done
    echo "$fault: $found found, $right of no effect"
    [ $wrong -eq 0 ] && [ $found -gt 0 ] && pass "a shard spoiled while it is written ($fault)" ||
        fail "a shard spoiled while it is written ($fault): $wrong times wrong, $found found"
done

# --- inputs that become shorter while they are read -----------------------------------------------
shrinks() { # NAME PATTERN AT COMMAND...: the weights of $cut lose their second half while the command reads them
    name=$1
    pattern=$2
    at=$3
    shift 3
    rm -rf "$cut" "$work/out" "$work/out.partial" "$work/ok"
    cp -r "$from" "$cut"
    "$@" >"$work/ok" 2>/dev/null || fail "$name: undisturbed"
    rm -rf "$work/out" "$work/out.partial"
    env FAULT=cut:0 FAULT_FILE="${which:-$cut/model.safetensors}" ${at:+FAULT_AT=$at} \
        LD_PRELOAD="$faulty" "$@" >"$work/stdout" 2>"$work/stderr"
    rc=$?
    if [ $rc -eq 1 ] && grep -q "$pattern" "$work/stderr" && [ "$(wc -l <"$work/stderr")" -eq 1 ] && [ ! -e "$work/out" ] &&
        { [ ! -s "$work/stdout" ] || grep -q '"error"' "$work/stdout"; }; then
        pass "$name"
    else
        fail "$name: status $rc"
        cat "$work/stdout" "$work/stderr"
    fi
}
cut=$work/cut
gone='cut/model.safetensors: changed while it was being read'
from=$mini
head -c 3000 "$root/CHANGELOG.md" >"$work/text"
shrinks "cut under inspect" "$gone" "" "$pith" inspect "$cut" --json
shrinks "cut under eval" "$gone" tokenizer.json "$pith" eval "$cut" --text "$work/text" --context 64 --json
shrinks "cut under run" "$gone" tokenizer.json "$pith" run "$cut" -p hello -n 4 --json
shrinks "cut under bench" "$gone" "" "$pith" bench "$cut" --prompt 8 --gen 2 --reps 1 --json
shrinks "cut under diff" "$gone" "" "$pith" diff "$cut" "$mini" --json
shrinks "cut under quantize, rounded to nearest" "$gone" "" "$pith" quantize "$cut" -o "$work/out" -r rtn --weights int4:g32 --quiet
# shellcheck disable=SC2086
shrinks "cut under quantize, calibrated" "$gone" tokenizer.json "$pith" quantize "$cut" -o "$work/out" $base -r awq+gptq
which=$work/copied
cp "$work/text" "$which"
# shellcheck disable=SC2086
shrinks "a calibration text that is cut" 'copied: changed while' "" "$pith" quantize "$mini" -o "$work/out" $base -r gptq --calib "$which"
head -c 3000 "$root/CHANGELOG.md" >"$which"
shrinks "a text that is cut" 'copied: changed while' "" "$pith" eval "$mini" --text "$which" --context 64 --json
which=''
from=$work/whole
shrinks "cut under verify" "$gone" "" "$pith" verify "$cut" --json
shrinks "cut under convert" "$gone" "" "$pith" convert "$cut" -o "$work/out" --container gptq --quiet
shrinks "packed weights cut under run" "$gone" "" "$pith" run "$cut" -p hello -n 4 --json

# --- a limit on the size of files -----------------------------------------------------------------
rm -rf "$work/out" "$work/out.partial"
(
    ulimit -f 64
    refuse "a limit on the size of files" 1 'ulimit -f' make "$work/out" -r gptq
    exit $failed
) || failed=1
check "and goes on without it" make "$work/out" -r gptq --resume

# --- links ----------------------------------------------------------------------------------------
for kind in "-s" ""; do
    for file in model.safetensors pith.journal pith.acts.0; do
        rm -rf "$work/out" "$work/out.partial"
        (FAULT=kill:60 LD_PRELOAD=$faulty make "$work/out" -r gptq) 2>/dev/null
        [ -e "$work/out.partial/$file" ] || fail "killed in the middle"
        echo precious >"$work/precious"
        ln -f $kind "$work/precious" "$work/out.partial/$file"
        refuse "a link in the place of $file ($kind)" 1 'link' make "$work/out" -r gptq --resume
        [ "$(cat "$work/precious")" = precious ] && [ "$(stat -c %s "$work/precious")" -eq 9 ] &&
            pass "is not followed" || fail "is not followed"
    done
done
rm -rf "$work/out.partial" && mkdir "$work/elsewhere" && ln -s "$work/elsewhere" "$work/out.partial"
refuse "a link in the place of the work folder" 1 'link' make "$work/out" -r gptq --resume
[ -z "$(ls -A "$work/elsewhere")" ] && pass "nothing is written there" || fail "nothing is written there"

# --- which input it is ----------------------------------------------------------------------------
rm -rf "$work/out" "$work/out.partial"
(FAULT=kill:90 LD_PRELOAD=$faulty make "$work/out" -r gptq) 2>/dev/null
cp -r "$work/out.partial" "$work/half"
mv "$mini" "$work/old" && cp -r "$work/old" "$mini" && touch -d 2001-01-01 "$mini"/*
make "$work/out" -r gptq --resume && [ "$(digest "$work/out")" = "$whole" ] && pass "a copy of the input, of another age, is the same input" ||
    fail "a copy of the input, of another age, is the same input"
rm -rf "$work/out" && mv "$work/half" "$work/out.partial"
python3 - "$mini/model.safetensors" <<'PY'
import sys
with open(sys.argv[1], "r+b") as f:
    f.seek(-3, 2)
    b = f.read(1)
    f.seek(-3, 2)
    f.write(bytes([b[0] ^ 1]))
PY
refuse "an input with one bit changed is another one" 1 'belongs to another run|is not what the interrupted run read' \
    make "$work/out" -r gptq --resume

# --- files beside the tensors ---------------------------------------------------------------------
rm -rf "$work/out" "$work/out.partial"
truncate -s 100G "$mini/LICENSE"
refuse "a license of 100 GB, all of it a hole" 1 'LICENSE: has 102400 MiB' make "$work/out" -r gptq
[ -e "$work/out.partial" ] && fail "nothing of it is copied" || pass "nothing of it is copied"
rm "$mini/LICENSE"
config() { # BYTES ARRAYS: the config's padding, and arrays so deep that they are much longer when they are indented
    python3 - "$work/old/config.json" "$mini/config.json" "$1" "$2" <<'PY'
import json, sys
config = json.load(open(sys.argv[1]))
size, arrays = map(int, sys.argv[3:])
deep = json.loads("[" * 300 + "]" * 300)
config["padding"] = ["x" * (size - 601 * arrays)] + [deep] * arrays
with open(sys.argv[2], "w") as f:
    json.dump(config, f, separators=(",", ":"))
PY
}
config 4800000 25
check "a config that is too large when it is indented" make "$work/out" -r gptq
check "its output can be read again" "$pith" verify "$work/out" --against "$mini"
rm -rf "$work/out"
config 8387700 0
refuse "a config that is too large with what is added to it" 1 'config.json: with what is added' make "$work/out" -r gptq
[ -e "$work/out.partial" ] && fail "leaves nothing" || pass "leaves nothing"
finish
