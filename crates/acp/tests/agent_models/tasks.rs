//! Small coding tasks with a model whose decisions are fixed: `bench/tasks/*.json` over the folders in `bench/repos`. What is
//! tested is the agent's own part: the files end as wanted, every result of a tool reaches the model, nobody is asked the same
//! thing twice, and the turn ends with words to the person.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use serde::Deserialize;
use serde_json::{Value, json};

use crate::driver::{Agent, KEY, Model};

/// A task as its file has it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Task {
    /// What it is about, for people.
    #[expect(dead_code, reason = "for the readers of the file")]
    about: String,
    /// A folder of `bench/repos`.
    repo: String,
    /// The person's words.
    prompt: String,
    /// What the model decides: the actions of a rule of `acp model`.
    r#do: Value,
    /// How many tools it calls.
    calls: usize,
    /// How often the person is asked for permission.
    permissions: usize,
    /// How many of the calls fail.
    #[serde(default)]
    failed: usize,
    /// The kind of option that the person takes.
    #[serde(default = "once")]
    permit: String,
    /// Further flags of the agent.
    #[serde(default)]
    flags: Vec<String>,
    /// The files that are not as they were.
    files: BTreeMap<String, Wanted>,
    /// What the model hears from tools.
    #[serde(default)]
    told: Vec<String>,
    /// What the model hears before the conversation.
    #[serde(default)]
    system: Vec<String>,
    /// What the person hears in the end.
    says: Vec<String>,
}

fn once() -> String {
    "allow_once".to_owned()
}

/// What a file holds in the end.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    is: Option<String>,
    #[serde(default)]
    contains: Vec<String>,
    #[serde(default)]
    lacks: Vec<String>,
}

fn bench() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/agent_models/bench")
}

#[test]
fn twenty_small_tasks_end_as_wanted() {
    let mut tasks: Vec<PathBuf> = fs::read_dir(bench().join("tasks"))
        .expect("tasks")
        .map(|entry| entry.expect("a task").path())
        .collect();
    tasks.sort();
    assert!(tasks.len() >= 20, "{} tasks", tasks.len());
    let lost: Vec<String> = tasks
        .iter()
        .filter_map(|path| {
            let text = fs::read_to_string(path).expect("a task");
            let task: Task = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{path:?}: {error}"));
            let flaws = flaws(&task);
            (!flaws.is_empty()).then(|| format!("{}: {}", path.display(), flaws.join("\n  ")))
        })
        .collect();
    assert!(lost.is_empty(), "{} of {} tasks are lost:\n{}", lost.len(), tasks.len(), lost.join("\n"));
}

/// Plays a task and says what went wrong.
fn flaws(task: &Task) -> Vec<String> {
    let folder = tempfile::tempdir().expect("a folder");
    let work = folder.path().join("work");
    let source = bench().join("repos").join(&task.repo);
    copy(&source, &work);
    let model = Model::start(folder.path(), &json!([{ "when": ".", "do": task.r#do }]));
    let tap = Tap::before(&model.url);
    let path = work.display().to_string();
    let mut flags =
        vec!["--provider", "openai-chat", "--model", "m", "--allow-edit", "--no-state", "--path", &path];
    flags.extend(task.flags.iter().map(String::as_str));
    let mut agent = Agent::start(&flags, &[("OPENAI_API_KEY", KEY), ("OPENAI_BASE_URL", &tap.url)]);
    agent.permit = if task.permit == "reject_once" { "reject_once" } else { "allow_once" };
    let session = agent.session(&work);
    let answer = agent.prompt(&session, &task.prompt);
    let mut flaws = Vec::new();
    if answer["result"]["stopReason"] != "end_turn" {
        flaws.push(format!("the turn ended with {answer}"));
    }
    flaws.extend(wrong_files(task, &source, &work));
    flaws.extend(wrong_calls(task, &agent));
    flaws.extend(wrong_words(task, &agent));
    flaws.extend(wrong_questions(task, &agent, &tap.bodies()));
    flaws
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder").map(|entry| entry.expect("an entry")) {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() {
            copy(&from, &to);
        } else {
            fs::copy(&from, &to).expect("a copy");
        }
    }
}

/// All files below a folder, by their paths.
fn files(folder: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut open = vec![folder.to_owned()];
    while let Some(at) = open.pop() {
        for path in fs::read_dir(at).expect("a folder").map(|entry| entry.expect("an entry").path()) {
            if path.is_dir() {
                open.push(path);
            } else {
                let name = path.strip_prefix(folder).expect("below it").display().to_string();
                found.insert(name, fs::read_to_string(&path).expect("a text"));
            }
        }
    }
    found
}

fn wrong_files(task: &Task, source: &Path, work: &Path) -> Vec<String> {
    let (before, after) = (files(source), files(work));
    let mut flaws = Vec::new();
    let changed = |name: &&String| before.get(*name) != after.get(*name);
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    for name in names.into_iter().filter(changed).filter(|name| !task.files.contains_key(*name)) {
        flaws.push(format!("{name} was changed"));
    }
    for (name, wanted) in &task.files {
        let Some(text) = after.get(name) else {
            flaws.push(format!("{name} is not there"));
            continue;
        };
        if wanted.is.as_ref().is_some_and(|is| is != text) {
            flaws.push(format!("{name} is {text:?}"));
        }
        for part in wanted.contains.iter().filter(|part| !text.contains(*part)) {
            flaws.push(format!("{name} lacks {part:?}: {text}"));
        }
        for part in wanted.lacks.iter().filter(|part| text.contains(*part)) {
            flaws.push(format!("{name} still has {part:?}"));
        }
    }
    flaws
}

fn wrong_calls(task: &Task, agent: &Agent) -> Vec<String> {
    let mut flaws = Vec::new();
    let made = agent.updates_of("tool_call").count();
    let ended = |status: &str| {
        agent.updates_of("tool_call_update").filter(|update| update["status"] == status).count()
    };
    let (completed, failed) = (ended("completed"), ended("failed"));
    if (made, failed) != (task.calls, task.failed) || completed + failed != made {
        let why: Vec<String> = agent
            .updates_of("tool_call_update")
            .filter(|update| update["status"] == "failed")
            .map(|update| update["content"].to_string())
            .collect();
        flaws.push(format!("{made} calls, {completed} completed, {failed} failed: {why:?}"));
    }
    let asked: Vec<&Value> =
        agent.heard.iter().filter(|frame| frame["method"] == "session/request_permission").collect();
    let calls: BTreeSet<String> =
        asked.iter().map(|frame| frame["params"]["toolCall"]["toolCallId"].to_string()).collect();
    if asked.len() != task.permissions || calls.len() != asked.len() {
        flaws.push(format!("the person was asked {} times about {} calls", asked.len(), calls.len()));
    }
    flaws
}

fn wrong_words(task: &Task, agent: &Agent) -> Vec<String> {
    let kinds: Vec<&str> = agent
        .heard
        .iter()
        .filter_map(|frame| frame["params"]["update"]["sessionUpdate"].as_str())
        .filter(|kind| ["tool_call", "tool_call_update", "agent_message_chunk"].contains(kind))
        .collect();
    let mut flaws = Vec::new();
    if kinds.last() != Some(&"agent_message_chunk") {
        flaws.push("the turn did not end with words".to_owned());
    }
    let said = agent.text_of("agent_message_chunk");
    for part in task.says.iter().filter(|part| !said.contains(*part)) {
        flaws.push(format!("the person did not hear {part:?} in {said:?}"));
    }
    flaws
}

/// What the model was asked: every result once the call has ended, and no question twice.
fn wrong_questions(task: &Task, agent: &Agent, asked: &[Value]) -> Vec<String> {
    let mut flaws = Vec::new();
    let different: BTreeSet<String> = asked.iter().map(Value::to_string).collect();
    if different.len() != asked.len() {
        flaws.push(format!(
            "{} questions to the model, only {} different ones",
            asked.len(),
            different.len()
        ));
    }
    let messages = || asked.iter().flat_map(|body| body["messages"].as_array().into_iter().flatten());
    let results: BTreeMap<&str, &str> = messages()
        .filter(|message| message["role"] == "tool")
        .filter_map(|message| Some((message["tool_call_id"].as_str()?, message["content"].as_str()?)))
        .collect();
    for call in agent.updates_of("tool_call") {
        let id = call["toolCallId"].as_str().unwrap_or_default();
        if results.get(id).is_none_or(|text| text.is_empty()) {
            flaws.push(format!("the result of {} did not reach the model", call["title"]));
        }
    }
    for part in task.told.iter().filter(|part| !results.values().any(|text| text.contains(*part))) {
        flaws.push(format!("no result told the model {part:?}: {results:#?}"));
    }
    let system: String = messages()
        .filter(|message| message["role"] == "system")
        .filter_map(|message| message["content"].as_str())
        .collect();
    for part in task.system.iter().filter(|part| !system.contains(*part)) {
        flaws.push(format!("the model was not told {part:?} from the start"));
    }
    flaws
}

/// The bytes of each connection.
type Heard = Arc<Mutex<Vec<Arc<Mutex<Vec<u8>>>>>>;

/// Stands before the model and keeps what it is asked.
struct Tap {
    url: String,
    heard: Heard,
}

impl Tap {
    fn before(url: &str) -> Self {
        let address = url.trim_start_matches("http://").to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let own = format!("http://{}", listener.local_addr().expect("an address"));
        let heard = Heard::default();
        let kept = heard.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Ok(server) = TcpStream::connect(&address) else { return };
                let bytes: Arc<Mutex<Vec<u8>>> = Arc::default();
                kept.lock().expect("nobody panicked").push(bytes.clone());
                let (back, forth) =
                    (server.try_clone().expect("a socket"), client.try_clone().expect("a socket"));
                std::thread::spawn(move || {
                    pass(client, server, |piece| bytes.lock().expect("nobody panicked").extend(piece));
                });
                std::thread::spawn(move || pass(back, forth, |_| {}));
            }
        });
        Self { url: own, heard }
    }

    /// The JSON of every question, in order.
    fn bodies(&self) -> Vec<Value> {
        let heard = self.heard.lock().expect("nobody panicked");
        let streams = heard.iter().map(|stream| stream.lock().expect("nobody panicked").clone());
        streams.flat_map(|bytes| requests(&bytes)).collect()
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, keep: impl Fn(&[u8])) {
    let mut buffer = [0; 16 << 10];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        keep(&buffer[..count]);
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

/// The bodies of the requests on one connection.
fn requests(mut bytes: &[u8]) -> Vec<Value> {
    let mut bodies = Vec::new();
    while let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
        let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
        let length: usize = length.and_then(|length| length.trim().parse().ok()).unwrap_or(0);
        let body = &bytes[end + 4..(end + 4 + length).min(bytes.len())];
        if let Ok(body) = serde_json::from_slice(body) {
            bodies.push(body);
        }
        bytes = &bytes[(end + 4 + length).min(bytes.len())..];
    }
    bodies
}
