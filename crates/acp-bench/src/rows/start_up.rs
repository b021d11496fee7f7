//! A whole life: start the agent, initialize, session/new, one prompt, end.

use super::{Bar, Wanted};
use crate::job::{Job, Kind, Sample};
use crate::run::Plan;
use crate::table::{self, ratio};

const CYCLES: usize = 200;

pub(super) fn run(plan: &Plan) -> anyhow::Result<Vec<Bar>> {
    let kinds = [Kind::Bare, Kind::Ours, Kind::OursSupervised, Kind::Sdk, Kind::SdkDocumented];
    let cycles = CYCLES / plan.scale;
    let jobs: Vec<_> = kinds.iter().map(|&kind| Job { cycles, ..Job::new(kind) }).collect();
    let results = plan.run(&jobs)?;
    let figure = |sample: &Sample| sample.cycle_seconds;
    let rows: Vec<_> = results
        .kinds()
        .map(|kind| {
            let millis = results.median(kind, figure).unwrap_or_default() * 1e3;
            vec![kind.label().into(), format!("{millis:.2}"), ratio(results.ratio(kind, Kind::Bare, figure))]
        })
        .collect();
    table::print(&format!("Start-up cycle: median of {cycles}"), &["", "ms", "× bare"], &rows);
    let found = results.ratio(Kind::Ours, Kind::Bare, figure);
    Ok(vec![Bar::new("start-up cycle, times the bare one", Wanted::AtMost(1.3), found)])
}
