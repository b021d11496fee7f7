//! Several agents, each a process of its own, in one state folder.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::talk::{Place, Talk};

fn start(place: &Place) -> Talk {
    Talk::v1(place.agent(&[]), &json!({}))
}

fn load(talk: &mut Talk, place: &Place, session: &str) -> Value {
    talk.ask("session/load", &json!({ "sessionId": session, "cwd": place.work(), "mcpServers": [] }))
}

/// All sessions, of all pages.
fn listed(talk: &mut Talk) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut params = json!({});
    loop {
        let page = talk.ask("session/list", &params);
        let sessions = page["result"]["sessions"].as_array().unwrap_or_else(|| panic!("no list: {page}"));
        found.extend(sessions.iter().filter_map(|session| session["sessionId"].as_str()).map(str::to_owned));
        match page["result"].get("nextCursor") {
            Some(cursor) => params = json!({ "cursor": cursor }),
            None => return found,
        }
    }
}

#[test]
fn the_sessions_of_one_agent_are_listed_and_loaded_by_another() {
    let place = Place::new();
    let (mut one, mut two) = (start(&place), start(&place));
    let session = one.session(&place.work(), &json!([]));
    assert_eq!(one.prompt(&session, "Say 'one'")["result"]["stopReason"], "end_turn");
    assert_eq!(listed(&mut two), BTreeSet::from([session.clone()]));

    // It is open: to load, resume or delete it elsewhere would be to overwrite it.
    for method in ["session/load", "session/resume", "session/delete"] {
        let params = json!({ "sessionId": session, "cwd": place.work(), "mcpServers": [] });
        let refused = two.ask(method, &params);
        assert_eq!(refused["error"]["code"], -32600, "{method}: {refused}");
        let words = refused["error"]["message"].as_str().unwrap_or_default();
        let owner = format!("open in another agent (process {})", one.child.id());
        assert!(words.contains(&owner), "{method}: {refused}");
    }
    assert_eq!(one.prompt(&session, "Say 'two'")["result"]["stopReason"], "end_turn");

    assert!(one.ask("session/close", &json!({ "sessionId": session })).get("result").is_some());
    let loaded = load(&mut two, &place, &session);
    assert!(loaded.get("result").is_some(), "{loaded}");
    assert_eq!(two.words(), "onetwo", "nothing that was acknowledged is lost");
    assert_eq!(two.prompt(&session, "Say 'three'")["result"]["stopReason"], "end_turn");
    assert!(load(&mut one, &place, &session)["error"]["message"].as_str().is_some());

    // Who has gone has let go.
    assert_eq!(two.end().0, Some(0));
    let loaded = load(&mut one, &place, &session);
    assert!(loaded.get("result").is_some(), "{loaded}");
    assert!(one.words().ends_with("onetwothree"), "{}", one.words());
    assert!(one.ask("session/delete", &json!({ "sessionId": session })).get("result").is_some());
    assert!(listed(&mut one).is_empty());
}

#[test]
fn the_sessions_of_a_killed_agent_are_taken_over_by_one_that_ran_beside_it() {
    let place = Place::new();
    let (mut one, mut two) = (start(&place), start(&place));
    let session = one.session(&place.work(), &json!([]));
    assert_eq!(one.prompt(&session, "Say 'kept'")["result"]["stopReason"], "end_turn");
    // It ends with the folder of the test.
    one.send_prompt(&session, "Run the command 'while test -e notes.txt; do sleep 0.1; done'");
    one.until(|frame| frame["params"]["update"]["status"] == "in_progress");
    assert!(load(&mut two, &place, &session).get("error").is_some());
    one.child.kill().expect("killed"); // SIGKILL: nothing of it runs any more
    one.child.wait().expect("gone");

    let loaded = load(&mut two, &place, &session);
    assert!(loaded.get("result").is_some(), "{loaded}");
    assert_eq!(two.words(), "kept");
    let calls: Vec<&Value> = two.updates().into_iter().filter(|it| it["toolCallId"].is_string()).collect();
    assert!(calls.len() == 1 && calls[0]["status"] == "failed", "{calls:?}");
    assert_eq!(two.prompt(&session, "Say 'back'")["result"]["stopReason"], "end_turn");
    assert_eq!(two.end().0, Some(0));
}

#[test]
fn agents_that_work_at_the_same_time_lose_nothing() {
    let place = Place::new();
    let mut agents: Vec<Talk> = (0..3).map(|_| start(&place)).collect();
    let sessions: Vec<String> =
        agents.iter_mut().map(|agent| agent.session(&place.work(), &json!([]))).collect();
    for turn in 0..8 {
        let asked: Vec<i64> = agents
            .iter_mut()
            .zip(&sessions)
            .map(|(agent, session)| agent.send_prompt(session, &format!("Say '{turn}.'")))
            .collect();
        for (agent, asked) in agents.iter_mut().zip(asked) {
            assert_eq!(agent.answer(asked)["result"]["stopReason"], "end_turn");
        }
    }
    // One is killed, the others end as they should.
    agents[0].child.kill().expect("killed");
    agents[0].child.wait().expect("gone");
    for agent in agents.drain(1..) {
        let (code, said) = agent.end();
        assert_eq!((code, said.as_str()), (Some(0), ""));
    }
    let mut last = start(&place);
    assert_eq!(listed(&mut last), sessions.iter().cloned().collect());
    for session in &sessions {
        assert!(load(&mut last, &place, session).get("result").is_some());
    }
    assert_eq!(last.words(), "0.1.2.3.4.5.6.7.".repeat(3));
}

#[test]
fn an_agent_that_is_started_while_another_one_ends_finds_its_sessions() {
    let place = Place::new();
    let mut made = BTreeSet::new();
    let mut ending: Vec<Talk> = Vec::new();
    for _ in 0..4 {
        let mut talk = start(&place);
        assert_eq!(listed(&mut talk), made);
        made.insert(talk.session(&place.work(), &json!([])));
        ending.push(talk);
    }
    for talk in ending {
        assert_eq!(talk.end(), (Some(0), String::new()));
    }
    let left = std::fs::read_dir(place.state().join("open")).expect("the folder of locks").count();
    assert_eq!(left, 0, "ended agents hold nothing");
}

#[test]
fn a_session_under_a_clients_own_id_is_found_by_another_agent() {
    let place = Place::new();
    let init = json!({ "protocol_version": "2025.1", "working_directory": place.work(), "capabilities": {} });
    let mut one = Talk::start(place.agent(&[]));
    one.ask("initialize", &init);
    assert!(one.ask("session/new", &json!({ "session_id": "mine" })).get("result").is_some());
    let mut two = Talk::start(place.agent(&[]));
    two.ask("initialize", &init);
    let refused = two.ask("session/load", &json!({ "session_id": "mine" }));
    assert!(refused["error"]["message"].to_string().contains("open in another agent"), "{refused}");
    assert_eq!(one.end().0, Some(0));
    let loaded = two.ask("session/load", &json!({ "session_id": "mine" }));
    assert!(loaded.get("result").is_some(), "{loaded}");
}
