#!/usr/bin/env python3
"""What eval/ must measure, computed by transformers and PyTorch in float32.

Usage: make_golden.py [DATA]     (run in this folder; needs torch, transformers, tokenizers, scipy)

Writes the model tiny/ (random weights, byte-level BPE), tiny.jsonl (a task) and golden.json. With DATA,
the folder of real models, their figures too; without it, those in golden.json are kept.

The "worse" copy of a model, which the tests make for themselves, has all projection weights cut (towards
0) to 3 bits of mantissa."""
import json
import os
import random
import sys

import numpy as np
import torch
from scipy import stats
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import LlamaConfig, LlamaForCausalLM

torch.set_num_threads(2)
torch.manual_seed(1)

TEXT = """The lamp on the quay was lit at six, as it was every evening, and the ferry came in under it with
its engine turning over so slowly that one could count the strokes. Four people got off. The first was a
woman with a crate of oranges; the second, a boy who carried nothing and looked at everything. "Is this the
island?" he asked. "It is an island," said the ferryman, "and there are eleven of them, so you will have to
say which one you want." The boy thought about that. He had been told that somebody would meet him, but the
quay was empty save for a dog, two barrels, and a bicycle without its chain. Behind the houses the hill rose
like the back of a sleeping animal: dark, round, breathing a little when the wind went over the grass.

Nobody came. At seven the lamp was trimmed, at eight the dog went home. The woman with the oranges sat down
on a barrel, peeled one, and held out half. "They will have gone to the north landing," she said. "They
always do when the wind is in the west, and then they walk across, and then it is nine o'clock, and they
blame the ferry." So they ate oranges, 1 and 2 and 3 of them, and threw the peel into the water, where it
floated in small bright boats towards the open sea. At nine there were steps on the path, and a lantern.
"You are late," said a voice. "No," said the boy, "I was early. I have been here all the time."
"""


def make_tiny():
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tok.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=318, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                  show_progress=False)
    tok.train_from_iterator([TEXT], trainer)
    tok.add_special_tokens(["<s>", "</s>"])
    bos, eos = tok.token_to_id("<s>"), tok.token_to_id("</s>")
    tok.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B",
                                                       special_tokens=[("<s>", bos)])
    config = LlamaConfig(vocab_size=tok.get_vocab_size(), hidden_size=32, intermediate_size=48,
                         num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
                         max_position_embeddings=128, tie_word_embeddings=True, bos_token_id=bos,
                         eos_token_id=eos, rms_norm_eps=1e-5, rope_theta=10000.0)
    model = LlamaForCausalLM(config)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if "norm" not in name:
                p.copy_(torch.randn_like(p) * (0.5 if "embed" in name else 0.25))
    model.save_pretrained("tiny", safe_serialization=True)
    os.path.exists("tiny/generation_config.json") and os.remove("tiny/generation_config.json")
    tok.save("tiny/tokenizer.json")
    with open("tiny/tokenizer_config.json", "w") as f:
        json.dump({"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>"}, f)


def load(path):
    """The model and its worse copy, both computing in float32."""
    pair = []
    for worse in (False, True):
        model = LlamaForCausalLM.from_pretrained(path, dtype="auto")
        for name, p in model.named_parameters():
            if worse and "proj" in name:
                word, keep = (torch.int16, ~0xF) if p.dtype == torch.bfloat16 else (torch.int32, ~0xFFFFF)
                p.data = (p.data.view(word) & keep).view(p.dtype)
        pair.append(model.float().eval())
    return pair


def hf_loss(model, ids, max_length, stride):
    """The strided evaluation of Hugging Face's page on perplexity: labels outside the new part are -100, the
    model's own loss is taken, and weighted by the number of kept labels less one."""
    total, n, prev = 0.0, 0, 0
    for begin in range(0, len(ids), stride):
        end = min(begin + max_length, len(ids))
        x = torch.tensor([ids[begin:end]])
        y = x.clone()
        y[:, : x.shape[1] - (end - prev)] = -100
        with torch.no_grad():
            loss = model(x, labels=y).loss
        kept = int((y != -100).sum()) - 1
        if kept > 0:
            total += loss.item() * kept
            n += kept
        prev = end
        if end == len(ids):
            break
    return total / n


def scored(ids, convention, context, stride, bos):
    """(window, positions whose prediction counts) of each convention, from its definition."""
    if convention == "hf":
        prev = 0
        for begin in range(0, len(ids), stride):
            end = min(begin + context, len(ids))
            new = range(max(prev, begin + 1), end)
            if end - prev > 1:
                yield ids[begin:end], [p - begin for p in new], end - prev - 1
            prev = end
            if end == len(ids):
                return
        return
    for begin in range(0, len(ids) - context + 1, context):
        w = list(ids[begin : begin + context])
        first = 1
        if convention == "llama.cpp":
            w[0] = bos
            first = context // 2 + 1
        yield w, list(range(first, context)), context - first


def log_probs(model, w):
    with torch.no_grad():
        return torch.log_softmax(model(torch.tensor([w])).logits[0].double(), -1)


def measure(pair, ids, convention, context, stride, bos):
    """The worse copy, held against the model."""
    base, worse = pair
    loss, base_loss, weight, kld, same = [], [], [], [], 0
    for w, positions, mass in scored(ids, convention, context, stride, bos):
        p, q = log_probs(base, w), log_probs(worse, w)
        at = torch.tensor(positions)
        target = torch.tensor(w)[at]
        p, q = p[at - 1], q[at - 1]
        base_loss.append(-p.gather(1, target[:, None]).mean().item())
        loss.append(-q.gather(1, target[:, None]).mean().item())
        weight.append(mass)
        kld += (p.exp() * (p - q)).sum(1).tolist()
        same += int((p.argmax(1) == q.argmax(1)).sum())
    loss, base_loss, weight = np.array(loss), np.array(base_loss), np.array(weight, float)
    delta, n = loss - base_loss, len(loss)
    mean = float((delta * weight).sum() / weight.sum())
    half = float("inf")
    se = float("inf")
    if n > 1:
        r = weight * (delta - mean)
        half = stats.t.ppf(0.975, n - 1) * np.sqrt(n * np.var(r, ddof=1)) / weight.sum()
        nll = (loss * weight).sum() / weight.sum()
        se = np.sqrt(n * np.var(weight * (loss - nll), ddof=1)) / weight.sum()
    out = {"convention": convention, "context": context, "stride": stride, "windows": n, "tokens": len(kld),
           "nll": float((loss * weight).sum() / weight.sum()),
           "baseline_nll": float((base_loss * weight).sum() / weight.sum()),
           "kld_mean": float(np.mean(kld)), "kld_median": float(np.median(kld)),
           "kld_p99": float(np.percentile(kld, 99)), "kld_max": float(np.max(kld)),
           "top1_agreement": same / len(kld), "nll_delta": mean}
    if n > 1:
        out |= {"nll_se": float(se), "lo": mean - float(half), "hi": mean + float(half)}
    if convention == "hf":
        out["documented_loop"] = hf_loss(base, ids, context, stride)
    return out


CASES = [("gptq", 64, 0), ("gptq", 128, 0), ("llama.cpp", 64, 0), ("llama.cpp", 33, 0), ("hf", 64, 24),
         ("hf", 64, 64), ("hf", 128, 50), ("hf", 4096, 512)]


def score_task(model, tok, bos, path, limit):
    """Which items are answered rightly, by the summed log-probability of the tokens after the context; and how
    many have a choice with no such token."""
    right, undecided = [], 0
    with open(path) as f:
        items = [json.loads(line) for line in f][:limit]
    for item in items:
        n = 1 + len(tok.encode(item["context"], add_special_tokens=False).ids)
        sums, empty = [], False
        for c in item["choices"]:
            ids = [bos] + tok.encode(item["context"] + c, add_special_tokens=False).ids
            lp = log_probs(model, ids)
            empty |= len(ids) <= n
            sums.append(sum(lp[k - 1, ids[k]].item() for k in range(n, len(ids))))
        undecided += empty
        right.append(int(np.argmax(sums)) == item["answer"])
    return np.array(right), undecided


def task_figures(pair, tok, bos, path, limit=None):
    (base, undecided), (worse, _) = (score_task(m, tok, bos, path, limit) for m in pair)
    lost, won = int((base & ~worse).sum()), int((worse & ~base).sum())
    d = worse.astype(float) - base.astype(float)
    ci = stats.ttest_1samp(d, 0).confidence_interval(0.95)
    return {"file": os.path.basename(path), "n": len(base), "undecided": undecided, "accuracy": float(worse.mean()),
            "baseline_accuracy": float(base.mean()), "lo": float(ci.low), "hi": float(ci.high),
            "p": float(stats.binomtest(min(lost, won), lost + won, 0.5).pvalue) if lost + won else 1.0}


def make_task(pair, tok, bos):
    """Items whose answer is what the model says, for two in three; so copies can lose and win some."""
    rng = random.Random(3)
    words = [w.strip('".,;:?') for w in TEXT.split()]
    items = []
    for i in range(60):
        context = " ".join(rng.sample(words, rng.randint(1, 6)))
        choices = [" " + " ".join(rng.sample(words, rng.randint(1, 3))) for _ in range(rng.randint(2, 5))]
        items.append({"context": context, "choices": choices, "answer": 0})
    for i, item in enumerate(items):
        with open("tiny.jsonl", "w") as f:
            f.write("\n".join(json.dumps(dict(item, answer=a)) for a in range(len(item["choices"]))) + "\n")
        picks, _ = score_task(pair[0], tok, bos, "tiny.jsonl", None)
        item["answer"] = int(np.argmax(picks)) if i % 3 else rng.randrange(len(item["choices"]))
    with open("tiny.jsonl", "w") as f:
        f.writelines(json.dumps(item) + "\n" for item in items)


def tiny_figures():
    make_tiny()
    pair, tok = load("tiny"), Tokenizer.from_file("tiny/tokenizer.json")
    ids, bos = tok.encode(TEXT).ids, tok.token_to_id("<s>")
    make_task(pair, tok, bos)
    return {"ids": ids, "bos": bos, "text": [measure(pair, ids, *c, bos) for c in CASES],
            "task": task_figures(pair, tok, bos, "tiny.jsonl")}


def data_figures(data):
    import sentencepiece

    def prefix(name, size):
        with open(f"{data}/text/{name}", "rb") as f:
            return f.read(size).decode()

    sp = sentencepiece.SentencePieceProcessor(model_file=f"{data}/models/stories260K/tokenizer.model")
    pair, bos, out = load(f"{data}/models/stories260K"), sp.bos_id(), []
    for size, case in ((60000, ("gptq", 512, 0)), (8000, ("hf", 512, 256)), (8000, ("llama.cpp", 512, 0))):
        ids = [bos] + sp.encode(prefix("tinystories_cased_197k.txt", size))
        out.append({"model": "stories260K", "file": "tinystories_cased_197k.txt", "bytes": size,
                    "ids": len(ids)} | measure(pair, ids, *case, bos))
    tok = Tokenizer.from_file(f"{data}/models/probe/tokenizer.json")
    pair, bos = load(f"{data}/models/probe"), tok.token_to_id("<|begin_of_text|>")
    for case in (("gptq", 512, 0), ("hf", 512, 256), ("llama.cpp", 512, 0)):
        ids = tok.encode(prefix("wikitext-test.hf-joined.txt", 8000)).ids
        out.append({"model": "probe", "file": "wikitext-test.hf-joined.txt", "bytes": 8000,
                    "ids": len(ids)} | measure(pair, ids, *case, bos))
    tasks = [task_figures(pair, tok, bos, f"{data}/models/probe/tasks/{t}.jsonl", 40)
             for t in ("arithmetic", "syntax")]
    return {"text": out, "tasks": tasks}


def main():
    old = json.load(open("golden.json")) if os.path.exists("golden.json") else {}
    golden = {"tiny": tiny_figures(), "data": old.get("data")}
    if len(sys.argv) > 1:
        golden["data"] = data_figures(sys.argv[1])
    with open("golden.json", "w") as f:
        json.dump(golden, f, indent=None, separators=(",", ":"))
        f.write("\n")
    for part in golden.values():
        for row in (part or {}).get("text", []):
            print({k: v for k, v in row.items() if k in ("model", "convention", "context", "ids", "windows", "tokens",
                                                          "nll", "baseline_nll", "documented_loop", "kld_mean",
                                                          "top1_agreement")})


main()
