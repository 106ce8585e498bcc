#!/bin/sh
# The same weights through every container and back; what cannot be held is refused or rounded anew, and said.
set -u
. tests/cli/lib.sh
mini=$work/mini
python3 tests/cli/mini.py "$mini" layers=2 hidden=128 ffn=256
quantize="$pith quantize $mini --quiet --calib-tokens 256 --seq-len 64"

lossless() { # NAME DIR COUNT: that many linears are said to be lossless
    got=$(python3 -c 'import json, sys
print(sum(l["lossless"] for l in json.load(open(sys.argv[1]))["linears"]))' "$2/pith.json")
    if [ "$got" = "$3" ]; then pass "$1"; else fail "$1: $got"; fi
}
through() { # FROM TO: converted, verified against what it came from, equal to it
    check "$1 to $2" "$pith" convert "$work/$1" -o "$work/$1-$2" --container "$2" --quiet
    check "$1 to $2: verifies" "$pith" verify "$work/$1-$2" --against "$work/$1"
    check "$1 to $2: the same weights" "$pith" diff "$work/$1" "$work/$1-$2"
    lossless "$1 to $2: said to be lossless" "$work/$1-$2" 14
}

$quantize -o "$work/gptq" -r gptq --weights int4:g32:asym --container gptq
through gptq compressed-tensors
through gptq awq
through gptq-awq compressed-tensors
through gptq-awq-compressed-tensors gptq
cmp -s "$work/gptq/model.safetensors" "$work/gptq-awq-compressed-tensors-gptq/model.safetensors" &&
    pass "and back: the same file" || fail "and back: the same file"
check "converted models speak" "$pith" run "$work/gptq-awq" -p The -n 4

"$pith" quantize "$mini" --quiet -o "$work/three" -r rtn --weights int8:g64:asym --container compressed-tensors
refuse "what cannot be held is refused" 1 "q_proj: awq .*int8.*--weights GRID" \
    "$pith" convert "$work/three" -o "$work/no" --container awq
[ -e "$work/no" ] || [ -e "$work/no.partial" ] && fail "nothing is left of it" || pass "nothing is left of it"
check "or rounded anew" "$pith" convert "$work/three" -o "$work/anew" --container awq --weights int4:g64:asym
check "anew: verifies" "$pith" verify "$work/anew" --against "$work/three"
lossless "anew: not said to be lossless" "$work/anew" 0
refuse "an original is not converted" 1 "is not quantized; pith quantize" \
    "$pith" convert "$mini" -o "$work/no" --container awq
refuse "a container must be named" 2 "give --container" "$pith" convert "$work/three" -o "$work/no"
refuse "an unknown container" 2 "unknown container .tar.*there are .*awq" \
    "$pith" convert "$work/three" -o "$work/no" --container tar

# Codes that a container can hold otherwise are kept: scales and minimums alone are rounded.
moved() { # NAME DIR LIMIT: no linear is rounded anew, no weight moves further than that part of its group's range
    python3 - "$2" "$3" <<'PY' && pass "$1" || fail "$1"
import json, sys
linears = json.load(open(sys.argv[1]))["linears"]
worst = max(l["largest_change"] for l in linears)
print("largest change", worst, {l["conversion"] for l in linears}, {l["grid"] for l in linears})
sys.exit(not linears or any(l["conversion"] == "rounded anew" for l in linears) or worst > float(sys.argv[2]))
PY
}
"$pith" quantize "$mini" --quiet -o "$work/hqq" -r hqq --weights int3:g64:asym:hqq
for to in compressed-tensors awq; do
    refuse "zero points that are no whole numbers have no place in $to" 1 "q_proj: $to .*--weights GRID" \
        "$pith" convert "$work/hqq" -o "$work/no" --container $to
done
check "minimums hold them" "$pith" convert "$work/hqq" -o "$work/hqq.gguf"
moved "by half a place of a half too" "$work/hqq.gguf.pith.json" 0.0006
check "zero points to minimums" "$pith" convert "$work/gptq" -o "$work/gptq.gguf"
grep -q 'keep their codes (q4_1)' "$work/stdout" && pass "and said" || fail "not said: $(cat "$work/stdout")"
moved "by half a place of a half" "$work/gptq.gguf.pith.json" 0.0006
check "verifies" "$pith" verify "$work/gptq.gguf" --against "$work/gptq"
check "and back to zero points" "$pith" convert "$work/gptq.gguf" -o "$work/gptq-back" --container gptq \
    --weights int4:g32:asym
check "the codes are those of before" "$pith" diff "$work/gptq" "$work/gptq-back"
for grid in int2:g64 int3:g64 int3:g64:asym int4:g64 int6:g64:asym int8:channel; do
    dir=$work/$(echo "$grid" | tr : -)
    "$pith" quantize "$mini" --quiet -o "$dir" -r rtn --weights "$grid" --container compressed-tensors
    check "$grid to gguf" "$pith" convert "$dir" -o "$dir.gguf" --quiet
    moved "$grid keeps its codes" "$dir.gguf.pith.json" 0.0006
done
check "narrow codes in wide ones" "$pith" convert "$work/int3-g64-asym" -o "$work/wide" --container awq --quiet
lossless "to the bit" "$work/wide" 14
python3 tests/cli/mini.py "$work/blocks" layers=1 hidden=256 ffn=256
check "a file of q6_k" "$pith" quantize "$work/blocks" -o "$work/six.gguf" -r rtn --weights q6_k --quiet
check "becomes groups of 16" "$pith" convert "$work/six.gguf" -o "$work/six" --container compressed-tensors --quiet
moved "scales of two levels in one" "$work/six/pith.json" 0.003

# Zero points that are all the middle are the symmetric grid's, whatever a config says of them.
"$pith" quantize "$mini" --quiet -o "$work/lie" -r rtn --weights int4:g64 --container gptq
"$pith" quantize "$mini" --quiet -o "$work/zeros" -r rtn --weights int4:g64:asym --container gptq
says() { # DIR true|false
    for file in config.json quantize_config.json; do
        sed -i -E 's/"sym": (true|false)/"sym": '"$2/" "$1/$file"
    done
}
says "$work/lie" false
says "$work/zeros" true
for to in compressed-tensors gptq awq; do through lie "$to"; done
through lie-awq compressed-tensors
check "to gguf" "$pith" convert "$work/lie" -o "$work/lie.gguf" --quiet
check "verifies" "$pith" verify "$work/lie.gguf" --against "$work/lie"
refuse "other zero points are not left out" 1 "^pith: [^:]*q_proj: sym is true, but not all zero points are 8" \
    "$pith" convert "$work/zeros" -o "$work/no" --container awq
[ -e "$work/no" ] || [ -e "$work/no.partial" ] && fail "nothing is left of it" || pass "nothing is left of it"

# A kill on the way costs nothing.
faulty && killed_at 2 "$pith" convert "$work/gptq" -o "$work/again" --container compressed-tensors --quiet ||
    skip "a kill on the way" "a library cannot be loaded before the program"
check "goes on after a kill" "$pith" convert "$work/gptq" -o "$work/again" --container compressed-tensors --resume --quiet
same_model "the same bytes after a kill" "$work/again" "$work/gptq-compressed-tensors"

refuse_diff() {
    "$pith" diff "$@" --json >"$work/diff.json"
    [ $? -eq 1 ] && python3 - "$work/diff.json" <<'PY'
import json, sys
j = json.load(open(sys.argv[1]))
bad = j["equal"] or j["parts_different"] != 14 or j["parts_equal"] != 6 or "quantization_config" in j["config_differs"]
sys.exit(bad or not all(0 < p["relative_difference"] < 0.2 for p in j["parts"] if not p["equal"]))
PY
}
check "diff: where a model and its original differ" refuse_diff "$mini" "$work/gptq"

# What AWQ multiplied is no difference: that of each linear is the error that the account has.
scaled_diff() {
    "$pith" quantize "$mini" -o "$work/scaled" -r awq --calib-tokens 512 --seq-len 128 --quiet &&
        "$pith" diff "$mini" "$work/scaled" --json >"$work/diff.json"
    python3 - "$work/diff.json" "$work/scaled/pith.json" <<'PY'
import json, sys
parts = {p["name"]: p for p in json.load(open(sys.argv[1]))["parts"]}
linears = json.load(open(sys.argv[2]))["linears"]
far = [l["name"] for l in linears if l["transformed"] and (not parts[l["name"]]["rescaled"] or
       abs(parts[l["name"]]["relative_difference"] - l["relative_error"]) > 1e-6)]
norms = [p for n, p in parts.items() if n.endswith("layernorm") and not p["equal"]]
sys.exit(far or not any(l["transformed"] for l in linears) or not norms or any("relative_difference" in p for p in norms))
PY
}
check "diff: what a transform multiplied is told apart" scaled_diff
check "diff: in another basis" "$pith" quantize "$mini" -o "$work/turned" -r rtn --transform rotate:folded
"$pith" diff "$mini" "$work/turned" | grep -q "in another basis" && pass "is said" || fail "is not said"
python3 tests/cli/mini.py "$work/other" layers=1 hidden=128 ffn=256
refuse "diff: models of different shapes" 2 "different shapes" "$pith" diff "$mini" "$work/other"
finish
