//! What `deny.toml` says about licences, bans, sources and duplicates holds for the crates that are built. `cargo deny` says
//! the same and more where it is installed; this needs nothing but cargo.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn rules() -> toml::Table {
    let text = std::fs::read_to_string(root().join("deny.toml")).expect("deny.toml");
    text.parse().expect("TOML")
}

fn output(program: &str, args: &[&str]) -> String {
    let run = Command::new(program).args(args).current_dir(root()).output().expect("it runs");
    assert!(run.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&run.stderr));
    String::from_utf8(run.stdout).expect("text")
}

/// The crates of this platform, ours included.
fn packages() -> Vec<Value> {
    let version = output("rustc", &["-vV"]);
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).expect("a host");
    let metadata =
        output("cargo", &["metadata", "--format-version", "1", "--locked", "--filter-platform", host]);
    let mut metadata: Value = serde_json::from_str(&metadata).expect("JSON");
    let built: BTreeSet<String> = metadata["resolve"]["nodes"]
        .as_array()
        .expect("nodes")
        .iter()
        .filter_map(|node| node["id"].as_str().map(str::to_owned))
        .collect();
    let packages = metadata["packages"].take();
    let Value::Array(packages) = packages else { panic!("no packages") };
    packages.into_iter().filter(|it| it["id"].as_str().is_some_and(|id| built.contains(id))).collect()
}

fn name(package: &Value) -> &str {
    package["name"].as_str().expect("a name")
}

fn texts<'a>(list: &'a toml::Value, key: &str) -> Vec<&'a str> {
    let list = list.as_array().expect("a list");
    list.iter().filter_map(|it| it.as_str().or_else(|| it.get(key)?.as_str())).collect()
}

/// Whether an SPDX expression can be met with these licences.
fn is_met(expression: &str, allowed: &[&str]) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = &words[..];
    let met = any(&mut rest, allowed);
    met && rest.is_empty()
}

fn any(rest: &mut &[&str], allowed: &[&str]) -> bool {
    let mut met = all(rest, allowed);
    while let Some(("OR", more)) = rest.split_first().map(|(word, more)| (*word, more)) {
        *rest = more;
        met |= all(rest, allowed);
    }
    met
}

fn all(rest: &mut &[&str], allowed: &[&str]) -> bool {
    let mut met = one(rest, allowed);
    while let Some(("AND", more)) = rest.split_first().map(|(word, more)| (*word, more)) {
        *rest = more;
        met &= one(rest, allowed);
    }
    met
}

fn one(rest: &mut &[&str], allowed: &[&str]) -> bool {
    let Some((word, more)) = rest.split_first() else { return false };
    *rest = more;
    if *word == "(" {
        let met = any(rest, allowed);
        *rest = rest.split_first().filter(|(word, _)| **word == ")").map_or(&[][..], |(_, more)| more);
        return met;
    }
    if let Some(("WITH", [exception, more @ ..])) = rest.split_first().map(|(word, more)| (*word, more)) {
        *rest = more;
        return allowed.contains(&format!("{word} WITH {exception}").as_str());
    }
    allowed.contains(word)
}

#[test]
fn licences_are_read_as_they_are_meant() {
    let allowed = ["MIT", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "Unicode-3.0"];
    for (expression, expected) in [
        ("MIT", true),
        ("GPL-3.0", false),
        ("MIT/GPL-3.0", true),
        ("MIT AND GPL-3.0", false),
        ("(MIT OR Apache-2.0) AND Unicode-3.0", true),
        ("(MIT OR Apache-2.0) AND GPL-3.0", false),
        ("GPL-3.0 OR Apache-2.0 WITH LLVM-exception", true),
        ("MIT WITH LLVM-exception", false),
        ("", false),
    ] {
        assert_eq!(is_met(expression, &allowed), expected, "{expression}");
    }
}

#[test]
fn the_crates_that_are_built_are_those_that_deny_toml_allows() {
    let (rules, packages) = (rules(), packages());
    let allowed = texts(&rules["licenses"]["allow"], "crate");
    let banned = texts(&rules["bans"]["deny"], "crate");
    let mut sources = BTreeSet::new();
    for package in &packages {
        let (name, source) = (name(package), package["source"].as_str());
        assert!(!banned.contains(&name), "{name} is banned by deny.toml");
        let expression = package["license"].as_str().unwrap_or_default();
        assert!(source.is_none() || is_met(expression, &allowed), "{name} has the licence {expression:?}");
        sources.extend(source);
        let wildcards = package["dependencies"].as_array().into_iter().flatten();
        let mut wildcards = wildcards.filter(|it| it["req"] == "*" && it["path"].is_null());
        assert!(source.is_some() || wildcards.next().is_none(), "{name} takes any version of something");
    }
    assert!(sources.len() == 1 && sources.iter().all(|it| it.starts_with("registry+")), "{sources:?}");
    assert!(packages.len() > 200, "only {} crates were looked at", packages.len());
}

#[test]
fn no_crate_is_built_in_two_versions_that_deny_toml_does_not_list() {
    let rules = rules();
    assert_eq!(rules["bans"]["multiple-versions"].as_str(), Some("deny"));
    let known: BTreeSet<&str> = texts(&rules["bans"]["skip"], "crate").into_iter().collect();
    let lock: toml::Table =
        std::fs::read_to_string(root().join("Cargo.lock")).expect("Cargo.lock").parse().expect("TOML");
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in lock["package"].as_array().expect("packages") {
        let text = |key: &str| package[key].as_str().expect("text");
        versions.entry(text("name")).or_default().push(text("version"));
    }
    let mut older = BTreeSet::new();
    for (name, mut found) in versions {
        found
            .sort_by_key(|version| version.split('.').filter_map(|it| it.parse().ok()).collect::<Vec<u64>>());
        found.pop();
        older.extend(found.into_iter().map(|version| format!("{name}@{version}")));
    }
    let known = known.into_iter().map(str::to_owned).collect();
    assert_eq!(older, known, "left: the older versions in Cargo.lock; right: those that deny.toml skips");
}
