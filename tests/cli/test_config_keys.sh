#!/bin/sh
# Misspelt keys of config.json are named, by what the architecture of the model reads; keys that it does not have change nothing.
set -u
. tests/cli/lib.sh

python3 tests/cli/mini.py "$work/m" layers=1 hidden=64 ffn=64
named() { # NAME KEY NEAR: with `near` renamed to `key` the warning names both
    sed "s/\"$3\"/\"$2\"/" "$work/m/config.json" >"$work/config" && cp "$work/config" "$work/m2/config.json"
    "$pith" inspect "$work/m2" >/dev/null 2>"$work/stderr"
    if grep -q "warning: .*config.json: \"$2\" is no key that is read; did you mean \"$3\"?" "$work/stderr"; then
        pass "$1"
    else
        fail "$1"
        cat "$work/stderr"
    fi
}
cp -r "$work/m" "$work/m2"
named "two letters exchanged" rope_theat rope_theta
named "a letter left out" rms_nrm_eps rms_norm_eps
named "two letters too many" tie_word_embeddingsss tie_word_embeddings
named "a hyphen" rms-norm_eps rms_norm_eps
cp "$work/m/config.json" "$work/m2/config.json"
"$pith" inspect "$work/m2" >/dev/null 2>"$work/stderr"
[ -s "$work/stderr" ] && fail "nothing to say" || pass "nothing to say"
python3 - "$work/m2/config.json" <<'PY'
import json, sys
c = json.load(open(sys.argv[1]))
c |= {"rope_scaling": {"rope_type": "yarn", "factor": 2.0, "beta_fats": 16}, "_name_or_path": "x", "bos_token_id": 1,
      "pretraining_tp": 1, "use_cache": True, "transformers_version": "4.44.0", "initializer_range": 0.02,
      "attention_dropout": 0.0, "rope_thetas": 1, "_rope_thetas": 1, "text_config": {"rms_nrm_eps": 1}}
json.dump(c, open(sys.argv[1], "w"))
PY
"$pith" run "$work/m2" -p The -n 1 >/dev/null 2>"$work/stderr"
[ "$(grep -c warning "$work/stderr")" -eq 2 ] && grep -q 'text_config: "rms_nrm_eps"' "$work/stderr" && grep -q 'rope_scaling: "beta_fats".*"beta_fast"' "$work/stderr" &&
    pass "in rotary parameters, in text_config; usual keys, a second spelling and private keys are no matter" || fail "in rotary parameters"
"$pith" run "$work/m2" -p The -n 1 --quiet >/dev/null 2>"$work/stderr"
grep -q warning "$work/stderr" && fail "--quiet" || pass "--quiet"
finish
