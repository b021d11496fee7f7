"""heron: careful Python agent. In-memory sessions, asks before it changes anything, tiny chunks."""
import asyncio, json, os, re, signal, sys, uuid, logging
from acp import RequestError
from acp.agent import AgentSideConnection

FAULT = os.environ.get("FAULT", "")
MODES = [("ask", "Ask first"), ("auto", "Do it"), ("readonly", "Read only")]


class Pipe:
    """Message transport on stdin/stdout that also answers broken frames."""

    def __init__(self, reader):
        self.reader = reader

    async def send(self, message):
        sys.stdout.buffer.write((json.dumps(message, ensure_ascii=False) + "\n").encode())
        sys.stdout.buffer.flush()

    async def refuse(self, code, text, ident=None):
        await self.send({"jsonrpc": "2.0", "id": ident, "error": {"code": code, "message": text}})

    async def receive(self):
        while True:
            try:
                line = await self.reader.readline()
            except ValueError:
                await self.refuse(-32600, "Frame too long")
                continue
            if not line:
                return None
            if not line.strip():
                continue
            try:
                msg = json.loads(line)
            except Exception:
                await self.refuse(-32700, "Parse error")
                continue
            if not isinstance(msg, dict) or msg.get("jsonrpc") != "2.0":
                await self.refuse(-32600, "Invalid request")
                continue
            if "method" not in msg:
                if "id" in msg and ("result" in msg or "error" in msg):
                    return msg
                await self.refuse(-32600, "Invalid request")
                continue
            params = msg.get("params", {})
            ident = msg.get("id")
            if not isinstance(msg["method"], str) or isinstance(ident, (bool, float, dict, list)) or not (
                params is None or isinstance(params, (dict, list))
            ):
                if "id" in msg or not isinstance(msg["method"], str):
                    await self.refuse(-32600, "Invalid request")
                continue
            if isinstance(params, dict):
                params.pop("_meta", None)
                if msg["method"] == "initialize" and "id" in msg and type(params.get("protocolVersion")) is not int:
                    await self.refuse(-32602, "protocolVersion must be an integer", ident)
                    continue
            return msg

    async def close(self):
        pass


class Mcp:
    """One stdio MCP server."""

    def __init__(self, spec, cwd):
        self.spec, self.cwd, self.tools, self.n = spec, cwd, [], 0
        self.proc = None
        self.lock = asyncio.Lock()

    async def start(self):
        env = dict(os.environ)
        env.update({e.name: e.value for e in self.spec.env or []})
        self.proc = await asyncio.create_subprocess_exec(
            self.spec.command, *(self.spec.args or []), cwd=self.cwd, env=env, limit=1 << 22,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL)
        await self.call("initialize", {"protocolVersion": "2025-06-18", "capabilities": {},
                                       "clientInfo": {"name": "heron", "version": "1.0.0"}})
        self.post({"jsonrpc": "2.0", "method": "notifications/initialized"})
        self.tools = (await self.call("tools/list", {})).get("tools", [])

    def post(self, obj):
        self.proc.stdin.write((json.dumps(obj) + "\n").encode())

    async def call(self, method, params):
        async with self.lock:
            self.n += 1
            self.post({"jsonrpc": "2.0", "id": self.n, "method": method, "params": params})
            await self.proc.stdin.drain()
            while True:
                line = await asyncio.wait_for(self.proc.stdout.readline(), 20)
                if not line:
                    raise RuntimeError("MCP server went away")
                msg = json.loads(line)
                if msg.get("id") == self.n and "method" not in msg:
                    if "error" in msg:
                        raise RuntimeError(msg["error"].get("message", "MCP error"))
                    return msg.get("result") or {}

    async def stop(self):
        if self.proc and self.proc.returncode is None:
            try:
                self.proc.stdin.close()
                await asyncio.wait_for(self.proc.wait(), 0.5)
            except Exception:
                try:
                    self.proc.kill()
                except ProcessLookupError:
                    pass


class Cancelled(Exception):
    pass


class Session:
    def __init__(self, sid, cwd):
        self.id, self.cwd, self.mode, self.style = sid, cwd, "ask", "short"
        self.option_mode = "ask"
        self.history, self.title, self.words = [], None, {}
        self.mcp, self.turn, self.cancel, self.open = [], None, asyncio.Event(), True
        self.calls = 0


class Heron:
    def __init__(self):
        self.sessions, self.ready, self.caps, self.shared_mode = {}, False, None, "ask"

    def on_connect(self, conn):
        self.conn = conn

    # ---- state
    def mode_of(self, s):
        return self.shared_mode if FAULT == "heron-mode-leak" else s.mode

    def set_mode(self, s, m):
        s.mode = m
        self.shared_mode = m

    def state(self, s):
        return {"modes": {"currentModeId": self.mode_of(s), "availableModes": [{"id": i, "name": n} for i, n in MODES]},
                "configOptions": self.options(s)}

    def options(self, s):
        m = s.option_mode if FAULT == "heron-config-desync" else self.mode_of(s)
        return [{"id": "mode", "name": "Mode", "category": "mode", "type": "select", "currentValue": m,
                 "options": [{"value": i, "name": n} for i, n in MODES]},
                {"id": "style", "name": "Answer style", "type": "select", "currentValue": s.style,
                 "options": [{"value": "short", "name": "Short"}, {"value": "long", "name": "Long"}]}]

    def need(self, sid, live=True):
        if not self.ready:
            raise RequestError.invalid_request({"details": "initialize first"})
        s = self.sessions.get(sid)
        if s is None or (live and not s.open):
            raise RequestError(-32002, "Session not found", {"sessionId": sid})
        return s

    def folder(self, cwd):
        if not self.ready:
            raise RequestError.invalid_request({"details": "initialize first"})
        if not os.path.isabs(cwd):
            raise RequestError(-32602, "cwd must be absolute")

    async def connect_mcp(self, s, servers):
        old, s.mcp = s.mcp, []
        for m in old:
            await m.stop()
        for spec in servers or []:
            if not hasattr(spec, "command"):
                raise RequestError(-32602, "Only stdio MCP servers are supported")
        for spec in servers or []:
            m = Mcp(spec, s.cwd)
            try:
                await m.start()
                s.mcp.append(m)
            except Exception as e:
                logging.error("mcp %s: %s", spec.name, e)
                await m.stop()

    # ---- protocol methods
    async def initialize(self, protocol_version, client_capabilities=None, client_info=None, **_):
        self.ready, self.caps = True, client_capabilities
        return {"protocolVersion": 1, "authMethods": [],
                "agentInfo": {"name": "heron", "title": "Heron", "version": "1.0.0"},
                "agentCapabilities": {"loadSession": True,
                                      "promptCapabilities": {"image": False, "audio": False, "embeddedContext": True},
                                      "mcpCapabilities": {"http": False, "sse": False},
                                      "sessionCapabilities": {"list": {}, "resume": {}, "close": {}}}}

    async def new_session(self, cwd, mcp_servers=None, additional_directories=None, **_):
        self.folder(cwd)
        s = Session(str(uuid.uuid4()), cwd)
        await self.connect_mcp(s, mcp_servers)
        self.sessions[s.id] = s
        return {"sessionId": s.id, **self.state(s)}

    async def load_session(self, cwd, session_id, mcp_servers=None, additional_directories=None, **_):
        self.folder(cwd)
        s = self.need(session_id, live=False)
        if s.turn:
            raise RequestError(-32600, "A turn is running in this session")
        if not (FAULT == "heron-load-cwd" and s.open):
            s.cwd = cwd
        await self.connect_mcp(s, mcp_servers)
        s.open = True
        turns = [i for i, u in enumerate(s.history) if u["sessionUpdate"] == "user_message_chunk"]
        cut = len(s.history)
        if FAULT == "heron-load-tail" and len(turns) > 1:
            cut = turns[-1]

            async def tail(rest):
                await asyncio.sleep(0.12)
                for u in rest:
                    await self.conn.session_update(s.id, u)
            asyncio.get_running_loop().create_task(tail(list(s.history[cut:])))
        for u in s.history[:cut]:
            await self.conn.session_update(s.id, u)
        return self.state(s)

    async def resume_session(self, session_id, cwd, mcp_servers=None, additional_directories=None, **_):
        self.folder(cwd)
        s = self.need(session_id, live=False)
        if s.turn:
            raise RequestError(-32600, "A turn is running in this session")
        s.cwd = cwd
        await self.connect_mcp(s, mcp_servers)
        s.open = True
        return self.state(s)

    async def list_sessions(self, cwd=None, cursor=None, **_):
        if not self.ready:
            raise RequestError.invalid_request({"details": "initialize first"})
        start = 0
        if cursor is not None:
            m = re.fullmatch(r"heron:(\d+)", cursor)
            if not m:
                raise RequestError(-32602, "Unknown cursor")
            start = int(m[1])
        found = [s for s in self.sessions.values() if cwd is None or s.cwd == cwd]
        out = {"sessions": [{"sessionId": s.id, "cwd": s.cwd, **({"title": s.title} if s.title else {})}
                            for s in found[start:start + 50]]}
        if len(found) > start + 50:
            out["nextCursor"] = f"heron:{start + 50}"
        return out

    async def close_session(self, session_id, **_):
        s = self.need(session_id, live=False)
        s.cancel.set()
        if s.turn:
            await asyncio.wait([s.turn], timeout=5)
        s.open = False
        for m in s.mcp:
            await m.stop()
        s.mcp = []
        return {}

    async def set_session_mode(self, session_id, mode_id, **_):
        s = self.need(session_id)
        if mode_id not in dict(MODES):
            raise RequestError(-32602, "Unknown mode")
        self.set_mode(s, mode_id)
        s.option_mode = mode_id
        await self.conn.session_update(s.id, {"sessionUpdate": "config_option_update", "configOptions": self.options(s)})
        return {}

    async def set_config_option(self, config_id, session_id, value, **_):
        s = self.need(session_id)
        opt = next((o for o in self.options(s) if o["id"] == config_id), None)
        if opt is None or value not in [o["value"] for o in opt["options"]]:
            raise RequestError(-32602, "Unknown option or value")
        if config_id == "style":
            s.style = value
        else:
            s.option_mode = value
            if FAULT != "heron-config-desync":
                self.set_mode(s, value)
                await self.conn.session_update(s.id, {"sessionUpdate": "current_mode_update", "currentModeId": value})
        return {"configOptions": self.options(s)}

    async def ext_method(self, method, params):
        raise RequestError.method_not_found("_" + method)

    async def ext_notification(self, method, params):
        pass

    async def cancel(self, session_id, **_):
        s = self.sessions.get(session_id)
        if s and s.turn:
            s.cancel.set()

    async def prompt(self, session_id, prompt, **_):
        s = self.need(session_id)
        if s.turn:
            raise RequestError(-32600, "A turn is already running in this session")
        s.cancel.clear()
        done = asyncio.get_running_loop().create_future()
        s.turn = done
        try:
            reason = await self.run_turn(s, prompt)
        finally:
            s.turn = None
            if not done.done():
                done.set_result(None)
        return {"stopReason": reason}

    # ---- one turn
    async def emit(self, s, u, keep=True):
        if keep:
            s.history.append(u)
        await self.conn.session_update(s.id, u)

    async def say(self, s, text):
        mid = str(uuid.uuid4())
        s.history.append({"sessionUpdate": "agent_message_chunk", "messageId": mid, "content": {"type": "text", "text": text}})
        step = max(7, len(text) // 80)
        for i in range(0, len(text), step):
            await self.conn.session_update(s.id, {"sessionUpdate": "agent_message_chunk", "messageId": mid,
                                                  "content": {"type": "text", "text": text[i:i + step]}})
            if i and (i // step) % 10 == 0:
                await self.pause(s, 0.002)

    async def pause(self, s, secs):
        try:
            await asyncio.wait_for(s.cancel.wait(), secs)
        except asyncio.TimeoutError:
            return
        raise Cancelled

    async def race(self, s, coro, grace=1.0):
        """Await coro, but give up when the turn is cancelled."""
        task = asyncio.ensure_future(coro)
        stop = asyncio.ensure_future(s.cancel.wait())
        await asyncio.wait([task, stop], return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            stop.cancel()
            return task.result()
        if grace:
            await asyncio.wait([task], timeout=grace)
        task.cancel()
        raise Cancelled

    async def run_turn(self, s, prompt):
        text = "\n".join(getattr(b, "text", "") or "" for b in prompt if b.type == "text").strip()
        mid = str(uuid.uuid4())
        for b in prompt:
            s.history.append({"sessionUpdate": "user_message_chunk", "messageId": mid,
                              "content": b.model_dump(mode="json", by_alias=True, exclude_none=True)})
        if s.title is None:
            s.title = (text or "untitled")[:40]
            await self.conn.session_update(s.id, {"sessionUpdate": "session_info_update", "title": s.title})
        try:
            await self.answer(s, text, prompt)
        except Cancelled:
            return "cancelled"
        return "cancelled" if s.cancel.is_set() else "end_turn"

    async def answer(self, s, text, prompt):
        if m := re.search(r"remember\b.*?\bword:?\s+(?:is\s+)?[`\"']?([\w-]+)", text, re.I):
            s.words["word"] = m[1]
            return await self.say(s, f"I will remember {m[1]}.")
        if re.search(r"(recall|what|which)\b.*\bword\b", text, re.I):
            w = s.words.get("word")
            return await self.say(s, f"The word is {w}." if w else "You have not told me a word.")
        if re.search(r"\bcount\b|\bslowly\b|\bthink (?:for|hard|long)|\blong (?:\w+ )?(?:story|essay|poem|text)", text, re.I):
            n = min(max(map(int, re.findall(r"\d+", text)[:4]), default=12), 60)
            for i in range(1, n + 1):
                await self.say(s, f"{i} ")
                await self.pause(s, 0.25)
            return await self.say(s, "done")
        if "tool" in text and (m := re.search(r"(?:call|use|invoke)\b(?: the)?(?: mcp)?(?: tool)?(?: named| called)?\s+[`\"']?([\w.-]+)", text, re.I)):
            for srv in s.mcp:
                if any(t["name"] == m[1] for t in srv.tools):
                    return await self.tool(s, f"MCP {m[1]}", "other", {"name": m[1]}, False, lambda c: self.use_mcp(s, srv, m[1], text))
            return await self.say(s, f"I know no tool {m[1]}.")
        if m := re.search(r"(?:write|create)\b.*?\bfile\s+(?:called |named )?[`\"']?([^\s`\"',]+)[`\"']?.*?(?:with|containing)\b(?:\s+(?:exactly|only|the|text|contents?))*\s*:?\s*[`\"']?(.*?)[`\"']?$", text, re.I | re.S):
            path = os.path.normpath(os.path.join(s.cwd, m[1]))
            return await self.tool(s, f"Write {m[1]}", "edit", {"path": path}, True, lambda c: self.write(s, path, m[2]), path)
        if m := re.search(r"read\b.*?\bfile\s+(?:called |named )?[`\"']?([^\s`\"',]+)", text, re.I):
            path = os.path.normpath(os.path.join(s.cwd, m[1].rstrip("?!;:") if not m[1].endswith(".") else m[1][:-1]))
            inside = path == s.cwd or path.startswith(s.cwd.rstrip("/") + "/")
            return await self.tool(s, f"Read {m[1]}", "read", {"path": path}, not inside, lambda c: self.read(s, path), path)
        if m := re.search(r"(?:run|execute)\b(?: the)?(?: shell)?(?: command)?:?\s+[`\"']?(.+?)[`\"']?$", text, re.I | re.S):
            cmd = m[1].split("`")[0] if "`" in text else m[1]
            return await self.tool(s, f"Run {cmd}", "execute", {"command": cmd}, True, lambda c: self.shell(s, cmd, c))
        extra = [b.type for b in prompt if b.type != "text"]
        await self.say(s, f"You said: {text}" + (f" (and sent {', '.join(extra)})" if extra else ""))

    async def tool(self, s, title, kind, raw, ask, work, path=None):
        s.calls += 1
        cid = f"call-{s.calls}"
        rec = {"sessionUpdate": "tool_call", "toolCallId": cid, "title": title, "kind": kind, "status": "pending", "rawInput": raw}
        if path:
            rec["locations"] = [{"path": path}]
        await self.conn.session_update(s.id, dict(rec))
        s.history.append(rec)

        async def finish(status, content):
            rec["status"], rec["content"] = status, content
            await self.conn.session_update(s.id, {"sessionUpdate": "tool_call_update", "toolCallId": cid, "status": status, "content": content})

        def words(t):
            return [{"type": "content", "content": {"type": "text", "text": t}}]
        try:
            if kind in ("edit", "execute") and self.mode_of(s) == "readonly":
                await finish("failed", words("Not allowed in read-only mode"))
                return await self.say(s, "I am in read-only mode, so I did not do that.")
            outside = bool(path) and not (path + "/").startswith(s.cwd.rstrip("/") + "/")
            if ask and (self.mode_of(s) != "auto" or outside):
                r = await self.race(s, self.conn.request_permission(
                    session_id=s.id, tool_call={"toolCallId": cid, "title": title, "kind": kind, "status": "pending", "rawInput": raw},
                    options=[{"optionId": "yes", "name": "Allow", "kind": "allow_once"}, {"optionId": "no", "name": "Reject", "kind": "reject_once"}]))
                if r.outcome.outcome == "cancelled":
                    raise Cancelled
                if r.outcome.option_id != "yes":
                    await finish("failed", words("Rejected by the user"))
                    return await self.say(s, "All right, I left it alone.")
            if s.cancel.is_set():
                raise Cancelled
            await self.conn.session_update(s.id, {"sessionUpdate": "tool_call_update", "toolCallId": cid, "status": "in_progress"})
            content, note = await work(cid)
            await finish("completed", content if isinstance(content, list) else words(content))
        except Cancelled:
            await finish("failed", words("Cancelled"))
            raise
        except Exception as e:
            await finish("failed", words(str(e) or type(e).__name__))
            return await self.say(s, f"That failed: {e}")
        await self.say(s, note)

    def fs(self, what):
        fs = self.caps and self.caps.fs
        return bool(fs and getattr(fs, what, False))

    async def read(self, s, path):
        if self.fs("read_text_file"):
            body = (await self.race(s, self.conn.read_text_file(session_id=s.id, path=path))).content
        else:
            body = open(path, encoding="utf-8", errors="replace").read()
        return body, f"It says: {body}"

    async def write(self, s, path, body):
        old = None
        if os.path.exists(path):
            old = open(path, encoding="utf-8", errors="replace").read()
        if self.fs("write_text_file"):
            await self.race(s, self.conn.write_text_file(session_id=s.id, path=path, content=body))
        else:
            with open(path, "w", encoding="utf-8") as f:
                f.write(body)
        diff = {"type": "diff", "path": path, "newText": body}
        if old is not None:
            diff["oldText"] = old
        return [diff], f"Wrote {os.path.basename(path)}."

    async def use_mcp(self, s, srv, name, text):
        args = {}
        if m := re.search(r"\{.*\}", text, re.S):
            try:
                args = json.loads(m[0])
            except ValueError:
                pass
        r = await self.race(s, srv.call("tools/call", {"name": name, "arguments": args}))
        out = " ".join(c.get("text", "") for c in r.get("content", []))
        if r.get("isError"):
            raise RuntimeError(out or "tool error")
        return out, f"The tool answered: {out}"

    async def shell(self, s, cmd, cid):
        if self.caps and self.caps.terminal:
            t = await self.conn.create_terminal(session_id=s.id, command="sh", args=["-c", cmd], cwd=s.cwd)
            tid = getattr(t, "terminal_id", None) or t.id
            try:
                await self.conn.session_update(s.id, {"sessionUpdate": "tool_call_update", "toolCallId": cid,
                                                      "content": [{"type": "terminal", "terminalId": tid}]})
                try:
                    done = await self.race(s, self.conn.wait_for_terminal_exit(session_id=s.id, terminal_id=tid), grace=0)
                except Cancelled:
                    await self.conn.kill_terminal(session_id=s.id, terminal_id=tid)
                    raise
                out = (await self.conn.terminal_output(session_id=s.id, terminal_id=tid)).output
            finally:
                await self.conn.release_terminal(session_id=s.id, terminal_id=tid)
            if done.exit_code != 0:
                raise RuntimeError(f"exit code {done.exit_code}: {out}")
            return out, f"Output: {out}"
        p = await asyncio.create_subprocess_exec("sh", "-c", cmd, cwd=s.cwd, start_new_session=True, stdin=asyncio.subprocess.DEVNULL,
                                                 stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT)
        task = asyncio.ensure_future(p.communicate())
        stop = asyncio.ensure_future(s.cancel.wait())
        await asyncio.wait([task, stop], return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            os.killpg(p.pid, signal.SIGKILL)
            await task
            raise Cancelled
        stop.cancel()
        out = task.result()[0].decode("utf-8", "replace")
        if p.returncode:
            raise RuntimeError(f"exit code {p.returncode}: {out}")
        return out, f"Output: {out}"


async def main():
    reader = asyncio.StreamReader(limit=64 << 20)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    heron = Heron()
    conn = AgentSideConnection(heron, Pipe(reader), listening=False, use_unstable_protocol=True)
    await conn.listen()
    for s in heron.sessions.values():
        s.cancel.set()
    await asyncio.sleep(0.05)
    for s in heron.sessions.values():
        for m in s.mcp:
            await m.stop()
    try:
        await asyncio.wait_for(conn.close(), 1)
    except Exception:
        pass

asyncio.run(main())
os._exit(0)
