#!/usr/bin/env python3
"""Writes pith/_abi.py: what include/pith/*.h declares, for ctypes.

    declare.py FOLDER_OF_HEADERS VERSION >_abi.py

The headers are the only source: whatever in them is not understood ends this program, so nothing is left out in silence. That the
result has the sizes and offsets that a C compiler sees is tests/test_abi.py's to show.
"""
import re
import sys
from pathlib import Path

# Types of C: as ctypes declares them, and as Python reads them from a struct.
NUMBERS = {
    "int": ("c_int", "int"),
    "unsigned": ("c_uint", "int"),
    "bool": ("c_bool", "bool"),
    "float": ("c_float", "float"),
    "double": ("c_double", "float"),
    "size_t": ("c_size_t", "int"),
    "int32_t": ("c_int32", "int"),
    "uint32_t": ("c_uint32", "int"),
    "uint64_t": ("c_uint64", "int"),
}


class Refused(Exception):
    """A declaration of a form that is not known here."""


class Headers:
    """Declarations in the order in which they were read."""

    def __init__(self):
        self.enums, self.structs, self.callbacks, self.functions = {}, {}, {}, {}
        self.statuses, self.opaque = [], set()

    def of(self, text, named=False):
        """The ctypes type of a declaration with its name taken out, and what Python reads from it."""
        text = re.sub(r"\bconst\b", " ", text)
        stars = text.count("*")
        base = " ".join(text.replace("*", " ").split())
        if base == "void":
            return ("c_void_p", "Optional[int]") if stars == 1 else ("POINTER(c_void_p)", "Any") if stars else ("None", "None")
        if base == "char":
            # Text that is handed over keeps its address, which pith_text_free() needs: only what a struct holds is read as bytes.
            return ("c_char_p", "Optional[bytes]") if stars == 1 else ("POINTER(c_char_p)", "Any")
        if base in self.callbacks:
            return base, "Any"
        if base.startswith("enum "):
            return ("c_int", "int") if not stars else self.pointer("c_int", stars)
        if base in NUMBERS:
            return NUMBERS[base] if not stars else self.pointer(NUMBERS[base][0], stars)
        if base.startswith("struct "):
            tag = base[7:]
            if tag in self.structs:
                return (tag, tag) if not stars else self.pointer(tag, stars)
            if stars:
                return ("c_void_p", "Optional[int]") if stars == 1 else ("POINTER(c_void_p)", "Any")
        raise Refused(f"type {text!r}")

    @staticmethod
    def pointer(name, stars):
        return "POINTER(" * stars + name + ")" * stars, "Any"

    def callback(self, result, parameters):
        # Structs by their address: they may be declared further down, and Python reads them by from_address() alone.
        types = ["c_void_p" if p.strip().replace("const ", "").startswith("struct ") else self.of(p)[0]
                 for p in self.parameters(parameters)]
        return f"CFUNCTYPE({', '.join([self.of(result)[0], *types])})"

    @staticmethod
    def parameters(text):
        """Parameters without their names."""
        found = []
        for p in split(text, ","):
            p = p.strip()
            if p == "void":
                continue
            m = re.fullmatch(r"(.*?[\s*])(\w+)", p, re.S)
            if not m:
                raise Refused(f"parameter {p!r}")
            # "size_t" alone would be a type without a name; every prototype of the headers has names.
            found.append(m.group(1))
        return found

    def field(self, text):
        """(name, ctypes type, Python type) of each of a field's names."""
        text = text.strip()
        m = re.fullmatch(r"(.*?)\(\*(\w+)\)\((.*)\)", text, re.S)
        if m:
            return [(m.group(2), self.callback(m.group(1), m.group(3)), "Any")]
        m = re.fullmatch(r"char (\w+)\[(\d+)\]", text)
        if m:
            return [(m.group(1), f"c_char * {m.group(2)}", "bytes")]
        first, *more = split(text, ",")
        m = re.fullmatch(r"(.*?[\s*])(\w+)", first.strip(), re.S)
        if not m:
            raise Refused(f"field {text!r}")
        fields = [(m.group(2), *self.of(m.group(1)))]
        for name in more:
            name = name.strip()
            stars = name.count("*")
            fields.append((name.lstrip("* "), *self.of(m.group(1).replace("*", "") + "*" * stars)))
        return fields

    def named(self, tag, name, made, python):
        """A field whose type, if it is a function's, has a name: the struct's and the field's."""
        if not made.startswith("CFUNCTYPE"):
            return name, made, python
        self.callbacks[f"{tag}_{name}"] = made
        return name, f"{tag}_{name}", python

    def read(self, text):
        """One header's text, without comments."""
        for name, number, what in re.findall(r'\bX\((\w+), (\d+), "([^"]*)"\)', text):
            self.statuses.append((name, int(number), what))
        text = re.sub(r"enum pith_status \{[^}]*\};", "", text)  # made of that table
        text = re.sub(r"^[ \t]*#(?:.*\\\n)*.*$", "", text, flags=re.M)
        text = text.replace('extern "C" {', "").rstrip()
        text = re.sub(r"\}\s*\Z", "", text)  # of extern "C"
        for d in declarations(text):
            self.declare(" ".join(d.split()))

    def declare(self, d):
        if d.startswith("static inline"):
            return
        if m := re.fullmatch(r"struct (\w+)", d):
            self.opaque.add(m.group(1))
        elif m := re.fullmatch(r"enum (\w+) \{(.*)\}", d):
            self.enums[m.group(1)] = self.values(m.group(2))
        elif m := re.fullmatch(r"struct (\w+) \{(.*)\}", d):
            fields = [f for field in split(m.group(2), ";") if field.strip() for f in self.field(field)]
            self.structs[m.group(1)] = [self.named(m.group(1), *f) for f in fields]
        elif m := re.fullmatch(r"typedef (.*?)(\w+)\((.*)\)", d):
            self.callbacks[m.group(2)] = self.callback(m.group(1), m.group(3))
        elif m := re.fullmatch(r"PITH_API (.*?[ *])(\w+)\((.*)\)", d):
            self.functions[m.group(2)] = (self.of(m.group(1))[0], [self.of(p)[0] for p in self.parameters(m.group(3))])
        else:
            raise Refused(d)

    @staticmethod
    def values(text):
        found, at = [], 0
        for v in split(text, ","):
            if not v.strip():
                continue
            m = re.fullmatch(r"(\w+)(?: = (\d+))?", v.strip())
            if not m:
                raise Refused(f"value {v!r}")
            at = int(m.group(2)) if m.group(2) else at
            found.append((m.group(1), at))
            at += 1
        return found


def split(text, at):
    """Parts between `at`, of which those within parentheses do not count."""
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += (c == "(") - (c == ")")
        if c == at and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    return [*parts, text[start:]]


def declarations(text):
    """What ends with ";" outside of braces; the body of a function ends one too."""
    depth = start = 0
    for i, c in enumerate(text):
        depth += (c == "{") - (c == "}")
        if depth == 0 and c == "}" and text[start:i].lstrip().startswith("static inline"):
            yield text[start:i + 1]
            start = i + 1
        elif depth == 0 and c == ";":
            yield text[start:i]
            start = i + 1
    if text[start:].strip():
        raise Refused(text[start:].strip())


def in_order(folder):
    """Headers, each behind those that it includes."""
    done = []

    def visit(path):
        if path in done:
            return
        for name in re.findall(r"#include <pith/(\w+\.h)>", path.read_text(encoding="utf-8")):
            visit(folder / name)
        done.append(path)

    for path in sorted(folder.glob("*.h")):
        visit(path)
    return done


def write(headers, version):
    print(f'''"""What pith's headers declare. Made from them by declare.py: not to be edited."""
from __future__ import annotations

from ctypes import (CDLL, CFUNCTYPE, POINTER, Structure, c_bool, c_char, c_char_p, c_double, c_float, c_int, c_int32, c_size_t,
                    c_uint, c_uint32, c_uint64, c_void_p)
from typing import Any, Optional

VERSION = "{version}"

# Name, number, text.
STATUSES = {headers.statuses!r}
''')
    for values in headers.enums.values():
        for name, number in values:
            print(f"{name} = {number}")
    for name, made in headers.callbacks.items():
        print(f"{name} = {made}")
    for tag, fields in headers.structs.items():
        print(f"\n\nclass {tag}(Structure):")
        for name, _, python in fields:
            print(f"    {name}: {python}")
        print("    _fields_ = [")
        for name, c, _ in fields:
            print(f'        ("{name}", {c}),')
        print("    ]")
    print("\n\nSTRUCTS = [" + ", ".join(headers.structs) + "]")
    print("\n\nclass Library:\n    \"\"\"The functions of a loaded library.\"\"\"\n\n    def __init__(self, dll: CDLL) -> None:")
    for name, (result, types) in headers.functions.items():
        print(f"        self.{name}: Any = dll.{name}")
        print(f"        self.{name}.restype = {result}")
        print(f"        self.{name}.argtypes = [{', '.join(types)}]")


def main():
    folder, version = Path(sys.argv[1]), sys.argv[2]
    headers = Headers()
    for path in in_order(folder):
        try:
            headers.read(re.sub(r"/\*.*?\*/", " ", path.read_text(encoding="utf-8"), flags=re.S))
        except Refused as e:
            sys.exit(f"{path}: declare.py does not understand {e}")
    write(headers, version)


if __name__ == "__main__":
    main()
