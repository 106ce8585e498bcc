#!/bin/sh
# -r auto: what is found within a budget, foretold, proven and refused.
set -u
. tests/cli/lib.sh
. tests/cli/auto.sh

more="--calib-tokens 2048 --seq-len 128"
outliers=$(realpath "${BUILD:-build}")/tools/make_outliers
cd "$work" || exit 1

mkdir tiny
cp "$probe"/*.json tiny
check "a model of one layer" python3 look.py first "$probe/config.json" "$probe/model.safetensors" tiny

check "some layers" shallow two

# --- the recipe
check "-r auto" "$pith" quantize two -o a -r auto --budget 3.6 --try $three $more --quiet
check "stays within its bits" python3 look.py recipe a/recipe.json 3.6 $layers fused
check "is proven" "$pith" verify a --against two
check "and so is what it foretold" python3 look.py came a/pith.json
"$pith" quantize two -o plain -r gptq --weights int3:g128:asym $more --quiet
check "what is fitted is what a recipe of one grid fits" python3 -c "import json
a, b = (json.load(open(x + '/pith.json'))['calibration'] for x in ('a', 'plain'))
assert a['sha256'] == b['sha256'] and 'held_out' not in b, (a, b)"
head -c 1500 "$probe/eval.txt" >short.txt
check "a text too short to hold any of it out" "$pith" quantize tiny -o s1 -r auto --budget 3.6 --try $three --transform none --calib short.txt \
    --calib-tokens 4096 --seq-len 256
tr -s ' \n' ' ' <"$work/stdout" | grep -q 'too short to hold some of it out' && pass "is told" || fail "is told: $(cat "$work/stdout")"
check "in the account, too" python3 look.py apart s1/pith.json 'too short' fitted
check "few tokens that were fitted" "$pith" quantize two -o s2 -r auto --budget 3.6 --try $three --transform none --calib-tokens 128 --seq-len 64 --quiet
check "are found out" python3 look.py apart s2/pith.json 'on tokens that were held out'
python3 -c "import json; j = json.load(open('s2/recipe.json')); assert j['damp'] == 0.01 and j['shrink'] == 1, j
found = {l['damp'] for l in json.load(open('s2/pith.json'))['linears']}
assert found == {1}, found
j['predicted']['kld'] = 0.61
j['shrink'] = 0
json.dump(j, open('usual.json', 'w'))" && pass "and damped" || fail "and damped"
check "few tokens of a whole model" "$pith" quantize "$probe" -o s4 -r auto --budget 4.2 --transform none --calib-tokens 1024 --seq-len 256 --quiet
check "are not those by which they are judged" python3 -c "import json
p = json.load(open('s4/pith.json'))['prediction']
assert p['kld'] / 1.5 < p['measured'] < p['kld'] * 1.5 and p['fitted']['measured'] < p['kld'] / 1.5, p"
check "without that" "$pith" quantize two -o s3 -r usual.json --calib-tokens 128 --seq-len 64 --quiet
check "an estimate that is too large to be right is noted" python3 look.py apart s3/pith.json 'estimates above 0.6 nats can be too low'
check "what was held out loses more" python3 -c "import json
a, b = (json.load(open(x + '/pith.json'))['prediction'] for x in ('s2', 's3'))
assert a['measured'] < 0.9 * b['measured'] and a['fitted']['measured'] > b['fitted']['measured'], (a, b)"
plain=int3:g128,int4:g128,int8:g128
predicted() { python3 -c "import json; print(json.load(open('$1/recipe.json'))['predicted']['kld'])"; }
for_engines() { # OUT ENGINE...
    made=$1 names=
    shift
    for e; do names="$names --for $e"; done
    # shellcheck disable=SC2086
    "$pith" quantize tiny -o "$made" -r auto --budget 3.6 --try $plain $few --transform none $names --quiet
}
check "for an engine that holds each linear by itself" for_engines w pith
check "each has its own grid" python3 look.py recipe w/recipe.json 3.6 1 apart
check "of another one it is the same" for_engines w2 transformers
check "recipe" cmp w/recipe.json w2/recipe.json
check "beside one that fuses some, these share" for_engines w3 pith vllm
check "their grids" python3 look.py recipe w3/recipe.json 3.6 1 fused
check "which loses more" python3 -c "import sys; sys.exit(not $(predicted w) < 0.98 * $(predicted w3))"
refuse "that one does not load the other" 1 'another grid than' "$pith" quantize tiny -o no -r w/recipe.json $few --for vllm
check "leaves nothing else" test ! -e a.auto -a ! -e a.partial
check "a model with outliers" "$outliers" two outliers
check "gets a transform" "$pith" quantize outliers -o o -r auto --budget 4.4 --try int3:g128:asym,int4:g128:asym,int5:g128:asym $few --quiet
check "that is foretold to lose less, and does" python3 look.py transformed o/recipe.json o/pith.json
check "or the one that is named" "$pith" quantize outliers -o o1 -r auto --budget 4.4 --try int4:g128:asym,int5:g128:asym $few --transform none --round gptq --quiet
check "and none else" grep -q '"transform": "none"' o1/recipe.json
check "by the rounder that is named" grep -q '"round": "gptq"' o1/recipe.json
check "with the usual damping" grep -q '"damp": 0.01' o1/recipe.json
python3 "$root/tests/cli/mini.py" mini layers=3 hidden=64 ffn=128
for round in qep:kron gptq:guided; do
    check "linears tried alone, then rounded by $round" "$pith" quantize mini -o k-$round -r auto --budget 4.2 --transform none \
        --try int3:g32:asym,int4:g32:asym,int8:g32 --calib-tokens 512 --seq-len 64 --round $round --quiet
    check "$round: so it says" python3 -c "import json; j = json.load(open('k-$round/recipe.json'))
assert (j['round'], j['predicted']['round']) == ('$round', 'gptq'), j
assert json.load(open('k-$round/pith.json'))['recipe']['round'] == '$round'"
    check "$round: verifies" "$pith" verify k-$round --against mini
done
one() { # MODEL GRID BITS OUT OPTIONS...: linears on one grid, or in 16 bits
    of=$1 grid=$2 bits=$3 made=$4
    shift 4
    "$pith" quantize "$of" -o "$made" -r auto --budget "$bits" --transform none --try "$grid" --calib-tokens 512 --seq-len 64 --quiet "$@"
}
python3 "$root/tests/cli/kinds_model.py" gemma4_text "$probe" normed
for case in "mini int4:g32 4.6 0.25" "normed int8:channel 8.5 1"; do
    # shellcheck disable=SC2086
    set -- $case
    of=$1 grid=$2 bits=$3 part=$4
    "$pith" sensitivity "$of" --try "$grid" --calib-tokens 512 --seq-len 64 --container compressed-tensors --acts none --kv none --json --quiet >rows.json
    check "$of: values that the linear behind may make up for" one "$of" "$grid" "$bits" v-$of
    check "$of: so much of their loss is left" python3 look.py values v-$of/recipe.json rows.json "$part"
    check "$of: rounded without that" one "$of" "$grid" "$bits" g-$of --round gptq
    check "$of: all of it" python3 look.py values g-$of/recipe.json rows.json 1
done
check "the recipe rounds so again" "$pith" quantize mini -o k2 -r k-qep:kron/recipe.json --calib-tokens 512 --seq-len 64 --quiet
same_model "to the same bytes" k-qep:kron k2
python3 "$root/tests/cli/mini.py" tiles layers=1 hidden=128 ffn=128 heads=2
check "grids of which the container has no other" "$pith" quantize tiles -o t -r auto --budget 2.7 --transform none --try trellis2,trellis3 \
    --container exl3 --calib-tokens 512 --seq-len 64 --quiet
check "both are taken" python3 -c "import json; l = json.load(open('t/recipe.json'))['linears']; assert set(l.values()) == {'trellis2:channel', 'trellis3:channel'}, l"
check "trellis codes verify" "$pith" verify t --against tiles
mixture="$root/models/probe-moe"
check "a mixture's recipe" "$pith" quantize "$mixture" -o m -r auto --budget 4.2 --try $three $few --transform none --round gptq --quiet
"$pith" sensitivity "$mixture" --try $three $few --container compressed-tensors --acts none --kv none --json --quiet >routes.json
check "counts the tokens that change experts" python3 look.py routes routes.json m/recipe.json m/pith.json
check "its recipe runs like any" "$pith" quantize two -o b -r a/recipe.json $more --quiet
same_model "to the same bytes" a b
check "a uniform recipe of about these bits" "$pith" quantize two -o u -r gptq --weights int3:g32:asym --container compressed-tensors $few --quiet
original=two
measured a a.json
measured u u.json
check "loses more" python3 look.py better a.json u.json
check "--max-kl" "$pith" quantize tiny -o k -r auto --max-kl 0.03 --try $three $few --quiet
check "is predicted to keep it" python3 look.py kld k/recipe.json 0.03
python3 "$root/tests/cli/mini.py" square layers=1 hidden=256 ffn=256
check "a GGUF file by its size" "$pith" quantize square -o g.gguf -r auto --budget 1100k --try q3_k,q4_k,q8_0 --calib-tokens 512 --seq-len 64 --quiet
check "has a type for each tensor" python3 look.py recipe g.gguf.recipe.json 6 1
check "and is not larger" test "$(stat -c %s g.gguf)" -le 1300000
check "weights and caches" "$pith" quantize tiny -o f -r auto --fit 2800k,context=512,users=2,kv=int8:token --for vllm $few --quiet
joint() { # OUT GRIDS MODEL SIZE OPTIONS...
    out=$1 grids=$2 from=$3 size=$4
    shift 4
    "$pith" quantize "$from" -o "$out" -r auto --fit "$size,context=256,users=4,kv=auto" --try "$grids" --calib-tokens 256 --seq-len 32 --round gptq \
        --quiet "$@"
}
python3 "$root/tests/cli/mini.py" small layers=1 hidden=64 ffn=128
narrow=int4:g32,int8:g32
check "weights and caches together" joint j $narrow small 600k
if thorough; then # w and w2 are that of the weights
    check "for pith they are the same" joint j2 $narrow small 600k --for pith
    check "to the recipe" sh -c "grep -v budget j/recipe.json >j.txt; grep -v budget j2/recipe.json | cmp - j.txt"
fi
check "both are foretold" python3 look.py cache j/recipe.json
bits=$(python3 -c 'import json; print(json.load(open("j/recipe.json"))["predicted"]["cache"]["bits"])')
cp j/pith.kv.json record
check "that cache is found" "$pith" bench j --prompt 0 --gen 1 --reps 1 --kv "auto:$bits" --quiet
check "as it was recorded" cmp record j/pith.kv.json
check "and is no part of the proof" "$pith" verify j --against small
check "of a file too" joint j.gguf q4_0,q5_0,q8_0 small 390k
check "which has it beside" test -s j.gguf.kv.json
check "rows of no whole groups" "$pith" quantize "$root/tests/golden/eval/tiny" -o narrow -r auto --budget 6.5 --calib-tokens 512 --seq-len 64 --quiet
check "get whole rows as groups" grep -q 'down_proj.*int[346]:channel:asym' narrow/recipe.json
check "the mixture is proven, too" "$pith" verify m --against "$root/models/probe-moe"

check "in little memory" "$pith" quantize tiny -o s -r auto --max-kl 0.03 --try $three $few --memory 28M --quiet
check "the same" python3 -c "import json; a, b = (json.load(open(f'{x}/recipe.json'))['linears'] for x in 'ks'); assert a == b"

# --- refusals
q() { # NAME STATUS PATTERN OPTIONS...
    n=$1 want=$2 pattern=$3
    shift 3
    # shellcheck disable=SC2086
    refuse "$n" "$want" "$pattern" "$pith" quantize tiny -o no -r auto $few "$@"
    [ ! -e no ] && [ ! -e no.auto ] && [ ! -e no.partial ] || fail "$n: something stays behind"
}
q "no budget" 2 'needs one of'
q "two of them" 2 'needs one of' --budget 4 --max-kl 1
q "a budget that is none" 2 'mean bits of a weight' --budget lots
q "a fit that is none" 2 'SIZE,context=N' --fit 24G
q "caches of several formats for an engine of one" 2 'keeps one format' --fit 24G,context=1k,kv=auto --for vllm
q "also beside pith" 2 'vllm keeps one format' --fit 24G,context=1k,kv=auto --for pith --for vllm
q "a KL below 0" 2 'from 0 to 100' --max-kl -1
q "--weights beside it" 2 'chooses the grids' --budget 4 --weights int4:g128
q "fewer bits than there are" 1 'need 3.* bits a weight' --budget 2 --try int3:g128:asym,int4:g128:asym
q "a size smaller than the rest" 1 'takes .* already' --budget 100k
q "less memory than it takes" 1 'sensitivities need about' --budget 4 --memory 16M
q "a transform of the whole basis" 2 'own basis' --budget 4 --transform rotate
q "a learned rounding" 1 'blocks as a whole' --budget 4 --round learned
refuse "a budget without auto" 2 'does nothing without -r auto' "$pith" quantize "$probe" -o no -r gptq --budget 4
printf '{"linears": {"model.layers.9.mlp.up_proj": "int4:g128"}}' >far.json
refuse "a recipe for another model" 2 'which this model lacks' "$pith" quantize "$probe" -o no -r far.json
printf '{"linears": {"model.layers.0.mlp.up_proj": 4}}' >bad.json
refuse "a recipe without a grid" 2 'up_proj' "$pith" quantize "$probe" -o no -r bad.json
finish
