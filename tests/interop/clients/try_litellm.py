"""litellm: two turns with a tool, a schema, a stream, ContextWindowExceededError."""
import json

import litellm
from common import *

litellm.suppress_debug_info = True


def ask(**more):
    return litellm.completion(model="openai/" + MODEL, api_base=URL, api_key=KEY, num_retries=0, **{"max_tokens": 80, **more})


def tool():
    messages = [{"role": "user", "content": QUESTION}]
    first = ask(messages=messages, tools=TOOLS, tool_choice="required", temperature=0).choices[0]
    need(first.finish_reason == "tool_calls" and first.message.tool_calls, first)
    messages += [first.message, {"role": "tool", "tool_call_id": first.message.tool_calls[0].id, "content": WEATHER}]
    second = ask(messages=messages, tools=TOOLS, tool_choice="none", temperature=0, max_tokens=40).choices[0]
    need(second.message.content, second)


def schema():
    answer = ask(messages=[{"role": "user", "content": "Name a city."}], response_format=City, max_tokens=100)
    City(**json.loads(answer.choices[0].message.content))


def stream():
    text = "".join(c.choices[0].delta.content or "" for c in ask(messages=[{"role": "user", "content": "Hello"}], stream=True, max_tokens=16))
    need(text, text)


def overflow():
    raises(litellm.ContextWindowExceededError, lambda: ask(messages=[{"role": "user", "content": LONG}]))


main(tool=tool, schema=schema, stream=stream, overflow=overflow)
