#!/bin/sh
# A mixture's way through every stage: experts are calibrated by the rule that is asked for, counted and named; the
# same bytes on any number of threads and after a kill; every container and transform is verified.
set -u
. tests/cli/lib.sh
mixture=$root/models/probe-moe
thorough && tokens="--calib-tokens 2048 --seq-len 256" || tokens="--calib-tokens 512 --seq-len 64"
few="--quiet $tokens"

make() { # OUT OPTIONS...
    out=$1
    shift
    # shellcheck disable=SC2086
    "$pith" quantize "$mixture" -o "$work/$out" $few "$@"
}
verified() { # OUT
    "$pith" verify "$work/$1" --against "$mixture"
}
# counts OUT RULE: each layer's tokens are taken twice, the rule is told, some experts are below `few`, none is left out.
counts() {
    python3 - "$work/$1/pith.json" "$2" <<'PY'
import json, sys
account = json.load(open(sys.argv[1]))
e = account["experts"]
assert e["rule"] == sys.argv[2], e["rule"]
assert [l["layer"] for l in e["layers"]] == [0, 1, 2, 3]
for l in e["layers"]:
    assert len(l["tokens"]) == 14 and sum(l["tokens"]) == 2 * account["calibration"]["tokens"], l
assert any(t < e["few"] for l in e["layers"] for t in l["tokens"])
assert len([x for x in account["linears"] if ".experts." in x["name"]]) == 4 * 14 * 3
routers = [t for t in account["tensors"] if t["name"].endswith("mlp.gate.weight")]
assert len(routers) == 4 and all("router" in t["reason"] for t in routers), routers
PY
}
thorough && rules="pooled routed all" || rules="pooled routed"
for rule in $rules; do
    case $rule in pooled) set -- --threads 1 ;; *) set -- ;; esac
    check "gptq, experts $rule" make "gptq-$rule" -r gptq --container compressed-tensors --experts "$rule" "$@"
    check "gptq, experts $rule: counted" counts "gptq-$rule" "$rule"
    check "gptq, experts $rule: verified" verified "gptq-$rule"
done
# Learned from whole blocks: an expert from the tokens that take it.
echo '{"base": "autoround", "iterations": 10, "batch": 2}' >"$work/learned.json"
check "learned" make learned -r "$work/learned.json"
check "learned: counted" counts learned routed
check "learned: verified" verified learned
if thorough; then
    check "learned, one thread" make learned-one -r "$work/learned.json" --threads 1
    same_model "learned, one thread: the same bytes" "$work/learned-one" "$work/learned"
fi
# shellcheck disable=SC2086
check "pooled is the default" "$pith" quantize "$mixture" -o "$work/default" $tokens -r gptq \
    --container compressed-tensors
tr -s ' \n' ' ' <"$work/stdout" >"$work/flat"
check "few tokens: experts are named" grep -qE 'experts 56, calibrated by the rule pooled; warning: [0-9]+ were taken by fewer than 256 tokens of the text: layer 0:' "$work/flat"
same_model "pooled is the default, and one thread does the same" "$work/default" "$work/gptq-pooled"

# Killed when the first block is in the journal, and resumed.
if faulty; then
    killed_at 3 make killed -r gptq --container compressed-tensors
    check "killed and resumed" make killed -r gptq --container compressed-tensors --resume
    same_model "killed and resumed: the same bytes" "$work/killed" "$work/gptq-pooled"
else
    skip "killed and resumed" "a library cannot be loaded before the program"
fi

thorough || few="--quiet --calib-tokens 512 --seq-len 64"
check "awq" make awq -r awq --container compressed-tensors
check "awq: verified" verified awq
if grep -q __asan_init "$pith"; then
    skip "memory" "a sanitizer's own memory would be counted"
else
    # shellcheck disable=SC2086
    foretold=$("$pith" quantize "$mixture" -o "$work/rehearsed" $few -r awq --container compressed-tensors --rehearse --json |
        sed -n 's/.*"memory_expected_bytes": \([0-9]*\).*/\1/p')
    taken=$(sed -n 's/.*"peak_memory_bytes": \([0-9]*\).*/\1/p' "$work/awq/pith.json")
    check "awq: $taken bytes of $foretold foretold" test "$taken" -le "$foretold"
fi
check "rounded in FP8" make fp8 -r fp8
check "rounded in FP8: verified" verified fp8
if thorough; then
    check "smoothquant" make smooth -r smoothquant
    check "smoothquant: verified" verified smooth
    check "rotated" make rotated -r gptq --container compressed-tensors --transform rotate:folded
    check "rotated: verified" verified rotated
    check "rounded in NVFP4" make nvfp4 -r nvfp4
    check "rounded in NVFP4: verified" verified nvfp4
fi
# Experts that lie side by side in one tensor of 16 bits, columns first.
"${BUILD:-build}/tools/make_synthetic" tiny-gpt-oss "$work/fused" 1
for recipe in gptq awq; do
    # shellcheck disable=SC2086
    check "experts in one tensor: $recipe" "$pith" quantize "$work/fused" -o "$work/fused-$recipe" $few -r $recipe \
        --container compressed-tensors
    check "experts in one tensor: $recipe verified" "$pith" verify "$work/fused-$recipe" --against "$work/fused"
done
# The original with another number of experts a token: what was made is no longer of it.
cp -r "$mixture" "$work/other"
sed -i 's/"num_experts_per_tok": 2/"num_experts_per_tok": 3/' "$work/other/config.json"
"$pith" verify "$work/gptq-pooled" --against "$work/other" >"$work/report" && rc=0 || rc=$?
[ $rc -eq 1 ] && grep -q 'experts that a token takes is 2, and 3 in the original' "$work/report" &&
    pass "another number of experts a token is noticed" || fail "another number of experts a token is noticed"

refuse "a rule that is none" 2 'unknown rule for experts "some"; there are pooled, routed, all' \
    "$pith" quantize "$mixture" -o "$work/x" -r gptq --experts some
refuse "a model that is no mixture" 2 'experts routed does nothing: .* is no mixture' \
    "$pith" quantize "$probe" -o "$work/x" --quiet -r gptq --experts routed
refuse "learning from other tokens" 2 'experts all does nothing with --round learned' \
    "$pith" quantize "$mixture" -o "$work/x" --quiet -r autoround --experts all
finish
