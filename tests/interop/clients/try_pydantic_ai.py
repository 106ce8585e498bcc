"""pydantic-ai: an agent that calls a tool and answers by another, NativeOutput's schema, a stream, ModelHTTPError."""
from common import *
from pydantic_ai import Agent, ModelHTTPError, NativeOutput
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

model = OpenAIChatModel(MODEL, provider=OpenAIProvider(base_url=URL, api_key=KEY))
SETTINGS = {"max_tokens": 120, "temperature": 0}


def tool():
    # With an output by a tool, each turn must be a call; the weather can be had only in the first one.
    async def once(context, definition):
        return definition if context.run_step <= 1 else None

    agent, seen = Agent(model, output_type=City, model_settings=SETTINGS, retries=2), []

    @agent.tool_plain(prepare=once)
    def weather(city: str) -> str:
        """The weather of a city."""
        seen.append(city)
        return WEATHER

    need(isinstance(agent.run_sync(QUESTION).output, City), seen)


def schema():
    answer = Agent(model, output_type=NativeOutput(City), model_settings=SETTINGS).run_sync("Name a city.")
    need(isinstance(answer.output, City), answer)


def stream():
    answer = Agent(model, model_settings={"max_tokens": 16}).run_stream_sync("Hello")
    text = list(answer.stream_text())
    need(text and text[-1], text)


def overflow():
    e = raises(ModelHTTPError, lambda: Agent(model).run_sync(LONG))
    need(e.status_code == 400 and "maximum context length is" in str(e), e)


main(tool=tool, schema=schema, stream=stream, overflow=overflow)
