#!/bin/sh
# Where a model is read otherwise than its files, names and lists say, `inspect`, `verify` and the account say so.
set -u
. tests/cli/lib.sh
mini=$work/mini
python3 tests/cli/mini.py "$mini" layers=1 hidden=128 ffn=128

# with_tensors FROM TO NAME...: a copy that has vectors of these names too.
with_tensors() {
    cp -r "$1" "$2"
    python3 - "$@" <<'PY'
import sys
sys.path.insert(0, "tests/cli")
from mini import read_safetensors, write_safetensors
_, _, to, *names = sys.argv
path = to + "/model.safetensors"
write_safetensors(path, read_safetensors(path) | {n: ("BF16", [8], bytes([0, 63] * 8)) for n in names})
PY
}
# with_keys FROM TO KEYS: a copy whose quantization_config has these keys too.
with_keys() {
    cp -r "$1" "$2"
    python3 - "$@" <<'PY'
import json, sys
path = sys.argv[2] + "/config.json"
config = json.load(open(path))
config["quantization_config"] |= json.loads(sys.argv[3])
json.dump(config, open(path, "w"))
PY
}
# remarked NAME MODEL PATTERN: `inspect` and `verify` both say it.
remarked() {
    "$pith" inspect "$2" --json | python3 -c "import json, sys; [print(x) for x in json.load(sys.stdin).get('remarks', [])]" >"$work/remarks"
    if [ -n "$3" ]; then grep -qE -e "$3" "$work/remarks"; else [ ! -s "$work/remarks" ]; fi && pass "$1" || {
        fail "$1"
        cat "$work/remarks"
    }
    "$pith" verify "$2" --against "$2" >"$work/stdout" 2>&1
    tr -s ' \n' ' ' <"$work/stdout" | grep -qE -e "$3" && pass "$1: verify" || fail "$1: verify"
}

# --- nothing to say ------------------------------------------------------------------------------
remarked "a model as it should be" "$mini" ""
few="--calib-tokens 256 --seq-len 64 --quiet"
for recipe in gptq awq fp8 nf4 w8a8 nvfp4; do
    # shellcheck disable=SC2086
    "$pith" quantize "$mini" -o "$work/$recipe" -r $recipe $few 2>"$work/stderr" || fail "$recipe: $(tail -1 "$work/stderr")"
    remarked "$recipe as it should be" "$work/$recipe" ""
done
grep -q '"remarks"' "$work/gptq/pith.json" && fail "no remarks, no member" || pass "no remarks, no member"

# --- the config's lists against the tensors --------------------------------------------------------
q=model.layers.0.self_attn.q_proj
while read -r recipe keys; do
    with_keys "$work/$recipe" "$work/listed" "$keys"
    remarked "$recipe: stored quantized and listed" "$work/listed" "linears stored quantized.*\\(1\\): $q"
    rm -r "$work/listed"
done <<EOT
gptq {"dynamic": {"-:.*q_proj": {}}}
awq {"modules_to_not_convert": ["self_attn.q_proj"]}
fp8 {"ignore": ["$q"]}
w8a8 {"ignore": ["re:.*q_proj"]}
nf4 {"llm_int8_skip_modules": ["$q"]}
EOT
python3 - "$work/gptq" "$mini" "$work/plain" $q <<'PY'
import shutil, sys
sys.path.insert(0, "tests/cli")
from mini import read_safetensors, write_safetensors
quantized, dense, to, module = sys.argv[1:]
shutil.copytree(quantized, to)
kept = {n: t for n, t in read_safetensors(quantized + "/model.safetensors").items() if not n.startswith(module)}
one = {n: t for n, t in read_safetensors(dense + "/model.safetensors").items() if n.startswith(module)}
write_safetensors(to + "/model.safetensors", kept | one)
PY
remarked "stored plain and not listed" "$work/plain" "linears stored plain.*\\(1\\): $q"
check "an original with remarks" "$pith" quantize "$work/plain" -o "$work/again" -r rtn --weights int8:channel --requantize --quiet
grep -q 'linears stored plain' "$work/again/pith.json" && pass "the account has them" || fail "the account has them"

# --- tensors of no known part ----------------------------------------------------------------------
with_tensors "$mini" "$work/head" v_head.summary.bias
remarked "a head for other work" "$work/head" 'tensors of no part.*\(1\): v_head.summary.bias'
with_tensors "$mini" "$work/many" a.x b.x c.x d.x
remarked "the first names" "$work/many" 'tensors of no part.*\(4\): a.x, b.x, c.x, \.\.\.'
# Also in a layer, and where a container would write something of that name. What they are is not computed with.
with_tensors "$mini" "$work/within" v_head.bias model.layers.0.mlp.up_proj.bias model.layers.0.mlp.up_proj.weight_scale \
    model.layers.0.extra model.layers.4.extra lm_head.bias model.embed_tokens.weight_scale
remarked "within layers" "$work/within" 'tensors of no part.*\(7\): lm_head.bias'
"$pith" run "$mini" -p a -n 4 --seed 1 >"$work/want" 2>/dev/null
"$pith" run "$work/within" -p a -n 4 --seed 1 >"$work/got" 2>"$work/stderr"
cmp -s "$work/want" "$work/got" && grep -q 'warning: .*/within: tensors of no part' "$work/stderr" &&
    pass "run warns, and computes the same" || fail "run warns, and computes the same"
for out in "$work/within-rtn" "$work/within-fp8" "$work/within.gguf"; do
    case $out in
    *gguf) recipe=q8_0 kept=0 ;;
    *) recipe=${out##*-} kept=3 ;;
    esac
    check "$out" "$pith" quantize "$work/within" -o "$out" -r "$recipe"
    grep -q 'warning: .*/within: tensors of no part' "$work/stderr" && pass "quantize warns" || fail "quantize warns"
    check "$out: verifies" "$pith" verify "$out" --against "$work/within"
    account=$out/pith.json
    [ -e "$account" ] || account=$out.pith.json
    python3 - "$account" "$out" $kept <<'PY' && pass "copied, or left out and named" || fail "copied, or left out and named"
import json, sys
account, out, kept = json.load(open(sys.argv[1])), sys.argv[2], int(sys.argv[3])
left = account["left_out"]
copied = [t["name"] for t in account["tensors"] if t["name"] in ("v_head.bias", "model.layers.4.extra", "lm_head.bias")]
assert set(left.values()) == {"not read"} and len(left) == 7 - kept and len(copied) == kept, (left, copied)
PY
done
with_tensors "$mini" "$work/lora" base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight
refuse "an adapter that is not merged" 1 'lora_A.weight" is not part of a Llama.*, but of an adapter' "$pith" inspect "$work/lora"
[ $failed -eq 0 ]
