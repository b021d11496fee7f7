"""One prompt turn: does the wishes that the rules found, and reports on them."""
from __future__ import annotations

import asyncio
import base64
import os
import re
import signal
import struct
import time
import uuid
from typing import Any
from urllib.parse import unquote, urlparse

from acp.exceptions import RequestError
from acp.schema import PermissionOption, ToolCallUpdate

from mcp_client import McpError, kill_group
from rules import Wish, understand
from wire import OUTGOING

FAULT = os.environ.get("FAULT", "")
LIMIT = 64 * 1024
COMMAND_SECONDS = 300
COMMANDS = [
    {"name": "echo", "description": "Say a text", "input": {"hint": "the text"}},
    {"name": "ls", "description": "List the files of the working directory"},
    {"name": "run", "description": "Run a shell command", "input": {"hint": "the command"}},
    {"name": "plan", "description": "Make a plan and work through it", "input": {"hint": "what it is for"}},
    {"name": "mode", "description": "Change the mode", "input": {"hint": "careful, swift or look-only"}},
    {"name": "memory", "description": "Tell what I remember of this conversation"},
    {"name": "tools", "description": "List the tools of the MCP servers"},
]
OPTIONS = [
    PermissionOption(option_id="peck-once", name="Yes, write it", kind="allow_once"),
    PermissionOption(option_id="peck-always", name="Yes, and do not ask again", kind="allow_always"),
    PermissionOption(option_id="shoo-once", name="No, leave it", kind="reject_once"),
    PermissionOption(option_id="shoo-always", name="No, and never in this session", kind="reject_always"),
]
DOING = {"say": "say some words", "read": "read a file", "write": "write a file", "edit": "change a file", "append": "add to a file",
         "delete": "delete a file", "run": "run a command", "list": "look around", "plan": "make a plan", "think": "think first",
         "count": "count", "talk": "talk for a while", "mcp_list": "name the tools of the MCP servers", "mcp_call": "call a tool of an MCP server",
         "ask": "ask the user something", "remember": "keep something in mind", "recall": "look back at the conversation",
         "describe": "describe what is attached", "mode": "change the mode", "chat": "answer kindly"}


class TurnCancelled(Exception):
    """The client answered a question of ours with "cancelled"."""


class Failed(Exception):
    """A tool could not do its work; the words say why."""


def text_content(text: str) -> dict[str, Any]:
    return {"type": "content", "content": {"type": "text", "text": text}}


class ToolCall:
    """One tool call, as told to the client and as kept for a replay."""

    def __init__(self, turn: "Turn", call_id: str, entry: dict[str, Any]) -> None:
        self.turn, self.id, self.entry = turn, call_id, entry
        self.open = True

    async def tell(self, kept: list[dict[str, Any]] | None = None, **changes: Any) -> None:
        """Send changes; "kept" is the content to be kept where it differs from what is shown."""
        if changes.get("status") in ("completed", "failed"):
            self.open = False
        self.entry.update(changes)
        if kept is not None:
            self.entry["content"] = kept
        await self.turn.agent.update(self.turn.session, {"sessionUpdate": "tool_call_update", "toolCallId": self.id, **changes})


class Turn:
    def __init__(self, agent: Any, session: Any, blocks: list[dict[str, Any]], task: Any) -> None:
        self.agent, self.session, self.blocks, self.task = agent, session, blocks, task
        self.cancelled = self.by_request = self.ending = False
        self.finished = asyncio.Event()
        self.open_calls: list[ToolCall] = []
        self.more = False  # whether another wish follows

    def cancel(self, by_request: bool = False) -> None:
        if not self.cancelled and not self.ending:
            self.cancelled, self.by_request = True, by_request
            self.task.cancel()

    # -- the turn as a whole -------------------------------------------------------------------

    async def run(self) -> None:
        session = self.session
        message_id = uuid.uuid4().hex
        for block in self.blocks:
            session.history.append({"sessionUpdate": "user_message_chunk", "content": block, "messageId": message_id})
        text = "\n".join(b["text"] for b in self.blocks if b["type"] == "text").strip()
        wishes = self.slash(text) or understand(
            text, [t["name"] for s in session.mcp for t in s.tools], [s.name for s in session.mcp],
            any(b["type"] != "text" for b in self.blocks))
        if len(wishes) > 1 and any(w.kind == "plan" for w in wishes):
            wishes = [w for w in wishes if w.kind != "plan"]
        plan = self.new_plan([w.label or DOING[w.kind] for w in wishes]) if len(wishes) > 1 else None
        for at, wish in enumerate(wishes):
            self.more = at < len(wishes) - 1
            if plan:
                await self.mark(plan, at, "in_progress")
            if wish.kind != "think":
                await self.think(f"The wish is to {DOING[wish.kind]}." if not wish.label else f"The wish is to {DOING[wish.kind]}: {wish.label}.")
            try:
                await getattr(self, "do_" + wish.kind)(**wish.args)
            except Failed as exc:
                await self.say(str(exc))
            except (RequestError, McpError, OSError, ValueError, ConnectionError) as exc:
                await self.say(f"That went wrong: {exc}")
            if plan:
                await self.mark(plan, at, "completed")
        if session.title is None:
            session.title = (re.sub(r"\s+", " ", text) or "Something attached")[:60]
            await self.agent.update(session, {"sessionUpdate": "session_info_update", "title": session.title})
        session.weight += len(text) // 4 + 1
        await self.agent.update(session, {"sessionUpdate": "usage_update", "used": min(session.weight, 50_000), "size": 50_000,
                                          "cost": {"amount": round(session.weight / 100_000, 5), "currency": "EUR"}})

    async def tidy(self) -> None:
        """Whatever is still open is closed before the answer goes out."""
        for call in self.open_calls:
            if call.open:
                await call.tell(status="failed")

    def slash(self, text: str) -> list[Wish]:
        match = re.match(r"/([a-z_-]+)(?:\s+(.*))?$", text, re.S)
        if not match:
            return []
        name, rest = match.group(1), (match.group(2) or "").strip()
        if name == "run" and not rest:
            return [Wish("say", {"text": "Tell me which command: /run <command>."})]
        found = {"echo": Wish("say", {"text": rest or "(nothing to echo)"}), "ls": Wish("list", {"path": rest or "."}),
                 "run": Wish("run", {"command": rest}), "plan": Wish("plan", {"steps": 3, "about": rest}),
                 "mode": Wish("mode", {"mode": rest}), "memory": Wish("recall"), "tools": Wish("mcp_list")}.get(name)
        return [found or Wish("say", {"text": f"I know no command /{name}. I know " + ", ".join("/" + c["name"] for c in COMMANDS) + "."})]

    # -- words ---------------------------------------------------------------------------------

    async def stream(self, kind: str, pieces: Any) -> None:
        """Send one message, piece by piece.  Pieces are texts or (text, pause) pairs."""
        entry: dict[str, Any] = {"sessionUpdate": kind, "content": {"type": "text", "text": ""}, "messageId": uuid.uuid4().hex}
        for piece in pieces:
            piece, pause = piece if isinstance(piece, tuple) else (piece, 0.005)
            if not piece:
                continue
            if not entry["content"]["text"]:
                self.session.history.append(entry)
            entry["content"]["text"] += piece
            await self.agent.update(self.session, {**entry, "content": {"type": "text", "text": piece}})
            await asyncio.sleep(pause)
        self.session.weight += len(entry["content"]["text"]) // 4

    async def say(self, text: str) -> None:
        text = (text or "(nothing)") + ("\n" if self.more else "")
        size = max(14, len(text) // 40)
        pieces, held = [], ""
        for word in re.findall(r"\s*\S+|\s+$", text):
            held += word
            if len(held) >= size:
                pieces.append(held)
                held = ""
        await self.stream("agent_message_chunk", pieces + [held])

    async def think(self, text: str) -> None:
        await self.stream("agent_thought_chunk", [text])

    def new_plan(self, labels: list[str]) -> dict[str, Any]:
        last = len(labels) - 1
        return {"sessionUpdate": "plan", "entries": [
            {"content": label, "priority": "high" if i == 0 else "low" if i == last else "medium", "status": "pending"}
            for i, label in enumerate(labels)]}

    async def mark(self, plan: dict[str, Any], at: int, status: str) -> None:
        plan["entries"][at]["status"] = status
        if not any(entry is plan for entry in self.session.history):
            self.session.history.append(plan)
        await self.agent.update(self.session, plan)

    # -- tools ---------------------------------------------------------------------------------

    async def tool(self, title: str, kind: str, status: str = "in_progress", **more: Any) -> ToolCall:
        self.session.calls += 1
        call_id = f"peck-{self.session.number}-{self.session.calls}"
        entry = {"sessionUpdate": "tool_call", "toolCallId": call_id, "title": title, "kind": kind, "status": status, **more}
        call = ToolCall(self, call_id, entry)
        self.open_calls.append(call)
        self.session.history.append(entry)
        await self.agent.update(self.session, dict(entry))
        return call

    async def fail(self, call: ToolCall, why: str) -> None:
        await call.tell(status="failed", content=[text_content(why)])
        raise Failed(why)

    async def ask_client(self, request: Any) -> Any:
        """Await a request to the client; if the turn is cancelled meanwhile, withdraw it."""
        box: dict[str, Any] = {}
        token = OUTGOING.set(box)
        try:
            return await request
        except asyncio.CancelledError:
            if "id" in box:
                self.agent.transport.notify_now("$/cancel_request", {"requestId": box["id"]})
            raise
        finally:
            OUTGOING.reset(token)

    async def settle(self, request: Any, seconds: float) -> Any:
        """Await a request that must not be left half done, for a limited time, whatever happens."""
        task = asyncio.ensure_future(request)
        await asyncio.wait([task], timeout=0.1 if self.agent.ending else seconds)
        if not task.done():
            task.cancel()
            return None
        return None if task.cancelled() or task.exception() else task.result()

    def base(self) -> str:
        return self.agent.latest_cwd if FAULT == "borrowed-cwd" else self.session.cwd

    def place(self, path: str) -> str:
        return os.path.normpath(os.path.join(self.base(), os.path.expanduser(path)))

    def inside(self, path: str) -> bool:
        real = os.path.realpath(path)
        roots = [os.path.realpath(r) for r in [self.base(), *self.session.extra]]
        return any(real == root or real.startswith(root.rstrip("/") + "/") for root in roots)

    # -- files ---------------------------------------------------------------------------------

    async def do_read(self, path: str, line: int | None = None, limit: int | None = None) -> None:
        full = self.place(path)
        call = await self.tool(f"Read {path}", "read", rawInput={"path": full},
                               locations=[{"path": full, **({"line": line} if line else {})}])
        text = await self.content_of(call, full, path)
        if line:
            text = "".join(text.splitlines(keepends=True)[line - 1:line - 1 + (limit or 1)])
        await call.tell(status="completed", content=[text_content(text[:LIMIT])])
        await self.say(f"{path} is empty." if not text else text[:LIMIT])

    async def content_of(self, call: ToolCall, full: str, shown: str) -> str:
        if not self.inside(full):
            await self.fail(call, f"{shown} is outside of the directories I may use.")
        if not os.path.isfile(full):
            await self.fail(call, f"There is no file {shown} that I could read.")
        try:
            with open(full, "rb") as file:
                return file.read(8 * 1024 * 1024).decode("utf-8", "replace")
        except OSError as exc:
            await self.fail(call, f"I could not read {shown}: {exc.strerror}.")
            raise

    async def do_list(self, path: str) -> None:
        full = self.place(path)
        call = await self.tool(f"Look into {path}", "search", rawInput={"path": full}, locations=[{"path": full}])
        if not self.inside(full):
            await self.fail(call, f"{path} is outside of the directories I may use.")
        try:
            with os.scandir(full) as found:
                names = sorted(e.name + ("/" if e.is_dir() else "") for e in found)
        except OSError as exc:
            await self.fail(call, f"I could not look into {path}: {exc.strerror}.")
        shown = "\n".join(names[:500]) or "(empty)"
        await call.tell(status="completed", content=[text_content(shown)])
        await self.say(f"I see {len(names)} entries:\n{shown}")

    async def do_write(self, path: str, text: str, create: bool = False) -> None:
        await self.change(path, "Write", lambda old: text)

    async def do_append(self, path: str, text: str) -> None:
        await self.change(path, "Add to", lambda old: (old or "") + ("\n" if old and not old.endswith("\n") else "") + text)

    async def do_edit(self, path: str, old: str, new: str, all: bool = False) -> None:
        def replaced(was: str | None) -> str:
            if was is None:
                raise Failed(f"There is no file {path} that I could change.")
            if not old or old not in was:
                raise Failed(f"I did not find “{old}” in {path}.")
            return was.replace(old, new)
        await self.change(path, "Change", replaced)

    async def change(self, path: str, verb: str, make: Any) -> None:
        full = self.place(path)
        call = await self.tool(f"{verb} {path}", "edit", "pending", rawInput={"path": full}, locations=[{"path": full}])
        was = None
        if os.path.lexists(full) and self.inside(full):
            was = await self.content_of(call, full, path)
        try:
            text = make(was)
        except Failed as exc:
            await self.fail(call, str(exc))
        text = text.encode("utf-8", "replace").decode("utf-8")
        diff = {"type": "diff", "path": full, "newText": text, **({} if was is None else {"oldText": was})}
        await self.permitted(call, full, path, [diff])
        await call.tell(status="in_progress")
        try:
            if self.agent.can("fs", "writeTextFile"):
                writing = asyncio.ensure_future(self.agent.client.write_text_file(session_id=self.session.id, path=full, content=text))
                try:
                    await asyncio.shield(writing)
                except asyncio.CancelledError:
                    await asyncio.wait([writing], timeout=0.1 if self.agent.ending else 1)
                    if writing.done() and not writing.cancelled() and not writing.exception():
                        await call.tell(status="completed", content=[diff])
                    writing.cancel()
                    raise
            else:
                os.makedirs(os.path.dirname(full), exist_ok=True)
                with open(full, "w", encoding="utf-8", newline="") as file:
                    file.write(text)
        except (RequestError, OSError, ConnectionError) as exc:
            await self.fail(call, f"I could not write {path}: {exc}")
        await call.tell(status="completed", content=[diff])
        await self.say(f"Done: {path} now has {len(text)} characters.")

    async def do_delete(self, path: str) -> None:
        full = self.place(path)
        call = await self.tool(f"Delete {path}", "delete", "pending", rawInput={"path": full}, locations=[{"path": full}])
        if self.inside(full) and not os.path.isfile(full):
            await self.fail(call, f"There is no file {path}.")
        await self.permitted(call, full, path, [text_content(f"{full} is to be deleted.")])
        await call.tell(status="in_progress")
        try:
            os.remove(full)
        except OSError as exc:
            await self.fail(call, f"I could not delete {path}: {exc.strerror}.")
        await call.tell(status="completed", content=[text_content(f"{full} was deleted.")])
        await self.say(f"{path} is gone.")

    async def permitted(self, call: ToolCall, full: str, path: str, content: list[dict[str, Any]]) -> None:
        """Return if the file may be touched; else report the tool call as failed."""
        session = self.session
        if not self.inside(full):
            await self.fail(call, f"{path} is outside of the directories I may use.")
        if session.mode == "look-only":
            await self.fail(call, "I only look in this mode, so I left the file alone.")
        if session.mode == "swift" or session.verdict == "allow":
            return
        if session.verdict == "reject":
            await self.fail(call, "You told me never to write in this session, so I left the file alone.")
        about = ToolCallUpdate.model_validate({"toolCallId": call.id, "title": call.entry["title"], "kind": call.entry["kind"],
                                               "status": "pending", "content": content, "locations": call.entry["locations"]})
        try:
            answer = await self.ask_client(self.agent.client.request_permission(
                session_id=session.id, tool_call=about, options=OPTIONS))
        except (RequestError, ValueError, ConnectionError):
            await self.fail(call, "I got no permission, so I left the file alone.")
        if answer.outcome.outcome == "cancelled":
            raise TurnCancelled
        chosen = next((o for o in OPTIONS if o.option_id == answer.outcome.option_id), None)
        if chosen is not None and chosen.kind.endswith("_always"):
            session.verdict = chosen.kind.split("_")[0]
        if chosen is None or not chosen.kind.startswith("allow"):
            await self.fail(call, "You said no, so I left the file alone.")

    # -- commands ------------------------------------------------------------------------------

    async def do_run(self, command: str) -> None:
        if not command.strip():
            raise Failed("Which command shall I run?")
        call = await self.tool(f"Run {command}"[:200], "execute", "pending", rawInput={"command": command, "cwd": self.base()})
        if self.session.mode == "look-only":
            await self.fail(call, "I only look in this mode, so I did not run the command.")
        run = self.in_terminal if self.agent.can("terminal") else self.in_child
        code, name, output = await run(call, command)
        ending = "was stopped by " + name if name else "took too long, so I stopped it" if code is None else f"ended with exit code {code}"
        await self.say(f"The command {ending}." + (f" It said:\n{output}" if output else " It said nothing."))

    async def finish_run(self, call: ToolCall, code: int | None, name: str | None, output: str, first: list[dict[str, Any]]) -> None:
        words = text_content(output or "(no output)")
        await call.tell(status="completed" if code == 0 else "failed", content=[*first, words], kept=[words],
                        rawOutput={"exitCode": code, "signal": name})

    async def in_terminal(self, call: ToolCall, command: str) -> tuple[int | None, str | None, str]:
        client, sid = self.agent.client, self.session.id
        creating = asyncio.ensure_future(client.create_terminal(
            session_id=sid, command="/bin/sh", args=["-c", command], cwd=self.base(), output_byte_limit=LIMIT))
        try:
            terminal = (await asyncio.shield(creating)).terminal_id
        except asyncio.CancelledError:
            made = await self.settle(creating, 3)  # it may be there all the same: give it back
            if made is not None:
                await self.settle(client.kill_terminal(session_id=sid, terminal_id=made.terminal_id), 3)
                await self.settle(client.release_terminal(session_id=sid, terminal_id=made.terminal_id), 3)
            raise
        except (RequestError, ValueError, ConnectionError) as exc:
            await self.fail(call, f"The client gave me no terminal: {exc}")
        shown = [{"type": "terminal", "terminalId": terminal}]
        code, name = None, None
        try:
            await call.tell(status="in_progress", content=shown, kept=[])
            waiting = asyncio.ensure_future(self.ask_client(client.wait_for_terminal_exit(session_id=sid, terminal_id=terminal)))
            try:
                done, _ = await asyncio.wait([waiting], timeout=COMMAND_SECONDS)
            finally:
                if not waiting.done():
                    waiting.cancel()
                    await asyncio.wait([waiting])
            if done:
                code, name = waiting.result().exit_code, waiting.result().signal
            else:
                await self.settle(client.kill_terminal(session_id=sid, terminal_id=terminal), 3)
            output = (await self.ask_client(client.terminal_output(session_id=sid, terminal_id=terminal))).output
            await self.finish_run(call, code, name, output, shown)
            return code, name, output
        except asyncio.CancelledError:
            await self.settle(client.kill_terminal(session_id=sid, terminal_id=terminal), 3)
            raise
        except (RequestError, ValueError, ConnectionError) as exc:
            await self.fail(call, f"The terminal did not work: {exc}")
            raise
        finally:
            if not (FAULT == "kept-on-failure" and code):
                await self.settle(client.release_terminal(session_id=sid, terminal_id=terminal), 3)

    async def in_child(self, call: ToolCall, command: str) -> tuple[int | None, str | None, str]:
        try:
            child = await asyncio.create_subprocess_exec(
                "/bin/sh", "-c", command, cwd=self.base(), stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, start_new_session=True)
        except (OSError, ValueError) as exc:
            await self.fail(call, f"I could not start the command: {exc}")
        kept = bytearray()

        async def collect() -> None:
            while data := await child.stdout.read(8192):
                kept.extend(data)
                del kept[:-LIMIT]

        collecting = asyncio.ensure_future(collect())
        code, name = None, None
        try:
            await call.tell(status="in_progress")
            waiting = asyncio.ensure_future(child.wait())
            done, _ = await asyncio.wait([waiting], timeout=COMMAND_SECONDS)
            if done:
                code = waiting.result()
                await asyncio.wait([collecting], timeout=0.5)  # something in the background may hold the pipe
                if code < 0:
                    code, name = None, signal.Signals(-code).name
        finally:
            kill_group(child.pid, signal.SIGKILL)
            collecting.cancel()
            await asyncio.wait([asyncio.ensure_future(child.wait())], timeout=1)
        output = bytes(kept).decode("utf-8", "replace")
        await self.finish_run(call, code, name, output, [])
        return code, name, output

    # -- MCP -----------------------------------------------------------------------------------

    async def do_mcp_list(self) -> None:
        lines = []
        for server in self.session.mcp:
            if server.trouble:
                lines.append(f"{server.name}: not there, {server.trouble}")
            lines += [f"{server.name}: {t['name']}" + (f" ({t['description']})" if t.get("description") else "") for t in server.tools if not server.trouble]
            if not server.trouble and not server.tools:
                lines.append(f"{server.name}: no tools")
        await self.say("The MCP tools I can call:\n" + "\n".join(lines) if lines else "This session has no MCP servers, so there are no tools.")

    async def do_mcp_call(self, tool: str | None, server: str | None, args: dict[str, Any], loose: list[str],
                          numbers: list[Any], said: str | None, tail: str = "") -> None:
        found = [(s, t) for s in self.session.mcp for t in s.tools
                 if t["name"] == (tool or "").split("/")[-1] or f"{s.name}.{t['name']}" == tool]
        found = [pair for pair in found if server is None or pair[0].name == server] or found
        if not found and tool is None and len(self.session.mcp) == 1 and len(self.session.mcp[0].tools) == 1:
            found = [(self.session.mcp[0], self.session.mcp[0].tools[0])]
        if not found:
            if tool is None:
                return await self.do_mcp_list()
            call = await self.tool(f"Call {tool}", "other", rawInput=args)
            await self.fail(call, f"There is no MCP tool {tool} in this session.")
        where, spec = found[0]
        args = self.filled(spec, dict(args), loose, numbers, said)
        call = await self.tool(f"{where.name}: {spec['name']}", "other", rawInput=args)
        try:
            result = await where.call(spec["name"], args)
        except (McpError, ConnectionError) as exc:
            await self.fail(call, f"The tool {spec['name']} failed: {exc}")
        content, words = [], []
        for item in result.get("content") or []:
            if isinstance(item, dict) and item.get("type") == "text" and isinstance(item.get("text"), str):
                content.append(text_content(item["text"]))
                words.append(item["text"])
            elif isinstance(item, dict) and item.get("type") == "image" and isinstance(item.get("data"), str) and isinstance(item.get("mimeType"), str):
                content.append({"type": "content", "content": {"type": "image", "data": item["data"], "mimeType": item["mimeType"]}})
                words.append(f"(an image, {item['mimeType']})")
            else:
                content.append(text_content(repr(item)[:LIMIT]))
        bad = bool(result.get("isError"))
        answer = "\n".join(words) or "(nothing)"
        await call.tell(status="failed" if bad else "completed", content=content or [text_content("(nothing)")], rawOutput=result)
        await self.say(f"The tool {spec['name']} {'failed' if bad else 'answered'}: {answer}")

    @staticmethod
    def filled(spec: dict[str, Any], args: dict[str, Any], loose: list[str], numbers: list[Any], said: str | None) -> dict[str, Any]:
        """Give loose texts and numbers to the properties of the tool that still lack a value."""
        schema = spec.get("inputSchema")
        properties = schema.get("properties") if isinstance(schema, dict) else None
        if args and not (isinstance(schema, dict) and [r for r in schema.get("required", []) if r not in args]):
            return args
        texts = list(loose) + ([said] if said else [])
        amounts = [n for n in numbers if n not in args.values()]
        for name, kind in (properties or {}).items():
            if name in args or not isinstance(kind, dict):
                continue
            if kind.get("type") in ("number", "integer") and amounts:
                args[name] = amounts.pop(0)
            elif kind.get("type", "string") == "string" and texts:
                args[name] = texts.pop(0)
            elif kind.get("type") == "boolean" and texts and texts[0].lower() in ("true", "false"):
                args[name] = texts.pop(0).lower() == "true"
        if not properties and texts:
            args["text"] = texts[0]
        return args

    # -- questions -----------------------------------------------------------------------------

    async def do_ask(self, question: str, type: str, secret: bool, options: list[str] | None = None) -> None:
        if secret:
            return await self.say("I never ask for secrets in a form, so please keep that to yourself.")
        in_words = f"{question[:1].upper()}{question[1:]}" + ("" if question.endswith("?") else "?")
        if not self.agent.can_form():
            return await self.say(f"A question for you: {in_words} Please tell me in your next message.")
        shape: dict[str, Any] = {"text": {"type": "string"}, "choice": {"type": "string", "enum": options},
                                 "yesno": {"type": "boolean"}, "number": {"type": "integer", "minimum": 0}}[type]
        shape = {**shape, "title": "Your answer"}
        # Sent through the SDK's connection directly: its models drop the schema's type "object".
        try:
            answer = await self.ask_client(self.agent.client._conn.send_request("elicitation/create", {
                "sessionId": self.session.id, "mode": "form", "message": in_words,
                "requestedSchema": {"type": "object", "properties": {"answer": shape}, "required": ["answer"]}}))
        except (RequestError, ConnectionError):
            return await self.say(f"The form did not work, so in words: {in_words}")
        action = answer.get("action") if isinstance(answer, dict) else None
        if action == "decline":
            return await self.say("You would rather not answer. That is fine.")
        if action == "cancel":
            return await self.say("You put the question aside. That is fine.")
        if action != "accept":
            return await self.say("I did not understand the reaction to my question, so I take it as no answer.")
        content = answer.get("content")
        value = content.get("answer") if isinstance(content, dict) else None
        good = {"text": isinstance(value, str), "choice": isinstance(value, str) and value in (options or []),
                "yesno": isinstance(value, bool), "number": isinstance(value, int) and not isinstance(value, bool) and value >= 0}[type]
        if not good:
            return await self.say("That answer does not fit my question, so I do not use it.")
        shown = {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)
        self.session.notes.append(f"to “{in_words}” you answered “{shown}”")
        await self.say(f"Thank you. You answered: {shown}")

    # -- all the rest --------------------------------------------------------------------------

    async def do_say(self, text: str) -> None:
        await self.say(text)

    async def do_think(self, about: str) -> None:
        subject = about or "this"
        for thought in (f"Let me think about {subject}.", "There are a few sides to it.", "I believe I have turned it over enough."):
            await self.think(thought)
            await asyncio.sleep(0.15)
        await self.say(f"I have thought about {subject}, and it looks good to me.")

    async def do_plan(self, steps: int, about: str) -> None:
        names = ["Look at what is wanted", "Gather what is needed", "Do the work"] + [f"Go over part {n}" for n in range(1, 20)]
        names = names[:steps - 1] + ["Check the result"]
        plan = self.new_plan([f"{n} ({about})" if about and i == 0 else n for i, n in enumerate(names)])
        for at, name in enumerate(names):
            await self.mark(plan, at, "in_progress")
            await asyncio.sleep(0.2)
            await self.mark(plan, at, "completed")
        await self.say(f"I made a plan of {len(names)} steps and worked through it: " + ", ".join(n.lower() for n in names) + ".")

    async def do_count(self, slow: bool, seconds: float | None, **ends: int) -> None:
        first, last = ends["from"], ends["to"]
        numbers = list(range(first, last + 1) if first <= last else range(first, last - 1, -1))[:2000]
        pause = min(seconds, 300) / len(numbers) if seconds else 0.7 if slow else 0.2
        await self.stream("agent_message_chunk", [(f"{n}" + (" " if n != numbers[-1] else "\n" if self.more else ""), pause) for n in numbers])

    async def do_talk(self, seconds: float) -> None:
        end = time.monotonic() + min(max(seconds, 1), 300)
        tale = ["A small siskin sat on an alder. ", "The wind moved the cones. ", "It pecked at one seed, and then at another. ",
                "Below, the brook went on talking. ", "Nobody was in a hurry. "]

        def sentences() -> Any:
            at = 0
            while time.monotonic() < end:
                yield tale[at % len(tale)], 0.3
                at += 1
            yield "That is all." + ("\n" if self.more else "")
        await self.stream("agent_message_chunk", sentences())

    async def do_remember(self, text: str) -> None:
        self.session.notes.append(text)
        await self.say(f"I will remember: {text}")

    async def do_recall(self) -> None:
        texts = [e["content"]["text"] for e in self.session.history
                 if e["sessionUpdate"] == "user_message_chunk" and e["content"]["type"] == "text"]
        texts = texts[:-1][-30:]  # all but the question itself
        parts = []
        if self.session.notes:
            parts.append("I keep in mind: " + "; ".join(self.session.notes) + ".")
        if texts:
            parts.append("You told me so far: " + "; ".join(f"“{t[:300]}”" for t in texts) + ".")
        await self.say(" ".join(parts) or "This is the first thing you say to me, so I remember nothing yet.")

    async def do_mode(self, mode: str) -> None:
        if mode not in ("careful", "swift", "look-only"):
            return await self.say(f"My modes are careful, swift and look-only. I am in {self.session.mode}.")
        self.session.mode, self.session.verdict = mode, None
        await self.agent.update(self.session, {"sessionUpdate": "current_mode_update", "currentModeId": mode})
        await self.say(f"I am in the mode {mode} now.")

    async def do_describe(self) -> None:
        lines, read = [], None
        wanted = " ".join(b["text"] for b in self.blocks if b["type"] == "text")
        for block in self.blocks:
            if block["type"] == "image":
                lines.append(describe_image(block))
            elif block["type"] == "resource_link":
                more = [f"{k} {block[k]}" for k in ("title", "description", "mimeType", "size") if block.get(k) is not None]
                lines.append(f"A link named “{block['name']}” to {block['uri']}" + (f" ({', '.join(more)})" if more else "") + ".")
                if block["uri"].startswith("file:") and re.search(r"\b(?:read|contents?|what does it say)\b", wanted, re.I):
                    read = unquote(urlparse(block["uri"]).path)
            elif block["type"] == "resource":
                inner = block["resource"]
                kind = f", {inner['mimeType']}" if inner.get("mimeType") else ""
                if "text" in inner:
                    lines.append(f"A text resource {inner['uri']}{kind} of {len(inner['text'])} characters: {inner['text'][:2000]}")
                else:
                    lines.append(f"A binary resource {inner['uri']}{kind} of {len(decoded(inner.get('blob', '')) or b'')} bytes.")
        await self.say("\n".join(lines) or "Nothing is attached to your message, so there is nothing to describe.")
        if read:
            await self.do_read(read)

    async def do_chat(self, text: str) -> None:
        if not text.strip():
            return await self.say("You sent me no words, but I am here.")
        if re.search(r"\b(?:thanks|thank you|cheers)\b", text, re.I):
            return await self.say("You are welcome!")
        if re.search(r"\b(?:help|what can you do|who are you)\b", text, re.I):
            return await self.say("I am Siskin. I can say things, read, write and change files, run commands, plan, count, call MCP tools and ask you questions.")
        await self.say("Hello! I am Siskin, a small agent of plain rules. Tell me what to read, write, run or say.")


def decoded(data: str) -> bytes | None:
    try:
        return base64.b64decode(data, validate=True)
    except ValueError:
        return None


def describe_image(block: dict[str, Any]) -> str:
    data = decoded(block["data"])
    if data is None:
        return f"An image ({block['mimeType']}) whose data I cannot decode."
    size = ""
    if data[:8] == b"\x89PNG\r\n\x1a\n" and len(data) >= 24:
        width, height = struct.unpack(">II", data[16:24])
        size = f", {width} by {height} pixels"
    return f"An image ({block['mimeType']}{size}) of {len(data)} bytes."
