//! What is denied is denied wherever a call shows it, and whatever happens between the check and the use.

mod common;

use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use acp_host::{ProviderSettings, UserAnswer};
use acp_policy::{Policy, PolicyRules, ToolPatterns};
use common::{World, settings};
use serde_json::{Value, json};
use tokio::sync::mpsc;

fn denying(policy: Policy, pattern: &str) -> ProviderSettings {
    let deny = ToolPatterns::parse([pattern]).expect("a pattern");
    ProviderSettings { rules: PolicyRules { deny, ..PolicyRules::of(policy) }, ..settings(policy) }
}

async fn is_allowed(world: &World, call: &Value) -> bool {
    let mut tool_call = call.clone();
    tool_call["toolCallId"] = "c".into();
    let options = json!([
        {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
        {"optionId": "no", "name": "No", "kind": "reject_once"},
    ]);
    let params = json!({"sessionId": "s", "toolCall": tool_call, "options": options});
    let result = world.result("session/request_permission", params).await;
    result["outcome"]["optionId"] == "yes"
}

#[tokio::test]
async fn a_denied_path_is_found_wherever_a_call_shows_it() {
    let world = World::with(denying(Policy::Yolo, "Read(secret/**), Edit(secret/**)"));
    let path = world.root.join("secret/key");
    let uri = format!("file://{}", path.display()).replace("key", "k%65y");
    let link = json!({"type": "content", "content": {"type": "resource_link", "name": "l", "uri": uri}});
    let embedded =
        json!({"type": "content", "content": {"type": "resource", "resource": {"uri": uri, "text": ""}}});
    let patch = format!("*** Begin Patch\n*** Update File: {}\n", path.display());
    for call in [
        json!({"locations": [{"path": "a"}, {"path": path}]}),
        json!({"content": [{"type": "diff", "path": "a", "newText": ""}, {"type": "diff", "path": path, "newText": ""}]}),
        json!({"content": [link]}),
        json!({"content": [embedded]}),
        json!({"rawInput": {"path": "a", "file": path}}),
        json!({"rawInput": {"file": path}}),
        json!({"rawInput": {"target_file": "secret/key"}}),
        json!({"rawInput": {"uri": uri}}),
        json!({"rawInput": {"paths": ["a", path]}}),
        json!({"rawInput": {"files": [{"path": "a"}, {"path": path}]}}),
        json!({"rawInput": {"changes": {(path.to_str().expect("text")): {"type": "update"}}}}),
        json!({"rawInput": {"changes": [{"path": "./secret//key"}]}}),
        json!({"rawInput": {"a": {"b": [{"c": {"path": path}}]}}}),
        json!({"rawInput": {"input": patch}}),
        json!({"rawInput": {"a_key_that_nobody_knows": path}}),
        json!({"rawInput": {"command": "cat secret/key"}}),
        json!({"rawInput": {"command": "ls", "cwd": "secret/deep"}}),
        json!({"rawInput": {"cwd": "secret", "path": "key"}}),
        json!({"rawInput": {"directory": world.root.join("secret/"), "glob": "*.pem"}}),
        json!({"rawInput": {"root": ".", "workdir": "secret", "files": ["a", "./key"]}}),
        json!({"rawInput": {"uri": uri.replace("file://", "file:")}}),
        json!({"rawInput": {"uri": uri.replace("file", "FILE")}}),
        json!({"rawInput": {"uri": uri.replace("file://", "vscode://file")}}),
        json!({"locations": [{"uri": "file:secret/key"}]}),
        json!({"rawInput": {"path": "@secret/key"}}),
        json!({"rawInput": {"path": "secret%2Fkey"}}),
        json!({"rawInput": {"path": ["secret", "key"]}}),
        json!({"rawInput": {"path": "$PWD/secret/key"}}),
        json!({"rawInput": {"arguments": "{\"path\": [\"secret\", \"key\"]}"}}),
        json!({"rawInput": {"command": "cat \"$PWD\"/secret/key"}}),
    ] {
        for kind in ["read", "edit", "delete", "search", "execute", "other", "fetch"] {
            let mut call = call.clone();
            call["kind"] = kind.into();
            assert!(!is_allowed(&world, &call).await, "{call}");
        }
    }
    for kind in ["read", "edit", "execute", "other"] {
        let call = json!({"kind": kind, "rawInput": {"path": "open", "command": "cat open", "content": "secret/key"}});
        assert!(is_allowed(&world, &call).await, "{call}");
    }
}

#[tokio::test]
async fn a_denied_path_is_not_hidden_among_thousands() {
    let world = World::with(denying(Policy::Yolo, "Read(secret/**)"));
    let many = |word: &str, times: usize| (0..times).map(|at| format!("{word}{at}")).collect::<Vec<_>>();
    let mut folders = many("folder", 99);
    folders.push("secret".to_owned());
    let mut files = many("file", 99);
    files.push("key".to_owned());
    for call in [
        json!({"kind": "read", "rawInput": {"cwd": folders, "paths": files}}),
        json!({"kind": "read", "rawInput": {"cwd": "secret", "paths": files}}),
    ] {
        assert!(!is_allowed(&world, &call).await);
    }
    let call = json!({"kind": "read", "rawInput": {"cwd": "open", "paths": files}});
    assert!(is_allowed(&world, &call).await);
}

#[tokio::test]
async fn a_denied_command_is_found_wherever_a_call_shows_it() {
    let world = World::with(denying(Policy::Yolo, "Bash(rm *)"));
    for call in [
        json!({"rawInput": {"command": "rm x"}}),
        json!({"rawInput": {"command": "rm", "args": ["x"]}}),
        json!({"rawInput": {"command": "sudo", "args": ["rm", "x"]}}),
        json!({"rawInput": {"program": "/bin/rm", "args": ["x"]}}),
        json!({"rawInput": {"argv": ["rm", "x"]}}),
        json!({"rawInput": {"script": "ls\nrm x"}}),
        json!({"rawInput": {"commands": ["ls", "rm x"]}}),
        json!({"rawInput": {"command": ["bash", "-lc", "rm x"]}}),
        json!({"rawInput": {"command": "ls", "cmd": "rm x"}}),
        json!({"rawInput": {"steps": [{"run": {"command": "rm x"}}]}}),
        json!({"kind": "execute", "rawInput": {"a_key_that_nobody_knows": "rm x"}}),
        json!({"kind": "execute", "title": "rm x"}),
        json!({"kind": "edit", "title": "`rm x`", "rawInput": {"path": "a"}}),
        json!({"kind": "read", "rawInput": {"arguments": "{\"command\": \"rm x\"}"}}),
        json!({"kind": "read", "rawInput": "{\"arguments\": \"{\\\"cmd\\\": [\\\"rm\\\", \\\"x\\\"]}\"}"}),
        json!({"rawInput": {"command": "{rm,x}"}}),
        json!({"rawInput": {"command": "git -c 'alias.y=!rm x' y"}}),
        json!({"rawInput": {"command": "git --upload-pack=rm x"}}),
    ] {
        assert!(!is_allowed(&world, &call).await, "{call}");
    }
    assert!(is_allowed(&world, &json!({"kind": "execute", "rawInput": {"command": "ls"}})).await);
    assert!(
        is_allowed(&world, &json!({"kind": "edit", "title": "Explain rm x", "rawInput": {"path": "a"}}))
            .await
    );
}

#[tokio::test]
async fn a_denied_tool_of_a_server_is_found_wherever_a_call_names_it() {
    let world = World::with(denying(Policy::Yolo, "mcp__docs__*"));
    for call in [
        json!({"name": "mcp__docs__search"}),
        json!({"title": "mcp__docs__search"}),
        json!({"title": "Use `mcp__docs__search` (docs)"}),
        json!({"title": "Search", "_meta": {"claudeCode": {"toolName": "mcp__docs__search"}}}),
        json!({"title": "Search", "rawInput": {"tool": "mcp__docs__search", "input": {}}}),
    ] {
        assert!(!is_allowed(&world, &call).await, "{call}");
    }
    assert!(is_allowed(&world, &json!({"title": "mcp__other__search"})).await);
    let many: Vec<String> = (0..2000).map(|at| format!("mcp__x__{at}")).collect();
    assert!(!is_allowed(&world, &json!({"title": many.join(" ")})).await, "too many to look at");
    // What opens a call is its name alone.
    let allow = ToolPatterns::parse(["mcp__docs__*"]).expect("a pattern");
    let rules = PolicyRules { allow, ..PolicyRules::of(Policy::None) };
    let world = World::with(ProviderSettings { rules, ..settings(Policy::None) });
    assert!(is_allowed(&world, &json!({"name": "mcp__docs__search"})).await);
    for call in [
        json!({"title": "mcp__docs__search"}),
        json!({"name": "mcp__docs__search", "rawInput": {"arguments": "{\"command\": \"rm x\"}"}}),
    ] {
        assert!(!is_allowed(&world, &call).await, "{call}");
    }
}

#[tokio::test]
async fn a_denied_file_in_the_home_is_found_by_both_of_its_names() {
    for pattern in ["Read(~/.ssh/**)", "Read(/home/me/.ssh/**)"] {
        let deny = ToolPatterns::parse([pattern]).expect("a pattern").at_home("/home/me");
        let world = World::with(ProviderSettings {
            rules: PolicyRules { deny, ..PolicyRules::of(Policy::Yolo) },
            ..settings(Policy::Yolo)
        });
        for path in ["~/.ssh/id", "~//x/../.ssh/id", "$HOME/.ssh/id", "${HOME}/.ssh/id", "/home/me/.ssh/id"] {
            let read = json!({"kind": "read", "rawInput": {"path": path}});
            assert!(!is_allowed(&world, &read).await, "{pattern}: {read}");
            for command in [format!("cat {path}"), format!("cat <{path}"), format!("tar -cf- -C{path} .")] {
                let run = json!({"kind": "execute", "rawInput": {"command": command}});
                assert!(!is_allowed(&world, &run).await, "{pattern}: {run}");
            }
        }
        assert!(is_allowed(&world, &json!({"kind": "read", "rawInput": {"path": "/home/me/x/id"}})).await);
    }
}

#[tokio::test]
async fn a_call_that_hides_what_it_is_about_is_not_allowed_silently() {
    for (pattern, call) in [
        ("Bash(rm *)", json!({"kind": "execute"})),
        ("Bash(rm *)", json!({"kind": "execute", "locations": [{"path": "a"}]})),
        ("Bash(rm *)", json!({"kind": "other", "rawInput": {"blob": 7}})),
        ("Read(secret/**)", json!({"kind": "read"})),
        ("Read(secret/**)", json!({"kind": "search", "rawInput": {"query": "x"}})),
        ("Edit(secret/**)", json!({"kind": "delete", "title": "Delete it"})),
    ] {
        let world = World::with(denying(Policy::Yolo, pattern));
        assert!(!is_allowed(&world, &call).await, "{pattern}: {call}");
        let world = World::with(settings(Policy::Yolo));
        assert!(is_allowed(&world, &call).await, "without a pattern: {call}");
    }
}

#[tokio::test]
async fn a_file_that_is_exchanged_while_the_person_thinks_is_not_written() {
    let (ask, mut questions) = mpsc::channel(4);
    let settings = ProviderSettings { person: Some(ask), ..denying(Policy::Default, "Edit(secret/**)") };
    let world = World::with(settings);
    std::fs::create_dir(world.root.join("secret")).expect("a folder");
    std::fs::write(world.root.join("secret/key"), "kept").expect("a file");
    std::fs::create_dir(world.root.join("open")).expect("a folder");
    let path = world.root.join("open/key");
    let person = async {
        let question = questions.recv().await.expect("a question");
        std::fs::remove_dir(world.root.join("open")).expect("removed");
        symlink("secret", world.root.join("open")).expect("a link");
        question.answer(UserAnswer::Yes);
    };
    let (answer, ()) = tokio::join!(world.write(&path, "lost"), person);
    let error = answer.outcome.expect_err("it was exchanged");
    assert_eq!(error.data.expect("data")["reason"], "permission_denied");
    assert_eq!(std::fs::read_to_string(world.root.join("secret/key")).expect("the file"), "kept");
}

/// Lets a name lead to one of two places in turn until it is dropped.
struct Swapper(Arc<AtomicBool>, Option<std::thread::JoinHandle<()>>);

impl Swapper {
    fn start(name: PathBuf, places: [PathBuf; 2]) -> Swapper {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        symlink(&places[0], &name).expect("a link");
        let thread = std::thread::spawn(move || {
            let draft = name.with_extension("draft");
            for place in places.iter().cycle() {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                symlink(place, &draft).expect("a link");
                std::fs::rename(&draft, &name).expect("exchanged");
            }
        });
        Swapper(stop, Some(thread))
    }
}

impl Drop for Swapper {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        self.1.take().map(std::thread::JoinHandle::join);
    }
}

#[tokio::test]
async fn a_file_that_is_exchanged_between_check_and_use_is_not_read() {
    let world = World::with(denying(Policy::Yolo, "Read(secret/**)"));
    std::fs::create_dir(world.root.join("secret")).expect("a folder");
    std::fs::write(world.root.join("secret/key"), "secret").expect("a file");
    let link = world.root.join("link");
    let _swapper = Swapper::start(link.clone(), ["hello.txt".into(), "secret/key".into()]);
    let mut read = 0;
    for _ in 0..3000 {
        if let Ok(result) = world.read(&link).await.outcome {
            assert_ne!(result["content"], "secret");
            read += 1;
        }
    }
    assert!(read > 0, "the other file can be read");
}

#[tokio::test]
async fn a_folder_that_is_exchanged_between_check_and_use_is_not_worked_in() {
    let world = World::new();
    std::fs::create_dir(world.root.join("sub")).expect("a folder");
    let link = world.root.join("link");
    let _swapper = Swapper::start(link.clone(), ["sub".into(), world.outside.clone()]);
    let mut ran = 0;
    for _ in 0..300 {
        let params = json!({"sessionId": "s", "command": "/bin/pwd", "args": ["-P"], "cwd": link});
        let Ok(created) = world.ask("terminal/create", params).await.outcome else { continue };
        let terminal = json!({"sessionId": "s", "terminalId": created["terminalId"]});
        world.result("terminal/wait_for_exit", terminal.clone()).await;
        let output = world.result("terminal/output", terminal.clone()).await;
        world.result("terminal/release", terminal).await;
        assert_eq!(output["output"], format!("{}\n", world.root.join("sub").display()));
        ran += 1;
    }
    assert!(ran > 0, "the other folder can be used");
}
