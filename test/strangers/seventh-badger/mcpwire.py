"""MCP client for stdio and streamable HTTP servers."""
import asyncio
import itertools
import json
import os
import urllib.request

HELLO = {"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "seventh-badger", "version": "7.1.0"}}


class McpError(Exception):
    pass


class Server:
    def __init__(self, name):
        self.name, self.tools, self.ids, self.version = name, [], itertools.count(), None

    async def open(self):
        r = await self.request("initialize", HELLO, 10) or {}
        self.version = r.get("protocolVersion")
        await self.notify("notifications/initialized")
        cursor = None
        for _ in range(50):
            page = await self.request("tools/list", {"cursor": cursor} if cursor else {}, 10) or {}
            self.tools += [{**t, "server": self} for t in page.get("tools", [])]
            cursor = page.get("nextCursor")
            if not cursor:
                break

    async def call(self, name, args):
        return await self.request("tools/call", {"name": name, "arguments": args}, 120)


class StdioServer(Server):
    def __init__(self, cfg, cwd):
        super().__init__(cfg["name"])
        self.cfg, self.cwd, self.waiting, self.proc, self.reader = cfg, cwd, {}, None, None

    async def open(self):
        env = {k: v for k, v in os.environ.items() if k != "FAULT"}
        env.update({e["name"]: e["value"] for e in self.cfg.get("env") or []})
        self.proc = await asyncio.create_subprocess_exec(self.cfg["command"], *(self.cfg.get("args") or []), cwd=self.cwd if os.path.isdir(self.cwd) else None, env=env, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL, limit=1 << 25)
        self.reader = asyncio.create_task(self.read())
        await super().open()

    async def read(self):
        try:
            while line := await self.proc.stdout.readline():
                try:
                    m = json.loads(line)
                except ValueError:
                    continue
                if not isinstance(m, dict):
                    continue
                if "method" in m:
                    if "id" in m:
                        await self.write({"id": m["id"], "result": {}} if m["method"] == "ping" else {"id": m["id"], "error": {"code": -32601, "message": "Method not found"}})
                    continue
                f = self.waiting.pop(m.get("id"), None)
                if f and not f.done():
                    if "error" in m:
                        f.set_exception(McpError((m["error"] or {}).get("message", "error")))
                    else:
                        f.set_result(m.get("result"))
        finally:
            for f in self.waiting.values():
                if not f.done():
                    f.set_exception(McpError("the server ended"))

    async def write(self, m):
        try:
            self.proc.stdin.write((json.dumps({"jsonrpc": "2.0", **m}) + "\n").encode())
            await self.proc.stdin.drain()
        except (OSError, RuntimeError) as e:
            raise McpError("the server does not listen") from e

    async def notify(self, method, params=None):
        await self.write({"method": method, **({"params": params} if params else {})})

    async def request(self, method, params, seconds):
        i = next(self.ids)
        f = self.waiting[i] = asyncio.get_running_loop().create_future()
        try:
            await self.write({"id": i, "method": method, "params": params})
            return await asyncio.wait_for(f, seconds)
        except asyncio.TimeoutError:
            raise McpError(f"{method} took too long") from None
        except asyncio.CancelledError:
            try:
                self.proc.stdin.write((json.dumps({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": i}}) + "\n").encode())
            except Exception:
                pass
            raise
        finally:
            self.waiting.pop(i, None)

    async def close(self):
        if not self.proc:
            return
        self.proc.stdin.close()
        for step in (None, self.proc.terminate, self.proc.kill):
            try:
                if step:
                    step()
            except ProcessLookupError:
                pass
            try:
                await asyncio.wait_for(self.proc.wait(), 0.5)
                break
            except asyncio.TimeoutError:
                continue
        if self.reader:
            self.reader.cancel()


class HttpServer(Server):
    def __init__(self, cfg):
        super().__init__(cfg["name"])
        self.url, self.session = cfg["url"], None
        self.headers = {h["name"]: h["value"] for h in cfg.get("headers") or []}

    def post(self, m, seconds):
        h = {**self.headers, "Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        if self.session:
            h["Mcp-Session-Id"] = self.session
        if self.version:
            h["MCP-Protocol-Version"] = self.version
        req = urllib.request.Request(self.url, data=json.dumps({"jsonrpc": "2.0", **m}).encode(), headers=h, method="POST")
        try:
            with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(req, timeout=seconds) as r:
                self.session = r.headers.get("Mcp-Session-Id") or self.session
                if "id" not in m or r.status == 202:
                    return None
                if "event-stream" not in (r.headers.get("Content-Type") or ""):
                    a = json.loads(r.read())
                else:
                    a, data = None, []
                    for line in r:
                        line = line.decode().rstrip("\r\n")
                        if line.startswith("data:"):
                            data.append(line[5:].lstrip())
                        elif not line and data:
                            x, data = json.loads("\n".join(data)), []
                            if x.get("id") == m["id"] and "method" not in x:
                                a = x
                                break
                    if a is None:
                        raise McpError("the stream ended early")
        except (OSError, ValueError) as e:
            raise McpError(str(e)) from e
        if "error" in a:
            raise McpError((a["error"] or {}).get("message", "error"))
        return a.get("result")

    async def request(self, method, params, seconds):
        return await asyncio.to_thread(self.post, {"id": next(self.ids), "method": method, "params": params}, seconds)

    async def notify(self, method, params=None):
        await asyncio.to_thread(self.post, {"method": method, **({"params": params} if params else {})}, 5)

    async def close(self):
        pass
