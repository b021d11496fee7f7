//! Which frames a fault concerns.

use acp_match::Vars;
use acp_rpc::{Frame, Reply, View};
use serde_json::Value;

use super::{FrameKind, FrameWay, Select};

/// A frame on its way, as selectors see it.
pub(crate) struct Seen<'a> {
    pub(crate) way: FrameWay,
    pub(crate) frame: &'a Frame,
    /// The method of the request that a response answers.
    pub(crate) answers: Option<&'a str>,
    pub(crate) value: &'a Value,
}

impl Select {
    /// Whether the frame is meant, counts and chance aside.
    pub(crate) fn means(&self, seen: &Seen<'_>, vars: &Vars) -> bool {
        self.at.is_none()
            && self.on == seen.way
            && self.kind.is_none_or(|kind| is(kind, seen.frame))
            && (self.method.is_empty()
                || seen.frame.method().is_some_and(|method| among(&self.method, method)))
            && (self.to.is_empty() || seen.answers.is_some_and(|method| among(&self.to, method)))
            && (self.update.is_empty()
                || update_kind(seen.value).is_some_and(|kind| among(&self.update, kind)))
            && (!self.stray || (is(FrameKind::Response, seen.frame) && seen.answers.is_none()))
            && self.longer.is_none_or(|len| seen.frame.raw().len() > len)
            && self.shorter.is_none_or(|len| seen.frame.raw().len() < len)
            && self.lacks.iter().all(|pointer| seen.value.pointer(pointer).is_none())
            && self.has.iter().all(|name| is_set(vars, name))
            && !self.has_not.iter().any(|name| is_set(vars, name))
            && self.same.iter().all(|(pointer, name)| {
                is_set(vars, name)
                    && seen.value.pointer(pointer).is_some_and(|found| vars.get(name) == Some(found))
            })
            && self.when.as_ref().is_none_or(|pattern| pattern.matches(seen.value))
    }
}

/// Unset and null are the same.
fn is_set(vars: &Vars, name: &str) -> bool {
    vars.get(name).is_some_and(|value| !value.is_null())
}

fn among(names: &[String], name: &str) -> bool {
    names.iter().any(|candidate| match candidate.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => candidate == name,
    })
}

fn update_kind(value: &Value) -> Option<&str> {
    value.pointer("/params/update/sessionUpdate").and_then(Value::as_str)
}

fn is(kind: FrameKind, frame: &Frame) -> bool {
    matches!(
        (kind, frame.view()),
        (FrameKind::Request, View::Request { .. })
            | (FrameKind::Notification, View::Notification { .. })
            | (FrameKind::Response, View::Response { .. })
            | (FrameKind::Result, View::Response { reply: Reply::Result(_), .. })
            | (FrameKind::Error, View::Response { reply: Reply::Error(_), .. })
            | (FrameKind::Batch, View::Batch(_))
            | (FrameKind::Malformed, View::Malformed(_))
    )
}
