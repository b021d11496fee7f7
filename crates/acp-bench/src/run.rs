//! Runs jobs in processes of their own, the contestants taking turns.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::Context as _;

use crate::job::{Job, Kind, Sample};

/// How much to run.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) rounds: usize,
    /// Loads are divided by this.
    pub(crate) scale: usize,
    pub(crate) only: String,
    pub(crate) without_sdk: bool,
    /// The `acp` program that was named.
    pub(crate) acp: Option<PathBuf>,
}

/// What came out for each contestant, in the order they were given.
#[derive(Debug)]
pub(crate) struct Results {
    samples: Vec<(Kind, Vec<Sample>)>,
}

impl Plan {
    pub(crate) fn wants(&self, group: &str) -> bool {
        group.contains(&self.only)
    }

    /// Runs one job per contestant and round, and checks that nothing was lost.
    pub(crate) fn run(&self, jobs: &[Job]) -> anyhow::Result<Results> {
        let jobs: Vec<&Job> = jobs.iter().filter(|job| !(self.without_sdk && job.kind.is_sdk())).collect();
        let mut samples: Vec<_> = jobs.iter().map(|job| (job.kind, Vec::new())).collect();
        for round in 0..self.rounds {
            for (job, (_, found)) in jobs.iter().zip(&mut samples) {
                eprint!("\r\x1b[K  round {} of {}: {}", round + 1, self.rounds, job.kind.label());
                found.push(one(job).with_context(|| format!("running {:?}", job.kind))?);
            }
        }
        eprint!("\r\x1b[K");
        Ok(Results { samples })
    }
}

impl Results {
    pub(crate) fn kinds(&self) -> impl Iterator<Item = Kind> {
        self.samples.iter().map(|(kind, _)| *kind)
    }

    /// The median of a figure over the rounds.
    pub(crate) fn median(&self, kind: Kind, figure: impl Fn(&Sample) -> f64) -> Option<f64> {
        let (_, samples) = self.samples.iter().find(|(other, _)| *other == kind)?;
        median(samples.iter().map(figure).collect())
    }

    /// The median of one contestant's figure over another's, round by round, so that a busy machine slows both.
    pub(crate) fn ratio(&self, kind: Kind, to: Kind, figure: impl Fn(&Sample) -> f64) -> Option<f64> {
        let find = |kind| self.samples.iter().find(|(other, _)| *other == kind).map(|(_, samples)| samples);
        let pairs = find(kind)?.iter().zip(find(to)?);
        median(pairs.map(|(a, b)| figure(a) / figure(b)).collect())
    }
}

pub(crate) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 {
        return values.get(middle).copied();
    }
    Some((values.get(middle.checked_sub(1)?)? + values.get(middle)?) / 2.0)
}

fn one(job: &Job) -> anyhow::Result<Sample> {
    let output = Command::new(std::env::current_exe()?)
        .args(["client", &serde_json::to_string(job)?])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()?;
    anyhow::ensure!(output.status.success(), "the client ended with {}", output.status);
    let sample: Sample = serde_json::from_slice(&output.stdout).context("reading the client's sample")?;
    let expected = job.cycles * job.prompts * job.updates;
    anyhow::ensure!(sample.updates == expected, "{} updates arrived of {expected}", sample.updates);
    Ok(sample)
}
