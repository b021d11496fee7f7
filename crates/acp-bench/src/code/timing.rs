//! Contestants that take turns, timed from outside as whole processes.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context as _;

/// One run of a contestant.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) took: Duration,
    pub(super) output: Vec<u8>,
}

/// Runs a command to its end and keeps what it wrote. `grep`-like programs end with 1 when they found nothing.
pub(super) fn run(command: &mut Command) -> anyhow::Result<Run> {
    let began = Instant::now();
    let done = command
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .output()
        .with_context(|| format!("starting {}", command.get_program().display()))?;
    let took = began.elapsed();
    let code = done.status.code();
    anyhow::ensure!(
        code == Some(0) || code == Some(1) && done.stderr.is_empty(),
        "{command:?} ended with {}: {}",
        done.status,
        String::from_utf8_lossy(&done.stderr)
    );
    Ok(Run { took, output: done.stdout })
}

/// Times of two contestants, round by round.
#[derive(Debug, Default)]
pub(super) struct Duel {
    ours: Vec<f64>,
    theirs: Vec<f64>,
}

impl Duel {
    /// Lets both run once per round, and hands over what they wrote in the first round. Who begins changes.
    pub(super) fn fight(
        rounds: usize,
        mut ours: impl FnMut() -> anyhow::Result<Run>,
        mut theirs: impl FnMut() -> anyhow::Result<Run>,
    ) -> anyhow::Result<(Self, Vec<u8>, Vec<u8>)> {
        let (mut duel, mut first) = (Self::default(), None);
        for round in 0..rounds {
            let (us, them) = if round % 2 == 0 {
                let us = ours()?;
                (us, theirs()?)
            } else {
                let them = theirs()?;
                (ours()?, them)
            };
            duel.ours.push(us.took.as_secs_f64());
            duel.theirs.push(them.took.as_secs_f64());
            first.get_or_insert((us.output, them.output));
        }
        let (ours, theirs) = first.unwrap_or_default();
        Ok((duel, ours, theirs))
    }

    pub(super) fn ours(&self) -> f64 {
        median(self.ours.clone())
    }

    pub(super) fn theirs(&self) -> f64 {
        median(self.theirs.clone())
    }

    /// Our time over theirs: the median of each round's ratio, so that a busy machine slows both.
    pub(super) fn ratio(&self) -> f64 {
        median(self.ours.iter().zip(&self.theirs).map(|(ours, theirs)| ours / theirs).collect())
    }
}

pub(super) fn median(values: Vec<f64>) -> f64 {
    crate::run::median(values).unwrap_or_default()
}

/// Seconds as milliseconds.
pub(super) fn millis(seconds: f64) -> String {
    if seconds < 0.01 { format!("{:.2}", seconds * 1e3) } else { format!("{:.0}", seconds * 1e3) }
}
