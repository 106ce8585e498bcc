#!/bin/sh
# Grids beyond integers: rounded row by row from the mapped file, with scales that rows, blocks or fused
# linears share; the same bytes by any number of threads, and as GPTQ's path makes them.
set -u
. tests/cli/lib.sh
mini=$work/mini
python3 tests/cli/mini.py "$mini" layers=2 hidden=160 ffn=320
model=$mini
container=compressed-tensors

make() { # OUT OPTIONS...: of $model
    out=$1
    shift
    "$pith" quantize "$model" -o "$out" --quiet -r rtn --container "$container" \
        --calib-tokens 256 --seq-len 64 "$@"
}
round_trip() { # GRID
    to=$work/$(echo "$1" | tr : _)
    check "$1" make "$to" --weights "$1" --threads 1
    check "$1: verifies" "$pith" verify "$to" --against "$mini"
    check "$1: again by three threads" make "$to-3" --weights "$1" --threads 3
    same_model "$1: the same bytes" "$to" "$to-3"
}
grids="fp8_e4m3:tensor:mse fp8_e4m3:block128 mxfp4:mse mxfp6:even nvfp4"
thorough && grids="$grids fp8_e4m3:tensor fp8_e4m3:channel mxfp4 mxfp8:ceil nvfp4:mse"
for grid in $grids; do
    round_trip "$grid"
done
container=bitsandbytes
thorough && grids="nf4:g32 nf4:g32:dq bnb_fp4:g32:dq" || grids=nf4:g32:dq
for grid in $grids; do
    round_trip "$grid"
done
container=hqq
thorough && grids="int4:g32:asym:hqq int3:g32:asym:hqq" || grids=int3:g32:asym:hqq
for grid in $grids; do
    round_trip "$grid"
done
check "hqq by GPTQ" make "$work/hqq-gptq" -r gptq --weights int4:g32:asym:hqq
check "hqq by GPTQ: verifies" "$pith" verify "$work/hqq-gptq" --against "$mini"
refuse "hqq holds no whole zero points" 1 "any numbers" make "$work/no" --weights int4:g32:asym
container=compressed-tensors
refuse "nobody else holds zero points that are no whole numbers" 1 "container hqq" make "$work/no" \
    --weights int4:g32:asym:hqq

# One scale of the tensor for q, k and v, and for gate and up: nvfp4's beside the blocks', FP8's only one.
model=$probe
shared() { # OUT TENSOR
    python3 - "$1/model.safetensors" "$2" <<'PY'
import json, struct, sys
data = open(sys.argv[1], "rb").read()
size = struct.unpack("<Q", data[:8])[0]
header = json.loads(data[8 : 8 + size])
def scale(layer, name):
    first, end = header[f"model.layers.{layer}.{name}_proj.{sys.argv[2]}"]["data_offsets"]
    return data[8 + size + first : 8 + size + end]
for layer in (0, 1):
    q, k, v, o = (scale(layer, "self_attn." + n) for n in "qkvo")
    gate, up, down = (scale(layer, "mlp." + n) for n in ("gate", "up", "down"))
    assert q == k == v and gate == up, (q, k, v, gate, up)
    assert len({q, o, gate, down}) > 1
PY
}
fused() { # GRID RECIPE
    to=$work/probe-$2-$(echo "$1" | tr : _)
    check "$1 $2" make "$to" --weights "$1" -r "$2"
    check "$1 $2: verifies" "$pith" verify "$to" --against "$probe"
    case $1 in nvfp4*) tensor=weight_global_scale ;; *) tensor=weight_scale ;; esac
    check "$1 $2: fused linears share a scale" shared "$to" $tensor
}
fused nvfp4 gptq
fused fp8_e4m3:tensor rtn
if thorough; then
    fused nvfp4 rtn
    fused nvfp4:mse rtn
    fused nvfp4 awq
    fused fp8_e4m3:tensor gptq
    fused fp8_e4m3:tensor awq
fi
refuse "hqq without zero points" 2 "asym" make "$work/no" --weights int4:g32:hqq
refuse "two rules for a power of two" 2 "one of" make "$work/no" --weights mxfp4:even:mse
refuse "scales quantized again, of integers" 2 "cannot be put" make "$work/no" --weights int4:g64:dq
finish
