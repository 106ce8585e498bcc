"""What clients of OpenAI, vLLM and llama-server send to `pith serve`, and what they need back.

    served_clients.py PITH MODEL
"""
import http.client
import json
import subprocess
import sys

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
    status, _, answer = s.ask("POST", "/v1/completions", {"prompt": "a", "response_format": {"type": "json_object", "value": {}}})
    check("response_format.value is refused by name", status == 400 and answer["error"]["param"] == "response_format.value", answer)


def numbers(s):
    greedy = s.text(max_tokens=4)
    seen = s.text(max_tokens=4, temperature=5, top_p=0, seed=1)
    check("top_p 0 leaves the likeliest alone", seen == greedy, (seen, greedy))
    status, _, answer = s.ask("POST", "/v1/completions", {"prompt": "a", "max_tokens": 1, "n": 128})
    check("n goes to 128", status == 200 and len(answer["choices"]) == 128, answer)


if __name__ == "__main__":
    with Server(sys.argv[1], sys.argv[2], "--context", "512") as server:
        constraints(server)
        numbers(server)
    sys.exit(failed)
