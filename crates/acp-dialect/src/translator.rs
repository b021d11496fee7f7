//! One wire, one foreign peer.

use acp_proto::{Side, error_code, method};
use acp_rpc::{Frame, Id, Reply, RpcError, View};
use serde_json::Value;

use crate::core::{Core, OnAnswer, OpenRequest, Refusal, Wire};
use crate::dialect::Dialect;
use crate::form::Request;
use crate::json::Map;
use crate::note::{Note, NoteKind};
use crate::options::TranslationOptions;
use crate::{codes, detect, fast, shared};

/// Where a frame goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Destination {
    /// To the other side of the translator.
    Onward,
    /// Back to the side that the translated frame came from.
    Back,
}

/// A frame and where it goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutFrame {
    /// Where to.
    pub to: Destination,
    /// The frame, in the form of the side that it goes to.
    pub frame: Frame,
}

/// What came of one frame.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Translated {
    /// The frames to send, in this order.
    pub frames: Vec<OutFrame>,
    /// What was lost, made up, carried, refused or wrong.
    pub notes: Vec<Note>,
}

impl Translated {
    fn same(frame: &Frame) -> Self {
        Self { frames: vec![OutFrame { to: Destination::Onward, frame: frame.clone() }], notes: Vec::new() }
    }
}

/// Translates between one foreign peer and the canonical side of the conversation.
///
/// ```
/// use acp_dialect::{Dialect, TranslationOptions, Side, Translator};
/// use acp_rpc::Frame;
///
/// let mut at_client = Translator::new(Dialect::PROBE, Side::Client, TranslationOptions::default());
/// let hello = Frame::parse(r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"1"}}"#);
/// let out = at_client.to_canonical(&hello);
/// assert_eq!(out.frames[0].frame.params(), Some(r#"{"protocolVersion":1,"clientCapabilities":{}}"#));
/// ```
#[derive(Debug)]
pub struct Translator {
    core: Core,
}

impl Translator {
    /// A translator for a wire whose `foreign_side` speaks `foreign`.
    #[must_use]
    pub fn new(foreign: Dialect, foreign_side: Side, options: TranslationOptions) -> Self {
        Self { core: Core::new(foreign, foreign_side, options) }
    }

    pub(crate) fn core(&mut self) -> &mut Core {
        &mut self.core
    }

    /// The form of the foreign peer.
    #[must_use]
    pub fn dialect(&self) -> Dialect {
        self.core.dialect
    }

    /// Which side the foreign peer is.
    #[must_use]
    pub fn foreign_side(&self) -> Side {
        self.core.side
    }

    /// The wall clock as RFC 3339 text, for forms whose answers carry a time. Without it the field is left out.
    pub fn set_wall_clock(&mut self, now: impl Into<String>) {
        self.core.wall_clock = Some(now.into());
    }

    /// Pairs of session ids that differ on the two sides, (foreign, canonical), for [`TranslationOptions::sessions`] of a later
    /// connection.
    #[must_use]
    pub fn session_ids(&self) -> Vec<(String, String)> {
        self.core.pairs().map(|(foreign, canonical)| (foreign.to_owned(), canonical.to_owned())).collect()
    }

    /// Translates a frame that the foreign peer sent.
    pub fn to_canonical(&mut self, frame: &Frame) -> Translated {
        if self.core.dialect.is_canonical() {
            return Translated::same(frame);
        }
        self.core.begin(true);
        if let Some(out) = fast::decode(&mut self.core, frame) {
            self.core.emit(Wire::Canonical, out);
        } else {
            self.translate(frame);
        }
        self.core.finish()
    }

    /// Translates a frame that the canonical side sent.
    pub fn from_canonical(&mut self, frame: &Frame) -> Translated {
        if self.core.dialect.is_canonical() {
            return Translated::same(frame);
        }
        self.core.begin(false);
        if let Some(out) = fast::encode(&mut self.core, frame) {
            self.core.emit(Wire::Foreign, out);
        } else {
            self.translate(frame);
        }
        self.core.finish()
    }

    pub(crate) fn complete(&mut self, frame: Frame, unix_millis: u64) -> Option<Frame> {
        self.core.form().complete(&mut self.core, frame, unix_millis)
    }

    /// The canonical side is gone: answers every request that the foreign peer still waits for, in its own form.
    pub fn canonical_closed(&mut self) -> Translated {
        self.core.begin(false);
        for (id, asked) in self.core.by_foreign.drain() {
            let id = match asked.job {
                OnAnswer::Told { .. } => continue,
                OnAnswer::ModeAfterNew { reply_to, .. } => reply_to,
                _ => id,
            };
            let error = codes::closed(&mut self.core, &asked.method);
            self.core.fail(Wire::Foreign, &id, &error);
        }
        self.core.finish()
    }

    /// The long way alone, which says what the short way must say.
    #[cfg(test)]
    pub(crate) fn the_long_way(&mut self, decoding: bool, frame: &Frame) -> Translated {
        if self.core.dialect.is_canonical() {
            return Translated::same(frame);
        }
        self.core.begin(decoding);
        self.translate(frame);
        self.core.finish()
    }

    fn translate(&mut self, frame: &Frame) {
        for member in frame.unknown_members() {
            let method = frame.method().unwrap_or_default().to_owned();
            self.core.note(NoteKind::Lossy, method, member, "an envelope member that JSON-RPC does not know");
        }
        match frame.view() {
            View::Request { id, method, params } => self.request(frame, id, method, params),
            View::Notification { method, params } => self.notification(frame, method, params),
            View::Response { id, reply } => self.response(frame, id, reply),
            View::Batch(_) => {
                self.core.note(NoteKind::Malformed, "", "", "a batch; ACP has none, passed unchanged");
                self.core.pass(frame);
            }
            View::Malformed(flaw) => {
                let message = format!("{flaw}; passed unchanged");
                self.core.note(NoteKind::Malformed, "", "", message);
                self.core.pass(frame);
            }
        }
    }

    fn request(&mut self, frame: &Frame, id: &Id, method: &str, params: Option<&str>) {
        let core = &mut self.core;
        if core.is_decoding()
            && let Some(owner) = detect::stranger(method, core.dialect)
        {
            core.refuse(id, method, None, other_dialect(method, owner, core.dialect));
            return;
        }
        if let Some(refusal) = core.crowded() {
            core.refuse(id, method, None, refusal);
            return;
        }
        let Some(params) = object(core, method, params) else {
            shared::through_quietly(core, frame, id, method);
            return;
        };
        if core.is_decoding() && method == method::INITIALIZE {
            introduce(core, &params);
        }
        let session = named_session(core, &params);
        let (form, request) = (core.form(), Request { frame, id, method, params });
        let done = if core.is_decoding() {
            form.decode_request(core, request)
        } else {
            form.encode_request(core, request)
        };
        if let Err(refusal) = done {
            core.refuse(id, method, session.as_deref(), refusal);
        }
    }

    fn notification(&mut self, frame: &Frame, method: &str, params: Option<&str>) {
        let core = &mut self.core;
        if core.is_decoding()
            && let Some(owner) = detect::stranger(method, core.dialect)
        {
            let refusal = other_dialect(method, owner, core.dialect);
            core.note(
                refusal.kind,
                method.to_owned(),
                "",
                format!("{}; not passed on", refusal.error.message),
            );
            return;
        }
        let Some(params) = object(core, method, params) else {
            core.pass(frame);
            return;
        };
        let form = core.form();
        if core.is_decoding() {
            form.decode_notification(core, frame, method, params);
        } else {
            form.encode_notification(core, frame, method, params);
        }
    }

    fn response(&mut self, frame: &Frame, id: &Id, reply: Reply<'_>) {
        let core = &mut self.core;
        let decoding = core.is_decoding();
        let open = if decoding { &mut core.of_foreign } else { &mut core.by_foreign };
        let Some(asked) = open.remove(id) else {
            let message = format!(
                "an answer to {id}, which nobody asked or which was answered before; passed unchanged"
            );
            core.note(NoteKind::UnknownAnswer, "", "id", message);
            core.pass(frame);
            return;
        };
        match reply {
            Reply::Result(text) => {
                let Some(result) = core.parse(text) else {
                    let message = "nested too deep to translate; passed unchanged";
                    core.note(NoteKind::WrongShape, asked.method, "result", message);
                    core.pass(frame);
                    return;
                };
                self.result(frame, id, asked, result);
            }
            Reply::Error(text) => {
                let error = core.parse(text).and_then(|error| serde_json::from_value::<RpcError>(error).ok());
                let Some(error) = error else {
                    let message = "no code or message; passed unchanged";
                    core.note(NoteKind::WrongShape, asked.method, "error", message);
                    core.pass(frame);
                    return;
                };
                self.error(frame, id, asked, error);
            }
        }
    }

    fn result(&mut self, frame: &Frame, id: &Id, asked: OpenRequest, result: Value) {
        let core = &mut self.core;
        match asked.job {
            OnAnswer::Through => return core.pass(frame),
            OnAnswer::Cancel => return shared::cancel_answered(core, method::SESSION_CANCEL),
            _ => {}
        }
        let form = core.form();
        if core.is_decoding() {
            form.decode_result(core, id, asked, result);
        } else {
            form.encode_result(core, id, asked, result);
        }
    }

    fn error(&mut self, frame: &Frame, id: &Id, asked: OpenRequest, error: RpcError) {
        let core = &mut self.core;
        let form = core.form();
        let session = asked.session.clone();
        match asked.job {
            OnAnswer::Cancel => {
                let message = format!("the agent refused to cancel: {error}");
                return core.note(NoteKind::Lossy, method::SESSION_CANCEL, "error", message);
            }
            OnAnswer::Told { .. } => return form.permission_failed(core, session.as_deref(), &error),
            OnAnswer::ModeAfterNew { .. } => {
                let Some((id, made)) = shared::mode_after_new(core, asked, Some(&error)) else { return };
                return form.encode_made(core, &id, made);
            }
            _ => {}
        }
        let translated = if core.is_decoding() {
            if form.decode_failure(core, id, &asked, &error) {
                return;
            }
            codes::decode(core, &asked.method, session.as_deref(), error.clone())
        } else {
            let mut error = codes::encode(core, &asked.method, session.as_deref(), error.clone());
            error.message = form.error_message(&asked.method, error.message);
            error
        };
        if let Some(session) = session.as_deref() {
            match &*asked.method {
                method::SESSION_PROMPT => drop(shared::end_turn(core, session, id)),
                method::SESSION_LOAD => core.session(session).replay = None,
                _ => {}
            }
        }
        if translated == error {
            core.pass(frame);
        } else {
            core.fail(core.onward(), id, &translated);
        }
    }
}

/// The params as an object; absent ones are empty. Anything else is noted and goes through.
fn object(core: &mut Core, method: &str, params: Option<&str>) -> Option<Map> {
    let Some(text) = params else { return Some(Map::new()) };
    match core.parse(text) {
        Some(Value::Object(map)) => Some(map),
        Some(Value::Null) => Some(Map::new()),
        Some(_) => {
            core.note(NoteKind::WrongShape, method.to_owned(), "params", "not an object; passed unchanged");
            None
        }
        None => {
            let message = "nested too deep to translate; passed unchanged";
            core.note(NoteKind::WrongShape, method.to_owned(), "params", message);
            None
        }
    }
}

fn named_session(core: &Core, params: &Map) -> Option<String> {
    let named = params.get("sessionId").or_else(|| params.get("session_id")).and_then(Value::as_str)?;
    Some(core.session_ids(named).1)
}

fn other_dialect(method: &str, owner: Dialect, agreed: Dialect) -> Refusal {
    let message = format!("{method} belongs to the form {owner}; this connection speaks {agreed}");
    Refusal {
        kind: NoteKind::OtherDialect,
        field: "",
        error: Box::new(RpcError::new(error_code::METHOD_NOT_FOUND, message)),
    }
}

/// Notes a peer that introduces itself in another form than the one agreed.
fn introduce(core: &mut Core, params: &Map) {
    if let Some(found) = detect::form_of_initialize(params)
        && !core.dialect.may_begin_like(found)
    {
        let message = format!(
            "the {} introduced itself in the form {found}; this connection speaks {}",
            core.side, core.dialect
        );
        core.note(NoteKind::OtherDialect, method::INITIALIZE, "protocolVersion", message);
    }
}
