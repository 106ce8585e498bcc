#!/usr/bin/env python3
"""Seeds for fuzz_gguf beside those that pith itself wrote: blocks of the types that are read only, and a model in two
parts, one behind the other. Standard library only."""
import os
import random
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "tests", "cli"))
import gguf_forms as forms  # noqa: E402

SEEDS = os.path.join(HERE, "corpus", "gguf")


def main():
    keys, tensors = forms.read(os.path.join(SEEDS, "llama"))
    rng, made = random.Random(1), []
    for i, kind in enumerate(forms.TYPES):
        number, elements = forms.TYPES[kind][:2]
        made.append((b"blk.%d.ffn_up.weight" % i, [256, 2], number, forms.blocks(rng, kind, 2 * 256 // elements)))
    forms.write(os.path.join(SEEDS, "vectors"), keys, tensors[:2] + made)
    with tempfile.TemporaryDirectory() as folder:
        forms.split(keys, tensors, 2, folder + "/m")
        parts = [open(f"{folder}/m-0000{i}-of-00002.gguf", "rb").read() for i in (1, 2)]
    with open(os.path.join(SEEDS, "parts"), "wb") as f:
        f.write(b"".join(parts))


main()
