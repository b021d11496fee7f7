"""Turn plain English into a list of wishes, leniently, the way a helpful model would."""
import json
import re
import shutil

QUOTED = re.compile(r"```[^\n`]*\n(.*?)```|`([^`]+)`|\"([^\"]*)\"|“([^”]*)”|(?<!\w)'((?:[^']|(?<=\w)'(?=\w))*)'(?!\w)", re.S)
NUMBER_WORDS = {w: n for n, w in enumerate("zero one two three four five six seven eight nine ten".split())}
BUILTINS = {"cd", "echo", "exit", "export", "for", "if", "pwd", "set", "test", "trap", "true", "false", "ulimit", "while", "read", "printf"}
POLITE = re.compile(r"^(?:(?:please|kindly|now|ok|okay|hey|hello|hi|great|thanks|first|also|next|and|so|could you|can you|would you|will you|i want you to|i would like you to|i'd like you to|you should|you must|let's)\b[\s,:!.]*)+", re.I)
SPLIT = re.compile(r"[,;.]?\s+(?:and\s+)?(?:then|after that|afterwards|finally)\b,?\s+|[,;]?\s+and\s+(?:also\s+)?(?=(?:run|read|write|create|list|execute|append|delete|count|call|use)\b)|(?:(?<=[.!?])\s+|\n\s*)(?=(?:Run|Read|Write|Create|List|Execute|Append|Delete|Count|Use|Call)\b)", re.I)


def groups(match):
    return next((g for g in match.groups() if g is not None), "")


def mask(text):
    """The text with everything inside quotation marks blanked out, positions kept."""
    return QUOTED.sub(lambda m: m.group(0)[0] + "\x00" * (len(m.group(0)) - 2) + m.group(0)[-1], text)


def clauses(text):
    blank, out, start = mask(text), [], 0
    for m in SPLIT.finditer(blank):
        out.append(text[start:m.start()])
        start = m.end()
    out.append(text[start:])
    return [c.strip() for c in out if c.strip()]


def looks_like_path(word):
    if re.match(r"^(?:https?|ftp):|and/or$", word):
        return False
    return "/" in word[1:] or bool(re.match(r"^/\w|^\.\w", word)) or bool(re.match(r"^[\w@+-][\w@+.-]*\.[A-Za-z]\w{0,9}$", word))


def paths(text):
    """Everything in the text that looks like a file name: (position, name)."""
    found = []
    for m in QUOTED.finditer(text):
        inside = groups(m).strip()
        if looks_like_path(inside) and " " not in inside:
            found.append((m.start(), inside))
    for m in re.finditer(r"[^\s\"'`“”()<>,;]+", mask(text)):
        word = m.group(0).rstrip(".?!:").removeprefix("file://")
        if "\x00" not in word and looks_like_path(word):
            found.append((m.start(), word))
    m = re.search(r"\b(?:file|folder|directory)\s+(?:named|called)\s+[\"'`“]?([\w.@+/-]*\w)", text, re.I)
    if m and all(p != m.group(1) for _, p in found):
        found.append((m.start(1), m.group(1)))
    return sorted(found)


def literal(raw):
    """The text meant by `raw`: what stands in quotation marks, or the rest of the sentence."""
    raw = raw.strip()
    m = QUOTED.match(raw)
    if m:
        return groups(m)
    raw = re.split(r"(?<=[\w)])[.!?]\s+(?=[A-Z])", raw)[0]
    raw = re.sub(r",?\s+(?:and )?(?:nothing else|no other text|without any(?:thing)? .*)\s*[.!]?$", "", raw, flags=re.I)
    return raw[:-1] if raw.endswith(".") and not raw.endswith("..") else raw


def count_of(text, default):
    m = re.search(r"\b(\d+)\b", text) or re.search(rf"\b({'|'.join(NUMBER_WORDS)})\b", text, re.I)
    return default if not m else int(m.group(1)) if m.group(1).isdigit() else NUMBER_WORDS[m.group(1).lower()]


def command_in(text):
    m = re.search(r"\b(?:run|execute|launch|start|invoke|try|type|command)\b(.*)", text, re.I | re.S)
    if not m:
        return None
    rest = m.group(1)
    q = QUOTED.search(rest)
    lead = r"\s*(?:(?:me|for me|this|the|a|following|exact|single|shell|bash|terminal|command|line|program|exactly|please)\b\s*)*"
    if q and (q.group(2) or re.fullmatch(f"(?:{lead}|.*):?\\s*" if rest[:q.start()].rstrip().endswith(":") else lead, rest[:q.start()], re.I | re.S)):
        return groups(q).strip()
    said = "command" in rest[:60].lower() or re.search(r"\b(?:shell|terminal|command)\b", text, re.I)
    rest = re.sub("^" + lead + r"(?:(?:and|then|in|using)\b[^:]*)?:?\s*" if ":" in rest else "^" + lead, "", rest, flags=re.I | re.S)
    rest = re.split(r"\.\s+(?=[A-Z])|,?\s+(?:and|then)\s+(?:tell|show|report|give|let|wait|answer|reply)\b|\s+(?:in|using|from|with)\s+(?:the|a|your)\s+(?:terminal|shell|working|current)\b", rest)[0].strip()
    rest = rest[:-1] if re.search(r"\w[.]$", rest) else rest
    first = rest.split(None, 1)[0] if rest.split() else ""
    if first and (said or shutil.which(first) or first in BUILTINS):
        return rest
    return None


def write_in(text):
    where, blank = paths(text), mask(text)
    fence = re.search(r"```[^\n`]*\n(.*?)```", text, re.S)
    m = re.search(r"\b(?:write|put|save|store)\s+(?:the\s+)?(?:exact\s+)?(?:text|words?|line|content|string)?\s*:?(.+?)\s+(?:to|into|in|as)\s+(?:a|the)?\s*(?:new\s+)?(?:file\s+)?(?:named\s+|called\s+)?(?=\S)", blank, re.I | re.S)
    if m and where and not re.match(r"\s*(?:an?|the)?\s*(?:new\s+|text\s+|small\s+)*file\b", m.group(1), re.I):
        after = [p for pos, p in where if m.end() - 1 <= pos <= m.end() + 1]
        if after and not looks_like_path(m.group(1).strip(" \"'`.")):
            return after[0], literal(text[m.start(1):m.end(1)])
    if not where:
        return None
    pos, path = where[0]
    m = re.compile(r"\b(?:containing|contains?|contents?|saying|says|reading|with|text|holding|put|write|into it)\b(?:\s+(?:the|a|an|exact|exactly|only|just|single|following|this|text|words?|line|lines|content|contents|of|is|are|in it|it|should be|be)\b)*\s*(?:\([^)]*\)\s*)?:?\s*", re.I).search(blank, pos + len(path))
    if fence:
        return path, fence.group(1)
    said = literal(text[m.end():]) if m else ""
    return path, said if m and QUOTED.match(text[m.end():]) else re.sub(r"\s+(?:in|inside|to) it$", "", said)


def tool_call_in(text, tools):
    """Find a known MCP tool in the text, with its arguments: (server, tool, arguments)."""
    hits = [(len(t["name"]), s, t) for s, t in tools if re.search(rf"(?<![\w-]){re.escape(t['name'])}(?![\w-])", text)]
    if not hits:
        return None
    named = [h for h in hits if re.search(rf"(?<![\w-]){re.escape(h[1])}(?![\w-])", text)]
    _, server, tool = max(named or hits, key=lambda h: h[0])
    for m in re.finditer(r"\{", text):
        try:
            value, _ = json.JSONDecoder().raw_decode(text[m.start():])
            return server, tool["name"], value
        except ValueError:
            continue
    schema = tool.get("inputSchema") if isinstance(tool.get("inputSchema"), dict) else {}
    props = schema.get("properties") if isinstance(schema.get("properties"), dict) else {}
    rest = text.split(tool["name"], 1)[1]
    spare = [groups(m) for m in QUOTED.finditer(rest) if groups(m) not in props and groups(m) not in (server, tool["name"])]
    numbers, args = re.findall(r"(?<![\w.])-?\d+(?:\.\d+)?\b", mask(rest)), {}
    for name, spec in props.items():
        kind = spec.get("type") if isinstance(spec, dict) else None
        m = re.search(rf"\b{re.escape(name)}\b[\"'`]?\s*(?:=|:|is|set to|of|to)?\s*(?:(\"[^\"]*\"|'[^']*'|`[^`]*`)|([^\s,;\"'`]+))", rest)
        raw = (m.group(1)[1:-1] if m.group(1) else m.group(2).rstrip(".")) if m else None
        if kind in ("number", "integer"):
            if raw is None or not re.fullmatch(r"-?\d+(\.\d+)?", raw):
                raw = numbers.pop(0) if numbers else None
            elif raw in numbers:
                numbers.remove(raw)
            if raw is not None:
                args[name] = float(raw) if "." in raw else int(raw)
        elif kind == "boolean":
            args[name] = not re.search(r"\bfalse\b|\bno\b|\boff\b", (raw or rest).lower())
        elif raw is not None and (m.group(1) or raw not in ("and", "with", "argument", "arguments")):
            args[name] = raw
        elif spare:
            args[name] = spare.pop(0)
        elif name in (schema.get("required") or []):
            args[name] = literal(re.sub(r"^\W*(?:tool|with|argument|arguments|of|the|mcp|server|on|for|me|and|text)?\W*", "", rest)) or "stoat"
    return server, tool["name"], args


def one(text, tools, last_path):
    """One clause to one wish, or None."""
    text = POLITE.sub("", text.strip()) or text.strip()
    low, where = mask(text).lower(), paths(text)
    path = where[0][1] if where else None
    if not path and last_path and re.search(r"\b(?:it|its|that file|the file|the same file|them)\b", low):
        path = last_path
    m = re.match(r"/([\w-]+)\s*(.*)", text, re.S)
    if m and "/" not in m.group(2)[:1]:
        return {"do": "slash", "name": m.group(1), "rest": m.group(2)}
    if re.search(r"\b(?:tool|mcp|call|use|invoke)\b", low) and tools:
        hit = tool_call_in(text, tools)
        if hit:
            return {"do": "mcp", "server": hit[0], "tool": hit[1], "args": hit[2]}
    if re.search(r"\b(?:which|what|list)\b.*\btools\b|\bmcp (?:server|tool)", low):
        return {"do": "tools"}
    m = re.match(r"(?:just |only )?(?:say|reply|respond|answer|repeat|echo|output)\b(?:\s+(?:back|to me|me|with|exactly|only|just|precisely|nothing but|the|this|following|single|one|word|words|text|sentence|phrase|line|after me|a))*\s*[:,]?\s+(?=\S)", text, re.I)
    vague = r"\b(?:what|which|count|question|long|slowly|whether|contents?|output of|command|tool|i (?:told|gave|said|mentioned|asked)|remember|greet\w*)\b"
    if m and ("exactly" in m.group(0).lower() or m.group(0).rstrip().endswith(":") or QUOTED.match(text[m.end():]) or not re.search(vague, low[:80])):
        return {"do": "say", "text": literal(text[m.end():])}
    if re.search(r"\b(?:password|passphrase|api key|secret key|credit card|token)\b", low) and re.search(r"\bask\b|\bform\b", low):
        return {"do": "secret"}
    if not re.search(r"\bpermission\b|\bconfirm|(?:n't|not|never|without) ask", low) and re.search(r"\bask (?:me|the user)\b|\bask\w*\b.*\b(?:colou?r|prefer)|\belicit|\bquestionnaire\b|\b(?:fill in|show me) a form\b", low):
        return {"do": "ask"}
    m = re.search(r"\b(?:switch|change|go|move|set|enter|use)\b.*?\bmode\b(?:\s+(?:to|is|called|named))?\s*[\"'`]?(\w[\w-]*)?|\b(?:switch|change) (?:to|into) (?:the )?[\"'`]?([\w-]+)[\"'`]? mode", text, re.I)
    if m:
        words = re.findall(r"[\w-]+", text.lower())
        return {"do": "mode", "words": words, "mode": (m.group(2) or m.group(1) or "").lower()}
    if re.search(r"\b(?:run|execute|launch|shell|terminal|command)\b", low):
        command = command_in(text)
        if command:
            return {"do": "run", "command": command}
    if re.search(r"\bappend|\badd\b.*\bto\b", low) and path:
        q = QUOTED.search(text)
        m = re.search(r"\b(?:append|add)\s+(?:the\s+)?(?:text|line|words?)?\s*(.+?)\s+to\b", text, re.I | re.S)
        return {"do": "append", "path": path, "text": groups(q) if q and groups(q) != path else m.group(1) if m else ""}
    m = re.search(r"\b(?:replace|change)\s+(?:the\s+)?(?:words?|text|line)?\s*(\S.*?)\s+(?:with|by|to|into)\s+(\S.*?)\s+in\b", text, re.I)
    m = m or re.search(r"\bin\s+\S+,?\s+(?:replace|change)\s+(\S.*?)\s+(?:with|by|to|into)\s+(\S.*)", text, re.I)
    m = m or (re.search(r"\breplace\s+(?:the\s+)?(?:words?|text|line)?\s*(\S.*?)\s+(?:with|by)\s+(\S.*)", text, re.I) if where and "edit" in low else None)
    if m and path:
        return {"do": "replace", "path": path, "old": literal(m.group(1)), "new": literal(m.group(2))}
    if re.search(r"\b(?:delete|remove|erase)\b", low) and path:
        return {"do": "delete", "path": path}
    if re.search(r"\b(?:write|create|save|put|make|store|overwrite|update|edit)\b", low):
        hit = write_in(text) or ((path, literal(text.split("containing")[-1])) if path and "containing" in low else None)
        if hit:
            return {"do": "write", "path": hit[0], "text": hit[1]}
    if re.search(r"\b(?:list|ls|which|what|show|see|enumerate)\b.*\b(?:files?|directory|folder|entries)\b", low) and not re.search(r"\bread\b|\bcontents? of the file|\bfile\b.*\bcontain", low) and not (path and re.search(r"\bfile\b", low)):
        return {"do": "list", "path": path}
    if path and re.search(r"\b(?:read|show|display|print|cat|open|contents?|contains?|inside|look|view|tell|give|check|summari[sz]e|what|what's|see|find)\b", low):
        m = re.search(r"\blines?\s+(\d+)(?:\s*(?:-|to|until|through)\s*(\d+))?", low)
        return {"do": "read", "path": path, "first": int(m.group(1)) if m else None, "last": int(m.group(2) or m.group(1)) if m else None}
    if re.search(r"\bcount\b", low):
        return {"do": "count", "to": count_of(re.split(r"\bto\b|\buntil\b", low)[-1], 10), "slow": "fast" not in low and "quick" not in low}
    if re.search(r"\b(?:long|lengthy|essay|detailed|story|paragraphs|many words|slowly)\b", low) and re.search(r"\b(?:write|tell|give|answer|text|essay|story|explain|produce|stream|talk|describe|reply)\w*\b", low):
        return {"do": "long", "paragraphs": max(24, min(count_of(low, 32), 60))}
    m = re.search(r"\b(?:wait|sleep|pause)\b.*?(\d+)", low)
    if m:
        return {"do": "wait", "seconds": min(int(m.group(1)), 120)}
    if re.search(r"\b(?:did i|have i|i (?:just )?(?:said|told|gave|asked|mentioned|sent)|do you (?:remember|recall|know)|earlier|before)\b", low) or re.search(r"\bwhat(?:'s| is| was)?\b.*\b(?:my|the secret|the word|code ?word|the number|the name)\b", low):
        return {"do": "recall"}
    if re.search(r"\b(?:remember|keep in mind|memori[sz]e|note that|don't forget|my \w+ is|the (?:secret|code)\w*(?: \w+)? is)\b", low):
        return {"do": "remember"}
    if re.search(r"\bgreet", low) or re.match(r"(?:hi|hello|hey|good (?:morning|day|evening))\b", text, re.I):
        return {"do": "say", "text": "Hello! I am fourth-stoat. Tell me what to read, write or run."}
    return None


def parse(text, tools, last_path=None):
    """All wishes in the text, in order; `think` and `plan` come first."""
    if len(text) > 4000:  # the wish stands at one of the ends; the middle is set aside and put back
        middle = text[2000:-1000]
        found = parse(text[:2000] + "\ue000" + text[-1000:], tools, last_path)
        return [{k: v.replace("\ue000", middle) if isinstance(v, str) else v for k, v in w.items()} for w in found]
    low, wishes = mask(text).lower(), []
    if re.match(r"\s*/[\w-]+(?:\s|$)", text):
        return [one(text.strip(), tools, last_path)]
    if re.search(r"\bthink\b|\breason (?:about|through)\b|\bponder\b|\breflect\b", low):
        wishes.append({"do": "think"})
    if re.search(r"\b(?:make|create|write|show|give|draw|prepare|outline|use|follow|have)\b.*?\bplan\b|\bstep[- ]by[- ]step\b|^\s*plan\b|\bplan (?:with|of|for)\b", low):
        wishes.append({"do": "plan", "steps": max(2, min(count_of(low, 3), 9))})
    parts = clauses(text)
    found = [one(text, tools, last_path)] if len(parts) == 1 else []
    for part in parts if len(parts) > 1 else []:
        found.append(one(part, tools, last_path))
        last_path = (found[-1] or {}).get("path") or last_path
    if len(parts) > 1 and not any(found):
        found = [one(text, tools, last_path)]
    return wishes + [w for w in found if w]
