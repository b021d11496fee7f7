//! Tasks in sessions of the agent's own.

use serde_json::{Value, json};

use crate::desk::{Desk, config, config_with};

/// A prompt that delegates so many tasks at once, each of which waits for a search.
fn tasks(number: usize) -> String {
    (0..number).map(|n| format!("Delegate the task 'Search for \"word{n}\"'. ")).collect()
}

impl Desk {
    fn found(&mut self, at: usize, text: &str) {
        let token = self.tools[at].token;
        let output = acp_script::agent::ToolOutput { text: text.to_owned(), ..Default::default() };
        self.agent.tool_answered(token, Ok(output));
        self.run();
    }
}

#[test]
fn a_task_is_done_by_a_child_whose_work_is_visible_and_whose_words_are_the_result() {
    let mut desk = Desk::new(config(), &json!({}));
    let prompt = desk.prompt(&tasks(1));
    assert_eq!(desk.tools.len(), 1);
    assert_eq!(desk.tools[0].session, desk.session, "a child works in its parent's session for the world");
    desk.found(0, "found it");
    assert_eq!(desk.answer(prompt)["result"]["stopReason"], "end_turn");
    assert_eq!(desk.states("delegate"), ["pending", "in_progress", "completed"]);
    assert_eq!(desk.states("search"), ["pending", "in_progress", "completed"]);
    assert!(desk.words().contains("found it"), "{}", desk.words());
    let all: Vec<&Value> = desk.sent.iter().filter(|frame| frame["method"] == "session/update").collect();
    assert!(all.iter().all(|frame| frame["params"]["sessionId"] == desk.session.as_str()));
    let record = desk.stored.as_ref().expect("a record");
    let kept: Vec<&str> = record.history.iter().filter_map(|entry| entry["name"].as_str()).collect();
    assert_eq!(kept, ["search", "delegate"], "the history has what the client saw");
}

#[test]
fn a_client_that_knows_subagents_sees_the_childs_own_session() {
    let mut desk = Desk::new(config(), &json!({ "subagents": {} }));
    let prompt = desk.prompt(&tasks(1));
    desk.found(0, "found it");
    assert_eq!(desk.answer(prompt)["result"]["stopReason"], "end_turn");
    let updates: Vec<&Value> = desk
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
    assert_eq!(updates[announced]["sessionId"], desk.session.as_str());
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
    assert_eq!(desk.states("delegate"), ["pending", "in_progress", "completed"]);
}

#[test]
fn a_session_that_is_loaded_shows_a_task_before_what_its_child_did() {
    let mut desk = Desk::new(config(), &json!({}));
    desk.prompt("Search for 'before'. Delegate the task 'Search for \"within\"'. Search for 'after'.");
    for at in 0..3 {
        desk.found(at, "x");
    }
    let record = desk.stored.clone().expect("a record");
    let mut desk = Desk::new(config(), &json!({}));
    desk.sent.clear();
    desk.ask("session/load", &json!({ "sessionId": record.id, "cwd": "/work", "mcpServers": [] }));
    let token = desk.fetches.pop().expect("a fetch");
    desk.agent.session_fetched(token, &record.id, Some(record.clone()));
    desk.run();
    let calls: Vec<&Value> =
        desk.updates().into_iter().filter(|update| update["toolCallId"].is_string()).collect();
    let names: Vec<&str> = calls.iter().filter_map(|call| call["name"].as_str()).collect();
    assert_eq!(names, ["search", "delegate", "search", "search"]);
    assert_eq!(calls[2]["_meta"]["acp.workbench/delegate"], calls[1]["toolCallId"]);
    assert_eq!(calls[3]["rawInput"]["query"], "after");
    let shown =
        desk.updates().into_iter().filter(|update| update["sessionUpdate"] != "available_commands_update");
    assert_eq!(shown.count(), record.history.len(), "nothing is lost");
}

#[test]
fn three_work_at_once_and_the_next_begins_when_one_is_done() {
    let mut desk = Desk::new(config(), &json!({}));
    let prompt = desk.prompt(&tasks(5));
    assert_eq!(desk.tools.len(), 3);
    desk.found(1, "b");
    assert_eq!(desk.tools.len(), 4);
    for at in [0, 2, 3, 4] {
        desk.found(at, "x");
    }
    assert_eq!(desk.answer(prompt)["result"]["stopReason"], "end_turn");
    assert_eq!(desk.states("delegate").iter().filter(|state| *state == "completed").count(), 5);
}

#[test]
fn a_session_delegates_ten_tasks_and_no_more() {
    let mut desk = Desk::new(config(), &json!({}));
    let prompt = desk.prompt(&tasks(12));
    let mut at = 0;
    while at < desk.tools.len() {
        desk.found(at, "x");
        at += 1;
    }
    assert_eq!(at, 10);
    desk.answer(prompt);
    let states = desk.states("delegate");
    assert_eq!(states.iter().filter(|state| *state == "failed").count(), 2);
    assert!(desk.words().contains("10 tasks"), "{}", desk.words());
    desk.prompt(&tasks(1));
    assert_eq!(desk.tools.len(), 10, "the limit holds for the session, not for the turn");
}

#[test]
fn a_child_delegates_nothing() {
    let mut desk = Desk::new(config(), &json!({}));
    let prompt = desk.prompt("Delegate the task 'Delegate: say something'.");
    assert_eq!(desk.answer(prompt)["result"]["stopReason"], "end_turn");
    assert_eq!(desk.states("delegate").iter().filter(|state| *state == "failed").count(), 1);
    assert!(desk.words().contains("cannot be delegated further"), "{}", desk.words());
}

#[test]
fn a_child_has_five_minutes() {
    let mut desk = Desk::new(config(), &json!({}));
    let prompt = desk.prompt(&tasks(1));
    desk.pass(299);
    assert!(desk.find(prompt).is_none());
    desk.pass(2);
    assert_eq!(desk.answer(prompt)["result"]["stopReason"], "end_turn");
    assert_eq!(desk.states("delegate").last().map(String::as_str), Some("failed"));
    assert_eq!(desk.abandoned, [desk.tools[0].token]);
    assert!(desk.words().contains("300 s"), "{}", desk.words());
}

#[test]
fn cancelling_the_parent_cancels_its_children_and_those_that_wait() {
    let mut desk = Desk::new(config(), &json!({}));
    let prompt = desk.prompt(&tasks(5));
    desk.cancel();
    assert_eq!(desk.answer(prompt)["result"]["stopReason"], "cancelled");
    assert_eq!(desk.abandoned.len(), 3);
    assert_eq!(desk.tools.len(), 3);
    assert_eq!(desk.states("delegate").iter().filter(|state| *state == "failed").count(), 5);
    let again = desk.prompt("Say 'still here'");
    assert_eq!(desk.answer(again)["result"]["stopReason"], "end_turn");
}

#[test]
fn a_childs_questions_are_asked_in_the_parents_session() {
    let mut desk = Desk::new(config(), &json!({}));
    desk.prompt("Delegate the task 'Run the command \"make\"'.");
    let asked = desk.sent.iter().find(|frame| frame["method"] == "session/request_permission");
    assert_eq!(asked.expect("a question")["params"]["sessionId"], desk.session.as_str());
}

#[test]
fn a_childs_mode_and_standing_permissions_are_its_parents() {
    let mut desk = Desk::new(config(), &json!({}));
    desk.prompt("Delegate the task 'Run the command \"make\", then run the command \"make\"'.");
    let always = json!({ "outcome": { "outcome": "selected", "optionId": "allow-always" } });
    desk.reply("session/request_permission", &always);
    desk.cancel();
    desk.pass(5);
    desk.prompt("Run the command 'make'");
    assert_eq!(desk.questions_asked(), 1, "what was allowed for good in a child is allowed in its parent");
    desk.cancel();
    desk.pass(5);

    let prompt = desk.prompt("Delegate the task 'Search for \"word\", then run the command \"touch a\"'.");
    desk.ask("session/set_mode", &json!({ "sessionId": desk.session, "modeId": "PLANNING" }));
    desk.found(desk.tools.len() - 1, "x");
    assert_eq!(desk.answer(prompt)["result"]["stopReason"], "end_turn");
    assert_eq!(desk.questions_asked(), 1, "nothing is run while planning");
    assert_eq!(desk.states("run_command").last().map(String::as_str), Some("failed"));
}

#[test]
fn what_a_child_was_doing_when_the_process_ended_is_loaded_as_failed() {
    let mut desk = Desk::new(config(), &json!({}));
    desk.prompt(&tasks(1));
    let record = desk.stored.clone().expect("the turn is kept while it runs");
    let kept: Vec<&str> = record.draft.iter().filter_map(|entry| entry["name"].as_str()).collect();
    assert_eq!(kept, ["delegate", "search"]);
    assert_eq!(record.draft[1]["_meta"]["acp.workbench/delegate"], record.draft[0]["toolCallId"]);
    desk.found(0, "found it");
    assert!(desk.stored.as_ref().expect("a record").draft.is_empty());
}

#[test]
fn without_leave_nothing_is_delegated() {
    let mut desk = Desk::new(config_with(|config| config.abilities.delegate = false), &json!({}));
    let prompt = desk.prompt(&tasks(1));
    assert_eq!(desk.answer(prompt)["result"]["stopReason"], "end_turn");
    assert!(desk.tools.is_empty());
    assert!(desk.words().contains("nobody to delegate"), "{}", desk.words());
}
