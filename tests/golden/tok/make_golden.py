"""Golden vectors for src/tok, made by Hugging Face tokenizers and by SentencePiece.

make_golden.py OUTPUT_DIR TEXT [--count N] [--all-characters] [--only NAME...]
    writes one .tok file for each small tokenizer trained here (the committed ones: --count 170 --seed 1000)
make_golden.py OUTPUT_DIR TEXT --real DATA_DIR [--count N]
    the same for the real tokenizers in a data folder

TEXT is any large English text; it trains the small tokenizers and lends words to the test strings.
Run the unit test test_golden with PITH_TOK_VECTORS=OUTPUT_DIR to check them.

A .tok file: "PITHTOK1", kind (u8: 0 tokenizer.json, 1 tokenizer.model, 2 GGUF), size and bytes of that file, then
u32 count and for each string: size and bytes; ids; ids with special tokens; the text that decoding the
latter gives, keeping special tokens and skipping them. Sizes are u32, ids are a u32 count and varints.
"""
import argparse
import base64
import io
import json
import os
import struct
import tempfile

import sentencepiece
import tokenizers
from sentencepiece import sentencepiece_model_pb2 as proto
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

import strings as nasty

L3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
      r"|\s+(?!\S)|\s+")
QWEN = L3.replace(r"\p{N}{1,3}", r"\p{N}")
QWEN35 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
WORD = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]%s[\p{Ll}\p{Lm}\p{Lo}\p{M}]%s"
TAIL = r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
TEKKEN = WORD % ("*", "+") + "|" + WORD % ("+", "*") + r"|\p{N}" + TAIL
SUFFIX = "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
O200K = WORD % ("*", "+") + SUFFIX + "|" + WORD % ("+", "*") + SUFFIX + r"|\p{N}{1,3}" + TAIL
CL100K = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]"
          r"|\s+(?!\S)|\s")
KIMI = "[\\p{Han}]+|" + O200K.replace(r"\p{M}]", r"\p{M}&&[^\p{Han}]]").replace(r"[\r\n/]", r"[\r\n]")
EXAONE4 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?"
           r"|\s*[\r\n]|\s+(?!\S)|\s+")
DEEPSEEK3 = (r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"""
             r"|\s*[\r\n]+|\s+(?!\S)|\s+")
THREES = r"\d{1,3}(?=(?:\d{3})*\b)"
ALPHABET = pre_tokenizers.ByteLevel.alphabet()
BYTES = [f"<0x{b:02X}>" for b in range(256)]


def split(pattern, behavior="isolated", invert=False):
    return pre_tokenizers.Split(pattern, behavior, invert)


def train(tok, texts, vocab=400, alphabet=None, special=(), **options):
    trainer = trainers.BpeTrainer(vocab_size=vocab, show_progress=False, initial_alphabet=alphabet or [],
                                  special_tokens=list(special), **options)
    tok.train_from_iterator(texts, trainer)
    return tok


def byte_level(texts, pre, normalizer=None, bos=None, tokens=(), ignore_merges=False, add_prefix=False):
    tok = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    if normalizer:
        tok.normalizer = normalizer
    tok.pre_tokenizer = pre
    tok.decoder = decoders.ByteLevel()
    train(tok, texts, alphabet=sorted(ALPHABET))
    if bos:
        tok.add_special_tokens([bos])
        tok.post_processor = processors.Sequence([
            processors.ByteLevel(trim_offsets=True),
            processors.TemplateProcessing(single=f"{bos} $A", pair=f"{bos} $A {bos} $B",
                                          special_tokens=[(bos, tok.token_to_id(bos))])])
    for t in tokens:
        (tok.add_special_tokens if t.special else tok.add_tokens)([t])
    return tok


def word_pieces(texts, normalizer, pre, decoder, template=True, fallback=True, tokens=(), **model):
    special = ["<unk>", "<s>", "</s>"] + (BYTES if fallback else [])
    tok = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=fallback, **model))
    if normalizer:
        tok.normalizer = normalizer
    if pre:
        tok.pre_tokenizer = pre
    tok.decoder = decoder
    # Training needs words; what is trained on is cut at spaces, what is kept is not.
    train(tok, [" ".join(w) for w in zip(*[iter(" ".join(texts).split(" ")[:9000])] * 3)], vocab=len(special) + 250,
          special=special, limit_alphabet=80)
    data = json.loads(tok.to_str())
    data["added_tokens"] = [t for t in data["added_tokens"] if t["id"] < 3]
    tok = Tokenizer.from_str(json.dumps(data))
    if template:
        tok.post_processor = processors.TemplateProcessing(
            single="<s> $A </s>", pair="<s> $A <s> $B", special_tokens=[("<s>", 1), ("</s>", 2)])
    for t in tokens:
        (tok.add_special_tokens if t.special else tok.add_tokens)([t])
    return tok


def added():
    return [AddedToken("<|end|>", special=True), AddedToken("<tool>", normalized=False),
            AddedToken("[X]", single_word=True, normalized=False), AddedToken("wordy", single_word=True),
            AddedToken("<left>", lstrip=True, normalized=False), AddedToken("<right>", rstrip=True, normalized=False),
            AddedToken("<both>", lstrip=True, rstrip=True, special=True), AddedToken("É", normalized=True),
            AddedToken("ab", normalized=False), AddedToken("abc", normalized=False), AddedToken("   ", normalized=True),
            AddedToken("Mixed", normalized=True)]


def small(texts):
    """name -> Tokenizer"""
    metaspace = pre_tokenizers.Metaspace
    fallback = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                  decoders.Strip(" ", 1, 0)])
    bl = pre_tokenizers.ByteLevel
    seq = pre_tokenizers.Sequence
    t = {}
    t["gpt2"] = byte_level(texts, bl(add_prefix_space=False))
    t["gpt2_prefix"] = byte_level(texts, bl(add_prefix_space=True), tokens=added())
    t["llama3"] = byte_level(texts, seq([split(Regex(L3)), bl(add_prefix_space=False, use_regex=False)]),
                             bos="<|begin_of_text|>", tokens=added(), ignore_merges=True)
    t["qwen"] = byte_level(texts, seq([split(Regex(QWEN)), bl(add_prefix_space=False, use_regex=False)]),
                           normalizers.NFC(), tokens=added())
    t["qwen35"] = byte_level(texts, seq([split(Regex(QWEN35)), bl(add_prefix_space=False, use_regex=False)]), normalizers.NFC())
    t["tekken"] = byte_level(texts, seq([split(Regex(TEKKEN)), bl(add_prefix_space=False, use_regex=False)]), bos="<s>")
    t["o200k"] = byte_level(texts, seq([split(Regex(O200K)), bl(add_prefix_space=False, use_regex=False)]))
    t["cl100k"] = byte_level(texts, seq([split(Regex(CL100K)), bl(add_prefix_space=False, use_regex=False)]))
    t["deepseek"] = byte_level(texts, seq([
        split(Regex(r"[\r\n]")), split(Regex(r"\s?\p{L}+")), split(Regex(r"\s?\p{P}+")),
        split(Regex("[一-龥ࠀ-一가-퟿]+")), pre_tokenizers.Digits(individual_digits=True),
        bl(add_prefix_space=False, use_regex=False)]))
    t["kimi"] = byte_level(texts, seq([split(Regex(KIMI)), bl(add_prefix_space=False, use_regex=False)]), ignore_merges=True)
    t["exaone4"] = byte_level(texts, seq([split(Regex(EXAONE4)), bl(add_prefix_space=False, use_regex=False)]))
    t["deepseek3"] = byte_level(texts, seq([split(Regex(r"\p{N}{1,3}")), split(Regex("[一-龥぀-ゟ゠-ヿ]+")), split(Regex(DEEPSEEK3)),
                                            bl(add_prefix_space=False, use_regex=False)]), bos="<s>", tokens=added())
    t["command"] = byte_level(texts, seq([split(Regex(THREES)), split(Regex(O200K)), bl(add_prefix_space=False, use_regex=False)]),
                              normalizers.NFC())
    t["behaviors"] = byte_level(texts, seq([
        split(Regex(r"\s+"), "merged_with_previous"), split("-", "merged_with_next"), split(Regex(r"\w+"), "contiguous"),
        split(Regex(r"[aeiou]"), "isolated", True), pre_tokenizers.Digits(), pre_tokenizers.Punctuation("contiguous"),
        split(",", "removed"), bl(add_prefix_space=False, use_regex=False)]),
        normalizers.Sequence([normalizers.NFKC(), normalizers.Strip(), normalizers.Replace(Regex(r"\d{3,}"), "#")]))
    t["llama2"] = word_pieces(texts, normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]), None,
                              fallback, fuse_unk=True, tokens=added())
    t["mistral"] = word_pieces(texts, None, metaspace("▁", "first", False), fallback, fuse_unk=True, tokens=added())
    t["gemma"] = word_pieces(texts, normalizers.Replace(" ", "▁"), split(" ", "merged_with_previous"),
                             decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]),
                             fuse_unk=True)
    t["metaspace"] = word_pieces(texts, None, metaspace("▁", "always", True), decoders.Metaspace("▁", "always"),
                                 template=False, fallback=False, fuse_unk=True)
    t["unfused"] = word_pieces(texts, normalizers.NFD(), metaspace("▁", "never", True),
                               decoders.Sequence([decoders.Metaspace("▁", "never"), decoders.Strip(" ", 2, 0)]), fallback=False)
    t["clip"] = word_pieces(texts, normalizers.Sequence([normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase()]),
                            pre_tokenizers.Whitespace(), decoders.BPEDecoder("</w>"), fallback=False,
                            end_of_word_suffix="</w>", tokens=[AddedToken("<TOOL>", normalized=True)])
    t["prefixed"] = word_pieces(texts, None, pre_tokenizers.WhitespaceSplit(), decoders.Fuse(), fallback=False,
                                continuing_subword_prefix="##")
    data = json.loads(t["prefixed"].to_str())
    data["decoder"] = None
    t["prefixed"] = Tokenizer.from_str(json.dumps(data))
    t["roberta"] = byte_level(texts, bl(add_prefix_space=True), tokens=added()[:2])
    t["roberta"].post_processor = processors.RobertaProcessing(("<|end|>", 400), ("<tool>", 401))
    t["normalized"] = byte_level(texts, seq([pre_tokenizers.CharDelimiterSplit("e"), pre_tokenizers.Punctuation("isolated"),
                                             split(Regex("[bc]"), "merged_with_next", True)]),
                                 normalizers.Sequence([normalizers.NFC(), normalizers.ByteLevel()]), tokens=added())
    t["normalized"].post_processor = processors.Sequence([
        processors.BertProcessing(("<|end|>", 400), ("<tool>", 401)),
        processors.TemplateProcessing(single="<tool> $A <|end|>", pair="$A $B", special_tokens=[("<tool>", 401), ("<|end|>", 400)])])
    t |= unigrams(texts)
    return {name: (tok.to_str().encode(), tok) for name, tok in t.items()}


RULES = "".join(f"{a}\t{b}\n" for a, b in [
    ("61 301", "E1"), ("61", "62"), ("FF21", "41"), ("3000", "20"), ("DF", "73 73"), ("9", "20"), ("A", "20"), ("D", "20"),
    ("2026", "2E 2E 2E"), ("200B", ""), ("41 42 43", "78"), ("FB01", "66 69"), ("B2", "32")])


def unigrams(texts):
    """name -> Tokenizer: Unigram models, their vocabularies trained by SentencePiece"""
    seq = normalizers.Sequence
    metaspace = pre_tokenizers.Metaspace

    def tokenizer(model, fallback, normalizer, pre, decoder, tokens=(), score=lambda p: p.score):
        pieces = proto.ModelProto.FromString(model).pieces
        tok = Tokenizer(models.Unigram([(p.piece, score(p)) for p in pieces], 0, fallback))
        if normalizer:
            tok.normalizer = normalizer
        if pre:
            tok.pre_tokenizer = pre
        tok.decoder = decoder
        tok.post_processor = processors.TemplateProcessing(single="<s> $A </s>", pair="$A $B",
                                                           special_tokens=[("<s>", 1), ("</s>", 2)])
        tok.add_special_tokens(["<unk>", "<s>", "</s>"])
        for t in tokens:
            (tok.add_special_tokens if t.special else tok.add_tokens)([t])
        return tok

    trained = dict(model_type="unigram", normalization_rule_name="identity")
    plain = spm_train(texts, vocab_size=300, **trained)
    ruled = spm_train(texts, vocab_size=300, rules=RULES, model_type="unigram")
    bytes_ = spm_train(texts, vocab_size=600, byte_fallback=True, character_coverage=0.99, **trained)
    charsmap = proto.ModelProto.FromString(ruled).normalizer_spec.precompiled_charsmap
    fallback = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                  decoders.Strip(" ", 1, 0)])
    # tokenizers cannot make a Precompiled from Python but reads one
    precompiled = tokenizers.normalizers.Precompiled(charsmap)
    t = {}
    t["uni_t5"] = tokenizer(ruled, False, precompiled, metaspace("▁", "always", True), decoders.Metaspace("▁", "always"),
                            tokens=added())
    t["uni_xlmr"] = tokenizer(plain, False, seq([precompiled, normalizers.Replace(Regex(" {2,}"), " ")]),
                              pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), metaspace("▁", "always", True)]),
                              decoders.Metaspace("▁", "always"))
    t["uni_bytes"] = tokenizer(bytes_, True, seq([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]), None, fallback,
                               tokens=added())
    t["uni_nmt"] = tokenizer(plain, False, seq([normalizers.Nmt(), normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")]),
                             metaspace("▁", "first", True), decoders.Metaspace("▁", "first"))
    # Scores in proportion to the length: nearly all sums are equal.
    t["uni_ties"] = tokenizer(bytes_, True, None, metaspace("▁", "never", False), fallback, score=lambda p: -1.0 * len(p.piece))
    return t


def spm_train(texts, edit=None, **options):
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "text")
        with open(path, "w") as f:
            f.write("\n".join(t.strip() for t in " ".join(texts).split(". "))[:400000])
        if "rules" in options:
            rules = os.path.join(d, "rules.tsv")
            with open(rules, "w") as f:
                f.write(options.pop("rules"))
            options["normalization_rule_tsv"] = rules
        sentencepiece.SentencePieceTrainer.train(input=path, model_prefix=os.path.join(d, "m"),
                                                 minloglevel=2, num_threads=2, **{"model_type": "bpe"} | options)
        with open(os.path.join(d, "m.model"), "rb") as f:
            model = proto.ModelProto.FromString(f.read())
    model.trainer_spec.ClearField("input")
    if edit:
        edit(model)
    return model.SerializeToString()


def unused(model):
    normal = [p for p in model.pieces if p.type == 1 and len(p.piece) > 1]
    for i, p in enumerate(normal):
        if i % 5 == 0:
            p.type = 5


def small_spm(texts):
    """name -> bytes of a model"""
    rules = "".join(f"{a}\t{b}\n" for a, b in [("61 301", "E1"), ("FF21", "41"), ("3000", "20"), ("DF", "73 73"),
                                              ("9", "20"), ("2026", "2E 2E 2E"), ("200B", ""), ("41 42 43", "78")])
    unigram = dict(model_type="unigram")
    llama = dict(vocab_size=560, byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False,
                 split_digits=True, allow_whitespace_only_pieces=True, character_coverage=0.999)
    return {
        "spm_llama": spm_train(texts, **llama),
        "spm_unk": spm_train(texts, vocab_size=300, normalization_rule_name="identity"),
        "spm_user": spm_train(texts, **llama | dict(add_dummy_prefix=False, user_defined_symbols=["<tool>", "[X]", "ab", "abc", "  "])),
        "spm_rules": spm_train(texts, vocab_size=300, rules=rules),
        "spm_suffix": spm_train(texts, **llama | dict(treat_whitespace_as_suffix=True, remove_extra_whitespaces=True)),
        "spm_unused": spm_train(texts, edit=unused, **llama),
        "spm_uni": spm_train(texts, **llama | unigram),
        "spm_uni_rules": spm_train(texts, vocab_size=300, rules=rules, **unigram),
        "spm_uni_user": spm_train(texts, vocab_size=300, normalization_rule_name="identity", add_dummy_prefix=False,
                                  user_defined_symbols=["<tool>", "[X]", "ab", "abc", "  "], **unigram),
        "spm_uni_unused": spm_train(texts, edit=unused, **llama | unigram),
    }


def varints(ids):
    out = bytearray(struct.pack("<I", len(ids)))
    for i in ids:
        while i > 127:
            out.append(i & 127 | 128)
            i >>= 7
        out.append(i)
    return bytes(out)


def blob(b):
    return struct.pack("<I", len(b)) + b


def write(path, kind, model, texts, encode, decode):
    out = io.BytesIO()
    out.write(b"PITHTOK1" + bytes([kind]) + blob(model) + struct.pack("<I", len(texts)))
    for raw in texts:
        text = raw.decode("utf-8", errors="replace")
        ids, special = encode(text)
        out.write(blob(raw) + varints(ids) + varints(special))
        out.write(blob(decode(special, False).encode()) + blob(decode(special, True).encode()))
    with open(path, "wb") as f:
        f.write(out.getvalue())
    print(os.path.basename(path), len(out.getvalue()))


def write_hf(path, model, tok, texts):
    def encode(text):
        return tok.encode(text, add_special_tokens=False).ids, tok.encode(text).ids
    special = {i for i, t in tok.get_added_tokens_decoder().items() if t.special}

    # tokenizers 0.23 does not recognise a special token whose normalized spelling is another one (Llama 2's
    # <s> becomes \u2581<s>), so special ids are taken out here and not by skip_special_tokens.
    def decode(ids, skip):
        return tok.decode([i for i in ids if not skip or i not in special], skip_special_tokens=False)
    write(path, 0, model, texts, encode, decode)


def write_spm(path, model, texts):
    sp = sentencepiece.SentencePieceProcessor(model_proto=model)
    bos = [sp.bos_id()] if sp.bos_id() >= 0 else []

    def encode(text):
        ids = sp.encode(text)
        return ids, bos + ids

    # SentencePiece always skips control pieces; the reader does not compare the other text.
    write(path, 1, model, texts, encode, lambda ids, skip: sp.decode(ids) if skip else "")


def real(data):
    """name -> (bytes, Tokenizer) and name -> model bytes of the real tokenizers"""
    import real_tokenizers
    return real_tokenizers.collect(data)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("output")
    ap.add_argument("text")
    ap.add_argument("--count", type=int, default=300)
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--real")
    ap.add_argument("--only", nargs="*", help="names of tokenizers")
    ap.add_argument("--all-characters", action="store_true")
    a = ap.parse_args()
    os.makedirs(a.output, exist_ok=True)
    with open(a.text, encoding="utf-8") as f:
        text = f.read()[:600000]
    texts = text.split("\n")
    texts = [t for t in texts if t] + nasty.PHRASES * 5
    hf, spm = real(a.real) if a.real else (small(texts), small_spm(texts))
    for i, (name, (model, tok)) in enumerate(sorted(hf.items())):
        if a.only and name not in a.only:
            continue
        cases = nasty.strings(a.count, texts, a.seed + i)
        if a.all_characters:
            cases += nasty.all_characters()
        write_hf(os.path.join(a.output, name + ".tok"), model, tok, cases)
    for i, (name, model) in enumerate(sorted(spm.items())):
        if a.only and name not in a.only:
            continue
        cases = nasty.strings(a.count, texts, a.seed + 100 + i)
        if a.all_characters:
            cases += nasty.all_characters()
        write_spm(os.path.join(a.output, name + ".tok"), model, cases)


assert tokenizers.__version__
if __name__ == "__main__":
    main()
