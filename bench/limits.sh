#!/bin/sh
# How near the machine's limits: one table over formats, modes, tiers, threads and depths, by `pith bench`. Rounds are
# interleaved over the rows, so that all see the same disturbances of the machine; medians count.
#
#     bench/limits.sh MODEL...
#
# MODEL        a folder with a dense checkpoint, whose linears each row rounds on load; or with a quantized one, which is
#              timed as it is stored
# In the environment: PITH (build/pith), ROUNDS (3), ROWS (a pattern of row names, default all), RAW (a folder that
# keeps what pith said).
set -eu
[ $# -ge 1 ] || {
    sed -n '2,/^set/s/^# \{0,1\}//p' "$0"
    exit 2
}
pith=${PITH:-build/pith}
rounds=${ROUNDS:-3}
raw=${RAW:-}
if [ -z "$raw" ]; then
    raw=$(mktemp -d)
    trap 'rm -rf "$raw"' EXIT
fi
mkdir -p "$raw"

# name | what | options of pith bench
rows='decode-int4-exact|decode|--weights int4:g128
decode-int4-fast|decode|--weights int4:g128 --mode fast
decode-int4-fast-1t|decode|--weights int4:g128 --mode fast --threads 1
decode-int4-asym-fast|decode|--weights int4:g128:asym --mode fast
decode-int8-exact|decode|--weights int8:channel
decode-int8-fast|decode|--weights int8:channel --mode fast
decode-fp8|decode|--weights fp8_e4m3:channel
decode-nf4|decode|--weights nf4:g64
decode-mxfp4|decode|--weights mxfp4
decode-nvfp4|decode|--weights nvfp4
decode-bf16|decode|
decode-int4-exact-avx2|decode|--weights int4:g128 --cpu avx2
decode-int4-fast-avx2|decode|--weights int4:g128 --mode fast --cpu avx2
depth-4096|decode|--weights int4:g128 --mode fast --depth 4096
depth-16384|decode|--weights int4:g128 --mode fast --depth 16384
prefill-int4-exact|prefill|--weights int4:g128
prefill-int4-exact-1t|prefill|--weights int4:g128 --threads 1
prefill-int4-fast|prefill|--weights int4:g128 --mode fast
prefill-int8-fast|prefill|--weights int8:channel --mode fast
prefill-int4-exact-avx2|prefill|--weights int4:g128 --cpu avx2
prefill-int4-fast-avx2|prefill|--weights int4:g128 --mode fast --cpu avx2
prefill-bf16|prefill|'

stored='decode-exact|decode|
decode-fast|decode|--mode fast
decode-exact-1t|decode|--threads 1
decode-fast-1t|decode|--mode fast --threads 1
decode-fast-avx2|decode|--mode fast --cpu avx2
depth-4096|decode|--mode fast --depth 4096
depth-16384|decode|--mode fast --depth 16384
prefill-exact|prefill|
prefill-fast|prefill|--mode fast
prefill-fast-1t|prefill|--mode fast --threads 1
prefill-exact-avx2|prefill|--cpu avx2
prefill-fast-avx2|prefill|--mode fast --cpu avx2'

rows_of() { # MODEL
    if grep -q '"quantization_config"' "$1/config.json"; then printf '%s\n' "$stored"; else printf '%s\n' "$rows"; fi
}

for round in $(seq "$rounds"); do
    model_index=0
    for model in "$@"; do
        model_index=$((model_index + 1))
        rows_of "$model" | while IFS='|' read -r name what options; do
            case $name in ${ROWS:-*}) ;; *) continue ;; esac
            if [ "$what" = decode ]; then times="--prompt 0 --gen 24"; else times="--prompt 512 --gen 0"; fi
            # shellcheck disable=SC2086 # options are words
            "$pith" bench "$model" $options $times --reps 1 --json --quiet >"$raw/$model_index.$name.$round.json"
        done
    done
done

python3 - "$raw" "$rows
$stored" "$@" <<'PY'
import glob, json, statistics, sys
raw, rows, models = sys.argv[1], sys.argv[2].splitlines(), sys.argv[3:]
for i, model in enumerate(models, 1):
    print(f"\n{model.rstrip('/').split('/')[-1]}\n")
    print("| | tokens/s | bits | GB read a token or GOP | limit | share of it |")
    print("|---|---|---|---|---|---|")
    for name, what in dict((row.split("|")[0], row.split("|")[1]) for row in rows).items():
        runs = [json.load(open(f)) for f in sorted(glob.glob(f"{raw}/{i}.{name}.*.json"))]
        if not runs:
            continue
        part = [r[what] for r in runs]
        middle = lambda f: statistics.median(f(r) for r in part)
        speed = middle(lambda r: r["tokens_per_second"]["median"])
        if what == "decode":
            size = f"{part[0]['bytes_per_token'] * 1e-9:.3f} GB"
            limit = f"{statistics.median(r['roof']['read'] for r in runs) * 1e-9:.1f} GB/s"
            share = middle(lambda r: r["fraction_of_bandwidth"]["median"])
        else:
            size = f"{part[0]['operations'] * 1e-9:.0f} GOP"
            kind = part[0]["peak"]
            products = part[0].get("byte_products") or 1
            limit = f"{statistics.median(r['roof'][kind] for r in runs) * 1e-9 / products:.0f} GOP/s {kind}" + " / 3" * (products == 3)
            share = middle(lambda r: r["fraction_of_peak"]["median"])
        print(f"| {name} | {speed:.2f} | {runs[0]['bits_per_weight']:.3f} | {size} | {limit} | {100 * share:.0f}% |")
PY
