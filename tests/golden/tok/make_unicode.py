"""Writes src/tok/unicode/newer.def, src/tok/unicode/later.def and src/tok/unicode/joins.def.

The first lists characters whose general category changed after Unicode 14: the categories are asked of
Hugging Face tokenizers' own pattern engine (Oniguruma, Unicode 16), and compared with Unicode 14 as this
Python's unicodedata has it. The second lists the older characters that tokenizers' normalizers do not
know, because their tables are those of Unicode 9. The third lists what joins the character before it to
one grapheme (in tokenizers: Unicode 17) and came after Unicode 14. Usage: make_unicode.py src/tok/unicode
"""
import os
import struct
import sys
import unicodedata

from tokenizers import Regex, normalizers, pre_tokenizers

CATEGORIES = ("Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Co").split()
POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
TEXT = "".join(map(chr, POINTS))


def members(pattern):
    split = pre_tokenizers.Split(Regex(pattern), "removed", invert=True)
    return {ord(c) for piece, _ in split.pre_tokenize_str(TEXT) for c in piece}


def ranges(kinds):
    """[first, last, kind] for a dict of character to kind"""
    rows = []
    for c in sorted(kinds):
        if rows and rows[-1][1] == c - 1 and rows[-1][2] == kinds[c]:
            rows[-1][1] = c
        else:
            rows.append([c, c, kinds[c]])
    return rows


def newer():
    assert unicodedata.unidata_version == "14.0.0", unicodedata.unidata_version
    now = {c: g for g in CATEGORIES for c in members(r"\p{%s}" % g)}
    han = members(r"\p{Han}")
    return {c: (now[c], c in han) for c in POINTS if unicodedata.category(chr(c)) == "Cn" and c in now}


def later():
    strip = normalizers.StripAccents()
    forms = {f: getattr(normalizers, f)() for f in ("NFC", "NFD", "NFKC", "NFKD")}
    found = set()
    for c in POINTS:
        s = chr(c)
        mark = unicodedata.category(s)[0] == "M"
        # Does it move other marks, or is it moved by them?
        probes = (f"a{s}\u0334", f"a\u0345{s}", f"a\u0323{s}\u0300") if mark else ()
        if (strip.normalize_str("a" + s) == "a") != mark:
            found.add(c)
        if any(n.normalize_str(s) != unicodedata.normalize(f, s) for f, n in forms.items()):
            found.add(c)
        if any(forms["NFD"].normalize_str(p) != unicodedata.normalize("NFD", p) for p in probes):
            found.add(c)
    return dict.fromkeys(found, ())


def joins():
    """What makes one grapheme with an "a": a rule that turns "a" into "b" swallows it."""
    array = [0] * 512
    array[97] = 0x61 | 1 << 8 | 1 << 10
    array[96] = 1 << 31
    rule = normalizers.Precompiled(struct.pack("<513I", 4 * 512, *array) + b"b\0")
    return {c: () for c in POINTS if unicodedata.category(chr(c)) == "Cn" and rule.normalize_str("a" + chr(c)) == "b"}


def main():
    by = " * Written by tests/golden/tok/make_unicode.py. */\n"
    with open(os.path.join(sys.argv[1], "newer.def"), "w") as f:
        f.write("/* Characters that Unicode 15.0 to 16.0 added: first, last, general category, script Han.\n" + by)
        for lo, hi, (category, is_han) in ranges(newer()):
            f.write(f'PITH_NEWER(0x{lo:X}, 0x{hi:X}, "{category}", {int(is_han)})\n')
    with open(os.path.join(sys.argv[1], "later.def"), "w") as f:
        f.write("/* Marks and decomposable characters of Unicode 10.0 to 14.0: first, last.\n" + by)
        for lo, hi, _ in ranges(later()):
            f.write(f"PITH_LATER(0x{lo:X}, 0x{hi:X})\n")
    with open(os.path.join(sys.argv[1], "joins.def"), "w") as f:
        f.write("/* Characters of Unicode 15.0 to 17.0 that continue a grapheme: first, last.\n" + by)
        for lo, hi, _ in ranges(joins()):
            f.write(f"PITH_JOINS(0x{lo:X}, 0x{hi:X})\n")


main()
