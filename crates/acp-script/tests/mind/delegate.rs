//! Tasks in sessions of the agent's own.

use serde_json::{Value, json};

use crate::harness::{AgentUnderTest, config, config_with};

/// A prompt that delegates so many tasks at once, each of which waits for a search.
fn tasks(number: usize) -> String {
    (0..number).map(|n| format!("Delegate the task 'Search for \"word{n}\"'. ")).collect()
}

impl AgentUnderTest {
    fn found(&mut self, at: usize, text: &str) {
        let token = self.tools[at].token;
        let output = acp_script::agent::ToolOutput { text: text.to_owned(), ..Default::default() };
        self.agent.tool_answered(token, Ok(output));
        self.run();
    }
}

#[test]
fn a_task_is_done_by_a_child_whose_work_is_visible_and_whose_words_are_the_result() {
    let mut harness = AgentUnderTest::new(config(), &json!({}));
    let prompt = harness.prompt(&tasks(1));
    assert_eq!(harness.tools.len(), 1);
    assert_eq!(
        harness.tools[0].session, harness.session,
        "a child works in its parent's session for the world"
    );
    harness.found(0, "found it");
    assert_eq!(harness.answer(prompt)["result"]["stopReason"], "end_turn");
    assert_eq!(harness.states("delegate"), ["pending", "in_progress", "completed"]);
    assert_eq!(harness.states("search"), ["pending", "in_progress", "completed"]);
    assert!(harness.words().contains("found it"), "{}", harness.words());
    let all: Vec<&Value> = harness.sent.iter().filter(|frame| frame["method"] == "session/update").collect();
    assert!(all.iter().all(|frame| frame["params"]["sessionId"] == harness.session.as_str()));
    let record = harness.stored.as_ref().expect("a record");
    let kept: Vec<&str> = record.history.iter().filter_map(|entry| entry["name"].as_str()).collect();
    assert_eq!(kept, ["search", "delegate"], "the history has what the client saw");
}

#[test]
fn a_client_that_knows_subagents_sees_the_childs_own_session() {
    let mut harness = AgentUnderTest::new(config(), &json!({ "subagents": {} }));
    let prompt = harness.prompt(&tasks(1));
    harness.found(0, "found it");
    assert_eq!(harness.answer(prompt)["result"]["stopReason"], "end_turn");
    let updates: Vec<&Value> = harness
        .sent
        .iter()
        .filter(|frame| frame["method"] == "session/update")
        .map(|it| &it["params"])
        .collect();
    let announced = updates
        .iter()
        .position(|it| it["update"]["sessionUpdate"] == "subagent_update")
        .expect("the child is announced");
    let child = updates[announced]["update"]["sessionId"].clone();
    assert_eq!(updates[announced]["sessionId"], harness.session.as_str());
    assert_eq!(updates[announced]["update"]["description"], "Search for \"word0\"");
    assert!(updates[..announced].iter().all(|it| it["sessionId"] != child), "nothing before it is known");
    let inside: Vec<&str> = updates
        .iter()
        .filter(|it| it["sessionId"] == child)
        .filter_map(|it| it["update"]["sessionUpdate"].as_str())
        .collect();
    assert_eq!(inside[0], "session_message");
    assert!(inside.contains(&"tool_call") && inside.contains(&"agent_message_chunk"), "{inside:?}");
    let states: Vec<&Value> = updates
        .iter()
        .filter(|it| it["update"]["sessionUpdate"] == "subagent_update")
        .map(|it| &it["update"]["state"]["state"])
        .collect();
    assert_eq!(states, ["running", "idle"]);
    // The task is a tool call of the parent, as for every client.
    assert_eq!(harness.states("delegate"), ["pending", "in_progress", "completed"]);
}

#[test]
fn a_session_that_is_loaded_shows_a_task_before_what_its_child_did() {
    let mut harness = AgentUnderTest::new(config(), &json!({}));
    harness.prompt("Search for 'before'. Delegate the task 'Search for \"within\"'. Search for 'after'.");
    for at in 0..3 {
        harness.found(at, "x");
    }
    let record = harness.stored.clone().expect("a record");
    let mut harness = AgentUnderTest::new(config(), &json!({}));
    harness.sent.clear();
    harness.ask("session/load", &json!({ "sessionId": record.id, "cwd": "/work", "mcpServers": [] }));
    let token = harness.fetches.pop().expect("a fetch");
    harness.agent.session_fetched(token, &record.id, Some(record.clone()));
    harness.run();
    let calls: Vec<&Value> =
        harness.updates().into_iter().filter(|update| update["toolCallId"].is_string()).collect();
    let names: Vec<&str> = calls.iter().filter_map(|call| call["name"].as_str()).collect();
    assert_eq!(names, ["search", "delegate", "search", "search"]);
    assert_eq!(calls[2]["_meta"]["acp.workbench/delegate"], calls[1]["toolCallId"]);
    assert_eq!(calls[3]["rawInput"]["query"], "after");
    let shown =
        harness.updates().into_iter().filter(|update| update["sessionUpdate"] != "available_commands_update");
    assert_eq!(shown.count(), record.history.len(), "nothing is lost");
}

#[test]
fn three_work_at_once_and_the_next_begins_when_one_is_done() {
    let mut harness = AgentUnderTest::new(config(), &json!({}));
    let prompt = harness.prompt(&tasks(5));
    assert_eq!(harness.tools.len(), 3);
    harness.found(1, "b");
    assert_eq!(harness.tools.len(), 4);
    for at in [0, 2, 3, 4] {
        harness.found(at, "x");
    }
    assert_eq!(harness.answer(prompt)["result"]["stopReason"], "end_turn");
    assert_eq!(harness.states("delegate").iter().filter(|state| *state == "completed").count(), 5);
}

#[test]
fn a_session_delegates_ten_tasks_and_no_more() {
    let mut harness = AgentUnderTest::new(config(), &json!({}));
    let prompt = harness.prompt(&tasks(12));
    let mut at = 0;
    while at < harness.tools.len() {
        harness.found(at, "x");
        at += 1;
    }
    assert_eq!(at, 10);
    harness.answer(prompt);
    let states = harness.states("delegate");
    assert_eq!(states.iter().filter(|state| *state == "failed").count(), 2);
    assert!(harness.words().contains("10 tasks"), "{}", harness.words());
    harness.prompt(&tasks(1));
    assert_eq!(harness.tools.len(), 10, "the limit holds for the session, not for the turn");
}

#[test]
fn a_child_delegates_nothing() {
    let mut harness = AgentUnderTest::new(config(), &json!({}));
    let prompt = harness.prompt("Delegate the task 'Delegate: say something'.");
    assert_eq!(harness.answer(prompt)["result"]["stopReason"], "end_turn");
    assert_eq!(harness.states("delegate").iter().filter(|state| *state == "failed").count(), 1);
    assert!(harness.words().contains("cannot be delegated further"), "{}", harness.words());
}

#[test]
fn a_child_has_five_minutes() {
    let mut harness = AgentUnderTest::new(config(), &json!({}));
    let prompt = harness.prompt(&tasks(1));
    harness.pass(299);
    assert!(harness.find(prompt).is_none());
    harness.pass(2);
    assert_eq!(harness.answer(prompt)["result"]["stopReason"], "end_turn");
    assert_eq!(harness.states("delegate").last().map(String::as_str), Some("failed"));
    assert_eq!(harness.abandoned, [harness.tools[0].token]);
    assert!(harness.words().contains("300 s"), "{}", harness.words());
}

#[test]
fn cancelling_the_parent_cancels_its_children_and_those_that_wait() {
    let mut harness = AgentUnderTest::new(config(), &json!({}));
    let prompt = harness.prompt(&tasks(5));
    harness.cancel();
    assert_eq!(harness.answer(prompt)["result"]["stopReason"], "cancelled");
    assert_eq!(harness.abandoned.len(), 3);
    assert_eq!(harness.tools.len(), 3);
    assert_eq!(harness.states("delegate").iter().filter(|state| *state == "failed").count(), 5);
    let again = harness.prompt("Say 'still here'");
    assert_eq!(harness.answer(again)["result"]["stopReason"], "end_turn");
}

#[test]
fn a_childs_questions_are_asked_in_the_parents_session() {
    let mut harness = AgentUnderTest::new(config(), &json!({}));
    harness.prompt("Delegate the task 'Run the command \"make\"'.");
    let asked = harness.sent.iter().find(|frame| frame["method"] == "session/request_permission");
    assert_eq!(asked.expect("a question")["params"]["sessionId"], harness.session.as_str());
}

#[test]
fn a_childs_mode_and_standing_permissions_are_its_parents() {
    let mut harness = AgentUnderTest::new(config(), &json!({}));
    harness.prompt("Delegate the task 'Run the command \"make\", then run the command \"make\"'.");
    let always = json!({ "outcome": { "outcome": "selected", "optionId": "allow-always" } });
    harness.reply("session/request_permission", &always);
    harness.cancel();
    harness.pass(5);
    harness.prompt("Run the command 'make'");
    assert_eq!(harness.questions_asked(), 1, "what was allowed for good in a child is allowed in its parent");
    harness.cancel();
    harness.pass(5);

    let prompt = harness.prompt("Delegate the task 'Search for \"word\", then run the command \"touch a\"'.");
    harness.ask("session/set_mode", &json!({ "sessionId": harness.session, "modeId": "PLANNING" }));
    harness.found(harness.tools.len() - 1, "x");
    assert_eq!(harness.answer(prompt)["result"]["stopReason"], "end_turn");
    assert_eq!(harness.questions_asked(), 1, "nothing is run while planning");
    assert_eq!(harness.states("run_command").last().map(String::as_str), Some("failed"));
}

#[test]
fn what_a_child_was_doing_when_the_process_ended_is_loaded_as_failed() {
    let mut harness = AgentUnderTest::new(config(), &json!({}));
    harness.prompt(&tasks(1));
    let record = harness.stored.clone().expect("the turn is kept while it runs");
    let kept: Vec<&str> = record.draft.iter().filter_map(|entry| entry["name"].as_str()).collect();
    assert_eq!(kept, ["delegate", "search"]);
    assert_eq!(record.draft[1]["_meta"]["acp.workbench/delegate"], record.draft[0]["toolCallId"]);
    harness.found(0, "found it");
    assert!(harness.stored.as_ref().expect("a record").draft.is_empty());
}

#[test]
fn without_leave_nothing_is_delegated() {
    let mut harness =
        AgentUnderTest::new(config_with(|config| config.abilities.delegate = false), &json!({}));
    let prompt = harness.prompt(&tasks(1));
    assert_eq!(harness.answer(prompt)["result"]["stopReason"], "end_turn");
    assert!(harness.tools.is_empty());
    assert!(harness.words().contains("nobody to delegate"), "{}", harness.words());
}
