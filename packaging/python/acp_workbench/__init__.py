"""ACP Workbench for Python tests: a mock agent, a client that drives your agent, and the compliance suite.

Everything is done by the `acp` binary of the wheel; this package starts it and reads what it writes. pytest finds the
fixtures by itself (see `acp_workbench.pytest_plugin`); with another runner use the names below.
"""
from ._binary import AcpError, find_binary
from .agent import Agent, Turn
from .comply import Report, assert_conformant, comply
from .mock import Mock

__all__ = ["AcpError", "Agent", "Mock", "Report", "Turn", "assert_conformant", "comply", "find_binary"]
