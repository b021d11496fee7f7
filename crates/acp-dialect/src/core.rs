//! The part that all forms share: who asked what, which session is which, and where frames go.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};

use acp_proto::{Side, error_code, method};
use acp_rpc::{Frame, Id, Pending, RpcError};
use serde_json::Value;

use crate::codes;
use crate::dialect::Dialect;
use crate::form::Form;
use crate::json::{self, Map};
use crate::note::{Note, NoteKind};
use crate::options::TranslationOptions;
use crate::session::Session;
use crate::translator::{Destination, OutFrame, Translated};

/// What is remembered of a peer that never stops is bounded: open requests in each direction, …
pub(crate) const MOST_OPEN: usize = 65_536;
/// … sessions, …
pub(crate) const MOST_SESSIONS: usize = 4096;
/// … pairs of ids that name one session, …
pub(crate) const MOST_PAIRS: usize = 65_536;
/// … and terminals.
pub(crate) const MOST_TERMINALS: usize = 4096;

/// Which wire a frame goes onto.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wire {
    Foreign,
    Canonical,
}

/// An open request.
#[derive(Debug)]
pub(crate) struct OpenRequest {
    /// The method, by its v1 name where it has one.
    pub(crate) method: Cow<'static, str>,
    /// The session, by its canonical id.
    pub(crate) session: Option<String>,
    pub(crate) job: OnAnswer,
}

/// What is to be done with the answer.
#[derive(Debug)]
pub(crate) enum OnAnswer {
    /// ObjectMapper it.
    Plain,
    /// `session/new`: the id that the foreign client chose, and the mode it wants.
    New { chosen: Option<String>, mode: Option<String> },
    /// `session/set_mode` that follows such a `session/new`: the answer that waits for it, and the mode.
    ModeAfterNew { reply_to: Id, result: Map, mode: String },
    /// A range to cut out of the answer's text.
    Read { line: Option<u64>, limit: Option<u64> },
    /// A cancel request that the canonical side never made: its answer goes nowhere.
    Cancel,
    /// A permission request that the foreign agent made as a notification, and the options that mean yes.
    Told { allow: Vec<String> },
    /// The frame went through as it was; so does its answer.
    Through,
}

impl OpenRequest {
    pub(crate) fn new(method: impl Into<Cow<'static, str>>, session: Option<String>) -> Self {
        Self { method: method.into(), session, job: OnAnswer::Plain }
    }

    pub(crate) fn with(mut self, job: OnAnswer) -> Self {
        self.job = job;
        self
    }
}

/// A refusal: the sender gets an error in its own form, and a note says why.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) kind: NoteKind,
    pub(crate) field: &'static str,
    pub(crate) error: Box<RpcError>,
}

impl Refusal {
    pub(crate) fn new(field: &'static str, code: i64, message: impl Into<String>) -> Self {
        Self { kind: NoteKind::Refused, field, error: Box::new(RpcError::new(code, message)) }
    }

    /// The client chose the id of another session.
    pub(crate) fn taken(field: &'static str, chosen: &str) -> Self {
        let message = format!("the session id {chosen:?} is already in use");
        let refusal = Self::new(field, error_code::INVALID_REQUEST, message);
        Self { kind: NoteKind::DuplicateSession, ..refusal }
    }

    /// The other side's form has no such method.
    pub(crate) fn absent(method: &str, dialect: Dialect) -> Self {
        Self::new("", error_code::METHOD_NOT_FOUND, format!("{dialect} has no counterpart of {method}"))
    }
}

#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) dialect: Dialect,
    /// The side that speaks the foreign form.
    pub(crate) side: Side,
    pub(crate) options: TranslationOptions,
    /// Requests of the foreign peer that the canonical side has yet to answer.
    pub(crate) by_foreign: Pending<OpenRequest>,
    /// Requests that the foreign peer has yet to answer.
    pub(crate) of_foreign: Pending<OpenRequest>,
    pub(crate) sessions: BTreeMap<String, Session>,
    /// Canonical ids in the order in which the sessions appeared.
    order: VecDeque<String>,
    pub(crate) to_canonical: BTreeMap<String, String>,
    pub(crate) to_foreign: BTreeMap<String, String>,
    /// Foreign ids in the order in which they were paired.
    paired: VecDeque<String>,
    /// Which session a terminal belongs to.
    pub(crate) terminals: BTreeMap<String, String>,
    /// `2025.1`: given at initialize, used at session/new.
    pub(crate) held_dir: Option<String>,
    /// `2025.1`: MCP servers of initialize: as v1 has them for a client's sessions, as they were told to an agent.
    pub(crate) held_servers: Vec<Value>,
    /// `2025.1`: modes of the connection.
    pub(crate) held_modes: Vec<String>,
    /// `probe`: open tool calls of an agent that was made for all forms, and when they began.
    pub(crate) begun: BTreeMap<String, u64>,
    pub(crate) wall_clock: Option<String>,
    decoding: bool,
    next: u64,
    marked: bool,
    out: Translated,
}

impl Core {
    pub(crate) fn new(dialect: Dialect, side: Side, options: TranslationOptions) -> Self {
        let mut core = Self {
            dialect,
            side,
            by_foreign: Pending::new(MOST_OPEN),
            of_foreign: Pending::new(MOST_OPEN),
            sessions: BTreeMap::new(),
            order: VecDeque::new(),
            to_canonical: BTreeMap::new(),
            to_foreign: BTreeMap::new(),
            paired: VecDeque::new(),
            terminals: BTreeMap::new(),
            held_dir: None,
            held_servers: Vec::new(),
            held_modes: Vec::new(),
            begun: BTreeMap::new(),
            wall_clock: None,
            decoding: true,
            next: 0,
            marked: false,
            out: Translated::default(),
            options,
        };
        for (foreign, canonical) in core.options.sessions.clone() {
            core.pair_ids(&foreign, &canonical);
        }
        core
    }

    pub(crate) fn form(&self) -> &'static dyn Form {
        self.dialect.form()
    }

    pub(crate) fn begin(&mut self, decoding: bool) {
        self.decoding = decoding;
    }

    pub(crate) fn finish(&mut self) -> Translated {
        std::mem::take(&mut self.out)
    }

    /// Whether the current frame comes from the foreign peer.
    pub(crate) fn is_decoding(&self) -> bool {
        self.decoding
    }

    /// The `_meta` key for what the target form has no place for.
    pub(crate) fn carry_key(&self) -> &'static str {
        if self.decoding { self.dialect.meta_key() } else { Dialect::V1.meta_key() }
    }

    /// The `_meta` key under which an earlier translation left fields of the target form.
    pub(crate) fn target_key(&self) -> &'static str {
        if self.decoding { Dialect::V1.meta_key() } else { self.dialect.meta_key() }
    }

    pub(crate) fn note(
        &mut self,
        kind: NoteKind,
        method: impl Into<Cow<'static, str>>,
        field: impl Into<Cow<'static, str>>,
        message: impl Into<Cow<'static, str>>,
    ) {
        self.out.notes.push(Note {
            kind,
            method: method.into(),
            field: field.into(),
            message: message.into(),
        });
    }

    // ---- frames -------------------------------------------------------------------------------------------

    pub(crate) fn emit(&mut self, wire: Wire, frame: Frame) {
        let to =
            if self.decoding == (wire == Wire::Canonical) { Destination::Onward } else { Destination::Back };
        self.out.frames.push(OutFrame { to, frame });
    }

    /// The wire that the current frame goes on to.
    pub(crate) fn onward(&self) -> Wire {
        if self.decoding { Wire::Canonical } else { Wire::Foreign }
    }

    /// The frame goes on as it is.
    pub(crate) fn pass(&mut self, frame: &Frame) {
        self.out.frames.push(OutFrame { to: Destination::Onward, frame: frame.clone() });
    }

    /// A request for `wire`; its answer comes back to `asked`.
    pub(crate) fn request(&mut self, wire: Wire, id: &Id, method: &str, params: Map, asked: OpenRequest) {
        self.expect(wire, id, asked);
        let frame = self.rebuilt(Frame::request(id, method, &params));
        self.emit(wire, frame);
    }

    fn open(&mut self, wire: Wire) -> &mut Pending<OpenRequest> {
        match wire {
            Wire::Canonical => &mut self.by_foreign,
            Wire::Foreign => &mut self.of_foreign,
        }
    }

    /// Refuses a request of the current sender if too many of its requests are open.
    pub(crate) fn crowded(&mut self) -> Option<Refusal> {
        self.open(self.onward()).is_full().then(|| {
            let message =
                format!("{MOST_OPEN} requests wait for an answer; no more are taken before one came");
            Refusal::new("", error_code::INTERNAL_ERROR, message)
        })
    }

    pub(crate) fn expect(&mut self, wire: Wire, id: &Id, asked: OpenRequest) {
        match self.open(wire).replace(id, asked) {
            Ok(None) => {}
            Ok(Some(first)) => {
                let message = format!("the id {id} was used again before the first request was answered");
                self.note(NoteKind::DuplicateId, first.method, "id", message);
            }
            Err(asked) => {
                let message = "too many requests are open; the answer to this one will not be known";
                self.note(NoteKind::Lossy, asked.method, "id", message);
            }
        }
    }

    pub(crate) fn tell(&mut self, wire: Wire, method: &str, params: Map) {
        let frame = self.rebuilt(Frame::notification(method, &params));
        self.emit(wire, frame);
    }

    pub(crate) fn answer(&mut self, wire: Wire, id: &Id, result: impl Into<Value>) {
        let frame = self.rebuilt(Frame::response(id, &result.into()));
        self.emit(wire, frame);
    }

    /// The result goes on to the side that asked.
    pub(crate) fn answer_on(&mut self, id: &Id, result: impl Into<Value>) {
        self.answer(self.onward(), id, result);
    }

    pub(crate) fn fail(&mut self, wire: Wire, id: &Id, error: &RpcError) {
        let frame = self.rebuilt(Frame::failure(id, error));
        self.emit(wire, frame);
    }

    /// The sender's request is refused, in the sender's form.
    pub(crate) fn refuse(&mut self, id: &Id, method: &str, session: Option<&str>, refusal: Refusal) {
        self.note(refusal.kind, method.to_owned(), refusal.field, refusal.error.message.clone());
        if self.decoding {
            let error = codes::encode(self, method, session, *refusal.error);
            self.fail(Wire::Foreign, id, &error);
        } else {
            self.fail(Wire::Canonical, id, &refusal.error);
        }
    }

    /// Puts the text of unusual numbers back.
    fn rebuilt(&self, frame: Frame) -> Frame {
        match frame.text() {
            Some(text) if self.marked && text.contains('\u{E000}') => {
                Frame::parse(json::unmark(text.to_owned()))
            }
            _ => frame,
        }
    }

    /// Parses JSON text that the envelope already vouches for; `None` when it nests too deep for a tree.
    pub(crate) fn parse(&mut self, text: &str) -> Option<Value> {
        let (value, marked) = json::parse(text)?;
        self.marked |= marked;
        Some(value)
    }

    /// An id for a request that nobody on the wire made.
    pub(crate) fn invent_id(&mut self) -> Id {
        self.next += 1;
        Id::from(format!("acp-dialect-{}-{}", self.side, self.next))
    }

    pub(crate) fn invent_name(&mut self, prefix: &str) -> String {
        self.next += 1;
        format!("{prefix}-{}", self.next)
    }

    // ---- sessions -----------------------------------------------------------------------------------------

    /// Remembers that two ids name one session.
    pub(crate) fn pair_ids(&mut self, foreign: &str, canonical: &str) {
        if foreign == canonical {
            return;
        }
        if self.to_canonical.insert(foreign.to_owned(), canonical.to_owned()).is_none() {
            self.paired.push_back(foreign.to_owned());
        }
        self.to_foreign.insert(canonical.to_owned(), foreign.to_owned());
        if self.paired.len() > MOST_PAIRS
            && let Some(oldest) = self.paired.pop_front()
            && let Some(canonical) = self.to_canonical.remove(&oldest)
        {
            self.to_foreign.remove(&canonical);
            let message = format!("the session {oldest:?} is forgotten: there are more than {MOST_PAIRS}");
            self.note(NoteKind::Lossy, method::SESSION_NEW, "sessionId", message);
        }
    }

    pub(crate) fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.to_canonical.iter().map(|(foreign, canonical)| (foreign.as_str(), canonical.as_str()))
    }

    pub(crate) fn canonical_id<'a>(&'a self, foreign: &'a str) -> &'a str {
        self.to_canonical.get(foreign).map_or(foreign, String::as_str)
    }

    pub(crate) fn foreign_id<'a>(&'a self, canonical: &'a str) -> &'a str {
        self.to_foreign.get(canonical).map_or(canonical, String::as_str)
    }

    /// From the sender's id to (the target's id, the canonical id).
    pub(crate) fn session_ids(&self, id: &str) -> (String, String) {
        if self.decoding {
            let canonical = self.canonical_id(id).to_owned();
            (canonical.clone(), canonical)
        } else {
            (self.foreign_id(id).to_owned(), id.to_owned())
        }
    }

    pub(crate) fn session(&mut self, canonical: &str) -> &mut Session {
        if !self.sessions.contains_key(canonical) {
            if self.order.len() >= MOST_SESSIONS {
                self.forget_one();
            }
            self.order.push_back(canonical.to_owned());
        }
        self.sessions.entry(canonical.to_owned()).or_default()
    }

    /// Forgets what is known of the oldest session, or of one nearly as old that has no open turn.
    fn forget_one(&mut self) {
        let idle = |id: &String| self.sessions.get(id).is_none_or(|session| session.turn.is_none());
        let at = self.order.iter().take(16).position(idle).unwrap_or_default();
        if let Some(oldest) = self.order.remove(at) {
            self.sessions.remove(&oldest);
        }
    }

    /// Remembers which session a terminal belongs to.
    pub(crate) fn place_terminal(&mut self, terminal: &str, session: &str) {
        if self.terminals.len() >= MOST_TERMINALS {
            self.terminals.pop_first();
        }
        self.terminals.insert(terminal.to_owned(), session.to_owned());
    }

    pub(crate) fn knows(&self, canonical: &str) -> bool {
        self.sessions.contains_key(canonical)
    }

    /// The session that a frame without a session id most likely means: the newest one with an open turn, else the
    /// newest one.
    pub(crate) fn likely_session(&self) -> Option<&str> {
        let busy = |id: &&String| self.sessions.get(*id).is_some_and(|session| session.turn.is_some());
        self.order.iter().rev().find(busy).or(self.order.back()).map(String::as_str)
    }

    /// The working directory for a new session where the form does not say.
    pub(crate) fn work_dir(&self) -> String {
        self.held_dir.clone().unwrap_or_else(|| self.options.work_dir.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Translator;

    fn ask(id: usize, session: usize) -> Frame {
        let params = serde_json::json!({"sessionId": format!("s{session}"), "prompt": "go"});
        Frame::request(&Id::from(i64::try_from(id).unwrap_or_default()), "session/prompt", &params)
    }

    #[test]
    fn a_peer_that_never_stops_is_remembered_within_bounds() {
        let mut translator = Translator::new(Dialect::DELTA, Side::Client, TranslationOptions::default());
        for number in 0..MOST_OPEN {
            let out = translator.to_canonical(&ask(number, number));
            assert!(out.frames.iter().all(|out| out.to == Destination::Onward), "{number} is refused");
        }
        let out = translator.to_canonical(&ask(MOST_OPEN, 0));
        assert!(out.notes.iter().any(|note| note.kind == NoteKind::Refused), "{:?}", out.notes);
        let refusal = &out.frames[0];
        assert_eq!(refusal.to, Destination::Back);
        assert!(refusal.frame.error().is_some_and(|error| error.contains("65536 requests")), "{refusal:?}");
        let core = translator.core();
        assert_eq!((core.by_foreign.len(), core.sessions.len()), (MOST_OPEN, MOST_SESSIONS));
        assert_eq!(core.order.len(), MOST_SESSIONS);
    }

    #[test]
    fn ids_terminals_and_tool_calls_are_remembered_within_bounds() {
        let mut core = Core::new(Dialect::V2025_1, Side::Client, TranslationOptions::default());
        for number in 0..MOST_PAIRS + 10 {
            core.pair_ids(&format!("theirs {number}"), &format!("ours {number}"));
            core.place_terminal(&format!("terminal {number}"), "s");
            core.session("s").tool(&format!("call {number}")).status = "pending".to_owned();
        }
        assert_eq!((core.to_canonical.len(), core.to_foreign.len()), (MOST_PAIRS, MOST_PAIRS));
        assert_eq!(core.canonical_id("theirs 5"), "theirs 5", "the oldest are forgotten");
        assert_eq!(core.canonical_id("theirs 65545"), "ours 65545");
        assert!(core.out.notes.iter().any(|note| note.message.contains("forgotten")));
        assert_eq!(core.terminals.len(), MOST_TERMINALS);
        assert!(core.session("s").tools.len() <= 4096);
    }

    #[test]
    fn a_history_in_one_piece_has_an_end_and_says_so() {
        let mut translator = Translator::new(Dialect::PROBE, Side::Client, TranslationOptions::default());
        let load = Frame::request(&Id::from(1), "loadSession", &serde_json::json!({"sessionId": "s"}));
        translator.to_canonical(&load);
        let text = "x".repeat(1024 * 1024);
        for _ in 0..20 {
            let update = serde_json::json!({"sessionUpdate": "agent_message_chunk",
                                            "content": {"type": "text", "text": text}});
            let params = serde_json::json!({"sessionId": "s", "update": update});
            translator.from_canonical(&Frame::notification("session/update", &params));
        }
        let out = translator.from_canonical(&Frame::response(&Id::from(1), &serde_json::json!({})));
        assert_eq!(out.frames[0].frame.raw().len() >> 20, 16);
        assert!(out.notes.iter().any(|note| note.field == "history" && note.kind == NoteKind::Lossy));
    }
}
