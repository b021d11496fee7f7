//! TCP and WebSocket, client and server.
#![cfg(target_os = "linux")]

mod common;

use acp_link::{Link, LinkEnd, LinkSettings, tcp, ws};
use acp_rpc::Line;
use common::{LONG, next};
use futures_util::{SinkExt, StreamExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

async fn echo(mut link: Link) {
    while let Some(arrival) = link.rx.recv().await {
        link.tx.send(arrival.line.bytes().clone()).await.unwrap();
    }
    let _ = link.tx.finish().await;
}

async fn tcp_echo() -> std::net::SocketAddr {
    let listener = tcp::listen("127.0.0.1:0", &LinkSettings::default()).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((link, _)) = listener.accept().await {
            tokio::spawn(echo(link));
        }
    });
    address
}

async fn ws_pair(wire: &LinkSettings) -> (Link, Link) {
    let mut listener = ws::listen("127.0.0.1:0", wire).await.unwrap();
    let url = format!("ws://{}/acp", listener.local_addr().unwrap());
    let (client, server) = tokio::join!(ws::connect(&url, wire), listener.accept());
    (client.unwrap(), server.unwrap().0)
}

#[tokio::test]
async fn many_tcp_connections_each_get_their_own_lines() {
    let address = tcp_echo().await;
    let mut clients = tokio::task::JoinSet::new();
    for client in 0..200 {
        clients.spawn(async move {
            let mut link = tcp::connect(address, &LinkSettings::default()).await.unwrap();
            for index in 0..50 {
                link.tx.send(format!("{client}:{index}")).await.unwrap();
            }
            link.tx.close();
            for index in 0..50 {
                assert_eq!(next(&mut link).await, format!("{client}:{index}"));
            }
            assert_eq!(link.rx.recv().await, None);
        });
    }
    let done = tokio::time::timeout(LONG, clients.join_all()).await.unwrap();
    assert_eq!(done.len(), 200);
}

#[tokio::test]
async fn a_half_closed_tcp_connection_still_answers() {
    let address = tcp_echo().await;
    let mut socket = TcpStream::connect(address).await.unwrap();
    socket.write_all(b"one\r\ntwo").await.unwrap();
    socket.shutdown().await.unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await.unwrap();
    assert_eq!(answer, "one\ntwo\n");
}

#[tokio::test]
async fn nobody_listening_is_an_error() {
    let unused = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    assert!(tcp::connect(unused, &LinkSettings::default()).await.is_err());
    let error =
        ws::connect(&format!("ws://{unused}/acp"), &LinkSettings::default()).await.unwrap_err().to_string();
    assert!(error.contains("does an agent listen there?"), "{error}");
    for (url, why) in
        [("wss://localhost/acp", "TLS is not supported"), ("http://localhost/", "not a WebSocket address")]
    {
        let error = ws::connect(url, &LinkSettings::default()).await.unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
}

#[tokio::test]
async fn a_web_socket_carries_one_frame_per_message() {
    let (mut client, mut server) = ws_pair(&LinkSettings::default()).await;
    for index in 0..1000 {
        client.tx.send(format!("to the server {index}")).await.unwrap();
        server.tx.send(format!("to the client {index}")).await.unwrap();
    }
    server.tx.send("with\na line break").await.unwrap();
    for index in 0..1000 {
        assert_eq!(next(&mut server).await, format!("to the server {index}"));
        assert_eq!(next(&mut client).await, format!("to the client {index}"));
    }
    assert_eq!(next(&mut client).await, "with\na line break");
}

#[tokio::test]
async fn closing_a_web_socket_delivers_what_was_sent_and_ends_both_sides() {
    let (mut client, mut server) = ws_pair(&LinkSettings::default()).await;
    for index in 0..100 {
        client.tx.send(format!("{index}")).await.unwrap();
    }
    client.tx.finish().await.unwrap();
    for index in 0..100 {
        assert_eq!(next(&mut server).await, format!("{index}"));
    }
    assert_eq!(server.rx.recv().await, None);
    assert_eq!(server.rx.end(), Some(&LinkEnd::Eof));
    assert_eq!(client.rx.recv().await, None);
    assert_eq!(client.rx.end(), Some(&LinkEnd::Eof));
    let error = server.tx.send("too late").await.unwrap_err();
    assert_eq!(error.to_string(), "cannot send: the other side closed the connection");
}

#[tokio::test]
async fn a_dropped_web_socket_still_delivers_its_last_messages() {
    let (client, mut server) = ws_pair(&LinkSettings::default()).await;
    // Unread at the client when it goes: closing such a socket at once would reset the connection.
    server.tx.send("never read").await.unwrap();
    server.tx.flush().await.unwrap();
    for index in 0..2000 {
        client.tx.send(format!("{index:0200}")).await.unwrap();
    }
    drop(client);
    for index in 0..2000 {
        assert_eq!(next(&mut server).await, format!("{index:0200}"));
    }
    assert_eq!(server.rx.recv().await, None);
    assert_eq!(server.rx.end(), Some(&LinkEnd::Eof));
}

#[tokio::test]
async fn both_sides_of_a_web_socket_may_burst() {
    let (client, server) = ws_pair(&LinkSettings { queue_bytes: 4096, ..LinkSettings::default() }).await;
    let play = |link: Link| async move {
        let Link { tx, mut rx } = link;
        let sending = tokio::spawn(async move {
            for index in 0..10_000 {
                tx.send(format!("{index:0200}")).await.unwrap();
            }
            tx
        });
        for index in 0..10_000 {
            let arrival = rx.recv().await.unwrap();
            assert_eq!(arrival.line, Line::Text(format!("{index:0200}").into()));
        }
        sending.await.unwrap().flush().await.unwrap();
    };
    let both = async { tokio::join!(play(client), play(server)) };
    tokio::time::timeout(4 * LONG, both).await.unwrap();
}

#[tokio::test]
async fn what_a_web_socket_must_not_carry_is_named() {
    let wire = LinkSettings { line_limit: 1000, ..LinkSettings::default() };
    let mut listener = ws::listen("127.0.0.1:0", &wire).await.unwrap();
    let url = format!("ws://{}/acp", listener.local_addr().unwrap());
    let connecting = tokio_tungstenite::connect_async(&url);
    let (stranger, accepted) = tokio::join!(connecting, listener.accept());
    let (mut stranger, mut server) = (stranger.unwrap().0, accepted.unwrap().0);
    stranger.send(Message::binary(vec![0xff, 0xfe])).await.unwrap();
    stranger.send(Message::text("x".repeat(1001))).await.unwrap();
    let first = server.rx.recv().await.unwrap().line;
    assert_eq!(first, Line::NotUtf8((&b"\xff\xfe"[..]).into()));
    let second = server.rx.recv().await.unwrap().line;
    assert!(matches!(second, Line::Oversized { len: 1001, .. }), "{second:?}");
    assert_eq!(server.rx.recv().await, None);
    assert_eq!(server.rx.end(), Some(&LinkEnd::Broken("a message is longer than 1000 bytes".into())));
}

#[tokio::test]
async fn a_peer_that_sends_too_much_reads_why_after_it_has_sent_it_all() {
    let wire = LinkSettings { line_limit: 1000, ..LinkSettings::default() };
    let mut listener = ws::listen("127.0.0.1:0", &wire).await.unwrap();
    let url = format!("ws://{}/acp", listener.local_addr().unwrap());
    let (stranger, accepted) = tokio::join!(tokio_tungstenite::connect_async(&url), listener.accept());
    let (mut stranger, mut server) = (stranger.unwrap().0, accepted.unwrap().0);
    let hearing = tokio::spawn(async move {
        let line = server.rx.recv().await.unwrap().line;
        assert!(matches!(line, Line::Oversized { .. }), "{line:?}");
        server.tx.send("that is too long").await.unwrap();
        server.tx.finish().await.unwrap();
    });
    // More than fits between the two: it reads nothing before this is done.
    stranger.send(Message::text("x".repeat(64 * 1024 * 1024))).await.unwrap();
    assert_eq!(stranger.next().await.unwrap().unwrap(), Message::text("that is too long"));
    let why = CloseFrame { code: CloseCode::Size, reason: "a message is longer than 1000 bytes".into() };
    assert_eq!(stranger.next().await.unwrap().unwrap(), Message::Close(Some(why)));
    hearing.await.unwrap();
}

#[tokio::test]
async fn a_close_with_a_reason_says_it() {
    let mut listener = ws::listen("127.0.0.1:0", &LinkSettings::default()).await.unwrap();
    let url = format!("ws://{}/acp", listener.local_addr().unwrap());
    let (stranger, accepted) = tokio::join!(tokio_tungstenite::connect_async(&url), listener.accept());
    let (mut stranger, mut server) = (stranger.unwrap().0, accepted.unwrap().0);
    stranger.close(Some(CloseFrame { code: CloseCode::Policy, reason: "no".into() })).await.unwrap();
    assert_eq!(server.rx.recv().await, None);
    assert_eq!(server.rx.end(), Some(&LinkEnd::Broken("closed with 1008: no".into())));
    while let Some(Ok(_)) = stranger.next().await {}
}

#[tokio::test]
async fn other_paths_are_refused_and_others_are_still_served() {
    let mut listener = ws::listen("127.0.0.1:0", &LinkSettings::default()).await.unwrap();
    let address = listener.local_addr().unwrap();
    let wire = LinkSettings::default();
    // One that never finishes its handshake must not keep the others waiting.
    let _silent = TcpStream::connect(address).await.unwrap();
    let accepting = tokio::spawn(async move { (listener.accept().await.unwrap().0, listener.refused()) });
    let error = ws::connect(&format!("ws://{address}/other"), &wire).await.unwrap_err().to_string();
    assert!(error.contains("404"), "{error}");
    let without_path = ws::connect(&format!("ws://{address}"), &wire).await.unwrap();
    without_path.tx.send("hello").await.unwrap();
    let (mut server, refused) = accepting.await.unwrap();
    assert_eq!((next(&mut server).await.as_str(), refused), ("hello", 1));
}
