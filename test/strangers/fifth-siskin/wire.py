"""The line-by-line transport under the SDK's connection.

The SDK's own stdio transport swallows unreadable lines and passes everything that is JSON
on to the connection, even things that are no request at all.  This one answers those as
JSON-RPC asks, and hands the connection nothing but sound requests, notifications and
responses.  It also knows which request a task is answering, which $/cancel_request needs.
"""
from __future__ import annotations

import contextvars
import json
from typing import Any, Awaitable, Callable

# The id of the request that the current task answers.  It is set just before the connection
# makes the task, so that the task's copied context carries it.
CURRENT_ID: contextvars.ContextVar[Any] = contextvars.ContextVar("current_id", default=None)
# A box in which the id of a request to the client is left, for whoever wants to withdraw it.
OUTGOING: contextvars.ContextVar[dict | None] = contextvars.ContextVar("outgoing", default=None)

KNOWN_IDS = (str, int, type(None))


def key_of(request_id: Any) -> tuple[str, Any]:
    """Tell 1 from "1"."""
    return (type(request_id).__name__, request_id)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def strip_meta(value: Any) -> Any:
    """Take every _meta away: the SDK would spread its keys over our arguments."""
    if isinstance(value, dict):
        return {k: strip_meta(v) for k, v in value.items() if k != "_meta"}
    if isinstance(value, list):
        return [strip_meta(v) for v in value]
    return value


class LineTransport:
    """Implements the SDK's Transport protocol (send, receive, close)."""

    def __init__(self, reader: Any, writer: Any) -> None:
        self._reader = reader
        self._writer = writer
        self._closed = False
        self._at_answer: dict[tuple, list[Callable[[], Awaitable[None]]]] = {}
        self.on_end: Callable[[], Awaitable[None]] | None = None

    # -- sending -----------------------------------------------------------------------

    async def send(self, message: dict[str, Any]) -> None:
        if self._closed:
            return
        if "method" in message and "id" in message:
            box = OUTGOING.get()
            if box is not None:
                box["id"] = message["id"]
        error = message.get("error")
        if isinstance(error, dict) and error.get("data", 0) is None:
            del error["data"]
        self._write(message)
        try:
            await self._writer.drain()
        except (ConnectionError, OSError):
            self._closed = True
        if "method" not in message:
            for callback in self._at_answer.pop(key_of(message.get("id")), []):
                if "result" in message:
                    await callback()

    def _write(self, message: dict[str, Any]) -> None:
        line = json.dumps(message, separators=(",", ":"), allow_nan=False)
        try:
            self._writer.write(line.encode("ascii") + b"\n")
        except (ConnectionError, OSError, RuntimeError):
            self._closed = True

    def after_answer(self, callback: Callable[[], Awaitable[None]]) -> None:
        """Do something directly after the answer to the request at hand has been sent."""
        self._at_answer.setdefault(key_of(CURRENT_ID.get()), []).append(callback)

    def notify_now(self, method: str, params: dict[str, Any]) -> None:
        if not self._closed:
            self._write({"jsonrpc": "2.0", "method": method, "params": params})

    def _refuse(self, code: int, message: str, request_id: Any = None) -> None:
        if not self._closed:
            self._write({"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": message}})

    # -- receiving ---------------------------------------------------------------------

    async def receive(self) -> dict[str, Any] | None:
        while True:
            try:
                line = await self._reader.readline()
            except ValueError:  # a line beyond the limit
                self._refuse(-32700, "The line is too long.")
                continue
            if not line:
                if self.on_end is not None:
                    await self.on_end()
                return None
            if not line.strip():
                continue
            try:
                message = json.loads(line.decode("utf-8"), parse_constant=_no_constant)
            except (ValueError, RecursionError):
                self._refuse(-32700, "The line is not readable JSON.")
                continue
            message = self._checked(message)
            if message is not None:
                if "method" in message:
                    CURRENT_ID.set(message.get("id"))
                return message

    def _checked(self, message: Any) -> dict[str, Any] | None:
        """Return a sound message, or answer an unsound one and return nothing."""
        if isinstance(message, list):
            self._refuse(-32600, "Batches are not supported.")
            return None
        if not isinstance(message, dict):
            self._refuse(-32600, "A message must be a JSON object.")
            return None
        if "method" not in message and ("result" in message or "error" in message):
            return self._checked_response(message)
        request_id = message.get("id")
        if isinstance(request_id, bool) or not isinstance(request_id, KNOWN_IDS):
            self._refuse(-32600, "An id must be a string or a whole number.")
            return None
        if message.get("jsonrpc") != "2.0":
            self._refuse(-32600, "The jsonrpc member must be 2.0.", request_id)
            return None
        if not isinstance(message.get("method"), str):
            self._refuse(-32600, "The method must be a string.", request_id)
            return None
        params = message.get("params")
        if params is None:
            params = {}
        if not isinstance(params, (dict, list)):
            if "id" in message:
                self._refuse(-32600, "The params must be an object.", request_id)
            return None
        return {**message, "params": strip_meta(params)}

    @staticmethod
    def _checked_response(message: dict[str, Any]) -> dict[str, Any] | None:
        if type(message.get("id")) is not int:
            return None  # an answer to nothing of ours; answers are never answered
        if "error" in message:
            error = message["error"] if isinstance(message["error"], dict) else {}
            code, text = error.get("code"), error.get("message")
            return {"id": message["id"], "error": {
                "code": code if type(code) is int else -32603,
                "message": text if isinstance(text, str) else "The client gave no reason."}}
        return {"id": message["id"], "result": message["result"]}

    async def close(self) -> None:
        self._closed = True
