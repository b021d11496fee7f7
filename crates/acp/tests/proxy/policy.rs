//! What the proxy decides, and what it gives to new sessions.

use std::time::{Duration, Instant};

use acp_dialect::Dialect;
use serde_json::{Value, json};

use crate::talker::Talker;
use crate::{PATIENCE, Place, Proxy};

/// How an agent of shell begins: it introduces itself and opens session `s`; what it is told goes to `seen.txt`.
const OPENING: &str = r#"read -r line; echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1,"authMethods":[]}}'
read -r line; printf '%s\n' "$line" >>seen.txt; echo '{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s"}}'
read -r line; printf '%s\n' "$line" >>seen.txt
"#;

fn permission(id: &str, command: &str) -> String {
    let options = json!([
        { "optionId": "yes", "name": "Yes", "kind": "allow_once" },
        { "optionId": "no", "name": "No", "kind": "reject_once" },
    ]);
    let call = json!({ "toolCallId": id, "title": "Run a command", "kind": "execute", "rawInput": { "command": command } });
    let params = json!({ "sessionId": "s", "toolCall": call, "options": options });
    // Odd spacing: what is passed on is passed on as it came.
    format!(r#"{{ "jsonrpc":"2.0","id":"{id}", "method":"session/request_permission","params":{params}}}"#)
}

fn seen(place: &Place) -> Vec<String> {
    let text = std::fs::read_to_string(place.path.join("seen.txt")).expect("what the agent was told");
    text.lines().map(str::to_owned).collect()
}

fn talker(place: &Place, proxy: &Proxy) -> Talker {
    let mut talker = Talker::new(Dialect::V1, proxy.connect(), &place.path.display().to_string());
    talker.initialize();
    talker
}

#[test]
fn a_policy_decides_what_it_knows_and_passes_the_rest_on_untouched() {
    let place = Place::new();
    let asks = ["git status", "git push origin", "rm -rf /tmp/x"];
    let asks: Vec<String> =
        asks.iter().zip(["p1", "p2", "p3"]).map(|(ask, id)| permission(id, ask)).collect();
    let mut script = OPENING.to_owned();
    for ask in &asks {
        script += &format!("echo '{ask}'\nread -r line; printf '%s\\n' \"$line\" >>seen.txt\n");
    }
    script +=
        "echo '{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{\"stopReason\":\"end_turn\"}}'\ncat >/dev/null\n";
    let agent = place.shell(&script);
    let policy = ["--allow", "Bash(git *)", "--deny", "Bash(git push *)", "--policy", "default"];
    let proxy = Proxy::tcp(&place, &[&["--command", agent.as_str()], &policy[..]].concat());
    let mut talker = talker(&place, &proxy);
    talker.new_session();
    talker.prompt("Tidy up");
    assert_eq!(talker.line().as_deref(), Some(asks[2].as_str()), "only what must be asked, byte for byte");
    let answer = r#"{"jsonrpc":"2.0", "id":"p3","result":{"outcome":{"outcome":"cancelled"}}}"#;
    talker.send(answer);
    let end: Value = serde_json::from_str(&talker.line().expect("the end of the turn")).expect("JSON");
    assert_eq!(end["result"]["stopReason"], "end_turn");
    let told = seen(&place);
    let outcome = |line: &str| serde_json::from_str::<Value>(line).expect("JSON");
    let [.., allowed, denied, passed] = &told[..] else { panic!("{told:?}") };
    let (allowed, denied) = (outcome(allowed), outcome(denied));
    assert_eq!((&allowed["id"], &allowed["result"]["outcome"]["optionId"]), (&"p1".into(), &"yes".into()));
    assert_eq!((&denied["id"], &denied["result"]["outcome"]["optionId"]), (&"p2".into(), &"no".into()));
    assert_eq!(passed, answer);
    drop(talker);
    proxy.wait_for_words("permission allow Run a command: git status: allowed by the pattern Bash(git *)");
    proxy.wait_for_words(
        "permission deny Run a command: git push origin: denied by the pattern Bash(git push *)",
    );
    proxy.wait_for_words("mode default asks about tool kind execute; passed on to the client");
    assert_eq!(proxy.stop().0, Some(0));
    // The journal has what was decided, and why.
    let output = place.acp(&["replay", "s"]).output().expect("acp runs");
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(
        text.contains("proxy: allow session/request_permission Run a command: allowed by the pattern"),
        "{text}"
    );
    assert!(text.contains("proxy: deny session/request_permission"), "{text}");
    assert!(text.contains("asks permission: Run a command\nanswered: cancelled"), "{text}");
}

#[test]
fn a_decision_comes_after_what_it_is_about_on_record() {
    let place = Place::new();
    let proxy = Proxy::tcp(&place, &["--command", &place.mock("--dialect v1"), "--policy", "read"]);
    let mut talker = talker(&place, &proxy);
    talker.new_session();
    let turn = talker.prompt("Ask for permission");
    talker.result(turn);
    let session = talker.session.clone();
    drop(talker);
    place.wait_for_processes(0);
    assert_eq!(proxy.stop().0, Some(0));
    let replay = |format: &str| {
        let output = place.acp(&["replay", &session, "--format", format]).output().expect("acp runs");
        String::from_utf8(output.stdout).expect("text")
    };
    for (format, marks) in [
        (
            "text",
            ["* pending Take a note", "proxy: deny session/request_permission", "* failed  Take a note"],
        ),
        (
            "events",
            [
                r#""sessionUpdate":"tool_call","#,
                r#""by":"policy","reason":"policy read denies"#,
                "tool_call_update",
            ],
        ),
    ] {
        let text = replay(format);
        let places = marks.map(|mark| text.find(mark).unwrap_or_else(|| panic!("no {mark} in {text}")));
        assert!(places.is_sorted(), "{text}");
    }
}

#[test]
fn a_cancelled_turn_is_the_clients_to_answer_whatever_the_policy_says() {
    let place = Place::new();
    let ask = permission("p1", "git status");
    let script = format!(
        "{OPENING}read -r line\necho '{ask}'\nread -r line; printf '%s\\n' \"$line\" >>seen.txt\ncat >/dev/null\n"
    );
    let agent = place.shell(&script);
    let proxy = Proxy::tcp(&place, &["--command", &agent, "--policy", "bypassPermissions"]);
    let mut talker = talker(&place, &proxy);
    talker.new_session();
    talker.prompt("Tidy up");
    talker.cancel();
    assert_eq!(talker.line().as_deref(), Some(ask.as_str()));
    proxy.wait_for_words("the turn was cancelled");
}

#[test]
fn every_new_session_gets_the_servers_and_the_folder_and_is_otherwise_as_it_was() {
    let place = Place::new();
    let agent = place.shell(&format!("{OPENING}cat >/dev/null\n"));
    std::fs::create_dir(place.path.join("work")).expect("a folder");
    let args = ["--command", &agent, "--mcp", "docs=/bin/docs --all", "--mcp", "mine=http://127.0.0.1:9/mcp"];
    let proxy = Proxy::tcp(&place, &[&args[..], &["--work-dir", "work"]].concat());
    let mut talker = talker(&place, &proxy);
    let asked = r#"{"jsonrpc":"2.0", "id":2,"method":"session/new","params":{"cwd":"/theirs","mcpServers":[ {"name":"mine","command":"/bin/mine","args":[],"env":[]} ],"odd":1.50e3}}"#;
    talker.send(asked);
    assert!(talker.line().is_some_and(|line| line.contains("\"sessionId\":\"s\"")));
    let wanted = format!(
        r#"{{"jsonrpc":"2.0", "id":2,"method":"session/new","params":{{"cwd":"{}","mcpServers":[ {{"name":"mine","command":"/bin/mine","args":[],"env":[]}} ,{{"name":"docs","command":"/bin/docs","args":["--all"],"env":[]}}],"odd":1.50e3}}}}"#,
        place.path.join("work").display()
    );
    assert_eq!(seen(&place), [wanted.as_str()], "the client's own server of the same name stays");
    // What the agent was told is on record, too, and why.
    assert_eq!(proxy.stop().0, Some(0));
    let (found, _) = acp_proxy::journal::conversations(&place.journal(), None).expect("a journal");
    let [(_, changed)] = &found[0].decided[..] else { panic!("{:?}", found[0].decided) };
    assert!(changed.is_change(), "{changed:?}");
    assert_eq!(changed.reason, "the proxy's --work-dir and --mcp");
    assert_eq!((changed.request.as_str(), changed.answer.as_str()), (asked, wanted.as_str()));
    let replay = |more: &[&str]| {
        let journal = place.journal().display().to_string();
        let shown = place.acp(&["replay", &journal]).args(more).output().expect("acp runs");
        String::from_utf8_lossy(&shown.stdout).into_owned()
    };
    let shown = replay(&["-v"]);
    assert!(shown.contains("proxy: changed session/new: the proxy's --work-dir and --mcp"), "{shown}");
    assert!(shown.contains(&wanted), "{shown}");
    let frames = replay(&["--format", "json"]);
    assert_eq!(frames.matches("session/new").count(), 1, "as the client said it: {frames}");
}

/// An agent that sends three chunks for its prompt.
fn three_chunks(place: &Place) -> String {
    let chunk = |text: &str| {
        let content = json!({ "type": "text", "text": text });
        let update = json!({ "sessionUpdate": "agent_message_chunk", "content": content });
        json!({ "jsonrpc": "2.0", "method": "session/update", "params": { "sessionId": "s", "update": update } })
    };
    let chunks: String =
        ["one", "two", "three"].iter().map(|text| format!("echo '{}'\n", chunk(text))).collect();
    place.shell(&format!(
        "{OPENING}{chunks}echo '{{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{{\"stopReason\":\"end_turn\"}}}}'\ncat >/dev/null\n"
    ))
}

#[test]
fn faults_happen_between_the_agent_and_the_client() {
    let place = Place::new();
    let agent = three_chunks(&place);
    let fault = [
        "--fault",
        "drop@session/update#2",
        "--fault",
        r#"{"update":"agent_message_chunk","skip":2,"do":[{"duplicate":1}]}"#,
    ];
    let proxy = Proxy::tcp(&place, &[&["--command", agent.as_str()], &fault[..]].concat());
    let mut talker = talker(&place, &proxy);
    talker.new_session();
    let turn = talker.prompt("Count");
    talker.result(turn);
    assert_eq!(talker.text, "onethreethree");
    drop(talker);
    let proxy = Proxy::tcp(&place, &["--command", &agent, "--fault", "exit=7@<session/prompt"]);
    let mut talker = self::talker(&place, &proxy);
    talker.new_session();
    let turn = talker.prompt("Count");
    let answer = talker.answer(turn);
    assert!(
        answer["error"]["message"].as_str().is_some_and(|why| why.contains("the agent is gone")),
        "{answer}"
    );
    proxy.wait_for_words("a fault ends the agent (exit 7)");
    let output = place.acp(&["proxy", "--command", &agent, "--fault", "child"]).output().expect("acp runs");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no child of an agent"));
}

#[test]
fn more_sessions_than_allowed_are_refused_until_one_is_gone() {
    let place = Place::new();
    let proxy = Proxy::tcp(&place, &["--command", &place.mock("--dialect v1"), "--max-sessions", "2"]);
    let mut first = talker(&place, &proxy);
    first.new_session();
    let mut second = talker(&place, &proxy);
    second.new_session();
    let third = second.ask("session/new", json!({ "cwd": place.path, "mcpServers": [] }));
    let answer = second.answer(third);
    let why = answer["error"]["message"].as_str().unwrap_or_default();
    assert!(why.contains("at most 2 sessions") && why.contains("--max-sessions"), "{answer}");
    // A client would take -32000 for a login that is missing.
    assert_eq!(answer["error"]["code"], -32603, "{answer}");
    drop(first);
    // Its place is free a moment after its agent has ended.
    let began = Instant::now();
    loop {
        let next = second.ask("session/new", json!({ "cwd": place.path, "mcpServers": [] }));
        let answer = second.answer(next);
        if answer["result"]["sessionId"].is_string() {
            break;
        }
        let why = answer["error"]["message"].as_str().unwrap_or_default();
        assert!(why.contains("--max-sessions") && began.elapsed() < PATIENCE, "{answer}");
        std::thread::sleep(Duration::from_millis(20));
    }
    place.wait_for_processes(2);
    assert_eq!(proxy.stop().0, Some(0));
}

#[test]
fn a_policy_that_cannot_be_read_is_a_matter_of_usage() {
    let place = Place::new();
    for wrong in
        [["--policy", "sometimes"], ["--allow", "Bash("], ["--fault", "explode"], ["--mcp", "/no/such/file"]]
    {
        let mut command = place.acp(&["proxy", "--agent", "mock"]);
        let output = command.args(wrong).output().expect("acp runs");
        assert_eq!(output.status.code(), Some(2), "{wrong:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(wrong[1].trim_end_matches('(')), "{wrong:?}: {said}");
    }
}
