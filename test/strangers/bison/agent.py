#!/usr/bin/env python3
"""Bison: an ACP agent that is only a wrapper. Every turn starts the slow command-line tool
(worker.py) in the session's directory, feeds it one job on stdin and relays what it prints."""
import json, os, signal, subprocess, sys, threading, time, uuid

HERE = os.path.dirname(os.path.abspath(__file__))
FAULT = os.environ.get("FAULT", "")
VERSION = "1.9.4"

out_lock = threading.Lock()
state_lock = threading.RLock()
sessions, turns_by_request, pending = {}, {}, {}
client = {"ready": False, "caps": {}}
next_id = [70000]


def log(*words):
    print("bison:", *words, file=sys.stderr, flush=True)


def write(msg):
    line = json.dumps(msg, separators=(",", ":")) + "\n"      # pure ASCII on the wire
    with out_lock:
        try:
            sys.stdout.buffer.write(line.encode("ascii"))
            sys.stdout.buffer.flush()
        except (BrokenPipeError, ValueError):
            os._exit(0)


class Oops(Exception):
    def __init__(self, code, message, data=None):
        self.body = {"code": code, "message": message}
        if data is not None:
            self.body["data"] = data


def bad(message, **data):
    return Oops(-32602, message, data or None)


def ask_client(method, params):
    with state_lock:
        next_id[0] += 1
        rid = next_id[0]
        box = pending[rid] = {"done": threading.Event(), "reply": None}
    write({"jsonrpc": "2.0", "id": rid, "method": method, "params": params})
    return rid, box


# ------------------------------------------------------------------ checking what comes in
def text_field(p, key):
    v = p.get(key)
    if not isinstance(v, str):
        raise bad(f"{key} must be a string", field=key)
    return v


def check_setup(p):
    cwd = text_field(p, "cwd")
    if not os.path.isabs(cwd):
        raise bad("cwd must be an absolute path", field="cwd")
    more = p.get("additionalDirectories") or []
    if not isinstance(more, list) or not all(isinstance(d, str) and os.path.isabs(d) for d in more):
        raise bad("additionalDirectories must be absolute paths", field="additionalDirectories")
    servers = p.get("mcpServers")
    if not isinstance(servers, list):
        raise bad("mcpServers must be a list", field="mcpServers")
    for s in servers:
        if not isinstance(s, dict) or not isinstance(s.get("name"), str):
            raise bad("an MCP server needs a name", field="mcpServers")
        if s.get("type") in ("http", "sse"):
            raise bad("only stdio MCP servers are supported", server=s["name"])
        env = s.get("env")
        if (not isinstance(s.get("command"), str) or not isinstance(s.get("args"), list) or not isinstance(env, list)
                or not all(isinstance(e, dict) and isinstance(e.get("name"), str) and isinstance(e.get("value"), str) for e in env)):
            raise bad("a stdio MCP server needs command, args and env", server=s["name"])
    return cwd, more, servers


def check_prompt(blocks):
    if not isinstance(blocks, list):
        raise bad("prompt must be a list of content blocks", field="prompt")
    words = []
    for b in blocks:
        kind = b.get("type") if isinstance(b, dict) else None
        if kind == "text" and isinstance(b.get("text"), str):
            words.append(b["text"])
        elif kind == "resource_link" and isinstance(b.get("uri"), str) and isinstance(b.get("name"), str):
            words.append(b["uri"][7:] if b["uri"].startswith("file:///") else f"(link to {b['name']})")
        elif kind == "resource" and isinstance(b.get("resource"), dict) and isinstance(b["resource"].get("uri"), str) \
                and (isinstance(b["resource"].get("text"), str) or isinstance(b["resource"].get("blob"), str)):
            words.append(f"(attached {b['resource']['uri'].rsplit('/', 1)[-1]} holding {len(b['resource'].get('text') or b['resource'].get('blob'))} characters)")
        else:
            raise bad("prompt has a content block that bison cannot take", block=kind)
    return "\n".join(words)


# ------------------------------------------------------------------ a turn = one child process
class Session:
    def __init__(self, cwd, more, servers):
        self.id = "b" + uuid.uuid4().hex[:20]
        self.cwd, self.more, self.servers = cwd, more, servers
        self.history, self.turn, self.turn_no, self.tokens = [], None, 0, 0


class Turn:
    def __init__(self, session, request_id, words):
        self.s, self.request_id, self.words = session, request_id, words
        self.cancelled = self.by_request = self.asking = False
        self.child, self.open_calls, self.said = None, {}, []
        self.finished = threading.Event()
        session.turn_no += 1
        session.turn = self

    def update(self, variant, /, **fields):
        write({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": self.s.id, "update": {"sessionUpdate": variant, **fields}}})

    def stop(self):
        """session/cancel, session/close or $/cancel_request."""
        with state_lock:
            if self.asking:
                # the client answers the open permission request with "cancelled": the turn ends there
                if FAULT != "bison-cancelled-is-no":
                    self.cancelled = True
                    threading.Timer(4, self.kill).start()
                return
            self.cancelled = True
        self.kill()

    def kill(self):
        child = self.child
        if child and child.poll() is None:
            try:
                os.killpg(child.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def run(self):
        s = self.s
        job = {"prompt": self.words, "cwd": s.cwd, "roots": [s.cwd] + s.more, "history": s.history[-40:], "servers": s.servers}
        error = None
        try:
            env = {k: v for k, v in os.environ.items() if k != "FAULT"}
            where = None if FAULT == "bison-spawn-dir" else s.cwd
            self.child = subprocess.Popen([sys.executable, "-u", os.path.join(HERE, "worker.py")], cwd=where, env=env, stdin=subprocess.PIPE,
                                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True)
            if self.cancelled:
                self.kill()
            self.tell(job)
            for line in self.child.stdout:
                if self.cancelled and not self.asking:
                    break
                self.relay(json.loads(line))
            self.kill()
            self.child.wait()
            if not self.cancelled and self.child.returncode not in (0, -signal.SIGKILL):
                self.update("agent_message_chunk", content={"type": "text", "text": f"(the bison tool stopped with status {self.child.returncode})"})
        except FileNotFoundError:
            self.update("agent_message_chunk", content={"type": "text", "text": f"The directory {s.cwd} does not exist, so there is nowhere to work."})
        except Exception as e:                                    # a broken worker is our failure, not the user's
            log("turn failed:", repr(e))
            self.kill()
            if not self.cancelled:
                error = {"code": -32603, "message": "The bison tool failed", "data": {"why": str(e)}}
        for tool_id in list(self.open_calls):
            self.update("tool_call_update", toolCallId=tool_id, status="failed")
        s.history += [["user", self.words], ["agent", "".join(self.said)]]
        with state_lock:
            s.turn = None
            turns_by_request.pop(json.dumps(self.request_id), None)
        if self.by_request:
            error = {"code": -32800, "message": "The prompt was cancelled on request"}
        if error:
            write({"jsonrpc": "2.0", "id": self.request_id, "error": error})
        else:
            write({"jsonrpc": "2.0", "id": self.request_id, "result": {"stopReason": "cancelled" if self.cancelled else "end_turn"}})
        self.finished.set()

    def tell(self, obj):
        try:
            self.child.stdin.write((json.dumps(obj) + "\n").encode())
            self.child.stdin.flush()
        except BrokenPipeError:
            pass

    def tool_id(self, n):
        return f"{self.s.id}.{self.s.turn_no}.{n}"

    def relay(self, ev):
        kind = ev.pop("ev")
        if kind == "text":
            self.said.append(ev["text"])
            self.update("agent_message_chunk", content={"type": "text", "text": ev["text"]})
        elif kind == "thought":
            self.update("agent_thought_chunk", content={"type": "text", "text": ev["text"]})
        elif kind == "plan":
            self.update("plan", entries=ev["entries"])
        elif kind == "tokens":
            self.s.tokens = min(self.s.tokens + ev["count"], 32000)
            self.update("usage_update", used=self.s.tokens, size=32000)
        elif kind == "tool":
            tid = self.tool_id(ev.pop("n"))
            self.open_calls[tid] = dict(ev)
            self.update("tool_call", toolCallId=tid, **ev, _meta={"bison.example/worker": self.child.pid})
        elif kind == "ask":
            self.permission(self.tool_id(ev["n"]))
        elif kind == "working":
            self.update("tool_call_update", toolCallId=self.tool_id(ev["n"]), status="in_progress")
        elif kind == "tool_done":
            tid = self.tool_id(ev.pop("n"))
            self.open_calls.pop(tid, None)
            if FAULT == "bison-exit-code" and isinstance(ev.get("rawOutput"), dict) and "exitCode" in ev["rawOutput"]:
                ev["exitCode"] = ev["rawOutput"]["exitCode"]
            self.update("tool_call_update", toolCallId=tid, **ev)

    def permission(self, tid):
        about = self.open_calls[tid]
        with state_lock:
            if self.cancelled:
                return
            self.asking = True
        rid, box = ask_client("session/request_permission", {
            "sessionId": self.s.id,
            "toolCall": {"toolCallId": tid, "title": about["title"], "kind": about["kind"], "rawInput": about.get("rawInput")},
            "options": [{"optionId": f"{rid_word}-{tid}", "name": name, "kind": k} for rid_word, name, k in
                        (("allow", "Allow this once", "allow_once"), ("deny", "Do not allow", "reject_once"))]})
        while not box["done"].wait(0.1):
            if self.child.poll() is not None:
                break
        with state_lock:
            self.asking = False
            pending.pop(rid, None)
        outcome = ((box["reply"] or {}).get("result") or {}).get("outcome") or {}
        if outcome.get("outcome") == "selected":
            self.tell({"answer": outcome.get("optionId") == f"allow-{tid}" and not self.cancelled})
        elif outcome.get("outcome") == "cancelled" and FAULT != "bison-cancelled-is-no":
            self.cancelled = True
        else:
            self.tell({"answer": False})
        if self.cancelled:
            self.kill()


# ------------------------------------------------------------------ methods
def m_initialize(p, rid):
    v = p.get("protocolVersion")
    if not isinstance(v, int) or isinstance(v, bool) or not 0 <= v <= 65535:
        raise bad("protocolVersion must be a 16-bit integer", field="protocolVersion")
    client["ready"] = True
    client["caps"] = p.get("clientCapabilities") or {}
    return {"protocolVersion": 1,
            "agentInfo": {"name": "bison-wrapper", "title": "Bison", "version": VERSION},
            "agentCapabilities": {"loadSession": False, "promptCapabilities": {"embeddedContext": True}, "mcpCapabilities": {"http": False, "sse": False},
                                  "sessionCapabilities": {"close": {}, "additionalDirectories": {}}}}


def m_new(p, rid):
    s = Session(*check_setup(p))
    sessions[s.id] = s
    return {"sessionId": s.id}


def m_prompt(p, rid):
    sid = text_field(p, "sessionId")
    words = check_prompt(p.get("prompt"))
    s = sessions.get(sid)
    if s is None:
        raise Oops(-32002, "There is no such session", {"sessionId": sid})
    with state_lock:
        if s.turn:
            raise Oops(4090, "This session is busy with another prompt", {"sessionId": sid, "retry": True})
        t = turns_by_request[json.dumps(rid)] = Turn(s, rid, words)
    threading.Thread(target=t.run, daemon=True).start()
    return NotImplemented


def m_close(p, rid):
    s = sessions.pop(text_field(p, "sessionId"), None)
    turn = s and s.turn
    if not turn:
        return {}
    turn.stop()

    def later():
        turn.finished.wait(8)
        write({"jsonrpc": "2.0", "id": rid, "result": {}})
    threading.Thread(target=later, daemon=True).start()
    return NotImplemented


METHODS = {"initialize": m_initialize, "session/new": m_new, "session/prompt": m_prompt, "session/close": m_close}


def on_notification(method, p):
    if not isinstance(p, dict):
        return
    if method == "session/cancel":
        s = sessions.get(p.get("sessionId")) if isinstance(p.get("sessionId"), str) else None
        turn = s and s.turn
        if turn:
            turn.stop()
    elif method == "$/cancel_request":
        turn = turns_by_request.get(json.dumps(p.get("requestId")))
        if turn:
            turn.by_request = True
            turn.stop()


def on_line(raw):
    if not raw.strip():
        return
    try:
        m = json.loads(raw.decode("utf-8"))
    except (ValueError, RecursionError):
        return write({"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "That line is not JSON"}})
    rid = m.get("id") if isinstance(m, dict) else None
    good_id = isinstance(rid, str) or (isinstance(rid, int) and not isinstance(rid, bool))
    refuse = lambda why: write({"jsonrpc": "2.0", "id": rid if good_id else None, "error": {"code": -32600, "message": why}})
    if isinstance(m, list):
        return refuse("Batches are not accepted")
    if not isinstance(m, dict) or m.get("jsonrpc") != "2.0":
        return refuse("Not a JSON-RPC 2.0 message")
    if "method" not in m and ("result" in m or "error" in m):
        box = pending.get(rid) if good_id else None
        if box:
            box["reply"] = m
            box["done"].set()
        return
    method, p = m.get("method"), m.get("params", {})
    if isinstance(method, str) and "id" not in m:
        return on_notification(method, p)
    if not isinstance(method, str) or not isinstance(p, (dict, list, type(None))):
        return refuse("Not a JSON-RPC request")
    if not good_id:
        return refuse("A request id must be a string or a whole number")
    try:
        if method not in METHODS:
            raise Oops(-32601, f"Bison does not know {method[:80]}")
        if method != "initialize" and not client["ready"]:
            raise Oops(-32600, "Initialize the connection first")
        if not isinstance(p, dict):
            raise bad("params must be an object")
        result = METHODS[method](p, rid)
        if result is not NotImplemented:
            write({"jsonrpc": "2.0", "id": rid, "result": result})
    except Oops as e:
        write({"jsonrpc": "2.0", "id": rid, "error": e.body})
    except Exception as e:
        log("internal:", repr(e))
        write({"jsonrpc": "2.0", "id": rid, "error": {"code": -32603, "message": "Bison stumbled"}})


def main():
    for raw in sys.stdin.buffer:
        on_line(raw)
    for s in list(sessions.values()):
        if s.turn:
            s.turn.kill()
    os._exit(0)


if __name__ == "__main__":
    main()
