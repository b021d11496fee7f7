//! The rounds of a client's tests: groups in the order of their needs, then second runs.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use acp_campaign::Driven;
use acp_campaign::campaign::{Progress, ProgressListener};
use acp_campaign::canary::Canary;
use acp_campaign::pace::Pace;
use acp_comply::{Program, UnmetSeverity, Verdict, in_order_of_needs};
use futures_util::StreamExt;

use super::{Exam, ExamConditions, Known, examine};
use crate::client::ClientUnderTest;

/// By how much times grow when a test is run again by itself.
const MORE_TIME: f64 = 3.0;
/// A built-in agent that takes this long for a ping shows that the machine, not the client, missed a deadline.
const STALLED: Duration = Duration::from_millis(1000);

/// What all tests of a round share.
struct Round<'a> {
    exam: &'a Exam,
    client: &'a ClientUnderTest,
    conditions: &'a ExamConditions,
    listener: &'a ProgressListener,
    pace: Pace,
    canary: Option<Canary>,
    failed: AtomicBool,
}

impl Exam {
    /// Every test, in the order of the report; those that only show what others need come last.
    pub(super) async fn rounds(
        &self,
        client: &ClientUnderTest,
        conditions: &ExamConditions,
        mut known: Known,
        listener: &ProgressListener,
    ) -> Vec<Driven> {
        let programs = self.with_providers();
        let canary = Canary::start(&client.program);
        let round = Round {
            exam: self,
            client,
            conditions,
            listener,
            pace: Pace::new(self.jobs, canary.clone()),
            canary,
            failed: AtomicBool::new(false),
        };
        let mut all: Vec<(usize, Driven)> = Vec::new();
        for group in in_order_of_needs(programs.iter().map(AsRef::as_ref)) {
            let mut driven = round.side_by_side(&programs, &group, &known).await;
            for (place, driven) in &mut driven {
                round.again(&programs[*place], driven, &known).await;
            }
            learn(&mut known, &programs, &driven);
            all.extend(driven);
        }
        all.sort_by_key(|(place, _)| *place);
        all.into_iter().map(|(_, driven)| driven).collect()
    }
}

/// Takes what the tests of a group have shown, and what they should have.
fn learn(known: &mut Known, programs: &[Arc<Program>], driven: &[(usize, Driven)]) {
    let outcomes = || driven.iter().filter(|(_, driven)| driven.outcome.verdict != Verdict::Error);
    for name in outcomes().flat_map(|(_, driven)| &driven.outcome.provided) {
        known.missing.remove(name);
        known.found.entry(name.clone()).or_default();
    }
    for (place, driven) in outcomes() {
        let shown: BTreeSet<&String> = driven.outcome.provided.iter().collect();
        for name in programs[*place].provides() {
            if !shown.contains(&name) && !known.found.contains_key(&name) {
                let why = driven.outcome.reason.clone().unwrap_or_else(|| "it was not seen to".to_owned());
                known.missing.entry(name).or_insert_with(|| format!("{why} ({})", driven.outcome.id));
            }
        }
    }
}

impl Round<'_> {
    async fn side_by_side(
        &self,
        programs: &[Arc<Program>],
        places: &[usize],
        known: &Known,
    ) -> Vec<(usize, Driven)> {
        let one = |place: usize| async move {
            let _turn = self.pace.turn().await;
            (place, self.one(&programs[place], known).await)
        };
        futures_util::stream::iter(places.iter().copied().map(one))
            .buffer_unordered(self.exam.jobs.max(1))
            .filter_map(|(place, driven)| async move { Some((place, driven?)) })
            .collect()
            .await
    }

    async fn one(&self, program: &Arc<Program>, known: &Known) -> Option<Driven> {
        if *self.exam.stop.borrow() || self.failed.load(Ordering::Relaxed) {
            return None;
        }
        let name = self.client.name();
        (self.listener)(&Progress::Began(name, program));
        let mut driven = self.unless_stopped(program, self.conditions, known).await?;
        for _ in 1..self.exam.repeat.max(1) {
            let again = self.unless_stopped(program, self.conditions, known).await?;
            driven = worse(driven, again);
        }
        if self.exam.fail_fast && is_final_failure(&driven) {
            self.failed.store(true, Ordering::Relaxed);
        }
        (self.listener)(&Progress::Ended(name, &driven.outcome));
        Some(driven)
    }

    /// What rests on something that did not come counts only after the test was run by itself, with more time, on a
    /// machine that was able to keep the deadline.
    async fn again(&self, program: &Arc<Program>, first: &mut Driven, known: &Known) {
        if !first.outcome.needs_second_run {
            return;
        }
        let mut conditions = self.conditions.clone();
        conditions.timeout_factor *= MORE_TIME;
        let began = Instant::now();
        let Some(mut second) = self.unless_stopped(program, &conditions, known).await else {
            first.outcome.blame_interruption();
            return;
        };
        let stalled = self.canary.as_ref().map(|canary| canary.worst_since(began));
        if let Some(stalled) = stalled.filter(|it| second.outcome.needs_second_run && *it >= STALLED) {
            second.outcome.blame_machine(stalled);
        }
        second.outcome = first.outcome.clone().confirmed_by(second.outcome);
        *first = second;
        (self.listener)(&Progress::Settled(self.client.name(), &first.outcome));
    }

    async fn unless_stopped(
        &self,
        program: &Arc<Program>,
        conditions: &ExamConditions,
        known: &Known,
    ) -> Option<Driven> {
        let mut stop = self.exam.stop.clone();
        tokio::select! {
            driven = self.attempt(program, conditions, known) => Some(driven),
            Ok(_) = stop.wait_for(|stop| *stop) => None,
        }
    }

    /// One attempt, on the runtime's own terms so that tests really run side by side.
    async fn attempt(&self, program: &Arc<Program>, conditions: &ExamConditions, known: &Known) -> Driven {
        let (test, client, known) = (Arc::clone(program), self.client.clone(), known.clone());
        let (conditions, watch) = (conditions.clone(), self.exam.watch.clone());
        let task =
            tokio::spawn(async move { examine(&test, &client, &conditions, &known, watch.as_ref()).await });
        let _abort = EndOnDrop(task.abort_handle());
        match task.await {
            Ok(driven) => driven,
            Err(error) => Driven::fault(program, format!("the runner failed: {error}")),
        }
    }
}

fn is_final_failure(driven: &Driven) -> bool {
    let outcome = &driven.outcome;
    let counts = !outcome.claims.is_empty() || outcome.severity == UnmetSeverity::Required;
    counts && outcome.verdict == Verdict::Fail && !outcome.needs_second_run
}

/// Of several attempts the worst one stays, with all verdicts beside it.
fn worse(first: Driven, again: Driven) -> Driven {
    let mut attempts = first.outcome.attempts.clone();
    if attempts.is_empty() {
        attempts.push(first.outcome.verdict);
    }
    attempts.push(again.outcome.verdict);
    let is_worse = again.outcome.verdict.badness() > first.outcome.verdict.badness();
    let mut kept = if is_worse { again } else { first };
    kept.outcome.attempts = attempts;
    kept
}

struct EndOnDrop(tokio::task::AbortHandle);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
