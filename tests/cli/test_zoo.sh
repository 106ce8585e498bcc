#!/bin/sh
# Published config.json and tokenizer_config.json files (PITH_ZOO, or zoo beside PITH_DATA): each opens, or is refused with its
# architecture named.
set -u
. tests/cli/lib.sh
zoo=${PITH_ZOO:-${PITH_DATA:-/nowhere}/../zoo}
python3 tests/cli/mini.py "$work/small" layers=1 hidden=32 ffn=32 heads=2 kv_heads=1

# What counts as good is no more than that.
mkdir -p "$work/zoo/configs" "$work/zoo/tokenizer_configs"
echo '{"architectures": ["ElseForCausalLM"], "hidden_size": 8}' >"$work/zoo/configs/named.json"
cp models/probe/config.json "$work/zoo/configs/opens.json"
cp models/probe/tokenizer_config.json "$work/zoo/tokenizer_configs/opens.json"
check "an architecture that is named, a model that opens" python3 tests/cli/published.py "$pith" "$work/zoo" "$work/small"
echo '{"architectures": ["LlamaForCausalLM"], "hidden_size": "wide"}' >"$work/zoo/configs/broken.json"
echo '{"chat_template": "{% if %}"}' >"$work/zoo/tokenizer_configs/broken.json"
python3 tests/cli/published.py "$pith" "$work/zoo" "$work/small" >"$work/said" &&
    fail "what is refused otherwise is counted" || pass "what is refused otherwise is counted"
[ "$(grep -c 'refused otherwise' "$work/said")" -eq 2 ] && grep -q '^configs broken.json: .*hidden_size' "$work/said" &&
    pass "and named" || fail "and named"

sed '0,/{/s//{"quantization_config": {},/' "$work/small/config.json" >"$work/config" && cp "$work/config" "$work/small/config.json"
check "a quantization_config that says nothing" "$pith" run "$work/small" -p a -n 1
sed -i 's/"quantization_config": {},//' "$work/small/config.json"

if [ -d "$zoo/configs" ]; then
    check "published files" python3 tests/cli/published.py "$pith" "$zoo" "$work/small"
    cat "$work/stdout"
else
    echo "[  SKIPPED ] published files: PITH_ZOO and PITH_DATA name no folder of them"
fi
finish
