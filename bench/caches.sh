#!/bin/sh
# What each KV cache costs: bits a number, and KL against a cache in float32 with its 95% interval, by model and text.
#
#     bench/caches.sh [CONTEXT [TOKENS [CACHE...]]]     (512 8192 and the list below)
set -eu
context=${1:-512}
tokens=${2:-8192}
pith=${PITH:-build/pith}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
caches="f16 bf16 int8:token q8_0 k=int8:token,v=int4:g32 fp8_e4m3 fp8_e4m3:token fp8_e5m2 q5_1 q5_0 iq4_nl q4_1 int4:g32:asym int4:g32
    q4_0 k=int4:g32,v=int8:token mxfp8 mxfp4 nvfp4 int4:g32,rotate int4:g32:asym,rotate int4:token,rotate
    int3:g32:asym,rotate int2:g32:asym,rotate turbo4 turbo3 turbo2 k=turbo4,v=turbo3
    int4:g32,sink=4,recent=128 int2:g32:asym,sink=4,recent=32 int2:g32:asym,sink=4,recent=128 turbo3,sink=4,recent=128
    turbo2,sink=4,recent=128 int4:token int3:g32:asym int2:g32:asym kivi4 kivi2 k=kivi2,v=kivi4 kivi4,sink=4,recent=128
    kivi2,sink=4,recent=128 int4:g32:asym,recent=32 int2:g32:asym,recent=32
    kvquant4 kvquant3 kvquant2 kvquant4,recent=32 kvquant3,recent=32 kvquant2,recent=32 kvquant4,sink=4,recent=128
    kvquant2,sink=4,recent=128 k=kvquant3,v=kvquant4"
if [ $# -gt 2 ]; then
    shift 2
    caches="$*"
fi
args=
for c in $caches; do args="$args --kv $c"; done
for model in models/probe models/probe-moe; do
    cp -r "$model" "$work" # levels are kept beside the weights
    for text in models/probe/eval.txt models/probe-moe/rare/italian.txt; do
        # shellcheck disable=SC2086
        "$pith" eval "$work/$(basename "$model")" --text "$text" --context "$context" --max-tokens "$tokens" $args --json --quiet \
            >"$work/$(basename "$model")_$(basename "$text" .txt).json" 2>/dev/null
    done
done
python3 - "$work" <<'PY'
import glob, json, os, sys
files = sorted(glob.glob(sys.argv[1] + "/*.json"))
runs = [json.load(open(f))["models"][1:] for f in files]
print("| cache | bits |" + "".join(" %s |" % os.path.basename(f)[:-5].replace("_", ", ") for f in files))
print("|---|---:|" + "---:|" * len(files))
for row in sorted(zip(*runs), key=lambda r: r[0]["texts"][0]["kld_mean"]):
    cells = ["%.3g (%.3g to %.3g)" % tuple(1000 * x for x in [t["kld_mean"]] + t["kld_ci95"])
             for t in (m["texts"][0] for m in row)]
    print("| `%s` | %.2f | %s |" % (row[0]["kv"], row[0]["kv_bits"], " | ".join(cells)))
PY
