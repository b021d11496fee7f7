//! What the judge remembers of a conversation. Everything has a bound.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;

use acp_proto::{Side, error_code, method};
use acp_rpc::Id;

use crate::caps::{AgentCaps, ClientCaps};
use crate::cx::Mark;
use crate::history::Past;
use crate::rule::Rule;
use crate::schema::Edition;
use crate::session::Session;

/// The most open requests remembered per side.
const OPEN: usize = 16_384;
/// The most ids that are open more than once, and the most requests of one of them, remembered per side.
const SHARED: usize = 256;
/// The most answered ids remembered per side.
const ANSWERED: usize = 4_096;
/// The most sessions remembered.
const SESSIONS: usize = 4_096;
/// The most terminals remembered.
const TERMINALS: usize = 4_096;

/// What kind of notification the last one was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Told {
    Update,
    Cancel,
    CancelRequest,
    Custom,
    Other,
}

impl Told {
    pub(crate) fn of(method: &str) -> Self {
        match method {
            method::SESSION_UPDATE => Self::Update,
            method::SESSION_CANCEL => Self::Cancel,
            method::CANCEL_REQUEST => Self::CancelRequest,
            custom if custom.starts_with('_') => Self::Custom,
            _ => Self::Other,
        }
    }
}

/// What a bad line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Garbage {
    /// No JSON.
    Text,
    /// JSON that is no message.
    Request,
    /// An array of messages.
    Batch,
}

impl Garbage {
    pub(crate) fn of(flaw: &acp_rpc::Flaw) -> Self {
        match flaw {
            acp_rpc::Flaw::EmptyBatch | acp_rpc::Flaw::BatchTooLong { .. } => Self::Batch,
            flaw if flaw.code() == error_code::PARSE_ERROR => Self::Text,
            _ => Self::Request,
        }
    }

    /// The code that it is answered with.
    pub(crate) fn code(self) -> i64 {
        match self {
            Self::Text => error_code::PARSE_ERROR,
            Self::Request | Self::Batch => error_code::INVALID_REQUEST,
        }
    }

    /// The rule about the answer, and what silence or another code breaks.
    pub(crate) fn rule(self) -> (Rule, &'static str, &'static str) {
        match self {
            Self::Text => (Rule::ParseErrorCode, "RPC-05/silence", "RPC-05/code"),
            Self::Request => (Rule::InvalidRequestCode, "RPC-06", "RPC-06"),
            Self::Batch => (Rule::InvalidRequestCode, "RPC-12", "RPC-12"),
        }
    }
}

/// A request whose answer is awaited.
#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) method: Box<str>,
    pub(crate) mark: Mark,
    pub(crate) session: Option<Box<str>>,
    pub(crate) ask: Ask,
    /// The params broke the schema.
    pub(crate) bad_params: bool,
    /// The request itself was broken: any answer will do.
    pub(crate) lenient: bool,
    /// Its envelope was broken: it may be served or refused as a whole.
    pub(crate) broken: bool,
    /// Its id was used for another request at the same time: nobody knows which one an answer is for.
    pub(crate) shared: bool,
    /// `$/cancel_request` named it.
    pub(crate) cancelled: bool,
    /// It named a session that this connection does not know.
    pub(crate) unknown_session: bool,
    /// initialize had not been answered yet.
    pub(crate) early: bool,
}

impl Open {
    /// A request that was broken itself.
    pub(crate) fn lenient(method: &str, mark: Mark) -> Self {
        Self { lenient: true, ..Self::new(method, mark) }
    }

    pub(crate) fn new(method: &str, mark: Mark) -> Self {
        Self {
            method: method.into(),
            mark,
            session: None,
            ask: Ask::Other,
            bad_params: false,
            lenient: false,
            broken: false,
            shared: false,
            cancelled: false,
            unknown_session: false,
            early: false,
        }
    }
}

/// What was asked, as far as the answer is judged by it.
#[derive(Debug)]
pub(crate) enum Ask {
    Other,
    Initialize { requested: Option<i64>, second: bool, odd_capability: bool, has_info: bool },
    Authenticate { offered: bool },
    New { cwd: Box<str>, relative: bool, bad_roots: bool, empty_servers: bool },
    Logout,
    Fork,
    Load { relative: bool, bad_roots: bool, deleted: bool },
    Resume { deleted: bool },
    List { cwd: Option<Box<str>>, cursor: Option<Box<str>>, odd_cursor: bool },
    Close,
    Delete { again: bool },
    SetMode { mode: Box<str>, known: Option<bool>, in_turn: bool },
    SetOption { id: Box<str>, value: Box<str>, known: Option<bool>, in_turn: bool, boolean: bool },
    Prompt { content: Content, command: bool, busy: bool, after_cancel: bool, loaded: bool, closed: bool },
    Permission { tool: Option<Box<str>>, options: Vec<(Box<str>, bool)>, cancelled: bool },
    Read { relative: bool, limit: Option<i64> },
    Write { relative: bool },
    TerminalCreate { limit: Option<i64> },
    Terminal { id: Box<str>, released: bool },
    Elicit { form: Option<Box<str>>, known_mode: bool, advertised: bool },
}

/// What a prompt is made of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "one flag per kind of block")]
pub(crate) struct Content {
    pub(crate) text: bool,
    pub(crate) link: bool,
    pub(crate) image: bool,
    pub(crate) audio: bool,
    pub(crate) embedded: bool,
    /// Something that the agent did not advertise.
    pub(crate) other: bool,
}

/// One side's requests.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    pub(crate) open: HashMap<Id, Open>,
    /// Requests whose id a later one took while they were open, oldest first.
    earlier: HashMap<Id, VecDeque<Open>>,
    answered: HashSet<Id>,
    order: VecDeque<Id>,
    /// Some ids were forgotten because there were too many.
    pub(crate) forgotten: bool,
    /// The side ever sent a notification.
    pub(crate) notified: Option<(Mark, Told)>,
    /// Bad lines of this side that the other may answer with id null.
    pub(crate) garbage: VecDeque<(Mark, Garbage)>,
    /// The side ever sent such a line.
    pub(crate) had_garbage: bool,
    /// A batch came, which ends some connections.
    pub(crate) had_batch: bool,
    /// The beginning of a message that goes on over lines.
    pub(crate) fragment: String,
}

impl Asked {
    pub(crate) fn ask(&mut self, id: Id, mut open: Open) {
        if self.open.len() >= OPEN {
            // the older half goes at once, so that forgetting costs little per request
            self.forgotten = true;
            let mut indexes: Vec<u64> = self.open.values().map(|open| open.mark.index).collect();
            let middle = indexes.len() / 2;
            let (_, median, _) = indexes.select_nth_unstable(middle);
            let median = *median;
            self.open.retain(|_, open| open.mark.index > median);
        }
        if let Some(mut before) = self.open.remove(&id).filter(|before| !before.lenient) {
            before.shared = true;
            open.shared = true;
            if self.earlier.len() < SHARED {
                let earlier = self.earlier.entry(id.clone()).or_default();
                earlier.push_back(before);
                earlier.truncate(SHARED);
            }
        }
        self.open.insert(id, open);
    }

    pub(crate) fn answer(&mut self, id: &Id) -> Option<Open> {
        let open = self.earliest(id)?;
        if self.answered.insert(id.clone()) {
            self.order.push_back(id.clone());
        }
        if self.order.len() > ANSWERED {
            self.forgotten = true;
            if let Some(old) = self.order.pop_front() {
                self.answered.remove(&old);
            }
        }
        Some(open)
    }

    /// The oldest open request of an id.
    fn earliest(&mut self, id: &Id) -> Option<Open> {
        let Some(earlier) = self.earlier.get_mut(id) else { return self.open.remove(id) };
        let open = earlier.pop_front();
        if earlier.is_empty() {
            self.earlier.remove(id);
        }
        open
    }

    pub(crate) fn was_answered(&self, id: &Id) -> bool {
        self.answered.contains(id)
    }

    /// A bad line that the other side may answer.
    pub(crate) fn bad_line(&mut self, mark: Mark, garbage: Garbage) {
        self.had_garbage = true;
        if self.garbage.len() < 256 {
            self.garbage.push_back((mark, garbage));
        }
    }
}

/// A terminal of the client.
#[derive(Debug)]
pub(crate) struct Terminal {
    pub(crate) mark: Mark,
    pub(crate) session: Box<str>,
    pub(crate) limit: Option<i64>,
    pub(crate) released: bool,
    /// Its session was closed without releasing it, which was told.
    pub(crate) left: bool,
    pub(crate) killed: bool,
    /// A tool call showed it before its release.
    pub(crate) shown: bool,
    /// An answer carried the exit status, with this much output.
    pub(crate) exited: Option<Option<u64>>,
}

/// How far the handshake is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Nothing was sent.
    Fresh,
    /// The client asked.
    Asked,
    /// The agent answered with this version.
    Agreed(i64),
    /// The agent refused.
    Refused,
}

/// Everything remembered.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) phase: Phase,
    pub(crate) requested: Option<i64>,
    /// The client sent something else before initialize: what the agent sends then is an answer to that.
    pub(crate) asked_early: bool,
    /// What the agent sent before the client had sent anything.
    pub(crate) spoke_first: Vec<(Mark, Box<str>)>,
    pub(crate) client: ClientCaps,
    pub(crate) agent: AgentCaps,
    pub(crate) asked: [Asked; 2],
    pub(crate) authenticated: bool,
    /// session/new needed a login before.
    pub(crate) gated: bool,
    /// The last logout that succeeded and was not followed by a login.
    pub(crate) logged_out: Option<Mark>,
    pub(crate) cursors: HashSet<Box<str>>,
    /// Ids of the list that is being walked through.
    pub(crate) listed: HashSet<Box<str>>,
    pub(crate) deleted: HashSet<Box<str>>,
    /// Sessions of earlier connections that were not loaded here.
    pub(crate) earlier: HashMap<Box<str>, Past>,
    pub(crate) closed: HashSet<Box<str>>,
    pub(crate) terminals: HashMap<Box<str>, Terminal>,
    pub(crate) terminals_forgotten: bool,
    pub(crate) elicitations: HashMap<Box<str>, bool>,
    pub(crate) last_cancel: Option<(Box<str>, Mark)>,
    sessions: Vec<Session>,
    by_id: HashMap<Box<str>, usize>,
    last: usize,
    pub(crate) sessions_forgotten: bool,
    /// A line was too long to be read: what was open at the end may have been answered.
    pub(crate) blind: bool,
    /// The client closed its end: what agents do to wind up is not judged like a turn that somebody waits for.
    pub(crate) client_left: bool,
    /// It did so while a turn ran.
    pub(crate) left_in_turn: bool,
    /// Common frames may go the short way.
    pub(crate) fast: bool,
    /// A chunk went the long way and put to the test what chunks do, in general and with a message id.
    pub(crate) chunk_seen: [bool; 2],
}

impl State {
    /// The client closes its end.
    pub(crate) fn client_leaves(&mut self) {
        self.client_left = true;
        self.left_in_turn |= self.sessions.iter().any(|session| !session.turns.is_empty());
    }

    pub(crate) fn new() -> Self {
        Self {
            phase: Phase::Fresh,
            requested: None,
            asked_early: false,
            spoke_first: Vec::new(),
            client: ClientCaps::default(),
            agent: AgentCaps::default(),
            asked: Default::default(),
            authenticated: false,
            gated: false,
            logged_out: None,
            cursors: HashSet::new(),
            listed: HashSet::new(),
            deleted: HashSet::new(),
            earlier: HashMap::new(),
            closed: HashSet::new(),
            terminals: HashMap::new(),
            terminals_forgotten: false,
            elicitations: HashMap::new(),
            last_cancel: None,
            sessions: Vec::new(),
            by_id: HashMap::new(),
            last: 0,
            sessions_forgotten: false,
            blind: false,
            client_left: false,
            left_in_turn: false,
            fast: true,
            chunk_seen: [false; 2],
        }
    }

    /// The schema that judges the connection now.
    #[inline]
    pub(crate) fn edition(&self) -> Edition {
        match self.phase {
            Phase::Agreed(2) => Edition::V2,
            _ => Edition::V1,
        }
    }

    /// Whether the v1 history rules apply.
    #[inline]
    pub(crate) fn is_v1(&self) -> bool {
        self.edition() == Edition::V1
    }

    pub(crate) fn asked(&mut self, side: Side) -> &mut Asked {
        &mut self.asked[side as usize]
    }

    /// The session of that id, if it was created, loaded or resumed here.
    #[inline]
    pub(crate) fn session(&mut self, id: &str) -> Option<&mut Session> {
        let place = self.session_place(id)?;
        self.sessions.get_mut(place)
    }

    #[inline]
    pub(crate) fn session_place(&mut self, id: &str) -> Option<usize> {
        if self.sessions.get(self.last).is_some_and(|session| &*session.id == id) {
            return Some(self.last);
        }
        let place = *self.by_id.get(id)?;
        self.last = place;
        Some(place)
    }

    pub(crate) fn sessions(&self) -> &[Session] {
        &self.sessions
    }

    pub(crate) fn sessions_mut(&mut self) -> &mut [Session] {
        &mut self.sessions
    }

    /// Remembers a session, or gives the one that is there already.
    /// Whether a request of the client that is still open is for this session.
    pub(crate) fn is_named_by_client(&self, id: &str) -> bool {
        self.asked[Side::Client as usize].open.values().any(|open| open.session.as_deref() == Some(id))
    }

    pub(crate) fn open_session(&mut self, id: &str, mark: Mark) -> &mut Session {
        if self.session_place(id).is_none() {
            if self.sessions.len() >= SESSIONS {
                self.sessions.clear();
                self.by_id.clear();
                self.sessions_forgotten = true;
            }
            self.by_id.insert(id.into(), self.sessions.len());
            self.last = self.sessions.len();
            self.sessions.push(Session::new(id.into(), mark));
        }
        &mut self.sessions[self.last]
    }

    pub(crate) fn add_terminal(&mut self, id: &str, terminal: Terminal) {
        if self.terminals.len() >= TERMINALS {
            self.terminals_forgotten = true;
            self.terminals.retain(|_, terminal| !terminal.released);
            if self.terminals.len() >= TERMINALS {
                self.terminals.clear();
            }
        }
        self.terminals.insert(id.into(), terminal);
    }
}

/// Adds to a set that stays small.
pub(crate) fn remember(set: &mut HashSet<Box<str>>, value: &str) {
    if set.len() < 8_192 {
        set.insert(value.into());
    }
}

/// Since a mark.
pub(crate) fn since(mark: Mark, now: Duration) -> Duration {
    now.saturating_sub(mark.at)
}
