//! A copy of a transcript without known secrets and the contents of files.

use std::io::{BufRead, Write};
use std::sync::LazyLock;
use std::time::Duration;

use acp_rpc::transcript::TranscriptEntry;
use regex::Regex;
use serde_json::Value;

static HOMES: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"(?:/home|/Users)/[A-Za-z0-9._-]+|/root\b|(?i:[A-Z]:\\Users\\[A-Za-z0-9._ -]+)").ok()
});

/// What stands in place of something that was taken out.
static MARK: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"\[(?:\d+ bytes )?redacted").ok());

/// Members whose text is the content of a file or the output of a command.
const CONTENTS: &[&str] = &["content", "oldText", "newText", "output", "blob", "data"];

/// What became of a transcript's lines.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct RedactionSummary {
    /// How many values were taken out.
    pub redacted: usize,
    /// The numbers, from 1, of lines that cannot be read. They are left out, because nobody knows what is in them.
    pub left_out: Vec<usize>,
}

/// Writes a copy of a transcript without known secrets and the contents of files. All of it is read first: a secret may
/// come in pieces.
pub fn redact_transcript(source: impl BufRead, sink: &mut impl Write) -> std::io::Result<RedactionSummary> {
    let mut summary = RedactionSummary::default();
    let (mut lines, mut ends) = (Vec::new(), Vec::new());
    for (number, line) in source.split(b'\n').enumerate() {
        let line = line?;
        if line.trim_ascii().is_empty() {
            continue;
        }
        let text = std::str::from_utf8(&line).ok();
        match text.and_then(read) {
            Some(read) => {
                ends.push(text.and_then(super::read::end_of).map(str::to_owned));
                lines.push(read);
            }
            None => summary.left_out.push(number + 1),
        }
    }
    redact(&mut lines);
    for ((entry, content), end) in lines.into_iter().zip(ends) {
        let line = match content {
            LineContent::Frame(frame) => frame.to_string(),
            LineContent::Text(text) => text,
        };
        let mut copy = TranscriptEntry { line: line.into(), ..entry }.to_json_line();
        // How the conversation ended stands beside its last frame.
        if let Some(end) = end.filter(|_| copy.ends_with('}')) {
            copy.pop();
            copy = format!("{copy},\"end\":{}}}", Value::from(end));
        }
        summary.redacted += MARK.as_ref().map_or(0, |mark| mark.find_iter(&copy).count());
        writeln!(sink, "{}", acp_text::json(&copy))?;
    }
    sink.flush()?;
    Ok(summary)
}

/// What a line of a transcript holds.
enum LineContent {
    Frame(Value),
    Text(String),
}

fn read(line: &str) -> Option<(TranscriptEntry, LineContent)> {
    let entry = TranscriptEntry::parse_at(line, Duration::ZERO).ok()?;
    let content = match std::str::from_utf8(&entry.line) {
        Ok(text) => {
            serde_json::from_str(text).map_or_else(|_| LineContent::Text(secrets(text)), LineContent::Frame)
        }
        Err(_) => LineContent::Text("[redacted: not text]".to_owned()),
    };
    Some((entry, content))
}

fn redact(lines: &mut [(TranscriptEntry, LineContent)]) {
    let frames = lines.iter_mut().filter_map(|(_, content)| match content {
        LineContent::Frame(frame) => Some(frame),
        LineContent::Text(_) => None,
    });
    let mut frames: Vec<&mut Value> = frames.collect();
    acp_text::redact::conversation(&mut frames);
    frames.iter_mut().for_each(|frame| value_of(frame, ""));
}

/// Takes out the contents of files and the output of commands, and with one home folder for all.
fn value_of(value: &mut Value, name: &str) {
    match value {
        Value::String(text) if CONTENTS.contains(&name) => *text = hidden(text),
        Value::String(text) => *text = secrets(text),
        Value::Array(items) => {
            items.iter_mut().for_each(|item| value_of(item, if name == "content" { "" } else { name }));
        }
        Value::Object(members) => {
            let embedded = members.contains_key("uri") && members.contains_key("text");
            for (key, member) in members.iter_mut() {
                match member {
                    Value::String(text) if embedded && key == "text" => *text = hidden(text),
                    Value::Object(_) | Value::Array(_) | Value::String(_) => value_of(member, key),
                    _ => {}
                }
            }
            if matches!(name, "rawInput" | "rawOutput") {
                hide_strings(members);
            }
        }
        _ => {}
    }
}

/// What a tool was given and gave back: nothing of it but its form.
fn hide_strings(members: &mut serde_json::Map<String, Value>) {
    for member in members.values_mut() {
        match member {
            Value::String(text) => *text = hidden(text),
            Value::Object(inner) => hide_strings(inner),
            Value::Array(items) => {
                for item in items {
                    match item {
                        Value::String(text) => *text = hidden(text),
                        Value::Object(inner) => hide_strings(inner),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
}

fn hidden(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("[{} bytes redacted]", text.len()) }
}

/// The text without secrets, and with one home folder for all. Paths stay absolute, so that the copy is judged
/// as the original is.
fn secrets(text: &str) -> String {
    let text = acp_text::redact::text(text);
    HOMES.as_ref().map_or(text.clone(), |homes| homes.replace_all(&text, "/home/user").into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redacted(line: &str) -> Option<String> {
        let mut copy = Vec::new();
        let left_out = copy_of(line, &mut copy);
        (left_out == 0).then(|| String::from_utf8(copy).expect("text").trim_end().to_owned())
    }

    fn copy_of(lines: &str, to: &mut Vec<u8>) -> usize {
        redact_transcript(lines.as_bytes(), to).expect("written").left_out.len()
    }

    #[test]
    fn a_key_in_two_chunks_is_found() {
        let chunk = |text: &str| {
            format!(
                r#"{{"t":0,"dir":"a2c","frame":{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"s","update":{{"sessionUpdate":"agent_message_chunk","content":{{"type":"text","text":"{text}"}}}}}}}}}}"#
            )
        };
        let lines = [chunk("the key is sk-abcdefgh"), chunk("ijklmnopqrstuv0123 here")].join("\n");
        let mut copy = Vec::new();
        assert_eq!(copy_of(&lines, &mut copy), 0);
        let copy = String::from_utf8(copy).expect("text");
        assert!(!copy.contains("sk-") && !copy.contains("ijkl") && copy.contains(" here"), "{copy}");
    }

    #[test]
    fn secrets_homes_and_contents_go_and_the_rest_stays() {
        let line = r#"{"t":1.5,"dir":"c2a","frame":{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/home/ada/work","mcpServers":[{"name":"x","command":"/bin/x","args":["--token","sk-abcdefghijklmnopqrstuv"],"env":[{"name":"API_KEY","value":"hunter2hunter2"}]}]}}}"#;
        let copy = redacted(line).expect("a line");
        assert!(copy.contains("/home/user/work"), "{copy}");
        for secret in ["ada", "sk-abcdef", "hunter2"] {
            assert!(!copy.contains(secret), "{secret}: {copy}");
        }
        let entry = TranscriptEntry::parse(&copy).expect("an entry");
        assert_eq!(entry.t.as_secs_f64(), 1.5);
        assert_eq!(entry.frame().method(), Some("session/new"));
    }

    #[test]
    fn file_contents_are_hidden_wherever_they_travel() {
        for frame in [
            r#"{"jsonrpc":"2.0","id":1,"result":{"content":"private text"}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"fs/write_text_file","params":{"sessionId":"s","path":"/a","content":"private text"}}"#,
            r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"tool_call","toolCallId":"t","title":"t","rawInput":{"a":["private text"]},"content":[{"type":"diff","path":"/a","newText":"private text"}]}}}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{"output":"private text","truncated":false}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"prompt":[{"type":"resource","resource":{"uri":"file:///a","text":"private text"}}]}}"#,
        ] {
            let copy = redacted(&format!(r#"{{"t":0,"dir":"a2c","frame":{frame}}}"#)).expect("a line");
            assert!(!copy.contains("private"), "{copy}");
        }
        let spoken = r#"{"t":0,"dir":"a2c","frame":{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"hello"}}}}}"#;
        assert!(redacted(spoken).expect("a line").contains("hello"));
    }
}
