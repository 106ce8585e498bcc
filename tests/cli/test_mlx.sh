#!/bin/sh
# Checkpoints as mlx-lm saves them: every form is read to the bit, whatever the config says of it.
set -u
. tests/cli/lib.sh
mini=$work/mini
python3 tests/cli/mini.py "$mini" layers=1 hidden=128 ffn=256

# reads NAME MINI OPTIONS...: what a made checkpoint stands for are the values that mlx.py says.
reads() {
    label=$1
    from=$2
    shift 2
    rm -rf "$work/mlx" "$work/want" "$work/got"
    python3 tests/cli/mlx.py "$from" "$work/mlx" "$work/want" "$@"
    check "$label: is read" "$pith" convert "$work/mlx" -o "$work/got" --container dense:f32 --quiet
    check "$label: as mlx reads it" python3 tests/cli/mlx.py same "$work/got" "$work/want"
}
# config FOLDER JSON: its config.json has these members too.
config() {
    python3 - "$@" <<'PY'
import json, sys
path = sys.argv[1] + "/config.json"
whole = json.load(open(path)) | json.loads(sys.argv[2])
json.dump(whole, open(path, "w"))
PY
}
forms="3x64 5x128 6x32 mxfp4"
thorough && forms="2x32 2x64 2x128 3x32 3x64 3x128 4x32 4x64 4x128 5x32 5x64 5x128 6x32 6x64 6x128 8x32 8x64 8x128
    mxfp4 mxfp8 nvfp4"
for form in $forms; do
    reads "$form" "$mini" "form=$form"
done
reads "scales in float16" "$mini" form=4x32 dtype=F16
reads "scales in float32" "$mini" form=5x32 dtype=F32 legacy=1
reads "forms by layer" "$mini" form=4x64 mixed=6x64
reads "of another group, under other names" "$mini" form=3x128 mixed=8x64 prefix=language_model.
reads "of another mode" "$mini" form=mxfp4 mixed=8x32

# --- experts in one tensor, and what else is otherwise ------------------------------------------
for arch in qwen3_moe mixtral; do
    python3 tests/cli/mini.py "$work/$arch" "$arch" layers=1 hidden=64 ffn=64
    reads "experts of $arch" "$work/$arch" form=4x64 mixed=8x64 stacked=1
done
config "$work/mlx" '{"num_local_experts": 3}'
refuse "experts of another number" 1 "is not that of 3 experts" "$pith" run "$work/mlx" -p The -n 1
cases="qwen3_next lfm2_moe"
thorough && cases="$cases qwen3_5 qwen3_5_moe lfm2"
for case in $cases; do
    python3 tests/cli/arch_case.py "$case" "$work/$case" "$work/$case.txt"
    python3 tests/cli/mlx.py shown "$work/$case" "$work/$case.mlx"
    "$pith" eval "$work/$case.mlx" --baseline "$work/$case" --text "$work/$case.txt" --max-tokens 64 --json --quiet >"$work/kl" &&
        python3 -c 'import json, sys; sys.exit(json.load(open(sys.argv[1]))["kld_max"] != 0)' "$work/kl" &&
        pass "$case: the same model" || fail "$case: the same model"
done
python3 tests/cli/arch_case.py deepseek_v3 "$work/latent" "$work/latent.txt"
python3 tests/cli/mlx.py shown "$work/latent" "$work/latent.mlx"
refuse "latent attention in parts" 1 'layers.0.self_attn.kv_b_proj" is in two parts, embed_q and unembed_out' \
    "$pith" run "$work/latent.mlx" -p a -n 1
check "it is quantized as any other" "$pith" quantize "$work/qwen3_next.mlx" -o "$work/next" -r rtn --weights int8:channel --quiet
check "with gains as they are known" "$pith" verify "$work/next" --against "$work/qwen3_next"

# --- what is done with them ----------------------------------------------------------------------
rm -rf "$work/mlx" "$work/want"
python3 tests/cli/mlx.py "$mini" "$work/mlx" "$work/want" form=mxfp4 mixed=8x32
config "$work/mlx" '{"quantization_config": {"quant_method": "fp8"}}' # what it was before
check "it speaks, whatever it was before" "$pith" run "$work/mlx" -p The -n 4
"$pith" inspect "$work/mlx" --json >"$work/inspect" && grep -q '"mlx"' "$work/inspect" && pass "the container has a name" ||
    fail "the container has a name"
rm -rf "$work/mlx" "$work/want"
python3 tests/cli/mlx.py "$mini" "$work/mlx" "$work/want" form=8x64
"$pith" eval "$work/mlx" --baseline "$work/want" --text "$probe/eval.txt" --max-tokens 256 --json --quiet >"$work/kl" &&
    python3 -c 'import json, sys; sys.exit(abs(json.load(open(sys.argv[1]))["kld_mean"]) > 1e-6)' "$work/kl" &&
    pass "computes what its values do" || fail "computes what its values do"
check "is quantized again" "$pith" quantize "$work/mlx" -o "$work/again" -r rtn --weights int4:g64 --quiet
check "again: verifies" "$pith" verify "$work/again" --against "$work/mlx"
grep -q '"quantized_from": "mlx"' "$work/again/pith.json" && pass "the account names the container" ||
    fail "the account names the container"
grep -q '"quantization"' "$work/again/config.json" && fail "its config has one quantization" || pass "its config has one quantization"
refuse "few bits are not quantized again in silence" 1 'requantize' \
    sh -c "python3 tests/cli/mlx.py '$mini' '$work/four' '$work/dense' form=4x64 && '$pith' quantize '$work/four' -o '$work/no' -r nvfp4"

# --- written -------------------------------------------------------------------------------------
# writes NAME OPTIONS...: made, and verified against the original.
writes() {
    rm -rf "$work/made"
    label=$1
    shift
    check "$label: is written" "$pith" quantize "$mini" -o "$work/made" --container mlx --quiet --calib-tokens 256 --seq-len 64 "$@"
    check "$label: verifies" "$pith" verify "$work/made" --against "$mini"
}
writes "zero points that are any numbers" -r rtn --weights int5:g32:asym:hqq
writes "small floats" -r rtn --weights mxfp4
writes "grids by layer" -r gptq --weights int4:g64 --override '*.v_proj=int6:g32'
python3 - "$work/made/config.json" <<'PY' && pass "the config is as mlx-lm reads it" || fail "the config is as mlx-lm reads it"
import json, sys
c = json.load(open(sys.argv[1]))
q = c["quantization"]
v = q["model.layers.0.self_attn.v_proj"]
sys.exit(q != c["quantization_config"] or (q["group_size"], q["bits"], q["mode"]) != (64, 4, "affine") or
         v != {"group_size": 32, "bits": 6, "mode": "affine"})
PY
check "codes go to another container" "$pith" convert "$work/made" -o "$work/gptq" --container compressed-tensors --quiet
check "and back" "$pith" convert "$work/gptq" -o "$work/back" --container mlx --quiet
cmp -s "$work/made/model.safetensors" "$work/back/model.safetensors" && pass "the same file" || fail "the same file"
grep -q '"quantization"' "$work/gptq/config.json" && fail "which says no longer what it was" ||
    pass "which says no longer what it was"
"$pith" quantize "$mini" -o "$work/awq" -r rtn --weights int4:g64:asym --container awq --quiet
check "zero points become biases" "$pith" convert "$work/awq" -o "$work/biases" --container mlx --quiet
python3 - "$work/biases/pith.json" <<'PY' && pass "rounded as scales are" || fail "rounded as scales are"
import json, sys
linears = json.load(open(sys.argv[1]))["linears"]
sys.exit({l["grid"] for l in linears} != {"int4:g64:asym:hqq"} or max(l["largest_change"] for l in linears) > 0.005)
PY
refuse "experts in one tensor are only read" 1 "in one tensor" "$pith" quantize "$work/qwen3_moe" -o "$work/no" -r rtn \
    --weights int4:g64 --container mlx
exit "$failed"
