#!/bin/sh
# What -r auto says of itself: the time before it starts and the whole of it behind, the grids that it used; that pith recipes
# knows it; and that the warning behind calibrated rounding is of the loss at the outputs.
set -u
. tests/cli/lib.sh
python3 tests/cli/mini.py "$work/mini" layers=2 hidden=128 ffn=256 >/dev/null

start=$(date +%s.%N)
check "auto" "$pith" quantize "$work/mini" -o "$work/auto" -r auto --budget 4.5 --calib-tokens 2048
end=$(date +%s.%N)
grep -qE '^pith: -r auto: about .* expected, of them [0-9]+% to find the grids' "$work/stderr" && pass "the time is told before" ||
    fail "not told: $(head -n 3 "$work/stderr")"
grep -q 'recipe  *auto: .*weights by linear' "$work/stdout" && grep -qE '^  grids  *int[2-8].*%' "$work/stdout" &&
    pass "the summary names the grids" || fail "the summary: $(sed -n 1,12p "$work/stdout")"
grep 'recipe  *auto' "$work/stdout" | grep -q 'int8:channel' && fail "and none that it did not use" || pass "and none that it did not use"
python3 - "$work/auto/pith.json" "$start" "$end" <<'PY' && pass "the time is the whole run's" || fail "the time is not the whole run's"
import json, sys
t, wall = json.load(open(sys.argv[1]))["timing"], float(sys.argv[3]) - float(sys.argv[2])
print(t["seconds"], t["seconds_search"], wall, file=sys.stderr)
phases = sum(v for k, v in t.items() if k.startswith("seconds_") and k != "seconds_search")
sys.exit(not (0 < t["seconds_search"] and 0 < phases and t["seconds_search"] + 0.9 * phases <= t["seconds"] <= wall))
PY
check "quietly" "$pith" quantize "$work/mini" -o "$work/quiet" -r auto --budget 4.5 --calib-tokens 512 --quiet
[ -s "$work/stderr" ] && fail "says nothing: $(cat "$work/stderr")" || pass "says nothing"
check "a recipe by its name" "$pith" quantize "$work/mini" -o "$work/gptq" -r gptq --calib-tokens 512 --quiet
python3 -c 'import json, sys
sys.exit("seconds_search" in json.load(open(sys.argv[1]))["timing"])' "$work/gptq/pith.json" && pass "searched for nothing" || fail "searched for nothing"

check "pith recipes auto" "$pith" recipes auto
grep -q -- '--budget, --fit or --max-kl' "$work/stdout" && pass "tells what it takes" || fail "tells what it takes"
"$pith" recipes >"$work/list"
grep -qE '^ +auto ' "$work/list" && pass "and the list has it" || fail "and the list has it"

# Sensitivity does what its help says.
"$pith" sensitivity --help >"$work/help"
grep -q 'refused: rotations' "$work/help" && pass "help" || fail "help"
few="--calib-tokens 512 --seq-len 64 --acts none --kv none --work $work/s"
# shellcheck disable=SC2086
check "a transform is done first" "$pith" sensitivity "$work/mini" -r awq $few --try int4:g128:asym
# shellcheck disable=SC2086
refuse "a rotation is refused" 1 'basis of the whole model' "$pith" sensitivity "$work/mini" -r quarot $few
# shellcheck disable=SC2086
refuse "so is what looks at the whole model" 1 'looks at the whole model' "$pith" sensitivity "$work/mini" -r qep $few

# --allow-error as its help says; warnings by the loss at the outputs.
"$pith" quantize --help | tr -s ' \n' ' ' | grep -q 'default 0.5; 0.99 where the rounding is calibrated or makes 2:4 zeros' && pass "the default" || fail "the default"
check "two bits, by outputs" "$pith" quantize models/probe -o "$work/two" -r gptq --weights int2:g128 --calib-tokens 2048 --allow-error 1
python3 - "$work/two/pith.json" <<'PY' && pass "what carries the loss is named" || fail "what carries the loss is not named"
import json, sys
j = json.load(open(sys.argv[1]))
loss = {l["name"]: l["loss"] for l in j["linears"]}
whole, n = sum(loss.values()), len(loss)
heavy = {k for k, v in loss.items() if v / whole >= max(0.15, 10 / (n + 1))}
print(heavy, j["warnings"], file=sys.stderr)
sys.exit(not heavy or j["losses"] != "outputs" or {w["linear"] for w in j["warnings"]} != heavy or any("relative_error" in w for w in j["warnings"]))
PY
exit $failed
