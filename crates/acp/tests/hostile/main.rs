//! Hostile text in every string of every message, into every command on a pseudo-terminal: nothing of it steers the
//! terminal, hides, or begins a line of its own where one line is expected.

mod made;
#[path = "../../../acp-nats/tests/nats/server.rs"]
#[allow(dead_code, reason = "the other suite uses the rest")]
mod server;
#[path = "../talk/terminal.rs"]
#[allow(dead_code, reason = "the other suite uses the rest")]
mod terminal;

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use terminal::Terminal;

const ACP: &str = env!("CARGO_BIN_EXE_acp");
const PATIENCE: Duration = Duration::from_secs(60);
const HEEDING: [&str; 2] = ["--default-signal=INT,HUP", ACP];
const FRAMES: &str = include_str!("frames.json");

/// What steers terminals, hides or turns text around.
const STEERS: &str =
    "\u{1b}]52;c;SE9TVElMRQ==\u{7}\u{1b}[2J\u{1b}[8m\u{9b}31m\r\u{202e}\u{200b}\u{e0041}\u{2028}";

/// A string with that in it. Where several lines are expected, its newline is allowed.
fn hostile(before: &str, block: bool) -> String {
    let forged = if block { "\n" } else { "\nFORGED\n::error::FORGED\n" };
    format!("{before}{STEERS}{forged}")
}

/// The frame once for each of its strings, with that one hostile.
fn variants(frame: &Value) -> Vec<Value> {
    let mut places = Vec::new();
    strings(frame, String::new(), &mut places);
    let variant = |place: &String| {
        let mut frame = frame.clone();
        let name = place.rsplit('/').next().unwrap_or_default();
        if let Some(Value::String(text)) = frame.pointer_mut(place) {
            *text = hostile(text, matches!(name, "text" | "newText" | "oldText"));
        }
        frame
    };
    places.iter().map(variant).collect()
}

fn strings(value: &Value, place: String, places: &mut Vec<String>) {
    match value {
        Value::String(_) => places.push(place),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(at, item)| strings(item, format!("{place}/{at}"), places));
        }
        Value::Object(members) => {
            members.iter().for_each(|(key, member)| strings(member, format!("{place}/{key}"), places));
        }
        _ => {}
    }
}

/// The folder of a hostile agent.
struct Place {
    _temp: tempfile::TempDir,
    path: PathBuf,
    frames: Value,
}

impl Place {
    fn new() -> Place {
        let temp = tempfile::tempdir().expect("a folder");
        let path = temp.path().canonicalize().expect("a real path");
        let frames: Value = serde_json::from_str(FRAMES).expect("JSON");
        let place = Place { _temp: temp, path, frames };
        for name in ["initialize", "session", "end"] {
            place.write(name, &place.frames[name].to_string());
        }
        place.write("turn", "");
        place
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path.join(name), text).expect("a file");
    }

    fn list(&self, name: &str) -> &[Value] {
        self.frames[name].as_array().expect("a list")
    }

    /// Everything that the agent says in a turn, each with one hostile string.
    fn turn(&self, requests: bool) -> String {
        let mut lines = String::new();
        for update in self.list("updates").iter().flat_map(variants) {
            let params = json!({ "sessionId": "sess", "update": update });
            lines += &json!({ "jsonrpc": "2.0", "method": "session/update", "params": params }).to_string();
            lines.push('\n');
        }
        let requests = if requests { self.list("requests") } else { &[] };
        // A form is asked of the person, whom another test plays.
        let requests = requests.iter().filter(|request| request["method"] != "elicitation/create");
        for (id, request) in requests.flat_map(variants).enumerate() {
            let mut request = request;
            (request["jsonrpc"], request["id"]) = ("2.0".into(), (1000 + id).into());
            lines += &format!("{request}\n");
        }
        // No frame at all, and raw.
        lines + &format!("{}\n", STEERS.replace('\r', ""))
    }

    fn agent(&self) -> String {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/hostile/agent.sh");
        format!("sh {script} {}", self.path.display())
    }

    /// Runs a command on a terminal to its end: what it showed.
    fn run(&self, args: &[&str]) -> String {
        let home = self.path.display().to_string();
        let env = [("XDG_STATE_HOME", home.as_str()), ("GITHUB_ACTIONS", "true")];
        let mut terminal = Terminal::start(&self.path, args, &env);
        terminal.end();
        terminal.screen()
    }
}

/// What our own programs send to a terminal: colours, and the moves of the line editor and the progress bar.
fn without_our_own(screen: &str) -> String {
    let mut rest = screen.replace("\r\n", "\n");
    let own = [
        "\u{1b}[?2004h",
        "\u{1b}[?2004l",
        "\u{1b}[K",
        "\u{1b}[J",
        "\u{1b}[2K",
        "\u{1b}[1A",
        "\u{1b}[6n",
        "\u{1b}[?2026h",
        "\u{1b}[?2026l",
        "\u{1b}[?25h",
        "\u{1b}[?25l",
    ];
    own.iter().for_each(|own| rest = rest.replace(own, ""));
    let mut text = String::new();
    let mut parts = rest.split('\u{1b}');
    text.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let end = part.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(0);
        let (code, after) = part.split_at(end);
        let is_number = |code: &str| {
            code.strip_prefix('[').is_some_and(|code| code.chars().all(|c| c.is_ascii_digit() || c == ';'))
        };
        // Colour, but nothing that conceals; and to a column.
        let colours = after.starts_with('m') && code != "[8";
        let own = is_number(code) && (colours || after.starts_with(['C', 'D', 'G']));
        if own {
            text.push_str(&after[1..]);
        } else {
            text.push('\u{1b}');
            text.push_str(part);
        }
    }
    text
}

#[track_caller]
fn assert_harmless(screen: &str, what: &str) {
    let text = without_our_own(screen);
    for bad in ['\u{1b}', '\u{7}', '\u{9b}', '\u{202e}', '\u{200b}', '\u{e0041}', '\u{2028}', '\u{8}'] {
        let after: Option<String> = text.find(bad).map(|at| text[at..].chars().take(40).collect());
        assert_eq!(after, None, "{what}: {bad:?}");
    }
    let forged = text.lines().find(|line| {
        let line = line.rsplit('\r').next().unwrap_or_default();
        line.starts_with("FORGED") || line.trim_start().starts_with("::error")
    });
    assert_eq!(forged, None, "{what}: a forged line in\n{text}");
}

#[test]
fn what_an_agent_says_in_a_turn_is_harmless_to_people_and_scripts() {
    let place = Place::new();
    place.write("turn", &place.turn(true));
    let agent = place.agent();
    for more in [&["--verbose"][..], &["--json"], &["--record", "talk.ndjson"]] {
        let args = [&["prompt", "go", "--command", &agent, "--policy", "read"], more].concat();
        let screen = place.run(&args);
        assert!(screen.contains("hello"), "the turn was shown: {screen}");
        assert_harmless(&screen, &format!("prompt {more:?}"));
    }
    let prompt = r#"{"sessionId": "${session}", "prompt": []}"#;
    for more in [&[][..], &["--verbose"], &["--format", "json"], &["--format", "json", "--verbose"]] {
        let args =
            [&["call", "session/prompt", prompt, "--command", &agent, "--policy", "read"], more].concat();
        let screen = place.run(&args);
        assert!(screen.contains("hello"), "the turn was shown: {screen}");
        assert_harmless(&screen, &format!("call {more:?}"));
    }
    for args in [
        &["lint", "talk.ndjson", "--stats"][..],
        &["lint", "talk.ndjson", "--format", "json"],
        &["lint", "talk.ndjson", "--format", "sarif"],
        &["lint", "talk.ndjson", "--format", "junit"],
        &["lint", "talk.ndjson", "--redact"],
        &["replay", "talk.ndjson", "--verbose"],
        &["replay", "talk.ndjson", "--format", "json"],
        &["replay", "talk.ndjson", "--format", "events"],
    ] {
        assert_harmless(&place.run(args), &args.join(" "));
    }
}

#[test]
fn what_an_agent_answers_is_harmless() {
    let place = Place::new();
    let agent = place.agent();
    for name in ["initialize", "session", "end", "error"] {
        for (number, variant) in variants(&place.frames[name]).into_iter().enumerate() {
            place.write(name, &variant.to_string());
            let args = ["prompt", "go", "--command", &agent, "--verbose", "--auth", "none"];
            assert_harmless(&place.run(&args), &format!("prompt with {name} {number}"));
            let args = ["prompt", "go", "--command", &agent, "--verbose", "--mode", "none"];
            assert_harmless(&place.run(&args), &format!("prompt --mode with {name} {number}"));
            for format in ["text", "json"] {
                let args = ["info", "--command", &agent, "--format", format];
                assert_harmless(&place.run(&args), &format!("info {format} with {name} {number}"));
                let args = [
                    "call",
                    "session/list",
                    "--session",
                    "--command",
                    &agent,
                    "--format",
                    format,
                    "--verbose",
                ];
                assert_harmless(&place.run(&args), &format!("call {format} with {name} {number}"));
            }
        }
        place.write(name, &place.frames[name].to_string());
    }
    std::fs::remove_file(place.path.join("error")).expect("it was there");
}

#[test]
fn a_question_shows_what_is_asked_and_nothing_else() {
    let place = Place::new();
    let mut request = place.list("requests")[0].clone();
    for pointer in ["/params/toolCall/title", "/params/toolCall/rawInput/command", "/params/options/0/name"] {
        if let Some(Value::String(text)) = request.pointer_mut(pointer) {
            *text = hostile(text, false);
        }
    }
    (request["jsonrpc"], request["id"]) = ("2.0".into(), 7.into());
    let mut form = place.list("requests")[4].clone();
    for pointer in ["/params/message", "/params/requestedSchema/properties/name/title"] {
        if let Some(Value::String(text)) = form.pointer_mut(pointer) {
            *text = hostile(text, false);
        }
    }
    (form["jsonrpc"], form["id"]) = ("2.0".into(), 8.into());
    place.write("turn", &format!("{}{request}\n", place.turn(false)));
    let mut session = place.frames["session"].clone();
    session["sessionId"] = "sess".into();
    session["modes"]["availableModes"][0]["id"] = hostile("ask", false).into();
    place.write("session", &session.to_string());
    let agent = place.agent();
    let home = place.path.display().to_string();
    let env = [("XDG_STATE_HOME", home.as_str())];
    let mut terminal = Terminal::start(&place.path, &["chat", "--command", &agent], &env);
    terminal.wait_for(":help for help");
    terminal.wait_for("> ");
    terminal.press(":modes\r");
    terminal.wait_for("Ask");
    terminal.wait_for("> ");
    terminal.press(":set\r");
    terminal.wait_for("Model");
    terminal.wait_for("> ");
    terminal.press("go\r");
    terminal.wait_for("which? ");
    terminal.press("n\r");
    terminal.wait_until_sane(false);
    place.write("turn", &format!("{form}\n"));
    terminal.press("again\r");
    terminal.wait_for("to skip]");
    terminal.press("me\r");
    terminal.wait_for("send them?");
    terminal.press("n\r");
    terminal.wait_until_sane(false);
    terminal.press("/\t");
    terminal.wait_for("/plan");
    terminal.press("\u{15}:quit\r");
    terminal.end();
    assert_harmless(&terminal.screen(), "chat");
}

#[test]
fn runs_and_their_reports_are_harmless() {
    let place = Place::new();
    place.write("turn", &place.turn(false));
    let initialize: Value =
        variants(&place.frames["initialize"]).into_iter().fold(json!({}), |mut all, variant| {
            for (key, value) in variant.as_object().into_iter().flatten() {
                if all[key].is_null() || value.to_string().contains("FORGED") {
                    all[key] = value.clone();
                }
            }
            all
        });
    place.write("initialize", &initialize.to_string());
    let agent = place.agent();
    for format in ["terminal", "markdown", "tap", "json", "junit", "table"] {
        let args = [
            "comply",
            "--command",
            &agent,
            "--test",
            "*prompt*",
            "--format",
            format,
            "--timeout-factor",
            "0.1",
        ];
        let screen = place.run(&args);
        assert!(!screen.contains("unexpected argument"), "{screen}");
        assert_harmless(&screen, &format!("comply --format {format}"));
    }
}

#[test]
fn a_proxy_that_tells_what_happens_tells_it_harmlessly() {
    let place = Place::new();
    place.write("turn", &place.turn(true));
    let agent = place.agent();
    for format in ["text", "json"] {
        let proxy = format!("{ACP} proxy --lint --log-format {format} --command '{agent}'");
        let args = ["prompt", "go", "--command", &proxy, "--policy", "read", "--verbose"];
        assert_harmless(&place.run(&args), &format!("proxy --log-format {format}"));
        let log = place.path.join(format!("log-{format}"));
        let script = format!("{proxy} 2>{}", log.display());
        let args = ["prompt", "go", "--command", &format!("sh -c \"{script}\""), "--policy", "read"];
        place.run(&args);
        assert_harmless(&std::fs::read_to_string(&log).expect("a log"), &format!("the log as {format}"));
    }
    assert_harmless(&place.run(&["replay", "--list"]), "replay --list");
}

#[test]
fn what_a_client_says_is_harmless_to_who_runs_an_agent() {
    let place = Place::new();
    let mut lines = String::new();
    for (id, frame) in place.list("client").iter().flat_map(variants).enumerate() {
        let mut frame = frame;
        (frame["jsonrpc"], frame["id"]) = ("2.0".into(), id.into());
        lines += &format!("{frame}\n");
    }
    place.write("client", &lines);
    for command in ["mock --stdio --verbose", "agent --debug"] {
        let log = talked_to(&place.path, command);
        assert_harmless(&log, command);
    }
}

/// What a command says on standard error to the client's lines.
fn talked_to(folder: &Path, command: &str) -> String {
    let input = std::fs::File::open(folder.join("client")).expect("a file");
    let output = std::process::Command::new(ACP)
        .args(command.split(' '))
        .current_dir(folder)
        .env("XDG_STATE_HOME", folder)
        .stdin(input)
        .output()
        .expect("acp runs");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn what_comes_by_way_of_nats_is_harmless() {
    if server::left_out() {
        return;
    }
    let place = Place::new();
    place.write("turn", &place.turn(true));
    let (server, spool) = (server::Server::start(), place.path.join("spool"));
    let url = server.url();
    let log = std::fs::File::create(place.path.join("log")).expect("a file");
    let mut proxy = std::process::Command::new(ACP)
        .args([
            "proxy",
            "--nats",
            &url,
            "--queue",
            "mock",
            "--no-journal",
            "--command",
            &place.agent(),
            "--spool",
        ])
        .arg(&spool)
        .stdin(std::process::Stdio::null())
        .stderr(log)
        .spawn()
        .expect("acp runs");
    let began = std::time::Instant::now();
    let screen = loop {
        let screen = place.run(&["tasks", "--nats", &url, "submit", "mock", "go", "--id", "t", "--watch"]);
        if !screen.contains("there is no stream") {
            break screen;
        }
        assert!(began.elapsed() < PATIENCE, "{screen}");
    };
    let json = place.run(&["tasks", "--nats", &url, "watch", "t", "--json"]);
    proxy.kill().expect("it was running");
    proxy.wait().expect("it has ended");
    assert!(screen.contains("hello") && json.contains("hello"), "the turn was shown: {screen}");
    assert_harmless(&screen, "tasks submit --watch");
    assert_harmless(&json, "tasks watch --json");
    assert_harmless(&std::fs::read_to_string(place.path.join("log")).expect("a log"), "the proxy's log");
}

/// All credentials that this program and its reference agent take from the environment.
const CREDENTIALS: &[&str] = &[
    "ACP_TOKEN",
    "ACP_AGENT_TOKEN",
    "ACP_CONNECT_TOKEN",
    "ACP_LISTEN_TOKEN",
    "ACP_NATS",
    "ACP_NATS_TOKEN",
    "ACP_NATS_USER",
    "ACP_NATS_PASSWORD",
    "ACP_NATS_CREDS",
    "ACP_NATS_NKEY",
    "ACP_NATS_KEY",
    "ACP_NATS_CERT",
];
const KEYS: &[&str] = &[
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "OPENAI_API_KEY",
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "OLLAMA_API_KEY",
    "MISTRAL_API_KEY",
    "OPENROUTER_API_KEY",
];

/// Runs `acp` with a value in every one of them.
fn with_credentials(folder: &Path, args: &[&str]) -> String {
    let mut command = std::process::Command::new(ACP);
    command.args(args).current_dir(folder).env("XDG_STATE_HOME", folder).stdin(std::process::Stdio::null());
    for name in CREDENTIALS.iter().chain(KEYS) {
        command.env(name, format!("opensesame-{name}"));
    }
    let output = command.output().expect("acp runs");
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn our_credentials_reach_no_agent_and_model_keys_reach_no_command() {
    let place = Place::new();
    let seen = place.path.join("seen");
    let agent = format!("sh -c 'env >{}; exec {}'", seen.display(), place.agent());
    with_credentials(&place.path, &["prompt", "go", "--command", &agent]);
    let seen = std::fs::read_to_string(&seen).expect("the agent was started");
    for name in CREDENTIALS {
        assert!(!seen.contains(&format!("opensesame-{name}\n")), "{name} reached the agent");
    }
    // An agent needs the keys for its model.
    assert!(seen.contains("opensesame-OPENAI_API_KEY"), "{seen}");
    for agent in ["mock", "reference"] {
        let wish = "Run the command printenv";
        let args = ["prompt", wish, "--agent", agent, "--policy", "yolo", "--record", "talk.ndjson"];
        let shown = with_credentials(&place.path, &args);
        let talk = std::fs::read_to_string(place.path.join("talk.ndjson")).expect("a transcript");
        assert!(talk.contains("PATH="), "{agent}: the command ran: {shown}");
        assert!(!talk.contains("opensesame"), "{agent}: a key reached a command: {talk}");
    }
}
