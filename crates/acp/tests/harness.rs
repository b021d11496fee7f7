//! The harness, the dialects' own suites and the matrix, run as a person runs them.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use acp_testkit::live::LiveServer;

/// A mock on a free port; it ends with the test.
struct Mock {
    _server: LiveServer,
    address: String,
}

impl Mock {
    fn start(flags: &[&str]) -> Mock {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mock-acp-server"));
        let server = LiveServer::start(command.args(["--port", "0"]).args(flags));
        Mock { address: server.told("listening"), _server: server }
    }
}

fn harness(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_acp-harness"))
        .args(args)
        .env_remove("ACP_TARGET")
        .output()
        .expect("it runs")
}

fn acp(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_acp")).args(args).output().expect("it runs")
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn suite(name: &str) -> String {
    let root: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../suites");
    root.join(name).display().to_string()
}

/// Verdicts by scenario out of a text report.
fn verdict(report: &str, scenario: &str) -> String {
    let line = report.lines().find(|line| line.split_whitespace().next() == Some(scenario));
    line.and_then(|line| line.split_whitespace().nth(1)).unwrap_or("none").to_owned()
}

const PLAIN: [&str; 11] = [
    "happy-path",
    "multi-turn",
    "cancel",
    "session-load",
    "permission-handling",
    "error-handling",
    "concurrent-sessions",
    "mcp-passthrough",
    "mcp-hot-reload",
    "framing",
    "disconnect",
];

#[test]
fn the_mock_passes_every_plain_scenario_in_both_forms() {
    for dialect in ["v1", "delta"] {
        let mock = Mock::start(&[]);
        let output =
            harness(&["--target", &mock.address, "--dialect", dialect, "--scenarios", &PLAIN.join(",")]);
        let report = text(&output);
        for scenario in PLAIN {
            assert_eq!(verdict(&report, scenario), "PASS", "{dialect} {scenario}\n{report}");
        }
        assert_eq!(output.status.code(), Some(0), "{report}");
        assert!(report.contains("unknown method: -32601"), "codes are recorded\n{report}");
    }
}

#[test]
fn in_any_other_form_a_scenario_passes_or_is_na_by_name() {
    for (dialect, lacking) in [
        ("2025.1", &["permission-handling", "mcp-passthrough", "mcp-hot-reload"][..]),
        ("probe", &["permission-handling"]),
        ("go", &[]),
    ] {
        let mock = Mock::start(&["--dialect", dialect, "--unasked", "allow"]);
        let output =
            harness(&["--target", &mock.address, "--dialect", dialect, "--scenarios", &PLAIN.join(",")]);
        let report = text(&output);
        for scenario in PLAIN {
            let expected = if lacking.contains(&scenario) { "NA" } else { "PASS" };
            assert_eq!(verdict(&report, scenario), expected, "{dialect} {scenario}\n{report}");
        }
        let named = report.contains(&format!("{dialect} cannot carry this: "));
        assert_eq!(named, !lacking.is_empty(), "{report}");
        assert_eq!(output.status.code(), Some(0), "{report}");
    }
}

#[test]
fn what_a_plain_mock_does_not_show_is_na_and_a_mock_with_the_flag_shows_it() {
    let plain = Mock::start(&[]);
    for (scenario, flags) in [
        ("fail-on-prompt", &["--fail-on-prompt"][..]),
        ("max-sessions", &["--max-sessions", "4"]),
        ("auth-required", &["--require-auth"]),
    ] {
        let mock = Mock::start(flags);
        for dialect in ["v1", "delta"] {
            let run = |address: &str| {
                harness(&["--target", address, "--dialect", dialect, "--scenarios", scenario])
            };
            let (without, with) = (run(&plain.address), run(&mock.address));
            assert_eq!(verdict(&text(&without), scenario), "NA", "{dialect} {}", text(&without));
            assert_eq!(without.status.code(), Some(0));
            assert_eq!(verdict(&text(&with), scenario), "PASS", "{dialect} {}", text(&with));
        }
    }
}

#[test]
fn ten_thousand_pieces_reach_a_slow_client() {
    let mock = Mock::start(&[]);
    let output = harness(&["--target", &mock.address, "--scenarios", "slow-client"]);
    assert_eq!(verdict(&text(&output), "slow-client"), "PASS", "{}", text(&output));
}

#[test]
fn a_session_survives_a_restart_of_the_agent() {
    for dialect in ["v1", "delta"] {
        let own = env!("CARGO_BIN_EXE_acp");
        let line = format!("{own} mock --stdio --dialect {dialect} --state-dir ${{home}}/sessions");
        let output = harness(&["--command", &line, "--dialect", dialect, "--scenarios", "session-load"]);
        let report = text(&output);
        assert_eq!(verdict(&report, "session-load"), "PASS", "{report}");
        assert!(report.contains("new-connection NA"), "{report}");
    }
}

/// Ways to be wrong, and the scenario that must notice.
const WRONG: [(&str, &[&str]); 21] = [
    ("happy-path", &["--defect", "update-after-turn"]),
    ("happy-path", &["--defect", "silent-turn"]),
    ("multi-turn", &["--defect", "refuses-text"]),
    ("cancel", &["--defect", "cancel-ends-turn-normally"]),
    ("cancel", &["--defect", "cancel-kills-session"]),
    ("session-load", &["--defect", "loads-without-replay"]),
    ("session-load", &["--defect", "replays-half"]),
    ("session-load", &["--defect", "replays-after-response"]),
    ("session-load", &["--defect", "loaded-session-is-dead"]),
    ("session-load", &["--defect", "advertised-load-missing"]),
    ("permission-handling", &["--defect", "executes-despite-rejection"]),
    ("error-handling", &["--defect", "accepts-unknown-method"]),
    ("error-handling", &["--defect", "deaf-after-bad-json"]),
    ("concurrent-sessions", &["--defect", "same-session-id"]),
    ("mcp-passthrough", &["--defect", "never-connects-mcp"]),
    ("mcp-passthrough", &["--defect", "pretends-mcp-calls"]),
    ("mcp-hot-reload", &["--defect", "no-reconnect-on-load"]),
    ("framing", &["--defect", "drops-long-lines"]),
    ("disconnect", &["--fault", "exit=7@<session/prompt"]),
    ("slow-client", &["--fault", "drop@session/update#5000"]),
    ("auth-required", &["--require-auth", "--defect", "forgets-login"]),
];

#[test]
fn an_agent_that_is_wrong_fails_the_scenario_that_is_about_it() {
    let missed = std::sync::Mutex::new(Vec::new());
    let next = std::sync::atomic::AtomicUsize::new(0);
    let work = || {
        while let Some((scenario, flags)) = WRONG.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed))
        {
            let mock = Mock::start(flags);
            let output = harness(&["--target", &mock.address, "--scenarios", scenario, "--timeout", "6s"]);
            let report = text(&output);
            if output.status.code() != Some(1) || verdict(&report, scenario) != "FAIL" {
                missed.lock().expect("no panic").push(format!("{flags:?} {report}"));
            }
        }
    };
    std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(work))));
    let missed = missed.into_inner().expect("no panic");
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

/// The script in a folder of its own, so that it links what was built for this test.
#[test]
fn the_validation_script_passes_against_the_mock() {
    let folder = tempfile::tempdir().expect("a folder");
    let script = folder.path().join("test/scripts/validate-acp.sh");
    std::fs::create_dir_all(script.parent().expect("a parent")).expect("a folder");
    let original = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../test/scripts/validate-acp.sh");
    std::fs::copy(&original, &script).expect("the script");
    let built = Path::new(env!("CARGO_BIN_EXE_acp")).parent().expect("a folder");
    let output = Command::new(&script)
        .env("SKIP_BUILD", "1")
        .env("FORMS", "delta")
        .env("PROFILE", built.file_name().expect("a profile"))
        .env("CARGO_TARGET_DIR", built.parent().expect("a target folder"))
        .env_remove("ACP_TARGET")
        .output()
        .expect("it runs");
    let report = text(&output);
    assert_eq!(output.status.code(), Some(0), "{report}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(report.contains("passed: 7, failed: 0"), "{report}");
    for name in ["acp", "acp-harness", "mock-acp-server", "acpcomply"] {
        assert!(folder.path().join("bin").join(name).exists(), "bin/{name} leads nowhere");
    }
}

#[test]
fn the_address_comes_from_the_environment_too() {
    let mock = Mock::start(&[]);
    let output = Command::new(env!("CARGO_BIN_EXE_acp-harness"))
        .args(["--scenarios", "happy-path,mcp-passthrough,session-load"])
        .env("ACP_TARGET", &mock.address)
        .output()
        .expect("it runs");
    let report = text(&output);
    for scenario in ["happy-path", "mcp-passthrough", "session-load"] {
        assert_eq!(verdict(&report, scenario), "PASS", "{report}");
    }
}

#[test]
fn wrong_usage_is_told_from_failure_and_from_an_agent_that_is_not_there() {
    let twice = harness(&["--target", "127.0.0.1:1", "--scenarios", "happy-path,happy-path"]);
    assert_eq!(twice.status.code(), Some(3), "{}", String::from_utf8_lossy(&twice.stderr));
    let unknown = harness(&["--target", "localhost:1", "--scenarios", "happy-pth"]);
    assert_eq!(unknown.status.code(), Some(2));
    let words = String::from_utf8_lossy(&unknown.stderr).into_owned();
    assert!(words.contains("happy-path") && words.contains("auth-required"), "{words}");
    assert_eq!(harness(&[]).status.code(), Some(2), "no address");
    assert_eq!(harness(&["--target", "nonsense"]).status.code(), Some(2), "no port");
    let gone = harness(&["--target", "127.0.0.1:1", "--scenarios", "happy-path"]);
    assert_eq!(gone.status.code(), Some(3), "{}", text(&gone));
    assert!(text(&gone).contains("does an agent listen there?"), "{}", text(&gone));
}

#[test]
fn reports_for_machines_hold_the_same() {
    let mock = Mock::start(&[]);
    let json = harness(&["--target", &mock.address, "--scenarios", "happy-path", "--format", "json"]);
    let results: serde_json::Value = serde_json::from_str(&text(&json)).expect("JSON");
    assert_eq!(results["agents"][0]["tests"][0]["verdict"], "PASS");
    let junit = harness(&["--target", &mock.address, "--scenarios", "happy-path", "--format", "junit"]);
    assert!(text(&junit).contains("<testcase"), "{}", text(&junit));
}

#[test]
fn the_mock_passes_every_dialects_own_suite_and_no_other_dialect_does() {
    let dialects = ["2025.1", "probe", "go", "delta"];
    for dialect in dialects {
        let run = |spoken: &str, flags: &str, factor: &str| {
            let line = format!("{} mock --stdio --dialect {spoken} {flags}", env!("CARGO_BIN_EXE_acp"));
            let suite = suite(dialect);
            let args = ["comply", &suite, "--command", &line, "--format", "json", "--timeout-factor", factor];
            let output = acp(&args);
            let results: serde_json::Value = serde_json::from_str(&text(&output)).expect("JSON");
            // The judge reads a translated copy; the conforming agent breaks no rule in it.
            let findings = results["agents"][0]["findings"].as_array().expect("findings");
            let broken: Vec<_> = findings.iter().filter(|finding| finding["grade"] == "fail").collect();
            assert!(spoken != dialect || broken.is_empty(), "{dialect}: {broken:?}");
            let tests = results["agents"][0]["tests"].as_array().expect("tests").clone();
            tests
                .iter()
                .map(|test| {
                    let word = |key: &str| test[key].as_str().unwrap_or_default().to_owned();
                    (word("id"), word("verdict"), word("reason"))
                })
                .collect::<Vec<_>>()
        };
        let plain = run(dialect, "", "1");
        assert!(plain.len() >= 8, "{dialect} has {} tests", plain.len());
        let bad: Vec<_> =
            plain.iter().filter(|(_, verdict, _)| verdict != "PASS" && verdict != "NA").collect();
        assert!(bad.is_empty(), "{dialect}: {bad:?}");
        // What needs a flag of the mock is NA without it and PASS with it.
        let mut open = plain;
        let count = open.len();
        open.retain(|(_, verdict, _)| verdict == "NA");
        let passes = |run: &[(String, String, String)], id: &str| {
            run.iter().any(|(other, verdict, _)| other == id && verdict == "PASS")
        };
        let with_login = run(dialect, "--require-auth", "1");
        open.retain(|(id, ..)| !passes(&with_login, id));
        // When nothing hangs on it, what has no answer is not waited for so long.
        let without_load = run(dialect, "--no-load-session", if open.is_empty() { "0.3" } else { "1" });
        open.retain(|(id, ..)| !passes(&without_load, id));
        assert!(open.is_empty(), "{dialect}: not done, whatever the flags: {open:?}");
        let other = if dialect == "probe" { "2025.1" } else { "probe" };
        let passes = run(other, "", "0.3").into_iter().filter(|(_, verdict, _)| verdict == "PASS").count();
        assert!(passes * 3 < count, "{passes} of the {dialect} tests pass against {other}");
    }
}

#[test]
fn the_matrix_shows_what_was_declared_and_seen() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("results.json").display().to_string();
    let mock = Mock::start(&["--no-load-session"]);
    let scenarios = "happy-path,cancel,session-load,permission-handling,mcp-passthrough";
    let run =
        harness(&["--target", &mock.address, "--scenarios", scenarios, "--format", "json", "--out", &file]);
    assert_eq!(run.status.code(), Some(0), "{}", String::from_utf8_lossy(&run.stderr));
    let json: serde_json::Value =
        serde_json::from_str(&text(&acp(&["matrix", &file, "--format", "json"]))).expect("JSON");
    let seen = |row: &str| {
        let rows = json["rows"].as_array().expect("rows");
        let at = rows.iter().position(|known| known["name"] == row).expect("a row");
        json["columns"][0]["cells"][at]["seen"].as_str().unwrap_or_default().to_owned()
    };
    for row in
        ["initialize", "session/new", "session/prompt", "session/cancel", "streaming", "permissionRequest"]
    {
        assert_eq!(seen(row), "right", "{row}: {json:#}");
    }
    assert_eq!(seen("mcpServers in session/new"), "right");
    assert_eq!(seen("session/load"), "unsupported");
    assert_eq!(seen("TCP mode"), "right");
    let markdown = text(&acp(&["matrix", &file]));
    assert!(markdown.contains("| session/load | ❌ not declared"), "{markdown}");
    let page = text(&acp(&["matrix", &file, "--format", "html"]));
    assert!(page.contains("<table>") && !page.contains("src="), "{page}");
    assert_eq!(acp(&["matrix", "no-such-file.json"]).status.code(), Some(2));
}

#[test]
fn the_judge_reads_along_where_a_test_is_in_a_forms_own_words() {
    let line =
        format!("{} mock --stdio --dialect delta --defect unknown-update-kind", env!("CARGO_BIN_EXE_acp"));
    let output =
        acp(&["comply", &suite("delta"), "--test", "delta.prompt", "--command", &line, "--format", "json"]);
    let results: serde_json::Value = serde_json::from_str(&text(&output)).expect("JSON");
    let findings = results["agents"][0]["findings"].as_array().expect("findings");
    assert!(findings.iter().any(|finding| finding["requirement"] == "PT-04"), "{results}");
}

#[test]
fn every_scenario_is_answered_by_the_policy_when_each_prompt_asks() {
    let mock = Mock::start(&["--send-permissions"]);
    let scenarios = ["happy-path", "multi-turn", "cancel", "mcp-passthrough", "concurrent-sessions"];
    for dialect in ["v1", "delta"] {
        let names = scenarios.join(",");
        let output = harness(&["--target", &mock.address, "--dialect", dialect, "--scenarios", &names]);
        let report = text(&output);
        for scenario in scenarios {
            assert_eq!(verdict(&report, scenario), "PASS", "{dialect}: {report}");
        }
        assert_eq!(output.status.code(), Some(0), "{dialect}: {report}");
    }
}
