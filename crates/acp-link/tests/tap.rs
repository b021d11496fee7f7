//! The transcript that a tap writes.

use std::io::{self, Write};
use std::time::Duration;

use acp_link::{Link, LinkSettings, Tap, memory, stream};
use acp_rpc::Direction::{AgentToClient, ClientToAgent};
use acp_rpc::transcript::TranscriptEntry;
use tokio::io::AsyncWriteExt;

fn entries(path: &std::path::Path) -> Vec<TranscriptEntry> {
    std::fs::read_to_string(path).unwrap().lines().map(|line| TranscriptEntry::parse(line).unwrap()).collect()
}

#[tokio::test]
async fn both_directions_are_recorded_exactly_and_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("talk.ndjson");
    let tap = Tap::create(&path).unwrap();
    let (client, mut agent) = memory(16);
    let mut client = client.tapped(&tap, AgentToClient);
    let asked = "{\"a\":\"\\\"\u{1}\u{7f}\u{e9}\u{2028}\\\\\",\t\"b\":null}";
    client.tx.send(asked).await.unwrap();
    agent.rx.recv().await.unwrap();
    agent.tx.send_raw(&b"\xff\xfe\n"[..]).await.unwrap();
    client.rx.recv().await.unwrap();
    client.tx.send_raw("raw one\nraw").await.unwrap();
    client.tx.send(" two").await.unwrap();
    client.tx.send_raw("cut").await.unwrap();
    client.tx.close();
    tap.finish().unwrap();
    let seen = entries(&path);
    let lines: Vec<_> = seen.iter().map(|it| (it.dir, &it.line[..])).collect();
    let expected: [(_, &[u8]); 5] = [
        (ClientToAgent, asked.as_bytes()),
        (AgentToClient, b"\xff\xfe"),
        (ClientToAgent, b"raw one"),
        (ClientToAgent, b"raw two"),
        (ClientToAgent, b"cut"),
    ];
    assert_eq!(lines, expected);
    assert!(seen.is_sorted_by_key(|it| it.t));
    assert_eq!(tap.entries(), 5);
}

#[tokio::test]
async fn the_tail_is_never_lost_and_memory_stays_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("long.ndjson");
    let tap = Tap::create(&path).unwrap();
    let (left, right) = tokio::io::duplex(10_000);
    let (reader, writer) = tokio::io::split(left);
    let client: Link = stream::link(reader, writer, &LinkSettings::default()).tapped(&tap, AgentToClient);
    let (reader, writer) = tokio::io::split(right);
    let mut agent = stream::link(reader, writer, &LinkSettings::default());
    let reading = tokio::spawn(async move {
        let mut seen = 0;
        while agent.rx.recv().await.is_some() {
            seen += 1;
        }
        seen
    });
    for index in 0..50_000 {
        client.tx.send(format!("{{\"index\":{index}}}")).await.unwrap();
    }
    client.tx.finish().await.unwrap();
    assert_eq!(reading.await.unwrap(), 50_000);
    drop(client);
    drop(tap);
    let seen = entries(&path);
    assert_eq!(seen.len(), 50_000);
    assert_eq!(seen[49_999].line, "{\"index\":49999}");
}

#[tokio::test]
async fn an_oversized_line_says_how_long_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("big.ndjson");
    let tap = Tap::create(&path).unwrap();
    let (near, mut far) = tokio::io::duplex(100_000);
    let wire = LinkSettings { line_limit: 10, ..LinkSettings::default() };
    let (reader, writer) = tokio::io::split(near);
    let mut client = stream::link(reader, writer, &wire).tapped(&tap, AgentToClient);
    far.write_all(b"01234567890123456789\n").await.unwrap();
    client.rx.recv().await.unwrap();
    tap.finish().unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    let entry: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&entry["oversized"], &entry["line"]), (&20.into(), &"01234567890123456789".into()));
}

#[tokio::test]
async fn it_can_be_watched_while_it_grows() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("live.ndjson");
    let tap = Tap::create(&path).unwrap();
    let (client, _agent) = memory(16);
    let client = client.tapped(&tap, AgentToClient);
    client.tx.send("now").await.unwrap();
    let written = async {
        while std::fs::read_to_string(&path).unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), written).await.unwrap();
}

struct FullDisk;

impl Write for FullDisk {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::StorageFull.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_full_disk_is_reported_and_does_not_stop_the_conversation() {
    let tap = Tap::to(FullDisk).unwrap();
    let (client, mut agent) = memory(100_000);
    let client = client.tapped(&tap, AgentToClient);
    for _ in 0..50_000 {
        client.tx.send("x".repeat(10)).await.unwrap();
        agent.rx.recv().await.unwrap();
    }
    let error = tap.finish().unwrap_err();
    assert!(error.to_string().starts_with("cannot write the transcript: "), "{error}");
    let missing = Tap::create("/no/such/folder/talk.ndjson").unwrap_err().to_string();
    assert!(missing.starts_with("cannot write the transcript /no/such/folder/talk.ndjson: "), "{missing}");
}

#[tokio::test]
async fn a_recording_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("talk.ndjson");
    let mode = || std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
    Tap::create(&path).unwrap().finish().unwrap();
    assert_eq!(mode(), 0o600);
    // A file that others could read is replaced by one that they cannot.
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    Tap::create(&path).unwrap().finish().unwrap();
    assert_eq!(mode(), 0o600);
}
