//! The conforming agent gives a judge nothing to find.

mod desk;

use std::collections::BTreeSet;

use acp_rules::Finding;
use acp_script::wishes::TABLE;
use desk::{Desk, all_caps, config};
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
                let mut desk = Desk::new(config(), &[], caps.clone());
                desk.greet();
                let session = desk.session();
                let answer = desk.prompt(&session, example).unwrap_or_default();
                let fails = wish.name == "fail";
                assert_eq!(answer.get("error").is_some(), fails, "{example}: {answer}");
                let findings = desk.finish();
                // A wish for an odd error code is the person's own fault.
                assert!(findings.is_empty() || fails, "{example} with {caps}:\n{}", tell(&findings));
            }
        }
    }
}

#[test]
fn the_whole_tour_gives_no_finding() {
    for chapter in desk::tour::CHAPTERS {
        let mut desk = Desk::new(config(), &[], all_caps());
        (chapter.run)(&mut desk);
        let findings = desk.finish();
        assert!(findings.is_empty(), "{}:\n{}", chapter.name, tell(&findings));
        assert!(!desk.dead, "{}", chapter.name);
    }
}

#[test]
fn every_kind_of_update_can_be_brought_about() {
    let mut kinds: BTreeSet<String> = BTreeSet::new();
    for chapter in desk::tour::CHAPTERS {
        let mut desk = Desk::new(config(), &[], all_caps());
        (chapter.run)(&mut desk);
        for line in &desk.log {
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
    let mut desk = Desk::new(config(), &[], all_caps());
    desk.greet();
    let session = desk.session();
    desk.verdict = "reject-once".to_owned();
    let answer = desk.prompt(&session, "Create a file named made.txt with text 'done'.").unwrap();
    assert_eq!(answer["result"]["stopReason"], "end_turn");
    assert!(!desk.files.contains_key("/work/made.txt"));
    desk.verdict = "allow-once".to_owned();
    desk.prompt(&session, "Create a file named made.txt with text 'done'.");
    assert_eq!(desk.files["/work/made.txt"], "done");
}

#[test]
fn a_cancelled_turn_ends_at_once_and_the_session_goes_on() {
    let mut desk = Desk::new(config(), &[], all_caps());
    desk.greet();
    let session = desk.session();
    let turn = desk.begin_prompt(&session, "Think a bit then respond.");
    desk.settle(std::time::Duration::from_millis(700));
    let before = desk.now;
    desk.tell("session/cancel", &json!({ "sessionId": session }));
    assert_eq!(desk.answer_to(turn).unwrap()["result"]["stopReason"], "cancelled");
    assert_eq!(desk.now, before, "no time passed");
    assert_eq!(desk.prompt(&session, "Say hello.").unwrap()["result"]["stopReason"], "end_turn");
}

#[test]
fn thinking_a_bit_takes_well_over_a_second() {
    let mut desk = Desk::new(config(), &[], all_caps());
    desk.greet();
    let session = desk.session();
    desk.prompt(&session, "Think a bit then respond.");
    assert!(desk.now.as_millis() > 2000, "{:?}", desk.now);
}

#[test]
fn a_loaded_session_is_replayed_before_the_answer_and_a_resumed_one_is_not() {
    let mut desk = Desk::new(config(), &[], all_caps());
    desk.greet();
    let session = desk.session();
    desk.prompt(&session, "Remember the word tamarind.");
    desk.prompt(&session, "Read notes.txt");
    let place = json!({ "sessionId": session, "cwd": "/work", "mcpServers": [] });
    let start = desk.log.len();
    desk.ask("session/load", &place);
    let replay = desk.log[start..].join("\n");
    let response = replay.find("\"result\"").unwrap();
    for part in ["Remember the word tamarind.", "I shall remember it.", "\"tool_call\"", "rosemary and thyme"]
    {
        assert!(replay.find(part).is_some_and(|at| at < response), "{part} in {replay}");
    }
    let start = desk.log.len();
    desk.ask("session/resume", &place);
    assert!(!desk.log[start..].join("\n").contains("_message_chunk"));
    desk.prompt(&session, "Which word did I ask you to remember?");
    assert!(desk.log.join("\n").contains("tamarind"));
}
