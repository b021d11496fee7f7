//! `--format json`: one object per line, for scripts.

use std::io::{self, Write};

use acp_host::{DecisionRecord, TurnUpdate};
use acp_rpc::Frame;
use serde_json::{Value, json};

/// Writes one object as a line and flushes it.
pub fn line(out: &mut impl Write, value: &Value) -> io::Result<()> {
    writeln!(out, "{}", acp_text::json(&value.to_string()))?;
    out.flush()
}

/// The session that the updates belong to.
pub fn session(id: &str) -> Value {
    json!({"type": "session", "sessionId": id})
}

/// An update, as the agent sent it.
pub fn update(update: &TurnUpdate) -> Value {
    typed("update", params(&update.frame))
}

/// A decision of the client.
pub fn decision(record: &DecisionRecord) -> Value {
    json!({
        "type": "decision",
        "method": record.method,
        "sessionId": record.session,
        "subject": record.subject,
        "verdict": record.verdict.as_str(),
        "reason": record.reason,
    })
}

/// The end of a turn: the whole result of the prompt.
pub fn end(response: &Frame) -> Value {
    let result =
        response.result().and_then(|text| serde_json::from_str::<Value>(text).ok()).unwrap_or_default();
    typed("end", result)
}

/// What went wrong.
pub fn error(message: &str) -> Value {
    json!({"type": "error", "message": message})
}

/// An object that says first what it is.
fn typed(kind: &str, members: Value) -> Value {
    let mut value = json!({"type": kind});
    if let (Value::Object(all), Value::Object(members)) = (&mut value, members) {
        all.extend(members);
    }
    value
}

fn params(frame: &Frame) -> Value {
    frame.params().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}
