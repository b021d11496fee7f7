//! The command line itself: help, completions, manual pages, and that every command in the README exists.

use std::process::{Command, Output};

fn acp(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_acp")).args(args).output().expect("acp starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The commands of this build as `acp help --all` lists them.
fn commands() -> Vec<String> {
    let help = text(&acp(&["help", "--all"]).stdout);
    help.lines()
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter(|line| !line.contains("(not in this build"))
        .filter_map(|line| line.split_whitespace().next().map(str::to_owned))
        .collect()
}

#[test]
fn every_command_has_help_and_a_manual_page() {
    let commands = commands();
    let least = if cfg!(all(feature = "agent", feature = "nats")) { 25 } else { 21 };
    assert!(commands.len() >= least, "{commands:?}");
    for name in &commands {
        let help = acp(&[name, "--help"]);
        assert!(help.status.success() && text(&help.stdout).contains("Usage: acp"), "acp {name} --help");
        let page = acp(&["man", name]);
        assert!(page.status.success() && text(&page.stdout).contains(".SH"), "acp man {name}");
    }
}

#[test]
fn completions_know_the_commands() {
    for shell in ["bash", "zsh", "fish"] {
        let output = acp(&["completions", shell]);
        assert!(output.status.success());
        let script = text(&output.stdout);
        assert!(script.contains("comply") && script.contains("lint"), "{shell}");
    }
}

#[test]
#[cfg(all(feature = "agent", feature = "nats"))]
fn every_command_of_the_readme_exists() {
    let readme = include_str!("../../../README.md");
    let commands = commands();
    for word in readme.split('`').filter_map(|code| code.strip_prefix("acp ")) {
        let name = word.split_whitespace().next().unwrap_or_default();
        let known = commands.iter().any(|command| command == name) || ["man", "--help"].contains(&name);
        assert!(known, "the README speaks of `acp {name}`; there are {commands:?}");
    }
}

#[test]
fn a_wrong_word_is_an_error_of_usage() {
    let output = acp(&["compley"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("comply"), "{}", text(&output.stderr));
}

/// Commands that print and end by themselves.
const PRINTERS: &[&[&str]] = &[
    &["mock", "--list-defects"],
    &["mock", "--list-variants"],
    &["requirements"],
    &["comply", "--list-tests"],
    &["comply", "--coverage"],
    &["harness", "--list"],
    &["suites", "list"],
    &["suites", "schema"],
    &["profiles"],
    &["completions", "bash"],
    &["man"],
    &["prompt", "--agent", "mock", "Say 'one'"],
    &["info", "--agent", "mock"],
    &["call", "session/list", "--agent", "mock"],
    &["doctor"],
    &["help"],
    &["help", "--all"],
];

#[test]
fn a_reader_that_goes_away_is_no_error() {
    for args in PRINTERS {
        let mut child = Command::new(env!("CARGO_BIN_EXE_acp"))
            .args(*args)
            .stdin(std::process::Stdio::null())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .expect("acp starts");
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("it ends");
        assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""), "{args:?}");
    }
}

#[test]
fn a_full_disk_is_a_fault_in_words() {
    for args in PRINTERS {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("a full device");
        let output = Command::new(env!("CARGO_BIN_EXE_acp"))
            .args(*args)
            .stdin(std::process::Stdio::null())
            .stdout(full)
            .output()
            .expect("acp starts");
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{args:?}: {said}");
        assert!(said.contains("No space left") && !said.contains("panicked"), "{args:?}: {said}");
    }
}

#[test]
fn suites_that_were_changed_are_not_overwritten_unless_told_to() {
    let dir = tempfile::tempdir().expect("a folder");
    let folder = dir.path().to_str().expect("a path");
    let copy = |more: &[&str]| acp(&[&["suites", "copy", folder], more].concat());
    assert_eq!(copy(&[]).status.code(), Some(0));
    assert_eq!(copy(&[]).status.code(), Some(0), "nothing was changed");
    let file = dir.path().join("v1/required/required.initialize.jsont");
    let built_in = std::fs::read_to_string(&file).expect("a test");
    std::fs::write(&file, "mine").expect("written");
    let refused = copy(&[]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        text(&refused.stderr).contains("v1/required/required.initialize.jsont"),
        "{}",
        text(&refused.stderr)
    );
    assert_eq!(std::fs::read_to_string(&file).expect("a test"), "mine");
    assert_eq!(copy(&["--force"]).status.code(), Some(0));
    assert_eq!(std::fs::read_to_string(&file).expect("a test"), built_in);
}
