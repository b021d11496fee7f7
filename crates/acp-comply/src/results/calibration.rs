//! What an agent could be made to do, and what a machine that was too busy makes of a verdict.

use super::{TestOutcome, Verdict};
use crate::run::Observation;
use crate::verdict::{BreakKind, ClaimState};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// What was found out about an agent before its tests.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Calibrated {
    /// What it did, by name.
    #[serde(default)]
    pub found: BTreeMap<String, Observation>,
    /// What it could not be brought to do, each with the reason.
    #[serde(default)]
    pub missing: BTreeMap<String, String>,
    /// From its start to its first answer.
    #[serde(default)]
    pub first_answer_ms: f64,
    /// Whether it ends when its input does; `None` when that was not seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exits_at_eof: Option<bool>,
}

impl TestOutcome {
    /// Takes back what rests on something that did not come, because the machine could not have kept the deadline: a
    /// built-in agent beside it took this long for a ping.
    pub fn blame_machine(&mut self, ping: Duration) {
        self.take_back(format!(
            "the machine was too busy: the built-in agent took {} ms for a ping",
            ping.as_millis()
        ));
    }

    /// Takes back what rests on something that did not come, because the run was stopped before the test could be run a
    /// second time by itself.
    pub fn blame_interruption(&mut self) {
        let first = self.reason.clone().unwrap_or_default();
        self.take_back(format!(
            "inconclusive: the run was stopped before a second try; in the first: {first}"
        ));
        self.needs_second_run = false;
    }

    fn take_back(&mut self, words: String) {
        for claim in &mut self.claims {
            if claim.state == ClaimState::Broken && claim.kind == Some(BreakKind::Absent) {
                claim.state = ClaimState::Inconclusive;
                claim.reason = Some(words.clone());
            }
        }
        self.verdict = Verdict::Na;
        self.blocked = true;
        self.reason = Some(words);
    }
}
