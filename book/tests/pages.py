"""Reads the shell blocks of a Markdown page, runs them in a scratch folder and compares what they print.

Fences and what happens to them:

    ```sh                          runs as a script; every command must succeed
    ```console                     lines that start with "$ " run; the lines below must match what they print
    ```console exit=1              the last command of the block ends with this exit code
    ```sh background               keeps running while the rest of the page runs
    ```text                        output or a picture; never runs
    ```text not run: needs Docker  commands that are not run, with the reason

A comment that starts with `<!-- run` holds commands that prepare the page; readers do not see it. `<!-- needs nats -->` leaves the
page out with ACP_SKIP=nats. All blocks of a page run in
one shell, in order. In expected output `[…]` stands for any text, and on a line of its own for any number of lines.
Session ids, times, durations, ports and other numbers that change between runs are compared by their shape.
"""
import dataclasses
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
OTHER_LANGUAGES = {"json", "jsonc", "yaml", "python", "js", "lua", "toml", "dockerfile", "rust", "mermaid"}
PROGRAMS = (
    "acp acpcomply acp-harness mock-acp-server cargo rustup pip pipx uv uvx npm npx docker apt brew git curl "
    "nats-server kubectl systemctl pytest python3 node mdbook"
).split()
SHAPES = [
    (r"sess_[0-9a-f]+_", "sess_N_"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "TIME"),
    (r"\d{8}T\d{9}Z-\d+", "RUN"),
    (r"\b[0-9a-f]{32}\b", "ID"),
    (r"127\.0\.0\.1:\d{5}\b", "127.0.0.1:PORT"),
    (r"\b\d+(\.\d+)? ?(ms|s)\b", "N s"),
    (r"(?<=  )\d+\.\d\d$", "SCORE"),
]


RUNNING = set()  # the process groups of the pages that run now


class Wrong(Exception):
    """A block that cannot be run, or did not do what the page says."""


@dataclasses.dataclass
class Step:
    line: int
    command: str
    expected: list
    code: int = 0
    script: bool = False
    background: bool = False


def blocks(text):
    """Every fenced block and hidden comment: (line, info string, body)."""
    fence = start = info = None
    body = []
    for number, line in enumerate(text.splitlines(), 1):
        bare = line.strip()
        if fence is None and (bare.startswith("```") or bare == "<!-- run"):
            fence = "-->" if bare == "<!-- run" else bare[: len(bare) - len(bare.lstrip("`"))]
            start, info, body = number, ("sh" if fence == "-->" else bare[len(fence):].strip()), []
            indent = len(line) - len(line.lstrip())
        elif fence is not None and bare == fence:
            yield start, info, body
            fence = None
        elif fence is not None:
            body.append(line[indent:] if not line[:indent].strip() else line)
    if fence is not None:
        raise Wrong(f"line {start}: the block does not end")


def looks_like_a_command(line):
    if re.match(r"acp [a-z-]+: ", line):
        return False  # a log line
    words = line.removeprefix("$ ").split()
    while words and re.fullmatch(r"\w+=\S*", words[0]):
        words.pop(0)
    return line.startswith("$ ") or bool(words) and (words[0] in PROGRAMS or words[0].startswith("scripts/"))


def steps(text):
    """The commands of a page, in order."""
    found = []
    for line, info, body in blocks(text):
        language, _, options = info.partition(" ")
        options = options.strip()
        if language == "text":
            if any(map(looks_like_a_command, body)) and not re.match(r"(not run|output): \S", options):
                raise Wrong(f"line {line}: commands in a `text` block: run them (`sh`), or write `text not run: REASON`")
        elif language in ("sh", "console"):
            found.extend(shell_steps(line, language, options.split(), body))
        elif language not in OTHER_LANGUAGES:
            raise Wrong(f"line {line}: a block needs a language (sh, console, text, json, …), not {info!r}")
    return found


def shell_steps(line, language, options, body):
    code, background = 0, False
    for option in options:
        if option == "background":
            background = True
        elif match := re.fullmatch(r"exit=(\d+)", option):
            code = int(match[1])
        else:
            raise Wrong(f"line {line}: unknown option {option!r}")
    if language == "sh":
        return [Step(line, "\n".join(body), [], code, True, background)]
    found = []
    for offset, text in enumerate(body, line + 1):
        if found and found[-1].command.endswith("\\"):
            found[-1].command += "\n" + text
        elif text.startswith("$ "):
            found.append(Step(offset, text[2:], [], background=background))
        elif found:
            found[-1].expected.append(text)
        else:
            raise Wrong(f"line {offset}: a `console` block starts with a command: $ …")
    if found:
        found[-1].code = code
    return found


def script(found):
    """One shell script for the page. Each step leaves its output and its exit code in $LOG."""
    lines = ['cd "$HOME/project"']
    for number, step in enumerate(found):
        log = f'"$LOG/{number}"'
        if step.background:
            lines += [f"{{\n{step.command}\n}} >{log} 2>&1 &", f"wait_for {log}", f"running $! {log}"]
        elif step.script and step.code == 0:
            lines += [f"set -eo pipefail\n{{\n{step.command}\n}} >{log} 2>&1", f"set +eo pipefail; echo 0 >{log}.code"]
        else:
            lines += [f"{{\n{step.command}\n}} >{log} 2>&1", f"echo $? >{log}.code"]
    helpers = [
        'wait_for() { for _ in $(seq 200); do [ -s "$1" ] && return; sleep 0.05; done; }',
        'running() { if kill -0 "$1" 2>/dev/null; then echo 0; else wait "$1"; echo $?; fi >"$2.code"; }',
    ]
    return "\n".join([*helpers, *lines, "exit 0", ""])


def isolated():
    """A network of its own for each page, where the system allows it: pages may then use the same ports."""
    for words in (["unshare", "--net"], ["unshare", "--user", "--map-root-user", "--net"]):
        try:
            if subprocess.run([*words, "ip", "link", "set", "lo", "up"], capture_output=True).returncode == 0:
                return [*words, "bash", "-c", 'ip link set lo up; exec "$@"', "bash"]
        except FileNotFoundError:
            pass
    return []


def comparable(text):
    for pattern, shape in SHAPES:
        text = re.sub(pattern, shape, text)
    return text.rstrip()


def matches(expected, actual):
    """Whether printed lines are what the page shows."""
    actual = list(actual)
    while actual and not actual[-1].strip():
        actual.pop()
    pattern = ""
    for line in expected:
        if line.strip() == "[…]":
            pattern += r"(?:.*\n)*?"
        else:
            parts = map(re.escape, comparable(line).split("[…]"))
            pattern += ".*?".join(parts) + r"\n"
    return re.fullmatch(pattern, "".join(comparable(line) + "\n" for line in actual)) is not None


def run(page, binaries, timeout=900):
    """Runs a page. Returns how many commands it ran; raises `Wrong` for the first that is not as the page says."""
    text = page.read_text()
    found = steps(text)
    needs = re.search(r"^<!-- needs (\w+) -->$", text, re.M)
    if not found or needs and needs[1] in os.environ.get("ACP_SKIP", "").split(","):
        return 0
    scratch = pathlib.Path(tempfile.mkdtemp(prefix="acp-docs-"))
    try:
        return run_steps(found, scratch, binaries, timeout)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def run_steps(found, scratch, binaries, timeout):
    home, log, tools = scratch / "home", scratch / "log", scratch / "bin"
    (home / "project").mkdir(parents=True)
    log.mkdir()
    tools.mkdir()
    for name in ("acp", "acpcomply", "acp-harness", "mock-acp-server"):
        (tools / name).symlink_to(binaries / name)
    stand_in = tools / "my-agent"
    stand_in.write_text('#!/bin/sh\nexec acp mock --stdio --dialect v1\n')
    stand_in.chmod(0o755)
    (scratch / "page.sh").write_text(script(found))
    environment = {
        "PATH": f"{tools}:{os.environ['PATH']}:/usr/sbin", "HOME": str(home), "LOG": str(log), "REPO": str(ROOT),
        "LANG": "C.UTF-8", "TERM": "dumb", "PYTHONDONTWRITEBYTECODE": "1",
    }
    if "PYENV_ROOT" in os.environ:
        environment["PYENV_ROOT"] = os.environ["PYENV_ROOT"]
    process = subprocess.Popen(
        [*isolated(), "bash", str(scratch / "page.sh")], env=environment, start_new_session=True, stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace")
    RUNNING.add(process.pid)
    try:
        try:
            _, said = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            said = f"the page did not end within {timeout} s"
    finally:
        end(process.pid)
    for number, step in enumerate(found):
        check(step, log / str(number), f"{home}", said)
    return len(found)


def end(group):
    """Ends what a page left running."""
    RUNNING.discard(group)
    try:
        os.killpg(group, signal.SIGTERM)
    except ProcessLookupError:
        pass


def check(step, log, home, said):
    actual = log.read_text(errors="replace").replace(home, "/home/me") if log.exists() else ""
    shown = f"line {step.line}: {step.command}\n--- it printed\n{actual}"
    codes = log.with_name(log.name + ".code")
    if not codes.exists():
        raise Wrong(f"{shown}--- it failed, or did not end: {said}")
    if (code := int(codes.read_text())) != step.code:
        raise Wrong(f"{shown}--- exit code {code} instead of {step.code}")
    if step.expected and not matches(step.expected, actual.splitlines()):
        raise Wrong(f"{shown}--- the page says\n" + "\n".join(step.expected))
