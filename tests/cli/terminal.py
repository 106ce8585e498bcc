"""Runs a command at a terminal of some width and judges what it shows.

Usage: terminal.py COLUMNS[,COLUMNS...] COMMAND...   every line of standard output and error fits each terminal
       terminal.py progress COLUMNS COMMAND...   so does each state of the progress bar, on one line; status 3 if it
                                                 has fewer than two: the command was over too soon
       terminal.py converse COLUMNS COMMAND...   lines are edited, cancelled by Ctrl-C, ended by Ctrl-D
"""
import fcntl, os, pty, re, select, struct, sys, termios, time, unicodedata

FEW = 3  # the exit status when the bar was seen in too few states


def listens(pid, fd, prompt):
    """Whether the program waits for a key: it has prompted, takes keys one by one and is asleep."""
    with open(f"/proc/{pid}/stat") as f:
        asleep = f.read().rsplit(")", 1)[1].split()[0] == "S"
    return asleep and prompt and not termios.tcgetattr(fd)[3] & termios.ICANON


def at_terminal(columns, command, steps=()):
    """Runs it; steps are pairs: once the text is on the screen, and the program listens again, those keys are typed.
    In the place of keys a function of process and terminal is called at once."""
    pid, fd = pty.fork()
    if pid == 0: # by the child, so that the program sees no other width
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        os.environ.update(TERM="xterm", LC_ALL="C.UTF-8")
        os.execvp(command[0], command)
    out = b""
    steps, seen, heard = list(steps), 0, time.monotonic()
    while True:
        at = out.find(steps[0][0], seen) if steps else -1
        if at >= 0 and (callable(steps[0][1]) or listens(pid, fd, any(p in out[at:] for p in (b"> ", b". ")))):
            seen = len(out)
            keys = steps.pop(0)[1]
            if callable(keys):
                keys(pid, fd)
            else:
                os.write(fd, keys)
        try:
            if not select.select([fd], [], [], 0.005 if at >= 0 else 1)[0]:
                if time.monotonic() - heard > 60:
                    raise SystemExit("nothing happens")
                continue
            data = os.read(fd, 65536)
            heard = time.monotonic()
        except OSError:
            break
        if not data:
            break
        out += data
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return status, out.decode("utf-8", "replace")


def width(text):
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def converse(columns, command):
    ctrl_a, ctrl_c, ctrl_d, up = b"\x01", b"\x03", b"\x04", b"\x1b[A"
    steps = [(b"> ", b"upon a time" + ctrl_a + b"Once \r"),  # edited
             (b"a second)", b"a line that is not meant" + ctrl_c),
             (b"^C", up + b"\r"),  # the line of before
             (b"a second)", b"word " * 4000 + b"\r"),  # longer than the context: told, and that is all
             (b"context", ctrl_d)]
    status, text = at_terminal(columns, command, steps)
    plain = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", text)
    if status != 0:
        raise SystemExit(f"status {status}: {plain[-300:]}")
    answers = re.findall(r"(\d+) tokens read .* made", plain)
    if len(answers) != 2 or answers[0] != answers[1]:
        raise SystemExit(f"answers to {answers} tokens: {plain[-600:]}")
    if "^C" not in plain:
        raise SystemExit("Ctrl-C did not cancel the line")


def judge(progress, columns, command):
    status, text = at_terminal(columns, command)
    if status != 0:
        raise SystemExit(f"status {status}: {text[-300:]}")
    plain = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", text)
    lines = [l for l in re.split(r"[\r\n]+", plain) if l]
    worst = max(lines, key=width)
    if not progress and width(worst) > columns:
        raise SystemExit(f"{width(worst)} columns: {worst}")
    if progress:
        states = [l for l in lines if re.search(r"\d+%", l) and "block" in l]
        if len(states) < 2:
            print(f"no progress: {lines[:5]}", file=sys.stderr)
            raise SystemExit(FEW)
        if width(max(states, key=width)) >= columns:
            raise SystemExit("a state fills the line, which breaks it")
        if "\n" in re.split("block", plain)[1]:
            raise SystemExit("a new line between two states")


def main():
    if sys.argv[1] == "converse":
        return converse(int(sys.argv[2]), sys.argv[3:])
    progress = sys.argv[1] == "progress"
    args = sys.argv[2:] if progress else sys.argv[1:]
    for columns in args[0].split(","):
        judge(progress, int(columns), args[1:])


if __name__ == "__main__":
    main()
