//! A test, read and checked: what the interpreter runs.

mod client;

pub use client::{
    AgentAnswer, AgentOffer, AnswerBody, ClientLook, ClientStep, ClientTest, DriveWait, PermissionHabit,
    SandboxLink, StubHabits, WhichLaunch, Witness,
};

use crate::json::Json;
use crate::wish::Wordings;
use acp_match::{Path, Vars};
use acp_policy::Policy;
use acp_rules::ClaimId;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::time::Duration;

/// One test file, ready to run.
#[derive(Debug, Clone)]
pub struct Program {
    /// The file name without `.jsont`.
    pub id: String,
    /// The file, as it was named.
    pub file: String,
    /// The test's own title.
    pub title: String,
    /// The test's own description, if it has one.
    pub description: Option<String>,
    /// What an unmet expectation means.
    pub severity: UnmetSeverity,
    /// Links to the specification.
    pub docs: Vec<String>,
    /// Requirements that the test claims to verify, as written.
    pub requirements: Vec<String>,
    /// What the test claims: the known ones of `requirements`, and everything that its steps show. A test without
    /// claims is judged by its severity, as the plain format says.
    pub claims: Vec<ClaimId>,
    /// What the agent must be known to do for the test to make sense, by the names that calibration uses.
    pub needs: Vec<String>,
    /// The test breaks the protocol on purpose, and the protocol does not say that an agent survives that: one that
    /// ends breaks what the test claims, and nothing else.
    pub may_end: bool,
    /// Ids of other kits' checks that mean the same.
    pub aliases: Vec<String>,
    /// Row in the table report.
    pub area: String,
    /// Rules for the scripted model.
    pub model: Vec<Value>,
    /// The dialect that the frames are written in; `None` is the canonical one.
    pub dialect: Option<String>,
    /// Protocol versions that the test is meant for.
    pub protocol_versions: Vec<u64>,
    /// What must hold for the test to apply.
    pub preconditions: Vec<Precondition>,
    /// Files to put into the sandbox.
    pub sandbox: Vec<SandboxFile>,
    /// The capabilities that this test's client offers.
    pub client_capabilities: Value,
    /// What the client's own providers allow.
    pub policy: Policy,
    /// When the runner introduces itself to the agent.
    pub handshake: Handshake,
    /// A pass counts as exercised only when one of these was heard; empty = no such condition.
    pub exercised: Vec<Envelope>,
    /// A part of the file that this version does not understand; the test is then not run.
    pub not_understood: Option<String>,
    /// What happens.
    pub steps: Vec<Step>,
    /// What a test of a client holds besides; a test of an agent has none.
    pub client: Option<Box<ClientTest>>,
}

impl Program {
    /// Whether the verdict comes from requirements. Otherwise it comes from the severity.
    pub fn is_claimed(&self) -> bool {
        !self.claims.is_empty()
    }

    /// Whether the test finds out what an agent can be brought to do.
    pub fn calibrates(&self) -> bool {
        !self.provides().is_empty()
    }
}

/// What an unmet expectation means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UnmetSeverity {
    /// The run fails.
    Required,
    /// The test fails, but a part of it may hold.
    Optional,
    /// Never fails the run.
    Advice,
}

impl UnmetSeverity {
    /// The word used in files and reports.
    pub fn as_str(self) -> &'static str {
        match self {
            UnmetSeverity::Required => "required",
            UnmetSeverity::Optional => "optional",
            UnmetSeverity::Advice => "advice",
        }
    }
}

/// When the runner's own introduction to the agent happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Handshake {
    /// At the first `newSession` step, unless the test introduced itself.
    Lazy,
    /// Before the first step, and again after each restart.
    Always,
    /// Not at all; the test does it.
    Never,
}

/// A file that the sandbox holds when the test begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxFile {
    /// Relative path, checked: it does not leave the sandbox by itself.
    pub path: String,
    /// Its contents.
    pub contents: Vec<u8>,
}

/// A condition for the test to apply.
#[derive(Debug, Clone)]
pub struct Precondition {
    /// What to look at.
    pub subject: Subject,
    /// The path there.
    pub path: Path,
    /// What must stand there.
    pub must_be: Value,
    /// It must not stand there.
    pub is_negated: bool,
}

/// What a precondition looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// The capabilities that the agent declared.
    AgentCapabilities,
    /// The client's capabilities in this test.
    ClientCapabilities,
    /// The agent's whole answer to the introduction.
    Introduction,
    /// The agent's answer to the new session.
    Session,
    /// What the client under test says of itself in its introduction.
    Client,
    /// The driver of the client under test.
    Driver,
}

impl Precondition {
    /// As the file wrote it, for reasons.
    pub fn describe(&self) -> String {
        let source = match self.subject {
            Subject::AgentCapabilities => "agentCap ",
            Subject::ClientCapabilities => "cap client.",
            Subject::Introduction => "agent ",
            Subject::Session => "session ",
            Subject::Client => "client ",
            Subject::Driver => "driver ",
        };
        let must = if self.is_negated { "must not be" } else { "must be" };
        format!("{source}{} {must} {}", self.path, self.must_be)
    }
}

/// One step and where it stands.
#[derive(Debug, Clone)]
pub struct Step {
    /// Line in the file, from 1.
    pub line: usize,
    /// What it does.
    pub kind: StepKind,
    /// What it means when its expectation is met, or is not.
    pub marks: Marks,
    /// What it means when it is unmet and shows nothing, in words: "the agent never asked for permission".
    pub unless: Option<String>,
}

/// What follows when an expectation is met, or is not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Marks {
    /// Claims that are held when it is met and broken when it is not.
    pub shows: Vec<ClaimId>,
    /// Claims whose situation arose when it is met.
    pub witness: Vec<ClaimId>,
    /// What the agent has been seen to do when it is met, by the names that calibration uses.
    pub provides: Vec<String>,
}

/// What a step does.
#[derive(Debug, Clone)]
pub enum StepKind {
    /// Opens a session in the sandbox.
    NewSession {
        /// MCP servers to hand to the agent.
        mcp_servers: Option<Json>,
        /// A further name for the session's id.
        capture: Option<String>,
        /// The test expects the answer, and sees it with this id.
        answer: Option<Value>,
    },
    /// Writes a frame.
    Send {
        /// The frame, without `expectError`.
        frame: Json,
        /// A success fails the test.
        expect_error: bool,
    },
    /// Waits for messages.
    Expect(Expect),
    /// Watches for methods that must not come.
    Forbid {
        /// How long.
        timeout: Duration,
        /// Method names, `*` allowed.
        methods: Vec<String>,
        /// Messages that must not come.
        messages: Vec<Envelope>,
    },
    /// Waits.
    Delay(Duration),
    /// Writes bytes as they are.
    Raw(RawBytes),
    /// Ends the agent's input.
    Close,
    /// Stops the agent and starts it again.
    Restart,
    /// Opens a new connection to the same target.
    Reconnect,
    /// Stops reading for a while.
    PauseRead(Duration),
    /// Does steps several times.
    Repeat {
        /// How often.
        times: u32,
        /// What.
        steps: Vec<Step>,
    },
    /// Waits for the agent to end.
    ExpectExit {
        /// How long.
        timeout: Duration,
        /// The exit code it must have.
        code: Option<i32>,
    },
    /// Looks at a file in the sandbox.
    ExpectFile {
        /// Its path, a template.
        path: String,
        /// What must be there.
        want: FileWant,
        /// How long to wait for it.
        timeout: Duration,
    },
    /// Looks at what the stub MCP server saw.
    ExpectMcp {
        /// What must be among it: an object with `method`, `tool`, `arguments` and whatever else the log says.
        call: Json,
        /// It must not be among it.
        absent: bool,
        /// Later steps may find the same entry.
        keep: bool,
        /// How long to wait for it.
        timeout: Duration,
    },
    /// What only a test of a client does.
    Client(Box<ClientStep>),
    /// A step kind that this version does not know: skipped, and said so.
    Unknown(String),
}

impl StepKind {
    /// The kind's name in the file.
    pub fn name(&self) -> &str {
        match self {
            StepKind::NewSession { .. } => "newSession",
            StepKind::Send { .. } => "send",
            StepKind::Expect(_) => "expect",
            StepKind::Forbid { .. } => "forbid",
            StepKind::Delay(_) => "delayMs",
            StepKind::Raw(_) => "raw",
            StepKind::Close => "close",
            StepKind::Restart => "restart",
            StepKind::Reconnect => "reconnect",
            StepKind::PauseRead(_) => "pauseRead",
            StepKind::Repeat { .. } => "repeat",
            StepKind::ExpectExit { .. } => "expectExit",
            StepKind::ExpectFile { .. } => "expectFile",
            StepKind::ExpectMcp { .. } => "expectMcp",
            StepKind::Client(step) => step.name(),
            StepKind::Unknown(name) => name,
        }
    }
}

/// Bytes of a `raw` step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RawBytes {
    /// Text with `${…}` holes.
    Text(String),
    /// Bytes from base64.
    Bytes(Vec<u8>),
}

/// What a file must be.
#[derive(Debug, Clone)]
pub enum FileWant {
    /// Not there.
    Absent,
    /// There, whatever it holds.
    Present,
    /// There, and its text matches.
    Text(Json),
    /// There, with exactly this text, a template.
    Exact(Json),
    /// There, with exactly these bytes.
    Bytes(Vec<u8>),
}

/// An `expect` step.
#[derive(Debug, Clone)]
pub struct Expect {
    /// How long to wait.
    pub timeout: Duration,
    /// The messages, in any order.
    pub messages: Vec<Expected>,
    /// Values to take from the matched messages.
    pub captures: Vec<MessageCapture>,
    /// Whether the messages must come after those of the `expect` before; `None` is the usual: after its
    /// notifications and requests, wherever its responses stand.
    pub ordered: Option<bool>,
    /// Only messages since the last `send` count.
    pub fresh: bool,
    /// What it means when the messages do not come although everything the test asked is answered: the test does
    /// not apply, for this reason. Without it the expectation is unmet.
    pub otherwise_na: Option<String>,
    /// Why the agent may leave the request open for longer than any test waits (a person has to log in): without an
    /// answer the test is inconclusive, for this reason.
    pub may_wait: Option<String>,
}

/// One expected message.
#[derive(Debug, Clone)]
pub struct Expected {
    /// What it may be: one, or several for `anyOf`, then those of `accepts`.
    pub alternatives: Vec<Envelope>,
    /// The step does not wait for it.
    pub optional: bool,
    /// How many such messages.
    pub times: usize,
    /// Values to take from this message.
    pub captures: Vec<MessageCapture>,
    /// What it means when it comes, or does not.
    pub marks: Marks,
}

/// The shape of an expected message.
#[derive(Debug, Clone)]
pub struct Envelope {
    /// Which way and what for.
    pub kind: MessageKind,
    /// The expectation, a pattern with `${…}` holes.
    pub pattern: Value,
    /// A canned answer to a request.
    pub reply: Option<Json>,
    /// The request is left without an answer.
    pub no_reply: bool,
    /// Line in the file, from 1.
    pub line: usize,
    /// Claims that are broken when the message came in this shape, although it meets the expectation.
    pub breaks: Vec<ClaimId>,
    /// A message of this shape ends the test without a verdict, for this reason.
    pub inconclusive: Option<String>,
    /// Claims whose situation arose when the message came in this shape.
    pub witness: Vec<ClaimId>,
    /// What the agent has been seen to do when the message came in this shape.
    pub provides: Vec<String>,
    /// Of which launch of the agent the message is, in a test of a client.
    pub launch: Option<WhichLaunch>,
    /// How long after what the `expect` above took the message came at most.
    pub within: Option<Duration>,
}

/// The kinds of messages an agent sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageKind {
    /// An answer.
    Response,
    /// Something told.
    Notification,
    /// Something asked of the client.
    ClientRequest,
}

impl MessageKind {
    /// The envelope's name in the file.
    pub fn as_str(self) -> &'static str {
        match self {
            MessageKind::Response => "response",
            MessageKind::Notification => "notification",
            MessageKind::ClientRequest => "clientRequest",
        }
    }
}

/// A value to take from a message.
#[derive(Debug, Clone)]
pub struct MessageCapture {
    /// Where it stands in the message.
    pub path: Path,
    /// Where it may stand instead.
    pub or: Vec<Path>,
    /// Where a value stands that it must differ from.
    pub unlike: Option<Path>,
    /// Why the test is not reached when there is no such value.
    pub unless: Option<String>,
    /// A regular expression; its first group is the value.
    pub part: Option<String>,
    /// The variable that holds it from then on.
    pub var: String,
    /// What to call the value in the outcome's notes, when it shall stand there.
    pub note: Option<String>,
}

impl MessageCapture {
    /// The value that is meant, or the part of it.
    pub(crate) fn take(&self, message: &Value, held: &[String], opens: bool) -> Option<Value> {
        let found = self.find(message, held, opens)?;
        let Some(part) = &self.part else { return Some(found.clone()) };
        let text = found.as_str().map_or_else(|| found.to_string(), str::to_owned);
        acp_match::first_group(part, &text).map(Value::String)
    }

    /// The first value in a message that is meant. `held` are values that the runner's own requests set after a session
    /// is opened: what must differ from the present value differs from those too, and when the message opens a session,
    /// from them rather than from what it says.
    pub(crate) fn find<'v>(&self, message: &'v Value, held: &[String], opens: bool) -> Option<&'v Value> {
        let unlike = self.unlike.as_ref().and_then(|path| path.find(message));
        let is_held = |value: &Value| value.as_str().is_some_and(|text| held.iter().any(|held| held == text));
        let values = || std::iter::once(&self.path).chain(&self.or).flat_map(|path| path.find_all(message));
        let mut others = values().filter(|value| Some(*value) != unlike);
        if unlike.is_none() || held.is_empty() {
            return others.next();
        }
        if opens && values().any(is_held) {
            return values()
                .find(|value| !is_held(value) && Some(*value) != unlike)
                .or_else(|| values().find(|value| !is_held(value)));
        }
        let found = others.find(|value| !is_held(value));
        found.or_else(|| values().find(|value| Some(*value) != unlike))
    }
}

/// What test files may rely on before anything runs.
#[derive(Debug, Clone)]
pub struct Defaults {
    /// `${protocolVersionDefault}`.
    pub protocol_version: u64,
    /// `${clientCapabilitiesDefault}` before a test's own changes.
    pub client_capabilities: Value,
    /// `${mcpStubArgs}`.
    pub mcp_stub_args: Vec<String>,
    /// Names of variables that the runner sets when a test starts.
    pub variables: Vec<String>,
    /// The wishes that a prompt may name with `${wish:…}`; when there are none, any may be named.
    pub wishes: Wordings,
}

impl Default for Defaults {
    fn default() -> Defaults {
        Defaults {
            protocol_version: 1,
            client_capabilities: json!({ "fs": { "readTextFile": true, "writeTextFile": true }, "terminal": true }),
            mcp_stub_args: Vec::new(),
            variables: ["sandbox", "home", "mcpStub", "mcpHttp", "mcpLog", "modelUrl"]
                .map(str::to_owned)
                .to_vec(),
            wishes: Wordings::new(),
        }
    }
}

impl Defaults {
    /// The variables of phase one for a test with these capabilities.
    pub(crate) fn phase_one(&self, capabilities: &Value) -> Vars {
        Vars::new()
            .with("protocolVersionDefault", self.protocol_version)
            .with("clientCapabilitiesDefault", capabilities.clone())
            .with("mcpStubArgs", self.mcp_stub_args.clone())
    }

    /// The defaults with a test's own capabilities laid over them, key by key; null removes a key.
    pub(crate) fn capabilities_with(&self, own: &Value) -> Value {
        let mut merged = self.client_capabilities.as_object().cloned().unwrap_or_default();
        for (key, value) in own.as_object().unwrap_or(&Map::new()) {
            if value.is_null() {
                merged.remove(key);
            } else {
                merged.insert(key.clone(), value.clone());
            }
        }
        Value::Object(merged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_from_the_present_value_differs_from_what_the_runner_sets() {
        let path = |text: &str| Path::parse(text).unwrap();
        let capture = MessageCapture {
            path: path("result.modes.available.*"),
            or: Vec::new(),
            unlike: Some(path("result.modes.current")),
            unless: None,
            part: None,
            var: "mode".to_owned(),
            note: None,
        };
        let modes =
            |all: Value, current: &str| json!({"result": {"modes": {"available": all, "current": current}}});
        let find = |message: &Value, held: &[String], opens: bool| {
            capture.find(message, held, opens).and_then(Value::as_str).map(str::to_owned)
        };
        let held = ["read".to_owned()];
        let three = modes(json!(["auto", "read", "full"]), "auto");
        assert_eq!(find(&three, &[], true).as_deref(), Some("read"));
        assert_eq!(find(&three, &held, true).as_deref(), Some("full"));
        // The mode is "read" when the test goes on, whatever the answer says.
        let two = modes(json!(["auto", "read"]), "auto");
        assert_eq!(find(&two, &held, true).as_deref(), Some("auto"));
        assert_eq!(find(&two, &held, false).as_deref(), Some("read"));
        assert_eq!(find(&modes(json!(["auto"]), "auto"), &held, true), None);
    }
}
