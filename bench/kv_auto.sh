#!/bin/sh
# What --kv auto is worth: its KL at 3, 4 and 5 bits a number beside the uniform choices of at most as many bits that its record expects the least
# of (three each by the mean and by the capped mean, K and V of their own among them), on texts that it was not measured on; before them, what it
# expected and measured on the calibration text. A record that MODEL has is used.
#
#     bench/kv_auto.sh [MODEL] [CONTEXT] [TOKENS] [TEXT...]     (models/probe 512 8192 models/probe/eval.txt)
set -eu
model=${1:-models/probe}
context=${2:-512}
tokens=${3:-8192}
[ $# -gt 3 ] && shift 3 || set -- models/probe/eval.txt
pith=${PITH:-build/pith}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r "$model" "$work/model"
autos="--kv auto:3 --kv auto:4 --kv auto:5"
# shellcheck disable=SC2086
"$pith" eval "$work/model" --text "$1" --context "$context" --max-tokens "$context" $autos --quiet >/dev/null
uniform=$(python3 - "$work/model/pith.kv.json" <<'PY'
import json, sys
record = json.load(open(sys.argv[1]))
cost, loss = {}, {"kld": {}, "kld_capped": {}}
for r in record["rows"]:
    key = r["part"][-1], r["grid"], r["recent"]
    cost[key] = cost.get(key, 0) + r["bytes"]
    for kind in loss: loss[kind][key] = loss[kind].get(key, 0) + r[kind]
def pairs(loss):
    return sorted((loss[a] + loss[b], 8 * (cost[a] + cost[b]) / record["numbers"], a, b) for a in cost for b in cost
                  if a[0] == "k" and b[0] == "v" and a[2] == b[2])
for a in record["assignments"]:
    if a.get("measured"): print("| calibration | `auto:%g` | expected alone %.5f | measured whole %.5f | %d measured: chosen %.5f | best uniform %.5f |" % (
          a["budget"], a["kld_sum"], a["kld_capped_first"], a["measured"], a["kld_capped"], a.get("kld_capped_uniform", float("nan"))), file=sys.stderr)
def name(a, b):
    grids, suffixes = [], []
    for side, grid, _ in (a, b):
        base, *more = grid.split(",")
        grids.append(side + "=" + base)
        suffixes += [",rotate=" + side if x == "rotate" else "," + x for x in more]
    near = ",recent=32" if a[2] and not a[1].startswith("kivi") else ""
    return ",".join(grids) + "".join(suffixes) + near
chosen = [name(a, b) for kind in loss for bits in (3, 4, 5) for _, _, a, b in [p for p in pairs(loss[kind]) if p[1] <= bits][:3]]
print(" ".join("--kv " + p for p in dict.fromkeys(chosen)))
PY
)
for text; do
    # shellcheck disable=SC2086
    "$pith" eval "$work/model" --text "$text" --context "$context" --max-tokens "$tokens" $autos $uniform --json --quiet >"$work/out.json" 2>/dev/null
    python3 - "$work/out.json" "$(basename "$text")" <<'PY'
import json, sys
models = json.load(open(sys.argv[1]))["models"][1:]
kl = lambda m: m["texts"][0]["kld_mean"]
uniform = [m for m in models if not m["kv"].startswith("auto")]
for m in models:
    if not m["kv"].startswith("auto"): continue
    best = min((u for u in uniform if u["kv_bits"] <= float(m["kv"][5:])), key=kl)
    share = kl(m) / kl(best)
    print("| %s | `%s` | %.2f | %.5f | `%s` | %.2f | %.5f | %.0f%% %s |" % (sys.argv[2], m["kv"], m["kv_bits"], kl(m), best["kv"], best["kv_bits"],
          kl(best), 100 * abs(1 - share), "less" if share < 1 else "more"))
PY
done
