//! An agent inside the test: it does what the prompt says, and counts.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use acp_link::Link;
use acp_rpc::{Frame, Id, View};
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc};

/// What all agents of a test share.
#[derive(Default)]
pub struct World {
    /// Every prompt, as it came.
    pub prompts: Mutex<Vec<String>>,
    /// The `_meta` of every prompt.
    pub metas: Mutex<Vec<Value>>,
    /// Chunks that were sent.
    pub chunks: AtomicU64,
    /// Agents that were opened.
    pub opened: AtomicUsize,
    /// Whether agents can load sessions.
    pub loads: std::sync::atomic::AtomicBool,
    /// Whether agents can close sessions.
    pub closes: std::sync::atomic::AtomicBool,
    /// Refuse to be opened so many times.
    pub refuse: AtomicUsize,
    /// Whether agents refuse to open sessions.
    pub shut: std::sync::atomic::AtomicBool,
    /// The name of every session, whoever opens it.
    pub name: Mutex<Option<String>>,
    /// Whether agents wait for `go` before they open a session, and how many do.
    pub hold: std::sync::atomic::AtomicBool,
    pub held: AtomicUsize,
    /// Ends one agent.
    pub leave: Notify,
    /// Lets prompts that wait go on.
    pub go: Notify,
    /// Answers to permission requests.
    pub answers: Mutex<Vec<Value>>,
    /// How many sessions were opened.
    sessions: AtomicUsize,
}

impl World {
    pub fn prompts(&self) -> usize {
        self.prompts.lock().expect("whole").len()
    }
}

/// Opens agents of a world.
pub fn opener(world: &Arc<World>) -> acp_proxy::Opener {
    let world = world.clone();
    Arc::new(move || {
        let world = world.clone();
        Box::pin(async move {
            let refuse =
                world.refuse.fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| left.checked_sub(1));
            if refuse.is_ok() {
                return Err(acp_proxy::AgentUnavailable::new("the agent is not installed"));
            }
            world.opened.fetch_add(1, Ordering::AcqRel);
            let (ours, theirs) = acp_link::memory(64);
            tokio::spawn(live(theirs, world));
            Ok((ours, None))
        })
    })
}

async fn live(link: Link, world: Arc<World>) {
    let Link { tx, mut rx } = link;
    let (say, mut said) = mpsc::channel::<Frame>(16);
    tokio::spawn(async move {
        while let Some(frame) = said.recv().await {
            if tx.send(frame.raw()).await.is_err() {
                return;
            }
        }
    });
    let answers: Arc<Mutex<HashMap<Id, Arc<Notify>>>> = Arc::default();
    let cancelled = Arc::new(Notify::new());
    loop {
        let arrival = tokio::select! {
            arrival = rx.recv() => arrival,
            () = world.leave.notified() => return,
        };
        let Some(arrival) = arrival else { return };
        let frame = Frame::from(arrival.line);
        match frame.view() {
            View::Request { id, method, params } => {
                let params: Value =
                    params.and_then(|params| serde_json::from_str(params).ok()).unwrap_or_default();
                let loads = world.loads.load(Ordering::Acquire);
                match method {
                    "initialize" => {
                        let closes = world.closes.load(Ordering::Acquire).then(|| json!({}));
                        let can = json!({ "loadSession": loads, "sessionCapabilities": { "close": closes } });
                        let result = json!({ "protocolVersion": 1, "agentCapabilities": can });
                        let _ = say.send(Frame::response(id, &result)).await;
                    }
                    "session/new"
                        if world.shut.load(Ordering::Acquire)
                            || params["cwd"].as_str().is_some_and(|cwd| cwd.ends_with("forbidden")) =>
                    {
                        let error = acp_rpc::RpcError::internal("no more sessions today");
                        let _ = say.send(Frame::failure(id, &error)).await;
                    }
                    "session/new" => {
                        if world.hold.load(Ordering::Acquire) {
                            world.held.fetch_add(1, Ordering::AcqRel);
                            world.go.notified().await;
                        }
                        let given = world.name.lock().expect("whole").clone();
                        let number = world.sessions.fetch_add(1, Ordering::AcqRel);
                        let name = if let Some(name) = given {
                            name
                        } else if params["cwd"].as_str().is_some_and(|cwd| cwd.ends_with("hostile")) {
                            "a.b > *\r\né".to_owned()
                        } else {
                            format!("s{}-{number}", std::process::id())
                        };
                        let _ = say.send(Frame::response(id, &json!({ "sessionId": name }))).await;
                    }
                    "session/close" => {
                        let _ = say.send(Frame::response(id, &json!({}))).await;
                    }
                    "session/load" => {
                        let session = &params["sessionId"];
                        for text in ["earlier", "words"] {
                            let _ = say.send(chunk(session, text)).await;
                        }
                        let _ = say.send(Frame::response(id, &json!({}))).await;
                    }
                    "session/prompt" => {
                        let turn = Turn {
                            world: world.clone(),
                            say: say.clone(),
                            session: params["sessionId"].clone(),
                            cancelled: cancelled.clone(),
                            answers: answers.clone(),
                        };
                        let text = params["prompt"][0]["text"].as_str().unwrap_or_default().to_owned();
                        world.prompts.lock().expect("whole").push(text.clone());
                        world.metas.lock().expect("whole").push(params["_meta"].clone());
                        if text == "die" {
                            let _ = say.send(chunk(&params["sessionId"], "farewell")).await;
                            return;
                        }
                        tokio::spawn(turn.play(id.clone(), text));
                    }
                    other => {
                        let error = acp_rpc::RpcError::method_not_found(other);
                        let _ = say.send(Frame::failure(id, &error)).await;
                    }
                }
            }
            View::Notification { method: "session/cancel", .. } => cancelled.notify_one(),
            View::Response { id, .. } => {
                let answer = frame.result().and_then(|result| serde_json::from_str(result).ok());
                world.answers.lock().expect("whole").push(answer.unwrap_or_default());
                if let Some(waits) = answers.lock().expect("whole").get(id) {
                    waits.notify_one();
                }
            }
            _ => {}
        }
    }
}

struct Turn {
    world: Arc<World>,
    say: mpsc::Sender<Frame>,
    session: Value,
    cancelled: Arc<Notify>,
    answers: Arc<Mutex<HashMap<Id, Arc<Notify>>>>,
}

impl Turn {
    /// `count N [MICROSECONDS [STOP]]` (which waits before the chunk STOP), `talk MICROSECONDS` (which counts until it
    /// may go on), `wait`, `ask`, `big BYTES`, `answer BYTES`, or an echo.
    async fn play(self, id: Id, text: String) {
        let words: Vec<&str> = text.split(' ').collect();
        let number = |index: usize| words.get(index).and_then(|word| word.parse::<u64>().ok()).unwrap_or(0);
        let mut reason = "end_turn";
        match words[0] {
            "count" => {
                for chunk in 0..number(1) {
                    if chunk > 0 && chunk == number(3) {
                        self.world.go.notified().await;
                    }
                    self.chunk(&format!("{chunk} ")).await;
                    if number(2) > 0 {
                        tokio::time::sleep(Duration::from_micros(number(2))).await;
                    }
                }
            }
            "talk" => {
                let pause = Duration::from_micros(number(1));
                for chunk in 0_u64.. {
                    self.chunk(&format!("{chunk} ")).await;
                    if tokio::time::timeout(pause, self.world.go.notified()).await.is_ok() {
                        break;
                    }
                }
            }
            "wait" => {
                self.chunk("begun ").await;
                tokio::select! {
                    () = self.world.go.notified() => self.chunk("done").await,
                    () = self.cancelled.notified() => reason = "cancelled",
                }
            }
            "ask" => self.ask(number(1)).await,
            "big" => {
                let content = json!({ "type": "image", "mimeType": "x/y", "data": "\"A\u{e9}".repeat(usize::try_from(number(1)).expect("small")) });
                let update = json!({ "sessionUpdate": "agent_message_chunk", "content": content });
                self.say(&update).await;
                self.chunk(&"\u{1F600}".repeat(10_000)).await;
            }
            _ => self.chunk(&text).await,
        }
        let blob = if words[0] == "answer" {
            "A".repeat(usize::try_from(number(1)).expect("small"))
        } else {
            String::new()
        };
        let result = json!({
            "stopReason": reason, "_meta": { "x": { "artifacts": [{ "path": "/made" }], "blob": blob } },
        });
        let _ = self.say.send(Frame::response(&id, &result)).await;
    }

    async fn ask(&self, bytes: u64) {
        let answered = Arc::new(Notify::new());
        let id = Id::Text("q1".into());
        self.answers.lock().expect("whole").insert(id.clone(), answered.clone());
        let params = json!({
            "sessionId": self.session,
            "toolCall": {
                "toolCallId": "t1", "title": "Run the command ls", "kind": "execute",
                "locations": [{ "path": "/somewhere/else" }],
                "rawInput": "A".repeat(usize::try_from(bytes).expect("small")),
            },
            "options": [
                { "optionId": "yes", "name": "Yes", "kind": "allow_once" },
                { "optionId": "no", "name": "No", "kind": "reject_once" },
            ],
        });
        let _ = self.say.send(Frame::request(&id, "session/request_permission", &params)).await;
        tokio::select! {
            () = answered.notified() => {}
            () = self.cancelled.notified() => answered.notified().await,
        }
        let last = self.world.answers.lock().expect("whole").last().cloned().unwrap_or_default();
        self.chunk(&format!("answered {}", last["outcome"]["optionId"].as_str().unwrap_or("cancelled")))
            .await;
    }

    async fn chunk(&self, text: &str) {
        self.world.chunks.fetch_add(1, Ordering::AcqRel);
        let _ = self.say.send(chunk(&self.session, text)).await;
    }

    async fn say(&self, update: &Value) {
        let params = json!({ "sessionId": self.session, "update": update });
        let _ = self.say.send(Frame::notification("session/update", &params)).await;
    }
}

fn chunk(session: &Value, text: &str) -> Frame {
    let content = json!({ "type": "text", "text": text });
    let update = json!({ "sessionUpdate": "agent_message_chunk", "content": content });
    Frame::notification("session/update", &json!({ "sessionId": session, "update": update }))
}
