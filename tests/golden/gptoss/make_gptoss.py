#!/usr/bin/env python3
"""Makes the golden file of gpt-oss's MXFP4 experts: random bytes, and what transformers makes of them.

    gptoss.safetensors  blocks [2, 6, 3, 16], scales [2, 6, 3]; want: float32 [2, 96, 6], transposed as
                        transformers does

Run it with a Python that has torch, safetensors and transformers. Made with transformers 5.23.0.
"""
import os

import torch
from safetensors.torch import save_file
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

HERE = os.path.dirname(os.path.abspath(__file__))


def main():
    torch.manual_seed(0)
    blocks = torch.randint(0, 256, (2, 6, 3, 16), dtype=torch.uint8)
    scales = torch.randint(110, 140, (2, 6, 3), dtype=torch.uint8)
    want = convert_moe_packed_tensors(blocks, scales, dtype=torch.float32)
    save_file({"blocks": blocks, "scales": scales, "want": want.contiguous()},
              os.path.join(HERE, "gptoss.safetensors"), metadata={"format": "pt"})
    print(want.shape)


if __name__ == "__main__":
    main()
