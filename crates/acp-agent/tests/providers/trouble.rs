//! Servers that misbehave: each has its own words, and what it said before is not lost.

use std::time::Duration;

use acp_agent::provider::{Piece, ProviderError, Remote, Stop};
use serde_json::{Value, json};

use super::raw::{Answer, Raw, events, http};
use super::{KEY, PROVIDERS, ask, fails, notices, provider, settings, text, words};

fn chunk(delta: &Value, finish: Option<&str>) -> Value {
    json!({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
}

fn good() -> Vec<u8> {
    events(&[chunk(&json!({"content": "all is well"}), Some("stop")), json!("[DONE]")])
}

/// The error of a chat provider whose server says this.
async fn error_of(answer: Vec<u8>) -> (ProviderError, usize) {
    let server = Raw::bytes(answer).await;
    let (error, _) = fails(&*provider("openai-chat", &server.url), "hello").await;
    (error, server.asked().len())
}

#[tokio::test]
async fn a_wrong_key_is_named_by_its_variable_and_never_shown() {
    for (name, _) in PROVIDERS {
        let body = json!({"error": {"type": "authentication_error", "message": format!("bad key {KEY}.")}})
            .to_string();
        let server = Raw::bytes(http("401 Unauthorized", "application/json", "", &body)).await;
        let (error, pieces) = fails(&*provider(name, &server.url), "hello").await;
        let shown = format!("{error} {error:?} {pieces:?}");
        assert!(!shown.contains(KEY), "{name}: {shown}");
        assert!(shown.contains("status 401: bad key [key]; check the key in "), "{name}: {shown}");
        assert!(shown.contains("_API_KEY"), "{name}: {shown}");
        let asked = server.asked();
        assert_eq!(asked.len(), 1, "{name}: a wrong key stays wrong");
        let (header, value) = match name {
            "anthropic" => ("x-api-key", KEY.to_owned()),
            "google" => ("x-goog-api-key", KEY.to_owned()),
            _ => ("authorization", format!("Bearer {KEY}")),
        };
        assert_eq!(asked[0].header(header), Some(value.as_str()), "{name}");
        assert!(!asked[0].path().contains(KEY), "{name}");
    }
}

#[tokio::test]
async fn an_unknown_model_is_named() {
    for (name, _) in PROVIDERS {
        let body = json!({"error": {"message": "no such model"}}).to_string();
        let server = Raw::bytes(http("404 Not Found", "application/json", "", &body)).await;
        let (error, _) = fails(&*provider(name, &server.url), "hello").await;
        let error = error.to_string();
        assert!(
            error.contains("status 404: no such model; is there a model \"m\" at http://127.0.0.1"),
            "{error}"
        );
        assert!(error.contains("--model") && server.asked().len() == 1, "{error}");
    }
}

#[tokio::test]
async fn what_is_no_answer_is_shown_by_its_beginning() {
    let page = "<!DOCTYPE html>\n<html><head><title>Sign in</title></head></html>";
    let json_kind = "application/json";
    let cases = [
        (http("200 OK", "text/html; charset=utf-8", "", page), "answered with a web page: \"<!DOCTYPE html>"),
        (http("200 OK", "text/event-stream", "", page), "answered with a web page"),
        (events(&[json!("[DONE]")]), "it ends before it has begun"),
        (events(&[json!(null), json!("[DONE]")]), "it ends before it has begun"),
        (http("404 Not Found", "text/html", "", page), "status 404: a web page; is there a model"),
        (http("200 OK", "text/plain", "", "it works!"), "\"text/plain\" instead of events: \"it works!\""),
        (http("200 OK", json_kind, "", "{}"), "JSON of another kind"),
        (http("200 OK", json_kind, "", "{\"half\": "), "application/json that is not JSON"),
        (http("200 OK", json_kind, "", ""), "nothing at all"),
        (
            http("200 OK", json_kind, "", "{\"error\": {\"message\": \"no money\", \"type\": \"billing\"}}"),
            "broke off: billing: no money",
        ),
        (events(&[json!("{not json")]), "cannot be understood: not a chat message: a chunk is not JSON"),
        (http("204 No Content", "text/plain", "", ""), "status 204: nothing at all"),
        (
            http(
                "400 Bad Request",
                json_kind,
                "",
                "{\"error\": {\"message\": \"This model's maximum context length is 8 tokens\"}}",
            ),
            "says that the conversation is too long for the model",
        ),
        (http("418 I'm a teapot", "text/plain", "", "short and\nstout"), "status 418: \"short and stout\""),
    ];
    for (answer, expected) in cases {
        let (error, asked) = error_of(answer).await;
        let error = error.to_string();
        assert!(error.contains(expected), "{expected:?} is missing from: {error}");
        assert!(error.starts_with("openai-chat ") || error.contains("of openai-chat "), "{error}");
        assert_eq!(asked, 1, "asking again does not help: {error}");
    }
}

#[tokio::test]
async fn events_that_say_nothing_are_no_answer() {
    let done = || json!("[DONE]");
    let wrong =
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": 5}});
    let stop = || json!({"type": "message_stop"});
    let empty = "it ends before it has begun";
    let number = "\"text\" is not a text";
    let cases = [
        ("openai-chat", vec![json!({}), done()], empty),
        ("openai-chat", vec![json!(42), done()], empty),
        ("openai-chat", vec![json!({"choices": "x"}), done()], empty),
        ("openai-chat", vec![json!({"choices": []}), done()], empty),
        (
            "openai-chat",
            vec![chunk(&json!({"content": 5}), Some("stop")), done()],
            "\"content\" is not a text",
        ),
        ("anthropic", vec![stop()], empty),
        ("anthropic", vec![json!({"type": "message_start"}), stop()], empty),
        ("anthropic", vec![wrong, stop()], number),
        ("openai-responses", vec![json!({"type": "response.completed"})], empty),
        (
            "openai-responses",
            vec![json!({"type": "response.output_text.delta", "delta": 5})],
            "is not a text",
        ),
        (
            "google",
            vec![json!({"candidates": [{"content": {"parts": [{"text": 5}]}, "finishReason": "STOP"}]})],
            number,
        ),
    ];
    for (name, sent, expected) in cases {
        let server = Raw::bytes(events(&sent)).await;
        let (error, pieces) = fails(&*provider(name, &server.url), "hello").await;
        assert!(error.to_string().contains(expected), "{name}: {sent:?}: {error}");
        assert!(text(&pieces).is_empty(), "{name}: {pieces:?}");
    }
    let whole = json!({"choices": [{"message": {"content": 5}, "finish_reason": "stop"}]}).to_string();
    let (error, _) = error_of(http("200 OK", "application/json", "", &whole)).await;
    assert!(error.to_string().contains("JSON of another kind"), "{error}");
}

#[tokio::test]
async fn an_answer_that_is_empty_and_says_so_is_one() {
    let why = json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}});
    let cases = [
        ("openai-chat", vec![chunk(&json!({}), Some("stop")), json!("[DONE]")]),
        ("openai-chat", vec![chunk(&json!({"role": "assistant", "content": ""}), None), json!("[DONE]")]),
        ("anthropic", vec![why, json!({"type": "message_stop"})]),
        ("openai-responses", vec![json!({"type": "response.completed", "response": {"output": []}})]),
        ("google", vec![json!({"candidates": [{"finishReason": "STOP"}]})]),
    ];
    for (name, sent) in cases {
        let server = Raw::bytes(events(&sent)).await;
        let (stop, pieces) = ask(&*provider(name, &server.url), words("hello")).await;
        assert_eq!(
            (stop.expect("an answer"), text(&pieces).as_str()),
            (Stop::EndTurn, ""),
            "{name}: {sent:?}"
        );
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed_with_the_key() {
    let other = Raw::bytes(good()).await;
    let location = format!("location: {}/v1/chat/completions\r\n", other.url);
    let server = Raw::bytes(http("307 Temporary Redirect", "text/plain", &location, "")).await;
    let (error, _) = fails(&*provider("openai-chat", &server.url), "hello").await;
    assert!(error.to_string().contains("give the right one with --base-url"), "{error}");
    assert!(error.to_string().contains(&other.url) && other.asked().is_empty(), "{error}");
}

#[tokio::test]
async fn silence_has_an_end() {
    let (head, body) =
        (http("200 OK", "text/event-stream", "", ""), events(&[chunk(&json!({"content": "well "}), None)]));
    let ends = |sent: Vec<u8>, said: &'static str| async move {
        let server = Raw::start(vec![Answer::Stall(sent)]).await;
        let mut settings = settings("openai-chat", &server.url);
        settings.stall = Duration::from_millis(2500);
        let (error, pieces) = fails(&Remote::new(settings).expect("a provider"), "hello").await;
        assert!(error.to_string().contains("said nothing for 2.5 s"), "{error}");
        assert!(error.to_string().contains("ACP_MODEL_STALL"), "{error}");
        assert_eq!((text(&pieces).as_str(), server.asked().len()), (said, 1));
    };
    tokio::join!(ends(Vec::new(), ""), ends(head, ""), ends(body, "well "));
}

#[tokio::test]
async fn nobody_there_is_said_with_the_address() {
    // It has a port, and never listens there.
    let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
    socket.bind(([127, 0, 0, 1], 0).into()).expect("a port");
    let url = format!("http://{}", socket.local_addr().expect("an address"));
    for (name, advice) in [("openai-chat", "check the network"), ("ollama", "is the server running?")] {
        let (error, pieces) = fails(&*provider(name, &url), "hello").await;
        let error = error.to_string();
        assert!(error.starts_with(&format!("cannot reach {name}: ")) && error.contains(&url), "{error}");
        assert!(
            error.contains("refused") && error.contains(advice) && error.contains("(tried 3 times)"),
            "{error}"
        );
        assert_eq!(notices(&pieces).len(), 2);
    }
}

#[tokio::test]
async fn what_breaks_before_the_first_word_is_asked_again() {
    let broken = chunk(
        &json!({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "read_file", "arguments": "{\"pa"}}]}),
        None,
    );
    for first in [
        Vec::new(),
        b"HTTP/1.1 200 OK\r\ncontent-le".to_vec(),
        http("200 OK", "text/event-stream", "", ""),
        events(&[broken]),
        events(&[json!({"error": {"type": "server_error", "message": "one moment"}})]),
    ] {
        let shown = String::from_utf8_lossy(&first).into_owned();
        let server = Raw::start(vec![Answer::Bytes(first), Answer::Bytes(good())]).await;
        let (outcome, pieces) = ask(&*provider("openai-chat", &server.url), words("hello")).await;
        assert_eq!((outcome, text(&pieces).as_str()), (Ok(Stop::EndTurn), "all is well"), "{shown:?}");
        assert_eq!((notices(&pieces).len(), server.asked().len()), (1, 2), "{shown:?}");
    }
}

#[tokio::test]
async fn asking_again_is_left_to_the_person_when_it_takes_too_long_or_costs() {
    let busy = |headers: &str, kind: &str| {
        let body = json!({"error": {"message": "slow down", "type": kind}}).to_string();
        http("429 Too Many Requests", "application/json", headers, &body)
    };
    for (answer, advice) in [
        (busy("retry-after: 3600\r\n", "rate_limit_error"), "it asks to come back in 3600 s"),
        (busy("", "insufficient_quota"), "look at its billing"),
    ] {
        let (error, asked) = error_of(answer).await;
        assert!(error.to_string().contains(advice) && asked == 1, "{error}");
    }
    // And a short wait is kept to.
    let server = Raw::start(vec![
        Answer::Bytes(busy("retry-after-ms: 30\r\n", "rate_limit_error")),
        Answer::Bytes(good()),
    ])
    .await;
    let (outcome, pieces) = ask(&*provider("openai-chat", &server.url), words("hello")).await;
    assert_eq!(outcome, Ok(Stop::EndTurn));
    assert!(notices(&pieces)[0].contains("asking again in 0.0 s"), "{pieces:?}");
}

#[tokio::test]
async fn arguments_that_are_no_object_reach_the_tool_as_they_came() {
    for (sent, expected) in [
        ("{\"path\": ", json!("{\"path\": ")),
        ("[1]", json!("[1]")),
        ("", json!({})),
        ("{\"path\": \"a\"}", json!({"path": "a"})),
    ] {
        let call = chunk(
            &json!({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "read_file", "arguments": sent}}]}),
            Some("tool_calls"),
        );
        let server = Raw::bytes(events(&[call, json!("[DONE]")])).await;
        let (outcome, pieces) = ask(&*provider("openai-chat", &server.url), words("hello")).await;
        assert_eq!(outcome, Ok(Stop::ToolCalls), "{sent:?}");
        let call = Piece::ToolCall { id: "c".to_owned(), name: "read_file".to_owned(), arguments: expected };
        assert!(pieces.contains(&call), "{sent:?}: {pieces:?}");
    }
    let nameless = chunk(
        &json!({"tool_calls": [{"index": 0, "id": "c", "function": {"arguments": "{}"}}]}),
        Some("stop"),
    );
    let (error, _) = error_of(events(&[nameless, json!("[DONE]")])).await;
    assert!(error.to_string().contains("without saying which"), "{error}");
}

#[tokio::test]
async fn an_answer_without_end_is_no_answer() {
    let mut answer = http("200 OK", "text/event-stream", "", "data: ");
    answer.resize(17 * 1024 * 1024, b'x');
    let (error, asked) = error_of(answer).await;
    assert!(error.to_string().contains("it is longer than 16 MiB") && asked == 1, "{error}");
}

#[tokio::test]
async fn a_server_that_does_not_stream_is_understood() {
    let body = json!({"choices": [{"message": {"content": "in one piece", "reasoning_content": "hm", "tool_calls": [
        {"id": "c1", "function": {"name": "read_file", "arguments": "{\"path\": \"a\"}"}},
    ]}, "finish_reason": "tool_calls"}], "usage": {"prompt_tokens": 3, "completion_tokens": 2}});
    let server = Raw::bytes(http("200 OK", "application/json; charset=utf-8", "", &body.to_string())).await;
    let (outcome, pieces) = ask(&*provider("openai-chat", &server.url), words("hello")).await;
    assert_eq!((outcome, text(&pieces).as_str()), (Ok(Stop::ToolCalls), "in one piece"));
    let call = Piece::ToolCall {
        id: "c1".to_owned(),
        name: "read_file".to_owned(),
        arguments: json!({"path": "a"}),
    };
    assert!(pieces.contains(&call) && pieces.contains(&Piece::Thought("hm".to_owned())), "{pieces:?}");
    assert_eq!(pieces.last(), Some(&Piece::Usage { input: 3, output: 2 }));
}

#[tokio::test]
async fn an_answer_that_says_that_there_was_no_error_is_one() {
    let body = json!({"id": "r", "status": "completed", "error": null, "output": [
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "in one piece"}]},
    ], "usage": {"input_tokens": 3, "output_tokens": 2}});
    let server = Raw::bytes(http("200 OK", "application/json", "", &body.to_string())).await;
    let (outcome, pieces) = ask(&*provider("openai-responses", &server.url), words("hello")).await;
    assert_eq!((outcome, text(&pieces).as_str()), (Ok(Stop::EndTurn), "in one piece"));
}
