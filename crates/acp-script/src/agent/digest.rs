//! A long conversation in short: the person's words and the last answers stay, what tools said goes.

use serde_json::{Value, json};

use super::Agent;
use super::record::Digest;
use super::tools::cut;

/// How much of one message is kept.
const MESSAGE: usize = 400;
/// How much is kept in all; the oldest go first.
const WHOLE: usize = 16_000;

impl Agent {
    /// Lets the digest stand for everything so far.
    pub(super) fn digest(&mut self, session: &str) {
        let Some(open) = self.sessions.get_mut(session) else { return };
        let record = &mut open.record;
        let before = record.digest.take();
        let from = before.as_ref().map_or(0, |digest| digest.entries.min(record.history.len()));
        let mut text = before.map(|digest| digest.text).unwrap_or_default();
        text.push_str(&in_short(&record.history[from..]));
        let surplus = text.len().saturating_sub(WHOLE);
        if surplus > 0 {
            let start = text.char_indices().map(|(at, _)| at).find(|at| *at >= surplus).unwrap_or(0);
            text.drain(..start);
        }
        record.digest = Some(Digest { entries: record.history.len(), text });
        self.checkpoint(session);
    }
}

/// The digest as the first thing that was said.
pub(super) fn entry(digest: &Digest) -> Value {
    let text = format!("[What was said before, in short]\n{}", digest.text);
    json!({ "sessionUpdate": "user_message_chunk", "content": { "type": "text", "text": text } })
}

fn in_short(history: &[Value]) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut answer: Option<String> = None;
    for entry in history {
        let text = entry.pointer("/content/text").and_then(Value::as_str);
        match (entry["sessionUpdate"].as_str(), text) {
            (Some("user_message_chunk"), Some(text)) => {
                lines.extend(answer.take());
                lines.push(format!("Person: {}\n", cut(text.trim(), MESSAGE)));
            }
            (Some("agent_message_chunk"), Some(text)) => {
                answer = Some(format!("Agent: {}\n", cut(text.trim(), MESSAGE)));
            }
            _ => {}
        }
    }
    lines.extend(answer);
    lines.concat()
}
