#!/usr/bin/env python3
"""Tiny random models of every architecture with the logits that transformers computes for them.

Writes for each case of cases.py <case>.json (its config.json, and its tensors as save_pretrained stores
them: name, shape and the formula of fill.py that makes their values) and <case>.logits (float32,
[tokens][vocab], the prompts of PROMPTS one after the other). The logits are those of the model read again
by from_pretrained from these files. Made with torch 2.13 and transformers 5.23 on a CPU.

A salt is chosen so that no token stands between two experts: the k-th and the next score of every choice
differ by more than GAP of the scores' range, and so that float32 is enough: logits in float64 are nearer
than NOISE of their range. Every tensor must matter: scaled by -0.5 it moves the logits by more than
EFFECT of their range, or the case would not judge who reads it.

Usage: make_arch.py [-o output folder] [prefix of cases]...
"""
import argparse, json, os, re, tempfile, warnings
import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText, Mxfp4Config
from transformers.utils import logging

import fill
from cases import CASES, VOCAB

# The unit test holds the same two prompts: id = (a * i * i + b * i + c) % VOCAB.
PROMPTS = [[(7 * i * i + 3 * i + 1) % VOCAB for i in range(40)],
           [(5 * i * i + 11 * i + 62) % VOCAB for i in range(25)]]
GAP = 5e-4
NOISE = 1e-5
EFFECT = 1e-3


def build(case):
    config = AutoConfig.for_model(case["model_type"], **case["config"])
    auto = AutoModelForImageTextToText if case.get("vision") else AutoModelForCausalLM
    return auto.from_config(config, attn_implementation="eager", dtype=torch.float32), auto


def stored(model, folder):
    """config.json and [(name, shape)] as save_pretrained writes them."""
    model.config.dtype = torch.float32
    model.save_pretrained(folder)
    with open(os.path.join(folder, "config.json")) as f:
        config = json.load(f)
    tensors = []
    with safe_open(os.path.join(folder, "model.safetensors"), "pt") as f:
        for name in f.keys():
            t = f.get_slice(name)
            assert t.get_dtype() == "F32", (name, t.get_dtype())
            tensors.append((name, list(t.get_shape())))
    return config, tensors


class Gaps:
    """Smallest distance of the last one chosen to the first one not, over all calls of topk."""

    def __enter__(self):
        self.least, self.plain, self.method = 1.0, torch.topk, torch.Tensor.topk

        def topk(x, k, dim=-1, *a, **kw):
            assert dim in (-1, x.dim() - 1)
            if 0 < k < x.shape[-1]:
                s = x.double().sort(dim=-1, descending=True).values.reshape(-1, x.shape[-1])
                low = torch.where(s > -1e30, s, s[:, :1]).amin(-1)
                gap = (s[:, k - 1] - s[:, k]) / (s[:, 0] - low).clamp(min=1e-30)
                self.least = min(self.least, gap.min().item())
            return self.plain(x, k, dim, *a, **kw)

        torch.topk = topk
        torch.Tensor.topk = topk
        return self

    def __exit__(self, *error):
        torch.topk, torch.Tensor.topk = self.plain, self.method


def logits_of(model):
    # Gemma 4 of transformers 5.23 fails where keys are shared and nothing is told, unless states are asked for.
    more = {"output_hidden_states": True} if model.config.model_type.startswith("gemma4") else {}
    with torch.no_grad():
        rows = [model(input_ids=torch.tensor([p]), use_cache=False, **more).logits[0] for p in PROMPTS]
    return torch.cat(rows)


def weakest(case, model, x):
    """The tensor that matters least, and how much; those of `silent` cannot matter."""
    least = (1.0, "")
    for name, p in model.state_dict().items():
        if re.search(case.get("silent", "^$"), name):
            continue
        p.data *= -0.5
        effect = (logits_of(model) - x).abs().max().item() / (x.max() - x.min()).item()
        p.data *= -2
        least = min(least, (effect, name))
    return least


def attempt(case, auto, config, tensors, salt):
    """The logits with that salt, and why it will not do, or None."""
    with tempfile.TemporaryDirectory() as d:
        data = {n: torch.from_numpy(fill.values(n, s, f, salt)) for n, s, f in tensors}
        data = {n: t.to(torch.uint8) if re.search(case.get("bytes", "^$"), n) else t for n, t in data.items()}
        save_file(data, os.path.join(d, "model.safetensors"), metadata={"format": "pt"})
        with open(os.path.join(d, "config.json"), "w") as f:
            json.dump(config, f)
        whole = dict(quantization_config=Mxfp4Config(dequantize=True)) if "bytes" in case else {}
        model, info = auto.from_pretrained(d, dtype=torch.float32, attn_implementation="eager",
                                           experts_implementation="eager", output_loading_info=True, **whole)
        ignored = {n for n, s in case.get("extra", [])}
        assert set(info.pop("unexpected_keys")) <= ignored, (case["name"], info)
        assert not any(info[k] for k in info), (case["name"], info)
        model.eval()
    with Gaps() as gaps:
        x = logits_of(model)
    if gaps.least < GAP:
        return x, f"experts {gaps.least:.1e} apart"
    effect, name = weakest(case, model, x)
    if effect < EFFECT:
        return x, f"{name} moves only {effect:.1e}"
    noise = (logits_of(model.double()) - x).abs().max().item() / (x.max() - x.min()).item()
    case["told"] = f"gap {gaps.least:.0e} noise {noise:.0e} least effect {effect:.0e} {name}"
    return x, None if noise < NOISE else f"float32 is {noise:.1e} off"


def make(case, out):
    model, auto = build(case)
    with tempfile.TemporaryDirectory() as d:
        config, names = stored(model, d)
    config = case["published"](config) if case.get("published") else config
    names = case["stored"](names) if case.get("stored") else names
    tensors = [(n, s, fill.rule(n, s, case.get("fill", []), case.get("norms", 1)))
               for n, s in names + case.get("extra", [])]
    for salt in range(1, 200):
        x, reason = attempt(case, auto, config, tensors, salt)
        if not reason:
            break
    assert not reason, (case["name"], reason)
    x = x.numpy().astype("<f4")
    assert np.isfinite(x).all() and x.shape == (sum(map(len, PROMPTS)), VOCAB)
    x.tofile(os.path.join(out, case["name"] + ".logits"))
    config = case["shown"](config) if case.get("shown") else config
    fill.dump(os.path.join(out, case["name"] + ".json"), salt, config, tensors,
              case.get("bytes", "^$"))
    print(f"{case['name']:28} range {np.ptp(x):7.2f} salt {salt:3} {case['told']}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("-o", default=os.path.dirname(os.path.abspath(__file__)))
    parser.add_argument("prefix", nargs="*", default=[""])
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    for case in CASES:
        if case["name"].startswith(tuple(args.prefix)):
            make(case, args.o)


if __name__ == "__main__":
    main()
