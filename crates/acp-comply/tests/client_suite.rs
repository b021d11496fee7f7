//! The tests of clients in the box: each can be read, what one needs another provides, and each claims what it shows.

use acp_comply::program::{ClientStep, Step, StepKind};
use acp_comply::{Defaults, Program};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "jsont") {
            found.push(path);
        }
    }
}

fn suite() -> Vec<Program> {
    let mut found = Vec::new();
    files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../suites/client"), &mut found);
    found.sort();
    let read = |path: &PathBuf| {
        let text = std::fs::read_to_string(path).unwrap();
        let name = path.file_name().unwrap().to_string_lossy();
        let reading = Program::read(&name, &text, &Defaults::default());
        assert!(reading.diagnostics.is_empty(), "{}: {:#?}", path.display(), reading.diagnostics);
        reading.program.unwrap()
    };
    found.iter().map(read).collect()
}

/// Everything that steps and messages of a test can make known.
fn provided(steps: &[Step], names: &mut BTreeSet<String>) {
    for step in steps {
        names.extend(step.marks.provides.iter().cloned());
        match &step.kind {
            StepKind::Repeat { steps, .. } => provided(steps, names),
            StepKind::Expect(expect) => {
                for message in &expect.messages {
                    names.extend(message.marks.provides.iter().cloned());
                    names.extend(message.alternatives.iter().flat_map(|one| one.provides.iter().cloned()));
                }
            }
            _ => {}
        }
    }
}

#[test]
fn every_test_of_a_client_can_be_read_and_has_an_id_of_its_own() {
    let programs = suite();
    let ids: BTreeSet<&str> = programs.iter().map(|program| program.id.as_str()).collect();
    assert_eq!(ids.len(), programs.len());
    for program in &programs {
        assert!(program.client.is_some(), "{}: \"side\": \"client\" is missing", program.id);
        let of_client = program.requirements.iter().all(|id| id.starts_with("C-"));
        assert!(of_client, "{}: {:?}", program.id, program.requirements);
    }
}

#[test]
fn what_a_test_needs_another_provides() {
    let programs = suite();
    let mut names = BTreeSet::new();
    for program in &programs {
        provided(&program.steps, &mut names);
    }
    for program in &programs {
        for need in &program.needs {
            assert!(names.contains(need), "{} needs {need:?}, which no test provides", program.id);
        }
    }
}

/// A client whose button does nothing must not pass: to forbid a request of a verb, one has to know that the verb works.
#[test]
fn a_verb_whose_request_must_not_come_is_known_to_work() {
    for program in suite() {
        let waits_for_the_end = program.steps.iter().any(|step| match &step.kind {
            StepKind::Client(client) => {
                matches!(
                    client.as_ref(),
                    ClientStep::Drive { wait: acp_comply::program::DriveWait::Done, .. }
                )
            }
            _ => false,
        });
        let has_witness = program.steps.iter().any(|step| !step.marks.witness.is_empty());
        assert!(!waits_for_the_end || has_witness || !program.needs.is_empty(), "{}", program.id);
    }
}
