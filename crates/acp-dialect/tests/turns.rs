//! Turns that cross: questions that nobody answers any more, and a prompt that is sent while another one is worked on.

mod common;

use acp_dialect::{Dialect, Side};
use acp_rpc::Frame;
use common::Talk;

const REFUSED: &str = r#""error":{"code":-32600,"message":"busy"}"#;

fn prompt(id: u64) -> String {
    format!(
        r#""id":{id},"method":"session/prompt","params":{{"sessionId":"s","prompt":[{{"type":"text","text":"go"}}]}}"#
    )
}

fn chunk(text: &str) -> String {
    let content = format!(r#"{{"type":"text","text":"{text}"}}"#);
    format!(
        r#""method":"session/update","params":{{"sessionId":"s","update":{{"sessionUpdate":"agent_message_chunk","content":{content}}}}}"#
    )
}

fn question(id: &str) -> String {
    let options = r#"[{"optionId":"yes","name":"Yes","kind":"allow_once"},{"optionId":"no","name":"No","kind":"reject_once"}]"#;
    format!(
        r#""id":"{id}","method":"session/request_permission","params":{{"sessionId":"s","toolCall":{{"toolCallId":"t"}},"options":{options}}}"#
    )
}

/// A delta client and a v1 agent that works on prompt 1 and has asked `q1`.
fn asked() -> Talk {
    let mut talk = Talk::new(Dialect::DELTA, Dialect::V1);
    talk.client(&prompt(1));
    let told = talk.agent(&question("q1"));
    assert_eq!(told.iter().map(|(to, _)| *to).collect::<Vec<_>>(), [Side::Client]);
    talk
}

/// The next question is the one that the client's next answer means.
fn the_next_question_is_answered(talk: &mut Talk) {
    talk.client(&prompt(2));
    talk.agent(&question("q2"));
    let told =
        talk.client(r#""method":"session/permission_response","params":{"sessionId":"s","approved":true}"#);
    let answer =
        r#"{"jsonrpc":"2.0","id":"q2","result":{"outcome":{"outcome":"selected","optionId":"yes"}}}"#;
    assert_eq!(told, [(Side::Agent, answer.to_owned())]);
}

const CANCELLED: &str = r#"{"jsonrpc":"2.0","id":"q1","result":{"outcome":{"outcome":"cancelled"}}}"#;

#[test]
fn a_cancel_answers_the_open_question() {
    let mut talk = asked();
    let told = talk.client(r#""id":7,"method":"session/cancel","params":{"sessionId":"s"}"#);
    let agent: Vec<&str> =
        told.iter().filter(|(to, _)| *to == Side::Agent).map(|(_, line)| line.as_str()).collect();
    assert_eq!(
        agent,
        [r#"{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s"}}"#, CANCELLED]
    );
    talk.agent(r#""id":1,"result":{"stopReason":"cancelled"}"#);
    the_next_question_is_answered(&mut talk);
}

#[test]
fn the_end_of_a_turn_answers_the_open_question() {
    for end in [r#""result":{"stopReason":"end_turn"}"#, r#""error":{"code":-32603,"message":"failed"}"#] {
        let mut talk = asked();
        let told = talk.agent(&format!(r#""id":1,{end}"#));
        assert!(told.contains(&(Side::Agent, CANCELLED.to_owned())), "{told:?}");
        the_next_question_is_answered(&mut talk);
    }
}

#[test]
fn a_question_that_is_taken_back_is_not_waited_for() {
    let mut talk = asked();
    let told = talk.agent(r#""method":"$/cancel_request","params":{"requestId":"q1"}"#);
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(
        told[0].0 == Side::Agent && told[0].1.contains(r#""id":"q1","error":{"code":-32800"#),
        "{told:?}"
    );
    assert!(talk.noted(&["lossy", "$/cancel_request"]), "{:?}", talk.notes);
    talk.agent(r#""id":1,"result":{"stopReason":"end_turn"}"#);
    the_next_question_is_answered(&mut talk);
}

#[test]
fn a_refused_second_prompt_leaves_the_first_as_it_was() {
    // The agent's form repeats the text in its answer: it is not told a second time.
    let answers = [
        (Dialect::DELTA, "assistant.message_delta", r#""content":"Hello ""#, r#""content":"Hello ""#),
        (
            Dialect::PROBE,
            "messageChunk",
            r#""chunk":"Hello ""#,
            r#""content":[{"type":"text","text":"Hello "}]"#,
        ),
    ];
    for (form, method, said, repeated) in answers {
        let mut talk = Talk::new(Dialect::V1, form);
        talk.client(&prompt(1));
        talk.agent(&format!(r#""method":"{method}","params":{{"sessionId":"s",{said}}}"#));
        talk.client(&prompt(2));
        talk.agent(&format!(r#""id":2,{REFUSED}"#));
        let told = talk.agent(&format!(r#""id":1,"result":{{"sessionId":"s",{repeated}}}"#));
        assert_eq!(told.len(), 1, "{form}: {told:?}");
        assert!(told[0].1.contains(r#""result":{"stopReason":"end_turn"}"#), "{form}: {told:?}");
    }
    // The client's form wants the text in the answer: it has all of it.
    let mut talk = Talk::new(Dialect::DELTA, Dialect::V1);
    talk.client(&prompt(1));
    talk.agent(&chunk("Hello "));
    talk.client(&prompt(2));
    talk.agent(&format!(r#""id":2,{REFUSED}"#));
    talk.agent(&chunk("world"));
    let told = talk.agent(r#""id":1,"result":{"stopReason":"end_turn"}"#);
    assert!(told[0].1.contains(r#""content":"Hello world""#), "{told:?}");
}

#[test]
fn a_second_prompt_that_waits_has_its_own_text() {
    let mut talk = Talk::new(Dialect::DELTA, Dialect::V1);
    for id in [1, 2] {
        talk.client(&prompt(id));
    }
    for (id, text) in [(1, "one"), (2, "two")] {
        talk.agent(&chunk(text));
        let told = talk.agent(&format!(r#""id":{id},"result":{{"stopReason":"end_turn"}}"#));
        assert!(told[0].1.contains(&format!(r#""content":"{text}""#)), "{told:?}");
    }
}

#[test]
fn a_session_whose_mode_cannot_be_set_is_there_in_the_mode_of_the_agent() {
    let forms = [
        (
            Dialect::V2025_1,
            "session/new",
            r#""session_id":"mine","mode":"plan""#,
            r#""currentModeId":"code""#,
        ),
        (Dialect::PROBE, "newSession", r#""mode":"plan""#, r#""mode":"code""#),
    ];
    for (form, method, params, kept) in forms {
        let mut talk = Talk::new(form, Dialect::V1);
        talk.client(&format!(r#""id":1,"method":"{method}","params":{{{params}}}"#));
        let modes = r#"{"currentModeId":"code","availableModes":[{"id":"code","name":"Code"},{"id":"plan","name":"Plan"}]}"#;
        let told = talk.agent(&format!(r#""id":1,"result":{{"sessionId":"s","modes":{modes}}}"#));
        let set = told.iter().find_map(|(to, line)| (*to == Side::Agent).then(|| Frame::parse(line.clone())));
        let set = set.and_then(|set| set.id().cloned()).expect("the mode is set");
        let told = talk.agent(&format!(r#""id":{set},"error":{{"code":-32603,"message":"not now"}}"#));
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].1.starts_with(r#"{"jsonrpc":"2.0","id":1,"result":{"#), "{told:?}");
        assert!(told[0].1.contains(kept), "{told:?}");
        assert!(talk.noted(&["lossy", "mode", "not now"]), "{:?}", talk.notes);
    }
}
