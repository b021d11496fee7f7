"""Finds the `acp` binary, and turns what users write as a command into what the binary takes."""
from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Sequence, Union

Command = Union[str, Sequence[str]]


class AcpError(Exception):
    """The `acp` binary is missing, or could not do what was asked."""


def find_binary() -> str:
    """The binary to use: `$ACP_BINARY`, else the one that was installed with this package, else the one in `PATH`."""
    if given := os.environ.get("ACP_BINARY"):
        return given
    folders = [sysconfig.get_path("scripts"), str(Path(sys.executable).parent), str(Path.home() / ".local/bin")]
    for folder in folders:
        candidate = Path(folder or ".") / "acp"
        if candidate.is_file() and os.access(candidate, os.X_OK):
            return str(candidate)
    if found := shutil.which("acp"):
        return found
    raise AcpError("cannot find the acp binary: reinstall acp-workbench, or set ACP_BINARY to its path")


def command_line(command: Command, root: Path | str | None = None) -> str:
    """The command as one line. Arguments that name a file below `root` become absolute paths, because each run starts
    the agent in an empty folder."""
    words = shlex.split(command) if isinstance(command, str) else [str(word) for word in command]
    if not words:
        raise ValueError("the agent's command is empty")
    base = Path(root) if root is not None else Path.cwd()
    return " ".join(shlex.quote(_absolute(word, base)) for word in words)


def _absolute(word: str, base: Path) -> str:
    path = base / word
    return str(path.resolve()) if not word.startswith("-") and path.is_file() else word


def lint(transcript: Path) -> list[dict]:
    """The findings of the judge on a recorded conversation."""
    run = subprocess.run(
        [find_binary(), "lint", "--format", "json", str(transcript)], capture_output=True, text=True, encoding="utf-8"
    )
    if run.returncode not in (0, 1):
        raise AcpError(f"acp lint failed: {run.stderr.strip()}")
    return [finding for file in json.loads(run.stdout)["files"] for finding in file["findings"]]


def findings_of(transcript: Path, side: str, grades: Sequence[str]) -> list[dict]:
    """The findings that blame one side of the conversation, of these grades."""
    return [one for one in lint(transcript) if one.get("blame") == side and one.get("grade") in grades]


def frames(transcript: Path) -> list[dict]:
    """The messages of a recorded conversation: `{"dir": "c2a" or "a2c", "frame": {...}}`. Lines that are not JSON are
    left out."""
    found = []
    if not transcript.exists():
        return found
    for line in transcript.read_text(encoding="utf-8").splitlines():
        try:
            record = json.loads(line)
            frame = record["frame"] if "frame" in record else json.loads(record["line"])
        except (ValueError, KeyError):
            continue
        found.append({"dir": record.get("dir"), "frame": frame})
    return found
