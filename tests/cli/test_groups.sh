#!/bin/sh
# Groups that do not divide a model's rows: recipes take the largest of 128, 64, 32 that does and say so; a size that is named
# is refused as it stands.
set -u
. tests/cli/lib.sh

key() { # FILE.json EXPRESSION of j: its value
    python3 -c 'import json, sys
j = json.load(open(sys.argv[1]))
print(eval(sys.argv[2]))' "$1" "$2"
}
python3 tests/cli/mini.py "$work/narrow" layers=2 hidden=192 ffn=384 >/dev/null # rows of 192 and 384 weights
python3 tests/cli/mini.py "$work/wide" layers=2 hidden=256 ffn=512 >/dev/null
grids='sorted({(l["grid"], l.get("wanted", ""), l["shape"][1]) for l in j["linears"]})'
is() { # NAME WANTED: what key() found
    [ "$3" = "$2" ] && pass "$1" || fail "$1: $3 instead of $2"
}
quick="--calib-tokens 256 --seq-len 64"

# One size for all where engines take one, else each linear its own.
for of in awq:int4:g64:asym gptq:int4:g64; do
    recipe=${of%%:*} grid=${of#*:}
    wanted=$(echo "$grid" | sed s/g64/g128/)
    check "$recipe" "$pith" quantize "$work/narrow" -o "$work/$recipe" -r "$recipe" $quick
    is "$recipe: one size" "[('$grid', '$wanted', 192), ('$grid', '$wanted', 384)]" "$(key "$work/$recipe/pith.json" "$grids")"
    "$pith" quantize "$work/narrow" -o "$work/$recipe.said" -r "$recipe" $quick >"$work/said" 2>&1
    grep -q "groups  *$grid instead of $wanted in 14 of 14 linears" "$work/said" && pass "$recipe says so" || fail "$recipe says: $(cat "$work/said")"
    check "$recipe is whole, and vLLM's" "$pith" verify "$work/$recipe" --for vllm
done
echo '{"base": "autoround", "iterations": 5}' >"$work/learned.json" # grids are chosen before it learns
for recipe in rtn awq+gptq w4a8 quarot-w4a16 autoround; do
    from=$recipe
    [ $recipe != autoround ] || from=$work/learned.json
    check "$recipe" "$pith" quantize "$work/narrow" -o "$work/$recipe" -r $from $quick --quiet
    is "$recipe: each its own" "[('g128', '', 384), ('g64', 'g128', 192)]" "$(key "$work/$recipe/pith.json" "sorted({(l['grid'].split(':')[1], (l.get('wanted', '::').split(':')[1]), l['shape'][1]) for l in j['linears']})")"
    is "$recipe: the account" "[(12, [192])]" "$(key "$work/$recipe/pith.json" '[(g["linears"], g["columns"]) for g in j["groups"]]')"
    check "$recipe is whole" "$pith" verify "$work/$recipe"
done
refuse "a size that is named" 1 "groups of 128 in 192 columns" "$pith" quantize "$work/narrow" -o "$work/no" --weights int4:g128
refuse "and one of an override" 1 "groups of 128 in 192 columns" "$pith" quantize "$work/narrow" -o "$work/no" -r rtn --override 'q_proj=int4:g128'
check "a format alone names no size" "$pith" quantize "$work/narrow" -o "$work/int3" -r rtn --weights int3 --quiet
is "and falls" "[('int3:g128', '', 384), ('int3:g64', 'int3:g128', 192)]" "$(key "$work/int3/pith.json" "$grids")"
refuse "an engine without that size" 1 "trtllm: .*does not load int4:g64 from modelopt" "$pith" quantize "$work/narrow" -o "$work/no" -r rtn --container modelopt --for trtllm
check "llama.cpp's converter takes one size" "$pith" quantize "$work/narrow" -o "$work/ll" -r rtn --for llama.cpp --quiet
is "for all" "[('int4:g64', 'int4:g128', 192), ('int4:g64', 'int4:g128', 384)]" "$(key "$work/ll/pith.json" "$grids")"

# What divides is as it was: no line, no key.
check "rows that groups divide" "$pith" quantize "$work/wide" -o "$work/w" -r awq $quick --quiet
is "nothing falls" "(False, ['int4:g128:asym'])" "$(key "$work/w/pith.json" '("groups" in j, sorted({l["grid"] for l in j["linears"]}))')"

# Sensitivity and auto weigh what fits.
check "sensitivity" "$pith" sensitivity "$work/narrow" $quick --acts none --kv none --work "$work/s" --json
cp "$work/stdout" "$work/sens.json"
is "each row its size" "[('int4:g128:asym', 384), ('int4:g32:asym', 192), ('int4:g32:asym', 384), ('int4:g64:asym', 192)]" \
    "$(key "$work/sens.json" 'sorted({(r["grid"], 384 if "down" in r["part"] else 192) for r in j["rows"] if r["grid"].startswith("int4")})')"
refuse "one that is tried by name" 1 "groups of 128|does not take" "$pith" sensitivity "$work/narrow" $quick --acts none --kv none --work "$work/s" --try int4:g128 --for vllm
check "auto" "$pith" quantize "$work/narrow" -o "$work/auto" -r auto --budget 4.5 --for vllm $quick --quiet
check "is vLLM's" "$pith" verify "$work/auto" --for vllm

# A length without limit, as transformers writes it.
python3 - "$work/wide/tokenizer_config.json" <<'E2'
import json, os, sys
j = json.load(open(sys.argv[1])) if os.path.exists(sys.argv[1]) else {}
j["model_max_length"] = 1000000000000000019884624838656
json.dump(j, open(sys.argv[1], "w"))
E2
check "a number of 31 digits" "$pith" quantize "$work/wide" -o "$work/long" -r gptq $quick --quiet

exit $failed
