"""A small MCP client: stdio servers as own processes, HTTP servers through urllib."""
import asyncio
import json
import os
import signal
import urllib.request

HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "fourth-stoat", "version": "1.0.0"}}


class McpError(Exception):
    pass


class Server:
    """What stdio and HTTP servers share: the handshake, the list of tools, the calls."""

    def __init__(self, config, cwd):
        self.config, self.cwd, self.name = config, cwd, config["name"]
        self.tools, self.problem, self.counter = [], None, 0
        self.task = asyncio.create_task(self.connect())

    async def connect(self):
        try:
            await asyncio.wait_for(self.handshake(), 20)
        except asyncio.CancelledError:
            raise
        except Exception as error:  # a failing server must not spoil the session
            self.problem = str(error) or type(error).__name__
            await self.stop_transport()

    async def handshake(self):
        await self.open()
        await self.request("initialize", HELLO)
        await self.notify("notifications/initialized")
        cursor = None
        for _ in range(50):
            page = await self.request("tools/list", {"cursor": cursor} if cursor else {})
            self.tools += [t for t in page.get("tools") or [] if isinstance(t, dict) and isinstance(t.get("name"), str)]
            cursor = page.get("nextCursor")
            if not cursor:
                return

    async def call(self, tool, arguments):
        await asyncio.wait({self.task})
        if self.problem:
            raise McpError(f"the MCP server {self.name} is not available: {self.problem}")
        return await asyncio.wait_for(self.request("tools/call", {"name": tool, "arguments": arguments}), 120)

    async def close(self):
        self.task.cancel()
        await asyncio.wait({self.task})
        self.problem = "closed"
        await self.stop_transport()


class StdioServer(Server):
    process = reader = None

    async def open(self):
        self.waiting = {}
        env = {**os.environ, **{e["name"]: e["value"] for e in self.config.get("env") or []}}
        self.process = await asyncio.create_subprocess_exec(
            self.config["command"], *(self.config.get("args") or []), env=env, limit=32 * 1024 * 1024,
            cwd=self.cwd if os.path.isdir(self.cwd) else None, start_new_session=True,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL)
        self.reader = asyncio.create_task(self.read())

    async def read(self):
        try:
            while line := await self.process.stdout.readline():
                try:
                    message = json.loads(line)
                except ValueError:
                    continue  # noise on the server's standard output
                if not isinstance(message, dict):
                    continue
                if "method" in message:
                    if "id" in message:
                        ping = message["method"] == "ping"
                        self.write({"id": message["id"], **({"result": {}} if ping else {"error": {"code": -32601, "message": "Method not found"}})})
                elif isinstance(message.get("id"), int) and message["id"] in self.waiting:
                    future = self.waiting.pop(message["id"])
                    if not future.done():
                        future.set_result(message)
        except (ValueError, OSError):
            pass
        finally:
            for future in self.waiting.values():
                if not future.done():
                    future.set_exception(McpError("the server ended its output"))
            self.waiting = None

    def write(self, message):
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    async def request(self, method, params):
        if self.waiting is None:
            raise McpError("the server ended its output")
        self.counter += 1
        number = self.counter
        future = self.waiting[number] = asyncio.get_running_loop().create_future()
        self.write({"id": number, "method": method, "params": params})
        try:
            return unwrap(await future)
        finally:
            if self.waiting:
                self.waiting.pop(number, None)

    async def notify(self, method):
        self.write({"method": method})

    async def stop_transport(self):
        process = self.process
        if process:
            process.stdin.close()
            for how in (None, signal.SIGTERM, signal.SIGKILL):
                if process.returncode is None and how:
                    try:
                        os.killpg(process.pid, how)
                    except ProcessLookupError:
                        pass
                try:
                    await asyncio.wait_for(process.wait(), 0.5)
                    break
                except asyncio.TimeoutError:
                    continue
        if self.reader:
            self.reader.cancel()


class HttpServer(Server):
    session = None

    async def open(self):
        self.opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def post(self, message, verb="POST"):
        headers = {h["name"]: h["value"] for h in self.config.get("headers") or []}
        headers |= {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        if self.session:
            headers |= {"Mcp-Session-Id": self.session, "MCP-Protocol-Version": HELLO["protocolVersion"]}
        body = json.dumps({"jsonrpc": "2.0", **message}).encode() if message else None
        request = urllib.request.Request(self.config["url"], body, headers, method=verb)
        with self.opener.open(request, timeout=30) as answer:
            self.session = answer.headers.get("Mcp-Session-Id") or self.session
            if not message or "id" not in message:
                return None
            if "event-stream" not in (answer.headers.get("Content-Type") or ""):
                return json.loads(answer.read())
            data = []
            for line in answer:
                line = line.decode("utf-8", "replace").rstrip("\r\n")
                if line.startswith("data:"):
                    data.append(line[5:].lstrip())
                elif not line and data:
                    event, data = json.loads("\n".join(data)), []
                    if isinstance(event, dict) and event.get("id") == message["id"] and "method" not in event:
                        return event
        raise McpError("the server gave no answer")

    async def request(self, method, params):
        self.counter += 1
        return unwrap(await asyncio.to_thread(self.post, {"id": self.counter, "method": method, "params": params}))

    async def notify(self, method):
        await asyncio.to_thread(self.post, {"method": method})

    async def stop_transport(self):
        if self.session:
            try:
                await asyncio.wait_for(asyncio.to_thread(self.post, None, "DELETE"), 1)
            except Exception:
                pass
            self.session = None


def unwrap(message):
    if isinstance(message.get("error"), dict):
        raise McpError(str(message["error"].get("message") or "the server answered with an error"))
    return message["result"] if isinstance(message.get("result"), dict) else {}


def start(config, cwd):
    return (HttpServer if config.get("type") == "http" else StdioServer)(config, cwd)
