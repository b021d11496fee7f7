//! Which of the client's requests are open, for links that pass lines without reading them.

use acp_dialect::Side;
use acp_proto::{SessionId, method};
use acp_rpc::{Frame, Id, Pending, View};
use bytes::Bytes;
use memchr::memmem::Finder;
use memchr::{memchr, memrchr};

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Prompt<'a> {
    #[serde(borrow)]
    session_id: std::borrow::Cow<'a, str>,
}

/// Remembers open requests. Only lines that have an `"id"` somewhere are looked into: streamed updates have none.
#[derive(Debug)]
pub(super) struct OpenRequests {
    id: Finder<'static>,
    open: Pending<()>,
    /// Prompts among them, and their sessions.
    turns: Pending<SessionId>,
}

impl Default for OpenRequests {
    fn default() -> Self {
        OpenRequests { id: Finder::new(b"\"id\""), open: Pending::default(), turns: Pending::default() }
    }
}

impl OpenRequests {
    /// Lines were passed on.
    pub(super) fn passed(&mut self, from: Side, lines: &Bytes) {
        let mut at = 0;
        while let Some(found) = self.id.find(&lines[at..]) {
            let found = at + found;
            let start = memrchr(b'\n', &lines[at..found]).map_or(at, |newline| at + newline + 1);
            let end = memchr(b'\n', &lines[found..]).map_or(lines.len(), |newline| found + newline);
            self.read(from, &Frame::parse(lines.slice(start..end)));
            at = end;
        }
    }

    pub(super) fn read(&mut self, from: Side, frame: &Frame) {
        self.turn(from, frame);
        match (from, frame.view()) {
            // What is beyond the table's limit is passed on without being remembered.
            (Side::Client, View::Request { id, .. }) => {
                let _ = self.open.replace(id, ());
            }
            (Side::Agent, View::Response { id, .. }) => {
                self.open.remove(id);
            }
            _ => {}
        }
    }

    /// Sees turns begin and end in a canonical conversation.
    pub(super) fn turn(&mut self, from: Side, frame: &Frame) {
        match (from, frame.view()) {
            (Side::Client, View::Request { id, method: method::SESSION_PROMPT, params }) => {
                let params: Option<Prompt<'_>> = params.and_then(|text| serde_json::from_str(text).ok());
                if let Some(Prompt { session_id }) = params {
                    let _ = self.turns.replace(id, session_id.into_owned().into());
                }
            }
            (Side::Agent, View::Response { id, .. }) => {
                self.turns.remove(id);
            }
            _ => {}
        }
    }

    /// The sessions that a turn is running in.
    pub(super) fn turns(&self) -> impl Iterator<Item = &SessionId> {
        self.turns.values()
    }

    /// The open requests, in the order of their ids; none are open afterwards.
    pub(super) fn take(&mut self) -> Vec<Id> {
        self.turns.clear();
        self.open.drain().into_iter().map(|(id, ())| id).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_open_until_it_is_answered() {
        let mut requests = OpenRequests::default();
        let line = |text: &'static str| Bytes::from_static(text.as_bytes());
        let both = "{\"method\":\"n\"}\n{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\"}\r\n{\"method\":\"n\"}\n\
                    {\"jsonrpc\":\"2.0\",\"id\":\"x\",\"method\":\"b\"}\n";
        requests.passed(Side::Client, &line(both));
        requests.passed(Side::Agent, &line(r#"{"jsonrpc":"2.0","id":2,"method":"theirs"}"#));
        requests.passed(Side::Client, &line(r#"{"jsonrpc":"2.0","id":2,"result":{}}"#));
        requests.passed(Side::Agent, &line(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#));
        assert_eq!(requests.take(), [Id::from("x")]);
    }
}
