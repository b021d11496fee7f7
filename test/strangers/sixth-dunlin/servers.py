"""MCP servers of a session, spoken to over their standard streams."""

import asyncio
import json
import os
import signal

from wire import note

START_LIMIT = 6.0
MCP_VERSION = "2025-06-18"


class ServerTrouble(Exception):
    """An MCP server that failed or refused."""


class Server:
    """One MCP server process."""

    def __init__(self, setup):
        self.name = setup["name"]
        self.setup = setup
        self.process = None
        self.reading = None
        self.waiting = {}
        self.last_id = 0
        self.tools = []
        self.trouble = None

    async def start(self, cwd):
        try:
            await asyncio.wait_for(self.shake_hands(cwd), START_LIMIT)
        except asyncio.CancelledError:
            await self.stop()
            raise
        except (Exception, asyncio.TimeoutError) as error:
            self.trouble = str(error) or "no answer in time"
            note("MCP server %s: %s" % (self.name, self.trouble))
            await self.stop()

    async def shake_hands(self, cwd):
        environment = dict(os.environ)
        environment.update({pair["name"]: pair["value"] for pair in self.setup["env"]})
        self.process = await asyncio.create_subprocess_exec(
            self.setup["command"], *self.setup["args"], env=environment,
            cwd=cwd if os.path.isdir(cwd) else None,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL, start_new_session=True, limit=1 << 24)
        self.reading = asyncio.create_task(self.read())
        await self.request("initialize", {
            "protocolVersion": MCP_VERSION, "capabilities": {},
            "clientInfo": {"name": "sixth-dunlin", "version": "1.0.0"}})
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        cursor = None
        while True:
            page = await self.request("tools/list", {"cursor": cursor} if cursor else {})
            for tool in page.get("tools", []):
                if isinstance(tool, dict) and isinstance(tool.get("name"), str):
                    self.tools.append(dict(tool, server=self))
            cursor = page.get("nextCursor")
            if not cursor:
                break

    def send(self, message):
        if self.process is None or self.process.stdin.is_closing():
            raise ServerTrouble("the server is gone")
        self.process.stdin.write((json.dumps(message) + "\n").encode())

    async def request(self, method, params):
        self.last_id += 1
        number = self.last_id
        future = asyncio.get_running_loop().create_future()
        self.waiting[number] = future
        try:
            self.send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
            answer = await future
        except asyncio.CancelledError:
            if method == "tools/call":
                try:
                    self.send({"jsonrpc": "2.0", "method": "notifications/cancelled",
                               "params": {"requestId": number, "reason": "cancelled by the user"}})
                except ServerTrouble:
                    pass
            raise
        finally:
            self.waiting.pop(number, None)
        if "error" in answer:
            error = answer["error"]
            raise ServerTrouble(str(error.get("message") if isinstance(error, dict) else error))
        result = answer.get("result")
        return result if isinstance(result, dict) else {}

    async def read(self):
        try:
            while True:
                line = await self.process.stdout.readline()
                if not line:
                    break
                try:
                    message = json.loads(line)
                except ValueError:
                    continue
                if isinstance(message, dict):
                    self.take(message)
        except (ValueError, OSError):
            pass
        for future in list(self.waiting.values()):
            if not future.done():
                future.set_exception(ServerTrouble("the server ended"))

    def take(self, message):
        number = message.get("id")
        if "method" not in message:
            future = self.waiting.get(number) if isinstance(number, int) else None
            if future and not future.done():
                future.set_result(message)
            return
        if number is None:
            return
        if message["method"] == "ping":
            self.send({"jsonrpc": "2.0", "id": number, "result": {}})
        else:
            self.send({"jsonrpc": "2.0", "id": number,
                       "error": {"code": -32601, "message": "Not offered by this client."}})

    async def call(self, tool, arguments):
        """The tool's answer as (text, worked)."""
        result = await self.request("tools/call", {"name": tool, "arguments": arguments})
        parts = []
        for item in result.get("content") or []:
            if isinstance(item, dict):
                parts.append(item["text"] if isinstance(item.get("text"), str)
                             else "(%s)" % item.get("type", "something"))
        if not parts and result.get("structuredContent") is not None:
            parts.append(json.dumps(result["structuredContent"]))
        return "\n".join(parts), not result.get("isError")

    async def stop(self):
        process = self.process
        if process is None:
            return
        if not process.stdin.is_closing():
            process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), 0.5)
        except asyncio.TimeoutError:
            pass
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(process.pid, number)
            except (ProcessLookupError, PermissionError):
                break
            try:
                await asyncio.wait_for(process.wait(), 0.5)
            except asyncio.TimeoutError:
                continue
        if self.reading:
            self.reading.cancel()


async def start_all(setups, cwd):
    """Start every server; those that fail carry their trouble."""
    servers = [Server(setup) for setup in setups]
    await asyncio.gather(*(server.start(cwd) for server in servers))
    return servers


async def stop_all(servers):
    await asyncio.gather(*(server.stop() for server in servers), return_exceptions=True)
