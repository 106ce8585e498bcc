#!/usr/bin/env python3
"""A report is built once, as rows (src/report/report.h); JSON, text and pages are made from it by the library. So the commands do not take
JSON apart, and the library packs none by hand outside file formats. What is not there yet is counted, and may only become less.

    check_reports.py [--write] [--list]    --write makes tools/reports.txt of what there is; --list shows where it is
"""
import glob
import re
import sys

LIMITS = "tools/reports.txt"
# What takes a tree apart, or makes one of a text.
READS = re.compile(r"\b(?:json_(?:object_get|object_foreach|array_get|array_foreach|array_size|load|loads|is_\w+|\w+_value)"
                   r"|json_get|json_text|read_report|pith_tree_read)\(")
FUNCTION = re.compile(r"^(?!typedef|return|else|struct \w+ \{|static const)[a-z][^;{}=]*?[ *](\w+)\([^;{}]*\)\n\{\n(.*?)^\}", re.M | re.S)
PACK = re.compile(r"\bjson_v?pack(?:_ex)?\(")
# The keys of files that others read, or that pith reads again.
FORMATS = ("src/io/", "src/tok/", "src/export/", "src/quantize/output/", "src/hub/", "src/choose/sense_state.c",
           "src/choose/kv_auto_record.c", "src/choose/kv_levels_record.c", "src/recover/checkpoints.c")


def plain(path):
    """The code without comments and texts."""
    with open(path, encoding="utf-8") as f:
        text = re.sub(r"/\*.*?\*/", lambda m: re.sub(r"[^\n]", " ", m[0]), f.read(), flags=re.S)
    return re.sub(r'"(?:[^"\\\n]|\\.)*"', '""', text)


def readers():
    """Functions of cli/ that take JSON apart: (file, name)."""
    for path in sorted(glob.glob("cli/**/*.c", recursive=True)):
        for m in FUNCTION.finditer(plain(path)):
            if READS.search(m.group(2)):
                yield path, m.group(1)


def packs():
    """Lines of src/ that pack JSON outside file formats: (file, line)."""
    for path in sorted(glob.glob("src/**/*.c", recursive=True)):
        if path.startswith(FORMATS):
            continue
        code = plain(path)
        for m in PACK.finditer(code):
            yield path, code.count("\n", 0, m.start()) + 1


def main():
    found = {"functions of cli/ that take JSON apart": list(readers()), "json_pack() in src/ outside file formats": list(packs())}
    if "--list" in sys.argv:
        for name, places in found.items():
            print(f"{name}: {len(places)}", *(f"  {path}: {where}" for path, where in places), sep="\n")
    if "--write" in sys.argv:
        with open(LIMITS, "w", encoding="utf-8") as f:
            f.writelines(f"{len(places)} {name}\n" for name, places in found.items())
        return 0
    with open(LIMITS, encoding="utf-8") as f:
        limits = {name: int(number) for number, name in (line.rstrip("\n").split(" ", 1) for line in f)}
    over = [f"{name}: {len(places)}, at most {limits.get(name, 0)}: build a report (src/report/report.h); tools/check_reports.py --list shows where"
            for name, places in found.items() if len(places) > limits.get(name, 0)]
    print(*over, sep="\n", end="\n" if over else "")
    return len(over) > 0


sys.exit(main())
