"""Turns plain English into a list of wishes, as leniently as is sensible."""

from __future__ import annotations

import json
import re
from typing import Any

VERBS = (r"read|open|show|display|print|cat|view|write|create|make|save|put|append|replace|run|execute|list|count|say|reply|"
         r"respond|answer|tell|use|call|invoke|ask|switch|change|set|think|plan|wait|sleep|remember|delete|remove|edit|update|"
         r"overwrite|what|repeat|give|do|don't|if|finally|report|explain|finish|after")
SPLIT = re.compile(r"(?:[.!?](?=\s|$)|;|\n)+\s*|,?\s*\b(?:and\s+then|then|afterwards|after that|finally)\b,?\s+|"
                   rf"(?:,\s*(?:and\s+)?|\s+and\s+)(?=(?:please\s+)?(?:{VERBS})\b)", re.I)
HELD = r"\x02\d+\x02"
FILE = rf"(?:{HELD}|[~\w./\\-]*[\w-]\.[A-Za-z]\w{{0,7}}(?![\w/])|\.{{0,2}}/[\w./~-]*[\w-])"
NAMED = rf"(?:file|document)(?:\s+(?:named|called|at|at the path|with the name|with the path|path))?:?\s+({HELD}|[\w./~-]*\w)"
CONTENT = (r"(?:(?:with|containing|contains?|that (?:contains|says|reads|holds)|which (?:contains|says)|holding|saying|whose|and"
           r"(?: put| write)?|so that it (?:contains|says)|to (?:contain|say))\s+)+(?:(?:the|its|this|as|exactly|only|just|exact|"
           r"following|single|one|line|content|contents|text|words?|body|is|are|of|be|data)\b:?\s*)*|:\s+")
NUMBERS = {"two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "ten": 10, "twenty": 20, "hundred": 100}


class Clauses:
    """The text cut into clauses; quoted passages and JSON objects are held back so that they stay whole."""

    def __init__(self, text: str) -> None:
        self.held: list[tuple[str, str]] = []
        text = self._hold_json(text.replace("\x02", ""))
        quotes = (r"```(?:\w*\n)?(?P<fence>.*?)\n?```|`(?P<tick>[^`\n]+)`|\"(?P<double>[^\"]*)\"|“(?P<curly>[^”]*)”|"
                  r"(?<![\w])'(?P<single>[^'\n]*)'(?!\w)|(?<!\w)‘(?P<soft>[^’]*)’")
        text = re.sub(quotes, lambda m: self._hold(m.lastgroup or "", m.group(m.lastgroup or 0)), text, flags=re.S)
        self.all = [part.strip(" ,:") for part in SPLIT.split(text) if part and part.strip(" ,:")]

    def _hold(self, kind: str, value: str) -> str:
        self.held.append((kind, value))
        return f"\x02{len(self.held) - 1}\x02"

    def _hold_json(self, text: str) -> str:
        out, at = "", 0
        while (brace := text.find("{", at)) >= 0:
            try:
                value, end = json.JSONDecoder().raw_decode(text, brace)
                out, at = out + text[at:brace] + self._hold("json", text[brace:end]), end
            except ValueError:
                out, at = out + text[at:brace + 1], brace + 1
        return out + text[at:]

    def full(self, part: str) -> str:
        return re.sub(r"\x02(\d+)\x02", lambda m: self.held[int(m[1])][1], part).strip()

    def first(self, clause: str, *kinds: str) -> str | None:
        for m in re.finditer(r"\x02(\d+)\x02", clause):
            if not kinds or self.held[int(m[1])][0] in kinds:
                return self.held[int(m[1])][1]
        return None


def _bare(text: str) -> str:
    return text.strip().rstrip(".,;:!?").strip()


def _path(clauses: Clauses, clause: str, last: str | None) -> str | None:
    found = re.search(NAMED, clause, re.I) or re.search(rf"({FILE})", clause)
    if found and not re.fullmatch(r"(?:in|with|containing|that|and|to|it|there|here|exists)", found[1], re.I):
        return _bare(clauses.full(found[1]))
    return last if re.search(r"\b(?:it|its|that file|this file|the file|there)\b", clause, re.I) else None


def _number(text: str, default: int) -> int:
    if m := re.findall(r"\d+", text):
        return int(m[-1])
    return next((n for word, n in NUMBERS.items() if re.search(rf"\b{word}\b", text, re.I)), default)


def _command(c: Clauses, clause: str) -> str | None:
    if not re.search(r"\b(?:run|execute|exec|launch|start)\b|\b(?:in|use|with) (?:the |a |your )?(?:terminal|shell)\b", clause, re.I):
        return None
    if held := c.first(clause, "tick", "fence"):
        return held
    m = re.search(r"\b(?:run|execute|exec|launch|start)\b\s*(?:(?:the|this|following|a|shell|terminal|bash|command|exactly)\b\s*)*:?\s*(.+)",
                  clause, re.I)
    if not m:
        return None
    rest = re.sub(r"\s+(?:in|with|using|from) (?:the|a|your|my) (?:terminal|shell|console|command line|current directory|"
                  r"working directory)\b.*$", "", m[1], flags=re.I)
    rest = re.sub(r"\s+(?:command|so that|for me|please)\b.*$", "", rest, flags=re.I)
    if re.fullmatch(HELD, rest.strip()):
        return c.full(rest)
    return None if re.fullmatch(r"(?:it|that|tools?|commands?|mcp.*)?", _bare(rest), re.I) else _bare(c.full(rest))


def _write(c: Clauses, clause: str, last: str | None) -> dict[str, Any] | None:
    if m := re.search(rf"\b(?:replace|change|substitute)\s+(.+?)\s+(?:with|by|to)\s+(.+?)\s+in\s+(.+)", clause, re.I):
        if path := _path(c, m[3], last):
            return {"do": "edit", "path": path, "old": _bare(c.full(m[1])), "new": _bare(c.full(m[2]))}
    if not re.search(r"\b(?:write|create|make|save|put|store|add|append|overwrite|generate|edit|update|change|set|fill)\b", clause, re.I):
        return None
    append = bool(re.search(r"\b(?:append|add)\b", clause, re.I))
    tail = rf"\s+(?:to|into|in|as)\s+(?:the end of\s+)?(?:an?\s+|the\s+|this\s+)?(?:new\s+|text\s+)*(?:(?:file|document)\s+(?:named\s+|called\s+)?)?({FILE})"
    m = re.search(rf"\b(?:write|save|put|store|append|add)\s+(?:(?:the|a|text|line|words?|content|following)\b:?\s+)*(.+?){tail}", clause, re.I)
    if m and not re.search(r"\bfile\b", m[1], re.I):
        return {"do": "write", "path": _bare(c.full(m[2])), "text": c.full(m[1]), "append": append}
    path = _path(c, clause, last)
    if not path:
        return None
    where = clause.find(path) if path in clause else -1
    spot = re.search(HELD, clause)
    after = clause[where + len(path):] if where >= 0 else (clause[spot.end():] if spot and c.full(spot[0]) == path else clause)
    m = re.search(rf"(?:{CONTENT})(.+)", after, re.I | re.S) or re.search(rf"({HELD})", after)
    if m:
        held = re.search(rf"({HELD})", m[1])
        return {"do": "write", "path": path, "text": c.full(held[1]) if held else _bare(c.full(m[1])), "append": append}
    if m := re.search(r"^(?:write|put|add|append|save|store)\s+(?:(?:the|this|text|words?|line|following)\b:?\s*)*(\w.*)", after.strip(), re.I):
        return {"do": "write", "path": path, "text": _bare(c.full(m[1])), "append": append}
    if (m := re.search(rf"({HELD})", clause)) and c.full(m[1]) != path:
        return {"do": "write", "path": path, "text": c.full(m[1]), "append": append}
    if re.search(r"\bempty\b", clause, re.I):
        return {"do": "write", "path": path, "text": "", "append": False}
    return {"do": "write", "path": path, "text": "Written by fourth-egret.\n", "append": append}


def _mcp(c: Clauses, clause: str, has_servers: bool) -> dict[str, Any] | None:
    own = r"(?:your|the|a|any|file|read|write|edit|terminal|shell|bash|right|available|appropriate|fs|system)"
    named = (re.search(rf"\b(?:tool|function)\s+(?:named\s+|called\s+)?({HELD}|(?!{own}\b|to\b|with\b|of\b|from\b|call)[\w.-]+)", clause, re.I)
             or re.search(rf"\b(?:use|call|invoke|run|try)\s+(?:the\s+)?(?:mcp\s+)?({HELD}|(?!{own}\b)[\w.-]+)\s+(?:mcp\s+)?(?:tool|function)\b", clause, re.I))
    plain = has_servers and re.match(rf"(?:please\s+)?(?:call|invoke)\s+(?:the\s+)?({HELD}|[\w.-]+)", clause, re.I)
    if not (named or plain or re.search(r"\bmcp\b", clause, re.I) or re.search(r"\b(?:list|which|what)\b.*\btools\b", clause, re.I)):
        return None
    listing = not named and re.search(r"\b(?:list|which|what|show)\b.*\b(?:tools|servers?)\b", clause, re.I)
    return {"do": "mcp-list" if listing else "mcp", "clause": c.full(clause), "json": c.first(clause, "json"),
            "name": _bare(c.full((named or plain)[1])) if named or plain else None,
            "quoted": [c.full(q) for q in re.findall(HELD, clause)]}


def _one(c: Clauses, clause: str, last: str | None, has_servers: bool) -> dict[str, Any] | None:
    low = clause.lower()

    def has(pattern: str) -> re.Match[str] | None:
        return re.search(pattern, clause, re.I)

    if m := has(r"^(?:otherwise|if (?:you )?(?:do not|don't|cannot|can't|there (?:is|was)|no)\b.*?),?\s+(?:just\s+)?(?:say|reply|answer|respond)\s+(?:with\s+)?(.+)"):
        return {"do": "fallback", "text": _bare(c.full(m[1]))}
    if has(r"^(?:(?:please|and)\s+)?(?:do not|don't|never|without|no need|if)\b"):
        return None
    if has(r"\b(?:ask|prompt|question) (?:me|the user|the human)\b|\belicit|\bask(?:ing)? for my\b") and not has(r"permission"):
        secret = has(r"password|passphrase|token|api.?key|secret|credential|pin\b")
        return {"do": "ask", "about": "secret" if secret else "name" if has(r"\bname\b") else "colour", "clause": c.full(clause)}
    if has(r"\b(?:switch|change|set|go|move|put|enter|use)\b.*\bmodes?\b"):
        return {"do": "mode", "clause": c.full(low)}
    if has(r"\b(?:switch|change|set|use)\b.*\bmodel\b"):
        return {"do": "model", "clause": c.full(low)}
    if has(r"\bmcp\b") and (wish := _mcp(c, clause, has_servers)):
        return wish
    if has(r"\b(?:tool|function)\b(?! call)|\b(?:list|which|what)\b.*\btools\b") and (wish := _mcp(c, clause, has_servers)):
        return wish
    if command := _command(c, clause):
        return {"do": "run", "command": command}
    if has_servers and (wish := _mcp(c, clause, has_servers)):
        return wish
    if has(r"\b(?:delete|remove)\b") and (path := _path(c, clause, last)):
        return {"do": "delete", "path": path}
    if has(r"\b(?:count|numbers? from)\b") and not has(r"\b(?:file|words in|lines in)\b"):
        return {"do": "count", "to": max(1, _number(clause, 20)), "slow": bool(has(r"\bslow|\bone (?:by one|per)|pause"))}
    long = has(r"\b(?:long|lengthy|very detailed|essay|story|poem|tale|novel)\b|\b\d+\s*(?:words?|paragraphs?|sentences?|lines)\b")
    if long and has(r"\b(?:write|tell|give|answer|produce|generate|explain|compose|essay|story|reply|describe)\b") and not re.search(FILE, clause) and not has(r"\bfile\b"):
        return {"do": "long"}
    if wish := _write(c, clause, last):
        return wish
    if has(r"\b(?:list|show|what|which|see|name)\b.*\b(?:files|entries|director(?:y|ies)|folders?)\b") and not has(r"working directory|current directory is"):
        m = re.search(rf"\b(?:in|of|inside|under)\s+(?:the\s+)?(?:director(?:y|ies)|folder)?\s*({HELD}|[./~][\w./~-]*|[\w.-]+(?=\s+(?:directory|folder))|[\w.-]+/[\w./-]*)", clause, re.I)
        spot = _bare(c.full(m[1])) if m else "."
        return {"do": "list", "path": "." if spot in ("", "current", "working", "this", "your", "my") else spot}
    if has(r"\b(?:read|open|show|display|print|cat|view|look|what(?:'s| is| does)?|contents?|contains?|see|summari[sz]e|check|inspect|tell)\b"):
        if path := _path(c, clause, last):
            start, limit = None, None
            if m := has(r"\blines?\s+(\d+)(?:\s*(?:-|to|through|and)\s*(\d+))?"):
                start = max(1, int(m[1]))
                limit = max(1, int(m[2] or m[1]) - start + 1)
            elif m := has(r"\bfirst\s+(\w+)?\s*lines?"):
                start, limit = 1, _number(m[0], 1)
            if last != path or has(r"\b(?:read|open|cat|show|display|view)\b"):
                return {"do": "read", "path": path, "line": start, "limit": limit}
    if has(r"\bplans?\b|\bsteps\b|to-?do list"):
        return {"do": "plan", "count": min(8, max(2, _number(clause, 3))), "clause": c.full(clause)}
    if m := has(r"\b(?:wait|sleep|pause)\b.*?(\d+(?:\.\d+)?)\s*(m)?"):
        return {"do": "wait", "seconds": min(600.0, float(m[1]) * (60 if m[2] and "minute" in low else 1))}
    if has(r"\bwhat\b.*\bi\b.*\b(?:say|said|told|tell|gave|give|asked?|mentioned|wrote)\b|\b(?:do|can) you (?:still )?(?:remember|recall)|"
           r"^(?:please )?(?:recall|repeat (?:what|everything))|\bmy (?:previous|last|first|earlier) (?:message|prompt|question|words?)|"
           r"\bwh(?:at|ich)\b.*\b(?:word|code ?word|secret|number|name|colou?r|code|phrase|passphrase|animal|token)\b"):
        return {"do": "recall", "clause": low}
    if has(r"\bremember\b|\bkeep in mind\b|\bmemori[sz]e\b|\b(?:my|the|our) [\w ]*(?:word|name|code|secret|number|colou?r|phrase|token)\w* is\b"):
        m = has(rf"({HELD})") or has(r"(?:\bis|:)\s+(\S+)") or has(r"(\S+)$")
        return {"do": "remember", "text": _bare(c.full(m[1])) if m else ""}
    if m := has(r"^(?:(?:please|and|just|simply|now|finally|when .*? done)\s*,?\s*)*(?:say|reply|respond|answer|repeat|echo|output|print|write|send|tell me)\b\s*"
                r"(?:(?:back|with|me|exactly|only|just|the|single|one|this|following|exact|text|word|words|phrase|sentence|message|verbatim)\b:?\s*)*:?\s*(.+)"):
        said = re.sub(r"\s+(?:and nothing else|and nothing more|only|verbatim|exactly|nothing else|to me|when .*|once .*|after .*)$", "", m[1].strip(" ,"), flags=re.I)
        if held := re.match(HELD, said):
            return {"do": "say", "text": c.full(held[0])}
        if has(r"\b(?:tell me|reply|respond|answer|say|print|output|repeat|write|send)\s+(?:with\s+|me\s+|back\s+)*(?:the|its)\s+(?!single|words?\b|text|phrase|"
               r"sentence|message|following|exact|one\b)"):
            return None
        if not re.match(r"(?:that|it|its|this|your|a|an|what|whether|in|me|about|how|the|to|of|using)\b", said, re.I):
            return {"do": "say", "text": _bare(c.full(said))}
        return None
    if has(r"\bthink\b|\breason\b|\bponder\b|\bconsider\b"):
        return {"do": "think"}
    if has(r"\b(?:working|current) directory\b|\bcwd\b"):
        return {"do": "where"}
    return None


def parse(text: str, has_servers: bool = False) -> list[dict[str, Any]]:
    clauses, wishes, last = Clauses(text), [], None
    parts = clauses.all
    for index, clause in enumerate(parts):
        if re.match(r"(?:if|otherwise)\b", clause, re.I) and not re.search(r"\b(?:say|reply|answer|respond)\b", clause, re.I):
            if index + 1 < len(parts):
                parts[index + 1] = f"{clause}, {parts[index + 1]}"
            continue
        wish = _one(clauses, clause, last, has_servers)
        if wish is None:
            continue
        if "path" in wish and wish["do"] != "list":
            last = wish["path"]
        wishes.append(wish)
    return wishes
