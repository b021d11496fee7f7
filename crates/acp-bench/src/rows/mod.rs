//! The table, one file per group of rows. A new group is a file with a `run` and a line in [`all`].

mod judge;
mod large;
mod mock;
mod nats;
mod proxy;
mod relay;
mod round_trip;
mod sessions;
mod slow_reader;
mod start_up;
mod streaming;

use crate::run::Plan;
use crate::table;

/// How many frames the agent sends in one piece of work of a mixed conversation.
pub(crate) const MIXED_BLOCK: usize = 17;

/// A figure that we promise, and what came out.
#[derive(Debug)]
pub(crate) struct Bar {
    what: &'static str,
    wanted: Wanted,
    found: Option<f64>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Wanted {
    AtLeast(f64),
    AtMost(f64),
}

impl Bar {
    pub(crate) fn new(what: &'static str, wanted: Wanted, found: Option<f64>) -> Self {
        Self { what, wanted, found }
    }

    fn row(&self) -> Vec<String> {
        let (wanted, met) = match self.wanted {
            Wanted::AtLeast(bar) => (format!("at least {bar}"), self.found.map(|found| found >= bar)),
            Wanted::AtMost(bar) => (format!("at most {bar}"), self.found.map(|found| found <= bar)),
        };
        let verdict = match met {
            Some(true) => "met",
            Some(false) => "MISSED",
            None => "not run",
        };
        vec![self.what.into(), wanted, table::ratio(self.found), verdict.into()]
    }
}

/// Measures, prints its rows, and says which bars it has figures for.
type Group = fn(&Plan) -> anyhow::Result<Vec<Bar>>;

/// Runs every group that is wanted and prints the table.
pub(crate) fn all(plan: &Plan) -> anyhow::Result<()> {
    let groups: [(&str, Group); 12] = [
        ("streaming over pipes", streaming::pipes),
        ("streaming over tcp", streaming::tcp),
        ("round trip", round_trip::run),
        ("start-up", start_up::run),
        ("large lines", large::run),
        ("slow reader", slow_reader::run),
        ("relay", relay::run),
        ("proxy", proxy::run),
        ("nats", nats::run),
        ("judge", judge::run),
        ("mock", mock::run),
        ("sessions", sessions::run),
    ];
    let known = groups.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    anyhow::ensure!(
        groups.iter().any(|(name, _)| plan.wants(name)),
        "no such group of rows; there are: {known}"
    );
    let mut bars = Vec::new();
    for (name, run) in groups {
        if plan.wants(name) {
            bars.extend(run(plan)?);
        }
    }
    print_bars("What we promise", &bars);
    Ok(())
}

/// Prints what is promised beside what came out.
pub(crate) fn print_bars(title: &str, bars: &[Bar]) {
    let rows: Vec<_> = bars.iter().map(Bar::row).collect();
    if !rows.is_empty() {
        table::print(title, &["bar", "wanted", "measured", "verdict"], &rows);
    }
}
