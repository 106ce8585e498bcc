"""What is asked of an engine, and what it tells: events, and answers gathered from them."""
from __future__ import annotations

import asyncio
import ctypes
import itertools
import json
import queue
import threading
from typing import Any, AsyncIterator, Dict, Generator, Iterator, List, NamedTuple, Optional, Sequence, Tuple, TypedDict, Union

from . import _abi, errors
from ._library import encoded, fill, lib, text_at

_KINDS = {_abi.PITH_EVENT_PROMPT: "prompt", _abi.PITH_EVENT_TEXT: "text", _abi.PITH_EVENT_CHOICE: "choice", _abi.PITH_EVENT_END: "end",
          _abi.PITH_EVENT_FAILED: "failed"}


class Token(NamedTuple):
    """logprob: natural, of the model's distribution; NaN where there is none. top: (id, logprob) of the likeliest, best first. offset: where
    it begins, in characters of the choice's text (or the prompt's); a part of a character begins where that does."""

    id: int
    logprob: float
    top: Tuple[Tuple[int, float], ...]
    offset: int = 0


class Usage(NamedTuple):
    """Tokens, and seconds from submit to admission, first token, end. cached: of the prompt, that were not computed again."""

    prompt: int
    cached: int
    generated: int
    guessed: int
    guessed_right: int
    queued: float
    first: float
    seconds: float


class Event(NamedTuple):
    """kind: "prompt" (text and tokens of the prompt), "text" (some more of a choice), "choice" (it has ended, perhaps with a last piece:
    finish is "stop", "length", "cancelled" or "deadline"), "end" (all have: usage)."""

    kind: str
    choice: int
    text: str
    tokens: Tuple[Token, ...]
    finish: Optional[str] = None
    stop: Optional[str] = None
    stop_id: int = -1
    usage: Optional[Usage] = None


class Choice:
    """One answer to a request."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.text = ""
        self.tokens: List[Token] = []
        self.finish: str = ""
        self.stop: Optional[str] = None
        self.stop_id = -1

    def __repr__(self) -> str:
        return f"Choice({self.index}, {self.text!r}, {self.finish!r})"

    def add(self, event: Event) -> None:
        self.text += event.text
        self.tokens.extend(event.tokens)
        if event.finish is not None:
            self.finish, self.stop, self.stop_id = event.finish, event.stop, event.stop_id


class Answer:
    """All that a request got. text, tokens and finish are those of the first choice; prompt: the prompt's tokens, where they were asked
    for with prompt_logprobs or echo."""

    def __init__(self) -> None:
        self.choices: List[Choice] = []
        self.prompt: Tuple[Token, ...] = ()
        self.prompt_text = ""
        self.usage: Optional[Usage] = None

    def __repr__(self) -> str:
        return f"Answer({self.choices!r})"

    def add(self, event: Event) -> None:
        if event.kind == "prompt":
            self.prompt, self.prompt_text = event.tokens, event.text
        elif event.kind == "end":
            self.usage = event.usage
        else:
            while len(self.choices) <= event.choice:
                self.choices.append(Choice(len(self.choices)))
            self.choices[event.choice].add(event)

    @property
    def text(self) -> str:
        return self.choices[0].text

    @property
    def tokens(self) -> List[Token]:
        return self.choices[0].tokens

    @property
    def finish(self) -> str:
        return self.choices[0].finish


# --- what the service's thread tells ----------------------------------------------------------------------------------------------------

Told = Union[Event, errors.PithError]


class Sink:
    """Where events of a request go; knows nothing of the engine, so that an engine can end while requests run."""

    def __init__(self) -> None:
        self.told: "queue.SimpleQueue[Told]" = queue.SimpleQueue()
        self.over = False
        self._waiting: Optional[Tuple[asyncio.AbstractEventLoop, asyncio.Event]] = None

    def put(self, what: Told, last: bool) -> None:
        self.told.put(what)
        if last:
            self.over = True
        waiting = self._waiting
        if waiting:
            try:
                waiting[0].call_soon_threadsafe(waiting[1].set)
            except RuntimeError:  # that loop is closed: nobody waits
                self._waiting = None

    async def get(self) -> Told:
        """The next, for a coroutine of the running loop."""
        loop = asyncio.get_running_loop()
        if self._waiting is None or self._waiting[0] is not loop:
            self._waiting = (loop, asyncio.Event())
        event = self._waiting[1]
        while True:
            event.clear()
            try:
                return self.told.get_nowait()
            except queue.Empty:
                await event.wait()


_sinks: Dict[int, Sink] = {}
_numbers = itertools.count(1)
# Set while the service's thread is within an event, where no service may be closed.
within_event = threading.local()


def _token(t: Any, offset: int) -> Token:
    return Token(t.id, t.logprob, tuple((t.top[i].id, t.top[i].logprob) for i in range(t.tops)), offset)


def _decoded(text: Optional[bytes]) -> Optional[str]:
    return None if text is None else text.decode("utf-8", "replace")


def _event(e: Any) -> Event:
    u = e.usage
    return Event(_KINDS[e.kind], e.choice, text_at(e, "text", e.text_size).decode("utf-8", "replace"),
                 tuple(_token(e.token[i], e.offset[i]) for i in range(e.tokens)), _decoded(e.finish), _decoded(e.stop),
                 e.stop_id if e.kind == _abi.PITH_EVENT_CHOICE else -1,
                 Usage(*(getattr(u, name) for name in Usage._fields)) if e.kind == _abi.PITH_EVENT_END else None)


def _on_event(ctx: Optional[int], address: Any) -> None:
    within_event.now = True
    sink = _sinks[ctx or 0]
    try:
        e = _abi.pith_event.from_address(address)
        last = e.kind in (_abi.PITH_EVENT_END, _abi.PITH_EVENT_FAILED)
        if last:
            del _sinks[ctx or 0]
        if e.kind == _abi.PITH_EVENT_FAILED:
            sink.put(errors.of(e.error.contents, e.status), True)
        else:
            sink.put(_event(e), last)
    except BaseException as problem:  # out of memory, most likely: who waits must not wait for ever
        sink.put(errors.PithError(f"an event was lost: {problem!r}"), True)
    finally:
        within_event.now = False


# One function for all requests; ctx is the number of a sink.
_callback = _abi.pith_request_event(_on_event)

# --- what is asked ----------------------------------------------------------------------------------------------------------------------

Prompt = Union[str, Sequence[int]]


class How(TypedDict, total=False):
    """The keywords of Engine.submit(), prompt and conversation aside: what generate(), stream() and chat() take, too."""

    bare: bool
    max_tokens: Optional[int]
    min_tokens: Optional[int]
    temperature: Optional[float]
    top_k: Optional[int]
    top_p: Optional[float]
    min_p: Optional[float]
    typical: Optional[float]
    repetition: Optional[float]
    frequency: Optional[float]
    presence: Optional[float]
    seed: Optional[int]
    bias: Optional[Dict[int, float]]
    stop: Union[str, Sequence[str]]
    keep_stop: bool
    stop_ids: Sequence[int]
    ignore_end: bool
    special: bool
    n: Optional[int]
    best_of: Optional[int]
    logprobs: Optional[int]
    prompt_logprobs: Optional[int]
    echo: bool
    prompt_only: bool
    json: bool
    schema: Union[str, Dict[str, Any], None]
    expression: Optional[str]
    lookup: Optional[int]
    deadline: Optional[float]
    client: Optional[int]


def _ids(values: Any, name: str) -> Tuple[Any, int]:
    """int32 for the library: what is an array of it already is not copied."""
    if not isinstance(values, (list, tuple)):
        try:
            view = memoryview(values)
            if view.ndim == 1 and view.format == "i" and view.itemsize == 4 and view.c_contiguous and not view.readonly:
                return (ctypes.c_int32 * len(view)).from_buffer(view), len(view)
        except TypeError:
            pass
    numbers = [int(v) for v in values]
    if any(not -2**31 <= v < 2**31 for v in numbers):
        raise errors.ArgumentError(f"{name}: an id is out of range")
    return (ctypes.c_int32 * len(numbers))(*numbers), len(numbers)


def _point(struct: Any, field: str, count: str, array: Any, size: int) -> None:
    setattr(struct, field, ctypes.cast(array, dict(type(struct)._fields_)[field]))
    setattr(struct, count, size)


def _set_constraint(r: Any, json_object: bool, schema: Any, expression: Optional[str]) -> None:
    given = [json_object, schema is not None, expression is not None]
    if sum(given) > 1:
        raise errors.ArgumentError("json, schema, expression: one at most")
    if json_object:
        r.constraint = _abi.PITH_JSON
    elif schema is not None:
        r.constraint = _abi.PITH_SCHEMA
        r.constraint_text = encoded(schema, "schema") if isinstance(schema, str) else json.dumps(schema).encode()
    elif expression is not None:
        r.constraint = _abi.PITH_EXPRESSION
        r.constraint_text = encoded(expression, "expression")


_FLAGS = ("bare", "keep_stop", "ignore_end", "special", "echo", "prompt_only")


def set_prompt(struct: Any, prompt: Any, text_size: str, id_count: str) -> None:
    """The fields `text` or `ids` of a struct."""
    if isinstance(prompt, str):
        try:
            raw = prompt.encode()
        except UnicodeEncodeError as e:
            raise errors.FormatError(f"the prompt is not Unicode: {e}") from None
        struct.text = raw
        setattr(struct, text_size, len(raw))
    else:
        array, size = _ids(prompt, "the prompt")
        _point(struct, "ids", id_count, array, size)


def request_of(prompt: Optional[Prompt], conversation: Optional[bytes], values: Dict[str, Any]) -> Any:
    """A struct pith_request. Keywords are those of Engine.submit()."""
    r = _abi.pith_request()
    lib.pith_request_defaults_sized(ctypes.byref(r), ctypes.sizeof(r))
    values = dict(values)
    _set_constraint(r, values.pop("json"), values.pop("schema"), values.pop("expression"))
    bias = values.pop("bias")
    if bias:
        _point(r, "bias", "bias_count", *_ids(list(bias), "bias"))
        r.bias_value = ctypes.cast((ctypes.c_float * len(bias))(*bias.values()), ctypes.POINTER(ctypes.c_float))
    stop_ids = values.pop("stop_ids")
    if stop_ids:
        _point(r, "stop_ids", "stop_id_count", *_ids(stop_ids, "stop_ids"))
    for name in _FLAGS:
        values[name] = int(bool(values[name]))
    fill(r, values)
    if conversation is not None:
        r.conversation = conversation
    elif prompt is not None:
        set_prompt(r, prompt, "text_size", "id_count")
    r.event = _callback
    return r


def submit(service: Any, request: Any) -> Tuple[int, Sink]:
    """Submits, and returns the request's number in the service."""
    number, sink = next(_numbers), Sink()
    request.ctx = number
    id_, error = ctypes.c_uint64(), _abi.pith_error()
    _sinks[number] = sink
    status = lib.pith_submit(service, ctypes.byref(request), ctypes.byref(id_), ctypes.byref(error))
    if status != 0:
        _sinks.pop(number, None)
        raise errors.of(error, status)
    return id_.value, sink


class Request:
    """A request that was accepted: iterate over its events (`for` or `async for`), or wait for the result() (or `await` it).

    A request that is left before its end (an exception, Ctrl-C, the end of a `with`, or no one holds it any more) is cancelled.
    """

    def __init__(self, engine: Any, id_: int, sink: Sink) -> None:
        self._engine, self._sink = engine, sink
        self._answer = Answer()
        self._failure: Optional[errors.PithError] = None
        self._done = False
        self.id = id_

    def cancel(self) -> None:
        """Its choices end as "cancelled" soon; one that is over is left alone."""
        if not self._sink.over:
            self._engine._cancel(self.id)

    def _took(self, told: Told) -> Event:
        if isinstance(told, errors.PithError):
            self._done, self._failure = True, told
            raise told
        self._answer.add(told)
        self._done = told.kind == "end"
        return told

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        if self._done:
            raise StopIteration
        try:
            told = self._sink.told.get()
        except BaseException:  # Ctrl-C
            self.cancel()
            raise
        return self._took(told)

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        if self._done:
            raise StopAsyncIteration
        try:
            told = await self._sink.get()
        except BaseException:  # the task was cancelled
            self.cancel()
            raise
        return self._took(told)

    def result(self) -> Answer:
        """Waits for the end and returns all that came, also what was iterated over before."""
        for _ in self:
            pass
        return self._finished()

    def _finished(self) -> Answer:
        if self._failure:
            raise self._failure
        return self._answer

    async def _awaited(self) -> Answer:
        async for _ in self:
            pass
        return self._finished()

    def __await__(self) -> Generator[Any, None, Answer]:
        return self._awaited().__await__()

    def __enter__(self) -> "Request":
        return self

    def __exit__(self, *_: object) -> None:
        self.cancel()

    async def __aenter__(self) -> "Request":
        return self

    async def __aexit__(self, *_: object) -> None:
        self.cancel()

    def __del__(self) -> None:
        try:
            self.cancel()
        except Exception:  # half made, or the interpreter ends
            pass
