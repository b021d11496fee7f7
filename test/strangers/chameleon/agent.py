#!/usr/bin/env python3
"""chameleon: modes, options, commands; a thread per turn."""
import json, os, re, select, subprocess, sys, threading, time, copy

FAULT = os.environ.get("FAULT", "")
lock = threading.RLock()
sessions, pending = {}, {}
caps, started = {}, [False]
counter = [1000]

MODES = [{"id": "ask", "name": "Ask first", "description": "Asks before it writes"},
         {"id": "code", "name": "Code", "description": "Writes without asking"},
         {"id": "plan", "name": "Plan only"}]
OPTIONS = [
    {"id": "mode", "name": "Mode", "category": "mode", "type": "select", "currentValue": "ask",
     "options": [{"value": m["id"], "name": m["name"]} for m in MODES]},
    {"id": "model", "name": "Model", "category": "model", "type": "select", "currentValue": "small",
     "options": [{"group": "fast", "name": "Fast ones", "options": [{"value": "small", "name": "Small"}, {"value": "tiny", "name": "Tiny"}]},
                 {"group": "wise", "name": "Wise ones", "options": [{"value": "large", "name": "Large"}]}]},
    {"id": "thought", "name": "Thinking", "category": "thought_level", "type": "select", "currentValue": "some",
     "options": [{"value": "none", "name": "None"}, {"value": "some", "name": "Some"}]},
    {"id": "verbose", "name": "Verbose answers", "type": "boolean", "currentValue": False},
]


class Refuse(Exception):
    def __init__(self, code, text, data=None):
        super().__init__(text)
        self.code, self.data = code, data


class Cancelled(Exception):
    pass


def emit(obj):
    obj = {"jsonrpc": "2.0", **obj}
    try:
        data = json.dumps(obj, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        data = json.dumps(obj).encode()
    with lock:
        try:
            sys.stdout.buffer.write(data + b"\n")
            sys.stdout.buffer.flush()
        except OSError:
            os._exit(0)


def invalid(t):
    return Refuse(-32602, "Invalid params: " + t)


def sub(d, *keys):
    for k in keys:
        d = d.get(k) if isinstance(d, dict) else None
    return d


class Session:
    def __init__(self, sid, cwd, specs):
        self.id, self.cwd, self.specs = sid, cwd, specs
        self.options = copy.deepcopy(OPTIONS)
        self.mode = "ask"
        self.busy, self.stop = False, threading.Event()
        self.turns, self.calls, self.words, self.mcp = 0, 0, [], None

    def get(self, oid):
        return next((o for o in self.options if o["id"] == oid), None)

    def shown(self, where="new"):
        if sub(caps, "session", "configOptions", "boolean") is not None or (FAULT == "bool-leak" and where != "new"):
            return copy.deepcopy(self.options)
        return copy.deepcopy([o for o in self.options if o["type"] != "boolean"])

    def update(self, variant, /, **f):
        emit({"method": "session/update", "params": {"sessionId": self.id, "update": {"sessionUpdate": variant, **f}}})

    def commands(self):
        lst = [{"name": "about", "description": "Says what this agent is"},
               {"name": "count", "description": "Counts slowly", "input": {"hint": "how far"}}]
        if self.mode != "plan":
            lst.append({"name": "plan", "description": "Goes to plan mode"})
        if self.mode != "code":
            lst.append({"name": "code", "description": "Goes to code mode"})
        self.update("available_commands_update", availableCommands=lst)

    def modes(self):
        return {"currentModeId": self.mode, "availableModes": MODES}

    def pause(self, t):
        if self.stop.wait(t):
            raise Cancelled()

    def say(self, text, kind="agent_message_chunk"):
        for part in re.findall(r".+?(?:[.!?]\s+|$)", text, re.S) or [text]:
            if self.stop.is_set():
                raise Cancelled()
            self.update(kind, content={"type": "text", "text": part})


def ask_client(s, method, params):
    """Sends a request to the client, waits for the answer or for cancel."""
    ev = threading.Event()
    with lock:
        counter[0] += 1
        rid = counter[0]
        box = pending[rid] = {"ev": ev, "msg": None}
    emit({"id": rid, "method": method, "params": params})
    while not ev.wait(0.05):
        if s.stop.is_set():
            if ev.wait(1):
                break
            pending.pop(rid, None)
            raise Cancelled()
    return box["msg"]


# ---------------------------------------------------------------- MCP
class Server:
    def __init__(self, spec, s):
        self.s, self.n, self.buf = s, 0, b""
        env = {**os.environ, **{e["name"]: e["value"] for e in spec.get("env") or []}}
        self.p = subprocess.Popen([spec["command"], *(spec.get("args") or [])], env=env, cwd=s.cwd if os.path.isdir(s.cwd) else None,
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        try:
            self.call("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "chameleon", "version": "0.9"}})
            self.put({"method": "notifications/initialized"})
            self.tools = {t["name"]: t for t in self.call("tools/list", {}).get("tools", [])}
        except BaseException:
            self.p.kill()
            raise

    def put(self, m):
        self.p.stdin.write(json.dumps({"jsonrpc": "2.0", **m}).encode() + b"\n")
        self.p.stdin.flush()

    def call(self, method, params, limit=10):
        self.n += 1
        self.put({"id": self.n, "method": method, "params": params})
        end = time.time() + limit
        while time.time() < end:
            if self.s.stop.is_set():
                raise Cancelled()
            while b"\n" in self.buf:
                line, self.buf = self.buf.split(b"\n", 1)
                try:
                    m = json.loads(line)
                except ValueError:
                    continue
                if "method" in m:
                    if "id" in m:
                        self.put({"id": m["id"], "result": {}})
                elif m.get("id") == self.n:
                    if "error" in m:
                        raise RuntimeError(m["error"].get("message", "error"))
                    return m["result"]
            if select.select([self.p.stdout], [], [], 0.05)[0]:
                data = os.read(self.p.stdout.fileno(), 65536)
                if not data:
                    raise RuntimeError("the MCP server went away")
                self.buf += data
        raise RuntimeError("the MCP server does not answer")


# ---------------------------------------------------------------- methods
def initialize(p):
    v = p.get("protocolVersion")
    if type(v) is not int or v < 0 or v > 65535:
        raise invalid("protocolVersion")
    caps.clear()
    if isinstance(p.get("clientCapabilities"), dict):
        caps.update(p["clientCapabilities"])
    started[0] = True
    return {"protocolVersion": 1, "agentInfo": {"name": "chameleon", "version": "0.9.1"}, "authMethods": [],
            "agentCapabilities": {"promptCapabilities": {"image": True}}}


def session_new(p):
    cwd, specs = p.get("cwd"), p.get("mcpServers", 0)
    if not isinstance(cwd, str) or not cwd.startswith("/"):
        raise invalid("cwd must be an absolute path")
    if specs is None:
        specs = []
    if not isinstance(specs, list):
        raise invalid("mcpServers")
    for s in specs:
        if not isinstance(s, dict) or not isinstance(s.get("command"), str) or not isinstance(s.get("name"), str) \
                or s.get("type", "stdio") != "stdio" or not isinstance(s.get("args") or [], list) or not isinstance(s.get("env") or [], list) \
                or not all(isinstance(e, dict) and isinstance(e.get("name"), str) and isinstance(e.get("value"), str) for e in s.get("env") or []):
            raise invalid("mcpServers entry")
    sid = "chm-" + os.urandom(9).hex()
    s = sessions[sid] = Session(sid, cwd, specs)
    threading.Timer(0.3, s.commands).start()
    return {"sessionId": sid, "modes": s.modes(), "configOptions": s.shown()}


def session(p):
    sid = p.get("sessionId")
    if not isinstance(sid, str):
        raise invalid("sessionId")
    if sid not in sessions:
        raise Refuse(-32002, "No such session", {"sessionId": sid})
    return sessions[sid]


def set_mode(p):
    if not isinstance(p.get("modeId"), str):
        raise invalid("modeId")
    s = session(p)
    if p["modeId"] not in [m["id"] for m in MODES]:
        raise invalid("unknown mode")
    s.mode = p["modeId"]
    if FAULT != "mode-sync":
        s.get("mode")["currentValue"] = s.mode
        s.update("config_option_update", configOptions=s.shown("update"))
    s.commands()
    return {}


def values(o):
    for v in o["options"]:
        if "group" in v:
            yield from (w["value"] for w in v["options"])
        else:
            yield v["value"]


def set_option(p):
    if not isinstance(p.get("configId"), str) or not isinstance(p.get("value"), (str, bool)):
        raise invalid("configId and value")
    s = session(p)
    o = s.get(p["configId"])
    if o is None or (o["type"] == "boolean" and sub(caps, "session", "configOptions", "boolean") is None):
        raise invalid("unknown option")
    if o["type"] == "boolean":
        if type(p["value"]) is not bool or p.get("type") != "boolean":
            raise invalid("a boolean is expected")
    elif p["value"] not in list(values(o)):
        raise invalid("unknown value")
    o["currentValue"] = p["value"]
    if o["id"] == "mode" and s.mode != p["value"]:
        s.mode = p["value"]
        s.update("current_mode_update", currentModeId=s.mode)
    return {"configOptions": s.shown("set")}


METHODS = {"initialize": initialize, "session/new": session_new, "session/set_mode": set_mode, "session/set_config_option": set_option}


def start_prompt(rid, p):
    text = []
    if not isinstance(p.get("prompt"), list):
        raise invalid("prompt is not a list")
    for b in p["prompt"]:
        t = sub(b, "type")
        if t == "text" and isinstance(b.get("text"), str):
            text.append(b["text"])
        elif t == "image" and isinstance(b.get("data"), str) and isinstance(b.get("mimeType"), str):
            text.append("(a picture)")
        elif t == "resource_link" and isinstance(b.get("uri"), str) and isinstance(b.get("name"), str):
            text.append(f"(a link to {b['name']})")
        else:
            raise invalid("content block")
    s = session(p)
    if s.busy:
        raise Refuse(-32600, "A turn is already running in this session")
    s.busy = True
    s.stop.clear()
    threading.Thread(target=turn, args=(s, rid, " ".join(text).strip()), daemon=True).start()


def turn(s, rid, text):
    kept = copy.deepcopy(s.options)
    result = {"result": {"stopReason": "end_turn"}}
    try:
        s.turns += 1
        s.update("usage_update", used=137 * s.turns + len(text), size=64000, cost={"amount": round(0.001 * s.turns, 4), "currency": "EUR"})
        if s.turns == 2:
            s.update("session_info_update", title="Talk with a chameleon")
        if s.get("thought")["currentValue"] == "some":
            s.say("Let me look at this. ", "agent_thought_chunk")
        act(s, text)
        if s.stop.is_set():
            raise Cancelled()
    except Cancelled:
        result = {"result": {"stopReason": "cancelled"}}
    except Exception as e:
        print(repr(e), file=sys.stderr)
        result = {"error": {"code": -32603, "message": "Internal error"}}
    if FAULT == "busy-config":
        s.options = kept
    with lock:
        s.busy = False
        emit({"id": rid, **result})


def change_mode(s, m):
    s.mode = m
    s.get("mode")["currentValue"] = m
    s.update("current_mode_update", currentModeId=m)
    s.update("config_option_update", configOptions=s.shown("update"))
    s.commands()
    s.say(f"I am in {m} mode now.")


def count(s, n):
    for k in range(1, n + 1):
        s.say(f"{k}... ")
        if k == 2:
            s.commands()
        s.pause(0.25)


def inside(s, name):
    p = os.path.normpath(os.path.join(s.cwd, name))
    root = os.path.realpath(s.cwd)
    return p, os.path.commonpath([root, os.path.realpath(p)]) == root


def act(s, text):
    low = text.lower()
    if text.startswith("/"):
        w = text[1:].split()
        if w and w[0] == "about":
            return s.say("I am chameleon. I change my colours.")
        if w and w[0] == "count":
            return count(s, int(w[1]) if len(w) > 1 and w[1].isdigit() and int(w[1]) < 500 else 5)
        if w and w[0] in ("plan", "code"):
            return change_mode(s, w[0])
    m = re.search(r"remember\b.*?\bword\b\W*(?:is\W+)?([\w-]+)", text, re.I | re.S)
    if m:
        s.words.append(m[1])
        return s.say("Yes. I shall remember it.")
    if re.search(r"\b(what|which|recall|repeat|tell)\b.*\bword\b", low, re.S):
        return s.say(f"It is {s.words[-1]}." if s.words else "No word was given to me.")
    if "tool" in low and s.specs:
        return mcp_tool(s, text)
    f = re.search(r"((?:/|\./)?(?:[\w-]+/)*[\w.-]*\w\.\w+)", text)
    if f and re.search(r"\b(write|create|save|put)\b", low):
        return write_file(s, f[1], text[f.end():])
    if f and re.search(r"\b(read|show|open)\b", low):
        return read_file(s, f[1])
    if re.search(r"\b(count|slow|slowly|think|long|while)\b", low):
        m = re.search(r"\d+", low)
        return count(s, min(int(m[0]), 500) if m else 30)
    s.say(f"My colour is {s.get('model')['currentValue']} today. You told me something of {len(text)} letters."
          + (" I am verbose. Very much so." if s.get("verbose")["currentValue"] else ""))


def tool_call(s, title, kind, **more):
    s.calls += 1
    tid = f"{s.id[-4:]}/{s.calls}"
    s.update("tool_call", toolCallId=tid, title=title, kind=kind, status="pending", **more)
    return tid


def finish(s, tid, status, *content):
    s.update("tool_call_update", toolCallId=tid, status=status, content=list(content))


def txt(t):
    return {"type": "content", "content": {"type": "text", "text": t}}


def read_file(s, name):
    p, ok = inside(s, name)
    tid = tool_call(s, f"Look into {name}", "read", locations=[{"path": p, "line": 1}])
    try:
        if not ok:
            raise OSError("outside of the working directory")
        with open(p, encoding="utf-8", errors="replace") as f:
            data = f.read(10000)
    except OSError as e:
        finish(s, tid, "failed", txt(str(e)))
        return s.say("That file is not readable.")
    finish(s, tid, "completed", txt(data))
    s.say("It holds: " + data)


def write_file(s, name, rest):
    m = re.search(r"\b(?:text|contents?|containing|saying|with)\b\W*(?:the\s+)?(?:text|contents?)?\W*?\s*[:\s]\s*(.*)", rest, re.I | re.S)
    body = (m[1] if m else "colour").strip()
    q = re.search(r"[\"'`]([^\"'`]+)[\"'`]", body)
    body = q[1] if q else body
    p, ok = inside(s, name)
    old = None
    if ok and os.path.isfile(p):
        with open(p, encoding="utf-8", errors="replace") as f:
            old = f.read()
    diff = {"type": "diff", "path": p, "oldText": old, "newText": body}
    tid = tool_call(s, f"Paint {name}", "edit", locations=[{"path": p}])
    mode = s.mode
    if not ok or mode == "plan":
        finish(s, tid, "failed", txt("outside of the working directory" if not ok else "no writing in plan mode"))
        return s.say("I may not write there." if not ok else "I do not write in plan mode.")
    if mode == "ask":
        try:
            r = ask_client(s, "session/request_permission", {
                "sessionId": s.id, "toolCall": {"toolCallId": tid, "title": f"Paint {name}", "content": [diff]},
                "options": [{"optionId": "go", "name": "Go ahead", "kind": "allow_once"},
                            {"optionId": "stop", "name": "Do not", "kind": "reject_once"}]})
        except Cancelled:
            finish(s, tid, "failed")
            raise
        out = sub(r, "result", "outcome")
        if sub(out, "outcome") == "cancelled" or s.stop.is_set():
            finish(s, tid, "failed")
            raise Cancelled()
        if sub(out, "optionId") != "go":
            finish(s, tid, "failed", txt("not permitted"))
            return s.say("As you wish. I left it alone.")
    s.update("tool_call_update", toolCallId=tid, status="in_progress")
    try:
        os.makedirs(os.path.dirname(p), exist_ok=True)
        with open(p, "w", encoding="utf-8") as f:
            f.write(body)
    except OSError as e:
        finish(s, tid, "failed", txt(str(e)))
        return s.say("Writing failed.")
    finish(s, tid, "completed", diff)
    s.say("Painted.")


def mcp_tool(s, text):
    if s.mcp is None:
        s.mcp = []
        for spec in s.specs:
            try:
                s.mcp.append(Server(spec, s))
            except (OSError, RuntimeError) as e:
                print("mcp:", e, file=sys.stderr)
            except Cancelled:
                for srv in s.mcp:
                    srv.p.kill()
                s.mcp = None
                raise
    for srv in s.mcp:
        for name, t in srv.tools.items():
            if name in text:
                try:
                    args = json.loads(re.search(r"\{.*\}", text, re.S)[0])
                except (TypeError, ValueError):
                    sch = t.get("inputSchema", {})
                    args = {k: {"integer": 2, "number": 2, "boolean": False}.get(sub(sch, "properties", k, "type"), "green")
                            for k in sch.get("required", [])}
                tid = tool_call(s, name, "other", name=name, rawInput=args)
                s.update("tool_call_update", toolCallId=tid, status="in_progress")
                try:
                    r = srv.call("tools/call", {"name": name, "arguments": args}, 60)
                except RuntimeError as e:
                    finish(s, tid, "failed", txt(str(e)))
                    return s.say("The tool failed.")
                except Cancelled:
                    finish(s, tid, "failed")
                    raise
                said = "".join(c.get("text", "") for c in r.get("content", []))
                finish(s, tid, "failed" if r.get("isError") else "completed", txt(said))
                return s.say("The tool says: " + said)
    s.say("I do not know that tool.")


def handle(raw):
    try:
        m = json.loads(raw.decode("utf-8"))
    except (ValueError, RecursionError):
        return emit({"id": None, "error": {"code": -32700, "message": "Parse error"}})
    if isinstance(m, dict) and "method" not in m and ("result" in m or "error" in m):
        box = pending.pop(m.get("id"), None) if isinstance(m.get("id"), (int, str)) else None
        if box:
            box["msg"] = m
            box["ev"].set()
        return
    rid = m.get("id") if isinstance(m, dict) else None
    if not (rid is None or isinstance(rid, str) or type(rid) is int):
        rid, m = None, None
    if not isinstance(m, dict) or m.get("jsonrpc") != "2.0" or not isinstance(m.get("method"), str) \
            or not isinstance(m.get("params"), (dict, list, type(None))):
        return emit({"id": rid, "error": {"code": -32600, "message": "Invalid request"}})
    p, method = m.get("params"), m["method"]
    if "id" not in m:
        s = sessions.get(str(sub(p, "sessionId"))) if method == "session/cancel" else None
        if s and s.busy:
            s.stop.set()
        return
    try:
        if method not in METHODS and method != "session/prompt":
            raise Refuse(-32601, "Method not found")
        if not started[0] and method != "initialize":
            raise Refuse(-32600, "initialize comes first")
        if not isinstance(p, dict):
            raise invalid("an object is needed")
        if method == "session/prompt":
            return start_prompt(rid, p)
        emit({"id": rid, "result": METHODS[method](p)})
    except Refuse as e:
        emit({"id": rid, "error": {"code": e.code, "message": str(e), **({"data": e.data} if e.data else {})}})


for line in sys.stdin.buffer:
    if line.strip():
        handle(line)
for s in sessions.values():
    for m in s.mcp or []:
        m.p.kill()
os._exit(0)
