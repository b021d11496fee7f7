//! Bedrock: a stub that checks the signature of every request as Amazon does, and answers in Amazon's event streams.

use acp_agent::provider::{Choice, ModelSettings, Piece, Remote, Stop, open};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::raw::{Answer, Asked, Raw, http};
use super::{ask, fails, notices, text, words};

const SECRET: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
const MODEL: &str = "eu.anthropic.claude-sonnet-4-v1:0";

fn env(name: &str) -> Option<String> {
    let value = match name {
        "AWS_ACCESS_KEY_ID" => "AKIDEXAMPLE",
        "AWS_SECRET_ACCESS_KEY" => SECRET,
        "AWS_SESSION_TOKEN" => "a-session-token",
        "AWS_REGION" => "eu-central-1",
        _ => return None,
    };
    Some(value.to_owned())
}

fn choice(base: &str) -> Choice {
    Choice {
        provider: "bedrock".to_owned(),
        model: Some(MODEL.to_owned()),
        base_url: Some(base.to_owned()),
        ..Choice::default()
    }
}

fn provider(base: &str) -> Remote {
    let mut settings = ModelSettings::read("bedrock", &choice(base), &env).expect("settings");
    let quick =
        acp_host::retry::Retry { attempts: 3, first: std::time::Duration::from_millis(1), jitter: 0.0 };
    (settings.busy, settings.lost) = (quick, quick);
    Remote::new(settings).expect("a provider")
}

fn message(headers: &[(&str, &str)], payload: &str) -> Vec<u8> {
    let mut head = Vec::new();
    for (name, value) in headers {
        head.push(u8::try_from(name.len()).expect("short"));
        head.extend(name.as_bytes());
        head.push(7);
        head.extend(u16::try_from(value.len()).expect("short").to_be_bytes());
        head.extend(value.as_bytes());
    }
    let number = |n: usize| u32::try_from(n).expect("short").to_be_bytes();
    let mut bytes = number(16 + head.len() + payload.len()).to_vec();
    bytes.extend(number(head.len()));
    bytes.extend([0; 4]);
    bytes.extend(head);
    bytes.extend(payload.as_bytes());
    bytes.extend([0; 4]);
    bytes
}

fn streamed(messages: &[Vec<u8>]) -> Answer {
    let mut answer = http("200 OK", "application/vnd.amazon.eventstream", "", "");
    answer.extend(messages.concat());
    Answer::Bytes(answer)
}

fn chunk(event: &Value) -> Vec<u8> {
    let payload = json!({ "bytes": STANDARD.encode(event.to_string()), "p": "abcdefgh" }).to_string();
    message(
        &[(":event-type", "chunk"), (":content-type", "application/json"), (":message-type", "event")],
        &payload,
    )
}

fn good() -> Answer {
    let events = [
        json!({"type": "message_start", "message": {"usage": {"input_tokens": 7}}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "all is well"}}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 3}}),
        json!({"type": "message_stop"}),
    ];
    streamed(&events.iter().map(chunk).collect::<Vec<_>>())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn hmac(key: &[u8], message: &str) -> Vec<u8> {
    let mut block = [0_u8; 64];
    block[..key.len()].copy_from_slice(key);
    let pad = |with: u8| block.map(|byte| byte ^ with);
    let inner = Sha256::new().chain_update(pad(0x36)).chain_update(message).finalize();
    Sha256::new().chain_update(pad(0x5c)).chain_update(inner).finalize().to_vec()
}

/// What Amazon would compute from the request as it came.
fn expected_signature(asked: &Asked) -> String {
    let header = |name: &str| asked.header(name).unwrap_or_else(|| panic!("no {name} in {}", asked.head));
    let authorization = header("authorization");
    let field = |name: &str| {
        let (_, rest) = authorization.split_once(name).unwrap_or_else(|| panic!("{authorization}"));
        rest.split(", ").next().unwrap_or_default().to_owned()
    };
    let (signed, credential) = (field("SignedHeaders="), field("Credential="));
    let scope: Vec<&str> = credential.split('/').collect();
    let lines: String = signed.split(';').map(|name| format!("{name}:{}\n", header(name))).collect();
    // A path is encoded once more where it is signed.
    let path = asked.path().replace('%', "%25");
    let body = hex(&Sha256::digest(asked.body.to_string()));
    assert_eq!(header("x-amz-content-sha256"), body, "the body is the one that was signed");
    let canonical = format!("POST\n{path}\n\n{lines}\n{signed}\n{body}");
    let stamp = header("x-amz-date");
    let to_sign =
        format!("AWS4-HMAC-SHA256\n{stamp}\n{}\n{}", scope[1..].join("/"), hex(&Sha256::digest(canonical)));
    assert_eq!(scope, ["AKIDEXAMPLE", &stamp[..8], "eu-central-1", "bedrock", "aws4_request"]);
    let mut key = format!("AWS4{SECRET}").into_bytes();
    for part in &scope[1..] {
        key = hmac(&key, part);
    }
    assert_eq!(field("Signature=").len(), 64);
    hex(&hmac(&key, &to_sign))
}

#[tokio::test]
async fn a_question_is_signed_and_its_answer_streams() {
    let server = Raw::start(vec![good()]).await;
    let mut request = words("hello");
    request.model = MODEL.to_owned();
    let (outcome, pieces) = ask(&provider(&server.url), request).await;
    assert_eq!((outcome, text(&pieces).as_str()), (Ok(Stop::EndTurn), "all is well"));
    assert_eq!(pieces.last(), Some(&Piece::Usage { input: 7, output: 3 }));
    let asked = server.asked().remove(0);
    assert_eq!(asked.path(), "/model/eu.anthropic.claude-sonnet-4-v1%3A0/invoke-with-response-stream");
    let signature = expected_signature(&asked);
    let authorization = asked.header("authorization").expect("a signature");
    assert!(authorization.ends_with(&format!("Signature={signature}")), "{authorization}");
    assert_eq!(asked.header("x-amz-security-token"), Some("a-session-token"));
    assert!(!asked.head.contains(SECRET));
    let body = &asked.body;
    assert_eq!(body["anthropic_version"], "bedrock-2023-05-31");
    assert!(body["model"].is_null() && body["stream"].is_null(), "{body}");
    assert_eq!(body["tools"].as_array().map(Vec::len), Some(2));
    // The marks of Anthropic's cache work here too.
    assert_eq!(body["system"][0]["cache_control"]["type"], "ephemeral");
}

#[tokio::test]
async fn what_bedrock_refuses_is_said_in_its_words() {
    let refusal = |status: &str, kind: &str, message: &str| {
        let headers = format!("x-amzn-errortype: {kind}:http://internal.amazon.com/\r\n");
        http(status, "application/json", &headers, &json!({ "message": message }).to_string())
    };
    for (answer, expected) in [
        (
            refusal("403 Forbidden", "AccessDeniedException", "You don't have access to the model"),
            "status 403: You don't have access to the model; check the key in AWS_SECRET_ACCESS_KEY",
        ),
        (
            refusal("400 Bad Request", "ValidationException", "Input is too long for requested model."),
            "too long for the model",
        ),
        (
            refusal("404 Not Found", "ResourceNotFoundException", "Could not resolve the model"),
            "is there a model \"m\" at http://127.0.0.1",
        ),
    ] {
        let server = Raw::bytes(answer).await;
        let (error, _) = fails(&provider(&server.url), "hello").await;
        assert!(error.to_string().contains(expected), "{expected}: {error}");
        assert!(!format!("{error:?}").contains(SECRET));
    }
}

#[tokio::test]
async fn a_stream_that_ends_with_an_exception_is_asked_again_where_that_helps() {
    let busy = message(
        &[(":message-type", "exception"), (":exception-type", "throttlingException")],
        r#"{"message": "Too many requests"}"#,
    );
    let server = Raw::start(vec![streamed(&[busy]), good()]).await;
    let (outcome, pieces) = ask(&provider(&server.url), words("hello")).await;
    assert_eq!((outcome, text(&pieces).as_str()), (Ok(Stop::EndTurn), "all is well"));
    assert!(notices(&pieces)[0].contains("Too many requests"), "{pieces:?}");
    let half = streamed(&[chunk(&json!({"type": "message_start", "message": {}})), vec![0, 0, 1, 0, 0]]);
    let server = Raw::start(vec![half]).await;
    let (error, _) = fails(&provider(&server.url), "hello").await;
    assert!(error.to_string().contains("the connection ended in the middle"), "{error}");
}

#[test]
fn without_keys_it_says_which_are_wanted() {
    let choice = Choice { provider: "bedrock".to_owned(), ..Choice::default() };
    let Err(error) = open(&choice, &|_| None) else { panic!("it opened") };
    let error = error.to_string();
    assert!(error.contains("AWS_ACCESS_KEY_ID") && error.contains("AWS_BEARER_TOKEN_BEDROCK"), "{error}");
    let half = |name: &str| (name == "AWS_ACCESS_KEY_ID").then(|| "AKIDEXAMPLE".to_owned());
    let Err(error) = open(&choice, &half) else { panic!("it opened") };
    assert!(error.to_string().contains("AWS_SECRET_ACCESS_KEY"), "{error}");
}

#[tokio::test]
async fn a_bearer_token_needs_no_signature() {
    let server = Raw::start(vec![good()]).await;
    let token = |name: &str| (name == "AWS_BEARER_TOKEN_BEDROCK").then(|| "bedrock-api-key-1".to_owned());
    let settings = ModelSettings::read("bedrock", &choice(&server.url), &token).expect("settings");
    let (outcome, _) = ask(&Remote::new(settings).expect("a provider"), words("hello")).await;
    assert_eq!(outcome, Ok(Stop::EndTurn));
    let asked = server.asked().remove(0);
    assert_eq!(asked.header("authorization"), Some("Bearer bedrock-api-key-1"));
    assert_eq!(asked.header("x-amz-date"), None);
}
