"""What the tokenizers library of Hugging Face loads: golden vectors for src/export/hf_tokenizer.c.

make_tokenizers.py
    writes tokenizers.json beside this script: {"base": a tokenizer.json, "rows": [{"member", "value", "loads"}]}: whether
    it loads when that member is another, or without "value" when it is gone; {"text", "loads"} is a text of its own
"""
import copy
import json
import os

from tokenizers import Tokenizer

HERE = os.path.dirname(os.path.abspath(__file__))
BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
METASPACE = {"type": "Metaspace", "replacement": "_", "prepend_scheme": "first", "split": True}
REPLACE = {"type": "Replace", "pattern": {"String": "a"}, "content": "b"}
TEMPLATE = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "a", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {"a": {"id": "a", "ids": [0], "tokens": ["a"]}}}
ADDED = {"id": 0, "content": "a", "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
BPE = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": False,
       "byte_fallback": False, "ignore_merges": False, "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": [["a", "b"]]}
BASE = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [ADDED], "normalizer": None, "pre_tokenizer": None,
        "post_processor": None, "decoder": None, "model": BPE}
PARTS = {
    "normalizer": [{"type": "NFC"}, {"type": "Prepend", "prepend": "x"}, REPLACE, {"type": "Lowercase"},
                   {"type": "Strip", "strip_left": True, "strip_right": True}, {"type": "StripAccents"}, {"type": "ByteLevel"}],
    "pre_tokenizer": [BYTE_LEVEL, {"type": "Split", "pattern": {"Regex": "a"}, "behavior": "Isolated", "invert": False}, METASPACE,
                      {"type": "Digits", "individual_digits": True}, {"type": "Punctuation", "behavior": "Isolated"},
                      {"type": "WhitespaceSplit"}, {"type": "CharDelimiterSplit", "delimiter": "a"}],
    "decoder": [BYTE_LEVEL, METASPACE, REPLACE, {"type": "ByteFallback"}, {"type": "Fuse"},
                {"type": "Strip", "content": "a", "start": 1, "stop": 0}, {"type": "BPEDecoder", "suffix": "x"}],
    "post_processor": [TEMPLATE, BYTE_LEVEL, {"type": "BertProcessing", "sep": ["a", 0], "cls": ["a", 0]},
                       {"type": "RobertaProcessing", "sep": ["a", 0], "cls": ["a", 0], "trim_offsets": True, "add_prefix_space": True}],
    "model": [BPE, {"type": "Unigram", "unk_id": 0, "vocab": [["a", 0.0], ["b", -1.0]], "byte_fallback": False}],
}
LISTS = {"normalizer": "normalizers", "pre_tokenizer": "pretokenizers", "decoder": "decoders", "post_processor": "processors"}
VALUES = (None, 1, "x", True, [])


def loads(text):
    try:
        Tokenizer.from_str(text)
        return True
    except Exception:
        return False


def changed(part):
    """The part, without each of its members, and with others; its type is left."""
    yield part
    for key in part:
        if key == "type":
            continue
        less = {k: v for k, v in part.items() if k != key}
        yield less
        for v in VALUES:
            yield less | {key: v}


def main():
    rows = []

    def row(member, *value):
        whole = copy.deepcopy(BASE)
        whole.pop(member, None)
        if value:
            whole[member] = value[0]
        rows.append({"member": member, "loads": loads(json.dumps(whole))} | ({"value": value[0]} if value else {}))

    for member in BASE:
        row(member)
    for v in ("1.1", "1.0", None, 1):
        row("version", v)
    row("made_by", "x")
    for part in changed(ADDED):
        row("added_tokens", [part])
    for member, parts in PARTS.items():
        for part in parts:
            for p in changed(part):
                row(member, p)
            if member in LISTS and len(part) > 2:
                less = dict(part)
                less.popitem()
                row(member, {"type": "Sequence", LISTS[member]: [parts[0], part]})
                row(member, {"type": "Sequence", LISTS[member]: [parts[0], less]})
    text = json.dumps(BASE)
    for old, new in (("{", "\ufeff{"), ('"dropout": null', '"dropout": null, "x": NaN'), ('"dropout": null', '"dropout": null, "x": 1, "x": 2'),
                     ('"b": 1', '"b": 1, "b": 1'), ('"b": 1', '"b": 1, "\\ud800": 3'), ('"b": 1', '"b": 1, "\\u0000": 3'),
                     ('"truncation": null', '"truncation": null, "truncation": null'), ("}", "},"), ("{", " \n{")):
        one = text.replace(old, new, 1)
        rows.append({"text": one, "loads": loads(one)})
    with open(os.path.join(HERE, "tokenizers.json"), "w") as f:
        f.write('{"base": %s,\n"rows": [\n%s\n]}\n' % (json.dumps(BASE), ",\n".join(json.dumps(r) for r in rows)))
    print(len(rows), sum(r["loads"] for r in rows))


if __name__ == "__main__":
    main()
