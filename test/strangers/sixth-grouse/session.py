"""One conversation: what was said in it, kept on disk while it goes on."""

from __future__ import annotations

import asyncio
import os
import uuid
from typing import Any

from store import Store, now
from toolbox import McpServer

FAULT = os.environ.get("FAULT", "")
MODES = [
    ("forage", "Forage", "Do whatever is asked"),
    ("perch", "Perch", "Look, but change nothing"),
    ("roost", "Roost", "Only talk"),
]


class Session:
    def __init__(self, ident: str, cwd: str, store: Store) -> None:
        self.id = ident
        self.cwd = cwd
        self.store = store
        self.mode = "forage"
        self.title: str | None = None
        self.notes: list[str] = []
        self.said: list[str] = []
        self.tokens = 0
        self.calls = 0
        self.turn: asyncio.Task[Any] | None = None
        self.stopping = False
        self.greeted = False
        self.setups: list[dict[str, Any]] = []
        self.servers: list[McpServer] | None = None
        self._starting: asyncio.Future[Any] | None = None
        self._pending: list[dict[str, Any]] = []

    @classmethod
    def fresh(cls, cwd: str, store: Store) -> Session:
        session = cls(str(uuid.uuid4()), cwd, store)
        store.add(session.id, {"is": "born", "cwd": cwd, "at": now()})
        return session

    @classmethod
    def revived(cls, ident: str, entries: list[dict[str, Any]], store: Store) -> Session | None:
        session: Session | None = None
        for entry in entries:
            kind = entry.get("is")
            if kind == "born":
                session = cls(ident, entry["cwd"], store)
            elif session is not None:
                session._take(kind, entry)
        return session

    def _take(self, kind: str | None, entry: dict[str, Any]) -> None:
        if kind == "moved":
            self.cwd = entry["cwd"]
        elif kind == "mode":
            self.mode = entry["mode"]
        elif kind == "title":
            self.title = entry["title"]
        elif kind == "note":
            self.notes.append(entry["text"])
        elif kind == "user":
            self.said.append(words_of(entry["blocks"]))
        elif kind == "called":
            if FAULT != "fresh-tracks":
                self.calls += 1
        if kind in ("agent", "thought"):
            self.tokens += len(entry["text"]) // 4

    def keep(self, kind: str, **fields: Any) -> None:
        entry = {"is": kind, "at": now(), **fields}
        if FAULT == "lost-feather" and self.turn is not None and kind in ("user", "agent", "thought", "call", "plan"):
            self._pending.append(entry)
            return
        self.store.add(self.id, entry)

    def settle(self) -> None:
        """The turn went well: what is still only in memory goes to disk."""
        for entry in self._pending:
            self.store.add(self.id, entry)
        self._pending.clear()

    def drop(self) -> None:
        self._pending.clear()

    def next_call(self) -> str:
        self.calls += 1
        self.keep("called")
        return f"call-{self.calls}"

    def has_mode(self, mode: str) -> bool:
        return any(mode == known for known, _, _ in MODES)

    def set_mode(self, mode: str) -> None:
        self.mode = mode
        self.keep("mode", mode=mode)

    async def tools(self) -> list[McpServer]:
        """The MCP servers; they are started when a turn first needs to know them."""
        if self.servers is None:
            self.servers = [
                McpServer(
                    setup["name"],
                    setup["command"],
                    setup["args"],
                    {pair["name"]: pair["value"] for pair in setup["env"]},
                    self.cwd,
                )
                for setup in self.setups
            ]
            self._starting = asyncio.gather(*(server.start() for server in self.servers))
        if self._starting is not None:
            await asyncio.shield(self._starting)
        return self.servers

    async def stop_servers(self) -> None:
        servers, self.servers = self.servers or [], None
        if self._starting is not None:
            self._starting.cancel()
            self._starting = None
        await asyncio.gather(*(server.stop() for server in servers))


def words_of(blocks: list[dict[str, Any]]) -> str:
    return "\n".join(block["text"] for block in blocks if block.get("type") == "text")
