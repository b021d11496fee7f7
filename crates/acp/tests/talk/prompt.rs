//! One shot: `acp prompt`.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::processes::{all_gone, descendant_named, descendants, signal};
use crate::{ACP, PATIENCE, acp, prompt, script, texts, workspace};

const YOLO: &[&str] = &["--agent", "mock", "--policy", "yolo"];

fn with<'a>(flags: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    flags.iter().chain(more).copied().collect()
}

#[test]
fn a_file_is_read_and_its_tool_call_shown() {
    let (_temp, folder) = workspace();
    let (code, out, err) = prompt(&folder, &with(YOLO, &["Read greeting.txt"]));
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    assert!(out.contains("* done    Read") && out.contains("| hello"), "{out}");
    assert!(!out.contains('\u{1b}'), "no colour where there is no terminal: {out:?}");
}

#[test]
fn a_file_is_written_and_its_diff_shown() {
    let (_temp, folder) = workspace();
    let (code, out, _) = prompt(&folder, &with(YOLO, &["Write 'two words' to new.txt"]));
    assert_eq!(code, 0, "{out}");
    assert!(out.contains("new.txt (new file)") && out.contains("+ two words"), "{out}");
    let text = std::fs::read_to_string(folder.join("new.txt")).expect("written");
    assert_eq!(text.trim(), "two words");
}

#[test]
fn a_command_runs() {
    let (_temp, folder) = workspace();
    let (code, out, _) = prompt(&folder, &with(YOLO, &["Run the command touch made-here"]));
    assert_eq!(code, 0, "{out}");
    assert!(folder.join("made-here").exists(), "{out}");
}

#[test]
fn permission_is_given_or_refused_by_policy_and_pattern() {
    for (flags, written) in [
        (&["--policy", "yolo"][..], true),
        (&["--policy", "write"], true),
        (&["--policy", "acceptEdits"], true),
        (&["--policy", "none", "--allow", "Edit,Read"], true),
        (&["--policy", "read"], false),
        (&["--policy", "plan"], false),
        (&["--policy", "default"], false),
        (&["--policy", "yolo", "--deny", "Edit(**/n.txt)"], false),
    ] {
        let (_temp, folder) = workspace();
        let (_, out, _) = prompt(&folder, &with(&["--agent", "mock", "Write 'x' to n.txt"], flags));
        assert_eq!(folder.join("n.txt").exists(), written, "{flags:?}: {out}");
        assert_eq!(out.contains("refused"), !written, "{flags:?}: {out}");
    }
}

#[test]
fn updates_come_as_lines_of_json_for_scripts() {
    let (_temp, folder) = workspace();
    let (code, out, _) = prompt(&folder, &with(YOLO, &["--json", "Read greeting.txt"]));
    assert_eq!(code, 0, "{out}");
    let lines: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let kinds: Vec<&str> = lines.iter().map(|line| line["type"].as_str().expect("a type")).collect();
    assert_eq!((kinds.first(), kinds.last()), (Some(&"session"), Some(&"end")), "{out}");
    assert!(kinds.contains(&"update") && kinds.contains(&"decision"), "{out}");
    let session = &lines[0]["sessionId"];
    assert!(
        lines.iter().filter(|line| line["type"] == "update").all(|line| line["sessionId"] == *session),
        "{out}"
    );
    assert_eq!(lines[lines.len() - 1]["stopReason"], "end_turn");
}

#[test]
fn a_transcript_is_recorded() {
    let (_temp, folder) = workspace();
    let (code, out, _) = prompt(&folder, &with(YOLO, &["--record", "talk.ndjson", "hi"]));
    assert_eq!(code, 0, "{out}");
    let text = std::fs::read_to_string(folder.join("talk.ndjson")).expect("the transcript");
    let entries: Vec<_> = text
        .lines()
        .map(|line| acp_rpc::transcript::TranscriptEntry::parse(line).expect("an entry"))
        .collect();
    let methods: Vec<String> = entries
        .iter()
        .filter_map(|entry| acp_rpc::Frame::parse(entry.line.clone()).method().map(str::to_owned))
        .collect();
    assert_eq!(methods[..2], ["initialize", "session/new"], "{methods:?}");
    assert!(methods.contains(&"session/prompt".to_owned()) && methods.contains(&"session/update".to_owned()));
}

#[test]
fn a_session_is_loaded_with_its_history() {
    let (_temp, folder) = workspace();
    let command = format!("{ACP} mock --stdio --dialect v1 --state-dir {}/state", folder.display());
    let first = prompt(&folder, &["--command", &command, "--json", "Say 'first answer'"]);
    let id: Value = serde_json::from_str(first.1.lines().next().expect("a line")).expect("JSON");
    let id = id["sessionId"].as_str().expect("an id");
    let (code, out, err) = prompt(&folder, &["--command", &command, "--session", id, "Say 'second answer'"]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    let place = |text: &str| out.find(text).unwrap_or_else(|| panic!("{text:?} is missing in {out}"));
    assert!(place("first answer") < place("second answer"), "{out}");
    let (code, _, err) = prompt(&folder, &["--command", &command, "--session", "no-such", "hi"]);
    assert_eq!(code, 1, "{err}");
    assert!(err.contains("session/load"), "{err}");
}

#[test]
fn modes_are_checked_against_what_the_agent_has() {
    let (_temp, folder) = workspace();
    let (code, _, err) = prompt(&folder, &with(YOLO, &["--mode", "no-such-mode", "hi"]));
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("there is no mode \"no-such-mode\""), "{err}");
    let known =
        err.split("has ").nth(1).and_then(|list| list.trim().split(", ").last()).expect("modes").to_owned();
    let (code, out, err) = prompt(&folder, &with(YOLO, &["--mode", &known, "hi"]));
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
}

#[test]
fn content_that_the_agent_does_not_take_is_refused_with_a_clear_word() {
    let (_temp, folder) = workspace();
    std::fs::write(folder.join("p.png"), b"\x89PNG").expect("a file");
    std::fs::write(folder.join("s.wav"), b"RIFF").expect("a file");
    let agent = script("{}", "cat >/dev/null");
    for (flag, file, word) in [
        ("--image", "p.png", "image"),
        ("--audio", "s.wav", "audio"),
        ("--embed", "greeting.txt", "embeddedContext"),
    ] {
        let (code, _, err) = prompt(&folder, &["--command", &agent, flag, file, "look"]);
        assert_eq!(code, 2, "{err}");
        assert!(err.contains("does not offer") && err.contains(word), "{err}");
    }
    let end = r#"echo '{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}'; cat >/dev/null"#;
    let (code, _, err) =
        prompt(&folder, &["--command", &script("{}", end), "--file", "greeting.txt", "look"]);
    assert_eq!((code, err.as_str()), (0, ""), "a link is for everyone");
    let (code, _, err) = prompt(&folder, &["--command", &agent, "--image", "greeting.txt", "look"]);
    assert_eq!(code, 2);
    assert!(err.contains("png, jpeg, gif, webp or svg"), "{err}");
}

#[test]
fn all_kinds_of_content_reach_an_agent_that_takes_them() {
    let (_temp, folder) = workspace();
    std::fs::write(folder.join("p.png"), b"\x89PNG").expect("a file");
    std::fs::write(folder.join("s.wav"), b"RIFF").expect("a file");
    let capabilities = r#"{"promptCapabilities":{"image":true,"audio":true,"embeddedContext":true}}"#;
    let end = r#"printf %s "$c" > seen.json; echo '{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}'; cat >/dev/null"#;
    let agent = script(capabilities, end.replace('$', "\\$").as_str()).replace("\\\\$", "\\$");
    let content =
        ["--file", "greeting.txt", "--embed", "greeting.txt", "--image", "p.png", "--audio", "s.wav"];
    let (code, out, err) = prompt(&folder, &with(&["--command", &agent, "look"], &content));
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    let seen = std::fs::read_to_string(folder.join("seen.json")).expect("the prompt");
    let seen: Value = serde_json::from_str(&seen).expect("JSON");
    let kinds: Vec<&str> = seen["params"]["prompt"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|block| block["type"].as_str())
        .collect();
    assert_eq!(kinds, ["text", "resource_link", "resource", "image", "audio"]);
}

#[test]
fn wrong_usage_is_told_apart_from_faults() {
    let (_temp, folder) = workspace();
    for (args, code, words) in [
        (&["hi"][..], 2, "which agent?"),
        (&["--agent", "nobody", "hi"], 2, "there is no agent"),
        (&["--agent", "mock", "--cwd", "/no/such", "hi"], 2, "/no/such"),
        (&["--agent", "mock", "--policy", "maybe", "hi"], 2, "maybe"),
        (&["--agent", "mock", "--allow", "Bash(", "hi"], 2, "parenthesis"),
        (&["--command", "/no/such/agent", "hi"], 3, "/no/such/agent"),
        (&["--connect", "tcp://127.0.0.1:1", "hi"], 3, "127.0.0.1:1"),
        (&["--command", "false", "hi"], 3, "exit code 1"),
    ] {
        let (seen, _, err) = prompt(&folder, args);
        assert_eq!(seen, code, "{args:?}: {err}");
        assert!(err.contains(words), "{args:?}: {err}");
    }
}

#[test]
fn an_agents_last_words_are_shown_when_it_dies_or_hangs() {
    let (_temp, folder) = workspace();
    let dies = "sh -c 'echo no key configured >&2; exit 4'";
    let (code, _, err) = prompt(&folder, &["--command", dies, "hi"]);
    assert_eq!(code, 3);
    assert!(
        err.contains("exit code 4") && err.contains("initialize") && err.contains("| no key configured"),
        "{err}"
    );
    let hangs = script("{}", "echo waiting for the model >&2; cat >/dev/null");
    let (code, _, err) = prompt(&folder, &["--command", &hangs, "--timeout", "5s", "hi"]);
    assert_eq!(code, 3);
    assert!(err.contains("did not answer session/prompt within 5 s"), "{err}");
    assert!(err.contains("| waiting for the model"), "{err}");
}

#[test]
fn an_agent_of_another_version_is_left_with_a_word() {
    let (_temp, folder) = workspace();
    let agent = r#"sh -c "read a; echo '{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"protocolVersion\":9}}'; cat >/dev/null""#;
    let (code, _, err) = prompt(&folder, &["--command", agent, "hi"]);
    assert_eq!(code, 3);
    assert!(err.contains("protocol version 9"), "{err}");
}

#[test]
fn a_login_that_is_needed_is_named() {
    let (_temp, folder) = workspace();
    let agent = format!("{ACP} mock --stdio --dialect v1 --require-auth");
    let (code, _, err) = prompt(&folder, &["--command", &agent, "hi"]);
    assert_eq!(code, 1, "{err}");
    assert!(err.contains("--auth METHOD"), "{err}");
    let method =
        err.split("the agent offers ").nth(1).and_then(|rest| rest.split(' ').next()).expect("a method");
    let (code, out, err) = prompt(&folder, &["--command", &agent, "--auth", method, "hi"]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    let (code, _, err) = prompt(&folder, &["--command", &agent, "--auth", "made-up", "hi"]);
    assert_eq!(code, 2, "{err}");
}

#[test]
fn an_agent_that_listens_is_reached() {
    for (flag, scheme, path) in [(None, "tcp", ""), (Some("--websocket"), "ws", "/acp")] {
        let (_temp, folder) = workspace();
        let mut mock = acp(&folder, &["mock", "--port", "0"], flag.as_slice());
        let mut mock = mock.stdout(Stdio::piped()).spawn().expect("the mock starts");
        let mut line = String::new();
        BufReader::new(mock.stdout.take().expect("its output")).read_line(&mut line).expect("a line");
        let port: String =
            line.rsplit(':').next().expect("a port").chars().filter(char::is_ascii_digit).collect();
        let port = if port.is_empty() { panic!("{line}") } else { port };
        let address = format!("{scheme}://127.0.0.1:{port}{path}");
        let (code, out, err) = prompt(&folder, &["--connect", &address, "Say 'over the wire'"]);
        let _ = mock.kill();
        let _ = mock.wait();
        assert_eq!((code, err.as_str()), (0, ""), "{line}{out}");
        assert!(out.contains("over the wire"), "{out}");
    }
}

#[test]
fn an_interrupt_cancels_the_turn() {
    let (_temp, folder) = workspace();
    let mut command = acp(&folder, &["prompt", "--agent", "mock"], &["Count to 100000"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("acp starts");
    let mut out = BufReader::new(child.stdout.take().expect("output"));
    let mut first = vec![0; 2];
    std::io::Read::read_exact(&mut out, &mut first).expect("the count has begun");
    let family = descendants(child.id());
    signal(child.id(), "INT");
    let rest = std::thread::spawn(move || {
        let mut rest = String::new();
        std::io::Read::read_to_string(&mut out, &mut rest).map(|_| rest)
    });
    let status = child.wait().expect("it ends");
    let rest = rest.join().expect("the reader").expect("text");
    assert_eq!(status.code(), Some(1), "{rest}");
    assert!(rest.trim_end().ends_with("(cancelled)"), "{rest}");
    all_gone(&family);
}

#[test]
fn a_killed_agent_is_a_clear_error_at_once() {
    let (_temp, folder) = workspace();
    let record = ["prompt", "--agent", "mock", "--record", "talk.ndjson"];
    let mut command = acp(&folder, &record, &["Wait 50 seconds"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("acp starts");
    let agent = descendant_named(child.id(), "mock");
    let family = descendants(child.id());
    let began = Instant::now();
    let recorded = || std::fs::read_to_string(folder.join("talk.ndjson")).unwrap_or_default();
    while !recorded().contains("session/prompt") {
        assert!(began.elapsed() < PATIENCE, "nothing was asked: {}", recorded());
        std::thread::sleep(Duration::from_millis(10));
    }
    let began = Instant::now();
    signal(agent, "KILL");
    let (code, _, err) = texts(&child.wait_with_output().expect("it ends"));
    assert!(began.elapsed() < Duration::from_secs(20), "it took {:?}", began.elapsed());
    assert_eq!(code, 3, "{err}");
    assert!(err.contains("killed by signal 9") && err.contains("session/prompt"), "{err}");
    all_gone(&family);
}

#[test]
fn nothing_outlives_a_killed_client() {
    let (_temp, folder) = workspace();
    for (name, line, word) in [
        ("KILL", "Wait 50 seconds", "mock"),
        ("KILL", "Run the command sleep 300", "300"),
        ("TERM", "Run the command sleep 300", "300"),
    ] {
        let mut command = acp(&folder, &["prompt", "--agent", "mock", "--policy", "yolo"], &[line]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("acp starts");
        descendant_named(child.id(), word);
        let family = descendants(child.id());
        signal(child.id(), name);
        let _ = child.wait();
        all_gone(&family);
    }
}

#[test]
fn an_agent_that_says_something_else_is_given_up_in_time_and_quoted() {
    let (_temp, folder) = workspace();
    let agent = "sh -c \"echo Welcome to the agent; while read line; do :; done\"";
    let (code, _, err) = prompt(&folder, &["--command", agent, "--timeout", "5s", "hello"]);
    assert_eq!(code, 3, "{err}");
    assert!(err.contains("did not answer initialize within 5 s"), "{err}");
    assert!(err.contains("Welcome to the agent") && err.contains("--acp"), "{err}");
}

#[test]
fn an_expired_session_of_go_is_replaced_and_the_prompt_tried_again() {
    let (_temp, folder) = workspace();
    let expired = r#"{"jsonrpc":"2.0","id":3,"error":{"code":-32003,"message":"Session Expired"}}"#;
    let new = r#"{"jsonrpc":"2.0","id":4,"result":{"sessionId":"s2"}}"#;
    let ended = r#"{"jsonrpc":"2.0","id":5,"result":{"sessionId":"s2","stopReason":"end_turn"}}"#;
    let agent =
        script("{}", &format!("echo '{expired}'; read d; echo '{new}'; read e; echo '{ended}'; read f"));
    let go = ["--command", &agent, "--dialect", "go", "--json"];
    let (code, out, err) = prompt(&folder, &with(&go, &["--attempts", "2", "Say 'hi'"]));
    assert_eq!(code, 0, "{out}{err}");
    assert!(err.contains("trying again in a new session in 1"), "{err}");
    let lines: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let sessions: Vec<&Value> = lines.iter().filter(|line| line["type"] == "session").collect();
    let ids: Vec<&Value> = sessions.iter().map(|line| &line["sessionId"]).collect();
    assert_eq!(ids, ["s", "s2"], "{out}");
    let (code, out, err) = prompt(&folder, &with(&go, &["Say 'hi'"]));
    assert_eq!(code, 1, "without --attempts nothing is tried again: {out}{err}");
}
