//! The launches of the agent: each start of it by the client.

use super::super::{EXIT_LAG, Run};
use acp_rpc::Frame;
use serde_json::{Value, json};
use std::time::Duration;

/// One start of the agent.
#[derive(Debug)]
pub(super) struct Launch {
    /// What it sees of itself.
    record: Value,
    /// The method of the first frame, null when that has none.
    first: Option<Value>,
    is_closed: bool,
}

impl Launch {
    /// The record as a test sees it.
    pub fn seen(&self, number: u32) -> Value {
        let mut seen = self.record.clone();
        if let Value::Object(members) = &mut seen {
            members.insert("launch".to_owned(), json!(number));
            for (key, otherwise) in [("eof", json!(false)), ("gone", json!(false)), ("signals", json!([]))] {
                members.entry(key).or_insert(otherwise);
            }
            if let Some(first) = &self.first {
                members.insert("first".to_owned(), first.clone());
            }
        }
        seen
    }

    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    pub fn is_gone(&self) -> bool {
        is(&self.record, "gone")
    }
}

fn is(record: &Value, key: &str) -> bool {
    record.get(key).and_then(Value::as_bool) == Some(true)
}

impl Run {
    pub(super) fn launched(&mut self, number: u32, record: Value) {
        let Some(client) = &mut self.client else { return };
        client.launches.insert(number, Launch { record: json!({}), first: None, is_closed: false });
        self.launch_changed(number, record);
        self.choose_current();
    }

    pub(super) fn launch_changed(&mut self, number: u32, record: Value) {
        let Some(client) = &mut self.client else { return };
        let Some(launch) = client.launches.get_mut(&number) else { return };
        let is_closed = is(&record, "eof") || is(&record, "gone");
        let child = record.get("child").filter(|child| child.is_number()).cloned();
        launch.record = record;
        let closes = is_closed && !launch.is_closed;
        launch.is_closed = is_closed;
        if let Some(child) = child.filter(|child| self.vars.get("childPid") != Some(child)) {
            self.vars.set("childPid", child);
            self.know_process("childPid");
        }
        if closes {
            self.launch_closed(number);
        }
    }

    /// The client says nothing more to this launch: what was asked of it there stays open, and what it asked needs no answer.
    fn launch_closed(&mut self, number: u32) {
        let Some(client) = &mut self.client else { return };
        client.open.retain(|request| request.launch != number);
        client.due.retain(|due| client.open.iter().any(|request| request.number == due.request));
        let lost = self.wire.sent.iter().filter(|(_, sent)| sent.launch == number).map(|(id, _)| id);
        let lost: Vec<_> = lost.filter(|id| self.wire.outstanding.contains(id)).cloned().collect();
        self.wire.lost.extend(lost);
        self.choose_current();
    }

    /// Steps write to the launch on which the latest session was opened, while there is such a one, or else to the latest.
    pub(super) fn choose_current(&mut self) {
        let Some(client) = &mut self.client else { return };
        let is_open = |number: &u32| client.launches.get(number).is_some_and(|launch| !launch.is_closed);
        let latest = client.launches.keys().next_back().copied();
        client.current = client.session_launch.filter(is_open).or(latest).unwrap_or(0);
        let current = client.current;
        if current > 0 {
            self.vars.set("launch", current);
        }
    }

    pub(super) fn heard_from(&mut self, number: u32, frame: &Frame) {
        let Some(client) = &mut self.client else { return };
        client.from = number;
        if let Some(launch) = client.launches.get_mut(&number)
            && launch.first.is_none()
        {
            launch.first = Some(frame.method().map_or(Value::Null, Value::from));
        }
        self.heard(frame);
    }

    /// Whether the launch that steps write to has ended, or there was none.
    pub(in super::super) fn is_current_closed(&self) -> bool {
        let Some(client) = &self.client else { return false };
        client.launches.get(&client.current).is_none_or(Launch::is_closed)
    }

    /// Whether the client has not started the agent yet.
    pub(in super::super) fn is_unlaunched(&self) -> bool {
        self.client.as_ref().is_some_and(|client| client.launches.is_empty())
    }

    /// Takes note of a client that has ended and that no verb starts again.
    pub(super) fn note_gone(&mut self) {
        let Some(client) = &mut self.client else { return };
        let is_gone = client.record.get("running").and_then(Value::as_bool) == Some(false)
            && !client.drives.is_empty()
            && client.drives.iter().all(|drive| drive.is_done)
            && client.launches.values().all(Launch::is_closed);
        match (is_gone, client.gone_since) {
            (true, None) => client.gone_since = Some(self.now),
            (false, Some(_)) => client.gone_since = None,
            _ => {}
        }
    }

    /// When it is certain that nothing more comes from a client that has ended.
    pub(in super::super) fn client_gone_at(&self) -> Option<Duration> {
        Some(self.client.as_ref()?.gone_since? + EXIT_LAG)
    }
}
