//! OpenAI responses.

mod stream;

use serde_json::{Value, json};

use super::chat::{image, image_url};
use super::{WireFlaw, WireFormat, flat, join, text_of};
use crate::talk::{
    AnswerForm, Input, ModelCall, ModelPart, ModelReply, ModelRequest, ModelStop, ModelTool, ModelTurn,
    ThinkingSeal, ToolResult, Usage, UserPart,
};

pub use stream::{ResponsesReader, ResponsesWriter};

/// Every answer says that it was made at this time: the same run gives the same bytes.
pub(super) const CREATED: u64 = 1_700_000_000;

pub(super) fn read_request(body: &Value) -> Result<ModelRequest, WireFlaw> {
    let mut request = ModelRequest {
        model: text_of(body, "model").to_owned(),
        stream: body["stream"].as_bool().unwrap_or(false),
        system: flat(&body["instructions"]),
        tools: read_tools(&body["tools"]),
        answer: read_form(&body["text"]["format"]),
        max_tokens: body["max_output_tokens"].as_u64(),
        ..ModelRequest::default()
    };
    match &body["input"] {
        Value::String(text) => request.turns.push(ModelTurn::User(vec![UserPart::Text(text.clone())])),
        Value::Array(items) => items.iter().for_each(|item| read_item(item, &mut request)),
        _ => return Err(WireFlaw::NeitherTextNorList("input")),
    }
    Ok(request)
}

fn read_item(item: &Value, request: &mut ModelRequest) {
    let kind = item["type"].as_str().unwrap_or("message");
    match kind {
        "message" => match text_of(item, "role") {
            "system" | "developer" => join(&mut request.system, &flat(&item["content"])),
            "assistant" => assistant(request).push(ModelPart::Text(flat(&item["content"]))),
            _ => request.turns.push(ModelTurn::User(read_content(&item["content"]))),
        },
        "reasoning" => assistant(request).push(ModelPart::Think(flat(&item["summary"]))),
        "function_call" | "custom_tool_call" | "local_shell_call" => {
            let input = match kind {
                "custom_tool_call" => Input::Text(text_of(item, "input").to_owned()),
                "function_call" => Input::read(text_of(item, "arguments")),
                _ => Input::Json(item["action"].clone()),
            };
            let name = item["name"].as_str().unwrap_or("local_shell");
            assistant(request).push(ModelPart::Call(ModelCall {
                id: text_of(item, "call_id").to_owned(),
                name: name.to_owned(),
                namespace: item["namespace"].as_str().map(str::to_owned),
                input,
            }));
        }
        kind if kind.ends_with("_output") => request.turns.push(ModelTurn::Result(ToolResult {
            id: text_of(item, "call_id").to_owned(),
            name: String::new(),
            text: flat(&item["output"]),
            is_error: false,
        })),
        _ => {}
    }
}

/// What the model said and called stands in items of its own; together they are one turn.
fn assistant(request: &mut ModelRequest) -> &mut Vec<ModelPart> {
    if !matches!(request.turns.last(), Some(ModelTurn::Assistant(_))) {
        request.turns.push(ModelTurn::Assistant(Vec::new()));
    }
    match request.turns.last_mut() {
        Some(ModelTurn::Assistant(parts)) => parts,
        _ => unreachable!("an assistant turn was just pushed"),
    }
}

fn read_content(content: &Value) -> Vec<UserPart> {
    let Some(list) = content.as_array() else { return vec![UserPart::Text(flat(content))] };
    let parts = list.iter().map(|part| match text_of(part, "type") {
        "input_text" | "text" | "output_text" => UserPart::Text(text_of(part, "text").to_owned()),
        "input_image" => image(text_of(part, "image_url")),
        other => UserPart::Other(other.to_owned()),
    });
    parts.collect()
}

fn read_tools(tools: &Value) -> Vec<ModelTool> {
    let mut read = Vec::new();
    for tool in tools.as_array().into_iter().flatten() {
        if text_of(tool, "type") == "namespace" {
            let group = text_of(tool, "name");
            let inner = tool["tools"].as_array().into_iter().flatten();
            read.extend(inner.filter_map(|tool| read_tool(tool, Some(group))));
        } else {
            read.extend(read_tool(tool, None));
        }
    }
    read
}

fn read_tool(tool: &Value, namespace: Option<&str>) -> Option<ModelTool> {
    let free_text = text_of(tool, "type") == "custom";
    let known = free_text || text_of(tool, "type") == "function";
    known.then(|| tool["name"].as_str()).flatten().map(|name| ModelTool {
        name: name.to_owned(),
        namespace: namespace.map(str::to_owned),
        description: text_of(tool, "description").to_owned(),
        schema: tool["parameters"].clone(),
        free_text,
    })
}

fn read_form(format: &Value) -> AnswerForm {
    match text_of(format, "type") {
        "json_object" => AnswerForm::Json(None),
        "json_schema" => AnswerForm::Json(Some(format["schema"].clone())),
        _ => AnswerForm::Free,
    }
}

pub(super) fn write_request(request: &ModelRequest) -> Value {
    let input: Vec<Value> = request.turns.iter().flat_map(write_turn).collect();
    let mut body = json!({"model": request.model, "input": input, "store": false});
    if !request.system.is_empty() {
        body["instructions"] = request.system.clone().into();
    }
    if request.stream {
        body["stream"] = true.into();
    }
    if !request.tools.is_empty() {
        body["tools"] = request.tools.iter().map(write_tool).collect();
    }
    match &request.answer {
        AnswerForm::Free => {}
        AnswerForm::Json(None) => body["text"] = json!({"format": {"type": "json_object"}}),
        AnswerForm::Json(Some(schema)) => {
            body["text"] = json!({"format": {"type": "json_schema", "name": "answer", "schema": schema}});
        }
    }
    if let Some(limit) = request.max_tokens {
        body["max_output_tokens"] = limit.into();
    }
    if let Some(effort) = request.effort {
        body["reasoning"] = json!({"effort": effort.as_str(), "summary": "auto"});
        body["include"] = json!(["reasoning.encrypted_content"]);
    }
    body
}

fn write_tool(tool: &ModelTool) -> Value {
    let inner = if tool.free_text {
        json!({"type": "custom", "name": tool.name, "description": tool.description})
    } else {
        json!({"type": "function", "name": tool.name, "description": tool.description, "parameters": tool.schema, "strict": false})
    };
    match &tool.namespace {
        None => inner,
        Some(group) => json!({"type": "namespace", "name": group, "description": "", "tools": [inner]}),
    }
}

fn write_turn(turn: &ModelTurn) -> Vec<Value> {
    match turn {
        ModelTurn::User(parts) => {
            vec![
                json!({"type": "message", "role": "user", "content": parts.iter().map(write_user_part).collect::<Vec<_>>()}),
            ]
        }
        ModelTurn::Assistant(parts) => parts.iter().filter_map(write_input).collect(),
        ModelTurn::Result(result) => {
            vec![json!({"type": "function_call_output", "call_id": result.id, "output": result.text})]
        }
    }
}

fn write_user_part(part: &UserPart) -> Value {
    match part {
        UserPart::Text(text) => json!({"type": "input_text", "text": text}),
        UserPart::Image { mime, data } => {
            json!({"type": "input_image", "detail": "auto", "image_url": image_url(mime, data)})
        }
        UserPart::Other(kind) => json!({"type": kind}),
    }
}

/// An item of an earlier answer. The vendor keeps nothing of ours, so it must not look for it by its id.
fn write_input(part: &ModelPart) -> Option<Value> {
    let mut item = match part {
        ModelPart::Seal(seal) if seal.wire == WireFormat::Responses => return Some(seal.data.clone()),
        ModelPart::Seal(_) => return None,
        other => write_item(other, "", 0),
    };
    item.as_object_mut().and_then(|item| item.shift_remove("id"));
    Some(item)
}

fn write_item(part: &ModelPart, id: &str, n: usize) -> Value {
    match part {
        ModelPart::Seal(seal) => seal.data.clone(),
        ModelPart::Think(text) => {
            json!({"type": "reasoning", "id": format!("rs_{id}_{n}"), "summary": [{"type": "summary_text", "text": text}]})
        }
        ModelPart::Text(text) => json!({
            "type": "message", "id": format!("msg_{id}_{n}"), "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": text, "annotations": [], "logprobs": []}],
        }),
        ModelPart::Call(call) => {
            let mut item = match &call.input {
                Input::Json(args) => json!({
                    "type": "function_call", "id": format!("fc_{id}_{n}"), "call_id": call.id, "name": call.name,
                    "arguments": args.to_string(), "status": "completed",
                }),
                Input::Text(text) => json!({
                    "type": "custom_tool_call", "id": format!("ctc_{id}_{n}"), "call_id": call.id, "name": call.name,
                    "input": text, "status": "completed",
                }),
            };
            if let Some(group) = &call.namespace {
                item["namespace"] = group.clone().into();
            }
            item
        }
    }
}

fn write_usage(usage: &Usage) -> Value {
    json!({
        "input_tokens": usage.input, "input_tokens_details": {"cached_tokens": usage.cached},
        "output_tokens": usage.output, "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.input + usage.output,
    })
}

fn read_usage(usage: &Value) -> Usage {
    Usage {
        input: usage["input_tokens"].as_u64().unwrap_or(0),
        output: usage["output_tokens"].as_u64().unwrap_or(0),
        cached: usage["input_tokens_details"]["cached_tokens"].as_u64().unwrap_or(0),
        reasoning: usage["output_tokens_details"]["reasoning_tokens"].as_u64().unwrap_or(0),
    }
}

fn base(id: &str, model: &str) -> Value {
    json!({
        "id": id, "object": "response", "created_at": CREATED, "model": model, "status": "in_progress", "output": [],
        "error": null, "incomplete_details": null, "instructions": null, "metadata": {}, "parallel_tool_calls": true,
        "tool_choice": "auto", "tools": [], "temperature": 1, "top_p": 1, "usage": null,
    })
}

fn ended(id: &str, model: &str, output: &[Value], stop: ModelStop, usage: &Usage) -> Value {
    let mut response = base(id, model);
    response["output"] = output.into();
    response["usage"] = write_usage(usage);
    let reason = match stop {
        ModelStop::End | ModelStop::Tools => None,
        ModelStop::Length => Some("max_output_tokens"),
        ModelStop::Refusal => Some("content_filter"),
    };
    response["status"] = if reason.is_some() { "incomplete" } else { "completed" }.into();
    response["incomplete_details"] = reason.map_or(Value::Null, |reason| json!({"reason": reason}));
    response
}

fn read_stop(response: &Value, called: bool) -> ModelStop {
    match text_of(&response["incomplete_details"], "reason") {
        "max_output_tokens" => ModelStop::Length,
        "content_filter" => ModelStop::Refusal,
        _ if called => ModelStop::Tools,
        _ => ModelStop::End,
    }
}

pub(super) fn write_reply(reply: &ModelReply) -> Value {
    let items: Vec<_> =
        reply.parts.iter().enumerate().map(|(n, part)| write_item(part, &reply.id, n)).collect();
    ended(&reply.id, &reply.model, &items, reply.stop, &reply.usage)
}

pub(super) fn read_reply(body: &Value) -> Result<ModelReply, WireFlaw> {
    let items = body["output"].as_array().ok_or(WireFlaw::NotAList("output"))?;
    let mut request = ModelRequest::default();
    for item in items {
        read_item(item, &mut request);
        if let Some(seal) = seal(item) {
            assistant(&mut request).push(ModelPart::Seal(seal));
        }
    }
    let parts = match request.turns.pop() {
        Some(ModelTurn::Assistant(parts)) => parts,
        _ => Vec::new(),
    };
    let called = parts.iter().any(|part| matches!(part, ModelPart::Call(_)));
    Ok(ModelReply {
        id: text_of(body, "id").to_owned(),
        model: text_of(body, "model").to_owned(),
        stop: read_stop(body, called),
        parts,
        usage: read_usage(&body["usage"]),
    })
}

/// Reasoning that the vendor can read again.
fn seal(item: &Value) -> Option<ThinkingSeal> {
    let sealed = text_of(item, "type") == "reasoning" && !text_of(item, "encrypted_content").is_empty();
    sealed.then(|| ThinkingSeal { wire: WireFormat::Responses, data: item.clone() })
}
