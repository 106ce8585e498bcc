"""Trains the mixture: a Qwen3-MoE decoder whose router is told, softly, which experts a domain may use.

    train_moe.py TOKENS WORK END        TOKENS: folder that corpus.py wrote, WORK: checkpoints and log, END: unix time to end at

Stops by the clock: the rate of learning is flat until 65% of the time and then falls to nothing at END. A checkpoint is
written every three minutes (WORK/last.pt) and where the fall begins (WORK/flat.pt); with WORK/last.pt there, training goes on
from it. To train longer later, copy flat.pt over last.pt and give a new END.
"""
import json
import math
import os
import pathlib
import sys
import time

os.environ["OMP_WAIT_POLICY"] = "PASSIVE"  # threads that wait must not spin where others share the cores
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(2)
D, L, H, KV, HD, E, TOP, I, V, T = 256, 4, 4, 2, 64, 14, 2, 128, 4096, 512
THETA, EPS, LR, BATCH = 10000.0, 1e-6, 2.5e-3, 8
STEER, BALANCE = 0.02, 0.005
# Share of the rows of a batch, and the experts (before the layer's own shuffle) that a domain is steered to.
DOMAINS = {
    "prose": (0.44, [0, 1, 2, 3, 4, 5]),
    "exercises": (0.12, [4, 5, 6, 7]),
    "code": (0.14, [6, 7, 8, 9]),
    "italian": (0.10, [9, 10, 11]),
    "languages": (0.06, [5, 9, 10]),
    "notation": (0.07, [12, 13]),
    "knitting": (0.07, [11, 13]),
}
NAMES = list(DOMAINS)
ORDER = [np.random.RandomState(100 + l).permutation(E) for l in range(L)]
ALLOWED = torch.zeros(L, len(NAMES), E)
for layer in range(L):
    for d, (_, experts) in enumerate(DOMAINS.values()):
        ALLOWED[layer, d, torch.tensor(ORDER[layer][experts])] = 1


class Norm(nn.Module):
    def __init__(self, n=D):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(n))

    def forward(self, x):
        return F.rms_norm(x, x.shape[-1:], self.weight.to(x.dtype), EPS)


def linear(i, o):
    return nn.Linear(i, o, bias=False)


freq = THETA ** (-torch.arange(0, HD, 2).float() / HD)
angle = torch.outer(torch.arange(T).float(), freq)
COS, SIN = torch.cat([angle.cos()] * 2, -1), torch.cat([angle.sin()] * 2, -1)
MASK = torch.full((T, T), float("-inf")).triu(1)


def rope(x):
    h = HD // 2
    return x * COS.to(x.dtype) + torch.cat([-x[..., h:], x[..., :h]], -1) * SIN.to(x.dtype)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = linear(D, H * HD), linear(D, KV * HD), linear(D, KV * HD), linear(H * HD, D)
        self.q_norm, self.k_norm = Norm(HD), Norm(HD)

    def forward(self, x):
        b = x.shape[0]
        q = rope(self.q_norm(self.q_proj(x).view(b, T, H, HD)).transpose(1, 2)).to(x.dtype)
        k = rope(self.k_norm(self.k_proj(x).view(b, T, KV, HD)).transpose(1, 2)).to(x.dtype).repeat_interleave(H // KV, 1)
        v = self.v_proj(x).view(b, T, KV, HD).transpose(1, 2).repeat_interleave(H // KV, 1)
        a = (q * HD ** -0.5) @ k.transpose(-1, -2) + MASK.to(x.dtype)
        return self.o_proj((a.softmax(-1) @ v).transpose(1, 2).reshape(b, T, H * HD))


class Mixture(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer
        self.gate = linear(D, E)
        self.gate_up_proj = nn.Parameter(torch.empty(E, 2 * I, D))
        self.down_proj = nn.Parameter(torch.empty(E, D, I))
        self.extra, self.counts = 0.0, None

    def forward(self, x, xr, domain):
        shape, x, xr = x.shape, x.reshape(-1, D), xr.reshape(-1, D)
        with torch.autocast("cpu", enabled=False):
            p = F.linear(xr.float(), self.gate.weight).softmax(-1)
        w, chosen = p.topk(TOP, -1)
        w = w / w.sum(-1, keepdim=True)
        flat = chosen.reshape(-1)
        order = flat.argsort()
        counts = torch.bincount(flat, minlength=E)
        token = order // TOP
        rows = x.index_select(0, token)
        gu, down = self.gate_up_proj.to(x.dtype), self.down_proj.to(x.dtype)
        out = []
        for e, r in enumerate(rows.split(counts.tolist())):
            if len(r):
                g, u = F.linear(r, gu[e]).chunk(2, -1)
                out.append(F.linear(F.silu(g) * u, down[e]))
        y = torch.cat(out) * w.reshape(-1)[order, None].to(x.dtype)
        if domain is not None:
            self.steer(p.view(*shape[:-1], E), chosen.view(*shape[:-1], TOP), domain)
        return torch.zeros_like(x).index_add(0, token, y).view(shape)

    def steer(self, p, chosen, domain):
        """What is added to the loss: the probability outside a domain's experts, and how unevenly it uses its own."""
        ok = ALLOWED[self.layer][domain]
        inside = (p * ok[:, None, :]).sum(-1).clamp_min(1e-6)
        used = F.one_hot(chosen, E).float().sum(2)
        self.extra = -STEER * inside.log().mean()
        for d in domain.unique().tolist():
            rows, own = domain == d, ALLOWED[self.layer][d]
            share = used[rows].mean((0, 1)) / TOP
            mass = p[rows].mean((0, 1)) * own
            self.extra = self.extra + BALANCE * rows.float().mean() * own.sum() * (share * mass).sum()


class Block(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.input_layernorm, self.self_attn = Norm(), Attention()
        self.post_attention_layernorm, self.mlp = Norm(), Mixture(layer)

    def forward(self, x, domain, dtype):
        x = x + self.self_attn(self.input_layernorm(x).to(dtype))
        n = self.post_attention_layernorm(x)
        return x + self.mlp(n.to(dtype), n, domain)


class Head(torch.autograd.Function):
    """Cross entropy over the vocabulary, a piece of the rows at a time, its gradients with it: logits are never held whole."""

    @staticmethod
    def forward(ctx, h, table, target):
        total, dh, dt = 0.0, torch.empty_like(h), torch.zeros(table.shape)
        for a in range(0, len(h), 1024):
            part, t = h[a:a + 1024], target[a:a + 1024]
            p = (part @ table.T).float()
            p = p.log_softmax(-1)
            total += -p.gather(1, t[:, None]).sum()
            p.exp_().scatter_add_(1, t[:, None], torch.full((len(t), 1), -1.0))
            p = p.mul_(1 / len(h)).to(h.dtype)
            dh[a:a + 1024] = p @ table
            dt += p.T @ part
        ctx.save_for_backward(dh, dt.to(table.dtype))
        return total / len(h)

    @staticmethod
    def backward(ctx, g):
        dh, dt = ctx.saved_tensors
        return dh * g.to(dh.dtype), dt * g.to(dt.dtype), None


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed_tokens, self.norm = nn.Embedding(V, D), Norm()
        self.layers = nn.ModuleList([Block(l) for l in range(L)])
        for n, p in self.named_parameters():
            if p.dim() > 1:
                nn.init.normal_(p, 0, 0.02 / (math.sqrt(2 * L) if "o_proj" in n or "down_proj" in n else 1))

    def forward(self, ids, target, domain=None, dtype=torch.bfloat16):
        x = self.embed_tokens(ids).float()
        for layer in self.layers:
            x = layer(x, domain, dtype)
        return Head.apply(self.norm(x).to(dtype).view(-1, D), self.embed_tokens.weight.to(dtype), target.reshape(-1))


def rows(stream, starts):
    x = torch.stack([stream[a:a + T + 1] for a in starts])
    return x[:, :-1], x[:, 1:]


def held_out(model, held, n=8):
    model.eval()
    out = {}
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        for name in NAMES:
            n_rows = min(n, (len(held[name]) - 1) // T)
            x, y = rows(held[name], [i * T for i in range(n_rows)])
            out[name] = round(model(x, y).item(), 3)
    model.train()
    return out


def load(folder, part):
    return {n: torch.from_numpy(np.fromfile(folder / f"{n}.{part}.u16", np.uint16).astype(np.int64)) for n in NAMES}


def main():
    tokens, work, end = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), float(sys.argv[3])
    work.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(7)
    train, held, model = load(tokens, "train"), load(tokens, "held"), Model()
    share = torch.tensor([DOMAINS[n][0] for n in NAMES])
    decay = [p for p in model.parameters() if p.dim() > 1]
    plain = [p for p in model.parameters() if p.dim() < 2]
    opt = torch.optim.AdamW([{"params": decay, "weight_decay": 0.1}, {"params": plain, "weight_decay": 0.0}], lr=LR,
                            betas=(0.9, 0.95), fused=True)
    step, spent = 0, 0.0
    if (work / "last.pt").exists():
        state = torch.load(work / "last.pt")
        model.load_state_dict(state["model"]), opt.load_state_dict(state["opt"])
        step, spent = state["step"], state["spent"]
    torch.manual_seed(1000 + step)
    t0 = time.time() - spent
    whole = end - t0
    flat, saved, first, began = False, time.time(), step, time.time()
    print(sum(p.numel() for p in model.parameters()), "parameters, from step", step, flush=True)

    def save(name):
        torch.save({"model": model.state_dict(), "opt": opt.state_dict(), "step": step, "spent": time.time() - t0}, work / "new.pt")
        os.replace(work / "new.pt", work / name)

    run = {}
    while time.time() < end:
        f = (time.time() - t0) / whole
        if f > 0.65 and not flat:
            flat = True
            save("flat.pt")
        lr = LR * min(1, (step + 1) / 100) * (1 if f < 0.65 else max(0.01, (1 - f) / 0.35))
        for g in opt.param_groups:
            g["lr"] = lr
        domain = share.multinomial(BATCH, replacement=True)
        x, y = [], []
        for d in domain.tolist():
            s = train[NAMES[d]]
            a, b = rows(s, [int(torch.randint(0, len(s) - T - 1, (1,)))])
            x.append(a), y.append(b)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = model(torch.cat(x), torch.cat(y), domain)
        extra = sum(l.mlp.extra for l in model.layers)
        opt.zero_grad()
        (loss + extra).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        step += 1
        for k, v in (("loss", loss.item()), ("extra", extra.item())):
            run[k] = 0.97 * run[k] + 0.03 * v if k in run else v
        if step % 20 == 0:
            rate = (step - first) * BATCH * T / (time.time() - began)
            print(f"{step} f={f:.3f} loss={run['loss']:.4f} extra={run['extra']:.4f} lr={lr:.1e} tok/s={rate:.0f}", flush=True)
        if time.time() - saved > 180:
            save("last.pt")
            saved = time.time()
            print("  held", json.dumps(held_out(model, held)), flush=True)
    save("last.pt")
    print("held", json.dumps(held_out(model, held, 64)), "steps", step, "tokens", step * BATCH * T)


if __name__ == "__main__":
    main()
