//! one stdio MCP server
use serde_json::{json, Value};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

pub struct Mcp {
    _child: Child,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    seq: u64,
    pub tools: Vec<String>,
}
impl Mcp {
    pub async fn start(spec: &Value, cwd: &str) -> Result<Mcp, String> {
        let mut c = Command::new(spec["command"].as_str().ok_or("not stdio")?);
        for a in spec["args"].as_array().into_iter().flatten() {
            c.arg(a.as_str().unwrap_or(""));
        }
        for e in spec["env"].as_array().into_iter().flatten() {
            c.env(e["name"].as_str().unwrap_or("_"), e["value"].as_str().unwrap_or(""));
        }
        c.current_dir(cwd).kill_on_drop(true).stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::null());
        let mut child = c.spawn().map_err(|e| e.to_string())?;
        let stdin = child.stdin.take().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut m = Mcp { _child: child, stdin, lines, seq: 0, tools: vec![] };
        m.call("initialize", json!({"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":env!("CARGO_PKG_NAME"),"version":env!("CARGO_PKG_VERSION")}})).await?;
        m.post(json!({"jsonrpc":"2.0","method":"notifications/initialized"})).await?;
        let t = m.call("tools/list", json!({})).await?;
        m.tools = t["tools"].as_array().into_iter().flatten().filter_map(|t| t["name"].as_str().map(String::from)).collect();
        Ok(m)
    }
    async fn post(&mut self, v: Value) -> Result<(), String> {
        self.stdin.write_all(format!("{v}\n").as_bytes()).await.map_err(|e| e.to_string())
    }
    pub async fn call(&mut self, method: &str, params: Value) -> Result<Value, String> {
        self.seq += 1;
        let id = self.seq;
        self.post(json!({"jsonrpc":"2.0","id":id,"method":method,"params":params})).await?;
        let wait = async {
            while let Ok(Some(l)) = self.lines.next_line().await {
                let Ok(v) = serde_json::from_str::<Value>(&l) else { continue };
                if v["id"] == json!(id) && v.get("method").is_none() {
                    return match v.get("error") {
                        Some(e) => Err(e["message"].as_str().unwrap_or("error").to_string()),
                        None => Ok(v["result"].clone()),
                    };
                }
            }
            Err("MCP server closed".into())
        };
        tokio::time::timeout(Duration::from_secs(15), wait).await.unwrap_or(Err("MCP server is silent".into()))
    }
}

