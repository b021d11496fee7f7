"""Finding out from plain English what a person wants."""

import json
import re
from urllib.parse import unquote, urlparse

QUOTED = re.compile(
    r'```(?:\w*\n)?(.*?)```|"([^"]*)"|“([^”]*)”|`([^`]*)`|(?<!\w)\'([^\n]*?)\'(?!\w)', re.S)
ABSOLUTE = re.compile(r"(?<![\w:/.~])/(?:[\w.@+\-~%=,]+/?)+")
DOTTED = re.compile(r"(?<![\w/])(?:\.{1,2}/)?[\w\-/@+]*[\w\-@+]\.[A-Za-z][\w]{0,9}(?:\.\w{1,8})?\b"
                    r"|(?<![\w/.])\.{1,2}/[\w\-./@+]+|(?<![\w/.])[\w\-]+/[\w\-./]+")
NAMED = re.compile(r"\b(?:file|folder|directory|dir)\s+(?:named|called|at|in)?\s*([\w.\-/]+)", re.I)
NOT_NAMES = {"with", "and", "to", "in", "of", "that", "which", "at", "is", "named", "called", "the",
             "here", "there", "please", "for", "containing", "saying", "you", "we", "i", "a", "it",
             "using", "whose", "from", "contents", "content", "structure", "system", "listing"}
NOT_FILES = {"e.g", "i.e", "etc."}

VERBS = [
    ("delete", r"\b(?:delete|remove|erase)\b"),
    ("edit", r"\b(?:edit|replace|change|modify|append|update|insert|add)\b"),
    ("write", r"\b(?:write|create|save|put|make|store|overwrite)\b"),
    ("run", r"\b(?:run|execute|shell|terminal|bash)\b"),
    ("list", r"\b(?:list|ls|look (?:in|into|inside|around)|(?:what|which) files|"
             r"show (?:me )?(?:all )?(?:the )?(?:files|folder|directory|entries))\b"),
    ("read", r"\b(?:read|show|open|print|cat|view|display|summari[sz]e|what(?:'s| is| does)|"
             r"contents?|look at|tell me what|check)\b"),
]
NUMBERS = re.compile(r"\b(\d+(?:\.\d+)?)\b")


def quotes(text):
    """All quoted pieces as (start, end, inside)."""
    found = []
    for match in QUOTED.finditer(text):
        inside = next(group for group in match.groups() if group is not None)
        found.append((match.start(), match.end(), inside))
    return found


def blank(text, spans):
    letters = list(text)
    for start, end in spans:
        letters[start:end] = " " * (end - start)
    return "".join(letters)


def like_path(text):
    if not text or "\n" in text or len(text) > 400:
        return False
    if text.startswith(("/", "./", "../", "file://")):
        return True
    return re.fullmatch(r"[\w\-./@+ ]*[\w\-@+]\.[A-Za-z]\w{0,9}|[\w\-.]+/[\w\-./]*", text) is not None \
        and " " not in text.strip()


def from_uri(text):
    if text.startswith("file://"):
        return unquote(urlparse(text).path)
    return text


def find_path(text):
    """The first path in the text as (path, start, end), or None."""
    candidates = []
    pieces = quotes(text)
    for start, end, inside in pieces:
        if like_path(inside):
            before = re.search(r"(\w+)\W*$", text[:start])
            near = bool(before) and before.group(1).lower() in (
                "file", "to", "into", "in", "at", "named", "called", "path", "edit", "open", "read",
                "create", "update", "folder", "directory", "delete", "remove", "from", "of", "list")
            candidates.append((0 if near else 2, start, end, from_uri(inside)))
    bare = blank(text, [(start, end) for start, end, _ in pieces])
    for match in re.finditer(r"file://\S+", bare):
        candidates.append((1, match.start(), match.end(), from_uri(match.group().rstrip(".,;:!?)"))))
    for pattern in (ABSOLUTE, DOTTED):
        for match in pattern.finditer(bare):
            name = match.group().rstrip(".,;:!?)")
            if name.lower() not in NOT_FILES and name != "/":
                candidates.append((1, match.start(), match.start() + len(name), name))
    if not candidates:
        for match in NAMED.finditer(bare):
            name = match.group(1).rstrip(".,;:!?")
            if name and name.lower() not in NOT_NAMES:
                candidates.append((3, match.start(1), match.start(1) + len(name), name))
        for start, end, inside in pieces:
            before = text[:start].rstrip().lower()
            if before.endswith(("file", "folder", "directory", "named", "called", "dir")) and "\n" not in inside:
                candidates.append((3, start, end, inside))
    if not candidates:
        return None
    _, start, end, name = min(candidates)
    return name, start, end


def free_text(text, path):
    """The text meant for a file, with the path's own place left out."""
    for start, end, inside in quotes(text):
        if path is None or not (start <= path[1] and path[2] <= end):
            return inside
    rest = blank(text, [(path[1], path[2])]) if path else text
    after = re.search(r"\b(?:with|containing|contains|saying|says|reading|holding)\b"
                      r"(?:\s+(?:the|this|exactly|following|texts?|contents?|lines?|words?|in it|as|of))*"
                      r"\s*[:=]?\s*(.+)$", rest, re.S | re.I)
    if after:
        return after.group(1).strip()
    before = re.search(r"\b(?:write|put|save|add|append|insert|store)\s+(?:the\s+)?"
                       r"(?:(?:text|words?|line|content)\s+)?(.+?)\s+(?:to|into|in|at)\b", rest, re.S | re.I)
    if before and before.group(1).strip().lower() not in ("a file", "the file", "file", "something"):
        return before.group(1).strip()
    colon = re.search(r":\s+(.+)$", rest, re.S)
    return colon.group(1).strip() if colon else None


def find_swap(text, path):
    """Old and new text of a replacement, or None."""
    rest = blank(text, [(path[1], path[2])]) if path else text
    piece = r'("[^"]*"|“[^”]*”|`[^`]*`|\'[^\']*\'|\S+(?:\s\S+)*?)'
    match = re.search(r"\b(?:replace|change|swap|turn)\s+(?:the\s+)?(?:(?:text|words?|line|string)\s+)?" + piece +
                      r"\s+(?:with|by|to|into|for)\s+(?:the\s+)?(?:(?:text|words?|line)\s+)?" + piece +
                      r"(?=\s+in\b|\s*[.,;]?\s*$)", rest, re.I | re.S)
    if not match:
        return None
    return tuple(part.strip("\"“”`'") for part in match.groups())


def find_command(text):
    pieces = quotes(text)
    if pieces:
        return pieces[0][2].strip()
    match = re.search(r"\b(?:run|execute)\s+(?:the\s+|this\s+|a\s+)?(?:(?:shell|terminal|bash)\s+)?"
                      r"(?:command\b)?\s*:?\s*(.+)$", text, re.I | re.S)
    if not match:
        match = re.search(r"\b(?:command|shell|terminal)\s*:\s*(.+)$", text, re.I | re.S)
    if not match:
        return None
    command = match.group(1).strip()
    command = re.sub(r",?\s+(?:in|on|using) (?:the|a|your) (?:terminal|shell|console)\b.*$", "", command, flags=re.I | re.S)
    command = re.sub(r",?\s+(?:and|then) (?:tell|show|give|report|say|let)\b.*$", "", command, flags=re.I | re.S)
    command = re.sub(r",?\s+please[.!]?$", "", command, flags=re.I)
    return re.sub(r"(?<=\w)[.!?]$", "", command).strip() or None


def find_saying(text):
    pieces = quotes(text)
    if pieces:
        return pieces[0][2]
    match = re.search(r"\b(?:say|repeat|echo|reply|respond|answer|write back)\b"
                      r"(?:\s+(?:after me|back|with|exactly|only|just|the|single|following|words?|text|phrase|me))*"
                      r"\s*[:,]?\s*(.+)$", text, re.I | re.S)
    return match.group(1).strip() if match else None


def tool_arguments(text, tool):
    """Arguments for an MCP tool: a JSON object, named values or the quoted text."""
    at = text.find("{")
    while at >= 0:
        try:
            value, _ = json.JSONDecoder().raw_decode(text[at:])
            if isinstance(value, dict):
                return value
        except ValueError:
            pass
        at = text.find("{", at + 1)
    schema = tool.get("inputSchema")
    schema = schema if isinstance(schema, dict) else {}
    properties = schema.get("properties")
    properties = properties if isinstance(properties, dict) else {}
    needed = [key for key in schema.get("required") or list(properties)[:1] if isinstance(key, str)]
    wording = re.sub(r"\b%s\b" % re.escape(tool["name"]), " ", text)
    spoken = [inside for _, _, inside in quotes(wording) if inside.strip()]
    numbers = NUMBERS.findall(wording)
    arguments = {}
    for key, rule in properties.items():
        match = re.search(r"\b%s\b\s*(?:=|:|\bis\b|\bas\b|\bof\b|\bset to\b)?\s*(?:\"([^\"]*)\"|'([^']*)'|`([^`]*)`|([^\s,;]+))"
                          % re.escape(key), wording, re.I)
        if match:
            value = next(group for group in match.groups() if group is not None)
            arguments[key] = fit(value.rstrip(".") if match.group(4) else value, rule)
    for key in needed:
        if key in arguments:
            continue
        rule = properties.get(key)
        kind = rule.get("type") if isinstance(rule, dict) else None
        if kind in ("integer", "number"):
            arguments[key] = fit(numbers.pop(0) if numbers else "0", rule)
        elif kind == "boolean":
            arguments[key] = True
        elif kind in (None, "string"):
            if spoken:
                arguments[key] = spoken.pop(0)
            else:
                after = re.search(r"\b(?:with|saying|on|for|text|message)\b\s*:?\s*(.+)$", wording, re.I | re.S)
                arguments[key] = after.group(1).strip() if after else text.strip()
    return arguments


def fit(value, rule):
    kind = rule.get("type") if isinstance(rule, dict) else None
    try:
        if kind == "integer":
            return int(value)
        if kind == "number":
            return float(value) if "." in value else int(value)
    except ValueError:
        return value
    if kind == "boolean":
        return value.lower() in ("true", "yes", "on", "1")
    return value


def find_tool(text, tools):
    """The MCP tool that is meant, if any."""
    low = text.lower()
    bare = blank(text, [(start, end) for start, end, _ in quotes(text)]).lower()
    if not re.search(r"\b(?:tools?|mcp|call|use|using|invoke|server)\b", bare):
        return None
    if re.search(r"\b(?:shell|terminal|command)\b", bare) and not re.search(r"\b(?:tools?|mcp)\b", bare):
        return None
    named = [tool for tool in tools
             if re.search(r"(?<![\w-])%s(?![\w-])" % re.escape(tool["name"].lower()), low)]
    if named:
        return max(named, key=lambda tool: len(tool["name"]))
    if re.search(r"\bmcp\b", bare) and tools and not re.search(r"\b(?:which|what|list|any)\b", bare):
        return tools[0]
    return None


def one_step(text):
    """The file or command work a piece of text asks for, or None."""
    path = find_path(text)
    spans = [(start, end) for start, end, _ in quotes(text)]
    if path:
        spans.append((path[1], path[2]))
    bare = blank(text, spans).lower()
    hits = []
    for rank, (name, pattern) in enumerate(VERBS):
        match = re.search(pattern, bare)
        if match:
            hits.append((match.start(), rank, name))
    same = path is None and re.search(r"\b(?:it|that file|the same file)\b", bare) is not None
    for _, _, name in sorted(hits):
        place = path[0] if path else ("" if same else None)
        if name == "run":
            command = find_command(text)
            if command:
                return {"do": "run", "command": command}
        elif name == "list":
            return {"do": "list", "path": path[0] if path else "."}
        elif place is None:
            continue
        elif name in ("read", "delete"):
            return {"do": name, "path": place}
        elif name == "edit":
            swap = find_swap(text, path)
            if swap:
                return {"do": "edit", "path": place, "old": swap[0], "new": swap[1]}
            extra = free_text(text, path)
            if extra is not None:
                adding = re.search(r"\b(?:append|add|insert)\b", bare)
                return {"do": "append" if adding else "write", "path": place, "text": extra}
        elif name == "write":
            content = free_text(text, path)
            return {"do": "write", "path": place, "text": content if content is not None else "A line from dunlin.\n"}
    return None


def understand(text, tools=()):
    """A list of steps; an empty list means plain conversation."""
    text = text.strip()
    bare = blank(text, [(start, end) for start, end, _ in quotes(text)]).lower()
    slash = re.match(r"/([\w-]+)(?:\s+(.*))?$", text, re.S)
    if slash and slash.group(1) in ("recap", "where", "jot"):
        return [{"do": "command", "name": slash.group(1), "text": (slash.group(2) or "").strip()}]
    tool = find_tool(text, tools)
    if tool:
        return [{"do": "tool", "tool": tool, "arguments": tool_arguments(text, tool)}]
    if re.search(r"\bmcp\b|\b(?:what|which) tools\b", bare):
        return [{"do": "tools"}]
    if re.match(r"(?:please\s+|just\s+|now\s+)*(?:say|repeat|echo|reply|respond)\b", bare) and find_saying(text):
        return [{"do": "say", "text": find_saying(text)}]
    if re.search(r"\bask (?:me|the user|us)\b|\belicit|\bquestion (?:for|to) me\b", bare):
        return [{"do": "ask", "text": text}]
    mode = re.search(r"\b(ask|trust|peek)\b", text.lower())
    if mode and re.search(r"\bmode\b", bare) and re.search(r"\b(?:switch|change|go|set|enter|use|turn)\b", bare):
        return [{"do": "mode", "mode": mode.group(1)}]
    if re.search(r"\bplan\b", bare) and find_path(text) is None:
        return [{"do": "plan", "text": text}]
    parts = re.split(r"[,.;]?\s+(?:and\s+)?(?:then|afterwards|after that)[,:]?\s+", text, flags=re.I)
    if len(parts) > 1:
        steps = [one_step(part) for part in parts]
        if all(steps):
            return steps
    step = one_step(text)
    if step:
        return [step]
    if re.search(r"\b(?:think|ponder|reason|consider)\b", bare):
        return [{"do": "think", "text": text}]
    wait = re.search(r"\b(?:wait|sleep|pause)\b\D*(\d+(?:\.\d+)?)", bare)
    if wait:
        return [{"do": "wait", "seconds": min(float(wait.group(1)), 120.0)}]
    if re.search(r"\b(?:story|tale|essay|poem|novel|count|paragraphs?)\b|\blong\b|\bstream", bare):
        return [{"do": "story", "text": text}]
    kept = re.search(r"\bremember\b\s*(?:that\s+|this\s*:?\s*)?(.+)$", text, re.I | re.S)
    if kept and not re.search(r"\b(?:do you|what|which|did i|can you)\b", bare):
        return [{"do": "remember", "text": kept.group(1).strip()}]
    if re.search(r"\b(?:what|which|do you)\b.*\b(?:remember|word|number|code|name|secret|said|say|told|tell|colou?r|earlier|before)\b", bare):
        return [{"do": "recall"}]
    saying = find_saying(text)
    if saying and re.search(r"\b(?:say|repeat|echo|reply|respond|answer)\b", bare):
        return [{"do": "say", "text": saying}]
    return []
