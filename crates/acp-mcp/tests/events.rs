//! What the stub's streams say to clients that read every event as a message.

use acp_mcp::stub::{LogFile, StubSettings, serve_http};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const HELLO: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"old","version":"1"}}}"#;

#[tokio::test]
async fn the_first_event_of_a_stream_is_the_answer() {
    let settings = StubSettings { name: "stub".to_owned(), log_env: Vec::new() };
    let log = LogFile::open("stub", None).expect("no log");
    let stub = serve_http(&settings, log, 0).await.expect("a port");
    let port = stub.port();
    tokio::spawn(stub.run());
    let mut client = TcpStream::connect(("127.0.0.1", port)).await.expect("a connection");
    let request = format!(
        "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nContent-Length: {}\r\n\r\n{HELLO}",
        HELLO.len()
    );
    client.write_all(request.as_bytes()).await.expect("a request");
    let mut heard = String::new();
    let mut piece = [0; 4096];
    while !heard.contains("serverInfo") {
        let read = client.read(&mut piece).await.expect("an answer");
        assert!(read > 0, "the stub hung up after {heard:?}");
        heard.push_str(&String::from_utf8_lossy(&piece[..read]));
    }
    let first = heard.lines().find_map(|line| line.strip_prefix("data:")).expect("an event");
    assert!(first.contains(r#""id":1"#), "the first event is {first:?}");
}
