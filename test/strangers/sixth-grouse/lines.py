"""Newline-delimited JSON-RPC over stdin and stdout, with strict envelopes.

The SDK takes any message transport. This one answers what is not a proper
message itself, so that only clean requests reach the router of the SDK.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from typing import Any

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
INVALID_PARAMS = -32602


class Lines:
    def __init__(self) -> None:
        self._queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._loop = asyncio.get_running_loop()
        self._closed = False
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        stream = sys.stdin.buffer
        try:
            for line in iter(stream.readline, b""):
                self._loop.call_soon_threadsafe(self._queue.put_nowait, line)
            self._loop.call_soon_threadsafe(self._queue.put_nowait, None)
        except RuntimeError:
            pass  # the loop is closed already

    async def send(self, message: dict[str, Any]) -> None:
        if self._closed:
            raise ConnectionError("The connection is closed")
        error = message.get("error")
        if isinstance(error, dict) and error.get("data", 0) is None:
            del error["data"]
        data = json.dumps(message, separators=(",", ":"), default=str) + "\n"
        view = memoryview(data.encode("utf-8"))
        try:
            while view:
                view = view[os.write(1, view):]
        except OSError as exc:
            self._closed = True
            raise ConnectionError("The client is gone") from exc

    async def receive(self) -> dict[str, Any] | None:
        while True:
            line = await self._queue.get()
            if line is None:
                return None
            message = await self._check(line)
            if message is not None:
                return message

    async def close(self) -> None:
        self._closed = True

    async def _refuse(self, ident: Any, code: int, text: str) -> None:
        await self.send({"jsonrpc": "2.0", "id": ident, "error": {"code": code, "message": text}})

    async def _check(self, line: bytes) -> dict[str, Any] | None:
        try:
            text = line.decode("utf-8")
            if not text.strip():
                return None
            message = json.loads(text, parse_constant=_no_constant)
        except (ValueError, RecursionError):
            await self._refuse(None, PARSE_ERROR, "Parse error")
            return None
        if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
            await self._refuse(None, INVALID_REQUEST, "Invalid request")
            return None
        ident = message.get("id")
        if isinstance(ident, (bool, dict, list)):
            await self._refuse(None, INVALID_REQUEST, "Invalid request")
            return None
        if "method" not in message:
            if "id" in message and ("result" in message or "error" in message):
                if not isinstance(message.get("error", {}), dict):
                    message["error"] = {}
                return message
            await self._refuse(ident, INVALID_REQUEST, "Invalid request")
            return None
        params = message.get("params")
        if not isinstance(message["method"], str) or (params is not None and not isinstance(params, (dict, list))):
            if "id" in message or not isinstance(message["method"], str):
                await self._refuse(ident, INVALID_REQUEST, "Invalid request")
            return None
        if "id" not in message and message["method"] != "session/cancel":
            return None  # no other notification means anything to us
        message["params"] = self._tidy(params)
        fault = self._strictly(message["method"], message["params"])
        if fault is not None:
            if "id" in message:
                await self._refuse(ident, INVALID_PARAMS, fault)
            return None
        return message

    @staticmethod
    def _tidy(params: Any) -> Any:
        """Leaves out what the SDK would mix up with its own arguments."""
        if not isinstance(params, dict):
            return params if params is not None else {}
        kept = {key: value for key, value in params.items() if key != "_meta"}
        if kept.get("mcpServers", 0) is None:
            kept["mcpServers"] = []
        servers = kept.get("mcpServers")
        if isinstance(servers, list):
            for server in servers:
                if isinstance(server, dict):
                    for key in ("args", "env", "headers"):
                        if server.get(key, 0) is None:
                            server[key] = []
        return kept

    @staticmethod
    def _strictly(method: str, params: Any) -> str | None:
        """The SDK would turn "1" and true into a number."""
        if method.startswith("_"):
            return None
        if isinstance(params, list):
            return "Params must be an object" if params else None
        if method == "initialize":
            version = params.get("protocolVersion")
            if isinstance(version, bool) or not isinstance(version, int):
                return "protocolVersion must be an integer"
        return None


def _no_constant(name: str) -> Any:
    raise ValueError(name)
