"""What fits where, how fast it would be, and what it would cost."""
from __future__ import annotations

import ctypes
import json
from typing import Any, Dict, List, Optional, Sequence, Union

from . import _abi
from ._library import PathName, Text, bytes_of, call, lib, list_of, options, report_of
from .context import Context, given

Numbers = Sequence[Union[int, str]]


def plan(model: PathName, *, hardware: Sequence[str] = (), contexts: Numbers = (), users: Numbers = (), prompt: Optional[int] = None,
         gen: Optional[int] = None, weights: Sequence[str] = (), kv: Sequence[str] = (), targets: Sequence[str] = (),
         fit: Union[int, str, None] = None, max_latency: Optional[float] = None, max_first: Optional[float] = None,
         min_users: Optional[int] = None, max_cost: Optional[float] = None, own: Union[Dict[str, Any], List[Any], None] = None,
         prefill: Sequence[str] = (), pool_link: Union[int, str, None] = None, offload: Union[int, str, None] = None) -> Dict[str, Any]:
    """What `pith plan --json` prints of a folder, a .gguf file, a config.json or a well-known name; rows best first.

    prefill: where prompts are read ("same", a name of hardware); pool_link: bytes a second from there; offload: bytes of the host's memory for
    caches. max_latency: seconds between tokens; own: further hardware, rows as of hardware() or measure_hardware().
    """
    o = options(_abi.pith_plan_model_options, lib.pith_plan_model_defaults_sized,
                dict(model=model, hardware=hardware, contexts=[str(n) for n in contexts], users=[str(n) for n in users], prompt=prompt, gen=gen,
                     weights=weights, kv=kv, targets=targets, fit=None if fit is None else bytes_of(fit, "fit"), max_latency=max_latency,
                     max_first=max_first, min_users=min_users, max_cost=max_cost, own=None if own is None else json.dumps(own), prefill=prefill,
                     pool_link=None if pool_link is None else bytes_of(pool_link, "pool_link"),
                     offload=None if offload is None else bytes_of(offload, "offload")))
    found: Dict[str, Any] = report_of(lib.pith_plan_model, ctypes.byref(o))
    return found


def plan_quantize(model: PathName, recipe: str, hardware: str, *, link: Optional[str] = None, calib_tokens: Optional[int] = None,
                  seq_len: Optional[int] = None, own: Union[Dict[str, Any], List[Any], None] = None) -> Dict[str, Any]:
    """What `pith plan --quantize --json` prints: the time and memory of quantizing on 1, 2, 4 ... machines of a kind ("xeon-spr-56x8").

    link: what joins them, "BITS[,MICROSECONDS]" ("25G"); own: as of plan().
    """
    o = options(_abi.pith_plan_quantize_options, lib.pith_plan_quantize_defaults_sized,
                dict(model=model, recipe=recipe, hardware=hardware, link=link, calib_tokens=calib_tokens, seq_len=seq_len,
                     own=None if own is None else json.dumps(own)))
    found: Dict[str, Any] = report_of(lib.pith_plan_quantize, ctypes.byref(o))
    return found


def plan_page(report: Dict[str, Any]) -> str:
    """A page in HTML, by itself, of what plan() found."""
    text = Text()
    call(lib.pith_plan_html, json.dumps(report).encode(), text.out)
    return (text.take() or b"").decode()


def plan_shapes() -> List[Dict[str, Any]]:
    """The well-known models that plan() knows by name."""
    found: List[Dict[str, Any]] = report_of(lib.pith_plan_shapes)
    return found


def hardware() -> List[Dict[str, Any]]:
    """The kinds of hardware that plan() knows by name."""
    found: List[Dict[str, Any]] = report_of(lib.pith_hardware_json)
    return found


def measure_hardware(*, weights: Sequence[str] = (), kv: Sequence[str] = (), using: Optional[Context] = None) -> Dict[str, Any]:
    """The machine at hand as a row of hardware(), "this".

    weights, kv: also what pith's products of matrices on these grids take, and attention over such caches ("kernels"), some seconds each;
    a plan(own=...) for pith adds them up.
    """
    with given(using) as c:
        report: Dict[str, Any]
        if weights or kv:
            grids, caches = list_of(weights, "weights"), list_of(kv, "kv")
            report = c.run(lib.pith_hardware_measure_kernels, ctypes.byref(grids), ctypes.byref(caches), report=Text())
        else:
            report = c.run(lib.pith_hardware_measure, report=Text())
    return report
