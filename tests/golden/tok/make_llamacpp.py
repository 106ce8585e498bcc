"""Turns llama.cpp's conformance vectors (ggml-vocab-*.gguf.inp and .out) into .tok files for test_golden,
with the vocabularies that the data folder has. Usage: make_llamacpp.py OUTPUT_DIR DATA_DIR
"""
import base64
import glob
import os
import sys

import gguf
from sentencepiece import sentencepiece_model_pb2 as proto
from tokenizers import Tokenizer, decoders, models

import make_golden
import real_tokenizers


def llama3(path):
    """tokenizer.json for a tiktoken file: merges are the splits of each token into two earlier ones."""
    with open(path, "rb") as f:
        ranks = {base64.b64decode(t): int(r) for t, r in (line.split() for line in f)}
    spell = {}
    free = 256
    for b in range(256):
        if 33 <= b <= 126 or 161 <= b <= 172 or 174 <= b <= 255:
            spell[b] = chr(b)
        else:
            spell[b], free = chr(free), free + 1
    name = lambda token: "".join(spell[b] for b in token)
    merges = []
    for token, rank in ranks.items():
        parts = [(token[:i], token[i:]) for i in range(1, len(token)) if token[:i] in ranks and token[i:] in ranks]
        merges += sorted(((rank, ranks[a], ranks[b]), name(a), name(b)) for a, b in parts)
    merges.sort(key=lambda m: m[0])
    tok = Tokenizer(models.BPE({name(t): r for t, r in ranks.items()}, [(a, b) for _, a, b in merges], ignore_merges=True))
    tok.pre_tokenizer = real_tokenizers.pre_of("llama-bpe")
    tok.decoder = decoders.ByteLevel()
    return tok


def spm_of_gguf(path):
    """A SentencePiece model with the pieces and scores of a GGUF file."""
    fields = gguf.GGUFReader(path).fields
    m = proto.ModelProto()
    rows = zip(*(fields["tokenizer.ggml." + k].contents() for k in ("tokens", "scores", "token_type")))
    for text, score, kind in rows:
        # Phi-3's file calls <unk> a control token and its padding unknown.
        m.pieces.add(piece=text, score=score, type=kind if kind in (1, 6) else 2 if text == "<unk>" else 3)
    m.trainer_spec.model_type = 2
    m.trainer_spec.byte_fallback = True
    m.normalizer_spec.remove_extra_whitespaces = False
    return m.SerializeToString()


def vectors(base):
    with open(base + ".inp", encoding="utf-8", newline="") as f:
        texts = f.read().split("\n__ggml_vocab_test__\n")
    with open(base + ".out") as f:
        ids = [[int(i) for i in line.split()] for line in f.read().split("\n")]
    return [(t.encode(), i) for t, i in zip(texts, ids)]


def main():
    out, data = sys.argv[1:3]
    os.makedirs(out, exist_ok=True)
    hf = {"qwen2": real_tokenizers.qwen(os.path.join(data, "tokenizers/qwen2.5")),
          "llama-bpe": llama3(os.path.join(data, "tokenizers/llama3/tokenizer.model"))}
    for base in sorted(p[:-4] for p in glob.glob(os.path.join(data, "tokenizers/llama.cpp-vocab/*.inp"))):
        name = os.path.basename(base)[len("ggml-vocab-"):-len(".gguf")]
        tok = hf.get(name) or (real_tokenizers.from_gguf(base) if os.path.exists(base) else None)
        if tok is None and not os.path.exists(base):
            print(name, "has no vocabulary here")
            continue
        cases = dict(vectors(base))
        path = os.path.join(out, name + ".tok")
        if tok:
            make_golden.write(path, 0, tok.to_str().encode(), list(cases),
                              lambda t: (cases[t.encode()],) * 2, lambda i, skip: tok.decode(i, skip_special_tokens=skip))
        else:
            import sentencepiece
            model = spm_of_gguf(base)
            sp = sentencepiece.SentencePieceProcessor(model_proto=model)
            make_golden.write(path, 1, model, list(cases), lambda t: (cases[t.encode()], [1] + cases[t.encode()]),
                              lambda i, skip: sp.decode(i))


main()
