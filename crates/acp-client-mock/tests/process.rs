//! Defects that only a real agent shows: one that is a process, or that listens at an address.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use acp_client_mock::{AddressStarter, AgentStarter, ClientMock, ClientNature, CommandStarter};
use acp_link::{AccessControl, LinkSettings, ListenAddress, Listener};
use acp_rpc::Line;
use acp_script::client_defects;
use serde_json::{Value, json};
use tokio::time::timeout;

const LIMIT: Duration = Duration::from_secs(10);

fn nature(defect: Option<&str>) -> ClientNature {
    let find = |id| client_defects::find(id).expect("a defect of this name");
    defect.map_or_else(ClientNature::default, |id| ClientNature::default().with(find(id)))
}

/// An agent that runs a line of shell, with `$OUT` for what it finds out, before it answers `initialize`.
fn agent(line: &str, out: &Path) -> Arc<dyn AgentStarter> {
    let script = format!(
        r#"OUT='{}'; read a; {line}; echo '{{"jsonrpc":"2.0","id":1,"result":{{"protocolVersion":1}}}}'
        read b; echo '{{"jsonrpc":"2.0","id":2,"result":{{"sessionId":"s"}}}}'; cat >/dev/null"#,
        out.display()
    );
    Arc::new(CommandStarter::new("sh", ["-c", &script]))
}

/// Opens a session and quits; whether it was opened in time, and what the agent found out.
async fn open(defect: Option<&str>, line: &str, patience: Duration) -> (bool, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let out: PathBuf = folder.path().join("out");
    let (client, mut events) = ClientMock::start(nature(defect), folder.path().to_owned(), agent(line, &out));
    client.tell(&json!({ "verb": "open" }));
    let opened = async {
        while let Some(event) = events.recv().await {
            if event["event"] == "opened" {
                return;
            }
        }
    };
    let is_open = timeout(patience, opened).await.is_ok();
    client.tell(&json!({ "verb": "quit" }));
    timeout(LIMIT, client.ended()).await.expect("the client quits");
    (is_open, std::fs::read_to_string(&out).unwrap_or_default().trim().to_owned())
}

#[tokio::test]
async fn an_agent_can_be_put_on_a_terminal() {
    let line = "if [ -t 0 ] && [ -t 1 ]; then echo tty > \"$OUT\"; else echo pipes > \"$OUT\"; fi";
    assert_eq!(open(None, line, LIMIT).await, (true, "pipes".to_owned()));
    assert_eq!(open(Some("agent-on-a-tty"), line, LIMIT).await, (true, "tty".to_owned()));
}

#[tokio::test]
async fn standard_error_can_be_left_unread() {
    let line = "head -c 300000 /dev/zero >&2";
    assert!(open(None, line, LIMIT).await.0);
    assert!(!open(Some("never-reads-stderr"), line, Duration::from_secs(1)).await.0);
}

#[tokio::test]
async fn what_an_agent_started_can_be_left_alone() {
    // It ignores the end of its input, so that it is told to end.
    let line = "sleep 60 </dev/null >/dev/null 2>&1 & echo $! > \"$OUT\"";
    for (defect, lives) in [(None, false), (Some("kills-direct-child-only"), true)] {
        let (is_open, pid) = open(defect, line, LIMIT).await;
        assert!(is_open && !pid.is_empty());
        let stat = || std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let is_alive = || stat().rsplit(')').next().is_some_and(|rest| rest.trim().starts_with(['S', 'R']));
        let deadline = std::time::Instant::now() + Duration::from_secs(3);
        while is_alive() && !lives && std::time::Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert_eq!(is_alive(), lives, "{defect:?}");
        if lives {
            let pid = pid.parse().ok().and_then(rustix::process::Pid::from_raw).expect("a number");
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("our own process");
        }
    }
}

#[tokio::test]
async fn frames_can_be_binary_messages() {
    for (defect, is_binary) in [(None, false), (Some("frames-in-binary"), true)] {
        let at = ListenAddress::web_socket("127.0.0.1:0".parse().expect("an address"));
        let mut listener =
            Listener::bind(at, &LinkSettings::default(), AccessControl::default()).expect("a port");
        let address = format!("ws://{}/acp", listener.address()).parse().expect("an address");
        let folder = tempfile::tempdir().expect("a folder");
        let starter = Arc::new(AddressStarter::new(address, None));
        let (client, _events) = ClientMock::start(nature(defect), folder.path().to_owned(), starter);
        client.tell(&json!({ "verb": "open" }));
        let (mut link, _) = timeout(LIMIT, listener.accept()).await.expect("in time").expect("a client");
        let first = timeout(LIMIT, link.rx.recv()).await.expect("in time").expect("a line").line;
        assert_eq!(matches!(first, Line::NotUtf8(_)), is_binary, "{defect:?}");
        let frame: Value = serde_json::from_slice(first.bytes()).expect("JSON");
        assert_eq!(frame["method"], "initialize");
    }
}
