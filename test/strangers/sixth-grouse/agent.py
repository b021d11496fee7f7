"""A grouse that lives on its own: it does everything itself and asks nobody."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from typing import Any

from acp import (
    RequestError,
    plan_entry,
    run_agent,
    start_tool_call,
    text_block,
    update_agent_message,
    update_agent_thought,
    update_plan,
    update_user_message,
)
from acp.schema import (
    AgentCapabilities,
    AvailableCommand,
    AvailableCommandsUpdate,
    Implementation,
    InitializeResponse,
    ListSessionsResponse,
    LoadSessionResponse,
    McpCapabilities,
    McpServerStdio,
    NewSessionResponse,
    PromptCapabilities,
    PromptResponse,
    SessionCapabilities,
    SessionInfo,
    SessionListCapabilities,
    SessionMode,
    SessionModeState,
    ToolCallLocation,
    UserMessageChunk,
)
from lines import Lines
from session import MODES, Session
from store import BadCursor, Store
from turn import Turn

COMMANDS = [
    AvailableCommand(name="say", description="Say something", input={"hint": "what to say"}),
    AvailableCommand(name="look", description="Look into a folder", input={"hint": "the folder, or nothing"}),
    AvailableCommand(name="notes", description="Show what I was told to remember"),
]


class Grouse:
    def __init__(self) -> None:
        self.client: Any = None
        self.ready = False
        self.store = Store()
        self.sessions: dict[str, Session] = {}

    def on_connect(self, conn: Any) -> None:
        self.client = conn

    async def initialize(self, protocol_version: int, **_: Any) -> InitializeResponse:
        self.ready = True
        return InitializeResponse(
            protocol_version=1,
            agent_capabilities=AgentCapabilities(
                load_session=True,
                prompt_capabilities=PromptCapabilities(image=False, audio=False, embedded_context=True),
                mcp_capabilities=McpCapabilities(http=False, sse=False),
                session_capabilities=SessionCapabilities(list=SessionListCapabilities()),
            ),
            agent_info=Implementation(name="sixth-grouse", title="Grouse", version="0.2.0"),
            auth_methods=[],
        )

    async def authenticate(self, method_id: str, **_: Any) -> None:
        raise RequestError.invalid_params({"methodId": method_id})

    def _awake(self) -> None:
        if not self.ready:
            raise RequestError.invalid_request({"details": "initialize comes first"})

    def _session(self, ident: str) -> Session:
        self._awake()
        if ident not in self.sessions:
            raise RequestError(-32002, "Resource not found", {"sessionId": ident})
        return self.sessions[ident]

    @staticmethod
    def _modes(session: Session) -> SessionModeState:
        modes = [SessionMode(id=ident, name=name, description=text) for ident, name, text in MODES]
        return SessionModeState(current_mode_id=session.mode, available_modes=modes)

    def _setup(self, cwd: str, servers: list[Any] | None) -> tuple[str, list[dict[str, Any]]]:
        self._awake()
        if not os.path.isabs(cwd):
            raise RequestError.invalid_params({"cwd": "must be an absolute path"})
        for server in servers or []:
            if not isinstance(server, McpServerStdio):
                raise RequestError.invalid_params({"mcpServers": "only servers over stdio are supported"})
        return cwd, [server.model_dump(mode="json", by_alias=True) for server in servers or []]

    async def new_session(self, cwd: str, mcp_servers: list[Any] | None = None, **_: Any) -> NewSessionResponse:
        cwd, setups = self._setup(cwd, mcp_servers)
        session = Session.fresh(cwd, self.store)
        session.setups = setups
        self.sessions[session.id] = session
        return NewSessionResponse(session_id=session.id, modes=self._modes(session))

    async def load_session(self, cwd: str, session_id: str, mcp_servers: list[Any] | None = None, **_: Any) -> LoadSessionResponse:
        cwd, setups = self._setup(cwd, mcp_servers)
        old = self.sessions.get(session_id)
        if old is not None and old.turn is not None:
            raise RequestError.invalid_request({"details": "a turn is running in this session"})
        entries = self.store.read(session_id)
        session = Session.revived(session_id, entries, self.store) if entries else None
        if session is None:
            raise RequestError(-32002, "Resource not found", {"sessionId": session_id})
        session.setups = setups
        if session.cwd != cwd:
            session.cwd = cwd
            session.keep("moved", cwd=cwd)
        self.sessions[session_id] = session
        if old is not None:
            await old.stop_servers()
        for entry in entries or []:
            await self._replay(session_id, entry)
        return LoadSessionResponse(modes=self._modes(session))

    async def _replay(self, ident: str, entry: dict[str, Any]) -> None:
        kind = entry.get("is")
        if kind == "user":
            for block in entry["blocks"]:
                chunk = UserMessageChunk.model_validate(
                    {"sessionUpdate": "user_message_chunk", "content": block, "messageId": entry["message"]}
                )
                await self.client.session_update(ident, chunk)
        elif kind in ("agent", "thought"):
            make = update_agent_message if kind == "agent" else update_agent_thought
            chunk = make(text_block(entry["text"]))
            chunk.message_id = entry["message"]
            await self.client.session_update(ident, chunk)
        elif kind == "call":
            start = start_tool_call(
                entry["call"],
                entry["title"],
                kind=entry["sort"],
                status=entry["status"],
                content=entry["content"] or None,
                locations=[ToolCallLocation(path=path) for path in entry["paths"]] or None,
                raw_input=entry["raw"],
            )
            await self.client.session_update(ident, start)
        elif kind == "plan":
            entries = [plan_entry(one["content"], priority=one["priority"], status=one["status"]) for one in entry["entries"]]
            await self.client.session_update(ident, update_plan(entries))

    async def list_sessions(self, cwd: str | None = None, cursor: str | None = None, **_: Any) -> ListSessionsResponse:
        self._awake()
        if cwd is not None and not os.path.isabs(cwd):
            raise RequestError.invalid_params({"cwd": "must be an absolute path"})
        try:
            page, following = self.store.page(cwd, cursor)
        except BadCursor as exc:
            raise RequestError.invalid_params({"cursor": "unknown"}) from exc
        found = []
        for info in page:
            one = SessionInfo(session_id=info["id"], cwd=info["cwd"], updated_at=info["at"])
            if info["title"]:
                one.title = info["title"]
            found.append(one)
        return ListSessionsResponse(sessions=found, next_cursor=following) if following else ListSessionsResponse(sessions=found)

    async def set_session_mode(self, session_id: str, mode_id: str, **_: Any) -> None:
        session = self._session(session_id)
        if not session.has_mode(mode_id):
            raise RequestError.invalid_params({"modeId": mode_id})
        session.set_mode(mode_id)

    async def prompt(self, session_id: str, prompt: list[Any], **_: Any) -> PromptResponse:
        session = self._session(session_id)
        blocks = [block.model_dump(mode="json", by_alias=True, exclude_none=True) for block in prompt]
        if any(block["type"] in ("image", "audio") for block in blocks):
            raise RequestError.invalid_params({"prompt": "images and sounds are not supported"})
        if session.turn is not None:
            raise RequestError.invalid_request({"details": "a turn is running in this session"})
        turn = Turn(self.client, session, blocks)
        session.stopping = False
        session.turn = asyncio.ensure_future(self._turn(session, turn))
        try:
            await session.turn
            session.settle()
            return PromptResponse(stop_reason="end_turn")
        except asyncio.CancelledError:
            if not session.stopping:
                raise  # the connection is closing
            session.drop()
            return PromptResponse(stop_reason="cancelled")
        finally:
            session.turn = None

    async def _turn(self, session: Session, turn: Turn) -> None:
        session.keep("user", message=os.urandom(16).hex(), blocks=turn.blocks)
        try:
            if not session.greeted:
                session.greeted = True
                update = AvailableCommandsUpdate(session_update="available_commands_update", available_commands=COMMANDS)
                await self.client.session_update(session.id, update)
            await turn.run()
        finally:
            turn.finish()

    async def cancel(self, session_id: str, **_: Any) -> None:
        session = self.sessions.get(session_id)
        if session is not None and session.turn is not None and not session.stopping:
            session.stopping = True
            session.turn.cancel()

    async def leave(self) -> None:
        for session in self.sessions.values():
            if session.turn is not None:
                session.turn.cancel()
        turns = [session.turn for session in self.sessions.values() if session.turn is not None]
        await asyncio.wait(turns, timeout=1) if turns else None
        await asyncio.gather(*(session.stop_servers() for session in self.sessions.values()))


async def main() -> None:
    logging.basicConfig(stream=sys.stderr, level=logging.CRITICAL)
    grouse = Grouse()
    try:
        await run_agent(grouse, Lines())
    finally:
        await grouse.leave()


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except (KeyboardInterrupt, ConnectionError):
        pass
