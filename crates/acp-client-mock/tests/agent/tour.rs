//! The tour through everything that a client does, in chapters. Each shows the wire and the world as the agent sees them.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use acp_client_mock::ClientNature;
use acp_rpc::{Frame, Id};
use futures_util::future::BoxFuture;
use serde_json::{Value, json};

use super::{Agent, Meeting};

/// What was seen, and what the judge found.
pub type Seen = (Vec<String>, Vec<String>);

pub struct Chapter {
    pub name: &'static str,
    pub run: fn(ClientNature) -> BoxFuture<'static, Seen>,
}

macro_rules! chapters {
    ($($name:ident),* $(,)?) => {
        pub const CHAPTERS: &[Chapter] =
            &[$(Chapter { name: stringify!($name), run: |nature| Box::pin($name(nature)) }),*];
    };
}

chapters!(
    wire,
    updates,
    large,
    bare,
    version_999,
    version_2,
    nulls,
    odd_options,
    odd_categories,
    files,
    terminals,
    questions,
    cancelling,
    taken_back,
    reopening,
    resuming,
    login,
    login_needed,
    forms,
    pages,
    options,
    modes,
    death,
    stubborn,
);

fn everything() -> Value {
    json!({ "loadSession": true, "promptCapabilities": { "image": true, "audio": true, "embeddedContext": true },
        "mcpCapabilities": { "http": true, "sse": true }, "auth": { "logout": {} },
        "sessionCapabilities": { "list": {}, "close": {}, "delete": {}, "resume": {}, "additionalDirectories": {} } })
}

fn agent(initialize: Value) -> Agent {
    Agent { initialize, ..Agent::default() }
}

fn able(capabilities: Value) -> Agent {
    agent(json!({ "agentCapabilities": capabilities }))
}

fn with(mut agent: Agent, asked: &'static str, answers: impl IntoIterator<Item = Value>) -> Agent {
    agent.answers.insert(asked, VecDeque::from_iter(answers));
    agent
}

/// A client in a turn.
async fn prompted(nature: ClientNature, agent: Agent) -> Meeting {
    let mut it = Meeting::new(nature, agent);
    it.drive(json!({ "verb": "prompt", "text": "zażółć ó" }));
    it.reaches("session/prompt").await;
    it
}

fn update(session: &str, update: Value) -> Value {
    json!({ "sessionId": session, "update": update })
}

fn chunk(text: &str) -> Value {
    json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": text } })
}

async fn wire(nature: ClientNature) -> Seen {
    let mut it = prompted(nature, able(everything())).await;
    for id in [Id::Int(7), Id::Text("abc".into())] {
        it.send(Frame::request(&id, "_exam/echo", &json!({}))).await;
        it.answer_to(&id).await;
    }
    it.tell("session/update", update("s-1", chunk("hello"))).await;
    it.tell("_exam/note", json!({})).await;
    let asked = std::time::Instant::now();
    it.is_alive().await;
    it.see("answers at once", asked.elapsed() < Duration::from_secs(2));
    it.ends_turn("end_turn").await;
    it.quits().await
}

async fn updates(nature: ClientNature) -> Seen {
    let mut agent = able(everything());
    agent.before = BTreeMap::from([("session/new", vec![update("s-1", chunk("early"))])]);
    let mut it = prompted(nature, agent).await;
    it.tell("session/update", update("other", chunk("elsewhere"))).await;
    it.is_alive().await;
    it.tell("session/update", update("s-1", json!({ "sessionUpdate": "from_the_future" }))).await;
    it.is_alive().await;
    it.ends_turn("end_turn").await;
    it.does(json!({ "verb": "list" })).await;
    it.see("updates shown", it.events("update"));
    it.quits().await
}

async fn large(nature: ClientNature) -> Seen {
    let mut it = prompted(nature, able(everything())).await;
    it.tell("session/update", update("s-1", chunk(&"x".repeat(100_000)))).await;
    it.is_alive().await;
    it.quits().await
}

async fn bare(nature: ClientNature) -> Seen {
    let mut it = Meeting::new(nature, agent(json!({})));
    std::fs::write(it.workspace.join("dot.png"), [0x89, b'P', b'N', b'G']).expect("a file");
    std::fs::write(it.workspace.join("note.txt"), "note").expect("a file");
    it.does(json!({ "verb": "dirs", "dirs": ["more"] })).await;
    std::fs::create_dir(it.workspace.join("more")).expect("a folder");
    it.does(json!({ "verb": "mcp", "server": { "type": "http", "name": "h", "url": "http://127.0.0.1:1/", "headers": [] } })).await;
    it.does(json!({ "verb": "open" })).await;
    for verb in ["list", "delete", "logout"] {
        it.does(json!({ "verb": verb })).await;
    }
    it.does(json!({ "verb": "attach", "file": "dot.png" })).await;
    it.does(json!({ "verb": "attach", "file": "note.txt" })).await;
    it.drive(json!({ "verb": "prompt" }));
    it.reaches("session/prompt").await;
    it.ends_turn("end_turn").await;
    it.does(json!({ "verb": "reload" })).await;
    it.does(json!({ "verb": "close" })).await;
    it.quits().await
}

async fn of_version(nature: ClientNature, version: u32) -> Seen {
    let mut it = Meeting::new(nature, agent(json!({ "protocolVersion": version })));
    it.does(json!({ "verb": "open" })).await;
    it.quits().await
}

async fn version_999(nature: ClientNature) -> Seen {
    of_version(nature, 999).await
}

async fn version_2(nature: ClientNature) -> Seen {
    of_version(nature, 2).await
}

async fn nulls(nature: ClientNature) -> Seen {
    let mut it = prompted(nature, able(json!({ "loadSession": null, "promptCapabilities": null }))).await;
    it.is_alive().await;
    it.quits().await
}

fn select(id: &str, category: Value) -> Value {
    let values = json!([{ "value": "a", "name": "A" }, { "value": "b", "name": "B" }]);
    json!({ "id": id, "name": id, "type": "select", "category": category, "currentValue": "a", "options": values })
}

async fn opened_with(nature: ClientNature, answer: Value, verbs: &[Value]) -> Seen {
    let agent = with(able(everything()), "session/new", [json!({ "result": answer })]);
    let mut it = prompted(nature, agent).await;
    it.ends_turn("end_turn").await;
    it.is_alive().await;
    for verb in verbs {
        it.does(verb.clone()).await;
    }
    it.quits().await
}

async fn odd_options(nature: ClientNature) -> Seen {
    let slider = json!({ "id": "v", "name": "V", "type": "slider", "currentValue": 3, "min": 0, "max": 9 });
    let answer = json!({ "sessionId": "s-1", "configOptions": [slider, select("o", json!("mode"))] });
    opened_with(nature, answer, &[json!({ "verb": "option", "option": "o", "value": "b" })]).await
}

async fn odd_categories(nature: ClientNature) -> Seen {
    let options = json!([select("x", json!("volume")), select("y", Value::Null), select("z", json!("_x"))]);
    opened_with(nature, json!({ "sessionId": "s-1", "configOptions": options }), &[]).await
}

async fn files(nature: ClientNature) -> Seen {
    let mut it = prompted(nature, able(everything())).await;
    let root = it.workspace.clone();
    let outside = root.parent().expect("a folder").to_owned();
    std::fs::write(root.join("five.txt"), "one\ntwo\nthree\nfour\nfive\n").expect("a file");
    std::fs::write(outside.join("canary.txt"), "canary").expect("a file");
    std::fs::create_dir(outside.join("workspace-evil")).expect("a folder");
    std::fs::write(outside.join("workspace-evil/c.txt"), "evil").expect("a file");
    std::os::unix::fs::symlink(outside.join("canary.txt"), root.join("link.txt")).expect("a link");
    let path = |name: &str| root.join(name).to_string_lossy().into_owned();
    for (name, content) in [("new.txt", "x\r\ny"), ("five-2.txt", "é😀")] {
        it.ask("fs/write_text_file", json!({ "sessionId": "s-1", "path": path(name), "content": content }))
            .await;
        let bytes = std::fs::read(root.join(name)).map(|bytes| format!("{bytes:?}"));
        it.see(name, bytes.unwrap_or_else(|_| "is not there".to_owned()));
    }
    let window = |line: Value, limit: Value| json!({ "sessionId": "s-1", "path": path("five.txt"), "line": line, "limit": limit });
    for (line, limit) in [
        (json!(2), json!(1)),
        (json!(1), json!(1)),
        (Value::Null, json!(2)),
        (json!(4), Value::Null),
        (json!(9), json!(5)),
    ] {
        it.ask("fs/read_text_file", window(line, limit)).await;
    }
    for name in ["absent.txt", "../canary.txt", "link.txt"] {
        it.ask("fs/read_text_file", json!({ "sessionId": "s-1", "path": path(name) })).await;
    }
    let evil = outside.join("workspace-evil/c.txt");
    it.ask("fs/read_text_file", json!({ "sessionId": "s-1", "path": evil })).await;
    it.ask("fs/read_text_file", json!({ "sessionId": "s-1", "path": "five.txt" })).await;
    it.quits().await
}

async fn terminals(nature: ClientNature) -> Seen {
    let mut it = prompted(nature, able(everything())).await;
    let create = |line: &str, limit: Value| json!({ "sessionId": "s-1", "command": "sh", "args": ["-c", line], "outputByteLimit": limit });
    let of = |answer: &Value| json!({ "sessionId": "s-1", "terminalId": answer["result"]["terminalId"] });
    // Output and its limit.
    let made = it.ask("terminal/create", create("printf éaébécé", json!(7))).await;
    let waits: Vec<Id> = ["w1", "w2"].map(|id| Id::Text(id.into())).into();
    let from = it.trace.len();
    for id in &waits {
        it.send(Frame::request(id, "terminal/wait_for_exit", &of(&made))).await;
    }
    it.until(|it| it.trace.len() >= from + 2).await;
    it.sorts_from(from);
    it.ask("terminal/output", of(&made)).await;
    it.ask("terminal/release", of(&made)).await;
    it.ask("terminal/output", of(&made)).await;
    let made = it.ask("terminal/create", create("echo a; exit 3", Value::Null)).await;
    it.ask("terminal/wait_for_exit", of(&made)).await;
    it.ask("terminal/output", of(&made)).await;
    let made = it.ask("terminal/create", create("yes | head -c 100000", Value::Null)).await;
    it.ask("terminal/wait_for_exit", of(&made)).await;
    let output = it.ask("terminal/output", of(&made)).await;
    it.trace.pop(); // too long to look at
    it.see("bytes kept", output["result"]["output"].as_str().map_or(0, str::len));
    // Kill and release of what runs.
    let made = it
        .ask("terminal/create", create("trap '' TERM; echo $$; while :; do sleep 0.05; done", Value::Null))
        .await;
    let output = first_line(&mut it, &of(&made)).await;
    it.see("status while running", output["result"].get("exitStatus").is_some());
    it.ask("terminal/kill", of(&made)).await;
    it.see("alive after kill", lives(&output));
    if lives(&output) {
        it.ask("terminal/release", of(&made)).await;
        return it.quits().await;
    }
    it.ask("terminal/wait_for_exit", of(&made)).await;
    let output = it.ask("terminal/output", of(&made)).await;
    it.trace.pop();
    it.see("output after kill", output.get("result").is_some());
    it.ask("terminal/release", of(&made)).await;
    let made = it.ask("terminal/create", create("echo $$; exec sleep 30", Value::Null)).await;
    let output = first_line(&mut it, &of(&made)).await;
    it.ask("terminal/release", of(&made)).await;
    it.until(|_| !lives(&output)).await;
    it.see("alive after release", lives(&output));
    it.quits().await
}

/// The output of a command when it has written a line, which is its own process number.
async fn first_line(it: &mut Meeting, terminal: &Value) -> Value {
    let (at, mut output) = (it.trace.len(), Value::Null);
    for _ in 0..200 {
        let id = Id::Text("poll".into());
        it.send(Frame::request(&id, "terminal/output", terminal)).await;
        output = it.answer_to(&id).await;
        if output["result"]["output"].as_str().is_none_or(|text| text.contains('\n')) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    it.trace.truncate(at); // the number differs, and how often it was asked for
    output
}

/// Whether the process whose number the output begins with is alive.
fn lives(output: &Value) -> bool {
    let words = output["result"]["output"].as_str().unwrap_or_default();
    let Ok(pid) = words.lines().next().unwrap_or_default().trim().parse::<u32>() else { return false };
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')')
        .next()
        .and_then(|rest| rest.trim().chars().next())
        .is_some_and(|state| !"ZX".contains(state))
}

fn question(call: &str) -> Value {
    json!({ "sessionId": "s-1", "toolCall": { "toolCallId": call, "title": call, "kind": "execute", "status": "pending" },
        "options": [{ "optionId": "never", "name": "Never", "kind": "reject_once" }, { "optionId": "ever", "name": "Ever", "kind": "allow_always" },
            { "optionId": "🦀", "name": "Once", "kind": "allow_once" }] })
}

async fn questions(nature: ClientNature) -> Seen {
    let mut it = prompted(nature, able(everything())).await;
    it.ask("session/request_permission", question("a")).await;
    let mut no_only = question("c");
    no_only["options"].as_array_mut().expect("options").truncate(1);
    it.ask("session/request_permission", no_only).await;
    it.does(json!({ "verb": "answer", "with": "reject" })).await;
    it.ask("session/request_permission", question("b")).await;
    it.quits().await
}

async fn cancelling(nature: ClientNature) -> Seen {
    let mut it = prompted(nature, able(everything())).await;
    it.does(json!({ "verb": "answer", "with": "leave" })).await;
    let ids = ["q1", "q2"].map(|id| Id::Text(id.into()));
    for id in &ids {
        it.send(Frame::request(id, "session/request_permission", &question("a"))).await;
    }
    it.until(|it| it.events("permission") >= 2).await;
    it.see("questions shown", it.events("permission"));
    it.drive(json!({ "verb": "cancel" }));
    it.reaches("session/cancel").await;
    let from = it.trace.len();
    it.until(|it| it.trace.len() >= from + 2).await;
    it.sorts_from(from);
    it.ends_turn("cancelled").await;
    it.drive(json!({ "verb": "prompt" }));
    it.reaches("session/prompt").await;
    it.quits().await
}

async fn taken_back(nature: ClientNature) -> Seen {
    let mut it = prompted(nature, able(everything())).await;
    it.does(json!({ "verb": "answer", "with": "leave" })).await;
    let id = Id::Text("q1".into());
    it.send(Frame::request(&id, "session/request_permission", &question("a"))).await;
    it.until(|it| it.events("permission") > 0).await;
    it.tell("$/cancel_request", json!({ "requestId": "q1" })).await;
    it.answer_to(&id).await;
    it.quits().await
}

fn server() -> Value {
    json!({ "name": "s", "command": "/bin/true", "args": ["x"], "env": [{ "name": "A", "value": "b" }] })
}

async fn reopening(nature: ClientNature) -> Seen {
    let capabilities = json!({ "loadSession": true, "sessionCapabilities": { "list": {}, "close": {}, "delete": {}, "additionalDirectories": {} } });
    let pages = [
        json!({ "result": { "sessions": [], "nextCursor": "a%7Bb" } }),
        json!({ "result": { "sessions": [] } }),
    ];
    let mut pages: Vec<Value> = pages.iter().cycle().take(4).cloned().collect();
    pages.push(json!({ "result": { "sessions": [], "nextCursor": null } }));
    let agent = with(able(capabilities), "session/list", pages);
    let mut it = Meeting::new(nature, agent);
    std::fs::create_dir(it.workspace.join("more")).expect("a folder");
    it.does(json!({ "verb": "dirs", "dirs": ["more"] })).await;
    it.does(json!({ "verb": "mcp", "server": server() })).await;
    it.does(json!({ "verb": "open" })).await;
    it.does(json!({ "verb": "list" })).await;
    it.does(json!({ "verb": "reload" })).await;
    it.does(json!({ "verb": "list" })).await;
    it.does(json!({ "verb": "delete", "session": "gone" })).await;
    it.does(json!({ "verb": "close" })).await;
    it.quits().await
}

async fn resuming(nature: ClientNature) -> Seen {
    let mut it = Meeting::new(nature, able(json!({ "sessionCapabilities": { "resume": {} } })));
    it.does(json!({ "verb": "open" })).await;
    it.does(json!({ "verb": "reload" })).await;
    it.quits().await
}

fn logins() -> Value {
    json!([{ "id": "t", "name": "T", "type": "terminal", "args": ["--login"], "env": { "EXAM_LOGIN": "1" } }, { "id": "a b", "name": "A" }])
}

async fn login(nature: ClientNature) -> Seen {
    let mut it = Meeting::new(nature, agent(json!({ "authMethods": logins() })));
    it.drive(json!({ "verb": "login", "method": "t" }));
    it.until(|it| it.launch() == 2 || it.events("done") > 0).await;
    it.exits(0);
    it.until(|it| it.events("done") > 0).await;
    it.does(json!({ "verb": "open" })).await;
    it.quits().await
}

async fn login_needed(nature: ClientNature) -> Seen {
    let refused = json!({ "error": { "code": -32000, "message": "Authentication required" } });
    let opened = json!({ "result": { "sessionId": "s-1" } });
    let agent = agent(json!({ "authMethods": logins() }));
    let agent = with(agent, "session/new", [refused.clone(), opened]);
    let agent = with(agent, "session/prompt", [refused, json!({})]);
    let mut it = Meeting::new(nature, agent);
    it.does(json!({ "verb": "open" })).await;
    it.does(json!({ "verb": "login", "method": "a b" })).await;
    it.drive(json!({ "verb": "prompt" }));
    it.reaches("session/prompt").await;
    it.is_alive().await;
    it.drive(json!({ "verb": "prompt" }));
    it.reaches("session/prompt").await;
    it.quits().await
}

async fn forms(nature: ClientNature) -> Seen {
    let mut it = prompted(nature, able(everything())).await;
    let schema = json!({ "type": "object", "required": ["n"], "properties": { "n": { "type": "integer", "minimum": 3, "maximum": 5 } } });
    let form = |mode: &str| json!({ "sessionId": "s-1", "mode": mode, "message": "How many?", "requestedSchema": schema });
    it.ask("elicitation/create", form("form")).await;
    it.does(json!({ "verb": "elicit", "values": { "n": 9 } })).await;
    it.ask("elicitation/create", form("form")).await;
    it.ask("elicitation/create", form("_x")).await;
    it.quits().await
}

async fn pages(nature: ClientNature) -> Seen {
    let mut it = prompted(nature, able(everything())).await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/secret", listener.local_addr().expect("an address"));
    let page =
        json!({ "sessionId": "s-1", "mode": "url", "message": "Look.", "url": url, "elicitationId": "e-1" });
    it.ask("elicitation/create", page).await;
    let visit = tokio::time::timeout(Duration::from_secs(1), listener.accept()).await;
    it.see("page fetched", visit.is_ok());
    it.tell("elicitation/complete", json!({ "elicitationId": "unknown" })).await;
    it.is_alive().await;
    it.quits().await
}

async fn options(nature: ClientNature) -> Seen {
    let modes = json!({ "currentModeId": "a", "availableModes": [{ "id": "a", "name": "A" }, { "id": "b", "name": "B" }] });
    let switch = json!({ "id": "w", "name": "W", "type": "boolean", "currentValue": false });
    let answer =
        json!({ "sessionId": "s-1", "modes": modes, "configOptions": [select("m", json!("mode")), switch] });
    let verbs =
        [json!({ "verb": "mode", "mode": "b" }), json!({ "verb": "option", "option": "w", "value": true })];
    // The answer to the first leaves the options as they are.
    let agent = with(able(everything()), "session/new", [json!({ "result": answer })]);
    let agent = with(
        agent,
        "session/set_config_option",
        [json!({ "result": { "configOptions": answer["configOptions"] } })],
    );
    let mut it = Meeting::new(nature, agent);
    it.does(json!({ "verb": "open" })).await;
    for verb in verbs {
        it.does(verb).await;
    }
    it.quits().await
}

async fn modes(nature: ClientNature) -> Seen {
    let modes = json!({ "currentModeId": "a", "availableModes": [{ "id": "a", "name": "A" }, { "id": "b/🦀", "name": "B" }] });
    let answer = json!({ "sessionId": "s-1", "modes": modes });
    opened_with(nature, answer, &[json!({ "verb": "mode", "mode": "b/🦀" })]).await
}

async fn death(nature: ClientNature) -> Seen {
    let mut it = prompted(nature, able(everything())).await;
    it.exits(7);
    it.until(|it| it.events("error") > 0).await;
    it.see("turn failed", it.events("error") > 0);
    it.drive(json!({ "verb": "prompt" }));
    it.reaches("session/prompt").await;
    it.quits().await
}

async fn stubborn(nature: ClientNature) -> Seen {
    let agent = Agent { is_stubborn: true, ..able(everything()) };
    let it = prompted(nature, agent).await;
    it.quits().await
}
