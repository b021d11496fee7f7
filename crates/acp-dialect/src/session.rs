//! What a translator remembers of a session.
//!
//! A turn is owned by the id of its prompt. Prompts that overlap wait behind it, so an answer can end only its own
//! turn.

use std::collections::{BTreeMap, VecDeque};

use acp_proto::tool_status;
use acp_rpc::Id;
use serde_json::Value;

/// What is remembered of a session is bounded: tool calls, …
const MOST_TOOLS: usize = 4096;
/// … files that a turn wrote, …
const MOST_ARTIFACTS: usize = 4096;
/// … prompts that wait for the end of a turn, …
const MOST_WAITING: usize = 1024;
/// … questions that wait for a client, …
pub(crate) const MOST_ASKS: usize = 1024;
/// … and the bytes of a history.
pub(crate) const MOST_HISTORY: usize = 16 * 1024 * 1024;

/// One session, by its canonical id.
#[derive(Debug, Default)]
pub(crate) struct Session {
    pub(crate) turn: Option<Turn>,
    /// Prompts that were sent while a turn was open: refused by most agents, worked on later by some.
    waiting: VecDeque<Id>,
    /// The number of the next chunk, where a form counts them.
    pub(crate) index: u64,
    pub(crate) tools: BTreeMap<String, Tool>,
    /// Mode ids, as the agent wrote them.
    pub(crate) modes: Vec<String>,
    pub(crate) mode: Option<String>,
    /// A `2025.1` client wants to be asked and cannot be: what needs permission is refused, whatever the setting says.
    pub(crate) must_ask: bool,
    pub(crate) replay: Option<Replay>,
    /// Permission requests shown to a client as notifications, oldest first.
    pub(crate) asks: VecDeque<Ask>,
}

/// A prompt that is being worked on.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    /// The request that it answers.
    owner: Option<Id>,
    pub(crate) cancelled: bool,
    /// How many bytes of agent text were streamed.
    pub(crate) streamed: usize,
    /// The text itself, or its beginning, where the prompt's answer repeats it.
    pub(crate) text: String,
    pub(crate) truncated: bool,
    /// Files that were written.
    pub(crate) artifacts: Vec<String>,
    /// A tool call failed, and nothing was said or done since.
    pub(crate) failed_tool: bool,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Tool {
    /// What people are shown.
    pub(crate) name: String,
    /// What the tool itself is called, where that was said.
    pub(crate) tool: String,
    pub(crate) kind: String,
    pub(crate) status: String,
}

impl Tool {
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.status.as_str(), tool_status::PENDING | tool_status::IN_PROGRESS)
    }
}

/// A history that is being replayed, collected for a form that gives it in one piece.
#[derive(Debug, Default)]
pub(crate) struct Replay {
    pub(crate) messages: Vec<SpokenMessage>,
    /// Updates that are no plain text.
    pub(crate) others: Vec<Value>,
    bytes: usize,
    /// There was more than is kept.
    pub(crate) truncated: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SpokenMessage {
    pub(crate) by_user: bool,
    pub(crate) text: String,
    /// The message that it belongs to, if that was said.
    message: Option<String>,
}

impl Replay {
    /// Adds text. Consecutive text of one speaker is one message, as an answer is; but what a person said in two prompts
    /// stays two, even where nothing was answered in between.
    pub(crate) fn say(&mut self, by_user: bool, text: &str, message: Option<&str>) {
        if !self.fits(text.len()) {
            return;
        }
        let message = message.map(str::to_owned);
        let goes_on = |last: &SpokenMessage| {
            !by_user || last.message.is_none() || message.is_none() || last.message == message
        };
        match self.messages.last_mut() {
            Some(last) if last.by_user == by_user && goes_on(last) => last.text.push_str(text),
            _ => self.messages.push(SpokenMessage { by_user, text: text.to_owned(), message }),
        }
    }

    /// Adds an update that is no plain text.
    pub(crate) fn keep(&mut self, update: Value) {
        if self.fits(update.to_string().len()) {
            self.others.push(update);
        }
    }

    /// Whether so much more may be kept; from the first time on that it may not, nothing more is.
    fn fits(&mut self, bytes: usize) -> bool {
        self.bytes = self.bytes.saturating_add(bytes);
        self.truncated |= self.bytes > MOST_HISTORY;
        !self.truncated
    }
}

/// A permission request waiting for a client that answers by notification.
#[derive(Debug)]
pub(crate) struct Ask {
    pub(crate) id: Id,
    pub(crate) options: Vec<Value>,
}

impl Turn {
    /// Whether an answer says again what was streamed, as far as that is known.
    pub(crate) fn is_repeated_by(&self, answer: &str) -> bool {
        answer.len() == self.streamed && answer.starts_with(&self.text)
    }
}

impl Session {
    /// Begins the turn of a prompt; while another one is open, its turn is still to come.
    pub(crate) fn begin_turn(&mut self, id: &Id) {
        if self.turn.is_none() {
            self.turn = Some(Turn { owner: Some(id.clone()), ..Turn::default() });
            self.index = 0;
        } else if self.waiting.len() < MOST_WAITING {
            self.waiting.push_back(id.clone());
        }
    }

    /// Ends the turn of a prompt, if it has begun; finished tool calls are forgotten with it, and the next prompt has
    /// its turn.
    pub(crate) fn end_turn(&mut self, id: &Id) -> Option<Turn> {
        self.waiting.retain(|waiting| waiting != id);
        let ended = self.turn.take_if(|turn| turn.owner.as_ref() == Some(id))?;
        self.tools.retain(|_, tool| tool.is_open());
        if let Some(next) = self.waiting.pop_front() {
            self.begin_turn(&next);
        }
        Some(ended)
    }

    /// The mode id of the agent that is spelled like `name`, whatever the case.
    pub(crate) fn spelled(&self, name: &str) -> String {
        self.modes.iter().find(|id| id.eq_ignore_ascii_case(name)).cloned().unwrap_or_else(|| name.to_owned())
    }

    /// The mode of the agent that a `2025.1` client means: one of that name, or one that other agents call differently.
    pub(crate) fn meant(&self, name: &str) -> Option<String> {
        let others: &[&str] = match name.to_ascii_lowercase().as_str() {
            "agent" => &["code", "default", "normal"],
            "ask" => &["plan", "planning", "read-only"],
            _ => &[],
        };
        let known = |name: &str| self.modes.iter().find(|id| id.eq_ignore_ascii_case(name)).cloned();
        known(name).or_else(|| others.iter().find_map(|other| known(other)))
    }

    /// Counts agent text of the turn and keeps up to `limit` bytes of its beginning.
    pub(crate) fn said(&mut self, text: &str, limit: usize) {
        let Some(turn) = self.turn.as_mut() else { return };
        turn.streamed += text.len();
        turn.failed_tool = false;
        turn.truncated |= turn.text.len() + text.len() > limit;
        if !turn.truncated {
            turn.text.push_str(text);
        }
    }

    /// What is known of a tool call, to be added to.
    pub(crate) fn tool(&mut self, id: &str) -> &mut Tool {
        if self.tools.len() >= MOST_TOOLS && !self.tools.contains_key(id) {
            self.tools.retain(|_, tool| tool.is_open());
            while self.tools.len() > MOST_TOOLS / 2 {
                self.tools.pop_first();
            }
        }
        self.tools.entry(id.to_owned()).or_default()
    }

    pub(crate) fn wrote(&mut self, path: &str) {
        if let Some(turn) = self.turn.as_mut()
            && turn.artifacts.len() < MOST_ARTIFACTS
            && !turn.artifacts.iter().any(|known| known == path)
        {
            turn.artifacts.push(path.to_owned());
        }
    }
}
