"""What is in a checkpoint or a text, and what the library knows."""
from __future__ import annotations

import ctypes
import json
from typing import TYPE_CHECKING, Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from . import _abi
from ._library import PathName, Text, call, encoded, floats, lib, report_of
from .context import Context, Progress, given
from .models import path_of

if TYPE_CHECKING:
    import numpy
    import numpy.typing


def inspect(model: PathName, *, statistics: bool = False, progress: Optional[Progress] = None,
            using: Optional[Context] = None) -> Dict[str, Any]:
    """The tensors of a checkpoint; with `statistics` how their values are distributed."""
    with given(using) as c:
        report: Dict[str, Any] = c.run(lib.pith_inspect, encoded(path_of(model), "model"), int(statistics), progress=progress,
                                       report=Text())
    return report


def diff(a: PathName, b: PathName, *, progress: Optional[Progress] = None, using: Optional[Context] = None) -> Dict[str, Any]:
    """Where two checkpoints of a model of one shape differ, part by part, by the weights that each stands for."""
    with given(using) as c:
        report: Dict[str, Any] = c.run(lib.pith_diff, encoded(path_of(a), "a"), encoded(path_of(b), "b"), progress=progress, report=Text())
    return report


def weights(model: PathName, part: str, *, progress: Optional[Progress] = None,
            using: Optional[Context] = None) -> "numpy.typing.NDArray[numpy.float32]":
    """What a part of a model stands for, dequantized: [rows, cols], a vector has one row. part: as of diff() ("model.embed_tokens",
    "model.layers.0.mlp.down_proj"). A numpy view of the library's memory, freed when no array shows it."""
    import numpy

    out = _abi.pith_numbers()
    with given(using) as c:
        c.run(lib.pith_numbers_read, encoded(path_of(model), "model"), encoded(part, "part"), ctypes.byref(out), progress=progress)
    view: "numpy.typing.NDArray[numpy.float32]" = numpy.frombuffer(floats(out.value, out.rows * out.cols), dtype=numpy.float32)
    return view.reshape(out.rows, out.cols)


def formats() -> List[Dict[str, Any]]:
    """Number formats."""
    found: List[Dict[str, Any]] = report_of(lib.pith_formats_json)
    return found


def recipes() -> List[Dict[str, Any]]:
    """Recipes by name, with their four stages."""
    found: List[Dict[str, Any]] = report_of(lib.pith_recipes_json)
    return found


def recipe_keys() -> List[Dict[str, Any]]:
    """The keys of a recipe file."""
    found: List[Dict[str, Any]] = report_of(lib.pith_recipe_keys_json)
    return found


def features() -> Dict[str, Any]:
    """Containers, engines, architectures, transforms, splits, rounders, and what goes with what."""
    found: Dict[str, Any] = report_of(lib.pith_features_json)
    return found


class TextLook(NamedTuple):
    """What a text file is: its bytes, and its lines that end in CR LF."""

    bytes: int
    crlf: int


def look_at_text(path: PathName) -> TextLook:
    """Looks through a text as evaluate() and quantize() will; FormatError when it is not UTF-8."""
    look = _abi.pith_text_look()
    call(lib.pith_text_look, encoded(path, "path"), ctypes.byref(look))
    return TextLook(look.bytes, look.crlf)


def _text(function: Any, *arguments: Any) -> str:
    text = Text()
    call(function, *arguments, text.out)
    return (text.take() or b"").decode()


def table(columns: Sequence[Tuple[str, str]], rows: Sequence[Sequence[str]], form: str = "text") -> str:
    """Renders a table as "text", "markdown" or "csv". columns: (name, "left" or "right")."""
    made = {"columns": [{"name": n, "align": a} for n, a in columns], "rows": [list(r) for r in rows]}
    return _text(lib.pith_table_render, json.dumps(made).encode(), encoded(form, "form"))


def compare_page(report: Dict[str, Any]) -> str:
    """A page in HTML, by itself, of what compare(..., details=True) found."""
    return _text(lib.pith_compare_html, json.dumps(report).encode())


def inspect_page(report: Dict[str, Any]) -> str:
    """A page in HTML, by itself, of what inspect(..., statistics=True) found."""
    return _text(lib.pith_inspect_html, json.dumps(report).encode())
