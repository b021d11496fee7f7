//! Every rule has a conversation that breaks it and a near miss that does not.
//!
//! `tests/rules/<rule>/breaks*.ndjson` break it, `near-miss*.ndjson` do not, and `findings.txt` has what the judge
//! says about each. `UPDATE=1 cargo test -p acp-rules` rewrites the last; read the difference before committing it.

#![expect(clippy::disallowed_methods, reason = "tests read their cases from files")]

mod common;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use acp_rules::{Finding, Grade, Judge, JudgeConfig, Side, rules};
use common::{Conversation, claim, folder, transcripts};

fn judge(path: &Path) -> Judge {
    Conversation::read(path).judge()
}

fn line(finding: &Finding) -> String {
    let mut out = format!(
        "{} {} {} {}: {}",
        finding.grade,
        finding.rule,
        claim(finding),
        finding.blame,
        finding.message
    );
    for evidence in &finding.evidence {
        write!(out, " [{} {}{}]", evidence.index, evidence.dir, evidence.pointer)
            .expect("writing to a string");
    }
    out
}

fn stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

#[test]
fn every_rule_is_broken_by_its_cases_and_not_by_its_near_misses() {
    let update = std::env::var("UPDATE").is_ok_and(|value| value == "1");
    let mut problems = Vec::new();
    for rule in rules() {
        let folder = folder("rules").join(rule.name);
        if !folder.is_dir() {
            problems.push(format!("{}: no cases", rule.name));
            continue;
        }
        let mut blamed = BTreeSet::new();
        let mut near = false;
        let mut golden = String::new();
        for path in transcripts(&folder) {
            let judge = judge(&path);
            let own: Vec<&Finding> =
                judge.findings().iter().filter(|finding| finding.rule == rule.name).collect();
            if stem(&path).starts_with("near-miss") {
                near = true;
                for finding in &own {
                    problems.push(format!("{}: {} breaks it: {}", rule.name, stem(&path), line(finding)));
                }
            } else {
                if own.is_empty() {
                    problems.push(format!("{}: {} does not break it", rule.name, stem(&path)));
                }
                blamed.extend(own.iter().map(|finding| finding.blame));
            }
            writeln!(golden, "# {}", stem(&path)).expect("writing to a string");
            for finding in judge.findings() {
                writeln!(golden, "{}", line(finding)).expect("writing to a string");
            }
        }
        if !near {
            problems.push(format!("{}: no near miss", rule.name));
        }
        for (side, ids) in [(Side::Agent, rule.agent), (Side::Client, rule.client)] {
            if !ids.is_empty() && !blamed.contains(&side) {
                problems.push(format!("{}: no case that blames the {side}", rule.name));
            }
        }
        let path = folder.join("findings.txt");
        if update {
            fs::write(&path, &golden).expect("the golden file can be written");
        } else if fs::read_to_string(&path).unwrap_or_default() != golden {
            problems
                .push(format!("{}: findings.txt differs (UPDATE=1 rewrites it); now:\n{golden}", rule.name));
        }
    }
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));
}

#[test]
fn every_folder_of_cases_belongs_to_a_rule() {
    for entry in fs::read_dir(folder("rules")).expect("the folder of cases") {
        let name = entry.expect("a folder entry").file_name().to_string_lossy().into_owned();
        assert!(rules().iter().any(|rule| rule.name == name), "{name} is not a rule");
    }
}

/// A requirement that is called passive is put to the test by some case.
#[test]
fn every_requirement_that_frames_show_is_reached_by_some_case() {
    let mut all = Judge::new(JudgeConfig::default()).coverage();
    for rule in rules() {
        for path in transcripts(&folder("rules").join(rule.name)) {
            all.merge(&judge(&path).coverage());
        }
    }
    let never: Vec<&str> =
        all.rows.iter().filter(|row| row.passive() && !row.exercised()).map(|row| row.requirement).collect();
    assert!(never.is_empty(), "rules claim to judge {never:?}, but no case reaches them");
}

/// The official example agents number their tool calls anew in every turn; docs/verdicts.md calls that true.
const KNOWN: [(&str, &str); 1] = [("typescript-sdk-", "TC-03")];

/// Real agents that keep to the protocol: no requirement that binds may be reported as broken, except what is known.
#[test]
fn recordings_of_conforming_agents_break_nothing_that_binds() {
    let paths = transcripts(&folder("recordings"));
    assert!(!paths.is_empty());
    for path in paths {
        let judge = judge(&path);
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let known = |id: &str| KNOWN.iter().any(|(agent, known)| name.starts_with(agent) && *known == id);
        let errors: Vec<String> = judge
            .findings()
            .iter()
            .filter(|finding| finding.grade == Grade::Fail && !known(finding.requirement))
            .map(line)
            .collect();
        assert!(errors.is_empty(), "{}:\n{}", path.display(), errors.join("\n"));
        assert!(judge.frames() > 5, "{}", path.display());
    }
}
