//! Choosing, running and stopping.

use crate::{acp, comply, stderr, stdout};

#[test]
fn a_step_that_is_not_understood_makes_the_run_incomplete() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("odd.jsont");
    let text = r#"{ "title": "odd", "description": "d", "severity": "optional", "colour": "blue",
      "steps": [{ "newSession": {} }, { "newSesion": {} }] }"#;
    std::fs::write(&file, text).expect("written");
    let output = comply(&[&file.display().to_string()]);
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert!(stdout(&output).contains("step 2 was not understood"), "{}", stdout(&output));
    assert!(stderr(&output).contains("did you mean \"newSession\"?"), "{}", stderr(&output));
    assert!(stderr(&output).contains("unknown field \"colour\""), "{}", stderr(&output));
    assert!(stderr(&output).contains("INCOMPLETE: 1 test was not understood"), "{}", stderr(&output));
}

#[test]
fn a_test_and_a_requirement_are_explained() {
    let explain = |name: &str| acp().args(["explain", name]).output().expect("acp starts");
    let row = explain("can-01");
    assert_eq!(row.status.code(), Some(0), "{}", stderr(&row));
    let text = stdout(&row);
    assert!(text.contains("After session/cancel") && text.contains("--requirement CAN-01"), "{text}");
    let first = text.lines().skip_while(|line| *line != "Tests that claim it:").nth(1).expect("a test");
    let id = first.split_whitespace().next().expect("an id");
    let test = stdout(&explain(id));
    assert!(test.contains("What it does:") && test.contains("  open a session"), "{test}");
    assert!(
        test.contains("CAN-01  After session/cancel") && test.contains(&format!("--test {id}")),
        "{test}"
    );
    assert_eq!(explain("no-such-thing").status.code(), Some(2));
    let slip = explain("init.versoin");
    assert!(stderr(&slip).contains("did you mean init.version"), "{}", stderr(&slip));
    let slip = comply(&["--test", "cancel.idel"]);
    assert!(stderr(&slip).contains("did you mean cancel.idle?"), "{}", stderr(&slip));
    let slip = comply(&["--requirement", "CAN-1"]);
    assert!(stderr(&slip).contains("did you mean CAN-01?"), "{}", stderr(&slip));
}

#[test]
fn the_seed_examples_pass_against_the_built_in_agent() {
    let output = comply(&["--suite", "seed"]);
    let (out, err) = (stdout(&output), stderr(&output));
    assert_eq!(output.status.code(), Some(0), "{out}\n{err}");
    assert!(out.starts_with("# ACP Compliance Report\n\nMethodology: "), "{out}");
    for test in [
        "required.initialize",
        "required.prompt.cancel",
        "required.error.method-not-found",
        "required.capabilities.respect-fs-disabled",
    ] {
        assert!(out.contains(&format!("\n### {test}: PASS\n")), "{out}");
    }
    assert!(!out.contains('|'), "the default report has no table\n{out}");
    assert!(err.contains("  CONFORMANT\n"), "{err}");
}

#[test]
fn own_tests_run_from_a_file() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("mine.jsont");
    let text = r#"{ "title": "mine", "description": "d", "severity": "required", "docs": [], "sandbox": { "files": [] },
      "steps": [{ "newSession": {} }, { "expect": { "timeoutMs": 300, "messages": [{ "notification": { "method": "^never$" } }] } }] }"#;
    std::fs::write(&file, text).expect("written");
    let output = comply(&[&file.display().to_string()]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stdout(&output).contains("### mine: FAIL"), "{}", stdout(&output));
    // A log shows failures as they come, and one summary.
    let args = [file.display().to_string(), "--agent=mock".to_owned(), "--format=terminal".to_owned()];
    let output = comply(&args.each_ref().map(String::as_str));
    let lines: Vec<String> = stderr(&output).lines().map(str::to_owned).collect();
    assert!(lines.len() == 1 && lines[0].contains("FAIL    mine  "), "{lines:?}");
}

#[test]
fn what_is_wrong_with_test_files_is_said_at_once_with_its_place() {
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::write(dir.path().join("one.jsont"), "{ \"title\": \"x\",\n  \"steps\": [ { \"send\": 3 } ] }")
        .expect("written");
    std::fs::write(dir.path().join("two.jsont"), "{ \"title\": ").expect("written");
    let output = comply(&[&dir.path().display().to_string()]);
    let err = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{err}");
    assert!(err.contains("one.jsont:2:") && err.contains("two.jsont:1:"), "{err}");
    assert!(stdout(&output).is_empty());
    let checked = acp().args(["suites", "check"]).arg(dir.path()).output().expect("acp starts");
    assert_eq!(checked.status.code(), Some(2), "{}", stderr(&checked));
}

#[test]
fn the_built_in_suites_are_sound() {
    let output = acp().args(["suites", "check"]).output().expect("acp starts");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
}

#[test]
fn tests_are_chosen_by_id_area_requirement_severity_and_shard() {
    let list = |args: &[&str]| {
        let mut all = vec!["--list-tests"];
        all.extend(args);
        stdout(&comply(&all)).lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let all = list(&[]);
    assert!(all.len() >= 150, "{} tests", all.len());
    assert_eq!(list(&["--test", "rpc.id-*"]).len(), 7);
    assert!(
        list(&["--requirement", "can-01"]).iter().any(|line| line.starts_with("cancel.after-first-chunk"))
    );
    assert!(list(&["--area", "plans"]).iter().all(|line| line.starts_with("plan.")));
    assert!(list(&["--severity", "advice"]).iter().all(|line| line.contains(" advice ")));
    let shards: usize = ["1/3", "2/3", "3/3"].iter().map(|shard| list(&["--shard", shard]).len()).sum();
    assert_eq!(shards, all.len());
    assert_eq!(comply(&["--shard", "4/3"]).status.code(), Some(2));
    let none = comply(&["--test", "no-such-*"]);
    assert_eq!(none.status.code(), Some(2));
    assert!(stderr(&none).contains("--list-tests"), "{}", stderr(&none));
}

#[test]
fn a_list_of_expected_failures_forgives_and_goes_stale() {
    let dir = tempfile::tempdir().expect("a folder");
    let test = dir.path().join("mine.jsont");
    let text = |message: &str| {
        format!(
            r#"{{ "title": "mine", "description": "d", "severity": "required", "steps": [{{ "newSession": {{}} }},
              {{ "expect": {{ "timeoutMs": 100, "messages": [{message}] }} }}] }}"#
        )
    };
    let list = dir.path().join("known.txt");
    std::fs::write(&list, "mine  it says too little\n").expect("written");
    let (known, mine) = (list.display().to_string(), test.display().to_string());
    let args = [mine.as_str(), "--format", "terminal", "--expected", &known];
    std::fs::write(&test, text(r#"{ "notification": { "method": "^never$" } }"#)).expect("written");
    let forgiven = comply(&args);
    assert_eq!(forgiven.status.code(), Some(0), "{}", stderr(&forgiven));
    assert!(stdout(&forgiven).contains("expected: it says too little"), "{}", stdout(&forgiven));
    assert!(stdout(&forgiven).contains("CONFORMANT except 1 expected failure"), "{}", stdout(&forgiven));

    std::fs::write(&test, text(r#"{ "response": { "result": {} } }"#)).expect("written");
    let stale = comply(&args);
    assert_eq!(stale.status.code(), Some(4), "{}", stderr(&stale));
    assert!(stdout(&stale).contains("the test passes now; remove the entry"), "{}", stdout(&stale));

    std::fs::write(&list, "no-such-test  why\nMCP-1  why\n").expect("written");
    let wrong = comply(&args);
    assert_eq!(wrong.status.code(), Some(2));
    let err = stderr(&wrong);
    assert!(err.contains("line 1: no-such-test") && err.contains("line 2: MCP-1"), "{err}");
    assert!(err.contains("did you mean MCP-01?"), "{err}");
    std::fs::write(&list, "mine\n\nMCP-01\n").expect("written");
    let err = stderr(&comply(&args));
    assert!(
        err.contains("known.txt") && err.contains("line 1: give") && err.contains("line 3: give"),
        "{err}"
    );
}

#[test]
fn a_list_of_expected_failures_can_be_written_from_a_run() {
    let dir = tempfile::tempdir().expect("a folder");
    let list = dir.path().join("known.txt").display().to_string();
    let mock = format!("{} mock --stdio --defect accepts-unknown-method", env!("CARGO_BIN_EXE_acp"));
    let run = |more: &[&str]| {
        let mut args =
            vec!["--command", mock.as_str(), "--name", "mine", "--test", "required.error.method-not-found"];
        args.extend(more);
        comply(&args)
    };
    let first = run(&["--write-expected", &list]);
    assert_eq!(first.status.code(), Some(1), "{}", stderr(&first));
    let text = std::fs::read_to_string(&list).expect("a list");
    assert!(text.starts_with("# Known failures of mine\n"), "{text}");
    assert!(text.lines().any(|line| line.starts_with("mine:RPC-07  ")), "{text}");
    let again = run(&["--expected", &list]);
    assert_eq!(again.status.code(), Some(0), "{}", stderr(&again));
    assert!(stderr(&again).contains("CONFORMANT except"), "{}", stderr(&again));
}

#[test]
fn the_lists_of_the_profiles_are_in_the_program() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../profiles/expected");
    for file in std::fs::read_dir(folder).expect("the lists") {
        let path = file.expect("a list").path();
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let output = comply(&["--agent", &name, "--expected", "profile", "--list-tests"]);
        assert_eq!(output.status.code(), Some(0), "{name}: {}", stderr(&output));
    }
    let unnamed = comply(&["--expected", "profile"]);
    assert_eq!(unnamed.status.code(), Some(2));
    assert!(stderr(&unnamed).contains("needs --agent"), "{}", stderr(&unnamed));
    let unlisted = comply(&["--agent", "mock", "--expected", "profile"]);
    assert!(stderr(&unlisted).contains("no list of known failures"), "{}", stderr(&unlisted));
}

#[test]
fn repeated_runs_give_the_same_verdicts() {
    let output = comply(&["--test", "cancel.*", "--repeat", "3", "--format", "json"]);
    let results: serde_json::Value = serde_json::from_slice(&output.stdout).expect("json");
    let tests = results["agents"][0]["tests"].as_array().expect("tests");
    assert!(!tests.is_empty());
    for test in tests {
        let attempts = test["attempts"].as_array().expect("attempts");
        assert_eq!(attempts.len(), 3, "{test}");
        assert!(attempts.windows(2).all(|pair| pair[0] == pair[1]), "{}: {attempts:?}", test["id"]);
    }
}

#[test]
fn kept_sandboxes_hold_the_transcript_which_lints_clean() {
    let dir = tempfile::tempdir().expect("a folder");
    let keep = dir.path().display().to_string();
    let output = comply(&["--test", "fs.write", "--keep", &keep]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let cell = dir.path().join("mock-fs-write");
    assert_eq!(
        std::fs::read_to_string(cell.join("sandbox/output.txt")).expect("the file").trim_end(),
        "done"
    );
    let linted = acp().arg("lint").arg(cell.join("transcript.ndjson")).output().expect("acp starts");
    assert_eq!(linted.status.code(), Some(0), "{}", stdout(&linted));
}
