#!/usr/bin/env python3
"""decisions.py PITH DOCUMENT: runs each row of the document's table of first choices ("pass NAME" or "fail NAME: why" a line)."""

import json
import subprocess
import sys


def rows(path):
    """Cells of the table under "## First choices", without its head."""
    part = open(path, encoding="utf-8").read().split("## First choices\n", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in part.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def main():
    for name, advised, command, first, why in rows(sys.argv[2]):
        arguments = command.strip("`").split()
        r = subprocess.run([sys.argv[1], "plan", *arguments, "--json"], capture_output=True, text=True)
        if r.returncode:
            print("fail %s: %s" % (name, r.stderr.strip()))
            continue
        row = json.loads(r.stdout)["rows"][0]
        got = [row["recipe"], "kv=" + row["kv"].split(":")[0]]
        wanted = advised.split("`")[1].split("/")
        if " ".join(got) != first.strip("`"):
            print("fail %s: %s comes first" % (name, " ".join(got)))
        elif not set(got) & set(wanted) and not why:
            print("fail %s: not what is advised, and no reason given" % name)
        else:
            print("pass %s" % name)


main()
