#!/bin/sh
# What a token costs by depth and format of the KV cache: tokens a second and the share of what memory gives, by `pith bench`.
# Rounds are interleaved over the rows, so that all see the same disturbances of the machine; medians count. Behind a model's table stands for
# each depth whether the fastest of 4 bits is at least as fast as that of 8, and that as bf16. Caches are filled with made-up numbers.
#
#     bench/depths.sh MODEL...
#
# MODEL        a folder with a checkpoint, timed as it is stored
# In the environment: PITH (build/pith), ROUNDS (3), DEPTHS ("4096 16384 65536"), CACHES ("bf16 int8:token fp8_e4m3:token
# int4:g32 int4:token"), MODES ("exact fast"), THREADS (1), ARGS (more for pith bench), RAW (a folder that keeps what pith said).
set -eu
[ $# -ge 1 ] || {
    sed -n '2,/^set/s/^# \{0,1\}//p' "$0"
    exit 2
}
raw=${RAW:-}
if [ -z "$raw" ]; then
    raw=$(mktemp -d)
    trap 'rm -rf "$raw"' EXIT
fi
mkdir -p "$raw"
for round in $(seq "${ROUNDS:-3}"); do
    for depth in ${DEPTHS:-4096 16384 65536}; do
        for kv in ${CACHES:-bf16 int8:token fp8_e4m3:token int4:g32 int4:token}; do
            for mode in ${MODES:-exact fast}; do
                index=0
                for model in "$@"; do
                    index=$((index + 1))
                    "${PITH:-build/pith}" bench "$model" --prompt 0 --gen 8 --depth "$depth" --kv "$kv" --mode "$mode" \
                        --threads "${THREADS:-1}" ${ARGS:-} --reps 3 --json --quiet >"$raw/$index,$depth,$kv,$mode,$round.json"
                done
            done
        done
    done
done
python3 - "$raw" "$@" <<'PY'
import glob, json, os, statistics, sys

raw, *models = sys.argv[1:]
found = {}
for path in glob.glob(raw + "/*.json"):
    index, depth, *kv, mode, _ = os.path.basename(path)[:-5].split(",")
    with open(path, encoding="utf-8") as f:
        d = json.load(f)["decode"]
    found.setdefault((int(index), int(depth), ",".join(kv), mode), []).append((d["tokens_per_second"]["median"], d["fraction_of_bandwidth"]["median"]))
cells = {k: tuple(statistics.median(x) for x in zip(*v)) for k, v in found.items()}
columns = sorted({(k[1], k[3]) for k in cells})
for index, model in enumerate(models, 1):
    print("| %s |" % os.path.basename(model) + "".join(" %d, %s | of read |" % c for c in columns))
    print("|---|" + "---:|---:|" * len(columns))
    for kv in sorted({k[2] for k in cells}):
        row = [cells[index, depth, kv, mode] for depth, mode in columns]
        print("| `%s` |" % kv + "".join(" %.2f | %.0f%% |" % (t, 100 * s) for t, s in row))
    for depth, mode in columns:
        speed = {kv: cells[index, depth, kv, mode][0] for i, d, kv, m in cells if (i, d, m) == (index, depth, mode)}
        four, eight = (max((t for kv, t in speed.items() if kv.startswith(bits)), default=None) for bits in ("int4", "int8"))
        if not (four and eight and "bf16" in speed): continue
        kept = four >= eight >= speed["bf16"]
        print("%d, %s: int4 %.2f, int8 %.2f, bf16 %.2f tokens/s: %s" % (depth, mode, four, eight, speed["bf16"], "fewer bits are not slower" if kept else "FEWER BITS ARE SLOWER"))
PY
