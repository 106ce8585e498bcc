"""huggingface_hub's InferenceClient: two turns with a tool, a schema, a stream, its error."""
import json

from common import *
from huggingface_hub import InferenceClient
from huggingface_hub.errors import HfHubHTTPError

client = InferenceClient(base_url=URL, api_key=KEY)


def tool():
    messages = [{"role": "user", "content": QUESTION}]
    first = client.chat_completion(messages, model=MODEL, tools=TOOLS, tool_choice="required", max_tokens=80, temperature=0).choices[0]
    need(first.finish_reason == "tool_calls" and first.message.tool_calls, first)
    call = first.message.tool_calls[0]
    messages += [{"role": "assistant", "tool_calls": [{"id": call.id, "type": "function", "function": {
        "name": call.function.name, "arguments": call.function.arguments}}]}, {"role": "tool", "tool_call_id": call.id, "content": WEATHER}]
    second = client.chat_completion(messages, model=MODEL, tools=TOOLS, tool_choice="none", max_tokens=40).choices[0]
    need(second.message.content, second)


def schema():
    form = {"type": "json_schema", "json_schema": {"name": "city", "schema": City.model_json_schema(), "strict": True}}
    answer = client.chat_completion([{"role": "user", "content": "Name a city."}], model=MODEL, response_format=form, max_tokens=100)
    City(**json.loads(answer.choices[0].message.content))


def stream():
    text = "".join(c.choices[0].delta.content or "" for c in client.chat_completion(
        [{"role": "user", "content": "Hello"}], model=MODEL, stream=True, max_tokens=16) if c.choices)
    need(text, text)


def overflow():
    e = raises(HfHubHTTPError, lambda: client.chat_completion([{"role": "user", "content": LONG}], model=MODEL))
    need(e.response.status_code == 400, e)


main(tool=tool, schema=schema, stream=stream, overflow=overflow)
