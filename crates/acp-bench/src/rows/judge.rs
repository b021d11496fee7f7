//! What it costs a client to have every frame judged while it streams.

use super::streaming::per_second;
use super::{Bar, MIXED_BLOCK, Wanted};
use crate::job::{Job, Kind, Sample};
use crate::run::{Plan, Results};
use crate::table::{self, megabytes, rate, ratio};

const UPDATES: usize = 200_000;
/// Pieces of work in one turn of the mixed conversation.
const BLOCKS: usize = 100;
/// Frames of the long session; the short one has a tenth.
const LONG: usize = 1_000_000;

pub(super) fn run(plan: &Plan) -> anyhow::Result<Vec<Bar>> {
    use Wanted::{AtLeast, AtMost};
    let chunks = pair(plan, &Job { updates: UPDATES / plan.scale, ..Job::new(Kind::Ours) })?;
    let mixed = pair(plan, &turns(UPDATES / plan.scale))?;
    let mut rows = Vec::new();
    for (name, results) in [("text chunks", &chunks), ("mixed", &mixed)] {
        for kind in results.kinds() {
            let of = |figure: fn(&Sample) -> f64| results.median(kind, figure).unwrap_or_default();
            rows.push(vec![
                format!("{name}: {}", kind.label()),
                rate(of(per_second)),
                ratio(results.ratio(kind, Kind::Ours, per_second)),
                rate(of(per_cpu_second)),
                ratio(results.ratio(kind, Kind::Ours, per_cpu_second)),
                megabytes(of(|sample| sample.client_kib as f64)),
            ]);
        }
    }
    let title = format!("Judge: {} frames from the agent", UPDATES / plan.scale);
    let header = ["", "frames/s", "kept", "frames per s of the client's processor", "kept", "client MB"];
    table::print(&title, &header, &rows);

    let once = Plan { rounds: 1, ..plan.clone() };
    let mut peaks = Vec::new();
    for frames in [LONG / 10 / plan.scale, LONG / plan.scale] {
        let job = Job { kind: Kind::OursJudged, ..turns(frames) };
        let frames = job.prompts * job.updates;
        let results = once.run(std::slice::from_ref(&job))?;
        peaks.push((frames, results.median(Kind::OursJudged, |sample| sample.client_kib as f64)));
    }
    let rows: Vec<_> = peaks
        .iter()
        .map(|(frames, kib)| vec![frames.to_string(), megabytes(kib.unwrap_or_default())])
        .collect();
    table::print("Judge: peak memory of a mixed session", &["frames", "client MB"], &rows);
    let growth = match peaks.as_slice() {
        [(_, Some(short)), (_, Some(long))] => Some(long / short),
        _ => None,
    };

    let kept =
        |results: &Results, figure: fn(&Sample) -> f64| results.ratio(Kind::OursJudged, Kind::Ours, figure);
    Ok(vec![
        Bar::new("judging text chunks, share of frames/s kept", AtLeast(0.4), kept(&chunks, per_second)),
        Bar::new("the same by the client's processor time", AtLeast(0.4), kept(&chunks, per_cpu_second)),
        Bar::new("judging a mixed session, share of frames/s kept", AtLeast(0.3), kept(&mixed, per_second)),
        Bar::new("the same by the client's processor time", AtLeast(0.3), kept(&mixed, per_cpu_second)),
        Bar::new("judge's peak memory, ten times the session over one", AtMost(1.1), growth),
    ])
}

/// The job without and with the judge.
fn pair(plan: &Plan, job: &Job) -> anyhow::Result<Results> {
    plan.run(&[job.clone(), Job { kind: Kind::OursJudged, ..job.clone() }])
}

/// A mixed session of about so many frames.
fn turns(frames: usize) -> Job {
    let updates = MIXED_BLOCK * BLOCKS;
    Job { mixed: true, updates, prompts: (frames / updates).max(1), ..Job::new(Kind::Ours) }
}

fn per_cpu_second(sample: &Sample) -> f64 {
    sample.updates as f64 / sample.client_cpu_seconds
}
