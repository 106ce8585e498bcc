#!/usr/bin/env python3
"""`pith serve` under load that is not all honest: clients that leave, that read or send slowly, rubbish, bodies that are too large.

    soak.py PITH MODEL SECONDS CONNECTIONS

Must hold: the server lives; every honest request is answered, or refused with a reason and a status that says so (429, 503); memory,
descriptors and threads are flat after a warm-up; SIGTERM amid the load loses no stream that was accepted, and the server ends with status 0. Only
Python's own library is needed.
"""
import asyncio
import collections
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time

TEMPLATE = "{{ bos_token }}{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:"
MEMORY = "64M"  # so that the pages of prefixes are all in use after the warm-up
counts = collections.Counter()
wrong = []
ending = False


def body_of(rng, stream, **more):
    text = " ".join(rng.choice(["the", "sea", "a", "girl", "play", "Once", "upon", "time"]) for _ in range(rng.randint(1, 60)))
    return {"prompt": text, "max_tokens": rng.randint(1, 24), "temperature": rng.choice([0, 1]), "stream": stream, **more}


def request(path, value):
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return b"POST %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % (path.encode(), len(data)) + data


async def read_answer(reader):
    """(status, body) of an answer that ends with its connection; chunks are left as they are."""
    data = await asyncio.wait_for(reader.read(), 120)
    head, _, body = data.partition(b"\r\n\r\n")
    return int(head.split()[1]) if head.startswith(b"HTTP/1.1 ") else 0, body


async def honest(port, rng):
    stream, chat = rng.random() < 0.6, rng.random() < 0.3
    value = body_of(rng, stream)
    path = "/v1/completions"
    if chat:
        path, value["messages"] = "/v1/chat/completions", [{"role": "user", "content": value.pop("prompt")}]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    accepted = False
    try:
        writer.write(request(path, value))
        status, body = await read_answer(reader)
        accepted = status == 200
        if status == 200 and (b"[DONE]" in body if stream else b'"finish_reason":' in body and json.loads(body)["choices"]):
            counts["answered"] += 1
        elif status in (429, 503) and json.loads(body)["error"]["message"]:
            counts["refused %d" % status] += 1
        else:
            wrong.append("an honest request: status %d, %r" % (status, body[-200:]))
    except (OSError, ValueError, asyncio.TimeoutError) as e:
        if not ending or accepted:
            wrong.append("an honest request: %r" % e)
    finally:
        writer.close()


async def vanishing(port, rng):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request("/v1/completions", body_of(rng, rng.random() < 0.5, max_tokens=400, ignore_eos=True)))
    await asyncio.sleep(rng.random() * 0.5)
    if rng.random() < 0.5:
        writer.transport.abort()
    else:
        writer.close()
    counts["vanished"] += 1


async def slow_reader(port, rng):
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
    writer.write(request("/v1/completions", body_of(rng, True, max_tokens=400, ignore_eos=True, logprobs=20)))
    for _ in range(rng.randint(5, 40)):
        if not await reader.read(64):
            break
        await asyncio.sleep(0.1)
    writer.transport.abort()
    counts["read slowly"] += 1


async def slow_sender(port, rng):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for b in request("/v1/completions", body_of(rng, False))[: rng.randint(1, 60)]:
        writer.write(bytes([b]))
        await writer.drain()
        await asyncio.sleep(0.05)
    writer.close()
    counts["sent slowly"] += 1


async def rubbish(port, rng):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    kind = rng.randrange(4)
    if kind == 0:
        writer.write(rng.randbytes(rng.randint(1, 4000)) + b"\r\n\r\n")
    elif kind == 1:
        writer.write(request("/v1/completions", rng.randbytes(500)))
    elif kind == 2:
        data = json.dumps(body_of(rng, True)).encode()
        at = rng.randrange(len(data))
        writer.write(request("/v1/chat/completions", data[:at] + b"\0\xff[" + data[at:]))
    else:
        writer.write(b"GET /%s HTTP/1.1\r\n" % (b"x" * 50000) + b"a: b\r\n" * 3000 + b"\r\n")
    writer.write_eof()
    await asyncio.wait_for(reader.read(), 60)
    writer.close()
    counts["rubbish"] += 1


async def oversized(port, rng):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
    for _ in range(12):
        writer.write(b"%x\r\n" % (1 << 20) + b"x" * (1 << 20) + b"\r\n")
        await writer.drain()
    writer.close()
    counts["oversized"] += 1


KINDS = [(honest, 60), (vanishing, 15), (slow_reader, 8), (slow_sender, 7), (rubbish, 9), (oversized, 1)]


async def client(port, seed, end):
    rng = random.Random(seed)
    await asyncio.sleep(rng.random() * 2)
    while time.monotonic() < end and not ending:
        kind = rng.choices([k for k, _ in KINDS], [w for _, w in KINDS])[0]
        try:
            await kind(port, rng)
        except (OSError, asyncio.TimeoutError, asyncio.IncompleteReadError) as e:
            if kind is honest and not ending:
                wrong.append("an honest request: %r" % e)
        await asyncio.sleep(rng.random() * 0.2)


def look(pid):
    """(KiB of memory of its own, descriptors, threads) of a process."""
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        status = dict(line.split(":", 1) for line in f)
    return int(status["RssAnon"].split()[0]), len(os.listdir(f"/proc/{pid}/fd")), int(status["Threads"])


async def watch(server, seen):
    while server.poll() is None:
        try:
            seen.append((time.monotonic(), *look(server.pid)))
        except (OSError, KeyError):
            return
        await asyncio.sleep(0.5)


def median(values):
    values = sorted(values)
    return values[len(values) // 2] if values else 0


def tenths(seen, begin, seconds, column):
    """The mean of a column of what was seen in each tenth of the time, as text."""
    parts = [[row[column] for row in seen if i <= (row[0] - begin) / seconds * 10 < i + 1] for i in range(10)]
    return " ".join(str(sum(p) // len(p)) for p in parts if p)


async def load(server, port, seconds, connections):
    global ending
    begin, seen = time.monotonic(), []
    watcher = asyncio.create_task(watch(server, seen))
    _, idle, threads = look(server.pid)
    clients = [asyncio.create_task(client(port, i, begin + seconds)) for i in range(connections)]
    await asyncio.wait(clients, timeout=seconds + 150)
    for _ in range(15):
        await asyncio.sleep(1)
        if server.poll() is not None or look(server.pid)[1] <= idle + 4:
            break
    alive = server.poll() is None
    _, left, threads_left = look(server.pid) if alive else (0, 0, 0)
    if not alive:
        wrong.append("the server ended with status %s" % server.poll())
        return seen
    if left > idle + 4:
        wrong.append("%d descriptors were open, %d are left" % (idle, left))
    if threads_left > threads:
        wrong.append("%d threads ran, %d are left" % (threads, threads_left))
    # How much is held under load varies with who is slow just then, and falls for a moment when the C library gives some back:
    # what must not grow is its median.
    # Half a minute is what pages of prefixes take to be all in use, a fifth of the time where that is more.
    warm = max(seconds * 0.2, min(30, seconds * 0.5))
    middle = median(m for t, m, _, _ in seen if begin + warm < t < begin + max(seconds * 0.5, warm + seconds * 0.2))
    late = median(m for t, m, _, _ in seen if begin + seconds * 0.7 <= t)
    if late > 1.1 * middle + 4096:
        wrong.append("memory grew: %d KiB, later %d KiB" % (middle, late))
    for column, name in ((1, "memory, KiB"), (2, "descriptors"), (3, "threads")):
        print("%s, by tenths of the time: %s" % (name, tenths(seen, begin, seconds, column)))
    print("memory, KiB: %d in the middle, %d later (medians), %d at rest" % (middle, late, look(server.pid)[0]))
    print("descriptors %d idle, at most %d, %d after; threads %d idle, at most %d, %d after" %
          (idle, max(row[2] for row in seen), left, threads, max(row[3] for row in seen), threads_left))
    # The end amid load: streams that were accepted are told to their ends.
    before = counts["answered"]
    last = [asyncio.create_task(honest(port, random.Random(i))) for i in range(40)]
    await asyncio.sleep(0.3)
    ending = True
    server.send_signal(signal.SIGTERM)
    await asyncio.wait(last, timeout=60)
    for _ in range(600):
        if server.poll() is not None:
            break
        await asyncio.sleep(0.1)
    if server.poll() != 0:
        wrong.append("after SIGTERM: status %s" % server.poll())
    print("after SIGTERM %d of 40 were answered" % (counts["answered"] - before))
    watcher.cancel()
    return seen


def main():
    pith, model, seconds, connections = sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4])
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 65536), hard))
    with tempfile.TemporaryDirectory() as work:
        template = os.path.join(work, "t.jinja")
        with open(template, "w", encoding="utf-8") as f:
            f.write(TEMPLATE)
        with open(os.path.join(work, "log"), "w", encoding="utf-8") as log:
            server = subprocess.Popen([pith, "serve", model, "--port", "0", "--chat-template", template, "--connections", str(connections + 64),
                                       "--queue", "128", "--memory", MEMORY], stdout=subprocess.PIPE, stderr=log, text=True)
            port = int(server.stdout.readline().strip().rsplit(":", 1)[1])
            try:
                asyncio.run(load(server, port, seconds, connections))
            finally:
                if server.poll() is None:
                    server.kill()
        with open(os.path.join(work, "log"), encoding="utf-8", errors="replace") as log:
            said = [line for line in log if not line.startswith(("{", "warning: ", "pith: the chat template knows no tools"))]
        if said:
            wrong.insert(0, "on standard error: " + "".join(said[:80]))
    print(", ".join(f"{k} {v}" for k, v in sorted(counts.items())))
    for line in wrong[:20]:
        print("[  FAILED  ] soak: " + line)
    if not counts["answered"]:
        wrong.append("nothing was answered")
    if not wrong:
        print(f"[       OK ] soak: {seconds:.0f} s, {connections} connections")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
