//! Which form a peer speaks, from what it says first.

use acp_proto::method;
use acp_rpc::{Frame, Reply, View};
use serde_json::Value;

use crate::dialect::Dialect;
use crate::form::Form;
use crate::json::{self, Map};
use crate::traits::FormTraits;

/// What could be told from the frames.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Detection {
    /// The frames are of this form and of no other.
    Sure(Dialect),
    /// They could be of several forms, or of none.
    Unsure {
        /// The forms that are still possible, most likely first; empty when none is known.
        candidates: Vec<Dialect>,
        /// What was seen and what to do.
        message: String,
    },
}

impl Detection {
    /// The form to go on with: the sure one, or the most likely.
    #[must_use]
    pub fn best(&self) -> Option<Dialect> {
        match self {
            Self::Sure(dialect) => Some(*dialect),
            Self::Unsure { candidates, .. } => candidates.first().copied(),
        }
    }

    fn unsure(candidates: &[Dialect], message: impl Into<String>) -> Self {
        Self::Unsure { candidates: candidates.to_vec(), message: message.into() }
    }
}

/// Names the form of a peer from its first frames: a client's `initialize` (or first request), an agent's answer to it.
/// The first frame that says something decides.
pub fn detect<'a>(frames: impl IntoIterator<Item = &'a Frame>) -> Detection {
    let mut last = Detection::unsure(&[], "nothing was said yet");
    for frame in frames {
        let found = one(frame);
        match &found {
            Detection::Sure(_) => return found,
            Detection::Unsure { candidates, .. } if !candidates.is_empty() || last.best().is_none() => {
                last = found;
            }
            Detection::Unsure { .. } => {}
        }
    }
    last
}

fn one(frame: &Frame) -> Detection {
    match frame.view() {
        View::Request { method, params, .. } | View::Notification { method, params } => {
            said(method, &map(params).unwrap_or_default())
        }
        View::Response { reply: Reply::Result(result), .. } => match map(Some(result)) {
            Some(result) => answered(&result),
            None => Detection::unsure(&[], "the first answer is not an object"),
        },
        View::Response { reply: Reply::Error(_), .. } => {
            Detection::unsure(&[], "the first answer is an error")
        }
        View::Batch(_) => Detection::unsure(&[], "a batch: no form of ACP has them"),
        View::Malformed(flaw) => Detection::unsure(&[], format!("not a JSON-RPC message: {flaw}")),
    }
}

fn map(text: Option<&str>) -> Option<Map> {
    json::parse(text?).and_then(|(value, _)| json::into_map(value))
}

fn said(method: &str, params: &Map) -> Detection {
    if let Some(dialect) = owner(method) {
        return Detection::Sure(dialect);
    }
    if method != method::INITIALIZE {
        return later(method, params);
    }
    let alike = alike(|traits| traits.begins_like_v1);
    match form_of_initialize(params) {
        Some(dialect) if dialect.is_canonical() && alike.len() > 1 => {
            let names = alike.iter().map(|dialect| dialect.as_str()).collect::<Vec<_>>().join(" and ");
            let others = names.trim_start_matches("v1 and ");
            let message = format!(
                "initialize is the same in {names}; taken as v1, name the dialect if the client speaks {others}"
            );
            Detection::unsure(&alike, message)
        }
        Some(dialect) => Detection::Sure(dialect),
        None => {
            let version =
                params.get("protocolVersion").map_or_else(|| "no version".to_owned(), Value::to_string);
            let message = format!("initialize with {version} fits no known form; name the dialect");
            Detection::unsure(&[], message)
        }
    }
}

/// v1, and the forms that are like it in some way.
fn alike(in_this: impl Fn(&FormTraits) -> bool) -> Vec<Dialect> {
    let likely = |dialect: &Dialect| dialect.is_canonical() || in_this(dialect.traits());
    Dialect::ALL.into_iter().filter(likely).collect()
}

/// The first form that says yes; the canonical one, which is the least particular, is asked last.
fn first(says: impl Fn(&dyn Form) -> bool) -> Option<Dialect> {
    let (canonical, foreign): (Vec<_>, Vec<_>) =
        Dialect::ALL.into_iter().partition(|dialect| dialect.is_canonical());
    foreign.into_iter().chain(canonical).find(|dialect| says(dialect.form()))
}

/// The form of the params of an `initialize` request; v1 stands for the forms that begin like it.
pub(crate) fn form_of_initialize(params: &Map) -> Option<Dialect> {
    first(|form| form.is_initialize(params))
}

/// The form that answers this `initialize` best although no form has its version: one that refuses versions in words.
#[must_use]
pub fn refuser(frame: &Frame) -> Option<Dialect> {
    let View::Request { method: method::INITIALIZE, params, .. } = frame.view() else { return None };
    let params = map(params)?;
    let unknown = form_of_initialize(&params).is_none() && params.get("protocolVersion")?.is_string();
    Dialect::ALL.into_iter().find(|dialect| unknown && dialect.traits().refuses_versions)
}

/// Whether a version is written as a date.
pub(crate) fn is_date(version: &str) -> bool {
    let bytes = version.as_bytes();
    bytes.len() == 10
        && bytes
            .iter()
            .enumerate()
            .all(|(at, byte)| if at == 4 || at == 7 { *byte == b'-' } else { byte.is_ascii_digit() })
}

/// A conversation joined after its beginning.
fn later(method: &str, params: &Map) -> Detection {
    if let Some(dialect) = first(|form| form.is_later(params)) {
        return Detection::Sure(dialect);
    }
    if method.starts_with("session/") && params.contains_key("sessionId") || params.contains_key("cwd") {
        return Detection::unsure(
            &alike(|traits| traits.goes_on_like_v1),
            format!("{method} does not begin with initialize and looks alike in several forms; taken as v1"),
        );
    }
    Detection::unsure(&[], format!("the first frame is {method}, not initialize; name the dialect"))
}

/// The answer of an agent to `initialize`.
fn answered(result: &Map) -> Detection {
    if let Some(dialect) = first(|form| form.is_initialized(result)) {
        return Detection::Sure(dialect);
    }
    match result.get("protocolVersion") {
        Some(Value::Number(_)) => {
            let alike = alike(|traits| traits.begins_like_v1);
            let names = alike.iter().map(|dialect| dialect.as_str()).collect::<Vec<_>>().join(" and ");
            let message =
                format!("the answer to initialize advertises nothing that tells {names} apart; taken as v1");
            Detection::unsure(&alike, message)
        }
        Some(other) => {
            Detection::unsure(&[], format!("protocolVersion {other} fits no known form; name the dialect"))
        }
        None => Detection::unsure(&[], "the answer to initialize has no protocolVersion; name the dialect"),
    }
}

/// The one form that has this method, if only one has it.
fn owner(method: &str) -> Option<Dialect> {
    Dialect::ALL.into_iter().find(|dialect| dialect.form().own_methods().contains(&method))
}

/// The form that a method belongs to, when it is another one than `dialect`.
pub(crate) fn stranger(method: &str, dialect: Dialect) -> Option<Dialect> {
    owner(method).filter(|owner| *owner != dialect)
}
