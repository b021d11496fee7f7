//! Which of the client's requests are open, for links that pass lines without reading them.

use std::collections::BTreeSet;

use acp_dialect::Side;
use acp_rpc::{Frame, Id, View};
use bytes::Bytes;
use memchr::memmem::Finder;

/// More open requests than this are not remembered.
const MOST: usize = 65_536;

/// Remembers open requests. Only lines that have an `"id"` somewhere are looked into: streamed updates have none.
#[derive(Debug)]
pub(super) struct Ledger {
    id: Finder<'static>,
    open: BTreeSet<Id>,
}

impl Default for Ledger {
    fn default() -> Self {
        Ledger { id: Finder::new(b"\"id\""), open: BTreeSet::new() }
    }
}

impl Ledger {
    pub(super) fn passed(&mut self, from: Side, line: &Bytes) {
        if self.id.find(line).is_some() {
            self.read(from, &Frame::parse(line.clone()));
        }
    }

    pub(super) fn read(&mut self, from: Side, frame: &Frame) {
        match (from, frame.view()) {
            (Side::Client, View::Request { id, .. }) if self.open.len() < MOST => {
                self.open.insert(id.clone());
            }
            (Side::Agent, View::Response { id, .. }) => {
                self.open.remove(id);
            }
            _ => {}
        }
    }

    /// The open requests, in the order of their ids; none are open afterwards.
    pub(super) fn take(&mut self) -> BTreeSet<Id> {
        std::mem::take(&mut self.open)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_open_until_it_is_answered() {
        let mut ledger = Ledger::default();
        let line = |text: &'static str| Bytes::from_static(text.as_bytes());
        ledger.passed(Side::Client, &line(r#"{"jsonrpc":"2.0","id":1,"method":"a"}"#));
        ledger.passed(Side::Client, &line(r#"{"jsonrpc":"2.0","id":"x","method":"b"}"#));
        ledger.passed(Side::Agent, &line(r#"{"jsonrpc":"2.0","id":2,"method":"theirs"}"#));
        ledger.passed(Side::Client, &line(r#"{"jsonrpc":"2.0","id":2,"result":{}}"#));
        ledger.passed(Side::Agent, &line(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#));
        assert_eq!(ledger.take().into_iter().collect::<Vec<_>>(), [Id::from("x")]);
    }
}
