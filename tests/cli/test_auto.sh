#!/bin/sh
# pith sensitivity and -r auto: what is predicted, found, kept and refused.
set -u
. tests/cli/lib.sh
few="--calib-tokens 4096 --seq-len 256"
three=int3:g128:asym,int4:g128:asym,int8:g128
cat >"$work/look.py" <<'PY'
import collections, json, sys

what, path, *rest = sys.argv[1:]
j = json.load(open(path))
if what == "table":  # fewer bits cost more, of every linear
    cells = collections.defaultdict(dict)
    for r in j["rows"]:
        if r["kind"] == "weights":
            cells[r["part"]][r["bits"]] = r["kld"]
    assert len(cells) == 42 and all(len(c) == 3 for c in cells.values()), "42 linears on 3 grids"
    for part, c in cells.items():
        losses = [c[b] for b in sorted(c)]
        assert losses == sorted(losses, reverse=True) and losses[-1] >= 0, (part, c)
elif what == "reads":  # keys and values of six layers, four inputs each; fewer bits cost more
    kinds = {k: [r for r in j["rows"] if r["kind"] == k] for k in ("cache", "acts")}
    assert len({r["part"] for r in kinds["cache"]}) == 12 and len(kinds["cache"]) == 12 * len(j["caches"]), kinds["cache"][:2]
    assert len({r["part"] for r in kinds["acts"]}) == 24 and len(kinds["acts"]) == 24 * len(j["acts"]), kinds["acts"][:2]
    sums = {g: sum(r["kld"] for r in j["rows"] if r["grid"] == g) for g in j["caches"] + j["acts"]}
    assert sums["turbo2"] > sums["turbo3"] > sums["turbo4"] > sums["q8_0"] > 0, sums
    assert sums["int4:token"] > sums["mxfp4"] > sums["nvfp4:static"] > sums["mxfp8"] > sums["int8:token"] > 0, sums
    one = next(r for r in kinds["cache"] if r["grid"] == "turbo3")
    assert one["part"] == "model.layers.0.k" and one["bytes"] == 2 * (64 * 3 // 8 + 2) and one["bits"] == 8 * one["bytes"] / 128, one
elif what == "routes":  # a recipe's prediction is what its rows say together; small changes alone say more
    recipe = json.load(open(rest[0]))
    cells = {(r["part"], r["grid"]): r for r in j["rows"] if r["kind"] == "weights"}
    rows = [cells[p, g] for p, g in recipe["linears"].items() if g != "none"]
    def curve(c, v):
        x0, y0 = 0, 0
        for x, y in zip(c["variance"], c["kld"]):
            if v < x:
                return y0 + (y - y0) / (x - x0) * (v - x0)
            x0, y0 = x, y
        return y0
    swayed = sum(curve(c, sum(r["sway"] for r in rows if r["from"] <= i)) for i, c in enumerate(j["routers"]))
    total, p = sum(r["fixed"] for r in rows) + swayed, recipe["predicted"]
    assert len(j["routers"]) == 4 and swayed > 0 and abs(total - p["kld"]) < 1e-6 * total, (total, swayed, p)
    assert p["bound"] <= p["kld"] and sum(r["kld"] for r in rows) > total, (p, total)
    measured = json.load(open(rest[1]))["prediction"]["measured"]
    assert 1 / 1.5 < measured / p["kld"] < 1.5, (measured, p)
elif what == "only":
    assert {r["kind"] for r in j["rows"]} == set(rest), rest
elif what == "sum":  # of one grid against what pith eval measured
    measured = json.load(open(rest[1]))["texts"][0]["kld_mean"]
    predicted = sum(r["kld"] for r in j["rows"] if r["grid"] == rest[0])
    assert 1 / 1.3 < measured / predicted < 1.3, (predicted, measured)
elif what == "recipe":  # within its budget, and engines' rules for what they hold as one matrix
    bits, kinds = float(rest[0]), collections.Counter(j["linears"].values())
    assert j["predicted"]["bits"] <= bits + 1e-9 and j["predicted"]["kld"] >= j["predicted"]["bound"] * (1 - 1e-9), j["predicted"]
    assert len(kinds) > 1, kinds
    sites = [[j["linears"][f"model.layers.{layer}.{x}_proj"] for x in s] for layer in range(6)
             for s in (["self_attn." + x for x in "qkv"], ["mlp.gate", "mlp.up"])]
    if rest[1:]:
        assert all(len(set(s)) == 1 for s in sites) == (rest[1] == "fused"), (rest, sites)
elif what == "transformed":
    kld = {t["transform"]: t["kld"] for t in j["predicted"]["tried"]}
    measured = json.load(open(rest[0]))["prediction"]["measured"]
    assert j["transform"] == "awq" and j["round"] == "qep" and j["predicted"]["round"] == "gptq", j
    assert j["predicted"]["kld"] == kld["awq"] < 0.8 * kld["none"] and measured < 1.3 * kld["awq"], (kld, measured)
elif what == "came":  # true: the account says so
    p = j["prediction"]
    assert p["tokens"] == 4096 and 0.5 < p["measured"] / p["kld"] < 2 and p["standard_error"] > 0, p
elif what == "cache":  # fits with the weights
    p = j["predicted"]
    assert 2 < p["cache"]["bits"] <= 16 and p["cache"]["kld"] > 0 and p["bits"] < 9, p
elif what == "first":  # the first layer as a model
    weights, out = rest
    j["num_hidden_layers"] = 1
    json.dump(j, open(out + "/config.json", "w"))
    data = open(weights, "rb").read()
    at = 8 + int.from_bytes(data[:8], "little")
    tensors = {n: t for n, t in json.loads(data[8:at]).items() if n != "__metadata__" and (".layers." not in n or ".layers.0." in n)}
    parts = []
    for t in tensors.values():
        first, end = t["data_offsets"]
        begin = sum(map(len, parts))
        parts.append(data[at + first : at + end])
        t["data_offsets"] = [begin, begin + end - first]
    head = json.dumps(tensors).encode()
    head += b" " * (-len(head) % 8)
    open(out + "/model.safetensors", "wb").write(len(head).to_bytes(8, "little") + head + b"".join(parts))
elif what == "kld":
    assert j["predicted"]["kld"] <= float(rest[0]), j["predicted"]
elif what == "better":  # the first measured less than the second
    a, b = (json.load(open(p)) for p in (path, rest[0]))
    assert a["bits_per_weight"] <= b["bits_per_weight"] + 0.01, (a["bits_per_weight"], b["bits_per_weight"])
    assert a["texts"][0]["kld_mean"] < b["texts"][0]["kld_mean"], (a["texts"][0]["kld_mean"], b["texts"][0]["kld_mean"])
PY
measured() { # OUT JSON [TEXT [OPTIONS]]
    out=$1 json=$2 text=${3:-$probe/eval.txt}
    shift 2
    [ $# = 0 ] || shift
    "$pith" eval "$out" --baseline "$probe" --text "$text" --max-tokens 8192 --context 256 --json --quiet "$@" >"$json"
}

# --- the table
outliers=$(realpath "${BUILD:-build}")/tools/make_outliers
cd "$work" || exit 1
# shellcheck disable=SC2086
sense() { # NAME, more options
    name=$1
    shift
    "$pith" sensitivity "$probe" --try "$three" $few --json --quiet "$@" >"$work/$name.json"
}
check "a table of sensitivities" sense one --threads 1
check "has every linear on every grid" python3 look.py table one.json
check "and every layer's keys, values and inputs" python3 look.py reads one.json
check "with other threads" sense two --threads 2
check "it is the same to the bit" cmp one.json two.json
check "without a calibration of the rounder" sense rtn -r rtn --container compressed-tensors --acts none --kv none
check "it is another" sh -c '! cmp -s one.json rtn.json'
check "nothing stays behind" sh -c '! ls -d pith.sensitivity* 2>/dev/null'
"$pith" sensitivity "$probe" --try "$three" $few --acts none --kv none --quiet >table.txt
check "as text" grep -q 'model.layers.5.mlp.down_proj' table.txt
# GPTQ fits so few tokens better than others; rounding to nearest knows none.
check "a uniform recipe" "$pith" quantize "$probe" -o u3 -r rtn --weights int3:g128:asym --quiet
measured u3 u3.json "$root/src/calib/builtin.txt"
check "diverges as predicted within 1.3" python3 look.py sum rtn.json int3:g128:asym u3.json
refuse "a recipe that changes the basis" 1 'transform rotate' "$pith" sensitivity "$probe" -r quarot $few
check "of a transformed model" sense awq -r awq+gptq --acts none --kv none
check "every linear on every grid, too" python3 look.py table awq.json
refuse "a grid that the container does not take" 1 'does not take that grid' "$pith" sensitivity "$probe" --try q4_k $few
refuse "a grid that is none" 2 'no such format' "$pith" sensitivity "$probe" --try x9 $few

measured "$probe" q5.json "$root/src/calib/builtin.txt" --kv q5_0,rotate
check "a cache diverges as predicted" python3 look.py sum one.json q5_0,rotate q5.json
check "a page" "$pith" sensitivity "$probe" $few --acts nvfp4 --kv q8_0 -r rtn --container gguf --try q3_k,q4_k,q6_k -o page.html --json --quiet
cp "$work/stdout" page.json
check "whose grids come once each" python3 -c "import json; g = json.load(open('page.json'))['grids']; assert g and len(set(g)) == len(g) and set(r['grid'] for r in json.load(open('page.json'))['rows'] if r['kind'] == 'weights') == set(g), g"
for part in '<title>Sensitivity of probe' 'Keys and values' 'Inputs of linears' 'mlp.down_proj, layer 5' 'The dearest'; do
    check "the page has: $part" grep -q "$part" page.html
done
check "and fetches nothing" sh -c "! grep -qE '(src|href)=.http' page.html"
refuse "a page where none can be" 1 'none/page' "$pith" sensitivity "$probe" $few -o none/page.html
check "inputs alone" "$pith" quantize "$probe" -o w8 -r rtn --weights int8:channel --container compressed-tensors --quiet
check "and rounded" "$pith" quantize "$probe" -o w8a6 -r rtn --weights int8:channel --acts mxfp6_e2m3 --container compressed-tensors --quiet
"$pith" eval w8a6 --baseline w8 --text "$root/src/calib/builtin.txt" --max-tokens 8192 --context 256 --json --quiet >a6.json
check "diverge as predicted" python3 look.py sum one.json mxfp6_e2m3 a6.json
check "less is looked at when asked" sense few --acts none --kv turbo3 -r rtn --container compressed-tensors
check "and told" python3 look.py only few.json weights cache
check "a mixture's experts" sh -c "'$pith' sensitivity '$root/models/probe-moe' --try int4:g32 --kv none --calib-tokens 1024 --seq-len 128 --json --quiet >moe.json && grep -q 'experts.3.gate_up' moe.json"
python3 "$root/tests/cli/kinds_model.py" deepseek_v3 "$probe" latent dense >/dev/null
latent="--text $root/src/calib/builtin.txt --max-tokens 2048 --context 64 --json --quiet"
check "latents" sh -c "'$pith' sensitivity latent --try int8:channel --acts none --kv int4:token --calib-tokens 2048 --seq-len 64 --json --quiet >latent.json && grep -q 'layers.1.kv\"' latent.json"
# shellcheck disable=SC2086
"$pith" eval latent --baseline latent --kv int4:token $latent >l4.json
check "are predicted, too" python3 look.py sum latent.json int4:token l4.json
refuse "a cache of several ages" 1 'is not foretold' "$pith" sensitivity "$probe" --kv int4:token,recent=32 $few
refuse "a cache that is none" 2 'no such format' "$pith" sensitivity "$probe" --kv x9 $few
refuse "inputs on a grid that is none" 2 'no such format' "$pith" sensitivity "$probe" --acts int8:token,x9 $few
refuse "inputs on a grid of weights" 1 'activations cannot be' "$pith" sensitivity "$probe" --acts nf4:g64 $few

# --- the recipe
check "-r auto" "$pith" quantize "$probe" -o a -r auto --budget 3.6 --try $three $few --quiet
check "stays within its bits" python3 look.py recipe a/recipe.json 3.6 fused
check "is proven" "$pith" verify a --against "$probe"
check "and so is what it foretold" python3 look.py came a/pith.json
plain=int3:g128,int4:g128,int8:g128
predicted() { python3 -c "import json; print(json.load(open('$1/recipe.json'))['predicted']['kld'])"; }
for_engines() { # OUT ENGINE...
    made=$1 names=
    shift
    for e; do names="$names --for $e"; done
    # shellcheck disable=SC2086
    "$pith" quantize "$probe" -o "$made" -r auto --budget 3.6 --try $plain $few --transform none $names --quiet
}
check "for an engine that holds each linear by itself" for_engines w pith
check "each has its own grid" python3 look.py recipe w/recipe.json 3.6 apart
check "of another one it is the same" for_engines w2 transformers
check "recipe" cmp w/recipe.json w2/recipe.json
check "beside one that fuses some, these share" for_engines w3 pith vllm
check "their grids" python3 look.py recipe w3/recipe.json 3.6 fused
check "which loses more" python3 -c "import sys; sys.exit(not $(predicted w) < 0.95 * $(predicted w3))"
refuse "that one does not load the other" 1 'another grid than' "$pith" quantize "$probe" -o no -r w/recipe.json $few --for vllm
check "leaves nothing else" test ! -e a.auto -a ! -e a.partial
check "a model with outliers" "$outliers" "$probe" outliers
check "gets a transform" "$pith" quantize outliers -o o -r auto --budget 4.4 --try int3:g128:asym,int4:g128:asym,int5:g128:asym $few --quiet
check "that is foretold to lose less, and does" python3 look.py transformed o/recipe.json o/pith.json
check "or the one that is named" "$pith" quantize outliers -o o1 -r auto --budget 4.4 --try int4:g128:asym,int5:g128:asym $few --transform none --round gptq --quiet
check "and none else" grep -q '"transform": "none"' o1/recipe.json
check "by the rounder that is named" grep -q '"round": "gptq"' o1/recipe.json
python3 "$root/tests/cli/mini.py" mini layers=3 hidden=64 ffn=128
for round in qep:kron gptq:guided; do
    check "linears tried alone, then rounded by $round" "$pith" quantize mini -o k-$round -r auto --budget 4.2 --transform none \
        --try int3:g32:asym,int4:g32:asym,int8:g32 --calib-tokens 512 --seq-len 64 --round $round --quiet
    check "$round: so it says" python3 -c "import json; j = json.load(open('k-$round/recipe.json'))
assert (j['round'], j['predicted']['round']) == ('$round', 'gptq'), j
assert json.load(open('k-$round/pith.json'))['recipe']['round'] == '$round'"
    check "$round: verifies" "$pith" verify k-$round --against mini
done
check "the recipe rounds so again" "$pith" quantize mini -o k2 -r k-qep:kron/recipe.json --calib-tokens 512 --seq-len 64 --quiet
same_model "to the same bytes" k-qep:kron k2
mixture="$root/models/probe-moe"
check "a mixture's recipe" "$pith" quantize "$mixture" -o m -r auto --budget 4.2 --try $three $few --transform none --quiet
"$pith" sensitivity "$mixture" --try $three $few --container compressed-tensors --acts none --kv none --json --quiet >routes.json
check "counts the tokens that change experts" python3 look.py routes routes.json m/recipe.json m/pith.json
check "its recipe runs like any" "$pith" quantize "$probe" -o b -r a/recipe.json $few --quiet
same_model "to the same bytes" a b
check "a uniform recipe of about these bits" "$pith" quantize "$probe" -o u -r gptq --weights int3:g32:asym --container compressed-tensors $few --quiet
measured a a.json
measured u u.json
check "loses more" python3 look.py better a.json u.json
check "--max-kl" "$pith" quantize "$probe" -o k -r auto --max-kl 0.03 --try $three $few --quiet
check "is predicted to keep it" python3 look.py kld k/recipe.json 0.03
check "a GGUF file by its size" "$pith" quantize "$probe" -o g.gguf -r auto --budget 4M --try q3_k,q4_k,q8_0 --calib-tokens 2048 --seq-len 256 --quiet
check "has a type for each tensor" python3 look.py recipe g.gguf.recipe.json 6
check "and is not larger" test "$(stat -c %s g.gguf)" -le 4400000
check "weights and caches" "$pith" quantize "$probe" -o f -r auto --fit 10M,context=512,users=2,kv=int8:token --for vllm $few --quiet
mkdir tiny
cp "$probe"/*.json tiny
check "a model of one layer" python3 look.py first "$probe/config.json" "$probe/model.safetensors" tiny
size=2700k
joint() { # OUT GRIDS
    "$pith" quantize tiny -o "$1" -r auto --fit $size,context=256,users=4,kv=auto ${3:-} --try $2 --calib-tokens 512 --seq-len 64 --quiet
}
check "weights and caches together" joint j "$three"
check "for pith they are the same" joint j2 "$three" "--for pith"
check "to the recipe" sh -c "grep -v budget j/recipe.json >j.txt; grep -v budget j2/recipe.json | cmp - j.txt"
check "both are foretold" python3 look.py cache j/recipe.json
bits=$(python3 -c 'import json; print(json.load(open("j/recipe.json"))["predicted"]["cache"]["bits"])')
cp j/pith.kv.json record
check "that cache is found" "$pith" bench j --prompt 0 --gen 1 --reps 1 --kv "auto:$bits" --quiet
check "as it was recorded" cmp record j/pith.kv.json
check "and is no part of the proof" "$pith" verify j --against tiny
check "of a file too" joint j.gguf q3_k,q4_k,q6_k
check "which has it beside" test -s j.gguf.kv.json
check "rows of no whole groups" "$pith" quantize "$root/tests/golden/eval/tiny" -o narrow -r auto --budget 6.5 --calib-tokens 512 --seq-len 64 --quiet
check "get whole rows as groups" grep -q 'down_proj.*int[346]:channel:asym' narrow/recipe.json
check "the mixture is proven, too" "$pith" verify m --against "$root/models/probe-moe"

check "in little memory" "$pith" quantize "$probe" -o s -r auto --budget 3.6 --try $three $few --memory 48M --quiet
check "the same" python3 -c "import json; a, b = (json.load(open(f'{x}/recipe.json'))['linears'] for x in 'as'); assert a == b"

# --- killed, and gone on with: when its journal has so many lines (one, six blocks there, the turn, six back)
cat >kill.py <<'PY'
import os, subprocess, sys, time

journal, lines, *command = sys.argv[1:]  # or when it has fewer: -LINES


def is_there(n):
    return n >= int(lines) if int(lines) > 0 else n < -int(lines)


p = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
while p.poll() is None:
    if os.path.exists(journal) and is_there(open(journal, "rb").read().count(b"\n")):
        p.kill()
        p.wait()
        sys.exit(0 if os.path.exists(journal) else 1)
    time.sleep(0.002)
sys.exit(f"it ended before: {p.stderr.read().decode()}")
PY
few="--calib-tokens 1024 --seq-len 256"
again="$pith sensitivity $probe --try $three $few --quiet --work sw"
check "undisturbed" sh -c "$again --json >one.json"
check "-r auto, undisturbed" "$pith" quantize "$probe" -o a1 -r auto --budget 3.6 --try $three $few --quiet
# shellcheck disable=SC2086
sensed() { # LINES: killed there
    check "killed at line $1" python3 kill.py sw.partial/pith.journal "$1" $again --resume
}
sensed 4
refuse "without --resume nothing is touched" 1 'continue it with --resume' $again
refuse "another job does not go on" 1 'belongs to another run' $again --resume --kv none
sensed 7
sensed 9
sensed 11
check "a run that was killed four times ends" sh -c "$again --json --resume >killed.json"
check "with the same bytes" cmp one.json killed.json
check "and leaves nothing" test ! -e sw.partial
sensed 10
check "what was left is damaged" python3 -c "
f = open('sw.partial/pith.sense.acts', 'r+b')
f.seek(f.seek(0, 2) * 2 // 7 + 4096)
f.write(bytes(64))"
check "it is seen, and all is done again" python3 kill.py sw.partial/pith.journal -9 $again --resume
check "to its end" sh -c "$again --json --resume >damaged.json"
check "to the same bytes" cmp one.json damaged.json
sensed 9
check "a torn line" sh -c 'printf "0000 {" >>sw.partial/pith.journal'
check "is nothing" sh -c "$again --json --resume >torn.json"
check "and the same comes of it" cmp one.json torn.json
check "-r auto, killed while it looks" python3 kill.py r.auto/pith.journal 10 "$pith" quantize "$probe" -o r -r auto --budget 3.6 --try $three $few --quiet
check "killed when one transform is done" python3 kill.py r.auto/auto.0.json 1 "$pith" quantize "$probe" -o r -r auto --budget 3.6 --try $three $few --resume --quiet
check "killed in the next" python3 kill.py r.auto/pith.journal 9 "$pith" quantize "$probe" -o r -r auto --budget 3.6 --try $three $few --resume --quiet
check "after these kills" "$pith" quantize "$probe" -o r -r auto --budget 3.6 --try $three $few --resume --quiet
same_model "the same comes of it" a1 r
check "-r auto, killed again" python3 kill.py s2.auto/pith.journal 5 "$pith" quantize "$probe" -o s2 -r auto --budget 3.6 --try $three $few --quiet
check "may begin anew" "$pith" quantize "$probe" -o s2 -r auto --budget 3.6 --try $three $few --quiet
same_model "to the same" a1 s2
mkdir -p l.auto
cp a1/recipe.json l.auto/
check "a recipe that was found is used again" "$pith" quantize "$probe" -o l -r auto --budget 3.6 --try $three $few --resume --quiet
same_model "and gives the same" a1 l

# --- refusals
q() { # NAME STATUS PATTERN OPTIONS...
    n=$1 want=$2 pattern=$3
    shift 3
    # shellcheck disable=SC2086
    refuse "$n" "$want" "$pattern" "$pith" quantize "$probe" -o no -r auto $few "$@"
    [ ! -e no ] && [ ! -e no.auto ] && [ ! -e no.partial ] || fail "$n: something stays behind"
}
q "no budget" 2 'needs one of'
q "two of them" 2 'needs one of' --budget 4 --max-kl 1
q "a budget that is none" 2 'mean bits of a weight' --budget lots
q "a fit that is none" 2 'SIZE,context=N' --fit 24G
q "caches of several formats for an engine of one" 2 'keeps one format' --fit 24G,context=1k,kv=auto --for vllm
q "also beside pith" 2 'vllm keeps one format' --fit 24G,context=1k,kv=auto --for pith --for vllm
q "a KL below 0" 2 'from 0 to 100' --max-kl -1
q "--weights beside it" 2 'chooses the grids' --budget 4 --weights int4:g128
q "fewer bits than there are" 1 'need 3.* bits a weight' --budget 2 --try int3:g128:asym,int4:g128:asym
q "a size smaller than the rest" 1 'takes .* already' --budget 100k
q "less memory than it takes" 1 'sensitivities need about' --budget 4 --memory 16M
q "a transform of the whole basis" 2 'own basis' --budget 4 --transform rotate
q "a learned rounding" 1 'blocks as a whole' --budget 4 --round learned
refuse "a budget without auto" 2 'does nothing without -r auto' "$pith" quantize "$probe" -o no -r gptq --budget 4
printf '{"linears": {"model.layers.9.mlp.up_proj": "int4:g128"}}' >far.json
refuse "a recipe for another model" 2 'which this model lacks' "$pith" quantize "$probe" -o no -r far.json
printf '{"linears": {"model.layers.0.mlp.up_proj": 4}}' >bad.json
refuse "a recipe without a grid" 2 'up_proj' "$pith" quantize "$probe" -o no -r bad.json
finish
