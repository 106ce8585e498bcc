#!/bin/sh
# eval --attn: attention as FP8 kernels compute it, beside any cache; the formula itself is held against
# PyTorch's casts in tests/unit/backend/test_attention.c. And what engines call such a cache.
set -u
. tests/cli/lib.sh
measure() { # NAME OPTION...: 128 tokens of the probe, to $work/NAME.json
    name=$1
    shift
    "$pith" eval "$probe" --baseline "$probe" --text "$probe/eval.txt" --context 65 --max-tokens 128 --json \
        "$@" >"$work/$name.json" 2>"$work/stderr" || cat "$work/stderr"
}
measure none
measure e4m3 --attn fp8_e4m3
measure token --attn FP8_E4M3:token
measure e5m2 --attn fp8_e5m2
measure both --attn fp8_e4m3 --kv fp8_e4m3
measure caches --attn fp8_e4m3 --kv fp8_e4m3 --kv f32
check "coarser numbers cost more, and the report names them" python3 - "$work" <<'PY'
import json, sys

r = {k: json.load(open(f"{sys.argv[1]}/{k}.json")) for k in ("none", "e4m3", "token", "e5m2", "both", "caches")}
kl = {k: r[k]["kld_mean"] for k in r if k != "caches"}
assert kl["none"] == 0 and "attn" not in r["none"], kl
assert 0 < kl["e4m3"] < kl["e5m2"] and 0 < kl["token"] < kl["e5m2"] and kl["e4m3"] < kl["both"], kl
assert [r[k]["attn"] for k in ("e4m3", "token", "e5m2")] == ["fp8_e4m3", "fp8_e4m3:token", "fp8_e5m2"]
models = r["caches"]["models"]
assert "attn" not in models[0] and [m["attn"] for m in models[1:]] == ["fp8_e4m3"] * 2
assert [m["texts"][0]["kld_mean"] for m in models[1:]] == [kl["both"], kl["e4m3"]], "alone and beside others"
PY
"$pith" eval "$probe" --text "$probe/eval.txt" --context 65 --max-tokens 64 --attn fp8_e4m3 >"$work/text" 2>/dev/null
check "the first line says so" grep -q "bits per weight, attention in fp8_e4m3$" "$work/text"
"$pith" eval "$probe" --text "$probe/eval.txt" --context 65 --max-tokens 64 --kv k=q8_0,v=q4_0,rotate >"$work/text" 2>/dev/null
check "what an engine is started with for that cache" grep -q "^  in llama.cpp     -ctk q8_0 -ctv q4_0$" "$work/text"
"$pith" quantize "$probe" -o "$work/out" -r w8a16 --weights fp8_e4m3:channel --kv fp8_e4m3 --calib-tokens 512 2>/dev/null | tr -s '\n ' ' ' >"$work/text"
check "and for one that is stored" grep -q "KV cache fp8_e4m3:tensor:static, in the checkpoint; to start with: vllm --kv-cache-dtype fp8_e4m3, sglang --kv-cache-dtype fp8_e4m3, trtllm --kv_cache_dtype fp8 size" "$work/text"
refuse "integers" 2 "[-]-attn int8:token: fp8_e4m3 or fp8_e5m2" "$pith" eval "$probe" --text "$probe/eval.txt" --attn int8:token
refuse "a scale of each head" 2 "[-]-attn fp8:head: fp8_e4m3" "$pith" eval "$probe" --text "$probe/eval.txt" --attn fp8:head
refuse "no grid" 2 "[-]-attn none: fp8_e4m3" "$pith" eval "$probe" --text "$probe/eval.txt" --attn none
finish
