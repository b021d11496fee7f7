//! What is played in memory comes out as it does with processes: the proof of the suite rests on that.

#[path = "../../../acp-play/tests/common/mod.rs"]
mod common;

use std::collections::BTreeMap;

use acp_play::{Actor, play, probe};
use acp_script::{defects, variants};
use serde_json::Value;

use crate::{comply, stderr};

/// Tests with files, terminals, permissions, MCP, restarts, raw bytes, cancelled turns and logins.
const TESTS: [&str; 14] = [
    "auth.gate-after-logout",
    "cancel.pending-permission",
    "fs.read",
    "init.version-999",
    "mcp.call",
    "mode.set",
    "permission.rejected",
    "plan.reported",
    "prompt.chunks",
    "rpc.parse-error",
    "session.list",
    "session.load-replays",
    "session.load-tool-status",
    "terminal.usage",
];

fn with_processes(flags: &str) -> BTreeMap<String, String> {
    let command = format!(
        "{} mock --stdio --dialect v1 --state-dir ${{home}}/sessions {flags}",
        env!("CARGO_BIN_EXE_acp")
    );
    let mut args = vec!["--format", "json", "--command", &command];
    args.extend(TESTS.iter().flat_map(|test| ["--test", test]));
    let output = comply(&args);
    let results: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", stderr(&output)));
    let tests = results["agents"][0]["tests"].as_array().expect("tests");
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    tests.iter().map(|test| (word(&test["id"]), word(&test["verdict"]))).collect()
}

fn in_memory(actor: &Actor) -> BTreeMap<String, String> {
    let suite: Vec<_> =
        common::suite("v1").into_iter().filter(|program| TESTS.contains(&program.id.as_str())).collect();
    let conditions = common::conditions().for_tests(&suite);
    let probed = probe(actor, &conditions);
    let verdict = |program| play(program, actor, &conditions, Some(&probed)).outcome.verdict.to_string();
    suite.iter().map(|program| (program.id.clone(), verdict(program))).collect()
}

#[test]
fn a_legal_variant_gets_the_same_verdicts() {
    let names = ["one-chunk", "sessions-in-memory", "no-plans", "unknown-sessions-are-invalid"];
    let chosen: Vec<_> = names.iter().map(|name| variants::find(name).expect("a variant")).collect();
    let actor = Actor::with(chosen.iter().copied()).expect("variants that go together");
    let flags: Vec<String> = names.iter().map(|name| format!("--variant {name}")).collect();
    assert_eq!(with_processes(&flags.join(" ")), in_memory(&actor));
}

#[test]
fn a_defect_gets_the_same_verdicts() {
    for name in ["executes-despite-rejection", "replays-tool-calls-unfinished"] {
        let defect = defects::find(name).expect("a defect");
        let (real, played) =
            (with_processes(&format!("--defect {name}")), in_memory(&Actor::default().broken(defect)));
        assert_eq!(real, played, "{name}");
        assert!(played.values().any(|verdict| verdict == "FAIL" || verdict == "WARN"), "{name}: {played:?}");
    }
}
