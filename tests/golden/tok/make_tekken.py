"""Golden vectors for src/tok/files/tok_tekken.c, made by mistral-common: ids of small tekken.json files.

make_tekken.py
    writes tekken.json beside this script: {"vocab", "merges": those of the first row as llama.cpp's converter has them (the
    package gguf), "texts", "rows"}; a row is {"name", "files": {"tekken.json": one without
    "vocab"}, "ids": with BOS, "shown": what decoding them gives}

The ranks are learned here from the phrases of strings.py. Special tokens of a text stand for themselves in pith, as in the
tokenizer.json that transformers makes of such a file (MistralConverter); mistral-common itself reads them as text, so what is
between them is given to it.
"""
import base64
import json
import os
import pathlib
import re
import tempfile

from gguf.vocab import MistralVocab
from mistral_common.tokens.tokenizers.tekken import Tekkenizer

import strings

HERE = os.path.dirname(os.path.abspath(__file__))
WORD = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]%s[\p{Ll}\p{Lm}\p{Lo}\p{M}]%s"
TEKKEN = WORD % ("*", "+") + "|" + WORD % ("+", "*") + r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
THREES = r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
TOKENS = 330


def ranks():
    """Tokens by rank: bytes, then what the most frequent pairs of words make."""
    words = [[bytes([b]) for b in w.encode()] for p in strings.PHRASES for w in re.findall(r" ?\w+|\S+", p)]
    tokens = [bytes([b]) for b in range(256)]
    while len(tokens) < TOKENS:
        count = {}
        for w in words:
            for pair in zip(w, w[1:]):
                count[pair] = count.get(pair, 0) + 1
        best = max(sorted(count), key=count.get)
        if best[0] + best[1] not in tokens:
            tokens.append(best[0] + best[1])
        for w in words:
            i = 0
            while i + 1 < len(w):
                if (w[i], w[i + 1]) == best:
                    w[i:i + 2] = [w[i] + w[i + 1]]
                i += 1
    return tokens


def special(names):
    return [{"rank": i, "token_str": n, "is_control": True} for i, n in enumerate(names)]


def config(version, size, count, pattern=TEKKEN):
    return {"pattern": pattern, "num_vocab_tokens": TOKENS, "default_vocab_size": size, "default_num_special_tokens": count,
            "version": version}


NAMES = ["<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[THINK]", "[/THINK]"]
CASES = {
    "v3, the usual special tokens": {"config": config("v3", TOKENS + 20, 20)},
    "v7, more special tokens than have names": {"config": config("v7", TOKENS + 40, 40), "special_tokens": None},
    "v11, fewer tokens than listed": {"config": config("v11", 300 + 12, 12), "special_tokens": special(NAMES)},
    "v13, another pattern": {"config": config("v13", TOKENS + 9, 9, THREES), "special_tokens": special(NAMES), "version": 1,
                             "type": "tekken"},
    "BOS is another id": {"config": config("v13", TOKENS + 9, 9), "special_tokens": special(NAMES[::-1])},
}
TEXTS = strings.PHRASES + ["", " ", "Hello World", "   \n\n  x\t", "1234567", "[INST]Hi[/INST] you</s>", "<SPECIAL_30>a<SPECIAL_11>b",
                           "[TOOL_CALLS]", "<s><s>a", "don't"]


def encode(tok, text):
    names = sorted((t["token_str"] for t in tok._all_special_tokens), key=len, reverse=True)
    ids, at = [tok.bos_id], 0
    for m in re.finditer("|".join(map(re.escape, names)), text):
        ids += tok.encode(text[at:m.start()], False, False) + [tok.get_special_token(m.group())]
        at = m.end()
    return ids + tok.encode(text[at:], False, False)


def main():
    vocab = [{"rank": i, "token_bytes": base64.b64encode(t).decode(), "token_str": None} for i, t in enumerate(ranks())]
    rows, merges = [], None
    with tempfile.TemporaryDirectory() as folder:
        for name, case in CASES.items():
            with open(folder + "/tekken.json", "w") as f:
                json.dump(case | {"vocab": vocab}, f)
            tok = Tekkenizer.from_file(folder + "/tekken.json")
            merges = merges or MistralVocab(pathlib.Path(folder)).extract_vocab_merges_from_model()
            ids = [encode(tok, t) for t in TEXTS]
            rows.append({"name": name, "files": {"tekken.json": case}, "ids": ids, "shown": [tok.decode(i) for i in ids],
                         "bos": tok.bos_id, "eos": tok.eos_id, "vocab": tok.n_words})
    with open(os.path.join(HERE, "tekken.json"), "w") as f:
        f.write('{"vocab": %s,\n"merges": %s,\n"texts": %s,\n"rows": [\n%s\n]}\n' % (
            json.dumps(vocab), json.dumps(merges), json.dumps(TEXTS), ",\n".join(json.dumps(r) for r in rows)))


if __name__ == "__main__":
    main()
