//! Anthropic messages.

mod stream;

use serde_json::{Value, json};

use super::{WireFlaw, WireFormat, flat, join, said, text_of};
use crate::talk::{
    AnswerForm, Effort, Input, ModelCall, ModelPart, ModelReply, ModelRequest, ModelStop, ModelTool,
    ModelTurn, ThinkingSeal, ToolResult, Usage, UserPart,
};

pub use stream::{MessagesReader, MessagesWriter};

/// A thinking block must be signed; the endpoint's own signature is the base64 of a word.
const SIGNATURE: &str = "c2NyaXB0ZWQ=";

pub(super) fn read_request(body: &Value) -> Result<ModelRequest, WireFlaw> {
    let messages = body["messages"].as_array().ok_or(WireFlaw::NotAList("messages"))?;
    let mut request = ModelRequest {
        model: text_of(body, "model").to_owned(),
        stream: body["stream"].as_bool().unwrap_or(false),
        system: flat(&body["system"]),
        tools: read_tools(&body["tools"]),
        answer: read_form(body),
        max_tokens: body["max_tokens"].as_u64(),
        ..ModelRequest::default()
    };
    for message in messages {
        match text_of(message, "role") {
            "assistant" => {
                let mut parts = read_parts(&message["content"]);
                parts.retain(|part| !matches!(part, ModelPart::Seal(_)));
                request.turns.push(ModelTurn::Assistant(parts));
            }
            "system" => join(&mut request.system, &flat(&message["content"])),
            _ => read_user(&message["content"], &mut request.turns),
        }
    }
    Ok(request)
}

/// A user message holds tool results and words; each run of words is a turn of its own.
fn read_user(content: &Value, turns: &mut Vec<ModelTurn>) {
    let Some(blocks) = content.as_array() else {
        turns.push(ModelTurn::User(vec![UserPart::Text(flat(content))]));
        return;
    };
    let mut words = Vec::new();
    for block in blocks {
        match text_of(block, "type") {
            "tool_result" => {
                if !words.is_empty() {
                    turns.push(ModelTurn::User(std::mem::take(&mut words)));
                }
                turns.push(ModelTurn::Result(ToolResult {
                    id: text_of(block, "tool_use_id").to_owned(),
                    name: String::new(),
                    text: flat(&block["content"]),
                    is_error: block["is_error"].as_bool().unwrap_or(false),
                }));
            }
            "text" => words.push(UserPart::Text(text_of(block, "text").to_owned())),
            "image" => {
                let source = &block["source"];
                let data = source.get("data").or_else(|| source.get("url")).and_then(Value::as_str);
                words.push(UserPart::Image {
                    mime: text_of(source, "media_type").to_owned(),
                    data: data.unwrap_or_default().to_owned(),
                });
            }
            other => words.push(UserPart::Other(other.to_owned())),
        }
    }
    if !words.is_empty() {
        turns.push(ModelTurn::User(words));
    }
}

fn read_parts(content: &Value) -> Vec<ModelPart> {
    let Some(blocks) = content.as_array() else {
        let text = flat(content);
        return if text.is_empty() { Vec::new() } else { vec![ModelPart::Text(text)] };
    };
    let mut parts = Vec::new();
    for block in blocks {
        match text_of(block, "type") {
            "thinking" => {
                parts.push(ModelPart::Think(text_of(block, "thinking").to_owned()));
                parts.extend(seal(block).map(ModelPart::Seal));
            }
            "redacted_thinking" => parts.extend(seal(block).map(ModelPart::Seal)),
            "text" => parts.push(ModelPart::Text(text_of(block, "text").to_owned())),
            "tool_use" => parts.push(ModelPart::Call(ModelCall {
                id: text_of(block, "id").to_owned(),
                name: text_of(block, "name").to_owned(),
                namespace: None,
                input: Input::Json(block["input"].clone()),
            })),
            _ => {}
        }
    }
    parts
}

/// A thinking block as the vendor wants it back. One that nobody signed is not worth keeping.
fn seal(block: &Value) -> Option<ThinkingSeal> {
    let vouched = ["signature", "data"].iter().any(|name| !text_of(block, name).is_empty());
    vouched.then(|| ThinkingSeal { wire: WireFormat::Messages, data: block.clone() })
}

fn read_tools(tools: &Value) -> Vec<ModelTool> {
    let read = |tool: &Value| {
        Some(ModelTool {
            name: tool["name"].as_str()?.to_owned(),
            description: text_of(tool, "description").to_owned(),
            schema: tool.get("input_schema")?.clone(),
            ..ModelTool::default()
        })
    };
    tools.as_array().into_iter().flatten().filter_map(read).collect()
}

fn read_form(body: &Value) -> AnswerForm {
    let format = body.get("output_format").unwrap_or(&body["output_config"]["format"]);
    match text_of(format, "type") {
        "json_schema" => AnswerForm::Json(Some(format["schema"].clone())),
        "json" | "json_object" => AnswerForm::Json(None),
        _ => AnswerForm::Free,
    }
}

pub(super) fn write_request(request: &ModelRequest) -> Value {
    let mut messages: Vec<Value> = Vec::new();
    for turn in &request.turns {
        let (role, blocks) = match turn {
            ModelTurn::User(parts) => ("user", parts.iter().map(write_user_part).collect()),
            ModelTurn::Assistant(parts) => ("assistant", write_parts(parts)),
            ModelTurn::Result(result) => ("user", vec![write_result(result)]),
        };
        // Results and words of one side stand in one message: the vendor wants the roles to alternate.
        match messages
            .last_mut()
            .filter(|last| last["role"] == role)
            .and_then(|last| last["content"].as_array_mut())
        {
            Some(content) => content.extend(blocks),
            None => messages.push(json!({"role": role, "content": blocks})),
        }
    }
    let mut body = json!({"model": request.model, "max_tokens": request.max_tokens.unwrap_or(8192), "messages": messages});
    if !request.system.is_empty() {
        body["system"] = request.system.clone().into();
    }
    if request.stream {
        body["stream"] = true.into();
    }
    if !request.tools.is_empty() {
        let tools = request.tools.iter().map(
            |tool| json!({"name": tool.name, "description": tool.description, "input_schema": tool.schema}),
        );
        body["tools"] = tools.collect();
    }
    if let AnswerForm::Json(Some(schema)) = &request.answer {
        body["output_format"] = json!({"type": "json_schema", "schema": schema});
    }
    if let Some(effort) = request.effort {
        write_effort(effort, &mut body);
    }
    body
}

/// Models up to 4.5 want a number of tokens to think with; newer ones decide themselves and refuse a number.
fn write_effort(effort: Effort, body: &mut Value) {
    let limit = body["max_tokens"].as_u64().unwrap_or(0);
    if decides_itself(text_of(body, "model")) {
        body["thinking"] = json!({"type": "adaptive", "display": "summarized"});
        body["output_config"] = json!({"effort": effort.as_str()});
    } else if limit > LEAST_BUDGET {
        let budget = effort.tokens().min(limit / 2).max(LEAST_BUDGET);
        body["thinking"] = json!({"type": "enabled", "budget_tokens": budget});
    }
}

/// The vendor's smallest budget; the answer's limit must be larger.
const LEAST_BUDGET: u64 = 1024;

/// Whether the name of a model says `claude-…-4-6` or newer.
fn decides_itself(model: &str) -> bool {
    let Some((_, name)) = model.split_once("claude-") else { return false };
    let mut numbers = name
        .split(['-', '.', '@', ':'])
        .skip_while(|word| word.parse::<u32>().is_err())
        .map(str::parse::<u32>);
    let Some(Ok(major)) = numbers.next() else { return false };
    // What is longer than a version is a date.
    let minor = numbers.next().and_then(Result::ok).filter(|minor| *minor < 100).unwrap_or(0);
    (major, minor) >= (4, 6)
}

fn write_result(result: &ToolResult) -> Value {
    let mut block = json!({"type": "tool_result", "tool_use_id": result.id, "content": result.text});
    if result.is_error {
        block["is_error"] = true.into();
    }
    block
}

fn write_user_part(part: &UserPart) -> Value {
    match part {
        UserPart::Text(text) => json!({"type": "text", "text": text}),
        UserPart::Image { mime, data } if mime.is_empty() => {
            json!({"type": "image", "source": {"type": "url", "url": data}})
        }
        UserPart::Image { mime, data } => {
            json!({"type": "image", "source": {"type": "base64", "media_type": mime, "data": data}})
        }
        UserPart::Other(kind) => json!({"type": kind}),
    }
}

/// A thought that is followed by its seal is written as the seal.
fn write_parts(parts: &[ModelPart]) -> Vec<Value> {
    let ours = |part: &ModelPart| matches!(part, ModelPart::Seal(seal) if seal.wire == WireFormat::Messages);
    let mut blocks = Vec::new();
    for (n, part) in parts.iter().enumerate() {
        let sealed = matches!(part, ModelPart::Think(_)) && parts.get(n + 1).is_some_and(ours);
        if !sealed {
            blocks.extend(write_part(part));
        }
    }
    blocks
}

fn write_part(part: &ModelPart) -> Option<Value> {
    let block = match part {
        ModelPart::Seal(seal) if seal.wire == WireFormat::Messages => seal.data.clone(),
        ModelPart::Seal(_) => return None,
        ModelPart::Think(text) => json!({"type": "thinking", "thinking": text, "signature": SIGNATURE}),
        ModelPart::Text(text) => json!({"type": "text", "text": text}),
        ModelPart::Call(call) => {
            let input = match &call.input {
                Input::Json(value) => value.clone(),
                Input::Text(text) => json!({"input": text}),
            };
            json!({"type": "tool_use", "id": call.id, "name": call.name, "input": input})
        }
    };
    Some(block)
}

fn stop_word(stop: ModelStop) -> &'static str {
    match stop {
        ModelStop::End => "end_turn",
        ModelStop::Tools => "tool_use",
        ModelStop::Length => "max_tokens",
        ModelStop::Refusal => "refusal",
    }
}

fn read_stop(word: &str) -> ModelStop {
    match word {
        "tool_use" => ModelStop::Tools,
        "max_tokens" | "model_context_window_exceeded" => ModelStop::Length,
        "refusal" => ModelStop::Refusal,
        _ => ModelStop::End,
    }
}

fn write_usage(usage: &Usage) -> Value {
    json!({
        "input_tokens": usage.input - usage.cached.min(usage.input), "output_tokens": usage.output,
        "cache_creation_input_tokens": 0, "cache_read_input_tokens": usage.cached,
    })
}

fn read_usage(usage: &Value, into: &mut Usage) {
    let count = |name: &str| usage[name].as_u64();
    if let Some(cached) = count("cache_read_input_tokens") {
        into.cached = cached;
    }
    if let Some(input) = count("input_tokens") {
        into.input = input + into.cached + count("cache_creation_input_tokens").unwrap_or(0);
    }
    if let Some(output) = count("output_tokens") {
        into.output = output;
    }
}

pub(super) fn write_reply(reply: &ModelReply) -> Value {
    json!({
        "id": reply.id, "type": "message", "role": "assistant", "model": reply.model,
        "content": write_parts(&reply.parts),
        "stop_reason": stop_word(reply.stop), "stop_sequence": null, "usage": write_usage(&reply.usage),
    })
}

pub(super) fn read_reply(body: &Value) -> Result<ModelReply, WireFlaw> {
    let blocks = body["content"].as_array().ok_or(WireFlaw::NotAList("content"))?;
    blocks.iter().try_for_each(|block| said(block, "text").map(drop))?;
    let mut usage = Usage::default();
    read_usage(&body["usage"], &mut usage);
    Ok(ModelReply {
        id: text_of(body, "id").to_owned(),
        model: text_of(body, "model").to_owned(),
        parts: read_parts(&body["content"]),
        stop: read_stop(text_of(body, "stop_reason")),
        usage,
    })
}
