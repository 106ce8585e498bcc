#!/usr/bin/env python3
"""Assembles the two texts that ship: the calibration text and the probe's evaluation text.

    tools/make_calib_text.py            writes src/calib/builtin.txt and models/probe/eval.txt
    tools/make_calib_text.py --check    writes nothing; fails unless both are what it would write
    tools/make_calib_text.py --sizes    also says how many bytes each kind has

Most of the text is written by hand: tools/calib_text/<kind>-<topic>.txt, documents separated by
lines of "%%%"; a new file is picked up by its name. The rest are exercises, tables and little
texts from templates (calib_templates.py), drawn from a generator of our own with a fixed seed, so
that every machine and every version of Python makes the same bytes. Only the standard library.

Kinds are: stories, prose, wiki, spaced (encyclopedic, set apart the way WikiText is), maths, code,
lang for the calibration text; eval and evalspaced for the evaluation text.
"""
import json
import pathlib
import re
import sys

import calib_templates as templates

ROOT = pathlib.Path(__file__).resolve().parent.parent
PARTS = ROOT / "tools" / "calib_text"
BUILTIN = ROOT / "src" / "calib" / "builtin.txt"
EVAL = ROOT / "models" / "probe" / "eval.txt"
SEPARATOR = "%%%"
CALIB_KINDS = ("stories", "prose", "wiki", "spaced", "maths", "code", "lang")

# Bytes that templates add to what is written by hand.
CALIB_GENERATED = {"stories": 16000, "wiki": 10000, "maths": 34000, "code": 16000}
EVAL_GENERATED = 9000


def spaced(text):
    """The text the way WikiText has it: punctuation set apart, @-@ @,@ @.@ within words."""
    text = re.sub(r"(?<=\d)([,.])(?=\d)", r" @\1@ ", text)
    text = re.sub(r"(?<=\w)-(?=\w)", " @-@ ", text)
    text = re.sub(r'"([^"\n]*)"', r'" \1 "', text)
    text = re.sub(r"(?<!@)([,;:?!()%])(?!@)", r" \1 ", text)
    text = re.sub(r"(?<=\w\w)\.(?=\s|$)", " .", text, flags=re.M)
    text = re.sub(r"(?<=[)\"\]])\.(?=\s|$)", " .", text, flags=re.M)
    text = re.sub(r"(?<=\w)('s|s')(?=\s)", lambda m: " 's" if m[1] == "'s" else "s '", text)
    lines = (re.sub(r" +", " ", line).rstrip() for line in text.split("\n"))
    return "\n".join(" " + line.lstrip() if line.strip() else "" for line in lines)


def parts(kind):
    """The hand-written documents of a kind, in the order of their files."""
    docs = []
    for path in sorted(PARTS.glob(kind + "-*.txt")):
        text = path.read_text(encoding="utf-8")
        for doc in re.split(rf"^{SEPARATOR}$", text, flags=re.M):
            doc = doc.strip("\n")
            if doc.strip():
                docs.append(spaced(doc) if kind.endswith("spaced") else doc)
    return docs


def task_items():
    """The questions of the probe's task files: no text may hold one with its answer."""
    items = set()
    for path in sorted((ROOT / "models" / "probe" / "tasks").glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            items.add(json.loads(line)["context"])
    return items


def fill(rng, words, kind, size, unwanted):
    """Documents from the templates of a kind, in turn, until they come to size bytes."""
    makers, docs, total, turn = templates.MAKERS[kind], [], 0, 0
    while total < size:
        doc = makers[turn % len(makers)](rng, words)
        turn += 1
        if unwanted(doc):
            continue
        docs.append(doc)
        total += len(doc.encode("utf-8"))
    return docs


def calibration(tasks, report):
    def unwanted(doc):
        return holds(doc, tasks)

    rng, docs = templates.Random(20250), []
    for kind in CALIB_KINDS:
        hand = parts(kind)
        made = fill(rng, templates.CALIB_WORDS, kind, CALIB_GENERATED.get(kind, 0),
                    unwanted)
        report(kind, hand, made)
        docs += hand + made
    rng.shuffle(docs)
    return "\n\f\n".join(docs) + "\n"


def evaluation(tasks, calib, report):
    calibrated = sentences(calib)

    def unwanted(doc):
        return holds(doc, tasks) or not calibrated.isdisjoint(sentences(doc))

    rng = templates.Random(77077)
    hand = parts("eval") + parts("evalspaced")
    made = fill(rng, templates.EVAL_WORDS, "held out", EVAL_GENERATED, unwanted)
    report("evaluation", hand, made)
    docs = hand + made
    rng.shuffle(docs)
    return "\n\n".join(docs) + "\n"


def sentences(text):
    """The sentences of a text that are long enough to be told apart, letters and digits only."""
    found = set()
    for sentence in re.split(r"[.?!\n]+", text):
        bare = re.sub(r"\W+", " ", sentence).strip().lower()
        if len(bare) >= 24 and not re.fullmatch(r"[\d ]+", bare):
            found.add(bare)
    return found


def holds(text, tasks):
    """Whether a line of the text, or several, begins as a task does."""
    return any("\n" + task in "\n" + text for task in tasks)


def faults(calib, held_out, tasks):
    """What is wrong with the texts, a line each."""
    for name, text, allowed in (("builtin.txt", calib, "\n\f\t"), ("eval.txt", held_out, "\n")):
        for number, line in enumerate(text.split("\n"), 1):
            if line != line.rstrip(" \t"):
                yield f"{name}:{number}: trailing blank"
        odd = {c for c in text if (ord(c) < 32 or 127 <= ord(c) < 160) and c not in allowed}
        if odd:
            yield f"{name}: control characters {sorted(map(ord, odd))}"
        if holds(text, tasks):
            yield f"{name}: holds items of models/probe/tasks"
    for sentence in sorted(sentences(calib) & sentences(held_out)):
        yield f"in both texts: {sentence}"
    if not held_out.isascii():
        yield f"eval.txt: not ASCII: {sorted({c for c in held_out if ord(c) > 127})}"


def main(args):
    if set(args) - {"--check", "--sizes"}:
        sys.exit(__doc__)

    def report(kind, hand, made):
        if "--sizes" in args:
            by_hand, by_template = (sum(len(d.encode()) for d in x) for x in (hand, made))
            print(f"{kind:12} {len(hand):4} by hand {by_hand:7} bytes"
                  f"  {len(made):4} from templates {by_template:7} bytes")

    tasks = task_items()
    calib = calibration(tasks, report)
    held_out = evaluation(tasks, calib, report)
    bad = list(faults(calib, held_out, tasks))
    for path, text in ((BUILTIN, calib), (EVAL, held_out)):
        if "--check" in args:
            if not path.exists() or path.read_bytes() != text.encode("utf-8"):
                bad.append(f"{path.relative_to(ROOT)} is not what this script makes")
        else:
            path.write_bytes(text.encode("utf-8"))
        if "--sizes" in args:
            print(f"{path.relative_to(ROOT)}: {len(text.encode('utf-8'))} bytes")
    if bad:
        sys.exit("\n".join(bad))


if __name__ == "__main__":
    main(sys.argv[1:])
