"""What the clients' scripts have in common. PITH_URL: the server's address, up to and with /v1; PITH_MODEL: its model's name."""
import os
import sys
import traceback

import pydantic

URL, MODEL = os.environ.get("PITH_URL", ""), os.environ.get("PITH_MODEL", "")
ROOT, KEY = URL.removesuffix("/v1"), "none"
QUESTION = "What is the weather in Paris?"
WEATHER = "Sunny, 21 degrees."
# More tokens than the context of the server has.
LONG = "one two three four five six seven eight " * 400
TOOLS = [{"type": "function", "function": {"name": "weather", "description": "The weather of a city.", "parameters": {
    "type": "object", "properties": {"city": {"type": "string", "maxLength": 20}}, "required": ["city"]}}}]


class City(pydantic.BaseModel):
    name: str = pydantic.Field(max_length=20)
    people: int = pydantic.Field(ge=0, le=99999999)


def need(good, seen):
    if not good:
        raise AssertionError(f"seen: {seen!r}"[:600])


def raises(kind, call):
    """The error that the call ends with; another one goes on."""
    try:
        seen = call()
    except kind as e:
        return e
    raise AssertionError(f"no {kind.__name__}, but {seen!r}"[:600])


def main(**parts):
    """Runs each part and prints a line `NAME ok` or `NAME failed WHY`; the status says whether all went well."""
    failed = False
    for name, part in parts.items():
        try:
            part()
            print(name, "ok", flush=True)
        except Exception as e:
            failed = True
            traceback.print_exc()
            why = " ".join(f"{type(e).__name__}: {e}".split())
            print(name, "failed", why[:300], flush=True)
    sys.exit(failed)
