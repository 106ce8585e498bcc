"""Threads and instruction sets, and long calls: followed, and stopped by Ctrl-C."""
from __future__ import annotations

import ctypes
import logging
import os
import queue
import threading
import weakref
from typing import Any, Callable, List, Optional, Union

from . import _abi, errors
from ._library import Text, bytes_of, call, encoded, lib, within

_log = logging.getLogger("pith")

# Told what a long call does: a short phrase, and how much of it is done, of a total that is 0 where it is unknown. A true answer stops the
# call, which then raises Interrupted.
Progress = Callable[[str, float, float], Any]


class LongCall:
    """One call on a thread of its own, while the thread that asked for it waits and hears of it.

    What is told runs in the thread that asked: an exception there, KeyboardInterrupt too, asks the library to stop, and is raised when the
    library has cleaned up. Signals are never handled in the middle of the library this way.
    """

    def __init__(self, progress: Optional[Progress]) -> None:
        self._progress = progress
        self._told: "queue.SimpleQueue[Optional[Callable[[], None]]]" = queue.SimpleQueue()
        self._stop = self._posted = False
        self._latest: Any = None
        # Held as long as the library may call them.
        self.progress = _abi.pith_progress(_abi.pith_progress_fn(self._on_progress), None)
        self.log = _abi.pith_log_fn(self._on_log)

    def _on_progress(self, ctx: Optional[int], what: bytes, done: float, total: float) -> int:
        if self._progress and not self._stop:
            self._latest = (what.decode("utf-8", "replace"), done, total)
            if not self._posted:
                self._posted = True
                self._told.put(self._tell_progress)
        return 1 if self._stop else 0

    def _tell_progress(self) -> None:
        self._posted = False  # before it is read: what comes from here on is told again
        if self._progress and self._progress(*self._latest):
            self._stop = True

    def _on_log(self, ctx: Optional[int], line: bytes) -> None:
        text = line.decode("utf-8", "replace")
        self._told.put(lambda: _log.warning("%s", text))

    def tell(self, what: Callable[[], None]) -> None:
        """Has the waiting thread do something; from within the call."""
        self._told.put(what)

    def run(self, function: Callable[..., int], *arguments: Any, report: Optional[Text] = None) -> Any:
        """Makes the call, whose last parameters are `report` (if given) and `err`, and returns the report."""
        error = _abi.pith_error()
        given = [*arguments, *([report.out] if report else []), ctypes.byref(error)]
        status: List[int] = []

        def work() -> None:
            try:
                status.append(function(*given))
            finally:
                self._told.put(None)

        thread = threading.Thread(target=work, name="pith")
        failure: Optional[BaseException] = None
        thread.start()
        try:
            while True:
                try:
                    told = self._told.get()
                    if told is None:
                        break
                    told()
                except BaseException as e:  # whatever it is, the library's call must end first
                    failure = failure or e
                    self._stop = True
        finally:
            self._stop = True
            while thread.is_alive():
                try:
                    thread.join()
                except BaseException as e:
                    failure = failure or e
        found = report.report() if report else None
        if failure is not None:
            raise failure
        if not status:
            raise errors.PithError("the call could not be made")
        if status[0] != 0:
            raise errors.of(error, status[0], found)
        return found


def _free(handle: ctypes.c_void_p, owner: int) -> None:
    if os.getpid() == owner:  # a forked child has none of the threads
        lib.pith_context_free(ctypes.byref(handle))


class Context:
    """Threads and an instruction set, for calls one after another.

    threads: 0 for all CPUs that the process may use. cpu: "auto", "avx2", ... (None: auto). mode: "exact" (None), what the numbers mean;
    or "fast", what a CPU does best.
    """

    def __init__(self, threads: int = 0, cpu: Optional[str] = None, mode: Optional[str] = None) -> None:
        handle = ctypes.c_void_p()
        if not 0 <= threads < 2**31:
            raise errors.ArgumentError(f"threads: {threads} is out of range")
        call(lib.pith_context_new, threads, None if cpu is None else encoded(cpu, "cpu"), ctypes.byref(handle))
        self._handle = handle
        self._lock = threading.Lock()
        self._end = weakref.finalize(self, _free, handle, os.getpid())
        if mode is not None:
            call(lib.pith_context_set_mode, handle, encoded(mode, "mode"))

    @property
    def threads(self) -> int:
        """Threads in use."""
        return int(lib.pith_context_threads(self._open()))

    @property
    def cpu(self) -> str:
        """The instruction set in use."""
        return str(lib.pith_context_cpu(self._open()).decode())

    def _open(self) -> ctypes.c_void_p:
        if not self._end.alive:
            raise errors.Closed("the context is closed")
        return self._handle

    def run(self, function: Callable[..., int], *arguments: Any, progress: Optional[Progress] = None, follow: Optional[LongCall] = None,
            report: Optional[Text] = None) -> Any:
        """Makes a long call whose first parameter is a context; one at a time, others wait."""
        with self._lock:
            handle = self._open()
            followed = follow or LongCall(progress)
            lib.pith_context_listen(handle, followed.progress, followed.log, None)
            try:
                return followed.run(function, handle, *arguments, report=report)
            finally:
                lib.pith_context_listen(handle, _abi.pith_progress(), _abi.pith_log_fn(), None)

    def close(self) -> None:
        """Frees it, when a call that is at work has ended."""
        with self._lock:
            self._end()

    def __enter__(self) -> "Context":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class given:
    """A context that was given, or one for this call alone."""

    def __init__(self, context: Optional[Context]) -> None:
        self._context = context
        self._own: Optional[Context] = None

    def __enter__(self) -> Context:
        if self._context is not None:
            return self._context
        self._own = Context()
        return self._own

    def __exit__(self, *_: object) -> None:
        if self._own is not None:
            self._own.close()


def guard_files() -> None:
    """From here on, in the whole process, a mapped file that becomes shorter while it is read (SIGBUS) and a write beyond the limit on the
    size of files (SIGXFSZ) are errors of the call that was at work (FileError), where they would end the process."""
    call(lib.pith_guard_files)


def return_memory() -> None:
    """From here on, in the whole process, malloc gives back to the system what was freed, at the price of page faults. Before other
    threads are started: estimates of memory hold then."""
    lib.pith_return_memory()


def limit_memory(size: Union[int, str]) -> None:
    """A ceiling on the memory that the whole process may take of its own, kept by the kernel: bytes, or "6G"."""
    call(lib.pith_limit_memory, within(bytes_of(size, "size"), ctypes.c_uint64, "size"))
