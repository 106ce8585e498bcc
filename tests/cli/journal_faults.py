"""Random faults in the journal of an interrupted run, each followed by --resume.

python3 journal_faults.py PITH WORK COUNT SEED FAULTY

FAULTY is the library made of faulty.c.

A fault is harmless when the resumed run ends with an error and no output, or with the bytes of an undisturbed
run, which pith verify accepts. Prints a table: kind of fault, how many, how many ended with an error, how many
with the right bytes. Exit status 1 when one ended otherwise."""
import hashlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys

pith, work, count, seed, faulty = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
rng = random.Random(seed)
mini, whole, out = (os.path.join(work, n) for n in ("mini", "whole", "out"))
JOBS = {
    "gptq": "-r gptq --weights int4:g32 --container compressed-tensors --calib-tokens 256 --seq-len 64",
    "rtn": "-r rtn --weights int4:g32 --container gptq",
    "gguf": "-r rtn --weights int4:g32 --container gguf",
}


def quantize(to, job, *more, env=None):
    command = [pith, "quantize", mini, "-o", to, "--quiet", "--threads", "2", *JOBS[job].split(), *more]
    return subprocess.run(command, env=env, capture_output=True, text=True)


def digest(folder):
    """Everything in it but the times."""
    found = {}
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name), "rb") as f:
            data = f.read()
        if name == "pith.json":
            data = re.sub(rb'"timing": \{[^}]*\}|"seal": "[0-9a-f]*"', b"", data)
        found[name] = hashlib.sha256(data).hexdigest()
    return found


def interrupt(job, lines):
    """A run that is killed once its journal has so many lines (its first and those of units); what it left."""
    left = os.path.join(work, "left-%s-%d" % (job, lines))
    fault = {"FAULT": "kill:%d" % lines, "FAULT_AT": "pith.journal", "LD_PRELOAD": faulty}
    if quantize(left, job, env=os.environ | fault).returncode != -signal.SIGKILL:
        sys.exit("%s: not killed" % left)
    return left + ".partial"


def chained(lines):
    """The lines with hashes that follow from each other, as an enemy who knows the rule makes them."""
    made, before = [], None
    for line in lines:
        text = line[65:] if len(line) > 65 else b"{}"
        if before is None:
            try:
                before = json.loads(text)["job"].encode()
            except (ValueError, KeyError, TypeError):
                before = b""
        before = hashlib.sha256(before + text).hexdigest().encode()
        made.append(before + b" " + text)
    return made


def flip(data):
    at = rng.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1:]


def with_lines(change):
    def fault(path, data):
        lines = data.split(b"\n")[:-1]
        lines = change(lines)
        return b"".join(line + b"\n" for line in lines)
    return fault


def double(lines):
    i = rng.randrange(len(lines))
    return lines[:i] + [lines[i]] + lines[i:]


def swap(lines):
    i, k = rng.randrange(len(lines)), rng.randrange(len(lines))
    lines[i], lines[k] = lines[k], lines[i]
    return lines


def delete(lines):
    del lines[rng.randrange(len(lines))]
    return lines


def edit(lines, change):
    """One unit's object changed, and every hash made to follow."""
    if len(lines) < 2:
        return lines
    i = rng.randrange(1, len(lines))
    unit = json.loads(lines[i][65:])
    change(unit)
    lines[i] = lines[i][:65] + json.dumps(unit, separators=(",", ":")).encode()
    return chained(lines)


def empty_lists(unit):
    unit["linears"], unit["tensors"] = [], []


def lose_one(unit):
    where = unit[rng.choice([k for k in ("linears", "tensors") if unit.get(k)] or ["tensors"])]
    if where:
        del where[rng.randrange(len(where))]


def other_hash(unit):
    entries = [s for k in ("linears", "tensors") for e in unit[k] for s in e["stored"]]
    if entries:
        s = rng.choice(entries)
        s["sha256"] = "%064x" % rng.getrandbits(256)


def other_size(unit):
    entries = [s for k in ("linears", "tensors") for e in unit[k] for s in e["stored"]]
    if entries:
        rng.choice(entries)["bytes"] += rng.choice([-1, 1, 4096, -10 ** 12])


def other_unit(unit):
    unit["unit"] = "block %d" % rng.randrange(9)


def later_units(lines):
    """Units that never ran, made from one that did."""
    last = json.loads(lines[-1][65:])
    if "unit" not in last or last["unit"] == "outer":
        return lines
    n = int(last["unit"].split()[1])
    text = lines[-1][65:].replace(b"layers.%d." % n, b"layers.%d." % (n + 1)).replace(
        b'"block %d"' % n, b'"block %d"' % (n + 1))
    return chained(lines + [lines[-1][:65] + text])


def link(path, data):
    other = os.path.join(work, "elsewhere")
    with open(other, "wb") as f:
        f.write(data)
    os.remove(path)
    (os.symlink if rng.random() < 0.5 else os.link)(other, path)


def spoil_output(path, data):
    """The journal is right, the files are not."""
    folder = os.path.dirname(path)
    names = [n for n in os.listdir(folder) if n.endswith((".safetensors", ".gguf", ".0", ".1"))]
    target = os.path.join(folder, rng.choice(names))
    with open(target, "r+b") as f:
        size = os.path.getsize(target)
        at = rng.randrange(size)
        f.seek(at)
        byte = f.read(1)
        f.seek(at)
        f.write(bytes([byte[0] ^ 1 << rng.randrange(8)]))
    if rng.random() < 0.3:
        os.truncate(target, rng.randrange(size))
    return data


FAULTS = {
    "a bit flipped": lambda p, d: flip(d),
    "three bits flipped": lambda p, d: flip(flip(flip(d))),
    "cut short": lambda p, d: d[:rng.randrange(len(d))],
    "emptied": lambda p, d: b"",
    "random bytes": lambda p, d: rng.randbytes(rng.randrange(1, 5000)),
    "zeros": lambda p, d: bytes(len(d)),
    "a line deleted": with_lines(delete),
    "a line doubled": with_lines(double),
    "two lines swapped": with_lines(swap),
    "a line of garbage": with_lines(lambda l: l[:1] + [b"garbage"] + l[1:]),
    "hashes omitted": with_lines(lambda l: [x[65:] for x in l]),
    "forged: lists emptied": with_lines(lambda l: edit(l, empty_lists)),
    "forged: an entry lost": with_lines(lambda l: edit(l, lose_one)),
    "forged: another hash": with_lines(lambda l: edit(l, other_hash)),
    "forged: another size": with_lines(lambda l: edit(l, other_size)),
    "forged: another unit": with_lines(lambda l: edit(l, other_unit)),
    "forged: a unit that never ran": with_lines(later_units),
    "replaced by a link": link,
    "the files changed instead": spoil_output,
}


def one(kind, job, left, right):
    for path in (out, out + ".partial"):
        shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(left, out + ".partial", symlinks=True)
    journal = out + ".partial/pith.journal"
    with open(journal, "rb") as f:
        data = f.read()
    changed = FAULTS[kind](journal, data)
    if changed is not None:
        with open(journal, "wb") as f:
            f.write(changed)
    done = quantize(out, job, "--resume")
    if done.returncode == 1 and not os.path.exists(out) and done.stderr.strip():
        return "error"
    if done.returncode == 0 and digest(out) == right:
        verify = subprocess.run([pith, "verify", out, "--against", mini, "--quiet"], capture_output=True)
        if verify.returncode == 0:
            return "right"
    print("%s, %s: status %d: %s" % (kind, job, done.returncode, done.stderr.strip()))
    return "wrong"


def main():
    right, left = {}, []
    for job in JOBS:
        done = quantize(whole + job, job)
        if done.returncode != 0:
            sys.exit(done.stderr)
        right[job] = digest(whole + job)
        left += [(job, interrupt(job, n)) for n in (2, 3, 5)]
    table = {kind: {"error": 0, "right": 0, "wrong": 0} for kind in FAULTS}
    for i in range(count):
        kind = list(FAULTS)[i % len(FAULTS)]
        job, folder = rng.choice(left)
        table[kind][one(kind, job, folder, right[job])] += 1
    print("| fault | tried | ends with an error | ends with the right bytes | otherwise |")
    print("|---|--:|--:|--:|--:|")
    for kind, t in table.items():
        print("| %s | %d | %d | %d | %d |" % (kind, sum(t.values()), t["error"], t["right"], t["wrong"]))
    total = {k: sum(t[k] for t in table.values()) for k in ("error", "right", "wrong")}
    print("| **all** | %d | %d | %d | %d |" % (count, total["error"], total["right"], total["wrong"]))
    sys.exit(1 if total["wrong"] else 0)


main()
