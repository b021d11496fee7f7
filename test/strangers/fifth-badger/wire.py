"""Newline-delimited JSON-RPC 2.0 over stdin and stdout, with one writer thread and numbered questions to the client."""
import json
import os
import queue
import sys
import threading


class RpcError(Exception):
    def __init__(self, code, message, data=None):
        super().__init__(message)
        self.code, self.message, self.data = code, message, data


class Cancelled(Exception):
    """The turn was cancelled while it waited for something."""


def log(*words):
    print("badger:", *words, file=sys.stderr, flush=True)


class Waiter:
    """One question on its way: it can be answered, or merely poked awake by a cancellation."""

    def __init__(self, number):
        self.number, self.cond = number, threading.Condition()
        self.done = self.poked = False
        self.result = self.error = self.late = None

    def answer(self, result, error):
        with self.cond:
            self.result, self.error, self.done = result, error, True
            late = self.late
            self.cond.notify_all()
        if late:
            late(self)

    def poke(self):
        with self.cond:
            self.poked = True
            self.cond.notify_all()

    def wait(self, timeout=None, heed_poke=True):
        with self.cond:
            self.cond.wait_for(lambda: self.done or (heed_poke and self.poked), timeout)
            return self.done

    def when_late(self, act):
        """Run act(self) when the answer comes after all (at once if it is already there)."""
        with self.cond:
            if not self.done:
                self.late = act
                return
        act(self)

    def value(self):
        if self.error is not None:
            raise self.error
        return self.result


class Wire:
    def __init__(self):
        self.out = os.dup(1)
        os.dup2(2, 1)                       # nothing but protocol can ever reach the real stdout
        self.queue, self.lock = queue.Queue(), threading.Lock()
        self.next_id, self.pending, self.closed = 1000, {}, False
        self.writer = threading.Thread(target=self._write, daemon=True)
        self.writer.start()

    def _write(self):
        while True:
            message = self.queue.get()
            if message is None:
                return
            text = json.dumps(message, ensure_ascii=False, separators=(",", ":"))
            for odd in "\u0085\u2028\u2029":            # some readers take these for line ends
                text = text.replace(odd, "\\u%04x" % ord(odd))
            data = (text + "\n").encode("utf-8", "replace")
            try:
                while data:
                    data = data[os.write(self.out, data):]
            except OSError:
                return

    def send(self, message):
        self.queue.put({"jsonrpc": "2.0", **message})

    def notify(self, method, params):
        self.send({"method": method, "params": params})

    def result(self, rid, result):
        self.send({"id": rid, "result": result})

    def error(self, rid, code, message, data=None):
        body = {"code": code, "message": message}
        if data is not None:
            body["data"] = data
        self.send({"id": rid, "error": body})

    def ask(self, method, params):
        with self.lock:
            waiter = Waiter(self.next_id)
            self.next_id += 1
            if not self.closed:
                self.pending[waiter.number] = waiter
            self.send({"id": waiter.number, "method": method, "params": params})
        if self.closed:
            waiter.answer(None, RpcError(-32603, "The client has gone."))
        return waiter

    def answered(self, message):
        rid = message.get("id")
        if isinstance(rid, bool) or not isinstance(rid, int):
            return
        with self.lock:
            waiter = self.pending.pop(rid, None)
        if waiter is None:
            return
        if "error" in message:
            err = message["error"] if isinstance(message["error"], dict) else {}
            code = err.get("code") if isinstance(err.get("code"), int) else -32603
            waiter.answer(None, RpcError(code, str(err.get("message") or "the client reported an error"), err.get("data")))
        else:
            waiter.answer(message.get("result"), None)

    def hang_up(self):
        with self.lock:
            self.closed = True
            left, self.pending = list(self.pending.values()), {}
        for waiter in left:
            waiter.answer(None, RpcError(-32603, "The client has gone."))

    def finish(self):
        self.queue.put(None)
        self.writer.join(2)


def read_messages(stream):
    """Yield ("ok", value) or ("broken", None) for each line; blank lines are passed over."""
    def refuse(name):
        raise ValueError("not JSON: " + name)
    while True:
        line = stream.readline()
        if not line:
            return
        if not line.strip():
            continue
        try:
            yield "ok", json.loads(line.decode("utf-8"), parse_constant=refuse)
        except (ValueError, RecursionError):
            yield "broken", None
