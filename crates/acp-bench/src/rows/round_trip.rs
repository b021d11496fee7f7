//! One prompt after another, each answered at once; both ends on one core, because otherwise the scheduler decides.

use super::{Bar, Wanted};
use crate::job::{Job, Kind, Sample};
use crate::run::Plan;
use crate::table::{self, ratio};

const PROMPTS: usize = 20_000;

pub(super) fn run(plan: &Plan) -> anyhow::Result<Vec<Bar>> {
    let kinds = [Kind::Bare, Kind::BareAsync, Kind::Ours, Kind::OursTyped, Kind::Sdk, Kind::SdkDocumented];
    let prompts = PROMPTS / plan.scale;
    let jobs: Vec<_> = kinds.iter().map(|&kind| Job { prompts, pinned: true, ..Job::new(kind) }).collect();
    let results = plan.run(&jobs)?;
    let figure = |sample: &Sample| sample.prompt_seconds;
    let rows: Vec<_> = results
        .kinds()
        .map(|kind| {
            let micros = results.median(kind, figure).unwrap_or_default() * 1e6;
            vec![
                kind.label().into(),
                format!("{micros:.1}"),
                ratio(results.ratio(kind, Kind::Bare, figure)),
                ratio(results.ratio(kind, Kind::BareAsync, figure)),
            ]
        })
        .collect();
    table::print(
        &format!("Round trip: median of {prompts} on one core"),
        &["", "µs", "× bare", "× async bare"],
        &rows,
    );
    let found = results.ratio(Kind::Ours, Kind::Bare, figure);
    Ok(vec![Bar::new("round trip, times the bare pipe's", Wanted::AtMost(1.7), found)])
}
