"""What declare.py made of the headers is what a C compiler sees in them."""
import ctypes
import inspect
import os
import re
import shutil
import subprocess
import sys

import pytest

import pith
from pith import _abi, _library


def headers(root):
    return sorted((root / "include/pith").glob("*.h"))


def test_sizes_and_offsets(root, tmp_path):
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if not compiler:
        pytest.skip("no C compiler")
    lines = [f"#include <pith/{h.name}>" for h in headers(root)] + ["#include <stdio.h>", "int main(void) {"]
    expected = []
    for struct in _abi.STRUCTS:
        name = struct.__name__
        lines.append(f'printf("%zu\\n", sizeof(struct {name}));')
        expected.append((name, ctypes.sizeof(struct)))
        for field, *_ in struct._fields_:
            lines.append(f'printf("%zu\\n", offsetof(struct {name}, {field}));')
            lines.append(f'printf("%zu\\n", sizeof(((struct {name} *)0)->{field}));')
            expected += [(f"{name}.{field}", getattr(struct, field).offset), (f"{name}.{field}'s size", getattr(struct, field).size)]
    numbers = {n: v for n, v in vars(_abi).items() if n.startswith("PITH_") and isinstance(v, int)}
    assert len(numbers) >= 12
    for name, value in [*numbers.items(), *((f"PITH_{s}", n) for s, n, _ in _abi.STATUSES)]:
        lines.append(f'printf("%d\\n", (int){name});')
        expected.append((name, value))
    (tmp_path / "sizes.c").write_text("\n".join([*lines, "return 0; }\n"]))
    subprocess.run([compiler, "-std=c17", "-I", root / "include", tmp_path / "sizes.c", "-o", tmp_path / "sizes"], check=True)
    seen = [int(n) for n in subprocess.run([tmp_path / "sizes"], check=True, stdout=subprocess.PIPE).stdout.split()]
    assert seen == [value for _, value in expected], [(n, s, v) for (n, v), s in zip(expected, seen) if s != v]


def test_every_struct_and_function(root):
    text = "".join(re.sub(r"/\*.*?\*/", "", h.read_text(), flags=re.S) for h in headers(root))
    assert {s.__name__ for s in _abi.STRUCTS} == set(re.findall(r"^struct (\w+) \{", text, re.M))
    functions = set(re.findall(r"^PITH_API [^;(]*?(\w+)\(", text, re.M))
    assert functions == {n for n in vars(_library.lib) if n.startswith("pith_")}


def test_the_library_shows_nothing_else():
    symbols = shutil.which("nm")
    if not symbols:
        pytest.skip("no nm")
    path = os.environ.get("PITH_LIBRARY") or os.path.join(os.path.dirname(pith.__file__), "libpith.so")
    shown = subprocess.run([symbols, "-D", "--defined-only", "--format=posix", path], check=True, text=True, stdout=subprocess.PIPE).stdout
    names = {line.split()[0] for line in shown.splitlines()}
    assert names == {n for n in vars(_library.lib) if n.startswith("pith_")}


# Options that keywords of another name stand for, or that Python sets by itself.
OTHERWISE = {
    "size": None, "progress": "progress", "event": None, "ctx": None, "text": None, "text_size": None, "delta": None,
}


@pytest.mark.parametrize("struct, functions, renamed", [
    (_abi.pith_quantize_options, [pith.quantize], {}),
    (_abi.pith_convert_options, [pith.convert], {}),
    (_abi.pith_verify_options, [pith.verify], {}),
    (_abi.pith_eval_options, [pith.evaluate, pith.compare], {"measured_ctx": "measured"}),
    (_abi.pith_bench_options, [pith.bench], {}),
    (_abi.pith_plan_model_options, [pith.plan], {}),
    (_abi.pith_plan_quantize_options, [pith.plan_quantize], {}),
    (_abi.pith_sensitivity_options, [pith.sensitivity], {}),
    (_abi.pith_advise_options, [pith.advise], {}),
    (_abi.pith_hub_options, [pith.pull], {}),
    (_abi.pith_service_options, [pith.Engine.__init__], {"no_prefix_cache": "prefix_cache"}),
    (_abi.pith_request, [pith.Engine.submit],
     {"ids": "prompt", "id_count": "prompt", "bias_value": "bias", "bias_count": "bias", "stop_id_count": "stop_ids", "constraint": "schema",
      "constraint_text": "expression"}),
    (_abi.pith_reply_options, [pith.Reply.__init__], {"prompt_size": "prompt"}),
])
def test_each_option_is_a_keyword(struct, functions, renamed):
    keywords = {k for f in functions for k in inspect.signature(f).parameters}
    for field, *_ in struct._fields_:
        name = renamed.get(field, OTHERWISE.get(field, field))
        assert name is None or name in keywords, f"{struct.__name__}.{field} has no keyword"


def test_keywords_of_answers():
    keywords = list(inspect.signature(pith.Engine.submit).parameters.values())
    assert {k.name: k.annotation for k in keywords if k.name not in ("self", "prompt", "conversation")} == \
        {name: getattr(kind, "__forward_arg__", kind) for name, kind in pith.How.__annotations__.items()}


@pytest.mark.parametrize("struct, made, without", [
    (_abi.pith_service_state, pith.State, {"size"}),
    (_abi.pith_usage, pith.Usage, set()),
    (_abi.pith_text_look, pith.TextLook, set()),
])
def test_results_have_all_fields(struct, made, without):
    assert [f for f, *_ in struct._fields_ if f not in without] == list(made._fields)


def test_each_status_has_an_exception():
    from pith import errors
    assert set(errors.CLASSES) == {name for name, _, _ in _abi.STATUSES} - {"OK"}


def test_another_version_is_refused(tmp_path):
    package = tmp_path / "pith"
    shutil.copytree(os.path.dirname(pith.__file__), package)
    abi = package / "_abi.py"
    abi.write_text(re.sub(r'^VERSION = .*$', 'VERSION = "99.0.0"', abi.read_text(), flags=re.M))
    path = os.path.join(os.path.dirname(pith.__file__), "libpith.so")
    ran = subprocess.run([sys.executable, "-c", "import pith"], env={**os.environ, "PYTHONPATH": str(tmp_path), "PITH_LIBRARY": path},
                         stderr=subprocess.PIPE, text=True)
    assert ran.returncode == 1 and "ImportError" in ran.stderr and "99.0.0" in ran.stderr
