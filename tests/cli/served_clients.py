"""What clients of OpenAI, vLLM and llama-server send to `pith serve`, and what they need back.

    served_clients.py PITH MODEL
"""
import concurrent.futures
import http.client
import json
import subprocess
import sys
import tempfile

failed = False


def check(name, good, seen=None):
    global failed
    print(f"[{'       OK ' if good else '  FAILED  '}] {name}")
    if not good:
        print(str(seen)[:600])
        failed = True


class Server:
    def __init__(self, pith, model, *options):
        self.process = subprocess.Popen([pith, "serve", model, "--port", "0", "--quiet", "--name", "m", *options],
                                        stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline().strip().rsplit(":", 1)[1])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        check("it ends with status 0", self.process.wait(60) == 0)

    def ask(self, method, path, body=None, headers=None):
        """(status, headers in lower case, JSON or text)"""
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        c.request(method, path, data, headers or {})
        r = c.getresponse()
        text = r.read().decode()
        c.close()
        try:
            answer = json.loads(text)
        except ValueError:
            answer = text
        return r.status, {k.lower(): v for k, v in r.getheaders()}, answer

    def text(self, **fields):
        status, _, answer = self.ask("POST", "/v1/completions", {"prompt": "The", "temperature": 0, "max_tokens": 12, **fields})
        return answer["choices"][0]["text"] if status == 200 else answer


def constraints(s):
    choice = ["a+b (c)", "x|y", "[z]", "\u20ac 5."]
    for i, want in enumerate(choice):
        seen = s.text(guided_choice=choice[i:i + 1])
        check(f"guided_choice gives {want}", seen == want, seen)
    seen = s.text(guided_choice=choice)
    check("guided_choice gives one of them", seen in choice, seen)
    seen = s.text(structured_outputs={"choice": ["yes", "no"]})
    check("structured_outputs.choice", seen in ("yes", "no"), seen)
    seen = s.text(structured_outputs={"regex": "[0-9]{3}"})
    check("structured_outputs.regex", len(seen) == 3 and seen.isdigit(), seen)
    seen = s.text(structured_outputs={"json": {"type": "boolean"}})
    check("structured_outputs.json", seen in ("true", "false"), seen)
    for name, value in {"grammar": "root ::= x", "structural_tag": "{}", "whitespace_pattern": "x", "disable_any_whitespace": True}.items():
        status, _, answer = s.ask("POST", "/v1/completions", {"prompt": "a", "structured_outputs": {name: value}})
        check(f"structured_outputs.{name} is refused by name", status == 400 and name in answer["error"]["param"], answer)
    status, _, answer = s.ask("POST", "/v1/completions", {"prompt": "a", "guided_choice": ["a"], "guided_regex": "b"})
    check("two constraints are refused", status == 400, answer)
    status, _, answer = s.ask("POST", "/v1/completions", {"prompt": "a", "guided_choice": []})
    check("no choice is refused", status == 400 and answer["error"]["param"] == "guided_choice", answer)
    form = {"type": "json_object", "value": {"enum": ["one", 2]}}
    status, _, answer = s.ask("POST", "/v1/completions", {"prompt": "a", "response_format": form})
    check("response_format.value is a schema", status == 200 and answer["choices"][0]["text"].strip() in ('"one"', "2"), answer)
    status, _, answer = s.ask("POST", "/v1/completions", {"prompt": "a", "response_format": {**form, "type": "json_schema"}})
    check("of another type it is refused by name", status == 400 and answer["error"]["param"] == "response_format.value", answer)


def numbers(s):
    greedy = s.text(max_tokens=4)
    seen = s.text(max_tokens=4, temperature=5, top_p=0, seed=1)
    check("top_p 0 leaves the likeliest alone", seen == greedy, (seen, greedy))
    check("40.0 is a whole number", s.text(max_tokens=4.0, top_k=1.0) == greedy)
    check("40.5 is none", s.text(top_k=40.5)["error"]["param"] == "top_k")
    check("nor is 1e300", s.text(max_tokens=1e300)["error"]["param"] == "max_tokens")
    seeds = [s.text(max_tokens=4, temperature=1, seed=n) for n in (-2**63, 2**63 - 1, 2**63, 2**64 - 1)]
    check("seeds have 64 bits", all(isinstance(x, str) for x in seeds), seeds)
    for n in (2**64, -2**63 - 1, 10**400):
        check("and no more", s.text(seed=n)["error"]["param"] == "seed")
    check("a bound that is too large is refused as one", s.text(max_tokens=10**30)["error"]["param"] == "max_tokens")
    status, _, answer = s.ask("POST", "/v1/embeddings", {"input": "a"})
    status, _, plain = s.ask("POST", "/v1/embeddings", {"input": "a", "add_special_tokens": False})
    check("embeddings without BOS", plain["usage"]["prompt_tokens"] == answer["usage"]["prompt_tokens"] - 1, (plain, answer))
    status, _, answer = s.ask("POST", "/v1/completions", {"prompt": "a", "max_tokens": 1, "n": 128})
    check("n goes to 128", status == 200 and len(answer["choices"]) == 128, answer)


def paths(s):
    for name, status in {"m": 200, "m/": 404, "other": 404, "": 404}.items():
        seen = s.ask("GET", "/v1/models/" + name)
        check(f"GET /v1/models/{name} has {status}", seen[0] == status, seen)
    seen = s.ask("GET", "/v1/models/org%2Fnone")
    check("a model that is not there, by its name", seen[0] == 404 and seen[2]["error"]["code"] == "model_not_found"
          and "org/none" in seen[2]["error"]["message"], seen)
    seen = s.ask("GET", "/v1/models/" + sys.argv[2].replace("/", "%2F"))
    check("a model by its path", seen[0] == 200 and seen[2]["id"] == "m", seen)
    for method, path, allow in (("GET", "/v1/completions", "POST"), ("POST", "/v1/models", "GET, HEAD"), ("PUT", "/v1/models/m", "GET, HEAD"),
                                ("DELETE", "/health", "GET, HEAD")):
        seen = s.ask(method, path, None)
        check(f"{method} {path}: Allow is {allow}", seen[0] == 405 and seen[1].get("allow") == allow, seen)
    for path in ("/v1/embeddings", "/tokenize"):
        seen = s.ask("POST", path, {"model": "other", "input": "a", "prompt": "a"} if path == "/tokenize" else {"model": "other", "input": "a"})
        check(f"{path}: another model is not there", seen[0] == 404, seen)


def headers(s):
    body = {"prompt": "a", "max_tokens": 1}
    seen = s.ask("POST", "/v1/completions", body, {"X-Request-Id": "trace-1.b:2"})
    check("a request keeps its number", seen[1].get("x-request-id") == "trace-1.b:2", seen)
    numbers = [s.ask("GET", "/health", None, {"X-Request-Id": n} if n else {})[1].get("x-request-id", "") for n in ("", "", "a b", "x" * 200, "a;b")]
    check("or gets one", len(set(numbers)) == 5 and all(n.startswith("req_") for n in numbers), numbers)
    for coding in ("gzip", "br", "deflate"):
        seen = s.ask("POST", "/v1/completions", b"\x1f\x8b", {"Content-Encoding": coding})
        check(f"415 for {coding}", seen[0] == 415 and coding in seen[2]["error"]["message"], seen)
    seen = s.ask("POST", "/v1/completions", body, {"Content-Encoding": "identity"})
    check("identity is none", seen[0] == 200, seen)
    seen = s.ask("POST", "/v1/completions", {**body, "temprature": 1})
    check("temprature", seen[0] == 400 and "'temperature'" in seen[2]["error"]["message"] and seen[2]["error"]["param"] == "temprature", seen)


def streams(s):
    body = {"prompt": "Once", "max_tokens": 5, "max_completion_tokens": 4, "ignore_eos": True, "stream": True, "temperature": 0}
    for options, want in (({"include_usage": True, "continuous_usage_stats": True}, [1, 2, 3, 4]), ({"include_usage": True}, [])):
        _, _, text = s.ask("POST", "/v1/completions", {**body, "stream_options": options})
        chunks = [json.loads(line[6:]) for line in text.split("\n\n") if line.startswith("data: {")]
        seen = [c["usage"]["completion_tokens"] for c in chunks if c["choices"] and c["choices"][0]["text"] and c.get("usage")]
        check(f"{options}: usage of each chunk", seen == want, text)
        check("and of all at the end", chunks[-1]["choices"] == [] and chunks[-1]["usage"]["completion_tokens"] == 4
              and chunks[-1]["usage"]["total_tokens"] == chunks[-1]["usage"]["prompt_tokens"] + 4, text)
    status, _, answer = s.ask("POST", "/v1/completions", {**body, "stream_options": {"include_use": True}})
    check("an unknown option of a stream is refused by name", status == 400 and answer["error"]["param"] == "stream_options.include_use", answer)


def overflow(s):
    words = "a b c d " * 400
    for path, body, param in (("/v1/chat/completions", {"messages": [{"role": "user", "content": words}]}, "messages"),
                              ("/v1/completions", {"prompt": words}, "prompt"),
                              ("/v1/completions", {"prompt": "a", "max_tokens": 600}, "prompt"),
                              ("/v1/embeddings", {"input": words}, "input")):
        status, _, answer = s.ask("POST", path, body)
        e = answer.get("error", {})
        check(f"{path}: an overflow as clients know it", status == 400 and e["code"] == "context_length_exceeded" and e["param"] == param
              and "maximum context length is 512 tokens" in e["message"] and "(context_length_exceeded)" in e["message"], answer)


def spelled(token):
    """The bytes of a token as /v1/completions writes it."""
    if not token.startswith("bytes:"):
        return token.encode()
    return bytes(int(x, 16) for x in token[6:].split("\\x")[1:])


def logprobs(s):
    def ask(path="/v1/completions", **fields):
        status, _, answer = s.ask("POST", path, {"temperature": 0, **fields})
        return answer["choices"][0] if status == 200 else answer

    # Bytes that are parts of a character, and others that would be written alike.
    c = ask(prompt="a", guided_regex="\U0001F600", logprobs=5, max_tokens=8, logit_bias={str(b): 20 for b in range(0, 260, 7)})
    l = c["logprobs"]
    check("parts of a character are told by their bytes", b"".join(map(spelled, l["tokens"])) == "\U0001F600".encode(), c)
    check("each alternative has a key of its own", all(len(t) >= 5 and t[token] == p for token, p, t in
                                                       zip(l["tokens"], l["token_logprobs"], l["top_logprobs"])), c)
    check("a part of a character begins where that does", set(l["text_offset"]) == {0}, c)
    c = ask("/v1/chat/completions", messages=[{"role": "user", "content": "a"}], guided_regex="\U0001F600", logprobs=True, top_logprobs=3, max_tokens=8)
    content = c["logprobs"]["content"]
    check("a chat has the bytes too", sum((t["bytes"] for t in content), []) == list("\U0001F600".encode())
          and all(len(t["top_logprobs"]) == 3 for t in content), c)

    prompt = "O\u00f9 vas-tu ?  \u20ac 5 \U0001F600 \u4e2d\u6587 end"
    c = ask(prompt=prompt, echo=True, logprobs=0, max_tokens=12, ignore_eos=True)
    l, text = c["logprobs"], c["text"]
    bad = [(t, o) for t, o in zip(l["tokens"], l["text_offset"]) if not t.startswith(("bytes:", "<|"))
           and not text[o:].lstrip().startswith(t.lstrip())]
    check("offsets are into the text that is returned", not bad and text.startswith(prompt) and l["text_offset"][-1] < len(text)
          and l["text_offset"] == sorted(l["text_offset"]), (bad, c))
    c = ask(prompt=prompt, echo=True, logprobs=0, max_tokens=12, ignore_eos=True, skip_special_tokens=False)
    l, text = c["logprobs"], c["text"]
    bad = [(t, o) for t, o in zip(l["tokens"], l["text_offset"]) if not t.startswith("bytes:") and not text[o:].lstrip().startswith(t.lstrip())]
    check("with special tokens in it too", not bad and text.startswith("<|begin_of_text|>"), (bad, c))
    whole = ask(prompt="The", max_tokens=16)["text"]
    c = ask(prompt="The", max_tokens=16, logprobs=0, stop=whole[3:9])
    check("nor behind its end, where it stops", c["text"] == whole[:3] and max(c["logprobs"]["text_offset"]) <= 3, (whole, c))
    _, _, stream = s.ask("POST", "/v1/completions", {"prompt": "The", "temperature": 0, "max_tokens": 16, "logprobs": 0, "stop": whole[3:9], "stream": True})
    parts = [json.loads(line[6:])["choices"][0] for line in stream.split("\n") if line.startswith("data: {")]
    check("a stream has the same text, values and offsets", "".join(p["text"] for p in parts) == c["text"]
          and all(sum((p["logprobs"][k] for p in parts if p["logprobs"]), []) == c["logprobs"][k] for k in c["logprobs"]), (c, parts))
    c = ask(prompt="The", max_tokens=3, logprobs=2, return_tokens_as_token_ids=True)
    check("tokens by their ids", all(t.startswith("token_id:") for t in c["logprobs"]["tokens"])
          and all(k.startswith("token_id:") for t in c["logprobs"]["top_logprobs"] for k in t), c)

    for fields, want in (({"with_pieces": True}, list("\u4e2d".encode())), ({"return_token_strs": True}, None)):
        status, _, answer = s.ask("POST", "/tokenize", {"prompt": " girl\u4e2d", "add_special_tokens": False, **fields})
        if want:
            pieces = [t["piece"] for t in answer["tokens"]]
            flat = sum((list(p.encode()) if isinstance(p, str) else p for p in pieces), [])
        else:
            flat = list(b"".join(map(spelled, answer["token_strs"])))
        check("/tokenize spells each byte", bytes(flat).lstrip() == "girl\u4e2d".encode(), answer)

    full = [300 + i for i in range(512)]
    c = ask(prompt=full, echo=True, logprobs=1, max_tokens=0)
    check("a prompt of exactly the context is scored", len(c["logprobs"]["token_logprobs"]) == 512 and c["finish_reason"] == "length", c)
    one = ask(prompt=full[:511], echo=True, logprobs=1, max_tokens=1)
    check("to the same bits", one["logprobs"]["token_logprobs"][1:511] == c["logprobs"]["token_logprobs"][1:511], one)
    for fields in ({"prompt": full + [1], "max_tokens": 0}, {"prompt": full, "max_tokens": 1}):
        c = ask(echo=True, logprobs=1, **fields)
        check("one more is too many", c.get("error", {}).get("code") == "context_length_exceeded", c)


def hosts(pith, model):
    def ask(s, host, path="/v1/models", **more):
        return s.ask("GET", path, None, {"Host": host, **more})[0]

    with Server(pith, model, "--allow-host", "model.lan", "--allow-host", "box.lan") as s:
        for host, status in {"evil.test": 403, f"evil.test:{s.port}": 403, "model.lan": 200, "box.lan:1": 200, "localhost": 200,
                             "10.1.2.3": 200, "[::1]:1": 200}.items():
            check(f"Host {host} has {status}", ask(s, host) == status)
        check("its own name as origin does not help", ask(s, "evil.test", Origin="http://evil.test") == 403)
        check("nor for the page", ask(s, "evil.test", "/") == 403)
    with Server(pith, model, "--cors", "*") as s:
        check("all pages may ask: any Host", ask(s, "evil.test") == 200)
        seen = s.ask("OPTIONS", "/v1/chat/completions", None, {
            "Origin": "http://app.test", "Access-Control-Request-Method": "POST", "Access-Control-Request-Private-Network": "true",
            "Access-Control-Request-Headers": "authorization,content-type,x-stainless-os"})
        check("a preflight gets what it asks for", seen[0] == 204 and "x-stainless-os" in seen[1]["access-control-allow-headers"]
              and seen[1]["access-control-allow-private-network"] == "true", seen)
        seen = s.ask("OPTIONS", "/v1/models", None, {"Origin": "http://app.test", "Access-Control-Request-Headers": "a\u00e9b"})
        check("but no rubbish", "Authorization" in seen[1]["access-control-allow-headers"], seen)
    with Server(pith, model, "--cors", "http://app.test") as s:
        check("another page may not ask before", s.ask("OPTIONS", "/v1/models", None, {"Origin": "http://evil.test"})[0] == 403)
        check("nor by a name of its own", ask(s, "evil.test", Origin="http://evil.test") == 403)
        check("the page that is named may", ask(s, "localhost", Origin="http://app.test") == 200)


def chats(s):
    def render(status=200, **body):
        seen = s.ask("POST", "/apply-template", body)
        check(f"{sorted(body)} has {status}", seen[0] == status, seen)
        return seen[2]

    user, open_end = {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Well, "}
    seen = render(messages=[user, open_end], continue_final_message=True)
    check("a last message goes on", seen["prompt"] == "<user>Hi\n<assistant>Well, ", seen)
    render(400, messages=[user, open_end], continue_final_message=True, add_generation_prompt=True)
    status, _, a = s.ask("POST", "/v1/chat/completions", {"messages": [user, open_end], "continue_final_message": True, "max_tokens": 6, "temperature": 0})
    plain = s.text(prompt="<user>Hi\n<assistant>Well, ", max_tokens=6, add_special_tokens=False)
    check("and its answer is what follows", status == 200 and a["choices"][0]["message"]["content"] == plain, (a, plain))
    status, _, a = s.ask("POST", "/tokenize", {"messages": [user, open_end], "continue_final_message": True})
    status, _, back = s.ask("POST", "/detokenize", {"tokens": a["tokens"]})
    check("/tokenize too", back["prompt"].endswith("Well, "), back)
    seen = render(messages=[{"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}, user])
    check("a part that refuses has its text", "<assistant>No." in seen["prompt"], seen)

    tools = [{"type": "function", "function": {"name": n, "parameters": {"type": "object", "properties": {}, "additionalProperties": False}}} for n in "fgh"]
    for choice, status, names in (
            ({"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [{"type": "function", "function": {"name": "g"}}]}}, 200, "g"),
            ({"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "h"}, {"type": "function", "name": "g"}]}, 200, "gh"),
            ({"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [{"type": "function", "function": {"name": "f"}}]}}, 200, None),
            ({"type": "function", "name": "h"}, 200, "h"),
            ({"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [{"type": "function", "function": {"name": "x"}}]}}, 400, None),
            ({"type": "allowed_tools", "allowed_tools": {"mode": "any", "tools": []}}, 400, None),
            ({"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": []}}, 400, None),
            ({"type": "allowed_tools"}, 400, None)):
        got, _, a = s.ask("POST", "/v1/chat/completions", {"messages": [user], "tools": tools, "tool_choice": choice, "max_tokens": 60, "temperature": 0})
        good = got == status and (status == 200 or a["error"]["param"] == "tool_choice")
        if good and names:
            good = a["choices"][0]["message"]["tool_calls"][0]["function"]["name"] in names
        check(f"tool_choice {json.dumps(choice)[:60]} has {status}", good, a)
    def called(parameters, **more):
        tools = [{"type": "function", "function": {"name": n, "parameters": p}} for n, p in (("f", {}), ("g", parameters))]
        return s.ask("POST", "/v1/chat/completions", {"messages": [user], "tools": tools, "max_tokens": 60, "temperature": 0,
                                                      "tool_choice": {"type": "function", "function": {"name": "g"}}, **more})
    inner = {"$id": "https://a.b/c", "type": "object", "required": ["default"], "additionalProperties": False,
             "properties": {"default": {"$ref": "#/$defs/enum"}}, "$defs": {"enum": {"const": 7, "$anchor": "x"}}}
    status, _, a = called(inner)
    good = status == 200 and json.loads(a["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"]) == {"default": 7}
    check("parameters with an $id, and names like keywords, are kept", good, a)
    for choice in ({}, {"tool_choice": "required"}, {"tool_choice": "auto", "response_format": {"type": "json_object"}}):
        status, _, a = called({"properties": {"x": {"contains": {}}}}, **choice)
        error = a.get("error", {})
        check(f"a refused schema names the tool and the place {list(choice)}", status == 400 and error["param"] == "tools"
              and error["message"].startswith("tool 'g': schema, at \"/properties/x/contains\""), a)
    for path, meant in (("/chat/completions", "/v1/chat/completions"), ("/v1/chat/completion", "/v1/chat/completions"),
                        ("/v1/chat/completions/", "/v1/chat/completions"), ("/completions", "/v1/completions"), ("/v1/nothing", None),
                        ("/v1/messages", None), ("/v1/edits", None), ("/slots", None), ("/v1/" + "x" * 3000, None)):
        status, _, a = s.ask("POST", path, {})
        message = a["error"]["message"]
        good = status == 404 and message.endswith(f"; did you mean {meant}?") if meant else status == 404 and "mean" not in message
        check(f"404 of {path[:24]} names what is meant", good, a)
    status, _, a = s.ask("POST", "/v1/completions", {"prompt": "a", "response_format": {"type": "json"}})
    check("types of response_format are named", status == 400 and "json_object and json_schema" in a["error"]["message"], a)
    taken = subprocess.run([*sys.argv[1:2], "serve", sys.argv[2], "--port", str(s.port)], capture_output=True, text=True, timeout=60)
    check("a port that is taken names the option", taken.returncode == 1 and "--port takes another" in taken.stderr, taken.stderr)
    status, _, info = s.ask("GET", "/tokenizer_info")
    check("/tokenizer_info has the template that is used", status == 200 and "<{{ m.role }}>" in info["chat_template"]
          and info["bos_token"] == "<|begin_of_text|>", info)


def gguf(pith, model):
    """A GGUF file has no tokenizer_config.json: what clients look for in it is there."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([pith, "quantize", model, "-o", folder + "/m.gguf", "-r", "q8_0", "--quiet"], check=True)
        with Server(pith, folder + "/m.gguf") as s:
            status, _, info = s.ask("GET", "/tokenizer_info")
            status2, _, plain = s.ask("POST", "/tokenize", {"prompt": info.get("eos_token") or "", "add_special_tokens": False})
            check("/tokenizer_info of a GGUF file", status == 200 and info["bos_token"] == "<|begin_of_text|>" and len(plain["tokens"]) == 1, (info, plain))


def log_of_paths(pith, model):
    """What has no route stands in the log as it was asked, whatever its bytes are."""
    process = subprocess.Popen([pith, "serve", model, "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        port = int(process.stdout.readline().strip().rsplit(":", 1)[1])
        for path in ("/chat/completions?key=secret", "/a%22b%0A%FFc", "/" + "y" * 900):
            c = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            c.request("POST", path, b"{}")
            check(f"{path[:20]} has 404", c.getresponse().status == 404)
            c.close()
    finally:
        process.terminate()
        text = process.communicate(timeout=60)[1]
    lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    paths = [line["path"] for line in lines]
    good = len(paths) == 3 and paths[0] == "/chat/completions" and paths[1].startswith('/a"b\n') and paths[2] == "/" + "y" * 126
    check("each path stands in the log", good and all(line["method"] == "POST" for line in lines), text)


def queue(pith, model):
    with Server(pith, model, "--max-sequences", "1", "--queue", "1") as s:
        def one(_):
            return s.ask("POST", "/v1/completions", {"prompt": "Once", "max_tokens": 200, "ignore_eos": True})[0]

        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            seen = sorted(pool.map(one, range(4)))
        check("one place and a queue of one take two of four", seen == [200, 200, 429, 429], seen)
        seen = s.ask("POST", "/v1/completions", {"prompt": ["a", "b"], "max_tokens": 1})
        check("two prompts of one request too", seen[0] == 200, seen)


if __name__ == "__main__":
    with tempfile.NamedTemporaryFile("w", suffix=".jinja") as template:
        template.write("{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}")
        template.flush()
        server = Server(sys.argv[1], sys.argv[2], "--context", "512", "--chat-template", template.name)
    with server:
        constraints(server)
        numbers(server)
        paths(server)
        headers(server)
        streams(server)
        overflow(server)
        logprobs(server)
        chats(server)
    hosts(sys.argv[1], sys.argv[2])
    queue(sys.argv[1], sys.argv[2])
    gguf(sys.argv[1], sys.argv[2])
    log_of_paths(sys.argv[1], sys.argv[2])
    sys.exit(failed)
