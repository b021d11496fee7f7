//! `acp mock` beside the bench's own agent and the official SDK's, all with our client.

use std::path::PathBuf;

use super::streaming::per_second;
use super::{Bar, Wanted};
use crate::job::{Job, Kind, Sample};
use crate::run::Plan;
use crate::table::{self, megabytes, rate, ratio};

const UPDATES: usize = 200_000;
const CYCLES: usize = 100;
/// Bytes of a line; the mock's lines are longer than others, so that 200 would leave no room for text.
const SIZE: usize = 250;

pub(super) fn run(plan: &Plan) -> anyhow::Result<Vec<Bar>> {
    let acp = match program(plan) {
        Ok(acp) => acp,
        Err(missing) => {
            println!("\n### Mock: not run\n\n{missing}");
            return Ok(vec![Bar::new(STREAMING, Wanted::AtLeast(0.9), None)]);
        }
    };
    let job = |kind| Job { size: SIZE, acp: Some(acp.clone()), ..Job::new(kind) };
    let kinds = [Kind::Ours, Kind::Mock, Kind::SdkAgent];
    let updates = UPDATES / plan.scale;
    let jobs: Vec<_> = kinds.iter().map(|&kind| Job { updates, ..job(kind) }).collect();
    let streamed = plan.run(&jobs)?;
    let rows: Vec<_> = streamed
        .kinds()
        .map(|kind| {
            let of = |figure: fn(&Sample) -> f64| streamed.median(kind, figure).unwrap_or_default();
            vec![
                label(kind).into(),
                rate(of(per_second)),
                ratio(streamed.ratio(kind, Kind::Ours, per_second)),
                ratio(streamed.ratio(kind, Kind::SdkAgent, per_second)),
                megabytes(of(|sample| sample.agent_kib as f64)),
            ]
        })
        .collect();
    let title = format!("Mock, streaming: {updates} updates of {SIZE} bytes");
    table::print(&title, &["", "messages/s", "× plain", "× SDK", "agent MB"], &rows);

    let cycles = (CYCLES / plan.scale).max(1);
    // The mock has at least one chunk, so all have one.
    let jobs: Vec<_> = kinds.iter().map(|&kind| Job { cycles, updates: 1, ..job(kind) }).collect();
    let started = plan.run(&jobs)?;
    let first = |sample: &Sample| sample.first_answer_seconds;
    let rows: Vec<_> = started
        .kinds()
        .map(|kind| {
            let millis = started.median(kind, first).unwrap_or_default() * 1e3;
            let idle = started.median(kind, |sample| sample.agent_idle_kib as f64).unwrap_or_default();
            vec![
                label(kind).into(),
                format!("{millis:.2}"),
                ratio(started.ratio(kind, Kind::SdkAgent, first)),
                megabytes(idle),
            ]
        })
        .collect();
    let title = format!("Mock, start to the answer to initialize: median of {cycles}");
    table::print(&title, &["", "ms", "× SDK", "idle MB"], &rows);

    let found = streamed.ratio(Kind::Mock, Kind::Ours, per_second);
    Ok(vec![Bar::new(STREAMING, Wanted::AtLeast(0.9), found)])
}

const STREAMING: &str = "mock's streaming, times the plain one's";

fn label(kind: Kind) -> &'static str {
    match kind {
        Kind::Ours => "the benchmark's own agent",
        Kind::SdkAgent => "official SDK's agent",
        other => other.label(),
    }
}

/// The `acp` program: the one that was named, or the one beside this program.
pub(super) fn program(plan: &Plan) -> Result<PathBuf, String> {
    if let Some(named) = &plan.acp {
        return match named.is_file() {
            true => Ok(named.clone()),
            false => Err(format!("There is no program at {}; name another with --acp.", named.display())),
        };
    }
    let beside = std::env::current_exe().map(|exe| exe.with_file_name("acp"));
    match beside {
        Ok(beside) if beside.is_file() => Ok(beside),
        _ => Err(
            "The `acp` program is not beside this one; name it with --acp PATH or ACP_BENCH_ACP, or build \
                  it with `cargo build --profile bench -p acp-workbench`."
                .to_owned(),
        ),
    }
}
