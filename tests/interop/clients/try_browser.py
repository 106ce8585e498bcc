"""chromium opens the server's page, on which a script asks for a stream; what the page itself does: tests/page."""
import os
import shutil

from common import *
from playwright.sync_api import sync_playwright

PROGRAM = os.environ.get("CHROMIUM") or shutil.which("chromium") or "/usr/bin/chromium"


def chat():
    with sync_playwright() as p:
        browser = p.chromium.launch(executable_path=PROGRAM, args=["--no-sandbox"])
        page, errors = browser.new_page(), []
        page.on("console", lambda m: errors.append(m.text) if m.type == "error" else None)
        page.on("pageerror", lambda e: errors.append(str(e)))
        page.goto(ROOT + "/")
        answer = page.evaluate("""async model => {
            const r = await fetch("/v1/chat/completions", {method: "POST", headers: {"Content-Type": "application/json"},
                body: JSON.stringify({model, max_tokens: 16, stream: true, messages: [{role: "user", content: "Hello"}]})});
            return [r.status, await r.text()];
        }""", MODEL)
        browser.close()
    need(answer[0] == 200 and answer[1].rstrip().endswith("data: [DONE]"), answer)
    need(not errors, errors)


main(chat=chat)
