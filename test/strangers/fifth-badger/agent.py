"""The fifth badger: an ACP agent on stdio. Reads requests, keeps sessions, starts one thread for each turn."""
import base64
import json
import os
import signal
import sys
import threading

import store
from hands import Turn
from wire import RpcError, Wire, log, read_messages

PAGE = 25
KNOWN_KEYS = {"type", "text", "data", "mimeType", "uri", "name", "title", "description", "size", "resource", "annotations", "_meta"}
PACE_NAMES = (("brisk", "Brisk"), ("steady", "Steady"), ("leisurely", "Leisurely"))


def bad(message):
    return RpcError(-32602, message)


def need(params, key, kind, name):
    value = params.get(key)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise bad(f"{key} must be {name}.")
    return value


def folder(value, key):
    if not isinstance(value, str) or not os.path.isabs(value) or "\0" in value:
        raise bad(f"{key} must be an absolute path.")
    return value


def pairs(value, key):
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(e, dict) and isinstance(e.get("name"), str) and isinstance(e.get("value"), str) for e in value):
        raise bad(f"{key} must be a list of names and values.")
    return value


def setting(params):
    """cwd, extra roots and MCP servers of a session request."""
    cwd, dirs = folder(params.get("cwd"), "cwd"), params.get("additionalDirectories")
    if dirs is None:
        dirs = []
    if not isinstance(dirs, list):
        raise bad("additionalDirectories must be a list.")
    dirs = [folder(d, "An additional directory") for d in dirs]
    servers = need(params, "mcpServers", list, "a list")
    for s in servers:
        if not isinstance(s, dict) or not isinstance(s.get("name"), str):
            raise bad("An MCP server needs a name.")
        kind = s.get("type") or "stdio"
        if kind == "stdio":
            need(s, "command", str, "a string")
            args = s.get("args")
            if args is not None and not (isinstance(args, list) and all(isinstance(a, str) for a in args)):
                raise bad("args must be a list of strings.")
            pairs(s.get("env"), "env")
        elif kind == "http":
            if not need(s, "url", str, "a string").lower().startswith(("http://", "https://")):
                raise bad("url must be an http address.")
            pairs(s.get("headers"), "headers")
        else:
            raise bad("That kind of MCP server is not supported.")
    return cwd, dirs, servers


def check_blocks(blocks):
    for b in blocks:
        kind = b.get("type") if isinstance(b, dict) else None
        fields = {"text": ("text",), "image": ("data", "mimeType"), "resource_link": ("uri", "name"), "resource": ()}.get(kind if isinstance(kind, str) else None)
        if fields is None:
            raise bad("The prompt has a content block of a kind that is not supported.")
        for f in fields:
            need(b, f, str, "a string")
        if kind == "resource":
            r = need(b, "resource", dict, "an object")
            need(r, "uri", str, "a string")
            if not isinstance(r.get("text"), str) and not isinstance(r.get("blob"), str):
                raise bad("An embedded resource needs a text or a blob.")
            if not isinstance(r.get("text"), str):
                r.pop("text", None)
    return [{k: v for k, v in b.items() if k in KNOWN_KEYS} for b in blocks]      # nothing unknown is kept or replayed


class Agent:
    def __init__(self):
        self.wire, self.sessions, self.caps, self.ready, self.floor, self.retiring = Wire(), {}, {}, False, os.getcwd(), []
        self.methods = {"initialize": self.initialize, "authenticate": self.authenticate, "session/new": self.new, "session/load": self.load,
                        "session/list": self.list, "session/prompt": self.prompt, "session/set_config_option": self.set_config}

    # --- requests -----------------------------------------------------------------------------------------------
    def initialize(self, params, rid):
        version = need(params, "protocolVersion", int, "an integer")
        if not 0 <= version <= 65535:
            raise bad("protocolVersion must be between 0 and 65535.")
        caps = params.get("clientCapabilities")
        if caps is not None and not isinstance(caps, dict):
            raise bad("clientCapabilities must be an object.")
        self.caps, self.ready = caps or {}, True
        return {"protocolVersion": 1, "agentInfo": {"name": "fifth-badger", "title": "Fifth Badger", "version": "1.0.0"}, "authMethods": [],
                "agentCapabilities": {"loadSession": True, "promptCapabilities": {"image": True, "audio": False, "embeddedContext": True},
                                      "mcpCapabilities": {"http": True, "sse": False}, "sessionCapabilities": {"list": {}, "additionalDirectories": {}}}}

    def authenticate(self, params, rid):
        raise bad("There is no login method; no login is needed.")

    def session(self, params):
        sid = need(params, "sessionId", str, "a string")
        s = self.sessions.get(sid)
        if s is None:
            raise RpcError(-32002, "No such session is open.", {"sessionId": sid})
        return s

    def bool_ok(self):
        node = self.caps
        for key in ("session", "configOptions"):
            node = node.get(key) if isinstance(node, dict) else None
        flag = node.get("boolean") if isinstance(node, dict) else None
        return flag is True or isinstance(flag, dict)

    def config_options(self, s):
        pace = {"id": "pace", "name": "Working pace", "description": "How fast the words come", "category": "_workshop", "type": "select", "currentValue": s.config["pace"],
                "options": [{"value": v, "name": n} for v, n in PACE_NAMES]}
        chatter = {"id": "chatter", "name": "Chatter", "description": "Say more than the bare result", "category": "_workshop"}
        if self.bool_ok():
            chatter.update({"type": "boolean", "currentValue": s.config["chatter"]})
        else:
            chatter.update({"type": "select", "currentValue": "on" if s.config["chatter"] else "off",
                            "options": [{"value": "on", "name": "Chatty"}, {"value": "off", "name": "Taciturn"}]})
        return [chatter, pace]

    def new(self, params, rid):
        s = store.new_session(*setting(params))
        self.sessions[s.id], self.floor = s, s.cwd
        s.save()
        return {"sessionId": s.id, "configOptions": self.config_options(s)}

    def load(self, params, rid):
        sid = need(params, "sessionId", str, "a string")
        cwd, dirs, servers = setting(params)
        s = self.sessions.get(sid) or store.from_disk(sid)
        if s is None:
            raise RpcError(-32002, "No such session is kept here.", {"sessionId": sid})
        with s.lock:
            if s.turn:
                raise RpcError(-32600, "A turn is running in this session; it cannot be loaded now.")
            old = s.mcp
            s.cwd, s.dirs, s.servers, s.mcp, s.commands_told, s.verdicts, s.complaints = cwd, dirs, servers, None, False, {}, set()
            self.sessions[sid], self.floor = s, cwd
            for server in old or []:
                self.retiring.append(threading.Thread(target=server.close, daemon=True))
                self.retiring[-1].start()
            s.save()
            for e in s.history:
                self.replay(sid, e)
        return {"configOptions": self.config_options(s)}

    def replay(self, sid, e):
        if e["kind"] == "user":
            updates = [{"sessionUpdate": "user_message_chunk", "content": b, "messageId": e["id"]} for b in e["blocks"]]
        elif e["kind"] == "tool":
            updates = [{"sessionUpdate": "tool_call", **e["call"]}]
        elif e["kind"] == "plan":
            updates = [{"sessionUpdate": "plan", "entries": e["entries"]}]
        else:
            updates = [{"sessionUpdate": e["kind"], "content": {"type": "text", "text": e["text"]}, "messageId": e["id"]}]
        for u in updates:
            self.wire.notify("session/update", {"sessionId": sid, "update": u})

    def list(self, params, rid):
        cwd, cursor = params.get("cwd"), params.get("cursor")
        cards = store.all_cards(list(self.sessions.values()))
        if cwd is not None:
            folder(cwd, "cwd")
            cards = [c for c in cards if c["cwd"] == cwd]
        if cursor is not None:
            try:
                tag, created, sid = json.loads(base64.b64decode(cursor.encode("ascii"), altchars=b"-_", validate=True))
                if tag != "badger" or isinstance(created, bool) or not isinstance(created, (int, float)) or not isinstance(sid, str):
                    raise ValueError
            except (ValueError, TypeError, AttributeError, RecursionError):
                raise bad("That cursor is not one of mine.")
            cards = [c for c in cards if (-c["created"], c["id"]) > (-created, sid)]
        page, result = cards[:PAGE], {}
        result["sessions"] = [{"sessionId": c["id"], "cwd": c["cwd"], **({"additionalDirectories": c["dirs"]} if c.get("dirs") else {}),
                               **({"title": c["title"]} if c.get("title") else {}), "updatedAt": c["updated"]} for c in page]
        if len(cards) > PAGE:
            mark = json.dumps(["badger", page[-1]["created"], page[-1]["id"]]).encode()
            result["nextCursor"] = base64.b64encode(mark, b"-_").decode()
        return result

    def set_config(self, params, rid):
        s, key, value = self.session(params), need(params, "configId", str, "a string"), params.get("value")
        if key == "pace":
            if value not in store.PACES if isinstance(value, str) else True:
                raise bad("There is no such pace.")
        elif key == "chatter" and self.bool_ok():
            if not isinstance(value, bool) or params.get("type") != "boolean":
                raise bad("Chatter is a boolean; set it with type boolean.")
        elif key == "chatter":
            if value not in ("on", "off") or params.get("type") == "boolean":
                raise bad("Chatter is on or off.")
            value = value == "on"
        else:
            raise bad("There is no such option.")
        s.config[key] = value
        s.save()
        return {"configOptions": self.config_options(s)}

    def prompt(self, params, rid):
        s = self.session(params)
        blocks = check_blocks(need(params, "prompt", list, "a list of content blocks"))
        with s.lock:
            if s.turn:
                raise RpcError(-32600, "A turn is already running in this session; wait for it or cancel it.")
            s.turn = Turn(self, s, rid, blocks)
            threading.Thread(target=s.turn.run, daemon=True).start()
        return None

    # --- notifications ------------------------------------------------------------------------------------------
    def notified(self, method, params):
        if not isinstance(params, dict):
            return
        if method == "session/cancel" and isinstance(params.get("sessionId"), str):
            s = self.sessions.get(params["sessionId"])
            if s:
                with s.lock:
                    if s.turn:
                        s.turn.cancel("cancel")
        elif method == "$/cancel_request":
            wanted = params.get("requestId")
            for s in list(self.sessions.values()):
                with s.lock:
                    if s.turn and type(s.turn.rid) is type(wanted) and s.turn.rid == wanted:
                        s.turn.cancel("request")

    # --- the wire -----------------------------------------------------------------------------------------------
    def take(self, m):
        if not isinstance(m, dict):
            return self.wire.error(None, -32600, "One single JSON-RPC object is expected.")
        rid = m.get("id")
        id_ok = rid is None or isinstance(rid, str) or (isinstance(rid, int) and not isinstance(rid, bool))
        if "method" not in m and ("result" in m or "error" in m) and "id" in m:
            return self.wire.answered(m)
        method, params = m.get("method"), m.get("params")
        if m.get("jsonrpc") != "2.0" or not isinstance(method, str) or not id_ok:
            return self.wire.error(rid if id_ok else None, -32600, "This is not a JSON-RPC 2.0 request.")
        if "id" not in m:
            return self.notified(method, params)
        if params is not None and not isinstance(params, (dict, list)):
            return self.wire.error(rid, -32600, "params must be an object.")
        handler = self.methods.get(method)
        try:
            if handler is None:
                raise RpcError(-32601, "There is no such method.")
            if isinstance(params, list):
                raise bad("params must be an object.")
            if not self.ready and method != "initialize":
                raise RpcError(-32600, "Send initialize first.")
            result = handler(params or {}, rid)
            if result is not None:
                self.wire.result(rid, result)
        except RpcError as e:
            self.wire.error(rid, e.code, e.message, e.data)
        except Exception as e:
            log("request broke:", repr(e))
            self.wire.error(rid, -32603, "Something slipped inside the agent.")

    def leave(self):
        """End of input: stop the turns (they still answer), send the MCP servers home, go."""
        self.wire.hang_up()
        turns = []
        for s in list(self.sessions.values()):
            with s.lock:
                if s.turn:
                    turns.append(s)
                    s.turn.cancel("cancel")
        for _ in range(100):
            if not any(s.turn for s in turns):
                break
            threading.Event().wait(0.02)
        homes = [threading.Thread(target=m.close, daemon=True) for s in self.sessions.values() for m in s.mcp or []]
        for h in homes:
            h.start()
        for h in homes + self.retiring:
            h.join(3)
        self.wire.finish()


def main():
    agent = Agent()
    signal.signal(signal.SIGTERM, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
    try:
        for state, message in read_messages(sys.stdin.buffer):
            if state == "ok":
                agent.take(message)
            else:
                agent.wire.error(None, -32700, "That line is not JSON.")
    except KeyboardInterrupt:
        pass
    agent.leave()
    os._exit(0)


main()
