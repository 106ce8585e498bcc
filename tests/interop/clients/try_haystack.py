"""haystack-ai's OpenAIChatGenerator: two turns with a tool, a schema, a stream, the error of an overflow."""
import json

import openai
from common import *
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.dataclasses import ChatMessage
from haystack.tools import Tool
from haystack.utils import Secret

weather = Tool(name="weather", description="The weather of a city.", parameters=TOOLS[0]["function"]["parameters"], function=lambda city: WEATHER)


def generator(**more):
    return OpenAIChatGenerator(api_key=Secret.from_token(KEY), model=MODEL, api_base_url=URL, max_retries=0, **more)


def ask(messages, kwargs=None, **more):
    return generator(**more).run(messages, generation_kwargs={"max_tokens": 100, "temperature": 0, **(kwargs or {})})["replies"][0]


def tool():
    messages = [ChatMessage.from_user(QUESTION)]
    first = ask(messages, {"tool_choice": "required"}, tools=[weather])
    need(first.tool_calls and first.tool_calls[0].tool_name == "weather", first)
    call = first.tool_calls[0]
    messages += [first, ChatMessage.from_tool(tool_result=weather.invoke(**call.arguments), origin=call)]
    second = ask(messages, {"tool_choice": "none"}, tools=[weather])
    need(second.text, second)


def schema():
    City(**json.loads(ask([ChatMessage.from_user("Name a city.")], {"response_format": City}).text))


def stream():
    seen = []
    answer = ask([ChatMessage.from_user("Hello")], {"max_tokens": 16}, streaming_callback=seen.append)
    need(len(seen) > 2 and answer.text, seen)


def overflow():
    e = raises(openai.BadRequestError, lambda: ask([ChatMessage.from_user(LONG)]))
    need(e.code == "context_length_exceeded", e.body)


main(tool=tool, schema=schema, stream=stream, overflow=overflow)
