#!/bin/sh
# pith bench: what it says and what it refuses; never how fast anything is.
set -u
. tests/cli/lib.sh

bench() {
    "$pith" bench "$probe" --reps 2 --gen 4 --prompt 8 "$@"
}
check "a table" bench
grep -q 'prefill 8, tokens/s' "$work/stdout" && grep -q '% of the f32 peak' "$work/stdout" &&
    grep -q 'decode 4, tokens/s' "$work/stdout" && grep -q '% of the bandwidth' "$work/stdout" &&
    grep -q 'machine: reads' "$work/stdout" && pass "the table has its lines" || fail "the table has its lines"

# consistent FILE ARGS...: the numbers of a report agree with each other.
consistent() {
    python3 - "$@" <<'PY'
import json, sys
j = json.load(open(sys.argv[1]))
def near(a, b): assert abs(a - b) <= 1e-6 * abs(b), (a, b)
for k in ("model", "mode", "kv", "threads", "cpu", "depth", "reps", "bits_per_weight", "load_seconds",
          "memory_peak", "memory_own", "roof"): assert k in j, k
assert 0 < j["memory_own_expected"] <= j["memory_expected"] - (512 << 20)
assert j["memory_peak"] > 0 and j["roof"]["read"] > 0 and j["roof"]["f32"] > 0
p, d = j.get("prefill"), j.get("decode")
if p:
    near(p["tokens_per_second"]["median"], p["tokens"] / p["first_token_seconds"]["median"])
    near(p["operations_per_second"], p["operations"] / p["first_token_seconds"]["median"])
    assert 0 < p["fraction_of_peak"]["least"] <= p["fraction_of_peak"]["median"] <= p["fraction_of_peak"]["most"]
    assert j["roof"][p["peak"]] > 0
    assert p["tokens_per_second"]["least"] <= p["tokens_per_second"]["median"] <= p["tokens_per_second"]["most"]
if d:
    near(d["tokens_per_second"]["median"], 1 / d["token_seconds"]["median"])
    near(d["bytes_per_token"], d["weight_bytes"] + d["kv_bytes"])
    near(d["bytes_per_second"], d["bytes_per_token"] / d["token_seconds"]["median"])
    assert 0 < d["fraction_of_bandwidth"]["least"] <= d["fraction_of_bandwidth"]["most"]
assert [bool(p), bool(d)] == [a == "yes" for a in sys.argv[2:4]], sys.argv
PY
}
bench --json >"$work/plain.json" 2>/dev/null
check "JSON that agrees with itself" consistent "$work/plain.json" yes yes
bench --json --prompt 0 --depth 300 >"$work/deep.json" 2>/dev/null
check "generation alone, at a depth" consistent "$work/deep.json" no yes
bench --json --prompt 0 --depth 300 --kv f32 >"$work/f32.json" 2>/dev/null
bench --json --gen 0 --weights int8:channel --head int4:g128 -t 1 --cpu scalar >"$work/grid.json" 2>/dev/null
check "prompts alone, on other grids" consistent "$work/grid.json" yes no
check "bytes follow depth and grid" python3 - "$work/plain.json" "$work/deep.json" "$work/grid.json" "$work/f32.json" <<'PY'
import json, sys
a, b, c, f = (json.load(open(f)) for f in sys.argv[1:])
assert b["decode"]["kv_bytes"] > 50 * a["decode"]["kv_bytes"]
assert f["decode"]["kv_bytes"] == 2 * b["decode"]["kv_bytes"] and [b["kv"], f["kv"]] == ["bf16", "f32"]
assert b["decode"]["weight_bytes"] == a["decode"]["weight_bytes"]
assert 8 < c["bits_per_weight"] < 8.2 and a["bits_per_weight"] == 16
assert c["threads"] == 1 and c["cpu"] == "scalar"
assert c["weights"] == "int8:channel" and c["head"] == "int4:g128"
PY
bench --json --prompt 0 --depth 300 --sequences 3 --kv int8:token >"$work/many.json" 2>/dev/null
check "sequences together, beside one" python3 - "$work/many.json" "$work/deep.json" <<'PY'
import json, sys
j, plain = (json.load(open(f)) for f in sys.argv[1:])
def near(a, b): assert abs(a - b) <= 1e-6 * abs(b), (a, b)
one, many = j["decode"], j["decode_many"]
assert "decode_many" not in plain and [many["sequences"], many["tokens"]] == [3, one["tokens"]]
near(many["kv_bytes"], 3 * one["kv_bytes"])
near(many["bytes_per_step"], many["weight_bytes"] + many["kv_bytes"])
near(many["bytes_per_second"], many["bytes_per_step"] / many["step_seconds"]["median"])
near(many["tokens_per_second"]["median"], 3 / many["step_seconds"]["median"])
assert one["weight_bytes"] < many["weight_bytes"] < 1.01 * one["weight_bytes"]
assert many["kv_bytes"] < many["cache_bytes"] < 1.1 * many["kv_bytes"] # whole pages
t = many["times_one"]
assert 0 < t["least"] <= t["median"] <= t["most"] and 0 < many["fraction_of_bandwidth"]["least"]
PY
check "sequences in the table" bench --prompt 0 --sequences 2
grep -q '^2 sequences, tokens/s .* times one, ' "$work/stdout" &&
    grep -q 'a step reads .* MB: .*; the cache takes ' "$work/stdout" && pass "they have their lines" || fail "they have their lines"
for mode in exact fast; do bench --json --gen 0 --weights int4:g128 --mode $mode >"$work/$mode.json" 2>/dev/null; done
check "a prompt is held against the peak of its products" python3 - "$work/exact.json" "$work/fast.json" <<'PY'
import json, sys
exact, fast = (json.load(open(f)) for f in sys.argv[1:])
assert [exact["mode"], fast["mode"]] == ["exact", "fast"]
for j, products in (exact, 3), (fast, 1):
    there = j["roof"]["int8"] > 0
    assert j["prefill"]["peak"] == ("int8" if there else "f32")
    assert j["prefill"]["byte_products"] == (products if there else 0)
PY
refuse "nothing to time" 2 'nothing to time' bench --prompt 0 --gen 0
refuse "no sequences" 2 '1 to 1024' bench --sequences 0
refuse "too many sequences" 2 '1 to 1024' bench --sequences 1025
refuse "sequences that make nothing" 2 'gen is 0' bench --sequences 2 --gen 0
refuse "no repetitions" 2 'at least 1' bench --reps 0
refuse "more repetitions than anybody waits for" 2 'at most 1000000' bench --reps 99999999999
for option in prompt gen; do
    refuse "--$option beyond the context" 2 "[-]-$option 99999999: the model's context is 512" bench --$option 99999999
done
refuse "--depth beyond the context" 2 "[-]-depth 505 and --prompt 8: the model's context is 512" bench --depth 505
check "up to the context" bench --depth 504 --gen 2
refuse "an unknown mode" 2 'unknown mode' bench --mode quick
refuse "an unknown cache" 2 'KV cache' bench --kv int2:channel
refuse "a grid that is none" 2 'int9' bench --weights int9
check "block formats, in the fast mode" bench --weights nvfp4 --head mxfp4 --mode fast --gen 2
refuse "a grid that weights cannot have" 2 'token' bench --weights int8:token
refuse "no model" 1 'nowhere' "$pith" bench "$work/nowhere"
finish
