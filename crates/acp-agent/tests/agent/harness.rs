//! A client that shows every frame.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use acp_agent::{AgentServer, AgentServerSettings, State};
use acp_link::{Link, memory};
use acp_rpc::{Direction, Frame, Id};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Long enough for any machine; nothing waits for it unless something is broken.
const PATIENCE: Duration = Duration::from_secs(60);

/// A folder with some code in it, and a place for the state beside it.
pub(crate) struct Place {
    pub(crate) folder: TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let place = Self { folder };
        std::fs::create_dir(place.work()).expect("a folder");
        place.write("notes.txt", "rosemary\nthyme\n");
        place.write(
            "lib.rs",
            "/// Logs a person in.\nfn authenticate(name: &str) -> bool {\n    name == \"me\"\n}\n",
        );
        place
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.work().join(name), text).expect("a file");
    }

    pub(crate) fn read(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.work().join(name)).ok()
    }

    /// Everything allowed, sessions in the folder.
    pub(crate) fn settings(&self) -> AgentServerSettings {
        AgentServerSettings {
            path: Some(self.work()),
            allow_edit: true,
            enable_delegate: true,
            enable_mcp: true,
            speak: acp_dialect::DialectChoice::Auto,
            state: State::Folder(self.state()),
            ..AgentServerSettings::default()
        }
    }
}

pub(crate) fn server(settings: AgentServerSettings) -> Arc<AgentServer> {
    Arc::new(AgentServer::new(settings, &|_| None).expect("a server"))
}

/// A client on a link.
pub(crate) struct Talk {
    link: Link,
    next: i64,
    /// Everything the agent sent, in order.
    pub(crate) heard: Vec<Value>,
    /// Both sides, in order.
    pub(crate) log: Vec<(Direction, Frame)>,
    /// What permission requests are answered with.
    pub(crate) permission: &'static str,
}

impl Talk {
    /// Connects to the server.
    pub(crate) fn with(server: &Arc<AgentServer>) -> Self {
        let (ours, theirs) = memory(1 << 20);
        let server = server.clone();
        tokio::spawn(async move { server.serve(theirs).await });
        Self { link: ours, next: 0, heard: Vec::new(), log: Vec::new(), permission: "allow-once" }
    }

    /// A connection in version 1, initialized.
    pub(crate) async fn v1(server: &Arc<AgentServer>, capabilities: &Value) -> Self {
        let mut talk = Self::with(server);
        let params = json!({ "protocolVersion": 1, "clientCapabilities": capabilities });
        assert_eq!(talk.ask("initialize", &params).await["result"]["protocolVersion"], 1);
        talk
    }

    /// A connection in version 1 to an agent with everything allowed, and a session in its folder.
    pub(crate) async fn ready(place: &Place) -> (Self, String) {
        let mut talk = Self::v1(&server(place.settings()), &json!({})).await;
        let session = talk.session(&place.work()).await;
        (talk, session)
    }

    pub(crate) async fn session(&mut self, cwd: &Path) -> String {
        let new = self.ask("session/new", &json!({ "cwd": cwd, "mcpServers": [] })).await;
        new["result"]["sessionId"].as_str().unwrap_or_else(|| panic!("{new}")).to_owned()
    }

    pub(crate) async fn prompt(&mut self, session: &str, text: &str) -> Value {
        let params = json!({ "sessionId": session, "prompt": [{ "type": "text", "text": text }] });
        self.ask("session/prompt", &params).await
    }

    /// Sends a request and gives its id.
    pub(crate) async fn send(&mut self, method: &str, params: &Value) -> i64 {
        self.next += 1;
        let frame = Frame::request(&Id::Int(self.next), method, params);
        self.put(frame).await;
        self.next
    }

    pub(crate) async fn tell(&mut self, method: &str, params: &Value) {
        self.put(Frame::notification(method, params)).await;
    }

    async fn put(&mut self, frame: Frame) {
        self.log.push((Direction::ClientToAgent, frame.clone()));
        self.link.tx.send(frame.raw().clone()).await.expect("the agent is there");
    }

    /// Sends a request and waits for its response.
    pub(crate) async fn ask(&mut self, method: &str, params: &Value) -> Value {
        let id = self.send(method, params).await;
        self.answer(id).await
    }

    pub(crate) async fn answer(&mut self, id: i64) -> Value {
        self.until(|frame| frame["id"] == id && frame.get("method").is_none()).await
    }

    /// Reads until a frame is such; requests of the agent are answered on the way.
    pub(crate) async fn until(&mut self, is: impl Fn(&Value) -> bool) -> Value {
        loop {
            let frame = self.next_frame().await;
            if is(&frame) {
                return frame;
            }
        }
    }

    pub(crate) async fn next_frame(&mut self) -> Value {
        let arrival = tokio::time::timeout(PATIENCE, self.link.rx.recv()).await;
        let arrival = arrival.unwrap_or_else(|_| panic!("silence after {:#?}", self.heard.last()));
        let line = Frame::from(arrival.expect("the agent is there").line);
        let frame: Value = serde_json::from_slice(line.raw()).expect("JSON");
        self.heard.push(frame.clone());
        self.log.push((Direction::AgentToClient, line));
        if frame["method"] == "session/request_permission" && frame.get("id").is_some() {
            let chosen = json!({ "outcome": { "outcome": "selected", "optionId": self.permission } });
            let id = Id::parse(&frame["id"].to_string()).expect("an id");
            self.put(Frame::response(&id, &chosen)).await;
        }
        frame
    }

    /// Ends the connection and waits until the agent has ended too.
    pub(crate) async fn close(mut self) -> Vec<Value> {
        self.link.tx.close();
        while let Ok(Some(arrival)) = tokio::time::timeout(PATIENCE, self.link.rx.recv()).await {
            let line = Frame::from(arrival.line);
            self.heard.push(serde_json::from_slice(line.raw()).expect("JSON"));
        }
        self.heard
    }

    /// The bodies of version 1's updates.
    pub(crate) fn updates(&self) -> Vec<&Value> {
        let updates = self.heard.iter().filter(|frame| frame["method"] == "session/update");
        updates.map(|frame| &frame["params"]["update"]).collect()
    }

    /// What the agent said in version 1.
    pub(crate) fn words(&self) -> String {
        let said =
            self.updates().into_iter().filter(|update| update["sessionUpdate"] == "agent_message_chunk");
        said.filter_map(|update| update["content"]["text"].as_str()).collect()
    }
}
