#!/usr/bin/env python3
"""Matrices as mlx quantizes them, and what it takes them for.

    pip install "mlx[cpu]" numpy && python3 make_mlx.py

(mlx 0.32.4 on a CPU.) Writes mlx.safetensors beside this script: modules of 2 x 256, "a4g64f16" of mode affine with 4 bits
in groups of 64 of a matrix in float16, and so on for all bits and groups, and "mxfp4", "mxfp8", "nvfp4", each with its
weight, scales and biases, and "nvfp4.all" with a global_scale; "want.a4g64f16" and so on: mlx's own dequantize() in float32, of scales and biases in float32.
"""
import os

import mlx.core as mx

ROWS, COLS = 2, 256
DTYPES = {"f32": mx.float32, "f16": mx.float16, "bf16": mx.bfloat16}


def main():
    mx.set_default_device(mx.cpu)
    mx.random.seed(7)
    out = {}
    for i, bits in enumerate((2, 3, 4, 5, 6, 8)):
        for k, group in enumerate((32, 64, 128)):
            name = list(DTYPES)[(i + k) % 3]
            module = f"a{bits}g{group}{name}"
            w = (mx.random.normal((ROWS, COLS)) * 0.05).astype(DTYPES[name])
            q, scales, biases = mx.quantize(w, group, bits)
            out |= {f"{module}.weight": q, f"{module}.scales": scales, f"{module}.biases": biases}
            out[f"want.{module}"] = mx.dequantize(q, scales.astype(mx.float32), biases.astype(mx.float32), group, bits)
    for mode in ("mxfp4", "mxfp8", "nvfp4"):
        q, scales = mx.quantize(mx.random.normal((ROWS, COLS)) * 0.5, mode=mode)
        out |= {f"{mode}.weight": q, f"{mode}.scales": scales}
        out[f"want.{mode}"] = mx.dequantize(q, scales, mode=mode, dtype=mx.float32)
    w = mx.random.normal((ROWS, COLS)) * 0.02
    most = mx.max(mx.abs(w)).reshape(1)
    q, scales = mx.quantize(w, mode="nvfp4", global_scale=most)
    out |= {"nvfp4.all.weight": q, "nvfp4.all.scales": scales, "nvfp4.all.global_scale": most}
    out["want.nvfp4.all"] = mx.dequantize(q, scales, mode="nvfp4", global_scale=most, dtype=mx.float32)
    mx.save_safetensors(os.path.join(os.path.dirname(os.path.abspath(__file__)), "mlx.safetensors"), out)


if __name__ == "__main__":
    main()
