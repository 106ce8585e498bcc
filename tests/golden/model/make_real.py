#!/usr/bin/env python3
"""Losses and greedy text that transformers computes for the real models of the optional data folder.

Writes real/<model>.json: ids of some windows, the mean loss of each, and a greedy continuation of a prompt.
Made with torch 2.13, transformers 5.23, tokenizers and sentencepiece, in float32 on a CPU.

Usage: make_real.py DATA_FOLDER [output folder]
"""
import json, os, sys
import sentencepiece
import torch
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM

DATA = sys.argv[1]
OUT = sys.argv[2] if len(sys.argv) > 2 else os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                                         "real")


def run(name, encode, text, bos, context, windows, prompt):
    model = AutoModelForCausalLM.from_pretrained(os.path.join(DATA, "models", name),
                                                 dtype=torch.float32, attn_implementation="eager")
    model.eval()
    with open(os.path.join(DATA, "text", text), encoding="utf-8") as f:
        ids = [bos] + encode(f.read(40000))
    rows, losses = [], []
    with torch.no_grad():
        for w in range(windows):
            row = ids[w * context:(w + 1) * context]
            logits = model(torch.tensor([row])).logits[0].double()
            log_p = torch.log_softmax(logits, -1)
            loss = -log_p[torch.arange(context - 1), torch.tensor(row[1:])].mean()
            rows.append(row)
            losses.append(round(float(loss), 7))
        start = [bos] + encode(prompt)
        greedy = list(start)
        for _ in range(60):
            greedy.append(int(model(torch.tensor([greedy])).logits[0, -1].argmax()))
    with open(os.path.join(OUT, name + ".json"), "w") as f:
        json.dump({"windows": rows, "loss": losses, "prompt": len(start), "greedy": greedy}, f)
        f.write("\n")
    print(name, losses)


def spm(name):
    p = sentencepiece.SentencePieceProcessor()
    p.Load(os.path.join(DATA, "models", name, "tokenizer.model"))
    return p.EncodeAsIds


os.makedirs(OUT, exist_ok=True)
run("stories260K", spm("stories260K"), "tinystories_cased_197k.txt", 1, 512, 3, "Once upon a time")
run("babyllama-tok105", spm("babyllama-tok105"), "tinystories_cased_197k.txt", 1, 256, 3,
    "Once upon a time")
tok = Tokenizer.from_file(os.path.join(DATA, "models", "probe", "tokenizer.json"))
run("probe", lambda s: tok.encode(s, add_special_tokens=False).ids, "wikitext-test.hf-joined.txt", 4094,
    512, 3, "The king said that")
