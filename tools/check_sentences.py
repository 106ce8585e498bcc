#!/usr/bin/env python3
"""How long the sentences of the documentation are. Usage: check_sentences.py [PAGE...] (README.md, CONTRIBUTING.md, docs/*.md)

For each page it prints how many words a sentence has on average and at most. A sentence of more than 45 words, or a page of
more than 22 on average, is named, with exit status 1. Tables, headings and blocks of code are no sentences; what stands
between backquotes is one word.
"""
import glob
import re
import sys

LONGEST, AVERAGE = 45, 22
NO_PROSE = re.compile(r"```.*?```|<!--.*?-->|^\|.*?$|^#.*?$", re.DOTALL | re.MULTILINE)
PARAGRAPH = re.compile(r"\n\s*\n|\n(?=[-*] |\d+\. )")
SENTENCE = re.compile(r"(?<=[.!?:])\s+(?=[A-Z0-9\[`(*\"])")


def sentences(text):
    for paragraph in PARAGRAPH.split(NO_PROSE.sub("", text)):
        plain = re.sub(r"\]\([^)]*\)", "]", re.sub(r"`[^`]*`", "X", " ".join(paragraph.split())))
        yield from (s for s in SENTENCE.split(plain) if len(s.split()) > 2)


def main():
    good = True
    for page in sys.argv[1:] or ["README.md", "CONTRIBUTING.md", *sorted(glob.glob("docs/*.md"))]:
        with open(page, encoding="utf-8") as f:
            found = [(len(s.split()), s) for s in sentences(f.read())]
        if not found:
            continue
        mean, longest = sum(n for n, _ in found) / len(found), max(n for n, _ in found)
        print(f"{page}: {mean:.1f} words a sentence, {longest} at most")
        for n, s in found:
            if n > LONGEST:
                print(f"    {n} words: {s[:100]}...")
        good = good and longest <= LONGEST and mean <= AVERAGE
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
