//! Turns that a model decides.

use acp_policy::Policy;
use acp_script::agent::{
    AgentConfig, ConfigOption, Later, McpTool, Mode, TOOL_NAMES, Thought, ThoughtEnd, ToolOutput,
};
use serde_json::{Value, json};

use crate::harness::{AgentUnderTest, config, config_with};

fn harness() -> AgentUnderTest {
    AgentUnderTest::new(AgentConfig { model: true, ..config() }, &json!({}))
}

impl AgentUnderTest {
    pub(crate) fn thinks(&mut self, thoughts: impl IntoIterator<Item = Thought>) {
        let token = self.questions.last().expect("a question").0;
        for thought in thoughts {
            self.agent.thought(token, thought);
            self.run();
        }
    }
}

/// A harness with a session that has a server `my.files` with this tool.
fn with_server(mut harness: AgentUnderTest, tool: &str) -> AgentUnderTest {
    let server = json!([{ "name": "my.files", "command": "/bin/x", "args": [], "env": [] }]);
    let new = harness.ask("session/new", &json!({ "cwd": "/work", "mcpServers": server }));
    harness.session = harness.answer(new)["result"]["sessionId"].as_str().expect("a session").to_owned();
    let tool = McpTool { name: tool.to_owned(), ..McpTool::default() };
    harness.agent.mcp_connected(harness.servers[0], Ok(vec![tool]));
    harness
}

fn call(name: &str, arguments: Value) -> Thought {
    Thought::Call { name: name.to_owned(), arguments }
}

fn done() -> Thought {
    Thought::End(ThoughtEnd::Done)
}

#[test]
fn a_model_speaks_calls_a_tool_and_is_asked_again_with_its_result() {
    let mut harness = harness();
    let prompt = harness.prompt("How does authentication work?");
    assert_eq!(harness.questions.len(), 1);
    harness.thinks([
        Thought::Thinking("Hm.".to_owned()),
        Thought::Text("I look ".to_owned()),
        Thought::Text("around.".to_owned()),
        call("search", json!({ "query": "auth" })),
        done(),
    ]);
    assert_eq!(harness.tools[0].name, "search");
    assert_eq!(harness.tools[0].cwd, "/work");
    let token = harness.tools[0].token;
    let found = ToolOutput { text: "auth.rs: fn login".to_owned(), ..ToolOutput::default() };
    harness.agent.tool_answered(token, Ok(found));
    harness.run();
    let (_, again) = harness.questions.last().expect("a second question");
    let kinds: Vec<&str> = again.history.iter().filter_map(|entry| entry["sessionUpdate"].as_str()).collect();
    assert_eq!(kinds, ["user_message_chunk", "agent_thought_chunk", "agent_message_chunk", "tool_call"]);
    assert_eq!(again.history[3]["content"][0]["content"]["text"], "auth.rs: fn login");
    assert_eq!(again.rounds.iter().map(|round| round.at).collect::<Vec<_>>(), [1, 4]);
    harness.thinks([
        Thought::Text(" By login.".to_owned()),
        Thought::Usage { input: 90, output: 10 },
        done(),
    ]);
    assert_eq!(harness.answer(prompt)["result"]["stopReason"], "end_turn");
    assert_eq!(harness.words(), "I look around. By login.");
    assert_eq!(harness.states("search"), ["pending", "in_progress", "completed"]);
    let usage = harness.updates().into_iter().find(|update| update["sessionUpdate"] == "usage_update");
    assert_eq!(usage.expect("usage")["used"], 100);
}

#[test]
fn the_pieces_of_a_message_share_an_id_and_another_voice_has_its_own() {
    let mut harness = harness();
    harness.prompt("Hello");
    let (think, say) =
        (|text: &str| Thought::Thinking(text.to_owned()), |text: &str| Thought::Text(text.to_owned()));
    harness.thinks([think("a"), think("b"), say("c"), say("d"), done()]);
    let ids: Vec<&str> = harness.updates().iter().filter_map(|update| update["messageId"].as_str()).collect();
    assert_eq!((ids[0], ids[2]), (ids[1], ids[3]));
    assert_ne!(ids[0], ids[2]);
}

#[test]
fn a_call_that_cannot_be_made_fails_and_the_model_is_told_why() {
    let mut harness = harness();
    harness.prompt("Do something odd");
    harness.thinks([
        call("no_such_tool", json!({})),
        call("read_file", json!({ "path": 5 })),
        call("read_file", json!("not an object")),
        call("delegate", json!({ "work": "something" })),
        done(),
    ]);
    let (_, again) = harness.questions.last().expect("asked again");
    let reasons: Vec<String> = again.history[1..].iter().map(|call| call["content"].to_string()).collect();
    assert!(reasons[0].contains("There is no tool"), "{reasons:?}");
    assert!(reasons[1].contains("needs \\\"path\\\""), "{reasons:?}");
    assert!(reasons[3].contains("needs \\\"task\\\""), "{reasons:?}");
    assert_eq!(harness.questions.len(), 2);
    assert_eq!(harness.states("read_file"), ["pending", "failed", "pending", "failed"]);
}

#[test]
fn a_model_that_fails_fails_the_prompt_with_its_reason_and_the_session_goes_on() {
    let mut harness = harness();
    let first = harness.prompt("Hello");
    harness.thinks([
        Thought::Text("Half an ans".to_owned()),
        Thought::End(ThoughtEnd::Failed("no route".to_owned())),
    ]);
    assert!(
        harness.answer(first)["error"]["message"].as_str().is_some_and(|words| words.contains("no route"))
    );
    let second = harness.prompt("Again");
    harness.thinks([Thought::Text("Yes.".to_owned()), done()]);
    assert_eq!(harness.answer(second)["result"]["stopReason"], "end_turn");
}

#[test]
fn a_refusal_of_the_model_is_that_of_the_turn_and_is_told() {
    let mut harness = harness();
    let prompt = harness.prompt("Hello");
    harness.thinks([Thought::End(ThoughtEnd::Refusal)]);
    assert_eq!(harness.answer(prompt)["result"]["stopReason"], "refusal");
    assert!(harness.words().contains("content filter"), "{}", harness.words());
}

#[test]
fn cancelling_abandons_the_question_and_later_pieces_are_ignored() {
    let mut harness = harness();
    let prompt = harness.prompt("Tell me a story");
    harness.thinks([Thought::Text("Once ".to_owned())]);
    harness.cancel();
    assert_eq!(harness.answer(prompt)["result"]["stopReason"], "cancelled");
    assert_eq!(harness.abandoned, [harness.questions[0].0]);
    harness.thinks([Thought::Text("upon a time".to_owned()), done()]);
    assert_eq!(harness.words(), "Once ");
    let kept = harness.stored.as_ref().expect("a record");
    assert!(kept.history.iter().any(|entry| entry["content"]["text"] == "Once "));
}

#[test]
fn a_model_that_never_ends_is_stopped_after_its_rounds() {
    let mut harness = AgentUnderTest::new(
        config_with(|config| {
            config.model = true;
            config.limits.rounds = 3;
        }),
        &json!({}),
    );
    let prompt = harness.prompt("Go on");
    for _ in 0..3 {
        harness.thinks([call("update_plan", json!({ "entries": [] })), done()]);
    }
    assert_eq!(harness.answer(prompt)["result"]["stopReason"], "max_turn_requests");
}

#[test]
fn a_plan_of_the_model_is_shown_in_the_protocols_words() {
    let mut harness = harness();
    harness.prompt("Plan it");
    let entries = json!([{ "content": "Look", "status": "completed" }, { "content": "Do", "status": "odd" }]);
    harness.thinks([call("update_plan", json!({ "entries": entries })), done()]);
    let plan = harness.updates().into_iter().find(|update| update["sessionUpdate"] == "plan").cloned();
    let states: Vec<Value> = plan.expect("a plan")["entries"]
        .as_array()
        .map(|entries| entries.iter().map(|entry| entry["status"].clone()).collect())
        .unwrap_or_default();
    assert_eq!(states, ["completed", "pending"]);
}

#[test]
fn an_edit_must_say_which_place_it_means() {
    let mut harness = harness();
    harness.ask("session/set_mode", &json!({ "sessionId": harness.session, "modeId": "bypassPermissions" }));
    harness.prompt("Change it");
    for (old, why) in [("a", "2 times"), ("z", "does not hold"), ("", "is empty")] {
        harness.thinks([call("edit_file", json!({ "path": "x.txt", "old": old, "new": "c" })), done()]);
        harness.reply("fs/read_text_file", &json!({ "content": "a b a" }));
        let (_, again) = harness.questions.last().expect("asked again");
        let told = again.history.last().expect("the call")["content"].to_string();
        assert!(told.contains(why), "{old}: {told}");
    }
    harness.thinks([call("edit_file", json!({ "path": "x.txt", "old": "b", "new": "c" })), done()]);
    harness.reply("fs/read_text_file", &json!({ "content": "a b a" }));
    let written = harness.own.iter().rfind(|frame| frame["method"] == "fs/write_text_file").expect("a write");
    assert_eq!(written["params"]["content"], "a c a");
}

#[test]
fn a_command_that_does_not_end_is_killed_and_the_model_is_told() {
    let mut harness = harness();
    harness.ask("session/set_mode", &json!({ "sessionId": harness.session, "modeId": "bypassPermissions" }));
    harness.prompt("Start it");
    harness.thinks([call("run_command", json!({ "command": "serve", "timeout": 20 })), done()]);
    harness.reply("terminal/create", &json!({ "terminalId": "t" }));
    harness.pass(19);
    assert!(!harness.own.iter().any(|frame| frame["method"] == "terminal/kill"));
    harness.pass(1);
    harness.reply("terminal/kill", &json!({}));
    harness.reply("terminal/output", &json!({ "output": "listening", "truncated": false }));
    harness.reply("terminal/release", &json!({}));
    let (_, again) = harness.questions.last().expect("asked again");
    let told = again.history.last().expect("the call");
    assert_eq!((&told["status"], &told["rawOutput"]["killedAfter"]), (&json!("failed"), &json!(20.0)));
}

#[test]
fn the_model_that_a_person_chose_is_asked() {
    let mut config = AgentConfig { model: true, ..config() };
    let models = [("small", "Small"), ("large", "Large")];
    config.persona.options.push(ConfigOption::select("model", "Model", "", &models, "small"));
    let mut harness = AgentUnderTest::new(config, &json!({}));
    let prompt = harness.prompt("hello");
    harness.thinks([done()]);
    assert_eq!(harness.answer(prompt)["result"]["stopReason"], "end_turn");
    let choice = json!({ "sessionId": harness.session, "configId": "model", "value": "large" });
    let chosen = harness.ask("session/set_config_option", &choice);
    assert!(harness.answer(chosen).get("result").is_some());
    harness.prompt("hello again");
    let asked: Vec<&str> = harness.questions.iter().map(|(_, question)| question.model.as_str()).collect();
    assert_eq!(asked, ["small", "large"]);
}

#[test]
fn a_plan_is_left_to_the_model() {
    let mut harness = harness();
    harness.prompt("/plan the release");
    assert_eq!(harness.questions.len(), 1);
}

#[test]
fn every_tool_of_an_mcp_server_has_a_name_of_its_own() {
    let mut harness = harness();
    let server = |name: &str| json!({ "name": name, "command": "/bin/x", "args": [], "env": [] });
    let servers = json!([server("docs"), server("docs")]);
    let new = harness.ask("session/new", &json!({ "cwd": "/work", "mcpServers": servers }));
    harness.session = harness.answer(new)["result"]["sessionId"].as_str().expect("a session").to_owned();
    let long = "find_".repeat(15);
    let tools = ["read.page", "read_page", &format!("{long}one"), &format!("{long}two")];
    let keys = harness.servers.clone();
    for key in &keys {
        let tool = |name: &&str| McpTool { name: (*name).to_owned(), ..McpTool::default() };
        harness.agent.mcp_connected(*key, Ok(tools.iter().map(tool).collect()));
    }
    harness.ask("session/set_mode", &json!({ "sessionId": harness.session, "modeId": "bypassPermissions" }));
    harness.prompt("go");
    let names: Vec<String> = harness.questions[0].1.mcp.iter().map(|tool| tool.name.clone()).collect();
    assert_eq!(names[0], "mcp__docs__read_page", "a name that is clear stays as it is");
    assert!(names.iter().all(|name| name.len() <= 64), "{names:?}");
    for (at, name) in names.iter().enumerate() {
        assert!(!names[..at].contains(name), "{names:?}");
        harness.thinks([call(name, json!({}))]);
    }
    harness.thinks([done()]);
    for (at, name) in names.iter().enumerate() {
        let (token, key, tool) = harness.called[at].clone();
        assert_eq!((key, tool.as_str()), (keys[at / 4], tools[at % 4]), "{name}");
        harness.agent.mcp_answered(token, Ok(json!({ "content": [] })));
        harness.run();
    }
}

#[test]
fn slash_commands_need_no_model() {
    let mut harness = harness();
    let prompt = harness.prompt("/status");
    assert!(harness.questions.is_empty());
    assert_eq!(harness.answer(prompt)["result"]["stopReason"], "end_turn");
    assert!(harness.words().contains("/work"), "{}", harness.words());
}

#[test]
fn what_is_said_behind_a_call_is_known_to_stand_there() {
    let mut harness = harness();
    let text = |text: &str| Thought::Text(text.to_owned());
    harness.prompt("go");
    harness.thinks([
        text("first "),
        text("words"),
        call("update_plan", json!({ "entries": [] })),
        text("behind"),
        call("update_plan", json!({ "entries": [] })),
        done(),
    ]);
    let (_, question) = harness.questions.last().expect("asked again");
    let round = &question.rounds[0];
    assert_eq!(round.later, [Later { calls: 1, at: 2 }]);
    let said: Vec<&Value> = question.history[1..3].iter().map(|entry| &entry["content"]["text"]).collect();
    assert_eq!(said, ["first words", "behind"]);
    assert_ne!(question.history[1]["messageId"], question.history[2]["messageId"]);
}

#[test]
fn a_compacted_conversation_is_told_in_short() {
    let mut harness = harness();
    harness.prompt("What is in the attic?");
    harness.thinks([call("search", json!({ "query": "attic" })), done()]);
    let token = harness.tools[0].token;
    let long = ToolOutput { text: "dust ".repeat(5000), ..ToolOutput::default() };
    harness.agent.tool_answered(token, Ok(long));
    harness.run();
    harness.thinks([Thought::Text("Dust.".to_owned()), done()]);
    harness.prompt("/compact");
    harness.thinks([Thought::End(ThoughtEnd::Failed("no route".to_owned()))]);
    harness.prompt("And now?");
    let (_, question) = harness.questions.last().expect("a question");
    let first = question.history[0]["content"]["text"].as_str().expect("the digest");
    assert!(first.contains("What is in the attic?") && first.contains("Dust."), "{first}");
    assert!(question.history.iter().all(|entry| entry["sessionUpdate"] != "tool_call"));
    assert!(question.rounds.iter().all(|round| round.at <= question.history.len()));
}

#[test]
fn what_models_are_not_told_is_not_kept_in_short_either() {
    let mut harness = harness();
    let server = json!([{ "name": "s", "command": "/bin/x", "args": [], "env": [] }]);
    let new = harness.ask("session/new", &json!({ "cwd": "/work", "mcpServers": server }));
    harness.session = harness.answer(new)["result"]["sessionId"].as_str().expect("a session").to_owned();
    harness.agent.mcp_connected(harness.servers[0], Err("it is gone".to_owned()));
    harness.prompt("Look at this");
    assert!(harness.words().contains("it is gone"), "{}", harness.words());
    harness.thinks([Thought::End(ThoughtEnd::Rejected("bad picture".to_owned()))]);
    harness.prompt("Hello");
    harness.thinks([Thought::Text("Well.".to_owned()), done()]);
    harness.prompt("/compact");
    harness.thinks([Thought::End(ThoughtEnd::Failed("no route".to_owned()))]);
    let kept = harness.stored.as_ref().expect("it is kept");
    let digest = kept.digest.as_ref().expect("a digest");
    assert_eq!(digest.text, "Person: Hello\nAgent: Well.\n");
    assert!(kept.rounds.is_empty(), "nothing needs what belongs to answers before");
}

#[test]
fn seals_and_calls_stand_in_their_answer_whatever_the_calls_did() {
    let mut harness = harness();
    harness.prompt("Hello");
    let seal = |text: &str| Thought::Seal(text.to_owned());
    harness.thinks([
        Thought::Thinking("Hm.".to_owned()),
        seal("s1"),
        call("update_plan", json!({ "entries": [] })),
        seal("s2"),
        call("no_such_tool", json!({})),
        seal("s3"),
        done(),
    ]);
    harness.thinks([
        call("delegate", json!({ "task": "one" })),
        seal("s4"),
        call("delegate", json!({ "task": "two" })),
        done(),
    ]);
    // The second task is done first.
    let [first, second] = [2, 3].map(|at: usize| harness.questions[at].0);
    for token in [second, first] {
        harness.agent.thought(token, Thought::Text("done".to_owned()));
        harness.agent.thought(token, done());
        harness.run();
    }
    let (_, last) = harness.questions.last().expect("asked again");
    let tasks = last.history.iter().filter(|entry| entry["name"] == "delegate");
    let tasks: Vec<&str> = tasks.filter_map(|entry| entry["rawInput"]["task"].as_str()).collect();
    assert_eq!(tasks, ["two", "one"]);
    let named = |id: &String| {
        let made = last.history.iter().find(|entry| entry["toolCallId"] == id.as_str()).expect("a call");
        made["rawInput"]["task"].as_str().or_else(|| made["name"].as_str()).expect("a name").to_owned()
    };
    let calls: Vec<Vec<String>> =
        last.rounds.iter().map(|round| round.calls.iter().map(named).collect()).collect();
    assert_eq!(calls, [vec!["update_plan", "no_such_tool"], vec!["one", "two"], vec![]]);
    let seals = last.rounds.iter().flat_map(|round| &round.seals);
    let seals: Vec<(usize, usize, &str)> =
        seals.map(|seal| (seal.calls, seal.at, seal.text.as_str())).collect();
    assert_eq!(seals, [(0, 2, "s1"), (1, 2, "s2"), (2, 2, "s3"), (1, 5, "s4")]);
}

#[test]
fn notices_are_marked_live_and_kept() {
    let mut harness = harness();
    let session = harness.session.clone();
    harness.agent.warn(&session, "MCP server \"x\" cannot be used", "it ended");
    harness.prompt("Hello");
    let is_notice = |update: &Value| update["_meta"]["acp.workbench/notice"] == true;
    assert!(harness.words().contains("it ended") && harness.updates().into_iter().any(is_notice));
    let (_, question) = harness.questions.last().expect("a question");
    assert!(question.history.iter().any(is_notice));
    harness.thinks([Thought::Text("Hello.".to_owned()), done()]);
    assert_eq!(
        harness.updates().into_iter().rfind(|update| update["messageId"].is_string()).map(is_notice),
        Some(false)
    );
}

#[test]
fn whatever_an_mcp_tool_answers_is_told() {
    let text = |text: &str| json!({ "type": "text", "text": text });
    let file = json!({ "type": "resource", "resource": { "uri": "file:///a", "text": "inside" } });
    let blob = json!({ "type": "resource", "resource": { "uri": "file:///b", "blob": "AA==" } });
    let image = json!({ "type": "image", "mimeType": "image/png", "data": "AA==" });
    let link = json!({ "type": "resource_link", "name": "c", "uri": "file:///c" });
    let mut harness = harness();
    let server = json!([{ "name": "s", "command": "/bin/x", "args": [], "env": [] }]);
    let new = harness.ask("session/new", &json!({ "cwd": "/work", "mcpServers": server }));
    harness.session = harness.answer(new)["result"]["sessionId"].as_str().expect("a session").to_owned();
    let tool = McpTool { name: "t".to_owned(), ..McpTool::default() };
    harness.agent.mcp_connected(harness.servers[0], Ok(vec![tool]));
    harness.ask("session/set_mode", &json!({ "sessionId": harness.session, "modeId": "bypassPermissions" }));
    harness.prompt("go");
    for (answer, told) in [
        (json!({ "content": [text("plain"), file] }), "plain\ninside"),
        (
            json!({ "content": [blob, image, link] }),
            "[a binary resource, file:///b]\n[an image, image/png]\n[c](file:///c)",
        ),
        (json!({ "content": [], "structuredContent": { "n": 1 } }), "{\"n\":1}"),
        (json!({ "content": [image], "structuredContent": { "n": 1 } }), "[an image, image/png]\n{\"n\":1}"),
        (json!({ "content": [text("one")], "structuredContent": { "n": 1 } }), "one"),
    ] {
        harness.thinks([call("mcp__s__t", json!({})), done()]);
        let (token, ..) = harness.called.last().expect("a call");
        harness.agent.mcp_answered(*token, Ok(answer.clone()));
        harness.run();
        let (_, again) = harness.questions.last().expect("asked again");
        let last = again.history.last().expect("the call");
        assert_eq!(last["content"][0]["content"]["text"], told, "{answer}");
    }
}

#[test]
fn tools_that_are_always_refused_are_not_offered() {
    for (mode, allow, deny, closed, servers) in [
        ("NORMAL", "", "", &[][..], 1),
        ("NORMAL", "", "run_command, read_file(a)", &["run_command"], 1),
        (
            "NORMAL",
            "",
            "Search, mcp__my_files__*",
            &["search", "query", "list_files", "glob", "search_file"],
            0,
        ),
        ("READING", "", "", &["write_file", "edit_file", "run_command", "take_note"], 0),
        ("READING", "Edit(src/**), Bash(git *), mcp__my.files__t", "", &["take_note"], 1),
    ] {
        let [allow, deny] = [allow, deny].map(|it| acp_policy::ToolPatterns::parse([it]).expect("patterns"));
        let mut config = config_with(|config| {
            config.model = true;
            config.rules.allow = allow;
            config.rules.deny = deny;
        });
        config.persona.modes.push(Mode::new("READING", "Reading", "", Policy::Read));
        config.persona.options = vec![ConfigOption::mode(&config.persona.modes)];
        let mut harness = with_server(AgentUnderTest::new(config, &json!({})), "t");
        harness.ask("session/set_mode", &json!({ "sessionId": harness.session, "modeId": mode }));
        harness.prompt("go");
        let (_, question) = harness.questions.last().expect("a question");
        let mut expected = closed.to_vec();
        expected.sort_by_key(|tool| TOOL_NAMES.iter().position(|known| known == tool));
        assert_eq!((&question.closed, question.mcp.len()), (&expected, servers), "{mode}");
    }
}

#[test]
fn a_server_is_denied_by_either_of_its_names() {
    for (pattern, runs) in [
        ("mcp__my.files__*", false),
        ("mcp__my_files__*", false),
        ("mcp__my_files__read_it", false),
        ("mcp__other__*", true),
    ] {
        let deny = acp_policy::ToolPatterns::parse([pattern]).expect("a pattern");
        let config = config_with(|config| {
            config.model = true;
            config.rules.deny = deny;
        });
        let mut harness = with_server(AgentUnderTest::new(config, &json!({})), "read it");
        harness
            .ask("session/set_mode", &json!({ "sessionId": harness.session, "modeId": "bypassPermissions" }));
        harness.prompt("go");
        harness.thinks([call("mcp__my_files__read_it", json!({})), done()]);
        assert_eq!(!harness.called.is_empty(), runs, "{pattern}");
    }
}

#[test]
fn a_prompt_that_the_provider_did_not_take_is_marked() {
    let mut harness = harness();
    let prompt = harness.prompt("Look at this");
    harness.thinks([Thought::End(ThoughtEnd::Rejected("bad picture".to_owned()))]);
    let message = harness.answer(prompt)["error"]["message"].as_str().unwrap_or_default();
    assert!(message.contains("bad picture") && message.contains("without this prompt"), "{message}");
    let kept = harness.stored.as_ref().expect("it is kept");
    assert!(kept.rounds[0].refused);
    harness.prompt("Go on");
    let (_, question) = harness.questions.last().expect("a question");
    assert!(question.rounds[0].refused && !question.rounds[1].refused);
}
