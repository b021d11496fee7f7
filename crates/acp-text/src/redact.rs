//! Secrets are taken out of what is copied, shared or reported.
//!
//! Three ways, from the surest to the weakest: by the *name* of what holds it (a variable, a header, a member, a flag), by
//! its *shape* (the key formats of vendors, PEM blocks, JSON Web Tokens, passwords in addresses), and by its *entropy* in
//! places where secrets stand. A secret in free prose that looks like words is not found.

mod entropy;
mod names;
mod shapes;

use std::collections::BTreeMap;
use std::ops::Range;

use serde_json::{Map, Value};

use entropy::is_random;
pub use names::is_secret;
use names::{is_harmless, is_secret_flag, may_be_random};

/// Stands where a secret was.
pub const HIDDEN: &str = "[redacted]";

/// The text without secrets.
#[must_use]
pub fn text(text: &str) -> String {
    let mut copy = [text.to_owned()];
    joined(&mut copy);
    let [copy] = copy;
    copy
}

/// Takes secrets out of text that was cut into pieces: one that begins in a piece and ends in another is found, too.
pub fn joined(parts: &mut [String]) {
    let whole: String = parts.concat();
    let secrets = shapes::find(&whole);
    if secrets.is_empty() {
        return;
    }
    let mut from = 0;
    for part in parts {
        let place = from..from + part.len();
        from = place.end;
        *part = without(&whole, place, &secrets);
    }
}

/// A piece of the text without the secrets. One that begins before the piece leaves nothing in it.
fn without(whole: &str, place: Range<usize>, secrets: &[Range<usize>]) -> String {
    let (mut copy, mut at) = (String::new(), place.start);
    for secret in secrets.iter().filter(|secret| secret.start < place.end && secret.end > place.start) {
        if secret.start >= place.start {
            copy.push_str(&whole[at..secret.start]);
            copy.push_str(HIDDEN);
        }
        at = secret.end.min(place.end);
    }
    copy.push_str(&whole[at..place.end]);
    copy
}

/// Takes secrets out of every string of a JSON value.
pub fn value(value: &mut Value) {
    walk(value, &Place::default());
}

/// Where the text of a streamed message stands in a frame, and what tells messages of one stream apart from others'.
const CHUNK: &str = "/params/update/content/text";
const STREAM: [&str; 2] = ["/params/sessionId", "/params/update/sessionUpdate"];

/// Takes secrets out of streamed messages, whose text comes in chunks: one frame after another, in order.
pub fn chunks(frames: &mut [&mut Value]) {
    let mut streams: BTreeMap<[String; 2], Vec<usize>> = BTreeMap::new();
    for (index, frame) in frames.iter().enumerate() {
        if frame.pointer(CHUNK).is_some_and(Value::is_string) {
            let of = STREAM.map(|place| frame.pointer(place).map(Value::to_string).unwrap_or_default());
            streams.entry(of).or_default().push(index);
        }
    }
    for indexes in streams.into_values() {
        let text = |index: &usize| frames[*index].pointer(CHUNK).and_then(Value::as_str).unwrap_or_default();
        let mut parts: Vec<String> = indexes.iter().map(text).map(str::to_owned).collect();
        joined(&mut parts);
        for (index, part) in indexes.into_iter().zip(parts) {
            if let Some(text) = frames[index].pointer_mut(CHUNK) {
                *text = part.into();
            }
        }
    }
}

/// Takes secrets out of a whole conversation: out of streamed messages, and out of every frame.
pub fn conversation(frames: &mut [&mut Value]) {
    chunks(frames);
    frames.iter_mut().for_each(|frame| value(frame));
}

/// Where a value stands.
#[derive(Clone, Copy, Default)]
struct Place<'a> {
    /// The member that it is the value of.
    name: &'a str,
    /// Whether it is the value of a variable or header.
    named: bool,
    /// Whether it is inside something that often holds secrets.
    secretive: bool,
}

/// Members whose members are variables or headers, as a map or as pairs of `name` and `value`.
const NAMED: &[&str] = &["env", "environment", "headers", "httpHeaders", "envVars"];
/// Members that often hold secrets somewhere.
const SECRETIVE: &[&str] =
    &["_meta", "args", "argv", "rawInput", "rawOutput", "command", "credentials", "auth"];

fn walk(value: &mut Value, place: &Place<'_>) {
    match value {
        Value::String(words) if hides(words, place) => HIDDEN.clone_into(words),
        Value::String(words) => *words = text(words),
        Value::Array(items) => {
            hide_after_flags(items);
            for item in items {
                walk(item, place);
            }
        }
        Value::Object(members) => object(members, place),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn hides(words: &str, place: &Place<'_>) -> bool {
    if words.is_empty() || words == HIDDEN {
        return false;
    }
    let by_name = is_secret(place.name) || place.named && !is_harmless(place.name);
    by_name || place.secretive && may_be_random(place.name) && is_random(words)
}

fn object(members: &mut Map<String, Value>, place: &Place<'_>) {
    let called = members.get("name").and_then(Value::as_str).map(str::to_owned);
    let pair = called.filter(|_| members.get("value").is_some_and(Value::is_string));
    for (key, member) in members.iter_mut() {
        let secretive = place.secretive || SECRETIVE.contains(&key.as_str());
        let inner = match &pair {
            // The pair of a variable or header: its value stands under its name.
            Some(name) if key == "value" => Place { name, named: place.named, secretive },
            Some(_) => Place { name: "", named: false, secretive },
            None => {
                let named = place.named || NAMED.contains(&key.as_str()) || is_secret(key);
                Place { name: key, named, secretive }
            }
        };
        // A member called token that is no string is not one.
        walk(member, &inner);
    }
    hide_in_names(members);
}

/// The shortest secret with a shape.
const SHORTEST: usize = 12;

/// A secret that is the name of a member, as in a table of what belongs to which token.
fn hide_in_names(members: &mut Map<String, Value>) {
    let shows = |name: &String| name.len() >= SHORTEST && !shapes::find(name).is_empty();
    if !members.keys().any(shows) {
        return;
    }
    for (name, member) in std::mem::take(members) {
        let mut name = text(&name);
        while members.contains_key(&name) {
            name.push('\'');
        }
        members.insert(name, member);
    }
}

/// `--token VALUE` in a list of arguments.
fn hide_after_flags(items: &mut [Value]) {
    for index in 1..items.len() {
        let Some(flag) = items[index - 1].as_str().map(str::to_owned) else { continue };
        let Value::String(words) = &mut items[index] else { continue };
        if is_secret_flag(&flag) {
            HIDDEN.clone_into(words);
        } else if flag.starts_with('-') && !flag.contains(' ') {
            // Some flags say what follows only together with it: `-u NAME:PASSWORD`.
            let both = text(&format!("{flag} {words}"));
            *words = both.strip_prefix(&format!("{flag} ")).unwrap_or(HIDDEN).to_owned();
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn plain_words_and_ids_stay() {
        for words in [
            "the token count is 12",
            r#"{"totalTokens":1234}"#,
            "basic understanding of tokens",
            "task-management-interface-for-people",
            "see https://example.com/a?page=2 and mail me@example.com",
            "the password is wrong",
            "sha256 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
            "key: value",
        ] {
            assert_eq!(text(words), words);
        }
        let mut frame = json!({
            "sessionId": "sess_4b05233c080_1", "toolCallId": "call_8f3a2b1c9d0e4f5a6b7c8d9e", "token": 5,
            "_meta": { "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01" },
            "env": [{ "name": "LANG", "value": "C" }, { "name": "PATH", "value": "/usr/bin:/bin" }],
            "args": ["--port", "3000", "src/main.rs"],
        });
        let before = frame.clone();
        value(&mut frame);
        assert_eq!(frame, before);
    }

    #[test]
    fn secrets_are_found_by_name_shape_and_entropy() {
        let mut frame = json!({
            "env": [{ "name": "DATABASE", "value": "opensesame" }], "headers": { "X-Team": "red" },
            "apiKey": "abc", "nested": { "clientSecret": "x" }, "args": ["--password", "abc", "-k", "v"],
            "_meta": { "handle": "q8Zr4TnV1sXw7LbD2mKp9YcF" }, "text": "Authorization: Bearer abc.def-ghi12",
        });
        value(&mut frame);
        assert_eq!(
            frame,
            json!({
                "env": [{ "name": "DATABASE", "value": HIDDEN }], "headers": { "X-Team": HIDDEN },
                "apiKey": HIDDEN, "nested": { "clientSecret": HIDDEN }, "args": ["--password", HIDDEN, "-k", "v"],
                "_meta": { "handle": HIDDEN }, "text": "Authorization: Bearer [redacted]",
            })
        );
    }

    #[test]
    fn secrets_are_found_in_names_of_members_and_behind_the_flag_of_a_user() {
        let token = "ghp_0123456789abcdefghijABCDEFGHIJ0123";
        let mut frame = json!({
            "owners": { (token): 1, (format!("x{token}")): 2, "a/long/name/of/a/file.rs": 3 },
            "command": "curl -u me:opensesame https://example.com/", "args": ["-u", "me:opensesame", "--user=me:opensesame"],
            "run": ["docker", "-u", "1000:1000", "image"],
        });
        value(&mut frame);
        assert_eq!(
            frame,
            json!({
                "owners": { (HIDDEN): 1, (format!("x{HIDDEN}")): 2, "a/long/name/of/a/file.rs": 3 },
                "command": "curl -u me:[redacted] https://example.com/", "args": ["-u", "me:[redacted]", "--user=me:[redacted]"],
                "run": ["docker", "-u", "1000:1000", "image"],
            })
        );
    }

    #[test]
    fn a_secret_in_pieces_is_found() {
        let mut parts: Vec<String> =
            ["the key gh", "p_0123456789", "abcdefghijABCDEFGHIJ", "0123 is", " here"]
                .map(str::to_owned)
                .into();
        joined(&mut parts);
        assert_eq!(parts, ["the key [redacted]", "", "", " is", " here"]);
    }

    #[test]
    fn a_secret_in_chunks_of_one_stream_is_found_though_others_speak_between() {
        let chunk = |session: &str, text: &str| {
            let content = json!({ "type": "text", "text": text });
            let update = json!({ "sessionUpdate": "agent_message_chunk", "content": content });
            json!({ "method": "session/update", "params": { "sessionId": session, "update": update } })
        };
        let mut frames = [
            chunk("a", "the key is gh"),
            chunk("b", "hello"),
            json!({ "id": 1, "result": {} }),
            chunk("a", "p_0123456789abcdefghij"),
            chunk("a", "ABCDEFGHIJ0123."),
        ];
        conversation(&mut frames.iter_mut().collect::<Vec<_>>());
        let texts: Vec<_> = frames.iter().filter_map(|frame| frame.pointer(CHUNK)?.as_str()).collect();
        assert_eq!(texts, ["the key is [redacted]", "hello", "", "."]);
    }
}
