//! The rounds of one agent's tests: all of them side by side, then again by itself what rests on something that did not
//! come.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use acp_comply::verdict::{BreakKind, ClaimState};
use acp_comply::{FindingRef, Program, UnmetSeverity, Verdict};
use acp_rules::Grade;
use futures_util::StreamExt;

use crate::campaign::{Campaign, Progress, ProgressListener};
use crate::canary::Canary;
use crate::drive::{Conditions, Driven, Probed, drive};
use crate::pace::Pace;
use crate::target::Target;

/// By how much time-outs grow when a test is run by itself because something did not come.
const MORE_TIME: f64 = 3.0;
/// A built-in agent that takes this long for a ping shows that the machine, not the agent, missed a deadline.
const STALLED: Duration = Duration::from_millis(1000);

/// What is noted of a test that was not run a second time.
const CONFIRMED: &str = "not run again: the second run of another test showed the same";

/// One agent's tests in progress.
pub(crate) struct Round<'a> {
    pub campaign: &'a Campaign,
    pub target: &'a Target,
    pub probe: Probed,
    pub pace: Pace,
    pub canary: Option<Canary>,
    pub listener: &'a ProgressListener,
}

/// A test's place in the report and what it came to.
type Placed = (usize, Driven);

impl Round<'_> {
    /// Every test once, many at once.
    pub async fn first(&self) -> Vec<Placed> {
        let failed = AtomicBool::new(false);
        let all: Vec<usize> = (0..self.campaign.programs.len()).collect();
        self.side_by_side(&all, &failed).await
    }

    /// What did not apply because it was out of the agent's reach, and was shown by a later conversation after all.
    pub async fn out_of_reach_again(&mut self, driven: &mut [Placed]) {
        let shown: BTreeSet<String> =
            driven.iter().flat_map(|(_, driven)| driven.outcome.provided.iter().cloned()).collect();
        let regained = self.probe.regain(&shown);
        if regained.is_empty() {
            return;
        }
        let places: Vec<usize> = driven
            .iter()
            .map(|(place, _)| *place)
            .filter(|place| self.campaign.programs[*place].needs.iter().any(|need| regained.contains(need)))
            .collect();
        let again = self.side_by_side(&places, &AtomicBool::new(false)).await;
        for (place, new) in again {
            replace(driven, place, new);
        }
    }

    /// What rests on something that did not come counts only after the test was run by itself, with more time, on a
    /// machine that was able to keep the deadline. An absence that such a run confirmed word for word, in another test,
    /// counts without a run of its own: what holds for one replay or one closed session holds for the next.
    pub async fn absences_again(&self, driven: &mut [Placed]) {
        let mut confirmed = BTreeSet::new();
        let places: Vec<usize> = driven
            .iter()
            .filter(|(_, driven)| driven.outcome.needs_second_run || driven.others.iter().any(is_absence))
            .map(|(place, _)| *place)
            .collect();
        for place in places {
            let program = &self.campaign.programs[place];
            if let Some((_, first)) = driven.iter_mut().find(|(known, _)| *known == place)
                && is_confirmed(first, &confirmed)
            {
                if std::mem::take(&mut first.outcome.needs_second_run) {
                    first.outcome.notes.push(CONFIRMED.to_owned());
                    (self.listener)(&Progress::Settled(&self.target.name, &first.outcome));
                }
                continue;
            }
            let began = Instant::now();
            let conditions = patient(&self.campaign.conditions);
            let Some(mut second) = self.drive_unless_stopped(program, &conditions).await else {
                let open = driven.iter_mut().filter(|(_, driven)| driven.outcome.needs_second_run);
                open.for_each(|(_, driven)| driven.outcome.blame_interruption());
                return;
            };
            let stalled = self.canary.as_ref().map(|canary| canary.worst_since(began));
            if let Some(stalled) =
                stalled.filter(|stalled| second.outcome.needs_second_run && *stalled >= STALLED)
            {
                second.outcome.blame_machine(stalled);
            }
            let Some((_, first)) = driven.iter_mut().find(|(known, _)| *known == place) else { continue };
            confirmed.extend(absences(first).intersection(&absences(&second)).cloned());
            if !first.outcome.needs_second_run {
                first.others.retain(|finding| !is_absence(finding) || is_shown_again(finding, &second));
                continue;
            }
            second.outcome = first.outcome.clone().confirmed_by(second.outcome);
            *first = second;
            (self.listener)(&Progress::Settled(&self.target.name, &first.outcome));
        }
    }

    /// Tests that ask for long silences begin first: one that began last would be waited for alone.
    async fn side_by_side(&self, places: &[usize], failed: &AtomicBool) -> Vec<Placed> {
        let mut places = places.to_vec();
        if self.pace.jobs() > 1 && !self.campaign.fail_fast {
            places.sort_by_key(|place| Reverse(self.campaign.programs[*place].known_wait()));
        }
        let one = |place: usize| async move {
            let _turn = self.pace.turn().await;
            (place, self.one(&self.campaign.programs[place], failed).await)
        };
        let mut driven: Vec<Placed> = futures_util::stream::iter(places.into_iter().map(one))
            .buffer_unordered(self.pace.jobs())
            .filter_map(|(place, driven)| async move { Some((place, driven?)) })
            .collect()
            .await;
        driven.sort_by_key(|(place, _)| *place);
        driven
    }

    async fn one(&self, program: &Arc<Program>, failed: &AtomicBool) -> Option<Driven> {
        if *self.campaign.stop.borrow() || failed.load(Ordering::Relaxed) {
            return None;
        }
        (self.listener)(&Progress::Began(&self.target.name, program));
        let conditions = &self.campaign.conditions;
        let mut driven = self.drive_unless_stopped(program, conditions).await?;
        for _ in 1..self.campaign.repeat.max(1) {
            let again = self.drive_unless_stopped(program, conditions).await?;
            driven = fold(driven, again);
        }
        if self.campaign.fail_fast && is_final_failure(&driven) {
            failed.store(true, Ordering::Relaxed);
        }
        (self.listener)(&Progress::Ended(&self.target.name, &driven.outcome));
        Some(driven)
    }

    async fn drive_unless_stopped(&self, program: &Arc<Program>, conditions: &Conditions) -> Option<Driven> {
        let mut stop = self.campaign.stop.clone();
        tokio::select! {
            driven = self.drive_once(program, conditions) => Some(driven),
            Ok(_) = stop.wait_for(|stop| *stop) => None,
        }
    }

    /// One attempt, on the runtime's own terms so that tests really run side by side.
    async fn drive_once(&self, program: &Arc<Program>, conditions: &Conditions) -> Driven {
        let (program, target, probe) = (Arc::clone(program), self.target.clone(), self.probe.clone());
        let (conditions, watch) = (conditions.clone(), self.campaign.watch.clone());
        let name = Arc::clone(&program);
        let task =
            tokio::spawn(
                async move { drive(&program, &target, &conditions, Some(&probe), watch.as_ref()).await },
            );
        let _abort = AbortOnDrop(task.abort_handle());
        match task.await {
            Ok(driven) => driven,
            Err(error) => Driven::fault(&name, format!("the runner failed: {error}")),
        }
    }
}

/// Whether a finding that the test does not claim rests on something that did not come.
fn is_absence(finding: &FindingRef) -> bool {
    finding.absent && finding.grade != Grade::Note
}

/// Whether all that did not come in a test is known from other tests' second runs.
fn is_confirmed(driven: &Driven, confirmed: &BTreeSet<(String, String)>) -> bool {
    let absences = absences(driven);
    !absences.is_empty() && absences.is_subset(confirmed)
}

/// What did not come in a test: the requirement and the words for it.
fn absences(driven: &Driven) -> BTreeSet<(String, String)> {
    let found = driven.outcome.findings.iter().chain(&driven.others).filter(|finding| is_absence(finding));
    let found = found.filter_map(|finding| Some((finding.claim()?.to_string(), finding.message.clone())));
    let claims = driven.outcome.claims.iter().filter(|claim| {
        claim.state == ClaimState::Broken
            && claim.kind == Some(BreakKind::Absent)
            && claim.grade != Grade::Note
    });
    claims
        .map(|claim| (claim.id.to_string(), claim.reason.clone().unwrap_or_default()))
        .chain(found)
        .collect()
}

fn is_shown_again(finding: &FindingRef, second: &Driven) -> bool {
    let known = |other: &FindingRef| (&other.rule, other.claim()) == (&finding.rule, finding.claim());
    second.others.iter().chain(&second.outcome.findings).any(known)
}

/// The conditions of a second run.
fn patient(conditions: &Conditions) -> Conditions {
    let mut more = conditions.clone();
    more.timeout_factor *= MORE_TIME;
    more.patience = conditions.patience.map(|patience| patience.mul_f64(MORE_TIME));
    more.is_second_run = true;
    more
}

fn is_final_failure(driven: &Driven) -> bool {
    let outcome = &driven.outcome;
    let counts = !outcome.claims.is_empty() || outcome.severity == UnmetSeverity::Required;
    counts && outcome.verdict == Verdict::Fail && !outcome.needs_second_run
}

fn replace(driven: &mut [Placed], place: usize, new: Driven) {
    if let Some(old) = driven.iter_mut().find(|(known, _)| *known == place) {
        old.1 = new;
    }
}

struct AbortOnDrop(tokio::task::AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Of several attempts the worst one stays, with all verdicts beside it.
fn fold(first: Driven, again: Driven) -> Driven {
    let mut attempts = first.outcome.attempts.clone();
    if attempts.is_empty() {
        attempts.push(first.outcome.verdict);
    }
    attempts.push(again.outcome.verdict);
    let mut kept =
        if again.outcome.verdict.badness() > first.outcome.verdict.badness() { again } else { first };
    kept.outcome.attempts = attempts;
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use acp_comply::verdict::ClaimResult;
    use acp_comply::{ClaimId, Defaults};

    const TEST: &str = r#"{
      "title": "A", "description": "B.", "severity": "required", "requirements": ["SES-13"], "docs": [],
      "sandbox": { "files": [] }, "steps": [{ "newSession": {} }]
    }"#;

    fn missed(words: &[(&str, &str)]) -> Driven {
        let program = Program::read("a.jsont", TEST, &Defaults::default()).program.unwrap();
        let mut driven = Driven::fault(&Arc::new(program), String::new());
        driven.outcome.claims = words.iter().map(|(id, words)| absent(id, words)).collect();
        driven
    }

    fn absent(id: &str, words: &str) -> ClaimResult {
        let id: ClaimId = id.parse().unwrap();
        ClaimResult {
            grade: id.grade(),
            id,
            state: ClaimState::Broken,
            kind: Some(BreakKind::Absent),
            reason: Some(words.to_owned()),
            frames: Vec::new(),
        }
    }

    #[test]
    fn only_what_another_second_run_showed_word_for_word_is_confirmed() {
        let file = ("SES-13", "the file stopped.txt is not there");
        let confirmed = absences(&missed(&[file]));
        assert!(is_confirmed(&missed(&[file]), &confirmed));
        assert!(!is_confirmed(&missed(&[("SES-12", file.1)]), &confirmed));
        assert!(!is_confirmed(&missed(&[file, ("SES-13", "the agent sent no answer")]), &confirmed));
        assert!(!is_confirmed(&missed(&[]), &confirmed));
    }
}
