#!/usr/bin/env python3
"""The slow command-line tool behind Bison. Reads one job on stdin, prints one event per line."""
import json, os, queue, re, subprocess, sys, threading, time

job = json.loads(sys.stdin.readline())
CWD, ROOTS, PROMPT = job["cwd"], [os.path.normpath(r) for r in job["roots"]], job["prompt"].strip()
tool_no = 0


def emit(ev, **f):
    sys.stdout.write(json.dumps({"ev": ev, **f}) + "\n")
    sys.stdout.flush()


def say(text):
    emit("text", text=text)


def block(text):
    return [{"type": "content", "content": {"type": "text", "text": text}}]


# ------------------------------------------------------------------ tools
class Call:
    """One tool call: report, perhaps ask, work, report the end."""
    def __init__(self, title, kind, raw, path=None, name=None):
        global tool_no
        tool_no += 1
        self.n = tool_no
        extra = {"locations": [{"path": path}]} if path else {}
        emit("tool", n=self.n, title=title, kind=kind, name=name or kind, rawInput=raw, **extra)

    def ask(self):
        emit("ask", n=self.n)
        if json.loads(sys.stdin.readline() or '{"answer":false}')["answer"]:
            return True
        self.end(False, "Not allowed by the user.")
        return False

    def begin(self):
        emit("working", n=self.n)

    def end(self, good, text, raw=None, content=None):
        emit("tool_done", n=self.n, status="completed" if good else "failed", content=content or block(text or "(nothing)"), rawOutput=raw if raw is not None else {"text": text[:2000]})


def locate(name):
    path = os.path.normpath(os.path.join(CWD, os.path.expanduser(name)))
    return path, any(path == r or path.startswith(r.rstrip("/") + "/") for r in ROOTS)


def read_file(name):
    path, inside = locate(name)
    c = Call("Reading " + os.path.basename(path), "read", {"file": path}, path)
    c.begin()
    try:
        if not inside:
            raise OSError("the file is outside the workspace roots")
        with open(path, encoding="utf-8", errors="replace") as f:
            text = f.read()
    except OSError as e:
        c.end(False, str(e))
        return say(f"Sorry, reading {name} did not work: {e}")
    c.end(True, text)
    say(f"{name} says:\n{text[:6000]}")


def write_file(name, change):
    path, inside = locate(name)
    old = None
    if os.path.exists(path):
        try:
            with open(path, encoding="utf-8", errors="replace") as f:
                old = f.read()
        except OSError as e:
            return say(f"Sorry: {e}")
    new = change(old)
    if new is None:
        return say(f"I looked at {name} but found nothing to change.")
    c = Call("Writing " + os.path.basename(path), "edit", {"file": path}, path)
    if not inside and not c.ask():
        return say("Fine, I keep inside the workspace.")
    c.begin()
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as f:
            f.write(new)
    except OSError as e:
        c.end(False, str(e))
        return say(f"Sorry, writing {name} did not work: {e}")
    diff = {"type": "diff", "path": path, "newText": new}
    if old is not None:
        diff["oldText"] = old
    c.end(True, "", {"bytes": len(new.encode("utf-8", "replace"))}, [diff])
    say(f"I wrote {name}.")


def delete_file(name):
    path, inside = locate(name)
    c = Call("Deleting " + os.path.basename(path), "delete", {"file": path}, path)
    if not c.ask():
        return say("The file stays.")
    c.begin()
    try:
        if not inside:
            raise OSError("the file is outside the workspace roots")
        os.unlink(path)
    except OSError as e:
        c.end(False, str(e))
        return say(f"Sorry: {e}")
    c.end(True, "deleted")
    say(f"{name} is deleted.")


def run(command, ask=True):
    c = Call("$ " + command, "execute", {"command": command})
    if ask and not c.ask():
        return say("Very well, I did not run that.")
    c.begin()
    p = subprocess.run(command, shell=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    text = p.stdout.decode("utf-8", "replace")
    c.end(p.returncode == 0, text[-20000:], {"exitCode": p.returncode, "command": command})
    say(f"`{command}` ended with {p.returncode}:\n{text[-6000:]}")


# ------------------------------------------------------------------ MCP over stdio
class Mcp:
    def __init__(self, spec):
        self.name, self.tools, self.trouble, self.n, self.inbox = spec["name"], [], None, 0, queue.Queue()
        try:
            env = dict(os.environ, **{e["name"]: e["value"] for e in spec["env"]})
            self.p = subprocess.Popen([spec["command"], *spec["args"]], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            threading.Thread(target=self.listen, daemon=True).start()
            self.call("initialize", {"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "bison-worker", "version": "1.9.4"}}, 6)
            self.post({"method": "notifications/initialized"})
            self.tools = self.call("tools/list", {}, 6).get("tools", [])
        except Exception as e:
            self.trouble = str(e) or type(e).__name__

    def listen(self):
        for line in self.p.stdout:
            try:
                m = json.loads(line)
            except ValueError:
                continue
            if "method" in m and "id" in m:
                self.post({"id": m["id"], "result": {}} if m["method"] == "ping" else {"id": m["id"], "error": {"code": -32601, "message": "no"}})
            elif "id" in m:
                self.inbox.put(m)
        self.inbox.put(None)

    def post(self, m):
        self.p.stdin.write((json.dumps({"jsonrpc": "2.0", **m}) + "\n").encode())
        self.p.stdin.flush()

    def call(self, method, params, patience=60):
        self.n += 1
        self.post({"id": self.n, "method": method, "params": params})
        m = self.inbox.get(timeout=patience)
        if m is None:
            raise RuntimeError("the server went away")
        if "error" in m:
            raise RuntimeError(m["error"].get("message", "error"))
        return m["result"]


def connect_all():
    servers = []
    threads = [threading.Thread(target=lambda s=s: servers.append(Mcp(s)), daemon=True) for s in job["servers"]]
    for t in threads:
        t.start()
    for t in threads:
        t.join(7)
    return servers


def use_tool(servers, wanted):
    all_tools = [(s, t) for s in servers for t in s.tools]
    match = [(s, t) for s, t in all_tools if t["name"] == wanted]
    match = [x for x in match if x[0].name.lower() in PROMPT.lower()] or match
    if not match and not wanted:
        match = [x for x in all_tools if x[0].name.lower() in PROMPT.lower()]
        match = match if len(match) == 1 else []
    if not match:
        bad = [f"{s.name}: {s.trouble}" for s in servers if s.trouble]
        return say("The tools I have: " + (", ".join(f"{t['name']} of {s.name}" for s, t in all_tools) or "none") + (" (" + "; ".join(bad) + ")" if bad else "") + ".")
    server, tool = match[0]
    args = arguments(tool.get("inputSchema") or {}, [tool["name"], server.name])
    c = Call(f"{tool['name']} ({server.name})", "other", args, name=f"{server.name}/{tool['name']}")
    c.begin()
    try:
        r = server.call("tools/call", {"name": tool["name"], "arguments": args})
        text = "\n".join(x.get("text", f"[{x.get('type')}]") for x in r.get("content", []))
        c.end(not r.get("isError"), text)
        say(f"{tool['name']} gave: {text}")
    except Exception as e:
        c.end(False, str(e) or "no answer")
        say(f"{tool['name']} did not work: {e}")


def arguments(schema, names):
    m = re.search(r"\{.*\}", PROMPT, re.S)
    if m:
        try:
            return json.loads(m.group(0))
        except ValueError:
            pass
    props = schema.get("properties") or {}
    words = [q for q in quotes(PROMPT) if q not in names and q not in props]
    numbers = [float(n) if "." in n else int(n) for n in re.findall(r"(?<![\w.])-?\d+(?:\.\d+)?(?!\w)", PROMPT)]
    tail = re.search(r"\b(?:with|saying|for|on)\s+(?:the\s+)?(?:text|message|argument|input|value|word)?s?\s*:?\s*(.+)$", PROMPT, re.S | re.I)
    out = {}
    for key, p in props.items():
        m = re.search(r"\b%s\b[\"'`]?\s*(?:=|:|is|of|set to)?\s*(?:\"([^\"]*)\"|'([^']*)'|`([^`]*)`|(-?[\w.]+))" % re.escape(key), PROMPT, re.I)
        val = next((g for g in m.groups() if g is not None), None) if m else None
        if p.get("type") in ("number", "integer"):
            out[key] = int(val) if val and re.fullmatch(r"-?\d+", val) else (numbers.pop(0) if numbers else 0)
        elif p.get("type") == "boolean":
            out[key] = bool(val and val.lower() in ("true", "yes", "on"))
        elif p.get("type", "string") == "string":
            out[key] = words.pop(0) if words else (val or (tail.group(1).rstrip(".") if tail else PROMPT))
    return out


# ------------------------------------------------------------------ understanding
def quotes(s):
    return [next(g for g in m if g) for m in re.findall(r"`([^`]+)`|\"([^\"]+)\"|“([^”]+)”|(?<!\w)'([^']+)'(?!\w)", s)]


def looks_like_path(w):
    return bool(w) and not re.search(r"\s", w) and bool(re.match(r"^(\.{1,2})?/[^/]|^~/", w) or re.match(r"^[\w@+./-]*[\w-]\.[A-Za-z][A-Za-z0-9]{0,7}$", w)) and w.lower() not in ("e.g", "i.e")


def find_file(s):
    for q in quotes(s):
        if looks_like_path(q):
            return q
    m = re.search(r"\bfile\s+(?:named|called|at)\s+[`\"']?([^\s`\"',;:]+)", s, re.I)
    if m:
        return m.group(1).rstrip(".")
    for w in re.split(r"[\s`\"'“”(),;:]+", s):
        if looks_like_path(w.rstrip(".?!")):
            return w.rstrip(".?!")
    m = re.search(r"\bfile\s+([A-Za-z][\w-]+)", s)
    return m.group(1) if m and m.group(1).lower() not in ("with", "that", "in", "named", "called", "containing", "and", "to", "for", "please", "using", "system") else None


def content_for(s, name):
    m = re.search(r"\b(?:with(?: exactly)?(?: the| this| a)?(?: following| single)?(?: text| contents?| line| body| words?)|containing(?: only| exactly| just)?(?: the)?(?: text| words?| line)?|(?:that|it) (?:says|contains|reads|should (?:say|contain))(?: exactly| only| just)?|whose contents? (?:is|are)|contents?(?: should be| is)?|saying)(?: of)?\s*:?\s*(.+)$", s, re.S | re.I) \
        or re.search(r"\b(?:write|put|save|store)\s+(?:the (?:text|words?|line|string)\s+)?(.+?)\s+(?:in|into|to)\s+", s, re.S | re.I) \
        or re.search(r"\bwith\s+(.+)$", s, re.S | re.I)
    body = m.group(1) if m else ""
    q = [x for x in quotes(body) if x != name] or ([x for x in quotes(s) if x != name] if not body.strip() else [])
    if q:
        return q[0]
    body = re.sub(r"\s+(?:in it|inside)\.?$", "", body.strip())
    return re.sub(r"(?<=\w)\.$", "", body) if body and body != name else "Bison was here.\n"


def command_in(s):
    q = quotes(s)
    if q:
        return q[0]
    m = re.search(r"\b(?:run|execute)\b\s*(?:the\s+|this\s+)?(?:following\s+)?(?:shell\s+|terminal\s+|bash\s+)?(?:command)?\s*(?:in (?:the|a|your) (?:terminal|shell)\s*)?:?\s*(.+)$", s, re.S | re.I)
    if not m:
        return None
    c = re.sub(r"\s+in (?:the|a|your) (?:terminal|shell)\b.*$", "", m.group(1), flags=re.S)
    c = re.sub(r"[,.]?\s+(?:and|then)\s+(?:tell|show|give|report|let|wait)\b.*$", "", c, flags=re.S)
    return re.sub(r"(?:\s+(?:for me|please))?[.?!]?$", "", c).strip()


def has(pattern):
    return re.search(pattern, PROMPT, re.I | re.S)


def work():
    time.sleep(0.3)                                   # the tool is slow to start
    servers = connect_all()
    names = [t["name"] for s in servers for t in s.tools]
    emit("tokens", count=400 + len(PROMPT) // 4)
    name = find_file(PROMPT)
    called = sorted((n for n in names if re.search(r"(?<![\w-])%s(?![\w-])" % re.escape(n), PROMPT)), key=len)
    if called and (has(r"\b(tool|server|mcp)\b") or has(r"\b(call|use|invoke)\b") and not has(r"\b(run|execute|terminal|shell|command)\b")) or has(r"\bmcp\b"):
        return use_tool(servers, called[-1] if called else None)
    if has(r"\bplan\b(?!\.\w)") and not has(r"\bfile\b"):
        steps = ["Understand the question", "Do the heavy lifting", "Rest in the grass"]
        for i in range(4):
            emit("plan", entries=[{"content": t, "priority": ("high", "medium", "low")[k], "status": "completed" if k < i else "in_progress" if k == i else "pending"} for k, t in enumerate(steps)])
            time.sleep(0.15)
        return say("That was the plan: " + ", ".join(steps).lower() + ".")
    m = has(r"\bcount\b.*?\b(?:to|until|till)\s+(\d+)") or has(r"\bcount\b\D*(\d+)")
    if m:
        for i in range(1, min(int(m.group(1)), 1000) + 1):
            say(f"{i} ")
            time.sleep(0.4 if has(r"slow|second|pause") else 0.1)
        return
    if has(r"\b(run|execute)\b") and command_in(PROMPT):
        return run(command_in(PROMPT))
    m = has(r"\b(?:replace|change)\s+(?:the (?:word|text)\s+)?(.+?)\s+(?:with|by|to|into)\s+(.+?)(?:\s+in\b|[.!]?\s*$)")
    if m and name:
        a, b = (x.strip("`\"'“”") for x in m.groups())
        return write_file(name, lambda old: old.replace(a, b) if old and a in old else None)
    if name and has(r"\b(delete|remove|erase)\b"):
        return delete_file(name)
    if name and has(r"\bappend\b"):
        q = [x for x in quotes(PROMPT) if x != name]
        m = has(r"append\s+(.+?)\s+to\b")
        return write_file(name, lambda old: (old or "") + (q[0] if q else m.group(1) if m else ""))
    if name and has(r"\b(create|write|make|save|put|generate|store|update|edit|modify|overwrite|set)\b"):
        return write_file(name, lambda old: content_for(PROMPT, name))
    if name and has(r"\b(read|open|show|display|print|cat|look|see|contents?|summari[sz]e|what|tell|view|check|explain)\b"):
        return read_file(name)
    if has(r"\b(list|show|which|what)\b.*\bfiles\b|^ls\b"):
        return run("ls -1", ask=False)
    if has(r"\b(working|current) (directory|folder)\b|\bpwd\b"):
        return run("pwd", ask=False)
    if has(r"\b(use|call|invoke|try)\b.*\btool\b"):
        return use_tool(servers, None)
    m = has(r"\b(?:wait|sleep|pause)\b\D*(\d+)\s*s")
    if m:
        time.sleep(min(int(m.group(1)), 120))
        return say("I waited.")
    if has(r"\b(story|essay|poem|novel|article|long|lengthy|\d{3,} words|paragraphs)\b"):
        for i in range(60):
            say(f"The herd walked on, day {i + 1}, and the grass was " + ("green", "yellow", "white with frost")[i % 3] + ".\n")
            time.sleep(0.3)
        return
    facts = [t for who, t in job["history"] if who == "user" and re.search(r"remember|memori|keep in mind|secret|\bis\b", t, re.I) and not t.rstrip().endswith("?")]
    if has(r"\b(what|which|tell|recall|do you)\b.*\b(word|number|code|name|secret|colou?r|remember|told|said|favou?rite)\b") and PROMPT.rstrip().endswith("?") or has(r"\b(tell me|recall|repeat) the (secret|word|number|code)\b"):
        return say("You told me: " + " | ".join(facts[-3:]) if facts else "Nobody has told me that here.")
    if has(r"\bremember\b|\bmemori[sz]e\b|\bkeep in mind\b|\b(secret|my \w+(?: \w+)?) is\b"):
        return say("Noted, I forget nothing.")
    m = has(r"\b(?:say|reply|respond|answer|repeat|echo)\b(?:\s+(?:with|back|after me|only|just|exactly|the|single|one|words?|text|phrase|following|this|in))*\s*:?\s*(.+)$")
    if m:
        q = quotes(m.group(1))
        return say(q[0] if q else m.group(1).rstrip("."))
    emit("thought", text="Small talk, it seems.")
    say("Mm. I am Bison: slow, steady, good at files and commands. What shall we move?")


work()
