//! What one client process does with one agent, and what it measured.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Who moves the messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Kind {
    /// `write` and `read` on a pipe, one flush per message: the floor.
    Bare,
    /// The same through a buffer.
    BareBuffered,
    /// Bare lines through the asynchronous runtime that our wire and the SDK stand on: a floor with its cost.
    BareAsync,
    /// Our wire: link, parse, peer.
    Ours,
    /// Our wire, with a transcript being written.
    OursTapped,
    /// Our wire, and both sides decode what they receive into the official types.
    OursTyped,
    /// Our wire, and the agent runs under the supervisor.
    OursSupervised,
    /// Our wire, and the client shows every frame of both directions to the judge.
    OursJudged,
    /// Our client, and `acp mock` as the agent.
    Mock,
    /// Our client, and the official SDK's agent at its best.
    SdkAgent,
    /// Bare ends with nothing between them.
    RelayNone,
    /// Bare ends, and a plain byte pump between them.
    RelayPump,
    /// Bare ends of one form, and our relay between them.
    Relay,
    /// Bare ends of two forms, and our relay between them.
    RelayTranslated,
    /// The same two with a journal.
    RelayKept,
    /// And translated.
    RelayKeptTranslated,
    /// The official SDK, both ends on non-blocking descriptors.
    Sdk,
    /// The official SDK as its documentation shows it.
    SdkDocumented,
}

impl Kind {
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Bare => "bare, flushed per message",
            Self::BareBuffered => "bare, buffered",
            Self::BareAsync => "bare, on the async runtime",
            Self::Ours => "ours",
            Self::OursTapped => "ours, tap on",
            Self::OursTyped => "ours, everything decoded",
            Self::OursSupervised => "ours, supervised",
            Self::OursJudged => "ours, judged",
            Self::Mock => "acp mock",
            Self::SdkAgent => "official SDK's agent, our client",
            Self::RelayNone => "nothing between",
            Self::RelayPump => "a plain byte pump",
            Self::Relay => "our relay, same form",
            Self::RelayTranslated => "our relay, delta to v1",
            Self::RelayKept => "our relay, same form, journal on",
            Self::RelayKeptTranslated => "our relay, delta to v1, journal on",
            Self::Sdk => "official SDK, at its best",
            Self::SdkDocumented => "official SDK, as documented",
        }
    }

    pub(crate) fn is_sdk(self) -> bool {
        matches!(self, Self::Sdk | Self::SdkDocumented | Self::SdkAgent)
    }
}

/// What the bytes travel over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Over {
    /// The agent's standard input and output.
    Pipes,
    /// A socket on the loopback address; the agent connects to this port.
    Tcp(u16),
}

/// One client process with its agents.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) kind: Kind,
    pub(crate) over: Over,
    /// Agents, one after another.
    pub(crate) cycles: usize,
    /// Prompts per agent.
    pub(crate) prompts: usize,
    /// Updates per prompt.
    pub(crate) updates: usize,
    /// The length of one update's line.
    pub(crate) size: usize,
    /// Both ends on one core.
    pub(crate) pinned: bool,
    /// The client rests for a millisecond after so many updates; zero is never.
    pub(crate) rest_after: usize,
    /// The updates are those of a working agent, with questions among them, instead of chunks of text.
    pub(crate) mixed: bool,
    /// The `acp` program, for the jobs that start it.
    pub(crate) acp: Option<PathBuf>,
}

impl Job {
    pub(crate) fn new(kind: Kind) -> Self {
        Self {
            kind,
            over: Over::Pipes,
            cycles: 1,
            prompts: 1,
            updates: 0,
            size: 200,
            pinned: false,
            rest_after: 0,
            mixed: false,
            acp: None,
        }
    }
}

/// What a client process measured.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Sample {
    /// From the first prompt to the last answer, over all cycles.
    pub(crate) seconds: f64,
    /// The median time of one prompt.
    pub(crate) prompt_seconds: f64,
    /// The median time of one cycle, from the start of the agent to its end.
    pub(crate) cycle_seconds: f64,
    /// The median time from the start of the agent to the answer to `initialize`; zero where nobody looked.
    pub(crate) first_answer_seconds: f64,
    /// Processor time of the client while prompts were being answered; zero where nobody looked.
    pub(crate) client_cpu_seconds: f64,
    /// What the agent has resident after `initialize`, in KiB; zero where nobody looked.
    pub(crate) agent_idle_kib: u64,
    /// Updates (and questions) that arrived.
    pub(crate) updates: usize,
    /// Peak resident memory in KiB.
    pub(crate) client_kib: u64,
    pub(crate) agent_kib: u64,
}
