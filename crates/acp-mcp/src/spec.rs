//! How to reach an MCP server.

use std::fmt;
use std::path::PathBuf;

use serde_json::Value;

/// A server to connect to: a program that speaks on its standard streams, or a streamable-HTTP address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerSpec {
    /// A program to start. It gets its own process group and is killed with the [`crate::McpClient`].
    Stdio {
        /// The program: an absolute path, or a name found on `PATH`.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Variables set on top of the inherited environment.
        env: Vec<(String, String)>,
        /// Its working folder; ours when absent.
        cwd: Option<PathBuf>,
    },
    /// A streamable-HTTP endpoint.
    Http {
        /// The endpoint's address, for instance `http://127.0.0.1:7000/mcp`.
        url: String,
        /// Headers sent with every request.
        headers: Vec<(String, String)>,
    },
}

impl ServerSpec {
    /// The server of an `mcpServers` entry (`name`, and `command`, `args`, `env`, or `type`, `url`, `headers`), started
    /// in `cwd` if that is a folder; nothing when the entry lacks what it needs.
    pub fn from_session(server: &Value, cwd: &str) -> Option<Self> {
        let text = |key: &str| server.get(key).and_then(Value::as_str).map(str::to_owned);
        let pairs = |key: &str| -> Vec<(String, String)> {
            let items = server.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            let pair =
                |item: &Value| Some((item["name"].as_str()?.to_owned(), item["value"].as_str()?.to_owned()));
            items.iter().filter_map(pair).collect()
        };
        if server.get("type").and_then(Value::as_str) == Some("http") {
            return Some(Self::Http { url: text("url")?, headers: pairs("headers") });
        }
        let args = server.get("args").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        Some(Self::Stdio {
            command: text("command")?,
            args: args.iter().filter_map(|arg| arg.as_str().map(str::to_owned)).collect(),
            env: pairs("env"),
            cwd: Some(PathBuf::from(cwd)).filter(|folder| folder.is_dir()),
        })
    }
}

impl fmt::Display for ServerSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdio { command, .. } => write!(f, "MCP server {command:?}"),
            Self::Http { url, .. } => write!(f, "MCP server at {url}"),
        }
    }
}
