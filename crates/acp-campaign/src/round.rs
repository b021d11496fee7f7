//! The rounds of one agent's tests: all of them side by side, then again by itself what rests on something that did not
//! come.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use acp_comply::{FindingRef, Program, Severity, Verdict};
use acp_rules::Grade;
use futures_util::StreamExt;

use crate::campaign::{Campaign, Listener, Progress};
use crate::canary::Canary;
use crate::drive::{Conditions, Driven, Probed, drive};
use crate::pace::Pace;
use crate::target::Target;

/// By how much time-outs grow when a test is run by itself because something did not come.
const MORE_TIME: f64 = 3.0;
/// A built-in agent that takes this long for a ping shows that the machine, not the agent, missed a deadline.
const STALLED: Duration = Duration::from_millis(1000);

/// One agent's tests in progress.
pub(crate) struct Round<'a> {
    pub campaign: &'a Campaign,
    pub target: &'a Target,
    pub probe: Probed,
    pub pace: Pace,
    pub canary: Option<Canary>,
    pub listener: &'a Listener,
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
    /// machine that was able to keep the deadline.
    pub async fn absences_again(&self, driven: &mut [Placed]) {
        let places: Vec<usize> = driven
            .iter()
            .filter(|(_, driven)| driven.outcome.needs_second_run || driven.others.iter().any(is_absence))
            .map(|(place, _)| *place)
            .collect();
        for place in places {
            let program = &self.campaign.programs[place];
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
            if !first.outcome.needs_second_run {
                first.others.retain(|finding| !is_absence(finding) || is_shown_again(finding, &second));
                continue;
            }
            second.outcome = first.outcome.clone().confirmed_by(second.outcome);
            *first = second;
            (self.listener)(&Progress::Settled(&self.target.name, &first.outcome));
        }
    }

    async fn side_by_side(&self, places: &[usize], failed: &AtomicBool) -> Vec<Placed> {
        let one = |place: usize| async move {
            let _turn = self.pace.turn().await;
            (place, self.one(&self.campaign.programs[place], failed).await)
        };
        let mut driven: Vec<Placed> = futures_util::stream::iter(places.iter().copied().map(one))
            .buffer_unordered(self.campaign.jobs.max(1))
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
    let counts = !outcome.claims.is_empty() || outcome.severity == Severity::Required;
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
