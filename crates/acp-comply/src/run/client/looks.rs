//! Looks at what is seen besides frames: launches, the driver's record, the listener, processes, the judge.

use super::super::claims::Unmet;
use super::super::{LOOK_AGAIN, Run, RunAction, State, TestEnding};
use super::Waiting;
use super::launches::Launch;
use crate::json::Json;
use crate::program::{ClientLook, ClientStep, MessageCapture, StepKind, Witness};
use crate::results::FindingRef;
use crate::verdict::{BreakKind, Sighting};
use acp_match::{Mismatch, Pattern};
use acp_rules::{ClaimId, Side};
use serde_json::Value;
use std::time::Duration;

impl Run {
    fn client_step(&self) -> Option<&ClientStep> {
        match self.kind()? {
            StepKind::Client(step) => Some(step),
            _ => None,
        }
    }

    /// What a look may find.
    fn seen(&self, look: &ClientLook) -> Vec<Value> {
        let Some(client) = &self.client else { return Vec::new() };
        match look.at {
            Witness::Agent => {
                let filter = self.launch_filter(look.launch);
                let launches = client.launches.iter().filter(|(number, _)| filter.takes(**number));
                launches.map(|(number, launch)| launch.seen(*number)).collect()
            }
            Witness::Driver => vec![client.record.clone()],
            Witness::Http => client.http.clone(),
        }
    }

    pub(super) fn check_client_look(&mut self, until: Duration) -> bool {
        let Some(ClientStep::Look(look)) = self.client_step().cloned() else { return false };
        let pattern = match Pattern::compile_with(&look.pattern.to_value(), &self.vars) {
            Ok(pattern) => pattern,
            Err(error) => {
                self.end(TestEnding::NotApplicable { reason: error.to_string(), blocked: true });
                return true;
            }
        };
        let seen = self.seen(&look);
        let hit = seen.iter().find(|record| pattern.matches(record));
        let is_over = self.now >= until || self.nothing_more_to_see(look.at);
        match (hit, look.absent) {
            (Some(record), false) => {
                let record = record.clone();
                let launch =
                    record.get("launch").and_then(Value::as_u64).filter(|_| look.at == Witness::Agent);
                self.found_launch(launch.and_then(|launch| u32::try_from(launch).ok()).unwrap_or(0));
                if self.take_captures(&look.captures, &record) {
                    self.client_step_met(None);
                }
            }
            (Some(_), true) => {
                let reason = format!("{}{}, which must not be", found_words(look.at), with(&pattern));
                self.unmet(Unmet::new(BreakKind::Forbidden, reason));
            }
            (None, true) if is_over => {
                self.watched(!self.program.needs.is_empty());
                self.step_done(None);
            }
            (None, false) if is_over => {
                let waited = self.now.saturating_sub(self.step_began).as_millis();
                let reason = missing_words(look.at, &pattern, &seen, waited);
                self.unmet(Unmet::new(BreakKind::Absent, reason));
            }
            (None, _) => return false,
        }
        true
    }

    /// Whether the client has ended, and its agents too.
    fn nothing_more_to_see(&self, at: Witness) -> bool {
        let all_gone = || self.client.iter().flat_map(|client| client.launches.values()).all(Launch::is_gone);
        match at {
            Witness::Agent => self.is_gone() && all_gone(),
            Witness::Http => self.is_gone(),
            Witness::Driver => false,
        }
    }

    /// Takes values from a record; `false` when that ended the step.
    fn take_captures(&mut self, captures: &[MessageCapture], record: &Value) -> bool {
        for capture in captures {
            match capture.take(record, &[], false) {
                Some(value) => self.captured(capture, value),
                None if capture.unless.is_some() => {
                    let reason = capture.unless.clone().unwrap_or_default();
                    self.end(TestEnding::NotReached(reason));
                    return false;
                }
                None => {
                    let reason = format!("the record has no {}, which the test captures", capture.path);
                    self.unmet(Unmet::new(BreakKind::Wrong, reason));
                    return false;
                }
            }
        }
        true
    }

    /// Sets a captured variable.
    pub(in super::super) fn captured(&mut self, capture: &MessageCapture, value: Value) {
        if let Some(name) = &capture.note {
            self.notes.push(format!("{name}: {value}"));
        }
        self.vars.set(capture.var.as_str(), value);
        self.know_process(&capture.var);
    }

    /// A process that a later step looks at is known now: the first look remembers which process it is.
    pub(super) fn know_process(&mut self, var: &str) {
        let hole = format!("${{{var}}}");
        let later = self.order.iter().skip(self.at).filter_map(|turn| match &self.arena[turn.step].kind {
            StepKind::Client(step) => match step.as_ref() {
                ClientStep::Process { pid, .. } if pid.as_text().is_some_and(|text| text.contains(&hole)) => {
                    Some(pid)
                }
                _ => None,
            },
            _ => None,
        });
        let pid = later.filter_map(|pid| self.process_id(pid).ok()).next();
        self.actions.extend(pid.map(RunAction::CheckProcess));
    }

    fn process_id(&self, pid: &Json) -> Result<i64, String> {
        let text = pid.render(&self.vars).map_err(|error| self.missing_words(&error))?;
        let value: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        let number = match &value {
            Value::String(text) => text.trim().parse().ok(),
            other => other.as_i64(),
        };
        number.ok_or_else(|| format!("{value} is no process id"))
    }

    pub(super) fn begin_process(&mut self, pid: &Json, timeout: Duration) {
        match self.process_id(pid) {
            Ok(pid) => {
                let until = self.step_began + self.scaled(timeout);
                self.state = State::Client(Waiting::Process { pid, until, next: None });
                self.actions.push_back(RunAction::CheckProcess(pid));
            }
            Err(reason) => self.end(self.not_reached(reason)),
        }
    }

    pub(super) fn look_at_process(&mut self, process: i64) {
        if let State::Client(Waiting::Process { next, .. }) = &mut self.state {
            *next = None;
            self.actions.push_back(RunAction::CheckProcess(process));
        }
    }

    pub(super) fn saw_process(&mut self, process: i64, running: bool) {
        let Some(ClientStep::Process { running: wanted, .. }) = self.client_step() else { return };
        let wanted = *wanted;
        let State::Client(Waiting::Process { pid, until, next }) = &mut self.state else { return };
        if *pid != process {
            return;
        }
        if running == wanted {
            return self.client_step_met(None);
        }
        // What has ended does not begin again.
        if !wanted || self.now >= *until {
            if !wanted && self.now < *until {
                *next = Some((self.now + LOOK_AGAIN).min(*until));
                return;
            }
            let waited = self.now.saturating_sub(self.step_began).as_millis();
            let reason = format!("the process {process} still lives after {waited} ms");
            return self.unmet(Unmet::new(BreakKind::Absent, reason));
        }
        self.unmet(Unmet::new(BreakKind::Wrong, format!("the process {process} does not live any more")));
    }

    pub(super) fn saw_judge(&mut self, findings: &[FindingRef]) {
        if !matches!(self.state, State::Client(Waiting::Judge)) {
            return;
        }
        let Some(ClientStep::Judged { none }) = self.client_step().cloned() else { return };
        let is_meant = |finding: &&FindingRef| {
            finding.blame == Side::Client && none.iter().any(|claim| is_about(finding, claim))
        };
        let Some(finding) = findings.iter().find(is_meant) else { return self.client_step_met(None) };
        let reason = format!("the judge found ({}): {}", finding.requirement, finding.message);
        let frames = finding.evidence.iter().map(Sighting::from);
        self.unmet(Unmet::new(BreakKind::Wrong, reason).did(finding.message.clone()).frames(frames));
    }
}

fn is_about(finding: &FindingRef, claim: &ClaimId) -> bool {
    match claim.clause() {
        Some(_) => finding.claim().as_ref() == Some(claim),
        None => claim.row() == finding.requirement,
    }
}

/// The pattern in words; nothing when it takes everything.
fn with(pattern: &Pattern) -> String {
    match pattern.describe() {
        all if all == "{}" => String::new(),
        wanted => format!(" ({wanted})"),
    }
}

fn found_words(at: Witness) -> &'static str {
    match at {
        Witness::Agent => "the client started the agent",
        Witness::Driver => "the client is seen",
        Witness::Http => "the client sent a request to the listener",
    }
}

/// What was expected, and how the record that comes nearest differs.
fn missing_words(at: Witness, pattern: &Pattern, seen: &[Value], waited: u128) -> String {
    let wanted = with(pattern);
    let nearest = seen
        .iter()
        .filter_map(|record| pattern.check(record).err().map(|mismatch| (record, mismatch)))
        .reduce(|best, other| if other.1.is_closer_than(&best.1) { other } else { best });
    let difference = |mismatch: &Mismatch| {
        mismatch.differences.first().map(|first| format!(": {first}")).unwrap_or_default()
    };
    match (at, nearest) {
        (Witness::Agent, Some((record, mismatch))) => {
            let launch = record.get("launch").map(Value::to_string).unwrap_or_default();
            format!(
                "no launch of the agent was as expected{wanted} within {waited} ms; launch {launch}{}",
                difference(&mismatch)
            )
        }
        (Witness::Agent, None) => {
            format!("the client did not start the agent{wanted} within {waited} ms")
        }
        (Witness::Driver, Some((_, mismatch))) => {
            format!("the client was not as expected{wanted} within {waited} ms{}", difference(&mismatch))
        }
        (Witness::Driver, None) => format!("the client was not as expected{wanted} within {waited} ms"),
        (Witness::Http, Some((_, mismatch))) => {
            format!(
                "no such request{wanted} came to the listener within {waited} ms{}",
                difference(&mismatch)
            )
        }
        (Witness::Http, None) => format!("no request came to the listener within {waited} ms"),
    }
}
