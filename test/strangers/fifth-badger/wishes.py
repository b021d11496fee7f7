"""Plain rules that turn what a person types into a list of wishes, in order. No model, only wordings."""
import json
import re

PH = "\x01(\\d+)\x02"                      # a masked quotation
ACTS = (r"(?:say|repeat|reply|respond|answer|echo|tell|read|show|open|display|print|cat|view|look|write|create|make|save|put|store|add|append|"
        r"insert|change|replace|edit|update|swap|substitute|modify|rename|correct|fix|delete|remove|erase|unlink|run|execute|launch|invoke|call|use|list|ls|"
        r"count|talk|speak|ask|plan|think|reason|remember|recall|describe|explore|give|report|wait|sleep|summari[sz]e|start|overwrite|generate|work|finish|trash|"
        r"greet|let|check|inspect|examine|fetch|set|send|draft|stop|carry|do|go|continue)")
LEAD = re.compile(r"^(?:(?:first(?:ly)?(?! \w+ lines?| lines?| line)|second(?:ly)?|third(?:ly)?|next|finally|lastly|now|also|please|pls|kindly|just|simply|then|and|afterwards|after that|"
                  r"ok(?:ay)?|hey|hi|hello|there|so|quickly|(?:could|can|would|will) you(?: please)?|i(?:'d| would) like you to|i (?:want|need) you to|"
                  r"i'd like to|go ahead and|let's|let us|you should|you must|your task is to|try to|try(?= running)|help me(?: to)?|be so kind as to|"
                  r"step \d+|\d+[.)]|[-*•])[\s,:.!-]+)+", re.I)
TAIL = re.compile(r"[\s,]*(?:\b(?:please|pls|for me|thanks?(?: you)?|if you (?:can|would|please)|right now|now|would you|will you)\b[\s,.!?]*)+$", re.I)
KNOWN = {"readme", "makefile", "license", "dockerfile", "changelog"}
WEAK = {"with", "and", "in", "that", "to", "from", "containing", "contains", "for", "of", "here", "which", "called", "named", "so", "it", "its", "there",
        "system", "content", "contents", "name", "by", "then", "again", "please", "back", "saying", "at", "whose", "i", "you", "is", "into", "on", "attached",
        "reading", "holding", "list", "linked", "itself", "path", "has", "the", "a", "using", "via", "through", "now", "but", "or", "if", "be", "using"}
DULL = r"(?:a |an |the |my |this |that |new |text |some )*"
NUMBERS = {w: n for n, w in enumerate("zero one two three four five six seven eight nine ten eleven twelve".split())} | {"fifteen": 15, "twenty": 20,
           "thirty": 30, "fifty": 50, "a hundred": 100, "hundred": 100, "a": 1}
NUM = r"(\d+(?:\.\d+)?|" + "|".join(sorted(NUMBERS, key=len, reverse=True)) + r")"


def number(word):
    return NUMBERS[word.lower()] if word.lower() in NUMBERS else float(word)


class Text:
    """A prompt with its quotations put aside, so that their words are not taken for wishes."""

    def __init__(self, text):
        self.kept = []                     # (raw, bare, kind)
        self.text = self._json(self._fences(text.replace("\x01", "").replace("\x02", "").replace("\r\n", "\n")))
        for pat, kind in ((r'"((?:[^"\\]|\\.)*)"', "q"), (r"“([^”]*)”", "q"), (r"«\s?([^»]*?)\s?»", "q"), (r"‘([^’]*)’", "q"),
                          (r"(?<![\w\x02])'((?:[^'\s]|\s(?!')|(?<=\w)'(?=\w))(?:[^'\n]|(?<=\w)'(?=\w))*?)'(?!\w)", "q"), (r"(?<![\w\x02])''(?!\w)()", "q")):
            self.text = re.sub(pat, lambda m: self.keep(m[0], m[1] if m.lastindex else "", kind), self.text, flags=re.S)
        self.text = re.sub(r"(?<=\S)[ \t]*\n\s*(?=" + PH.replace("(", "(?:") + r"\s*(?:\n|$))", " ", self.text)      # a quotation on lines of its own
        self.text = re.sub(r"(\b(?:contents?|text|lines|following|body)(?: (?:is|be|text|content))?\s*:\s*\n)([^\x01].*)", lambda m: m[1].rstrip() + " " +
                           self.keep(m[2], m[2].strip("\n"), "q"), self.text, flags=re.S | re.I)
        self.text = re.sub(r"(\b(?:contents?|text)\s*:\s*)([^\x01\s][^\n]*?)(?=[,.;]?\s+(?:and\s+)?then\b|\n|$)", lambda m: m[1] +
                           self.keep(m[2], m[2].strip(), "q"), self.text, flags=re.I)

    def keep(self, raw, bare, kind):
        if kind == "q" and raw[:1] == '"' and "\\" in bare:
            try:
                bare = json.loads('"' + bare.replace("\n", "\\n") + '"')
            except ValueError:
                pass
        self.kept.append((raw, bare, kind))
        return f"\x01{len(self.kept) - 1}\x02"

    def _fences(self, t):
        t = re.sub(r"```[\w+-]*\n(.*?)\n?```", lambda m: self.keep(m[0], m[1], "code"), t, flags=re.S)
        return re.sub(r"`([^`\n]+)`", lambda m: self.keep(m[0], m[1], "code"), t)

    def _json(self, t):
        out, i = "", 0
        while True:
            at = t.find("{", i)
            if at < 0:
                return out + t[i:]
            out += t[i:at]
            try:
                _, i = json.JSONDecoder().raw_decode(t, at)
                out += self.keep(t[at:i], t[at:i], "json")
            except (ValueError, RecursionError):
                out, i = out + "{", at + 1

    def raw(self, s):
        while re.search(PH, s):
            s = re.sub(PH, lambda m: self.kept[int(m[1])][0], s)
        return s

    def bare(self, s):
        s = re.sub(PH, lambda m: self.kept[int(m[1])][1], s)
        return self.raw(s) if re.search(PH, s) else s

    def quotes(self, s, kinds=("q", "code")):
        return [self.raw(self.kept[int(n)][1]) for n in re.findall(PH, s) if self.kept[int(n)][2] in kinds]


def split(t):
    """Cut the masked text into clauses, one wish each."""
    clauses = []
    for line in t.split("\n"):
        for part in re.split(r"(?<=[.!?])\s+(?=[A-Z\x01]|" + ACTS + r"\b)|[,;.]?\s+(?:and\s+)?then(?:,|\b)\s+(?!\d)|[,;.]\s*(?:and\s+)?"
                             r"(?:after that|afterwards|after which|next|finally|lastly)\b,?\s+|\s+and (?:finally|lastly|next|afterwards|after that)\b,?\s+", line):
            if not part:
                continue
            bits = re.split(r"((?:[,;]\s*(?:and\s+)?(?:also\s+)?|\s+and\s+(?:also\s+)?|\s+but\s+(?:first\s+)?)(?:please\s+)?(?=" + ACTS + r"\b))", part, flags=re.I)
            now = bits[0]
            for sep, bit in zip(bits[1::2], bits[2::2]):
                shellish = sep.lstrip()[:1] == ";" and re.match(r"(?:run|execute|\$)", LEAD.sub("", now), re.I)
                doubled = re.match(r"(?:and |, )", sep.strip() + " ") and re.fullmatch(r"\W*(?:please\s+)?\w+\W*", now) and not re.search(PH, now) \
                    and not re.match(r"\W*(?:plan|think)", now, re.I)
                doubled = doubled or re.match(r"\W*(?:in|inside|within|into|to|from|for|using|with|on|via)\b", LEAD.sub("", now), re.I)  # "create and write ...", "read, show ..."
                if shellish or doubled:
                    now += sep + bit
                else:
                    clauses.append(now)
                    now = bit
            clauses.append(now)
    return [c.strip() for c in clauses if c.strip(" \t.,;:!?-*")]


def find_paths(t, c):
    """Paths in a clause as (start, end, path)."""
    found = []
    for m in re.finditer(r"\S+", re.sub("(\x02)(?=\x01)", r"\1 ", c)):
        token, start = m[0], m.start()
        ph = re.search(PH, token)
        before = c[max(0, start - 60):start].rstrip().lower()
        pointed = re.search(r"(?:\bfile|named|called|\bpath|filename)(?: (?:is|at))?[:=]?$", before)
        if ph:
            bare, kind = t.kept[int(ph[1])][1], t.kept[int(ph[1])][2]
            pathlike = re.fullmatch(r"[\w@+~/.-]*(?:/[\w@+.-]+|\.[A-Za-z0-9_]{1,10})/?", bare) and not re.fullmatch(r"\d+\.\d+|\.+", bare)
            if pathlike and bare[-1:] != "." or bare.lower() in KNOWN or bare.startswith("file:///"):
                found.append((start + ph.start(), start + ph.end(), bare))
            elif pointed and bare and len(bare) < 200 and "\n" not in bare and kind != "json":
                found.append((start + ph.start(), start + ph.end(), bare))
            elif re.fullmatch(r"[\w@+~/. -]+\.[A-Za-z0-9]{1,5}", bare) and re.search(r"(?:\bto|into|in|from|read|open|cat|show|delete|remove|edit)$", before):
                found.append((start + ph.start(), start + ph.end(), bare))
            continue
        left = len(token) - len(token.lstrip("([{<\"'"))
        token = token.strip("([{<\"'").rstrip(",;:!?)]}>\"'…")
        token = token.rstrip(".") if not re.fullmatch(r"\.{1,2}|.*/\.{1,2}", token) else token
        token = re.sub(r"'s$", "", token)
        if not token or re.match(r"(?!file:)[a-z][a-z0-9+.-]*://", token, re.I):
            continue
        low = token.lower()
        good = low.startswith("file:///") or re.match(r"(?:/|\./|\.\./|~/)\S", token) or low in KNOWN or re.fullmatch(r"\.[a-zA-Z][\w.-]+", token) \
            or re.fullmatch(r"(?:[\w@+.-]+/)*[\w@+-][\w@+.-]*\.(?=\w*[A-Za-z_])[A-Za-z0-9_]{1,10}", token) and low not in ("e.g", "i.e") \
            or (re.fullmatch(r"(?:[\w@+.-]+/)+[\w@+.-]*", token) and low not in ("and/or", "he/she", "yes/no", "tcp/ip"))
        if not good and re.fullmatch(r"[\w@+-][\w@+.-]*", token) and low not in WEAK:
            good = re.search(r"(?:\bfile (?:named|called)|named|\bfilename|\bfile)$", before) or re.fullmatch(r"\W*(?:please )?(?:read|cat|open|rm)", before) and not c[m.end():].strip(" .!?")
        if good:
            found.append((start + left, start + left + len(token), token))
    return found


def strip_file_scheme(p):
    from urllib.parse import unquote
    return unquote(p[7:]) if p.lower().startswith("file:///") else p


def tidy(s):
    short = TAIL.sub("", s.strip()).strip()
    return short if re.search(r"\s|" + PH, short) else s.strip()


def spoken(t, rest):
    """The text a person wants said, from what follows the verb."""
    rest = tidy(rest)
    noun = r"(?:following|single|one|exact|words?|text|phrase|sentence|line|message|string|token)"
    unit = (r"\s*(?:back|me|us|to me|after me|out loud|aloud|only|just|exactly|precisely|simply|literally|with|by saying|following|word for word|verbatim|"
            r"and nothing else|and only this|(?:the|a|these|one|this)(?:\s+" + noun + r")+|this)(?![\w'-])\s*([,:])?\s*")
    rest = re.sub(r"^\s*:\s*", "", rest)
    while True:
        m = re.match(unit, rest, re.I)
        if not m or not rest[m.end():]:
            break
        rest = rest[m.end():]
        if m[1] == ":":
            break
    quotes = t.quotes(rest)
    times = re.search(NUM + r" times\b|\b(twice|thrice)\b", re.sub(PH, "", rest), re.I)
    if quotes:
        said = " ".join(quotes) if not re.search(r"new ?lines?|separate lines", rest) else "\n".join(quotes)
    else:
        rest = re.sub(r"[,.]?\s*(?:(?:and |with )?nothing (?:else|more)|(?:and )?only that|" + NUM + r" times|twice|thrice|(?:back )?to me|in (?:your|the) (?:answer|reply|chat)"
                      r"|verbatim|word for word|exactly|slowly|and that'?s (?:it|all)|without (?:any|other).*)[.!]*$", "", rest, flags=re.I)
        said = t.raw(rest).strip()
        if re.fullmatch(r"[^.!?]+\.", said) and said.count(" ") < 12:
            said = said[:-1]
    if times:
        n = {"twice": 2, "thrice": 3}.get((times[2] or "").lower()) or int(number(times[1]))
        said = " ".join([said] * max(1, min(n, 500)))
    return said


def command_of(t, c):
    """The shell command in a clause, or None."""
    low = c.lower()
    m = re.match(r"\$\s+(.+)", c, re.S)
    if m:
        return t.raw(m[1]).strip()
    verb = re.match(r"(?:use|open|in|with|on|from|via|inside|through)\s+(?:(?:a|the|your|my)\s+)*(?:terminal|shell|bash|console|command line|command prompt)(?: tool)?\s*"
                    r"(?:,|:|to|and|for)*\s*(?:(?:run|execute|do|type|start|launch|running)\b)?\s*(.*)", c, re.S | re.I) \
        or re.match(r"(?:run|execute|launch|perform|fire up|exec|start|issue|invoke|running)\b\s*(.*)", c, re.S | re.I) \
        or re.match(r"(?:do|try|type|enter|use|call|show me|give me|tell me|see)\s+(?:(?:the|a|this|output|result|of)\s+)*(?:(?:shell|bash|terminal)\s+)?(?:command\b|commands\b)\s*:?\s*(.*)",
                    c, re.S | re.I) \
        or re.match(r"(?:what (?:does|is the output of|do you get from)|(?:show|give|tell)(?: me)? (?:the )?(?:output|result) of)\s+(?:running\s+)?(?=\x01|run)(.*)", c, re.S | re.I) \
        or re.match(r"(?:type|enter|do|try)\s+(?=\x01)(.*(?:terminal|shell|bash|console).*)", c, re.S | re.I)
    if not verb:
        if c != "ls" and re.fullmatch(r"(?:ls|pwd|date|whoami|uname|env|hostname|id|git|sleep|ps|df)(?: +(?:-[\w-]+|[\w./-]+)){0,4}", c) and not re.search(r"\b(?:for|the|seconds?)\b", c):
            return c
        m = re.match(r"(?:sleep|pause|nap)\s+(?:for\s+)?" + NUM + r"\s*(?:s|secs?|seconds?)?\b", low)
        if m:
            return f"sleep {number(m[1]):g}"
        if re.match(r"(?:print|show|tell|give|what)\b.*\b(?:working|current) directory", low) and "files" not in low:
            return "pwd"
        whole = re.fullmatch(PH + r"[.!]?", c)
        return t.kept[int(whole[1])][1] if whole and t.kept[int(whole[1])][2] == "code" else None
    rest = tidy(verb[verb.lastindex])
    rest = re.sub(r"^(?:(?:me|the|a|an|this|following|simple|quick|long-running|long|such as|like|e\.g\.|with(?= \x01)|slow|shell|bash|terminal|unix|linux|sh|command|commands|program|line|script|in the (?:terminal|shell|background))"
                  r"\b[\s:,]*)+(?=\S)", lambda m: "" if re.search(r"command|shell|bash|terminal|following|program|line|this|with|[:]|\bme\b|\b(?:the|a)\b", m[0], re.I) else m[0], rest, flags=re.I)
    rest = re.sub(r"^:\s+", "", rest)
    codes = t.quotes(rest)
    m = re.match(r"(?:for|that|which|to|lasting|taking)?\s*(?:sleeps?|takes?|lasts?|waits?|runs?|lasting|taking|for|sleeping)\s+(?:for\s+)?(?:about\s+)?" + NUM + r"\s*(?:s|secs?|seconds?)\b", rest, re.I)
    if m:
        return f"sleep {number(m[1]):g}"
    m = re.match(r"(?:that|which|to)\s+(?:fails?|exits?|returns?|ends?)\b.*?(?:" + NUM + r")?\s*[.!]?$", rest, re.I)
    if m:
        return f"exit {int(number(m[1])) if m[1] else 1}"
    m = re.match(r"(?:that|which|to)\s+(?:prints?|echoe?s?|outputs?|says?|writes?|shows?)\s+(.+)", rest, re.I)
    if m:
        return "printf '%s\\n' '" + spoken(t, m[1]).replace("'", "'\\''") + "'"
    if codes and (re.match(PH, rest) or re.search(r"(?:command|shell|bash|terminal)\s*:?\s*" + PH, c, re.I)):
        ph = re.match(PH + r"(?=$|[\s.,!?;:)])(.*)", rest, re.S)
        if ph is None or not re.match(r"\s*(?:[-<>|&\w./]*[<>|&]|-\w)", ph[2]):
            return codes[0].strip()                       # a whole command in quotes, more words after it
    if not rest or re.fullmatch(r"(?:it|that|command|something|again|this|in the (?:terminal|shell))?[.!]?", rest, re.I):
        return None
    rest = re.sub(r"[,.]?\s+(?:in|on|using|from|with|inside|via|through) (?:a |the |your |my )*(?:terminal|shell|bash|console|command line|current directory|working directory|workspace)\s*[.!?]*$", "", rest, flags=re.I)
    rest = re.sub(r"\s+(?:command|in the background)[.!?]*$", "", rest)
    rest = re.sub(r"(?<=[\w\x02\"'/)])[.!?]+$", "", rest)
    cmd = t.raw(rest).strip()
    return cmd if cmd and not re.match(r"(?:through|out|away|into|over|with)\b", cmd) else None


def content_of(t, c, spans, quotes):
    if quotes:
        return "\n".join(quotes)
    marked, last = "", 0
    for s, e, _ in spans[:1]:
        marked += c[last:s] + "\x03"
        last = e
    marked += c[last:]
    if re.search(r"\b(?:empty|blank)\b", marked, re.I):
        return ""
    for pat in (r"\b(?:containing|contains|saying|says|that reads|which reads|reading|holding|that has|consisting of|whose contents? (?:is|are|be|says?)|with contents?|with the (?:contents?|text|words?|line|body|message|string|sentence)"
                r"|with text|with|content(?:s)?(?: is| being| of| to| should be)?|to (?:say|read|be|contain)|so (?:that )?it (?:says|reads|contains))\b\s*(?:(?:the|just|only|exactly|following|text|contents?|words?|line|message|string|of|single)\b\s*)*[:=]?\s*(.+)$",
                r"^(?:write|put|save|store|add|append|insert|place|dump|record|jot)\s+(?:down\s+)?(?:(?:the|this|following|text|words?|line|string|content|sentence|message|phrase)\b\s*)*:?\s*(.+?)\s+"
                r"(?:to|in|into|inside|onto|at the end of|at the bottom of|as)\s+" + DULL + r"(?:file\s+)?(?:named\s+|called\s+)?\x03",
                r"\x03[\"']?\s*(?::|=|,)\s*(.+)$"):
        m = re.search(pat, marked, re.I | re.S)
        if m and "\x03" not in m[1]:
            return re.sub(r"(?<=\w)\.$", "", tidy(t.raw(m[1])))
    return None


class Mind:
    """Understands one prompt. has_mcp: the session has MCP servers; names(): their tool names (this starts them)."""

    def __init__(self, text, has_mcp, names, server_names=(), has_files=False):
        self.t, self.has_mcp, self.names, self.server_names, self.has_files = Text(text), has_mcp, names, server_names, has_files
        self.last_path = None

    def wishes(self):
        out = []
        slash = re.match(r"\s*/(recall|tools|run|ls)\b[ \t]*(.*)", self.t.text, re.S)
        if slash:
            rest = self.t.raw(slash[2]).strip()
            return [{"recall": {"do": "recall"}, "tools": {"do": "mcp_list"}, "ls": {"do": "list", "path": rest or "."},
                     "run": {"do": "run", "command": rest} if rest else {"do": "chat", "text": "/run"}}[slash[1]]]
        for clause in split(self.t.text[:8000]):           # beyond that it is material, not wishes
            out += self.clause(clause, out)
        if len(out) > 1:                                   # small talk beside real wishes is not worth an answer of its own
            out = [w for w in out if w["do"] != "chat"] or out[:1]
        out.sort(key=lambda w: not w.get("front"))
        plans = [w for w in out if w["do"] == "plan"]
        return plans[:1] + [w for w in out if w["do"] != "plan"] if plans else out

    def clause(self, c, before):
        orig = c.strip()
        c = LEAD.sub("", orig).strip()
        c = tidy(c) or c
        low, t = re.sub(PH, "\x01", c.lower()), self.t
        last = before[-1]["do"] if before else None
        if not low.strip(" .,!?"):
            return []
        if last and re.match(r"(?:show|tell|give|report|print|display|read|repeat|return|send|share|let|say|describe|summari[sz]e|reply|respond|answer|wait)\b[^\x01]*\b(?:it|its|output|results?|contents?|happen(?:s|ed)|find|found|"
                             r"(?:it|file) says|answer|back|prints?|printed|me know|came (?:out|back)|get|got|text|see|this|them)\b[^\x01]*$", low) and not find_paths(t, c):
            if last in ("write", "edit", "append") and self.last_path:
                return [{"do": "read", "path": self.last_path}]
            if last in ("read", "run", "mcp", "list", "mcp_list", "delete", "describe", "ask", "recall"):
                return []
        if re.match(r"(?:work|go|get|carry|follow|execute|do|finish|complete|step)\w*\b.*\b(?:plan|through it|it out|steps?|them|each|on it|through)\b|carry it out", low) and any(w["do"] == "plan" for w in before):
            return []
        slow = bool(re.search(r"\bslow(?:ly)?\b|\btake your time\b|\bgradually\b|\bone (?:word|letter) at a time\b", low))
        say = re.match(r"(?:(?:please )?(?:say|repeat|utter|pronounce|speak)\b|(?:reply|respond|answer|come back)\b(?: to (?:me|this))?(?=[\s:]+(?:with|by saying|only|just|exactly|in|using|\x01|:))|echo\b|parrot\b|"
                       r"(?:print|output|write|type|send|give me|tell me|send me) (?:only |just |exactly )*(?:the )(?:single |exact |following )*(?:words?|text|phrase|string|sentence|message|line)\b(?! ?of)|(?:reply|respond)\b(?=:? +\S)|"
                       r"(?:tell|give|send|write|type|print|output|show)(?: me| us| back| out)*(?: (?:the|this|exactly|following|just|only|word|words|text|phrase|message|sentence|string|line))*[\s:]*(?=\x01)|"
                       r"(?:your|the|whole) (?:whole |entire |only )?(?:answer|reply|response) (?:should|must|has to|shall|is to) (?:just |only |simply )?(?:be|say|read|contain)|"
                       r"i (?:want|would like) (?:you )?to (?:hear|say))", low)
        spans = find_paths(t, c)
        paths = [strip_file_scheme(p) for _, _, p in spans]
        say_is_safe = say and not re.search(r"\b(?:file|to|in|into|from)\s*$", c[:spans[0][0]].lower() if spans else "") and not re.search(r"\b(?:tool|mcp)\b", low) \
            and (not spans or re.match(r"(?:say|repeat|reply|respond|answer|utter|speak)", low))
        # thinking aloud and planning may stand in front of another wish
        think = re.search(r"(?:but )?(?:before (?:you (?:answer|reply|respond|do anything|start)|answering|replying|doing anything|that)[,:]?\s*)?(?:first[, ]+)?\b(?:think|reason|ponder|muse|reflect|show (?:me )?your (?:thinking|thoughts|reasoning))\b"
                          r"(?:\s+(?:aloud|out loud|loudly|first|hard|it through|things? through|it over|step by step|carefully|deeply|through|for a (?:moment|while|bit)|about (?:it|this)|a (?:little|bit|moment)))*"
                          r"(?:\s+before (?:you (?:answer|reply|respond)|answering|replying|responding))?[\s,:]*(?:before (?:you )?)?", c, re.I)
        if think and not (say_is_safe and re.match(r"(?:say|repeat|reply|echo)", low)) and not paths[:0]:
            if not re.match(r"(?:what|who|do) (?:do )?you\b", low):
                rest = (c[:think.start()] + " " + c[think.end():]).strip(" ,.:")
                topic = re.match(r"(?:about|on|over|of|whether|how|why|what)\b\s*(.*)", rest, re.I)
                if topic or not rest or re.fullmatch(r"(?:you|me|please|your|and|aloud|answer|reply|it|this|that|to|i want|a)(?:\s\w+)?", rest, re.I):
                    return [{"do": "think", "front": bool(re.search(r"first|before", think[0], re.I)), "about": t.bare(topic[1]) if topic else ""}]
                rest = re.sub(r"^saying\b", "say", re.sub(r"^running\b", "run", re.sub(r"^reading\b", "read", rest)))
                return [{"do": "think", "front": bool(re.search(r"first|before", think[0], re.I)), "about": t.bare(rest)}] + self.clause(rest, before)
        bare_low = low
        for p in paths:
            bare_low = bare_low.replace(p.lower(), "")
        m = re.match(r"(?:.{0,40}?)\bplan\b(?: first)?(?: (?:with|of|in|having) [\w-]+ (?:steps?|items?|parts?))?[\s,:]*(?:(?:to|for|and|how to|before you)\s+)?(?:first\s+)?(?=" + ACTS + r"\b)(.+)", c, re.I | re.S)
        if m and "plan" in bare_low and not say_is_safe and not re.match(r"(?:plan|say|work|carry|follow|execute it|do it|go)\b", m[1], re.I):
            inner = self.clause(m[1], before)
            if inner and inner[0]["do"] not in ("chat", "plan", "talk", "think"):
                return [{"do": "plan", "steps": 3, "about": "", "items": []}] + inner
        if not say_is_safe and re.search(r"\b(?:plan|to-?do list|checklist|roadmap|step[- ]by[- ]step|break (?:it|this|that|the \w+) (?:down|into))\b", bare_low) and not paths:
            steps = re.search(NUM + r"[- ](?:steps?|items?|parts?|points?|tasks?|entr)", low)
            about = re.search(r"\b(?:plan|list|checklist|roadmap)\b(?: (?:with|of|in|having) [\w-]+ (?:steps?|items?|parts?|points?|tasks?|entries))?\s*(?:for|to|about|on|of|how to|:)\s*(?!work)(.+)", c, re.I)
            return [{"do": "plan", "steps": int(number(steps[1])) if steps else 3, "about": t.bare(about[1]).rstrip(".") if about else "", "items": t.quotes(c)}]
        if re.search(r"\bask (?:me|the user|us|him|her)\b|\b(?:question for me|prompt me|elicit|elicitation|get my (?:answer|opinion|input|name|choice)|find out from me|request (?:my|some) input|check with me|have me (?:choose|pick|decide|answer)|"
                     r"let me (?:choose|pick|decide|select|answer)|make me (?:choose|pick|decide)|(?:show|give|send|use|open) (?:me )?(?:a|the) (?:form|question)|ask (?:a|some|your) question|put a question)\b", low):
            return [self.question(c)]
        if self.has_mcp or re.search(r"\bmcp\b|\btools\b", low):
            got = self.mcp_wish(c, low, bool(say_is_safe))
            if got:
                return [got]
        pace = re.search(r"\b(?:set|change|switch|turn|make|put)\b.*\bpace\b.*\b(brisk|steady|leisurely)\b", low)
        if pace:
            return [{"do": "pace", "value": pace[1]}]
        m = re.match(r"(?:(?:please )?(?:remember|memori[sz]e|keep in mind|bear in mind|don'?t forget|note|make a note|store in (?:your )?memory|learn)\b(?! what| our| everything| anything)[\s,:]*(?:that|this|the following|for later)?[\s:,]*(.+))", c, re.I | re.S)
        if m and last in ("keep", "say") and re.fullmatch(r"(?:it|this|that|them|these)(?: for (?:later|me))?\W*", m[1], re.I):
            return []
        if m and not low.rstrip().endswith("?") and not paths:
            return [{"do": "keep", "fact": t.raw(m[1]).strip().rstrip(".")}]
        if re.match(r"(?:my|our|the) (?:\w+ ){1,4}(?:is|are|was|will be) [^?]+$", low) and "directory" not in low and not paths:
            return [{"do": "keep", "fact": t.raw(c).rstrip(".")}]
        if re.search(r"\b(?:remember(?:ed)?|recall|recollect|memory|memories|earlier|so far|conversation|chat history)\b|\bwhat (?:did|have|was|were|had) (?:i|we|my|you|the)\b.*(?:say|said|tell|told|ask|mention|talk|discuss|word|name|secret|number|"
                     r"code|first|last|previous|request|message|do|did|done)|\bwhat(?:'s| is) (?:my|our|the (?:secret|code|magic|pass|key)?\s?(?:word|number|name|codeword|secret|colou?r|animal|fruit|code))\b|"
                     r"\bi (?:just )?(?:said|told|mentioned|gave|asked) (?:you|before|first|last)?|\bwhich (?:word|number|name|secret|colou?r|code)\b.*\b(?:i|we|my)\b|\b(?:did|have|had) (?:i|we) (?:just |ever )?(?:tell|told|say|said|give|given|mention|ask|share|teach|taught|talk|discuss)|\bsummari[sz]e (?:our|the) (?:chat|talk|conversation)|\bwho am i\b|\bwhat i (?:said|told|asked)", low):
            return [{"do": "recall"}]
        if say_is_safe and not re.match(r"echo\b.*[>|]", low) and not re.match(r"(?:say|speak)\b.*\b(?:for|long|until)\b.*(?:seconds?|while|time|stop)", low):
            if slow and not t.quotes(c) and re.fullmatch(r"(?:say|speak|reply|respond|answer)\b[\s\w]*slowly.*", low) and not re.search(r"say (?!something|anything)\w+ ", low):
                return [{"do": "talk", "seconds": self.seconds(low, 6)}]
            said = spoken(t, c[self.say_end(c, say):])
            if re.match(r"(?:\w+[, ]+)?(?:can|could|would|will) you\b", orig, re.I) and not t.quotes(c):
                said = said.rstrip("?").rstrip()
            if said:
                return [{"do": "say", "text": said, "slow": slow}]
        m = re.match(r"(?:print|output|list|write|say|give|tell)?\W*(?:me )?(?:out )?(?:all )?(?:the )?(?:count|numbers?|counting)\b", low)
        if m and re.search(r"\d|" + "|".join(NUMBERS), low) and not paths and not re.search(r"\bcount (?:the )?(?:lines|words|files)", low):
            n = [number(x) for x in re.findall(r"\b" + NUM + r"\b(?! ?(?:second|ms|at a time|per line|number))", low) if x != "a"] or [10]
            first, end = (n[0], n[1]) if len(n) > 1 and re.search(r"\bfrom\b|\bto\b|-|through", low) else ((n[0], 1) if "down" in low else (1, n[0]))
            return [{"do": "count", "first": int(first), "end": int(end), "slow": slow}]
        command = command_of(t, c)
        if command:
            return [{"do": "run", "command": command}]
        files = [w for w in (self.file_wish(c, low, spans, paths)) if w]
        if files:
            if "path" in files[-1]:
                self.last_path = files[-1]["path"]
            return files
        if re.search(r"\b(?:talk|speak|ramble|babble|chatter|stream|narrate|monologue|long|lengthy|endless|slow(?:ly)?|story|essay|poem|tale|until i|take your time|wait|keep (?:going|talking|writing)|at length|hold on|busy)\b", low):
            default = 12 if re.search(r"\b(?:long|lengthy|endless|very|until|essay|keep)\b", low) else 6
            return [{"do": "talk", "seconds": self.seconds(low, default)}]
        if self.has_files and re.search(r"\b(?:attach\w*|image|picture|photo|link\w*|resource|this|file|document|describe|summari[sz]e|context|see|look|read|it|what)\b", low):
            return [{"do": "read_link" if re.search(r"\b(?:read|open|show|cat|fetch|contents?)\b", low) else "describe"}]
        if self.has_mcp and not re.match(r"(?:hi|hello|hey|thanks?|good)\b", low):
            got = self.mcp_named(c)
            if got:
                return [got]
        if re.match(r"(?:look|see|explore|peek|scan|survey)\b", low):
            return [{"do": "list", "path": "."}]
        return [{"do": "chat", "text": t.raw(orig)}]

    def say_end(self, c, say):
        # the match was made on text with shortened masks; walk the same length in the real one
        short = say.end()
        i = n = 0
        while n < short and i < len(c):
            m = re.match(PH, c[i:])
            i += len(m[0]) if m else 1
            n += 1
        return i

    def seconds(self, low, default):
        m = re.search(NUM + r"\s*(seconds?|secs?|s\b|minutes?)", low)
        return min(number(m[1]) * (60 if m[2].startswith("min") else 1), 300) if m else default

    def question(self, c):
        q = re.search(r"\bask\s+(?:me|the user|us|him|her)\b\s*(?:a question|something|for|about|to (?:tell|give) you|to (?:enter|provide|type|state|confirm|choose|pick|select)(?: (?:between|from|one of))?|whether|if|via a form|in a form|with a form|using (?:a form|elicitation))*[\s:,]*(.*)", c, re.I | re.S)
        rest = tidy(q[1] if q else "")
        quotes = self.t.quotes(c)
        rest = re.sub(r"\s+(?:using|via|with|in|through) (?:a |an |the )?(?:form|elicitation|dialog)\b.*$", "", rest, flags=re.I)
        words = self.t.bare(rest).strip(" .?!:,")
        m = re.search(r"(?:between|one of|from|want|prefer|like|choose|pick|either|options?:?|choices?:?)?\s*((?:[\w\x01\x02-]+,\s*)*[\w\x01\x02-]+,?\s+(?:or|and)\s+[\w\x01\x02-]+)(?=\s+(?:i|you|do|using|with|in|via|as|is|for|should|to|the)\b|\s*[.?!]*$)", rest, re.I)
        choices = []
        if m and (re.search(r"\bor\b", m[1]) or re.search(r"between|one of|choose|pick|options?|choices?", c, re.I)):
            choices = [self.t.bare(x).strip() for x in re.split(r",\s*(?:(?:or|and)\s+)?|\s+(?:or|and)\s+", m[1]) if x.strip()]
            if {x.lower() for x in choices} & {"yes", "no", "not"}:
                choices = []
        if len(quotes) == 1:
            words = quotes[0].rstrip(" ?")
        else:
            flip = {"i": "you", "me": "you", "my": "your", "mine": "yours", "am": "are", "myself": "yourself"}
            words = re.sub(r"\b(?:i|me|my|mine|am|myself)\b", lambda m: flip[m[0].lower()], words, flags=re.I)
        return {"do": "ask", "question": words[:1].upper() + words[1:] + "?" if words else "What would you like me to build next?", "choices": list(dict.fromkeys(choices))}

    def mcp_wish(self, c, low, saying):
        if re.search(r"\b(?:list|show|what|which|name|tell|enumerate|display|give|are there|do you have|any|see|report)\b.*\btools\b|\btools\b.*\b(?:available|have|there)\b|\blist\b.*\bmcp\b", low):
            return {"do": "mcp_list"}
        named = re.search(r"\b(?:tool|mcp|server)\b", low) or any(re.search(r"\b" + re.escape(s.lower()) + r"\b", c.lower()) for s in self.server_names)
        if named and not (saying and not re.search(r"\btool\b", low)):
            if re.search(r"\btools\b", low) and not re.search(r"\btool\b", low):
                return self.mcp_named(c) or {"do": "mcp_list"}
            got = self.mcp_named(c)
            if got:
                return got
            m = re.search(r"\b(?:mcp )?tool (?:named |called )?(?:" + PH + r"|([\w./-]*[_/-]?[\w-]+))", c, re.I)
            name = (self.t.kept[int(m[1])][1] if m[1] else m[2]) if m else None
            if re.search(r"\b(?:terminal|shell|bash|console|file|read|write|edit)\b", low):
                return None
            return {"do": "mcp", "tool": name if name and name.lower() not in WEAK else "?", "clause": c, "mind": self}
        if re.match(r"(?:call|invoke|use|try)\b", low) and not re.search(r"\b(?:terminal|shell|bash|console|command)\b", low):
            return self.mcp_named(c)
        return None

    def mcp_named(self, c):
        bare, best = self.t.bare(c), None
        for name in self.names():
            m = re.search(r"(?<![\w-])" + re.escape(name) + r"(?![\w-])", bare, re.I) or \
                (("_" in name or "-" in name) and re.search(r"(?<!\w)" + re.escape(re.sub("[_-]", " ", name)) + r"(?!\w)", bare, re.I))
            if m and (best is None or (m.start(), -len(name)) < best[0]):
                best = ((m.start(), -len(name)), name)
        return {"do": "mcp", "tool": best[1], "clause": c, "mind": self} if best else None

    def file_wish(self, c, low, spans, paths):
        t, path = self.t, paths[0] if paths else None
        used = {s for s, _, _ in spans}
        others = [t.raw(t.kept[int(m[1])][1]) for m in re.finditer(PH, c) if m.start() not in used]
        verb = re.match(r"\W*(\w+)", low)
        verb = verb[1] if verb else ""
        it = self.last_path if re.search(r"\b(?:it|that file|the file|the same file|this file)\b", low) else None
        edit = re.search(r"\b(?:replac\w*|chang\w*|swap\w*|substitut\w*|edit\w*|modify\w*|renam\w*|correct\w*|updat\w*|fix\w*|turn\w*|exchange|switch)\b", low)
        if edit and (path or it):
            target = path or it
            pool = others
            if len(paths) > 1 and len(others) < 2:            # a quoted text that looks like a path
                pool, target = [p for p in paths if p != paths[-1]] + others, paths[-1]
            backwards = re.match(r"\W*substitut\w*\b.*\bfor\b", low)
            if len(pool) >= 2:
                a, b = (pool[1], pool[0]) if backwards else (pool[0], pool[1])
                return [{"do": "edit", "path": target, "old": a, "new": b, "all": bool(re.search(r"\b(?:all|every|each|everywhere)\b", low))}]
            m = re.search(r"\b(?:replac\w*|chang\w*|swap\w*|substitut\w*|renam\w*|correct\w*|turn\w*|modify\w*|updat\w*|exchange|switch)\s+(?:(?:all|every|each|the|occurrences? of|word|words|text|line|string|phrase|first)\s+)*(.+?)\s+"
                          r"(?:with|by|to|into|for|in ?to)\s+(?:the (?:word|text) )?(.+?)(?:\s+(?:in|inside|within|of)\s+" + DULL + r"(?:file\s+)?(?:named |called )?(?:\S+|it|the file)|)[.!?]?$", c, re.I)
            if m and not any(p in m[1] for p in paths) and not re.search(r"\bcontents?$", m[1]):
                new = t.bare(m[2]).strip()
                new = re.sub(r"\s+(?:everywhere|throughout)$", "", new)
                a, b = t.bare(m[1]).strip(), new
                return [{"do": "edit", "path": target, "old": b if backwards else a, "new": a if backwards else b, "all": bool(re.search(r"\b(?:all|every|each|everywhere)\b", low))}]
            text = content_of(t, c, spans, others)
            if text is not None:
                return [{"do": "write", "path": target, "text": text}]
        if re.search(r"\b(?:append|add|insert)\b", low) and (path or it) and not re.search(r"\b(?:add|make|create) (?:a |an |the )?(?:new )?(?:empty |text )?file\b", low):
            text = content_of(t, c, spans, others)
            if text is not None:
                return [{"do": "append", "path": path or it, "text": text}]
        if re.match(r"\W*(?:delete|remove|erase|unlink|rm|trash|get rid of|destroy|discard|drop)\b", low):
            if (path or it) and others and re.search(r"\b(?:from|in|out of)\b", low):
                return [{"do": "edit", "path": path or it, "old": others[0], "new": "", "all": False}]
            return [{"do": "delete", "path": p} for p in paths] or ([{"do": "delete", "path": it}] if it else [])
        making = re.search(r"\b(?:create|write|save|put|make|store|generate|overwrite|touch|produce|place|dump|record|jot|compose|draft|prepare|set up|set|new file|fill|need|want)\b", low)
        reading = re.search(r"\b(?:read|show|open|display|print|cat|view|look|see|what(?:'s| is| does| do| are)|whats|contents?|load|fetch|examine|inspect|summari[sz]e|describe|tell|give|check|review|lines?|type|output|peek|find)\b", low)
        if making and (path or it) and not re.match(r"\W*(?:read|show|open|display|print|cat|view|what|tell|give)\b", low):
            text = content_of(t, c, spans, others)
            if text is None:
                text = "" if re.search(r"\bempty|touch\b", low) else ("" if verb in ("create", "make", "touch") else "Made by the badger in his workshop.\n")
            return [{"do": "write", "path": path or it, "text": text}]
        listing = re.search(r"\b(?:list|ls|show|what|which|look|see|explore|display|dir|contents?|tell|give|print|find|scan|enumerate)\b.*\b(?:files?|director\w*|folders?|around|workspace|repo\w*|project|here|everything|inside|entries)\b", low) \
            or re.fullmatch(r"(?:ls|dir|look around|have a look|explore)\W*", low)
        named_dir = re.search(r"\b(?:director\w*|folder|files (?:in|inside|under|within|of|at)|list|ls)\b", low)
        if listing and (not path or (named_dir and not re.search(r"\bfile " + re.escape(path.lower()), low) and not re.search(r"\.\w+$", path))):
            d = re.search(r"\b(?:the |in )?(?:folder|directory|subfolder|subdirectory) (?:named |called )?([\w./-]+)|\b(?:in|inside|under|of|within) (?:the )?([\w./-]+) (?:folder|directory)", low)
            name = path or (next((g for g in d.groups() if g), ".") if d else ".")
            name = "." if name.lower() in WEAK | {"current", "working", "workspace", "this", "project", "you"} else name
            if not (self.has_files and re.search(r"attach|link", low)):
                return [{"do": "list", "path": name.rstrip(".,?!") or "."}]
        if (reading or verb in ("get", "take", "use", "grab", "retrieve", "access", "go")) and (path or (it and re.search(r"\b(?:read|show|open|cat|print|display|contents?)\b", low))):
            w = {"do": "read"}
            a = re.search(r"\blines? (\d+)(?:\s*(?:to|-|–|through|until|and)\s*(\d+))?", low)
            b = re.search(r"\bfirst (?:" + NUM + r" )?lines?\b", low)
            if a:
                w["line"], w["limit"] = max(1, int(a[1])), max(1, int(a[2] or a[1]) - int(a[1]) + 1)
            elif b:
                w["line"], w["limit"] = 1, max(1, int(number(b[1]))) if b[1] else 1
            return [{**w, "path": p} for p in (paths or [it])]
        if path and low.strip(" .?!") == path.lower():
            return [{"do": "read", "path": path}]
        return []


def tool_arguments(wish, schema):
    """The arguments for an MCP tool, from the words around its name."""
    t, c = wish["mind"].t, wish["clause"]
    props = schema.get("properties") if isinstance(schema.get("properties"), dict) else {}
    required = [p for p in schema.get("required") or [] if p in props]
    order = required + [p for p in props if p not in required]
    for n in re.findall(PH, c):
        if t.kept[int(n)][2] == "json":
            return json.loads(t.kept[int(n)][1])
    for n in re.findall(PH, c):
        if t.kept[int(n)][1].lstrip().startswith("{"):
            try:
                return json.loads(t.kept[int(n)][1])
            except ValueError:
                pass

    def kind(p):
        k = props.get(p, {}).get("type") if isinstance(props.get(p), dict) else None
        return next((x for x in k if x != "null"), None) if isinstance(k, list) else k

    def fit(p, value):
        k = kind(p)
        try:
            if k == "integer":
                return int(float(value))
            if k == "number":
                v = float(value)
                return int(v) if v == int(v) else v
            if k == "boolean":
                return value.lower() in ("true", "yes", "on", "1")
            if k in ("array", "object"):
                return json.loads(value)
            if k is None:
                return json.loads(value) if re.fullmatch(r"-?\d+(?:\.\d+)?|true|false|null", value) else value
        except ValueError:
            pass
        return value

    # take away the tool's own name, so that a property is not looked for inside it
    name = re.escape(wish["tool"])
    quoted = [m for m in re.finditer(PH, c) if t.kept[int(m[1])][1].lower() == wish["tool"].lower()]
    if quoted:
        c = c[:quoted[0].start()] + "\x04" + c[quoted[0].end():]
    else:
        c = re.sub(r"(?<![\w-])" + name + r"(?![\w-])", "\x04", c, count=1, flags=re.I)
    c = c.split("\x04", 1)[1] if "\x04" in c and c.split("\x04", 1)[1].strip(" .!?") not in ("", "tool", "mcp tool") and re.search(r"\d|=|:|\x01|with|on|for|saying", c.split("\x04", 1)[1]) else c.replace("\x04", " ")
    c = re.sub(r"\b(?:on|of|from|at) (?:the )?(?:mcp )?server (?:named |called )?[\w-]+", " ", re.sub(r"\bMCP server\b", " ", c))
    args, value = {}, r"(" + PH.replace("(", "(?:") + r"|-?[\w./@:+-]*[\w@/])"
    for p in order:
        m = re.search(r"(?<!\w)[\"'\x01]?" + re.escape(p) + r"\b\s*(?:=|:|\bset to\b|\bequal(?:s|ing)?(?: to)?\b|\bis\b|\bas\b|\bof\b|\bto\b)?\s*" + value, c, re.I)
        if m and m[1].lower() not in ("and", "with", "tool", "the"):
            args[p] = fit(p, t.bare(m[1]))
            c = c[:m.start()] + " " + c[m.end():]
    for m in list(re.finditer(r"(\w+)\s*=\s*" + value, c)):
        if m[1] not in args:
            args[m[1]] = fit(m[1], t.bare(m[2]))
            c = c.replace(m[0], " ", 1)
    left = t.quotes(c)
    free = [p for p in order if p not in args]
    for text in left:
        p = next((p for p in free if kind(p) in ("string", None)), None)
        if p:
            args[p] = text
            free.remove(p)
    for n in re.findall(r"(?<![\w.\x01])-?\d+(?:\.\d+)?(?![\w\x02])", c):
        p = next((p for p in free if kind(p) in ("number", "integer")), None)
        if p:
            args[p] = fit(p, n)
            free.remove(p)
    missing = [p for p in required or (order if len(order) == 1 else []) if p not in args and kind(p) in ("string", None)]
    if missing and not left:
        c = re.sub(r"\s+(?:with|using|via|by|through)(?: the)?(?: mcp)?(?: tool)?[\s.!?]*$", "", c.rstrip(), flags=re.I)
        m = re.search(r"(?:with|in|on|saying|for|to say|text|message|input|argument|of|:)\s+(?:the )?(?:(?:text|message|input|arguments?|words?|value|string)\b\s*:?\s*)*([^\x01]+?)[.!?]?$", c, re.I)
        if m:
            args[missing[0]] = m[1].strip()
    return args
