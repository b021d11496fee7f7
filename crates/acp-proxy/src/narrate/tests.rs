use super::*;

use Direction::{AgentToClient as A, ClientToAgent as C};

fn hear(narrator: &mut Narrator, lines: &[(Direction, &str)]) -> Vec<Body> {
    let mut told = Vec::new();
    for (dir, line) in lines {
        let line = format!(r#"{{"jsonrpc":"2.0",{line}}}"#);
        narrator.hear(*dir, &Frame::parse(line), &mut told);
    }
    told.into_iter().map(|(_, body)| body).collect()
}

fn kinds(bodies: &[Body]) -> Vec<&'static str> {
    bodies.iter().map(Body::kind).collect()
}

fn closed(narrator: &mut Narrator) -> usize {
    let mut told = Vec::new();
    narrator.close("the client left", &mut told);
    told.len()
}

#[test]
fn a_further_prompt_leaves_the_turn_alone() {
    let mut narrator = Narrator::default();
    let text = r#""method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"four"}}}"#;
    let prompt =
        |id: u64| format!(r#""id":{id},"method":"session/prompt","params":{{"sessionId":"s","prompt":[]}}"#);
    let busy = r#""id":4,"error":{"code":-32600,"message":"busy"}"#;
    let ended = r#""id":3,"result":{"stopReason":"end_turn"}"#;
    let told = hear(
        &mut narrator,
        // The last one uses the id of the turn.
        &[(C, &prompt(3)), (A, text), (C, &prompt(4)), (A, busy), (C, &prompt(3)), (A, text), (A, ended)],
    );
    assert_eq!(kinds(&told), ["turn_start", "text", "frame", "frame", "frame", "text", "turn_end"]);
    let Some(Body::TurnEnd(end)) = told.last() else { panic!("{told:?}") };
    assert_eq!((end.stop_reason.as_str(), end.length), ("end_turn", 8));
    assert_eq!(kinds(&hear(&mut narrator, &[(C, &prompt(5))])), ["turn_start"]);
}

#[test]
fn of_sessions_that_only_the_client_names_nothing_stays() {
    let mut narrator = Narrator::default();
    let scope = r#""params":{"sessionId":"made-up"}"#;
    let cancel = format!(r#""method":"session/cancel",{scope}"#);
    let mode = format!(r#""id":1,"method":"session/set_mode",{scope}"#);
    let close = format!(r#""id":2,"method":"session/close",{scope}"#);
    let load = format!(r#""id":3,"method":"session/load",{scope}"#);
    let refused = |id: u64| format!(r#""id":{id},"error":{{"code":-32002,"message":"no such session"}}"#);
    let lines = [
        (C, cancel.clone()),
        (C, mode),
        (A, refused(1)),
        (C, close),
        (A, refused(2)),
        (C, load),
        (A, refused(3)),
    ];
    let lines: Vec<(Direction, &str)> = lines.iter().map(|(dir, line)| (*dir, line.as_str())).collect();
    assert!(hear(&mut narrator, &lines).is_empty());
    assert!(
        narrator.sessions.is_empty()
            && [Direction::ClientToAgent, Direction::AgentToClient]
                .iter()
                .all(|dir| narrator.open.by(*dir).is_empty())
    );
    // A prompt is told, and that nothing comes of it.
    let prompt = format!(r#""id":4,"method":"session/prompt",{scope}"#);
    let told = hear(&mut narrator, &[(C, &prompt), (C, &cancel), (A, &refused(4)), (C, &cancel)]);
    assert_eq!(kinds(&told), ["turn_start", "frame", "turn_end", "closed"]);
    assert_eq!(closed(&mut narrator), 0);
    // What the agent says of a session is always told, and the end of it.
    let ask = format!(r#""id":"q","method":"session/request_permission",{scope}"#);
    assert_eq!(kinds(&hear(&mut narrator, &[(A, &ask), (C, &cancel)])), ["permission", "frame"]);
    assert_eq!(closed(&mut narrator), 1);
}

#[test]
fn a_session_is_closed_by_its_answer_and_not_before_its_turn_ends() {
    let mut narrator = Narrator::default();
    let mut told = |lines: &[(Direction, &str)]| kinds(&hear(&mut narrator, lines));
    let prompt = r#""id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}"#;
    let close = r#""id":2,"method":"session/close","params":{"sessionId":"s"}"#;
    let refused = r#""id":2,"error":{"code":-32601,"message":"no"}"#;
    let done = r#""id":2,"result":{}"#;
    let ended = r#""id":1,"result":{"stopReason":"cancelled"}"#;
    assert_eq!(told(&[(C, prompt), (C, close), (A, refused)]), ["turn_start", "frame", "frame"]);
    assert_eq!(told(&[(C, close), (A, done)]), ["frame", "frame"]);
    assert_eq!(told(&[(A, ended)]), ["turn_end", "closed"]);
    assert_eq!(closed(&mut narrator), 0, "it is told once");
}

/// What is told of lines within a turn of the session `s`: events as JSON.
fn told_in_turn(lines: &[&str]) -> Vec<serde_json::Value> {
    let (mut narrator, mut told) = (Narrator::default(), Vec::new());
    let prompt =
        r#"{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}}"#;
    let end = r#"{"jsonrpc":"2.0","id":1,"result":{"stopReason":"end_turn"}}"#;
    narrator.hear(Direction::ClientToAgent, &Frame::parse(prompt.to_owned()), &mut told);
    for line in lines.iter().chain([&end]) {
        narrator.hear(Direction::AgentToClient, &Frame::parse((*line).to_owned()), &mut told);
    }
    let event = |(session, body): NarratedEvent| {
        let session = session.to_string();
        crate::event::Event { session, epoch: 0, seq: 0, at: 0, task: None, body }
    };
    told.into_iter().skip(1).map(|told| serde_json::to_value(event(told)).expect("JSON")).collect()
}

#[test]
fn halves_of_a_character_are_told_as_text_and_counted() {
    let chunk = |text: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"s","update":{{"sessionUpdate":"agent_message_chunk","content":{{"type":"text","text":"{text}"}}}}}}}}"#
        )
    };
    let told = told_in_turn(&[&chunk(r"a\ud83d"), &chunk(r"\ude00b")]);
    let texts: Vec<_> = told.iter().map(|body| &body["data"]["text"]).collect();
    assert_eq!(texts[..2], ["a\u{fffd}", "\u{fffd}b"]);
    assert_eq!(told[2]["data"]["length"], 8);
}

#[test]
fn a_line_that_is_no_frame_is_told_in_the_turn_it_came_in() {
    let told = told_in_turn(&["Warning: \"low\" memory", "  "]);
    assert_eq!(told.len(), 2, "{told:?}");
    assert_eq!(told[0]["kind"], "frame");
    assert_eq!(told[0]["data"], serde_json::json!({ "dir": "a2c", "frame": "Warning: \"low\" memory" }));
    let (mut narrator, mut out) = (Narrator::default(), Vec::new());
    narrator.hear(Direction::AgentToClient, &Frame::parse("hello"), &mut out);
    assert!(out.is_empty(), "it is no session's: {out:?}");
}
