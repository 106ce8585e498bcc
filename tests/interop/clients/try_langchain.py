"""LangChain: two turns with a bound tool, with_structured_output, a stream, ContextOverflowError where this version has it."""
import openai
from common import *
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool as make_tool
from langchain_openai import ChatOpenAI

try:
    from langchain_core.exceptions import ContextOverflowError as Overflow
except ImportError:
    Overflow = openai.BadRequestError
model = ChatOpenAI(base_url=URL, api_key=KEY, model=MODEL, max_retries=0, max_tokens=100, temperature=0)


@make_tool
def weather(city: str) -> str:
    """The weather of a city."""
    return WEATHER


def tool():
    messages = [HumanMessage(QUESTION)]
    first = model.bind_tools([weather], tool_choice="required").invoke(messages)
    need(first.tool_calls and first.tool_calls[0]["name"] == "weather", first)
    messages += [first, ToolMessage(weather.invoke(first.tool_calls[0]["args"]), tool_call_id=first.tool_calls[0]["id"])]
    second = model.bind_tools([weather], tool_choice="none").invoke(messages)
    need(second.content, second)


def schema():
    for method in ("json_schema", "function_calling"):
        answer = model.with_structured_output(City, method=method).invoke("Name a city.")
        need(isinstance(answer, City), answer)


def stream():
    text = "".join(c.text if isinstance(c.text, str) else c.text() for c in model.stream("Hello"))
    need(text, text)


def overflow():
    raises(Overflow, lambda: model.invoke(LONG))


main(tool=tool, schema=schema, stream=stream, overflow=overflow)
