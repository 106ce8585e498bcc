#!/bin/sh
# A model that is stored quantized is an original like any other: it is quantized from the values that its codes stand
# for, made dense again, and what was made of it is verified against it.
set -u
. tests/cli/lib.sh
few="--calib-tokens 512 --seq-len 128"
mini=$work/mini
python3 tests/cli/mini.py "$mini" layers=2 hidden=256 ffn=256

# shellcheck disable=SC2086
make() { # MODEL OUT OPTIONS...
    model=$1
    out=$2
    shift 2
    rm -rf "$out" "$out".*
    "$pith" quantize "$model" -o "$out" --quiet $few "$@"
}
linears() { # ACCOUNT EXPRESSION: what it is true of, of all
    python3 -c "import json, sys
l = json.load(open(sys.argv[1]))['linears']
print(sum(bool($2) for x in l), len(l))" "$1"
}

# --- every container, and every kind of recipe ----------------------------------------------------
sources="fp8 fp8-block w8a8 nvfp4 gguf"
thorough && sources="$sources mlx mxfp4 rtn gptq awq nf4 hqq squeezellm exl3 llm.int8 smoothquant mxfp8 q6_k"
recipes="rtn awq+gptq gguf"
thorough && recipes="$recipes gptq nvfp4 quarot qep qep+yaqa sparsegpt smoothquant"
every_recipe() { # SOURCE MODEL RECIPES...
    source=$1
    from=$2
    shift 2
    for recipe in "$@"; do
        to=$work/out
        [ "$recipe" = gguf ] && to=$to.gguf
        good "$source, then $recipe" "$from" "$to" -r "$recipe" --requantize
    done
}
for source in $sources; do
    from=$work/$source
    case $source in gguf | q6_k) from=$from.gguf ;; esac
    case $source in
    mlx) make "$mini" "$from" -r rtn --weights int4:g64:asym:hqq --container mlx || fail "$source" ;;
    *) make "$mini" "$from" -r "$source" || fail "$source" ;;
    esac
    # shellcheck disable=SC2086
    every_recipe "$source" "$from" $recipes
done
# Types that are read only.
types="iq2_xs"
thorough && types="iq1_s iq1_m iq2_xxs iq2_xs iq2_s iq3_xxs iq3_s tq1_0 tq2_0 q1_0 q2_0"
"$pith" convert "$mini" -o "$work/mini.gguf" --quiet
for type in $types; do
    from=$work/$type.gguf
    python3 tests/cli/gguf_forms.py "$work/mini.gguf" retype "$type" "$from"
    every_recipe "$type" "$from" nvfp4 gptq gguf
    rm -f "$work"/copy.gguf*
    check "$type: copied" "$pith" convert "$from" -o "$work/copy.gguf" --quiet
    check "$type: verifies" "$pith" verify "$work/copy.gguf" --against "$from"
    "$pith" inspect "$work/copy.gguf" --json >"$work/json"
    [ "$(grep -c "\"$type\"" "$work/json")" -ge 14 ] && pass "$type: block by block" || fail "$type: block by block"
    refuse "nothing is rounded to $type" 2 "cannot be put on the grid $type" make "$mini" "$work/no.gguf" -r rtn --weights "$type"
done
make "$work/gguf.gguf" "$work/named" -r rtn --weights int8:channel --requantize
grep -q '"quantized_from": "gguf"' "$work/named/pith.json" && pass "the account names the container" ||
    fail "the account names the container"

# --- what a few bits have lost -------------------------------------------------------------------
make "$mini" "$work/int4" -r rtn --weights int4:g64
refuse "four bits are not quantized again in silence" 1 'stored as int4:g64.*--requantize' make "$work/int4" "$work/no" -r nvfp4
good "but where it is asked for" "$work/int4" "$work/again" -r nvfp4 --requantize
[ "$(linears "$work/again/pith.json" "x.get('from') == 'int4:g64'")" = "14 14" ] && pass "each linear says what it was" ||
    fail "each linear says what it was"
good "what is on the grid already stays" "$work/int4" "$work/same" -r gptq --weights int4:g64
[ "$(linears "$work/same/pith.json" "x.get('kept') and x['relative_error'] == 0")" = "14 14" ] && pass "with its codes" ||
    fail "with its codes"
good "but for a layer that goes to another" "$work/int4" "$work/mixed" -r rtn --weights int4:g64 --override 'layers.0.*=int3:g64' --requantize
[ "$(linears "$work/mixed/pith.json" "x.get('kept')")" = "7 14" ] && pass "the others stay" || fail "the others stay"
make "$mini" "$work/q4_0.gguf" -r q4_0
good "q4_0 to q4_0" "$work/q4_0.gguf" "$work/q4.gguf" -r q4_0
cmp -s "$work/q4_0.gguf" "$work/q4.gguf" && pass "is the same file" || fail "is the same file"

# --- the same bytes ------------------------------------------------------------------------------
make "$work/fp8" "$work/whole" -r awq+gptq --threads 2
whole=$(digest "$work/whole")
make "$work/fp8" "$work/one" -r awq+gptq --threads 1
[ "$(digest "$work/one")" = "$whole" ] && pass "any number of threads" || fail "any number of threads"
# What is quantized are the values: those of the dense model give the same weights.
check "dense in 32 bits" "$pith" convert "$work/fp8" -o "$work/dense" --container dense:f32 --quiet
check "dense: verifies" "$pith" verify "$work/dense" --against "$work/fp8"
make "$work/dense" "$work/of-dense" -r mxfp4
make "$work/fp8" "$work/of-fp8" -r mxfp4
hashes() {
    python3 -c "import json, sys
print([x['sha256'] for x in json.load(open(sys.argv[1]))['linears']])" "$1/pith.json"
}
[ "$(hashes "$work/of-dense")" = "$(hashes "$work/of-fp8")" ] && pass "as from the dense model" || fail "as from the dense model"
if faulty; then
    wrong=0 points=0
    for n in 20 45 70 95; do
        rm -rf "$work/out" "$work/out.partial"
        # shellcheck disable=SC2086
        { with_fault "kill:$n" "$pith" quantize "$work/fp8" -o "$work/out" --quiet $few -r awq+gptq --threads 2; rc=$?; } 2>/dev/null
        [ $rc -eq 137 ] || continue
        points=$((points + 1))
        # shellcheck disable=SC2086
        "$pith" quantize "$work/fp8" -o "$work/out" --quiet $few -r awq+gptq --threads 2 --resume 2>"$work/stderr"
        [ "$(digest "$work/out")" = "$whole" ] || wrong=$((wrong + 1))
    done
    [ $points -gt 1 ] && [ $wrong -eq 0 ] && pass "killed and resumed" || fail "killed $points times: $wrong not resumed to the same bytes"
fi

# --- the model in 16 bits again ------------------------------------------------------------------
check "dense" "$pith" convert "$work/gguf.gguf" -o "$work/plain" --container dense:bf16 --quiet
check "dense: verifies" "$pith" verify "$work/plain" --against "$work/gguf.gguf"
check "dense: speaks" "$pith" run "$work/plain" -p "The" -n 4
if faulty; then
    killed_at 1 "$pith" convert "$work/gguf.gguf" -o "$work/kept" --container dense:bf16 --quiet
    refuse "dense: a run in one precision is not resumed in another" 1 'belongs to another run' \
        "$pith" convert "$work/gguf.gguf" -o "$work/kept" --container dense:f32 --quiet --resume
fi
check "a file in 16 bits" "$pith" convert "$work/fp8" -o "$work/plain.gguf" --weights bf16 --quiet
check "a file in 16 bits: verifies" "$pith" verify "$work/plain.gguf" --against "$work/fp8"
"$pith" eval "$work/plain" --baseline "$work/gguf.gguf" --text models/probe/eval.txt --context 64 --max-tokens 512 --json >"$work/json" 2>/dev/null
python3 -c "import json, sys; sys.exit(not json.load(open(sys.argv[1]))['texts'][0]['kld_mean'] < 1e-3)" "$work/json" &&
    pass "dense: the same model" || fail "dense: the same model"
refuse "a precision that is none" 2 'dense:bf16' "$pith" convert "$work/fp8" -o "$work/no" --container dense:int4
python3 tests/cli/arch_case.py gpt_oss_mxfp4 "$work/oss" "$work/oss.text" && python3 tests/cli/byte_tokens.py "$work/oss"
good "experts in MXFP4, all in one tensor" "$work/oss" "$work/oss-nvfp4" -r nvfp4 --requantize
check "experts: dense" "$pith" convert "$work/oss" -o "$work/oss-dense" --container dense --quiet
check "experts: dense, verifies" "$pith" verify "$work/oss-dense" --against "$work/oss"
python3 - "$work/oss-dense/model.safetensors" <<'PY' && pass "experts: all in one tensor again" || fail "experts: all in one tensor again"
import json, struct, sys
f = open(sys.argv[1], "rb")
head = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
sys.exit("model.layers.0.mlp.experts.gate_up_proj" not in head or any("blocks" in n for n in head))
PY
for from in oss oss-dense; do
    check "experts: $from in 32 bits" "$pith" convert "$work/$from" -o "$work/$from-f32" --container dense:f32 --quiet
    check "experts: $from in 32 bits, verifies" "$pith" verify "$work/$from-f32" --against "$work/$from"
done
cmp "$work/oss-f32/model.safetensors" "$work/oss-dense-f32/model.safetensors" && pass "experts: the same numbers" ||
    fail "experts: the same numbers"

# --- inputs that are rotated at run time -----------------------------------------------------------
make "$mini" "$work/turned" -r rtn --weights int8:channel --transform rotate
check "rotated: dense" "$pith" convert "$work/turned" -o "$work/turned-dense" --container dense:f32 --quiet
check "rotated: dense, verifies" "$pith" verify "$work/turned-dense" --against "$work/turned"
"$pith" eval "$work/turned-dense" --baseline "$work/turned" --text models/probe/eval.txt --context 64 --max-tokens 512 --json \
    >"$work/json" 2>/dev/null
python3 -c "import json, sys; sys.exit(not json.load(open(sys.argv[1]))['texts'][0]['kld_mean'] < 1e-9)" "$work/json" &&
    pass "rotated: the same model without" || fail "rotated: the same model without"
good "rotated, then rtn" "$work/turned" "$work/out" -r rtn --weights int8:channel
[ "$(linears "$work/out/pith.json" "bool(x.get('kept')) != any(n in x['name'] for n in ('o_proj', 'down_proj'))")" = "14 14" ] &&
    pass "rotated: codes for another input are not kept" || fail "rotated: codes for another input are not kept"

# --- what looks at a model before it is quantized ------------------------------------------------
check "sensitivity" "$pith" sensitivity "$work/int4" --try int4:g128 $few --quiet
check "auto" "$pith" quantize "$work/fp8" -o "$work/auto" -r auto --budget 5 $few --quiet
check "auto: verifies" "$pith" verify "$work/auto" --against "$work/fp8"
check "recover" "$pith" recover "$work/again" --against "$work/int4" -o "$work/better" --steps 2 --seq-len 64 --tokens 512 --quiet
# No file is left beside the outputs, and none is in them.
[ -z "$(find "$work" -name '.pith-*')" ] && pass "no scratch file is left" || fail "no scratch file is left"
finish
