#!/usr/bin/env python3
"""ibis: a small ACP agent on asyncio, standard library only.

Few capabilities (resume only), sessions on disk, MCP servers started at the first prompt,
two prompts of one session may run side by side.
"""
import asyncio, json, os, re, sys, tempfile, uuid
from asyncio.subprocess import DEVNULL, PIPE, STDOUT

FAULT = os.environ.get("FAULT", "")
LIMIT = 50  # lines asked for per fs/read_text_file


class Fail(Exception):
    def __init__(self, code, message, data=None):
        super().__init__(message)
        self.code, self.data = code, data


class Quit(Exception):
    """The user withdrew the question; the turn ends as cancelled."""


def home():
    for base in (os.environ.get("IBIS_HOME"), os.path.expanduser("~/.ibis"), os.path.join(tempfile.gettempdir(), "ibis")):
        try:
            if base:
                os.makedirs(base, exist_ok=True)
                if os.access(base, os.W_OK):
                    return base
        except OSError:
            pass
    return tempfile.mkdtemp()


HOME = home()
caps, ready = {}, False
sessions, pending, procs, tasks = {}, {}, set(), set()


def send(**obj):
    sys.stdout.buffer.write(json.dumps(dict(jsonrpc="2.0", **obj)).encode() + b"\n")
    sys.stdout.buffer.flush()


def cap(*keys):
    at = caps
    for k in keys:
        at = at.get(k) if isinstance(at, dict) else None
    return at


async def ask(method, **params):
    rid = uuid.uuid4().hex
    fut = pending[rid] = asyncio.get_running_loop().create_future()
    send(id=rid, method=method, params=params)
    try:
        return await fut or {}
    finally:
        pending.pop(rid, None)


# ------------------------------------------------------------------ MCP over stdio
class Mcp:
    async def start(self, conf, cwd):
        self.name, self.n, self.wait, self.tools = conf["name"], 0, {}, {}
        env = {k: v for k, v in os.environ.items() if k != "FAULT"}
        env.update({e["name"]: e["value"] for e in conf.get("env") or []})
        self.p = await asyncio.create_subprocess_exec(conf["command"], *(conf.get("args") or []), cwd=cwd, env=env, stdin=PIPE,
                                                      stdout=PIPE, stderr=DEVNULL, limit=2 ** 24)
        procs.add(self.p)
        spawn(self.pump())
        await self.rpc("initialize", protocolVersion="2024-11-05", capabilities={}, clientInfo={"name": "ibis", "version": "2"})
        self.put(method="notifications/initialized")
        self.tools = {t["name"]: t for t in (await self.rpc("tools/list")).get("tools", [])}

    def put(self, **m):
        self.p.stdin.write(json.dumps(dict(jsonrpc="2.0", **m)).encode() + b"\n")

    async def pump(self):
        async for line in self.p.stdout:
            try:
                m = json.loads(line)
            except ValueError:
                continue
            if "method" in m and "id" in m:
                self.put(id=m["id"], result={})
            elif m.get("id") in self.wait:
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


# ------------------------------------------------------------------ sessions
class Session:
    def __init__(self, sid, cwd, servers, past=None):
        self.id, self.cwd, self.servers, self.mcp = sid, cwd, servers, None
        self.turns, self.lock = set(), asyncio.Lock()
        self.past = past or {"facts": [], "said": [], "trusted": []}
        self.keep()

    def keep(self):
        with open(os.path.join(HOME, self.id + ".json"), "w", encoding="utf-8") as f:
            json.dump({"cwd": self.cwd, "past": self.past}, f)

    def update(self, what, **fields):
        send(method="session/update", params={"sessionId": self.id, "update": {"sessionUpdate": what, **fields}})

    async def connect(self):
        """At the first prompt, not earlier."""
        async with self.lock:
            if self.mcp is None:
                got = []
                for conf in self.servers:
                    m = Mcp()
                    try:
                        await m.start(conf, self.cwd)
                        got.append(m)
                    except (OSError, asyncio.TimeoutError) as e:
                        print("mcp", conf["name"], repr(e), file=sys.stderr, flush=True)
                self.mcp = got

    def drop(self):
        for m in self.mcp or []:
            try:
                m.p.terminate()
            except ProcessLookupError:
                pass


# ------------------------------------------------------------------ understanding
QUOTED = re.compile(r"```(?:\w*\n)?(.+?)```|`([^`]+)`|\"([^\"]+)\"|“([^”]+)”|(?<!\w)'([^']+)'(?!\w)", re.S)
PATH = re.compile(r"(?<![\w/.-])((?:/|\.{1,2}/)?[\w@-][\w@./-]*\.\w{1,8}|/[\w@./-]+)(?![\w/])")


def quoted(t):
    return [next(g for g in m.groups() if g) for m in QUOTED.finditer(t)]


def path_in(t):
    m = re.search(r"\b(?:named|called|file)\s+[`'\"]([\w@./ -]+)[`'\"]", t) or PATH.search(t) or re.search(r"\bfile (?:named|called) ([\w-]+)", t)
    return m and m.group(1).rstrip(".")


STOP = {"this", "the", "that", "is", "it", "word", "number", "code", "secret", "following", "for", "me", "just", "you", "my", "and", "to", "ok", "of"}


def understand(t, s):
    low, path = t.lower(), path_in(t)
    if t.startswith("/") and re.match(r"/\w+(\s|$)", t):
        return "slash", (t[1:].split()[0],)
    for m in s.mcp:
        for tool in m.tools:
            if re.search(r"(?<![\w-])%s(?![\w-])" % re.escape(tool), t) and re.search(r"\b(tool|call|use|invoke|mcp)\b", low):
                return "mcp", (m, tool, t)
    if re.search(r"\b(make|create|write|draw up|draft|give me|show me|prepare|need)\b[^.]{0,40}\bplan\b|\bto-?do list\b|^plan\b", low):
        return "plan", ()
    m = re.search(r"\b(?:count|numbers?)\b.*?\b(?:to|through|until)\s+(\d+)", low, re.S)
    if m:
        return "count", (min(int(m.group(1)), 1000),)
    if re.search(r"\b(working|current) directory\b", low) and not path:
        return "where", ()
    if not path and re.search(r"^(what|which|tell me|do you|repeat|can you)\b.*\b(did i|i told|i asked|i gave|was the|is the|you remember|i said)\b"
                 r"|\bwhat .*\b(word|number|code|secret|name)\b.*\?", low, re.S):
        return "recall", ()
    if not path and re.search(r"\b(remember|memori[sz]e|keep in mind|note that)\b|\b(secret|code ?word|magic|password)\b.*\bis\b", low):
        words = re.findall(r"\b(?:is|word|number|code|name|phrase|remember)\b[:,]?\s+(?=[*_]*([\w-]{2,}))", t)
        words = [w for w in words if w.lower() not in STOP]
        return "remember", ((quoted(t) or words or [t])[0],)
    verbs = [("edit", r"\b(?:replace|change)\b"), ("write", r"\b(?:create|write|save|make|add|put|store)\b"), ("run", r"\b(?:run|execute|launch)\b"),
             ("read", r"\b(?:read|show|open|print|display|cat|look at|look into|contents? of|what is in|what's in|summari[sz]e)\b")]
    hits = sorted((re.search(rx, low).start(), kind) for kind, rx in verbs if re.search(rx, low) and (path or kind == "run"))
    for _, kind in hits:
        said = [q for q in quoted(t) if q != path]
        if kind == "edit" and len(said) >= 2:
            return "edit", (path, said[0], said[1])
        if kind == "read":
            return "read", (path,)
        if kind == "run":
            m = re.search(r"(?i)\b(?:run|execute|launch)\b:?\s+(?:the |a |this )?(?:following )?(?:shell |terminal )?(?:commands?|program)?\s*(?:in (?:a|the|your) (?:terminal|shell))?\s*:?\s*"
                          r"(.+?)(?:\.?$|,? and (?:tell|show|report|give|then)|\.\s)", t)
            cmd = quoted(t) or (m and [m.group(1)])
            if cmd:
                return "run", (cmd[0].strip(),)
        if kind == "write":
            m = re.search(r"\b(?:contain(?:s|ing)|with|that says|saying|reading|content)\b\s*(?:exactly|only|just)?:?\s*(?:the )?(?:following )?(?:content|contents|text|line|word|words)?"
                          r"\s*(?:of|is)?\s*:?\s*(.+)$", t, re.I | re.S) or re.search(r"\b(?:write|save|put|add|store)\s+(.+?)\s+(?:to|into|in)\s", t, re.I | re.S)
            return "write", (path, said[0] if said else m.group(1).strip().rstrip(".") if m else "")
    if re.search(r"\b(list|which|what) (?:\w+ )*files\b|\bls\b", low):
        return "list", ()
    if re.search(r"\b(long|story|essay|poem|novel|detailed)\b", low):
        return "story", ()
    if path and re.search(r"\?|\bwhat\b|\btell me\b", low):
        return "read", (path,)
    return "chat", ()


# ------------------------------------------------------------------ one turn
class Turn:
    def __init__(self, s):
        self.s, self.open, self.term, self.child, self.stopping = s, [], None, None, False

    def say(self, text):
        self.s.update("agent_message_chunk", content={"type": "text", "text": text})

    def think(self, text):
        self.s.update("agent_thought_chunk", content={"type": "text", "text": text}, _meta={"ibis/private": False})

    def call(self, title, kind, **more):
        tid = str(uuid.uuid4())
        self.s.update("tool_call", toolCallId=tid, title=title, kind=kind, **more)
        self.open.append(tid)
        return tid

    def step(self, tid, status, text=None, content=None):
        if text is not None:
            content = [{"type": "content", "content": {"type": "text", "text": text}}]
        self.s.update("tool_call_update", toolCallId=tid, status=status, **({"content": content} if content is not None else {}))
        if status in ("completed", "failed"):
            self.open.remove(tid)

    def plan(self, done, *steps):
        self.s.update("plan", entries=[{"content": c, "priority": "medium", "status": "completed" if i < done else "in_progress" if i == done
                                        else "pending"} for i, c in enumerate(steps)])

    def where(self, path):
        full = os.path.normpath(os.path.join(self.s.cwd, path))
        root = os.path.realpath(self.s.cwd)
        return full, os.path.commonpath([root, os.path.realpath(full)]) == root

    async def run(self, blocks):
        await self.s.connect()
        text = "\n".join(b["text"] for b in blocks if b["type"] == "text")
        self.s.past["said"].append(text[:200])
        kind, args = understand(text, self.s)
        self.think("This looks like: %s." % kind)
        try:
            await getattr(self, "do_" + kind)(*args)
        except (asyncio.CancelledError, Quit):
            await self.clean()
            raise
        links = [b["uri"] for b in blocks if b["type"] == "resource_link"]
        if links:
            self.say("\nLinks kept in mind: " + ", ".join(links))
        self.s.keep()

    async def clean(self):
        """After a cancel: stop what runs, then close the open tool calls."""
        if self.child and self.child.returncode is None:
            os.killpg(self.child.pid, 9)
            await self.child.wait()
        if self.term:
            term, self.term = self.term, None
            for method in ("terminal/kill", "terminal/release"):
                if FAULT == "ibis-kill-only" and method == "terminal/release":
                    continue  # killing is thought to be enough
                try:
                    await asyncio.wait_for(ask(method, **term), 3)
                except (Fail, asyncio.TimeoutError):
                    pass
        for tid in list(self.open):
            self.step(tid, "failed")

    async def do_chat(self):
        self.say("I am an ibis and I wade through your project. You said %d thing(s) so far." % len(self.s.past["said"]))

    async def do_where(self):
        self.say("Standing in " + self.s.cwd)

    async def do_remember(self, word):
        self.s.past["facts"].append(word)
        self.say("Kept: " + word)

    async def do_recall(self):
        self.say("I kept: " + ", ".join(self.s.past["facts"]) if self.s.past["facts"] else "Nothing was given to me to keep.")

    async def do_count(self, n):
        for i in range(1, n + 1):
            self.say("%d, " % i)
            await asyncio.sleep(0.3)

    async def do_story(self):
        for i in range(1, 70):
            self.say("Verse %d: long legs, still water, and one more step. " % i)
            await asyncio.sleep(0.25)

    async def do_plan(self):
        steps = ("Wade in", "Probe the mud", "Step out")
        for i in range(4):
            self.plan(i, *steps)
            await asyncio.sleep(0.08)
        self.say("Three steps, all taken.")

    async def do_slash(self, name):
        if name != "compact":
            return self.say("Unknown command /%s." % name)
        if isinstance(cap("session", "compaction"), dict):
            cid = uuid.uuid4().hex
            self.s.update("compaction_update", compactionId=cid, status="in_progress")
            self.s.update("compaction_summary_chunk", compactionId=cid, content={"type": "text", "text": "%d requests so far." % len(self.s.past["said"])})
            self.s.update("compaction_update", compactionId=cid, status="completed")
        self.s.past["said"] = self.s.past["said"][-3:]
        self.say("Compacted.")

    async def do_read(self, path):
        steps = ("Find %s" % path, "Report")
        self.plan(0, *steps)
        full, inside = self.where(path)
        tid = self.call("read " + path, "read", locations=[{"path": full}])
        if not inside:
            self.step(tid, "failed", "outside the working directory")
            return self.say("I stay inside %s." % self.s.cwd)
        self.step(tid, "in_progress")
        try:
            text = await self.fetch(full)
        except (Fail, OSError, UnicodeError) as e:
            self.step(tid, "failed", str(e))
            return self.say("%s cannot be read." % path)
        self.step(tid, "completed", text[:5000])
        self.plan(1, *steps)
        self.say("Content of %s:\n%s" % (path, text[:3000]))
        self.plan(2, *steps)

    async def fetch(self, full):
        if cap("fs", "readTextFile") is not True:
            with open(full, encoding="utf-8") as f:
                return f.read()
        text, last = "", None
        for page in range(40):  # the file is fetched in slices
            part = (await ask("fs/read_text_file", sessionId=self.s.id, path=full, line=page * LIMIT + 1, limit=LIMIT)).get("content", "")
            if part == last:
                break
            text, last = text + part, part
            if len(part.splitlines()) != LIMIT:
                break
        return text

    async def store(self, full, text):
        may = cap("fs", "writeTextFile") is True
        if FAULT == "ibis-write-gate":
            may = bool(cap("fs"))  # "the client has a file system"
        if may:
            await ask("fs/write_text_file", sessionId=self.s.id, path=full, content=text)
        else:
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, "w", encoding="utf-8") as f:
                f.write(text)

    async def do_write(self, path, text, old=None):
        steps = ("Prepare the text", "Store %s" % path)
        self.plan(0, *steps)
        full, inside = self.where(path)
        tid = self.call("write " + path, "edit", locations=[{"path": full}], rawInput={"file": full})
        if not inside:
            self.step(tid, "failed", "outside the working directory")
            return self.say("I stay inside %s." % self.s.cwd)
        self.step(tid, "in_progress")
        self.plan(1, *steps)
        try:
            if old is None and os.path.exists(full):
                old = await self.fetch(full)
            await self.store(full, text)
        except (Fail, OSError, UnicodeError) as e:
            self.step(tid, "failed", str(e))
            return self.say("%s could not be stored." % path)
        self.step(tid, "completed", content=[{"type": "diff", "path": full, "oldText": old, "newText": text}])
        self.plan(2, *steps)
        self.say("Stored %s." % path)

    async def do_edit(self, path, a, b):
        full, inside = self.where(path)
        try:
            old = await self.fetch(full) if inside else ""
        except (Fail, OSError, UnicodeError):
            old = ""
        if a not in old:
            return self.say("I do not find that text in %s." % path)
        await self.do_write(path, old.replace(a, b), old)

    async def do_list(self):
        tid = self.call("look around", "search", status="in_progress")
        names = sorted(os.listdir(self.s.cwd)) if os.path.isdir(self.s.cwd) else []
        self.step(tid, "completed", "\n".join(names))
        self.say("Here are: " + ", ".join(names))

    async def do_run(self, command):
        steps = ("Ask for leave", "Run it", "Report")
        self.plan(0, *steps)
        tid = self.call(command, "execute", rawInput=command)
        if command.split()[0] not in self.s.past["trusted"]:
            opts = [{"optionId": "yes", "name": "Run it", "kind": "allow_once"}, {"optionId": "trust", "name": "Always run %s" % command.split()[0],
                    "kind": "allow_always"}, {"optionId": "no", "name": "Do not run it", "kind": "reject_once"}]
            try:
                out = (await ask("session/request_permission", sessionId=self.s.id, toolCall={"toolCallId": tid}, options=opts)).get("outcome") or {}
            except Fail:
                out = {"outcome": "selected", "optionId": "no"}
            if out.get("outcome") == "cancelled":
                raise Quit()
            if out.get("optionId") == "trust":
                self.s.past["trusted"].append(command.split()[0])
            elif out.get("optionId") != "yes":
                self.step(tid, "failed", "refused")
                return self.say("Then not.")
        self.plan(1, *steps)
        if cap("terminal") is True:
            try:
                made = asyncio.ensure_future(ask("terminal/create", sessionId=self.s.id, command="sh", args=["-c", command], cwd=self.s.cwd,
                                                 env=[{"name": "IBIS", "value": "1"}], outputByteLimit=30000))
                try:
                    term = await asyncio.shield(made)
                except asyncio.CancelledError:  # still learn the id, so that it can be released
                    try:
                        self.term = {"sessionId": self.s.id, "terminalId": (await asyncio.wait_for(made, 3))["terminalId"]}
                    except (Fail, KeyError, asyncio.TimeoutError):
                        pass
                    raise
                self.term = {"sessionId": self.s.id, "terminalId": term["terminalId"]}
                self.step(tid, "in_progress", content=[{"type": "terminal", "terminalId": term["terminalId"]}])
                code = (await ask("terminal/wait_for_exit", **self.term)).get("exitCode")
                text = (await ask("terminal/output", **self.term)).get("output", "")
            except (Fail, KeyError) as e:
                code, text = None, str(e)
            if self.term:
                term, self.term = self.term, None
                try:
                    await asyncio.shield(ask("terminal/release", **term))
                except Fail:
                    pass
        else:
            self.step(tid, "in_progress")
            self.child = await asyncio.create_subprocess_exec("sh", "-c", command, cwd=self.s.cwd, stdin=DEVNULL, stdout=PIPE, stderr=STDOUT, start_new_session=True)
            procs.add(self.child)
            text = (await self.child.communicate())[0].decode("utf-8", "replace")
            code = self.child.returncode
        self.step(tid, "completed" if code == 0 else "failed", text or "(silence)")
        self.plan(2, *steps)
        self.say("Finished with %s:\n%s" % (code, text[:3000]))
        self.plan(3, *steps)

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
        tid = self.call("%s / %s" % (server.name, tool), "fetch", name=tool, rawInput=args, status="in_progress")
        try:
            res = await server.rpc("tools/call", name=tool, arguments=args)
            text = "\n".join(c.get("text", "") for c in res.get("content", []))
            self.step(tid, "failed" if res.get("isError") is True else "completed", text)
            self.say("%s gave: %s" % (tool, text))
        except (OSError, asyncio.TimeoutError):
            self.step(tid, "failed", "no answer")
            self.say("%s gave no answer." % tool)


# ------------------------------------------------------------------ methods
def string(p, key):
    if not isinstance(p.get(key), str):
        raise Fail(-32602, "Invalid params: %s" % key)
    return p[key]


def place(p, servers):
    if not os.path.isabs(string(p, "cwd")):
        raise Fail(-32602, "Invalid params: cwd is not absolute")
    if not isinstance(servers, list):
        raise Fail(-32602, "Invalid params: mcpServers")
    for c in servers:
        if not (isinstance(c, dict) and isinstance(c.get("name"), str) and isinstance(c.get("command"), str) and c.get("type", "stdio") == "stdio"):
            raise Fail(-32602, "Invalid params: only stdio servers are supported")
    return p["cwd"], servers


async def initialize(p, rid):
    global caps, ready
    v = p.get("protocolVersion")
    if type(v) is not int or not 0 <= v <= 65535:
        raise Fail(-32602, "Invalid params: protocolVersion")
    caps, ready = p.get("clientCapabilities") if isinstance(p.get("clientCapabilities"), dict) else {}, True
    res = {"protocolVersion": 1, "agentInfo": {"name": "ibis", "title": "Ibis", "version": "2.0"},
           "agentCapabilities": {"loadSession": False, "promptCapabilities": {}, "mcpCapabilities": {}, "sessionCapabilities": {"resume": {}}}, "authMethods": []}
    offer = cap("terminal") is True if FAULT == "ibis-terminal-login" else cap("auth", "terminal") is True
    if offer:  # optional; everything works without it
        res["authMethods"].append({"type": "terminal", "id": "ibis-shell", "name": "Log in in a terminal", "args": ["--login"], "env": {"IBIS_LOGIN": "1"}})
    return res


async def new(p, rid):
    cwd, servers = place(p, p.get("mcpServers"))
    s = Session(str(uuid.uuid4()), cwd, servers)
    sessions[s.id] = s
    asyncio.get_running_loop().call_later(0.05, lambda: s.update("available_commands_update", availableCommands=[
        {"name": "compact", "description": "Shorten the memory of this session", "input": None}]))
    return {"sessionId": s.id, "_meta": {"ibis/feathers": 3}}


async def resume(p, rid):
    sid = string(p, "sessionId")
    cwd, servers = place(p, [] if p.get("mcpServers") is None else p["mcpServers"])
    file = os.path.join(HOME, sid + ".json")
    if not re.fullmatch(r"[0-9a-f-]{36}", sid) or not os.path.exists(file):
        raise Fail(-32002, "Session not found", {"sessionId": sid})
    if sid in sessions:
        for t in list(sessions[sid].turns):
            stop(t)
        sessions[sid].drop()
    with open(file, encoding="utf-8") as f:
        sessions[sid] = Session(sid, cwd, servers, json.load(f)["past"])
    return {}


async def prompt(p, rid):
    sid = string(p, "sessionId")
    if sid not in sessions:
        raise Fail(-32002, "Session not found", {"sessionId": sid})
    blocks = p.get("prompt")
    if not isinstance(blocks, list):
        raise Fail(-32602, "Invalid params: prompt")
    for b in blocks:
        t = b.get("type") if isinstance(b, dict) else None
        if not (t == "text" and isinstance(b.get("text"), str) or t == "resource_link" and isinstance(b.get("uri"), str) and isinstance(b.get("name"), str)):
            raise Fail(-32602, "Invalid params: unsupported content block")
    turn = Turn(sessions[sid])
    turn.task = asyncio.ensure_future(turn.run(blocks))
    sessions[sid].turns.add(turn)
    try:
        await turn.task
        return {"stopReason": "end_turn"}
    except (asyncio.CancelledError, Quit):
        return {"stopReason": "cancelled"}
    finally:
        sessions[sid].turns.discard(turn)


def stop(turn):
    if not turn.stopping:
        turn.stopping = True
        turn.task.cancel()


METHODS = {"initialize": initialize, "session/new": new, "session/resume": resume, "session/prompt": prompt}


async def serve(msg):
    method, params = msg["method"], msg.get("params")
    if "id" not in msg:
        if method == "session/cancel" and isinstance(params, dict) and isinstance(params.get("sessionId"), str) and params["sessionId"] in sessions:
            for t in list(sessions[params["sessionId"]].turns):
                stop(t)
        return
    try:
        if method not in METHODS:
            raise Fail(-32601, "Method not found")
        if not ready and method != "initialize":
            raise Fail(-32600, "Not initialized")
        if params is not None and not isinstance(params, dict):
            raise Fail(-32602 if isinstance(params, list) else -32600, "Params must be an object")
        send(id=msg["id"], result=await METHODS[method](params or {}, msg["id"]))
    except Fail as e:
        send(id=msg["id"], error=dict(code=e.code, message=str(e), **({"data": e.data} if e.data else {})))
    except Exception as e:
        print(repr(e), file=sys.stderr, flush=True)
        send(id=msg["id"], error={"code": -32603, "message": "Internal error"})


def spawn(coro):
    t = asyncio.ensure_future(coro)
    tasks.add(t)
    t.add_done_callback(tasks.discard)


def take(line):
    def refuse(code, message, rid=None):
        send(id=rid, error={"code": code, "message": message})
    try:
        msg = json.loads(line.decode("utf-8"))
    except ValueError:
        return refuse(-32700, "Parse error")
    rid = msg.get("id") if isinstance(msg, dict) else None
    if not isinstance(msg, dict) or isinstance(rid, (bool, float, dict, list)):
        return refuse(-32600, "Invalid request")
    if "method" not in msg and ("result" in msg or "error" in msg):
        fut = pending.get(rid)
        if fut and not fut.done():
            err = msg.get("error")
            fut.set_exception(Fail(err.get("code"), str(err.get("message")))) if isinstance(err, dict) else fut.set_result(msg.get("result"))
        return
    if msg.get("jsonrpc") != "2.0" or not isinstance(msg.get("method"), str):
        return refuse(-32600, "Invalid request", rid)
    spawn(serve(msg))


async def main():
    reader = asyncio.StreamReader(limit=2 ** 27)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        if line.strip():
            take(line)
    for p in procs:
        try:
            p.kill()
        except (ProcessLookupError, OSError):
            pass
    os._exit(0)


if "--login" in sys.argv:
    print("ibis: logged in, nothing else to do.")
    sys.exit(0)
asyncio.run(main())
