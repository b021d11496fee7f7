//! Gemini generateContent and streamGenerateContent.

use serde_json::{Value, json};

use super::{WireFlaw, WireFormat, flat, said, text_of};
use crate::sse::SseEvent;
use crate::talk::{
    AnswerForm, Delta, Effort, Input, ModelCall, ModelPart, ModelReply, ModelRequest, ModelStop, ModelTool,
    ModelTurn, ThinkingSeal, ToolResult, Usage, UserPart,
};

/// A field under its camel-case or snake-case name: the vendor's libraries use both.
fn field<'v>(value: &'v Value, camel: &str, snake: &str) -> &'v Value {
    value.get(camel).unwrap_or(&value[snake])
}

pub(super) fn read_request(body: &Value) -> Result<ModelRequest, WireFlaw> {
    let contents = match &body["contents"] {
        Value::Array(list) => list.clone(),
        single @ Value::Object(_) => vec![single.clone()],
        _ => return Err(WireFlaw::NotAList("contents")),
    };
    let config = field(body, "generationConfig", "generation_config");
    let mut request = ModelRequest {
        system: flat(&field(body, "systemInstruction", "system_instruction")["parts"]),
        tools: read_tools(&body["tools"]),
        answer: read_form(config),
        max_tokens: field(config, "maxOutputTokens", "max_output_tokens").as_u64(),
        ..ModelRequest::default()
    };
    for content in &contents {
        let parts = content["parts"].as_array().map(Vec::as_slice).unwrap_or_default();
        if text_of(content, "role") == "model" {
            let mut parts = read_parts(parts);
            parts.retain(|part| !matches!(part, ModelPart::Seal(_)));
            request.turns.push(ModelTurn::Assistant(parts));
        } else {
            read_user(parts, &mut request.turns);
        }
    }
    Ok(request)
}

fn read_user(parts: &[Value], turns: &mut Vec<ModelTurn>) {
    let mut words = Vec::new();
    for part in parts {
        let response = field(part, "functionResponse", "function_response");
        let inline = field(part, "inlineData", "inline_data");
        if response.is_object() {
            if !words.is_empty() {
                turns.push(ModelTurn::User(std::mem::take(&mut words)));
            }
            turns.push(ModelTurn::Result(read_result(response)));
        } else if inline.is_object() {
            words.push(UserPart::Image {
                mime: field(inline, "mimeType", "mime_type").as_str().unwrap_or_default().to_owned(),
                data: text_of(inline, "data").to_owned(),
            });
        } else if let Some(text) = part["text"].as_str() {
            words.push(UserPart::Text(text.to_owned()));
        } else {
            words.push(UserPart::Other(
                part.as_object().and_then(|map| map.keys().next()).cloned().unwrap_or_default(),
            ));
        }
    }
    if !words.is_empty() {
        turns.push(ModelTurn::User(words));
    }
}

fn read_result(response: &Value) -> ToolResult {
    let answer = &response["response"];
    let told = ["output", "result", "content"].iter().find_map(|name| answer[*name].as_str());
    let error = answer["error"].as_str();
    ToolResult {
        id: text_of(response, "id").to_owned(),
        name: text_of(response, "name").to_owned(),
        text: told.or(error).map_or_else(|| answer.to_string(), str::to_owned),
        is_error: error.is_some(),
    }
}

fn read_parts(parts: &[Value]) -> Vec<ModelPart> {
    let mut read: Vec<ModelPart> = Vec::new();
    for part in parts {
        let call = field(part, "functionCall", "function_call");
        if call.is_object() {
            read.push(ModelPart::Call(ModelCall {
                id: text_of(call, "id").to_owned(),
                name: text_of(call, "name").to_owned(),
                namespace: None,
                input: Input::Json(call.get("args").cloned().unwrap_or_else(|| json!({}))),
            }));
            read.extend(seal(part));
            continue;
        }
        let Some(text) = part["text"].as_str() else { continue };
        let thought = part["thought"].as_bool().unwrap_or(false);
        match (read.last_mut(), thought) {
            (Some(ModelPart::Think(whole)), true) | (Some(ModelPart::Text(whole)), false) => {
                whole.push_str(text);
            }
            (_, true) => read.push(ModelPart::Think(text.to_owned())),
            (_, false) => read.push(ModelPart::Text(text.to_owned())),
        }
        if !thought {
            read.extend(seal(part));
        }
    }
    read
}

/// The parts of an answer.
fn said_parts(candidate: &Value) -> Result<Vec<ModelPart>, WireFlaw> {
    let parts = candidate["content"]["parts"].as_array().map(Vec::as_slice).unwrap_or_default();
    parts.iter().try_for_each(|part| said(part, "text").map(drop))?;
    Ok(read_parts(parts))
}

/// The signature of a part; it belongs to the part before it.
fn seal(part: &Value) -> Option<ModelPart> {
    let signature = field(part, "thoughtSignature", "thought_signature").as_str()?;
    Some(ModelPart::Seal(ThinkingSeal { wire: WireFormat::Gemini, data: signature.into() }))
}

fn read_tools(tools: &Value) -> Vec<ModelTool> {
    let groups = tools.as_array().into_iter().flatten();
    let declared = groups
        .filter_map(|group| field(group, "functionDeclarations", "function_declarations").as_array())
        .flatten();
    let read = |tool: &Value| {
        let schema = tool
            .get("parametersJsonSchema")
            .or_else(|| tool.get("parameters_json_schema"))
            .or_else(|| tool.get("parameters"));
        Some(ModelTool {
            name: tool["name"].as_str()?.to_owned(),
            description: text_of(tool, "description").to_owned(),
            schema: schema.cloned().unwrap_or(Value::Null),
            ..ModelTool::default()
        })
    };
    declared.filter_map(read).collect()
}

fn read_form(config: &Value) -> AnswerForm {
    let schema = config
        .get("responseJsonSchema")
        .or_else(|| config.get("responseSchema"))
        .or_else(|| config.get("response_schema"));
    let json = field(config, "responseMimeType", "response_mime_type") == "application/json";
    match schema {
        Some(schema) => AnswerForm::Json(Some(schema.clone())),
        None if json => AnswerForm::Json(None),
        None => AnswerForm::Free,
    }
}

pub(super) fn write_request(request: &ModelRequest) -> Value {
    let mut contents: Vec<Value> = Vec::new();
    for turn in &request.turns {
        let (role, parts) = match turn {
            ModelTurn::User(parts) => ("user", parts.iter().map(write_user_part).collect()),
            ModelTurn::Assistant(parts) => ("model", write_parts(parts)),
            ModelTurn::Result(result) => ("user", vec![write_result(result)]),
        };
        match contents
            .last_mut()
            .filter(|last| last["role"] == role)
            .and_then(|last| last["parts"].as_array_mut())
        {
            Some(before) => before.extend(parts),
            None => contents.push(json!({"role": role, "parts": parts})),
        }
    }
    let mut body = json!({"contents": contents});
    if !request.system.is_empty() {
        body["systemInstruction"] = json!({"parts": [{"text": request.system}]});
    }
    if !request.tools.is_empty() {
        let tools = request.tools.iter().map(|tool| {
            json!({"name": tool.name, "description": tool.description, "parametersJsonSchema": tool.schema})
        });
        body["tools"] = json!([{"functionDeclarations": tools.collect::<Vec<_>>()}]);
    }
    let mut config = serde_json::Map::new();
    if let AnswerForm::Json(schema) = &request.answer {
        config.insert("responseMimeType".to_owned(), "application/json".into());
        config.extend(schema.clone().map(|schema| ("responseJsonSchema".to_owned(), schema)));
    }
    config.extend(request.max_tokens.map(|limit| ("maxOutputTokens".to_owned(), limit.into())));
    config.extend(
        request.effort.map(|effort| ("thinkingConfig".to_owned(), write_effort(effort, &request.model))),
    );
    if !config.is_empty() {
        body["generationConfig"] = config.into();
    }
    body
}

/// The models of version 2 want a number of tokens, the later ones a word.
fn write_effort(effort: Effort, model: &str) -> Value {
    if model.contains("gemini-2") {
        return json!({"includeThoughts": true, "thinkingBudget": effort.tokens()});
    }
    json!({"includeThoughts": true, "thinkingLevel": effort.as_str()})
}

fn write_result(result: &ToolResult) -> Value {
    let word = if result.is_error { "error" } else { "output" };
    json!({"functionResponse": {"id": result.id, "name": result.name, "response": {word: result.text}}})
}

fn write_user_part(part: &UserPart) -> Value {
    match part {
        UserPart::Text(text) => json!({"text": text}),
        UserPart::Image { mime, data } => json!({"inlineData": {"mimeType": mime, "data": data}}),
        UserPart::Other(kind) => json!({kind: {}}),
    }
}

fn write_parts(parts: &[ModelPart]) -> Vec<Value> {
    let mut written: Vec<Value> = Vec::new();
    for part in parts {
        let ModelPart::Seal(seal) = part else {
            written.push(write_part(part));
            continue;
        };
        if seal.wire != WireFormat::Gemini {
            continue;
        }
        match written.last_mut().filter(|part| part.get("thoughtSignature").is_none()) {
            Some(last) => last["thoughtSignature"] = seal.data.clone(),
            None => written.push(json!({"text": "", "thoughtSignature": seal.data})),
        }
    }
    written
}

fn write_part(part: &ModelPart) -> Value {
    match part {
        ModelPart::Seal(seal) => json!({"text": "", "thoughtSignature": seal.data}),
        ModelPart::Think(text) => json!({"text": text, "thought": true}),
        ModelPart::Text(text) => json!({"text": text}),
        ModelPart::Call(call) => {
            let args = match &call.input {
                Input::Json(value) => value.clone(),
                Input::Text(text) => json!({"input": text}),
            };
            json!({"functionCall": {"id": call.id, "name": call.name, "args": args}})
        }
    }
}

/// Gemini has no finish reason of its own for tool calls.
fn stop_word(stop: ModelStop) -> &'static str {
    match stop {
        ModelStop::End | ModelStop::Tools => "STOP",
        ModelStop::Length => "MAX_TOKENS",
        ModelStop::Refusal => "SAFETY",
    }
}

fn read_stop(word: &str, called: bool) -> ModelStop {
    match word {
        "MAX_TOKENS" => ModelStop::Length,
        "SAFETY" | "PROHIBITED_CONTENT" | "BLOCKLIST" | "RECITATION" => ModelStop::Refusal,
        _ if called => ModelStop::Tools,
        _ => ModelStop::End,
    }
}

fn write_usage(usage: &Usage) -> Value {
    json!({
        "promptTokenCount": usage.input, "candidatesTokenCount": usage.output - usage.reasoning.min(usage.output),
        "thoughtsTokenCount": usage.reasoning, "cachedContentTokenCount": usage.cached,
        "totalTokenCount": usage.input + usage.output,
    })
}

fn read_usage(usage: &Value) -> Usage {
    let count = |name: &str| usage[name].as_u64().unwrap_or(0);
    let reasoning = count("thoughtsTokenCount");
    Usage {
        input: count("promptTokenCount"),
        output: count("candidatesTokenCount") + reasoning,
        cached: count("cachedContentTokenCount"),
        reasoning,
    }
}

fn frame(id: &str, model: &str, parts: &[Value], end: Option<(ModelStop, &Usage)>) -> Value {
    let mut candidate = json!({"content": {"role": "model", "parts": parts}, "index": 0});
    let mut frame = json!({"modelVersion": model, "responseId": id});
    if let Some((stop, usage)) = end {
        candidate["finishReason"] = stop_word(stop).into();
        frame["usageMetadata"] = write_usage(usage);
    }
    frame["candidates"] = json!([candidate]);
    frame
}

pub(super) fn write_reply(reply: &ModelReply) -> Value {
    let parts = write_parts(&reply.parts);
    frame(&reply.id, &reply.model, &parts, Some((reply.stop, &reply.usage)))
}

pub(super) fn read_reply(body: &Value) -> Result<ModelReply, WireFlaw> {
    let candidate = body["candidates"].get(0).ok_or(WireFlaw::Missing("candidate"))?;
    let parts = said_parts(candidate)?;
    let called = parts.iter().any(|part| matches!(part, ModelPart::Call(_)));
    Ok(ModelReply {
        id: text_of(body, "responseId").to_owned(),
        model: text_of(body, "modelVersion").to_owned(),
        stop: read_stop(text_of(candidate, "finishReason"), called),
        parts,
        usage: read_usage(&body["usageMetadata"]),
    })
}

/// Writes one frame per piece. Arguments go out whole, so they wait until the call is over.
pub struct GeminiWriter {
    id: String,
    model: String,
    call: Option<(String, String, String, bool)>,
}

impl GeminiWriter {
    pub(super) fn new(id: &str, request: &ModelRequest) -> Self {
        Self { id: id.to_owned(), model: request.model.clone(), call: None }
    }

    pub(super) fn push(&mut self, delta: &Delta) -> Vec<SseEvent> {
        let mut events = Vec::new();
        if !matches!(delta, Delta::Args { .. }) {
            events.extend(self.flush());
        }
        match delta {
            Delta::Think(text) => events.push(self.frame(json!({"text": text, "thought": true}), None)),
            Delta::Text(text) => events.push(self.frame(json!({"text": text}), None)),
            Delta::Call { id, name, free_text, .. } => {
                self.call = Some((id.clone(), name.clone(), String::new(), *free_text));
            }
            Delta::Args { text, .. } => {
                if let Some((_, _, whole, _)) = &mut self.call {
                    whole.push_str(text);
                }
            }
            Delta::Seal(_) => {}
            Delta::End { stop, usage } => {
                events.push(self.frame(json!({"text": ""}), Some((*stop, usage))));
            }
            Delta::Failed { kind, message } => {
                let error = json!({"error": {"code": 500, "message": message, "status": kind}});
                events.push(SseEvent::data(error.to_string()));
            }
        }
        events
    }

    fn flush(&mut self) -> Option<SseEvent> {
        let (id, name, text, free_text) = self.call.take()?;
        let input = if free_text { Input::Text(text) } else { Input::read(&text) };
        let call = ModelPart::Call(ModelCall { id, name, namespace: None, input });
        Some(self.frame(write_part(&call), None))
    }

    fn frame(&self, part: Value, end: Option<(ModelStop, &Usage)>) -> SseEvent {
        SseEvent::data(frame(&self.id, &self.model, &[part], end).to_string())
    }
}

/// Reads frames.
#[derive(Default)]
pub struct GeminiReader {
    calls: usize,
    usage: Usage,
    stop: Option<ModelStop>,
    ended: bool,
}

impl GeminiReader {
    pub(super) fn push(&mut self, event: &SseEvent) -> Result<Vec<Delta>, WireFlaw> {
        let frame: Value = serde_json::from_str(&event.data)
            .map_err(|error| WireFlaw::NotJson { piece: "a frame", error })?;
        if let Some((kind, message)) = super::read_error(&frame) {
            return Ok(vec![Delta::Failed { kind, message }]);
        }
        if frame["usageMetadata"].is_object() {
            self.usage = read_usage(&frame["usageMetadata"]);
        }
        if frame["promptFeedback"]["blockReason"].is_string() {
            self.stop = Some(ModelStop::Refusal);
        }
        let Some(candidate) = frame["candidates"].get(0) else { return Ok(Vec::new()) };
        let mut deltas = Vec::new();
        for part in said_parts(candidate)? {
            match part {
                ModelPart::Think(text) if !text.is_empty() => deltas.push(Delta::Think(text)),
                ModelPart::Text(text) if !text.is_empty() => deltas.push(Delta::Text(text)),
                ModelPart::Call(call) => {
                    let index = self.calls;
                    self.calls += 1;
                    let text = call.input.text();
                    deltas.push(Delta::Call {
                        index,
                        id: call.id,
                        name: call.name,
                        namespace: None,
                        free_text: false,
                    });
                    deltas.push(Delta::Args { index, text });
                }
                ModelPart::Seal(seal) => deltas.push(Delta::Seal(seal)),
                ModelPart::Think(_) | ModelPart::Text(_) => {}
            }
        }
        if let Some(word) = candidate["finishReason"].as_str() {
            if matches!(word, "MALFORMED_FUNCTION_CALL" | "UNEXPECTED_TOOL_CALL") {
                let message = text_of(candidate, "finishMessage").to_owned();
                deltas.push(Delta::Failed { kind: word.to_owned(), message });
            }
            self.stop = Some(read_stop(word, self.calls > 0));
        }
        Ok(deltas)
    }

    pub(super) fn concluded(&self) -> bool {
        self.stop.is_some()
    }

    pub(super) fn finish(&mut self) -> Vec<Delta> {
        match self.stop {
            Some(stop) if !std::mem::replace(&mut self.ended, true) => {
                vec![Delta::End { stop, usage: self.usage }]
            }
            _ => Vec::new(),
        }
    }
}
