//! The relevance questions keep their rules: see `acp-code/relevance/README.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use serde::Deserialize;
use sha2::{Digest as _, Sha256};

/// Word parts that say nothing about the target.
const GENERAL: [&str; 5] = ["file", "path", "from", "into", "with"];

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Question {
    id: String,
    package: String,
    question: String,
    answers: Vec<Answer>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer {
    file: String,
    symbol: String,
    lines: [usize; 2],
}

#[derive(Debug, Deserialize)]
struct Package {
    name: String,
    version: String,
    registry: String,
}

fn read<T: serde::de::DeserializeOwned>(name: &str) -> T {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../acp-code/relevance").join(name);
    let text = std::fs::read_to_string(path).expect("the questions are there");
    serde_json::from_str(&text).expect("the questions are JSON of this shape")
}

fn halves() -> [Vec<Question>; 2] {
    [read("questions-tune.json"), read("questions-holdout.json")]
}

fn unseen() -> Vec<Question> {
    read("questions-unseen.json")
}

/// `parse_HTTPHeaders2` has the parts parse, http, headers and 2.
fn parts(identifier: &str) -> Vec<String> {
    let letters: Vec<char> = identifier.chars().collect();
    let mut found: Vec<String> = vec![String::new()];
    for (index, &letter) in letters.iter().enumerate() {
        let before = index.checked_sub(1).and_then(|index| letters.get(index));
        let after = letters.get(index + 1);
        let hump = letter.is_uppercase()
            && before.is_some_and(|before| {
                !before.is_uppercase() || after.is_some_and(|after| after.is_lowercase())
            });
        let turn = before.is_some_and(|before| before.is_numeric() != letter.is_numeric());
        if !letter.is_alphanumeric() || hump || turn {
            found.push(String::new());
        }
        if letter.is_alphanumeric() {
            found.last_mut().expect("there is always one").extend(letter.to_lowercase());
        }
    }
    found.retain(|part| !part.is_empty());
    found
}

/// Why the question gives its target away.
fn betrayal(question: &str, symbol: &str) -> Option<String> {
    let words: Vec<String> = question
        .to_lowercase()
        .split(|letter: char| !letter.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect();
    let own = symbol.rsplit('.').next().unwrap_or(symbol);
    for identifier in symbol.split('.') {
        let whole = parts(identifier).concat();
        let run = |length: usize| words.windows(length).any(|window| window.concat() == whole);
        // The type's name may come apart into everyday words; the target's own name may not.
        let longest = if identifier == own { parts(identifier).len() } else { 1 };
        if whole.len() >= 4 && (1..=longest).any(run) {
            return Some(format!("the identifier {identifier}"));
        }
    }
    let telling = |part: &String| part.len() >= 4 && !GENERAL.contains(&part.as_str());
    let part = parts(own).into_iter().filter(telling).find(|part| words.contains(part))?;
    Some(format!("the part {part:?} of {own}"))
}

fn hash(id: &str) -> String {
    Sha256::digest(id.as_bytes()).iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("writing to a string");
        text
    })
}

#[test]
fn no_question_names_what_it_asks_for() {
    let mut found = Vec::new();
    for question in halves().into_iter().flatten().chain(unseen()) {
        for answer in &question.answers {
            if let Some(why) = betrayal(&question.question, &answer.symbol) {
                found.push(format!("{}: {why}: {}", question.id, question.question));
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn a_question_that_names_its_target_is_noticed() {
    let betrayed = |question, symbol| betrayal(question, symbol).is_some();
    assert!(betrayed("where does expand_tilde stand?", "expand_tilde"));
    assert!(betrayed("how is a tilde replaced?", "expand_tilde"));
    assert!(betrayed("what does the box wrap do?", "Help.boxWrap"));
    assert!(betrayed("what does Help print?", "Help.boxWrap"));
    assert!(betrayed("how is HTTP spoken?", "parseHTTPHeaders"));
    assert!(betrayed("may it read on?", "ReadOn.may_it"), "the words of the name one after the other");
    assert!(
        !betrayed("how long is the delay queue?", "DelayQueue.len"),
        "everyday words, not the type's name"
    );
    assert!(!betrayed("how does a leading ~ become the home folder?", "expand_tilde"));
    assert!(!betrayed("which file is opened?", "open_file"), "a general word is no betrayal");
}

#[test]
fn there_are_enough_questions_over_three_crates_and_two_other_packages() {
    let packages: Vec<Package> = read("packages.json");
    let crates = packages.iter().filter(|package| package.registry == "crates.io").count();
    assert!(crates >= 3 && packages.len() - crates >= 2, "{packages:?}");
    let known: BTreeSet<_> =
        packages.iter().map(|package| format!("{}-{}", package.name, package.version)).collect();
    let questions: Vec<_> = halves().into_iter().flatten().collect();
    assert!(questions.len() >= 60, "{} questions", questions.len());
    let asked: BTreeSet<_> = questions.iter().map(|question| question.package.clone()).collect();
    assert_eq!(asked, known, "every package is asked about, and no other");
    let ids: BTreeSet<_> = questions.iter().map(|question| &question.id).collect();
    assert_eq!(ids.len(), questions.len(), "ids are unique");
    for question in &questions {
        assert!(!question.answers.is_empty(), "{} has no answer", question.id);
        for answer in &question.answers {
            assert!(
                answer.lines[0] >= 1 && answer.lines[0] <= answer.lines[1],
                "{}: {answer:?}",
                question.id
            );
            assert!(!answer.file.starts_with('/'), "{}: {answer:?}", question.id);
        }
    }
}

#[test]
fn the_unseen_questions_are_over_at_least_six_packages_that_no_tuning_saw() {
    let name = |package: Package| format!("{}-{}", package.name, package.version);
    let names = |file: &str| read::<Vec<Package>>(file).into_iter().map(name).collect::<BTreeSet<_>>();
    let (seen, packages) = (names("packages.json"), names("packages-unseen.json"));
    let asked: BTreeSet<_> = unseen().into_iter().map(|question| question.package).collect();
    assert_eq!(asked, packages, "every package is asked about, and no other");
    assert!(packages.len() >= 6 && packages.is_disjoint(&seen), "{packages:?}");
    assert!(unseen().len() >= 48, "{} questions", unseen().len());
    let ids: BTreeSet<_> = unseen().into_iter().map(|question| question.id).collect();
    assert_eq!(ids.len(), unseen().len(), "ids are unique");
}

#[test]
fn the_halves_follow_from_the_hashes_of_the_ids() {
    let [tune, holdout] = halves();
    assert!(tune.len().abs_diff(holdout.len()) <= 1, "{} and {}", tune.len(), holdout.len());
    let set_aside: BTreeSet<_> = holdout.iter().map(|question| question.id.clone()).collect();
    let mut packages: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for question in tune.iter().chain(&holdout) {
        packages.entry(question.package.clone()).or_default().push(question.id.clone());
    }
    for (package, mut ids) in packages {
        ids.sort_by_key(|id| hash(id));
        let aside: Vec<bool> = ids.iter().map(|id| set_aside.contains(id)).collect();
        let turn = aside.iter().position(|aside| *aside).expect("some are set aside");
        assert!(aside.iter().skip(turn).all(|aside| *aside), "{package}: the second half is set aside");
        assert!((turn * 2).abs_diff(ids.len()) <= 1, "{package}: {turn} of {} are for tuning", ids.len());
    }
}
