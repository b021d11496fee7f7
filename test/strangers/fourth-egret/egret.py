"""fourth-egret: an ACP agent on the official Python SDK, without a language model."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import logging
import os
import re
import signal
import sys
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from acp import (PROTOCOL_VERSION, RequestError, plan_entry, run_agent, start_tool_call, text_block, tool_content,
                 tool_diff_content, tool_terminal_ref, update_plan, update_tool_call)
from acp import schema as t
from acp.helpers import update_current_mode
from acp.utils import normalize_result

from guard import GuardedTransport
from mcp_link import link_for
from wishes import parse

FAULT = os.environ.get("FAULT", "")
HOME = os.path.join(os.path.expanduser("~"), ".fourth-egret", "sessions")
PAGE = 20
COMMAND_LIMIT = 60.0
MODES = {"ask": ("Ask first", "Asks before every command."),
         "trust": ("Trusting", "Runs commands without asking."),
         "look": ("Look only", "Neither writes files nor runs commands.")}
MODELS = {"egret-small": "Egret Small", "egret-large": "Egret Large"}
COLOURS = ["red", "green", "blue", "yellow"]


class ToolFailed(Exception):
    """Something a tool has to report as its failure."""


class TurnCancelled(Exception):
    """The client answered a permission request with the outcome cancelled."""


def now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="microseconds").replace("+00:00", "Z")


@dataclass
class Session:
    id: str
    cwd: str
    extra: list[str] = field(default_factory=list)
    servers: list[Any] = field(default_factory=list)
    mode: str = "ask"
    model: str = "egret-small"
    thoughts: bool = True
    title: str | None = None
    updated: str = field(default_factory=now)
    calls: int = 0
    history: list[dict[str, Any]] = field(default_factory=list)
    turn: asyncio.Task[str] | None = None
    stopping: bool = False
    deleted: bool = False
    links: list[Any] | None = None
    troubles: list[str] = field(default_factory=list)

    KEPT = ("id", "cwd", "extra", "mode", "model", "thoughts", "title", "updated", "calls", "history")

    def save(self) -> None:
        if self.deleted:
            return
        path = store_path(self.id)
        try:
            os.makedirs(HOME, mode=0o700, exist_ok=True)
            with open(f"{path}.new", "w", encoding="utf-8") as out:
                json.dump({name: getattr(self, name) for name in self.KEPT}, out)
            os.replace(f"{path}.new", path)
        except OSError as problem:
            logging.warning("The session could not be stored: %s", problem)

    def next_call(self) -> str:
        self.calls += 1
        return f"call-{self.calls}"

    def user_texts(self) -> list[str]:
        return [h["content"]["text"] for h in self.history
                if h["sessionUpdate"] == "user_message_chunk" and h["content"]["type"] == "text"]


def store_path(session_id: str) -> str:
    return os.path.join(HOME, f"{session_id}.json")


def stored(session_id: str) -> Session | None:
    if not re.fullmatch(r"egret-[0-9a-f]{32}", session_id):
        return None
    try:
        with open(store_path(session_id), encoding="utf-8") as source:
            return Session(**json.load(source))
    except (OSError, ValueError, TypeError):
        return None


@dataclass
class Call:
    id: str
    title: str
    kind: Any
    raw_input: Any
    locations: list[t.ToolCallLocation]
    status: str = "completed"
    content: list[Any] = field(default_factory=list)
    raw_output: Any = None
    shown: str = ""
    cleanup: list[Callable[[], Awaitable[Any]]] = field(default_factory=list)

    def done(self, shown: str, raw_output: Any, content: list[Any] | None = None) -> None:
        self.shown, self.raw_output = shown, raw_output
        self.content = content or [tool_content(text_block(shown))]

    def fail(self, why: str) -> None:
        self.status, self.shown = "failed", why
        self.content = [*self.content, tool_content(text_block(why))]
        self.raw_output = self.raw_output or {"error": why}


class Egret:
    conn: Any
    ready = False

    def __init__(self) -> None:
        self.sessions: dict[str, Session] = {}
        self.caps = t.ClientCapabilities()

    def on_connect(self, conn: Any) -> None:
        self.conn = conn
        # The SDK knows session/delete but has no route for it yet.
        router = conn._conn._handler
        router.route_request("session/delete", t.DeleteSessionRequest, self, "delete_session", adapt_result=normalize_result)

    # ---- connection ----------------------------------------------------------------------------------------------

    async def initialize(self, protocol_version: int, client_capabilities: t.ClientCapabilities | None = None,
                         client_info: t.Implementation | None = None, **_: Any) -> t.InitializeResponse:
        self.caps, self.ready = client_capabilities or t.ClientCapabilities(), True
        return t.InitializeResponse(
            protocol_version=PROTOCOL_VERSION,
            agent_info=t.Implementation(name="fourth-egret", title="Fourth Egret", version="1.0.0"),
            agent_capabilities=t.AgentCapabilities(
                load_session=True,
                prompt_capabilities=t.PromptCapabilities(image=True, audio=False, embedded_context=True),
                mcp_capabilities=t.McpCapabilities(http=True, sse=False),
                session_capabilities=t.SessionCapabilities(
                    list=t.SessionListCapabilities(), delete=t.SessionDeleteCapabilities(),
                    resume=t.SessionResumeCapabilities(), close=t.SessionCloseCapabilities(),
                    additional_directories=t.SessionAdditionalDirectoriesCapabilities()),
                auth=t.AgentAuthCapabilities()),
            auth_methods=[])

    async def authenticate(self, method_id: str, **_: Any) -> None:
        raise RequestError(-32602, "This agent offers no way to authenticate.", {"methodId": method_id})

    def live(self, session_id: str) -> Session:
        self.need_ready()
        if session_id not in self.sessions:
            raise RequestError(-32002, "The session was not found.", {"sessionId": session_id})
        return self.sessions[session_id]

    def need_ready(self) -> None:
        if not self.ready:
            raise RequestError(-32600, "The connection must be initialized first.")

    # ---- sessions ------------------------------------------------------------------------------------------------

    def modes(self, s: Session) -> t.SessionModeState:
        return t.SessionModeState(current_mode_id=s.mode, available_modes=[
            t.SessionMode(id=key, name=name, description=about) for key, (name, about) in MODES.items()])

    def options(self, s: Session) -> list[Any]:
        found: list[Any] = [
            t.SessionConfigOptionSelect(type="select", id="mode", name="Mode", category="mode", current_value=s.mode, options=[
                t.SessionConfigSelectOption(value=key, name=name, description=about) for key, (name, about) in MODES.items()]),
            t.SessionConfigOptionSelect(type="select", id="model", name="Model", category="model", current_value=s.model, options=[
                t.SessionConfigSelectOption(value=key, name=name) for key, name in MODELS.items()])]
        session = self.caps.session
        if session and session.config_options and session.config_options.boolean is not None:
            found.append(t.SessionConfigOptionBoolean(type="boolean", id="thoughts", name="Show thoughts",
                                                      category="thought_level", current_value=s.thoughts))
        return found

    async def new_session(self, cwd: str, mcp_servers: Any = None, additional_directories: Any = None, **_: Any) -> Any:
        self.need_ready()
        s = Session(f"egret-{uuid.uuid4().hex}", cwd, list(additional_directories or []), list(mcp_servers or []))
        self.sessions[s.id] = s
        s.save()
        return t.NewSessionResponse(session_id=s.id, modes=self.modes(s), config_options=self.options(s))

    async def bring_back(self, session_id: str, cwd: str, servers: Any, extra: Any) -> Session:
        self.need_ready()
        before = self.sessions.get(session_id)
        if before and before.turn:
            raise RequestError(-32600, "A prompt is running in this session.", {"sessionId": session_id})
        s = stored(session_id) or before
        if s is None:
            raise RequestError(-32002, "The session was not found.", {"sessionId": session_id})
        if before:
            await self.hang_up(before)
        s.cwd, s.extra, s.servers = cwd, list(extra or []), list(servers or [])
        if FAULT == "reused-call-ids":
            s.calls = 0
        self.sessions[session_id] = s
        return s

    async def load_session(self, cwd: str, session_id: str, mcp_servers: Any = None, additional_directories: Any = None,
                           **_: Any) -> Any:
        s = await self.bring_back(session_id, cwd, mcp_servers, additional_directories)
        for entry in list(s.history):
            await self.update(s, entry)
        return t.LoadSessionResponse(modes=self.modes(s), config_options=self.options(s))

    async def resume_session(self, cwd: str, session_id: str, mcp_servers: Any = None, additional_directories: Any = None,
                             **_: Any) -> Any:
        s = await self.bring_back(session_id, cwd, mcp_servers, additional_directories)
        return t.ResumeSessionResponse(modes=self.modes(s), config_options=self.options(s))

    async def list_sessions(self, cwd: str | None = None, cursor: str | None = None, **_: Any) -> t.ListSessionsResponse:
        self.need_ready()
        known = {s.id: s for s in self.sessions.values() if not s.deleted}
        with contextlib.suppress(OSError):
            for name in os.listdir(HOME):
                if name.endswith(".json") and name[:-5] not in known and (s := stored(name[:-5])):
                    known[s.id] = s
        ordered = sorted((s for s in known.values() if cwd is None or s.cwd == cwd), key=lambda s: (s.updated, s.id), reverse=True)
        if cursor is not None:
            try:
                after = tuple(json.loads(base64.urlsafe_b64decode(cursor.encode())))
                if len(after) != 2 or not all(isinstance(part, str) for part in after):
                    raise ValueError
            except (ValueError, TypeError, RecursionError):
                raise RequestError(-32602, "The cursor is not valid.", {"cursor": cursor}) from None
            ordered = [s for s in ordered if (s.updated, s.id) < after]
        page, more = ordered[:PAGE], len(ordered) > PAGE
        found = t.ListSessionsResponse(sessions=[
            t.SessionInfo(session_id=s.id, cwd=s.cwd, title=s.title, updated_at=s.updated,
                          additional_directories=s.extra or None) for s in page])
        if more:
            found.next_cursor = base64.urlsafe_b64encode(json.dumps([page[-1].updated, page[-1].id]).encode()).decode()
        return found

    async def hang_up(self, s: Session) -> None:
        links, s.links = s.links or [], None
        await asyncio.gather(*(link.close() for link in links), return_exceptions=True)

    async def leave(self, s: Session) -> None:
        self.sessions.pop(s.id, None)
        if turn := s.turn:
            self.stop(s)
            await asyncio.wait({turn})
            await asyncio.sleep(0.01)  # lets the answer to the prompt go first
        await self.hang_up(s)

    async def close_session(self, session_id: str, **_: Any) -> None:
        self.need_ready()
        if session_id in self.sessions:
            await self.leave(self.sessions[session_id])
        elif stored(session_id) is None:
            self.live(session_id)

    async def delete_session(self, session_id: str, **_: Any) -> None:
        self.need_ready()
        if s := self.sessions.get(session_id):
            s.deleted = True
            await self.leave(s)
        if stored(session_id):
            with contextlib.suppress(FileNotFoundError):
                os.remove(store_path(session_id))

    async def set_session_mode(self, session_id: str, mode_id: str, **_: Any) -> None:
        s = self.live(session_id)
        if mode_id not in MODES:
            raise RequestError(-32602, "There is no such mode.", {"modeId": mode_id})
        s.mode = mode_id
        s.save()
        await self.tell_options(s)

    async def set_config_option(self, config_id: str, session_id: str, value: Any, **_: Any) -> Any:
        s = self.live(session_id)
        offered = {option.id: option for option in self.options(s)}
        if config_id not in offered:
            raise RequestError(-32602, "There is no such option.", {"configId": config_id})
        allowed = {"mode": MODES, "model": MODELS, "thoughts": (True, False)}[config_id]
        if isinstance(value, bool) != (config_id == "thoughts") or value not in allowed:
            raise RequestError(-32602, "The option has no such value.", {"configId": config_id, "value": value})
        changed = getattr(s, config_id) != value
        setattr(s, config_id, value)
        s.save()
        if config_id == "mode" and changed:
            await self.update(s, update_current_mode(s.mode))
        return t.SetSessionConfigOptionResponse(config_options=self.options(s))

    async def tell_options(self, s: Session) -> None:
        await self.update(s, t.ConfigOptionUpdate(session_update="config_option_update", config_options=self.options(s)))

    # ---- the turn ------------------------------------------------------------------------------------------------

    async def update(self, s: Session, update: Any) -> None:
        with contextlib.suppress(ConnectionError):
            await self.conn.session_update(s.id, update)

    async def prompt(self, session_id: str, prompt: list[Any], **_: Any) -> t.PromptResponse:
        s = self.live(session_id)
        if s.turn:
            raise RequestError(-32600, "A prompt is already running in this session.", {"sessionId": session_id})
        if any(block.type == "audio" for block in prompt):
            raise RequestError(-32602, "Audio is not supported in prompts.")
        message = uuid.uuid4().hex
        s.history += [{"sessionUpdate": "user_message_chunk", "messageId": message,
                       "content": block.model_dump(mode="json", by_alias=True, exclude_none=True)} for block in prompt]
        s.turn = asyncio.create_task(self.run_turn(s, prompt))
        try:
            reason = await s.turn
        except asyncio.CancelledError:
            if not s.stopping:
                raise
            reason = "cancelled"
        finally:
            s.turn, s.stopping, s.updated = None, False, now()
            s.save()
        return t.PromptResponse(stop_reason=reason)

    async def cancel(self, session_id: str, **_: Any) -> None:
        if (s := self.sessions.get(session_id)) and s.turn:
            self.stop(s)

    def stop(self, s: Session) -> None:
        if s.turn and not s.stopping:
            s.stopping = True
            s.turn.cancel()

    def check(self, s: Session) -> None:
        if s.stopping:
            raise asyncio.CancelledError

    async def run_turn(self, s: Session, blocks: list[Any]) -> str:
        text = "\n".join(block.text for block in blocks if block.type == "text")
        if s.title is None:
            s.title = " ".join(text.split())[:60] or "Untitled"
            await self.update(s, t.SessionInfoUpdate(session_update="session_info_update", title=s.title, updated_at=now()))
        wishes = parse(text, bool(s.servers))
        deep = any(w["do"] == "think" for w in wishes)
        await self.think(s, ["Let me look at what is asked. ", f"I see {len(wishes)} thing(s) to do. ",
                             *(["Let me weigh this carefully. ", "Yes, that should do. "] if deep else [])])
        answers = [a for a in map(describe, blocks) if a]
        fallback = next((w["text"] for w in wishes if w["do"] == "fallback"), None)
        spoken = any(w["do"] == "say" for w in wishes)
        try:
            for wish in wishes:
                self.check(s)
                handler = getattr(self, "do_" + wish["do"].replace("-", "_"), None)
                if handler is None or (wish["do"] == "remember" and spoken):
                    continue
                answer = await handler(s, wish, fallback) if wish["do"] == "recall" else await handler(s, wish)
                if answer is not None:
                    answers.append(answer)
                elif wish["do"] in ("count", "long"):
                    spoken = True
        except TurnCancelled:
            return "cancelled"
        if not answers and not spoken:
            greeting = re.search(r"\b(?:hello|hi|hey|good (?:morning|day|evening))\b", text, re.I)
            answers = ["Hello! What can I do for you?" if greeting else "I have thought about it." if deep else
                       "I can read and write files, run commands, plan, count, and use MCP tools. Just tell me."]
        if answers:
            await self.say(s, "\n\n".join(answers))
        self.check(s)
        return "end_turn"

    async def stream(self, s: Session, kind: Any, name: str, pieces: list[str], pause: float) -> None:
        message, sent = uuid.uuid4().hex, ""
        try:
            for piece in pieces:
                self.check(s)
                sent += piece
                await self.update(s, kind(session_update=name, message_id=message, content=text_block(piece)))
                await asyncio.sleep(pause)
        finally:
            if sent:
                s.history.append({"sessionUpdate": name, "messageId": message, "content": {"type": "text", "text": sent}})

    async def say(self, s: Session, text: str, pause: float = 0.01) -> None:
        pieces = re.findall(r"(?:\S+\s*){1,8}|\s+", text) if len(text) < 4000 else [text[i:i + 1000] for i in range(0, len(text), 1000)]
        await self.stream(s, t.AgentMessageChunk, "agent_message_chunk", pieces or ["(nothing)"], pause)

    async def think(self, s: Session, pieces: list[str]) -> None:
        if s.thoughts:
            await self.stream(s, t.AgentThoughtChunk, "agent_thought_chunk", pieces, 0.02)

    @contextlib.asynccontextmanager
    async def tool(self, s: Session, title: str, kind: str, raw_input: Any, paths: list[str], call_id: str | None = None,
                   line: int | None = None) -> AsyncIterator[Call]:
        """Announces the call late, already in progress, and always reports how it ended."""
        call = Call(call_id or s.next_call(), title, kind, raw_input, [t.ToolCallLocation(path=p, line=line) for p in paths])
        await self.update(s, start_tool_call(call.id, title, kind=call.kind, status="in_progress",
                                             locations=call.locations, raw_input=raw_input))
        try:
            yield call
        except asyncio.CancelledError:
            call.fail("Cancelled.")
            await self.finish(s, call)
            raise
        except Exception as problem:
            call.fail(getattr(problem, "strerror", None) or str(problem) or type(problem).__name__)
        await self.finish(s, call)

    async def finish(self, s: Session, call: Call) -> None:
        await self.update(s, update_tool_call(call.id, status=call.status, content=call.content, raw_output=call.raw_output))
        for step in call.cleanup:
            await self.quietly(step())
        kept = [c for c in call.content if c.type != "terminal"] or [tool_content(text_block(call.shown))]
        entry = start_tool_call(call.id, call.title, kind=call.kind, status=call.status, content=kept,
                                locations=call.locations, raw_input=call.raw_input, raw_output=call.raw_output)
        s.history.append(entry.model_dump(mode="json", by_alias=True, exclude_none=True))

    async def quietly(self, request: Awaitable[Any]) -> None:
        with contextlib.suppress(Exception):
            await asyncio.wait_for(request, 2)

    async def patiently(self, request: Awaitable[Any]) -> Any:
        """Awaits a request; if the turn is cancelled meanwhile, gives the client a moment to answer it first."""
        asked = asyncio.ensure_future(request)
        try:
            return await asyncio.shield(asked)
        except asyncio.CancelledError:
            await asyncio.wait({asked}, timeout=2)
            if not asked.cancel() and not asked.cancelled():
                asked.exception()
            raise

    # ---- files ---------------------------------------------------------------------------------------------------

    def resolve(self, s: Session, path: str) -> str:
        path = os.path.expanduser(path)
        if FAULT == "extra-root-first" and not os.path.isabs(path):
            for root in s.extra:
                if os.path.exists(os.path.join(root, path)):
                    return os.path.normpath(os.path.join(root, path))
        return os.path.normpath(os.path.join(s.cwd, path))

    def inside(self, s: Session, path: str) -> None:
        real = os.path.realpath(path)
        for root in (s.cwd, *s.extra):
            if os.path.commonpath([real, os.path.realpath(root)]) == os.path.realpath(root):
                return
        raise ToolFailed("The path is outside the workspace of this session.")

    async def read_text(self, s: Session, path: str, line: int | None = None, limit: int | None = None) -> str:
        if self.caps.fs and self.caps.fs.read_text_file:
            return (await self.conn.read_text_file(session_id=s.id, path=path, line=line, limit=limit)).content
        with open(path, encoding="utf-8", errors="replace", newline="") as source:
            text = source.read()
        if line is None and limit is None:
            return text
        start = (line or 1) - 1
        return "".join(text.splitlines(keepends=True)[start:start + limit if limit is not None else None])

    async def old_text(self, path: str, s: Session) -> str | None:
        try:
            return await self.read_text(s, path)
        except (RequestError, OSError):
            if not os.path.isfile(path):
                return None
        with open(path, encoding="utf-8", errors="replace", newline="") as source:
            return source.read()

    async def do_read(self, s: Session, wish: dict[str, Any]) -> str:
        path = self.resolve(s, wish["path"])
        asked = {k: wish[k] for k in ("line", "limit") if wish.get(k) is not None}
        async with self.tool(s, f"Read {path}", "read", {"path": path, **asked}, [path], line=wish.get("line")) as call:
            self.inside(s, path)
            text = await self.read_text(s, path, **asked)
            call.done(text, {"content": text})
        if call.status == "failed":
            return f"I could not read {path}: {call.shown}"
        return f"{os.path.basename(path)} contains:\n{call.shown}"

    async def do_write(self, s: Session, wish: dict[str, Any]) -> str:
        path = self.resolve(s, wish["path"])
        if s.mode == "look":
            return f"I am in the look-only mode, so I do not write {path}."
        async with self.tool(s, f"Write {path}", "edit", {"path": path, **{k: v for k, v in wish.items() if k not in ("do", "path")}},
                             [path]) as call:
            self.inside(s, path)
            old = await self.old_text(path, s)
            if wish["do"] == "edit":
                if old is None or wish["old"] not in old:
                    raise ToolFailed("The text to replace was not found.")
                new = old.replace(wish["old"], wish["new"])
            else:
                glue = "\n" if wish["append"] and old and not old.endswith("\n") else ""
                new = f"{old or ''}{glue}{wish['text']}" if wish["append"] else wish["text"]
            if self.caps.fs and self.caps.fs.write_text_file:
                await self.conn.write_text_file(session_id=s.id, path=path, content=new)
            else:
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "w", encoding="utf-8", newline="") as out:
                    out.write(new)
            call.done(f"Wrote {len(new)} characters.", {"written": len(new)}, [tool_diff_content(path, new, old)])
        return f"I could not write {path}: {call.shown}" if call.status == "failed" else f"I wrote {path}."

    do_edit = do_write

    async def do_list(self, s: Session, wish: dict[str, Any]) -> str:
        path = self.resolve(s, wish["path"])
        async with self.tool(s, f"List {path}", "search", {"path": path}, [path]) as call:
            self.inside(s, path)
            names = sorted(n + "/" if os.path.isdir(os.path.join(path, n)) else n for n in os.listdir(path))
            call.done("\n".join(names) or "(empty)", {"entries": names})
        return f"I could not list {path}: {call.shown}" if call.status == "failed" else f"{path} holds:\n{call.shown}"

    # ---- commands ------------------------------------------------------------------------------------------------

    async def do_delete(self, s: Session, wish: dict[str, Any]) -> str:
        path = self.resolve(s, wish["path"])
        try:
            self.inside(s, path)
        except ToolFailed as problem:
            return f"I do not delete {path}. {problem}"
        return await self.do_run(s, {"command": "rm -- '" + path.replace("'", "'\\''") + "'"})

    async def do_run(self, s: Session, wish: dict[str, Any]) -> str:
        command, call_id = wish["command"], s.next_call()
        title, raw = f"Run {command}", {"command": command, "cwd": s.cwd}
        if s.mode == "look":
            return f"I am in the look-only mode, so I do not run `{command}`."
        if s.mode == "ask" and not await self.permitted(s, call_id, title, raw):
            refusal = [tool_content(text_block("Rejected by the user."))]
            entry = start_tool_call(call_id, title, kind="execute", status="failed", content=refusal, raw_input=raw,
                                    locations=[t.ToolCallLocation(path=s.cwd)], raw_output={"error": "rejected"})
            await self.update(s, entry)
            s.history.append(entry.model_dump(mode="json", by_alias=True, exclude_none=True))
            return f"You did not allow `{command}`, so I did not run it."
        async with self.tool(s, title, "execute", raw, [s.cwd], call_id) as call:
            await (self.in_terminal if self.caps.terminal else self.in_process)(s, call, command)
        ending = f"`{command}` failed" if call.status == "failed" else f"`{command}` printed"
        return f"{ending}:\n{call.shown}"

    async def permitted(self, s: Session, call_id: str, title: str, raw: Any) -> bool:
        options = [t.PermissionOption(option_id="go", name="Run it once", kind="allow_once"),
                   t.PermissionOption(option_id="stop", name="Do not run it", kind="reject_once")]
        call = t.ToolCallUpdate(tool_call_id=call_id, title=title, kind="execute", status="pending", raw_input=raw,
                                locations=[t.ToolCallLocation(path=s.cwd)])
        try:
            answer = await self.patiently(self.conn.request_permission(session_id=s.id, tool_call=call, options=options))
        except (RequestError, ValueError):
            return False  # no clear answer is no permission
        if answer.outcome.outcome == "cancelled":
            raise TurnCancelled
        return answer.outcome.option_id == "go"

    async def in_terminal(self, s: Session, call: Call, command: str) -> None:
        made = asyncio.ensure_future(self.conn.create_terminal(
            session_id=s.id, command="/bin/sh", args=["-c", command], cwd=s.cwd, output_byte_limit=65536))
        terminal = None
        try:
            terminal = (await asyncio.shield(made)).terminal_id
            call.content = [tool_terminal_ref(terminal)]
            await self.update(s, update_tool_call(call.id, content=call.content))
            ended = None
            with contextlib.suppress(asyncio.TimeoutError):
                ended = await asyncio.wait_for(self.conn.wait_for_terminal_exit(session_id=s.id, terminal_id=terminal), COMMAND_LIMIT)
            if ended is None:
                await self.quietly(self.conn.kill_terminal(session_id=s.id, terminal_id=terminal))
            output = await self.conn.terminal_output(session_id=s.id, terminal_id=terminal)
        except asyncio.CancelledError:
            if terminal is None:
                await asyncio.wait({made}, timeout=2)
                if not made.cancel() and not made.cancelled() and made.exception() is None:
                    terminal = made.result().terminal_id
            if terminal is not None:
                await self.quietly(self.conn.kill_terminal(session_id=s.id, terminal_id=terminal))
                call.cleanup.append(lambda: self.conn.release_terminal(session_id=s.id, terminal_id=terminal))
            raise
        except Exception:
            if terminal is not None:
                call.cleanup.append(lambda: self.conn.release_terminal(session_id=s.id, terminal_id=terminal))
            raise
        if not (FAULT == "failed-terminal-kept" and ended and ended.exit_code):
            call.cleanup.append(lambda: self.conn.release_terminal(session_id=s.id, terminal_id=terminal))
        self.judge(call, output.output, ended.exit_code if ended else None, ended.signal if ended else None, ended is None)

    async def in_process(self, s: Session, call: Call, command: str) -> None:
        process = await asyncio.create_subprocess_exec(
            "/bin/sh", "-c", command, cwd=s.cwd, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT, start_new_session=True)
        output, late = b"", False
        try:
            output, _ = await asyncio.wait_for(process.communicate(), COMMAND_LIMIT)
        except asyncio.TimeoutError:
            late = True
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
        code = process.returncode
        self.judge(call, output[-65536:].decode("utf-8", "replace"), code, None if code is None or code >= 0 else str(-code), late)

    def judge(self, call: Call, output: str, code: int | None, signal_name: str | None, late: bool) -> None:
        shown = output or "(no output)"
        call.done(shown, {"output": output, "exitCode": code, "signal": signal_name}, call.content)
        if late:
            call.fail("The command took too long and was stopped.")
        elif code != 0:
            call.fail(f"{shown}\n(exit code {code})" if signal_name is None else f"{shown}\n(ended by signal {signal_name})")

    # ---- MCP -----------------------------------------------------------------------------------------------------

    async def connect(self, s: Session) -> list[Any]:
        """Starts the session's MCP servers when they are needed for the first time."""
        if s.links is None:
            s.links, s.troubles = [link_for(spec, s.cwd) for spec in s.servers], []
            try:
                results = await asyncio.gather(*(link.open() for link in s.links), return_exceptions=True)
            except asyncio.CancelledError:
                await self.hang_up(s)
                raise
            s.troubles = [f"{link.name}: {r}" for link, r in zip(s.links, results, strict=True) if isinstance(r, BaseException)]
        return s.links

    async def do_mcp_list(self, s: Session, _: dict[str, Any]) -> str:
        links = await self.connect(s)
        lines = [f"{link.name}: {', '.join(link.tools) or 'no tools'}" for link in links]
        return "\n".join(["The MCP tools are:", *lines, *s.troubles]) if links else "This session has no MCP servers."

    async def do_mcp(self, s: Session, wish: dict[str, Any]) -> str:
        links = await self.connect(s)
        if not links:
            return "This session has no MCP servers."
        words = wish["clause"]
        tools = [(name, link) for link in links for name in link.tools]
        wanted = [(n, k) for n, k in tools if n == wish["name"]] or sorted(
            ((n, k) for n, k in tools if re.search(rf"(?<![\w-]){re.escape(n)}(?![\w-])", words, re.I)), key=lambda x: -len(x[0]))
        wanted = [(n, k) for n, k in wanted if re.search(rf"\b{re.escape(k.name)}\b", words)] or wanted or (tools if len(tools) == 1 else [])
        if not wanted:
            return "\n".join([f"I know no such MCP tool; I know: {', '.join(n for n, _ in tools) or 'none'}.", *s.troubles])
        name, link = wanted[0]
        arguments = arguments_for(link.tools[name].get("inputSchema") or {}, wish, {name, link.name})
        async with self.tool(s, f"{link.name}: {name}", "other", {"server": link.name, "tool": name, "arguments": arguments}, [s.cwd]) as call:
            result = await link.call(name, arguments)
            text = "\n".join(str(c.get("text", f"[{c.get('type')}]")) for c in result.get("content") or []) or "(no content)"
            call.done(text, result)
            if result.get("isError"):
                call.fail("The MCP tool reported an error.")
                call.shown = text
        return f"The MCP tool {name} {'failed' if call.status == 'failed' else 'answered'}: {call.shown}"

    # ---- talk ----------------------------------------------------------------------------------------------------

    async def do_ask(self, s: Session, wish: dict[str, Any]) -> str:
        if wish["about"] == "secret":
            return "I do not ask for secrets in a form. Please keep it to yourself."
        name = wish["about"] == "name"
        question = "What is your name?" if name else "Which colour do you like?"
        if not (self.caps.elicitation and self.caps.elicitation.form is not None):
            return question + " (Just answer in your next message.)"
        answer_field = t.ElicitationStringPropertySchema(type="string", title="Name", min_length=1) if name else (
            t.ElicitationStringPropertySchema(type="string", title="Colour", enum=COLOURS))
        form = t.ElicitationFormSessionMode(session_id=s.id, requested_schema=t.ElicitationSchema(
            properties={wish["about"]: answer_field}, required=[wish["about"]]))
        try:
            answer = await self.patiently(self.conn.create_elicitation(question, form))
        except (RequestError, ValueError):
            return "I could not ask you, so I leave the question open."
        if answer.action == "accept":
            value = (answer.content or {}).get(wish["about"])
            if isinstance(value, str) and value and (name or value in COLOURS):
                return f"Thank you. You answered: {value}."
            return "That answer does not fit the question, so I leave it open."
        return {"decline": "You declined to answer, which is fine.", "cancel": "You dismissed the question, which is fine."}.get(
            answer.action, "I do not understand that kind of answer, so I leave the question open.")

    async def do_mode(self, s: Session, wish: dict[str, Any]) -> str:
        words = wish["clause"]
        found = next((key for key, (name, _) in MODES.items() if re.search(rf"\b(?:{key}|{name})\b", words, re.I)), None)
        if found is None and re.search(r"\b(?:another|other|different|next|any|some)\b", words):
            found = list(MODES)[(list(MODES).index(s.mode) + 1) % len(MODES)]
        if found is None:
            return f"I know these modes: {', '.join(MODES)}."
        s.mode = found
        await self.update(s, update_current_mode(found))
        await self.tell_options(s)
        return f"I am now in the mode {found}."

    async def do_model(self, s: Session, wish: dict[str, Any]) -> str:
        found = next((key for key, name in MODELS.items() if key in wish["clause"] or name.lower() in wish["clause"]), None)
        if found is None:
            return f"I know these models: {', '.join(MODELS)}."
        s.model = found
        await self.tell_options(s)
        return f"I now use the model {found}."

    async def do_plan(self, s: Session, wish: dict[str, Any]) -> str:
        titles = ["Understand the wish", "Gather what is needed", "Do the work", "Check the result", "Tidy up", "Review it once more",
                  "Write it down", "Report back"][:wish["count"]]
        for done in range(len(titles) + 1):
            states = ["completed" if i < done else "in_progress" if i == done else "pending" for i in range(len(titles))]
            plan = update_plan([plan_entry(title, priority="high" if i == 0 else "medium", status=states[i])
                                for i, title in enumerate(titles)])
            await self.update(s, plan)
            s.history = [h for h in s.history if h["sessionUpdate"] != "plan"]
            s.history.append(plan.model_dump(mode="json", by_alias=True, exclude_none=True))
            await asyncio.sleep(0.2)
        return "I followed the plan: " + "; ".join(titles) + "."

    async def do_count(self, s: Session, wish: dict[str, Any]) -> None:
        pause = 0.25 if wish["slow"] else 0.1
        await self.stream(s, t.AgentMessageChunk, "agent_message_chunk", [f"{n}\n" for n in range(1, min(wish["to"], 2000) + 1)], pause)

    async def do_long(self, s: Session, _: dict[str, Any]) -> None:
        pieces = [f"This is sentence {n} of a long answer about the patience of a wading bird. " for n in range(1, 61)]
        await self.stream(s, t.AgentMessageChunk, "agent_message_chunk", pieces, 0.12)

    async def do_wait(self, s: Session, wish: dict[str, Any]) -> str:
        await self.think(s, [f"I wait for {wish['seconds']:g} seconds. "])
        await asyncio.sleep(wish["seconds"])
        return f"I waited for {wish['seconds']:g} seconds."

    async def do_say(self, s: Session, wish: dict[str, Any]) -> str:
        return wish["text"]

    async def do_remember(self, s: Session, wish: dict[str, Any]) -> str:
        return f"I will remember {wish['text']}."

    async def do_where(self, s: Session, _: dict[str, Any]) -> str:
        return f"The working directory is {s.cwd}."

    async def do_recall(self, s: Session, wish: dict[str, Any], fallback: str | None) -> str:
        earlier = s.user_texts()[:-1]
        kept = [w["text"] for text in earlier for w in parse(text) if w["do"] == "remember"]
        if kept and not re.search(r"\b(?:say|said|message|prompt|everything)\b", wish["clause"]):
            return kept[-1]
        return "You said earlier:\n" + "\n".join(f"- {e}" for e in earlier) if earlier else (
            fallback or "You have not told me anything before this.")


def describe(block: Any) -> str | None:
    if block.type == "resource_link":
        return f"I see a link to {block.name} ({block.uri})."
    if block.type == "resource":
        body = getattr(block.resource, "text", None)
        return f"I see the resource {block.resource.uri}" + (f", which says: {body[:500]}" if body is not None else ".")
    return f"I see an image of type {block.mime_type}." if block.type == "image" else None


def arguments_for(schema: dict[str, Any], wish: dict[str, Any], names: set[str]) -> dict[str, Any]:
    if wish["json"]:
        value = json.loads(wish["json"])
        return value["arguments"] if isinstance(value.get("arguments"), dict) and "arguments" not in schema.get("properties", {}) else value
    found: dict[str, Any] = {}
    quoted = [q for q in wish["quoted"] if q not in names]
    words = re.sub(r"^.*?\bwith\b", "", wish["clause"]) if re.search(r"\bwith\b", wish["clause"]) else wish["clause"]
    for name, kind in (schema.get("properties") or {}).items():
        m = re.search(rf"\b{re.escape(name)}\b\s*(?:=|:|is|of|as|set to|being)?\s*([^\s,]+)", words)
        value = quoted.pop(0) if quoted and (kind or {}).get("type", "string") == "string" else m[1].rstrip(".;") if m else None
        if value is None:
            continue
        with contextlib.suppress(ValueError):
            value = json.loads(value) if (kind or {}).get("type") in ("number", "integer", "boolean") else value
        found[name] = value
    if not schema.get("properties"):
        found = {k: v.rstrip(".;") for k, v in re.findall(r"\b(\w+)\s*=\s*([^\s,]+)", words)}
    return found


async def main() -> None:
    agent, transport = Egret(), await GuardedTransport.on_stdio()
    running = asyncio.ensure_future(run_agent(agent, transport, use_unstable_protocol=True))
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, running.cancel)
    with contextlib.suppress(asyncio.CancelledError, ConnectionError):
        await running
    await asyncio.gather(*(agent.hang_up(s) for s in agent.sessions.values()), return_exceptions=True)


if __name__ == "__main__":
    logging.basicConfig(stream=sys.stderr, level=logging.CRITICAL if not os.environ.get("EGRET_LOG") else logging.INFO)
    asyncio.run(main())
    sys.stderr.flush()
    os._exit(0)
