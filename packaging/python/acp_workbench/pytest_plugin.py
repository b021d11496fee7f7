"""The pytest plugin: fixtures `acp_mock`, `acp_agent` and `assert_conformant`.

The agent's command comes from `@pytest.mark.acp_command("…")`, `--acp-command` or `acp_command` in the ini file.
"""
from __future__ import annotations

import pytest

from .agent import Agent
from .comply import assert_conformant as _assert_conformant
from .mock import Mock


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("acp", "Agent Client Protocol")
    group.addoption("--acp-command", metavar="COMMAND", help="the command that starts the agent under test")
    parser.addini("acp_command", "the command that starts the agent under test")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "acp_command(command): the command that starts the agent under test")
    config.addinivalue_line("markers", "acp_mock(script=None, defects=(), variants=(), args=()): how the mock behaves")


@pytest.fixture
def acp_agent(request: pytest.FixtureRequest, tmp_path) -> Agent:
    """Your agent, driven by our client."""
    return Agent(_command(request), tmp_path / "acp-agent", request.config.rootpath)


@pytest.fixture
def acp_mock(request: pytest.FixtureRequest, tmp_path):
    """A running mock agent; `@pytest.mark.acp_mock(script={...})` says what it does."""
    marker = request.node.get_closest_marker("acp_mock")
    positional, options = (marker.args, marker.kwargs) if marker else ((), {})
    with Mock(*positional, folder=tmp_path / "acp-mock", **options) as mock:
        yield mock


@pytest.fixture
def assert_conformant(request: pytest.FixtureRequest):
    """Runs the compliance suite: `assert_conformant(command=None, tests=…, expected=…)`."""

    def check(command=None, **options):
        __tracebackhide__ = True
        options.setdefault("root", request.config.rootpath)
        return _assert_conformant(command if command is not None else _command(request), **options)

    return check


def _command(request: pytest.FixtureRequest):
    marker = request.node.get_closest_marker("acp_command")
    if marker:
        return marker.args[0]
    command = request.config.getoption("--acp-command") or request.config.getini("acp_command")
    if not command:
        pytest.fail("no agent: mark the test with acp_command, pass --acp-command, or set acp_command in the ini file")
    return command
