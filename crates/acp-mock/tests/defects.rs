//! Every defect of the catalogue shows.

mod desk;

use std::collections::{BTreeMap, BTreeSet};

use acp_script::defects::{Defect, catalogue};
use desk::tour::CHAPTERS;
use desk::{Desk, all_caps, config};
use serde_json::Value;

/// The agents of a chapter: what came out, and the requirements that the judge saw broken.
fn tour(
    chapter: &desk::tour::Chapter,
    defect: Option<&Defect>,
    caps: Value,
) -> (Vec<String>, BTreeSet<String>) {
    let mut config = config();
    let mut faults = Vec::new();
    if let Some(defect) = defect {
        config.switches.extend(defect.switch);
        faults.clone_from(&defect.faults);
    }
    let mut desk = Desk::new(config, &faults, caps);
    (chapter.run)(&mut desk);
    let broken = desk.finish().iter().map(|finding| finding.requirement.to_owned()).collect();
    (desk.log, broken)
}

/// Defects that only a client shows which answers wrongly, stays silent, hangs up in mid-turn, has other folders, servers and
/// capabilities than the tours, or starts the agent again; `acp comply --self-test` has such a client. A byte order mark and the end
/// of a line are no part of a frame.
const BEYOND_TOURS: [&str; 39] = [
    "aborted-read-is-an-error",
    "aborted-write-is-an-error",
    "answer-with-meta-is-no-answer",
    "answers-stray-answers",
    "broken-output-keeps-terminal",
    "byte-order-mark",
    "capabilities-of-another-client",
    "close-ends-all-servers",
    "compares-beginnings",
    "cuts-command-output",
    "dies-on-noise-in-turn",
    "dies-on-stray-answer",
    "dies-with-its-server",
    "error-is-consent",
    "error-to-permission-hangs",
    "error-to-permission-kills",
    "failed-command-completed",
    "failed-form-is-an-error",
    "failed-page-is-an-error",
    "failed-write-completed",
    "file-with-meta-is-no-file",
    "forgets-answers-at-restart",
    "http-instead-of-stdio",
    "ignores-crlf-lines",
    "ignores-cwd-filter-at-first",
    "last-folder-in-turns",
    "late-terminal-kept",
    "loaded-session-asks",
    "loaded-stays-after-delete",
    "needs-files-for-turns",
    "no-roots-on-load",
    "one-dead-server-stops-all",
    "one-yes-for-the-turn",
    "permission-for-all-sessions",
    "rejection-ignored-after-load",
    "roots-first-on-load",
    "splits-arguments",
    "survives-end-in-turn",
    "unknown-outcome-is-consent",
];

#[test]
fn a_defect_changes_what_is_seen_from_outside() {
    let mut hidden = Vec::new();
    let mut right: BTreeMap<(&str, String), Vec<String>> = BTreeMap::new();
    for defect in catalogue() {
        let caps = defect.client_capabilities.clone().unwrap_or_else(all_caps);
        let shows = CHAPTERS.iter().any(|chapter| {
            let right = right
                .entry((chapter.name, caps.to_string()))
                .or_insert_with(|| tour(chapter, None, caps.clone()).0);
            *right != tour(chapter, Some(defect), caps.clone()).0
        });
        if !shows {
            hidden.push(defect.id.as_str());
        }
    }
    assert_eq!(hidden, BEYOND_TOURS, "these defects change nothing");
}

/// Requirements about single frames, envelopes and their order: what a judge must see without any test's help.
const JUDGED: [&str; 12] = [
    "RPC-01", "RPC-03", "TRN-05", "TRN-06", "TRN-07", "INIT-03", "TC-03", "TC-04", "PERM-02", "PLAN-02",
    "FS-04", "PT-02",
];

#[test]
fn the_judge_names_the_requirement_that_a_visible_defect_breaks() {
    let mut missed = Vec::new();
    for defect in catalogue() {
        let claims = |broken: &BTreeSet<String>| defect.requirements.iter().any(|id| broken.contains(id));
        if !defect.requirements.iter().all(|id| JUDGED.contains(&id.as_str())) {
            continue;
        }
        let caps = defect.client_capabilities.clone().unwrap_or_else(all_caps);
        let named = CHAPTERS.iter().any(|chapter| claims(&tour(chapter, Some(defect), caps.clone()).1));
        // Processes and the end of input are not frames; the suite looks at those.
        let beyond =
            ["byte-order-mark", "grandchild-writes-stdout", "goodbye-line"].contains(&defect.id.as_str());
        if !named && !beyond {
            missed.push(format!("{} ({})", defect.id, defect.requirements.join(", ")));
        }
    }
    assert!(missed.is_empty(), "the judge does not name: {missed:#?}");
}

#[test]
fn the_requirements_exist() {
    for defect in catalogue() {
        for id in &defect.requirements {
            let claim = id.parse::<acp_rules::ClaimId>();
            assert!(claim.is_ok(), "{}: {:?}", defect.id, claim.err().map(|error| error.to_string()));
        }
    }
}
