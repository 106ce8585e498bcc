"""Models by the name that they have on the Hugging Face hub."""
from __future__ import annotations

import ctypes
import os
from typing import Any, Dict, Iterable, Optional, Union

from . import _abi
from ._library import PathName, Text, call, encoded, lib, options
from .context import LongCall, Progress

Files = Union[PathName, Iterable[PathName]]


def cache_folder() -> Optional[str]:
    """The folder that Hugging Face's tools share, as the environment names it."""
    for variable, more in (("HF_HUB_CACHE", ""), ("HF_HOME", "hub"), ("XDG_CACHE_HOME", "huggingface/hub"),
                           ("HOME", ".cache/huggingface/hub")):
        value = os.environ.get(variable)
        if value:
            return os.path.join(value, more) if more else value
    return None


def _options(values: Dict[str, Any]) -> Any:
    return options(_abi.pith_hub_options, lib.pith_hub_defaults_sized, values)


def find(name: str, *, cache: Optional[PathName] = None) -> str:
    """The path of a model in the cache of Hugging Face's tools by its name: "org/name", "org/name@revision". Nothing is downloaded."""
    o, path = _options({"cache": cache or cache_folder()}), Text()
    call(lib.pith_hub_find, ctypes.byref(o), encoded(name, "name"), path.out)
    return os.fsdecode(path.take() or b"")


def pull(name: str, *, cache: Optional[PathName] = None, endpoint: Optional[str] = None, token: Optional[str] = None,
         files: Files = (), jobs: Optional[int] = None, progress: Optional[Progress] = None) -> Dict[str, Any]:
    """Downloads what the cache lacks of a model and compares each file with its hash; "path" of the report is the folder.

    endpoint: the hub's address (None: $HF_ENDPOINT, else huggingface.co). token: sent to that host alone (None: none). files: patterns of
    paths ("*Q4_K_M.gguf"; none: what pith needs). A call that failed or was stopped goes on where it was when it is made again.
    """
    follow = LongCall(progress)
    o = _options({"cache": cache or cache_folder(), "endpoint": endpoint or os.environ.get("HF_ENDPOINT"), "token": token, "files": files,
                  "jobs": jobs})
    o.progress = follow.progress
    report: Dict[str, Any] = follow.run(lib.pith_hub_pull, ctypes.byref(o), encoded(name, "name"), report=Text())
    return report


def path_of(model: PathName) -> PathName:
    """A model's path: what exists as it is, else what the cache has under that name."""
    if os.path.exists(model) or not isinstance(model, str) or not lib.pith_hub_is_name(encoded(model, "model")):
        return model
    return find(model)
