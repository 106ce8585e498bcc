#!/usr/bin/env python3
"""Asks a running server for answers of random forms, and holds them against Python's jsonschema and re:

    ask_server.py URL [COUNT]       (pith serve models/probe --chat-template TEMPLATE --port N; jsonschema[format])

COUNT schemas (200) as `response_format` and as the arguments of forced tool calls, every tenth JSON as such, every tenth an
expression; eight at once. Each answer must be of its form unless it ended by length.
"""
import collections
import concurrent.futures
import json
import random
import re
import sys
import urllib.error
import urllib.request

import jsonschema

import check_constraints

EXPRESSIONS = [r"(yes|no), [0-9]{2,5}", r"[A-Z][a-z]+( [A-Z][a-z]+){1,3}", r"\d{4}-\d{2}-\d{2}", r"(\w+@\w+\.(com|org);){2}"]
KIND = jsonschema.Draft202012Validator


def post(url, body):
    request = urllib.request.Request(url + "/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=300) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as e:
        return json.load(e)


def ask(url, i):
    """What came of request i, and what is wrong with it."""
    rng, top = random.Random(1000 + i), {}
    body = {"messages": [{"role": "user", "content": "Tell me a story."}], "max_tokens": 300, "seed": i, "temperature": rng.choice([0, 0.8, 1.5])}
    form, schema, expression = "schema", None, None
    if i % 10 == 8:
        form, schema, body["response_format"] = "json", {"type": "object"}, {"type": "json_object"}
    elif i % 10 == 9:
        form, expression = "expression", rng.choice(EXPRESSIONS)
        body["guided_regex"] = expression
    else:
        schema = check_constraints.schema(rng, rng.randint(1, 4), top)
        if top:
            schema = {"allOf": [schema], "$defs": top}
        if i % 3 == 0:
            form, body["max_tokens"] = "call", 120
            if i % 2 == 0:  # an object of its own: arguments are always objects
                schema = {"type": "object", "properties": {"x": schema}, "required": ["x"], "additionalProperties": False, **({"$defs": top} if top else {})}
                schema["properties"]["x"].pop("$defs", None)
            else:
                schema = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 20}, "days": {"type": "integer", "minimum": 1, "maximum": 9}},
                          "required": ["city"], "additionalProperties": False}
            body["tools"] = [{"type": "function", "function": {"name": n, "description": "A tool.", "parameters": schema}} for n in ("first", "second")]
            body["tool_choice"] = "required" if i % 4 else {"type": "function", "function": {"name": "second"}}
        else:
            body["response_format"] = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema, "strict": True}}
    answer = post(url, body)
    if "error" in answer:
        return form + " refused: " + answer["error"]["message"][:60], None
    choice = answer["choices"][0]
    if choice["finish_reason"] == "length":
        return form + " ended by length", None
    message = choice["message"]
    if form == "call":
        calls = message.get("tool_calls") or []
        if len(calls) != 1 or choice["finish_reason"] != "tool_calls" or message["content"]:
            return form, f"no call: {choice}"
        name, text = calls[0]["function"]["name"], calls[0]["function"]["arguments"]
        if name not in ("first", "second") or (name == "first" and i % 4 == 0):
            return form, f"another function: {name}"
    else:
        text = message["content"]
    if expression:
        return form, None if re.fullmatch(expression, text, re.ASCII) else f"{expression}: {text!r}"
    try:
        value = json.loads(text)
    except ValueError as e:
        return form, f"no JSON: {text!r}: {e}"
    valid = KIND(schema, format_checker=KIND.FORMAT_CHECKER).is_valid(value)
    return form, None if valid else f"{json.dumps(schema)}: {text}"


def main(url, count="200"):
    kinds, wrong = collections.Counter(), 0
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for kind, fault in pool.map(lambda i: ask(url, i), range(int(count))):
            kinds[kind] += 1
            if fault:
                wrong += 1
                print("WRONG", kind, fault)
    for kind, n in sorted(kinds.items()):
        print(f"{n:6d}  {kind}")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
