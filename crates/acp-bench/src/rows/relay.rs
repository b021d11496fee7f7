//! A client on a socket, an agent on pipes, and something in between.

use super::streaming::{per_second, stream};
use super::{Bar, Wanted};
use crate::job::{Job, Kind, Over, Sample};
use crate::run::Plan;
use crate::table::{self, megabytes, rate, ratio};

const UPDATES: usize = 200_000;
const PROMPTS: usize = 10_000;
const SLOW: usize = 10_000;

pub(super) fn run(plan: &Plan) -> anyhow::Result<Vec<Bar>> {
    use Wanted::{AtLeast, AtMost};
    let between = [Kind::RelayPump, Kind::Relay, Kind::RelayTranslated];
    let streamed = stream(plan, &between, Over::Pipes, UPDATES, 200)?;
    let rows: Vec<_> = streamed
        .kinds()
        .map(|kind| {
            let of = |figure: fn(&Sample) -> f64| streamed.median(kind, figure).unwrap_or_default();
            vec![
                kind.label().into(),
                rate(of(per_second)),
                ratio(streamed.ratio(kind, Kind::RelayPump, per_second)),
                megabytes(of(|sample| sample.agent_kib as f64)),
            ]
        })
        .collect();
    let title = format!("Relay, streaming: {} updates of 200 bytes", UPDATES / plan.scale);
    table::print(&title, &["", "messages/s", "× pump", "relay MB"], &rows);

    let all = [Kind::RelayNone, Kind::RelayPump, Kind::Relay, Kind::RelayTranslated];
    let prompts = PROMPTS / plan.scale;
    let jobs: Vec<_> = all.iter().map(|&kind| Job { prompts, pinned: true, ..Job::new(kind) }).collect();
    let turned = plan.run(&jobs)?;
    let micros = |kind| turned.median(kind, |sample| sample.prompt_seconds * 1e6).unwrap_or_default();
    let added = |kind| micros(kind) - micros(Kind::RelayNone);
    let rows: Vec<_> = turned
        .kinds()
        .map(|kind| {
            let added = format!("{:.1}", added(kind));
            vec![kind.label().into(), format!("{:.1}", micros(kind)), added]
        })
        .collect();
    let title = format!("Relay, round trip: median of {prompts} on one core");
    table::print(&title, &["", "µs", "added µs"], &rows);

    let updates = SLOW / plan.scale;
    let kinds = [Kind::Relay, Kind::RelayTranslated];
    let jobs: Vec<_> =
        kinds.iter().map(|&kind| Job { updates, size: 1000, rest_after: 50, ..Job::new(kind) }).collect();
    let slow = Plan { rounds: 1, ..plan.clone() }.run(&jobs)?;
    let memory = slow.median(Kind::Relay, |sample| sample.agent_kib as f64 * 1024.0 / 1e6);

    Ok(vec![
        Bar::new(
            "identity relay, times a byte pump's messages/s",
            AtLeast(0.6),
            streamed.ratio(Kind::Relay, Kind::RelayPump, per_second),
        ),
        Bar::new(
            "translating relay, times the identity relay's messages/s",
            AtLeast(0.4),
            streamed.ratio(Kind::RelayTranslated, Kind::Relay, per_second),
        ),
        Bar::new(
            "identity relay's added round trip, times the byte pump's",
            AtMost(2.0),
            (added(Kind::RelayPump) > 0.0).then(|| added(Kind::Relay) / added(Kind::RelayPump)),
        ),
        Bar::new("peak memory of the relay with a slow client, MB", AtMost(8.0), memory),
    ])
}
