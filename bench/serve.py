#!/usr/bin/env python3
"""pith serve and llama-server side by side, asked the same by `pith bench --serve`: one clock, the same prompts.

    bench/serve.py MODEL [--llama LLAMA_SERVER GGUF] [--clients 1,4,16,64] [--shapes 256:64,512:128] [--each 2]
                   [--rounds 1] [--threads N] [--prefix 3000] [--arrival 3000] [--serve OPTIONS] [--raw FOLDER]

MODEL         what pith serves
LLAMA_SERVER  llama.cpp's server, with GGUF, a model of the same shape and bits
shapes        tokens of prompts and answers; prompts are token ids, every answer has its whole length
each          requests a client, of each measurement; at least four
rounds        servers take turns so often; medians are printed
prefix        first token behind a shared prefix of so many tokens, not cached and cached (0: not measured)
arrival       longest pause of four running answers when a prompt of so many tokens comes (0: not measured)
serve         options of `pith serve`, in one word: '--kv int8:token'

PITH names the program (build/pith). The raw reports stay in FOLDER. At one client `pith bench` on MODEL is run too: a server should not
be slower than that.
"""
import argparse
import json
import os
import shlex
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

PITH = os.environ.get("PITH", "build/pith")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    """A server that runs while the block does; its address is url."""

    def __init__(self, command, log):
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.command = [*command, "--port", str(self.port)]
        self.log = log

    def __enter__(self):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log)
        for _ in range(1200):
            try:
                urllib.request.urlopen(self.url + "/health", timeout=2).read()
                return self
            except OSError:
                if self.process.poll() is not None:
                    sys.exit(f"{shlex.join(self.command)}: ended with status {self.process.returncode}: see {self.log}")
                time.sleep(0.1)
        sys.exit(f"{shlex.join(self.command)}: not ready after two minutes")

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def ask(url, raw, name, *options):
    """The first level of a report of pith bench --serve."""
    command = [PITH, "bench", "--serve", url, "--json", "--quiet", "--form", "ids", "--ignore-eos", *map(str, options)]
    said = subprocess.run(command, capture_output=True, text=True)
    if said.returncode != 0:
        sys.exit(f"{shlex.join(command)}: {said.stderr.strip() or said.stdout[:300]}")
    with open(os.path.join(raw, name + ".json"), "w", encoding="utf-8") as f:
        f.write(said.stdout)
    level = json.loads(said.stdout)["levels"][0]
    if level["failed"]:
        print(f"{name}: {level['failed']} failed: {level['failures']}", file=sys.stderr)
    return level


def commands(args):
    """What starts each server."""
    most = max(args.clients)
    room = max(p + g for p, g in args.shapes) + 64
    if args.prefix or args.arrival:
        room = max(room, args.prefix + 256, args.arrival + 256)
    yield "pith", [PITH, "serve", args.model, "--quiet", "-t", str(args.threads), "--max-sequences", str(max(most, 8)),
                   "--context", str(room), *shlex.split(args.serve)]
    if args.llama:
        server, gguf = args.llama
        # Each of its slots has an equal part of the context.
        yield "llama", [server, "-m", gguf, "-t", str(args.threads), "-np", str(most), "-c", str(most * room), "-fa", "on",
                        "--host", "127.0.0.1"]


def bench_alone(args, prompt, gen):
    command = [PITH, "bench", args.model, "--mode", "fast", "--prompt", str(prompt), "--gen", str(gen), "--reps", "2", "-t",
               str(args.threads), "--depth", "0", "--json", "--quiet"]
    j = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return j["prefill"]["first_token_seconds"]["median"], j["decode"]["tokens_per_second"]["median"]


def measure(args, raw):
    """{(program, prompt, gen, clients): [levels]}"""
    got = {}
    for turn in range(args.rounds):
        for program, command in commands(args):
            with Server(command, os.path.join(raw, program + ".log")) as server:
                for prompt, gen in args.shapes:
                    for clients in args.clients:
                        level = ask(server.url, raw, f"{program}.{prompt}.{gen}.{clients}.{turn}", "--clients", clients, "--requests",
                                    max(4, args.each * clients), "--prompt", prompt, "--gen", gen, "--seed", 1000 * turn + clients)
                        got.setdefault((program, prompt, gen, clients), []).append(level)
    return got


def median(levels, *keys):
    values = []
    for level in levels or []:
        for k in keys:
            level = level[k] if level is not None else None
        if level is not None:
            values.append(level)
    return statistics.median(values) if values else float("nan")


def print_table(args, got):
    print("| prompt, answer | clients | tokens/s llama-server | pith | ratio | first ms, p50: llama-server | pith | ratio | gap ms, p99: llama-server | pith |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
    for prompt, gen in args.shapes:
        for clients in args.clients:
            pith, llama = (got.get((p, prompt, gen, clients)) for p in ("pith", "llama"))
            row = [f"{prompt}, {gen}", str(clients)]
            for keys, unit, form in ((("output_tokens_per_second",), 1, "{:.1f}"), (("first_token_seconds", "p50"), 1e3, "{:.0f}")):
                a, b = median(llama, *keys), median(pith, *keys)
                row += [form.format(unit * a), form.format(unit * b), f"{b / a:.2f}"]
            row += [f"{1e3 * median(p, 'between_seconds', 'p99'):.0f}" for p in (llama, pith)]
            print("| " + " | ".join(row).replace("nan", "-") + " |", flush=True)
    if 1 not in args.clients:
        return
    for prompt, gen in args.shapes:
        first, rate = bench_alone(args, prompt, gen)
        one = got[("pith", prompt, gen, 1)]
        print(f"{prompt}, {gen}: pith bench alone: first token {1e3 * first:.0f} ms, {rate:.1f} tokens/s; served to one client: "
              f"{1e3 * median(one, 'first_token_seconds', 'p50'):.0f} ms, {1 / median(one, 'token_seconds', 'p50'):.1f} tokens/s")


def measure_prefix(args, raw, program, url):
    many = ("--prefix", args.prefix, "--prompt", 32, "--gen", 8, "--clients", 1)
    cold = [ask(url, raw, f"{program}.cold.{i}", *many, "--warmup", 0, "--requests", 1, "--seed", 70 + i) for i in range(2)]
    hit = ask(url, raw, f"{program}.hit", *many, "--warmup", 1, "--requests", 5, "--seed", 70)
    a, b = median(cold, "first_token_seconds", "p50"), hit["first_token_seconds"]["p50"]
    print(f"{program}: first token behind {args.prefix} tokens: {1e3 * a:.0f} ms, {1e3 * b:.0f} ms on a hit: {a / b:.1f} times sooner "
          f"({hit['cached_tokens'] or 0:.0f} of {hit['prompt_tokens']:.0f} tokens cached)", flush=True)


def measure_arrival(args, raw, program, url):
    trace = os.path.join(raw, "arrival.trace")
    rows = [{"time": 0, "prompt": 32, "answer": args.gen} for _ in range(4)]
    quiet = ask(url, raw, f"{program}.quiet", "--trace", write_trace(trace, rows), "--seed", 90)
    after = 0.4 * quiet["total_seconds"]["p50"]
    long = {"time": after, "prompt": args.arrival, "answer": 2}
    loud = ask(url, raw, f"{program}.arrival", "--trace", write_trace(trace, [*rows, long]), "--seed", 91)
    print(f"{program}: longest pause of four answers {1e3 * quiet['pause_seconds']['most']:.0f} ms; when a prompt of {args.arrival} "
          f"tokens comes {1e3 * loud['pause_seconds']['most']:.0f} ms (its own first token after {loud['first_token_seconds']['most']:.1f} s)",
          flush=True)


def write_trace(path, rows):
    with open(path, "w", encoding="utf-8") as f:
        f.writelines(json.dumps(r) + "\n" for r in rows)
    return path


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model")
    p.add_argument("--llama", nargs=2, metavar=("LLAMA_SERVER", "GGUF"))
    p.add_argument("--clients", default=[1, 4, 16, 64], type=lambda t: [int(x) for x in t.split(",")])
    p.add_argument("--shapes", default=[(256, 64), (512, 128)], type=lambda t: [tuple(map(int, x.split(":"))) for x in t.split(",")])
    p.add_argument("--each", default=2, type=int)
    p.add_argument("--rounds", default=1, type=int)
    p.add_argument("--threads", default=os.cpu_count(), type=int)
    p.add_argument("--prefix", default=3000, type=int)
    p.add_argument("--arrival", default=3000, type=int)
    p.add_argument("--gen", default=200, type=int, help="tokens of the answers that a long prompt comes amid")
    p.add_argument("--serve", default="")
    p.add_argument("--raw")
    args = p.parse_args()
    with tempfile.TemporaryDirectory() as made:
        raw = args.raw or made
        os.makedirs(raw, exist_ok=True)
        print(f"load average {os.getloadavg()[0]:.2f}, {args.threads} threads, {args.rounds} rounds, {args.each} requests a client")
        print_table(args, measure(args, raw))
        for program, command in commands(args):
            with Server(command, os.path.join(raw, program + ".log")) as server:
                if args.prefix:
                    measure_prefix(args, raw, program, server.url)
                if args.arrival:
                    measure_arrival(args, raw, program, server.url)
        print(f"load average {os.getloadavg()[0]:.2f}")


if __name__ == "__main__":
    main()
