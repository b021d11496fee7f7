//! The stream of an answer: numbered events.

use serde_json::{Value, json};

use super::{base, ended, read_stop, read_usage, seal, write_item};
use crate::sse::SseEvent;
use crate::talk::{Delta, Input, ModelCall, ModelPart, ModelRequest};
use crate::wire::{WireFlaw, said, text_of};

/// Writes numbered events: items are opened and closed as the kind of piece changes.
pub struct ResponsesWriter {
    id: String,
    model: String,
    number: u64,
    open: Option<ModelPart>,
    done: Vec<Value>,
}

impl ResponsesWriter {
    pub(in crate::wire) fn new(id: &str, request: &ModelRequest) -> Self {
        Self { id: id.to_owned(), model: request.model.clone(), number: 0, open: None, done: Vec::new() }
    }

    pub(in crate::wire) fn push(&mut self, delta: &Delta) -> Vec<SseEvent> {
        let mut events = Vec::new();
        if self.number == 0 {
            let response = base(&self.id, &self.model);
            self.event("response.created", json!({"response": response}), &mut events);
            self.event("response.in_progress", json!({"response": response}), &mut events);
        }
        match delta {
            Delta::Think(text) => {
                if !matches!(self.open, Some(ModelPart::Think(_))) {
                    self.open(ModelPart::Think(String::new()), &mut events);
                }
                self.more("response.reasoning_summary_text.delta", "summary_index", text, &mut events);
            }
            Delta::Text(text) => {
                if !matches!(self.open, Some(ModelPart::Text(_))) {
                    self.open(ModelPart::Text(String::new()), &mut events);
                }
                self.more("response.output_text.delta", "content_index", text, &mut events);
            }
            Delta::Call { id, name, namespace, free_text, .. } => {
                let empty = String::new();
                let input = if *free_text { Input::Text(empty) } else { Input::Json(Value::String(empty)) };
                let call =
                    ModelCall { id: id.clone(), name: name.clone(), namespace: namespace.clone(), input };
                self.open(ModelPart::Call(call), &mut events);
            }
            Delta::Args { text, .. } => self.args(text, &mut events),
            Delta::Seal(_) => {}
            Delta::End { stop, usage } => {
                self.close(&mut events);
                let response = ended(&self.id, &self.model, &self.done, *stop, usage);
                let name = if response["status"] == "completed" {
                    "response.completed"
                } else {
                    "response.incomplete"
                };
                self.event(name, json!({"response": response}), &mut events);
            }
            Delta::Failed { kind, message } => {
                let mut response = base(&self.id, &self.model);
                response["status"] = "failed".into();
                response["error"] = json!({"code": kind, "message": message});
                self.event("response.failed", json!({"response": response}), &mut events);
            }
        }
        events
    }

    fn event(&mut self, name: &str, fields: Value, events: &mut Vec<SseEvent>) {
        let mut data = serde_json::Map::new();
        data.insert("type".to_owned(), name.into());
        data.insert("sequence_number".to_owned(), self.number.into());
        if let Value::Object(fields) = fields {
            data.extend(fields);
        }
        self.number += 1;
        events.push(SseEvent::named(name, Value::Object(data).to_string()));
    }

    fn item_id(&self) -> String {
        let prefix = match &self.open {
            Some(ModelPart::Think(_)) => "rs",
            Some(ModelPart::Call(ModelCall { input: Input::Json(_), .. })) => "fc",
            Some(ModelPart::Call(_)) => "ctc",
            _ => "msg",
        };
        format!("{prefix}_{}_{}", self.id, self.done.len())
    }

    fn open(&mut self, part: ModelPart, events: &mut Vec<SseEvent>) {
        self.close(events);
        let mut item = write_item(&part, &self.id, self.done.len());
        match &part {
            ModelPart::Think(_) => item["summary"] = json!([]),
            ModelPart::Text(_) => item["content"] = json!([]),
            ModelPart::Call(ModelCall { input: Input::Json(_), .. }) => item["arguments"] = "".into(),
            ModelPart::Call(_) | ModelPart::Seal(_) => {}
        }
        if item.get("status").is_some() {
            item["status"] = "in_progress".into();
        }
        let index = self.done.len();
        self.event("response.output_item.added", json!({"output_index": index, "item": item}), events);
        self.open = Some(part);
        let id = self.item_id();
        match &self.open {
            Some(ModelPart::Think(_)) => {
                let part = json!({"type": "summary_text", "text": ""});
                self.event(
                    "response.reasoning_summary_part.added",
                    json!({"item_id": id, "output_index": index, "summary_index": 0, "part": part}),
                    events,
                );
            }
            Some(ModelPart::Text(_)) => {
                let part = json!({"type": "output_text", "text": "", "annotations": [], "logprobs": []});
                self.event(
                    "response.content_part.added",
                    json!({"item_id": id, "output_index": index, "content_index": 0, "part": part}),
                    events,
                );
            }
            _ => {}
        }
    }

    fn more(&mut self, name: &str, place: &str, text: &str, events: &mut Vec<SseEvent>) {
        if let Some(ModelPart::Think(whole) | ModelPart::Text(whole)) = &mut self.open {
            whole.push_str(text);
        }
        let mut fields =
            json!({"item_id": self.item_id(), "output_index": self.done.len(), place: 0, "delta": text});
        if name == "response.output_text.delta" {
            fields["logprobs"] = json!([]);
        }
        self.event(name, fields, events);
    }

    fn args(&mut self, text: &str, events: &mut Vec<SseEvent>) {
        let name = match &mut self.open {
            Some(ModelPart::Call(ModelCall { input: Input::Json(Value::String(whole)), .. })) => {
                whole.push_str(text);
                "response.function_call_arguments.delta"
            }
            Some(ModelPart::Call(ModelCall { input: Input::Text(whole), .. })) => {
                whole.push_str(text);
                "response.custom_tool_call_input.delta"
            }
            _ => return,
        };
        let fields = json!({"item_id": self.item_id(), "output_index": self.done.len(), "delta": text});
        self.event(name, fields, events);
    }

    fn close(&mut self, events: &mut Vec<SseEvent>) {
        let id = self.item_id();
        let Some(part) = self.open.take() else { return };
        let index = self.done.len();
        let at = json!({"item_id": id, "output_index": index});
        let with = |more: Value| {
            let mut fields = at.clone();
            for (name, value) in more.as_object().into_iter().flatten() {
                fields[name] = value.clone();
            }
            fields
        };
        let mut item = write_item(&part, &self.id, index);
        match &part {
            ModelPart::Think(text) => {
                self.event(
                    "response.reasoning_summary_text.done",
                    with(json!({"summary_index": 0, "text": text})),
                    events,
                );
                let part = item["summary"][0].clone();
                self.event(
                    "response.reasoning_summary_part.done",
                    with(json!({"summary_index": 0, "part": part})),
                    events,
                );
            }
            ModelPart::Text(text) => {
                self.event(
                    "response.output_text.done",
                    with(json!({"content_index": 0, "text": text, "logprobs": []})),
                    events,
                );
                let part = item["content"][0].clone();
                self.event(
                    "response.content_part.done",
                    with(json!({"content_index": 0, "part": part})),
                    events,
                );
            }
            ModelPart::Call(ModelCall { input: Input::Json(Value::String(args)), name, .. }) => {
                item["arguments"] = args.clone().into();
                self.event(
                    "response.function_call_arguments.done",
                    with(json!({"arguments": args, "name": name})),
                    events,
                );
            }
            ModelPart::Seal(_) => {}
            ModelPart::Call(call) => {
                self.event(
                    "response.custom_tool_call_input.done",
                    with(json!({"input": call.input.text()})),
                    events,
                );
            }
        }
        self.event("response.output_item.done", json!({"output_index": index, "item": item}), events);
        self.done.push(item);
    }
}

/// Reads numbered events.
#[derive(Default)]
pub struct ResponsesReader {
    pub(in crate::wire) concluded: bool,
    calls: usize,
    call_of_item: std::collections::HashMap<u64, usize>,
}

impl ResponsesReader {
    pub(in crate::wire) fn push(&mut self, event: &SseEvent) -> Result<Vec<Delta>, WireFlaw> {
        if event.data.trim() == "[DONE]" {
            return Ok(Vec::new());
        }
        let data: Value = serde_json::from_str(&event.data)
            .map_err(|error| WireFlaw::NotJson { piece: "an event", error })?;
        let place = data["output_index"].as_u64().unwrap_or(0);
        let delta = || said(&data, "delta").map(str::to_owned);
        let deltas = match text_of(&data, "type") {
            "response.output_text.delta" | "response.refusal.delta" => vec![Delta::Text(delta()?)],
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                vec![Delta::Think(delta()?)]
            }
            "response.output_item.added" => self.begin(place, &data["item"]),
            "response.output_item.done" => seal(&data["item"]).map(Delta::Seal).into_iter().collect(),
            "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta" => {
                let index = *self.call_of_item.get(&place).ok_or(WireFlaw::StrayArguments("a call"))?;
                vec![Delta::Args { index, text: delta()? }]
            }
            "response.completed" | "response.incomplete" => {
                let response = &data["response"];
                self.concluded = response.is_object();
                vec![Delta::End {
                    stop: read_stop(response, self.calls > 0),
                    usage: read_usage(&response["usage"]),
                }]
            }
            "response.failed" => {
                let error = &data["response"]["error"];
                vec![Delta::Failed {
                    kind: text_of(error, "code").to_owned(),
                    message: text_of(error, "message").to_owned(),
                }]
            }
            "error" => vec![Delta::Failed {
                kind: text_of(&data, "code").to_owned(),
                message: text_of(&data, "message").to_owned(),
            }],
            _ => Vec::new(),
        };
        Ok(deltas)
    }

    fn begin(&mut self, place: u64, item: &Value) -> Vec<Delta> {
        let kind = text_of(item, "type");
        if kind != "function_call" && kind != "custom_tool_call" {
            return Vec::new();
        }
        let index = self.calls;
        self.calls += 1;
        self.call_of_item.insert(place, index);
        vec![Delta::Call {
            index,
            id: text_of(item, "call_id").to_owned(),
            name: text_of(item, "name").to_owned(),
            namespace: item["namespace"].as_str().map(str::to_owned),
            free_text: kind == "custom_tool_call",
        }]
    }
}
