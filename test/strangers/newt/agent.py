#!/usr/bin/env python3
"""newt: a small ACP agent on the official Python SDK (agent-client-protocol).

The SDK does the protocol; a thin transport of our own sits below it, because the SDK
itself stays silent on broken lines and hands _meta keys to the handlers as arguments.
"""
import asyncio, json, logging, os, re, signal, sys, tempfile, uuid
from asyncio.subprocess import DEVNULL, PIPE, STDOUT
from datetime import datetime, timezone

from acp import RequestError, plan_entry, run_agent, start_tool_call, text_block, tool_content, tool_diff_content, update_plan, update_tool_call
from acp.helpers import update_available_commands, update_current_mode
from acp import schema as sc

FAULT = os.environ.get("FAULT", "")
MODES = {"ask": "Asks before it changes anything", "auto": "Changes things without asking", "look": "Only looks"}


class Stop(Exception):
    """The turn was cancelled."""


class Steered(Exception):
    """A newer prompt took over."""


def store():
    for base in (os.path.expanduser("~/.cache/newt"), os.path.join(tempfile.gettempdir(), "newt")):
        try:
            os.makedirs(base, exist_ok=True)
            if os.access(base, os.W_OK):
                return base
        except OSError:
            pass
    return tempfile.mkdtemp()


STORE = store()
now = lambda: datetime.now(timezone.utc).isoformat(timespec="seconds")


class Lines:
    """Message transport for the SDK: one JSON object per line, broken ones are answered here."""

    async def open(self):
        self.reader = asyncio.StreamReader(limit=2 ** 27)
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(self.reader), sys.stdin)
        return self

    async def send(self, message):
        sys.stdout.buffer.write(json.dumps(message, ensure_ascii=False).encode("utf-8", "replace") + b"\n")
        sys.stdout.buffer.flush()

    async def refuse(self, rid, error):
        await self.send({"jsonrpc": "2.0", "id": rid, "error": error.to_error_obj()})

    async def receive(self):
        while line := await self.reader.readline():
            if not line.strip():
                continue
            try:
                msg = json.loads(line.decode("utf-8"))
            except ValueError:
                await self.refuse(None, RequestError.parse_error())
                continue
            rid = msg.get("id") if isinstance(msg, dict) else None
            if not isinstance(msg, dict) or isinstance(rid, (bool, float, list, dict)):
                await self.refuse(None, RequestError.invalid_request())
            elif "method" not in msg and ("result" in msg or "error" in msg):
                return msg
            elif msg.get("jsonrpc") != "2.0" or not isinstance(msg.get("method"), str) \
                    or ("id" in msg and not isinstance(msg.get("params"), (dict, list, type(None)))):
                await self.refuse(rid, RequestError.invalid_request())
            elif msg["method"] == "initialize" and isinstance(msg.get("params"), dict) and type(msg["params"].get("protocolVersion")) is not int:
                await self.refuse(rid, RequestError.invalid_params({"field": "protocolVersion"}))
            else:
                if isinstance(msg.get("params"), dict):
                    msg["params"].pop("_meta", None)
                elif msg.get("params") is None:
                    msg["params"] = {}
                return msg
        return None

    async def close(self):
        pass


# ------------------------------------------------------------------ MCP over stdio
class Mcp:
    async def start(self, conf, cwd):
        self.name, self.n, self.wait = conf.name, 0, {}
        env = {**{k: v for k, v in os.environ.items() if k != "FAULT"}, **{e.name: e.value for e in conf.env or []}}
        self.p = await asyncio.create_subprocess_exec(conf.command, *(conf.args or []), cwd=cwd, env=env, stdin=PIPE, stdout=PIPE,
                                                      stderr=DEVNULL, limit=2 ** 24)
        self.reader = asyncio.ensure_future(self.pump())
        try:
            await self.rpc("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo={"name": "newt", "version": "0.4"})
            self.put(method="notifications/initialized")
            self.tools = {t["name"]: t for t in (await self.rpc("tools/list")).get("tools", [])}
        except Exception:
            self.close()
            raise
        return self

    def put(self, **m):
        self.p.stdin.write(json.dumps({"jsonrpc": "2.0", **m}).encode() + b"\n")

    async def pump(self):
        async for line in self.p.stdout:
            try:
                m = json.loads(line)
            except ValueError:
                continue
            if "method" in m and "id" in m:
                self.put(id=m["id"], result={})
            elif "id" in m and m["id"] in self.wait:
                fut = self.wait.pop(m["id"])
                if not fut.done():
                    fut.set_result(m)
        for fut in self.wait.values():
            if not fut.done():
                fut.set_result({"error": {"message": "server gone"}})

    async def rpc(self, method, **params):
        self.n += 1
        fut = self.wait[self.n] = asyncio.get_running_loop().create_future()
        self.put(id=self.n, method=method, params=params)
        m = await asyncio.wait_for(fut, 10)
        if "error" in m:
            raise OSError(m["error"].get("message"))
        return m["result"]

    def close(self):
        if self.p.returncode is None:
            self.p.stdin.close()
            self.p.terminate()


# ------------------------------------------------------------------ understanding
QUOTED = re.compile(r"```(?:\w*\n)?(.+?)```|`([^`]+)`|\"([^\"]+)\"|“([^”]+)”|(?<!\w)'([^']+)'(?!\w)", re.S)
PATH = re.compile(r"(?<![\w/.-])((?:/|\.{1,2}/)?[\w@-][\w@./-]*\.\w{1,8}|/[\w@./-]+)(?![\w/])")
SAYS = re.compile(r"\b(?:contain(?:s|ing)|with|that says|saying|reading|content)\b\s*(?:exactly|only|just)?:?\s*(?:the )?(?:following )?(?:content|contents|text|line|word|words)?"
                  r"\s*(?:of|is)?\s*:?\s*(.+)$", re.I | re.S)
RUNS = re.compile(r"\b(?:run|execute|launch)\b:?\s+(?:the |a |this )?(?:following )?(?:shell |terminal )?(?:commands?|program)?\s*(?:in (?:a|the|your) (?:terminal|shell))?\s*:?\s*"
                  r"(.+?)(?:\.?$|,? and (?:tell|show|report|give|then)|\.\s)", re.I)


def quoted(t):
    return [next(g for g in m.groups() if g) for m in QUOTED.finditer(t)]


STOP = {"this", "the", "that", "is", "it", "word", "number", "code", "secret", "following", "for", "me", "just", "you", "my", "and", "to", "ok", "of"}


def understand(t, servers):
    low = t.lower()
    m = re.search(r"\b(?:named|called|file)\s+[`'\"]([\w@./ -]+)[`'\"]", t) or PATH.search(t) or re.search(r"\bfile (?:named|called) ([\w-]+)", t)
    path = m and m.group(1).rstrip(".")
    if re.match(r"/\w+(\s|$)", t):
        return "slash", t[1:].split()[0]
    for server in servers:
        for tool in server.tools:
            if re.search(r"(?<![\w-])%s(?![\w-])" % re.escape(tool), t) and re.search(r"\b(tool|call|use|invoke|mcp)\b", low):
                return "mcp", server, tool, t
    m = re.search(r"\b(?:switch|change|go)\b.*?\b(ask|auto|look)\b.*\bmode\b|\bmode\b.*?\b(ask|auto|look)\b", low)
    if m:
        return "mode", m.group(1) or m.group(2)
    if re.search(r"\b(make|create|write|draw up|draft|give me|show me|prepare|need)\b[^.]{0,40}\bplan\b|\bto-?do list\b|^plan\b", low):
        return ("plan",)
    m = re.search(r"\b(?:count|numbers?)\b.*?\b(?:to|through|until)\s+(\d+)", low, re.S)
    if m:
        return "count", min(int(m.group(1)), 1000)
    if re.search(r"\b(working|current) directory\b", low) and not path:
        return ("where",)
    if not path and re.search(r"^(what|which|tell me|do you|repeat|can you)\b.*\b(did i|i told|i asked|i gave|was the|is the|you remember|i said)\b"
                 r"|\bwhat .*\b(word|number|code|secret|name)\b.*\?", low, re.S):
        return ("recall",)
    if not path and re.search(r"\b(remember|memori[sz]e|keep in mind|note that)\b|\b(secret|code ?word|magic|password)\b.*\bis\b", low):
        words = re.findall(r"\b(?:is|word|number|code|name|phrase|remember)\b[:,]?\s+(?=[*_]*([\w-]{2,}))", t)
        words = [w for w in words if w.lower() not in STOP]
        return "remember", (quoted(t) or words or [t])[0]
    verbs = {"write": r"\b(?:create|write|save|make|add|put|store)\b", "run": r"\b(?:run|execute|launch)\b",
             "read": r"\b(?:read|show|open|print|display|cat|look at|look into|contents? of|what is in|what's in|summari[sz]e)\b"}
    hits = sorted((re.search(rx, low).start(), k) for k, rx in verbs.items() if re.search(rx, low) and (path or k == "run"))
    for _, kind in hits:
        if kind == "run" and (quoted(t) or RUNS.search(t)):
            return "run", (quoted(t) or [RUNS.search(t).group(1)])[0].strip()
        if kind == "write":
            said, m = [q for q in quoted(t) if q != path], SAYS.search(t) or re.search(r"\b(?:write|save|put|add|store)\s+(.+?)\s+(?:to|into|in)\s", t, re.I | re.S)
            return "write", path, said[0] if said else m.group(1).strip().rstrip(".") if m else ""
        if kind == "read":
            return "read", path
    if re.search(r"\b(list|which|what) (?:\w+ )*files\b|\bls\b", low):
        return "run", "ls"
    if re.search(r"\b(long|story|essay|poem|novel|detailed)\b", low):
        return ("story",)
    if path and re.search(r"\?|\bwhat\b|\btell me\b", low):
        return "read", path
    return ("chat",)


# ------------------------------------------------------------------ sessions and turns
class Session:
    def __init__(self, agent, sid, cwd, data=None):
        self.agent, self.id, self.cwd, self.mcp, self.turn = agent, sid, cwd, [], None
        self.d = data or {"created": now(), "log": [], "facts": [], "mode": "ask", "title": None, "asked": 0}
        self.save()

    def save(self):
        self.d.update(cwd=self.cwd, updated=now())
        with open(os.path.join(STORE, self.id + ".json"), "w", encoding="utf-8") as f:
            json.dump(self.d, f)

    async def update(self, up, keep=True):
        if keep:
            self.d["log"].append(up.model_dump(mode="json", by_alias=True, exclude_none=True))
        await self.agent.conn.session_update(self.id, up)

    def modes(self):
        return sc.SessionModeState(current_mode_id=self.d["mode"], available_modes=[sc.SessionMode(id=k, name=k.title(), description=v) for k, v in MODES.items()])

    def options(self):
        return [sc.SessionConfigOptionSelect(id="behaviour", name="Behaviour", category="mode", type="select", current_value=self.d["mode"],
                                             options=[sc.SessionConfigSelectOption(value=k, name=k.title(), description=v) for k, v in MODES.items()])]

    async def connect(self, servers):
        for m in self.mcp:
            m.close()
        got = await asyncio.gather(*(Mcp().start(c, self.cwd) for c in servers), return_exceptions=True)
        self.mcp = [m for m in got if isinstance(m, Mcp)]

    async def stop(self, why=Stop):
        if self.turn:
            turn = self.turn
            turn.halt(why)
            await asyncio.wait_for(turn.over.wait(), 10)


class Turn:
    def __init__(self, s):
        self.s, self.conn, self.why, self.flag, self.over = s, s.agent.conn, None, asyncio.Event(), asyncio.Event()
        self.held, self.mid, self.calls = "", str(uuid.uuid4()), set()

    def halt(self, why):
        self.why = self.why or why
        self.flag.set()

    def check(self):
        if self.why:
            raise self.why()

    async def nap(self, seconds):
        try:
            await asyncio.wait_for(self.flag.wait(), seconds)
        except asyncio.TimeoutError:
            pass
        self.check()

    async def say(self, text):
        """One piece is always held back, so that no word is cut in the client's display."""
        self.check()
        out, self.held = self.held, text
        await self.emit(out)

    async def emit(self, text):
        if text:
            await self.s.update(sc.AgentMessageChunk(session_update="agent_message_chunk", content=text_block(text), message_id=self.mid))

    async def flush(self):
        out, self.held = self.held, ""
        await self.emit(out)

    async def call(self, title, kind, **more):
        await self.flush()
        self.check()
        tid = "newt-" + uuid.uuid4().hex[:8]
        self.calls.add(tid)
        await self.s.update(start_tool_call(tid, title, kind=kind, status="pending", **more))
        return tid

    async def step(self, tid, status, text=None, content=None):
        if status in ("completed", "failed"):
            self.calls.discard(tid)
        await self.s.update(update_tool_call(tid, status=status, content=[tool_content(text_block(text))] if text is not None else content))

    async def allowed(self, tid, title, kind, content=None):
        mode = self.s.d["mode"]
        if mode != "ask":
            return mode == "auto"
        task = asyncio.ensure_future(self.conn.request_permission(
            session_id=self.s.id, tool_call=sc.ToolCallUpdate(tool_call_id=tid, title=title, kind=kind, status="pending", content=content),
            options=[sc.PermissionOption(option_id="allow", name="Allow", kind="allow_once"), sc.PermissionOption(option_id="deny", name="Deny", kind="reject_once")]))
        stop = asyncio.ensure_future(self.flag.wait())
        await asyncio.wait({task, stop}, return_when=asyncio.FIRST_COMPLETED)
        stop.cancel()
        try:
            res = await asyncio.wait_for(task, 4 if self.flag.is_set() else None)
        except (asyncio.TimeoutError, RequestError, ValueError):
            self.check()
            return False
        self.check()
        if res.outcome.outcome == "cancelled":
            raise Stop()
        return res.outcome.option_id == "allow"

    def where(self, path):
        full = os.path.normpath(os.path.join(self.s.cwd, path))
        root = os.path.realpath(self.s.cwd)
        return full, os.path.commonpath([root, os.path.realpath(full)]) == root

    async def run(self, blocks):
        d = self.s.d
        text = "\n".join(b.text for b in blocks if b.type == "text")
        mid = str(uuid.uuid4())
        for b in blocks:
            d["log"].append(sc.UserMessageChunk(session_update="user_message_chunk", content=b, message_id=mid).model_dump(mode="json", by_alias=True, exclude_none=True))
        d["asked"] += 1
        try:
            if not d["title"]:
                d["title"] = "Newt: " + (text[:30] or "no words")
                await self.s.update(sc.SessionInfoUpdate(session_update="session_info_update", title=d["title"]), keep=False)
            kind, *args = understand(text, self.s.mcp)
            await getattr(self, "do_" + kind)(*args)
            other = [b.type for b in blocks if b.type != "text"]
            if other:
                await self.say(" (Received: %s.)" % ", ".join(other))
            self.check()
            reason = "end_turn"
        except Steered:
            reason = "end_turn"
        except Stop:
            reason = "cancelled"
        for tid in list(self.calls):
            await self.step(tid, "failed")
        if FAULT == "newt-late-flush" and reason == "cancelled":  # the held piece leaves by its own timer
            asyncio.get_running_loop().call_later(0.15, lambda: asyncio.ensure_future(self.flush()))
        else:
            await self.flush()
        if reason == "end_turn":
            await self.s.update(sc.UsageUpdate(session_update="usage_update", used=37 * d["asked"], size=8192, cost=sc.Cost(amount=0.5 * d["asked"], currency="USD")), keep=False)
        self.s.save()
        return reason

    async def do_chat(self):
        for w in ("A newt ", "hears ", "you. ", "Ask for files, ", "commands, ", "plans ", "or tools."):
            await self.say(w)

    async def do_where(self):
        await self.say("My pond is %s." % self.s.cwd)

    async def do_slash(self, name):
        await self.say("%d prompts so far, mode %s." % (self.s.d["asked"], self.s.d["mode"]) if name == "pond" else "/%s is not a command of mine." % name)

    async def do_remember(self, word):
        self.s.d["facts"].append(word)
        await self.say("It is in my pond now.")

    async def do_recall(self):
        await self.say("From my pond: %s." % ", ".join(self.s.d["facts"]) if self.s.d["facts"] else "My pond is empty.")

    async def do_count(self, n):
        for i in range(1, n + 1):
            await self.say("%d… " % i)
            await self.nap(0.2)

    async def do_story(self):
        for i in range(1, 90):
            await self.say("Chapter %d. The newt looked up through the water and waited. " % i)
            await self.nap(0.2)

    async def do_plan(self):
        names = ["Look at the question", "Split it up", "Answer"]
        for done in range(4):
            await self.s.update(update_plan([plan_entry(c, priority="high" if i == 0 else "low", status="completed" if i < done else "in_progress" if i == done
                                                        else "pending") for i, c in enumerate(names)]))
            await self.nap(0.07)
        await self.say("Look, split, answer.")

    async def do_mode(self, mode):
        tid = await self.call("Switch to %s" % mode, "switch_mode")
        self.s.d["mode"] = mode
        await self.s.update(update_current_mode(mode), keep=False)
        await self.s.update(sc.ConfigOptionUpdate(session_update="config_option_update", config_options=self.s.options()), keep=False)
        await self.step(tid, "completed", "now " + mode)
        await self.say("I am in %s mode now." % mode)

    async def do_read(self, path):
        full, inside = self.where(path)
        tid = await self.call("Read %s" % path, "read", locations=[sc.ToolCallLocation(path=full)])
        try:
            if not inside:
                raise OSError("not in the working directory")
            await self.step(tid, "in_progress")
            if self.s.agent.fs and self.s.agent.fs.read_text_file:
                text = (await self.conn.read_text_file(session_id=self.s.id, path=full)).content
            else:
                text = open(full, encoding="utf-8").read()
        except (OSError, RequestError, ValueError) as e:
            await self.step(tid, "failed", str(e))
            return await self.say("%s stays unread." % path)
        await self.step(tid, "completed", text[:5000])
        await self.say("I found in %s: %s" % (path, text[:3000]))

    async def do_write(self, path, text):
        full, inside = self.where(path)
        old = open(full, encoding="utf-8", errors="replace").read() if inside and os.path.isfile(full) else None
        diff = [tool_diff_content(path if FAULT == "newt-diff-path" else full, text, old)]
        tid = await self.call("Write %s" % path, "edit", locations=[sc.ToolCallLocation(path=full)], content=diff)
        if not inside or not await self.allowed(tid, "Write %s" % path, "edit", diff):
            await self.step(tid, "failed")
            return await self.say("%s was not touched." % path)
        await self.step(tid, "in_progress")
        try:
            if self.s.agent.fs and self.s.agent.fs.write_text_file:
                await self.conn.write_text_file(session_id=self.s.id, path=full, content=text)
            else:
                os.makedirs(os.path.dirname(full), exist_ok=True)
                with open(full, "w", encoding="utf-8") as f:
                    f.write(text)
        except (OSError, RequestError) as e:
            await self.step(tid, "failed", str(e))
            return await self.say("Writing %s failed." % path)
        await self.step(tid, "completed")
        await self.say("%s holds the text." % path)

    async def do_run(self, command):
        tid = await self.call(command, "execute", raw_input={"cmd": command, "cwd": self.s.cwd})
        if not await self.allowed(tid, command, "execute"):
            await self.step(tid, "failed")
            return await self.say("Not run.")
        await self.step(tid, "in_progress")
        p = await asyncio.create_subprocess_exec("/bin/sh", "-c", command, cwd=self.s.cwd, stdin=DEVNULL, stdout=PIPE, stderr=STDOUT, start_new_session=True)
        self.s.agent.children.add(p)
        out, stop = asyncio.ensure_future(p.communicate()), asyncio.ensure_future(self.flag.wait())
        await asyncio.wait({out, stop}, return_when=asyncio.FIRST_COMPLETED)
        stop.cancel()
        if not out.done():
            os.killpg(p.pid, signal.SIGKILL)
        text = (await out)[0].decode("utf-8", "replace")
        self.s.agent.children.discard(p)
        self.check()
        await self.step(tid, "completed" if p.returncode == 0 else "failed", text or "(no output)")
        await self.say("Exit %s. %s" % (p.returncode, text[:3000]))

    async def do_mcp(self, server, tool, t):
        m = re.search(r"\{.*\}", t, re.S)
        try:
            args = json.loads(m.group()) if m else {}
        except ValueError:
            args = {}
        words, nums = [q for q in quoted(t) if q not in (tool, server.name) and q[0] != "{"], re.findall(r"-?\d+", t)
        for key, spec in ((server.tools[tool].get("inputSchema") or {}).get("properties") or {}).items():
            if key not in args and spec.get("type") in ("integer", "number") and nums:
                args[key] = int(nums.pop(0))
            elif key not in args and spec.get("type", "string") == "string" and words:
                args[key] = words.pop(0)
        tid = await self.call("%s (%s)" % (tool, server.name), "other", raw_input=args)
        await self.step(tid, "in_progress")
        try:
            work, stop = asyncio.ensure_future(server.rpc("tools/call", name=tool, arguments=args)), asyncio.ensure_future(self.flag.wait())
            await asyncio.wait({work, stop}, return_when=asyncio.FIRST_COMPLETED)
            stop.cancel()
            if not work.done():
                work.cancel()
            self.check()
            res = work.result()
            text = " ".join(c.get("text", "") for c in res.get("content", []))
            await self.step(tid, "failed" if res.get("isError") is True else "completed", text)
        except (OSError, asyncio.TimeoutError):
            text = "nothing"
            await self.step(tid, "failed", "no answer")
        await self.say("%s said: %s" % (tool, text))


# ------------------------------------------------------------------ the agent as the SDK sees it
class Newt:
    def __init__(self):
        self.sessions, self.fs, self.ready, self.children = {}, None, False, set()

    def on_connect(self, conn):
        self.conn = conn

    def need(self, sid=None):
        if not self.ready:
            raise RequestError.invalid_request({"reason": "initialize first"})
        if sid is not None and sid not in self.sessions:
            raise RequestError(-32002, "Session not found", {"sessionId": sid})
        return self.sessions.get(sid)

    def place(self, cwd, servers):
        self.need()
        if not os.path.isabs(cwd):
            raise RequestError.invalid_params({"cwd": "must be absolute"})
        if any(not isinstance(s, sc.McpServerStdio) for s in servers or []):
            raise RequestError.invalid_params({"mcpServers": "stdio only"})

    async def initialize(self, protocol_version, client_capabilities=None, client_info=None, **_):
        self.fs, self.ready = getattr(client_capabilities, "fs", None), True
        return sc.InitializeResponse(
            protocol_version=1, agent_info=sc.Implementation(name="newt", title="Newt", version="0.4.1"), auth_methods=[],
            agent_capabilities=sc.AgentCapabilities(
                load_session=True, prompt_capabilities=sc.PromptCapabilities(image=True, audio=True, embedded_context=True),
                mcp_capabilities=sc.McpCapabilities(http=False, sse=False), field_meta={"newt.dev": {"molt": True}},
                session_capabilities=sc.SessionCapabilities(list=sc.SessionListCapabilities(), resume=sc.SessionResumeCapabilities(), close=sc.SessionCloseCapabilities())))

    def later(self, s):
        asyncio.get_running_loop().call_later(0.1, lambda: asyncio.ensure_future(s.update(update_available_commands(
            [sc.AvailableCommand(name="pond", description="Tell the state of the session")]), keep=False)))

    async def new_session(self, cwd, mcp_servers=None, additional_directories=None, **_):
        self.place(cwd, mcp_servers)
        s = Session(self, "pond_" + uuid.uuid4().hex, cwd)
        await s.connect(mcp_servers or [])
        self.sessions[s.id] = s
        self.later(s)
        return sc.NewSessionResponse(session_id=s.id, modes=s.modes(), config_options=s.options())

    async def revive(self, sid, cwd, servers):
        self.place(cwd, servers)
        file = os.path.join(STORE, sid + ".json")
        if not re.fullmatch(r"pond_[0-9a-f]+", sid) or not os.path.exists(file):
            raise RequestError(-32002, "Session not found", {"sessionId": sid})
        old = self.sessions.pop(sid, None)
        if old:
            await old.stop()
            await old.connect([])
        with open(file, encoding="utf-8") as f:
            s = Session(self, sid, cwd, json.load(f))
        await s.connect(servers or [])
        self.sessions[sid] = s
        self.later(s)
        return s

    async def load_session(self, cwd, session_id, mcp_servers=None, additional_directories=None, **_):
        s = await self.revive(session_id, cwd, mcp_servers)
        for row in list(s.d["log"]):
            await self.conn.session_update(s.id, sc.SessionNotification.model_validate({"sessionId": s.id, "update": row}).update)
        return sc.LoadSessionResponse(modes=s.modes(), config_options=s.options())

    async def resume_session(self, session_id, cwd, mcp_servers=None, additional_directories=None, **_):
        s = await self.revive(session_id, cwd, mcp_servers)
        return sc.ResumeSessionResponse(modes=s.modes(), config_options=s.options())

    async def close_session(self, session_id, **_):
        s = self.need(session_id)
        await s.stop()
        await s.connect([])
        self.sessions.pop(session_id, None)
        return sc.CloseSessionResponse()

    async def list_sessions(self, cwd=None, cursor=None, **_):
        self.need()
        rows = []
        for name in os.listdir(STORE):
            try:
                d = json.load(open(os.path.join(STORE, name), encoding="utf-8"))
            except (OSError, ValueError):
                continue
            if d["asked"] and cwd in (None, d["cwd"]):  # never listed before the first prompt
                rows.append((d["created"] + "|" + name[:-5], d))
        rows.sort(key=lambda r: r[0], reverse=True)
        if cursor is not None:
            if not re.fullmatch(r"[\d:T+-]+\|pond_[0-9a-f]+", cursor):
                raise RequestError.invalid_params({"cursor": "unknown"})
            rows = [r for r in rows if r[0] < cursor]
        page = rows[:25]
        return sc.ListSessionsResponse(next_cursor=page[-1][0] if len(rows) > 25 else None, sessions=[
            sc.SessionInfo(session_id=k.split("|")[1], cwd=d["cwd"], title=d["title"], updated_at=d["updated"]) for k, d in page])

    async def set_session_mode(self, session_id, mode_id, **_):
        s = self.need(session_id)
        if mode_id not in MODES:
            raise RequestError.invalid_params({"modeId": mode_id})
        s.d["mode"] = mode_id
        await s.update(sc.ConfigOptionUpdate(session_update="config_option_update", config_options=s.options()), keep=False)
        return sc.SetSessionModeResponse()

    async def set_config_option(self, config_id, session_id, value, **_):
        s = self.need(session_id)
        if config_id != "behaviour" or value not in MODES:
            raise RequestError.invalid_params({"configId": config_id})
        s.d["mode"] = value
        await s.update(update_current_mode(value), keep=False)
        return sc.SetSessionConfigOptionResponse(config_options=s.options())

    async def prompt(self, session_id, prompt, **_):
        s = self.need(session_id)
        if FAULT == "newt-link-type" and any(b.type == "resource_link" and not b.mime_type for b in prompt):
            raise RequestError.invalid_params({"mimeType": "resource links need a type"})
        while s.turn:  # the newer prompt takes over, the older one ends early
            await s.stop(Steered)
        turn = s.turn = Turn(s)
        try:
            return sc.PromptResponse(stop_reason=await turn.run(prompt))
        finally:
            s.turn = None
            turn.over.set()

    async def cancel(self, session_id, **_):
        s = self.sessions.get(session_id)
        if s and s.turn:
            s.turn.halt(Stop)

    async def ext_method(self, method, params):
        if method == "newt.dev/molt":
            return {"skins": len(self.sessions)}
        raise RequestError.method_not_found("_" + method)

    async def ext_notification(self, method, params):
        pass


async def main():
    newt = Newt()
    await run_agent(newt, await Lines().open(), use_unstable_protocol=True)
    for s in newt.sessions.values():
        for m in s.mcp:
            m.close()
    for p in newt.children:
        os.killpg(p.pid, signal.SIGKILL)
    os._exit(0)


logging.disable(logging.CRITICAL)
asyncio.run(main())
