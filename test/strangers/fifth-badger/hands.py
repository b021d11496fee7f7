"""One turn at the bench: streams words in tiny chunks, and does the work with the client's hands or, failing those, its own."""
import base64
import binascii
import contextlib
import os
import re
import secrets
import signal
import subprocess
import threading
import urllib.parse

import mcp
from store import FAULT, PACES, now_text
from wire import Cancelled, RpcError, log
from wishes import Mind, tool_arguments

OPTIONS = [{"optionId": "bolt-on", "name": "Yes, and the same again without asking", "kind": "allow_always"},
           {"optionId": "go-ahead", "name": "Go ahead", "kind": "allow_once"},
           {"optionId": "hands-off", "name": "Hands off", "kind": "reject_once"},
           {"optionId": "never-that", "name": "Never do that here", "kind": "reject_always"}]
COMMANDS = [{"name": "recall", "description": "Say what has been told so far"},
            {"name": "tools", "description": "List the tools of the MCP servers"},
            {"name": "run", "description": "Run a shell command", "input": {"hint": "the command line"}},
            {"name": "ls", "description": "List a directory", "input": {"hint": "a directory, or nothing"}}]


class Failed(Exception):
    """A piece of work went wrong in an ordinary way; the words are for the person."""


def text_content(text):
    return {"type": "content", "content": {"type": "text", "text": text}}


class Job:
    """One tool call, as the client sees it."""

    def __init__(self, turn, name, title, kind, raw, locations=None):
        self.turn, self.id, self.open = turn, "job-" + secrets.token_hex(6), True
        turn.close_message()
        self.call = {"toolCallId": self.id, "title": title, "name": name, "kind": kind, "status": "pending", "rawInput": raw}
        if locations:
            self.call["locations"] = locations
        turn.jobs.append(self)
        turn.update({"sessionUpdate": "tool_call", **self.call})

    def progress(self, **fields):
        self.call.update(fields)
        self.turn.update({"sessionUpdate": "tool_call_update", "toolCallId": self.id, **fields})

    def start(self):
        self.turn.check()
        self.progress(status="in_progress")

    def finish(self, ok, content, saved=None, **fields):
        if self.open:
            self.open = False
            self.progress(status="completed" if ok else "failed", content=content, **fields)
            # a terminal does not outlive its turn, so the diary keeps its text instead
            self.turn.session.note({"kind": "tool", "call": {**self.call, "content": saved if saved is not None else content}})


class Turn:
    def __init__(self, agent, session, rid, blocks):
        self.agent, self.wire, self.session, self.rid, self.blocks = agent, agent.wire, session, rid, blocks
        self.stop, self.stop_lock, self.stop_acts, self.how = threading.Event(), threading.Lock(), [], None
        self.jobs, self.message, self.spoke, self.chunks, self.bg = [], None, False, 0, None
        self.caps = agent.caps

    # --- cancelling ---------------------------------------------------------------------------------------------
    def cancel(self, how):
        with self.stop_lock:
            if self.how != "cancel":
                self.how = how
            self.stop.set()
            acts = list(self.stop_acts)
        for act in acts:
            act()

    def check(self):
        if self.stop.is_set():
            raise Cancelled()

    def nap(self, seconds):
        if self.stop.wait(seconds):
            raise Cancelled()

    @contextlib.contextmanager
    def guard(self, act):
        """While inside, a cancellation also runs act()."""
        with self.stop_lock:
            self.stop_acts.append(act)
            already = self.stop.is_set()
        if already:
            act()
        try:
            yield
        finally:
            with self.stop_lock:
                self.stop_acts.remove(act)

    def ask(self, method, params, on_cancel=None):
        """Ask the client something and wait; a cancellation ends the waiting."""
        self.check()
        waiter = self.wire.ask(method, {"sessionId": self.session.id, **params})
        with self.guard(waiter.poke):
            if not waiter.wait():
                if on_cancel:
                    on_cancel(waiter)
                raise Cancelled()
        return waiter.value()

    def ask_quietly(self, method, params):
        """For tidying up: wait a little, whatever comes back."""
        self.wire.ask(method, {"sessionId": self.session.id, **params}).wait(1.5, heed_poke=False)

    # --- speaking -----------------------------------------------------------------------------------------------
    def update(self, update):
        self.wire.notify("session/update", {"sessionId": self.session.id, "update": update})

    def close_message(self):
        if self.message:
            kind, mid, text = self.message
            self.message = None
            self.session.note({"kind": kind, "id": mid, "text": text})

    def chunk(self, text, kind="agent_message_chunk"):
        self.check()
        if not self.message or self.message[0] != kind:
            self.close_message()
            self.message = [kind, "note-" + secrets.token_hex(8), ""]
        self.message[2] += text
        self.spoke = self.spoke or kind == "agent_message_chunk"
        self.chunks += 1
        self.update({"sessionUpdate": kind, "content": {"type": "text", "text": text}, "messageId": self.message[1]})
        if self.chunks == 7:              # an odd moment for figures, but a lawful one
            self.update({"sessionUpdate": "usage_update", "used": 40 * len(self.session.history) + 40, "size": 64000})

    def say(self, text, kind="agent_message_chunk", pause=None):
        if not text:
            return
        if self.message and self.message[0] == kind and self.message[2] and not self.message[2].endswith("\n"):
            text = "\n" + text
        size = max(5, len(text) // 300)
        if pause is None:
            pause = PACES[self.session.config["pace"]]
        for i in range(0, len(text), size):
            self.chunk(text[i:i + size], kind)
            self.nap(pause)

    def aside(self, text):
        """Words that a taciturn badger leaves out."""
        if self.session.config["chatter"]:
            self.say(text)

    # --- the turn -----------------------------------------------------------------------------------------------
    def run(self):
        s, reason = self.session, "end_turn"
        try:
            s.note({"kind": "user", "id": "ask-" + secrets.token_hex(8), "blocks": self.blocks})
            if not s.commands_told:
                s.commands_told = True
                self.update({"sessionUpdate": "available_commands_update", "availableCommands": COMMANDS})
            self.work()
            if not self.spoke:
                self.say("Done.")
        except Cancelled:
            reason = "cancelled"
        except Exception as e:            # a slip of ours must not leave the client without an answer
            log("turn broke:", repr(e))
            with contextlib.suppress(Cancelled):
                self.say("Something slipped in my workshop, and I could not finish that.")
        for job in self.jobs:
            job.finish(False, [text_content("Stopped before it was done.")])
        self.close_message()
        first = s.title is None
        if first:
            words = " ".join(" ".join(b["text"] for b in self.blocks if b["type"] == "text").split())
            s.title = (words[:48] or "A prompt without words").strip()
        s.updated = now_text()
        s.save()
        with s.lock:
            if self.stop.is_set():
                reason = "cancelled"
            self.update({"sessionUpdate": "session_info_update", **({"title": s.title} if first else {}), "updatedAt": s.updated})
            s.turn = None
            if reason == "cancelled" and self.how == "request":
                self.wire.error(self.rid, -32800, "The request was cancelled.")
            else:
                self.wire.result(self.rid, {"stopReason": reason})

    def work(self):
        s = self.session
        text = "\n".join(b["text"] for b in self.blocks if b["type"] == "text").strip()
        things = [b for b in self.blocks if b["type"] != "text"]
        mind = Mind(text, bool(s.servers), self.tool_names, [x["name"] for x in s.servers], bool(things))
        wishes = mind.wishes() if text else []
        if things and not any(w["do"] == "read_link" for w in wishes):
            self.say(self.describe(things))
            wishes = [w for w in wishes if w["do"] not in ("describe", "chat")]
        elif not wishes:
            self.say("You handed me nothing. What shall we build?" if not text else "I am listening.")
        if wishes and wishes[0]["do"] == "plan":
            self.plan(wishes[0], wishes[1:])
        else:
            for wish in wishes:
                self.grant(wish)

    def grant(self, wish):
        self.check()
        try:
            getattr(self, "do_" + wish["do"])(wish)
        except Failed as e:
            self.say(str(e))

    def plan(self, wish, rest):
        if rest:
            names = {"say": "Say the words", "read": "Read", "write": "Write", "append": "Append to", "edit": "Change", "delete": "Delete", "run": "Run",
                     "list": "Look at", "think": "Think about", "mcp": "Call the tool"}
            steps = [f"{names.get(w['do'], w['do'])} {w.get('path') or w.get('command') or w.get('tool') or w.get('about') or ''}".strip() for w in rest]
        else:
            about = f" for: {wish['about']}" if wish["about"] else ""
            stock = ["Measure what is there" + about, "Cut it to size" + about, "Fit the pieces together", "Sand the edges", "Try it out", "Oil the hinges", "Sweep the floor"]
            n = max(1, min(wish["steps"], 40))
            steps = wish["items"] if len(wish["items"]) > 1 else [stock[i] if i < len(stock) else f"Round {i + 1} of polishing" for i in range(n)]
        states, last = ["pending"] * len(steps), len(steps) - 1

        def show():
            self.update({"sessionUpdate": "plan", "entries": [
                {"content": c, "priority": "high" if i == 0 else "low" if i == last else "medium", "status": st} for i, (c, st) in enumerate(zip(steps, states))]})
        self.check()
        self.close_message()
        show()
        try:
            for i, step in enumerate(steps):
                states[i] = "in_progress"
                show()
                if rest:
                    self.grant(rest[i])
                else:
                    self.nap(0.3)
                    self.say(f"{i + 1}. {step}: done.")
                self.check()
                states[i] = "completed"
                show()
        finally:
            self.close_message()
            self.session.note({"kind": "plan", "entries": [{"content": c, "priority": "medium", "status": st} for c, st in zip(steps, states)]})
        self.aside("The plan is worked through.")

    # --- words --------------------------------------------------------------------------------------------------
    def do_say(self, w):
        self.say(w["text"], pause=0.15 if w["slow"] else None)

    def do_think(self, w):
        about = f" about {w['about']}" if w["about"] else ""
        self.say(f"Let me turn this over in my paws{about}. What is asked, what is at hand, and what could split? Good; I see the grain now.", "agent_thought_chunk")
        self.aside("I have thought it over.")

    def do_count(self, w):
        step = 1 if w["end"] >= w["first"] else -1
        numbers = range(w["first"], w["end"] + step, step)[:100000]
        pause = min(0.4 if w["slow"] else 0.1, 30 / max(1, len(numbers)))
        lead = "\n" if self.message and self.message[0] == "agent_message_chunk" else ""
        for n in numbers:
            self.chunk(f"{lead}{n}" if n == w["first"] else f", {n}")
            self.nap(pause)

    def do_talk(self, w):
        words = ("Once a badger kept a bench at the edge of the wood and every evening he planed one more board for a boat that nobody had ordered while the owls "
                 "asked him what it was for and he said that a good board needs no reason").split()
        for i in range(max(1, int(w["seconds"] / 0.15))):
            self.chunk(words[i % len(words)] + (".\n" if i % len(words) == len(words) - 1 else " "))
            self.nap(0.15)
        self.chunk("The end.")

    def do_keep(self, w):
        self.say(f"Carved into the bench: {w['fact']}.")

    def do_recall(self, w):
        told = [" ".join(b["text"] for b in e["blocks"] if b["type"] == "text").strip() for e in self.session.history if e["kind"] == "user"][:-1]
        told = [x for x in told if x]
        if not told:
            return self.say("Nothing yet: these are the first words you have given me.")
        self.say("Earlier you told me:\n" + "\n".join(f"{i + 1}. {x[:400]}" for i, x in enumerate(told[-40:])))

    def do_chat(self, w):
        s, text = self.session, w["text"]
        if s.question:
            question, s.question = s.question, None
            return self.say(f"Thank you. To \"{question}\" I note: {text}")
        if re.match(r"(?:hi|hello|hey|good (?:morning|day|evening))\b", text, re.I):
            return self.say("Good day! The bench is clear; what shall I make?")
        if re.search(r"\bwhat (?:can|do) you do\b|\bhelp\b|\bwho are you\b", text, re.I):
            return self.say("I am a workshop hand: I read, write, change and delete files, run commands, call MCP tools, plan, count, talk and remember.")
        if re.search(r"https?://", text):
            return self.say("I see the address, but I do not walk the web; hand me a file or a command instead.")
        if re.search(r"\bthank", text, re.I):
            return self.say("You are welcome.")
        self.say("I am a simple workshop hand and that is beyond my tools, but I am glad to read, write, run or count something for you.")

    def do_pace(self, w):
        self.session.config["pace"] = w["value"]
        self.session.save()
        self.update({"sessionUpdate": "config_option_update", "configOptions": self.agent.config_options(self.session)})
        self.say(f"My pace is {w['value']} now.")

    def do_ask(self, w):
        question = re.sub(r"\b[a-z]+://\S+", "(a link)", w["question"])
        if re.search(r"pass ?(?:word|phrase|code)|secret|token|api.?key|credential|\bpin\b|credit card", question, re.I):
            return self.say("That sounds like something secret, and I do not ask for secrets in a form or a chat.")
        form = self.caps.get("elicitation")
        if not (isinstance(form, dict) and isinstance(form.get("form"), dict)):
            self.session.question = question
            return self.say(question)
        self.close_message()
        field = {"type": "string", "title": "Your answer"}
        field.update({"enum": w["choices"]} if w["choices"] else {"minLength": 1})
        try:
            answer = self.ask("elicitation/create", {"mode": "form", "message": question, "requestedSchema": {
                "type": "object", "properties": {"answer": field}, "required": ["answer"]}},
                lambda waiter: self.wire.notify("$/cancel_request", {"requestId": waiter.number}))
        except RpcError as e:
            return self.say(f"My question did not get through ({e.message}), so I go on without an answer.")
        action = answer.get("action") if isinstance(answer, dict) else None
        if action == "accept":
            content = answer.get("content")
            value = content.get("answer") if isinstance(content, dict) else None
            if not isinstance(value, str) or not value or (w["choices"] and value not in w["choices"]):
                return self.say("That answer does not fit my question, so I leave it unused.")
            self.say(f"You answered: {value}")
        elif action == "decline":
            self.say("You declined to answer; that is fine.")
        elif action == "cancel":
            self.say("You put the question away without answering; I leave it there.")
        else:
            self.say("I do not understand that kind of reply, so I take it as no answer.")

    # --- things attached ----------------------------------------------------------------------------------------
    def describe(self, things):
        lines = []
        for b in things:
            if b["type"] == "resource_link":
                more = [f"{k} {b[k]}" for k in ("title", "description", "mimeType", "size") if b.get(k) is not None]
                lines.append(f"A link named {b['name']} to {b['uri']}" + (f" ({', '.join(more)})" if more else "") + ".")
            elif b["type"] == "image":
                lines.append(f"An image of type {b['mimeType']}, {self.size(b['data'])}.")
            elif "text" in b["resource"]:
                r = b["resource"]
                lines.append(f"An embedded text from {r['uri']}" + (f" ({r['mimeType']})" if r.get("mimeType") else "") + f", {len(r['text'])} characters:\n{r['text'][:2000]}")
            else:
                r = b["resource"]
                lines.append(f"An embedded blob from {r['uri']}" + (f" ({r['mimeType']})" if r.get("mimeType") else "") + f", {self.size(r['blob'])}.")
        return "\n".join(lines)

    @staticmethod
    def size(data):
        try:
            return f"{len(base64.b64decode(data, validate=True))} bytes"
        except (binascii.Error, ValueError):
            return "with data that is not base64"

    def do_describe(self, w):
        self.say("There is nothing attached.")

    def do_read_link(self, w):
        for b in self.blocks:
            if b["type"] == "resource_link" and b["uri"].lower().startswith("file:///"):
                self.grant({"do": "read", "path": urllib.parse.unquote(b["uri"][7:])})
            elif b["type"] != "text":
                self.say(self.describe([b]))

    # --- files --------------------------------------------------------------------------------------------------
    def offers(self, group, name):
        g = self.caps.get(group)
        return isinstance(g, dict) and g.get(name) is True

    def place(self, path):
        return os.path.normpath(os.path.join(self.session.cwd, path))

    def inside(self, path):
        real = os.path.realpath(path)
        for root in [self.session.cwd, *self.session.dirs]:
            root = os.path.realpath(root)
            if real == root or real.startswith(root.rstrip("/") + "/"):
                return True
        return False

    def job(self, name, title, kind, path, raw, **where):
        job = Job(self, name, title, kind, raw, [{"path": path, **where}])
        if not self.inside(path):
            why = f"{path} lies outside the folders of this session, so I keep my paws off it."
            job.finish(False, [text_content(why)])
            raise Failed(why)
        return job

    def fetch(self, path, line=None, limit=None):
        """The text of a file: from the client if it reads files, else from the disk."""
        if self.offers("fs", "readTextFile"):
            params = {"path": path, **({"line": line} if line else {}), **({"limit": limit} if limit else {})}
            try:
                got = self.ask("fs/read_text_file", params)
            except RpcError as e:
                raise Failed(f"I could not read {path}: {e.message}")
            if not isinstance(got, dict) or not isinstance(got.get("content"), str):
                raise Failed(f"I could not read {path}: the editor sent no text.")
            return got["content"]
        self.check()
        try:
            with open(path, "rb") as f:
                text = f.read(20_000_000).decode("utf-8", "replace")
        except OSError as e:
            raise Failed(f"I could not read {path}: {e.strerror}.")
        if line or limit:
            start = (line or 1) - 1
            text = "".join(text.splitlines(True)[start:start + limit if limit else None])
        return text

    def deliver(self, path, text):
        """Write a file: through the client if it writes files, else on the disk."""
        if self.offers("fs", "writeTextFile"):
            try:
                self.ask("fs/write_text_file", {"path": path, "content": text})
            except RpcError as e:
                raise Failed(f"I could not write {path}: {e.message}")
            return
        self.check()
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8", errors="replace", newline="") as f:
                f.write(text)
        except OSError as e:
            raise Failed(f"I could not write {path}: {e.strerror}.")

    def do_read(self, w):
        path = self.place(w["path"])
        job = self.job("read_file", f"Read {w['path']}", "read", path, {k: w[k] for k in ("path", "line", "limit") if k in w}, **({"line": w["line"]} if "line" in w else {}))
        job.start()
        try:
            text = self.fetch(path, w.get("line"), w.get("limit"))
        except Failed as e:
            job.finish(False, [text_content(str(e))])
            raise
        job.finish(True, [text_content(text)])
        self.aside(f"{w['path']} reads:")
        self.say(text if text else "(it is empty)")

    def rewrite(self, w, title, make):
        """Shared by writing, appending and changing; make(old) gives the new text, old is None for a new file."""
        path = self.place(w["path"])
        job = self.job("write_file", title, "edit", path, {"path": w["path"]})
        job.start()
        try:
            try:
                old = self.fetch(path)
            except Failed:
                old = None
                if os.path.exists(path):
                    try:
                        with open(path, encoding="utf-8", newline="") as f:
                            old = f.read()
                    except (OSError, ValueError):
                        raise Failed(f"{path} is there, but it is not a text that I can read; I leave it alone.")
            new = make(old)
            self.deliver(path, new)
        except Failed as e:
            job.finish(False, [text_content(str(e))])
            raise
        diff = {"type": "diff", "path": path, "newText": new}
        if old is not None:
            diff["oldText"] = old
        job.finish(True, [diff])
        return new

    def do_write(self, w):
        self.rewrite(w, f"Write {w['path']}", lambda old: w["text"])
        self.say(f"I wrote {len(w['text'])} characters to {w['path']}.")

    def do_append(self, w):
        def make(old):
            old = old or ""
            return old + ("\n" if old and not old.endswith("\n") else "") + w["text"] + ("\n" if old.endswith("\n") else "")
        self.rewrite(w, f"Append to {w['path']}", make)
        self.say(f"I added that to {w['path']}.")

    def do_edit(self, w):
        def make(old):
            if old is None:
                raise Failed(f"There is no file {w['path']} to change.")
            if not w["old"] or w["old"] not in old:
                raise Failed(f"I do not find \"{w['old']}\" in {w['path']}, so I changed nothing.")
            return old.replace(w["old"], w["new"])
        self.rewrite(w, f"Change {w['path']}", make)
        self.say(f"I changed \"{w['old']}\" to \"{w['new']}\" in {w['path']}.")

    def do_list(self, w):
        path = self.place(w["path"])
        job = self.job("look_around", f"Look at {w['path']}", "search", path, {"path": w["path"]})
        job.start()
        try:
            names = sorted(e.name + ("/" if e.is_dir() else "") for e in os.scandir(path))
        except OSError as e:
            job.finish(False, [text_content(f"I cannot look there: {e.strerror}.")])
            raise Failed(f"I cannot look at {w['path']}: {e.strerror}.")
        text = "\n".join(names[:500]) or "(empty)"
        job.finish(True, [text_content(text)])
        self.say("I see:\n" + text)

    # --- permission ---------------------------------------------------------------------------------------------
    def allowed(self, job, act):
        """Ask before commands and deletions. True or False; a cancelled outcome ends the turn."""
        verdict = self.session.verdicts.get(act)
        if verdict is None:
            call = {k: job.call[k] for k in ("toolCallId", "title", "kind", "status", "rawInput", "locations") if k in job.call}
            try:
                answer = self.ask("session/request_permission", {"toolCall": call, "options": OPTIONS})
            except RpcError as e:
                log("permission request failed:", e.message)
                answer = None
            outcome = answer.get("outcome") if isinstance(answer, dict) else None
            outcome = outcome if isinstance(outcome, dict) else {}
            if outcome.get("outcome") == "cancelled":
                self.stop.set()
                raise Cancelled()
            kind = next((o["kind"] for o in OPTIONS if outcome.get("outcome") == "selected" and o["optionId"] == outcome.get("optionId")), "reject_once")
            verdict = kind.startswith("allow")
            if kind.endswith("always"):
                self.session.verdicts[act] = verdict
        self.check()
        if not verdict:
            job.finish(False, [text_content("Not allowed, so not done.")])
        return verdict

    def do_delete(self, w):
        path = self.place(w["path"])
        job = self.job("delete_file", f"Delete {w['path']}", "delete", path, {"path": w["path"]})
        if not os.path.lexists(path) or os.path.isdir(path) and not os.path.islink(path):
            why = f"There is no file {w['path']} to delete."
            job.finish(False, [text_content(why)])
            raise Failed(why)
        if not self.allowed(job, ("delete", path)):
            return self.say(f"I left {w['path']} where it is.")
        job.start()
        try:
            os.remove(path)
        except OSError as e:
            job.finish(False, [text_content(f"I could not delete it: {e.strerror}.")])
            raise Failed(f"I could not delete {w['path']}: {e.strerror}.")
        job.finish(True, [text_content(f"Deleted {path}.")])
        self.say(f"{w['path']} is gone.")

    # --- commands -----------------------------------------------------------------------------------------------
    def do_run(self, w):
        line = w["command"]
        job = Job(self, "run_command", f"Run: {line[:120]}", "execute", {"command": line})
        if not self.allowed(job, ("run", line)):
            return self.say("Very well, I did not run that.")
        job.start()
        floor = self.agent.floor if FAULT == "roving-floor" else self.session.cwd
        try:
            code, output = (self.run_at_client if self.caps.get("terminal") is True else self.run_here)(job, line, floor)
        except Failed as e:
            job.finish(False, [text_content(str(e))])
            raise
        self.aside(f"`{line}` " + ("ran well and printed:" if code == 0 else f"ended with {code} and printed:"))
        self.say(output if output.strip() else "(nothing)")

    def run_at_client(self, job, line, floor):
        params = {"command": "/bin/sh", "args": ["-c", line], "cwd": floor, "env": [], "outputByteLimit": 262144}
        waiter = self.wire.ask("terminal/create", {"sessionId": self.session.id, **params})

        def let_go(late):                        # a terminal that came after we had stopped waiting
            if late.error is None and isinstance(late.result, dict) and isinstance(late.result.get("terminalId"), str):
                self.wire.ask("terminal/release", {"sessionId": self.session.id, "terminalId": late.result["terminalId"]})
        with self.guard(waiter.poke):
            done = waiter.wait()
        if not done and not waiter.wait(1.5, heed_poke=False):
            waiter.when_late(let_go)
            raise Cancelled()
        try:
            tid = waiter.value()["terminalId"]
        except RpcError as e:
            raise Failed(f"The terminal would not open: {e.message}")
        except (TypeError, KeyError):
            raise Failed("The terminal would not open: no terminal id came back.")
        which, kept = {"terminalId": tid}, False
        try:
            self.check()
            job.progress(content=[{"type": "terminal", "terminalId": tid}])
            end = self.ask("terminal/wait_for_exit", which)
            got = self.ask("terminal/output", which)
            end, got = end if isinstance(end, dict) else {}, got if isinstance(got, dict) else {}
            code = end.get("exitCode") if end.get("exitCode") is not None else f"signal {end.get('signal')}" if end.get("signal") else 0
            output = str(got.get("output") or "")
            job.finish(code == 0, [{"type": "terminal", "terminalId": tid}], [text_content(output)], rawOutput={"exit": code})
            kept = FAULT == "kept-vice" and code != 0
            return code, output
        except Cancelled:
            self.ask_quietly("terminal/kill", which)
            raise
        except RpcError as e:
            raise Failed(f"The terminal let me down: {e.message}")
        finally:
            if job.open:                         # the terminal is shown for the last time before it is released
                job.finish(False, [{"type": "terminal", "terminalId": tid}], [text_content("Stopped.")])
            if not kept:
                self.ask_quietly("terminal/release", which)

    def run_here(self, job, line, floor):
        self.check()
        try:
            p = subprocess.Popen(["/bin/sh", "-c", line], cwd=floor, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
        except OSError as e:
            raise Failed(f"I could not start that: {e.strerror}.")
        pieces, ended = [], threading.Event()

        def kill():
            with contextlib.suppress(OSError):
                os.killpg(p.pid, signal.SIGKILL)

        def drain():
            for data in iter(lambda: p.stdout.read1(65536), b""):
                if sum(map(len, pieces)) < 4_000_000:
                    pieces.append(data)
            ended.set()
        reader = threading.Thread(target=drain, daemon=True)
        reader.start()
        with self.guard(kill):
            code = p.wait()
            ended.wait(0.5)
        kill()                                   # children left in the background go home too
        self.check()
        output = b"".join(pieces).decode("utf-8", "replace")
        code = code if code >= 0 else f"signal {-code}"
        job.finish(code == 0, [text_content(output or "(no output)")], rawOutput={"exit": code})
        return code, output

    # --- MCP ----------------------------------------------------------------------------------------------------
    def servers(self):
        for trouble in mcp.connect_all(self, self.session):
            if trouble not in self.session.complaints:          # one complaint is enough
                self.session.complaints.add(trouble)
                self.say(trouble)
        return [m for m in self.session.mcp if m.up]

    def tool_names(self):
        return [t["name"] for m in self.servers() for t in m.tools]

    def do_mcp_list(self, w):
        lines = [f"- {t['name']} ({m.name}): {t.get('description') or 'no description'}" for m in self.servers() for t in m.tools]
        self.say("The tools at hand:\n" + "\n".join(lines) if lines else "No MCP tools are at hand.")

    def do_mcp(self, w):
        clause = w["mind"].t.bare(w["clause"]).lower()
        found = [(m, t) for m in self.servers() for t in m.tools if t["name"] == w["tool"]]
        if not found:
            return self.say(f"I have no MCP tool called {w['tool']} here." if w["tool"] != "?" else "Which MCP tool do you mean? I find none of that name.")
        server, tool = next((x for x in found if re.search(r"\b" + re.escape(x[0].name.lower()) + r"\b", clause)), found[0])
        arguments = tool_arguments(w, tool.get("inputSchema") if isinstance(tool.get("inputSchema"), dict) else {})
        job = Job(self, tool["name"], f"{server.name}: {tool['name']}", "other", arguments)
        job.start()
        try:
            result = server.call(self, tool["name"], arguments)
        except mcp.McpError as e:
            job.finish(False, [text_content(str(e))])
            raise Failed(f"The tool {tool['name']} failed: {e}.")
        parts, words = [], []
        for c in result.get("content") or []:
            if not isinstance(c, dict):
                continue
            if c.get("type") == "text" and isinstance(c.get("text"), str):
                words.append(c["text"])
                parts.append(text_content(c["text"]))
            elif c.get("type") == "image" and isinstance(c.get("mimeType"), str) and "not base64" not in self.size(c.get("data") or ""):
                words.append(f"(an image of type {c['mimeType']})")
                parts.append({"type": "content", "content": {"type": "image", "data": c["data"], "mimeType": c["mimeType"]}})
            else:
                words.append(f"(something of type {c.get('type')})")
                parts.append(text_content(words[-1]))
        if not parts and result.get("structuredContent") is not None:
            words = [str(result["structuredContent"])]
            parts = [text_content(words[0])]
        bad = result.get("isError") is True
        job.finish(not bad, parts, rawOutput=result)
        self.aside(f"The tool {tool['name']} " + ("reports a failure:" if bad else "says:"))
        self.say("\n".join(words) or "(nothing)")
