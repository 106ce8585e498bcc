#!/usr/bin/env python3
"""GGUF's types: pith's files beside those of llama.cpp's quantizer, with and without an importance matrix.

    bench/kquants.py [-m MODEL]... [-t TEXT]... [-w TYPE]... [-c FILE] [-n TOKENS] [-j THREADS] [-p] BIN

BIN is the folder of llama.cpp's programs: llama-imatrix and llama-quantize, with -p llama-perplexity too. Each MODEL
is quantized to each TYPE by both programs; the importance matrix and pith's statistics are of TOKENS (65536) of FILE
(the text that ships), which llama-imatrix takes from its beginning and pith by random windows. Every linear has the one
type, the embedding Q6_K on both sides: the files differ in metadata alone. Losses and shares are bench/variants.py's:
KL from the unquantized model over 12 equal pieces of each TEXT, with Student's intervals (95%), the shares paired piece
by piece. One row a model, type and text, in Markdown. With -p also what llama-perplexity finds in its own arithmetic,
which rounds activations too: the mean and its standard error.
PITH names the program. docs/measuring.md has the table of this version.
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile

from variants import losses, interval, pieces, run

PEERS = ["llama-quantize", "matrix"]
OURS = {"rtn": "-r rtn", "weighted": "-r rtn --round weighted", "gptq": "-r gptq"}
HEADS = ["llama-quantize", "with matrix", "pith, `rtn`", "pith, `weighted`", "pith, `gptq`",
         "`weighted` to matrix", "`gptq` to matrix"]


def peer(*args):
    r = subprocess.run(args, capture_output=True, text=True)
    if r.returncode:
        sys.exit(f"{args[0]}: {r.stderr[-600:]}")
    return r.stdout


def mixture(name):
    """llama-quantize's name of the mixture whose base type this is."""
    return (name + "_s" if name in ("q3_k", "q4_k", "q5_k") else name).upper()


def share(kl, first):
    mean = sum(first) / len(first)
    value, half = interval([k / mean for k in kl])
    _, half = interval([(k - f) / mean for k, f in zip(kl, first)])
    return f"{value:.3f} ± {half:.3f}"


class Peer:
    """llama.cpp's side of one model: the whole file, its importance matrix, and the files made of them."""

    def __init__(self, model, a, folder):
        self.a, self.folder = a, folder
        self.whole, self.matrix = os.path.join(folder, "whole.gguf"), os.path.join(folder, "matrix.gguf")
        run("convert", model, "-o", self.whole)
        peer(f"{a.bin}/llama-imatrix", "-m", self.whole, "-f", a.c, "-o", self.matrix, "-c", "512",
             "--chunks", str(a.n // 512), "-t", a.j)
        self.bases = {}
        for text in a.t if a.p else []:
            self.bases[text] = os.path.join(folder, os.path.basename(text) + ".base")
            peer(f"{a.bin}/llama-perplexity", "-m", self.whole, "-f", text, "-c", "512", "-t", a.j,
                 "--kl-divergence-base", self.bases[text])

    def quantize(self, type_name, with_matrix):
        out = os.path.join(self.folder, f"peer-{with_matrix:d}.gguf")
        peer(f"{self.a.bin}/llama-quantize", "--pure", "--token-embedding-type", "q6_k",
             *(["--imatrix", self.matrix] if with_matrix else []), self.whole, out, mixture(type_name), self.a.j)
        return out

    def own(self, file, text):
        out = peer(f"{self.a.bin}/llama-perplexity", "-m", file, "-c", "512", "-t", self.a.j, "--kl-divergence",
                   "--kl-divergence-base", self.bases[text])
        found = re.search(r"Mean\s+KLD:\s+(\S+)\s+±\s+(\S+)", out)
        return f"{float(found[1]):.5f} ± {float(found[2]):.5f}"


def rows(model, type_name, other, texts, folder):
    files = [other.quantize(type_name, False), other.quantize(type_name, True)]
    made = f"--weights {type_name} --container gguf"
    calib = f"--calib {other.a.c} --calib-tokens {other.a.n}"
    variants = [(name, "@" + file) for name, file in zip(PEERS, files)]
    variants += [(name, f"{how} {made} {'' if name == 'rtn' else calib}") for name, how in OURS.items()]
    kl, outs = losses(model, variants, texts, folder, other.a.j)
    for text, names in texts.items():
        values = [[one[f] for f in names] for one in kl]
        cells = [f"{mean:.5f} ± {half:.5f}" for mean, half in map(interval, values)]
        cells += [share(values[i], values[1]) for i in (3, 4)]
        cells += [other.own(file, text) for file in (outs[1], outs[4] + "/model.gguf")] if other.a.p else []
        label = [os.path.basename(os.path.normpath(model)), f"`{type_name}`", os.path.basename(text)]
        print("| " + " | ".join(label + cells) + " |", flush=True)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("-m", action="append")
    p.add_argument("-t", action="append")
    p.add_argument("-w", action="append")
    p.add_argument("-c", default="src/calib/builtin.txt")
    p.add_argument("-n", type=int, default=65536)
    p.add_argument("-j", default=str(os.cpu_count()))
    p.add_argument("-p", action="store_true")
    p.add_argument("bin")
    a = p.parse_args()
    a.m = a.m or ["models/probe"]
    a.t = a.t or ["models/probe/eval.txt", "models/probe-moe/rare/knitting.txt"]
    heads = HEADS + (["matrix, by llama-perplexity", "`gptq`, by llama-perplexity"] if a.p else [])
    print("| model | type | text | " + " | ".join(heads) + " |")
    print("|---|---|---|" + "---:|" * len(heads), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        texts = {t: list(pieces(t, 12, 0, folder)) for t in a.t}
        for model in a.m:
            other = Peer(model, a, folder)
            for type_name in a.w or ["q2_k", "q3_k", "iq4_xs", "q4_0", "q4_k", "q5_k", "q6_k"]:
                rows(model, type_name, other, texts, folder)


if __name__ == "__main__":
    main()
