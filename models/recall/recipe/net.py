"""The model: a Llama as models/probe, with rotary frequencies scaled in Llama 3's way."""
import math
import pathlib

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file

HERE = pathlib.Path(__file__).resolve().parent
PROBE = HERE.parent.parent / "probe"
HIDDEN, LAYERS, HEADS, KV, DIM = 256, 6, 4, 2, 64  # LAYERS: of the probe; users of the shorter model set it
BOS, EOS, CONTEXT, EPS = 4094, 4095, 4096, 1e-5
SCALING = {"rope_type": "llama3", "factor": 64.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
           "original_max_position_embeddings": 512}


def frequencies():
    """The half of the pairs whose turn is longer than the probe's context hardly turn at all."""
    f = 10000.0 ** (-torch.arange(0, DIM, 2, dtype=torch.float64) / DIM)
    wave, old = 2 * math.pi / f, SCALING["original_max_position_embeddings"]
    low, high = SCALING["low_freq_factor"], SCALING["high_freq_factor"]
    mix = ((old / wave - low) / (high - low)).clamp(0, 1)
    return (1 - mix) * f / SCALING["factor"] + mix * f


def names(layer):
    p = f"model.layers.{layer}."
    return {k: p + v + ".weight" for k, v in {
        "n1": "input_layernorm", "q": "self_attn.q_proj", "k": "self_attn.k_proj", "v": "self_attn.v_proj",
        "o": "self_attn.o_proj", "n2": "post_attention_layernorm", "g": "mlp.gate_proj", "u": "mlp.up_proj",
        "d": "mlp.down_proj"}.items()}


def norm(x, w):
    return F.rms_norm(x, (HIDDEN,), w, EPS)


class Net:
    """Weights by their names in the file, as leaves of float32."""

    def __init__(self, weights):
        self.w = {k: v.detach().float().clone().requires_grad_(True) for k, v in weights.items()}
        angle = torch.outer(torch.arange(CONTEXT + 1, dtype=torch.float64), frequencies())
        self.cos, self.sin = angle.cos().float(), angle.sin().float()

    def turn(self, x):
        n = x.shape[2]
        a, b = x[..., :DIM // 2], x[..., DIM // 2:]
        c, s = self.cos[:n], self.sin[:n]
        return torch.cat((a * c - b * s, b * c + a * s), -1)

    def attend(self, x, layer):
        w, m = self.w, names(layer)
        b, n, _ = x.shape
        y = norm(x, w[m["n1"]])
        q = self.turn(F.linear(y, w[m["q"]]).view(b, n, HEADS, DIM).transpose(1, 2))
        k = self.turn(F.linear(y, w[m["k"]]).view(b, n, KV, DIM).transpose(1, 2))
        v = F.linear(y, w[m["v"]]).view(b, n, KV, DIM).transpose(1, 2)
        k, v = (t.repeat_interleave(HEADS // KV, 1) for t in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return F.linear(y.transpose(1, 2).reshape(b, n, HEADS * DIM), w[m["o"]])

    def feed(self, x, layer):
        w, m = self.w, names(layer)
        y = norm(x, w[m["n2"]])
        return F.linear(F.silu(F.linear(y, w[m["g"]])) * F.linear(y, w[m["u"]]), w[m["d"]])

    def body(self, ids, upto=None, seen=None):
        x = F.embedding(ids, self.w["model.embed_tokens.weight"])
        for i in range(upto or LAYERS):
            if seen is not None:
                seen.append(x)
            x = x + self.attend(x, i)
            x = x + self.feed(x, i)
        return x

    def logits(self, x):
        return F.linear(norm(x, self.w["model.norm.weight"]), self.w["model.embed_tokens.weight"])


def load(path):
    return load_file(str(path))


def save(net, path):
    save_file({k: v.detach().to(torch.bfloat16).contiguous() for k, v in net.w.items()}, str(path),
              metadata={"format": "pt"})
