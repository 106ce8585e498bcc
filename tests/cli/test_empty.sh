#!/bin/sh
# Tensors without values: accounted for like others, and nothing divides by their sizes or counts to them.
set -u
. tests/cli/lib.sh
limited() {
    timeout 10 "$@"
}
for shape in '[0]' '[2305843009213693952, 0]' '[0, 7]' '[3, 0, 5]'; do
    dir=$work/m
    rm -rf "$work"/m*
    python3 - "$dir" "$shape" <<'PY'
import json, os, sys
sys.path.insert(0, "tests/cli")
import mini
mini.make(sys.argv[1], layers=1, hidden=64, ffn=64)
path = os.path.join(sys.argv[1], "model.safetensors")
t = mini.read_safetensors(path)
t["model.layers.0.self_attn.rotary_emb.inv_freq"] = ("F32", json.loads(sys.argv[2]), b"")
t["model.rotary_emb.inv_freq"] = ("F16", json.loads(sys.argv[2]), b"")
mini.write_safetensors(path, t)
PY
    check "$shape: inspect" limited "$pith" inspect "$dir" --json
    check "$shape: quantize" limited "$pith" quantize "$dir" -o "$dir-out" -r rtn --weights int4:g32 --quiet \
        --container compressed-tensors
    check "$shape: verify" limited "$pith" verify "$dir-out" --against "$dir"
    mv "$dir-out/pith.json" "$work/kept.json"
    check "$shape: verify without an account" limited "$pith" verify "$dir-out" --against "$dir"
    check "$shape: diff" limited "$pith" diff "$dir" "$dir"
    check "$shape: convert" limited "$pith" convert "$dir-out" -o "$dir-gptq" --container gptq --quiet
    check "$shape: verify what was converted" limited "$pith" verify "$dir-gptq" --against "$dir-out"
    check "$shape: run" limited "$pith" run "$dir-out" -p The -n 2
    check "$shape: not in a GGUF file, which says so" limited "$pith" convert "$dir" -o "$dir.gguf" --quiet
    check "$shape: by name" python3 -c "
import json; assert json.load(open('$dir.gguf.pith.json'))['left_out'] == dict.fromkeys(
    ('model.layers.0.self_attn.rotary_emb.inv_freq', 'model.rotary_emb.inv_freq'), 'computed')"
    check "$shape: verify the file" limited "$pith" verify "$dir.gguf" --against "$dir"
done
finish
