//! The conversation as a model is told it: from the updates that the client saw.

use std::collections::VecDeque;

use acp_script::agent::{Question, Round, Seal, refused};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::offer::{self, Abilities};
use crate::prompt;
use crate::provider::{Block, ChatRequest, Effort, Message, Role};

/// How many tokens one tool result may have.
const RESULT: usize = 8000;
/// A token is about this many characters.
const CHARACTERS: usize = 4;
/// The longest answer.
const ANSWER: u64 = 8192;
/// The images that models see.
const IMAGES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];
/// What stands for a result that had to go.
const LEFT_OUT: &str = "[left out to save room; call the tool again if it is needed]";

/// Marks of updates that are not told: what a child did is told by the result of its task, and notices are for the person.
const UNTOLD: [&str; 2] = ["acp.workbench/delegate", "acp.workbench/notice"];

/// What the note about a gap in a text takes at most.
const GAP: usize = 48;

/// The request for a model with room for `context` tokens.
pub(crate) fn request(question: &Question, abilities: Abilities, context: u64) -> ChatRequest {
    let mut messages = messages(question);
    let room = usize::try_from(context).unwrap_or(usize::MAX).saturating_mul(CHARACTERS) / 10 * 7;
    make_room(&mut messages, room);
    ChatRequest {
        model: question.model.clone(),
        system: prompt::system(question),
        messages,
        tools: offer::tools(question, abilities)
            .into_iter()
            .filter(|tool| !question.closed.contains(&&*tool.name))
            .collect(),
        max_tokens: ANSWER,
        effort: effort(&question.thought_level),
    }
}

/// The middle is the provider's own measure: not every model can be told another.
fn effort(level: &str) -> Option<Effort> {
    level.parse().ok().filter(|effort| *effort != Effort::Medium)
}

fn messages(question: &Question) -> Vec<Message> {
    let mut told = Telling::default();
    let refused = refused(&question.rounds, &question.history);
    let mut rounds = question.rounds.iter().peekable();
    for (at, entry) in question.history.iter().enumerate() {
        told.seals_before(at);
        while let Some(round) = rounds.next_if(|round| round.at <= at) {
            told.begin_round(round);
            told.seals_before(at);
        }
        if !refused.contains(&at) {
            told.entry(at, entry);
        }
    }
    told.end_message();
    told.messages
}

/// A conversation that is being put together.
#[derive(Default)]
struct Telling<'a> {
    messages: Vec<Message>,
    /// The answer that is being told.
    round: Option<&'a Round>,
    /// What of its seals stands before its calls and is not told yet.
    seals: VecDeque<&'a Seal>,
    said: Vec<Block>,
    /// What it said behind calls, by its place in the history.
    later: Vec<(usize, Block)>,
    calls: Vec<Called>,
}

/// A call and what it came to.
struct Called {
    id: String,
    call: Block,
    result: Block,
}

impl<'a> Telling<'a> {
    fn begin_round(&mut self, round: &'a Round) {
        self.end_message();
        self.round = Some(round);
        self.seals = round.seals.iter().filter(|seal| seal.calls == 0).collect();
    }

    fn seals_before(&mut self, at: usize) {
        while let Some(seal) = self.seals.pop_front_if(|seal| seal.at <= at) {
            self.said.push(Block::Seal(seal.text.clone()));
        }
    }

    fn entry(&mut self, at: usize, entry: &Value) {
        if entry.get("_meta").is_some_and(|meta| UNTOLD.iter().any(|mark| meta.get(mark).is_some())) {
            return;
        }
        match entry["sessionUpdate"].as_str() {
            Some("user_message_chunk") => {
                self.end_message();
                self.push(Role::User, vec![content(&entry["content"])]);
            }
            Some("agent_message_chunk")
                if self.round.is_some_and(|it| it.later.iter().any(|said| said.at == at)) =>
            {
                self.later.push((at, content(&entry["content"])));
            }
            Some("agent_message_chunk") => {
                if !self.calls.is_empty() {
                    self.end_message();
                }
                self.said.push(content(&entry["content"]));
            }
            Some("tool_call") => self.calls.push(called(entry)),
            _ => {}
        }
    }

    /// The answer as far as it was told, its calls in the model's order and each with the seals behind it, and then
    /// what the calls came to.
    fn end_message(&mut self) {
        self.seals_before(usize::MAX);
        let (mut said, mut calls) = (std::mem::take(&mut self.said), std::mem::take(&mut self.calls));
        let mut later = std::mem::take(&mut self.later);
        let made = |id: &str| self.round.and_then(|round| round.calls.iter().position(|made| made == id));
        calls.sort_by_key(|called| made(&called.id).unwrap_or(usize::MAX));
        let mut results = Vec::new();
        for called in calls {
            let behind = made(&called.id).map(|before| before + 1);
            said.push(called.call);
            results.push(called.result);
            if let (Some(round), Some(behind)) = (self.round, behind) {
                said.extend(standing_behind(round, behind, &mut later));
            }
        }
        // Behind calls that never began.
        said.extend(later.into_iter().map(|(_, block)| block));
        self.push(Role::Assistant, said);
        self.push(Role::User, results);
    }

    fn push(&mut self, role: Role, blocks: Vec<Block>) {
        if blocks.is_empty() {
            return;
        }
        match self.messages.last_mut() {
            Some(last) if last.role == role => last.blocks.extend(blocks),
            None if role == Role::Assistant => {
                let begin = Message {
                    role: Role::User,
                    blocks: vec![Block::Text("(the session begins)".to_owned())],
                };
                self.messages.extend([begin, Message { role, blocks }]);
            }
            _ => self.messages.push(Message { role, blocks }),
        }
    }
}

/// What stands directly behind so many calls of an answer, seals and words in their order.
fn standing_behind(round: &Round, calls: usize, later: &mut Vec<(usize, Block)>) -> Vec<Block> {
    let seals = round.seals.iter().filter(|seal| seal.calls == calls);
    let mut here: Vec<(usize, Block)> = seals.map(|seal| (seal.at, Block::Seal(seal.text.clone()))).collect();
    let is_here = |at: usize| round.later.iter().any(|said| said.at == at && said.calls == calls);
    here.extend(later.extract_if(.., |(at, _)| is_here(*at)));
    // A seal stands before the entry of its place.
    here.sort_by_key(|(at, _)| *at);
    here.into_iter().map(|(_, block)| block).collect()
}

/// A finished tool call.
fn called(entry: &Value) -> Called {
    let text = |key: &str| entry[key].as_str().unwrap_or_default().to_owned();
    let (id, name) = (text("toolCallId"), tool_name(&text("name")));
    let call = Block::ToolCall {
        id: id.clone(),
        name: name.clone(),
        arguments: entry.get("rawInput").cloned().unwrap_or_else(|| json!({})),
    };
    let result = Block::ToolResult {
        id: id.clone(),
        name,
        text: shortened(&result(entry), RESULT * CHARACTERS),
        is_error: entry["status"] == "failed",
    };
    Called { id, call, result }
}

/// A content block for a model; what it cannot take is described.
fn content(block: &Value) -> Block {
    let text = |key: &str| block[key].as_str().unwrap_or_default().to_owned();
    match block["type"].as_str() {
        Some("image") => image(text("mimeType"), text("data")),
        Some("audio") => Block::Text(format!("[a sound, {}, which you cannot hear]", text("mimeType"))),
        Some("resource_link") => Block::Text(format!("[{}]({})", text("name"), text("uri"))),
        Some("resource") => {
            let inner = &block["resource"];
            let uri = inner["uri"].as_str().unwrap_or_default();
            Block::Text(match inner["text"].as_str() {
                Some(text) => format!("<resource uri=\"{uri}\">\n{text}\n</resource>"),
                None => format!("[binary resource {uri}]"),
            })
        }
        _ => Block::Text(text("text")),
    }
}

/// An image, if every vendor takes it: one that is refused would be refused again with each later question.
fn image(mime_type: String, data: String) -> Block {
    if !IMAGES.contains(&&*mime_type) {
        return Block::Text(format!("[an image, {mime_type}, which you cannot see]"));
    }
    match STANDARD.decode(&data) {
        Ok(bytes) if !bytes.is_empty() => Block::Image { mime_type, data },
        _ => Block::Text(format!("[an image, {mime_type}, which came damaged]")),
    }
}

/// What a finished tool call came to, in words.
fn result(call: &Value) -> String {
    let mut parts: Vec<String> = Vec::new();
    match (call.pointer("/rawOutput/killedAfter"), call.pointer("/rawOutput/exitCode")) {
        (Some(seconds), _) => parts.push(format!("killed because it ran longer than {seconds} s")),
        (None, Some(code)) => parts.push(format!("exit code {code}")),
        (None, None) => {}
    }
    for item in call["content"].as_array().into_iter().flatten() {
        match item["type"].as_str() {
            Some("content") => parts
                .push(item.pointer("/content/text").and_then(Value::as_str).unwrap_or_default().to_owned()),
            Some("diff") => {
                parts.push(format!("{} was written.", item["path"].as_str().unwrap_or("The file")));
            }
            _ => {}
        }
    }
    match parts.iter().all(String::is_empty) {
        true => nothing(call),
        false => parts.join("\n"),
    }
}

/// What a call came to that has nothing to show.
fn nothing(call: &Value) -> String {
    let input = &call["rawInput"];
    match (call["status"].as_str(), call["name"].as_str(), input["line"].as_u64()) {
        (Some("failed"), ..) => "(it failed, and did not say why)".to_owned(),
        (_, Some("read_file"), _) if input["limit"] == 0 => "(no lines were asked for)".to_owned(),
        (_, Some("read_file"), Some(line @ 2..)) => {
            format!("(there is no line {line}: the file ends before it)")
        }
        (_, Some("read_file"), _) => "(the file is empty)".to_owned(),
        (_, Some("search_file"), _) => "(no line of the file has it)".to_owned(),
        _ => "(it is done and has nothing to show)".to_owned(),
    }
}

/// Beginning and end of a text that is too long, with the place of the gap.
fn shortened(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let floor = |mut at: usize| {
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        at
    };
    let (head, tail) = (floor(most / 4 * 3), floor(text.len() - most / 4));
    format!("{}\n[… {} bytes left out …]\n{}", &text[..head], tail - head, &text[tail..])
}

/// Leaves out the oldest tool results until the conversation fits. The newest stay, but are cut where even they are too
/// much, the longest first.
fn make_room(messages: &mut [Message], room: usize) {
    let size = |block: &Block| match block {
        Block::Text(text) | Block::Seal(text) | Block::ToolResult { text, .. } => text.len(),
        Block::Image { .. } => 6000,
        Block::ToolCall { arguments, .. } => arguments.to_string().len(),
    };
    let mut whole: usize = messages.iter().flat_map(|message| &message.blocks).map(size).sum();
    let last = messages.len().saturating_sub(1);
    for block in messages[..last].iter_mut().flat_map(|message| &mut message.blocks) {
        if whole <= room {
            return;
        }
        if let Block::ToolResult { text, .. } = block
            && text.len() > LEFT_OUT.len()
        {
            whole -= text.len() - LEFT_OUT.len();
            LEFT_OUT.clone_into(text);
        }
    }
    if whole <= room {
        return;
    }
    let newest = messages[last..].iter_mut().flat_map(|message| &mut message.blocks);
    let mut results: Vec<&mut String> = newest
        .filter_map(|block| match block {
            Block::ToolResult { text, .. } => Some(text),
            _ => None,
        })
        .collect();
    let others = whole - results.iter().map(|text| text.len()).sum::<usize>();
    let mut left = room.saturating_sub(others);
    results.sort_by_key(|text| text.len());
    let mut open = results.len();
    for text in results {
        let share = left / open;
        if text.len() > share {
            *text = shortened(text, share.saturating_sub(GAP));
        }
        left = left.saturating_sub(text.len());
        open -= 1;
    }
}

/// A name that every provider takes.
fn tool_name(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '_' };
    let mut name: String = name.chars().map(plain).collect();
    name.truncate(64);
    name
}

#[cfg(test)]
#[path = "chat_tests.rs"]
mod tests;
