#!/usr/bin/env python3
"""Makes the golden files of compressed-tensors' layouts of floats: random weights that the library
compressed by its own presets, and what it decompresses them to.

    layouts.safetensors  <preset>.weight, .weight_scale, ...; .want: in the dtype that the library gives
    cases.json           the library's config of each

Run it with a Python that has torch, safetensors and compressed-tensors. Made with compressed-tensors
0.20.0.
"""
import json
import os
import sys

import torch
from safetensors.torch import save_file

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../../interop"))
import containers  # noqa: E402

KEPT = []


def keep(root, name, config, tensors, truth):
    """In place of containers.save(): the cases in bfloat16."""
    if ".bfloat16" in name and not name.endswith("float32"):
        KEPT.append((name.removeprefix("ct.").removesuffix(".torch.bfloat16").lower(), config,
                     tensors, truth))


def main():
    torch.manual_seed(0)
    containers.save, containers.ROWS, containers.COLS = keep, 16, 64
    containers.make_ct_layouts(None)
    cases, out = [], {}
    for module, config, tensors, truth in KEPT:
        cases.append({"module": module, "rows": truth.shape[0], "cols": truth.shape[1],
                      "config": dict(config, version="0.20.0")})
        out.update({f"{module}.{k}": v.contiguous() for k, v in tensors.items()})
        out[module + ".want"] = truth.contiguous()
    with open(os.path.join(HERE, "cases.json"), "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")
    save_file(out, os.path.join(HERE, "layouts.safetensors"), metadata={"format": "pt"})


if __name__ == "__main__":
    main()
