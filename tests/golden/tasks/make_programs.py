#!/usr/bin/env python3
"""programs.json and humaneval_own.jsonl: functions in HumanEval's form, written for this, and answers to them with
what Python makes of prompt, answer and tests put together as the lm-evaluation-harness (0.4.13, tasks/humaneval) does:
prompt + answer, a line end, test + "\\ncheck(" + entry_point + ")", each in a process of its own for 3 seconds.

    make_programs.py        (needs nothing but Python)
"""
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))

TASKS = [
    ("add", 'def add(a: int, b: int) -> int:\n    """ The sum of two numbers.\n    >>> add(2, 3)\n    5\n    """\n',
     "\n\ndef check(candidate):\n    assert candidate(2, 3) == 5\n    assert candidate(-1, 1) == 0\n",
     ["    return a + b\n", "    return b + a", "    return a - b\n", "    return 5\n", "return a + b\n", "",
      "    import sys\n    sys.exit(0)\n", "    while True:\n        pass\n", "    return a +\n",
      "    return a + b\n\nraise SystemExit\n", "    return float(a + b)\n"]),
    ("turned", "from typing import List\n\n\ndef first(xs: List[int]) -> int:\n    return xs[0]\n\n\n"
     'def turned(xs: List[int]) -> List[int]:\n    """ The list from its end.\n    >>> turned([1, 2])\n    [2, 1]\n    """\n',
     "METADATA = {'author': 'pith'}\n\n\ndef check(candidate):\n    assert candidate([]) == []\n"
     "    assert candidate([1, 2, 3]) == [3, 2, 1]\n    xs = [1, 2]\n    candidate(xs)\n    assert xs == [1, 2]\n",
     ["    return xs[::-1]\n", "    return list(reversed(xs))", "    xs.reverse()\n    return xs\n", "    return xs\n",
      "    return sorted(xs, reverse=True)\n", "    out: List[int] = []\n    for x in xs:\n        out.insert(0, x)\n    return out\n",
      "    return reversed(xs)\n", "    '''\n    return xs[::-1]\n", "\treturn xs[::-1]\n"]),
    ("words", 'def words(s: str) -> int:\n    """ Wie viele Wörter ein Satz hat: "größer als" hat 2. """\n',
     "def check(candidate):\n    assert candidate('größer als') == 2\n    assert candidate('') == 0\n",
     ["    return len(s.split())\n", "    return s.count(' ') + 1\n", "    return len([w for w in s.split(' ') if w])\n"]),
]


def ended(program):
    """A program that leaves before its end has not passed, whatever its status."""
    mark = "came to its end"
    try:
        p = subprocess.run([sys.executable, "-s", "-"], input=f"{program}\nprint({mark!r})\n".encode(),
                           capture_output=True, timeout=3)
    except subprocess.TimeoutExpired:
        return False
    return p.returncode == 0 and p.stdout.decode().strip() == mark


def main():
    lines, judged = [], []
    for i, (entry, prompt, test, answers) in enumerate(TASKS):
        lines.append(json.dumps({"task_id": f"own/{i}", "prompt": prompt, "entry_point": entry,
                                 "canonical_solution": answers[0], "test": test}, ensure_ascii=False))
        judged += [[i, a, ended(prompt + a + "\n" + test + f"\ncheck({entry})")] for a in answers]
    with open(os.path.join(HERE, "humaneval_own.jsonl"), "w", encoding="utf-8") as f:
        f.write("\n".join(lines) + "\n")
    with open(os.path.join(HERE, "programs.json"), "w") as f:
        f.write("[" + ",\n".join(json.dumps(j) for j in judged) + "]\n")
    print(len(judged), "answers,", sum(j[2] for j in judged), "pass")


main()
