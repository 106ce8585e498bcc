"""LlamaIndex (OpenAILike): two turns with a tool, a structured answer, a stream, the error of an overflow."""
import openai
from common import *
from llama_index.core.llms import ChatMessage
from llama_index.core.tools import FunctionTool
from llama_index.llms.openai_like import OpenAILike

model = OpenAILike(model=MODEL, api_base=URL, api_key=KEY, is_chat_model=True, is_function_calling_model=True, context_window=2048, max_tokens=100,
                   max_retries=0, temperature=0, should_use_structured_outputs=True)


def weather(city: str) -> str:
    """The weather of a city."""
    return WEATHER


def tool():
    tools, messages = [FunctionTool.from_defaults(weather)], [ChatMessage(role="user", content=QUESTION)]
    first = model.chat_with_tools(tools, chat_history=messages, tool_required=True)
    calls = model.get_tool_calls_from_response(first)
    need(calls and calls[0].tool_name == "weather", first)
    messages += [first.message, ChatMessage(role="tool", content=WEATHER, additional_kwargs={"tool_call_id": calls[0].tool_id})]
    second = model.chat(messages)
    need(second.message.content, second)


def schema():
    need(isinstance(model.as_structured_llm(City).complete("Name a city.").raw, City), None)


def stream():
    text = [c.delta for c in model.stream_chat([ChatMessage(role="user", content="Hello")])]
    need("".join(t or "" for t in text), text)


def overflow():
    e = raises(openai.BadRequestError, lambda: model.chat([ChatMessage(role="user", content=LONG)]))
    need(e.code == "context_length_exceeded", e.body)


main(tool=tool, schema=schema, stream=stream, overflow=overflow)
