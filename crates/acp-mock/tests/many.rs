//! A thousand clients at once, each with a whole turn; and clients that send rubbish.

use std::sync::Arc;
use std::time::Duration;

use acp_link::{AccessControl, Link, LinkSettings, ListenAddress, Listener};
use acp_mock::{MockServer, MockSettings};
use acp_rpc::{Frame, Id, Line, View};
use acp_script::agent::{AgentConfig, MessagePace};
use serde_json::{Value, json};

const CLIENTS: usize = 1000;
const CHUNKS: u32 = 20;

async fn recv(link: &mut Link) -> Frame {
    let arrival = tokio::time::timeout(Duration::from_secs(60), link.rx.recv()).await.expect("in time");
    Frame::from(arrival.expect("the server stays").line)
}

/// Sends a request and counts the chunks before its answer.
async fn ask(link: &mut Link, id: i64, method: &str, params: Value) -> (Value, u32) {
    link.tx.send(Frame::request(&Id::Int(id), method, &params).raw().clone()).await.expect("sent");
    let mut chunks = 0;
    loop {
        let frame = recv(link).await;
        match frame.view() {
            View::Response { id: answered, .. } if *answered == Id::Int(id) => {
                return (serde_json::from_slice(frame.raw()).expect("JSON"), chunks);
            }
            View::Notification { .. }
                if frame.text().is_some_and(|text| text.contains("agent_message_chunk")) =>
            {
                chunks += 1;
            }
            _ => {}
        }
    }
}

async fn whole_turn(mut link: Link) -> u32 {
    ask(&mut link, 1, "initialize", json!({ "protocolVersion": 1 })).await;
    let (answer, _) = ask(&mut link, 2, "session/new", json!({ "cwd": "/", "mcpServers": [] })).await;
    let session = answer["result"]["sessionId"].as_str().expect("a session").to_owned();
    let prompt = json!({ "sessionId": session, "prompt": [{ "type": "text", "text": "Hello" }] });
    let (answer, chunks) = ask(&mut link, 3, "session/prompt", prompt).await;
    assert_eq!(answer["result"]["stopReason"], "end_turn");
    chunks
}

async fn serve(agent: AgentConfig, web_socket: bool) -> std::net::SocketAddr {
    let server = MockServer::new(MockSettings { agent, ..MockSettings::default() }).expect("a server");
    let any = "127.0.0.1:0".parse().expect("an address");
    let at = if web_socket { ListenAddress::web_socket(any) } else { ListenAddress::tcp(any) };
    let listener = Listener::bind(at, &LinkSettings::default(), AccessControl::default()).expect("listens");
    let address = listener.address();
    tokio::spawn(Arc::new(server).serve_clients(listener));
    address
}

/// Both ends of every connection live in this process.
fn room_for_descriptors() -> usize {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    let _ = setrlimit(Resource::Nofile, limit);
    let room = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(room / 2).unwrap_or(usize::MAX).saturating_sub(50)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_connections_each_have_a_whole_turn() {
    let clients = CLIENTS.min(room_for_descriptors());
    let agent = AgentConfig {
        pace: MessagePace {
            chunks: Some(CHUNKS),
            streaming_delay: Duration::from_millis(50),
            ..MessagePace::default()
        },
        ..AgentConfig::default()
    };
    let address = serve(agent, false).await;
    let mut links = Vec::new();
    for _ in 0..clients {
        links.push(acp_link::tcp::connect(address, &LinkSettings::default()).await.expect("connects"));
    }
    let turns: Vec<_> = links.into_iter().map(|link| tokio::spawn(whole_turn(link))).collect();
    for turn in turns {
        assert_eq!(turn.await.expect("no error"), CHUNKS);
    }
    assert_eq!(clients, CLIENTS, "the limit of open files is too low for this test: raise it with ulimit -n");
}

#[tokio::test]
async fn a_web_socket_carries_a_whole_turn() {
    let address = serve(AgentConfig::default(), true).await;
    let link =
        acp_link::ws::connect(&format!("ws://{address}/"), &LinkSettings::default()).await.expect("connects");
    assert!(whole_turn(link).await >= 2);
}

#[tokio::test]
async fn rubbish_never_kills_the_server() {
    let address = serve(AgentConfig::default(), false).await;
    let rubbish: Vec<Vec<u8>> = vec![
        b"\n\r\n\n".to_vec(),
        b"{oops\n".to_vec(),
        b"\xff\xfe\xfd\n".to_vec(),
        b"42\n\"x\"\nnull\ntrue\n[]\n[1,2]\n{}\n".to_vec(),
        [b"[".repeat(100_000), b"\n".to_vec()].concat(),
        format!("{{\"a\":\"{}\"}}\n", "x".repeat(5 << 20)).into_bytes(),
        br#"{"jsonrpc":"2.0","id":{},"method":"initialize"}"#.to_vec(),
        b"\0\0\0\n".to_vec(),
    ];
    for bytes in rubbish {
        let link = acp_link::tcp::connect(address, &LinkSettings::default()).await.expect("connects");
        link.tx.send_raw(bytes).await.expect("sent");
        link.tx.close();
        let mut link = link;
        while let Some(arrival) = link.rx.recv().await {
            assert!(matches!(arrival.line, Line::Text(_)), "what comes back is proper");
        }
    }
    let mut link = acp_link::tcp::connect(address, &LinkSettings::default()).await.expect("connects");
    link.tx.send_raw(&b"{oops\n42\n"[..]).await.expect("sent");
    let first = recv(&mut link).await;
    assert!(first.error().is_some_and(|error| error.contains("-32700")), "{first:?}");
    assert!(whole_turn(link).await >= 2, "the same connection goes on");
}

#[tokio::test]
async fn a_slow_reader_loses_nothing() {
    let pace = MessagePace { chunks: Some(10_000), ..MessagePace::default() };
    let agent = AgentConfig { pace, ..AgentConfig::default() };
    let address = serve(agent, false).await;
    let mut link = acp_link::tcp::connect(address, &LinkSettings::default()).await.expect("connects");
    ask(&mut link, 1, "initialize", json!({ "protocolVersion": 1 })).await;
    let (answer, _) = ask(&mut link, 2, "session/new", json!({ "cwd": "/", "mcpServers": [] })).await;
    let prompt = json!({ "sessionId": answer["result"]["sessionId"], "prompt": [{ "type": "text", "text": "Hello" }] });
    link.tx.send(Frame::request(&Id::Int(3), "session/prompt", &prompt).raw().clone()).await.expect("sent");
    let mut chunks = 0;
    loop {
        let frame = recv(&mut link).await;
        if frame.method().is_none() {
            break;
        }
        chunks += u32::from(frame.text().is_some_and(|text| text.contains("agent_message_chunk")));
        if chunks % 500 == 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    assert_eq!(chunks, 10_000);
}

#[tokio::test]
async fn a_session_is_loaded_over_another_connection_and_after_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = || MockSettings { state_dir: Some(folder.path().to_owned()), ..MockSettings::default() };
    let mut session = String::new();
    for round in 0..3 {
        // The second round is another connection, the third another server on the same folder.
        let server = Arc::new(MockServer::new(settings()).expect("a server"));
        let (mut client, agent) = acp_link::memory(64);
        let serving = server.clone();
        tokio::spawn(async move { serving.serve(agent).await });
        ask(&mut client, 1, "initialize", json!({ "protocolVersion": 1 })).await;
        if round == 0 {
            let (answer, _) =
                ask(&mut client, 2, "session/new", json!({ "cwd": "/", "mcpServers": [] })).await;
            answer["result"]["sessionId"].as_str().expect("a session").clone_into(&mut session);
            let prompt =
                json!({ "sessionId": session, "prompt": [{ "type": "text", "text": "Say 'quince'" }] });
            ask(&mut client, 3, "session/prompt", prompt).await;
        } else {
            let place = json!({ "sessionId": session, "cwd": "/", "mcpServers": [] });
            let (answer, chunks) = ask(&mut client, 2, "session/load", place).await;
            assert!(answer.get("result").is_some(), "{answer}");
            assert_eq!(chunks, 1, "the answer is replayed");
        }
    }
}
