"""A checkpoint in, a proven quantized checkpoint out."""
from __future__ import annotations

import ctypes
from typing import Any, Callable, Dict, Optional, Union

from . import _abi
from ._library import PathName, Text, lib, options
from .context import Context, Progress, given
from .models import Files, path_of


def _run(function: Callable[..., int], kind: Any, defaults: Callable[..., None], values: Dict[str, Any], context: Optional[Context],
         progress: Optional[Progress]) -> Dict[str, Any]:
    o = options(kind, defaults, values)
    with given(context) as c:
        report: Dict[str, Any] = c.run(function, ctypes.byref(o), progress=progress, report=Text())
    return report


def quantize(model: PathName, out: PathName, *, recipe: Optional[PathName] = None, weights: Optional[str] = None,
             acts: Optional[str] = None, kv: Optional[str] = None, transform: Optional[str] = None, split: Optional[str] = None,
             round: Optional[str] = None, ignore: Files = (), overrides: Files = (), calib: Files = (), crlf: Optional[str] = None,
             calib_tokens: Optional[int] = None, seq_len: Optional[int] = None, container: Optional[str] = None,
             memory: Union[int, str, None] = None, max_shard: Union[int, str, None] = None, rehearse: bool = False, targets: Files = (),
             resume: bool = False, seed: Optional[int] = None, allow_error: Optional[float] = None, experts: Optional[str] = None,
             budget: Union[float, str, None] = None, fit: Optional[str] = None, max_kl: Optional[float] = None, tries: Files = (),
             adapter: Optional[PathName] = None, link: Optional[str] = None, gather: bool = False, requantize: bool = False,
             progress: Optional[Progress] = None, using: Optional[Context] = None) -> Dict[str, Any]:
    """Quantizes a checkpoint and returns what pith.json says of it (with `rehearse`: what it would take).

    model: a folder, a .gguf file, or a name in the hub's cache; never written to. out: what to make; it appears when it is whole. recipe:
    a name of pith.recipes(), or a .json file; weights, acts, kv, transform, split and round override one stage each. ignore: patterns of
    linears left alone. overrides: "PATTERN=GRID". calib: calibration files (none: the text that ships). memory: a ceiling, in bytes or as
    "6G". targets: engines ("vllm:tp=2") whose rules are checked first. resume: go on with "<out>.partial", to the same bytes.

    recipe="auto" finds a grid for each linear, with one of budget (4.5: mean bits of a weight; "5G": bytes of all weights), fit
    ("24G,context=32k,users=8") and max_kl (0.01: nats a token); tries: the grids that it may take. It goes on with "<out>.auto" as well.

    adapter: a folder with a LoRA adapter (PEFT's), which is merged into the model first. link: with `rehearse`, what joins ranks ("10G,50":
    bits a second, microseconds of delay). gather: of several ranks rank 0 writes alone. requantize: a model that is stored in fewer
    than six bits a weight is quantized once more.

    Ctrl-C, an exception in `progress` or its true answer stops it; "<out>.partial" stays, and `resume` goes on.
    """
    return _run(lib.pith_quantize, _abi.pith_quantize_options, lib.pith_quantize_defaults_sized,
                dict(model=path_of(model), out=out, recipe=recipe, weights=weights, acts=acts, kv=kv, transform=transform, split=split,
                     round=round, ignore=ignore, overrides=overrides, calib=calib, crlf=crlf, calib_tokens=calib_tokens, seq_len=seq_len,
                     container=container, memory=memory, max_shard=max_shard, rehearse=rehearse, targets=targets, resume=resume, seed=seed,
                     allow_error=allow_error, experts=experts, budget=None if budget is None else str(budget), fit=fit, max_kl=max_kl, tries=tries,
                     adapter=adapter, link=link, gather=gather, requantize=requantize),
                using, progress)


def convert(model: PathName, out: PathName, *, container: Optional[str] = None, weights: Optional[str] = None, targets: Files = (),
            max_shard: Union[int, str, None] = None, allow_error: Optional[float] = None, resume: bool = False,
            adapter: Optional[PathName] = None, gather: bool = False, progress: Optional[Progress] = None, using: Optional[Context] = None) -> Dict[str, Any]:
    """Writes a quantized checkpoint in another container and returns its pith.json: codes, scales and zero points go over as they are.

    weights: a grid for linears that the container cannot hold as they are; without it they are refused.
    """
    return _run(lib.pith_convert, _abi.pith_convert_options, lib.pith_convert_defaults_sized,
                dict(model=path_of(model), out=out, container=container, weights=weights, targets=targets, max_shard=max_shard,
                     allow_error=allow_error, resume=resume, adapter=adapter, gather=gather), using, progress)


def verify(model: PathName, *, against: Optional[PathName] = None, targets: Files = (), adapter: Optional[PathName] = None,
           progress: Optional[Progress] = None, using: Optional[Context] = None) -> Dict[str, Any]:
    """Checks a checkpoint against its pith.json, the original (`against`) and the rules of engines, and returns what was checked.

    Raises Mismatch when anything is off; its `report` has all problems.
    """
    return _run(lib.pith_verify, _abi.pith_verify_options, lib.pith_verify_defaults_sized,
                dict(model=path_of(model), against=None if against is None else path_of(against), targets=targets, adapter=adapter), using, progress)
