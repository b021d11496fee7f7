"""A small hand-written MCP client: stdio and streamable HTTP, started only when a tool is wanted."""
import json
import os
import signal
import subprocess
import threading
import urllib.parse
import urllib.request

from wire import Cancelled, Waiter, log

HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "fifth-badger", "version": "1.0.0"}}


class McpError(Exception):
    pass


def await_box(turn, box, seconds, on_cancel=None):
    with turn.guard(box.poke):
        if not box.wait(seconds):
            if on_cancel:
                on_cancel()
            if turn.stop.is_set():
                raise Cancelled()
            raise McpError("the server did not answer in time")
    return box.value()


class Server:
    def __init__(self, spec, cwd):
        self.spec, self.name, self.cwd = spec, spec["name"], cwd
        self.tools, self.up, self.number = [], False, 0
        self.boxes, self.lock = {}, threading.Lock()

    def start(self, turn):
        self.open()
        try:
            self.protocol = self.ask(turn, "initialize", HELLO, 20).get("protocolVersion")
            self.tell("notifications/initialized")
            self.tools, cursor = [], None
            while True:
                page = self.ask(turn, "tools/list", {"cursor": cursor} if cursor else {}, 20)
                self.tools += [t for t in page.get("tools") or [] if isinstance(t, dict) and isinstance(t.get("name"), str)]
                cursor = page.get("nextCursor")
                if not cursor:
                    break
            self.up = True
        except BaseException:
            self.close()
            raise

    def call(self, turn, tool, arguments):
        return self.ask(turn, "tools/call", {"name": tool, "arguments": arguments}, 120)

    def ask(self, turn, method, params, seconds):
        turn.check()
        with self.lock:
            self.number += 1
            number = self.number
            box = self.boxes[number] = Waiter(number)
        try:
            self.post({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
            reply = await_box(turn, box, seconds, lambda: self.tell(
                "notifications/cancelled", {"requestId": number, "reason": "cancelled"}) if method != "initialize" else None)
        finally:
            self.boxes.pop(number, None)
        if not isinstance(reply, dict):
            raise McpError("the server sent a strange answer")
        if "error" in reply:
            raise McpError(str((reply["error"] or {}).get("message", "the server reported an error")))
        return reply.get("result") or {}

    def tell(self, method, params=None):
        try:
            self.post({"jsonrpc": "2.0", "method": method, **({"params": params} if params else {})})
        except McpError:
            pass

    def heard(self, message):
        """A message from the server: an answer, or a request of its own."""
        if not isinstance(message, dict):
            return
        if "method" in message:
            if "id" in message:
                reply = {"result": {}} if message["method"] == "ping" else {"error": {"code": -32601, "message": "Method not found"}}
                try:
                    self.post({"jsonrpc": "2.0", "id": message["id"], **reply})
                except McpError:
                    pass
            return
        box = self.boxes.get(message.get("id")) if isinstance(message.get("id"), int) else None
        if box:
            box.answer(message, None)

    def fail_all(self, why):
        self.up = False
        for box in list(self.boxes.values()):
            box.answer(None, McpError(why))


class StdioServer(Server):
    process = None

    def open(self):
        env = dict(os.environ)
        env.update({e["name"]: e["value"] for e in self.spec.get("env") or []})
        try:
            self.process = subprocess.Popen([self.spec["command"], *(self.spec.get("args") or [])], cwd=self.cwd, env=env,
                                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                            start_new_session=True)
        except OSError as e:
            raise McpError(f"could not start it ({e.strerror or e})")
        threading.Thread(target=self._listen, args=(self.process,), daemon=True).start()

    def _listen(self, process):
        for line in process.stdout:
            try:
                self.heard(json.loads(line))
            except ValueError:
                pass
        if process is self.process:
            self.fail_all("the server went away")

    def post(self, message):
        try:
            with self.lock:
                self.process.stdin.write((json.dumps(message) + "\n").encode())
                self.process.stdin.flush()
        except (OSError, ValueError):
            raise McpError("the server went away")

    def close(self):
        p, self.process, self.up = self.process, None, False
        if p is None:
            return
        try:
            p.stdin.close()
        except OSError:
            pass
        try:
            p.wait(0.3)
        except subprocess.TimeoutExpired:
            pass
        for sig in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(p.pid, sig)
            except OSError:
                break
            try:
                p.wait(0.5)
            except subprocess.TimeoutExpired:
                continue
        try:
            p.wait(0.5)
        except subprocess.TimeoutExpired:
            log("an MCP server does not want to die")


class HttpServer(Server):
    token = None
    protocol = None

    def open(self):
        host = urllib.parse.urlsplit(self.spec["url"]).hostname or ""
        local = host in ("localhost", "::1") or host.startswith("127.")
        self.opener = urllib.request.build_opener(*([urllib.request.ProxyHandler({})] if local else []))

    def post(self, message):
        threading.Thread(target=self._post, args=(message,), daemon=True).start() \
            if message.get("method") != "notifications/initialized" else self._post(message)

    def _headers(self):
        headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        headers.update({h["name"]: h["value"] for h in self.spec.get("headers") or []})
        if self.token:
            headers["Mcp-Session-Id"] = self.token
        if self.protocol:
            headers["MCP-Protocol-Version"] = self.protocol
        return headers

    def _post(self, message):
        box = self.boxes.get(message.get("id")) if "method" in message else None
        try:
            request = urllib.request.Request(self.spec["url"], json.dumps(message).encode(), self._headers(), method="POST")
            with self.opener.open(request, timeout=120 if box else 5) as reply:
                self.token = reply.headers.get("Mcp-Session-Id") or self.token
                if "text/event-stream" in (reply.headers.get("Content-Type") or ""):
                    data = []
                    for raw in reply:
                        line = raw.decode("utf-8", "replace").rstrip("\r\n")
                        if line.startswith("data:"):
                            data.append(line[5:].lstrip())
                        elif not line and data:
                            self.heard(json.loads("\n".join(data)))
                            data = []
                            if box is None or box.done:
                                break
                else:
                    body = reply.read()
                    if body.strip():
                        self.heard(json.loads(body))
            if box and not box.done:
                box.answer(None, McpError("the server gave no answer"))
        except (OSError, ValueError) as e:
            if box:
                box.answer(None, McpError(f"no connection ({e})"))

    def close(self):
        self.up = False
        if self.token:
            try:
                request = urllib.request.Request(self.spec["url"], headers=self._headers(), method="DELETE")
                self.opener.open(request, timeout=1).close()
            except (OSError, ValueError):
                pass
            self.token = None


def connect_all(turn, session):
    """Start every server of the session that is not up; returns the complaints."""
    if session.mcp is None:
        session.mcp = [(HttpServer if s.get("type") == "http" else StdioServer)(s, session.cwd) for s in session.servers]
    trouble = []
    for server in session.mcp:
        if not server.up:
            try:
                server.close()
                server.start(turn)
            except McpError as e:
                trouble.append(f"The MCP server {server.name} is of no use: {e}.")
    return trouble
