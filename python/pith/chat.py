"""Answers split into what is said, what is thought and which tools are called, by the marks of a model's chat template."""
from __future__ import annotations

import ctypes
import json
import os
import weakref
from typing import Any, Dict, List, NamedTuple, Optional

from . import _abi
from ._library import PathName, Text, call, encoded, lib, options, text_at
from .models import path_of

_KINDS = {_abi.PITH_REPLY_CONTENT: "content", _abi.PITH_REPLY_REASONING: "reasoning", _abi.PITH_REPLY_CALL: "call"}


class Delta(NamedTuple):
    """Some more of an answer. kind: "content", "reasoning" or "call"; of a call, text is (part of) its arguments, in JSON.

    call: the number of a call; id and name: of its first delta. choice: which answer it belongs to.
    """

    kind: str
    text: str
    call: int = 0
    id: Optional[str] = None
    name: Optional[str] = None
    choice: int = 0


class ToolCall(NamedTuple):
    """arguments: JSON, as the model wrote it."""

    id: str
    name: str
    arguments: str


def prompt_of(model: PathName, conversation: Any, *, template: Optional[PathName] = None) -> str:
    """The prompt that a conversation becomes, as transformers' apply_chat_template() makes it. Only the tokenizer's files are read.

    conversation: messages, or {"messages", "tools", "add_generation_prompt", other variables of the template}.
    """
    text = Text()
    call(lib.pith_chat_prompt, encoded(path_of(model), "model"), None if template is None else encoded(template, "template"),
         json.dumps(conversation).encode(), text.out, text.size)
    return (text.take() or b"").decode()


class ReplyFormat:
    """How a model marks reasoning and calls."""

    def __init__(self, model: PathName, template: Optional[PathName] = None) -> None:
        handle = ctypes.c_void_p()
        call(lib.pith_reply_format_open, encoded(path_of(model), "model"), None if template is None else encoded(template, "template"),
             ctypes.byref(handle))
        self._handle = handle
        self._end = weakref.finalize(self, lib.pith_reply_format_close, ctypes.pointer(handle))
        self.name = str(lib.pith_reply_format_name(handle).decode())
        # Whether marks may be special tokens, which must then stand in the text.
        self.special = bool(lib.pith_reply_format_special(handle))
        self.reasoning = self._marks()

    def _marks(self) -> Any:
        """The marks of reasoning: (open, close), or None."""
        close = ctypes.c_char_p()
        opening = lib.pith_reply_format_reasoning(self._handle, ctypes.byref(close))
        return None if opening is None else (opening.decode(), (close.value or b"").decode())


def _end_reply(handle: ctypes.c_void_p, owner: int) -> None:
    if os.getpid() == owner:
        lib.pith_reply_close(ctypes.byref(handle))


class Reply:
    """Splits one answer: push() its text as it comes, end() it; each returns the deltas that are known now.

    forced: the answer is calls and nothing else; single: the first of them alone is told.
    """

    def __init__(self, form: ReplyFormat, *, prompt: str = "", tools: Optional[List[Any]] = None, seed: int = 0,
                 forced: bool = False, single: bool = False, choice: int = 0) -> None:
        raw = prompt.encode()
        self._told: List[Delta] = []
        told = self._told

        def one(ctx: Optional[int], address: Any) -> None:
            d = _abi.pith_reply_delta.from_address(address)
            told.append(Delta(_KINDS[d.kind], text_at(d, "text", d.size).decode("utf-8", "replace"), d.call,
                              None if d.id is None else d.id.decode(), None if d.name is None else d.name.decode("utf-8", "replace"),
                              choice))

        o = options(_abi.pith_reply_options, lib.pith_reply_defaults_sized, {})
        # Held beside the handle: the library calls it.
        self._delta = o.delta = _abi.pith_reply_options_delta(one)
        o.seed, o.prompt, o.prompt_size = seed, raw, len(raw)
        o.forced, o.single = int(forced), int(single)
        o.tools = None if not tools else json.dumps(tools).encode()
        handle = ctypes.c_void_p()
        call(lib.pith_reply_open, form._handle, ctypes.byref(o), ctypes.byref(handle))
        self._format = form
        self._handle = handle
        self._end = weakref.finalize(self, _end_reply, handle, os.getpid())

    def _take(self) -> List[Delta]:
        found = self._told[:]
        self._told.clear()
        return found

    def push(self, text: str) -> List[Delta]:
        raw = text.encode()
        call(lib.pith_reply_push, self._handle, raw, len(raw))
        return self._take()

    def end(self) -> List[Delta]:
        call(lib.pith_reply_end, self._handle)
        return self._take()

    @property
    def calls(self) -> int:
        """Calls that were told so far."""
        return int(lib.pith_reply_calls(self._handle))


class Said:
    """An answer that is gathered from its deltas."""

    def __init__(self) -> None:
        self.content = self.reasoning = ""
        self._calls: Dict[int, List[str]] = {}

    def add(self, delta: Delta) -> None:
        if delta.kind == "content":
            self.content += delta.text
        elif delta.kind == "reasoning":
            self.reasoning += delta.text
        else:
            made = self._calls.setdefault(delta.call, [delta.id or "", delta.name or "", ""])
            made[2] += delta.text

    @property
    def tool_calls(self) -> List[ToolCall]:
        return [ToolCall(*self._calls[i]) for i in sorted(self._calls)]
