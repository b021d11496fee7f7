"""fourth-stoat: an ACP agent (protocol version 1, stdio) without a language model. Standard library only."""
import asyncio
import base64
import collections
import inspect
import json
import os
import queue
import re
import signal
import sys
import threading
import uuid
from datetime import datetime, timezone
from urllib.parse import unquote

sys.dont_write_bytecode = True
import mcp
import wishes

FAULT = os.environ.get("FAULT")
PAGE = 10
MODES = [{"id": "brisk", "name": "Brisk", "description": "Answers straight away"},
         {"id": "mellow", "name": "Mellow", "description": "Thinks aloud before it answers"}]
LATER = object()  # a handler that answers by itself


class RpcError(Exception):
    def __init__(self, code, message, data=None):
        super().__init__(message)
        self.body = {"code": code, "message": message, **({"data": data} if data else {})}


class ToolFailed(Exception):
    pass


def invalid(message):
    return RpcError(-32602, message)


def text_block(text):
    return {"type": "text", "text": text}


def now():
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def dig(value, *keys):
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


class Turn:
    """One prompt, running or queued."""

    def __init__(self, request_id, blocks):
        self.id, self.blocks = request_id, blocks
        self.task = self.cancelled = self.asking = None  # cancelled: None, "session" or "request"

    def cancel(self, how):
        first, self.cancelled = not self.cancelled, how if how == "session" else self.cancelled or how
        if first and self.task:
            self.task.cancel()


class Session:
    def __init__(self, agent, number):
        self.agent, self.number, self.id = agent, number, str(uuid.uuid4())
        self.history, self.turns, self.servers, self.timers = [], collections.deque(), [], []
        self.values = {"mode": "brisk", "portions": "large", "ponder": False}
        self.title, self.touched, self.active, self.worker = None, now(), True, None
        self.last_path, self.refused, self.plays = None, set(), 0

    def settle(self, cwd, extra):
        self.cwd, self.extra, self.active, self.touched = cwd, extra, True, now()

    # -- what the client sees ------------------------------------------------
    def update(self, kind, /, **fields):
        self.agent.send({"method": "session/update", "params": {"sessionId": self.id, "update": {"sessionUpdate": kind, **fields}}})

    def chunk(self, kind, text, message_id):
        self.update(kind, content=text_block(text), messageId=message_id)
        if not self.history or self.history[-1].get("messageId") != message_id:
            self.history.append({"kind": kind, "messageId": message_id, "blocks": [text_block("")]})
        self.history[-1]["blocks"][0]["text"] += text

    def replay(self):
        for entry in self.history:
            if "blocks" in entry:
                for block in entry["blocks"]:
                    self.update(entry["kind"], content=block, messageId=entry["messageId"])
            else:
                self.update(entry["kind"], **entry["fields"])

    def modes(self):
        return {"currentModeId": self.values["mode"], "availableModes": MODES}

    def options(self):
        found = [{"id": "mode", "name": "Mode", "category": "mode", "type": "select", "currentValue": self.values["mode"],
                  "options": [{"value": m["id"], "name": m["name"]} for m in MODES]},
                 {"id": "portions", "name": "Portions", "category": "_stoat_portions", "type": "select", "currentValue": self.values["portions"],
                  "options": [{"group": "usual", "name": "Usual", "options": [{"value": "large", "name": "Large"}]},
                              {"group": "unusual", "name": "Unusual", "options": [{"value": "crumbs", "name": "Crumbs"}]}]}]
        if isinstance(dig(self.agent.caps, "session", "configOptions", "boolean"), dict):
            found.append({"id": "ponder", "name": "Ponder", "category": "thought_level", "type": "boolean", "currentValue": self.values["ponder"]})
        return found

    def state(self):
        return {"modes": self.modes(), "configOptions": self.options()}

    def commands(self):
        listed = [{"name": "recap", "description": "Repeat what was said in this session"},
                  {"name": "outline", "description": "Make a plan", "input": {"hint": "what the plan is about"}}]
        if self.servers:
            listed.insert(0, {"name": "tools", "description": "Name the tools of the MCP servers"})
        self.update("available_commands_update", availableCommands=listed)

    def later(self, seconds, action):
        self.timers.append(self.agent.loop.call_later(seconds, action))

    # -- life -----------------------------------------------------------------
    async def connect(self, configs):
        self.servers = [mcp.start(c, self.cwd) for c in configs]
        if self.servers:
            await asyncio.wait({s.task for s in self.servers}, timeout=3)

    def announce(self):
        self.later(1.2, self.commands)
        for server in self.servers:
            if server.problem and isinstance(dig(self.agent.caps, "session", "notices"), dict):
                self.later(0.1, lambda s=server: self.update("notice", severity="warning", title=f"The MCP server {s.name} did not start", description=s.problem))

    def tools(self):
        return [(s.name, t) for s in self.servers if not s.problem for t in s.tools]

    async def release(self, leaving=False):
        """Cancel the work of the session and give back everything it holds; its history stays."""
        self.active = False
        for turn in list(self.turns):
            turn.cancel("session")
        for timer in self.timers:
            timer.cancel()
        if self.worker:
            await asyncio.wait({self.worker}, timeout=5)
        if FAULT == "servers-outlive-close" and not leaving:
            return  # bug: the servers are only thought of when the process ends
        servers, self.servers = self.servers, []
        await asyncio.gather(*(s.close() for s in servers), return_exceptions=True)

    # -- turns ----------------------------------------------------------------
    def enqueue(self, turn):
        self.turns.append(turn)
        if not self.worker or self.worker.done():
            self.worker = asyncio.create_task(self.work())

    async def work(self):
        while self.turns:
            turn = self.turns[0]
            if not turn.cancelled:
                play = Play(self, turn)
                turn.task = asyncio.create_task(play.run())
                await asyncio.wait({turn.task})
                play.wrap_up()
                self.touched = now()
            self.turns.popleft()
            failure = None if turn.task is None or turn.task.cancelled() else turn.task.exception()
            if turn.cancelled == "session" or (not turn.cancelled and turn.task and turn.task.cancelled()):
                self.agent.answer(turn.id, {"stopReason": "cancelled"})
            elif turn.cancelled:
                self.agent.refuse(turn.id, RpcError(-32800, "The request was cancelled."))
            elif failure:
                self.agent.refuse(turn.id, RpcError(-32603, "The turn failed inside the agent."))
                print(f"turn failed: {failure!r}", file=sys.stderr)
            else:
                self.agent.answer(turn.id, {"stopReason": turn.task.result()})


class Play:
    """A turn being played: parse the wishes, fulfil them, report."""

    def __init__(self, session, turn):
        self.s, self.turn, self.agent = session, turn, session.agent
        self.message, self.open = str(uuid.uuid4()), {}
        session.plays += 1

    async def run(self):
        s, blocks = self.s, self.turn.blocks
        text = "\n".join(b["text"] for b in blocks if b["type"] == "text").strip()
        earlier = [b["text"] for e in s.history if e["kind"] == "user_message_chunk" for b in e["blocks"] if b["type"] == "text"]
        s.history.append({"kind": "user_message_chunk", "messageId": str(uuid.uuid4()), "blocks": blocks})
        if s.title is None:
            s.title = (" ".join(text.split()) or "Untitled burrow")[:48]
            s.later(0.6, lambda: s.update("session_info_update", title=s.title, updatedAt=s.touched))
        if s.plays % 3 == 0:
            s.commands()
        todo = wishes.parse(text, s.tools(), s.last_path)
        if (s.values["mode"] == "mellow" or s.values["ponder"]) and not any(w["do"] == "think" for w in todo):
            todo.insert(0, {"do": "think"})
        steps = None
        for wish in todo:
            if wish["do"] == "plan":
                steps = await self.plan(wish["steps"], todo)
            else:
                await getattr(self, "do_" + wish["do"])(wish, earlier)
        if steps:
            await self.walk(steps, slow=all(w["do"] in ("plan", "think") for w in todo))
        if not [w for w in todo if w["do"] != "think"]:
            await self.chat(text, blocks)
        used = sum(len(json.dumps(e)) for e in s.history) // 4
        s.update("usage_update", used=min(used, 64000), size=64000)
        return "end_turn"

    def wrap_up(self):
        """Nothing may stay open when the turn is answered."""
        for call in list(self.open):
            self.finish(call, "failed", "Stopped before it was done.")

    async def say(self, text):
        """Stream in a few large portions, every other turn with an empty one among them."""
        size = 12 if self.s.values["portions"] == "crumbs" else max(200, -(-len(text) // 3))
        pieces = [text[i:i + size] for i in range(0, len(text), size)] or [""]
        if self.s.plays % 2:
            pieces.insert(1, "")
        for piece in pieces:
            self.s.chunk("agent_message_chunk", piece, self.message)
            await asyncio.sleep(0.02)

    async def tell(self, text, block=None):
        """A sentence, then perhaps a fenced Markdown block; paragraphs of one turn are kept apart."""
        gap = "\n\n" if any(e.get("messageId") == self.message for e in self.s.history) else ""
        await self.say(gap + text)
        if block is not None:
            fence = "```" if "```" not in block else "~~~~"
            self.s.chunk("agent_message_chunk", f"\n\n{fence}\n{block}{'' if block.endswith(chr(10)) else chr(10)}{fence}\n", self.message)

    async def chat(self, text, blocks):
        names = [b.get("name") or dig(b, "resource", "uri") or f"an {b['type']}" for b in blocks if b["type"] != "text"]
        if names:
            await self.tell("Thank you, I received " + ", ".join(names) + ".")
            for b in blocks:
                if isinstance(dig(b, "resource", "text"), str):
                    await self.tell("It says:", b["resource"]["text"][:2000])
                elif b["type"] == "resource_link" and b["uri"].startswith("file:///") and re.search(r"\b(?:read|show|summ|what|contain)", text, re.I):
                    await self.do_read({"path": b["uri"], "first": None, "last": None}, [])
        else:
            await self.tell("I understood the words but not the wish. Ask me to read, write or run something." if text else "You sent an empty message.")

    # -- tools ----------------------------------------------------------------
    def begin(self, name, title, kind, raw, path=None, content=None):
        call, self.message = uuid.uuid4().hex, str(uuid.uuid4())  # what is said after a tool is a new message
        fields = {"toolCallId": call, "title": title, "name": name, "kind": kind, "status": "pending", "rawInput": raw}
        fields |= {"locations": [{"path": path, "line": 1} if kind == "read" else {"path": path}]} if path else {}
        fields |= {"content": content} if content else {}
        self.s.update("tool_call", **fields)
        self.open[call] = dict(fields)
        self.s.history.append({"kind": "tool_call", "fields": self.open[call]})
        return call

    def progress(self, call, **fields):
        self.s.update("tool_call_update", toolCallId=call, **fields)
        self.open[call].update(fields)

    def finish(self, call, status, text=None, content=None, raw=None):
        content = content or [{"type": "content", "content": text_block(text or "")}]
        self.progress(call, status=status, content=content, **({"rawOutput": raw} if raw is not None else {}))
        del self.open[call]

    async def permitted(self, call):
        """Ask the user; True only for a clear yes."""
        fields = self.open[call]
        if fields["name"] in self.s.refused:
            self.finish(call, "failed", "The user does not want this in this session.")
            return False
        options = [{"optionId": str(uuid.uuid4()), "name": n, "kind": k} for k, n in (
            ("reject_once", "No, leave it"), ("allow_once", "Yes, this time"), ("reject_always", "No, and never in this session"))]
        self.turn.asking = True
        try:
            answer = await self.agent.ask("session/request_permission", {"sessionId": self.s.id, "toolCall": fields, "options": options})
        except RpcError:
            answer = {}
        finally:
            self.turn.asking = None
        outcome = dig(answer, "outcome", "outcome")
        if outcome == "cancelled" and FAULT != "cancelled-means-no":
            self.turn.cancel("session")
            await asyncio.sleep(0)
        chosen = next((o["kind"] for o in options if o["optionId"] == dig(answer, "outcome", "optionId")), None) if outcome == "selected" else None
        if chosen == "allow_once":
            self.progress(call, status="in_progress")
            return True
        if chosen == "reject_always":
            self.s.refused.add(fields["name"])
        self.finish(call, "failed", "The user did not allow this.")
        return False

    def resolve(self, name):
        s, name = self.s, (unquote(name.removeprefix("file://")) if name.startswith("file://") else name).replace("\0", "")
        path = os.path.normpath(os.path.join(s.cwd, name))
        if FAULT == "last-root-wins" and not os.path.isabs(name):
            # bug: looks for the name in every root and lets the extra ones win
            path = next((p for p in (os.path.normpath(os.path.join(r, name)) for r in s.extra) if os.path.exists(p)), path)
        s.last_path = name if name != "." else s.last_path
        real = os.path.realpath(path)
        inside = any(os.path.commonpath([real, os.path.realpath(r)]) == os.path.realpath(r) for r in [s.cwd, *s.extra])
        return path, inside

    async def do_read(self, wish, _):
        path, inside = self.resolve(wish["path"])
        call = self.begin("read_file", f"Read {os.path.basename(path)}", "read", {"path": path}, path)
        self.progress(call, status="in_progress")
        try:
            if not inside:
                raise ToolFailed("it lies outside the folders of this session")
            with open(path, encoding="utf-8", errors="replace", newline="") as file:
                text = file.read(400_000)
        except (OSError, ToolFailed, ValueError) as error:
            self.finish(call, "failed", f"Cannot read {path}: {why(error)}")
            return await self.tell(f"I could not read {wish['path']}: {why(error)}.")
        if wish["first"]:
            text = "".join(text.splitlines(True)[wish["first"] - 1:wish["last"]])
        self.finish(call, "completed", text, raw={"length": len(text)})
        await self.tell(f"Here is {wish['path']}:" if text else f"{wish['path']} is empty.", text or None)

    async def do_list(self, wish, _):
        path, inside = self.resolve(wish["path"] or ".")
        call = self.begin("list_files", f"List {path}", "search", {"path": path}, path)
        self.progress(call, status="in_progress")
        try:
            if not inside:
                raise ToolFailed("it lies outside the folders of this session")
            names = sorted(e.name + ("/" if e.is_dir() else "") for e in os.scandir(path))
        except (OSError, ToolFailed) as error:
            self.finish(call, "failed", f"Cannot list {path}: {why(error)}")
            return await self.tell(f"I could not list that folder: {why(error)}.")
        self.finish(call, "completed", "\n".join(names), raw={"count": len(names)})
        await self.tell(f"There are {len(names)} entries:" if names else "The folder is empty.", "\n".join(names) or None)

    async def change(self, name, title, wish, compute):
        """Every change of a file: work out the new text (None = delete), ask, then do it."""
        path, inside = self.resolve(wish["path"])
        old = new = None
        try:
            if not inside:
                raise ToolFailed("it lies outside the folders of this session")
            if os.path.exists(path):
                with open(path, encoding="utf-8", newline="") as file:
                    old = file.read()
            new = compute(old)
        except (OSError, ValueError, ToolFailed) as error:
            call = self.begin(name, f"{title} {os.path.basename(path)}", "edit", {"path": path}, path)
            self.finish(call, "failed", f"Cannot change {path}: {why(error)}")
            return await self.tell(f"I could not change {wish['path']}: {why(error)}.")
        diff = [{"type": "diff", "path": path, "oldText": old, "newText": new}] if new is not None else None
        call = self.begin(name, f"{title} {os.path.basename(path)}", "delete" if new is None else "edit", {"path": path}, path, diff)
        if not await self.permitted(call):
            return await self.tell(f"All right, I left {wish['path']} as it is.")
        try:
            if new is None:
                os.remove(path)
            else:
                data = new.encode("utf-8")
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "wb") as file:
                    file.write(data)
        except (OSError, ValueError) as error:
            self.finish(call, "failed", f"Cannot change {path}: {why(error)}")
            return await self.tell(f"I could not change {wish['path']}: {why(error)}.")
        self.finish(call, "completed", "Deleted.", diff)
        await self.tell(f"Done: {wish['path']} has been {'deleted' if new is None else 'written'}.")

    async def do_write(self, wish, _):
        await self.change("write_file", "Write", wish, lambda old: wish["text"])

    async def do_append(self, wish, _):
        await self.change("write_file", "Append to", wish, lambda old: (old or "") + ("\n" if old and not old.endswith("\n") else "") + wish["text"] + "\n")

    async def do_replace(self, wish, _):
        def compute(old):
            if old is None or wish["old"] not in old:
                raise ToolFailed("the text to replace is not there")
            return old.replace(wish["old"], wish["new"])
        await self.change("edit_file", "Edit", wish, compute)

    async def do_delete(self, wish, _):
        def compute(old):
            if old is None:
                raise ToolFailed("there is no such file")
        await self.change("delete_file", "Delete", wish, compute)

    async def do_run(self, wish, _):
        command = wish["command"]
        call = self.begin("run_command", f"Run `{command[:80]}`", "execute", {"command": command})
        if not await self.permitted(call):
            return await self.tell("All right, I did not run it.")
        process, parts, size = None, [], 0
        try:
            process = await asyncio.create_subprocess_exec(
                "/bin/sh", "-c", command, cwd=self.s.cwd, env={**os.environ, "PWD": self.s.cwd}, start_new_session=True,
                stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT)

            async def drain():
                nonlocal size
                while data := await process.stdout.read(8192):
                    size += len(data)
                    if size <= 100_000:
                        parts.append(data)
            reading = asyncio.create_task(drain())
            try:
                code = await asyncio.wait_for(process.wait(), 300)
                await asyncio.wait({reading}, timeout=1)
            finally:
                reading.cancel()
        except asyncio.TimeoutError:
            code = "none: it took too long"
        except (OSError, ValueError) as error:
            self.finish(call, "failed", f"Cannot start the command: {why(error)}")
            return await self.tell(f"I could not start it: {why(error)}.")
        finally:
            if process and process.returncode is None:
                try:
                    os.killpg(process.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
                await process.wait()
        output = b"".join(parts).decode("utf-8", "replace")
        self.finish(call, "completed" if code == 0 else "failed", output or "(no output)", raw={"exitCode": code, "output": output})
        await self.tell(f"The command ended with exit code {code}.", output or None)

    async def do_mcp(self, wish, _):
        call = self.begin(f"{wish['server']}/{wish['tool']}", f"Use {wish['tool']} of {wish['server']}", "other", wish["args"])
        self.progress(call, status="in_progress")
        server = next(s for s in self.s.servers if s.name == wish["server"] and any(t["name"] == wish["tool"] for t in s.tools))
        try:
            result = await server.call(wish["tool"], wish["args"])
        except (mcp.McpError, OSError, ValueError, asyncio.TimeoutError) as error:
            self.finish(call, "failed", f"The tool failed: {why(error)}")
            return await self.tell(f"The tool {wish['tool']} failed: {why(error)}.")
        parts = [p for p in result.get("content") or [] if isinstance(p, dict)]
        text = "\n".join(p["text"] if isinstance(p.get("text"), str) else f"[{p.get('type')}]" for p in parts)
        self.finish(call, "failed" if result.get("isError") is True else "completed", text, raw=result)
        await self.tell(f"The tool {wish['tool']} answered:", text)

    # -- talk -----------------------------------------------------------------
    async def do_tools(self, _, __):
        lines = [f"- `{t['name']}` of {server}" for server, t in self.s.tools()]
        lines += [f"- {s.name}: not available ({s.problem})" for s in self.s.servers if s.problem]
        await self.tell("I know these tools:\n\n" + "\n".join(lines) if lines else "No MCP server was given to this session.")

    async def do_say(self, wish, _):
        await self.say(wish["text"])

    async def do_think(self, _, __):
        thought = str(uuid.uuid4())
        for piece in ("Let me see what is wanted. ", "", "I shall take the shortest way."):
            self.s.chunk("agent_thought_chunk", piece, thought)
            await asyncio.sleep(0.05)

    async def do_secret(self, _, __):
        await self.tell("I never ask for secrets in a form or in a chat; please keep them to yourself.")

    async def do_ask(self, _, __):
        colours = ["red", "green", "blue"]
        if not isinstance(dig(self.agent.caps, "elicitation", "form"), dict):
            return await self.tell("Which colour do you like best: red, green or blue? Just write it in your next message.")
        schema = {"type": "object", "properties": {"colour": {"type": "string", "title": "Colour", "enum": colours}}, "required": ["colour"]}
        try:
            answer = await self.agent.ask("elicitation/create", {"sessionId": self.s.id, "mode": "form", "message": "Which colour do you like best?", "requestedSchema": schema})
        except RpcError as error:
            return await self.tell(f"I could not ask you: {error}")
        action, colour = dig(answer, "action"), dig(answer, "content", "colour")
        if action == "accept" and colour in colours:
            await self.tell(f"You like {colour} best. Noted.")
        else:
            await self.tell({"accept": "That is not one of the colours I offered.", "decline": "You would rather not say; fair enough.",
                             "cancel": "You closed the question; let us go on."}.get(action, "I did not understand that answer, so I take it as none."))

    async def do_mode(self, wish, _):
        mode = next((m["id"] for m in MODES if m["id"] in wish["words"]), None)
        if not mode:
            return await self.tell(f"I have no such mode. There are {', '.join(m['id'] for m in MODES)}.")
        self.s.values["mode"] = mode
        self.s.update("current_mode_update", currentModeId=mode)
        self.s.update("config_option_update", configOptions=self.s.options())
        await self.tell(f"I am in {mode} mode now.")

    async def plan(self, count, todo):
        steps = [w["do"].capitalize() + " as asked" for w in todo if w["do"] not in ("plan", "think")]
        steps = [*steps, "Look at the question", "Work it out", "Check the result", "Tidy up", "Report", *(f"Extra step {n}" for n in range(1, 9))][:max(count, len(steps))]
        entries = [{"content": c, "priority": ("high", "medium", "low")[min(i, 2)], "status": "pending"} for i, c in enumerate(steps)]
        self.show(entries)
        return entries

    def show(self, entries):
        entries = [dict(e) for e in entries]
        self.s.update("plan", entries=entries)
        self.s.history.append({"kind": "plan", "fields": {"entries": entries}})

    async def walk(self, entries, slow):
        for entry in entries:
            for status in ("in_progress", "completed"):
                entry["status"] = status
                self.show(entries)
                await asyncio.sleep(0.15 if slow else 0.03)
        await self.tell("The plan is done:\n\n" + "\n".join(f"{i}. {e['content']}" for i, e in enumerate(entries, 1)))

    async def do_count(self, wish, _):
        top = max(1, min(wish["to"], 1000))
        for n in range(1, top + 1):
            self.s.chunk("agent_message_chunk", f"{n}{'.' if n == top else ', '}", self.message)
            await asyncio.sleep(min(0.25, 60 / top) if wish["slow"] else 0.01)

    async def do_long(self, wish, _):
        for n in range(1, wish["paragraphs"] + 1):
            self.s.chunk("agent_message_chunk", f"Paragraph {n}. The stoat runs along the wall, stops, listens, and goes on with its long and winding tale of fields, "
                         "hedges and old stone walls, for it has nothing else to do today and you asked for much.\n\n", self.message)
            await asyncio.sleep(0.25)

    async def do_wait(self, wish, _):
        await self.tell(f"I am waiting for {wish['seconds']} seconds.")
        await asyncio.sleep(wish["seconds"])
        await self.tell("That was it.")

    async def do_remember(self, _, __):
        await self.tell("I shall remember that.")

    async def do_recall(self, _, earlier):
        await self.tell("Earlier in this session you said:\n\n" + "\n".join("> " + t.replace("\n", "\n> ") for t in earlier[-20:]) if earlier else "You have not told me anything before this in this session.")

    async def do_slash(self, wish, earlier):
        if wish["name"] == "recap":
            await self.do_recall(wish, earlier)
        elif wish["name"] == "tools":
            await self.do_tools(wish, earlier)
        elif wish["name"] == "outline":
            await self.walk(await self.plan(3, []), slow=True)
        else:
            await self.tell(f"I have no command /{wish['name']}.")


def why(error):
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


class Agent:
    def __init__(self):
        self.loop, self.outbox, self.done = asyncio.get_running_loop(), queue.SimpleQueue(), asyncio.Event()
        self.sessions, self.asked, self.running, self.caps = {}, {}, {}, None
        self.numbers = 0
        self.methods = {"initialize": self.initialize, "authenticate": self.authenticate, "session/new": self.new, "session/load": self.load,
                        "session/resume": self.resume, "session/list": self.list, "session/close": self.close, "session/delete": self.delete,
                        "session/set_mode": self.set_mode, "session/set_config_option": self.set_option, "session/prompt": self.prompt}

    # -- JSON-RPC ---------------------------------------------------------------
    def send(self, message):
        self.outbox.put(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def answer(self, request_id, result):
        self.send({"id": request_id, "result": result})

    def refuse(self, request_id, error):
        self.send({"id": request_id, "error": error.body})

    async def ask(self, method, params):
        """A request to the client; if the asking turn is cancelled, the request is withdrawn."""
        request_id = f"stoat:{uuid.uuid4().hex[:12]}"
        future = self.asked[request_id] = self.loop.create_future()
        self.send({"id": request_id, "method": method, "params": params})
        try:
            return await future
        except asyncio.CancelledError:
            self.send({"method": "$/cancel_request", "params": {"requestId": request_id}})
            raise
        finally:
            self.asked.pop(request_id, None)

    def on_line(self, line):
        if not line.strip():
            return
        try:
            message = json.loads(line.decode("utf-8"), parse_constant=lambda c: int(c))
        except (ValueError, RecursionError):
            return self.refuse(None, RpcError(-32700, "This line is not JSON."))
        known_id = isinstance(message, dict) and (message.get("id") is None or type(message["id"]) in (int, str))
        if not known_id or message.get("jsonrpc") != "2.0" or not ("method" in message or "result" in message or "error" in message):
            return self.refuse(message.get("id") if known_id else None, RpcError(-32600, "This is not a JSON-RPC 2.0 request."))
        if "method" not in message:
            future = self.asked.get(message.get("id"))
            if future and not future.done():
                if "error" in message:
                    future.set_exception(RpcError(-32603, str(dig(message, "error", "message") or "the client answered with an error")))
                else:
                    future.set_result(message["result"])
            return
        method, params = message["method"], message.get("params")
        if not isinstance(method, str):
            return self.refuse(message.get("id"), RpcError(-32600, "The method must be a string."))
        if "id" not in message:
            return self.on_notification(method, params)
        try:
            if not isinstance(params, (dict, list, type(None))):
                raise RpcError(-32600, "The params must be structured.")
            handler = self.methods.get(method)
            if not handler:
                raise RpcError(-32601, f"There is no method {method[:80]}.")
            if self.caps is None and method != "initialize":
                raise RpcError(-32600, "The connection has not been initialized.")
            if isinstance(params, list):
                raise invalid("The params must be an object.")
            result = handler(message["id"], params or {})
            if inspect.isawaitable(result):
                task = self.loop.create_task(self.finish(message["id"], result))
                self.running[task] = method, message["id"], result
                task.add_done_callback(self.finished)
            elif result is not LATER:
                self.answer(message["id"], result)
        except RpcError as error:
            self.refuse(message["id"], error)

    async def finish(self, request_id, work):
        try:
            result, after = await work
            self.answer(request_id, result)
            if after:
                after()
        except RpcError as error:
            self.refuse(request_id, error)
        except Exception as error:
            print(f"request failed: {error!r}", file=sys.stderr)
            self.refuse(request_id, RpcError(-32603, "Something went wrong inside the agent."))

    def finished(self, task):
        _, request_id, work = self.running.pop(task)
        if task.cancelled():  # perhaps before it had begun
            work.close()
            self.refuse(request_id, RpcError(-32800, "The request was cancelled."))

    def on_notification(self, method, params):
        if method == "session/cancel":
            wanted = dig(params, "sessionId")
            session = self.sessions.get(wanted) if isinstance(wanted, str) else None
            for turn in list(session.turns) if session else []:
                if FAULT == "cancelled-means-no" and turn.asking:
                    continue  # bug: leaves it to the answer of the permission request, which it takes for a no
                turn.cancel("session")
        elif method == "$/cancel_request" and isinstance(params, dict) and type(params.get("requestId")) in (int, str):
            key = (type(params["requestId"]), params["requestId"])
            for task, (name, request_id, _) in list(self.running.items()):
                if (type(request_id), request_id) == key and name not in ("session/close", "session/delete"):
                    task.cancel()
            for session in self.sessions.values():
                for turn in session.turns:
                    if (type(turn.id), turn.id) == key:
                        turn.cancel("request")

    # -- methods ------------------------------------------------------------------
    def initialize(self, _, params):
        version = params.get("protocolVersion")
        if type(version) is not int or not 0 <= version <= 65535:
            raise invalid("protocolVersion must be an integer from 0 to 65535.")
        self.caps = params.get("clientCapabilities") if isinstance(params.get("clientCapabilities"), dict) else {}
        return {"protocolVersion": 1, "authMethods": [], "agentInfo": {"name": "fourth-stoat", "title": "Fourth Stoat", "version": "1.0.0"},
                "agentCapabilities": {"loadSession": True, "auth": {}, "promptCapabilities": {"image": True, "audio": False, "embeddedContext": True},
                                      "mcpCapabilities": {"http": True, "sse": False},
                                      "sessionCapabilities": {"list": {}, "delete": {}, "resume": {}, "close": {}, "additionalDirectories": {}}}}

    def authenticate(self, _, params):
        raise invalid("There is no such authentication method; none is needed.")

    def setup(self, params, servers_needed=True):
        """The checked cwd, extra roots and servers of session/new, session/load and session/resume."""
        cwd, extra = params.get("cwd"), params.get("additionalDirectories")
        extra = [] if extra is None else extra
        if not isinstance(cwd, str) or not os.path.isabs(cwd) or "\0" in cwd:
            raise invalid("cwd must be an absolute path.")
        if not isinstance(extra, list) or not all(isinstance(e, str) and os.path.isabs(e) for e in extra):
            raise invalid("additionalDirectories must be a list of absolute paths.")
        if servers_needed and "mcpServers" not in params:
            raise invalid("mcpServers is missing.")
        servers = params.get("mcpServers")
        servers = [] if servers is None else servers
        pairs = lambda v: v is None or (isinstance(v, list) and all(isinstance(dig(p, "name"), str) and isinstance(dig(p, "value"), str) for p in v))
        for c in servers if isinstance(servers, list) else [None]:
            good = isinstance(dig(c, "name"), str)
            if good and c.get("type") == "http":
                good = isinstance(c.get("url"), str) and "headers" in c and pairs(c["headers"])
            elif good:
                args = c.get("args") or []
                good = c.get("type") in (None, "stdio") and isinstance(c.get("command"), str) and "args" in c and "env" in c and isinstance(args, list) and all(isinstance(a, str) for a in args) and pairs(c["env"])
            if not good:
                raise invalid("mcpServers holds an entry that is not a valid stdio or http server.")
        return cwd, extra, servers

    def find(self, params, sleeping=False):
        wanted = params.get("sessionId")
        if not isinstance(wanted, str):
            raise invalid("sessionId must be a string.")
        session = self.sessions.get(wanted)
        if not session or not (session.active or sleeping):
            raise RpcError(-32002, "There is no such session.", {"sessionId": wanted})
        return session

    async def new(self, _, params):
        cwd, extra, servers = self.setup(params)
        self.numbers += 1
        session = Session(self, self.numbers)
        session.settle(cwd, extra)
        self.sessions[session.id] = session
        try:
            await session.connect(servers)
        except asyncio.CancelledError:
            del self.sessions[session.id]
            await session.release()
            raise
        return {"sessionId": session.id, **session.state()}, session.announce

    async def reopen(self, params, servers_needed, replay):
        cwd, extra, servers = self.setup(params, servers_needed)
        session = self.find(params, sleeping=True)
        if session.turns:
            raise RpcError(-32600, "A turn of this session is still running.")
        await session.release(leaving=True)
        session.settle(cwd, extra)
        await session.connect(servers)
        if replay:
            session.replay()
        return session.state(), session.announce

    def load(self, _, params):
        return self.reopen(params, True, True)

    def resume(self, _, params):
        return self.reopen(params, False, False)

    def list(self, _, params):
        cwd, cursor, before = params.get("cwd"), params.get("cursor"), None
        if not isinstance(cwd, (str, type(None))):
            raise invalid("cwd must be a string.")
        if cursor is not None:
            try:
                before = int(re.fullmatch(r"before-(\d+)", base64.urlsafe_b64decode(cursor.encode()).decode()).group(1))
            except (ValueError, AttributeError):
                raise invalid("This cursor is not one of mine.")
        found = [s for s in reversed(self.sessions.values()) if (cwd is None or s.cwd == cwd) and (before is None or s.number < before)]
        rows = [{"sessionId": s.id, "cwd": s.cwd, "updatedAt": s.touched, **({"title": s.title} if s.title else {}),
                 **({"additionalDirectories": s.extra} if s.extra else {})} for s in found[:PAGE]]
        more = {"nextCursor": base64.urlsafe_b64encode(f"before-{found[PAGE - 1].number}".encode()).decode()} if len(found) > PAGE else {}
        return {"sessions": rows, **more}

    async def close(self, _, params):
        await self.find(params).release()
        return {}, None

    async def delete(self, _, params):
        if not isinstance(params.get("sessionId"), str):
            raise invalid("sessionId must be a string.")
        session = self.sessions.pop(params["sessionId"], None)
        if session:
            await session.release(leaving=True)
        return {}, None

    def set_mode(self, request_id, params):
        session, mode = self.find(params), params.get("modeId")
        if mode not in [m["id"] for m in MODES]:
            raise invalid("There is no such mode.")
        session.values["mode"] = mode
        self.answer(request_id, {})
        session.update("config_option_update", configOptions=session.options())
        session.commands()
        return LATER

    def set_option(self, request_id, params):
        session, value = self.find(params), params.get("value")
        option = next((o for o in session.options() if o["id"] == params.get("configId")), None)
        if not option:
            raise invalid("There is no such option.")
        if option["type"] == "boolean":
            good = params.get("type") == "boolean" and isinstance(value, bool)
        else:
            flat = [v for o in option["options"] for v in o.get("options", [o])]
            good = isinstance(value, str) and value in [v["value"] for v in flat]
        if not good:
            raise invalid("The option cannot have this value.")
        session.values[option["id"]] = value
        self.answer(request_id, {"configOptions": session.options()})
        if option["id"] == "mode":
            session.update("current_mode_update", currentModeId=value)
        return LATER

    def prompt(self, request_id, params):
        session, blocks = self.find(params), params.get("prompt")
        needed = {"text": ("text",), "resource_link": ("name", "uri"), "image": ("data", "mimeType"), "resource": ()}
        for block in blocks if isinstance(blocks, list) else [None]:
            kind = dig(block, "type")
            good = isinstance(kind, str) and kind in needed and all(isinstance(block.get(k), str) for k in needed[kind])
            if good and kind == "resource":
                good = isinstance(dig(block, "resource", "uri"), str) and any(isinstance(dig(block, "resource", k), str) for k in ("text", "blob"))
            if not good:
                raise invalid("prompt must be a list of text, resource_link, resource or image blocks.")
        session.enqueue(Turn(request_id, blocks))
        return LATER

    # -- the end --------------------------------------------------------------------
    def busy(self):
        return self.running or any(s.turns for s in self.sessions.values())

    async def leave(self):
        """End of input: a short moment for what is nearly done, then stop everything."""
        for _ in range(15):
            if not self.busy():
                break
            await asyncio.sleep(0.02)
        for task in list(self.running):
            task.cancel()
        await asyncio.gather(*(s.release(leaving=True) for s in self.sessions.values()), return_exceptions=True)
        for _ in range(50):
            if not self.busy():
                break
            await asyncio.sleep(0.02)
        self.done.set()


def write_all(outbox):
    while (frame := outbox.get()) is not None:
        try:
            sys.stdout.buffer.write(frame)
            if outbox.empty():
                sys.stdout.buffer.flush()
        except (OSError, ValueError):
            return


def read_all(agent):
    try:
        for line in sys.stdin.buffer:
            agent.loop.call_soon_threadsafe(agent.on_line, line)
    except (OSError, ValueError):
        pass
    agent.loop.call_soon_threadsafe(lambda: agent.loop.create_task(agent.leave()))


async def main():
    agent = Agent()
    for name in (signal.SIGTERM, signal.SIGINT):
        agent.loop.add_signal_handler(name, lambda: agent.loop.create_task(agent.leave()))
    writer = threading.Thread(target=write_all, args=(agent.outbox,), daemon=True)
    writer.start()
    threading.Thread(target=read_all, args=(agent,), daemon=True).start()
    await agent.done.wait()
    agent.outbox.put(None)
    await asyncio.to_thread(writer.join, 5)
    os._exit(0)


asyncio.run(main())
