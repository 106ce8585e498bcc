#!/usr/bin/env python3
"""byte_tokens.py DIR: a tokenizer of single bytes that llama.cpp has a name for, in place of arch_case.py's."""
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from arch_case import CHARACTERS  # noqa: E402

path = sys.argv[1] + "/tokenizer.json"
t = json.load(open(path))
vocab = ["<unk>", "<s>", "</s>"] + [chr(ord(c) + 256) if c <= " " else c for c in CHARACTERS]
size = json.load(open(sys.argv[1] + "/config.json"))
size = size.get("text_config", size)["vocab_size"]
vocab += [f"<x{i}>" for i in range(len(vocab), size)]
t["model"]["vocab"] = {c: i for i, c in enumerate(vocab)}
t["model"]["unk_token"] = None
t["post_processor"] = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
                       "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
                       "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}}
t["pre_tokenizer"] = t["decoder"] = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
json.dump(t, open(path, "w"))
