"""Sessions on disk, below HOME: one small card (<id>.json) and one growing diary (<id>.log) for each session."""
import datetime
import json
import os
import re
import secrets
import threading
import time

from wire import log

FAULT = os.environ.get("FAULT", "")
SHELF = os.path.join(os.environ.get("HOME") or os.path.expanduser("~"), ".fifth-badger", "sessions")
PACES = {"brisk": 0.0, "steady": 0.003, "leisurely": 0.03}


def now_text():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class Session:
    def __init__(self, sid, cwd, dirs, servers):
        self.id, self.cwd, self.dirs, self.servers = sid, cwd, dirs, servers
        self.title, self.created, self.updated = None, time.time(), now_text()
        self.config = {"pace": "steady", "chatter": True}
        self.history, self.verdicts = [], {}      # verdicts: what was allowed or refused "always", this sitting only
        self.turn, self.lock = None, threading.RLock()
        self.mcp, self.commands_told, self.question = None, False, None
        self.fresh_page, self.complaints = False, set()

    def card(self):
        return {"id": self.id, "cwd": self.cwd, "dirs": self.dirs, "title": self.title,
                "created": self.created, "updated": self.updated, "config": self.config}

    def save(self):
        try:
            os.makedirs(SHELF, mode=0o700, exist_ok=True)
            path = os.path.join(SHELF, self.id + ".json")
            with self.lock:
                with open(path + ".new", "w", encoding="utf-8") as f:
                    json.dump(self.card(), f)
                os.replace(path + ".new", path)
        except OSError as e:
            log("could not save the session card:", e)

    def note(self, entry):
        """Add one entry to the conversation, in memory and in the diary."""
        with self.lock:
            self.history.append(entry)
            how = "a"
            if self.fresh_page:
                how, self.fresh_page = "w", False
            try:
                os.makedirs(SHELF, mode=0o700, exist_ok=True)
                with open(os.path.join(SHELF, self.id + ".log"), how, encoding="utf-8") as f:
                    f.write(json.dumps(entry) + "\n")
            except OSError as e:
                log("could not write the diary:", e)


def new_session(cwd, dirs, servers):
    return Session("bench-" + secrets.token_hex(8), cwd, dirs, servers)


def from_disk(sid):
    """The saved session, or None."""
    if not re.fullmatch(r"bench-[0-9a-f]{16}", sid):
        return None
    try:
        with open(os.path.join(SHELF, sid + ".json"), encoding="utf-8") as f:
            card = json.load(f)
        s = Session(sid, card["cwd"], card.get("dirs") or [], [])
        s.title, s.created, s.updated = card.get("title"), card["created"], card["updated"]
        saved = card.get("config") or {}
        if saved.get("pace") in PACES:
            s.config["pace"] = saved["pace"]
        s.config["chatter"] = saved.get("chatter") is not False
    except (OSError, ValueError, KeyError, TypeError):
        return None
    try:
        with open(os.path.join(SHELF, sid + ".log"), encoding="utf-8") as f:
            for line in f:
                try:
                    s.history.append(json.loads(line))
                except ValueError:
                    pass                          # a line cut short by a crash
    except OSError:
        pass
    s.fresh_page = FAULT == "fresh-page"
    return s


def all_cards(live):
    """The cards of all sessions, youngest first; those of this process win over the disk."""
    cards = {}
    try:
        names = os.listdir(SHELF)
    except OSError:
        names = []
    for name in names:
        if re.fullmatch(r"bench-[0-9a-f]{16}\.json", name):
            try:
                with open(os.path.join(SHELF, name), encoding="utf-8") as f:
                    card = json.load(f)
                if isinstance(card["cwd"], str) and isinstance(card["created"], (int, float)):
                    cards[card["id"]] = card
            except (OSError, ValueError, KeyError, TypeError):
                pass
    for s in live:
        cards[s.id] = s.card()
    return sorted(cards.values(), key=lambda c: (-c["created"], c["id"]))
