//! What an agent can be brought to do, found out once before the suite.
//!
//! Calibration files are tests whose steps say what they show when they are met (`provides`). Each is run with the first
//! wording of the wishes in its prompts, and with the next as long as none has worked. What no wording brings about is
//! out of this agent's reach: tests that need it do not apply.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use acp_comply::results::Calibrated;
use acp_comply::{Observation, Program, Wordings};
use futures_util::StreamExt;
use futures_util::future::LocalBoxFuture;

use crate::campaign::{Campaign, Progress, ProgressListener};
use crate::drive::{Conditions, Driven, Probed, drive};
use crate::pace::Pace;
use crate::target::Target;
use crate::wire::AtEof;

/// How many wordings of a wish are tried at most.
const WORDINGS: usize = 6;
/// Deadlines of the suite are made for agents that give their first answer within this time.
const PROMPT: Duration = Duration::from_secs(3);
/// An agent that has been silent for this long after everything was answered has nothing more to say, unless it is known
/// to be slow.
const QUIET: Duration = Duration::from_millis(300);
/// The longest silence that is waited for.
const LONGEST_QUIET: Duration = Duration::from_secs(3);

/// What calibration found out.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Calibration {
    /// What the agent did, by name.
    pub found: BTreeMap<String, Observation>,
    /// What it did not do, with the reason in words.
    pub missing: BTreeMap<String, String>,
    /// From its start to its first answer.
    pub first_answer: Duration,
    /// The longest turn that calibration waited for.
    pub longest_turn: Duration,
}

impl Calibration {
    /// By how much the suite's time-outs have to grow for this agent: one that is three times slower than they are made
    /// for gets three times as long.
    pub fn timeout_factor(&self) -> f64 {
        let slowest = self.first_answer.max(self.longest_turn / 4);
        (slowest.as_secs_f64() / PROMPT.as_secs_f64()).max(1.0)
    }

    /// What the results say about it.
    pub fn record(&self, at_eof: Option<AtEof>) -> Calibrated {
        Calibrated {
            found: self.found.clone(),
            missing: self.missing.clone(),
            first_answer_ms: self.first_answer.as_secs_f64() * 1000.0,
            exits_at_eof: at_eof.map(|at_eof| matches!(at_eof, AtEof::Exits(_))),
        }
    }

    /// How long the agent must be silent, with everything answered, before a test stops waiting.
    pub fn quiet(&self) -> Duration {
        (self.first_answer / 2).clamp(QUIET, LONGEST_QUIET)
    }

    /// Takes in what one calibration file came to.
    pub(crate) fn take(&mut self, file: &Program, tried: &Tried) {
        let Some(driven) = &tried.driven else { return };
        let wishes = file.wishes();
        let took = Duration::from_secs_f64(driven.outcome.duration_ms / 1000.0);
        self.longest_turn = self.longest_turn.max(took);
        for name in file.provides() {
            if driven.outcome.provided.contains(&name) {
                // The words belong to the wish that they express, whatever else they bring about.
                let is_wish = wishes.first() == Some(&name);
                let found = Observation {
                    wording: tried.wording.clone().filter(|_| is_wish),
                    how: Some(file.title.clone()),
                    took_ms: driven.outcome.duration_ms,
                };
                self.missing.remove(&name);
                if is_wish || !self.found.contains_key(&name) {
                    self.found.insert(name, found);
                }
            } else if !self.found.contains_key(&name) {
                let is_done = wishes.first().is_some_and(|wish| driven.outcome.provided.contains(wish));
                let words =
                    refusal(file, tried, driven.outcome.reason.as_deref().filter(|_| !is_done), &name);
                self.missing.entry(name).or_insert(words);
            }
        }
    }
}

/// That the agent was asked for something and did not do it, or did it without `name`.
fn refusal(file: &Program, tried: &Tried, reason: Option<&str>, name: &str) -> String {
    let task = file.title.trim_start_matches("The agent can be brought to ");
    let times = match tried.tries {
        1 => "1 wording".to_owned(),
        tries => format!("{tries} wordings"),
    };
    match reason {
        Some(reason) => format!("the agent was asked to {task} ({times} tried) and did not: {reason}"),
        None => format!("the agent was asked to {task} ({times} tried), and \"{name}\" did not happen"),
    }
}

impl Campaign {
    /// Finds out what the agent can be brought to do, as far as the tests at hand ask for it.
    pub(crate) async fn calibrate(
        &self,
        target: &Target,
        probe: &Probed,
        pace: &Pace,
        listener: &ProgressListener,
    ) -> Calibration {
        let mut calibration = Calibration { first_answer: probe.first_answer, ..Calibration::default() };
        let files = wanted(&self.calibration, &self.programs);
        if !files.is_empty() {
            listener(&Progress::Calibrating(&target.name, files.len()));
        }
        let probe = probe.clone().with(calibration.clone());
        let tried = files.iter().map(|file| self.try_wordings(file, target, &probe, pace));
        let mut found: Vec<(usize, Tried)> =
            futures_util::stream::iter(tried).buffered(pace.jobs()).enumerate().collect().await;
        found.sort_by_key(|(place, _)| *place);
        for (place, tried) in found {
            calibration.take(&files[place], &tried);
        }
        calibration
    }

    /// Calibration alone, without any test.
    pub fn calibrate_alone<'a>(
        &'a self,
        target: &'a Target,
        listener: &'a ProgressListener,
    ) -> LocalBoxFuture<'a, Result<Calibrated, String>> {
        Box::pin(async move {
            let (probe, fault) = self.probe_alone(target).await;
            if let Some(fault) = fault {
                return Err(fault);
            }
            let pace = Pace::new(self.jobs, None);
            let calibration = self.calibrate(target, &probe, &pace, listener).await;
            Ok(calibration.record(probe.at_eof))
        })
    }

    /// Runs one calibration file, with another wording until it shows what it is about.
    async fn try_wordings(&self, file: &Arc<Program>, target: &Target, probe: &Probed, pace: &Pace) -> Tried {
        let main = file.provides().into_iter().next();
        let wishes = file.wishes();
        let mut tried = Tried { driven: None, wording: None, tries: 0 };
        while let Some(wordings) = reworded(&self.conditions.wordings, &wishes, tried.tries) {
            if *self.stop.borrow() {
                break;
            }
            let _turn = pace.turn().await;
            tried.wording = wishes.first().and_then(|wish| wordings.get(wish)?.first().cloned());
            tried.tries += 1;
            let conditions = Conditions { wordings, ..self.conditions.clone() };
            let mut stop = self.stop.clone();
            let driven = tokio::select! {
                driven = drive(file, target, &conditions, Some(probe), self.watch.as_ref()) => driven,
                Ok(_) = stop.wait_for(|stop| *stop) => break,
            };
            let is_shown = main.as_ref().is_none_or(|main| driven.outcome.provided.contains(main));
            tried.driven = Some(driven);
            if is_shown {
                break;
            }
        }
        tried
    }
}

/// What came of one calibration file.
pub(crate) struct Tried {
    /// The last attempt.
    driven: Option<Driven>,
    /// Its wording.
    wording: Option<String>,
    /// How many wordings were tried.
    tries: usize,
}

/// The calibration files that the tests at hand depend on.
pub(crate) fn wanted(files: &[Arc<Program>], tests: &[Arc<Program>]) -> Vec<Arc<Program>> {
    let needs: BTreeSet<&String> = tests.iter().flat_map(|test| &test.needs).collect();
    let is_wanted = |file: &&Arc<Program>| file.provides().iter().any(|name| needs.contains(name));
    files.iter().filter(is_wanted).cloned().collect()
}

/// The wordings with another one first, for the next try; `None` when no wish of the file has another.
pub(crate) fn reworded(wordings: &Wordings, wishes: &[String], attempt: usize) -> Option<Wordings> {
    if attempt == 0 {
        return Some(wordings.clone());
    }
    if attempt >= WORDINGS {
        return None;
    }
    let mut changed = false;
    let mut turned = wordings.clone();
    for wish in wishes {
        if let Some(list) = turned.get_mut(wish).filter(|list| list.len() > attempt) {
            list.swap(0, attempt);
            changed = true;
        }
    }
    changed.then_some(turned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_agent_gets_longer_deadlines_and_a_fast_one_the_usual() {
        let fast = Calibration { first_answer: Duration::from_millis(30), ..Calibration::default() };
        assert_eq!((fast.timeout_factor(), fast.quiet()), (1.0, QUIET));
        let slow = Calibration { first_answer: Duration::from_secs(9), ..Calibration::default() };
        assert_eq!((slow.timeout_factor(), slow.quiet()), (3.0, LONGEST_QUIET));
    }

    #[test]
    fn each_try_has_another_wording_until_there_is_none() {
        let wordings =
            Wordings::from([("read".to_owned(), vec!["a".to_owned(), "b".to_owned(), "c".to_owned()])]);
        let wishes = ["read".to_owned()];
        assert_eq!(reworded(&wordings, &wishes, 0).unwrap()["read"][0], "a");
        assert_eq!(reworded(&wordings, &wishes, 1).unwrap()["read"][0], "b");
        assert_eq!(reworded(&wordings, &wishes, 2).unwrap()["read"][0], "c");
        assert!(reworded(&wordings, &wishes, 3).is_none());
        assert!(reworded(&wordings, &["other".to_owned()], 1).is_none());
    }
}
