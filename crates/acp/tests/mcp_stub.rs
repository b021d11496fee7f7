//! The real `acp mcp-stub` binary against the real MCP client.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use acp_mcp::stub::{StubEvent, StubLog};
use acp_mcp::{McpClient, McpError, McpOptions, ServerSpec};
use serde_json::json;
use tokio::io::{AsyncBufReadExt, BufReader};

fn stub(log: &Path, more: &[&str], env: &[(&str, &str)]) -> ServerSpec {
    let mut args = vec!["mcp-stub".to_owned(), "--log".to_owned(), log.display().to_string()];
    args.extend(more.iter().map(ToString::to_string));
    ServerSpec::Stdio {
        command: env!("CARGO_BIN_EXE_acp").to_owned(),
        args,
        env: env.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect(),
        cwd: None,
    }
}

fn read(log: &Path) -> StubLog {
    StubLog::parse(&std::fs::read_to_string(log).unwrap_or_default())
}

/// Reads the log until it shows what is waited for; fails by naming what it shows instead.
async fn until(log: &Path, what: impl Fn(&StubLog) -> bool) -> StubLog {
    let began = Instant::now();
    loop {
        let seen = read(log);
        if what(&seen) {
            return seen;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "the log never showed it: {seen:#?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_stdio_stub_serves_five_tools_and_records_the_whole_visit() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let spec =
        stub(&log, &["--name", "one", "--log-env", "OTHER_*"], &[("ACP_TOKEN", "t1"), ("OTHER_A", "a")]);
    let ServerSpec::Stdio { command, args, env, .. } = spec else { unreachable!() };
    let spec = ServerSpec::Stdio { command, args, env, cwd: Some(folder.path().to_owned()) };
    let client = McpClient::connect(spec).await.unwrap();
    assert_eq!(client.identity().name, "one");
    let names: Vec<_> = client.tools().await.unwrap().into_iter().map(|tool| tool.name).collect();
    assert_eq!(names, ["ping", "echo", "list-files", "slow", "fail"]);
    assert_eq!(client.call("ping", json!({})).await.unwrap().text(), "pong");
    assert_eq!(client.call("echo", json!({"text": "ä b"})).await.unwrap().text(), "ä b");
    assert_eq!(client.call("list-files", json!({})).await.unwrap().text(), "log");
    assert_eq!(client.call("slow", json!({"ms": 5})).await.unwrap().text(), "waited 5 ms");
    let failed = client.call("fail", json!({"message": "no luck"})).await.unwrap();
    assert!(failed.is_error);
    assert_eq!(failed.text(), "no luck");
    let refused = client.call("fail", json!({"kind": "protocol"})).await.unwrap_err();
    assert!(matches!(refused, McpError::Refused { code: -32603, .. }), "{refused}");
    let unknown = client.call("nothing", json!({})).await.unwrap_err();
    assert!(unknown.to_string().contains("there is no tool \"nothing\""), "{unknown}");
    client.close().await;

    let seen = read(&log);
    assert_eq!(seen.flaws, []);
    assert_eq!((seen.count("initialize"), seen.count("tools/list"), seen.count("tools/call")), (1, 1, 7));
    assert_eq!(seen.calls("echo").collect::<Vec<_>>(), [&json!({"text": "ä b"})]);
    let StubEvent::Start { argv, env, .. } = &seen.records[0].event else { panic!("{:?}", seen.records[0]) };
    assert!(argv.contains(&"mcp-stub".to_owned()));
    assert_eq!((&env["ACP_TOKEN"], &env["OTHER_A"]), (&json!("t1"), &json!("a")));
    assert!(!env.contains_key("PATH"));
    let StubEvent::Exit { reason } = &seen.records.last().unwrap().event else {
        panic!("no exit: {seen:#?}")
    };
    assert_eq!(reason, "end of input");
    assert!(seen.open_processes().is_empty());
}

#[tokio::test]
async fn a_server_that_dies_in_mid_call_is_an_error_value() {
    let folder = tempfile::tempdir().unwrap();
    let client = McpClient::connect(stub(&folder.path().join("log"), &[], &[])).await.unwrap();
    let gone = client.call("fail", json!({"kind": "exit"})).await.unwrap_err();
    assert!(matches!(gone, McpError::Gone { .. }), "{gone}");
    assert!(gone.to_string().contains("exit status: 9"), "{gone}");
    let after = client.call("ping", json!({})).await.unwrap_err();
    assert!(matches!(after, McpError::Gone { .. }), "{after}");
}

#[tokio::test]
async fn a_call_past_its_time_is_an_error_and_the_server_hears_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let options = McpOptions { call_timeout: Duration::from_secs(1), ..McpOptions::default() };
    let client = McpClient::connect_with(stub(&log, &[], &[]), options).await.unwrap();
    let late = client.call("slow", json!({"ms": 60_000})).await.unwrap_err();
    assert!(matches!(late, McpError::Timeout { .. }), "{late}");
    until(&log, |seen| {
        seen.records
            .iter()
            .any(|r| matches!(&r.event, StubEvent::ToolsDone { outcome, .. } if outcome == "cancelled"))
    })
    .await;
    assert_eq!(client.call("ping", json!({})).await.unwrap().text(), "pong");
}

#[tokio::test]
async fn a_server_that_takes_its_time_to_end_still_says_how() {
    let script = "exec >&-; sleep 0.5; echo 'no licence' >&2; exit 7";
    let args = ["-c", script].map(str::to_owned).to_vec();
    let spec = ServerSpec::Stdio { command: "sh".to_owned(), args, env: Vec::new(), cwd: None };
    match McpClient::connect(spec).await.err().expect("nobody to talk to") {
        McpError::Handshake { reason, stderr, .. } => {
            assert_eq!((reason.as_str(), stderr.trim()), ("it ended (exit status: 7)", "no licence"));
        }
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn dropping_the_client_ends_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let client = McpClient::connect(stub(&folder.path().join("log"), &[], &[])).await.unwrap();
    let process = Path::new("/proc").join(client.pid().unwrap().to_string());
    assert!(process.exists());
    drop(client);
    let began = Instant::now();
    let alive = |path: &Path| {
        let stat = std::fs::read_to_string(path.join("stat")).unwrap_or_default();
        !stat.is_empty() && !stat.contains(") Z ")
    };
    while alive(&process) {
        assert!(began.elapsed() < Duration::from_secs(60), "the server outlived its client");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn the_end_of_input_ends_the_stub_even_in_mid_call() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let client = McpClient::connect(stub(&log, &[], &[])).await.unwrap();
    let (call, ()) = tokio::join!(
        tokio::time::timeout(Duration::from_millis(200), client.call("slow", json!({"ms": 60_000}))),
        async { drop(until(&log, |seen| seen.calls("slow").count() == 1).await) }
    );
    assert!(call.is_err());
    client.close().await;
    let last = read(&log).records.pop().unwrap();
    assert_eq!(last.event, StubEvent::Exit { reason: "end of input".to_owned() });
}

#[tokio::test]
async fn two_servers_at_once_keep_apart_in_one_log() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let (one, two) = tokio::join!(
        McpClient::connect(stub(&log, &["--name", "one"], &[])),
        McpClient::connect(stub(&log, &["--name", "two"], &[]))
    );
    let (one, two) = (one.unwrap(), two.unwrap());
    let (a, b) = tokio::join!(one.call("echo", json!({"text": "a"})), two.call("echo", json!({"text": "b"})));
    assert_eq!((a.unwrap().text(), b.unwrap().text()), ("a".to_owned(), "b".to_owned()));
    tokio::join!(one.close(), two.close());
    let seen = read(&log);
    assert_eq!(seen.flaws, []);
    assert_eq!(seen.of_server("one").calls("echo").collect::<Vec<_>>(), [&json!({"text": "a"})]);
    assert_eq!(seen.of_server("two").calls("echo").collect::<Vec<_>>(), [&json!({"text": "b"})]);
}

#[tokio::test]
async fn an_http_stub_prints_its_address_and_records_headers() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let mut server = tokio::process::Command::new(env!("CARGO_BIN_EXE_acp"))
        .args(["mcp-stub", "--http", "--name", "web", "--log"])
        .arg(&log)
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).await.unwrap();
    let said: serde_json::Value = serde_json::from_str(&line).unwrap();
    let url = said["url"].as_str().unwrap().to_owned();
    assert_eq!(said["event"], "listening");

    let headers = vec![
        ("X-Acp-Test".to_owned(), "yes".to_owned()),
        ("Authorization".to_owned(), "Bearer k".to_owned()),
    ];
    let client = McpClient::connect(ServerSpec::Http { url: url.clone(), headers }).await.unwrap();
    let other = McpClient::connect(ServerSpec::Http { url, headers: vec![] }).await.unwrap();
    assert_eq!(client.identity().name, "web");
    assert_eq!(client.tools().await.unwrap().len(), 5);
    let (a, b) = tokio::join!(client.call("ping", json!({})), other.call("echo", json!({"text": "o"})));
    assert_eq!((a.unwrap().text(), b.unwrap().text()), ("pong".to_owned(), "o".to_owned()));
    let gone = client.call("fail", json!({"kind": "exit"})).await.unwrap_err();
    assert!(matches!(gone, McpError::Gone { .. } | McpError::Timeout { .. }), "{gone}");

    let seen = read(&log);
    assert_eq!(seen.count("initialize"), 2);
    let Some(StubEvent::Initialize { headers, .. }) =
        seen.records.iter().map(|r| &r.event).find(|e| matches!(e, StubEvent::Initialize { .. }))
    else {
        panic!("no initialize: {seen:#?}")
    };
    assert_eq!((&headers["x-acp-test"], &headers["authorization"]), (&json!("yes"), &json!("Bearer k")));
}

#[tokio::test]
async fn what_is_no_server_says_so_by_name() {
    let missing = |command: &str, args: &[&str]| ServerSpec::Stdio {
        command: command.to_owned(),
        args: args.iter().map(ToString::to_string).collect(),
        env: vec![],
        cwd: None,
    };
    let error = McpClient::connect(missing("/no/such/server", &[])).await.err().unwrap().to_string();
    assert!(error.starts_with("cannot start MCP server \"/no/such/server\""), "{error}");
    let error = McpClient::connect(missing("/bin/sh", &["-c", "echo boom >&2; exit 3"]))
        .await
        .err()
        .unwrap()
        .to_string();
    assert!(error.contains("exit status: 3") && error.contains("boom"), "{error}");
    let options = McpOptions { connect_timeout: Duration::from_millis(200), ..McpOptions::default() };
    let mute = missing("/bin/sh", &["-c", "exec sleep 60"]);
    let error = McpClient::connect_with(mute, options).await.err().unwrap();
    assert!(matches!(error, McpError::Timeout { .. }), "{error}");
    let nobody = ServerSpec::Http { url: "http://127.0.0.1:9/mcp".to_owned(), headers: vec![] };
    let error = McpClient::connect(nobody).await.err().unwrap().to_string();
    assert!(error.contains("127.0.0.1:9") && error.contains("refused"), "{error}");
    let wrong = ServerSpec::Http { url: "ftp://x/".to_owned(), headers: vec![] };
    assert!(matches!(McpClient::connect(wrong).await.err().unwrap(), McpError::BadAddress { .. }));
}
