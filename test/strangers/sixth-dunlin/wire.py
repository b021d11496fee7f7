"""JSON-RPC 2.0 over standard input and output, one message per line."""

import asyncio
import json
import sys

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
NOT_FOUND = -32002

CHUNK = 1 << 16


class RpcError(Exception):
    """An error to send to, or received from, the other side."""

    def __init__(self, code, message, data=None):
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data

    def as_json(self):
        error = {"code": self.code, "message": self.message}
        if self.data is not None:
            error["data"] = self.data
        return error


def note(text):
    """Write a line of log to standard error."""
    print("dunlin: " + text, file=sys.stderr, flush=True)


def is_id(value):
    if value is None or isinstance(value, str):
        return True
    return isinstance(value, (int, float)) and not isinstance(value, bool)


class Wire:
    """The connection to the client."""

    def __init__(self, on_request, on_notification):
        self.on_request = on_request
        self.on_notification = on_notification
        self.waiting = {}
        self.last_id = 0
        self.open = True

    # -- sending -----------------------------------------------------------

    def send(self, message):
        if not self.open:
            return
        line = json.dumps(message, separators=(",", ":")) + "\n"
        try:
            sys.stdout.buffer.write(line.encode("ascii"))
            sys.stdout.buffer.flush()
        except (BrokenPipeError, ValueError, OSError):
            self.open = False

    def notify(self, method, params):
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def answer(self, request_id, result):
        self.send({"jsonrpc": "2.0", "id": request_id, "result": result})

    def refuse(self, request_id, error):
        self.send({"jsonrpc": "2.0", "id": request_id, "error": error.as_json()})

    async def request(self, method, params, withdraw=False):
        """Ask the client something and wait for its answer.

        With withdraw the request is taken back by $/cancel_request when the
        waiting task is cancelled.
        """
        self.last_id += 1
        request_id = "dunlin/%d" % self.last_id
        future = asyncio.get_running_loop().create_future()
        self.waiting[request_id] = future
        self.send({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params})
        try:
            return await future
        except asyncio.CancelledError:
            if withdraw:
                self.notify("$/cancel_request", {"requestId": request_id})
            raise
        finally:
            self.waiting.pop(request_id, None)

    # -- receiving ---------------------------------------------------------

    async def listen(self):
        """Read messages until the end of input."""
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        pieces = []
        while True:
            data = await reader.read(CHUNK)
            if not data:
                break
            lines = data.split(b"\n")
            for line in lines[:-1]:
                pieces.append(line)
                self.take(b"".join(pieces))
                pieces = []
            if lines[-1]:
                pieces.append(lines[-1])
        if pieces:
            self.take(b"".join(pieces))

    def take(self, line):
        line = line.strip()
        if not line:
            return
        try:
            message = json.loads(line.decode("utf-8"))
        except (ValueError, RecursionError):
            self.refuse(None, RpcError(PARSE_ERROR, "The line is not JSON."))
            return
        if not isinstance(message, dict):
            self.refuse(None, RpcError(INVALID_REQUEST, "A message is one JSON object."))
            return
        if "method" not in message and ("result" in message or "error" in message):
            self.take_answer(message)
            return
        request_id = message.get("id")
        usable = request_id if is_id(request_id) else None
        if message.get("jsonrpc") != "2.0" or not isinstance(message.get("method"), str) \
                or not is_id(request_id):
            self.refuse(usable, RpcError(INVALID_REQUEST, "This is not a request."))
            return
        params = message.get("params")
        structured = params is None or isinstance(params, (dict, list))
        if "id" not in message:
            if structured:
                self.on_notification(message["method"], params)
            return
        if not structured:
            self.refuse(usable, RpcError(INVALID_REQUEST, "The params are no structure."))
            return
        self.on_request(request_id, message["method"], params)

    def take_answer(self, message):
        key = message.get("id")
        future = self.waiting.get(key) if isinstance(key, str) else None
        if future is None or future.done():
            return
        error = message.get("error")
        if error is not None:
            if not isinstance(error, dict):
                error = {}
            code = error.get("code")
            text = error.get("message")
            future.set_exception(RpcError(
                code if isinstance(code, int) else INTERNAL_ERROR,
                text if isinstance(text, str) else "unknown error", error.get("data")))
        else:
            future.set_result(message.get("result"))
