#!/usr/bin/env python3
"""What published files become: `published.py PITH ZOO SMALL` tries every config.json of ZOO/configs and every
tokenizer_config.json of ZOO/tokenizer_configs, beside the small model SMALL where they are not enough by themselves.

A config opens (`pith plan`), or is refused with its architecture's name; its way of quantizing is read beside plain weights.
A tokenizer's config lets the small model continue a text, and talk where it has a template. Everything else is printed,
and makes the exit status 1."""
import json
import os
import subprocess
import sys

SECONDS = 60


def tried(*command, text=None):
    """The exit status and what the last line of messages says."""
    p = subprocess.run(command, capture_output=True, text=True, input=text, timeout=SECONDS)
    return p.returncode, (p.stderr.strip().splitlines() or [""])[-1]


def architecture(config):
    return next(iter(config.get("architectures") or []), config.get("model_type", ""))


def of_config(pith, path, config):
    """The class of a config: "opened" or "named", else what was said."""
    status, said = tried(pith, "plan", path, "--weights", "none")
    if status == 0:
        return "opened"
    name = architecture(config)
    return "named" if name and f'architecture "{name}" is not supported' in said else said


def quantized(config):
    """Members that say how a model is quantized, wherever they stand."""
    text = config.get("text_config") or {}
    for key in ("quantization_config", "compression_config", "quantization"):
        for at in (config, text):
            if isinstance(at, dict) and at.get(key):
                yield key, at[key]


def of_quantization(pith, small, config):
    path = os.path.join(small, "config.json")
    plain = open(path).read()
    for key, value in quantized(config):
        json.dump(json.loads(plain) | {key: value}, open(path, "w"))
        status, said = tried(pith, "inspect", small)
        open(path, "w").write(plain)
        return "opened" if status == 0 else said
    return None


def of_tokenizer(pith, small, text, config):
    open(os.path.join(small, "tokenizer_config.json"), "w").write(text)
    status, said = tried(pith, "run", small, "-p", "a b", "-n", "1")
    if status == 0 and config.get("chat_template"):
        status, said = tried(pith, "chat", small, "-n", "1", text="hello\n")
    return "opened" if status == 0 else said


def files(folder):
    for name in sorted(os.listdir(folder)):
        text = open(os.path.join(folder, name), encoding="utf-8").read()
        yield name, text, json.loads(text)


def main(pith, zoo, small):
    counts, bad = {}, 0

    def count(kind, name, is_):
        nonlocal bad
        if is_ not in ("opened", "named"):
            print(f"{kind} {name}: {is_}")
            bad, is_ = bad + 1, "refused otherwise"
        counts[kind, is_] = counts.get((kind, is_), 0) + 1

    for name, _, config in files(os.path.join(zoo, "configs")):
        count("configs", name, of_config(pith, os.path.join(zoo, "configs", name), config))
        way = of_quantization(pith, small, config)
        if way:
            count("ways to quantize", name, way)
    for name, text, config in files(os.path.join(zoo, "tokenizer_configs")):
        count("tokenizer_configs", name, of_tokenizer(pith, small, text, config))
    for (kind, is_), n in sorted(counts.items()):
        print(f"{n} {kind} {is_}")
    return int(bad > 0 or len(counts) < 2)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
