#!/bin/sh
# pith advise: recipes that are tried and measured, what is kept of a run that was killed, and what is refused.
set -u
. tests/cli/lib.sh
cd "$work" || exit 1
thorough && calibrated=1024 || calibrated=512
few="--context 512 --users 8 --candidates 2 --max-tokens 1024 --calib-tokens $calibrated"
shallow two
cat >look.py <<'PY'
import json, sys

what, j = sys.argv[1], json.load(open(sys.argv[2]))
rows = j["rows"]
worth = [r["worth"] for r in rows]
assert worth == sorted(worth, reverse=True) and len(rows) >= 3, worth
assert all(r["quality"]["kld_ci95"][0] <= r["quality"]["kld"] <= r["quality"]["kld_ci95"][1] for r in rows)
assert {r["recipe"] for r in rows} >= {"none"} and len({r["recipe"] for r in rows}) == 3, rows
assert [t.split(", ")[-1] for t in (*j["calibration"]["sources"], *j["texts"])] == ["its first half", "its second half"], j["texts"]
assert "remarks" not in j
assert j["tokens"] > 1000 and j["why"] and rows[0]["commands"]["serve"]
plain = next(r for r in rows if r["recipe"] == "none" and r["kv"] == "bf16")
assert plain["quality"]["kld"] < 0.001, plain["quality"]
if what == "folder":
    assert all(r["engine"] == "vllm" and r["hardware"] == "l4" for r in rows)
    assert "nvfp4-w4a4" in {r["recipe"] for r in j["ruled_out"]}
    assert any("not tried" in r["reason"] for r in j["ruled_out"])
else:
    assert all(r["file"] for r in rows if r["recipe"] != "none")
PY
for target in vllm:gpu=l4 llama.cpp:gpu=rtx4090 pith; do
    # shellcheck disable=SC2086
    check "for $target" "$pith" advise two --for $target $few --json --quiet
    cp "$work/stdout" "$target.json"
    check "nothing of it stays" test ! -e pith.advise.partial
done
check "the worthiest comes first" python3 look.py folder vllm:gpu=l4.json
check "files for llama.cpp" python3 look.py file llama.cpp:gpu=rtx4090.json
check "in words" "$pith" advise two --for vllm:gpu=l4 $few --text "$probe/eval.txt" --quiet
cp "$work/stdout" words
check "with the command for pith or the engine" grep -qE '^  (pith quantize|vllm serve) ' words
check "which texts" grep -q "^calibrated on at most $calibrated tokens of the text that ships; measured on at most 1024 tokens of .*eval.txt" words
check "as many tokens as the model's size allows" "$pith" advise two --for vllm:gpu=l4 --context 512 --candidates 1 --max-tokens 1024 --json --quiet
cp "$work/stdout" sized.json
check "of a small one 32768" grep -q '"tokens": *32768' sized.json
check "and what was ruled out" grep -q '^ruled out:' words

# shellcheck disable=SC2086
check "the same text twice" "$pith" advise two --for pith $few --candidates 1 --text "$probe/eval.txt" --calib "$probe/eval.txt"
tr -s ' \n' ' ' <"$work/stdout" | grep -q 'note: .*is calibrated on and measured on' && pass "is told" || fail "is told: $(cat "$work/stdout")"
# shellcheck disable=SC2086
check "all of the text that ships, and its half" "$pith" advise two --for pith $few --candidates 1 --calib builtin --json --quiet
python3 -c "import json, sys
j = json.load(sys.stdin)
half = 'the text that ships, its second half'
assert j['calibration']['sources'] == ['builtin'] and j['texts'] == [half], j
assert j['remarks'] == [half + ': is calibrated on and measured on, which flatters recipes'], j" <"$work/stdout" && pass "is told" || fail "is told"

# --- killed when one recipe was made
cat >kill.py <<'PY'
import os, subprocess, sys, time

p = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
while p.poll() is None:
    if os.path.isdir("pith.advise.partial") and any(os.path.exists(f"pith.advise.partial/{n}/pith.json")
                                                    for n in os.listdir("pith.advise.partial") if not n.endswith(".partial")):
        p.kill()
        p.wait()
        sys.exit(0)
    time.sleep(0.001)
sys.exit(f"it ended before: {p.stderr.read().decode()}")
PY
# shellcheck disable=SC2086
check "killed" python3 kill.py "$pith" advise two --for vllm:gpu=l4 $few --json --quiet
refuse "what is there is not touched without --resume" 2 'continue it with --resume' "$pith" advise two --for vllm:gpu=l4 $few
refuse "another command does not go on" 2 'belongs to another command' "$pith" advise two --for vllm:gpu=t4 $few --resume
check "gone on with" "$pith" advise two --for vllm:gpu=l4 $few --json --quiet --resume
cp "$work/stdout" again.json
check "with the same result" cmp again.json vllm:gpu=l4.json
check "nothing of that stays either" test ! -e pith.advise.partial

# --- recipes that round by GPTQ, rounded by another
check "rounded otherwise" "$pith" advise two --for llama.cpp:gpu=rtx4090 --context 512 --users 8 --candidates 3 --max-tokens 512 \
    --calib-tokens $calibrated --round qep:kron --json --quiet
cp "$work/stdout" round.json
check "so its row and its command say" python3 -c "import json
rows = {r['recipe']: (r.get('round'), r['commands'].get('quantize', '')) for r in json.load(open('round.json'))['rows']}
round, line = rows['q5_k_m']
assert round == 'qep:kron' and line.endswith(' --round qep:kron'), rows
assert rows['q8_0'][0] is None and '--round' not in rows['q8_0'][1], rows"

# --- refused
refuse "a rounding that is no kind of GPTQ" 2 'stands for GPTQ' "$pith" advise two --for vllm:gpu=l4 --round learned
refuse "a rounding that is none" 2 'stands for GPTQ' "$pith" advise two --for vllm:gpu=l4 --round best
refuse "no target" 2 'ENGINE:gpu=NAME' "$pith" advise two
refuse "an engine without its GPU" 2 'on which GPU' "$pith" advise two --for vllm
refuse "a GPU that is none" 2 'did you mean' "$pith" advise two --for vllm:gpu=h10
refuse "a text that is not there" 1 'none.txt' "$pith" advise two --for vllm:gpu=l4 --text none.txt
refuse "a context beyond the model's" 2 'context' "$pith" advise two --for vllm:gpu=l4 --context 1M
check "they leave nothing" test ! -e pith.advise.partial
finish
