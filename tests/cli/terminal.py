"""Runs a command at a terminal of some width and judges what it shows.

Usage: terminal.py COLUMNS COMMAND...   every line of standard output and error fits the terminal
       terminal.py progress COLUMNS COMMAND...   so does each state of the progress bar, on one line
"""
import fcntl, os, pty, re, select, struct, sys, termios, unicodedata


def at_terminal(columns, command, keys=b""):
    pid, fd = pty.fork()
    if pid == 0:
        os.environ.update(TERM="xterm", LC_ALL="C.UTF-8")
        os.execvp(command[0], command)
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    out = b""
    if keys:
        os.write(fd, keys)
    while True:
        try:
            if not select.select([fd], [], [], 60)[0]:
                raise SystemExit("nothing happens")
            data = os.read(fd, 65536)
        except OSError:
            break
        if not data:
            break
        out += data
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return status, out.decode("utf-8", "replace")


def width(text):
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def main():
    progress = sys.argv[1] == "progress"
    args = sys.argv[2:] if progress else sys.argv[1:]
    columns = int(args[0])
    status, text = at_terminal(columns, args[1:])
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
            raise SystemExit(f"no progress: {lines[:5]}")
        if width(max(states, key=width)) >= columns:
            raise SystemExit("a state fills the line, which breaks it")
        if "\n" in re.split("block", plain)[1]:
            raise SystemExit("a new line between two states")


if __name__ == "__main__":
    main()
