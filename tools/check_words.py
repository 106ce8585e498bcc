#!/usr/bin/env python3
"""Words that pith used in a private sense. tools/words.txt has a row for each: a regular expression, its meaning, what to
write instead, and how often it may still occur in src (with include), cli, server and docs (with README.md and
CONTRIBUTING.md). The numbers can only fall.

    check_words.py [--write | --where EXPRESSION [AREA]]    --write lowers the numbers to what there is; --where lists lines
"""
import glob
import re
import sys

TABLE = "tools/words.txt"
AREAS = {
    "src": ["src/**/*.[ch]", "src/**/*.def", "include/**/*.h"],
    "cli": ["cli/**/*.[ch]", "cli/**/*.def"],
    "server": ["server/**/*.[ch]", "server/**/*.def"],
    "docs": ["docs/*.md", "README.md", "CONTRIBUTING.md"],
}


def texts(area):
    """(path, text) of each file of an area."""
    for path in sorted({p for pattern in AREAS[area] for p in glob.glob(pattern, recursive=True)}):
        with open(path, encoding="utf-8") as f:
            yield path, f.read()


def compiled(expression):
    """Whole words, where an underscore ends a word: identifiers count."""
    return re.compile(r"(?<![a-z])(?:" + expression.replace(" ", r"[\s*]+") + r")(?![a-z])", re.I)


def rows():
    """Cells of each row of the table, and its other lines as they are."""
    with open(TABLE, encoding="utf-8") as f:
        for line in f.read().splitlines():
            yield line if line.startswith("#") or not line else [cell.strip() for cell in line.split(" | ")]


def where(expression, areas):
    word = compiled(expression)
    for area in areas:
        for path, text in texts(area):
            for m in word.finditer(text):
                line = text.count("\n", 0, m.start()) + 1
                print(f"{path}:{line}: {' '.join(text[max(0, m.start() - 40):m.end() + 40].split())}")


def main():
    if sys.argv[1:2] == ["--where"]:
        where(sys.argv[2], sys.argv[3:] or AREAS)
        return False
    whole = {area: "\n".join(text for _, text in texts(area)) for area in AREAS}
    bad, lines = [], []
    for row in rows():
        if isinstance(row, str):
            lines.append(row)
            continue
        expression, meaning, instead, most = row
        limits = dict(zip(AREAS, map(int, most.split()), strict=True))
        found = {area: len(compiled(expression).findall(text)) for area, text in whole.items()}
        bad += [f"{area}: \"{expression}\" {found[area]} times, at most {limits[area]}: {meaning}; write {instead} (tools/check_words.py --where '{expression}' {area})"
                for area in AREAS if found[area] > limits[area]]
        least = " ".join(str(min(found[area], limits[area])) for area in AREAS)
        lines.append(f"{expression} | {meaning} | {instead} | {least}")
    if "--write" in sys.argv[1:]:
        with open(TABLE, "w", encoding="utf-8") as f:
            f.write("".join(line + "\n" for line in lines))
    print("\n".join(bad), end="\n" if bad else "")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
