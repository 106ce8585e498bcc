#!/usr/bin/env python3
"""A tag that several files may see is defined once in the whole project; a header begins with its name and what it
is for, and says of each function what it promises; a function has at most six parameters, those of tools/wide.txt
aside, of which there may only be fewer.

    check_names.py [--write]    --write makes tools/wide.txt of what there is
"""
import collections
import glob
import re
import sys

MOST = 6
WIDE = "tools/wide.txt"


def plain(text):
    """Without comments, strings and preprocessor lines."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    return re.sub(r"^\s*#(?:.*\\\n)*.*$", "", text, flags=re.M)


def parameters(text):
    """(function, number of parameters) of each definition; arguments that are functions count once."""
    head = re.compile(r"^(?!typedef|return|else)[a-z][\w \t\n*]*?[ *](\w+)\(", re.M)
    for m in head.finditer(text):
        depth, count, at = 1, 1, m.end()
        while depth and at < len(text):
            depth += {"(": 1, ")": -1}.get(text[at], 0)
            count += depth == 1 and text[at] == ","
            at += 1
        if text[at:].lstrip().startswith("{"):
            yield m.group(1), count


def without_contract(text):
    """Functions that a header declares in a paragraph where no comment stands before them, nor beside them."""
    commented = False
    for line in text.split("\n"):
        commented = bool(line.strip()) and (commented or "*/" in line)
        m = re.match(r"(?!typedef|return|else|static)[a-z]\w*[\w \t*]*?[ *](\w+)\(", line.removeprefix("PITH_API "))
        if m and not commented and m.group(1) != "TIER":  # src/kern/ops.h says what an operation promises
            yield m.group(1)


def main():
    bad, tags, wide = [], collections.defaultdict(list), set()
    sources = sorted(glob.glob("src/**/*.[ch]", recursive=True) + glob.glob("cli/**/*.[ch]", recursive=True) + glob.glob("server/**/*.[ch]", recursive=True) + glob.glob("include/**/*.h", recursive=True))
    for path in sources:
        with open(path, encoding="utf-8") as f:
            text = f.read()
        code = plain(text)
        for m in re.finditer(r"\b(?:struct|enum|union)\s+(\w+)\s*\{", code):
            tags[m.group(1)].append(path)
        if path.endswith(".h"):
            inside = re.sub(r"^(src|include)/", "", path)
            if not re.match(r"/\* " + re.escape(inside) + r": \S", text) and not re.match(r"/\* <" + re.escape(inside) + r">[:,]? \S", text):
                bad.append(f"{path}: does not begin with \"/* {inside}: \" and what it is for")
            bad += [f"{path}: {name}: without a contract" for name in without_contract(text)]
        if path.startswith("src/kern/"):
            continue  # kernels take what their loops need: kern/ops.h
        wide |= {f"{path} {name} {count}" for name, count in parameters(code) if count > MOST}
    for tag, paths in sorted(tags.items()):
        seen = [p for p in paths if p.endswith(".h") and not p.startswith("src/kern/")]  # those of kernels are one file's
        if len(paths) > 1 and (seen or tag.startswith("pith_")):
            bad.append(f"{tag}: defined in {' and '.join(paths)}")
    if "--write" in sys.argv[1:]:
        with open(WIDE, "w", encoding="utf-8") as f:
            f.write("".join(line + "\n" for line in sorted(wide)))
    with open(WIDE, encoding="utf-8") as f:
        known = set(f.read().splitlines())
    bad += [f"{line} parameters: more than {MOST}; a struct says what they are" for line in sorted(wide - known)]
    bad += [f"{WIDE}: {line} is no longer there" for line in sorted(known - wide)]
    print("\n".join(bad), end="\n" if bad else "")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
