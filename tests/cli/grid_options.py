#!/usr/bin/env python3
"""Every format of the registry in every option that takes a grid: it is used, as it was named, or refused with
status 2 and the reason; with status 1 only for what this model or container cannot hold, and saying so.

    grid_options.py PITH MODEL DIR      MODEL: a very small checkpoint; DIR: for what is written"""
import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

pith, model, work = sys.argv[1:4]
text = os.path.join(work, "text.txt")
with open(text, "w") as f:
    f.write("The quick brown fox jumps over the lazy dog. " * 8)
SHAPES = ["", ":channel"]
QUANTIZE = ["quantize", model, "-o", "OUT", "-r", "rtn", "--rehearse", "--calib-tokens", "64",
            "--seq-len", "32"]
EVAL = ["eval", model, "--text", text, "--max-tokens", "8", "--context", "8"]
BENCH = ["bench", model, "--prompt", "2", "--gen", "0", "--reps", "1"]


def said(*keys):
    """What the report says was used."""
    def find(report):
        for key in keys:
            report = report.get(key) or {}
        return report if isinstance(report, str) else ""
    return find


# Name, command before the grid, what tells the grid that was used.
OPTIONS = [
    ("quantize --weights", lambda g: QUANTIZE + ["--weights", g], said("recipe", "weights")),
    ("quantize --acts", lambda g: QUANTIZE + ["--weights", "int8:channel", "--acts", g], said("recipe", "acts")),
    ("quantize --kv", lambda g: QUANTIZE + ["--kv", g], said("recipe", "kv")),
    ("quantize --override", lambda g: QUANTIZE + ["--override", "*q_proj=" + g], None),
    ("eval --kv", lambda g: EVAL + ["--kv", g], said("kv")),
    ("run --kv", lambda g: ["run", model, "-p", "The", "-n", "1", "--kv", g], None),
    ("bench --kv", lambda g: BENCH + ["--kv", g], said("kv")),
    ("bench --weights", lambda g: BENCH + ["--weights", g], said("weights")),
    ("bench --head", lambda g: BENCH + ["--head", g], said("head")),
]


# What only the model or its container forbids.
CANNOT = re.compile(r"cannot hold .*; it holds|cannot describe .*; it knows|the group must divide|whole groups of|"
                    r"rows of a multiple of|has no scales for keys and values; .* needs none|"
                    r"keeps keys and values on")
# Why a grid is none, or not there: what can stand there is named, or what must change.
REASON = re.compile(r"grids that can be|some that (they|it) can|can hold activations|only integer formats have|"
                    r"may follow it|no other granularity|not of values|nothing to do|compressed-tensors")


def judge(job):
    """None, or what is wrong."""
    (what, command, used), grid, number = job
    arguments = [os.path.join(work, f"out{number}") if a == "OUT" else a for a in command(grid)]
    r = subprocess.run([pith] + arguments + ["--json", "--quiet"], capture_output=True, text=True)
    report = json.loads(r.stdout) if r.stdout.startswith("{") else {}
    why = report.get("error", {}).get("what", "") + r.stderr
    if r.returncode == 0 and used and used(report).split(":")[0] != grid.split(":")[0]:
        return f"{what} {grid}: used {used(report)!r}"
    if r.returncode == 0 or (r.returncode == 2 and REASON.search(why)) or (r.returncode == 1 and CANNOT.search(why)):
        return None
    return f"{what} {grid}: status {r.returncode}: {why.strip()[-300:]}"


listed = subprocess.run([pith, "formats", "--json"], capture_output=True, text=True, check=True).stdout
formats = [f["format"] for f in json.loads(listed)]
jobs = [(o, f + s, i) for i, (o, f, s) in enumerate((o, f, s) for o in OPTIONS for f in formats for s in SHAPES)]
if not os.environ.get("PITH_TEST_ALL"):
    # Five and fifteen have no common divisor with the number of formats: each option gets others. What is timed
    # measures the machine, too.
    jobs = [j for j in jobs if j[2] % (15 if j[0][0].startswith("bench") else 5) == 0]
with ThreadPoolExecutor(2) as pool:
    wrong = [w for w in pool.map(judge, jobs) if w]
for line in wrong:
    print(line)
print(f"{len(jobs)} grids, {len(wrong)} wrong")
sys.exit(bool(wrong) or len(jobs) < len(OPTIONS) * 10)
