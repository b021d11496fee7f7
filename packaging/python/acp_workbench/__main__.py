"""`python -m acp_workbench …` and the installed commands become the `acp` binary."""
import os
import sys

from ._binary import find_binary


def _become(*command):
    binary = find_binary()
    os.execv(binary, [binary, *command, *sys.argv[1:]])


def main():
    """`acp-workbench …` is `acp …`."""
    _become()


def comply():
    """`acpcomply …` is `acp comply …`."""
    _become("comply")


def harness():
    """`acp-harness …` is `acp harness …`."""
    _become("harness")


def mock():
    """`mock-acp-server …` is `acp mock …`."""
    _become("mock")


if __name__ == "__main__":
    main()
