//! pike: no SDK, threads and serde_json only. Sessions on disk, load and list only.
use serde_json::{json, Value};
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::{channel, Sender};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

struct Session {
    cwd: String,
    history: Vec<Value>,
    word: Option<String>,
    mode: String,
    calls: u64,
    turn: Option<Turn>,
    mcp: Vec<McpSpec>,
    servers: Option<Vec<Mcp>>,
    open: bool,
}
#[derive(Clone)]
struct Turn {
    stop: Arc<AtomicBool>,
    by_request: Arc<AtomicBool>,
    id: Value,
}
#[derive(Clone)]
struct McpSpec {
    command: String,
    args: Vec<String>,
    env: Vec<(String, String)>,
}
struct Mcp {
    child: Child,
    out: BufReader<std::process::ChildStdout>,
    seq: u64,
    tools: Vec<String>,
}
impl Mcp {
    fn start(s: &McpSpec, cwd: &str) -> Result<Mcp, String> {
        let mut c = Command::new(&s.command);
        c.args(&s.args).current_dir(cwd).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        for (k, v) in &s.env {
            c.env(k, v);
        }
        let mut child = c.spawn().map_err(|e| e.to_string())?;
        let out = BufReader::new(child.stdout.take().unwrap());
        let mut m = Mcp { child, out, seq: 0, tools: vec![] };
        m.call("initialize", json!({"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"pike","version":"0.1.0"}}))?;
        m.post(&json!({"jsonrpc":"2.0","method":"notifications/initialized"}))?;
        let r = m.call("tools/list", json!({}))?;
        m.tools = r["tools"].as_array().into_iter().flatten().filter_map(|t| t["name"].as_str().map(String::from)).collect();
        Ok(m)
    }
    fn post(&mut self, v: &Value) -> Result<(), String> {
        writeln!(self.child.stdin.as_mut().unwrap(), "{v}").map_err(|e| e.to_string())
    }
    fn call(&mut self, method: &str, params: Value) -> Result<Value, String> {
        self.seq += 1;
        self.post(&json!({"jsonrpc":"2.0","id":self.seq,"method":method,"params":params}))?;
        loop {
            let mut l = String::new();
            if self.out.read_line(&mut l).map_err(|e| e.to_string())? == 0 {
                return Err("MCP server closed".into());
            }
            let Ok(v) = serde_json::from_str::<Value>(&l) else { continue };
            if v["id"] == json!(self.seq) && v.get("method").is_none() {
                return match v.get("error") {
                    Some(e) => Err(e["message"].as_str().unwrap_or("error").into()),
                    None => Ok(v["result"].clone()),
                };
            }
        }
    }
}
impl Drop for Mcp {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Pike {
    out: Mutex<std::io::Stdout>,
    sessions: Mutex<HashMap<String, Session>>,
    waiting: Mutex<HashMap<String, Sender<Value>>>,
    next: AtomicU64,
    ready: AtomicBool,
    dir: PathBuf,
    fault: String,
    children: Mutex<Vec<u32>>,
}
type Answer = Result<Value, (i64, &'static str)>;
const MODES: [(&str, &str); 2] = [("deep", "Deep water"), ("shallow", "Shallow water")];

impl Pike {
    fn send(&self, v: &Value) {
        let mut o = self.out.lock().unwrap();
        let _ = o.write_all(format!("{v}\n").as_bytes());
        let _ = o.flush();
    }
    fn update(&self, sid: &str, u: &Value) {
        self.send(&json!({"jsonrpc":"2.0","method":"session/update","params":{"sessionId":sid,"update":u}}));
    }
    /// send an update and keep it in the history of the session
    fn record(&self, sid: &str, u: Value) {
        self.update(sid, &u);
        if let Some(s) = self.sessions.lock().unwrap().get_mut(sid) {
            s.history.push(u);
        }
    }
    fn ask(&self, method: &str, params: Value, stop: &AtomicBool) -> Option<Value> {
        let id = format!("pike-{}", self.next.fetch_add(1, SeqCst));
        let (tx, rx) = channel();
        self.waiting.lock().unwrap().insert(id.clone(), tx);
        self.send(&json!({"jsonrpc":"2.0","id":id,"method":method,"params":params}));
        let mut since: Option<Instant> = None;
        loop {
            if let Ok(v) = rx.recv_timeout(Duration::from_millis(30)) {
                return Some(v);
            }
            if stop.load(SeqCst) && since.get_or_insert_with(Instant::now).elapsed() > Duration::from_secs(1) {
                self.waiting.lock().unwrap().remove(&id);
                return None;
            }
        }
    }
    fn file(&self, sid: &str) -> PathBuf {
        self.dir.join(format!("{sid}.json"))
    }
    fn save(&self, sid: &str) {
        let g = self.sessions.lock().unwrap();
        if let Some(s) = g.get(sid) {
            let v = json!({"cwd":s.cwd,"history":s.history,"word":s.word,"mode":s.mode,"calls":s.calls});
            let tmp = self.dir.join(format!("{sid}.tmp"));
            if std::fs::write(&tmp, v.to_string()).is_ok() {
                let _ = std::fs::rename(tmp, self.file(sid));
            }
        }
    }
    fn state(mode: &str) -> Value {
        json!({"modes":{"currentModeId":mode,"availableModes":MODES.iter().map(|(i,n)|json!({"id":i,"name":n})).collect::<Vec<_>>()}})
    }
    fn specs(p: &Value) -> Result<Vec<McpSpec>, (i64, &'static str)> {
        let list = p["mcpServers"].as_array().ok_or((-32602, "mcpServers must be an array"))?;
        let mut out = vec![];
        for m in list {
            let command = m["command"].as_str().ok_or((-32602, "Only stdio MCP servers are supported"))?.to_string();
            let args = m["args"].as_array().into_iter().flatten().filter_map(|a| a.as_str().map(String::from)).collect();
            let env = m["env"].as_array().into_iter().flatten().filter_map(|e| Some((e["name"].as_str()?.to_string(), e["value"].as_str()?.to_string()))).collect();
            out.push(McpSpec { command, args, env });
        }
        Ok(out)
    }
    fn cwd(p: &Value) -> Result<String, (i64, &'static str)> {
        let c = p["cwd"].as_str().ok_or((-32602, "cwd is missing"))?;
        if !Path::new(c).is_absolute() {
            return Err((-32602, "cwd must be absolute"));
        }
        Ok(c.to_string())
    }

    fn request(self: &Arc<Self>, method: &str, p: &Value) -> Answer {
        if method != "initialize" && !method.starts_with('_') && !self.ready.load(SeqCst) {
            return Err((-32600, "initialize comes first"));
        }
        match method {
            "initialize" => {
                let v = p["protocolVersion"].as_u64().filter(|v| *v <= 65535);
                if v.is_none() {
                    return Err((-32602, "protocolVersion must be a 16 bit integer"));
                }
                self.ready.store(true, SeqCst);
                Ok(json!({"protocolVersion":1,"agentInfo":{"name":"pike","version":"0.1.0"},"authMethods":[],
                    "agentCapabilities":{"loadSession":true,"promptCapabilities":{"image":true,"audio":true,"embeddedContext":true},
                    "mcpCapabilities":{"http":false,"sse":false},"sessionCapabilities":{"list":{}},"_meta":{"pike/stats":true}}}))
            }
            "_pike/stats" => Ok(json!({"sessions": self.sessions.lock().unwrap().len()})),
            "session/new" => {
                let (cwd, mcp) = (Self::cwd(p)?, Self::specs(p)?);
                let t = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
                let sid = format!("pike-{t:x}-{:x}-{}", std::process::id(), self.next.fetch_add(1, SeqCst));
                self.sessions.lock().unwrap().insert(sid.clone(), Session { cwd, history: vec![], word: None, mode: "deep".into(), calls: 0, turn: None, mcp, servers: None, open: true });
                let mut r = Self::state("deep");
                r["sessionId"] = json!(sid);
                Ok(r)
            }
            "session/load" => {
                let sid = p["sessionId"].as_str().ok_or((-32602, "sessionId is missing"))?;
                let (cwd, mcp) = (Self::cwd(p)?, Self::specs(p)?);
                if self.sessions.lock().unwrap().get(sid).is_some_and(|s| s.turn.is_some()) {
                    return Err((-32600, "A turn is running"));
                }
                let known = self.sessions.lock().unwrap().contains_key(sid);
                if !known {
                    if !sid.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
                        return Err((-32002, "Session not found"));
                    }
                    let v: Value = std::fs::read(self.file(sid)).ok().and_then(|b| serde_json::from_slice(&b).ok()).ok_or((-32002, "Session not found"))?;
                    self.sessions.lock().unwrap().insert(sid.to_string(), Session {
                        cwd: String::new(), history: v["history"].as_array().cloned().unwrap_or_default(), word: v["word"].as_str().map(String::from),
                        mode: v["mode"].as_str().unwrap_or("deep").into(), calls: v["calls"].as_u64().unwrap_or(0), turn: None, mcp: vec![], servers: None, open: true });
                }
                let (hist, mode) = {
                    let mut g = self.sessions.lock().unwrap();
                    let s = g.get_mut(sid).unwrap();
                    s.cwd = cwd;
                    s.mcp = mcp;
                    s.servers = None;
                    (s.history.clone(), s.mode.clone())
                };
                for u in hist {
                    if self.fault == "pike-reload-doubles" { self.record(sid, u) } else { self.update(sid, &u) }
                }
                self.save(sid);
                Ok(Self::state(&mode))
            }
            "session/list" => {
                if p.get("cursor").is_some_and(|c| !c.is_null()) {
                    return Err((-32602, "Unknown cursor"));
                }
                let want = p["cwd"].as_str();
                let mut list = vec![];
                for e in std::fs::read_dir(&self.dir).into_iter().flatten().flatten() {
                    let name = e.file_name().to_string_lossy().to_string();
                    let Some(sid) = name.strip_suffix(".json") else { continue };
                    let Some(v) = std::fs::read(e.path()).ok().and_then(|b| serde_json::from_slice::<Value>(&b).ok()) else { continue };
                    let cwd = v["cwd"].as_str().unwrap_or("/").to_string();
                    if want.is_none_or(|w| w == cwd) {
                        list.push((sid.to_string(), cwd));
                    }
                }
                list.sort();
                list.truncate(500);
                Ok(json!({"sessions": list.into_iter().map(|(i,c)| json!({"sessionId":i,"cwd":c})).collect::<Vec<_>>()}))
            }
            "session/set_mode" => {
                let (sid, m) = (p["sessionId"].as_str().ok_or((-32602, "sessionId is missing"))?, p["modeId"].as_str().ok_or((-32602, "modeId is missing"))?);
                let mut g = self.sessions.lock().unwrap();
                let s = g.get_mut(sid).ok_or((-32002, "Session not found"))?;
                if !MODES.iter().any(|x| x.0 == m) {
                    return Err((-32602, "Unknown mode"));
                }
                s.mode = m.into();
                Ok(json!({}))
            }
            _ => Err((-32601, "Method not found")),
        }
    }

    fn prompt(self: &Arc<Self>, id: Value, p: &Value) {
        let start = || -> Result<(String, Vec<Value>, Turn), (i64, &'static str)> {
            if !self.ready.load(SeqCst) {
                return Err((-32600, "initialize comes first"));
            }
            let sid = p["sessionId"].as_str().ok_or((-32602, "sessionId is missing"))?;
            let blocks = p["prompt"].as_array().ok_or((-32602, "prompt must be an array"))?.clone();
            for b in &blocks {
                let ok = match b["type"].as_str() {
                    Some("text") => b["text"].is_string(),
                    Some("image") | Some("audio") => b["data"].is_string() && b["mimeType"].is_string(),
                    Some("resource_link") => b["uri"].is_string() && b["name"].is_string(),
                    Some("resource") => b["resource"]["uri"].is_string() && (b["resource"]["text"].is_string() || b["resource"]["blob"].is_string()),
                    _ => false,
                };
                if !ok {
                    return Err((-32602, "Bad content block"));
                }
            }
            let mut g = self.sessions.lock().unwrap();
            let s = g.get_mut(sid).filter(|s| s.open).ok_or((-32002, "Session not found"))?;
            if s.turn.is_some() {
                return Err((-32600, "This session is busy"));
            }
            let t = Turn { stop: Default::default(), by_request: Default::default(), id: id.clone() };
            s.turn = Some(t.clone());
            for b in &blocks {
                s.history.push(json!({"sessionUpdate":"user_message_chunk","content":b}));
            }
            Ok((sid.to_string(), blocks, t))
        };
        match start() {
            Err((c, m)) => self.send(&json!({"jsonrpc":"2.0","id":id,"error":{"code":c,"message":m}})),
            Ok((sid, blocks, t)) => {
                let me = self.clone();
                std::thread::spawn(move || {
                    let reply = me.turn(&sid, &blocks, &t);
                    let stopped = t.stop.load(SeqCst);
                    if !stopped {
                        me.record(&sid, json!({"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":reply}}));
                    }
                    me.save(&sid);
                    if let Some(s) = me.sessions.lock().unwrap().get_mut(&sid) {
                        s.turn = None;
                    }
                    if t.by_request.load(SeqCst) {
                        me.send(&json!({"jsonrpc":"2.0","id":t.id,"error":{"code":-32800,"message":"Request cancelled"}}));
                    } else {
                        me.send(&json!({"jsonrpc":"2.0","id":t.id,"result":{"stopReason":if stopped {"cancelled"} else {"end_turn"}}}));
                    }
                });
            }
        }
    }

    /// one turn; the returned text is the answer
    fn turn(&self, sid: &str, blocks: &[Value], t: &Turn) -> String {
        let text: String = blocks.iter().filter_map(|b| b["text"].as_str()).collect::<Vec<_>>().join(" ");
        let low = text.to_lowercase();
        if low.contains("remember") {
            if let Some(w) = text.trim().trim_end_matches('.').rsplit([' ', ':']).next() {
                let w = w.trim_matches(['"', '\'', '`']).to_string();
                self.sessions.lock().unwrap().get_mut(sid).unwrap().word = Some(w.clone());
                return format!("The pike remembers {w}.");
            }
        }
        if low.contains("word") && (low.contains("what") || low.contains("recall") || low.contains("which")) {
            let w = self.sessions.lock().unwrap().get(sid).and_then(|s| s.word.clone());
            return w.map_or("No word was given.".into(), |w| format!("Your word: {w}"));
        }
        if low.contains("count ") || low.contains("slowly") || low.contains("long story") || low.contains("long essay") || low.contains("think for") {
            let n: u64 = low.split(|c: char| !c.is_ascii_digit()).filter_map(|x| x.parse().ok()).take(4).max().unwrap_or(5).min(60);
            for i in 1..=n {
                self.update(sid, &json!({"sessionUpdate":"agent_thought_chunk","content":{"type":"text","text":format!("{i}... ")}}));
                for _ in 0..10 {
                    if t.stop.load(SeqCst) {
                        return String::new();
                    }
                    std::thread::sleep(Duration::from_millis(20));
                }
            }
            return format!("I counted to {n}.");
        }
        if low.contains("change mode") || low.contains("dive") || low.contains("surface") {
            let m = if low.contains("surface") { "shallow" } else { "deep" };
            self.sessions.lock().unwrap().get_mut(sid).unwrap().mode = m.into();
            self.update(sid, &json!({"sessionUpdate":"current_mode_update","currentModeId":m}));
            return format!("Now in {m} water.");
        }
        if let Some(cmd) = low.find("run command").map(|i| text[i + 11..].trim_start_matches([':', ' ']).trim_matches('`').to_string()) {
            return self.run(sid, &cmd, t);
        }
        if let Some(i) = low.find("tool ") {
            if low.contains("call") || low.contains("use") {
                let name: String = text[i + 5..].trim_start_matches(['`', '"', ':', ' ']).chars().take_while(|c| c.is_alphanumeric() || "_-.".contains(*c)).collect();
                return self.mcp(sid, &name, &text);
            }
        }
        let kinds: Vec<&str> = blocks.iter().filter_map(|b| b["type"].as_str()).filter(|t| *t != "text").collect();
        format!("Pike: {text}{}", if kinds.is_empty() { String::new() } else { format!(" with {}", kinds.join(", ")) })
    }
    fn call_id(&self, sid: &str) -> String {
        let mut g = self.sessions.lock().unwrap();
        let s = g.get_mut(sid).unwrap();
        s.calls += 1;
        format!("c{}", s.calls)
    }
    fn finish(&self, sid: &str, call: &mut Value, status: &str, text: &str) {
        let content = json!([{"type":"content","content":{"type":"text","text":text}}]);
        self.update(sid, &json!({"sessionUpdate":"tool_call_update","toolCallId":call["toolCallId"],"status":status,"content":content}));
        call["status"] = json!(status);
        call["content"] = content;
        self.sessions.lock().unwrap().get_mut(sid).unwrap().history.push(call.clone());
    }
    fn run(&self, sid: &str, cmd: &str, t: &Turn) -> String {
        use std::os::unix::process::CommandExt;
        let id = self.call_id(sid);
        let mut call = json!({"sessionUpdate":"tool_call","toolCallId":id,"title":cmd,"kind":"execute","status":"pending"});
        self.update(sid, &call);
        let r = self.ask("session/request_permission", json!({"sessionId":sid,"toolCall":{"toolCallId":id,"title":cmd},
            "options":[{"optionId":"ok","name":"Run it","kind":"allow_once"},{"optionId":"nok","name":"Do not","kind":"reject_once"}]}), &t.stop);
        let o = r.as_ref().map(|v| v["result"]["outcome"].clone()).unwrap_or(Value::Null);
        if o["outcome"] == "cancelled" {
            t.stop.store(true, SeqCst);
        }
        if t.stop.load(SeqCst) {
            self.finish(sid, &mut call, "failed", "cancelled");
            return String::new();
        }
        if o["optionId"] != "ok" {
            self.finish(sid, &mut call, "failed", "not permitted");
            return "Then not.".into();
        }
        self.update(sid, &json!({"sessionUpdate":"tool_call_update","toolCallId":id,"status":"in_progress"}));
        let cwd = self.sessions.lock().unwrap().get(sid).unwrap().cwd.clone();
        let child = Command::new("sh").arg("-c").arg(cmd).current_dir(cwd).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0).spawn();
        let mut child = match child {
            Ok(c) => c,
            Err(e) => {
                self.finish(sid, &mut call, "failed", &e.to_string());
                return "It could not start.".into();
            }
        };
        let pid = child.id();
        self.children.lock().unwrap().push(pid);
        let mut so = child.stdout.take().unwrap();
        let reader = std::thread::spawn(move || {
            let mut b = vec![];
            let _ = std::io::Read::read_to_end(&mut so, &mut b);
            String::from_utf8_lossy(&b).to_string()
        });
        let code = loop {
            if let Ok(Some(c)) = child.try_wait() {
                break c;
            }
            if t.stop.load(SeqCst) {
                kill_group(pid);
            }
            std::thread::sleep(Duration::from_millis(15));
        };
        let out = reader.join().unwrap_or_default();
        self.children.lock().unwrap().retain(|p| *p != pid);
        if t.stop.load(SeqCst) {
            self.finish(sid, &mut call, "failed", "cancelled");
            return String::new();
        }
        if code.success() {
            self.finish(sid, &mut call, "completed", &out);
            format!("It printed: {out}")
        } else {
            self.finish(sid, &mut call, "failed", &format!("{code}: {out}"));
            format!("It ended badly: {code}")
        }
    }
    fn mcp(&self, sid: &str, name: &str, text: &str) -> String {
        let id = self.call_id(sid);
        let mut call = json!({"sessionUpdate":"tool_call","toolCallId":id,"title":format!("Tool {name}"),"kind":"other","status":"in_progress"});
        self.update(sid, &call);
        let (mut servers, specs, cwd) = {
            let mut g = self.sessions.lock().unwrap();
            let s = g.get_mut(sid).unwrap();
            (s.servers.take(), s.mcp.clone(), s.cwd.clone())
        };
        let list = servers.get_or_insert_with(|| specs.iter().filter_map(|s| Mcp::start(s, &cwd).map_err(|e| eprintln!("mcp: {e}")).ok()).collect());
        let args: Value = text.find('{').and_then(|a| text.rfind('}').and_then(|b| serde_json::from_str(text.get(a..=b)?).ok())).unwrap_or(json!({}));
        let r = match list.iter_mut().find(|m| m.tools.iter().any(|t| t == name)) {
            Some(m) => m.call("tools/call", json!({"name":name,"arguments":args})),
            None => Err(format!("no tool {name}")),
        };
        if let Some(s) = self.sessions.lock().unwrap().get_mut(sid) {
            s.servers = servers;
        }
        match r {
            Ok(v) => {
                let out: String = v["content"].as_array().into_iter().flatten().filter_map(|c| c["text"].as_str()).collect();
                let bad = v["isError"] == true;
                self.finish(sid, &mut call, if bad { "failed" } else { "completed" }, &out);
                format!("The tool says: {out}")
            }
            Err(e) => {
                self.finish(sid, &mut call, "failed", &e);
                format!("The tool failed: {e}")
            }
        }
    }
}
fn kill_group(pid: u32) {
    let _ = Command::new("sh").arg("-c").arg(format!("kill -9 -{pid}")).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
}

fn main() {
    let home = std::env::var("PIKE_HOME").map(PathBuf::from).unwrap_or_else(|_| PathBuf::from(std::env::var("HOME").unwrap_or("/tmp".into())).join(".pike"));
    let _ = std::fs::create_dir_all(&home);
    let pike = Arc::new(Pike {
        out: Mutex::new(std::io::stdout()), sessions: Default::default(), waiting: Default::default(), next: AtomicU64::new(1),
        ready: AtomicBool::new(false), dir: home, fault: std::env::var("FAULT").unwrap_or_default(), children: Default::default(),
    });
    let refuse = |c: i64, m: &str| pike.send(&json!({"jsonrpc":"2.0","id":null,"error":{"code":c,"message":m}}));
    let mut input = std::io::stdin().lock();
    let mut buf = vec![];
    loop {
        buf.clear();
        match input.read_until(b'\n', &mut buf) {
            Ok(0) | Err(_) => break,
            Ok(_) => {}
        }
        if buf.iter().all(|b| b.is_ascii_whitespace()) {
            continue;
        }
        let Ok(v) = serde_json::from_slice::<Value>(&buf) else {
            refuse(-32700, "Parse error");
            continue;
        };
        if !v.is_object() || v["jsonrpc"] != "2.0" {
            refuse(-32600, "Invalid request");
            continue;
        }
        let id = v.get("id").cloned();
        let id_ok = id.as_ref().is_none_or(|i| i.is_null() || i.is_string() || i.is_i64() || i.is_u64());
        let Some(method) = v.get("method") else {
            if id_ok && id.is_some() && (v.get("result").is_some() || v.get("error").is_some()) {
                if let Some(tx) = id.as_ref().and_then(|i| i.as_str()).and_then(|i| pike.waiting.lock().unwrap().remove(i)) {
                    let _ = tx.send(v);
                }
            } else {
                refuse(-32600, "Invalid request");
            }
            continue;
        };
        let params = v.get("params").cloned().unwrap_or(json!({}));
        let params_ok = params.is_object() || params.is_array() || params.is_null();
        let (Some(method), true, true) = (method.as_str(), id_ok, params_ok) else {
            refuse(-32600, "Invalid request");
            continue;
        };
        match id {
            None => match method {
                "session/cancel" => {
                    let g = pike.sessions.lock().unwrap();
                    if pike.fault == "pike-cancel-cross" {
                        for t in g.values().filter_map(|s| s.turn.as_ref()) {
                            t.stop.store(true, SeqCst);
                        }
                    } else if let Some(t) = params["sessionId"].as_str().and_then(|s| g.get(s)).and_then(|s| s.turn.as_ref()) {
                        t.stop.store(true, SeqCst);
                    }
                }
                "$/cancel_request" => {
                    for s in pike.sessions.lock().unwrap().values() {
                        if let Some(t) = s.turn.as_ref().filter(|t| params.get("requestId") == Some(&t.id)) {
                            t.by_request.store(true, SeqCst);
                            t.stop.store(true, SeqCst);
                        }
                    }
                }
                _ => {}
            },
            Some(id) if method == "session/prompt" => pike.prompt(id, &params),
            Some(id) => match pike.request(method, &params) {
                Ok(r) => pike.send(&json!({"jsonrpc":"2.0","id":id,"result":r})),
                Err((c, m)) => pike.send(&json!({"jsonrpc":"2.0","id":id,"error":{"code":c,"message":m}})),
            },
        }
    }
    for p in pike.children.lock().unwrap().iter() {
        kill_group(*p);
    }
    pike.sessions.lock().unwrap().clear();
    std::process::exit(0);
}
