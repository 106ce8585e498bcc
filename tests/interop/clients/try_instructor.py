"""instructor: an object by a tool, by JSON schema, and in a stream of parts; its own error, which has the server's as the cause."""
import instructor
import openai
from common import *

raw = openai.OpenAI(base_url=URL, api_key=KEY, max_retries=0)


def ask(mode, content="Name a city.", **more):
    return instructor.from_openai(raw, mode=mode).chat.completions.create(
        model=MODEL, response_model=City, messages=[{"role": "user", "content": content}], max_retries=1, max_tokens=100, **more)


def tool():
    need(isinstance(ask(instructor.Mode.TOOLS), City), None)


def schema():
    need(isinstance(ask(instructor.Mode.JSON_SCHEMA), City), None)


def stream():
    parts = list(instructor.from_openai(raw, mode=instructor.Mode.TOOLS).chat.completions.create_partial(
        model=MODEL, response_model=City, messages=[{"role": "user", "content": "Name a city."}], max_tokens=100))
    need(parts and parts[-1].name is not None and parts[-1].people is not None, parts)


def overflow():
    try:
        ask(instructor.Mode.TOOLS, LONG)
    except Exception as e:
        need("maximum context length is" in str(e), e)
    else:
        raise AssertionError("no error")


main(tool=tool, schema=schema, stream=stream, overflow=overflow)
