//! Steps that look at the world: files in the sandbox, the stub MCP server's log.

use super::claims::Unmet;
use super::{FileState, LOOK_AGAIN, Looking, McpCall, Run, RunAction, State, TestEnding};
use crate::program::{FileWant, StepKind};
use crate::verdict::BreakKind;
use acp_match::{Fill, Pattern, Template};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::time::Duration;

/// How much of a file a reason quotes.
const SHOWN: usize = 200;
/// How long an agent that has answered everything may say nothing and still be at work, beside three times the silence that
/// ends a turn.
const UNSEEN_WORK: Duration = Duration::from_secs(3);

impl Run {
    pub(super) fn begin_look(&mut self, timeout: Duration) {
        self.tally.asserts = true;
        self.state =
            State::Looking(Looking { until: self.step_began + self.scaled(timeout), next: None, last: None });
        self.look();
    }

    fn look(&mut self) {
        let action = match self.kind() {
            Some(StepKind::ExpectFile { path, .. }) => {
                match Template::parse(path).and_then(|path| path.render(&self.vars, Fill::Raw)) {
                    Ok(path) => RunAction::CheckFile(path),
                    Err(error) => {
                        let reason = self.missing_words(&error);
                        return self.end(TestEnding::NotApplicable { reason, blocked: true });
                    }
                }
            }
            _ => RunAction::CheckMcp,
        };
        self.actions.push_back(action);
    }

    pub(super) fn check_look(&mut self) -> bool {
        let State::Looking(looking) = &mut self.state else { return false };
        let Some(next) = looking.next else { return false };
        if self.now < next {
            return false;
        }
        looking.next = None;
        self.look();
        matches!(self.state, State::Over)
    }

    pub(super) fn saw_file(&mut self, state: &FileState) {
        let Some(StepKind::ExpectFile { path, want, .. }) = self.kind() else {
            return;
        };
        let is_absence = matches!(want, FileWant::Absent);
        let kind = match (want, state) {
            (FileWant::Absent, _) => BreakKind::Forbidden,
            (_, FileState::Present(_)) => BreakKind::Wrong,
            _ => BreakKind::Absent,
        };
        let verdict = match (want, state) {
            (_, FileState::Unreadable(reason)) => Err(format!("cannot look at {path}: {reason}")),
            (FileWant::Absent, FileState::Absent) => Ok(()),
            (FileWant::Absent, FileState::Present(_)) => Err(format!("the file {path} should not be there")),
            (_, FileState::Absent) => Err(format!("the file {path} is not there")),
            (FileWant::Present, FileState::Present(_)) => Ok(()),
            (FileWant::Exact(text), FileState::Present(bytes)) => match text.render(&self.vars) {
                Ok(wanted) => same_bytes(
                    path,
                    &serde_json::from_str::<String>(&wanted).unwrap_or(wanted).into_bytes(),
                    bytes,
                ),
                Err(error) => Err(error.to_string()),
            },
            (FileWant::Bytes(wanted), FileState::Present(bytes)) => same_bytes(path, wanted, bytes),
            (FileWant::Text(text), FileState::Present(bytes)) => {
                let found = String::from_utf8_lossy(bytes).into_owned();
                match Pattern::compile_with(&text.to_value(), &self.vars) {
                    Ok(pattern) if pattern.matches(&Value::String(found.clone())) => Ok(()),
                    Ok(_) => {
                        let wanted = text.as_text().unwrap_or("");
                        let found: String = found.chars().take(SHOWN).collect();
                        Err(format!("the file {path} does not match {wanted}: it holds {found:?}"))
                    }
                    Err(error) => Err(error.to_string()),
                }
            }
        };
        self.looked(verdict, kind, is_absence);
    }

    pub(super) fn saw_mcp(&mut self, calls: &[McpCall]) {
        let Some(StepKind::ExpectMcp { call, absent, keep, .. }) = self.kind() else {
            return;
        };
        let pattern = match Pattern::compile_with(&call.to_value(), &self.vars) {
            Ok(pattern) => pattern,
            Err(error) => {
                return self.end(TestEnding::NotApplicable { reason: error.to_string(), blocked: true });
            }
        };
        let entries = log_entries(calls);
        let mut open = entries.iter().enumerate().filter(|(index, _)| !self.tally.calls.contains(index));
        let hit = open.find(|(_, entry)| pattern.matches(entry)).map(|(index, _)| index);
        let wanted = pattern.describe();
        match (hit, *absent) {
            (Some(_), true) => {
                let reason = format!("the MCP server saw {wanted}, which must not be");
                self.unmet(Unmet::new(BreakKind::Forbidden, reason));
            }
            (None, true) => {
                let is_over = matches!(&self.state, State::Looking(looking) if self.now >= looking.until);
                self.looked(if is_over { Ok(()) } else { Err(String::new()) }, BreakKind::Forbidden, true);
            }
            (Some(index), false) => {
                if !keep {
                    self.tally.calls.insert(index);
                }
                self.looked(Ok(()), BreakKind::Absent, false);
            }
            (None, false) => {
                let seen: Vec<&str> =
                    calls.iter().map(|call| call.tool.as_deref().unwrap_or(&call.method)).collect();
                let seen = if seen.is_empty() { "nothing".to_owned() } else { seen.join(", ") };
                let words = format!("the MCP server did not see {wanted}; it saw {seen}");
                self.looked(Err(words), BreakKind::Absent, false);
            }
        }
    }

    /// Everything is answered, and the agent has been silent for so long that nothing more is to be seen. A test without
    /// claims looks for as long as it says.
    fn looks_in_vain(&self) -> bool {
        let patience = self.scaled(self.setup.quiet * 3 + UNSEEN_WORK);
        let since = self.wire.last_activity.max(self.step_began);
        self.program.is_claimed() && self.is_idle() && self.now >= since + patience
    }

    /// What was looked at is right, or is looked at again until the time is over.
    fn looked(&mut self, verdict: Result<(), String>, kind: BreakKind, is_absence: bool) {
        let is_in_vain = !is_absence && self.looks_in_vain();
        let State::Looking(looking) = &mut self.state else { return };
        match verdict {
            Ok(()) => {
                self.tally.met += 1;
                if is_absence && self.client.is_none() {
                    let did_something = self.turn_did_something();
                    self.watched(did_something);
                } else {
                    self.step_met();
                }
                self.step_done(None);
            }
            Err(reason) if self.now >= looking.until || is_in_vain => self.unmet(Unmet::new(kind, reason)),
            Err(reason) => {
                looking.last = Some(reason);
                looking.next = Some((self.now + LOOK_AGAIN).min(looking.until.max(self.now)));
            }
        }
    }
}

/// The log as values to match: what an entry says, and what its process said of itself when it began.
fn log_entries(calls: &[McpCall]) -> Vec<Value> {
    let mut began: BTreeMap<u64, Map<String, Value>> = BTreeMap::new();
    let mut entries = Vec::with_capacity(calls.len());
    for call in calls {
        let mut entry = Map::new();
        if let Value::Object(line) = &call.line {
            let pid = line.get("pid").and_then(Value::as_u64);
            if let Some(own) = pid.and_then(|pid| began.get(&pid)) {
                entry.extend(own.clone());
            } else if let Some(pid) = pid {
                began.insert(pid, line.clone());
            }
            entry.extend(line.clone());
        }
        if let Some(arguments) = &call.arguments {
            entry.insert("arguments".to_owned(), arguments.clone());
        }
        entry.insert("method".to_owned(), Value::from(call.method.as_str()));
        if let Some(tool) = &call.tool {
            entry.insert("tool".to_owned(), Value::from(tool.as_str()));
        }
        entries.push(Value::Object(entry));
    }
    entries
}

/// Whether a file holds exactly that, and what it holds otherwise.
fn same_bytes(path: &str, wanted: &[u8], found: &[u8]) -> Result<(), String> {
    if wanted == found {
        return Ok(());
    }
    let shown = |bytes: &[u8]| -> String { String::from_utf8_lossy(bytes).chars().take(SHOWN).collect() };
    Err(format!("the file {path} should hold {:?}: it holds {:?}", shown(wanted), shown(found)))
}
