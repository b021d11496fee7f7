//! A client that reads slower than the agent writes: nothing is lost, and nothing grows.

use super::{Bar, Wanted};
use crate::job::{Job, Kind, Sample};
use crate::run::Plan;
use crate::table::{self, megabytes};

const UPDATES: usize = 50_000;

pub(super) fn run(plan: &Plan) -> anyhow::Result<Vec<Bar>> {
    let updates = UPDATES / plan.scale;
    let kinds = [Kind::Ours, Kind::Sdk, Kind::SdkDocumented];
    let jobs: Vec<_> = kinds.iter().map(|&kind| Job { updates, rest_after: 50, ..Job::new(kind) }).collect();
    let results = Plan { rounds: 1, ..plan.clone() }.run(&jobs)?;
    let of = |kind, figure: fn(&Sample) -> f64| results.median(kind, figure).unwrap_or_default();
    let rows: Vec<_> = results
        .kinds()
        .map(|kind| {
            vec![
                kind.label().into(),
                format!("{:.0}", of(kind, |sample| sample.updates as f64)),
                megabytes(of(kind, |sample| sample.client_kib as f64)),
                megabytes(of(kind, |sample| sample.agent_kib as f64)),
            ]
        })
        .collect();
    let title = format!("Slow reader: {updates} updates, a rest of 1 ms after every 50");
    table::print(&title, &["", "arrived", "client MB", "agent MB"], &rows);
    let most = |sample: &Sample| sample.client_kib.max(sample.agent_kib) as f64 * 1024.0 / 1e6;
    let found = results.median(Kind::Ours, most);
    Ok(vec![Bar::new("peak memory with a slow reader, MB", Wanted::AtMost(8.0), found)])
}
