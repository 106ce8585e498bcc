"""Collects the real tokenizers of a data folder (see make_golden.py --real)."""
import glob
import json
import os

import gguf
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

L3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
      r"|\s+(?!\S)|\s+")
QWEN = L3.replace(r"\p{N}{1,3}", r"\p{N}")
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LETTERS = r"[\p{Lu}\p{Ll}\p{Lt}]+"  # DeepSeek spells these ranges out


def split(p):
    return pre_tokenizers.Split(Regex(p), "isolated")


def pre_of(name):
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    table = {
        "llama-bpe": [split(L3)],
        "qwen2": [split(QWEN)],
        "gpt-2": [split(GPT2)],
        "starcoder": [pre_tokenizers.Digits(individual_digits=True), split(GPT2)],
        "deepseek-llm": [split(r"[\r\n]"), split(r"\s?" + LETTERS), split("\\s?[!-/:-~！-／：-～‘-‟\u3000-。]+"), split(r"\s+$"),
                         split("[一-龥ࠀ-一가-퟿]+"), pre_tokenizers.Digits(individual_digits=True)],
        "deepseek-coder": [split(r"[\r\n]"), split(r"\s?\p{L}+"), split(r"\s?\p{P}+"), split("[一-龥ࠀ-一가-퟿]+"),
                           pre_tokenizers.Digits(individual_digits=True)],
    }
    return pre_tokenizers.Sequence(table[name] + [level])


def from_gguf(path):
    """A tokenizer.json with the vocabulary and merges of a GGUF file; None when it has no merges."""
    fields = gguf.GGUFReader(path).fields
    get = lambda key: fields[key].contents() if key in fields else None
    if get("tokenizer.ggml.model") != "gpt2":
        return None
    tokens, merges, types = get("tokenizer.ggml.tokens"), get("tokenizer.ggml.merges"), get("tokenizer.ggml.token_type")
    tok = Tokenizer(models.BPE({t: i for i, t in enumerate(tokens)}, [tuple(m.split(" ")) for m in merges],
                               ignore_merges=get("tokenizer.ggml.pre") == "llama-bpe"))
    tok.pre_tokenizer = pre_of(get("tokenizer.ggml.pre"))
    tok.decoder = decoders.ByteLevel()
    tok.add_special_tokens([AddedToken(t, special=True) for t, k in zip(tokens, types) if k == 3])
    return tok


def qwen(folder):
    """What transformers makes of Qwen2's vocab.json and merges.txt."""
    with open(os.path.join(folder, "merges.txt"), encoding="utf-8") as f:
        merges = [tuple(m.split(" ")) for m in f.read().split("\n") if m and not m.startswith("#version")]
    with open(os.path.join(folder, "vocab.json"), encoding="utf-8") as f:
        vocab = json.load(f)
    with open(os.path.join(folder, "tokenizer_config.json"), encoding="utf-8") as f:
        config = json.load(f)
    tok = Tokenizer(models.BPE(vocab, merges))
    tok.normalizer = normalizers.NFC()
    tok.pre_tokenizer = pre_tokenizers.Sequence([split(QWEN), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tok.decoder = decoders.ByteLevel()
    tok.post_processor = processors.ByteLevel(trim_offsets=False)
    for _, t in sorted(config["added_tokens_decoder"].items(), key=lambda kv: int(kv[0])):
        flags = {k: t[k] for k in ("single_word", "lstrip", "rstrip", "normalized")}
        (tok.add_special_tokens if t["special"] else tok.add_tokens)([AddedToken(t["content"], special=t["special"], **flags)])
    return tok


def collect(data):
    hf, spm = {}, {}
    for name, path in {"llama2_json": "tokenizers/llama2/tokenizer.json", "probe": "models/probe/tokenizer.json"}.items():
        with open(os.path.join(data, path), "rb") as f:
            raw = f.read()
        hf[name] = (raw, Tokenizer.from_str(raw.decode()))
    made = {"qwen2.5": qwen(os.path.join(data, "tokenizers/qwen2.5"))}
    for path in glob.glob(os.path.join(data, "tokenizers/llama.cpp-vocab/*.gguf")):
        made[os.path.basename(path)[len("ggml-vocab-"):-len(".gguf")]] = from_gguf(path)
    hf |= {name: (tok.to_str().encode(), tok) for name, tok in made.items() if tok}
    for name, path in {
        "spm_llama2": "tokenizers/llama2/tokenizer.model", "spm_mistral1": "tokenizers/mistral/tokenizer.model.v1",
        "spm_mistral3": "tokenizers/mistral/mistral_instruct_tokenizer_240323.model.v3",
        "spm_storyllamas": "tokenizers/tinystories/storyllamas_4096.model",
        "spm_stories260K": "models/stories260K/tokenizer.model", "spm_babyllama": "models/babyllama-tok105/tokenizer.model",
    }.items():
        with open(os.path.join(data, path), "rb") as f:
            spm[name] = f.read()
    return hf, spm
