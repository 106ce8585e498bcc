#!/usr/bin/env python3
"""The openai package against `pith serve`: streams, log-probabilities, JSON schema, errors, time-outs.

    openai_client.py PITH MODEL    MODEL without a chat template gets one that puts roles and contents in lines
"""
import json
import os
import subprocess
import sys
import tempfile

import openai


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


def schemas(client, model):
    schema = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 8}, "age": {"type": "integer", "minimum": 0, "maximum": 99}},
              "required": ["name", "age"], "additionalProperties": False}
    form = {"type": "json_schema", "json_schema": {"name": "person", "schema": schema, "strict": True}}
    answer = client.chat.completions.create(model=model, messages=[{"role": "user", "content": "Who?"}], max_tokens=200, seed=1,
                                            response_format=form)
    value = json.loads(answer.choices[0].message.content)
    check("a JSON schema", set(value) == {"name", "age"} and isinstance(value["age"], int) and len(value["name"]) <= 8, value)


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
            f.write("{{ bos_token }}{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:")
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
            try:
                schemas(client, name)
            except openai.BadRequestError as e:
                check("a JSON schema", False, e)
        finally:
            server.terminate()
            check("it ends by itself", server.wait(40) == 0)
    return 1 if check.failed else 0


if __name__ == "__main__":
    sys.exit(main())
