"""DSPy: its LM, a schema that is given to it (its adapters send none to a model that they do not know), ContextWindowExceededError."""
import json

import dspy
from common import *

lm = dspy.LM("openai/" + MODEL, api_base=URL, api_key=KEY, max_tokens=200, num_retries=0, cache=False)


def plain():
    need(lm("Hello", max_tokens=16)[0], None)


def schema():
    form = {"type": "json_schema", "json_schema": {"name": "city", "strict": True, "schema": City.model_json_schema()}}
    answer = lm("Name a city.", response_format=form)[0]
    City(**json.loads(answer["text"] if isinstance(answer, dict) else answer))


def overflow():
    try:
        from dspy.utils.exceptions import ContextWindowExceededError as Overflow
    except ImportError:
        from litellm import ContextWindowExceededError as Overflow
    raises(Overflow, lambda: lm(LONG))


main(plain=plain, schema=schema, overflow=overflow)
