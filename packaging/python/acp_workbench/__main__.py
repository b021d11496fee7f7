"""`python -m acp_workbench …` and the installed commands become the `acp` binary."""
import os
import sys

from ._binary import find_binary


def _become(*command):
    binary, given = find_binary(), sys.argv[1:]
    if given[:1] in (["--version"], ["-V"]):
        command = ()
    os.execv(binary, [binary, *command, *given])


def main():
    """`acp-workbench …` is `acp …`."""
    _become()


def comply():
    """`acpcomply …` is `acp comply …`, with Markdown on a terminal too."""
    _become("comply", "--always-markdown")


def harness():
    """`acp-harness …` is `acp harness …`."""
    _become("harness")


def mock():
    """`mock-acp-server …` is `acp mock …`."""
    _become("mock")


if __name__ == "__main__":
    main()
