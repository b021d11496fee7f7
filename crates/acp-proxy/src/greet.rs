//! Which form a client speaks, from what it says first.

use std::fmt;
use std::str::FromStr;

use acp_dialect::{Detection, Dialect, UnknownDialect, detect};
use acp_link::{Burst, LinkEnd, Receiver};
use acp_proto::{error_code, method};
use acp_rpc::{Frame, Id, RpcError, View};

/// The form of the protocol that clients speak.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientForm {
    /// That of their first frame.
    #[default]
    Auto,
    /// This one.
    Only(Dialect),
}

impl FromStr for ClientForm {
    type Err = UnknownDialect;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "auto" => Ok(Self::Auto),
            name => name.parse().map(Self::Only),
        }
    }
}

impl fmt::Display for ClientForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Only(dialect) => dialect.fmt(f),
        }
    }
}

/// How many notifications a client may send before it says what it speaks.
const FIRST: usize = 8;

/// What the first frames told.
#[derive(Debug)]
pub(crate) enum Greeting {
    /// The client speaks this form. What made us unsure, if anything did.
    Speaks { dialect: Dialect, first: Vec<Burst>, remark: Option<String> },
    /// No form that we know: what to answer, and why.
    Unknown { answer: Frame, reason: String },
    /// It went away without a word.
    Silent,
}

/// Reads until the client's form is known, or known to be none of ours.
pub(crate) async fn greet(rx: &mut Receiver) -> Greeting {
    let mut first = Vec::new();
    let mut heard = 0;
    while let Some(burst) = rx.recv_burst().await {
        let frames: Vec<Frame> = frames(&burst).collect();
        first.push(burst);
        for frame in frames {
            heard += 1;
            let (dialect, remark) = match detect([&frame]) {
                Detection::Sure(dialect) => (Some(dialect), None),
                // Nearly every client's first frame is the same in v1 and go: not worth a line in every log.
                Detection::Unsure { candidates, .. }
                    if !candidates.is_empty() && frame.method() == Some(method::INITIALIZE) =>
                {
                    (candidates.first().copied(), None)
                }
                Detection::Unsure { candidates, message } => (candidates.first().copied(), Some(message)),
            };
            if let Some(dialect) = dialect {
                return Greeting::Speaks { dialect, first, remark };
            }
            if matches!(frame.view(), View::Notification { .. }) && heard < FIRST {
                continue;
            }
            return unknown(&frame, &remark.unwrap_or_default());
        }
    }
    match rx.end() {
        Some(LinkEnd::Broken(why)) => {
            let reason = format!("cannot read this client: {why}");
            let answer = Frame::failure(&Id::Null, &RpcError::new(error_code::PARSE_ERROR, reason.clone()));
            Greeting::Unknown { answer, reason }
        }
        _ => Greeting::Silent,
    }
}

/// A frame that no form of the protocol begins with.
fn unknown(frame: &Frame, seen: &str) -> Greeting {
    let id = match frame.view() {
        View::Request { id, .. } => id.clone(),
        _ => Id::Null,
    };
    let code = match frame.view() {
        View::Malformed(_) if frame.text().is_none_or(|text| !text.starts_with('{')) => {
            error_code::PARSE_ERROR
        }
        _ => error_code::INVALID_REQUEST,
    };
    let reason = format!("cannot tell which form of the protocol this client speaks: {seen}");
    let answer = Frame::failure(&id, &RpcError::new(code, reason.clone()));
    Greeting::Unknown { answer, reason }
}

/// The frames of a burst, which may be the first of a stream.
pub(crate) fn frames(burst: &Burst) -> impl Iterator<Item = Frame> + '_ {
    let (lines, one) = match burst {
        Burst::Lines { bytes, .. } => (bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes), None),
        Burst::One(arrival) => (&[][..], Some(Frame::from(arrival.line.clone()))),
    };
    let lines = lines.strip_suffix(b"\n").unwrap_or(lines);
    let lines = lines.split(|byte| *byte == b'\n').take(if one.is_some() { 0 } else { usize::MAX });
    one.into_iter().chain(lines.map(|line| Frame::parse(line.strip_suffix(b"\r").unwrap_or(line).to_vec())))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn hear(lines: &[&str]) -> Greeting {
        let (ours, mut theirs) = acp_link::memory(16);
        for line in lines {
            ours.tx.send(line).await.expect("room");
        }
        ours.tx.close();
        greet(&mut theirs.rx).await
    }

    #[tokio::test]
    async fn a_client_is_known_by_its_first_telling_frame() {
        let initialize = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"1"}}"#;
        let note = r#"{"jsonrpc":"2.0","method":"$/hello"}"#;
        let Greeting::Speaks { dialect, first, remark } = hear(&[note, initialize]).await else { panic!() };
        let kept = first.iter().flat_map(frames).count();
        assert_eq!((dialect, kept, remark), (Dialect::PROBE, 2, None));
    }

    #[tokio::test]
    async fn what_fits_two_forms_is_v1() {
        let line = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}"#;
        let Greeting::Speaks { dialect, remark, .. } = hear(&[line]).await else { panic!() };
        assert_eq!((dialect, remark), (Dialect::V1, None), "nearly every client begins so");
    }

    #[tokio::test]
    async fn what_fits_no_form_is_answered_with_a_reason() {
        let line = r#"{"jsonrpc":"2.0","id":7,"method":"initialize","params":{"protocolVersion":"9.9"}}"#;
        let Greeting::Unknown { answer, reason } = hear(&[line]).await else { panic!() };
        assert_eq!(answer.id(), Some(&Id::Int(7)));
        assert!(reason.contains("9.9") && reason.contains("name the dialect"), "{reason}");
        let Greeting::Unknown { answer, .. } = hear(&["GET / HTTP/1.1"]).await else { panic!() };
        assert!(answer.error().is_some_and(|error| error.contains("-32700")), "{answer}");
        assert!(matches!(hear(&[]).await, Greeting::Silent));
    }
}
