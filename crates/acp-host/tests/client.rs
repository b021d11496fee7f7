//! The client's lifecycle against an agent played by the test.

mod common;

use std::time::Duration;

use acp_host::{AcpClient, ClientError, ClientEvent, ClientOptions, Events, Timeouts, TurnEvent, Workspace};
use acp_link::{Link, memory};
use acp_policy::{Policy, PolicyRules};
use acp_rpc::{Frame, Id, RpcError, View};
use agent_client_protocol_schema::v1::{
    ContentBlock, HttpHeader, ImageContent, McpServer, McpServerHttp, SessionUpdate, StopReason,
};
use serde_json::{Value, json};

/// The other end of the link.
struct Agent {
    link: Link,
}

impl Agent {
    async fn recv(&mut self) -> Frame {
        let arrival = tokio::time::timeout(Duration::from_secs(20), self.link.rx.recv()).await;
        Frame::from(arrival.expect("a line in time").expect("a line").line)
    }

    /// Expects a request for `method` and returns its id and params.
    async fn expect(&mut self, method: &str) -> (Id, Value) {
        let frame = self.recv().await;
        let View::Request { id, method: seen, params } = frame.view() else { panic!("{frame}") };
        assert_eq!(seen, method);
        (id.clone(), serde_json::from_str(params.unwrap_or("null")).expect("params"))
    }

    async fn respond(&self, id: &Id, result: Value) {
        self.send(&Frame::response(id, &result)).await;
    }

    async fn send(&self, frame: &Frame) {
        self.link.tx.send(frame.raw().clone()).await.expect("sent");
    }

    async fn update(&self, session: &str, update: Value) {
        self.send(&Frame::notification("session/update", &json!({"sessionId": session, "update": update})))
            .await;
    }

    async fn say(&self, session: &str, text: &str) {
        let update =
            json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}});
        self.update(session, update).await;
    }
}

fn start(options: ClientOptions) -> (AcpClient, Events, Agent) {
    let (ours, theirs) = memory(64);
    let (client, events) = AcpClient::connect(ours, None, options);
    (client, events, Agent { link: theirs })
}

async fn initialized(options: ClientOptions, capabilities: Value) -> (AcpClient, Events, Agent) {
    let (client, events, mut agent) = start(options);
    let (response, ()) = tokio::join!(client.initialize(), async {
        let (id, params) = agent.expect("initialize").await;
        assert_eq!(params["protocolVersion"], 1);
        assert_eq!(params["clientCapabilities"]["fs"]["readTextFile"], true);
        assert_eq!(params["clientInfo"]["name"], "acp-workbench");
        agent.respond(&id, json!({"protocolVersion": 1, "agentCapabilities": capabilities, "x": 1})).await;
    });
    let response = response.expect("initialized");
    assert!(response.frame.to_string().contains("\"x\":1"), "the raw frame is at hand");
    (client, events, agent)
}

fn yolo() -> ClientOptions {
    ClientOptions { rules: PolicyRules::of(Policy::Yolo), ..ClientOptions::default() }
}

async fn session(client: &AcpClient, agent: &mut Agent, workspace: &Workspace) {
    let (response, ()) = tokio::join!(client.new_session(workspace), async {
        let (id, params) = agent.expect("session/new").await;
        assert_eq!(params["mcpServers"], json!([]));
        agent.respond(&id, json!({"sessionId": "s1"})).await;
    });
    assert_eq!(&*response.expect("a session").session_id.0, "s1");
}

#[tokio::test]
async fn a_whole_turn_streams_updates_and_ends_with_its_reason() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("a.txt"), "hello").expect("a file");
    let (client, _events, mut agent) = initialized(yolo(), json!({})).await;
    session(&client, &mut agent, &Workspace::at(folder.path())).await;
    let mut turn = client.prompt_text("s1", "hi").await.expect("a turn");
    let path = folder.path().join("a.txt");
    let play = async {
        let (id, params) = agent.expect("session/prompt").await;
        assert_eq!(params["prompt"], json!([{"type": "text", "text": "hi"}]));
        agent.say("s1", "one").await;
        agent.update("s1", json!({"sessionUpdate": "of_the_future", "z": 1})).await;
        let read = json!({"sessionId": "s1", "path": path});
        agent.send(&Frame::request(&Id::from("r"), "fs/read_text_file", &read)).await;
        let answer = agent.recv().await;
        assert_eq!(answer.result(), Some(r#"{"content":"hello"}"#));
        agent.say("s1", "two").await;
        agent.respond(&id, json!({"stopReason": "end_turn"})).await;
    };
    let listen = async {
        let mut seen = Vec::new();
        while let Some(event) = turn.next().await {
            seen.push(match event {
                TurnEvent::Update(update) => match update.update.as_deref() {
                    Some(SessionUpdate::AgentMessageChunk(chunk)) => match &chunk.content {
                        ContentBlock::Text(text) => text.text.clone(),
                        other => panic!("{other:?}"),
                    },
                    _ => format!("raw {}", update.frame.to_string().contains("of_the_future")),
                },
                TurnEvent::Decision(record) => record.verdict.as_str().to_owned(),
                TurnEvent::Ended(response) => {
                    assert_eq!(response.stop_reason, StopReason::EndTurn);
                    "end".to_owned()
                }
                TurnEvent::Failed(error) => panic!("{error}"),
            });
        }
        seen
    };
    let ((), seen) = tokio::join!(play, listen);
    assert_eq!(seen, ["one", "raw true", "allow", "two", "end"]);
}

#[tokio::test]
async fn an_agent_with_another_version_is_left() {
    let (client, _events, mut agent) = start(yolo());
    let (outcome, ()) = tokio::join!(client.initialize(), async {
        let (id, _) = agent.expect("initialize").await;
        agent.respond(&id, json!({"protocolVersion": 7})).await;
    });
    let error = outcome.expect_err("version 7");
    assert!(matches!(error, ClientError::Version { ours: 1, theirs: 7 }), "{error}");
    assert!(agent.link.rx.recv().await.is_none(), "the connection is closed");
}

#[tokio::test]
async fn what_the_agent_did_not_offer_is_not_asked_for() {
    let (client, _events, mut agent) = initialized(yolo(), json!({})).await;
    let here = Workspace::at("/");
    let http = McpServer::Http(
        McpServerHttp::new("web", "https://example.com").headers(vec![HttpHeader::new("a", "b")]),
    );
    let with_mcp = Workspace { mcp_servers: vec![http], ..here.clone() };
    let with_more = Workspace { additional: vec!["/tmp".into()], ..here.clone() };
    let image = vec![ContentBlock::Image(ImageContent::new("aGk=", "image/png"))];
    let errors = [
        client.load_session("s", &here).await.expect_err("load"),
        client.resume_session("s", &here).await.expect_err("resume"),
        client.list_sessions(None, None).await.expect_err("list"),
        client.close_session("s").await.expect_err("close"),
        client.delete_session("s").await.expect_err("delete"),
        client.logout().await.expect_err("logout"),
        client.new_session(&with_mcp).await.expect_err("mcp"),
        client.new_session(&with_more).await.expect_err("folders"),
        client.prompt("s", image).await.expect_err("image"),
    ];
    for error in errors {
        assert!(matches!(error, ClientError::NotOffered { .. }), "{error}");
        assert!(error.to_string().contains("agentCapabilities."), "{error}");
    }
    client.send_line("{}").await;
    assert_eq!(agent.recv().await.to_string(), "{}", "nothing was sent before");
}

#[tokio::test]
async fn a_resumed_session_is_told_its_servers_even_if_there_are_none() {
    let offered = json!({"sessionCapabilities": {"resume": {}}, "mcpCapabilities": {"http": true}});
    let (client, _events, mut agent) = initialized(yolo(), offered).await;
    let none = Workspace::at("/");
    let web = McpServer::Http(McpServerHttp::new("web", "https://example.com"));
    let one = Workspace { mcp_servers: vec![web], ..none.clone() };
    for (workspace, count) in [(&none, 0), (&one, 1)] {
        let (outcome, params) = tokio::join!(client.resume_session("s", workspace), async {
            let (id, params) = agent.expect("session/resume").await;
            agent.respond(&id, json!({})).await;
            params
        });
        outcome.expect("resumed");
        assert_eq!(params["mcpServers"].as_array().map(Vec::len), Some(count), "{params}");
        assert_eq!((params["sessionId"].as_str(), params["cwd"].as_str()), (Some("s"), Some("/")));
    }
}

#[tokio::test]
async fn a_relative_folder_is_refused_before_it_is_sent() {
    let (client, _events, _agent) = initialized(yolo(), json!({})).await;
    let error = client.new_session(&Workspace::at("here")).await.expect_err("relative");
    assert!(error.to_string().contains("absolute"), "{error}");
}

#[tokio::test]
async fn nothing_is_asked_before_initialize() {
    let (client, _events, _agent) = start(yolo());
    let error = client.new_session(&Workspace::at("/")).await.expect_err("too early");
    assert!(error.to_string().contains("before initialize"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_timeout_says_what_was_waited_for() {
    let timeouts = Timeouts { initialize: Some(Duration::from_secs(60)), ..Timeouts::default() };
    let (client, _events, _agent) = start(ClientOptions { timeouts, ..yolo() });
    let began = tokio::time::Instant::now();
    let error = client.initialize().await.expect_err("silence");
    assert_eq!(error.to_string(), "the agent did not answer initialize within 60 s");
    assert_eq!(began.elapsed().as_secs(), 60);
}

#[tokio::test]
async fn a_lost_connection_ends_what_is_waiting_and_what_comes_later() {
    let (client, mut events, mut agent) = initialized(yolo(), json!({})).await;
    let folder = tempfile::tempdir().expect("a folder");
    session(&client, &mut agent, &Workspace::at(folder.path())).await;
    let mut turn = client.prompt_text("s1", "hi").await.expect("a turn");
    agent.expect("session/prompt").await;
    drop(agent);
    let Some(TurnEvent::Failed(error)) = turn.next().await else { panic!("the turn must fail") };
    assert!(error.to_string().contains("before it answered session/prompt"), "{error}");
    assert!(turn.next().await.is_none());
    assert!(matches!(events.next().await, Some(ClientEvent::Closed(..))));
    let error = client.set_mode("s1", "x").await.expect_err("gone");
    assert!(matches!(error, ClientError::Gone { .. }), "{error}");
}

#[tokio::test]
async fn cancel_tells_the_agent_and_the_turn_ends_by_itself() {
    let (client, _events, mut agent) = initialized(yolo(), json!({})).await;
    let folder = tempfile::tempdir().expect("a folder");
    session(&client, &mut agent, &Workspace::at(folder.path())).await;
    let turn = client.prompt_text("s1", "hi").await.expect("a turn");
    let (id, _) = agent.expect("session/prompt").await;
    client.cancel("s1").await;
    let frame = agent.recv().await;
    let View::Notification { method: "session/cancel", params } = frame.view() else { panic!("{frame}") };
    assert_eq!(params, Some(r#"{"sessionId":"s1"}"#));
    agent.say("s1", "late").await;
    agent.respond(&id, json!({"stopReason": "cancelled"})).await;
    assert_eq!(turn.end().await.expect("an end").stop_reason, StopReason::Cancelled);
}

#[tokio::test]
async fn refusals_and_unreadable_answers_are_told_apart() {
    let (client, _events, mut agent) = initialized(yolo(), json!({})).await;
    let (refused, ()) = tokio::join!(client.set_mode("s", "m"), async {
        let (id, _) = agent.expect("session/set_mode").await;
        agent.send(&Frame::failure(&id, &RpcError::invalid_params("no such mode"))).await;
    });
    let error = refused.expect_err("refused");
    assert_eq!(error.refusal().map(|error| error.code), Some(-32602));
    let here = Workspace::at("/");
    let (unreadable, ()) = tokio::join!(client.new_session(&here), async {
        let (id, _) = agent.expect("session/new").await;
        agent.respond(&id, json!({"id": 7})).await;
    });
    let error = unreadable.expect_err("no session id");
    assert!(
        matches!(&error, ClientError::Unreadable { frame, .. } if frame.to_string().contains("\"id\":7")),
        "{error}"
    );
}

#[tokio::test]
async fn noise_and_strange_frames_do_not_stop_the_conversation() {
    let (client, mut events, mut agent) = initialized(yolo(), json!({"loadSession": true})).await;
    for line in ["Starting...", "42", "[]", r#"{"jsonrpc":"2.0","id":999,"result":{}}"#] {
        agent.link.tx.send(line).await.expect("sent");
        assert!(matches!(events.next().await, Some(ClientEvent::Violation(..))), "{line}");
    }
    agent.send(&Frame::notification("_vendor/news", &json!({}))).await;
    assert!(matches!(events.next().await, Some(ClientEvent::Notification(_))));
    agent.send(&Frame::request(&Id::from(7), "_vendor/ask", &json!({}))).await;
    let answer = agent.recv().await;
    assert!(answer.error().is_some_and(|error| error.contains("-32601")), "{answer}");

    let folder = tempfile::tempdir().expect("a folder");
    let here = Workspace::at(folder.path());
    let (loaded, ()) = tokio::join!(client.load_session("old", &here), async {
        let (id, params) = agent.expect("session/load").await;
        assert_eq!((&params["sessionId"], &params["mcpServers"]), (&json!("old"), &json!([])));
        agent.say("old", "history").await;
        agent.respond(&id, Value::Null).await;
    });
    loaded.expect("loaded");
    assert!(matches!(events.next().await, Some(ClientEvent::Update(update)) if update.session == "old"));
}

#[tokio::test]
async fn everything_can_be_observed_raw_and_sent_raw() {
    let (client, _events, mut agent) = initialized(yolo(), json!({})).await;
    let mut observer = client.observe();
    let params = json!({"a": 1});
    let (answer, ()) = tokio::join!(client.request_raw("_x/y", &params, None), async {
        let (id, _) = agent.expect("_x/y").await;
        agent.send(&Frame::failure(&id, &RpcError::method_not_found("_x/y"))).await;
    });
    assert!(answer.expect("an answer").error().is_some());
    client.send_bytes("{\"half\":").await;
    client.send_bytes("true}\n").await;
    assert_eq!(agent.recv().await.to_string(), "{\"half\":true}");
    let seen = [observer.recv().await, observer.recv().await].map(|seen| seen.expect("a frame").dir.as_str());
    assert_eq!(seen, ["c2a", "a2c"]);
}

#[tokio::test]
async fn a_reader_that_stops_does_not_stop_the_answers() {
    let (client, _events, mut agent) = initialized(yolo(), json!({})).await;
    let folder = tempfile::tempdir().expect("a folder");
    session(&client, &mut agent, &Workspace::at(folder.path())).await;
    let turn = client.prompt_text("s1", "hi").await.expect("a turn");
    let (id, _) = agent.expect("session/prompt").await;
    let sender = agent.link.tx.clone();
    let flood = tokio::spawn(async move {
        for n in 0..5000 {
            let update = json!({"sessionId": "s1", "update": {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": n.to_string()}}});
            sender.send(Frame::notification("session/update", &update).raw().clone()).await.expect("sent");
        }
        sender
            .send(Frame::response(&id, &json!({"stopReason": "end_turn"})).raw().clone())
            .await
            .expect("sent");
    });
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(!flood.is_finished(), "an agent whose reader stops is made to wait");
    client.send_line("{}").await;
    assert_eq!(agent.recv().await.to_string(), "{}");
    turn.end().await.expect("the end comes when the reader reads on");
    flood.await.expect("all was sent");
}
