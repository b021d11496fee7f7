//! Lines of 64 KiB.

use super::Bar;
use super::streaming::{per_second, stream};
use crate::job::{Kind, Over};
use crate::run::Plan;
use crate::table::{self, megabytes, ratio};

const UPDATES: usize = 4000;
const SIZE: usize = 64 * 1024;

pub(super) fn run(plan: &Plan) -> anyhow::Result<Vec<Bar>> {
    let kinds = [Kind::Bare, Kind::Ours, Kind::OursTapped, Kind::Sdk, Kind::SdkDocumented];
    let results = stream(plan, &kinds, Over::Pipes, UPDATES, SIZE)?;
    let rows: Vec<_> = results
        .kinds()
        .map(|kind| {
            let bytes = results.median(kind, |sample| per_second(sample) * SIZE as f64).unwrap_or_default();
            vec![
                kind.label().into(),
                format!("{:.0}", bytes / 1e6),
                ratio(results.ratio(kind, Kind::Bare, per_second)),
                megabytes(results.median(kind, |sample| sample.client_kib as f64).unwrap_or_default()),
                megabytes(results.median(kind, |sample| sample.agent_kib as f64).unwrap_or_default()),
            ]
        })
        .collect();
    let title = format!("Large lines: {} updates of 64 KiB", UPDATES / plan.scale);
    table::print(&title, &["", "MB/s", "× bare", "client MB", "agent MB"], &rows);
    Ok(Vec::new())
}
