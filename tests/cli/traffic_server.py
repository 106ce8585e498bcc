#!/usr/bin/env python3
"""A server of OpenAI's API that behaves as the first part of the path says: http://127.0.0.1:PORT/slow/v1/completions.

    traffic_server.py    prints its port, then one line of JSON for each POST that it is asked
"""
import http.server
import json
import socketserver
import sys
import threading
import time

lock = threading.Lock()
asked = {}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # or an acknowledgement is waited for, up to 40 ms

    def log_message(self, *_):
        pass

    def whole(self, status, body, headers=(), kind="application/json"):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        for k, v in headers:
            self.send_header(k, v)
        self.end_headers()
        self.wfile.write(data)

    def piece(self, data):
        if data:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def event(self, value, end=b"\n\n"):
        text = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.piece(b"data: " + text + end)

    def begin(self, kind="text/event-stream; charset=utf-8"):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def token(self, text="w ", finish=None):
        if self.chat:
            return {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": finish}]}
        return {"choices": [{"index": 0, "text": text, "finish_reason": finish}]}

    def ending(self, usage=True):
        self.event(self.token("", "length"))
        if usage:
            self.event({"choices": [], "usage": self.usage()})
        self.event(b"[DONE]")
        self.piece_end()

    def piece_end(self):
        self.wfile.write(b"0\r\n\r\n")

    def usage(self):
        return {"prompt_tokens": self.prompt_tokens, "completion_tokens": self.most,
                "prompt_tokens_details": {"cached_tokens": self.prompt_tokens // 2 if self.kind == "cached" else 0}}

    def do_GET(self):
        self.kind = self.path.split("/")[1]
        if self.kind == "nolist":
            return self.whole(404, {"error": {"message": "not here"}})
        if self.kind == "locked" and self.headers.get("Authorization") != "Bearer the-key":
            return self.whole(401, {"error": {"message": "who are you?"}})
        return self.whole(200, {"object": "list", "data": [{"id": "model-" + self.kind}, {"id": "other"}]})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.kind = self.path.split("/")[1]
        self.chat = self.path.endswith("/chat/completions")
        self.most = body.get("max_tokens", 16)
        text = body["messages"][0]["content"] if self.chat else body.get("prompt", "")
        # Two tokens a word and three around them; ids are as many as they are.
        self.prompt_tokens = len(text) if isinstance(text, list) else 2 * len(text.split()) + 2
        with lock:
            asked[self.kind] = n = asked.get(self.kind, 0) + 1
            print(json.dumps({"path": self.path, "at": time.monotonic(), "key": self.headers.get("Authorization"), **body}), flush=True)
        if self.path.endswith("/tokenize"):
            if self.kind == "nolist":
                return self.whole(404, {})
            return self.whole(200, {"tokens": [5, 6, 7, 8]})
        if not body.get("stream"):
            usage = {} if self.kind == "nousage" else {"usage": self.usage()}
            return self.whole(200, {"choices": [{"text": "w"}], **usage})
        try:
            getattr(self, "kind_" + self.kind, self.kind_good)(n)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def kind_good(self, n):
        self.begin()
        if self.chat:
            self.event({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]})
            time.sleep(0.05)
        for _ in range(self.most):
            self.event(self.token())
        self.ending()

    def kind_slow(self, n):
        """The first token after 300 ms, the others 40 ms apart."""
        time.sleep(0.3)
        self.begin()
        for i in range(self.most):
            if i:
                time.sleep(0.04)
            self.event(self.token("" if i % 2 else "w"))
        self.ending()

    def kind_bytes(self, n):
        """The same in single bytes, lines that end in CR LF, with comments."""
        self.begin()
        text = b": hello\r\n\r\n"
        for i in range(self.most):
            text += b"event: message\r\nid: %d\r\ndata: %s\r\n\r\n: ping\r\n\r\n" % (i, json.dumps(self.token("\u00e9")).encode())
        text += b"data: " + json.dumps({"choices": [], "usage": self.usage()}).encode() + b"\r\n\r\ndata: [DONE]\r\n\r\n"
        for i in range(len(text)):
            self.piece(text[i:i + 1])
        self.piece_end()

    def kind_pairs(self, n):
        self.begin()
        for _ in range(self.most // 2):
            self.event(self.token("w w"))
        self.ending()

    def kind_nousage(self, n):
        self.begin()
        for _ in range(self.most):
            self.event(self.token())
        self.ending(usage=False)

    def kind_cut(self, n):
        self.begin()
        for _ in range(3):
            self.event(self.token())
        self.close_connection = True

    def kind_cutdone(self, n):
        """All of it, but for the end that HTTP wants."""
        self.begin()
        for _ in range(self.most):
            self.event(self.token())
        self.event(self.token("", "length"))
        self.event({"choices": [], "usage": self.usage()})
        self.event(b"[DONE]")
        self.close_connection = True

    def kind_unfinished(self, n):
        self.begin()
        self.event(self.token())
        self.piece_end()

    def kind_broken(self, n):
        self.whole(500, {"error": {"message": "out of luck", "type": "server_error"}})

    def kind_busy(self, n):
        """Every second one is told to come back after a second."""
        if n % 2:
            return self.whole(429, {"error": {"message": "later"}}, [("Retry-After", "1")])
        return self.kind_good(n)

    def kind_rubbish(self, n):
        self.begin()
        self.event(b"{\"choices\": [nonsense\xff\x00")
        self.ending()

    def kind_html(self, n):
        self.whole(200, b"<html>Welcome</html>", kind="text/html")

    def kind_error(self, n):
        self.begin()
        self.event(self.token())
        self.event({"error": {"message": "numbers went wrong", "code": 500}})
        self.piece_end()

    def kind_olderror(self, n):
        self.begin()
        self.event(self.token())
        self.piece(b"error: {\"code\": 500, \"message\": \"x\"}\n\n")
        self.piece_end()

    def kind_endless(self, n):
        self.begin()
        self.piece(b"data: ")
        while True:
            self.piece(b"x" * 65536)

    def kind_never(self, n):
        time.sleep(30)

    def kind_nohttp(self, n):
        self.wfile.write(b"\x00\xffthis is no HTTP\r\n\r\n")
        self.close_connection = True

    def kind_badchunk(self, n):
        self.begin()
        self.event(self.token())
        self.wfile.write(b"zz\r\n")
        self.close_connection = True

    def kind_redirect(self, n):
        self.whole(307, {}, [("Location", "http://127.0.0.1:1/")])


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    request_queue_size = 4096


server = Server(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
try:
    server.serve_forever()
except KeyboardInterrupt:
    sys.exit(0)
