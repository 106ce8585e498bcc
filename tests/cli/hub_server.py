"""A server that behaves as the Hugging Face hub does, for tests/cli/test_pull.sh, on 127.0.0.1.

hub_server.py ROOT [CERTIFICATE]: serves ROOT/models/ORG/NAME/, writes its port to ROOT/port, and each request as a line of
JSON to ROOT/log. ROOT/control.json, read anew at each request, says how it misbehaves. Large files are
redirected to another host name (localhost), as the hub redirects to the servers that hold its data.
"""
import functools
import hashlib
import http.server
import json
import os
import re
import ssl
import sys
import threading
import time
import urllib.parse

root = sys.argv[1]
large = 1 << 16
token = "hf_secret"
counts = {}
guard = threading.Lock()


def control():
    try:
        with open(os.path.join(root, "control.json")) as f:
            return json.load(f)
    except FileNotFoundError:
        return {}


def files(repo):
    top = os.path.join(root, "models", repo)
    for folder, _, names in sorted(os.walk(top)):
        for name in sorted(names):
            path = os.path.join(folder, name)
            yield os.path.relpath(path, top), path


@functools.cache
def hashes(full, size, changed):
    with open(full, "rb") as f:
        data = f.read()
    return hashlib.sha1(b"blob %d\0" % size + data).hexdigest(), hashlib.sha256(data).hexdigest()


def describe(path, full):
    at = os.stat(full)
    git, sha256 = hashes(full, at.st_size, at.st_mtime_ns)
    entry = {"type": "file", "path": path, "size": at.st_size, "oid": git}
    if at.st_size >= large:
        entry["lfs"] = {"oid": sha256, "size": at.st_size, "pointerSize": 134}
    return entry


def commit(repo):
    text = json.dumps([describe(p, f)["oid"] for p, f in files(repo)])
    return hashlib.sha1(text.encode()).hexdigest()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def once(self, name, limit):
        """True for the first `limit` requests that come here for this name while there is a limit."""
        if not limit:
            return False
        with guard:
            counts[name] = counts.get(name, 0) + 1
            return counts[name] <= limit

    def answer(self, status, body=b"", headers=()):
        self.send_response(status)
        for key, value in headers:
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def refuse(self, status, code):
        self.answer(status, b'{"error":"no"}', [("X-Error-Code", code), ("X-Error-Message", "told by the hub")])

    def api(self, path, query, c):
        found = re.fullmatch(r"/api/models/([^/]+/[^/]+)/(revision|tree)/([^/]+)", path)
        repo = found and found.group(1)
        if not found or not os.path.isdir(os.path.join(root, "models", repo)):
            return self.refuse(404 if self.headers.get("Authorization") else 401, "RepoNotFound")
        revision = urllib.parse.unquote(found.group(3))
        if revision not in ("main", "refs/pr/1", commit(repo)):
            return self.refuse(404, "RevisionNotFound")
        if found.group(2) == "revision":
            names = [{"rfilename": p} for p, _ in files(repo)]
            return self.answer(200, json.dumps({"sha": commit(repo), "siblings": names}).encode())
        entries = [describe(p, f) for p, f in files(repo)] + c.get("evil", [])
        entries.append({"type": "directory", "path": "onnx", "size": 0, "oid": "0" * 40})
        page, at = c.get("page", 1000), int(query.get("cursor", ["0"])[0])
        headers = []
        if at + page < len(entries):
            following = f"http://127.0.0.1:{port}{path}?recursive=true&cursor={at + page}"
            headers.append(("Link", f'<{following}>; rel="next"'))
        return self.answer(200, json.dumps(entries[at:at + page]).encode(), headers)

    def resolve(self, repo, path, c):
        full = os.path.join(root, "models", repo, path)
        if not os.path.isfile(full):
            return self.refuse(404, "EntryNotFound")
        entry = describe(path, full)
        if "lfs" not in entry:
            return self.body(full, c)
        headers = [("X-Linked-Etag", '"%s"' % entry["lfs"]["oid"]), ("X-Linked-Size", str(entry["size"])),
                   ("Location", c.get("redirect", f"http://localhost:{port}/cdn/{repo}/{path}"))]
        return self.answer(302, b"Found. Redirecting", headers)

    def body(self, full, c):
        with open(full, "rb") as f:
            data = f.read()
        size = len(data)
        name = os.path.basename(full)
        if name in c.get("wrong", []):
            data = data[:-1] + bytes([data[-1] ^ 1])
        if name in c.get("short", []):
            data = data[:-7]
        if name in c.get("long", []):
            data += b"more"
        status, headers, start, end = 200, [], 0, len(data)
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if asked and not c.get("noranges"):
            start = int(asked.group(1))
            end = min(int(asked.group(2) or size) + 1, len(data))
            status = 206
            start += c.get("shift", 0)
            headers.append(("Content-Range", f"bytes {start}-{end - 1}/{len(data)}"))
        data = data[start:end]
        if len(data) > 1000 and self.once("cut " + name, c.get("cut", 0)):
            self.send_response(status)
            for key, value in headers + [("Content-Length", str(len(data)))]:
                self.send_header(key, value)
            self.end_headers()
            self.wfile.write(data[:len(data) // 2])
            self.close_connection = True
            return None
        self.send_response(status)
        for key, value in headers + [("Content-Length", str(len(data)))]:
            self.send_header(key, value)
        self.end_headers()
        slow, hold = (c.get(k, 0) if len(data) >= large else 0 for k in ("slow", "hold"))
        step = 1 << 16
        for at in range(0, len(data), step):
            self.wfile.write(data[at:at + step])
            if slow:
                time.sleep(step / slow)
            if at + step >= hold > 0 and at + step < len(data):
                return self.trickle(data[at + step:])
        return None

    def trickle(self, data):
        """So slowly that it is on its way whatever the time, but not so that it counts as lost."""
        for at in range(len(data)):
            self.wfile.write(data[at:at + 1])
            time.sleep(0.2)

    def do_GET(self):
        c = control()
        url = urllib.parse.urlsplit(self.path)
        host = self.headers.get("Host", "")
        with guard, open(os.path.join(root, "log"), "a") as f:
            f.write(json.dumps({"host": host.split(":")[0], "path": url.path, "range": self.headers.get("Range"),
                                "token": self.headers.get("Authorization")}) + "\n")
        path = url.path
        if path.startswith("/cdn/"):
            if c.get("cdn_status"):
                return self.answer(c["cdn_status"])
            return self.body(os.path.join(root, "models", urllib.parse.unquote(path[5:])), c)
        known = self.headers.get("Authorization") == "Bearer " + token
        if self.once("busy", c.get("busy", 0)):
            return self.answer(429, b"", [("Retry-After", "1")])
        if self.once("broken", c.get("broken", 0)):
            return self.answer(503)
        if path.startswith("/api/models/acme/gated/") and not known:
            return self.refuse(401, "GatedRepo")
        if path.startswith("/api/models/acme/terms/"):
            return self.refuse(403, "GatedRepo")
        if "acme/old/" in path:
            there = self.path.replace("acme/old", "acme/gated")
            return self.answer(307, b"", [("Location", there)])
        if path.startswith("/api/"):
            return self.api(path, urllib.parse.parse_qs(url.query), c)
        found = re.fullmatch(r"/([^/]+/[^/]+)/resolve/[0-9a-f]{40}/(.+)", path)
        if not found:
            return self.answer(404)
        return self.resolve(found.group(1), urllib.parse.unquote(found.group(2)), c)

    def handle(self):
        try:
            super().handle()
        except (BrokenPipeError, ConnectionResetError):
            pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.daemon_threads = True
if len(sys.argv) > 2:  # a certificate with its key, which nobody has signed
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sys.argv[2])
    server.socket = context.wrap_socket(server.socket, server_side=True)
port = server.server_address[1]
with open(os.path.join(root, "port.new"), "w") as f:
    f.write(str(port))
os.rename(os.path.join(root, "port.new"), os.path.join(root, "port"))
server.serve_forever()
