"""Sessions and the folder they are kept in."""

import asyncio
import base64
import datetime
import json
import os
import re
import uuid

from wire import note

PAGE = 20
MODES = [
    {"id": "ask", "name": "Ask", "description": "Ask before writing, deleting and running"},
    {"id": "trust", "name": "Trust", "description": "Work without asking"},
    {"id": "peek", "name": "Peek", "description": "Look only, change nothing"},
]
VOICES = [{"value": "plain", "name": "Plain"}, {"value": "brief", "name": "Brief"}]
FAULT = os.environ.get("FAULT", "")


def now():
    stamp = datetime.datetime.now(datetime.timezone.utc)
    return stamp.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


class Session:
    """One conversation."""

    def __init__(self, session_id, cwd, roots):
        self.id = session_id
        self.cwd = cwd
        self.roots = roots
        self.mode = "ask"
        self.voice = "plain"
        self.title = None
        self.updated = now()
        self.entries = []
        self.options = []
        self.grants = {}
        self.servers = []
        self.turns = []
        self.lock = asyncio.Lock()
        self.question = None
        self.deleted = False
        self.last_path = None
        self.refresh_options()

    def refresh_options(self):
        """Bring the config options in line with the settings."""
        self.options = [
            {"id": "conduct", "name": "Conduct", "description": "How freely dunlin acts",
             "category": "mode", "type": "select", "currentValue": self.mode,
             "options": [{"value": mode["id"], "name": mode["name"], "description": mode["description"]}
                         for mode in MODES]},
            {"id": "voice", "name": "Voice", "description": "How much dunlin says",
             "type": "select", "currentValue": self.voice, "options": VOICES},
        ]

    def settings(self):
        return {"modes": {"currentModeId": self.mode, "availableModes": MODES},
                "configOptions": self.options}

    def tools(self):
        return [tool for server in self.servers for tool in server.tools]

    def as_json(self):
        return {"id": self.id, "cwd": self.cwd, "roots": self.roots, "mode": self.mode,
                "voice": self.voice, "title": self.title, "updated": self.updated,
                "entries": self.entries}

    @classmethod
    def from_json(cls, data):
        session = cls(data["id"], data["cwd"], data["roots"])
        session.mode = data["mode"]
        session.voice = data["voice"]
        session.title = data["title"]
        session.updated = data["updated"]
        session.entries = data["entries"]
        if FAULT != "stale-dial":
            session.refresh_options()
        return session


def new_id():
    return "dun-" + uuid.uuid4().hex


class Store:
    """A folder with one file per session."""

    def __init__(self):
        base = os.environ.get("XDG_DATA_HOME") or os.path.join(os.path.expanduser("~"), ".local", "share")
        self.folder = os.path.join(base, "sixth-dunlin", "sessions")
        self.unsaved = {}

    def path(self, session_id):
        if not re.fullmatch(r"dun-[0-9a-f]{32}", session_id):
            return None
        return os.path.join(self.folder, session_id + ".json")

    def save(self, session):
        data = session.as_json()
        path = self.path(session.id)
        draft = path + ".%d.tmp" % os.getpid()
        try:
            os.makedirs(self.folder, exist_ok=True)
            with open(draft, "w", encoding="ascii") as file:
                json.dump(data, file)
            os.replace(draft, path)
            self.unsaved.pop(session.id, None)
        except OSError as error:
            note("cannot save: %s" % error)
            self.unsaved[session.id] = json.loads(json.dumps(data))

    def read(self, session_id):
        if session_id in self.unsaved:
            return self.unsaved[session_id]
        path = self.path(session_id)
        if path is None:
            return None
        try:
            with open(path, encoding="ascii") as file:
                data = json.load(file)
        except (OSError, ValueError):
            return None
        return data if isinstance(data, dict) and data.get("id") == session_id else None

    def load(self, session_id):
        data = self.read(session_id)
        return Session.from_json(data) if data else None

    def delete(self, session_id):
        self.unsaved.pop(session_id, None)
        path = self.path(session_id)
        if path:
            try:
                os.unlink(path)
            except OSError:
                pass

    def page(self, cwd, cursor):
        """One page of the sessions in which something was said."""
        after = read_cursor(cursor) if cursor is not None else None
        names = []
        try:
            names = [name[:-5] for name in os.listdir(self.folder) if name.endswith(".json")]
        except OSError:
            pass
        found = []
        for session_id in set(names) | set(self.unsaved):
            data = self.read(session_id)
            if not data or not any(entry["is"] == "user" for entry in data["entries"]):
                continue
            if cwd is None or data["cwd"] == cwd:
                found.append(data)
        found.sort(key=lambda data: (data["updated"], data["id"]), reverse=True)
        if after is not None:
            found = [data for data in found if (data["updated"], data["id"]) < after]
        result = {"sessions": [describe(data) for data in found[:PAGE]]}
        if len(found) > PAGE:
            last = found[PAGE - 1]
            raw = json.dumps([last["updated"], last["id"]]).encode()
            result["nextCursor"] = base64.urlsafe_b64encode(raw).decode()
        return result


def describe(data):
    info = {"sessionId": data["id"], "cwd": data["cwd"], "updatedAt": data["updated"]}
    if data["title"]:
        info["title"] = data["title"]
    if data["roots"]:
        info["additionalDirectories"] = data["roots"]
    return info


def read_cursor(cursor):
    """The place a cursor points to; ValueError if it was not made here."""
    raw = base64.b64decode(cursor.encode(), altchars=b"-_", validate=True)
    value = json.loads(raw)
    if not (isinstance(value, list) and len(value) == 2 and all(isinstance(part, str) for part in value)):
        raise ValueError("not a cursor")
    return tuple(value)
