//! Every defect shows on the tour, and no two mistakes are one: `effects.txt` has the first thing that the agent sees of
//! each. The conforming client and the legal ones give the judge nothing to find.

#![expect(clippy::needless_pass_by_value, reason = "frames of a test are written where they are used")]

mod agent;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use acp_client_mock::ClientNature;
use acp_script::{client_defects, client_variants};
use agent::tour::{CHAPTERS, Seen};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// So many chapters at once: they mostly wait.
const AT_ONCE: usize = 96;

/// What each of these clients showed in each chapter.
async fn tours(natures: Vec<(String, ClientNature)>) -> BTreeMap<(String, usize), Seen> {
    let (room, mut tasks) = (Arc::new(Semaphore::new(AT_ONCE)), JoinSet::new());
    for (name, nature) in natures {
        for (number, chapter) in CHAPTERS.iter().enumerate() {
            if name == "slow-answers" && ["files", "terminals"].contains(&chapter.name) {
                continue; // dozens of answers, each of which takes seconds
            }
            let (name, nature, room) = (name.clone(), nature.clone(), Arc::clone(&room));
            tasks.spawn(async move {
                let _place = room.acquire_owned().await.expect("a place");
                ((name, number), (chapter.run)(nature).await)
            });
        }
    }
    tasks.join_all().await.into_iter().collect()
}

fn conforming() -> (String, ClientNature) {
    (String::new(), ClientNature::default())
}

/// The first difference between two records: both lines, from a little before they differ.
fn first_difference(usual: &[String], other: &[String]) -> Option<(String, String)> {
    const BEFORE: usize = 60;
    let at = (0..usual.len().max(other.len())).find(|at| usual.get(*at) != other.get(*at))?;
    let [usual, other] = [usual, other].map(|record| record.get(at).map_or("(nothing)", String::as_str));
    let same = usual.chars().zip(other.chars()).take_while(|(usual, other)| usual == other).count();
    let skipped = same.saturating_sub(BEFORE);
    let shown = |line: &str| {
        let start = if skipped > 0 { "…" } else { "" };
        format!("{start}{}", line.chars().skip(skipped).take(200).collect::<String>())
    };
    Some((shown(usual), shown(other)))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_defect_shows() {
    let mut natures = vec![conforming()];
    natures.extend(
        client_defects::catalogue()
            .iter()
            .map(|defect| (defect.id.clone(), ClientNature::default().with(defect))),
    );
    let seen = tours(natures).await;
    let (mut table, mut hidden) = (String::new(), Vec::new());
    for defect in client_defects::catalogue() {
        let shown = CHAPTERS.iter().enumerate().find_map(|(number, chapter)| {
            let (usual, other) = (&seen[&(String::new(), number)].0, &seen[&(defect.id.clone(), number)].0);
            Some((chapter.name, first_difference(usual, other)?))
        });
        match shown {
            Some((chapter, (usual, other))) => {
                let _ = writeln!(table, "{} ({chapter})\n  usual  {usual}\n  defect {other}", defect.id);
            }
            None => hidden.push(defect.id.as_str()),
        }
    }
    assert!(hidden.is_empty(), "nothing on the tour shows {hidden:?}");
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/effects.txt");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(path, &table).expect("effects.txt");
    }
    let known = std::fs::read_to_string(path).unwrap_or_default();
    let news: Vec<&str> = table.lines().filter(|line| !known.lines().any(|it| it == *line)).collect();
    assert!(table == known, "not as in effects.txt (UPDATE=1 writes it anew):\n{}", news.join("\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn legal_clients_give_no_finding_and_each_differs() {
    let mut natures = vec![conforming()];
    for variant in client_variants::catalogue() {
        natures.push((variant.id.clone(), ClientNature::variants([variant]).expect("habits")));
    }
    let seen = tours(natures).await;
    let mut wrong = String::new();
    for ((name, number), (trace, findings)) in &seen {
        for finding in findings.iter().filter(|finding| finding.contains(" Client: ")) {
            let _ = writeln!(
                wrong,
                "{name:?} in {}: {finding}\n  {}",
                CHAPTERS[*number].name,
                trace.join("\n  ")
            );
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    // These are about what the person at the client does, not about what it says.
    let again = tours(vec![conforming()]).await;
    for (place, (trace, _)) in &again {
        let difference = first_difference(&seen[place].0, trace);
        assert_eq!(
            difference, None,
            "the conforming client differs from itself in {}",
            CHAPTERS[place.1].name
        );
    }
    let quiet = ["allows-always-by-policy", "few-buttons", "never-prompts"];
    let hidden = |variant: &&client_variants::ClientVariant| {
        (0..CHAPTERS.len()).all(|number| {
            let usual = &seen[&(String::new(), number)].0;
            let own = seen.get(&(variant.id.clone(), number));
            own.is_none_or(|(trace, _)| first_difference(usual, trace).is_none())
        })
    };
    let hidden: Vec<&str> =
        client_variants::catalogue().iter().filter(hidden).map(|variant| variant.id.as_str()).collect();
    assert_eq!(hidden, quiet, "left: what the tour does not show");
}

#[test]
fn the_requirements_exist() {
    for defect in client_defects::catalogue() {
        for id in &defect.requirements {
            let claim = id.parse::<acp_rules::ClaimId>();
            assert!(claim.is_ok(), "{}: {:?}", defect.id, claim.err().map(|error| error.to_string()));
        }
    }
}
