"""Golden vectors for src/tok/files/gguf_spm.c, made by Hugging Face's converter of SentencePiece models and tokenizers.

make_gguf.py
    writes gguf_spm.tok beside this script, whose tokenizer is a GGUF file (kind 2: make_golden.py), and gguf_spm.json,
    the tokenizer.json that the converter makes of the same pieces

The pieces are some of those of spm_user.tok here, with a control token as chat models have them.
"""
import json
import os
import struct
import tempfile
import types

import gguf
from sentencepiece import sentencepiece_model_pb2 as proto
from tokenizers import AddedToken, Tokenizer, models, processors
from transformers.convert_slow_tokenizer import LlamaConverter, generate_merges

import make_golden

HERE = os.path.dirname(os.path.abspath(__file__))
JOINED = 60  # of the pieces that merges make, the first so many
TEXTS = ["", " ", "  two  spaces ", "Hello world", "the other thing, and that", "a<s>b", "<|im_end|>", "x<|im_end|>\n<|im_end|> y",
         "<tool>ab abc[X]", "café über", "日本語 \U0001f600", "tab\tnew\nline", "▁mark ▁ ", "</s> the <unk>", "0123 456", "<0x41>", "\u0301x"]


def pieces():
    """(text, score, type) of a small model"""
    with open(os.path.join(HERE, "spm_user.tok"), "rb") as f:
        data = f.read()
    (size,) = struct.unpack_from("<I", data, 9)
    all_ = proto.ModelProto.FromString(data[13:13 + size]).pieces
    joined = {p.piece for p in [p for p in all_ if p.type == 1 and len(p.piece) > 1][JOINED:]}
    return [(p.piece, p.score, p.type) for p in all_ if p.piece not in joined] + [("<|im_end|>", 0.0, 3)]


def file_of(rows):
    with tempfile.TemporaryDirectory() as folder:
        w = gguf.GGUFWriter(folder + "/m.gguf", "llama")
        w.add_tokenizer_model("llama")
        w.add_token_list([t for t, _, _ in rows])
        w.add_token_scores([s for _, s, _ in rows])
        w.add_token_types([k for _, _, k in rows])
        w.add_bos_token_id(1)
        w.add_eos_token_id(2)
        w.add_unk_token_id(0)
        w.add_add_bos_token(True)
        w.add_string("tokenizer.chat_template", "{{ messages }}")
        w.add_string("tokenizer.chat_template.tool_use", "{{ tools }}")
        w.write_header_to_file()
        w.write_kv_data_to_file()
        w.write_tensors_to_file()
        w.close()
        with open(folder + "/m.gguf", "rb") as f:
            return f.read()


def converted(rows):
    """As LlamaConverter does it, whose way to the merges is not whole in transformers 5."""
    ids = {t: i for i, (t, _, _) in enumerate(rows)}
    tok = Tokenizer(models.BPE(ids, generate_merges(ids, {t: s for t, s, _ in rows}), unk_token="<unk>", fuse_unk=True,
                               byte_fallback=True))
    llama = object.__new__(LlamaConverter)
    llama.original_tokenizer = types.SimpleNamespace(legacy=True, add_prefix_space=True)
    tok.normalizer = llama.normalizer(None)
    tok.decoder = llama.decoder("\u2581", True)
    tok.add_tokens([AddedToken(t, normalized=False, special=k in (2, 3)) for t, _, k in rows if k in (2, 3, 4)])
    tok.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", 1)])
    return tok


def main():
    rows = pieces()
    tok = converted(rows)
    with open(os.path.join(HERE, "gguf_spm.json"), "w", encoding="utf-8") as f:
        json.dump(json.loads(tok.to_str()), f, ensure_ascii=False, separators=(",", ":"))
        f.write("\n")
    special = {i for i, t in tok.get_added_tokens_decoder().items() if t.special}
    make_golden.write(os.path.join(HERE, "gguf_spm.tok"), 2, file_of(rows), [t.encode() for t in TEXTS],
                      lambda t: (tok.encode(t, add_special_tokens=False).ids, tok.encode(t).ids),
                      lambda ids, skip: tok.decode([i for i in ids if not skip or i not in special], skip_special_tokens=False))


if __name__ == "__main__":
    main()
