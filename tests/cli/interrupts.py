"""Ctrl-C in a pseudo-terminal: every command can be stopped, and a conversation goes on.

interrupts.py PITH PROBE WORK: prints a line a case, as tests/cli/lib.sh does; WORK is a folder for what is made.
"""
import fcntl, json, os, pty, re, select, shutil, signal, socket, subprocess, sys, termios, time

pith, probe, work = sys.argv[1:4]
CTRL_C, CTRL_D, SECONDS = b"\x03", b"\x04", float(os.environ.get("PITH_TEST_PATIENCE", "60"))
KEPT = r"finished work is stored: go on with --resume"
failed = 0


def say(good, name, why=""):
    global failed
    failed |= not good
    print(f"[       OK ] {name}" if good else f"[  FAILED  ] {name}: {why[-400:]!r}", flush=True)


class Terminal:
    """A program at a terminal of its own."""

    def __init__(self, arguments, env={}, columns=80):
        self.out, self.status = b"", None
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, b"\x28\0" + bytes([columns, 0, 0, 0, 0, 0]))
            os.chdir(work)
            os.environ.update({"TERM": "xterm", "LC_ALL": "C.UTF-8", "XDG_STATE_HOME": work, "HF_HUB_CACHE": work + "/hub"} | env)
            os.execv(pith, [pith] + arguments)

    def read(self, seconds):
        """What comes in so long at most; ends earlier with the program."""
        end = time.monotonic() + seconds
        while self.status is None and time.monotonic() < end:
            if select.select([self.fd], [], [], 0.02)[0]:
                try:
                    data = os.read(self.fd, 65536)
                except OSError:
                    data = b""
                self.out += data
                if not data:
                    self.status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
                    os.close(self.fd)

    def until(self, good):
        """Reads until good(); False when the program ended before, or the patience of the test."""
        end = time.monotonic() + SECONDS
        while self.status is None and not good() and time.monotonic() < end:
            self.read(0.02)
        return good()

    def says(self, pattern):
        return re.search(pattern, self.text()) is not None

    def text(self):
        """As one line, without sequences for the terminal; lines are broken between words."""
        plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.out.decode("utf-8", "replace"))
        return re.sub(r"\s+", " ", plain)

    def proc(self, name):
        try:
            with open(f"/proc/{self.pid}/{name}") as f:
                return f.read()
        except OSError:
            return ""

    def catches(self):
        """It has taken Ctrl-C over."""
        try:
            if "python" in os.readlink(f"/proc/{self.pid}/exe"):
                return False # it is to become the program
        except OSError:
            return False # it has ended
        caught = re.search(r"SigCgt:\s*([0-9a-f]+)", self.proc("status"))
        return caught is not None and int(caught[1], 16) >> (signal.SIGINT - 1) & 1 == 1

    def worked(self, seconds=0.15):
        """It has used that much of the processors."""
        fields = self.proc("stat").rpartition(")")[2].split()
        return len(fields) > 12 and (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") >= seconds

    def begun(self):
        """Its progress names a part of the work."""
        return self.says(r"(block|layer|step|window)s? \d+|\d+ of \d+")

    def listens(self):
        """It waits for a key at a prompt."""
        asleep = self.proc("stat").rpartition(")")[2].split()[:1] == ["S"]
        return asleep and self.says(r"[>.] [^>]*$") and not termios.tcgetattr(self.fd)[3] & termios.ICANON

    def type(self, keys):
        os.write(self.fd, keys)

    def end(self):
        if self.status is None:
            os.kill(self.pid, signal.SIGKILL)
            self.read(5)


# --- every command -----------------------------------------------------------------------------------------------

def silent():
    """Address of a server that takes connections and says nothing."""
    s = socket.socket()
    s.bind(("127.0.0.1", 0))
    s.listen(16)
    return s, f"http://127.0.0.1:{s.getsockname()[1]}"


def large_text():
    path = work + "/large.txt"
    with open(probe + "/eval.txt") as f:
        text = f.read()
    with open(path, "w") as f:
        f.write(text * (1 + (4 << 20) // len(text)))
    return path


def cases():
    """Per command: arguments whose work lasts for minutes, and what is said when it is stopped; None: of work that is done
    in a moment: it is stopped or done."""
    text, quiet = large_text(), silent()
    global keep
    keep = quiet[0]
    long = ["--calib", text, "--calib-tokens", "256k", "--seq-len", "256"]
    eval_long = ["--text", text, "--max-tokens", "4M", "--context", "64"]
    few = [sys.argv[1], "quantize", probe, "-o", work + "/q", "-r", "rtn", "--weights", "int2:g64:asym", "--quiet"]
    subprocess.run(few, check=True)
    return {
        "quantize": (["quantize", probe, "-o", "a", "-r", "gptq"] + long, KEPT),
        "quantize -r auto": (["quantize", probe, "-o", "b", "-r", "auto", "--budget", "4.5"] + long, KEPT),
        "sensitivity": (["sensitivity", probe, "-o", "s.json"] + long, KEPT),
        "recover": (["recover", "q", "-o", "r", "--against", probe, "--steps", "100000"], KEPT),
        "advise": (["advise", probe, "--for", "pith", "--calib", text, "--calib-tokens", "256k", "--text", text], KEPT),
        "eval": (["eval", probe] + eval_long, "interrupted"),
        "compare": (["compare", probe, "q"] + eval_long, "interrupted"),
        "bench": (["bench", probe, "--reps", "1000000"], "interrupted"),
        "bench --serve": (["bench", "--serve", quiet[1], "--requests", "4"], "interrupted"),
        "pull": (["pull", "acme/none"], "interrupted", {"HF_ENDPOINT": quiet[1]}),
        "run": (["run", probe, "-p", "Once", "-n", "500", "--cpu", "scalar", "--threads", "1"], ""),
        "chat": (["chat", probe, "-p", "Once", "--chat-template", work + "/talk.jinja", "--cpu", "scalar", "--threads", "1"], ""),
        "convert": (["convert", "q", "-o", "c", "--container", "gguf"], None),
        "verify": (["verify", "q", "--against", probe], None),
        "diff": (["diff", probe, "q"], None),
        "inspect": (["inspect", probe, "--stats"], None),
        "plan": (["plan", "--shapes"], None),
        "recipes": (["recipes"], None),
        "formats": (["formats"], None),
        "features": (["features"], None),
        "hardware": (["hardware"], None),
        "completion": (["completion", "bash"], None),
        "serve": None, # it drains: below
    }


def stop_one(name, case):
    arguments, want, env = (case + ({},))[:3]
    t = Terminal(arguments, env)
    waits = "serve" in name or name == "pull"
    t.until(t.catches if waits or want is None else t.begun if want == KEPT else t.worked)
    if waits:
        t.read(0.3) # it is connected by then
    if t.status is None:
        try:
            t.type(CTRL_C)
        except OSError:
            pass
    began = time.monotonic()
    t.until(lambda: t.status is not None)
    took = time.monotonic() - began
    allowed = (0, 1, 130) if want is None else (130,) # 1: they differ
    say(t.status in allowed and took < SECONDS / 4 and (want is None or t.says(want)),
        f"{name}: Ctrl-C ends it" + (", and --resume is named" if want == KEPT else ""), f"status {t.status}, {took:.1f} s: {t.text()}")
    t.end()


def all_commands(table):
    """No command is forgotten."""
    text = subprocess.run([pith, "--help"], stdout=subprocess.PIPE, text=True).stdout
    listed = re.findall(r"^  ([a-z]+) ", text[text.index("commands:"):].split("\n\n")[0], re.M)
    missing = [c for c in listed if not any(k.split()[0] == c for k in table)]
    say(len(listed) > 15 and not missing, "each command of --help is stopped", f"{listed}: {missing}")


def serve():
    """It drains: requests that were taken have --grace seconds; a second Ctrl-C ends at once."""
    t = Terminal(["serve", probe, "--port", "0", "--chat-template", work + "/talk.jinja"])
    t.until(lambda: t.says(r"http://\S+:\d+"))
    t.type(CTRL_C)
    t.until(lambda: t.status is not None)
    say(t.status == 0, "serve: Ctrl-C drains", f"status {t.status}: {t.text()}")
    t.end()
    t = Terminal(["serve", probe, "--port", "0", "--cpu", "scalar", "--threads", "1", "--grace", "600"])
    t.until(lambda: t.says(r"http://\S+:\d+"))
    host, port = re.search(r"http://([0-9.]+):(\d+)", t.text()).groups()
    s = socket.create_connection((host, int(port)))
    body = json.dumps({"prompt": "Once", "max_tokens": 500, "stream": True, "ignore_eos": True}).encode()
    s.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
              b"Content-Length: %d\r\n\r\n" % len(body) + body)
    s.recv(1)
    t.type(CTRL_C)
    t.read(0.3)
    drains = t.status is None
    if drains:
        t.type(CTRL_C)
    t.until(lambda: t.status is not None)
    say(t.status == (130 if drains else 0), "serve: a second Ctrl-C ends it", f"status {t.status}: {t.text()}")
    t.end()


def unheard():
    """What does not listen, here a file that nobody writes, ends by itself after a second."""
    os.mkfifo(work + "/fifo")
    t = Terminal(["chat", probe, "--load", "fifo", "-p", "a", "--chat-template", work + "/talk.jinja"])
    t.until(t.catches)
    t.read(0.3)
    t.type(CTRL_C)
    t.until(lambda: t.status is not None)
    say(t.status == 130 and t.says("interrupted"), "what does not listen is ended", f"status {t.status}: {t.text()}")
    t.end()


# --- conversations -----------------------------------------------------------------------------------------------

def speak(what):
    slow = ["--cpu", "scalar", "--threads", "1"]
    more = ["--chat-template", work + "/talk.jinja"] if what == "chat" else ["-n", "400"]
    t = Terminal([what, probe] + more + slow)
    t.until(t.listens)
    return t


def stop_answer(t):
    """An answer is stopped; true when the next line is read. Tries again when the answer was over before."""
    for _ in range(8):
        at = len(t.out)
        t.type(b"Once upon a time\r")
        t.until(lambda: len(t.out) > at + 40)
        t.type(CTRL_C)
        if not t.until(lambda: re.search(rb"(\n|\r)> ", t.out[at + 20:]) and t.listens()):
            return False
        if b"[stopped]" in t.out[at:] or b"made in" in t.out[at:]:
            return True
    return False


def conversations():
    """Idle for longer than work that was stopped has, then asked again; all of them at once, since that takes seconds."""
    stopped = {what: speak(what) for what in ("chat", "run")}
    cancelled = {what: speak(what) for what in ("chat", "run")}
    for what, t in stopped.items():
        say(stop_answer(t), f"{what}: Ctrl-C stops an answer", t.text())
    for what, t in cancelled.items():
        t.type(b"not meant")
        t.until(lambda: t.says("not meant"))
        t.type(CTRL_C)
        say(t.until(lambda: t.says(r"\^C") and t.listens()), f"{what}: Ctrl-C cancels a line", t.text())
    end = time.monotonic() + 6.5
    everything = [(f"{w}: {how}", t) for how, all in (("after an answer", stopped), ("after a line", cancelled)) for w, t in all.items()]
    while time.monotonic() < end:
        for _, t in everything:
            t.read(0.02)
    for name, t in everything:
        at = len(t.out)
        alive = t.status is None
        if alive:
            t.type(b"Once\r")
            alive = t.until(lambda: len(t.out) > at + 30)
        say(alive, f"{name} it still listens", f"status {t.status}: {t.text()}")
    for what, t in stopped.items(): # in the midst of an answer, twice
        if t.status is None:
            t.type(CTRL_C)
            t.until(t.listens)
            t.type(CTRL_D)
            t.until(lambda: t.status is not None)
        say(t.status == 0, f"{what}: Ctrl-D ends", f"status {t.status}: {t.text()}")
    for what, t in cancelled.items():
        if t.status is None:
            os.kill(t.pid, signal.SIGTERM)
            t.until(lambda: t.status is not None)
        say(t.status == 130, f"{what}: SIGTERM ends in an answer", f"status {t.status}: {t.text()}")
    for _, t in everything:
        t.end()


def at_prompt():
    for what in ("chat", "run"):
        t = speak(what)
        os.kill(t.pid, signal.SIGTERM)
        t.until(lambda: t.status is not None)
        say(t.status == 130, f"{what}: SIGTERM ends at the prompt", f"status {t.status}: {t.text()}")
        t.end()


def from_pipe():
    """A message that is typed up to Ctrl-D, and is not."""
    for what in ("chat", "run"):
        t = Terminal(["chat", probe, "--json"] if what == "chat" else ["run", probe, "--json"])
        t.until(t.catches)
        t.read(0.3)
        t.type(b"half a message\r")
        t.type(CTRL_C)
        t.until(lambda: t.status is not None)
        say(t.status == 130, f"{what}: Ctrl-C in a message", f"status {t.status}: {t.text()}")
        t.end()


def main():
    with open(work + "/talk.jinja", "w") as f:
        f.write("{{ bos_token }}{% for m in messages %}{{ m.content }} {% endfor %}")
    table = cases()
    all_commands(table)
    for name, case in table.items():
        if case:
            stop_one(name, case)
    serve()
    unheard()
    at_prompt()
    from_pipe()
    conversations()
    sys.exit(failed)


main()
