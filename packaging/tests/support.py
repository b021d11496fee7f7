"""What the tests of the packages share: a clean environment, empty roots, and the fixtures of scripts/setup."""
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "packaging"))
FIXTURES = ROOT / os.environ.get("CARGO_TARGET_DIR", "target") / "fixtures"

# A short run of the suite: it starts an agent, and tells a conforming one from a faulty one.
SHORT = ["--test", "init.version-echo"]


def skipped(what):
    """Whether ACP_SKIP leaves this out."""
    return what in os.environ.get("ACP_SKIP", "").split(",")


def run(command, *, code=0, **options):
    """Runs a command in a clean environment and returns its standard output; another exit code is a failure."""
    environment = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", **options.pop("env", {})}
    done = subprocess.run(
        [str(word) for word in command], env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, **options
    )
    if done.returncode != code:
        raise AssertionError(
            f"{' '.join(map(str, command))}\nexit code {done.returncode}, not {code}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
        )
    return done.stdout


def install_libraries(root, binary):
    """A binary that is not static gets its libraries; what is published is static and needs none."""
    said = subprocess.run(["ldd", binary], capture_output=True, text=True)
    for word in said.stdout.split():
        if word.startswith("/") and (path := pathlib.Path(word)).exists():
            place = root / path.relative_to("/")
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, place)
            place.chmod(0o755)


def run_inside(root, command):
    """Runs a command with this folder as the root of the file system, in a mount namespace that ends with it."""
    if skipped("netns"):
        raise unittest.SkipTest("ACP_SKIP")
    for name in ("proc", "dev", "tmp"):
        (root / name).mkdir(exist_ok=True)
    script = 'mount --rbind /proc "$0/proc" && mount --rbind /dev "$0/dev" && exec chroot "$0" "$@"'
    user = [] if os.geteuid() == 0 else ["--map-root-user"]
    return run(["unshare", "--mount", *user, "sh", "-c", script, root, *command], env={"HOME": "/tmp"})
