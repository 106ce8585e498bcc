#!/bin/sh
# A quantized KV cache: rounded when it is stored, its scales found by calibration and kept in the checkpoint,
# which then is measured and run as it says.
. "$(dirname "$0")/lib.sh"

# measure LABEL MODEL OPTIONS...: what is lost by its cache, beside the probe. Of several caches one process tells, since it
# reads the text with the floats but once.
measured=$work/measured
: >"$measured"
thorough && scored=1024 calibrated=2048 || scored=256 calibrated=512
limits="--text $probe/eval.txt --context 128 --max-tokens $scored"
measure() { # LABEL MODEL OPTIONS...: a line for each model that the report tells of
    label=$1
    shift
    # shellcheck disable=SC2086
    "$pith" eval "$@" $limits --json --quiet 2>/dev/null | python3 -c '
import json, sys
label, report = sys.argv[1], json.load(sys.stdin)
for m in report.get("models", [report]):
    print(label, m["kv"], m["kv_bits"], m["texts"][0].get("kld_mean"))' "$label" >>"$measured"
}
value() { # COLUMN LABEL
    awk -v column="$1" -v label="$2" '$1 == label { print $column; exit }' "$measured"
}
kld() { # LABEL
    value 4 "$1"
}
less() { # label a b factor: a <= b * factor
    awk -v a="$2" -v b="$3" -v f="$4" 'BEGIN { exit !(a != "" && b != "" && a + 0 <= b * f) }' &&
        pass "$1" || fail "$1: $2 against $3"
}

caches="int8:token q4_0 k=bf16,v=int4:g32 fp8_e4m3 int4:token int4:g32 int4:g32:asym int4:token,rotate turbo4
    int2:g32:asym int2:g32:asym,sink=4,recent=32 k=int8:token,v=int8:token kivi2 int2:g32:asym,recent=32 kivi4 kivi4,recent=32 f16 bf16"
thorough && caches="$caches q8_0 int8:g32 q4_1 k=int8:token,v=int4:g32 k=int4:g32,v=int8:token"
options=
for cache in $caches; do options="$options --kv $cache"; done
# shellcheck disable=SC2086
measure several "$probe" $options
# shellcheck disable=SC2086
printf '%s\n' f32 $caches | paste -d ' ' - "$measured" >"$work/several"
cost() { # CACHE, as it was asked for
    awk -v name="$1" '$1 == name { print $5 }' "$work/several"
}
bits() { # CACHE
    awk -v name="$1" '$1 == name { print $4 }' "$work/several"
}
check "several caches against one pass" sh -c "awk '{ print \$2, \$3 }' '$measured' | head -n 4 | tr '\n' ' ' |
    grep -q '^f32 32.0 int8:token 8.5 q4_0 4.5 k=bf16,v=int4:g32 10.25 $'"
eight=$(cost int8:token)
less "8 bits a head and token" 1e-7 "$eight" 1
less "cost next to nothing" "$eight" 0.0005 1
less "half precision costs less than bfloat16" "$(cost f16)" "$(cost bf16)" 0.5
[ "$(bits f16)" = 16.0 ] && pass "and takes the same" || fail "half precision: $(bits f16) bits"
less "FP8 costs more than 8 bits" "$eight" "$(cost fp8_e4m3)" 0.5
less "4 bits cost more" "$eight" "$(cost int4:token)" 0.1
less "groups help, and zero points" "$(cost int4:g32:asym)" "$(cost int4:token)" 0.7
refuse "types of weights are refused" 2 'of GGUF.s types q4_0, q4_1, q5_0, q5_1, q8_0, iq4_nl can hold' \
    "$pith" eval "$probe" --text "$probe/eval.txt" --kv q4_k
for threads in 1 3; do measure on$threads "$probe" --baseline "$probe" --kv int4:g32 --threads $threads; done
[ -n "$(kld on1)" ] && [ "$(kld on1)" = "$(kld on3)" ] && pass "same on any number of threads" || fail "threads show"
[ "$(kld on1)" = "$(cost int4:g32)" ] && pass "and in one pass with others" || fail "one cache alone: $(cat "$measured")"
[ "$(cost k=int8:token,v=int8:token)" = "$eight" ] && pass "keys and values by name" || fail "k=,v= is something else"
if thorough; then
    less "q8_0 costs what int8 in groups of 32 costs" "$(cost q8_0)" "$(cost int8:g32)" 1.2
    less "q4_1 less than q4_0" "$(cost q4_1)" "$(cost q4_0)" 1
    less "2 bits cost much" "$(cost int4:g32:asym)" "$(cost int2:g32:asym)" 0.2
    less "values take fewer bits than keys" "$(cost k=int8:token,v=int4:g32)" "$(cost k=int4:g32,v=int8:token)" 1
fi
less "rotation helps" "$(cost int4:token,rotate)" "$(cost int4:token)" 0.7
less "and so do levels of normal numbers, in fewer bits" "$(cost turbo4)" "$(cost int4:token)" 0.7
refuse "no such levels" 2 'turbo5' "$pith" eval "$probe" --text "$probe/eval.txt" --kv turbo5
less "the newest in 16 bits help" "$(cost int2:g32:asym,sink=4,recent=32)" "$(cost int2:g32:asym)" 0.7
[ "$(bits int2:g32:asym,sink=4,recent=32)" = 10.75 ] && pass "and cost their bits" || fail "bits: $(cat "$measured")"
less "keys by channel in 2 bits help" "$(cost kivi2)" "$(cost int2:g32:asym,recent=32)" 0.6
[ "$(bits kivi2)" = 7.0 ] && pass "3 bits, and a page in 16" || fail "bits: $(bits kivi2)"
[ -n "$(cost kivi4)" ] && [ "$(cost kivi4)" = "$(cost kivi4,recent=32)" ] && pass "a page is seen in 16 bits until it is full" ||
    fail "recent=32 is something else"
refuse "no such groups" 2 'kivi3' "$pith" eval "$probe" --text "$probe/eval.txt" --kv kivi3
check "speaks by channel in some layers" sh -c "'$pith' run '$probe' -p 'Once upon a time' -n 40 --quiet --kv int8:token --kv-layer 0=k=kivi2 | grep -q ."
refuse "not by layer" 2 'for all layers' "$pith" eval "$probe" --text "$probe/eval.txt" --kv int4:g32 --kv-layer 0=int4:g32,sink=4
refuse "half a name" 2 'keys and values each once' "$pith" eval "$probe" --text "$probe/eval.txt" --kv k=int8:token
measure byte "$probe" --baseline "$probe" --kv int4:g32 --kv-layer '*=int8:token'
[ "$(kld byte)" = "$eight" ] && pass "all layers by a pattern" || fail "--kv-layer: $(kld byte) is not $eight"
measure keys "$probe" --baseline "$probe" --kv int4:g32 --kv-layer 'layers.?=k=bf16'
less "one side of some layers" "$(kld keys)" "$(cost int4:g32)" 0.5
measure bits "$probe" --baseline "$probe" --kv int4:g32 --kv-layer 1=bf16
[ "$(value 3 bits)" = 6.41666667 ] && pass "bits of all layers" || fail "kv_bits by layer"
refuse "a pattern of no layer" 2 'matches no layer' "$pith" eval "$probe" --text "$probe/eval.txt" --kv-layer 99=bf16
refuse "a pattern of no layer, run" 2 'matches no layer' "$pith" run "$probe" -p x --kv-layer 99=bf16
refuse "a pattern without a grid" 2 'expected PATTERN=GRID' "$pith" bench "$probe" --kv-layer bf16
check "speaks" sh -c "'$pith' run '$probe' -p 'Once upon a time' -n 12 --quiet --kv-layer 0=int8:token --kv-layer 1=v=q4_0 | grep -q ."
check "timed" sh -c "'$pith' bench '$probe' --prompt 16 --gen 4 --reps 1 --kv int8:token --kv-layer 1=v=q4_0 --json >'$work/b.json' \
    2>/dev/null && python3 -c \"import json; b = json.load(open('$work/b.json')); assert b['kv'] == 'int8:token' and len(b['kv_layers']) == 6\""
cp -r tests/golden/eval/tiny "$work/tiny"
refuse "auto without bits" 2 'mean bits of a number' "$pith" run "$work/tiny" -p x --kv auto:many
refuse "auto that nobody measured" 2 'pith eval --kv auto:5.5 makes it' "$pith" bench "$work/tiny" --prompt 0 --gen 1 --reps 1 --kv auto:5.5
auto() {
    "$pith" eval "$work/tiny" --text "$probe/eval.txt" --context 64 --max-tokens 200 --kv auto:5.5 --kv turbo2 --kv int3:token \
        --json --quiet 2>/dev/null | python3 -c "
import json, sys
m = json.load(sys.stdin)['models'][1:]
assert m[0]['kv'] == 'auto:5.5' and m[0]['kv_bits'] <= 5.5 and len(m[0]['kv_layers']) == 2, m[0]
print(m[0]['kv_layers'], *[x['texts'][0]['kld_mean'] for x in m])"
}
"$pith" run "$work/tiny" -p x -n 1 --kv auto:5.5 2>&1 >/dev/null | grep -q '^pith: KV cache auto:5.5: formats are measured now' &&
    pass "and told where nothing shows its progress" || fail "measuring is not told"
rm "$work/tiny/pith.kv.json"
auto >"$work/auto1"
check "auto is measured and recorded" test -s "$work/tiny/pith.kv.json"
cp "$work/tiny/pith.kv.json" "$work/record"
auto >"$work/auto2"
check "the same again" cmp "$work/auto1" "$work/auto2"
check "of the record, which stays" cmp "$work/record" "$work/tiny/pith.kv.json"
check "of no more than uniform choices, which were measured too" python3 -c "
import json
a, = json.load(open('$work/record'))['assignments']
assert 0 < a['kld_capped'] <= min(a['kld_capped_first'], a['kld_capped_uniform']), a
assert 1 < a['measured'] <= 20 and a['tokens'] == 4096 and a['kld_sum'] > 0, a"
check "then bench takes it" "$pith" bench "$work/tiny" --prompt 0 --gen 1 --reps 1 --kv auto:5.5 --quiet
check "and another budget's by what was measured of layers" "$pith" bench "$work/tiny" --prompt 0 --gen 1 --reps 1 --kv auto:7 --quiet
check "which is recorded without a measurement" python3 -c "
import json
a = json.load(open('$work/tiny/pith.kv.json'))['assignments'][1]
assert a['budget'] == 7 and 'measured' not in a and a['kld_sum'] > 0, a"
check "a record is no part of what is quantized" sh -c "'$pith' quantize '$work/tiny' -o '$work/tiny-q' -r rtn --weights int8:channel --quiet && test ! -e '$work/tiny-q/pith.kv.json' && '$pith' verify '$work/tiny-q' --against '$work/tiny' --quiet"
check "levels too, for what is chosen" test -s "$work/tiny/pith.kvquant.json"
rm "$work/tiny/pith.kvquant.json"
refuse "levels that nobody made" 2 'pith eval --kv kvquant4 makes it' "$pith" bench "$work/tiny" --prompt 0 --gen 1 --reps 1 --kv kvquant4
refuse "levels are not rotated" 2 'as they are' "$pith" bench "$work/tiny" --kv k=kvquant4,v=bf16,rotate
mkdir "$work/nuq"
cp "$probe"/*.* "$work/nuq"
measure nuq1 "$work/nuq" --baseline "$work/nuq" --kv kvquant3
check "levels are made and recorded" test -s "$work/nuq/pith.kvquant.json"
cp "$work/nuq/pith.kvquant.json" "$work/record"
measure nuq2 "$work/nuq" --baseline "$work/nuq" --kv kvquant3 --threads 1
[ -n "$(kld nuq1)" ] && [ "$(kld nuq1)" = "$(kld nuq2)" ] && pass "the same again" || fail "levels differ: $(kld nuq1) $(kld nuq2)"
check "of the record, which stays" cmp "$work/record" "$work/nuq/pith.kvquant.json"
measure int3 "$probe" --baseline "$probe" --kv int3:g32:asym,sink=1
less "levels where numbers lie help" "$(kld nuq1)" "$(kld int3)" 0.7
check "speaks over levels in some layers" sh -c "'$pith' run '$work/nuq' -p 'Once upon a time' -n 40 --quiet --kv int8:token --kv-layer 0=k=kvquant2 | grep -q ."
check "then bench takes it" "$pith" bench "$work/nuq" --prompt 40 --gen 2 --reps 1 --kv kvquant2 --quiet
check "a record is no part of what is quantized" sh -c "'$pith' quantize '$work/nuq' -o '$work/nuq-q' -r rtn --weights int8:channel --quiet && test ! -e '$work/nuq-q/pith.kvquant.json'"
sed -i 's/"beyond": [0-9]*/"beyond": -3/' "$work/nuq/pith.kvquant.json"
refuse "a damaged record" 1 "no levels of this model's layers" "$pith" run "$work/nuq" -p x -n 1 --kv kvquant4
"$pith" eval "$probe" --text "$probe/eval.txt" --context 128 --max-tokens 128 --kv int8:token --kv q4_0 --quiet >"$work/table" 2>/dev/null
check "as a table" grep -q '^q4_0  *4.50 ' "$work/table"
deep="--text $probe/eval.txt --context 128 --max-tokens 512 --depth"
"$pith" eval "$probe" $deep --kv int8:token --kv q4_0 --quiet >"$work/deep" 2>/dev/null
[ "$(grep -c '^  [0-9]*-[0-9]*  ' "$work/deep")" = 32 ] && pass "KL by position, a curve a cache" || fail "no curves: $(cat "$work/deep")"
"$pith" eval "$probe" $deep --kv int4:g32 --baseline "$probe" --json --quiet 2>/dev/null | python3 -c "
import json, sys
t = json.load(sys.stdin)
d = t['depth']
assert [d[0]['from'], d[-1]['to'], len(d)] == [0, 128, 16] and sum(x['tokens'] for x in d) == t['tokens']
assert abs(sum(x['tokens'] * x['kld'] for x in d) / t['tokens'] - t['kld_mean']) < 1e-8
assert all(x['kld_ci95'][0] <= x['kld'] <= x['kld_ci95'][1] for x in d)" && pass "in JSON, with intervals" || fail "depth in JSON"
check "in the page" sh -c "'$pith' compare '$probe' '$probe' $deep --kv q4_0 -o '$work/deep.html' --quiet >/dev/null 2>&1 && grep -q 'position in the window' '$work/deep.html'"
refuse "a page is needed" 2 'does nothing without -o PAGE.html' "$pith" compare "$probe" "$probe" $deep
refuse "positions are of texts" 2 'does nothing without --text' "$pith" eval "$probe" --tasks copy --depth
refuse "several caches are not compare's" 2 'pith eval compares caches' "$pith" compare "$probe" "$probe" --text "$probe/eval.txt" --kv bf16 --kv fp8
for g in bf16 int8:token int4:g32:asym fp8 k=q8_0,v=q4_1; do
    check "speaks over $g" sh -c "'$pith' run '$probe' -p 'Once upon a time' -n 12 --quiet --kv $g | grep -q ."
done

thorough && containers="compressed-tensors modelopt" || containers=modelopt
for container in $containers; do
    out=$work/$container
    check "scales by $container" "$pith" quantize "$probe" -o "$out" -r fp8-static --kv fp8 --container $container \
        --calib-tokens $calibrated --seq-len 256 --quiet
    check "verified, $container" "$pith" verify "$out" --against "$probe" --quiet
    measure "$container" "$out" --baseline "$probe"
    measure "$container-f32" "$out" --baseline "$probe" --kv f32
    [ "$(value 2 "$container")" = fp8_e4m3:tensor:static ] && pass "measured as the checkpoint says" ||
        fail "the checkpoint says something else: $(value 2 "$container")"
    [ "$(value 2 "$container-f32")" = f32 ] && pass "or as asked for" || fail "--kv f32 is not heard"
    less "the cache adds its own" "$(kld "$container-f32")" "$(kld "$container")" 1
done

# Scales by head, and those of nvfp4; a scale that a checkpoint stores is heard: 4096 times as large it rounds much away.
for k in compressed-tensors,fp8:head,fp8_e4m3:head:static modelopt,nvfp4,nvfp4:static; do
    grid=${k#*,} out=$work/by
    rm -rf "$out"
    check "scales of ${grid%,*}" "$pith" quantize "$probe" -o "$out" -r fp8-static --kv "${grid%,*}" --container "${k%%,*}" \
        --calib-tokens $calibrated --seq-len 256 --quiet
    check "verified" "$pith" verify "$out" --against "$probe" --quiet
    measure "$k" "$out" --baseline "$probe"
    [ "$(value 2 "$k")" = "${grid#*,}" ] && pass "measured as the checkpoint says" || fail "it says $(value 2 "$k")"
    python3 - "$out/model.safetensors" <<'PY'
import json, struct, sys
data = bytearray(open(sys.argv[1], "rb").read())
size = struct.unpack("<Q", data[:8])[0]
for name, t in json.loads(data[8:8 + size]).items():
    if name.endswith((".k_scale", ".v_scale")):
        at, end = (8 + size + o for o in t["data_offsets"])
        count = (end - at) // 4
        assert t["shape"] in ([1], [count, 1, 1]), t
        values = struct.unpack("<%df" % count, data[at:end])
        data[at:end] = struct.pack("<%df" % count, *(4096 * v for v in values))
open(sys.argv[1], "wb").write(data)
PY
    measure "$k-spoilt" "$out" --baseline "$probe"
    less "and with its scales" "$(kld "$k")" "$(kld "$k-spoilt")" 0.9
done
check "converted" "$pith" convert "$work/modelopt" -o "$work/to-ct" --container compressed-tensors --quiet
check "and verified against its input" "$pith" verify "$work/to-ct" --against "$work/modelopt" --quiet
check "and back" "$pith" convert "$work/to-ct" -o "$work/to-modelopt" --container modelopt --quiet
for to in to-ct to-modelopt; do measure $to "$work/$to" --baseline "$probe"; done
[ -n "$(kld to-ct)" ] && [ "$(kld to-ct)" = "$(kld to-modelopt)" ] && pass "with the same scales" || fail "scales got lost"
refuse "to a container without a place for it" 1 'no place for the KV-cache' "$pith" convert "$work/to-ct" -o "$work/no" \
    --container gptq

# Keys with biases, which are kept out of what is rounded.
python3 bench/key_biases.py "$probe" "$work/biased"
biased="int4:g32 int4:g32,offset turbo4,offset f32,offset q4_0,rotate q4_0,rotate,offset int4:g32,offset=middle"
options=
for cache in $biased; do options="$options --kv $cache"; done
: >"$measured"
# shellcheck disable=SC2086
measure biased "$work/biased" $options
# shellcheck disable=SC2086
printf '%s\n' f32 $biased | paste -d ' ' - "$measured" >"$work/several"
less "nothing is lost of floats" "$(cost f32,offset)" 1e-6 1
less "4 bits cost a twentieth where biases are kept out" "$(cost int4:g32,offset)" "$(cost int4:g32)" 0.05
less "rotated too a fifth" "$(cost q4_0,rotate,offset)" "$(cost q4_0,rotate)" 0.2
less "levels of normal numbers too" "$(cost turbo4,offset)" "$(cost int4:g32)" 0.05
less "and middles of channels more" "$(cost int4:g32,offset=middle)" "$(cost int4:g32,offset)" 0.6
[ "$(bits int4:g32,offset)" = 4.5 ] && pass "and no bit more" || fail "bits: $(bits int4:g32,offset)"
for cache in int4:g32 turbo4 kivi4 int8:token int4:g32,offset; do
    "$pith" eval "$work/biased" --text "$probe/eval.txt" --context 32 --max-tokens 32 --kv $cache 2>&1 >/dev/null |
        grep -q '^warning: .*,offset behind it' && echo $cache
done >"$work/warned"
[ "$(tr '\n' ' ' <"$work/warned")" = "int4:g32 turbo4 " ] && pass "what they ruin is warned of" || fail "warned: $(cat "$work/warned")"
python3 bench/key_biases.py tests/golden/eval/tiny "$work/tiny-biased" 12
choose_biased() { "$pith" eval "$work/tiny-biased" --text "$probe/eval.txt" --context 64 --max-tokens 64 --kv auto:4.5 --quiet; }
record="$work/tiny-biased/pith.kv.json"
check "auto tries what keeps them out" choose_biased
check "of keys, and values have names without" python3 - "$record" <<'PY'
import json, sys
rows = json.load(open(sys.argv[1]))["rows"]
names = {side: {r["grid"] for r in rows if r["part"].endswith("." + side)} for side in "kv"}
assert "turbo4,offset=middle" in names["k"] and "turbo4" not in names["k"], names
assert "turbo4" in names["v"] and not any("offset" in n for n in names["v"]), names
PY
cp "$record" "$work/recorded.json"
choose_biased >/dev/null 2>&1 && cmp -s "$work/recorded.json" "$record" && pass "what was recorded is not measured again" ||
    fail "a record was made anew"
sed 's/turbo4,offset=middle/turbo4/' "$work/recorded.json" >"$record"
choose_biased >/dev/null 2>&1 && cmp -s "$work/recorded.json" "$record" && pass "other candidates are" ||
    fail "a record of other candidates was used"
refuse "where keys have none" 1 'have no biases' "$pith" eval "$probe" --text "$probe/eval.txt" --kv int4:g32,offset
finish
