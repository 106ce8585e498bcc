#!/bin/sh
# pith bench and llama-bench side by side: run in turns, so that both see the same disturbances of the machine,
# and compared by the medians.
#
#     bench/compare.sh LLAMA_BENCH GGUF=MODEL...
#
# LLAMA_BENCH  llama.cpp's benchmark program
# GGUF         a model for it
# MODEL        what it is compared with: a folder for pith, with options of `pith bench` behind it where needed
#
#     bench/compare.sh llama-bench 'model-Q4_0.gguf=Llama-3.2-1B --weights int4:g128 --head int4:g128'
#
# In the environment: PITH (build/pith), ROUNDS (3), THREADS (all), PROMPT (512; 0: no prompts), GEN (32),
# DEPTHS ("0": positions of the KV cache already taken when tokens are made; prompts are timed at 0 only),
# LLAMA_ARGS ("-fa 1"), PITH_ARGS (""), RAW (a folder that keeps what the programs said).
set -eu
[ $# -ge 2 ] || {
    sed -n '2,/^set/s/^# \{0,1\}//p' "$0"
    exit 2
}
llama=$1
shift
pith=${PITH:-build/pith}
rounds=${ROUNDS:-3}
threads=${THREADS:-$(nproc)}
prompt=${PROMPT:-512}
gen=${GEN:-32}
depths=${DEPTHS:-0}
for program in "$llama" "$pith"; do
    command -v "$program" >/dev/null || {
        echo "compare.sh: $program: no such program" >&2
        exit 2
    }
done
for pair in "$@"; do
    case $pair in
    *=*) [ -f "${pair%%=*}" ] || {
        echo "compare.sh: ${pair%%=*}: no such file" >&2
        exit 2
    } ;;
    *)
        echo "compare.sh: $pair: expected GGUF=MODEL" >&2
        exit 2
        ;;
    esac
done
raw=${RAW:-}
if [ -z "$raw" ]; then
    raw=$(mktemp -d)
    trap 'rm -rf "$raw"' EXIT
fi
mkdir -p "$raw"
rm -f "$raw"/*.json

load() {
    [ ! -r /proc/loadavg ] || echo "load average $1: $(cut -d ' ' -f 1-3 /proc/loadavg)"
}

load before
for round in $(seq "$rounds"); do
    number=0
    for pair in "$@"; do
        number=$((number + 1))
        for depth in $depths; do
            name=$raw/$number.$depth.$round
            reading=$prompt
            [ "$depth" -eq 0 ] || reading=0
            # Words of the options are meant to be split.
            # shellcheck disable=SC2086
            "$llama" -m "${pair%%=*}" ${LLAMA_ARGS:--fa 1} -t "$threads" -p "$reading" -n "$gen" -d "$depth" \
                -r 1 -o json >"$name.llama.json" 2>"$raw/log" || { cat "$raw/log" >&2; exit 1; }
            # shellcheck disable=SC2086
            "$pith" bench ${pair#*=} ${PITH_ARGS:-} -t "$threads" --prompt "$reading" --gen "$gen" \
                --depth "$depth" --reps 1 --json >"$name.pith.json" 2>"$raw/log" ||
                { cat "$raw/log" >&2; exit 1; }
        done
    done
done
load after
python3 - "$raw" "$depths" "$@" <<'PY'
import glob, json, os, statistics, sys

raw, depths, pairs = sys.argv[1], sys.argv[2].split(), sys.argv[3:]

def median(values): return statistics.median(values) if values else None

def collect(number, depth):
    got = {"llama": {"prefill": [], "decode": []}, "pith": {"prefill": [], "decode": []}, "size": [], "bytes": [], "kv": [],
           "read": [], "f32": []}
    for f in glob.glob(os.path.join(raw, f"{number}.{depth}.*.json")):
        j = json.load(open(f))
        if f.endswith(".llama.json"):
            for t in j:
                got["llama"]["prefill" if t["n_prompt"] else "decode"] += t["samples_ts"]
                got["size"].append(t["model_size"])
            continue
        got["read"].append(j["roof"]["read"])
        for kind in ("prefill", "decode"):
            if kind in j: got["pith"][kind].append(j[kind]["tokens_per_second"]["median"])
        if "decode" in j:
            got["bytes"].append(j["decode"]["weight_bytes"])
            got["kv"].append(j["decode"]["fraction_of_bandwidth"]["median"])
        if "prefill" in j: got["f32"].append(j["prefill"]["fraction_of_peak"]["median"])
    return got

rows = [("what", "llama.cpp", "(least-most)", "pith", "(least-most)", "ratio", "MB: llama.cpp", "pith", "of the limit")]
reads = []
for number, pair in enumerate(pairs, 1):
    gguf, model = pair.split("=", 1)
    rows.append((f"{os.path.basename(gguf)} / {' '.join([os.path.basename(model.split()[0].rstrip('/'))] + model.split()[1:])}",))
    for depth in depths:
        g = collect(number, depth)
        reads += g["read"]
        for kind in ("prefill", "decode"):
            a, b = g["llama"][kind], g["pith"][kind]
            if not a or not b: continue
            limit = median(g["f32"]) if kind == "prefill" else median(g["kv"])
            size, held = (f"{median(g['size']) / 1e6:.0f}", f"{median(g['bytes']) / 1e6:.0f}") if kind == "decode" else ("", "")
            rows.append((f"  {kind}" + (f" at {depth}" if depth != "0" else ""), f"{median(a):.2f}", f"({min(a):.2f}-{max(a):.2f})",
                         f"{median(b):.2f}", f"({min(b):.2f}-{max(b):.2f})", f"{median(b) / median(a):.2f}", size, held,
                         f"{100 * limit:.1f}%"))
widths = [max(len(r[i]) for r in rows if len(r) > 1) for i in range(len(rows[0]))]
for r in rows:
    print("  ".join(c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(r, widths))) if len(r) > 1 else r[0])
print("tokens a second, medians of the rounds; MB: weights (llama.cpp: of the whole file); of the limit: pith's share of the\n"
      f"bandwidth (decode) or of the peak of its instructions (prefill); memory was read at {median(reads) / 1e9:.1f} GB/s")
PY
