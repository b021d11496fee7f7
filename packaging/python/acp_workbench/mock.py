"""A mock agent that listens on a port of this machine, for tests of clients.

Each connection is one `acp mock --stdio`, so that its end is known exactly: what the client did wrong can be asked for
as soon as the conversation is over.
"""
from __future__ import annotations

import json
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Sequence

from . import _binary
from ._binary import AcpError

_COMPLAINT = "not as the script says: "
_USAGE = 2


class Mock:
    """A running mock agent. Use it as a context manager, or call `close`."""

    def __init__(
        self,
        script: dict[str, Any] | str | Path | None = None,
        *,
        defects: Sequence[str] = (),
        variants: Sequence[str] = (),
        args: Sequence[str] = (),
        folder: Path | str | None = None,
    ):
        """`script` is the script itself or its file; `defects` and `variants` are names from `acp mock --list-defects`
        and `--list-variants`; `args` are further options of `acp mock`."""
        self._own = None if folder is not None else tempfile.TemporaryDirectory(prefix="acp-mock-")
        self.folder = Path(folder) if folder is not None else Path(self._own.name)
        self.folder.mkdir(parents=True, exist_ok=True)
        self._options = [
            "--state-dir", str(self.folder / "state"),
            *self._script(script),
            *(word for name in defects for word in ("--defect", name)),
            *(word for name in variants for word in ("--variant", name)),
            *args,
        ]
        self._check()
        self._conversations: list[_Conversation] = []
        self._server = socket.create_server(("127.0.0.1", 0))
        #: Where it listens.
        self.host, self.port = self._server.getsockname()
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        """The address for `acp … --connect`."""
        return f"tcp://{self.host}:{self.port}"

    @property
    def command(self) -> list[str]:
        """The command line of the same mock on standard input and output, for clients that start their agent."""
        return [_binary.find_binary(), "mock", "--stdio", "--record", str(self._stdio_transcript), *self._options]

    @property
    def transcripts(self) -> list[Path]:
        """The recorded conversations, for `acp lint`."""
        paths = [one.transcript for one in self._conversations] + [self._stdio_transcript]
        return [path for path in paths if path.exists()]

    @property
    def frames(self) -> list[dict]:
        """Every message of all conversations: `{"dir": "c2a" or "a2c", "frame": {...}}`."""
        return [frame for path in self.transcripts for frame in _binary.frames(path)]

    def received(self, method: str) -> list[dict]:
        """The messages of this method that the client sent, in order. A message that was answered is among them."""
        return [
            one["frame"] for one in self.frames
            if one["dir"] == "c2a" and isinstance(one["frame"], dict) and one["frame"].get("method") == method
        ]

    def finish(self, timeout: float = 10) -> None:
        """Ends the conversations that are still open and waits for the mock's verdict about them."""
        for conversation in self._conversations:
            conversation.finish(timeout)

    def complaints(self) -> list[str]:
        """What the script's `verify` found missing. Ends open conversations."""
        self.finish()
        lines = [line for one in self._conversations for line in one.stderr().splitlines()]
        return [line.split(_COMPLAINT, 1)[1] for line in lines if _COMPLAINT in line]

    def violations(self, warnings: bool = False) -> list[dict]:
        """The requirements that the client broke, as `acp lint` finds them. Ends open conversations."""
        self.finish()
        grades = ("fail", "warn") if warnings else ("fail",)
        return [one for path in self.transcripts for one in _binary.findings_of(path, "client", grades)]

    def assert_clean(self, warnings: bool = False) -> None:
        """Fails if the client broke a requirement of the protocol, or did not do what the script's `verify` says. Ends
        open conversations."""
        broken = [f"  {one['requirement']}: {one['message']}" for one in self.violations(warnings)]
        broken += [f"  {complaint}" for complaint in self.complaints()]
        assert not broken, "the client broke the protocol or the script:\n" + "\n".join(broken)

    def close(self) -> None:
        """Ends the mock."""
        self._server.close()
        self.finish()
        if self._own is not None:
            self._own.cleanup()

    def __enter__(self) -> Mock:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def _stdio_transcript(self) -> Path:
        return self.folder / "stdio.ndjson"

    def _check(self) -> None:
        """An unknown defect or a broken script is said here, not in the first connection."""
        run = subprocess.run(
            [_binary.find_binary(), "mock", "--stdio", *self._options],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, encoding="utf-8",
        )
        if run.returncode == _USAGE:
            raise AcpError(f"the mock does not start: {run.stderr.strip()}")

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            stem = self.folder / f"connection-{len(self._conversations) + 1}"
            self._conversations.append(_Conversation(connection, self._options, stem))

    def _script(self, script: dict[str, Any] | str | Path | None) -> list[str]:
        if script is None:
            return []
        if isinstance(script, dict):
            path = self.folder / "script.json"
            path.write_text(json.dumps(script), encoding="utf-8")
            script = path
        return ["--script", str(script)]


class _Conversation:
    """One client's connection, joined to one mock process, and its transcript."""

    def __init__(self, connection: socket.socket, options: Sequence[str], stem: Path):
        self.transcript = stem.with_suffix(".ndjson")
        self._errors = stem.with_suffix(".stderr")
        self._connection = connection
        self._record = _Recorder(self.transcript)
        with open(self._errors, "wb") as errors:
            self._process = subprocess.Popen(
                [_binary.find_binary(), "mock", "--stdio", *options],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
            )
        self._threads = [threading.Thread(target=run, daemon=True) for run in (self._to_mock, self._to_client)]
        for thread in self._threads:
            thread.start()

    def stderr(self) -> str:
        return self._errors.read_text(encoding="utf-8")

    def finish(self, timeout: float) -> None:
        try:
            # The client's side of the conversation is over; the mock answers what is left and ends.
            self._connection.shutdown(socket.SHUT_RD)
        except OSError:
            pass
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for thread in self._threads:
            thread.join(timeout)
        self._connection.close()
        self._record.close()

    def _to_mock(self) -> None:
        try:
            while data := self._connection.recv(65536):
                self._record.feed("c2a", data)
                self._process.stdin.write(data)
                self._process.stdin.flush()
        except OSError:
            pass
        try:
            self._process.stdin.close()
        except OSError:
            pass

    def _to_client(self) -> None:
        try:
            while data := self._process.stdout.read1(65536):
                self._record.feed("a2c", data)
                self._connection.sendall(data)
            self._connection.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        self._process.stdout.close()


class _Recorder:
    """Writes the lines of both directions as a transcript, each before it is passed on."""

    def __init__(self, path: Path):
        self._file = open(path, "w", encoding="utf-8")
        self._lock = threading.Lock()
        self._began = time.monotonic()
        self._rest = {"c2a": b"", "a2c": b""}

    def feed(self, direction: str, data: bytes) -> None:
        *lines, self._rest[direction] = (self._rest[direction] + data).split(b"\n")
        with self._lock:
            for line in lines:
                record = {"t": time.monotonic() - self._began, "dir": direction, "line": line.decode("utf-8", "replace")}
                self._file.write(json.dumps(record) + "\n")
            self._file.flush()

    def close(self) -> None:
        with self._lock:
            self._file.close()
