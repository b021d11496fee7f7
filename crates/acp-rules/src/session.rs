//! What is remembered of one session.

use std::collections::{HashMap, VecDeque};

use acp_rpc::Id;

use crate::cx::Mark;
use crate::rules::replay::Lack;
use crate::said::{Said, Voice};

/// The most tool calls remembered per session.
const TOOLS: usize = 4_096;
/// The most message ids remembered per session.
const MESSAGES: usize = 1_024;

/// How a session came to be, and where it is.
///
/// ```text
/// session/new ──────────────► Live ──session/close──► Closed
/// session/load ──► Loading ──► Live
/// session/resume ► Resuming ─► Live
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    Loading,
    Resuming,
    Live,
    Closed,
}

/// A prompt that is not answered yet.
#[derive(Debug)]
pub(crate) struct Turn {
    pub(crate) id: Id,
    /// Counted from 1.
    pub(crate) number: u64,
    pub(crate) mark: Mark,
    /// What the user said, block by block.
    pub(crate) said: Vec<String>,
    /// Another turn ran at the same time: nobody knows which one output belongs to.
    pub(crate) overlaps: bool,
    pub(crate) cancel: Option<Mark>,
    /// A permission was pending when the cancel came.
    pub(crate) cancel_with_permission: bool,
    /// Updates that came after the cancel.
    pub(crate) after_cancel: u32,
    pub(crate) closing: Option<Mark>,
    pub(crate) output: bool,
    pub(crate) declined: bool,
    /// The first change that the agent made through the client: a file written or a command started.
    pub(crate) worked: Option<Mark>,
}

/// The last turn that was answered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ended {
    pub(crate) mark: Mark,
    pub(crate) cancelled: bool,
    /// The client took the prompt back with $/cancel_request.
    pub(crate) taken_back: bool,
}

/// A tool call's status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Status {
    Pending,
    InProgress,
    Completed,
    Failed,
}

impl Status {
    pub(crate) fn read(text: &str) -> Option<Self> {
        match text {
            "pending" => Some(Self::Pending),
            "in_progress" => Some(Self::InProgress),
            "completed" => Some(Self::Completed),
            "failed" => Some(Self::Failed),
            _ => None,
        }
    }

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::InProgress => "in_progress",
            Self::Completed => "completed",
            Self::Failed => "failed",
        }
    }

    pub(crate) fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Failed)
    }
}

/// Where the permission for a tool call is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Permission {
    Unasked,
    Pending,
    Allowed,
    Rejected,
    Cancelled,
}

/// One tool call.
#[derive(Debug)]
pub(crate) struct Tool {
    pub(crate) mark: Mark,
    pub(crate) created: bool,
    pub(crate) status: Status,
    pub(crate) name: Option<Box<str>>,
    pub(crate) permission: Permission,
    /// in_progress was reported since the permission was given.
    pub(crate) progressed: bool,
    /// Which turn it belongs to.
    pub(crate) turn: u64,
    pub(crate) replayed: bool,
}

/// The session's modes.
#[derive(Debug)]
pub(crate) struct Modes {
    pub(crate) available: Vec<Box<str>>,
    pub(crate) current: Box<str>,
}

/// One config option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) id: Box<str>,
    pub(crate) boolean: bool,
    /// The values that may be set; empty for a boolean.
    pub(crate) values: Vec<Box<str>>,
    pub(crate) current: Box<str>,
    pub(crate) is_mode: bool,
}

/// One session.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: Box<str>,
    pub(crate) mark: Mark,
    pub(crate) stage: Stage,
    pub(crate) loaded: bool,
    pub(crate) resumed: bool,
    pub(crate) deleted: bool,
    pub(crate) cwd: Option<Box<str>>,
    pub(crate) turns: Vec<Turn>,
    pub(crate) turn_count: u64,
    pub(crate) ended: Option<Ended>,
    pub(crate) tools: HashMap<Box<str>, Tool>,
    tool_order: VecDeque<Box<str>>,
    pub(crate) tools_forgotten: bool,
    /// The calls of the running turns.
    pub(crate) turn_tools: Vec<Box<str>>,
    pub(crate) modes: Option<Modes>,
    pub(crate) settings: Option<Vec<Setting>>,
    /// The mode that session/set_mode or current_mode_update named, until a list of options came.
    pub(crate) mode_named: Option<(Box<str>, Mark)>,
    pub(crate) messages: HashMap<Box<str>, (Voice, u64)>,
    message_order: VecDeque<Box<str>>,
    pub(crate) last_message: Option<(Box<str>, Voice)>,
    pub(crate) plan: Option<Plan>,
    /// A plan that has entries was sent.
    pub(crate) has_planned: bool,
    pub(crate) commands: Vec<Box<str>>,
    pub(crate) compactions: HashMap<Box<str>, bool>,
    pub(crate) live: Said,
    /// All of the session is in `live`: it was created here, and no turn was left out.
    pub(crate) whole: bool,
    pub(crate) replay: Said,
    /// What the last replay lacks, unless it comes late.
    pub(crate) lacks: Option<Lacks>,
    /// History came after the answer.
    pub(crate) late_history: bool,
    pub(crate) replayed_message: Option<(Box<str>, Voice)>,
}

/// What a replay lacks, with the frames that show it.
#[derive(Debug)]
pub(crate) struct Lacks {
    pub(crate) asked: Mark,
    pub(crate) answered: Mark,
    pub(crate) list: Vec<Lack>,
}

/// The plan as last sent.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) mark: Mark,
    /// Content and whether it is completed.
    pub(crate) entries: Vec<(Box<str>, bool)>,
    pub(crate) sent_in_turn: u64,
    pub(crate) times: u32,
}

impl Session {
    pub(crate) fn new(id: Box<str>, mark: Mark) -> Self {
        Self {
            id,
            mark,
            stage: Stage::Live,
            loaded: false,
            resumed: false,
            deleted: false,
            cwd: None,
            turns: Vec::new(),
            turn_count: 0,
            ended: None,
            tools: HashMap::new(),
            tool_order: VecDeque::new(),
            tools_forgotten: false,
            turn_tools: Vec::new(),
            modes: None,
            settings: None,
            mode_named: None,
            messages: HashMap::new(),
            message_order: VecDeque::new(),
            last_message: None,
            plan: None,
            has_planned: false,
            commands: Vec::new(),
            compactions: HashMap::new(),
            live: Said::default(),
            whole: false,
            replay: Said::default(),
            lacks: None,
            late_history: false,
            replayed_message: None,
        }
    }

    pub(crate) fn add_tool(&mut self, id: &str, tool: Tool) {
        if self.turn_tools.len() < TOOLS {
            self.turn_tools.push(id.into());
        }
        if self.tools.insert(id.into(), tool).is_none() {
            self.tool_order.push_back(id.into());
        }
        if self.tool_order.len() > TOOLS
            && let Some(old) = self.tool_order.pop_front()
        {
            self.tools.remove(&old);
            self.tools_forgotten = true;
        }
    }

    pub(crate) fn add_message(&mut self, id: &str, voice: Voice) {
        let turn = self.turn_number();
        if self.messages.insert(id.into(), (voice, turn)).is_none() {
            self.message_order.push_back(id.into());
        }
        if self.message_order.len() > MESSAGES
            && let Some(old) = self.message_order.pop_front()
        {
            self.messages.remove(&old);
        }
        self.last_message = Some((id.into(), voice));
    }

    /// The number of the turn that output belongs to; of the last one when none runs.
    #[inline]
    pub(crate) fn turn_number(&self) -> u64 {
        self.turns.first().map_or(self.turn_count, |turn| turn.number)
    }

    /// The turn that output belongs to.
    #[inline]
    pub(crate) fn turn(&mut self) -> Option<&mut Turn> {
        self.turns.first_mut()
    }
}
