//! Answers and conversations that become too long for the model, over sockets: what the vendor is asked, and what the
//! person is told.

use std::sync::Arc;

use acp_agent::provider::{Choice, Limit};
use acp_agent::{AgentServer, AgentServerSettings};
use serde_json::{Value, json};

use crate::harness::{Place, Talk};
use crate::raw::{Answer, Raw, events, http};

fn agent(place: &Place, model: &Raw, choice: Choice) -> Arc<AgentServer> {
    let choice = Choice {
        provider: "openai-chat".to_owned(),
        model: Some("m".to_owned()),
        base_url: Some(model.url.clone()),
        ..choice
    };
    let settings = AgentServerSettings { choice, ..place.settings() };
    Arc::new(
        AgentServer::new(settings, &|name| name.ends_with("_API_KEY").then(|| "key".to_owned()))
            .expect("an agent"),
    )
}

fn limits(context: u64, output: u64) -> Choice {
    let limits = vec![Limit { id: "m".to_owned(), context: Some(context), output: Some(output) }];
    Choice { limits, ..Choice::default() }
}

fn answer(delta: &Value, finish: &str, input: u64) -> Answer {
    Answer::Bytes(events(&[
        json!({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}),
        json!({"choices": [], "usage": {"prompt_tokens": input, "completion_tokens": 10}}),
        json!("[DONE]"),
    ]))
}

fn says(text: &str, finish: &str) -> Answer {
    answer(&json!({"content": text}), finish, 100)
}

fn calls(arguments: &str, finish: &str, input: u64) -> Answer {
    let call = json!({"index": 0, "id": "c", "function": {"name": "read_file", "arguments": arguments}});
    answer(&json!({"tool_calls": [call]}), finish, input)
}

fn refusal(status: &str, kind: &str, message: &str) -> Answer {
    let body = json!({"error": {"message": message, "type": kind, "code": kind}});
    Answer::Bytes(http(status, "application/json", "", &body.to_string()))
}

fn told(body: &Value) -> String {
    body["messages"].to_string()
}

#[tokio::test]
async fn a_call_that_was_cut_off_is_not_made_and_is_asked_for_again_with_more_room() {
    let place = Place::new();
    let model = Raw::start(vec![
        calls("{\"path\": \"note", "length", 100),
        calls("{\"path\": \"notes.txt\"}", "tool_calls", 120),
        says("It says thyme.", "stop"),
    ])
    .await;
    let server = agent(&place, &model, limits(200_000, 64_000));
    let mut talk = Talk::v1(&server, &json!({})).await;
    let session = talk.session(&place.work()).await;
    let answer = talk.prompt(&session, "What do the notes say?").await;
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    assert!(
        talk.words().contains("The call of read_file was incomplete and was not made"),
        "{}",
        talk.words()
    );
    assert!(talk.words().ends_with("It says thyme."), "{}", talk.words());
    let asked = model.asked();
    let limit = |n: usize| asked[n].body["max_tokens"].as_u64();
    assert_eq!([limit(0), limit(1), limit(2)], [Some(16_384), Some(32_768), Some(16_384)]);
    assert!(told(&asked[1].body).contains("Your calls of read_file were incomplete"), "{}", asked[1].body);
    let begun = talk.updates().into_iter().filter(|it| it["sessionUpdate"] == "tool_call").count();
    assert_eq!(begun, 1, "the incomplete call never began");
}

#[tokio::test]
async fn the_persons_limit_of_an_answer_is_kept() {
    let place = Place::new();
    let model = Raw::start(vec![says("One ", "length"), says("two.", "stop")]).await;
    let choice = Choice { max_tokens: Some(500), ..limits(200_000, 64_000) };
    let mut talk = Talk::v1(&agent(&place, &model, choice), &json!({})).await;
    let session = talk.session(&place.work()).await;
    assert_eq!(talk.prompt(&session, "Count").await["result"]["stopReason"], "end_turn");
    assert!(model.asked().iter().all(|asked| asked.body["max_tokens"] == 500));
    assert!(talk.words().starts_with("One ") && talk.words().ends_with("two."), "{}", talk.words());
}

#[tokio::test]
async fn a_conversation_is_taken_in_short_before_it_overflows_by_the_providers_own_count() {
    let place = Place::new();
    let read = "{\"path\": \"notes.txt\"}";
    let model = Raw::start(vec![
        calls(read, "tool_calls", 5000),
        calls(read, "tool_calls", 19_000),
        says("They asked about herbs.", "stop"),
        says("Rosemary and thyme.", "stop"),
    ])
    .await;
    let mut talk = Talk::v1(&agent(&place, &model, limits(20_000, 1000)), &json!({})).await;
    let session = talk.session(&place.work()).await;
    let answer = talk.prompt(&session, "Which herbs are there?").await;
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    let asked = model.asked();
    assert_eq!(asked.len(), 4);
    // The third question is the one for the summary.
    assert!(
        asked[2].body["tools"].is_null() && told(&asked[2].body).contains("Summarize this conversation.")
    );
    let last = told(&asked[3].body);
    assert!(last.contains("They asked about herbs.") && last.contains("Which herbs are there?"), "{last}");
    assert!(asked[3].body["tools"].is_array());
    let words = talk.words();
    assert!(words.contains("it takes about 190") && words.contains("of 20000 tokens"), "{words}");
    assert!(words.ends_with("Rosemary and thyme.") && !words.contains("asked about herbs"), "{words}");
    let usage = talk.updates().into_iter().rfind(|it| it["sessionUpdate"] == "usage_update").expect("usage");
    assert_eq!((&usage["used"], &usage["size"]), (&json!(110), &json!(20_000)));
}

#[tokio::test]
async fn a_vendor_that_says_that_the_context_overflowed_is_asked_again_with_less() {
    for (status, kind, message) in [
        ("400 Bad Request", "context_length_exceeded", "This model's maximum context length is 8 tokens"),
        ("400 Bad Request", "invalid_request_error", "prompt is too long: 9 tokens > 8 maximum"),
        ("413 Payload Too Large", "request_too_large", "Request exceeds the maximum size"),
    ] {
        let place = Place::new();
        let model = Raw::start(vec![
            says("Well.", "stop"),
            refusal(status, kind, message),
            says("We greeted.", "stop"),
            says("Fine.", "stop"),
        ])
        .await;
        let mut talk = Talk::v1(&agent(&place, &model, limits(200_000, 64_000)), &json!({})).await;
        let session = talk.session(&place.work()).await;
        talk.prompt(&session, "Hello").await;
        let answer = talk.prompt(&session, "How are you?").await;
        assert_eq!(answer["result"]["stopReason"], "end_turn", "{message}: {answer}");
        let asked = model.asked();
        assert_eq!(asked.len(), 4, "{message}");
        let last = told(&asked[3].body);
        assert!(last.contains("We greeted.") && last.contains("How are you?"), "{last}");
        assert!(!last.contains("Hello"), "{last}");
        assert!(talk.words().contains(message) && talk.words().ends_with("Fine."), "{}", talk.words());
    }
}

#[tokio::test]
async fn a_prompt_that_no_compaction_helps_is_refused_in_words_and_the_session_goes_on() {
    let place = Place::new();
    let long = || refusal("400 Bad Request", "context_length_exceeded", "maximum context length is 8 tokens");
    let model = Raw::start(vec![long(), long(), says("Hello.", "stop")]).await;
    let mut talk = Talk::v1(&agent(&place, &model, Choice::default()), &json!({})).await;
    let session = talk.session(&place.work()).await;
    let refused = talk.prompt(&session, "An endless prompt").await;
    let words = refused["error"]["message"].as_str().unwrap_or_default();
    assert!(
        words.contains("too long for the model") && words.contains("goes on without this prompt"),
        "{words}"
    );
    assert_eq!(talk.prompt(&session, "Hi").await["result"]["stopReason"], "end_turn");
    assert!(!told(&model.asked()[2].body).contains("endless"));
}
