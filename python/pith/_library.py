"""The loaded library, and what Python's values become for it."""
from __future__ import annotations

import ctypes
import json
import os
import weakref
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, Optional, Union

from . import _abi, errors

# Names of files: what the system takes for one.
PathName = Union[str, "os.PathLike[str]"]


def _load() -> _abi.Library:
    path = os.environ.get("PITH_LIBRARY") or str(Path(__file__).with_name("libpith.so"))
    library = _abi.Library(ctypes.CDLL(path))
    version = library.pith_version().decode()
    if version != _abi.VERSION:
        raise ImportError(f"pith {_abi.VERSION} for Python cannot use {path}, which is {version}")
    return library


lib = _load()


def check(status: int, error: _abi.pith_error) -> None:
    if status != 0:
        raise errors.of(error, status)


def call(function: Callable[..., int], *arguments: Any) -> None:
    """Calls what takes a struct pith_error at its end."""
    error = _abi.pith_error()
    check(function(*arguments, ctypes.byref(error)), error)


class Text:
    """A text that the library hands over."""

    def __init__(self) -> None:
        self._text = ctypes.c_char_p()
        self._size = ctypes.c_size_t()

    @property
    def out(self) -> Any:
        return ctypes.byref(self._text)

    @property
    def size(self) -> Any:
        return ctypes.byref(self._size)

    def take(self) -> Optional[bytes]:
        """The text, of `size` bytes where the library gave one; what the library held is freed."""
        try:
            if self._size.value:
                return ctypes.string_at(ctypes.cast(self._text, ctypes.c_void_p), self._size.value)
            return self._text.value
        finally:
            lib.pith_text_free(self._text)
            self._text = ctypes.c_char_p()

    def report(self) -> Any:
        text = self.take()
        return None if text is None else json.loads(text)


def report_of(function: Callable[..., int], *arguments: Any) -> Any:
    """The JSON that a call hands over, whose last parameters are `report` and `err`."""
    text = Text()
    call(function, *arguments, text.out)
    return text.report()


def encoded(value: Union[str, bytes, "os.PathLike[str]"], name: str) -> bytes:
    """Text for the library: no NUL within."""
    raw = os.fsencode(value)
    if b"\0" in raw:
        raise errors.ArgumentError(f"{name}: a text with a NUL in it")
    return raw


def bytes_of(value: Union[int, str], name: str) -> int:
    """A size in bytes: a number, or a text such as "6G"."""
    if isinstance(value, int):
        return value
    number = ctypes.c_uint64()
    if not lib.pith_number_parse(encoded(value, name), ctypes.byref(number)):
        raise errors.ArgumentError(f"{name}: '{value}' is no size")
    return number.value


def list_of(values: Union[PathName, Iterable[PathName]], name: str) -> _abi.pith_list:
    """A struct pith_list that keeps its texts alive; one text is a list of one."""
    items = [values] if isinstance(values, (str, os.PathLike)) else list(values)
    array = (ctypes.c_char_p * len(items))(*[encoded(v, name) for v in items])
    return _abi.pith_list(ctypes.cast(array, ctypes.POINTER(ctypes.c_char_p)), len(items))


# Of the options that count bytes.
_BYTES = ("memory", "max_shard")


def fill(struct: Any, values: Dict[str, Any]) -> None:
    """Sets fields of a struct by name; None leaves the default."""
    kinds = {name: kind for name, kind, *_ in struct._fields_}
    for name, value in values.items():
        if value is None:
            continue
        kind = kinds[name]
        if kind is ctypes.c_char_p:
            value = encoded(value, name)
        elif kind is _abi.pith_list:
            value = list_of(value, name)
        elif kind is ctypes.c_bool:
            value = bool(value)
        elif name in _BYTES:
            value = within(bytes_of(value, name), kind, name)
        elif kind in (ctypes.c_float, ctypes.c_double):
            value = float(value)
        else:
            value = within(int(value), kind, name)
        setattr(struct, name, value)


def within(value: int, kind: Any, name: str) -> int:
    """ctypes cuts off what does not fit; here it is refused."""
    if kind(value).value != value:
        raise errors.ArgumentError(f"{name}: {value} is out of range")
    return value


def options(kind: Any, defaults: Callable[..., None], values: Dict[str, Any]) -> Any:
    """A struct of options: the library's defaults, and what was given."""
    made = kind()
    defaults(ctypes.byref(made), ctypes.sizeof(made))
    fill(made, values)
    return made


def text_at(struct: Any, name: str, size: int) -> bytes:
    """`size` bytes at a struct's char pointer, which need not end with a NUL."""
    address = ctypes.c_void_p.from_buffer(struct, getattr(type(struct), name).offset).value
    return ctypes.string_at(address, size) if address and size else b""


def floats(address: Any, count: int) -> Any:
    """The library's floats as a buffer, which are freed when nobody holds it any more."""
    buffer = (ctypes.c_float * count).from_address(ctypes.cast(address, ctypes.c_void_p).value or 0)
    weakref.finalize(buffer, lib.pith_text_free, ctypes.cast(address, ctypes.c_char_p)).atexit = False
    return buffer


def version() -> str:
    """Version of the library, "MAJOR.MINOR.PATCH"."""
    return str(lib.pith_version().decode())
