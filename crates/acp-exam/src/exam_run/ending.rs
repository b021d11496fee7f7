//! The end of a test: the client ends, the judge speaks, and what frames do not show is added.

use std::collections::BTreeSet;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;

use acp_campaign::Driven;
use acp_campaign::cell::Snapshot;
use acp_comply::{FindingRef, Side, TestOutcome, Verdict};

use super::ExamRun;
use crate::wire::{LaunchWire, against};

/// How many breaches of our own are told.
const TOLD: usize = 3;

impl ExamRun<'_> {
    /// Ends the client and says what the test came to.
    pub async fn conclude(mut self, mut outcome: TestOutcome, before: &Snapshot) -> Driven {
        let left = self.end_client().await;
        let mut exercised = BTreeSet::new();
        for wire in self.launches.values_mut() {
            exercised.extend(wire.close());
        }
        let found: Vec<FindingRef> = self.launches.values().flat_map(LaunchWire::findings).collect();
        let (theirs, ours): (Vec<_>, Vec<_>) = found.into_iter().partition(against(Side::Client));
        let others = outcome.judge(theirs, &exercised);
        self.add_notes(&mut outcome, &left, &ours, before);
        self.keep_transcripts();
        Driven {
            others,
            exercised,
            introduction: self.run.introduction().cloned(),
            first_answer: self.first_line,
            outcome,
            ..Driven::fault(self.program, String::new())
        }
    }

    /// Goes on listening while the client ends, so that nothing that it still says is lost or holds it up.
    async fn end_client(&mut self) -> Vec<String> {
        let (hands, events, launches) = (&mut self.hands, &mut self.events, &mut self.launches);
        let listen = async {
            while let Some(event) = events.recv().await {
                take_late(launches, event);
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            left = hands.end() => left,
            () = listen => Vec::new(),
        }
    }

    fn add_notes(&self, outcome: &mut TestOutcome, left: &[String], ours: &[FindingRef], before: &Snapshot) {
        if !left.is_empty() {
            outcome
                .notes
                .push(format!("still there after the client's limit, and killed: {}", left.join(", ")));
        }
        if matches!(outcome.verdict, Verdict::Fail | Verdict::Warn) {
            let mut said = BTreeSet::new();
            let first = ours.iter().filter(|finding| said.insert(&finding.rule)).take(TOLD);
            outcome.notes.extend(first.map(|finding| {
                format!("the agent of this test broke {} itself: {}", finding.requirement, finding.message)
            }));
        }
        let folder = self.place.outside.strip_prefix(self.place.cell.root()).unwrap_or(&self.place.outside);
        let changed = self.place.cell.outside().changes_since(before).into_iter();
        let strays: Vec<String> =
            changed.filter(|path| path.starts_with(folder)).map(|path| path.display().to_string()).collect();
        if !strays.is_empty() {
            outcome.notes.push(format!("written outside the workspace: {}", strays.join(", ")));
        }
        let words = self.hands.last_words();
        if self.launches.is_empty() && !words.is_empty() {
            outcome.notes.push(format!("the client said: {words}"));
        }
        if self.place.cell.is_kept() {
            outcome.notes.push(format!("kept in {}", self.place.cell.root().display()));
        }
    }

    /// The frames of each launch, whole, where the folders are kept.
    fn keep_transcripts(&mut self) {
        for (launch, wire) in &mut self.launches {
            let Some(transcript) = wire.take_transcript() else { continue };
            let path = self.place.cell.root().join(format!("launch-{launch}.ndjson"));
            let file =
                std::fs::File::options().write(true).create(true).truncate(true).mode(0o600).open(path);
            let _ = file.and_then(|mut file| file.write_all(&transcript));
        }
    }
}

/// Shows the judge what comes after the last step.
fn take_late(
    launches: &mut std::collections::BTreeMap<u32, LaunchWire>,
    event: crate::launches::LaunchEvent,
) {
    use crate::launches::LaunchEvent;
    match event {
        LaunchEvent::Input { launch, bytes } => {
            let _ = launches.get_mut(&launch).map(|wire| wire.hears(&bytes));
        }
        LaunchEvent::InputEnded { launch } => {
            let _ = launches.get_mut(&launch).map(LaunchWire::input_ended);
        }
        LaunchEvent::Gone { launch } => {
            let _ = launches.get_mut(&launch).map(LaunchWire::vanished);
        }
        LaunchEvent::Began { .. } | LaunchEvent::Signal { .. } | LaunchEvent::ErrorsTaken { .. } => {}
    }
}
