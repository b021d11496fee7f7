//! An `expect` step whose messages did not come: what came closest, and what that says.

use super::claims::Unmet;
use super::expecting::{Bound, Choice, Expecting, Item};
use super::inbox::millis;
use super::{Run, TestEnding, Wire};
use crate::program::MessageKind;
use crate::results::Explanation;
use crate::verdict::{BreakKind, Sighting};
use acp_match::Mismatch;
use acp_rpc::Id;
use acp_rules::{ClaimId, Grade};
use serde_json::Value;

/// How many messages are compared when looking for the closest.
const COMPARED: usize = 500;
/// How much of an answer a sentence quotes, in characters.
const QUOTED: usize = 120;

/// The message that comes nearest to what is unmet.
struct Closest {
    index: usize,
    mismatch: Mismatch,
    /// It is the answer to the very request.
    is_answer: bool,
}

impl Run {
    pub(super) fn expect_unmet(&mut self, expecting: &Expecting, is_gone: bool) {
        let full = || expecting.items.iter().filter(|item| item.is_full() && !item.taken.is_empty());
        self.tally.met += full().count();
        for item in full() {
            if let Err(reason) = self.item_met(item) {
                return self.end(TestEnding::Inconclusive(reason));
            }
        }
        let Some(item) = expecting.items.iter().find(|item| !item.optional && !item.is_full()) else {
            return;
        };
        let excuse = self.tally.out_of_reach.as_ref().or(expecting.otherwise_na.as_ref());
        if let (Some(reason), false, true) = (excuse, is_gone, self.wire.outstanding.is_empty())
            && !self.is_contradicted(expecting)
        {
            return self.end(self.not_reached(reason.clone()));
        }
        if let (Some(reason), false, false) = (&expecting.may_wait, is_gone, self.wire.outstanding.is_empty())
        {
            return self.end(TestEnding::Inconclusive(reason.clone()));
        }
        let Some(choice) = item.choices.first() else {
            return self.unmet(Unmet::new(BreakKind::Absent, "nothing could match"));
        };
        let reason = self.explain(expecting, item, choice, is_gone);
        let is_unasked =
            is_gone && !self.wire.exit_wanted && !self.wire.input_closed && self.client.is_none();
        if is_unasked {
            let reason = if self.program.is_claimed() { self.gone_instead(choice) } else { reason };
            return self.end(TestEnding::Gone(reason));
        }
        if self.client.is_some() && !self.program.is_claimed() {
            return self.unmet(Unmet::new(BreakKind::Absent, reason));
        }
        if !self.program.is_claimed() || self.meets_login() {
            return self.end(TestEnding::Unmet(reason));
        }
        self.break_items(expecting, reason);
    }

    /// Whether a test with claims has the very answer in hand, and it is wrong: that is not "it did not come".
    fn is_contradicted(&self, expecting: &Expecting) -> bool {
        let mut open = expecting.items.iter().filter(|item| !item.optional && !item.is_full());
        self.program.is_claimed()
            && open.any(|item| {
                !item.marks.shows.is_empty()
                    && self.closest(expecting, item).is_some_and(|closest| closest.is_answer)
            })
    }

    /// Breaks what the unmet messages show, and what an unanswered request breaks in any test.
    fn break_items(&mut self, expecting: &Expecting, reason: String) {
        let step_shows = self.arena[self.order[self.at].step].marks.shows.clone();
        let mut worst: Option<Grade> = None;
        let mut first = None;
        for item in expecting.items.iter().filter(|item| !item.optional && !item.is_full()) {
            let Some(choice) = item.choices.first() else { continue };
            let closest = self.closest(expecting, item);
            let (kind, did, frames) = self.account(expecting, choice, closest.as_ref());
            let own = &item.marks.shows;
            let shows: &[ClaimId] = if own.is_empty() { &step_shows } else { own };
            if !shows.is_empty() {
                worst = worst.max(Some(self.break_claims(shows, kind, &did, &frames)));
            }
            let is_open = self.request_of(choice).is_some_and(|id| self.wire.outstanding.contains(&id));
            if is_open && kind == BreakKind::Absent && self.now >= expecting.until {
                worst = worst.max(self.unanswered(&did, &frames));
            }
            first.get_or_insert(did);
        }
        match worst {
            Some(worst) => self.after_break(worst, first.unwrap_or(reason)),
            None => self.unmet(Unmet::new(BreakKind::Absent, reason).did(first.unwrap_or_default())),
        }
    }

    /// What the agent did in place of an expected message: how that is wrong, in words, and the frames.
    fn account(
        &self,
        expecting: &Expecting,
        choice: &Choice,
        closest: Option<&Closest>,
    ) -> (BreakKind, String, Vec<Sighting>) {
        if let Some(index) = expecting.early {
            let did = format!("{} sent {} before what must come first", self.peer(), wanted(choice));
            return (BreakKind::Wrong, did, self.frames_about(index));
        }
        if let Some(closest) = closest.filter(|closest| closest.is_answer) {
            return (BreakKind::Wrong, self.message_words(closest.index), self.frames_about(closest.index));
        }
        let waited = self.now.saturating_sub(self.step_began).as_millis();
        let request = self.request_of(choice);
        let Some(id) = request.filter(|_| choice.kind == MessageKind::Response) else {
            let frames = closest.and_then(|closest| self.heard_at(closest.index));
            let when =
                if self.is_gone() { "before it ended".to_owned() } else { format!("within {waited} ms") };
            let did = format!("{} sent no {} {when}", self.peer(), wanted(choice));
            return (BreakKind::Absent, did, frames.into_iter().collect());
        };
        let frames: Vec<Sighting> = self.sent_as(&id).into_iter().collect();
        if let Some(stray) = self.stray_answer() {
            let given = self.inbox.messages()[stray].id.as_ref().map_or("no".to_owned(), ToString::to_string);
            let did = format!("{} answered {} with the id {given}", self.peer(), self.request_words(&id));
            let frames = frames.into_iter().chain(self.heard_at(stray)).collect();
            return (BreakKind::Wrong, did, frames);
        }
        if self.wire.lost.contains(&id) {
            let did = format!(
                "{} closed the connection before it answered {}",
                self.peer(),
                self.request_words(&id)
            );
            return (BreakKind::Wrong, did, frames);
        }
        let did = format!("{} did not answer {} within {waited} ms", self.peer(), self.request_words(&id));
        (BreakKind::Absent, did, frames)
    }

    /// The agent went in place of sending an expected message.
    fn gone_instead(&self, choice: &Choice) -> String {
        match self.request_of(choice) {
            Some(id) => format!("{} before it answered {}", self.gone_words(), self.request_words(&id)),
            None => format!("{} before it sent {}", self.gone_words(), wanted(choice)),
        }
    }

    /// An answer whose id belongs to no request of the test or the runner.
    pub(super) fn stray_answer(&self) -> Option<usize> {
        self.inbox.messages().iter().position(|message| {
            message.kind == MessageKind::Response
                && !message.consumed
                && message.id.as_ref().is_none_or(|id| *id != Id::Null && !self.wire.sent.contains_key(id))
        })
    }

    /// The request of the test that an expected response answers.
    fn request_of(&self, choice: &Choice) -> Option<Id> {
        match (&choice.bound, choice.kind) {
            (Bound::Id(id), MessageKind::Response) => Some(id.clone()),
            (Bound::Last, MessageKind::Response) => self.wire.last_request.clone(),
            _ => None,
        }
    }

    /// A message of the agent and the request that it answers.
    pub(super) fn frames_about(&self, index: usize) -> Vec<Sighting> {
        let message = &self.inbox.messages()[index];
        let request = message.id.as_ref().filter(|_| message.kind == MessageKind::Response);
        let request = request.and_then(|id| self.sent_as(id));
        request.into_iter().chain(self.heard_at(index)).collect()
    }

    /// What the agent did by sending this message.
    pub(super) fn message_words(&self, index: usize) -> String {
        let message = &self.inbox.messages()[index];
        match (&message.id, message.kind, &message.method) {
            (Some(id), MessageKind::Response, _) => {
                let (peer, request) = (self.peer(), self.request_words(id));
                format!("{peer} answered {request} with {}", answer_words(&message.value))
            }
            (_, _, Some(method)) => format!("{} sent {method}", self.peer()),
            _ => format!("{} sent an answer without an id", self.peer()),
        }
    }

    /// Says why a test without claims is unmet, and keeps the difference to what came closest.
    fn explain(&mut self, expecting: &Expecting, item: &Item, choice: &Choice, is_gone: bool) -> String {
        let closest = self.closest(expecting, item);
        let label = label(choice, &self.wire);
        let waited = expecting.until.saturating_sub(self.step_began).as_millis();
        let mut reason = if is_gone {
            format!("{} before the expected {label} came", self.gone_words())
        } else if self.now >= expecting.until {
            format!("the expected {label} did not come within {waited} ms")
        } else if self.patience_ends().is_some_and(|ends| self.now >= ends) {
            format!("the expected {label} did not come, and {} had nothing more to say", self.peer())
        } else {
            format!("the {label} is not as expected")
        };
        if item.need > 1 {
            reason.push_str(&format!(" ({} of {} came)", item.taken.len(), item.need));
        }
        let mut difference = Explanation {
            line: choice.line,
            expected: choice.source.clone(),
            closest: None,
            closest_at_ms: None,
            differences: Vec::new(),
        };
        match closest {
            _ if expecting.early.is_some() => {
                let message = expecting.early.map(|index| &self.inbox.messages()[index]);
                difference.closest = message.map(|message| message.value.to_string());
                difference.closest_at_ms = message.map(|message| millis(message.at));
                let words = "it came before the message of the expect above, but must come after it";
                difference.differences.push(words.to_owned());
                reason.push_str(&format!("; {words}"));
            }
            Some(Closest { index, mismatch, .. }) => {
                if let Some(first) = mismatch.differences.first() {
                    reason.push_str(&format!("; {first}"));
                }
                let message = &self.inbox.messages()[index];
                difference.closest = Some(message.value.to_string());
                difference.closest_at_ms = Some(millis(message.at));
                difference.differences = mismatch.to_string().lines().map(str::to_owned).collect();
            }
            None => {
                let words = format!("no unmatched {} was heard", choice.kind.as_str());
                difference.differences.push(words);
            }
        }
        self.difference = Some(difference);
        reason
    }

    /// The message that comes nearest to what is unmet. A response with the right id is nearest of all.
    fn closest(&self, expecting: &Expecting, item: &Item) -> Option<Closest> {
        let mut best: Option<Closest> = None;
        for (index, message) in self.inbox.messages().iter().enumerate().rev().take(COMPARED) {
            if message.consumed || expecting.fits.contains_key(&index) {
                continue;
            }
            let mut is_answer = false;
            let mut nearest: Option<Mismatch> = None;
            for choice in item.choices.iter().filter(|choice| choice.kind == message.kind) {
                let Err(mismatch) = choice.pattern.check(&message.value) else { continue };
                is_answer |= match &choice.bound {
                    Bound::Id(id) => message.id.as_ref() == Some(id),
                    Bound::Last => {
                        message.kind == MessageKind::Response && message.id == self.wire.last_request
                    }
                    Bound::Pattern => false,
                };
                if nearest.as_ref().is_none_or(|other| mismatch.is_closer_than(other)) {
                    nearest = Some(mismatch);
                }
            }
            let Some(mismatch) = nearest else { continue };
            if is_answer {
                return Some(Closest { index, mismatch, is_answer });
            }
            if best.as_ref().is_none_or(|best| mismatch.is_closer_than(&best.mismatch)) {
                best = Some(Closest { index, mismatch, is_answer });
            }
        }
        best
    }
}

/// An answer in a few words.
fn answer_words(answer: &Value) -> String {
    if let Some(error) = answer.get("error") {
        let code = error.get("code").map_or_else(|| "without a code".to_owned(), Value::to_string);
        let message = error.get("message").map(|message| format!(" {}", quoted(message))).unwrap_or_default();
        return format!("the error {code}{message}");
    }
    match answer.get("result") {
        Some(result) => format!("the result {}", quoted(result)),
        None => "neither a result nor an error".to_owned(),
    }
}

fn quoted(value: &Value) -> String {
    let text = value.to_string();
    let short: String = text.chars().take(QUOTED).collect();
    if short.len() < text.len() { format!("{short}…") } else { short }
}

/// The expected message in words, without its patterns: the method and the plain words that it must hold.
fn wanted(choice: &Choice) -> String {
    let kind = match choice.kind {
        MessageKind::Response => "answer",
        MessageKind::Notification => "notification",
        MessageKind::ClientRequest => "request",
    };
    let method = choice.source.get("method").and_then(Value::as_str).map(|text| trimmed(text).to_owned());
    let mut words = Vec::new();
    for (key, value) in choice.source.as_object().into_iter().flatten() {
        if key != "method" {
            plain_words(key, value, &mut words);
        }
    }
    let with = if words.is_empty() { String::new() } else { format!(" with {}", words.join(", ")) };
    format!("{}{with}", method.unwrap_or_else(|| kind.to_owned()))
}

/// The first few leaves of a pattern that are plain words, as `key word`.
fn plain_words(key: &str, value: &Value, words: &mut Vec<String>) {
    const MOST: usize = 2;
    match value {
        Value::Object(members) => members.iter().for_each(|(key, value)| plain_words(key, value, words)),
        Value::String(text) if words.len() < MOST => {
            let text = trimmed(text);
            let is_plain = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | '-' | '/' | ' ');
            if !text.is_empty() && text.chars().all(is_plain) {
                words.push(format!("{key} {text}"));
            }
        }
        _ => {}
    }
}

fn trimmed(pattern: &str) -> &str {
    pattern.trim_start_matches('^').trim_end_matches('$')
}

/// The expected message in a few words.
fn label(choice: &Choice, wire: &Wire) -> String {
    let kind = choice.kind.as_str();
    if let Some(method) = choice.source.get("method").and_then(Value::as_str) {
        return format!("{kind} {}", trimmed(method));
    }
    match (&choice.bound, choice.kind, &wire.last_request) {
        (Bound::Id(id), ..) => format!("{kind} to request {id}"),
        (Bound::Last, MessageKind::Response, Some(id)) => format!("{kind} to request {id}"),
        _ => kind.to_owned(),
    }
}
