//! The stream of an answer: named events.

use serde_json::{Value, json};

use super::{SIGNATURE, read_stop, read_usage, seal, stop_word, write_usage};
use crate::sse::SseEvent;
use crate::talk::{Delta, ModelRequest, ModelStop, Usage};
use crate::wire::{WireFlaw, said, text_of};

#[derive(Clone, Copy, PartialEq)]
enum Block {
    Think,
    Text,
    Call,
}

/// Writes named events: blocks are opened and closed as the kind of piece changes.
pub struct MessagesWriter {
    id: String,
    model: String,
    started: bool,
    open: Option<Block>,
    index: usize,
}

impl MessagesWriter {
    pub(in crate::wire) fn new(id: &str, request: &ModelRequest) -> Self {
        Self { id: id.to_owned(), model: request.model.clone(), started: false, open: None, index: 0 }
    }

    pub(in crate::wire) fn push(&mut self, delta: &Delta) -> Vec<SseEvent> {
        let mut events = Vec::new();
        if let Delta::Failed { kind, message } = delta {
            return vec![event("error", json!({"error": {"type": kind, "message": message}}))];
        }
        if !std::mem::replace(&mut self.started, true) {
            events.push(self.start());
            events.push(event("ping", json!({})));
        }
        match delta {
            Delta::Think(text) => {
                self.open(
                    Block::Think,
                    || json!({"type": "thinking", "thinking": "", "signature": ""}),
                    &mut events,
                );
                events.push(self.delta(&json!({"type": "thinking_delta", "thinking": text})));
            }
            Delta::Text(text) => {
                self.open(Block::Text, || json!({"type": "text", "text": ""}), &mut events);
                events.push(self.delta(&json!({"type": "text_delta", "text": text})));
            }
            Delta::Call { id, name, .. } => {
                self.close(&mut events);
                self.open(
                    Block::Call,
                    || json!({"type": "tool_use", "id": id, "name": name, "input": {}}),
                    &mut events,
                );
            }
            Delta::Args { text, .. } => {
                events.push(self.delta(&json!({"type": "input_json_delta", "partial_json": text})));
            }
            Delta::End { stop, usage } => {
                self.close(&mut events);
                let why = json!({"stop_reason": stop_word(*stop), "stop_sequence": null});
                events.push(event("message_delta", json!({"delta": why, "usage": write_usage(usage)})));
                events.push(event("message_stop", json!({})));
            }
            Delta::Seal(_) | Delta::Failed { .. } => {}
        }
        events
    }

    fn start(&self) -> SseEvent {
        let usage = write_usage(&Usage { output: 1, ..Usage::default() });
        let message = json!({
            "id": self.id, "type": "message", "role": "assistant", "model": self.model, "content": [],
            "stop_reason": null, "stop_sequence": null, "usage": usage,
        });
        event("message_start", json!({"message": message}))
    }

    fn open(&mut self, kind: Block, content: impl FnOnce() -> Value, events: &mut Vec<SseEvent>) {
        if self.open == Some(kind) && kind != Block::Call {
            return;
        }
        self.close(events);
        self.open = Some(kind);
        events.push(event("content_block_start", json!({"index": self.index, "content_block": content()})));
    }

    fn close(&mut self, events: &mut Vec<SseEvent>) {
        let Some(kind) = self.open.take() else { return };
        if kind == Block::Think {
            events.push(self.delta(&json!({"type": "signature_delta", "signature": SIGNATURE})));
        }
        events.push(event("content_block_stop", json!({"index": self.index})));
        self.index += 1;
    }

    fn delta(&self, delta: &Value) -> SseEvent {
        event("content_block_delta", json!({"index": self.index, "delta": delta}))
    }
}

/// A named event, whose name is also its `type`.
fn event(name: &str, fields: Value) -> SseEvent {
    let mut data = serde_json::Map::new();
    data.insert("type".to_owned(), name.into());
    if let Value::Object(fields) = fields {
        data.extend(fields);
    }
    SseEvent::named(name, Value::Object(data).to_string())
}

/// Reads named events.
#[derive(Default)]
pub struct MessagesReader {
    usage: Usage,
    stop: ModelStop,
    pub(in crate::wire) concluded: bool,
    calls: usize,
    call_of_block: std::collections::HashMap<u64, usize>,
    thinking: Option<Value>,
}

impl MessagesReader {
    pub(in crate::wire) fn push(&mut self, event: &SseEvent) -> Result<Vec<Delta>, WireFlaw> {
        let data: Value = serde_json::from_str(&event.data)
            .map_err(|error| WireFlaw::NotJson { piece: "an event", error })?;
        let block = data["index"].as_u64().unwrap_or(0);
        let one = |delta| Ok(vec![delta]);
        match text_of(&data, "type") {
            "message_start" => read_usage(&data["message"]["usage"], &mut self.usage),
            "content_block_start" => {
                let content = &data["content_block"];
                if text_of(content, "type") == "tool_use" {
                    let index = self.calls;
                    self.calls += 1;
                    self.call_of_block.insert(block, index);
                    return one(Delta::Call {
                        index,
                        id: text_of(content, "id").to_owned(),
                        name: text_of(content, "name").to_owned(),
                        namespace: None,
                        free_text: false,
                    });
                }
                if text_of(content, "type").ends_with("thinking") {
                    self.thinking = Some(content.clone());
                }
                let text = text_of(content, "text");
                if !text.is_empty() {
                    return one(Delta::Text(text.to_owned()));
                }
            }
            "content_block_delta" => {
                let delta = &data["delta"];
                match text_of(delta, "type") {
                    "text_delta" => return one(Delta::Text(said(delta, "text")?.to_owned())),
                    "thinking_delta" => {
                        self.grow("thinking", delta);
                        return one(Delta::Think(text_of(delta, "thinking").to_owned()));
                    }
                    "signature_delta" => self.grow("signature", delta),
                    "input_json_delta" => {
                        let index = self
                            .call_of_block
                            .get(&block)
                            .copied()
                            .ok_or(WireFlaw::StrayArguments("a tool_use block"))?;
                        return one(Delta::Args { index, text: text_of(delta, "partial_json").to_owned() });
                    }
                    _ => {}
                }
            }
            "content_block_stop" => {
                let sealed = self.thinking.take().and_then(|block| seal(&block));
                return Ok(sealed.map(Delta::Seal).into_iter().collect());
            }
            "message_delta" => {
                self.stop = read_stop(text_of(&data["delta"], "stop_reason"));
                self.concluded |= data["delta"]["stop_reason"].is_string();
                read_usage(&data["usage"], &mut self.usage);
            }
            "message_stop" => return one(Delta::End { stop: self.stop, usage: self.usage }),
            "error" => {
                let (kind, message) = crate::wire::read_error(&data).unwrap_or_default();
                return one(Delta::Failed { kind, message });
            }
            _ => {}
        }
        Ok(Vec::new())
    }

    /// More of the thinking block that is open.
    fn grow(&mut self, name: &str, delta: &Value) {
        if let Some(block) = &mut self.thinking {
            block[name] = format!("{}{}", text_of(block, name), text_of(delta, name)).into();
        }
    }
}
