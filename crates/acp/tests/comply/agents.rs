//! Agents that behave badly: a clear verdict in bounded time, and nothing left running.

use std::time::{Duration, Instant};

use acp_testkit::live;

use crate::{comply, script, stderr, stdout};

fn results(args: &[&str]) -> (Option<i32>, serde_json::Value, String) {
    let mut all = vec!["--format", "json"];
    all.extend(args);
    let output = comply(&all);
    let text = stdout(&output);
    let value =
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}\n{}", stderr(&output)));
    (output.status.code(), value, stderr(&output))
}

/// Processes whose command line holds this mark.
fn running(mark: &str) -> Vec<String> {
    let found = live::marked(mark).into_iter().map(|(_, line)| line);
    found.filter(|line| !line.contains("comply")).collect()
}

fn assert_gone(mark: &str) {
    live::wait_until(|| running(mark).is_empty(), || format!("left running: {:?}", running(mark)));
}

#[test]
fn an_agent_that_does_not_start_is_no_failure_of_the_protocol() {
    let (code, results, err) = results(&["--test", "trn.stdio", "--command", "/no/such/agent"]);
    assert_eq!(code, Some(3), "{err}");
    let fault = results["agents"][0]["fault"].as_str().unwrap_or_default();
    assert!(fault.contains("cannot start agent") && fault.contains("is it installed"), "{fault}");
}

#[test]
fn an_agent_that_exits_at_once_fails_with_its_last_words() {
    let dir = tempfile::tempdir().expect("a folder");
    let agent = script(dir.path(), "quit.sh", "echo 'no license key' >&2; exit 7");
    let (code, results, _) = results(&["--test", "trn.stdio", "--command", &agent]);
    assert_eq!(code, Some(3));
    let fault = results["agents"][0]["fault"].as_str().unwrap_or_default();
    assert!(fault.contains("code 7") && fault.contains("no license key"), "{fault}");
}

#[test]
fn an_agent_that_demands_a_login_is_told_once_with_the_flag_that_helps() {
    let mock = format!("{} mock --require-auth", env!("CARGO_BIN_EXE_acp"));
    let run = |format: &str, more: &[&str]| {
        let mut args =
            vec!["--format", format, "--test", "session.new", "--test", "command.*", "--command", &mock];
        args.extend(more);
        stdout(&comply(&args))
    };
    let hint = "log in with --auth ";
    let screen = run("terminal", &[]);
    assert_eq!(screen.matches(hint).count(), 1, "{screen}");
    assert!(!screen.contains("NA    command."), "{screen}");
    assert!(run("markdown", &[]).contains(hint));
    let method = screen.split(hint).nth(1).and_then(|rest| rest.split_whitespace().next()).expect("a method");
    let logged_in = run("terminal", &["--auth", method.trim_end_matches(';')]);
    assert!(!logged_in.contains(hint) && !logged_in.contains("not judged"), "{logged_in}");
}

#[test]
fn an_agent_that_floods_its_output_is_bounded_and_caught() {
    let dir = tempfile::tempdir().expect("a folder");
    let agent = script(dir.path(), "flood.sh", "exec yes 'not a message'");
    let (code, results, _) = results(&[
        "--test",
        "trn.stdio",
        "--test",
        "trn.clean-stdout",
        "--timeout-factor",
        "0.1",
        "--command",
        &agent,
    ]);
    assert_eq!(code, Some(3));
    let fault = results["agents"][0]["fault"].as_str().unwrap_or_default();
    assert!(fault.contains("no answer to initialize") && fault.contains("not a message"), "{fault}");
    assert_gone("not a message");
}

#[test]
fn an_agent_that_never_answers_costs_the_timeout_and_no_more() {
    let dir = tempfile::tempdir().expect("a folder");
    let agent = script(dir.path(), "mute.sh", "exec cat > /dev/null");
    let (code, results, _) = results(&["--test", "init.*", "--timeout-factor", "0.02", "--command", &agent]);
    assert_eq!(code, Some(3));
    assert!(results["durationMs"].as_f64().unwrap_or(f64::MAX) < 60_000.0, "{}", results["durationMs"]);
}

#[test]
fn an_endless_line_is_skipped_in_bounded_memory() {
    let dir = tempfile::tempdir().expect("a folder");
    let agent = script(dir.path(), "endless.sh", "exec tr '\\0' 'x' < /dev/zero");
    let (code, _, err) = results(&["--test", "trn.stdio", "--timeout-factor", "0.1", "--command", &agent]);
    assert_eq!(code, Some(3), "{err}");
}

#[test]
fn thirty_two_children_are_ended_with_their_agent_and_reported() {
    let dir = tempfile::tempdir().expect("a folder");
    let mark = format!("3123.{}", std::process::id());
    let body = format!(
        "i=0; while [ $i -lt 32 ]; do setsid sleep {mark} >/dev/null 2>&1 & i=$((i+1)); done\n\
         exec {} mock --stdio",
        env!("CARGO_BIN_EXE_acp")
    );
    let agent = script(dir.path(), "parent.sh", &body);
    let (_, results, _) = results(&["--test", "trn.exit-on-eof", "--command", &agent]);
    let test = &results["agents"][0]["tests"][0];
    let findings = test["findings"].to_string();
    assert!(findings.contains("processes were left behind"), "{test}");
    assert_gone(&mark);
}

#[test]
fn one_bad_test_leaves_the_others_alone() {
    let (code, results, err) = results(&["--test", "rpc.*"]);
    assert_eq!(code, Some(0), "{err}");
    let tests = results["agents"][0]["tests"].as_array().expect("tests");
    assert!(tests.iter().all(|test| test["verdict"] == "PASS"), "{err}");
}

/// The folders that this run made in its own temporary folder.
fn folders(temp: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(temp).expect("a folder").flatten();
    entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}

#[test]
fn an_interrupted_run_says_what_it_knows_and_leaves_nothing_behind() {
    for signal in ["-INT", "-TERM", "-HUP"] {
        let dir = tempfile::tempdir().expect("a folder");
        let temp = tempfile::tempdir().expect("a folder");
        let mark = format!("3124.{}", std::process::id());
        let agent = script(dir.path(), "slow.sh", &format!("sleep {mark} & exec sleep {mark}"));
        let path = |name: &str| dir.path().join(name).display().to_string();
        let (report, badge, tap, junit) = (path("r.md"), path("b.json"), path("r.tap"), path("r.xml"));
        // It heeds every signal, even where the tests themselves run in the background.
        let child = std::process::Command::new("env")
            .args(["--default-signal=INT,HUP", env!("CARGO_BIN_EXE_acp")])
            .args(["comply", "--test", "trn.stdio", "--test", "init.*", "--command", &agent])
            .args(["--format", "markdown", "--out", &report, "--format", "badge", "--out", &badge])
            .args(["--format", "tap", "--out", &tap, "--format", "junit", "--out", &junit])
            .env("NO_COLOR", "1")
            .env("TMPDIR", temp.path())
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .expect("acp starts");
        let until = Instant::now() + Duration::from_secs(60);
        while running(&mark).is_empty() {
            assert!(Instant::now() < until, "the agent never started");
            std::thread::sleep(Duration::from_millis(20));
        }
        let kill = std::process::Command::new("kill").args([signal, &child.id().to_string()]).status();
        assert!(kill.expect("kill").success());
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(3), "{signal}: {}", stderr(&output));
        let err = stderr(&output);
        assert!(err.contains("interrupted: 0 of ") && !err.contains("ERROR"), "{signal}: {err}");
        assert!(!err.contains(" CONFORMANT"), "{signal}: {err}");
        let read = |file: &str| std::fs::read_to_string(file).expect("the report");
        assert!(read(&report).contains("The run was interrupted"), "{}", read(&report));
        assert!(read(&badge).contains("yellow"), "{}", read(&badge));
        assert!(read(&tap).ends_with("Bail out! interrupted\n"), "{}", read(&tap));
        assert!(read(&junit).contains("interrupted: 0 of "), "{}", read(&junit));
        assert_gone(&mark);
        assert_eq!(folders(temp.path()), Vec::<std::path::PathBuf>::new(), "{signal}");
    }
}

#[test]
fn a_killed_run_leaves_folders_that_the_next_one_removes() {
    let dir = tempfile::tempdir().expect("a folder");
    let temp = tempfile::tempdir().expect("a folder");
    let agent = script(dir.path(), "slow.sh", "touch \"$0.began\"; exec sleep 1000");
    let mut run = crate::acp();
    run.args(["comply", "--test", "trn.stdio", "--command", &agent]).env("TMPDIR", temp.path());
    let mut child =
        run.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()).spawn().expect("acp");
    let until = Instant::now() + Duration::from_secs(60);
    while !dir.path().join("slow.sh.began").exists() {
        assert!(Instant::now() < until, "the agent never started");
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().expect("killed");
    child.wait().expect("its end");
    assert_ne!(folders(temp.path()), Vec::<std::path::PathBuf>::new(), "it had no time to remove them");
    let mut next = crate::acp();
    next.args(["comply", "--test", "trn.stdio", "--command", "/no/such/agent"]).env("TMPDIR", temp.path());
    next.output().expect("acp starts");
    assert_eq!(folders(temp.path()), Vec::<std::path::PathBuf>::new());
}
