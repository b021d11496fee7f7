"""otter: an ACP agent on the official Python SDK. Needs a login, owns no shell."""
import asyncio
import datetime
import itertools
import json
import logging
import os
import signal
import sys
import uuid

import acp
from acp import RequestError, helpers as h
from acp import schema as sc

import wishes

FAULT = os.environ.get("FAULT", "")
TOKEN = os.path.join(os.path.expanduser("~"), ".otter", "token")
MODELS = {"Small": ["pebble", "shell"], "Large": ["river", "sea"]}
VERBOSITY = ["short", "chatty"]
log = logging.getLogger("otter")


def cap(obj, *names):
    """Walk through capabilities, which the SDK hands over as models or as plain dicts."""
    for name in names:
        if obj is None:
            return None
        if isinstance(obj, dict):
            parts = name.split("_")
            obj = obj.get(name, obj.get(parts[0] + "".join(p.title() for p in parts[1:])))
        else:
            obj = getattr(obj, name, None)
    return obj


def now():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


class ToolFailed(Exception):
    pass


class McpServer:
    """Stdio MCP client, connected in the background."""

    def __init__(self, spec, cwd):
        self.spec, self.cwd = spec, cwd
        self.proc, self.tools, self.waiting, self.ids = None, [], {}, itertools.count(1)
        self.ready = asyncio.create_task(self.connect())

    async def connect(self):
        try:
            env = {k: v for k, v in os.environ.items() if k != "FAULT"}
            env.update({e.name: e.value for e in self.spec.env or []})
            self.proc = await asyncio.create_subprocess_exec(
                self.spec.command, *(self.spec.args or []), env=env, stdin=asyncio.subprocess.PIPE, limit=1 << 24,
                stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL, start_new_session=True,
                cwd=self.cwd if os.path.isdir(self.cwd) else None)
            self.reader = asyncio.create_task(self.read())
            await asyncio.wait_for(self.call("initialize", {
                "protocolVersion": "2025-03-26", "capabilities": {},
                "clientInfo": {"name": "otter", "version": "2.0.0"}}), 10)
            self.write({"jsonrpc": "2.0", "method": "notifications/initialized"})
            r = await asyncio.wait_for(self.call("tools/list", {}), 10)
            self.tools = [t["name"] for t in r.get("tools", [])]
        except (OSError, asyncio.TimeoutError, ToolFailed) as e:
            log.warning("MCP server %s: %r", self.spec.name, e)

    def write(self, m):
        self.proc.stdin.write(json.dumps(m).encode() + b"\n")

    async def read(self):
        while line := await self.proc.stdout.readline():
            try:
                m = json.loads(line)
            except ValueError:
                continue
            if not isinstance(m, dict):
                continue
            if "method" in m:
                if "id" in m:
                    self.write({"jsonrpc": "2.0", "id": m["id"], "result": {}} if m["method"] == "ping" else
                               {"jsonrpc": "2.0", "id": m["id"], "error": {"code": -32601, "message": "no"}})
                continue
            f = self.waiting.pop(m.get("id"), None)
            if f and not f.done():
                if "error" in m:
                    f.set_exception(ToolFailed(str(m["error"].get("message", "MCP error"))))
                else:
                    f.set_result(m.get("result") or {})
        for f in self.waiting.values():
            if not f.done():
                f.set_exception(ToolFailed("MCP server ended"))

    async def call(self, method, params):
        i = next(self.ids)
        f = self.waiting[i] = asyncio.get_running_loop().create_future()
        self.write({"jsonrpc": "2.0", "id": i, "method": method, "params": params})
        return await f

    def stop(self):
        self.ready.cancel()
        if self.proc and self.proc.returncode is None:
            try:
                os.killpg(self.proc.pid, signal.SIGTERM)
                asyncio.get_running_loop().call_later(1, self.kill)
            except OSError:
                pass

    def kill(self):
        try:
            os.killpg(self.proc.pid, signal.SIGKILL)
        except OSError:
            pass


class Session:
    def __init__(self, cwd):
        self.id = "otter:" + str(uuid.uuid4())
        self.cwd, self.updated, self.title = cwd, now(), None
        self.words, self.mcp, self.turns = [], [], {}
        self.lock = asyncio.Lock()
        self.config = {"model": "river", "verbosity": "short"}


class Otter:
    def __init__(self):
        self.sessions = {}
        self.ready = False
        self.authed = os.path.exists(TOKEN)
        self.read_cap = self.write_cap = self.term_cap = False
        self.order = itertools.count()

    def on_connect(self, conn):
        self.conn = conn

    # ------------------------------------------------------------ lifecycle
    async def initialize(self, protocol_version, client_capabilities=None, client_info=None, **_):
        c = client_capabilities
        self.read_cap = cap(c, "fs", "read_text_file") is True
        self.write_cap = cap(c, "fs", "write_text_file") is True
        if FAULT == "fs-any-means-read":
            self.read_cap = self.read_cap or self.write_cap
        self.term_cap = cap(c, "terminal") is True
        self.ready = True
        auth = [sc.AuthMethodAgent(id="otter-key", name="Otter key", description="Unlocks otter with the built-in key")]
        if cap(c, "auth", "terminal") is True:
            auth.append(sc.TerminalAuthMethod(type="terminal", id="otter-terminal", name="Log in from a terminal", args=["--login"]))
        return acp.InitializeResponse(
            protocol_version=1,
            agent_info=sc.Implementation(name="otter", title="Otter", version="2.0.0"),
            agent_capabilities=sc.AgentCapabilities(
                load_session=False,
                prompt_capabilities=sc.PromptCapabilities(image=False, audio=False, embedded_context=False),
                mcp_capabilities=sc.McpCapabilities(http=False, sse=False),
                session_capabilities=sc.SessionCapabilities(
                    list=sc.SessionListCapabilities(), close=sc.SessionCloseCapabilities())),
            auth_methods=auth)

    def gate(self, login=True):
        if not self.ready:
            raise RequestError(-32600, "Send initialize first")
        if login and not self.authed:
            raise RequestError(-32000, "Authentication required")

    async def authenticate(self, method_id, **_):
        self.gate(False)
        if method_id != "otter-key":
            raise RequestError(-32602, "Unknown authentication method")
        self.authed = True
        return acp.AuthenticateResponse()

    def session(self, sid):
        s = self.sessions.get(sid)
        if s is None:
            raise RequestError(-32002, "Session not found", {"sessionId": sid})
        return s

    async def new_session(self, cwd, mcp_servers=None, additional_directories=None, **_):
        self.gate()
        if not os.path.isabs(cwd):
            raise RequestError(-32602, "cwd must be an absolute path")
        for m in mcp_servers or []:
            if not isinstance(m, sc.McpServerStdio):
                raise RequestError(-32602, "Only stdio MCP servers are supported")
        s = Session(cwd)
        s.n = next(self.order)
        s.mcp = [McpServer(m, cwd) for m in mcp_servers or []]
        self.sessions[s.id] = s
        self.later(0.05, self.announce(s))
        return acp.NewSessionResponse(session_id=s.id, config_options=self.options(s))

    def later(self, delay, coro):
        async def run():
            await asyncio.sleep(delay)
            await coro
        t = asyncio.create_task(run())
        t.add_done_callback(lambda t: t.cancelled() or t.exception())

    async def announce(self, s):
        if s.id in self.sessions:
            await self.conn.session_update(s.id, h.update_available_commands([
                sc.AvailableCommand(name="model", description="Choose the model", input=sc.AvailableCommandInput(
                    root=sc.UnstructuredCommandInput(hint="model name"))),
                sc.AvailableCommand(name="tools", description="List the MCP tools")]))

    async def list_sessions(self, cwd=None, cursor=None, **_):
        self.gate()
        rows = sorted(self.sessions.values(), key=lambda s: -s.n)
        if cwd is not None:
            if not os.path.isabs(cwd):
                raise RequestError(-32602, "cwd must be an absolute path")
            rows = [s for s in rows if s.cwd == cwd]
        if cursor is not None:
            if not (cursor.startswith("before-") and cursor[7:].isdigit()):
                raise RequestError(-32602, "Invalid cursor")
            rows = [s for s in rows if s.n < int(cursor[7:])]
        page = rows[:20]
        out = acp.schema.ListSessionsResponse(sessions=[
            sc.SessionInfo(session_id=s.id, cwd=s.cwd, updated_at=s.updated, **({"title": s.title} if s.title else {}))
            for s in page])
        if len(rows) > 20:
            out.next_cursor = "before-%d" % page[-1].n
        return out

    async def close_session(self, session_id, **_):
        self.gate(False)
        s = self.session(session_id)
        tasks = list(s.turns)
        self.stop_turns(s)
        if tasks:
            await asyncio.wait(tasks)
            await asyncio.sleep(0.01)
        if FAULT != "close-keeps-mcp":
            for m in s.mcp:
                m.stop()
        self.sessions.pop(session_id, None)
        return sc.CloseSessionResponse()

    def stop_turns(self, s):
        for task, state in list(s.turns.items()):
            if not state["cancelled"]:
                state["cancelled"] = True
                task.cancel()

    async def cancel(self, session_id, **_):
        s = self.sessions.get(session_id)
        if s:
            self.stop_turns(s)

    # --------------------------------------------------------------- config
    def options(self, s):
        return [
            sc.SessionConfigOptionSelect(
                id="model", name="Model", category="model", type="select", current_value=s.config["model"],
                options=[sc.SessionConfigSelectGroup(group=g.lower(), name=g, options=[
                    sc.SessionConfigSelectOption(value=v, name=v.title()) for v in vs]) for g, vs in MODELS.items()]),
            sc.SessionConfigOptionSelect(
                id="verbosity", name="Verbosity", type="select", current_value=s.config["verbosity"],
                options=[sc.SessionConfigSelectOption(value=v, name=v.title()) for v in VERBOSITY]),
        ]

    async def set_config_option(self, config_id, session_id, value, **_):
        self.gate(False)
        s = self.session(session_id)
        legal = {"model": sum(MODELS.values(), []), "verbosity": VERBOSITY}.get(config_id)
        if legal is None or value not in legal:
            raise RequestError(-32602, "Unknown option or value")
        s.config[config_id] = value
        return sc.SetSessionConfigOptionResponse(config_options=self.options(s))

    # --------------------------------------------------------------- prompt
    async def prompt(self, prompt, session_id, **_):
        self.gate()
        s = self.session(session_id)
        state = {"cancelled": False}
        task = asyncio.create_task(self.turn(s, prompt))
        s.turns[task] = state
        try:
            reason = await task
            return acp.PromptResponse(stop_reason="cancelled" if state["cancelled"] else reason)
        except asyncio.CancelledError:
            if not state["cancelled"]:
                task.cancel()
                raise
            return acp.PromptResponse(stop_reason="cancelled")
        except Exception:
            if not state["cancelled"]:
                raise
            return acp.PromptResponse(stop_reason="cancelled")
        finally:
            s.turns.pop(task, None)

    async def turn(self, s, blocks):
        async with s.lock:
            text = "\n".join(b.text for b in blocks if b.type == "text")
            s.updated = now()
            if s.title is None:
                s.title = text.strip()[:40] or None
            w = wishes.parse(text)
            extras = [b.name for b in blocks if b.type == "resource_link"]
            try:
                answer = await getattr(self, "do_" + w[0])(s, *w[1:])
            except ToolFailed as e:
                answer = "Sorry: %s." % str(e).rstrip(".")
            if answer is None:
                return "cancelled"
            if extras:
                answer += "\nLinks seen: " + ", ".join(extras)
            if s.config["verbosity"] == "chatty":
                answer += "\n(said by %s)" % s.config["model"]
            await self.conn.session_update(s.id, h.update_agent_message_text(answer))
            return "end_turn"

    async def do_talk(self, s, text):
        return "Otter heard: " + (text[:500] or "(no text)")

    async def do_ask(self, s, what):
        return "What is your answer to: %s?" % what.rstrip("?.")

    async def do_mode(self, s, mode):
        return "There are no modes here."

    async def do_slash(self, s, name, rest):
        if name == "model":
            if rest not in sum(MODELS.values(), []):
                return "Models: " + ", ".join(sum(MODELS.values(), []))
            s.config["model"] = rest
            await self.conn.session_update(s.id, sc.ConfigOptionUpdate(
                session_update="config_option_update", config_options=self.options(s)))
            return "Model is now %s." % rest
        if name == "tools":
            await asyncio.gather(*(m.ready for m in s.mcp), return_exceptions=True)
            return "MCP tools: " + (", ".join(t for m in s.mcp for t in m.tools) or "none")
        return "No such command: /" + name

    async def do_remember(self, s, word):
        s.words.append(word)
        return "Kept under my rock: " + word

    async def do_recall(self, s):
        return "Under my rock: " + ", ".join(s.words) if s.words else "There is nothing under my rock."

    async def do_count(self, s, n):
        for i in range(1, n + 1):
            await self.conn.session_update(s.id, h.update_agent_message_text("%d, " % i))
            await asyncio.sleep(0.4)
        return "done counting."

    async def do_think(self, s):
        await self.conn.session_update(s.id, h.update_agent_thought_text("This needs some swimming around."))
        await asyncio.sleep(10)
        return "I swam around it; here is all I have: nothing new."

    # ---------------------------------------------------------------- tools
    def place(self, s, path):
        p = os.path.normpath(os.path.join(s.cwd, os.path.expanduser(path)))
        root, real = os.path.realpath(s.cwd), os.path.realpath(p)
        return p, real == root or real.startswith(root.rstrip("/") + "/")

    def shown(self, typed, full):
        return [sc.ToolCallLocation(path=typed if FAULT == "location-as-typed" else full)]

    async def tool(self, s, title, kind, body, **start):
        tid = str(uuid.uuid4())
        upd = self.conn.session_update
        await upd(s.id, h.start_tool_call(tid, title, kind=kind, status="pending", **start))
        try:
            value, content, ok = await body(tid)
            await upd(s.id, h.update_tool_call(tid, status="completed" if ok else "failed", content=content))
            return value
        except asyncio.CancelledError:
            await upd(s.id, h.update_tool_call(tid, status="failed", content=[h.tool_content(h.text_block("cancelled"))]))
            raise
        except (RequestError, ToolFailed, OSError, ValueError) as e:
            why = (e.strerror if isinstance(e, OSError) else None) or str(e)
            await upd(s.id, h.update_tool_call(tid, status="failed", content=[h.tool_content(h.text_block(why))]))
            raise ToolFailed(why) from None

    async def busy(self, s, tid):
        await self.conn.session_update(s.id, h.update_tool_call(tid, status="in_progress"))

    async def fetch(self, s, p):
        if self.read_cap:
            return (await self.conn.read_text_file(session_id=s.id, path=p)).content
        with open(p, encoding="utf-8", errors="replace") as f:
            return f.read()

    async def do_read(self, s, path):
        p, inside = self.place(s, path)

        async def body(tid):
            if not inside:
                raise ToolFailed("%s is not in the working directory" % p)
            await self.busy(s, tid)
            text = await self.fetch(s, p)
            return text, [h.tool_content(h.text_block(text))], True
        return "It reads: " + await self.tool(s, "Reading " + os.path.basename(p), "read", body, locations=self.shown(path, p))

    async def do_write(self, s, path, text):
        p, inside = self.place(s, path)

        async def body(tid):
            if not inside:
                raise ToolFailed("%s is not in the working directory" % p)
            await self.busy(s, tid)
            old = None
            if os.path.isfile(p):
                try:
                    old = await self.fetch(s, p)
                except RequestError:
                    with open(p, encoding="utf-8", errors="replace") as f:
                        old = f.read()
            if self.write_cap:
                await self.conn.write_text_file(session_id=s.id, path=p, content=text)
            else:
                os.makedirs(os.path.dirname(p), exist_ok=True)
                with open(p, "w", encoding="utf-8") as f:
                    f.write(text)
            return p, [h.tool_diff_content(p, text, old)], True
        return "Saved " + await self.tool(s, "Writing " + os.path.basename(p), "edit", body, locations=self.shown(path, p))

    async def quietly(self, coro):
        try:
            await asyncio.wait_for(coro, 5)
        except (RequestError, OSError, ValueError, asyncio.TimeoutError) as e:
            log.warning("terminal: %r", e)

    async def do_run(self, s, cmd):
        if not self.term_cap:
            return "I have no terminal here, so I cannot run commands."
        c = self.conn
        gave_up = False

        async def body(tid):
            nonlocal gave_up
            r = await c.request_permission(
                session_id=s.id, tool_call=sc.ToolCallUpdate(tool_call_id=tid, title="Run: " + cmd, kind="execute"),
                options=[sc.PermissionOption(option_id="run-it", name="Run it", kind="allow_once"),
                         sc.PermissionOption(option_id="leave-it", name="Leave it", kind="reject_once")])
            if r.outcome.outcome != "selected":
                gave_up = True
                raise ToolFailed("cancelled")
            if r.outcome.option_id != "run-it":
                raise ToolFailed("you told me to leave it")
            await self.busy(s, tid)
            making = asyncio.ensure_future(c.create_terminal(
                session_id=s.id, command="/bin/sh", args=["-c", cmd], cwd=s.cwd, output_byte_limit=100000))
            try:
                term = (await asyncio.shield(making)).terminal_id
            except asyncio.CancelledError:
                term = (await asyncio.wait_for(making, 5)).terminal_id
                await self.quietly(c.kill_terminal(session_id=s.id, terminal_id=term))
                await self.quietly(c.release_terminal(session_id=s.id, terminal_id=term))
                raise
            try:
                await c.session_update(s.id, h.update_tool_call(tid, content=[h.tool_terminal_ref(term)]))
                try:
                    ex = await c.wait_for_terminal_exit(session_id=s.id, terminal_id=term)
                except asyncio.CancelledError:
                    await self.quietly(c.kill_terminal(session_id=s.id, terminal_id=term))
                    raise
                out = (await c.terminal_output(session_id=s.id, terminal_id=term)).output
                return (ex.exit_code, ex.signal, out), [h.tool_terminal_ref(term)], ex.exit_code == 0
            finally:
                await self.quietly(c.release_terminal(session_id=s.id, terminal_id=term))
        try:
            code, sig, out = await self.tool(s, "Run: " + cmd, "execute", body, raw_input={"command": cmd})
        except ToolFailed:
            if gave_up:
                return None
            raise
        return "%s\n%s" % ("signal " + sig if sig else "exit code %s" % code, out)

    async def do_mcp(self, s, name, args):
        async def body(tid):
            await asyncio.gather(*(m.ready for m in s.mcp), return_exceptions=True)
            for m in s.mcp:
                if name in m.tools:
                    await self.busy(s, tid)
                    r = await m.call("tools/call", {"name": name, "arguments": args})
                    text = "\n".join(b.get("text", "") for b in r.get("content", []) if b.get("type") == "text")
                    return text, [h.tool_content(h.text_block(text))], not r.get("isError")
            raise ToolFailed("no MCP tool is called " + name)
        return "Tool result: " + await self.tool(s, "MCP " + name, "other", body, raw_input={"tool": name, "arguments": args})


async def main():
    agent = Otter()
    try:
        await acp.run_agent(agent, use_unstable_protocol=True)
    finally:
        for s in agent.sessions.values():
            for m in s.mcp:
                if m.proc:
                    m.kill()


if __name__ == "__main__":
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
    if "--login" in sys.argv:
        os.makedirs(os.path.dirname(TOKEN), exist_ok=True)
        with open(TOKEN, "w") as f:
            f.write("ok\n")
        print("Logged in.")
        sys.exit(0)
    asyncio.run(main())
