#!/usr/bin/env python3
"""What a page shows of the source is there. Usage: check_excerpts.py PAGE...

A block ```diff: each hunk's old lines, or its new lines, follow each other in the file that it names, which may be
missing where the diff makes it. A block ```c: its lines stand in one file of src/ or server/, in that order. A difference
is named, with exit status 1.
"""
import glob
import re
import sys

BLOCK = re.compile(r"^```(diff|c)\n(.*?)^```", re.DOTALL | re.MULTILINE)


def lines_of(path):
    try:
        with open(path, encoding="utf-8") as f:
            return [line.strip() for line in f]
    except FileNotFoundError:
        return None


def follow(some, lines):
    return any(lines[i:i + len(some)] == some for i in range(len(lines) - len(some) + 1))


def in_order(some, lines):
    rest = iter(lines)
    return all(line in rest for line in some)


def hunks(diff):
    """(file, whether the diff makes it, old lines, new lines)"""
    for part in re.split(r"^--- ", diff, flags=re.MULTILINE)[1:]:
        head, path, *body = part.split("\n")
        path = path.removeprefix("+++ b/")
        for hunk in re.split(r"^@@.*\n", "\n".join(body), flags=re.MULTILINE)[1:]:
            rows = [row for row in hunk.split("\n") if row]
            yield (path, head == "/dev/null", [r[1:].strip() for r in rows if r[0] != "+"],
                   [r[1:].strip() for r in rows if r[0] != "-"])


def stale(kind, text, sources):
    """What is not there, one message each."""
    if kind == "c":
        some = [line.strip() for line in text.split("\n") if line.strip()]
        if not any(in_order(some, lines) for lines in sources):
            yield f"no file has the block that begins with \"{some[0]}\""
        return
    for path, made, old, new in hunks(text):
        lines = lines_of(path)
        if lines is None and made:
            continue
        if lines is None or not (follow(old, lines) or follow(new, lines)):
            yield f"{path} has neither side of the hunk that begins with \"{(old or new)[0]}\""


def main():
    files = [f for end in ("[ch]", "def") for top in ("src", "server")
             for f in glob.glob(f"{top}/**/*.{end}", recursive=True)]
    sources = [lines_of(f) for f in files]
    good = True
    for page in sys.argv[1:]:
        with open(page, encoding="utf-8") as f:
            for kind, text in BLOCK.findall(f.read()):
                for message in stale(kind, text, sources):
                    good = False
                    print(f"{page}: {message}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
