//! What a turn amounts to: its text, weighed, and the files that it left.

use acp_proto::update;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::event::{TurnEnd, raw};

/// At most so many files of a turn are named.
const MOST_FILES: usize = 1000;

/// A running turn.
#[derive(Debug, Default, Clone)]
pub struct Tally {
    length: u64,
    digest: Sha256,
    files: Vec<Value>,
}

impl Tally {
    /// More of the agent's text.
    pub fn text(&mut self, text: &str) {
        self.length += text.len() as u64;
        self.digest.update(text.as_bytes());
    }

    /// An update that is no plain text. It may hold text all the same, and files.
    pub fn update(&mut self, update: &str) {
        let Ok(update) = serde_json::from_str::<Value>(update) else { return };
        match update["sessionUpdate"].as_str() {
            Some(update::AGENT_MESSAGE_CHUNK) => match update["content"]["type"].as_str() {
                Some("text") => {
                    if let Some(text) = update["content"]["text"].as_str() {
                        self.text(text);
                    }
                }
                Some("resource_link") => {
                    let link = &update["content"];
                    self.file(json!({ "uri": link["uri"], "name": link["name"] }));
                }
                _ => {}
            },
            Some(update::TOOL_CALL | update::TOOL_CALL_UPDATE) => {
                let content = update["content"].as_array().into_iter().flatten();
                for diff in content.filter(|part| part["type"] == "diff") {
                    self.file(json!({ "path": diff["path"] }));
                }
            }
            _ => {}
        }
    }

    /// The agent had a file written.
    pub fn wrote(&mut self, params: Option<&str>) {
        let params = params.and_then(|params| serde_json::from_str::<Value>(params).ok());
        if let Some(path) = params.as_ref().and_then(|params| params["path"].as_str()) {
            self.file(json!({ "path": path }));
        }
    }

    /// The end of the turn.
    #[must_use]
    pub fn end(
        self,
        stop_reason: String,
        result: Option<Box<RawValue>>,
        error: Option<Box<RawValue>>,
    ) -> TurnEnd {
        let told = result.as_deref().map(told_artifacts).unwrap_or_default();
        let artifacts = if told.is_empty() { self.files } else { told };
        TurnEnd {
            stop_reason,
            length: self.length,
            sha256: hex(&self.digest.finalize()),
            result,
            error,
            artifacts: artifacts.iter().map(raw).collect(),
        }
    }

    fn file(&mut self, file: Value) {
        if self.files.len() < MOST_FILES && !self.files.contains(&file) {
            self.files.push(file);
        }
    }
}

/// Artifacts that the answer itself names, in its own field or where a translation has put them.
fn told_artifacts(result: &RawValue) -> Vec<Value> {
    let Ok(result) = serde_json::from_str::<Value>(result.get()) else { return Vec::new() };
    let carried = result["_meta"].as_object().into_iter().flat_map(serde_json::Map::values);
    let places = [&result].into_iter().chain(carried);
    places.filter_map(|place| place.get("artifacts")?.as_array()).flatten().cloned().collect()
}

/// Bytes in hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
