"""Makes the weights that training starts from: the probe's, with heads put in that can recall from the first step.

    build.py RAW OUT        RAW: folder of texts (README.md), OUT: file of weights

Of the probe's six layers the fourth is left out. The 96 directions of the residual stream that the rest uses least are
reserved: nothing else writes to them or reads them. Two query heads of layer 1 write there what the previous token was,
and which tokens stood two to five places back; two of each of layers 2 to 4 look for the place in front of which that is
what now stands here, and copy its token. What these heads read is fitted by least squares to activations.
"""
import random
import sys

import torch

import data
import net
from net import DIM, HIDDEN, PROBE, Net, names, norm

KEEP = (0, 1, 2, 4, 5)
RESERVED, CODE = 96, 48
torch.set_grad_enabled(False)
torch.set_num_threads(1)


def shorter():
    w = net.load(PROBE / "model.safetensors")
    out = {k: v for k, v in w.items() if "layers" not in k}
    for i, layer in enumerate(KEEP):
        a, b = names(layer), names(i)
        out.update({b[k]: w[a[k]] for k in a})
    net.LAYERS = len(KEEP)
    return Net(out)


def sample(raw):
    """Rows to fit on: text and windows of each kind."""
    rng, text = random.Random(7), data.texts(raw)
    rows = [text[i * 511:(i + 1) * 511] for i in rng.sample(range(len(text) // 511), 12)]
    for kind in data.KINDS:
        rows += [data.window(rng, kind, 510)[0] for _ in range(3)]
    rows += [[rng.randrange(4094) for _ in range(511)] for _ in range(3)]
    return torch.tensor(rows)


def reserve(n, ids):
    """Directions that the stream behind layer 0 uses least; everything keeps off them."""
    seen, second = [], 0
    last = n.body(ids, seen=seen)
    for x in seen[1:] + [last]:
        y = norm(x.flatten(0, 1), torch.ones(HIDDEN))
        second = second + (y.T @ y / len(y)).double()
    u = torch.linalg.eigh(second)[1].float()[:, :RESERVED]
    p = torch.eye(HIDDEN) - u @ u.T
    for i in range(net.LAYERS):
        m = names(i)
        for k in "od":
            n.w[m[k]] = p @ n.w[m[k]]
        for k, g in (("q", "n1"), ("k", "n1"), ("v", "n1"), ("g", "n2"), ("u", "n2")):
            if i:
                n.w[m[k]] = (n.w[m[k]] * n.w[m[g]]) @ p / n.w[m[g]]
    return u


def code(n, ids):
    """Whitened embeddings, most about the words of keys: 4096 x DIM."""
    e = n.w["model.embed_tokens.weight"]
    count = torch.bincount(ids.flatten(), minlength=len(e)).float()
    weight = 1 + 2 * (count > 0) + 20 * torch.zeros(len(e)).index_fill_(
        0, torch.tensor(data.P.noun + data.P.adjective), 1.0)
    weight /= weight.sum()
    mean = weight @ e
    x = e - mean
    s, v = torch.linalg.eigh(((x.T * weight) @ x).double())
    v, s = v.float()[:, -DIM:].flip(1), s.float()[-DIM:].flip(0)
    c = x @ v / s.sqrt()
    return c / c.norm(dim=1, keepdim=True)


def fit(x, y, ridge=1e-3):
    """Weights that make y of x, and how much of y's variance they leave."""
    a = (x.T @ x).double()
    a += ridge * a.diagonal().mean() * torch.eye(len(a))
    w = torch.linalg.solve(a, (x.T @ y).double()).float()
    return w.T, (((x @ w - y) ** 2).sum() / ((y - y.mean(0)) ** 2).sum()).item()


def group(layer_heads):
    """Rows of q and columns of o of two query heads, rows of k and v of their KV head."""
    return slice(layer_heads * 2 * DIM, (layer_heads + 1) * 2 * DIM), slice(layer_heads * DIM, (layer_heads + 1) * DIM)


def bump(offsets, pairs, amount):
    """Query of a head whose key is a constant along the first coordinate: sharpest at the offsets."""
    q, f = torch.zeros(DIM), net.frequencies().float()
    for i in pairs:
        z = sum(torch.polar(torch.tensor(1.0), -f[i] * o) for o in offsets) / len(offsets)
        q[i], q[i + DIM // 2] = amount * z.real, amount * z.imag
    return q


def read(n, ids, layer):
    """Normed input of a layer, rows flattened."""
    m = names(layer)
    return norm(n.body(ids, upto=layer), n.w[m["n1"]]).flatten(0, 1)


def put_back_looking(n, ids, u, codes):
    m, (wide, one) = names(1), group(1)
    x = read(n, ids, 1)
    const, _ = fit(x, torch.ones(len(x), 1))
    print("constant: leaves", (x @ const.T - 1).pow(2).mean().item())
    token, left = fit(x, codes[ids.flatten()])
    print("token in layer 1: leaves", left)
    key = torch.zeros(DIM)
    key[:10] = 8.0
    n.w[m["k"]][one] = key[:, None] * const
    n.w[m["v"]][one] = token
    near, far = bump([1], range(0, 8), 10.0), bump([2, 3, 4, 5], range(2, 9), 10.0)
    n.w[m["q"]][wide] = torch.cat((near, far))[:, None] * const
    o = torch.zeros(HIDDEN, 2 * DIM)
    o[:, :CODE] = 25.0 * u[:, :CODE]
    o[:, DIM:DIM + CODE] = 40.0 * u[:, CODE:]
    n.w[m["o"]][:, wide] = o


def put_recall(n, known, layer, which, strength):
    ids, u, codes = known
    m, (wide, one) = names(layer), group(which)
    x = read(n, ids, layer)
    stream = n.body(ids, upto=layer).flatten(0, 1) @ u  # what the heads of layer 1 wrote
    token, left = fit(x, codes[ids.flatten()])
    print("token in layer", layer, "leaves", left)
    prev, bag = stream[:, :CODE] / 25, stream[:, CODE:] / 40
    to_prev, _ = fit(x, prev)
    to_bag, left = fit(x, bag)
    print("bag leaves", left)
    slow = [i + h for i in range(16, 32) for h in (0, DIM // 2)]
    a, b = torch.linalg.qr(torch.randn(CODE, 10))[0].T, torch.linalg.qr(torch.randn(CODE, 22))[0].T
    k, q = torch.zeros(DIM, HIDDEN), torch.zeros(2, DIM, HIDDEN)
    sa, sb = (CODE / 10) ** 0.5, (CODE / 22) ** 0.5
    k[slow[:10]], k[slow[10:]] = sa * a @ to_prev, sb * b @ to_bag
    for h, (x1, x2) in enumerate(((0.4, 0.8), (0.8, 0.5))):
        q[h][slow[:10]] = x1 * sa * a @ token[:CODE]
        q[h][slow[10:]] = x2 * sb * b @ (to_bag + 0.25 * to_prev)
    n.w[m["k"]][one] = k * 8 * strength
    n.w[m["q"]][wide] = q.reshape(2 * DIM, HIDDEN) * strength * 4
    n.w[m["v"]][one] = token
    g = n.w["model.norm.weight"]
    e = n.w["model.embed_tokens.weight"]
    out = fit(codes, e - e.mean(0), 1e-2)[0] * g[:, None]
    out /= (codes @ out.T).norm(dim=1).mean()
    o = torch.cat((out, out), 1) * 30.0
    n.w[m["o"]][:, wide] = o


def main():
    torch.manual_seed(5)
    n = shorter()
    ids = sample(sys.argv[1])
    u = reserve(n, ids)
    codes = code(n, ids)
    put_back_looking(n, ids, u, codes)
    for layer, which in ((2, 0), (3, 1), (4, 0)):  # of the layers that are left
        put_recall(n, (ids, u, codes), layer, which, 2.2)
    net.save(n, sys.argv[2])


if __name__ == "__main__":
    main()
