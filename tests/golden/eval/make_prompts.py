#!/usr/bin/env python3
"""prompts.json: what eval/task/prompts must find on tiny and its worse copy (make_golden.py tells both), by
transformers in float32. Usage: make_prompts.py (run in this folder)"""
import json

import numpy as np
import torch
from scipy import stats
from tokenizers import Tokenizer
from transformers import LlamaForCausalLM

PROMPTS = ["The lamp on the quay", "Nobody came", "75 - 62 =", "It is an island, said the ferryman", "é", "So they ate"]
tok = Tokenizer.from_file("tiny/tokenizer.json")
base, worse = (LlamaForCausalLM.from_pretrained("tiny", dtype=torch.float32).eval() for _ in range(2))
for name, p in worse.named_parameters():
    if "proj" in name:
        p.data = (p.data.view(torch.int32) & ~0xFFFFF).view(torch.float32)
eos, mean, weight, agreed, same = base.config.eos_token_id, [], [], 0, 0
for prompt in PROMPTS:
    ids = tok.encode(prompt).ids
    n = len(ids)
    with torch.no_grad():
        for _ in range(64):
            ids.append(int(base(torch.tensor([ids])).logits[0, -1].argmax()))
            if ids[-1] == eos:
                break
        p, q = (torch.log_softmax(m(torch.tensor([ids])).logits[0].double(), -1)[n - 1 : -1] for m in (base, worse))
    hits = int((q.argmax(1) == torch.tensor(ids[n:])).sum())
    mean.append(float((p.exp() * (p - q)).sum(1).mean()))
    weight.append(len(ids) - n)
    agreed += hits
    same += hits == len(ids) - n
w, m = np.array(weight, float), np.array(mean)
kld = float((w * m).sum() / w.sum())
half = stats.t.ppf(0.975, len(m) - 1) * np.sqrt(len(m) * np.var(w * (m - kld), ddof=1)) / w.sum()
with open("prompts.json", "w") as f:
    json.dump({"prompts": PROMPTS, "tokens": int(w.sum()), "same": same, "top1_agreement": agreed / w.sum(),
               "kld_mean": kld, "lo": max(0.0, kld - half), "hi": kld + half}, f, indent=1)
    f.write("\n")
