"""What a shell offers is what --help lists: completions.py PITH SHELL SCRIPT FOLDER. A line for each check, as tests/cli/lib.sh's."""
import json
import re
import subprocess
import sys
from pathlib import Path

pith, shell, script, folder = sys.argv[1], sys.argv[2], sys.argv[3], Path(sys.argv[4])
bad = 0


def tell(good, what, more=""):
    global bad
    bad += not good
    print(f"[       OK ] {what}" if good else f"[  FAILED  ] {what}: {more}")


def run(*words, text=None):
    done = subprocess.run(words, input=text, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120, cwd=folder)
    assert done.returncode == 0 and not done.stderr, (words[:3], done.returncode, done.stderr[-500:])
    return done.stdout


def help_of(command):
    """Options of a command with their texts."""
    options, name = {}, None
    for line in run(pith, command, "--help").split("\n"):
        m = re.match(r" +(?:-\w, )?--([a-z-]+)(.*)$", line) if re.match(r" {2,6}-", line) else None
        if m:
            name = m.group(1)
            options[name] = m.group(2)
        elif name and line.startswith(" " * 26):
            options[name] += " " + line.strip()
        elif not line.startswith(" "):
            name = None
    return options


# Prints what is offered for each line of standard input, and a line "=" behind.
OFFERS = {
    "bash": ["bash", "-c", """source "$0"; while IFS= read -r line; do read -ra COMP_WORDS <<<"${line//=/ = }"
        case $line in *' '|*=) COMP_WORDS+=('') ;; esac; COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); COMPREPLY=(); _pith
        [ ${#COMPREPLY[@]} -eq 0 ] || printf '%s\\n' "${COMPREPLY[@]}"; echo =; done"""],
    "fish": ["fish", "--no-config", "-c", """source $argv[1]; while read -l line; complete -C $line | string replace -r '\\t.*' ''; echo =; end"""],
    # What _arguments and _describe of zsh are given: the names in it.
    "zsh": ["zsh", "-f", "-c", """compdef() { }; source $0; names() { print -rl -- ${(M)${(M)@:#*--*}##*} }
        _describe() { print -rl -- ${list%%:*} }
        _arguments() { if [[ $1 == -C ]]; then state=$at; else print -rl -- "$@"; fi }
        while IFS= read -r line; do words=(${=line}); shift words; at=argument; (( $#words > 1 )) || [[ $line == *\\  && $#words == 1 ]] || at=command
        _pith; print =; done"""],
}


def offers(lines):
    out = run(*OFFERS[shell], script, text="".join(line + "\n" for line in lines)).split("=\n")
    assert len(out) == len(lines) + 1, (len(out), len(lines))
    return [block.split("\n")[:-1] for block in out[:-1]]


def named(block):
    """Of what zsh is given, the long options."""
    return re.findall(r"--[a-z-]+(?==?\[)|(?<=,)--[a-z-]+(?==?\[)|(?<=,)--[a-z-]+(?=[=\[])", "\n".join(block)) if shell == "zsh" else block


overview = run(pith, "--help")
commands = re.findall(r"^  ([a-z]+) +\S", overview.split("commands:")[1].split("first steps")[0], re.M)
tell(len(commands) >= 20, f"{shell}: commands are listed", commands)
first, *rest = offers(["pith "] + [f"pith {c} --" for c in commands])
tell(set(commands) <= set(first), f"{shell}: commands", set(commands) - set(first))
helped = {c: help_of(c) for c in commands}
for command, block in zip(commands, rest):
    want, got = {"--" + o for o in helped[command]}, named(block)
    tell(set(got) == want and len(got) == len(set(got)), f"{shell}: options of {command}", sorted(set(got) ^ want))

if shell != "zsh":
    recipes = [r["recipe"] for r in json.loads(run(pith, "recipes", "--json"))]
    lines = ["pith run --mode ", "pith quantize -r ", "pith quantize x --recipe ", "pith completion ", "pith run --mode f", "pith eval --crlf=", "pith features "]
    mode, short, long, shells, one, equals, tables = offers(lines)
    if shell == "fish":  # which offers the whole word
        equals = [w.replace("--crlf=", "") for w in equals]
    tell(sorted(mode) == ["exact", "fast"], f"{shell}: values of --mode", mode)
    tell(set(short) == set(long) == {"auto", *recipes}, f"{shell}: recipes", (short, long))
    tell(sorted(w for w in shells if w[0] != "-") == ["bash", "fish", "zsh"], f"{shell}: shells", shells)
    lists = set(json.loads(run(pith, "features", "--json")))
    tell(lists <= set(tables), f"{shell}: the lists of features", lists - set(tables))
    tell(one == ["fast"], f"{shell}: a value that was begun", one)
    tell(sorted(equals) == ["keep", "lf"], f"{shell}: a value behind =", equals)
if shell == "bash":
    # Words of the program's own list are those that the option's help speaks of.
    rows = re.findall(r"^    '([a-z]+) --([a-z-]+)'(?:\|'[^']*')?\) words='([^']+)'", Path(script).read_text(), re.M)
    own = {"arrivals", "convention", "cpu", "crlf", "endpoint", "experts", "form", "format", "mode", "ranks", "train"}
    tell(own <= {o for _, o, _ in rows}, "bash: options with words", own - {o for _, o, _ in rows})
    for command, option, words in rows:
        lacks = [w for w in words.split() if not re.search(rf"\b{re.escape(w)}\b", helped[command][option])]
        if option in own:
            tell(not lacks, f"words of {command} --{option} stand in its help", lacks)
sys.exit(bad > 0)
