//! `acp doctor`, `acp suites show`, `acp help` and `acp replay` without a journal

use serde_json::Value;

use crate::{ACP, Place, texts};

#[test]
fn it_names_what_is_there_and_what_is_missing() {
    let place = Place::new();
    let output = place.command(ACP, &["doctor", "--format", "json"]).env("PATH", "/no/such").output();
    let (code, out, err) = texts(&output.expect("acp runs"));
    assert_eq!(code, 0, "what is missing is optional: {out}{err}");
    let rows: Vec<Value> = serde_json::from_str(&out).expect("JSON");
    let state = |name: &str| {
        let row = rows.iter().find(|row| row["check"] == name).unwrap_or_else(|| panic!("{name}: {out}"));
        row["state"].as_str().expect("a state").to_owned()
    };
    assert_eq!((state("acp").as_str(), state("cache").as_str(), state("state").as_str()), ("ok", "ok", "ok"));
    for name in ["node", "npm", "python", "nats", "agents"] {
        assert_eq!(state(name), "missing", "{out}");
    }
    assert!(!place.path.join(".cache").exists() && !place.path.join(".state").exists(), "it changes nothing");
    let (code, out, _) = place.acp(&["doctor"]);
    assert_eq!(code, 0, "{out}");
    assert!(out.starts_with("ok       acp      "), "{out}");
}

#[test]
fn a_check_that_is_named_must_be_ok() {
    let place = Place::new();
    let output = place.command(ACP, &["doctor", "node"]).env("PATH", "/no/such").output();
    let (code, out, _) = texts(&output.expect("acp runs"));
    assert_eq!(code, 1, "{out}");
    assert!(out.starts_with("missing  node") && out.contains("install Node.js"), "{out}");
    assert_eq!(out.lines().count(), 1, "{out}");
    let (code, _, err) = place.acp(&["doctor", "nothing"]);
    assert_eq!(code, 2);
    assert!(err.contains("nothing") && err.contains("isolate"), "{err}");
}

#[test]
fn broken_settings_and_folders_are_found() {
    let place = Place::new();
    place.write("acp.toml", "agnet = 1\n");
    let (code, out, _) = place.acp(&["doctor"]);
    assert_eq!(code, 1, "{out}");
    assert!(out.contains("broken   config") && out.contains("acp.toml:1:1"), "{out}");
    place.write("acp.toml", "");
    place.write("file", "");
    let output = place.command(ACP, &["doctor", "cache"]).env("ACP_CACHE_DIR", "/proc/no/such").output();
    let (code, out, _) = texts(&output.expect("acp runs"));
    assert_eq!(code, 1, "{out}");
    assert!(out.contains("broken   cache") && out.contains("ACP_CACHE_DIR"), "{out}");
}

#[test]
fn a_test_is_shown_as_it_is_in_its_file() {
    let place = Place::new();
    let (code, out, err) = place.acp(&["suites", "show", "required.initialize"]);
    assert_eq!(code, 0, "{err}");
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../suites/v1/required/required.initialize.jsont");
    assert_eq!(out, std::fs::read_to_string(file).expect("the test"));
    assert!(err.contains("suite v1"), "{err}");
    for (args, words) in [
        (&["suites", "show", "initialize"][..], "required.initialize, "),
        (&["suites", "show", "nothing-like-it"], "--list-tests"),
        (&["suites", "show", "required.initialize", "--suite", "none"], "none"),
        (&["suites", "show"], "TEST"),
    ] {
        let (code, out, err) = place.acp(args);
        assert_eq!(code, 2, "{args:?}: {out}{err}");
        assert!(err.contains(words), "{args:?}: {err}");
    }
}

#[test]
fn help_is_one_screen_and_all_of_it_is_one_command_away() {
    let place = Place::new();
    let (code, screen, _) = place.acp(&["--help"]);
    assert_eq!(code, 0);
    assert!(
        screen.lines().count() <= 24 && screen.lines().all(|line| line.chars().count() <= 80),
        "{screen}"
    );
    assert_eq!(place.acp(&["help"]).1, screen);
    let (code, out, err) = place.acp(&[]);
    assert_eq!(code, 2, "{out}");
    assert_eq!(err, screen);
    let (code, all, _) = place.acp(&["help", "--all"]);
    assert_eq!(code, 0);
    assert!(all.contains("  man ") && all.contains("  matrix ") && all.contains("Find code"), "{all}");
    let (code, out, _) = place.acp(&["help", "suites", "show"]);
    assert_eq!(code, 0);
    assert!(out.contains("Usage: acp suites show"), "{out}");
    let (code, _, err) = place.acp(&["help", "nothing"]);
    assert_eq!(code, 2);
    assert!(err.contains("there is no command \"nothing\""), "{err}");
}

#[test]
fn replay_without_a_journal_says_how_to_record() {
    let place = Place::new();
    let (code, out, err) = place.acp(&["replay"]);
    assert_eq!((code, out.as_str()), (0, ""), "{err}");
    assert!(err.contains("no conversations are recorded") && err.contains("--record FILE"), "{err}");
    let (code, _, err) = place.acp(&["replay", "--as-agent"]);
    assert_eq!(code, 2);
    assert!(err.contains("FILE|SESSION"), "{err}");
    let (code, _, err) = place.acp(&["replay", "nothing"]);
    assert_eq!(code, 2);
    assert!(err.contains("nothing"), "{err}");
}
