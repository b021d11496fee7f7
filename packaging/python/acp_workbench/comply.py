"""The compliance suite, from a test."""
from __future__ import annotations

import dataclasses
import json
import subprocess
import tempfile
from pathlib import Path
from typing import Sequence

from . import _binary
from ._binary import AcpError, Command


@dataclasses.dataclass
class Report:
    """What a run of `acp comply` came to."""

    #: 0 conformant, 1 not conformant, 3 incomplete, 4 the list of expected failures is stale.
    exit_code: int
    #: The results model, as `--format json` writes it.
    results: dict
    #: What `acp comply` wrote to standard error.
    stderr: str

    @property
    def tests(self) -> list[dict]:
        """Every test that ran, with its `id`, `verdict` and `reason`."""
        return [test for agent in self.results.get("agents", []) for test in agent["tests"]]

    @property
    def failures(self) -> list[dict]:
        """The tests that failed and were not expected to."""
        return [one for one in self.tests if one["verdict"] in ("FAIL", "ERROR") and not one.get("expected")]

    def explain(self) -> str:
        """The failures in words."""
        lines = [f"  {one['verdict']} {one['id']}: {one.get('reason') or one['title']}" for one in self.failures]
        if not lines:
            lines = [f"  {line}" for line in self.stderr.strip().splitlines()[-12:]]
        return "\n".join(lines)


def comply(
    command: Command,
    *,
    tests: Sequence[str] = (),
    areas: Sequence[str] = (),
    requirements: Sequence[str] = (),
    expected: Path | str | None = None,
    args: Sequence[str] = (),
    root: Path | str | None = None,
) -> Report:
    """Runs the compliance suite, or the selected part of it, against the agent that `command` starts.

    `tests` are patterns over test ids, such as `init.*`; `expected` is the file of known failures; `args` are further
    options of `acp comply`.
    """
    with tempfile.TemporaryDirectory(prefix="acp-comply-") as folder:
        out = Path(folder) / "results.json"
        run = subprocess.run(
            [
                _binary.find_binary(), "comply", "--command", _binary.command_line(command, root),
                "--format", "json", "--out", str(out),
                *_each("--test", tests), *_each("--area", areas), *_each("--requirement", requirements),
                *(["--expected", str(expected)] if expected is not None else []), *args,
            ],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, encoding="utf-8",
        )
        if run.returncode not in (0, 1, 3, 4):
            raise AcpError(f"acp comply failed: {run.stderr.strip()}")
        results = json.loads(out.read_text(encoding="utf-8")) if out.exists() and out.stat().st_size else {}
    return Report(run.returncode, results, run.stderr)


def assert_conformant(command: Command, **options) -> Report:
    """Fails, with the reasons, unless the agent is conformant. Takes the options of `comply`."""
    report = comply(command, **options)
    outcome = {1: "is not conformant", 3: "could not be judged completely", 4: "no longer fails where it is expected to"}
    assert report.exit_code == 0, f"the agent {outcome[report.exit_code]}:\n{report.explain()}"
    return report


def _each(option: str, values: Sequence[str]) -> list[str]:
    if isinstance(values, str):
        values = [values]
    return [word for value in values for word in (option, value)]
