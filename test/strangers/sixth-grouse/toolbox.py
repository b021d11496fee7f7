"""What the grouse does by itself: files, folders, commands and MCP servers over stdio."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
from pathlib import Path
from typing import Any

FAULT = os.environ.get("FAULT", "")
OUTPUT_LIMIT = 60_000
COMMAND_SECONDS = 240


class ToolError(Exception):
    pass


def inside(cwd: str, path: str) -> bool:
    root = os.path.realpath(cwd)
    full = os.path.realpath(path)
    return os.path.commonpath([root, full]) == root


def guard(cwd: str, path: str) -> None:
    if not inside(cwd, path):
        raise ToolError(f"{path} lies outside of the working directory, so I leave it alone.")


def read_text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as exc:
        raise ToolError(f"{path} is not a text file.") from exc
    except OSError as exc:
        raise ToolError(f"{path}: {exc.strerror}") from exc


def write_text(path: str, text: str) -> None:
    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        with open(path, "w", encoding="utf-8", newline="") as out:
            out.write(text)
    except OSError as exc:
        raise ToolError(f"{path}: {exc.strerror}") from exc


def list_folder(path: str) -> str:
    try:
        with os.scandir(path) as entries:
            names = [entry.name + ("/" if entry.is_dir() else "") for entry in entries]
    except OSError as exc:
        raise ToolError(f"{path}: {exc.strerror}") from exc
    return "\n".join(sorted(names)) or "(empty)"


class Command:
    """One shell command in a process group of its own."""

    def __init__(self, text: str, cwd: str) -> None:
        self.text = text
        self.cwd = cwd
        self.process: asyncio.subprocess.Process | None = None

    async def run(self) -> tuple[int, str]:
        self.process = await asyncio.create_subprocess_shell(
            self.text,
            cwd=self.cwd,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            out, _ = await asyncio.wait_for(self.process.communicate(), COMMAND_SECONDS)
        except asyncio.TimeoutError as exc:
            raise ToolError(f"The command took longer than {COMMAND_SECONDS} seconds.") from exc
        finally:
            self.kill()
        text = out[-OUTPUT_LIMIT:].decode("utf-8", errors="replace")
        return self.process.returncode or 0, text

    def kill(self) -> None:
        if self.process is None:
            return
        try:
            if FAULT == "half-plucked":
                self.process.kill()
            else:
                os.killpg(self.process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass


class McpServer:
    def __init__(self, name: str, command: str, args: list[str], env: dict[str, str], cwd: str) -> None:
        self.name = name
        self.command = command
        self.args = args
        self.env = env
        self.cwd = cwd
        self.tools: list[dict[str, Any]] = []
        self.trouble: str | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._count = 0
        self._reader: asyncio.Task[None] | None = None

    async def start(self) -> None:
        try:
            self._process = await asyncio.create_subprocess_exec(
                self.command,
                *self.args,
                cwd=self.cwd,
                env={**os.environ, **self.env},
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                limit=16 * 1024 * 1024,
            )
            self._reader = asyncio.create_task(self._read())
            await asyncio.wait_for(self._greet(), 12)
        except asyncio.TimeoutError:
            self.trouble = "it did not answer in time"
        except (OSError, ToolError, ConnectionError) as exc:
            self.trouble = str(exc)

    async def _greet(self) -> None:
        hello = {
            "protocolVersion": "2025-03-26",
            "capabilities": {},
            "clientInfo": {"name": "sixth-grouse", "version": "0.2.0"},
        }
        await self.request("initialize", hello)
        self._write({"jsonrpc": "2.0", "method": "notifications/initialized"})
        cursor = None
        while True:
            page = await self.request("tools/list", {"cursor": cursor} if cursor else {})
            self.tools.extend(page.get("tools", []))
            cursor = page.get("nextCursor")
            if not cursor:
                return

    async def call(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        return await self.request("tools/call", {"name": tool, "arguments": arguments})

    async def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        if self._process is None or self._process.returncode is not None:
            raise ToolError(f"The MCP server {self.name} is not running.")
        self._count += 1
        number = self._count
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        self._write({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        try:
            result = await future
        except asyncio.CancelledError:
            self._write({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number}})
            raise
        finally:
            self._waiting.pop(number, None)
        return result if isinstance(result, dict) else {}

    def _write(self, message: dict[str, Any]) -> None:
        if self._process is not None and self._process.stdin is not None and not self._process.stdin.is_closing():
            self._process.stdin.write((json.dumps(message) + "\n").encode())

    async def _read(self) -> None:
        assert self._process is not None and self._process.stdout is not None
        async for line in self._process.stdout:
            try:
                message = json.loads(line)
            except ValueError:
                continue
            if not isinstance(message, dict):
                continue
            if "method" in message:
                if "id" in message:
                    answer: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
                    if message["method"] == "ping":
                        answer["result"] = {}
                    else:
                        answer["error"] = {"code": -32601, "message": "Not offered"}
                    self._write(answer)
                continue
            future = self._waiting.get(message.get("id"))
            if future is None or future.done():
                continue
            if message.get("error"):
                future.set_exception(ToolError(str(message["error"].get("message", "The server refused."))))
            else:
                future.set_result(message.get("result"))
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(ToolError(f"The MCP server {self.name} has ended."))

    async def stop(self) -> None:
        if self._reader is not None:
            self._reader.cancel()
        process = self._process
        if process is None or process.returncode is not None:
            return
        if process.stdin is not None:
            process.stdin.close()
        try:
            process.terminate()
            await asyncio.wait_for(process.wait(), 1)
        except asyncio.TimeoutError:
            process.kill()
        except ProcessLookupError:
            pass


def arguments_for(tool: dict[str, Any], text: str) -> dict[str, Any]:
    """Fills in the arguments of a tool from plain words."""
    start, end = text.find("{"), text.rfind("}")
    if 0 <= start < end:
        try:
            given = json.loads(text[start : end + 1])
            if isinstance(given, dict):
                return given
        except ValueError:
            pass
    schema = tool.get("inputSchema") or {}
    rest = re.sub(rf"(?<![\w-]){re.escape(tool['name'])}(?![\w-])", " ", text, count=1)
    quoted = [a or b or c for a, b, c in re.findall(r"\"([^\"]*)\"|`([^`]*)`|(?<!\w)'([^']*)'(?!\w)", rest)]
    numbers = re.findall(r"-?\d+(?:\.\d+)?", rest)
    out: dict[str, Any] = {}
    for key, kind in (schema.get("properties") or {}).items():
        wanted = key in (schema.get("required") or [])
        named = re.search(rf"\b{re.escape(key)}\b[\"'`]?\s*(?:[:=]|is|of)?\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s,;]+))", rest, re.I)
        value = next((group for group in named.groups() if group is not None), None) if named else None
        typ = kind.get("type", "string") if isinstance(kind, dict) else "string"
        if typ in ("number", "integer"):
            if value is None or not re.fullmatch(r"-?\d+(\.\d+)?\.?", value):
                value = numbers.pop(0) if numbers else ("0" if wanted else None)
            if value is not None:
                number = float(value.rstrip("."))
                out[key] = int(number) if number.is_integer() else number
        elif typ == "boolean":
            if value is not None or wanted:
                out[key] = str(value).lower() not in ("false", "no", "off")
        elif typ == "string":
            in_quotes = named is not None and named.group(3) is None
            if not in_quotes and quoted:
                value = quoted.pop(0)
            if value is None and wanted:
                tail = re.search(r"\b(?:with|saying|on|for)\b\s*:?\s*(?:the\s+)?(?:text|message|words?|input)?\s*:?\s*(.+?)[.!?]?\s*$", rest, re.S)
                value = tail.group(1) if tail else "hello"
            if value is not None:
                out[key] = value
        elif wanted:
            out[key] = [] if typ == "array" else {}
    return out
