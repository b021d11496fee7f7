//! The journal of a running proxy, through everything that can happen to it: sent is stored, in order, once.

use std::io::Write;
use std::process::Command;
use std::time::{Duration, Instant};

use acp_dialect::Dialect;
use acp_proxy::journal::{Conversation, JournalSettings, conversations};
use acp_rpc::Direction;
use serde_json::Value;

use crate::talker::Talker;
use crate::{ACP, PATIENCE, Place, Proxy, wait};

/// An agent that answers a prompt with so many numbered chunks of about a kilobyte.
fn counting(place: &Place, count: usize) -> String {
    let script = format!(
        r#"read -r line; echo '{{"jsonrpc":"2.0","id":1,"result":{{"protocolVersion":1,"authMethods":[]}}}}'
read -r line; echo '{{"jsonrpc":"2.0","id":2,"result":{{"sessionId":"s"}}}}'
read -r line; awk 'BEGIN {{ for (i = 0; i < 1000; i++) words = words "x"; for (i = 1; i <= {count}; i++) printf "{{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{{\"sessionId\":\"s\",\"update\":{{\"sessionUpdate\":\"agent_message_chunk\",\"content\":{{\"type\":\"text\",\"text\":\"%d %s\"}}}}}}}}\n", i, words }}'
echo '{{"jsonrpc":"2.0","id":3,"result":{{"stopReason":"end_turn"}}}}'
cat >/dev/null
"#
    );
    place.shell(&script)
}

fn begin(place: &Place, proxy: &Proxy) -> Talker {
    let mut talker = Talker::new(Dialect::V1, proxy.connect(), &place.path.display().to_string());
    talker.initialize();
    talker.new_session();
    talker.prompt("Count");
    talker
}

fn number(line: &str) -> Option<u64> {
    let value: Value = serde_json::from_str(line).ok()?;
    value.pointer("/params/update/content/text")?.as_str()?.split(' ').next()?.parse().ok()
}

/// The chunks that a client has received.
fn received(talker: &Talker) -> Vec<u64> {
    talker.wire.iter().filter(|(dir, _)| dir == "a2c").filter_map(|(_, line)| number(line)).collect()
}

fn kept(place: &Place) -> Vec<Conversation> {
    conversations(&place.journal(), None).expect("a journal").0
}

/// The chunks that are in the journal.
fn stored(conversation: &Conversation) -> Vec<u64> {
    let agent = conversation.spoken.iter().filter(|(_, dir, _)| *dir == Direction::AgentToClient);
    agent.filter_map(|(_, _, line)| number(std::str::from_utf8(line).expect("text"))).collect()
}

fn one_to(last: u64) -> Vec<u64> {
    (1..=last).collect()
}

#[test]
fn what_a_client_received_from_a_killed_proxy_is_in_its_journal() {
    let place = Place::new();
    let agent = counting(&place, 200_000);
    let proxy = Proxy::tcp(&place, &["--command", &agent]);
    let mut talker = begin(&place, &proxy);
    while talker.chunks < 3000 {
        talker.hear();
    }
    proxy.signal("-KILL");
    // What is on its way still arrives; the connection may be reset in the end.
    talker.hear_the_rest();
    place.wait_for_processes(0);
    let received = received(&talker);
    let last = received.len() as u64;
    assert_eq!(received, one_to(last), "in order, without a gap");
    let found = kept(&place);
    let stored_before = stored(&found[0]);
    assert!(stored_before.len() as u64 >= last, "{} stored, {last} received", stored_before.len());
    assert_eq!(stored_before, one_to(stored_before.len() as u64), "in order, once");
    // The next proxy mends the journal and goes on in it.
    let proxy = Proxy::tcp(&place, &["--command", &place.mock("--dialect v1")]);
    proxy.wait_for_words("was left unfinished");
    let mut talker = Talker::new(Dialect::V1, proxy.connect(), &place.path.display().to_string());
    talker.initialize();
    drop(talker);
    let began = Instant::now();
    while kept(&place).get(1).is_none_or(|second| second.closed.is_none()) {
        assert!(began.elapsed() < PATIENCE, "the end of the second conversation is not on record");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(proxy.stop().0, Some(0));
    let found = kept(&place);
    assert_eq!(found.len(), 2);
    assert_eq!(stored(&found[0]), stored_before);
    assert_eq!(found[1].closed.as_ref().map(|closed| closed.outcome.as_str()), Some("the client left"));
}

#[test]
fn what_the_proxy_says_in_the_place_of_a_side_is_in_its_journal_too() {
    let place = Place::new();
    let args = ["--command", &place.mock("--dialect v1"), "--drain", "10m"];
    let proxy = Proxy::tcp(&place, &args);
    let mut talker = Talker::new(Dialect::V1, proxy.connect(), &place.path.display().to_string());
    talker.initialize();
    talker.new_session();
    talker.prompt("Count slowly to 900");
    while talker.chunks == 0 {
        talker.hear();
    }
    proxy.signal("-TERM");
    let began = Instant::now();
    let refused = loop {
        // Until the signal is heard, the agent answers: it has a turn to do.
        let asked = talker.prompt("And this");
        let answer = talker.answer(asked);
        let why = answer["error"]["message"].as_str().unwrap_or_default();
        if why.contains("shutting down") {
            // A client would take -32000 for a login that is missing.
            assert_eq!(answer["error"]["code"], -32603, "{answer}");
            break asked;
        }
        assert!(began.elapsed() < PATIENCE, "{answer}");
    };
    proxy.signal("-KILL");
    place.wait_for_processes(0);
    let found = kept(&place);
    let said = &found[0].decided.last().expect("the refusal").1;
    assert_eq!((&*said.verdict, said.id.clone(), &*said.request), ("answered", refused.to_string(), ""));
    assert!(said.answer.contains("-32603") && said.reason.contains("shutting down"), "{said:?}");
    let shown = place.acp(&["replay", &place.journal().display().to_string()]).output().expect("acp runs");
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("proxy: answered an error"), "{shown}");

    let place = Place::new();
    let mut proxy = Proxy::tcp(&place, &["--command", &place.mock("--dialect v1"), "--drain", "0s"]);
    let mut talker = Talker::new(Dialect::V1, proxy.connect(), &place.path.display().to_string());
    talker.initialize();
    talker.new_session();
    let turn = talker.prompt("Count slowly to 900");
    while talker.chunks == 0 {
        talker.hear();
    }
    proxy.signal("-TERM");
    assert_eq!(talker.result(turn)["stopReason"], "cancelled");
    assert_eq!(wait(&mut proxy.process), Some(0), "{}", proxy.said());
    let found = kept(&place);
    let said: Vec<_> = found[0].decided.iter().map(|(_, said)| (&*said.verdict, &*said.method)).collect();
    assert_eq!(said, [("sent", "session/cancel")]);
}

/// A proxy that cannot write files of more than about a hundred kilobytes, as on a disk that is full.
fn on_a_small_disk(place: &Place, args: &[&str]) -> Proxy {
    let mut command = Command::new("sh");
    let script = r#"trap '' XFSZ; ulimit -f 200; exec "$@""#;
    command.args(["-c", script, "sh", ACP, "proxy", "--listen", "tcp://127.0.0.1:0"]).args(args);
    command.current_dir(&place.path).env("XDG_STATE_HOME", &place.path).stdin(std::process::Stdio::null());
    Proxy::start(place, command)
}

#[test]
fn a_full_disk_ends_the_conversation_with_the_reason_and_nothing_unkept_was_passed_on() {
    let place = Place::new();
    let agent = counting(&place, 10_000);
    let proxy = on_a_small_disk(&place, &["--command", &agent]);
    let mut talker = begin(&place, &proxy);
    let answer = talker.answer(3);
    let why = answer["error"]["message"].as_str().unwrap_or_default();
    assert!(
        why.contains("the journal cannot be written") && why.contains("--journal-full continue"),
        "{answer}"
    );
    talker.hear_the_rest();
    let received = received(&talker);
    assert!(!received.is_empty() && received.len() < 10_000, "{}", received.len());
    assert_eq!(received, one_to(received.len() as u64));
    assert_eq!(stored(&kept(&place)[0]), received, "what was received is what was stored");
    place.wait_for_processes(0);
    // A new client is told as well; the disk is still full.
    let mut next = proxy.connect();
    writeln!(next, r#"{{"jsonrpc":"2.0","id":7,"method":"initialize","params":{{"protocolVersion":1}}}}"#)
        .expect("sent");
    drop(next);
    let (code, said) = proxy.stop();
    assert_eq!(code, Some(0), "the journal has all that was passed on: {said}");
    assert!(said.contains("the journal cannot be written"), "{said}");
}

#[test]
fn on_a_full_disk_a_proxy_can_be_told_to_go_on_and_says_exactly_what_is_missing() {
    let place = Place::new();
    let agent = counting(&place, 2000);
    let proxy = on_a_small_disk(&place, &["--command", &agent, "--journal-full", "continue"]);
    let mut talker = begin(&place, &proxy);
    talker.result(3);
    assert_eq!(received(&talker), one_to(2000), "the client misses nothing");
    let sent: usize = talker.wire.iter().map(|(_, line)| line.len() + 1).sum();
    drop(talker);
    place.wait_for_processes(0);
    let (_, said) = proxy.stop();
    assert!(said.contains("the journal cannot be written"), "{said}");
    let found = kept(&place);
    let stored = stored(&found[0]);
    assert!(stored.is_sorted_by(|a, b| a < b), "in order, once");
    assert!(stored.len() < 2000);
    let in_journal: usize = found[0].spoken.iter().map(|(_, _, line)| line.len() + 1).sum();
    // The gap is in the journal if there was room for that; otherwise it was said.
    let told = said.rsplit_once(" bytes of lines) were passed on and are not in it");
    let told = told.map(|(before, _)| before.rsplit_once('(').expect("a count").1.parse().expect("a number"));
    let missing = told.unwrap_or_else(|| usize::try_from(found[0].missing_bytes).expect("a size"));
    assert!(missing > 0);
    assert_eq!(in_journal + missing, sent, "stored and missing are all that was sent");
}

#[test]
fn everything_is_stored_though_the_client_is_slow_and_though_the_agent_is_killed() {
    let place = Place::new();
    let agent = counting(&place, 10_000);
    let proxy = Proxy::tcp(&place, &["--command", &agent]);
    let mut slow = begin(&place, &proxy);
    // The agent is held back meanwhile, not its words forgotten.
    while place.processes().len() < 2 || stored(&kept(&place)[0]).is_empty() {
        std::thread::sleep(Duration::from_millis(20));
    }
    slow.result(3);
    assert_eq!(received(&slow), one_to(10_000));
    drop(slow);
    place.wait_for_processes(0);
    let mut doomed = begin(&place, &proxy);
    while doomed.chunks < 10 {
        doomed.hear();
    }
    kill_agent(&place);
    // Its last words may be half a line.
    doomed.hear_the_rest();
    let answer = doomed.answered(3).expect("an answer");
    let gone = answer["error"]["message"].as_str().is_some_and(|why| why.contains("the agent is gone"));
    let done = answer["result"]["stopReason"] == "end_turn";
    assert!(gone || done, "{answer}");
    let received = received(&doomed);
    assert_eq!(received, one_to(received.len() as u64));
    assert_eq!(proxy.stop().0, Some(0));
    let found = kept(&place);
    assert_eq!(found.len(), 2);
    assert_eq!(stored(&found[0]), one_to(10_000));
    assert_eq!(stored(&found[1]), received, "what the client received is what was stored");
}

/// Kills the processes of the agent itself with -9.
fn kill_agent(place: &Place) {
    let (mark, began, mut killed) = (place.file("agent.sh"), Instant::now(), false);
    // A process that was just started has no command line for a moment.
    while !killed {
        assert!(began.elapsed() < PATIENCE, "there is no agent to kill");
        for entry in std::fs::read_dir("/proc").expect("/proc").flatten() {
            let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            if line.starts_with("sh ") && line.contains(&mark) {
                let pid = entry.file_name().to_string_lossy().into_owned();
                killed |= Command::new("kill").args(["-9", &pid]).status().is_ok_and(|it| it.success());
            }
        }
    }
}

#[test]
fn a_client_that_comes_back_after_a_turn_without_it_goes_on_with_its_session() {
    let place = Place::new();
    let proxy = Proxy::tcp(&place, &["--command", &place.mock("--dialect v1")]);
    let folder = place.path.display().to_string();
    let mut first = Talker::new(Dialect::V1, proxy.connect(), &folder);
    first.initialize();
    first.new_session();
    first.prompt("Count slowly to 900");
    while first.chunks < 3 {
        first.hear();
    }
    let heard: Vec<String> =
        first.wire.iter().filter(|(dir, _)| dir == "a2c").map(|(_, line)| line.clone()).collect();
    let session = first.session.clone();
    drop(first);
    place.wait_for_processes(0);
    let mut again = Talker::new(Dialect::V1, proxy.connect(), &folder);
    again.initialize();
    again.session.clone_from(&session);
    again.load();
    let turn = again.prompt("Say 'welcome back'");
    again.result(turn);
    assert!(again.text.contains("welcome back"), "{}", again.text);
    let answers: Vec<String> =
        again.wire.iter().filter(|(dir, _)| dir == "a2c").map(|(_, line)| line.clone()).collect();
    drop(again);
    assert_eq!(proxy.stop().0, Some(0));
    let (found, _) = conversations(&place.journal(), Some(&session)).expect("a journal");
    assert_eq!(found.len(), 2, "both conversations of the session");
    let said = |at: usize| -> Vec<String> {
        let agent = found[at].spoken.iter().filter(|(_, dir, _)| *dir == Direction::AgentToClient);
        agent.map(|(_, _, line)| String::from_utf8(line.to_vec()).expect("text")).collect()
    };
    assert_eq!(said(0)[..heard.len()], heard[..], "what it heard before it went away, and nothing twice");
    assert_eq!(said(1), answers);
}

#[test]
fn the_journal_is_where_it_is_said_to_be_or_nowhere() {
    let place = Place::new();
    let run = |args: &[&str]| {
        let mut command = place.acp(&["proxy", "--client-dialect", "v1", "--command", "true"]);
        command.args(args);
        let mut process = command.stdout(std::process::Stdio::null()).spawn().expect("acp runs");
        wait(&mut process);
    };
    run(&["--no-journal"]);
    assert!(!place.journal().exists());
    run(&["--journal", "mine"]);
    assert!(!place.journal().exists());
    assert_eq!(std::fs::read_dir(place.path.join("mine")).expect("a folder").count(), 1);
    run(&[]);
    assert_eq!(std::fs::read_dir(place.journal()).expect("a folder").count(), 1);
    let mut homeless = Command::new(ACP);
    homeless.args(["proxy", "--agent", "mock"]).env_remove("HOME").env_remove("XDG_STATE_HOME");
    let output = homeless.stdin(std::process::Stdio::null()).output().expect("acp runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("use --journal DIR or --no-journal"), "{said}");
    let settings = JournalSettings::new("x");
    assert_eq!((settings.segment_bytes, settings.keep.as_secs()), (64 << 20, 7 * 24 * 3600));
}

#[test]
fn segments_are_rotated_while_a_conversation_goes_on() {
    let place = Place::new();
    let agent = counting(&place, 3000);
    let proxy =
        Proxy::tcp(&place, &["--command", &agent, "--journal-segment", "256KiB", "--journal-sync", "always"]);
    let mut talker = begin(&place, &proxy);
    talker.result(3);
    drop(talker);
    let began = Instant::now();
    while kept(&place)[0].closed.is_none() {
        assert!(began.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(proxy.stop().0, Some(0));
    assert!(acp_proxy::journal::segments(&place.journal()).expect("segments").len() > 5);
    assert_eq!(stored(&kept(&place)[0]), one_to(3000));
}
