"""What `pith serve` owes each client whoever else is there: the same tokens and log-probability bits, and pages that come back.

    served.py PITH MODEL
"""
import http.client
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time

PROMPT = "Once upon a time there was a girl who lived by the sea and played with a dog. " * 3
LONG = 300 if os.environ.get("PITH_TEST_ALL") else 150  # tokens of what others ask for: the answers that are looked at have 96
MEMORY = "24M"  # the weights, work space and pages for little more than one context
failed = False


def check(name, good, seen=None):
    global failed
    print(f"[{'       OK ' if good else '  FAILED  '}] {name}")
    if not good:
        print(str(seen)[:600])
        failed = True


def post(port, value, path="/v1/completions"):
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    c.request("POST", path, json.dumps(value))
    r = c.getresponse()
    data = r.read()
    c.close()
    return r.status, json.loads(data)


def gauges(port):
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    c.request("GET", "/metrics")
    lines = c.getresponse().read().decode().split("\n")
    c.close()
    rows = (line.rsplit(" ", 1) for line in lines if line and not line.startswith("#"))
    return {name.split("{")[0]: float(x) for name, x in rows if "_bucket" not in name}


def awaited(seconds, holds):
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


class Server:
    def __init__(self, pith, model, *arguments):
        self.process = subprocess.Popen([pith, "serve", model, "--port", "0", "--quiet", *arguments], stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline().strip().rsplit(":", 1)[1])

    def __enter__(self):
        return self.port

    def __exit__(self, *_):
        self.process.terminate()
        check("it ends with status 0", self.process.wait(300) == 0)


def asked(port, **more):
    """(text, tokens, bits of the log-probabilities, tokens that came from the cache) of an answer."""
    status, j = post(port, {"prompt": PROMPT, "max_tokens": 48, "ignore_eos": True, "logprobs": 3, **more})
    if status != 200:
        return j
    c = j["choices"][0]
    told = [x.hex() for x in c["logprobs"]["token_logprobs"]]
    tops = [sorted((k, x.hex()) for k, x in t.items()) for t in c["logprobs"]["top_logprobs"]]
    return (c["text"], c["logprobs"]["tokens"], told, tops), j["usage"]["prompt_tokens_details"]["cached_tokens"]


def crowd(port, count, tokens):
    """So many other clients, each with a prompt of its own, and as many answers still to come."""
    def one(i):
        answers.append(post(port, {"prompt": f"{i} " * (5 + 3 * i % 40) + "The sea", "max_tokens": tokens, "ignore_eos": True,
                                   "temperature": i % 2, "seed": i})[0])
    answers = []
    threads = [threading.Thread(target=one, args=(i,)) for i in range(count)]
    for t in threads:
        t.start()
    return threads, answers


def same_bits(pith, model):
    wishes = {"greedy": {"temperature": 0}, "sampled": {"temperature": 1, "seed": 11, "top_p": 0.9, "frequency_penalty": 0.5}}
    with Server(pith, model, "--no-prefix-cache") as port:
        alone = {name: asked(port, **w)[0] for name, w in wishes.items()}
        threads, answers = crowd(port, 32, LONG)
        # There are pages for ten of these when they are long: that all run at once may pass unseen.
        check("others run", awaited(30, lambda: gauges(port)["vllm:num_requests_running"] >= 8), gauges(port))
        for name, w in wishes.items():
            amid, _ = asked(port, **w)
            check(f"{name}: the same bits amid others", amid == alone[name], (amid, alone[name]))
        check("while they still ran", gauges(port)["vllm:num_requests_running"] > 0)
        for t in threads:
            t.join()
        check("all others are answered", answers == [200] * 32, answers)
    with Server(pith, model) as port:
        for name, w in wishes.items():
            asked(port, **w)
            again, cached = asked(port, **w)
            check(f"{name}: the same bits from the prefix cache", cached > 0 and again == alone[name], (cached, again, alone[name]))
    return alone, wishes


def preempted(pith, model, alone, wishes):
    """With pages for little more than one context requests give theirs up and are computed again."""
    said = subprocess.run([pith, "serve", model, "--port", "0", "--quiet", "--memory", "1M"], stderr=subprocess.PIPE, text=True).stderr
    told = re.search(r"; ([0-9.]+) GB would", said)
    check("too little memory: how much would do is told", told is not None, said)
    with Server(pith, model, "--no-prefix-cache", "--memory", MEMORY) as port:
        threads, answers = crowd(port, 12, LONG)
        awaited(10, lambda: gauges(port)["vllm:num_requests_running"] > 2)
        answer, _ = asked(port, **wishes["sampled"])
        for t in threads:
            t.join()
        check("requests were preempted", gauges(port)["vllm:num_preemptions_total"] > 0, gauges(port))
        check("the same bits amid preemptions", answer == alone["sampled"], answer)
        check("all others are answered", answers == [200] * 12, answers)


def pages_return(pith, model):
    value = json.dumps({"prompt": PROMPT, "max_tokens": 400, "ignore_eos": True, "stream": True, "logprobs": 20}).encode()
    head = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(value)
    with Server(pith, model, "--no-prefix-cache") as port:
        def used():
            return gauges(port)["pith:pages_used"]
        for name, leave in ("closes", lambda s: s.close()), ("resets", reset), ("closes its half", half):
            clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(8)]
            for s in clients:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                s.sendall(head + value)
            check(f"a client that {name}: pages are in use", awaited(20, lambda: used() >= 8), gauges(port))
            for s in clients:
                leave(s)
            check(f"a client that {name}: they come back", awaited(5, lambda: used() == 0), gauges(port))
            check(f"a client that {name}: nothing runs", gauges(port)["vllm:num_requests_running"] == 0)
            for s in clients:
                s.close()


def descriptors_return(pith, model):
    """Streams that are left half way, while an older connection stays in use: nothing of them stays open."""
    value = json.dumps({"prompt": PROMPT, "max_tokens": 400, "ignore_eos": True, "stream": True}).encode()
    head = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(value)
    server = Server(pith, model)
    with server as port:
        old = http.client.HTTPConnection("127.0.0.1", port, timeout=600)

        def held():
            old.request("GET", "/health")
            old.getresponse().read()
            return len(os.listdir(f"/proc/{server.process.pid}/fd"))
        before = held()
        for leave in (reset, lambda s: s.close()):
            clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(20)]
            for s in clients:
                s.sendall(head + value)
            for s in clients:
                s.recv(1)
            for s in clients:
                leave(s)
        check("descriptors of streams that were left return", awaited(10, lambda: held() <= before), held())
        old.close()


def reset(s):
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    s.close()


def half(s):
    s.shutdown(socket.SHUT_WR)


def drains(pith, model):
    """Accepted requests have all of --grace, not the seconds that other commands have to end."""
    with Server(pith, model, "--max-sequences", "1", "--grace", "300") as port:
        threads, answers = crowd(port, 40, 300)
        awaited(20, lambda: sum(gauges(port)[f"vllm:num_requests_{x}"] for x in ("running", "waiting")) >= 40)
        begin = time.monotonic()
    for t in threads:
        t.join()
    check(f"what was accepted is answered after SIGTERM, {time.monotonic() - begin:.1f} s of it", answers == [200] * 40, answers)


def main():
    pith, model = sys.argv[1:]
    preempted(pith, model, *same_bits(pith, model))
    pages_return(pith, model)
    descriptors_return(pith, model)
    drains(pith, model)
    return failed


if __name__ == "__main__":
    sys.exit(main())
