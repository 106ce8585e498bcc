#!/usr/bin/env python3
"""Runs what the documentation shows, as it stands. Usage:
  doc_sessions.py [--write | --look] [--sessions | --short] PAGE...

A fenced block without a language, or of sh, is of a shell, and the line above says what becomes of it:
  <!-- session -->          lines "$ COMMAND" with the output that follows each, which is compared
  <!-- run -->              commands, each of which has to succeed
  <!-- run: COMMANDS -->    the same after these, which stand elsewhere ("quantize ..." makes the model of the page)
  <!-- run, long --> and <!-- run, long: COMMANDS -->   the same of what takes more than 20 s of processor time
  <!-- not run: REASON -->
A block under "<!-- file: NAME -->", of whatever, becomes that file.
Those of a page run one after the other in one folder, where models/, tests/, tools/, bench/ and build/ are the project's.
PITH names the program, which the page calls pith. In a session what goes to standard error is not shown; a line "..."
stands for any lines; seconds, sizes of memory and what depends on them differ from run to run: they are compared as
blanks. With --write the page is renewed. Blocks of json parse, those of python compile; another language says that a
block is neither (text, diff). With --look nothing is run, with --sessions they alone. With --short a block that is long
is tried (TRIED says how) rather than run as it stands; how many were is told on standard error.
"""
import difflib
import json
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
# In front of pith for the commands of a long block, with --short. Options are taken or refused as they stand: what is
# quantized is rehearsed, what is measured is measured in part, if it was made. The rest needs what was not made.
TRIED = """#!/bin/sh
case $1 in
quantize) exec '%s' "$@" --rehearse --calib-tokens 256 --seq-len 32 --allow-error 2 ;;
eval | compare) [ ! -e "$2" ] || exec '%s' "$@" --max-tokens 1024 ;;
esac
"""
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


MARK = re.compile(r"<!-- (session|run|run, long|not run|file)(?:: (.+))? -->")


def looked_at(page, lines):
    """Blocks of a shell: (mark, what it says more, first line, end). Complains of those without a mark and of what does not
    parse; None then."""
    out, good, i = [], True, 0

    def complain(at, what):
        nonlocal good
        good = False
        print(f"{page}:{at + 1}: {what}")
    while i < len(lines):
        fence = re.fullmatch(r"```(\w*)", lines[i])
        mark = MARK.fullmatch(lines[i - 1]) if i else None
        if re.match(r"    (pith|make|bench|build|python3?|mpirun) ?\S", lines[i]) and i and lines[i - 1] == "":
            complain(i, "commands that are only indented: between fences")
        i += 1
        if not fence:
            continue
        begin, end = i, lines.index("```", i)
        text, i = "\n".join(lines[begin:end]), end + 1
        try:
            if fence[1] == "json":
                json.loads(text)
            elif fence[1] == "python":
                compile(text, page, "exec")
        except (ValueError, SyntaxError) as e:
            complain(begin, f"a block of {fence[1]} that does not parse: {e}")
        if fence[1] not in ("", "sh") and not (mark and mark[1] == "file"):
            continue
        if not mark or mark[1] in ("not run", "file") and not mark[2]:
            complain(begin - 1, "a block of a shell, and no line above it says whether it is run (tools/doc_sessions.py), "
                     "or of a language that is not named")
        else:
            out.append((mark[1], mark[2], begin, end))
    return out if good else None


def succeed(commands, folder, env, where):
    done = subprocess.run(["sh", "-e", "-c", commands], cwd=folder, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        print(f"{where}: status {done.returncode}: {(done.stderr.strip() or done.stdout.strip())[-400:]}")
    return done.returncode == 0


def try_long(commands, folder, env, where):
    """Whether those of a long block are taken."""
    tried = os.path.join(os.path.dirname(folder), "tried")
    return succeed(commands, folder, dict(env, PATH=tried + ":" + env["PATH"]), where)


def made_folder(work, root, pith):
    """Where a page's blocks are run, and what they need to find there and in PATH."""
    folder = os.path.join(work, "here")
    for name in ("bin", "tried", "here"):
        os.makedirs(os.path.join(work, name))
    os.symlink(pith, os.path.join(work, "bin", "pith"))
    with open(os.path.join(work, "tried", "pith"), "w", encoding="utf-8") as f:
        f.write(TRIED % (pith, pith))
        os.fchmod(f.fileno(), 0o755)
    for name in ("models", "tests", "tools", "bench"):
        os.symlink(os.path.join(root, name), os.path.join(folder, name))
    os.symlink(os.path.dirname(pith), os.path.join(folder, "build"))
    return folder, dict(os.environ, PATH=os.path.join(work, "bin") + ":" + os.environ["PATH"], COLUMNS="100", NO_COLOR="1")


def check(page, write, kinds, root, pith):
    """kinds: "all", "sessions" or "short"."""
    lines = open(page, encoding="utf-8").read().split("\n")
    blocks, same, good, tried = looked_at(page, lines), True, True, 0
    if blocks is None:
        return False
    with tempfile.TemporaryDirectory() as work:
        folder, env = made_folder(work, root, pith)
        out, at = [], 0
        for mark, more, begin, end in blocks:
            new, where = lines[begin:end], f"{page}:{begin + 1}"
            if mark == "session":
                new, ok = session(new, folder, env, page)
                same &= ok
            elif mark == "file":
                with open(os.path.join(folder, os.path.basename(more)), "w", encoding="utf-8") as f:
                    f.write("\n".join(new) + "\n")
            elif mark == "run, long" and kinds == "short":
                good &= (not more or succeed(more, folder, env, where)) and try_long("\n".join(new), folder, env, where)
                tried += 1
            elif mark != "not run" and kinds != "sessions":
                good &= succeed("\n".join(([more] if more else []) + new), folder, env, where)
            out += lines[at:begin] + new
            at = end
    if not same and write:
        open(page, "w", encoding="utf-8").write("\n".join(out + lines[at:]))
        print(f"{page}: renewed")
    if tried:
        print(f"{page}: {tried} long blocks were only tried: make check-docs runs them", file=sys.stderr)
    return good and (same or write)


def main():
    write, look, only, short = (word in sys.argv[1:] for word in ("--write", "--look", "--sessions", "--short"))
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    pith = os.path.abspath(os.environ.get("PITH", "build/pith"))
    pages = [a for a in sys.argv[1:] if not a.startswith("--")]
    if look:
        return 0 if all([looked_at(p, open(p, encoding="utf-8").read().split("\n")) is not None for p in pages]) else 1
    kinds = "sessions" if only else "short" if short else "all"
    return 0 if all([check(p, write, kinds, root, pith) for p in pages]) else 1


if __name__ == "__main__":
    sys.exit(main())
