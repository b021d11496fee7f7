//! What may differ without meaning changes no verdict: chunks split, titles inserted, ids renumbered or retyped, `_meta`
//! added, unrelated notifications swapped, JSON written otherwise. Over every recorded conversation.

mod common;

use std::collections::BTreeSet;

use acp_rpc::Direction;
use acp_rpc::transcript::TranscriptEntry;
use common::{Conversation, claim};
use serde_json::{Value, json};

/// What a judge says, without how often and where.
fn verdict(conversation: &Conversation) -> BTreeSet<String> {
    let judge = conversation.judge();
    let say = |finding: &acp_rules::Finding| {
        format!("{} {} {} {}", finding.grade, finding.rule, claim(finding), finding.blame)
    };
    judge.findings().iter().map(say).collect()
}

/// A frame that is a JSON object.
fn object(entry: &TranscriptEntry) -> Option<Value> {
    serde_json::from_slice(&entry.line).ok().filter(Value::is_object)
}

fn with(entry: &TranscriptEntry, frame: &Value) -> TranscriptEntry {
    TranscriptEntry { line: frame.to_string().into(), ..entry.clone() }
}

/// Changes every frame that can be read, and leaves the others as they are.
fn each(
    conversation: &Conversation,
    change: impl Fn(&TranscriptEntry, Value) -> Vec<TranscriptEntry>,
) -> Conversation {
    let entries = conversation.entries.iter().flat_map(|entry| match object(entry) {
        Some(frame) => change(entry, frame),
        None => vec![entry.clone()],
    });
    Conversation { entries: entries.collect(), ..conversation.clone() }
}

/// Whether this holds for all conversations.
fn unchanged(name: &str, change: impl Fn(&Conversation) -> Option<Conversation>) {
    let mut problems = Vec::new();
    let mut changed = 0;
    for conversation in common::all() {
        let Some(other) = change(&conversation) else { continue };
        changed += usize::from(other.entries != conversation.entries);
        let (before, after) = (verdict(&conversation), verdict(&other));
        if before != after {
            let gone: Vec<_> = before.difference(&after).collect();
            let new: Vec<_> = after.difference(&before).collect();
            problems.push(format!("{}: gone {gone:?}, new {new:?}", conversation.name));
        }
    }
    assert!(changed > 50, "{name} changes only {changed} conversations");
    assert!(problems.is_empty(), "{name}: {} problems\n{}", problems.len(), problems.join("\n"));
}

#[test]
fn chunks_split_at_any_character() {
    for part in [1, 2] {
        unchanged("splitting chunks", |conversation| {
            Some(each(conversation, |entry, frame| split(entry, &frame, part)))
        });
    }
}

fn split(entry: &TranscriptEntry, frame: &Value, part: usize) -> Vec<TranscriptEntry> {
    let kind = frame.pointer("/params/update/sessionUpdate").and_then(Value::as_str).unwrap_or_default();
    let text = frame.pointer("/params/update/content/text").and_then(Value::as_str).unwrap_or_default();
    let middle = text.char_indices().nth(part).map_or(0, |(at, _)| at);
    if !kind.ends_with("_message_chunk") || middle == 0 {
        return vec![entry.clone()];
    }
    let pieces = [text[..middle].to_owned(), text[middle..].to_owned()];
    let one = |piece: String| {
        let mut frame = frame.clone();
        frame["params"]["update"]["content"]["text"] = piece.into();
        with(entry, &frame)
    };
    pieces.map(one).into()
}

#[test]
fn titles_and_usage_come_between() {
    let inserted = [
        json!({"sessionUpdate": "session_info_update", "title": "A title", "updatedAt": "2026-11-16T08:00:00Z"}),
        json!({"sessionUpdate": "usage_update", "used": 10, "size": 1000}),
        json!({"sessionUpdate": "available_commands_update", "availableCommands": []}),
    ];
    for update in inserted {
        let kind = update["sessionUpdate"].clone();
        unchanged("inserting updates", |conversation| {
            // an announced command is no longer one when the list is replaced
            let has_commands =
                String::from_utf8_lossy(&all_bytes(conversation)).contains("availableCommands");
            (!has_commands || kind != "available_commands_update").then(|| {
                each(conversation, |entry, frame| {
                    let mut out = vec![entry.clone()];
                    if let Some(session) = told_about(entry, &frame) {
                        let title = json!({"jsonrpc": "2.0", "method": "session/update",
                            "params": {"sessionId": session, "update": update}});
                        out.push(with(entry, &title));
                    }
                    out
                })
            })
        });
    }
}

fn all_bytes(conversation: &Conversation) -> Vec<u8> {
    conversation.entries.iter().flat_map(|entry| entry.line.to_vec()).collect()
}

/// The session that an update of the agent is about.
fn told_about(entry: &TranscriptEntry, frame: &Value) -> Option<String> {
    let is_update =
        entry.dir == Direction::AgentToClient && frame["method"] == "session/update" && frame["id"].is_null();
    let session = frame.pointer("/params/sessionId").and_then(Value::as_str)?;
    (is_update && frame["jsonrpc"] == "2.0").then(|| session.to_owned())
}

#[test]
fn ids_are_counted_otherwise() {
    unchanged("renumbering ids", |conversation| {
        renamed(conversation, |id| id.as_i64().map_or_else(|| id.clone(), |number| (number + 1000).into()))
    });
}

#[test]
fn ids_are_of_another_type() {
    unchanged("retyping ids", |conversation| {
        let is_text = |id: &Value| id.is_i64() || id.is_string();
        renamed(conversation, |id| if is_text(id) { format!("id {id}").into() } else { id.clone() })
    });
}

/// Renames ids everywhere, unless a line cannot be read or ids of two types are what the conversation is about.
fn renamed(conversation: &Conversation, rename: impl Fn(&Value) -> Value) -> Option<Conversation> {
    let all_readable = conversation.entries.iter().all(|entry| object(entry).is_some());
    let about_types = conversation.judge().findings().iter().any(|finding| finding.rule == "id-type-changed");
    if !all_readable || about_types {
        return None;
    }
    Some(each(conversation, |entry, mut frame| {
        for pointer in ["/id", "/params/requestId"] {
            if let Some(id) = frame.pointer_mut(pointer) {
                *id = rename(id);
            }
        }
        vec![with(entry, &frame)]
    }))
}

#[test]
fn meta_is_everywhere() {
    unchanged("adding _meta", |conversation| {
        Some(each(conversation, |entry, mut frame| {
            for place in ["/params", "/params/update", "/result"] {
                if let Some(members) = frame.pointer_mut(place).and_then(Value::as_object_mut)
                    && takes_meta(members)
                {
                    members.insert("_meta".to_owned(), json!({"vendor.example/trace": {"n": [1, null]}}));
                }
            }
            vec![with(entry, &frame)]
        }))
    });
}

/// Not where it stands already, and not in the result of initialize, where it announces extensions.
fn takes_meta(members: &serde_json::Map<String, Value>) -> bool {
    let announces = members.contains_key("agentCapabilities") || members.contains_key("agentInfo");
    !members.is_empty() && !members.contains_key("_meta") && !announces
}

#[test]
fn json_is_written_otherwise() {
    unchanged("writing with spaces", |conversation| {
        Some(each(conversation, |entry, frame| {
            let text = serde_json::to_string_pretty(&frame).expect("JSON").replace('\n', " ");
            vec![TranscriptEntry { line: text.into(), ..entry.clone() }]
        }))
    });
    unchanged("escaping characters", |conversation| {
        Some(each(conversation, |entry, frame| {
            vec![TranscriptEntry { line: escaped(&frame.to_string()).into(), ..entry.clone() }]
        }))
    });
}

/// Writes some letters, and what is not ASCII, as escapes; names of members too.
fn escaped(json: &str) -> String {
    let (mut out, mut in_text, mut after_backslash) = (String::new(), false, false);
    for c in json.chars() {
        if in_text && !after_backslash && (c == 'e' || c == 's' || !c.is_ascii()) {
            out.extend(c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")));
            continue;
        }
        in_text ^= c == '"' && !after_backslash;
        after_backslash = c == '\\' && !after_backslash;
        out.push(c);
    }
    out
}

#[test]
fn unrelated_updates_change_places() {
    for offset in [0, 1] {
        unchanged_or_few("swapping updates", |conversation| {
            let mut entries = conversation.entries.clone();
            for at in (offset..entries.len().saturating_sub(1)).step_by(2) {
                if unrelated(&entries[at], &entries[at + 1]) {
                    let (a, b) = (entries[at].line.clone(), entries[at + 1].line.clone());
                    (entries[at].line, entries[at + 1].line) = (b, a);
                }
            }
            Some(Conversation { entries, ..conversation.clone() })
        });
    }
}

/// The same for a change that only few conversations can have.
fn unchanged_or_few(name: &str, change: impl Fn(&Conversation) -> Option<Conversation>) {
    // a title between any two updates, so that there is something to swap
    unchanged(name, |conversation| {
        let titled = each(conversation, |entry, frame| {
            let mut out = vec![entry.clone()];
            if let Some(session) = told_about(entry, &frame) {
                let update = json!({"sessionUpdate": "session_info_update", "title": "A title"});
                let params = json!({"sessionId": session, "update": update});
                out.push(with(
                    entry,
                    &json!({"jsonrpc": "2.0", "method": "session/update", "params": params}),
                ));
            }
            out
        });
        change(&titled)
    });
}

/// Whether two updates of the agent can come in either order: of two sessions, or one of them a title.
fn unrelated(a: &TranscriptEntry, b: &TranscriptEntry) -> bool {
    let (Some(first), Some(second)) = (object(a), object(b)) else { return false };
    let (Some(one), Some(other)) = (told_about(a, &first), told_about(b, &second)) else { return false };
    let kind = |frame: &Value| frame.pointer("/params/update/sessionUpdate").cloned().unwrap_or_default();
    let is_title = |frame: &Value| kind(frame) == "session_info_update";
    one != other || is_title(&first) != is_title(&second)
}
