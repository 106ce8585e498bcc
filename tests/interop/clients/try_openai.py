"""openai: two turns with a tool, a schema by `parse`, a stream, the error of an overflow."""
import json

import openai
from common import *

client = openai.OpenAI(base_url=URL, api_key=KEY, max_retries=0)


def tool():
    messages = [{"role": "user", "content": QUESTION}]
    first = client.chat.completions.create(model=MODEL, messages=messages, tools=TOOLS, tool_choice="required", temperature=0, max_tokens=80).choices[0]
    need(first.finish_reason == "tool_calls" and first.message.tool_calls, first)
    call = first.message.tool_calls[0]
    need("city" in json.loads(call.function.arguments), call)
    messages += [first.message, {"role": "tool", "tool_call_id": call.id, "content": WEATHER}]
    second = client.chat.completions.create(model=MODEL, messages=messages, tools=TOOLS, tool_choice="none", temperature=0, max_tokens=40).choices[0]
    need(second.message.content and not second.message.tool_calls, second)


def schema():
    answer = client.chat.completions.parse(model=MODEL, messages=[{"role": "user", "content": "Name a city."}], response_format=City, max_tokens=100)
    need(isinstance(answer.choices[0].message.parsed, City), answer)


def stream():
    chunks = list(client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "Hello"}], max_tokens=16, stream=True,
                                                 stream_options={"include_usage": True}))
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    need(text and chunks[-1].usage.completion_tokens > 0, chunks)


def overflow():
    e = raises(openai.BadRequestError, lambda: client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": LONG}]))
    need(e.code == "context_length_exceeded" and e.param == "messages", e.body)


main(tool=tool, schema=schema, stream=stream, overflow=overflow)
