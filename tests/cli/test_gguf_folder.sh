#!/bin/sh
# A folder made of a GGUF file has what its file had: templates by name, special tokens, what ends an answer.
set -u
. tests/cli/lib.sh
is() { # NAME GOT WANT
    [ "$2" = "$3" ] && pass "$1" || fail "$1: $2, not $3"
}
cp -r "$probe" "$work/m"
chmod -R u+w "$work/m"
# A word that the model often writes is the end of a turn now, known by its name alone.
python3 - "$work/m" <<'EOF'
import json, sys
path = sys.argv[1] + "/tokenizer.json"
t = json.load(open(path))
vocab, end = t["model"]["vocab"], "\u0120was"
parts = lambda m: m if isinstance(m, list) else m.split(" ")
t["model"]["merges"] = [m for m in t["model"]["merges"] if end not in parts(m) and "".join(parts(m)) != end]
vocab["<|im_end|>"] = vocab.pop(end)
t["added_tokens"].append({"id": vocab["<|im_end|>"], "content": "<|im_end|>", "single_word": False, "lstrip": False,
                          "rstrip": False, "normalized": False, "special": True})
json.dump(t, open(path, "w"))
path = sys.argv[1] + "/tokenizer_config.json"
c = json.load(open(path))
c["chat_template"] = [{"name": "tool_use", "template": "with {{ tools[0].name }}{{ eos_token }}"},
                      {"name": "default", "template": "{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}"},
                      {"name": "rag", "template": "{{ documents }}"}]
json.dump(c, open(path, "w"))
EOF
check "a folder becomes a file" "$pith" convert "$work/m" -o "$work/m.gguf" --quiet
check "and a folder again" "$pith" convert "$work/m.gguf" -o "$work/back" --container dense --quiet
check "and a file again" "$pith" convert "$work/back" -o "$work/again.gguf" --quiet
check "the file verifies" "$pith" verify "$work/m.gguf" --against "$work/m"
check "so does the folder" "$pith" verify "$work/back" --against "$work/m.gguf"
check "and the file of it" "$pith" verify "$work/again.gguf" --against "$work/back"
python3 - "$work/m" "$work/back" <<'EOF' >"$work/said" 2>&1 && pass "templates, special tokens and ends are in its files" || {
import json, sys
m, back = (json.load(open(d + "/tokenizer_config.json")) for d in sys.argv[1:])
templates = lambda c: {t["name"]: t["template"] for t in c["chat_template"]}
assert templates(m) == templates(back), back
assert [back[k] for k in ("bos_token", "eos_token")] == ["<|begin_of_text|>", "<|end_of_text|>"], back
vocab = json.load(open(sys.argv[2] + "/tokenizer.json"))["model"]["vocab"]
ends = json.load(open(sys.argv[2] + "/generation_config.json"))["eos_token_id"]
assert ends == [4095, vocab["<|im_end|>"]], ends
EOF
    fail "templates, special tokens and ends are in its files"
    cat "$work/said"
}
echo '{"messages": [{"role": "user", "content": "Once upon a time"}]}' >"$work/c.json"
echo '{"messages": [{"role": "user", "content": "Hi"}], "tools": [{"name": "f"}]}' >"$work/t.json"
for model in m m.gguf back again.gguf; do
    is "$model: the usual template" "$("$pith" chat "$work/$model" --render "$work/c.json" 2>&1)" '<|begin_of_text|>Once upon a time'
    is "$model: the one with tools" "$("$pith" chat "$work/$model" --render "$work/t.json" 2>&1)" 'with f<|end_of_text|>'
    "$pith" run "$work/$model" --chat -p "Once upon a time" -n 200 --json >"$work/$model.json" 2>"$work/log" || fail "$model: $(tail -n 1 "$work/log")"
    python3 - "$work/$model.json" <<'EOF' && pass "$model: an answer ends where its name says" || fail "$model: an answer ends where its name says"
import json, sys
a = json.load(open(sys.argv[1]))
assert a["finish_reason"] == "stop" and 0 < a["generated_tokens"] < 200 and a["text"] and "im_end" not in a["text"], a
EOF
done

# A SentencePiece vocabulary: the file's tokenizer, and the folder's that is made of it, are one.
python3 tests/cli/mini.py "$work/pieces" layers=1 vocab=562
rm -f "$work/pieces/tokenizer.json"
python3 - tests/golden/tok/spm_llama.tok "$work/pieces" <<'EOF'
import json, struct, sys
data = open(sys.argv[1], "rb").read()
(size,) = struct.unpack_from("<I", data, 9)
open(sys.argv[2] + "/tokenizer.model", "wb").write(data[13:13 + size])
json.dump({"bos_token": "<s>", "eos_token": "</s>", "chat_template": "{{ bos_token }}{{ messages[0].content }}<|im_end|>",
           "added_tokens_decoder": {"560": {"content": "<|im_start|>", "special": True},
                                    "561": {"content": "<|im_end|>", "special": True}}},
          open(sys.argv[2] + "/tokenizer_config.json", "w"))
c = json.load(open(sys.argv[2] + "/config.json"))
json.dump(c | {"bos_token_id": 1, "eos_token_id": 2}, open(sys.argv[2] + "/config.json", "w"))
EOF
check "pieces: a folder becomes a file" "$pith" convert "$work/pieces" -o "$work/pieces.gguf" --quiet
check "pieces: which verifies" "$pith" verify "$work/pieces.gguf" --against "$work/pieces"
check "pieces: and a folder again" "$pith" convert "$work/pieces.gguf" -o "$work/pieces.back" --container dense --quiet
check "pieces: which verifies, too" "$pith" verify "$work/pieces.back" --against "$work/pieces.gguf"
is "pieces: its template" "$("$pith" chat "$work/pieces.back" --render "$work/c.json" 2>&1)" '<s>Once upon a time<|im_end|>'
is "pieces: its ends" "$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["eos_token_id"])' "$work/pieces.back/generation_config.json")" "[2, 561]"
# Tokenizers that are read as the tokenizer.json that says the same.
for kind in tekken vocab tiktoken; do
    python3 tests/cli/mini.py "$work/$kind" layers=1 vocab=700
    rm -f "$work/$kind"/tokenizer*
done
python3 - "$work" <<'EOF'
import base64, json, struct, sys
work, golden = sys.argv[1], "tests/golden/tok/"
def model(name):
    data = open(golden + name + ".tok", "rb").read()
    (size,) = struct.unpack_from("<I", data, 9)
    return json.loads(data[13:13 + size])
def save(path, what):
    open(work + "/" + path, "w").write(what if isinstance(what, str) else json.dumps(what))
all = json.load(open(golden + "tekken.json"))
save("tekken/tekken.json", all["rows"][0]["files"]["tekken.json"] | {"vocab": all["vocab"]})
gpt2 = model("gpt2")
save("vocab/vocab.json", gpt2["model"]["vocab"])
save("vocab/merges.txt", "#version: 0.2\r\n" + "\r\n".join(m if isinstance(m, str) else " ".join(m) for m in gpt2["model"]["merges"]) + "\r\n")
save("vocab/tokenizer_config.json", {"tokenizer_class": "GPT2Tokenizer"})
letters = [*range(33, 127), *range(161, 173), *range(174, 256)]
letters += [b for b in range(256) if b not in letters]
spelt = {chr(b if i < 188 else 256 + i - 188): b for i, b in enumerate(letters)}
kimi = model("kimi")["model"]["vocab"]
save("tiktoken/tiktoken.model", "".join("%s %d\n" % (base64.b64encode(bytes(spelt[c] for c in t)).decode(), i)
                                        for t, i in sorted(kimi.items(), key=lambda x: x[1])))
save("tiktoken/tokenizer_config.json", {"tokenizer_class": "TikTokenTokenizer", "bos_token": "[BOS]", "eos_token": "[EOS]", "added_tokens_decoder":
     {"400": {"content": "[BOS]", "special": True}, "401": {"content": "[EOS]", "special": True}}})
for kind, bos, eos in ("tekken", 1, 2), ("vocab", 0, 0), ("tiktoken", 400, 401):
    config = json.load(open(work + "/" + kind + "/config.json"))
    save(kind + "/config.json", config | {"bos_token_id": bos, "eos_token_id": eos})
EOF
for kind in tekken vocab tiktoken; do
    check "$kind: a folder becomes a file" "$pith" convert "$work/$kind" -o "$work/$kind.gguf" --quiet
    check "$kind: which verifies" "$pith" verify "$work/$kind.gguf" --against "$work/$kind"
    check "$kind: and a folder again" "$pith" convert "$work/$kind.gguf" -o "$work/$kind.back" --container dense --quiet
    check "$kind: which verifies, too" "$pith" verify "$work/$kind.back" --against "$work/$kind.gguf"
    check "$kind: a folder keeps its files" "$pith" quantize "$work/$kind" -o "$work/$kind.q" -r w8a16 --quiet
done
is "tekken: it is copied as it is" "$(cmp "$work/tekken/tekken.json" "$work/tekken.q/tekken.json" 2>&1)" ""
finish
