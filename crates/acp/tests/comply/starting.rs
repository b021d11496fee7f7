//! Which agents a run examines, what they are called, and what stops it before it begins.

use std::path::Path;

use crate::{acp, comply, script, stderr, stdout};

const ACP: &str = env!("CARGO_BIN_EXE_acp");

fn settings(dir: &Path, names: &[&str]) -> String {
    let entry = serde_json::json!({ "command": ACP, "args": ["mock", "--stdio", "--dialect", "v1"] });
    let servers: serde_json::Map<_, _> =
        names.iter().map(|name| ((*name).to_owned(), entry.clone())).collect();
    let path = dir.join("settings.json");
    std::fs::write(&path, serde_json::json!({ "agent_servers": servers }).to_string()).expect("written");
    path.display().to_string()
}

/// The names of the agents in the results.
fn agents(args: &[&str]) -> Vec<String> {
    let mut all = vec!["--test", "trn.stdio", "--format", "json"];
    all.extend(args);
    let output = comply(&all);
    let results: serde_json::Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", stderr(&output)));
    let agents = results["agents"].as_array().expect("agents");
    agents.iter().map(|agent| agent["name"].as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn a_settings_file_names_the_agent_when_nothing_else_does() {
    let dir = tempfile::tempdir().expect("a folder");
    let one = settings(dir.path(), &["mine"]);
    assert_eq!(agents(&["--settings", &one]), ["mine"]);
    let two = settings(dir.path(), &["mine", "yours"]);
    let output = comply(&["--settings", &two]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("mine") && stderr(&output).contains("yours"), "{}", stderr(&output));
    let output = comply(&["--settings", "/no/such/settings.json"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("/no/such/settings.json"), "{}", stderr(&output));
}

#[test]
fn the_agents_in_the_box_start_under_every_name_of_the_program() {
    let acpcomply = std::process::Command::new(env!("CARGO_BIN_EXE_acpcomply"))
        .args(["--test", "trn.stdio"])
        .output()
        .expect("it starts");
    assert_eq!(acpcomply.status.code(), Some(0), "{}", stderr(&acpcomply));
    let notice = "testing the built-in agents mock and reference";
    assert!(stderr(&acpcomply).contains(notice), "{}", stderr(&acpcomply));
    let version = std::process::Command::new(env!("CARGO_BIN_EXE_acpcomply"))
        .arg("--version")
        .output()
        .expect("it starts");
    assert_eq!(stdout(&version), format!("acp {}\n", env!("CARGO_PKG_VERSION")));
    let harness = std::process::Command::new(env!("CARGO_BIN_EXE_acp-harness"))
        .args(["--agent", "mock", "--scenarios", "happy-path"])
        .output()
        .expect("it starts");
    assert_eq!(harness.status.code(), Some(0), "{}", stdout(&harness));
}

#[test]
fn tcp_without_an_agent_by_name_is_refused() {
    for command in ["comply", "harness"] {
        for more in [&["--command", "x"][..], &[], &["--agent", "mock", "--command", "x"]] {
            let output = acp().arg(command).arg("--tcp").args(more).output().expect("acp starts");
            assert_eq!(output.status.code(), Some(2), "{command} {more:?}: {}", stderr(&output));
            assert!(stderr(&output).contains("--tcp"), "{}", stderr(&output));
        }
    }
}

#[test]
fn a_program_is_found_from_here_and_a_file_that_is_not_gets_a_hint() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().expect("a folder");
    script(dir.path(), "my-agent", &format!("#!/bin/sh\nexec {ACP} mock --stdio --dialect v1\n"));
    let all = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(dir.path().join("my-agent"), all).expect("made a program");
    let run = |args: &[&str]| acp().args(args).current_dir(dir.path()).output().expect("acp starts");

    let started = run(&["comply", "--test", "trn.stdio", "--command", "./my-agent"]);
    assert_eq!(started.status.code(), Some(0), "{}", stderr(&started));
    let started = run(&["harness", "--scenarios", "happy-path", "--command", "./my-agent"]);
    assert_eq!(started.status.code(), Some(0), "{}", stdout(&started));

    let lost = run(&["comply", "--test", "trn.stdio", "--command", "sh my-agent"]);
    assert_eq!(lost.status.code(), Some(3), "{}", stderr(&lost));
    let hint = "`my-agent` is in this one: write it as `./my-agent`";
    assert!(stderr(&lost).contains(hint), "{}", stderr(&lost));
    assert!(stdout(&lost).contains("is in this one: write it as"), "{}", stdout(&lost));
    let quiet = run(&["comply", "-q", "--test", "trn.stdio", "--command", "sh my-agent"]);
    assert!(stdout(&quiet).contains(hint) && !stdout(&quiet).contains("Methodology"), "{}", stdout(&quiet));
    let found = run(&["comply", "-q", "--test", "trn.stdio", "--command", "sh ./my-agent"]);
    assert_eq!((found.status.code(), stdout(&found).as_str()), (Some(0), "sh  CONFORMANT\n"));
    assert!(stderr(&found).is_empty(), "{}", stderr(&found));
}

#[test]
fn agents_have_names_of_their_own() {
    let mock = format!("{ACP} mock --stdio --dialect v1");
    assert_eq!(agents(&["--command", &mock, "--command", &mock]), ["acp", "acp-2"]);
    let named = agents(&["--command", &mock, "--name", "left", "--command", &mock, "--name", "right"]);
    assert_eq!(named, ["left", "right"]);
    let output = comply(&["--command", &mock, "--command", &mock, "--name", "left"]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
}

#[test]
fn what_cannot_be_right_stops_the_run_before_it_begins() {
    let dir = tempfile::tempdir().expect("a folder");
    let folder = dir.path().display().to_string();
    for (args, word) in [
        (&["--format", "junit", "--out", "/no/such/folder/r.xml"][..], "cannot write /no/such/folder/r.xml"),
        (&["--format", "junit", "--out", &folder], "it is a folder"),
        (&["--connect", "foo"], "tcp://HOST:PORT"),
        (&["--area", "cancel", "--list-tests"], "Prompt Cancel"),
        (&["--timeout-factor", "1e300"], "up to 1000"),
        (&["--timeout-factor", "nan"], "up to 1000"),
        (&["--timeout-factor", "0"], "up to 1000"),
    ] {
        let output = comply(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        let err = stderr(&output).to_lowercase();
        assert!(err.contains(&word.to_lowercase()) && err.lines().count() < 12, "{args:?}: {err}");
        assert!(stdout(&output).is_empty(), "{args:?}");
    }
    let harness = acp().args(["harness", "--agent", "mock", "--out", &folder]).output().expect("acp starts");
    assert_eq!(harness.status.code(), Some(2), "{}", stderr(&harness));
}

#[test]
fn a_report_that_cannot_be_written_keeps_no_other_from_being_written() {
    let dir = tempfile::tempdir().expect("a folder");
    let json = dir.path().join("r.json").display().to_string();
    let args =
        ["--test", "trn.stdio", "--format", "tap", "--out", "/dev/full", "--format", "json", "--out", &json];
    let output = comply(&args);
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert!(stderr(&output).contains("cannot write /dev/full"), "{}", stderr(&output));
    assert!(stderr(&output).contains("  CONFORMANT\n"), "{}", stderr(&output));
    assert!(std::fs::read_to_string(&json).expect("a report").contains("trn.stdio"));
    let harness = acp()
        .args([
            "harness",
            "--agent",
            "mock",
            "--scenarios",
            "happy-path",
            "--format",
            "json",
            "--out",
            "/dev/full",
        ])
        .output()
        .expect("acp starts");
    assert_eq!(harness.status.code(), Some(3), "{}", stderr(&harness));
    assert!(stderr(&harness).contains("happy-path  PASS"), "{}", stderr(&harness));
}

#[test]
fn an_agent_that_does_not_answer_is_waited_for_once() {
    let dir = tempfile::tempdir().expect("a folder");
    let agent = script(dir.path(), "chatty.sh", "echo 'Welcome to the agent!'; while read line; do :; done");
    let output =
        comply(&["--test", "session.*", "--timeout-factor", "0.2", "--format", "json", "--command", &agent]);
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    let words = "no answer to initialize within 6000 ms; 1 line from the agent is not a message: \"Welcome to the agent!\"";
    assert!(stderr(&output).contains(words), "{}", stderr(&output));
    let results: serde_json::Value = serde_json::from_slice(&output.stdout).expect("json");
    assert_eq!(results["agents"][0]["tests"].as_array().map(Vec::len), Some(0));
    let fault = results["agents"][0]["fault"].as_str().unwrap_or_default();
    assert!(fault.contains(words) && fault.contains("--acp"), "{fault}");
}

#[test]
fn an_agent_that_does_not_flush_its_output_is_told_so() {
    let dir = tempfile::tempdir().expect("a folder");
    let answer = r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1}}"#;
    let held = script(dir.path(), "held.sh", &format!("cat >/dev/null; echo '{answer}'"));
    let silent = script(dir.path(), "silent.sh", "cat >/dev/null");
    for (agent, words) in [(held, "it answered only when its input ended"), (silent, "it said nothing")] {
        let output = comply(&["--test", "trn.stdio", "--timeout-factor", "0.05", "--command", &agent]);
        assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
        assert!(stderr(&output).contains(words), "{}", stderr(&output));
        assert!(stderr(&output).contains("flush"), "{}", stderr(&output));
        let output =
            acp().args(["info", "--timeout", "300ms", "--command", &agent]).output().expect("acp starts");
        assert!(stderr(&output).contains("flush standard output"), "{}", stderr(&output));
    }
}
