//! crane: Rust SDK. Owns nothing: files and commands only through the client, asks before both.
use agent_client_protocol::v1::schema::*;
use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::{Agent, Client, Error, Stdio, UntypedMessage};
use serde_json::{json, Value};
use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::watch;

#[path = "../../mcp.rs"]
mod mcp;
use mcp::Mcp;

type Cx = ConnectionTo<Client>;
type Rx = watch::Receiver<bool>;
#[derive(Default)]
struct Nest {
    sessions: HashMap<String, Session>,
    caps: Value,
    count: u64,
}
#[derive(Default)]
struct Session {
    cwd: String,
    detail: String,
    turns: u64,
    calls: u64,
    heard: Vec<String>,
    running: Option<watch::Sender<bool>>,
    specs: Vec<Value>,
    mcp: Option<Vec<Mcp>>,
}
enum Fail {
    Stopped,
    Broke(String),
}
struct Turn {
    nest: Arc<Mutex<Nest>>,
    cx: Cx,
    sid: String,
    rx: Rx,
    fault: &'static str,
}

fn options(detail: &str) -> Value {
    json!([{"id":"detail","name":"Detail","category":"thought_level","type":"select","currentValue":detail,
        "options":[{"value":"low","name":"Low"},{"value":"high","name":"High"}]}])
}
async fn fired(rx: &mut Rx) {
    let _ = rx.wait_for(|x| *x).await;
}
fn missing(sid: &str) -> Error {
    Error::new(-32002, "Session not found").data(json!({"sessionId": sid}))
}
fn absolute(cwd: &str, name: &str) -> String {
    let mut parts: Vec<&str> = vec![];
    let joined = Path::new(cwd).join(name);
    let s = joined.to_string_lossy().to_string();
    for p in s.split('/') {
        match p {
            "" | "." => {}
            ".." => { parts.pop(); }
            p => parts.push(p),
        }
    }
    format!("/{}", parts.join("/"))
}

impl Turn {
    fn emit(&self, u: Value) {
        match serde_json::from_value::<SessionNotification>(json!({"sessionId":self.sid,"update":u})) {
            Ok(n) => { let _ = self.cx.send_notification(n); }
            Err(e) => eprintln!("bad update {e}"),
        }
    }
    fn say(&self, text: &str) {
        self.emit(json!({"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":text}}));
    }
    fn with<T>(&self, f: impl FnOnce(&mut Session) -> T) -> T {
        f(self.nest.lock().unwrap().sessions.get_mut(&self.sid).expect("live session"))
    }
    fn cap(&self, p: &str) -> bool {
        self.nest.lock().unwrap().caps.pointer(p) == Some(&json!(true))
    }
    async fn ask(&mut self, method: &str, mut params: Value) -> Result<Value, Fail> {
        params["sessionId"] = json!(self.sid);
        let msg = UntypedMessage::new(method, params).map_err(|e| Fail::Broke(e.message))?;
        let fut = self.cx.send_request(msg).block_task();
        tokio::pin!(fut);
        let mut rx = self.rx.clone();
        tokio::select! {
            r = &mut fut => r.map_err(|e| Fail::Broke(e.message)),
            _ = fired(&mut rx) => {
                let _ = tokio::time::timeout(Duration::from_secs(1), &mut fut).await;
                Err(Fail::Stopped)
            }
        }
    }
    async fn quiet(&self, method: &str, params: Value) -> Result<Value, Fail> {
        let mut params = params;
        params["sessionId"] = json!(self.sid);
        let msg = UntypedMessage::new(method, params).map_err(|e| Fail::Broke(e.message))?;
        tokio::time::timeout(Duration::from_secs(5), self.cx.send_request(msg).block_task()).await
            .map_err(|_| Fail::Broke("the client does not answer".into()))?.map_err(|e| Fail::Broke(e.message))
    }
    async fn nap(&self, ms: u64) -> Result<(), Fail> {
        let mut rx = self.rx.clone();
        tokio::select! { _ = fired(&mut rx) => Err(Fail::Stopped), _ = tokio::time::sleep(Duration::from_millis(ms)) => Ok(()) }
    }
    fn open_call(&self, title: &str, kind: &str, path: Option<&str>) -> String {
        let id = self.with(|s| { s.calls += 1; format!("crane#{}", s.calls) });
        let mut u = json!({"sessionUpdate":"tool_call","toolCallId":id,"title":title,"kind":kind,"status":"pending"});
        if let Some(p) = path { u["locations"] = json!([{"path":p}]); }
        self.emit(u);
        id
    }
    fn working(&self, id: &str) {
        self.emit(json!({"sessionUpdate":"tool_call_update","toolCallId":id,"status":"in_progress"}));
    }
    /// close the call with what came out and tell it
    fn close_call(&self, id: &str, r: Result<(String, Option<Value>), Fail>) -> Result<(), Fail> {
        let (status, text, content) = match &r {
            Ok((t, c)) => ("completed", t.clone(), c.clone()),
            Err(Fail::Broke(e)) => ("failed", e.clone(), None),
            Err(Fail::Stopped) => ("failed", "interrupted".to_string(), None),
        };
        let content = content.unwrap_or(json!([{"type":"content","content":{"type":"text","text":text}}]));
        self.emit(json!({"sessionUpdate":"tool_call_update","toolCallId":id,"status":status,"content":content}));
        match r {
            Ok((t, _)) => { self.say(&t); Ok(()) }
            Err(Fail::Broke(e)) => { self.say(&format!("No luck: {e}")); Ok(()) }
            Err(Fail::Stopped) => Err(Fail::Stopped),
        }
    }
    async fn permitted(&mut self, id: &str, title: &str) -> Result<(), Fail> {
        let r = self.ask("session/request_permission", json!({"toolCall":{"toolCallId":id,"title":title},"options":[
            {"optionId":"go","name":"Go ahead","kind":"allow_once"},{"optionId":"stay","name":"Leave it","kind":"reject_once"}]})).await?;
        match (r["outcome"]["outcome"].as_str(), r["outcome"]["optionId"].as_str()) {
            (Some("cancelled"), _) => Err(Fail::Stopped),
            (_, Some("go")) => Ok(()),
            _ => Err(Fail::Broke("you did not allow it".into())),
        }
    }
    async fn write(&mut self, name: &str, text: &str) -> Result<(), Fail> {
        let gate = if self.fault == "crane-write-gate" { "/fs/readTextFile" } else { "/fs/writeTextFile" };
        if !self.cap(gate) {
            self.say("Your client offers no way to write files.");
            return Ok(());
        }
        let path = absolute(&self.with(|s| s.cwd.clone()), name);
        let id = self.open_call(&format!("Write {name}"), "edit", Some(&path));
        let r = async {
            self.permitted(&id, &format!("Write {name}")).await?;
            self.working(&id);
            self.ask("fs/write_text_file", json!({"path":path,"content":text})).await?;
            Ok((format!("{name} is written."), None))
        }.await;
        self.close_call(&id, r)
    }
    async fn read(&mut self, name: &str) -> Result<(), Fail> {
        if !self.cap("/fs/readTextFile") {
            self.say("Your client offers no way to read files.");
            return Ok(());
        }
        let path = absolute(&self.with(|s| s.cwd.clone()), name);
        let id = self.open_call(&format!("Read {name}"), "read", Some(&path));
        self.working(&id);
        let r = self.ask("fs/read_text_file", json!({"path":path})).await.map(|v| (v["content"].as_str().unwrap_or("").to_string(), None));
        self.close_call(&id, r)
    }
    async fn run(&mut self, cmd: &str) -> Result<(), Fail> {
        if !self.cap("/terminal") {
            self.say("Your client has no terminal for me.");
            return Ok(());
        }
        let cwd = self.with(|s| s.cwd.clone());
        let id = self.open_call(cmd, "execute", None);
        let r = async {
            self.permitted(&id, cmd).await?;
            self.working(&id);
            let made = self.quiet("terminal/create", json!({"command":"sh","args":["-c",cmd],"cwd":cwd,"env":[{"name":"CRANE","value":"1"}],"outputByteLimit":65536})).await?;
            let t = made["terminalId"].as_str().unwrap_or("").to_string();
            let content = json!([{"type":"terminal","terminalId":t}]);
            self.emit(json!({"sessionUpdate":"tool_call_update","toolCallId":id,"content":content}));
            let msg = UntypedMessage::new("terminal/wait_for_exit", json!({"sessionId":self.sid,"terminalId":t})).map_err(|e| Fail::Broke(e.message))?;
            let wait = self.cx.send_request(msg).block_task();
            tokio::pin!(wait);
            let mut rx = self.rx.clone();
            let exit = tokio::select! { r = &mut wait => Some(r), _ = fired(&mut rx) => None };
            match exit {
                None => {
                    let _ = self.quiet("terminal/kill", json!({"terminalId":t})).await;
                    let _ = tokio::time::timeout(Duration::from_secs(1), &mut wait).await;
                    if self.fault != "crane-kill-norelease" {
                        let _ = self.quiet("terminal/release", json!({"terminalId":t})).await;
                    }
                    Err(Fail::Stopped)
                }
                Some(r) => {
                    let out = self.quiet("terminal/output", json!({"terminalId":t})).await;
                    let _ = self.quiet("terminal/release", json!({"terminalId":t})).await;
                    let out = out?["output"].as_str().unwrap_or("").to_string();
                    let code = r.map_err(|e| Fail::Broke(e.message))?["exitCode"].clone();
                    if code == json!(0) { Ok((format!("Done: {out}"), Some(content))) } else { Err(Fail::Broke(format!("exit code {code}: {out}"))) }
                }
            }
        }.await;
        self.close_call(&id, r)
    }
    async fn mcp(&mut self, name: &str, text: &str) -> Result<(), Fail> {
        let id = self.open_call(&format!("MCP tool {name}"), "other", None);
        self.working(&id);
        let (have, specs, cwd) = self.with(|s| (s.mcp.take(), s.specs.clone(), s.cwd.clone()));
        let mut list = match have {
            Some(l) => l,
            None => {
                let mut l = vec![];
                for s in &specs {
                    match Mcp::start(s, &cwd).await { Ok(m) => l.push(m), Err(e) => eprintln!("mcp: {e}") }
                }
                l
            }
        };
        let args: Value = text.find('{').and_then(|a| text.rfind('}').and_then(|b| serde_json::from_str(text.get(a..=b)?).ok())).unwrap_or(json!({}));
        let r = match list.iter_mut().find(|m| m.tools.iter().any(|t| t == name)) {
            None => Err(Fail::Broke(format!("there is no tool {name}"))),
            Some(m) => {
                let mut rx = self.rx.clone();
                tokio::select! {
                    r = m.call("tools/call", json!({"name":name,"arguments":args})) => r.map_err(Fail::Broke).map(|v| {
                        (v["content"].as_array().into_iter().flatten().filter_map(|c| c["text"].as_str()).collect::<String>(), None) }),
                    _ = fired(&mut rx) => Err(Fail::Stopped),
                }
            }
        };
        self.with(|s| s.mcp = Some(list));
        self.close_call(&id, r)
    }
    async fn play(&mut self, blocks: &[Value]) -> Result<(), Fail> {
        let text: String = blocks.iter().map(|b| match b["type"].as_str() {
            Some("text") => b["text"].as_str().unwrap_or("").to_string(),
            Some("resource_link") => format!("<{}>", b["uri"].as_str().unwrap_or("")),
            t => format!("[{}]", t.unwrap_or("?")),
        }).collect::<Vec<_>>().join(" ").trim().to_string();
        let low = text.to_lowercase();
        let (n, detail) = self.with(|s| { s.turns += 1; (s.turns, s.detail.clone()) });
        if n == 1 {
            self.emit(json!({"sessionUpdate":"available_commands_update","availableCommands":[
                {"name":"detail","description":"Set how much I think","input":{"hint":"low or high"}},{"name":"status","description":"Say how the session stands"}]}));
        }
        if n == 2 {
            self.emit(json!({"sessionUpdate":"session_info_update","title":text.chars().take(24).collect::<String>()}));
        }
        self.emit(json!({"sessionUpdate":"usage_update","used":n * 50,"size":4096}));
        if detail == "high" {
            self.emit(json!({"sessionUpdate":"agent_thought_chunk","content":{"type":"text","text":"Standing on one leg, thinking."}}));
        }
        if let Some(v) = text.strip_prefix("/detail") {
            let v = if v.contains("high") { "high" } else { "low" };
            self.with(|s| s.detail = v.into());
            self.emit(json!({"sessionUpdate":"config_option_update","configOptions":options(v)}));
            self.say(&format!("Detail is {v}."));
            return Ok(());
        }
        if text.starts_with("/status") {
            self.say(&format!("Turn {n} of this session."));
            return Ok(());
        }
        if low.contains("sign in") || low.contains("log in") {
            if !self.nest.lock().unwrap().caps["elicitation"]["url"].is_object() {
                self.say("Please sign in on the web page of the service yourself.");
                return Ok(());
            }
            let eid = format!("{}-sign-{n}", self.sid);
            match self.ask("elicitation/create", json!({"mode":"url","message":"Sign in to the bird service","elicitationId":eid,"url":"https://birds.example.com/sign-in"})).await {
                Ok(v) if v["action"] == "accept" => {
                    self.nap(100).await?;
                    if let Ok(m) = UntypedMessage::new("elicitation/complete", json!({"elicitationId":eid})) { let _ = self.cx.send_notification(m); }
                    self.say("The page was opened; I saw it finish.");
                }
                Ok(_) => self.say("Not signed in, then."),
                Err(Fail::Broke(e)) => self.say(&format!("I could not ask: {e}")),
                Err(e) => return Err(e),
            }
            return Ok(());
        }
        if low.contains("count ") || low.contains("slowly") || low.contains("long story") || low.contains("long essay") || low.contains("think for") || low.starts_with("plan") {
            let k: usize = low.split(|c: char| !c.is_ascii_digit()).filter_map(|x| x.parse().ok()).take(4).max().unwrap_or(4).min(60);
            for i in 0..=k {
                let entries: Vec<Value> = (0..k).map(|j| json!({"content":format!("Step {}", j + 1),"priority":"medium","status":if j < i {"completed"} else if j == i {"in_progress"} else {"pending"}})).collect();
                self.emit(json!({"sessionUpdate":"plan","entries":entries}));
                if i < k { self.nap(250).await?; }
            }
            self.say(&format!("All {k} steps are done."));
            return Ok(());
        }
        let word = |s: &str| s.split_whitespace().next().unwrap_or("").trim_matches(['"', '\'', '`', ',', '?', ':']).trim_end_matches('.').to_string();
        if let Some(i) = low.find("file ") {
            let rest = text[i + 5..].trim_start_matches("called ").trim_start_matches("named ").to_string();
            if low.contains("write") || low.contains("create") {
                let l = rest.to_lowercase();
                let body = ["with the text", "with text", "with content", "containing", "with"].iter().find_map(|k| l.find(k).map(|p| rest[p + k.len()..].trim_start_matches([':', ' ']).trim_matches(['"', '\'', '`']).to_string()));
                return self.write(&word(&rest), &body.unwrap_or_default()).await;
            }
            if low.contains("read") || low.contains("show") {
                return self.read(&word(&rest)).await;
            }
        }
        for k in ["run the command", "run command", "execute", "run"] {
            if let Some(i) = low.find(k) {
                let cmd = text[i + k.len()..].trim_start_matches([':', ' ']).trim_matches('`').to_string();
                return self.run(&cmd).await;
            }
        }
        if let (true, Some(i)) = (low.contains("call") || low.contains("use"), low.find("tool ")) {
            let name: String = text[i + 5..].trim_start_matches(['`', '"', ':', ' ']).chars().take_while(|c| c.is_alphanumeric() || "_-.".contains(*c)).collect();
            return self.mcp(&name, &text).await;
        }
        let before = self.with(|s| { let b = s.heard.join(" / "); s.heard.push(text.clone()); b });
        self.say(&format!("The crane heard: {text}{}", if before.is_empty() { String::new() } else { format!(" (earlier: {before})") }));
        Ok(())
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let fault: &'static str = Box::leak(std::env::var("FAULT").unwrap_or_default().into_boxed_str());
    let nest: Arc<Mutex<Nest>> = Default::default();
    let (n1, n2, n3, n4, n5) = (nest.clone(), nest.clone(), nest.clone(), nest.clone(), nest.clone());
    let end = Agent.v1().name("crane")
        .on_receive_request(async move |r: InitializeRequest, rs, _cx: Cx| {
            n1.lock().unwrap().caps = serde_json::to_value(&r.client_capabilities).unwrap_or_default();
            rs.respond_with_result(serde_json::from_value::<InitializeResponse>(json!({"protocolVersion":1,
                "agentInfo":{"name":"crane","title":"Crane","version":"0.1.0"},"agentCapabilities":{}})).map_err(Error::into_internal_error))
        }, agent_client_protocol::on_receive_request!())
        .on_receive_request(async move |r: NewSessionRequest, rs, _cx: Cx| {
            let p = serde_json::to_value(&r).unwrap_or_default();
            let cwd = p["cwd"].as_str().unwrap_or("").to_string();
            if !cwd.starts_with('/') {
                return rs.respond_with_error(Error::new(-32602, "cwd must be absolute"));
            }
            let specs = p["mcpServers"].as_array().cloned().unwrap_or_default();
            if specs.iter().any(|m| !m["command"].is_string()) {
                return rs.respond_with_error(Error::new(-32602, "Only stdio MCP servers are supported"));
            }
            let sid = {
                let mut g = n2.lock().unwrap();
                g.count += 1;
                let t = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos();
                let sid = format!("{:x}.{}", t, g.count);
                g.sessions.insert(sid.clone(), Session { cwd, detail: "low".into(), specs, ..Default::default() });
                sid
            };
            rs.respond_with_result(serde_json::from_value::<NewSessionResponse>(json!({"sessionId":sid,"configOptions":options("low")})).map_err(Error::into_internal_error))
        }, agent_client_protocol::on_receive_request!())
        .on_receive_request(async move |r: SetSessionConfigOptionRequest, rs, _cx: Cx| {
            let p = serde_json::to_value(&r).unwrap_or_default();
            let sid = p["sessionId"].as_str().unwrap_or("").to_string();
            let mut g = n3.lock().unwrap();
            let Some(s) = g.sessions.get_mut(&sid) else { return rs.respond_with_error(missing(&sid)) };
            let v = p["value"].as_str().unwrap_or("");
            if p["configId"] != "detail" || !["low", "high"].contains(&v) {
                return rs.respond_with_error(Error::new(-32602, "Unknown option or value"));
            }
            s.detail = v.into();
            rs.respond_with_result(serde_json::from_value::<SetSessionConfigOptionResponse>(json!({"configOptions":options(v)})).map_err(Error::into_internal_error))
        }, agent_client_protocol::on_receive_request!())
        .on_receive_request(async move |r: PromptRequest, rs, cx: Cx| {
            let sid = r.session_id.to_string();
            let blocks: Vec<Value> = r.prompt.iter().filter_map(|b| serde_json::to_value(b).ok()).collect();
            let rx = {
                let mut g = n4.lock().unwrap();
                let Some(s) = g.sessions.get_mut(&sid) else { return rs.respond_with_error(missing(&sid)) };
                if s.running.is_some() {
                    return rs.respond_with_error(Error::new(-32600, "One prompt at a time, please"));
                }
                let (tx, rx) = watch::channel(false);
                s.running = Some(tx);
                rx
            };
            let mut t = Turn { nest: n4.clone(), cx: cx.clone(), sid, rx, fault };
            cx.spawn(async move {
                let r = t.play(&blocks).await;
                let stopped = matches!(r, Err(Fail::Stopped)) || *t.rx.borrow();
                if let Err(Fail::Broke(e)) = r { t.say(&format!("Something broke: {e}")); }
                t.with(|s| s.running = None);
                rs.respond(PromptResponse::new(if stopped { StopReason::Cancelled } else { StopReason::EndTurn }))
            })
        }, agent_client_protocol::on_receive_request!())
        .on_receive_notification(async move |n: CancelNotification, _cx: Cx| {
            if let Some(tx) = n5.lock().unwrap().sessions.get(&n.session_id.to_string()).and_then(|s| s.running.as_ref()) { let _ = tx.send(true); }
            Ok(())
        }, agent_client_protocol::on_receive_notification!())
        .connect_to(Stdio::new()).await;
    if let Err(e) = end { eprintln!("{e:?}"); }
    nest.lock().unwrap().sessions.clear();
    tokio::time::sleep(Duration::from_millis(20)).await;
    std::process::exit(0);
}
