"""Plain rules that turn what a person types into a list of wishes.  No protocol in here."""
from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Wish:
    kind: str
    args: dict[str, Any] = field(default_factory=dict)
    label: str = ""


I = re.IGNORECASE
FILLER = re.compile(
    r"^(?:[\s,;:.!\-*•–—]+|\(?\d{1,2}[.)]\s+|(?:please|pls|kindly|hey|hi|hello|dear|siskin|agent|ok|okay|so|well|now|"
    r"first of all|first|firstly|second|secondly|third|thirdly|next|then|finally|lastly|at last|also|and|after that|"
    r"afterwards|afterward|later|once (?:that is|that's|you are|you're) done|when (?:that is|that's|you are|you're) done|"
    r"could you|can you|would you|will you|can we|could we|would you mind|i would like you to|i'd like you to|"
    r"i would like to|i'd like to|i want you to|i need you to|i want to|i need to|your (?:task|job) is to|you (?:should|must|can|may)|"
    r"let's|let us|go ahead and|just|simply|quickly|kindly|try to|make sure to|be so kind (?:as )?to|for me|again)(?=[\s,:;.!]|$))", I)
POLITE_END = re.compile(
    r"(?:[\s,]+(?:please|pls|for me|thanks|thank you|now|if you (?:can|could|would|will|please)|would you|will you|"
    r"right away|quickly|and nothing else|nothing else|and that's all|and (?:then )?stop|exactly|again|to me|back))+\s*[.!?]*\s*$", I)
QUOTES = re.compile(r"```(?:\w*\n)?(.*?)```|`([^`]+)`|\"((?:[^\"\\]|\\.)*)\"|“([^”]*)”|«([^»]*)»|(?<!\w)‘([^’]*)’(?!\w)|(?<!\w)'([^'\n]*)'(?!\w)", re.S)
HOLE = re.compile("\ue000(\\d+)\ue001")
VERBS = (r"say|repeat|echo|read|show|open|cat|display|view|print|create|write|save|make|add|append|put|change|replace|edit|"
         r"modify|update|swap|substitute|delete|remove|erase|run|execute|launch|start|list|look|call|use|invoke|ask|tell|count|"
         r"talk|think|ponder|reflect|reason|plan|remember|recall|describe|wait|sleep|reply|answer|respond|give|what|switch|set|"
         r"store|summari[sz]e|do|explain|let|explore|check|work|finish|greet|go|which|how|type|output|speak|generate|produce|touch|draw|elicit|see|inspect|examine|find")
SPLIT = re.compile(
    r"\n+\s*(?:[-*•]\s+|\(?\d{1,2}[.)]\s+)?|\s*;\s*(?:and\s+)?(?:then\s+)?|\s*,?\s+(?:and\s+)?(?:then|after that|afterwards|finally|lastly|next)[\s,]+|"
    r"\s*,\s*and\s+|\s+and\s+(?:also\s+)?|\s*[.!?]\s+|\s*,\s*|\s+\(?\d[.)]\s+", I)
FILE = re.compile(r"(?<![\w/@:.])(?:file://)?(?:~?/|\.{1,2}/)?(?:[\w\-.@+]+/)*[\w\-@+][\w\-.@+]*\.[A-Za-z][A-Za-z0-9]{0,9}(?![\w/])|(?<![\w/:.])(?:~?/|\.{1,2}/)[\w\-.@+/]*[\w\-@+]")
NOT_FILES = {"e.g", "i.e", "etc", "node.js", "a.m", "p.m"}
SHELL_WORDS = {"ls", "pwd", "sleep", "date", "whoami", "uname", "git", "python3", "python", "node", "grep", "find", "wc", "head",
               "tail", "mkdir", "df", "du", "ps", "env", "which", "sort", "sed", "awk", "seq", "true", "false", "exit", "sh", "bash", "npm", "make", "printf", "touch", "cp", "mv", "hostname", "id"}
CALL = r"(?:call|use|invoke|run|execute|trigger|try|fire|exercise|apply|employ|ask|query|hit)"


class Text:
    """A prompt with its quoted strings and JSON objects taken out into numbered holes."""

    def __init__(self, text: str) -> None:
        self.kept: list[tuple[str, str]] = []  # (inner, raw)
        text = text.replace("\ue000", "").replace("\ue001", "").replace("’", "'") if "‘" not in text else text
        self.text = QUOTES.sub(self._quote, self._json(text))

    def _keep(self, inner: str, raw: str) -> str:
        self.kept.append((inner, raw))
        return f"\ue000{len(self.kept) - 1}\ue001"

    def _quote(self, match: re.Match) -> str:
        raw = match.group(0)
        inner = next((g for g in match.groups() if g is not None), "")
        if raw.startswith('"'):
            inner = re.sub(r'\\(["\\nt])', lambda m: {"n": "\n", "t": "\t"}.get(m.group(1), m.group(1)), self.raw(inner))
        return self._keep(self.raw(inner), raw)

    def _json(self, text: str) -> str:
        out, at = [], 0
        while (start := text.find("{", at)) >= 0:
            try:
                value, end = json.JSONDecoder().raw_decode(text, start)
            except (ValueError, RecursionError):
                out.append(text[at:start + 1])
                at = start + 1
                continue
            out.append(text[at:start] + self._keep(text[start:end], text[start:end]))
            at = end
        return "".join(out) + text[at:]

    def raw(self, text: str) -> str:
        while HOLE.search(text):
            text = HOLE.sub(lambda m: self.kept[int(m.group(1))][1], text)
        return text

    def inner(self, text: str) -> str:
        return self.raw(HOLE.sub(lambda m: self.kept[int(m.group(1))][0], text))

    def quoted(self, text: str) -> list[str]:
        return [self.inner(m.group(0)) for m in HOLE.finditer(text)]


def bare(text: str) -> str:
    """Take the polite and joining words off the front."""
    while True:
        match = FILLER.match(text)
        if not match or match.end() == 0:
            return text.strip()
        text = text[match.end():]


def trimmed(text: str) -> str:
    return POLITE_END.sub("", text).strip()


def clauses(text: str) -> list[str]:
    """Cut at joining words, but only where the next part begins with a verb of ours."""
    parts, start = [], 0
    for match in SPLIT.finditer(text):
        rest = bare(text[match.end():])
        before = bare(text[start:match.start()])
        glue = match.group(0).strip().lower()
        running = re.match(r"(run|execute|launch|start)\b|\$ ", before, I)
        if running and glue in (";", ",", "and") and not re.match(r"(say|tell|read|show|list|call|ask|count|write|create|save|run|execute|think|then|use|reply|report|delete|replace|change)\b", rest, I):
            continue
        if re.match(r"(?:in|inside|within|with|using|via|through|from|if|for|on)\b", before, I):
            continue
        if re.match(r"(?:edit|modify|open|update|change|fix|take)\s+(?:the )?(?:file )?\S+(?: for editing)?$", before.strip(), I) and re.match(
                r"(?:replace|change|swap|substitute|update|turn|set|correct)\b", rest, I):
            continue
        if not before.strip() or not re.match(rf"(?:(?:{VERBS})\b|\$ )", rest, I):
            continue
        if re.match(r"and$|,$|, and$", glue) and re.match(r"(say|repeat|echo|reply|answer|respond)\b", before, I) and not re.match(
                rf"(?:say|repeat|read|create|write|save|run|execute|list|call|ask|count|use|show|delete|replace|change|tell|think|remember)\b", rest, I):
            continue
        if re.match(r"(think|ponder|reflect|reason)\b", before, I) and re.match(r"(what|how|which|answer it)\b", rest, I) and glue in ("and", ","):
            continue
        parts.append(text[start:match.start()])
        start = match.end()
    parts.append(text[start:])
    return [p for p in parts if bare(p)]


def files_in(part: str, text: Text) -> list[str]:
    """Every file name in a clause, quoted or not, in order."""
    found: list[tuple[int, str]] = []
    for m in HOLE.finditer(part):
        inner = text.inner(m.group(0)).strip()
        near = re.search(r"(?:file|files|in|into|to|as|named|called|from|of|at|path|read|open|show|cat|delete|remove|create|edit|touch)\s*:?\s*$", part[:m.start()], I)
        looks = re.fullmatch(r"(?:file://)?[^\n<>|]*[\w\-]\.[A-Za-z]\w{0,9}|(?:~?/|\.{1,2}/)[^\n]+", inner)
        if len(inner) < 300 and ((looks and (near or not re.search(r"\s", inner))) or (near and re.search(r"\bfile\s*(?:named|called)?\s*$", part[:m.start()], I) and inner)):
            found.append((m.start(), inner))
    for m in FILE.finditer(part):
        if m.group(0).lower().rstrip(".") not in NOT_FILES:
            found.append((m.start(), m.group(0)))
    m = re.search(r"\bfile (?:named|called) ([\w\-.@+/]+\w)", part, I)
    if m and not any(m.group(1) == f for _, f in found):
        found.append((m.start(1), m.group(1)))
    m = re.search(r"\b(Makefile|Dockerfile|README|LICENSE|CHANGELOG)\b(?!\.)", part)
    if m:
        found.append((m.start(1), m.group(1)))
    return [re.sub(r"^file://", "", f) for _, f in sorted(found)]


def seconds_in(part: str) -> float | None:
    m = re.search(r"(\d+(?:\.\d+)?)\s*(?:-\s*)?(s\b|secs?\b|seconds?\b|minutes?\b|mins?\b)", part, I)
    if not m:
        return None
    return float(m.group(1)) * (60 if m.group(2).lower().startswith("m") else 1)


def command_in(rest: str, text: Text) -> str:
    """What is to be run, once the verb is gone."""
    rest = re.sub(r"^[\s:]*(?:(?:the|a|this|that|following|shell|bash|terminal|system|console|command[- ]line|long-running|long running|slow|long|quick|simple|command|program|script|cmd|in (?:the|a|your) (?:terminal|shell|console)|"
                  r"for me|please|called|me)[\s:]+)+", "", rest, flags=I).strip(" :\n")
    rest = re.sub(r"[\s,]+(?:and )?(?:then )?(?:show|tell|give|report|print|return|display)(?: me| us)?(?: back)?(?: what)?(?: the| its| it)?(?: full| complete)?[\s]*(?:output|result|results|what it (?:says|prints)|prints|says)?[.!?]*$", "", rest, flags=I)
    rest = re.sub(r"[\s,]+(?:in|on|with|using|from|via) (?:the|a|your|my) (?:terminal|shell|console|command line|bash)[.!?]*$", "", rest, flags=I)
    rest = re.sub(r"\s+(?:command|as a (?:shell )?command)[.!?]*$", "", trimmed(rest), flags=I)
    m = re.match(r"(?:(?:that|which|to) )?(?:sleeps|(?<=that )sleep|takes?|waits?|lasts?|runs?)(?: for)? (?:about )?(\d+)", rest, I)
    if m:
        return f"sleep {m.group(1)}"
    if re.fullmatch(r"(?:that|which) (?:takes?|runs?) (?:a while|long|a long time|forever|some time)\.?|command|", rest, I):
        return "sleep 10"
    m = re.match("\ue000\\d+\ue001", rest)
    if m and not re.match(r"\s*(?:[|&<>;]|-|\ue000)", rest[m.end():]):
        return text.inner(m.group(0)).strip()
    return re.sub(r"(?<=[\w)\"'`\ue001])[.!?]$", "", text.raw(rest)).strip()


def understand(prompt: str, tools: list[str] = (), servers: list[str] = (), attached: bool = False) -> list[Wish]:
    text = Text(prompt)
    wishes: list[Wish] = []
    for part in clauses(text.text):
        wish = one(part, text, list(tools), list(servers), attached, wishes)
        if wish is not None:
            also = wish.args.pop("also", [])
            wish.label = wish.label or text.raw(bare(part)).strip(" .")[:80]
            wishes.append(wish)
            wishes += [Wish(wish.kind, {"path": other}, f"read {other}") for other in also]
    if attached and not any(w.kind in ("describe", "say", "run", "write", "edit", "mcp_call", "read") for w in wishes):
        wishes = [w for w in wishes if w.kind != "chat"] + [Wish("describe", label="look at what is attached")]
    if len(wishes) > 1:  # small talk beside a real wish is not worth an answer
        wishes = [w for w in wishes if w.kind != "chat"] or wishes[:1]
    return wishes or [Wish("chat", {"text": prompt}, "answer")]


def one(part: str, text: Text, tools: list[str], servers: list[str], attached: bool, before: list[Wish]) -> Wish | None:
    p = bare(part)
    if not p:
        return Wish("chat", {"text": text.raw(part)})
    low = p.lower()
    quoted, files = text.quoted(p), files_in(p, text)

    def has(pattern: str) -> bool:
        return re.search(pattern, low, I) is not None

    # "... and show me the output" only says once more what happens anyway
    if before and re.fullmatch(r"(?:show|tell|give|report|print|return|display|let)(?: me| us)?(?: know)?(?: back)?\s*(?:what )?(?:the |its |their |all )?(?:full |complete )*(?:it|them|output|outputs|result|results|contents?|text|outcome|what it (?:says|said|prints|printed|returns|returned|contains)|what (?:you|they) (?:get|got|see|saw|found)|(?:it |they )?(?:says?|prints?|printed|returned|returns|contains?))[\s.!?]*", low):
        return None
    if before and re.fullmatch(r"(?:work|go|step|do|carry|execute|follow|complete|finish|start)\b.*\b(?:it|plan|steps?|them|list|all)\b[\s\w]*[.!?]*", low) and before[-1].kind == "plan":
        return None

    # "use your reading tool to read a.txt" is about the reading
    m = re.match(r"(?:use|using|with|via) (?:the|your|a|any|whatever)?\s*([\w -]*?)\s*tools?(?: you have| available)?\s*(?:to|and|,|in order to)\s+(.+)", p, I | re.S)
    if m and not has(r"\bmcp\b") and not any(t.lower() in m.group(1).lower().split() for t in tools) and re.match(rf"(?:{VERBS})\b", bare(m.group(2)), I):
        return one(m.group(2), text, tools, servers, attached, before)

    # MCP tools
    listing = has(r"\b(list|show|which|what|name|enumerate|print|tell me)\b.*\b(tools?|mcp)\b")
    named = sorted((t for t in tools if re.search(rf"(?<![\w]){re.escape(t)}(?![\w])", text.raw(p))), key=len, reverse=True)
    calling = re.match(rf"{CALL}\b|(?:with|via|through|make a call)\b", low) or has(rf"\b(?:call|invoke|use|using|via)\b.*\btool\b")
    if has(r"\b(?:terminal|shell|command line)\b") and not has(r"\bmcp\b") and not named and not has(r"\btools\b"):
        calling = None
    elif has(r"\b(?:use|in|with|using) (?:the|a|your) (?:terminal|shell)\b"):
        calling = None
    if calling and (has(r"\btools?\b|\bmcp\b") or (named and (re.match(r"(?:call|invoke|use|trigger)\b", low) or any(s.lower() in low for s in servers)))):
        if not (has(r"\bterminal tool|shell tool|\btools? (?:that|which) (?:are|is)") and not named):
            return mcp_call(p, text, tools, named, servers)
    if listing and not files:
        return Wish("mcp_list")

    # a question to the person
    m = re.match(r"(?:ask|question|quiz|prompt|query|request|elicit|inquire|enquire)\b(?: (?:of )?(?:me|us|the user|the human|input from me|input|information|something from me|from me))?[\s:,]*(.*)", p, I | re.S)
    if m or has(r"\b(?:let|have) me (?:choose|pick|decide|select|fill|enter|confirm)|\bask (?:me|the user|us)\b|\belicit|\bshow (?:me )?a form|\bget my (?:name|answer|choice|input)|\bfind out (?:from me|my)"):
        question = (m.group(1) if m else re.sub(r"^(?:let|have) me", "Please", p, flags=I)).strip()
        return ask(question, text)

    # memory
    if has(r"\b(?:what|which|who|whose|do you|can you|tell me|say|repeat|list|recall|show)\b.*\b(?:remember|recall|i (?:just )?(?:said|told|asked|gave|mentioned|wrote)|did i (?:say|tell|ask|give|mention|write|want)|(?:have i|i have|i've) (?:said|told|asked|given)|we (?:talked|spoke|discussed|said)|talked about|conversation|so far|our chat|history)\b") \
            or has(r"\bmy (?:very )?(?:first|last|previous|earlier|latest) (?:message|question|prompt|words?|request|wish)\b") \
            or re.match(r"(?:recall|summari[sz]e (?:our|the|this)(?: whole| entire)? (?:conversation|chat|discussion|session|talk|dialog\w*)|recap)\b", low) or has(r"\bdo you (?:still )?know my\b") \
            or has(r"\bwhat(?:'s| is| was)? (?:was |is )?(?:my|the|that) (?:\w+ )?(?:name|word|secret|code ?word|password|passphrase|number|colou?r|animal|token|phrase|code|fruit|city)\b(?!.*\bfile\b)") \
            or has(r"^(?:which|what) (?:word|number|name|colou?r|animal|code)\b"):
        return Wish("recall")
    if re.match(r"(?:remember|keep in mind|memori[sz]e|don't forget|do not forget|note (?:that|down)|bear in mind|make a (?:mental )?note)\b", low) \
            or re.match(r"(?:my (?:name|favou?rite|secret|\w+ (?:word|number|colou?r))|the (?:secret|magic|code|pass)[\w -]*) (?:\w+ )?is\b", low):
        what = re.sub(r"^(?:remember|keep in mind|memori[sz]e|don't forget|do not forget|note(?: down)?|bear in mind|make a (?:mental )?note(?: of)?)[\s:,]*(?:that\s+|this[\s:]+)?", "", p, flags=I)
        if re.fullmatch(r"\W*(?:it|this|that|them)?\W*", what, re.I):
            return None if before else Wish("say", {"text": "What shall I remember?"})
        return Wish("remember", {"text": trimmed(text.raw(what)).rstrip(".")})

    # modes
    m = re.search(r"\b(?:mode)\b.*?\b(careful|swift|look-only|look only)\b|\b(careful|swift|look-only|look only)\b.*\bmode\b", low)
    if m and has(r"\b(?:switch|change|go|set|enter|use|turn|put)\b"):
        return Wish("mode", {"mode": (m.group(1) or m.group(2)).replace(" ", "-")})

    # a plan
    if not files and has(r"\b(?:plan|to-?do list|roadmap|step[- ]by[- ]step)\b") and (re.match(r"(?:plan|make|create|write|draw|draft|lay|work|show|give|set|prepare|sketch|outline|come|produce|build|do|devise|tell|put|propose|start|use|think|follow|develop)\b", low) or "step" in low) and (not low.startswith("think") or "plan" in low):
        m = re.search(r"(\d+|two|three|four|five|six|seven)[\s-]*(?:steps?|points?|items?|parts?|entries)", low)
        words = {"two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7}
        count = (words.get(m.group(1)) or int(m.group(1))) if m else 3
        about = re.search(r"\b(?:to|for|about|of|on how to|:)\s+(.+)", p, I | re.S)
        return Wish("plan", {"steps": max(1, min(count, 12)), "about": text.raw(about.group(1)).strip(" .")[:120] if about else ""})

    # saying, when the first word already says so
    m = re.match(r"(say|repeat|echo|reply|respond|answer|greet|utter|speak|shout|whisper|return)\b[\s:,]*(.*)", p, I | re.S)
    if m and not files_shown(m.group(1), p, files):
        rest = m.group(2)
        slow = seconds_in(rest) if not quoted else None
        if not quoted and (slow or re.search(r"\b(?:slowly|for a (?:long )?while|at length|for (?:a )?long|something long|(?:a )?long )\b", rest, I)) and not re.match(r"(?:slowly)\s*:", rest, I):
            return Wish("talk", {"seconds": slow or 6})
        words = politely(said(rest, text), part, quoted)
        return Wish("say", {"text": words}) if words or not before else None

    # files
    change = r"\b(?:change|replace|edit|modify|swap|update|substitute|rename|turn|fix|correct|alter|rewrite|convert)\b"
    if files:
        wish = file_wish(p, text, files, has, change)
        if wish:
            if wish.kind in ("write", "append") and not quoted:
                wish.args["text"] = politely(wish.args["text"], part, quoted)
            return wish
    if re.match(r"(?:create|write|save|make|touch)\b", low) and has(r"\bfile\b"):
        content = [q for q in quoted] or [after_content_word(p, text)]
        return Wish("write", {"path": "note.txt", "text": content[0] or "", "create": True})
    if attached and has(r"\b(?:describe|what|look|see|image|picture|photo|resource|link|attach\w*|summari[sz]e|context|this|it|screenshot|document|embedded)\b") and not has(r"\b(?:run|execute|list|count)\b"):
        return Wish("describe")

    # commands
    m = re.match(r"(?:run|execute|launch|start|perform|exec|invoke|issue|type|\$)(?:\b|(?<=\$))[\s:]*(.*)", p, I | re.S) if not has(r"^(?:start|type)\b") or has(r"\b(?:command|shell|terminal)\b") or quoted else None
    if m and m.group(1).strip():
        return Wish("run", {"command": command_in(m.group(1), text)})
    m = re.match(r"(?:use|open|in|with|using|go to) (?:the|a|your|my) (?:terminal|shell|console|command line|bash)(?: tool)?[\s,:]*(?:to|and)?[\s:]*(?:run|execute|type|do)?\b[\s:]*(.*)", p, I | re.S)
    if m and m.group(1).strip():
        return Wish("run", {"command": natural(command_in(m.group(1), text))})
    if quoted and has(r"\b(?:output|result|command|shell|terminal|prints?|returns?)\b") and has(r"\b(?:of|does|what|show|do|command|via|give|get|see|use)\b"):
        return Wish("run", {"command": quoted[0]})
    m = re.match(r"(?:wait|sleep|pause)(?: for)?\s+(?:about )?(\d+(?:\.\d+)?)", low)
    if m:
        return Wish("run", {"command": f"sleep {m.group(1)}"})
    if has(r"\b(?:working|current) (?:directory|folder|dir)\b|\bwhere are you\b|\bwhich (?:directory|folder)\b") and not has(r"\b(?:list|files|look)\b"):
        return Wish("run", {"command": "pwd"})
    if re.match(r"(?:ls|list|look|explore|show|what|which|tell|give|see|survey|inspect|dir|find|check|display|scan|browse|print|enumerate)\b", low) and (
            has(r"\bfiles?\b|\bdirector(?:y|ies)\b|\bfolders?\b|\baround\b|\bworkspace\b|\bproject\b|\blisting\b") or low in ("ls", "dir", "list")):
        m = re.search(r"\b(?:in|of|under|inside|within) (?:the )?(?:director(?:y|ies)|folder|subdirectory|subfolder)?\s*(\ue000\d+\ue001|[\w\-./]+)(?: (?:directory|folder))?", p, I)
        path = text.inner(m.group(1)).rstrip("?") if m else "."
        if path.lower().rstrip(".") in ("", "the", "this", "here", "there", "your", "my", "current", "working", "it", "directory", "folder", "workspace", "project"):
            path = "."
        return Wish("list", {"path": path})
    word = low.split()[0].strip(".,:")
    if word in SHELL_WORDS and (len(low.split()) > 1 or word in ("ls", "pwd", "date", "whoami", "true", "false", "id", "env", "hostname")) and not re.match(r"(?:which|find|make|touch|head|sort|date|id|env|true|false) (?:is|are|do|does|a|an|me|the|it|of|word|out)\b", low):
        return Wish("run", {"command": trimmed(text.raw(p)).rstrip(".!?")})

    # thinking, counting, talking
    m = re.match(r"(?:think|ponder|reflect|reason|consider|contemplate|meditate|muse)\b(.*)", p, I | re.S)
    if m or has(r"\bthink(?:ing)? (?:aloud|out loud|hard|carefully|first|before)\b"):
        about = re.sub(r"^[\s,]*(?:aloud|out loud|hard|carefully|deeply|first|about|on|over|upon|through|a (?:bit|moment|little)|for a (?:moment|bit|while)|and)\b", "", m.group(1) if m else "", flags=I)
        about = re.sub(r"^[\s,]*(?:about|on|over)\b", "", about, flags=I)
        return Wish("think", {"about": trimmed(text.raw(about)).strip(" .,:")})
    if has(r"\bcount(?:ing|down)?\b"):
        numbers = [int(n) for n in re.findall(r"\b\d{1,4}\b", re.sub(r"\d+(?:\.\d+)?\s*(?:s\b|sec\w*|min\w*)", "", low))]
        words = {"three": 3, "five": 5, "ten": 10, "twenty": 20, "thirty": 30, "fifty": 50, "hundred": 100}
        numbers = numbers or [n for w, n in words.items() if re.search(rf"\b{w}\b", low)]
        first, last = (1, 10) if not numbers else (1, numbers[0]) if len(numbers) == 1 else (numbers[0], numbers[1])
        if has(r"\bdown\b|\bbackwards?\b") and first < last:
            first, last = last, first
        return Wish("count", {"from": first, "to": last, "slow": has(r"\bslow|pause|one second|take your time|leisurely"), "seconds": seconds_in(low)})
    if re.match(r"(?:talk|speak|tell|write|stream|ramble|keep|give|chat|recite|narrate|babble|go on|generate|produce|compose|lecture|output|take|type)\b", low) and (
            seconds_in(low) or has(r"\b(?:slow\w*|long\w*|stor(?:y|ies)|poem|essay|lecture|monologue|talking|a while|at length|tale|speech|ramble|paragraphs?|forever|endless\w*|on and on|your time)\b")):
        return Wish("talk", {"seconds": seconds_in(low) or 8})

    # saying, in looser words
    m = re.match(r"(?:print|output|write|tell|type|give|display|show|send|produce|emit)\b(?: (?:me|us|back|out))*[\s:,]*(.*)", p, I | re.S)
    if m and (quoted or re.match(r"(?:the (?:word|text|phrase|sentence|message|words)|exactly|only|just)\b", m.group(1), I)):
        return Wish("say", {"text": politely(said(m.group(1), text), part, quoted)})
    if has(r"\b(?:describe|attached|attachment|image|picture|resource)\b") and has(r"\b(?:describe|what|look|see)\b"):
        return Wish("describe")
    if HOLE.fullmatch(p.strip(" .!")) and before and before[-1].kind == "say":
        return Wish("say", {"text": quoted[0]})
    return Wish("chat", {"text": text.raw(part).strip()})


def files_shown(verb: str, p: str, files: list[str]) -> bool:
    """Whether "say what is in a.txt" or "echo hi > a.txt" is about the file, not about saying."""
    if not files:
        return False
    return bool(re.search(r"\bwhat(?:'s| is| does)|\bcontents?\b|\breads?\b", p, I) or re.search(r"\s>>?\s", p)
                or (verb.lower() == "echo" and re.search(r"\b(?:into|to) (?:the )?(?:file )?\S*\.\w+\s*$", p, I)))


def said(rest: str, text: Text) -> str:
    """The very words to be said."""
    holes = list(HOLE.finditer(rest))
    lead = re.match("[^\ue000:]{0,40}:\\s*([^\ue000\\s].*)$", rest, re.S)
    if holes and lead:
        return text.raw(trimmed(lead.group(1))).strip()
    if holes:
        return text.inner(holes[0].group(0)) if len(holes) == 1 else " ".join(text.inner(h.group(0)) for h in holes)
    named = r"(?:words?|text|phrase|sentence|message|line|string)\b"
    rest = re.sub(rf"^(?:(?:back|out loud|aloud|after me|to me|to us|me|us|with|by saying|exactly|only|just|simply|slowly|nothing but|{named}|(?:(?:the|this|these|a|one|single|following|exact|my)\s+)+(?={named}))[\s:,]*)+(?=\S)", "", rest, flags=I)
    rest = re.sub(r"(?:[\s,]+(?:please|pls|for me|thanks|thank you|if you please|and nothing else|nothing else))+\s*[.!?]*\s*$", "", rest, flags=I)
    return text.raw(rest).strip().removesuffix(".").lstrip(": ")


def politely(words: str, part: str, quoted: list[str]) -> str:
    """"Could you say hi?" asks for "hi", not for "hi?"."""
    return words.rstrip("?").rstrip() if not quoted and re.match(r"\W*(?:please\s+)?(?:can|could|would|will)\b", part, I) else words


def after_content_word(p: str, text: Text) -> str | None:
    m = re.search(r"\b(?:containing|contains|that says|which says|saying|says|to say|to contain|to be|to read|content|contents|"
                  r"reading|with)\b[\s:]*(?:(?:the|these|this|following|exactly|exact|just|only|text|content|contents|word|words|line|of|as|is|be)\b[\s:]*)*(.*)", p, I | re.S)
    if not m or not m.group(1).strip():
        return None
    got = m.group(1)
    got = re.sub(r"[\s,]*\b(?:in|into|to|inside|as|and call it|and name it)\b (?:it|(?:the |a )?(?:new )?(?:file )?(?:named |called )?(?:\S*\.\w+|\ue000\d+\ue001))[.!?]*$", "", got, flags=I)
    return text.inner(trimmed(got).removesuffix(".") if not HOLE.fullmatch(got.strip(" .!")) else got.strip(" .!"))


def file_wish(p: str, text: Text, files: list[str], has: Any, change: str) -> Wish | None:
    path = files[-1]
    others = [q for q in text.quoted(p) if re.sub(r"^file://", "", q.strip()) not in files]
    low = p.lower()
    # change A to B in F
    if has(change):
        if len(others) >= 2:
            old, new = others[0], others[1]
            if has(r"\bwith\s+\ue000\d+\ue001\s+(?:instead of|in place of|for|rather than)"):
                old, new = new, old
            return Wish("edit", {"path": path, "old": old, "new": new, "all": has(r"\b(?:all|every|each|everywhere)\b")})
        name = re.escape(path)
        where = r"(?:\s*,?\s*(?:in|inside|of|within|from)\s+(?:the )?(?:file )?\S*)?"
        holes = "\ue000\\d+\ue001"
        flat = re.sub(rf"[\s,]*\b(?:in|inside|within|of|from)\s+(?:the )?(?:file )?(?:{name}|{holes}(?=\s|$|,|\.))[\s,:]*", " ", p, count=1) if path in p else p
        flat = re.sub(rf"^\s*(?:edit|modify|update|fix|change|open)?\s*(?:the )?(?:file )?{name}\s*(?:so that|such that|by|and|:|,)\s*(?:changing|replacing)?", " ", flat, flags=I)
        m = re.search(r"(?:change|replace|replacing|changing|swap|substitute|turn|update|rename|fix|correct|convert)\s+(?:the )?(?:all |every |each )?(?:occurrences? of |instances? of )?(?:word |text |string |line |words )?(.+?)\s+(?:with|to|by|into|for|->|=>|becomes?)\s+(?:the )?(?:word |text |string |line |words )?(.+)", flat, I | re.S)
        m = m or re.search(r"^\s*(.+?)\s+(?:->|=>|becomes?|to|with|by)\s+(.+)", flat, I | re.S)
        if m and path not in m.group(1) and not re.fullmatch(r"(?:the |its |whole |entire |all )*(?:file|content|contents|text|everything|it)(?: of)?", m.group(1).strip(), I):
            new = re.sub(where + r"$", "", m.group(2)) if path in m.group(2) else m.group(2)
            return Wish("edit", {"path": path, "old": text.inner(m.group(1).strip()), "new": text.inner(trimmed(new).removesuffix(".")), "all": has(r"\b(?:all|every|each|everywhere)\b")})
        content = others[0] if others else after_content_word(p, text)
        if content is None:
            m = re.search(r"\b(?:to|with)\b[\s:]*(.+)$", p, I | re.S)
            content = text.inner(trimmed(m.group(1))) if m and path not in m.group(1) else None
        if content is not None:
            return Wish("write", {"path": path, "text": content})
    if re.match(r"(?:delete|remove|erase|unlink|drop|rm|trash|get rid of)\b", low):
        if others:
            return Wish("edit", {"path": path, "old": others[0], "new": "", "all": False})
        return Wish("delete", {"path": path})
    if re.match(r"(?:append|add)\b", low) and re.search(r"\b(?:to|at the end|line|append)\b", low) and not re.match(r"add (?:a |the )?(?:new )?file", low):
        content = others[0] if others else None
        if content is None:
            m = re.match(r"(?:append|add)\s+(?:the |a )?(?:line |text |words? )?(?:saying )?(.+?)\s+(?:to|at the end of|into|in)\b", p, I | re.S)
            content = text.inner(m.group(1)) if m else after_content_word(p, text) or ""
        return Wish("append", {"path": path, "text": content})
    if re.match(r"(?:run|execute|launch|exec|\$)(?:\b|(?<=\$))", low):
        return Wish("run", {"command": command_in(re.sub(r"^(?:run|execute|launch|exec|\$)(?:\b|(?<=\$))[\s:]*", "", p, flags=I), text)})
    if re.match(r"echo\b", low) and re.search(r"\s>>?\s", p):
        return Wish("run", {"command": text.raw(p)})
    if re.match(r"(?:create|write|save|make|add|put|store|generate|produce|touch|set|fill|place|overwrite|dump|echo|record|note|compose|prepare|new|type|insert|start)\b", low) or has(r"\b(?:i want|i need|give me|there should be) a (?:new )?file\b"):
        content = others[0] if others else None
        if content is None:
            m = re.match(r"(?:write|put|save|store|place|dump|echo|record|insert|type)\s+(?!(?:(?:a|the|in|into|to)\s+)?(?:new\s+|text\s+|empty\s+)*file\b|to\b|into\b|in\b)(?:down )?(?:(?:the )?(?:following )?(?:text|words?|numbers?|value|line|sentence|phrase|string|content)\b[\s:]*)?(.+?)\s+(?:to|into|in|as|inside)\s+(?:the |a )?(?:new )?(?:file )?(?:named |called )?", p, I | re.S)
            content = text.inner(m.group(1)) if m and path not in m.group(1) else None
        if content is None:
            content = after_content_word(p, text)
        if content is None:
            m = re.search(r":\s*(\S.*)$", p, I | re.S)
            content = text.inner(m.group(1)) if m and path not in m.group(1) else ""
        return Wish("write", {"path": path, "text": content})
    if re.match(r"(?:list|ls|explore|look around)\b", low) and not re.search(r"\.\w+$", path):
        return Wish("list", {"path": path})
    word = low.split()[0]
    if word in SHELL_WORDS and not re.match(r"(?:find|make|head|sort|which|touch) (?:out|the|me|of)\b", low):
        return Wish("run", {"command": text.raw(p).strip()})
    if has(r"\b(?:read|show|open|display|print|cat|view|look|tell|what|what's|give|see|examine|inspect|check|fetch|dump|output|contents?|say|load|get|describe|summari[sz]e|list|how|which|quote|recite|type)\b"):
        args: dict[str, Any] = {"path": files[0], "also": [f for f in dict.fromkeys(files) if f != files[0]]}
        m = re.search(r"\blines?\s+(\d+)(?:\s*(?:-|to|through|and|until)\s*(\d+))?", low)
        if m:
            args["line"] = max(1, int(m.group(1)))
            args["limit"] = max(1, int(m.group(2) or m.group(1)) - args["line"] + 1)
        m = re.search(r"\bfirst\s+(\d+\s+)?lines?\b", low)
        if m:
            args["line"], args["limit"] = 1, int(m.group(1) or 1)
        return Wish("read", args)
    return None


def natural(command: str) -> str:
    """A few things people ask of a terminal in words."""
    low = command.lower()
    for pattern, shell in ((r"\bdate\b|\btime\b", "date"), (r"working directory|current (?:directory|folder)", "pwd"), (r"\b(?:list|show)\b.*\bfiles\b", "ls -la"), (r"\bwho am i\b", "whoami")):
        if re.search(pattern, low) and " " in command.strip():
            return shell
    m = re.match(r"(?:print|say|show|output)\s+(.+)", command, I)
    return f"echo {m.group(1)}" if m else command


def ask(question: str, text: Text) -> Wish:
    quoted = text.quoted(question)
    words = text.inner(re.sub(r"^(?:a question|something|a|the)(?: question)?[\s:,]*(?:about|whether|if|for)?\s*", lambda m: m.group(0) if re.match(r"(?:whether|if)", m.group(0), I) else "", question, flags=I)).strip(" :,")
    words = re.sub(r"[\s,]+(?:using|with|in|through|via) (?:a|the) form\b.*$|\s+from me$|^before you (?:continue|go on|start|begin)$", "", words, flags=I).strip()
    words = re.sub(r"^for\s+(?=my|the|a)", "", words, flags=I)
    if re.match(r"(?:my|the|your)\b", words, I) and not re.search(r"\?|\b(?:is|are)\b", words):
        words = "what is " + words
    m = re.match(r"(what|which|who|where|when|how) (my|the|your) (.+?) (is|are|was)$", words.strip(" ?."), I)
    if m:
        words = f"{m.group(1)} {m.group(4)} {m.group(2)} {m.group(3)}"
    shown = quoted[0] if len(quoted) == 1 and len(quoted[0]) > 3 else words
    low = words.lower()
    args: dict[str, Any] = {"question": (shown or "What would you like me to do?").rstrip(" .")}
    options: list[str] = []
    m = re.search(r"(?:between|from|among|one of|choose|pick|options?|choices?|:|,|out of)\s*:?\s*((?:[\w \ue000\ue001'-]+,\s*)*[\w '-]+?,?\s+(?:or|and)\s+[\w '-]+)", words, I)
    if m and re.search(r"\b(?:choose|pick|select|between|which|prefer|option|choice|rather)\b", low):
        options = [re.sub(r"^(?:(?:a|an|the|either|between|among|from|one of|out of|choose|pick)\s+)+(?=\S)", "", o.strip(" .?'\"")) for o in re.split(r",|\bor\b|\band\b", m.group(1))]
    if len(quoted) >= 2:
        options = quoted
    options = list(dict.fromkeys(o for o in options if o))
    if len(options) >= 2:
        args["type"], args["options"] = "choice", options
    elif re.search(r"\b(?:yes or no|yes/no|confirm|whether|if i|should you|do i|am i|is it|are you sure|shall)\b", low):
        args["type"] = "yesno"
    elif re.search(r"\b(?:how (?:many|old|much|long|far)|number|age|integer|amount)\b", low):
        args["type"] = "number"
    else:
        args["type"] = "text"
    args["secret"] = bool(re.search(r"\b(?:password|passphrase|passcode|secret|api[- _]?key|token|credential\w*|pin|credit card|private key)\b", low))
    return Wish("ask", args)


def mcp_call(p: str, text: Text, tools: list[str], named: list[str], servers: list[str]) -> Wish:
    raw = text.raw(p)
    name = named[0] if named else None
    quoted = text.quoted(p)
    if name is None:
        for pattern in (r"\btool\s+(?:called|named)?\s*[:\s]*(\ue000\d+\ue001|[\w.\-/]+)", r"(\ue000\d+\ue001|[\w.\-/]+)\s+(?:mcp )?tool\b", rf"{CALL}\s+(?:the )?(?:mcp )?(\ue000\d+\ue001|[\w.\-/]+)"):
            m = re.search(pattern, p, I)
            if m and m.group(1).lower() not in ("the", "a", "an", "mcp", "on", "of", "with", "from", "named", "called", "this", "that", "to", "and", "any", "some", "server"):
                name = text.inner(m.group(1)).rstrip(".,:")
                break
    args: dict[str, Any] = {}
    loose: list[str] = []
    for q in quoted:
        if q.startswith("{"):
            try:
                value = json.loads(q)
                if isinstance(value, dict):
                    args.update(value)
                    continue
            except ValueError:
                pass
        if q != name and q not in servers:
            loose.append(q)
    value_of = r"(\ue000\d+\ue001|[^\s,;]+)"
    tail = re.split(r"\b(?:with|using|passing|args?|arguments?|parameters?|params?|where|and|on|to)\b|[:(]", p, maxsplit=1, flags=I)
    for m in re.finditer(rf"\b([A-Za-z_]\w*)\s*(?:=|:(?!//)|\bset to\b|\bequal to\b)\s*{value_of}", p):
        if m.group(1).lower() in ("tool", "with", "arguments", "args", "call", "parameters", "params", "following", "input") or m.group(2).startswith("{"):
            continue
        got = text.inner(m.group(2)).rstrip(".)")
        if got.startswith("{") and args:
            continue
        args[m.group(1)] = literal(got) if not m.group(2).startswith("\ue000") else got
        loose = [l for l in loose if l != got]
    server = next((s for s in servers if s and re.search(rf"(?<!\w){re.escape(s)}(?!\w)", raw) and s != name), None)
    numbers = [literal(n) for n in re.findall(r"(?<![\w.\ue000])-?\d+(?:\.\d+)?(?![\w.]*[\w\ue001])", p)]
    said_to = None
    m = re.search(r"\b(?:to (?:say|echo|repeat|send|greet|return|print)|saying|with (?:the )?(?:text|message|argument|input|word|value|arguments|string)s?:?|on|with|for)\s+(?!the\b)([^\ue000]+?)[.!?]?$", p, I)
    if m and not args and not loose:
        said_to = trimmed(m.group(1))
        if said_to in servers or re.search(r"\b(?:server|arguments?|no)\b", said_to):
            said_to = None
    return Wish("mcp_call", {"tool": name, "server": server, "args": args, "loose": loose, "numbers": numbers, "said": said_to, "tail": tail[-1].strip()})


def literal(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
