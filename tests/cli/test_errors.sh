#!/bin/sh
# Linears that rounding leaves little of: told as a warning above 0.3, refused above 0.5 unless that is allowed.
set -u
. tests/cli/lib.sh
python3 tests/cli/mini.py "$work/mini" layers=1 hidden=128 ffn=128

# A copy with other bf16 weights in a linear: all of one value, or one large one.
spoil() { # NAME LINEAR all|one VALUE
    cp -r "$work/mini" "$work/$1"
    python3 - "$work/$1/model.safetensors" "$2" "$3" "$4" <<'PY'
import json, struct, sys
path, name, which, value = sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4])
data = bytearray(open(path, "rb").read())
n = struct.unpack("<Q", data[:8])[0]
begin, end = next(t["data_offsets"] for k, t in json.loads(data[8:8 + n]).items() if k.endswith(name + ".weight"))
begin, end = 8 + n + begin, 8 + n + end
word = struct.pack("<f", value)[2:]
if which == "all":
    data[begin:end] = word * ((end - begin) // 2)
else:
    data[begin:begin + 2] = word
open(path, "wb").write(data)
PY
}
spoil huge up_proj one 3e38
spoil tiny q_proj all 1e-8
quantize() { # MODEL OUT OPTIONS...
    model=$1
    out=$2
    shift 2
    "$pith" quantize "$work/$model" -o "$work/$out" "$@"
}

refuse "levels that a half does not hold" 1 'q_proj: would differ from the original by 1 of it.*--allow-error 1' \
    quantize tiny out -r squeezellm --split none --calib-tokens 256 --seq-len 64 --quiet
[ -e "$work/out" ] || [ -e "$work/out.partial" ] && fail "nothing is left of it" || pass "nothing is left of it"
refuse "scales that a half does not hold" 1 'q_proj: would differ .*--ignore' quantize tiny out.gguf -r q8_0 --quiet
refuse "a weight of 3e38, and all others with it" 1 'up_proj: would differ from the original by 1 of it' \
    quantize huge out -r nvfp4 --quiet
refuse "what is not allowed" 1 'differ from the original by 0.*; 0.2 is allowed' \
    quantize mini out -r rtn --weights int2:tensor --quiet --allow-error 0.2
check "unless it is allowed" quantize mini two -r rtn --weights int2:tensor --allow-error 1
grep -q 'warning  .*linears differ from the original by more than 0.3 of it; the most 0\.' "$work/stdout" &&
    pass "and told" || fail "not told: $(cat "$work/stdout")"
python3 - "$work/two/pith.json" <<'PY' && pass "in the account too" || fail "not in the account"
import json, sys
j = json.load(open(sys.argv[1]))
far = {l["name"]: l["relative_error"] for l in j["linears"] if l["relative_error"] > 0.3}
sys.exit(not far or {w["linear"]: w["relative_error"] for w in j["warnings"]} != far)
PY
check "verifies" "$pith" verify "$work/two" --against "$work/mini"
check "four bits" quantize mini four -r rtn
grep -q warning "$work/stdout" && fail "a warning for four bits" || pass "have no warning"
refuse "a conversion that loses most" 1 'q_proj: would differ .* --allow-error' \
    "$pith" convert "$work/four" -o "$work/no" --container bitsandbytes --weights bnb_fp4:g64 --allow-error 0.01 --quiet
refuse "less than nothing" 2 'allow-error -1: above 0' quantize mini out -r rtn --allow-error -1
finish
