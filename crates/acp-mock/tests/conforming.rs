//! The conforming agent gives a judge nothing to find.

mod harness;

use std::collections::BTreeSet;

use acp_rules::Finding;
use acp_script::wishes::TABLE;
use harness::{AgentUnderTest, all_caps, config};
use serde_json::{Value, json};

fn tell(findings: &[Finding]) -> String {
    findings
        .iter()
        .map(|finding| format!("{} {}: {}\n", finding.requirement, finding.rule, finding.message))
        .collect()
}

#[test]
fn every_wish_is_granted_without_a_finding() {
    for caps in [all_caps(), json!({}), json!({ "fs": { "readTextFile": true }, "terminal": false })] {
        for wish in TABLE {
            for example in wish.examples {
                let mut harness = AgentUnderTest::new(config(), &[], caps.clone());
                harness.greet();
                let session = harness.session();
                let answer = harness.prompt(&session, example).unwrap_or_default();
                let fails = wish.name == "fail";
                assert_eq!(answer.get("error").is_some(), fails, "{example}: {answer}");
                let findings = harness.finish();
                // A wish for an odd error code is the person's own fault.
                assert!(findings.is_empty() || fails, "{example} with {caps}:\n{}", tell(&findings));
            }
        }
    }
}

#[test]
fn the_whole_tour_gives_no_finding() {
    for chapter in harness::tour::CHAPTERS {
        let mut harness = AgentUnderTest::new(config(), &[], all_caps());
        (chapter.run)(&mut harness);
        let findings = harness.finish();
        assert!(findings.is_empty(), "{}:\n{}", chapter.name, tell(&findings));
        assert!(!harness.dead, "{}", chapter.name);
    }
}

#[test]
fn every_kind_of_update_can_be_brought_about() {
    let mut kinds: BTreeSet<String> = BTreeSet::new();
    for chapter in harness::tour::CHAPTERS {
        let mut harness = AgentUnderTest::new(config(), &[], all_caps());
        (chapter.run)(&mut harness);
        for line in &harness.log {
            let Some((_, text)) = line.split_once(' ') else { continue };
            let frame: Value = serde_json::from_str(text).unwrap_or_default();
            kinds.extend(
                frame.pointer("/params/update/sessionUpdate").and_then(Value::as_str).map(str::to_owned),
            );
        }
    }
    let all = [
        "agent_message_chunk",
        "agent_thought_chunk",
        "available_commands_update",
        "compaction_summary_chunk",
        "compaction_update",
        "config_option_update",
        "current_mode_update",
        "notice",
        "plan",
        "session_info_update",
        "tool_call",
        "tool_call_update",
        "usage_update",
        "user_message_chunk",
    ];
    let missing: Vec<&str> = all.into_iter().filter(|kind| !kinds.contains(*kind)).collect();
    assert!(missing.is_empty(), "never seen: {missing:?}");
    assert_eq!(kinds.len(), all.len(), "{kinds:?}");
}

#[test]
fn a_rejected_write_leaves_the_file_alone() {
    let mut harness = AgentUnderTest::new(config(), &[], all_caps());
    harness.greet();
    let session = harness.session();
    harness.verdict = "reject-once".to_owned();
    let answer = harness.prompt(&session, "Create a file named made.txt with text 'done'.").unwrap();
    assert_eq!(answer["result"]["stopReason"], "end_turn");
    assert!(!harness.files.contains_key("/work/made.txt"));
    harness.verdict = "allow-once".to_owned();
    harness.prompt(&session, "Create a file named made.txt with text 'done'.");
    assert_eq!(harness.files["/work/made.txt"], "done");
}

#[test]
fn a_cancelled_turn_ends_at_once_and_the_session_goes_on() {
    let mut harness = AgentUnderTest::new(config(), &[], all_caps());
    harness.greet();
    let session = harness.session();
    let turn = harness.begin_prompt(&session, "Think a bit then respond.");
    harness.settle(std::time::Duration::from_millis(700));
    let before = harness.now;
    harness.tell("session/cancel", &json!({ "sessionId": session }));
    assert_eq!(harness.answer_to(turn).unwrap()["result"]["stopReason"], "cancelled");
    assert_eq!(harness.now, before, "no time passed");
    assert_eq!(harness.prompt(&session, "Say hello.").unwrap()["result"]["stopReason"], "end_turn");
}

#[test]
fn thinking_a_bit_takes_well_over_a_second() {
    let mut harness = AgentUnderTest::new(config(), &[], all_caps());
    harness.greet();
    let session = harness.session();
    harness.prompt(&session, "Think a bit then respond.");
    assert!(harness.now.as_millis() > 2000, "{:?}", harness.now);
}

#[test]
fn a_loaded_session_is_replayed_before_the_answer_and_a_resumed_one_is_not() {
    let mut harness = AgentUnderTest::new(config(), &[], all_caps());
    harness.greet();
    let session = harness.session();
    harness.prompt(&session, "Remember the word tamarind.");
    harness.prompt(&session, "Read notes.txt");
    let place = json!({ "sessionId": session, "cwd": "/work", "mcpServers": [] });
    let start = harness.log.len();
    harness.ask("session/load", &place);
    let replay = harness.log[start..].join("\n");
    let response = replay.find("\"result\"").unwrap();
    for part in ["Remember the word tamarind.", "I shall remember it.", "\"tool_call\"", "rosemary and thyme"]
    {
        assert!(replay.find(part).is_some_and(|at| at < response), "{part} in {replay}");
    }
    let start = harness.log.len();
    harness.ask("session/resume", &place);
    assert!(!harness.log[start..].join("\n").contains("_message_chunk"));
    harness.prompt(&session, "Which word did I ask you to remember?");
    assert!(harness.log.join("\n").contains("tamarind"));
}
