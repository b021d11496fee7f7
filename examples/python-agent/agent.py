"""A small agent that keeps the protocol: it repeats what it is told. Python's standard library is all it needs."""
import json
import sys
import threading
import uuid

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS = -32700, -32600, -32601, -32602
RESOURCE_NOT_FOUND = -32002


class Refused(Exception):
    """A request is answered with an error."""

    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


def is_request(message):
    """Whether a message is a request or a notification of JSON-RPC 2.0."""
    return (
        isinstance(message, dict)
        and message.get("jsonrpc") == "2.0"
        and isinstance(message.get("method"), str)
        and isinstance(message.get("params", {}), (dict, list))
    )


def text_of(block):
    """The text of a content block: every agent takes text and links."""
    if isinstance(block, dict) and isinstance(block.get("text"), str) and block.get("type") == "text":
        return block["text"]
    if isinstance(block, dict) and isinstance(block.get("uri"), str) and block.get("type") == "resource_link":
        return block["uri"]
    raise Refused(INVALID_PARAMS, "a prompt is made of text and resource links")


class Agent:
    """Answers requests; a prompt streams its answer as `session/update` notifications."""

    def __init__(self, out):
        self._out = out
        self._lock = threading.Lock()
        self._ready = False
        self._sessions = {}
        self._methods = {
            "initialize": self.initialize,
            "authenticate": self.authenticate,
            "session/new": self.new_session,
            "session/prompt": self.prompt,
        }

    def send(self, message):
        with self._lock:
            self._out.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
            self._out.flush()

    def receive(self, line):
        """Handles one line from the client."""
        try:
            message = json.loads(line)
        except ValueError:
            return self.send({"id": None, "error": {"code": PARSE_ERROR, "message": "the line is not JSON"}})
        if isinstance(message, dict) and "method" not in message and ("result" in message or "error" in message):
            return None  # an answer, but this agent asks nothing
        if not is_request(message):
            request = message.get("id") if isinstance(message, dict) else None
            return self.send({"id": request, "error": {"code": INVALID_REQUEST, "message": "not a JSON-RPC request"}})
        method, params = message["method"], message.get("params", {})
        if "id" not in message:
            return self.notified(method, params)
        return self.answer(message["id"], method, params)

    def answer(self, request, method, params):
        try:
            if method not in self._methods:
                raise Refused(METHOD_NOT_FOUND, f"there is no method {method}")
            if not isinstance(params, dict):
                raise Refused(INVALID_PARAMS, "params must be an object")
            self.send({"id": request, "result": self._methods[method](params)})
        except Refused as refused:
            self.send({"id": request, "error": {"code": refused.code, "message": str(refused)}})

    def notified(self, method, params):
        if method == "session/cancel" and isinstance(params, dict):
            session = self._sessions.get(params.get("sessionId"))
            if session is not None:
                session["cancelled"] = True

    def initialize(self, params):
        version = params.get("protocolVersion")
        if not isinstance(version, int) or isinstance(version, bool):
            raise Refused(INVALID_PARAMS, "protocolVersion must be a number")
        self._ready = True
        return {
            "protocolVersion": 1,
            "agentInfo": {"name": "echo-agent", "title": "Echo agent", "version": "1.0.0"},
            "agentCapabilities": {},
            "authMethods": [],
        }

    def authenticate(self, params):
        raise Refused(INVALID_PARAMS, f"there is no login method {params.get('methodId')}")

    def new_session(self, params):
        if not self._ready:
            raise Refused(INVALID_REQUEST, "send initialize first")
        cwd, servers = params.get("cwd"), params.get("mcpServers")
        if not isinstance(cwd, str) or not cwd.startswith("/"):
            raise Refused(INVALID_PARAMS, "cwd must be an absolute path")
        if not isinstance(servers, list):
            raise Refused(INVALID_PARAMS, "mcpServers must be a list")
        session = f"session-{uuid.uuid4()}"
        self._sessions[session] = {"cancelled": False}
        return {"sessionId": session}

    def prompt(self, params):
        session, blocks = params.get("sessionId"), params.get("prompt")
        if not isinstance(session, str):
            raise Refused(INVALID_PARAMS, "sessionId must be a text")
        if session not in self._sessions:
            raise Refused(RESOURCE_NOT_FOUND, f"there is no session {session}")
        if not isinstance(blocks, list):
            raise Refused(INVALID_PARAMS, "prompt must be a list of content blocks")
        self._sessions[session]["cancelled"] = False
        text = " ".join(map(text_of, blocks))
        for word in ("You said:", text):
            if self._sessions[session]["cancelled"]:
                return {"stopReason": "cancelled"}
            content = {"type": "text", "text": f"{word} "}
            update = {"sessionUpdate": "agent_message_chunk", "content": content}
            self.send({"method": "session/update", "params": {"sessionId": session, "update": update}})
        return {"stopReason": "end_turn"}


if __name__ == "__main__":
    agent = Agent(sys.stdout)
    for line in sys.stdin:
        if line.strip():
            agent.receive(line)
