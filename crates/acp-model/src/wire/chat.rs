//! OpenAI chat completions, and the many servers that copy them.

use serde_json::{Map, Value, json};

use super::{WireFlaw, WireFormat, flat, join, said, text_of};
use crate::sse::SseEvent;
use crate::talk::{
    AnswerForm, Delta, Input, ModelCall, ModelPart, ModelReply, ModelRequest, ModelStop, ModelTool,
    ModelTurn, ThinkingSeal, ToolResult, Usage, UserPart,
};

pub(super) fn read_request(body: &Value) -> Result<ModelRequest, WireFlaw> {
    let messages = body["messages"].as_array().ok_or(WireFlaw::NotAList("messages"))?;
    let mut request = ModelRequest {
        model: text_of(body, "model").to_owned(),
        stream: body["stream"].as_bool().unwrap_or(false),
        usage_chunk: body["stream_options"]["include_usage"].as_bool().unwrap_or(false),
        tools: read_tools(&body["tools"]),
        answer: read_form(&body["response_format"]),
        max_tokens: body["max_completion_tokens"].as_u64().or_else(|| body["max_tokens"].as_u64()),
        ..ModelRequest::default()
    };
    for message in messages {
        match text_of(message, "role") {
            "system" | "developer" => join(&mut request.system, &flat(&message["content"])),
            "assistant" => request.turns.push(ModelTurn::Assistant(read_parts(message))),
            "tool" | "function" => request.turns.push(ModelTurn::Result(ToolResult {
                id: text_of(message, "tool_call_id").to_owned(),
                name: text_of(message, "name").to_owned(),
                text: flat(&message["content"]),
                is_error: false,
            })),
            _ => request.turns.push(ModelTurn::User(read_content(&message["content"]))),
        }
    }
    Ok(request)
}

fn read_content(content: &Value) -> Vec<UserPart> {
    let Some(list) = content.as_array() else { return vec![UserPart::Text(flat(content))] };
    let parts = list.iter().map(|part| match text_of(part, "type") {
        "text" => UserPart::Text(text_of(part, "text").to_owned()),
        "image_url" => image(text_of(&part["image_url"], "url")),
        other => UserPart::Other(other.to_owned()),
    });
    parts.collect()
}

/// An image given as a data address or a plain one.
pub(super) fn image(url: &str) -> UserPart {
    match url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,")) {
        Some((mime, data)) => UserPart::Image { mime: mime.to_owned(), data: data.to_owned() },
        None => UserPart::Image { mime: String::new(), data: url.to_owned() },
    }
}

/// The other way round.
pub(super) fn image_url(mime: &str, data: &str) -> String {
    if mime.is_empty() { data.to_owned() } else { format!("data:{mime};base64,{data}") }
}

fn read_parts(message: &Value) -> Vec<ModelPart> {
    let mut parts = Vec::new();
    parts.extend(thought(message).map(|(_, text)| ModelPart::Think(text.to_owned())));
    let text = flat(&message["content"]);
    if !text.is_empty() {
        parts.push(ModelPart::Text(text));
    }
    for call in message["tool_calls"].as_array().into_iter().flatten() {
        parts.push(ModelPart::Call(read_call(call)));
    }
    parts
}

/// Servers have two names for what a model thought.
const THOUGHTS: [&str; 2] = ["reasoning_content", "reasoning"];

fn thought(message: &Value) -> Option<(&'static str, &str)> {
    THOUGHTS.iter().map(|name| (*name, text_of(message, name))).find(|(_, text)| !text.is_empty())
}

/// Thinking models want their thoughts back while they wait for tools, under the name that the server used.
fn seal(name: &str, text: &str) -> ThinkingSeal {
    ThinkingSeal { wire: WireFormat::Chat, data: json!({name: text}) }
}

fn read_call(call: &Value) -> ModelCall {
    let custom = &call["custom"];
    let (name, input) = if custom.is_object() {
        (text_of(custom, "name"), Input::Text(text_of(custom, "input").to_owned()))
    } else {
        let function = &call["function"];
        (text_of(function, "name"), Input::read(text_of(function, "arguments")))
    };
    ModelCall { id: text_of(call, "id").to_owned(), name: name.to_owned(), namespace: None, input }
}

fn read_tools(tools: &Value) -> Vec<ModelTool> {
    let read = |tool: &Value| {
        let function = tool.get("function").or_else(|| tool.get("custom"))?;
        Some(ModelTool {
            name: function["name"].as_str()?.to_owned(),
            namespace: None,
            description: text_of(function, "description").to_owned(),
            schema: function["parameters"].clone(),
            free_text: tool.get("custom").is_some(),
        })
    };
    tools.as_array().into_iter().flatten().filter_map(read).collect()
}

fn read_form(format: &Value) -> AnswerForm {
    match text_of(format, "type") {
        "json_object" => AnswerForm::Json(None),
        "json_schema" => AnswerForm::Json(Some(format["json_schema"]["schema"].clone())),
        _ => AnswerForm::Free,
    }
}

pub(super) fn write_request(request: &ModelRequest) -> Value {
    let mut messages = Vec::new();
    if !request.system.is_empty() {
        messages.push(json!({"role": "system", "content": request.system}));
    }
    messages.extend(request.turns.iter().map(write_turn));
    let mut body = json!({"model": request.model, "messages": messages});
    if request.stream {
        body["stream"] = true.into();
        if request.usage_chunk {
            body["stream_options"] = json!({"include_usage": true});
        }
    }
    if !request.tools.is_empty() {
        body["tools"] = request.tools.iter().map(write_tool).collect();
    }
    match &request.answer {
        AnswerForm::Free => {}
        AnswerForm::Json(None) => body["response_format"] = json!({"type": "json_object"}),
        AnswerForm::Json(Some(schema)) => {
            body["response_format"] =
                json!({"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}});
        }
    }
    if let Some(limit) = request.max_tokens {
        body["max_completion_tokens"] = limit.into();
    }
    if let Some(effort) = request.effort {
        body["reasoning_effort"] = effort.as_str().into();
    }
    body
}

fn write_tool(tool: &ModelTool) -> Value {
    if tool.free_text {
        return json!({"type": "custom", "custom": {"name": tool.name, "description": tool.description}});
    }
    json!({"type": "function", "function": {"name": tool.name, "description": tool.description, "parameters": tool.schema}})
}

fn write_turn(turn: &ModelTurn) -> Value {
    match turn {
        ModelTurn::User(parts) => match parts.as_slice() {
            [UserPart::Text(text)] => json!({"role": "user", "content": text}),
            parts => {
                json!({"role": "user", "content": parts.iter().map(write_user_part).collect::<Vec<_>>()})
            }
        },
        ModelTurn::Assistant(parts) => write_message(parts),
        ModelTurn::Result(result) => {
            let mut message = json!({"role": "tool", "tool_call_id": result.id, "content": result.text});
            if !result.name.is_empty() {
                message["name"] = result.name.clone().into();
            }
            message
        }
    }
}

fn write_user_part(part: &UserPart) -> Value {
    match part {
        UserPart::Text(text) => json!({"type": "text", "text": text}),
        UserPart::Image { mime, data } => {
            json!({"type": "image_url", "image_url": {"url": image_url(mime, data)}})
        }
        UserPart::Other(kind) => json!({"type": kind}),
    }
}

fn write_message(parts: &[ModelPart]) -> Value {
    let mut text = None::<String>;
    let mut thought = String::new();
    let mut calls = Vec::new();
    let mut sealed = None;
    for part in parts {
        match part {
            ModelPart::Seal(seal) if seal.wire == WireFormat::Chat => sealed = seal.data.as_object(),
            ModelPart::Seal(_) => {}
            ModelPart::Think(more) => thought.push_str(more),
            ModelPart::Text(more) => text.get_or_insert_default().push_str(more),
            ModelPart::Call(call) => calls.push(write_call(call)),
        }
    }
    let mut message = json!({"role": "assistant", "content": text, "refusal": null});
    if let Some(fields) = sealed {
        fields.iter().for_each(|(name, value)| message[name] = value.clone());
    } else if !thought.is_empty() {
        message["reasoning_content"] = thought.into();
    }
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    message
}

fn write_call(call: &ModelCall) -> Value {
    match &call.input {
        Input::Json(args) => {
            json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": args.to_string()}})
        }
        Input::Text(text) => {
            json!({"id": call.id, "type": "custom", "custom": {"name": call.name, "input": text}})
        }
    }
}

fn stop_word(stop: ModelStop) -> &'static str {
    match stop {
        ModelStop::End => "stop",
        ModelStop::Tools => "tool_calls",
        ModelStop::Length => "length",
        ModelStop::Refusal => "content_filter",
    }
}

fn read_stop(word: &str) -> ModelStop {
    match word {
        "tool_calls" | "function_call" => ModelStop::Tools,
        "length" => ModelStop::Length,
        "content_filter" => ModelStop::Refusal,
        _ => ModelStop::End,
    }
}

fn write_usage(usage: &Usage) -> Value {
    json!({
        "prompt_tokens": usage.input, "completion_tokens": usage.output, "total_tokens": usage.input + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cached},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    })
}

fn read_usage(usage: &Value) -> Usage {
    Usage {
        input: usage["prompt_tokens"].as_u64().unwrap_or(0),
        output: usage["completion_tokens"].as_u64().unwrap_or(0),
        cached: usage["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap_or(0),
        reasoning: usage["completion_tokens_details"]["reasoning_tokens"].as_u64().unwrap_or(0),
    }
}

pub(super) fn write_reply(reply: &ModelReply) -> Value {
    json!({
        "id": reply.id, "object": "chat.completion", "created": super::responses::CREATED, "model": reply.model,
        "choices": [{"index": 0, "message": write_message(&reply.parts), "logprobs": null, "finish_reason": stop_word(reply.stop)}],
        "usage": write_usage(&reply.usage), "system_fingerprint": "fp_scripted",
    })
}

pub(super) fn read_reply(body: &Value) -> Result<ModelReply, WireFlaw> {
    let choice = body["choices"].get(0).ok_or(WireFlaw::Missing("choice"))?;
    said(&choice["message"], "content")?;
    let mut parts = read_parts(&choice["message"]);
    parts.extend(thought(&choice["message"]).map(|(name, text)| ModelPart::Seal(seal(name, text))));
    Ok(ModelReply {
        id: text_of(body, "id").to_owned(),
        model: text_of(body, "model").to_owned(),
        parts,
        stop: read_stop(text_of(choice, "finish_reason")),
        usage: read_usage(&body["usage"]),
    })
}

/// Writes chunks.
pub struct ChatWriter {
    base: Map<String, Value>,
    started: bool,
    usage_chunk: bool,
}

impl ChatWriter {
    pub(super) fn new(id: &str, request: &ModelRequest) -> Self {
        let base = json!({"id": id, "object": "chat.completion.chunk", "created": super::responses::CREATED, "model": request.model, "system_fingerprint": "fp_scripted"});
        let base = base.as_object().cloned().unwrap_or_default();
        Self { base, started: false, usage_chunk: request.usage_chunk }
    }

    pub(super) fn push(&mut self, delta: &Delta) -> Vec<SseEvent> {
        let mut events = Vec::new();
        if let Delta::Failed { kind, message } = delta {
            return vec![SseEvent::data(
                json!({"error": {"message": message, "type": kind, "code": kind}}).to_string(),
            )];
        }
        if !std::mem::replace(&mut self.started, true) {
            events.push(self.chunk(&json!({"role": "assistant", "content": ""}), None));
        }
        match delta {
            Delta::Think(text) => events.push(self.chunk(&json!({"reasoning_content": text}), None)),
            Delta::Text(text) => events.push(self.chunk(&json!({"content": text}), None)),
            Delta::Call { index, id, name, free_text: false, .. } => events.push(self.chunk(
                &json!({"tool_calls": [{"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": ""}}]}),
                None,
            )),
            Delta::Call { index, id, name, .. } => events.push(self.chunk(
                &json!({"tool_calls": [{"index": index, "id": id, "type": "custom", "custom": {"name": name, "input": ""}}]}),
                None,
            )),
            Delta::Args { index, text } => events.push(
                self.chunk(&json!({"tool_calls": [{"index": index, "function": {"arguments": text}}]}), None),
            ),
            Delta::End { stop, usage } => events.extend(self.end(*stop, usage)),
            Delta::Seal(_) | Delta::Failed { .. } => {}
        }
        events
    }

    fn end(&self, stop: ModelStop, usage: &Usage) -> Vec<SseEvent> {
        let word = Value::from(stop_word(stop));
        let mut last = self.base.clone();
        last.insert(
            "choices".to_owned(),
            json!([{"index": 0, "delta": {}, "logprobs": null, "finish_reason": word}]),
        );
        let mut events = Vec::new();
        if self.usage_chunk {
            let mut cost = self.base.clone();
            cost.insert("choices".to_owned(), json!([]));
            cost.insert("usage".to_owned(), write_usage(usage));
            events.push(SseEvent::data(Value::Object(last).to_string()));
            events.push(SseEvent::data(Value::Object(cost).to_string()));
        } else {
            last.insert("usage".to_owned(), write_usage(usage));
            events.push(SseEvent::data(Value::Object(last).to_string()));
        }
        events.push(SseEvent::data("[DONE]"));
        events
    }

    fn chunk(&self, delta: &Value, finish: Option<&str>) -> SseEvent {
        let mut chunk = self.base.clone();
        chunk.insert(
            "choices".to_owned(),
            json!([{"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish}]),
        );
        SseEvent::data(Value::Object(chunk).to_string())
    }
}

/// Reads chunks. Usage may come after the finish reason, so the end is told at `[DONE]` or the stream's end.
#[derive(Default)]
pub struct ChatReader {
    stop: Option<ModelStop>,
    pub(super) concluded: bool,
    usage: Usage,
    ended: bool,
    /// The calls so far: the index on the wire and the id.
    calls: Vec<(u64, String)>,
    thought: Option<(&'static str, String)>,
}

impl ChatReader {
    pub(super) fn push(&mut self, event: &SseEvent) -> Result<Vec<Delta>, WireFlaw> {
        if event.data.trim() == "[DONE]" {
            // Some servers never say why they stopped, but they did.
            self.stop =
                self.stop.or(Some(if self.calls.is_empty() { ModelStop::End } else { ModelStop::Tools }));
            return Ok(self.finish());
        }
        let chunk: Value = serde_json::from_str(&event.data)
            .map_err(|error| WireFlaw::NotJson { piece: "a chunk", error })?;
        if let Some((kind, message)) = super::read_error(&chunk) {
            return Ok(vec![Delta::Failed { kind, message }]);
        }
        if chunk["usage"].is_object() {
            self.usage = read_usage(&chunk["usage"]);
        }
        let Some(choice) = chunk["choices"].get(0) else { return Ok(Vec::new()) };
        let delta = &choice["delta"];
        let mut deltas = Vec::new();
        if let Some((name, text)) = thought(delta) {
            self.thought.get_or_insert((name, String::new())).1.push_str(text);
            deltas.push(Delta::Think(text.to_owned()));
        }
        let refused = text_of(delta, "refusal");
        for text in [said(delta, "content")?, refused].into_iter().filter(|text| !text.is_empty()) {
            deltas.push(Delta::Text(text.to_owned()));
        }
        for call in delta["tool_calls"].as_array().into_iter().flatten() {
            self.call(call, &mut deltas);
        }
        // Servers that never say why they stopped begin an empty answer like any other.
        self.concluded |= choice["finish_reason"].is_string() || delta["content"].is_string();
        if !refused.is_empty() {
            self.stop = Some(ModelStop::Refusal);
        } else if let Some(word) =
            choice["finish_reason"].as_str().filter(|_| self.stop != Some(ModelStop::Refusal))
        {
            self.stop = Some(read_stop(word));
        }
        Ok(deltas)
    }

    /// A piece of a call. Some servers say a call's name in each piece, some give all calls the same index, and some
    /// give none: an id that was not there before is another call.
    fn call(&mut self, call: &Value, deltas: &mut Vec<Delta>) {
        let (place, id) = (call["index"].as_u64(), text_of(call, "id"));
        let custom = call.get("custom");
        let inner = custom.unwrap_or(&call["function"]);
        let name = text_of(inner, "name");
        let known = match (place, id) {
            (Some(place), "") => self.calls.iter().rposition(|(at, _)| *at == place),
            (None, "") if name.is_empty() => self.calls.len().checked_sub(1),
            (None, "") => None,
            (Some(place), id) => self.calls.iter().rposition(|(at, of)| *at == place && of == id),
            (None, id) => self.calls.iter().rposition(|(_, of)| of == id),
        };
        let index = known.unwrap_or(self.calls.len());
        if known.is_none() {
            self.calls.push((place.unwrap_or(index as u64), id.to_owned()));
            deltas.push(Delta::Call {
                index,
                id: id.to_owned(),
                name: name.to_owned(),
                namespace: None,
                free_text: custom.is_some(),
            });
        }
        let text = if custom.is_some() { text_of(inner, "input") } else { text_of(inner, "arguments") };
        if !text.is_empty() {
            deltas.push(Delta::Args { index, text: text.to_owned() });
        } else if inner["arguments"].is_object() {
            deltas.push(Delta::Args { index, text: inner["arguments"].to_string() });
        }
    }

    pub(super) fn finish(&mut self) -> Vec<Delta> {
        match self.stop {
            Some(stop) if !std::mem::replace(&mut self.ended, true) => {
                let sealed = self.thought.take().map(|(name, text)| Delta::Seal(seal(name, &text)));
                sealed.into_iter().chain([Delta::End { stop, usage: self.usage }]).collect()
            }
            _ => Vec::new(),
        }
    }
}
