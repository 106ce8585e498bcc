#!/bin/sh
# The forms that the largest open models are published in, as small shapes: DeepSeek-V3 in FP8 by blocks, gpt-oss with its
# experts in MXFP4. Each is quantized within the memory that is foretold, killed in between, resumed and verified.
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

# shellcheck disable=SC2086
make() { # SOURCE RECIPE OUT OPTIONS...
    source=$1 recipe=$2 out=$3
    shift 3
    "$pith" quantize "$work/$source" -o "$out" -r "$recipe" $few "$@"
}
faulty && kills=1 || kills=0
for source in deepseek oss; do
    for recipe in nvfp4 gptq q4_k_m; do
        out=$work/$source-$recipe
        [ $recipe = q4_k_m ] && out=$out.gguf
        label="$source, $recipe"
        bytes=$(make $source $recipe "$out" --rehearse --json | sed -n 's/.*"memory_expected_bytes": \([0-9]*\).*/\1/p')
        refuse "$label: with a tenth less than foretold" 1 'needs about .* MiB and --memory allows' \
            make $source $recipe "$out" --memory $((bytes * 9 / 10))
        [ $kills = 1 ] && killed_at 2 make $source $recipe "$out" --memory "$bytes"
        [ $kills = 1 ] && [ -e "$out" ] && fail "$label: nothing was killed"
        check "$label: within $((bytes / 1024)) KiB, resumed" make $source $recipe "$out" --memory "$bytes" --resume
        check "$label: verifies" "$pith" verify "$out" --against "$work/$source"
        check "$label: speaks" "$pith" run "$out" -p a -n 2
    done
done
check "a journal's run is one that nobody ended" make oss gptq "$work/whole"
same_model "killed or not, the same bytes" "$work/whole" "$work/oss-gptq"
[ $failed -eq 0 ]
