"""Golden vectors for src/tok/files/added_files.c, made by transformers: ids of folders with a tokenizer.model and tokens beside it.

make_folders.py
    writes folders.json beside this script: a list of {"name", "files": {NAME: JSON}, "texts", "ids", "shown":
    what decoding them gives}

The model is that of spm_llama.tok here, of 560 pieces.
"""
import json
import os
import struct
import tempfile

from transformers import AutoTokenizer

HERE = os.path.dirname(os.path.abspath(__file__))
# transformers 5 puts no prefix in front of a space behind a token, as SentencePiece and transformers 4 did: none stands there.
TEXTS = ["Hello world", "<|im_start|>user\nthe<|im_end|>\n", "a <tool>b<tool>c", "<pad></s><unk>the", "x<|im_end|>y", "[PAD561]"]


def token(text, special=False):
    return {"content": text, "lstrip": False, "normalized": False, "rstrip": False, "single_word": False, "special": special}


LLAMA = {"tokenizer_class": "LlamaTokenizer", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "legacy": True,
         "add_bos_token": True, "add_eos_token": False}
CASES = {
    "nothing beside": {"tokenizer_config.json": LLAMA},
    "added_tokens_decoder": {"tokenizer_config.json": LLAMA | {"eos_token": "<|im_end|>", "added_tokens_decoder": {
        "560": token("<|im_start|>", True), "561": token("<|im_end|>", True), "562": token("<tool>")}}},
    "added_tokens.json": {"added_tokens.json": {"<tool>": 562, "<|im_start|>": 560, "<|im_end|>": 561},
                          "tokenizer_config.json": LLAMA | {"additional_special_tokens": ["<|im_start|>", "<|im_end|>"]}},
    "no prefix": {"tokenizer_config.json": LLAMA | {"add_prefix_space": False}},
    "not the prefix again": {"tokenizer_config.json": LLAMA | {"legacy": False, "added_tokens_decoder": {
        "560": token("<|im_start|>", True), "561": token("<|im_end|>", True), "562": token("<tool>")}}},
}


def main():
    with open(os.path.join(HERE, "spm_llama.tok"), "rb") as f:
        data = f.read()
    (size,) = struct.unpack_from("<I", data, 9)
    out = []
    for name, files in CASES.items():
        with tempfile.TemporaryDirectory() as folder:
            for path, content in files.items():
                with open(os.path.join(folder, path), "w") as f:
                    json.dump(content, f)
            with open(folder + "/tokenizer.model", "wb") as f:
                f.write(data[13:13 + size])
            with open(folder + "/config.json", "w") as f:
                json.dump({"model_type": "llama"}, f)
            tok = AutoTokenizer.from_pretrained(folder)
        out.append({"name": name, "files": files, "texts": TEXTS, "ids": [tok.encode(t) for t in TEXTS],
                    "shown": [tok.decode(tok.encode(t), skip_special_tokens=True) for t in TEXTS]})
    with open(os.path.join(HERE, "folders.json"), "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(c) for c in out) + "\n]\n")


if __name__ == "__main__":
    main()
