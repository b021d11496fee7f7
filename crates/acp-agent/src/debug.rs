//! The debug lines on standard error.

use std::collections::HashMap;
use std::time::Instant;

use acp_proto::{join, method, tool_status, update};
use acp_rpc::{Frame, Pending, Reply, View};
use serde_json::Value;

/// Says what happens, one line each; silent unless it was asked for.
pub(crate) struct Debug {
    on: bool,
    /// The methods of the client's open requests.
    asked: Pending<String>,
    calls: HashMap<String, (String, Instant)>,
}

impl Debug {
    pub(crate) fn new(on: bool) -> Self {
        let debug = Self { on, asked: Pending::default(), calls: HashMap::new() };
        debug.say("Server started");
        debug
    }

    fn say(&self, line: &str) {
        if self.on {
            eprintln!("[ACP] {}", acp_text::line(line));
        }
    }

    /// A frame of the client, in its own form.
    pub(crate) fn received(&mut self, frame: &Frame) {
        if !self.on {
            return;
        }
        match frame.view() {
            View::Request { id, method, .. } => {
                let _ = self.asked.replace(id, method.to_owned());
                self.say(&format!("Received: {method}"));
            }
            View::Notification { method, .. } => self.say(&format!("Received: {method}")),
            View::Response { .. } => {}
            View::Batch(frames) => self.say(&format!("Received: a batch of {}", frames.len())),
            View::Malformed(flaw) => self.say(&format!("Received: something malformed ({flaw})")),
        }
    }

    /// An update of the agent, in canonical form.
    pub(crate) fn told(&mut self, frame: &Frame) {
        if !self.on || frame.method() != Some(method::SESSION_UPDATE) {
            return;
        }
        let Some(params) = frame.params().filter(|params| params.contains(join!("\"", update::TOOL_CALL)))
        else {
            return;
        };
        let Ok(params) = serde_json::from_str::<Value>(params) else { return };
        let update = &params["update"];
        let (Some(id), Some(status)) = (update["toolCallId"].as_str(), update["status"].as_str()) else {
            return;
        };
        let ended = matches!(status, tool_status::COMPLETED | tool_status::FAILED);
        let name = update["name"].as_str().or(update["title"].as_str()).unwrap_or("tool").to_owned();
        // A call that begins at its end is told again.
        if ended && update["sessionUpdate"] == update::TOOL_CALL {
            return self.say(&format!("Tool call: {name} ({status}, replayed)"));
        }
        let (name, began) = self.calls.entry(id.to_owned()).or_insert_with(|| (name, Instant::now())).clone();
        if ended {
            self.calls.remove(id);
            self.say(&format!("Tool call: {name} ({status}, {}ms)", began.elapsed().as_millis()));
        } else {
            self.say(&format!("Tool call: {name} ({status})"));
        }
    }

    /// A frame that went to the client, in its own form.
    pub(crate) fn sent(&mut self, frame: &Frame) {
        if !self.on {
            return;
        }
        let View::Response { id, reply } = frame.view() else { return };
        let method = self.asked.remove(id);
        match reply {
            Reply::Error(error) => self.say(&format!("Error sent: {error}")),
            Reply::Result(result) => {
                if matches!(method.as_deref(), Some(method::SESSION_NEW | "newSession"))
                    && let Ok(result) = serde_json::from_str::<Value>(result)
                {
                    let id = result.get("sessionId").or(result.get("session_id")).and_then(Value::as_str);
                    self.say(&format!("Session created: {}", id.unwrap_or_default()));
                }
                self.say("Response sent");
            }
        }
    }
}
