"""A small hand-written client for MCP servers on stdio."""
from __future__ import annotations

import asyncio
import json
import os
import signal
from typing import Any

STARTUP_SECONDS = 15


class McpError(Exception):
    pass


class McpServer:
    def __init__(self, name: str, command: str, args: list[str], env: dict[str, str], cwd: str) -> None:
        self.name = name
        self.tools: list[dict[str, Any]] = []
        self.trouble: str | None = None
        self._command = [command, *args]
        self._env = env
        self._cwd = cwd if os.path.isdir(cwd) else None
        self._process: asyncio.subprocess.Process | None = None
        self._pending: dict[int, asyncio.Future] = {}
        self._next = 1
        self._reader: asyncio.Task | None = None

    async def start(self) -> None:
        """Start the server and learn its tools.  A failure is kept in words, not raised."""
        try:
            await asyncio.wait_for(self._start(), STARTUP_SECONDS)
        except asyncio.TimeoutError:
            self.trouble = "it did not answer in time"
        except (OSError, ValueError, McpError) as exc:
            self.trouble = str(exc) or type(exc).__name__
        if self.trouble:
            await self.stop()

    async def _start(self) -> None:
        self._process = await asyncio.create_subprocess_exec(
            *self._command, env={**os.environ, **self._env}, cwd=self._cwd,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
            limit=32 * 1024 * 1024, start_new_session=True)
        self._reader = asyncio.create_task(self._read())
        await self._request("initialize", {
            "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": {"name": "fifth-siskin", "version": "1.0.0"}})
        self._write({"jsonrpc": "2.0", "method": "notifications/initialized"})
        cursor = None
        for _ in range(50):
            try:
                page = await self._request("tools/list", {"cursor": cursor} if cursor else {})
            except McpError as exc:
                if "-32601" in str(exc):  # a server without tools
                    return
                raise
            self.tools += [t for t in page.get("tools", []) if isinstance(t, dict) and isinstance(t.get("name"), str)]
            cursor = page.get("nextCursor")
            if not cursor:
                return

    async def _read(self) -> None:
        assert self._process and self._process.stdout
        try:
            while line := await self._process.stdout.readline():
                try:
                    message = json.loads(line)
                except ValueError:
                    continue
                if not isinstance(message, dict):
                    continue
                if "method" in message:
                    if "id" in message:  # the server asks us something: we only know ping
                        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
                        if message["method"] == "ping":
                            answer["result"] = {}
                        else:
                            answer["error"] = {"code": -32601, "message": "Method not found"}
                        self._write(answer)
                    continue
                future = self._pending.pop(message.get("id"), None)
                if future and not future.done():
                    future.set_result(message)
        except (ValueError, OSError):
            pass
        finally:
            for future in self._pending.values():
                if not future.done():
                    future.set_exception(McpError("the server went away"))
            self._pending.clear()

    def _write(self, message: dict[str, Any]) -> None:
        if self._process is None or self._process.stdin is None or self._process.returncode is not None:
            raise McpError("the server is not running")
        self._process.stdin.write((json.dumps(message) + "\n").encode())

    async def _request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        number = self._next
        self._next += 1
        future = asyncio.get_running_loop().create_future()
        if self._reader is None or self._reader.done():
            raise McpError("the server is not running")
        self._pending[number] = future
        try:
            self._write({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
            message = await future
        except asyncio.CancelledError:
            try:
                self._write({"jsonrpc": "2.0", "method": "notifications/cancelled",
                             "params": {"requestId": number, "reason": "cancelled by the user"}})
            except McpError:
                pass
            raise
        finally:
            self._pending.pop(number, None)
        if "error" in message:
            error = message["error"] if isinstance(message["error"], dict) else {}
            raise McpError(f"{error.get('message', 'error')} ({error.get('code', 0)})")
        result = message.get("result")
        return result if isinstance(result, dict) else {}

    async def call(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        return await self._request("tools/call", {"name": tool, "arguments": arguments})

    async def stop(self) -> None:
        """Close its input, and be firmer each time it stays."""
        process, self._process = self._process, None
        if process is None:
            return
        if process.stdin:
            process.stdin.close()
        for sign in (None, signal.SIGTERM, signal.SIGKILL):
            if sign is not None:
                kill_group(process.pid, sign)
            try:
                await asyncio.wait_for(process.wait(), 0.4)
                break
            except asyncio.TimeoutError:
                continue
        kill_group(process.pid, signal.SIGKILL)  # whatever it left behind
        if self._reader:
            self._reader.cancel()

    def kill_at_once(self) -> None:
        if self._process is not None and self._process.returncode is None:
            kill_group(self._process.pid, signal.SIGKILL)


def kill_group(pid: int, sign: int) -> None:
    try:
        os.killpg(pid, sign)
    except (ProcessLookupError, PermissionError):
        pass
