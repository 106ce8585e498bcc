"""Teaches the heads that build.py put in where to look, with the rest of the model held still.

    heads.py RAW IN OUT SECONDS [SEED]     IN, OUT: files of weights

What layers 0 and 1 make of a window, and what layers 2 to 4 would read without the reserved directions, is computed once.
Then only the heads' own matrices move: what is written to the reserved directions, queries, keys, values. The loss is that
of a look at the right place: where the longest run of tokens that ends here has stood before, and BOS where no three have.
"""
import random
import sys
import time

import torch
import torch.nn.functional as F

import build
import data
import net
from net import DIM, names, norm

PLACES = ((2, 0), (3, 1), (4, 0))
torch.set_num_threads(1)
net.LAYERS = 5


def targets(ids, most=6, least=3):
    """Rows of places that are right for each query, as a mask; and whether it is more than BOS."""
    t = torch.tensor(ids)
    same = (t[:, None] == torch.cat((torch.tensor([-1]), t[:-1]))[None, :]).int()  # [t, s]: t is what stands before s
    run, shifted = same.clone(), same
    for _ in range(most - 1):
        shifted = F.pad(shifted, (1, 0, 1, 0))[:-1, :-1] * same
        run = run + shifted
    run = run.tril()
    run[:, 0] = 0
    best = run.max(1).values
    found = best >= least
    mask = (run == best[:, None]) & found[:, None]
    mask[~found, 0] = True
    return mask.tril(), found


class Frozen:
    """A window: what the heads read, apart from what they write themselves."""

    def __init__(self, n, ids, asked):
        x = torch.tensor([ids])
        self.ids, self.mask, found = x[0], *targets(ids)
        self.weight = torch.where(found, 1.0, 0.3)
        self.weight[[i - 1 for i in asked]] = 3.0
        m = names(1)
        x1 = n.body(x, upto=1)
        read = norm(x1, n.w[m["n1"]])
        wide, one = build.group(1)
        turn = lambda y: n.turn(y.view(1, len(ids), -1, DIM).transpose(1, 2))
        q, k = turn(F.linear(read, n.w[m["q"]][wide])), turn(F.linear(read, n.w[m["k"]][one]))
        causal = torch.ones(len(ids), len(ids)).triu(1).bool()
        a = (q @ k.transpose(2, 3) / DIM ** 0.5).masked_fill(causal, -1e9).softmax(-1)
        self.near, self.far = (a[0, i] @ read[0] for i in (0, 1))
        v, o = n.w[m["v"]][one], n.w[m["o"]][:, wide]
        own = F.linear(self.near @ v.T, o[:, :DIM]) + F.linear(self.far @ v.T, o[:, DIM:])
        seen = []
        n.body(x, upto=PLACES[-1][0] + 1, seen=seen)
        self.base = [seen[layer][0] - own for layer, _ in PLACES]
        self.causal = causal


class Heads:
    def __init__(self, n):
        m, (wide, one) = names(1), build.group(1)
        self.n, leaf = n, lambda w: w.detach().clone().requires_grad_(True)
        self.v, self.o = leaf(n.w[m["v"]][one]), leaf(n.w[m["o"]][:, wide])
        self.q = [leaf(n.w[names(l)["q"]][build.group(g)[0]]) for l, g in PLACES]
        self.k = [leaf(n.w[names(l)["k"]][build.group(g)[1]]) for l, g in PLACES]

    def params(self):
        return [self.v, self.o, *self.q, *self.k]

    def loss(self, f):
        s = F.linear(f.near @ self.v.T, self.o[:, :DIM]) + F.linear(f.far @ self.v.T, self.o[:, DIM:])
        total, right = 0, []
        for i, (layer, _) in enumerate(PLACES):
            x = norm(f.base[i] + s, self.n.w[names(layer)["n1"]])[None]
            turn = lambda y: self.n.turn(y.view(1, y.shape[1], -1, DIM).transpose(1, 2))
            q, k = turn(F.linear(x, self.q[i])), turn(F.linear(x, self.k[i]))
            a = (q @ k.transpose(2, 3) / DIM ** 0.5).masked_fill(f.causal, -1e9).log_softmax(-1)[0]
            mass = a.masked_fill(~f.mask, -1e9).logsumexp(-1)
            total = total - (mass * f.weight).sum(1).mean() / f.weight.sum()
            right.append((mass[:, f.weight == 3] > -0.7).float().mean().item())
        return total, right

    def store(self):
        m, (wide, one), n = names(1), build.group(1), self.n
        n.w[m["v"]][one], n.w[m["o"]][:, wide] = self.v.detach(), self.o.detach()
        for i, (l, g) in enumerate(PLACES):
            a, b = build.group(g)
            n.w[names(l)["q"]][a], n.w[names(l)["k"]][b] = self.q[i].detach(), self.k[i].detach()
        self.silence()

    def silence(self):
        """BOS, where heads look that find nothing, has nothing to say."""
        for l, g in PLACES:
            m, n = names(l), self.n
            x = norm(n.body(torch.tensor([[net.BOS]]), upto=l), n.w[m["n1"]])[0, 0]
            w = n.w[m["v"]][build.group(g)[1]]
            w -= torch.outer(w @ x, x) / x.dot(x)


def even(h):
    """The same product from factors of like size, so that one rate suits all: o and v, k and q."""
    with torch.no_grad():
        for a, b in [(h.v, h.o)] + list(zip(h.q, h.k)):
            r = (a.pow(2).mean() / b.pow(2).mean()) ** 0.25
            a /= r
            b *= r


def main():
    raw, start, out, seconds = sys.argv[1:5]
    end = time.time() + float(seconds)
    n = net.Net(net.load(start))
    for w in n.w.values():
        w.requires_grad_(False)
    rng = random.Random(int(sys.argv[5]) if len(sys.argv) > 5 else 3)
    text = data.texts(raw)
    windows = []
    for i in range(12):
        s = rng.randrange(len(text) - 520)
        windows.append(Frozen(n, [net.BOS] + text[s:s + 511], []))
    for kind, sizes in (("pairs", [384] * 20 + [1024] * 2), ("needles", [384] * 20 + [1024] * 2), ("copies", [384] * 6)):
        for size in sizes:
            ids, asked = data.window(rng, kind, size)
            windows.append(Frozen(n, ids, [a for a in asked if a < len(ids)]))
    h = Heads(n)
    even(h)
    best = torch.optim.Adam(h.params(), lr=3e-3, betas=(0.9, 0.98))
    print(time.strftime("%H:%M:%S"), "windows", len(windows), flush=True)
    step, mean, right = 0, None, [0.0] * 3
    with torch.enable_grad():
        while time.time() < end:
            loss, r = h.loss(windows[rng.randrange(len(windows))])
            grads = torch.autograd.grad(loss, h.params())
            for p, g in zip(h.params(), grads):
                p.grad = g
            for g in best.param_groups:
                g["lr"] = 3e-3 * min(1, (step + 1) / 20, 0.05 + 2 * (end - time.time()) / float(seconds))
            best.step()
            step += 1
            mean = loss.item() if mean is None else 0.97 * mean + 0.03 * loss.item()
            if r[0] == r[0]:
                right = [0.95 * a + 0.05 * b for a, b in zip(right, r)]
            if step % 50 == 0:
                print(time.strftime("%H:%M:%S"), step, "loss %.3f" % mean, " ".join("%.3f" % x for x in right), flush=True)
    h.store()
    net.save(n, out)


if __name__ == "__main__":
    main()
