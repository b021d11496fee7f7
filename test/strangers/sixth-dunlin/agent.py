#!/usr/bin/env python3
"""sixth-dunlin: an agent for plain requests over the Agent Client Protocol."""

import asyncio
import os
import sys

import servers
from store import FAULT, MODES, VOICES, Session, Store, new_id, now
from turn import Turn
from wire import (INVALID_PARAMS, INVALID_REQUEST, INTERNAL_ERROR, METHOD_NOT_FOUND, NOT_FOUND,
                  RpcError, Wire, note)

COMMANDS = [
    {"name": "recap", "description": "Tell what was said so far"},
    {"name": "where", "description": "Tell which folders this session works in"},
    {"name": "jot", "description": "Keep a short remark", "input": {"hint": "the remark"}},
]
WINDOW = 32000


def bad(text):
    return RpcError(INVALID_PARAMS, text)


def branch(value, key):
    """A member of a JSON object, or None."""
    return value.get(key) if isinstance(value, dict) else None


def need_text(params, key):
    value = params.get(key)
    if not isinstance(value, str):
        raise bad("%s must be a string." % key)
    return value


def need_cwd(params):
    cwd = need_text(params, "cwd")
    if not os.path.isabs(cwd):
        raise bad("cwd must be an absolute path.")
    return cwd


def read_roots(params):
    roots = params.get("additionalDirectories")
    if roots is None:
        return []
    if not isinstance(roots, list) or not all(isinstance(root, str) and os.path.isabs(root) for root in roots):
        raise bad("additionalDirectories must be absolute paths.")
    return list(roots)


def read_servers(params, needed):
    given = params.get("mcpServers")
    if given is None:
        if needed and "mcpServers" not in params:
            raise bad("mcpServers is missing.")
        return []
    if not isinstance(given, list):
        raise bad("mcpServers must be a list.")
    setups = []
    for server in given:
        if not isinstance(server, dict) or not isinstance(server.get("name"), str):
            raise bad("An MCP server needs a name.")
        if server.get("type") in ("http", "sse"):
            raise bad("MCP servers over %s are not supported." % server["type"])
        args, env = server.get("args"), server.get("env")
        if not isinstance(server.get("command"), str) or not isinstance(args, list) or not isinstance(env, list):
            raise bad("An MCP server needs command, args and env.")
        if not all(isinstance(arg, str) for arg in args):
            raise bad("The args of an MCP server are strings.")
        if not all(isinstance(branch(pair, "name"), str) and isinstance(branch(pair, "value"), str) for pair in env):
            raise bad("The env of an MCP server is a list of names and values.")
        setups.append({"name": server["name"], "command": server["command"], "args": args, "env": env})
    return setups


SHAPES = {
    "text": (("text",), ()),
    "image": (("data", "mimeType"), ("uri",)),
    "resource_link": (("uri", "name"), ("description", "mimeType", "title", "size")),
}


def read_block(block):
    """A content block reduced to the fields of the protocol."""
    kind = branch(block, "type")
    if kind == "resource":
        resource = block.get("resource")
        body = next((key for key in ("text", "blob") if isinstance(branch(resource, key), str)), None)
        if body is None or not isinstance(resource.get("uri"), str):
            raise bad("An embedded resource needs uri and text or blob.")
        kept = {"uri": resource["uri"], body: resource[body]}
        if isinstance(resource.get("mimeType"), str):
            kept["mimeType"] = resource["mimeType"]
        return {"type": "resource", "resource": kept}
    if not isinstance(kind, str) or kind not in SHAPES:
        raise bad("This kind of content is not supported.")
    needed, optional = SHAPES[kind]
    kept = {"type": kind}
    for key in needed:
        if not isinstance(block.get(key), str):
            raise bad("A block of type %s needs %s." % (kind, key))
        kept[key] = block[key]
    for key in optional:
        wanted = int if key == "size" else str
        if isinstance(block.get(key), wanted) and not isinstance(block.get(key), bool):
            kept[key] = block[key]
    return kept


class Agent:
    """Answers the client's requests."""

    def __init__(self):
        self.wire = Wire(self.on_request, self.on_notification)
        self.store = Store()
        self.live = {}
        self.leaving = {}
        self.tasks = set()
        self.ready = False
        self.can_write = False
        self.can_ask = False
        self.quick = {
            "initialize": self.initialize,
            "session/list": self.list_sessions,
            "session/set_mode": self.choose_mode,
            "session/set_config_option": self.choose_option,
        }
        self.slow = {
            "session/new": self.new_session,
            "session/load": self.load_session,
            "session/resume": self.resume_session,
            "session/close": self.close_session,
            "session/delete": self.delete_session,
        }

    # -- dispatch ----------------------------------------------------------

    def on_request(self, request_id, method, params):
        try:
            known = method in self.quick or method in self.slow or method == "session/prompt"
            if not known:
                raise RpcError(METHOD_NOT_FOUND, "There is no method %s." % method)
            if not self.ready and method != "initialize":
                raise RpcError(INVALID_REQUEST, "The connection is not initialized.")
            if params is None:
                params = {}
            if not isinstance(params, dict):
                raise bad("The params must be named.")
            if method == "session/prompt":
                self.prompt(request_id, params)
            elif method in self.quick:
                self.wire.answer(request_id, self.quick[method](params))
            else:
                task = asyncio.create_task(self.carry_out(request_id, self.slow[method], params))
                self.tasks.add(task)
                task.add_done_callback(self.tasks.discard)
        except RpcError as error:
            self.wire.refuse(request_id, error)
        except Exception as error:
            note("%s: %r" % (method, error))
            self.wire.refuse(request_id, RpcError(INTERNAL_ERROR, "Something went wrong in dunlin."))

    async def carry_out(self, request_id, handler, params):
        try:
            result, after = await handler(params)
            self.wire.answer(request_id, result)
            if after:
                after()
        except RpcError as error:
            self.wire.refuse(request_id, error)
        except Exception as error:
            note("request failed: %r" % error)
            self.wire.refuse(request_id, RpcError(INTERNAL_ERROR, "Something went wrong in dunlin."))

    def on_notification(self, method, params):
        if not isinstance(params, dict):
            return
        if method == "session/cancel":
            session_id = params.get("sessionId")
            session = self.live.get(session_id) if isinstance(session_id, str) else None
            if session:
                self.cancel_turns(session)
        elif method == "$/cancel_request":
            wanted = params.get("requestId")
            for session in self.live.values():
                for turn in list(session.turns):
                    if type(turn.request_id) is type(wanted) and turn.request_id == wanted:
                        turn.cancel()

    # -- helpers -----------------------------------------------------------

    def update(self, session, fields):
        self.wire.notify("session/update", {"sessionId": session.id, "update": fields})

    def announce_commands(self, session):
        self.update(session, {"sessionUpdate": "available_commands_update", "availableCommands": COMMANDS})

    def find(self, params):
        session_id = need_text(params, "sessionId")
        session = self.live.get(session_id)
        if session is None:
            raise RpcError(NOT_FOUND, "There is no such session.", {"sessionId": session_id})
        return session

    def cancel_turns(self, session):
        for turn in list(session.turns):
            turn.cancel()

    def turn_ended(self, session):
        session.updated = now()
        if not session.deleted:
            self.store.save(session)
        letters = sum(len(entry.get("text", "")) + 20 for entry in session.entries)
        self.update(session, {"sessionUpdate": "usage_update", "used": min(letters // 4, WINDOW), "size": WINDOW})
        self.update(session, {"sessionUpdate": "session_info_update", "updatedAt": session.updated})

    def set_mode(self, session, mode, announce):
        changed = session.mode != mode
        session.mode = mode
        session.refresh_options()
        if changed:
            self.store.save(session)
        if "mode" in announce:
            self.update(session, {"sessionUpdate": "current_mode_update", "currentModeId": mode})
        if "options" in announce:
            self.update(session, {"sessionUpdate": "config_option_update", "configOptions": session.options})

    # -- requests ----------------------------------------------------------

    def initialize(self, params):
        version = params.get("protocolVersion")
        if isinstance(version, bool) or not isinstance(version, int) or not 0 <= version <= 65535:
            raise bad("protocolVersion must be an integer of 16 bits.")
        offered = params.get("clientCapabilities")
        self.can_write = branch(branch(offered, "fs"), "writeTextFile") is True
        self.can_ask = isinstance(branch(branch(offered, "elicitation"), "form"), dict)
        self.ready = True
        return {
            "protocolVersion": 1,
            "agentCapabilities": {
                "loadSession": True,
                "promptCapabilities": {"image": True, "audio": False, "embeddedContext": True},
                "mcpCapabilities": {"http": False, "sse": False},
                "sessionCapabilities": {"list": {}, "delete": {}, "resume": {}, "close": {},
                                        "additionalDirectories": {}},
                "auth": {},
            },
            "agentInfo": {"name": "sixth-dunlin", "title": "Dunlin", "version": "1.0.0"},
            "authMethods": [],
        }

    async def new_session(self, params):
        cwd, roots, setups = need_cwd(params), read_roots(params), read_servers(params, True)
        session = Session(new_id(), cwd, roots)
        session.servers = await servers.start_all(setups, cwd)
        self.live[session.id] = session
        self.store.save(session)
        return dict(sessionId=session.id, **session.settings()), lambda: self.announce_commands(session)

    async def open_again(self, params, roots, setups):
        """Bring a session to life, with the servers named this time."""
        session_id, cwd = need_text(params, "sessionId"), need_cwd(params)
        while session_id in self.leaving:
            await self.leaving[session_id].wait()
        session = self.live.get(session_id) or self.store.load(session_id)
        if session is None:
            raise RpcError(NOT_FOUND, "There is no such session.", {"sessionId": session_id})
        if os.path.realpath(cwd) != os.path.realpath(session.cwd):
            raise bad("The session belongs to another cwd.")
        if session.turns:
            raise RpcError(INVALID_REQUEST, "The session is at work.")
        fresh = await servers.start_all(setups, cwd)
        if session.turns or self.live.get(session_id) not in (None, session):
            await servers.stop_all(fresh)
            raise RpcError(INVALID_REQUEST, "The session is at work.")
        old, session.servers = session.servers, fresh
        self.live[session_id] = session
        session.grants = {}
        session.roots = roots if roots is not None else session.roots
        if FAULT != "second-brood":
            await servers.stop_all(old)
        return session

    async def load_session(self, params):
        setups = read_servers(params, True)
        session = await self.open_again(params, read_roots(params), setups)
        self.store.save(session)
        self.replay(session)
        self.announce_commands(session)
        return session.settings(), None

    async def resume_session(self, params):
        setups = read_servers(params, False)
        roots = read_roots(params)
        if FAULT == "old-ground" and params.get("additionalDirectories") is None:
            roots = None
        session = await self.open_again(params, roots, setups)
        self.store.save(session)
        return session.settings(), lambda: self.announce_commands(session)

    def replay(self, session):
        plans = [entry for entry in session.entries if entry["is"] == "plan"]
        for entry in session.entries:
            kind = entry["is"]
            if kind == "user":
                for block in entry["blocks"]:
                    self.update(session, {"sessionUpdate": "user_message_chunk", "content": block,
                                          "messageId": entry["messageId"]})
            elif kind in ("agent", "thought"):
                name = "agent_message_chunk" if kind == "agent" else "agent_thought_chunk"
                self.update(session, {"sessionUpdate": name, "messageId": entry["messageId"],
                                      "content": {"type": "text", "text": entry["text"]}})
            elif kind == "tool":
                self.update(session, dict(entry["call"], sessionUpdate="tool_call"))
            elif kind == "plan" and entry is plans[-1]:
                self.update(session, {"sessionUpdate": "plan", "entries": entry["entries"]})
        if session.title:
            self.update(session, {"sessionUpdate": "session_info_update", "title": session.title,
                                  "updatedAt": session.updated})

    async def put_away(self, session):
        """Stop the session's work and let go of what it holds."""
        self.live.pop(session.id, None)
        gone = self.leaving[session.id] = asyncio.Event()
        try:
            self.cancel_turns(session)
            tasks = [turn.task for turn in session.turns]
            if tasks:
                await asyncio.wait(tasks)
                await asyncio.sleep(0)
            held, session.servers = session.servers, []
            await servers.stop_all(held)
        finally:
            self.leaving.pop(session.id, None)
            gone.set()

    async def close_session(self, params):
        await self.put_away(self.find(params))
        return {}, None

    async def delete_session(self, params):
        session_id = need_text(params, "sessionId")
        session = self.live.get(session_id)
        if session:
            session.deleted = True
            await self.put_away(session)
        self.store.delete(session_id)
        return {}, None

    def list_sessions(self, params):
        cwd, cursor = params.get("cwd"), params.get("cursor")
        if cwd is not None and (not isinstance(cwd, str) or not os.path.isabs(cwd)):
            raise bad("cwd must be an absolute path.")
        if cursor is not None and not isinstance(cursor, str):
            raise bad("cursor must be a string.")
        try:
            return self.store.page(cwd, cursor)
        except ValueError:
            raise bad("This cursor is not one of mine.")

    def choose_mode(self, params):
        session = self.find(params)
        mode = need_text(params, "modeId")
        if mode not in [item["id"] for item in MODES]:
            raise bad("There is no such mode.")
        self.set_mode(session, mode, announce=("options",))
        return {}

    def choose_option(self, params):
        session = self.find(params)
        option, value = need_text(params, "configId"), need_text(params, "value")
        if option == "conduct" and value in [item["id"] for item in MODES]:
            self.set_mode(session, value, announce=("mode",))
        elif option == "voice" and value in [item["value"] for item in VOICES]:
            session.voice = value
            session.refresh_options()
            self.store.save(session)
        else:
            raise bad("There is no such option or value.")
        return {"configOptions": session.options}

    def prompt(self, request_id, params):
        session = self.find(params)
        blocks = params.get("prompt")
        if not isinstance(blocks, list):
            raise bad("prompt must be a list of content blocks.")
        turn = Turn(self, session, request_id, [read_block(block) for block in blocks])
        session.turns.append(turn)
        turn.start()

    # -- life --------------------------------------------------------------

    async def live_on(self):
        await self.wire.listen()
        for task in list(self.tasks):
            task.cancel()
        if self.tasks:
            await asyncio.wait(list(self.tasks), timeout=3)
        await asyncio.gather(*(self.put_away(session) for session in list(self.live.values())),
                             return_exceptions=True)


if __name__ == "__main__":
    try:
        asyncio.run(Agent().live_on())
    except KeyboardInterrupt:
        sys.exit(130)
