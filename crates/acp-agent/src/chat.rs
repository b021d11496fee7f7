//! The conversation as a model is told it: from the updates that the client saw.

use std::collections::VecDeque;

use acp_proto::update;
use acp_script::agent::{Cut, ModelQuestion, Round, SealedThought, refused};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::context::{RESULT, shortened};
use crate::offer::{self, Abilities};
use crate::prompt;
use crate::provider::{Block, ChatRequest, Effort, Message, MessageRole};

/// The images that models see.
const IMAGES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// Marks of updates that are not told: what a child did is told by the result of its task, and notices are for the person.
const UNTOLD: [&str; 2] = ["acp.workbench/delegate", "acp.workbench/notice"];

/// The request for a model whose answer has at most so many tokens.
pub(crate) fn request(question: &ModelQuestion, abilities: Abilities, max_tokens: u64) -> ChatRequest {
    ChatRequest {
        model: question.model.clone(),
        system: prompt::system(question),
        messages: messages(question),
        tools: offer::tools(question, abilities)
            .into_iter()
            .filter(|tool| !question.closed.contains(&&*tool.name))
            .collect(),
        max_tokens,
        effort: effort(&question.thought_level),
    }
}

/// The middle is the provider's own measure: not every model can be told another.
fn effort(level: &str) -> Option<Effort> {
    level.parse().ok().filter(|effort| *effort != Effort::Medium)
}

pub(crate) fn messages(question: &ModelQuestion) -> Vec<Message> {
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
    // The answer that is wanted, behind one that may have been cut off.
    rounds.for_each(|round| told.begin_round(round));
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
    seals: VecDeque<&'a SealedThought>,
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
        if let Some(cut) = self.round.and_then(|before| before.cut.as_ref()) {
            self.push(MessageRole::User, vec![Block::Text(go_on(cut))]);
        }
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
            Some(update::USER_MESSAGE_CHUNK) => {
                self.end_message();
                self.round = None;
                self.push(MessageRole::User, vec![content(&entry["content"])]);
            }
            Some(update::AGENT_MESSAGE_CHUNK)
                if self.round.is_some_and(|it| it.later.iter().any(|said| said.at == at)) =>
            {
                self.later.push((at, content(&entry["content"])));
            }
            Some(update::AGENT_MESSAGE_CHUNK) => {
                if !self.calls.is_empty() {
                    self.end_message();
                }
                self.said.push(content(&entry["content"]));
            }
            Some(update::TOOL_CALL) => self.calls.push(called(entry)),
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
        self.push(MessageRole::Assistant, said);
        self.push(MessageRole::User, results);
    }

    fn push(&mut self, role: MessageRole, blocks: Vec<Block>) {
        if blocks.is_empty() {
            return;
        }
        match self.messages.last_mut() {
            Some(last) if last.role == role => last.blocks.extend(blocks),
            None if role == MessageRole::Assistant => {
                let begin = Message {
                    role: MessageRole::User,
                    blocks: vec![Block::Text("(the session begins)".to_owned())],
                };
                self.messages.extend([begin, Message { role, blocks }]);
            }
            _ => self.messages.push(Message { role, blocks }),
        }
    }
}

/// What a model is told whose answer was cut off.
fn go_on(cut: &Cut) -> String {
    let mut words =
        "[Your last answer was cut off because it reached the limit of its length. Go on exactly where it \
                     ended, without repeating what you said."
            .to_owned();
    if !cut.dropped.is_empty() {
        words.push_str(&format!(
            " Your calls of {} were incomplete and were not made: make them again, in smaller parts where they are long.",
            cut.dropped.join(", ")
        ));
    }
    words.push(']');
    words
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
        text: shortened(&result(entry), RESULT),
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
