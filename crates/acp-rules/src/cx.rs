//! What a rule has in hand: the frame, the time, and where to report.

use std::time::Duration;

use acp_proto::Side;
use acp_rpc::{Direction, Frame};

use crate::coverage::Marks;
use crate::finding::{EXCERPT, Finding, FindingEvidence, Severity, cut};
use crate::grade::{Grade, split};
use crate::registry::registry;
use crate::rule::{Rule, RuleWeight, places};

/// A frame that came earlier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) index: u64,
    pub(crate) at: Duration,
    pub(crate) dir: Direction,
}

/// Findings and marks of a conversation; bounded.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) findings: Vec<Finding>,
    /// How many findings of a rule and side there were, kept or not.
    pub(crate) counts: Vec<[u64; 2]>,
    pub(crate) marks: Marks,
    /// How many findings there were by side and grade, kept or not.
    pub(crate) totals: [[u64; 3]; 2],
    /// The conversation is over.
    pub(crate) closing: bool,
    seen: Vec<[bool; 2]>,
    limit: u64,
}

impl Report {
    pub(crate) fn new(limit: u64) -> Self {
        Self {
            findings: Vec::new(),
            counts: vec![[0; 2]; Rule::COUNT],
            marks: Marks::new(),
            totals: [[0; 3]; 2],
            closing: false,
            seen: vec![[false; 2]; Rule::COUNT],
            limit,
        }
    }
}

/// The frame that is being judged.
pub(crate) struct Cx<'f> {
    pub(crate) report: &'f mut Report,
    /// `None` at the end of the conversation.
    pub(crate) frame: Option<&'f Frame>,
    pub(crate) index: u64,
    pub(crate) at: Duration,
    pub(crate) dir: Direction,
}

impl<'f> Cx<'f> {
    pub(crate) fn mark(&self) -> Mark {
        Mark { index: self.index, at: self.at, dir: self.dir }
    }

    /// Who sent the frame.
    pub(crate) fn sender(&self) -> Side {
        self.dir.sender()
    }

    /// The situation that a rule is about arose: its named requirement is put to the test.
    #[inline]
    pub(crate) fn saw(&mut self, rule: Rule, side: Side) {
        let seen = &mut self.report.seen[rule as usize][side as usize];
        if *seen {
            return;
        }
        *seen = true;
        if let Some(place) = places(rule, side).first() {
            self.report.marks.exercise(*place, self.index);
        }
    }

    /// A requirement is put to the test.
    pub(crate) fn saw_id(&mut self, requirement: &str) {
        if let Some(place) = registry().place(requirement) {
            self.report.marks.exercise(place, self.index);
        }
    }

    /// A requirement is put to the test, by its place in the registry.
    #[inline]
    pub(crate) fn saw_place(&mut self, place: u16) {
        self.report.marks.exercise(place, self.index);
    }

    /// A rule is broken. What is returned reports when it is dropped, after its details were added.
    pub(crate) fn breach(&mut self, rule: Rule, side: Side, message: impl Into<String>) -> Breach<'_, 'f> {
        let claim = rule.info().requirements(side).first().copied().unwrap_or_default();
        let warns = rule.info().weight == RuleWeight::Warns;
        Breach {
            cx: self,
            rule,
            side,
            claim,
            also: &[],
            warns,
            message: message.into(),
            pointer: String::new(),
            earlier: Vec::new(),
            earlier_only: false,
        }
    }
}

/// A finding in the making.
pub(crate) struct Breach<'c, 'f> {
    cx: &'c mut Cx<'f>,
    rule: Rule,
    side: Side,
    /// A requirement, or one of its clauses: `RPC-15/code`.
    claim: &'static str,
    also: &'static [&'static str],
    warns: bool,
    message: String,
    pointer: String,
    earlier: Vec<Mark>,
    /// The frame that is being judged only brought it to light.
    earlier_only: bool,
}

impl Breach<'_, '_> {
    /// Where in the frame.
    pub(crate) fn at(mut self, pointer: impl Into<String>) -> Self {
        self.pointer = pointer.into();
        self
    }

    /// An earlier frame that belongs to it.
    pub(crate) fn with(mut self, mark: Mark) -> Self {
        self.earlier.push(mark);
        self
    }

    /// The earlier frame that broke the rule: the one that is being judged only brought it to light.
    pub(crate) fn by(mut self, mark: Mark) -> Self {
        self.earlier_only = true;
        self.earlier.insert(0, mark);
        self
    }

    /// Another requirement than the rule's first, or a clause: `RPC-15/code`.
    pub(crate) fn names(mut self, claim: &'static str) -> Self {
        self.claim = claim;
        self
    }

    /// Requirements that are broken too.
    pub(crate) fn also(mut self, requirements: &'static [&'static str]) -> Self {
        self.also = requirements;
        self
    }

    /// No more than a warning.
    pub(crate) fn warn(mut self) -> Self {
        self.warns = true;
        self
    }

    fn evidence(&mut self) -> Vec<FindingEvidence> {
        let mut out = Vec::new();
        if let Some(frame) = self.cx.frame.filter(|_| !self.earlier_only) {
            let text = String::from_utf8_lossy(head(frame.raw()));
            out.push(FindingEvidence {
                index: self.cx.index,
                at: self.cx.at,
                dir: self.cx.dir,
                excerpt: cut(&text, EXCERPT).into_owned(),
                pointer: std::mem::take(&mut self.pointer),
            });
        }
        for mark in self.earlier.drain(..) {
            let evidence = FindingEvidence {
                index: mark.index,
                at: mark.at,
                dir: mark.dir,
                excerpt: String::new(),
                pointer: String::new(),
            };
            out.push(evidence);
        }
        out
    }
}

/// Enough bytes for an excerpt; a frame can be gigantic.
fn head(raw: &[u8]) -> &[u8] {
    &raw[..raw.len().min(EXCERPT * 2)]
}

impl Drop for Breach<'_, '_> {
    fn drop(&mut self) {
        let index = self.cx.index;
        let (requirement, clause) = split(self.claim);
        for id in [requirement].iter().chain(self.also) {
            if let Some(place) = registry().place(id) {
                self.cx.report.marks.exercise(place, index);
                self.cx.report.marks.break_(place, index);
            }
        }
        let graded = registry().get(requirement).map_or(Grade::Warn, |row| row.grade(clause));
        let grade = if self.warns { graded.min(Grade::Warn) } else { graded };
        let severity = if grade == Grade::Fail { Severity::Error } else { Severity::Warning };
        self.cx.report.totals[self.side as usize][grade as usize] += 1;
        let count = &mut self.cx.report.counts[self.rule as usize][self.side as usize];
        *count += 1;
        if *count > self.cx.report.limit {
            return;
        }
        let info = self.rule.info();
        let finding = Finding {
            rule: info.name,
            requirement,
            clause,
            also: self.also,
            grade,
            blame: self.side,
            severity,
            message: std::mem::take(&mut self.message),
            hint: info.hint,
            absent: self.cx.report.closing,
            evidence: self.evidence(),
        };
        self.cx.report.findings.push(finding);
    }
}
