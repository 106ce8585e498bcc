"""What a checkpoint is worth, and how fast it is."""
from __future__ import annotations

import ctypes
import json
from typing import Any, Callable, Dict, Optional, Sequence, Union

from . import _abi, errors
from ._library import PathName, Text, bytes_of, lib, list_of, options
from .context import Context, LongCall, Progress, given
from .models import Files, path_of


def _size(value: Union[int, str, None], name: str) -> Optional[int]:
    return None if value is None else bytes_of(value, name)


def _eval_options(values: Dict[str, Any]) -> Any:
    for name in ("context", "stride", "max_tokens", "task_length"):
        values[name] = _size(values[name], name)
    for name in ("details", "depth", "run_code", "chat"):
        values[name] = int(values[name])
    return options(_abi.pith_eval_options, lib.pith_eval_defaults_sized, values)


def evaluate(model: PathName, *, baseline: Optional[PathName] = None, texts: Files = (), crlf: Optional[str] = None, tasks: Files = (),
             convention: Optional[str] = None, kv: Optional[str] = None, kv_layers: Files = (), attn: Optional[str] = None,
             context: Union[int, str, None] = None, stride: Union[int, str, None] = None, max_tokens: Union[int, str, None] = None,
             task_limit: Optional[int] = None, task_length: Union[int, str, None] = None, task_seed: Optional[int] = None,
             shots: Optional[int] = None, prompts: Optional[PathName] = None, details: bool = False, depth: bool = False,
             run_code: bool = False, chat: bool = False, chat_template: Optional[PathName] = None, progress: Optional[Progress] = None, using: Optional[Context] = None) -> Dict[str, Any]:
    """Perplexity of texts, divergence from a baseline, accuracy of tasks: what `pith eval --json` prints.

    context: tokens of a window, as everywhere in measuring (4096, "4k"); `using` is the Context that computes.
    """
    o = _eval_options(dict(
        model=path_of(model), baseline=None if baseline is None else path_of(baseline), texts=texts, crlf=crlf, tasks=tasks,
        convention=convention, kv=kv, kv_layers=kv_layers, attn=attn, context=context, stride=stride, max_tokens=max_tokens,
        task_limit=task_limit, task_length=task_length, task_seed=task_seed, shots=shots, prompts=prompts, details=details, depth=depth,
        run_code=run_code, chat=chat, chat_template=None if chat_template is None else path_of(chat_template)))
    with given(using) as c:
        report: Dict[str, Any] = c.run(lib.pith_eval, ctypes.byref(o), progress=progress, report=Text())
    return report


def compare(models: Sequence[PathName], *, texts: Files = (), crlf: Optional[str] = None, tasks: Files = (),
            convention: Optional[str] = None, kv: Optional[str] = None, kv_layers: Files = (), caches: Files = (),
            attn: Optional[str] = None, context: Union[int, str, None] = None, stride: Union[int, str, None] = None,
            max_tokens: Union[int, str, None] = None, task_limit: Optional[int] = None, task_length: Union[int, str, None] = None,
            task_seed: Optional[int] = None, shots: Optional[int] = None, prompts: Optional[PathName] = None, details: bool = False,
            depth: bool = False, run_code: bool = False, chat: bool = False, chat_template: Optional[PathName] = None,
            measured: Optional[Callable[[Dict[str, Any]], Any]] = None,
            progress: Optional[Progress] = None, using: Optional[Context] = None) -> Dict[str, Any]:
    """Measures several models on the same texts and tasks, each against the first: what `pith compare --json` prints.

    measured: told what was found of each model as soon as it is there. A call that is stopped (Interrupted) has the models that are done
    in the exception's `report`.
    """
    if isinstance(models, (str, bytes)):
        raise errors.ArgumentError("models: a list of models")
    o = _eval_options(dict(
        texts=texts, crlf=crlf, tasks=tasks, convention=convention, kv=kv, kv_layers=kv_layers, caches=caches, attn=attn, context=context,
        stride=stride, max_tokens=max_tokens, task_limit=task_limit, task_length=task_length, task_seed=task_seed, shots=shots,
        prompts=prompts, details=details, depth=depth, run_code=run_code, chat=chat,
        chat_template=None if chat_template is None else path_of(chat_template)))
    names = list_of([path_of(m) for m in models], "models")
    follow = LongCall(progress)
    tell = measured

    def one(ctx: Optional[int], text: bytes) -> None:
        if tell is not None:
            found = json.loads(text)
            follow.tell(lambda: tell(found))

    if tell is not None:
        o.measured = _abi.pith_eval_options_measured(one)
    with given(using) as c:
        report: Dict[str, Any] = c.run(lib.pith_compare, ctypes.byref(names), ctypes.byref(o), follow=follow, report=Text())
    return report


def bench(model: PathName, *, prompt: Optional[int] = None, gen: Optional[int] = None, depth: Union[int, str, None] = None,
          reps: Optional[int] = None, kv: Optional[str] = None, kv_layers: Files = (), mode: Optional[str] = None,
          weights: Optional[str] = None, head: Optional[str] = None, seed: Optional[int] = None, sequences: Optional[int] = None,
          progress: Optional[Progress] = None, using: Optional[Context] = None) -> Dict[str, Any]:
    """How fast a checkpoint reads (`prompt` tokens) and writes (`gen` tokens) on this machine: what `pith bench --json` prints."""
    o = options(_abi.pith_bench_options, lib.pith_bench_defaults_sized,
                dict(model=path_of(model), prompt=prompt, gen=gen, depth=_size(depth, "depth"), reps=reps, kv=kv, kv_layers=kv_layers,
                     mode=mode, weights=weights, head=head, seed=seed, sequences=sequences))
    with given(using) as c:
        report: Dict[str, Any] = c.run(lib.pith_bench, ctypes.byref(o), progress=progress, report=Text())
    return report
