//! Commands that run for an agent.

mod common;

use std::time::{Duration, Instant};

use acp_host::{Ask, ProviderLimits, ProviderSettings, TerminalLimits, UserAnswer};
use acp_policy::{Policy, PolicyRules, ToolPatterns};
use acp_rpc::{Frame, Id};
use acp_testkit::live;
use common::{World, request, settings};
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(20);

impl World {
    async fn start(&self, mut params: Value) -> String {
        params["sessionId"] = json!("s");
        let result = self.result("terminal/create", params).await;
        result["terminalId"].as_str().expect("an id").to_owned()
    }

    async fn on(&self, method: &str, terminal: &str) -> Value {
        let params = json!({"sessionId": "s", "terminalId": terminal});
        tokio::time::timeout(PATIENCE, self.result(method, params)).await.expect(method)
    }

    /// Runs to the end and returns output and exit status.
    async fn run(&self, params: Value) -> (String, Value) {
        let terminal = self.start(params).await;
        let status = self.on("terminal/wait_for_exit", &terminal).await;
        let output = self.on("terminal/output", &terminal).await;
        assert_eq!(output["exitStatus"], status);
        self.on("terminal/release", &terminal).await;
        (output["output"].as_str().expect("text").to_owned(), status)
    }
}

#[tokio::test]
async fn a_program_with_arguments_runs_without_a_shell() {
    let world = World::new();
    let (output, status) =
        world.run(json!({"command": "printf", "args": ["%s|", "a b", "$HOME", "x;y"]})).await;
    assert_eq!(output, "a b|$HOME|x;y|");
    assert_eq!(status, json!({"exitCode": 0, "signal": null}));
}

#[tokio::test]
async fn a_whole_shell_line_in_command_runs_in_a_shell() {
    let world = World::new();
    for params in [
        json!({"command": "echo one && echo two | tr t T"}),
        json!({"command": "echo one && echo two | tr t T", "args": []}),
        json!({"command": "echo one && echo two | tr t T", "args": null}),
    ] {
        let (output, _) = world.run(params).await;
        assert_eq!(output, "one\nTwo\n");
    }
    let (output, status) = world.run(json!({"command": "exit 3"})).await;
    assert_eq!((output.as_str(), &status["exitCode"]), ("", &json!(3)));
}

#[tokio::test]
async fn a_program_whose_name_has_a_space_is_still_a_program() {
    use std::os::unix::fs::PermissionsExt;
    let world = World::new();
    let program = world.root.join("my tool");
    std::fs::write(&program, "#!/bin/sh\necho mine\n").expect("a script");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("a mode");
    let (output, _) = world.run(json!({"command": program})).await;
    assert_eq!(output, "mine\n");
}

#[tokio::test]
async fn the_folder_is_the_sessions_unless_said_otherwise_and_env_is_added() {
    let world = World::new();
    let (output, _) = world.run(json!({"command": "pwd"})).await;
    assert_eq!(output.trim(), world.root.to_str().expect("text"));
    let (output, _) = world.run(json!({"command": "pwd", "cwd": world.more})).await;
    assert_eq!(output.trim(), world.more.to_str().expect("text"));
    let env = json!([{"name": "GREETING", "value": "hi there"}]);
    let (output, _) = world
        .run(json!({"command": "sh", "args": ["-c", "echo $GREETING; test -n \"$PATH\""], "env": env}))
        .await;
    assert_eq!(output, "hi there\n");
}

#[tokio::test]
async fn what_cannot_start_is_an_error_that_says_why() {
    let world = World::new();
    for (params, code, words) in [
        (json!({"command": "no-such-program-here"}), -32603, "no-such-program-here"),
        (json!({"command": ""}), -32602, "needs a command"),
        (json!({"command": "pwd", "cwd": "relative"}), -32602, "absolute"),
        (json!({"command": "pwd", "cwd": world.root.join("nope")}), -32002, "nope"),
        (json!({"command": "pwd", "env": [{"name": "A=B", "value": ""}]}), -32602, "environment"),
    ] {
        let mut params = params;
        params["sessionId"] = json!("s");
        let error = world.error("terminal/create", params).await;
        assert_eq!(error.code, code, "{error}");
        assert!(error.message.contains(words), "{error}");
    }
}

#[tokio::test]
async fn create_returns_at_once_and_output_has_no_status_before_the_end() {
    let world = World::new();
    let began = Instant::now();
    let terminal = world.start(json!({"command": "sh", "args": ["-c", "echo early; sleep 30"]})).await;
    assert!(began.elapsed() < Duration::from_secs(10));
    let output = loop {
        let output = world.on("terminal/output", &terminal).await;
        if output["output"] == "early\n" || began.elapsed() > PATIENCE {
            break output;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    assert_eq!(output, json!({"output": "early\n", "truncated": false}));
}

#[tokio::test]
async fn kill_keeps_the_id_and_release_invalidates_it() {
    let world = patient();
    let terminal = world.start(json!({"command": "sh", "args": ["-c", "echo before; exec sleep 60"]})).await;
    while world.on("terminal/output", &terminal).await["output"] != "before\n" {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    world.on("terminal/kill", &terminal).await;
    let output = world.on("terminal/output", &terminal).await;
    let ended = json!({"exitCode": null, "signal": "SIGTERM"});
    assert_eq!(output, json!({"output": "before\n", "truncated": false, "exitStatus": ended}));
    assert_eq!(world.on("terminal/wait_for_exit", &terminal).await, ended);
    world.on("terminal/kill", &terminal).await;
    world.on("terminal/release", &terminal).await;
    for method in ["terminal/output", "terminal/wait_for_exit", "terminal/kill", "terminal/release"] {
        let error = world.error(method, json!({"sessionId": "s", "terminalId": terminal})).await;
        assert_eq!((error.code, error.data), (-32002, Some(json!({"terminalId": terminal}))));
    }
}

#[tokio::test]
async fn a_command_that_ignores_a_polite_end_is_forced() {
    let terminals = TerminalLimits { kill_grace: Duration::from_millis(100), ..TerminalLimits::default() };
    let world = World::with_limits(ProviderLimits { terminals, ..ProviderLimits::default() });
    let line = "trap '' TERM; echo ready; while true; do sleep 1; done";
    let terminal = world.start(json!({"command": "sh", "args": ["-c", line]})).await;
    while world.on("terminal/output", &terminal).await["output"] != "ready\n" {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    world.on("terminal/kill", &terminal).await;
    assert_eq!(world.on("terminal/wait_for_exit", &terminal).await["signal"], "SIGKILL");
}

#[tokio::test]
async fn a_fast_writer_stays_within_its_limit() {
    let world = World::new();
    let terminal = world.start(json!({"command": "yes 😀", "outputByteLimit": 1001})).await;
    let (before, began) = (resident(), Instant::now());
    let output = loop {
        let output = world.on("terminal/output", &terminal).await;
        if output["truncated"] == true {
            break output;
        }
        assert!(began.elapsed() < PATIENCE, "not truncated: {output}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    let text = output["output"].as_str().expect("text");
    assert!(text.len() <= 1001 && text.len() > 900, "{}", text.len());
    assert!(text.trim_start_matches('\n').chars().all(|c| c == '😀' || c == '\n'), "{text:?}");
    assert!(resident().saturating_sub(before) < 50 << 20, "memory grew with the output");
    world.on("terminal/release", &terminal).await;
}

#[tokio::test]
async fn truncation_keeps_the_end_and_whole_characters() {
    let world = World::new();
    for limit in 0..12 {
        let params = json!({"command": "printf", "args": ["aé漢😀z"], "outputByteLimit": limit});
        let (output, _) = world.run(params).await;
        assert!(output.len() <= limit && "aé漢😀z".ends_with(&output), "{limit}: {output:?}");
    }
}

#[tokio::test]
async fn a_child_left_behind_dies_with_the_release() {
    let world = World::new();
    let terminal = world.start(json!({"command": "sleep 300 & echo $!"})).await;
    let status = world.on("terminal/wait_for_exit", &terminal).await;
    assert_eq!(status["exitCode"], 0);
    let output = world.on("terminal/output", &terminal).await;
    let pid: u32 = output["output"].as_str().expect("text").trim().parse().expect("a pid");
    assert!(live::is_running(pid));
    world.on("terminal/release", &terminal).await;
    gone(pid).await;
}

#[tokio::test]
async fn closing_the_session_or_everything_kills_its_terminals() {
    for end in ["session", "all", "drop"] {
        let world = World::new();
        let terminal = world.start(json!({"command": "echo $$; sleep 300"})).await;
        let pid: u32 = loop {
            let output = world.on("terminal/output", &terminal).await;
            if let Ok(pid) = output["output"].as_str().expect("text").trim().parse() {
                break pid;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        };
        match end {
            "session" => world.providers.close_session("s"),
            "all" => world.providers.close(),
            _ => drop(world),
        }
        gone(pid).await;
    }
}

#[tokio::test]
async fn a_wait_is_cancelled_by_its_request_only() {
    let world = patient();
    let terminal = world.start(json!({"command": "sleep 300"})).await;
    let params = json!({"sessionId": "s", "terminalId": terminal});
    let waiting = world.providers.answer(&request(41, "terminal/wait_for_exit", &params));
    world.providers.observe(&Frame::notification("$/cancel_request", &json!({"requestId": 41})));
    assert_eq!(waiting.await.outcome.expect_err("cancelled").code, -32800);

    let waiting = world.providers.answer(&request(42, "terminal/wait_for_exit", &params));
    world.providers.observe(&Frame::notification("$/cancel_request", &json!({"requestId": 41})));
    world.providers.cancel_session("s");
    let kill = world.providers.answer(&request(43, "terminal/kill", &params));
    let (waited, killed) = tokio::join!(waiting, kill);
    assert_eq!(waited.outcome.expect("a status")["signal"], "SIGTERM");
    assert_eq!((killed.id, killed.outcome), (Id::from(43), Ok(json!({}))));
}

#[tokio::test]
async fn another_sessions_terminal_is_not_found_and_numbers_are_limited() {
    let terminals = TerminalLimits { per_session: 2, ..TerminalLimits::default() };
    let world = World::with_limits(ProviderLimits { terminals, ..ProviderLimits::default() });
    let terminal = world.start(json!({"command": "true"})).await;
    world.start(json!({"command": "true"})).await;
    let error = world.error("terminal/output", json!({"sessionId": "t", "terminalId": terminal})).await;
    assert_eq!(error.code, -32002);
    let error = world.error("terminal/create", json!({"sessionId": "s", "command": "true"})).await;
    assert!(error.message.contains("release some"), "{error}");
    world.on("terminal/release", &terminal).await;
    world.start(json!({"command": "true"})).await;
}

#[tokio::test]
async fn the_policy_guards_commands() {
    for (policy, allowed) in
        [(Policy::None, false), (Policy::Read, false), (Policy::Write, false), (Policy::Yolo, true)]
    {
        let world = World::with(settings(policy));
        let marker = world.root.join("ran");
        let params = json!({"sessionId": "s", "command": "touch", "args": [marker]});
        let answer = world.ask("terminal/create", params).await;
        assert_eq!(answer.outcome.is_ok(), allowed, "{policy}");
        assert!(answer.log[0].subject.contains("touch"), "{}", answer.log[0]);
        if !allowed {
            assert!(!marker.exists());
        }
    }
}

#[tokio::test]
async fn variables_of_the_agent_are_part_of_the_command() {
    let allow = ToolPatterns::parse(["Bash(printenv X)"]).expect("a pattern");
    let (person, mut questions) = tokio::sync::mpsc::channel(1);
    let rules = PolicyRules { allow, ..PolicyRules::of(Policy::Default) };
    let world = World::with(ProviderSettings { rules, person: Some(person), ..settings(Policy::Default) });
    let params = |env: Value| json!({"sessionId": "s", "command": "printenv", "args": ["X"], "env": env});
    world.result("terminal/create", params(json!([]))).await;

    let env = json!([{"name": "PATH", "value": "/evil bin"}, {"name": "X", "value": "1"}]);
    let asked = world.ask("terminal/create", params(env));
    let person = async {
        let question = questions.recv().await.expect("a question");
        let Ask::Access { subject, .. } = &question.ask else { panic!("{question:?}") };
        assert_eq!(subject, "PATH='/evil bin' X=1 printenv X");
        question.answer(UserAnswer::No);
    };
    let (answer, ()) = tokio::join!(asked, person);
    answer.outcome.expect_err("the person said no");
}

/// A polite end has all the time that it needs.
fn patient() -> World {
    let terminals = TerminalLimits { kill_grace: PATIENCE, ..TerminalLimits::default() };
    World::with_limits(ProviderLimits { terminals, ..ProviderLimits::default() })
}

async fn gone(pid: u32) {
    let began = Instant::now();
    while live::is_running(pid) {
        assert!(began.elapsed() < PATIENCE, "process {pid} lives on");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("proc");
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).expect("pages") * 4096
}
