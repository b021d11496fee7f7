//! The payloads besides events: tasks, their states and results, permission, control, dead letters.

use acp_proxy::event::{TurnEnd, VERSION};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::error::NatsRefusal;

/// A task as it was submitted.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Task {
    /// The version of the payload.
    pub v: u32,
    /// The task's id, chosen by who submits it. The same id is never done twice.
    pub id: String,
    /// The prompt: text, or a list of content blocks.
    pub prompt: Prompt,
    /// The session to go on with; without it a new one is opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The session's folder, absolute; without it the one that the session had, or else the proxy's. A proxy may have one
    /// for all sessions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// MCP servers for the session, as `session/new` has them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mcp_servers: Vec<Box<RawValue>>,
    /// A subject to which the result is sent too, without being stored there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<String>,
}

/// What is asked.
#[derive(Clone, Debug)]
pub enum Prompt {
    /// Plain text.
    Text(String),
    /// Content blocks.
    Blocks(Vec<Box<RawValue>>),
}

impl Serialize for Prompt {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Prompt::Text(text) => serializer.serialize_str(text),
            Prompt::Blocks(blocks) => blocks.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Prompt {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        let custom = |error: serde_json::Error| serde::de::Error::custom(error);
        match raw.get().as_bytes().first() {
            Some(b'"') => serde_json::from_str(raw.get()).map(Prompt::Text).map_err(custom),
            Some(b'[') => serde_json::from_str(raw.get()).map(Prompt::Blocks).map_err(custom),
            _ => Err(serde::de::Error::custom("prompt must be text or a list of content blocks")),
        }
    }
}

/// Why a payload is no task.
#[derive(Debug, thiserror::Error)]
pub enum TaskError {
    /// Not the form of a task.
    #[error("not a task: {0}")]
    Form(#[from] serde_json::Error),
    /// Another version.
    #[error("the task has version {0}, and this proxy takes version {VERSION}")]
    Version(u32),
    /// A field that cannot be used.
    #[error("the task's {0} cannot be used: {1}")]
    Field(&'static str, String),
}

impl Task {
    /// Reads a task.
    pub fn parse(json: &[u8]) -> Result<Task, TaskError> {
        #[derive(Deserialize)]
        struct Head {
            v: u32,
        }
        let head: Head = serde_json::from_slice(json)?;
        if head.v != VERSION {
            return Err(TaskError::Version(head.v));
        }
        let task: Task = serde_json::from_slice(json)?;
        task.check()?;
        Ok(task)
    }

    fn check(&self) -> Result<(), TaskError> {
        let wrong = |field, why: &str| Err(TaskError::Field(field, why.to_owned()));
        if !is_id(&self.id) {
            return wrong("id", "it must have 1 to 512 bytes");
        }
        if self.cwd.as_ref().is_some_and(|cwd| !cwd.starts_with('/')) {
            return wrong("cwd", "it is not absolute");
        }
        if self.session.as_ref().is_some_and(String::is_empty) {
            return wrong("session", "it is empty");
        }
        if matches!(&self.prompt, Prompt::Blocks(blocks) if blocks.is_empty()) {
            return wrong("prompt", "it is empty");
        }
        match self.reply_to.as_deref().map(for_replies) {
            Some(Err(why)) => wrong("replyTo", why),
            _ => Ok(()),
        }
    }
}

/// Who waits for the end of a task, as far as its payload says that: the rest of it may be no task.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Waiting {
    pub(super) task: String,
    pub(super) reply_to: Option<String>,
}

impl Waiting {
    /// Reads as much of a payload, whatever else is wrong with it.
    pub(super) fn read(json: &[u8]) -> Option<Waiting> {
        #[derive(Deserialize)]
        struct Named {
            id: String,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Answered {
            reply_to: String,
        }
        let Named { id: task } =
            serde_json::from_slice(json).ok().filter(|named: &Named| is_id(&named.id))?;
        let answered = serde_json::from_slice(json).ok().map(|Answered { reply_to }| reply_to);
        Some(Waiting { task, reply_to: answered.filter(|subject| for_replies(subject).is_ok()) })
    }
}

/// The longest id of a task.
const MAX_ID_BYTES: usize = 512;

fn is_id(text: &str) -> bool {
    !text.is_empty() && text.len() <= MAX_ID_BYTES
}

/// Whether a result may be sent to a subject.
fn for_replies(subject: &str) -> Result<(), &'static str> {
    if !is_subject(subject) {
        return Err("it is no subject");
    }
    // The proxy may publish there, and whoever submits tasks must not have that from it.
    if RESERVED.iter().any(|beginning| subject.starts_with(beginning)) {
        return Err("subjects that begin with $, acp.v1. or agent. are not for replies");
    }
    Ok(())
}

/// The server's own subjects, and ours in both styles.
const RESERVED: [&str; 3] = ["$", "acp.v1.", "agent."];

fn is_subject(text: &str) -> bool {
    text.len() < 1024
        && !text.contains(['*', '>', ' ', '\t', '\r', '\n', '\0'])
        && text.split('.').all(|token| !token.is_empty())
}

/// Where a task stands. The first one of a task is its claim: whoever stores it does the task.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Status {
    /// The version of the payload.
    pub v: u32,
    /// The task.
    pub task: String,
    /// Whose.
    pub agent: String,
    /// Where it stands.
    pub state: TaskState,
    /// The session, once there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The proxy that says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy: Option<String>,
    /// When, in milliseconds since 1970.
    pub at: u64,
}

/// Where a task stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskState {
    /// Its prompt is being sent.
    Begun,
    /// It was taken back before it began.
    Withdrawn,
    /// Its result is stored.
    Ended,
}

/// What came of a task.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskResult {
    /// The version of the payload.
    pub v: u32,
    /// The task.
    pub task: String,
    /// Whose.
    pub agent: String,
    /// The session that it was done in, if it got that far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// When, in milliseconds since 1970.
    pub at: u64,
    /// How the turn ended: as in the event `turn_end`.
    pub stop_reason: String,
    /// Bytes of the agent's text.
    pub length: u64,
    /// Its SHA-256, in hexadecimal.
    pub sha256: String,
    /// The agent's whole answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Box<RawValue>>,
    /// What went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Box<RawValue>>,
    /// Files that were made or changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<Box<RawValue>>,
}

impl TaskResult {
    /// The result of a task whose turn ended like this.
    #[must_use]
    pub fn of(task: &str, agent: &str, session: Option<String>, at: u64, end: TurnEnd) -> TaskResult {
        let TurnEnd { stop_reason, length, sha256, result, error, artifacts } = end;
        let (task, agent) = (task.to_owned(), agent.to_owned());
        TaskResult {
            v: VERSION,
            task,
            agent,
            session,
            at,
            stop_reason,
            length,
            sha256,
            result,
            error,
            artifacts,
        }
    }
}

/// A request for permission.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PermissionAsk {
    /// The version of the payload.
    pub v: u32,
    /// The request's id, for answers that come by way of control.
    pub id: String,
    /// The session.
    pub session: String,
    /// The task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// What it is about, in words.
    pub title: String,
    /// The tool's kind, at its most dangerous.
    pub kind: String,
    /// Every command and path that a yes is about: the title is the agent's own word.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subjects: Vec<String>,
    /// What can be answered.
    pub options: Vec<AskOption>,
    /// Until when, in milliseconds since 1970. Afterwards the answer is no.
    pub deadline: u64,
    /// The params of the agent's request, or what else is asked.
    pub params: Box<RawValue>,
}

/// One possible answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskOption {
    /// To be answered.
    pub id: String,
    /// In words.
    pub name: String,
    /// `allow_once`, `allow_always`, `reject_once`, `reject_always`.
    pub kind: String,
}

/// The answer to a request for permission.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PermissionAnswer {
    /// The version of the payload.
    pub v: u32,
    /// The id of an option. `null` turns the request away.
    pub option: Option<String>,
}

/// Something a session is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Control {
    /// The version of the payload.
    pub v: u32,
    /// What to do.
    pub op: Op,
    /// For `cancel`: only if this task runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// For `answer`: the id of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// For `answer`: the option.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub option: Option<String>,
    /// For `task`: the delivery that is handed over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery: Option<Handed>,
}

impl Control {
    /// Tells a session to do this, and nothing more.
    #[must_use]
    pub fn of(op: Op) -> Control {
        Control { v: VERSION, op, task: None, id: None, option: None, delivery: None }
    }

    /// Reads what a session is told; says what is wrong with it.
    pub(super) fn parse(json: &[u8]) -> Result<Control, NatsRefusal> {
        match serde_json::from_slice::<Control>(json) {
            Ok(control) if control.v != VERSION => Err(format!("version {} is not known", control.v).into()),
            Ok(control) => Ok(control),
            Err(error) => Err(format!("not a control message: {error}").into()),
        }
    }
}

/// What a session is told to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Op {
    /// Cancel the running turn.
    Cancel,
    /// Cancel, and close the session.
    Close,
    /// Answer a permission request.
    Answer,
    /// Say who serves the session.
    Who,
    /// Between proxies: do a task that another one was given.
    Task,
}

/// A task that one proxy hands to another.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Handed {
    /// The task as it was submitted.
    pub payload: Box<RawValue>,
    /// Where it is acknowledged.
    pub ack: String,
    /// How often it was delivered.
    pub delivered: u64,
    /// Its trace, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
}

impl Handed {
    /// Whether it is acknowledged where the server wants that for this consumer, and nowhere else: what is said there is
    /// said with the proxy's rights.
    pub(super) fn is_from(&self, stream: &str, consumer: &str) -> bool {
        is_subject(&self.ack)
            && self.ack.starts_with("$JS.ACK.")
            && self.ack.contains(&format!(".{stream}.{consumer}."))
    }
}

/// The answer to [`Control`].
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Controlled {
    /// The version of the payload.
    pub v: u32,
    /// Whether it was done.
    pub ok: bool,
    /// Who did it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy: Option<String>,
    /// The task that runs in the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// Why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A task that cannot be done.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeadLetter {
    /// The version of the payload.
    pub v: u32,
    /// Whose.
    pub agent: String,
    /// The task, as far as its id can be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// Why.
    pub reason: String,
    /// When, in milliseconds since 1970.
    pub at: u64,
    /// How often it was delivered.
    pub delivered: u64,
    /// The payload as text, where it is text …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<String>,
    /// … or in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_is_told_by_what_is_no_task_and_only_where_replies_may_go() {
        let read = |json: &str| Waiting::read(json.as_bytes());
        let waits = |reply_to: Option<&str>| {
            Some(Waiting { task: "a".to_owned(), reply_to: reply_to.map(str::to_owned) })
        };
        assert_eq!(read(r#"{"id":"a"}"#), waits(None));
        assert_eq!(read(r#"{"v":7,"id":"a","prompt":[],"more":1,"replyTo":"b.c"}"#), waits(Some("b.c")));
        for subject in
            ["\"$JS.API.STREAM.PURGE.ACP_EVENTS\"", "\"acp.v1.task.b.result\"", "\"a.>\"", "7", "null"]
        {
            assert_eq!(read(&format!(r#"{{"id":"a","replyTo":{subject}}}"#)), waits(None), "{subject}");
        }
        let long = format!(r#"{{"id":"{}"}}"#, "a".repeat(513));
        for nobody in ["", "[]", r#"{"v":1}"#, r#"{"id":7}"#, r#"{"id":""}"#, r#"{"id":"a"} more"#, &long] {
            assert_eq!(read(nobody), None, "{nobody}");
        }
    }
}
