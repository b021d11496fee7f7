//! Many small updates from one process to another.

use super::{Bar, Wanted};
use crate::job::{Job, Kind, Over, Sample};
use crate::run::{Plan, Results};
use crate::table::{self, megabytes, rate, ratio};

const UPDATES: usize = 200_000;

pub(super) fn pipes(plan: &Plan) -> anyhow::Result<Vec<Bar>> {
    let kinds = [
        Kind::BareBuffered,
        Kind::Bare,
        Kind::Ours,
        Kind::OursTapped,
        Kind::OursTyped,
        Kind::Sdk,
        Kind::SdkDocumented,
    ];
    let results = stream(plan, &kinds, Over::Pipes, UPDATES, 200)?;
    show(&format!("Streaming over pipes: {} updates of 200 bytes", UPDATES / plan.scale), &results);
    let to = |kind, other| results.ratio(kind, other, per_second);
    let memory =
        |figure: fn(&Sample) -> f64| results.median(Kind::Ours, figure).map(|kib| kib * 1024.0 / 1e6);
    use Wanted::{AtLeast, AtMost};
    Ok(vec![
        Bar::new("streaming, times the SDK at its best", AtLeast(6.0), to(Kind::Ours, Kind::Sdk)),
        Bar::new(
            "streaming, times the SDK as documented",
            AtLeast(30.0),
            to(Kind::Ours, Kind::SdkDocumented),
        ),
        Bar::new(
            "streaming, times a bare pipe flushed per message",
            AtLeast(0.45),
            to(Kind::Ours, Kind::Bare),
        ),
        Bar::new("the same with the tap on", AtLeast(0.35), to(Kind::OursTapped, Kind::Bare)),
        Bar::new(
            "peak memory of our client while streaming, MB",
            AtMost(8.0),
            memory(|s| s.client_kib as f64),
        ),
        Bar::new("peak memory of our agent while streaming, MB", AtMost(8.0), memory(|s| s.agent_kib as f64)),
    ])
}

pub(super) fn tcp(plan: &Plan) -> anyhow::Result<Vec<Bar>> {
    let kinds = [Kind::BareBuffered, Kind::Bare, Kind::Ours, Kind::Sdk];
    let results = stream(plan, &kinds, Over::Tcp(0), UPDATES, 200)?;
    show(&format!("Streaming over TCP: {} updates of 200 bytes", UPDATES / plan.scale), &results);
    Ok(Vec::new())
}

/// Runs one streaming job per contestant.
pub(super) fn stream(
    plan: &Plan,
    kinds: &[Kind],
    over: Over,
    updates: usize,
    size: usize,
) -> anyhow::Result<Results> {
    let updates = updates / plan.scale;
    let jobs: Vec<_> = kinds.iter().map(|&kind| Job { over, updates, size, ..Job::new(kind) }).collect();
    plan.run(&jobs)
}

pub(super) fn per_second(sample: &Sample) -> f64 {
    sample.updates as f64 / sample.seconds
}

fn show(title: &str, results: &Results) {
    let rows: Vec<_> = results
        .kinds()
        .map(|kind| {
            let of = |figure: fn(&Sample) -> f64| results.median(kind, figure).unwrap_or_default();
            vec![
                kind.label().into(),
                rate(of(per_second)),
                ratio(results.ratio(kind, Kind::Bare, per_second)),
                ratio(results.ratio(kind, Kind::Sdk, per_second)),
                megabytes(of(|sample| sample.client_kib as f64)),
                megabytes(of(|sample| sample.agent_kib as f64)),
            ]
        })
        .collect();
    let header = ["", "messages/s", "× bare", "× SDK", "client MB", "agent MB"];
    table::print(title, &header, &rows);
}
