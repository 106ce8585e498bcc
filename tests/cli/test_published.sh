#!/bin/sh
# The forms that the largest open models are published in, as small shapes: DeepSeek-V3 in FP8 by blocks, gpt-oss with its
# experts in MXFP4, GGUF files of types that others make. Each is quantized within the memory that is foretold, killed in between,
# resumed and verified.
set -u
. tests/cli/lib.sh
make_model=${BUILD:-build}/tools/make_synthetic
few="--calib-tokens 256 --seq-len 128 --threads 2 --quiet --allow-error 2 --requantize"
"$make_model" tiny-deepseek "$work/dense" 2>/dev/null
check "DeepSeek-V3 in FP8" "$pith" quantize "$work/dense" -o "$work/deepseek" -r fp8-block --container fp8 --quiet
"$make_model" tiny-gpt-oss "$work/oss-dense" 2>/dev/null
python3 - "$work/oss-dense" "$work/oss" <<'PY'
import json, os, random, shutil, sys
sys.path.insert(0, "tests/cli")
from mini import read_safetensors, write_safetensors
dense, out = sys.argv[1:]
rng, tensors = random.Random(1), {}
shutil.copytree(dense, out)
for name, tensor in read_safetensors(dense + "/model.safetensors").items():
    if not name.endswith(("experts.gate_up_proj", "experts.down_proj")):
        tensors[name] = tensor
        continue
    experts, cols, rows = tensor[1]
    count = experts * rows * cols // 32
    tensors[name + "_blocks"] = ("U8", [experts, rows, cols // 32, 16], rng.randbytes(16 * count))
    tensors[name + "_scales"] = ("U8", [experts, rows, cols // 32], bytes(b % 3 + 119 for b in rng.randbytes(count)))
write_safetensors(out + "/model.safetensors", tensors)
config = json.load(open(out + "/config.json"))
config["quantization_config"] = {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]}
json.dump(config, open(out + "/config.json", "w"))
PY

# GGUF files of types that are read only (blocks by chance), and of those that pith makes.
read_only=iq2_xs made=
thorough && read_only="iq1_s iq1_m iq2_xxs iq2_xs iq2_s iq3_xxs iq3_s" made="iq4_nl iq4_xs q2_k q3_k q4_k q5_k q6_k"
python3 tests/cli/mini.py "$work/mini" layers=2 hidden=256 ffn=256
"$pith" convert "$work/mini" -o "$work/mini.gguf" --quiet
for type in $read_only; do
    python3 tests/cli/gguf_forms.py "$work/mini.gguf" retype "$type" "$work/$type.gguf"
done
for type in $made; do
    check "$type" "$pith" quantize "$work/mini" -o "$work/$type.gguf" -r rtn --weights "$type" --quiet
done

# shellcheck disable=SC2086
make() { # SOURCE RECIPE OUT OPTIONS...
    model=$1 recipe=$2 out=$3
    shift 3
    "$pith" quantize "$model" -o "$out" -r "$recipe" $few "$@"
}
faulty && kills=1 || kills=0
for source in deepseek oss $read_only $made; do
    from=$work/$source
    [ -e "$from" ] || from=$from.gguf
    for recipe in nvfp4 gptq q4_k_m; do
        out=$work/$source-$recipe
        [ $recipe = q4_k_m ] && out=$out.gguf
        label="$source, $recipe"
        bytes=$(make "$from" $recipe "$out" --rehearse --json | sed -n 's/.*"memory_expected_bytes": \([0-9]*\).*/\1/p')
        allowed=$((bytes + 393216)) # what the process holds by itself differs so from run to run
        refuse "$label: with a tenth less than foretold" 1 'needs about .* MiB and --memory allows' \
            make "$from" $recipe "$out" --memory $((bytes * 9 / 10))
        [ $kills = 1 ] && killed_at 2 make "$from" $recipe "$out" --memory $allowed
        [ $kills = 1 ] && [ -e "$out" ] && fail "$label: nothing was killed"
        check "$label: within $((allowed / 1024)) KiB, resumed" make "$from" $recipe "$out" --memory $allowed --resume
        check "$label: verifies" "$pith" verify "$out" --against "$from"
        check "$label: speaks" "$pith" run "$out" -p a -n 2
        [ "$source$recipe" = ossgptq ] || rm -rf "$out" "$out".*
    done
done
check "a journal's run is one that nobody ended" make "$work/oss" gptq "$work/whole"
same_model "killed or not, the same bytes" "$work/whole" "$work/oss-gptq"
[ $failed -eq 0 ]
