"""What each part of a model would cost in fewer bits, which recipe to take, and how to win back what was lost."""
from __future__ import annotations

import ctypes
import json
from typing import Any, Dict, Optional, Union

from . import _abi
from ._library import PathName, Text, call, lib, options
from .context import Context, Progress, given
from .models import Files, path_of


def sensitivity(model: PathName, work: PathName = "pith.sensitivity", *, recipe: Optional[PathName] = None, round: Optional[str] = None,
                container: Optional[str] = None, tries: Files = (), acts: Files = (), caches: Files = (), calib: Files = (),
                targets: Files = (), crlf: Optional[str] = None, experts: Optional[str] = None, calib_tokens: Optional[int] = None,
                seq_len: Optional[int] = None, seed: Optional[int] = None, resume: bool = False, progress: Optional[Progress] = None,
                using: Optional[Context] = None) -> Dict[str, Any]:
    """What `pith sensitivity --json` prints: rows of linears, caches and inputs with the divergence ("kld") that each alone would add.

    work: "<work>.partial" is made for what is in between, and removed; after Ctrl-C, an exception in `progress` or its true answer it
    stays, and `resume` goes on there, to the same numbers. tries: grids of weights; acts: grids of what linears read; caches: KV caches;
    none: several of each; "none" for the latter two: they are not looked at.
    """
    o = options(_abi.pith_sensitivity_options, lib.pith_sensitivity_defaults_sized,
                dict(model=path_of(model), work=work, recipe=recipe, round=round, container=container, tries=tries, acts=acts, caches=caches,
                     calib=calib, targets=targets, crlf=crlf, experts=experts, calib_tokens=calib_tokens, seq_len=seq_len, seed=seed,
                     resume=resume))
    with given(using) as c:
        report: Dict[str, Any] = c.run(lib.pith_sensitivity, ctypes.byref(o), progress=progress, report=Text())
    return report


def sensitivity_page(report: Dict[str, Any]) -> str:
    """A page in HTML, by itself, with heat maps of what sensitivity() found."""
    text = Text()
    call(lib.pith_sensitivity_html, json.dumps(report).encode(), text.out)
    return (text.take() or b"").decode()


def advise(model: PathName, target: str, work: PathName = "pith.advise", *, texts: Files = (), calib: Files = (), crlf: Optional[str] = None,
           round: Optional[str] = None, context: Optional[int] = None, users: Optional[int] = None, candidates: Optional[int] = None,
           max_tokens: Optional[int] = None, calib_tokens: Optional[int] = None, seed: Optional[int] = None, resume: bool = False,
           progress: Optional[Progress] = None, using: Optional[Context] = None) -> Dict[str, Any]:
    """What `pith advise --json` prints: the plan's first recipes for a target ("vllm:gpu=l4"), made, measured and ranked.

    work: "<work>.partial" holds what is tried and is removed; after a call that was stopped it stays, and `resume` goes on there.
    candidates: recipes that are tried, 0 for all that the engine loads.
    round: what recipes that round by GPTQ are rounded by instead ("qep", "qep:kron").
    """
    o = options(_abi.pith_advise_options, lib.pith_advise_defaults_sized,
                dict(model=path_of(model), target=target, work=work, texts=texts, calib=calib, crlf=crlf, round=round, context=context, users=users,
                     candidates=candidates, max_tokens=max_tokens, calib_tokens=calib_tokens, seed=seed, resume=resume))
    with given(using) as c:
        report: Dict[str, Any] = c.run(lib.pith_advise, ctypes.byref(o), progress=progress, report=Text())
    return report


def recover(model: PathName, original: PathName, out: Optional[PathName] = None, *, train: Optional[str] = None, steps: Union[int, str, None] = None,
            text: Files = (), crlf: Optional[str] = None, tokens: Optional[int] = None, seq_len: Optional[int] = None,
            batch: Optional[int] = None, rate: Optional[float] = None, memory: Union[int, str, None] = None, seed: Optional[int] = None,
            resume: bool = False, progress: Optional[Progress] = None, using: Optional[Context] = None) -> Dict[str, Any]:
    """Trains a quantized model to answer as its original does: what `pith recover --json` prints.

    out: folder of the result; None: it takes the place of `model`. train: "scales" or "all"; steps: a number or "auto"; text: files, or
    "self"; after Ctrl-C, an exception in `progress` or its true answer "<out>.partial" stays, and `resume` goes on there.
    """
    o = options(_abi.pith_recover_options, lib.pith_recover_defaults_sized,
                dict(model=path_of(model), original=path_of(original), out=out, train=train, steps=None if steps is None else str(steps),
                     text=text, crlf=crlf, tokens=tokens, seq_len=seq_len, batch=batch, rate=rate, memory=memory, seed=seed, resume=resume))
    with given(using) as c:
        report: Dict[str, Any] = c.run(lib.pith_recover, ctypes.byref(o), progress=progress, report=Text())
    return report
