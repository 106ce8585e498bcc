"""Holds a conversation with pith chat at a terminal and judges it.

Usage: talk.py WORK COMMAND...   the command with its model and options; WORK: an empty folder
"""
import json, os, re, signal, stat, subprocess, sys

from terminal import at_terminal

CTRL_A, CTRL_C, CTRL_D, UP = b"\x01", b"\x03", b"\x04", b"\x1b[A"


def plain(text):
    return re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", text).replace("\r", "")


def run(work, command, steps, status=0):
    os.environ.update(XDG_STATE_HOME=work + "/state")
    os.environ.pop("NO_COLOR", None)
    got, text = at_terminal(80, command, steps)
    if got != status:
        raise SystemExit(f"status {got}, not {status}: {plain(text)[-600:]}")
    return plain(text), text


def expect(good, what, text):
    if not good:
        raise SystemExit(f"{what}: {text[-1500:]}")


def messages(path):
    with open(path) as f:
        return json.load(f)["messages"]


def commands(work, command):
    one, two = work + "/one.json", work + "/two.json"
    text, _ = run(work, command + ["-n", "4"], [
        (b"> ", b"upon a time" + CTRL_A + b"Once \r"),
        (b"[cut", b"/save " + one.encode() + b"\r"),
        (b"2 messages are in", b"first \\\r"),
        (b". ", b"second\r"),
        (b"[cut", b"\"\"\"a\r"),
        (b". ", b"/b\\\r"),
        (b". ", b"c\"\"\"\r"),
        (b"[cut", b"/speed\r"),
        (b"first  ", b"/system Be brief.\r"),
        (b"is set", b"/save " + two.encode() + b"\r"),
        (b"7 messages are in", b"/regen\r"),
        (b"[cut", b"/undo\r"),
        (b"5 messages remain", b"/kv\r"),
        (b"context ", b"/undo x\r"),
        (b"takes nothing", b"/nothing\r"),
        (b"no command /nothing", b"/load " + one.encode() + b"\r"),
        (b"2 messages were read", b"/load " + work.encode() + b"/nowhere\r"),
        (b"nowhere: cannot read", b"/reset\r"),
        (b"a new conversation", b"/regen\r"),
        (b"no answer yet", b"/help\r"),
        (b"/exit", b"/exit\r"),
    ])
    first, all = messages(one), messages(two)
    expect([m["role"] for m in first] == ["user", "assistant"] and first[0]["content"] == "Once upon a time",
           "a line was not edited", str(first))
    expect(all[1:3] == first and all[0] == {"role": "system", "content": "Be brief."}, "the system message", str(all))
    expect(all[3]["content"] == "first \nsecond" and all[5]["content"] == "a\n/b\\\nc", "several lines", str(all))
    reused = re.search(r"prompt +(\d+) tokens, (\d+) of them from the cache", text)
    expect(reused and 0 < int(reused[2]) < int(reused[1]), "nothing came from the cache", text)
    expect(re.search(r"format +bf16, 16\.00 bits a number, \d+ bytes a token", text), "/kv", text)
    expect("at temperature 0 the answer is the same" in text, "/regen", text)


def history(work, command):
    path = work + "/state/pith/chat_history"
    mode = stat.S_IMODE(os.stat(path).st_mode)
    expect(mode == 0o600, f"the history has mode {mode:o}", "")
    text, _ = run(work, command + ["-n", "2"], [(b"> ", UP + b"\r"), (b"/exit", CTRL_D)][:1])
    expect("/exit" in text, "the last line of before", text)
    with open(path, "rb") as f:
        before = f.read()
    run(work, command + ["-n", "2", "--no-history"], [(b"> ", b"never kept\r"), (b"[cut", CTRL_D)])
    with open(path, "rb") as f:
        expect(f.read() == before, "--no-history keeps", "")


def stops(work, command):
    """Ctrl-C in an answer: what was said stays; at an empty line it ends."""
    saved = work + "/stopped.json"

    def interrupt(pid, fd):
        os.kill(pid, signal.SIGSTOP)
        os.write(fd, CTRL_C)
        os.kill(pid, signal.SIGCONT)
    for _ in range(5): # again where it came before the answer had begun, or after its end
        text, _ = run(work, command, [(b"> ", b"Once upon a time\r"), (b"time\r\n", interrupt),
                                      (b"> ", b"/save " + saved.encode() + b"\r"),
                                      (b" are in", b"a line" + CTRL_C), (b"^C", CTRL_C)], 130)
        if "[stopped]" in text:
            break
    else:
        raise SystemExit(f"it does not stop: {text[-600:]}")
    all = messages(saved)
    expect(len(all) in (0, 2), "what was said until then", str(all))


def reasoning(work, command):
    """Dimmed, piece by piece, and no control sequence of the model's or the user's."""
    text, raw = run(work, command + ["-n", "6"], [(b"> ", b"Once upon a time\r"), (b"[cut", CTRL_D)])
    expect("\x1b[2m" in raw and "\x1b[0m" in raw, "not dimmed", raw)
    os.environ["NO_COLOR"] = "1"
    got, raw = at_terminal(80, command + ["-n", "6"], [(b"> ", b"Once upon a time\r"), (b"[cut", CTRL_D)])
    expect(got == 0 and "\x1b[2m" not in raw and "[thinking]" in raw, "colours in spite of NO_COLOR", raw)


def escapes(work, command):
    """What a model says is written out where it would steer the terminal, and goes into a pipe as it is."""
    _, raw = run(work, command, [])
    expect("\\x1b[31m\\x9b2J\\x7f" in raw and not re.search("[\x00-\x08\x0b-\x0c\x0e-\x1f\x7f-\x9f]", raw), "control characters", raw)
    piped = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout
    expect(b"\x1b[31m\xc2\x9b2J\x7f" in piped, "not as it is in a pipe", repr(piped))


def main():
    what, work, command = sys.argv[1], sys.argv[2], sys.argv[3:]
    globals()[what](work, command)


if __name__ == "__main__":
    main()
