//! What a turn consists of.

use std::time::Duration;

use acp_proto::{StopReason, update};
use acp_rpc::RpcError;
use serde_json::{Value, json};

use super::habits::Chunks;
use super::job::Job;
use super::tools::Work;
use crate::script::Act;

/// One step of a turn.
pub(super) enum Step {
    /// Send a message piece by piece.
    Stream(Stream),
    /// Send this update; `true` keeps it for a later replay.
    Update(Value, bool),
    /// Send one whole content block as a message.
    Show(Value),
    /// Be silent.
    Pause(Duration),
    /// Begin a tool call.
    Begin(Job),
    /// Ask the model.
    Think,
    /// Begin the tool call that a model wants.
    Call { name: String, arguments: Value },
    /// Hand these tasks to sessions of its own.
    Delegate(Vec<String>),
    /// Take the conversation so far in short.
    Digest,
    /// Let the model take the conversation in short, up to this entry of the history.
    Summarize { entries: usize },
    /// Call an MCP tool, once the session's servers are there.
    Mcp { server: Option<String>, tool: String, arguments: Option<String> },
    /// Say which MCP tools there are, once the servers are there.
    McpList,
    /// Ask with a form.
    Form(Option<String>),
    /// Ask to open a page.
    Page,
    /// Report the page's completion.
    PageDone(String),
    /// Keep a word.
    Remember(String),
    /// Change the mode.
    Mode(String),
    /// Change a config option.
    Config { option: String, value: Value },
    /// Change the title.
    Title(String),
    /// Report what the turn used.
    Usage,
    /// Report title and time of the session.
    Info,
    /// Kill a terminal.
    Kill(String),
    /// Release a terminal.
    Release(String),
    /// Finish a tool call whose terminal has been released.
    Finish(Box<Work>),
    /// Report every open tool call as failed.
    CloseTools,
    /// Something that a script says.
    Act(Act),
    /// End the turn.
    End(StopReason),
    /// End the turn with this result.
    Respond(Value),
    /// End the turn with an error.
    Fail(RpcError),
}

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Voice {
    Agent,
    Thought,
    /// The agent about itself, to the person and not to a model.
    Notice,
}

impl Voice {
    pub(super) fn update(self) -> &'static str {
        match self {
            Self::Agent | Self::Notice => update::AGENT_MESSAGE_CHUNK,
            Self::Thought => update::AGENT_THOUGHT_CHUNK,
        }
    }

    /// What its updates carry besides their text.
    pub(super) fn meta(self) -> Option<Value> {
        (self == Self::Notice).then(|| json!({ NOTICE: true }))
    }
}

/// Marks messages that are no part of the conversation.
const NOTICE: &str = "acp.workbench/notice";

/// Whether an entry of the history is no part of the conversation.
pub(super) fn is_notice(entry: &Value) -> bool {
    entry.get("_meta").is_some_and(|meta| meta.get(NOTICE).is_some())
}

/// A message on its way.
pub(super) struct Stream {
    pub(super) voice: Voice,
    pub(super) delay: Duration,
    pub(super) message: Option<String>,
    pub(super) said: String,
    kept: usize,
    source: Source,
}

enum Source {
    Text { text: String, at: usize, size: usize },
    Words { sent: u32, total: u32, size: usize },
    Numbers { sent: u32, to: u32 },
}

/// How many bytes a chunk has when nothing else is wished.
const PIECE: usize = 40;
/// How many bytes of a message are said before it is kept again.
const KEPT: usize = 2048;
/// A longer word is cut.
const LONGEST_WORD: usize = 400;
/// What an answer of a wished length is made of.
const WORDS: [&str; 16] = [
    "the", "agent", "answers", "word", "by", "word", "so", "that", "a", "client", "sees", "a", "stream",
    "of", "small", "chunks",
];

impl Stream {
    fn new(voice: Voice, source: Source) -> Self {
        Self { voice, delay: Duration::ZERO, message: None, said: String::new(), kept: 0, source }
    }

    /// The text in pieces of about `size` bytes, cut between words.
    pub(super) fn text(voice: Voice, text: impl Into<String>, size: Option<usize>) -> Self {
        Self::new(voice, Source::Text { text: text.into(), at: 0, size: size.unwrap_or(PIECE).max(1) })
    }

    /// Exactly `total` pieces; each of exactly `size` bytes if that is not 0.
    pub(super) fn words(total: u32, size: usize) -> Self {
        Self::new(Voice::Agent, Source::Words { sent: 0, total, size })
    }

    /// The numbers from 1 to `to`.
    pub(super) fn numbers(to: u32) -> Self {
        Self::new(Voice::Agent, Source::Numbers { sent: 0, to })
    }

    /// A message whose pieces come from outside.
    pub(super) fn open(voice: Voice, message: String) -> Self {
        let source = Source::Text { text: String::new(), at: 0, size: PIECE };
        Self { message: Some(message), ..Self::new(voice, source) }
    }

    /// Whether so much was said since the last time that it should be kept.
    pub(super) fn due(&mut self) -> bool {
        let due = self.said.len() >= self.kept + KEPT;
        if due {
            self.kept = self.said.len();
        }
        due
    }

    /// What was said so far, as one update; none when nothing was.
    pub(super) fn update(&self) -> Option<Value> {
        let message = self.message.as_ref().filter(|_| !self.said.is_empty())?;
        let mut update = json!({
            "sessionUpdate": self.voice.update(),
            "content": { "type": "text", "text": self.said },
            "messageId": message,
        });
        if let Some(meta) = self.voice.meta() {
            update["_meta"] = meta;
        }
        Some(update)
    }

    pub(super) fn every(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// The next piece as large as `chunks` says, and whether another one follows.
    pub(super) fn next_piece(&mut self, chunks: Chunks) -> Option<(String, bool)> {
        match (chunks, &mut self.source) {
            (Chunks::Usual, _) => self.piece(),
            (Chunks::Characters, Source::Text { size, .. }) => {
                *size = 0;
                self.piece()
            }
            (Chunks::Characters, _) => self.piece(),
            (Chunks::One, _) => {
                let (mut whole, mut more) = self.piece()?;
                while more {
                    let Some((piece, another)) = self.piece() else { break };
                    whole.push_str(&piece);
                    more = another;
                }
                Some((whole, false))
            }
        }
    }

    /// The next piece, and whether another one follows.
    pub(super) fn piece(&mut self) -> Option<(String, bool)> {
        match &mut self.source {
            Source::Text { text, at, size } => {
                let rest = &text[*at..];
                if rest.is_empty() {
                    return None;
                }
                let end = match *size {
                    0 => rest.chars().next().map_or(0, char::len_utf8),
                    size => cut(rest, size),
                };
                let piece = rest[..end].to_owned();
                *at += end;
                Some((piece, *at < text.len()))
            }
            Source::Words { sent, total, size } => {
                if sent >= total {
                    return None;
                }
                let mut piece = String::with_capacity(*size + 8);
                piece.push_str(WORDS[*sent as usize % WORDS.len()]);
                piece.push(' ');
                if *size > 0 {
                    while piece.len() < *size {
                        piece.push_str(WORDS[piece.len() % WORDS.len()]);
                        piece.push(' ');
                    }
                    piece.truncate(*size);
                }
                *sent += 1;
                Some((piece, sent < total))
            }
            Source::Numbers { sent, to } => {
                if sent >= to {
                    return None;
                }
                *sent += 1;
                Some((format!("{sent} "), sent < to))
            }
        }
    }
}

/// Where to cut the first piece off: between words, so that a word is always found whole in one chunk, unless
/// the word itself is very long.
fn cut(text: &str, size: usize) -> usize {
    if text.len() <= size {
        return text.len();
    }
    let boundary = |mut at: usize| {
        while !text.is_char_boundary(at) {
            at += 1;
        }
        at
    };
    let limit = boundary(size);
    let after_space = |at: usize| at + text[at..].chars().next().map_or(0, char::len_utf8);
    if let Some(space) = text[..limit].rfind(char::is_whitespace).filter(|space| *space > 0) {
        return after_space(space);
    }
    let longest = boundary(text.len().min(limit + LONGEST_WORD));
    text[limit..longest].find(char::is_whitespace).map_or(longest, |more| after_space(limit + more))
}
