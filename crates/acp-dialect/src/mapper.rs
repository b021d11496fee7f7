//! One object, moved field by field from one form into the other, with nothing left behind unseen.

use std::borrow::Cow;

use acp_proto::method;
use acp_rpc::Id;
use serde_json::Value;

use crate::core::{Core, OnAnswer, OpenRequest};
use crate::json::{Map, put_meta, take_meta};
use crate::note::NoteKind;
use crate::session::Replay;
use crate::shared;

/// An object on its way. Fields are taken from the source and set on the target; what nobody took is carried in the
/// target's `_meta` with a note, and what an earlier translation carried there comes back to its place.
pub(crate) struct ObjectMapper<'c> {
    pub(crate) core: &'c mut Core,
    method: Cow<'static, str>,
    path: &'static str,
    src: Map,
    dst: Map,
    restored: Map,
    carried: Vec<(String, Value)>,
}

impl<'c> ObjectMapper<'c> {
    pub(crate) fn new(
        core: &'c mut Core,
        method: impl Into<Cow<'static, str>>,
        path: &'static str,
        mut src: Map,
    ) -> Self {
        let restored = take_meta(&mut src, core.target_key());
        Self { core, method: method.into(), path, src, dst: Map::new(), restored, carried: Vec::new() }
    }

    /// A result on its way, if it is an object. Anything else is answered with an error.
    pub(crate) fn of_result(
        core: &'c mut Core,
        id: &Id,
        method: impl Into<Cow<'static, str>>,
        result: Value,
    ) -> Option<Self> {
        let method = method.into();
        match result {
            Value::Object(result) => Some(Self::new(core, method, "result", result)),
            other => {
                shared::wrong_answer(core, id, &method, "it is not an object", other);
                None
            }
        }
    }

    /// Begins the turn of a prompt in this session.
    pub(crate) fn begin_turn(&mut self, id: &Id, session: Option<&str>) {
        if let Some(session) = session {
            self.core.session(session).begin_turn(id);
        }
    }

    /// The dotted name of a field, for notes.
    fn field(&self, name: &str) -> Cow<'static, str> {
        if self.path.is_empty() { name.to_owned().into() } else { format!("{}.{name}", self.path).into() }
    }

    pub(crate) fn note(&mut self, kind: NoteKind, name: &str, message: impl Into<Cow<'static, str>>) {
        let field = self.field(name);
        self.core.note(kind, self.method.clone(), field, message);
    }

    pub(crate) fn take(&mut self, name: &str) -> Option<Value> {
        self.src.shift_remove(name)
    }

    /// Takes an object; anything else stays where it is, to be carried.
    pub(crate) fn take_map(&mut self, name: &str) -> Option<Map> {
        if !self.src.get(name)?.is_object() {
            let message = format!("{name} is not an object");
            self.note(NoteKind::WrongShape, name, message);
            return None;
        }
        self.src.shift_remove(name).and_then(crate::json::into_map)
    }

    /// Takes an array; anything else stays where it is, to be carried.
    pub(crate) fn take_list(&mut self, name: &str) -> Option<Vec<Value>> {
        match self.src.shift_remove(name)? {
            Value::Array(list) => Some(list),
            other => {
                let message = format!("{name} is not an array");
                self.note(NoteKind::WrongShape, name, message);
                self.src.insert(name.to_owned(), other);
                None
            }
        }
    }

    /// Takes a string; anything else stays where it is, to be carried.
    pub(crate) fn take_text(&mut self, name: &str) -> Option<String> {
        match self.src.shift_remove(name)? {
            Value::String(text) => Some(text),
            other => {
                let message = format!("{name} is not a string");
                self.note(NoteKind::WrongShape, name, message);
                self.src.insert(name.to_owned(), other);
                None
            }
        }
    }

    /// Takes a range of lines that the other side cannot be asked for; it is cut out of the answer.
    pub(crate) fn take_range(&mut self, whole_files: &'static str) -> OnAnswer {
        let mut number = |name: &str| self.take(name).as_ref().and_then(Value::as_u64);
        let (line, limit) = (number("line"), number("limit"));
        if line.is_none() && limit.is_none() {
            return OnAnswer::Plain;
        }
        self.note(NoteKind::Lossy, "line", whole_files);
        OnAnswer::Read { line, limit }
    }

    /// Drops a field that says no more than its absence.
    pub(crate) fn drop_if(&mut self, name: &str, value: impl Into<Value>) {
        if self.peek(name) == Some(&value.into()) {
            self.take(name);
        }
    }

    /// Sets a field unless an earlier translation carried its value.
    pub(crate) fn set_new(&mut self, name: &str, value: impl Into<Value>) {
        if self.restored(name).is_none() {
            self.set(name, value);
        }
    }

    pub(crate) fn peek(&self, name: &str) -> Option<&Value> {
        self.src.get(name)
    }

    /// What an earlier translation carried under this name, if anything; it is put in place by [`Self::finish`]
    /// unless it is taken here.
    pub(crate) fn take_restored(&mut self, name: &str) -> Option<Value> {
        self.restored.shift_remove(name)
    }

    pub(crate) fn restored(&self, name: &str) -> Option<&Value> {
        self.restored.get(name)
    }

    pub(crate) fn set(&mut self, name: &str, value: impl Into<Value>) {
        self.dst.insert(name.to_owned(), value.into());
    }

    /// A field that is already on the target.
    pub(crate) fn placed(&self, name: &str) -> Option<&Value> {
        self.dst.get(name)
    }

    /// Moves a field under another name.
    pub(crate) fn rename(&mut self, from: &str, to: &str) {
        if let Some(value) = self.take(from) {
            self.dst.insert(to.to_owned(), value);
        }
    }

    /// Moves fields under their own names.
    pub(crate) fn keep(&mut self, names: &[&str]) {
        for name in names {
            self.rename(name, name);
        }
    }

    /// Sets a field that the source never had: what was carried before, or a made-up value with a note.
    pub(crate) fn invent(&mut self, name: &str, value: impl Into<Value>, message: &'static str) {
        if self.dst.contains_key(name) {
            return;
        }
        if let Some(restored) = self.restored.shift_remove(name) {
            self.dst.insert(name.to_owned(), restored);
            return;
        }
        self.note(NoteKind::Invented, name, message);
        self.dst.insert(name.to_owned(), value.into());
    }

    /// Keeps a value of the source form in the target's `_meta`, with a note.
    pub(crate) fn carry(
        &mut self,
        name: &str,
        value: Value,
        kind: NoteKind,
        message: impl Into<Cow<'static, str>>,
    ) {
        self.note(kind, name, message);
        self.carried.push((name.to_owned(), value));
    }

    /// Keeps a value of the source form in the target's `_meta` without a note, where a note already says it.
    pub(crate) fn carry_quietly(&mut self, name: &str, value: Value) {
        self.carried.push((name.to_owned(), value));
    }

    /// Carries every field that is left, where one note already says it.
    pub(crate) fn carry_all_quietly(&mut self) {
        let meta = self.src.shift_remove("_meta");
        self.carried.extend(std::mem::take(&mut self.src));
        if let Some(meta) = meta {
            self.src.insert("_meta".to_owned(), meta);
        }
    }

    /// Moves the session id through the map of ids; returns the canonical one.
    pub(crate) fn session(&mut self, from: &str, to: &str) -> Option<String> {
        match self.take(from) {
            Some(Value::String(id)) => {
                let (target, canonical) = self.core.session_ids(&id);
                self.set(to, target);
                Some(canonical)
            }
            Some(other) => {
                self.note(NoteKind::WrongShape, from, "the session id is not a string");
                self.set(to, other);
                None
            }
            None => {
                self.note(NoteKind::WrongShape, from, "the session id is missing");
                None
            }
        }
    }

    /// Sends the finished object on as the params of a request, by its v1 name.
    pub(crate) fn ask(self, id: &Id, method: &'static str, session: Option<String>) {
        self.ask_as(id, method, OpenRequest::new(method, session));
    }

    /// The same under the name that the other side has for it; the answer comes back to `asked`.
    pub(crate) fn ask_as(self, id: &Id, method: &str, asked: OpenRequest) {
        let (core, params) = self.close();
        core.request(core.onward(), id, method, params, asked);
    }

    /// Sends `session/new` on for a client that may choose the session's id, in this field, and its mode.
    pub(crate) fn ask_new(mut self, id: &Id, field: &str, chosen: Option<String>, mode: Option<String>) {
        for (name, value) in [(field, &chosen), ("mode", &mode)] {
            if let Some(value) = value {
                self.carry_quietly(name, value.clone().into());
            }
        }
        let asked = OpenRequest::new(method::SESSION_NEW, None).with(OnAnswer::New { chosen, mode });
        self.ask_as(id, method::SESSION_NEW, asked);
    }

    /// Sends `session/load` on. With `collect`, the replay is kept for an answer that has it in one piece.
    pub(crate) fn ask_load(self, id: &Id, session: Option<String>, collect: bool) {
        if let Some(session) = &session {
            self.core.session(session).replay = collect.then(Replay::default);
        }
        self.ask(id, method::SESSION_LOAD, session);
    }

    /// Sends the finished object on as a result.
    pub(crate) fn answer(self, id: &Id) {
        let (core, result) = self.close();
        core.answer_on(id, result);
    }

    /// Sends the finished object on as the params of a notification.
    pub(crate) fn tell(self, method: &str) {
        let (core, params) = self.close();
        core.tell(core.onward(), method, params);
    }

    /// The finished object.
    pub(crate) fn finish(self) -> Map {
        self.close().1
    }

    fn close(mut self) -> (&'c mut Core, Map) {
        let key = self.core.carry_key();
        let rest = std::mem::take(&mut self.src);
        for (name, value) in rest {
            if name == "_meta" {
                merge_meta(&mut self.dst, value);
                continue;
            }
            if !self.carried.iter().any(|(known, _)| *known == name) {
                let message = if self.core.is_decoding() {
                    "v1 has no field for it; kept in _meta"
                } else {
                    "the form has no field for it; kept in _meta"
                };
                self.note(NoteKind::Carried, &name, message);
            }
            self.carried.push((name, value));
        }
        for (name, value) in std::mem::take(&mut self.carried) {
            put_meta(&mut self.dst, key, &name, value);
        }
        for (name, value) in std::mem::take(&mut self.restored) {
            self.dst.entry(name).or_insert(value);
        }
        (self.core, self.dst)
    }
}

fn merge_meta(dst: &mut Map, value: Value) {
    match (dst.get_mut("_meta").and_then(Value::as_object_mut), value) {
        (Some(meta), Value::Object(more)) => meta.extend(more),
        (None, value) => {
            dst.insert("_meta".to_owned(), value);
        }
        (Some(_), _) => {}
    }
}
