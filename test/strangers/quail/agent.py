#!/usr/bin/env python3
"""quail: a small ACP agent. Standard library, threads, sessions on disk.

One thread reads stdin; each session has a worker thread that takes prompts from a
queue, so a second prompt simply waits for the first one.
"""
import base64, json, os, queue, re, subprocess, sys, tempfile, threading, time, urllib.request, uuid
from datetime import datetime, timezone

FAULT = os.environ.get("FAULT", "")
PAGE = 20


class Fail(Exception):
    def __init__(self, code, message, data=None):
        super().__init__(message)
        self.code, self.data = code, data


class Stopped(Exception):
    """The turn was cancelled."""


# ---------------------------------------------------------------- wire
out_lock = threading.Lock()
waiting = {}
serial = 0


def send(obj):
    line = json.dumps({"jsonrpc": "2.0", **obj}, ensure_ascii=False) + "\n"
    with out_lock:
        sys.stdout.buffer.write(line.encode("utf-8", "replace"))
        sys.stdout.buffer.flush()


def answer(rid, result=None, error=None):
    if error is not None:
        body = {"code": error.code, "message": str(error)}
        if error.data is not None:
            body["data"] = error.data
        send({"id": rid, "error": body})
    else:
        send({"id": rid, "result": result})


def ask(method, params, turn=None):
    """Send a request to the client and wait; after a cancel wait only a little longer."""
    global serial
    with out_lock:
        serial += 1
        rid = "quail/%d" % serial
    box = waiting[rid] = queue.Queue()
    send({"id": rid, "method": method, "params": params})
    late = None
    while True:
        try:
            msg = box.get(timeout=0.1)
            break
        except queue.Empty:
            if turn is None or not turn.stop.is_set():
                continue
            if late is None:
                late = time.time()
                if method == "terminal/wait_for_exit":
                    raise Stopped()
            elif time.time() - late > 4:
                send({"method": "$/cancel_request", "params": {"requestId": rid}})
                raise Stopped()
    waiting.pop(rid, None)
    if "error" in msg:
        err = msg["error"] if isinstance(msg["error"], dict) else {}
        raise Fail(err.get("code", -32603), err.get("message", "client error"))
    return msg.get("result") or {}


# ---------------------------------------------------------------- MCP
class McpStdio:
    def __init__(self, conf, cwd):
        env = dict(os.environ, **{e["name"]: e["value"] for e in conf.get("env") or []})
        env.pop("FAULT", None)
        self.name, self.tools, self.n, self.boxes = conf["name"], {}, 0, {}
        self.p = subprocess.Popen([conf["command"], *(conf.get("args") or [])], cwd=cwd, env=env,
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        threading.Thread(target=self.pump, daemon=True).start()
        try:
            self.start()
        except Exception:
            self.close()
            raise

    def start(self):
        self.rpc("initialize", {"protocolVersion": "2024-11-05", "capabilities": {},
                                "clientInfo": {"name": "quail", "version": "0.3"}})
        self.post({"jsonrpc": "2.0", "method": "notifications/initialized"})
        for tool in self.rpc("tools/list", {}).get("tools", []):
            self.tools[tool["name"]] = tool

    def pump(self):
        for line in self.p.stdout:
            try:
                msg = json.loads(line)
            except ValueError:
                continue
            if "method" not in msg and msg.get("id") in self.boxes:
                self.boxes[msg["id"]].put(msg)
            elif "method" in msg and "id" in msg:
                self.post({"jsonrpc": "2.0", "id": msg["id"], "result": {}} if msg["method"] == "ping" else
                          {"jsonrpc": "2.0", "id": msg["id"], "error": {"code": -32601, "message": "no"}})
        for box in list(self.boxes.values()):
            box.put({"error": {"message": "server gone"}})

    def post(self, msg):
        self.p.stdin.write(json.dumps(msg).encode() + b"\n")
        self.p.stdin.flush()

    def rpc(self, method, params):
        self.n += 1
        box = self.boxes[self.n] = queue.Queue()
        self.post({"jsonrpc": "2.0", "id": self.n, "method": method, "params": params})
        msg = box.get(timeout=10)
        if "error" in msg:
            raise RuntimeError(msg["error"].get("message", "mcp error"))
        return msg["result"]

    def close(self):
        try:
            self.p.stdin.close()
        except OSError:
            pass
        self.p.terminate()
        try:
            self.p.wait(1)
        except subprocess.TimeoutExpired:
            self.p.kill()
            self.p.wait()


class McpHttp(McpStdio):
    def __init__(self, conf, cwd):
        self.name, self.tools, self.n, self.url, self.session = conf["name"], {}, 0, conf["url"], None
        self.headers = {h["name"]: h["value"] for h in conf.get("headers") or []}
        self.start()

    def post(self, msg):
        head = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream", **self.headers}
        if self.session:
            head["Mcp-Session-Id"] = self.session
        req = urllib.request.Request(self.url, json.dumps(msg).encode(), head)
        with urllib.request.urlopen(req, timeout=10) as res:
            self.session = res.headers.get("Mcp-Session-Id") or self.session
            body = res.read().decode("utf-8")
        rows = [l[5:] for l in body.splitlines() if l.startswith("data:")] or [body]
        for row in rows:
            if row.strip():
                got = json.loads(row)
                if "id" in msg and got.get("id") == msg["id"]:
                    return got

    def rpc(self, method, params):
        self.n += 1
        msg = self.post({"jsonrpc": "2.0", "id": self.n, "method": method, "params": params})
        if not msg or "error" in msg:
            raise RuntimeError("mcp error")
        return msg["result"]

    def close(self):
        pass


# ---------------------------------------------------------------- sessions
def state_dir():
    base = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    for path in (os.path.join(base, "quail"), os.path.join(tempfile.gettempdir(), "quail-state")):
        try:
            os.makedirs(path, exist_ok=True)
            if os.access(path, os.W_OK):
                return path
        except OSError:
            pass
    raise SystemExit("no place for sessions")


STATE = state_dir()
sessions = {}
caps = {}
ready = False
OPTIONS = [
    ("model", "Model", "model", [("covey", "Covey"), ("bevy", "Bevy (slower)")], "covey"),
    ("musing", "Musing", "thought_level", [("none", "None"), ("short", "Short"), ("long", "Long")], "short"),
    ("signature", "Signature", "_quail.style", [("plain", "Plain"), ("chirp", "Ends with a chirp")], "plain"),
]


def now():
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


class Session:
    def __init__(self, sid, data):
        self.id, self.d, self.stop, self.jobs, self.mcp = sid, data, threading.Event(), queue.Queue(), []
        self.pending, self.lock, self.dead = 0, threading.Lock(), False
        threading.Thread(target=self.work, daemon=True).start()

    def save(self):
        self.d["updatedAt"] = now()
        tmp = os.path.join(STATE, self.id + ".tmp")
        with open(tmp, "w", encoding="utf-8") as f:
            json.dump(self.d, f)
        os.replace(tmp, os.path.join(STATE, self.id + ".json"))

    def update(self, what, keep=True, **fields):
        body = {"sessionUpdate": what, **fields}
        send({"method": "session/update", "params": {"sessionId": self.id, "update": body}})
        if keep:
            old = dict(body)
            if "content" in old and isinstance(old["content"], list):
                old["content"] = [c for c in old["content"] if c.get("type") != "terminal"]
            self.d["log"].append(old)

    def options(self):
        cfg = self.d["config"]
        rows = []
        for oid, name, cat, values, _ in OPTIONS:
            opts = [{"value": v, "name": n} for v, n in values]
            if oid == "model":
                opts = [{"group": "birds", "name": "Ground birds", "options": opts}]
            rows.append({"id": oid, "name": name, "category": cat, "type": "select", "currentValue": cfg[oid], "options": opts})
        return rows

    def connect(self, servers):
        for m in self.mcp:
            m.close()
        self.mcp = []
        for conf in servers:
            try:
                self.mcp.append((McpHttp if conf.get("type") == "http" else McpStdio)(conf, self.d["cwd"]))
            except Exception as e:  # a broken server does not spoil the session
                print("mcp %s: %r" % (conf.get("name"), e), file=sys.stderr, flush=True)

    def work(self):
        while True:
            job = self.jobs.get()
            if job is None:
                return
            rid, blocks = job
            try:
                reason = Turn(self).run(blocks) if not self.stop.is_set() else "cancelled"
                result, err = {"stopReason": reason}, None
            except Stopped:
                result, err = {"stopReason": "cancelled"}, None
            except Exception as e:
                print(repr(e), file=sys.stderr, flush=True)
                result, err = None, Fail(-32603, "The turn broke off.")
            if not self.dead:
                self.save()
            answer(rid, result, err)
            with self.lock:
                self.pending -= 1
                if not self.pending:
                    self.stop.clear()

    def cancel(self):
        with self.lock:
            if self.pending:
                self.stop.set()

    def close(self):
        self.cancel()
        deadline = time.time() + 8
        while self.pending and time.time() < deadline:
            time.sleep(0.02)
        self.jobs.put(None)
        for m in self.mcp:
            m.close()


# ---------------------------------------------------------------- understanding
QUOTED = r"```(?:\w*\n)?(.+?)```|`([^`]+)`|\"([^\"]+)\"|“([^”]+)”|(?<!\w)'([^']+)'(?!\w)"
PATH = r"(?<![\w/.-])((?:/|\.{1,2}/)?[\w@-][\w@./-]*\.\w{1,8}|/[\w@./-]+)(?![\w/])"


def quotes(text):
    return [next(g for g in m.groups() if g) for m in re.finditer(QUOTED, text, re.S)]


def find_path(text):
    m = re.search(r"\b(?:named|called|name|file)\s+[`'\"]([\w@./ -]+)[`'\"]", text) or re.search(PATH, text) \
        or re.search(r"\bfile (?:named|called) ([\w-]+)", text)
    return m.group(1).rstrip(".") if m else None


def find_content(text, path):
    said = [q for q in quotes(text) if q != path]
    if said:
        return said[0].strip("\n") if "```" in text else said[0]
    m = re.search(r"\b(?:contain(?:s|ing)|with|that says|saying|content|reading)\b\s*(?:exactly|only|just)?:?\s*(?:the )?(?:following )?"
                  r"(?:single )?(?:content|contents|text|line|word|words)?\s*(?:of|is)?\s*:?\s*(.+)$", text, re.I | re.S)
    m = m or re.search(r"\b(?:write|save|put|add|store)\s+(.+?)\s+(?:to|into|in)\s", text, re.I | re.S)
    return m.group(1).strip().rstrip(".") if m else ""


STOP = {"this", "the", "that", "is", "it", "word", "number", "code", "secret", "following", "for", "me", "just", "you", "my", "and", "to", "ok", "of"}


def understand(text, tools):
    low = text.lower()
    verbs = {
        "write": r"\b(?:create|write|save|make|add|put|store)\b",
        "run": r"\b(?:run|execute|launch)\b",
        "read": r"\b(?:read|show|open|print|display|cat|look at|look into|contents? of|what is in|what's in|summari[sz]e)\b",
    }
    if re.match(r"/\w", low):
        return "slash", {"line": text}
    for server, tool in tools:
        if re.search(r"(?<![\w-])%s(?![\w-])" % re.escape(tool), text) and re.search(r"\b(tool|call|use|invoke|mcp)\b", low):
            return "mcp", {"server": server, "tool": tool, "text": text}
    if re.search(r"\b(make|create|write|draw up|draft|give me|show me|prepare|need)\b[^.]{0,40}\bplan\b|\bto-?do list\b|^plan\b", low):
        return "plan", {"goal": text}
    m = re.search(r"\b(?:count|numbers?)\b.*?\b(?:to|through|until)\s+(\d+)", low, re.S)
    if m:
        return "count", {"n": min(int(m.group(1)), 1000)}
    path = find_path(text)
    if re.search(r"\b(working|current) directory\b", low) and not path:
        return "where", {}
    if not path and re.search(r"^(what|which|tell me|do you|repeat|can you)\b.*\b(did i|i told|i asked|i gave|was the|is the|you remember|i said)\b.*"
                 r"|\bwhat .*\b(word|number|code|secret|name)\b.*\?", low, re.S):
        return "recall", {}
    if not path and re.search(r"\b(remember|memori[sz]e|keep in mind|note that)\b|\b(secret|code ?word|magic|password)\b.*\bis\b", low):
        words = re.findall(r"\b(?:is|word|number|code|name|phrase|remember)\b[:,]?\s+(?=[*_]*([\w-]{2,}))", text)
        words = [w for w in words if w.lower() not in STOP]
        return "remember", {"what": (quotes(text) or words or [text])[0]}
    found = []
    for kind, rx in verbs.items():
        m = re.search(rx, low)
        if m and (kind == "run" or path):
            found.append((m.start(), kind))
    if found:
        kind = min(found)[1]
        if kind == "run":
            cmd = quotes(text) or re.findall(r"(?i)\b(?:run|execute|launch)\b:?\s+(?:the |a |this )?(?:following )?(?:shell |terminal )?"
                                             r"(?:commands?|program)?\s*(?:in (?:a|the|your) (?:terminal|shell))?\s*:?\s*(.+?)(?:\.?$|,? and (?:tell|show|report|give|then)|\.\s)", text)
            if cmd:
                return "run", {"command": cmd[0].strip()}
        elif kind == "write":
            return "write", {"path": path, "text": find_content(text, path)}
        else:
            return "read", {"path": path}
    if re.search(r"\b(list|which|what) (?:\w+ )*files\b|\bls\b", low):
        return "run", {"command": "ls"}
    if re.search(r"\b(long|story|essay|poem|novel|detailed)\b", low):
        return "story", {}
    if path and re.search(r"\?|\bwhat\b|\btell me\b", low):
        return "read", {"path": path}
    return "chat", {}


# ---------------------------------------------------------------- one turn
class Turn:
    def __init__(self, s):
        self.s, self.stop, self.mid = s, s.stop, str(uuid.uuid4())

    def say(self, text):
        self.check()
        self.s.update("agent_message_chunk", content={"type": "text", "text": text}, messageId=self.mid)

    def check(self):
        if self.stop.is_set():
            raise Stopped()

    def nap(self, seconds):
        if self.stop.wait(seconds):
            raise Stopped()

    def tool(self, title, kind, name, raw, **more):
        self.check()
        tid = "call_" + uuid.uuid4().hex[:10]
        self.s.update("tool_call", toolCallId=tid, title=title, kind=kind, name=name, status="pending", rawInput=raw, **more)
        return tid

    def progress(self, tid, status, content=None, **more):
        if content is not None:
            more["content"] = content
        self.s.update("tool_call_update", toolCallId=tid, status=status, **more)

    def allowed(self, tid, title, kind):
        if kind in self.s.d["always"]:
            return self.s.d["always"][kind]
        opts = [{"optionId": "o%d" % i, "name": n, "kind": k} for i, (n, k) in enumerate([
            ("Not now", "reject_once"), ("Go ahead", "allow_once"), ("Never in this session", "reject_always"),
            ("Always in this session", "allow_always")])]
        try:
            res = ask("session/request_permission", {"sessionId": self.s.id, "options": opts,
                                                     "toolCall": {"toolCallId": tid, "title": title, "kind": kind}}, self)
        except Fail:
            self.check()
            return False
        out = res.get("outcome") or {}
        if out.get("outcome") != "selected":
            if FAULT == "quail-permission-cancel":  # a withdrawn question is taken for a plain "no"
                self.stop.clear()
                return False
            raise Stopped()
        self.check()
        kinds = {o["optionId"]: o["kind"] for o in opts}
        pick = kinds.get(out.get("optionId"), "reject_once")
        if pick.endswith("always"):
            self.s.d["always"][kind] = pick.startswith("allow")
        return pick.startswith("allow")

    def place(self, path):
        cwd = self.s.d["cwd"]
        full = os.path.normpath(os.path.join(cwd, os.path.expanduser(path)))
        root = os.path.realpath(cwd)
        real = os.path.realpath(full)
        return full, real == root or real.startswith(root.rstrip("/") + "/")

    def run(self, blocks):
        text = "\n".join(b["text"] for b in blocks if b["type"] == "text")
        umid = str(uuid.uuid4())
        for b in blocks:  # kept for session/load, not echoed now
            self.s.d["log"].append({"sessionUpdate": "user_message_chunk", "content": b, "messageId": umid})
        size = 64000
        self.s.update("usage_update", keep=False, used=min(size, len(json.dumps(self.s.d["log"])) // 4), size=size)
        if self.s.d["config"]["musing"] != "none":
            self.s.update("agent_thought_chunk", content={"type": "text", "text": "Let me see what is wanted here."})
        kind, arg = understand(text, [(m.name, t) for m in self.s.mcp for t in m.tools])
        live, arg = None, dict(arg)
        try:
            getattr(self, "do_" + kind)(**arg)
        except Stopped:
            live = [e["toolCallId"] for e in self.s.d["log"] if e["sessionUpdate"] == "tool_call"]
            done = {e["toolCallId"] for e in self.s.d["log"] if e["sessionUpdate"] == "tool_call_update" and e.get("status") in ("completed", "failed")}
            for tid in live:
                if tid not in done:
                    self.progress(tid, "failed")
            raise
        for b in blocks:
            if b["type"] in ("resource_link", "resource"):
                self.say(" I also noted %s." % (b.get("uri") or b["resource"].get("uri")))
        if self.s.d["config"]["signature"] == "chirp":
            self.say(" Chirp!")
        if not self.s.d.get("title"):
            self.s.d["title"] = (text.strip() or "Untitled")[:50]
            self.s.update("session_info_update", keep=False, title=self.s.d["title"], updatedAt=now())
        self.check()
        return "end_turn"

    def do_chat(self):
        self.say("Understood. ")
        self.say("I can read and create files, run commands, make plans, count, and use MCP tools; just ask.")

    def do_where(self):
        self.say("I work in %s." % self.s.d["cwd"])

    def do_slash(self, line):
        name = line.split()[0][1:]
        if name == "roost":
            self.say("Resting in %s after %d log entries." % (self.s.d["cwd"], len(self.s.d["log"])))
        elif name == "count":
            m = re.search(r"\d+", line)
            self.do_count(int(m.group()) if m else 5)
        else:
            self.say("There is no command called %s." % name)

    def do_remember(self, what):
        self.s.d["facts"].append(what)
        self.say("I will remember it.")

    def do_recall(self):
        self.say("You told me: %s." % ", ".join(self.s.d["facts"]) if self.s.d["facts"] else "You have not told me anything to remember.")

    def do_count(self, n):
        for i in range(1, n + 1):
            self.say("%d " % i)
            self.nap(0.25)

    def do_story(self):
        for i in range(80):
            self.say("On day %d the quail walked a little further through the barley. " % (i + 1))
            self.nap(0.2)

    def do_plan(self, goal):
        steps = ["Look at what is there", "Do the work", "Check the result"]
        for done in range(len(steps) + 1):
            self.check()
            self.s.update("plan", entries=[{"content": c, "priority": ["high", "medium", "low"][i], "status": "completed" if i < done
                                            else "in_progress" if i == done else "pending"} for i, c in enumerate(steps)])
            self.nap(0.1)
        self.say("That is the plan: look, do, check.")

    def do_read(self, path):
        full, inside = self.place(path)
        tid = self.tool("Read " + path, "read", "read_file", {"path": full}, locations=[{"path": full, "line": 1}])
        try:
            if not inside:
                raise Fail(0, "it lies outside the workspace")
            self.progress(tid, "in_progress")
            if (caps.get("fs") or {}).get("readTextFile") is True:
                data = ask("fs/read_text_file", {"sessionId": self.s.id, "path": full}, self).get("content", "")
            else:
                with open(full, encoding="utf-8", errors="replace") as f:
                    data = f.read()
        except (Fail, OSError) as e:
            self.check()
            self.progress(tid, "failed", [{"type": "content", "content": {"type": "text", "text": str(e)}}])
            return self.say("I could not read %s: %s." % (path, e))
        self.check()
        self.progress(tid, "completed", [{"type": "content", "content": {"type": "text", "text": data[:4000]}}], rawOutput={"chars": len(data)})
        self.say("%s says:\n%s" % (path, data[:2000]))

    def do_write(self, path, text):
        full, inside = self.place(path)
        tid = self.tool("Write " + path, "edit", "write_file", {"path": full, "content": text}, locations=[{"path": full}])
        try:
            if not inside:
                raise Fail(0, "it lies outside the workspace")
            old = open(full, encoding="utf-8", errors="replace").read() if os.path.exists(full) else None
            if not self.allowed(tid, "Write " + path, "edit"):
                self.progress(tid, "failed")
                return self.say("Fine, I leave %s alone." % path)
            self.progress(tid, "in_progress")
            if (caps.get("fs") or {}).get("writeTextFile") is True:
                ask("fs/write_text_file", {"sessionId": self.s.id, "path": full, "content": text}, self)
            else:
                os.makedirs(os.path.dirname(full), exist_ok=True)
                with open(full, "w", encoding="utf-8") as f:
                    f.write(text)
        except (Fail, OSError) as e:
            self.check()
            self.progress(tid, "failed", [{"type": "content", "content": {"type": "text", "text": str(e)}}])
            return self.say("I could not write %s: %s." % (path, e))
        diff = {"type": "diff", "path": full, "newText": text}
        if old is not None:
            diff["oldText"] = old
        self.progress(tid, "completed", [diff])
        self.say("%s is written." % path)

    def do_run(self, command):
        tid = self.tool("Run " + command, "execute", "shell", {"command": command})
        if not self.allowed(tid, "Run " + command, "execute"):
            self.progress(tid, "failed")
            return self.say("Fine, I do not run it.")
        self.check()
        if caps.get("terminal") is True:
            base = {"sessionId": self.s.id}
            try:
                base["terminalId"] = ask("terminal/create", {**base, "command": "/bin/sh", "args": ["-c", command],
                                                             "cwd": self.s.d["cwd"], "outputByteLimit": 20000}, None)["terminalId"]
            except (Fail, KeyError) as e:
                self.progress(tid, "failed", [{"type": "content", "content": {"type": "text", "text": str(e)}}])
                return self.say("The terminal could not be opened.")
            try:
                self.progress(tid, "in_progress", [{"type": "terminal", "terminalId": base["terminalId"]}])
                status = ask("terminal/wait_for_exit", base, self)
                code, text = status.get("exitCode"), ask("terminal/output", base).get("output", "")
            except Stopped:
                try:
                    ask("terminal/kill", base)
                except Fail:
                    pass
                raise
            except Fail as e:
                code, text = None, str(e)
            finally:
                try:
                    ask("terminal/release", base)
                except Fail:
                    pass
        else:
            self.progress(tid, "in_progress")
            p = subprocess.Popen(["/bin/sh", "-c", command], cwd=self.s.d["cwd"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT, start_new_session=True)
            children.add(p)
            got = []
            reader = threading.Thread(target=lambda: got.append(p.stdout.read()), daemon=True)
            reader.start()
            while reader.is_alive() and not self.stop.is_set():
                reader.join(0.05)
            if self.stop.is_set():
                os.killpg(p.pid, 9)
            code = p.wait()
            children.discard(p)
            self.check()
            text = got[0].decode("utf-8", "replace")
        body = [{"type": "content", "content": {"type": "text", "text": text or "(no output)"}}]
        self.progress(tid, "completed" if code == 0 else "failed", body, rawOutput={"exitCode": code})
        self.say("It ended with %s and printed:\n%s" % (code, text))

    def do_mcp(self, server, tool, text):
        m = next(m for m in self.s.mcp if m.name == server)
        found = re.search(r"\{.*\}", text, re.S)
        try:
            args = json.loads(found.group()) if found else {}
        except ValueError:
            args = {}
        schema = m.tools[tool].get("inputSchema") or {}
        said = [q for q in quotes(text) if q not in (tool, server)]
        for key, spec in (schema.get("properties") or {}).items():
            nums = re.findall(r"-?\d+", text)
            if key not in args and said and spec.get("type", "string") == "string":
                args[key] = said.pop(0)
            elif key not in args and nums and spec.get("type") in ("integer", "number"):
                args[key] = int(nums[list(schema["properties"]).index(key) % len(nums)])
        tid = self.tool("%s from %s" % (tool, server), "other", tool, args)
        self.progress(tid, "in_progress")
        box = []
        worker = threading.Thread(target=lambda: box.append(m.rpc("tools/call", {"name": tool, "arguments": args})), daemon=True)
        worker.start()
        while worker.is_alive():
            worker.join(0.05)
            self.check()
        try:
            res = box[0]
            said = " ".join(c.get("text", "") for c in res.get("content", []) if c.get("type") == "text")
            bad = res.get("isError") is True
        except Exception as e:
            said, bad = "no answer (%s)" % type(e).__name__, True
        self.progress(tid, "failed" if bad else "completed", [{"type": "content", "content": {"type": "text", "text": said}}])
        self.say("%s answered: %s" % (tool, said))


# ---------------------------------------------------------------- methods
children = set()


def need(p, key, kind=str):
    if not isinstance(p.get(key), kind):
        raise Fail(-32602, "The parameter %s is missing or has the wrong type." % key, {"parameter": key})
    return p[key]


def setup(p):
    cwd = need(p, "cwd")
    if not os.path.isabs(cwd):
        raise Fail(-32602, "cwd must be an absolute path.", {"parameter": "cwd"})
    for conf in need(p, "mcpServers", list):
        ok = isinstance(conf, dict) and isinstance(conf.get("name"), str)
        kind = conf.get("type", "stdio") if ok else None
        if not ok or not isinstance(conf.get("url" if kind == "http" else "command"), str) or kind not in ("http", "stdio"):
            raise Fail(-32602, "An MCP server entry is not usable.", {"parameter": "mcpServers"})
    return cwd, p["mcpServers"]


def stored(sid):
    path = os.path.join(STATE, sid + ".json")
    if not re.fullmatch(r"[\w-]+", sid) or not os.path.exists(path):
        raise Fail(-32002, "There is no such session.", {"sessionId": sid})
    with open(path, encoding="utf-8") as f:
        return json.load(f)


def live(p):
    sid = need(p, "sessionId")
    if sid not in sessions:
        raise Fail(-32002, "There is no such session.", {"sessionId": sid})
    return sessions[sid]


def m_initialize(p, rid):
    global caps, ready
    v = p.get("protocolVersion")
    if isinstance(v, bool) or not isinstance(v, int) or not 0 <= v <= 65535:
        raise Fail(-32602, "protocolVersion must be an integer from 0 to 65535.")
    c = p.get("clientCapabilities")
    caps, ready = c if isinstance(c, dict) else {}, True
    if not isinstance(caps.get("fs"), dict):
        caps = dict(caps, fs={})
    return {"protocolVersion": 1, "agentInfo": {"name": "quail", "title": "Quail", "version": "0.3.0"}, "authMethods": [],
            "agentCapabilities": {"loadSession": True, "promptCapabilities": {"embeddedContext": True, "image": False, "audio": False},
                                  "mcpCapabilities": {"http": True, "sse": False},
                                  "sessionCapabilities": {"list": {}, "delete": {}, "close": {}}}}


def m_session_new(p, rid):
    cwd, servers = setup(p)
    s = Session("quail-" + uuid.uuid4().hex, {"cwd": cwd, "created": time.time(), "log": [], "facts": [], "always": {}, "title": None,
                                              "config": {o[0]: o[4] for o in OPTIONS}})
    s.connect(servers)
    s.save()
    sessions[s.id] = s
    answer(rid, {"sessionId": s.id, "configOptions": s.options()})
    s.update("available_commands_update", keep=False, availableCommands=[
        {"name": "roost", "description": "Say where the session lives"},
        {"name": "count", "description": "Count slowly", "input": {"hint": "how far"}}])


def m_session_load(p, rid):
    sid = need(p, "sessionId")
    cwd, servers = setup(p)
    data = stored(sid)
    old = sessions.get(sid)
    if old:
        old.close()
    s = Session(sid, dict(data, cwd=cwd))
    sessions[sid] = s
    s.connect(servers)
    entries = list(s.d["log"])

    def replay(rows):
        for row in rows:
            send({"method": "session/update", "params": {"sessionId": sid, "update": row}})
    if FAULT == "quail-load-early":  # the last entries go out from a helper thread
        cut = max(0, len(entries) - 2)
        replay(entries[:cut])
        threading.Timer(0.15, replay, (entries[cut:],)).start()
    else:
        replay(entries)
    return {"configOptions": s.options()}


def m_session_list(p, rid):
    want, cursor = p.get("cwd"), p.get("cursor")
    if want is not None and not (isinstance(want, str) and os.path.isabs(want)):
        raise Fail(-32602, "cwd must be an absolute path.")
    rows = []
    for name in os.listdir(STATE):
        if name.endswith(".json"):
            try:
                d = stored(name[:-5])
            except (Fail, ValueError, OSError):
                continue
            if want is None or d["cwd"] == want:
                info = {"sessionId": name[:-5], "cwd": d["cwd"], "updatedAt": d["updatedAt"]}
                if d.get("title"):
                    info["title"] = d["title"]
                rows.append(((-d["created"], name), info))
    rows.sort(key=lambda r: r[0])
    if cursor is not None:
        try:
            mark = json.loads(base64.b64decode(cursor.encode(), validate=True))
            mark = (float(mark[0]), str(mark[1]))
        except Exception:
            raise Fail(-32602, "The cursor is not valid.", {"cursor": cursor}) from None
        rows = [r for r in rows if r[0] > mark]
    res = {"sessions": [r[1] for r in rows[:PAGE]]}
    if len(rows) > PAGE:
        res["nextCursor"] = base64.b64encode(json.dumps(rows[PAGE - 1][0]).encode()).decode()
    return res


def m_session_close(p, rid):
    s = live(p)
    s.close()
    sessions.pop(s.id, None)
    return {}


def m_session_delete(p, rid):
    sid = need(p, "sessionId")
    s = sessions.pop(sid, None)
    if s:
        s.dead = True
        s.close()
    if re.fullmatch(r"[\w-]+", sid) and os.path.exists(os.path.join(STATE, sid + ".json")):
        os.remove(os.path.join(STATE, sid + ".json"))
    return {}


def m_session_set_config_option(p, rid):
    s, cid = live(p), need(p, "configId")
    value = need(p, "value")
    spec = next((o for o in OPTIONS if o[0] == cid), None)
    if spec is None or value not in [v for v, _ in spec[3]]:
        raise Fail(-32602, "This option or value is not on offer.", {"configId": cid, "value": value})
    s.d["config"][cid] = value
    s.save()
    rows = s.options()
    if FAULT == "quail-config-partial":
        rows = [r for r in rows if r["id"] == cid]
    return {"configOptions": rows}


def m_session_prompt(p, rid):
    s = live(p)
    for b in need(p, "prompt", list):
        t = b.get("type") if isinstance(b, dict) else None
        ok = (t == "text" and isinstance(b.get("text"), str)) \
            or (t == "resource_link" and isinstance(b.get("uri"), str) and isinstance(b.get("name"), str)) \
            or (t == "resource" and isinstance(b.get("resource"), dict) and isinstance(b["resource"].get("uri"), str))
        if not ok:
            raise Fail(-32602, "A content block is not acceptable.", {"type": t if isinstance(t, str) else None})
    with s.lock:
        s.pending += 1
        s.jobs.put((rid, p["prompt"]))


METHODS = {"initialize": m_initialize, "session/new": m_session_new, "session/load": m_session_load, "session/list": m_session_list,
           "session/close": m_session_close, "session/delete": m_session_delete, "session/prompt": m_session_prompt,
           "session/set_config_option": m_session_set_config_option}
SELF_ANSWERING = ("session/new", "session/prompt")


def serve(rid, method, params):
    try:
        if method not in METHODS:
            raise Fail(-32601, "This method is not known here.", {"method": method})
        if not ready and method != "initialize":
            raise Fail(-32600, "The connection is not initialized yet.")
        if not isinstance(params, dict):
            raise Fail(-32602, "Parameters must be an object.")
        res = METHODS[method](params, rid)
        if method not in SELF_ANSWERING:
            answer(rid, res)
    except Fail as e:
        answer(rid, error=e)
    except Exception as e:
        print(repr(e), file=sys.stderr, flush=True)
        answer(rid, error=Fail(-32603, "Something went wrong inside."))


def take(line):
    try:
        msg = json.loads(line.decode("utf-8"))
    except ValueError:
        return answer(None, error=Fail(-32700, "This line is not JSON."))
    if not isinstance(msg, dict):
        return answer(None, error=Fail(-32600, "One object per line, please."))
    rid = msg.get("id")
    if isinstance(rid, bool) or not (rid is None or isinstance(rid, (int, str))):
        return answer(None, error=Fail(-32600, "The id is neither a string nor an integer."))
    if "method" not in msg and ("result" in msg or "error" in msg):
        box = waiting.pop(rid, None)
        return box.put(msg) if box else None
    if msg.get("jsonrpc") != "2.0" or not isinstance(msg.get("method"), str):
        return answer(rid, error=Fail(-32600, "This is not a JSON-RPC 2.0 request."))
    method, params = msg["method"], msg.get("params")
    if "id" not in msg:
        if method == "session/cancel" and isinstance(params, dict):
            s = sessions.get(params.get("sessionId")) if isinstance(params.get("sessionId"), str) else None
            if s:
                s.cancel()
        return
    if params is not None and not isinstance(params, (dict, list)):
        return answer(rid, error=Fail(-32600, "params must be structured."))
    if method in ("session/new", "session/load", "session/close", "session/delete"):
        threading.Thread(target=serve, args=(rid, method, params), daemon=True).start()
    else:
        serve(rid, method, {} if params is None else params)


for raw in sys.stdin.buffer:
    if raw.strip():
        take(raw)
for one in list(sessions.values()):
    for server in one.mcp:
        server.close()
for child in list(children):
    try:
        os.killpg(child.pid, 9)
    except OSError:
        pass
sys.stdout.flush()
os._exit(0)
