//! Hands of its own, and what they may not do.

use acp_policy::ToolPatterns;
use acp_rpc::{Frame, Id, RpcError};
use acp_script::agent::{AgentConfig, ToolOutput};
use serde_json::{Value, json};

use crate::harness::{AgentUnderTest, config, config_with};

#[test]
fn what_the_client_cannot_do_the_agent_does_itself() {
    let mut harness = AgentUnderTest::new(config(), &json!({}));
    let prompt = harness.prompt("Read notes.txt");
    assert_eq!(harness.own[0]["method"], "fs/read_text_file");
    assert_eq!(harness.own[0]["params"]["path"], "/work/notes.txt");
    harness.reply("fs/read_text_file", &json!({ "content": "thyme" }));
    assert_eq!(harness.answer(prompt)["result"]["stopReason"], "end_turn");
    assert!(harness.words().contains("thyme"));
}

#[test]
fn what_the_client_can_do_it_does() {
    let mut harness =
        AgentUnderTest::new(config(), &json!({ "fs": { "readTextFile": true }, "terminal": true }));
    harness.prompt("Read notes.txt");
    assert!(harness.own.is_empty());
    assert!(harness.sent.iter().any(|frame| frame["method"] == "fs/read_text_file"));
}

#[test]
fn a_command_of_its_own_shows_its_output_and_no_terminal() {
    let mut harness = AgentUnderTest::new(config(), &json!({}));
    harness.prompt("Run the command 'make'");
    harness.allow();
    harness.reply("terminal/create", &json!({ "terminalId": "t" }));
    harness.reply("terminal/wait_for_exit", &json!({ "exitCode": 0, "signal": null }));
    harness.reply("terminal/output", &json!({ "output": "built", "truncated": false }));
    harness.reply("terminal/release", &json!({}));
    assert_eq!(harness.states("run_command"), ["pending", "in_progress", "completed"]);
    let content: String = harness.updates().iter().map(|update| update["content"].to_string()).collect();
    assert!(content.contains("built") && !content.contains("terminalId"), "{content}");
}

#[test]
fn a_turn_that_is_cancelled_while_a_terminal_is_released_ends_then() {
    for (config, answered) in
        [(config(), true), (config(), false), (AgentConfig::default(), true), (AgentConfig::default(), false)]
    {
        let mut harness =
            AgentUnderTest::new(config, &json!({ "fs": { "readTextFile": true }, "terminal": true }));
        let prompt = harness.prompt("Run the command 'make'. Read notes.txt.");
        harness.allow();
        harness.reply("terminal/create", &json!({ "terminalId": "t" }));
        harness.reply("terminal/wait_for_exit", &json!({ "exitCode": 0, "signal": null }));
        harness.reply("terminal/output", &json!({ "output": "built", "truncated": false }));
        harness.cancel();
        match answered {
            true => harness.reply("terminal/release", &json!({})),
            false => harness.pass(2),
        }
        assert_eq!(harness.answer(prompt)["result"]["stopReason"], "cancelled");
        let times = |method: &str| harness.sent.iter().filter(|frame| frame["method"] == method).count();
        assert_eq!((times("terminal/release"), times("fs/read_text_file")), (1, 0));
        assert_eq!(harness.states("run_command").last().map(String::as_str), Some("completed"));
    }
}

#[test]
fn writes_and_commands_wait_for_permission_and_reads_do_not() {
    let mut harness = AgentUnderTest::new(config(), &json!({}));
    harness.prompt("Write 'x' to a.txt");
    harness.reply("fs/read_text_file", &json!({ "content": "old" }));
    assert!(!harness.own.iter().any(|frame| frame["method"] == "fs/write_text_file"));
    let asked = harness.sent.iter().find(|frame| frame["method"] == "session/request_permission");
    assert_eq!(asked.expect("a question")["params"]["toolCall"]["content"][0]["type"], "diff");
    harness.allow();
    harness.reply("fs/read_text_file", &json!({ "content": "old" }));
    assert!(harness.own.iter().any(|frame| frame["method"] == "fs/write_text_file"));
}

#[test]
fn what_somebody_else_changed_while_the_person_decided_is_not_overwritten() {
    for (wish, written) in [
        ("Write 'x' to a.txt", None),
        ("Replace 'two' with '2' in a.txt", Some("zero\none\n2\n")),
        ("Append 'three' to a.txt", Some("zero\none\ntwo\nthree")),
    ] {
        let mut harness = AgentUnderTest::new(config(), &json!({}));
        let prompt = harness.prompt(wish);
        harness.reply("fs/read_text_file", &json!({ "content": "one\ntwo\n" }));
        harness.allow();
        harness.reply("fs/read_text_file", &json!({ "content": "zero\none\ntwo\n" }));
        let write = harness.own.iter().find(|frame| frame["method"] == "fs/write_text_file");
        assert_eq!(write.and_then(|write| write["params"]["content"].as_str()), written, "{wish}");
        if written.is_none() {
            assert_eq!(harness.answer(prompt)["result"]["stopReason"], "end_turn");
            assert!(harness.words().contains("changed by somebody else"), "{}", harness.words());
        }
    }
}

#[test]
fn always_is_about_one_command_and_about_every_change_of_a_file() {
    let mut harness = AgentUnderTest::new(config(), &json!({}));
    let always = json!({ "outcome": { "outcome": "selected", "optionId": "allow-always" } });
    harness.prompt("Run the command 'make'");
    assert_eq!(harness.questions_asked(), 1);
    let options = harness.sent.iter().rfind(|frame| frame["method"] == "session/request_permission");
    assert_eq!(options.expect("a question")["params"]["options"][1]["name"], "Always allow this command");
    harness.reply("session/request_permission", &always);
    for (wish, asked) in
        [("Run the command 'make'", 1), ("Run the command 'make clean'", 2), ("Run the command 'rm a'", 3)]
    {
        harness.cancel();
        harness.pass(5);
        harness.prompt(wish);
        assert_eq!(harness.questions_asked(), asked, "{wish}");
    }
    harness.cancel();
    harness.pass(5);
    harness.prompt("Write 'x' to a.txt");
    harness.reply("fs/read_text_file", &json!({ "content": "old" }));
    assert_eq!(harness.questions_asked(), 4);
    harness.reply("session/request_permission", &always);
    harness.cancel();
    harness.pass(5);
    harness.prompt("Write 'y' to b.txt");
    harness.reply("fs/read_text_file", &json!({ "content": "old" }));
    assert_eq!(harness.questions_asked(), 4);
    assert!(harness.own.iter().any(|frame| frame["method"] == "fs/write_text_file"));
}

#[test]
fn files_that_may_not_be_read_may_not_be_extracted() {
    let deny = ToolPatterns::parse(["Read(secret/**)"]).expect("a pattern");
    for piece in ["secret/a.rs", "secret/a.rs#Key", "./secret/a.rs:3-9", "/work/secret/a.rs:3:1"] {
        let mut harness =
            AgentUnderTest::new(config_with(|config| config.rules.deny = deny.clone()), &json!({}));
        let prompt = harness.prompt(&format!("/extract {piece}"));
        assert_eq!(harness.answer(prompt)["result"]["stopReason"], "end_turn");
        assert!(
            harness.tools.is_empty() && harness.words().contains("Read(secret/**)"),
            "{}",
            harness.words()
        );
        harness.prompt("Search for 'key' in secret/a.rs");
        assert_eq!(
            (harness.states("search_file"), harness.own.len()),
            (vec!["pending".into(), "failed".into()], 0)
        );
    }
    let mut harness = AgentUnderTest::new(config_with(|config| config.rules.deny = deny), &json!({}));
    harness.prompt("/search key");
    assert!(harness.tools[0].hides("/work/secret/a.rs") && !harness.tools[0].hides("/work/open/a.rs"));
}

#[test]
fn patterns_allow_and_deny_by_tool_and_command() {
    let allow = ToolPatterns::parse(["Bash(git *)"]).expect("a pattern");
    let deny = ToolPatterns::parse(["Bash(git push*)"]).expect("a pattern");
    let mut harness = AgentUnderTest::new(
        config_with(|config| {
            config.rules.allow = allow;
            config.rules.deny = deny;
        }),
        &json!({}),
    );
    harness.prompt("Run the command 'git status'");
    assert!(
        harness.own.iter().any(|frame| frame["method"] == "terminal/create"),
        "allowed without a question"
    );
    harness.cancel();
    harness.pass(5);
    harness.own.clear();
    harness.prompt("Run the command 'git push --force'");
    assert!(!harness.own.iter().any(|frame| frame["method"] == "terminal/create"));
    assert_eq!(harness.states("run_command").last().map(String::as_str), Some("failed"));
}

#[test]
fn a_tool_is_denied_by_the_name_that_it_has() {
    for (name, wish) in [
        ("search", "/search key"),
        ("query", "/query foo($A)"),
        ("extract", "/extract a.rs"),
        ("read_file", "Read a.txt"),
        ("search_file", "Search for 'key' in a.txt"),
        ("write_file", "Write 'x' to a.txt"),
        ("edit_file", "Replace 'a' with 'b' in a.txt"),
        ("run_command", "Run the command 'make'"),
        ("execute", "Run the command 'make'"),
        ("delegate", "Delegate the task 'x'"),
    ] {
        let deny = ToolPatterns::parse([name]).expect("a pattern");
        let mut harness = AgentUnderTest::new(config_with(|config| config.rules.deny = deny), &json!({}));
        harness
            .ask("session/set_mode", &json!({ "sessionId": harness.session, "modeId": "bypassPermissions" }));
        harness.prompt(wish);
        assert!(harness.own.is_empty() && harness.tools.is_empty(), "{name}: {:?}", harness.own);
        let tool = if name == "execute" { "run_command" } else { name };
        let states = harness.states(tool);
        assert!(
            states.is_empty() || states.last().is_some_and(|last| last == "failed"),
            "{name}: {states:?}"
        );
        assert!(harness.words().contains("Not allowed"), "{name}: {}", harness.words());
    }
}

#[test]
fn a_tool_is_allowed_by_the_name_that_it_has() {
    let allow = ToolPatterns::parse(["run_command(git *)", "edit_file"]).expect("patterns");
    let mut harness = AgentUnderTest::new(config_with(|config| config.rules.allow = allow), &json!({}));
    harness.prompt("Run the command 'git status'");
    assert!(
        harness.own.iter().any(|frame| frame["method"] == "terminal/create"),
        "allowed without a question"
    );
    harness.cancel();
    harness.pass(5);
    harness.prompt("Run the command 'make'");
    assert_eq!(harness.questions_asked(), 1);
}

#[test]
fn planning_reads_gives_a_plan_and_changes_nothing() {
    let mut harness = AgentUnderTest::new(config(), &json!({}));
    harness.ask("session/set_mode", &json!({ "sessionId": harness.session, "modeId": "PLANNING" }));
    harness.prompt("Read a.txt and then write 'x' to b.txt");
    let plan = harness.updates().into_iter().find(|update| update["sessionUpdate"] == "plan").cloned();
    assert_eq!(plan.expect("a plan")["entries"].as_array().map(Vec::len), Some(2));
    harness.reply("fs/read_text_file", &json!({ "content": "thyme" }));
    assert_eq!(harness.states("read_file"), ["pending", "in_progress", "completed"]);
    assert_eq!(harness.states("write_file"), ["pending", "failed"]);
    assert_eq!(harness.own.len(), 1);
}

/// The plans that were shown, each as what its steps are about.
fn plans(harness: &AgentUnderTest) -> Vec<Vec<String>> {
    let plans = harness.updates().into_iter().filter(|update| update["sessionUpdate"] == "plan");
    let steps = |plan: &Value| {
        let entries = plan["entries"].as_array().into_iter().flatten();
        entries.filter_map(|entry| entry["content"].as_str().map(str::to_owned)).collect()
    };
    plans.map(steps).collect()
}

#[test]
fn a_plan_that_is_asked_for_is_not_replaced_by_one_of_its_own_while_planning() {
    for wish in ["Draft a plan for the release", "/plan the release"] {
        let mut harness = AgentUnderTest::new(config(), &json!({}));
        harness.ask("session/set_mode", &json!({ "sessionId": harness.session, "modeId": "PLANNING" }));
        let prompt = harness.prompt(wish);
        while harness.find(prompt).is_none() {
            harness.pass(1);
        }
        let plans = plans(&harness);
        assert!(plans.iter().all(|plan| plan.len() == 3), "{wish}: {plans:?}");
        assert!(!plans.is_empty() && !harness.words().contains("The plan:"), "{wish}: {}", harness.words());
    }
}

#[test]
fn a_plan_that_is_asked_for_is_said_where_none_can_be_shown() {
    let mut harness =
        AgentUnderTest::new(config_with(|config| config.form.plans_in_words = true), &json!({}));
    let prompt = harness.prompt("Make a plan with 2 steps");
    while harness.find(prompt).is_none() {
        harness.pass(1);
    }
    let words = harness.words();
    assert!(words.contains("The plan:\n- 1. Look at what is there\n- 2. Decide what to change\n"), "{words}");
}

#[test]
fn a_plan_names_what_is_only_said_where_nothing_is_done() {
    for (wish, plan) in [("Say 'hello'", ["Answer"]), ("Read a.txt. Say 'hello'", ["Read a.txt"])] {
        let mut harness = AgentUnderTest::new(config(), &json!({}));
        harness.ask("session/set_mode", &json!({ "sessionId": harness.session, "modeId": "PLANNING" }));
        harness.prompt(wish);
        assert_eq!(plans(&harness)[0], plan, "{wish}");
    }
}

#[test]
fn without_leave_to_edit_nothing_is_written_whatever_the_mode() {
    let mut harness = AgentUnderTest::new(config_with(|config| config.abilities.edit = false), &json!({}));
    harness.ask("session/set_mode", &json!({ "sessionId": harness.session, "modeId": "bypassPermissions" }));
    harness.prompt("Write 'x' to a.txt");
    assert_eq!(harness.states("write_file"), ["pending", "failed"]);
    assert!(harness.own.is_empty());
}

#[test]
fn where_tool_errors_end_the_prompt_they_say_why() {
    let mut harness = AgentUnderTest::new(config_with(|config| config.form.tool_errors = true), &json!({}));
    let outside = harness.prompt("Read /etc/passwd");
    assert_eq!(harness.answer(outside)["error"]["data"]["reason"], "permission_denied");
    let broken = harness.prompt("Use a tool that fails");
    harness.allow();
    assert_eq!(harness.answer(broken)["error"]["data"]["reason"], "tool_execution_failed");
    for (output, reason) in [
        (ToolOutput::denied("not there".to_owned()), "permission_denied"),
        (ToolOutput { failed: true, ..ToolOutput::default() }, "tool_execution_failed"),
    ] {
        let search = harness.prompt("/search key");
        let token = harness.tools.last().expect("a tool").token;
        harness.agent.tool_answered(token, Ok(output));
        harness.run();
        assert_eq!(harness.answer(search)["error"]["data"]["reason"], reason);
    }
    let next = harness.prompt("Say 'fine'");
    assert_eq!(harness.answer(next)["result"]["stopReason"], "end_turn");
}

#[test]
fn a_turn_that_was_cut_off_is_loaded_with_its_open_calls_as_failed() {
    let mut harness = AgentUnderTest::new(config(), &json!({}));
    harness.prompt("Search for 'needle'");
    let record = harness.stored.clone().expect("the turn is kept while it runs");
    assert_eq!(record.draft.len(), 1);
    let call = record.draft[0]["toolCallId"].clone();
    let mut next = AgentUnderTest::new(config(), &json!({}));
    let params = json!({ "sessionId": record.id, "cwd": "/work", "mcpServers": [] });
    let load = next.ask("session/load", &params);
    let token = next.fetches[0];
    let id = record.id.clone();
    next.agent.session_fetched(token, &id, Some(record));
    next.run();
    assert!(next.answer(load).get("result").is_some());
    let replayed: Vec<_> = next.updates().into_iter().filter(|update| update["toolCallId"] == call).collect();
    assert_eq!((replayed.len(), &replayed[0]["status"]), (1, &json!("failed")));
    assert!(next.updates().iter().any(|update| update["content"]["text"] == "Search for 'needle'"));
}

#[test]
fn a_session_in_a_mode_that_is_closed_by_now_is_loaded_in_the_first() {
    let mut harness = AgentUnderTest::new(config(), &json!({}));
    harness.ask("session/set_mode", &json!({ "sessionId": harness.session, "modeId": "bypassPermissions" }));
    let record = harness.stored.clone().expect("it is kept");
    let mut stricter = config();
    stricter.persona.bar(|mode| mode.id != "PLANNING", "so it is");
    let mut next = AgentUnderTest::new(stricter, &json!({}));
    let id = record.id.clone();
    let load = next.ask("session/load", &json!({ "sessionId": id, "cwd": "/work", "mcpServers": [] }));
    next.agent.session_fetched(next.fetches[0], &id, Some(record));
    next.run();
    assert_eq!(next.answer(load)["result"]["modes"]["currentModeId"], "PLANNING");
    next.session = id;
    next.prompt("Run the command 'make'");
    assert!(next.own.is_empty());
}

#[test]
fn a_yes_that_comes_after_the_mode_changed_does_nothing() {
    for (wish, deed) in
        [("Write 'x' to a.txt", "fs/write_text_file"), ("Run the command 'make'", "terminal/create")]
    {
        let mut harness = AgentUnderTest::new(config(), &json!({}));
        let prompt = harness.prompt(wish);
        if deed == "fs/write_text_file" {
            harness.reply("fs/read_text_file", &json!({ "content": "old" }));
        }
        harness.ask("session/set_mode", &json!({ "sessionId": harness.session, "modeId": "PLANNING" }));
        harness.allow();
        if deed == "fs/write_text_file" {
            harness.reply("fs/read_text_file", &json!({ "content": "old" }));
        }
        assert!(!harness.own.iter().any(|frame| frame["method"] == deed), "{wish}");
        assert_eq!(harness.answer(prompt)["result"]["stopReason"], "end_turn");
        assert!(harness.words().contains("Not allowed"), "{}", harness.words());
    }
}

#[test]
fn why_a_file_cannot_be_edited_is_said() {
    let (edit, append) = ("Replace 'a' with 'b' in a.txt", "Append 'three' to a.txt");
    for (wish, error, words) in [
        (edit, (-32002, "no such file"), "there is no file /work/a.txt"),
        (edit, (-32603, "it is not UTF-8"), "/work/a.txt cannot be read: it is not UTF-8"),
        (append, (-32603, "it is not UTF-8"), "/work/a.txt cannot be read: it is not UTF-8"),
    ] {
        let mut harness = AgentUnderTest::new(config(), &json!({}));
        harness.prompt(wish);
        let id = Id::parse(&harness.own[0]["id"].to_string()).expect("an id");
        harness.agent.receive(harness.now, &Frame::failure(&id, &RpcError::new(error.0, error.1)));
        harness.run();
        assert!(harness.words().contains(words), "{}", harness.words());
        assert_eq!((harness.questions_asked(), harness.own.len()), (0, 1), "{wish}");
    }
    for wish in [edit, "Read a.txt"] {
        let mut harness = AgentUnderTest::new(config(), &json!({}));
        harness.prompt(wish);
        harness.reply("fs/read_text_file", &json!({}));
        assert!(harness.words().contains("has no \"content\""), "{}", harness.words());
    }
}

#[test]
fn an_output_without_its_beginning_says_so() {
    let mut harness = AgentUnderTest::new(config(), &json!({}));
    harness.prompt("Run the command 'seq 1 200000'");
    harness.allow();
    harness.reply("terminal/create", &json!({ "terminalId": "t" }));
    harness.reply("terminal/wait_for_exit", &json!({ "exitCode": 0 }));
    harness.reply("terminal/output", &json!({ "output": "1905\n41906\n41907\n", "truncated": true }));
    let updates = harness.updates();
    let done = updates.iter().find(|update| update["status"] == "completed").expect("it is done");
    let told = "[the beginning is missing: only the last 12 bytes were kept]\n41906\n41907\n";
    assert_eq!(done["content"][0]["content"]["text"], told);
    assert_eq!(done["rawOutput"], json!({ "exitCode": 0, "output": told, "truncated": true }));
}
