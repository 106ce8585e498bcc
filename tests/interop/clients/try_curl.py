"""curl: the README's request, a stream, the status of an overflow."""
import json
import subprocess

from common import *


def curl(body, *options):
    return subprocess.run(["curl", "-sS", *options, URL + "/chat/completions", "-H", "Content-Type: application/json", "--data-binary", "@-"],
                          input=json.dumps(body), capture_output=True, text=True, check=True).stdout


def body(text, **more):
    return {"model": MODEL, "messages": [{"role": "user", "content": text}], "max_tokens": 24, **more}


def plain():
    need(json.loads(curl(body("Hello")))["choices"][0]["message"]["content"], None)


def tool():
    first = json.loads(curl(body(QUESTION, tools=TOOLS, tool_choice="required", max_tokens=80)))["choices"][0]["message"]
    again = body(QUESTION, tools=TOOLS, tool_choice="none")
    again["messages"] += [first, {"role": "tool", "tool_call_id": first["tool_calls"][0]["id"], "content": WEATHER}]
    need(json.loads(curl(again))["choices"][0]["message"]["content"], None)


def schema():
    form = {"type": "json_schema", "json_schema": {"name": "city", "strict": True, "schema": City.model_json_schema()}}
    City(**json.loads(json.loads(curl(body("Name a city.", response_format=form, max_tokens=100)))["choices"][0]["message"]["content"]))


def stream():
    events = [x for x in curl(body("Hello", stream=True), "-N").split("\n\n") if x]
    need(len(events) > 2 and events[-1] == "data: [DONE]" and all(x.startswith("data: ") for x in events), events)


def overflow():
    need(curl(body(LONG), "-o", "/dev/null", "-w", "%{http_code}") == "400", None)
    need(json.loads(curl(body(LONG)))["error"]["code"] == "context_length_exceeded", None)


main(plain=plain, tool=tool, schema=schema, stream=stream, overflow=overflow)
