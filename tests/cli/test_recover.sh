#!/bin/sh
# pith recover: what is trained comes nearer to the original, is verified, the same when killed and resumed.
set -u
. tests/cli/lib.sh
faults=$(faulty && echo yes)
cd "$work" || exit 1
faulty=$work/faulty.so
shallow two
few="--against $work/two --tokens 1024 --seq-len 128 --batch 2 --steps 4"

recover() { # OUT OPTIONS...: what is said goes to report.json
    # shellcheck disable=SC2086
    "$pith" recover $few --rate 5 --quiet --json "$@" >report.json
}
falls() { # LEAST: the held-out divergence is less than that much of what it was
    python3 -c "import json; j = json.load(open('report.json')); assert 0 < j['kl_after'] < $1 * j['kl_before'], j; assert len(j['curve']) == 5 and j['held_out_tokens'] == 128, j"
}
of_account() { # EXPRESSION: true of pith.json of a folder, a
    python3 -c "import json, sys; a = json.load(open(sys.argv[1] + '/pith.json')); assert $2, a['recovered']" "$1"
}

"$pith" quantize two -o q -r rtn --weights int2:g64:asym --quiet || fail "a model to recover"
cp -r q kept
check "scales" recover q -o scales --threads 1
check "the divergence falls" falls 0.95
check "verified against the original" "$pith" verify scales --against two
check "the account says how" of_account scales "a['recovered']['train'] == 'scales' and a['recovered']['changed'] == 0 and a['recovered']['text'] == ['builtin']"
check "sizes stay" sh -c '[ $(stat -c %s q/model.safetensors) = $(stat -c %s scales/model.safetensors) ]'
check "and the input" diff -r q kept
check "with other threads" recover q -o three --threads 3
same_model "the same bytes" scales three
check "on older instructions" recover q -o old --threads 2 --cpu avx2
same_model "the same bytes there" scales old

check "weights too" recover q -o all --train all --rate 5
check "the divergence falls more" falls 0.95
check "verified against the original" "$pith" verify all --against two

# --- killed, gone on with
# shellcheck disable=SC2086
begin() {
    out=$1
    shift
    "$pith" recover q -o "$out" $few --train all --rate 5 --quiet "$@"
}
if [ -n "$faults" ]; then
    # Before the first checkpoint, amid the parameters of the third, before the journal names those of the fourth, amid the result.
    thorough && places="pith.recover.json.tmp:1 pith.recover.slot.1:2 pith.recover.json.tmp:4 model.safetensors:30" ||
        places="pith.recover.slot.1:2 model.safetensors:30"
    for at in $places; do
        name=${at%:*}
        (export FAULT_AT="$name" && with_fault "kill:${at#*:}" begin killed) 2>/dev/null
        [ $? -eq 137 ] && pass "killed at $at" || fail "killed at $at"
        [ ! -e killed ] || fail "something has the result's name"
        [ ! -e killed.partial/pith.recover.json ] || refuse "not gone on with unasked" 1 'go on with --resume' begin killed
        check "gone on with" begin killed --resume
        same_model "to the same bytes" all killed
        rm -rf killed killed.partial
    done
    (export FAULT_AT=pith.recover.json.tmp && with_fault kill:4 begin killed) 2>/dev/null
    refuse "another work's folder" 1 'of another model, text or options' "$pith" recover q -o killed $few --train scales --quiet --resume
    printf x | dd of=killed.partial/pith.recover.slot.1 bs=1 seek=5000 conv=notrunc 2>/dev/null
    printf x | dd of=killed.partial/pith.recover.slot.0 bs=1 seek=5000 conv=notrunc 2>/dev/null
    printf x | dd of=killed.partial/pith.recover.target bs=1 seek=5000 conv=notrunc 2>/dev/null
    check "a damaged checkpoint is made again" begin killed --resume
    same_model "to the same bytes" all killed
else
    skip "killed and resumed" "a library cannot be loaded before the program"
fi

# --- in the place of the model; other text
cp -r q place
check "in place" recover place --threads 2
same_model "the same bytes" scales place
check "nothing stays beside it" sh -c '! ls -d place.* 2>/dev/null'
check "text of a file" recover q -o file --text "$probe/eval.txt" --text "$probe/eval.txt"
check "is named" of_account file "a['recovered']['text'] == ['eval.txt', 'eval.txt']"
check "text of the original's own" recover q -o self --text self --train all
check "is named" of_account self "a['recovered']['text'] == ['self']"
check "until it no longer falls" "$pith" recover q -o auto --against two --tokens 256 --seq-len 16 --batch 1 --rate 100 --quiet --json
check "verified" "$pith" verify auto --against two
check "other grids and containers" "$pith" quantize two -o nv -r nvfp4 --calib-tokens 1024 --quiet
check "nvfp4" recover nv -o nv2 --train all
check "verified" "$pith" verify nv2 --against two
check "asymmetric, transformed" "$pith" quantize two -o awq -r awq --calib-tokens 1024 --quiet
check "awq" recover awq -o awq2 --train all
check "verified" "$pith" verify awq2 --against two

# --- a trellis: factors of its rows and columns, whose codes stay
python3 "$root/tests/cli/mini.py" tiles layers=1 hidden=128 ffn=128 heads=2
echo '{"base": "exl3", "shrink": 0}' >coded.json # damped by its few tokens it leaves less to recover
"$pith" quantize tiles -o coded -r coded.json --weights trellis2 --calib-tokens 256 --seq-len 64 --quiet || fail "a trellis"
coded() { # OUT OPTIONS...
    out=$1
    shift
    "$pith" recover coded -o "$out" --against tiles --tokens 1024 --seq-len 64 --batch 2 --steps 12 --rate 5 --quiet --json "$@" >report.json
}
check "a trellis" coded factors --threads 1
check "the divergence falls" python3 -c "import json; j = json.load(open('report.json')); assert 0 < j['kl_after'] < 0.98 * j['kl_before'] and j['changed'] == 0, j"
check "verified" "$pith" verify factors --against tiles
check "with other threads and instructions" coded again --threads 3 --cpu avx2
same_model "the same bytes" factors again
refuse "its codes are not trained" 1 'codes of whole blocks' coded x --train all

# --- what is refused
refuse "without the original" 2 'against MODEL is needed' "$pith" recover q
refuse "what is not quantized" 2 'nothing to recover' "$pith" recover two $few -o x
refuse "another original" 2 'was not made of' "$pith" recover q --against "$root/models/probe-moe" -o x
refuse "a name that is taken" 1 'exists already' "$pith" recover q $few -o scales
refuse "too little memory" 1 'needs about .* MiB and --memory allows' "$pith" recover q $few -o x --memory 8M
refuse "another thing to train" 2 'is scales or all' "$pith" recover q $few -o x --train norms
refuse "no number of steps" 2 'from 1 to 1000000' "$pith" recover q --against two -o x --steps few
refuse "too short a text" 2 'are too few' "$pith" recover q --against two -o x --tokens 512
refuse "text of its own and another" 2 'no other text' "$pith" recover q $few -o x --text self --text "$probe/eval.txt"
"$pith" quantize two -o mx -r mxfp4 --quiet || fail "mxfp4"
refuse "scales that are powers of two" 1 'no scale of these grids' "$pith" recover mx $few -o x
"$pith" quantize two -o k.gguf -r gguf --calib-tokens 1024 --quiet || fail "gguf"
refuse "a GGUF file" 1 'is not trained' "$pith" recover k.gguf $few -o x
"$pith" quantize two -o nf -r nf4 --quiet || fail "nf4"
refuse "scales that are quantized again" 1 'is not trained' "$pith" recover nf $few -o x
check "nothing was written" sh -c '! ls -d x x.* 2>/dev/null'
finish
