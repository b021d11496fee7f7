"""Our client driving your agent, one prompt at a time."""
from __future__ import annotations

import dataclasses
import json
import subprocess
from pathlib import Path
from typing import Sequence

from . import _binary
from ._binary import AcpError, Command


@dataclasses.dataclass
class Turn:
    """What one prompt led to."""

    #: The session's id, to go on with `prompt(..., session=turn.session_id)`.
    session_id: str | None
    #: Why the agent ended the turn, such as `end_turn`; None if it did not get that far.
    stop_reason: str | None
    #: The `update` of every `session/update`, in order.
    updates: list[dict]
    #: The exit code of `acp prompt`: 0 if the turn ended normally.
    exit_code: int
    #: What `acp prompt` wrote to standard error, with the reason of a failure.
    stderr: str
    #: The recorded conversation.
    transcript: Path

    @property
    def text(self) -> str:
        """The agent's answer."""
        return self._text("agent_message_chunk")

    @property
    def thoughts(self) -> str:
        """The agent's thoughts."""
        return self._text("agent_thought_chunk")

    @property
    def tool_calls(self) -> list[dict]:
        """Each tool call once, with the latest value of every member."""
        calls: dict[str, dict] = {}
        for update in self.updates:
            if update.get("sessionUpdate") in ("tool_call", "tool_call_update"):
                members = {name: value for name, value in update.items() if name != "sessionUpdate"}
                calls.setdefault(update.get("toolCallId", ""), {}).update(members)
        return list(calls.values())

    @property
    def frames(self) -> list[dict]:
        """Every message of the conversation, in both directions."""
        return _binary.frames(self.transcript)

    def violations(self, warnings: bool = False) -> list[dict]:
        """The requirements that the agent broke in this conversation, as `acp lint` finds them."""
        grades = ("fail", "warn") if warnings else ("fail",)
        return _binary.findings_of(self.transcript, "agent", grades)

    def assert_clean(self, warnings: bool = False) -> None:
        """Fails if the agent broke a requirement of the protocol in this conversation."""
        broken = self.violations(warnings)
        assert not broken, "the agent broke the protocol:\n" + "\n".join(
            f"  {one['requirement']}: {one['message']}" for one in broken
        )

    def _text(self, kind: str) -> str:
        parts = (update.get("content", {}) for update in self.updates if update.get("sessionUpdate") == kind)
        return "".join(part.get("text", "") for part in parts if part.get("type") == "text")


class Agent:
    """Your agent, driven by the client of `acp prompt`. Each prompt starts it anew."""

    def __init__(self, command: Command, folder: Path | str, root: Path | str | None = None):
        """`command` starts the agent; `folder` takes the session's files and the transcripts."""
        self.command = _binary.command_line(command, root)
        self.folder = Path(folder)
        #: The session's working folder: put files for the agent here.
        self.cwd = self.folder / "workspace"
        self.cwd.mkdir(parents=True, exist_ok=True)
        self._turns = 0

    def prompt(
        self,
        text: str,
        *,
        policy: str = "default",
        session: str | None = None,
        timeout: float = 60,
        args: Sequence[str] = (),
    ) -> Turn:
        """Sends one prompt and waits for the end of the turn.

        `policy` says what the agent may do (`none`, `read`, `write`, `yolo`, …); `default` refuses what would need a
        person. `args` are further options of `acp prompt`.
        """
        self._turns += 1
        transcript = self.folder / f"turn-{self._turns}.ndjson"
        command = [
            _binary.find_binary(), "prompt", "--format", "json", "--command", self.command, "--policy", policy,
            "--cwd", str(self.cwd), "--record", str(transcript), "--timeout", f"{timeout:g}s",
            *(["--session", session] if session else []), *args, "--", text,
        ]
        try:
            run = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, text=True, encoding="utf-8",
                # The client gives up by itself; this only ends one that hangs.
                timeout=timeout + 30,
            )
        except subprocess.TimeoutExpired as error:
            raise AcpError(f"acp prompt did not end within {timeout + 30:g} s") from error
        if run.returncode == 2:
            raise AcpError(run.stderr.strip())
        return _turn(run, transcript)


def _turn(run: subprocess.CompletedProcess, transcript: Path) -> Turn:
    turn = Turn(None, None, [], run.returncode, run.stderr, transcript)
    for line in run.stdout.splitlines():
        event = json.loads(line)
        kind = event.get("type")
        if kind == "session":
            turn.session_id = event["sessionId"]
        elif kind == "update":
            turn.updates.append(event["update"])
        elif kind == "end":
            turn.stop_reason = event.get("stopReason")
    return turn
