//! Many sessions at once through one proxy.

use std::io::{BufRead, BufReader, Write};

use acp_proxy::journal::conversations;
use acp_rpc::Direction;

use crate::{Place, Proxy};

const SESSIONS: usize = 60;
const CHUNKS: usize = 200;

/// Sixty clients, each with an agent that listens at one address; nothing is lost, in the wire and in the journal.
#[test]
fn sixty_sessions_streaming_at_once_lose_nothing() {
    let place = Place::new();
    let mock = place.acp(&["mock", "--port", "0", "--chunks", &CHUNKS.to_string()]);
    let agents = Proxy::start(&place, mock);
    let address = format!("tcp://{}", agents.address);
    let proxy = Proxy::tcp(&place, &["--connect", &address]);
    let together = std::sync::Barrier::new(SESSIONS);
    std::thread::scope(|scope| {
        for number in 0..SESSIONS {
            let (proxy, together) = (&proxy, &together);
            scope.spawn(move || {
                let stream = proxy.connect();
                let mut reader = BufReader::new(stream.try_clone().expect("a socket"));
                let mut ask = |id: u64, words: &str| -> (usize, String) {
                    writeln!(&stream, r#"{{"jsonrpc":"2.0","id":{id},{words}}}"#).expect("sent");
                    let (mut chunks, mut line) = (0, String::new());
                    loop {
                        line.clear();
                        assert!(reader.read_line(&mut line).expect("a line") > 0, "{number}: the connection ended");
                        chunks += usize::from(line.contains("agent_message_chunk"));
                        if line.starts_with(&format!(r#"{{"jsonrpc":"2.0","id":{id},"#)) {
                            return (chunks, line);
                        }
                    }
                };
                ask(1, r#""method":"initialize","params":{"protocolVersion":1}"#);
                let (_, new) = ask(2, r#""method":"session/new","params":{"cwd":"/","mcpServers":[]}"#);
                let new: serde_json::Value = serde_json::from_str(&new).expect("JSON");
                let session = new["result"]["sessionId"].as_str().expect("a session");
                together.wait();
                let prompt = format!(r#""method":"session/prompt","params":{{"sessionId":"{session}","prompt":[{{"type":"text","text":"hello"}}]}}"#);
                let (chunks, end) = ask(3, &prompt);
                assert!(end.contains("end_turn"), "{end}");
                assert_eq!(chunks, CHUNKS, "session {number}");
            });
        }
    });
    let memory = proxy.memory();
    assert!(memory < 200 * 1024, "{memory} KiB");
    assert_eq!(proxy.stop().0, Some(0));
    let (found, notices) = conversations(&place.journal(), None).expect("a journal");
    assert_eq!((found.len(), notices.len()), (SESSIONS, 0));
    for conversation in &found {
        let agent = conversation.spoken.iter().filter(|(_, dir, _)| *dir == Direction::AgentToClient);
        let chunks =
            agent.filter(|(_, _, line)| String::from_utf8_lossy(line).contains("agent_message_chunk"));
        assert_eq!(chunks.count(), CHUNKS, "{}", conversation.name);
    }
}
