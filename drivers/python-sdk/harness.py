"""A client on the official Python SDK, driven by JSON lines: verbs on stdin, events on stdout.

    python3 harness.py WORKSPACE AGENT [ARGUMENT...]

It uses the SDK's defaults on purpose, because they are what is examined: `spawn_agent_process` starts and ends the agent. Files and
permissions are this file's own.
"""

import asyncio
import json
import sys

from acp import PROTOCOL_VERSION, spawn_agent_process, text_block
from acp.exceptions import RequestError
from acp.schema import (
    AllowedOutcome,
    ClientCapabilities,
    DeniedOutcome,
    FileSystemCapabilities,
    Implementation,
    ReadTextFileResponse,
    RequestPermissionResponse,
)

KINDS = {"allow": ("allow_once", "allow_always"), "reject": ("reject_once", "reject_always")}


def tell(event, **fields):
    print(json.dumps({"event": event, **fields}), flush=True)


def trouble(verb, error):
    tell("error", verb=verb, code=getattr(error, "code", None), message=str(error) or repr(error))


class Client:
    """What the SDK asks of a client."""

    def __init__(self):
        self.habit = "allow"
        self.open = []

    def on_connect(self, connection):
        pass

    async def request_permission(self, session_id, tool_call, options, **_):
        tell("permission", sessionId=session_id, toolCallId=tool_call.tool_call_id)
        if self.habit == "leave":
            question = asyncio.get_running_loop().create_future()
            self.open.append(question)
            await question
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        for kind in KINDS[self.habit]:
            for option in options:
                if option.kind == kind:
                    return RequestPermissionResponse(
                        outcome=AllowedOutcome(outcome="selected", option_id=option.option_id)
                    )
        return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))

    async def session_update(self, session_id, update, **_):
        tell("update", sessionId=session_id, kind=update.session_update)

    async def read_text_file(self, session_id, path, line=None, limit=None, **_):
        try:
            with open(path, encoding="utf-8", newline="") as file:
                text = file.read()
        except FileNotFoundError:
            raise RequestError.resource_not_found(path) from None
        if line is not None or limit is not None:
            first = (line or 1) - 1
            lines = text.split("\n")
            lines = [part + "\n" for part in lines[:-1]] + lines[-1:]
            text = "".join(lines[first : None if limit is None else first + limit])
        return ReadTextFileResponse(content=text)

    async def write_text_file(self, session_id, path, content, **_):
        with open(path, "w", encoding="utf-8", newline="") as file:
            file.write(content)

    async def ext_method(self, method, params):
        raise RequestError.method_not_found(method)

    async def ext_notification(self, method, params):
        pass

    def cancel(self):
        for question in self.open:
            if not question.done():
                question.set_result(None)
        self.open.clear()


class Harness:
    def __init__(self, client, connection, workspace):
        self.client, self.connection, self.workspace = client, connection, workspace
        self.session = None
        self.turns = set()

    async def open(self):
        answer = await self.connection.new_session(cwd=self.workspace, mcp_servers=[])
        self.session = answer.session_id
        tell("opened", sessionId=self.session)

    async def prompt(self, text):
        if self.session is None:
            await self.open()
        turn = asyncio.create_task(self.turn(text))
        self.turns.add(turn)
        turn.add_done_callback(self.turns.discard)

    async def turn(self, text):
        try:
            answer = await self.connection.prompt(session_id=self.session, prompt=[text_block(text)])
            tell("end", stopReason=str(answer.stop_reason))
        except Exception as error:
            trouble("prompt", error)

    async def permission(self, answer):
        self.client.habit = answer

    async def cancel(self):
        await self.connection.cancel(session_id=self.session)
        self.client.cancel()

    async def close(self):
        await self.connection.close_session(session_id=self.session)


async def lines():
    reader = asyncio.StreamReader(limit=1 << 24)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        yield json.loads(line)


async def act(harness, verb, fields):
    try:
        step = getattr(harness, verb, None)
        if step is None:
            raise ValueError(f"the harness has no verb {verb}")
        await step(**fields)
    except Exception as error:
        trouble(verb, error)
    tell("done", verb=verb)


async def main(workspace, words):
    client = Client()
    async with spawn_agent_process(client, *words, cwd=workspace) as (connection, _process):
        try:
            answer = await connection.initialize(
                protocol_version=PROTOCOL_VERSION,
                client_capabilities=ClientCapabilities(
                    fs=FileSystemCapabilities(read_text_file=True, write_text_file=True)
                ),
                client_info=Implementation(name="python-sdk-harness", version="1"),
            )
        except Exception as error:
            return trouble("open", error)
        if answer.protocol_version != PROTOCOL_VERSION:
            return tell("error", verb="open", message=f"the agent speaks version {answer.protocol_version}")
        tell("initialized", version=answer.protocol_version)
        harness, acts = Harness(client, connection, workspace), set()
        async for line in lines():
            verb = line.pop("verb")
            if verb == "quit":
                break
            task = asyncio.create_task(act(harness, verb, line))
            acts.add(task)
            task.add_done_callback(acts.discard)


asyncio.run(main(sys.argv[1], sys.argv[2:]))
