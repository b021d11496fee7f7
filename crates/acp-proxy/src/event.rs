//! What happened in a session, as values: the one model that the journal keeps and NATS carries.

use std::fmt;

use acp_rpc::Direction;
use serde::ser::SerializeStruct;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;

/// The version of the payloads. A reader refuses a newer one.
pub const VERSION: u32 = 1;

/// One thing that happened in a session.
///
/// Its place is `(epoch, seq)`: a proxy that takes a session over begins a greater epoch, and numbers from one.
#[derive(Clone, Debug)]
pub struct Event {
    /// The session, as the agent names it.
    pub session: String,
    /// Which taking over of the session.
    pub epoch: u64,
    /// The number within the epoch, from one, without gaps.
    pub seq: u64,
    /// When, in milliseconds since 1970.
    pub at: u64,
    /// The task that the turn was begun for, if there is one.
    pub task: Option<String>,
    /// What.
    pub body: Body,
}

/// What happened.
#[derive(Clone, Debug)]
pub enum Body {
    /// The session was opened here.
    Session(SessionOpened),
    /// A prompt was sent.
    TurnStart(TurnStart),
    /// Text, of one message and one kind, of one chunk or several.
    Text(Text),
    /// Any other `session/update`, as it came.
    Update(Update),
    /// The agent asks for permission.
    Permission(Permission),
    /// The answer to that.
    Decision(DecisionEvent),
    /// The turn is over.
    TurnEnd(TurnEnd),
    /// Anything else that was said about the session.
    Frame(Passed),
    /// The session is no longer served here.
    Closed(SessionClosed),
    /// A piece of an event that is too large for one message.
    Part(Part),
}

/// How a session came here.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionOpened {
    /// The method: `session/new`, `session/load`, `session/resume`.
    pub method: String,
    /// How many updates of the session's history the agent told again. They are not events: they were, before.
    #[serde(default)]
    pub replayed: u64,
    /// The params of the request.
    pub params: Box<RawValue>,
    /// The agent's answer.
    pub result: Box<RawValue>,
}

/// The beginning of a turn.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TurnStart {
    /// The prompt's content blocks.
    pub prompt: Box<RawValue>,
}

/// Whose text it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The agent's answer: `agent_message_chunk`.
    Agent,
    /// The agent's thoughts: `agent_thought_chunk`.
    Thought,
    /// The user's words, told back: `user_message_chunk`.
    User,
}

/// A piece of text. The pieces of a turn, one after another, are its text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Text {
    /// Whose.
    pub role: Role,
    /// The message it belongs to, where the agent says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
    /// The text.
    pub text: String,
    /// Of how many chunks it was made; 0 where a chunk was cut and its end comes later.
    pub chunks: u64,
}

/// A `session/update` that is no plain text.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Update {
    /// The update, as it came.
    pub update: Box<RawValue>,
    /// The `_meta` beside it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Box<RawValue>>,
}

/// A permission request.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Permission {
    /// Its id, as JSON text; the decision has the same.
    pub id: String,
    /// The params of `session/request_permission`.
    pub params: Box<RawValue>,
}

/// Who answered a permission request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decider {
    /// The rules of the proxy.
    Policy,
    /// Whoever was asked over NATS, or nobody there.
    Nats,
    /// The client that is joined to the agent.
    #[default]
    Client,
}

/// The answer to a permission request.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DecisionEvent {
    /// The id of the request.
    pub id: String,
    /// Who.
    #[serde(default)]
    pub by: Decider,
    /// Why, where that is known: which rule, or what became of asking.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Box<RawValue>>,
    /// Or the error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Box<RawValue>>,
}

/// The end of a turn. A reader who has joined the agent's text can verify it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnEnd {
    /// The protocol's stop reason; or `error`, when the agent answered with one; or [`TurnEnd::INTERRUPTED`].
    pub stop_reason: String,
    /// How many bytes of text the agent's messages had in this turn.
    pub length: u64,
    /// The SHA-256 of that text, in hexadecimal.
    pub sha256: String,
    /// The agent's whole answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Box<RawValue>>,
    /// The agent's error, or why there is no answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Box<RawValue>>,
    /// Files that the turn made or changed, as far as the agent told.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<Box<RawValue>>,
}

impl TurnEnd {
    /// The stop reason of a turn whose end nobody saw.
    pub const INTERRUPTED: &'static str = "interrupted";
    /// The stop reason of a turn that the agent answered with an error.
    pub const ERROR: &'static str = "error";
}

/// A frame that has no event of its own.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Passed {
    /// Which way: `c2a`, `a2c`.
    pub dir: Direction,
    /// The frame; a line that is none, as text.
    pub frame: Box<RawValue>,
}

/// The end of a session's service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionClosed {
    /// Why.
    pub reason: String,
}

/// A piece of a large event: the `data` of all `count` pieces, one after another, is the JSON text of its `data`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// The kind of the whole.
    pub of: String,
    /// Which piece, from zero.
    pub index: u64,
    /// How many there are.
    pub count: u64,
    /// The piece.
    pub text: String,
}

/// Why a payload is no event.
#[derive(Debug, thiserror::Error)]
pub enum EventError {
    /// Not the form of an event.
    #[error("not an event: {0}")]
    Form(#[from] serde_json::Error),
    /// Written by a newer version.
    #[error("the event has version {0}, and this program reads version {VERSION}; update it")]
    Version(u32),
    /// A kind that this version does not know.
    #[error("there is no kind of event {0:?} in version {VERSION}")]
    Kind(String),
}

impl Event {
    /// Reads an event from its JSON text.
    pub fn parse(json: &[u8]) -> Result<Event, EventError> {
        #[derive(Deserialize)]
        struct Wire<'a> {
            v: u32,
            session: String,
            epoch: u64,
            seq: u64,
            at: u64,
            #[serde(default)]
            task: Option<String>,
            kind: String,
            #[serde(borrow)]
            data: &'a RawValue,
        }
        let wire: Wire<'_> = serde_json::from_slice(json)?;
        if wire.v != VERSION {
            return Err(EventError::Version(wire.v));
        }
        let body = Body::parse(&wire.kind, wire.data.get())?;
        let Wire { session, epoch, seq, at, task, .. } = wire;
        Ok(Event { session, epoch, seq, at, task, body })
    }

    /// The event as one line of JSON, without a line end.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(256);
        self.write(&mut out);
        out
    }

    /// Appends the event as one line of JSON, without a line end.
    pub fn write(&self, out: &mut Vec<u8>) {
        let begin = out.len();
        // Writing to memory does not fail, and nothing in an event has keys that are not text.
        let _ = serde_json::to_writer(&mut *out, self);
        // What a peer sent is kept as it came, and it may have sent JSON of several lines. In JSON, line ends are nothing
        // but white space.
        for byte in &mut out[begin..] {
            if matches!(byte, b'\n' | b'\r') {
                *byte = b' ';
            }
        }
    }

    /// Its place in the session.
    #[must_use]
    pub fn place(&self) -> (u64, u64) {
        (self.epoch, self.seq)
    }
}

/// Which events of a session a reader has had. One that was stored before another that was lost on the way is taken back
/// and stored again: who reads along gets it twice.
#[derive(Debug, Default)]
pub struct Seen {
    epoch: u64,
    /// The first and the last of each run of numbers, in order.
    runs: Vec<(u64, u64)>,
}

impl Seen {
    /// Whether an event comes for the first time.
    pub fn is_new(&mut self, event: &Event) -> bool {
        let (epoch, seq) = event.place();
        if self.epoch != epoch {
            (self.epoch, self.runs) = (epoch, Vec::new());
        }
        let next = self.runs.partition_point(|(first, _)| *first <= seq);
        let (before, after) = self.runs.split_at_mut(next);
        match (before.last_mut(), after.first_mut()) {
            (Some((_, last)), _) if *last >= seq => return false,
            (Some((_, last)), Some((first, end))) if *last + 1 == seq && *first == seq + 1 => {
                *last = *end;
                self.runs.remove(next);
            }
            (Some((_, last)), _) if *last + 1 == seq => *last = seq,
            (_, Some((first, _))) if *first == seq + 1 => *first = seq,
            _ => self.runs.insert(next, (seq, seq)),
        }
        true
    }
}

impl Serialize for Event {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut wire = serializer.serialize_struct("Event", 8)?;
        wire.serialize_field("v", &VERSION)?;
        wire.serialize_field("session", &self.session)?;
        wire.serialize_field("epoch", &self.epoch)?;
        wire.serialize_field("seq", &self.seq)?;
        wire.serialize_field("at", &self.at)?;
        match &self.task {
            Some(task) => wire.serialize_field("task", task)?,
            None => wire.skip_field("task")?,
        }
        wire.serialize_field("kind", self.body.kind())?;
        match &self.body {
            Body::Session(data) => wire.serialize_field("data", data)?,
            Body::TurnStart(data) => wire.serialize_field("data", data)?,
            Body::Text(data) => wire.serialize_field("data", data)?,
            Body::Update(data) => wire.serialize_field("data", data)?,
            Body::Permission(data) => wire.serialize_field("data", data)?,
            Body::Decision(data) => wire.serialize_field("data", data)?,
            Body::TurnEnd(data) => wire.serialize_field("data", data)?,
            Body::Frame(data) => wire.serialize_field("data", data)?,
            Body::Closed(data) => wire.serialize_field("data", data)?,
            Body::Part(data) => wire.serialize_field("data", data)?,
        }
        wire.end()
    }
}

impl Body {
    /// The name of its kind in payloads.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Body::Session(_) => "session",
            Body::TurnStart(_) => "turn_start",
            Body::Text(_) => "text",
            Body::Update(_) => "update",
            Body::Permission(_) => "permission",
            Body::Decision(_) => "decision",
            Body::TurnEnd(_) => "turn_end",
            Body::Frame(_) => "frame",
            Body::Closed(_) => "closed",
            Body::Part(_) => "part",
        }
    }

    /// The JSON text of its `data`.
    #[must_use]
    pub fn to_json(&self) -> String {
        let text = match self {
            Body::Session(data) => serde_json::to_string(data),
            Body::TurnStart(data) => serde_json::to_string(data),
            Body::Text(data) => serde_json::to_string(data),
            Body::Update(data) => serde_json::to_string(data),
            Body::Permission(data) => serde_json::to_string(data),
            Body::Decision(data) => serde_json::to_string(data),
            Body::TurnEnd(data) => serde_json::to_string(data),
            Body::Frame(data) => serde_json::to_string(data),
            Body::Closed(data) => serde_json::to_string(data),
            Body::Part(data) => serde_json::to_string(data),
        };
        text.unwrap_or_default()
    }

    /// Reads what happened from the name of its kind and its JSON text.
    pub fn parse(kind: &str, data: &str) -> Result<Body, EventError> {
        Ok(match kind {
            "session" => Body::Session(serde_json::from_str(data)?),
            "turn_start" => Body::TurnStart(serde_json::from_str(data)?),
            "text" => Body::Text(serde_json::from_str(data)?),
            "update" => Body::Update(serde_json::from_str(data)?),
            "permission" => Body::Permission(serde_json::from_str(data)?),
            "decision" => Body::Decision(serde_json::from_str(data)?),
            "turn_end" => Body::TurnEnd(serde_json::from_str(data)?),
            "frame" => Body::Frame(serde_json::from_str(data)?),
            "closed" => Body::Closed(serde_json::from_str(data)?),
            "part" => Body::Part(serde_json::from_str(data)?),
            other => return Err(EventError::Kind(other.to_owned())),
        })
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.to_json()))
    }
}

/// A value as JSON text.
#[must_use]
pub fn raw(value: &serde_json::Value) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_new_once_in_whatever_order_they_come() {
        let mut seen = Seen::default();
        let mut new = |epoch, seq| {
            let body = Body::Closed(SessionClosed { reason: String::new() });
            seen.is_new(&Event { session: String::new(), epoch, seq, at: 0, task: None, body })
        };
        let first = [4, 5, 8, 9, 5, 6, 7, 8, 9, 10, 3, 1].map(|seq| new(7, seq));
        assert_eq!(first, [true, true, true, true, false, true, true, false, false, true, true, true]);
        assert_eq!([1, 2, 10].map(|seq| new(7, seq)), [false, true, false]);
        assert!(new(8, 1) && !new(8, 1));
        assert_eq!(seen.runs, [(1, 1)]);
    }
}
