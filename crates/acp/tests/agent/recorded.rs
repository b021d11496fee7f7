//! The turns that the manual shows are what the agent says: recorded here, and compared with the manual.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value, json};

use crate::talk::{Place, Talk};

const QUESTION: &str = "How does authentication work in this codebase?";
/// A longer text is shown by its beginning.
const LONGEST: usize = 60;
/// Of messages that come in a row, so many chunks are shown.
const CHUNKS: usize = 2;

/// How well a result fits, which changes with the ranking.
static SCORE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"  \d+\.\d\d\n").expect("a pattern"));

/// A form of the protocol: the manual's name for it, flags, and the requests of a turn. `$CWD` and `$SESSION` stand for
/// what a client would put there.
struct Form {
    name: &'static str,
    flags: &'static [&'static str],
    requests: Vec<(&'static str, Value)>,
    /// Whether the answers to the greeting are shown too.
    greets: bool,
}

fn forms() -> Vec<Form> {
    let prompt = json!({ "sessionId": "$SESSION", "prompt": [{ "type": "text", "text": QUESTION }] });
    let v1 = vec![
        ("initialize", json!({ "protocolVersion": 1, "clientCapabilities": {} })),
        ("session/new", json!({ "cwd": "$CWD", "mcpServers": [] })),
        ("session/prompt", prompt.clone()),
    ];
    let probe = vec![
        ("initialize", json!({ "protocolVersion": "1" })),
        ("newSession", json!({})),
        ("prompt", json!({ "sessionId": "$SESSION", "message": QUESTION })),
    ];
    let content = json!([{ "type": "text", "text": QUESTION }]);
    let v2025 = vec![
        (
            "initialize",
            json!({ "protocol_version": "2025.1", "working_directory": "$CWD", "capabilities": {} }),
        ),
        ("session/new", json!({ "session_id": "mine" })),
        ("session/prompt", json!({ "session_id": "mine", "content": content })),
    ];
    let delta = vec![
        ("initialize", json!({ "protocolVersion": "2025-01-01" })),
        ("session/new", json!({ "workDir": "$CWD" })),
        ("session/prompt", prompt),
    ];
    let form = |name, requests| Form { name, flags: &[], requests, greets: false };
    vec![
        form("v1", v1.clone()),
        Form { greets: true, ..form("probe", probe) },
        form("2025.1", v2025),
        Form { flags: &["--dialect", "go"], ..form("go", v1) },
        form("delta", delta),
    ]
}

/// Ids, times and folders in the order in which they come, so that every recording is the same.
#[derive(Default)]
struct Names {
    known: BTreeMap<String, String>,
    counts: BTreeMap<&'static str, usize>,
}

impl Names {
    fn of(&mut self, kind: &'static str, id: &str) -> String {
        if let Some(known) = self.known.get(id) {
            return known.clone();
        }
        let count = self.counts.entry(kind).or_default();
        *count += 1;
        let name = format!("{kind}_{count}");
        self.known.insert(id.to_owned(), name.clone());
        name
    }

    /// A value as the manual shows it.
    fn shown(&mut self, value: &Value, work: &str) -> Value {
        match value {
            Value::Object(fields) => {
                let mut shown = Map::new();
                for (key, value) in fields {
                    let value = match (key.as_str(), value) {
                        ("jsonrpc" | "_meta", _) => continue,
                        ("sessionId", Value::String(id)) => json!(self.of("sess", id)),
                        ("toolCallId", Value::String(id)) => json!(self.of("call", id)),
                        ("messageId", Value::String(id)) => json!(self.of("msg", id)),
                        ("id", Value::String(id)) if id.starts_with("call") => json!(self.of("call", id)),
                        ("createdAt" | "timestamp", _) => json!("2026-01-15T10:30:00Z"),
                        ("score", _) => json!(1.18),
                        ("startTime", _) => json!(1_768_473_000_000_u64),
                        (_, value) => self.shown(value, work),
                    };
                    shown.insert(key.clone(), value);
                }
                Value::Object(shown)
            }
            Value::Array(items) => items.iter().map(|item| self.shown(item, work)).collect(),
            Value::String(text) => {
                let text = SCORE.replace_all(&text.replace(work, "/home/me/shop"), "  1.18\n").into_owned();
                match text.char_indices().nth(LONGEST) {
                    Some((end, _)) if text != QUESTION => json!(format!("{}…", &text[..end])),
                    _ => json!(text),
                }
            }
            other => other.clone(),
        }
    }
}

/// Whether it is a piece of what the agent says.
fn is_chunk(frame: &Value) -> bool {
    let kind = frame["params"]["update"]["sessionUpdate"].as_str().or(frame["params"]["type"].as_str());
    kind == Some("agent_message_chunk")
        || matches!(frame["method"].as_str(), Some("messageChunk" | "assistant.message_delta"))
}

/// What a client is told without having asked: which commands there are, and what the session is called.
fn is_greeting(frame: &Value) -> bool {
    let text = frame["params"].to_string();
    ["available_commands_update", "session_info_update"].iter().any(|kind| text.contains(kind))
}

fn record(form: &Form, place: &Place) -> String {
    let work = place.work().canonicalize().expect("a folder").display().to_string();
    let flags: Vec<&str> = ["--path", &work, "--no-state"].iter().chain(form.flags).copied().collect();
    let mut command = std::process::Command::new(crate::talk::ACP);
    command.arg("agent").args(&flags).env_remove("DEBUG");
    let mut talk = Talk::start(command);
    let (mut names, mut session) = (Names::default(), String::new());
    let mut shown = String::new();
    let mut line = |arrow: &str, value: &Value| shown.push_str(&format!("{arrow} {value}\n"));
    for (at, (method, params)) in form.requests.iter().enumerate() {
        let last = at + 1 == form.requests.len();
        let text = params.to_string().replace("$CWD", &work).replace("$SESSION", &session);
        let params: Value = serde_json::from_str(&text).expect("JSON");
        let from = talk.heard.len();
        let answer = talk.ask(method, &params);
        let result = &answer["result"];
        session = result["sessionId"].as_str().map_or(session, str::to_owned);
        let request = json!({ "id": answer["id"], "method": method, "params": params });
        line("→", &names.shown(&request, &work));
        if !last && !form.greets {
            line("←", &json!({ "id": answer["id"], "result": "{…}" }));
            continue;
        }
        let mut row = 0;
        for frame in talk.heard[from..].iter().filter(|frame| !is_greeting(frame)) {
            let frame_shown = names.shown(frame, &work);
            row = if is_chunk(frame) { row + 1 } else { 0 };
            match row {
                row if row <= CHUNKS => line("←", &frame_shown),
                row if row == CHUNKS + 1 => line(" ", &json!("[…]")),
                _ => {}
            }
        }
    }
    assert_eq!(talk.end().0, Some(0));
    shown.replace("\"{…}\"", "{…}").replace("  \"[…]\"", "  […]")
}

#[test]
fn the_manual_shows_a_turn_in_each_form_as_it_is() {
    let place = Place::new();
    std::fs::create_dir(place.work().join("src")).expect("a folder");
    let code = "/// Whether this person may enter.\npub fn authenticate(name: &str, token: &str) -> bool {\n    \
                name == \"me\" && token == \"sesame\"\n}\n";
    std::fs::write(place.work().join("src/auth.rs"), code).expect("a file");
    let manual = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/agent.md");
    let mut text = std::fs::read_to_string(&manual).expect("the manual");
    for form in forms() {
        let recorded = record(&form, &place);
        let heading = format!("**{}** (", form.name);
        let at = text.find(&heading).unwrap_or_else(|| panic!("docs/agent.md lacks {heading}"));
        let begin = at + text[at..].find("```text\n").expect("a turn") + "```text\n".len();
        let end = begin + text[begin..].find("\n```\n").expect("its end") + 1;
        text.replace_range(begin..end, &recorded);
    }
    acp_testkit::golden::check_file(manual, &text);
}
