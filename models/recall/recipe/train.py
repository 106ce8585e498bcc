"""Trains until a time of day, and goes on where it stopped when started again.

    train.py RAW START WORK HH:MM      RAW: folder of texts (README.md), START: weights of build.py (or of the model
                                       itself), WORK: folder of last.pt, weights.safetensors and log.txt

Two workers take pieces of about 2,048 tokens until a step is complete. A piece is text, or windows of one kind, with
loss on the answers. The windows grow when nearly all answers are right, or when their share of the time is over.
"""
import datetime
import os
import pathlib
import random
import signal
import sys
import threading
import time

os.environ["OMP_NUM_THREADS"] = "1"
import torch
import torch.nn.functional as F

import data
import net

net.LAYERS = 5
SIZES = (256, 512, 1024, 2048, 4096)
SHARES = (0.0, 0.0, 0.15, 0.45, 0.7)  # of the time, after which windows of a size come anyway
PIECES, TEXT, RATE, LEAST, WARM, ENOUGH = 2, 0.2, 7e-4, 1e-4, 10, 0.98
KINDS = ("pairs", "pairs", "pairs", "needles", "needles")  # copies: not learnt yet, and their gradients drown the others


class Plan:
    def __init__(self, raw):
        self.text, self.level = data.texts(raw), 0

    def piece(self, rng):
        if rng.random() < TEXT:
            size = rng.choice((512, 512, 512, 1024, 2048)) if self.level > 1 else 512
            starts = [rng.randrange(len(self.text) - size - 1) for _ in range(2048 // size)]
            rows = [[net.BOS] + self.text[s:s + size] for s in starts]
            return "text", rows, [list(range(1, size + 1))] * len(rows)
        level = self.level if rng.random() < 0.6 else rng.randrange(self.level + 1)
        size, kind = SIZES[level], rng.choice(KINDS)
        windows = [data.window(rng, kind, size) for _ in range(max(1, 2048 // size))]
        return kind + "-%d" % size, [w[0] for w in windows], [w[1] for w in windows]


def gradient(n, piece):
    """Loss of a piece, the share of answers whose every token is the likeliest, gradients."""
    kind, rows, asked = piece
    x = n.body(torch.tensor([r[:-1] for r in rows]))
    at = [(b, i) for b, a in enumerate(asked) for i in a]
    b, i = torch.tensor(at).T
    y = torch.tensor([rows[b][i] for b, i in at])
    logits = n.logits(x[b, i - 1])
    loss = F.cross_entropy(logits, y)
    right = (logits.detach().argmax(1) == y).float().mean().item()
    return kind, loss.item(), right, torch.autograd.grad(loss, list(n.w.values())), len(rows) * len(rows[0])


class Workers:
    """Two threads that take pieces from a list."""

    def __init__(self, n):
        self.n = n

    def run(self, pieces):
        out, todo = [], list(pieces)

        def work():
            torch.set_num_threads(1)
            while todo:
                try:
                    piece = todo.pop()
                except IndexError:
                    return
                out.append(gradient(self.n, piece))

        threads = [threading.Thread(target=work) for _ in range(2)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert len(out) == len(pieces)
        return out


class Run:
    def __init__(self, raw, start, work, end):
        self.work, self.plan = pathlib.Path(work), Plan(raw)
        self.n = net.Net(net.load(start))
        self.begin = time.time()
        self.end = datetime.datetime.combine(datetime.date.today(), datetime.time.fromisoformat(end)).timestamp()
        if self.end < self.begin:
            self.end += 24 * 3600
        flat = [p for p in self.n.w.values() if p.dim() == 1]
        self.best = torch.optim.AdamW([{"params": [p for p in self.n.w.values() if p.dim() > 1], "weight_decay": 0.02},
                                       {"params": flat, "weight_decay": 0.0}], lr=RATE, betas=(0.9, 0.98))
        self.step, self.tokens, self.spent, self.mean = 0, 0, 0.0, {}
        if (self.work / "last.pt").exists():
            self.resume()

    def resume(self):
        s = torch.load(self.work / "last.pt", weights_only=False)
        for k, v in s["w"].items():
            self.n.w[k].data.copy_(v)
        self.best.load_state_dict(s["best"])
        self.step, self.tokens, self.spent, self.plan.level = s["step"], s["tokens"], s["spent"], s["level"]
        self.begin -= self.spent

    def keep(self):
        s = {"w": {k: v.detach() for k, v in self.n.w.items()}, "best": self.best.state_dict(), "step": self.step,
             "tokens": self.tokens, "spent": time.time() - self.begin, "level": self.plan.level}
        torch.save(s, self.work / "new.pt")
        os.replace(self.work / "new.pt", self.work / "last.pt")
        net.save(self.n, self.work / "weights.safetensors")

    def done(self):
        return (time.time() - self.begin) / (self.end - self.begin)

    def take(self):
        rng = random.Random(1000003 * self.step + 17)
        rate = LEAST + (RATE - LEAST) * min(1, 2 * (1 - self.done())) * min(1, (self.step + 1) / WARM)
        for g in self.best.param_groups:
            g["lr"] = rate
        results = Workers(self.n).run([self.plan.piece(rng) for _ in range(PIECES)])
        for p, *g in zip(self.n.w.values(), *(r[3] for r in results)):
            p.grad = sum(g) / PIECES
        torch.nn.utils.clip_grad_norm_(list(self.n.w.values()), 1.0)
        self.best.step()
        self.step += 1
        for kind, loss, right, _, tokens in results:
            self.tokens += tokens
            old = self.mean.get(kind, (loss, right))
            self.mean[kind] = (0.8 * old[0] + 0.2 * loss, 0.8 * old[1] + 0.2 * right)

    def grow(self):
        size = "-%d" % SIZES[self.plan.level]
        right = [self.mean[k][1] for k in self.mean if k.endswith(size)]
        last = self.plan.level + 1 == len(SIZES)
        if not last and ((len(right) == 3 and min(right) > ENOUGH) or self.done() > SHARES[self.plan.level + 1]):
            self.plan.level += 1

    def tell(self):
        line = "%s step %d tokens %d level %d  " % (time.strftime("%H:%M:%S"), self.step, self.tokens,
                                                    SIZES[self.plan.level])
        line += "  ".join("%s %.3f/%.3f" % (k, *v) for k, v in sorted(self.mean.items()))
        with open(self.work / "log.txt", "a") as f:
            f.write(line + "\n")

    def run(self):
        kept = time.time()
        signal.signal(signal.SIGTERM, lambda *_: setattr(self, "end", 0))  # stops behind the step, and keeps
        while time.time() < self.end:
            self.take()
            self.grow()
            if self.step % 10 == 0 or self.step < 5:
                self.tell()
            if time.time() - kept > 180:
                self.keep()
                kept = time.time()
        self.keep()
        self.tell()


if __name__ == "__main__":
    torch.manual_seed(0)
    Run(*sys.argv[1:5]).run()
