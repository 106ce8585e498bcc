#!/bin/sh
# A model whose tensors have other names, and that has another tower beside the language model: the probe
# dressed as a Mistral 3. Its weights become what the probe's become, and the rest is copied bit for bit.
set -u
. tests/cli/lib.sh

python3 - "$probe" "$work/seeing" <<'PY'
import json, os, shutil, struct, sys
src, out = sys.argv[1:]
os.mkdir(out)
for name in ("tokenizer.json", "tokenizer_config.json"):
    shutil.copy(os.path.join(src, name), out)
config = json.load(open(os.path.join(src, "config.json")))
text = dict(config, model_type="mistral", sliding_window=None)
for key in ("architectures", "tie_word_embeddings", "torch_dtype", "attention_bias", "mlp_bias"):
    text.pop(key)
json.dump({"architectures": ["Mistral3ForConditionalGeneration"], "model_type": "mistral3", "text_config": text,
           "vision_config": {"hidden_size": 8}, "tie_word_embeddings": True, "torch_dtype": "bfloat16"},
          open(os.path.join(out, "config.json"), "w"))
data = open(os.path.join(src, "model.safetensors"), "rb").read()
size = struct.unpack("<Q", data[:8])[0]
head, body = json.loads(data[8:8 + size]), data[8 + size:]
head.pop("__metadata__", None)
head = {"language_model." + k: v for k, v in head.items()}
for name, shape in (("vision_tower.patch_conv.weight", [8, 3, 2, 2, 1]), ("multi_modal_projector.linear_1.weight", [4, 8])):
    count = 1
    for n in shape:
        count *= n
    more = bytes((i * 37 + len(name)) % 127 for i in range(2 * count))
    head[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [len(body), len(body) + len(more)]}
    body += more
text = json.dumps(head).encode()
text += b" " * (-len(text) % 8)
open(os.path.join(out, "model.safetensors"), "wb").write(struct.pack("<Q", len(text)) + text + body)
PY

# same NAME A B: tensors of B are those of A under the other names, and what is beside is the input's.
same() {
    check "$1" python3 - "$2" "$3" "$work/seeing" <<'PY'
import glob, json, os, struct, sys
def tensors(folder):
    out = {}
    for path in glob.glob(os.path.join(folder, "*.safetensors")):
        data = open(path, "rb").read()
        size = struct.unpack("<Q", data[:8])[0]
        head = json.loads(data[8:8 + size])
        head.pop("__metadata__", None)
        for name, t in head.items():
            a, b = t["data_offsets"]
            out[name] = (t["dtype"], t["shape"], data[8 + size + a:8 + size + b])
    return out
plain, seeing, source = (tensors(p) for p in sys.argv[1:])
beside = {k: v for k, v in source.items() if k.startswith(("vision_tower.", "multi_modal_projector."))}
assert len(beside) == 2 and all(seeing.get(k) == v for k, v in beside.items()), "what is beside is another"
inner = {k.removeprefix("language_model."): v for k, v in seeing.items() if k not in beside}
assert inner.keys() == plain.keys(), sorted(inner.keys() ^ plain.keys())[:4]
other = [k for k in plain if plain[k] != inner[k]]
assert not other, other[:4]
config = json.load(open(os.path.join(sys.argv[2], "config.json"))).get("quantization_config", {})
assert "multi_modal_projector.linear_1" in config.get("ignore", ["multi_modal_projector.linear_1"]), config
account = json.load(open(os.path.join(sys.argv[2], "pith.json")))
named = [t["name"] for t in account["tensors"] if t.get("reason") == "no part of the language model"]
assert sorted(named) == sorted(beside), named
PY
}

few="--calib $probe/eval.txt --calib-tokens 512 --seq-len 128 --quiet"
# both NAME OPTIONS...: the probe and the other alike.
both() {
    way=$1
    shift
    rm -rf "$work/a" "$work/b"
    # shellcheck disable=SC2086
    check "$way: plain" "$pith" quantize "$probe" -o "$work/a" "$@" $few
    # shellcheck disable=SC2086
    check "$way: seeing" "$pith" quantize "$work/seeing" -o "$work/b" "$@" $few
    same "$way: the same weights" "$work/a" "$work/b"
    check "$way: verify" "$pith" verify "$work/b" --against "$work/seeing"
}
both "gptq int4" -r gptq
"$pith" eval "$work/a" --text "$probe/eval.txt" --context 64 --max-tokens 512 --json >"$work/a.json" 2>/dev/null
"$pith" eval "$work/b" --text "$probe/eval.txt" --context 64 --max-tokens 512 --json >"$work/b.json" 2>/dev/null
check "the same loss" python3 - "$work/a.json" "$work/b.json" <<'PY'
import json, sys
a, b = (json.load(open(p)) for p in sys.argv[1:])
assert a["perplexity"] == b["perplexity"] and a["perplexity"] > 1, (a["perplexity"], b["perplexity"])
PY
check "convert" "$pith" convert "$work/b" -o "$work/c" --container compressed-tensors --quiet
check "what was converted is whole" "$pith" verify "$work/c"
both "rotated" -r gptq --transform rotate:folded
thorough && both "awq" -r awq
finish
