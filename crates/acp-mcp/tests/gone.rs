//! A server that goes away between two calls.

use std::time::Duration;

use acp_mcp::stub::{LogFile, StubSettings, serve_http};
use acp_mcp::{Hub, HubEvent, ServerSpec};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// A stub on HTTP, with the runtime that it lives in and its address.
async fn stub() -> (Runtime, String) {
    let runtime = Runtime::new().expect("a runtime");
    let settings = StubSettings { name: "stub".to_owned(), log_env: Vec::new() };
    let log = LogFile::open("stub", None).expect("no log");
    let opening = runtime.spawn(async move { serve_http(&settings, log, 0).await });
    let stub = opening.await.expect("nobody panicked").expect("a port");
    let url = stub.url();
    runtime.spawn(stub.run());
    (runtime, url)
}

async fn answered(events: &mut UnboundedReceiver<HubEvent>) -> Result<Value, String> {
    match events.recv().await {
        Some(HubEvent::Answered { answer, .. }) => answer,
        _ => panic!("an answer should have come"),
    }
}

#[tokio::test]
async fn one_on_http_is_gone_when_nobody_listens_any_more() {
    let (runtime, url) = stub().await;
    let (to, mut events) = unbounded_channel();
    let mut hub = Hub::new("test", to);
    hub.connect(1, Some(ServerSpec::Http { url, headers: Vec::new() }));
    let Some(HubEvent::Connected { key: 1, outcome }) = events.recv().await else { panic!("a connection") };
    hub.keep(1, outcome).expect("its tools");
    hub.call(1, 7, "ping".to_owned(), json!({}));
    answered(&mut events).await.expect("a pong");
    let end = move || runtime.shutdown_timeout(Duration::from_secs(60));
    tokio::task::spawn_blocking(end).await.expect("its end");
    hub.call(1, 8, "ping".to_owned(), json!({}));
    let Some(HubEvent::Connected { key: 1, outcome: Err(reason) }) = events.recv().await else {
        panic!("it is said that the server is gone")
    };
    assert!(reason.contains("went away during tools/call"), "{reason}");
    answered(&mut events).await.expect_err("no pong");
    hub.keep(1, Err(reason)).expect_err("no tools");
    hub.call(1, 9, "ping".to_owned(), json!({}));
    assert_eq!(answered(&mut events).await.expect_err("no pong"), "the server is gone");
}
