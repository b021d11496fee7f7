//! Every example frame of every form, both ways: the foreign frames of a conversation go through v1 and come out on the
//! other side. `foreign.ndjson` is the input (a line with `v1` instead of `frame` is said by a v1 peer in the middle),
//! `canonical.ndjson` the v1 frames between, `returned.ndjson` what the other foreign peer gets, `notes.txt` the notes.

mod common;

use std::fmt::Write as _;
use std::path::Path;

use acp_dialect::Dialect;
use common::{Line, golden_root, options, play, read};

fn check(dialect: Dialect) {
    acp_testkit::golden::check(golden_root().join(dialect.as_str()), |case| run(dialect, case));
}

fn run(dialect: Dialect, case: &Path) -> Vec<(String, String)> {
    let seen = play(dialect, &read(case), &options());
    let mut notes = String::new();
    for (n, side, note) in &seen.notes {
        writeln!(notes, "{n} {side}: {note}").unwrap();
    }
    vec![
        ("canonical.ndjson".to_owned(), lines(&seen.canonical)),
        ("returned.ndjson".to_owned(), lines(&seen.returned)),
        ("notes.txt".to_owned(), notes),
    ]
}

fn lines(lines: &[Line]) -> String {
    let mut text = String::new();
    for line in lines {
        writeln!(text, "{{\"n\":{},\"dir\":\"{}\",\"frame\":{}}}", line.n, line.dir.as_str(), line.frame)
            .unwrap();
    }
    text
}

#[test]
fn every_frame_of_2025_1_goes_both_ways() {
    check(Dialect::V2025_1);
}

#[test]
fn every_frame_of_probe_goes_both_ways() {
    check(Dialect::PROBE);
}

#[test]
fn every_frame_of_go_goes_both_ways() {
    check(Dialect::GO);
}

#[test]
fn every_frame_of_delta_goes_both_ways() {
    check(Dialect::DELTA);
}
