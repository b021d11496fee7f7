//! Killed in the middle of a turn, and loaded again.

use serde_json::{Value, json};

use crate::talk::{Place, Talk};

fn load(place: &Place, session: &str) -> (Talk, Value) {
    let mut talk = Talk::v1(place.agent(&[]), &json!({}));
    let params = json!({ "sessionId": session, "cwd": place.work(), "mcpServers": [] });
    let loaded = talk.ask("session/load", &params);
    (talk, loaded)
}

#[test]
fn what_was_shown_before_a_kill_is_there_after_it() {
    let place = Place::new();
    let mut talk = Talk::v1(place.agent(&[]), &json!({}));
    let session = talk.session(&place.work(), &json!([]));
    assert_eq!(talk.prompt(&session, "Read notes.txt")["result"]["stopReason"], "end_turn");
    let mode = json!({ "sessionId": session, "modeId": "bypassPermissions" });
    assert!(talk.ask("session/set_mode", &mode).get("result").is_some());
    let before = talk.words();
    // It ends with the folder of the test.
    let wish = "Run the command 'while test -e notes.txt; do sleep 0.1; done'";
    talk.send_prompt(&session, wish);
    let running = talk.until(|frame| frame["params"]["update"]["status"] == "in_progress");
    let call = running["params"]["update"]["toolCallId"].clone();
    talk.child.kill().expect("killed"); // SIGKILL: nothing of it runs any more
    talk.child.wait().expect("gone");

    let (mut again, loaded) = load(&place, &session);
    assert_eq!(loaded["result"]["modes"]["currentModeId"], "bypassPermissions", "{loaded}");
    assert_eq!(again.words(), before, "every word of the finished turn");
    let said: Vec<&str> = again
        .updates()
        .into_iter()
        .filter(|update| update["sessionUpdate"] == "user_message_chunk")
        .filter_map(|update| update["content"]["text"].as_str())
        .collect();
    assert_eq!(said, ["Read notes.txt", wish]);
    let cut_off: Vec<&Value> =
        again.updates().into_iter().filter(|update| update["toolCallId"] == call).collect();
    assert_eq!(
        (cut_off.len(), &cut_off[0]["status"], &cut_off[0]["kind"]),
        (1, &json!("failed"), &json!("execute"))
    );
    assert_eq!(again.prompt(&session, "Say 'back'")["result"]["stopReason"], "end_turn");
    assert_eq!(again.end().0, Some(0));
}

#[test]
fn a_full_disk_is_told_instead_of_acknowledged() {
    let place = Place::new();
    // Files of this process may not grow beyond 2 MiB, which the database of the first turn stays below.
    let agent = place.agent(&[]);
    let mut limited = std::process::Command::new("sh");
    limited.args(["-c", "trap '' XFSZ; ulimit -f 4096; exec \"$0\" \"$@\""]).arg(agent.get_program());
    limited.args(agent.get_args()).current_dir(place.folder.path());
    let mut talk = Talk::v1(limited, &json!({}));
    let session = talk.session(&place.work(), &json!([]));
    assert_eq!(talk.prompt(&session, "Say 'kept'")["result"]["stopReason"], "end_turn");
    let big = "x".repeat(400_000);
    let mut refused = Value::Null;
    for _ in 0..20 {
        let answer = talk.prompt(&session, &format!("Say '{big}'"));
        if answer.get("error").is_some() {
            refused = answer;
            break;
        }
    }
    let words =
        refused["error"]["message"].as_str().unwrap_or_else(|| panic!("never full: {refused}")).to_owned();
    assert!(words.contains("cannot keep sessions"), "{words}");
    drop(talk.end());
    let (again, loaded) = load(&place, &session);
    assert!(loaded.get("result").is_some(), "{loaded}");
    assert!(again.words().contains("kept"), "what was acknowledged is still there");
}

#[test]
fn a_session_under_an_id_of_the_clients_own_is_there_after_a_kill() {
    let place = Place::new();
    let init = json!({ "protocol_version": "2025.1", "working_directory": place.work(), "capabilities": {} });
    let mut talk = Talk::start(place.agent(&[]));
    talk.ask("initialize", &init);
    let new = talk.ask("session/new", &json!({ "session_id": "mine" }));
    assert!(new.get("result").is_some(), "{new}");
    talk.child.kill().expect("killed");
    talk.child.wait().expect("gone");

    let mut again = Talk::start(place.agent(&[]));
    again.ask("initialize", &init);
    let loaded = again.ask("session/load", &json!({ "session_id": "mine" }));
    assert!(loaded.get("result").is_some(), "{loaded}");
    assert_eq!(again.end().0, Some(0));
}
