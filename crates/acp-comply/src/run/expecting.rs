//! The `expect` step: messages to expectations, one each.
//!
//! Messages are taken in the order they came. A message that fits only expectations that are full may push an earlier
//! one over to another expectation that it fits too, so the order of the list in the file never decides.

use super::claims::Unmet;
use super::client::LaunchFilter;
use super::inbox::{Inbox, Message};
use super::{BY_ITSELF, Run, State, TestEnding, Wire};
use crate::program::{Envelope, Expect, Marks, MessageCapture, MessageKind};
use crate::table::find;
use crate::verdict::BreakKind;
use acp_match::{CompileError, Pattern};
use acp_rpc::Id;
use acp_rules::ClaimId;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

#[derive(Debug)]
pub(super) struct Expecting {
    pub until: Duration,
    pub items: Vec<Item>,
    captures: Vec<MessageCapture>,
    pub otherwise_na: Option<String>,
    pub may_wait: Option<String>,
    /// The step says what it means when it is unmet, so silence settles it.
    has_unless: bool,
    /// Of the messages since the last `send`, only those after this one count.
    after: Option<usize>,
    /// A message that fits came too early.
    pub early: Option<usize>,
    /// Messages before this one do not count.
    from: usize,
    /// Messages looked at so far.
    scanned: usize,
    /// For each taken message, the expectations it fits.
    pub fits: BTreeMap<usize, Vec<usize>>,
    /// Responses to other requests than the last count for expectations without an id.
    loose: bool,
    /// Some expectation is without an id.
    has_unbound: bool,
}

#[derive(Debug)]
pub(super) struct Item {
    pub choices: Vec<Choice>,
    pub need: usize,
    pub optional: bool,
    pub taken: Vec<usize>,
    captures: Vec<MessageCapture>,
    pub marks: Marks,
}

#[derive(Debug)]
pub(super) struct Choice {
    pub kind: MessageKind,
    pub pattern: Pattern,
    pub bound: Bound,
    pub line: usize,
    pub source: Value,
    launch: LaunchFilter,
    /// Only a message that came until then.
    latest: Option<Duration>,
    breaks: Vec<ClaimId>,
    inconclusive: Option<String>,
    witness: Vec<ClaimId>,
    provides: Vec<String>,
}

/// Which request a response belongs to.
#[derive(Debug, PartialEq)]
pub(super) enum Bound {
    /// The one with this id.
    Id(Id),
    /// The last one sent, then any.
    Last,
    /// Whatever the pattern says.
    Pattern,
}

impl Item {
    pub fn is_full(&self) -> bool {
        self.taken.len() >= self.need
    }

    /// The first of its shapes that the message has.
    fn chosen(&self, message: &Message) -> Option<&Choice> {
        self.choices.iter().find(|choice| choice.takes(message))
    }
}

impl Choice {
    fn takes(&self, message: &Message) -> bool {
        message.is(self.kind, &self.pattern)
            && self.launch.takes(message.launch)
            && self.latest.is_none_or(|latest| message.at <= latest)
    }

    /// Whether it meets the expectation without breaking anything.
    fn is_plain(&self) -> bool {
        self.breaks.is_empty() && self.inconclusive.is_none()
    }
}

impl Expecting {
    fn reset(&mut self) {
        self.scanned = self.from;
        self.fits.clear();
        self.items.iter_mut().for_each(|item| item.taken.clear());
    }

    fn is_complete(&self) -> bool {
        self.items.iter().all(|item| item.optional || item.is_full())
    }

    fn waits_for_nothing_required(&self) -> bool {
        self.items.iter().all(|item| item.optional)
    }

    /// Whether silence after the last answer settles the step.
    fn ends_in_silence(&self) -> bool {
        self.waits_for_nothing_required() || self.otherwise_na.is_some() || self.has_unless
    }

    /// Looks at the messages that came since the last look.
    fn scan(&mut self, inbox: &Inbox, wire: &Wire, last_chance: bool) {
        let last_open = wire.last_request.as_ref().is_some_and(|id| wire.outstanding.contains(id));
        let loose = last_chance || !last_open;
        if self.has_unbound && loose != self.loose {
            self.loose = loose;
            self.reset();
            // The answer to the last request goes first.
            let first = inbox.messages().iter().position(|message| {
                message.kind == MessageKind::Response && !message.consumed && message.id == wire.last_request
            });
            if let Some(first) = first {
                self.offer(first, &inbox.messages()[first], wire);
            }
        }
        for (index, message) in inbox.messages().iter().enumerate().skip(self.scanned) {
            if !message.consumed && !self.fits.contains_key(&index) {
                self.offer(index, message, wire);
            }
        }
        self.scanned = inbox.messages().len();
    }

    fn offer(&mut self, index: usize, message: &Message, wire: &Wire) {
        let fits: Vec<usize> =
            (0..self.items.len()).filter(|item| self.item_fits(*item, message, wire)).collect();
        if fits.is_empty() {
            return;
        }
        if index >= wire.window && self.after.is_some_and(|after| index <= after) {
            self.early.get_or_insert(index);
            return;
        }
        let room = fits.iter().copied().find(|item| !self.items[*item].is_full()).or_else(|| {
            let mut visited = vec![false; self.items.len()];
            fits.iter().copied().find(|item| self.make_room(*item, &mut visited))
        });
        if let Some(item) = room {
            self.items[item].taken.push(index);
            self.fits.insert(index, fits);
        }
    }

    /// Moves one message of a full expectation to another that it fits.
    fn make_room(&mut self, item: usize, visited: &mut [bool]) -> bool {
        visited[item] = true;
        for place in 0..self.items[item].taken.len() {
            let message = self.items[item].taken[place];
            for other in self.fits.get(&message).cloned().unwrap_or_default() {
                if visited[other] {
                    continue;
                }
                if !self.items[other].is_full() || self.make_room(other, visited) {
                    self.items[item].taken.remove(place);
                    self.items[other].taken.push(message);
                    return true;
                }
            }
        }
        false
    }

    fn item_fits(&self, item: usize, message: &Message, wire: &Wire) -> bool {
        self.items[item].choices.iter().any(|choice| {
            let is_bound = match choice.bound {
                Bound::Last if choice.kind == MessageKind::Response => {
                    self.loose || message.id == wire.last_request
                }
                _ => true,
            };
            is_bound && choice.takes(message)
        })
    }

    /// Whether nothing that may still come can meet what is unmet: the requests it belongs to are answered.
    fn is_doomed(&self, wire: &Wire) -> bool {
        let mut unmet = self.items.iter().filter(|item| !item.optional && !item.is_full()).peekable();
        if unmet.peek().is_none() {
            return false;
        }
        unmet.all(|item| {
            item.choices.iter().all(|choice| {
                choice.kind == MessageKind::Response
                    && match &choice.bound {
                        Bound::Id(id) => {
                            wire.lost.contains(id)
                                || (wire.answered.contains(id) && !wire.outstanding.contains(id))
                        }
                        Bound::Last
                            if wire.last_request.as_ref().is_some_and(|id| wire.lost.contains(id)) =>
                        {
                            true
                        }
                        Bound::Last => {
                            let is_plain = !wire.unruly && wire.partial.is_empty();
                            is_plain && wire.asked && wire.outstanding.is_empty()
                        }
                        Bound::Pattern => false,
                    }
            })
        })
    }
}

impl Run {
    pub(super) fn begin_expect(&mut self, expect: &Expect) {
        self.tally.asserts |= expect.messages.iter().any(|message| !message.optional);
        let mut items = Vec::new();
        for expected in &expect.messages {
            let choices: Result<Vec<Choice>, CompileError> =
                expected.alternatives.iter().map(|envelope| self.choice(envelope)).collect();
            match choices {
                Ok(choices) => items.push(Item {
                    choices,
                    need: expected.times,
                    optional: expected.optional,
                    taken: Vec::new(),
                    captures: expected.captures.clone(),
                    marks: expected.marks.clone(),
                }),
                Err(error) => {
                    return self.end(TestEnding::NotApplicable { reason: error.to_string(), blocked: true });
                }
            }
        }
        let from = if expect.fresh { self.wire.window } else { 0 };
        let has_unbound =
            items.iter().flat_map(|item| &item.choices).any(|choice| choice.bound == Bound::Last);
        self.state = State::Expecting(Box::new(Expecting {
            until: self.step_began + self.scaled(expect.timeout),
            items,
            captures: expect.captures.clone(),
            otherwise_na: expect.otherwise_na.clone(),
            may_wait: expect.may_wait.clone(),
            has_unless: self.arena[self.order[self.at].step].unless.is_some(),
            after: match expect.ordered {
                None => self.tally.told,
                Some(true) => self.tally.taken,
                Some(false) => None,
            },
            early: None,
            scanned: from,
            from,
            fits: BTreeMap::new(),
            loose: false,
            has_unbound,
        }));
    }

    fn choice(&self, envelope: &Envelope) -> Result<Choice, CompileError> {
        let bound = match envelope.pattern.get("id") {
            None => Bound::Last,
            Some(Value::Number(number)) => Id::parse(&number.to_string()).map_or(Bound::Pattern, Bound::Id),
            Some(_) => Bound::Pattern,
        };
        Ok(Choice {
            kind: envelope.kind,
            pattern: Pattern::compile_with(&envelope.pattern, &self.vars)?,
            bound,
            line: envelope.line,
            source: envelope.pattern.clone(),
            launch: self.launch_filter(envelope.launch),
            latest: envelope.within.map(|within| self.taken_last() + self.scaled(within)),
            breaks: envelope.breaks.clone(),
            inconclusive: envelope.inconclusive.clone(),
            witness: envelope.witness.clone(),
            provides: envelope.provides.clone(),
        })
    }

    /// When the last message came that a step took, or else when the present step began.
    fn taken_last(&self) -> Duration {
        let message = self.tally.taken.and_then(|index| self.inbox.messages().get(index));
        message.map_or(self.step_began, |message| message.at)
    }

    pub(super) fn expect_deadline(&self, expecting: &Expecting) -> Duration {
        let quiet = self.quiet_from().filter(|_| expecting.ends_in_silence());
        [quiet, self.patience_ends()].into_iter().flatten().fold(expecting.until, Duration::min)
    }

    /// When an expectation is given up before its time-out: everything is answered, and the agent has been silent for
    /// that long. A test without claims waits as long as it says, unless the caller has no such patience.
    pub(super) fn patience_ends(&self) -> Option<Duration> {
        let quiet = match self.tally.out_of_reach {
            Some(_) => Some(self.setup.quiet.max(BY_ITSELF)),
            None => self.program.is_claimed().then_some(self.setup.quiet),
        };
        let patience = self.scaled(self.setup.patience.or(quiet)?);
        self.is_idle().then(|| self.wire.last_activity.max(self.step_began) + patience)
    }

    pub(super) fn check_expect(&mut self) -> bool {
        let State::Expecting(mut expecting) = std::mem::replace(&mut self.state, State::Ready) else {
            return false;
        };
        expecting.scan(&self.inbox, &self.wire, false);
        let is_full = expecting.items.iter().all(Item::is_full);
        if is_full || (expecting.is_complete() && !expecting.waits_for_nothing_required()) {
            self.expect_met(&expecting);
            return true;
        }
        let is_gone = self.is_gone();
        let is_over = self.now >= expecting.until || is_gone;
        let is_given_up = self.patience_ends().is_some_and(|ends| self.now >= ends);
        let is_quiet = is_given_up
            || expecting.ends_in_silence() && self.quiet_from().is_some_and(|quiet| self.now >= quiet);
        if expecting.waits_for_nothing_required() {
            if is_over || is_quiet {
                self.expect_met(&expecting);
                return true;
            }
        } else if is_over || is_quiet || expecting.is_doomed(&self.wire) {
            expecting.scan(&self.inbox, &self.wire, true);
            if expecting.is_complete() {
                self.expect_met(&expecting);
            } else {
                self.expect_unmet(&expecting, is_gone);
            }
            return true;
        }
        self.state = State::Expecting(expecting);
        false
    }

    fn expect_met(&mut self, expecting: &Expecting) {
        let taken = || expecting.items.iter().flat_map(|item| item.taken.iter().copied());
        self.tally.met += expecting.items.iter().filter(|item| !item.taken.is_empty()).count();
        taken().for_each(|index| self.inbox.consume(index));
        let is_told = |index: &usize| self.inbox.messages()[*index].kind != MessageKind::Response;
        let told = taken().filter(is_told).max();
        self.tally.heard |= told.is_some();
        self.tally.told = self.tally.told.max(told);
        self.tally.taken = self.tally.taken.max(taken().max());
        let matched: Vec<usize> = taken().collect();
        let launches = matched.iter().filter_map(|index| self.inbox.messages().get(*index));
        self.found_launch(launches.map(|message| message.launch).max().unwrap_or(0));
        if let Err(reason) = self.items_met(expecting) {
            return self.end(TestEnding::Inconclusive(reason));
        }
        let mut wanted: Vec<(&MessageCapture, Vec<usize>)> = Vec::new();
        for item in &expecting.items {
            wanted.extend(item.captures.iter().map(|capture| (capture, item.taken.clone())));
        }
        wanted.extend(expecting.captures.iter().map(|capture| (capture, matched.clone())));
        let held = self.setup.held();
        for (capture, from) in wanted {
            let messages = self.inbox.messages();
            let value = from.iter().find_map(|index| {
                let message = &messages[*index].value;
                let opens = message
                    .get("result")
                    .is_some_and(|result| find(result, &self.setup.table.session_id).is_some());
                capture.take(message, &held, opens)
            });
            match value {
                Some(value) => self.captured(capture, value),
                None if from.is_empty() => {}
                None if capture.unless.is_some() => {
                    return self.end(TestEnding::NotReached(capture.unless.clone().unwrap_or_default()));
                }
                None => {
                    let reason =
                        format!("the matched message has no {}, which the test captures", capture.path);
                    return self.unmet(Unmet::new(BreakKind::Wrong, reason));
                }
            }
        }
        let count = matched.len();
        self.step_done(Some(format!("{count} message{} matched", if count == 1 { "" } else { "s" })));
    }

    /// Takes note of what the messages that came show, item by item and for the step as a whole; the reason when one of
    /// them says nothing either way.
    fn items_met(&mut self, expecting: &Expecting) -> Result<(), String> {
        let mut broken = BTreeSet::new();
        for item in &expecting.items {
            broken.extend(self.item_met(item)?);
        }
        let marks = self.arena[self.order[self.at].step].marks.clone();
        self.met(&marks, &broken);
        Ok(())
    }

    /// The same for one item that is full; the claims that it broke.
    pub(super) fn item_met(&mut self, item: &Item) -> Result<BTreeSet<ClaimId>, String> {
        let mut broken = BTreeSet::new();
        let mut is_plain = true;
        for index in &item.taken {
            let Some(choice) = item.chosen(&self.inbox.messages()[*index]) else { continue };
            if let Some(reason) = &choice.inconclusive {
                return Err(reason.clone());
            }
            is_plain &= choice.is_plain();
            self.saw(&choice.witness, &choice.provides);
            if !choice.breaks.is_empty() {
                let did = self.message_words(*index);
                let frames = self.frames_about(*index);
                self.break_claims(&choice.breaks, BreakKind::Wrong, &did, &frames);
                broken.extend(choice.breaks.iter().cloned());
            }
        }
        if item.taken.is_empty() || !item.is_full() {
            return Ok(broken);
        }
        if is_plain {
            // What the other shapes would have broken is held.
            let lighter = item.choices.iter().flat_map(|choice| choice.breaks.iter().cloned());
            self.evidence.held.extend(lighter);
        }
        self.met(&item.marks, &broken);
        Ok(broken)
    }
}
