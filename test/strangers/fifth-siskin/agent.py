"""fifth-siskin: a small agent without a model, on the official Python SDK."""
from __future__ import annotations

import asyncio
import base64
import datetime
import logging
import os
import signal
import sys
import uuid
from typing import Any

from acp.agent.connection import AgentSideConnection
from acp.exceptions import RequestError
from acp.schema import (
    AgentCapabilities, CloseSessionResponse, Implementation, InitializeResponse, ListSessionsResponse,
    LoadSessionResponse, McpCapabilities, NewSessionResponse, PromptCapabilities, PromptResponse,
    ResumeSessionResponse, SessionAdditionalDirectoriesCapabilities, SessionCapabilities,
    SessionCloseCapabilities, SessionDeleteCapabilities, SessionInfo, SessionListCapabilities, SessionMode,
    SessionModeState, SessionNotification, SessionResumeCapabilities, SetSessionModeResponse)
from acp.stdio import stdio_streams
from pydantic import ValidationError

from mcp_client import McpServer
from turn import COMMANDS, Turn, TurnCancelled
from wire import CURRENT_ID, LineTransport, key_of

FAULT = os.environ.get("FAULT", "")
PAGE = 20
MODES = [
    SessionMode(id="careful", name="Careful", description="Asks before it writes a file."),
    SessionMode(id="swift", name="Swift", description="Writes files without asking."),
    SessionMode(id="look-only", name="Look only", description="Reads, but neither writes nor runs anything."),
]
MODE_IDS = {m.id for m in MODES}


def now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class Session:
    """All that one conversation knows.  Nothing of it is shared with another session."""

    def __init__(self, session_id: str, number: int, cwd: str, extra: list[str]) -> None:
        self.id = session_id
        self.number = number
        self.cwd = cwd
        self.extra = extra
        self.active = True
        self.mode = "careful"
        self.verdict: str | None = None  # a remembered allow_always / reject_always
        self.title: str | None = None
        self.updated = now()
        self.history: list[dict[str, Any]] = []  # updates, ready to be replayed
        self.notes: list[str] = []
        self.mcp: list[McpServer] = []
        self.turns: list[Turn] = []  # the running one and those that wait behind it
        self.calls = 0
        self.weight = 0

    def modes(self) -> SessionModeState:
        return SessionModeState(current_mode_id=self.mode, available_modes=MODES)


class Siskin:
    """The SDK's Agent: one method for each method of the protocol."""

    def __init__(self, transport: LineTransport) -> None:
        self.transport = transport
        self.client: AgentSideConnection | None = None
        self.initialized = False
        self.ending = False
        self.caps: dict[str, Any] = {}
        self.sessions: dict[str, Session] = {}
        self.counter = 0
        self.latest_cwd = ""
        transport.on_end = self.shutdown

    def on_connect(self, conn: Any) -> None:
        self.client = conn

    # -- what the client can do ----------------------------------------------------------

    def can(self, *path: str) -> bool:
        value: Any = self.caps
        for key in path:
            value = value.get(key) if isinstance(value, dict) else None
        return value is True

    def can_form(self) -> bool:
        elicitation = self.caps.get("elicitation")
        return isinstance(elicitation, dict) and isinstance(elicitation.get("form"), dict)

    # -- the protocol ----------------------------------------------------------------------

    async def initialize(self, protocol_version: int, **_: Any) -> InitializeResponse:
        self.initialized = True
        return InitializeResponse(
            protocol_version=1,
            agent_info=Implementation(name="fifth-siskin", title="Siskin", version="1.0.0"),
            agent_capabilities=AgentCapabilities(
                load_session=True,
                prompt_capabilities=PromptCapabilities(image=True, audio=False, embedded_context=True),
                mcp_capabilities=McpCapabilities(http=False, sse=False),
                session_capabilities=SessionCapabilities(
                    list=SessionListCapabilities(), delete=SessionDeleteCapabilities(), resume=SessionResumeCapabilities(),
                    close=SessionCloseCapabilities(), additional_directories=SessionAdditionalDirectoriesCapabilities())),
            auth_methods=[])

    async def new_session(self, cwd: str, mcp_servers: list[Any] | None = None,
                          additional_directories: list[str] | None = None, **_: Any) -> NewSessionResponse:
        self.counter += 1
        session = Session(f"siskin-{uuid.uuid4().hex}", self.counter, cwd, additional_directories or [])
        self.latest_cwd = cwd
        await self.connect(session, mcp_servers or [])
        self.sessions[session.id] = session
        self.greet(session)
        return NewSessionResponse(session_id=session.id, modes=session.modes())

    async def load_session(self, cwd: str, session_id: str, mcp_servers: list[Any] | None = None,
                           additional_directories: list[str] | None = None, **_: Any) -> LoadSessionResponse:
        session = await self.wake(session_id, cwd, mcp_servers, additional_directories)
        for entry in list(session.history):
            await self.update(session, entry)
        self.greet(session)
        return LoadSessionResponse(modes=session.modes())

    async def resume_session(self, session_id: str, cwd: str, mcp_servers: list[Any] | None = None,
                             additional_directories: list[str] | None = None, **_: Any) -> ResumeSessionResponse:
        session = await self.wake(session_id, cwd, mcp_servers, additional_directories)
        self.greet(session)
        return ResumeSessionResponse(modes=session.modes())

    async def list_sessions(self, cwd: str | None = None, cursor: str | None = None, **_: Any) -> ListSessionsResponse:
        if cwd is not None and not os.path.isabs(cwd):
            raise RequestError(-32602, "The cwd must be an absolute path.")
        below = None
        if cursor is not None:
            try:
                head, _sep, tail = base64.b64decode(cursor, validate=True).decode("ascii").partition(":")
                if head != "perch" or not tail.isdigit():
                    raise ValueError(cursor)
                below = int(tail)
            except ValueError:
                raise RequestError(-32602, "The cursor is not one of ours.") from None
        rows = [s for s in sorted(self.sessions.values(), key=lambda s: -s.number)
                if (cwd is None or s.cwd == cwd) and (below is None or s.number < below)]
        page = [SessionInfo(session_id=s.id, cwd=s.cwd, updated_at=s.updated, **({"title": s.title} if s.title else {}),
                            **({"additional_directories": s.extra} if s.extra else {})) for s in rows[:PAGE]]
        if len(rows) > PAGE:
            token = base64.b64encode(f"perch:{rows[PAGE - 1].number}".encode()).decode()
            return ListSessionsResponse(sessions=page, next_cursor=token)
        return ListSessionsResponse(sessions=page)

    async def close_session(self, session_id: str, **_: Any) -> CloseSessionResponse:
        session = self.live(session_id)
        await self.put_to_rest(session)
        return CloseSessionResponse()

    async def delete_session(self, params: dict[str, Any]) -> dict[str, Any]:
        session_id = params.get("sessionId")
        if not isinstance(session_id, str):
            raise RequestError(-32602, "The sessionId must be a string.")
        session = self.sessions.pop(session_id, None)
        if session is not None:
            await self.put_to_rest(session)
        return {}

    async def set_session_mode(self, session_id: str, mode_id: str, **_: Any) -> SetSessionModeResponse:
        session = self.live(session_id)
        if mode_id not in MODE_IDS:
            raise RequestError(-32602, "There is no such mode.", {"modeId": mode_id})
        session.mode = mode_id
        session.verdict = None  # another mode is a new bargain
        return SetSessionModeResponse()

    async def cancel(self, session_id: str, **_: Any) -> None:
        session = self.sessions.get(session_id)
        for turn in list(session.turns) if session else []:
            turn.cancel()

    async def prompt(self, session_id: str, prompt: list[Any], **_: Any) -> PromptResponse:
        session = self.live(session_id)
        if any(getattr(block, "type", "") == "audio" for block in prompt):
            raise RequestError(-32602, "Audio was not offered by this agent.")
        blocks = [b.model_dump(mode="json", by_alias=True, exclude_none=True) for b in prompt]
        turn = Turn(self, session, blocks, asyncio.current_task())
        session.turns.append(turn)
        mark = len(session.history)
        stop = "end_turn"
        try:
            while session.turns[0] is not turn:  # a second prompt waits for the first
                await session.turns[0].finished.wait()
            mark = len(session.history)
            await turn.run()
        except TurnCancelled:
            stop = "cancelled"
        except asyncio.CancelledError:
            if not turn.cancelled:
                raise
            stop = "cancelled"
        finally:
            turn.ending = True  # from here on the outcome stands
            try:
                await turn.tidy()
            finally:
                session.updated = now()
                if FAULT == "lost-cancelled-turn" and (turn.cancelled or stop == "cancelled"):
                    del session.history[mark:]
                session.turns.remove(turn)
                turn.finished.set()
        if turn.cancelled:
            stop = "cancelled"
        if turn.by_request:
            raise RequestError(-32800, "The request was cancelled.")
        return PromptResponse(stop_reason=stop)

    # -- helpers -----------------------------------------------------------------------------

    def live(self, session_id: str) -> Session:
        session = self.sessions.get(session_id)
        if session is None or not session.active:
            raise RequestError(-32002, "There is no such open session.", {"sessionId": session_id})
        return session

    async def wake(self, session_id: str, cwd: str, servers: list[Any] | None, extra: list[str] | None) -> Session:
        session = self.sessions.get(session_id)
        if session is None:
            raise RequestError(-32002, "There is no such session.", {"sessionId": session_id})
        if session.turns:
            raise RequestError(-32600, "The session is busy with a prompt.")
        await self.unplug(session)
        session.cwd, session.extra, session.active = cwd, extra or [], True
        self.latest_cwd = cwd
        await self.connect(session, servers or [])
        return session

    async def connect(self, session: Session, servers: list[Any]) -> None:
        session.mcp = [McpServer(s.name, s.command, list(s.args), {e.name: e.value for e in s.env}, session.cwd) for s in servers]
        try:
            await asyncio.gather(*(server.start() for server in session.mcp))
        except asyncio.CancelledError:
            await self.unplug(session)
            raise

    async def unplug(self, session: Session) -> None:
        servers, session.mcp = session.mcp, []
        await asyncio.gather(*(server.stop() for server in servers))

    async def put_to_rest(self, session: Session) -> None:
        session.active = False
        turns = list(session.turns)
        for turn in turns:
            turn.cancel()
        for turn in turns:
            await turn.finished.wait()
        await self.unplug(session)

    def greet(self, session: Session) -> None:
        """The list of commands follows the answer, when the client knows the session."""
        async def later() -> None:
            await self.update(session, {"sessionUpdate": "available_commands_update", "availableCommands": COMMANDS})
        self.transport.after_answer(later)

    async def update(self, session: Session, update: dict[str, Any]) -> None:
        checked = SessionNotification.model_validate({"sessionId": session.id, "update": update})
        assert self.client is not None
        try:
            await self.client.session_update(session.id, checked.update)
        except ConnectionError:
            pass

    async def shutdown(self) -> None:
        """The client hung up: end the turns, answer them, stop everything we started."""
        if self.ending:
            return
        self.ending = True
        turns = [t for s in self.sessions.values() for t in s.turns]
        for turn in turns:
            turn.cancel()
        if turns:
            await asyncio.wait([asyncio.ensure_future(t.finished.wait()) for t in turns], timeout=2)
            await asyncio.sleep(0)
        await asyncio.gather(*(self.unplug(s) for s in self.sessions.values()), return_exceptions=True)


class Gate:
    """Stands before the SDK's router: order of calls, strict params, cancelling, methods it lacks."""

    def __init__(self, agent: Siskin, router: Any) -> None:
        self.agent = agent
        self.router = router
        self.running: dict[tuple, asyncio.Task] = {}
        self.withdrawn: set[tuple] = set()

    async def __call__(self, method: str, params: Any, is_notification: bool) -> Any:
        if is_notification:
            return await self.notification(method, params)
        key = key_of(CURRENT_ID.get())
        self.running[key] = asyncio.current_task()
        try:
            self.check(method, params)
            if method == "session/delete":
                return await self.agent.delete_session(params)
            return await self.router(method, params, False)
        except asyncio.CancelledError:
            if key not in self.withdrawn:
                raise
            raise RequestError(-32800, "The request was cancelled.") from None
        except ValidationError as exc:
            where = [".".join(str(p) for p in e["loc"]) + ": " + e["msg"] for e in exc.errors(include_url=False, include_context=False, include_input=False)]
            raise RequestError(-32602, "The params do not fit the method.", {"errors": where[:5]}) from None
        finally:
            self.running.pop(key, None)
            self.withdrawn.discard(key)

    async def notification(self, method: str, params: Any) -> None:
        if not isinstance(params, dict):
            return
        if method == "$/cancel_request":
            self.withdraw(params.get("requestId"))
        elif method == "session/cancel" and isinstance(params.get("sessionId"), str):
            await self.agent.cancel(params["sessionId"])
        # anything else is not for us, and is never answered

    def withdraw(self, request_id: Any) -> None:
        try:
            key = key_of(request_id)
            task = self.running.get(key)
        except TypeError:
            return
        if task is None or key in self.withdrawn:
            return
        for session in list(self.agent.sessions.values()):
            for turn in session.turns:
                if turn.task is task:
                    turn.cancel(by_request=True)
                    return
        self.withdrawn.add(key)
        task.cancel()

    def check(self, method: str, params: Any) -> None:
        """What the SDK's models would let pass."""
        if method == "initialize":
            version = params.get("protocolVersion") if isinstance(params, dict) else None
            if type(version) is not int or not 0 <= version <= 65535:
                raise RequestError(-32602, "The protocolVersion must be a whole number up to 65535.")
            caps = params.get("clientCapabilities")
            self.agent.caps = caps if isinstance(caps, dict) else {}
            return
        if method.startswith("session/") and not self.agent.initialized:
            raise RequestError(-32600, "Please send initialize first.")
        if not isinstance(params, dict):
            if method.startswith("session/"):
                raise RequestError(-32602, "The params must be an object.")
            return
        if method in ("session/new", "session/load", "session/resume"):
            cwd = params.get("cwd")
            if not isinstance(cwd, str) or not os.path.isabs(cwd) or "\0" in cwd:
                raise RequestError(-32602, "The cwd must be an absolute path.")
            extra = params.get("additionalDirectories")
            if extra is not None and (not isinstance(extra, list) or not all(
                    isinstance(e, str) and os.path.isabs(e) and "\0" not in e for e in extra)):
                raise RequestError(-32602, "Every additional directory must be an absolute path.")
            servers = params.get("mcpServers")
            if servers is None and method != "session/resume" or servers is not None and not isinstance(servers, list):
                raise RequestError(-32602, "The mcpServers must be a list.")
            for server in servers or []:
                self.check_server(server)

    @staticmethod
    def check_server(server: Any) -> None:
        if not isinstance(server, dict):
            raise RequestError(-32602, "An MCP server must be an object.")
        if server.get("type", "stdio") != "stdio":
            raise RequestError(-32602, "Only MCP servers on stdio are supported.")
        env, args = server.get("env"), server.get("args")
        good = isinstance(server.get("name"), str) and isinstance(server.get("command"), str)
        good = good and isinstance(args, list) and all(isinstance(a, str) for a in args)
        good = good and isinstance(env, list) and all(
            isinstance(e, dict) and isinstance(e.get("name"), str) and isinstance(e.get("value"), str) for e in env)
        if not good:
            raise RequestError(-32602, "An MCP server needs a name, a command, args and env.")


async def main() -> None:
    logging.basicConfig(level=logging.CRITICAL, stream=sys.stderr)
    reader, writer = await stdio_streams(limit=64 * 1024 * 1024)
    transport = LineTransport(reader, writer)
    agent = Siskin(transport)
    connection = AgentSideConnection(agent, transport, listening=False, use_unstable_protocol=True)
    connection._conn._handler = Gate(agent, connection._conn._handler)
    listening = asyncio.ensure_future(connection.listen())
    loop = asyncio.get_running_loop()
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, lambda: asyncio.ensure_future(leave(agent, listening)))
    try:
        await listening
    except asyncio.CancelledError:
        pass
    finally:
        await connection.close()


async def leave(agent: Siskin, listening: asyncio.Future) -> None:
    await agent.shutdown()
    listening.cancel()


if __name__ == "__main__":
    asyncio.run(main())
