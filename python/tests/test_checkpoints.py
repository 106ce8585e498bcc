"""Quantizing, verifying, measuring, looking; progress, and being stopped."""
import hashlib
import json
import os
import subprocess
import sys
import threading

import pytest

import pith


def hashes(folder):
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(folder.iterdir()) if p.name != "pith.json"}


def test_the_straight_line(probe, tmp_path):
    told = []
    with pith.Context(threads=2) as context:
        report = pith.quantize(probe, tmp_path / "out", recipe="gptq", weights="int4:g64", calib_tokens=4096,
                               progress=lambda *p: told.append(p) and None, using=context)
        checked = pith.verify(tmp_path / "out", against=probe, targets="vllm:tp=2", using=context)
        differs = pith.diff(probe, tmp_path / "out", using=context)
    assert report["recipe"]["round"] == "gptq" and json.loads((tmp_path / "out/pith.json").read_text())["recipe"] == report["recipe"]
    assert len(told) > 2 and all(isinstance(w, str) and 0 <= d <= t for w, d, t in told if t)
    assert told[0][1] < told[-1][1]
    assert checked["ok"] and not checked["problems"]
    assert not differs["equal"] and differs["parts_different"] == 42
    made = pith.convert(tmp_path / "out", tmp_path / "packed", container="compressed-tensors")
    assert all(x["lossless"] for x in made["linears"])
    assert pith.diff(tmp_path / "out", tmp_path / "packed")["equal"]
    looked = pith.inspect(tmp_path / "out")
    assert looked["bits_per_weight"] == pytest.approx(4.25)
    assert "<html" in pith.inspect_page(pith.inspect(probe, statistics=True))


def test_what_is_damaged_is_told(quantized, tmp_path):
    copy = tmp_path / "copy"
    copy.mkdir()
    for p in quantized.iterdir():
        (copy / p.name).write_bytes(p.read_bytes())
    weights = copy / "model.safetensors"
    raw = bytearray(weights.read_bytes())
    raw[-100] ^= 1
    weights.write_bytes(raw)
    with pytest.raises(pith.Mismatch) as e:
        pith.verify(copy)
    assert not e.value.report["ok"] and e.value.report["problems"] and e.value.status == "MISMATCH"


def test_a_true_answer_stops_and_resume_goes_on(probe, tmp_path):
    with pytest.raises(pith.Interrupted):
        pith.quantize(probe, tmp_path / "out", recipe="gptq", calib_tokens=4096, progress=lambda what, done, total: done > total * 0.4)
    assert not (tmp_path / "out").exists() and (tmp_path / "out.partial").exists()
    pith.quantize(probe, tmp_path / "out", recipe="gptq", calib_tokens=4096, resume=True)
    pith.quantize(probe, tmp_path / "again", recipe="gptq", calib_tokens=4096)
    assert hashes(tmp_path / "out") == hashes(tmp_path / "again")


def test_an_exception_stops_and_is_raised(probe, tmp_path):
    class Mine(Exception):
        pass

    here = threading.current_thread()

    def raises(what, done, total):
        assert threading.current_thread() is here
        raise Mine(what)

    with pytest.raises(Mine):
        pith.quantize(probe, tmp_path / "out", recipe="gptq", calib_tokens=4096, progress=raises)
    assert not (tmp_path / "out").exists()


def test_ctrl_c_stops(probe, tmp_path):
    ran = subprocess.run([sys.executable, "-c", f"""
import os, signal, pith
def progress(what, done, total):
    if done > total * 0.3:
        os.kill(os.getpid(), signal.SIGINT)
try:
    pith.quantize({str(probe)!r}, {str(tmp_path / "out")!r}, recipe="gptq", calib_tokens=8192, progress=progress)
except KeyboardInterrupt as e:
    print("stopped", os.listdir({str(tmp_path)!r}))
print(pith.quantize({str(probe)!r}, {str(tmp_path / "out")!r}, recipe="gptq", calib_tokens=8192, resume=True)["container"])
"""], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120)
    assert ran.stdout == "stopped ['out.partial']\ngptq\n", ran.stderr


def test_measuring_as_the_command_line(probe, quantized, program):
    text, told = probe / "eval.txt", []
    ours = pith.evaluate(quantized, baseline=probe, texts=[text], context=256, max_tokens=2048)
    theirs = json.loads(subprocess.run([program, "eval", str(quantized), "--baseline", str(probe), "--text", str(text), "--context", "256",
                                        "--max-tokens", "2048", "--json", "--quiet"], check=True, stdout=subprocess.PIPE).stdout)
    for key in ("perplexity", "kld_mean", "harm", "nll_delta"):
        assert ours[key] == theirs[key]
    both = pith.compare([probe, quantized], texts=text, context=256, max_tokens=2048, details=True, measured=told.append)
    assert both["complete"] and [m["name"] for m in both["models"]] == [m["name"] for m in told]
    assert both["models"][1]["kld_mean"] == ours["kld_mean"]
    assert "<svg" in pith.compare_page(both)


def test_compare_that_is_stopped_has_what_is_done(probe, quantized):
    done = []

    def stop(what, at, total):
        return bool(done)

    with pytest.raises(pith.Interrupted) as e:
        pith.compare([probe, quantized, quantized], texts=probe / "eval.txt", context=256, max_tokens=8192, measured=done.append, progress=stop)
    assert not e.value.report["complete"] and e.value.report["models"][0]["perplexity"] == done[0]["perplexity"]


def test_bench(probe):
    report = pith.bench(probe, prompt=16, gen=4, reps=1)
    assert json.dumps(report)


def test_tables():
    assert {"gptq", "awq", "rtn"} <= {r["recipe"] for r in pith.recipes()}
    assert {"int4", "nvfp4"} <= {f["format"] for f in pith.formats()}
    assert {"containers", "engines"} <= set(pith.features()) and pith.recipe_keys()
    assert pith.table([("a", "left"), ("b", "right")], [["x", "1"]], "csv") == "a,b\nx,1\n"


def safetensors(path):
    """Tensors of a file in bfloat16, by hand."""
    numpy = pytest.importorskip("numpy")
    raw = path.read_bytes()
    size = int.from_bytes(raw[:8], "little")
    for name, t in json.loads(raw[8:8 + size]).items():
        if name != "__metadata__":
            assert t["dtype"] == "BF16"
            begin, end = (8 + size + at for at in t["data_offsets"])
            bits = numpy.frombuffer(raw[begin:end], dtype="<u2").astype(numpy.uint32) << 16
            yield name, bits.view(numpy.float32).reshape(t["shape"])


def test_weights(probe, quantized):
    numpy = pytest.importorskip("numpy")
    stored = dict(safetensors(probe / "model.safetensors"))
    assert len(stored) >= 56
    for name, values in stored.items():
        same = pith.weights(probe, name[:-len(".weight")])
        assert same.dtype == numpy.float32 and same.shape == (values.shape if values.ndim == 2 else (1, len(values)))
        assert (same == values.reshape(same.shape)).all(), name
    parts = [p for p in pith.diff(probe, quantized)["parts"] if not p["equal"]]
    assert len(parts) == 42
    for p in parts[::5]:
        a, b = (pith.weights(m, p["name"]).astype(numpy.float64) for m in (probe, quantized))
        assert numpy.linalg.norm(b - a) / numpy.linalg.norm(a) == pytest.approx(p["relative_difference"], rel=1e-6)
        assert abs(b - a).max() == pytest.approx(p["largest_difference"], rel=1e-6)
    row = pith.weights(probe, "model.embed_tokens")[7]
    kept = [pith.weights(probe, "model.layers.0.mlp.down_proj") for _ in range(20)]  # in whose memory the row may not be
    assert (row == stored["model.embed_tokens.weight"][7]).all() and len(kept) == 20
    for wrong in ("nothing", "model.layers.99.mlp.down_proj", "model.layers.0.nothing", ""):
        with pytest.raises(pith.ArgumentError, match="no part"):
            pith.weights(probe, wrong)


def test_texts(probe, tmp_path):
    assert pith.look_at_text(probe / "eval.txt") == pith.TextLook((probe / "eval.txt").stat().st_size, 0)
    (tmp_path / "windows.txt").write_bytes(b"one\r\ntwo\r\n")
    assert pith.look_at_text(tmp_path / "windows.txt").crlf == 2
    (tmp_path / "latin.txt").write_bytes("caf\u00e9".encode("latin-1"))
    with pytest.raises(pith.FormatError) as e:
        pith.look_at_text(tmp_path / "latin.txt")
    assert isinstance(e.value, ValueError)


def test_names_of_the_hub(probe, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(pith.FileError):
        pith.find("some/model")
    with pytest.raises(pith.ArgumentError):
        pith.find("no name")
    made = tmp_path / "models--some--model"
    (made / "refs").mkdir(parents=True)
    (made / "refs/main").write_text("a" * 40)
    (made / "snapshots").mkdir()
    os.symlink(probe, made / "snapshots" / ("a" * 40))
    assert os.path.samefile(pith.find("some/model"), probe)
    assert pith.inspect("some/model")["bytes"] == pith.inspect(probe)["bytes"]


def test_refusals(probe, tmp_path):
    with pytest.raises(pith.ArgumentError, match="gptk"):
        pith.quantize(probe, tmp_path / "out", recipe="gptk")
    with pytest.raises(pith.LimitExceeded):
        pith.quantize(probe, tmp_path / "out", recipe="gptq", memory="1M")
    (tmp_path / "out").mkdir()
    with pytest.raises(pith.FileError):
        pith.quantize(probe, tmp_path / "out")
    with pytest.raises(pith.ArgumentError):
        pith.compare(str(probe), texts="x")
    with pith.Context(threads=1, cpu="scalar") as context:
        assert (context.threads, context.cpu) == (1, "scalar")
    with pytest.raises(pith.Closed):
        pith.inspect(probe, using=context)
    with pytest.raises(pith.ArgumentError):
        pith.Context(threads=-1)


def test_a_file_that_becomes_shorter_is_an_error(probe, tmp_path):
    copy = tmp_path / "model"
    copy.mkdir()
    for p in probe.iterdir():
        if p.is_file():
            (copy / p.name).write_bytes(p.read_bytes())
    ran = subprocess.run([sys.executable, "-c", f"""
import os, pith
pith.guard_files()
weights = {str(copy / "model.safetensors")!r}
def shorten(what, done, total):
    os.truncate(weights, 100000)
try:
    pith.quantize({str(copy)!r}, {str(tmp_path / "out")!r}, recipe="gptq", calib_tokens=65536, progress=shorten)
except pith.FileError as e:
    print(weights in str(e))
"""], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120)
    assert ran.stdout == "True\n", (ran.returncode, ran.stderr)


def test_a_ceiling_on_memory(probe):
    ran = subprocess.run([sys.executable, "-c", f"""
import pith
pith.return_memory()
pith.limit_memory("24M")
try:
    pith.Engine({str(probe)!r}, tokens=200000, threads=1)
except pith.OutOfMemory as e:
    print(isinstance(e, MemoryError))
print(len(pith.recipes()) > 5)
"""], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120)
    assert ran.stdout == "True\nTrue\n", (ran.returncode, ran.stderr)


def test_log_lines_go_to_logging(probe, tmp_path, caplog):
    copy = tmp_path / "model"
    copy.mkdir()
    for p in probe.iterdir():
        if p.is_file():
            (copy / p.name).write_bytes(p.read_bytes())
    config = json.loads((copy / "config.json").read_text())
    config["rope_thetta"] = config.pop("rope_theta")
    (copy / "config.json").write_text(json.dumps(config))
    with caplog.at_level("WARNING", logger="pith"):
        pith.inspect(copy)
        pith.Engine(copy).close()
    assert "rope_thetta" in caplog.text


def test_plan(probe):
    report = pith.plan("Llama-3.1-8B", hardware=["l4"], contexts=[4096, "8k"], weights=["gptq"], kv=["bf16"], fit="20G", max_latency=1)
    assert {r["context"] for r in report["rows"]} == {4096, 8192} and report["parameters"]["all"] == 8030261248
    assert "<svg" in pith.plan_page(report)
    assert pith.plan(probe, hardware=["this"], own=pith.measure_hardware())["rows"]
    this = pith.measure_hardware(weights=["int8:channel"], kv="int8:token")
    assert any(k.get("grid") == "int8:channel" for k in this["kernels"]), this["kernels"]
    assert pith.plan(probe, hardware=["this"], targets=["pith"], own=this)["rows"]
    with pytest.raises(pith.ArgumentError, match="no such format"):
        pith.measure_hardware(weights=["int9"])
    assert {"l4", "h100-sxm"} <= {h["hardware"] for h in pith.hardware()} and len(pith.plan_shapes()) > 60
    with pytest.raises(pith.ArgumentError, match="there are"):
        pith.plan(probe, hardware=["none-such"])


def test_plan_quantize(probe):
    report = pith.plan_quantize("Llama-3.1-8B", "awq", "xeon-spr-56x4", link="25G,20", calib_tokens=65536)
    rows = report["ranks"]["rows"]
    assert [r["ranks"] for r in rows] == [1, 2, 4] and report["tokens"] == 65536 and report["ranks"]["link"]["bits_per_second"] == 25e9
    assert rows[0]["seconds_expected"] > rows[2]["seconds_expected"] > 0 and report["memory_bytes"] > 1e9
    assert pith.plan_quantize(probe, "rtn", "this", own=pith.measure_hardware())["recipe"] == "rtn"
    with pytest.raises(pith.Unsupported, match="on CPUs"):
        pith.plan_quantize(probe, "gptq", "l4")


FEW = dict(tries=["int3:g128:asym", "int4:g128:asym"], calib_tokens=2048, seq_len=256)


def test_sensitivity(probe, tmp_path):
    told = []
    report = pith.sensitivity(probe, tmp_path / "w", acts="int8:token", caches=["q8_0", "turbo3"], progress=lambda *a: told.append(a), **FEW)
    kinds = {k: [r for r in report["rows"] if r["kind"] == k] for k in ("weights", "cache", "acts")}
    assert [len(kinds[k]) for k in ("weights", "cache", "acts")] == [84, 24, 24]
    assert all(r["kld"] > 0 and r["bits"] > 0 for r in report["rows"]) and told
    assert not (tmp_path / "w.partial").exists()
    page = pith.sensitivity_page(report)
    assert "Sensitivity of" in page and 'class="heat"' in page
    with pytest.raises(pith.FormatError, match="no report of pith sensitivity"):
        pith.sensitivity_page({"rows": [{}]})
    small = dict(FEW, tries=["int4:g128:asym"], calib_tokens=512, acts="none", caches="none")
    scaled, plain = (pith.sensitivity(probe, tmp_path / "w", recipe=r, **small)["rows"] for r in ("awq", "rtn"))
    assert len(scaled) == len(plain) == 42 and sum(r["kld"] for r in scaled) < sum(r["kld"] for r in plain)
    with pytest.raises(pith.Unsupported, match="transform"):
        pith.sensitivity(probe, tmp_path / "w", recipe="quarot", **FEW)


def test_sensitivity_goes_on(probe, tmp_path):
    with pytest.raises(pith.Interrupted, match="resume"):
        pith.sensitivity(probe, tmp_path / "w", acts="none", caches="none", progress=lambda what, done, total: done > total * 0.6, **FEW)
    assert (tmp_path / "w.partial/pith.journal").exists()
    again = pith.sensitivity(probe, tmp_path / "w", acts="none", caches="none", resume=True, **FEW)
    assert again == pith.sensitivity(probe, tmp_path / "x", acts="none", caches="none", **FEW)


def test_auto(probe, tmp_path):
    report = pith.quantize(probe, tmp_path / "a", recipe="auto", budget=3.6, **FEW)
    found = json.loads((tmp_path / "a/recipe.json").read_text())
    assert found["predicted"]["bits"] <= 3.6 and set(found["linears"].values()) == {"int3:g128:asym", "int4:g128:asym"}
    assert report["prediction"]["measured"] > 0
    pith.quantize(probe, tmp_path / "b", recipe="auto", max_kl=0.5, **FEW)
    assert json.loads((tmp_path / "b/recipe.json").read_text())["predicted"]["kld"] <= 0.5
    with pytest.raises(pith.ArgumentError, match="needs one of"):
        pith.quantize(probe, tmp_path / "c", recipe="auto", **FEW)
    with pytest.raises(pith.ArgumentError, match="does nothing without"):
        pith.quantize(probe, tmp_path / "c", recipe="gptq", fit="24G,context=512")
