//! A permission is for exactly what was shown, and what an agent calls itself never widens a decision.

mod common;

use acp_host::{Ask, ProviderSettings, UserAnswer, UserQuestion};
use acp_policy::{Policy, PolicyRules, ToolPatterns};
use acp_rpc::Frame;
use common::{World, settings};
use serde_json::{Value, json};
use tokio::sync::mpsc;

fn allowing(policy: Policy, pattern: &str) -> World {
    let allow = ToolPatterns::parse([pattern]).expect("a pattern");
    let world = World::with(ProviderSettings {
        rules: PolicyRules { allow, ..PolicyRules::of(policy) },
        ..settings(policy)
    });
    world.providers.turn_began("s");
    world
}

fn with_person() -> (World, mpsc::Receiver<UserQuestion>) {
    let (ask, questions) = mpsc::channel(4);
    let world = World::with(ProviderSettings { person: Some(ask), ..settings(Policy::Default) });
    world.providers.turn_began("s");
    (world, questions)
}

fn asking(call: &Value) -> Value {
    let mut tool_call = json!({"toolCallId": "c"});
    for (key, value) in call.as_object().into_iter().flatten() {
        tool_call[key] = value.clone();
    }
    let options = json!([
        {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
        {"optionId": "always", "name": "Always", "kind": "allow_always"},
        {"optionId": "no", "name": "No", "kind": "reject_once"},
    ]);
    json!({"sessionId": "s", "toolCall": tool_call, "options": options})
}

async fn chosen(world: &World, call: &Value) -> String {
    let result = world.result("session/request_permission", asking(call)).await;
    result["outcome"]["optionId"].as_str().unwrap_or("cancelled").to_owned()
}

/// Whether the client runs the command for the agent.
async fn runs(world: &World, command: &str) -> bool {
    world.ask("terminal/create", json!({"sessionId": "s", "command": command})).await.outcome.is_ok()
}

/// Asks for permission, and the person picks an option.
async fn person_picks(
    world: &World,
    questions: &mut mpsc::Receiver<UserQuestion>,
    call: &Value,
    option: &str,
) {
    let person = async {
        let question = questions.recv().await.expect("a question");
        assert!(matches!(question.ask, Ask::Permission { .. }), "{question:?}");
        question.answer(UserAnswer::Option(option.to_owned()));
    };
    let (picked, ()) = tokio::join!(chosen(world, call), person);
    assert_eq!(picked, option);
}

/// Uses what the client offers, and says whether the person was asked, who says no.
async fn is_asked_again(
    world: &World,
    questions: &mut mpsc::Receiver<UserQuestion>,
    method: &str,
    params: Value,
) -> bool {
    let ask = world.ask(method, params);
    tokio::pin!(ask);
    tokio::select! {
        biased;
        answer = &mut ask => {
            answer.outcome.expect("done without a question");
            false
        }
        question = questions.recv() => {
            question.expect("a question").answer(UserAnswer::No);
            ask.await.outcome.expect_err("the person said no");
            true
        }
    }
}

fn write(world: &World, name: &str) -> Value {
    json!({"sessionId": "s", "path": world.root.join(name), "content": "x"})
}

fn command(line: &str) -> Value {
    json!({"sessionId": "s", "command": line})
}

#[tokio::test]
async fn a_name_opens_no_command() {
    let world = World::with(settings(Policy::AcceptEdits));
    world.providers.turn_began("s");
    for call in [
        json!({"kind": "other", "name": "edit"}),
        json!({"name": "edit", "title": "Edit"}),
        json!({"kind": "edit", "name": "bash"}),
        json!({"kind": "edit", "title": "`touch x`"}),
        json!({"kind": "read", "rawInput": {"command": "touch x"}}),
        json!({"kind": "edit", "rawInput": {"path": "a", "script": "touch x"}}),
    ] {
        assert_eq!(chosen(&world, &call).await, "no", "{call}");
    }
    assert_eq!(chosen(&world, &json!({"kind": "edit", "rawInput": {"path": "a"}})).await, "yes");
    assert!(!runs(&world, "touch x").await, "an edit was allowed, no command");
}

#[tokio::test]
async fn a_pattern_for_a_kind_is_not_opened_by_a_name() {
    let world = allowing(Policy::Default, "Read, WebFetch, mcp__docs__*");
    let diff = json!([{"type": "diff", "path": "a", "newText": "x"}]);
    for call in [
        json!({"kind": "edit", "name": "Read", "rawInput": {"path": "/etc/passwd"}}),
        json!({"kind": "delete", "name": "Read", "locations": [{"path": "a"}]}),
        json!({"kind": "execute", "name": "Read"}),
        json!({"kind": "other", "name": "Read"}),
        json!({"kind": "fetch", "name": "Read", "content": diff}),
        json!({"kind": "fetch", "content": diff}),
        json!({"kind": "edit", "name": "mcp__docs__find", "rawInput": {"path": "a"}}),
        json!({"kind": "execute", "name": "mcp__docs__find"}),
        json!({"kind": "other", "name": "mcp__docs__find", "rawInput": {"command": "rm x"}}),
        json!({"kind": "other", "name": "mcp__docs__find", "content": diff}),
    ] {
        assert_eq!(chosen(&world, &call).await, "no", "{call}");
    }
    for call in [
        json!({"kind": "read", "name": "view", "rawInput": {"path": "a"}}),
        json!({"kind": "fetch", "rawInput": {"url": "https://example.com/"}}),
        json!({"kind": "other", "name": "mcp__docs__find", "rawInput": {"query": "x"}}),
    ] {
        assert_eq!(chosen(&world, &call).await, "yes", "{call}");
    }
    let world = allowing(Policy::Default, "WebFetch");
    let call = json!({"kind": "fetch", "rawInput": {"url": "file:///etc/passwd"}});
    assert_eq!(chosen(&world, &call).await, "no", "what fetches a file reads it");
}

#[tokio::test]
async fn an_edit_is_outside_wherever_it_shows_that() {
    let world = World::with(settings(Policy::AcceptEdits));
    let inside = world.root.join("a");
    for call in [
        json!({"rawInput": {"a_key_that_nobody_knows": "/etc/passwd"}}),
        json!({"rawInput": {"a_key_that_nobody_knows": "../outside/secret"}}),
        json!({"rawInput": {"path": inside, "more": ["~/.ssh/authorized_keys"]}}),
        json!({"rawInput": "/etc/passwd"}),
        json!({"rawInput": {"path": {"value": "/etc/passwd"}}}),
        json!({"rawInput": {"changes": {"/etc/passwd": "new text"}}}),
        json!({"rawInput": {"patch": "rename from a\nrename to /etc/passwd\n"}}),
        json!({"rawInput": {"content": "*** Begin Patch\n*** Update File: /etc/passwd\n"}}),
        json!({"locations": [{"uri": "file:///etc/passwd"}]}),
        json!({"title": "Edit `/etc/passwd`"}),
    ] {
        let mut call = call;
        call["kind"] = "edit".into();
        assert_eq!(chosen(&world, &call).await, "no", "{call}");
    }
    for call in [
        json!({"rawInput": {"path": inside, "code": "// a comment", "more": inside}}),
        json!({"title": "Edit /api routes", "rawInput": {"path": "a"}}),
        json!({"title": format!("Edit {}", inside.display())}),
    ] {
        let mut call = call;
        call["kind"] = "edit".into();
        assert_eq!(chosen(&world, &call).await, "yes", "{call}");
    }
}

#[tokio::test]
async fn class_policies_decide_each_call_by_what_it_really_is() {
    for (policy, call) in [
        (Policy::Read, json!({"kind": "read", "rawInput": {"command": "rm x"}})),
        (Policy::Read, json!({"kind": "read", "name": "write_file"})),
        (
            Policy::Read,
            json!({"kind": "search", "content": [{"type": "diff", "path": "/w/a", "newText": ""}]}),
        ),
        (Policy::Write, json!({"kind": "edit", "name": "run_command"})),
        (Policy::Write, json!({"kind": "edit", "rawInput": {"program": "rm", "args": ["x"]}})),
        (Policy::Write, json!({"kind": "think", "title": "$ rm x"})),
    ] {
        let world = World::with(settings(policy));
        assert_eq!(chosen(&world, &call).await, "no", "{policy}: {call}");
    }
}

#[tokio::test]
async fn a_later_update_cannot_hide_what_an_earlier_one_showed() {
    let world = World::with(settings(Policy::Write));
    for update in [
        json!({"kind": "execute", "title": "`rm x`", "rawInput": {"command": "rm x"}}),
        json!({"kind": "edit", "title": "Edit"}),
    ] {
        let mut update = update;
        update["sessionUpdate"] = "tool_call_update".into();
        update["toolCallId"] = "c".into();
        world
            .providers
            .observe(&Frame::notification("session/update", &json!({"sessionId": "s", "update": update})));
    }
    assert_eq!(chosen(&world, &json!({})).await, "no");
}

#[tokio::test]
async fn a_pattern_for_one_command_opens_no_other() {
    let world = allowing(Policy::Default, "Bash(git *)");
    assert_eq!(
        chosen(&world, &json!({"kind": "execute", "rawInput": {"command": "git status"}})).await,
        "yes"
    );
    assert!(!runs(&world, "head /etc/hostname").await);
    assert!(runs(&world, "git --version").await, "the pattern itself holds for the client's own terminals");
}

#[tokio::test]
async fn a_pattern_for_one_folder_opens_no_other() {
    let world = allowing(Policy::Default, "Edit(src/**)");
    let call = json!({"kind": "edit", "rawInput": {"path": world.root.join("src/a")}});
    assert_eq!(chosen(&world, &call).await, "yes");
    world.write(&world.root.join("other"), "x").await.outcome.expect_err("not in src");
    world.write(&world.root.join("src/a"), "x").await.outcome.expect("in src");
}

#[tokio::test]
async fn every_path_and_command_of_a_call_must_be_allowed() {
    let world = allowing(Policy::Default, "Edit(src/**), Bash(git *)");
    let (inside, other) = (world.root.join("src/a"), world.root.join("other"));
    for (call, expected) in [
        (json!({"kind": "edit", "rawInput": {"path": inside}, "locations": [{"path": inside}]}), "yes"),
        (json!({"kind": "edit", "rawInput": {"path": inside}, "locations": [{"path": other}]}), "no"),
        (json!({"kind": "edit", "rawInput": {"path": inside, "file_path": other}}), "no"),
        (json!({"kind": "edit", "rawInput": {"edits": [{"path": inside}, {"path": other}]}}), "no"),
        (json!({"kind": "edit", "locations": [{"path": inside}, {"path": other}]}), "no"),
        (
            json!({"kind": "edit", "rawInput": {"path": inside}, "content": [{"type": "diff", "path": other, "newText": ""}]}),
            "no",
        ),
        (json!({"kind": "execute", "rawInput": {"command": "git", "args": ["status"]}}), "yes"),
        (json!({"kind": "execute", "rawInput": {"command": "git status", "cmd": "rm x"}}), "no"),
        (json!({"kind": "execute", "rawInput": {"command": "git", "args": ["status", ";", "rm"]}}), "yes"),
        (json!({"kind": "execute", "rawInput": {"command": "git status", "env": {"PATH": "/evil"}}}), "no"),
        (
            json!({"kind": "execute", "rawInput": {"command": "git status", "env_vars": {"PATH": "/evil"}}}),
            "no",
        ),
        (json!({"kind": "execute", "title": "`rm x`", "rawInput": {"command": "git status"}}), "no"),
        (json!({"kind": "execute", "title": "`git  status`", "rawInput": {"command": "git status"}}), "yes"),
    ] {
        assert_eq!(chosen(&world, &call).await, expected, "{call}");
    }
}

#[tokio::test]
async fn allow_once_is_for_the_command_that_was_shown_and_once() {
    let (world, mut questions) = with_person();
    let call = json!({"kind": "execute", "rawInput": {"command": "true 1"}});
    person_picks(&world, &mut questions, &call, "yes").await;
    assert!(is_asked_again(&world, &mut questions, "terminal/create", command("true 2")).await);
    assert!(is_asked_again(&world, &mut questions, "fs/write_text_file", write(&world, "a")).await);
    let elsewhere = json!({"sessionId": "s", "command": "true 1", "cwd": world.more});
    assert!(is_asked_again(&world, &mut questions, "terminal/create", elsewhere).await);
    assert!(!is_asked_again(&world, &mut questions, "terminal/create", command("true 1")).await);
    assert!(is_asked_again(&world, &mut questions, "terminal/create", command("true 1")).await, "once");
}

#[tokio::test]
async fn allow_once_is_for_the_file_that_was_shown_and_once() {
    let (world, mut questions) = with_person();
    let call = json!({"kind": "edit", "rawInput": {"file_path": world.root.join("a")}});
    person_picks(&world, &mut questions, &call, "yes").await;
    assert!(is_asked_again(&world, &mut questions, "fs/write_text_file", write(&world, "b")).await);
    assert!(is_asked_again(&world, &mut questions, "terminal/create", command("true")).await);
    assert!(!is_asked_again(&world, &mut questions, "fs/write_text_file", write(&world, "a")).await);
    assert!(is_asked_again(&world, &mut questions, "fs/write_text_file", write(&world, "a")).await, "once");
}

#[tokio::test]
async fn a_file_that_became_a_link_is_not_the_one_that_was_shown() {
    let (world, mut questions) = with_person();
    std::fs::write(world.root.join("a"), "").expect("a file");
    std::fs::write(world.root.join("b"), "").expect("a file");
    let call = json!({"kind": "edit", "rawInput": {"path": world.root.join("a")}});
    person_picks(&world, &mut questions, &call, "yes").await;
    std::fs::remove_file(world.root.join("a")).expect("removed");
    std::os::unix::fs::symlink("b", world.root.join("a")).expect("a link");
    assert!(is_asked_again(&world, &mut questions, "fs/write_text_file", write(&world, "a")).await);
}

#[tokio::test]
async fn allow_always_covers_the_same_command_and_path_in_that_session() {
    let (world, mut questions) = with_person();
    let call = json!({"kind": "execute", "rawInput": {"command": "true 1"}});
    person_picks(&world, &mut questions, &call, "always").await;
    let call = json!({"kind": "edit", "rawInput": {"path": "a"}});
    person_picks(&world, &mut questions, &call, "always").await;
    for _ in 0..2 {
        world.providers.turn_ended("s");
        world.providers.turn_began("s");
        assert!(!is_asked_again(&world, &mut questions, "terminal/create", command("true 1")).await);
        assert!(!is_asked_again(&world, &mut questions, "fs/write_text_file", write(&world, "a")).await);
        assert!(is_asked_again(&world, &mut questions, "terminal/create", command("true 1; true")).await);
        assert!(is_asked_again(&world, &mut questions, "fs/write_text_file", write(&world, "b")).await);
    }
    assert_eq!(chosen(&world, &call).await, "yes", "it was allowed for the session");
    world.providers.open_session_at("t", &world.root).expect("a session");
    let other = json!({"sessionId": "t", "command": "true 1"});
    assert!(is_asked_again(&world, &mut questions, "terminal/create", other).await, "another session");
}

#[tokio::test]
async fn a_command_through_a_shell_is_the_line_that_was_shown() {
    let (world, mut questions) = with_person();
    let call = json!({"kind": "execute", "rawInput": {"command": "true && true"}});
    for (program, args) in
        [("/bin/sh", json!(["-lc", "true && true"])), ("bash", json!(["-c", "true && true"]))]
    {
        person_picks(&world, &mut questions, &call, "yes").await;
        let params = json!({"sessionId": "s", "command": program, "args": args});
        assert!(!is_asked_again(&world, &mut questions, "terminal/create", params).await);
    }
    for params in [
        json!({"sessionId": "s", "command": "./sh", "args": ["-c", "true && true"]}),
        json!({"sessionId": "s", "command": "sh", "args": ["-c", "true && true", "more"]}),
        json!({"sessionId": "s", "command": "true && true", "env": [{"name": "PATH", "value": "/evil"}]}),
    ] {
        person_picks(&world, &mut questions, &call, "yes").await;
        assert!(is_asked_again(&world, &mut questions, "terminal/create", params).await);
    }
}

#[tokio::test]
async fn the_person_sees_everything_that_a_yes_is_about() {
    let (world, mut questions) = with_person();
    let update = json!({"sessionId": "s", "update": {"sessionUpdate": "tool_call", "toolCallId": "c", "title": "Look",
        "kind": "read", "rawInput": {"command": "rm -rf y"}}});
    world.providers.observe(&Frame::notification("session/update", &update));
    let person = async {
        let question = questions.recv().await.expect("a question");
        let Ask::Permission { subjects, kind, .. } = &question.ask else { panic!("{question:?}") };
        assert_eq!(kind.as_str(), "execute");
        assert_eq!(subjects[..], ["rm -rf y".to_owned()]);
        question.answer(UserAnswer::Option("no".to_owned()));
    };
    let call = json!({"title": "Look at it"});
    let (picked, ()) = tokio::join!(chosen(&world, &call), person);
    assert_eq!(picked, "no");
    let person = async {
        let question = questions.recv().await.expect("a question");
        let Ask::Permission { subjects, .. } = &question.ask else { panic!("{question:?}") };
        assert_eq!(subjects[..], ["create".to_owned(), "in /w".to_owned(), "/etc/passwd".to_owned()]);
        question.answer(UserAnswer::Option("no".to_owned()));
    };
    let input = json!({"command": "create", "path": "/etc/passwd", "directory": "/w"});
    let call = json!({"title": "Edit", "rawInput": input});
    let (picked, ()) = tokio::join!(chosen(&world, &call), person);
    assert_eq!(picked, "no");
}

#[tokio::test]
async fn always_for_a_file_is_for_every_file_of_the_session_and_for_no_command() {
    let (world, mut questions) = with_person();
    let person = async {
        let question = questions.recv().await.expect("a question");
        let Ask::Access { always, .. } = &question.ask else { panic!("{question:?}") };
        assert!(
            always.as_deref().is_some_and(|words| words.contains("every file change below")),
            "{always:?}"
        );
        question.answer(UserAnswer::Always);
    };
    let (answer, ()) = tokio::join!(world.ask("fs/write_text_file", write(&world, "a")), person);
    answer.outcome.expect("written");
    world.providers.turn_began("s");
    assert!(!is_asked_again(&world, &mut questions, "fs/write_text_file", write(&world, "b")).await);
    assert!(is_asked_again(&world, &mut questions, "terminal/create", command("true")).await);
}
