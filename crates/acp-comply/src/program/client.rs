//! What a test of a client holds besides what every test holds. The runner is the agent there.

use super::{MessageCapture, RawBytes, SandboxFile};
use crate::json::Json;
use acp_rules::ClaimId;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A test of a client: its agent, its driver's part, its folders.
#[derive(Debug, Clone, Default)]
pub struct ClientTest {
    /// Areas that must be the client's own code; when the file names none, they follow from its claims.
    pub own: Vec<String>,
    /// What the default agent offers.
    pub offer: AgentOffer,
    /// The ways to log in that the default agent names, as they are sent.
    pub auth_methods: Option<Json>,
    /// The version that the default agent answers with.
    pub version: Option<Json>,
    /// Answers of the default agent in this test, by method; the last of a list repeats.
    pub answers: BTreeMap<String, Vec<AgentAnswer>>,
    /// Methods that the default agent leaves open, or does not act on.
    pub hold: Vec<String>,
    /// How questions for permission are answered.
    pub permission: PermissionHabit,
    /// How the agent behaves as a process.
    pub stub: StubHabits,
    /// Symbolic links in the workspace.
    pub links: Vec<SandboxLink>,
    /// Symbolic links beside the workspace.
    pub outside_links: Vec<SandboxLink>,
    /// Where the client is told that the workspace is: a template.
    pub workspace: Option<String>,
    /// Requirements that the agent breaks on purpose.
    pub provokes: Vec<String>,
    /// Files beside the workspace.
    pub outside: Vec<SandboxFile>,
    /// The verbs that the steps use.
    pub verbs: BTreeSet<String>,
}

/// What the default agent offers.
#[derive(Debug, Clone, Default)]
pub enum AgentOffer {
    /// Everything that the protocol has.
    #[default]
    Full,
    /// Nothing: the member is left out.
    Bare,
    /// This, as it is.
    Exactly(Json),
}

/// An answer of the default agent.
#[derive(Debug, Clone)]
pub struct AgentAnswer {
    /// What it says.
    pub body: AnswerBody,
    /// How long it waits.
    pub after: Duration,
    /// What is sent just before it.
    pub before: Vec<Json>,
    /// It is the answer until a request with this method was answered with a result; then comes the next one.
    pub until: Option<String>,
}

/// What an answer says.
#[derive(Debug, Clone)]
pub enum AnswerBody {
    /// A result.
    Result(Json),
    /// An error.
    Error(Json),
    /// The usual result with these members laid over it; null takes one away.
    Merge(Json),
    /// Nothing, ever.
    Never,
}

/// How a client's questions for permission are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PermissionHabit {
    /// Allowed.
    #[default]
    Allow,
    /// Rejected.
    Reject,
    /// Left open.
    Leave,
}

impl PermissionHabit {
    /// The word used in files.
    pub fn as_str(self) -> &'static str {
        match self {
            PermissionHabit::Allow => "allow",
            PermissionHabit::Reject => "reject",
            PermissionHabit::Leave => "leave",
        }
    }

    /// The habit of that name.
    pub fn of(word: &str) -> Option<PermissionHabit> {
        [PermissionHabit::Allow, PermissionHabit::Reject, PermissionHabit::Leave]
            .into_iter()
            .find(|habit| habit.as_str() == word)
    }
}

/// How the agent that the client starts behaves as a process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StubHabits {
    /// What it does not end at: `EOF` and names of signals without `SIG`.
    pub ignores: Vec<String>,
    /// It starts a process that sleeps.
    pub child: bool,
    /// The client starts a shell that starts it.
    pub wrapped: bool,
    /// Variables for the client, templates.
    pub environment: BTreeMap<String, String>,
}

/// A symbolic link in the workspace or beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxLink {
    /// Where it is, relative to the workspace or to the folder around it.
    pub path: String,
    /// Where it leads, a template.
    pub target: String,
}

/// Which launches of the agent are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhichLaunch {
    /// That one, from 1.
    Number(u32),
    /// Those that began after the last `drive`.
    New,
    /// Those that began after the one that an earlier step found last.
    Later,
}

/// A step that only tests of clients have.
#[derive(Debug, Clone)]
pub enum ClientStep {
    /// Uses a verb of the driver.
    Drive {
        /// The verb.
        verb: String,
        /// What it is used with: an object.
        fields: Json,
        /// What to wait for.
        wait: DriveWait,
        /// How long; otherwise the driver's limit.
        timeout: Option<Duration>,
    },
    /// Answers an open request of the client.
    Answer {
        /// The request's method.
        to: String,
        /// With what.
        body: AnswerBody,
        /// Every open one, not only the oldest.
        all: bool,
    },
    /// Finds out whether the client still answers.
    Alive {
        /// How long to wait.
        timeout: Duration,
    },
    /// The agent writes to its standard error.
    Stderr {
        /// What.
        bytes: RawBytes,
        /// How often.
        times: u32,
        /// How long that may take.
        timeout: Duration,
    },
    /// The agent's process ends.
    Exit {
        /// With this code.
        code: u8,
    },
    /// Looks at what is seen besides frames.
    Look(ClientLook),
    /// Looks at a process.
    Process {
        /// Its id, a template.
        pid: Json,
        /// Whether it has to live.
        running: bool,
        /// How long to wait for that.
        timeout: Duration,
    },
    /// Asks the judge about all frames so far.
    Judged {
        /// Requirements against which nothing may be found.
        none: Vec<ClaimId>,
    },
}

impl ClientStep {
    /// The step's name in the file.
    pub fn name(&self) -> &'static str {
        match self {
            ClientStep::Drive { .. } => "drive",
            ClientStep::Answer { .. } => "answer",
            ClientStep::Alive { .. } => "alive",
            ClientStep::Stderr { .. } => "stderr",
            ClientStep::Exit { .. } => "exit",
            ClientStep::Look(look) => look.at.step(),
            ClientStep::Process { .. } => "expectProcess",
            ClientStep::Judged { .. } => "expectJudged",
        }
    }

    /// Whether it expects something.
    pub fn can_be_unmet(&self) -> bool {
        !matches!(self, ClientStep::Exit { .. })
    }

    /// Whether canned replies and watches begin anew with it.
    pub fn opens_window(&self) -> bool {
        matches!(self, ClientStep::Drive { .. })
    }
}

/// What a `drive` step waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DriveWait {
    /// The message that the verb brings.
    #[default]
    Frame,
    /// The driver's word that the verb has ended.
    Done,
    /// Nothing.
    Nothing,
}

/// A look at records of what happened besides frames.
#[derive(Debug, Clone)]
pub struct ClientLook {
    /// At which records.
    pub at: Witness,
    /// What one of them must match: an object.
    pub pattern: Json,
    /// Of which launch.
    pub launch: Option<WhichLaunch>,
    /// None may match until the time is over.
    pub absent: bool,
    /// How long.
    pub timeout: Duration,
    /// Values to take from the record.
    pub captures: Vec<MessageCapture>,
}

/// Who saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Witness {
    /// The agent that the client started: one record for each launch.
    Agent,
    /// The driver: one record.
    Driver,
    /// The listener: one record for each request.
    Http,
}

impl Witness {
    /// The name of the step that looks there.
    pub fn step(self) -> &'static str {
        match self {
            Witness::Agent => "expectAgent",
            Witness::Driver => "expectClient",
            Witness::Http => "expectHttp",
        }
    }
}
