#!/bin/sh
# pith sensitivity: what is predicted of weights, caches and inputs, that it comes true, and what is refused.
set -u
. tests/cli/lib.sh
. tests/cli/auto.sh
thorough && scored=8192 || scored=4096
short="--calib-tokens 256 --seq-len 128" # where no figure is looked at

# --- the table
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
"$pith" sensitivity "$probe" --try "$three" $short --acts none --kv none --quiet >table.txt
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

shorter=$scored scored=8192 # so little is lost that fewer tell it less well
measured "$probe" q5.json "$root/src/calib/builtin.txt" --kv q5_0,rotate
check "a cache diverges as predicted" python3 look.py sum one.json q5_0,rotate q5.json
check "a page" "$pith" sensitivity "$probe" $short --acts nvfp4 --kv q8_0 -r rtn --container gguf --try q3_k,q4_k,q6_k -o page.html --json --quiet
cp "$work/stdout" page.json
check "whose grids come once each" python3 -c "import json; g = json.load(open('page.json'))['grids']; assert g and len(set(g)) == len(g) and set(r['grid'] for r in json.load(open('page.json'))['rows'] if r['kind'] == 'weights') == set(g), g"
for part in '<title>Sensitivity of probe' 'Keys and values' 'Inputs of linears' 'mlp.down_proj, layer 5' 'The dearest'; do
    check "the page has: $part" grep -q "$part" page.html
done
check "and fetches nothing" sh -c "! grep -qE '(src|href)=.http' page.html"
refuse "a page where none can be" 1 'none/page' "$pith" sensitivity "$probe" $few -o none/page.html
check "inputs alone" "$pith" quantize "$probe" -o w8 -r rtn --weights int8:channel --container compressed-tensors --quiet
check "and rounded" "$pith" quantize "$probe" -o w8a6 -r rtn --weights int8:channel --acts mxfp6_e2m3 --container compressed-tensors --quiet
"$pith" eval w8a6 --baseline w8 --text "$root/src/calib/builtin.txt" --max-tokens $shorter --context 256 --json --quiet >a6.json
check "diverge as predicted" python3 look.py sum one.json mxfp6_e2m3 a6.json
check "less is looked at when asked" sense few --acts none --kv turbo3 -r rtn --container compressed-tensors
check "and told" python3 look.py only few.json weights cache
check "a mixture's experts" sh -c "'$pith' sensitivity '$root/models/probe-moe' --try int4:g32 --kv none $short --json --quiet >moe.json && grep -q 'experts.3.gate_up' moe.json"
python3 "$root/tests/cli/kinds_model.py" deepseek_v3 "$probe" latent dense >/dev/null
latent="--text $root/src/calib/builtin.txt --max-tokens 2048 --context 64 --json --quiet"
check "latents" sh -c "'$pith' sensitivity latent --try int8:channel --acts none --kv int4:token --calib-tokens 2048 --seq-len 64 --json --quiet >latent.json && grep -q 'layers.1.kv\"' latent.json"
# shellcheck disable=SC2086
"$pith" eval latent --baseline latent --kv int4:token $latent >l4.json
check "are predicted, too" python3 look.py sum latent.json int4:token l4.json
refuse "a cache of several ages" 1 'is not predicted' "$pith" sensitivity "$probe" --kv int4:token,recent=32 $few
refuse "a cache that is none" 2 'no such format' "$pith" sensitivity "$probe" --kv x9 $few
refuse "inputs on a grid that is none" 2 'no such format' "$pith" sensitivity "$probe" --acts int8:token,x9 $few
refuse "inputs on a grid of weights" 1 'activations cannot be' "$pith" sensitivity "$probe" --acts nf4:g64 $few
finish
