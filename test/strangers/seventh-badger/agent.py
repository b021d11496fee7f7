"""seventh-badger: a small rule-based agent on the official Python SDK."""
import asyncio
import base64
import contextlib
import json
import logging
import os
import re
import signal
import sqlite3
import sys
import tempfile
import time
import uuid
from datetime import datetime, timezone
from pathlib import Path
from urllib.parse import unquote, urlparse

from acp import schema as a
from acp.agent.connection import AgentSideConnection
from acp.exceptions import RequestError
from acp.helpers import plan_entry, text_block, tool_content, tool_diff_content, tool_terminal_ref, update_agent_message_text, update_agent_thought_text, update_plan
from acp.utils import serialize_params

from mcpwire import HttpServer, McpError, StdioServer
from wire import Guard, SturdyTransport
from wishes import arguments, paths, understand

FAULT = os.environ.get("FAULT", "")
LATEST = 1
MODELS = {"sett": ("Sett", "Careful and thorough", 200000), "dash": ("Dash", "Fast and cheap", 32000)}
COMMANDS = [a.AvailableCommand(name="help", description="What this agent can do"), a.AvailableCommand(name="look", description="Look at one file", input=a.UnstructuredCommandInput(hint="path of the file")), a.AvailableCommand(name="forget", description="Forget the noted words")]
logging.basicConfig(stream=sys.stderr, level=logging.WARNING)


class Stopped(Exception):
    """The turn was cancelled."""


def now():
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def clip(t, n=8000):
    return t if len(t) <= n else t[:n] + "\n… (cut)"


class Store:
    def __init__(self):
        home = os.environ.get("XDG_DATA_HOME") or os.path.join(os.path.expanduser("~"), ".local", "share")
        for d in (Path(home) / "seventh-badger", Path(tempfile.gettempdir()) / f"seventh-badger-{os.getuid()}", None):
            try:
                if d:
                    d.mkdir(parents=True, exist_ok=True)
                self.db = sqlite3.connect(d / "sessions.db" if d else ":memory:", timeout=5, isolation_level=None)
                self.db.execute("create table if not exists sessions (id text primary key, cwd text, title text, updated text, state text)")
                return
            except (OSError, sqlite3.Error):
                continue

    def save(self, s):
        state = json.dumps({"history": s.history, "words": s.words, "model": s.model, "brief": s.brief, "used": s.used})
        self.db.execute("insert or replace into sessions values (?,?,?,?,?)", (s.id, s.cwd, s.title, s.updated, state))

    def load(self, id):
        return self.db.execute("select cwd, title, updated, state from sessions where id=?", (id,)).fetchone()

    def page(self, cwd, start, size):
        where, args = ("where cwd=?", [cwd]) if cwd is not None else ("", [])
        return self.db.execute(f"select id, cwd, title, updated from sessions {where} order by updated desc, id limit ? offset ?", [*args, size, start]).fetchall()


class Session:
    def __init__(self, id, cwd):
        self.id, self.cwd, self.title, self.updated = id, cwd, None, now()
        self.history, self.words, self.model, self.brief, self.used = [], [], "sett", False, 1900
        self.turn, self.always, self.never, self.calls = None, set(), set(), 0
        self.servers, self.failed, self.connecting = [], [], None
        self.closed = False


class Turn:
    def __init__(self):
        self.stop, self.over, self.open = asyncio.Event(), asyncio.Event(), {}


class Badger:
    def __init__(self):
        self.ready, self.logged_in, self.caps, self.sessions, self.store, self.procs, self.later = False, False, None, {}, Store(), set(), set()

    def on_connect(self, conn):
        self.conn = conn

    # ------------------------------------------------------------ connection
    async def initialize(self, protocol_version, client_capabilities=None, client_info=None, **_):
        self.caps, self.ready = client_capabilities or a.ClientCapabilities(), True
        version = min(protocol_version, LATEST) if FAULT == "lower-bound" else LATEST
        return a.InitializeResponse(
            protocol_version=version,
            agent_info=a.Implementation(name="seventh-badger", title="Seventh Badger", version="7.1.0"),
            agent_capabilities=a.AgentCapabilities(
                load_session=True,
                prompt_capabilities=a.PromptCapabilities(image=False, audio=False, embedded_context=True),
                mcp_capabilities=a.McpCapabilities(http=True, sse=False),
                session_capabilities=a.SessionCapabilities(list=a.SessionListCapabilities(), resume=a.SessionResumeCapabilities(), close=a.SessionCloseCapabilities()),
                auth=a.AgentAuthCapabilities(logout=a.LogoutCapabilities()),
            ),
            auth_methods=[a.AuthMethodAgent(id="burrow-pass", name="Burrow pass", description="A pass that this agent issues to itself")],
        )

    async def authenticate(self, method_id, **_):
        if method_id != "burrow-pass":
            raise RequestError(-32602, "There is no such authentication method.")
        await asyncio.sleep(0.05)
        self.logged_in = True
        return a.AuthenticateResponse()

    def can(self, what):
        c = self.caps
        if what in ("read", "write"):
            return bool(c.fs and (c.fs.read_text_file if what == "read" else c.fs.write_text_file))
        if what in ("form", "url"):
            return bool(c.elicitation and getattr(c.elicitation, what) is not None)
        if what == "boolean":
            return bool(c.session and c.session.config_options and c.session.config_options.boolean is not None)
        return bool(c.terminal)

    # ------------------------------------------------------------ sessions
    def get(self, id):
        s = self.sessions.get(id)
        if not s:
            raise RequestError(-32002, "There is no such session.", {"sessionId": id})
        return s

    def options(self, s):
        out = [a.SessionConfigOptionSelect(id="model", name="Model", category="model", type="select", current_value=s.model, options=[a.SessionConfigSelectOption(value=k, name=n, description=d) for k, (n, d, _) in MODELS.items()])]
        if self.can("boolean"):
            out.insert(0, a.SessionConfigOptionBoolean(id="brief", name="Brief answers", category="model_config", type="boolean", current_value=s.brief))
        return out

    def connect(self, s, servers):
        async def one(cfg):
            server = HttpServer(cfg) if cfg.get("type") == "http" else StdioServer(cfg, s.cwd)
            s.servers.append(server)
            try:
                await server.open()
            except (McpError, OSError) as e:
                s.failed.append((server.name, str(e)))

        cfgs = [m.model_dump(mode="json", by_alias=True) for m in servers or []]

        async def every():
            await asyncio.gather(*(one(c) for c in cfgs))

        s.connecting = asyncio.create_task(every())

    def soon(self, seconds, coro):
        async def go():
            await asyncio.sleep(seconds)
            with contextlib.suppress(ConnectionError):
                await coro()

        t = asyncio.create_task(go())
        self.later.add(t)
        t.add_done_callback(self.later.discard)

    def announce(self, s):
        async def go():
            if not s.closed:
                await self.conn.session_update(s.id, a.AvailableCommandsUpdate(session_update="available_commands_update", available_commands=COMMANDS))

        self.soon(0.8, go)

    async def new_session(self, cwd, mcp_servers=None, **_):
        s = Session("badger_" + uuid.uuid4().hex[:20].upper(), os.path.normpath(cwd))
        self.sessions[s.id] = s
        self.store.save(s)
        self.connect(s, mcp_servers)
        self.announce(s)
        return a.NewSessionResponse(session_id=s.id, config_options=self.options(s))

    async def revive(self, session_id, cwd, mcp_servers):
        if session_id in self.sessions:
            await self.end(self.sessions[session_id])
        row = self.store.load(session_id)
        if not row:
            raise RequestError(-32002, "There is no such session.", {"sessionId": session_id})
        s, state = Session(session_id, os.path.normpath(cwd)), json.loads(row[3])
        s.title, s.updated = row[1], row[2]
        s.history, s.words, s.model, s.brief, s.used = (state[k] for k in ("history", "words", "model", "brief", "used"))
        self.sessions[s.id] = s
        self.connect(s, mcp_servers)
        return s

    async def load_session(self, cwd, session_id, mcp_servers=None, **_):
        s = await self.revive(session_id, cwd, mcp_servers)
        for u in list(s.history):
            await self.conn._conn.send_notification("session/update", {"sessionId": s.id, "update": u})
        self.announce(s)
        return a.LoadSessionResponse(config_options=self.options(s))

    async def resume_session(self, session_id, cwd, mcp_servers=None, **_):
        s = await self.revive(session_id, cwd, mcp_servers)
        self.announce(s)
        return a.ResumeSessionResponse(config_options=self.options(s))

    async def list_sessions(self, cwd=None, cursor=None, **_):
        start, size = 0, 25
        if cursor is not None:
            try:
                word, n = base64.b64decode(cursor, validate=True).decode().split("@")
                start = int(n)
                if word != "sett" or start < 0:
                    raise ValueError
            except ValueError:
                raise RequestError(-32602, "The cursor is not valid.") from None
        rows = self.store.page(os.path.normpath(cwd) if cwd is not None else None, start, size + 1)
        more = base64.b64encode(f"sett@{start + size}".encode()).decode() if len(rows) > size else None
        return a.ListSessionsResponse(sessions=[a.SessionInfo(session_id=i, cwd=c, updated_at=u, **({"title": t} if t else {})) for i, c, t, u in rows[:size]], **({"next_cursor": more} if more else {}))

    async def end(self, s, pooled=False):
        if s.turn:
            s.turn.stop.set()
            await s.turn.over.wait()
        s.closed = True
        self.sessions.pop(s.id, None)
        if not pooled:
            await self.hang_up(s)

    async def hang_up(self, s):
        if s.connecting and not s.connecting.done():
            s.connecting.cancel()
        await asyncio.gather(*(x.close() for x in s.servers), return_exceptions=True)

    async def close_session(self, session_id, **_):
        await self.end(self.get(session_id), pooled=FAULT == "warm-pool")
        return a.CloseSessionResponse()

    async def cancel(self, session_id, **_):
        s = self.sessions.get(session_id)
        if s and s.turn:
            s.turn.stop.set()

    async def set_config_option(self, config_id, session_id, value, **_):
        s = self.get(session_id)
        if config_id == "model" and isinstance(value, str) and value in MODELS:
            s.model = value
        elif config_id == "brief" and self.can("boolean") and isinstance(value, bool):
            s.brief = value
        else:
            raise RequestError(-32602, "There is no such option or value.")
        self.store.save(s)
        return a.SetSessionConfigOptionResponse(config_options=self.options(s))

    async def shutdown(self):
        for s in list(self.sessions.values()):
            if s.turn:
                s.turn.stop.set()
        for p in list(self.procs):
            self.kill(p, signal.SIGKILL)
        for t in list(self.later):
            t.cancel()
        await asyncio.wait_for(asyncio.gather(*(self.hang_up(s) for s in self.sessions.values()), return_exceptions=True), 2)

    # ------------------------------------------------------------ a turn
    async def prompt(self, session_id, prompt, **_):
        s = self.get(session_id)
        if any(b.type in ("image", "audio") for b in prompt):
            raise RequestError(-32602, "Images and audio are not supported in prompts.")
        if s.turn:
            raise RequestError(-32600, "This session is still busy with another prompt.")
        t = s.turn = Turn()
        stop = "end_turn"
        try:
            await self.work(s, t, prompt)
            if t.stop.is_set():
                stop = "cancelled"
        except Stopped:
            stop = "cancelled"
        finally:
            with contextlib.suppress(ConnectionError):
                for id in list(t.open):
                    await self.up(s, a.ToolCallProgress(session_update="tool_call_update", tool_call_id=id, status="failed"))
            s.updated, s.turn = now(), None
            if not s.closed:
                self.store.save(s)
            t.over.set()
        return a.PromptResponse(stop_reason=stop)

    async def up(self, s, u):
        d = serialize_params(u)
        kind = d["sessionUpdate"]
        if kind in ("agent_message_chunk", "agent_thought_chunk", "plan", "tool_call", "tool_call_update"):
            if d.get("content") and isinstance(d["content"], list):
                d = {**d, "content": [c for c in d["content"] if c["type"] != "terminal"]}
            if kind == "tool_call" or "status" in d or kind.startswith(("agent", "plan")):
                s.history.append(d)
        if s.turn and kind == "tool_call_update" and d.get("status") in ("completed", "failed"):
            s.turn.open.pop(d["toolCallId"], None)
        await self.conn.session_update(s.id, u)

    def check(self, t):
        if t.stop.is_set():
            raise Stopped

    async def nap(self, t, seconds):
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(t.stop.wait(), seconds)
        self.check(t)

    async def race(self, t, coro, grace=0.0):
        """Result of coro, or Stopped when the turn is cancelled first (after some grace)."""
        self.check(t)
        job, stop = asyncio.ensure_future(coro), asyncio.ensure_future(t.stop.wait())
        try:
            await asyncio.wait({job, stop}, return_when=asyncio.FIRST_COMPLETED)
            if not job.done() and grace:
                await asyncio.wait({job}, timeout=grace)
            if not job.done():
                raise Stopped
            return job.result()
        finally:
            stop.cancel()
            if not job.done():
                job.cancel()
                with contextlib.suppress(BaseException):
                    await job

    async def say(self, s, t, text, pace=0.03):
        s.used += len(text) // 4
        for piece in re.findall(r".+?(?:[.!?:]\s+|\n+|$)", text, re.S) or [text]:
            self.check(t)
            await self.up(s, update_agent_message_text(piece))
            await self.nap(t, pace)

    async def start(self, s, t, name, title, kind, raw, content=None, path=None, line=None, id=None):
        id = id or self.call_id(s, name)
        t.open[id] = True
        await self.up(s, a.ToolCallStart(session_update="tool_call", tool_call_id=id, title=title, kind=kind, status="in_progress", raw_input=raw, content=content or [], locations=[a.ToolCallLocation(path=path, **({"line": line} if line else {}))] if path else []))
        return id

    def call_id(self, s, name):
        s.calls += 1
        return f"{name}-{int(time.time() * 1000)}-{s.calls}"

    async def done(self, s, id, ok, text=None, content=None, raw=None):
        await self.up(s, a.ToolCallProgress(session_update="tool_call_update", tool_call_id=id, status="completed" if ok else "failed", content=content if content is not None else [tool_content(text_block(text or ("Done." if ok else "Failed.")))], **({"raw_output": raw} if raw is not None else {})))

    async def allowed(self, s, t, id, title, kind, key, raw, content=None, path=None):
        if key in s.always:
            return True
        if key in s.never:
            return False
        opts = [a.PermissionOption(option_id=o, name=n, kind=k) for o, n, k in (("proceed_always", "Always allow this", "allow_always"), ("proceed_once", "Allow", "allow_once"), ("deny_once", "Deny", "reject_once"), ("deny_always", "Never allow this", "reject_always"))]
        call = a.ToolCallUpdate(tool_call_id=id, title=title, kind=kind, status="pending", raw_input=raw, **({"content": content} if content else {}), **({"locations": [a.ToolCallLocation(path=path)]} if path else {}))
        try:
            r = await self.race(t, self.conn.request_permission(s.id, call, opts), grace=3)
        except (Stopped, ConnectionError):
            raise Stopped from None
        except Exception:
            return False
        self.check(t)
        if r.outcome.outcome == "cancelled":
            t.stop.set()
            raise Stopped
        pick = r.outcome.option_id
        if pick == "proceed_always":
            s.always.add(key)
        if pick == "deny_always":
            s.never.add(key)
        return pick in ("proceed_always", "proceed_once")

    async def work(self, s, t, blocks):
        text = "\n".join(b.text for b in blocks if b.type == "text").strip()
        for b in blocks:
            s.history.append({"sessionUpdate": "user_message_chunk", "content": b.model_dump(mode="json", by_alias=True, exclude_none=True)})
        s.used += 60 + len(text) // 4
        s.updated = now()
        if not s.title:
            s.title = " ".join(text.split())[:48] or "A talk"
            await self.up(s, a.SessionInfoUpdate(session_update="session_info_update", title=s.title, updated_at=s.updated))
        self.store.save(s)
        await self.up(s, a.UsageUpdate(session_update="usage_update", used=min(s.used, MODELS[s.model][2]), size=MODELS[s.model][2]))
        tools = []
        if s.servers or not s.connecting.done():
            if re.search(r"\b(?:tools?|mcp|server|call|use|invoke)\b", text, re.I):
                await self.race(t, asyncio.shield(s.connecting))
            tools = [x for server in s.servers for x in server.tools]
        acts = understand(text, tools, [c.name for c in COMMANDS])
        await self.nap(t, 0.05)
        for act in acts:
            self.check(t)
            await getattr(self, "do_" + act["do"])(s, t, act)
        extra = [b for b in blocks if b.type != "text"]
        if extra and not acts:
            for b in extra:
                if b.type == "resource":
                    r = b.resource
                    await self.say(s, t, f"You attached {r.uri}" + (f", it says: {clip(r.text, 500)}\n" if hasattr(r, "text") else ", which is binary.\n"))
                else:
                    await self.say(s, t, f"You pointed me to {b.name} ({b.uri}).\n")
                    u = urlparse(str(b.uri))
                    if u.scheme == "file" and re.search(r"\b(?:read|summari[sz]e|what|tell|show|explain|describe)\b", text, re.I):
                        await self.do_read(s, t, {"paths": [unquote(u.path)], "line": None, "limit": None})
        elif not acts:
            await self.say(s, t, "Hello! I am the badger: files, commands, plans, tools, stories. Tell me what to dig for.")

    # ------------------------------------------------------------ wishes
    async def do_say(self, s, t, w):
        await self.up(s, update_agent_message_text(w["text"]))

    async def do_remember(self, s, t, w):
        s.words.append(w["word"])
        await self.say(s, t, f"I keep {w['word']} in mind.")

    async def do_recall(self, s, t, w):
        await self.say(s, t, f"It was {' and '.join(s.words)}." if s.words else "You have not told me anything to remember here.")

    async def do_think(self, s, t, w):
        for line in ("Let me think this over.\n", "One side says to hurry. ", "The other side says to dig deeper, and that is usually the better one."):
            await self.up(s, update_agent_thought_text(line))
            await self.nap(t, 0.1)
        await self.say(s, t, "I would dig a little deeper before deciding.")

    async def do_story(self, s, t, w):
        if w["count"]:
            for i in range(1, w["count"] + 1, 5):
                await self.up(s, update_agent_message_text(" ".join(str(k) for k in range(i, min(i + 5, w["count"] + 1))) + "\n"))
                await self.nap(t, 0.35)
            return
        lines = ["Under the hill there lived a badger who dug only by moonlight. ", "The tunnels went past roots, past old coins, past a forgotten bell. ", "When the bell was touched, the whole hill hummed. ", "“Who is there?” asked a mole from the dark. ", "They dug on together, and the nights grew long.\n\n"]
        for i in range(4 if w["short"] else 90 if re.search(r"very|2000|thousand|1000|extremely", w["text"], re.I) else 45):
            await self.up(s, update_agent_message_text(lines[i % len(lines)]))
            await self.nap(t, 0.15)
        await self.up(s, update_agent_message_text("And there the tunnel ended."))

    async def do_plan(self, s, t, w):
        steps = w["steps"] or ["Sniff around", "Mark the spot", "Dig", "Check the find", "Fill the hole", "Tell the others", "Rest", "Begin again"][: w["count"]]
        for at in range(-1, len(steps) + 1):
            await self.up(s, update_plan([plan_entry(c, priority="high" if i < 1 else "medium" if i < 3 else "low", status="pending" if i > at else "in_progress" if i == at else "completed") for i, c in enumerate(steps)]))
            await self.nap(t, 0.08)
        await self.say(s, t, "The plan is made: " + ", ".join(steps) + ".")

    def place(self, s, p):
        p = os.path.normpath(os.path.join(s.cwd, os.path.expanduser(p)))
        root, real = os.path.realpath(s.cwd), os.path.realpath(p)
        return p, real == root or real.startswith(root.rstrip("/") + "/")

    async def get_file(self, s, t, p, line=None, limit=None):
        if self.can("read"):
            return (await self.race(t, self.conn.read_text_file(s.id, p, line=line, limit=limit))).content
        with open(p, encoding="utf-8") as f:
            text = f.read()
        if line or limit:
            rows = text.split("\n")[(line or 1) - 1:]
            text = "\n".join(rows[:limit] if limit else rows)
        return text

    async def do_read(self, s, t, w):
        for p0 in w["paths"]:
            p, inside = self.place(s, p0)
            id = await self.start(s, t, "read_file", f"Reading {os.path.basename(p)}", "read", {"absolute_path": p}, path=p, line=w["line"])
            if not inside:
                await self.done(s, id, False, "The path is outside of the workspace.")
                await self.say(s, t, f"I stay inside {s.cwd}, so I did not read {p}.")
                continue
            try:
                text = await self.get_file(s, t, p, w["line"], w["limit"])
            except (RequestError, OSError, ValueError) as e:
                await self.done(s, id, False, f"Could not read it: {e}")
                await self.say(s, t, f"I could not read {p}.")
                continue
            await self.done(s, id, True, clip(text))
            await self.say(s, t, f"This is in {os.path.basename(p)}:\n{clip(text, 4000)}")

    async def change(self, s, t, p0, make, verb):
        p, inside = self.place(s, p0)
        id = self.call_id(s, verb)
        title = f"Writing {os.path.basename(p)}"
        if not inside:
            await self.start(s, t, verb, title, "edit", {"file_path": p}, path=p, id=id)
            await self.done(s, id, False, "The path is outside of the workspace.")
            return await self.say(s, t, f"I only write inside {s.cwd}, so I left {p} alone.")
        old = None
        try:
            old = await self.get_file(s, t, p)
        except FileNotFoundError:
            pass
        except (RequestError, OSError, ValueError):
            if os.path.exists(p):
                with contextlib.suppress(OSError, ValueError):
                    old = Path(p).read_text("utf-8")
        new = make(old)
        if new is None:
            await self.start(s, t, verb, title, "edit", {"file_path": p}, path=p, id=id)
            await self.done(s, id, False, "The text to change is not there.")
            return await self.say(s, t, "I did not find the text to change.")
        diff = [tool_diff_content(p, new, old)]
        await self.up(s, a.ToolCallStart(session_update="tool_call", tool_call_id=id, title=title, kind="edit", status="pending", raw_input={"file_path": p}, content=diff, locations=[a.ToolCallLocation(path=p)]))
        t.open[id] = True
        if not await self.allowed(s, t, id, title, "edit", "edit", {"file_path": p}, diff, p):
            await self.done(s, id, False, "The user declined.")
            return await self.say(s, t, "Fine, nothing was written.")
        await self.up(s, a.ToolCallProgress(session_update="tool_call_update", tool_call_id=id, status="in_progress"))
        try:
            self.check(t)
            if self.can("write"):
                await self.race(t, self.conn.write_text_file(s.id, p, new))
            else:
                os.makedirs(os.path.dirname(p), exist_ok=True)
                Path(p).write_text(new, "utf-8")
        except (RequestError, OSError) as e:
            await self.done(s, id, False, f"Could not write it: {e}")
            return await self.say(s, t, f"I could not write {p}.")
        await self.done(s, id, True, content=diff)
        await self.say(s, t, f"I wrote {os.path.basename(p)}.")

    async def do_write(self, s, t, w):
        await self.change(s, t, w["path"], lambda old: w["text"], "write_file")

    async def do_append(self, s, t, w):
        await self.change(s, t, w["path"], lambda old: ((old if old.endswith("\n") else old + "\n") if old else "") + w["text"] + "\n", "replace")

    async def do_edit(self, s, t, w):
        await self.change(s, t, w["path"], lambda old: old.replace(w["from"], w["to"]) if old and w["from"] in old else None, "replace")

    async def do_run(self, s, t, w):
        cmd, id = w["command"], self.call_id(s, "run_shell_command")
        ok = await self.allowed(s, t, id, cmd, "execute", "run " + cmd.split()[0], {"command": cmd})
        if not ok:
            await self.up(s, a.ToolCallStart(session_update="tool_call", tool_call_id=id, title=cmd, kind="execute", status="failed", raw_input={"command": cmd}, content=[tool_content(text_block("The user declined."))]))
            return await self.say(s, t, "Then I do not run it.")
        out, code, sig = await (self.client_run if self.can("terminal") else self.own_run)(s, t, id, cmd)
        if code is None and sig is None:
            return await self.say(s, t, "The command could not be started.")
        good = code == 0
        await self.done(s, id, good, clip(out) or "(no output)", raw={"exitCode": code, "signal": sig})
        await self.say(s, t, (f"It printed:\n{clip(out.rstrip(), 4000)}" if out.strip() else "It ran quietly.") if good else f"It failed with {'signal ' + str(sig) if sig else 'exit code ' + str(code)}.\n{clip(out.rstrip(), 2000)}")

    async def client_run(self, s, t, id, cmd):
        self.check(t)
        job = asyncio.ensure_future(self.conn.create_terminal(s.id, "/bin/sh", args=["-c", cmd], cwd=s.cwd, output_byte_limit=200000))

        def too_late(j):
            if not j.cancelled() and not j.exception():
                self.soon(0, lambda: self.conn.release_terminal(s.id, j.result().terminal_id))

        try:
            term = (await self.race(t, asyncio.shield(job), grace=3)).terminal_id
        except Stopped:
            job.add_done_callback(too_late)
            raise
        except RequestError as e:
            await self.start(s, t, "run_shell_command", cmd, "execute", {"command": cmd}, id=id)
            await self.done(s, id, False, f"The terminal could not be opened: {e}")
            return "", None, None
        free = True
        try:
            await self.start(s, t, "run_shell_command", cmd, "execute", {"command": cmd}, content=[tool_terminal_ref(term)], id=id)
            try:
                r = await self.race(t, self.conn.wait_for_terminal_exit(s.id, term))
            except Stopped:
                if FAULT == "kill-only":
                    free = False
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(self.conn.kill_terminal(s.id, term), 2)
                await self.done(s, id, False, "Stopped by the user.")
                raise
            o = await self.conn.terminal_output(s.id, term)
            return o.output, r.exit_code, r.signal
        except RequestError as e:
            await self.done(s, id, False, f"The terminal failed: {e}")
            return "", None, None
        finally:
            if free:
                with contextlib.suppress(RequestError, ConnectionError, asyncio.TimeoutError):
                    await asyncio.wait_for(self.conn.release_terminal(s.id, term), 2)

    def kill(self, p, sig):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(p.pid, sig)

    async def own_run(self, s, t, id, cmd):
        await self.start(s, t, "run_shell_command", cmd, "execute", {"command": cmd}, id=id)
        try:
            p = await asyncio.create_subprocess_exec("/bin/sh", "-c", cmd, cwd=s.cwd, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, start_new_session=True)
        except OSError as e:
            await self.done(s, id, False, f"Could not start it: {e}")
            return "", None, None
        self.procs.add(p)
        try:
            out, _ = await self.race(t, p.communicate())
        except Stopped:
            self.kill(p, signal.SIGKILL)
            await p.wait()
            await self.done(s, id, False, "Stopped by the user.")
            raise
        finally:
            self.procs.discard(p)
        text = out.decode("utf-8", "replace")
        return (text, p.returncode, None) if p.returncode >= 0 else (text, None, signal.Signals(-p.returncode).name)

    async def do_switch(self, s, t, w):
        pick = next((k for k, (n, d, _) in MODELS.items() if re.search(rf"\b{k}\b", w["text"], re.I)), None) or ("dash" if re.search(r"\b(?:fast|cheap|quick|small)", w["text"], re.I) else None)
        if re.search(r"\bmodel\b", w["text"], re.I):
            s.model = pick or next(k for k in MODELS if k != s.model)
            await self.up(s, a.ConfigOptionUpdate(session_update="config_option_update", config_options=self.options(s)))
            return await self.say(s, t, f"I think with {MODELS[s.model][0]} now.")
        await self.say(s, t, "I have no modes, a badger always digs the same way. I can change the model, though.")

    async def do_delete(self, s, t, w):
        await self.do_run(s, t, {"command": "rm -- '" + w["path"].replace("'", "'\\''") + "'"})

    async def do_tools(self, s, t, w):
        await self.race(t, asyncio.shield(s.connecting))
        names = [x["name"] for server in s.servers for x in server.tools]
        bad = "".join(f" {n or 'A server'} is not available: {why}." for n, why in s.failed)
        await self.say(s, t, ("My connected tools: " + ", ".join(names) + "." if names else "There are no connected tools.") + bad)

    async def do_mcp(self, s, t, w):
        tool, args = w["tool"], arguments(w["text"], w["tool"])
        title = f"{tool['name']} ({tool['server'].name})"
        id = self.call_id(s, tool["name"])
        await self.up(s, a.ToolCallStart(session_update="tool_call", tool_call_id=id, title=title, kind="other", status="pending", raw_input=args))
        t.open[id] = True
        if not await self.allowed(s, t, id, title, "other", "tool " + tool["name"], args):
            await self.done(s, id, False, "The user declined.")
            return await self.say(s, t, "Then I do not use the tool.")
        await self.up(s, a.ToolCallProgress(session_update="tool_call_update", tool_call_id=id, status="in_progress"))
        try:
            r = await self.race(t, tool["server"].call(tool["name"], args)) or {}
        except McpError as e:
            await self.done(s, id, False, str(e))
            return await self.say(s, t, f"The tool failed: {e}.")
        texts = [c["text"] for c in r.get("content") or [] if c.get("type") == "text"]
        await self.done(s, id, not r.get("isError"), content=[tool_content(text_block(x)) for x in texts] or None, raw=r)
        await self.say(s, t, ("The tool complained: " if r.get("isError") else "The tool says: ") + (clip("\n".join(texts), 4000) or "nothing readable"))

    async def do_ask(self, s, t, w):
        low = w["text"].lower()
        if re.search(r"\b(?:password|passphrase|token|api[ -]?key|credit card|pin|sign (?:me )?in|log ?in)\b", low):
            if not self.can("url"):
                return await self.say(s, t, "That is a secret and does not belong in a form. Please set it up outside of this talk.")
            eid = str(uuid.uuid4())
            try:
                r = await self.race(t, self.conn.create_elicitation("Please go on in your browser.", a.ElicitationUrlSessionMode(session_id=s.id, elicitation_id=eid, url=f"https://connect.seventh-badger.example/start/{eid}")), grace=1)
                return await self.say(s, t, "Go on in the browser and tell me when you are through." if r.action == "accept" else "Then we leave it.")
            except (RequestError, ValueError):
                return await self.say(s, t, "The page could not be offered, so we leave it.")
        m = re.search(r"(?:between|among|options?|choices?|:)\s*:?\s*((?:[\"'`]?[\w -]+[\"'`]?\s*,\s*)*[\"'`]?[\w -]+[\"'`]?\s*,?\s+(?:or|and)\s+[\"'`]?[\w-]+[\"'`]?)", w["text"], re.I)
        listed = [x.strip(" \"'`") for x in re.split(r"\s*,\s*(?:or\s+|and\s+)?|\s+(?:or|and)\s+", m.group(1)) if x.strip()] if m else []
        if len(listed) > 1:
            key, prop = "choice", a.ElicitationStringPropertySchema(type="string", title="Your choice", enum=list(dict.fromkeys(listed)))
        elif re.search(r"\bcolou?r\b", low):
            key, prop = "color", a.ElicitationStringPropertySchema(type="string", title="Which color", enum=["red", "green", "blue", "yellow"])
        elif re.search(r"\b(?:age|number|how many|old)\b", low):
            key, prop = "number", a.ElicitationIntegerPropertySchema(type="integer", title="Which number", minimum=0, maximum=1000)
        elif re.search(r"\b(?:yes|confirm|whether|sure)\b", low):
            key, prop = "sure", a.ElicitationBooleanPropertySchema(type="boolean", title="Are you sure")
        else:
            key, prop = ("name", a.ElicitationStringPropertySchema(type="string", title="Your name", min_length=1, max_length=80)) if "name" in low else ("reply", a.ElicitationStringPropertySchema(type="string", title="Your answer", min_length=1))
        if not self.can("form"):
            return await self.say(s, t, f"I have no form to show, so plainly: {prop.title.lower()}?")
        try:
            r = await self.race(t, self.conn.create_elicitation(f"{prop.title}?", a.ElicitationFormSessionMode(session_id=s.id, requested_schema=a.ElicitationSchema(type="object", properties={key: prop}, required=[key]))), grace=1)
        except (RequestError, ValueError):
            return await self.say(s, t, "I got no usable answer and go on without it.")
        self.check(t)
        if r.action != "accept":
            return await self.say(s, t, {"decline": "You would rather not say, that is fine.", "cancel": "The question was closed, so I assume nothing."}.get(r.action, "I do not understand that answer, so I assume nothing."))
        v = (getattr(r, "content", None) or {}).get(key)
        if isinstance(prop, a.ElicitationBooleanPropertySchema):
            fits = isinstance(v, bool)
        elif isinstance(prop, a.ElicitationIntegerPropertySchema):
            fits = isinstance(v, int) and not isinstance(v, bool) and 0 <= v <= 1000
        else:
            fits = isinstance(v, str) and (not prop.enum or v in prop.enum) and len(v) >= (prop.min_length or 0) and len(v) <= (prop.max_length or 10**6)
        await self.say(s, t, f"You said {v}, thank you." if fits else "That answer does not fit the question, so I do not use it.")

    async def do_slash(self, s, t, w):
        if w["name"] == "forget":
            s.words.clear()
            return await self.say(s, t, "All noted words are forgotten.")
        ps = paths(w["arg"] or "")
        if w["name"] == "look" and (ps or w["arg"].strip()):
            return await self.do_read(s, t, {"paths": [ps[0][0] if ps else w["arg"].strip()], "line": None, "limit": None})
        await self.say(s, t, "I read and write files, run commands, make plans, use connected tools and tell stories.")


async def main():
    agent = Badger()
    conn = AgentSideConnection(agent, await SturdyTransport.stdio(), listening=False, use_unstable_protocol=True)
    conn._conn._handler = Guard(conn._conn._handler, agent)
    loop = asyncio.get_running_loop()
    job = asyncio.ensure_future(conn.listen())
    for sig in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(sig, job.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await job
    with contextlib.suppress(Exception):
        await agent.shutdown()
    with contextlib.suppress(Exception):
        await asyncio.wait_for(conn.close(), 1)
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    asyncio.run(main())
