#!/usr/bin/env python3
"""seventh-pangolin: a small rule-based ACP agent, standard library only."""
import asyncio
import base64
import binascii
import datetime
import hashlib
import json
import os
import queue
import re
import secrets
import signal
import sys
import threading
import time

import mcp_link
import wishes

FAULT = os.environ.get("FAULT", "")
VERSION = 1
PAGE = 40
MODES = [
    {"id": "urn:pangolin:careful", "name": "Careful", "description": "Asks before it changes or runs anything"},
    {"id": "urn:pangolin:brisk", "name": "Brisk", "description": "Works inside the working directory without asking"},
    {"id": "urn:pangolin:look-only", "name": "Look only", "description": "Reads, never changes anything"},
]
CHOICES = {"manner": [m["id"] for m in MODES], "depth": ["shallow", "deep"], "model": ["pangolin-small", "pangolin-large"]}
COMMANDS = [
    {"name": "recap", "description": "Tell what has been remembered in this session"},
    {"name": "plan", "description": "Make a plan", "input": {"hint": "what the plan is for"}},
]


class Fail(Exception):
    def __init__(self, code, message, data=None):
        super().__init__(message)
        self.code, self.message, self.data = code, message, data


class TurnStopped(Exception):
    """The client reports that the turn was cancelled."""


class ToolFailed(Exception):
    pass


def log(*a):
    print("[pangolin]", *a, file=sys.stderr, flush=True)


def state_dir():
    base = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    d = os.path.join(base, "seventh-pangolin")
    try:
        os.makedirs(os.path.join(d, "journals"), exist_ok=True)
    except OSError:
        d = os.path.join("/tmp", "seventh-pangolin-%d" % os.getuid())
        os.makedirs(os.path.join(d, "journals"), exist_ok=True)
    return d


def iso(t):
    return datetime.datetime.fromtimestamp(t, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def text_block(t):
    return {"type": "text", "text": t}


def tool_text(t):
    return {"type": "content", "content": text_block(t)}


# ---------------------------------------------------------------- validation
def need(cond, what):
    if not cond:
        raise Fail(-32602, "Invalid params: " + what)


def is_str(v):
    return isinstance(v, str)


def opt(v, kind):
    return v is None or isinstance(v, kind)


def check_servers(v):
    need(isinstance(v, list), "mcpServers must be an array")
    for s in v:
        need(isinstance(s, dict) and is_str(s.get("name")), "an MCP server needs a name")
        kind = s.get("type")
        if kind in ("http", "sse"):
            need(is_str(s.get("url")), "url must be a string")
            need(isinstance(s.get("headers"), list) and all(isinstance(h, dict) and is_str(h.get("name")) and is_str(h.get("value")) for h in s["headers"]), "headers must be a list of name and value")
            need(kind == "http", "the sse transport is not supported")
        else:
            need(is_str(s.get("command")), "command must be a string")
            need(isinstance(s.get("args"), list) and all(map(is_str, s["args"])), "args must be a list of strings")
            need(isinstance(s.get("env"), list) and all(isinstance(e, dict) and is_str(e.get("name")) and is_str(e.get("value")) for e in s["env"]), "env must be a list of name and value")
    return v


def check_cwd(p):
    need(is_str(p.get("cwd")), "cwd must be a string")
    need(os.path.isabs(p["cwd"]), "cwd must be an absolute path")
    return os.path.normpath(p["cwd"]) if p["cwd"] != "/" else "/"


def check_prompt(blocks):
    need(isinstance(blocks, list), "prompt must be an array of content blocks")
    for b in blocks:
        need(isinstance(b, dict), "a content block must be an object")
        t = b.get("type")
        if t == "text":
            need(is_str(b.get("text")), "a text block needs text")
        elif t == "resource_link":
            need(is_str(b.get("uri")) and is_str(b.get("name")), "a resource link needs uri and name")
        elif t == "image":
            need(is_str(b.get("data")) and is_str(b.get("mimeType")), "an image needs data and mimeType")
        elif t == "resource":
            r = b.get("resource")
            need(isinstance(r, dict) and is_str(r.get("uri")) and (is_str(r.get("text")) or is_str(r.get("blob"))), "an embedded resource needs uri and text or blob")
        else:
            need(False, "this kind of content block is not supported")
    return blocks


# ---------------------------------------------------------------- sessions
class Session:
    def __init__(self, agent, sid, cwd):
        self.agent, self.id, self.cwd = agent, sid, cwd
        self.settings = {"manner": MODES[0]["id"], "depth": "shallow", "model": "pangolin-small"}
        self.notes, self.entries, self.links = [], [], []
        self.calls = 0
        self.always = set()
        self.turns = []
        self.lock = asyncio.Lock()
        self.partial = None
        self.chars = 0

    # the journal: one JSON value a line
    @staticmethod
    def file_of(sid):
        return os.path.join(state_dir(), "journals", hashlib.sha256(sid.encode("utf-8", "surrogatepass")).hexdigest()[:32] + ".jsonl")

    def record(self, **entry):
        self.entries.append(entry)
        try:
            with open(self.file_of(self.id), "a", encoding="ascii") as f:
                f.write(json.dumps(entry) + "\n")
        except OSError as e:
            log("journal:", e)

    @classmethod
    def from_disk(cls, agent, sid, cwd):
        try:
            with open(cls.file_of(sid), encoding="ascii") as f:
                rows = [json.loads(l) for l in f if l.endswith("\n")]
        except (OSError, ValueError):
            return None
        if not rows or rows[0].get("id") != sid:
            return None
        s = cls(agent, sid, cwd)
        s.entries = rows
        for r in rows:
            if "note" in r:
                s.notes.append(r["note"])
            if "set" in r:
                s.settings[r["set"]] = r["to"]
            if "calls" in r:
                s.calls = max(s.calls, r["calls"])
            s.chars += len(json.dumps(r.get("u", "")))
        return s

    def send(self, update):
        self.agent.notify("session/update", {"sessionId": self.id, "update": update})

    def settle(self):
        if self.partial:
            kind, parts = self.partial
            self.partial = None
            self.record(u={"sessionUpdate": kind, "content": text_block("".join(parts))})

    def chunk(self, text, kind="agent_message_chunk"):
        if self.partial and self.partial[0] != kind:
            self.settle()
        if not self.partial:
            self.partial = (kind, [])
        self.partial[1].append(text)
        self.chars += len(text)
        self.send({"sessionUpdate": kind, "content": text_block(text)})

    async def speak(self, text, kind="agent_message_chunk", pause=0.012):
        for piece in re.findall(r"\s*\S+\s*?(?=\s|$)|\s+", text)[:400] if len(text) < 1500 else [text[i:i + 700] for i in range(0, len(text), 700)]:
            self.chunk(piece, kind)
            await asyncio.sleep(pause)

    def modes(self):
        return {"currentModeId": self.settings["manner"], "availableModes": MODES}

    def options(self):
        def select(cid, name, category, choices):
            return {"id": cid, "name": name, "category": category, "type": "select", "currentValue": self.settings[cid], "options": choices}
        return [
            select("manner", "Manner", "mode", [{"value": m["id"], "name": m["name"], "description": m["description"]} for m in MODES]),
            select("model", "Model", "model", [{"value": "pangolin-small", "name": "Small"}, {"value": "pangolin-large", "name": "Large"}]),
            select("depth", "Depth of thought", "thought_level", [{"value": "shallow", "name": "Shallow"}, {"value": "deep", "name": "Deep"}]),
        ]

    def set(self, name, value):
        if self.settings[name] != value:
            self.settings[name] = value
            self.record(set=name, to=value)

    def stop_turns(self):
        for t in list(self.turns):
            t.cancel()

    async def shut(self):
        links, self.links = self.links, []
        await asyncio.gather(*(l.close() for l in links), return_exceptions=True)

    def base(self):
        if FAULT == "borrowed-cwd":
            return self.agent.latest_cwd
        return self.cwd

    def path(self, p):
        if p.startswith("~"):
            p = os.path.expanduser(p)
        return os.path.normpath(os.path.join(self.base(), p))

    def inside(self, p):
        real, root = os.path.realpath(p), os.path.realpath(self.base())
        return real == root or real.startswith(root.rstrip("/") + "/")


class Turn:
    def __init__(self, session):
        self.session, self.task, self.cancelled = session, None, False
        self.asking = False
        self.open = {}

    def cancel(self):
        if self.cancelled:
            return
        if FAULT == "shrug-off" and self.asking:
            return
        self.cancelled = True
        if self.task:
            self.task.cancel()

    # ---- tool calls
    def begin(self, title, kind, name, raw, locations=()):
        s = self.session
        s.settle()
        s.calls += 1
        s.record(calls=s.calls)
        call = {"toolCallId": "t%d" % s.calls, "title": title, "name": name, "kind": kind, "status": "pending", "rawInput": raw}
        if locations:
            call["locations"] = [dict(path=p, **({"line": n} if n else {})) for p, n in locations]
        self.open[call["toolCallId"]] = call
        s.send(dict(call, sessionUpdate="tool_call"))
        return call["toolCallId"]

    def update(self, tid, **fields):
        self.open[tid].update(fields)
        self.session.send(dict(fields, sessionUpdate="tool_call_update", toolCallId=tid))

    def finish(self, tid, status, content, stored=None, **extra):
        call = self.open.pop(tid)
        call.update(extra, status=status, content=content)
        self.session.send(dict(extra, sessionUpdate="tool_call_update", toolCallId=tid, status=status, content=content))
        call["content"] = content if stored is None else stored
        self.session.record(u=dict(call, sessionUpdate="tool_call"))

    def abandon(self, why):
        for tid in list(self.open):
            self.finish(tid, "failed", [tool_text(why)])

    async def permitted(self, tid, what, content=None, inside=True):
        """True when the user allows it."""
        s = self.session
        if s.settings["manner"] == "urn:pangolin:look-only" and what != "peek":
            raise ToolFailed("In look-only mode I change nothing.")
        if inside and (s.settings["manner"] == "urn:pangolin:brisk" or what in s.always):
            return True
        no, ever, yes = ("%s-%s" % (k, secrets.token_hex(3)) for k in ("n", "a", "y"))
        call = {k: v for k, v in self.open[tid].items() if k in ("toolCallId", "title", "kind", "rawInput", "locations", "name")}
        if content:
            call["content"] = content
        options = [{"optionId": no, "name": "No, leave it", "kind": "reject_once"}]
        if inside:
            options.append({"optionId": ever, "name": "Yes, and do not ask again", "kind": "allow_always"})
        options.append({"optionId": yes, "name": "Yes, this time", "kind": "allow_once"})
        self.asking = True
        try:
            got = await s.agent.ask("session/request_permission", {"sessionId": s.id, "toolCall": call, "options": options})
        except Fail as e:
            raise ToolFailed("The permission could not be asked for: %s" % e.message)
        finally:
            self.asking = False
        outcome = got.get("outcome") if isinstance(got, dict) else None
        outcome = outcome if isinstance(outcome, dict) else {}
        if outcome.get("outcome") == "cancelled" and FAULT != "shrug-off":
            raise TurnStopped()
        if outcome.get("outcome") == "selected" and outcome.get("optionId") in ((yes, ever) if inside else (yes,)):
            if outcome["optionId"] == ever:
                s.always.add(what)
            return True
        return False


# ---------------------------------------------------------------- the agent
class Agent:
    def __init__(self):
        self.loop = asyncio.get_running_loop()
        self.out = queue.Queue()
        self.waiting, self.next_id = {}, 0
        self.salt = secrets.token_hex(2)
        self.caps, self.ready = {}, False
        self.live = {}
        self.latest_cwd = os.getcwd()
        self.badge = os.path.join(state_dir(), "badge")
        self.authed = os.path.exists(self.badge)
        self.jobs, self.children = set(), set()
        self.methods = {
            "initialize": self.m_initialize, "authenticate": self.m_authenticate, "logout": self.m_logout,
            "session/new": self.m_new, "session/load": self.m_load, "session/resume": self.m_resume,
            "session/list": self.m_list, "session/close": self.m_close, "session/prompt": self.m_prompt,
            "session/set_mode": self.m_set_mode, "session/set_config_option": self.m_set_option,
        }

    # ---- frames
    def write(self, msg):
        self.out.put(json.dumps(dict(jsonrpc="2.0", **msg), separators=(",", ":")).encode("ascii") + b"\n")

    def notify(self, method, params):
        self.write({"method": method, "params": params})

    def refuse(self, rid, code, message, data=None):
        err = {"code": code, "message": message}
        if data is not None:
            err["data"] = data
        self.write({"id": rid, "error": err})

    def ask(self, method, params):
        self.next_id += 1
        rid = "%s/%s.%d" % (method.rsplit("/", 1)[-1], self.salt, self.next_id)
        fut = self.loop.create_future()
        self.waiting[rid] = fut
        self.write({"id": rid, "method": method, "params": params})
        return fut

    def frame(self, raw):
        try:
            msg = json.loads(raw.decode("utf-8"))
        except (ValueError, RecursionError):
            return self.refuse(None, -32700, "Parse error")
        if not isinstance(msg, dict):
            return self.refuse(None, -32600, "Invalid request: one message per line is expected")
        rid, has_id = msg.get("id"), "id" in msg
        good_id = rid is None or isinstance(rid, str) or isinstance(rid, int) and not isinstance(rid, bool)
        if msg.get("jsonrpc") != "2.0":
            return self.refuse(None, -32600, "Invalid request: jsonrpc must be 2.0")
        if "method" not in msg:
            if has_id and ("result" in msg or "error" in msg):
                return self.answer(msg)
            return self.refuse(None, -32600, "Invalid request: neither a method nor an answer")
        method, params = msg["method"], msg.get("params")
        if not isinstance(method, str) or not good_id or not (params is None or isinstance(params, (dict, list))):
            if has_id or not isinstance(method, str):
                self.refuse(None, -32600, "Invalid request")
            return
        if not has_id:
            if method == "session/cancel" and isinstance(params, dict) and is_str(params.get("sessionId")):
                s = self.live.get(params["sessionId"])
                if s:
                    s.stop_turns()
            return
        if method not in self.methods:
            return self.refuse(rid, -32601, "Method not found")
        job = self.loop.create_task(self.serve(rid, method, params))
        self.jobs.add(job)
        job.add_done_callback(self.jobs.discard)

    def answer(self, msg):
        fut = self.waiting.pop(msg["id"], None) if isinstance(msg["id"], str) else None
        if fut is None or fut.done():
            return
        if "error" in msg:
            e = msg["error"] if isinstance(msg["error"], dict) else {}
            fut.set_exception(Fail(e.get("code"), str(e.get("message", "error")), e.get("data")))
        else:
            fut.set_result(msg.get("result"))

    async def serve(self, rid, method, params):
        try:
            if method != "initialize" and not self.ready:
                raise Fail(-32600, "The connection must be initialized first")
            if params is None:
                params = {}
            need(isinstance(params, dict), "params must be an object")
            result, after = await self.methods[method](params), None
            if isinstance(result, tuple):
                result, after = result
            self.write({"id": rid, "result": result})
            if after:
                after()
        except Fail as e:
            self.refuse(rid, e.code, e.message, e.data)
        except Exception as e:
            log("internal:", type(e).__name__, e)
            self.refuse(rid, -32603, "Internal error")

    # ---- methods
    async def m_initialize(self, p):
        v = p.get("protocolVersion")
        need(isinstance(v, int) and not isinstance(v, bool) and 0 <= v <= 65535, "protocolVersion must be an integer from 0 to 65535")
        caps = p.get("clientCapabilities")
        caps = caps if isinstance(caps, dict) else {}

        def deep(*keys):
            d = caps
            for k in keys:
                d = d.get(k) if isinstance(d, dict) else None
            return d
        self.caps = {"read": deep("fs", "readTextFile") is True, "write": deep("fs", "writeTextFile") is True, "terminal": deep("terminal") is True,
                     "form": isinstance(deep("elicitation", "form"), dict), "login": deep("auth", "terminal") is True}
        self.ready = True
        auth = [{"id": "desk-badge", "name": "Desk badge", "description": "Issues a badge for this connection; nobody has to do anything"}]
        if self.caps["login"]:
            auth.append({"type": "terminal", "id": "front-door", "name": "Front door", "description": "Stores a badge for all later connections", "args": ["--badge-login"]})
        return {"protocolVersion": VERSION,
                "agentCapabilities": {"loadSession": True, "promptCapabilities": {"image": True, "audio": False, "embeddedContext": True},
                                      "mcpCapabilities": {"http": True, "sse": False},
                                      "sessionCapabilities": {"list": {}, "resume": {}, "close": {}}, "auth": {"logout": {}}},
                "authMethods": auth,
                "agentInfo": {"name": "seventh-pangolin", "title": "Pangolin", "version": "7.0.1"}}

    async def m_authenticate(self, p):
        need(is_str(p.get("methodId")), "methodId must be a string")
        need(p["methodId"] == "desk-badge", "this method cannot be used with authenticate")
        self.authed = True
        return {}

    async def m_logout(self, p):
        self.authed = False
        try:
            os.unlink(self.badge)
        except OSError:
            pass
        return {}

    def gate(self):
        if not self.authed:
            raise Fail(-32000, "Authentication required")

    def session(self, p):
        need(is_str(p.get("sessionId")), "sessionId must be a string")
        s = self.live.get(p["sessionId"])
        if not s:
            raise Fail(-32002, "No such session is active", {"sessionId": p["sessionId"]})
        return s

    def opened(self, s):
        self.live[s.id] = s
        self.latest_cwd = s.cwd

        def later():
            if self.live.get(s.id) is s:
                s.send({"sessionUpdate": "available_commands_update", "availableCommands": COMMANDS})
        return lambda: self.loop.call_later(0.03, later)

    async def m_new(self, p):
        cwd, specs = check_cwd(p), check_servers(p.get("mcpServers"))
        self.gate()
        s = Session(self, "pangolin/\u03b1-%s/%d" % (secrets.token_hex(6), len(self.live)), cwd)
        s.record(id=s.id, cwd=cwd, created=time.time())
        s.links = await mcp_link.connect_all(specs, cwd)
        return {"sessionId": s.id, "modes": s.modes(), "configOptions": s.options()}, self.opened(s)

    async def reopen(self, p, specs):
        cwd = check_cwd(p)
        need(is_str(p.get("sessionId")), "sessionId must be a string")
        specs = check_servers(specs)
        self.gate()
        old = self.live.get(p["sessionId"])
        if old and old.turns:
            raise Fail(-32600, "The session is in the middle of a turn")
        s = Session.from_disk(self, p["sessionId"], cwd)
        if not s:
            raise Fail(-32002, "No such session is known", {"sessionId": p["sessionId"]})
        if old:
            self.live.pop(s.id, None)
            await old.shut()
        s.links = await mcp_link.connect_all(specs, cwd)
        return s, bool(old)

    def replay(self, s):
        for e in s.entries:
            if "u" in e:
                s.send(e["u"])

    async def m_load(self, p):
        s, _ = await self.reopen(p, p.get("mcpServers"))
        self.replay(s)
        return {"modes": s.modes(), "configOptions": s.options()}, self.opened(s)

    async def m_resume(self, p):
        s, was_live = await self.reopen(p, p.get("mcpServers") if p.get("mcpServers") is not None else [])
        if FAULT == "resume-echo" and not was_live:
            self.replay(s)
        return {"modes": s.modes(), "configOptions": s.options()}, self.opened(s)

    async def m_list(self, p):
        need(opt(p.get("cwd"), str), "cwd must be a string")
        need(opt(p.get("cursor"), str), "cursor must be a string")
        after = None
        if p.get("cursor") is not None:
            try:
                stamp, sid = json.loads(base64.urlsafe_b64decode(p["cursor"].encode("ascii")))
                after = (float(stamp), str(sid))
            except (ValueError, TypeError, binascii.Error, UnicodeError):
                raise Fail(-32602, "Invalid params: this cursor is not known")
        rows = []
        folder = os.path.join(state_dir(), "journals")
        for n in os.listdir(folder):
            try:
                f = os.path.join(folder, n)
                with open(f, encoding="ascii") as h:
                    meta, title = json.loads(h.readline()), None
                    for line in h:
                        if '"user_message_chunk"' in line:
                            title = (json.loads(line)["u"]["content"].get("text") or "")[:50] or None
                            break
                if p.get("cwd") is not None and meta["cwd"] != p["cwd"] and meta["cwd"] != os.path.normpath(p["cwd"]):
                    continue
                info = {"sessionId": meta["id"], "cwd": meta["cwd"], "updatedAt": iso(os.stat(f).st_mtime)}
                if title:
                    info["title"] = title
                rows.append(((-meta["created"], meta["id"]), info))
            except (OSError, ValueError, KeyError, TypeError):
                continue
        rows.sort(key=lambda r: r[0])
        if after:
            rows = [r for r in rows if r[0] > after]
        result = {"sessions": [r[1] for r in rows[:PAGE]]}
        if len(rows) > PAGE:
            result["nextCursor"] = base64.urlsafe_b64encode(json.dumps(rows[PAGE - 1][0]).encode()).decode()
        return result

    async def m_close(self, p):
        need(is_str(p.get("sessionId")), "sessionId must be a string")
        s = self.live.pop(p["sessionId"], None)
        if s:
            s.stop_turns()
            while s.turns:
                await asyncio.sleep(0.01)
            await s.shut()
        return {}

    async def m_set_mode(self, p):
        need(is_str(p.get("modeId")), "modeId must be a string")
        s = self.session(p)
        need(p["modeId"] in CHOICES["manner"], "no such mode")
        s.set("manner", p["modeId"])
        return {}, lambda: s.send({"sessionUpdate": "config_option_update", "configOptions": s.options()})

    async def m_set_option(self, p):
        need(is_str(p.get("configId")), "configId must be a string")
        s = self.session(p)
        need(p["configId"] in CHOICES, "no such option")
        need(is_str(p.get("value")) and p["value"] in CHOICES[p["configId"]], "no such value")
        s.set(p["configId"], p["value"])
        if p["configId"] == "manner":
            s.send({"sessionUpdate": "current_mode_update", "currentModeId": p["value"]})
        return {"configOptions": s.options()}

    async def m_prompt(self, p):
        blocks = check_prompt(p.get("prompt"))
        s = self.session(p)
        turn = Turn(s)
        s.turns.append(turn)
        stop = "end_turn"
        try:
            turn.task = self.loop.create_task(self.take_turn(s, turn, blocks))
            await turn.task
        except (asyncio.CancelledError, TurnStopped):
            stop = "cancelled"
        except Exception as e:
            log("turn:", type(e).__name__, e)
            if not turn.cancelled:
                turn.abandon("Something went wrong inside the agent.")
                s.chunk("Sorry, something went wrong on my side.")
        if turn.cancelled:
            stop = "cancelled"
        s.settle()
        used = min(32000, 200 + s.chars // 4)
        s.send({"sessionUpdate": "usage_update", "used": used, "size": 32000, "cost": {"amount": round(used / 1e6, 6), "currency": "EUR"}})
        s.send({"sessionUpdate": "session_info_update", "updatedAt": iso(time.time())})
        s.turns.remove(turn)
        return {"stopReason": stop}

    # ---- turns
    async def take_turn(self, s, turn, blocks):
        noted = False

        def note_user():
            for b in blocks:
                s.record(u={"sessionUpdate": "user_message_chunk", "content": b})
        try:
            async with s.lock:
                note_user()
                noted = True
                try:
                    await self.respond(s, turn, blocks)
                finally:
                    turn.abandon("The turn was cancelled." if turn.cancelled else "The tool did not finish.")
                    s.settle()
        finally:
            if not noted:
                note_user()

    async def respond(self, s, turn, blocks):
        text = "\n".join(b["text"] for b in blocks if b["type"] == "text").strip()
        tools = {}
        for link in s.links:
            for t in link.tools:
                tools.setdefault(t["name"] if t["name"] not in tools else "%s:%s" % (link.name, t["name"]), dict(t, _server=link.name, _link=link))
        if s.settings["depth"] == "deep":
            await s.speak("Let me see what is wanted here.", "agent_thought_chunk")
        steps = []
        if text.startswith("/"):
            word, _, rest = text[1:].partition(" ")
            if word == "recap":
                steps = [{"do": "recall"}]
            elif word == "plan":
                steps = [{"do": "plan", "goal": rest.strip()}]
        if not steps and text:
            steps = wishes.understand(text, tools)
        links = [b for b in blocks if b["type"] == "resource_link"]
        embedded = [b["resource"] for b in blocks if b["type"] == "resource"]
        images = sum(b["type"] == "image" for b in blocks)
        vague = not steps or all(x["do"] in ("unknown", "hello") or x == {"do": "read", "paths": [None]} for x in steps)
        if links and (vague or all(x["do"] == "read" for x in steps)):
            files = [b["uri"] for b in links if b["uri"].startswith("file:///") and os.path.isfile(wishes.clean_path(b["uri"]))]
            if files and re.search(wishes.READ, text.lower()):
                await self.do_read(s, turn, {"paths": [wishes.clean_path(f) for f in files]})
            else:
                await s.speak("I have seen the link%s to %s." % ("s" if len(links) > 1 else "", ", ".join(b["name"] for b in links)))
        if embedded and vague:
            for r in embedded:
                await s.speak("The attached %s holds %s. " % (r["uri"], ("this text: " + r["text"]) if is_str(r.get("text")) else "%d characters of encoded data" % len(r["blob"])))
        if images and vague:
            await s.speak("I received %d image%s, though my eyes are weak. " % (images, "" if images == 1 else "s"))
        if vague and (links or embedded or images):
            return
        if not steps:
            steps = [{"do": "hello"}]
        for i, step in enumerate(steps):
            if i:
                s.chunk("\n\n")
            step["tools"] = tools
            await getattr(self, "do_" + step["do"])(s, turn, step)

    async def do_hello(self, s, turn, w):
        await s.speak("Hello! I am a pangolin. I can read and write files, run commands, plan, tell stories and use your MCP tools.")

    async def do_unknown(self, s, turn, w):
        await s.speak("I am only a small pangolin and did not quite get that, but I am happy to read, write, run or plan something.")

    async def do_say(self, s, turn, w):
        await s.speak(w["text"])

    async def do_remember(self, s, turn, w):
        s.notes.append(w["what"])
        s.record(note=w["what"])
        await s.speak("OK, I will remember %s." % w["what"])

    async def do_recall(self, s, turn, w):
        if s.notes:
            await s.speak("You asked me to remember: %s." % "; ".join(s.notes))
        else:
            await s.speak("You have not asked me to remember anything in this session.")

    async def do_think(self, s, turn, w):
        about = w.get("about") or "the question"
        await s.speak("Thinking about %s. First, what is known? Little. Second, what follows? Not much. Third, a careful answer is best." % about, "agent_thought_chunk", 0.02)
        await s.speak("I have thought about %s: it depends, but calmly, yes." % about)

    async def do_story(self, s, turn, w):
        if w.get("short"):
            return await s.speak("Once a pangolin rolled up, waited, and all was well.")
        lines = ["Once upon a time a pangolin lived under a tamarind tree.", "Every evening it counted the ants on the path.", "One night the ants had gone.",
                 "The pangolin followed their scent across the dry river.", "It met a heron who knew all the rivers.", "The heron had seen a column of ants going north.",
                 "So the pangolin walked north for three nights.", "On the fourth night it rained and every trace was washed away.", "The pangolin rolled up and waited, which is what pangolins do best.",
                 "In the morning an ant climbed over its nose.", "It was carrying a crumb the size of a moon.", "Home is where the crumbs are, said the ant.", "And the pangolin went home, where all the ants had returned."]
        for line in lines:
            await s.speak(line + "\n", pause=0.055)

    async def do_plan(self, s, turn, w):
        goal = w.get("goal") or "the task"
        names = [("Look at what there is for " + goal, "high"), ("Do the main part of " + goal, "medium"), ("Check the result", "low")]

        def show(done):
            entries = [{"content": c, "priority": p, "status": "completed" if i < done else "in_progress" if i == done else "pending"} for i, (c, p) in enumerate(names)]
            u = {"sessionUpdate": "plan", "entries": entries}
            s.settle()
            s.record(u=u)
            s.send(u)
        for i in range(len(names) + 1):
            show(i)
            await asyncio.sleep(0.15)
        await s.speak("The plan for %s has three steps, and I went through them." % goal)

    async def do_mode(self, s, turn, w):
        low = w["text"].lower()
        for m in MODES:
            if m["id"] in low or m["name"].lower() in low or m["id"].rsplit(":", 1)[-1] in low:
                return await self.switch(s, m)
        if re.search(r"\b(?:read|plan|look|view)", low):
            return await self.switch(s, MODES[2])
        if re.search(r"\b(?:auto|yolo|fast|code|free)", low):
            return await self.switch(s, MODES[1])
        if re.search(r"\b(?:ask|safe|default|normal)", low):
            return await self.switch(s, MODES[0])
        if re.search(r"\b(?:another|other|different|next|some|a new)\b", low):
            now = CHOICES["manner"].index(s.settings["manner"])
            return await self.switch(s, MODES[(now + 1) % 3])
        await s.speak("I know these modes: %s." % ", ".join(m["name"] for m in MODES))

    async def switch(self, s, mode):
        s.set("manner", mode["id"])
        s.send({"sessionUpdate": "current_mode_update", "currentModeId": mode["id"]})
        s.send({"sessionUpdate": "config_option_update", "configOptions": s.options()})
        await s.speak("I am in the %s mode now." % mode["name"])

    # files
    async def get_file(self, s, path, line=None, limit=None):
        """The text, or None when there is no such file."""
        if self.caps["read"]:
            p = {"sessionId": s.id, "path": path}
            if line:
                p.update(line=line, limit=limit)
            try:
                got = await self.ask("fs/read_text_file", p)
            except Fail as e:
                if e.code == -32002:
                    return None
                raise ToolFailed("The file could not be read: %s" % e.message)
            if not isinstance(got, dict) or not is_str(got.get("content")):
                raise ToolFailed("The client gave no content.")
            return got["content"]
        try:
            with open(path, encoding="utf-8", errors="replace", newline="") as f:
                text = f.read()
        except FileNotFoundError:
            return None
        except OSError as e:
            raise ToolFailed("The file could not be read: %s" % (e.strerror or e))
        if line:
            text = "".join(text.splitlines(True)[line - 1:line - 1 + limit])
        return text

    async def put_file(self, s, path, text):
        if self.caps["write"]:
            try:
                await self.ask("fs/write_text_file", {"sessionId": s.id, "path": path, "content": text})
            except Fail as e:
                raise ToolFailed("The file could not be written: %s" % e.message)
            return
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8", errors="replace", newline="") as f:
                f.write(text)
        except OSError as e:
            raise ToolFailed("The file could not be written: %s" % (e.strerror or e))

    async def do_read(self, s, turn, w):
        for p in w["paths"]:
            path = s.path(p)
            tid = turn.begin("Read %s" % os.path.basename(path), "read", "read_file", {"path": path}, [(path, w.get("line") or 1)])
            try:
                if not s.inside(path) and not await turn.permitted(tid, "peek", inside=False):
                    turn.finish(tid, "failed", [tool_text("Not allowed.")])
                    await s.speak("All right, I do not look into %s." % p)
                    continue
                turn.update(tid, status="in_progress")
                text = await self.get_file(s, path, w.get("line"), w.get("limit"))
                if text is None:
                    raise ToolFailed("There is no file %s." % path)
            except ToolFailed as e:
                turn.finish(tid, "failed", [tool_text(str(e))])
                await s.speak("I could not read %s. %s" % (p, e))
                continue
            turn.finish(tid, "completed", [tool_text(text)], rawOutput={"characters": len(text)})
            await s.speak("%s says:\n" % p)
            await s.speak(text if text else "(nothing, it is empty)")

    async def change(self, s, turn, p, make, verb):
        path = s.path(p)
        tid = turn.begin("%s %s" % (verb, os.path.basename(path)), "edit", "write_file", {"path": path}, [(path, None)])
        try:
            if s.settings["manner"] == "urn:pangolin:look-only":
                raise ToolFailed("In look-only mode I change nothing.")
            inside = s.inside(path)
            if not inside and self.caps["read"] is False and os.path.exists(path) and not await turn.permitted(tid, "peek", inside=False):
                raise ToolFailed("Not allowed.")
            old = await self.get_file(s, path)
            new = make(old)
            diff = {"type": "diff", "path": path, "oldText": old, "newText": new}
            if not await turn.permitted(tid, "edit", [diff], inside):
                turn.finish(tid, "failed", [tool_text("The user said no.")])
                await s.speak("All right, I leave %s as it is." % p)
                return
            turn.update(tid, status="in_progress")
            await self.put_file(s, path, new)
        except ToolFailed as e:
            turn.finish(tid, "failed", [tool_text(str(e))])
            await s.speak("I did not change %s. %s" % (p, e))
            return
        turn.finish(tid, "completed", [diff])
        await s.speak("Done, %s is %s." % (p, "written" if old is None else "changed"))

    async def do_write(self, s, turn, w):
        await self.change(s, turn, w["path"], lambda old: w["text"], "Write")

    async def do_append(self, s, turn, w):
        def make(old):
            old = old or ""
            return old + ("\n" if old and not old.endswith("\n") else "") + w["text"] + ("" if w["text"].endswith("\n") else "\n")
        await self.change(s, turn, w["path"], make, "Append to")

    async def do_edit(self, s, turn, w):
        def make(old):
            if old is None:
                raise ToolFailed("There is no such file.")
            if w["old"] not in old:
                raise ToolFailed("It does not contain %s." % w["old"])
            return old.replace(w["old"], w["new"])
        await self.change(s, turn, w["path"], make, "Edit")

    # commands
    async def do_shell(self, s, turn, w):
        cmd = w["command"]
        tid = turn.begin("Run %s" % cmd.split("\n")[0][:60], "execute", "run_command", {"command": cmd, "cwd": s.cwd})
        try:
            if not await turn.permitted(tid, "execute"):
                turn.finish(tid, "failed", [tool_text("The user said no.")])
                return await s.speak("All right, I do not run it.")
            run = self.in_terminal if self.caps["terminal"] else self.in_process
            output, status, content = await run(s, turn, tid, cmd)
        except ToolFailed as e:
            turn.finish(tid, "failed", [tool_text(str(e))])
            return await s.speak("The command did not run. %s" % e)
        ok = status == 0
        turn.finish(tid, "completed" if ok else "failed", content, [tool_text(output)], rawOutput={"exit": status})
        if ok:
            await s.speak("The command printed:\n")
            await s.speak(output.strip() or "(nothing)")
        else:
            await s.speak("The command ended with %s:\n%s" % (status, output.strip()))

    async def in_terminal(self, s, turn, tid, cmd):
        made = self.ask("terminal/create", {"sessionId": s.id, "command": "sh", "args": ["-c", cmd], "env": [{"name": "PAGER", "value": "cat"}], "cwd": s.base(), "outputByteLimit": 200000})
        key = None
        ended = False

        def ref(**more):
            return dict({"sessionId": s.id, "terminalId": key}, **more)
        try:
            try:
                got = await asyncio.shield(made)
            except asyncio.CancelledError:
                done, _ = await asyncio.wait([made], timeout=2)
                if done and not made.exception():
                    key = (made.result() or {}).get("terminalId")
                elif not done:
                    made.add_done_callback(lambda f: f.cancelled() or f.exception() or self.ask("terminal/release", {"sessionId": s.id, "terminalId": (f.result() or {}).get("terminalId")}))
                raise
            key = got.get("terminalId") if isinstance(got, dict) else None
            if not is_str(key):
                raise ToolFailed("The client gave no terminal.")
            shown = [{"type": "terminal", "terminalId": key}]
            turn.update(tid, status="in_progress", content=shown)
            pause = 0.05
            while True:
                got = await self.ask("terminal/output", ref())
                status = got.get("exitStatus")
                if isinstance(status, dict):
                    ended = True
                    break
                await asyncio.sleep(pause)
                pause = min(0.4, pause * 1.5)
            code = status.get("exitCode")
            return got.get("output") or "", code if code is not None else "signal %s" % status.get("signal"), shown
        except Fail as e:
            raise ToolFailed("The terminal failed: %s" % e.message)
        finally:
            if is_str(key):
                try:
                    if not ended:
                        await asyncio.wait([self.ask("terminal/kill", ref())], timeout=1.5)
                    await asyncio.wait([self.ask("terminal/release", ref())], timeout=1.5)
                except Fail:
                    pass

    async def in_process(self, s, turn, tid, cmd):
        turn.update(tid, status="in_progress")
        try:
            proc = await asyncio.create_subprocess_exec("sh", "-c", cmd, cwd=s.base(), start_new_session=True, stdin=asyncio.subprocess.DEVNULL,
                                                        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT)
        except OSError as e:
            raise ToolFailed(str(e.strerror or e))
        self.children.add(proc.pid)
        try:
            out, _ = await proc.communicate()
        except asyncio.CancelledError:
            try:
                os.killpg(proc.pid, signal.SIGKILL)
            except OSError:
                pass
            raise
        finally:
            self.children.discard(proc.pid)
        text = out.decode("utf-8", "replace")
        return text, proc.returncode, [tool_text(text)]

    # questions
    async def do_ask(self, s, turn, w):
        q = w["question"]
        if q["kind"] == "secret":
            return await s.speak("I do not take secrets through a form or in this chat. Please keep them to yourself.")
        if not self.caps["form"]:
            return await s.speak("Your client has no forms, so I ask here: %s%s" % (q["text"], " (%s)" % ", ".join(q["options"]) if q["options"] else ""))
        prop = {"string": {"type": "string", "title": "Your answer", "minLength": 1},
                "integer": {"type": "integer", "title": "Your number", "minimum": 0},
                "boolean": {"type": "boolean", "title": "Yes?"},
                "choice": {"type": "string", "title": "Your choice", "oneOf": [{"const": o, "title": o.capitalize()} for o in dict.fromkeys(q["options"])]}}[q["kind"]]
        tid = turn.begin("Ask the user", "other", "ask_user", {"question": q["text"]})
        turn.update(tid, status="in_progress")
        try:
            got = await self.ask("elicitation/create", {"sessionId": s.id, "toolCallId": tid, "mode": "form", "message": q["text"],
                                                        "requestedSchema": {"type": "object", "properties": {"answer": prop}, "required": ["answer"]}})
        except Fail as e:
            turn.finish(tid, "failed", [tool_text("The question could not be asked.")])
            return await s.speak("I could not ask: %s" % e.message)
        got = got if isinstance(got, dict) else {}
        action = got.get("action")
        value = got["content"].get("answer") if action == "accept" and isinstance(got.get("content"), dict) else None
        fits = {"string": is_str(value) and len(value) > 0, "integer": isinstance(value, int) and not isinstance(value, bool) and value >= 0,
                "boolean": isinstance(value, bool), "choice": value in q["options"]}[q["kind"]]
        if action == "accept" and fits:
            turn.finish(tid, "completed", [tool_text(str(value))])
            await s.speak("You answered: %s" % value)
        elif action == "accept":
            turn.finish(tid, "failed", [tool_text("The answer does not fit the question.")])
            await s.speak("That answer does not fit my question, so I do not use it.")
        elif action == "decline":
            turn.finish(tid, "completed", [tool_text("Declined.")])
            await s.speak("You declined to answer, and that is fine.")
        elif action == "cancel":
            turn.finish(tid, "completed", [tool_text("Dismissed.")])
            await s.speak("You closed the question without an answer.")
        else:
            turn.finish(tid, "failed", [tool_text("No usable answer.")])
            await s.speak("I did not understand the reply of your client, so I go on without an answer.")

    # MCP
    async def do_tools(self, s, turn, w):
        if w["tools"]:
            await s.speak("These MCP tools are connected: %s." % ", ".join(sorted(w["tools"])))
        else:
            await s.speak("No MCP tool is connected.")

    async def do_mcp(self, s, turn, w):
        tool = w["tools"][w["tool"]]
        tid = turn.begin("%s of %s" % (tool["name"], tool["_server"]), "other", "mcp__%s__%s" % (tool["_server"], tool["name"]), w["args"])
        try:
            if not await turn.permitted(tid, "mcp:" + w["tool"]):
                turn.finish(tid, "failed", [tool_text("The user said no.")])
                return await s.speak("All right, I do not use that tool.")
            turn.update(tid, status="in_progress")
            got = await tool["_link"].call(tool["name"], w["args"])
        except (ToolFailed, mcp_link.McpError, OSError, ValueError) as e:
            turn.finish(tid, "failed", [tool_text(str(e) or "The tool failed.")])
            return await s.speak("The tool failed: %s" % e)
        texts = [c["text"] for c in got.get("content") or [] if isinstance(c, dict) and c.get("type") == "text" and is_str(c.get("text"))]
        text = "\n".join(texts) or json.dumps(got.get("structuredContent", "no text"))
        failed = got.get("isError") is True
        turn.finish(tid, "failed" if failed else "completed", [tool_text(text)], rawOutput=got)
        await s.speak("%s %s:\n" % (tool["name"], "reported a problem" if failed else "answered"))
        await s.speak(text)


# ---------------------------------------------------------------- life
def writer(out, fd):
    while True:
        data = out.get()
        if data is None:
            return
        try:
            while data:
                data = data[os.write(fd, data):]
        except BlockingIOError:
            time.sleep(0.01)
            out.queue.appendleft(data)
        except OSError:
            os._exit(0)


async def main():
    real = os.dup(1)
    os.dup2(2, 1)
    agent = Agent()
    w = threading.Thread(target=writer, args=(agent.out, real), daemon=True)
    w.start()
    ended = asyncio.Event()

    def reader():
        try:
            for line in iter(sys.stdin.buffer.readline, b""):
                if line.strip():
                    agent.loop.call_soon_threadsafe(agent.frame, line)
        except (OSError, ValueError):
            pass
        agent.loop.call_soon_threadsafe(ended.set)
    threading.Thread(target=reader, daemon=True).start()
    for sig in (signal.SIGTERM, signal.SIGINT):
        agent.loop.add_signal_handler(sig, ended.set)
    await ended.wait()
    for s in list(agent.live.values()):
        s.stop_turns()
    if agent.jobs:
        await asyncio.wait(list(agent.jobs), timeout=2)
    for pid in list(agent.children):
        try:
            os.killpg(pid, signal.SIGKILL)
        except OSError:
            pass
    await asyncio.wait([asyncio.ensure_future(asyncio.gather(*(l.close() for s in agent.live.values() for l in s.links), return_exceptions=True))], timeout=2.5)
    for l in list(mcp_link.ALIVE):
        l.kill()
    agent.out.put(None)
    w.join(2)
    os._exit(0)


if __name__ == "__main__":
    if "--badge-login" in sys.argv[1:]:
        with open(os.path.join(state_dir(), "badge"), "w") as f:
            f.write(iso(time.time()) + "\n")
        print("A badge was stored. You are logged in.")
        sys.exit(0)
    asyncio.run(main())
