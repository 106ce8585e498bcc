#!/usr/bin/env python3
"""A checkpoint as mlx-lm saves it, with random codes, and the dense one that it stands for.

    mlx.py MINI OUT DENSE [form=4x64 dtype=BF16 mixed=FORM prefix=TEXT stacked=1 legacy=1]

MINI is what mini.py makes: its names and shapes are taken. form: bits x group of mode affine, or mxfp4, mxfp8, nvfp4;
mixed: that of v_proj, the embedding and routers, while o_proj stays dense; prefix: in front of all names; stacked: experts
as switch_mlp; legacy: the config says it under "quantization" alone. DENSE is in float32.

    mlx.py same A B      compares the tensors of two folders, names and bytes
    mlx.py shown IN OUT  a folder in float32 as mlx-lm saves that model: channels of filters last, gains of 1 + w with the
                         1, experts in one tensor, LFM2's linears under the names of others, latent attention in parts

The values follow mlx.core.dequantize; tests/golden/mlx holds the program against mlx itself."""
import array
import json
import os
import random
import shutil
import struct
import sys

from mini import read_safetensors, write_safetensors

E2M1 = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]
E2M1 += [-v for v in E2M1]
FIELDS = {"BF16": 2, "F16": 2, "F32": 4}


def e4m3(code):
    exponent, mantissa = code >> 3 & 15, code & 7
    value = mantissa / 512 if exponent == 0 else (1 + mantissa / 8) * 2.0 ** (exponent - 7)
    return -value if code & 128 else value


FLOATS = {"mxfp4": (4, 32, E2M1, lambda s: 2.0 ** (s - 127)), "nvfp4": (4, 16, E2M1, e4m3),
          "mxfp8": (8, 32, [e4m3(c) for c in range(256)], lambda s: 2.0 ** (s - 127))}


def numbers(rng, dtype, count, least, most):
    """Random numbers that dtype holds: their bytes, and themselves."""
    raw = array.array("f", (rng.choice((-1, 1)) * rng.uniform(least, most) for _ in range(count)))
    if dtype == "F32":
        return raw.tobytes(), list(raw)
    if dtype == "F16":
        data = struct.pack("<%de" % count, *raw)
        return data, list(struct.unpack("<%de" % count, data))
    data = raw.tobytes()
    data = b"".join(data[i + 2:i + 4] for i in range(0, len(data), 4))
    return data, list(struct.unpack("<%df" % count, b"".join(b"\0\0" + data[i:i + 2] for i in range(0, len(data), 2))))


def codes_of(row, bits):
    stream, mask = int.from_bytes(row, "little"), (1 << bits) - 1
    if bits == 8:
        return row
    if bits == 4:
        return [c for byte in row for c in (byte & 15, byte >> 4)]
    return [stream >> i & mask for i in range(0, len(row) * 8, bits)]


def quantized(rng, form, dtype, rows, cols):
    """{suffix: (dtype, shape, bytes)} and the values, as bytes of float32."""
    if form in FLOATS:
        bits, group, table, scale_of = FLOATS[form]
        scales = bytes(rng.randrange(118, 122) if form != "nvfp4" else rng.randrange(24, 48)
                       for _ in range(rows * cols // group))
        tables = [[v * scale_of(s) for v in table] for s in scales]
        parts = {".scales": ("U8", [rows, cols // group], scales)}
    else:
        bits, group = (int(n) for n in form.split("x"))
        shape = [rows, cols // group]
        scales, s = numbers(rng, dtype, rows * shape[1], 0.001, 0.01)
        biases, b = numbers(rng, dtype, rows * shape[1], 0.0, 0.1)
        narrow = lambda x: struct.unpack("<f", struct.pack("<f", x))[0]
        tables = [[narrow(c * s[i]) + b[i] for c in range(1 << bits)] for i in range(len(s))]
        parts = {".scales": (dtype, shape, scales), ".biases": (dtype, shape, biases)}
    data = bytearray(rng.randbytes(rows * cols * bits // 8))
    if form == "mxfp8":  # no NaN
        data = bytearray(c ^ 1 if c & 127 == 127 else c for c in data)
    width, values = cols * bits // 8, array.array("f")
    for r in range(rows):
        codes = codes_of(data[r * width:(r + 1) * width], bits)
        for g in range(cols // group):
            t = tables[r * (cols // group) + g]
            values.extend([t[c] for c in codes[g * group:(g + 1) * group]])
    parts[".weight"] = ("U32", [rows, width // 4], bytes(data))
    return parts, values.tobytes()


def widened(data):
    return b"".join(b"\0\0" + data[i:i + 2] for i in range(0, len(data), 2))


def stack(tensors):
    """experts.N.NAME becomes switch_mlp.NAME of all of them."""
    names = {"w1": "gate_proj", "w2": "down_proj", "w3": "up_proj"}
    out = {}
    for name in tensors:
        if ".experts." not in name:
            out[name] = tensors[name]
            continue
        before, after = name.split(".experts.")
        _, part, suffix = after.split(".", 2)
        whole = f"{before}.switch_mlp.{names.get(part, part)}.{suffix}"
        if whole in out:
            continue
        parts = []
        while (one := f"{before}.experts.{len(parts)}.{part}.{suffix}") in tensors:
            parts.append(tensors[one])
        out[whole] = (parts[0][0], [len(parts), *parts[0][1]], b"".join(p[2] for p in parts))
    return out


def params(form):
    if form in FLOATS:
        return {"group_size": FLOATS[form][1], "bits": FLOATS[form][0], "mode": form}
    bits, group = form.split("x")
    return {"group_size": int(group), "bits": int(bits), "mode": "affine"}


def save(folder, source, tensors, config):
    shutil.copytree(source, folder)
    write_safetensors(os.path.join(folder, "model.safetensors"), tensors)
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump(config, f, indent=1)


def make(source, out, dense, form="4x64", dtype="BF16", mixed=None, prefix="", stacked=None, legacy=None):
    rng = random.Random(5)
    packed, plain, q = {}, {}, params(form)
    config = json.load(open(os.path.join(source, "config.json")))
    for name, (kind, shape, data) in read_safetensors(os.path.join(source, "model.safetensors")).items():
        module, own = name.removesuffix(".weight"), form
        plain[name] = ("F32", shape, widened(data))
        if mixed and any(p in name for p in ("v_proj", "embed", ".gate.")):
            own = mixed
        if len(shape) != 2 or (mixed and "o_proj" in name):
            packed[prefix + name] = (kind, shape, data)
            if mixed and len(shape) == 2:
                q[prefix + module] = False
            continue
        parts, values = quantized(rng, own, dtype, *shape)
        packed |= {prefix + module + suffix: t for suffix, t in parts.items()}
        plain[name] = ("F32", shape, values)
        if own != form:
            q[prefix + module] = params(own)
    save(dense, source, plain, config | {"torch_dtype": "float32"})
    config["quantization"] = q
    if not legacy:
        config["quantization_config"] = q
    save(out, source, stack(packed) if stacked else packed, config)


def apart(config, shape, data):
    """kv_b_proj as the embed_q and unembed_out of all heads, each (shape, data)."""
    heads, nope, rank = config["num_attention_heads"], config["qk_nope_head_dim"], shape[1]
    rows = [data[i:i + 4 * rank] for i in range(0, len(data), 4 * rank)]
    each = len(rows) // heads
    keys = [array.array("f", b"".join(rows[h * each:h * each + nope])) for h in range(heads)]
    keys = b"".join(k[i::rank].tobytes() for k in keys for i in range(rank))
    return {"embed_q": ([heads, rank, nope], keys),
            "unembed_out": ([heads, each - nope, rank], b"".join(r for i, r in enumerate(rows) if i % each >= nope))}


GAINS = ("input_layernorm.weight", "post_attention_layernorm.weight", "model.norm.weight", "q_norm.weight", "k_norm.weight")


def shown(source, out):
    config = json.load(open(os.path.join(source, "config.json")))
    tensors = {}
    for name, (kind, shape, data) in read_safetensors(os.path.join(source, "model.safetensors")).items():
        if name.endswith(("conv1d.weight", "conv.conv.weight")):
            shape = [shape[0], shape[2], shape[1]]
        elif name.endswith(GAINS) and config["model_type"].startswith("qwen3_"):
            data = array.array("f", (x + 1 for x in array.array("f", data))).tobytes()
        elif name.endswith("kv_b_proj.weight"):
            tensors |= {name.replace("kv_b_proj", part): (kind, *t) for part, t in apart(config, shape, data).items()}
            continue
        for old, new in (("w1", "gate_proj"), ("w2", "down_proj"), ("w3", "up_proj")):
            name = name.replace(f".feed_forward.{old}.", f".feed_forward.{new}.")
        tensors[name] = (kind, shape, data)
    save(out, source, stack(tensors), config)


def same(a, b):
    a, b = (read_safetensors(os.path.join(d, "model.safetensors")) for d in (a, b))
    wrong = [n for n in a.keys() | b.keys() if a.get(n) != b.get(n)]
    print(*wrong[:5])
    return bool(wrong)


if __name__ == "__main__":
    if sys.argv[1] == "same":
        sys.exit(same(*sys.argv[2:]))
    if sys.argv[1] == "shown":
        sys.exit(shown(*sys.argv[2:]))
    make(*sys.argv[1:4], **dict(a.split("=") for a in sys.argv[4:]))
