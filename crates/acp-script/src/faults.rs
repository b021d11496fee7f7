//! Faults: small, named lies about a conversation, as data.
//!
//! A [`Fault`] says which frames it concerns (way, kind, method, pattern, count, chance) and what happens to
//! them ([`FaultAction`]). A [`Faults`] engine applies a list of them to what one side of a conversation, its *owner*, says
//! and hears. The owner is an agent or a client. The engine is as pure as the agent: frames and time in, [`Passage`]s out.
//! It knows JSON-RPC and nothing else.

use std::collections::BTreeMap;
use std::time::Duration;

use acp_match::Pattern;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

mod chance;
mod edit;
mod engine;
mod garble;
mod names;
mod select;
mod spec;
#[cfg(test)]
mod tests;

pub use engine::{Faults, Passage};
pub(crate) use select::Seen;
pub use spec::{SpecError, parse_client_spec, parse_spec};

/// One fault.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Fault {
    /// Which frames.
    #[serde(flatten)]
    pub select: Select,
    /// What happens to them, in this order.
    pub r#do: Vec<FaultAction>,
}

/// Which frames a fault concerns. What is left out does not matter.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Select {
    /// Instead of a frame: the start of the connection, or the end of the other side's output.
    pub at: Option<At>,
    /// Which way the frame travels, as the owner of the faults sees it; `out` without it.
    #[serde(default)]
    pub on: FrameWay,
    /// What the frame is.
    pub kind: Option<FrameKind>,
    /// The method of a request or notification: one of these.
    #[serde(default, deserialize_with = "one_or_many")]
    pub method: Vec<String>,
    /// The method of the request that this response answers: one of these.
    #[serde(default, deserialize_with = "one_or_many")]
    pub to: Vec<String>,
    /// The kind of a `session/update`: one of these.
    #[serde(default, deserialize_with = "one_or_many")]
    pub update: Vec<String>,
    /// The frame matches this pattern.
    #[serde(default, deserialize_with = "pattern")]
    pub when: Option<Pattern>,
    /// The frame has nothing at these pointers.
    #[serde(default)]
    pub lacks: Vec<String>,
    /// The value at the pointer is that of the variable.
    #[serde(default)]
    pub same: BTreeMap<String, String>,
    /// These variables are set.
    #[serde(default, deserialize_with = "one_or_many")]
    pub has: Vec<String>,
    /// These variables are not set.
    #[serde(default, deserialize_with = "one_or_many")]
    pub has_not: Vec<String>,
    /// A response that answers no request.
    #[serde(default)]
    pub stray: bool,
    /// The frame is longer than this many bytes.
    pub longer: Option<usize>,
    /// The frame is shorter than this many bytes; an empty line is shorter than one.
    pub shorter: Option<usize>,
    /// Let this many pass first.
    #[serde(default)]
    pub skip: u64,
    /// Concern only this many.
    pub times: Option<u64>,
    /// Concern each with this probability.
    pub chance: Option<f64>,
}

/// Which way a frame travels, as the owner of the faults sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FrameWay {
    /// From the owner to the other side.
    #[default]
    Out,
    /// From the other side to the owner.
    In,
}

/// Moments without a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum At {
    /// Before anything else.
    Start,
    /// When the other side has ended its output.
    End,
}

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FrameKind {
    /// Has a method and an id.
    Request,
    /// Has a method and no id.
    Notification,
    /// A result or an error.
    Response,
    /// A response with a result.
    Result,
    /// A response with an error.
    Error,
    /// An array.
    Batch,
    /// Anything else.
    Malformed,
}

/// What happens to a frame.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FaultAction {
    /// Values at JSON pointers; missing objects are made, `-` appends, `*` means every element. Strings may hold
    /// `${variables}`.
    Set(BTreeMap<String, Value>),
    /// Takes away what is at these pointers.
    Remove(Vec<String>),
    /// Puts so many more items at the end of the lists at the pointers; `${n}` in an item is its number.
    Fill(BTreeMap<String, Filling>),
    /// The frame never arrives.
    Drop,
    /// So many more copies.
    Duplicate(u32),
    /// The frame arrives later, others overtake it.
    Delay(Time),
    /// The frame arrives after the next frame that this selects.
    Hold(Box<Select>),
    /// The frame arrives after the next one.
    Swap,
    /// Nothing arrives for so long, beginning with this frame.
    Stall(Time),
    /// Nothing arrives any more, beginning with this frame.
    Hang,
    /// These frames (objects) or raw lines (strings) come before it.
    Before(Vec<Value>),
    /// These frames (objects) or raw lines (strings) come after it.
    After(Vec<Value>),
    /// This text in its place, with a newline.
    Raw(String),
    /// These bytes in its place, base64, as they are.
    Bytes(String),
    /// A line of so many random bytes before it.
    Garbage(usize),
    /// Written in so many pieces.
    Split(usize),
    /// Written together with the next frames, so many in all.
    Coalesce(usize),
    /// Cut off after so many bytes, with a newline.
    Truncate(usize),
    /// A byte inside is not UTF-8.
    BadUtf8,
    /// In Latin-1 instead of UTF-8; what that does not have becomes a question mark. A frame of ASCII stays as it is.
    Latin1,
    /// Padded with spaces to so many bytes.
    Huge(usize),
    /// With this text before it, on the same line.
    Prefix(String),
    /// With every character outside of ASCII as an escape: legal.
    Ascii,
    /// With a carriage return before its newline: legal.
    Crlf,
    /// With the members of its objects in reverse order: legal.
    Reverse,
    /// Written over several lines.
    Pretty,
    /// Wrapped into an array.
    Batch,
    /// Without its newline.
    Glue,
    /// Written to standard error instead.
    Stderr,
    /// A line on standard error before it.
    Log(String),
    /// Request ids in another form; the answers find their way back.
    Ids(IdStyle),
    /// Keeps the values at the pointers as variables.
    Capture(BTreeMap<String, String>),
    /// Keeps these values as variables.
    Let(BTreeMap<String, Value>),
    /// Unsets these variables.
    Forget(Vec<String>),
    /// The request never arrives; whoever sent it gets this `{result}` or `{error}`.
    Answer(Value),
    /// The request arrives, but whoever sent it gets this `{result}` or `{error}` at once.
    Presume(Value),
    /// The owner's process ends with this code.
    Exit(u8),
    /// The connection ends.
    Hangup,
    /// A child process is started that outlives the agent; for agents only.
    Child,
    /// A grandchild writes this line to the agent's standard output; for agents only.
    Grandchild(String),
}

impl FaultAction {
    /// Whether it changes how a frame is written, and nothing of what it says.
    pub(crate) fn is_about_writing(&self) -> bool {
        matches!(
            self,
            FaultAction::Ascii
                | FaultAction::Crlf
                | FaultAction::Reverse
                | FaultAction::Huge(_)
                | FaultAction::Split(_)
                | FaultAction::Coalesce(_)
        )
    }
}

/// What a list is filled with.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Filling {
    /// How many items.
    pub count: usize,
    /// What each of them is.
    pub with: Value,
}

/// Another form of request ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum IdStyle {
    /// `3` becomes `"3"`: legal.
    Text,
    /// `3` becomes `997`, counted down from 1000: legal.
    Down,
    /// `3` becomes `3.5`.
    Fraction,
    /// Always null.
    Null,
    /// `true`.
    Bool,
    /// `{"id": 3}`
    Object,
}

/// A text that cannot be read as a time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a time: {problem}")]
pub struct FaultTimeError {
    text: String,
    problem: &'static str,
}

/// A duration written as `250ms`, `2s`, or a number of milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Time(pub Duration);

impl Time {
    /// Reads `250ms`, `1.5s`, `1m`, or a bare number of milliseconds.
    pub fn parse(text: &str) -> Result<Self, FaultTimeError> {
        let wrong = |problem| FaultTimeError { text: text.to_owned(), problem };
        let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = text.split_at(split);
        let scale = match unit.trim() {
            "" | "ms" => 0.001,
            "s" => 1.0,
            "m" | "min" => 60.0,
            _ => return Err(wrong("it has an unknown unit; use ms, s or m")),
        };
        let number: f64 = number.parse().map_err(|_| wrong("try 250ms or 2s"))?;
        Duration::try_from_secs_f64(number * scale).map(Self).map_err(|_| wrong("it is too long"))
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(text) => Self::parse(&text).map_err(serde::de::Error::custom),
            Value::Number(millis) => Self::parse(&millis.to_string()).map_err(serde::de::Error::custom),
            other => Err(serde::de::Error::custom(format!("{other} is not a time; try \"250ms\""))),
        }
    }
}

fn one_or_many<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::String(one) => Ok(vec![one]),
        many => serde_json::from_value(many).map_err(serde::de::Error::custom),
    }
}

fn pattern<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Pattern>, D::Error> {
    let value = Value::deserialize(deserializer)?;
    Pattern::compile(&value).map(Some).map_err(serde::de::Error::custom)
}
