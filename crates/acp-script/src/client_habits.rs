//! Legal ways in which clients differ, as data.
//!
//! Everything here is allowed by the protocol; the default is how the conforming client usually is. What can be said as a
//! change of frames ([`crate::faults::Fault`]) is not in this list.

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::client_variants::ClientVariant;

/// What a client can be told to do, as the buttons of an editor.
pub const CLIENT_VERBS: [&str; 17] = [
    "open", "prompt", "answer", "cancel", "close", "reload", "quit", "list", "delete", "logout", "mode",
    "option", "login", "mcp", "attach", "dirs", "elicit",
];

/// How a client goes about its work.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct ClientHabits {
    /// The capabilities that it states, sent as written; without it, all that it has.
    pub states: Option<Value>,
    /// How it answers permission questions.
    pub permission: PermissionAnswers,
    /// What it says where it would reject, and the agent offers nothing to reject with, or the other way round.
    pub without_choice: WithoutChoice,
    /// Whether it shows one question at a time; the others wait.
    pub one_question_at_a_time: bool,
    /// How many sessions it opens at once. It works in the last one.
    pub opens: usize,
    /// Whether it starts the agent once to look at it, and again to work.
    pub looks_first: bool,
    /// Whether it logs in before anybody asks.
    pub authenticates_first: bool,
    /// Whether a read with a limit leaves the last line break away.
    pub partial_reads_drop_last_break: bool,
    /// What a read beyond the end of the file gives.
    pub beyond_the_end: BeyondTheEnd,
    /// Whether commands write to a terminal, which puts a carriage return before each newline.
    pub tty: bool,
    /// Whether it runs no commands, by policy.
    pub refuses_commands: bool,
    /// How many bytes of output it keeps where the agent sets no limit.
    pub output_limit: Option<usize>,
    /// How it answers forms and pages.
    pub elicit: ElicitationAnswers,
    /// How it ends its agent.
    pub ending: AgentEnding,
    /// Verbs that it does not have.
    pub lacks: Vec<String>,
}

impl Default for ClientHabits {
    fn default() -> Self {
        Self {
            states: None,
            permission: PermissionAnswers::Allow,
            without_choice: WithoutChoice::Cancelled,
            one_question_at_a_time: false,
            opens: 1,
            looks_first: false,
            authenticates_first: false,
            partial_reads_drop_last_break: false,
            beyond_the_end: BeyondTheEnd::Empty,
            tty: false,
            refuses_commands: false,
            output_limit: None,
            elicit: ElicitationAnswers::Accept,
            ending: AgentEnding::Patient,
            lacks: Vec::new(),
        }
    }
}

/// How permission questions are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PermissionAnswers {
    /// With the option that allows once, or else for always.
    Allow,
    /// With the option that rejects once, or else for always.
    Reject,
    /// Not at all, until the turn is cancelled.
    Leave,
    /// As cancelled.
    Cancelled,
}

/// What is answered where no option says what the client wants to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum WithoutChoice {
    /// That the question was cancelled.
    Cancelled,
    /// The first option that does not allow more than wanted: one that rejects, or else none.
    Rejects,
}

/// What is beyond the end of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum BeyondTheEnd {
    /// No text.
    Empty,
    /// An error.
    Error,
}

/// How forms and pages are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ElicitationAnswers {
    /// Filled in as the form allows.
    Accept,
    /// With no.
    Decline,
    /// The person turns away.
    Cancel,
}

/// How the agent's process is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum AgentEnding {
    /// Its input ends; it has time; it is told to terminate; it has time again; it is killed.
    Patient,
    /// Its input ends and it is told to terminate, at once.
    Both,
    /// Its input ends, and it is killed soon, without a warning.
    Kill,
    /// It is told to terminate while its input is still open.
    Term,
}

impl ClientHabits {
    /// The habits of all these variants together; an error when they contradict each other.
    pub fn with<'a>(variants: impl IntoIterator<Item = &'a ClientVariant>) -> Result<Self, String> {
        let mut joined: Map<String, Value> = Map::new();
        for (key, value) in variants.into_iter().flat_map(|variant| &variant.client) {
            match (joined.get_mut(key), value) {
                (None, value) => drop(joined.insert(key.clone(), value.clone())),
                (Some(Value::Array(known)), Value::Array(more)) => known.extend(more.iter().cloned()),
                (Some(known), value) if known == value => {}
                (Some(known), value) => return Err(format!("{key:?} cannot be both {known} and {value}")),
            }
        }
        let habits: Self =
            serde_json::from_value(Value::Object(joined)).map_err(|error| error.to_string())?;
        crate::client_defects::check_verbs(&habits.lacks)?;
        if habits.opens == 0 {
            return Err("\"opens\" must be 1 or more: a client without a session does nothing".to_owned());
        }
        Ok(habits)
    }
}
