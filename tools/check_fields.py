#!/usr/bin/env python3
"""What the library says names fields of its options, never options of a program: check_fields.py [ROOT]

A text of src/ marks a field in backquotes (`memory`, `round=gptq`; <pith/names.h>). Here each mark must be a field of include/pith that some
option of the command line sets, so that no message names what is not there. An option as it is typed (--memory) may only stand in a command
line to be typed ("pith eval --kv auto:4"), and in the files that speak of other programs' options.
"""
import re
import sys
from pathlib import Path

# Command lines of engines and of the sandbox, and variables of style sheets.
OTHERS = ("src/export/engine_*.c", "src/plan/commands.c", "src/eval/task/sandbox.c", "src/report/html.c", "src/report/heat.c")
# Texts that are bytes of pith.json, which speaks as the command line does; and pieces of commands that are put together.
PINNED = ("a router, in 16 bits unless --override names it", "kept in 16 bits by --override", "left alone by --ignore",
          "fitted too few tokens; --calib-tokens or --calib with more lose less", "%s --round %s", " --weights %.60s")
TYPED = re.compile(r"(?:pith )?\b[a-z]+(?: [A-Za-z0-9]+)?(?: --[a-z-]+(?: [A-Za-z0-9:%]+)?)+")
COMMANDS = ("eval", "plan", "hardware", "convert", "quantize")
MARK = re.compile(r"`([a-z][a-z0-9_]*)(?:=[^`]*)?`")
TEXT = re.compile(r'"((?:[^"\\\n]|\\.)*)"')


def texts(path):
    """(line, text) of each literal; literals that follow one another are one."""
    # Comments and characters are blanks; what begins like one within a text is text.
    source = re.sub(r"'(?:[^'\\\n]|\\.)'|\"(?:[^\"\\\n]|\\.)*\"|/\*.*?\*/",
                    lambda m: m[0] if m[0][0] == '"' else re.sub(r"[^\n]", " ", m[0]), path.read_text(), flags=re.S)
    source = "\n".join("" if line.lstrip().startswith("#include") else line for line in source.split("\n"))
    at, joined = 0, None
    for m in TEXT.finditer(source):
        if joined and source[at:m.start()].strip() == "":
            joined[1] += m.group(1)
        else:
            if joined:
                yield tuple(joined)
            joined = [source.count("\n", 0, m.start()) + 1, m.group(1)]
        at = m.end()
    if joined:
        yield tuple(joined)


def fields_of(root):
    """Members of the option structs, and of what says how a report is written."""
    found = set()
    for header in sorted((root / "include/pith").glob("*.h")):
        bare = re.sub(r"/\*.*?\*/", "", header.read_text(), flags=re.S)
        for body in re.findall(r"^struct pith_\w+_(?:options|form) \{(.*?)^\};", bare, re.S | re.M):
            for member in body.split(";"):
                found.update(re.findall(r"(\w+)(?:\[\w+\])?$", part.strip())[0] for part in member.split(",") if re.search(r"\w$", part.strip()))
    return found


ROW = re.compile(r"""^PITH_OPTION\((\w+), "([a-z-]+)", (?:0|'.'), [A-Z]+, \w+(?:\("[^"]*"\))?, (\w+)(?:\("([^"]*)"\))?,\s+(NULL|"[^"]*"),""", re.M)


def rows_of(root):
    """Of each row of the table of options: id, name, the options whose presence or absence makes it do nothing, the fields that it sets."""
    return [(row, name, others.split()[:1] if how == "WITHOUT" else others.split(), fields.strip('"').split() if fields != "NULL" else [])
            for row, name, how, others, fields in ROW.findall((root / "cli/options.def").read_text())]


def used_of(root):
    """The rows that commands have, and those of every command."""
    sources = {p.name: p.read_text() for p in sorted((root / "cli").rglob("*.[ch]"))}
    common = re.search(r"common_options\[\] = \{(.*?)^\};", sources["options.c"], re.S | re.M).group(1)
    used = [re.findall(r"\bOPTION\((\w+),", s) for s in [*sources.values(), common]]
    return {row for some in used for row in some}, set(used[-1])


def check_rows(root, fields):
    """Faults of the table: rows that no command has, needs and fields that are not there. Prints them; how many."""
    rows, (used, common) = rows_of(root), used_of(root)
    names = {name for _, name, _, _ in rows}
    faults = [f"{row} is an option of no command" for row, *_ in rows if row not in used]
    faults += [f"{row} goes by --{other}, which is no option" for row, _, others, _ in rows for other in others if other not in names]
    lines = len(re.findall(r"^PITH_OPTION\(", (root / "cli/options.def").read_text(), re.M))
    faults += [f"{lines - len(rows)} rows are not read"] * (lines != len(rows))
    faults += [f"{row} sets `{f}`, which is no field of include/pith" for row, _, _, sets in rows for f in sets
               if f not in fields and row not in common]
    for fault in faults:
        print(f"cli/options.def: {fault}")
    return len(faults)


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    fields, rows = fields_of(root), rows_of(root)
    bad, marks = check_rows(root, fields), 0
    common = used_of(root)[1]
    options = {f for *_, sets in rows for f in sets}
    fields |= {f for row, *_, sets in rows if row in common for f in sets}  # of every command: some set no field of a struct
    for path in sorted(p for p in (root / "src").rglob("*") if p.suffix in (".c", ".h", ".def")):
        others = any(path.relative_to(root).match(o) for o in OTHERS)
        for line, text in texts(path):
            where = f"{path.relative_to(root)}:{line}"
            for field in MARK.findall(text):
                marks += 1
                lacks = "no field of include/pith" if field not in fields else "set by no option of the command line" if field not in options else None
                if lacks:
                    bad += 1
                    print(f"{where}: `{field}` is {lacks}")
            for pinned in PINNED:
                text = text.replace(pinned, "")
            bare = TYPED.sub(lambda m: "" if set(m.group(0).replace("pith ", "").split()[:1]) & set(COMMANDS) else m.group(0), text)
            if not others and re.search(r"(?<![\w-])--[a-z%]", bare):
                bad += 1
                print(f"{where}: an option in \"{text}\": name the field, as in `memory`")
    if marks == 0:
        bad += 1
        print("no marks were found")
    sys.exit(1 if bad else 0)


main()
