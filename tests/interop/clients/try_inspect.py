"""inspect-ai (openai-api): two turns with a tool, a response schema, and `model_length` as the end of an overflow."""
import asyncio
import json
import os

from common import *

os.environ.update(PITH_API_KEY=KEY, PITH_BASE_URL=URL)
from inspect_ai.model import ChatMessageTool, ChatMessageUser, GenerateConfig, ResponseSchema, get_model  # noqa: E402
from inspect_ai.tool import ToolInfo, ToolParams  # noqa: E402
from inspect_ai.util import json_schema  # noqa: E402

WEATHER_TOOL = ToolInfo(name="weather", description="The weather of a city.",
                        parameters=ToolParams(properties={"city": json_schema(str)}, required=["city"]))


def ask(messages, *, tools=(), choice=None, **config):
    async def go():
        model = get_model("openai-api/pith/" + MODEL, memoize=False, config=GenerateConfig(**{"max_tokens": 100, "max_retries": 0, **config}))
        return await model.generate(messages, tools=list(tools), tool_choice=choice)
    return asyncio.run(go())


def tool():
    messages = [ChatMessageUser(content=QUESTION)]
    first = ask(messages, tools=[WEATHER_TOOL], choice="any", temperature=0)
    need(first.message.tool_calls and first.message.tool_calls[0].function == "weather", first)
    messages += [first.message, ChatMessageTool(content=WEATHER, tool_call_id=first.message.tool_calls[0].id, function="weather")]
    second = ask(messages, tools=[WEATHER_TOOL], choice="none", temperature=0)
    need(second.completion, second)


def schema():
    # Of a schema it sends types and names, no bounds.
    city = json.loads(ask("Name a city.", response_schema=ResponseSchema(name="city", json_schema=json_schema(City))).completion)
    need(sorted(city) == ["name", "people"] and isinstance(city["name"], str) and isinstance(city["people"], int), city)


def overflow():
    answer = ask(LONG)
    need(answer.stop_reason == "model_length", answer)


main(tool=tool, schema=schema, overflow=overflow)
