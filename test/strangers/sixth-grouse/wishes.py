"""Turns what a person wrote into one thing to do."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from urllib.parse import unquote, urlparse

QUOTE = re.compile(r"```[^\n]*\n(.*?)```|`([^`\n]+)`|\"([^\"]*)\"|“([^”]*)”|(?<!\w)'([^'\n]*(?:'\w[^'\n]*)*)'(?!\w)", re.S)
FILE_NAME = re.compile(r"^(?:[\w@+~-][^\s<>|&;*?=()/]*\.[A-Za-z]\w{0,9}|\.[A-Za-z][\w.-]+|Makefile|Dockerfile|README|LICENSE)$")
NOT_A_NAME = {
    "with", "and", "in", "of", "to", "that", "which", "containing", "called", "named", "from", "is", "on",
    "here", "there", "for", "content", "contents", "system", "listing", "you", "please", "at", "by",
}

# The earliest of these in a sentence decides.
ORDER: list[tuple[str, str]] = [
    ("mode", r"\b(?:switch|change|go|set|enter|use)\b[^.]*\b(?:mode|forage|perch|roost)\b"),
    ("ask", r"\b(?:ask(?:ing)? (?:me|the user)\b|ask a question|question me|let me choose|elicit\w*)"),
    ("plan", r"\b(?:plan|to-?do list)\b"),
    ("delete", r"\b(?:delete|remove|erase|unlink)\b"),
    ("append", r"\b(?:append|add)\b"),
    ("replace", r"\b(?:replace|substitute|edit|modify|change|update|correct|fix)\b"),
    ("write", r"\b(?:write|create|save|store|put|overwrite|make)\b"),
    ("run", r"\b(?:run|execute|exec|shell|command|terminal|bash|launch|start)\b"),
    ("list", r"\b(?:list|ls|look (?:in|into|around|through)|browse|(?:what|which) files|director(?:y|ies)|folders?)\b"),
    ("read", r"\b(?:read|open|cat|show|print|display|look at|view|inspect|summari[sz]e|what(?: is|'s) in|what does|contents? of)\b"),
    ("story", r"\b(?:story|tale|essay|poem|stream|long (?:text|answer|reply|message)|count (?:up )?to|keep talking)\b"),
    ("think", r"\b(?:think|ponder|reason|reflect|consider|thoughts?)\b"),
    ("remember", r"\b(?:remember|memori[sz]e|keep in mind|note that)\b"),
    ("recall", r"\b(?:what|which|who|recall|remind me|do you know)\b"),
    ("say", r"\b(?:say|repeat|echo|greet|(?:reply|answer|respond) with|hello|hi)\b"),
]


@dataclass
class Mark:
    value: str
    start: int
    end: int
    code: bool = False


@dataclass
class Wish:
    kind: str
    text: str
    paths: list[str] = field(default_factory=list)
    body: str | None = None
    old: str | None = None


def marks_in(text: str) -> list[Mark]:
    found = []
    for hit in QUOTE.finditer(text):
        value = next((group for group in hit.groups() if group is not None), "")
        found.append(Mark(value, hit.start(), hit.end(), hit.group(1) is not None or hit.group(2) is not None))
    return found


def blank(text: str, marks: list[Mark]) -> str:
    for mark in marks:
        text = text[: mark.start] + " " * (mark.end - mark.start) + text[mark.end :]
    return text


def is_path(word: str) -> bool:
    if not word or "\n" in word or re.match(r"https?:", word):
        return False
    if word.startswith(("file://", "/", "./", "../", "~/")):
        return len(word) > 1
    if re.search(r"\s", word):
        return bool(re.search(r"[\w-]\.\w{1,6}$", word)) and len(word.split()) < 5
    return bool(FILE_NAME.match(word)) or bool(re.match(r"^[\w.@+-]+(?:/[\w.@+-]*)+$", word))


def paths_in(text: str) -> list[Mark]:
    marks = marks_in(text)
    found = [mark for mark in marks if is_path(mark.value)]
    bare = blank(text, marks)
    for hit in re.finditer(r"\S+", bare):
        word = hit.group().lstrip("(<[").rstrip(")>],;:!?").rstrip(".") or hit.group()
        if is_path(word):
            found.append(Mark(word, hit.start(), hit.end()))
    if not found:
        for mark in marks:
            if re.search(r"\b(?:file|folder|directory)\s+(?:called\s+|named\s+)?$", text[: mark.start], re.I):
                found.append(mark)
        named = re.search(r"\b(?:file|folder|directory)\s+(?:called\s+|named\s+)?([\w.-]+)", bare, re.I)
        if not found and named and named.group(1).lower() not in NOT_A_NAME:
            found.append(Mark(named.group(1).rstrip("."), named.start(1), named.end(1)))
    return sorted(found, key=lambda mark: mark.start)


def resolve(name: str, cwd: str) -> str:
    if name.startswith("file://"):
        name = unquote(urlparse(name).path)
    return os.path.normpath(os.path.join(cwd, os.path.expanduser(name)))


def bare_of(text: str) -> str:
    hidden = blank(text, marks_in(text))
    return blank(hidden, paths_in(text)).lower()


def kind_of(text: str) -> str:
    paths = paths_in(text)
    bare = bare_of(text)
    best: tuple[int, str] | None = None
    for name, pattern in ORDER:
        hit = re.search(pattern, bare)
        if not hit:
            continue
        about_file = bool(paths) or re.search(r"\bfile\b", bare)
        if name in ("delete", "append", "replace", "write") and not about_file:
            continue
        if name == "read" and not about_file and not re.search(r"\b(?:link|resource|attach\w*|this)\b", bare):
            continue
        if best is None or hit.start() < best[0]:
            best = (hit.start(), name)
    if best is None:
        return "read" if paths else "talk"
    kind = best[1]
    if kind in ("write", "list") and re.match(r"^\s*(?:\w+\s+){0,3}(?:make|create|write)\s+(?:me\s+)?(?:an?\s+)?(?:\w+\s+)?plan\b", bare):
        return "plan"
    if kind in ("read", "recall") and re.search(r"\b(?:folder|directory|files)\b", bare):
        return "list"
    if kind == "recall" and paths:
        return "read"
    return kind


def understand(text: str, cwd: str) -> Wish:
    kind = kind_of(text)
    found = paths_in(text)
    wish = Wish(kind, text, [resolve(mark.value, cwd) for mark in found])
    others = [mark for mark in marks_in(text) if not found or mark.start != found[0].start]
    if kind == "run":
        wish.body = command_in(text)
    elif kind in ("write", "append"):
        wish.body = body_in(text, found, others)
    elif kind == "replace":
        if len(others) >= 2:
            wish.old, wish.body = others[0].value, others[1].value
        else:
            rest = blank(text, found[:1])
            hit = re.search(r"\b(?:replace|change|edit|update|substitute|correct|fix)\s+(?:the\s+(?:word|text|line)\s+)?(\S.*?)\s+(?:with|by|to|into|for)\s+(\S.*?)(?:\s+in\b.*)?\.?\s*$", rest, re.I | re.S)
            if hit and hit.group(1).lower() not in ("the file", "file", "it"):
                wish.old, wish.body = hit.group(1), hit.group(2)
            else:
                wish.kind, wish.body = "write", body_in(text, found, others)
    elif kind == "say":
        hit = re.search(r"\b(?:say|repeat|echo|(?:reply|answer|respond) with)\b\s*(?:after me|exactly|just|only|back|the (?:words?|text|line))?\s*:?\s*(.+)$", text, re.I | re.S)
        quoted = [mark.value for mark in marks_in(text)]
        wish.body = " ".join(quoted) if quoted else (hit.group(1).strip() if hit else None)
    return wish


def body_in(text: str, found: list[Mark], others: list[Mark]) -> str | None:
    if others:
        return others[-1].value
    tail = text[found[0].end :] if found else text
    hit = re.search(r"\b(?:with|containing|saying|that says|holding)\b(?:\s+(?:the|exact|following|text|contents?|words?|lines?|just|only))*\s*:?\s*(.+)$", tail, re.I | re.S)
    hit = hit or re.search(r":\s*(.+)$", tail, re.S)
    if hit:
        return hit.group(1).strip()
    hit = re.search(r"\b(?:write|put|save|store|append|add)\s+(?:the\s+(?:text|words?|line)\s+)?(.+?)\s+(?:to|into|in|at the end of)\b", text, re.I | re.S)
    if hit and not re.fullmatch(r"(?:a|the|it|new|file|text|\s)*", hit.group(1), re.I):
        return hit.group(1).strip()
    return None


def command_in(text: str) -> str | None:
    marks = marks_in(text)
    hit = re.search(r"\b(?:run|execute|exec|launch|start)\b(?:\s+(?:me|the|a|this|following|shell|bash|terminal|command|program|please|line))*\s*:?\s*(.+)$", text, re.I | re.S)
    hit = hit or re.search(r"\b(?:command|shell|terminal|bash)\b\s*:?\s*(.+)$", text, re.I | re.S)
    for mark in marks:
        if mark.code or hit is None or mark.start <= hit.start(1):
            return mark.value.strip()
    if hit is None:
        return None
    command = re.sub(r"\s+and\s+(?:tell|show|say|report|give|let)\b.*$", "", hit.group(1), flags=re.I | re.S)
    command = re.sub(r"\s+(?:in (?:the|a|your) (?:terminal|shell)|please|for me)\s*[.!?]?\s*$", "", command, flags=re.I)
    return command.rstrip(".!? \n") or None


def steps(text: str) -> list[str]:
    """Cuts "do this, then that" where the second part is a wish of its own."""
    bare = blank(text, marks_in(text))
    out, start = [], 0
    for hit in re.finditer(r"[,.;]?\s+(?:and\s+)?(?:then|after that|afterwards),?\s+", bare, re.I):
        if kind_of(text[hit.end() :]) not in ("talk", "recall"):
            out.append(text[start : hit.start()])
            start = hit.end()
    out.append(text[start:])
    return [part.strip() for part in out if part.strip()] or [text]
