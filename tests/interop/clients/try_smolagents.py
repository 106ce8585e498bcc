"""smolagents: a tool's call and the answer to its result, a schema, a stream, the error of an overflow."""
import json

import openai
from common import *
from smolagents import ChatMessage, OpenAIServerModel, tool as make_tool

model = OpenAIServerModel(MODEL, api_base=URL, api_key=KEY, max_tokens=100, client_kwargs={"max_retries": 0})


@make_tool
def weather(city: str) -> str:
    """The weather of a city.

    Args:
        city: The city's name.
    """
    return WEATHER


def user(text):
    return ChatMessage(role="user", content=[{"type": "text", "text": text}])


def tool():
    first = model.generate([user(QUESTION)], tools_to_call_from=[weather], temperature=0)
    need(first.tool_calls and first.tool_calls[0].function.name == "weather", first)
    told = [user(QUESTION), ChatMessage(role="tool-call", content=[{"type": "text", "text": str(first.tool_calls)}]),
            ChatMessage(role="tool-response", content=[{"type": "text", "text": WEATHER}])]
    second = model.generate(told, temperature=0)
    need(second.content, second)


def schema():
    form = {"type": "json_schema", "json_schema": {"name": "city", "schema": City.model_json_schema(), "strict": True}}
    City(**json.loads(model.generate([user("Name a city.")], response_format=form).content))


def stream():
    text = "".join(d.content or "" for d in model.generate_stream([user("Hello")]))
    need(text, text)


def overflow():
    e = raises(openai.BadRequestError, lambda: model.generate([user(LONG)]))
    need(e.code == "context_length_exceeded", e.body)


main(tool=tool, schema=schema, stream=stream, overflow=overflow)
