"""Drives the scripted endpoint with the vendors' own client libraries. Usage: drive.py URL"""

import json
import sys

import anthropic
import openai
from google import genai
from google.genai import errors as google_errors
from google.genai import types

URL = sys.argv[1]
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
SHELL = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
WANTED = [("get_weather", {"city": "Oslo"}), ("bash", {"command": "echo Oslo"})]


def check(name, got, expected):
    if got != expected:
        raise SystemExit(f"{name}: expected {expected!r}, got {got!r}")
    print(f"ok {name}")


def raises(name, kind, ask):
    try:
        ask()
    except kind as error:
        print(f"ok {name}")
        return error
    raise SystemExit(f"{name}: no {kind.__name__}")


def chat():
    client = openai.OpenAI(base_url=URL + "/v1", api_key="k", max_retries=0)
    tools = [
        {"type": "function", "function": {"name": "get_weather", "description": "", "parameters": SCHEMA}},
        {"type": "function", "function": {"name": "bash", "description": "", "parameters": SHELL}},
    ]
    check("chat models", "gpt-5" in [model.id for model in client.models.list()], True)
    check("chat model", client.models.retrieve("gpt-5").id, "gpt-5")
    user = {"role": "user", "content": "weather in Oslo"}
    first = client.chat.completions.create(model="m", messages=[user], tools=tools)
    calls = first.choices[0].message.tool_calls
    check("chat calls", [(c.function.name, json.loads(c.function.arguments)) for c in calls], WANTED)
    check("chat finish", first.choices[0].finish_reason, "tool_calls")
    results = [{"role": "tool", "tool_call_id": c.id, "content": f"r{n}"} for n, c in enumerate(calls)]
    messages = [user, first.choices[0].message, *results]
    second = client.chat.completions.create(model="m", messages=messages, tools=tools)
    check("chat result", second.choices[0].message.content, "The last tool said: r1")

    pieces, usage, finish = [], None, None
    plain = [{"role": "user", "content": "plain words"}]
    for chunk in client.chat.completions.create(model="m", messages=plain, stream=True, stream_options={"include_usage": True}):
        if chunk.usage:
            usage = chunk.usage
        for choice in chunk.choices:
            pieces.append(choice.delta.content or "")
            finish = choice.finish_reason or finish
    check("chat stream", ("".join(pieces), finish), ("one two three four", "stop"))
    check("chat is streamed", len([piece for piece in pieces if piece]), 4)
    check("chat usage", (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens), (11, 4, 15))
    with client.chat.completions.stream(model="m", messages=[user], tools=tools) as stream:
        final = stream.get_final_completion()
    streamed = [(c.function.name, json.loads(c.function.arguments)) for c in final.choices[0].message.tool_calls]
    check("chat streamed calls", streamed, WANTED)
    long = client.chat.completions.create(model="m", messages=[{"role": "user", "content": "too long"}], tools=tools)
    check("chat length", long.choices[0].finish_reason, "length")
    form = {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA}}
    title = client.chat.completions.create(model="m", messages=plain, response_format=form)
    check("chat json", list(json.loads(title.choices[0].message.content)), ["city"])

    def ask(text, **more):
        return client.chat.completions.create(model="m", messages=[{"role": "user", "content": text}], **more)

    limited = raises("chat 429", openai.RateLimitError, lambda: ask("be limited"))
    check("chat 429 message", "slow down" in str(limited), True)
    raises("chat 400", openai.BadRequestError, lambda: ask("be wrong"))
    retried = openai.OpenAI(base_url=URL + "/v1", api_key="k", max_retries=2)
    again = retried.chat.completions.create(model="m", messages=[{"role": "user", "content": "fail once"}])
    check("chat retry", again.choices[0].message.content, "better now")
    raises("chat broken stream", openai.APIError, lambda: list(ask("break off", stream=True)))
    raises("chat cut stream", Exception, lambda: list(ask("cut the line", stream=True)))


def responses():
    client = openai.OpenAI(base_url=URL + "/v1", api_key="k", max_retries=0)
    tools = [
        {"type": "function", "name": "get_weather", "description": "", "parameters": SCHEMA, "strict": False},
        {"type": "function", "name": "bash", "description": "", "parameters": SHELL, "strict": False},
    ]
    user = {"role": "user", "content": "weather in Oslo"}
    first = client.responses.create(model="m", input=[user], tools=tools)
    calls = [item for item in first.output if item.type == "function_call"]
    check("responses calls", [(c.name, json.loads(c.arguments)) for c in calls], WANTED)
    check("responses reasoning", first.output[0].type, "reasoning")
    results = [{"type": "function_call_output", "call_id": c.call_id, "output": f"r{n}"} for n, c in enumerate(calls)]
    back = [item.model_dump(exclude_none=True) for item in first.output]
    second = client.responses.create(model="m", input=[user, *back, *results], tools=tools)
    check("responses result", second.output_text, "The last tool said: r1")
    with client.responses.stream(model="m", input="plain words") as stream:
        names = [event.type for event in stream]
        final = stream.get_final_response()
    check("responses stream", (final.output_text, final.status), ("one two three four", "completed"))
    check("responses usage", (final.usage.input_tokens, final.usage.output_tokens), (11, 4))
    check("responses deltas", names.count("response.output_text.delta"), 4)
    with client.responses.stream(model="m", input=[user], tools=tools) as stream:
        final = stream.get_final_response()
    streamed = [(c.name, json.loads(c.arguments)) for c in final.output if c.type == "function_call"]
    check("responses streamed calls", streamed, WANTED)
    long = client.responses.create(model="m", input="too long", tools=tools)
    check("responses length", (long.status, long.incomplete_details.reason), ("incomplete", "max_output_tokens"))
    raises("responses 400", openai.BadRequestError, lambda: client.responses.create(model="m", input="be wrong"))


def messages():
    client = anthropic.Anthropic(base_url=URL, api_key="k", max_retries=0)
    tools = [
        {"name": "get_weather", "description": "", "input_schema": SCHEMA},
        {"name": "bash", "description": "", "input_schema": SHELL},
    ]
    user = {"role": "user", "content": "weather in Oslo"}
    first = client.messages.create(model="m", max_tokens=99, messages=[user], tools=tools)
    calls = [block for block in first.content if block.type == "tool_use"]
    check("messages calls", [(c.name, c.input) for c in calls], WANTED)
    check("messages thinking", (first.content[0].type, first.stop_reason), ("thinking", "tool_use"))
    results = [{"type": "tool_result", "tool_use_id": c.id, "content": f"r{n}"} for n, c in enumerate(calls)]
    results.append({"type": "text", "text": "<system-reminder>weather in Rome</system-reminder>"})
    turns = [user, {"role": "assistant", "content": first.content}, {"role": "user", "content": results}]
    second = client.messages.create(model="m", max_tokens=99, messages=turns, tools=tools)
    check("messages result", second.content[0].text, "The last tool said: r1")
    with client.messages.stream(model="m", max_tokens=99, messages=[{"role": "user", "content": "plain words"}], tools=tools) as stream:
        pieces = list(stream.text_stream)
        final = stream.get_final_message()
    check("messages stream", ("".join(pieces), len(pieces), final.stop_reason), ("one two three four", 4, "end_turn"))
    check("messages usage", (final.usage.input_tokens, final.usage.output_tokens), (11, 4))
    check("messages thought", (final.content[0].thinking, bool(final.content[0].signature)), ("easy", True))
    with client.messages.stream(model="m", max_tokens=99, messages=[user], tools=tools) as stream:
        final = stream.get_final_message()
    check("messages streamed calls", [(c.name, c.input) for c in final.content if c.type == "tool_use"], WANTED)
    check("messages count", client.messages.count_tokens(model="m", messages=[user]).input_tokens > 0, True)
    check("messages models", "claude-sonnet-4-5" in [model.id for model in client.models.list()], True)

    def ask(text, **more):
        return client.messages.create(model="m", max_tokens=9, messages=[{"role": "user", "content": text}], **more)

    raises("messages 429", anthropic.RateLimitError, lambda: ask("be limited"))
    overloaded = raises("messages 529", anthropic.APIStatusError, lambda: ask("be overloaded"))
    check("messages 529 status", overloaded.status_code, 529)
    raises("messages broken stream", anthropic.APIError, lambda: list(ask("break off", stream=True)))


def gemini():
    client = genai.Client(api_key="k", http_options=types.HttpOptions(base_url=URL))
    declared = [
        types.FunctionDeclaration(name="get_weather", description="", parameters_json_schema=SCHEMA),
        types.FunctionDeclaration(name="bash", description="", parameters_json_schema=SHELL),
    ]
    off = types.AutomaticFunctionCallingConfig(disable=True)
    config = types.GenerateContentConfig(tools=[types.Tool(function_declarations=declared)], automatic_function_calling=off)
    user = types.Content(role="user", parts=[types.Part(text="weather in Oslo")])
    first = client.models.generate_content(model="m", contents=[user], config=config)
    check("gemini calls", [(c.name, dict(c.args)) for c in first.function_calls], WANTED)
    results = [types.Part.from_function_response(name=c.name, response={"output": f"r{n}"}) for n, c in enumerate(first.function_calls)]
    turns = [user, first.candidates[0].content, types.Content(role="user", parts=results)]
    second = client.models.generate_content(model="m", contents=turns, config=config)
    check("gemini result", second.text, "The last tool said: r1")
    chunks = list(client.models.generate_content_stream(model="m", contents="plain words", config=config))
    texts = [part.text for chunk in chunks for part in chunk.candidates[0].content.parts if part.text and not part.thought]
    check("gemini stream", texts, ["one ", "two ", "three ", "four"])
    last = chunks[-1]
    check("gemini finish", last.candidates[0].finish_reason.value, "STOP")
    check("gemini usage", (last.usage_metadata.prompt_token_count, last.usage_metadata.total_token_count), (11, 15))
    streamed = client.models.generate_content_stream(model="m", contents=[user], config=config)
    calls = [(c.name, dict(c.args)) for chunk in streamed for c in chunk.function_calls or []]
    check("gemini streamed calls", calls, WANTED)
    form = types.GenerateContentConfig(response_mime_type="application/json", response_json_schema=SCHEMA)
    title = client.models.generate_content(model="m", contents="plain words", config=form)
    check("gemini json", list(json.loads(title.text)), ["city"])
    check("gemini count", client.models.count_tokens(model="m", contents="x").total_tokens > 0, True)
    check("gemini models", "models/gemini-2.5-pro" in [model.name for model in client.models.list()], True)
    raises("gemini 400", google_errors.ClientError, lambda: client.models.generate_content(model="m", contents="be wrong"))


for part in (chat, responses, messages, gemini):
    part()
print("all done")
