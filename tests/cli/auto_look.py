"""What tests of pith sensitivity and -r auto look at: auto_look.py WHAT JSON [MORE...]; an assertion that fails says what is off."""

import collections, json, sys

what, path, *rest = sys.argv[1:]
j = json.load(open(path))
if what == "table":  # fewer bits cost more, of every linear
    cells = collections.defaultdict(dict)
    for r in j["rows"]:
        if r["kind"] == "weights":
            cells[r["part"]][r["bits"]] = r["kld"]
    assert len(cells) == 42 and all(len(c) == 3 for c in cells.values()), "42 linears on 3 grids"
    for part, c in cells.items():
        losses = [c[b] for b in sorted(c)]
        assert losses == sorted(losses, reverse=True) and losses[-1] >= 0, (part, c)
elif what == "reads":  # keys and values of six layers, four inputs each; fewer bits cost more
    kinds = {k: [r for r in j["rows"] if r["kind"] == k] for k in ("cache", "acts")}
    assert len({r["part"] for r in kinds["cache"]}) == 12 and len(kinds["cache"]) == 12 * len(j["caches"]), kinds["cache"][:2]
    assert len({r["part"] for r in kinds["acts"]}) == 24 and len(kinds["acts"]) == 24 * len(j["acts"]), kinds["acts"][:2]
    sums = {g: sum(r["kld"] for r in j["rows"] if r["grid"] == g) for g in j["caches"] + j["acts"]}
    assert sums["turbo2"] > sums["turbo3"] > sums["turbo4"] > sums["q8_0"] > 0, sums
    assert sums["int4:token"] > sums["mxfp4"] > sums["nvfp4:static"] > sums["mxfp8"] > sums["int8:token"] > 0, sums
    one = next(r for r in kinds["cache"] if r["grid"] == "turbo3")
    assert one["part"] == "model.layers.0.k" and one["bytes"] == 2 * (64 * 3 // 8 + 2) and one["bits"] == 8 * one["bytes"] / 128, one
elif what == "routes":  # a recipe's prediction is what its rows say together; small changes alone say more
    recipe = json.load(open(rest[0]))
    cells = {(r["part"], r["grid"]): r for r in j["rows"] if r["kind"] == "weights"}
    rows = [cells[p, g] for p, g in recipe["linears"].items() if g != "none"]
    def curve(c, v):
        x0, y0 = 0, 0
        for x, y in zip(c["variance"], c["kld"]):
            if v < x:
                return y0 + (y - y0) / (x - x0) * (v - x0)
            x0, y0 = x, y
        return y0
    swayed = sum(curve(c, sum(r["sway"] for r in rows if r["from"] <= i)) for i, c in enumerate(j["routers"]))
    total, p = sum(r["fixed"] for r in rows) + swayed, recipe["predicted"]
    assert len(j["routers"]) == 4 and swayed > 0 and abs(total - p["kld"]) < 1e-6 * total, (total, swayed, p)
    assert p["bound"] <= p["kld"] and sum(r["kld"] for r in rows) > total, (p, total)
    measured = json.load(open(rest[1]))["prediction"]["fitted"]["measured"]  # of so few tokens others cost more
    assert 1 / 1.5 < measured / p["kld"] < 1.5, (measured, p)
elif what == "only":
    assert {r["kind"] for r in j["rows"]} == set(rest), rest
elif what == "sum":  # of one grid against what pith eval measured
    measured = json.load(open(rest[1]))["texts"][0]["kld_mean"]
    predicted = sum(r["kld"] for r in j["rows"] if r["grid"] == rest[0])
    assert 1 / 1.3 < measured / predicted < 1.3, (predicted, measured)
elif what == "recipe":  # within its budget, and engines' rules for what they hold as one matrix
    bits, kinds = float(rest[0]), collections.Counter(j["linears"].values())
    assert j["predicted"]["bits"] <= bits + 1e-9 and j["predicted"]["kld"] >= j["predicted"]["bound"] * (1 - 1e-9), j["predicted"]
    assert len(kinds) > 1, kinds
    layers = sorted({n.split(".self_attn")[0] for n in j["linears"] if ".self_attn.q_proj" in n})
    sites = [[j["linears"][f"{layer}.{x}_proj"] for x in s] for layer in layers
             for s in (["self_attn." + x for x in "qkv"], ["mlp.gate", "mlp.up"])]
    assert len(layers) == int(rest[1]), layers
    if rest[2:]:
        assert all(len(set(s)) == 1 for s in sites) == (rest[2] == "fused"), (rest, sites)
elif what == "transformed":
    kld = {t["transform"]: t["kld"] for t in j["predicted"]["tried"]}
    measured = json.load(open(rest[0]))["prediction"]["fitted"]["measured"]  # of so few tokens others cost more
    assert j["transform"] == "awq" and j["round"] == "qep" and j["predicted"]["round"] == "gptq", j
    assert j["predicted"]["kld"] == kld["awq"] < 0.8 * kld["none"] and measured < 1.3 * kld["awq"], (kld, measured)
elif what == "came":  # true, on tokens that were not fitted: the account says so
    p, fitted, held = j["prediction"], j["calibration"], j["calibration"]["held_out"]
    assert p["held_out"] and p["tokens"] == held["tokens"] == 2048 and 0.5 < p["measured"] / p["kld"] < 2 and p["standard_error"] > 0, p
    assert p["fitted"]["tokens"] == 2048 and p["fitted"]["measured"] > 0, p
    assert fitted["sources"] == held["sources"] == ["builtin"] and fitted["sha256"] != held["sha256"], (fitted, held)
    inside = {t for a, b in fitted["offsets"] for t in range(a, b)}
    assert len(inside) == 2048 - fitted["windows"], fitted
    judged = [t for a, b in held["offsets"] for t in range(a, b)]
    assert len(judged) == 2048 - held["windows"] and not inside & set(judged), held
elif what == "values":  # one grid: a prediction is the sum of its rows, of which values lose a part where the run makes up for it
    part, rows = float(rest[1]), json.load(open(rest[0]))["rows"]
    lost = {r["part"]: r["kld"] for r in rows if r["kind"] == "weights" and r["grid"] == j["linears"].get(r["part"])}
    assert any(p.endswith(".v_proj") for p in lost), (lost, j["linears"])
    total = sum(x * (part if p.endswith(".v_proj") else 1) for p, x in lost.items())
    assert abs(j["predicted"]["kld"] - total) < 1e-8 * total, (j["predicted"], total)
elif what == "apart":  # the account's remarks: a pattern, or none
    said = " ".join(j["prediction"].get("remarks", []))
    assert (rest[0] in said) if rest[0] else not said, said
    assert j["prediction"]["held_out"] == (rest[1:] != ["fitted"]), j["prediction"]
elif what == "cache":  # fits with the weights
    p = j["predicted"]
    assert 2 < p["cache"]["bits"] <= 16 and p["cache"]["kld"] > 0 and p["bits"] < 9, p
elif what == "first":  # the first layer, or so many, as a model
    weights, out, layers = *rest[:2], int((rest[2:] or ["1"])[0])
    j["num_hidden_layers"] = layers
    json.dump(j, open(out + "/config.json", "w"))
    data = open(weights, "rb").read()
    at = 8 + int.from_bytes(data[:8], "little")
    tensors = {n: t for n, t in json.loads(data[8:at]).items() if n != "__metadata__" and (".layers." not in n or int(n.split(".layers.")[1].split(".")[0]) < layers)}
    parts = []
    for t in tensors.values():
        first, end = t["data_offsets"]
        begin = sum(map(len, parts))
        parts.append(data[at + first : at + end])
        t["data_offsets"] = [begin, begin + end - first]
    head = json.dumps(tensors).encode()
    head += b" " * (-len(head) % 8)
    open(out + "/model.safetensors", "wb").write(len(head).to_bytes(8, "little") + head + b"".join(parts))
elif what == "kld":
    assert j["predicted"]["kld"] <= float(rest[0]), j["predicted"]
elif what == "better":  # the first measured less than the second
    a, b = (json.load(open(p)) for p in (path, rest[0]))
    assert a["bits_per_weight"] <= b["bits_per_weight"] + 0.01, (a["bits_per_weight"], b["bits_per_weight"])
    assert a["texts"][0]["kld_mean"] < b["texts"][0]["kld_mean"], (a["texts"][0]["kld_mean"], b["texts"][0]["kld_mean"])
