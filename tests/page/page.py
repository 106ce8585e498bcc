#!/usr/bin/env python3
"""tests/page/page.py PITH MODEL [SHOTS]: the page of `pith serve` in a browser (chromium): conversations, stop, edit, retry,
what is kept, hostile answers, the keyboard alone, errors; no message on the console, no request to another host; pages of other origins, and names that lead here. SHOTS: a
folder for pictures of it, light, dark and narrow."""
import contextlib
import http.server
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time

from playwright.sync_api import sync_playwright

TEMPLATE = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant:"
HOSTILE = """# Heading <b>not bold</b>

<img src=x onerror="document.title='owned'"><script>document.title='owned'</script>
[bad](javascript:alert(1)) [good](https://example.org/x) **bold** `a < b` and *slanted*, snake_case_name.

| a | b |
|---|---|
| 1 | <i>2</i> |

- one
  - deeper
- two

3. third

> quoted

```c
int x = 1 < 2; // <script>
```
"""
failed = []


def check(name, good):
    print(("[       OK ] " if good else "[  FAILED  ] ") + name)
    if not good:
        failed.append(name)


def chunk(delta, finish=None):
    return "data: " + json.dumps({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}) + "\n\n"


def streamed(*deltas):
    usage = {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12}}
    return "".join(chunk(d) for d in deltas) + chunk({}, "stop") + "data: " + json.dumps(usage) + "\n\ndata: [DONE]\n\n"


def answer_with(page, body, status=200, kind="text/event-stream", headers=None):
    page.unroute("**/v1/chat/completions")
    page.route("**/v1/chat/completions", lambda r: r.fulfill(status=status, body=body, content_type=kind, headers=headers or {}))


def send(page, text):
    page.fill("#input", text)
    page.keyboard.press("Enter")


def done(page):
    page.locator("#status", has_text=re.compile("^(Answered|Stopped|The )")).wait_for(timeout=60000)


def real_conversation(page):
    page.fill("[name=max_tokens]", "24")
    page.fill("[name=temperature]", "0")
    send(page, "Once upon a time")
    done(page)
    first = page.inner_text(".turn.assistant .words")
    check("a question is answered", len(first.strip()) > 0)
    check("with its figures", bool(re.search(r"24 tokens.*first after", page.inner_text(".turn.assistant .facts"))))
    page.click("text=Retry")
    done(page)
    check("retry answers again, the same at temperature 0", page.inner_text(".turn.assistant .words") == first)
    page.click("text=Edit")
    page.fill(".turn textarea", "The old house")
    page.keyboard.press("Enter")
    done(page)
    check("an edited message is answered", page.inner_text(".turn.user .body") == "The old house" and
          page.locator(".turn").count() == 2 and page.inner_text(".turn.assistant .words") != first)
    page.reload()
    check("a reload keeps the conversation", page.inner_text(".turn.user .body") == "The old house")
    check("and the settings", page.input_value("[name=max_tokens]") == "24")


def stop_by_key(page):
    page.fill("[name=max_tokens]", "")
    page.click("text=New conversation")
    page.fill("[name=temperature]", "1")
    send(page, "Tell me everything")
    page.wait_for_selector(".turn.assistant .words", timeout=60000)
    page.keyboard.press("Escape")
    done(page)
    check("Escape stops an answer, which stays", "stopped" in page.inner_text(".turn.assistant .facts") and
          len(page.inner_text(".turn.assistant .words")) > 0)
    check("two conversations are listed", page.locator("#list li").count() == 2)
    page.locator("#list .open").nth(1).click()
    check("another is opened", page.inner_text(".turn.user .body") == "The old house")
    page.locator("#list li").nth(1).hover()
    page.locator("#list [title=Rename]").nth(1).click()
    page.keyboard.type("My house")
    page.keyboard.press("Enter")
    check("and renamed", page.locator("#list .open").nth(1).inner_text() == "My house")
    page.locator("#list [title=Delete]").nth(0).click()
    check("deleting asks first", page.locator("#list li").count() == 2)
    page.locator("#list [title=Delete]").nth(0).click()
    check("and deletes", page.locator("#list li").count() == 1)


def hostile_answers(page):
    page.click("text=New conversation")
    answer_with(page, streamed({"reasoning_content": "Let me **see**."}, {"content": HOSTILE[:40]}, {"content": HOSTILE[40:]},
                               {"tool_calls": [{"index": 0, "function": {"name": "find", "arguments": "{\"q\":"}}]},
                               {"tool_calls": [{"index": 0, "function": {"arguments": "\"<b>\"}"}}]}))
    send(page, "<b>hostile</b>")
    done(page)
    words = page.locator(".turn.assistant > .body > .words")
    check("markup of the user stays text", page.inner_text(".turn.user .body") == "<b>hostile</b>")
    check("markup of the model stays text", page.locator(".turn img, .turn script, .turn i, .turn b").count() == 0 and
          page.title() != "owned" and "<img src=x" in words.inner_text())
    links = page.locator(".turn.assistant a").evaluate_all("l => l.map((a) => [a.getAttribute('href'), a.rel])")
    check("links are of the web, and know nothing of us", links == [["https://example.org/x", "noopener noreferrer nofollow"]])
    for what, got, want in (
            ("bold", page.locator(".words strong").all_text_contents(), ["see", "bold"]),
            ("cells", page.locator(".words table td").all_inner_texts(), ["1", "<i>2</i>"]),
            ("nested items", page.locator(".words ul ul li").all_inner_texts(), ["deeper"]),
            ("quotes", page.locator(".words blockquote").inner_text(), "quoted"),
            ("numbers", page.locator(".words ol").get_attribute("start"), "3"),
            ("emphasis", page.locator(".words em").all_inner_texts(), ["slanted"]),
            ("code", page.locator(".block pre").nth(0).inner_text().strip(), "int x = 1 < 2; // <script>"),
            ("code in a line", page.locator(".words p code").all_inner_texts(), ["a < b"])):
        check("Markdown: " + what + ("" if got == want else " %r" % (got,)), got == want)
    check("thoughts are folded", page.locator(".turn details").count() == 1 and not page.locator(".turn details").get_attribute("open"))
    check("calls are shown", page.locator(".block").nth(1).inner_text().split("\n")[-1] == '{"q":"<b>"}')
    answer_with(page, json.dumps({"error": {"message": "too many"}}), 429, "application/json", {"Retry-After": "3"})
    send(page, "again")
    page.wait_for_selector(".problem")
    check("a refusal is told in words", "asks to wait 3 s" in page.inner_text(".problem"))
    answer_with(page, chunk({"content": "half"}))
    page.locator("text=Retry").last.click()
    page.locator(".problem", has_text="broke off").wait_for()
    check("an answer that breaks off is kept and told", "half" in page.locator(".turn").last.inner_text())
    page.unroute("**/v1/chat/completions")


def keyboard_alone(page):
    page.reload()
    seen = []
    for _ in range(40):
        page.keyboard.press("Tab")
        seen.append(page.evaluate("document.activeElement.id || document.activeElement.className || document.activeElement.name"))
    check("Tab reaches what there is", {"theme", "new", "open", "log", "input", "send", "system", "temperature", "key"} <= set(seen))
    names = page.evaluate("""[...document.querySelectorAll('button, input, textarea')].filter((e) => e.checkVisibility())
        .filter((e) => !(e.getAttribute('aria-label') || e.textContent.trim() || (e.labels && e.labels.length))).length""")
    check("all have names", names == 0)
    page.focus("#theme")
    page.keyboard.press("Enter")
    check("dark by key", page.evaluate("document.documentElement.dataset.theme") == "dark")
    page.keyboard.press("Enter")


def narrow(browser, base, shots, watch):
    page = browser.new_page(viewport={"width": 360, "height": 740}, color_scheme="light")
    watch(page)
    page.goto(base)
    wide = page.evaluate("document.documentElement.scrollWidth")
    check("no scrolling sideways at 360 pixels", wide <= 360)
    page.click("#open-side")
    check("settings open over it", page.locator("#system").is_visible())
    page.keyboard.press("Escape")
    page.click("#open-list")
    check("conversations too", page.locator("#new").is_visible())
    page.click("#new")
    answer_with(page, streamed({"content": HOSTILE.replace("not bold", "x")}))
    send(page, "How does this look on a telephone?")
    done(page)
    check("an answer fits", page.evaluate("document.documentElement.scrollWidth") <= 360)
    if shots:
        page.screenshot(path=os.path.join(shots, "narrow.png"))
    page.close()


def without_template(browser, pith, model, watch):
    with served(pith, model, []) as base:
        page = browser.new_page()
        errors = []
        page.on("pageerror", lambda e: errors.append(str(e)))
        page.goto(base)
        page.fill("[name=max_tokens]", "8")
        send(page, "Once upon a time")
        done(page)
        check("a model without a template completes", len(page.inner_text(".turn.assistant .words").strip()) > 0 and not errors)
        page.close()


class served:
    def __init__(self, pith, model, options):
        self.args = [pith, "serve", model, "--port", "0", *options]

    def __enter__(self):
        self.p = subprocess.Popen(self.args, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        return self.p.stdout.readline().strip()

    def __exit__(self, *_):
        self.p.terminate()
        self.p.wait()


def pictures(page, shots):
    answer_with(page, streamed({"reasoning_content": "A short proof will do."}, {"content":
        "Because every even number above two has a divisor that is neither one nor itself.\n\n"
        "1. An even number is $2k$; for $k > 1$ both factors exceed one.\n2. So it is **not prime**, whatever `k` is.\n\n"
        "```c\nbool is_prime(unsigned n)\n{\n    return n == 2 || (n > 2 && n % 2 && has_no_divisor(n));\n}\n```\n\n"
        "| n | even | prime |\n|--:|:-:|:-:|\n| 2 | yes | yes |\n| 4 | yes | no |\n"}))
    page.click("text=New conversation")
    send(page, "Why is no even number above two prime?")
    done(page)
    time.sleep(4.5)
    page.mouse.move(700, 500)
    page.evaluate("document.getElementById('side').scrollTop = 0")
    for theme in ("light", "dark"):
        page.evaluate("t => { document.documentElement.dataset.theme = t; }", theme)
        page.screenshot(path=os.path.join(shots, theme + ".png"))
    page.unroute("**/v1/chat/completions")


FETCH = """async ([url, headers]) => {
    try {
        const r = await fetch(url + "/v1/chat/completions", {method: "POST", headers, body: JSON.stringify(
            {messages: [{role: "user", content: "Hi"}], max_tokens: 2})});
        return [r.status, r.headers.get("x-request-id") || ""];
    } catch (e) {
        return [0, String(e)];
    }
}"""
# As the official client of JavaScript sends them.
HEADERS = {"Authorization": "Bearer none", "Content-Type": "application/json", "X-Stainless-OS": "Linux", "X-Stainless-Lang": "js",
           "X-Stainless-Retry-Count": "0", "X-Request-Id": "from-a-page"}


@contextlib.contextmanager
def elsewhere():
    """A page of another origin."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<title>elsewhere</title>")

    def log_message(self, *_):
        pass


def other_origins(p, pith, model, template):
    """Pages of other origins, and a name that leads here behind the server's back."""
    browser = p.chromium.launch(executable_path=os.environ.get("CHROMIUM", "/usr/bin/chromium"),
                                args=["--no-sandbox", "--host-resolver-rules=MAP evil.test 127.0.0.1"])
    with elsewhere() as origin:
        for name, options, page_of, status in (
                ("a page that --cors names may ask", ["--cors", origin], origin, 200), ("so may any with --cors *", ["--cors", "*"], origin, 200),
                ("another origin may not", ["--cors", "http://127.0.0.1:9"], origin, 0), ("nor any without --cors", [], origin, 0),
                ("a name that leads here is none of ours", [], None, 403), ("--allow-host makes it one", ["--allow-host", "evil.test"], None, 200)):
            with served(pith, model, ["--chat-template", template, *options]) as base:
                to = base if page_of else base.replace("127.0.0.1", "evil.test")
                page = browser.new_page()
                page.goto(page_of or to)
                seen = page.evaluate(FETCH, [to, HEADERS])
                check(name, seen[0] == status and (status != 200 or seen[1] == "from-a-page"))
                if name in failed:
                    print(seen)
                page.close()
    browser.close()


def main():
    pith, model = sys.argv[1], sys.argv[2]
    shots = sys.argv[3] if len(sys.argv) > 3 else None
    said, asked = [], []

    def watch(page):
        page.on("console", lambda m: said.append(m.text) if "status of 429" not in m.text else None)
        page.on("pageerror", lambda e: said.append(str(e)))
        page.on("request", lambda r: asked.append(r.url))

    with tempfile.TemporaryDirectory() as work, sync_playwright() as p:
        template = os.path.join(work, "t.jinja")
        with open(template, "w", encoding="utf-8") as f:
            f.write(TEMPLATE)
        browser = p.chromium.launch(executable_path=os.environ.get("CHROMIUM", "/usr/bin/chromium"), args=["--no-sandbox"])
        with served(pith, model, ["--chat-template", template]) as base:
            page = browser.new_page(viewport={"width": 1280, "height": 800}, color_scheme="light")
            watch(page)
            page.goto(base)
            page.locator("#model", has_text="probe").wait_for()
            real_conversation(page)
            stop_by_key(page)
            hostile_answers(page)
            keyboard_alone(page)
            page.locator("#gauges .gauge", has_text="%").first.wait_for(timeout=10000)
            check("gauges show", "–" not in page.locator("#gauges .gauge").nth(4).inner_text())
            if shots:
                pictures(page, shots)
            narrow(browser, base, shots, watch)
        hosts = {u.split("/")[2] for u in asked if u.startswith("http")}
        check("requests go to the server alone", hosts == {base.split("/")[2]})
        check("the console has no message", not said or print(said[:5]))
        without_template(browser, pith, model, watch)
        browser.close()
        other_origins(p, pith, model, template)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
