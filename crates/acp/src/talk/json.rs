//! `--json`: one object per line, for scripts.

use std::io::{self, Write};

use acp_host::{Record, Update};
use acp_rpc::Frame;
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// Writes one object as a line and flushes it.
pub fn line(out: &mut impl Write, value: &Value) -> io::Result<()> {
    writeln!(out, "{value}")?;
    out.flush()
}

/// The session that the updates belong to.
pub fn session(id: &str) -> Value {
    json!({"type": "session", "sessionId": id})
}

/// An update, as the agent sent it.
pub fn update(update: &Update) -> Value {
    let mut value = params(&update.frame);
    value["type"] = json!("update");
    value
}

/// A decision of the client.
pub fn decision(record: &Record) -> Value {
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
    let result = response.result().and_then(|text| serde_json::from_str::<Value>(text).ok()).unwrap_or_default();
    let mut value = json!({"type": "end"});
    if let (Value::Object(all), Value::Object(result)) = (&mut value, result) {
        all.extend(result);
    }
    value
}

/// What went wrong.
pub fn error(message: &str) -> Value {
    json!({"type": "error", "message": message})
}

fn params(frame: &Frame) -> Value {
    let raw = frame.params().and_then(|text| serde_json::from_str::<Box<RawValue>>(text).ok());
    raw.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_else(|| json!({}))
}
