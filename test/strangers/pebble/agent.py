#!/usr/bin/env python3
"""pebble: a small talker. One loop, one answer, no options."""
import json, os, re, subprocess, sys, threading, queue, uuid

FAULT = os.environ.get("FAULT", "")
LIMIT = 120
out = sys.stdout.buffer
ready = False
sessions = {}   # id -> {"cwd", "mcp"}
words = {}      # remembered words


class Bad(Exception):
    def __init__(self, code, message, data=None):
        super().__init__(message)
        self.code, self.data = code, data


def send(msg):
    text = json.dumps(dict(jsonrpc="2.0", **msg), ensure_ascii=False)
    try:
        raw = text.encode("utf-8", "surrogateescape" if FAULT == "cut-bytes" else "strict")
    except UnicodeEncodeError:
        raw = text.encode("utf-8", "replace")
    try:
        out.write(raw + b"\n")
        out.flush()
    except OSError:
        leave()


def leave():
    for s in sessions.values():
        for m in s["mcp"]:
            m.stop()
    os._exit(0)


class Mcp:
    """One stdio MCP server: handshake, list of tools, nothing more."""

    def __init__(self, spec, cwd):
        env = {}
        for v in spec.get("env") or []:
            if FAULT == "env-last":
                env = {v["name"]: v["value"]}
            else:
                env[v["name"]] = v["value"]
        self.tools, self.n, self.inbox = [], 0, queue.Queue()
        self.p = None
        try:
            self.p = subprocess.Popen([spec["command"], *(spec.get("args") or [])], cwd=cwd if os.path.isdir(cwd) else None,
                                      env={**os.environ, **env}, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                      stderr=subprocess.DEVNULL)
            threading.Thread(target=self.read, daemon=True).start()
            self.ask("initialize", {"protocolVersion": "2025-06-18", "capabilities": {},
                                    "clientInfo": {"name": "pebble", "version": "1.0"}})
            self.put({"method": "notifications/initialized"})
            cursor = {}
            while True:
                r = self.ask("tools/list", cursor)
                self.tools += [t.get("name", "?") for t in r.get("tools", [])]
                if not r.get("nextCursor"):
                    break
                cursor = {"cursor": r["nextCursor"]}
        except Exception as e:
            print("mcp", spec.get("name"), "failed:", e, file=sys.stderr)

    def read(self):
        for line in self.p.stdout:
            try:
                m = json.loads(line)
            except ValueError:
                continue
            if isinstance(m, dict) and "method" not in m:
                self.inbox.put(m)
            elif isinstance(m, dict) and "id" in m:
                self.put({"id": m["id"], "result": {}} if m["method"] == "ping" else
                         {"id": m["id"], "error": {"code": -32601, "message": "Method not found"}})

    def put(self, m):
        self.p.stdin.write(json.dumps(dict(jsonrpc="2.0", **m)).encode() + b"\n")
        self.p.stdin.flush()

    def ask(self, method, params):
        self.n += 1
        self.put({"id": self.n, "method": method, "params": params})
        while True:
            m = self.inbox.get(timeout=3)
            if m.get("id") == self.n:
                if "error" in m:
                    raise RuntimeError(m["error"])
                return m["result"]

    def stop(self):
        if self.p:
            try:
                self.p.stdin.close()
            except OSError:
                pass
            self.p.kill()
            self.p.wait()


def need(p, key, kind):
    v = p.get(key)
    if not isinstance(v, kind) or isinstance(v, bool):
        raise Bad(-32602, f"Invalid params: {key} is missing or has the wrong type")
    return v


def initialize(p):
    global ready
    v = need(p, "protocolVersion", int)
    if not 0 <= v <= 65535:
        raise Bad(-32602, "Invalid params: protocolVersion is out of range")
    ready = True
    return {"protocolVersion": 1,
            "agentCapabilities": {"loadSession": False,
                                  "promptCapabilities": {"image": False, "audio": False, "embeddedContext": False},
                                  "mcpCapabilities": {"http": False, "sse": False}, "sessionCapabilities": {}},
            "authMethods": [], "agentInfo": {"name": "pebble", "title": "Pebble", "version": "1.0.0"}}


def servers(p):
    if "mcpServers" not in p:
        raise Bad(-32602, "Invalid params: mcpServers is missing")
    lst = p["mcpServers"] if p["mcpServers"] is not None else []
    if not isinstance(lst, list):
        raise Bad(-32602, "Invalid params: mcpServers is not a list")
    for s in lst:
        if not isinstance(s, dict) or s.get("type", "stdio") != "stdio":
            raise Bad(-32602, "Invalid params: only stdio MCP servers are supported")
        ok = isinstance(s.get("name"), str) and isinstance(s.get("command"), str)
        ok = ok and isinstance(s.get("args") or [], list) and isinstance(s.get("env") or [], list)
        ok = ok and all(isinstance(e, dict) and isinstance(e.get("name"), str) and isinstance(e.get("value"), str) for e in s.get("env") or [])
        ok = ok and all(isinstance(a, str) for a in s.get("args") or [])
        if not ok:
            raise Bad(-32602, "Invalid params: bad MCP server entry")
    return lst


def new(p):
    cwd = need(p, "cwd", str)
    if not os.path.isabs(cwd):
        raise Bad(-32602, "Invalid params: cwd must be absolute")
    specs = servers(p)
    sid = "peb_" + uuid.uuid4().hex
    sessions[sid] = {"cwd": cwd, "mcp": [Mcp(s, cwd) for s in specs]}
    return {"sessionId": sid}


def blocks(p):
    lst = need(p, "prompt", list)
    text = []
    for b in lst:
        t = b.get("type") if isinstance(b, dict) else None
        if t == "text" and isinstance(b.get("text"), str):
            text.append(b["text"])
        elif t == "resource_link" and isinstance(b.get("uri"), str) and isinstance(b.get("name"), str):
            text.append(b["name"])
        else:
            raise Bad(-32602, "Invalid params: unsupported or malformed content block")
    return " ".join(text)


def shorten(text):
    raw = text.encode("utf-8", "replace")
    if len(raw) <= LIMIT:
        return text
    if FAULT == "cut-bytes":
        return raw[:LIMIT].decode("utf-8", "surrogateescape")
    return raw[:LIMIT].decode("utf-8", "ignore") + "…"


def prompt(p):
    sid = need(p, "sessionId", str)
    text = blocks(p)
    s = sessions.get(sid)
    if s is None:
        raise Bad(-32002, "Session not found", {"sessionId": sid})
    key = s["cwd"] if FAULT == "cwd-memory" else sid
    m = re.search(r"remember\b.*?\bword\b\W*(?:is\W+)?(\w[\w-]*)", text, re.I | re.S)
    if m:
        words[key] = m[1]
        answer = "I will keep that word in mind."
    elif re.search(r"\b(what|which|recall|repeat|tell)\b.*\bword\b", text, re.I | re.S):
        answer = f"The word is {words[key]}." if key in words else "You have not told me any word."
    elif re.search(r"\bwhich tools\b", text, re.I):
        names = [t for m in s["mcp"] for t in m.tools]
        answer = "I see these tools: " + (", ".join(names) or "none") + "."
    else:
        answer = "You said: " + text
    send({"method": "session/update", "params": {"sessionId": sid, "update": {
        "sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": shorten(answer)}}}})
    return {"stopReason": "end_turn"}


METHODS = {"initialize": initialize, "session/new": new, "session/prompt": prompt}


def is_id(i):
    return i is None or isinstance(i, str) or (isinstance(i, int) and not isinstance(i, bool))


def handle(line):
    try:
        m = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError):
        return send({"id": None, "error": {"code": -32700, "message": "Parse error"}})
    if not isinstance(m, dict):
        return send({"id": None, "error": {"code": -32600, "message": "Invalid request"}})
    if "method" not in m and ("result" in m or "error" in m):
        return
    i = m.get("id")
    if (m.get("jsonrpc") != "2.0" or not isinstance(m.get("method"), str) or not is_id(i)
            or not isinstance(m.get("params", {}), (dict, list, type(None)))):
        return send({"id": i if is_id(i) else None, "error": {"code": -32600, "message": "Invalid request"}})
    if "id" not in m:
        return
    try:
        f = METHODS.get(m["method"])
        if f is None:
            raise Bad(-32601, "Method not found")
        if f is not initialize and not ready:
            raise Bad(-32600, "The connection is not initialized")
        p = m.get("params")
        if not isinstance(p, dict):
            raise Bad(-32602, "Invalid params: an object is expected")
        send({"id": i, "result": f(p)})
    except Bad as e:
        err = {"code": e.code, "message": str(e)}
        if e.data:
            err["data"] = e.data
        send({"id": i, "error": err})
    except Exception as e:
        print(repr(e), file=sys.stderr)
        send({"id": i, "error": {"code": -32603, "message": "Internal error"}})


for line in sys.stdin.buffer:
    if line.strip():
        handle(line)
leave()
