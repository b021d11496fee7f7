//! Two links joined, inside one process.

use std::time::Duration;

use acp_dialect::{Bridge, Dialect, Side, TranslationOptions};
use acp_link::{Link, memory};
use acp_relay::{Interest, Observer, Observers, Relay, RelayEnd, translated};
use acp_rpc::{Frame, Id, RpcError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

fn joined(client: Dialect, agent: Dialect) -> (Link, Relay, Link) {
    let (ours, client_end) = memory(8);
    let (agent_end, theirs) = memory(8);
    let relay = Relay::new(
        client_end,
        agent_end,
        Bridge::new(client, agent, TranslationOptions::default()),
        Observers::default(),
    );
    (ours, relay, theirs)
}

fn line(number: usize) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"n","params":{{"number":{number}}}}}"#)
}

#[tokio::test]
async fn a_relay_that_is_interrupted_again_and_again_loses_nothing() {
    const LINES: usize = 3000;
    let (ours, mut relay, theirs) = joined(Dialect::V1, Dialect::V1);
    let end = |link: Link| async move {
        let Link { tx, mut rx } = link;
        let send = async {
            for number in 0..LINES {
                tx.send(line(number)).await.expect("a reader");
            }
        };
        let receive = async {
            for number in 0..LINES {
                let arrival = rx.recv().await.expect("a line");
                assert_eq!(&arrival.line.bytes()[..], line(number).as_bytes());
            }
        };
        tokio::join!(send, receive);
    };
    let both = tokio::spawn(async move { tokio::join!(end(ours), end(theirs)) });
    while !both.is_finished() {
        let _ = timeout(Duration::from_micros(50), relay.run()).await;
    }
    both.await.expect("every line, once, in order");
    let bytes: usize = (0..LINES).map(|number| line(number).len() + 1).sum();
    assert_eq!(relay.moved(), 2 * bytes as u64);
}

#[tokio::test]
async fn an_agent_that_goes_away_is_an_answer_to_every_open_request() {
    for (client, agent) in
        [(Dialect::V1, Dialect::V1), (Dialect::V1, Dialect::DELTA), (Dialect::DELTA, Dialect::V1)]
    {
        let (mut ours, mut relay, theirs) = joined(client, agent);
        for id in [1, 2] {
            let ask = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"_x/ask","params":{{}}}}"#);
            ours.tx.send(ask).await.expect("a reader");
        }
        drop(theirs.tx);
        let ended = relay.run().await;
        assert_eq!(ended, RelayEnd::AgentGone, "{client} to {agent}");
        drop(relay);
        let mut answered = Vec::new();
        while let Some(arrival) = ours.rx.recv().await {
            let frame = Frame::from(arrival.line);
            assert!(frame.error().is_some_and(|error| error.contains("gone")), "{frame}");
            answered.push(frame.id().expect("an id").to_string());
        }
        assert_eq!(answered, ["1", "2"], "{client} to {agent}");
        drop(theirs.rx);
    }
}

#[tokio::test]
async fn a_line_that_is_too_long_ends_the_conversation_with_a_reason() {
    let (near, far) = tokio::io::duplex(1 << 16);
    let wire = acp_link::LinkSettings { line_limit: 100, ..acp_link::LinkSettings::default() };
    let (read, write) = tokio::io::split(far);
    let client = acp_link::stream::link(read, write, &wire);
    let (agent, _theirs) = memory(8);
    let mut relay = Relay::new(
        client,
        agent,
        Bridge::new(Dialect::V1, Dialect::V1, TranslationOptions::default()),
        Observers::default(),
    );
    let (read, write) = tokio::io::split(near);
    let mut ours = acp_link::stream::link(read, write, &acp_link::LinkSettings::default());
    ours.tx.send(r#"{"jsonrpc":"2.0","id":7,"method":"a"}"#).await.expect("a reader");
    ours.tx.send("x".repeat(200)).await.expect("a reader");
    let RelayEnd::Refused { side, reason } = relay.run().await else { panic!("it goes on") };
    assert_eq!(side, Side::Client);
    assert!(reason.contains("200 bytes"), "{reason}");
    for id in [Id::Null, Id::Int(7)] {
        let told = Frame::from(ours.rx.recv().await.expect("a word of farewell").line);
        assert!(told.error().is_some_and(|error| error.contains("200 bytes")), "{told}");
        assert_eq!(told.id(), Some(&id), "{told}");
    }
}

#[tokio::test]
async fn a_client_that_waits_for_nothing_is_told_why_its_conversation_is_closed() {
    for (client, code) in [(Dialect::V1, -32603), (Dialect::DELTA, -32603), (Dialect::GO, -32000)] {
        let (mut ours, mut relay, _theirs) = joined(client, Dialect::V1);
        relay.close("it is late");
        assert_eq!(relay.run().await, RelayEnd::Closed("it is late".to_owned()));
        let told = Frame::from(ours.rx.recv().await.expect("a word of farewell").line);
        assert_eq!(told.id(), Some(&Id::Null), "{told}");
        let error = RpcError::parse(told.error().expect("an error")).expect("a whole one");
        assert_eq!((error.code, error.message.as_str()), (code, "it is late"));
    }
}

#[tokio::test]
async fn a_translated_link_ends_with_both_of_its_ends() {
    let (agent_end, mut theirs) = memory(8);
    let mut ours = translated(agent_end, Dialect::DELTA, TranslationOptions::default(), Observers::default());
    let cancel = r#"{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s"}}"#;
    ours.tx.send(cancel).await.expect("a reader");
    let heard = Frame::from(theirs.rx.recv().await.expect("a line").line);
    assert!(heard.id().is_some(), "delta cancels with a request: {heard}");
    ours.tx.close();
    assert!(theirs.rx.recv().await.is_none(), "the agent's input ends");
    let delta =
        r#"{"jsonrpc":"2.0","method":"assistant.message_delta","params":{"sessionId":"s","content":"last"}}"#;
    theirs.tx.send(delta).await.expect("a reader");
    theirs.tx.close();
    let heard = Frame::from(ours.rx.recv().await.expect("a line").line);
    assert!(heard.params().is_some_and(|params| params.contains("agent_message_chunk")), "{heard}");
    assert!(ours.rx.recv().await.is_none(), "and so does ours");
}

/// A link over a pipe in memory, and the pipe's other end.
fn piped() -> (tokio::io::DuplexStream, Link) {
    let (near, far) = tokio::io::duplex(1 << 16);
    let (read, write) = tokio::io::split(far);
    (near, acp_link::stream::link(read, write, &acp_link::LinkSettings::default()))
}

type Kept = std::sync::Arc<std::sync::Mutex<Vec<(Side, Vec<u8>)>>>;

struct KeepsLines(Kept);

impl Observer for KeepsLines {
    fn interest(&self) -> Interest {
        Interest { lines: true, frames: false }
    }

    fn lines(
        &mut self,
        from: Side,
        _at: std::time::Instant,
        lines: &bytes::Bytes,
    ) -> Result<(), acp_relay::RecordError> {
        self.0.lock().expect("whole").push((from, lines.to_vec()));
        Ok(())
    }
}

#[tokio::test]
async fn between_peers_of_one_form_every_byte_stays() {
    let said = "\u{feff}{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\"}\r\n\n not json \r\n{\"b\": 1.50}\n"
        .as_bytes();
    for dialect in Dialect::ALL {
        let ((mut ours, client), (mut theirs, agent)) = (piped(), piped());
        let heard = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
        let kept = heard.clone();
        let observers = Observers::new(vec![Box::new(KeepsLines(kept))]);
        let mut relay = Relay::new(
            client,
            agent,
            Bridge::new(dialect, dialect, TranslationOptions::default()),
            observers,
        );
        let pass = tokio::spawn(async move { relay.run().await });
        ours.write_all(said).await.expect("a reader");
        let mut came = vec![0; said.len()];
        theirs.read_exact(&mut came).await.expect("all of it");
        assert_eq!(came, said, "{dialect}");
        theirs.write_all(said).await.expect("a reader");
        ours.read_exact(&mut came).await.expect("all of it");
        assert_eq!(came, said, "{dialect}");
        let all = |side: Side| -> Vec<u8> {
            let heard = heard.lock().expect("whole");
            heard.iter().filter(|(from, _)| *from == side).flat_map(|(_, lines)| lines.clone()).collect()
        };
        assert_eq!((all(Side::Client), all(Side::Agent)), (said.to_vec(), said.to_vec()), "{dialect}");
        pass.abort();
    }
}

#[tokio::test]
async fn streamed_text_keeps_its_order_among_other_frames() {
    let (mut ours, mut relay, theirs) = joined(Dialect::DELTA, Dialect::V1);
    let ask = |id: u32, method: &str, params: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)
    };
    let pass = tokio::spawn(async move { while relay.run().await == RelayEnd::ClientDone {} });
    for line in [
        ask(1, "initialize", r#"{"protocolVersion":"2025-01-01","capabilities":{}}"#),
        ask(2, "session/new", r#"{"workDir":"/"}"#),
        ask(3, "session/prompt", r#"{"sessionId":"s","prompt":"go"}"#),
    ] {
        ours.tx.send(line).await.expect("a reader");
    }
    for result in [r#"{"protocolVersion":1}"#, r#"{"sessionId":"s"}"#] {
        let id = if result.contains("sessionId") { 2 } else { 1 };
        theirs
            .tx
            .send(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#))
            .await
            .expect("a reader");
        ours.rx.recv().await.expect("an answer");
    }
    for number in 0..500 {
        let update = if number % 7 == 0 {
            r#"{"sessionUpdate":"current_mode_update","currentModeId":"m"}"#.to_owned()
        } else {
            // Most in the usual spelling, some with spaces in between.
            let space = if number % 5 == 0 { " " } else { "" };
            format!(
                r#"{{"sessionUpdate":{space}"agent_message_chunk","content":{{"type":"text","text":"{number}"}}}}"#
            )
        };
        let line = format!(
            r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"s","update":{update}}}}}"#
        );
        theirs.tx.send(line).await.expect("a reader");
        let heard = Frame::from(ours.rx.recv().await.expect("a line").line);
        if number % 7 == 0 {
            assert_eq!(heard.method(), Some("session/update"), "{heard}");
        } else {
            let said = format!(r#"{{"sessionId":"s","content":"{number}"}}"#);
            assert_eq!((heard.method(), heard.params()), (Some("assistant.message_delta"), Some(&*said)));
        }
    }
    pass.abort();
}
