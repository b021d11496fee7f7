"""One turn: from the person's words to work and answers."""

import asyncio
import difflib
import os
import re
import signal
import uuid

import words
from servers import ServerTrouble
from store import MODES
from wire import RpcError, note

PAUSE = 0.03
LONGEST = 20000
SECRET = re.compile(r"\b(?:password|passphrase|passcode|secret|token|api[ -]?key|credentials?|pin)\b", re.I)
CHOICES = [
    {"optionId": "yes-this-time", "name": "Yes, this time", "kind": "allow_once"},
    {"optionId": "yes-from-now-on", "name": "Yes, from now on", "kind": "allow_always"},
    {"optionId": "no-this-time", "name": "No", "kind": "reject_once"},
    {"optionId": "no-never", "name": "No, never", "kind": "reject_always"},
]
SENTENCES = [
    "A small grey bird stood at the edge of the mud and counted the waves. ",
    "The tide had its own opinion about the counting and started over each time. ",
    "Further out a lighthouse blinked, once for the ships and once for nobody. ",
    "The bird took eleven quick steps, stopped, and thought about the twelfth. ",
    "Behind it the wind was rearranging the grass in an order only wind enjoys. ",
    "A child on the dyke waved with both arms, as if landing an aeroplane. ",
    "Nobody landed, but the bird felt invited and walked a little nearer. ",
    "By evening the mud was silver and every footprint held a piece of sky. ",
]


class Trouble(Exception):
    """Work that did not succeed, with the reason for the person."""


class Declined(Trouble):
    """Work the person did not allow."""


def text_block(text):
    return {"type": "text", "text": text}


def as_content(text):
    return {"type": "content", "content": text_block(text)}


class Turn:
    """The answer to one session/prompt."""

    def __init__(self, agent, session, request_id, blocks):
        self.agent = agent
        self.session = session
        self.request_id = request_id
        self.blocks = blocks
        self.cancelled = False
        self.answered = False
        self.recorded = False
        self.task = None

    def update(self, kind, /, **fields):
        fields = dict(sessionUpdate=kind, **fields)
        self.agent.update(self.session, fields)

    def record(self, entry):
        self.session.entries.append(entry)
        return entry

    def record_prompt(self):
        if not self.recorded:
            self.recorded = True
            self.record({"is": "user", "messageId": str(uuid.uuid4()), "blocks": self.blocks})

    # -- speaking ----------------------------------------------------------

    async def speak(self, text, kind="agent", pause=0.0, pieces=None):
        """Stream one message in pieces; what was sent is what is kept."""
        entry = self.record({"is": kind, "messageId": str(uuid.uuid4()), "text": ""})
        for piece in pieces or re.findall(r"\s*\S+\s*(?:\S+\s*){0,3}|\s+", text) or [text]:
            entry["text"] += piece
            self.update("agent_thought_chunk" if kind == "thought" else "agent_message_chunk",
                        content=text_block(piece), messageId=entry["messageId"])
            await asyncio.sleep(pause)

    # -- tools -------------------------------------------------------------

    async def tool(self, name, kind, title, work, raw=None, path=None, ask=None, preview=None):
        """Report one tool call from beginning to end."""
        call = {"toolCallId": "call-" + uuid.uuid4().hex[:12], "title": title, "name": name,
                "kind": kind, "status": "pending"}
        if raw is not None:
            call["rawInput"] = raw
        if path is not None:
            call["locations"] = [{"path": path}]
        self.update("tool_call", **call)
        entry = self.record({"is": "tool", "call": dict(call)})

        def change(**fields):
            entry["call"].update(fields)
            self.update("tool_call_update", toolCallId=call["toolCallId"], **fields)

        try:
            if ask:
                await self.permission(call, ask, preview)
            change(status="in_progress")
            content = await work(change)
        except asyncio.CancelledError:
            change(status="failed", content=[as_content("Stopped.")])
            raise
        except (Trouble, RpcError, OSError, ValueError, ServerTrouble) as error:
            reason = error.message if isinstance(error, RpcError) else \
                error.strerror or str(error) if isinstance(error, OSError) else str(error)
            shown = getattr(error, "content", None) or [as_content(reason)]
            change(status="failed", content=shown)
            raise error if isinstance(error, Trouble) else Trouble(reason)
        change(status="completed", content=content)

    async def permission(self, call, subject, preview):
        session = self.session
        if session.mode == "peek":
            raise Declined("peek mode changes nothing")
        if session.mode == "trust" or session.grants.get(subject) == "allow_always":
            return
        if session.grants.get(subject) == "reject_always":
            raise Declined("you said never")
        details = {key: call[key] for key in ("toolCallId", "title", "kind", "rawInput", "locations") if key in call}
        details["status"] = "pending"
        if preview:
            details["content"] = preview
        answer = await self.agent.wire.request("session/request_permission", {
            "sessionId": session.id, "toolCall": details, "options": CHOICES})
        outcome = answer.get("outcome") if isinstance(answer, dict) else None
        outcome = outcome if isinstance(outcome, dict) else {}
        if outcome.get("outcome") == "cancelled":
            self.cancelled = True
            raise asyncio.CancelledError
        kind = next((choice["kind"] for choice in CHOICES if choice["optionId"] == outcome.get("optionId")), None)
        if outcome.get("outcome") != "selected" or kind is None:
            raise Declined("there was no clear answer")
        if kind.endswith("always"):
            session.grants[subject] = kind
        if kind.startswith("reject"):
            raise Declined("you said no")

    def resolve(self, path, what="read"):
        """An absolute path inside the session's folders."""
        session = self.session
        if path == "":
            if not session.last_path:
                raise Trouble("I do not know which file you mean")
            path = session.last_path
        full = os.path.normpath(os.path.join(session.cwd, path))
        real = os.path.realpath(full)
        for root in [session.cwd] + session.roots:
            base = os.path.realpath(root)
            if real == base or real.startswith(base.rstrip("/") + "/"):
                return full
        raise Trouble("%s lies outside the folders of this session, so I do not %s it" % (full, what))

    # -- file work ---------------------------------------------------------

    @staticmethod
    def old_text(path):
        try:
            with open(path, encoding="utf-8", errors="replace", newline="") as file:
                return file.read()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise Trouble("%s: %s" % (path, error.strerror))

    async def do_read(self, step):
        path = self.resolve(step["path"])
        if os.path.isdir(path):
            await self.do_list({"path": path})
            return
        seen = []

        async def work(change):
            with open(path, encoding="utf-8", errors="replace", newline="") as file:
                seen.append(file.read(LONGEST))
            return [as_content(seen[0])]

        await self.tool("read_file", "read", "Read " + os.path.basename(path), work, {"path": path}, path)
        self.session.last_path = path
        if seen[0]:
            await self.speak("%s says:\n\n%s" % (os.path.basename(path), seen[0]))
        else:
            await self.speak("%s is empty." % os.path.basename(path))

    async def put(self, path, make_text, title):
        """Write a file, asking first and showing the difference."""
        new = make_text(self.old_text(path))

        def difference(old, text):
            item = {"type": "diff", "path": path, "newText": text}
            if old is not None:
                item["oldText"] = old
            return [item]

        async def work(change):
            old = self.old_text(path)
            text = make_text(old)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            if self.agent.can_write:
                await self.agent.wire.request("fs/write_text_file", {
                    "sessionId": self.session.id, "path": path, "content": text})
            else:
                with open(path, "w", encoding="utf-8", errors="replace", newline="") as file:
                    file.write(text)
            return difference(old, text)

        await self.tool("write_file", "edit", title, work, {"path": path}, path, "write",
                        difference(self.old_text(path), new))
        self.session.last_path = path

    async def do_write(self, step):
        path = self.resolve(step["path"], "write")
        await self.put(path, lambda old: step["text"], "Write " + os.path.basename(path))
        await self.speak("I wrote %s." % path)

    async def do_append(self, step):
        path = self.resolve(step["path"], "write")

        def longer(old):
            if not old:
                return step["text"] + "\n"
            return old + ("" if old.endswith("\n") else "\n") + step["text"] + "\n"

        await self.put(path, longer, "Append to " + os.path.basename(path))
        await self.speak("I added the text to %s." % path)

    async def do_edit(self, step):
        path = self.resolve(step["path"], "write")
        before = self.old_text(path)
        if before is None:
            raise Trouble("there is no file %s" % path)
        if step["old"] not in before:
            raise Trouble("%s does not contain “%s”" % (path, step["old"]))
        await self.put(path, lambda old: (old or "").replace(step["old"], step["new"]),
                       "Edit " + os.path.basename(path))
        after = before.replace(step["old"], step["new"])
        lines = sum(1 for line in difflib.ndiff(before.splitlines(), after.splitlines()) if line.startswith("+ "))
        await self.speak("I edited %s, %d line(s) are different." % (path, lines))

    async def do_delete(self, step):
        path = self.resolve(step["path"], "delete")

        async def work(change):
            os.unlink(path)
            return [as_content("Deleted %s" % path)]

        await self.tool("delete_file", "delete", "Delete " + os.path.basename(path), work,
                        {"path": path}, path, "delete")
        await self.speak("I deleted %s." % path)

    async def do_list(self, step):
        path = self.resolve(step["path"])
        names = []

        async def work(change):
            for item in sorted(os.scandir(path), key=lambda item: item.name):
                names.append(item.name + ("/" if item.is_dir() else ""))
            return [as_content("\n".join(names) or "(nothing)")]

        await self.tool("look_around", "search", "Look in %s" % path, work, {"path": path}, path)
        await self.speak("In %s I see:\n%s" % (path, "\n".join("- " + name for name in names)) if names
                         else "%s is empty." % path)

    # -- other work --------------------------------------------------------

    async def do_run(self, step):
        outcome = []

        async def work(change):
            process = await asyncio.create_subprocess_exec(
                "/bin/sh", "-c", step["command"], cwd=self.session.cwd, start_new_session=True,
                stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT)
            output = bytearray()

            def shown():
                return bytes(output[-LONGEST:]).decode("utf-8", "replace")

            try:
                while True:
                    try:
                        data = await asyncio.wait_for(process.stdout.read(1 << 16), 0.3)
                    except asyncio.TimeoutError:
                        if process.returncode is not None:
                            break
                        continue
                    if not data:
                        break
                    output += data
                    change(content=[as_content(shown())])
                while process.returncode is None:
                    await asyncio.sleep(0.01)
                code = process.returncode
            finally:
                try:
                    os.killpg(process.pid, signal.SIGKILL)
                except (ProcessLookupError, PermissionError):
                    pass
            outcome.append((code, shown()))
            content = [as_content(shown() or "(no output)")]
            if code != 0:
                error = Trouble("the command ended with exit code %d%s" % (
                    code, ":\n" + shown() if output else ""))
                error.content = content + [as_content("exit code %d" % code)]
                raise error
            return content

        await self.tool("run_command", "execute", "Run `%s`" % step["command"], work,
                        {"command": step["command"]}, None, "run")
        text = outcome[0][1]
        await self.speak("The command printed:\n\n%s" % text if text else "The command ended well and printed nothing.")

    async def do_tool(self, step):
        tool, arguments = step["tool"], step["arguments"]
        said = []

        async def work(change):
            text, worked = await tool["server"].call(tool["name"], arguments)
            if not worked:
                raise Trouble(text or "the tool failed")
            said.append(text)
            return [as_content(text or "(nothing)")]

        await self.tool(tool["name"], "other", "%s (%s)" % (tool["name"], tool["server"].name), work, arguments)
        await self.speak("%s answered:\n\n%s" % (tool["name"], said[0] or "nothing"))

    async def do_tools(self, step):
        lines = ["- %s from %s" % (tool["name"], tool["server"].name) for tool in self.session.tools()]
        lines += ["- %s did not start: %s" % (server.name, server.trouble)
                  for server in self.session.servers if server.trouble]
        await self.speak("My MCP tools:\n" + "\n".join(lines) if lines else "This session has no MCP tools.")

    async def do_plan(self, step):
        entries = [{"content": content, "priority": priority, "status": "pending"} for content, priority in (
            ("Look at what is there", "high"), ("Do the work in small steps", "medium"),
            ("Look over the result", "low"))]
        kept = self.record({"is": "plan", "entries": [dict(entry) for entry in entries]})

        def show():
            kept["entries"] = [dict(entry) for entry in entries]
            self.update("plan", entries=kept["entries"])

        show()
        for entry in entries:
            entry["status"] = "in_progress"
            show()
            await asyncio.sleep(0.15)
            entry["status"] = "completed"
            show()
        await self.speak("The plan had three steps and all of them are done.")

    async def do_think(self, step):
        await self.speak("Let me turn this over once. What is asked is: %s" % step["text"], "thought", 0.01)
        await self.speak("I thought about it, and the plainest way seems the best one.")

    async def do_story(self, step):
        long = re.search(r"\b(?:very|really|extremely)\s+long|\blongest\b", step["text"], re.I)
        pieces = []
        for number in range(40 if long else 20):
            sentence = SENTENCES[number % len(SENTENCES)]
            middle = sentence.index(" ", len(sentence) // 3) + 1
            later = sentence.index(" ", 2 * len(sentence) // 3) + 1
            pieces += [sentence[:middle], sentence[middle:later], sentence[later:]]
        await self.speak("", pause=PAUSE * 2, pieces=pieces)

    async def do_wait(self, step):
        await self.speak("I wait. ")
        await asyncio.sleep(step["seconds"])
        await self.speak("The wait is over.")

    async def do_say(self, step):
        await self.speak(step["text"])

    async def do_remember(self, step):
        await self.speak("I will remember: %s" % step["text"])

    def earlier(self):
        said = [" ".join(block.get("text", "") for block in entry["blocks"])
                for entry in self.session.entries if entry["is"] == "user"]
        return [text.strip() for text in said[:-1] if text.strip()]

    async def do_recall(self, step):
        said = self.earlier()
        kept = [text for text in said if re.search(r"\b(?:remember|my \w+ is|jot)\b", text, re.I)]
        chosen = kept or said[-3:]
        await self.speak("You told me: %s" % "; ".join(chosen) if chosen else "You have not told me anything yet.")

    async def do_command(self, step):
        if step["name"] == "where":
            await self.speak("I work in %s" % ", ".join([self.session.cwd] + self.session.roots))
        elif step["name"] == "jot":
            await self.speak("Jotted down: %s" % (step["text"] or "nothing"))
        else:
            said = self.earlier()
            await self.speak("So far you said: %s" % "; ".join(said) if said else "We have only just begun.")

    async def do_mode(self, step):
        self.agent.set_mode(self.session, step["mode"], announce=("mode", "options"))
        name = next(mode["name"] for mode in MODES if mode["id"] == step["mode"])
        await self.speak("The mode is now %s." % name)

    async def do_ask(self, step):
        if SECRET.search(step["text"]):
            await self.speak("I do not ask for secrets here. Please keep them to yourself.")
            return
        question = re.sub(r"^.*?\b(?:ask (?:me|the user|us)|elicit\w*)\b\s*(?:(?:for|about|a question)\b)?\s*[:,]?\s*",
                          "", step["text"], flags=re.I | re.S).strip(" .\"'") or "What would you like"
        question = question.rstrip("?") + "?"
        picks = re.search(r"(?:between|from|among|one of)\s+(.+)$", question.rstrip("?"), re.I)
        names = [name.strip(" .\"'") for name in re.split(r",|\bor\b|\band\b", picks.group(1))] if picks else []
        names = list(dict.fromkeys(name for name in names if name))
        if not self.agent.can_ask:
            self.session.question = question
            await self.speak("%s Please answer in your next message." % question)
            return
        field = {"type": "string", "title": "Answer"}
        if len(names) > 1:
            field["enum"] = names
        else:
            field.update(minLength=1, maxLength=500)
        try:
            answer = await self.agent.wire.request("elicitation/create", {
                "sessionId": self.session.id, "mode": "form", "message": question,
                "requestedSchema": {"type": "object", "properties": {"answer": field}, "required": ["answer"]},
            }, withdraw=True)
        except RpcError as error:
            await self.speak("I could not ask you: %s" % error.message)
            return
        answer = answer if isinstance(answer, dict) else {}
        action = answer.get("action")
        if action == "accept":
            content = answer.get("content")
            value = content.get("answer") if isinstance(content, dict) else None
            if not isinstance(value, str) or not 1 <= len(value) <= 500 or (len(names) > 1 and value not in names):
                await self.speak("That answer does not fit the question, so I leave it aside.")
            else:
                await self.speak("You answered: %s" % value)
        elif action == "decline":
            await self.speak("You would rather not answer. That is fine.")
        elif action == "cancel":
            await self.speak("You closed the question. I go on without an answer.")
        else:
            await self.speak("I did not understand what became of my question.")

    # -- the whole turn ----------------------------------------------------

    async def perform(self):
        session = self.session
        self.record_prompt()
        text = "\n".join(block["text"] for block in self.blocks if block["type"] == "text").strip()
        if session.title is None and text:
            session.title = re.sub(r"\s+", " ", text)[:60]
            self.update("session_info_update", title=session.title)
        if session.question:
            question, session.question = session.question, None
            await self.speak("To “%s” you answered: %s" % (question, text))
            return
        for block in self.blocks:
            if block["type"] == "resource_link" and block["uri"].startswith("file://"):
                session.last_path = words.from_uri(block["uri"])
        steps = words.understand(text, session.tools())
        if not steps or any(step.get("path") == "" for step in steps[:1]) and not session.last_path:
            await self.look_at_blocks(text)
            return
        if session.voice == "plain" and len(steps) > 1:
            await self.speak("I take this in %d steps." % len(steps))
        for step in steps:
            try:
                await getattr(self, "do_" + step["do"])(step)
            except Trouble as error:
                await self.speak("That did not work: %s." % str(error).rstrip("."))
                break

    async def look_at_blocks(self, text):
        """Answer what came along with the words, or just chat."""
        parts = []
        for block in self.blocks:
            if block["type"] == "resource_link":
                path = words.from_uri(block["uri"])
                if path.startswith("/") and block["uri"].startswith("file://") and os.path.isfile(path):
                    try:
                        await self.do_read({"path": path})
                        continue
                    except Trouble as error:
                        parts.append("%s: %s." % (block["name"], error))
                        continue
                parts.append("You point at %s (%s)." % (block["name"], block["uri"]))
            elif block["type"] == "resource":
                resource = block["resource"]
                parts.append("%s says: %s" % (resource["uri"], resource["text"][:LONGEST]) if "text" in resource
                             else "%s holds some bytes." % resource["uri"])
            elif block["type"] == "image":
                parts.append("I see a picture of type %s." % block["mimeType"])
        if not parts and not any(block["type"] == "resource_link" for block in self.blocks):
            parts.append("I heard you: %s" % text[:400] if text else "You said nothing, and so do I.")
        for part in parts:
            await self.speak(part)

    async def run(self):
        """Wait for one's place in the session, work, answer."""
        session = self.session
        async with session.lock:
            problem = None
            reason = "end_turn"
            try:
                await self.perform()
            except asyncio.CancelledError:
                self.cancelled = True
            except Exception as error:
                note("turn failed: %r" % error)
                problem = RpcError(-32603, "Something went wrong in dunlin.")
            if self.cancelled:
                problem, reason = None, "cancelled"
            self.finish(reason, problem)

    def finish(self, reason, problem=None):
        if self.answered:
            return
        self.answered = True
        session = self.session
        self.record_prompt()
        self.agent.turn_ended(session)
        if problem:
            self.agent.wire.refuse(self.request_id, problem)
        else:
            self.agent.wire.answer(self.request_id, {"stopReason": reason})
        if self in session.turns:
            session.turns.remove(self)

    def start(self):
        self.task = asyncio.create_task(self.run())
        self.task.add_done_callback(lambda task: self.finish("cancelled"))

    def cancel(self):
        if not self.cancelled:
            self.cancelled = True
            self.task.cancel()
