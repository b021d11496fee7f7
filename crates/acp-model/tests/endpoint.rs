//! The endpoint over real sockets: what agents are known to do to a model's address.

use std::io::Write;
use std::time::Duration;

use acp_model::{EndpointSettings, ModelEndpoint, ModelScript};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

async fn endpoint(script: &str) -> ModelEndpoint {
    let script = ModelScript::parse(script).unwrap();
    let pace = Duration::from_millis(1);
    ModelEndpoint::start(EndpointSettings {
        script,
        pace,
        keep_alive: Duration::from_millis(50),
        ..EndpointSettings::default()
    })
    .await
    .unwrap()
}

async fn send(endpoint: &ModelEndpoint, head: &str, body: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", endpoint.port())).await.unwrap();
    let length = body.len();
    let request = format!("{head}\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    stream.write_all(body).await.unwrap();
    stream
}

/// The status and everything after the headers, as it came (chunked or not).
async fn ask(endpoint: &ModelEndpoint, head: &str, body: &[u8]) -> (u16, String) {
    let mut text = Vec::new();
    send(endpoint, head, body).await.read_to_end(&mut text).await.unwrap();
    let text = String::from_utf8_lossy(&text).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

async fn post(endpoint: &ModelEndpoint, path: &str, body: &Value) -> (u16, String) {
    ask(endpoint, &format!("POST {path} HTTP/1.1"), body.to_string().as_bytes()).await
}

fn tools() -> Value {
    let tool = |name: &str, properties: Value| json!({"name": name, "input_schema": {"type": "object", "properties": properties}});
    json!([
        tool("Read", json!({"file_path": {"type": "string"}})),
        tool("Bash", json!({"command": {"type": "string"}})),
        tool("mcp__stub__ping", json!({})),
    ])
}

fn message(text: &str, stream: bool) -> Value {
    json!({"model": "m", "max_tokens": 9, "stream": stream, "system": "Working directory: /w", "tools": tools(), "messages": [{"role": "user", "content": text}]})
}

fn events(endpoint: &ModelEndpoint, event: &str) -> Vec<Value> {
    endpoint.journal().entries().into_iter().filter(|entry| entry["event"] == event).collect()
}

async fn until(endpoint: &ModelEndpoint, event: &str, what: impl Fn(&Value) -> bool) -> Value {
    let began = std::time::Instant::now();
    while began.elapsed() < Duration::from_secs(60) {
        if let Some(found) = events(endpoint, event).into_iter().find(|entry| what(entry)) {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the journal never showed it: {:#?}", endpoint.journal().entries());
}

#[tokio::test]
async fn what_is_unknown_is_answered_kindly_and_journalled() {
    let endpoint = endpoint("[]").await;
    assert_eq!(post(&endpoint, "/v1/telemetry/events", &json!({"a": 1})).await, (200, "{}".to_owned()));
    assert_eq!(ask(&endpoint, "GET /whatever HTTP/1.1", b"").await.0, 200);
    assert_eq!(ask(&endpoint, "HEAD / HTTP/1.1", b"").await, (200, String::new()));
    assert_eq!(ask(&endpoint, "GET /v1/responses HTTP/1.1\r\nupgrade: websocket", b"").await.0, 426);
    assert_eq!(events(&endpoint, "unknown")[0]["body"], "{\"a\":1}");
    assert_eq!(events(&endpoint, "upgrade refused")[0]["path"], "/v1/responses");
    let (status, body) = ask(&endpoint, "POST /v1/messages HTTP/1.1", b"{not json").await;
    assert!(status == 400 && body.contains("the body is not JSON"), "{body}");
    let (status, body) = post(&endpoint, "/x/y/v1/chat/completions", &json!({"model": "m"})).await;
    assert!(status == 400 && body.contains("messages"), "{body}");
    assert_eq!(events(&endpoint, "unreadable").len(), 2);
}

#[tokio::test]
async fn packed_bodies_are_read() {
    let endpoint = endpoint("[]").await;
    let body = message("Say 'hi there'", false).to_string();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(body.as_bytes()).unwrap();
    let zstd =
        ruzstd::encoding::compress_to_vec(body.as_bytes(), ruzstd::encoding::CompressionLevel::Fastest);
    for (name, packed) in [("gzip", gzip.finish().unwrap()), ("zstd", zstd)] {
        let head = format!("POST /v1/messages HTTP/1.1\r\ncontent-encoding: {name}");
        let (status, answer) = ask(&endpoint, &head, &packed).await;
        assert!(status == 200 && answer.contains("hi there"), "{name}: {answer}");
    }
    let (status, answer) = ask(&endpoint, "POST /v1/messages HTTP/1.1\r\ncontent-encoding: br", b"x").await;
    assert!(status == 400 && answer.contains("br"), "{answer}");
}

#[tokio::test]
async fn plain_wishes_become_calls_of_the_offered_tools_and_then_words() {
    let endpoint = endpoint("[]").await;
    let (_, first) = post(&endpoint, "/v1/messages", &message("<system-reminder>Run the command 'no'</system-reminder>\nRead notes/a.txt and tell me its contents.", false)).await;
    let first: Value = serde_json::from_str(&first).unwrap();
    assert_eq!(first["content"][0]["input"], json!({"file_path": "/w/notes/a.txt"}), "{first:#}");
    let mut second = message("Read notes/a.txt and tell me its contents.", false);
    second["messages"].as_array_mut().unwrap().extend([
        json!({"role": "assistant", "content": first["content"]}),
        json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "x", "content": "the words in it"}]}),
    ]);
    let (_, answer) = post(&endpoint, "/v1/messages", &second).await;
    assert!(answer.contains("the words in it") && answer.contains("end_turn"), "{answer}");
    let (_, ping) = post(&endpoint, "/v1/messages", &message("Call the local MCP tool ping", false)).await;
    assert!(ping.contains("mcp__stub__ping"), "{ping}");
    let (_, write) =
        post(&endpoint, "/v1/messages", &message("Create a file named output.txt with text 'done'", false))
            .await;
    assert!(write.contains("printf '%s\\\\n' done > output.txt"), "{write}");
    let seen = events(&endpoint, "request");
    assert_eq!(seen[0]["mcpTools"], json!(["mcp__stub__ping"]));
    assert_eq!(seen[0]["decision"]["calls"][0]["tool"], "Read");
    let plan = post(&endpoint, "/v1/messages", &message("Draft a plan for the release", false)).await.1;
    assert!(plan.contains("no offered tool serves the intent"), "{plan}");
    assert_eq!(events(&endpoint, "request")[4]["decision"]["unfit"]["intent"], "plan");
}

#[tokio::test]
async fn a_thinking_answer_lasts_well_over_a_second() {
    let endpoint = endpoint("[]").await;
    let began = std::time::Instant::now();
    let (_, answer) = post(&endpoint, "/v1/messages", &message("Think a bit then respond.", true)).await;
    assert!(began.elapsed() > Duration::from_millis(1500), "{:?}", began.elapsed());
    assert!(answer.contains("thinking_delta") && answer.contains("message_stop"), "{answer}");
}

#[tokio::test]
async fn a_stall_lasts_until_the_agent_gives_up_and_is_kept_alive() {
    let endpoint = endpoint("[{\"when\": \"hang\", \"do\": {\"stall\": true}}]").await;
    for (n, path, body) in [
        (1, "/v1/messages", message("hang", true)),
        (2, "/v1/messages", message("hang", false)),
        (
            3,
            "/v1/chat/completions",
            json!({"stream": true, "messages": [{"role": "user", "content": "hang"}], "tools": [{"type": "function", "function": {"name": "t"}}]}),
        ),
    ] {
        let streams = body["stream"] == true;
        let mut stream = send(&endpoint, &format!("POST {path} HTTP/1.1"), body.to_string().as_bytes()).await;
        if streams {
            let mut seen = String::new();
            while !seen.contains("keep-alive") && seen.matches("ping").count() < 3 {
                let mut chunk = [0; 4096];
                let n = stream.read(&mut chunk).await.unwrap();
                assert!(n > 0, "the stream ended: {seen}");
                seen.push_str(&String::from_utf8_lossy(&chunk[..n]));
            }
        } else {
            until(&endpoint, "request", |entry| entry["n"] == n).await;
        }
        drop(stream);
    }
    for n in 1..=3 {
        let end = until(&endpoint, "end", |entry| entry["n"] == n).await;
        assert_eq!((&end["how"], &end["stalled"]), (&json!("peer closed"), &json!(true)));
    }
}

#[tokio::test]
async fn a_side_request_is_never_stalled_failed_or_given_a_call() {
    let rules = "[{\"when\": \"hang\", \"do\": {\"stall\": true}}, {\"when\": \"break\", \"do\": {\"error\": 500}}, {\"when\": \"count\", \"times\": 1, \"do\": {\"text\": \"first\"}}]";
    let endpoint = endpoint(rules).await;
    let side = |text: &str| json!({"model": "m", "messages": [{"role": "user", "content": format!("Make a title for: {text}")}]});
    for text in ["hang", "break", "Read a.txt", "Run the command 'ls'"] {
        let (status, answer) = post(&endpoint, "/v1/messages", &side(text)).await;
        assert!(status == 200 && answer.contains("Scripted conversation"), "{text}: {answer}");
    }
    // A side request does not use a rule up.
    post(&endpoint, "/v1/messages", &side("count")).await;
    assert!(post(&endpoint, "/v1/messages", &message("count", false)).await.1.contains("first"));
    assert!(!post(&endpoint, "/v1/messages", &message("count", false)).await.1.contains("first"));
    let wants = json!({"contents": [{"parts": [{"text": "Who speaks next?"}]}], "generationConfig": {"responseMimeType": "application/json", "responseSchema": {"type": "OBJECT", "properties": {"next_speaker": {"type": "STRING", "enum": ["user", "model"]}}}}});
    let (_, answer) = post(&endpoint, "/v1beta/models/m:generateContent", &wants).await;
    let answer: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(answer["candidates"][0]["content"]["parts"][0]["text"], "{\"next_speaker\":\"user\"}");
}

#[tokio::test]
async fn a_reviewer_with_tools_gets_json_of_its_schema_on_every_wire() {
    let endpoint = endpoint("[{\"when\": \"Run\", \"do\": {\"stall\": true}}]").await;
    let schema = json!({"type": "object", "required": ["outcome"], "properties": {"outcome": {"enum": ["deny", "allow"]}, "risk_level": {"enum": ["high", "low"]}}});
    let words = "Assess this: Run the command 'rm x'";
    let parameters = json!({"type": "object", "properties": {"command": {"type": "string"}}});
    let user = json!([{"role": "user", "content": words}]);
    let function = json!({"name": "bash", "parameters": parameters});
    let bodies = [
        (
            "/v1/chat/completions",
            "/choices/0/message/content",
            json!({"model": "m", "messages": user, "tools": [{"type": "function", "function": function}], "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}}}),
        ),
        (
            "/v1/responses",
            "/output/0/content/0/text",
            json!({"model": "m", "input": user, "tools": [{"type": "function", "name": "bash", "parameters": parameters}], "text": {"format": {"type": "json_schema", "name": "a", "schema": schema}}}),
        ),
        (
            "/v1/messages",
            "/content/0/text",
            json!({"model": "m", "max_tokens": 9, "messages": user, "tools": tools(), "output_format": {"type": "json_schema", "schema": schema}}),
        ),
        (
            "/v1/messages",
            "/content/0/text",
            json!({"model": "m", "max_tokens": 9, "messages": user, "tools": tools(), "output_config": {"format": {"type": "json_schema", "schema": schema}}}),
        ),
        (
            "/v1beta/models/m:generateContent",
            "/candidates/0/content/parts/0/text",
            json!({"contents": [{"role": "user", "parts": [{"text": words}]}], "tools": [{"functionDeclarations": [function]}], "generationConfig": {"responseMimeType": "application/json", "responseJsonSchema": schema}}),
        ),
    ];
    for (path, place, body) in bodies {
        let (status, answer) = post(&endpoint, path, &body).await;
        let answer: Value = serde_json::from_str(&answer).unwrap();
        let said = answer.pointer(place).and_then(Value::as_str).unwrap_or_default();
        let said: Value =
            serde_json::from_str(said).unwrap_or_else(|error| panic!("{path} {status} {error}: {answer}"));
        assert_eq!(said, json!({"outcome": "allow", "risk_level": "low"}), "{path}");
    }
}

#[tokio::test]
async fn gemini_streams_an_array_unless_events_are_asked_for() {
    let endpoint = endpoint("[{\"do\": {\"text\": \"a b c\"}}]").await;
    let body = json!({"contents": [{"role": "user", "parts": [{"text": "Say 'a b c'"}]}]});
    let (_, array) = post(&endpoint, "/v1beta/models/m:streamGenerateContent", &body).await;
    let joined: String =
        array.split("\r\n").filter(|line| !line.chars().all(|c| c.is_ascii_hexdigit())).collect();
    let frames: Vec<Value> = serde_json::from_str(&joined).unwrap();
    assert_eq!(frames[0]["candidates"][0]["content"]["parts"][0]["text"], "a ");
    let (_, events) = post(&endpoint, "/v1beta/models/m:streamGenerateContent?alt=sse", &body).await;
    assert!(events.contains("data: {") && events.contains("\"finishReason\":\"STOP\""), "{events}");
}

#[tokio::test]
async fn an_agent_that_goes_in_circles_is_stopped_with_a_reason() {
    let endpoint = endpoint("[{\"when\": {\"user\": \"again\", \"result\": \"no\"}, \"do\": {\"call\": {\"intent\": \"run\", \"command\": \"ls\"}}}]").await;
    let call = json!({"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "Bash", "input": {"command": "ls"}}]});
    let result =
        json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "no"}]});
    let mut body = message("again", false);
    for _ in 0..49 {
        body["messages"].as_array_mut().unwrap().extend([call.clone(), result.clone()]);
    }
    assert!(post(&endpoint, "/v1/messages", &body).await.1.contains("tool_use"));
    body["messages"].as_array_mut().unwrap().extend([call, result]);
    let (_, answer) = post(&endpoint, "/v1/messages", &body).await;
    assert!(answer.contains("I stop here") && answer.contains("end_turn"), "{answer}");
    let told = events(&endpoint, "request").pop().unwrap();
    assert_eq!(told["decision"]["loop"], "the call of \"Bash\" was made 50 times");
    // The same request over and over, without ever a result.
    let stuck = message("Read a.txt", false);
    for _ in 0..50 {
        assert!(post(&endpoint, "/v1/messages", &stuck).await.1.contains("tool_use"));
    }
    assert!(post(&endpoint, "/v1/messages", &stuck).await.1.contains("the same request came 50 times"));
}

#[tokio::test]
async fn rules_go_through_their_steps_and_the_journal_is_a_file_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let rules = json!([
        {"when": {"user": "go", "step": 0}, "do": {"text": "first ", "call": {"intent": "run", "command": "one"}}},
        {"when": {"user": "go", "result": "(?i)denied"}, "do": {"text": "you said no"}},
        {"when": "go", "do": {"text": "result was ${result}"}},
    ]);
    let script = ModelScript::from_value(&rules).unwrap();
    let endpoint = ModelEndpoint::start(EndpointSettings {
        script,
        journal: Some(path.clone()),
        ..EndpointSettings::default()
    })
    .await
    .unwrap();
    let with = |text: &str| {
        let mut body = message("go", false);
        body["messages"].as_array_mut().unwrap().push(json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": text}]}));
        body
    };
    assert!(post(&endpoint, "/v1/messages", &message("go", false)).await.1.contains("\"command\":\"one\""));
    assert!(post(&endpoint, "/v1/messages", &with("Denied.")).await.1.contains("you said no"));
    endpoint.set_script(ModelScript::parse("[{\"do\": {\"text\": \"another script\"}}]").unwrap());
    assert!(post(&endpoint, "/v1/messages", &message("go", false)).await.1.contains("another script"));
    let lines = std::fs::read_to_string(path).unwrap();
    assert_eq!(lines.lines().filter(|line| line.contains("\"event\":\"request\"")).count(), 3);
}
