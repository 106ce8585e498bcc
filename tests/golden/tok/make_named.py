"""Golden vectors for src/tok/files/added_files.c, made by transformers: ids of folders whose tokenizer.json lacks tokens that the
files beside it name.

make_named.py
    writes named.json beside this script: a list of {"name", "files": {NAME: JSON}, "texts", "ids", "shown":
    what decoding them gives}

The tokenizer.json is that of models/probe, of 4096 tokens.
"""
import json
import os
import shutil
import tempfile

from transformers import AutoTokenizer

HERE = os.path.dirname(os.path.abspath(__file__))
PROBE = os.path.join(HERE, "..", "..", "..", "models", "probe")
TEXTS = ["a<|new|>b <|other|> c", "<|other|><|end_of_text|>x<|new|>", "none of them"]


def token(text, special=False, **flags):
    return {"content": text, "lstrip": False, "normalized": False, "rstrip": False, "single_word": False,
            "special": special} | flags


def added(**flags):
    return {"__type": "AddedToken"} | token("<|new|>", True, **flags)


PLAIN = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<|begin_of_text|>", "eos_token": "<|end_of_text|>"}
KNOWN = {"4094": token("<|begin_of_text|>", True), "4095": token("<|end_of_text|>", True)}
LISTED = PLAIN | {"added_tokens_decoder": KNOWN}
BOTH = ["<|new|>", "<|other|>"]
CASES = {
    "nothing more": {"tokenizer_config.json": LISTED},
    "additional": {"tokenizer_config.json": LISTED | {"additional_special_tokens": BOTH}},
    "extra, a list": {"tokenizer_config.json": LISTED | {"extra_special_tokens": BOTH}},
    "extra, by name": {"tokenizer_config.json": LISTED | {"extra_special_tokens": {"x_token": "<|new|>", "y_token": "<|other|>"}}},
    "both": {"tokenizer_config.json": LISTED | {"additional_special_tokens": ["<|new|>"],
                                                "extra_special_tokens": {"image_token": "<|other|>"}}},
    "pad and unk": {"tokenizer_config.json": LISTED | {"pad_token": "<|new|>", "unk_token": "<|other|>"}},
    "of its own name": {"tokenizer_config.json": LISTED | {"image_token": "<|new|>"}},
    "with flags": {"tokenizer_config.json": LISTED | {"pad_token": added(rstrip=True)}},
    "the decoder, whatever ids": {"tokenizer_config.json": PLAIN | {"added_tokens_decoder": KNOWN | {
        "5000": token("<|other|>"), "4096": token("<|new|>", True, rstrip=True)}}},
    "a map that the decoder makes superfluous": {"tokenizer_config.json": LISTED, "special_tokens_map.json": {
        "additional_special_tokens": BOTH}, "added_tokens.json": {"<|new|>": 4096}},
    "a map": {"tokenizer_config.json": PLAIN, "special_tokens_map.json": {"additional_special_tokens": BOTH}},
    "added_tokens.json": {"tokenizer_config.json": PLAIN, "added_tokens.json": {"<|new|>": 4100, "<|other|>": 4097}},
}


def main():
    out = []
    for name, files in CASES.items():
        files = files | {"config.json": {"model_type": "llama", "vocab_size": 4200}}
        with tempfile.TemporaryDirectory() as folder:
            for path, content in files.items():
                with open(os.path.join(folder, path), "w") as f:
                    json.dump(content, f)
            shutil.copy(os.path.join(PROBE, "tokenizer.json"), folder)
            tok = AutoTokenizer.from_pretrained(folder)
        ids = [tok.encode(t) for t in TEXTS]
        out.append({"name": name, "files": files, "texts": TEXTS, "ids": ids,
                    "shown": [tok.decode(i, skip_special_tokens=True) for i in ids]})
    with open(os.path.join(HERE, "named.json"), "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(c) for c in out) + "\n]\n")


if __name__ == "__main__":
    main()
