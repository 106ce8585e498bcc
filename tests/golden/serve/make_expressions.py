#!/usr/bin/env python3
"""Writes expressions.json beside this file: regular expressions, texts, and whether Python's re.fullmatch, with
re.ASCII, matches (what ECMA-262 says differently, as \\s beyond ASCII or . before a carriage return, is left out).

    make_expressions.py
"""
import json
import pathlib
import random
import re

OWN = [
    (r"", ["", "a"]), (r"abc", ["abc", "ab", "abcd"]), (r"a|b|", ["a", "b", "", "ab"]),
    (r"^a+$", ["a", "aaa", "", "b"]), (r"^(?:a|bc)*$", ["", "abca", "bcb", "abc"]),
    (r"[a-f0-9]{4}", ["12af", "12ag", "123", "12345"]), (r"[^a-c]", ["d", "a", "\n", "\u00e9", "\U0001f600"]),
    (r"\d{3}-\d{4}", ["555-1234", "5555-123", "555-12345"]), (r"\w+\s\w+", ["a b", "a_1\tb", "ab", "a  b"]),
    (r"\D\W\S", ["a !", "1 !", "a  ", "a-b"]), (r".", ["a", "\u00e9", "\u20ac", "\U0001f600", "\n", "", "ab"]),
    (r"(a(b(c)?)?)?", ["", "a", "ab", "abc", "ac"]), (r"(?:a)b", ["ab", "b"]),
    (r"a{2,3}", ["a", "aa", "aaa", "aaaa"]), (r"a{2,}", ["a", "aa", "aaaaaa"]), (r"a{0}", ["", "a"]),
    (r"(a*)*b", ["b", "aaab", "a"]), (r"(a|aa)+", ["a", "aaaa", ""]), (r"(|a)+b", ["b", "aab", "a"]),
    (r"\x41\u0042\t\n", ["AB\t\n", "AB"]), (r"[\]\\\-x]+", ["]\\-x", "y"]), (r"[-a]+", ["-a-", "b"]), (r"[a\-z]+", ["a-z", "b"]),
    (r"[\d.]+", ["1.5", "a"]), (r"[\s\S]", ["\n", "x", ""]), (r"\.\*\+\?\(\)\[\]\{\}\^\$\|\\\/", [".*+?()[]{}^$|\\/", "x"]),
    (r"\u00e9+[\u4e00-\u9fff]", ["\u00e9\u4e2d", "\u00e9x", "e\u4e2d"]), (r"a.*b.*c", ["abc", "axxbyyc", "acb"]),
    (r"(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(?:25[0-5]|2[0-4]\d|1?\d?\d)", ["1.2.3.4", "255.255.255.255", "256.1.1.1", "1.2.3"]),
    (r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", ["1", "-1.5", ".5e10", "e5", "1.e-3", "."]),
    (r"a*?b+?c??", ["b", "aabbc", "ac"]), (r"[A-Za-z_][A-Za-z0-9_]*", ["x1", "1x", "_"]), (r"yes|no", ["yes", "no", "yesno"]),
    ("\u00e4|[\u00f6-\u00fc]", ["\u00e4", "\u00f8", "\u00fd"]),
]
REFUSED = [(r"(a)\1", "back-reference"), (r"a(?=b)", "look-ahead"), (r"a(?!b)", "look-ahead"), (r"(?<=a)b", "look-behind"),
           (r"(?<!a)b", "look-behind"), (r"\bword\b", "border"), (r"\p{L}+", "property"), (r"a(^b)", "anchor"), (r"a$b", "anchor"),
           (r"(?i:a)", "group")]
WRONG = ["(", ")", "[", "a)", "*a", "a**", "a{2,1}", "a{x}", "\\", "[b-a]", "(?<n", "\\q", "a{", "]", "}"]


def expression(rng, depth):
    if depth == 0:
        return rng.choice(["a", "b", "c", ".", "[ab]", "[^a]", "[a-c]", "\\w", "\u00e9"])
    kind = rng.randrange(6)
    if kind < 2:
        return "".join(expression(rng, depth - 1) for _ in range(rng.randrange(1, 4)))
    if kind == 2:
        return "(?:" + "|".join(expression(rng, depth - 1) for _ in range(rng.randrange(1, 4))) + ")"
    if kind == 3:
        return "(" + expression(rng, depth - 1) + ")" + rng.choice(["*", "+", "?", "{1,2}", "{2}", "{0,3}", "{2,}", "*?"])
    return expression(rng, depth - 1)


def main():
    rng = random.Random(13)
    cases = list(OWN)
    for _ in range(300):
        pattern = expression(rng, 4)
        texts = {"".join(rng.choice("abc\u00e9d") for _ in range(rng.randrange(0, 8))) for _ in range(14)}
        cases.append((pattern, sorted(texts)))
    out = [{"expression": p, "texts": [[t, re.fullmatch(p, t, re.ASCII) is not None] for t in texts]} for p, texts in cases]
    out += [{"expression": p, "refused": name} for p, name in REFUSED] + [{"expression": p, "wrong": True} for p in WRONG]
    target = pathlib.Path(__file__).with_name("expressions.json")
    target.write_text("[\n" + ",\n".join(json.dumps(e) for e in out) + "\n]\n")
    texts = [t for e in out for t in e.get("texts", [])]
    print(len(out), len(texts), sum(v for _, v in texts))


main()
