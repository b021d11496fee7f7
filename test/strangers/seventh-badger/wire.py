"""Transport below the SDK: answers broken frames itself, so that they never reach the SDK's receive loop."""
import asyncio
import json
import logging

from acp.exceptions import RequestError
from acp.stdio import stdio_streams
from pydantic import ValidationError


class SturdyTransport:
    def __init__(self, reader, writer):
        self.reader, self.writer, self.lock = reader, writer, asyncio.Lock()

    @classmethod
    async def stdio(cls):
        return cls(*await stdio_streams(limit=256 * 1024 * 1024))

    async def send(self, message):
        if message.get("params", 0) is None:
            message = {k: v for k, v in message.items() if k != "params"}
        if isinstance(message.get("error"), dict) and message["error"].get("data", 0) is None:
            message = {**message, "error": {k: v for k, v in message["error"].items() if k != "data"}}
        data = (json.dumps(message, separators=(",", ":")) + "\n").encode()
        async with self.lock:
            self.writer.write(data)
            await self.writer.drain()

    async def refuse(self, code, text, id=None):
        await self.send({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": text}})

    async def receive(self):
        while True:
            line = await self.reader.readline()
            if not line:
                return None
            if not line.strip():
                continue
            try:
                m = json.loads(line.decode("utf-8"))
            except (ValueError, RecursionError):
                await self.refuse(-32700, "Parse error.")
                continue
            if not isinstance(m, dict):
                await self.refuse(-32600, "Every message must be one JSON object.")
                continue
            i = m.get("id")
            good_id = i is None or isinstance(i, str) or (isinstance(i, int) and not isinstance(i, bool))
            if m.get("jsonrpc") != "2.0" or not good_id:
                await self.refuse(-32600, "Invalid request.")
                continue
            if "method" in m:
                if not isinstance(m["method"], str) or not isinstance(m.get("params"), (dict, list, type(None))):
                    await self.refuse(-32600, "Invalid request.")
                    continue
            elif "id" not in m or ("result" not in m and "error" not in m):
                await self.refuse(-32600, "Invalid request.")
                continue
            elif "error" in m and not isinstance(m["error"], dict):
                m["error"] = {"code": -32603, "message": "error"}
            return m

    async def close(self):
        pass


class Guard:
    """Stands before the SDK's router: order, login, strict params, and the methods the router does not know."""

    def __init__(self, router, agent):
        self.router, self.agent = router, agent

    async def __call__(self, method, params, is_notification):
        if is_notification:
            if method == "session/cancel":
                if isinstance(params, dict) and isinstance(params.get("sessionId"), str):
                    await self.agent.cancel(params["sessionId"])
            return None
        if method == "logout":
            self.agent.logged_in = False
            return {}
        if method not in KNOWN:
            raise RequestError(-32601, "Method not found.", {"method": method})
        if not self.agent.ready and method != "initialize":
            raise RequestError(-32600, "The connection must be initialized first.")
        if params is None:
            params = {}
        if not isinstance(params, dict):
            raise RequestError(-32602, "Params must be an object.")
        params = {k: v for k, v in params.items() if k != "_meta"}
        CHECK.get(method, lambda p: None)(params)
        if method in GATED and not self.agent.logged_in:
            raise RequestError(-32000, "Authentication required.")
        try:
            return await self.router(method, params, False)
        except ValidationError as e:
            raise RequestError(-32602, "Invalid params.", {"fields": [".".join(map(str, x["loc"])) for x in e.errors()][:5]}) from None
        except (RequestError, asyncio.CancelledError):
            raise
        except Exception:
            logging.exception("in %s", method)
            raise RequestError(-32603, "Internal error.") from None


def check_initialize(p):
    v = p.get("protocolVersion")
    if not isinstance(v, int) or isinstance(v, bool) or not 0 <= v <= 65535:
        raise RequestError(-32602, "The protocol version must be an integer.")


def check_setup(p):
    cwd = p.get("cwd")
    if not isinstance(cwd, str) or not cwd.startswith("/"):
        raise RequestError(-32602, "The working directory must be an absolute path.")
    extra = p.get("additionalDirectories")
    if extra is not None and (not isinstance(extra, list) or any(not isinstance(d, str) or not d.startswith("/") for d in extra)):
        raise RequestError(-32602, "Additional directories must be absolute paths.")
    servers = p.get("mcpServers")
    if servers is None:
        return
    if not isinstance(servers, list):
        raise RequestError(-32602, "mcpServers must be a list.")
    for s in servers:
        ok = isinstance(s, dict) and isinstance(s.get("name"), str)
        if ok and s.get("type") == "http":
            ok = isinstance(s.get("url"), str)
        elif ok and s.get("type") in (None, "stdio"):
            ok = isinstance(s.get("command"), str)
        else:
            ok = False
        if not ok:
            raise RequestError(-32602, "An MCP server entry is not valid or its transport is not supported.")


KNOWN = {"initialize", "authenticate", "session/new", "session/load", "session/resume", "session/list", "session/close", "session/set_config_option", "session/prompt"}
GATED = {"session/new", "session/load", "session/resume"}
CHECK = {"initialize": check_initialize, "session/new": check_setup, "session/load": check_setup, "session/resume": check_setup}
