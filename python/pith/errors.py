"""Failures: one class for each status of the library, all of them PithError."""
from __future__ import annotations

from typing import Any, Dict, Optional, Type

from . import _abi


class PithError(Exception):
    """A call of the library failed. str() tells what, in which file and tensor, and what to do about it.

    status: the status's name ("FORMAT"). report: what the call had found until then, of calls that say so; else None.
    """

    status = ""

    def __init__(self, text: str = "", report: Optional[Any] = None) -> None:
        super().__init__(text)
        self.report = report


class OutOfMemory(PithError, MemoryError):
    status = "NOMEM"


class FileError(PithError, OSError):
    """A file cannot be read or written."""

    status = "IO"


class FormatError(PithError, ValueError):
    """A file, a conversation or a text is not what it should be."""

    status = "FORMAT"


class Unsupported(PithError, NotImplementedError):
    """Valid, but not supported by this version, container or engine."""

    status = "UNSUPPORTED"


class ArgumentError(PithError, ValueError):
    status = "ARG"


class NumericError(PithError, ArithmeticError):
    """Numbers that are not finite or cannot be solved."""

    status = "NUMERIC"


class Interrupted(PithError):
    """The caller stopped the call."""

    status = "INTERRUPTED"


class Mismatch(PithError):
    """What was verified differs from what was meant."""

    status = "MISMATCH"


class LimitExceeded(PithError):
    """A limit that was set cannot be met."""

    status = "LIMIT"


class TooLong(LimitExceeded):
    """Prompt and answer do not fit the context."""

    status = "LENGTH"


class Busy(PithError):
    """Too many requests wait already."""

    status = "BUSY"


class Closed(PithError):
    """Nothing more is accepted."""

    status = "CLOSED"


CLASSES: Dict[str, Type[PithError]] = {
    c.status: c
    for c in (OutOfMemory, FileError, FormatError, Unsupported, ArgumentError, NumericError, Interrupted, Mismatch, LimitExceeded, TooLong, Busy,
              Closed)
}
_BY_NUMBER = {number: CLASSES.get(name, PithError) for name, number, _ in _abi.STATUSES}


def of(error: _abi.pith_error, status: int, report: Optional[Any] = None) -> PithError:
    """The exception for a call that returned `status` and filled in `error`."""
    text = error.text.decode("utf-8", "replace") or dict((n, t) for _, n, t in _abi.STATUSES).get(status, f"status {status}")
    return _BY_NUMBER.get(status, PithError)(text, report)
