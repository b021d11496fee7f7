"""Carries out one prompt."""

from __future__ import annotations

import asyncio
import base64
import os
import re
import uuid
from typing import Any

import toolbox
import wishes
from acp import (
    plan_entry,
    start_tool_call,
    text_block,
    tool_content,
    tool_diff_content,
    update_agent_message,
    update_agent_thought,
    update_plan,
    update_tool_call,
)
from acp.schema import CurrentModeUpdate, SessionInfoUpdate, ToolCallLocation, UsageUpdate
from session import Session, words_of
from store import now
from toolbox import Command, ToolError

SENTENCES = [
    "The grouse woke before the hill did. ",
    "There was frost on the heather, and every step made a small sound. ",
    "Far below a dog barked at nothing in particular. ",
    "She walked to the burn and drank, and looked up after each sip. ",
    "An old stone wall ran across the moor and kept nobody out. ",
    "Behind it the wind was only half as cold. ",
    "By noon the mist had come up from the glen. ",
]
SECRETS = re.compile(r"\b(?:password|passphrase|passcode|api[ -]?key|token|secret|credential|pin code|credit card)s?\b", re.I)


class Turn:
    def __init__(self, client: Any, session: Session, blocks: list[dict[str, Any]]) -> None:
        self.client = client
        self.session = session
        self.blocks = blocks
        self.text = words_of(blocks)
        self._message: str | None = None
        self._spoken: list[str] = []
        self._thought: str | None = None
        self._thoughts: list[str] = []

    async def update(self, update: Any) -> None:
        await self.client.session_update(self.session.id, update)

    async def say(self, text: str) -> None:
        self._end_thought()
        if self._message is None:
            self._message = uuid.uuid4().hex
        self._spoken.append(text)
        chunk = update_agent_message(text_block(text))
        chunk.message_id = self._message
        await self.update(chunk)

    async def muse(self, text: str) -> None:
        self._end_message()
        if self._thought is None:
            self._thought = uuid.uuid4().hex
        self._thoughts.append(text)
        chunk = update_agent_thought(text_block(text))
        chunk.message_id = self._thought
        await self.update(chunk)

    def _end_message(self) -> None:
        if self._message is not None:
            text = "".join(self._spoken)
            self.session.keep("agent", message=self._message, text=text)
            self.session.tokens += len(text) // 4
        self._message, self._spoken = None, []

    def _end_thought(self) -> None:
        if self._thought is not None:
            self.session.keep("thought", message=self._thought, text="".join(self._thoughts))
        self._thought, self._thoughts = None, []

    def finish(self) -> None:
        self._end_thought()
        self._end_message()

    async def run(self) -> None:
        session = self.session
        session.said.append(self.text)
        if session.title is None and self.text.strip():
            session.title = self.text.strip().splitlines()[0][:60]
            session.keep("title", title=session.title)
            await self.update(SessionInfoUpdate(session_update="session_info_update", title=session.title, updated_at=now()))
        await self.update(UsageUpdate(session_update="usage_update", used=session.tokens, size=48000))
        servers = await session.tools()
        parts = [self.text] if self.text.lstrip().startswith("/") else wishes.steps(self.text)
        for number, part in enumerate(parts):
            if number:
                await self.say("\n")
            await self._one(part, servers)

    async def _one(self, text: str, servers: list[toolbox.McpServer]) -> None:
        slash = re.match(r"\s*/(say|notes|look)\b\s*(.*)$", text, re.S)
        if slash:
            name, rest = slash.groups()
            if name == "say":
                await self.say(rest.strip() or "Go back, go back!")
            elif name == "look":
                await self._list(wishes.Wish("list", text, [wishes.resolve(rest.strip() or ".", self.session.cwd)]))
            else:
                await self.say("\n".join(self.session.notes) or "There are no notes.")
            return
        if re.fullmatch(r"\s*/\w+\s*", text):
            await self.say("I do not know that command.")
            return
        if await self._by_tool(text, servers):
            return
        wish = wishes.understand(text, self.session.cwd)
        deed = getattr(self, f"_{wish.kind}")
        if wish.kind in ("write", "append", "replace", "delete", "run") and self.session.mode != "forage":
            await self.say(f"In the mode {self.session.mode} I change nothing. Switch to forage for that.")
        elif wish.kind in ("read", "list") and self.session.mode == "roost":
            await self.say("In the mode roost I only talk.")
        else:
            await deed(wish)

    async def _tool(self, title: str, kind: str, deed: Any, *, raw: Any = None, paths: list[str] | None = None) -> Any:
        """Runs one tool call and reports it; gives None when it failed."""
        self.finish()
        ident = self.session.next_call()
        locations = [ToolCallLocation(path=path) for path in paths or []] or None
        await self.update(start_tool_call(ident, title, kind=kind, status="in_progress", locations=locations, raw_input=raw))
        record: dict[str, Any] = {"call": ident, "title": title, "sort": kind, "paths": paths or [], "raw": raw}
        try:
            content, result, good = await deed()
        except ToolError as exc:
            content, result, good = [tool_content(text_block(str(exc)))], None, False
            self._trouble = str(exc)
        except asyncio.CancelledError:
            self.session.keep("call", **record, status="failed", content=[])
            await self.update(update_tool_call(ident, status="failed"))
            raise
        status = "completed" if good else "failed"
        self.session.keep("call", **record, status=status, content=[one.model_dump(mode="json", by_alias=True, exclude_none=True) for one in content])
        await self.update(update_tool_call(ident, status=status, content=content))
        return result

    async def _read(self, wish: wishes.Wish) -> None:
        paths = wish.paths or [
            wishes.resolve(block["uri"], self.session.cwd)
            for block in self.blocks
            if block.get("type") == "resource_link" and block["uri"].startswith("file://")
        ]
        if not paths:
            await self._talk(wish)
            return
        first, last = line_range(wish.text)
        for path in paths:
            async def deed(path: str = path) -> Any:
                toolbox.guard(self.session.cwd, path)
                text = await asyncio.to_thread(toolbox.read_text, path)
                if first:
                    text = "\n".join(text.split("\n")[first - 1 : last])
                return [tool_content(text_block(text))], text, True

            text = await self._tool(f"Reading {os.path.basename(path)}", "read", deed, raw={"path": path}, paths=[path])
            await self.say(f"I could not read it. {self._trouble}" if text is None else f"{os.path.basename(path)} holds:\n{text}")

    async def _change(self, path: str, make: Any, title: str) -> bool:
        async def deed() -> Any:
            toolbox.guard(self.session.cwd, path)
            old = await asyncio.to_thread(toolbox.read_text, path) if os.path.exists(path) else None
            new = make(old)
            if new is None:
                raise ToolError("There is nothing like that in the file.")
            await asyncio.to_thread(toolbox.write_text, path, new)
            return [tool_diff_content(path, new, old)], True, True

        done = await self._tool(f"{title} {os.path.basename(path)}", "edit", deed, raw={"path": path}, paths=[path])
        return bool(done)

    async def _write(self, wish: wishes.Wish) -> None:
        if not wish.paths:
            await self.say("I need the name of the file.")
            return
        body = wish.body if wish.body is not None else "Go back, go back!\n"
        done = await self._change(wish.paths[0], lambda old: body, "Writing")
        await self.say(f"I wrote {wish.paths[0]}." if done else f"I did not write it. {self._trouble}")

    async def _append(self, wish: wishes.Wish) -> None:
        if not wish.paths:
            await self.say("I need the name of the file.")
            return
        body = wish.body if wish.body is not None else "Go back!"

        def make(old: str | None) -> str:
            return body if not old else old + ("" if old.endswith("\n") else "\n") + body

        done = await self._change(wish.paths[0], make, "Appending to")
        await self.say(f"I added it to {wish.paths[0]}." if done else f"I did not add it. {self._trouble}")

    async def _replace(self, wish: wishes.Wish) -> None:
        old, new = wish.old or "", wish.body or ""
        if not wish.paths:
            await self.say("I need the name of the file.")
            return
        done = await self._change(wish.paths[0], lambda text: text.replace(old, new) if text and old in text else None, "Editing")
        await self.say(f"{wish.paths[0]} is changed." if done else f"I changed nothing. {self._trouble}")

    async def _delete(self, wish: wishes.Wish) -> None:
        if not wish.paths:
            await self.say("I need the name of the file.")
            return
        path = wish.paths[0]

        async def deed() -> Any:
            toolbox.guard(self.session.cwd, path)
            try:
                os.unlink(path)
            except OSError as exc:
                raise ToolError(f"{path}: {exc.strerror}") from exc
            return [tool_content(text_block("deleted"))], True, True

        done = await self._tool(f"Deleting {os.path.basename(path)}", "delete", deed, raw={"path": path}, paths=[path])
        await self.say(f"{path} is gone." if done else f"It is still there. {self._trouble}")

    async def _list(self, wish: wishes.Wish) -> None:
        path = wish.paths[0] if wish.paths else self.session.cwd

        async def deed() -> Any:
            toolbox.guard(self.session.cwd, path)
            names = await asyncio.to_thread(toolbox.list_folder, path)
            return [tool_content(text_block(names))], names, True

        names = await self._tool(f"Looking into {path}", "search", deed, raw={"path": path}, paths=[path])
        await self.say(f"I could not look there. {self._trouble}" if names is None else names)

    async def _run(self, wish: wishes.Wish) -> None:
        if not wish.body:
            await self.say("Which command?")
            return
        command = Command(wish.body, self.session.cwd)

        async def deed() -> Any:
            try:
                code, out = await command.run()
            except OSError as exc:
                raise ToolError(str(exc)) from exc
            return [tool_content(text_block(out or "(no output)"))], (code, out), code == 0

        result = await self._tool(wish.body, "execute", deed, raw={"command": wish.body})
        if result is None:
            await self.say(self._trouble)
        else:
            code, out = result
            await self.say(out if code == 0 and out else f"{out}\nThe command ended with {code}.")

    async def _by_tool(self, text: str, servers: list[toolbox.McpServer]) -> bool:
        bare, low = wishes.bare_of(text), text.lower()
        wanted = bool(re.search(r"\b(?:mcp|tools?)\b", bare))
        verb = wanted or bool(re.search(r"\b(?:call|invoke|use)\b", bare) and not re.search(r"\b(?:run|execute|shell|terminal|command|mode)\b", bare))
        if not servers:
            if wanted and re.search(r"\b(?:mcp|use|call)\b", bare):
                await self.say("No MCP server belongs to this session.")
                return True
            return False

        def named(name: str, where: str) -> bool:
            return bool(re.search(rf"(?<![\w-]){re.escape(name.lower())}(?![\w-])", where))

        near = [server for server in servers if named(server.name, low if verb else bare)]
        verb = verb or bool(near)
        choices = [(server, tool) for server in near or servers for tool in server.tools]
        hits = [(server, tool) for server, tool in choices if (verb or re.search(r"[_-]", tool["name"])) and named(tool["name"], low if verb else bare)]
        hits.sort(key=lambda hit: -len(hit[1]["name"]))
        if not hits and wanted:
            if len(choices) == 1 and not re.search(r"\b(?:list|which|what)\b", bare):
                hits = choices
            else:
                lines = [f"{server.name}: {server.trouble or ', '.join(tool['name'] for tool in server.tools) or 'no tools'}" for server in servers]
                await self.say("\n".join(lines))
                return True
        if not hits:
            return False
        if self.session.mode == "roost":
            await self.say("In the mode roost I only talk.")
            return True
        server, tool = hits[0]
        arguments = toolbox.arguments_for(tool, text)

        async def deed() -> Any:
            reply = await server.call(tool["name"], arguments)
            parts = [one.get("text", f"[{one.get('type')}]") for one in reply.get("content", []) if isinstance(one, dict)]
            out = "\n".join(parts)
            return [tool_content(text_block(out or "(nothing)"))], out, not reply.get("isError")

        out = await self._tool(f"{tool['name']} of {server.name}", "other", deed, raw=arguments)
        await self.say(f"The tool failed. {self._trouble}" if out is None else f"{tool['name']} says: {out}")
        return True

    async def _plan(self, wish: wishes.Wish) -> None:
        hit = re.search(r"\bplan\b\s*(?:for|to|of|about)?\s*(.*?)[.!?]?\s*$", wish.text, re.I | re.S)
        about = (hit.group(1) if hit else "") or "the day"
        tasks = [("Look at the ground", "medium"), (f"Set about {about}", "high"), ("Fly home", "low")]
        self.finish()
        for done in range(len(tasks) + 1):
            entries = []
            for number, (content, priority) in enumerate(tasks):
                status = "completed" if number < done else "in_progress" if number == done else "pending"
                entries.append(plan_entry(content, priority=priority, status=status))
            self.session.keep("plan", entries=[entry.model_dump(mode="json", by_alias=True, exclude_none=True) for entry in entries])
            await self.update(update_plan(entries))
            await asyncio.sleep(0.1)
        await self.say(f"That was the plan for {about}: {len(tasks)} steps.")

    async def _story(self, wish: wishes.Wish) -> None:
        hit = re.search(r"\b(\d{1,4})\s+(?:chunks?|sentences?|lines?|parts?|pieces?|words?)\b", wish.text, re.I)
        up_to = re.search(r"\bcount (?:up )?to (\d{1,4})", wish.text, re.I)
        count = int((up_to or hit).group(1)) if up_to or hit else 100
        for number in range(max(1, min(count, 1000))):
            await self.say(f"{number + 1} " if up_to else SENTENCES[number % len(SENTENCES)])
            await asyncio.sleep(0.045)

    async def _think(self, wish: wishes.Wish) -> None:
        for thought in ("What is asked of me here? ", "I turn it over once. ", "And once more. "):
            await self.muse(thought)
            await asyncio.sleep(0.05)
        await self.say("I have slept on it, and my answer is yes.")

    async def _remember(self, wish: wishes.Wish) -> None:
        note = re.sub(r"^.*?\b(?:remember|memori[sz]e|keep in mind|note that)\b\s*(?:that\s+)?", "", wish.text, count=1, flags=re.I | re.S).strip()
        self.session.notes.append(note)
        self.session.keep("note", text=note)
        await self.say(f"Noted: {note}")

    async def _recall(self, wish: wishes.Wish) -> None:
        known = self.session.notes or self.session.said[:-1][-6:]
        await self.say("I know this from you: " + "; ".join(known) if known else "You have told me nothing so far.")

    async def _ask(self, wish: wishes.Wish) -> None:
        if SECRETS.search(wish.text):
            await self.say("I do not want to know any secrets.")
            return
        about = re.sub(r"^.*?\b(?:ask(?:ing)? (?:me|the user)|ask a question|question me|let me choose|elicit\w*)\b\s*(?:for|about|which|what)?\s*", "", wish.text, count=1, flags=re.I | re.S)
        await self.say(f"Here is my question: {about.rstrip('.?! ') or 'how are you'}? Just write your answer.")

    async def _mode(self, wish: wishes.Wish) -> None:
        mode = next((name for name in ("forage", "perch", "roost") if name in wish.text.lower()), None)
        if mode is None:
            others = ["forage", "perch", "roost"]
            mode = others[(others.index(self.session.mode) + 1) % 3]
        self.session.set_mode(mode)
        await self.update(CurrentModeUpdate(session_update="current_mode_update", current_mode_id=mode))
        await self.say(f"I am in the mode {mode} now.")

    async def _say(self, wish: wishes.Wish) -> None:
        await self.say(wish.body or "Good morning! The heather is wet today.")

    async def _talk(self, wish: wishes.Wish) -> None:
        extras = []
        for block in self.blocks:
            if block.get("type") == "resource_link":
                extras.append(f"a link to {block['name']} ({block['uri']})")
            elif block.get("type") == "resource":
                inner = block["resource"]
                what = inner.get("text")
                if what is None:
                    what = f"{len(base64.b64decode(inner.get('blob', '')))} bytes"
                extras.append(f"{inner['uri']}: {what}")
        if extras:
            await self.say("You gave me " + " and ".join(extras))
        elif self.text.strip():
            await self.say(f"You wrote: {self.text.strip()[:300]}\n")
            await self.say("I can read and write files, look around, run commands and tell stories.")
        else:
            await self.say("Not a word? Then I listen to the wind.")


def line_range(text: str) -> tuple[int, int | None]:
    hit = re.search(r"\blines?\s+(\d+)\s*(?:-|to|through|and)\s*(\d+)", text, re.I)
    if hit:
        return max(1, int(hit.group(1))), int(hit.group(2))
    hit = re.search(r"\b(?:first|top)\s+(\d+)\s+lines?", text, re.I)
    if hit:
        return 1, int(hit.group(1))
    hit = re.search(r"\bline\s+(\d+)", text, re.I)
    return (max(1, int(hit.group(1))), max(1, int(hit.group(1)))) if hit else (0, None)
