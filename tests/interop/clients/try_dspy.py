"""DSPy: a module whose answer is a schema (JSONAdapter), a prediction by the chat adapter's LM, ContextWindowExceededError."""
import dspy
from common import *

lm = dspy.LM("openai/" + MODEL, api_base=URL, api_key=KEY, max_tokens=200, num_retries=0, cache=False)


class Ask(dspy.Signature):
    """Name a city."""

    question: str = dspy.InputField()
    city: City = dspy.OutputField()


def plain():
    need(lm("Hello", max_tokens=16)[0], None)


def schema():
    with dspy.context(lm=lm, adapter=dspy.JSONAdapter()):
        answer = dspy.Predict(Ask)(question="Name a city.")
    need(isinstance(answer.city, City), answer)


def overflow():
    try:
        from dspy.utils.exceptions import ContextWindowExceededError as Overflow
    except ImportError:
        from litellm import ContextWindowExceededError as Overflow
    raises(Overflow, lambda: lm(LONG))


main(plain=plain, schema=schema, overflow=overflow)
