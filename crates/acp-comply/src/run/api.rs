//! What an edge hands to a run and what it gets back.

use crate::results::{ExitRecord, FindingRef, TestOutcome};
use crate::table::Table;
use crate::wish::Wordings;
use acp_match::Vars;
use acp_rpc::Frame;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// What the edge knows about the agent and the place where the test runs.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Real path of the sandbox folder.
    pub sandbox: String,
    /// Further variables: `home`, and `mcpStub`, `modelUrl` where there are such things.
    pub variables: Vars,
    /// The protocol's words.
    pub table: Arc<Table>,
    /// The version that the runner introduces itself with.
    pub protocol_version: u64,
    /// Version text of the tool, for the introduction.
    pub tool_version: String,
    /// Multiplies every timeout.
    pub timeout_factor: f64,
    /// Give an expectation up before its time-out when everything is answered and the agent has been silent for this
    /// long, before the factor.
    pub patience: Option<Duration>,
    /// The same for tests with claims when no patience was asked for. A test without claims waits as long as it says.
    pub quiet: Duration,
    /// How long the runner's own requests may take, before the factor.
    pub own_timeout: Duration,
    /// The probe's answer to the introduction, for preconditions.
    pub introduction: Option<Value>,
    /// The probe's answer to the session request, for preconditions.
    pub session: Option<Value>,
    /// Why no session can be opened, when the probe found the agent to lack the method.
    pub without_sessions: Option<String>,
    /// How to log in when the agent wants it.
    pub auth_method: Option<String>,
    /// Requests to make after each session that the runner or the test opens, `{"method", "params"}` with `${sessionId}`: what
    /// this agent needs before a test can begin, for instance the mode in which it asks for permission.
    pub after_session: Vec<Value>,
    /// Before a test goes on after a new session, the agent must have been silent for this long: real agents tell
    /// about commands, modes and titles in their own time, which would fall into one step or another.
    pub settle: Option<Duration>,
    /// The wordings of `${wish:…}`, the preferred one first.
    pub wordings: Wordings,
    /// What the agent is known to do, by the names that calibration uses.
    pub found: BTreeMap<String, Observation>,
    /// What the agent could not be brought to do, by the same names, each with the reason in words.
    pub missing: BTreeMap<String, String>,
    /// What the client under test said in its introduction (its params), when that is known.
    pub client: Option<Value>,
    /// The driver of the client under test, as its file says; a test of an agent has none.
    pub driver: Option<Value>,
    /// What that driver can do.
    pub can: DriverCan,
    /// The edge started the agent and can do it again.
    pub restartable: bool,
    /// The edge can open a second connection to the target.
    pub reconnectable: bool,
    /// Bounds on what is kept.
    pub limits: RunLimits,
}

impl Setup {
    /// A setup with the usual values for a process that the edge started.
    pub fn new(sandbox: impl Into<String>) -> Setup {
        Setup {
            sandbox: sandbox.into(),
            variables: Vars::new(),
            table: Table::v1(),
            protocol_version: 1,
            tool_version: env!("CARGO_PKG_VERSION").to_owned(),
            timeout_factor: 1.0,
            patience: None,
            quiet: Duration::from_millis(300),
            own_timeout: Duration::from_secs(30),
            introduction: None,
            session: None,
            without_sessions: None,
            auth_method: None,
            after_session: Vec::new(),
            settle: None,
            wordings: Wordings::new(),
            found: BTreeMap::new(),
            missing: BTreeMap::new(),
            client: None,
            driver: None,
            can: DriverCan::default(),
            restartable: true,
            reconnectable: false,
            limits: RunLimits::default(),
        }
    }
}

impl Setup {
    /// The values that the requests after a session set: the strings in their params that stand there as they are.
    pub(crate) fn held(&self) -> Vec<String> {
        let params = self.after_session.iter().filter_map(|request| request.get("params")?.as_object());
        let values = params.flat_map(|params| params.values()).filter_map(Value::as_str);
        values.filter(|text| !text.contains("${")).map(str::to_owned).collect()
    }

    /// The words for a wish: those that worked in calibration, or the first that were given.
    pub fn wording(&self, wish: &str) -> Option<&str> {
        let found = self.found.get(wish).and_then(|found| found.wording.as_deref());
        found.or_else(|| self.wordings.get(wish)?.first().map(String::as_str))
    }
}

/// What the driver of a client under test can do, as the edge reads it from the driver's file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DriverCan {
    /// The verbs that it has, those included that it does by way of others.
    pub verbs: BTreeSet<String>,
    /// The areas that are the client's own code.
    pub own: BTreeSet<String>,
    /// The ways to answer questions for permission that it has: `allow`, `reject`, `leave`.
    pub permissions: BTreeSet<String>,
    /// Those of the verbs that only prepare the next start of the client: words of its command line.
    pub prepares: BTreeSet<String>,
    /// Those of the verbs that need a prompt, and bring it besides what they are for.
    pub prompts: BTreeSet<String>,
    /// The client opens a session only when it has a prompt for it.
    pub opens_by_prompt: bool,
    /// How long the client may take to start, before the factor.
    pub start: Duration,
    /// How long a verb may take, before the factor.
    pub verb: Duration,
    /// How long the client may take to end, before the factor.
    pub quit: Duration,
}

impl Default for DriverCan {
    fn default() -> DriverCan {
        DriverCan {
            verbs: BTreeSet::new(),
            own: BTreeSet::new(),
            permissions: BTreeSet::new(),
            prepares: BTreeSet::new(),
            prompts: BTreeSet::new(),
            opens_by_prompt: false,
            start: Duration::from_secs(10),
            verb: Duration::from_secs(10),
            quit: Duration::from_secs(6),
        }
    }
}

/// Something that an agent was seen to do.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Observation {
    /// The wording of the prompt that brought it about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wording: Option<String>,
    /// By what it was seen, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub how: Option<String>,
    /// How long it took, in milliseconds.
    #[serde(default)]
    pub took_ms: f64,
}

/// Bounds on memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunLimits {
    /// Messages kept for expectations.
    pub messages: usize,
    /// Bytes of messages kept for expectations.
    pub bytes: usize,
    /// Lines kept at each end of the transcript.
    pub transcript: usize,
    /// Characters kept of a transcript line.
    pub line: usize,
}

impl Default for RunLimits {
    fn default() -> RunLimits {
        RunLimits { messages: 200_000, bytes: 64 << 20, transcript: 200, line: 4_000 }
    }
}

/// What happened.
#[derive(Debug, Clone)]
pub enum RunEvent {
    /// The agent runs, or runs again after [`RunAction::Restart`] or [`RunAction::Reconnect`].
    Started,
    /// The agent sent a line.
    Heard(Frame),
    /// A provider's answer to [`RunAction::AskProvider`], to be written to the agent.
    ProviderAnswered(Frame),
    /// The agent's output ended.
    Closed,
    /// The agent ended. A target without a process reports only [`RunEvent::Closed`].
    Exited(ExitRecord),
    /// The answer to [`RunAction::CheckFile`].
    File(FileState),
    /// The answer to [`RunAction::CheckMcp`]: everything the stub MCP server saw so far.
    Mcp(Vec<McpCall>),
    /// The environment cannot do what the test needs: NA.
    Blocked(String),
    /// The test does not apply to this agent, as it turned out on the way: NA.
    NotApplicable(String),
    /// The agent's model cannot do what the test wishes. What the agent does by itself still counts; when it does not, the
    /// test is NA.
    OutOfReach(String),
    /// An agent that was there takes no further connection: the agent's fault.
    Lost(String),
    /// The runner or the machine failed: ERROR.
    Fault(String),
    /// The client has started the agent: this launch, counted from 1, and the first record of it.
    Launched {
        /// Which one.
        launch: u32,
        /// What the launch sees of itself.
        record: Value,
    },
    /// The client sent a line to this launch of the agent.
    HeardFrom {
        /// Which one.
        launch: u32,
        /// The line.
        frame: Frame,
    },
    /// The record of a launch is now this one: its input ended, a signal reached it, it is gone.
    LaunchChanged {
        /// Which one.
        launch: u32,
        /// The whole record.
        record: Value,
    },
    /// What became of [`RunAction::Drive`].
    Driven {
        /// The number of the action.
        drive: u32,
        /// What became of it.
        outcome: DriveOutcome,
    },
    /// What the driver knows of the client is now this: `running`, `events`.
    DriverRecord(Value),
    /// The listener has these requests now, oldest first.
    Http(Vec<Value>),
    /// The answer to [`RunAction::CheckProcess`].
    Process {
        /// The process.
        pid: i64,
        /// It lives.
        running: bool,
    },
    /// All of [`AgentAct::Stderr`] was taken.
    StderrTaken {
        /// Of which launch.
        launch: u32,
    },
    /// The answer to [`RunAction::CheckJudge`]: what the judge has found so far, against either side.
    Judged(Vec<FindingRef>),
    /// Nothing; time has passed.
    Tick,
}

/// What became of a verb.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DriveOutcome {
    /// It has ended, or was handed over to the client and goes on there.
    Done,
    /// It could not be done, for this reason.
    Failed(String),
    /// The driver has no such verb, or not with these fields.
    Lacks(String),
}

/// What the edge must do, in order.
#[derive(Debug, Clone)]
pub enum RunAction {
    /// The providers behind these client capabilities are on, all others answer "method not found".
    Offer(Value),
    /// Write this line and a newline.
    Write(Bytes),
    /// Write these bytes and nothing else.
    WriteRaw(Bytes),
    /// End the agent's input.
    CloseInput,
    /// Stop the agent, start it again on the same sandbox and state, then report [`RunEvent::Started`].
    Restart,
    /// Drop the connection, open a new one, then report [`RunEvent::Started`].
    Reconnect,
    /// Read nothing from the agent for this long.
    PauseRead(Duration),
    /// The agent asks this of the client; report [`RunEvent::ProviderAnswered`].
    AskProvider(Frame),
    /// The test cancelled what runs: permission requests that wait are answered `cancelled`.
    CancelPending {
        /// The session, when the frame names one.
        session: Option<String>,
    },
    /// Look at this file, relative to the sandbox; report [`RunEvent::File`].
    CheckFile(String),
    /// Look at the stub MCP server's log; report [`RunEvent::Mcp`].
    CheckMcp,
    /// Use a verb of the driver; report [`RunEvent::Driven`].
    Drive {
        /// Number of this action, for the report.
        drive: u32,
        /// The verb.
        verb: String,
        /// What it is used with: an object, its variables filled.
        fields: Value,
    },
    /// Let a launch of the agent do this.
    AsAgent {
        /// Which one.
        launch: u32,
        /// What.
        act: AgentAct,
    },
    /// Find out whether this process lives; report [`RunEvent::Process`]. The first time, remember when the process began.
    CheckProcess(i64),
    /// Ask the judge about all frames so far; report [`RunEvent::Judged`].
    CheckJudge,
    /// The test is over. No action follows.
    Done(Box<TestOutcome>),
}

/// What an agent does that a client under test has started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentAct {
    /// Writes this line and a newline.
    Write(Bytes),
    /// Writes these bytes and nothing else.
    Raw(Bytes),
    /// Ends its output.
    CloseOutput,
    /// Reads nothing for this long.
    PauseRead(Duration),
    /// Writes this to its standard error, so many times; report [`RunEvent::StderrTaken`].
    Stderr {
        /// What.
        bytes: Bytes,
        /// How often.
        times: u32,
    },
    /// Ends with this code.
    Exit(u8),
}

/// What a file is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileState {
    /// Not there.
    Absent,
    /// There, with these bytes.
    Present(Vec<u8>),
    /// Could not be looked at.
    Unreadable(String),
}

/// One thing that the stub MCP server saw.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct McpCall {
    /// The method.
    pub method: String,
    /// The tool, for a tool call.
    pub tool: Option<String>,
    /// The tool's arguments.
    pub arguments: Option<Value>,
    /// The whole entry, as far as there is one: which process of which server, and whatever else the log tells.
    pub line: Value,
}
