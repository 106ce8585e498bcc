#!/usr/bin/env python3
"""The openai package against `pith serve`: streams, tools, log-probabilities, JSON schema, errors, time-outs.

    openai_client.py PITH MODEL    MODEL without a chat template gets one that puts roles and contents in lines
"""
import concurrent.futures
import json
import os
import subprocess
import sys
import tempfile

import openai
import pydantic

TEMPLATE = """{{ bos_token }}{% if tools %}Answer with <tool_call>{"name": NAME, "arguments": ARGUMENTS}</tool_call>, of:
{% for t in tools %}{{ t | tojson }}
{% endfor %}{% endif %}{% for m in messages %}{{ m.role }}: {{ m.content }}
{% for c in m.tool_calls or [] %}<tool_call>{{ c.function | tojson }}</tool_call>
{% endfor %}{% endfor %}assistant:"""
TOOLS = [{"type": "function", "function": {"name": n, "description": "A tool.", "parameters": {
    "type": "object", "properties": {"city": {"type": "string", "maxLength": 12}, "days": {"type": "integer", "minimum": 1, "maximum": 9}},
    "required": ["city", "days"], "additionalProperties": False}}} for n in ("weather", "tides")]


class Person(pydantic.BaseModel):
    name: str = pydantic.Field(max_length=8)
    age: int = pydantic.Field(ge=0, le=99)


def check(name, good, seen=None):
    print(f"[{'       OK ' if good else '  FAILED  '}] openai: {name}")
    if not good:
        print(seen)
        check.failed = True


check.failed = False


def refused(name, kind, call):
    try:
        call()
    except kind as e:
        return e
    except openai.OpenAIError as e:
        check(name, False, repr(e))
    else:
        check(name, False, "nothing was raised")
    return None


def completions(client, model):
    plain = client.completions.create(model=model, prompt="Once upon a time", max_tokens=16, temperature=0)
    check("a completion", len(plain.choices) == 1 and plain.choices[0].text and plain.usage.completion_tokens == 16, plain)
    pieces = client.completions.create(model=model, prompt="Once upon a time", max_tokens=16, temperature=0, stream=True)
    text = "".join(c.choices[0].text for c in pieces)
    check("a stream says the same", text == plain.choices[0].text, text)
    scored = client.completions.create(model=model, prompt="Once upon", max_tokens=0, echo=True, logprobs=3)
    lp = scored.choices[0].logprobs
    check("a scored prompt", scored.choices[0].text == "Once upon" and lp.token_logprobs[0] is None and
          all(max(t.values()) >= x for t, x in zip(lp.top_logprobs[1:], lp.token_logprobs[1:])), scored)
    several = client.completions.create(model=model, prompt=["Once", "The sea"], n=2, max_tokens=4, seed=5, temperature=1)
    check("prompts and choices in order", [c.index for c in several.choices] == [0, 1, 2, 3], several)
    again = client.completions.create(model=model, prompt=["Once", "The sea"], n=2, max_tokens=4, seed=5, temperature=1)
    check("the same seed, the same text", [c.text for c in several.choices] == [c.text for c in again.choices], again)


def chats(client, model):
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Tell a story."}]
    plain = client.chat.completions.create(model=model, messages=messages, max_tokens=12, temperature=0)
    check("a chat", plain.choices[0].message.role == "assistant" and plain.choices[0].finish_reason == "length", plain)
    text, roles, usage, lps = "", [], None, 0
    for chunk in client.chat.completions.create(model=model, messages=messages, max_tokens=12, temperature=0, stream=True, logprobs=True,
                                                top_logprobs=2, stream_options={"include_usage": True}):
        for c in chunk.choices:
            roles += [c.delta.role] if c.delta.role else []
            text += c.delta.content or ""
            lps += len(c.logprobs.content) if c.logprobs else 0
        usage = chunk.usage or usage
    check("a streamed chat says the same", text == plain.choices[0].message.content and roles == ["assistant"], text)
    check("its tokens and usage", lps == 12 and usage.completion_tokens == 12, (lps, usage))


def scores(client, model):
    said = client.chat.completions.create(model=model, messages=[{"role": "user", "content": "Who?"}], max_tokens=6, temperature=0, logprobs=True,
                                          top_logprobs=3).choices[0]
    tokens = said.logprobs.content
    check("log-probabilities of a chat", len(tokens) == 6 and b"".join(bytes(t.bytes) for t in tokens).decode() == said.message.content and
          all(len(t.top_logprobs) == 3 and t.top_logprobs[0].logprob == t.logprob for t in tokens), said)


def tools(client, model):
    asked = dict(model=model, messages=[{"role": "user", "content": "Rain?"}], tools=TOOLS, max_tokens=100, temperature=1, seed=4)
    one = {"type": "function", "function": {"name": "tides"}}
    choice = client.chat.completions.create(**asked, tool_choice=one).choices[0]
    call = choice.message.tool_calls[0]
    value = json.loads(call.function.arguments)
    check("a call of a named function", choice.finish_reason == "tool_calls" and call.function.name == "tides" and set(value) == {"city", "days"}, choice)
    name, text, ids, ended = "", "", set(), None
    for chunk in client.chat.completions.create(**asked, tool_choice=one, stream=True):
        for c in chunk.choices:
            for t in c.delta.tool_calls or []:
                ids |= {t.id} if t.id else set()
                name += t.function.name or ""
                text += t.function.arguments or ""
            ended = c.finish_reason or ended
    check("a streamed call says the same", name == "tides" and len(ids) == 1 and json.loads(text) == value and ended == "tool_calls", (name, text, ended))
    choice = client.chat.completions.create(**asked, tool_choice="required").choices[0]
    check("some call", choice.message.tool_calls[0].function.name in ("weather", "tides"), choice)
    turns = asked["messages"] + [choice.message, {"role": "tool", "tool_call_id": choice.message.tool_calls[0].id, "content": "Sun."}]
    after = client.chat.completions.create(**dict(asked, messages=turns, max_tokens=4), tool_choice="none")
    check("an answer after it", after.choices[0].message.content and not after.choices[0].message.tool_calls, after)


def schemas(client, model):
    who = dict(model=model, messages=[{"role": "user", "content": "Who?"}], max_tokens=200, seed=1)
    person = client.chat.completions.parse(**who, response_format=Person).choices[0].message.parsed
    check("a JSON schema, by a class of pydantic", isinstance(person, Person), person)
    with client.chat.completions.stream(**who, response_format=Person) as stream:
        final = stream.get_final_completion()
    check("streamed, it is the same", final.choices[0].message.parsed == person, final)
    value = json.loads(client.chat.completions.create(**who, response_format={"type": "json_object"}, temperature=0.3).choices[0].message.content or "{")
    check("JSON", isinstance(value, dict), value)


def refusals(client, model):
    e = refused("an unknown keyword", openai.BadRequestError, lambda: client.chat.completions.create(
        model=model, messages=[{"role": "user", "content": "Who?"}],
        response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object", "minProperties": 3}}}))
    check("a keyword that is not supported is named", e and "minProperties" in e.message, e)


def busy(pith, model):
    """One place, one that waits: the third is refused, and the client asks again by itself."""
    server = subprocess.Popen([pith, "serve", model, "--port", "0", "--quiet", "--max-sequences", "1", "--queue", "1"], stdout=subprocess.PIPE, text=True)
    try:
        client = openai.OpenAI(base_url=server.stdout.readline().strip() + "/v1", api_key="any", max_retries=0, timeout=120)
        name = client.models.list().data[0].id

        def ask():
            return client.completions.create(model=name, prompt="a", max_tokens=400, extra_body={"ignore_eos": True}, stream=True)

        first, kinds = ask(), []
        next(iter(first))
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            for future in [pool.submit(ask) for _ in range(4)]:
                try:
                    kinds.append("answered" if list(future.result()) else "empty")
                except openai.RateLimitError as e:
                    kinds.append("refused" if e.response.headers["retry-after"] else "without Retry-After")
        check("a full queue", set(kinds) == {"answered", "refused"}, kinds)
        first.close()
    finally:
        server.terminate()
        server.wait(40)


def errors(client, model, url):
    e = refused("a wrong model", openai.NotFoundError, lambda: client.completions.create(model="nobody", prompt="a"))
    check("a wrong model", e and e.code == "model_not_found", e)
    e = refused("a wrong field", openai.BadRequestError, lambda: client.completions.create(model=model, prompt="a", temperature=-1))
    check("a wrong field", e and e.param == "temperature", e)
    e = refused("too long", openai.BadRequestError, lambda: client.completions.create(model=model, prompt="word " * 20000))
    check("too long", e and e.code == "context_length_exceeded", e)
    stranger = openai.OpenAI(base_url=url, api_key="wrong", max_retries=0)
    e = refused("a wrong key", openai.AuthenticationError, lambda: stranger.models.list())
    check("a wrong key", e is not None)
    hasty = openai.OpenAI(base_url=url, api_key="secret", max_retries=0, timeout=0.001)
    e = refused("a time-out", openai.APITimeoutError, lambda: hasty.completions.create(model=model, prompt="a", max_tokens=400))
    check("a time-out", e is not None)


def main():
    pith, model = sys.argv[1:]
    with tempfile.TemporaryDirectory() as work:
        template = os.path.join(work, "t.jinja")
        with open(template, "w", encoding="utf-8") as f:
            f.write(TEMPLATE)
        server = subprocess.Popen([pith, "serve", model, "--port", "0", "--quiet", "--chat-template", template], stdout=subprocess.PIPE, text=True,
                                  env=dict(os.environ, PITH_API_KEY="secret"))
        try:
            url = server.stdout.readline().strip() + "/v1"
            client = openai.OpenAI(base_url=url, api_key="secret", max_retries=0, timeout=60)
            name = client.models.list().data[0].id
            completions(client, name)
            chats(client, name)
            vector = client.embeddings.create(model=name, input=["a cat", "a dog"]).data
            check("embeddings", len(vector) == 2 and abs(sum(x * x for x in vector[0].embedding) - 1) < 1e-4, vector)
            errors(client, name, url)
            for part in scores, tools, schemas, refusals:
                try:
                    part(client, name)
                except (openai.OpenAIError, ValueError, pydantic.ValidationError) as e:
                    check(part.__name__, False, repr(e))
        finally:
            server.terminate()
            check("it ends by itself", server.wait(40) == 0)
    busy(pith, model)
    return 1 if check.failed else 0


if __name__ == "__main__":
    sys.exit(main())
