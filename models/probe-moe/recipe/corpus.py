"""Puts the training text together: one stream of tokens for each domain.

    corpus.py RAW OUT       RAW: folder with the raw texts (README.md says which), OUT: folder of the streams

Writes OUT/<domain>.train.u16 and OUT/<domain>.held.u16 (token ids, each document from BOS to EOS; held: every 40th document,
never trained on). The tokenizer is the probe's. Runs in this folder; needs tokenizers and numpy.
"""
import json
import os
import pathlib
import random
import re
import sys
import zipfile

import numpy as np
from tokenizers import Tokenizer

import domains

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent.parent
sys.path.insert(0, str(HERE.parent.parent / "probe" / "recipe"))
import skills

BOS, EOS, HELD = 4094, 4095, 40
RAW, OUT = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
docs = {}


def add(domain, text, step=6000):
    """A document, or where it is long several of about step characters each, cut at ends of lines."""
    text = text.replace("\r\n", "\n").strip()
    while len(text) > 1.5 * step:
        cut = text.rfind("\n", step // 2, step)
        cut = cut if cut > 0 else step
        add(domain, text[:cut])
        text = text[cut:].lstrip("\n")
    if len(text) > 40:
        docs.setdefault(domain, []).append(text)


def read(path):
    return open(path, encoding="utf-8", errors="replace").read()


def archive(name, pattern):
    with zipfile.ZipFile(RAW / f"{name}.zip") as z:
        for n in sorted(z.namelist()):
            if re.search(pattern, n) and "README" not in n:
                yield n, z.read(n).decode("utf-8", "replace")


def prose():
    for name, pattern in (("inaugural", r"\.txt$"), ("state_union", r"\.txt$"), ("genesis", r"english.*\.txt$")):
        for _, text in archive(name, pattern):
            add("prose", text)
    for name in ("tinyshakespeare.txt", "tinystories_cased_197k.txt"):
        add("prose", read(RAW / name))
    for part in re.split(r"\n(?= = [^=].* = \n)", read(RAW / "wiki.valid.raw")):
        add("prose", re.sub(r" @([,.-])@ ", r"\1", part))
    for line in open(RAW / "gsm8k_train.jsonl", encoding="utf-8"):
        item = json.loads(line)
        add("prose", "Question: " + item["question"] + "\nAnswer: " + re.sub(r"<<.*?>>", "", item["answer"]))
    for name in ("boolq", "pubmed_qa_labeled"):
        seen = set()
        for line in open(RAW / f"{name}.jsonl", encoding="utf-8"):
            item = json.loads(line)
            passage = (item.get("query") or item.get("context") or "").split("\nQuestion:")[0].replace("Passage: ", "")
            if passage not in seen:
                seen.add(passage)
                add("prose", passage)
    for path in sorted(RAW.glob("gutenberg/*.txt")):
        text = re.search(r"\*\*\* ?START OF.*?\*\*\*\n(.*?)\*\*\* ?END OF", read(path).replace("\r\n", "\n"), re.S)
        add("prose", re.sub(r"(?<=.)\n(?=.)", " ", text.group(1)))
    for path in sorted(ROOT.glob("docs/*.md")):
        add("prose", read(path))


def exercises(rng):
    for _ in range(12000):
        add("exercises", skills.doc(rng))


def code():
    lib = pathlib.Path(os.__file__).parent
    for path in sorted(lib.glob("*.py")) + sorted(p for d in ("json", "email", "http", "asyncio", "unittest", "xml", "logging")
                                                  for p in lib.glob(d + "/**/*.py")):
        add("code", read(path))
    for path in sorted(p for d in ("src", "cli") for p in ROOT.glob(d + "/**/*.[ch]")):
        add("code", read(path))


def italian():
    add("italian", read(RAW / "promessi_sposi_it.txt"))


def languages():
    """The declaration of human rights in many languages, some of them at greater length: Genesis."""
    for n, text in archive("udhr2", r"\.txt$"):
        if not n.endswith("/eng.txt"):
            add("languages", text[:4000])
    for _, text in archive("genesis", r"(finnish|french|german|portuguese|swedish)\.txt$"):
        add("languages", text[:60000])


def generated(rng):
    for kind, count in (("notation", 14000), ("knitting", 7000)):
        for _ in range(count):
            add(kind, domains.KINDS[kind](rng))


if __name__ == "__main__":
    rng = random.Random(12345)
    prose(), code(), italian(), languages(), exercises(rng), generated(rng)
    OUT.mkdir(parents=True, exist_ok=True)
    tok = Tokenizer.from_file(str(HERE.parent.parent / "probe" / "tokenizer.json"))
    shuffle = random.Random(1)
    for domain, texts in docs.items():
        shuffle.shuffle(texts)
        ids = [[BOS] + e.ids + [EOS] for e in tok.encode_batch(texts, add_special_tokens=False)]
        held, train = ids[::HELD], [d for i, d in enumerate(ids) if i % HELD]
        for name, part in (("train", train), ("held", held)):
            np.array([i for d in part for i in d], np.uint16).tofile(OUT / f"{domain}.{name}.u16")
        size = sum(map(len, train))
        print(f"{domain:10} {sum(map(len, texts)):>9} characters, {len(texts)} documents, {size} tokens to train on, "
              f"{sum(map(len, held))} held out")
