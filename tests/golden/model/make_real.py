#!/usr/bin/env python3
"""Losses and greedy text that transformers computes for real models: those of the optional data folder,
and the mixture that ships.

Writes real/<model>.json: ids of some windows, the mean loss of each, and a greedy continuation of a prompt.
Made with torch 2.13, transformers 5.23, tokenizers and sentencepiece, in float32 on a CPU.

Usage: make_real.py DATA_FOLDER [output folder]
       make_real.py mixture [output folder]      the one that ships alone: nothing else is needed
"""
import json, os, sys
import torch
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM

DATA = sys.argv[1]
MODELS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "models")
OUT = sys.argv[2] if len(sys.argv) > 2 else os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                                         "real")


def run(name, encode, text, bos, context, windows, prompt):
    shipped = name == "probe-moe"
    folder = os.path.join(MODELS if shipped else os.path.join(DATA, "models"), name)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32,
                                                 attn_implementation="eager")
    model.eval()
    with open(os.path.join(MODELS if shipped else os.path.join(DATA, "text"), text),
              encoding="utf-8") as f:
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
    import sentencepiece
    p = sentencepiece.SentencePieceProcessor()
    p.Load(os.path.join(DATA, "models", name, "tokenizer.model"))
    return p.EncodeAsIds


def json_tokenizer(path):
    tok = Tokenizer.from_file(path)
    return lambda s: tok.encode(s, add_special_tokens=False).ids


os.makedirs(OUT, exist_ok=True)
run("probe-moe", json_tokenizer(os.path.join(MODELS, "probe-moe", "tokenizer.json")),
    os.path.join("probe", "eval.txt"), 4094, 512, 3, "The king said that")
if DATA != "mixture":
    run("stories260K", spm("stories260K"), "tinystories_cased_197k.txt", 1, 512, 3, "Once upon a time")
    run("babyllama-tok105", spm("babyllama-tok105"), "tinystories_cased_197k.txt", 1, 256, 3,
        "Once upon a time")
    run("probe", json_tokenizer(os.path.join(DATA, "models", "probe", "tokenizer.json")),
        "wikitext-test.hf-joined.txt", 4094, 512, 3, "The king said that")
