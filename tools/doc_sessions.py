#!/usr/bin/env python3
"""Runs the sessions that the documentation shows, and compares what they print. Usage: doc_sessions.py [--write] PAGE...

A session is a fenced block under the line "<!-- session -->": lines "$ COMMAND" with the output that follows each. The
sessions of a page run one after the other in one empty folder, where models/ is the project's. PITH names the program,
which the page calls pith; what goes to standard error is not shown. A line "..." stands for any lines. Seconds, sizes of
memory and what depends on them differ from run to run: they are compared as blanks. With --write the page is renewed.
"""
import difflib
import os
import re
import subprocess
import sys
import tempfile

# What differs from run to run and machine to machine.
VOLATILE = [
    (re.compile(r"\b(\d+ (min|h) )*\d+(\.\d+)? (s|min|h)\b"), "TIME"),
    (re.compile(r"\b\d+(\.\d+)? tokens a second"), "RATE tokens a second"),
    (re.compile(r"(peak memory|memory of its own|mapped(?: files)?) [\d.]+ [KMG]iB"), r"\1 SIZE"),
    (re.compile(r"[\d.]+ [KMG]iB (of its own|mapped|at most)"), r"SIZE \1"),
    (re.compile(r"^ *of it +\w.*TIME.*$"), "PHASES"),
    (re.compile(r"-{2,}"), "--"),
]
MORE_PHASES = re.compile(r"(\w+ TIME(, |$))+")  # of a list that was wrapped
CLOCKED = {"s", "tokens/s", "seconds"}


def clocked_spans(lines, at):
    """Spans of the columns of seconds when lines[at] is the rule under a table's head."""
    if at == 0 or not re.fullmatch(r"-{1,}(\s+-+)+", lines[at].strip()):
        return []
    head = lines[at - 1]
    return [(m.start(), m.end()) for m in re.finditer(r"-+", lines[at]) if head[m.start():m.end()].strip() in CLOCKED]


def masked(lines):
    out, spans = [], []
    for i, line in enumerate(lines):
        new = clocked_spans(lines, i)
        spans = new or (spans if line.strip() else [])
        for begin, end in reversed(spans):  # whatever their width
            if not new and len(line) >= end:
                line = line[:begin] + " # " + line[end:]
        for pattern, text in VOLATILE:
            line = pattern.sub(text, line)
        line = " ".join(line.split())
        if out and out[-1] == "PHASES" and MORE_PHASES.fullmatch(line):
            continue
        out.append(line)
    return out


def matches(shown, printed):
    """Whether the shown lines are those printed, with "..." for any."""
    shown, printed = masked(shown), masked(printed)
    text = "\n".join(".*" if s == "..." else re.escape(s) for s in shown)
    return re.fullmatch(text, "\n".join(printed), re.DOTALL) is not None


def renewed(shown, printed):
    """The new output; where the page showed the first lines only, so many of the new ones."""
    if shown and shown[-1] == "..." and len(printed) >= len(shown):
        return printed[:len(shown) - 1] + ["..."]
    return printed


def run(command, folder, env):
    done = subprocess.run(["sh", "-c", command], cwd=folder, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode > 1:
        raise SystemExit(f"{command}: status {done.returncode}: {done.stderr.strip()}")
    return done.stdout.rstrip("\n").split("\n") if done.stdout else []


def session(block, folder, env, page):
    """A block's new lines, and whether they say what the old ones said."""
    out, same, i = [], True, 0
    while i < len(block):
        if not block[i].startswith("$ "):
            raise SystemExit(f"{page}: a session's first line is no command: {block[i]}")
        command = [block[i][2:]]
        out.append(block[i])
        i += 1
        while command[-1].endswith("\\"):
            command.append(block[i])
            out.append(block[i])
            i += 1
        end = i
        while end < len(block) and not block[end].startswith("$ "):
            end += 1
        shown, blank = block[i:end], end < len(block) and end > i and block[end - 1] == ""
        shown = shown[:-1] if blank else shown
        printed = run("\n".join(command), folder, env)
        if not matches(shown, printed):
            same = False
            print(f"{page}: $ {command[0]}")
            for line in list(difflib.unified_diff(shown, printed, "shown", "printed", lineterm=""))[2:14]:
                print("   ", line)
            shown = renewed(shown, printed)
        out += shown + ([""] if blank else [])
        i = end
    return out, same


def check(page, write, root, pith):
    lines = open(page, encoding="utf-8").read().split("\n")
    out, same, i = [], True, 0
    with tempfile.TemporaryDirectory() as work:
        folder = os.path.join(work, "here")
        os.makedirs(os.path.join(work, "bin"))
        os.makedirs(folder)
        os.symlink(pith, os.path.join(work, "bin", "pith"))
        os.symlink(os.path.join(root, "models"), os.path.join(folder, "models"))
        env = dict(os.environ, PATH=os.path.join(work, "bin") + ":" + os.environ["PATH"], COLUMNS="100", NO_COLOR="1")
        while i < len(lines):
            out.append(lines[i])
            i += 1
            if out[-1] != "<!-- session -->":
                continue
            end = lines.index("```", i + 1)
            new, ok = session(lines[i + 1:end], folder, env, page)
            same &= ok
            out += [lines[i]] + new
            i = end
    if not same and write:
        open(page, "w", encoding="utf-8").write("\n".join(out))
        print(f"{page}: renewed")
    return same or write


def main():
    write = "--write" in sys.argv[1:]
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    pith = os.path.abspath(os.environ.get("PITH", "build/pith"))
    pages = [a for a in sys.argv[1:] if a != "--write"]
    return 0 if all([check(p, write, root, pith) for p in pages]) else 1


if __name__ == "__main__":
    sys.exit(main())
