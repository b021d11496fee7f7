#!/usr/bin/env python3
"""ledger: keeps its sessions in memory as a ledger of entries; streams letter by letter."""
import asyncio, base64, contextlib, datetime, json, os, re, signal, sys, threading, uuid

FAULT = os.environ.get("FAULT", "")
PAGE = 5


class RpcError(Exception):
    def __init__(self, code, message, data=None):
        super().__init__(message)
        self.code, self.message, self.data = code, message, data


def bad(what):
    return RpcError(-32602, "Invalid params: " + what)


def now():
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def write(msg):
    data = json.dumps({"jsonrpc": "2.0", **msg}, separators=(",", ":")).encode("ascii") + b"\n"
    try:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    except OSError:
        os._exit(0)


class McpLink:
    def __init__(self, spec, cwd):
        self.spec, self.cwd = spec, cwd
        self.proc, self.waiting, self.n, self.tools = None, {}, 0, {}
        self.task = asyncio.create_task(self.connect())

    async def connect(self):
        try:
            env = dict(os.environ)
            env.update({v["name"]: v["value"] for v in self.spec.get("env") or []})
            self.proc = await asyncio.create_subprocess_exec(
                self.spec["command"], *(self.spec.get("args") or []), env=env, limit=1 << 24,
                cwd=self.cwd if os.path.isdir(self.cwd) else None, start_new_session=True,
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL)
            self.reader = asyncio.create_task(self.read())
            await self.call("initialize", {"protocolVersion": "2025-06-18", "capabilities": {},
                                           "clientInfo": {"name": "ledger", "version": "2.3"}})
            self.put({"method": "notifications/initialized"})
            for t in (await self.call("tools/list", {})).get("tools", []):
                self.tools[t["name"]] = t
        except Exception as e:
            print("mcp server", self.spec.get("name"), "unusable:", repr(e), file=sys.stderr)

    async def read(self):
        while line := await self.proc.stdout.readline():
            try:
                m = json.loads(line)
            except ValueError:
                continue
            if "method" in m:
                if "id" in m:
                    self.put({"id": m["id"], "result": {}} if m["method"] == "ping" else
                             {"id": m["id"], "error": {"code": -32601, "message": "Method not found"}})
            elif (f := self.waiting.pop(m.get("id"), None)) and not f.done():
                f.set_result(m)
        for f in self.waiting.values():
            if not f.done():
                f.set_result({"error": {"message": "server gone"}})

    def put(self, m):
        self.proc.stdin.write(json.dumps({"jsonrpc": "2.0", **m}).encode() + b"\n")

    async def call(self, method, params, timeout=10):
        self.n += 1
        f = self.waiting[self.n] = asyncio.get_running_loop().create_future()
        self.put({"id": self.n, "method": method, "params": params})
        m = await asyncio.wait_for(f, timeout)
        if "error" in m:
            raise RuntimeError(str(m["error"].get("message")))
        return m["result"]

    def stop(self):
        self.task.cancel()
        if self.proc and self.proc.returncode is None:
            with contextlib.suppress(OSError):
                os.killpg(self.proc.pid, signal.SIGKILL)


class Session:
    def __init__(self, sid, cwd, roots):
        self.id, self.cwd, self.roots = sid, cwd, roots
        self.entries, self.title, self.word, self.updated = [], None, None, now()
        self.mcp, self.active = [], True
        self.queue, self.running, self.proc = [], None, None
        self.begun = self.doomed = False
        self.calls = 0

    def update(self, u):
        write({"method": "session/update", "params": {"sessionId": self.id, "update": u}})


class Agent:
    def __init__(self):
        self.sessions, self.ready = {}, False
        self.methods = {"initialize": self.initialize, "session/new": self.new, "session/load": self.load,
                        "session/resume": self.resume, "session/list": self.list, "session/close": self.close,
                        "session/delete": self.delete}

    # ---- plumbing
    def line(self, raw):
        if not raw.strip():
            return
        try:
            m = json.loads(raw.decode("utf-8"))
        except (ValueError, RecursionError):
            return self.fail(None, RpcError(-32700, "Parse error"))
        if not isinstance(m, dict):
            return self.fail(None, RpcError(-32600, "Invalid request"))
        if "method" not in m and ("result" in m or "error" in m):
            return  # this agent asks nothing
        i = m.get("id")
        good = i is None or isinstance(i, str) or type(i) is int
        if m.get("jsonrpc") != "2.0" or not isinstance(m.get("method"), str) or not good \
                or not isinstance(m.get("params"), (dict, list, type(None))):
            return self.fail(i if good else None, RpcError(-32600, "Invalid request"))
        p = m.get("params")
        if "id" not in m:
            if m["method"] == "session/cancel" and isinstance(p, dict) and isinstance(p.get("sessionId"), str):
                if s := self.sessions.get(p["sessionId"]):
                    self.cancel(s)
            return
        try:
            f = self.methods.get(m["method"])
            if f is None and m["method"] != "session/prompt":
                raise RpcError(-32601, "Method not found")
            if not self.ready and m["method"] != "initialize":
                raise RpcError(-32600, "The connection is not initialized")
            if p is None and m["method"] == "session/list":
                p = {}
            if not isinstance(p, dict):
                raise bad("an object is expected")
            if f:
                r = f(p)
                if asyncio.iscoroutine(r):
                    asyncio.create_task(self.later(i, r))
                else:
                    write({"id": i, "result": r})
            else:
                self.prompt(i, p)
        except RpcError as e:
            self.fail(i, e)
        except Exception as e:
            print(repr(e), file=sys.stderr)
            self.fail(i, RpcError(-32603, "Internal error"))

    async def later(self, i, r):
        try:
            write({"id": i, "result": await r})
        except RpcError as e:
            self.fail(i, e)

    def fail(self, i, e):
        err = {"code": e.code, "message": e.message}
        if e.data is not None:
            err["data"] = e.data
        write({"id": i, "error": err})

    def find(self, p, active=True):
        sid = p.get("sessionId")
        if not isinstance(sid, str):
            raise bad("sessionId is not a string")
        s = self.sessions.get(sid)
        if s is None or (active and not s.active):
            raise RpcError(-32002, "Session not found", {"sessionId": sid})
        return s

    # ---- methods
    def initialize(self, p):
        v = p.get("protocolVersion")
        if type(v) is not int or not 0 <= v <= 65535:
            raise bad("protocolVersion is not an unsigned 16-bit integer")
        self.ready = True
        return {"protocolVersion": 1, "agentInfo": {"name": "ledger", "title": "Ledger", "version": "2.3.0"},
                "agentCapabilities": {"loadSession": True, "promptCapabilities": {"embeddedContext": True},
                                      "sessionCapabilities": {"list": {}, "resume": {}, "close": {}, "delete": {},
                                                              "additionalDirectories": {}}}}

    def setup(self, p, servers_required=True):
        cwd = p.get("cwd")
        if not isinstance(cwd, str) or not os.path.isabs(cwd):
            raise bad("cwd is not an absolute path")
        extra = p.get("additionalDirectories")
        extra = [] if extra is None else extra
        if not isinstance(extra, list) or not all(isinstance(d, str) and os.path.isabs(d) for d in extra):
            raise bad("additionalDirectories must be absolute paths")
        if servers_required and "mcpServers" not in p:
            raise bad("mcpServers is missing")
        specs = p.get("mcpServers")
        specs = [] if specs is None else specs
        if not isinstance(specs, list):
            raise bad("mcpServers is not a list")
        for s in specs:
            if not isinstance(s, dict) or s.get("type", "stdio") != "stdio":
                raise bad("only stdio MCP servers are supported")
            if not isinstance(s.get("name"), str) or not isinstance(s.get("command"), str) \
                    or not isinstance(s.get("args") or [], list) or not isinstance(s.get("env") or [], list) \
                    or not all(isinstance(a, str) for a in s.get("args") or []) \
                    or not all(isinstance(e, dict) and isinstance(e.get("name"), str) and isinstance(e.get("value"), str)
                               for e in s.get("env") or []):
                raise bad("malformed MCP server")
        return cwd, extra, specs

    def attach(self, s, cwd, extra, specs):
        for m in s.mcp:
            m.stop()
        s.cwd, s.roots, s.active = cwd, extra, True
        s.mcp = [McpLink(x, cwd) for x in specs]

    def new(self, p):
        cwd, extra, specs = self.setup(p)
        s = Session(str(uuid.uuid4()), cwd, extra)
        self.sessions[s.id] = s
        self.attach(s, cwd, extra, specs)
        return {"sessionId": s.id}

    def load(self, p):
        args = self.setup(p)
        s = self.find(p, active=False)
        if s.running:
            raise RpcError(-32600, "The session is busy with a turn")
        self.attach(s, *args)
        for e in s.entries:
            s.update(e)
        return {}

    def resume(self, p):
        args = self.setup(p, servers_required=False)
        s = self.find(p, active=False)
        if s.running:
            raise RpcError(-32600, "The session is busy with a turn")
        self.attach(s, *args)
        return {}

    def list(self, p):
        cwd, cur = p.get("cwd"), p.get("cursor")
        if cwd is not None and not isinstance(cwd, str):
            raise bad("cwd is not a string")
        lst = [s for s in self.sessions.values() if cwd is None or s.cwd == cwd]
        start = 0
        if cur is not None:
            try:
                key = base64.b64decode(cur, validate=True).decode()
                start = [s.id for s in lst].index(key) + 1
            except (ValueError, TypeError):
                raise bad("unknown cursor")
        page = lst[start:start + PAGE]
        r = {"sessions": []}
        for s in page:
            info = {"sessionId": s.id, "cwd": s.cwd, "updatedAt": s.updated}
            if s.roots:
                info["additionalDirectories"] = s.roots
            if s.title:
                info["title"] = s.title
            r["sessions"].append(info)
        if start + PAGE < len(lst):
            r["nextCursor"] = base64.b64encode(page[-1].id.encode()).decode()
        return r

    async def end(self, s, why):
        """Stop everything a session does."""
        s.active = False
        task = s.running
        self.cancel(s, why)
        for m in s.mcp:
            m.stop()
        s.mcp = []
        if task:
            await asyncio.wait([task])

    def close(self, p):
        return self.closing(self.find(p))

    async def closing(self, s):
        await self.end(s, "close")
        return {}

    def delete(self, p):
        sid = p.get("sessionId")
        if not isinstance(sid, str):
            raise bad("sessionId is not a string")
        s = self.sessions.pop(sid, None)
        return self.closing(s) if s else {}

    # ---- turns
    def prompt(self, i, p):
        blocks = p.get("prompt")
        if not isinstance(p.get("sessionId"), str) or not isinstance(blocks, list):
            raise bad("sessionId and prompt are needed")
        clean, text = [], []
        for b in blocks:
            t = b.get("type") if isinstance(b, dict) else None
            if t == "text" and isinstance(b.get("text"), str):
                clean.append({"type": "text", "text": b["text"]})
                text.append(b["text"])
            elif t == "resource_link" and isinstance(b.get("uri"), str) and isinstance(b.get("name"), str):
                clean.append({"type": t, "uri": b["uri"], "name": b["name"]})
                text.append(b["name"])
            elif t == "resource" and isinstance(b.get("resource"), dict) and isinstance(b["resource"].get("uri"), str) \
                    and (isinstance(b["resource"].get("text"), str) or isinstance(b["resource"].get("blob"), str)):
                clean.append({"type": t, "resource": {k: v for k, v in b["resource"].items()
                                                      if k in ("uri", "text", "blob", "mimeType")}})
            else:
                raise bad("content block not supported or malformed")
        s = self.find(p)
        s.queue.append((i, clean, "\n".join(text)))
        self.next(s)

    def next(self, s):
        if s.running is None and s.queue:
            job = s.queue.pop(0)
            s.begun = s.doomed = False
            s.running = asyncio.create_task(self.turn(s, *job))

    def cancel(self, s, why="cancel"):
        if s.running:
            if s.proc and not (why == "close" and FAULT == "close-orphan"):
                with contextlib.suppress(OSError):
                    os.killpg(s.proc.pid, signal.SIGKILL)
            if s.begun:
                s.running.cancel()
            else:
                s.doomed = True
        waiting, s.queue = s.queue, []
        if FAULT == "cancel-queue":
            return
        for i, clean, _ in waiting:
            self.note_user(s.entries, clean)
            write({"id": i, "result": {"stopReason": "cancelled"}})

    def note_user(self, book, clean):
        mid = str(uuid.uuid4())
        for b in clean:
            book.append({"sessionUpdate": "user_message_chunk", "content": b, "messageId": mid})

    async def turn(self, s, i, clean, text):
        book = [] if FAULT == "replay-cancelled" else s.entries
        stop = "end_turn"
        try:
            s.begun = True
            self.note_user(book, clean)
            s.updated = now()
            if s.doomed:
                raise asyncio.CancelledError
            if s.title is None and text.strip():
                s.title = " ".join(text.split())[:40]
                s.update({"sessionUpdate": "session_info_update", "title": s.title, "updatedAt": s.updated})
            await asyncio.sleep(0.01)
            await self.wish(s, text, book)
        except asyncio.CancelledError:
            stop = "cancelled"
        except Exception as e:
            print(repr(e), file=sys.stderr)
            self.fail(i, RpcError(-32603, "Internal error"))
            stop = None
        if book is not s.entries and stop == "end_turn":
            s.entries += book
        s.running = s.proc = None
        if stop:
            write({"id": i, "result": {"stopReason": stop}})
        self.next(s)

    async def say(self, s, book, text, gap=0.002):
        entry = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": ""}, "messageId": str(uuid.uuid4())}
        for ch in text:
            s.update({**entry, "content": {"type": "text", "text": ch}})
            if not entry["content"]["text"]:
                book.append(entry)
            entry["content"]["text"] += ch
            await asyncio.sleep(gap)

    def path(self, s, name):
        p = os.path.normpath(os.path.join(s.cwd, name))
        real = os.path.realpath(p)
        for r in [s.cwd, *s.roots]:
            r = os.path.realpath(r)
            if real == r or real.startswith(r.rstrip("/") + "/"):
                return p
        raise PermissionError(f"{p} is outside of the workspace")

    @contextlib.asynccontextmanager
    async def tool(self, s, book, title, kind, **more):
        s.calls += 1
        entry = {"sessionUpdate": "tool_call", "toolCallId": f"call_{s.calls}", "title": title, "kind": kind,
                 "status": "in_progress", **more}
        s.update(dict(entry))
        book.append(entry)
        done = {"status": "completed"}
        try:
            yield done
        except asyncio.CancelledError:
            done.clear()
            done.update(status="failed")
            raise
        except (OSError, RuntimeError, ValueError, asyncio.TimeoutError) as e:
            done.clear()
            done.update(status="failed", error=str(e) or type(e).__name__)
        finally:
            err = done.pop("error", None)
            if err:
                done["content"] = [{"type": "content", "content": {"type": "text", "text": err}}]
            s.update({"sessionUpdate": "tool_call_update", "toolCallId": entry["toolCallId"], **done})
            entry.update(done)
            if err:
                done["error"] = err

    async def wish(self, s, text, book):
        quoted = re.findall(r"`([^`]+)`|\"([^\"]+)\"|'([^']+)'", text)
        quoted = [next(x for x in q if x) for q in quoted]
        name = re.search(r"[`\"']?((?:/|\.{0,2}/)?[\w\-./]*[\w-]\.\w+|/[\w\-./]+)[`\"']?", text)
        if m := re.search(r"remember\b.*?\bword\b\W*(?:is\W+)?([\w-]+)", text, re.I | re.S):
            s.word = m[1]
            return await self.say(s, book, "Noted.")
        if re.search(r"\b(what|which|recall|repeat|tell)\b.*\bword\b", text, re.I | re.S):
            return await self.say(s, book, f"It was {s.word}." if s.word else "I know no word.")
        if re.search(r"\btool\b", text, re.I) and s.mcp:
            return await self.use_tool(s, text, book)
        if m := re.search(r"\b(?:run|execute)\b(?:.*?\bcommand\b)?:?\s*(.+)", text, re.I | re.S):
            cmd = quoted[0] if quoted and "`" in text else m[1].strip().strip("\"'")
            return await self.run(s, cmd, book)
        if name and re.search(r"\b(write|create|save)\b", text, re.I):
            rest = text[name.end():]
            m = re.search(r"\b(?:text|contents?|containing|saying)\b\W*?[:\s]\s*(.*)", rest, re.I | re.S)
            body = m[1].strip() if m else (quoted[-1] if quoted and quoted[-1] != name[1] else "hello")
            for q in quoted:
                if q != name[1] and q in body:
                    body = q
            return await self.write_file(s, name[1], body, book)
        if name and re.search(r"\b(read|show|open|print|contents?)\b", text, re.I):
            return await self.read_file(s, name[1], book)
        if re.search(r"\b(count|slow\w*|think|long|essay|story)\b", text, re.I):
            m = re.search(r"\b(\d{1,3})\b", text)
            for k in range(1, min(int(m[1]) if m else 30, 200) + 1):
                await self.say(s, book, f"{k} ")
                await asyncio.sleep(0.2)
            return
        await self.say(s, book, "I wrote that down in my ledger: " + " ".join(text.split())[:60])

    async def read_file(self, s, name, book):
        where = os.path.normpath(os.path.join(s.cwd, name))
        async with self.tool(s, book, f"Read {name}", "read", locations=[{"path": where}]) as done:
            with open(self.path(s, name), encoding="utf-8", errors="replace") as f:
                data = f.read(20000)
            done["content"] = [{"type": "content", "content": {"type": "text", "text": data}}]
        await self.say(s, book, f"I could not read it: {done['error']}" if "error" in done else f"The file says: {data[:300]}")

    async def write_file(self, s, name, body, book):
        where = os.path.normpath(os.path.join(s.cwd, name))
        async with self.tool(s, book, f"Write {name}", "edit", locations=[{"path": where}]) as done:
            p = self.path(s, name)
            old = None
            if os.path.exists(p):
                with open(p, encoding="utf-8", errors="replace") as f:
                    old = f.read()
            os.makedirs(os.path.dirname(p), exist_ok=True)
            with open(p, "w", encoding="utf-8") as f:
                f.write(body)
            done["content"] = [{"type": "diff", "path": p, "oldText": old, "newText": body}]
        await self.say(s, book, f"I could not write it: {done['error']}" if "error" in done else "Written.")

    async def run(self, s, cmd, book):
        out = b""
        async with self.tool(s, book, f"Run {cmd[:60]}", "execute", rawInput={"command": cmd}) as done:
            birth = asyncio.ensure_future(asyncio.create_subprocess_shell(
                cmd, cwd=s.cwd, start_new_session=True, stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT))
            try:
                s.proc = await asyncio.shield(birth)
            except asyncio.CancelledError:
                os.killpg((await birth).pid, signal.SIGKILL)
                raise
            out, _ = await s.proc.communicate()
            code, s.proc = s.proc.returncode, None
            text = out.decode("utf-8", "replace")[:20000]
            done["content"] = [{"type": "content", "content": {"type": "text", "text": text}}]
            if code:
                done["status"] = "failed"
                done["rawOutput"] = {"exitCode": code}
        if "error" in done:
            return await self.say(s, book, "It could not be started: " + done["error"])
        await self.say(s, book, ("It printed: " if not code else f"It failed with code {code}: ") + text[:200])

    async def use_tool(self, s, text, book):
        await asyncio.wait([m.task for m in s.mcp], timeout=8)
        for m in s.mcp:
            for name, t in m.tools.items():
                if re.search(r"\b" + re.escape(name) + r"\b", text):
                    args = {}
                    with contextlib.suppress(ValueError):
                        args = json.loads(text[text.index("{"):text.rindex("}") + 1])
                    if not args:
                        props = t.get("inputSchema", {}).get("properties", {})
                        fill = {"string": "hello", "integer": 1, "number": 1, "boolean": True}
                        args = {k: fill.get(props.get(k, {}).get("type"), "hello") for k in t.get("inputSchema", {}).get("required", [])}
                    said = ""
                    async with self.tool(s, book, f"Tool {name}", "other", rawInput=args) as done:
                        r = await m.call("tools/call", {"name": name, "arguments": args}, 60)
                        said = " ".join(c.get("text", "") for c in r.get("content", []))
                        done["content"] = [{"type": "content", "content": {"type": "text", "text": said}}]
                        if r.get("isError"):
                            done["status"] = "failed"
                    return await self.say(s, book, "The tool answered: " + (said or done.get("error", "nothing")))
        await self.say(s, book, "I have no such tool. I have: " + ", ".join(n for m in s.mcp for n in m.tools))


async def main():
    agent, loop, q = Agent(), asyncio.get_running_loop(), asyncio.Queue()

    def feed():
        for raw in sys.stdin.buffer:
            loop.call_soon_threadsafe(q.put_nowait, raw)
        loop.call_soon_threadsafe(q.put_nowait, None)

    threading.Thread(target=feed, daemon=True).start()
    while (raw := await q.get()) is not None:
        agent.line(raw)
    for s in agent.sessions.values():
        for m in s.mcp:
            m.stop()
        if s.proc:
            with contextlib.suppress(OSError):
                os.killpg(s.proc.pid, signal.SIGKILL)
    os._exit(0)

asyncio.run(main())
