//! From a turn's words to the wire's, and what vendors insist on: every call has a result, nothing is empty, nobody
//! speaks last but the person or a tool.

use std::collections::BTreeSet;

use acp_model::talk::{self, Input, ModelCall, ModelPart, ModelTurn, ThinkingSeal, ToolResult, UserPart};
use acp_model::wire::WireFormat;
use serde_json::{Value, json};

use super::{Block, ChatRequest, Message, MessageRole};

/// What a call is told that never ran: the turn was cancelled, or the agent died.
const NEVER_RAN: &str = "The tool did not run: the turn ended before.";

/// What stands for the words of a person who said nothing.
const SILENCE: &str = "(nothing was said)";

/// The request for one wire.
pub(super) fn request(mut chat: ChatRequest, wire: WireFormat) -> talk::ModelRequest {
    if chat.messages.last().is_none_or(|last| last.role == MessageRole::Assistant) {
        chat.messages.push(Message { role: MessageRole::User, blocks: vec![Block::Text(String::new())] });
    }
    let since = chat.messages.iter().rposition(spoken_by_a_person).unwrap_or(0);
    let mut turns = Vec::new();
    for (n, message) in chat.messages.iter().enumerate() {
        match message.role {
            MessageRole::Assistant => {
                let following = chat.messages.get(n + 1).filter(|next| next.role == MessageRole::User);
                // A server that copies a vendor wants thoughts back only while a turn lasts.
                let seals = wire != WireFormat::Chat || n > since;
                assistant(message, following, wire, seals, &mut turns);
            }
            MessageRole::User => turns.extend(spoken(message).map(ModelTurn::User)),
        }
    }
    let tool = |tool: super::ToolSpec| talk::ModelTool {
        name: tool.name,
        description: tool.description,
        schema: tool.schema,
        ..talk::ModelTool::default()
    };
    talk::ModelRequest {
        model: chat.model,
        stream: true,
        usage_chunk: true,
        system: chat.system,
        turns,
        tools: chat.tools.into_iter().map(tool).collect(),
        max_tokens: Some(chat.max_tokens).filter(|limit| *limit > 0),
        // One vendor refuses to think on after calls whose thoughts are gone.
        effort: chat
            .effort
            .filter(|_| wire != WireFormat::Messages || chat.messages[since..].iter().all(sealed)),
        ..talk::ModelRequest::default()
    }
}

/// A seal as the turn keeps it.
pub(super) fn write_seal(seal: &ThinkingSeal) -> String {
    json!({"wire": seal.wire, "data": seal.data}).to_string()
}

fn read_seal(text: &str) -> Option<ThinkingSeal> {
    let value: Value = serde_json::from_str(text).ok()?;
    let wire = serde_json::from_value(value["wire"].clone()).ok()?;
    Some(ThinkingSeal { wire, data: value.get("data")?.clone() })
}

/// Whether the thoughts before the calls of a message are still there.
fn sealed(message: &Message) -> bool {
    let has = |found: fn(&Block) -> bool| message.blocks.iter().any(found);
    !has(|block| matches!(block, Block::ToolCall { .. })) || has(|block| matches!(block, Block::Seal(_)))
}

fn spoken_by_a_person(message: &Message) -> bool {
    message.role == MessageRole::User && spoken(message).is_some()
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
fn assistant(
    message: &Message,
    following: Option<&Message>,
    wire: WireFormat,
    seals: bool,
    turns: &mut Vec<ModelTurn>,
) {
    let mut parts = Vec::new();
    let mut calls = Vec::new();
    for block in &message.blocks {
        match block {
            Block::Text(text) if !is_blank(text) => parts.push(ModelPart::Text(text.clone())),
            Block::Seal(text) if seals => {
                parts.extend(read_seal(text).filter(|seal| seal.wire == wire).map(ModelPart::Seal));
            }
            Block::ToolCall { id, name, arguments } => {
                calls.push((id, name));
                let input = Input::Json(object(arguments));
                parts.push(ModelPart::Call(ModelCall {
                    id: id.clone(),
                    name: name.clone(),
                    namespace: None,
                    input,
                }));
            }
            _ => {}
        }
    }
    // What these vendors seal belongs to what follows it, and is refused where nothing does.
    while matches!(wire, WireFormat::Messages | WireFormat::Responses)
        && matches!(parts.last(), Some(ModelPart::Seal(_)))
    {
        parts.pop();
    }
    if parts.iter().all(|part| matches!(part, ModelPart::Seal(_))) {
        return;
    }
    turns.push(ModelTurn::Assistant(parts));
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
        turns.push(ModelTurn::Result(ToolResult { id: id.clone(), name: name.clone(), text, is_error }));
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
