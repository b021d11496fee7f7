"""A small MCP client: stdio and streamable HTTP."""
import asyncio
import http.client
import json
import os
import signal
import sys
import urllib.parse

HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "seventh-pangolin", "version": "7.0.1"}}


class McpError(Exception):
    pass


class Link:
    def __init__(self, spec, cwd):
        self.spec, self.cwd = spec, cwd
        self.name = spec["name"]
        self.tools = []
        self.ids = 0

    async def connect(self):
        await self.open()
        await self.request("initialize", HELLO)
        await self.notify("notifications/initialized")
        cursor, pages = None, 0
        while pages < 20:
            got = await self.request("tools/list", {"cursor": cursor} if cursor else {})
            self.tools += [t for t in got.get("tools", []) if isinstance(t, dict) and isinstance(t.get("name"), str)]
            cursor, pages = got.get("nextCursor"), pages + 1
            if not cursor:
                break

    async def call(self, tool, args):
        return await self.request("tools/call", {"name": tool, "arguments": args})


ALIVE = set()


class StdioLink(Link):
    proc = None

    async def open(self):
        self.waiting = {}
        env = dict(os.environ)
        env.update({e["name"]: e["value"] for e in self.spec["env"]})
        self.proc = await asyncio.create_subprocess_exec(
            self.spec["command"], *self.spec["args"], env=env, cwd=self.cwd if os.path.isdir(self.cwd) else None, limit=64 << 20,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL, start_new_session=True)
        ALIVE.add(self)
        self.pump_task = asyncio.ensure_future(self.pump())

    async def pump(self):
        try:
            while True:
                line = await self.proc.stdout.readline()
                if not line:
                    break
                try:
                    msg = json.loads(line)
                except ValueError:
                    continue
                if not isinstance(msg, dict):
                    continue
                if "method" in msg and "id" in msg:
                    if msg["method"] == "ping":
                        await self.send({"jsonrpc": "2.0", "id": msg["id"], "result": {}})
                    else:
                        await self.send({"jsonrpc": "2.0", "id": msg["id"], "error": {"code": -32601, "message": "Method not found"}})
                elif "method" not in msg:
                    fut = self.waiting.pop(msg.get("id"), None)
                    if fut and not fut.done():
                        fut.set_result(msg)
        except Exception as e:
            print("mcp pump:", e, file=sys.stderr)
        for fut in self.waiting.values():
            if not fut.done():
                fut.set_exception(McpError("the MCP server went away"))
        self.waiting.clear()

    async def send(self, msg):
        self.proc.stdin.write((json.dumps(msg) + "\n").encode())
        await self.proc.stdin.drain()

    async def request(self, method, params):
        if self.pump_task.done():
            raise McpError("the MCP server went away")
        self.ids += 1
        rid = self.ids
        fut = asyncio.get_running_loop().create_future()
        self.waiting[rid] = fut
        await self.send({"jsonrpc": "2.0", "id": rid, "method": method, "params": params})
        try:
            msg = await fut
        except asyncio.CancelledError:
            self.waiting.pop(rid, None)
            try:
                self.proc.stdin.write((json.dumps({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": rid, "reason": "cancelled"}}) + "\n").encode())
            except Exception:
                pass
            raise
        if "error" in msg:
            raise McpError(str((msg["error"] or {}).get("message", "MCP error")))
        return msg.get("result") or {}

    async def notify(self, method):
        await self.send({"jsonrpc": "2.0", "method": method})

    async def close(self):
        if not self.proc:
            return
        try:
            self.proc.stdin.close()
        except Exception:
            pass
        for wait, sig in ((0.4, signal.SIGTERM), (0.6, signal.SIGKILL), (1.0, None)):
            try:
                await asyncio.wait_for(asyncio.shield(self.proc.wait()), wait)
                break
            except asyncio.TimeoutError:
                if sig:
                    self.kill(sig)
        self.kill(signal.SIGKILL)
        ALIVE.discard(self)

    def kill(self, sig=signal.SIGKILL):
        if self.proc:
            try:
                os.killpg(self.proc.pid, sig)
            except (ProcessLookupError, PermissionError):
                pass


class HttpLink(Link):
    async def open(self):
        self.session = self.version = None
        self.url = urllib.parse.urlsplit(self.spec["url"])

    def post(self, msg, verb="POST"):
        kind = http.client.HTTPSConnection if self.url.scheme == "https" else http.client.HTTPConnection
        conn = kind(self.url.hostname, self.url.port, timeout=60)
        try:
            head = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
            if self.session:
                head["Mcp-Session-Id"] = self.session
            if self.version:
                head["MCP-Protocol-Version"] = self.version
            head.update({h["name"]: h["value"] for h in self.spec["headers"]})
            path = (self.url.path or "/") + ("?" + self.url.query if self.url.query else "")
            conn.request(verb, path, json.dumps(msg).encode() if msg is not None else None, head)
            res = conn.getresponse()
            if res.getheader("Mcp-Session-Id"):
                self.session = res.getheader("Mcp-Session-Id")
            if res.status >= 400:
                raise McpError("HTTP status %d" % res.status)
            if msg is None or "id" not in msg:
                res.read()
                return None
            if "event-stream" in (res.getheader("Content-Type") or ""):
                data = []
                while True:
                    line = res.readline()
                    text = line.decode("utf-8", "replace").rstrip("\r\n")
                    if text.startswith("data:"):
                        data.append(text[5:].lstrip(" "))
                    elif not text and data:
                        got = json.loads("\n".join(data))
                        data = []
                        if isinstance(got, dict) and got.get("id") == msg["id"] and "method" not in got:
                            return got
                    if not line:
                        raise McpError("the event stream ended early")
            return json.loads(res.read())
        finally:
            conn.close()

    async def request(self, method, params):
        self.ids += 1
        got = await asyncio.to_thread(self.post, {"jsonrpc": "2.0", "id": self.ids, "method": method, "params": params})
        if not isinstance(got, dict) or "error" in got:
            raise McpError(str(((got or {}).get("error") or {}).get("message", "MCP error")) if isinstance(got, dict) else "bad answer")
        if method == "initialize":
            self.version = (got.get("result") or {}).get("protocolVersion") or HELLO["protocolVersion"]
        return got.get("result") or {}

    async def notify(self, method):
        await asyncio.to_thread(self.post, {"jsonrpc": "2.0", "method": method})

    async def close(self):
        if self.session:
            try:
                await asyncio.wait_for(asyncio.to_thread(self.post, None, "DELETE"), 1.5)
            except Exception:
                pass

    def kill(self, sig=None):
        pass


async def connect_all(specs, cwd):
    async def one(spec):
        link = (HttpLink if spec.get("type") == "http" else StdioLink)(spec, cwd)
        try:
            await asyncio.wait_for(link.connect(), 10)
            return link
        except Exception as e:
            print("MCP server %s: %s: %s" % (link.name, type(e).__name__, e), file=sys.stderr)
            link.kill()
            return None
    return [l for l in await asyncio.gather(*(one(s) for s in specs)) if l]
