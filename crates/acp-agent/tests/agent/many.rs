//! Two hundred sessions at once.

use std::time::Instant;

use serde_json::json;

use crate::harness::{Place, Talk, server};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_sessions_prompt_at_once_and_none_fails() {
    let place = Place::new();
    let server = server(place.settings());
    let mut talk = Talk::v1(&server, &json!({})).await;
    let mut sessions = Vec::new();
    for _ in 0..200 {
        sessions.push(talk.session(&place.work()).await);
    }
    talk.heard.clear();
    let mut asked = Vec::new();
    for (n, session) in sessions.iter().enumerate() {
        let text = format!("Say 'session {n} is served'");
        let params = json!({ "sessionId": session, "prompt": [{ "type": "text", "text": text }] });
        asked.push((talk.send("session/prompt", &params).await, Instant::now()));
    }
    let mut first = vec![None; sessions.len()];
    let mut open = asked.len();
    while open > 0 {
        let frame = talk.next_frame().await;
        if frame["params"]["update"]["sessionUpdate"] == "agent_message_chunk" {
            let at =
                sessions.iter().position(|id| frame["params"]["sessionId"] == id.as_str()).expect("ours");
            first[at].get_or_insert_with(|| asked[at].1.elapsed());
        }
        if frame.get("method").is_none() {
            assert_eq!(frame["result"]["stopReason"], "end_turn", "{frame}");
            open -= 1;
        }
    }
    let mut times: Vec<_> = first.into_iter().map(|time| time.expect("a first chunk")).collect();
    times.sort();
    println!("time to the first chunk: median {:?}, p99 {:?}", times[100], times[197]);
    for n in 0..200 {
        assert!(talk.words().contains(&format!("session {n} is served")));
    }
}
