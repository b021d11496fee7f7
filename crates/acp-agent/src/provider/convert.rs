//! From a turn's words to the wire's, and what vendors insist on: every call has a result, nothing is empty, nobody
//! speaks last but the person or a tool.

use std::collections::BTreeSet;

use acp_model::talk::{self, Call, Input, Part, Seal, ToolResult, Turn, UserPart};
use acp_model::wire::Wire;
use serde_json::{Value, json};

use super::{Block, ChatRequest, Message, Role};

/// What a call is told that never ran: the turn was cancelled, or the agent died.
const NEVER_RAN: &str = "The tool did not run: the turn ended before.";

/// What stands for the words of a person who said nothing.
const SILENCE: &str = "(nothing was said)";

/// The request for one wire.
pub(super) fn request(mut chat: ChatRequest, wire: Wire) -> talk::Request {
    if chat.messages.last().is_none_or(|last| last.role == Role::Assistant) {
        chat.messages.push(Message { role: Role::User, blocks: vec![Block::Text(String::new())] });
    }
    let since = chat.messages.iter().rposition(spoken_by_a_person).unwrap_or(0);
    let mut turns = Vec::new();
    for (n, message) in chat.messages.iter().enumerate() {
        match message.role {
            Role::Assistant => {
                let following = chat.messages.get(n + 1).filter(|next| next.role == Role::User);
                // A server that copies a vendor wants thoughts back only while a turn lasts.
                let seals = wire != Wire::Chat || n > since;
                assistant(message, following, wire, seals, &mut turns);
            }
            Role::User => turns.extend(spoken(message).map(Turn::User)),
        }
    }
    let tool = |tool: super::ToolSpec| talk::Tool {
        name: tool.name,
        description: tool.description,
        schema: tool.schema,
        ..talk::Tool::default()
    };
    talk::Request {
        model: chat.model,
        stream: true,
        usage_chunk: true,
        system: chat.system,
        turns,
        tools: chat.tools.into_iter().map(tool).collect(),
        max_tokens: Some(chat.max_tokens).filter(|limit| *limit > 0),
        // One vendor refuses to think on after calls whose thoughts are gone.
        effort: chat.effort.filter(|_| wire != Wire::Messages || chat.messages[since..].iter().all(sealed)),
        ..talk::Request::default()
    }
}

/// A seal as the turn keeps it.
pub(super) fn write_seal(seal: &Seal) -> String {
    json!({"wire": seal.wire, "data": seal.data}).to_string()
}

fn read_seal(text: &str) -> Option<Seal> {
    let value: Value = serde_json::from_str(text).ok()?;
    let wire = serde_json::from_value(value["wire"].clone()).ok()?;
    Some(Seal { wire, data: value.get("data")?.clone() })
}

/// Whether the thoughts before the calls of a message are still there.
fn sealed(message: &Message) -> bool {
    let has = |found: fn(&Block) -> bool| message.blocks.iter().any(found);
    !has(|block| matches!(block, Block::ToolCall { .. })) || has(|block| matches!(block, Block::Seal(_)))
}

fn spoken_by_a_person(message: &Message) -> bool {
    message.role == Role::User && spoken(message).is_some()
}

/// What a person said; none where a message has nothing but the results of tools.
fn spoken(message: &Message) -> Option<Vec<UserPart>> {
    let parts: Vec<_> = message.blocks.iter().filter_map(user_part).collect();
    let silent = || message.blocks.iter().all(|block| matches!(block, Block::Text(_)));
    match parts.is_empty() {
        false => Some(parts),
        true => silent().then(|| vec![UserPart::Text(SILENCE.to_owned())]),
    }
}

/// Vendors take no text that is nothing but white space.
fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}

fn user_part(block: &Block) -> Option<UserPart> {
    match block {
        Block::Text(text) if !is_blank(text) => Some(UserPart::Text(text.clone())),
        Block::Image { mime_type, data } => {
            Some(UserPart::Image { mime: mime_type.clone(), data: data.clone() })
        }
        _ => None,
    }
}

/// The model's message and, right behind it, one result for each of its calls.
fn assistant(message: &Message, following: Option<&Message>, wire: Wire, seals: bool, turns: &mut Vec<Turn>) {
    let mut parts = Vec::new();
    let mut calls = Vec::new();
    for block in &message.blocks {
        match block {
            Block::Text(text) if !is_blank(text) => parts.push(Part::Text(text.clone())),
            Block::Seal(text) if seals => {
                parts.extend(read_seal(text).filter(|seal| seal.wire == wire).map(Part::Seal));
            }
            Block::ToolCall { id, name, arguments } => {
                calls.push((id, name));
                let input = Input::Json(object(arguments));
                parts.push(Part::Call(Call { id: id.clone(), name: name.clone(), namespace: None, input }));
            }
            _ => {}
        }
    }
    // What these vendors seal belongs to what follows it, and is refused where nothing does.
    while matches!(wire, Wire::Messages | Wire::Responses) && matches!(parts.last(), Some(Part::Seal(_))) {
        parts.pop();
    }
    if parts.iter().all(|part| matches!(part, Part::Seal(_))) {
        return;
    }
    turns.push(Turn::Assistant(parts));
    let mut answered = BTreeSet::new();
    for (id, name) in calls {
        if !answered.insert(id) {
            continue;
        }
        let found = following.into_iter().flat_map(|message| &message.blocks).find_map(|block| match block {
            Block::ToolResult { id: of, text, is_error, .. } if of == id => Some((text.clone(), *is_error)),
            _ => None,
        });
        let (text, is_error) = found.unwrap_or_else(|| (NEVER_RAN.to_owned(), true));
        let text = if is_blank(&text) { "(nothing)".to_owned() } else { text };
        turns.push(Turn::Result(ToolResult { id: id.clone(), name: name.clone(), text, is_error }));
    }
}

/// Vendors take objects only, also for what a model wrote wrongly.
fn object(arguments: &Value) -> Value {
    match arguments {
        Value::Object(_) => arguments.clone(),
        Value::Null => json!({}),
        other => json!({"not_an_object": other}),
    }
}
