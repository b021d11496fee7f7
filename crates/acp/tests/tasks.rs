//! `acp proxy --nats` and `acp tasks` from the outside: real processes, a real nats-server, `kill -9`.

#[path = "tasks/checker.rs"]
mod checker;
#[path = "tasks/faults.rs"]
mod faults;
#[path = "proxy/ops_page.rs"]
mod ops_page;
#[allow(dead_code, reason = "the other suite uses the rest")]
#[path = "../../acp-nats/tests/nats/server.rs"]
mod server;
#[allow(dead_code, reason = "the other suite uses the rest")]
#[path = "../../acp-nats/tests/nats/story.rs"]
mod story;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use acp_nats::payload::{Prompt, Task, TaskResult};
use acp_nats::{Access, Subjects, TaskClient, TaskProgress};
use acp_proxy::ProxyLog;
use acp_proxy::event::{Body, Event};
use acp_testkit::live;
use server::{PATIENCE, Server};

/// The program under test.
const ACP: &str = env!("CARGO_BIN_EXE_acp");

/// A folder with everything of one test in it.
struct Place {
    _temp: tempfile::TempDir,
    path: PathBuf,
    server: Server,
}

impl Place {
    fn new() -> Place {
        let temp = tempfile::tempdir().expect("a folder");
        let path = temp.path().canonicalize().expect("a real path");
        Place { _temp: temp, path, server: Server::start() }
    }

    /// A proxy with the mock, whose sessions all proxies of this place share.
    fn proxy(&self, spool: &str, args: &[&str]) -> Proxy {
        let agent = format!("{ACP} mock --stdio --state-dir {}", self.path.join("state").display());
        self.proxy_of(live::heeding_signals(ACP), &agent, spool, args)
    }

    /// A proxy with any agent, by any command that goes on with its arguments.
    fn proxy_of(&self, mut command: Command, agent: &str, spool: &str, args: &[&str]) -> Proxy {
        let spool = self.path.join(spool);
        let [stdout, stderr] = ["stdout", "stderr"].map(|end| spool.with_extension(end));
        let process = command
            .args(["proxy", "--nats", &self.server.url(), "--queue", "mock", "--command", agent])
            .args(["--no-aggregate", "--ack-wait", "2s", "--lost-after", "2s", "--no-journal", "--spool"])
            .arg(&spool)
            .args(args)
            .current_dir(&self.path)
            .stdin(Stdio::null())
            .stdout(std::fs::File::create(&stdout).expect("a file"))
            .stderr(std::fs::File::create(&stderr).expect("a file"))
            .spawn()
            .expect("acp runs");
        Proxy { process, spool, stdout, stderr }
    }

    fn tasks(&self, args: &[&str]) -> Output {
        self.tasks_command(args).output().expect("acp runs")
    }

    fn tasks_command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(ACP);
        command.arg("tasks").args(args).env("ACP_NATS", self.server.url()).env_remove("TRACEPARENT");
        command
    }

    /// Waits until a permission request of this task is open.
    fn wait_for_request(&self, task: &str) {
        let began = Instant::now();
        while !String::from_utf8_lossy(&self.tasks(&["approve", "--list"]).stdout).contains(task) {
            assert!(began.elapsed() < PATIENCE, "{task} asks nothing");
        }
    }

    /// Submits once there is a queue.
    fn submit(&self, args: &[&str]) {
        let began = Instant::now();
        loop {
            let done = self.tasks(&[&["submit", "mock"], args].concat());
            if done.status.success() {
                return;
            }
            let said = String::from_utf8_lossy(&done.stderr).into_owned();
            assert!(said.contains("there is no stream") && began.elapsed() < PATIENCE, "{said}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    async fn client(&self) -> TaskClient {
        let access = Access { url: self.server.url(), ..Access::default() };
        TaskClient::connect(&access, Subjects::default(), &ProxyLog::current()).await.expect("a connection")
    }

    /// The processes of agents of this place.
    fn agents(&self) -> Vec<u32> {
        let found = live::marked(&self.path.join("state").display().to_string()).into_iter();
        found
            .filter(|(_, line)| !line.contains(" proxy ") && !line.contains("__supervise"))
            .map(|(pid, _)| pid)
            .collect()
    }
}

struct Proxy {
    process: Child,
    spool: PathBuf,
    stdout: PathBuf,
    stderr: PathBuf,
}

impl Proxy {
    fn kill(&mut self) {
        self.process.kill().expect("it was running");
        self.process.wait().expect("it has ended");
    }

    fn signal(&self, signal: &str) {
        live::signal(self.process.id(), signal);
    }

    fn wait(&mut self) -> Option<i32> {
        live::exit_code(&mut self.process)
    }

    /// Where its numbers are: what it says first, to programs.
    fn ops(&self) -> std::net::SocketAddr {
        let began = Instant::now();
        loop {
            let text = std::fs::read_to_string(&self.stdout).unwrap_or_default();
            if text.ends_with('\n') {
                let told: serde_json::Value = serde_json::from_str(&text).expect("one line of JSON");
                return told["ops"].as_str().and_then(|ops| ops.parse().ok()).expect("an address");
            }
            assert!(began.elapsed() < PATIENCE, "nothing was announced: {}", self.said());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn said(&self) -> String {
        std::fs::read_to_string(&self.stderr).unwrap_or_default()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// What a program says that has to end by itself.
async fn output(command: Command) -> Output {
    let mut command = tokio::process::Command::from(command);
    within(command.kill_on_drop(true).output()).await.expect("it runs")
}

async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("in time")
}

async fn session_of(client: &TaskClient, task: &str) -> String {
    let mut progress = within(client.follow(task)).await.expect("a stream");
    loop {
        if let Some(TaskProgress::Status(status)) = within(progress.recv()).await
            && let Some(session) = status.session
        {
            return session;
        }
    }
}

async fn result(client: &TaskClient, task: &str) -> TaskResult {
    let mut progress = within(client.follow(task)).await.expect("a stream");
    loop {
        if let Some(TaskProgress::Ended(result)) = within(progress.recv()).await {
            return *result;
        }
    }
}

/// The session's events until `enough`.
async fn events(client: &TaskClient, session: &str, mut enough: impl FnMut(&[Event]) -> bool) -> Vec<Event> {
    let mut events = within(client.events(session, None)).await.expect("a stream");
    let mut story = Vec::new();
    while !enough(&story) {
        story.push(within(events.recv()).await.expect("more").expect("an event").1);
    }
    story::check(&story);
    story
}

fn chunks(story: &[Event]) -> usize {
    story.iter().filter(|event| matches!(event.body, Body::Text(_))).count()
}

fn turns(story: &[Event]) -> usize {
    story.iter().filter(|event| matches!(event.body, Body::TurnStart(_))).count()
}

/// The events that lie in a spool.
fn spooled(spool: &Path) -> Vec<Event> {
    let files = std::fs::read_dir(spool).expect("a spool").flatten().map(|file| file.path());
    let files = files.filter(|path| path.extension().is_some_and(|end| end == "ndjson"));
    let text = files.map(|path| std::fs::read_to_string(path).expect("text")).collect::<String>();
    text.split_inclusive('\n')
        .filter(|line| line.ends_with('\n'))
        .map(|line| Event::parse(line.as_bytes()).expect("an event"))
        .collect()
}

/// Numbers from one on, one after another.
fn assert_counts(text: &str) {
    let numbers = text.split_whitespace().map(|word| word.parse::<u32>().expect("a number"));
    assert!(numbers.eq(1..=u32::try_from(text.split_whitespace().count()).expect("few")), "{text}");
}

#[tokio::test]
async fn the_task_of_a_lost_proxy_is_answered_by_another_which_loads_its_session() {
    if server::left_out() {
        return;
    }
    let place = Place::new();
    let mut lost = place.proxy("one", &[]);
    place.submit(&["Count slowly to 300", "--id", "long"]);
    let client = place.client().await;
    let session = session_of(&client, "long").await;
    events(&client, &session, |story| chunks(story) >= 3).await;
    let other = place.proxy("two", &[]);
    lost.kill();
    let ended = result(&client, "long").await;
    assert_eq!(ended.stop_reason, "interrupted", "{}", other.said());
    place.submit(&["Count slowly to 2", "--id", "more", "--session", &session]);
    assert_eq!(result(&client, "more").await.stop_reason, "end_turn", "{}", other.said());
    let story = events(&client, &session, |story| story::ends(story).len() == 2).await;
    assert_eq!(turns(&story), 2, "each task was prompted once");
    assert!(
        story
            .iter()
            .any(|event| matches!(&event.body, Body::Session(opened) if opened.method == "session/load"))
    );
}

#[tokio::test]
async fn people_and_scripts_submit_watch_approve_and_cancel() {
    if server::left_out() {
        return;
    }
    let place = Place::new();
    let none = place.tasks(&["submit", "mock", "hello"]);
    assert_eq!(none.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&none.stderr).contains("no proxy has worked on this NATS yet"));
    let proxy = place.proxy("one", &["--ask-hold"]);
    place.submit(&["Count slowly to 3", "--id", "three"]);
    let watched = place.tasks(&["watch", "three"]);
    assert_eq!(watched.status.code(), Some(0), "{}", proxy.said());
    assert_eq!(String::from_utf8_lossy(&watched.stdout).trim(), "1 2 3");
    let twice = place.tasks(&["submit", "mock", "again", "--id", "three"]);
    assert_eq!(twice.status.code(), Some(2), "{}", String::from_utf8_lossy(&twice.stderr));

    let json = place.tasks(&["submit", "mock", "Count slowly to 2", "--watch", "--json"]);
    let lines: Vec<serde_json::Value> = String::from_utf8_lossy(&json.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).expect("a line of JSON"))
        .collect();
    let (first, last) = (&lines[0], &lines[lines.len() - 1]);
    assert_eq!((first["kind"].as_str(), last["kind"].as_str()), (Some("submitted"), Some("result")));
    assert_eq!(last["data"]["stopReason"], "end_turn");

    // A request that is open, by its id.
    place.submit(&["Run the command echo hello", "--id", "asks"]);
    let began = Instant::now();
    let open = loop {
        let listed = place.tasks(&["approve", "--list", "--json"]);
        if let Some(line) = String::from_utf8_lossy(&listed.stdout).lines().next() {
            break serde_json::from_str::<serde_json::Value>(line).expect("JSON");
        }
        assert!(began.elapsed() < PATIENCE, "nothing is asked: {}", proxy.said());
    };
    assert_eq!(open["task"], "asks");
    let id = open["id"].as_str().expect("an id");
    let allowed = place.tasks(&["approve", &id[..8], "--allow"]);
    assert_eq!(allowed.status.code(), Some(0), "{}", String::from_utf8_lossy(&allowed.stderr));
    assert_eq!(place.tasks(&["watch", "asks"]).status.code(), Some(0));
    assert_eq!(place.tasks(&["approve", "nonsense", "--allow"]).status.code(), Some(2));
    assert_eq!(place.tasks(&["approve"]).status.code(), Some(2), "there is no terminal to ask at");

    // One that is open before anybody is there to answer, and one by its task.
    place.submit(&["Run the command echo hello", "--id", "early"]);
    place.wait_for_request("early");
    let early = place.tasks(&["approve", "--allow", "--count", "1"]);
    assert_eq!(early.status.code(), Some(0), "{}", String::from_utf8_lossy(&early.stderr));
    assert_eq!(place.tasks(&["watch", "early"]).status.code(), Some(0));
    place.submit(&["Run the command echo hello", "--id", "by-task"]);
    place.wait_for_request("by-task");
    let by_task = place.tasks(&["approve", "by-task", "--allow"]);
    assert_eq!(by_task.status.code(), Some(0), "{}", String::from_utf8_lossy(&by_task.stderr));
    assert_eq!(place.tasks(&["watch", "by-task"]).status.code(), Some(0));

    // A turn that runs.
    place.submit(&["Count slowly to 300", "--id", "long"]);
    session_of(&place.client().await, "long").await;
    let mut cancelled = place.tasks(&["cancel", "long", "--json"]);
    while !cancelled.status.success() && began.elapsed() < PATIENCE {
        // It is claimed, and the prompt is on its way.
        cancelled = place.tasks(&["cancel", "long", "--json"]);
    }
    assert_eq!(String::from_utf8_lossy(&cancelled.stdout).trim(), r#"{"task":"long","cancelled":"turn"}"#);
    assert_eq!(place.tasks(&["watch", "long"]).status.code(), Some(1));
    assert_eq!(place.tasks(&["cancel", "long"]).status.code(), Some(1), "too late");
}

#[tokio::test]
async fn a_proxy_that_is_terminated_cancels_its_tasks_and_leaves_no_process() {
    stopped_in_mid_turn("-TERM").await;
}

#[tokio::test]
async fn a_proxy_that_is_interrupted_cancels_its_tasks_and_leaves_no_process() {
    stopped_in_mid_turn("-INT").await;
}

async fn stopped_in_mid_turn(signal: &str) {
    if server::left_out() {
        return;
    }
    let place = Place::new();
    let mut proxy = place.proxy("one", &["--task-grace", "3s"]);
    place.submit(&["Count slowly to 900", "--id", "long"]);
    let client = place.client().await;
    let session = session_of(&client, "long").await;
    events(&client, &session, |story| chunks(story) >= 3).await;
    proxy.signal(signal);
    // What waits in the queue is for the next proxy.
    place.submit(&["Count slowly to 2", "--id", "next"]);
    assert_eq!(proxy.wait(), Some(0), "{}", proxy.said());
    assert_eq!(place.agents(), Vec::<u32>::new());
    assert_eq!(result(&client, "long").await.stop_reason, "cancelled");
    let story =
        events(&client, &session, |story| matches!(story.last(), Some(Event { body: Body::Closed(_), .. })))
            .await;
    assert_counts(&story::text_of(&story).0);
    assert!(spooled(&proxy.spool).is_empty(), "all of it was stored");
    assert!(client.status("next").await.expect("an answer").is_none());
    let _next = place.proxy("one", &[]);
    assert_eq!(result(&client, "next").await.stop_reason, "end_turn");
}

#[tokio::test]
async fn a_task_chooses_neither_programs_nor_who_is_told() {
    if server::left_out() {
        return;
    }
    let place = Place::new();
    let _proxy = place.proxy("one", &[]);
    place.submit(&["Say hello", "--id", "first"]);
    let client = place.client().await;
    let script = format!("touch {}/pwned", place.path.display());
    let server = serde_json::json!({ "name": "x", "command": "sh", "args": ["-c", script], "env": [] });
    let plain = Task {
        v: 1,
        id: "tools".to_owned(),
        prompt: Prompt::Text("Say hello".to_owned()),
        session: None,
        cwd: None,
        mcp_servers: Vec::new(),
        reply_to: None,
    };
    let orders = Task { id: "orders".to_owned(), reply_to: Some("orders.new".to_owned()), ..plain.clone() };
    let mcp_servers = vec![serde_json::value::to_raw_value(&server).expect("JSON")];
    for (task, flag) in [(Task { mcp_servers, ..plain }, "--task-mcp"), (orders, "--reply-to")] {
        client.submit("mock", &task, None).await.expect("submitted");
        let ended = result(&client, &task.id).await;
        let error = ended.error.map(|error| error.get().to_owned()).unwrap_or_default();
        assert!(ended.stop_reason == "rejected" && error.contains(flag), "{} {error}", ended.stop_reason);
    }
    assert!(!place.path.join("pwned").exists());
}

#[tokio::test]
async fn operators_see_what_nats_does_and_any_session_is_cancelled_by_hand() {
    if server::left_out() {
        return;
    }
    let mut place = Place::new();
    let listen = ["--listen", "tcp://127.0.0.1:0", "--ops", "127.0.0.1:0", "--policy", "read"];
    let proxy = place.proxy("one", &listen);
    let ops = proxy.ops();
    place.submit(&["Run the command echo hello", "--id", "denied"]);
    let shown = place.tasks(&["watch", "denied"]);
    let text = String::from_utf8_lossy(&shown.stdout);
    assert!(text.contains("asks for permission"), "{text}");
    assert!(
        text.contains("the policy answers: reject-once (policy read denies execute operations"),
        "{text}"
    );
    // A client of the relay, whose turn somebody else cancels.
    let stdout = std::fs::read_to_string(&proxy.stdout).expect("what it announced");
    let told: serde_json::Value = serde_json::from_str(&stdout).expect("JSON");
    let address = format!("tcp://{}", told["listening"].as_str().expect("an address"));
    let talking = Command::new(ACP)
        .args(["prompt", "Count slowly to 900", "--connect", &address, "--json"])
        .current_dir(&place.path)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("acp runs");
    let began = Instant::now();
    let number = |name: &str| ops_page::numbers(ops).get(name).copied().unwrap_or_default();
    while number("acp_proxy_turns_running") < 1.0 {
        assert!(began.elapsed() < PATIENCE, "{}", proxy.said());
        std::thread::sleep(Duration::from_millis(20));
    }
    let said = proxy.said();
    let session =
        said.rsplit_once("turn begins (").and_then(|(_, rest)| rest.split_once(')')).expect("a turn").0;
    let cancelled = place.tasks(&["cancel", "--session", session]);
    assert_eq!(cancelled.status.code(), Some(0), "{}", String::from_utf8_lossy(&cancelled.stderr));
    let talked = talking.wait_with_output().expect("it ends");
    let talked = String::from_utf8_lossy(&talked.stdout).into_owned();
    assert!(talked.contains("cancelled"), "{talked}");
    let unknown = place.tasks(&["cancel", "nonsense"]);
    assert_eq!(unknown.status.code(), Some(2), "{}", String::from_utf8_lossy(&unknown.stderr));
    assert_eq!((number("acp_nats_ready"), number("acp_nats_tasks_total")), (1.0, 1.0));
    assert!(number("acp_nats_events_stored_total") > 5.0);
    place.server.kill();
    while ops_page::get(ops, "/readyz").0 != 503 {
        assert!(began.elapsed() < PATIENCE, "it is still ready");
    }
    while !ops_page::get(ops, "/readyz").1.contains("NATS cannot be reached: IO error: Connection refused") {
        assert!(began.elapsed() < PATIENCE, "{:?}", ops_page::get(ops, "/readyz"));
    }
    assert_eq!((number("acp_nats_ready"), ops_page::get(ops, "/healthz").0), (0.0, 200));
}

#[test]
fn what_is_wrong_with_nats_is_said_before_anything_is_served() {
    if server::left_out() {
        return;
    }
    let run = |args: &[&str]| Command::new(ACP).args(args).stdin(Stdio::null()).output().expect("acp runs");
    let nowhere = run(&["tasks", "watch", "t", "--nats", "nats://127.0.0.1:1"]);
    assert_eq!(nowhere.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&nowhere.stderr).contains("is nats-server running there"));
    let spool = tempfile::tempdir().expect("a folder");
    let spool = spool.path().display().to_string();
    let creds = [
        "proxy",
        "--agent",
        "mock",
        "--nats",
        "nats://127.0.0.1:1",
        "--nats-creds",
        "/no/such",
        "--spool",
        &spool,
    ];
    let no_creds = run(&creds);
    assert_eq!(no_creds.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&no_creds.stderr).contains("/no/such"));
    let nobody = run(&["proxy", "--agent", "mock", "--listen", "none"]);
    assert!(!nobody.status.success());
    assert!(String::from_utf8_lossy(&nobody.stderr).contains("--nats"));
}

#[tokio::test]
async fn the_address_for_acp_tasks_puts_no_proxy_on_nats() {
    let folder = tempfile::tempdir().expect("a folder");
    let hello = folder.path().join("hello");
    let line = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}"#;
    std::fs::write(&hello, format!("{line}\n")).expect("a file");
    let mut proxy = Command::new(ACP);
    proxy.args(["proxy", "--agent", "mock", "--no-journal"]).env("ACP_NATS", "nats://127.0.0.1:1");
    proxy.stdin(std::fs::File::open(&hello).expect("a file")).stdout(Stdio::piped()).stderr(Stdio::piped());
    let served = output(proxy).await;
    let [said, told] = [&served.stdout, &served.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(said.contains("protocolVersion"), "whoever starts it is served: {said}{told}");
    assert!(told.contains("ACP_NATS is for acp tasks"), "{told}");
    assert_eq!(served.status.code(), Some(0));
}
