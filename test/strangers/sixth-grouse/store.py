"""Keeps every session as one file of JSON lines, so that a later process can tell it again."""

from __future__ import annotations

import base64
import binascii
import json
import os
import re
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

PAGE = 30
NAME = re.compile(r"^[0-9a-f]{8}-[0-9a-f-]{27}$")


def now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class BadCursor(Exception):
    pass


class Store:
    def __init__(self) -> None:
        home = os.environ.get("HOME") or os.path.expanduser("~")
        self.folder = Path(home) / ".local" / "share" / "sixth-grouse"

    def _file(self, ident: str) -> Path | None:
        return self.folder / f"{ident}.jsonl" if NAME.match(ident) else None

    def add(self, ident: str, entry: dict[str, Any]) -> None:
        file = self._file(ident)
        if file is None:
            return
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with file.open("a", encoding="utf-8") as out:
                out.write(json.dumps(entry) + "\n")
        except OSError as exc:
            print(f"cannot keep {ident}: {exc}", file=sys.stderr)

    def read(self, ident: str) -> list[dict[str, Any]] | None:
        file = self._file(ident)
        if file is None:
            return None
        try:
            text = file.read_text(encoding="utf-8")
        except OSError:
            return None
        entries = []
        for line in text.split("\n"):
            try:
                entries.append(json.loads(line))
            except ValueError:
                continue  # half a line of a process that died
        return entries

    def page(self, cwd: str | None, cursor: str | None) -> tuple[list[dict[str, Any]], str | None]:
        after = self._open(cursor) if cursor is not None else None
        found = []
        for file in self.folder.glob("*.jsonl") if self.folder.is_dir() else []:
            info = self._head(file.stem)
            if info is not None and (cwd is None or info["cwd"] == cwd):
                found.append(info)
        found.sort(key=lambda info: (info["made"], info["id"]), reverse=True)
        if after is not None:
            found = [info for info in found if (info["made"], info["id"]) < after]
        page, rest = found[:PAGE], found[PAGE:]
        following = self._seal(page[-1]) if rest else None
        return page, following

    def _head(self, ident: str) -> dict[str, Any] | None:
        info: dict[str, Any] | None = None
        for entry in self.read(ident) or []:
            if entry.get("is") == "born":
                info = {"id": ident, "cwd": entry["cwd"], "made": entry["at"], "at": entry["at"], "title": None}
            if info is None:
                continue
            info["at"] = entry.get("at", info["at"])
            if entry.get("is") == "moved":
                info["cwd"] = entry["cwd"]
            elif entry.get("is") == "title":
                info["title"] = entry["title"]
        return info

    @staticmethod
    def _seal(info: dict[str, Any]) -> str:
        return base64.urlsafe_b64encode(f"g6|{info['made']}|{info['id']}".encode()).decode()

    @staticmethod
    def _open(cursor: str) -> tuple[str, str]:
        try:
            mark, made, ident = base64.urlsafe_b64decode(cursor.encode()).decode().split("|")
        except (ValueError, binascii.Error) as exc:
            raise BadCursor from exc
        if mark != "g6":
            raise BadCursor
        return made, ident
