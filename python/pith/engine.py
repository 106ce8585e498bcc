"""Many requests over one model: submit a request, get events."""
from __future__ import annotations

import ctypes
import json
import os
import secrets
import threading
import time
import weakref
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, AsyncIterator, Deque, Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Union

from . import _abi, errors
from ._library import PathName, Text, call, encoded, floats, lib, options
from .chat import Delta, Reply, ReplyFormat, Said, ToolCall
from .context import Context, Progress
from .models import Files, path_of
from .requests import Answer, Event, How, Prompt, Request, Usage, request_of, set_prompt, submit, within_event

if TYPE_CHECKING:
    import numpy
    import numpy.typing
    from typing_extensions import Unpack  # for who checks types alone

Messages = Sequence[Dict[str, Any]]


class State(NamedTuple):
    """What an engine is doing and has done; counters run from its start."""

    running: int
    waiting: int
    sequences: int
    pages: int
    pages_used: int
    pages_cached: int
    context: int
    vocab: int
    steps: int
    preempted: int
    prompt_tokens: int
    cached_tokens: int
    generated_tokens: int
    guessed: int
    guessed_right: int
    busy: float
    token_bytes: float
    kv_bits: float
    kv: str


class Message(NamedTuple):
    """What chat() got: one choice. reasoning and tool_calls are empty where the model's marks are not known."""

    content: str
    reasoning: str
    tool_calls: List[ToolCall]
    finish: str


class ChatAnswer(NamedTuple):
    """messages: one for each choice. content, reasoning, tool_calls and finish are those of the first. answer: texts and tokens as the
    model wrote them."""

    messages: List[Message]
    answer: Answer

    @property
    def content(self) -> str:
        return self.messages[0].content

    @property
    def reasoning(self) -> str:
        return self.messages[0].reasoning

    @property
    def tool_calls(self) -> List[ToolCall]:
        return self.messages[0].tool_calls

    @property
    def finish(self) -> str:
        return self.messages[0].finish

    @property
    def usage(self) -> Optional[Usage]:
        return self.answer.usage


class ChatStream:
    """Deltas of a conversation's answer as they come, by `for` or `async for`; then result()."""

    def __init__(self, request: Request, replies: List[Reply]) -> None:
        self.request = request
        self._replies, self._said = replies, [Said() for _ in replies]
        self._ready: Deque[Delta] = deque()

    def _take(self, event: Event) -> None:
        if event.kind not in ("text", "choice"):
            return
        reply = self._replies[event.choice]
        deltas = reply.push(event.text) if event.text else []
        if event.kind == "choice":
            deltas += reply.end()
        for d in deltas:
            self._said[event.choice].add(d)
        self._ready.extend(deltas)

    def __iter__(self) -> Iterator[Delta]:
        return self

    def __next__(self) -> Delta:
        while not self._ready:
            self._take(next(self.request))
        return self._ready.popleft()

    def __aiter__(self) -> AsyncIterator[Delta]:
        return self

    async def __anext__(self) -> Delta:
        while not self._ready:
            self._take(await self.request.__anext__())
        return self._ready.popleft()

    def cancel(self) -> None:
        self.request.cancel()

    def result(self) -> ChatAnswer:
        """Waits for the end and returns all that came."""
        for _ in self:
            pass
        return self._gathered(self.request.result())

    async def result_async(self) -> ChatAnswer:
        """As result(), for a coroutine."""
        async for _ in self:
            pass
        return self._gathered(await self.request)

    def _gathered(self, answer: Answer) -> ChatAnswer:
        messages = []
        for choice, reply, said in zip(answer.choices, self._replies, self._said):
            finish = "tool_calls" if reply.calls and choice.finish == "stop" else choice.finish
            messages.append(Message(said.content, said.reasoning, said.tool_calls, finish))
        return ChatAnswer(messages, answer)

    def __enter__(self) -> "ChatStream":
        return self

    def __exit__(self, *_: object) -> None:
        self.cancel()


class _Handles:
    """The library's handles of an engine, freed once: by close(), when nobody holds the engine, or when the program ends."""

    def __init__(self, context: Context) -> None:
        self.owner = os.getpid()
        self.context = context
        self.engine, self.service = ctypes.c_void_p(), ctypes.c_void_p()

    def free(self) -> None:
        if os.getpid() != self.owner:  # a forked child has none of the threads
            return
        lib.pith_service_close(ctypes.byref(self.service))
        lib.pith_engine_close(ctypes.byref(self.engine))
        self.context.close()


def _free(handles: _Handles) -> None:
    # The service's own thread, which collects garbage within an event, cannot wait for itself.
    if getattr(within_event, "now", False):
        threading.Thread(target=handles.free, name="pith-close").start()
    else:
        handles.free()


class Engine:
    """A model that serves requests: prompts in pieces beside the tokens of running answers, by a thread of its own.

    What a request gets depends on the request alone, to the bit. Any thread may use an engine; close() it, or use `with`.

    model: a folder, a .gguf file, or a name in the hub's cache. threads, cpu, mode: as of Context. kv: the cache's format (None: what the
    checkpoint says, or bf16), kv_layers: "PATTERN=GRID". context: tokens of one request (0: what the model has). sequences: answers that
    run at once. batch: tokens of a step. queue: requests that wait beside those that run. memory: a ceiling in bytes or as "6G"; without it there are pages for
    `tokens`. pace: seconds that pieces of prompts may add to a step while answers run. chat_template: a file in place of the model's.
    prefix_cache: keep what was served for prompts that begin alike. progress: told while the model is loaded.
    """

    def __init__(self, model: PathName, *, threads: int = 0, cpu: Optional[str] = None, mode: Optional[str] = None,
                 kv: Optional[str] = None, kv_layers: Files = (), context: Optional[int] = None, sequences: Optional[int] = None,
                 batch: Optional[int] = None, queue: Optional[int] = None, memory: Union[int, str, None] = None,
                 tokens: Optional[int] = None, pace: Optional[float] = None, chat_template: Optional[PathName] = None,
                 prefix_cache: bool = True, progress: Optional[Progress] = None) -> None:
        o = options(_abi.pith_service_options, lib.pith_service_defaults_sized,
                    dict(context=context, sequences=sequences, batch=batch, queue=queue, memory=memory, tokens=tokens, pace=pace, kv=kv,
                         kv_layers=kv_layers, chat_template=chat_template, no_prefix_cache=int(not prefix_cache)))
        self.model = path_of(model)
        self._template = chat_template
        self._format: Optional[ReplyFormat] = None
        self._lock, self._users, self._open = threading.Condition(), 0, False
        self._most = max(1, int(o.sequences))
        self._queue = int(o.queue)
        handles = self._handles = _Handles(Context(threads, cpu, mode))
        self._end = weakref.finalize(self, _free, handles)
        try:
            handles.context.run(lib.pith_engine_open, encoded(self.model, "model"), ctypes.byref(handles.engine), progress=progress)
            call(lib.pith_service_open, handles.engine, ctypes.byref(o), ctypes.byref(handles.service))
        except BaseException:
            self._end()
            raise
        self._open = True

    # --- life ---------------------------------------------------------------------------------------------------------------------------

    @contextmanager
    def _used(self) -> Iterator[ctypes.c_void_p]:
        """The service, which is not closed meanwhile."""
        with self._lock:
            if not self._open:
                raise errors.Closed("the engine is closed")
            self._users += 1
        try:
            yield self._handles.service
        finally:
            with self._lock:
                self._users -= 1
                self._lock.notify_all()

    def drain(self) -> None:
        """From here on nothing is accepted (Closed); what was accepted goes on."""
        with self._used() as service:
            lib.pith_service_drain(service)

    def close(self) -> None:
        """Ends what still runs as "cancelled" and frees the model."""
        with self._lock:
            self._open = False
            while self._users:
                self._lock.wait()
        self._end()

    @property
    def closed(self) -> bool:
        return not self._open

    def __enter__(self) -> "Engine":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> "Engine":
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def _cancel(self, id_: int) -> None:
        try:
            with self._used() as service:
                lib.pith_cancel(service, id_)
        except errors.Closed:
            pass

    # --- answers ------------------------------------------------------------------------------------------------------------------------

    def submit(self, prompt: Optional[Prompt] = None, *, conversation: Union[Messages, Dict[str, Any], None] = None, bare: bool = False,
               max_tokens: Optional[int] = None, min_tokens: Optional[int] = None, temperature: Optional[float] = None,
               top_k: Optional[int] = None, top_p: Optional[float] = None, min_p: Optional[float] = None, typical: Optional[float] = None,
               repetition: Optional[float] = None, frequency: Optional[float] = None, presence: Optional[float] = None,
               seed: Optional[int] = None, bias: Optional[Dict[int, float]] = None, stop: Union[str, Sequence[str]] = (),
               keep_stop: bool = False, stop_ids: Sequence[int] = (), ignore_end: bool = False, special: bool = False, n: Optional[int] = None,
               best_of: Optional[int] = None, logprobs: Optional[int] = None, prompt_logprobs: Optional[int] = None, echo: bool = False,
               prompt_only: bool = False, json: bool = False, schema: Union[str, Dict[str, Any], None] = None, expression: Optional[str] = None,
               lookup: Optional[int] = None, deadline: Optional[float] = None, client: Optional[int] = None) -> Request:
        """Hands over a request; the answer comes as events.

        prompt: a text (BOS is put in front where the tokenizer says so, unless `bare`) or ids; or conversation: messages, or
        {"messages", "tools", other variables of the chat template}. max_tokens: at most so many (None: as the context has room for).
        temperature 0 (None): greedy. stop: texts that end an answer and are no part of it unless `keep_stop`; stop_ids: tokens.
        ignore_end: the model's own ends are tokens like others. special: special tokens stand in the text. n: choices; best_of: the best
        of so many. logprobs: that many alternatives of each token (0: its own value alone), prompt_logprobs: the same of the prompt's.
        prompt_only: no token is chosen; the prompt, which may fill the context, is read and told.
        json, schema, expression: a JSON object, JSON of that schema, what a regular expression matches. lookup: tokens guessed from the
        text so far and verified in one step. deadline: seconds from now. client: requests of one client share its turns.

        Raises Busy when too many wait, LimitExceeded when prompt and answer do not fit the context, and as the library tells.
        """
        values = dict(locals())
        for name in ("self", "prompt", "conversation"):
            del values[name]
        if (prompt is None) == (conversation is None):
            raise errors.ArgumentError("a prompt or a conversation")
        if max_tokens == 0 and not prompt_only: # 0 is the library's word for None
            raise errors.ArgumentError("max_tokens: at least 1; prompt_only reads a prompt alone, None is as many as the context has room for")
        request = request_of(prompt, None if conversation is None else _json(conversation), values)
        with self._used() as service:
            id_, sink = submit(service, request)
        return Request(self, id_, sink)

    def stream(self, prompt: Prompt, **how: Unpack[How]) -> Request:
        """submit() by another name: `for event in engine.stream("Once"): print(event.text, end="")`."""
        return self.submit(prompt, **how)

    def generate(self, prompt: Prompt, **how: Unpack[How]) -> Answer:
        """Continues a prompt; keywords as of submit()."""
        return self.submit(prompt, **how).result()

    def generate_many(self, prompts: Iterable[Union[Prompt, Dict[str, Any]]], **how: Unpack[How]) -> Iterator[Answer]:
        """Answers to many prompts in their order, so many at a time as the engine takes. A prompt may be a dict: the keywords of submit(),
        "prompt" among them, beside those for all."""
        running: Deque[Request] = deque()
        most = min(2 * self._most, self._most + self._queue)
        for p in prompts:
            one: Dict[str, Any] = {**how, **p} if isinstance(p, dict) else {**how, "prompt": p}
            while True:
                if len(running) < most:
                    try:
                        running.append(self.submit(**one))
                        break
                    except errors.Busy:  # others use the engine too
                        if not running:
                            time.sleep(0.005)
                if running:
                    yield running.popleft().result()
        while running:
            yield running.popleft().result()

    # --- conversations ------------------------------------------------------------------------------------------------------------------

    def chat_stream(self, messages: Messages, *, tools: Optional[List[Any]] = None, template: Optional[Dict[str, Any]] = None,
                    **how: Unpack[How]) -> ChatStream:
        """Answers a conversation, split as it comes into content, reasoning and calls of the tools that are offered.

        template: further variables of the chat template ("enable_thinking"). Other keywords as of submit().
        """
        conversation = {"messages": list(messages), **({"tools": tools} if tools else {}), **(template or {})}
        form = self._reply_format()
        prompt, choices = self.render(conversation), int(how.get("n") or 1)
        seed = how.get("seed")
        replies = [Reply(form, prompt=prompt, tools=tools, seed=secrets.randbits(64) if seed is None else (seed + i) % 2**64, choice=i)
                   for i in range(choices)]
        if form.special:
            how["special"] = True
        return ChatStream(self.submit(conversation=conversation, **how), replies)

    def chat(self, messages: Messages, *, tools: Optional[List[Any]] = None, template: Optional[Dict[str, Any]] = None,
             **how: Unpack[How]) -> ChatAnswer:
        """Answers a conversation: chat_stream(...).result()."""
        return self.chat_stream(messages, tools=tools, template=template, **how).result()

    def _reply_format(self) -> ReplyFormat:
        with self._lock:
            if self._format is None:
                self._format = ReplyFormat(self.model, self._template)
            return self._format

    def render(self, conversation: Union[Messages, Dict[str, Any]]) -> str:
        """The prompt that a conversation becomes."""
        text, raw = Text(), _json(conversation)
        with self._used() as service:
            call(lib.pith_service_render, service, raw, text.out, text.size)
        return (text.take() or b"").decode()

    # --- beside answers -----------------------------------------------------------------------------------------------------------------

    def encode(self, text: str, *, special: bool = True) -> List[int]:
        """Ids of a text; special: BOS in front where the tokenizer says so."""
        given, ids = _input(text, special), Text()
        with self._used() as service:
            call(lib.pith_service_encode, service, ctypes.byref(given), ids.out)
        found: List[int] = ids.report()
        return found

    def decode(self, ids: Sequence[int], *, special: bool = False) -> str:
        """The text of ids; special: special tokens stand in it."""
        given, text = _input(ids, special), Text()
        with self._used() as service:
            call(lib.pith_service_decode, service, ctypes.byref(given), text.out, text.size)
        return (text.take() or b"").decode("utf-8", "replace")

    def token(self, id_: int) -> bytes:
        """The bytes that one id adds to a text in whose middle it stands, which may be a part of a character; of a special token its name."""
        text = Text()
        with self._used() as service:
            call(lib.pith_service_token, service, id_, text.out, text.size)
        return text.take() or b""

    def embed(self, prompt: Prompt, *, normal: bool = False, special: bool = True) -> "numpy.typing.NDArray[numpy.float32]":
        """The mean of the last hidden rows of a text or ids: a numpy view of the library's memory, freed when no array shows it.

        normal: its length becomes 1.
        """
        import numpy

        given = _input(prompt, special)
        given.normal = int(normal)
        out, width = ctypes.POINTER(ctypes.c_float)(), ctypes.c_size_t()
        with self._used() as service:
            call(lib.pith_service_embed, service, ctypes.byref(given), ctypes.byref(out), ctypes.byref(width))
        view: "numpy.typing.NDArray[numpy.float32]" = numpy.frombuffer(floats(out, width.value), dtype=numpy.float32)
        return view

    def state(self) -> State:
        """What it is doing and has done."""
        s = _abi.pith_service_state()
        s.size = ctypes.sizeof(s)
        with self._used() as service:
            lib.pith_service_state(service, ctypes.byref(s))
            kv = (s.kv or b"").decode()  # the service's own text
        return State(**{name: getattr(s, name) for name in State._fields if name != "kv"}, kv=kv)


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()


def _input(prompt: Any, special: bool) -> Any:
    given = _abi.pith_input_text()
    set_prompt(given, prompt, "size", "count")
    given.special = int(special)
    return given
