"""What transformers, in float32, makes of the model: the loss on texts and how often each expert is used.

    measure.py MODEL NAME=TEXT ...          a text: a file, its tokens after one BOS cut into windows of 512
    measure.py MODEL --tasks FILE.jsonl ... the share of multiple-choice items answered rightly

Prints for each text its loss (the first token of a window is not scored, a rest shorter than a window is left out: what
`pith eval --context 512` does), and for each layer how many of the scored tokens each expert was chosen for; every token
chooses two. Needs torch, transformers and tokenizers.
"""
import json
import pathlib
import sys

import torch
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM

BOS, WINDOW = 4094, 512


def load(folder):
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    return model, Tokenizer.from_file(str(pathlib.Path(folder) / "tokenizer.json"))


def watch(model):
    """counts[layer][expert]: tokens that chose it, from now on, the first position of each row left out."""
    shape = model.config
    counts = torch.zeros(shape.num_hidden_layers, shape.num_experts, dtype=torch.long)

    def hook(layer):
        def count(module, inputs, output):
            chosen = output[2].view(model.rows, -1, shape.num_experts_per_tok)[:, 1:]
            counts[layer] += torch.bincount(chosen.reshape(-1), minlength=shape.num_experts)
        return count

    for i, layer in enumerate(model.model.layers):
        layer.mlp.gate.register_forward_hook(hook(i))
    return counts


def score(model, ids):
    """Sum of the losses of all windows, and how many tokens were scored."""
    ids = [BOS] + ids
    rows = [ids[i:i + WINDOW] for i in range(0, len(ids) - WINDOW + 1, WINDOW)] or [ids]
    total = 0.0
    for i in range(0, len(rows), 8):
        x = torch.tensor(rows[i:i + 8])
        model.rows = len(x)
        p = model(x).logits[:, :-1].double().log_softmax(-1)
        total -= p.gather(-1, x[:, 1:, None]).sum().item()
    return total, sum(len(r) - 1 for r in rows)


def answer(model, tok, item):
    best, start = None, tok.encode(item["context"], add_special_tokens=False).ids
    for c, choice in enumerate(item["choices"]):
        ids = [BOS] + tok.encode(item["context"] + choice, add_special_tokens=False).ids
        x = torch.tensor([ids])
        model.rows = 1
        p = model(x).logits[0, :-1].double().log_softmax(-1).gather(-1, x[0, 1:, None])[len(start):].sum().item()
        best = max(best or (p, c), (p, c))
    return best[1] == item["answer"]


@torch.no_grad()
def main():
    model, tok = load(sys.argv[1])
    if sys.argv[2] == "--tasks":
        model.rows = 1
        for path in sys.argv[3:]:
            items = [json.loads(line) for line in open(path, encoding="utf-8")]
            right = sum(answer(model, tok, item) for item in items)
            print(f"{pathlib.Path(path).stem}: {right} of {len(items)}, {100 * right / len(items):.1f}%")
        return
    counts = watch(model)
    for argument in sys.argv[2:]:
        name, path = argument.split("=", 1)
        counts.zero_()
        total, tokens = score(model, tok.encode(open(path, encoding="utf-8").read(), add_special_tokens=False).ids)
        print(f"{name}: loss {total / tokens:.4f} over {tokens} tokens")
        for layer, row in enumerate(counts.tolist()):
            print(f"  layer {layer}:", " ".join(f"{n:6}" for n in row))


if __name__ == "__main__":
    main()
