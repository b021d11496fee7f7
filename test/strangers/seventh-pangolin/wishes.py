"""Turns a plain English prompt into a list of steps. No model, only rules."""
import re
import urllib.parse

QUOTE = re.compile(
    r"```(?:[\w+-]*\n)?(.*?)```"
    r"|`([^`]+)`"
    r"|\"((?:[^\"\\]|\\.)*)\""
    r"|“([^”]*)”"
    r"|‘([^’]*)’"
    r"|«([^»]*)»"
    r"|(?<!\w)'((?:[^']|(?<=\w)'(?=\w))+)'(?!\w)", re.S)
HOLE = re.compile("\x01(\\d+)\x02")
READ = r"\b(?:read|open|show|cat|display|view|look (?:at|into|in)|inspect|check|load|summari[sz]e|what(?:'s| is| does)|contents? of|print|fetch|tell me)\b"
WRITE = r"\b(?:write|create|save|put|store|append|add|overwrite|edit|modify|change|replace|update|make|insert|prepend|rewrite|produce|generate)\b"
SHELL = r"\b(?:run|execute|launch|shell|bash|terminal|command line)\b"
STOP = {"with", "that", "and", "to", "in", "into", "containing", "the", "a", "an", "called", "named", "at", "it",
        "its", "which", "for", "of", "from", "there", "here", "me", "contents", "content", "file", "path", "is",
        "whose", "please", "then", "so", "using", "back", "again", "named:", "called:", "does", "says", "say"}


class Wish:
    """A prompt with quoted passages masked out."""

    def __init__(self, text):
        self.quotes = []

        def grab(m):
            inner = next((g for g in m.groups() if g is not None), "")
            fence = m.group(1) is not None
            if m.group(3) is not None:
                inner = inner.replace('\\"', '"').replace("\\n", "\n")
            self.quotes.append((inner, m.group(0), "fence" if fence else "tick" if m.group(2) is not None else "quote"))
            return "\x01%d\x02" % (len(self.quotes) - 1)
        self.masked = QUOTE.sub(grab, text.replace("\x01", "").replace("\x02", "")).strip()

    def raw(self, masked):
        return HOLE.sub(lambda m: self.quotes[int(m.group(1))][1], masked)

    def plain(self, masked):
        return HOLE.sub(lambda m: self.quotes[int(m.group(1))][0], masked)

    def inside(self, masked):
        return [(int(m.group(1)),) + self.quotes[int(m.group(1))] for m in HOLE.finditer(masked)]


def clean_path(p):
    p = p.strip().rstrip(",;:!?)")
    if p.endswith(".") and not p.endswith(".."):
        p = p.rstrip(".")
    if p.startswith("file://"):
        p = urllib.parse.unquote(urllib.parse.urlsplit(p).path)
    return p


def looks_like_path(s):
    if not s or "\n" in s or len(s) > 400 or "://" in s and not s.startswith("file://"):
        return False
    if s.startswith(("/", "./", "../", "~/", "file://")):
        return True
    if " " in s:
        return bool(re.fullmatch(r"[\w\-. /]+\.[A-Za-z][A-Za-z0-9]{0,7}", s)) and len(s) < 80
    return "/" in s and bool(re.fullmatch(r"[\w\-./@+~]+", s)) or bool(re.fullmatch(r"\.?[\w\-.@+~]*\.[A-Za-z][A-Za-z0-9]{0,7}", s))


def find_paths(w, masked):
    """[(position, path, index of the quote or None)]"""
    found = []
    for m in HOLE.finditer(masked):
        i = int(m.group(1))
        inner, _, style = w.quotes[i]
        before = masked[:m.start()].lower()
        if style != "fence" and (looks_like_path(inner) or (re.search(r"\b(?:file|path|file called|file named|called|named)[:\s]*$", before) and "\n" not in inner and " " not in inner)):
            found.append((m.start(), clean_path(inner), i))
    for m in re.finditer(r"(?<![\w/:.])(file://[^\s,;]+|~?/[^\s,;\x01\x02]+|\.{1,2}/[^\s,;\x01\x02]+|[\w\-@+~./]*\.[A-Za-z][A-Za-z0-9]{0,7}(?![\w/])|[\w\-@+~]+/[\w\-@+~./]+)", masked):
        p = clean_path(m.group(1))
        if p.lower() in ("e.g", "i.e", "etc.", "and/or", "yes/no", "either/or", "true/false") or len(p) < 2:
            continue
        found.append((m.start(), p, None))
    if not found:
        found += [(m.start(), m.group(0), None) for m in re.finditer(r"\b(?:README|LICENSE|Makefile|Dockerfile|CHANGELOG)\b", masked)]
    if not found:
        m = re.search(r"\b(?:file|path)\s+(?:called|named|at|is)?\s*:?\s*([\w\-./]+)", masked, re.I)
        if m and m.group(1).lower() not in STOP:
            found.append((m.start(1), clean_path(m.group(1)), None))
    found.sort()
    return found


def trim(s):
    s = re.sub(r"^(?:exactly|only|just|precisely)\b[\s:]*", "", s.strip(), flags=re.I)
    s = re.sub(r"^(?:the\s+)?(?:following\s+)?(?:exact\s+)?(?:single\s+)?(?:text|words?|lines?|contents?|string|sentence|phrase|message)\s*(?:is|:|of)?\s+", "", s, flags=re.I)
    s = s.lstrip(":,- ").strip()
    if s.endswith(".") and not s.endswith("..."):
        s = s[:-1]
    return s


def find_text(w, masked, paths):
    """The text to be written."""
    used = {i for _, _, i in paths if i is not None}
    free = [q for q in w.inside(masked) if q[0] not in used]
    for q in free:
        if q[3] == "fence":
            return q[1]
    if free:
        return free[0][1]
    bare = masked
    m = re.search(r"(?:\b(?:contain(?:s|ing)?|that says?|saying|which says?|that reads?|with (?:the |exactly |just |only )*(?:following )?(?:contents?|text|words?|lines?|string|body|message|phrase|sentence)|contents?(?: should be| must be| is| of|:)|text:|so (?:that )?it (?:says|contains|reads)|consisting of|with)\b)\s*:?\s*(.+)$", bare, re.I | re.S)
    if m:
        t = trim(w.plain(m.group(1)))
        t = re.sub(r"\s+(?:to|into|in)\s+(?:the\s+)?(?:file\s+)?\S+\.\w+$", "", t) if paths and t.endswith(paths[-1][1]) else t
        if t:
            return t
    if paths:
        m = re.search(WRITE + r"\s+(.+?)\s+(?:to|into|in|inside|at the end of|on)\s+(?:the\s+|a\s+)?(?:new\s+)?(?:file\s+)?(?:called\s+|named\s+|at\s+)?(?:the\s+path\s+)?$", bare[:paths[-1][0]], re.I | re.S)
        if m:
            t = trim(w.plain(m.group(1)))
            if t and t.lower() not in ("a file", "a new file", "the file", "file", "it", "something", "a line", "anything"):
                return t
        tail = bare[paths[0][0]:].split(":", 1)
        if len(tail) == 2 and tail[1].strip():
            return trim(w.plain(tail[1]))
    return None


def shell_command(w, masked):
    m = re.search(r"\b(?:run|execute|launch|start|type|use)\b", masked, re.I)
    rest = masked[m.end():] if m else masked
    rest = re.sub(r"^\s*(?:(?:the|this|a|following|shell|bash|terminal|command|commands|script|program|for me|in|your|client's|please|line)\b\s*)*:?\s*", "", rest, flags=re.I)
    if rest.startswith("\x01"):
        return w.quotes[int(HOLE.match(rest).group(1))][0].strip()
    rest = re.sub(r"^to\s+(?:run|execute|launch|start)\s+(?:the\s+)?(?:command\s+)?:?\s*", "", rest, flags=re.I)
    if re.match(r"to\b.*\b(?:working|current) directory\b", rest, re.I):
        return "pwd"
    if re.match(r"to\b.*\blist\b.*\b(?:files|directory|folder)\b", rest, re.I):
        return "ls"
    if rest.startswith("\x01"):
        return w.quotes[int(HOLE.match(rest).group(1))][0].strip()
    ticks = [q for q in w.inside(masked) if q[3] in ("tick", "fence")]
    if ticks:
        return ticks[0][1].strip()
    rest = w.raw(rest)
    rest = re.split(r"(?:,|;)?\s+(?:in (?:the|a|your|my) (?:terminal|shell|background|console|working directory|current directory)|using (?:the|a) (?:terminal|shell)|and\s+(?:then\s+)?(?:tell|show|report|give|let|print|say|explain|return|share|describe)\b|(?:for me|please)\b)", rest, maxsplit=1, flags=re.I)[0]
    rest = rest.strip().rstrip("?!")
    if rest.endswith(".") and not rest.endswith(" ."):
        rest = rest[:-1]
    return rest.strip()


def tool_arguments(w, masked, tool):
    import json
    text = w.plain(masked)
    at = text.find("{")
    while at >= 0:
        try:
            value, _ = json.JSONDecoder().raw_decode(text[at:])
            if isinstance(value, dict):
                return value
        except ValueError:
            pass
        at = text.find("{", at + 1)
    schema = tool.get("inputSchema") if isinstance(tool.get("inputSchema"), dict) else {}
    props = schema.get("properties") if isinstance(schema.get("properties"), dict) else {}

    def cast(name, value):
        kind = (props.get(name) or {}).get("type")
        try:
            if kind == "integer":
                return int(value)
            if kind == "number":
                return float(value)
            if kind == "boolean":
                return value.lower() in ("true", "yes", "1", "on")
        except ValueError:
            pass
        return value
    args = {}
    for name in props:
        m = re.search(r"(?<![\w-])[\"'`]?%s(?!\w)[\"'`]?\s*(?:=|:|\bset to\b|\bto be\b|\bas\b|\bis\b)?\s*(\x01\d+\x02|[^\s,;]+)" % re.escape(name), masked, re.I)
        if m:
            v = w.plain(m.group(1))
            if v.lower() in ("and", "with", "of", "argument", "the", "parameter", "to", "tool", "is") or v == tool.get("name"):
                continue
            value = cast(name, v if m.group(1).startswith("\x01") else v.rstrip(".)"))
            if (props[name] or {}).get("type") in ("integer", "number") and isinstance(value, str):
                continue
            args[name] = value
    missing = [n for n in (schema.get("required") or list(props)) if n not in args and n in props]
    free = [q[1] for q in w.inside(masked) if q[1] != tool.get("name") and q[1] not in args.values() and q[1] not in props and q[1] != tool.get("_server")]
    numbers = re.findall(r"(?<![\w.])-?\d+(?:\.\d+)?(?![\w])", HOLE.sub(" ", masked))
    for name in missing:
        kind = props[name].get("type")
        if kind in ("integer", "number") and numbers:
            args[name] = cast(name, numbers.pop(0))
        elif kind == "boolean":
            args[name] = True
        elif free:
            args[name] = cast(name, free.pop(0))
        elif kind in (None, "string"):
            m = re.search(r"\b(?:with|on|for|to say|saying|input|text|message|argument)\b[:\s]+(.+)$", masked, re.I | re.S)
            args[name] = trim(w.plain(m.group(1))) if m else w.plain(masked)
    return args


def question_of(w, masked):
    low = masked.lower()
    q = {"text": None, "options": [], "kind": "string"}
    quotes = [x[1] for x in w.inside(masked)]
    m = re.search(r"\b(?:between|from|among|one of|either|options?(?: are)?:?|choices?:?)\s+(.+?)(?:[.?!]|$)", masked, re.I)
    if len(quotes) >= 2:
        q["options"] = quotes
    elif m:
        parts = [p.strip() for p in re.split(r",|\bor\b|\band\b", w.plain(m.group(1))) if p.strip()]
        if 2 <= len(parts) <= 8 and all(len(p) < 30 for p in parts):
            q["options"] = parts
    if len(quotes) == 1:
        q["text"] = quotes[0]
    else:
        m = re.search(r"\b(?:ask|prompt)\s+(?:me|the user|your user|the human|us)\s*(?:a question\b|for\b|about\b)?[:,]?\s*(.*)$", masked, re.I | re.S)
        t = w.plain(m.group(1)).strip() if m else ""
        q["text"] = t[:200] or "What would you like?"
    if re.search(r"\b(?:password|passphrase|api[ -]?key|access token|credentials?|pin code|credit card|private key|sign in|log ?in)\b", low):
        q["kind"] = "secret"
    elif q["options"]:
        q["kind"] = "choice"
    elif re.search(r"\b(?:yes or no|yes/no|whether|confirm\w*)\b", low):
        q["kind"] = "boolean"
    elif re.search(r"\b(?:how many|number|age|how old|integer)\b", low):
        q["kind"] = "integer"
    return q


def one(w, masked, tools, last_path):
    low = masked.lower().strip()
    lead = re.sub(r"^(?:(?:please|now|ok|okay|hey|hi|hello|just|kindly|can you|could you|would you|will you|i want you to|i'd like you to|i would like you to)[,!.]?\s+)+", "", low)
    paths = find_paths(w, masked)
    quotes = w.inside(masked)

    def first(rx):
        m = re.search(rx, low)
        return m.start() if m else None

    # --- memory
    asks = "?" in low or re.match(r"(?:what|which|tell me|do you|repeat the|recall|say the|give me the)", lead)
    about = re.search(r"\b(?:remember(?:ed)?|recall|i (?:told|gave|asked|mentioned|said)|you were told|secret|code ?word|magic word|memori[sz]ed|kept in mind|earlier|before)\b", low)
    if asks and about and not paths and not re.match(r"(?:remember|memori[sz]e|keep in mind)\b", lead) and not re.search(r"\b(?:word|secret|code|number|phrase) is\b(?! (?:it|that|the)\b)", low.split("?")[0] if low.find("?") < 0 else "") :
        return {"do": "recall"}
    if re.search(r"\b(?:remember|memori[sz]e|keep in mind|don't forget|make a (?:mental )?note)\b", low) or re.search(r"\b(?:secret|code ?word|magic word|codename|pass ?phrase)\b[^?]*\bis\b[^?]*$", low) and not paths:
        if quotes:
            word = quotes[0][1]
        else:
            bad = r"(?!(?:is|that|for|to|and|it|this|the|of|a|an|me|please|in|later)\b)"
            m = re.search(r"(?:\bis|:|=)\s*" + bad + r"(\w[\w\-]*)", masked, re.I) or \
                re.search(r"\b(?:word|number|code|secret|phrase|name|token|codeword|colou?r|animal|fruit)\s+" + bad + r"(\w[\w\-]*)", masked, re.I)
            m2 = re.search(r"\b(?:remember|memori[sz]e|keep in mind|note)\b\s*(?:that|this|the)?[:\s]+(.+)$", masked, re.I | re.S)
            word = m.group(1) if m else trim(w.plain(m2.group(1))) if m2 else w.plain(masked)
        return {"do": "remember", "what": word}

    # --- tools of connected MCP servers
    names = sorted((t for t in tools), key=len, reverse=True)
    for name in names:
        short = tools[name]["name"]
        if re.search(r"(?<![\w-])%s(?![\w-])" % re.escape(short), w.plain(masked)) and (
                re.search(r"\b(?:tool|mcp)\b", low) or
                re.search(r"\b(?:call|use|invoke|using)\s+(?:the\s+)?[`'\"]?%s(?![\w-])" % re.escape(short), w.plain(masked), re.I)):
            return {"do": "mcp", "tool": name, "args": tool_arguments(w, masked, tools[name])}
    if re.search(r"\bmcp\b", low) and not paths:
        if re.search(r"\b(?:list|which|what|available)\b", low):
            return {"do": "tools"}
        if len(tools) == 1:
            name = names[0]
            return {"do": "mcp", "tool": name, "args": tool_arguments(w, masked, tools[name])}
        return {"do": "tools"}

    # --- questions to the user
    if re.search(r"\bask (?:me|the user|your user|the human|us)\b|\belicit|\bprompt (?:me|the user) (?:for|to|with)\b|\blet me (?:choose|pick)\b|\bquestion (?:for|to) (?:me|the user)\b|\bshow (?:me )?a form\b", low):
        return {"do": "ask", "question": question_of(w, masked)}

    # --- say back
    if re.match(r"(?:say|repeat|echo|reply|respond|answer|parrot|output|return)\b", lead) and not re.search(r"\b(?:shell|terminal|command)\b", low):
        if quotes:
            return {"do": "say", "text": quotes[0][1]}
        t = w.plain(masked)
        t = re.sub(r"^.*?\b(?:say|repeat|echo|reply|respond|answer|parrot|output|return)\b\s*", "", t, count=1, flags=re.I | re.S)
        if ":" in t and re.match(r"[\w\s,]{0,60}:", t):
            t = t.split(":", 1)[1]
        t = re.sub(r"^(?:(?:back|exactly|only|just|simply|with|after me|the|single|words?|text|following|phrase|sentence|this|to me|verbatim|to this message|me)\b[\s,:]*)+", "", t.strip(), flags=re.I)
        t = re.sub(r",?\s+(?:and nothing else|only|please)[.!]*$", "", t, flags=re.I)
        return {"do": "say", "text": t.strip().rstrip(".") or "Hello!"}

    shell, write, read = first(SHELL), first(WRITE), first(READ)
    if shell is not None and re.match(r"\.\w", low[shell + 3:]):
        shell = None
    order = sorted((p, n) for p, n in ((shell, "shell"), (write, "write"), (read, "read")) if p is not None)
    top = order[0][1] if order else None
    filed = bool(paths) or bool(last_path and re.search(r"\b(?:it|the file|that file|its)\b", low))

    if re.search(r"\bmode\b", low) and re.search(r"\b(?:switch|change|set|go|enter|move|use|put|turn)\b", low) and not paths:
        return {"do": "mode", "text": w.plain(masked)}
    if top == "shell" and not (write is not None and paths and shell > write):
        c = shell_command(w, masked)
        if c:
            return {"do": "shell", "command": c}
    if re.search(r"\bplan\b|\bto-?do list\b|\bstep[- ]by[- ]step list\b", low) and not (paths and top in ("write", "read")):
        m = re.search(r"\bplan\b\s*(?:for|to|of|how to|about)?\s*(.*)$", masked, re.I | re.S)
        return {"do": "plan", "goal": trim(w.plain(m.group(1)))[:80] if m else ""}
    if not filed and re.search(r"\b(?:story|tale|poem|essay|saga|novel|fable|count (?:slowly )?(?:from|to|up)|slowly|at length|keep (?:talking|writing)|\d+[- ]words?|paragraphs?|long (?:text|answer|reply|response|message|explanation|monologue|output))\b", low):
        return {"do": "story", "short": bool(re.search(r"\b(?:short|brief|one-sentence|tiny)\b", low)), "topic": trim(w.plain(masked))[:60]}
    if re.search(r"\bthink(?:ing)?\b|\breason (?:aloud|out loud|step)|\bponder\b|\bthink-aloud\b", low) and not filed:
        return {"do": "think", "about": trim(re.sub(r"^.*?\b(?:think|ponder|reason)\b\s*(?:aloud|out loud|hard|carefully)?\s*(?:about|on|over)?\s*", "", w.plain(masked), flags=re.I | re.S))[:80]}
    if re.search(r"\b(?:list|which|what|show)\b.*\b(?:files|directory listing|folder|entries)\b", low) and not paths:
        return {"do": "shell", "command": "ls -a"}
    if re.search(r"\b(?:current|working) directory\b|\bpwd\b|\bwhere are you\b", low) and not paths:
        return {"do": "shell", "command": "pwd"}

    if filed and top in ("write", None) and (write is not None):
        path = paths[0][1] if paths else last_path
        target = paths[:1]
        m = re.search(r"\b(?:replace|change|substitute|swap)\b\s+(.+?)\s+(?:with|to|by|into|for)\s+(.+?)(?:\s+in\b|\s*,|\s*\.?$)", masked, re.I | re.S)
        used = {i for _, _, i in paths if i is not None}
        free = [q for q in quotes if q[0] not in used]
        if re.search(r"\b(?:replace|change|substitute|swap)\b", low) and len(free) >= 2:
            return {"do": "edit", "path": path, "old": free[0][1], "new": free[1][1]}
        if re.search(r"\b(?:replace|substitute|swap)\b", low) and m and not free:
            return {"do": "edit", "path": path, "old": trim(w.plain(m.group(1))), "new": trim(w.plain(m.group(2)))}
        if len(paths) > 1 and free == [] and re.search(r"\b(?:write|save|put|create)\b", low):
            target = paths[-1:]
            path = paths[-1][1]
        text = find_text(w, masked, target)
        if re.search(r"\b(?:append|add|insert)\b", low) and not re.search(r"\badd a (?:new )?file\b", low):
            return {"do": "append", "path": path, "text": text if text is not None else "One more line."}
        if re.search(r"\b(?:edit|modify|update)\b", low) and text is None:
            return {"do": "append", "path": path, "text": "Edited by the pangolin."}
        if text is None:
            text = "Hello from the pangolin.\n"
        return {"do": "write", "path": path, "text": text}
    if filed and (top == "read" or top is None or top == "shell"):
        m = re.search(r"\blines?\s+(\d+)(?:\s*(?:-|to|through|and|until)\s*(\d+))?", low)
        ps = []
        for _, p, _ in paths:
            if p not in ps:
                ps.append(p)
        step = {"do": "read", "paths": ps or [last_path]}
        if m:
            step["line"] = max(1, int(m.group(1)))
            step["limit"] = max(1, int(m.group(2) or m.group(1)) - step["line"] + 1)
        else:
            m = re.search(r"\bfirst (\d+|three|two|five|ten)? ?lines?\b", low)
            if m:
                n = {"two": 2, "three": 3, "five": 5, "ten": 10}.get(m.group(1) or "", None) or int(m.group(1) or 1)
                step["line"], step["limit"] = 1, n
        return step
    if re.match(r"(?:hi|hello|hey|good (?:morning|evening|day))\b", low):
        return {"do": "hello"}
    return {"do": "unknown"}


SPLIT = re.compile(r"(?:\s*[,;.]\s*|\s+)(?:and\s+)?(?:then|after that|afterwards|finally)\b[,:]?\s+", re.I)


def understand(text, tools):
    w = Wish(text)
    parts = [p for p in SPLIT.split(w.masked) if p.strip()]
    if not 1 < len(parts) <= 6:
        parts = [w.masked]
    steps, last = [], None
    for p in parts:
        s = one(w, p, tools, last)
        if s["do"] == "unknown" and len(parts) > 1:
            return [one(w, w.masked, tools, None)]
        last = s.get("path") or (s.get("paths") or [last])[-1]
        steps.append(s)
    return steps
