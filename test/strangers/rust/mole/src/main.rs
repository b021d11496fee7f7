//! mole: Rust SDK. In-memory sessions (load, resume, list, close, delete, extra roots),
//! reads its own files inside the roots, connects MCP servers at once, queues prompts.
use agent_client_protocol::v1::schema::*;
use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::{Agent, Client, Error, Stdio};
use serde_json::{json, Value};
use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::watch;

#[path = "../../mcp.rs"]
mod mcp;
use mcp::Mcp;

type Cx = ConnectionTo<Client>;
type Shared = Arc<Mutex<State>>;
#[derive(Default)]
struct State {
    sessions: BTreeMap<String, Sess>,
    caps: Value,
    next: u64,
    fault: String,
}
#[derive(Default)]
struct Sess {
    cwd: String,
    extra: Vec<String>,
    history: Vec<Value>,
    word: Option<String>,
    calls: u64,
    messages: u64,
    title: Option<String>,
    open: bool,
    dropped: bool,
    noticed: bool,
    mcp: Vec<Arc<tokio::sync::Mutex<Mcp>>>,
    lock: Arc<tokio::sync::Mutex<()>>,
    turns: Vec<(u64, watch::Sender<bool>)>,
}
fn bad(why: &str) -> Error {
    Error::new(-32602, why)
}
fn unknown(sid: &str) -> Error {
    Error::new(-32002, "Session not found").data(json!({"sessionId": sid}))
}
fn update(cx: &Cx, sid: &str, u: Value) {
    match serde_json::from_value::<SessionNotification>(json!({"sessionId":sid,"update":u})) {
        Ok(n) => { let _ = cx.send_notification(n); }
        Err(e) => eprintln!("bad update: {e}"),
    }
}
fn setup(p: &Value) -> Result<(String, Vec<String>, Vec<Value>), Error> {
    let cwd = p["cwd"].as_str().unwrap_or("").to_string();
    if !Path::new(&cwd).is_absolute() {
        return Err(bad("cwd must be absolute"));
    }
    let mut extra = vec![];
    for d in p["additionalDirectories"].as_array().into_iter().flatten() {
        let d = d.as_str().unwrap_or("");
        if !Path::new(d).is_absolute() {
            return Err(bad("additionalDirectories must be absolute"));
        }
        extra.push(d.to_string());
    }
    let mcp = p["mcpServers"].as_array().cloned().unwrap_or_default();
    if mcp.iter().any(|m| !m["command"].is_string()) {
        return Err(bad("Only stdio MCP servers are supported"));
    }
    Ok((cwd, extra, mcp))
}
async fn connect(specs: &[Value], cwd: &str) -> Vec<Arc<tokio::sync::Mutex<Mcp>>> {
    let mut v = vec![];
    for s in specs {
        match Mcp::start(s, cwd).await {
            Ok(m) => v.push(Arc::new(tokio::sync::Mutex::new(m))),
            Err(e) => eprintln!("mcp: {e}"),
        }
    }
    v
}
/// load and resume; replay tells which
async fn reopen(st: &Shared, cx: &Cx, p: &Value, replay: bool) -> Result<Value, Error> {
    let (cwd, extra, specs) = setup(p)?;
    let sid = p["sessionId"].as_str().unwrap_or("").to_string();
    {
        let g = st.lock().unwrap();
        let s = g.sessions.get(&sid).ok_or_else(|| unknown(&sid))?;
        if !s.turns.is_empty() {
            return Err(Error::new(-32600, "A turn is running in this session"));
        }
    }
    let mcp = connect(&specs, &cwd).await;
    let replayed = {
        let mut g = st.lock().unwrap();
        let fault = g.fault.clone();
        let s = g.sessions.get_mut(&sid).ok_or_else(|| unknown(&sid))?;
        let was_open = s.open;
        s.cwd = cwd;
        if !(fault == "mole-stale-roots" && extra.is_empty()) {
            s.extra = extra;
        }
        s.mcp = mcp;
        s.open = true;
        s.dropped = false;
        if replay || (fault == "mole-resume-after-close" && !was_open) { s.history.clone() } else { vec![] }
    };
    for u in replayed {
        update(cx, &sid, u);
    }
    Ok(json!({}))
}

fn tidy(p: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for c in p.components() {
        match c {
            Component::ParentDir => { out.pop(); }
            Component::CurDir => {}
            c => out.push(c),
        }
    }
    out
}
async fn nap(rx: &mut watch::Receiver<bool>, ms: u64) -> bool {
    tokio::select! { _ = rx.wait_for(|x| *x) => true, _ = tokio::time::sleep(Duration::from_millis(ms)) => false }
}
async fn say(st: &Shared, cx: &Cx, sid: &str, text: &str) {
    let id = {
        let mut g = st.lock().unwrap();
        let Some(s) = g.sessions.get_mut(sid) else { return };
        s.messages += 1;
        let id = format!("{sid}/m{}", s.messages);
        s.history.push(json!({"sessionUpdate":"agent_message_chunk","messageId":id,"content":{"type":"text","text":text}}));
        id
    };
    for w in text.split_inclusive(' ') {
        update(cx, sid, json!({"sessionUpdate":"agent_message_chunk","messageId":id,"content":{"type":"text","text":w}}));
    }
}
async fn tool<F: std::future::Future<Output = Result<String, String>>>(st: &Shared, cx: &Cx, sid: &str, rx: &mut watch::Receiver<bool>, title: String, kind: &str, path: Option<&str>, work: F) -> Option<Result<String, String>> {
    let mut call = {
        let mut g = st.lock().unwrap();
        let s = g.sessions.get_mut(sid)?;
        s.calls += 1;
        json!({"sessionUpdate":"tool_call","toolCallId":format!("dig-{}", s.calls),"title":title,"kind":kind,"status":"in_progress","name":kind})
    };
    if let Some(p) = path {
        call["locations"] = json!([{"path":p}]);
    }
    update(cx, sid, call.clone());
    let r = tokio::select! { r = work => Some(r), _ = rx.wait_for(|x| *x) => None };
    let (status, text) = match &r {
        Some(Ok(t)) => ("completed", t.clone()),
        Some(Err(e)) => ("failed", e.clone()),
        None => ("failed", "stopped".into()),
    };
    let content = json!([{"type":"content","content":{"type":"text","text":text}}]);
    update(cx, sid, json!({"sessionUpdate":"tool_call_update","toolCallId":call["toolCallId"],"status":status,"content":content}));
    call["status"] = json!(status);
    call["content"] = content;
    if let Some(s) = st.lock().unwrap().sessions.get_mut(sid) {
        s.history.push(call);
    }
    r
}
/// the turn; true = cancelled
async fn turn(st: &Shared, cx: &Cx, sid: &str, blocks: &[Value], rx: &mut watch::Receiver<bool>) -> bool {
    if *rx.borrow() {
        return true;
    }
    let text: String = blocks.iter().filter_map(|b| b["text"].as_str()).collect::<Vec<_>>().join(" ");
    let low = text.to_lowercase();
    let (cwd, extra, mcp, notice) = {
        let mut g = st.lock().unwrap();
        let wants = g.caps["session"]["notices"].is_object();
        let Some(s) = g.sessions.get_mut(sid) else { return true };
        s.messages += 1;
        let id = format!("{sid}/m{}", s.messages);
        for b in blocks {
            s.history.push(json!({"sessionUpdate":"user_message_chunk","messageId":id,"content":b}));
        }
        let notice = wants && !s.noticed;
        s.noticed = true;
        (s.cwd.clone(), s.extra.clone(), s.mcp.clone(), notice)
    };
    if notice {
        update(cx, sid, json!({"sessionUpdate":"notice","severity":"info","title":"The mole works in the dark"}));
    }
    if low.contains("remember") {
        let w = text.trim().trim_end_matches('.').rsplit([' ', ':']).next().unwrap_or("").trim_matches(['"', '\'', '`']).to_string();
        if let Some(s) = st.lock().unwrap().sessions.get_mut(sid) {
            s.word = Some(w.clone());
        }
        say(st, cx, sid, &format!("Stored {w} in the burrow.")).await;
    } else if low.contains("word") && ["what", "which", "recall", "tell"].iter().any(|k| low.contains(k)) {
        let w = st.lock().unwrap().sessions.get(sid).and_then(|s| s.word.clone());
        say(st, cx, sid, &w.map_or("The burrow is empty.".into(), |w| format!("In the burrow lies {w}."))).await;
    } else if low.contains("count ") || low.contains("slowly") || low.contains("long story") || low.contains("long essay") || low.contains("think for") {
        let n: u64 = low.split(|c: char| !c.is_ascii_digit()).filter_map(|x| x.parse().ok()).take(4).max().unwrap_or(6).min(80);
        for i in 1..=n {
            update(cx, sid, json!({"sessionUpdate":"plan","entries":[{"content":format!("Dig to {n}"),"priority":"high","status":"in_progress"},{"content":"Come up","priority":"low","status":"pending"}]}));
            say(st, cx, sid, &format!("{i} ")).await;
            if nap(rx, 200).await {
                return true;
            }
        }
        update(cx, sid, json!({"sessionUpdate":"plan","entries":[{"content":format!("Dig to {n}"),"priority":"high","status":"completed"},{"content":"Come up","priority":"low","status":"completed"}]}));
    } else if let (true, Some(i)) = (low.contains("read"), low.find("file ")) {
        let name = text[i + 5..].trim_start_matches("called ").trim_start_matches("named ").split_whitespace().next().unwrap_or("").trim_matches(['"', '\'', '`', ',', '?']).trim_end_matches('.').to_string();
        let path = tidy(&Path::new(&cwd).join(&name));
        let shown = path.to_string_lossy().to_string();
        let inside = std::iter::once(&cwd).chain(extra.iter()).any(|r| path.starts_with(r));
        let work = async {
            if !inside {
                return Err(format!("{} is outside of the roots", path.display()));
            }
            std::fs::read(&path).map(|b| String::from_utf8_lossy(&b).to_string()).map_err(|e| e.to_string())
        };
        match tool(st, cx, sid, rx, format!("Read {name}"), "read", Some(&shown), work).await {
            Some(Ok(t)) => say(st, cx, sid, &format!("It contains: {t}")).await,
            Some(Err(e)) => say(st, cx, sid, &format!("I cannot: {e}")).await,
            None => return true,
        }
    } else if let (true, Some(i)) = (low.contains("call") || low.contains("use"), low.find("tool ")) {
        let name: String = text[i + 5..].trim_start_matches(['`', '"', ':', ' ']).chars().take_while(|c| c.is_alphanumeric() || "_-.".contains(*c)).collect();
        let args: Value = text.find('{').and_then(|a| text.rfind('}').and_then(|b| serde_json::from_str(text.get(a..=b)?).ok())).unwrap_or(json!({}));
        let work = async {
            for m in &mcp {
                let mut m = m.lock().await;
                if m.tools.contains(&name) {
                    let r = m.call("tools/call", json!({"name":name,"arguments":args})).await?;
                    let out: String = r["content"].as_array().into_iter().flatten().filter_map(|c| c["text"].as_str()).collect();
                    return if r["isError"] == true { Err(out) } else { Ok(out) };
                }
            }
            Err(format!("no tool {name}"))
        };
        match tool(st, cx, sid, rx, format!("Tool {name}"), "other", None, work).await {
            Some(Ok(t)) | Some(Err(t)) => say(st, cx, sid, &format!("The tool: {t}")).await,
            None => return true,
        }
    } else {
        say(st, cx, sid, &format!("The mole hears: {text}")).await;
    }
    *rx.borrow()
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let st: Shared = Arc::new(Mutex::new(State { fault: std::env::var("FAULT").unwrap_or_default(), ..Default::default() }));
    macro_rules! with { ($s:ident; $b:expr) => {{ let $s = $s.clone(); $b }} }
    let run = Agent.v1().name("mole")
        .on_receive_request(with!(st; async move |r: InitializeRequest, rs, _cx| {
            st.lock().unwrap().caps = serde_json::to_value(&r.client_capabilities).unwrap_or_default();
            rs.respond_with_result(serde_json::from_value::<InitializeResponse>(json!({"protocolVersion":1,"agentInfo":{"name":"mole","version":"1.2.0"},
                "agentCapabilities":{"loadSession":true,"promptCapabilities":{"embeddedContext":true},
                "sessionCapabilities":{"list":{},"resume":{},"close":{},"delete":{},"additionalDirectories":{}}}})).map_err(Error::into_internal_error))
        }), agent_client_protocol::on_receive_request!())
        .on_receive_request(with!(st; async move |r: NewSessionRequest, rs, cx: Cx| {
            let p = serde_json::to_value(&r).unwrap_or_default();
            let st = st.clone();
            let cx2 = cx.clone();
            cx.spawn(async move {
                let (cwd, extra, specs) = match setup(&p) { Ok(x) => x, Err(e) => return rs.respond_with_error(e) };
                let mcp = connect(&specs, &cwd).await;
                let sid = {
                    let mut g = st.lock().unwrap();
                    g.next += 1;
                    let t = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_micros();
                    let sid = format!("mole-{t}-{}", g.next);
                    g.sessions.insert(sid.clone(), Sess { cwd, extra, mcp, open: true, title: Some("New burrow".into()), ..Default::default() });
                    sid
                };
                rs.respond(NewSessionResponse::new(sid.clone()))?;
                update(&cx2, &sid, json!({"sessionUpdate":"session_info_update","title":"New burrow"}));
                Ok(())
            })
        }), agent_client_protocol::on_receive_request!())
        .on_receive_request(with!(st; async move |r: LoadSessionRequest, rs, cx: Cx| {
            let p = serde_json::to_value(&r).unwrap_or_default();
            let (st, cx2) = (st.clone(), cx.clone());
            cx.spawn(async move {
                let r = reopen(&st, &cx2, &p, true).await;
                rs.respond_with_result(r.map(|_| LoadSessionResponse::new()))
            })
        }), agent_client_protocol::on_receive_request!())
        .on_receive_request(with!(st; async move |r: ResumeSessionRequest, rs, cx: Cx| {
            let p = serde_json::to_value(&r).unwrap_or_default();
            let (st, cx2) = (st.clone(), cx.clone());
            cx.spawn(async move {
                let r = reopen(&st, &cx2, &p, false).await;
                rs.respond_with_result(r.map(|_| ResumeSessionResponse::new()))
            })
        }), agent_client_protocol::on_receive_request!())
        .on_receive_request(with!(st; async move |r: ListSessionsRequest, rs, _cx: Cx| {
            let p = serde_json::to_value(&r).unwrap_or_default();
            let g = st.lock().unwrap();
            let all: Vec<_> = g.sessions.iter().filter(|(_, s)| p["cwd"].as_str().is_none_or(|c| c == s.cwd)).collect();
            let at = match p["cursor"].as_str() {
                None => 0,
                Some(c) => match c.strip_prefix("after:").and_then(|id| all.iter().position(|(k, _)| k.as_str() == id)) {
                    Some(i) => i + 1,
                    None => return rs.respond_with_error(bad("Invalid cursor")),
                },
            };
            let page: Vec<Value> = all.iter().skip(at).take(10).map(|(k, s)| {
                let mut v = json!({"sessionId":k,"cwd":s.cwd,"title":s.title});
                if !s.extra.is_empty() { v["additionalDirectories"] = json!(s.extra); }
                v
            }).collect();
            let mut out = json!({"sessions":page});
            if all.len() > at + 10 { out["nextCursor"] = json!(format!("after:{}", all[at + 9].0)); }
            rs.respond_with_result(serde_json::from_value::<ListSessionsResponse>(out).map_err(Error::into_internal_error))
        }), agent_client_protocol::on_receive_request!())
        .on_receive_request(with!(st; async move |r: CloseSessionRequest, rs, cx: Cx| {
            let sid = r.session_id.to_string();
            let st = st.clone();
            cx.spawn(async move {
                if !end_session(&st, &sid).await { return rs.respond_with_error(unknown(&sid)); }
                rs.respond(CloseSessionResponse::new())
            })
        }), agent_client_protocol::on_receive_request!())
        .on_receive_request(with!(st; async move |r: DeleteSessionRequest, rs, cx: Cx| {
            let sid = r.session_id.to_string();
            let st = st.clone();
            cx.spawn(async move {
                end_session(&st, &sid).await;
                st.lock().unwrap().sessions.remove(&sid);
                rs.respond(DeleteSessionResponse::new())
            })
        }), agent_client_protocol::on_receive_request!())
        .on_receive_request(with!(st; async move |r: PromptRequest, rs, cx: Cx| {
            let sid = r.session_id.to_string();
            let blocks: Vec<Value> = r.prompt.iter().filter_map(|b| serde_json::to_value(b).ok()).collect();
            let started = {
                let mut g = st.lock().unwrap();
                g.next += 1;
                let n = g.next;
                g.sessions.get_mut(&sid).filter(|s| s.open).map(|s| {
                    let (tx, rx) = watch::channel(false);
                    s.turns.push((n, tx));
                    (n, rx, s.lock.clone())
                })
            };
            let Some((n, mut rx, lock)) = started else { return rs.respond_with_error(unknown(&sid)) };
            let (st, cx2) = (st.clone(), cx.clone());
            cx.spawn(async move {
                let gate = lock.lock().await; // one after the other
                let stopped = turn(&st, &cx2, &sid, &blocks, &mut rx).await;
                drop(gate);
                let dropped = {
                    let mut g = st.lock().unwrap();
                    g.sessions.get_mut(&sid).map(|s| { s.turns.retain(|t| t.0 != n); s.dropped }).unwrap_or(false)
                };
                if dropped {
                    std::mem::forget(rs);
                    return Ok(());
                }
                rs.respond(PromptResponse::new(if stopped { StopReason::Cancelled } else { StopReason::EndTurn }))
            })
        }), agent_client_protocol::on_receive_request!())
        .on_receive_notification(with!(st; async move |n: CancelNotification, _cx: Cx| {
            if let Some(s) = st.lock().unwrap().sessions.get(&n.session_id.to_string()) {
                for t in &s.turns { let _ = t.1.send(true); }
            }
            Ok(())
        }), agent_client_protocol::on_receive_notification!())
        .connect_to(Stdio::new()).await;
    if let Err(e) = run { eprintln!("{e:?}"); }
    st.lock().unwrap().sessions.clear();
    tokio::time::sleep(Duration::from_millis(20)).await;
    std::process::exit(0);
}
/// stop the turns of a session, wait for them, free its servers
async fn end_session(st: &Shared, sid: &str) -> bool {
    {
        let mut g = st.lock().unwrap();
        let fault = g.fault.clone();
        let Some(s) = g.sessions.get_mut(sid) else { return false };
        if fault == "mole-close-hang" && !s.turns.is_empty() { s.dropped = true; }
        for t in &s.turns { let _ = t.1.send(true); }
    }
    for _ in 0..300 {
        if st.lock().unwrap().sessions.get(sid).is_none_or(|s| s.turns.is_empty()) { break; }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    if let Some(s) = st.lock().unwrap().sessions.get_mut(sid) {
        s.mcp.clear();
        s.open = false;
    }
    true
}
