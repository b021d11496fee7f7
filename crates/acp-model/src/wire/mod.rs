//! The vendors' wire formats: requests, whole answers, streamed answers and errors, each both ways.
//!
//! Reading is lenient: unknown fields and kinds are passed over, because agents and vendors add them freely.
//! Writing keeps to what the vendors' own client libraries check.

mod chat;
mod flaw;
mod gemini;
mod messages;
mod responses;

pub use acp_profile::WireFormat;
pub use flaw::WireFlaw;
use serde_json::{Value, json};

use crate::sse::SseEvent;
use crate::talk::{Delta, ModelReply, ModelRequest};

/// Something that is not what the wire format wants.
#[derive(Debug, thiserror::Error)]
#[error("not a {} message: {reason}", .wire.as_str())]
pub struct WireError {
    /// The format.
    pub wire: WireFormat,
    /// What is wrong.
    pub reason: WireFlaw,
}

/// Reads a request's body. `model` is the model named by the address, where the wire does so (Gemini).
pub fn read_request(wire: WireFormat, body: &Value, model: Option<&str>) -> Result<ModelRequest, WireError> {
    if !body.is_object() {
        return Err(WireError { wire, reason: WireFlaw::NotAnObject });
    }
    let mut request = match wire {
        WireFormat::Chat => chat::read_request(body),
        WireFormat::Responses => responses::read_request(body),
        WireFormat::Messages => messages::read_request(body),
        WireFormat::Gemini => gemini::read_request(body),
    }
    .map_err(|reason| WireError { wire, reason })?;
    if let Some(model) = model {
        request.model = model.to_owned();
    }
    Ok(request)
}

/// Writes a request's body.
pub fn write_request(wire: WireFormat, request: &ModelRequest) -> Value {
    match wire {
        WireFormat::Chat => chat::write_request(request),
        WireFormat::Responses => responses::write_request(request),
        WireFormat::Messages => messages::write_request(request),
        WireFormat::Gemini => gemini::write_request(request),
    }
}

/// Writes a whole answer.
pub fn write_reply(wire: WireFormat, reply: &ModelReply) -> Value {
    match wire {
        WireFormat::Chat => chat::write_reply(reply),
        WireFormat::Responses => responses::write_reply(reply),
        WireFormat::Messages => messages::write_reply(reply),
        WireFormat::Gemini => gemini::write_reply(reply),
    }
}

/// Reads a whole answer.
pub fn read_reply(wire: WireFormat, body: &Value) -> Result<ModelReply, WireError> {
    match wire {
        WireFormat::Chat => chat::read_reply(body),
        WireFormat::Responses => responses::read_reply(body),
        WireFormat::Messages => messages::read_reply(body),
        WireFormat::Gemini => gemini::read_reply(body),
    }
    .map_err(|reason| WireError { wire, reason })
}

/// The path of a request below the vendor's base address.
pub fn path(wire: WireFormat, request: &ModelRequest) -> String {
    match wire {
        WireFormat::Chat => "/v1/chat/completions".to_owned(),
        WireFormat::Responses => "/v1/responses".to_owned(),
        WireFormat::Messages => "/v1/messages".to_owned(),
        WireFormat::Gemini if request.stream => {
            format!("/v1beta/models/{}:streamGenerateContent?alt=sse", request.model)
        }
        WireFormat::Gemini => format!("/v1beta/models/{}:generateContent", request.model),
    }
}

/// Turns the pieces of an answer into events, in the order in which they are pushed.
pub enum StreamWriter {
    /// OpenAI chat completions.
    Chat(chat::ChatWriter),
    /// OpenAI responses.
    Responses(responses::ResponsesWriter),
    /// Anthropic messages.
    Messages(messages::MessagesWriter),
    /// Gemini.
    Gemini(gemini::GeminiWriter),
}

impl StreamWriter {
    /// A stream that answers `request` under this id.
    pub fn new(wire: WireFormat, id: &str, request: &ModelRequest) -> Self {
        match wire {
            WireFormat::Chat => Self::Chat(chat::ChatWriter::new(id, request)),
            WireFormat::Responses => Self::Responses(responses::ResponsesWriter::new(id, request)),
            WireFormat::Messages => Self::Messages(messages::MessagesWriter::new(id, request)),
            WireFormat::Gemini => Self::Gemini(gemini::GeminiWriter::new(id, request)),
        }
    }

    /// The events for one more piece. After [`Delta::End`] or [`Delta::Failed`] nothing may follow.
    pub fn push(&mut self, delta: &Delta) -> Vec<SseEvent> {
        match self {
            Self::Chat(writer) => writer.push(delta),
            Self::Responses(writer) => writer.push(delta),
            Self::Messages(writer) => writer.push(delta),
            Self::Gemini(writer) => writer.push(delta),
        }
    }

    /// Bytes that keep a silent stream alive.
    pub fn keep_alive(&self) -> String {
        match self {
            Self::Messages(_) => SseEvent::named("ping", "{\"type\":\"ping\"}").encode(),
            _ => ": keep-alive\n\n".to_owned(),
        }
    }
}

/// Turns events back into the pieces of an answer.
pub enum StreamReader {
    /// OpenAI chat completions.
    Chat(chat::ChatReader),
    /// OpenAI responses.
    Responses(responses::ResponsesReader),
    /// Anthropic messages.
    Messages(messages::MessagesReader),
    /// Gemini.
    Gemini(gemini::GeminiReader),
}

impl StreamReader {
    /// A reader of one answer.
    pub fn new(wire: WireFormat) -> Self {
        match wire {
            WireFormat::Chat => Self::Chat(chat::ChatReader::default()),
            WireFormat::Responses => Self::Responses(responses::ResponsesReader::default()),
            WireFormat::Messages => Self::Messages(messages::MessagesReader::default()),
            WireFormat::Gemini => Self::Gemini(gemini::GeminiReader::default()),
        }
    }

    /// The pieces of one more event.
    pub fn push(&mut self, event: &SseEvent) -> Result<Vec<Delta>, WireError> {
        let (wire, read) = match self {
            Self::Chat(reader) => (WireFormat::Chat, reader.push(event)),
            Self::Responses(reader) => (WireFormat::Responses, reader.push(event)),
            Self::Messages(reader) => (WireFormat::Messages, reader.push(event)),
            Self::Gemini(reader) => (WireFormat::Gemini, reader.push(event)),
        };
        read.map_err(|reason| WireError { wire, reason })
    }

    /// Whether the vendor said that and how its answer ended, as it does for one that is honestly empty too.
    pub fn is_concluded(&self) -> bool {
        match self {
            Self::Chat(reader) => reader.concluded,
            Self::Responses(reader) => reader.concluded,
            Self::Messages(reader) => reader.concluded,
            Self::Gemini(reader) => reader.concluded(),
        }
    }

    /// The stream ended: what is still owed, for wires that do not announce their end.
    pub fn finish(&mut self) -> Vec<Delta> {
        match self {
            Self::Chat(reader) => reader.finish(),
            Self::Gemini(reader) => reader.finish(),
            Self::Responses(_) | Self::Messages(_) => Vec::new(),
        }
    }
}

/// The body of an error answer.
pub fn write_error(wire: WireFormat, status: u16, kind: Option<&str>, message: &str) -> Value {
    match wire {
        WireFormat::Chat | WireFormat::Responses => {
            let kind = kind.unwrap_or(match status {
                401 | 403 => "authentication_error",
                429 => "rate_limit_error",
                500.. => "server_error",
                _ => "invalid_request_error",
            });
            json!({"error": {"message": message, "type": kind, "param": null, "code": kind}})
        }
        WireFormat::Messages => {
            let kind = kind.unwrap_or(match status {
                401 => "authentication_error",
                403 => "permission_error",
                404 => "not_found_error",
                413 => "request_too_large",
                429 => "rate_limit_error",
                529 => "overloaded_error",
                500.. => "api_error",
                _ => "invalid_request_error",
            });
            json!({"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_scripted"})
        }
        WireFormat::Gemini => {
            let kind = kind.unwrap_or(match status {
                401 => "UNAUTHENTICATED",
                403 => "PERMISSION_DENIED",
                404 => "NOT_FOUND",
                429 => "RESOURCE_EXHAUSTED",
                503 => "UNAVAILABLE",
                500.. => "INTERNAL",
                _ => "INVALID_ARGUMENT",
            });
            json!({"error": {"code": status, "message": message, "status": kind}})
        }
    }
}

/// The kind and message of an error answer, of any vendor. Some vendors say in every answer that there was no error.
pub fn read_error(body: &Value) -> Option<(String, String)> {
    let body = body.as_array().and_then(|list| list.first()).unwrap_or(body);
    let error = body.get("error").filter(|error| !error.is_null())?;
    if let Some(text) = error.as_str() {
        return Some((String::new(), text.to_owned()));
    }
    let kind = ["type", "status", "code"].iter().find_map(|name| error[*name].as_str()).unwrap_or_default();
    Some((kind.to_owned(), error["message"].as_str().unwrap_or_default().to_owned()))
}

/// The text of any content shape: a string, a list of parts, a part.
fn flat(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(list) => {
            let texts = list.iter().map(flat).filter(|text| !text.is_empty());
            texts.collect::<Vec<_>>().join("\n")
        }
        Value::Object(map) => match map.get("text").and_then(Value::as_str) {
            Some(text) => text.to_owned(),
            None => ["content", "output", "parts"]
                .iter()
                .find_map(|name| map.get(*name))
                .map(flat)
                .unwrap_or_default(),
        },
        _ => String::new(),
    }
}

fn text_of<'v>(value: &'v Value, name: &str) -> &'v str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// The same of what a model says. A number there is no other way to say something: whoever sends it is no vendor.
fn said<'v>(value: &'v Value, name: &str) -> Result<&'v str, WireFlaw> {
    match value.get(name) {
        Some(Value::Number(_) | Value::Bool(_)) => Err(WireFlaw::NotAText(name.to_owned())),
        _ => Ok(text_of(value, name)),
    }
}

fn join(into: &mut String, more: &str) {
    if !more.is_empty() {
        if !into.is_empty() {
            into.push('\n');
        }
        into.push_str(more);
    }
}
