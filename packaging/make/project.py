"""What the packages say about the project. Everything is read from the workspace, so that it stands in one place."""
import os
import pathlib
import subprocess
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGING = ROOT / "packaging"
NAME = "acp-workbench"

_workspace = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]
_crate = tomllib.loads((ROOT / "crates/acp/Cargo.toml").read_text())["package"]

VERSION = _workspace["version"]
LICENSE = _workspace["license"]
RUST_VERSION = _workspace["rust-version"]
SUMMARY = _crate["description"]
LICENSE_FILES = ["LICENSE-APACHE", "LICENSE-MIT"]

# Further names of subcommands: each package installs them as small scripts that do what crates/acp/src/bin does.
ALIASES = {"acpcomply": "comply --always-markdown", "acp-harness": "harness", "mock-acp-server": "mock"}


def timestamp():
    """The time stamp of every packed file: the same commit gives the same bytes."""
    if given := os.environ.get("SOURCE_DATE_EPOCH"):
        return int(given)
    git = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True)
    return int(git.stdout) if git.returncode == 0 and git.stdout.strip() else 1_577_836_800


def output_of(*command):
    """The standard output of a command of the binary, such as a manual page."""
    return subprocess.run(command, check=True, capture_output=True).stdout
