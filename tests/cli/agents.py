"""Asks a server what agents ask: agents.py URL plain|knows. A line a check: ok NAME, or what is wrong."""
import json
import sys
import urllib.error
import urllib.request

URL, PLAIN = sys.argv[1], sys.argv[2] == "plain"


def tool(name, **properties):
    return {"type": "function", "function": {"name": name, "parameters": {
        "type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}}}


WEATHER = tool("weather", city={"type": "string", "maxLength": 8}, days={"type": "integer", "minimum": 0, "maximum": 99})
CLOCK = tool("clock", zone={"enum": ["east", "west"]})
CALL = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": "{\"city\": \"Rome\", \"days\": 12345678901234567890}"}}
USER = {"role": "user", "content": "Hi"}
RESULT = {"role": "tool", "tool_call_id": "call_1", "content": "it rains"}
SCHEMA = {"type": "json_schema", "json_schema": {"name": "x", "schema": {
    "type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"], "additionalProperties": False}}}


def post(path, **body):
    request = urllib.request.Request(URL + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as r:
            text = r.read().decode()
            return r.status, [json.loads(line[6:]) for line in text.split("\n\n") if line.startswith("data: {")] if body.get("stream") else json.loads(text)
    except urllib.error.HTTPError as e:
        return e.code, json.loads(e.read())


def chat(messages=(USER,), **more):
    return post("/v1/chat/completions", messages=list(messages), **{"model": "m", "temperature": 0, "max_tokens": 100, **more})


def prompt(messages=(USER,), **more):
    status, answer = post("/apply-template", messages=list(messages), **more)
    return answer["prompt"] if status == 200 else ""


def check(name, right, what=""):
    print("ok " + name if right else "WRONG %s: %s" % (name, str(what)[:300].replace("\n", " ")), flush=True)


def calls_of(choice):
    return choice["message"].get("tool_calls") or []


def valid(call):
    a = json.loads(call["function"]["arguments"])
    if call["function"]["name"] == "weather":
        return sorted(a) == ["city", "days"] and isinstance(a["city"], str) and len(a["city"]) <= 8 and 0 <= a["days"] <= 99
    return call["function"]["name"] == "clock" and a in ({"zone": "east"}, {"zone": "west"})


# Messages.
for name, content in (("null", {"content": None}), ("no", {}), ("empty", {"content": ""})):
    for more in ({}, {"tools": [WEATHER]}):
        messages = [USER, {"role": "assistant", "tool_calls": [CALL], **content}, RESULT]
        s, a = chat(messages, max_tokens=4, **more)
        check("%s content beside calls%s" % (name, " and tools" if more else ""), s == 200, a)
        text = prompt(messages, **more)
        check("the call and its result are there", all(w in text for w in ("weather", "Rome", "it rains")), text)
s, a = chat([USER, {"role": "assistant", "content": None}, USER], max_tokens=4)
check("null content alone", s == 200, a)
text = prompt([USER, {"role": "assistant", "tool_calls": [CALL]}, RESULT], tools=[WEATHER])
check("numbers stay as they are written", "12345678901234567890" in text, text)
text = prompt([USER, {"role": "assistant", "content": None, "function_call": CALL["function"]}, {"role": "function", "name": "weather", "content": "it rains"}])
check("function_call and the role function", "Rome" in text and "it rains" in text, text)
dumped = {"content": "It is late.", "refusal": None, "role": "assistant", "annotations": [], "audio": None, "function_call": None, "tool_calls": []}
text = prompt([USER, dumped, USER])
check("messages as clients write them out", "It is late." in text and "None" not in text and "tool_call" not in text, text)
text = prompt([USER, {**dumped, "content": None, "tool_calls": [{**CALL, "function": {"name": "weather", "arguments": ""}}]}, RESULT])
check("arguments that are an empty text", "{}" in text and '"\\"' not in text, text)
s, a = chat([{"role": "foo", "content": "x"}])
check("an unknown role", s == 400 and "foo" in a["error"]["message"] and a["error"]["param"] == "messages", a)
s, a = chat([{"role": "foo", "content": "x"}], stream=True)
check("an unknown role in a stream", s == 400, a)
text = prompt([{"role": "developer", "content": "Be brief."}, USER])
check("developer", "developer" not in text and "system" in text and "Be brief." in text, text)

# Tools reach the model.
text = prompt(tools=[WEATHER, CLOCK])
check("tools are in the prompt", "weather" in text and "clock" in text, text)
check("in words, where the template knows none", ("# Tools" in text and "<tool_call>" in text) == PLAIN, text)
check("tool_choice none: they are not", "weather" not in prompt(tools=[WEATHER], tool_choice="none"))
props = json.load(urllib.request.urlopen(URL + "/props", timeout=60))
check("/props says so", props["tools_described"] == PLAIN and props["tool_form"] == ("described" if PLAIN else "hermes"), props)

# Calls that must be made.
for choice in ("required", {"type": "function", "function": {"name": "clock"}}):
    for more in ({}, {"response_format": SCHEMA}, {"parallel_tool_calls": False}):
        s, a = chat(tools=[WEATHER, CLOCK], tool_choice=choice, **more)
        c = a["choices"][0] if s == 200 else {"message": {}}
        right = s == 200 and len(calls_of(c)) == 1 and valid(calls_of(c)[0]) and c["finish_reason"] == "tool_calls" and c["message"]["content"] is None
        check("a forced call %s" % list(more), right, a)
        if choice != "required":
            check("of that function", right and calls_of(c)[0]["function"]["name"] == "clock", a)
s, a = chat(tools=[WEATHER, CLOCK], tool_choice="required", n=8, temperature=1.5, seed=3, parallel_tool_calls=True)
check("several may be made where that is wanted", s == 200 and all(len(calls_of(c)) >= 1 for c in a["choices"]), a)
s, a = chat(tools=[WEATHER], tool_choice="required", guided_regex="a")
check("not beside a constraint of the whole", s == 400 and a["error"]["param"] == "tool_choice", a)

# As a stream, whole and cut.
s, whole = chat(tools=[WEATHER], tool_choice="required")
wanted = calls_of(whole["choices"][0])[0]["function"] if s == 200 else {}
s, chunks = chat(tools=[WEATHER], tool_choice="required", stream=True)
deltas = [t for c in chunks if c["choices"] for t in c["choices"][0]["delta"].get("tool_calls", [])] if s == 200 else []
check("the first part has id and name", deltas and deltas[0].get("id") and deltas[0]["function"]["name"] == "weather", chunks[:3])
check("arguments come in pieces", len([d for d in deltas[1:] if d["function"]["arguments"]]) > 2, deltas)
check("which are the whole", "".join(d["function"]["arguments"] for d in deltas) == wanted.get("arguments"), deltas)
check("only the first has id and name", not any("id" in d or "name" in d["function"] for d in deltas[1:]), deltas)
for most in range(1, 14):
    s, a = chat(tools=[WEATHER], tool_choice="required", max_tokens=most)
    c = a["choices"][0]
    t = calls_of(c)
    check("cut at %d" % most, c["finish_reason"] == "length" and len(t) == 1 and t[0]["function"]["name"] == "weather" and
          wanted["arguments"].startswith(t[0]["function"]["arguments"]) and c["message"]["content"] is None, a)
    s, chunks = chat(tools=[WEATHER], tool_choice="required", max_tokens=most, stream=True)
    deltas = [x for k in chunks if k["choices"] for x in k["choices"][0]["delta"].get("tool_calls", [])]
    check("and as a stream", "".join(d["function"]["arguments"] for d in deltas) == t[0]["function"]["arguments"] and
          deltas[0]["function"]["name"] == "weather" and chunks[-1]["choices"][0]["finish_reason"] == "length", chunks[-1])

# Calls, or text of a schema.
for seed in range(3):
    for single in (False, True):
        s, a = chat(tools=[WEATHER, CLOCK], response_format=SCHEMA, n=12, temperature=1.8, seed=seed, max_tokens=90,
                    **({"parallel_tool_calls": False} if single else {}))
        for c in a["choices"] if s == 200 else [None]:
            t = calls_of(c) if c else []
            if t:
                right = c["finish_reason"] == "length" or (c["finish_reason"] == "tool_calls" and all(map(valid, t)) and not c["message"]["content"])
                right = right and (len(t) == 1 or not single)
            else:
                right = bool(c) and c["finish_reason"] == "stop" and sorted(json.loads(c["message"]["content"])) == ["ok"]
            if not right:
                check("tools and a schema", False, c or a)


def against(*texts):
    """A bias against the first tokens of texts."""
    return {str(post("/tokenize", content=t)[1]["tokens"][0]): -100 for t in texts}


s, a = chat(tools=[CLOCK], response_format=SCHEMA, parallel_tool_calls=False, logit_bias=against("{", "{\"", "{\"o", "{\"ok"))
c = a["choices"][0] if s == 200 else None
check("calls beside a schema", c and len(calls_of(c)) == 1 and valid(calls_of(c)[0]) and c["finish_reason"] == "tool_calls", a)
s, a = chat(tools=[CLOCK], response_format=SCHEMA, logit_bias=against(*("<tool_call>"[:n] for n in range(1, 12))))
c = a["choices"][0] if s == 200 else None
check("a text of the schema beside tools", c and not calls_of(c) and sorted(json.loads(c["message"]["content"])) == ["ok"], a)
s, chunks = chat(tools=[WEATHER, CLOCK], response_format=SCHEMA, stream=True)
check("as a stream", s == 200 and chunks[-1]["choices"][0]["finish_reason"] in ("stop", "tool_calls", "length"), chunks)
s, a = chat(tools=[WEATHER], tool_choice="none", response_format=SCHEMA)
check("tool_choice none: the schema", s == 200 and sorted(json.loads(a["choices"][0]["message"]["content"])) == ["ok"], a)
s, a = chat(tools=[WEATHER], max_tokens=8)
check("tools alone", s == 200, a)
