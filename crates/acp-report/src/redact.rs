//! Takes secrets and home folders out of everything that a report shows.

use std::sync::LazyLock;

use acp_comply::Results;
use regex::Regex;
use serde_json::Value;

static HOMES: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    [
        // Where a path begins.
        r"(^|[^A-Za-z0-9._~/-]|://)(?:/home|/Users)/[A-Za-z0-9._-]+",
        r"(^|[^A-Za-z0-9._~/-]|://)/root\b",
        r"(?i)()[A-Z]:\\{1,4}Users\\{1,4}[A-Za-z0-9._ -]+",
    ]
    .into_iter()
    .filter_map(|pattern| Regex::new(pattern).ok())
    .collect()
});

/// The text without secrets and home folders.
pub fn redact_text(text: &str) -> String {
    without_homes(acp_text::redact::text(text))
}

/// The results without secrets and home folders, in every text they hold.
pub fn redact_results(results: &Results) -> Result<Results, serde_json::Error> {
    let mut value = serde_json::to_value(results)?;
    for test in value["agents"].as_array_mut().into_iter().flatten() {
        for outcome in test["tests"].as_array_mut().into_iter().flatten() {
            redact_transcript(&mut outcome["transcript"]);
        }
    }
    acp_text::redact::value(&mut value);
    redact_homes(&mut value);
    serde_json::from_value(value)
}

/// The frames of a conversation, as text: read, so that names and chunks are seen.
fn redact_transcript(lines: &mut Value) {
    let lines = lines.as_array_mut().map(Vec::as_mut_slice).unwrap_or_default();
    let read = |line: &Value| serde_json::from_str(line["text"].as_str()?).ok();
    let mut frames: Vec<Option<Value>> = lines.iter().map(read).collect();
    let before = frames.clone();
    acp_text::redact::conversation(&mut frames.iter_mut().flatten().collect::<Vec<_>>());
    for ((line, frame), before) in lines.iter_mut().zip(frames).zip(before) {
        // What holds no secret stays as it was sent.
        if let Some(frame) = frame.filter(|frame| Some(frame) != before.as_ref()) {
            line["text"] = frame.to_string().into();
        }
    }
}

fn redact_homes(value: &mut Value) {
    match value {
        Value::String(text) => *text = without_homes(std::mem::take(text)),
        Value::Array(items) => items.iter_mut().for_each(redact_homes),
        Value::Object(members) => members.values_mut().for_each(redact_homes),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn without_homes(text: String) -> String {
    HOMES.iter().fold(text, |text, homes| match homes.replace_all(&text, "$1~") {
        std::borrow::Cow::Owned(changed) => changed,
        std::borrow::Cow::Borrowed(_) => text,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_compiles() {
        assert_eq!(HOMES.len(), 3);
    }

    #[test]
    fn keys_headers_and_home_folders_are_taken_out() {
        for (text, shown) in [
            ("key sk-abcdefghijklmnopqrstuv here", "key [redacted] here"),
            (r#"{"apiKey":"0123456789"}"#, r#"{"apiKey":"[redacted]"}"#),
            (r#"{\"token\":\"0123456789\"}"#, r#"{\"token\":\"[redacted]\"}"#),
            ("Authorization: Bearer abc.def-ghi12", "Authorization: Bearer [redacted]"),
            ("OPENAI_API_KEY=abcdef123456", "OPENAI_API_KEY=[redacted]"),
            ("/home/alice/project/a.txt", "~/project/a.txt"),
            ("/Users/bob/x", "~/x"),
            ("file:///home/alice/x", "file://~/x"),
            ("agent --token abcdef123456 --port 3", "agent --token [redacted] --port 3"),
            (r#"{"name":"MY_TOKEN","value":"plain"}"#, r#"{"name":"MY_TOKEN","value":"[redacted]"}"#),
        ] {
            assert_eq!(redact_text(text), shown);
        }
    }

    #[test]
    fn plain_words_stay() {
        for text in ["the token count is 12", r#"{"totalTokens":1234}"#, "/tmp/acp-1/home/x", "rootless"] {
            assert_eq!(redact_text(text), text);
        }
    }
}
