"""openai-agents: a run of two turns with a forced tool, an output type, a stream, the error of an overflow."""
import asyncio

import openai
from agents import Agent, ModelSettings, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled
from common import *

set_tracing_disabled(True)
seen = []


def model():
    # A client belongs to one event loop.
    return OpenAIChatCompletionsModel(model=MODEL, openai_client=openai.AsyncOpenAI(base_url=URL, api_key=KEY, max_retries=0))


@function_tool
def weather(city: str) -> str:
    """The weather of a city."""
    seen.append(city)
    return WEATHER


def run(prompt, **more):
    settings = ModelSettings(max_tokens=100, temperature=0, tool_choice=more.pop("tool_choice", None))
    return asyncio.run(Runner.run(Agent(name="a", instructions="Be brief.", model=model(), model_settings=settings, **more), prompt, max_turns=4))


def tool():
    answer = run(QUESTION, tools=[weather], tool_choice="required")
    need(seen and answer.final_output, answer)


def schema():
    need(isinstance(run("Name a city.", output_type=City).final_output, City), None)


def stream():
    async def pieces():
        agent = Agent(name="a", model=model(), model_settings=ModelSettings(max_tokens=16))
        result = Runner.run_streamed(agent, "Hello")
        return [e async for e in result.stream_events()], result.final_output
    events, text = asyncio.run(pieces())
    need(len(events) > 4 and text, events)


def overflow():
    e = raises(openai.BadRequestError, lambda: run(LONG))
    need(e.code == "context_length_exceeded", e.body)


main(tool=tool, schema=schema, stream=stream, overflow=overflow)
