"""otter: plain SDK agent. No optional capability, does everything itself, never asks, one chunk per answer."""
import asyncio, json, os, re, signal, sys, time, itertools
import acp
from acp import RequestError, run_agent
from acp.schema import (AgentCapabilities, Implementation, InitializeResponse, NewSessionResponse, PromptResponse)

FAULT = os.environ.get("FAULT", "")
_ids = itertools.count(1)


class Turn:
    def __init__(self):
        self.stop = asyncio.Event()


class Stopped(Exception):
    pass


class Sess:
    def __init__(self, cwd, servers):
        self.cwd, self.servers, self.started = cwd, servers, None
        self.lock, self.turns, self.notes, self.ncall, self.used = asyncio.Lock(), [], [], 0, 0


class McpServer:
    def __init__(self, spec):
        self.spec, self.seq, self.names = spec, 0, []

    async def open(self, cwd):
        env = {**os.environ, **{v.name: v.value for v in (self.spec.env or [])}}
        self.p = await asyncio.create_subprocess_exec(self.spec.command, *self.spec.args, env=env, cwd=cwd, limit=1 << 22,
                                                      stdin=-1, stdout=-1, stderr=asyncio.subprocess.DEVNULL)
        await self.ask("initialize", {"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {"name": "otter", "version": "0.3"}})
        self.p.stdin.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
        self.names = [t["name"] for t in (await self.ask("tools/list", {})).get("tools", [])]
        return self

    async def ask(self, method, params):
        self.seq += 1
        self.p.stdin.write(json.dumps({"jsonrpc": "2.0", "id": self.seq, "method": method, "params": params}).encode() + b"\n")
        await self.p.stdin.drain()
        while line := await asyncio.wait_for(self.p.stdout.readline(), 15):
            m = json.loads(line)
            if m.get("id") == self.seq and ("result" in m or "error" in m):
                if "error" in m:
                    raise RuntimeError(m["error"].get("message"))
                return m["result"]
        raise RuntimeError("MCP server closed")


class Otter:
    def __init__(self):
        self.s, self.up = {}, False

    def on_connect(self, conn):
        self.c = conn

    async def initialize(self, protocol_version, client_capabilities=None, client_info=None, **kw):
        self.up = True
        return InitializeResponse(protocol_version=1, agent_capabilities=AgentCapabilities(),
                                  agent_info=Implementation(name="otter", version="0.3"))

    async def new_session(self, cwd, mcp_servers=None, additional_directories=None, **kw):
        if not self.up:
            raise RequestError(-32600, "Not initialized")
        if not os.path.isabs(cwd):
            raise RequestError(-32602, "cwd must be an absolute path")
        if any(not hasattr(m, "command") for m in mcp_servers or []):
            raise RequestError(-32602, "Only stdio MCP servers can be used")
        sid = f"otter-{os.getpid()}-{time.time_ns():x}-{next(_ids)}"
        self.s[sid] = Sess(cwd, mcp_servers or [])

        async def later():
            await asyncio.sleep(0.1)
            await self.send(sid, {"sessionUpdate": "usage_update", "used": 0, "size": 8000})
        self.bg = asyncio.create_task(later())
        return NewSessionResponse(session_id=sid)

    async def cancel(self, session_id, **kw):
        if s := self.s.get(session_id):
            for t in s.turns:
                t.stop.set()

    async def send(self, sid, update):
        await self.c.session_update(sid, update)

    async def prompt(self, session_id, prompt, **kw):
        s = self.s.get(session_id)
        if s is None:
            raise RequestError(-32002, "No such session", {"sessionId": session_id})
        turn = Turn()
        s.turns.append(turn)
        try:
            async with s.lock:  # prompts of one session wait for each other
                if turn.stop.is_set():
                    return PromptResponse(stop_reason="cancelled")
                # the "model" needs a moment
                if FAULT == "otter-early-cancel":
                    await asyncio.sleep(0.3)
                    turn.stop.clear()
                try:
                    if FAULT != "otter-early-cancel":
                        await self.nap(turn, 0.3)
                    if FAULT == "otter-link-first":
                        text = prompt[0].text
                    else:
                        text = " ".join(b.text for b in prompt if b.type == "text")
                    links = [b.uri for b in prompt if b.type == "resource_link"]
                    await self.send(session_id, {"sessionUpdate": "agent_thought_chunk", "content": {"type": "text", "text": "Let me see what is wanted."}})
                    reply = await self.act(session_id, s, turn, text, links)
                    if turn.stop.is_set():
                        raise Stopped
                    await self.send(session_id, {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": reply}})
                except Stopped:
                    return PromptResponse(stop_reason="cancelled")
                s.used += len(text) + 10
                await self.send(session_id, {"sessionUpdate": "usage_update", "used": s.used, "size": 8000})
                return PromptResponse(stop_reason="end_turn")
        finally:
            s.turns.remove(turn)

    async def nap(self, turn, secs):
        try:
            await asyncio.wait_for(turn.stop.wait(), secs)
        except asyncio.TimeoutError:
            return
        raise Stopped

    async def act(self, sid, s, turn, text, links):
        low = text.lower()
        if "remember" in low and (m := re.search(r"(?:remember|word)[^:]*?:?\s+[\"'`]?([\w-]+)[\"'`.]*\s*$", text, re.I)):
            s.notes.append(m[1])
            return "Noted."
        if re.search(r"\b(recall|what|which)\b.*\b(word|remember)", low):
            return ", ".join(s.notes) or "Nothing was noted here."
        if re.search(r"\bcount\b|\bslowly\b|\bthink (?:for|hard|long)|\blong (?:\w+ )?(?:story|essay|poem|text)|take your time", low):
            n = max(map(int, re.findall(r"\d+", low)[:4]), default=12)
            for i in range(min(n, 50)):
                await self.nap(turn, 0.2)
            return " ".join(map(str, range(1, n + 1)))
        if m := re.search(r"(?:call|use)\b.*?\btool:?\s+[`\"']?([\w.-]+)|(?:call|use) (?:the )?(?:mcp )?[`\"']?([\w.-]+)[`\"']? tool", text, re.I):
            return await self.tool(sid, s, turn, f"Tool {m[1] or m[2]}", "other", lambda: self.mcp(s, m[1] or m[2], text))
        if m := re.search(r"(?:write|create|make)\b.*?file\s+(?:called |named )?[`\"']?([^\s`\"',:]+)[`\"']?,?\s*(?:with|containing)\s*(?:exactly|the|text|content|contents|:|\s)*[`\"']?(.*?)[`\"']?\.?\s*$", text, re.I | re.S):
            p = os.path.normpath(os.path.join(s.cwd, m[1]))
            return await self.tool(sid, s, turn, f"Write {p}", "edit", lambda: self.put(s, p, m[2]), p)
        if m := re.search(r"read\b.*?file\s+(?:called |named )?[`\"']?([^\s`\"',:?]+)", text, re.I):
            p = os.path.normpath(os.path.join(s.cwd, m[1].rstrip(".")))
            return await self.tool(sid, s, turn, f"Read {p}", "read", lambda: self.get(s, p), p)
        if m := re.search(r"(?:run|execute)\b(?: the)?(?: command)?:?\s+[`\"']?(.+?)[`\"']?$", text, re.I | re.S):
            cmd = m[1].split("`")[0] if "`" in text else m[1]
            return await self.tool(sid, s, turn, cmd, "execute", lambda: self.run(s, turn, cmd))
        return f"Otter heard: {text}" + (f" and got links {links}" if links else "")

    async def tool(self, sid, s, turn, title, kind, work, path=None):
        s.ncall += 1
        tid = f"t{s.ncall}"
        loc = {"locations": [{"path": path}]} if path else {}
        await self.send(sid, {"sessionUpdate": "tool_call", "toolCallId": tid, "title": title, "kind": kind, "status": "in_progress", **loc})
        status, out, boom = "completed", "", None
        try:
            out = await work()
        except Stopped as e:
            status, out, boom = "failed", "stopped", e
        except Exception as e:
            status, out = "failed", str(e) or type(e).__name__
        await self.send(sid, {"sessionUpdate": "tool_call_update", "toolCallId": tid, "status": status,
                              "content": [{"type": "content", "content": {"type": "text", "text": out}}]})
        if boom:
            raise boom
        return out if status == "completed" else f"It did not work: {out}"

    def inside(self, s, p):
        if not (p + "/").startswith(s.cwd.rstrip("/") + "/"):
            raise PermissionError(f"{p} is outside of the working directory")

    async def get(self, s, p):
        self.inside(s, p)
        with open(p, encoding="utf-8") as f:
            return f.read()

    async def put(self, s, p, body):
        self.inside(s, p)
        with open(p, "w", encoding="utf-8") as f:
            f.write(body)
        return f"wrote {len(body)} characters"

    async def run(self, s, turn, cmd):
        p = await asyncio.create_subprocess_shell(cmd, cwd=s.cwd, stdin=asyncio.subprocess.DEVNULL, stdout=-1,
                                                  stderr=asyncio.subprocess.STDOUT, start_new_session=True)
        done = asyncio.ensure_future(p.communicate())
        stop = asyncio.ensure_future(turn.stop.wait())
        await asyncio.wait([done, stop], return_when=asyncio.FIRST_COMPLETED)
        if not done.done():
            if FAULT != "otter-cmd-survives":
                os.killpg(p.pid, signal.SIGKILL)
                await done
            raise Stopped
        stop.cancel()
        out = done.result()[0].decode("utf-8", "replace")
        if p.returncode != 0:
            raise RuntimeError(f"exit {p.returncode}: {out}")
        return out or "(no output)"

    async def mcp(self, s, name, text):
        if s.started is None:  # lazy
            s.started = []
            for spec in s.servers:
                try:
                    s.started.append(await McpServer(spec).open(s.cwd))
                except Exception as e:
                    print("mcp:", e, file=sys.stderr)
        for srv in s.started:
            if name in srv.names:
                m = re.search(r"\{.*\}", text, re.S)
                r = await srv.ask("tools/call", {"name": name, "arguments": json.loads(m[0]) if m else {}})
                if r.get("isError"):
                    raise RuntimeError(str(r.get("content")))
                return " ".join(c.get("text", "") for c in r.get("content", []))
        raise RuntimeError(f"no tool {name}")


async def main():
    o = Otter()
    try:
        await run_agent(o, use_unstable_protocol=False, stdio_buffer_limit_bytes=64 << 20)
    finally:
        for s in o.s.values():
            for t in s.turns:
                t.stop.set()
            for m in s.started or []:
                try:
                    m.p.kill()
                except ProcessLookupError:
                    pass

if __name__ == "__main__":
    time.sleep(1.2)  # slow start, like an agent that reads its model first
    asyncio.run(main())
    os._exit(0)
