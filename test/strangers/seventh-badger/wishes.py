"""What does the user want? Plain rules, no model."""
import json
import re
from urllib.parse import unquote, urlparse

QUOTE = re.compile(r'```[a-z]*\n?(.*?)```|`([^`]+)`|"((?:[^"\\]|\\.)*)"|“([^”]*)”|(?<!\w)\'((?:[^\'\n]|(?<=\w)\'(?=\w))*)\'(?!\w)', re.S)
FILL = r"(?:back|to me|after me|with|only|just|exactly|precisely|verbatim|the|these|this|a|my|following|single|one|two|three|words?|text|string|sentence|phrase|message|line|literally|me|now|please|simply)"
ECHO = r"(?:say|repeat|echo|reply|respond|answer)"


def quotes(text):
    return [(next(g for g in m.groups() if g is not None), m.start(), m.end(), m.group(0)) for m in QUOTE.finditer(text)]


def plain(s):
    return s.replace("\\n", "\n").replace("\\t", "\t").replace('\\"', '"')


def paths(text):
    out = []

    def add(p, at):
        if p.startswith("file://"):
            p = unquote(urlparse(p).path)
        if p and all(o[1] != at and o[0] != p for o in out):
            out.append((p, at))

    qs, bare = quotes(text), text
    for v, a, b, _ in qs:
        rooted = re.match(r"(?:/|~/|\.{1,2}/|file://)", v)
        if "\n" not in v and len(v) < 400:
            if (not re.search(r"\s", v) and (rooted or re.fullmatch(r"[^\s]*\.[A-Za-z]\w{0,9}", v) or re.fullmatch(r"[\w.-]+(?:/[\w.-]+)+", v))) or (rooted and re.search(r"\.\w{1,9}$", v)):
                add(v, a)
            elif re.search(r"\b(?:file|path|document)(?:\s+(?:called|named|at|at the path|with the (?:name|path)))?\s*:?\s*$", text[:a], re.I):
                add(v, a)
        bare = bare[:a] + " " * (b - a) + bare[b:]
    for m in re.finditer(r"(?<![\w.:/])((?:file:///|/|~/|\.{1,2}/)[^\s\"'`,;!?()<>]+)", bare):
        p = m.group(1).rstrip(".,;:!?)]")
        if len(p) > 1 and not (m.start() == 0 and re.fullmatch(r"/\w+", p)):
            add(p, m.start())
    for m in re.finditer(r"(?<![\w./-])((?:[\w-]+/)*[\w-]+(?:\.[\w-]+)*\.[A-Za-z]\w{0,9}|\.[a-z][\w.-]+)(?![\w/])", bare):
        if m.group(1).lower() not in ("e.g", "i.e"):
            add(m.group(1), m.start())
    if not out:
        m = re.search(r"\bfile\s+(?:called|named)\s+([\w./-]+)", bare, re.I)
        if m:
            add(m.group(1).rstrip(".,"), m.start(1))
    return [p for p in sorted(out, key=lambda x: x[1])]


def content(text, ps):
    qs = [q for q in quotes(text) if all(q[1] != p[1] for p in ps)]
    for q in qs:
        if q[3].startswith("```"):
            return q[0]
    key = re.search(r"\b(?:with\s+(?:exactly\s+)?(?:the\s+|this\s+|these\s+)?(?:exact\s+|following\s+|single\s+)*(?:contents?|text|words?|line|string)|containing|contains|contents?\s+(?:is|should be|being)|that says|which says|saying|with exactly|consisting of|following (?:text|contents?))\b((?:\s+(?:exactly|only|just|of|is|the|single|following|words?|text|line|string|this))*)\s*[:=]?\s*", text, re.I)
    if key:
        for q in qs:
            if key.end() - 1 <= q[1] <= key.end() + 2:
                return plain(q[0])
        rest = text[key.end():]
        rest = re.sub(r"^(?:in)?to\s+(?:the\s+)?(?:file\s+)?(?:called\s+|named\s+|at\s+)*\S+?:\s+", "", rest, flags=re.I)
        rest = re.sub(r"\s+(?:in|into|to)\s+(?:the|a|an)\s+(?:new\s+)?file\b.*$", "", rest, flags=re.I | re.S)
        rest = re.sub(r"[,.]?\s+(?:and\s+)?then\s.*$", "", rest, flags=re.I | re.S)
        rest = re.sub(r"\.\s+[A-Z].*$", "", rest, flags=re.S).strip()
        if rest and not any(rest.startswith(p[0]) for p in ps):
            return plain(re.sub(r"\.$", "", rest))
    if qs:
        return plain(qs[0][0])
    m = re.search(r"\b(?:write|put|save|store|append|add)\s+(?:the\s+)?(?:(?:text|words?|line|string)\s+)?(.+?)\s+(?:in|into|to|onto|at the end of)\s+(?:the\s+|a\s+)?(?:new\s+)?(?:file|end|[\w./~-]+\.\w+|/)", text, re.I | re.S)
    if m and not re.match(r"(?:a|the|new)?\s*file\b", m.group(1), re.I):
        return plain(m.group(1))
    m = re.search(r":\s+(.+)$", text, re.S)
    return plain(re.sub(r"\.$", "", m.group(1).strip())) if m else None


def command(text):
    verb = re.search(r"\b(?:run|execute|launch|start)\b|\bcommand\b|\bin (?:a|the|your) (?:shell|terminal)\b", text, re.I)
    if not verb:
        return None
    bt = re.search(r"`([^`]+)`", text)
    if bt:
        return bt.group(1).strip()
    lead = re.match(r"((?:\s+(?:the|a|this|following|shell|bash|terminal|command|line|called|named|exactly|for me|please|in (?:a|the|your) (?:shell|terminal)))*\s*:?\s*)([\"'“])", text[verb.end():], re.I)
    if lead:
        shut = "”" if lead.group(2) == "“" else lead.group(2)
        body = text[verb.end() + lead.end():]
        first, last = body.find(shut), body.rfind(shut)
        if last > 0:
            mixed = lead.group(2) != "'" and re.search(r"\b(?:and|then|with|using)\b", body[first + 1:last])
            return body[:first if mixed else last].strip()
    m = re.search(r"\b(?:run|execute|launch|start)\b(?:\s+(?:the|a|this|following|shell|bash|terminal|command|line|exactly|for me|please|in (?:a|the|your) (?:shell|terminal)))*\s*:?\s+(.+)$", text, re.I | re.S) or re.search(r"\bcommand\s*:?\s+(.+)$", text, re.I | re.S)
    if not m:
        return None
    c = m.group(1).strip().split("\n")[0]
    c = re.sub(r",?\s+(?:in|using|with|inside)\s+(?:a|the|your)\s+(?:shell|terminal|bash|command line|working directory|current directory).*$", "", c, flags=re.I)
    c = re.sub(r",?\s+(?:and|then)\s+(?:then\s+)?(?:tell|show|report|give|wait|let|say|reply|describe|print the|return)\b.*$", "", c, flags=re.I)
    c = re.sub(r"[.!]\s+[A-Z].*$|[.!]$|\s+command$", "", c).strip()
    return None if not c or re.match(r"(?:it|that|them|tests?|away|the (?:tool|tests?|program)|mcp|tool)\b", c, re.I) else c


def echo(text):
    m = re.search(rf"\b{ECHO}\b((?:\s+{FILL}(?![\w'-]))*)\s*[:,]?\s*(.+)$", text, re.I | re.S)
    if not m:
        return None
    rest = m.group(2).strip()
    qs = quotes(rest)
    if qs and qs[0][1] == 0:
        return qs[0][0]
    rest = re.sub(r"[,;]?\s*(?:\(?\s*(?:and\s+)?(?:nothing|no) (?:else|more)\)?|without anything else|verbatim|exactly)\s*[.!]?$", "", rest, flags=re.I)
    return re.sub(r"([^.])\.$", r"\1", rest).strip() or None


def wish(text, tools, commands):
    t = text.strip()
    low, ps = t.lower(), paths(text.strip())

    def has(p):
        return re.search(p, low) is not None

    m = re.match(r"/([a-z][\w-]*)\s*(.*)$", t, re.I | re.S)
    if m and m.group(1) in commands:
        return {"do": "slash", "name": m.group(1), "arg": m.group(2)}
    if has(r"\b(?:tool|mcp|server|call|use|invoke)\b"):
        for tool in tools:
            if re.search(r"(?<![\w-])" + re.escape(tool["name"]) + r"(?![\w-])", t, re.I):
                return {"do": "mcp", "tool": tool, "text": t}
    if has(r"\bmcp\b") or has(r"\b(?:which|what|list)\b.*\btools\b"):
        return {"do": "tools"}
    if re.match(rf"(?:please[, ]+|now[, ]+|just[, ]+|(?:can|could|would) you (?:please )?)*{ECHO}\b", t, re.I) and not has(r"\b(?:words?|secret|number|code|phrase)\b[^:]*\b(?:told|asked|gave|remember)"):
        e = echo(t)
        if e:
            return {"do": "say", "text": e}
    if has(r"\bask (?:me|the user|your user)\b|\belicit|\b(?:a|the) form\b|\brequest (?:some )?input\b|\bsign (?:me )?in\b"):
        return {"do": "ask", "text": t}
    if has(r"\b(?:what|which|recall|tell me|do you (?:still )?(?:know|remember))\b") and has(r"\b(?:remember|secret|code ?word|(?:is|was|were) the (?:words?|phrase|number|name)\b|(?:word|number|name|phrase|colou?r|animal)\b.*\b(?:i|earlier|before|was|my)|told you|gave you|asked you|my (?:\w+ )?(?:word|number|name|favou?rite))") and not has(r"\bremember (?:the|this|that|my)\b.*(?:\bis\b|:)"):
        return {"do": "recall"}
    second = re.search(r"\b(?:my|the) (?:secret|code|magic|favou?rite|special)[\w -]*?(?:\s+is|:)\s*([\w-]+)", t, re.I)
    rem = re.search(r"\b(?:remember|memori[sz]e|keep in mind)\b(?:\s+(?:that|this|the|my|following|secret|code|magic|pass|for later))*\s*(?:words?|phrase|number|name|codeword|sentence)?\s*(?:is|:|=|,|for me)?\s*:?\s*(.*)$", t, re.I | re.S)
    if (rem or second) and not low.rstrip().endswith("?"):
        qs = quotes(t)
        w = qs[0][0] if qs else re.sub(r"(?:[.,;!]|\s+(?:and|for|until|because)\b).*$", "", re.sub(r"^(?:for later|for me|please)\s*:?\s*", "", rem.group(1)) if rem else "", flags=re.I | re.S)
        w = re.sub(r"^.*\bis\s+", "", w, flags=re.I | re.S).strip()
        if (not w or w.lower() in ("it", "that", "this", "them", "please")) and second:
            w = second.group(1)
        if w and w.lower() not in ("it", "that", "this"):
            return {"do": "remember", "word": w}
    if has(r"\b(?:mode|model)\b") and has(r"\b(?:switch|change|go|set|enter|turn|use)\b") and not ps:
        return {"do": "switch", "text": t}
    if has(r"\b(?:run|execute|shell|terminal|command)\b"):
        c = command(t)
        if c:
            return {"do": "run", "command": c}
    m = re.search(r"\b(?:replace|change|substitute|swap)\b\s+(?:every |all |the )?(?:occurrences? of )?(?:(?:word|text|string|line)s?\s+)?(?:\"([^\"]+)\"|'([^']+)'|`([^`]+)`|([\w-]+))\s+(?:with|to|by|into|for)\s+(?:the )?(?:(?:word|text|string|line)\s+)?(?:\"([^\"]*)\"|'([^']*)'|`([^`]*)`|([\w-]+))", t, re.I)
    if m and ps:
        g = m.groups()
        a, b = next(x for x in g[:4] if x is not None), next(x for x in g[4:] if x is not None)
        return {"do": "edit", "path": next((p[0] for p in ps if p[0] not in (a, b)), ps[0][0]), "from": a, "to": b}
    if ps and has(r"\b(?:append|add)\b"):
        return {"do": "append", "path": ps[-1][0], "text": content(t, ps) or "One more line."}
    if ps and has(r"\b(?:write|create|save|put|store|make|overwrite|edit|modify|update)\b") and not (re.match(r"\W*(?:please )?(?:read|open|show)\b", low) and not has(r"\b(?:write|create|save)\b")):
        c = content(t, ps)
        p = next((p[0] for p in ps if not (c and p[0] in c and len(ps) > 1)), ps[0][0])
        return {"do": "write", "path": p, "text": c if c is not None else "Written by seventh-badger.\n"}
    if ps and has(r"\b(?:read|open|show|what|contents?|look|print|display|view|summari[sz]e|tell|check|see|inspect|cat|explain|describe|find|load|use)\b"):
        rng = re.search(r"\blines (\d+)\s*(?:-|to|through|–)\s*(\d+)", t, re.I)
        line = re.search(r"\b(?:from|at|starting (?:at|from|with)) line (\d+)|\blines? (\d+)", t, re.I)
        lim = re.search(r"\b(?:only |first |next |just )?(\d+) lines\b", t, re.I)
        first = int(rng.group(1)) if rng else int(line.group(1) or line.group(2)) if line else None
        limit = int(rng.group(2)) - first + 1 if rng else int(lim.group(1)) if lim else None
        return {"do": "read", "paths": [p[0] for p in ps], "line": first or None, "limit": limit}
    if has(r"\b(?:plan|to-?do list|todo|checklist)\b"):
        listed = [x.strip(" .,;") for x in re.findall(r"(?:^|[\s:])\(?\d[.)]\s+([^\n]+?)(?=\s+\(?\d[.)]\s|\n|$)", t)]
        words = {"two": 2, "three": 3, "four": 4, "five": 5, "six": 6}
        n = re.search(r"\b([2-8])\b", t)
        return {"do": "plan", "steps": listed, "count": int(n.group(1)) if n else next((v for k, v in words.items() if k in low), 3)}
    if has(r"\b(?:working directory|current directory|where are you|cwd|pwd)\b"):
        return {"do": "run", "command": "pwd"}
    if has(r"\blist\b.*\b(?:files|directory|folder)\b|\bwhat files\b"):
        return {"do": "run", "command": "ls -1"}
    if has(r"\b(?:story|tale|essay|poem|novel|saga|article|at length|very long|long (?:text|answer|reply|response)|slowly|words about)\b|\bcount\b.*\d"):
        m = re.search(r"\bto\s+(\d+)", low) or re.search(r"(\d+)", low)
        return {"do": "story", "count": min(500, int(m.group(1))) if has(r"\bcount\b") and m else None, "short": has(r"\bshort\b"), "text": t}
    if has(r"\b(?:think|reason|ponder|reflect|consider)\b"):
        return {"do": "think", "text": t}
    e = echo(t)
    if e and has(r"\b(?:exactly|word|back|verbatim|just|only)\b"):
        return {"do": "say", "text": e}
    return None


def understand(text, tools, commands):
    whole = wish(text, tools, commands)
    if whole and whole["do"] in ("slash", "say", "mcp", "remember", "recall", "ask", "tools", "switch"):
        return [whole]
    qs, parts, last = quotes(text), [], 0
    for m in re.finditer(r"[.,;]?\s+(?:and\s+)?(?:then|after that|afterwards|finally),?\s+", text, re.I):
        if not any(q[1] <= m.start() < q[2] for q in qs):
            parts.append(text[last:m.start()])
            last = m.end()
    parts.append(text[last:])
    acts, path = [], None
    if len(parts) > 1:
        for part in parts:
            a = wish(part, tools, commands)
            if not a and path and re.search(r"\b(?:read|show|open|tell)\b.*\b(?:it|that file|the file)\b", part, re.I):
                a = {"do": "read", "paths": [path], "line": None, "limit": None}
            if a:
                path = a.get("path") or (a.get("paths") or [path])[0]
                acts.append(a)
    return acts if len(acts) > 1 else [whole] if whole else []


def arguments(text, tool):
    at = text.find("{")
    while at >= 0:
        try:
            v, _ = json.JSONDecoder().raw_decode(text[at:])
            if isinstance(v, dict):
                return v
        except ValueError:
            pass
        at = text.find("{", at + 1)
    schema = tool.get("inputSchema") or {}
    props, need, out = schema.get("properties") or {}, schema.get("required") or [], {}
    rest = re.sub(r"\b" + re.escape(tool["name"]) + r"\b(?:\s+tool)?", " ", text, flags=re.I)
    for k, p in props.items():
        m = re.search(r"(?<!\w)" + re.escape(k) + r"[\"'`]?\s*(?:=|:|is|of|set to|being)?\s*(?:\"([^\"]*)\"|'([^']*)'|`([^`]*)`|(-?[\w.@/-]+))", rest, re.I)
        if m:
            v = next(g for g in m.groups() if g is not None)
            v = re.sub(r"\.$", "", v) if m.group(4) else v
            try:
                out[k] = int(v) if p.get("type") == "integer" else float(v) if p.get("type") == "number" and "." in v else int(v) if p.get("type") == "number" else v.lower() in ("true", "yes", "on") if p.get("type") == "boolean" else v
            except ValueError:
                pass
    spare = [q[0] for q in quotes(text) if q[0] != tool["name"] and q[0] not in out.values()]
    nums = [float(n) if "." in n else int(n) for n in re.findall(r"(?<![\w.])-?\d+(?:\.\d+)?", rest)]
    tail = re.search(r"\b(?:with|saying|text|message|on|for)\b\s*:?\s*(?:the\s+)?(?:text|message|words?|argument|input)?\s*:?\s*([^\"'`]+?)\.?$", rest, re.I)
    for k in need:
        if k in out:
            continue
        p = props.get(k) or {}
        if p.get("type") in ("number", "integer"):
            out[k] = nums.pop(0) if nums else 1
        elif p.get("type") == "boolean":
            out[k] = True
        elif p.get("type") == "array":
            out[k] = spare
        elif p.get("type") == "object":
            out[k] = {}
        else:
            out[k] = p["enum"][0] if p.get("enum") else spare.pop(0) if spare else tail.group(1) if tail else "hello"
    return out
