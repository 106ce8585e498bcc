"""The weights of a case, by a formula that a C program repeats exactly, and how they are written down.

A tensor's value i is (c + v) * 2^-e, where v is a whole number in -m..m: the upper 31 bits of a
SplitMix64 output, modulo 2m + 1. The generator's state starts at FNV-1a-64 of the tensor's stored name,
xored with the case's salt times an odd constant; value i is output i. With |c| + m at most 256 every value
is exact in bfloat16, float16 and float32 alike, so that a case can be stored in any of them.
A row with a fourth member, "U8", holds bytes.
"""
import json, math, re
import numpy as np

GOLDEN = 0x9E3779B97F4A7C15
MASK = (1 << 64) - 1


def fnv1a(text):
    h = 0xCBF29CE484222325
    for b in text.encode():
        h = ((h ^ b) * 0x100000001B3) & MASK
    return h


def values(name, shape, fill, salt):
    """float32 array of that shape."""
    c, m, e = fill
    count = math.prod(shape)
    with np.errstate(over="ignore"):
        z = np.uint64(fnv1a(name) ^ (salt * GOLDEN & MASK))
        z = z + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(GOLDEN)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    v = ((z >> np.uint64(33)) % np.uint64(2 * m + 1)).astype(np.int64) - m
    assert abs(c) + m <= 256
    return ((c + v) * 2.0 ** -e).astype(np.float32).reshape(shape)


def linear(shape, gain, fan_in):
    """Uniform with a standard deviation near gain / sqrt(fan_in); 73.3 is that of -127..127."""
    return [0, 127, round(math.log2(73.3 * math.sqrt(fan_in) / gain))]


# What a name ends in tells the kind of tensor. A row: pattern, fill; a number is a gain over the
# square root of the fan-in (the last dimension), a pair says which dimension that is.
RULES = [
    (r"\.A_log$", [0, 120, 6]),
    (r"\.dt_bias$", [-64, 64, 6]),
    (r"\.D$", [64, 32, 6]),
    (r"\.sinks$", [0, 127, 6]),
    (r"e_score_correction_bias$|expert_bias$|moe_statics", [0, 64, 8]),
    (r"layer_scalar$", [112, 16, 7]),
    (r"router\.per_expert_scale$|router\.scale$", [128, 64, 7]),
    (r"(conv1d|conv\.conv)\.weight$", [0, 127, 7]),
    (r"(norm|norm\d|layernorm|layer_norm|ln_\d|ln_f|ln_q|_ln|ln_pre|ln_post)(_\d)?\.bias$", [0, 64, 7]),
    (r"(norm|norm\d|layernorm|layer_norm|ln_\d|ln_f|ln_q|_ln|ln_pre|ln_post)(_\d)?\.weight$", "norm"),
    (r"bias$", [0, 127, 7]),
    (r"(embed|lm_head|wte|wpe|embed_out|embeddings|class_embedding)", [0, 127, 6]),
    (r"(mlp|moe|feed_forward)\.(gate|router)\.(wg\.)?(layer\.)?weight$|router\.(proj|layer)\.weight$", 2.0),
    (r"(q_proj|k_proj|q_b_proj|qkv_proj|query_key_value)\.weight$", 2.0),
    (r"c_attn\.weight$", (0, 2.0)),
    (r"c_proj\.weight$|c_fc\.weight$", (0, 1.2)),
    (r"", 1.2),
]


def rule(name, shape, own, centre):
    """fill of a tensor: the case's own rows first; `centre` says what norms are near, 1 or 0."""
    for pattern, fill in [*own, *RULES]:
        if not re.search(pattern, name):
            continue
        if fill == "norm":
            return [128 * centre, 64, 7]
        if isinstance(fill, list):
            return fill
        dim, gain = fill if isinstance(fill, tuple) else (-1, fill)
        if len(shape) > 2 and not isinstance(fill, tuple) and "experts" not in name:
            return linear(shape, gain, math.prod(shape[1:]))
        return linear(shape, gain, shape[dim])


def groups(tensors):
    """[(name, shape, fill)] with names that differ in numbers alone written as one: "a.{0,1}.b"."""
    found = {}
    for name, shape, fill in tensors:
        parts = re.split(r"(?<=\.)(\d+)(?=\.)", name)
        key = (tuple(parts[::2]), tuple(shape), tuple(fill))
        found.setdefault(key, []).append(tuple(int(p) for p in parts[1::2]))
    for (parts, shape, fill), numbers in found.items():
        for lists in products(sorted(numbers)):
            text = parts[0]
            for one, part in zip(lists, parts[1:]):
                text += (str(one[0]) if len(one) == 1 else "{%s}" % ",".join(map(str, one))) + part
            yield text, list(shape), list(fill)


def products(tuples):
    """Splits a list of tuples into lists of lists whose products they are."""
    lists = [sorted(set(t[i] for t in tuples)) for i in range(len(tuples[0]))]
    if math.prod(len(one) for one in lists) == len(tuples):
        return [lists]
    first = sorted(set(t[0] for t in tuples))
    rest = {n: tuple(t[1:] for t in tuples if t[0] == n) for n in first}
    joined = {}
    for n in first:
        joined.setdefault(rest[n], []).append(n)
    return [[ns, *one] for same, ns in joined.items() for one in products(list(same))]


def dump(path, salt, config, tensors, bytes):
    """One line a tensor, those whose names match `bytes` with their dtype; the rest as json.dump writes it."""
    lines = ",\n".join("  " + json.dumps([*g, "U8"] if re.search(bytes, g[0]) else list(g))
                       for g in groups(tensors))
    with open(path, "w") as f:
        f.write('{\n "salt": %d,\n "config": ' % salt)
        f.write(json.dumps(config, indent=1).replace("\n", "\n "))
        f.write(',\n "tensors": [\n%s\n ]\n}\n' % lines)
