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
OTHERS = ("src/export/engine_*.c", "src/plan/serving.def", "src/plan/commands.c", "src/eval/sandbox.c", "src/report/html.c", "src/report/heat.c")
# Texts that are bytes of pith.json, which speaks as the command line does; and pieces of commands that are put together.
PINNED = ("a router, in 16 bits unless --override names it", "kept in 16 bits by --override", "left alone by --ignore",
          "fitted too few tokens; --calib-tokens or --calib with more lose less", "%s --round %s", " --weights %.60s")
TYPED = re.compile(r"(?:pith )?\b[a-z]+(?: [A-Za-z0-9]+)?(?: --[a-z-]+(?: [A-Za-z0-9:%]+)?)+")
COMMANDS = ("eval", "plan", "hardware", "convert", "quantize")
MARK = re.compile(r"`([a-z][a-z0-9_]*)(?:=[^`]*)?`")
TEXT = re.compile(r'"((?:[^"\\\n]|\\.)*)"')


def texts(path):
    """(line, text) of each literal; literals that follow one another are one."""
    source = re.sub(r"/\*.*?\*/", lambda m: "\n" * m.group(0).count("\n"), path.read_text(), flags=re.S)
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
    """Members of the option structs."""
    found = set()
    for header in sorted((root / "include/pith").glob("*.h")):
        bare = re.sub(r"/\*.*?\*/", "", header.read_text(), flags=re.S)
        for body in re.findall(r"^struct pith_\w+_options \{(.*?)^\};", bare, re.S | re.M):
            for member in body.split(";"):
                found.update(re.findall(r"(\w+)(?:\[\w+\])?$", part.strip())[0] for part in member.split(",") if re.search(r"\w$", part.strip()))
    return found


def options_of(root):
    """What the command line can show: the names of options as fields, and the fields of its table."""
    names = set()
    for path in sorted((root / "cli").glob("*.c")) + sorted((root / "cli").glob("*.def")):
        source = path.read_text()
        names.update(re.findall(r"""(?:\{|OPTION\()"([a-z-]+)",\s*(?:(?:0|'.'), )?OPTION_""", source))
        names.update(re.findall(r"^    ROW\((\w+), ", source, re.M))
        names.update(re.findall(r'^PITH_FIELD\("[a-z]*", "(\w+)"', source, re.M))
    return {name.replace("-", "_") for name in names}


def common_of(root):
    """Options of every command stand for no field of one struct."""
    body = re.search(r"common_options\[\] = \{(.*?)^\};", (root / "cli/options.c").read_text(), re.S | re.M)
    return set(re.findall(r'\{"([a-z-]+)"', body.group(1)))


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    fields, options = fields_of(root) | common_of(root), options_of(root)
    bad = marks = 0
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
