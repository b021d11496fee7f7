//! What a test does, in words: one line per step.

mod client;

use crate::json::Json;
use crate::program::{Envelope, Expect, FileWant, MessageKind, Program, RawBytes, Step, StepKind};
use acp_rules::ClaimId;
use serde_json::Value;

impl Program {
    /// What the test does, one line per step, in the order of the file.
    pub fn outline(&self) -> Vec<String> {
        let mut lines = Vec::new();
        outline(&self.steps, "", &mut lines);
        lines
    }
}

fn outline(steps: &[Step], indent: &str, lines: &mut Vec<String>) {
    for step in steps {
        lines.push(format!("{indent}{}{}", words(&step.kind), shown(&step.marks.shows)));
        match &step.kind {
            StepKind::Expect(expect) => messages(expect, indent, lines),
            StepKind::Repeat { steps, .. } => outline(steps, &format!("{indent}  "), lines),
            _ => {}
        }
        if let Some(unless) = &step.unless {
            lines.push(format!("{indent}  otherwise not reached: {unless}"));
        }
    }
}

fn words(kind: &StepKind) -> String {
    match kind {
        StepKind::NewSession { mcp_servers: Some(_), .. } => "open a session with MCP servers".to_owned(),
        StepKind::NewSession { .. } => "open a session".to_owned(),
        StepKind::Send { frame, expect_error } => {
            let wish = if *expect_error { ", which must be refused" } else { "" };
            format!("send {}{wish}", frame_words(frame))
        }
        StepKind::Expect(expect) => format!("expect, within {} ms:", expect.timeout.as_millis()),
        StepKind::Forbid { methods, messages, .. } => {
            let mut what = methods.clone();
            what.extend(messages.iter().map(envelope_words));
            format!("nothing of this may come: {}", what.join(", "))
        }
        StepKind::Delay(time) => format!("wait {} ms", time.as_millis()),
        StepKind::Raw(RawBytes::Text(text)) => format!("write the bytes {:?}", short(text)),
        StepKind::Raw(RawBytes::Bytes(bytes)) => format!("write {} bytes as they are", bytes.len()),
        StepKind::Close => "end the agent's input".to_owned(),
        StepKind::Restart => "stop the agent and start it again".to_owned(),
        StepKind::Reconnect => "open a new connection".to_owned(),
        StepKind::PauseRead(time) => format!("read nothing for {} ms", time.as_millis()),
        StepKind::Repeat { times, .. } => format!("{times} times:"),
        StepKind::ExpectExit { code: Some(code), .. } => format!("expect the agent to end with code {code}"),
        StepKind::ExpectExit { .. } => "expect the agent to end".to_owned(),
        StepKind::ExpectFile { path, want, .. } => match want {
            FileWant::Absent => format!("expect that there is no file {path}"),
            FileWant::Present => format!("expect the file {path}"),
            FileWant::Exact(_) | FileWant::Bytes(_) => {
                format!("expect exactly certain bytes in the file {path}")
            }
            FileWant::Text(_) => format!("expect certain text in the file {path}"),
        },
        StepKind::ExpectMcp { call, absent, .. } => {
            let what = call.get("tool").or_else(|| call.get("method")).and_then(Json::as_text).unwrap_or("");
            let seen = if *absent { "does not see" } else { "sees" };
            format!("expect that the MCP server {seen} {}", plain(what))
        }
        StepKind::Client(step) => client::words(step),
        StepKind::Unknown(name) => format!("{name:?}, which is not understood"),
    }
}

fn messages(expect: &Expect, indent: &str, lines: &mut Vec<String>) {
    for message in &expect.messages {
        let alternatives = message
            .alternatives
            .iter()
            .filter(|envelope| envelope.breaks.is_empty() && envelope.inconclusive.is_none());
        let what: Vec<String> = alternatives.map(envelope_words).collect();
        let times = if message.times > 1 { format!(", {} times", message.times) } else { String::new() };
        let optional = if message.optional { ", if it comes" } else { "" };
        let shows = shown(&message.marks.shows);
        lines.push(format!("{indent}  {}{times}{optional}{shows}", what.join(" or ")));
        for envelope in &message.alternatives {
            if !envelope.breaks.is_empty() {
                let ids: Vec<&str> = envelope.breaks.iter().map(ClaimId::as_str).collect();
                lines.push(format!(
                    "{indent}    or {}, which breaks {}",
                    envelope_words(envelope),
                    ids.join(", ")
                ));
            }
            if let Some(reason) = &envelope.inconclusive {
                lines.push(format!(
                    "{indent}    or {}, which says nothing: {reason}",
                    envelope_words(envelope)
                ));
            }
        }
    }
}

fn envelope_words(envelope: &Envelope) -> String {
    let method = envelope.pattern.get("method").and_then(Value::as_str).map(plain).unwrap_or_default();
    let id = envelope.pattern.get("id").map(|id| format!(" to request {id}")).unwrap_or_default();
    match envelope.kind {
        MessageKind::Response if envelope.pattern.get("error").is_some() => format!("an error in answer{id}"),
        MessageKind::Response if envelope.pattern.get("result").is_some() => {
            format!("a result in answer{id}")
        }
        MessageKind::Response => format!("an answer{id}"),
        MessageKind::Notification => {
            let kind = envelope.pattern.pointer("/params/update/sessionUpdate").and_then(Value::as_str);
            let kind = kind.map(|kind| format!(" ({})", plain(kind))).unwrap_or_default();
            format!("the notification {method}{kind}")
        }
        MessageKind::ClientRequest => format!("the request {method}"),
    }
}

/// A frame of a test in a few words.
pub(crate) fn frame_words(frame: &Json) -> String {
    if frame.as_list().is_some() {
        return "a batch".to_owned();
    }
    match (frame.get("method").and_then(Json::as_text), frame.get("id")) {
        (Some(method), Some(id)) => format!("{method} (request {})", id.to_value()),
        (Some(method), None) => format!("{method} (a notification)"),
        _ => format!("the frame {}", short(&frame.to_value().to_string())),
    }
}

fn shown(claims: &[ClaimId]) -> String {
    if claims.is_empty() {
        return String::new();
    }
    let ids: Vec<&str> = claims.iter().map(ClaimId::as_str).collect();
    format!("  [shows {}]", ids.join(", "))
}

fn plain(pattern: &str) -> &str {
    pattern.trim_start_matches('^').trim_end_matches('$')
}

fn short(text: &str) -> String {
    const SHOWN: usize = 80;
    let start: String = text.chars().take(SHOWN).collect();
    if start.len() < text.len() { format!("{start}…") } else { start }
}

#[cfg(test)]
mod tests {
    use crate::{Defaults, Program};

    #[test]
    fn an_outline_says_what_happens_and_what_it_shows() {
        let text = r#"{ "title": "T", "description": "D", "severity": "required", "requirements": ["CAN-01"], "steps": [
            { "newSession": {} },
            { "send": { "jsonrpc": "2.0", "id": 2, "method": "session/prompt" } },
            { "expect": { "timeoutMs": 500, "messages": [
                { "notification": { "method": "^session/update$", "params": { "update": { "sessionUpdate": "^plan$" } } }, "optional": true },
                { "response": { "id": 2, "result": {} }, "shows": ["CAN-01"],
                  "accepts": [{ "response": { "id": 2, "error": {} }, "inconclusive": "too late" }] }
            ] }, "unless": "it never came" },
            { "expectFile": { "path": "x", "absent": true }, "shows": ["CAN-01"] } ] }"#;
        let program = Program::read("t.jsont", text, &Defaults::default()).program.unwrap();
        let wanted = [
            "open a session",
            "send session/prompt (request 2)",
            "expect, within 500 ms:",
            "  the notification session/update (plan), if it comes",
            "  a result in answer to request 2  [shows CAN-01]",
            "    or an error in answer to request 2, which says nothing: too late",
            "  otherwise not reached: it never came",
            "expect that there is no file x  [shows CAN-01]",
        ];
        assert_eq!(program.outline(), wanted);
    }
}
