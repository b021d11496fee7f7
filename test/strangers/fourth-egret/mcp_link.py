"""Small MCP clients: one for stdio servers, one for streamable HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import signal
import urllib.request
from typing import Any

HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "fourth-egret", "version": "1.0.0"}}


class McpError(Exception):
    pass


class Link:
    """What both transports share: the handshake, the list of tools and a call."""

    def __init__(self, spec: Any, cwd: str) -> None:
        self.spec, self.cwd, self.name = spec, cwd, spec.name
        self.tools: dict[str, dict[str, Any]] = {}
        self.ids = itertools.count(1)

    async def open(self) -> None:
        await self.start()
        await self.request("initialize", HELLO, 20)
        await self.notify("notifications/initialized")
        cursor = None
        for _ in range(50):
            page = await self.request("tools/list", {"cursor": cursor} if cursor else {}, 20)
            for tool in page.get("tools") or []:
                self.tools[tool["name"]] = tool
            cursor = page.get("nextCursor")
            if not cursor:
                break

    async def call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        return await self.request("tools/call", {"name": name, "arguments": arguments}, 120)

    async def start(self) -> None: ...

    async def request(self, method: str, params: Any, timeout: float) -> dict[str, Any]:
        raise NotImplementedError

    async def notify(self, method: str) -> None:
        raise NotImplementedError


def unwrap(reply: dict[str, Any]) -> dict[str, Any]:
    if "error" in reply:
        raise McpError(str((reply["error"] or {}).get("message", "the MCP server answered with an error")))
    return reply.get("result") or {}


class StdioLink(Link):
    process: asyncio.subprocess.Process | None = None
    reader: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self.pending: dict[int, asyncio.Future[dict[str, Any]]] = {}
        env = {**os.environ, **{e.name: e.value for e in self.spec.env}}
        self.process = await asyncio.create_subprocess_exec(
            self.spec.command, *self.spec.args, env=env, cwd=self.cwd if os.path.isdir(self.cwd) else None,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True, limit=16 * 1024 * 1024)
        self.reader = asyncio.create_task(self._read())

    async def _read(self) -> None:
        assert self.process and self.process.stdout
        with contextlib.suppress(ValueError, ConnectionError):
            while line := await self.process.stdout.readline():
                try:
                    message = json.loads(line)
                except ValueError:
                    continue
                if not isinstance(message, dict):
                    continue
                if "method" in message:
                    if "id" in message:
                        answer = {"result": {}} if message["method"] == "ping" else {
                            "error": {"code": -32601, "message": "Method not found"}}
                        await self._send({"id": message["id"], **answer})
                elif (waiting := self.pending.pop(message.get("id"), None)) and not waiting.done():
                    waiting.set_result(message)
        for waiting in self.pending.values():
            if not waiting.done():
                waiting.set_exception(McpError(f"the MCP server {self.name} has stopped"))

    async def _send(self, message: dict[str, Any]) -> None:
        assert self.process and self.process.stdin
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        await self.process.stdin.drain()

    async def request(self, method: str, params: Any, timeout: float) -> dict[str, Any]:
        if self.reader is None or self.reader.done():
            raise McpError(f"the MCP server {self.name} has stopped")
        number = next(self.ids)
        self.pending[number] = asyncio.get_running_loop().create_future()
        try:
            await self._send({"id": number, "method": method, "params": params})
            return unwrap(await asyncio.wait_for(self.pending[number], timeout))
        except asyncio.TimeoutError:
            raise McpError(f"the MCP server {self.name} did not answer in time") from None
        except ConnectionError:
            raise McpError(f"the MCP server {self.name} has stopped") from None
        finally:
            self.pending.pop(number, None)

    async def notify(self, method: str) -> None:
        await self._send({"method": method})

    async def close(self) -> None:
        if (process := self.process) is None:
            return
        if process.stdin:
            process.stdin.close()
        for number in (None, signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                if number:
                    os.killpg(process.pid, number)
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(process.wait(), 1)
                break
        if self.reader:
            self.reader.cancel()


class HttpLink(Link):
    session: str | None = None

    def _post(self, body: dict[str, Any], timeout: float) -> dict[str, Any]:
        headers = {h.name: h.value for h in self.spec.headers}
        headers |= {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        if self.session:
            headers |= {"Mcp-Session-Id": self.session, "MCP-Protocol-Version": HELLO["protocolVersion"]}
        call = urllib.request.Request(self.spec.url, json.dumps({"jsonrpc": "2.0", **body}).encode(), headers)
        with urllib.request.urlopen(call, timeout=timeout) as reply:
            self.session = reply.headers.get("Mcp-Session-Id") or self.session
            if "id" not in body:
                return {}
            if "event-stream" not in (reply.headers.get("Content-Type") or ""):
                return json.loads(reply.read())
            for line in reply:
                if line.startswith(b"data:"):
                    message = json.loads(line[5:])
                    if message.get("id") == body["id"] and "method" not in message:
                        return message
        raise McpError(f"the MCP server {self.name} closed the stream without an answer")

    async def request(self, method: str, params: Any, timeout: float) -> dict[str, Any]:
        body = {"id": next(self.ids), "method": method, "params": params}
        try:
            return unwrap(await asyncio.to_thread(self._post, body, timeout))
        except (OSError, ValueError) as problem:
            raise McpError(f"the MCP server {self.name} could not be used: {problem}") from None

    async def notify(self, method: str) -> None:
        with contextlib.suppress(OSError):
            await asyncio.to_thread(self._post, {"method": method}, 20)

    async def close(self) -> None:
        if self.session:
            heads = {"Mcp-Session-Id": self.session, **{h.name: h.value for h in self.spec.headers}}
            bye = urllib.request.Request(self.spec.url, headers=heads, method="DELETE")
            with contextlib.suppress(Exception):
                await asyncio.wait_for(asyncio.to_thread(urllib.request.urlopen, bye, None, 2), 2)


def link_for(spec: Any, cwd: str) -> StdioLink | HttpLink:
    return HttpLink(spec, cwd) if getattr(spec, "type", None) == "http" else StdioLink(spec, cwd)
