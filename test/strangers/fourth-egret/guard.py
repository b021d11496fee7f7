"""A stdio transport for the SDK that answers what the SDK's own transport would drop, crash on or wave through."""

from __future__ import annotations

import json
import os
from typing import Any

from acp import stdio_streams
from acp._transport import NdjsonTransport
from acp.task import MessageSender, TaskSupervisor

SETUP = ("session/new", "session/load", "session/resume")
LIMIT = 50 * 1024 * 1024


def _no_constants(word: str) -> None:
    raise ValueError(f"{word} is not JSON")


def _absolute(value: Any) -> bool:
    return isinstance(value, str) and os.path.isabs(value)


def _server_problem(server: Any) -> str | None:
    if not isinstance(server, dict) or not isinstance(server.get("name"), str):
        return "every MCP server needs a name"
    kind = server.get("type", "stdio")
    if kind in ("stdio", None):
        args, env = server.get("args"), server.get("env")
        if not isinstance(server.get("command"), str) or not server["command"]:
            return "a stdio MCP server needs a command"
        if not isinstance(args, list) or not all(isinstance(a, str) for a in args):
            return "args must be a list of strings"
        pairs = env if isinstance(env, list) else [None]
        if not all(isinstance(e, dict) and isinstance(e.get("name"), str) and isinstance(e.get("value"), str) for e in pairs):
            return "env must be a list of name and value pairs"
        return None
    if kind == "http":
        heads = server.get("headers")
        if not isinstance(server.get("url"), str) or not isinstance(heads, list):
            return "an http MCP server needs a url and headers"
        if not all(isinstance(h, dict) and isinstance(h.get("name"), str) and isinstance(h.get("value"), str) for h in heads):
            return "headers must be a list of name and value pairs"
        return None
    return f"the MCP transport {kind!r} is not supported"


def _params_problem(method: str, params: dict[str, Any]) -> str | None:
    """The SDK's models are lenient on purpose; these are the places where the page is not."""
    if method == "initialize":
        version = params.get("protocolVersion")
        if isinstance(version, bool) or not isinstance(version, int) or not 0 <= version <= 65535:
            return "protocolVersion must be an integer between 0 and 65535"
    if method in SETUP:
        if not _absolute(params.get("cwd")):
            return "cwd must be an absolute path"
        extra = params.get("additionalDirectories")
        if extra is not None and not (isinstance(extra, list) and all(_absolute(d) for d in extra)):
            return "additionalDirectories must be a list of absolute paths"
        servers = params.get("mcpServers")
        if servers is None:
            return None  # a missing list is refused by the model where it is required
        if not isinstance(servers, list):
            return "mcpServers must be a list"
        return next((p for p in map(_server_problem, servers) if p), None)
    if method == "session/list" and params.get("cwd") is not None and not _absolute(params["cwd"]):
        return "cwd must be an absolute path"
    return None


class GuardedTransport(NdjsonTransport):
    """Newline-delimited JSON that only lets well-formed JSON-RPC messages through to the SDK."""

    @classmethod
    async def on_stdio(cls) -> GuardedTransport:
        reader, writer = await stdio_streams(limit=LIMIT)
        return cls(reader, MessageSender(writer, TaskSupervisor(source="fourth-egret")))

    async def receive(self) -> dict[str, Any] | None:
        while True:
            line = await self._read_line()
            if not line:
                return None
            if not line.strip():
                continue
            try:
                message = json.loads(line.decode("utf-8"), parse_constant=_no_constants)
            except (ValueError, RecursionError):
                await self._refuse(None, -32700, "The line is not valid JSON.")
                continue
            if (checked := await self._check(message)) is not None:
                return checked

    async def _refuse(self, request_id: Any, code: int, text: str) -> None:
        await self.send({"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": text}})

    async def _check(self, message: Any) -> dict[str, Any] | None:
        if not isinstance(message, dict):
            await self._refuse(None, -32600, "Only single JSON-RPC messages are understood.")
            return None
        request_id, has_id = message.get("id"), "id" in message
        id_ok = request_id is None or (isinstance(request_id, (str, int)) and not isinstance(request_id, bool))
        if "method" not in message and has_id and ("result" in message or "error" in message):
            if not isinstance(request_id, int) or isinstance(request_id, bool):
                return None  # an answer to something we never asked
            if "error" in message and "result" not in message and not isinstance(message["error"], dict):
                message["error"] = {"code": -32603, "message": "The client sent a malformed error."}
            return message
        method, params = message.get("method"), message.get("params")
        sound = message.get("jsonrpc") == "2.0" and isinstance(method, str) and id_ok
        sound = sound and (params is None or isinstance(params, (dict, list)))
        if not sound:
            if has_id or not isinstance(method, str):
                await self._refuse(request_id if id_ok else None, -32600, "The message is not a valid request.")
            return None
        if not isinstance(params, dict):
            if isinstance(params, list) and has_id and not method.startswith("_"):
                return message  # the router answers -32601 or -32602
            params = {}
        params = {key: value for key, value in params.items() if key != "_meta"}
        if has_id:
            if problem := _params_problem(method, params):
                await self._refuse(request_id, -32602, f"Invalid params: {problem}.")
                return None
        if method in SETUP and "mcpServers" in params and params["mcpServers"] is None:
            params["mcpServers"] = []
        return {**message, "params": params}
