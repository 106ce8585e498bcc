"""pith: language models in fewer bits, with proof of what it cost, from Python.

    report = pith.quantize("model", "out", recipe="gptq", progress=print)
    pith.verify("out", against="model")
    with pith.Engine("out") as engine:
        for event in engine.stream("Once upon a time", max_tokens=64):
            print(event.text, end="", flush=True)

Everything is computed by the library that the package carries. Failures are PithError, one class for each cause.
"""
from ._library import version
from .chat import Delta, Reply, ReplyFormat, ToolCall, prompt_of
from .checkpoints import convert, quantize, verify
from .context import Context, Progress, guard_files, limit_memory, return_memory
from .engine import ChatAnswer, ChatStream, Engine, Message, State
from .errors import (ArgumentError, Busy, Closed, FileError, FormatError, Interrupted, LimitExceeded, Mismatch, NumericError, OutOfMemory,
                     PithError, Unsupported)
from .looking import (TextLook, compare_page, diff, features, formats, inspect, inspect_page, look_at_text, recipe_keys, recipes, table,
                      weights)
from .measuring import bench, compare, evaluate
from .models import find, pull
from .planning import hardware, measure_hardware, plan, plan_page, plan_quantize, plan_shapes
from .requests import Answer, Choice, Event, How, Request, Token, Usage
from .sensing import advise, recover, sensitivity, sensitivity_page

__version__ = version()

__all__ = [
    "Answer", "ArgumentError", "Busy", "ChatAnswer", "ChatStream", "Choice", "Closed", "Context", "Delta", "Engine", "Event", "FileError",
    "FormatError", "How", "Interrupted", "LimitExceeded", "Message", "Mismatch", "NumericError", "OutOfMemory", "PithError", "Progress", "Reply",
    "ReplyFormat", "Request", "State", "TextLook", "Token", "ToolCall", "Unsupported", "Usage", "advise", "bench", "compare", "compare_page",
    "convert", "diff", "evaluate", "features", "find", "formats", "guard_files", "inspect", "inspect_page",
    "hardware", "limit_memory", "look_at_text", "measure_hardware", "plan", "plan_page", "plan_quantize", "plan_shapes",
    "prompt_of", "pull", "quantize", "recipe_keys", "recipes", "recover", "return_memory", "sensitivity", "sensitivity_page", "table", "verify", "version", "weights",
]
