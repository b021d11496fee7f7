//! Takes secrets and home folders out of everything that a report shows.

use std::sync::LazyLock;

use acp_comply::Results;
use regex::Regex;
use serde_json::Value;

const HIDDEN: &str = "[redacted]";

static SECRETS: LazyLock<Vec<(Regex, &'static str)>> = LazyLock::new(|| {
    [
        // Keys by the shapes that vendors give them.
        (r"\b(?:sk|pk|rk)-[A-Za-z0-9_-]{16,}", HIDDEN),
        (r"\bgh[pousr]_[A-Za-z0-9]{20,}", HIDDEN),
        (r"\bgithub_pat_[A-Za-z0-9_]{20,}", HIDDEN),
        (r"\bxox[abposr]-[A-Za-z0-9-]{10,}", HIDDEN),
        (r"\bAKIA[0-9A-Z]{16}\b", HIDDEN),
        (r"\bAIza[0-9A-Za-z_-]{30,}", HIDDEN),
        (r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}", HIDDEN),
        (r"(?i)\b(bearer|basic)\s+[A-Za-z0-9+/_.=-]{8,}", "$1 [redacted]"),
        // Members and headers whose name says that the value is secret, quotes escaped or not.
        (
            r#"(?i)(\\*"[a-z0-9_.-]*(?:api[_-]?key|access[_-]?key|token|secret|password|passwd|authorization|credential)s?\\*"\s*:\s*\\*"(?:(?:bearer|basic)\s+)?)[^"\\]{4,}"#,
            "$1[redacted]",
        ),
        (
            r#"(?i)(\\*"name\\*"\s*:\s*\\*"[a-z0-9_]*(?:key|token|secret|password|passwd|credential)[a-z0-9_]*\\*"\s*,\s*\\*"value\\*"\s*:\s*\\*")[^"\\]+"#,
            "$1[redacted]",
        ),
        (
            r#"(?i)\b((?:[a-z0-9_]*(?:api_?key|token|secret|password)|authorization)\s*[=:]\s*(?:(?:bearer|basic)\s+)?)[^\s"'\\,;}]{6,}"#,
            "$1[redacted]",
        ),
        (r"(?i)(--?[a-z0-9-]*(?:api-?key|token|secret|password)[= ]+)[^\s-][^\s]{3,}", "$1[redacted]"),
        // Home folders, where a path begins.
        (r"(^|[^A-Za-z0-9._~/-]|://)(?:/home|/Users)/[A-Za-z0-9._-]+", "$1~"),
        (r"(^|[^A-Za-z0-9._~/-]|://)/root\b", "$1~"),
        (r"(?i)[A-Z]:\\{1,4}Users\\{1,4}[A-Za-z0-9._ -]+", "~"),
    ]
    .into_iter()
    .filter_map(|(pattern, with)| Regex::new(pattern).ok().map(|regex| (regex, with)))
    .collect()
});

/// The text without secrets and home folders.
pub fn redact_text(text: &str) -> String {
    let mut text = text.to_owned();
    for (regex, with) in SECRETS.iter() {
        if let std::borrow::Cow::Owned(changed) = regex.replace_all(&text, *with) {
            text = changed;
        }
    }
    text
}

/// The results without secrets and home folders, in every text they hold.
pub fn redact_results(results: &Results) -> Result<Results, serde_json::Error> {
    let mut value = serde_json::to_value(results)?;
    redact_value(&mut value);
    serde_json::from_value(value)
}

fn redact_value(value: &mut Value) {
    match value {
        Value::String(text) => *text = redact_text(text),
        Value::Array(items) => items.iter_mut().for_each(redact_value),
        Value::Object(members) => {
            let names_a_secret = members.get("name").and_then(Value::as_str).is_some_and(is_secret_name);
            for (key, member) in members.iter_mut() {
                match member {
                    Value::String(text) if is_secret_name(key) || (names_a_secret && key == "value") => {
                        HIDDEN.clone_into(text);
                    }
                    _ => redact_value(member),
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Whether a member or a variable of this name holds a secret.
fn is_secret_name(name: &str) -> bool {
    let name: String =
        name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
    ["apikey", "accesskey", "token", "secret", "password", "passwd", "authorization", "credential"]
        .into_iter()
        .any(|word| name.ends_with(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_compiles() {
        assert_eq!(SECRETS.len(), 15);
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
    fn members_with_a_secret_name_are_taken_out_of_values() {
        let mut value = serde_json::json!({
            "apiKey": "abc", "env": [{ "name": "X_TOKEN", "value": "abc" }, { "name": "LANG", "value": "C" }], "token": 5
        });
        redact_value(&mut value);
        assert_eq!(
            value,
            serde_json::json!({
                "apiKey": HIDDEN, "env": [{ "name": "X_TOKEN", "value": HIDDEN }, { "name": "LANG", "value": "C" }], "token": 5
            })
        );
    }

    #[test]
    fn plain_words_stay() {
        for text in ["the token count is 12", r#"{"totalTokens":1234}"#, "/tmp/acp-1/home/x", "rootless"] {
            assert_eq!(redact_text(text), text);
        }
    }
}
