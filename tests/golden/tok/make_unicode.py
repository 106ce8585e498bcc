"""Writes src/tok/unicode_newer.def: characters whose general category changed after Unicode 14.

The categories are asked of Hugging Face tokenizers' own pattern engine (Oniguruma, Unicode 16), and
compared with Unicode 14 as this Python's unicodedata has it. Usage: make_unicode.py OUTPUT
"""
import sys
import unicodedata

from tokenizers import Regex, pre_tokenizers

CATEGORIES = ("Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Co").split()
POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
TEXT = "".join(map(chr, POINTS))


def members(pattern):
    split = pre_tokenizers.Split(Regex(pattern), "removed", invert=True)
    return {ord(c) for piece, _ in split.pre_tokenize_str(TEXT) for c in piece}


def main():
    assert unicodedata.unidata_version == "14.0.0", unicodedata.unidata_version
    now = {c: g for g in CATEGORIES for c in members(r"\p{%s}" % g)}
    han = members(r"\p{Han}")
    rows = []
    for c in POINTS:
        if unicodedata.category(chr(c)) != "Cn" or c not in now:
            continue
        kind = (now[c], c in han)
        if rows and rows[-1][1] == c - 1 and rows[-1][2] == kind:
            rows[-1][1] = c
        else:
            rows.append([c, c, kind])
    with open(sys.argv[1], "w") as f:
        f.write("/* Characters that Unicode 15.0 to 16.0 added: first, last, general category, script Han.\n"
                " * Written by tests/golden/tok/make_unicode.py. */\n")
        for lo, hi, (category, is_han) in rows:
            f.write(f'PITH_NEWER(0x{lo:X}, 0x{hi:X}, "{category}", {int(is_han)})\n')


main()
