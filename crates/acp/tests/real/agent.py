#!/usr/bin/env python3
"""A small agent with a model, for the tests of installed agents: it works, or fails in the way its first argument says."""
import json, os, re, socket, sys, urllib.error, urllib.request

args = sys.argv[1:]
manner = args[0] if args and not args[0].startswith("-") else "good"
base = args[1] if len(args) > 1 and args[1].startswith("http") else os.environ.get("OPENAI_BASE_URL", "").removesuffix("/v1")
if "--port" in args:
    server = socket.create_server(("127.0.0.1", int(args[args.index("--port") + 1])))
    stream = server.accept()[0].makefile("rw", encoding="utf-8", newline="\n")
    source, sink = stream, stream
else:
    source, sink = sys.stdin, sys.stdout

FILE = {"type": "object", "properties": {"path": {"type": "string"}, "content": {"type": "string"}}, "required": ["path", "content"]}
TOOLS = {"sing": {"type": "object", "properties": {}}} if manner == "no-tools" else {"write_file": FILE}


def say(message):
    sink.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sink.flush()


def ask(path, body, timeout=60):
    request = urllib.request.Request(base + path, json.dumps(body).encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=timeout) as answer:
        return json.load(answer)


def model(messages, timeout=60):
    tools = [{"type": "function", "function": {"name": name, "parameters": schema}} for name, schema in TOOLS.items()]
    body = {"model": "m", "messages": messages, "tools": tools, "stream": False}
    return ask("/v1/chat/completions", body, timeout)["choices"][0]["message"]


def update(session, update):
    say({"method": "session/update", "params": {"sessionId": session, "update": update}})


def chunk(session, text):
    update(session, {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}})


def turn(session, text, cwd):
    first = [{"role": "user", "content": text}]
    messages = list(first)
    while True:
        reply = model(messages, timeout=0.5 if manner == "gives-up" else 60)
        if reply.get("content"):
            chunk(session, reply["content"])
        calls = reply.get("tool_calls") or []
        if not calls:
            return
        if manner == "forgets":
            chunk(session, ".")
            continue
        messages.append(reply)
        for call in calls:
            arguments = json.loads(call["function"]["arguments"])
            with open(os.path.join(cwd, arguments["path"]), "w", encoding="utf-8") as file:
                file.write(arguments["content"])
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": "written"})


cwd = "."
for line in source:
    frame = json.loads(line)
    method, params = frame.get("method"), frame.get("params") or {}
    if "id" not in frame or method is None:
        continue
    result = {}
    if method == "initialize":
        if manner == "reaches-out":
            try:
                socket.create_connection(("192.0.2.1", 80), timeout=0.5)
            except OSError:
                pass
        result = {"protocolVersion": 1, "agentCapabilities": {}, "agentInfo": {"name": "small", "version": "1"}}
    elif method == "session/new":
        cwd = params["cwd"]
        result = {"sessionId": "s-1"}
    elif method == "session/set_mode":
        with open(os.path.join(cwd, "set-up.json"), "w", encoding="utf-8") as file:
            home = os.environ["HOME"]
            settings = os.path.join(home, ".qwen/settings.json")
            json.dump({
                "mode": params, "home": home, "url": base, "temp": os.environ.get("TMPDIR"),
                "secret": os.environ.get("ACP_TEST_SECRET"), "settings": os.path.exists(settings), "uid": os.getuid(),
            }, file)
    elif method == "session/prompt":
        text = " ".join(block.get("text", "") for block in params["prompt"])
        try:
            if manner == "elsewhere":
                ask("/v9/think", {"about": text})
                raise OSError("that was no answer")
            turn(params["sessionId"], text, cwd)
            result = {"stopReason": "end_turn"}
        except (OSError, urllib.error.URLError) as error:
            say({"id": frame["id"], "error": {"code": -32603, "message": re.sub(r"\s+", " ", f"the model failed: {error}")}})
            continue
    say({"id": frame["id"], "result": result})
